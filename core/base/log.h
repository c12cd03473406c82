/* log.h - the log of an engine: lines that say what was chosen and why, each with a level and a subject. An unwanted
 * line costs only a comparison of levels. */
#ifndef KVC_CORE_BASE_LOG_H
#define KVC_CORE_BASE_LOG_H

#include "kvcull.h"

struct kvc_log {
    uint8_t level[KVC_LOG_SUBJECTS]; /* lines of a subject up to this level are written */
    kvc_log_fn *write;               /* NULL: standard error */
    void *user;
    int64_t rank; /* rank of this process in a parallel run; -1: it is the only process */
};

/* Returns true if the log, which may be NULL, writes lines of this level and subject. */
static inline bool kvc_log_wants(const struct kvc_log *log, enum kvc_log_level level, enum kvc_log_subject subject) {
    return log && level <= log->level[subject];
}

/* Writes a line if it is wanted; only then are the arguments computed. */
#define KVC_LOG(log, at, subject, ...)                                                                                 \
    do {                                                                                                               \
        if (kvc_log_wants(log, at, subject))                                                                           \
            kvc_log_write(log, at, subject, __VA_ARGS__);                                                              \
    } while (0)

void kvc_log_write(const struct kvc_log *log, enum kvc_log_level level, enum kvc_log_subject subject,
                   const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 4, 5)))
#endif
    ;

/* Reads "LEVEL[,SUBJECT...]" into the levels of `log`; NULL: off. Error messages call the text `name`. */
enum kvc_status kvc_log_read(const char *name, const char *text, struct kvc_log *log, struct kvc_error *error);

#endif

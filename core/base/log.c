/* log.c - the names of the log's levels and subjects, the parser of LEVEL[,SUBJECT...], and the writer of lines. */
#include "core/base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const levels[] = {[KVC_LOG_OFF] = "off",
                                     [KVC_LOG_ERROR] = "error",
                                     [KVC_LOG_WARN] = "warn",
                                     [KVC_LOG_INFO] = "info",
                                     [KVC_LOG_DEBUG] = "debug"};

static const struct {
    const char *name, *summary;
} subjects[KVC_LOG_SUBJECTS] = {
    [KVC_LOG_DEVICE] = {"device", "the backend, its instruction set and its memory"},
    [KVC_LOG_MODEL] = {"model", "shapes, weight types and arithmetic of a model"},
    [KVC_LOG_MEMORY] = {"memory", "blocks that lists get and free, and requests that fail"},
    [KVC_LOG_CACHE] = {"cache", "entry types, lists, evictions and copies of sessions"},
    [KVC_LOG_POLICY] = {"policy", "which method holds which stage, and how a prompt is computed"},
    [KVC_LOG_RANKS] = {"ranks", "how the processes of a parallel run divide the work"},
    [KVC_LOG_SERVER] = {"server", "admission of requests, and reuse of sessions"}};

bool kvc_log_subject(size_t i, const char **name, const char **summary) {
    if (i >= KVC_LOG_SUBJECTS)
        return false;
    *name = subjects[i].name;
    *summary = subjects[i].summary;
    return true;
}

const char *kvc_log_level_name(enum kvc_log_level level) {
    return (size_t)level < sizeof levels / sizeof *levels ? levels[level] : "?";
}

static bool same(const char *name, const char *word, size_t length) {
    return strlen(name) == length && memcmp(name, word, length) == 0;
}

static enum kvc_status unknown_subject(const char *name, const char *text, const char *word, size_t length,
                                       struct kvc_error *error) {
    struct kvc_nearest nearest = kvc_nearest(word, length);
    char all[100] = "", hint[KVC_NEAREST_HINT];
    for (size_t i = 0, used = 0; i < KVC_LOG_SUBJECTS; i++) {
        kvc_nearest_try(&nearest, subjects[i].name, strlen(subjects[i].name));
        used += (size_t)snprintf(all + used, sizeof all - used, "%s%s", i ? ", " : "", subjects[i].name);
    }
    return kvc_fail(error, KVC_USAGE, "%s=%s: '%.*s' is not a subject; the subjects are %s%s", name, text, (int)length,
                    word, all, kvc_nearest_hint(&nearest, hint));
}

enum kvc_status kvc_log_read(const char *name, const char *text, struct kvc_log *log, struct kvc_error *error) {
    uint8_t chosen[KVC_LOG_SUBJECTS] = {0};
    size_t level = 0;
    memset(log->level, KVC_LOG_OFF, sizeof log->level);
    if (!text)
        return KVC_OK;
    const char *word = text;
    size_t length = strcspn(word, ",");
    while (level < sizeof levels / sizeof *levels && !same(levels[level], word, length))
        level++;
    if (level == sizeof levels / sizeof *levels)
        return kvc_fail(error, KVC_USAGE,
                        "%s=%s: '%.*s' is not a level; the levels are error, warn, info, debug and off", name, text,
                        (int)length, word);
    const bool every = !word[length];
    while (word[length]) {
        size_t i = 0;
        word += length + 1;
        length = strcspn(word, ",");
        while (i < KVC_LOG_SUBJECTS && !same(subjects[i].name, word, length))
            i++;
        if (i == KVC_LOG_SUBJECTS)
            return unknown_subject(name, text, word, length, error);
        chosen[i] = 1;
    }
    for (size_t i = 0; i < KVC_LOG_SUBJECTS; i++)
        log->level[i] = every || chosen[i] ? (uint8_t)level : (uint8_t)KVC_LOG_OFF;
    return KVC_OK;
}

static void put_line(const struct kvc_log *log, enum kvc_log_level level, enum kvc_log_subject subject,
                     const char *format, va_list arguments) {
    char text[1000], line[500], rank[40] = "";
    vsnprintf(text, sizeof text, format, arguments);
    kvc_printable(text, strlen(text), line, sizeof line);
    if (log->write) {
        log->write(log->user, level, subject, line);
        return;
    }
    if (log->rank >= 0)
        snprintf(rank, sizeof rank, " rank %lld:", (long long)log->rank);
    fprintf(stderr, "kvcull:%s %s: %s: %s\n", rank, kvc_log_level_name(level), subjects[subject].name, line);
}

void kvc_log_write(const struct kvc_log *log, enum kvc_log_level level, enum kvc_log_subject subject,
                   const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    put_line(log, level, subject, format, arguments);
    va_end(arguments);
}

/* metrics.h - the server's counters, for Prometheus. */
#ifndef KVC_SERVE_METRICS_H
#define KVC_SERVE_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "serve/text.h"

enum { SERVE_BUCKETS = 12, SERVE_METHODS = 64 };

struct serve_histogram {
    uint64_t bucket[SERVE_BUCKETS + 1]; /* counts for each bound in metrics.c, and for larger values */
    double sum;
    uint64_t count;
};

struct serve_metrics {
    uint64_t requests, answers, refused, cancelled, failed, turned_away; /* counts since the server started */
    uint64_t prompt_tokens, cached_tokens, answer_tokens;
    uint64_t steps, step_rows; /* number of decode steps, and of rows (answers) in them */
    uint64_t read_bytes;       /* bytes that decode steps read from caches */
    uint64_t running, kept;    /* numbers at this moment: answers being computed, cached sessions */
    uint64_t connections;
    uint64_t reserved, kept_bytes;
    uint64_t memory[5]; /* as in struct kvc_memory, when the last round ended */
    struct serve_histogram first_token, step, request;
    struct serve_evictions {
        char name[64]; /* the policy: the names of its methods, joined by + */
        uint64_t entries;
    } evictions[SERVE_METHODS];
    size_t evictions_count;
};

struct serve;
void serve_observe(struct serve_histogram *histogram, double seconds);
/* Counts entries that an answer's policy evicted. When the table is full, further policies count as "other". */
void serve_count_evictions(struct serve_metrics *metrics, const char *spec, uint64_t entries);
void serve_metrics_print(struct serve_text *text, struct serve *serve); /* locks the metrics itself */

#endif

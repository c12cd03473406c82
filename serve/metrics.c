/* metrics.c - counters, gauges and histograms in Prometheus format. */
#include <string.h>

#include "serve/serve.h"

static const double bounds[SERVE_BUCKETS] = {0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300};

void serve_observe(struct serve_histogram *histogram, double seconds) {
    size_t i = 0;
    while (i < SERVE_BUCKETS && seconds > bounds[i])
        i++;
    histogram->bucket[i]++;
    histogram->sum += seconds;
    histogram->count++;
}

/* Converts "snapkv:budget=512+morphkv:budget=600" to "snapkv+morphkv", for example. */
static void method_names(const char *spec, char *name, size_t capacity) {
    bool options = false;
    size_t at = 0;
    for (; *spec && at + 1 < capacity; spec++) {
        options = *spec == ':' || (options && *spec != '+');
        if (!options)
            name[at++] = *spec;
    }
    name[at] = '\0';
}

void serve_count_evictions(struct serve_metrics *metrics, const char *spec, uint64_t entries) {
    char name[sizeof metrics->evictions[0].name];
    size_t i = 0;
    method_names(spec, name, sizeof name);
    while (i < metrics->evictions_count && strcmp(metrics->evictions[i].name, name) != 0)
        i++;
    if (i == SERVE_METHODS)
        i--;
    if (i == metrics->evictions_count) {
        metrics->evictions_count++;
        snprintf(metrics->evictions[i].name, sizeof name, "%s", i == SERVE_METHODS - 1 ? "other" : name);
    }
    metrics->evictions[i].entries += entries;
}

static void head(struct serve_text *text, const char *name, const char *type, const char *help) {
    serve_text_print(text, "# HELP kvcull_%s %s\n# TYPE kvcull_%s %s\n", name, help, name, type);
}

static void print_histogram(struct serve_text *text, const struct serve_histogram *histogram, const char *name,
                            const char *help) {
    uint64_t sum = 0;
    head(text, name, "histogram", help);
    for (size_t i = 0; i < SERVE_BUCKETS; i++) {
        sum += histogram->bucket[i];
        serve_text_print(text, "kvcull_%s_bucket{le=\"%g\"} %llu\n", name, bounds[i], (unsigned long long)sum);
    }
    serve_text_print(text, "kvcull_%s_bucket{le=\"+Inf\"} %llu\nkvcull_%s_sum %.9g\nkvcull_%s_count %llu\n", name,
                     (unsigned long long)histogram->count, name, histogram->sum, name,
                     (unsigned long long)histogram->count);
}

void serve_metrics_print(struct serve_text *text, struct serve *serve) {
    static const char *const kinds[KVC_MEMORY_KINDS] = {"weights", "cache", "state", "hidden", "scratch"};
    struct serve_metrics m;
    pthread_mutex_lock(&serve->lock);
    m = serve->metrics;
    const uint64_t queued = serve->queued, buffered = serve->buffered;
    pthread_mutex_unlock(&serve->lock);
    const struct {
        const char *name, *type, *help;
        uint64_t value;
    } rows[] = {
        {"requests_total", "counter", "Accepted requests for answers.", m.requests},
        {"answers_total", "counter", "Finished answers.", m.answers},
        {"refused_total", "counter", "Requests refused because of their content.", m.refused},
        {"cancelled_total", "counter", "Requests whose clients disconnected.", m.cancelled},
        {"failed_total", "counter", "Requests that failed, or waited too long.", m.failed},
        {"connections_refused_total", "counter", "Connections closed because there were too many.", m.turned_away},
        {"prompt_tokens_total", "counter", "Tokens of prompts.", m.prompt_tokens},
        {"cached_tokens_total", "counter", "Prompt tokens that a cached session provided.", m.cached_tokens},
        {"answer_tokens_total", "counter", "Tokens of answers.", m.answer_tokens},
        {"decode_steps_total", "counter", "Decode steps.", m.steps},
        {"decode_rows_total", "counter", "Answers in decode steps. Divided by decode_steps_total: the mean batch size.",
         m.step_rows},
        {"cache_read_bytes_total", "counter", "Bytes of caches that finished answers read.", m.read_bytes},
        {"connections", "gauge", "Open connections.", m.connections},
        {"queue_requests", "gauge", "Requests in the queue.", queued},
        {"running_answers", "gauge", "Answers being computed.", m.running},
        {"kept_sessions", "gauge", "Cached sessions.", m.kept},
        {"reserved_bytes", "gauge", "Bytes reserved for answers.", m.reserved},
        {"buffered_bytes", "gauge", "Bytes reserved for unread output of streams.", buffered},
        {"kept_bytes", "gauge", "Bytes of cached sessions.", m.kept_bytes},
        {"limit_bytes", "gauge", "Bytes that sessions may hold (--mem).", serve->memory}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        head(text, rows[i].name, rows[i].type, rows[i].help);
        serve_text_print(text, "kvcull_%s %llu\n", rows[i].name, (unsigned long long)rows[i].value);
    }
    head(text, "memory_bytes", "gauge", "Bytes held now, by kind.");
    for (size_t i = 0; i < KVC_MEMORY_KINDS; i++)
        serve_text_print(text, "kvcull_memory_bytes{kind=\"%s\"} %llu\n", kinds[i], (unsigned long long)m.memory[i]);
    head(text, "evicted_entries_total", "counter", "Entries evicted during finished answers, by policy.");
    for (size_t i = 0; i < m.evictions_count; i++) {
        serve_text_put(text, "kvcull_evicted_entries_total{method=");
        serve_text_string(text, m.evictions[i].name, strlen(m.evictions[i].name));
        serve_text_print(text, "} %llu\n", (unsigned long long)m.evictions[i].entries);
    }
    print_histogram(text, &m.first_token, "first_token_seconds", "From a request's arrival to its first token.");
    print_histogram(text, &m.step, "decode_step_seconds", "A decode step.");
    print_histogram(text, &m.request, "request_seconds", "From a request's arrival to its end.");
}

/* span_table.c - prints a table in the terminal that shows when spans were evicted. */
#include "eval/results.h"
#include "eval/trace.h"

#include <string.h>

void eval_layers_text(const size_t *layers, size_t count, char text[48]) {
    size_t at = 0;
    text[0] = '\0';
    for (size_t i = 0; i < count; i++)
        at += (size_t)snprintf(text + at, 48 - at, "%s%u", i ? "," : "", (unsigned)layers[i]);
    if (count == 0)
        snprintf(text, 48, "-");
}

static double span_table_share(uint64_t part, uint64_t whole) { return whole ? (double)part / (double)whole : 0; }

static void add_row(struct cli_table *table, const json_t *record, const json_t *span) {
    struct eval_span_sums sums;
    char worst[48], best[48];
    eval_span_sum(json_object_get(record, "trace"), span, &sums);
    eval_layers_text(sums.worst, sums.worst_count, worst);
    eval_layers_text(sums.best, sums.best_count, best);
    cli_cell(table, "%s", eval_member(record, "kv"));
    cli_cell(table, "%s", eval_member(record, "question"));
    cli_cell(table, "%.2f", span_table_share(sums.prompt_all, sums.lists));
    cli_cell(table, "%.2f", span_table_share(sums.prompt_any, sums.lists));
    cli_cell(table, "%.2f", span_table_share(sums.end_all, sums.lists));
    cli_cell(table, "%.2f", span_table_share(sums.end_any, sums.lists));
    if (sums.moment)
        cli_cell(table, "%s (%.0f %%)", sums.moment, 100 * span_table_share(sums.moment_lost, sums.entries));
    else
        cli_cell(table, "-");
    cli_cell(table, "%s", best);
    cli_cell(table, "%s", worst);
}

/* Returns true if an earlier trace has the span, so that its table has been printed. */
static bool printed(const json_t *traces, size_t i, const json_t *span) {
    const json_t *record = json_array_get(traces, i), *other;
    size_t s;
    for (size_t j = 0; j < i; j++) {
        const json_t *spans = json_object_get(json_object_get(json_array_get(traces, j), "trace"), "spans");
        json_array_foreach(spans, s, other) {
            if (eval_same_span(json_array_get(traces, j), other, record, span))
                return true;
        }
    }
    return false;
}

static int print_span(const struct eval_results *results, size_t i, const json_t *span) {
    const json_t *traces = results->traces, *record = json_array_get(traces, i), *other;
    struct cli_table *table = cli_table_open("<policy|<asked|prompt|any|end|any|<most lost at|<best|<worst");
    const long long first = (long long)json_integer_value(json_object_get(span, "first"));
    const long long count = (long long)json_integer_value(json_object_get(span, "count"));
    char line[640], clean[640];
    size_t s;
    snprintf(line, sizeof line,
             "%s, sample %lld of %lld tokens: the share of heads that hold all of tokens %lld to %lld, \"%.200s\", or "
             "any of "
             "them, after the prompt and at the answer's end; then the layers that hold most and least of them",
             eval_member(record, "task"), (long long)json_integer_value(json_object_get(record, "sample")) + 1,
             (long long)json_integer_value(json_object_get(record, "prompt_tokens")), first, first + count - 1,
             eval_member(span, "what"));
    kvc_printable(line, strlen(line), clean, sizeof clean);
    cli_wrap(stdout, clean, 0);
    printf("\n");
    for (size_t j = i; j < json_array_size(traces); j++) {
        const json_t *spans = json_object_get(json_object_get(json_array_get(traces, j), "trace"), "spans");
        json_array_foreach(spans, s, other) {
            if (eval_same_span(record, span, json_array_get(traces, j), other))
                add_row(table, json_array_get(traces, j), other);
        }
    }
    const int status = cli_table_print(results->command, table, stdout);
    cli_table_free(table);
    printf("\n");
    return status;
}

int eval_spans_print(const struct eval_results *results) {
    const json_t *span;
    int status = KVC_OK;
    for (size_t i = 0; i < json_array_size(results->traces) && status == KVC_OK; i++) {
        const json_t *trace = json_object_get(json_array_get(results->traces, i), "trace");
        const json_t *spans = json_object_get(trace, "spans");
        size_t s;
        json_array_foreach(spans, s, span) {
            if (status == KVC_OK && !printed(results->traces, i, span))
                status = print_span(results, i, span);
        }
    }
    return status;
}

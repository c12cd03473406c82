/* report_spans.c - shows when spans of the text were evicted: as a table, and as maps of what each head holds at the
 * end. */
#include "eval/report.h"
#include "eval/trace.h"

#include <string.h>

static double report_spans_share(uint64_t part, uint64_t whole) { return whole ? (double)part / (double)whole : 0; }

/* Writes the three moments with the most evictions. */
static void write_moments(FILE *out, const json_t *trace, const json_t *span, double entries) {
    const json_t *lost = json_object_get(span, "lost"), *moments = json_object_get(trace, "moments");
    size_t done[3] = {SIZE_MAX, SIZE_MAX, SIZE_MAX};
    for (size_t n = 0; n < 3; n++) {
        json_int_t most = 0;
        for (size_t m = 0; m < json_array_size(lost); m++) {
            const json_int_t then = json_integer_value(json_array_get(lost, m));
            if (then > most && m != done[0] && m != done[1]) {
                most = then;
                done[n] = m;
            }
        }
        if (most == 0) {
            fputs(n == 0 ? "never" : "", out);
            return;
        }
        fputs(n > 0 ? "<br/>" : "", out);
        report_text(out, json_string_value(json_array_get(moments, done[n])));
        fprintf(out, ": %.0f %%", 100 * (double)most / entries);
    }
}

static void write_layers(FILE *out, const char *label, const size_t *layers, size_t count) {
    char text[48];
    eval_layers_text(layers, count, text);
    fprintf(out, "<td data-l=\"%s\">%s</td>", label, text);
}

static void table_row(const struct report *report, const json_t *record, const json_t *span) {
    FILE *out = report->out;
    const json_t *trace = json_object_get(record, "trace");
    struct eval_span_sums sums;
    eval_span_sum(trace, span, &sums);
    fputs("<tr><td class=\"l\">", out);
    report_policy(report, report_policy_number(report, eval_member(record, "kv")));
    fprintf(out,
            "</td><td data-l=\"question\">%s</td><td data-l=\"all, after the prompt\">%.2f</td><td data-l=\"any, after "
            "the prompt\">%.2f</td><td data-l=\"all, at the end\">%.2f</td><td data-l=\"any, at the end\">%.2f</td><td "
            "data-l=\"lost at\">",
            eval_member(record, "question"), report_spans_share(sums.prompt_all, sums.lists),
            report_spans_share(sums.prompt_any, sums.lists), report_spans_share(sums.end_all, sums.lists),
            report_spans_share(sums.end_any, sums.lists));
    write_moments(out, trace, span, (double)sums.entries);
    fputs("</td>", out);
    write_layers(out, "best layers", sums.best, sums.best_count);
    write_layers(out, "worst layers", sums.worst, sums.worst_count);
    fputs("</tr>\n", out);
}

/* Calls `write` for each trace that has the span, beginning at index i. If `write` is NULL, only checks the traces
 * below index i, and returns false if one of them has the span. */
static bool each_with(const struct report *report, size_t i, const json_t *span,
                      void (*write)(const struct report *, const json_t *, const json_t *)) {
    const json_t *traces = report->results->traces, *record = json_array_get(traces, i), *other;
    size_t s;
    for (size_t j = write ? i : 0; j < (write ? json_array_size(traces) : i); j++) {
        const json_t *with = json_array_get(traces, j);
        const json_t *spans = json_object_get(json_object_get(with, "trace"), "spans");
        json_array_foreach(spans, s, other) {
            if (!eval_same_span(record, span, with, other))
                continue;
            if (!write)
                return false;
            write(report, with, other);
        }
    }
    return true;
}

static void map(const struct report *report, const json_t *record, const json_t *span) {
    FILE *out = report->out;
    fputs("<figure><figcaption>", out);
    report_policy(report, report_policy_number(report, eval_member(record, "kv")));
    fprintf(out, " %s</figcaption>", eval_member(record, "question"));
    report_map(out, json_object_get(span, "end"), (double)json_integer_value(json_object_get(span, "count")),
               "tokens of the span in each head of each layer at the answer's end");
    fputs("</figure>\n", out);
}

static void write_span(const struct report *report, size_t i, const json_t *span) {
    FILE *out = report->out;
    const json_t *record = json_array_get(report->results->traces, i);
    const json_int_t first = json_integer_value(json_object_get(span, "first"));
    const json_int_t count = json_integer_value(json_object_get(span, "count"));
    fputs("<h3>\"<bdi>", out);
    report_text(out, eval_member(span, "what"));
    fputs("</bdi>\" <small>", out);
    report_text(out, eval_member(record, "task"));
    fprintf(out, ", sample %lld: tokens %lld to %lld of %lld</small></h3>\n",
            (long long)json_integer_value(json_object_get(record, "sample")) + 1, (long long)first,
            (long long)(first + count - 1), (long long)json_integer_value(json_object_get(record, "prompt_tokens")));
    fputs(
        "<table class=\"lost\"><thead><tr><th class=\"l\">policy</th><th>question</th><th>all, after the prompt</th>"
        "<th>any</th><th>all, at the end</th><th>any</th><th>lost at</th><th>best layers</th><th>worst layers</th></tr>"
        "</thead><tbody>\n",
        out);
    (void)each_with(report, i, span, table_row);
    fputs("</tbody></table>\n<div class=\"maps\">\n", out);
    (void)each_with(report, i, span, map);
    fputs("</div>\n", out);
}

void report_spans(const struct report *report) {
    const json_t *traces = report->results->traces, *record, *span;
    bool begun = false;
    size_t i, s;
    json_array_foreach(traces, i, record) {
        const json_t *spans = json_object_get(json_object_get(record, "trace"), "spans");
        json_array_foreach(spans, s, span) {
            if (!each_with(report, i, span, NULL))
                continue;
            if (!begun) {
                fputs(
                    "<section><h2>Where it was lost</h2>\n<p>For the text with the answer: the share of all heads that "
                    "hold all of its tokens, or any of them, after the prompt and at the answer's end; the moments "
                    "with the most evictions; and what each head holds at the end.</p>\n",
                    report->out);
                report_scale(report->out, "none of its tokens", "all");
            }
            begun = true;
            write_span(report, i, span);
        }
    }
    if (begun)
        fputs("</section>\n", report->out);
}

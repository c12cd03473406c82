/* report_depths.c - draws heat maps of scores by depth and length, for tasks with depths. */
#include "eval/report.h"
#include "eval/trace.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 64 }; /* largest number of lengths, and of depths */

struct heat { /* a map, for one model, task, policy and question mode */
    double lengths[MOST], depths[MOST];
    size_t length_count, depth_count;
    double sum[MOST][MOST], count[MOST][MOST]; /* [depth][length] */
};

/* Returns the index of a value in a sorted array, and inserts the value if it is new. Returns MOST if there is no
 * room. */
static size_t place_of(double *values, size_t *count, double value) {
    size_t at = 0;
    while (at < *count && values[at] < value)
        at++;
    if (at < *count && values[at] == value)
        return at;
    if (*count == MOST)
        return MOST;
    memmove(values + at + 1, values + at, (*count - at) * sizeof *values);
    values[at] = value;
    (*count)++;
    return at;
}

/* Returns true if a record belongs to the same heat map as `like`: it has the same model settings, task, policy and
 * question mode. If `any_policy` is true, policy and question mode may differ. */
static bool belongs(const json_t *record, const json_t *like, bool any_policy) {
    static const char *const fields[] = {"model",  "weights", "arithmetic", "cache_type",
                                         "prompt", "task",    "kv",         "question"};
    if (!json_is_number(json_object_get(record, "depth")) || json_object_get(record, "unit"))
        return false;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (any_policy && i >= 6)
            break;
        if (strcmp(eval_member(record, fields[i]), eval_member(like, fields[i])))
            return false;
    }
    return true;
}

/* First collects the lengths and depths of all policies, so that their maps have the same axes. Then adds up the scores
 * of one policy. */
static void report_depths_fill(const struct report *report, const json_t *like, struct heat *heat) {
    const json_t *record;
    size_t i;
    memset(heat, 0, sizeof *heat);
    for (int pass = 0; pass < 2; pass++) {
        json_array_foreach(report->results->records, i, record) {
            if (!belongs(record, like, pass == 0))
                continue;
            const double depth = json_number_value(json_object_get(record, "depth"));
            const double score = json_number_value(json_object_get(record, "score"));
            const size_t row = place_of(heat->depths, &heat->depth_count, depth);
            const size_t column = place_of(heat->lengths, &heat->length_count,
                                           (double)json_integer_value(json_object_get(record, "length")));
            if (pass == 1 && row < MOST && column < MOST) {
                heat->sum[row][column] += score;
                heat->count[row][column]++;
            }
        }
    }
}

static void report_depths_draw(const struct report *report, const json_t *like, const struct heat *heat) {
    FILE *out = report->out;
    const double left = 38, wide = 230.0 / (double)heat->length_count, high = heat->depth_count <= 12 ? 16 : 9;
    const double height = 8 + high * (double)heat->depth_count + 34;
    const size_t each_length = heat->length_count / 5 + 1, each_depth = heat->depth_count / 12 + 1;
    fputs("<figure class=\"small\"><figcaption>", out);
    report_policy(report, report_policy_number(report, eval_member(like, "kv")));
    fprintf(out,
            " %s</figcaption><svg viewBox=\"0 0 276 %.0f\" role=\"img\" aria-label=\"score by depth and length\">\n",
            eval_member(like, "question"), height);
    for (size_t d = 0; d < heat->depth_count; d++) {
        const double y = 6 + high * (double)d;
        if (d % each_depth == 0)
            fprintf(out, "<text x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\" class=\"ax\">%.0f %%</text>", left - 4,
                    y + high / 2 + 3.5, 100 * heat->depths[d]);
        for (size_t l = 0; l < heat->length_count; l++) {
            const double x = left + wide * (double)l, count = heat->count[d][l];
            if (count <= 0)
                continue;
            const unsigned level = report_level(heat->sum[d][l] / count);
            fprintf(
                out,
                "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" class=\"h%u\"><title>%.0f tokens, depth "
                "%.0f %%: %.2f of %.0f</title></rect>",
                x, y, wide - 1, high - 1, level, heat->lengths[l], 100 * heat->depths[d], heat->sum[d][l] / count,
                count);
            if (wide >= 26 && high >= 16)
                fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" class=\"in t%u\">%.2f</text>",
                        x + wide / 2, y + 11.5, level, heat->sum[d][l] / count);
        }
        fputc('\n', out);
    }
    const double base = 6 + high * (double)heat->depth_count;
    for (size_t l = 0; l < heat->length_count; l += each_length)
        fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" class=\"ax\">%.0f</text>",
                left + wide * ((double)l + 0.5), base + 12, heat->lengths[l]);
    fprintf(out,
            "<text x=\"%.0f\" y=\"%.1f\" text-anchor=\"middle\" class=\"ax\">tokens (depth: "
            "vertical)</text></svg></figure>\n",
            left + 115, base + 27);
}

void report_depths(const struct report *report) {
    const json_t *records = report->results->records, *record, *other;
    struct heat *heat = calloc(1, sizeof *heat);
    const char *task = NULL;
    size_t i, j;
    json_array_foreach(records, i, record) {
        bool first = heat && json_is_number(json_object_get(record, "depth"));
        for (j = 0; first && j < i; j++) {
            other = json_array_get(records, j);
            first = !belongs(other, record, false);
        }
        if (!first)
            continue;
        report_depths_fill(report, record, heat);
        if (!task || strcmp(task, eval_member(record, "task"))) {
            if (task)
                fputs("</div></section>\n", report->out);
            task = eval_member(record, "task");
            fputs("<section><h2>Depth and length: ", report->out);
            report_text(report->out, task);
            fputs("</h2>\n", report->out);
            report_scale(report->out, "0", "1");
            fputs("<div class=\"charts\">\n", report->out);
        }
        report_depths_draw(report, record, heat);
    }
    if (task)
        fputs("</div></section>\n", report->out);
    free(heat);
}

/* report_stayed.c - shows a sample's text, each token shaded by the fraction of heads that hold it, and a map of the
 * number of entries in each head. */
#include "eval/report.h"
#include "eval/trace.h"

#include <stdlib.h>
#include <string.h>

enum { WHOLE = 3072, ENDS = 384, AROUND = 128, OPEN = 2, BINS = 200 };

struct held { /* data of each token of a prompt */
    const json_t *trace, *text;
    size_t tokens;
    double *share; /* [tokens]: fraction of the lists that hold it */
    bool *marked;  /* [tokens]: true if it belongs to a span */
    bool *shown;   /* [tokens]: true if it is shown; of long texts, only parts are */
};

static double lists_of(const json_t *matrix) {
    double lists = 0;
    for (size_t l = 0; l < json_array_size(matrix); l++)
        lists += (double)json_array_size(json_array_get(matrix, l));
    return lists;
}

static void close_held(struct held *held) {
    free(held->share);
    free(held->marked);
    free(held->shown);
}

static bool open_held(const struct report *report, const json_t *record, struct held *held) {
    const json_t *runs, *span, *spans;
    size_t s, at = 0;
    *held = (struct held){.trace = json_object_get(record, "trace")};
    held->tokens = (size_t)json_integer_value(json_object_get(record, "prompt_tokens"));
    held->text = eval_results_text(report->results, json_object_get(record, "prompt_hash"));
    held->share = calloc(held->tokens + 1, sizeof *held->share);
    held->marked = calloc(held->tokens + 1, sizeof *held->marked);
    held->shown = calloc(held->tokens + 1, sizeof *held->shown);
    if (!held->share || !held->marked || !held->shown) {
        close_held(held);
        return false;
    }
    if (held->text && json_array_size(held->text) != held->tokens)
        held->text = NULL;
    runs = json_object_get(held->trace, "held");
    const double lists = lists_of(json_object_get(held->trace, "entries"));
    for (size_t i = 0; i + 1 < json_array_size(runs); i += 2) {
        const double value = (double)json_integer_value(json_array_get(runs, i));
        for (json_int_t n = json_integer_value(json_array_get(runs, i + 1)); n > 0 && at < held->tokens; n--)
            held->share[at++] = value / lists;
    }
    for (size_t i = 0; i < held->tokens; i++)
        held->shown[i] = held->tokens <= WHOLE || i < ENDS || i + ENDS >= held->tokens;
    spans = json_object_get(held->trace, "spans");
    json_array_foreach(spans, s, span) {
        const size_t first = (size_t)json_integer_value(json_object_get(span, "first"));
        const size_t end = first + (size_t)json_integer_value(json_object_get(span, "count"));
        for (size_t i = first; i < end && i < held->tokens; i++)
            held->marked[i] = true;
        for (size_t i = first > AROUND ? first - AROUND : 0; s < 8 && i < end + AROUND && i < held->tokens; i++)
            held->shown[i] = true;
    }
    return true;
}

/* Draws the whole prompt as a strip. Each bin stands for some tokens. */
static void write_strip(FILE *out, const struct held *held) {
    const size_t bins = cli_min(BINS, held->tokens);
    fprintf(out,
            "<svg class=\"strip\" viewBox=\"0 0 %zu 20\" preserveAspectRatio=\"none\" role=\"img\" "
            "aria-label=\"share of the heads that hold each part of the prompt\">\n",
            4 * bins);
    for (size_t b = 0; b < bins; b++) {
        const size_t from = held->tokens * b / bins, to = held->tokens * (b + 1) / bins;
        double sum = 0;
        bool marked = false;
        for (size_t i = from; i < to; i++) {
            sum += held->share[i];
            marked = marked || held->marked[i];
        }
        const double share = sum / (double)(to - from);
        fprintf(out,
                "<rect x=\"%zu\" y=\"0\" width=\"4.1\" height=\"16\" class=\"h%u\"><title>tokens %zu to %zu: %.0f %%"
                "</title></rect>",
                4 * b, report_level(share), from, to - 1, 100 * share);
        if (marked)
            fprintf(out, "<rect x=\"%zu\" y=\"17\" width=\"4\" height=\"3\" fill=\"var(--mark)\"/>", 4 * b);
    }
    fputs("</svg>\n", out);
}

static void write_text(FILE *out, const struct held *held) {
    fputs("<div class=\"text\" dir=\"auto\">", out);
    for (size_t i = 0, end; i < held->tokens; i = end) {
        if (!held->shown[i]) {
            double sum = 0;
            for (end = i; end < held->tokens && !held->shown[end]; end++)
                sum += held->share[end];
            fprintf(out, "<em>... %zu tokens, %.0f %% of them held ...</em>", end - i, 100 * sum / (double)(end - i));
            continue;
        }
        const unsigned level = report_level(held->share[i]);
        fprintf(out, "<span class=\"h%u\">%s", level, held->marked[i] ? "<u>" : "");
        for (end = i; end < held->tokens && held->shown[end] && report_level(held->share[end]) == level &&
                      held->marked[end] == held->marked[i];
             end++) {
            const char *text = json_string_value(json_array_get(held->text, end));
            report_text(out, text ? text : "");
        }
        fprintf(out, "%s</span>", held->marked[i] ? "</u>" : "");
    }
    fputs("</div>\n", out);
}

static void write_one(const struct report *report, const json_t *record, bool open) {
    FILE *out = report->out;
    struct held held;
    if (!open_held(report, record, &held))
        return;
    const json_t *entries = json_object_get(held.trace, "entries");
    double most = 0, sum = 0;
    for (size_t l = 0; l < json_array_size(entries); l++) {
        for (size_t i = 0; i < json_array_size(json_array_get(entries, l)); i++) {
            const double value = (double)json_integer_value(json_array_get(json_array_get(entries, l), i));
            most = value > most ? value : most;
            sum += value;
        }
    }
    fprintf(out, "<details%s><summary>", open ? " open=\"open\"" : "");
    report_policy(report, report_policy_number(report, eval_member(record, "kv")));
    fprintf(out, " <small>question %s; %.1f %% of all entries held</small></summary>\n",
            eval_member(record, "question"), 100 * sum / ((double)held.tokens * lists_of(entries)));
    fputs("<blockquote dir=\"auto\">", out);
    const char *answer = eval_member(held.trace, "answer");
    report_text(out, answer[0] ? answer : "(no answer)");
    fputs("</blockquote>\n", out);
    write_strip(out, &held);
    fputs("<div class=\"held\">\n", out);
    if (held.text)
        write_text(out, &held);
    fputs("<figure><figcaption>Entries by layer and head</figcaption>\n", out);
    report_map(out, entries, most, "entries held by each head of each layer");
    fprintf(out, "<p class=\"dim\"><small>strongest color: %.0f entries</small></p></figure></div></details>\n", most);
    close_held(&held);
}

void report_stayed(const struct report *report) {
    FILE *out = report->out;
    const json_t *traces = report->results->traces, *record, *other;
    size_t i, j;
    if (json_array_size(traces) == 0)
        return;
    fputs(
        "<section><h2>What stayed</h2>\n<p>Each token of a prompt, shaded by the share of all heads that hold it after "
        "the prompt. The answer is underlined. The map shows how many entries each head holds."
        "</p>\n",
        out);
    report_scale(out, "no head", "every head");
    json_array_foreach(traces, i, record) {
        bool first = true;
        for (j = 0; j < i && first; j++)
            first = !eval_same_prompt(json_array_get(traces, j), record);
        if (!first)
            continue;
        fputs("<h3>", out);
        report_text(out, eval_member(record, "task"));
        fprintf(out, ", sample %lld of %lld tokens</h3>\n",
                (long long)json_integer_value(json_object_get(record, "sample")) + 1,
                (long long)json_integer_value(json_object_get(record, "prompt_tokens")));
        size_t shown = 0;
        for (j = i; j < json_array_size(traces); j++) {
            other = json_array_get(traces, j);
            if (!eval_same_prompt(other, record))
                continue;
            /* shows some policies of the first sample unfolded, but not `full`, which holds everything */
            const bool plain = strcmp(eval_member(other, "kv"), "full") == 0;
            write_one(report, other, i == 0 && !plain && shown < OPEN);
            shown += !plain;
        }
    }
    fputs("</section>\n", out);
}

/* report.c - makes a report: checks the file, writes it, and puts its parts in order. */
#include "eval/report.h"
#include "eval/trace.h"

#include <stdlib.h>
#include <string.h>

void report_text(FILE *out, const char *text) {
    const size_t bytes = strlen(text);
    for (size_t i = 0; i < bytes;) {
        enum cli_part kind;
        const size_t n = cli_part(text + i, bytes - i, &kind);
        const unsigned char *c = (const unsigned char *)text + i;
        const bool control = n == 1 && (*c < 0x20 || *c == 0x7f) && *c != '\n' && *c != '\t';
        const bool control_1 = n == 2 && c[0] == 0xc2 && c[1] < 0xa0;
        /* bidirectional controls (U+200E, U+200F, U+202A to 202E, U+2066 to 2069), which would reverse the text after
         * them */
        const bool turns = n == 3 && c[0] == 0xe2 &&
                           ((c[1] == 0x80 && (c[2] == 0x8e || c[2] == 0x8f || (c[2] >= 0xaa && c[2] <= 0xae))) ||
                            (c[1] == 0x81 && c[2] >= 0xa6 && c[2] <= 0xa9));
        const bool no_character = n == 3 && c[0] == 0xef && c[1] == 0xbf && c[2] >= 0xbe; /* U+FFFE and U+FFFF */
        i += n;
        if (kind != CLI_CHARACTER || control || control_1 || turns || no_character)
            fputs(CLI_REPLACEMENT, out);
        else if (*c == '&')
            fputs("&amp;", out);
        else if (*c == '<')
            fputs("&lt;", out);
        else if (*c == '>')
            fputs("&gt;", out);
        else if (*c == '"')
            fputs("&quot;", out);
        else if (*c == '\'')
            fputs("&#39;", out);
        else
            fwrite(c, 1, n, out);
    }
}

void report_policy(const struct report *report, size_t policy) {
    fprintf(report->out, "<span class=\"pol\"><b class=\"num f%zu\">%zu</b> <bdi class=\"spec\">",
            report->families[policy] % 8, policy + 1);
    for (const char *at = report->policies[policy]; *at;) { /* allow a line break after each option */
        char part[256];
        const size_t some = strcspn(at, ",:+"), bytes = cli_min(some + (at[some] != 0), sizeof part - 1);
        memcpy(part, at, bytes);
        part[bytes] = 0;
        report_text(report->out, part);
        fputs(bytes > 0 && strchr(",:+", part[bytes - 1]) ? "<wbr/>" : "", report->out);
        at += bytes;
    }
    fputs("</bdi></span>", report->out);
}

size_t report_policy_number(const struct report *report, const char *kv) {
    size_t i = 0;
    while (i < report->policy_count && strcmp(report->policies[i], kv))
        i++;
    return i;
}

unsigned report_level(double share) {
    if (!(share > 0))
        return 0;
    const unsigned level = 1 + (unsigned)(share * (REPORT_LEVELS - 1) - 1e-9);
    return level < REPORT_LEVELS ? level : REPORT_LEVELS - 1;
}

void report_scale(FILE *out, const char *none, const char *all) {
    fprintf(out, "<p class=\"scale\"><span>%s</span>", none);
    for (unsigned level = 0; level < REPORT_LEVELS; level++)
        fprintf(out, "<i class=\"h%u\"> </i>", level);
    fprintf(out, "<span>%s</span></p>\n", all);
}

void report_map(FILE *out, const json_t *matrix, double most, const char *what) {
    const size_t layers = json_array_size(matrix);
    size_t lists = 1;
    for (size_t l = 0; l < layers; l++)
        lists = cli_max(lists, json_array_size(json_array_get(matrix, l)));
    const double left = 34, wide = 178.0 / (double)lists;
    const double high = layers <= 12 ? 14 : layers <= 40 ? 8 : 320.0 / (double)layers;
    const double height = 16 + high * (double)layers + 4;
    const size_t each = layers <= 12 ? 2 : layers <= 40 ? 5 : (layers / 8 / 5 + 1) * 5;
    fprintf(out, "<svg class=\"map\" viewBox=\"0 0 216 %.1f\" role=\"img\" aria-label=\"", height);
    report_text(out, what);
    fprintf(out, "\"><text x=\"%.0f\" y=\"10\" class=\"ax\">head 0", left);
    if (lists > 1)
        fprintf(out, " to %zu</text><text x=\"0\" y=\"10\" class=\"ax\">", lists - 1);
    else
        fputs("</text><text x=\"0\" y=\"10\" class=\"ax\">", out);
    fputs("layer</text>\n", out);
    for (size_t l = 0; l < layers; l++) {
        const json_t *row = json_array_get(matrix, l);
        const double y = 16 + high * (double)l;
        if (l % each == 0)
            fprintf(out, "<text x=\"28\" y=\"%.1f\" text-anchor=\"end\" class=\"ax\">%zu</text>", y + high / 2 + 3.5,
                    l);
        for (size_t i = 0; i < json_array_size(row); i++) {
            const double value = (double)json_integer_value(json_array_get(row, i));
            fprintf(out,
                    "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" class=\"h%u\"><title>layer %zu, head "
                    "%zu: %.0f</title></rect>",
                    left + wide * (double)i, y, wide * 0.94, high * 0.9, report_level(most > 0 ? value / most : 0), l,
                    i, value);
        }
    }
    fputs("</svg>\n", out);
}

/* ---- the whole report ---- */

static void setting_heading(const struct report *report, const struct report_setting *setting) {
    fputs("<h2>", report->out);
    report_text(report->out, eval_member(setting->like, "model"));
    fprintf(report->out, ", %lld tokens</h2>\n<p class=\"dim\">",
            (long long)json_integer_value(json_object_get(setting->like, "length")));
    report_text(report->out, eval_member(setting->like, "weights"));
    fputs("; arithmetic ", report->out);
    report_text(report->out, eval_member(setting->like, "arithmetic"));
    fputs("; ", report->out);
    report_text(report->out, eval_member(setting->like, "cache_type"));
    fputs(" cache; prompts: ", report->out);
    report_text(report->out, eval_member(setting->like, "prompt"));
    fputs("</p>\n", report->out);
}

static void write_report(const struct report *report) {
    FILE *out = report->out;
    fputs("<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head>\n"
          "<meta charset=\"utf-8\"/>\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
          "<title>kvcull: methods compared</title>\n",
          out);
    report_style(out);
    fputs("</head>\n<body>\n<header><h1>What each method keeps, and its cost in quality</h1>\n", out);
    if (json_array_size(report->results->records) > 0)
        fprintf(out, "<p>%zu answers by %zu polic%s, made by <code>kvcull eval</code>.</p>\n",
                json_array_size(report->results->records), report->policy_count,
                report->policy_count == 1 ? "y" : "ies");
    fputs("<p><b>Seen</b> (question-aware): the question is part of the compressed prompt. <b>Unseen</b> "
          "(question-agnostic): the text is compressed before the question, which is the next turn. "
          "Intervals are 95 % confidence intervals. The charts name policies by their numbers.</p></header>\n",
          out);
    for (size_t i = 0; i < report->setting_count; i++) {
        fputs("<section>\n", out);
        setting_heading(report, &report->settings[i]);
        if (report->settings[i].mean_count > 0) {
            report_leaders(report, &report->settings[i]);
            report_curves(report, &report->settings[i]);
            report_times(report, &report->settings[i]);
        }
        report_measured(report, &report->settings[i]);
        fputs("</section>\n", out);
    }
    report_depths(report);
    report_stayed(report);
    report_spans(report);
    fprintf(out,
            "<footer><p>Made by kvcull %s. Held: bytes of the cache and the method's state after the prompt and the "
            "question. Read: bytes of the cache that a step reads. All numbers are counted.</p></footer>\n",
            KVC_VERSION);
    fputs("</body>\n</html>\n", out);
}

int eval_report_check(const struct cli_command *command, const char *path) {
    const int status = cli_check_name(command, "report", path);
    return status == KVC_OK ? cli_check_output(command, path) : status;
}

int eval_report_write(const struct eval_results *results, const char *path) {
    struct report report = {.results = results};
    struct cli_file file;
    int status = cli_check_name(results->command, "report", path);
    if (status == KVC_OK && !report_collect(&report))
        status = cli_no_memory(results->command);
    if (status == KVC_OK) {
        status = cli_file_open(results->command, path, &file);
        if (status == KVC_OK) {
            report.out = file.stream;
            write_report(&report);
            if (report.lost || cli_json_lost()) {
                cli_file_abandon(&file);
                status = cli_no_memory(results->command);
            } else {
                status = cli_file_commit(results->command, &file);
            }
        }
    }
    report_free(&report);
    return status;
}

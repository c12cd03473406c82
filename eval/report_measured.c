/* report_measured.c - writes a report's table of tasks without questions. Each of these tasks has its own unit, so no
 * leaderboard includes them. */
#include "eval/report.h"

static void cell(FILE *out, const char *label, const char *text) {
    fprintf(out, "<td data-l=\"%s\">%s</td>", label, text);
}

static void write_row(const struct report *report, const json_t *object, const json_t *measured) {
    FILE *out = report->out;
    const char *unit = json_string_value(json_object_get(object, "unit"));
    char text[32];
    fputs("<tr><td class=\"l\">", out);
    report_policy(report, report_policy_number(report, json_string_value(json_object_get(object, "kv"))));
    fputs("</td><td data-l=\"task\">", out);
    report_text(out, json_string_value(json_object_get(object, "task")));
    fprintf(out, "</td><td data-l=\"mean\"><b>%.3f</b> ", json_number_value(json_object_get(measured, "score")));
    report_text(out, unit ? unit : "");
    fprintf(out, "<br/><small>%.3f to %.3f</small></td>", json_number_value(json_object_get(measured, "low")),
            json_number_value(json_object_get(measured, "high")));
    cell(out, "held", cli_bytes((uint64_t)json_number_value(json_object_get(object, "held_bytes")), text));
    cell(out, "read per token",
         cli_bytes((uint64_t)json_number_value(json_object_get(object, "read_bytes_per_token")), text));
    fputs("</tr>\n", out);
}

void report_measured(const struct report *report, const struct report_setting *setting) {
    const json_t *rows = json_object_get(report->tables, "results"), *object;
    bool begun = false;
    size_t i;
    json_array_foreach(rows, i, object) {
        const json_t *measured = json_object_get(object, "measured");
        if (!measured || !report_same_setting(setting->like, object))
            continue;
        if (!begun)
            fputs("<h3>Measured without a question</h3>\n<p>Each of these tasks has its own unit, so no other table or "
                  "chart includes them. Fewer nats per token are better.</p>\n<table class=\"lead\"><thead><tr><th "
                  "class=\"l\">"
                  "policy</th><th>task</th><th>mean</th><th>held</th><th>read per token</th></tr></thead><tbody>\n",
                  report->out);
        begun = true;
        write_row(report, object, measured);
    }
    if (begun)
        fputs("</tbody></table>\n", report->out);
}

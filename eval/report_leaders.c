/* report_leaders.c - writes a report's leaderboard, its scores by task, and its times. */
#include "eval/report.h"

#include <string.h>

static const char *const side_names[] = {"seen", "unseen"};

/* Writes a score and its interval, as text and as a line from 0 to 1. */
static void score_cell(FILE *out, const struct report_row *row, size_t side) {
    fprintf(out, "<td data-l=\"%s\">", side_names[side]);
    if (row->samples[side] > 0) {
        fprintf(out, "<b>%.2f</b> <small>%.2f to %.2f</small>", row->score[side], row->low[side], row->high[side]);
        fprintf(out,
                "<svg class=\"ci\" viewBox=\"0 0 100 8\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"%.2f, "
                "interval %.2f to %.2f\"><rect x=\"0\" y=\"3.5\" width=\"100\" height=\"1\" class=\"rail\"/><rect "
                "x=\"%.2f\" y=\"2.5\" width=\"%.2f\" height=\"3\" class=\"span\"/><rect x=\"%.2f\" y=\"0\" "
                "width=\"2\" height=\"8\" class=\"at\"/></svg>",
                row->score[side], row->low[side], row->high[side], 100 * row->low[side],
                100 * (row->high[side] - row->low[side]), 98 * row->score[side]);
    } else {
        fputs("<span class=\"dim\">not measured</span>", out);
    }
    fputs("</td>", out);
}

void report_leaders(const struct report *report, const struct report_setting *setting) {
    FILE *out = report->out;
    char text[4][32];
    fprintf(out,
            "<h3>Leaderboard</h3>\n<p>Means over %zu task%s, best first.</p>\n<table class=\"lead\"><thead><tr><th "
            "class=\"l\">policy</th><th>score, question seen</th><th>score, unseen</th><th>held</th><th>read per "
            "token</th><th>first token</th><th>per token</th></tr></thead><tbody>\n",
            setting->task_count, setting->task_count == 1 ? "" : "s");
    for (size_t i = 0; i < setting->mean_count; i++) {
        const struct report_row *row = &setting->means[i];
        fputs("<tr><td class=\"l\">", out);
        report_policy(report, row->policy);
        fputs("</td>", out);
        score_cell(out, row, 0);
        score_cell(out, row, 1);
        fprintf(out,
                "<td data-l=\"held\">%s</td><td data-l=\"read per token\">%s</td><td data-l=\"first token\">%s</td><td "
                "data-l=\"per token\">%s</td></tr>\n",
                cli_bytes((uint64_t)row->held, text[0]), cli_bytes((uint64_t)row->read, text[1]),
                cli_time(row->first, text[2]), cli_time(row->token, text[3]));
    }
    fputs("</tbody></table>\n", out);
    for (size_t side = 0; side < 2 && setting->task_count > 1; side++) {
        bool asked = false;
        for (size_t r = 0; r < setting->row_count; r++)
            asked = asked || setting->rows[r].samples[side] > 0;
        if (!asked)
            continue;
        fprintf(out,
                "<h3>Task by task, question %s</h3>\n<table class=\"tasks\"><thead><tr><th class=\"l\">policy</th>",
                side_names[side]);
        for (size_t t = 0; t < setting->task_count; t++) {
            fputs("<th><span>", out);
            report_text(out, setting->tasks[t]);
            fputs("</span></th>", out);
        }
        fputs("</tr></thead><tbody>\n", out);
        for (size_t i = 0; i < setting->mean_count; i++) {
            fputs("<tr><td class=\"l\">", out);
            report_policy(report, setting->means[i].policy);
            fputs("</td>", out);
            for (size_t t = 0; t < setting->task_count; t++) {
                const struct report_row *found = NULL;
                for (size_t r = 0; r < setting->row_count; r++) {
                    const struct report_row *row = &setting->rows[r];
                    if (row->policy == setting->means[i].policy && strcmp(row->task, setting->tasks[t]) == 0)
                        found = row;
                }
                fputs("<td data-l=\"", out);
                report_text(out, setting->tasks[t]);
                if (found && found->samples[side] > 0)
                    fprintf(out, "\" class=\"h%u\"><b>%.2f</b><small>%.2f-%.2f</small></td>",
                            report_level(found->score[side]), found->score[side], found->low[side], found->high[side]);
                else
                    fputs("\"><span class=\"dim\">-</span></td>", out);
            }
            fputs("</tr>\n", out);
        }
        fputs("</tbody></table>\n", out);
    }
}

/* Writes a bar whose length is proportional to the time. The longest time has the longest bar. */
static void time_cell(FILE *out, const char *label, double seconds, double most) {
    char text[32];
    fprintf(out,
            "<td data-l=\"%s\"><span class=\"val\">%s</span><svg class=\"bar\" viewBox=\"0 0 100 8\" "
            "preserveAspectRatio=\"none\" role=\"img\" aria-label=\"%s\"><rect x=\"0\" y=\"0\" width=\"%.2f\" "
            "height=\"8\" class=\"span\"/></svg></td>",
            label, cli_time(seconds, text), text, most > 0 ? 100 * seconds / most : 0);
}

void report_times(const struct report *report, const struct report_setting *setting) {
    FILE *out = report->out;
    double first = 0, token = 0;
    for (size_t i = 0; i < setting->mean_count; i++) {
        first = setting->means[i].first > first ? setting->means[i].first : first;
        token = setting->means[i].token > token ? setting->means[i].token : token;
    }
    fputs("<h3>Time</h3>\n<p>Time to the first token, and per further token: means over all samples."
          "</p>\n<table class=\"time\"><thead><tr><th class=\"l\">policy</th><th>to the first token</th><th>per token"
          "</th></tr></thead><tbody>\n",
          out);
    for (size_t i = 0; i < setting->mean_count; i++) {
        fputs("<tr><td class=\"l\">", out);
        report_policy(report, setting->means[i].policy);
        fputs("</td>", out);
        time_cell(out, "to the first token", setting->means[i].first, first);
        time_cell(out, "per token", setting->means[i].token, token);
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table>\n", out);
}

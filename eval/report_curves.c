/* report_curves.c - draws charts of score against bytes held and bytes read. Each policy has a point and an interval.
 * Lines connect the budgets of one method, and a line shows the full cache. */
#include "eval/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDE = 380, HIGH = 270, LEFT = 48, RIGHT = 372, TOP = 12, BOTTOM = 226, MOST_POINTS = 256 };

struct point {
    double x, y; /* position in the picture */
    double low, high, bytes;
    size_t policy, family;
    bool named; /* true if it has a label, of its own or together with nearby points */
};
struct box {
    double x, y, wide, high;
};
struct chart {
    const struct report *report;
    struct point points[MOST_POINTS];
    size_t count;
    struct box taken[2 * MOST_POINTS];
    size_t taken_count;
    double least, most; /* range of the bytes, as logarithms of base 2 */
    double full;        /* score of the full cache; NAN: it was not measured */
};

static double at_x(const struct chart *chart, double bytes) {
    return LEFT + 14 + (RIGHT - LEFT - 28) * (log2(bytes) - chart->least) / (chart->most - chart->least);
}
static double at_y(double score) { return BOTTOM - (BOTTOM - TOP) * score; }

/* ---- the frame ---- */

static void axes(const struct chart *chart, const char *what) {
    FILE *out = chart->report->out;
    for (int quarter = 0; quarter <= 4; quarter++) {
        const double y = at_y(quarter / 4.0);
        fprintf(out,
                "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" class=\"grid\"/><text x=\"%d\" y=\"%.1f\" "
                "text-anchor=\"end\" class=\"ax\">%.2f</text>\n",
                LEFT, RIGHT, y, y, LEFT - 5, y + 3.5, quarter / 4.0);
    }
    /* ticks at powers of two, at most five */
    const int from = (int)ceil(chart->least - 1e-9), to = (int)floor(chart->most + 1e-9);
    const int each = (to - from) / 5 + 1;
    for (int power = from; power <= to; power += each) {
        char text[32];
        const double x = at_x(chart, exp2(power));
        cli_bytes((uint64_t)exp2(power), text);
        /* for example "64.0 KiB": drops the fraction, because powers of two have none */
        char *point = strchr(text, '.');
        if (point)
            memmove(point, strchr(point, ' '), strlen(strchr(point, ' ')) + 1);
        fprintf(out,
                "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\" class=\"grid\"/><text x=\"%.1f\" y=\"%d\" "
                "text-anchor=\"middle\" class=\"ax\">%s</text>\n",
                x, x, BOTTOM, BOTTOM + 4, x, BOTTOM + 16, text);
    }
    fprintf(out,
            "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\" class=\"ax\">%s (logarithmic)</text>\n<text x=\"10\" "
            "y=\"%d\" text-anchor=\"middle\" class=\"ax\" transform=\"rotate(-90 10 %d)\">score</text>\n",
            (LEFT + RIGHT) / 2, BOTTOM + 34, what, (TOP + BOTTOM) / 2, (TOP + BOTTOM) / 2);
}

/* ---- points and lines ---- */

static void mark(FILE *out, const struct point *p) {
    const unsigned shape = (unsigned)(p->family / 8 + p->family) % 4;
    const unsigned colour = (unsigned)(p->family % 8);
    if (shape == 0)
        fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" class=\"m f%u\">", p->x, p->y, colour);
    else if (shape == 1)
        fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"7\" height=\"7\" class=\"m f%u\">", p->x - 3.5, p->y - 3.5,
                colour);
    else if (shape == 2)
        fprintf(out, "<path d=\"M%.1f %.1fl4.5 8h-9z\" class=\"m f%u\">", p->x, p->y - 5, colour);
    else
        fprintf(out, "<path d=\"M%.1f %.1fl4.5 4.5l-4.5 4.5l-4.5 -4.5z\" class=\"m f%u\">", p->x, p->y - 4.5, colour);
}

static void draw_points(struct chart *chart) {
    FILE *out = chart->report->out;
    static const char *const ends[] = {"circle", "rect", "path", "path"};
    for (size_t i = 0; i < chart->count; i++) { /* draws lines through the budgets of each method */
        const struct point *p = &chart->points[i], *next = NULL;
        for (size_t j = 0; j < chart->count; j++) {
            const struct point *q = &chart->points[j];
            const bool after = q->bytes > p->bytes || (q->bytes == p->bytes && j > i);
            if (q->family == p->family && after && (!next || q->bytes < next->bytes))
                next = q;
        }
        if (next)
            fprintf(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"join f%u\"/>\n", p->x, p->y,
                    next->x, next->y, (unsigned)(p->family % 8));
    }
    for (size_t i = 0; i < chart->count; i++) {
        const struct point *p = &chart->points[i];
        char text[32];
        fprintf(out, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" class=\"whisker f%u\"/>", p->x, p->x,
                at_y(p->low), at_y(p->high), (unsigned)(p->family % 8));
        mark(out, p);
        fputs("<title>", out);
        report_text(out, chart->report->policies[p->policy]);
        fprintf(out, ": %.2f (%.2f to %.2f), %s</title></%s>\n", (BOTTOM - p->y) / (BOTTOM - TOP), p->low, p->high,
                cli_bytes((uint64_t)p->bytes, text), ends[(p->family / 8 + p->family) % 4]);
        chart->taken[chart->taken_count++] = (struct box){p->x - 5, p->y - 5, 10, 10};
    }
}

/* ---- labels that do not overlap points or each other ---- */

static bool is_free(const struct chart *chart, const struct box *box) {
    if (box->x < LEFT + 1 || box->x + box->wide > WIDE - 2 || box->y < 1 || box->y + box->high > BOTTOM - 1)
        return false;
    for (size_t i = 0; i < chart->taken_count; i++) {
        const struct box *other = &chart->taken[i];
        if (box->x < other->x + other->wide && other->x < box->x + box->wide && box->y < other->y + other->high &&
            other->y < box->y + box->high)
            return false;
    }
    return true;
}

/* Writes the numbers of up to four policies near this point, and how many more there are: "2,5,6,9+3". */
static void label_text(struct chart *chart, size_t i, char *text, size_t bytes) {
    const struct point *p = &chart->points[i];
    size_t at = 0, more = 0, written = 0;
    for (size_t j = i; j < chart->count; j++) {
        struct point *q = &chart->points[j];
        if (q->named || fabs(q->x - p->x) > 5 || fabs(q->y - p->y) > 5)
            continue;
        q->named = true;
        if (written == 4)
            more++;
        else
            at += (size_t)snprintf(text + at, bytes - at, "%s%zu", written ? "," : "", q->policy + 1);
        written += written < 4;
    }
    if (more)
        snprintf(text + at, bytes - at, "+%zu", more);
}

static void draw_label(struct chart *chart, size_t i) {
    FILE *out = chart->report->out;
    const struct point *p = &chart->points[i];
    char text[128];
    label_text(chart, i, text, sizeof text);
    const double wide = 6.4 * (double)strlen(text) + 3, high = 12;
    for (double away = 7; away < 160; away += 6) {
        for (unsigned turn = 0; turn < 16; turn++) {
            const double angle = (turn % 2 ? -1.0 : 1.0) * 0.393 * (turn / 2.0);
            const double x = p->x + (away + wide / 2) * cos(angle), y = p->y + (away + 2) * sin(angle);
            const struct box box = {x - wide / 2, y - high / 2, wide, high};
            if (!is_free(chart, &box))
                continue;
            if (away > 12)
                fprintf(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"lead-line\"/>", p->x, p->y,
                        x, y);
            fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" class=\"lab\">%s</text>\n", x, y + 4,
                    text);
            chart->taken[chart->taken_count++] = box;
            return;
        }
    }
}

/* Writes "full" next to its line, at a place without points. */
static void name_full(struct chart *chart) {
    const double y = at_y(chart->full);
    for (int below = 0; below < 2; below++) {
        for (double x = LEFT + 4; x < RIGHT - 26; x += 8) {
            const struct box box = {x - 2, below ? y + 3 : y - 16, 26, 13};
            if (!is_free(chart, &box))
                continue;
            fprintf(chart->report->out, "<text x=\"%.1f\" y=\"%.1f\" class=\"lab\">full</text>\n", x, box.y + 10);
            chart->taken[chart->taken_count++] = box;
            return;
        }
    }
}

/* ---- charts ---- */

static void report_curves_draw(struct chart *chart, const char *what, const char *side) {
    FILE *out = chart->report->out;
    fprintf(out,
            "<figure><figcaption>Score and %s, question %s</figcaption><svg class=\"curve\" viewBox=\"0 0 %d %d\" "
            "role=\"img\" aria-label=\"score and %s, question %s\">\n",
            what, side, WIDE, HIGH, what, side);
    axes(chart, what);
    if (!isnan(chart->full)) {
        const double y = at_y(chart->full);
        fprintf(out, "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" class=\"full\"/>", LEFT, RIGHT, y, y);
    }
    draw_points(chart);
    if (!isnan(chart->full))
        name_full(chart);
    for (size_t i = 0; i < chart->count; i++) {
        if (!chart->points[i].named)
            draw_label(chart, i);
    }
    fputs("</svg></figure>\n", out);
}

static bool report_curves_place(struct chart *chart, const struct report_setting *setting, size_t side, bool read) {
    chart->count = chart->taken_count = 0;
    chart->full = NAN;
    double least = HUGE_VAL, most = 0;
    for (size_t i = 0; i < setting->mean_count && chart->count < MOST_POINTS; i++) {
        const struct report_row *row = &setting->means[i];
        const double bytes = read ? row->read : row->held;
        if (row->samples[side] <= 0 || bytes < 1)
            continue;
        if (strcmp(chart->report->policies[row->policy], "full") == 0)
            chart->full = row->score[side];
        chart->points[chart->count++] = (struct point){.y = at_y(row->score[side]),
                                                       .low = row->low[side],
                                                       .high = row->high[side],
                                                       .bytes = bytes,
                                                       .policy = row->policy,
                                                       .family = chart->report->families[row->policy]};
        least = fmin(least, bytes);
        most = fmax(most, bytes);
    }
    chart->least = log2(least);
    chart->most = log2(most);
    if (chart->most - chart->least < 2) { /* a minimum width of the axis, for values that are all similar */
        const double middle = (chart->least + chart->most) / 2;
        chart->least = middle - 1;
        chart->most = middle + 1;
    }
    for (size_t i = 0; i < chart->count; i++)
        chart->points[i].x = at_x(chart, chart->points[i].bytes);
    return chart->count > 0;
}

void report_curves(const struct report *report, const struct report_setting *setting) {
    static const char *const sides[] = {"seen", "unseen"};
    struct chart *chart = calloc(1, sizeof *chart);
    if (!chart)
        return; /* report_collect reports that memory ran out */
    chart->report = report;
    fputs("<h3>Quality and bytes</h3>\n<div class=\"charts curves\">\n", report->out);
    for (size_t side = 0; side < 2; side++) {
        if (report_curves_place(chart, setting, side, false))
            report_curves_draw(chart, "bytes held", sides[side]);
        if (report_curves_place(chart, setting, side, true))
            report_curves_draw(chart, "bytes read per token", sides[side]);
    }
    fputs("</div>\n", report->out);
    fputs("<ul class=\"key\">", report->out);
    for (size_t i = 0; i < report->policy_count; i++) {
        fputs("<li>", report->out);
        report_policy(report, i);
        fputs("</li>", report->out);
    }
    fputs("</ul>\n", report->out);
    free(chart);
}

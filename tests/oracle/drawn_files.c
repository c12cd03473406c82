/* drawn_files.c - writes random policies: their strings, and the files that these name (scores of heads for duo,
 * statistics of queries for triattention, expected, qfilter and dms). */
#include "tests/oracle/drawn.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

void drawn_say(struct drawn *d, const char *format, ...) {
    const size_t used = strlen(d->spec);
    va_list list;
    va_start(list, format);
    vsnprintf(d->spec + used, sizeof d->spec - used, format, list);
    va_end(list);
}

static FILE *draw_file(struct drawn *d) {
    const int fd = (strcpy(d->path, "test_drawn_XXXXXX"), mkstemp(d->path));
    assert_true(fd >= 0);
    FILE *file = fdopen(fd, "w");
    assert_non_null(file);
    return file;
}

void drawn_scores(struct drawn *d) {
    FILE *file = draw_file(d);
    for (uint32_t l = 0; l < d->layers; l++)
        for (uint32_t h = 0; h < d->kv_heads; h++) {
            float *score = &d->file[l * d->kv_heads + h];
            *score = (float)drawn_below(11) / 10;
            fprintf(file, "%.1f%s", (double)*score, h + 1 < d->kv_heads ? "\t" : "\n");
        }
    assert_int_equal(fclose(file), 0);
}

static float drawn_number(FILE *file, const char *before) {
    const float number = (float)drawn_below(2001) / 1000 - 1;
    fprintf(file, "%s%.9g", before, (double)number);
    return number;
}

/* Draws the mean lengths of a head's pairs. Some pairs equal their mean in all queries. */
static void draw_spreads(FILE *file, const float *mean, uint32_t pairs, float *spread) {
    for (uint32_t i = 0; i < pairs; i++) {
        const double a = (double)mean[i], b = (double)mean[i + pairs], least = sqrt(a * a + b * b);
        const float length = (float)(least + drawn_below(3) * 0.3);
        fprintf(file, " %.9g", (double)length);
        spread[i] = (float)((double)length - least);
    }
}

void drawn_stats(struct drawn *d, enum drawn_file kind) {
    static const char *const titles[] = {"statistics", "covariances", "filters"};
    FILE *file = draw_file(d);
    const uint32_t heads = kind == DRAWN_FILTERS ? d->kv_heads : d->heads;
    const uint32_t rest = kind == DRAWN_COVARIANCES ? HEAD_SIZE * (HEAD_SIZE + 1) / 2 : HEAD_SIZE / 2;
    d->entries.pairs = drawn_below(HEAD_SIZE / 2 + 1);
    fprintf(file, "kvcull query %s 1\nmodel a replay\ntokens 9\nshape %u %u %u\n", titles[kind], d->layers, heads,
            HEAD_SIZE);
    for (uint32_t row = 0; row < d->layers * heads; row++) {
        float *mean = d->centres + (size_t)row * HEAD_SIZE, *spread = d->spreads + (size_t)row * rest;
        if (row % heads == 0)
            fprintf(file, "layer %u rotary %u\n", row / heads, 2 * d->entries.pairs);
        for (uint32_t c = 0; c < HEAD_SIZE; c++)
            mean[c] = drawn_number(file, c ? " " : "");
        if (kind == DRAWN_PAIRS)
            draw_spreads(file, mean, d->entries.pairs, spread);
        for (uint32_t i = 0; kind == DRAWN_COVARIANCES && i < rest; i++)
            spread[i] = drawn_number(file, " ");
        fprintf(file, "\n");
    }
    assert_int_equal(fclose(file), 0);
    d->entries.filter_heads = heads;
    d->entries.centre = d->centres;
    d->entries.spread = d->spreads;
}

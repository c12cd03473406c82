/* distance.h - how far the logits of --math int8 or fast are from those of float. */
#ifndef KVC_CLI_DISTANCE_H
#define KVC_CLI_DISTANCE_H

#include "cli/cli.h"

struct distance {
    FILE *rows; /* the first run's logits [count, vocab] */
    float *row; /* [vocab] */
    uint32_t vocab;
    uint64_t count, same; /* rows compared; those with the same likeliest token */
    double largest;       /* difference of any logit */
    double relative;      /* largest |first - exact| / |exact| of a row */
    double divergence;    /* sum over rows, of the first run's probabilities from the exact ones, in nats */
};
int distance_open(const struct cli_command *command, uint32_t vocab, struct distance *distance);
void distance_close(struct distance *distance); /* also of one that is all zeros */
/* All rows of the first run in order, then all of the exact one, which is that of float; false: the file cannot be
 * written or read. */
bool distance_keep(struct distance *distance, const float *logits);
bool distance_compare(struct distance *distance, uint64_t row, const float *exact);
json_t *distance_json(const struct distance *distance);
void distance_print(const struct distance *distance, const char *math);

#endif

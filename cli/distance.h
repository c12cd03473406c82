/* distance.h - measures how far the logits of --math int8 or fast are from the logits of float. */
#ifndef KVC_CLI_DISTANCE_H
#define KVC_CLI_DISTANCE_H

#include "cli/cli.h"

struct distance {
    FILE *rows; /* the first run's logits [count, vocab] */
    float *row; /* [vocab] */
    uint32_t vocab;
    uint64_t count, same; /* count: rows compared; same: rows in which both runs have the same most likely token */
    double largest;       /* largest difference between two logits */
    double relative;      /* largest value of |first - exact| / |exact| over all rows */
    double divergence;    /* sum over all rows of the divergence of the first run from the exact run, in nats */
};
int distance_open(const struct cli_command *command, uint32_t vocab, struct distance *distance);
void distance_close(struct distance *distance); /* all members may be zero */
/* Call distance_keep for each row of the first run, in order, then distance_compare for each row of the exact run
 * (float). Both return false if the file cannot be written or read. */
bool distance_keep(struct distance *distance, const float *logits);
bool distance_compare(struct distance *distance, uint64_t row, const float *exact);
json_t *distance_json(const struct distance *distance);
void distance_print(const struct distance *distance, const char *math);

#endif

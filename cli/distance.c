/* distance.c - measures how far the logits of --math int8 or fast are from the logits of float. An unnamed file keeps
 * the rows of the first run. A second run, with float, is compared with them row by row. */
#include <math.h>
#include <stdlib.h>

#include "cli/distance.h"

int distance_open(const struct cli_command *command, uint32_t vocab, struct distance *distance) {
    *distance = (struct distance){.vocab = vocab};
    distance->row = malloc((size_t)vocab * sizeof *distance->row);
    if (!distance->row)
        return cli_no_memory(command);
    distance->rows = tmpfile();
    return distance->rows ? KVC_OK : cli_error(command, KVC_RESOURCE, "no space for a temporary file of logits");
}

void distance_close(struct distance *distance) {
    if (distance->rows)
        fclose(distance->rows);
    free(distance->row);
    *distance = (struct distance){0};
}

bool distance_keep(struct distance *distance, const float *logits) {
    return fwrite(logits, sizeof *logits, distance->vocab, distance->rows) == distance->vocab;
}

static uint32_t distance_likeliest(const float *logits, uint32_t vocab) {
    uint32_t best = 0;

    for (uint32_t i = 1; i < vocab; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

/* Returns ln(sum of exp(logit)). */
static double log_sum(const float *logits, uint32_t vocab) {
    double most = -INFINITY, sum = 0;

    for (uint32_t i = 0; i < vocab; i++)
        most = logits[i] > most ? logits[i] : most;
    for (uint32_t i = 0; i < vocab; i++)
        sum += exp(logits[i] - most);
    return most + log(sum);
}

/* Returns the Kullback-Leibler divergence of the probabilities q of `other` from the probabilities p of `exact`: the
 * sum of p ln(p / q). */
static double divergence(const float *exact, const float *other, uint32_t vocab) {
    const double p = log_sum(exact, vocab), q = log_sum(other, vocab);
    double sum = 0;

    for (uint32_t i = 0; i < vocab; i++)
        sum += exp(exact[i] - p) * ((exact[i] - p) - (other[i] - q));
    return sum;
}

bool distance_compare(struct distance *distance, uint64_t row, const float *exact) {
    double difference = 0, length = 0;

    if (row == 0)
        rewind(distance->rows);
    if (fread(distance->row, sizeof *exact, distance->vocab, distance->rows) != distance->vocab)
        return false;
    for (uint32_t i = 0; i < distance->vocab; i++) {
        double d = (double)distance->row[i] - (double)exact[i];

        difference += d * d;
        length += (double)exact[i] * (double)exact[i];
        if (fabs(d) > distance->largest || isnan(d))
            distance->largest = fabs(d);
    }
    if (difference > 0 && sqrt(difference / length) > distance->relative)
        distance->relative = sqrt(difference / length);
    distance->same += distance_likeliest(distance->row, distance->vocab) == distance_likeliest(exact, distance->vocab);
    distance->divergence += divergence(exact, distance->row, distance->vocab);
    distance->count++;
    return true;
}

json_t *distance_json(const struct distance *distance) {
    json_t *object = json_object();

    cli_json_set(object, "largest", cli_json_number(distance->largest));
    cli_json_set(object, "relative", cli_json_number(distance->relative));
    cli_json_set(object, "divergence", cli_json_number(distance->divergence / (double)distance->count));
    cli_json_set(object, "same_likeliest", json_integer((json_int_t)distance->same));
    cli_json_set(object, "rows", json_integer((json_int_t)distance->count));
    return object;
}

void distance_print(const struct distance *distance, const char *math) {
    printf("%-7s largest difference from float %.2g, largest relative error of a row %.2g, same most likely token in "
           "%llu of %llu rows, mean divergence %.2g nats\n",
           math, distance->largest, distance->relative, (unsigned long long)distance->same,
           (unsigned long long)distance->count, distance->divergence / (double)distance->count);
}

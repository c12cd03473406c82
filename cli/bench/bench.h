/* bench.h - declarations shared by the files of kvcull bench. */
#ifndef KVC_CLI_BENCH_BENCH_H
#define KVC_CLI_BENCH_BENCH_H

#include "cli/cli.h"
#include "kvcull/check.h"
#include "kvcull/ranks.h"

struct bench_arguments {
    struct cli_common common;
    const char *model, *shape;
    const char *table, *beside, *only; /* table: NULL means that policies are measured; --ops sets one of the tables */
    bool ops, fill, quick;
    enum kvc_type type;
    struct cli_texts specs;
    struct cli_counts prompts, batches;
    int64_t generate, repeat, seed, entries;
};

struct bench { /* the measured model, and the data that all measurements share */
    const struct cli_command *command;
    struct bench_arguments *a;
    struct kvc_engine *engine;
    struct kvc_model *model;
    uint64_t weight_bytes; /* bytes of weights that a step reads if it needs all experts */
    double load_seconds;
    double bandwidth; /* bytes per second, the best value so far */
};

struct bench_prefill { /* one policy at one prompt length */
    const char *spec;
    uint64_t prompt;
    double *seconds; /* [repeat] */
    double median, best;
    double relative; /* median over the rounds: this policy's time divided by the first policy's time */
    uint64_t peak_bytes, kept_bytes, layer_bytes, hidden_bytes;
    uint64_t entry_bytes;   /* bytes of the keys and values of the entries kept */
    uint64_t expected_peak; /* prediction of the estimate */
    enum kvc_expected peak_kind;
    double expected_entry_bytes; /* prediction of the methods' formulas */
    enum kvc_expected entry_kind;
    struct kvc_ranks_traffic sent; /* messages that all ranks sent in one prefill */
    double computing;              /* mean number of ranks that computed at the same time */
};

enum { BENCH_POINTS = 3, BENCH_QUARTERS = 4 };
struct bench_decode { /* one policy at one batch size */
    const char *spec;
    uint64_t prompt, batch;
    double *seconds; /* [generate] seconds of each step */
    double median, mean, quarter[BENCH_QUARTERS];
    double relative; /* median over the steps: this policy's time divided by the first policy's time */
    /* read_bytes: cache bytes that a step reads; select_bytes: the part of them that is read to choose entries */
    uint64_t read_bytes, select_bytes;
    double expected_read_bytes; /* prediction of the methods' formulas */
    enum kvc_expected read_kind;
    uint64_t cache[BENCH_POINTS], resident[BENCH_POINTS]; /* bytes at the first, middle and last step */
    uint64_t peak_bytes;
    struct kvc_ranks_traffic sent; /* messages that all ranks sent in all steps */
    double computing;              /* mean number of ranks that computed at the same time */
};

/* Returns the bytes of weights that a step of `batch` sessions reads, if no two tokens choose the same expert. */
uint64_t bench_step_bytes(const struct bench *bench, uint64_t batch);
/* Measure every policy and fill results [specs]. The caller frees results[i].seconds. Return an exit status. */
int bench_run_prefill(struct bench *bench, uint64_t prompt, struct bench_prefill *results);
int bench_run_decode(struct bench *bench, uint64_t prompt, uint64_t batch, struct bench_decode *results);

int bench_print(const struct bench *bench, const struct bench_prefill *prefill, size_t prefills,
                const struct bench_decode *decode, size_t decodes);
int bench_print_json(const struct bench *bench, const struct bench_prefill *prefill, size_t prefills,
                     const struct bench_decode *decode, size_t decodes);

/* Measures and prints a table of operations of a backend. */
int bench_table(const struct cli_command *command, const struct bench_arguments *arguments,
                const struct kvc_measure_table *table);
/* Measures and prints the time of each operation in a prompt, with the first policy. */
int bench_prompt(const struct bench *bench, const struct kvc_measure_table *table);
/* Fills tokens [count] with random tokens. */
void bench_random_tokens(const struct bench *bench, uint64_t *state, int32_t *tokens, uint64_t count);

#endif

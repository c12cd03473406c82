/* verify.h - the parts of kvcull verify. */
#ifndef KVC_CLI_VERIFY_H
#define KVC_CLI_VERIFY_H

#include "cli/cli.h"

struct verify_arguments {
    struct cli_common common;
    const char *model;
    const char *backend, *only; /* only: NULL, "operations" or "methods" */
    struct cli_texts specs;
    int64_t prompt, steps;
};

struct verify_report { /* of everything so far */
    const struct cli_command *command;
    struct cli_table *table;
    json_t *rows; /* NULL: a table is wanted */
    const char *backend;
    uint64_t differing;
    char first[400]; /* the first difference of all, with its place */
    bool failed;
};
void verify_add(struct verify_report *report, const char *backend, const struct kvc_verify_row *row);

/* Fills a list with the policies to run; cli_specs_free frees it. */
int verify_specs(const struct cli_command *command, const struct verify_arguments *arguments, struct cli_texts *specs);
/* Whole runs of every policy on ref and on the backends, step by step beside each other. */
int verify_methods(const struct cli_command *command, const struct verify_arguments *arguments, struct cli_texts *specs,
                   const char *const *backends, size_t count, struct verify_report *report);

/* Values with other bits, NaNs being equal, and the first of them. */
uint64_t verify_values(const float *want, const float *got, size_t count, size_t *first);
/* Entries that one of two lists has and the other has not, and the first of them; both lists ascend. */
uint64_t verify_positions(const int32_t *a, size_t n, const int32_t *b, size_t m, int32_t *first);

#endif

/* verify.h - the parts of kvcull verify. */
#ifndef KVC_CLI_VERIFY_VERIFY_H
#define KVC_CLI_VERIFY_VERIFY_H

#include "cli/cli.h"
#include "kvcull/check.h"

struct verify_arguments {
    struct cli_common common;
    const char *model;
    const char *backend, *only;  /* only: NULL, "operations" or "methods" */
    const char *against, *write; /* "ref" or "stored"; a file to write the stored hashes to, or NULL */
    const char *inject;          /* KVCULL_INJECT, or NULL */
    struct cli_texts specs;
    int64_t prompt, steps, effort;
    bool small;
};

/* The stored hashes; see hashes.c. */
enum verify_stored { VERIFY_MISSING, VERIFY_OTHER, VERIFY_EQUAL };
struct verify_hashes {
    char *path;
    struct verify_entry {
        bool method;
        char *name;
        uint64_t cases;   /* of an operation */
        uint64_t hash[3]; /* results; or logits, entries kept, entries read */
    } * items;
    size_t count;
    int arithmetic;
    uint64_t model; /* of the methods' runs, as are the next */
    int64_t prompt, steps;
    enum kvc_type type;
};
int verify_hashes_read(const struct cli_command *command, struct verify_hashes *hashes);
int verify_hashes_write(const struct cli_command *command, const struct verify_hashes *hashes, const char *path);
int verify_hashes_add(const struct cli_command *command, struct verify_hashes *hashes,
                      const struct kvc_verify_row *row);
enum verify_stored verify_hashes_find(const struct verify_hashes *hashes, const struct kvc_verify_row *row);
/* The error that what ref computes now is not what is stored. */
int verify_hashes_stale(const struct cli_command *command, const struct verify_hashes *hashes, const char *name);
void verify_hashes_free(struct verify_hashes *hashes);
/* Of a model's file, or of its folder's config.json and *.safetensors. */
int verify_model_hash(const struct cli_command *command, const char *path, uint64_t *value);

enum { VERIFY_BACKENDS = 8 }; /* at most */
struct verify_report {        /* of everything so far */
    const struct cli_command *command;
    struct cli_table *table;
    json_t *rows; /* NULL: a table is wanted */
    struct verify_hashes hashes;
    bool stored, writing;         /* backends run alone, and their hashes are looked up, or collected */
    uint64_t with_stored, beside; /* rows compared with a stored hash, and with ref */
    uint64_t differing;
    char first[400]; /* the first difference of all, and where it is */
    struct verify_absent {
        const char *backend;
        struct kvc_error why;
    } absent[VERIFY_BACKENDS]; /* listed here, but do not open */
    size_t absent_count;
    bool failed;
};
/* against_stored: the row's hash is the stored one; otherwise it was compared with ref. */
void verify_add(struct verify_report *report, const char *backend, const struct kvc_verify_row *row,
                bool against_stored);

/* How the spec of a choice that wants a file of token ids ends; verify_methods opens the bundled one for it. */
#define VERIFY_FILE ",file=tokens.txt"

/* Fills a list with the policies to run; cli_specs_free frees it. */
int verify_specs(const struct cli_command *command, const struct verify_arguments *arguments, struct cli_texts *specs);
/* Whether the model of the whole runs opens; operations, which come first, take long. */
int verify_model(const struct cli_command *command, const struct verify_arguments *arguments);
/* Whole runs of every policy on ref and on the backends, step by step beside each other; or on the backends alone. */
int verify_methods(const struct cli_command *command, const struct verify_arguments *arguments, struct cli_texts *specs,
                   const char *const *backends, size_t count, struct verify_report *report);

/* Values with other bits, NaNs being equal, the first of them, and how many bits (added). */
uint64_t verify_values(const float *want, const float *got, size_t count, size_t *first, uint64_t *differing_bits);
/* Entries that one of two lists has and the other has not, and the first of them; both lists ascend. */
uint64_t verify_positions(const int32_t *a, size_t n, const int32_t *b, size_t m, int32_t *first);

#endif

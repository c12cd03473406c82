/* verify.h - declarations shared by the files of kvcull verify. */
#ifndef KVC_CLI_VERIFY_VERIFY_H
#define KVC_CLI_VERIFY_VERIFY_H

#include "cli/cli.h"
#include "kvcull/check.h"

struct verify_arguments {
    struct cli_common common;
    const char *model;
    const char *backend, *only;  /* only: NULL, "operations" or "methods" */
    const char *against, *write; /* against: "ref" or "stored"; write: file to write the stored hashes to, or NULL */
    const char *inject;          /* KVCULL_INJECT, or NULL */
    struct cli_texts specs;
    int64_t prompt, steps, effort;
    bool small;
};

/* The stored hashes; hashes.c has the format of their file. */
enum verify_stored { VERIFY_MISSING, VERIFY_OTHER, VERIFY_EQUAL };
struct verify_hashes {
    char *path;
    struct verify_entry {
        bool method;
        char *name;
        uint64_t cases;   /* number of an operation's cases */
        uint64_t hash[3]; /* an operation: one hash of its results; a method: hashes of the logits, of the entries kept
                           * and of the entries read */
    } * items;
    size_t count;
    int arithmetic;
    uint64_t model; /* hash of the model with which the methods run; the members below describe these runs, too */
    int64_t prompt, steps;
    struct kvc_entry_types type;
};
int verify_hashes_read(const struct cli_command *command, struct verify_hashes *hashes);
int verify_hashes_write(const struct cli_command *command, const struct verify_hashes *hashes, const char *path);
int verify_hashes_add(const struct cli_command *command, struct verify_hashes *hashes,
                      const struct kvc_verify_row *row);
enum verify_stored verify_hashes_find(const struct verify_hashes *hashes, const struct kvc_verify_row *row);
/* Reports that ref's results differ from the stored hashes. */
int verify_hashes_stale(const struct cli_command *command, const struct verify_hashes *hashes, const char *name);
void verify_hashes_free(struct verify_hashes *hashes);
/* Computes a hash of a model file, or of a folder's config.json and *.safetensors. */
int verify_model_hash(const struct cli_command *command, const char *path, uint64_t *value);

enum { VERIFY_BACKENDS = 8 }; /* maximum number of backends */
struct verify_report {        /* results so far */
    const struct cli_command *command;
    struct cli_table *table;
    json_t *rows; /* NULL: print a table */
    struct verify_hashes hashes;
    bool stored, writing;         /* stored: backends run without ref, and their hashes are compared with stored hashes;
                                   * writing: the hashes are written */
    uint64_t with_stored, beside; /* with_stored: rows compared with a stored hash; beside: rows compared with ref */
    uint64_t differing;
    char first[400]; /* the first difference and where it occurred */
    struct verify_absent {
        const char *backend;
        struct kvc_error why;
    } absent[VERIFY_BACKENDS]; /* listed backends that cannot be opened */
    size_t absent_count;
    bool failed;
};
/* Adds a row to the report. If against_stored is true, its hash equals the stored hash; otherwise it was compared with
 * ref. */
void verify_add(struct verify_report *report, const char *backend, const struct kvc_verify_row *row,
                bool against_stored);

/* The end of a spec that needs a file of token ids; verify_methods replaces it by the bundled file. */
#define VERIFY_FILE ",file=tokens.txt"

/* Lists the policies to run. Free the list with cli_specs_free. */
int verify_specs(const struct cli_command *command, const struct verify_arguments *arguments, struct cli_texts *specs);
/* Checks that the model for the policies can be opened. Called before the operations, which take long. */
int verify_model(const struct cli_command *command, const struct verify_arguments *arguments);
/* Runs every policy step by step, on ref and on the backends, or on the backends alone. */
int verify_methods(const struct cli_command *command, const struct verify_arguments *arguments, struct cli_texts *specs,
                   const char *const *backends, size_t count, struct verify_report *report);

/* Returns how many values differ in any bit; all NaNs count as equal. Sets *first to the index of the first such value,
 * and adds the number of differing bits to *differing_bits. */
uint64_t verify_values(const float *want, const float *got, size_t count, size_t *first, uint64_t *differing_bits);
/* Returns the number of entries that only one of two ascending lists contains, and sets *first to the first of them. */
uint64_t verify_positions(const int32_t *a, size_t n, const int32_t *b, size_t m, int32_t *first);

#endif

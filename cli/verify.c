/* verify.c - kvcull verify: is every backend equal to the reference, to the bit? */
#include <stdlib.h>
#include <string.h>

#include "cli/verify.h"

enum { MOST_BACKENDS = 8 };

void verify_add(struct verify_report *report, const char *backend, const struct kvc_verify_row *row) {
    bool method = strcmp(row->kind, "method") == 0;

    if ((row->differing || row->kept_differing) && report->first[0] == '\0')
        snprintf(report->first, sizeof report->first, "%s, %s %s: %s", backend, row->kind, row->name, row->first);
    report->differing += row->differing + row->kept_differing;
    if (report->rows) {
        json_t *one = json_object();
        char hash[24];

        snprintf(hash, sizeof hash, "%016llx", (unsigned long long)row->hash);
        cli_json_set(one, "backend", json_string(backend));
        cli_json_set(one, "kind", json_string(row->kind));
        cli_json_set(one, "name", cli_json_text(row->name, strlen(row->name)));
        cli_json_set(one, "cases", json_integer((json_int_t)row->cases));
        cli_json_set(one, "values", json_integer((json_int_t)row->values));
        cli_json_set(one, "differing", json_integer((json_int_t)row->differing));
        if (method)
            cli_json_set(one, "kept_differing", json_integer((json_int_t)row->kept_differing));
        cli_json_set(one, "hash", json_string(hash));
        cli_json_set(one, "first", row->first[0] ? cli_json_text(row->first, strlen(row->first)) : json_null());
        if (json_array_append_new(report->rows, one) != 0)
            report->failed = true;
        return;
    }
    cli_cell(report->table, "%s", backend);
    cli_cell(report->table, "%llu", (unsigned long long)row->cases);
    cli_cell(report->table, "%llu", (unsigned long long)row->values);
    cli_cell(report->table, "%llu", (unsigned long long)row->differing);
    if (method)
        cli_cell(report->table, "%llu", (unsigned long long)row->kept_differing);
    else
        cli_cell(report->table, "-");
    cli_cell(report->table, "%016llx", (unsigned long long)row->hash);
    cli_cell(report->table, "%s", row->name);
}

static int add_operation(void *user, const struct kvc_verify_row *row) {
    struct verify_report *report = user;

    verify_add(report, report->backend, row);
    return 0;
}

/* The backends to compare with ref. all: every CPU path and device that can be opened here. */
static int choose(const struct cli_command *command, const struct verify_arguments *a, const char **backends,
                  size_t *count) {
    static const char *const paths[] = {"avx2", "avx512", "neon"};
    struct kvc_backend_info info;
    struct kvc_engine *engine;
    struct kvc_error error;
    int status;

    *count = 0;
    if (strcmp(a->backend, "all") != 0) {
        struct cli_common common = a->common;

        common.backend = a->backend;
        backends[(*count)++] = a->backend;
        status = cli_open_engine(command, &common, &engine);
        kvc_engine_close(engine);
        return status;
    }
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        struct kvc_engine_options options = {paths[i], 1, KVC_MATH_EXACT};

        if (kvc_engine_open(&options, &engine, &error) == KVC_OK) {
            backends[(*count)++] = paths[i];
            kvc_engine_close(engine);
        }
    }
    for (size_t i = 0; kvc_backend(i, &info) && *count < MOST_BACKENDS; i++)
        if (info.usable && strcmp(info.name, "ref") != 0 && strcmp(info.name, "cpu") != 0)
            backends[(*count)++] = info.name;
    if (*count == 0) /* nothing faster than plain C here: its two builds and its threads are still compared */
        backends[(*count)++] = "cpu";
    return KVC_OK;
}

static int finish(const struct cli_command *command, const struct verify_arguments *a, struct verify_report *report) {
    int status;

    if (report->rows) {
        json_t *root = json_object();

        cli_json_set(root, "equal", json_boolean(report->differing == 0));
        cli_json_set(root, "arithmetic", json_integer(KVC_ARITHMETIC_VERSION));
        cli_json_set(root, "first",
                     report->first[0] ? cli_json_text(report->first, strlen(report->first)) : json_null());
        cli_json_set(root, "rows", report->failed ? NULL : json_incref(report->rows));
        status = cli_json_print(command, root, stdout);
    } else {
        status = cli_table_print(command, report->table, stdout);
        if (status == KVC_OK && report->differing)
            printf("\nDIFFERENT: %llu values; the first: %s\n", (unsigned long long)report->differing, report->first);
        else if (status == KVC_OK && !a->common.quiet)
            printf("\nEqual to the reference, to the bit (arithmetic %d).\n", KVC_ARITHMETIC_VERSION);
        if (status == KVC_OK)
            status = cli_flush(command);
    }
    return status == KVC_OK && report->differing ? KVC_DIFFERS : status;
}

static int verify_operations(const struct cli_command *command, const struct verify_arguments *a,
                             const char *const *backends, size_t count, struct verify_report *report) {
    struct kvc_error error;

    for (size_t i = 0; i < count; i++) {
        enum kvc_status result;

        if (!a->common.quiet)
            fprintf(stderr, "%s: operations\n", backends[i]);
        report->backend = backends[i];
        result = kvc_verify_operations(backends[i], (int)a->common.threads, add_operation, report, &error);
        if (result != KVC_OK && result != KVC_DIFFERS)
            return cli_report(command, &error);
    }
    return KVC_OK;
}

static int verify(const struct cli_command *command, const struct verify_arguments *a) {
    struct verify_report report = {.command = command};
    struct cli_texts specs = {NULL, 0};
    const char *backends[MOST_BACKENDS];
    size_t count;
    int status = choose(command, a, backends, &count);

    if (status == KVC_OK)
        status = verify_specs(command, a, &specs);
    if (status == KVC_OK) {
        if (a->common.json)
            report.rows = json_array();
        else
            report.table = cli_table_open("<backend|cases|values|differing|kept diff.|<hash|<operation or method");
        if (!report.rows && !report.table)
            status = cli_no_memory(command);
    }
    if (status == KVC_OK && (!a->only || strcmp(a->only, "operations") == 0))
        status = verify_operations(command, a, backends, count, &report);
    if (status == KVC_OK && (!a->only || strcmp(a->only, "methods") == 0))
        status = verify_methods(command, a, &specs, backends, count, &report);
    if (status == KVC_OK)
        status = finish(command, a, &report);
    cli_specs_free(&specs);
    cli_table_free(report.table);
    json_decref(report.rows);
    return status;
}

int kvc_cli_verify(const struct cli_command *command, int argc, char **argv) {
    struct verify_arguments a = {.backend = "all", .prompt = 200, .steps = 64};
    const struct cli_option options[] = {
        {CLI_TEXT, 0, "backend", "NAME",
         "what to compare with ref: all that can be used here, or one: cpu, avx2, avx512, "
         "neon, opencl",
         &a.backend, 0, 0, NULL},
        {CLI_TEXTS, 0, "kv", "SPEC", "a policy, several, or all: every method, with every choice of its options (all)",
         &a.specs, 0, 0, NULL},
        {CLI_TEXT, 'm', "model", "MODEL", "the model of the whole runs (the bundled one)", &a.model, 0, 0, NULL},
        {CLI_CHOICE, 0, "only", "PART", "half of the work", &a.only, 0, 0, "operations|methods"},
        {CLI_INT, 0, "prompt", "N", "tokens of prompt in a whole run", &a.prompt, 1, 1048576, NULL},
        {CLI_INT, 0, "gen", "N", "decode steps in a whole run", &a.steps, 0, 1048576, NULL},
        {CLI_INT, 0, "threads", "N", "threads; 0: one per core", &a.common.threads, 0, 1024, NULL},
        {CLI_TYPE, 0, "kv-type", "TYPE", "how cache entries are stored", &a.common.cache_type, 0, 0, "f32|f16|q8_0"},
        {CLI_INT, 0, "chunk", "N", "prompt rows computed at once", &a.common.chunk, 1, 65536, NULL},
        CLI_OUTPUT_OPTIONS(&a.common),
        {.kind = CLI_END}};
    int status;

    cli_common_defaults(&a.common);
    status = cli_parse(command, options, argc, argv, NULL);
    if (status == CLI_GO)
        status = verify(command, &a);
    cli_texts_free(&a.specs);
    return status;
}

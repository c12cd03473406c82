/* verify.c - kvcull verify: checks that every backend is bit-identical to the reference. */
#include <stdlib.h>
#include <string.h>

#include "cli/verify/verify.h"

void verify_add(struct verify_report *report, const char *backend, const struct kvc_verify_row *row,
                bool against_stored) {
    bool method = strcmp(row->kind, "method") == 0;
    uint64_t differing = row->differing + row->kept_differing + row->read_differing;

    if (differing && report->first[0] == '\0')
        snprintf(report->first, sizeof report->first, "%s, %s %s: %s", backend, row->kind, row->name, row->first);
    report->differing += differing;
    ++*(against_stored ? &report->with_stored : &report->beside);
    if (report->rows) {
        json_t *one = json_object();

        cli_json_set(one, "backend", json_string(backend));
        cli_json_set(one, "kind", json_string(row->kind));
        cli_json_set(one, "name", cli_json_text(row->name, strlen(row->name)));
        cli_json_set(one, "against", json_string(against_stored ? "stored" : "ref"));
        cli_json_set(one, "cases", json_integer((json_int_t)row->cases));
        cli_json_set(one, "values", json_integer((json_int_t)row->values));
        cli_json_set(one, "differing", json_integer((json_int_t)row->differing));
        cli_json_set(one, "differing_bits", json_integer((json_int_t)row->differing_bits));
        cli_json_set(one, "hash", json_sprintf("%016llx", (unsigned long long)row->hash));
        if (method) {
            cli_json_set(one, "kept_differing", json_integer((json_int_t)row->kept_differing));
            cli_json_set(one, "read_differing", json_integer((json_int_t)row->read_differing));
            cli_json_set(one, "kept_hash", json_sprintf("%016llx", (unsigned long long)row->kept_hash));
            cli_json_set(one, "read_hash", json_sprintf("%016llx", (unsigned long long)row->read_hash));
        }
        cli_json_set(one, "first", row->first[0] ? cli_json_text(row->first, strlen(row->first)) : json_null());
        if (json_array_append_new(report->rows, one) != 0)
            report->failed = true;
        return;
    }
    cli_cell(report->table, "%s", backend);
    cli_cell(report->table, "%llu", (unsigned long long)row->cases);
    cli_cell(report->table, "%llu", (unsigned long long)row->values);
    cli_cell(report->table, "%llu", (unsigned long long)row->differing_bits);
    cli_cell(report->table, method ? "%llu" : "-", (unsigned long long)row->kept_differing);
    cli_cell(report->table, method ? "%llu" : "-", (unsigned long long)row->read_differing);
    cli_cell(report->table, "%016llx", (unsigned long long)row->hash);
    cli_cell(report->table, "%s", row->name);
}

static bool opens(const char *backend, struct kvc_error *error) {
    const struct kvc_engine_options options = {.backend = backend, .threads = 1, .math = KVC_MATH_EXACT};
    struct kvc_engine *engine;

    if (kvc_engine_open(&options, &engine, error) != KVC_OK)
        return false;
    kvc_engine_close(engine);
    return true;
}

/* Chooses the backends to compare with ref. "all" stands for every CPU instruction set and device that can be opened on
 * this machine. A listed device that cannot be opened is reported. */
static int verify_choose(const struct cli_command *command, const struct verify_arguments *a, const char **backends,
                         size_t *count, struct verify_report *report) {
    static const char *const paths[] = {"avx2", "avx2vnni", "avx512",      "avx512vnni",
                                        "amx",  "neon",     "neondotprod", "neoni8mm"};
    struct kvc_backend_info info;

    *count = 0;
    if (a->write || strcmp(a->backend, "all") != 0) {
        struct cli_common common = a->common;
        struct kvc_engine *engine;
        int status;

        common.backend = a->write ? "ref" : a->backend;
        backends[(*count)++] = common.backend;
        status = cli_open_engine(command, &common, &engine);
        kvc_engine_close(engine);
        return status;
    }
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        if (opens(paths[i], NULL))
            backends[(*count)++] = paths[i];
    for (size_t i = 0; kvc_backend(i, &info) && *count + report->absent_count < VERIFY_BACKENDS; i++) {
        struct verify_absent *absent = &report->absent[report->absent_count];

        if (!info.usable || strcmp(info.name, "ref") == 0 || strcmp(info.name, "cpu") == 0)
            continue;
        if (opens(info.name, &absent->why)) {
            backends[(*count)++] = info.name;
        } else {
            absent->backend = info.name;
            report->absent_count++;
        }
    }
    if (*count == 0) /* this machine has only plain C: compares two builds of it, and different numbers of threads */
        backends[(*count)++] = "cpu";
    return KVC_OK;
}

/* Returns the reason why a backend cannot be opened, without the backend's name at the beginning. */
static const char *reason(const struct verify_absent *absent) {
    size_t length = strlen(absent->backend);
    bool named =
        strncmp(absent->why.text, absent->backend, length) == 0 && !strncmp(absent->why.text + length, ": ", 2);

    return absent->why.text + (named ? length + 2 : 0);
}

static json_t *not_compared(const struct verify_report *report) {
    json_t *list = json_array();

    for (size_t i = 0; i < report->absent_count; i++) {
        const char *why = reason(&report->absent[i]);
        json_t *one = json_object();

        cli_json_set(one, "backend", json_string(report->absent[i].backend));
        cli_json_set(one, "why", cli_json_text(why, strlen(why)));
        if (json_array_append_new(list, one) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static int verify_finish(const struct cli_command *command, const struct verify_arguments *a,
                         struct verify_report *report) {
    const enum kvc_math math = cli_math(&a->common);
    char version[24];
    int status;

    if (report->rows) {
        json_t *root = json_object();

        cli_json_set(root, "equal", json_boolean(report->differing == 0));
        cli_json_set(root, "arithmetic", json_integer(KVC_ARITHMETIC_VERSION));
        if (cli_integer_version(math))
            cli_json_set(root, cli_math_name(math), json_integer(cli_integer_version(math)));
        cli_json_set(root, "first",
                     report->first[0] ? cli_json_text(report->first, strlen(report->first)) : json_null());
        cli_json_set(root, "not_compared", not_compared(report));
        cli_json_set(root, "rows", report->failed ? NULL : json_incref(report->rows));
        status = cli_json_print(command, root, stdout);
    } else {
        printf("Bits of results, entries kept and entries read that differ, and the hash of all results:\n\n");
        status = cli_table_print(command, report->table, stdout);
        for (size_t i = 0; i < report->absent_count && status == KVC_OK; i++)
            printf("%s%s: not compared: %s\n", i ? "" : "\n", report->absent[i].backend, reason(&report->absent[i]));
        if (status == KVC_OK && report->differing)
            printf("\nDIFFERENT: %llu values and entries; the first: %s\n", (unsigned long long)report->differing,
                   report->first);
        else if (status == KVC_OK && !a->common.quiet && !report->with_stored)
            printf("\nEqual to the reference, bit for bit (arithmetic %d%s).\n", KVC_ARITHMETIC_VERSION,
                   cli_integer_text(math, version));
        else if (status == KVC_OK && !a->common.quiet)
            printf("\nEqual to the reference's %llu stored hashes%s (arithmetic %d%s).\n",
                   (unsigned long long)report->with_stored,
                   report->beside ? ", and to the reference itself where none is stored" : "", KVC_ARITHMETIC_VERSION,
                   cli_integer_text(math, version));
        if (status == KVC_OK)
            status = cli_flush(command);
    }
    return status == KVC_OK && report->differing ? KVC_DIFFERS : status;
}

/* ---- operations -------------------------------------------------------------------------------------------------- */

struct pass { /* results of one backend's operations */
    struct verify_report *report;
    const char *backend;
    struct again { /* an operation that runs again together with ref, because its hash differs from the stored hash */
        const char *name;
        enum verify_stored why;
    } * again;
    size_t count;
    int status;
};

static int add_beside(void *user, const struct kvc_verify_row *row) {
    struct pass *pass = user;

    verify_add(pass->report, pass->backend, row, false);
    return 0;
}

static int add_alone(void *user, const struct kvc_verify_row *row) {
    struct pass *pass = user;
    struct verify_report *report = pass->report;
    enum verify_stored stored;

    if (report->writing) {
        pass->status = verify_hashes_add(report->command, &report->hashes, row);
        return pass->status;
    }
    stored = verify_hashes_find(&report->hashes, row);
    if (stored == VERIFY_EQUAL) {
        verify_add(report, pass->backend, row, true);
    } else {
        struct again *more = realloc(pass->again, (pass->count + 1) * sizeof *more);

        if (!more)
            return pass->status = cli_no_memory(report->command);
        pass->again = more;
        more[pass->count++] = (struct again){row->name, stored};
    }
    return 0;
}

static int one_backend(const struct verify_arguments *a, const char *backend, struct verify_report *report) {
    struct pass pass = {.report = report, .backend = backend};
    struct kvc_verify_options options = {.backend = backend,
                                         .threads = (int)a->common.threads,
                                         .effort = (unsigned)a->effort,
                                         .small = a->small,
                                         .inject = a->inject,
                                         .alone = report->stored || report->writing};
    struct kvc_error error;
    enum kvc_status result = kvc_verify_operations(&options, options.alone ? add_alone : add_beside, &pass, &error);

    options.alone = false;
    for (size_t i = 0; i < pass.count && pass.status == KVC_OK && (result == KVC_OK || result == KVC_DIFFERS); i++) {
        options.only = pass.again[i].name;
        result = kvc_verify_operations(&options, add_beside, &pass, &error);
        if (result == KVC_OK && pass.again[i].why == VERIFY_OTHER)
            pass.status = verify_hashes_stale(report->command, &report->hashes, options.only);
    }
    free(pass.again);
    return result == KVC_OK || result == KVC_DIFFERS ? pass.status : cli_report(report->command, &error);
}

static int verify_operations(const struct verify_arguments *a, const char *const *backends, size_t count,
                             struct verify_report *report) {
    int status = KVC_OK;

    for (size_t i = 0; i < count && status == KVC_OK; i++) {
        if (!a->common.quiet)
            fprintf(stderr, "%s: operations\n", backends[i]);
        status = one_backend(a, backends[i], report);
    }
    return status;
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

static int check_broken(const struct cli_command *command, const struct verify_arguments *a) {
    const char *name;

    if (a->inject && a->write)
        return cli_error(command, KVC_USAGE, "KVCULL_INJECT=%s: must not be set with --write-hashes", a->inject);
    for (size_t i = 0; a->inject && (name = kvc_verify_operation(i)) != NULL; i++)
        if (strcmp(a->inject, name) == 0) {
            cli_warn(command, "KVCULL_INJECT is set: %s gives wrong results on purpose, as a test", name);
            return KVC_OK;
        }
    if (a->inject)
        return cli_error(command, KVC_USAGE,
                         "KVCULL_INJECT=%s: must be an operation that --only operations lists, or not set", a->inject);
    return KVC_OK;
}

static int open_report(const struct cli_command *command, const struct verify_arguments *a,
                       struct verify_report *report) {
    report->command = command;
    report->writing = a->write != NULL;
    report->hashes.arithmetic = KVC_ARITHMETIC_VERSION;
    report->stored = !a->write && strcmp(a->against, "stored") == 0;
    if (a->common.json)
        report->rows = json_array();
    else
        report->table = cli_table_open("<backend|cases|values|bits|kept|read|<hash|<operation or method");
    if (!report->rows && !report->table)
        return cli_no_memory(command);
    return report->stored ? verify_hashes_read(command, &report->hashes) : KVC_OK;
}

static int verify(const struct cli_command *command, const struct verify_arguments *a) {
    struct verify_report report = {.command = command};
    struct cli_texts specs = {NULL, 0};
    const char *backends[VERIFY_BACKENDS];
    size_t count;
    int status = check_broken(command, a);

    if (status == KVC_OK && a->write)
        status = cli_check_inputs(command, a->write, &a->model, 1);
    if (status == KVC_OK && a->write)
        status = cli_check_output(command, a->write);
    if (status == KVC_OK)
        status = verify_choose(command, a, backends, &count, &report);
    if (status == KVC_OK)
        status = verify_specs(command, a, &specs);
    if (status == KVC_OK && !a->only)
        status = verify_model(command, a);
    if (status == KVC_OK)
        status = open_report(command, a, &report);
    if (status == KVC_OK && (!a->only || strcmp(a->only, "operations") == 0))
        status = verify_operations(a, backends, count, &report);
    if (status == KVC_OK && (!a->only || strcmp(a->only, "methods") == 0))
        status = verify_methods(command, a, &specs, backends, count, &report);
    for (size_t i = 0; status == KVC_OK && a->write && !a->model && !a->only && i < 2; i++) {
        struct verify_arguments integers = *a; /* the file contains the hashes of all three kinds of arithmetic */

        integers.common.math = i ? "int16" : "int8";
        status = verify_methods(command, &integers, &specs, backends, count, &report);
    }
    if (status == KVC_OK)
        status = a->write ? verify_hashes_write(command, &report.hashes, a->write) : verify_finish(command, a, &report);
    cli_specs_free(&specs);
    cli_table_free(report.table);
    json_decref(report.rows);
    verify_hashes_free(&report.hashes);
    return status;
}

int kvc_cli_verify(const struct cli_command *command, int argc, char **argv) {
    struct verify_arguments a = {.backend = "all",
                                 .against = "ref",
                                 .inject = getenv("KVCULL_INJECT"),
                                 .prompt = 200,
                                 .steps = 64,
                                 .effort = 10};
    const struct cli_option options[] = {
        {CLI_TEXT, 0, "backend", "NAME",
         "backend to compare with ref: all (every usable backend), or one of cpu, avx2, avx2vnni, avx512, avx512vnni, "
         "amx, neon, neondotprod, neoni8mm, opencl, cuda",
         &a.backend, 0, 0, NULL},
        {CLI_TEXTS, 0, "kv", "SPEC",
         "a policy; may be given several times; all (the default): every method, with each choice of its options",
         &a.specs, 0, 0, NULL},
        {CLI_TEXT, 'm', "model", "MODEL", "model for whole runs; by default the bundled model", &a.model, 0, 0, NULL},
        {CLI_CHOICE, 0, "only", "PART", "run only this half of the work", &a.only, 0, 0, "operations|methods"},
        {CLI_CHOICE, 0, "math", "MATH", "arithmetic of whole runs; with int8 the bundled model is converted to q8_0",
         &a.common.math, 0, 0, "float|int8|int16"},
        {CLI_CHOICE, 0, "against", "WHAT",
         "ref: run ref as well, and compare value by value. stored: compare with the stored hashes of ref, and run ref "
         "only if they differ or are missing",
         &a.against, 0, 0, "ref|stored"},
        {CLI_INT, 0, "effort", "N", "multiplies the number of shapes per operation; 0: very few shapes", &a.effort, 0,
         1000, NULL},
        {CLI_FLAG, 0, "small", NULL, "use short rows and few entries, for an interpreter of kernels such as Oclgrind",
         &a.small, 0, 0, NULL},
        {CLI_INT, 0, "prompt", "N", "tokens of the prompt in a whole run", &a.prompt, 1, 1048576, NULL},
        {CLI_INT, 0, "gen", "N", "decode steps in a whole run", &a.steps, 0, 1048576, NULL},
        {CLI_INT, 0, "threads", "N", "threads; 0: one per core", &a.common.threads, 0, 1024, NULL},
        CLI_RANKS_OPTION(&a.common),
        CLI_KV_TYPE(&a.common.cache_type),
        {CLI_INT, 0, "chunk", "N", "prompt tokens computed at once", &a.common.chunk, 1, 65536, NULL},
        {CLI_TEXT, 0, "write-hashes", "FILE",
         "run only ref, and write its hashes to FILE; --against stored reads hashes.txt in the data folder", &a.write,
         0, 0, NULL},
        CLI_OUTPUT_OPTIONS(&a.common),
        {.kind = CLI_END}};
    int status;

    if (a.inject && !a.inject[0])
        a.inject = NULL;
    cli_common_defaults(&a.common);
    a.common.math = "float";
    status = cli_parse(command, options, argc, argv, NULL);
    if (status == CLI_GO)
        status = verify(command, &a);
    cli_texts_free(&a.specs);
    return status;
}

/* bench.c - kvcull bench: speed and memory of a model with several policies, as ratios measured in the same run. */
#include <stdlib.h>
#include <string.h>

#include "cli/bench/bench.h"
#include "core/base/assert.h"

/* Returns the bytes of weights that a step reads if it needs all experts. These are all weights except an input
 * embedding that is separate from the output matrix. Whether it is separate follows from the number of parameters. */
static uint64_t step_bytes(const struct kvc_model_info *info) {
    double table = (double)info->vocab * info->hidden;
    double heads = (double)(info->heads + info->kv_heads) * 2 * info->head_size * info->hidden;
    double experts = info->experts ? (double)info->experts * info->expert_layers : info->layers;
    double feeds = info->feed_forward * experts + (double)info->dense_feed * (info->layers - info->expert_layers);
    double body = heads * info->layers + 3.0 * info->hidden * feeds;
    bool apart = (double)info->parameters > body + 1.5 * table;

    if (!apart || info->parameters == 0)
        return info->weight_bytes;
    return (uint64_t)((double)info->weight_bytes * (1 - table / (double)info->parameters));
}

uint64_t bench_step_bytes(const struct bench *bench, uint64_t batch) {
    const struct kvc_model_info *info = kvc_model_info(bench->model);
    uint64_t idle = info->weight_bytes - info->active_bytes, used = info->experts_used * batch;

    if (idle == 0)
        return bench->weight_bytes;
    used = used < info->experts ? used : info->experts;
    return bench->weight_bytes - idle / (info->experts - info->experts_used) * (info->experts - used);
}

/* Creates and opens a random model of the shape. Its file is unlinked as soon as it is open. */
static int open_shape(struct bench *bench, const char *shape, enum kvc_type type) {
    struct cli_temporary temporary;
    struct kvc_error error;
    int status = cli_temporary_open(bench->command, &temporary);

    if (status != KVC_OK)
        return status;
    if (!bench->a->common.quiet)
        fprintf(stderr, "making a random model of shape %s\n", shape);
    if (kvc_make_model(shape, type, (uint64_t)bench->a->seed, temporary.file, &error) != KVC_OK) {
        status = cli_report(bench->command, &error);
    } else {
        double start = cli_seconds();

        if (kvc_model_open(bench->engine, temporary.file, &bench->model, &error) != KVC_OK)
            status = cli_report(bench->command, &error);
        bench->load_seconds = cli_seconds() - start;
    }
    cli_temporary_close(&temporary);
    return status;
}

static int note_copy(void *user, const struct kvc_rooflines *rooflines, const struct kvc_measured *row) {
    (void)row;
    *(double *)user = rooflines->copy;
    return 1;
}

/* Measures the memory bandwidth of a device with a large copy, before the model is loaded. */
static void measure_device(struct bench *bench) {
    const struct cli_common *common = &bench->a->common;
    const struct kvc_engine_options options = {
        .backend = common->backend, .threads = (int)common->threads, .math = KVC_MATH_EXACT};
    const struct kvc_measure_options what = {.only = "add"};
    struct kvc_error error;
    double copy = 0;

    if ((strncmp(common->backend, "opencl", 6) == 0 || strncmp(common->backend, "cuda", 4) == 0) &&
        kvc_measure_operations(&options, &what, note_copy, &copy, &error) == KVC_OK)
        bench->bandwidth = copy;
}

static int open_all(struct bench *bench) {
    struct bench_arguments *a = bench->a;
    int status = cli_open_engine(bench->command, &a->common, &bench->engine);
    struct kvc_error error;

    if (status == KVC_OK)
        status = cli_check_policies(bench->command, bench->engine, &a->specs);
    if (status != KVC_OK)
        return status;
    measure_device(bench);
    if (a->shape) {
        status = open_shape(bench, a->shape, a->type);
    } else {
        double start = cli_seconds();

        if (kvc_model_open(bench->engine, a->model, &bench->model, &error) != KVC_OK)
            status = cli_report(bench->command, &error);
        bench->load_seconds = cli_seconds() - start;
    }
    if (status != KVC_OK)
        return status;
    bench->weight_bytes = step_bytes(kvc_model_info(bench->model));
    cli_leave_out(bench->command, bench->engine, bench->model, bench->a->common.cache_type, &bench->a->specs);
    KVC_ASSERT(a->specs.count); /* `full`, which suits every model, or the policies that the user named */
    return KVC_OK;
}

/* Reads every weight once, so that no measurement waits for the disk. */
static int warm_up(struct bench *bench) {
    struct kvc_session_options options;
    struct kvc_session *session = NULL;
    struct kvc_error error;
    int32_t token = 0;
    int status = KVC_OK;

    cli_session_options(&bench->a->common, NULL, &options);
    if (kvc_session_open(bench->model, &options, &session, &error) != KVC_OK ||
        kvc_session_prompt(session, &token, 1, NULL, NULL, &error) != KVC_OK)
        status = cli_report(bench->command, &error);
    kvc_session_close(session);
    return status;
}

static void measure_bandwidth(struct bench *bench) {
    double found = kvc_measure_bandwidth((unsigned)bench->a->common.threads);

    if (found > bench->bandwidth)
        bench->bandwidth = found;
}

static int bench_measure(struct bench *bench) {
    const struct bench_arguments *a = bench->a;
    const bool prompts = !a->fill || a->generate == 0;
    size_t specs = a->specs.count, pairs = specs * a->prompts.count, prefills = prompts ? pairs : 0, decodes = 0;
    struct bench_prefill *prefill = calloc(pairs, sizeof *prefill);
    struct bench_decode *decode;
    int status = KVC_OK;

    if (a->generate > 0)
        decodes = pairs * a->batches.count;
    decode = calloc(decodes ? decodes : 1, sizeof *decode);
    if (!prefill || !decode)
        status = cli_no_memory(bench->command);
    if (status == KVC_OK)
        status = warm_up(bench);
    measure_bandwidth(bench);
    for (size_t p = 0; p < a->prompts.count && prompts && status == KVC_OK; p++)
        status = bench_run_prefill(bench, a->prompts.items[p], prefill + p * specs);
    for (size_t p = 0; p < a->prompts.count && decodes; p++)
        for (size_t b = 0; b < a->batches.count && status == KVC_OK; b++)
            status = bench_run_decode(bench, a->prompts.items[p], a->batches.items[b],
                                      decode + (p * a->batches.count + b) * specs);
    if (decodes && status == KVC_OK)
        measure_bandwidth(bench);
    if (status == KVC_OK && a->common.json)
        status = bench_print_json(bench, prefill, prefills, decode, decodes);
    else if (status == KVC_OK)
        status = bench_print(bench, prefill, prefills, decode, decodes);
    for (size_t i = 0; prefill && i < prefills; i++)
        free(prefill[i].seconds);
    for (size_t i = 0; decode && i < decodes; i++)
        free(decode[i].seconds);
    free(prefill);
    free(decode);
    return status;
}

static bool same_counts(const struct cli_counts *a, const struct cli_counts *b) {
    return a->count == b->count && memcmp(a->items, b->items, a->count * sizeof *a->items) == 0;
}

/* Returns the first given option that has no effect on a table of operations, or NULL if there is none. */
static const char *other_option(const struct bench_arguments *a, const struct bench_arguments *defaults) {
    const struct {
        const char *name;
        bool given;
    } others[] = {
        {"-m", a->model != NULL},
        {"--shape", a->shape != NULL},
        {"--type", a->type != defaults->type},
        {"--kv", a->specs.count > 0},
        {"--prompt", !same_counts(&a->prompts, &defaults->prompts)},
        {"--gen", a->generate != defaults->generate},
        {"--batch", !same_counts(&a->batches, &defaults->batches)},
        {"--fill", a->fill},
        {"--repeat", a->repeat != defaults->repeat},
        {"--seed", a->seed != defaults->seed},
        {"--math", a->common.math != NULL},
        {"--kv-type", memcmp(&a->common.cache_type, &defaults->common.cache_type, sizeof a->common.cache_type) != 0},
        {"--ctx", a->common.context != defaults->common.context},
        {"--chunk", a->common.chunk != defaults->common.chunk}};

    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i].given)
            return others[i].name;
    return NULL;
}

/* Returns the table of that name. cli_parse has checked the name. */
static const struct kvc_measure_table *find_table(const char *name) {
    const struct kvc_measure_table *table = NULL;

    for (size_t i = 0; (table = kvc_measure_table(i)) != NULL && strcmp(table->name, name) != 0; i++)
        ;
    return table;
}

static int run_table(const struct cli_command *command, const struct bench_arguments *a,
                     const struct bench_arguments *defaults) {
    const char *const other = other_option(a, defaults);
    const char *const name = a->table ? a->table : a->entries ? "layer" : "operations";

    if (find_table(name)->model)
        return cli_error(command, KVC_USAGE, "--table %s takes no --ops, --beside, --only, --entries or --quick", name);
    if (!a->ops && !a->table)
        return cli_error(command, KVC_USAGE, "--beside, --only, --entries and --quick need --ops or --table");
    if (a->ops && a->table)
        return cli_error(command, KVC_USAGE, "--ops stands for --table operations: give one of them");
    if (other)
        return cli_error(command, KVC_USAGE,
                         "--%s takes no %s: it measures operations of a backend, without a model or a policy",
                         a->ops ? "ops" : "table", other);
    return bench_table(command, a, find_table(name));
}

static int run_policies(const struct cli_command *command, struct bench_arguments *a) {
    struct bench bench = {.command = command, .a = a};
    struct cli_given full = {0, "full"};
    const struct cli_texts given = a->specs, defaults = {&full, 1};
    struct cli_texts specs = {NULL, 0};
    /* with "all", the budget of each policy is a quarter of the first prompt */
    int status = cli_all_specs(command, given.count ? &given : &defaults, a->prompts.items[0] / 4 + 1, &specs);

    a->specs = specs;
    if (status == KVC_OK) {
        if ((a->model != NULL) == (a->shape != NULL))
            status = cli_error(command, KVC_USAGE,
                               "give either -m MODEL or --shape NAME; `kvcull info shapes` lists "
                               "the shapes");
        else
            status = open_all(&bench);
        if (status == KVC_OK && a->table)
            status = warm_up(&bench);
        if (status == KVC_OK)
            status = a->table ? bench_prompt(&bench, find_table(a->table)) : bench_measure(&bench);
        kvc_model_close(bench.model);
        kvc_engine_close(bench.engine);
    }
    cli_specs_free(
        &a->specs); /* a->specs may be shorter than specs, because policies that do not suit the model were removed */
    a->specs = given;
    return status;
}

/* Writes the names of all tables, separated by '|'. */
static void table_names(char *text, size_t size) {
    const struct kvc_measure_table *table;
    size_t at = 0;

    for (size_t i = 0; (table = kvc_measure_table(i)) != NULL && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%s", i ? "|" : "", table->name);
}

int kvc_cli_bench(const struct cli_command *command, int argc, char **argv) {
    struct bench_arguments a = {
        .type = KVC_F16, .prompts = {{512}, 1}, .batches = {{1}, 1}, .generate = 64, .repeat = 3, .seed = 1};
    char tables[256];
    const struct cli_option options[] = {
        {CLI_TEXT, 'm', "model", "MODEL", "a GGUF file or a Hugging Face folder", &a.model, 0, 0, NULL},
        {CLI_TEXT, 0, "shape", "NAME",
         "geometry of a random model to use instead of MODEL; `kvcull info shapes` lists the names. The model's file "
         "is created in TMPDIR and removed",
         &a.shape, 0, 0, NULL},
        {CLI_TYPE, 0, "type", "TYPE", "type of the weights of --shape", &a.type, 0, 0, NULL},
        {CLI_TEXTS, 0, "kv", "SPEC",
         "a policy, or `all`, which means every method (default: full). Several policies are interleaved and compared "
         "with the first",
         &a.specs, 0, 0, NULL},
        {CLI_COUNTS, 0, "prompt", "N,..", "lengths of prompts, in tokens", &a.prompts, 1, 1073741824, NULL},
        {CLI_INT, 0, "gen", "N", "decode steps; 0: prefill only", &a.generate, 0, 1073741824, NULL},
        {CLI_COUNTS, 0, "batch", "B,..", "numbers of sessions that decode together", &a.batches, 1, 4096, NULL},
        {CLI_FLAG, 0, "fill", NULL,
         "fill the caches with random entries instead of computing a prompt. The policy's prompt stage then uses "
         "random queries. Only decode is timed. With --gen 0 only the prompt stage is timed; if it reads query "
         "vectors, its time includes the attention of the last --chunk tokens",
         &a.fill, 0, 0, NULL},
        {CLI_INT, 0, "repeat", "N", "number of prefills of each policy", &a.repeat, 1, 1000, NULL},
        {CLI_FLAG, 0, "ops", NULL,
         "measure every operation of the backend instead of a model, in bytes and flops per second, and compare it "
         "with the device's limits. The limits are measured with a large copy, a loop of multiply-adds, and a matrix "
         "product of a BLAS library",
         &a.ops, 0, 0, NULL},
        {CLI_CHOICE, 0, "table", "TABLE",
         "measure a group of operations instead of a model. The table `prompt` measures the operations of a prefill "
         "with the first policy",
         &a.table, 0, 0, tables},
        {CLI_TEXT, 0, "beside", "NAME",
         "with --ops or --table: also time the same calls on this second backend; the exit status is 1 if a call is "
         "clearly faster on it",
         &a.beside, 0, 0, NULL},
        {CLI_TEXT, 0, "only", "OPERATION", "with --ops or --table: measure only this operation", &a.only, 0, 0, NULL},
        {CLI_FLAG, 0, "quick", NULL,
         "with --ops or --table: call everything once, at small shapes, to see that it runs", &a.quick, 0, 0, NULL},
        {CLI_INT, 0, "entries", "N",
         "with --table select: entries of the cache. With --ops: instead of single shapes, measure one layer of a "
         "model with eight billion parameters whose cache has N entries. This times a decode step (linear layers, and "
         "attention over heads with different numbers of entries), the prefill of a chunk, and a prompt stage's "
         "selection. 0: off",
         &a.entries, KVC_MEASURE_LEAST, KVC_MEASURE_MOST, NULL},
        {CLI_INT, 0, "seed", "S", "seed of the tokens and of the weights of --shape", &a.seed, 0, 9007199254740992.0,
         NULL},
        CLI_ENGINE_OPTIONS(&a.common),
        CLI_SESSION_OPTIONS(&a.common),
        CLI_OUTPUT_OPTIONS(&a.common),
        {.kind = CLI_END}};
    struct bench_arguments standard_arguments;
    bool with_model;
    int status;

    table_names(tables, sizeof tables);
    cli_common_defaults(&a.common);
    standard_arguments = a;
    status = cli_parse(command, options, argc, argv, NULL);
    if (status != CLI_GO) {
        cli_texts_free(&a.specs);
        return status;
    }
    with_model = !(a.ops || a.beside || a.only || a.entries || a.quick) && (!a.table || find_table(a.table)->model);
    status = with_model ? run_policies(command, &a) : run_table(command, &a, &standard_arguments);
    cli_texts_free(&a.specs);
    return status;
}

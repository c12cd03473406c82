/* main.c - prints hashes of everything that must be equal on every machine: each operation, a model file made here, and
 * a whole generation with each policy and cache type. Needs only libc, so it can be built for other machines and run
 * under an emulator. tests/cross/run.sh compares the output.
 *
 *     usage: driver [flush] [operations] [light] [ref] [threads=N] [effort=N] [golden=GGUF]... FILE
 *     FILE         a name for the model file, written and removed
 *     flush        the host switches flush-to-zero on before it calls the library
 *     operations   only the operations
 *     light        of operations without integer arithmetic only some cases
 *     ref          compares each operation with plain C value by value, too, which takes twice as long
 *     effort=N     number of cases of each operation, 1 to 10; 0: none (1)
 *     golden=GGUF  another model to run; run.sh gives one of each family */
#include "core/engine/engine.h"
#include "core/engine/network.h"
#include "core/engine/session.h"
#include "core/check/verify.h"
#include "tests/method_spec.h"
#include "models/model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

enum { PROMPT = 61, STEPS = 24, SECOND = 13, MORE = 9 };

/* Methods that are missing here are added, with the trial options of their class (add_methods). */
enum { SPECS_MOST = 64 };
static const char *specs[SPECS_MOST] = {
    "full",
    "window:budget=20",
    "streaming:budget=20,sinks=3",
    "streaming:budget=20,sinks=3,positions=cache",
    "snapkv:budget=24,window=8,kernel=5",
    "snapkv:budget=50%,window=4,kernel=3,pooling=avg",
    "morphkv:budget=24,window=6",
    "morphkv:budget=24,window=6,fusion=max,every=3",
    "morphkv:budget=24,window=6,scores=logits,skip_layers=1",
    "snapkv:budget=24,window=8+morphkv:budget=20,window=6",
    "h2o:budget=24",
    "h2o:budget=24,per=head",
    "scissorhands:budget=24,history=8",
    "keyformer:budget=24,steps=10,seed=3",
    "pyramidkv:budget=24,window=8",
    "adakv:budget=24,window=8",
    "cake:budget=24,window=8",
    "fastkv:budget=24,tsp=30,tsp_layer=0",
    "lacache:budget=24,span=1,sinks=4",
    "duo:file=tests/cross/heads.tsv,sinks=4,recent=12",
    "dapq:budget=24,pseudo=8",
    "take:budget=12,chunk=16,probe=4,warmup_layers=1",
    "tova:budget=24",
    "quest:budget=24,page=4",
    "sparq:budget=24",
    "hsa:budget=24",
    "rocketkv:budget=24,window=8",
    "rocketkv-mt:budget=24,window=8",
    "topk:budget=24",
    "adakv:budget=24,window=8+morphkv:budget=20,window=6",
    "rocketkv-mt:budget=24,window=8+morphkv:budget=20,window=6",
    "take:budget=12,chunk=16,probe=4,warmup_layers=1+quest:budget=8,page=4",
};
static size_t spec_count;

static void stop(const struct kvc_error *error, const char *what) {
    fprintf(stderr, "driver: %s: %s\n", what, error->text);
    exit(error->status == KVC_OK ? 1 : (int)error->status);
}

/* Imitates a careless host program: denormals become zero in its own code. This must not influence the library. */
static void flush_to_zero(void) {
#if defined(__x86_64__)
    _mm_setcsr(_mm_getcsr() | 0x8040u);
#elif defined(__aarch64__)
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    control |= UINT64_C(1) << 24;
    __asm__ volatile("msr fpcr, %0" : : "r"(control));
#endif
}

static bool flushes(void) {
    volatile float smallest = 1.17549435e-38f, half = 0.5f;
    return smallest * half == 0.0f;
}

static int print_operation(void *user, const struct kvc_verify_row *row) {
    (void)user;
    printf("operation %s cases %" PRIu64 " values %" PRIu64 " differing %" PRIu64 " hash %016" PRIx64 "\n", row->name,
           row->cases, row->values, row->differing, row->hash);
    return 0;
}

/* The instruction sets of one kind of processor differ in how they multiply integers. */
static bool has_integers(const char *name) {
    return strstr(name, "int8") || strstr(name, "int16") || strstr(name, "integers");
}

/* Checks the operations one by one, those without integers with an eighth of the cases. */
static enum kvc_status verify_light(struct kvc_verify_options verify, struct kvc_error *error) {
    enum kvc_status status = KVC_OK;
    for (size_t i = 0; status == KVC_OK && (verify.only = kvc_verify_operation(i)) != NULL; i++) {
        verify.effort = has_integers(verify.only) ? 1 : 0;
        status = kvc_verify_operations(&verify, print_operation, NULL, error);
    }
    return status;
}

static void print_file(const char *path) {
    struct kvc_hash *hash = kvc_hash_open();
    FILE *file = fopen(path, "rb");
    unsigned char bytes[256];
    float values[256];
    size_t count;
    while (file && hash && (count = fread(bytes, 1, sizeof bytes, file)) > 0) {
        for (size_t i = 0; i < count; i++)
            values[i] = (float)bytes[i];
        kvc_hash_add(hash, values, count);
    }
    if (!file || !hash || fclose(file) != 0)
        exit(4);
    printf("file hash %016" PRIx64 "\n", kvc_hash_value(hash));
    kvc_hash_close(hash);
}

struct run {
    struct kvc_session *session;
    struct kvc_hash *hash;
    float *logits;
    uint32_t vocab;
    int32_t token;
    bool cuts; /* not every prompt row has logits */
};

static int32_t highest(const float *logits, uint32_t vocab) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < vocab; i++)
        if (logits[i] > logits[best])
            best = i;
    return (int32_t)best;
}

static int add_row(void *user, uint64_t row, const float *logits) {
    struct run *run = user;
    (void)row;
    kvc_hash_add(run->hash, logits, run->vocab);
    return 0;
}

static void prompt(struct run *run, uint32_t first, size_t count) {
    int32_t tokens[PROMPT];
    const struct kvc_prompt_options options = {.row = run->cuts ? NULL : add_row, .user = run};
    struct kvc_error error;
    for (size_t i = 0; i < count; i++)
        tokens[i] = (int32_t)((first + 7919u * (uint32_t)i * (uint32_t)(i + 3)) % run->vocab);
    if (kvc_session_prompt(run->session, tokens, count, &options, run->logits, &error) != KVC_OK)
        stop(&error, "prompt");
    run->token = highest(run->logits, run->vocab);
}

static void after_step(struct run *run, const float *logits) {
    kvc_hash_add(run->hash, logits, run->vocab);
    run->token = highest(logits, run->vocab);
}

static void decode(struct run *run, unsigned steps) {
    struct kvc_error error;
    for (unsigned i = 0; i < steps; i++) {
        if (kvc_decode((struct kvc_session *const *)&run->session, &run->token, 1, run->logits, NULL, &error) != KVC_OK)
            stop(&error, "decode");
        after_step(run, run->logits);
    }
}

static void start(struct run *run, struct kvc_model *model, const char *spec, enum kvc_type type, uint32_t chunk) {
    struct kvc_session_options options;
    struct kvc_error error;
    kvc_session_defaults(&options);
    options.policy = spec;
    options.cache_type = kvc_entry_types(type);
    options.chunk = chunk;
    run->vocab = model->network.vocab;
    unsigned stages;
    if (kvc_policy_stages(model->engine, spec, &stages, &error) != KVC_OK)
        stop(&error, spec);
    run->cuts = stages & KVC_STAGE_PROPAGATE;
    run->hash = kvc_hash_open();
    run->logits = malloc(sizeof(float) * run->vocab);
    if (!run->hash || !run->logits)
        exit(4);
    if (kvc_session_create(model->engine, &model->network, &model->runner, &options, &run->session, &error) != KVC_OK)
        stop(&error, spec);
}

/* The entries that each head still holds are part of the hash, too. */
static void finish(struct run *run, const struct kvc_network *network, const char *title, const char *type) {
    int32_t positions[512];
    for (uint32_t layer = 0; layer < network->layers; layer++)
        for (uint32_t head = 0; head < kvc_session_heads(run->session, layer); head++) {
            size_t count = 0;
            struct kvc_error error;
            if (kvc_session_positions(run->session, layer, head, positions, 512, &count, &error) != KVC_OK)
                stop(&error, "positions");
            for (size_t i = 0; i < count && i < 512; i++) {
                const float position = (float)positions[i];
                kvc_hash_add(run->hash, &position, 1);
            }
        }
    struct kvc_session_stats stats;
    kvc_session_stats(run->session, &stats);
    printf("%s %s entries %" PRIu64 " cache %" PRIu64 " state %" PRIu64 " read %" PRIu64 " hash %016" PRIx64 "\n",
           title, type, stats.entries, stats.cache_bytes, stats.state_bytes, stats.read_bytes,
           kvc_hash_value(run->hash));
    kvc_session_close(run->session);
    kvc_hash_close(run->hash);
    free(run->logits);
}

/* A prompt, an answer, a second prompt, a second answer. */
static void generate(struct kvc_model *model, const char *spec, enum kvc_type type) {
    struct run run;
    start(&run, model, spec, type, 16);
    prompt(&run, 11, PROMPT);
    decode(&run, STEPS);
    prompt(&run, 500, SECOND);
    decode(&run, MORE);
    finish(&run, &model->network, spec, kvc_type_name(type));
}

/* All policies in one batch must give the same answers as alone. */
static void generate_together(struct kvc_model *model) {
    struct run runs[SPECS_MOST];
    struct kvc_session *sessions[SPECS_MOST];
    int32_t tokens[SPECS_MOST];
    struct kvc_error error;
    const uint32_t vocab = model->network.vocab;
    float *logits = malloc(sizeof(float) * spec_count * vocab);
    if (!logits)
        exit(4);
    for (size_t i = 0; i < spec_count; i++) {
        start(&runs[i], model, specs[i], KVC_F16, 1 + 5 * (uint32_t)i);
        prompt(&runs[i], 11, PROMPT);
        sessions[i] = runs[i].session;
    }
    for (unsigned step = 0; step < STEPS; step++) {
        for (size_t i = 0; i < spec_count; i++)
            tokens[i] = runs[i].token;
        if (kvc_decode(sessions, tokens, spec_count, logits, NULL, &error) != KVC_OK)
            stop(&error, "batch");
        for (size_t i = 0; i < spec_count; i++)
            after_step(&runs[i], logits + i * vocab);
    }
    for (size_t i = 0; i < spec_count; i++) {
        prompt(&runs[i], 500, SECOND);
        decode(&runs[i], MORE);
        finish(&runs[i], &model->network, specs[i], "f16");
    }
    free(logits);
}

static void add_methods(const struct kvc_engine *engine) {
    static char texts[SPECS_MOST][100];
    const struct kvc_policy_class *policy;
    while (specs[spec_count])
        spec_count++;
    const size_t written = spec_count;
    for (size_t i = 0; (policy = kvc_policy(engine, i)); i++) {
        size_t s = 0;
        while (s < written && !kvc_test_is_of(specs[s], policy))
            s++;
        if (s < written)
            continue;
        if (spec_count == SPECS_MOST)
            exit(4);
        kvc_test_method_spec(policy, 24, texts[spec_count], sizeof texts[0]);
        specs[spec_count] = texts[spec_count];
        spec_count++;
    }
}

static void generate_all(struct kvc_engine *engine, const char *path, enum kvc_type type) {
    static const enum kvc_type cache_types[] = {KVC_F16, KVC_F32, KVC_Q8_0};
    struct kvc_model model = {.engine = engine};
    struct kvc_error error;
    /* Rows of "small" are whole blocks of every type, those of "tiny" of none. */
    if (kvc_make_model(type == KVC_F16 ? "tiny" : "small", type, 42, path, &error) != KVC_OK)
        stop(&error, "kvc_make_model");
    printf("model %s\n", kvc_type_name(type));
    print_file(path);
    if (kvc_gguf_open(path, &model.gguf, &error) != KVC_OK)
        stop(&error, path);
    if (kvc_network_from_gguf(engine, model.gguf, path, &model.network, &model.info, &error) != KVC_OK)
        stop(&error, path);
    if (type == KVC_F16) {
        for (size_t i = 0; i < spec_count; i++) /* each in one of the types in turn; the operations have all types */
            generate(&model, specs[i], cache_types[i % 3]);
        generate_together(&model);
    } else {
        generate(&model, "take:budget=12,chunk=16,probe=4,warmup_layers=1+quest:budget=8,page=4", KVC_F16);
    }
    kvc_runner_close(model.runner);
    kvc_network_free(engine->device, &model.network);
    kvc_model_info_free(&model.info);
    kvc_gguf_close(model.gguf);
    unlink(path);
}

/* A small model of one family; together they have every kind of rope scaling, bias, norm and window. */
static void generate_golden(struct kvc_engine *engine, const char *path) {
    struct kvc_model model = {.engine = engine};
    struct kvc_error error;
    if (kvc_gguf_open(path, &model.gguf, &error) != KVC_OK)
        stop(&error, path);
    if (kvc_network_from_gguf(engine, model.gguf, path, &model.network, &model.info, &error) != KVC_OK)
        stop(&error, path);
    printf("family %s\n", model.info.name);
    generate(&model, "full", KVC_F32);
    kvc_runner_close(model.runner);
    kvc_network_free(engine->device, &model.network);
    kvc_model_info_free(&model.info);
    kvc_gguf_close(model.gguf);
}

/* The models of this driver, in both arithmetics. */
static void generate_models(struct kvc_engine *engine, struct kvc_engine_options options, const char *path) {
    struct kvc_engine *int8;
    struct kvc_error error;
    add_methods(engine);
    generate_all(engine, path, KVC_F16);
    generate_all(engine, path, KVC_Q8_0);
    generate_all(engine, path, KVC_Q4_K);
    options.math = KVC_MATH_INT8;
    if (kvc_engine_open(&options, &int8, &error) != KVC_OK)
        stop(&error, "kvc_engine_open");
    printf("int8\n");
    generate_all(int8, path, KVC_Q8_0);
    generate_all(int8, path, KVC_Q4_K);
    kvc_engine_close(int8);
}

int main(int count, char **arguments) {
    struct kvc_engine_options options = {.backend = "cpu", .threads = 2};
    struct kvc_engine *engine;
    struct kvc_error error;
    struct kvc_verify_options verify = {.backend = "cpu", .effort = 1, .alone = true};
    bool flush = false, only_operations = false, light = false;
    const char *path = NULL;
    for (int i = 1; i < count; i++) {
        if (strcmp(arguments[i], "flush") == 0)
            flush = true;
        else if (strcmp(arguments[i], "operations") == 0)
            only_operations = true;
        else if (strcmp(arguments[i], "light") == 0)
            light = true;
        else if (strcmp(arguments[i], "ref") == 0)
            verify.alone = false;
        else if (strncmp(arguments[i], "effort=", 7) == 0)
            verify.effort = (unsigned)atoi(arguments[i] + 7);
        else if (strncmp(arguments[i], "threads=", 8) == 0)
            options.threads = atoi(arguments[i] + 8);
        else if (strncmp(arguments[i], "golden=", 7) != 0)
            path = arguments[i];
    }
    if (!path) {
        fprintf(stderr,
                "usage: driver [flush] [operations] [light] [ref] [threads=N] [effort=N] [golden=GGUF]... FILE\n");
        return 2;
    }
    if (flush)
        flush_to_zero();
    verify.threads = options.threads;
    enum kvc_status status = KVC_OK;
    if (light)
        status = verify_light(verify, &error);
    else if (verify.effort)
        status = kvc_verify_operations(&verify, print_operation, NULL, &error);
    if (status != KVC_OK)
        stop(&error, "operations");
    if (kvc_engine_open(&options, &engine, &error) != KVC_OK)
        stop(&error, "kvc_engine_open");
    fprintf(stderr, "%s%s\n", kvc_engine_backend(engine), flushes() ? ", the host flushes denormals to zero" : "");
    if (!only_operations)
        generate_models(engine, options, path);
    for (int i = 1; i < count; i++)
        if (strncmp(arguments[i], "golden=", 7) == 0)
            generate_golden(engine, arguments[i] + 7);
    kvc_engine_close(engine);
#if defined(__x86_64__) || defined(__aarch64__)
    if (flush && !flushes()) {
        fprintf(stderr, "driver: the library did not put the host's floating-point environment back\n");
        return 1;
    }
#endif
    return fflush(stdout) == 0 ? 0 : 4;
}

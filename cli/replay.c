/* replay.c - kvcull replay: runs a policy on tensors from any source and writes which entries it keeps. */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "kvcull/check.h"
#include "kvcull/policy.h"

struct arguments {
    struct cli_common common;
    const char *kv, *in, *out, *attn;
    int64_t prompt, seed;
    bool selects; /* true if the policy has a select method */
};

struct layer {                        /* the pointers point into the mapped file */
    const float *q, *k, *v;           /* q [T, H, d], k and v [T, H_kv, d] */
    const float *pseudo_q, *pseudo_k; /* [m, H, d] and [m, H_kv, d]; NULL if the file has none */
    uint32_t pseudo;
};

struct dump {
    struct kvc_tensor_reader *reader;
    struct kvc_geometry geometry;
    uint64_t rows, prompt;
    struct layer *layers;
};

/* Reads one tensor of a layer, and checks its shape against the shapes read so far (0 if not known yet). */
static int read_tensor(const struct cli_command *command, const char *path, struct dump *dump, uint32_t layer,
                       const char *kind, const float **values) {
    bool query = strcmp(kind, "q") == 0;
    uint32_t *heads = query ? &dump->geometry.heads : &dump->geometry.kv_heads;
    struct kvc_tensor tensor;
    struct kvc_error error;
    char name[48];

    snprintf(name, sizeof name, "layers.%u.%s", layer, kind);
    if (kvc_tensor_read(dump->reader, name, &tensor, &error) != KVC_OK)
        return cli_report(command, &error);
    if (tensor.dimensions != 3 || tensor.shape[0] == 0 || tensor.shape[1] == 0 || tensor.shape[2] == 0 ||
        tensor.shape[0] > INT32_MAX || tensor.shape[1] > 65536 || tensor.shape[2] > 65536)
        return cli_error(command, KVC_INPUT, "%s: %s: has the wrong shape; it takes [tokens, heads, head size]", path,
                         name);
    if (dump->rows == 0) {
        dump->rows = tensor.shape[0];
        dump->geometry.head_size = (uint32_t)tensor.shape[2];
    }
    if (*heads == 0)
        *heads = (uint32_t)tensor.shape[1];
    if (tensor.shape[0] != dump->rows || tensor.shape[1] != *heads || tensor.shape[2] != dump->geometry.head_size)
        return cli_error(command, KVC_INPUT, "%s: %s: has shape [%llu, %llu, %llu]; must be [%llu, %u, %u]", path, name,
                         (unsigned long long)tensor.shape[0], (unsigned long long)tensor.shape[1],
                         (unsigned long long)tensor.shape[2], (unsigned long long)dump->rows, *heads,
                         dump->geometry.head_size);
    *values = tensor.values;
    return KVC_OK;
}

/* Reads the rows that a method adds, "layers.<l>.<kind>" [rows, heads, d]. Sets *rows to 0 if the file has no such
 * tensor. */
static int read_extra(const struct cli_command *command, const char *path, const struct dump *dump, const char *name,
                      uint32_t heads, const float **values, uint32_t *rows) {
    struct kvc_tensor tensor;
    struct kvc_error error;

    *rows = 0;
    if (!kvc_tensor_has(dump->reader, name))
        return KVC_OK;
    if (kvc_tensor_read(dump->reader, name, &tensor, &error) != KVC_OK)
        return cli_report(command, &error);
    if (tensor.dimensions != 3 || tensor.shape[0] == 0 || tensor.shape[0] > 65536 || tensor.shape[1] != heads ||
        tensor.shape[2] != dump->geometry.head_size)
        return cli_error(command, KVC_INPUT, "%s: %s: has the wrong shape; it takes [1 to 65536 rows, %u, %u]", path,
                         name, heads, dump->geometry.head_size);
    *values = tensor.values;
    *rows = (uint32_t)tensor.shape[0];
    return KVC_OK;
}

static int read_pseudo(const struct cli_command *command, const char *path, const struct dump *dump, uint32_t l,
                       struct layer *layer) {
    char name[48];
    uint32_t rows = 0;
    int status;

    snprintf(name, sizeof name, "layers.%u.pseudo_q", l);
    status = read_extra(command, path, dump, name, dump->geometry.heads, &layer->pseudo_q, &layer->pseudo);
    snprintf(name, sizeof name, "layers.%u.pseudo_k", l);
    if (status == KVC_OK)
        status = read_extra(command, path, dump, name, dump->geometry.kv_heads, &layer->pseudo_k, &rows);
    if (status == KVC_OK && rows != layer->pseudo)
        status = cli_error(command, KVC_INPUT, "%s: layers.%u.pseudo_k: has %u rows; pseudo_q has %u", path, l, rows,
                           layer->pseudo);
    return status;
}

/* Fails if the file has tensors of a layer but none of an earlier one, because later layers would be ignored. */
static int check_no_gap(const struct cli_command *command, const char *path, const struct dump *dump, uint32_t layers) {
    const char *name;

    for (size_t i = 0; (name = kvc_tensor_name(dump->reader, i)) != NULL; i++) {
        char *end;

        if (strncmp(name, "layers.", 7) == 0 && strtoul(name + 7, &end, 10) >= layers && end[0] == '.')
            return cli_error(command, KVC_INPUT, "%s: has %s, but no tensor layers.%u.q; layers count from 0", path,
                             name, layers);
    }
    return KVC_OK;
}

static int read_dump(const struct cli_command *command, const struct arguments *a, struct dump *dump) {
    struct kvc_error error;
    char name[48] = "layers.0.q";
    uint32_t layers = 0;
    int status = KVC_OK;

    if (kvc_tensor_reader_open(a->in, &dump->reader, &error) != KVC_OK)
        return cli_report(command, &error);
    while (layers < 65536 && kvc_tensor_has(dump->reader, name))
        snprintf(name, sizeof name, "layers.%u.q", ++layers);
    if (layers == 0)
        return cli_error(command, KVC_INPUT,
                         "%s: has no tensor layers.0.q; it takes layers.<l>.q, .k and .v of every "
                         "layer",
                         a->in);
    status = check_no_gap(command, a->in, dump, layers);
    if (status != KVC_OK)
        return status;
    dump->geometry.layers = layers;
    dump->layers = calloc(layers, sizeof *dump->layers);
    if (!dump->layers)
        return cli_no_memory(command);
    for (uint32_t l = 0; l < layers && status == KVC_OK; l++) {
        status = read_tensor(command, a->in, dump, l, "q", &dump->layers[l].q);
        if (status == KVC_OK)
            status = read_tensor(command, a->in, dump, l, "k", &dump->layers[l].k);
        if (status == KVC_OK)
            status = read_tensor(command, a->in, dump, l, "v", &dump->layers[l].v);
        if (status == KVC_OK)
            status = read_pseudo(command, a->in, dump, l, &dump->layers[l]);
    }
    if (status != KVC_OK)
        return status;
    if (dump->geometry.heads % dump->geometry.kv_heads != 0)
        return cli_error(command, KVC_INPUT, "%s: %u query heads are not a multiple of %u key-value heads", a->in,
                         dump->geometry.heads, dump->geometry.kv_heads);
    dump->prompt = a->prompt ? (uint64_t)a->prompt : dump->rows;
    if (dump->prompt > dump->rows)
        return cli_error(command, KVC_USAGE, "--prompt %lld: %s has %llu rows; give 1 to %llu", (long long)a->prompt,
                         a->in, (unsigned long long)dump->rows, (unsigned long long)dump->rows);
    return KVC_OK;
}

/* Writes each result as soon as it is computed. */
struct output {
    const struct cli_command *command;
    const struct kvc_session *session;
    const struct dump *dump;
    FILE *stream;
    int32_t *positions;
    size_t capacity;
    bool first; /* true if no step has been written yet */
    int status;
};

typedef enum kvc_status list_fn(const struct kvc_session *, uint32_t layer, uint32_t kv_head, int32_t *positions,
                                size_t capacity, size_t *count, struct kvc_error *);

/* Writes "name": [layer][head][position...]. */
static int write_lists(struct output *o, const char *name, list_fn *list) {
    fprintf(o->stream, ", \"%s\": [", name);
    for (uint32_t l = 0; l < o->dump->geometry.layers; l++) {
        fputs(l ? ", [" : "[", o->stream);
        for (uint32_t h = 0; h < kvc_session_heads(o->session, l); h++) {
            size_t count = 0;
            struct kvc_error error;
            enum kvc_status status = list(o->session, l, h, o->positions, o->capacity, &count, &error);

            if (status == KVC_OK && count > o->capacity) {
                int32_t *more = realloc(o->positions, 2 * count * sizeof *more);

                if (!more)
                    return cli_no_memory(o->command);
                o->positions = more;
                o->capacity = 2 * count;
                status = list(o->session, l, h, o->positions, o->capacity, &count, &error);
            }
            if (status != KVC_OK)
                return cli_error(o->command, status, "%s", error.text);
            fputs(h ? ", [" : "[", o->stream);
            for (size_t i = 0; i < count; i++)
                fprintf(o->stream, "%s%d", i ? "," : "", o->positions[i]);
            fputc(']', o->stream);
        }
        fputc(']', o->stream);
    }
    fputc(']', o->stream);
    return KVC_OK;
}

/* Begins an object {"at": ..., "kept": ...}, after a comma if another step came before. */
static void begin_step(struct output *o, const char *at) {
    fprintf(o->stream, "%s{\"at\": %s", o->first ? "" : ",\n", at);
    o->first = false;
}

static int write_chunk(void *user, uint32_t chunk) {
    struct output *o = user;

    begin_step(o, "\"chunk\"");
    fprintf(o->stream, ", \"chunk\": %u", chunk);
    o->status = write_lists(o, "kept", kvc_session_positions);
    fputc('}', o->stream);
    return o->status;
}

/* Passes to the replay all probes that the file has for layer l (tensors layers.<l>.probe_q.<chunk>). */
static int give_probes(const struct cli_command *command, struct kvc_replay *replay, const char *path,
                       const struct dump *dump, uint32_t l) {
    int status = KVC_OK;

    for (uint32_t chunk = 0; status == KVC_OK; chunk++) {
        char name[64];
        const float *q = NULL;
        uint32_t rows;
        struct kvc_error error;

        snprintf(name, sizeof name, "layers.%u.probe_q.%u", l, chunk);
        status = read_extra(command, path, dump, name, dump->geometry.heads, &q, &rows);
        if (status != KVC_OK || rows == 0)
            break;
        if (kvc_replay_probe(replay, l, chunk, q, rows, &error) != KVC_OK)
            status = cli_report(command, &error);
    }
    return status;
}

static int replay_prompt(const struct cli_command *command, struct kvc_replay *replay, const char *path,
                         const struct dump *dump, struct output *output, struct cli_progress *progress) {
    struct kvc_error error;

    for (uint32_t l = 0; l < dump->geometry.layers; l++) {
        const struct layer *layer = &dump->layers[l];
        int status = give_probes(command, replay, path, dump, l);

        if (status != KVC_OK)
            return status;
        if (layer->pseudo &&
            kvc_replay_pseudo(replay, l, layer->pseudo_q, layer->pseudo_k, layer->pseudo, &error) != KVC_OK)
            return cli_report(command, &error);
    }
    for (uint32_t l = 0; l < dump->geometry.layers; l++) {
        const struct layer *layer = &dump->layers[l];

        if (kvc_replay_prompt(replay, l, layer->q, layer->k, layer->v, dump->prompt, NULL, &error) != KVC_OK)
            return output->status != KVC_OK ? output->status : cli_report(command, &error);
        cli_progress(progress, l + 1, dump->geometry.layers);
    }
    return KVC_OK;
}

static int replay_row(const struct cli_command *command, struct kvc_replay *replay, const struct dump *dump,
                      uint64_t row, struct kvc_tensor_writer *writer, float *out) {
    size_t wide = (size_t)dump->geometry.heads * dump->geometry.head_size;
    size_t narrow = (size_t)dump->geometry.kv_heads * dump->geometry.head_size;
    struct kvc_error error;

    for (uint32_t l = 0; l < dump->geometry.layers; l++) {
        const struct layer *layer = &dump->layers[l];

        if (kvc_replay_step(replay, l, layer->q + row * wide, layer->k + row * narrow, layer->v + row * narrow, out,
                            &error) != KVC_OK)
            return cli_report(command, &error);
        if (writer && kvc_tensor_write(writer, l, out, wide, &error) != KVC_OK)
            return cli_report(command, &error);
    }
    return KVC_OK;
}

/* Runs one decode row. Writes the entries that it read (if there is a select method) and those kept after it. */
static int write_row(const struct arguments *a, struct output *o, uint64_t row) {
    char at[24];
    int status = KVC_OK;

    snprintf(at, sizeof at, "%llu", (unsigned long long)row);
    begin_step(o, at);
    if (a->selects)
        status = write_lists(o, "read", kvc_session_reads);
    if (status == KVC_OK)
        status = write_lists(o, "kept", kvc_session_positions);
    fputc('}', o->stream);
    return status;
}

static int write_steps(const struct cli_command *command, const struct arguments *a, struct kvc_replay *replay,
                       const struct dump *dump, struct kvc_tensor_writer *writer, FILE *stream) {
    struct output o = {command, kvc_replay_session(replay), dump, stream, NULL, 4096, true, KVC_OK};
    float *out = malloc((size_t)dump->geometry.heads * dump->geometry.head_size * sizeof *out);
    json_t *spec = cli_json_text(a->kv, strlen(a->kv));
    struct cli_progress progress;

    o.positions = malloc(o.capacity * sizeof *o.positions);
    int status = out && o.positions && spec ? KVC_OK : cli_no_memory(command);

    if (status == KVC_OK) {
        fputs("{\"kv\": ", stream);
        if (json_dumpf(spec, stream, JSON_ENCODE_ANY) != 0 && !ferror(stream))
            status = cli_no_memory(command);
    }
    if (status == KVC_OK) {
        fputs(", \"steps\": [\n", stream);
        kvc_replay_on_chunk(replay, write_chunk, &o);
        cli_progress_start(&progress, "prompt", a->common.quiet);
        status = replay_prompt(command, replay, a->in, dump, &o, &progress);
        cli_progress_end(&progress);
    }
    if (status == KVC_OK) {
        begin_step(&o, "\"prompt\"");
        status = write_lists(&o, "kept", kvc_session_positions);
        fputc('}', stream);
    }
    cli_progress_start(&progress, "steps", a->common.quiet);
    for (uint64_t row = dump->prompt; row < dump->rows && status == KVC_OK; row++) {
        status = replay_row(command, replay, dump, row, writer, out);
        if (status == KVC_OK)
            status = write_row(a, &o, row);
        cli_progress(&progress, row + 1 - dump->prompt, dump->rows - dump->prompt);
        if (ferror(stream)) /* the disk is full, for example; cli_file_commit reports it */
            break;
    }
    cli_progress_end(&progress);
    if (status == KVC_OK)
        fputs("\n]}\n", stream);
    json_decref(spec);
    free(o.positions);
    free(out);
    return status;
}

static void summary(const struct arguments *a, const struct kvc_replay *replay, const struct dump *dump) {
    struct kvc_session_stats stats;
    char text[3][32];

    if (a->common.quiet)
        return;
    kvc_session_stats(kvc_replay_session(replay), &stats);
    fprintf(stderr,
            "%llu rows, %llu of them the prompt; %u layers, %u query heads over %u, head size %u\n"
            "cache   %s now, %s at peak (%s); full would hold %s\n",
            (unsigned long long)dump->rows, (unsigned long long)dump->prompt, dump->geometry.layers,
            dump->geometry.heads, dump->geometry.kv_heads, dump->geometry.head_size,
            cli_bytes(stats.cache_bytes + stats.state_bytes, text[0]), cli_bytes(stats.peak_bytes, text[1]), a->kv,
            cli_bytes(stats.full_bytes, text[2]));
}

/* Opens the file of --attn with its tensors layers.<l>.out [T - prompt, H, d]. */
static int open_attention(const struct cli_command *command, const char *path, const struct dump *dump,
                          struct kvc_tensor_writer **writer) {
    uint32_t layers = dump->geometry.layers;
    struct kvc_tensor *tensors = calloc(layers, sizeof *tensors);
    char(*names)[48] = calloc(layers, sizeof *names);
    struct kvc_error error;
    int status = KVC_OK;

    if (!tensors || !names) {
        status = cli_no_memory(command);
    } else {
        for (uint32_t l = 0; l < layers; l++) {
            snprintf(names[l], sizeof names[l], "layers.%u.out", l);
            tensors[l] = (struct kvc_tensor){
                .name = names[l],
                .dimensions = 3,
                .shape = {dump->rows - dump->prompt, dump->geometry.heads, dump->geometry.head_size}};
        }
        if (kvc_tensor_writer_open(path, tensors, layers, writer, &error) != KVC_OK)
            status = cli_report(command, &error);
    }
    free(names);
    free(tensors);
    return status;
}

static int replay(const struct cli_command *command, const struct arguments *a, struct kvc_engine *engine) {
    struct dump dump = {0};
    struct kvc_session_options options;
    struct kvc_replay *state = NULL;
    struct kvc_tensor_writer *writer = NULL;
    struct cli_file file = {NULL, NULL, NULL};
    struct kvc_error error;
    int status = read_dump(command, a, &dump);

    cli_session_options(&a->common, a->kv, &options);
    options.seed = (uint64_t)a->seed;
    options.expected = dump.rows - dump.prompt;
    options.record_reads = a->selects;
    if (status == KVC_OK && a->attn && dump.prompt == dump.rows)
        status = cli_error(command, KVC_USAGE, "--attn: there are no rows after the prompt; give a smaller --prompt");
    if (status == KVC_OK && kvc_replay_open(engine, &dump.geometry, &options, &state, &error) != KVC_OK)
        status = cli_report(command, &error);
    if (status == KVC_OK)
        status = cli_file_open(command, a->out, &file);
    if (status == KVC_OK && a->attn)
        status = open_attention(command, a->attn, &dump, &writer);
    if (status == KVC_OK)
        status = write_steps(command, a, state, &dump, writer, file.stream);
    if (status == KVC_OK)
        status = cli_file_commit(command, &file);
    if (status == KVC_OK && writer) {
        if (kvc_tensor_writer_commit(writer, &error) != KVC_OK)
            status = cli_report(command, &error);
        writer = NULL;
    }
    if (status == KVC_OK)
        summary(a, state, &dump);
    cli_file_abandon(&file);
    kvc_tensor_writer_abandon(writer);
    kvc_replay_close(state);
    kvc_tensor_reader_close(dump.reader);
    free(dump.layers);
    return status;
}

int kvc_cli_replay(const struct cli_command *command, int argc, char **argv) {
    struct arguments a = {.out = "-"};
    const struct cli_option options[] = {
        {CLI_TEXT, 0, "kv", "SPEC", "policy to run", &a.kv, 0, 0, NULL},
        {CLI_INT, 0, "prompt", "N",
         "the first N rows are the prompt, and later rows are decode steps; 0: all rows are the prompt", &a.prompt, 0,
         2147483647, NULL},
        {CLI_TEXT, 'i', "in", "DUMP",
         "a safetensors file with layers.<l>.q [T, H, d], .k and .v [T, H_kv, d], float32, after RoPE. The method dapq "
         "also needs layers.<l>.pseudo_q [m, H, d] and .pseudo_k [m, H_kv, d], and take needs "
         "layers.<l>.probe_q.<chunk> [p, H, d]",
         &a.in, 0, 0, NULL},
        {CLI_TEXT, 'o', "out", "KEPT", "JSON file to write; - is standard output", &a.out, 0, 0, NULL},
        {CLI_TEXT, 0, "attn", "OUT",
         "also write the attention outputs, layers.<l>.out [T - prompt, H, d], to this safetensors file", &a.attn, 0, 0,
         NULL},
        {CLI_INT, 0, "seed", "S", "seed of policies that draw random numbers", &a.seed, 0, 9007199254740992.0, NULL},
        CLI_ENGINE_OPTIONS(&a.common),
        {CLI_GROUP, 0, "Session", NULL, NULL, NULL, 0, 0, NULL},
        CLI_KV_TYPE(&a.common.cache_type),
        {CLI_INT, 0, "chunk", "N", "rows of a prompt computed at once. Does not change results", &a.common.chunk, 1,
         65536, NULL},
        {CLI_FLAG, 'q', "quiet", NULL, "no progress and no summary", &a.common.quiet, 0, 0, NULL},
        {.kind = CLI_END}};
    struct kvc_error error;
    unsigned stages = 0;
    struct kvc_engine *engine = NULL;
    struct cli_given kv;
    struct cli_texts specs = {&kv, 1};
    int status;

    cli_common_defaults(&a.common);
    a.common.cache_type = kvc_entry_types(KVC_F32);
    status = cli_parse(command, options, argc, argv, NULL);
    if (status != CLI_GO)
        return status;
    if (!a.kv)
        return cli_error(command, KVC_USAGE, "give a policy with --kv SPEC; `kvcull info methods` lists them");
    if (!a.in)
        return cli_error(command, KVC_USAGE, "give the tensors with --in DUMP.safetensors");
    if (a.attn && (status = cli_check_name(command, "attn", a.attn)) != KVC_OK)
        return status;
    if (a.attn && strcmp(a.attn, a.out) == 0)
        return cli_error(command, KVC_USAGE, "--attn %s: is the same file as --out; give two names", a.attn);
    kv = (struct cli_given){0, a.kv};
    status = cli_check_inputs(command, a.out, &a.in, 1);
    if (status == KVC_OK && a.attn)
        status = cli_check_inputs(command, a.attn, &a.in, 1);
    if (status == KVC_OK)
        status = cli_open_engine(command, &a.common, &engine);
    if (status == KVC_OK)
        status = cli_check_policies(command, engine, &specs);
    if (status == KVC_OK && kvc_policy_stages(engine, a.kv, &stages, &error) != KVC_OK)
        status = cli_report(command, &error);
    a.selects = stages & KVC_STAGE_SELECT;
    if (status == KVC_OK)
        status = replay(command, &a, engine);
    kvc_engine_close(engine);
    return status;
}

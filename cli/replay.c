/* replay.c - kvcull replay: runs a policy on tensors from anywhere and writes which entries it keeps. */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

struct arguments {
    struct cli_common common;
    const char *kv, *in, *out, *attn;
    int64_t prompt, seed;
};

struct layer {              /* in the mapped file */
    const float *q, *k, *v; /* [T, H, d], [T, H_kv, d] twice */
};

struct dump {
    struct kvc_tensor_reader *reader;
    struct kvc_geometry geometry;
    uint64_t rows, prompt;
    struct layer *layers;
};

/* One tensor of a layer, with the shape that the dump so far asks for (0: not known yet). */
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
        return cli_error(command, KVC_INPUT,
                         "%s: %s: is [%llu, %llu, %llu]; the tensors before it ask for [%llu, %u, "
                         "%u]",
                         path, name, (unsigned long long)tensor.shape[0], (unsigned long long)tensor.shape[1],
                         (unsigned long long)tensor.shape[2], (unsigned long long)dump->rows, *heads,
                         dump->geometry.head_size);
    *values = tensor.values;
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

/* "kept": [layer][head][position...] */
static int write_kept(const struct cli_command *command, FILE *stream, const struct kvc_session *session,
                      const struct kvc_geometry *geometry, int32_t **positions, size_t *room) {
    fputs("\"kept\": [", stream);
    for (uint32_t l = 0; l < geometry->layers; l++) {
        fputs(l ? ", [" : "[", stream);
        for (uint32_t h = 0; h < geometry->kv_heads; h++) {
            size_t count = 0;
            struct kvc_error error;
            enum kvc_status status = kvc_session_positions(session, l, h, *positions, *room, &count, &error);

            if (status == KVC_OK && count > *room) {
                int32_t *more = realloc(*positions, 2 * count * sizeof *more);

                if (!more)
                    return cli_no_memory(command);
                *positions = more;
                *room = 2 * count;
                status = kvc_session_positions(session, l, h, *positions, *room, &count, &error);
            }
            if (status != KVC_OK)
                return cli_error(command, status, "%s", error.text);
            fputs(h ? ", [" : "[", stream);
            for (size_t i = 0; i < count; i++)
                fprintf(stream, "%s%d", i ? "," : "", (*positions)[i]);
            fputc(']', stream);
        }
        fputc(']', stream);
    }
    fputs("]}", stream);
    return KVC_OK;
}

static int replay_prompt(const struct cli_command *command, struct kvc_replay *replay, const struct dump *dump,
                         struct cli_progress *progress) {
    struct kvc_error error;

    for (uint32_t l = 0; l < dump->geometry.layers; l++) {
        const struct layer *layer = &dump->layers[l];

        if (kvc_replay_prompt(replay, l, layer->q, layer->k, layer->v, dump->prompt, NULL, &error) != KVC_OK)
            return cli_report(command, &error);
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

static int write_steps(const struct cli_command *command, const struct arguments *a, struct kvc_replay *replay,
                       const struct dump *dump, struct kvc_tensor_writer *writer, FILE *stream) {
    const struct kvc_session *session = kvc_replay_session(replay);
    float *out = malloc((size_t)dump->geometry.heads * dump->geometry.head_size * sizeof *out);
    size_t room = 4096;
    int32_t *positions = malloc(room * sizeof *positions);
    json_t *spec = cli_json_text(a->kv, strlen(a->kv));
    struct cli_progress progress;
    int status = out && positions && spec ? KVC_OK : cli_no_memory(command);

    if (status == KVC_OK) {
        fputs("{\"kv\": ", stream);
        json_dumpf(spec, stream, JSON_ENCODE_ANY);
        fputs(", \"steps\": [\n{\"at\": \"prompt\", ", stream);
        cli_progress_start(&progress, "prompt", a->common.quiet);
        status = replay_prompt(command, replay, dump, &progress);
        cli_progress_end(&progress);
    }
    if (status == KVC_OK)
        status = write_kept(command, stream, session, &dump->geometry, &positions, &room);
    cli_progress_start(&progress, "steps", a->common.quiet);
    for (uint64_t row = dump->prompt; row < dump->rows && status == KVC_OK; row++) {
        status = replay_row(command, replay, dump, row, writer, out);
        if (status != KVC_OK)
            break;
        fprintf(stream, ",\n{\"at\": %llu, ", (unsigned long long)row);
        status = write_kept(command, stream, session, &dump->geometry, &positions, &room);
        cli_progress(&progress, row + 1 - dump->prompt, dump->rows - dump->prompt);
        if (ferror(stream)) /* a full disk; commit says so */
            break;
    }
    cli_progress_end(&progress);
    if (status == KVC_OK)
        fputs("\n]}\n", stream);
    json_decref(spec);
    free(positions);
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

/* The tensors of --attn: layers.<l>.out [T - prompt, H, d]. */
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
    if (status == KVC_OK && a->attn && dump.prompt == dump.rows)
        status = cli_error(command, KVC_USAGE, "--attn: there are no rows behind the prompt; give a smaller --prompt");
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
        {CLI_TEXT, 0, "kv", "SPEC", "the policy", &a.kv, 0, 0, NULL},
        {CLI_INT, 0, "prompt", "N", "rows below N are the prompt, each later row a decode step; 0: all are the prompt",
         &a.prompt, 0, 2147483647, NULL},
        {CLI_TEXT, 'i', "in", "DUMP",
         "a safetensors file: layers.<l>.q [T, H, d], .k and .v [T, H_kv, d], float32, "
         "after RoPE",
         &a.in, 0, 0, NULL},
        {CLI_TEXT, 'o', "out", "KEPT", "the JSON file to write; - is standard output", &a.out, 0, 0, NULL},
        {CLI_TEXT, 0, "attn", "OUT", "also write layers.<l>.out [T - prompt, H, d], the attention's outputs", &a.attn,
         0, 0, NULL},
        {CLI_INT, 0, "seed", "S", "of policies that draw", &a.seed, 0, 9007199254740992.0, NULL},
        CLI_ENGINE_OPTIONS(&a.common),
        {CLI_GROUP, 0, "Session", NULL, NULL, NULL, 0, 0, NULL},
        {CLI_TYPE, 0, "kv-type", "TYPE", "how cache entries are stored", &a.common.cache_type, 0, 0, "f32|f16|q8_0"},
        {CLI_INT, 0, "chunk", "N", "prompt rows computed at once. Never changes a bit", &a.common.chunk, 1, 65536,
         NULL},
        {CLI_FLAG, 'q', "quiet", NULL, "no progress and no summary", &a.common.quiet, 0, 0, NULL},
        {.kind = CLI_END}};
    struct kvc_engine *engine = NULL;
    struct cli_given kv;
    struct cli_texts specs = {&kv, 1};
    int status;

    cli_common_defaults(&a.common);
    a.common.cache_type = KVC_F32;
    status = cli_parse(command, options, argc, argv, NULL);
    if (status != CLI_GO)
        return status;
    if (!a.kv)
        return cli_error(command, KVC_USAGE, "give a policy with --kv SPEC; `kvcull info methods` lists them");
    if (!a.in)
        return cli_error(command, KVC_USAGE, "give the tensors with --in DUMP.safetensors");
    if (a.attn && a.attn[0] == '\0')
        return cli_error(command, KVC_USAGE, "--attn: the name is empty; give a file name");
    kv = (struct cli_given){0, a.kv};
    status = cli_open_engine(command, &a.common, &engine);
    if (status == KVC_OK)
        status = cli_check_policies(command, engine, &specs);
    if (status == KVC_OK)
        status = replay(command, &a, engine);
    kvc_engine_close(engine);
    return status;
}

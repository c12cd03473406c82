/* test_gpt_oss.c - features that only gpt-oss's files have: sinks, expert biases, fused experts in folders, MXFP4 that
 * a conversion keeps; and files with wrong data about them. */
#include "tests/models/file_maker.h"

#include "core/base/types.h"
#include "models/files/gguf_write.h"
#include "models/files/safetensors.h"
#include "models/files/scaled.h"

enum { HEADS = 6, EXPERTS = 5, HIDDEN = 32, FEED = 64, VOCAB = 51, TOKENS = 40 }; /* the golden model's sizes */

static struct kvc_engine *engine;
static struct kvc_error error;

static void must(enum kvc_status status) {
    if (status)
        fail_msg("status %d: %s", (int)status, error.text);
}

static const char *golden(const char *name) {
    static char path[512];
    const char *folder = getenv("top_srcdir");
    snprintf(path, sizeof path, "%s/tests/data/golden/%s", folder ? folder : ".", name);
    return path;
}

/* ---- GGUF files that lie ---- */

/* The golden model's file with one tensor left out, with another shape (dimensions above 0), or with another last
 * value. */
struct change {
    const char *tensor;
    uint32_t dimensions;
    uint64_t shape[3];
    float last;
};

static void refuse(struct change change, const char *says) {
    static float values[EXPERTS * FEED * HIDDEN];
    struct kvc_gguf *from;
    struct kvc_model *model;
    struct kvc_gguf_writer *writer = kvc_gguf_writer_new();
    const char *path = own_path("changed.gguf"), *key;
    enum kvc_gguf_type type;
    size_t index = 0, found = 0;
    must(kvc_gguf_open(golden("gpt-oss/model.gguf"), &from, &error));
    for (size_t i = 0; kvc_gguf_key(from, i, &key, &type); i++) {
        uint64_t bytes;
        const unsigned char *data = kvc_gguf_value_data(from, i, &bytes);
        if (strcmp(key, "general.alignment") != 0)
            kvc_gguf_put_raw(writer, key, type, data, bytes);
    }
    for (int written = 0; written < 2; written++) {
        for (size_t i = 0; i < kvc_gguf_tensor_count(from); i++) {
            const struct kvc_file_tensor *tensor = kvc_gguf_tensor_at(from, i);
            const bool changed = strcmp(tensor->name, change.tensor) == 0;
            found += changed;
            if (changed && !change.dimensions)
                continue;
            const uint32_t dimensions = changed ? change.dimensions : tensor->dimensions;
            const uint64_t *shape = changed ? change.shape : tensor->shape;
            size_t count = 1;
            for (uint32_t d = 0; d < dimensions; d++)
                count *= (size_t)shape[d];
            if (changed)
                values[count - 1] = change.last;
            if (!written)
                kvc_gguf_add_tensor(writer, tensor->name, changed ? KVC_F32 : tensor->type, dimensions, shape);
            else
                must(kvc_gguf_write(writer, index++, changed ? values : tensor->data,
                                    changed ? count * sizeof *values : (size_t)tensor->bytes, &error));
        }
        if (!written)
            must(kvc_gguf_writer_begin(writer, path, &error));
    }
    must(kvc_gguf_writer_commit(writer, &error));
    kvc_gguf_close(from);
    assert_int_equal(found, 2);
    check_refusal(kvc_model_open(engine, path, &model, &error), KVC_INPUT, &error, says);
    assert_null(model);
}

static void sinks_that_do_not_fit(void **state) {
    static const char sinks[] = "blk.1.attn_sinks.weight";
    (void)state;
    refuse((struct change){.tensor = sinks}, "tensor blk.1.attn_sinks.weight is missing");
    refuse((struct change){sinks, 1, {HEADS - 1}, 0}, "has 1 x 5 numbers, it must be a vector of 6");
    refuse((struct change){sinks, 1, {HEADS + 1}, 0}, "has 1 x 7 numbers, it must be a vector of 6");
    refuse((struct change){sinks, 2, {2, 3}, 0}, "it must be a vector of 6");
    refuse((struct change){sinks, 1, {HEADS}, __builtin_nanf("")}, "the sink of head 5 is nan, it must be finite");
    refuse((struct change){sinks, 1, {HEADS}, __builtin_inff()}, "the sink of head 5 is inf, it must be finite");
    refuse((struct change){sinks, 1, {HEADS}, -__builtin_inff()}, "the sink of head 5 is -inf, it must be finite");
}

static void biases_that_do_not_fit(void **state) {
    static const char gate[] = "blk.2.ffn_gate_exps.bias", router[] = "blk.0.ffn_gate_inp.bias";
    (void)state;
    refuse((struct change){.tensor = gate}, "tensor blk.2.ffn_gate_exps.bias is missing");
    refuse((struct change){gate, 2, {EXPERTS - 1, FEED}, 0}, "has 4 x 64 numbers in 2 dimensions, it must be 5 x 64");
    refuse((struct change){gate, 2, {FEED, EXPERTS}, 0}, "has 64 x 5 numbers in 2 dimensions, it must be 5 x 64");
    refuse((struct change){gate, 1, {FEED}, 0}, "in 1 dimensions, it must be 5 x 64");
    refuse((struct change){gate, 3, {1, EXPERTS, FEED}, 0}, "in 3 dimensions, it must be 5 x 64");
    refuse((struct change){.tensor = router}, "tensor blk.0.ffn_gate_inp.bias is missing");
    refuse((struct change){router, 1, {EXPERTS + 1}, 0}, "it must be a vector of 5");
    refuse((struct change){.tensor = "blk.3.attn_output.bias"}, "blk.3.attn_output.bias is missing");
    refuse((struct change){"blk.3.ffn_up_exps.weight", 3, {EXPERTS, HIDDEN, FEED}, 0},
           "it must be 5 matrices of 64 x 32");
}

/* ---- fused experts ---- */

static struct maker made;

/* A safetensors file of one tensor with the bytes 0, 1, 2 ... (as little-endian elements of `element` bytes), opened
 * and split. */
static enum kvc_status split_one(const char *name, const char *type, const char *shape, size_t count, unsigned element,
                                 struct kvc_safetensors **file) {
    char header[300];
    snprintf(header, sizeof header, "{\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[0,%zu]}}", name, type,
             shape, count * element);
    made.used = 0;
    put_text(&made, header);
    for (size_t i = 0; i < count; i++)
        put_number(&made, i, element);
    const char *path = write_file("one.safetensors", made.data, made.used);
    must(kvc_safetensors_open(path, file, &error));
    return kvc_safetensors_split(*file, path, &error);
}

/* Checks the tensor's numbers. */
static void check_made(const struct kvc_safetensors *file, const char *name, uint64_t rows, uint64_t cols,
                       const uint16_t *wanted) {
    const struct kvc_file_tensor *tensor = kvc_safetensors_tensor(file, name);
    if (!tensor)
        fail_msg("%s is not there", name);
    assert_true(tensor->rows == rows && tensor->cols == cols && tensor->bytes == rows * cols * sizeof *wanted);
    must(kvc_tensor_make(tensor, "here", &error));
    assert_memory_equal(kvc_tensor_data(tensor), wanted, rows * cols * sizeof *wanted);
}

#define FUSED "model.layers.0.mlp.experts."

static void fused_tensors_are_taken_apart(void **state) {
    struct kvc_safetensors *file;
    (void)state;
    /* [2 experts, 2 inputs, 2 * 3 outputs]: the values are 12 e + 6 k + n, with gate and up alternating. */
    static const uint16_t gate[] = {0, 6, 2, 8, 4, 10, 12, 18, 14, 20, 16, 22};
    static const uint16_t up[] = {1, 7, 3, 9, 5, 11, 13, 19, 15, 21, 17, 23};
    must(split_one(FUSED "gate_up_proj", "BF16", "2,2,6", 24, 2, &file));
    assert_int_equal(kvc_safetensors_count(file), 2);
    assert_null(kvc_safetensors_tensor(file, FUSED "gate_up_proj"));
    check_made(file, FUSED "gate_proj", 6, 2, gate);
    check_made(file, FUSED "up_proj", 6, 2, up);
    kvc_safetensors_close(file);
    static const uint16_t gate_bias[] = {0, 2, 4, 6}, up_bias[] = {1, 3, 5, 7};
    must(split_one(FUSED "gate_up_proj_bias", "F16", "2,4", 8, 2, &file));
    check_made(file, FUSED "gate_proj_bias", 2, 2, gate_bias);
    check_made(file, FUSED "up_proj_bias", 2, 2, up_bias);
    kvc_safetensors_close(file);
    static const uint16_t down[] = {0, 3, 1, 4, 2, 5};
    must(split_one(FUSED "down_proj", "BF16", "1,2,3", 6, 2, &file));
    check_made(file, FUSED "down_proj", 3, 2, down);
    kvc_safetensors_close(file);
    must(split_one("a.weight", "BF16", "2,3", 6, 2, &file)); /* not a tensor to be split */
    assert_true(kvc_safetensors_count(file) == 1 && !kvc_safetensors_at(file, 0)->scaled);
    kvc_safetensors_close(file);
}

static void refuse_fused(const char *name, const char *shape, size_t count, const char *says) {
    struct kvc_safetensors *file;
    check_refusal(split_one(name, "BF16", shape, count, 2, &file), KVC_INPUT, &error, says);
    kvc_safetensors_close(file);
}

static void fused_tensors_that_do_not_fit(void **state) {
    (void)state;
    refuse_fused(FUSED "gate_up_proj", "2,2,3", 12, "must have 3 dimensions and an even number of outputs");
    refuse_fused(FUSED "gate_up_proj", "4,4", 16, "must have 3 dimensions");
    refuse_fused(FUSED "gate_up_proj_bias", "2,3", 6, "must have 2 dimensions and an even number of outputs");
    refuse_fused(FUSED "gate_up_proj_bias", "2", 2, "must have 2 dimensions");
    refuse_fused(FUSED "down_proj", "4,4", 16, "must have 3 dimensions");
}

/* ---- conversion ---- */

static float *logits_of(const char *path) {
    struct kvc_model *model;
    struct kvc_session_options options;
    struct kvc_session *session;
    int32_t tokens[TOKENS];
    float *logits = malloc(VOCAB * sizeof *logits);
    assert_non_null(logits);
    for (int32_t i = 0; i < TOKENS; i++)
        tokens[i] = (i * 37 + 5) % VOCAB;
    must(kvc_model_open(engine, path, &model, &error));
    kvc_session_defaults(&options);
    must(kvc_session_open(model, &options, &session, &error));
    must(kvc_session_prompt(session, tokens, TOKENS, NULL, logits, &error));
    kvc_session_close(session);
    kvc_model_close(model);
    return logits;
}

/* Experts in MXFP4 stay unchanged whatever block type is requested, and are dequantized for a plain type; the result is
 * the same from a folder and from a GGUF file. */
static void experts_stay_in_mxfp4(void **state) {
    static const char stack[] = "blk.3.ffn_up_exps.weight";
    static const enum kvc_type types[] = {KVC_Q8_0, KVC_Q4_K, KVC_MXFP4, KVC_F32};
    struct kvc_gguf *from, *to[2];
    (void)state;
    must(kvc_gguf_open(golden("gpt-oss/model.gguf"), &from, &error));
    const struct kvc_file_tensor *old = kvc_gguf_tensor(from, stack);
    assert_true(old->type == KVC_MXFP4);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        for (int gguf = 0; gguf < 2; gguf++) {
            const char *path = own_path(gguf ? "two.gguf" : "one.gguf");
            must(kvc_convert(golden(gguf ? "gpt-oss/model.gguf" : "gpt-oss"), path, types[i], &error));
            must(kvc_gguf_open(path, &to[gguf], &error));
            const struct kvc_file_tensor *stays = kvc_gguf_tensor(to[gguf], stack);
            assert_true(stays->type == (types[i] == KVC_F32 ? KVC_F32 : KVC_MXFP4) && stays->dimensions == 3);
            if (types[i] != KVC_F32)
                assert_memory_equal(stays->data, old->data, (size_t)old->bytes);
            assert_true(kvc_gguf_tensor(to[gguf], "blk.3.ffn_up_exps.bias")->type == KVC_F32);
            assert_true(kvc_gguf_tensor(to[gguf], "blk.3.attn_sinks.weight")->type == KVC_F32);
            kvc_gguf_close(to[gguf]);
        }
        float *one = logits_of(own_path("one.gguf")), *two = logits_of(own_path("two.gguf"));
        assert_memory_equal(one, two, VOCAB * sizeof *one);
        free(one);
        free(two);
    }
    kvc_gguf_close(from);
}

static void counts(void **state) {
    struct kvc_model *model;
    (void)state;
    for (int gguf = 0; gguf < 2; gguf++) {
        must(kvc_model_open(engine, golden(gguf ? "gpt-oss/model.gguf" : "gpt-oss"), &model, &error));
        const struct kvc_model_info *info = kvc_model_info(model);
        const uint64_t one = 3 * FEED * HIDDEN + 2 * FEED + HIDDEN; /* of one expert: matrices, biases */
        assert_true(info->experts == EXPERTS && info->experts_used == 2 && info->sliding_window == 9);
        assert_int_equal(info->parameters - info->active_parameters, 4 * (EXPERTS - 2) * one);
        assert_true(info->windows[0] == 9 && info->windows[1] == 0 && info->windows[2] == 9 && info->windows[3] == 0);
        kvc_model_close(model);
    }
}

static int open_all(void **state) {
    (void)state;
    must(kvc_engine_open(NULL, &engine, &error));
    return 0;
}

static int close_all(void **state) {
    kvc_engine_close(engine);
    return remove_own_folder(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sinks_that_do_not_fit),         cmocka_unit_test(biases_that_do_not_fit),
        cmocka_unit_test(fused_tensors_are_taken_apart), cmocka_unit_test(fused_tensors_that_do_not_fit),
        cmocka_unit_test(experts_stay_in_mxfp4),         cmocka_unit_test(counts),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}

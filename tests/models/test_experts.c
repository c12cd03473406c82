/* test_experts.c - files of models with experts: their parameter counts, early Mixtral files with a tensor for each
 * expert, conversion, and files with wrong data about experts. */
#include "tests/models/file_maker.h"

#include "core/base/types.h"
#include "models/files/gguf_write.h"

enum { EXPERTS = 13, USED = 3, HIDDEN = 72, FEED = 40, LAYERS = 3, TOKENS = 60 };

static struct kvc_engine *engine;
static struct kvc_gguf *good;
static struct kvc_error error;

static void must(enum kvc_status status) {
    if (status) {
        print_error("status %d: %s\n", (int)status, error.text);
        fail();
    }
}

/* ---- a copy of a valid file with one change ---- */

struct change {
    const char *key; /* in metadata: replaced by this number, or removed */
    uint64_t value;
    bool removed, number_is_text;
    const char *tensor; /* left out, unless it has a shape: then zeros of that type */
    uint32_t dimensions;
    uint64_t shape[3];
    enum kvc_type type;
    bool apart;           /* stacks are written as one tensor per expert */
    bool no_number;       /* the last value of the changed tensor is NaN */
    const char *apart_as; /* the first tensor of expert 1 contains this type in its name, too: "f32" */
};

static void copy_keys(struct kvc_gguf_writer *writer, const struct kvc_gguf *from, const struct change *change) {
    const char *key;
    enum kvc_gguf_type type;
    for (size_t i = 0; kvc_gguf_key(from, i, &key, &type); i++) {
        uint64_t bytes;
        const unsigned char *data = kvc_gguf_value_data(from, i, &bytes);
        if (!change->key || strcmp(change->key, key) != 0)
            kvc_gguf_put_raw(writer, key, type, data, bytes);
    }
    if (change->key && change->number_is_text)
        kvc_gguf_put_string(writer, change->key, "8", 1);
    else if (change->key && !change->removed)
        kvc_gguf_put_uint32(writer, change->key, (uint32_t)change->value);
}

/* Turns "blk.0.ffn_up_exps.weight" into "blk.0.ffn_up.E.weight"; false: it is not a stack. */
static bool name_apart(const char *name, uint64_t expert, char *to, size_t capacity) {
    const char *end = strstr(name, "_exps.weight");
    if (end)
        snprintf(to, capacity, "%.*s.%u.weight", (int)(end - name), name, (unsigned)expert);
    return end != NULL;
}

/* Either adds the tensors' names or writes their data. */
static void put_tensors(struct kvc_gguf_writer *writer, const struct kvc_gguf *from, const struct change *change,
                        bool written) {
    static unsigned char zeros[1 << 18];
    const float last = change->no_number ? __builtin_nanf("") : 0;
    char name[100];
    size_t index = 0;
    for (size_t i = 0; i < kvc_gguf_tensor_count(from); i++) {
        const struct kvc_file_tensor *tensor = kvc_gguf_tensor_at(from, i);
        const bool changed = change->tensor && strcmp(change->tensor, tensor->name) == 0;
        if (changed && !change->dimensions)
            continue;
        const bool apart = change->apart && name_apart(tensor->name, 0, name, sizeof name);
        const uint64_t *shape = changed ? change->shape : tensor->shape;
        const uint32_t dimensions = changed ? change->dimensions : tensor->dimensions;
        for (uint64_t e = 0; e < (apart ? shape[0] : 1); e++, index++) {
            const bool odd = apart && e == 1 && change->apart_as && i < 12;
            const enum kvc_type type = odd ? KVC_F32 : changed ? change->type : tensor->type;
            uint64_t rows = 1;
            for (uint32_t d = apart; d + 1 < dimensions; d++)
                rows *= shape[d];
            const size_t bytes = (size_t)rows * kvc_type_row_bytes(type, shape[dimensions - 1]);
            assert_true(bytes <= sizeof zeros || (!changed && !odd));
            if (apart)
                name_apart(tensor->name, e, name, sizeof name);
            if (changed)
                memcpy(zeros + bytes - sizeof last, &last, sizeof last);
            if (!written)
                kvc_gguf_add_tensor(writer, apart ? name : tensor->name, type, dimensions - apart, shape + apart);
            else
                must(kvc_gguf_write(writer, index,
                                    changed || odd ? zeros : (const unsigned char *)tensor->data + e * bytes, bytes,
                                    &error));
        }
    }
}

static const char *write_changed(const struct kvc_gguf *from, const struct change *change) {
    const char *path = own_path("changed.gguf");
    struct kvc_gguf_writer *writer = kvc_gguf_writer_new();
    assert_non_null(writer);
    copy_keys(writer, from, change);
    put_tensors(writer, from, change, false);
    must(kvc_gguf_writer_begin(writer, path, &error));
    put_tensors(writer, from, change, true);
    must(kvc_gguf_writer_commit(writer, &error));
    return path;
}

static void refuse(struct change change, const char *says) {
    struct kvc_model *model;
    check_refusal(kvc_model_open(engine, write_changed(good, &change), &model, &error), KVC_INPUT, &error, says);
    assert_null(model);
}

static void refuse_number(const char *key, uint64_t value, const char *says) {
    char name[100];
    snprintf(name, sizeof name, "qwen3moe.%s", key);
    refuse((struct change){.key = name, .value = value}, says);
}

/* ---- logits, to compare files ---- */

static float *logits_of(const char *path) {
    struct kvc_model *model;
    struct kvc_session_options options;
    struct kvc_session *session;
    int32_t tokens[TOKENS];
    must(kvc_model_open(engine, path, &model, &error));
    const uint32_t vocab = kvc_model_info(model)->vocab;
    float *logits = malloc(vocab * sizeof *logits);
    assert_non_null(logits);
    for (int32_t i = 0; i < TOKENS; i++)
        tokens[i] = (int32_t)((uint32_t)(i * 37 + 5) % vocab);
    kvc_session_defaults(&options);
    must(kvc_session_open(model, &options, &session, &error));
    must(kvc_session_prompt(session, tokens, TOKENS, NULL, logits, &error));
    kvc_session_close(session);
    kvc_model_close(model);
    return logits;
}

static void same_logits(const char *a, const char *b, uint32_t vocab) {
    float *one = logits_of(a), *other = logits_of(b);
    assert_memory_equal(one, other, vocab * sizeof *one);
    free(one);
    free(other);
}

static const char *golden(const char *name) {
    static char path[512];
    const char *folder = getenv("top_srcdir");
    snprintf(path, sizeof path, "%s/tests/data/golden/%s", folder ? folder : ".", name);
    return path;
}

/* ---- the tests ---- */

static void counts(void **state) {
    struct kvc_model *model;
    (void)state;
    must(kvc_model_open(engine, own_path("good.gguf"), &model, &error));
    const struct kvc_model_info *info = kvc_model_info(model);
    const uint64_t of_experts = (uint64_t)LAYERS * EXPERTS * 3 * FEED * HIDDEN;
    assert_int_equal(info->experts, EXPERTS);
    assert_int_equal(info->experts_used, USED);
    assert_int_equal(info->feed_forward, FEED);
    assert_int_equal(info->expert_layers, LAYERS);
    assert_int_equal(info->dense_feed, 0);
    assert_int_equal(info->parameters - info->active_parameters, of_experts / EXPERTS * (EXPERTS - USED));
    assert_int_equal(info->weight_bytes - info->active_bytes, 2 * of_experts / EXPERTS * (EXPERTS - USED));
    kvc_model_close(model);
    must(kvc_make_model("tiny", KVC_F16, 1, own_path("dense.gguf"), &error));
    must(kvc_model_open(engine, own_path("dense.gguf"), &model, &error));
    info = kvc_model_info(model);
    assert_int_equal(info->experts, 0);
    assert_int_equal(info->active_parameters, info->parameters);
    assert_int_equal(info->active_bytes, info->weight_bytes);
    kvc_model_close(model);
}

/* One tensor per expert gives bit-identical results. */
static void first_files_of_mixtral(void **state) {
    const struct change apart = {.apart = true}, mixed = {.apart = true, .apart_as = "f32"};
    struct kvc_gguf *mixtral;
    struct kvc_model *model;
    (void)state;
    must(kvc_gguf_open(golden("mixtral/model.gguf"), &mixtral, &error));
    same_logits(golden("mixtral/model.gguf"), write_changed(mixtral, &apart), 49);
    must(kvc_convert(own_path("changed.gguf"), own_path("apart/"), KVC_F32, &error));
    same_logits(golden("mixtral/model.gguf"), own_path("apart"), 49);
    assert_non_null(kvc_gguf_tensor(mixtral, "blk.0.ffn_gate_exps.weight"));
    check_refusal(kvc_model_open(engine, write_changed(mixtral, &mixed), &model, &error), KVC_INPUT, &error,
                  "of type f32, expert 0's of type bf16: must be equal");
    kvc_gguf_close(mixtral);
}

/* Conversion to every type, from GGUF and from a folder; lossless conversions give bit-identical results, and routers
 * stay unchanged. */
static void conversion(void **state) {
    static const char *const families[] = {"qwen3-moe",       "qwen3-moe-window", "olmoe",   "olmoe-gqa",
                                           "mixtral",         "qwen2-moe",        "gpt-oss", "gpt-oss-plain",
                                           "qwen3-moe-dense", "qwen2-moe-dense"};
    static const uint32_t vocab[] = {53, 47, 51, 45, 49, 46, 51, 47, 51, 73};
    struct kvc_gguf *file;
    (void)state;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        char from[100];
        for (int gguf = 0; gguf < 2; gguf++) {
            snprintf(from, sizeof from, "%s%s", families[i], gguf ? "/model.gguf" : "");
            must(kvc_convert(golden(from), own_path("converted.gguf"), KVC_F32, &error));
            same_logits(golden(from), own_path("converted.gguf"), vocab[i]);
        }
    }
    for (int type = 0; type < KVC_TYPES; type++) {
        must(kvc_convert(golden("mixtral"), own_path("converted.gguf"), (enum kvc_type)type, &error));
        must(kvc_convert(own_path("good.gguf"), own_path("other.gguf"), (enum kvc_type)type, &error));
        free(logits_of(own_path("converted.gguf")));
        free(logits_of(own_path("other.gguf")));
        must(kvc_gguf_open(own_path("converted.gguf"), &file, &error));
        assert_int_equal(kvc_gguf_tensor(file, "blk.2.ffn_gate_inp.weight")->type, KVC_F32);
        assert_int_equal(kvc_gguf_tensor(file, "blk.2.ffn_down_exps.weight")->dimensions, 3);
        kvc_gguf_close(file);
    }
}

/* Layers without experts next to layers with experts: layers 0 and 2 of 4. */
static void layers_without_experts(void **state) {
    static const struct {
        struct change change;
        const char *says;
    } wrong[] = {
        {{.tensor = "blk.1.ffn_gate_inp.weight"}, "tensor blk.1.ffn_gate_inp.weight is missing"},
        {{.tensor = "blk.2.ffn_down.weight"}, "tensor blk.2.ffn_down.weight is missing"},
        {{.tensor = "blk.2.ffn_up.weight"}, "tensor blk.2.ffn_up.weight is missing"},
        {{.tensor = "blk.2.ffn_up.weight", .dimensions = 2, .shape = {14, 28}}, "it must be 44 x 28"},
        {{.key = "qwen3moe.feed_forward_length", .value = 45}, "it must be 45 x 28"},
        {{.key = "qwen3moe.block_count", .value = 1}, "no layer has experts, though there are 6 of them"},
    };
    struct kvc_gguf *from;
    struct kvc_model *model;
    (void)state;
    for (int gguf = 0; gguf < 2; gguf++) {
        must(kvc_model_open(engine, golden(gguf ? "qwen3-moe-dense/model.gguf" : "qwen3-moe-dense"), &model, &error));
        const struct kvc_model_info *info = kvc_model_info(model);
        assert_int_equal(info->expert_layers, 2);
        assert_int_equal(info->feed_forward, 14);
        assert_int_equal(info->dense_feed, 44);
        assert_int_equal(info->parameters - info->active_parameters, 2 * (6 - 2) * 3 * 14 * 28);
        assert_int_equal(info->weight_bytes - info->active_bytes, 2 * 2 * (6 - 2) * 3 * 14 * 28);
        kvc_model_close(model);
    }
    must(kvc_gguf_open(golden("qwen3-moe-dense/model.gguf"), &from, &error));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        check_refusal(kvc_model_open(engine, write_changed(from, &wrong[i].change), &model, &error), KVC_INPUT, &error,
                      wrong[i].says);
    kvc_gguf_close(from);
}

static void wrong_counts(void **state) {
    (void)state;
    refuse_number("expert_count", 0, "expert_count is missing or 0");
    refuse_number("expert_used_count", 0, "expert_used_count is missing or 0");
    refuse_number("expert_used_count", EXPERTS + 1, "it must be at most qwen3moe.expert_count, which is 13");
    refuse_number("expert_used_count", 65, "expert_used_count is 65");
    refuse_number("expert_count", 1025, "expert_count is 1025");
    refuse_number("expert_count", UINT32_MAX, "expert_count is 4294967295");
    refuse_number("expert_count", EXPERTS - 1, "must be 12");
    refuse_number("expert_count", EXPERTS + 1, "must be 14");
    refuse_number("expert_feed_forward_length", FEED + 1, "it must be 13 matrices of 41 x 72");
    refuse_number("expert_feed_forward_length", UINT32_MAX, "expert_feed_forward_length is");
    refuse_number("expert_shared_count", 1, "expert_shared_count is 1");
    refuse_number("expert_shared_feed_forward_length", 8, "expert_shared_feed_forward_length is 8");
    refuse_number("expert_gating_func", 2, "expert_gating_func is 2");
    refuse_number("leading_dense_block_count", 1, "leading_dense_block_count is 1");
    refuse((struct change){.key = "qwen3moe.expert_count", .number_is_text = true}, "expert_count is not an integer");
    refuse((struct change){.key = "qwen3moe.expert_count", .removed = true}, "expert_count is missing");
    refuse((struct change){.key = "qwen3moe.expert_used_count", .removed = true}, "expert_used_count is missing");
    refuse((struct change){.key = "qwen3moe.expert_weights_norm", .number_is_text = true}, "is not true or false");
}

static void wrong_tensors(void **state) {
    static const char router[] = "blk.1.ffn_gate_inp.weight", stack[] = "blk.2.ffn_down_exps.weight";
    (void)state;
    refuse((struct change){.tensor = router}, "tensor blk.1.ffn_gate_inp.weight is missing");
    refuse((struct change){.tensor = router, .dimensions = 2, .shape = {HIDDEN, EXPERTS}, .type = KVC_F32},
           "it must be 13 x 72");
    refuse((struct change){.tensor = router, .dimensions = 1, .shape = {HIDDEN}, .type = KVC_F32}, "not a matrix");
    refuse((struct change){.tensor = stack}, "tensor blk.2.ffn_down_exps.weight is missing");
    refuse((struct change){.tensor = stack, .dimensions = 2, .shape = {EXPERTS * HIDDEN, FEED}, .type = KVC_F16},
           "in 2 dimensions, it must be 13 matrices of 72 x 40");
    refuse((struct change){.tensor = stack, .dimensions = 3, .shape = {EXPERTS, FEED, HIDDEN}, .type = KVC_F16},
           "it must be 13 matrices of 72 x 40");
    refuse((struct change){.tensor = stack, .dimensions = 3, .shape = {1, EXPERTS * HIDDEN, FEED}, .type = KVC_F16},
           "it must be 13 matrices of 72 x 40");
    refuse((struct change){.tensor = stack, .dimensions = 3, .shape = {EXPERTS, HIDDEN, 1}, .type = KVC_F16},
           "it must be 13 matrices of 72 x 40");
    refuse((struct change){.tensor = "blk.0.attn_norm.weight", .dimensions = 3, .shape = {1, 1, HIDDEN}}, "attn_norm");
}

/* One weight of a router is NaN: the logits are refused, and the error names the layer. */
static void a_router_without_numbers(void **state) {
    const struct change nan = {.tensor = "blk.1.ffn_gate_inp.weight",
                               .dimensions = 2,
                               .shape = {EXPERTS, HIDDEN},
                               .type = KVC_F32,
                               .no_number = true};
    struct kvc_model *model;
    struct kvc_session_options options;
    struct kvc_session *session;
    const int32_t tokens[] = {5, 6, 7};
    float logits[300];
    (void)state;
    must(kvc_model_open(engine, write_changed(good, &nan), &model, &error));
    kvc_session_defaults(&options);
    must(kvc_session_open(model, &options, &session, &error));
    check_refusal(kvc_session_prompt(session, tokens, 3, NULL, logits, &error), KVC_INPUT, &error,
                  "layer 1, of 0 to 2");
    kvc_session_close(session);
    must(kvc_session_open(model, &options, &session, &error));
    must(kvc_session_prompt(session, tokens, 3, NULL, NULL, &error) == KVC_INPUT ? KVC_OK : KVC_DIFFERS);
    kvc_session_close(session);
    kvc_model_close(model);
}

/* Architectures without experts refuse files with them, and "llama" with experts is Mixtral. */
static void other_families(void **state) {
    const char *from = own_path("dense.gguf");
    struct kvc_gguf *dense;
    struct kvc_model *model;
    (void)state;
    must(kvc_make_model("tiny", KVC_F16, 1, from, &error));
    must(kvc_gguf_open(from, &dense, &error));
    struct change change = {.key = "llama.expert_count", .value = 8};
    check_refusal(kvc_model_open(engine, write_changed(dense, &change), &model, &error), KVC_INPUT, &error,
                  "llama.expert_used_count is missing");
    change.value = 0; /* as in some dense models' files */
    must(kvc_model_open(engine, write_changed(dense, &change), &model, &error));
    kvc_model_close(model);
    change = (struct change){.key = "llama.expert_used_count", .value = 2};
    check_refusal(kvc_model_open(engine, write_changed(dense, &change), &model, &error), KVC_INPUT, &error,
                  "llama.expert_used_count is 2: a model that uses this is not supported");
    kvc_gguf_close(dense);
}

static int open_all(void **state) {
    (void)state;
    must(kvc_engine_open(NULL, &engine, &error));
    must(kvc_make_model("tiny-experts", KVC_F16, 1, own_path("good.gguf"), &error));
    must(kvc_gguf_open(own_path("good.gguf"), &good, &error));
    return 0;
}

static int close_all(void **state) {
    kvc_gguf_close(good);
    kvc_engine_close(engine);
    return remove_own_folder(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(counts),         cmocka_unit_test(first_files_of_mixtral),
                                       cmocka_unit_test(conversion),     cmocka_unit_test(wrong_counts),
                                       cmocka_unit_test(wrong_tensors),  cmocka_unit_test(a_router_without_numbers),
                                       cmocka_unit_test(other_families), cmocka_unit_test(layers_without_experts)};
    return cmocka_run_group_tests(tests, open_all, close_all);
}

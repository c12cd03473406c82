/* test_hostile.c - whole models with one error, opened as a user would: wrong metadata about the network, missing
 * tensors or tensors with another shape, vocabularies that crash other loaders. Each gives one clear line. */
#include "tests/models/file_maker.h"

#include "core/base/types.h"
#include "models/files/gguf_write.h"

static struct kvc_engine *engine;
static struct kvc_gguf *tiny, *spoken; /* a valid byte-level model; another one with a SentencePiece-style vocabulary */

static void must(enum kvc_status status, const struct kvc_error *error) {
    if (status) {
        print_error("status %d: %s\n", (int)status, error->text);
        fail();
    }
}

/* ---- a copy of the valid model with one change ---- */

struct change {
    const char *key;         /* in metadata: removed, and added again by `put` */
    enum kvc_gguf_type type; /* the type of one integer, if put is NULL and the key is not only removed */
    uint64_t value;
    void (*put)(struct kvc_gguf_writer *writer, const char *key);
    bool removed, whole; /* `whole`: every key with the same beginning, up to the first dot */
    const char *tensor;  /* this tensor is left out, or gets another shape or type */
    uint64_t shape[2];
    enum kvc_type tensor_type;
};

static void put_integer(struct kvc_gguf_writer *writer, const char *key, enum kvc_gguf_type type, uint64_t value) {
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++) {
        bytes[i] = (unsigned char)(value >> (8 * i));
    }
    kvc_gguf_put_raw(writer, key, type, bytes, type == KVC_GGUF_U64 || type == KVC_GGUF_I64 ? 8 : 4);
}

static void copy_keys(struct kvc_gguf_writer *writer, const struct kvc_gguf *from, const struct change *change) {
    const char *key;
    enum kvc_gguf_type type;
    for (size_t i = 0; kvc_gguf_key(from, i, &key, &type); i++) {
        size_t length = change->whole ? strcspn(change->key, ".") + 1 : strlen(key) + 1;
        if (change->key && strncmp(change->key, key, length) == 0) {
            continue;
        }
        uint64_t bytes;
        const unsigned char *data = kvc_gguf_value_data(from, i, &bytes);
        kvc_gguf_put_raw(writer, key, type, data, bytes);
    }
    if (change->put) {
        change->put(writer, change->key);
    } else if (change->key && !change->removed) {
        put_integer(writer, change->key, change->type, change->value);
    }
}

static const char *write_changed(const struct kvc_gguf *from, const struct change *change) {
    static unsigned char zeros[1 << 16];
    struct kvc_gguf_writer *writer = kvc_gguf_writer_new();
    struct kvc_error error = {0};
    const char *path = own_path("changed.gguf");
    assert_non_null(writer);
    copy_keys(writer, from, change);
    for (size_t i = 0; i < kvc_gguf_tensor_count(from); i++) {
        const struct kvc_file_tensor *tensor = kvc_gguf_tensor_at(from, i);
        bool changed = change->tensor && strcmp(change->tensor, tensor->name) == 0;
        if (changed && change->shape[0]) {
            kvc_gguf_add_tensor(writer, tensor->name, change->tensor_type, change->shape[1] ? 2 : 1, change->shape);
        } else if (!changed) {
            kvc_gguf_add_tensor(writer, tensor->name, tensor->type, tensor->dimensions, tensor->shape);
        }
    }
    must(kvc_gguf_writer_begin(writer, path, &error), &error);
    size_t to = 0;
    for (size_t i = 0; i < kvc_gguf_tensor_count(from); i++) {
        const struct kvc_file_tensor *tensor = kvc_gguf_tensor_at(from, i);
        bool changed = change->tensor && strcmp(change->tensor, tensor->name) == 0;
        if (changed && change->shape[0]) {
            const uint64_t rows = change->shape[1] ? change->shape[0] : 1;
            const uint64_t bytes = rows * kvc_type_row_bytes(change->tensor_type, change->shape[change->shape[1] > 0]);
            assert_true(bytes <= sizeof zeros);
            must(kvc_gguf_write(writer, to++, zeros, (size_t)bytes, &error), &error);
        } else if (!changed) {
            must(kvc_gguf_write(writer, to++, tensor->data, (size_t)tensor->bytes, &error), &error);
        }
    }
    must(kvc_gguf_writer_commit(writer, &error), &error);
    return path;
}

static void refuse(const struct kvc_gguf *from, struct change change, const char *says) {
    struct kvc_model *model;
    struct kvc_error error = {0};
    check_refusal(kvc_model_open(engine, write_changed(from, &change), &model, &error), KVC_INPUT, &error, says);
    assert_null(model);
}

static void accept(const struct kvc_gguf *from, struct change change) {
    struct kvc_model *model;
    struct kvc_error error = {0};
    must(kvc_model_open(engine, write_changed(from, &change), &model, &error), &error);
    kvc_model_close(model);
}

static void refuse_integer(const char *key, uint64_t value, const char *says) {
    refuse(tiny, (struct change){.key = key, .type = KVC_GGUF_U64, .value = value}, says);
    if (value <= UINT32_MAX) {
        refuse(tiny, (struct change){.key = key, .type = KVC_GGUF_U32, .value = value}, says);
    }
}

/* ---- the network ---- */

static void accepts_the_model_unchanged(void **state) {
    (void)state;
    accept(tiny, (struct change){0});
    accept(spoken, (struct change){0});
}

static void refuses_block_count_10_9(void **state) {
    (void)state;
    static const uint64_t wrong[] = {1000000000, 0, 4097, UINT32_MAX, UINT64_C(1) << 63, UINT64_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        refuse_integer("llama.block_count", wrong[i], "llama.block_count is");
    }
    refuse_integer("llama.block_count", 2, "tensor blk.2."); /* the file has one layer more */
    refuse_integer("llama.block_count", 4, "tensor blk.3."); /* the file has one layer fewer */
    refuse(tiny, (struct change){.key = "llama.block_count", .removed = true}, "llama.block_count is missing");
    refuse(tiny, (struct change){.key = "llama.block_count", .type = KVC_GGUF_I32, .value = UINT32_MAX},
           "llama.block_count is not an integer of 0 or more");
    refuse(tiny, (struct change){.key = "llama.block_count", .type = KVC_GGUF_F32, .value = 0x40400000},
           "llama.block_count is not an integer");
}

static void refuses_head_counts_0_or_not_dividing(void **state) {
    (void)state;
    refuse_integer("llama.attention.head_count", 0, "llama.attention.head_count is");
    refuse_integer("llama.attention.head_count_kv", 0, "llama.attention.head_count_kv is");
    refuse_integer("llama.attention.head_count_kv", 4, "multiple of llama.attention.head_count_kv");
    refuse_integer("llama.attention.head_count_kv", 12, "multiple of llama.attention.head_count_kv");
    refuse_integer("llama.attention.head_count", 7, "llama.attention.head_count is 7");
    refuse_integer("llama.attention.head_count", UINT64_C(1) << 32, "llama.attention.head_count is");
    refuse_integer("llama.attention.head_count", 8, "it must be"); /* the tensors have other shapes */
    refuse_integer("llama.attention.key_length", 0, "llama.attention.key_length is");
    refuse_integer("llama.attention.key_length", 25, "");
    refuse_integer("llama.attention.key_length", UINT64_C(1) << 40, "llama.attention.key_length is");
    refuse_integer("llama.attention.value_length", 23, "value_length");
    refuse_integer("llama.rope.dimension_count", 23, "even number");
    refuse_integer("llama.rope.dimension_count", 26, "even number");
    refuse_integer("llama.rope.dimension_count", 0, "llama.rope.dimension_count is");
}

static void refuses_other_sizes(void **state) {
    (void)state;
    static const char *const keys[] = {"llama.embedding_length", "llama.feed_forward_length", "llama.vocab_size",
                                       "llama.context_length"};
    for (size_t i = 0; i < 4; i++) {
        refuse_integer(keys[i], 0, keys[i]);
        refuse_integer(keys[i], UINT64_C(1) << 62, keys[i]);
    }
    refuse_integer("llama.embedding_length", 71, "it must be");
    refuse_integer("llama.feed_forward_length", 101, "it must be");
    refuse_integer("llama.vocab_size", 299, "");
    refuse_integer("llama.vocab_size", 301, "");
    refuse(tiny,
           (struct change){.key = "llama.attention.layer_norm_rms_epsilon", .type = KVC_GGUF_F32, .value = 0x7fc00000},
           "layer_norm_rms_epsilon is");
    refuse(tiny, (struct change){.key = "llama.rope.freq_base", .type = KVC_GGUF_F32, .value = 0}, "freq_base is");
}

static void put_unknown_architecture(struct kvc_gguf_writer *writer, const char *key) {
    kvc_gguf_put_string(writer, key, "mamba", 5);
}

static void refuses_unknown_architectures(void **state) {
    (void)state;
    refuse(tiny, (struct change){.key = "general.architecture", .put = put_unknown_architecture},
           "architecture \"mamba\" is not supported; llama");
    refuse(tiny, (struct change){.key = "general.architecture", .removed = true}, "general.architecture is missing");
    refuse(tiny, (struct change){.key = "general.architecture", .type = KVC_GGUF_U32, .value = 1},
           "general.architecture is missing or not a string");
}

static void refuses_missing_tensors_and_other_shapes(void **state) {
    (void)state;
    static const char *const names[] = {"token_embd.weight", "output_norm.weight", "blk.0.attn_norm.weight",
                                        "blk.1.attn_q.weight", "blk.2.ffn_down.weight"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char says[100];
        snprintf(says, sizeof says, "tensor %s is missing", names[i]);
        refuse(tiny, (struct change){.tensor = names[i]}, says);
        snprintf(says, sizeof says, "tensor %s", names[i]);
        refuse(tiny, (struct change){.tensor = names[i], .shape = {3, 7}, .tensor_type = KVC_F32}, says);
        refuse(tiny, (struct change){.tensor = names[i], .shape = {5}, .tensor_type = KVC_F16}, says);
    }
    refuse(tiny, (struct change){.tensor = "blk.1.attn_q.weight", .shape = {72, 144}, .tensor_type = KVC_F16},
           "144 x 72"); /* transposed */
    accept(tiny, (struct change){.tensor = "blk.1.attn_q.weight", .shape = {144, 72}, .tensor_type = KVC_BF16});
    refuse(tiny, (struct change){.tensor = "output_norm.weight", .shape = {72, 1}, .tensor_type = KVC_F32},
           "tensor output_norm.weight");
}

/* ---- the vocabulary ---- */

enum { SPOKEN = 300 }; /* the number of tokens */

static void put_tokens(struct kvc_gguf_writer *writer, const char *key, size_t count, const char *token_7) {
    kvc_gguf_put_strings(writer, key, count);
    for (size_t i = 0; i < count; i++) {
        char text[32];
        const bool byte = i >= 3 && i < 259;
        snprintf(text, sizeof text, byte ? "<0x%02X>" : "word%u", (unsigned)(byte ? i - 3 : i));
        const char *chosen = i == 7 && token_7 ? token_7 : i == 0 ? "<unk>" : i == 1 ? "<s>" : i == 2 ? "</s>" : text;
        kvc_gguf_add_string(writer, chosen, strlen(chosen));
    }
}

static void put_byte_minus_1(struct kvc_gguf_writer *writer, const char *key) {
    put_tokens(writer, key, SPOKEN, "<0x-1>");
}
static void put_byte_zz(struct kvc_gguf_writer *writer, const char *key) { put_tokens(writer, key, SPOKEN, "<0xZZ>"); }
static void put_byte_100(struct kvc_gguf_writer *writer, const char *key) {
    put_tokens(writer, key, SPOKEN, "<0x100>");
}
static void put_byte_short(struct kvc_gguf_writer *writer, const char *key) { put_tokens(writer, key, SPOKEN, "<0x"); }
static void put_same_bytes(struct kvc_gguf_writer *writer, const char *key) { put_tokens(writer, key, SPOKEN, NULL); }
static void put_more_tokens(struct kvc_gguf_writer *writer, const char *key) {
    put_tokens(writer, key, SPOKEN + 1, NULL);
}
static void put_no_tokens(struct kvc_gguf_writer *writer, const char *key) { put_tokens(writer, key, 0, NULL); }
static void put_few_tokens(struct kvc_gguf_writer *writer, const char *key) { put_tokens(writer, key, 260, NULL); }
static void put_number_tokens(struct kvc_gguf_writer *writer, const char *key) {
    static const int32_t values[SPOKEN];
    kvc_gguf_put_int32s(writer, key, values, SPOKEN);
}
static void put_few_scores(struct kvc_gguf_writer *writer, const char *key) {
    static const float values[SPOKEN];
    kvc_gguf_put_float32s(writer, key, values, SPOKEN - 1);
}
static void put_no_scores(struct kvc_gguf_writer *writer, const char *key) {
    kvc_gguf_put_float32s(writer, key, NULL, 0);
}
/* A loader that reads these as float32 would read far past their end. */
static void put_narrow(struct kvc_gguf_writer *writer, const char *key) {
    static unsigned char bytes[4 + 8 + SPOKEN];
    bytes[0] = KVC_GGUF_U8;
    bytes[4] = SPOKEN & 0xff;
    bytes[5] = SPOKEN >> 8;
    kvc_gguf_put_raw(writer, key, KVC_GGUF_ARRAY, bytes, sizeof bytes);
}
static void put_few_types(struct kvc_gguf_writer *writer, const char *key) {
    static const int32_t values[SPOKEN];
    kvc_gguf_put_int32s(writer, key, values, 5);
}
static void put_wild_types(struct kvc_gguf_writer *writer, const char *key) {
    static int32_t values[SPOKEN];
    for (size_t i = 0; i < SPOKEN; i++) {
        values[i] = i % 2 ? INT32_MIN : 1000000;
    }
    kvc_gguf_put_int32s(writer, key, values, SPOKEN);
}
static void put_not_a_number_scores(struct kvc_gguf_writer *writer, const char *key) {
    static float values[SPOKEN];
    for (size_t i = 0; i < SPOKEN; i++) {
        values[i] = __builtin_nanf("");
    }
    kvc_gguf_put_float32s(writer, key, values, SPOKEN);
}

static void refuse_text(const char *key, void (*put)(struct kvc_gguf_writer *, const char *), const char *says) {
    char name[100];
    snprintf(name, sizeof name, "tokenizer.ggml.%s", key);
    refuse(spoken, (struct change){.key = name, .put = put}, says);
}

static void refuses_byte_tokens_that_spell_no_byte(void **state) {
    (void)state;
    refuse_text("tokens", put_byte_minus_1, "<0x-1>");
    refuse_text("tokens", put_byte_zz, "<0xZZ>");
    refuse_text("tokens", put_byte_100, "<0x100>");
    refuse_text("tokens", put_byte_short, "<0x");
    accept(spoken, (struct change){.key = "tokenizer.ggml.tokens", .put = put_same_bytes});
}

static void refuses_scores_shorter_than_tokens(void **state) {
    (void)state;
    refuse_text("scores", put_few_scores, "299 scores for 300 tokens");
    refuse_text("scores", put_no_scores, "0 scores for 300 tokens");
    refuse_text("token_type", put_few_types, "5 token types for 300 tokens");
    refuse_text("scores", put_not_a_number_scores, "score");
}

static void refuses_arrays_declared_with_a_narrower_type(void **state) {
    (void)state;
    refuse_text("scores", put_narrow, "score");
    refuse_text("tokens", put_narrow, "tokens is missing or not a list of strings");
    refuse_text("tokens", put_number_tokens, "tokens is missing or not a list of strings");
}

static void refuses_other_vocabularies(void **state) {
    (void)state;
    refuse_text("tokens", put_more_tokens, "301 tokens; the embedding has 300 rows");
    refuse_text("tokens", put_no_tokens, "");
    refuse_text("tokens", put_few_tokens, "");
    refuse_text("token_type", put_wild_types, "");
    static const char *const ids[] = {"bos_token_id", "eos_token_id", "unknown_token_id"};
    for (size_t i = 0; i < 3; i++) {
        char key[100];
        snprintf(key, sizeof key, "tokenizer.ggml.%s", ids[i]);
        refuse(spoken, (struct change){.key = key, .type = KVC_GGUF_U32, .value = SPOKEN}, ids[i]);
        refuse(spoken, (struct change){.key = key, .type = KVC_GGUF_U32, .value = UINT32_MAX}, ids[i]);
        refuse(spoken, (struct change){.key = key, .type = KVC_GGUF_U64, .value = UINT64_C(1) << 63}, ids[i]);
    }
}

/* ---- */

static void put_spoken(struct kvc_gguf_writer *writer, const char *key) {
    int32_t types[SPOKEN];
    float scores[SPOKEN];
    kvc_gguf_put_string(writer, key, "llama", 5);
    put_tokens(writer, "tokenizer.ggml.tokens", SPOKEN, NULL);
    for (int i = 0; i < SPOKEN; i++) {
        types[i] = i == 0 ? 2 : i < 3 ? 3 : i < 259 ? 6 : 1; /* unknown, control, byte, normal tokens */
        scores[i] = -(float)i;
    }
    kvc_gguf_put_int32s(writer, "tokenizer.ggml.token_type", types, SPOKEN);
    kvc_gguf_put_float32s(writer, "tokenizer.ggml.scores", scores, SPOKEN);
    kvc_gguf_put_uint32(writer, "tokenizer.ggml.bos_token_id", 1);
    kvc_gguf_put_uint32(writer, "tokenizer.ggml.eos_token_id", 2);
    kvc_gguf_put_uint32(writer, "tokenizer.ggml.unknown_token_id", 0);
}

static int open_all(void **state) {
    (void)state;
    struct kvc_error error = {0};
    must(kvc_engine_open(NULL, &engine, &error), &error);
    must(kvc_make_model("tiny", KVC_F16, 1, own_path("tiny.gguf"), &error), &error);
    must(kvc_gguf_open(own_path("tiny.gguf"), &tiny, &error), &error);
    const struct change text = {.key = "tokenizer.ggml.model", .whole = true, .put = put_spoken};
    assert_int_equal(rename(write_changed(tiny, &text), own_path("spoken.gguf")), 0);
    must(kvc_gguf_open(own_path("spoken.gguf"), &spoken, &error), &error);
    return 0;
}

static int close_all(void **state) {
    kvc_gguf_close(tiny);
    kvc_gguf_close(spoken);
    kvc_engine_close(engine);
    return remove_own_folder(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepts_the_model_unchanged),
        cmocka_unit_test(refuses_block_count_10_9),
        cmocka_unit_test(refuses_head_counts_0_or_not_dividing),
        cmocka_unit_test(refuses_other_sizes),
        cmocka_unit_test(refuses_unknown_architectures),
        cmocka_unit_test(refuses_missing_tensors_and_other_shapes),
        cmocka_unit_test(refuses_byte_tokens_that_spell_no_byte),
        cmocka_unit_test(refuses_scores_shorter_than_tokens),
        cmocka_unit_test(refuses_arrays_declared_with_a_narrower_type),
        cmocka_unit_test(refuses_other_vocabularies),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}

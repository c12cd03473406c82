/* test_config_gguf.c - model descriptions in GGUF files: a good file with one key changed gives a clear line that names
 * the key. */
#include "tests/models/config_checks.h"

#include <math.h>

#include "models/files/gguf_write.h"

/* clang-format off */
enum change_kind { UINT, REAL, TEXT, FLAG, UINTS, BOOLS, REMOVE, RENAME, DROP, RESHAPE, RETYPE, VECTOR, FIRST };
static const struct gguf_case {
    const char *model;
    enum change_kind kind;
    const char *name;    /* the key or the tensor's name */
    double value;        /* the value of UINT, REAL, FLAG; how many numbers UINTS, BOOLS, VECTOR have; the first number of FIRST */
    const char *text;    /* the value of TEXT; the new name of RENAME; VECTOR: NULL or "zeros" */
    const char *expected;
} gguf_cases[] = {
    {"llama2", TEXT, "general.architecture", 0, "gemma", "architecture \"gemma\" is not supported; llama"},
    {"llama2", REMOVE, "general.architecture", 0, NULL, "general.architecture is missing"},
    {"llama2", UINT, "llama.block_count", 1e9, NULL, "llama.block_count is 1000000000"},
    {"llama2", UINT, "llama.block_count", 0, NULL, "llama.block_count is 0"},
    {"llama2", REAL, "llama.block_count", 3, NULL, "llama.block_count is not an integer"},
    {"llama2", REMOVE, "llama.block_count", 0, NULL, "llama.block_count is missing"},
    {"llama2", UINT, "llama.block_count", 2, NULL, "does not belong in a llama model of 2 layers"},
    {"llama2", UINT, "llama.block_count", 4, NULL, "tensor blk.3.attn_norm.weight is missing"},
    {"llama2", UINT, "llama.attention.head_count", 0, NULL, "llama.attention.head_count is 0"},
    {"llama2", UINT, "llama.attention.head_count", 5, NULL, "llama.attention.head_count is 5, it must be a multiple of"},
    {"llama2", UINT, "llama.attention.head_count_kv", 0, NULL, "llama.attention.head_count_kv is 0"},
    {"llama2", UINT, "llama.attention.head_count_kv", 3, NULL, "llama.attention.head_count_kv, which is 3"},
    {"llama2", UINTS, "llama.attention.head_count_kv", 3, NULL, "differs between layers"},
    {"llama2", TEXT, "llama.attention.head_count_kv", 0, "4", "is not an integer"},
    {"llama2", UINT, "llama.embedding_length", 4294967295.0, NULL, "llama.embedding_length is 4294967295"},
    {"llama2", UINT, "llama.embedding_length", 32, NULL, "token_embd.weight is 61 x 24, it must be 61 x 32"},
    {"llama2", UINT, "llama.feed_forward_length", 0, NULL, "llama.feed_forward_length is 0"},
    {"llama2", UINT, "llama.vocab_size", 62, NULL, "token_embd.weight is 61 x 24, it must be 62 x 24"},
    {"llama2", REMOVE, "llama.vocab_size", 0, NULL, "OK"},
    {"llama2", UINT, "llama.rope.dimension_count", 5, NULL, "it must be an even number"},
    {"llama2", UINT, "llama.rope.dimension_count", 8, NULL, "it must be an even number"},
    {"llama2", UINT, "llama.rope.dimension_count", 0, NULL, "llama.rope.dimension_count is 0"},
    {"llama2", UINT, "llama.attention.key_length", 8, NULL, "it must be 32 x 24"},
    {"llama2", UINT, "llama.attention.value_length", 8, NULL, "llama.attention.value_length must be"},
    {"llama2", REAL, "llama.rope.freq_base", NAN, NULL, "llama.rope.freq_base is"},
    {"llama2", REAL, "llama.rope.freq_base", INFINITY, NULL, "llama.rope.freq_base is inf"},
    {"llama2", REAL, "llama.attention.layer_norm_rms_epsilon", -1, NULL, "layer_norm_rms_epsilon is -1"},
    {"llama2", UINT, "llama.context_length", 0, NULL, "llama.context_length is 0"},
    {"llama2", UINT, "llama.attention.sliding_window", 4294967295.0, NULL, "sliding_window is 4294967295"},
    {"llama2", UINT, "llama.attention.sliding_window", 0, NULL, "OK"},
    {"llama2", UINT, "split.count", 3, NULL, "split.no is missing"},
    {"llama2", UINT, "split.count", 1, NULL, "OK"},
    {"llama2", UINT, "llama.expert_count", 8, NULL, "llama.expert_used_count is missing"},
    {"qwen2", UINT, "qwen2.expert_count", 8, NULL, "qwen2.expert_count is 8"},
    {"llama2", UINT, "llama.expert_count", 0, NULL, "OK"},
    {"llama2", REAL, "llama.attn_logit_softcapping", 50, NULL, "llama.attn_logit_softcapping is 50"},
    {"llama2", FLAG, "llama.use_parallel_residual", 1, NULL, "llama.use_parallel_residual is 1"},
    {"llama2", REAL, "llama.logit_scale", 0.5, NULL, "llama.logit_scale is 0.5"},
    {"llama2", TEXT, "llama.rope.scaling.type", 0, "dynamic", "llama.rope.scaling.type \"dynamic\" is not supported"},
    {"llama2", TEXT, "llama.rope.scaling.type", 0, "linear", "llama.rope.scaling.factor is missing"},
    {"llama2", TEXT, "llama.rope.scaling.type", 0, "longrope", "rope_factors_short.weight has 0 numbers"},
    {"llama2", UINT, "llama.rope.scaling.type", 1, NULL, "llama.rope.scaling.type is not a string"},
    {"llama2", REAL, "llama.rope.scale_linear", 4, NULL, "OK"},
    {"llama2", REAL, "llama.rope.scale_linear", -4, NULL, "llama.rope.scale_linear is -4"},
    {"llama2", RENAME, "blk.1.ffn_norm.weight", 0, "blk.1.ffn_nope.weight", "tensor blk.1.ffn_norm.weight is missing"},
    {"llama2", RENAME, "blk.2.attn_k.weight", 0, "blk.2.attn_q.bias", "tensor blk.2.attn_k.weight is missing"},
    {"llama2", DROP, "token_embd.weight", 0, NULL, "tensor token_embd.weight is missing"},
    {"llama2", DROP, "output_norm.weight", 0, NULL, "tensor output_norm.weight is missing"},
    {"llama2", DROP, "output.weight", 0, NULL, "OK"}, /* tied embeddings */
    {"llama2", RESHAPE, "blk.0.ffn_down.weight", 0, NULL, "is 34 x 24, it must be 24 x 34"},
    {"llama2", RESHAPE, "blk.0.ffn_norm.weight", 0, NULL, "it must be a vector of 24"},
    {"qwen2-window", RETYPE, "output_norm.weight", 0, NULL, "is of type q8_0; a norm or bias must be f32, f16 or bf16"},
    {"llama2", VECTOR, "blk.0.attn_q.scale", 4, NULL, "tensor blk.0.attn_q.scale does not belong"},
    {"llama2", VECTOR, "rope_freqs.weight", 3, NULL, "OK"},
    {"llama2", VECTOR, "rope_freqs.weight", 4, NULL, "rope_freqs.weight has 4 numbers, it must have 3"},
    {"llama2", VECTOR, "rope_freqs.weight", 3, "zeros", "rope_freqs.weight[0] is 0, it must be 1e-06 to 1e+09"},
    {"phi3-longrope", RESHAPE, "rope_factors_long.weight", 0, NULL, "must be an f32 vector of at most 4096 numbers"},
    {"llama-linear", VECTOR, "rope_freqs.weight", 3, NULL, "type linear together with tensor rope_freqs.weight"},
    {"qwen2", DROP, "blk.1.attn_v.bias", 0, NULL, "tensor blk.1.attn_v.bias is missing"},
    {"qwen2-window", UINTS, "qwen2.attention.sliding_window_pattern", 3, NULL, "must be an array of 3 bools"},
    {"qwen2-window", BOOLS, "qwen2.attention.sliding_window_pattern", 2, NULL, "must be an array of 3 bools"},
    {"qwen2-yarn", REAL, "qwen2.rope.scaling.yarn_log_multiplier", 0.1, NULL, "yarn_log_multiplier is 0.1"},
    {"qwen3", DROP, "blk.0.attn_k_norm.weight", 0, NULL, "tensor blk.0.attn_k_norm.weight is missing"},
    {"phi3", DROP, "blk.0.attn_qkv.weight", 0, NULL, "tensor blk.0.attn_qkv.weight is missing"},
    {"phi3-longrope", DROP, "rope_factors_long.weight", 0, NULL, "rope_factors_long.weight has 0 numbers"},
    {"phi3-longrope", REMOVE, "phi3.rope.scaling.attn_factor", 0, NULL, "OK"},
    {"phi3-longrope", REAL, "phi3.rope.scaling.factor", 4, NULL, "longrope together with rope.scaling.factor"},
    {"llama2", REAL, "llama.attention.scale", 0.1, NULL, "llama.attention.scale is 0.1"},
    {"gemma2", REAL, "gemma2.attn_logit_softcapping", -1, NULL, "gemma2.attn_logit_softcapping is -1"},
    {"gemma2", REAL, "gemma2.attn_logit_softcapping", NAN, NULL, "gemma2.attn_logit_softcapping is"},
    {"gemma2", REMOVE, "gemma2.attn_logit_softcapping", 0, NULL, "OK"}, /* the default, 50 */
    {"gemma2", TEXT, "gemma2.final_logit_softcapping", 0, "30", "gemma2.final_logit_softcapping is not a number"},
    {"gemma2", REAL, "gemma2.final_logit_softcapping", INFINITY, NULL, "gemma2.final_logit_softcapping is inf"},
    {"gemma2", REAL, "gemma2.attention.scale", -1, NULL, "gemma2.attention.scale is -1"},
    {"gemma2", REMOVE, "gemma2.attention.sliding_window", 0, NULL, "gemma2.attention.sliding_window is missing or 0"},
    {"gemma2", REAL, "gemma2.rope.freq_base_swa", 500, NULL, "gemma2.rope.freq_base_swa is 500"},
    {"gemma2", DROP, "blk.1.post_attention_norm.weight", 0, NULL, "blk.1.post_attention_norm.weight is missing"},
    {"gemma3", REAL, "gemma3.rope.freq_base_swa", 0, NULL, "gemma3.rope.freq_base_swa is 0"},
    {"gemma3", REAL, "gemma3.rope.freq_base_swa", 500, NULL, "OK"},
    {"gemma3", REMOVE, "gemma3.attention.sliding_window", 0, NULL, "OK"}, /* all layers are global */
    {"gemma3", UINT, "gemma3.attention.sliding_window_pattern", 5000, NULL, "a number of 0 to 4096"},
    {"gemma3", UINT, "gemma3.attention.sliding_window_pattern", 3, NULL, "OK"},
    {"gemma3", TEXT, "gemma3.attention.sliding_window_pattern", 0, "3", "an array of bools or a number"},
    {"gemma3", BOOLS, "gemma3.attention.sliding_window_pattern", 3, NULL, "must be an array of 7 bools"},
    {"granite", REAL, "granite.residual_scale", -1, NULL, "granite.residual_scale is -1"},
    {"granite", REAL, "granite.logit_scale", 0, NULL, "granite.logit_scale is 0"},
    {"granite", REAL, "granite.embedding_scale", NAN, NULL, "granite.embedding_scale is"},
    {"granite", UINT, "granite.attention.sliding_window", 7, NULL, "granite.attention.sliding_window is 7: not supported"},
    {"glm4", UINT, "glm4.nextn_predict_layers", 1, NULL, "glm4.nextn_predict_layers is 1"},
    {"cohere", REAL, "command-r.logit_scale", INFINITY, NULL, "command-r.logit_scale is inf"},
    {"cohere", VECTOR, "blk.0.attn_q_norm.weight", 6, NULL, "tensor blk.0.attn_q_norm.weight is 1 x 6"},
    {"cohere", VECTOR, "blk.1.attn_q_norm.weight", 6, NULL, "blk.1.attn_q_norm.weight does not belong"},
    {"cohere-plus", DROP, "blk.1.attn_k_norm.weight", 0, NULL, "tensor blk.1.attn_k_norm.weight is missing"},
    {"cohere-plus", DROP, "blk.0.attn_q_norm.weight", 0, NULL, "does not belong"},
    {"cohere-plus", RESHAPE, "blk.2.attn_q_norm.weight", 0, NULL, "is 6 x 4, it must be 4 x 6"},
    {"stablelm-norms", RESHAPE, "blk.0.attn_k_norm.weight", 0, NULL, "is 8 x 2, it must be 2 x 8"},
    {"phi2-norms", DROP, "blk.1.attn_q_norm.bias", 0, NULL, "tensor blk.1.attn_q_norm.bias is missing"},
    {"phi2", VECTOR, "blk.0.attn_q_norm.weight", 8, NULL, "it must be a vector of 10"},
    {"stablelm", FLAG, "stablelm.use_parallel_residual", 1, NULL, "ffn_norm.weight does not belong"},
    {"stablelm", UINT, "stablelm.use_parallel_residual", 1, NULL, "use_parallel_residual is not true or false"},
    {"stablelm-parallel", FLAG, "stablelm.use_parallel_residual", 0, NULL, "ffn_norm.weight is missing"},
    {"phi2-fused", DROP, "blk.1.attn_qkv.weight", 0, NULL, "tensor blk.1.attn_qkv.weight is missing"},
    {"phi2-fused", DROP, "blk.0.attn_qkv.bias", 0, NULL, "tensor blk.0.attn_qkv.bias is missing"},
    {"olmo3", BOOLS, "olmo2.attention.sliding_window_pattern", 3, NULL, "must be an array of 5 bools"},
    {"olmo3", DROP, "blk.0.attn_q_norm.weight", 0, NULL, "tensor blk.0.attn_q_norm.weight is missing"},
    {"stablelm", REAL, "stablelm.attention.layer_norm_epsilon", 0, NULL, "stablelm.attention.layer_norm_epsilon is 0"},
    {"stablelm", DROP, "blk.1.ffn_norm.bias", 0, NULL, "tensor blk.1.ffn_norm.bias is missing"},
    {"phi2", DROP, "output.bias", 0, NULL, "tensor output.bias is missing"},
    {"phi2", DROP, "output_norm.bias", 0, NULL, "tensor output_norm.bias is missing"},
    {"qwen35", REMOVE, "qwen35.ssm.state_size", 0, NULL, "qwen35.ssm.state_size is missing"},
    {"qwen35", REMOVE, "qwen35.full_attention_interval", 0, NULL, "the last of 6 layers is a gated delta net"},
    {"qwen35", UINT, "qwen35.ssm.inner_size", 47, NULL, "inner_size is 47, it must be a multiple of ssm.time_step_rank, 6"},
    {"qwen35", UINT, "qwen35.ssm.group_count", 4, NULL, "time_step_rank is 6, it must be a multiple of ssm.group_count"},
    {"qwen35", FIRST, "blk.0.ssm_a", 1, NULL, "ssm_a: the number of head 0 is 1, it must be finite, 0 or below"},
    {"qwen35", DROP, "blk.0.ssm_a", 0, NULL, "tensor blk.0.ssm_a is missing"},
    {"qwen35", DROP, "blk.4.ssm_dt.bias", 0, NULL, "tensor blk.4.ssm_dt.bias is missing"},
    {"qwen3-next", DROP, "blk.0.ssm_ba.weight", 0, NULL, "tensor blk.0.ssm_ba.weight is missing"},
    {"qwen2-moe", REMOVE, "qwen2moe.expert_shared_feed_forward_length", 0, NULL, "shexp.weight is 26 x 36, it must be 44 x 36"},
    {"gpt-oss", REMOVE, "gpt-oss.attention.sliding_window", 0, NULL, "sliding_window is missing or 0; gpt-oss models have"},
    {"gpt-oss", REMOVE, "gpt-oss.attention.sliding_window_pattern", 0, NULL, "OK"},
    {"gpt-oss", REMOVE, "gpt-oss.expert_count", 0, NULL, "gpt-oss.expert_count is missing or 0"},
    {"gpt-oss", UINT, "gpt-oss.expert_used_count", 6, NULL, "it must be at most gpt-oss.expert_count, which is 5"},
    {"gpt-oss", DROP, "blk.1.post_attention_norm.weight", 0, NULL, "blk.1.post_attention_norm.weight is missing"},
    {"gpt-oss", DROP, "blk.0.attn_q.bias", 0, NULL, "tensor blk.0.attn_q.bias is missing"},
    {"llama2", VECTOR, "blk.0.attn_sinks.weight", 4, NULL, "blk.0.attn_sinks.weight does not belong"},
    {"olmo2", DROP, "blk.2.post_ffw_norm.weight", 0, NULL, "tensor blk.2.post_ffw_norm.weight is missing"},
    {"gemma3", DROP, "blk.6.post_ffw_norm.weight", 0, NULL, "tensor blk.6.post_ffw_norm.weight is missing"},
};
/* clang-format on */

static void put_change(struct kvc_gguf_writer *writer, const struct gguf_case *c) {
    static const int32_t counts[] = {1, 2, 4};
    static const unsigned char flags[] = {0, 1, 1};
    switch (c->kind) {
    case UINT:
        kvc_gguf_put_uint32(writer, c->name, (uint32_t)c->value);
        break;
    case REAL:
        kvc_gguf_put_float32(writer, c->name, (float)c->value);
        break;
    case TEXT:
        kvc_gguf_put_string(writer, c->name, c->text, strlen(c->text));
        break;
    case FLAG:
        kvc_gguf_put_bool(writer, c->name, c->value != 0);
        break;
    case UINTS:
        kvc_gguf_put_int32s(writer, c->name, counts, (size_t)c->value);
        break;
    case BOOLS:
        kvc_gguf_put_bools(writer, c->name, flags, (size_t)c->value);
        break;
    default:
        break;
    }
}

/* Writes the golden model with one change to path. */
static void write_changed(const struct gguf_case *c, const char *path) {
    char rest[128], from[512];
    struct kvc_gguf *file;
    snprintf(rest, sizeof rest, "%s/model.gguf", c->model);
    if (kvc_gguf_open(golden(rest, from, sizeof from), &file, &error))
        fail_msg("%s", error.text);
    struct kvc_gguf_writer *writer = kvc_gguf_writer_new();
    assert_non_null(writer);
    const char *key;
    enum kvc_gguf_type type;
    for (size_t i = 0; kvc_gguf_key(file, i, &key, &type); i++) {
        uint64_t bytes;
        const unsigned char *data = kvc_gguf_value_data(file, i, &bytes);
        if (strcmp(key, c->name) != 0 && strcmp(key, "general.alignment") != 0)
            kvc_gguf_put_raw(writer, key, type, data, bytes);
    }
    put_change(writer, c);
    const size_t count = kvc_gguf_tensor_count(file);
    for (size_t i = 0; i < count; i++) {
        const struct kvc_file_tensor *tensor = kvc_gguf_tensor_at(file, i);
        const bool same = strcmp(tensor->name, c->name) == 0;
        uint64_t shape[4] = {tensor->shape[0], tensor->shape[1], tensor->shape[2], tensor->shape[3]};
        uint32_t dimensions = tensor->dimensions;
        enum kvc_type element = tensor->type;
        if (same && c->kind == DROP)
            continue;
        if (same && c->kind == RESHAPE) {
            shape[0] = tensor->cols;
            shape[1] = tensor->rows;
            dimensions = 2;
        }
        if (same && c->kind == RETYPE) {
            element = KVC_Q8_0;
            shape[0] = 32;
        }
        kvc_gguf_add_tensor(writer, same && c->kind == RENAME ? c->text : tensor->name, element, dimensions, shape);
    }
    const uint64_t length = (uint64_t)c->value;
    if (c->kind == VECTOR)
        kvc_gguf_add_tensor(writer, c->name, KVC_F32, 1, &length);
    if (kvc_gguf_writer_begin(writer, path, &error))
        fail_msg("%s", error.text);
    size_t next = 0;
    for (size_t i = 0; i < count; i++) {
        const struct kvc_file_tensor *tensor = kvc_gguf_tensor_at(file, i);
        const bool same = strcmp(tensor->name, c->name) == 0;
        if (same && c->kind == DROP)
            continue;
        const size_t bytes = same && c->kind == RETYPE ? 34 : (size_t)tensor->bytes;
        const float first = (float)c->value;
        const size_t own = same && c->kind == FIRST ? sizeof first : 0;
        if ((own && kvc_gguf_write(writer, next, &first, own, &error)) ||
            kvc_gguf_write(writer, next, (const char *)tensor->data + own, bytes - own, &error))
            fail_msg("%s", error.text);
        next++;
    }
    if (c->kind == VECTOR) {
        static const float ones[] = {1, 1.5f, 2, 3, 1, 1, 1, 1}, zeros[8];
        assert_in_range(length, 1, sizeof ones / sizeof *ones);
        assert_int_equal(kvc_gguf_write(writer, next, c->text ? zeros : ones, (size_t)length * sizeof *ones, &error),
                         KVC_OK);
    }
    if (kvc_gguf_writer_commit(writer, &error))
        fail_msg("%s", error.text);
    kvc_gguf_close(file);
}

static void bad_gguf_values_are_named(void **state) {
    (void)state;
    struct kvc_engine *engine;
    char path[512];
    assert_int_equal(kvc_engine_open(NULL, &engine, &error), KVC_OK);
    snprintf(path, sizeof path, "%s/model.gguf", folder);
    for (size_t i = 0; i < sizeof gguf_cases / sizeof *gguf_cases; i++) {
        const struct gguf_case *c = &gguf_cases[i];
        struct kvc_model *model;
        struct kvc_memory memory;
        char what[256];
        write_changed(c, path);
        snprintf(what, sizeof what, "%s with %s changed (case %zu)", c->model, c->name, i);
        const enum kvc_status status = kvc_model_open(engine, path, &model, &error);
        if (strcmp(c->expected, "OK") == 0) {
            if (status)
                fail_msg("%s: %s", what, error.text);
        } else {
            expect_error(status, c->expected, what);
            assert_null(model);
        }
        kvc_model_close(model);
        kvc_engine_memory(engine, &memory);
        assert_int_equal(memory.now[KVC_MEMORY_WEIGHTS], 0);
    }
    assert_int_equal(unlink(path), 0);
    kvc_engine_close(engine);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_gguf_values_are_named),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

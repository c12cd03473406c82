/* test_scaled.c - FP8 and MXFP4 tensors of Hugging Face folders: values against transformers (tests/data/golden/scaled,
 * made by tests/golden/make_scaled_golden.py); a whole model against the same one in float32, from the folder and
 * converted; and mismatched pairs. */
#include "tests/models/file_maker.h"

#include <inttypes.h>
#include <math.h>

#include "core/base/canon.h"
#include "core/base/types.h"
#include "models/convert/quantize.h"
#include "models/files/scaled.h"

static void must(enum kvc_status status, const struct kvc_error *error) {
    if (status)
        fail_msg("%s", error->text);
}

/* ---- values ---- */

static uint64_t hash_values(const struct kvc_file_tensor *tensor) { /* FNV-1a */
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    const size_t row_bytes = kvc_type_row_bytes(tensor->type, tensor->cols);
    float *values = malloc((size_t)tensor->cols * sizeof *values);
    assert_non_null(values);
    for (uint64_t row = 0; row < tensor->rows; row++) {
        kvc_dequantize_row(tensor->type, (const char *)kvc_tensor_data(tensor) + row * row_bytes, tensor->cols, values);
        for (uint64_t k = 0; k < tensor->cols; k++) {
            const kvc_u32 bits = kvc_hash_bits(values[k]);
            for (unsigned byte = 0; byte < 4; byte++)
                hash = (hash ^ (bits >> (8 * byte) & 255)) * UINT64_C(0x100000001b3);
        }
    }
    free(values);
    return hash;
}

static void values_are_those_of_transformers(void **state) {
    (void)state;
    char path[700], line[200], name[100];
    const char *top = getenv("top_srcdir");
    struct kvc_error error = {0};
    struct kvc_safetensors *file;
    uint64_t hash;
    int seen = 0;
    snprintf(path, sizeof path, "%s/tests/data/golden/scaled", top ? top : "..");
    must(kvc_safetensors_open(path, &file, &error), &error);
    assert_int_equal(kvc_safetensors_count(file), 3);
    assert_null(kvc_safetensors_tensor(file, "a.weight_scale_inv"));
    assert_null(kvc_safetensors_tensor(file, "c_scales"));
    strcat(path, "/values.txt");
    FILE *list = fopen(path, "r");
    assert_non_null(list);
    while (fgets(line, sizeof line, list)) {
        if (line[0] == '#')
            continue;
        assert_int_equal(sscanf(line, "%99s %" SCNx64, name, &hash), 2);
        const struct kvc_file_tensor *tensor = kvc_safetensors_tensor(file, name);
        assert_non_null(tensor);
        /* b's rows of 40 are not whole blocks of 128. */
        assert_true(tensor->type == (name[0] == 'a' ? KVC_FP8 : name[0] == 'b' ? KVC_F32 : KVC_MXFP4));
        assert_int_equal(tensor->bytes, tensor->rows * kvc_type_row_bytes(tensor->type, tensor->cols));
        must(kvc_tensor_make(tensor, path, &error), &error);
        if (hash_values(tensor) != hash)
            fail_msg("%s has other values than transformers' ones", name);
        kvc_tensor_drop(tensor);
        assert_null(kvc_tensor_data(tensor));
        seen++;
    }
    fclose(list);
    assert_int_equal(seen, 3);
    const struct kvc_file_tensor *c = kvc_safetensors_tensor(file, "c");
    assert_true(c->dimensions == 3 && c->shape[0] == 2 && c->shape[1] == 16 && c->shape[2] == 256 && c->rows == 32);
    kvc_safetensors_close(file);
}

/* ---- a whole model ---- */

/* The format of fbgemm_fp8 and compressed-tensors: a scale for each row, under the shorter name. */
static void a_scale_for_each_row(void **state) {
    (void)state;
    static const char header[] = "{\"w\":{\"dtype\":\"F8_E4M3\",\"shape\":[3,2],\"data_offsets\":[12,18]},"
                                 "\"w_scale\":{\"dtype\":\"F32\",\"shape\":[3,1],\"data_offsets\":[0,12]}}";
    static const unsigned char numbers[6] = {0x38, 0xb8, 0x40, 0x01, 0x7e, 0x00}; /* 1, -1, 2, 2^-9, 448, 0 */
    static const float scales[3] = {0.5f, 3.0f, 0x1p-20f}, values[6] = {0.5f, -0.5f, 6.0f, 0x3p-9f, 0x1.cp-12f, 0.0f};
    static struct maker made;
    struct kvc_safetensors *file;
    struct kvc_error error = {0};
    made.used = 0;
    put_number(&made, strlen(header), 8);
    put_bytes(&made, header, strlen(header));
    put_bytes(&made, scales, sizeof scales);
    put_bytes(&made, numbers, sizeof numbers);
    const char *path = write_file("rows.safetensors", made.data, made.used);
    must(kvc_safetensors_open(path, &file, &error), &error);
    const struct kvc_file_tensor *tensor = kvc_safetensors_tensor(file, "w");
    assert_non_null(tensor);
    must(kvc_tensor_make(tensor, path, &error), &error);
    assert_memory_equal(kvc_tensor_data(tensor), values, sizeof values);
    kvc_safetensors_close(file);
}

enum { VOCAB = 61, BLOCK = 128, MOST = 384 };
enum size { NONE, HIDDEN, FEED, WORDS }; /* dimensions in the model's shapes */
static unsigned sizes[4] = {0, 144, 272, VOCAB};

static const struct {
    const char *name;
    enum size rows, cols; /* cols NONE: the tensor is a vector */
} model[] = {
    {"model.embed_tokens.weight", WORDS, HIDDEN},
    {"lm_head.weight", WORDS, HIDDEN},
    {"model.norm.weight", HIDDEN, 0},
    {"model.layers.0.input_layernorm.weight", HIDDEN, 0},
    {"model.layers.0.post_attention_layernorm.weight", HIDDEN, 0},
    {"model.layers.0.self_attn.q_proj.weight", HIDDEN, HIDDEN},
    {"model.layers.0.self_attn.k_proj.weight", HIDDEN, HIDDEN},
    {"model.layers.0.self_attn.v_proj.weight", HIDDEN, HIDDEN},
    {"model.layers.0.self_attn.o_proj.weight", HIDDEN, HIDDEN},
    {"model.layers.0.mlp.gate_proj.weight", FEED, HIDDEN},
    {"model.layers.0.mlp.up_proj.weight", FEED, HIDDEN},
    {"model.layers.0.mlp.down_proj.weight", HIDDEN, FEED},
};
static const char config[] = /* to be filled in for %u and %u */
    "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_act\":\"silu\","
    "\"rms_norm_eps\":1e-05,\"bos_token_id\":1,\"eos_token_id\":2,\"hidden_size\":%u,"
    "\"intermediate_size\":%u,\"num_hidden_layers\":1,\"num_attention_heads\":4,"
    "\"num_key_value_heads\":4,\"vocab_size\":61,\"max_position_embeddings\":64,"
    "\"rope_theta\":10000.0,\"tie_word_embeddings\":false,\"quantization_config\":"
    "{\"quant_method\":\"fp8\",\"weight_block_size\":[128,128]}}";

static uint32_t random_state;
static uint32_t next(void) { return (random_state = random_state * 1664525u + 1013904223u) >> 8; }

/* Follows the format's description: a sign bit, four exponent bits with bias 7, three fraction bits. */
static float e4m3(unsigned char bits) {
    const int exponent = bits >> 3 & 15, fraction = bits & 7;
    const double value = exponent ? ldexp(8 + fraction, exponent - 10) : ldexp(fraction, -9);
    return (float)(bits & 128 ? -value : value);
}

/* The same in rows of whole blocks, which stay FP8: an F16 scale for each row, and one for the matrix. */
static void blocks_have_the_scales_of_rows(void **state) {
    (void)state;
    static const char header[] = "{\"v\":{\"dtype\":\"F8_E4M3\",\"shape\":[2,256],\"data_offsets\":[8,520]},"
                                 "\"v_scale\":{\"dtype\":\"F16\",\"shape\":[2,1],\"data_offsets\":[0,4]},"
                                 "\"w\":{\"dtype\":\"F8_E4M3\",\"shape\":[2,128],\"data_offsets\":[520,776]},"
                                 "\"w_scale\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}";
    static const unsigned char halves[4] = {0x00, 0x3e, 0x66, 0xae}; /* 1.5, -0.1 */
    static const float one = 0x1.a36e2ep-14f;
    static struct maker made;
    struct kvc_safetensors *file;
    struct kvc_error error = {0};
    unsigned char numbers[768];
    for (unsigned i = 0; i < sizeof numbers; i++)
        numbers[i] = (unsigned char)((i * 37 & 127) == 127 ? 0x81 : i * 37);
    made.used = 0;
    put_number(&made, strlen(header), 8);
    put_bytes(&made, header, strlen(header));
    put_bytes(&made, halves, sizeof halves);
    put_bytes(&made, &one, sizeof one);
    put_bytes(&made, numbers, sizeof numbers);
    const char *path = write_file("blocks.safetensors", made.data, made.used);
    must(kvc_safetensors_open(path, &file, &error), &error);
    for (int matrix = 0; matrix < 2; matrix++) {
        const struct kvc_file_tensor *tensor = kvc_safetensors_tensor(file, matrix ? "w" : "v");
        const unsigned char *from = numbers + (matrix ? 512 : 0);
        must(kvc_tensor_make(tensor, path, &error), &error);
        assert_true(tensor->type == KVC_FP8 && tensor->bytes == tensor->rows * tensor->cols / 128 * 132);
        for (size_t row = 0; row < 2; row++) {
            const float scale = matrix ? one : row ? -0x1.998p-4f : 1.5f;
            float values[256];
            kvc_dequantize_row(KVC_FP8, (const char *)kvc_tensor_data(tensor) + row * tensor->cols / 128 * 132,
                               tensor->cols, values);
            for (size_t k = 0; k < tensor->cols; k++) {
                const float value = e4m3(from[row * tensor->cols + k]) * scale;
                assert_memory_equal(&values[k], &value, sizeof value);
            }
        }
    }
    kvc_safetensors_close(file);
}

struct bytes {
    char header[6000];
    unsigned char data[1 << 22];
    size_t used, length;
};

static void add_tensor(struct bytes *to, const char *name, const char *end, const char *dtype, unsigned rows,
                       unsigned cols, const void *data, size_t count) {
    char shape[40];
    snprintf(shape, sizeof shape, cols ? "%u,%u" : "%u", rows, cols);
    to->length += (size_t)snprintf(to->header + to->length, sizeof to->header - to->length,
                                   "%s\"%s%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
                                   to->length ? "," : "{", name, end, dtype, shape, to->used, to->used + count);
    assert_true(to->used + count <= sizeof to->data && to->length < sizeof to->header - 2);
    memcpy(to->data + to->used, data, count);
    to->used += count;
}

static const char *write_folder(const char *folder, struct bytes *from) {
    char name[100], text[sizeof config + 20];
    unsigned char length[8] = {0};
    strcat(from->header, "}");
    from->length++;
    length[0] = (unsigned char)from->length;
    length[1] = (unsigned char)(from->length >> 8);
    assert_int_equal(mkdir(own_path(folder), 0777), 0);
    snprintf(name, sizeof name, "%s/config.json", folder);
    write_file(name, text, (size_t)snprintf(text, sizeof text, config, sizes[HIDDEN], sizes[FEED]));
    snprintf(name, sizeof name, "%s/model.safetensors", folder);
    FILE *file = fopen(own_path(name), "wb");
    assert_non_null(file);
    assert_true(fwrite(length, 8, 1, file) == 1 && fwrite(from->header, from->length, 1, file) == 1 &&
                fwrite(from->data, from->used, 1, file) == 1);
    assert_int_equal(fclose(file), 0);
    return own_path(folder);
}

/* Adds tensor i in float32 and, if it is a projection, in FP8. */
static void add_both(size_t i, struct bytes *plain, struct bytes *fp8) {
    static unsigned char numbers[MOST * MOST];
    static float values[MOST * MOST], scales[9];
    const unsigned rows = sizes[model[i].rows], shape = sizes[model[i].cols], cols = shape ? shape : 1;
    const unsigned grid = (cols + BLOCK - 1) / BLOCK;
    const unsigned count = (rows + BLOCK - 1) / BLOCK * grid;
    const bool scaled = strstr(model[i].name, "_proj") != NULL;
    for (unsigned s = 0; s < count; s++)
        scales[s] = ldexpf((float)(next() % 1000 + 500), -22);
    for (unsigned n = 0; n < rows * cols; n++) {
        numbers[n] = (unsigned char)next();
        if ((numbers[n] & 127) == 127) /* it would be a NaN */
            numbers[n] ^= 1;
        values[n] = e4m3(numbers[n]) * (scaled ? scales[n / cols / BLOCK * grid + n % cols / BLOCK] : 0x1p-6f);
    }
    add_tensor(plain, model[i].name, "", "F32", rows, shape, values, rows * cols * sizeof *values);
    if (scaled) {
        add_tensor(fp8, model[i].name, "_scale_inv", "F32", count / grid, grid, scales, count * sizeof *scales);
        add_tensor(fp8, model[i].name, "", "F8_E4M3", rows, cols, numbers, rows * cols);
    } else {
        add_tensor(fp8, model[i].name, "", "F32", rows, shape, values, rows * cols * sizeof *values);
    }
}

static void compute(const char *path, float *logits, struct kvc_model_info *info) {
    static const int32_t tokens[] = {1, 7, 60, 22, 3, 19};
    struct kvc_engine *engine;
    struct kvc_model *opened;
    struct kvc_session *session;
    struct kvc_session_options options;
    struct kvc_error error = {0};
    must(kvc_engine_open(NULL, &engine, &error), &error);
    must(kvc_model_open(engine, path, &opened, &error), &error);
    *info = *kvc_model_info(opened);
    kvc_session_defaults(&options);
    must(kvc_session_open(opened, &options, &session, &error), &error);
    must(kvc_session_prompt(session, tokens, 6, NULL, logits, &error), &error);
    kvc_session_close(session);
    kvc_model_close(opened);
    kvc_engine_close(engine);
}

static void check_model(const char *plain_folder, const char *fp8_folder, unsigned hidden, unsigned feed) {
    static struct bytes plain, fp8;
    static float logits[5][VOCAB];
    struct kvc_model_info info[5];
    struct kvc_error error = {0};
    char paths[5][700];
    random_state = 5;
    sizes[HIDDEN] = hidden;
    sizes[FEED] = feed;
    plain.used = plain.length = fp8.used = fp8.length = 0;
    for (size_t i = 0; i < sizeof model / sizeof *model; i++)
        add_both(i, &plain, &fp8);
    snprintf(paths[0], sizeof paths[0], "%s", write_folder(plain_folder, &plain));
    snprintf(paths[1], sizeof paths[1], "%s", write_folder(fp8_folder, &fp8));
    snprintf(paths[2], sizeof paths[2], "%s", own_path("plain.gguf"));
    snprintf(paths[3], sizeof paths[3], "%s", own_path("fp8.gguf"));
    must(kvc_convert(paths[0], paths[2], KVC_Q8_0, &error), &error);
    must(kvc_convert(paths[1], paths[3], KVC_Q8_0, &error), &error);
    snprintf(paths[4], sizeof paths[4], "%.600s-wide/", paths[1]);
    must(kvc_convert(paths[1], paths[4], KVC_F32, &error), &error); /* a folder like that of transformers' dequantize */
    for (int i = 0; i < 5; i++)
        compute(paths[i], logits[i], &info[i]);
    assert_true(isfinite(logits[0][0]) && logits[0][0] != logits[0][1]);
    assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
    assert_memory_equal(logits[2], logits[3], sizeof logits[2]);
    assert_memory_equal(logits[1], logits[4], sizeof logits[1]);
    /* Converted weights count as held memory, not as memory read from the file. */
    const uint64_t ends = 2 * (uint64_t)VOCAB * hidden * 4, norms = 3 * (uint64_t)hidden * 4;
    const uint64_t numbers = 4 * (uint64_t)hidden * hidden + 3 * (uint64_t)hidden * feed;
    const bool blocks = hidden % BLOCK == 0;
    assert_true(info[0].parameters == info[1].parameters && info[1].mapped_bytes == ends);
    assert_true(info[0].weight_bytes == ends + norms + 4 * numbers && info[0].mapped_bytes == ends + 4 * numbers);
    assert_true(info[1].weight_bytes == ends + norms + (blocks ? numbers / 128 * 132 : 4 * numbers));
}

static void a_model_has_the_same_bits(void **state) {
    (void)state;
    check_model("plain", "fp8", 256, 384);
    check_model("plain-odd", "fp8-odd", 144, 272); /* rows of 144 are not whole blocks of 128: they become F32 */
}

/* ---- what does not fit ---- */

static struct maker made;

static void refuse_header(const char *header, size_t bytes, unsigned char fill, const char *says) {
    struct kvc_safetensors *file;
    struct kvc_error error = {0};
    made.used = 0;
    put_text(&made, header);
    for (size_t i = 0; i < bytes; i++)
        put_number(&made, fill, 1);
    const char *path = write_file("bad.safetensors", made.data, made.used);
    check_refusal(kvc_safetensors_open(path, &file, &error), KVC_INPUT, &error, says);
    assert_null(file);
}

#define F8(shape, bytes) "\"w\":{\"dtype\":\"F8_E4M3\",\"shape\":[" shape "],\"data_offsets\":[0," bytes "]}"
#define OTHER(name, dtype, shape, from, to)                                                                            \
    ",\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" from "," to "]}"
#define BLOCKS(shape, bytes) "\"w_blocks\":{\"dtype\":\"U8\",\"shape\":[" shape "],\"data_offsets\":[0," bytes "]}"

static void refuses_scales_that_do_not_fit(void **state) {
    (void)state;
    refuse_header("{" F8("2,3", "6") "}", 6, 0, "w is F8_E4M3, but there is no w_scale_inv");
    refuse_header("{" F8("2,3", "6") OTHER("w_scale_inv", "U8", "1,1", "6", "7") "}", 7, 0, "there is no w_scale_inv");
    refuse_header("{" F8("2,3", "6") OTHER("w_scale_inv", "F32", "3,1", "6", "18") "}", 18, 0,
                  "w is 2 x 3; its scales, w_scale_inv, are 3 x 1, they must be 1 x 1");
    refuse_header("{" F8("1,129", "129") OTHER("w_scale_inv", "F16", "2,1", "129", "133") "}", 133, 0,
                  "are 2 x 1, they must be 1 x 2");
    refuse_header("{" F8("6", "6") OTHER("w_scale_inv", "F32", "1,1", "6", "10") "}", 10, 0,
                  "in 1 dimensions; only matrices");
    refuse_header("{" F8("2,3", "6") OTHER("w_scale_inv", "F32", "1,1", "6", "10") "}", 10, 255, "number 0 is");
    refuse_header("{" F8("2,3", "6") OTHER("w_scale_inv", "BF16", "1", "6", "8") "}", 8, 255, "is infinite or NaN");
    refuse_header("{" F8("2,3", "6") OTHER("u", "U8", "1", "6", "7") OTHER("w_scale_inv", "BF16", "1", "7", "9") "}", 9,
                  0, "tensor u has dtype U8");
    refuse_header("{" BLOCKS("1,2,16", "32") "}", 32, 0, "w_blocks is U8, but there is no w_scales");
    refuse_header("{" BLOCKS("1,2,16", "32") OTHER("w_scales", "U8", "2,1", "32", "34") "}", 34, 0,
                  "w_blocks must have the shape of w_scales");
    refuse_header("{" BLOCKS("1,2,15", "30") OTHER("w_scales", "U8", "1,2", "30", "32") "}", 32, 0,
                  "must have the shape");
    refuse_header("{" BLOCKS("2,16", "32") OTHER("w_scales", "U8", "2", "32", "34") "}", 34, 0, "must have the shape");
    refuse_header("{" BLOCKS("1,2,16", "32") OTHER("w_scales", "U8", "1,2", "32", "34") "}", 34, 255,
                  "w_scales: number 0 is 255, which is not a scale");
    refuse_header("{" BLOCKS("1,2,16", "32") OTHER("w_scales", "U8", "1,2", "32", "34")
                      OTHER("w", "U8", "1", "34", "35") "}",
                  35, 0, "tensor w has dtype U8");
    refuse_header("{" BLOCKS("1,2,16", "32") OTHER("w_scales", "U8", "1,2", "32", "34")
                      OTHER("w", "F16", "1", "34", "36") "}",
                  36, 0, "tensor w comes twice");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_those_of_transformers),
        cmocka_unit_test(a_model_has_the_same_bits),
        cmocka_unit_test(a_scale_for_each_row),
        cmocka_unit_test(blocks_have_the_scales_of_rows),
        cmocka_unit_test(refuses_scales_that_do_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, remove_own_folder);
}

/* test_to_folder.c - Hugging Face folders from convert: logits bit-identical to the source model, for every family with
 * a golden; equal tokens; and models that a folder cannot express are refused without leftovers. */
#include "tests/models/convert_checks.h"

#include <dirent.h>

#include "models/convert/to_folder.h"
#include "models/tokenizer/parts.h"
#include "tests/models/tokenizer_checks.h"

/* From GGUF to a folder, and from that folder to GGUF and to another folder. */
static void goldens_keep_their_bits(void **state) {
    (void)state;
    char list[500], from[800];
    const char *top = getenv("top_srcdir");
    struct kvc_error error = {0};
    size_t tried = 0;
    snprintf(list, sizeof list, "%s/tests/data/golden", top ? top : ".");
    DIR *families = opendir(list);
    assert_non_null(families);
    for (struct dirent *entry; (entry = readdir(families)) != NULL;) {
        struct stat about;
        snprintf(from, sizeof from, "%s/%.200s/model.gguf", list, entry->d_name);
        if (stat(from, &about) != 0 || (kvc_test_thinned() && tried++ % 5))
            continue;
        if (strncmp(entry->d_name, "qwen35", 6) == 0 || strncmp(entry->d_name, "qwen3-next", 10) == 0) {
            assert_int_equal(kvc_convert(from, own_path("folder/"), KVC_F32, &error), KVC_INPUT);
            assert_non_null(strstr(error.text, "their gated delta nets cannot be written"));
            assert_int_equal(kvc_convert(from, own_path("again.gguf"), KVC_F32, &error), KVC_INPUT);
            continue;
        }
        must(kvc_convert(from, own_path("folder/"), KVC_F32, &error), &error, from);
        same_bits(from, own_path("folder"));
        must(kvc_convert(own_path("folder"), own_path("again.gguf"), KVC_F32, &error), &error, from);
        same_bits(from, own_path("again.gguf"));
        snprintf(from, sizeof from, "%s/%.200s", list, entry->d_name);
        must(kvc_convert(from, own_path("copy/"), KVC_F32, &error), &error, from);
        same_bits(from, own_path("copy"));
        remove_tree(own_path("folder"));
        remove_tree(own_path("copy"));
        tried++;
    }
    closedir(families);
    assert_true(tried >= 30 || (kvc_test_thinned() && tried > 2));
}

/* Quantized weights are exact in float32, and close enough in types of half the size. */
static void types_of_a_folder(void **state) {
    (void)state;
    struct kvc_error error = {0};
    struct stat about;
    must(kvc_make_model("tiny", KVC_Q8_0, 9, own_path("q8_0.gguf"), &error), &error, "q8_0");
    must(kvc_convert(own_path("q8_0.gguf"), own_path("wide/"), KVC_F32, &error), &error, "f32");
    same_bits(own_path("q8_0.gguf"), own_path("wide"));
    assert_int_equal(stat(own_path("wide/model.safetensors"), &about), 0);
    const off_t bytes = about.st_size;
    must(kvc_convert(own_path("wide"), own_path("half///"), KVC_BF16, &error), &error, "bf16");
    assert_int_equal(stat(own_path("half/model.safetensors"), &about), 0);
    assert_true(about.st_size < bytes * 6 / 10);
    must(kvc_convert(own_path("half"), own_path("half.gguf"), KVC_BF16, &error), &error, "bf16");
    same_bits(own_path("half"), own_path("half.gguf"));
}

/* ---- tokens ---- */

/* The tokenizer, after it was written and read again. */
static struct kvc_tokenizer *written(const struct kvc_tokenizer *tokenizer, const char *name) {
    struct kvc_output_set *set;
    struct kvc_error error = {0};
    struct kvc_tokenizer *again = NULL;
    must(kvc_output_set_open(own_path("text"), &set, &error), &error, name);
    must(kvc_write_tokenizer(set, name, tokenizer, &error), &error, name);
    must(kvc_output_set_commit(set, &error), &error, name);
    must(kvc_tokenizer_from_folder(own_path("text"), UINT64_MAX, &again, &error), &error, name);
    remove_tree(own_path("text"));
    return again;
}

static void byte_level_tokens_stay(void **state) {
    (void)state;
    static const char *const names[] = {"gpt2", "llama3", "qwen2", "starcoder", "tekken", "sentencepiece"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char part[200], path[1000];
        struct kvc_gguf *file;
        snprintf(part, sizeof part, "tokenizers/%s/vocab.gguf", names[i]);
        data_path(path, sizeof path, part);
        struct kvc_tokenizer *tokenizer = open_gguf(path, &file), *again = written(tokenizer, names[i]);
        size_t bytes, again_bytes;
        const char *name = kvc_split_name(tokenizer, &bytes), *same = kvc_split_name(again, &again_bytes);
        assert_true(name == same && (!name || bytes == again_bytes));
        compare_expected(again, names[i], i < 5);
        kvc_tokenizer_close(tokenizer);
        kvc_tokenizer_close(again);
        kvc_gguf_close(file);
    }
}

/* What another program reads from the folder: the demo's words, a template, and the tokens that end an answer. */
static void text_goes_along(void **state) {
    (void)state;
    static const char text[] = "the magic number for lantern 48 21 . unknownword <s>";
    char command[2000], from[600];
    struct kvc_error error = {0};
    const char *top = getenv("top_srcdir");
    snprintf(from, sizeof from, "%s", own_path("words"));
    snprintf(command, sizeof command,
             "cp -R '%s/data/demo' '%s' && cd '%s' && echo '{{ messages[0].content }}' >chat_template.jinja && "
             "echo '{\"eos_token_id\": [16, 17]}' >generation_config.json",
             top ? top : ".", from, from);
    assert_int_equal(system(command), 0);
    must(kvc_convert(from, own_path("demo.gguf"), KVC_F16, &error), &error, "demo");
    must(kvc_convert(own_path("demo.gguf"), own_path("demo/"), KVC_F16, &error), &error, "demo");
    int32_t *ids[3];
    size_t counts[3];
    for (int i = 0; i < 3; i++) {
        struct kvc_model *model;
        const struct kvc_message message = {"user", "hello"};
        char *chat;
        must(kvc_model_open(engine, i == 0 ? from : own_path(i == 1 ? "demo.gguf" : "demo"), &model, &error), &error,
             "demo");
        must(kvc_tokenize(model, text, strlen(text), KVC_TOKENIZE_BOS | KVC_TOKENIZE_SPECIAL, &ids[i], &counts[i],
                          &error),
             &error, "demo");
        for (int32_t t = 0; t < (int32_t)kvc_model_info(model)->vocab; t++)
            assert_int_equal(kvc_token_ends_turn(model, t), t == 16 || t == 17);
        must(kvc_chat_text(model, NULL, &message, 1, true, &chat, &error), &error, "demo");
        assert_string_equal(chat, "hello");
        free(chat);
        kvc_model_close(model);
        assert_int_equal(counts[i], counts[0]);
        assert_memory_equal(ids[i], ids[0], counts[0] * sizeof *ids[0]);
    }
    for (int i = 0; i < 3; i++)
        free(ids[i]);
}

/* ---- failures ---- */

static void refusals_leave_nothing(void **state) {
    (void)state;
    struct kvc_error error = {0};
    must(kvc_make_model("tiny", KVC_F16, 1, own_path("tiny.gguf"), &error), &error, "tiny");
    char from[700];
    snprintf(from, sizeof from, "%s", own_path("tiny.gguf"));
    check_refusal(kvc_convert(from, own_path("new/"), KVC_Q8_0, &error), KVC_USAGE, &error,
                  "a Hugging Face folder holds f32, f16 or bf16, not q8_0");
    check_refusal(kvc_convert(from, own_path("tiny.gguf/"), KVC_F16, &error), KVC_RESOURCE, &error,
                  "exists and is not a folder");
    check_refusal(kvc_convert(from, own_path("none/new/"), KVC_F16, &error), KVC_RESOURCE, &error,
                  "cannot be written: No such file");
    assert_int_equal(mkdir(own_path("full"), 0777), 0);
    write_file("full/file", "x", 1);
    check_refusal(kvc_convert(from, own_path("full/"), KVC_F16, &error), KVC_RESOURCE, &error,
                  "exists and is not empty");
    assert_int_equal(count_files("new"), 0);
    assert_int_equal(count_files("full"), 1);
    assert_int_equal(mkdir(own_path("empty"), 0777), 0); /* something else has this name */
    must(kvc_convert(from, own_path("empty/"), KVC_F16, &error), &error, "empty");
    same_bits(from, own_path("empty"));
    assert_int_equal(count_files("empty"), 1);
}

/* Tensors that a folder's config.json does not provide for are refused in both directions; so is the name of a part of
 * a split model. */
static void what_would_be_lost(void **state) {
    (void)state;
    char from[600], command[1000];
    const char *top = getenv("top_srcdir");
    struct kvc_error error = {0};
    snprintf(from, sizeof from, "%s/tests/data/golden/glm4", top ? top : ".");
    must(kvc_convert(from, own_path("biased/"), KVC_F32, &error), &error, from);
    snprintf(command, sizeof command, "sed -i 's/\"attention_bias\": true/\"attention_bias\": false/' '%s'",
             own_path("biased/config.json"));
    assert_int_equal(system(command), 0);
    check_refusal(kvc_convert(own_path("biased"), own_path("new.gguf"), KVC_F32, &error), KVC_INPUT, &error,
                  "_proj.bias does not belong in a glm4 model with this config.json");
    check_refusal(kvc_convert(own_path("biased"), own_path("new/"), KVC_F32, &error), KVC_INPUT, &error,
                  "_proj.bias does not belong in a glm4 model with this config.json");
    check_refusal(kvc_convert(from, own_path("new-00001-of-00002.gguf"), KVC_F32, &error), KVC_USAGE, &error,
                  "is the name of one part of a model in several files");
    check_refusal(kvc_make_model("tiny", KVC_F32, 1, own_path("new-00002-of-00002.gguf"), &error), KVC_USAGE, &error,
                  "is the name of one part of a model in several files");
    assert_int_equal(count_files("new"), 0);
    must(kvc_convert(from, own_path("new-00001-of-00001.gguf"), KVC_F32, &error), &error, "the only part");
    same_bits(from, own_path("new-00001-of-00001.gguf"));
}

/* A GGUF file has one tensor too many, so its copy could not be opened: no file is created. */
static void what_cannot_be_opened(void **state) {
    (void)state;
    static char bytes[1 << 20];
    struct kvc_error error = {0};
    must(kvc_make_model("thin", KVC_F16, 1, own_path("thin.gguf"), &error), &error, "thin");
    FILE *in = fopen(own_path("thin.gguf"), "rb");
    assert_non_null(in);
    const size_t count = fread(bytes, 1, sizeof bytes, in);
    fclose(in);
    char *at = memmem(bytes, count, "blk.1.attn_q.weight", strlen("blk.1.attn_q.weight"));
    assert_non_null(at);
    at[4] = '7'; /* of a layer that the model does not have */
    write_file("other.gguf", bytes, count);
    check_refusal(kvc_convert(own_path("other.gguf"), own_path("copy.gguf"), KVC_F32, &error), KVC_INPUT, &error,
                  "copy.gguf: was not written, because it could not be opened afterwards: tensor");
    assert_int_equal(count_files("copy"), 0);
}

/* A number that is not 1 + w for any w: the file stores 1 + w, a folder w. */
static void norms_without_a_difference(void **state) {
    (void)state;
    static char bytes[1 << 20];
    char from[600];
    const char *top = getenv("top_srcdir");
    struct kvc_error error = {0};
    struct kvc_gguf *file;
    snprintf(from, sizeof from, "%s/tests/data/golden/gemma3/model.gguf", top ? top : ".");
    must(kvc_gguf_open(from, &file, &error), &error, from);
    const struct kvc_file_tensor *norm = kvc_gguf_tensor(file, "output_norm.weight");
    unsigned char first[16];
    memcpy(first, norm->data, sizeof first);
    kvc_gguf_close(file);
    FILE *in = fopen(from, "rb");
    const size_t count = fread(bytes, 1, sizeof bytes, in);
    fclose(in);
    char *at = memmem(bytes, count, first, sizeof first);
    const float small = 1e-10f; /* 1 + w is close to 0 only for w = -1, where it is exactly 0 */
    assert_non_null(at);
    memcpy(at, &small, sizeof small);
    write_file("norm.gguf", bytes, count);
    check_refusal(kvc_convert(own_path("norm.gguf"), own_path("new/"), KVC_F32, &error), KVC_INPUT, &error,
                  "tensor output_norm.weight: number 0, 1e-10, cannot be stored");
    assert_int_equal(count_files("new"), 0);
}

/* Stacks from which gate_up_proj cannot be made: missing, or of another shape. */
static void stacks_that_do_not_fit(void **state) {
    (void)state;
    static const char up[] = "blk.1.ffn_up_exps.weight", down[] = "blk.1.ffn_down_exps.weight";
    static char bytes[1 << 20];
    char from[600];
    const char *top = getenv("top_srcdir");
    struct kvc_error error = {0};
    snprintf(from, sizeof from, "%s/tests/data/golden/gpt-oss-plain/model.gguf", top ? top : ".");
    FILE *in = fopen(from, "rb");
    assert_non_null(in);
    const size_t count = fread(bytes, 1, sizeof bytes, in);
    fclose(in);
    char *at = memmem(bytes, count, up, strlen(up));
    assert_non_null(at);
    at[4] = '7';
    write_file("stack.gguf", bytes, count);
    check_refusal(kvc_convert(own_path("stack.gguf"), own_path("new/"), KVC_F32, &error), KVC_INPUT, &error,
                  "tensor blk.1.ffn_up_exps.weight is missing");
    at[4] = '1';
    at = memmem(bytes, count, down, strlen(down));
    assert_non_null(at);
    at += strlen(down) + 4; /* after the number of dimensions: inputs, outputs, experts, 64 bits each */
    char inputs = at[0];
    at[0] = at[8];
    at[8] = inputs;
    write_file("stack.gguf", bytes, count);
    check_refusal(kvc_convert(own_path("stack.gguf"), own_path("new/"), KVC_F32, &error), KVC_INPUT, &error,
                  "tensor blk.1.ffn_down_exps.weight does not have the shape its model asks for");
    assert_int_equal(count_files("new"), 0);
}

/* ---- files with some bytes changed ---- */

static const char *golden(const char *name) {
    static char path[600];
    const char *top = getenv("top_srcdir");
    snprintf(path, sizeof path, "%s/tests/data/golden/%s", top ? top : ".", name);
    return path;
}

/* Copies a file with the first occurrence of `old` [length] replaced. */
static const char *changed(const char *from, const void *old, const void *replacement, size_t length) {
    static char bytes[1 << 22];
    FILE *in = fopen(from, "rb");
    assert_non_null(in);
    const size_t count = fread(bytes, 1, sizeof bytes, in);
    fclose(in);
    assert_true(count < sizeof bytes);
    char *at = memmem(bytes, count, old, length);
    if (!at)
        fail_msg("%s has no %.40s", from, (const char *)old);
    memcpy(at, replacement, length);
    return write_file("changed.gguf", bytes, count);
}

static const char *changed_text(const char *from, const char *old, const char *replacement) {
    assert_int_equal(strlen(old), strlen(replacement));
    return changed(from, old, replacement, strlen(old));
}

/* Texts that JSON cannot hold: spellings of tokens, the template; and tokens that could not be told apart. */
static void texts_without_json(void **state) {
    (void)state;
    static const struct {
        const char *file, *text, *replacement, *says;
    } changes[] = {
        {"tiny.gguf", "\u0120ba", "\377\377ba", "token 256 is not text in UTF-8; a tokenizer.json cannot hold it"},
        {"tiny.gguf", "\u0120be", "\u0120ba",
         "tokens 256 and 257 are spelled alike; a tokenizer.json cannot hold them"},
        {"demo.gguf", "{{ messages", "{{ \377\377\377\377\377\377\377\377",
         "tokenizer.chat_template is not text in UTF-8"},
    };
    struct kvc_error error = {0};
    must(kvc_make_model("tiny", KVC_F16, 1, own_path("tiny.gguf"), &error), &error, "tiny");
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        const char *from = changed_text(own_path(changes[i].file), changes[i].text, changes[i].replacement);
        check_refusal(kvc_convert(from, own_path("json/"), KVC_F16, &error), KVC_INPUT, &error, changes[i].says);
        assert_int_equal(count_files("json"), 0);
    }
}

/* Defaults of GGUF keys are written as the values of config.json that mean the same. */
static void keys_that_are_missing(void **state) {
    (void)state;
    static const char *const keys[][2] = {{"granite/model.gguf", "granite.attention.scale"},
                                          {"cohere/model.gguf", "command-r.logit_scale"}};
    struct kvc_error error = {0};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char other[40];
        snprintf(other, sizeof other, "%s", keys[i][1]);
        other[strlen(other) - 1] = '-';
        const char *from = changed_text(golden(keys[i][0]), keys[i][1], other);
        must(kvc_convert(from, own_path("folder/"), KVC_F32, &error), &error, keys[i][0]);
        same_bits(from, own_path("folder"));
        remove_tree(own_path("folder"));
    }
}

/* Scaling of Llama 3 with parameters that no published model has: GGUF files store the frequencies themselves, which a
 * config.json cannot. */
static void frequencies_without_parameters(void **state) {
    (void)state;
    struct kvc_error error = {0};
    char command[2000];
    snprintf(command, sizeof command,
             "cp -R '%s' '%s' && sed -i 's/\"low_freq_factor\": 1.0/\"low_freq_factor\": 2.0/' '%s'", golden("llama3"),
             own_path("odd"), own_path("odd/config.json"));
    assert_int_equal(system(command), 0);
    must(kvc_convert(own_path("odd"), own_path("odd.gguf"), KVC_F32, &error), &error, "odd");
    same_bits(own_path("odd"), own_path("odd.gguf"));
    check_refusal(kvc_convert(own_path("odd.gguf"), own_path("unsaid/"), KVC_F32, &error), KVC_INPUT, &error,
                  "the config.json of llama does not say its rotary frequencies");
    assert_int_equal(count_files("unsaid"), 0);
}

/* A number of an expert that is too large for the folder's type. */
static void numbers_that_are_too_large(void **state) {
    (void)state;
    struct kvc_error error = {0};
    struct kvc_gguf *file;
    unsigned char old[16], large[16];
    memset(large, 0x7f, sizeof large); /* above 3e38 in bf16 and f32 */
    must(kvc_gguf_open(golden("gpt-oss-plain/model.gguf"), &file, &error), &error, "gpt-oss-plain");
    memcpy(old, kvc_gguf_tensor(file, "blk.1.ffn_down_exps.weight")->data, sizeof old);
    kvc_gguf_close(file);
    const char *from = changed(golden("gpt-oss-plain/model.gguf"), old, large, sizeof old);
    check_refusal(
        kvc_convert(from, own_path("large/"), KVC_F16, &error), KVC_INPUT, &error,
        "tensor blk.1.ffn_down_exps.weight holds a value that is not finite or too large for f16; bf16 and f32");
    assert_int_equal(count_files("large"), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goldens_keep_their_bits),    cmocka_unit_test(types_of_a_folder),
        cmocka_unit_test(byte_level_tokens_stay),     cmocka_unit_test(text_goes_along),
        cmocka_unit_test(refusals_leave_nothing),     cmocka_unit_test(norms_without_a_difference),
        cmocka_unit_test(stacks_that_do_not_fit),     cmocka_unit_test(what_would_be_lost),
        cmocka_unit_test(what_cannot_be_opened),      cmocka_unit_test(texts_without_json),
        cmocka_unit_test(keys_that_are_missing),      cmocka_unit_test(frequencies_without_parameters),
        cmocka_unit_test(numbers_that_are_too_large),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}

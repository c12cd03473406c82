/* test_template_names.c - named chat templates and named special tokens: which one a conversation uses, from a folder
 * and from a GGUF file; convert keeps them in both directions. */
#include <jansson.h>

#include "models/chat/template.h"
#include "models/convert/text.h"
#include "models/convert/to_folder.h"
#include "models/tokenizer/parts.h"
#include "tests/models/file_maker.h"

enum { TOKENS = 8 };
#define MORE KVC_MORE_TEMPLATES
static const char tokens_json[] =
    "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"<unk>\":1,\"</s>\":2,\"<pad>\":3,\"<cls>\":4,\"<img>\":5,"
    "\"e6\":6,\"<s>\":7},\"merges\":[]},\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
    "\"decoder\":{\"type\":\"ByteLevel\"},\"added_tokens\":[{\"id\":1,\"content\":\"<unk>\",\"special\":true},"
    "{\"id\":2,\"content\":\"</s>\",\"special\":true},{\"id\":3,\"content\":\"<pad>\",\"special\":true},"
    "{\"id\":4,\"content\":\"<cls>\",\"special\":true},{\"id\":5,\"content\":\"<img>\",\"special\":true},"
    "{\"id\":7,\"content\":\"<s>\",\"special\":true}]}";

static void write_text(const char *name, const char *text) {
    if (text)
        write_file(name, text, strlen(text));
    else
        unlink(own_path(name));
}

/* The text or error for one message with or without tools, from malloc. */
static char *rendered(const struct kvc_tokenizer *tokenizer, const char *name, const char *tools,
                      const char *variables) {
    const struct kvc_message message = {"user", "hi"};
    const struct kvc_chat_options options = {.template_name = name, .tools = tools, .variables = variables};
    struct kvc_error error = {0};
    struct kvc_rendered made = {0};
    return kvc_chat_render(tokenizer, &options, &message, 1, &made, &error) ? strdup(error.text) : made.text;
}

static void check_text(const struct kvc_tokenizer *tokenizer, const char *name, const char *tools,
                       const char *variables, const char *wanted) {
    char *text = rendered(tokenizer, name, tools, variables);
    if (strcmp(text, wanted) != 0)
        fail_msg("template %s, tools %s: \"%s\"; \"%s\" was wanted", name ? name : "of the model",
                 tools ? tools : "none", text, wanted);
    free(text);
}

static struct kvc_tokenizer *open_folder(const char *folder) {
    struct kvc_tokenizer *tokenizer;
    struct kvc_error error = {0};
    if (kvc_tokenizer_from_folder(folder, TOKENS, &tokenizer, &error))
        fail_msg("%s", error.text);
    return tokenizer;
}

/* The files of a model's folder; NULL: no such file. */
static void write_folder(const char *config, const char *map, const char *file, const char *use, const char *rag) {
    mkdir(own_path(MORE), 0777);
    write_file("tokenizer.json", tokens_json, sizeof tokens_json - 1);
    write_text("tokenizer_config.json", config);
    write_text("special_tokens_map.json", map);
    write_text("chat_template.jinja", file);
    write_text(MORE "/tool_use.jinja", use);
    write_text(MORE "/rag.jinja", rag);
    if (!use && !rag)
        rmdir(own_path(MORE));
}

static void folder_chooses(void **state) {
    (void)state;
    static const char none[] = "none of the model's chat templates is called default; name one of them: rag, tool_use",
                      no_template[] = "the model has no chat template; name one";
    static const struct {
        const char *config, *file, *use, *rag, *plain, *tools; /* NULL: refused with no_template */
    } all[] = {
        {"{\"chat_template\": \"D\"}", NULL, NULL, NULL, "D", "D"},
        {"{\"chat_template\": [{\"name\": \"default\", \"template\": \"D\"}, {\"name\": \"tool_use\", \"template\": "
         "\"T{{ tools[0] }}\"}]}",
         NULL, NULL, NULL, "D", "T1"},
        {"{\"chat_template\": {\"tool_use\": \"T\", \"default\": \"D\"}}", NULL, NULL, NULL, "D", "T"},
        {"{\"chat_template\": [{\"name\": \"tool_use\", \"template\": \"T\"}]}", NULL, NULL, NULL, "T", "T"},
        {"{\"chat_template\": {\"rag\": \"R\", \"tool_use\": \"T\"}}", NULL, NULL, NULL, none, "T"},
        {"{\"chat_template\": {\"rag\": \"R\", \"tool_use\": \"T\"}}", "F", NULL, NULL, "F", "F"},
        {"{\"chat_template\": \"D\"}", "F", "U", NULL, "F", "U"},
        {"{\"chat_template\": \"D\"}", NULL, "U", "R", none, "U"},
        {"{}", "F", "U", "R", "F", "U"},
        {"{\"chat_template\": [{\"name\": \"a\"}, 7, {\"template\": \"x\"}]}", NULL, NULL, NULL, NULL, NULL},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        write_folder(all[i].config, NULL, all[i].file, all[i].use, all[i].rag);
        struct kvc_tokenizer *tokenizer = open_folder(own_folder());
        assert_int_equal(kvc_tokenizer_has_template(tokenizer), all[i].plain != NULL);
        if (all[i].plain) {
            check_text(tokenizer, NULL, NULL, NULL, all[i].plain);
            check_text(tokenizer, NULL, "[1]", NULL, all[i].tools);
            check_text(tokenizer, NULL, NULL, "{\"tools\": [1]}", all[i].tools);
        } else {
            char *text = rendered(tokenizer, NULL, NULL, NULL);
            assert_memory_equal(text, no_template, sizeof no_template - 1);
            free(text);
        }
        kvc_tokenizer_close(tokenizer);
    }
    write_folder("{}", NULL, "F", "U", "R");
    struct kvc_tokenizer *tokenizer = open_folder(own_folder());
    check_text(tokenizer, "rag", "[1]", NULL, "R"); /* chosen by name, whatever the conversation contains */
    kvc_tokenizer_close(tokenizer);
}

static void hostile_templates(void **state) {
    (void)state;
    struct kvc_tokenizer *tokenizer;
    struct kvc_error error = {0};
    char many[4000] = "{\"chat_template\": {\"n\": \"\"";
    for (int i = 0; i < 70; i++)
        snprintf(many + strlen(many), sizeof many - strlen(many), ", \"n%d\": \"\"", i);
    strcat(many, "}}");
    write_folder(many, NULL, NULL, NULL, NULL);
    check_refusal(kvc_tokenizer_from_folder(own_folder(), TOKENS, &tokenizer, &error), KVC_INPUT, &error,
                  "more than 64 chat templates");
    write_folder("{}", NULL, "F", NULL, NULL);
    write_file("chat_template.jinja", "a\0b", 3);
    check_refusal(kvc_tokenizer_from_folder(own_folder(), TOKENS, &tokenizer, &error), KVC_INPUT, &error,
                  "\"default\" holds a byte 0");
}

static void special_names(void **state) {
    (void)state;
    static const char chat[] = "{{ bos_token }},{{ eos_token }},{{ unk_token }},{{ pad_token }},{{ cls_token }},"
                               "{{ image_token }},{{ mask_token is defined }},{{ add_bos_token is defined }}";
    static const struct {
        const char *config, *map, *text;
    } all[] = {
        {"{}", NULL, ",,,,,,False,False"},
        {"{\"bos_token\": \"<s>\", \"eos_token\": {\"content\": \"</s>\"}, \"unk_token\": \"<unk>\", \"pad_token\": "
         "{\"content\": \"<pad>\"}, \"cls_token\": \"<cls>\", \"add_bos_token\": true, \"mask_token\": null}",
         NULL, "<s>,</s>,<unk>,<pad>,<cls>,,False,False"},
        {"{\"image_token\": \"<img>\"}", "{\"pad_token\": \"<pad>\", \"bos_token\": \"<s>\"}",
         "<s>,,,<pad>,,<img>,False,False"},
        {"{\"extra_special_tokens\": {\"image_token\": \"<img>\"}, \"pad_token\": null}", "{\"pad_token\": \"<pad>\"}",
         ",,,,,<img>,False,False"},
        {"{\"bos_token\": null, \"eos_token\": \"</s>\"}", NULL, ",</s>,,,,,False,False"},
    };
    write_text("config.json", "{\"bos_token_id\": 7}");
    for (size_t i = 1; i < sizeof all / sizeof *all; i++) {
        write_folder(all[i].config, all[i].map, chat, NULL, NULL);
        struct kvc_tokenizer *tokenizer = open_folder(own_folder());
        char wanted[200]; /* bos is named in no file; it comes from the id in config.json */
        snprintf(wanted, sizeof wanted, "%s%s", i == 3 ? "<s>" : "", all[i].text);
        check_text(tokenizer, NULL, NULL, NULL, wanted);
        check_text(tokenizer, NULL, NULL, "{\"pad_token\": \"mine\", \"bos_token\": \"\"}",
                   i == 1   ? ",</s>,<unk>,mine,<cls>,,False,False"
                   : i == 4 ? ",</s>,,mine,,,False,False"
                            : ",,,mine,,<img>,False,False");
        kvc_tokenizer_close(tokenizer);
    }
    write_text("config.json", NULL);
    write_folder(all[0].config, NULL, chat, NULL, NULL);
    struct kvc_tokenizer *tokenizer = open_folder(own_folder());
    check_text(tokenizer, NULL, NULL, NULL, all[0].text);
    kvc_tokenizer_close(tokenizer);
}

static void reads(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool tools;
    } all[] = {
        {"{{ messages[0].tools }} tools", false},
        {"{% for message in messages %}{{ message['content'] }}{% endfor %}", false},
        {"{% if false and tools %}{% endif %}", true},
        {"{{ f(tools=1) }}", false},
        {"{{ [1]|map('x', tools) }}", true},
        {"{{ broken", true},
    };
    const struct kvc_chat_options options = {.tools = "[1]"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        write_folder("{}", NULL, all[i].text, NULL, NULL);
        struct kvc_tokenizer *tokenizer = open_folder(own_folder());
        if (kvc_chat_text_reads(tokenizer, &options, "tools") != all[i].tools)
            fail_msg("%s: %s", all[i].text, all[i].tools ? "reads tools" : "reads no tools");
        kvc_tokenizer_close(tokenizer);
    }
    write_folder("{}", NULL, "no", "{{ tools }}", NULL); /* of the template that is chosen because of the tools */
    struct kvc_tokenizer *tokenizer = open_folder(own_folder());
    assert_true(kvc_chat_text_reads(tokenizer, &options, "tools"));
    assert_false(kvc_chat_text_reads(tokenizer, &(struct kvc_chat_options){0}, "tools"));
    kvc_tokenizer_close(tokenizer);
}

static struct kvc_gguf *to_gguf(const char *folder, const char *name) {
    struct kvc_gguf_writer *writer = kvc_gguf_writer_new();
    struct kvc_gguf *file;
    struct kvc_error error = {0};
    assert_non_null(writer);
    if (kvc_convert_text(folder, TOKENS, writer, &error) || kvc_gguf_writer_begin(writer, own_path(name), &error) ||
        kvc_gguf_writer_commit(writer, &error) || kvc_gguf_open(own_path(name), &file, &error))
        fail_msg("%s", error.text);
    return file;
}

static void check_all(const struct kvc_tokenizer *tokenizer, bool standard) {
    check_text(tokenizer, NULL, "[1]", NULL, "T<s></s><unk><pad><cls>");
    check_text(tokenizer, "rag", NULL, NULL, "R");
    if (standard)
        check_text(tokenizer, NULL, NULL, NULL, "D");
}

/* Folder to GGUF to folder, and folder to folder: every template and its name are kept. */
static void convert_keeps(void **state) {
    (void)state;
    static const char config[] = "{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\", \"unk_token\": \"<unk>\", "
                                 "\"pad_token\": \"<pad>\", \"cls_token\": \"<cls>\", \"model_max_length\": 77}",
                      use[] = "T{{ bos_token }}{{ eos_token }}{{ unk_token }}{{ pad_token }}{{ cls_token }}";
    for (int standard = 0; standard < 2; standard++) {
        char folder[700], copy[700];
        struct kvc_output_set *set;
        struct kvc_error error = {0};
        struct kvc_tokenizer *tokenizer;
        write_folder(config, NULL, standard ? "D" : NULL, use, "R");
        struct kvc_gguf *file = to_gguf(own_folder(), "all.gguf");
        if (kvc_tokenizer_from_gguf(file, "all.gguf", TOKENS, &tokenizer, &error))
            fail_msg("%s", error.text);
        check_all(tokenizer, standard);
        kvc_tokenizer_close(tokenizer);
        snprintf(folder, sizeof folder, "%s/folder-%d", own_folder(), standard);
        if (kvc_output_set_open(folder, &set, &error) || kvc_write_text(set, "all.gguf", file, TOKENS, &error) ||
            kvc_output_set_commit(set, &error))
            fail_msg("%s", error.text);
        kvc_gguf_close(file);
        tokenizer = open_folder(folder);
        check_all(tokenizer, standard);
        kvc_tokenizer_close(tokenizer);
        snprintf(copy, sizeof copy, "%s/copy-%d", own_folder(), standard);
        if (kvc_output_set_open(copy, &set, &error) || kvc_copy_text_files(set, own_folder(), &error) ||
            kvc_output_set_commit(set, &error))
            fail_msg("%s", error.text);
        tokenizer = open_folder(copy);
        check_all(tokenizer, standard);
        kvc_tokenizer_close(tokenizer);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(folder_chooses), cmocka_unit_test(hostile_templates),
                                       cmocka_unit_test(special_names), cmocka_unit_test(reads),
                                       cmocka_unit_test(convert_keeps)};
    return cmocka_run_group_tests(tests, NULL, remove_own_folder);
}

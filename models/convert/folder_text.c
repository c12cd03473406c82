/* folder_text.c - writes a folder's text files other than tokenizer.json: names of special tokens, the chat template,
 * the tokens that end an answer. Files of a source folder are copied unchanged. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "models/convert/to_folder.h"
#include "models/files/map.h"
#include "models/tokenizer/json.h"

struct made {
    json_t *root;
    bool whole; /* no failure so far */
};

static void folder_text_put(struct made *made, const char *key, json_t *value) {
    made->whole = json_object_set_new(made->root, key, value) == 0 && made->whole;
}

/* Writes "chat_template" of tokenizer_config.json: a string, or a list of named templates. */
static void put_templates(struct made *made, const struct kvc_tokenizer *t) {
    if (t->template_count == 1 && kvc_template_named(t, "default")) {
        folder_text_put(made, "chat_template", json_string(t->templates[0].text));
        return;
    }
    json_t *list = json_array();
    for (size_t i = 0; i < t->template_count; i++) {
        json_t *one = json_object();
        made->whole = json_object_set_new(one, "name", json_string(t->templates[i].name)) == 0 &&
                      json_object_set_new(one, "template", json_string(t->templates[i].text)) == 0 &&
                      json_array_append_new(list, one) == 0 && made->whole;
    }
    if (t->template_count)
        folder_text_put(made, "chat_template", list);
    else
        json_decref(list);
}

/* ---- from a folder ---- */

/* Writes tokenizer_config.json with the templates of a separate template folder added. Sets *done to false if there is
 * no such folder. */
static enum kvc_status gather_templates(struct kvc_output_set *set, const char *from, bool *done,
                                        struct kvc_error *error) {
    struct kvc_tokenizer only = {0};
    struct kvc_text path;
    struct stat about;
    struct made made = {NULL, true};
    enum kvc_status status = kvc_folder_path(from, KVC_MORE_TEMPLATES, &path) ? KVC_OK : kvc_no_memory(error);
    *done = !status && stat(path.data, &about) == 0;
    kvc_text_free(&path);
    if (!*done)
        return status;
    status = kvc_templates_from_folder(&only, from, error);
    if (!status)
        status = kvc_folder_json(from, "tokenizer_config.json", &made.root, error);
    if (!status && !json_is_object(made.root)) {
        json_decref(made.root);
        made.root = json_object();
    }
    if (!status) {
        put_templates(&made, &only);
        status = kvc_output_set_json(set, "tokenizer_config.json", made.root, made.whole, error);
    }
    kvc_templates_clear(&only);
    return status;
}

enum kvc_status kvc_copy_text_files(struct kvc_output_set *set, const char *from, struct kvc_error *error) {
    static const char *const names[] = {"tokenizer.json",          "tokenizer.model",   "tokenizer_config.json",
                                        "special_tokens_map.json", "added_tokens.json", "generation_config.json",
                                        "chat_template.jinja"};
    const size_t capacity = strlen(from) + 40;
    char *path = malloc(capacity);
    bool gathered = false;
    enum kvc_status status =
        path ? gather_templates(set, from, &gathered, error) : kvc_fail(error, KVC_RESOURCE, "%s: no memory", from);
    for (size_t i = 0; i < sizeof names / sizeof *names && !status; i++) {
        struct kvc_map map = {0};
        struct stat about;
        if (gathered && (!strcmp(names[i], "tokenizer_config.json") || !strcmp(names[i], "chat_template.jinja")))
            continue;
        snprintf(path, capacity, "%s/%s", from, names[i]);
        if (stat(path, &about) != 0)
            continue;
        status = kvc_map_open(path, &map, error);
        if (!status)
            status = kvc_output_set_write(set, names[i], map.data, map.bytes, error);
        kvc_map_close(&map);
    }
    free(path);
    return status;
}

/* ---- from a GGUF file ---- */

static void put_token(struct made *made, const struct kvc_tokenizer *t, const char *key, int32_t id) {
    if (id >= 0)
        folder_text_put(made, key, json_stringn(t->store.data + t->pieces[id].spelling, t->pieces[id].spelling_bytes));
}

static enum kvc_status write_about(struct kvc_output_set *set, const char *from, const struct kvc_tokenizer *t,
                                   struct kvc_error *error) {
    struct made made = {json_object(), true};
    const char *name;
    json_t *text;
    for (size_t i = 0; i < t->template_count; i++) {
        const struct kvc_template *one = &t->templates[i];
        if (!kvc_is_utf8(one->name, strlen(one->name)) || !kvc_is_utf8(one->text, strlen(one->text))) {
            json_decref(made.root);
            return kvc_fail(error, KVC_INPUT, "%s: tokenizer.chat_template is not text in UTF-8", from);
        }
    }
    folder_text_put(&made, "tokenizer_class", json_string("PreTrainedTokenizerFast"));
    folder_text_put(&made, "clean_up_tokenization_spaces", json_false());
    folder_text_put(&made, "add_bos_token", json_boolean(t->prefix.count > 0));
    put_token(&made, t, "bos_token", t->bos);
    put_token(&made, t, "eos_token", t->eos);
    put_token(&made, t, "unk_token", t->unknown);
    json_object_foreach(t->special_names, name, text) folder_text_put(&made, name, json_incref(text));
    put_templates(&made, t);
    return kvc_output_set_json(set, "tokenizer_config.json", made.root, made.whole, error);
}

static enum kvc_status write_generation(struct kvc_output_set *set, const struct kvc_tokenizer *t,
                                        struct kvc_error *error) {
    struct made made = {json_object(), true};
    json_t *ends = json_array();
    if (t->bos >= 0)
        folder_text_put(&made, "bos_token_id", json_integer(t->bos));
    if (t->eos >= 0) /* the first id in the list is the one that ends a text */
        made.whole = json_array_append_new(ends, json_integer(t->eos)) == 0 && made.whole;
    for (size_t i = 0; i < t->count; i++)
        if (t->pieces[i].ends_turn && (int32_t)i != t->eos)
            made.whole = json_array_append_new(ends, json_integer((json_int_t)i)) == 0 && made.whole;
    if (json_array_size(ends))
        folder_text_put(&made, "eos_token_id", ends);
    else
        json_decref(ends);
    return kvc_output_set_json(set, "generation_config.json", made.root, made.whole, error);
}

enum kvc_status kvc_write_text(struct kvc_output_set *set, const char *from, const struct kvc_gguf *file,
                               uint64_t vocab, struct kvc_error *error) {
    struct kvc_tokenizer *tokenizer;
    const char *whole;
    size_t bytes;
    if (!kvc_gguf_has(file, "tokenizer.ggml.model"))
        return KVC_OK;
    enum kvc_status status = kvc_tokenizer_from_gguf(file, from, vocab, &tokenizer, error);
    if (status)
        return status;
    if (kvc_gguf_string(file, "tokenizer.huggingface.json", &whole, &bytes))
        status = kvc_output_set_write(set, "tokenizer.json", whole, bytes, error);
    else
        status = kvc_write_tokenizer(set, from, tokenizer, error);
    if (!status)
        status = write_about(set, from, tokenizer, error);
    if (!status)
        status = write_generation(set, tokenizer, error);
    kvc_tokenizer_close(tokenizer);
    return status;
}

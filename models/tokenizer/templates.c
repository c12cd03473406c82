/* templates.c - the chat templates in a model's files, by name: "default", "tool_use" and others. */
#include "models/files/json.h"
#include "models/files/map.h"
#include "models/tokenizer/json.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_TEMPLATES = 64 };

#define DEFAULT "default"
#define GGUF_KEY "tokenizer.chat_template"
#define FILE_END ".jinja"

static void free_template(struct kvc_template *one) {
    free(one->name);
    free(one->text);
}

void kvc_templates_clear(struct kvc_tokenizer *tokenizer) {
    for (size_t i = 0; i < tokenizer->template_count; i++)
        free_template(&tokenizer->templates[i]);
    free(tokenizer->templates);
    tokenizer->templates = NULL;
    tokenizer->template_count = tokenizer->template_capacity = 0;
}

static char *templates_copy(const char *text, size_t bytes) {
    char *made = malloc(bytes + 1);
    if (made) {
        if (bytes)
            memcpy(made, text, bytes);
        made[bytes] = '\0';
    }
    return made;
}

/* Inserts a template in the order of names. Replaces one with the same name. */
static bool insert(struct kvc_tokenizer *tokenizer, struct kvc_template made) {
    size_t at = 0;
    while (at < tokenizer->template_count && strcmp(tokenizer->templates[at].name, made.name) < 0)
        at++;
    if (at < tokenizer->template_count && !strcmp(tokenizer->templates[at].name, made.name)) {
        free_template(&tokenizer->templates[at]);
        tokenizer->templates[at] = made;
        return true;
    }
    void *grown = tokenizer->templates;
    if (!kvc_grow(&grown, &tokenizer->template_capacity, tokenizer->template_count, sizeof made))
        return false;
    tokenizer->templates = grown;
    memmove(tokenizer->templates + at + 1, tokenizer->templates + at, (tokenizer->template_count - at) * sizeof made);
    tokenizer->templates[at] = made;
    tokenizer->template_count++;
    return true;
}

static enum kvc_status templates_add(struct kvc_tokenizer *tokenizer, const char *name, size_t name_bytes,
                                     const char *text, size_t bytes, struct kvc_error *error) {
    if (memchr(name, 0, name_bytes) || (bytes && memchr(text, 0, bytes)))
        return kvc_fail(error, KVC_INPUT, "the chat template \"%.*s\" holds a byte 0",
                        name_bytes > 40 ? 40 : (int)name_bytes, name);
    if (tokenizer->template_count >= MOST_TEMPLATES)
        return kvc_fail(error, KVC_INPUT, "the model has more than %d chat templates", MOST_TEMPLATES);
    struct kvc_template made = {templates_copy(name, name_bytes), templates_copy(text, bytes)};
    if (made.name && made.text && insert(tokenizer, made))
        return KVC_OK;
    free_template(&made);
    return kvc_no_memory(error);
}

const char *kvc_template_named(const struct kvc_tokenizer *tokenizer, const char *name) {
    for (size_t i = 0; i < tokenizer->template_count; i++)
        if (!strcmp(tokenizer->templates[i].name, name))
            return tokenizer->templates[i].text;
    return NULL;
}

const char *kvc_template_for(const struct kvc_tokenizer *tokenizer, bool tools) {
    const char *found = tools ? kvc_template_named(tokenizer, "tool_use") : NULL;
    found = found ? found : kvc_template_named(tokenizer, DEFAULT);
    return found ? found : tokenizer->template_count == 1 ? tokenizer->templates[0].text : NULL;
}

/* ---- sources ---- */

enum kvc_status kvc_templates_from_json(struct kvc_tokenizer *tokenizer, const json_t *value, struct kvc_error *error) {
    enum kvc_status status = KVC_OK;
    if (json_is_string(value))
        return templates_add(tokenizer, DEFAULT, strlen(DEFAULT), json_string_value(value), json_string_length(value),
                             error);
    for (size_t i = 0; i < json_array_size(value) && status == KVC_OK; i++) {
        const json_t *entry = json_array_get(value, i), *name = json_object_get(entry, "name"),
                     *text = json_object_get(entry, "template");
        if (json_is_string(name) && json_is_string(text))
            status = templates_add(tokenizer, json_string_value(name), json_string_length(name),
                                   json_string_value(text), json_string_length(text), error);
    }
    void *object = json_is_object(value) ? (void *)(uintptr_t)value : NULL; /* jansson does not change the object */
    for (void *at = json_object_iter(object); at && status == KVC_OK; at = json_object_iter_next(object, at)) {
        const char *name = json_object_iter_key(at);
        const json_t *text = json_object_iter_value(at);
        if (json_is_string(text))
            status =
                templates_add(tokenizer, name, strlen(name), json_string_value(text), json_string_length(text), error);
    }
    return status;
}

static enum kvc_status add_file(struct kvc_tokenizer *tokenizer, const char *path, const char *name, size_t name_bytes,
                                struct kvc_error *error) {
    struct kvc_map map = {0};
    enum kvc_status status = kvc_map_open(path, &map, error);
    if (status == KVC_OK)
        status = templates_add(tokenizer, name, name_bytes, (const char *)map.data, map.bytes, error);
    kvc_map_close(&map);
    return status;
}

/* Adds every NAME.jinja of the folder. */
static enum kvc_status add_folder(struct kvc_tokenizer *tokenizer, const char *folder, DIR *list,
                                  struct kvc_error *error) {
    enum kvc_status status = KVC_OK;
    for (const struct dirent *entry; status == KVC_OK && (entry = readdir(list)) != NULL;) {
        const size_t bytes = strlen(entry->d_name), end = strlen(FILE_END);
        if (bytes <= end || strcmp(entry->d_name + bytes - end, FILE_END) != 0)
            continue;
        struct kvc_text path;
        status = kvc_folder_path(folder, entry->d_name, &path) ? KVC_OK : kvc_no_memory(error);
        if (status == KVC_OK)
            status = add_file(tokenizer, path.data, entry->d_name, bytes - end, error);
        kvc_text_free(&path);
    }
    return status;
}

enum kvc_status kvc_templates_from_folder(struct kvc_tokenizer *tokenizer, const char *folder,
                                          struct kvc_error *error) {
    struct kvc_text path, more = {0};
    struct stat about;
    enum kvc_status status =
        kvc_folder_path(folder, "chat_template.jinja", &path) && kvc_folder_path(folder, KVC_MORE_TEMPLATES, &more)
            ? KVC_OK
            : kvc_no_memory(error);
    DIR *list = status == KVC_OK ? opendir(more.data) : NULL;
    const bool file = status == KVC_OK && (stat(path.data, &about) == 0 || errno != ENOENT);
    if (file || list) /* these files replace all other templates */
        kvc_templates_clear(tokenizer);
    if (file)
        status = add_file(tokenizer, path.data, DEFAULT, strlen(DEFAULT), error);
    if (status == KVC_OK && list)
        status = add_folder(tokenizer, more.data, list, error);
    if (list)
        closedir(list);
    kvc_text_free(&path);
    kvc_text_free(&more);
    return status;
}

/* Returns true if a GGUF key holds a template. *name receives the template's name. */
static bool name_of_key(const char *key, const char **name) {
    const size_t bytes = strlen(GGUF_KEY);
    if (strncmp(key, GGUF_KEY, bytes) != 0 || (key[bytes] && key[bytes] != '.'))
        return false;
    *name = key[bytes] ? key + bytes + 1 : DEFAULT;
    return **name != '\0';
}

enum kvc_status kvc_templates_from_gguf(struct kvc_tokenizer *tokenizer, const struct kvc_gguf *file,
                                        struct kvc_error *error) {
    const char *key, *name, *text;
    enum kvc_gguf_type type;
    size_t bytes;
    enum kvc_status status = KVC_OK;
    for (size_t i = 0; status == KVC_OK && kvc_gguf_key(file, i, &key, &type); i++)
        if (name_of_key(key, &name) && kvc_gguf_string(file, key, &text, &bytes))
            status = templates_add(tokenizer, name, strlen(name), text, bytes, error);
    return status;
}

/* template.c - fills in a chat template's variables (messages, tools, documents, special tokens, the caller's own) and
 * renders it. */
#include "models/chat/template.h"

#include "core/base/assert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/files/json.h"
#include "models/tokenizer/parts.h"

bool kvc_chat_template(size_t i, const char **name, const char **summary) {
    size_t count = 0;
    while (kvc_named_templates[count].name && count < i)
        count++;
    *name = kvc_named_templates[count].name;
    *summary = kvc_named_templates[count].summary;
    return *name != NULL;
}

static const struct kvc_named_template *by_name(const char *name) {
    for (size_t i = 0; kvc_named_templates[i].name; i++)
        if (!strcmp(name, kvc_named_templates[i].name))
            return &kvc_named_templates[i];
    return NULL;
}

static enum kvc_status template_unknown(struct kvc_error *error, const char *what, const char *name) {
    struct kvc_nearest nearest = kvc_nearest(name, strlen(name));
    char known[300] = "", hint[KVC_NEAREST_HINT];
    size_t at = 0;
    for (size_t i = 0; kvc_named_templates[i].name; i++) {
        size_t bytes = strlen(kvc_named_templates[i].name);
        if (at + bytes + 3 > sizeof known)
            break;
        memcpy(known + at, kvc_named_templates[i].name, bytes);
        memcpy(known + at + bytes, ", ", 3);
        at += bytes + 2;
        KVC_ASSERT(at < sizeof known);
        kvc_nearest_try(&nearest, kvc_named_templates[i].name, bytes);
    }
    if (at)
        known[at - 2] = 0;
    return kvc_fail(error, KVC_USAGE, "%s%.40s; known templates: %s%s", what, name, known,
                    kvc_nearest_hint(&nearest, hint));
}

static enum kvc_status no_memory(struct kvc_error *error) {
    return kvc_fail(error, KVC_RESOURCE, "chat: no memory for the conversation");
}

/* Returns the text of a token for the template, or an empty text if the model's files say that there is no such token.
 * Without a tokenizer, returns `standard`. */
static json_t *token_text(const struct kvc_tokenizer *tokenizer, const char *name, int32_t token,
                          const char *standard) {
    json_t *named = tokenizer ? json_object_get(tokenizer->special_names, name) : NULL;
    if (named)
        return json_is_string(named) ? json_incref(named) : json_string_nocheck("");
    if (!tokenizer)
        return json_string_nocheck(standard);
    const struct kvc_vocab_entry *piece = token >= 0 ? &tokenizer->pieces[token] : NULL;
    KVC_ASSERT(token < 0 || (size_t)token < tokenizer->count);
    return piece ? json_stringn_nocheck(tokenizer->store.data + piece->spelling, piece->spelling_bytes)
                 : json_string_nocheck("");
}

/* Parses the text as a new JSON array (or object) into *value. Sets *value to NULL if there is no text. */
static enum kvc_status template_parse(const char *what, const char *text, bool object, json_t **value,
                                      struct kvc_error *error) {
    *value = NULL;
    if (!text)
        return KVC_OK;
    enum kvc_status status = kvc_json_parse(what, text, strlen(text), value, error);
    if (status == KVC_OK && (object ? !json_is_object(*value) : !json_is_array(*value))) {
        json_decref(*value);
        *value = NULL;
        status = kvc_fail(error, KVC_INPUT, "%s: the JSON must be %s", what, object ? "an object" : "an array");
    }
    return status;
}

/* Variables come from the user, so bad JSON in them is a usage error. */
static enum kvc_status parse_variables(const char *text, json_t **value, struct kvc_error *error) {
    struct kvc_error why = {0};
    enum kvc_status status = template_parse("variables", text, true, value, &why);
    return status == KVC_OK ? status : kvc_fail(error, status == KVC_INPUT ? KVC_USAGE : status, "%s", why.text);
}

/* Checks that each JSON message is an object with a role. Other members are left to the template. */
static enum kvc_status check_earlier(const json_t *earlier, struct kvc_error *error) {
    for (size_t i = 0; i < json_array_size(earlier); i++)
        if (!json_is_string(json_object_get(json_array_get(earlier, i), "role")))
            return kvc_fail(error, KVC_INPUT, "messages: message %zu is not an object with a \"role\"", i);
    return KVC_OK;
}

static enum kvc_status add_messages(json_t *list, const struct kvc_message *messages, size_t count,
                                    struct kvc_error *error) {
    for (size_t i = 0; i < count; i++) {
        if (!messages[i].role || !*messages[i].role || !messages[i].content)
            return kvc_fail(error, KVC_USAGE, "chat: message %zu has no role or no content", i);
        json_t *message = json_object();
        bool fits = message && json_array_append_new(list, message) == 0 &&
                    json_object_set_new(message, "role", json_string_nocheck(messages[i].role)) == 0 &&
                    json_object_set_new(message, "content", json_string_nocheck(messages[i].content)) == 0;
        if (!fits)
            return no_memory(error);
    }
    return json_array_size(list) ? KVC_OK : kvc_fail(error, KVC_USAGE, "chat: no messages; there must be at least one");
}

/* Adds the special tokens that the model's files name, such as pad_token. */
static bool add_special(const struct kvc_tokenizer *tokenizer, json_t *tokens) {
    const char *name;
    json_t *text;
    bool fits = true;
    json_object_foreach(tokenizer->special_names, name, text) {
        if (json_is_string(text))
            fits &= json_object_set_new_nocheck(tokens, name, json_incref(text)) == 0;
    }
    return fits;
}

static bool has_tools(const json_t *variables) {
    const json_t *tools = json_object_get(variables, "tools");
    return tools && !json_is_null(tools);
}

/* Collects the template's variables. `tokens` are variables from the model, and `all` are variables from the caller.
 * tools and documents are null if they are missing, as in transformers. */
static enum kvc_status template_fill(const struct kvc_tokenizer *tokenizer, const struct kvc_chat_options *options,
                                     const struct kvc_named_template *named, const struct kvc_message *messages,
                                     size_t count, json_t *tokens, json_t *all, struct kvc_error *error) {
    json_t *list = NULL, *tools = NULL, *documents = NULL, *more = NULL;
    enum kvc_status status = template_parse("messages", options->earlier, false, &list, error);
    if (status == KVC_OK && !list && !(list = json_array()))
        status = no_memory(error);
    if (status == KVC_OK)
        status = check_earlier(list, error);
    if (status == KVC_OK)
        status = add_messages(list, messages, count, error);
    if (status == KVC_OK)
        status = template_parse("tools", options->tools, false, &tools, error);
    if (status == KVC_OK)
        status = template_parse("documents", options->documents, false, &documents, error);
    if (status == KVC_OK)
        status = parse_variables(options->variables, &more, error);
    if (status == KVC_OK && named && (tools || documents))
        status = kvc_fail(error, KVC_USAGE, "chat template %s: it does not support tools or documents", named->name);
    if (status == KVC_OK) {
        json_t *bos = token_text(tokenizer, "bos_token", tokenizer ? tokenizer->bos : -1, named ? named->bos : "");
        json_t *eos = token_text(tokenizer, "eos_token", tokenizer ? tokenizer->eos : -1, named ? named->eos : "");
        bool fits = !tokenizer || add_special(tokenizer, tokens);
        fits &= json_object_set_new(all, "messages", json_incref(list)) == 0;
        fits &= json_object_set_new(all, "tools", tools ? json_incref(tools) : json_null()) == 0;
        fits &= json_object_set_new(all, "documents", documents ? json_incref(documents) : json_null()) == 0;
        fits &= json_object_set_new(all, "add_generation_prompt", json_boolean(options->answer)) == 0;
        fits &= json_object_set_new(tokens, "bos_token", bos) == 0;
        fits &= json_object_set_new(tokens, "eos_token", eos) == 0;
        fits &= !more || json_object_update(all, more) == 0;
        status = fits ? KVC_OK : no_memory(error);
    }
    json_decref(list);
    json_decref(tools);
    json_decref(documents);
    json_decref(more);
    return status;
}

/* The template that a conversation uses. */
struct choice {
    const struct kvc_named_template *named; /* built-in template; NULL: the model's own */
    const char *text;
    char where[64];
};

static enum kvc_status no_default(const struct kvc_tokenizer *tokenizer, struct kvc_error *error) {
    struct kvc_text names = {0};
    for (size_t i = 0; i < tokenizer->template_count; i++)
        if (!kvc_text_add(&names, i ? ", " : "", i ? 2 : 0) ||
            !kvc_text_add(&names, tokenizer->templates[i].name, strlen(tokenizer->templates[i].name)))
            break;
    const enum kvc_status status =
        kvc_fail(error, KVC_USAGE, "none of the model's chat templates is called default; name one of them: %.*s",
                 names.bytes > 300 ? 300 : (int)names.bytes, names.data ? names.data : "");
    kvc_text_free(&names);
    return status;
}

static enum kvc_status template_choose(const struct kvc_tokenizer *tokenizer, const struct kvc_chat_options *options,
                                       bool tools, struct choice *choice, struct kvc_error *error) {
    const char *name = options->template_name;
    const bool own = tokenizer && tokenizer->template_count;
    choice->named = name ? by_name(name) : NULL;
    snprintf(choice->where, sizeof choice->where, choice->named ? "chat template %s" : "the model's chat template",
             choice->named ? name : "");
    if (options->template_text)
        snprintf(choice->where, sizeof choice->where, "the given chat template");
    choice->text = options->template_text ? options->template_text
                   : choice->named        ? choice->named->text
                   : !own                 ? NULL
                   : name                 ? kvc_template_named(tokenizer, name)
                                          : kvc_template_for(tokenizer, tools);
    if (choice->text)
        return KVC_OK;
    if (name)
        return template_unknown(error, "no chat template is called ", name);
    return own ? no_default(tokenizer, error) : template_unknown(error, "the model has no chat template; name one", "");
}

bool kvc_chat_text_reads(const struct kvc_tokenizer *tokenizer, const struct kvc_chat_options *options,
                         const char *variable) {
    struct choice choice;
    struct kvc_error unwanted;
    json_t *more = NULL;
    bool tools = options->tools != NULL;
    if (!tools && parse_variables(options->variables, &more, &unwanted) == KVC_OK)
        tools = has_tools(more);
    json_decref(more);
    return template_choose(tokenizer, options, tools, &choice, &unwanted) != KVC_OK ||
           kvc_jinja_reads(choice.text, strlen(choice.text), variable);
}

enum kvc_status kvc_chat_render(const struct kvc_tokenizer *tokenizer, const struct kvc_chat_options *options,
                                const struct kvc_message *messages, size_t count, struct kvc_rendered *made,
                                struct kvc_error *error) {
    const char *name = options->template_name;
    const struct kvc_named_template *named = name ? by_name(name) : NULL;
    struct choice choice;
    if (name && options->template_text)
        return kvc_fail(error, KVC_USAGE, "chat: a template's name and a template's text; give one of the two");
    json_t *tokens = json_object(), *all = json_object();
    enum kvc_status status = tokens && all
                                 ? template_fill(tokenizer, options, named, messages, count, tokens, all, error)
                                 : no_memory(error);
    if (status == KVC_OK)
        status = template_choose(tokenizer, options, has_tools(all), &choice, error);
    if (status == KVC_OK) {
        const struct kvc_jinja_job job = {.where = choice.where,
                                          .source = choice.text,
                                          .bytes = strlen(choice.text),
                                          .own = tokens,
                                          .variables = all,
                                          .date = options->date};
        status = kvc_jinja_render(&job, made, error);
        if (status == KVC_OK && options->special_content)
            memset(made->marks, 0, made->bytes);
    }
    json_decref(tokens);
    json_decref(all);
    return status;
}

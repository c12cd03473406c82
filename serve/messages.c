/* messages.c - prepares the messages of a request for the chat template. */
#include <string.h>

#include "serve/serve.h"

static bool messages_refuse(struct serve_error *error, const char *what) {
    return serve_refuse(error, 400, SERVE_INVALID, "messages", NULL, "messages: %s", what);
}

static bool messages_lost(struct serve_error *error) {
    return serve_refuse(error, 500, "server_error", "", NULL, "the server has no memory for this request");
}

/* Returns the content of a message as one JSON string (new reference), or NULL if it is not text. */
static json_t *content_text(const json_t *content) {
    struct serve_text text = {0};
    json_t *part;
    size_t i;
    if (json_is_string(content) || json_is_null(content))
        return json_deep_copy(content);
    json_array_foreach(content, i, part) {
        const char *type = json_string_value(json_object_get(part, "type"));
        const bool good = type && (strcmp(type, "text") == 0 || strcmp(type, "refusal") == 0);
        /* the member that has a part's text is named like the part's type */
        const json_t *said = good ? json_object_get(part, type) : NULL;
        if (!json_is_string(said)) {
            serve_text_free(&text);
            return NULL;
        }
        serve_text_add(&text, json_string_value(said), json_string_length(said));
    }
    json_t *value =
        json_is_array(content) && !text.failed ? json_stringn(text.data ? text.data : "", text.bytes) : NULL;
    serve_text_free(&text);
    return value;
}

/* Templates may read any member of a message. So the server accepts unknown names, except those that look like
 * misspellings. With --strict, it refuses all unknown names. */
static bool check_member(const struct serve_request *request, const char *name, struct serve_error *error) {
    static const char *const known[] = {
        "role",        "content", "name",          "tool_calls", "tool_call_id",      "refusal",
        "annotations", "audio",   "function_call", "reasoning",  "reasoning_content", NULL};
    for (size_t i = 0; known[i]; i++)
        if (strcmp(name, known[i]) == 0)
            return true;
    const char *meant = serve_meant(name, known);
    char clean[60];
    kvc_printable(name, strlen(name), clean, sizeof clean);
    return (!meant && !request->serve->options->strict) ||
           serve_refuse(error, 400, SERVE_INVALID, "messages", NULL, "messages: %s: not a member of a message%s%s",
                        clean, meant ? "; did you mean " : "", meant ? meant : "");
}

/* Copies an earlier answer's thoughts to the members from which templates read them: reasoning_content or, for gpt-oss,
 * thinking. The template of gpt-oss refuses a message that has thinking, content and calls. */
static void share_thoughts(json_t *message) {
    json_t *thoughts = json_object_get(message, "reasoning_content");
    if (!json_is_string(thoughts))
        thoughts = json_object_get(message, "reasoning");
    if (!json_is_string(thoughts))
        return;
    (void)json_object_set(message, "reasoning_content", thoughts);
    if (!json_object_get(message, "thinking") && (json_array_size(json_object_get(message, "tool_calls")) == 0 ||
                                                  json_string_length(json_object_get(message, "content")) == 0))
        (void)json_object_set(message, "thinking", thoughts);
}

/* Returns a copy of a message with its content as one text (new reference), or NULL if the message is refused. */
static json_t *clean_message(const struct serve_request *request, json_t *message, bool texts,
                             struct serve_error *error) {
    json_t *content = json_object_get(message, "content"), *text = NULL, *value;
    const char *name;
    if (!json_is_string(json_object_get(message, "role"))) {
        (void)messages_refuse(error, "each must be an object with a role");
        return NULL;
    }
    json_object_foreach(message, name, value) if (!check_member(request, name, error)) return NULL;
    if (content && !(text = content_text(content))) {
        (void)messages_refuse(error, "content must be a text, or an array of {\"type\": \"text\", \"text\": ...}");
        return NULL;
    }
    if (texts && json_is_null(text)) {
        json_decref(text);
        text = json_string("");
    }
    json_t *copy = json_copy(message);
    if (!copy || (text && json_object_set_new(copy, "content", text) != 0) || !serve_tools_unwrap(copy)) {
        json_decref(copy);
        (void)messages_lost(error);
        return NULL;
    }
    share_thoughts(copy);
    return copy;
}

char *serve_messages_text(const struct serve_request *request, bool texts, struct serve_error *error) {
    const json_t *messages = request->values.messages;
    json_t *clean = json_array(), *message;
    size_t i;
    if (!json_is_array(messages) || json_array_size(messages) == 0) {
        (void)messages_refuse(error, "must be an array of at least one message");
        json_decref(clean);
        return NULL;
    }
    json_array_foreach(messages, i, message) {
        json_t *copy = clean_message(request, message, texts, error);
        if (!copy || json_array_append_new(clean, copy) != 0) {
            if (copy)
                (void)messages_lost(error);
            json_decref(clean);
            return NULL;
        }
    }
    char *text = json_dumps(clean, JSON_COMPACT);
    json_decref(clean);
    if (!text || cli_json_lost()) {
        (void)messages_lost(error);
        cli_json_free(text);
        return NULL;
    }
    return text;
}

/* chat_text.c - formats and tokenizes a conversation: all of the first turn, but only the new part of each later turn.
 * The session already holds everything up to the end of the last answer. So the whole conversation is formatted with a
 * mark in place of the last answer, and the new part is the text after the mark. This also works for templates that
 * trim or reorder text. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/cli.h"
#include "core/base/assert.h"
#include "kvcull/chat.h"

enum { MARK = 48 }; /* length of the mark in bytes */

struct cli_chat {
    const struct cli_command *command;
    struct kvc_model *model;
    struct kvc_chat_options options; /* its JSON texts and its date point to the members below */
    char *source, *earlier, *tools, *documents, today[20];
    bool implied;
    struct kvc_message *messages; /* the chat owns the contents, but not the roles */
    size_t count, capacity;
    bool begun; /* the session contains the first turn */
};

static int chat_text_add(struct cli_chat *chat, const char *role, const char *content) {
    char *copy = strdup(content);

    if (chat->count == chat->capacity) {
        size_t capacity = chat->capacity ? 2 * chat->capacity : 8;
        struct kvc_message *more = realloc(chat->messages, capacity * sizeof *more);

        if (!more) {
            free(copy);
            return cli_no_memory(chat->command);
        }
        chat->messages = more;
        chat->capacity = capacity;
    }
    if (!copy)
        return cli_no_memory(chat->command);
    chat->messages[chat->count++] = (struct kvc_message){role, copy};
    return KVC_OK;
}

const char *cli_own_template(const struct kvc_model *model) {
    const struct kvc_message greeting = {"user", "hello"};
    struct kvc_chat_options options;
    struct kvc_error error;
    char *text = NULL;
    bool known;

    if (!kvc_model_info(model)->has_chat_template)
        return NULL;
    kvc_chat_defaults(&options);
    options.date = "2025-01-01"; /* an arbitrary date */
    known = kvc_chat_text_with(model, &options, &greeting, 1, &text, &error) == KVC_OK;
    free(text);
    return known ? "--template model" : "--template NAME";
}

bool cli_template_given(const struct cli_template *from) {
    return from->name || from->file || from->system || from->messages || from->tools || from->documents ||
           from->variables || from->date || from->special_content;
}

static void set_today(struct cli_chat *chat) {
    time_t now = time(NULL);
    struct tm parts;

    if (localtime_r(&now, &parts) && strftime(chat->today, sizeof chat->today, "%Y-%m-%d %H:%M:%S", &parts) > 0)
        chat->options.date = chat->today;
}

/* Reports an unknown template before the user writes a message. A template that fails without a date gets today's date,
 * with a warning. */
static int try_template(struct cli_chat *chat) {
    const struct kvc_message greeting = {"user", "hello"};
    struct kvc_error error, again;
    char *text = NULL;
    enum kvc_status status = kvc_chat_text_with(chat->model, &chat->options, &greeting, 1, &text, &error);

    if (status == KVC_USAGE && !chat->options.date) {
        set_today(chat);
        if (kvc_chat_text_with(chat->model, &chat->options, &greeting, 1, &text, &again) == KVC_OK) {
            status = KVC_OK;
            cli_warn(chat->command, "the chat template needs a date and gets %.10s; --date sets another", chat->today);
        }
    }
    free(text);
    if (status != KVC_OK && chat->implied)
        return cli_error(chat->command, error.status, "%s; --raw continues the prompt without the template",
                         error.text);
    return status == KVC_OK ? KVC_OK : cli_report(chat->command, &error);
}

/* Warns once, for all turns, about inputs that the template does not read: the prompt does not contain them. */
static void warn_unread(const struct cli_chat *chat) {
    if (chat->options.tools && !kvc_chat_reads(chat->model, &chat->options, "tools"))
        cli_warn(chat->command, "the chat template reads no tools, so the model does not receive those of --tools");
    if (chat->options.documents && !kvc_chat_reads(chat->model, &chat->options, "documents"))
        cli_warn(chat->command,
                 "the chat template reads no documents, so the model does not receive those of --documents");
}

static int read_texts(struct cli_chat *chat, const struct cli_template *from) {
    const struct {
        const char *path;
        char **text;
    } files[] = {{from->file, &chat->source},
                 {from->messages, &chat->earlier},
                 {from->tools, &chat->tools},
                 {from->documents, &chat->documents}};
    size_t bytes;
    int status = KVC_OK;

    for (size_t i = 0; i < sizeof files / sizeof *files && status == KVC_OK; i++)
        if (files[i].path)
            status = cli_read_file(chat->command, files[i].path, files[i].text, &bytes);
    chat->options.template_text = chat->source;
    chat->options.earlier = chat->earlier;
    chat->options.tools = chat->tools;
    chat->options.documents = chat->documents;
    return status;
}

int cli_chat_open(const struct cli_command *command, struct kvc_model *model, const struct cli_template *from,
                  struct cli_chat **out) {
    struct cli_chat *chat = calloc(1, sizeof *chat);
    int status;

    *out = NULL;
    if (!chat)
        return cli_no_memory(command);
    chat->command = command;
    chat->model = model;
    chat->implied = from->implied;
    kvc_chat_defaults(&chat->options);
    chat->options.template_name = from->name && strcmp(from->name, "model") == 0 ? NULL : from->name;
    chat->options.variables = from->variables;
    chat->options.date = from->date;
    chat->options.special_content = from->special_content;
    if (from->date && strcmp(from->date, "today") == 0)
        set_today(chat);
    if (chat->options.template_name && from->file)
        status =
            cli_error(command, KVC_USAGE, "--template %s with --chat-template-file: give one of the two", from->name);
    else if (from->system && from->messages)
        status =
            cli_error(command, KVC_USAGE, "--system with --messages: write the system message into %s", from->messages);
    else
        status = read_texts(chat, from);
    if (status == KVC_OK)
        status = try_template(chat);
    if (status == KVC_OK)
        warn_unread(chat);
    if (status == KVC_OK && from->system)
        status = chat_text_add(chat, "system", from->system);
    if (status != KVC_OK) {
        cli_chat_close(chat);
        return status;
    }
    *out = chat;
    return KVC_OK;
}

void cli_chat_close(struct cli_chat *chat) {
    if (!chat)
        return;
    for (size_t i = 0; i < chat->count; i++)
        free((char *)(uintptr_t)chat->messages[i].content);
    free(chat->messages);
    free(chat->source);
    free(chat->earlier);
    free(chat->tools);
    free(chat->documents);
    free(chat);
}

/* Appends text [bytes] to `to`, which has room for three times as many bytes. U+FFFD replaces bytes of value 0, which
 * messages cannot contain. */
static void put_text(char *to, const char *text, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        if (text[i]) {
            *to++ = text[i];
        } else {
            memcpy(to, CLI_REPLACEMENT, 3);
            to += 3;
        }
    }
    *to = '\0';
}

int cli_chat_answer(struct cli_chat *chat, const struct cli_answer *answer) {
    const int status = chat_text_add(chat, "assistant", "");

    return status == KVC_OK ? cli_chat_extend(chat, answer) : status;
}

int cli_chat_extend(struct cli_chat *chat, const struct cli_answer *answer) {
    struct kvc_message *last = &chat->messages[chat->count - 1];
    const size_t held = strlen(last->content);
    char *longer = malloc(held + 3 * answer->bytes + 1);

    if (!longer)
        return cli_no_memory(chat->command);
    memcpy(longer, last->content, held);
    put_text(longer + held, answer->text, answer->bytes);
    free((char *)(uintptr_t)last->content);
    last->content = longer;
    return KVC_OK;
}

json_t *cli_chat_messages(const struct cli_chat *chat) {
    json_t *messages = json_array();

    for (size_t i = 0; messages && i < chat->count; i++) {
        const struct kvc_message *message = &chat->messages[i];
        json_t *one = json_object();

        cli_json_set(one, "role", json_string(message->role));
        cli_json_set(one, "content", cli_json_text(message->content, strlen(message->content)));
        if (json_array_append_new(messages, one) != 0) {
            json_decref(messages);
            return NULL;
        }
    }
    return messages;
}

int cli_chat_restore(struct cli_chat *chat, const json_t *messages, const char *path) {
    static const char *const roles[] = {"system", "user", "assistant"};
    int status = KVC_OK;

    for (size_t i = 0; i < json_array_size(messages) && status == KVC_OK; i++) {
        const json_t *one = json_array_get(messages, i), *content = json_object_get(one, "content");
        const char *said = json_string_value(json_object_get(one, "role")), *role = NULL;

        for (size_t r = 0; said && r < sizeof roles / sizeof *roles; r++)
            if (strcmp(said, roles[r]) == 0)
                role = roles[r];
        if (!role || !json_is_string(content))
            return cli_error(chat->command, KVC_INPUT,
                             "%s: message %zu: must have a text and the role system, user or assistant", path, i);
        status = chat_text_add(chat, role, json_string_value(content));
        chat->begun = true;
    }
    if (status == KVC_OK && !chat->begun)
        return cli_error(chat->command, KVC_INPUT, "%s: holds no conversation; it was saved without a chat template",
                         path);
    return status;
}

void cli_chat_clear(struct cli_chat *chat, bool keep_system) {
    const size_t kept = keep_system && chat->count > 0 && strcmp(chat->messages[0].role, "system") == 0;

    while (chat->count > kept)
        free((char *)(uintptr_t)chat->messages[--chat->count].content);
    if (!keep_system)
        chat->options.earlier = NULL;
    chat->begun = false;
}

bool cli_chat_begun(const struct cli_chat *chat) { return chat->begun; }

void cli_chat_drop(struct cli_chat *chat) {
    KVC_ASSERT(chat->count > 0);
    free((char *)(uintptr_t)chat->messages[--chat->count].content);
}

bool cli_chat_reread(struct cli_chat *chat) {
    const bool begun = chat->begun;

    chat->begun = false;
    return begun;
}

bool cli_chat_last(const struct cli_chat *chat, const struct kvc_message **user, const struct kvc_message **answer) {
    if (chat->count < 2 || strcmp(chat->messages[chat->count - 1].role, "assistant") != 0)
        return false;
    *user = &chat->messages[chat->count - 2];
    *answer = &chat->messages[chat->count - 1];
    return true;
}

/* Writes a mark that does not occur in the user's message. */
static void make_mark(const char *user, char mark[MARK]) {
    unsigned i = 0;

    do
        snprintf(mark, MARK, "@@last-answer-%u@@", i++);
    while (strstr(user, mark));
}

/* Formats the conversation with a mark in place of the last answer. *at is the offset of the text after the mark. */
static int later_text(struct cli_chat *chat, struct kvc_rendered *made, size_t *at) {
    struct kvc_message *last = &chat->messages[chat->count - 2];
    struct kvc_message answer = *last;
    struct kvc_error error;
    const char *place = NULL;
    char mark[MARK];
    enum kvc_status status;

    make_mark(chat->messages[chat->count - 1].content, mark);
    last->content = mark;
    status = kvc_chat_rendered(chat->model, &chat->options, chat->messages, chat->count, made, &error);
    *last = answer;
    if (status != KVC_OK)
        return cli_report(chat->command, &error);
    for (const char *found = made->text; (found = strstr(found, mark)) != NULL; found++)
        place = found;
    if (!place) {
        free(made->text);
        return cli_error(chat->command, KVC_INPUT,
                         "the chat template leaves out earlier answers; name another "
                         "with --template");
    }
    *at = (size_t)(place - made->text) + strlen(mark);
    return KVC_OK;
}

int cli_chat_turn(struct cli_chat *chat, const char *user, int32_t **tokens, size_t *count) {
    struct kvc_error error;
    struct kvc_rendered made;
    size_t at = 0;
    int status = chat_text_add(chat, "user", user);

    *tokens = NULL;
    *count = 0;
    if (status != KVC_OK)
        return status;
    if (!chat->begun) {
        if (kvc_chat_tokens(chat->model, &chat->options, chat->messages, chat->count, tokens, count, &error) != KVC_OK)
            return cli_report(chat->command, &error);
    } else {
        status = later_text(chat, &made, &at);
        if (status != KVC_OK)
            return status;
        if (kvc_tokenize_marked(chat->model, made.text + at, made.marks + at, made.bytes - at, KVC_TOKENIZE_SPECIAL,
                                tokens, count, &error) != KVC_OK)
            status = cli_report(chat->command, &error);
        free(made.text);
    }
    if (status == KVC_OK && *count == 0) {
        free(*tokens);
        *tokens = NULL;
        status = cli_error(chat->command, KVC_INPUT,
                           "the chat template makes no tokens of this turn; name another "
                           "with --template");
    }
    if (status == KVC_OK)
        chat->begun = true;
    return status;
}

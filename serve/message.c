/* message.c - the message of a chat's answer: content, reasoning_content and tool_calls. Written as a whole, or as the
 * deltas of a stream. */
#include <string.h>

#include "serve/serve.h"

static void put_part(struct serve_text *text, const struct reader_part *part, size_t from) {
    serve_text_string(text, part->text.data ? part->text.data + from : "", part->text.bytes - from);
}

/* Writes the members of a call that come before its arguments. */
static void put_call(struct serve_text *text, const struct serve_choice *choice, size_t i) {
    const char *name = choice->reader.calls[i].name;
    serve_text_print(text, "\"id\":\"call_%llu_%u_%zu\",\"type\":\"function\",\"function\":{\"name\":",
                     (unsigned long long)choice->request->id, choice->index, i);
    serve_text_string(text, name, strlen(name));
    serve_text_put(text, ",\"arguments\":");
}

static void put_arguments(struct serve_text *text, const struct serve_call *call, size_t from) {
    serve_text_string(text, call->arguments.data ? call->arguments.data + from : "", call->arguments.bytes - from);
    serve_text_put(text, "}}");
}

void serve_message_put(struct serve_text *text, const struct serve_choice *choice) {
    const struct serve_reader *reader = &choice->reader;
    serve_text_put(text, "{\"role\":\"assistant\",\"content\":");
    if (reader->call_count > 0 && reader->content.text.bytes == 0)
        serve_text_put(text, "null");
    else
        put_part(text, &reader->content, 0);
    if (reader->reasoning.text.bytes > 0) {
        serve_text_put(text, ",\"reasoning_content\":");
        put_part(text, &reader->reasoning, 0);
    }
    for (size_t i = 0; i < reader->call_count; i++) {
        serve_text_put(text, i ? ",{" : ",\"tool_calls\":[{");
        put_call(text, choice, i);
        put_arguments(text, &reader->calls[i], 0);
    }
    serve_text_put(text, reader->call_count > 0 ? "],\"refusal\":null}" : ",\"refusal\":null}");
    text->failed = text->failed || reader->failed;
}

/* Returns the first call that has not been sent completely, or NULL. */
static struct serve_call *next_call(const struct serve_choice *choice) {
    for (size_t i = 0; i < choice->reader.call_count; i++)
        if (!choice->reader.calls[i].told || choice->reader.calls[i].sent < choice->reader.calls[i].arguments.bytes)
            return &choice->reader.calls[i];
    return NULL;
}

bool serve_message_news(const struct serve_choice *choice) {
    const struct serve_reader *reader = &choice->reader;
    return reader->failed || reader->reasoning.sent < reader->reasoning.text.bytes ||
           reader->content.sent < reader->content.text.bytes || next_call(choice);
}

void serve_message_delta(struct serve_text *text, struct serve_choice *choice) {
    struct serve_reader *reader = &choice->reader;
    struct serve_call *call = next_call(choice);
    const bool thinks = reader->reasoning.sent < reader->reasoning.text.bytes;
    const bool says = !thinks && (reader->content.sent < reader->content.text.bytes || (!call && !choice->said));
    const char *comma = choice->said ? "" : ",";
    serve_text_put(text, choice->said ? "\"delta\":{" : "\"delta\":{\"role\":\"assistant\"");
    if (!choice->said && !says)
        serve_text_put(text, ",\"content\":null");
    if (thinks) {
        serve_text_print(text, "%s\"reasoning_content\":", comma);
        put_part(text, &reader->reasoning, reader->reasoning.sent);
        reader->reasoning.sent = reader->reasoning.text.bytes;
    } else if (says) {
        serve_text_print(text, "%s\"content\":", comma);
        put_part(text, &reader->content, reader->content.sent);
        reader->content.sent = reader->content.text.bytes;
    } else if (call) {
        const size_t i = (size_t)(call - reader->calls);
        serve_text_print(text, "%s\"tool_calls\":[{\"index\":%zu,", comma, i);
        if (call->told) {
            serve_text_put(text, "\"function\":{\"arguments\":");
            put_arguments(text, call, call->sent);
            call->sent = call->arguments.bytes;
        } else {
            put_call(text, choice, i);
            serve_text_put(text, "\"\"}}");
            call->told = true;
        }
        serve_text_put(text, "]");
    }
    serve_text_put(text, "}");
    text->failed = text->failed || reader->failed;
}

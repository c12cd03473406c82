/* reader.c - finds the parts of an answer: thoughts, content, calls, and the messages of gpt-oss. */
#include "serve/reader.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/assert.h"

#define MESSAGE "<|message|>"
#define CHANNEL "<|channel|>"
#define FUNCTIONS "to=functions."
#define HEADER_MOST 400u /* largest size of a message's header in bytes */

const struct reader_mark reader_marks[] = {
    {READER_THINKS, "<think>", "</think>", false}, /* Qwen, DeepSeek, Granite 3.3 and many others */
    {READER_THOUGHT, "</think>", NULL, false},
    {READER_THINKS, "<|START_THINKING|>", "<|END_THINKING|>", false}, /* Command-A and Command-R7B */
    {READER_THOUGHT, "<|END_THINKING|>", NULL, false},
    {READER_THINKS, "[THINK]", "[/THINK]", false}, /* Mistral */
    {READER_THOUGHT, "[/THINK]", NULL, false},
    {READER_THINKS, "<seed:think>", "</seed:think>", false}, /* Seed-OSS */
    {READER_THOUGHT, "</seed:think>", NULL, false},
    {READER_THINKS, "Here is my thought process:", "Here is my response:", true}, /* Granite 3.2 */
    {READER_THOUGHT, "Here is my response:", NULL, true},
    {READER_CALLS, "<tool_call>", NULL, false}, /* Hermes, Qwen, Granite 4 */
    {READER_CALLED, "</tool_call>", NULL, false},
    {READER_CALLS, "[TOOL_CALLS]", NULL, false}, /* Mistral; its newer models also write the next two */
    {READER_CALLED, "[CALL_ID]", NULL, false},
    {READER_CALLED, "[ARGS]", NULL, false},
    {READER_CALLS, "<|tool_call|>", NULL, false}, /* Granite 3, Phi-4 */
    {READER_CALLED, "<|/tool_call|>", NULL, false},
    {READER_CALLS, "<|python_tag|>", NULL, false},   /* Llama 3 */
    {READER_CALLS, "<|START_ACTION|>", NULL, false}, /* Command-A and Command-R7B */
    {READER_CALLED, "<|END_ACTION|>", NULL, false},
    {READER_CALLS, "Action: ```json", NULL, false}, /* Command-R */
    {READER_CALLS, "Action:```json", NULL, false},
    {READER_CALLED, "```", NULL, false},
    {READER_FRAME, "<|START_RESPONSE|>", NULL, false},
    {READER_FRAME, "<|END_RESPONSE|>", NULL, false},
    {READER_FRAME, "<|START_TEXT|>", NULL, false},
    {READER_FRAME, "<|END_TEXT|>", NULL, false},
    {READER_FRAME, "<response>", NULL, false}, /* Granite 3.3, after thoughts */
    {READER_FRAME, "</response>", NULL, false},
    {READER_CHANNEL, "<|start|>", NULL, false}, /* gpt-oss */
    {READER_CHANNEL, CHANNEL, NULL, false},
    {READER_CHANNEL, MESSAGE, NULL, false},
    {READER_CHANNEL, "<|constrain|>", NULL, false},
    {READER_CHANNEL, "<|end|>", NULL, false},
    {READER_CHANNEL, "<|call|>", NULL, false},
    {READER_CHANNEL, "<|return|>", NULL, false},
    {0, NULL, NULL, false}};

/* ---- parts ---- */

static void part_put(struct reader_part *part, char c) {
    if (reader_blank(c)) {
        serve_text_add(&part->blanks, &c, 1);
        return;
    }
    if (part->blanks.bytes > 0)
        serve_text_add(&part->text, part->blanks.data, part->blanks.bytes);
    reader_clear(&part->blanks);
    serve_text_add(&part->text, &c, 1);
}

void reader_content(struct serve_reader *reader, char c) { part_put(&reader->content, c); }

/* Drops the blanks at the beginning of a part. Between two pieces of a part, puts an empty line. */
static void begin_piece(struct reader_part *part) {
    reader_clear(&part->blanks);
    if (part->text.bytes > 0)
        serve_text_put(&part->blanks, "\n\n");
}

/* Appends a byte of a call's arguments, which are the text of a message of gpt-oss. */
static void argument_put(struct serve_reader *reader, char c) {
    const bool muted = reader->call.muted;
    bool before;
    if (reader_blank(c) && !muted && reader->calls[reader->call_count - 1].arguments.bytes == 0)
        return;
    reader_arguments(reader, &c, 1);
    (void)reader_value_put(&reader->call.value, c, &before);
}

/* Appends a byte to the current part of the answer. */
static void give(struct serve_reader *reader, char c) {
    const bool first = reader->reasoning.text.bytes == 0;
    if (reader->state == READER_IN_ARGUMENTS)
        argument_put(reader, c);
    else if (reader->state != READER_IN_THOUGHTS)
        reader_content(reader, c);
    else if (!first || !reader_blank(c))
        part_put(&reader->reasoning, c);
}

void reader_release(struct serve_reader *reader) {
    for (size_t i = 0; i < reader->held.bytes; i++)
        reader_content(reader, reader->held.data[i]);
    reader_clear(&reader->held);
}

/* ---- marks ---- */

/* Returns true if the mark has a meaning in the reader's state. */
static bool is_wanted(const struct serve_reader *reader, const struct reader_mark *mark) {
    if (mark->wordy && !reader->wordy)
        return false;
    if (reader->channels)
        return mark->kind == READER_CHANNEL;
    switch (reader->state) {
    case READER_IN_THOUGHTS:
        return mark->kind == READER_THOUGHT && strcmp(mark->text, reader->mark->close) == 0;
    case READER_BEGIN:
        if (mark->kind == READER_THINKS)
            return reader->thoughts && !reader->thought;
        break;
    case READER_AFTER_CALL:
        if (mark->kind == READER_CALLED) /* the end of a code block counts only if one has begun */
            return mark->text[0] != '`' || (reader->mark && reader->mark->text[0] == 'A');
        break;
    default:
        break;
    }
    if (mark->kind == READER_FRAME) /* <response> counts only directly after thoughts */
        return reader->thoughts && (mark->text[1] == '|'   ? true
                                    : mark->text[1] == '/' ? reader->framed
                                                           : reader->thought && reader->state == READER_BEGIN);
    return mark->kind == READER_CALLS && reader->functions;
}

enum match { MATCH_NONE, MATCH_PART, MATCH_WHOLE };

/* Compares the held bytes with the marks that have a meaning now. */
static enum match match_held(const struct serve_reader *reader, const struct reader_mark **found) {
    const struct serve_text *held = &reader->held;
    for (const struct reader_mark *mark = reader_marks; mark->text; mark++)
        if (strncmp(mark->text, held->data, held->bytes) == 0 && is_wanted(reader, mark)) {
            *found = mark;
            return mark->text[held->bytes] ? MATCH_PART : MATCH_WHOLE;
        }
    return MATCH_NONE;
}

bool serve_reader_wants(const struct serve_reader *reader, const char *name) {
    for (const struct reader_mark *mark = reader_marks; mark->text; mark++)
        if (strcmp(mark->text, name) == 0)
            return mark->kind == READER_CHANNEL                                ? reader->channels
                   : mark->kind == READER_CALLS || mark->kind == READER_CALLED ? reader->functions && !reader->channels
                                                                               : reader->thoughts && !reader->channels;
    return false;
}

const struct reader_mark *serve_reader_opened(const char *prompt, size_t bytes) {
    while (bytes > 0 && reader_blank(prompt[bytes - 1]))
        bytes--;
    for (const struct reader_mark *mark = reader_marks; mark->text; mark++) {
        const size_t length = strlen(mark->text);
        if (mark->kind == READER_THINKS && !mark->wordy && bytes >= length &&
            memcmp(prompt + bytes - length, mark->text, length) == 0)
            return mark;
    }
    return NULL;
}

/* ---- messages of gpt-oss: <|channel|>NAME to=RECIPIENT<|message|>TEXT<|end|> ---- */

static void begin_header(struct serve_reader *reader, const char *held) {
    reader->state = READER_IN_HEADER;
    reader->hidden = true;
    reader_clear(&reader->held);
    serve_text_put(&reader->held, held);
}

/* Reads the held header of a message. */
static void end_header(struct serve_reader *reader) {
    const char *channel = strstr(reader->held.data, CHANNEL), *to = strstr(reader->held.data, FUNCTIONS), *name = NULL;
    const bool analysis = channel && strncmp(channel + strlen(CHANNEL), "analysis", 8) == 0;
    if (to && reader->functions) {
        char word[256];
        const size_t bytes = strcspn(to += strlen(FUNCTIONS), " <\t\r\n");
        if (bytes < sizeof word) {
            memcpy(word, to, bytes);
            word[bytes] = '\0';
            name = reader_function(reader, word);
        }
    }
    if (name) {
        reader->state = READER_IN_ARGUMENTS;
        reader->call.value = (struct reader_value){0};
        reader_call_begin(reader, name);
        return;
    }
    reader->hidden = !strstr(reader->held.data, "to=") && (!analysis || reader->thoughts);
    reader->state = analysis && reader->hidden ? READER_IN_THOUGHTS : READER_IN_CONTENT;
    begin_piece(reader->state == READER_IN_THOUGHTS ? &reader->reasoning : &reader->content);
    if (reader->hidden)
        reader_clear(&reader->held);
    else
        reader_release(reader);
}

/* Returns true if the bytes can be the beginning of a message's header. */
static bool is_header(const struct serve_text *held) {
    static const char *const begins[] = {"<|start|>", CHANNEL, MESSAGE, "<|constrain|>", "to=", "assistant"};
    const size_t blanks = strspn(held->data, " \t\r\n"), bytes = held->bytes - blanks;
    bool good = bytes == 0;
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
        const size_t length = strlen(begins[i]);
        good = good || memcmp(held->data + blanks, begins[i], bytes < length ? bytes : length) == 0;
    }
    return good && held->bytes < HEADER_MOST;
}

static void header_put(struct serve_reader *reader, char c) {
    struct serve_text *held = &reader->held;
    const size_t length = strlen(MESSAGE);
    if (!serve_text_add(held, &c, 1))
        return;
    if (held->bytes >= length && memcmp(held->data + held->bytes - length, MESSAGE, length) == 0) {
        end_header(reader);
    } else if (!c || !is_header(held)) {
        reader_release(reader);
        reader->state = READER_IN_CONTENT;
    }
}

/* Ends the arguments that are the text of a message of gpt-oss. */
static void end_arguments(struct serve_reader *reader) {
    if (reader->state != READER_IN_ARGUMENTS || reader->call.muted)
        return;
    reader->call.over = reader->call.value.depth == 0 && !reader->call.value.quoted;
    if (reader->calls[reader->call_count - 1].arguments.bytes == 0)
        reader_arguments(reader, "{}", 2);
}

static void channel_mark(struct serve_reader *reader, const struct reader_mark *mark) {
    end_arguments(reader);
    if (!reader->hidden)
        for (const char *c = mark->text; *c; c++)
            reader_content(reader, *c);
    begin_header(reader, strcmp(mark->text, "<|start|>") == 0 || strcmp(mark->text, CHANNEL) == 0 ? mark->text : "");
}

/* ---- bytes ---- */

static void on_mark(struct serve_reader *reader, const struct reader_mark *mark) {
    switch (mark->kind) {
    case READER_THINKS:
        reader->state = READER_IN_THOUGHTS;
        reader->mark = mark;
        break;
    case READER_THOUGHT:
        reader->state = READER_BEGIN;
        reader->thought = true;
        begin_piece(&reader->content);
        break;
    case READER_CALLS:
        reader->mark = mark;
        reader_call_open(reader, false);
        return; /* the mark is held until a call has begun */
    case READER_CALLED:
        break;
    case READER_FRAME:
        reader->framed = true;
        reader_clear(&reader->content.blanks);
        break;
    case READER_CHANNEL:
        channel_mark(reader, mark);
        return;
    }
    reader_clear(&reader->held);
}

/* Leaves the state READER_BEGIN or READER_AFTER_CALL, in which only blanks have come. The held bytes are the beginning
 * of JSON, or content. */
static void leave_blanks(struct serve_reader *reader) {
    char held[64];
    const size_t bytes = reader->held.bytes;
    const bool json = reader->held.data[0] == '{' || reader->held.data[0] == '[';
    const bool may = reader->functions && (reader->state == READER_BEGIN || reader->call.bare);
    KVC_ASSERT(bytes <= sizeof held);
    memcpy(held, reader->held.data, bytes);
    reader_clear(&reader->held);
    if (json && may) {
        reader->mark = NULL;
        reader_call_open(reader, true);
    } else
        reader->state = READER_IN_CONTENT;
    for (size_t i = 0; i < bytes; i++)
        reader_put(reader, held[i]);
}

/* Reads a byte in a state in which marks can come. Passes on bytes that belong to no mark. */
static void scan(struct serve_reader *reader, char c) {
    struct serve_text *held = &reader->held;
    const struct reader_mark *mark = NULL;
    const bool blanks = reader->state == READER_BEGIN || reader->state == READER_AFTER_CALL;
    const bool between = reader->state == READER_AFTER_CALL && reader->call.bare && c == ';';
    if (held->bytes == 0 && blanks && (reader_blank(c) || between)) {
        if (reader->content.text.bytes > 0 || (!reader->thought && reader->call_count == 0))
            serve_text_add(&reader->content.blanks, &c, 1);
        return;
    }
    if (held->bytes == 0 && reader->state == READER_IN_ARGUMENTS && (reader->call.value.quoted || c != '<')) {
        argument_put(reader, c); /* a mark within a string has no effect */
        return;
    }
    if (!serve_text_add(held, &c, 1))
        return;
    while (held->bytes > 0) {
        const enum match match = match_held(reader, &mark);
        if (match == MATCH_WHOLE)
            on_mark(reader, mark);
        else if (match == MATCH_NONE && blanks)
            leave_blanks(reader);
        if (match != MATCH_NONE || blanks)
            return;
        const char first = held->data[0];
        memmove(held->data, held->data + 1, held->bytes--); /* this moves the NUL, too */
        give(reader, first);
    }
}

void reader_put(struct serve_reader *reader, char c) {
    if (reader->state == READER_IN_HEADER) {
        header_put(reader, c);
    } else if (reader->state != READER_IN_CALL) {
        scan(reader, c);
    } else if (!reader_call_put(reader, c)) {
        reader_release(reader);
        reader->state = reader->call.begun ? READER_AFTER_CALL : READER_IN_CONTENT;
        reader->call.begun = false;
        reader_put(reader, c);
    } else if (!reader->call.begun && reader->state == READER_IN_CALL && !reader_call_between(reader)) {
        serve_text_add(&reader->held, &c, 1);
    }
}

static bool has_failed(const struct serve_reader *reader) {
    bool failed = reader->failed || reader->held.failed || reader->call.word.failed || reader->call.early.failed;
    for (size_t i = 0; i < reader->call_count; i++)
        failed = failed || reader->calls[i].arguments.failed;
    return failed || reader->content.text.failed || reader->content.blanks.failed || reader->reasoning.text.failed ||
           reader->reasoning.blanks.failed;
}

void serve_reader_read(struct serve_reader *reader, const char *text, size_t bytes) {
    if (reader->channels && reader->state == READER_BEGIN)
        begin_header(reader, "");
    for (size_t i = 0; i < bytes && !reader->failed; i++)
        reader_put(reader, text[i]);
    reader->failed = has_failed(reader);
}

bool serve_reader_end(struct serve_reader *reader, bool cut) {
    struct serve_text *held = &reader->held;
    struct reader_part *content = &reader->content;
    if (reader->failed)
        return false;
    if (reader->state == READER_IN_HEADER && held->bytes > 0 && strchr(held->data, '<'))
        reader_clear(held); /* the held bytes are a header without a message */
    if (reader->state == READER_IN_ARGUMENTS && reader->call.value.depth == 0 && !reader->call.value.quoted)
        reader_clear(held); /* the held bytes are the beginning of a mark */
    const bool calls = reader->state == READER_IN_CALL || reader->state == READER_AFTER_CALL;
    if (cut && calls && reader->call_count > 0)
        reader_clear(held); /* the held bytes are a further call that has no name yet */
    if (reader->state == READER_IN_CALL || reader->state == READER_IN_HEADER)
        reader_release(reader);
    for (size_t i = 0; i < held->bytes; i++)
        give(reader, held->data[i]);
    reader_clear(held);
    if (!cut)
        end_arguments(reader);
    const bool alone = content->text.bytes > 0 || (!reader->mark && !reader->channels);
    if (reader->call_count == 0 && alone && content->blanks.bytes > 0) /* blanks at the end of content are content */
        serve_text_add(&content->text, content->blanks.data, content->blanks.bytes);
    reader->failed = has_failed(reader);
    return !cut && reader->call_count > 0 && reader->call.over;
}

void serve_reader_free(struct serve_reader *reader) {
    for (size_t i = 0; i < reader->call_count; i++)
        serve_text_free(&reader->calls[i].arguments);
    free(reader->calls);
    serve_text_free(&reader->content.text);
    serve_text_free(&reader->content.blanks);
    serve_text_free(&reader->reasoning.text);
    serve_text_free(&reader->reasoning.blanks);
    serve_text_free(&reader->held);
    serve_text_free(&reader->call.word);
    serve_text_free(&reader->call.early);
    *reader = (struct serve_reader){0};
}

/* essays.c - reads the text in which needles are hidden: plain text, or RULER's JSON with a member "text". */
#include "eval/needle_text.h"
#include "eval/task.h"

#include <stdlib.h>
#include <string.h>

static bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* Replaces each run of whitespace by one space, in place. Returns the new length. */
static size_t squeeze(char *text, size_t bytes) {
    size_t at = 0;
    for (size_t i = 0; i < bytes; i++) {
        const bool blank = is_blank(text[i]) || text[i] == '\0';
        if (!blank)
            text[at++] = text[i];
        else if (at > 0 && text[at - 1] != ' ')
            text[at++] = ' ';
    }
    if (at > 0 && text[at - 1] == ' ')
        at--;
    text[at] = '\0';
    return at;
}

static enum kvc_status split(const char *path, char *text, size_t bytes, struct eval_essays *essays,
                             struct kvc_error *error) {
    size_t count = 0, start = 0;
    for (size_t i = 0, n; i < bytes; i += n) {
        n = cli_character(text + i, bytes - i);
        if (n == 0)
            return kvc_fail(error, KVC_INPUT, "--essays %s: byte %zu: not UTF-8; the file must be a text in UTF-8",
                            path, i);
    }
    bytes = squeeze(text, bytes);
    for (size_t i = 0; i < bytes; i++)
        count += text[i] == ' ';
    if (bytes == 0)
        return kvc_fail(error, KVC_INPUT, "--essays %s: the file is empty", path);
    essays->words = malloc((count + 1) * sizeof *essays->words);
    if (!essays->words)
        return kvc_fail(error, KVC_RESOURCE, "no memory left");
    for (size_t i = 0; i <= bytes; i++) {
        if (i < bytes && text[i] != ' ')
            continue;
        essays->words[essays->count++] = (struct eval_span){start, i - start};
        start = i + 1;
    }
    return KVC_OK;
}

enum kvc_status eval_essays_read(const char *path, const char *text, size_t bytes, struct eval_essays *essays,
                                 struct kvc_error *error) {
    size_t first = 0;
    while (first < bytes && is_blank(text[first]))
        first++;
    *essays = (struct eval_essays){0};
    if (first < bytes && text[first] == '{') {
        json_error_t where;
        json_t *document = json_loadb(text, bytes, 0, &where);
        json_t *member = json_object_get(document, "text");
        if (json_is_string(member) && !cli_json_lost()) {
            bytes = json_string_length(member);
            essays->text = malloc(bytes + 1);
            if (essays->text)
                memcpy(essays->text, json_string_value(member), bytes);
        } else if (!cli_json_lost()) {
            kvc_fail(error, KVC_INPUT, "--essays %s: begins like JSON, but is not an object with a member \"text\"",
                     path);
            json_decref(document);
            return KVC_INPUT;
        }
        json_decref(document);
    } else {
        essays->text = malloc(bytes + 1);
        if (essays->text)
            memcpy(essays->text, text, bytes);
    }
    if (!essays->text)
        return kvc_fail(error, KVC_RESOURCE, "no memory left");
    return split(path, essays->text, bytes, essays, error);
}

static void free_questions(struct eval_questions *questions) {
    for (size_t i = 0; i < questions->count; i++) {
        free(questions->questions[i].answers);
        free(questions->questions[i].documents);
    }
    for (size_t i = 0; i < questions->made_count; i++)
        free(questions->made[i]);
    free(questions->questions);
    free(questions->made);
    free(questions->documents);
    json_decref(questions->document);
}

void eval_data_free(struct eval_data *data) {
    free(data->essays.text);
    free(data->essays.words);
    free(data->text);
    if (data->words)
        needle_words_close(data->words);
    free(data->words);
    for (int file = 0; file < EVAL_FILES; file++)
        free_questions(&data->questions[file]);
    *data = (struct eval_data){0};
}

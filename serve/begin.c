/* begin.c - how a chat's answer begins: what the end of the prompt says about it, and what the server adds to it. */
#include <stdlib.h>
#include <string.h>

#include "serve/serve.h"

#define FINAL "<|channel|>final<|message|>"

enum { TAIL = 32 }; /* number of tokens at the end of a prompt that show how the answer begins */

static bool begin_lost(struct serve_error *error) {
    return serve_refuse(error, 500, "server_error", "", NULL, "the server has no memory for this request");
}

/* Appends the tokens of a text to the prompt. */
static bool append(struct serve_request *request, const char *text, struct serve_error *error) {
    struct serve_tokens *prompt = &request->prompts[0];
    int32_t *tokens, *grown;
    size_t count;
    struct kvc_error cause;
    if (kvc_tokenize(request->serve->model, text, strlen(text), KVC_TOKENIZE_SPECIAL, &tokens, &count, &cause) !=
        KVC_OK)
        return begin_lost(error);
    grown = realloc(prompt->items, (prompt->count + count) * sizeof *grown);
    if (grown) {
        memcpy(grown + prompt->count, tokens, count * sizeof *tokens);
        prompt->items = grown;
        prompt->count += count;
    }
    free(tokens);
    return grown || begin_lost(error);
}

/* Reads reasoning_format: whether thoughts are separated from the content. Returns false if it is invalid. */
static bool read_format(struct serve_request *request, struct serve_error *error) {
    const char *format = request->values.reasoning_format;
    request->thoughts = !format || strcmp(format, "none") != 0;
    return !format || !request->thoughts || strcmp(format, "auto") == 0 || strcmp(format, "deepseek") == 0 ||
           serve_refuse(error, 400, SERVE_INVALID, "reasoning_format", NULL,
                        "reasoning_format: must be auto, deepseek or none");
}

bool serve_begin(struct serve_request *request, const struct kvc_chat_options *options, const json_t *variables,
                 struct serve_error *error) {
    const struct serve_tokens *prompt = &request->prompts[0];
    const size_t tail = cli_min(prompt->count, TAIL);
    static const char start[] = "<|start|>assistant";
    char *text = NULL, closing[64];
    size_t bytes;
    struct kvc_error cause;
    if (!read_format(request, error))
        return false;
    if (kvc_detokenize(request->serve->model, prompt->items + prompt->count - tail, tail, true, &text, &bytes,
                       &cause) != KVC_OK)
        return begin_lost(error);
    const size_t length = strlen(start);
    const struct reader_mark *mark = serve_reader_opened(text, bytes);
    while (bytes > 0 && reader_blank(text[bytes - 1]))
        bytes--;
    request->channels = bytes >= length && memcmp(text + bytes - length, start, length) == 0;
    request->wordy = json_is_true(json_object_get(variables, "thinking"));
    free(text);
    if (request->forced && !serve_force(request, options, error))
        return false;
    if (request->grammar && mark) { /* the grammar leaves no room for thoughts */
        snprintf(closing, sizeof closing, "\n%s\n\n", mark->close);
        return append(request, closing, error);
    }
    if (request->grammar && request->channels && !request->forced) {
        request->opening = FINAL;
        return append(request, FINAL, error);
    }
    request->opening = mark && request->thoughts ? mark->text : "";
    return true;
}

void serve_begin_reader(struct serve_choice *choice) {
    const struct serve_request *request = choice->request;
    choice->reader = (struct serve_reader){.functions = request->functions,
                                           .channels = request->channels,
                                           .thoughts = request->thoughts,
                                           .wordy = request->wordy,
                                           .single = !request->values.parallel_tool_calls};
    if (request->opening)
        serve_reader_read(&choice->reader, request->opening, strlen(request->opening));
}

/* progress.c - puts events into a stream's unread output, and reports how much of a prompt is computed
 * (return_progress). */
#include <string.h>

#include "serve/loop.h"

bool serve_put(struct serve_loop *loop, struct serve_request *request, const struct serve_text *chunk) {
    struct serve *serve = loop->serve;
    struct serve_text *out = &request->out;
    pthread_mutex_lock(&serve->lock);
    if (request->out_taken > out->bytes / 2) {
        memmove(out->data, out->data + request->out_taken, out->bytes - request->out_taken);
        out->bytes -= request->out_taken;
        request->out_taken = 0;
    }
    const uint64_t capacity = serve_text_capacity(out, chunk->bytes), left = out->bytes - request->out_taken;
    const uint64_t more = capacity > request->buffered ? capacity - request->buffered : 0;
    pthread_mutex_unlock(&serve->lock);
    if (chunk->failed || left + chunk->bytes > SERVE_OUT_MOST || (more > 0 && !serve_buffer(loop, request, more)))
        return false;
    pthread_mutex_lock(&serve->lock);
    const bool good = serve_text_add(out, chunk->data, chunk->bytes);
    if (out->capacity > request->buffered) { /* serve_buffer_shrink ran before the lock was taken again */
        serve->buffered += out->capacity - request->buffered;
        request->buffered = out->capacity;
    }
    pthread_mutex_unlock(&serve->lock);
    return good;
}

/* Returns how many tokens of the prompt are computed when `done` of `total` units of a piece's work are done. */
static size_t processed(const struct serve_choice *choice, size_t piece, uint64_t done, uint64_t total) {
    const double part = total > 0 ? (double)cli_min(done, total) / (double)total : 1;
    return cli_min(choice->seen + (size_t)((double)piece * part), choice->prompt->count);
}

void serve_progress(struct serve_loop *loop, struct serve_choice *choice, size_t piece, uint64_t done, uint64_t total) {
    struct serve_request *request = choice->request;
    const size_t tokens = processed(choice, piece, done, total), percent = 100 * tokens / choice->prompt->count;
    struct serve_text event = {0};
    if (choice->progress == 0)
        choice->prompt_began = cli_seconds();
    if (!request->values.stream || !request->values.return_progress || request->abandoned || percent < choice->progress)
        return;
    choice->progress = percent + 1;
    serve_answer_progress(&event, choice, tokens, cli_seconds() - choice->prompt_began);
    const bool good = serve_put(loop, request, &event);
    pthread_mutex_lock(&request->serve->lock);
    request->gone = request->gone || !good;
    serve_http_resume(request);
    pthread_mutex_unlock(&request->serve->lock);
    serve_text_free(&event);
}

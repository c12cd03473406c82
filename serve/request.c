/* request.c - the life of a request: creation, references, the queue, failure. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "serve/serve.h"

#include "core/base/assert.h"

struct serve_request *serve_request_new(struct serve *serve, bool chat) {
    struct serve_request *request = calloc(1, sizeof *request);
    if (!request)
        return NULL;
    request->serve = serve;
    request->chat = chat;
    request->created = (int64_t)time(NULL);
    request->arrived = cli_seconds();
    request->references = 1;
    pthread_mutex_lock(&serve->lock);
    request->id = ++serve->ids;
    pthread_mutex_unlock(&serve->lock);
    return request;
}

void serve_request_release(struct serve_request *request) {
    struct serve *serve = request->serve;
    pthread_mutex_lock(&serve->lock);
    const bool last = --request->references == 0;
    KVC_ASSERT(request->references >= 0);
    KVC_ASSERT(serve->buffered >= request->buffered);
    if (last)
        serve->buffered -= request->buffered;
    pthread_mutex_unlock(&serve->lock);
    if (!last)
        return;
    for (size_t i = 0; i < request->choice_count; i++)
        serve_choice_free(&request->choices[i]);
    kvc_grammar_close(request->grammar); /* closed after the samplers that use it */
    for (size_t i = 0; i < request->prompt_count; i++)
        free(request->prompts[i].items);
    free(request->choices);
    free(request->prompts);
    free(request->spec);
    free(request->biases);
    json_decref(request->values.stop);
    json_decref(request->functions);
    serve_text_free(&request->out);
    free(request);
}

void serve_buffer_shrink(struct serve_request *request) {
    if (request->out.capacity <= SERVE_OUT_LEAST)
        return;
    KVC_ASSERT(request->buffered >= SERVE_OUT_LEAST);
    serve_text_free(&request->out);
    request->serve->buffered -= request->buffered - SERVE_OUT_LEAST;
    request->buffered = SERVE_OUT_LEAST;
}

bool serve_enqueue(struct serve_request *request, size_t *busy, struct serve_error *error) {
    struct serve *serve = request->serve;
    bool taken = true;
    pthread_mutex_lock(&serve->lock);
    if (serve->draining) {
        taken = serve_refuse(error, 503, "server_error", "", NULL, "the server is shutting down");
    } else if (serve->queued >= (size_t)serve->options->queue) {
        taken =
            serve_refuse(error, 503, "server_error", "", NULL, "the queue is full: %zu requests wait", serve->queued);
        error->retry_after = 5;
    } else {
        request->references++; /* the engine thread holds this reference */
        request->next = NULL;
        if (serve->last)
            serve->last->next = request;
        else
            serve->first = request;
        serve->last = request;
        KVC_ASSERT(serve->first && !request->next);
        serve->queued++;
        serve->unfinished++;
        ++*busy; /* counted now, so that the server does not end before the client has the answer */
        serve->metrics.requests++;
        pthread_cond_signal(&serve->wake);
    }
    pthread_mutex_unlock(&serve->lock);
    return taken;
}

void serve_request_fail(struct serve_request *request, const struct serve_error *error) {
    if (request->state == SERVE_DONE || request->state == SERVE_FAILED)
        return;
    if (request->state == SERVE_QUEUED)
        request->serve->queued--;
    if (request->values.stream &&
        request->state == SERVE_RUNS) { /* the HTTP status has been sent, so the error becomes an event */
        serve_text_put(&request->out, "data: ");
        serve_error_json(&request->out, error);
        serve_text_put(&request->out, "\n\n");
    }
    KVC_ASSERT(request->serve->unfinished > 0);
    request->out_over = true;
    request->error = *error;
    request->state = SERVE_FAILED;
    request->serve->metrics.failed++;
    serve_http_resume(request);
}

/* loop.c - the engine thread: continuous batching. Requests join and leave between steps. A step computes one token of
 * every running answer. A prompt is computed in chunks, with steps in between, so that a long prompt does not stall
 * other answers.
 *
 * Answers do not depend on the batch: the other rows of a step do not change a row's result. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "serve/loop.h"

#include "core/base/assert.h"

enum {
    PIECE = 512 /* largest number of prompt tokens per chunk; after each chunk, another prompt gets its turn */
};

/* ---- how a request ends ---- */

/* Removes a finished request from the engine thread's list. */
static void let_go(struct serve_loop *loop, struct serve_request *request) {
    struct serve *serve = loop->serve;
    struct serve_request **link = &loop->first;
    while (*link != request)
        link = &(*link)->next;
    *link = request->next;
    pthread_mutex_lock(&serve->lock);
    serve->unfinished--;
    pthread_mutex_unlock(&serve->lock);
    serve_request_release(request);
}

/* Ends a request with an error. For KVC_USAGE the client gets the cause. Otherwise the client gets a message without
 * details of the machine, and the cause is printed on standard error. */
static void loop_fail(struct serve_request *request, const struct kvc_error *cause) {
    struct serve_error error;
    if (cause->status == KVC_USAGE)
        (void)serve_refuse(&error, 400, SERVE_INVALID, "", NULL, "%s", cause->text);
    else if (cause->status == KVC_RESOURCE)
        (void)serve_refuse(&error, 503, "server_error", "", NULL, "the server has no memory for this answer now");
    else
        (void)serve_refuse(&error, 500, "server_error", "", NULL, "the server could not compute this answer");
    error.retry_after = cause->status == KVC_RESOURCE ? 5 : 0;
    if (cause->status != KVC_USAGE)
        fprintf(stderr, "kvcull serve: request %llu: %s\n", (unsigned long long)request->id, cause->text);
    pthread_mutex_lock(&request->serve->lock);
    serve_request_fail(request, &error);
    pthread_mutex_unlock(&request->serve->lock);
    request->abandoned = true;
}

/* Closes the sessions of requests that failed or whose clients disconnected. */
static void sweep(struct serve_loop *loop) {
    struct serve *serve = loop->serve;
    for (struct serve_request *request = loop->first, *next; request; request = next) {
        bool over = true;
        next = request->next;
        pthread_mutex_lock(&serve->lock);
        request->gone = request->gone || serve_http_closed(request);
        if (request->gone && request->state != SERVE_DONE && !request->abandoned) {
            request->abandoned = true;
            serve->metrics.cancelled++;
        }
        const bool done = request->state == SERVE_DONE;
        pthread_mutex_unlock(&serve->lock);
        if (done)
            let_go(loop, request);
        if (done || !request->abandoned)
            continue;
        for (size_t i = 0; i < request->choice_count; i++)
            if (&request->choices[i] == loop->prompting)
                over = false;
            else if (request->choices[i].stage != SERVE_OVER)
                serve_leave(loop, &request->choices[i], false);
        if (over) {
            pthread_mutex_lock(&serve->lock);
            if (request->state == SERVE_QUEUED)
                serve->queued--;
            request->state = SERVE_FAILED; /* a disconnected client needs no error */
            request->out_over = true;
            serve_http_resume(request);
            pthread_mutex_unlock(&serve->lock);
            let_go(loop, request);
        }
    }
}

/* ---- tokens ---- */

/* If a choice's request asked for a stream, sends the choice's new text. The request is done when its last choice has
 * finished. */
static void loop_tell(struct serve_loop *loop, struct serve_choice *choice) {
    struct serve_request *request = choice->request;
    struct serve *serve = request->serve;
    const bool over = choice->finish != NULL;
    struct serve_text chunk = {0};
    if (request->values.stream && (over || serve_choice_news(choice)))
        serve_answer_chunk(&chunk, choice);
    if (over && request->choices_over + 1 == request->choice_count && request->values.stream)
        serve_answer_end(&chunk, request);
    const bool good = chunk.bytes == 0 ? !chunk.failed : serve_put(loop, request, &chunk);
    pthread_mutex_lock(&serve->lock);
    if (over && ++request->choices_over == request->choice_count) {
        request->state = SERVE_DONE;
        request->out_over = true;
        serve_observe(&serve->metrics.request, cli_seconds() - request->arrived);
    }
    if (!good)
        request->gone = true; /* there is no memory for the event, or the client does not read */
    if (chunk.bytes > 0 || request->state == SERVE_DONE)
        serve_http_resume(request);
    pthread_mutex_unlock(&serve->lock);
    serve_text_free(&chunk);
}

static void loop_finish(struct serve_loop *loop, struct serve_choice *choice, const char *why) {
    struct serve *serve = loop->serve;
    struct serve_metrics *m = &serve->metrics;
    const struct kvc_model_info *info = serve->info;
    choice->finish = serve_choice_end(choice, why);
    serve_held_look(choice, true);
    serve_leave(loop, choice, true);
    const uint64_t all = choice->stats.tokens * info->layers * info->kv_heads;
    pthread_mutex_lock(&serve->lock);
    m->answers++;
    m->prompt_tokens += choice->prompt->count;
    m->cached_tokens += choice->cached;
    if (choice->index % (uint64_t)choice->request->values.n == 0) /* this is the first answer to its prompt */
        choice->request->cached_tokens += choice->cached;
    m->answer_tokens += choice->answer.count;
    m->read_bytes += choice->stats.read_bytes;
    serve_count_evictions(m, choice->request->spec, all - cli_min(all, choice->stats.entries));
    pthread_mutex_unlock(&serve->lock);
    loop_tell(loop, choice);
}

/* Returns the reason why an answer ends at this token, or NULL if it does not end. */
static const char *why_over(const struct serve_choice *choice, int32_t token) {
    const struct serve_request *request = choice->request;
    const bool ends = token >= 0 && kvc_token_ends_turn(request->serve->model, token);
    if (ends)
        return request->values.ignore_eos && !request->grammar ? NULL : "stop";
    if (token >= 0)
        return NULL;
    if (kvc_sampler_whole(choice->sampler))
        return "stop";
    kvc_log_line(request->serve->engine, KVC_LOG_INFO, KVC_LOG_SERVER,
                 "request %llu, answer %u ends: no token keeps it within its grammar", (unsigned long long)request->id,
                 choice->index);
    return "length";
}

/* Chooses the next token of an answer from logits [vocab]. */
static void next_token(struct serve_loop *loop, struct serve_choice *choice, const float *logits) {
    struct serve_request *request = choice->request;
    struct kvc_error error;
    bool stopped;
    if (choice->hash)
        kvc_hash_add(choice->hash, logits, loop->serve->info->vocab);
    const int32_t token = kvc_sample(choice->sampler, logits);
    const char *why = why_over(choice, token);
    if (why) {
        loop_finish(loop, choice, why);
        return;
    }
    if (serve_choice_token(choice, token, logits, &stopped, &error) != KVC_OK) {
        loop_fail(request, &error);
        return;
    }
    pthread_mutex_lock(&loop->serve->lock);
    if (request->tokens_out++ == 0)
        request->first_token = cli_seconds() - request->arrived;
    if (choice->answer.count == 1)
        serve_observe(&loop->serve->metrics.first_token, cli_seconds() - request->arrived);
    pthread_mutex_unlock(&loop->serve->lock);
    choice->pending = token;
    choice->stage = SERVE_DECODES;
    if (stopped)
        loop_finish(loop, choice, "stop");
    else if (choice->answer.count == request->limit)
        loop_finish(loop, choice, "length");
    else {
        serve_held_look(choice, false);
        loop_tell(loop, choice);
    }
}

/* Returns the choice whose prompt has waited longest for a chunk, or NULL if all prompts are computed. */
static struct serve_choice *next_prompt(const struct serve_loop *loop) {
    struct serve_choice *best = NULL;
    for (struct serve_request *request = loop->first; request; request = request->next)
        for (size_t i = 0; i < request->choice_count && !request->abandoned; i++)
            if (request->choices[i].stage == SERVE_PROMPT && (!best || request->choices[i].turn < best->turn) &&
                !serve_share_waits(loop, &request->choices[i]))
                best = &request->choices[i];
    return best;
}

/* ---- decode steps ---- */

/* Collects the answers that take part in the next step. An answer without memory for its next token waits until other
 * answers free some. */
static size_t loop_gather(struct serve_loop *loop) {
    size_t count = 0;
    loop->starved = NULL;
    for (struct serve_request *request = loop->first; request; request = request->next)
        for (size_t i = 0; i < request->choice_count && !request->abandoned; i++) {
            struct serve_choice *choice = &request->choices[i];
            if (choice->stage != SERVE_DECODES)
                continue;
            if (choice->answer.count >= choice->promised && !serve_promise(loop, choice)) {
                if (!loop->starved || choice->answer.count > loop->starved->answer.count)
                    loop->starved = choice;
                continue;
            }
            loop->members[count] = choice;
            KVC_ASSERT(count < (size_t)loop->serve->options->batch && choice->session);
            loop->sessions[count] = choice->session;
            loop->tokens[count++] = choice->pending;
        }
    return count;
}

static void loop_step(struct serve_loop *loop) {
    struct serve *serve = loop->serve;
    const size_t vocab = serve->info->vocab, count = loop_gather(loop);
    struct kvc_error error = {KVC_OK, ""};
    if (count == 0 && loop->starved && !loop->prompting && !next_prompt(loop))
        loop_finish(loop, loop->starved, "length"); /* no other answer will free memory, so the longest one ends */
    if (count == 0)
        return;
    const double start = cli_seconds();
    (void)kvc_decode(loop->sessions, loop->tokens, count, loop->logits, loop->statuses, &error);
    loop->step_end = cli_seconds();
    loop->step_seconds = loop->step_end - start;
    for (size_t i = 0; i < count; i++) {
        struct serve_choice *choice = loop->members[i];
        if (choice->request->abandoned)
            continue;
        if (loop->statuses[i] == KVC_OK) {
            next_token(loop, choice, loop->logits + i * vocab);
        } else {
            error.status = loop->statuses[i];
            loop_fail(choice->request, &error);
        }
    }
    pthread_mutex_lock(&serve->lock);
    serve->metrics.steps++;
    serve->metrics.step_rows += count;
    serve_observe(&serve->metrics.step, loop->step_seconds);
    pthread_mutex_unlock(&serve->lock);
}

/* ---- prompts ---- */

/* Runs decode steps between the chunks of a prompt, so that both get about the same time. */
static int on_progress(void *user, uint64_t done, uint64_t total) {
    struct serve_loop *loop = user;
    serve_progress(loop, loop->prompting, loop->piece, done, total);
    sweep(loop);
    if (loop->prompting->request->abandoned)
        return 1;
    if (cli_seconds() - loop->step_end >= loop->step_seconds)
        loop_step(loop);
    return loop->prompting->request->abandoned;
}

/* Records log probabilities of the echoed prompt. The logits of a row belong to the next token. */
static int on_row(void *user, uint64_t row, const float *logits) {
    struct serve_loop *loop = user;
    struct serve_choice *choice = loop->prompting;
    const size_t next = choice->seen + (size_t)row + 1;
    KVC_ASSERT(next <= choice->prompt->count);
    return next < choice->prompt->count && !serve_choice_record(choice, choice->prompt->items[next], logits);
}

/* Called after each chunk if the policy's method reads the prompt in chunks. */
static int on_chunk(void *user, uint64_t tokens) {
    struct serve_loop *loop = user;
    serve_held_chunk(loop->prompting, loop->prompting->seen + (size_t)tokens);
    return 0;
}

static void end_prompt(struct serve_loop *loop, struct serve_choice *choice) {
    struct serve_request *request = choice->request;
    struct kvc_error error;
    serve_progress(loop, choice, 0, 1, 1);
    for (size_t i = 0; i < choice->prompt->count; i++)
        kvc_sampler_accept(choice->sampler, choice->prompt->items[i]);
    if ((request->values.echo && serve_choice_echo(choice, &error) != KVC_OK) ||
        serve_choice_begin(choice, &error) != KVC_OK)
        loop_fail(request, &error);
    else if (request->limit == 0)
        loop_finish(loop, choice, "length");
    else
        next_token(loop, choice, loop->prompt_logits);
}

/* Completes the prompt of this choice and starts its answer. Does the same for the choices that have a copy of its
 * session. */
static void end_prompts(struct serve_loop *loop, struct serve_choice *choice) {
    struct serve_request *request = choice->request;
    serve_share_prompt(choice);
    for (size_t i = 0; i < request->choice_count && !request->abandoned; i++) {
        struct serve_choice *each = &request->choices[i];
        if (each->prompt == choice->prompt && each->stage == SERVE_PROMPT && each->seen == each->prompt->count)
            end_prompt(loop, each);
    }
}

/* Computes the next chunk of a prompt. If the policy has stages, the chunk is the whole rest of the prompt. */
static void compute_prompt(struct serve_loop *loop, struct serve_choice *choice) {
    const struct serve_request *request = choice->request;
    const struct serve_tokens *prompt = choice->prompt;
    serve_share_begin(loop, choice);
    const size_t left = prompt->count - choice->seen;
    KVC_ASSERT(choice->stage == SERVE_PROMPT && choice->seen < prompt->count);
    const size_t most = choice->share_at > choice->seen ? cli_min(PIECE, choice->share_at - choice->seen) : PIECE;
    const bool last = request->stages != 0 || left <= most, rows = serve_wants_rows(request);
    const size_t count = last ? left : most;
    const struct kvc_prompt_options options = {
        .row = rows ? on_row : NULL, .progress = on_progress, .chunk = on_chunk, .user = loop};
    struct kvc_error error = {KVC_OK, ""};
    choice->turn = ++loop->turns;
    loop->prompting = choice;
    loop->piece = count;
    serve_progress(loop, choice, count, 0, 1);
    bool good = !rows || choice->seen > 0 || serve_choice_record(choice, prompt->items[0], NULL);
    if (!good)
        (void)kvc_fail(&error, KVC_RESOURCE, "prompt: no memory");
    else
        good = kvc_session_prompt(choice->session, prompt->items + choice->seen, count, &options,
                                  last ? loop->prompt_logits : NULL, &error) == KVC_OK;
    loop->prompting = NULL;
    if (choice->request->abandoned)
        return; /* `sweep` closes its session */
    choice->seen += count;
    KVC_ASSERT(choice->seen <= prompt->count);
    if (!good)
        loop_fail(choice->request, &error);
    else if (last)
        end_prompts(loop, choice);
    else if (choice->seen == choice->share_at)
        serve_cached_add(loop, choice);
}

/* ---- the queue ---- */

static void take_queue(struct serve_loop *loop) { /* The caller holds the lock. */
    struct serve_request **link = &loop->first;
    while (*link)
        link = &(*link)->next;
    *link = loop->serve->first;
    loop->serve->first = loop->serve->last = NULL;
}

static void loop_start(struct serve_request *request) {
    pthread_mutex_lock(&request->serve->lock);
    if (request->state == SERVE_QUEUED) {
        request->state = SERVE_RUNS;
        KVC_ASSERT(request->serve->queued > 0);
        request->serve->queued--;
        if (request->values.stream)
            serve_http_resume(request);
    }
    pthread_mutex_unlock(&request->serve->lock);
}

/* Fails requests that have waited longer than --wait seconds, with a Retry-After header. */
static void expire(struct serve_loop *loop) {
    for (struct serve_request *request = loop->first; request; request = request->next) {
        struct serve_error error;
        pthread_mutex_lock(&loop->serve->lock);
        if (request->state == SERVE_QUEUED && !request->abandoned &&
            cli_seconds() - request->arrived > (double)loop->serve->options->wait) {
            (void)serve_refuse(&error, 503, "server_error", "", NULL, "its cache did not fit in memory within %lld s",
                               (long long)loop->serve->options->wait);
            error.retry_after = 10;
            serve_request_fail(request, &error);
            request->abandoned = true;
        }
        pthread_mutex_unlock(&loop->serve->lock);
    }
}

/* Admits requests in order of arrival while memory and the batch have room. If a request does not fit, the requests
 * after it wait too. */
static void admit(struct serve_loop *loop) {
    if (loop->starved)
        return;
    for (struct serve_request *request = loop->first; request; request = request->next)
        for (size_t i = 0; i < request->choice_count && !request->abandoned; i++) {
            struct kvc_error error;
            if (request->choices[i].stage != SERVE_WAITS)
                continue;
            if (!serve_admit(loop, &request->choices[i], &error))
                return;
            request->choices[i].turn = ++loop->turns;
            if (error.status != KVC_OK)
                loop_fail(request, &error);
            else
                loop_start(request);
        }
}

/* Waits for work. Returns false when the server ends. */
static bool wait_for_work(struct serve_loop *loop) {
    struct serve *serve = loop->serve;
    struct kvc_memory memory;
    kvc_engine_memory(serve->engine, &memory);
    pthread_mutex_lock(&serve->lock);
    memcpy(serve->metrics.memory, memory.now, sizeof memory.now);
    serve->metrics.running = loop->running;
    serve->metrics.kept = loop->kept_count;
    serve->metrics.reserved = loop->reserved;
    serve->metrics.kept_bytes = loop->kept_bytes;
    while (!loop->first && !serve->first && !serve->stopped)
        pthread_cond_wait(&serve->wake, &serve->lock);
    take_queue(loop);
    if (loop->first && loop->idle && !serve->stopped) { /* try again after 5 ms */
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 5000000;
        if (until.tv_nsec >= 1000000000) {
            until.tv_sec++;
            until.tv_nsec -= 1000000000;
        }
        (void)pthread_cond_timedwait(&serve->wake, &serve->lock, &until);
    }
    const bool more = loop->first || !serve->stopped;
    pthread_mutex_unlock(&serve->lock);
    return more;
}

static bool open_loop(struct serve_loop *loop, struct serve *serve) {
    const size_t batch = (size_t)serve->options->batch, vocab = serve->info->vocab;
    *loop = (struct serve_loop){.serve = serve,
                                .sessions = malloc(batch * sizeof(struct kvc_session *)),
                                .tokens = malloc(batch * sizeof(int32_t)),
                                .statuses = malloc(batch * sizeof(enum kvc_status)),
                                .members = malloc(batch * sizeof(struct serve_choice *)),
                                .logits = malloc(batch * vocab * sizeof(float)),
                                .prompt_logits = malloc(vocab * sizeof(float)),
                                .kept = calloc((size_t)serve->options->kept + 1, sizeof(struct serve_cached))};
    return loop->sessions && loop->tokens && loop->statuses && loop->members && loop->logits && loop->prompt_logits &&
           loop->kept;
}

void *serve_loop(void *user) {
    struct serve *serve = user;
    struct serve_loop loop;
    bool good = open_loop(&loop, serve);
    if (good)
        serve_slots_load(&loop);
    while (good && wait_for_work(&loop)) {
        sweep(&loop);
        admit(&loop);
        expire(&loop); /* called after `admit`, so that only requests for which there was no room fail */
        struct serve_choice *choice = next_prompt(&loop);
        loop.idle = !choice && loop.running == 0;
        if (choice)
            compute_prompt(&loop, choice);
        loop_step(&loop);
        sweep(&loop);
    }
    if (!good) {
        (void)cli_no_memory(serve->command);
        pthread_mutex_lock(&serve->lock);
        serve->draining = true; /* refuse further requests */
        take_queue(&loop);
        pthread_mutex_unlock(&serve->lock);
        while (loop.first) {
            const struct kvc_error cause = {KVC_RESOURCE, "no memory to compute with"};
            loop_fail(loop.first, &cause);
            let_go(&loop, loop.first);
        }
        kill(getpid(), SIGTERM);
    }
    good = good && serve_slots_save(&loop);
    serve_cached_close(&loop);
    free(loop.sessions);
    free(loop.tokens);
    free(loop.statuses);
    free(loop.members);
    free(loop.logits);
    free(loop.prompt_logits);
    free(loop.kept);
    free(loop.loaded);
    pthread_mutex_lock(&serve->lock);
    serve->ended = true;
    pthread_mutex_unlock(&serve->lock);
    return good ? serve : NULL;
}

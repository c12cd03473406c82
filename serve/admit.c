/* admit.c - memory admission. An answer reserves the peak memory that the forecast gives for it. An answer without a
 * length limit reserves memory for some tokens at a time. Cached sessions use the memory that no answer needs.
 *
 * A cached session holds the tokens with which a conversation's next request begins. A shared session holds a prefix of
 * several prompts (share.c). If the policy neither evicts nor selects, a request continues a cached session by default,
 * because that does not change its answer. Other policies choose anew at every turn, so a request continues a session
 * only if it or --cache-prompt asks for that. A request with cache_prompt "fork" gets a copy of a cached session, and
 * its own session is not cached. So its answer depends on the cached session alone. */
#include <stdlib.h>
#include <string.h>

#include "kvcull/saved.h"
#include "core/base/assert.h"
#include "serve/loop.h"

/* ---- cached sessions ---- */

static void forget(struct serve_cached *kept) {
    free(kept->tokens.items);
    free(kept->spec);
    *kept = (struct serve_cached){.session = NULL};
}

static void take_out(struct serve_loop *loop, size_t i) {
    KVC_ASSERT(i < loop->kept_count && loop->kept_bytes >= loop->kept[i].bytes);
    loop->kept_bytes -= loop->kept[i].bytes;
    forget(&loop->kept[i]);
    loop->kept[i] = loop->kept[--loop->kept_count];
}

/* Logs a decision about a request. */
#define ADMIT_LOG(loop, level, ...) kvc_log_line((loop)->serve->engine, level, KVC_LOG_SERVER, __VA_ARGS__)

/* Closes the least recently used session other than `but`. Returns false if there is none. */
static bool drop_oldest(struct serve_loop *loop, const struct kvc_session *but) {
    size_t oldest = loop->kept_count;
    for (size_t i = 0; i < loop->kept_count; i++)
        if (loop->kept[i].session != but &&
            (oldest == loop->kept_count || loop->kept[i].used < loop->kept[oldest].used))
            oldest = i;
    if (oldest == loop->kept_count)
        return false;
    ADMIT_LOG(loop, KVC_LOG_INFO, "a cached session of %zu tokens and %llu bytes is closed; %zu others stay",
              loop->kept[oldest].tokens.count, (unsigned long long)loop->kept[oldest].bytes, loop->kept_count - 1);
    kvc_session_close(loop->kept[oldest].session);
    take_out(loop, oldest);
    return true;
}

void serve_cached_close(struct serve_loop *loop) {
    while (drop_oldest(loop, NULL))
        continue;
}

bool serve_reuses(const struct serve_request *request) {
    if (request->serve->info->original_context || request->serve->options->kept == 0)
        return false; /* the model uses longrope: the length of a session selects its factors */
    return request->values.cache_prompt == SERVE_UNSAID ? request->stages == 0 || request->serve->options->cache_prompt
                                                        : request->values.cache_prompt != SERVE_ANEW;
}

static bool forks(const struct serve_request *request) { return request->values.cache_prompt == SERVE_FORK; }

bool serve_wants_rows(const struct serve_request *request) { return request->values.echo && request->logprobs; }

/* Returns true if the session subtracts the same mean from its keys as a session that computes the whole prompt anew.
 * Also returns true if the policy has a stage, because its results differ in a continued session anyway. */
static bool continues_exactly(const struct serve_cached *kept, const struct serve_request *request) {
    struct kvc_session_stats stats;
    if (request->stages != 0 || !kvc_type_is_rotated(kvc_session_cache_type(kept->session).key))
        return true;
    kvc_session_stats(kept->session, &stats);
    return stats.mean_rows == 0 || stats.mean_rows == KVC_MEAN_ROWS;
}

/* Returns the index of the cached session with the longest prefix of the prompt, or kept_count if there is none. At
 * least one token of the prompt must remain to be computed. */
static size_t find_kept(const struct serve_loop *loop, const struct serve_choice *choice) {
    const struct serve_request *request = choice->request;
    const struct serve_tokens *prompt = choice->prompt;
    size_t best = loop->kept_count;
    if (!serve_reuses(request) || serve_wants_rows(request))
        return best;
    for (size_t i = 0; i < loop->kept_count; i++) {
        const struct serve_tokens *has = &loop->kept[i].tokens;
        if (has->count < prompt->count && strcmp(loop->kept[i].spec, request->spec) == 0 &&
            (best == loop->kept_count || has->count > loop->kept[best].tokens.count) &&
            memcmp(has->items, prompt->items, has->count * sizeof *has->items) == 0 &&
            continues_exactly(&loop->kept[i], request))
            best = i;
    }
    return best;
}

/* ---- admission ---- */

/* Computes the peak memory of the choice for an answer of `answer` tokens. `going_on` is true if the choice continues a
 * session of an earlier turn. Then a policy that evicts may hold as much as `full`, plus its state. */
static enum kvc_status bytes_needed(const struct serve_choice *choice, bool going_on, uint64_t answer, uint64_t *bytes,
                                    struct kvc_error *error) {
    const struct serve_request *request = choice->request;
    const uint64_t prompt = choice->prompt->count;
    uint64_t whole = 0;
    enum kvc_status status = serve_forecast(request->serve, request->spec, prompt, answer, bytes, error);
    if (status == KVC_OK && going_on && request->stages != 0) {
        status = serve_forecast(request->serve, "full", prompt, answer, &whole, error);
        *bytes += whole;
    }
    return status;
}

/* Returns the bytes reserved for answers and for unread output. */
static uint64_t promised(const struct serve_loop *loop) {
    pthread_mutex_lock(&loop->serve->lock);
    const uint64_t bytes = loop->reserved + loop->serve->buffered;
    pthread_mutex_unlock(&loop->serve->lock);
    return bytes;
}

/* Closes cached sessions other than `but` until `bytes` bytes are free in addition to the reservations. Returns false
 * if that is impossible. */
static bool make_room(struct serve_loop *loop, uint64_t bytes, const struct kvc_session *but) {
    while (promised(loop) + loop->kept_bytes + bytes > loop->serve->memory)
        if (!drop_oldest(loop, but))
            return false;
    return true;
}

static void count_buffer(struct serve_request *request, uint64_t bytes) {
    pthread_mutex_lock(&request->serve->lock);
    request->buffered += bytes;
    request->serve->buffered += bytes;
    pthread_mutex_unlock(&request->serve->lock);
}

bool serve_buffer(struct serve_loop *loop, struct serve_request *request, uint64_t bytes) {
    if (!make_room(loop, bytes, NULL))
        return false;
    count_buffer(request, bytes);
    return true;
}

/* Returns the size of the output buffer to reserve with a stream's first session. */
static uint64_t buffer_of(const struct serve_request *request) {
    return request->values.stream && request->buffered == 0 ? SERVE_OUT_LEAST : 0;
}

static enum kvc_status open_session(struct serve_choice *choice, uint64_t bytes, struct kvc_error *error) {
    const struct serve_request *request = choice->request;
    const struct serve *serve = request->serve;
    struct kvc_session_options options;
    cli_session_options(&serve->options->common, request->spec, &options);
    options.seed = (uint64_t)request->values.seed + choice->index % (uint64_t)request->values.n;
    const bool whole = request->promise == request->limit;
    options.expected = whole ? request->limit : SERVE_STEP;
    options.context = serve->info->original_context ? choice->prompt->count + request->limit : 0;
    options.memory_limit = whole && !serve_reuses(request) ? bytes : serve->memory; /* the session may grow later */
    return kvc_session_open(serve->model, &options, &choice->session, error);
}

/* Continues a cached session. A fork continues a copy of it. A shared session is copied too, if both fit. Returns false
 * if the choice must wait. */
static bool go_on(struct serve_loop *loop, struct serve_choice *choice, size_t kept, uint64_t bytes) {
    struct kvc_session *session = loop->kept[kept].session, *copy = NULL;
    const uint64_t own = loop->kept[kept].bytes;
    const bool must_copy = forks(choice->request);
    if ((must_copy || loop->kept[kept].shared) && promised(loop) + own + bytes <= loop->serve->memory &&
        make_room(loop, bytes, session))
        (void)kvc_session_fork(session, &copy, NULL);
    if (!copy && (must_copy || !make_room(loop, bytes - cli_min(bytes, own), session)))
        return false;
    for (kept = 0; loop->kept[kept].session != session; kept++)
        continue; /* make_room may have closed other sessions, which changes indices */
    choice->session = copy ? copy : session;
    choice->seen = choice->cached = loop->kept[kept].tokens.count;
    loop->kept[kept].used = ++loop->uses;
    if (!copy)
        take_out(loop, kept);
    return true;
}

/* Fails a fork that can never be admitted. With a policy that evicts, a fork needs a cached session, because computing
 * the whole prompt would give another answer. */
static enum kvc_status check_fork(const struct serve_loop *loop, const struct serve_choice *choice, size_t kept,
                                  uint64_t bytes, struct kvc_error *error) {
    if (kept == loop->kept_count)
        return choice->request->stages == 0
                   ? KVC_OK
                   : kvc_fail(error, KVC_USAGE,
                              "cache_prompt \"fork\": no cached session has the beginning of this prompt; "
                              "send the text first, with cache_prompt true");
    return loop->kept[kept].bytes + bytes <= loop->serve->memory
               ? KVC_OK
               : kvc_fail(error, KVC_USAGE,
                          "cache_prompt \"fork\": there is no room for a copy of the cached session; "
                          "send a shorter text, or ask for a shorter answer");
}

/* Logs, once for each answer, that the answer waits: for `bytes` bytes of memory or, if that is 0, for the end of
 * another answer. Returns false. */
static bool admit_later(const struct serve_loop *loop, struct serve_choice *choice, uint64_t bytes) {
    const unsigned long long id = choice->request->id;
    if (!choice->waited && bytes == 0)
        ADMIT_LOG(loop, KVC_LOG_INFO, "request %llu waits: %zu answers run, as many as --batch permits", id,
                  loop->running);
    else if (!choice->waited)
        ADMIT_LOG(loop, KVC_LOG_INFO, "request %llu waits: it needs %llu bytes; %llu of %llu are reserved", id,
                  (unsigned long long)bytes, (unsigned long long)promised(loop),
                  (unsigned long long)loop->serve->memory);
    choice->waited = true;
    return false;
}

bool serve_admit(struct serve_loop *loop, struct serve_choice *choice, struct kvc_error *error) {
    size_t kept = find_kept(loop, choice);
    const uint64_t buffer = buffer_of(choice->request);
    uint64_t bytes = 0;
    error->status = KVC_OK;
    if (loop->running >= (size_t)loop->serve->options->batch)
        return admit_later(loop, choice, 0);
    if (!choice->sampler && serve_choice_sampler(choice, error) != KVC_OK)
        return true;
    if (kept < loop->kept_count && bytes_needed(choice, true, choice->request->promise, &bytes, error) != KVC_OK)
        return true;
    if (forks(choice->request) && check_fork(loop, choice, kept, bytes + buffer, error) != KVC_OK)
        return true;
    if (kept < loop->kept_count && bytes + buffer <= loop->serve->memory && !go_on(loop, choice, kept, bytes + buffer))
        return admit_later(loop, choice, bytes + buffer);
    choice->goes_on = choice->session != NULL;
    if (!choice->session) {
        if (bytes_needed(choice, false, choice->request->promise, &bytes, error) != KVC_OK)
            return true;
        if (!make_room(loop, bytes + buffer, NULL))
            return admit_later(loop, choice, bytes + buffer);
        if (open_session(choice, bytes, error) != KVC_OK)
            return true;
    }
    choice->reserved = bytes;
    choice->promised = choice->request->promise;
    loop->reserved += bytes;
    count_buffer(choice->request, buffer);
    loop->running++;
    KVC_ASSERT(loop->running <= (size_t)loop->serve->options->batch);
    KVC_ASSERT(choice->session && choice->seen < choice->prompt->count);
    choice->stage = SERVE_PROMPT;
    ADMIT_LOG(
        loop, KVC_LOG_INFO,
        "request %llu, answer %u admitted with %s: %zu prompt tokens, %zu from a cached session; %llu bytes reserved, "
        "%llu of %llu in all",
        (unsigned long long)choice->request->id, choice->index, choice->request->spec, choice->prompt->count,
        choice->cached, (unsigned long long)bytes, (unsigned long long)promised(loop),
        (unsigned long long)loop->serve->memory);
    return true;
}

bool serve_promise(struct serve_loop *loop, struct serve_choice *choice) {
    const uint64_t answer = cli_min(choice->request->limit, choice->promised + SERVE_STEP);
    struct kvc_error error;
    uint64_t bytes = 0;
    if (bytes_needed(choice, choice->goes_on, answer, &bytes, &error) != KVC_OK)
        return false;
    const uint64_t more = bytes - cli_min(bytes, choice->reserved);
    if (more > 0 && !make_room(loop, more, NULL))
        return false;
    choice->promised = answer;
    KVC_ASSERT(answer <= choice->request->limit);
    choice->reserved += more;
    loop->reserved += more;
    return true;
}

/* Copies the first `count` tokens of the choice: its prompt, then its answer. */
static bool copy_tokens(const struct serve_choice *choice, size_t count, struct serve_tokens *tokens) {
    const size_t prompt = cli_min(count, choice->prompt->count);
    tokens->items = malloc((count + 1) * sizeof *tokens->items);
    if (!tokens->items)
        return false;
    memcpy(tokens->items, choice->prompt->items, prompt * sizeof *tokens->items);
    if (count > prompt)
        memcpy(tokens->items + prompt, choice->answer.items, (count - prompt) * sizeof *tokens->items);
    tokens->count = count;
    return true;
}

/* Caches a session that has computed tokens of this choice. If memory runs out, returns false, and the caller still
 * owns the session. */
static bool admit_keep(struct serve_loop *loop, const struct serve_choice *choice, struct kvc_session *session,
                       bool shared) {
    struct kvc_session_stats stats;
    struct serve_cached kept = {.session = session, .spec = strdup(choice->request->spec), .shared = shared};
    kvc_session_stats(session, &stats);
    if (!kept.spec || !copy_tokens(choice, (size_t)stats.tokens, &kept.tokens)) {
        forget(&kept);
        return false;
    }
    if (loop->kept_count == (size_t)loop->serve->options->kept)
        (void)drop_oldest(loop, NULL);
    kept.bytes = stats.cache_bytes + stats.state_bytes;
    kept.used = ++loop->uses;
    loop->kept_bytes += kept.bytes;
    loop->kept[loop->kept_count++] = kept;
    KVC_ASSERT(loop->kept_count <= (size_t)loop->serve->options->kept);
    return true;
}

void serve_cached_add(struct serve_loop *loop, const struct serve_choice *choice) {
    struct kvc_session_stats stats;
    struct kvc_session *copy;
    kvc_session_stats(choice->session, &stats);
    const uint64_t bytes = stats.cache_bytes + stats.state_bytes;
    if (promised(loop) + bytes > loop->serve->memory || !make_room(loop, bytes, NULL) ||
        kvc_session_fork(choice->session, &copy, NULL) != KVC_OK)
        return;
    if (!admit_keep(loop, choice, copy, true))
        kvc_session_close(copy);
}

void serve_cached_copy(struct serve_loop *loop, struct serve_choice *choice) {
    const size_t kept = find_kept(loop, choice);
    struct kvc_session *copy;
    if (kept == loop->kept_count || !loop->kept[kept].shared ||
        kvc_session_fork(loop->kept[kept].session, &copy, NULL) != KVC_OK)
        return;
    kvc_session_close(choice->session);
    choice->session = copy;
    choice->seen = choice->cached = loop->kept[kept].tokens.count;
    loop->kept[kept].used = ++loop->uses;
}

void serve_leave(struct serve_loop *loop, struct serve_choice *choice, bool good) {
    choice->stage = SERVE_OVER;
    kvc_sampler_close(choice->sampler);
    choice->sampler = NULL;
    if (!choice->session)
        return;
    kvc_session_stats(choice->session, &choice->stats);
    const bool whole = choice->stats.tokens >= choice->prompt->count &&
                       choice->stats.tokens <= choice->prompt->count + choice->answer.count;
    if (!good || !whole || !serve_reuses(choice->request) || forks(choice->request) ||
        !admit_keep(loop, choice, choice->session, false))
        kvc_session_close(choice->session);
    choice->session = NULL;
    KVC_ASSERT(loop->reserved >= choice->reserved && loop->running > 0);
    loop->reserved -= choice->reserved;
    loop->running--;
}

/* share.c - computes common prefixes once. A prefix that several prompts share becomes a cached session, and each of
 * them gets a copy. If a request wants several answers to one prompt, the first answer computes it, and the others get
 * copies of its session.
 *
 * A copy gives bit-identical results to a session that computed everything itself. Prefixes are shared only if the
 * policy evicts nothing, because only then may a prompt be cut anywhere. Whole prompts are shared with any policy that
 * does not use the seed, because every answer has another seed. */
#include <string.h>

#include "kvcull/saved.h"
#include "core/base/assert.h"
#include "serve/loop.h"

enum { SHARED_LEAST = 64 }; /* shorter prefixes, in tokens, are computed again instead of cached */

/* Returns the least length of a prefix that may be cached. A session's first prompt determines the mean that it
 * subtracts from keys, so the prefix must contain all tokens that enter this mean. */
static size_t least_of(const struct serve_choice *choice) {
    const bool means = choice->seen == 0 && kvc_type_is_rotated(choice->request->serve->options->common.cache_type.key);
    return means ? KVC_MEAN_ROWS : SHARED_LEAST;
}

/* Returns the length of the common prefix of a and b. */
static size_t common(const struct serve_tokens *a, const struct serve_tokens *b) {
    const size_t most = cli_min(a->count, b->count);
    size_t n = 0;
    while (n < most && a->items[n] == b->items[n])
        n++;
    return n;
}

static bool may_cut(const struct serve_request *request) { return request->stages == 0 && serve_reuses(request); }

/* Returns the length of the prefix that both prompts share, or 0 if the prefix cannot be shared. */
static size_t common_with(const struct serve_choice *choice, const struct serve_choice *other) {
    const struct serve_request *a = choice->request, *b = other->request;
    if (other == choice || b->abandoned || !may_cut(b) || strcmp(a->spec, b->spec) != 0)
        return 0;
    return common(choice->prompt, other->prompt);
}

bool serve_share_waits(const struct serve_loop *loop, const struct serve_choice *choice) {
    if (choice->looked || choice->seen > 0 || !may_cut(choice->request))
        return false;
    for (const struct serve_request *request = loop->first; request; request = request->next)
        for (size_t i = 0; i < request->choice_count; i++) {
            const struct serve_choice *other = &request->choices[i];
            if (other->stage == SERVE_PROMPT && other->share_at > other->seen &&
                common_with(choice, other) >= other->share_at)
                return true;
        }
    return false;
}

/* Returns the longest prefix that the choice shares with a cached session or with a prompt that has not begun. Other
 * answers to the same prompt count only while they wait for admission: once admitted, they get copies at the prompt's
 * end. */
static size_t longest_common(const struct serve_loop *loop, const struct serve_choice *choice) {
    size_t most = 0;
    for (size_t i = 0; i < loop->kept_count; i++)
        if (strcmp(loop->kept[i].spec, choice->request->spec) == 0)
            most = cli_max(most, common(&loop->kept[i].tokens, choice->prompt));
    for (const struct serve_request *request = loop->first; request; request = request->next)
        for (size_t i = 0; i < request->choice_count; i++) {
            const struct serve_choice *other = &request->choices[i];
            const bool begins = other->stage == SERVE_PROMPT && other->seen == 0 && other->prompt != choice->prompt;
            if (other->stage == SERVE_WAITS || begins)
                most = cli_max(most, common_with(choice, other));
        }
    return most;
}

void serve_share_begin(struct serve_loop *loop, struct serve_choice *choice) {
    if (choice->looked)
        return;
    choice->looked = true;
    if (!may_cut(choice->request) || serve_wants_rows(choice->request))
        return;
    if (choice->seen == 0)
        serve_cached_copy(loop, choice); /* the prefix may have been cached since the choice was admitted */
    const size_t most = cli_min(longest_common(loop, choice), choice->prompt->count - 1);
    KVC_ASSERT(choice->seen < choice->prompt->count);
    if (most >= choice->seen + least_of(choice))
        choice->share_at = most;
}

/* Returns true if a method of the policy uses the session's seed. */
static bool draws(const struct serve *serve, const char *spec) {
    const struct kvc_policy_class *method;
    for (size_t i = 0; (method = kvc_policy(serve->engine, i)); i++) {
        const size_t length = strlen(method->name);
        bool seed = false;
        for (const struct kvc_option *o = method->options; o && o->name; o++)
            seed = seed || strcmp(o->name, "seed") == 0;
        for (const char *at = seed ? strstr(spec, method->name) : NULL; at; at = strstr(at + 1, method->name))
            if ((at == spec || at[-1] == '+') && strchr(":+", at[length]))
                return true;
    }
    return false;
}

void serve_share_prompt(struct serve_choice *choice) {
    struct serve_request *request = choice->request;
    if (request->values.n == 1 || serve_wants_rows(request) || draws(request->serve, request->spec) ||
        (request->stages != 0 && choice->cached > 0)) /* a copy may need more than the others have reserved */
        return;
    for (size_t i = 0; i < request->choice_count; i++) {
        struct serve_choice *other = &request->choices[i];
        struct kvc_session *copy;
        if (other == choice || other->prompt != choice->prompt || other->stage != SERVE_PROMPT || other->seen > 0 ||
            kvc_session_fork(choice->session, &copy, NULL) != KVC_OK)
            continue; /* this choice computes its prompt itself */
        kvc_session_close(other->session);
        other->session = copy;
        other->looked = true;
        other->seen = other->cached = other->prompt->count;
        KVC_ASSERT(choice->seen == choice->prompt->count || choice->seen == other->seen);
    }
}

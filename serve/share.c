/* share.c - what several answers begin with is computed once: a prefix that others have too is kept as a session of
 * its own, of which each of them gets a copy; of several answers to one prompt the others get copies of the first's
 * session.
 *
 * A copy goes on with the bits of a session that computed all of it. Prefixes are shared where the policy evicts
 * nothing, because then a prompt may be cut anywhere; whole prompts under any policy that does not draw by the seed, of
 * which each answer has another.
 */
#include <string.h>

#include "kvcull/saved.h"
#include "serve/loop.h"

enum { SHARED_LEAST = 64 }; /* tokens below which a prefix is rather computed again than kept */

/* Tokens that both begin with. */
static size_t common(const struct serve_tokens *a, const struct serve_tokens *b) {
    const size_t most = cli_min(a->count, b->count);
    size_t n = 0;
    while (n < most && a->items[n] == b->items[n])
        n++;
    return n;
}

static bool may_cut(const struct serve_request *request) { return request->stages == 0 && serve_reuses(request); }

/* Of the other's prompt, what both begin with; 0: nothing that could be shared. */
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

/* What the choice has in common with a kept session, or with a prompt that nobody has begun to compute. Answers to its
 * own prompt that wait for nothing else get copies at the prompt's end. */
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
        serve_cached_copy(loop, choice); /* it may have been kept since the choice was admitted */
    const size_t most = cli_min(longest_common(loop, choice), choice->prompt->count - 1);
    if (most >= choice->seen + SHARED_LEAST)
        choice->share_at = most;
}

/* Whether a method of the policy draws by the session's seed. */
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
        (request->stages != 0 && choice->cached > 0)) /* its session may hold more than others were promised */
        return;
    for (size_t i = 0; i < request->choice_count; i++) {
        struct serve_choice *other = &request->choices[i];
        struct kvc_session *copy;
        if (other == choice || other->prompt != choice->prompt || other->stage != SERVE_PROMPT || other->seen > 0 ||
            kvc_session_fork(choice->session, &copy, NULL) != KVC_OK)
            continue; /* it computes its prompt itself */
        kvc_session_close(other->session);
        other->session = copy;
        other->looked = true;
        other->seen = other->cached = other->prompt->count;
    }
}

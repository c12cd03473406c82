/* filter.c - lets a sampler draw only tokens that keep the answer within a grammar. */
#include "core/base/assert.h"
#include "core/engine/sampler.h"
#include "models/grammar/grammar.h"
#include "models/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FEW 4096u /* `strike` compares every token if at most this many are left */
#define SPARE 4u  /* bytes after the text: one for `strike`, three for kvc_matcher_possible */

struct grammar_filter {
    struct kvc_matcher matcher;
    const struct kvc_model *model;
    uint32_t vocab;
    bool first; /* no token has added a byte yet */
    bool names; /* the grammar matches control tokens by their names */
    char *text; /* the answer; bytes + SPARE <= capacity */
    size_t bytes, capacity;
    bool whole; /* the answer may end here */
};

/* Writes a token's bytes, or its name, to text [capacity]. *bytes may be more than `capacity`. */
static bool write_token(const struct grammar_filter *filter, int32_t token, char *text, size_t capacity,
                        size_t *bytes) {
    const enum kvc_status status = kvc_token_bytes(filter->model, token, filter->first, text, capacity, bytes, NULL);
    if (status == KVC_OK && *bytes == 0 && filter->names) {
        const char *name = kvc_tokenizer_control(filter->model->tokenizer, token, bytes);
        if (*bytes > 0 && *bytes <= capacity)
            memcpy(text, name, *bytes);
    }
    return status == KVC_OK;
}

/* Writes a token's bytes after the text. Returns false if there is no such token or no memory. */
static bool append(struct grammar_filter *filter, int32_t token, size_t *added) {
    const size_t room = filter->capacity - filter->bytes - SPARE;
    if (!write_token(filter, token, filter->text + filter->bytes, room, added))
        return false;
    if (*added <= room)
        return true;
    const size_t capacity = 2 * filter->capacity + *added;
    char *grown = realloc(filter->text, capacity);
    if (!grown)
        return false;
    filter->text = grown;
    filter->capacity = capacity;
    return write_token(filter, token, filter->text + filter->bytes, filter->capacity - filter->bytes - SPARE, added);
}

static bool allows(void *user, int32_t token) {
    struct grammar_filter *filter = user;
    size_t added;
    if (kvc_token_ends_turn(filter->model, token))
        return filter->whole;
    if (!append(filter, token, &added) || added == 0)
        return false;
    return kvc_matcher_possible(&filter->matcher, filter->text, filter->bytes + added);
}

/* Strikes out the tokens whose first byte is impossible. If few tokens are left, or if `all` is true, compares each of
 * them with the grammar. */
static void strike(void *user, float *logits, bool all) {
    struct grammar_filter *filter = user;
    bool possible[256];
    uint32_t left = 0;
    for (unsigned b = 0; b < 256; b++) {
        filter->text[filter->bytes] = (char)b;
        possible[b] = kvc_matcher_possible(&filter->matcher, filter->text, filter->bytes + 1);
    }
    for (uint32_t t = 0; t < filter->vocab; t++) {
        size_t added = 0;
        const bool ends = kvc_token_ends_turn(filter->model, (int32_t)t);
        if (!(logits[t] > -INFINITY))
            continue;
        if (ends ? filter->whole
                 : append(filter, (int32_t)t, &added) && added > 0 &&
                       possible[(unsigned char)filter->text[filter->bytes]])
            left++;
        else
            logits[t] = -INFINITY;
    }
    for (uint32_t t = 0; (all || left <= FEW) && t < filter->vocab; t++)
        if (logits[t] > -INFINITY && !allows(filter, (int32_t)t))
            logits[t] = -INFINITY;
}

static void accept(void *user, int32_t token) {
    struct grammar_filter *filter = user;
    size_t added;
    if (kvc_token_ends_turn(filter->model, token) || !append(filter, token, &added))
        return;
    KVC_ASSERT(filter->bytes + added + SPARE <= filter->capacity);
    filter->bytes += added;
    filter->first = false;
    kvc_matcher_refill(&filter->matcher);
    filter->whole = kvc_matcher_whole(&filter->matcher, filter->text, filter->bytes);
}

static bool whole(const void *user) { return ((const struct grammar_filter *)user)->whole; }

static void close_filter(void *user) {
    struct grammar_filter *filter = user;
    kvc_matcher_close(&filter->matcher);
    free(filter->text);
    free(filter);
}

static struct grammar_filter *open_filter(const struct kvc_model *model, const struct kvc_grammar *grammar,
                                          uint32_t vocab, bool first) {
    struct grammar_filter *filter = calloc(1, sizeof *filter);
    if (!filter)
        return NULL;
    filter->model = model;
    filter->vocab = vocab;
    filter->first = first;
    filter->names = kvc_grammar_names(grammar);
    filter->capacity = 256;
    filter->text = malloc(filter->capacity);
    if (!filter->text || !kvc_matcher_open(&filter->matcher, grammar)) {
        free(filter->text);
        free(filter);
        return NULL;
    }
    filter->whole = kvc_matcher_whole(&filter->matcher, filter->text, 0);
    if (filter->matcher.no_memory) { /* the first match allocates memory for the later ones, too */
        close_filter(filter);
        return NULL;
    }
    return filter;
}

enum kvc_status kvc_sampler_grammar(struct kvc_sampler *sampler, const struct kvc_model *model,
                                    const struct kvc_grammar *grammar, bool first, struct kvc_error *error) {
    struct grammar_filter *filter;
    size_t bytes;
    if (!grammar)
        return kvc_sampler_filter(sampler, NULL, error);
    if (kvc_sampler_vocab(sampler) != model->info.vocab)
        return kvc_fail(error, KVC_USAGE, "grammar: the sampler is for %u tokens, and the model has %u",
                        kvc_sampler_vocab(sampler), model->info.vocab);
    const enum kvc_status status = kvc_token_bytes(model, 0, first, NULL, 0, &bytes, error);
    if (status != KVC_OK)
        return status;
    filter = open_filter(model, grammar, model->info.vocab, first);
    if (!filter)
        return kvc_fail(error, KVC_RESOURCE, "grammar: no memory");
    const struct kvc_token_filter made = {
        .user = filter, .allows = allows, .strike = strike, .accept = accept, .whole = whole, .close = close_filter};
    const enum kvc_status set = kvc_sampler_filter(sampler, &made, error);
    if (set != KVC_OK)
        close_filter(filter);
    return set;
}

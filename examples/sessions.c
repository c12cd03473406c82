/* sessions.c - decodes several sessions of one model in one batch, each with its own policy. Batching changes no
 * result: the hash of a session's logits is the same as if the session ran alone.
 *
 *     ./sessions MODEL "a prompt" full streaming:budget=64 morphkv:budget=64 */
#include <kvcull.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 16, STEPS = 32 };

struct run {
    struct kvc_session *session[MOST];
    struct kvc_hash *hash[MOST];
    int32_t token[MOST];
    size_t count;
};

static int32_t likeliest(const float *logits, uint32_t vocab) {
    int32_t best = 0;
    for (uint32_t t = 1; t < vocab; t++) {
        if (logits[t] > logits[best])
            best = (int32_t)t;
    }
    return best;
}

static void close_run(struct run *run) {
    for (size_t i = 0; i < run->count; i++) {
        kvc_session_close(run->session[i]);
        kvc_hash_close(run->hash[i]);
    }
    run->count = 0;
}

/* Opens a session for each policy, feeds the prompt to each, then decodes all of them together. */
static enum kvc_status decode_together(struct kvc_model *model, char **policies, size_t count, const int32_t *tokens,
                                       size_t token_count, float *logits, struct run *run, struct kvc_error *error) {
    const uint32_t vocab = kvc_model_info(model)->vocab;
    struct kvc_session_options options;
    enum kvc_status status = KVC_OK;
    kvc_session_defaults(&options);
    for (size_t i = 0; i < count && status == KVC_OK; i++) {
        options.policy = policies[i];
        status = kvc_session_open(model, &options, &run->session[i], error);
        if (status != KVC_OK)
            break;
        run->count++;
        run->hash[i] = kvc_hash_open();
        if (!run->hash[i])
            return kvc_fail(error, KVC_RESOURCE, "no memory for a hash");
        status = kvc_session_prompt(run->session[i], tokens, token_count, NULL, logits, error);
        if (status != KVC_OK)
            break;
        kvc_hash_add(run->hash[i], logits, vocab);
        run->token[i] = likeliest(logits, vocab);
    }
    for (int step = 0; step < STEPS && status == KVC_OK; step++) {
        status = kvc_decode(run->session, run->token, count, logits, NULL, error);
        for (size_t i = 0; i < count && status == KVC_OK; i++) {
            kvc_hash_add(run->hash[i], logits + i * vocab, vocab);
            run->token[i] = likeliest(logits + i * vocab, vocab);
        }
    }
    return status;
}

int main(int argc, char **argv) {
    if (argc < 4 || argc > 3 + MOST) {
        fprintf(stderr, "usage: sessions MODEL PROMPT POLICY... (at most %d)\n", MOST);
        return KVC_USAGE;
    }
    struct kvc_error error;
    struct kvc_engine *engine = NULL;
    struct kvc_model *model = NULL;
    int32_t *tokens = NULL;
    size_t token_count;
    float *logits = NULL;
    const size_t count = (size_t)argc - 3;
    struct run together = {.count = 0};
    enum kvc_status status = kvc_engine_open(NULL, &engine, &error);
    if (status == KVC_OK)
        status = kvc_model_open(engine, argv[1], &model, &error);
    if (status == KVC_OK)
        status = kvc_tokenize(model, argv[2], strlen(argv[2]), KVC_TOKENIZE_BOS, &tokens, &token_count, &error);
    if (status == KVC_OK) {
        logits = malloc(count * kvc_model_info(model)->vocab * sizeof *logits);
        if (!logits)
            status = kvc_fail(&error, KVC_RESOURCE, "no memory for the logits");
    }
    if (status == KVC_OK)
        status = decode_together(model, argv + 3, count, tokens, token_count, logits, &together, &error);
    for (size_t i = 0; i < count && status == KVC_OK; i++) {
        struct run alone = {.count = 0};
        struct kvc_session_stats stats;
        status = decode_together(model, argv + 3 + i, 1, tokens, token_count, logits, &alone, &error);
        if (status == KVC_OK) {
            const uint64_t hash = kvc_hash_value(together.hash[i]);
            const bool same = hash == kvc_hash_value(alone.hash[0]);
            kvc_session_stats(together.session[i], &stats);
            printf("%-40s %8" PRIu64 " bytes  logits %016" PRIx64 "  %s\n", argv[3 + i],
                   stats.cache_bytes + stats.state_bytes, hash, same ? "same alone" : "DIFFERS ALONE");
            if (!same)
                status = kvc_fail(&error, KVC_DIFFERS, "%s: a batch changed the logits", argv[3 + i]);
        }
        close_run(&alone);
    }
    if (status != KVC_OK)
        fprintf(stderr, "sessions: %s\n", error.text);
    close_run(&together);
    free(tokens);
    free(logits);
    kvc_model_close(model);
    kvc_engine_close(engine);
    return (int)status;
}

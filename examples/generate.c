/* generate.c - the shortest program that uses libkvcull: loads a model and answers a prompt with a bounded cache.
 *
 *     cc generate.c $(pkg-config --cflags --libs kvcull) -o generate
 *     ./generate MODEL "a prompt" snapkv:budget=256 */
#include <kvcull.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ANSWER_TOKENS = 64 };

static enum kvc_status generate(struct kvc_model *model, struct kvc_session *session, const char *prompt, float *logits,
                                struct kvc_error *error) {
    int32_t *tokens;
    size_t count;
    const uint32_t vocab = kvc_model_info(model)->vocab;
    enum kvc_status status = kvc_tokenize(model, prompt, strlen(prompt), KVC_TOKENIZE_BOS, &tokens, &count, error);
    if (status != KVC_OK)
        return status;
    status = kvc_session_prompt(session, tokens, count, NULL, logits, error);
    free(tokens);
    for (int i = 0; i < ANSWER_TOKENS && status == KVC_OK; i++) {
        int32_t token = 0;
        for (uint32_t t = 1; t < vocab; t++) {
            if (logits[t] > logits[token])
                token = (int32_t)t;
        }
        if (kvc_token_ends_turn(model, token))
            break;
        char piece[256];
        size_t bytes;
        status = kvc_token_bytes(model, token, i == 0, piece, sizeof piece, &bytes, error);
        if (status != KVC_OK)
            break;
        fwrite(piece, 1, bytes < sizeof piece ? bytes : sizeof piece, stdout);
        status = kvc_decode(&session, &token, 1, logits, NULL, error);
    }
    printf("\n");
    return status;
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: generate MODEL PROMPT [POLICY]\n");
        return KVC_USAGE;
    }
    struct kvc_error error;
    struct kvc_engine *engine = NULL;
    struct kvc_model *model = NULL;
    struct kvc_session *session = NULL;
    struct kvc_session_options options;
    float *logits = NULL;
    kvc_session_defaults(&options);
    options.policy = argc > 3 ? argv[3] : "full";

    enum kvc_status status = kvc_engine_open(NULL, &engine, &error);
    if (status == KVC_OK)
        status = kvc_model_open(engine, argv[1], &model, &error);
    if (status == KVC_OK)
        status = kvc_session_open(model, &options, &session, &error);
    if (status == KVC_OK) {
        logits = malloc(kvc_model_info(model)->vocab * sizeof *logits);
        status = logits ? generate(model, session, argv[2], logits, &error)
                        : kvc_fail(&error, KVC_RESOURCE, "no memory for the logits");
    }
    if (status == KVC_OK) {
        struct kvc_session_stats stats;
        kvc_session_stats(session, &stats);
        printf("%llu tokens; cache %llu bytes, full would hold %llu\n", (unsigned long long)stats.tokens,
               (unsigned long long)(stats.cache_bytes + stats.state_bytes), (unsigned long long)stats.full_bytes);
    } else {
        fprintf(stderr, "generate: %s\n", error.text);
    }
    free(logits);
    kvc_session_close(session);
    kvc_model_close(model);
    kvc_engine_close(engine);
    return (int)status;
}

/* questions.c - reads a long text once, saves the session, and answers questions from the saved session.
 *
 * Any process can load the session later. Each question uses its own fork of the session, so no question sees another
 * question, and the text is never read again.
 *
 *     ./questions MODEL FILE snapkv:budget=512 "a long text"      # reads and saves
 *     ./questions MODEL FILE "a question" "another one"           # loads and answers two or more questions */
#include "kvcull/saved.h"
#include <kvcull.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 16 };

/* Appends a text to the session as its next turn. */
static enum kvc_status give(struct kvc_model *model, struct kvc_session *session, const char *text, unsigned flags,
                            float *logits, struct kvc_error *error) {
    int32_t *tokens = NULL;
    size_t count = 0;
    enum kvc_status status = kvc_tokenize(model, text, strlen(text), flags, &tokens, &count, error);
    if (status == KVC_OK)
        status = kvc_session_prompt(session, tokens, count, NULL, logits, error);
    free(tokens);
    return status;
}

static enum kvc_status read_text(struct kvc_model *model, const char *path, const char *policy, const char *text,
                                 struct kvc_error *error) {
    struct kvc_session_options options;
    struct kvc_session *session = NULL;
    struct kvc_session_stats stats;
    kvc_session_defaults(&options);
    options.policy = policy;
    enum kvc_status status = kvc_session_open(model, &options, &session, error);
    if (status == KVC_OK)
        status = give(model, session, text, KVC_TOKENIZE_BOS, NULL, error);
    if (status == KVC_OK)
        status = kvc_session_save(session, path, NULL, error);
    if (status == KVC_OK) {
        kvc_session_stats(session, &stats);
        printf("%llu tokens read, %llu entries saved\n", (unsigned long long)stats.tokens,
               (unsigned long long)stats.entries);
    }
    kvc_session_close(session);
    return status;
}

/* Generates the greedy answer to a question in a fork of the session. */
static enum kvc_status answer(struct kvc_model *model, struct kvc_session *text, const char *question, float *logits,
                              struct kvc_error *error) {
    struct kvc_session *session;
    char *made = NULL;
    size_t bytes;
    int32_t tokens[MOST];
    size_t count = 0;
    enum kvc_status status = kvc_session_fork(text, &session, error);
    if (status != KVC_OK)
        return status;
    status = give(model, session, question, 0, logits, error);
    while (status == KVC_OK && count < MOST) {
        int32_t best = 0;
        for (uint32_t t = 1; t < kvc_model_info(model)->vocab; t++)
            best = logits[t] > logits[best] ? (int32_t)t : best;
        if (kvc_token_ends_turn(model, best))
            break;
        tokens[count++] = best;
        status = kvc_decode(&session, &best, 1, logits, NULL, error);
    }
    if (status == KVC_OK)
        status = kvc_detokenize(model, tokens, count, false, &made, &bytes, error);
    if (status == KVC_OK)
        printf("%s ...%s\n", question, made);
    free(made);
    kvc_session_close(session);
    return status;
}

int main(int argc, char **argv) {
    struct kvc_engine *engine = NULL;
    struct kvc_model *model = NULL;
    struct kvc_session *text = NULL;
    struct kvc_error error;
    float *logits = NULL;
    if (argc < 5) {
        fprintf(stderr, "usage: questions MODEL FILE POLICY TEXT, then MODEL FILE QUESTION QUESTION...\n");
        return KVC_USAGE;
    }
    const bool there = access(argv[2], F_OK) == 0;
    enum kvc_status status = kvc_engine_open(NULL, &engine, &error);
    if (status == KVC_OK)
        status = kvc_model_open(engine, argv[1], &model, &error);
    if (status == KVC_OK && !there)
        status = read_text(model, argv[2], argv[3], argv[4], &error);
    if (status == KVC_OK && there)
        status = kvc_session_load(model, NULL, argv[2], NULL, &text, &error);
    if (text && !(logits = malloc(kvc_model_info(model)->vocab * sizeof *logits)))
        status = kvc_fail(&error, KVC_RESOURCE, "no memory for the logits");
    for (int i = 3; i < argc && there && status == KVC_OK; i++)
        status = answer(model, text, argv[i], logits, &error);
    if (status != KVC_OK)
        fprintf(stderr, "questions: %s\n", error.text);
    free(logits);
    kvc_session_close(text);
    kvc_model_close(model);
    kvc_engine_close(engine);
    return (int)status;
}

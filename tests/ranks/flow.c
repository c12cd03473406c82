/* flow.c - calls through a pipeline, by one process or several (--ranks): prints the results, which must not depend on
 * the number of processes, and prints to stderr the number of messages of the first prompt. flow MODEL [nan]: with nan,
 * the weights have a NaN, so prompts fail; with tensor, the processes share layers, and only interrupts are tried. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvcull/ranks.h"

enum { PROMPT = 90, SESSIONS = 40, STEPS = 4 };

struct run {
    struct kvc_model *model;
    struct kvc_ranks *ranks;
    uint32_t vocab;
    int32_t tokens[PROMPT];
    float *logits; /* [SESSIONS, vocab] */
    struct kvc_session *other;
    unsigned calls, stop; /* calls of the progress function so far; the call that stops the prompt, 0: none */
};

static void check(enum kvc_status status, const struct kvc_error *error) {
    if (status == KVC_OK)
        return;
    fprintf(stderr, "kvcull: %s\n", error->text);
    exit((int)status);
}

static uint64_t hash(const float *values, size_t count) {
    uint64_t h = 1469598103934665603u;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, values + i, sizeof bits);
        h = (h ^ bits) * 1099511628211u;
    }
    return h;
}

static struct kvc_session *session_of(const struct run *run, const char *policy, uint32_t chunk) {
    struct kvc_session_options options;
    struct kvc_session *session;
    struct kvc_error error;
    kvc_session_defaults(&options);
    options.policy = policy;
    options.chunk = chunk;
    check(kvc_session_open(run->model, &options, &session, &error), &error);
    return session;
}

/* Takes a step of another session during the prompt. */
static int progress(void *user, uint64_t done, uint64_t total) {
    struct run *run = user;
    struct kvc_error error;
    (void)done, (void)total;
    if (run->other)
        check(kvc_decode(&run->other, run->tokens, 1, NULL, NULL, &error), &error);
    return ++run->calls == run->stop;
}

/* Reads a prompt in two turns and prints the results. */
static void prompt(struct run *run, const char *policy, uint32_t chunk) {
    const struct kvc_prompt_options options = {.progress = progress, .user = run};
    struct kvc_session *session = session_of(run, policy, chunk);
    struct kvc_error error = {KVC_OK, ""};
    enum kvc_status status = kvc_session_prompt(session, run->tokens, 70, &options, run->logits, &error);
    if (status == KVC_OK)
        printf("prompt %s %u: %016llx", policy, chunk, (unsigned long long)hash(run->logits, run->vocab));
    if (status == KVC_OK)
        status = kvc_session_prompt(session, run->tokens + 70, PROMPT - 70, NULL, run->logits, &error);
    if (status == KVC_OK)
        printf(" %016llx\n", (unsigned long long)hash(run->logits, run->vocab));
    else
        printf("prompt %s %u: %d: %s\n", policy, chunk, (int)status, error.text);
    kvc_session_close(session);
}

/* Prompts that share their rows; some methods observe the whole prompt in each layer. */
static void prompts(struct run *run, const char *const *policies, size_t count) {
    struct kvc_session *sessions[4] = {NULL};
    struct kvc_error error;
    for (size_t i = 0; i < count; i++)
        sessions[i] = session_of(run, policies[i], 8);
    check(kvc_session_prompt_many(sessions, count, run->tokens, PROMPT, run->logits, NULL, &error), &error);
    printf("prompts: %016llx\n", (unsigned long long)hash(run->logits, count * run->vocab));
    for (size_t i = 0; i < count; i++)
        kvc_session_close(sessions[i]);
}

/* Steps of so many sessions that they form several groups. */
static void steps(struct run *run) {
    static const char *const policies[] = {"full", "streaming:budget=12", "h2o:budget=12", "sparq:budget=12"};
    struct kvc_session *sessions[SESSIONS];
    struct kvc_error error;
    for (uint32_t i = 0; i < SESSIONS; i++) {
        sessions[i] = session_of(run, policies[i % 4], 0);
        check(kvc_session_prompt(sessions[i], run->tokens + i, 20 + i % 3, NULL, NULL, &error), &error);
    }
    for (uint32_t s = 0; s < STEPS; s++) {
        check(kvc_decode(sessions, run->tokens + s, SESSIONS, run->logits, NULL, &error), &error);
        printf("step %u: %016llx\n", s, (unsigned long long)hash(run->logits, (size_t)SESSIONS * run->vocab));
    }
    for (uint32_t i = 0; i < SESSIONS; i++)
        kvc_session_close(sessions[i]);
}

static int at_the_third(void *asked) { return ++*(unsigned *)asked == 3; }

/* Interrupts a prompt within its first layers. All processes end it, and can read the next one. */
static void interrupted(struct run *run, struct kvc_engine *engine) {
    unsigned asked = 0;
    struct kvc_error error;
    check(kvc_engine_on_interrupt(engine, at_the_third, &asked, &error), &error);
    prompt(run, "full", 7);
    asked = 0;
    prompt(run, "snapkv:budget=24,window=4", 7);
    check(kvc_engine_on_interrupt(engine, NULL, NULL, &error), &error);
    prompt(run, "full", 7);
}

static void good(struct run *run) {
    static const char *const flowing[] = {"full", "sparq:budget=12"}, *const mixed[] = {"full", "snapkv:budget=40"};
    struct kvc_ranks_traffic before, after;
    struct kvc_error error;
    kvc_ranks_all_traffic(run->ranks, &before);
    prompt(run, "full", 7);
    kvc_ranks_all_traffic(run->ranks, &after);
    fprintf(stderr, "messages %llu\n", (unsigned long long)(after.messages - before.messages));
    prompt(run, "full", 32);
    prompt(run, "sparq:budget=12", 7);
    prompt(run, "h2o:budget=30,stages=decode", 11);
    prompt(run, "take:budget=24,chunk=16,probe=4,warmup_layers=0", 7);
    prompt(run, "snapkv:budget=24,window=4", 7);
    prompts(run, flowing, 2);
    prompts(run, mixed, 2);
    steps(run);
    run->other = session_of(run, "full", 0);
    check(kvc_session_prompt(run->other, run->tokens, 9, NULL, NULL, &error), &error);
    prompt(run, "full", 7);
    kvc_session_close(run->other);
    run->other = NULL;
    run->calls = 0;
    run->stop = 2;
    prompt(run, "full", 7);
}

int main(int argc, char **argv) {
    struct run run = {.model = NULL};
    struct kvc_error error;
    if (argc < 2)
        return KVC_USAGE;
    const char *kind = argc > 2 ? argv[2] : "";
    check(kvc_ranks_open(strcmp(kind, "tensor") ? "pipeline" : "tensor", NULL, &run.ranks, &error), &error);
    if (kvc_ranks_rank(run.ranks) > 0) {
        kvc_ranks_follow(run.ranks);
        kvc_ranks_close(run.ranks);
        return KVC_OK;
    }
    struct kvc_engine_options options = {.backend = "cpu", .threads = 1, .ranks = run.ranks};
    struct kvc_engine *engine;
    check(kvc_engine_open(&options, &engine, &error), &error);
    check(kvc_model_open(engine, argv[1], &run.model, &error), &error);
    run.vocab = kvc_model_info(run.model)->vocab;
    run.logits = malloc((size_t)SESSIONS * run.vocab * sizeof *run.logits);
    if (!run.logits)
        return KVC_RESOURCE;
    for (uint32_t i = 0; i < PROMPT; i++)
        run.tokens[i] = (int32_t)(20 + i * 37 % 300);
    if (!strcmp(kind, "nan"))
        prompt(&run, "full", 4);
    else if (!*kind)
        good(&run);
    run.stop = 0;
    if (strcmp(kind, "nan"))
        interrupted(&run, engine);
    free(run.logits);
    kvc_model_close(run.model);
    kvc_engine_close(engine);
    kvc_ranks_close(run.ranks);
    return KVC_OK;
}

/* fuzz_run.c - input: a GGUF file. Runs a prompt and a few steps of the model with a policy; returned logits must be
 * finite. */
#include "core/engine/finite.h"
#include "tests/fuzz/memory_file.h"

static const char *const policies[] = {"full",
                                       "streaming:budget=5,sinks=1,positions=cache",
                                       "snapkv:budget=4,window=2+morphkv:budget=4,window=2",
                                       "quest:budget=3,page=2",
                                       "take:budget=4,chunk=5,probe=2",
                                       "h2o:budget=5,per=head"};

static void step(struct kvc_session *session, int32_t token, uint32_t vocab, float *logits) {
    struct kvc_error error = {0};
    const enum kvc_status status = kvc_decode(&session, &token, 1, logits, NULL, &error);
    check(status == KVC_OK ? kvc_finite(logits, vocab) : error.text[0] && !strchr(error.text, '\n'));
}

static void run(struct kvc_model *model, const char *policy) {
    const uint32_t vocab = kvc_model_info(model)->vocab;
    struct kvc_session_options options;
    struct kvc_session *session;
    struct kvc_error error = {0};
    int32_t tokens[12];
    float *logits = malloc(vocab * sizeof *logits);
    kvc_session_defaults(&options);
    options.policy = policy;
    options.chunk = 4;
    check(logits != NULL);
    for (uint32_t i = 0; i < 12; i++)
        tokens[i] = (int32_t)(i * i % vocab);
    enum kvc_status status = kvc_session_open(model, &options, &session, &error);
    if (status == KVC_OK)
        status = kvc_session_prompt(session, tokens, 12, NULL, logits, &error);
    check(status == KVC_OK ? kvc_finite(logits, vocab) : error.text[0] && !strchr(error.text, '\n'));
    for (int i = 0; i < 3 && status == KVC_OK; i++) /* after a failed step the session refuses further steps */
        step(session, tokens[i], vocab, logits);
    kvc_session_close(session);
    free(logits);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static struct kvc_engine *engine;
    struct kvc_model *model = NULL;
    struct kvc_error error = {0};
    if (!engine) {
        const struct kvc_engine_options options = {.backend = "ref", .threads = 1};
        check(kvc_engine_open(&options, &engine, &error) == KVC_OK);
    }
    const enum kvc_status status = kvc_model_open(engine, memory_file(data, bytes), &model, &error);
    if (status) {
        check_refusal(status, model, &error);
        return 0;
    }
    const struct kvc_model_info *info = kvc_model_info(model);
    if (info->layers <= 8 && info->vocab <= 4096 && info->heads <= 64 && info->head_size <= 256) /* only fast models */
        for (size_t i = 0; i < 2; i++)
            run(model, policies[(bytes + 3 * i) % (sizeof policies / sizeof *policies)]);
    kvc_model_close(model);
    return 0;
}

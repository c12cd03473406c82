/* policy.c - a policy that is not part of the library and is registered at run time.
 *
 * "fade" keeps the entries that the prompt's last queries attended to. The older an entry, the lower its score. The
 * example shows that a policy can compute on the backend (window mass and selection) and on the host (fading).
 *
 *     ./policy MODEL "a prompt" fade:budget=48,halve=100 */
#include <kvcull.h>
#include <kvcull/policy.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 8 };

static const struct kvc_option options[] = {
    {"budget", KVC_OPTION_BUDGET, NULL, WINDOW + 1, 1e6, NULL, "entries kept per KV head after the prompt"},
    {"halve", KVC_OPTION_REAL, "256", 1, 1e6, NULL, "tokens over which a score halves"},
    {NULL, KVC_OPTION_INT, NULL, 0, 0, NULL, NULL}};

static uint32_t queries(const struct kvc_values *values) {
    (void)values;
    return WINDOW;
}

/* Computes one head's scores on the host: an entry's score is halved for every `halve` tokens of its age. */
static enum kvc_status fade_head(struct kvc_stage *stage, struct kvc_scores *scores, uint32_t head, double halve,
                                 float *values, int32_t *positions, size_t capacity, struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    size_t count;
    enum kvc_status status = kvc_stage_read_scores(stage, scores, head, values, capacity, &count, error);
    if (status == KVC_OK)
        status = kvc_stage_read_positions(stage, head, positions, capacity, &count, error);
    if (status != KVC_OK)
        return status;
    for (size_t i = 0; i < count; i++) {
        const double age = (double)info->now - 1 - positions[i];
        values[i] *= (float)exp2(-age / halve);
    }
    return kvc_stage_write_scores(stage, scores, head, values, count, error);
}

static enum kvc_status prompt(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    const uint64_t budget = kvc_value_budget(values, "budget", info->held, WINDOW + 1);
    if (info->entries <= budget)
        return KVC_OK;
    const uint32_t window = info->turn < WINDOW ? (uint32_t)info->turn : WINDOW;
    struct kvc_scores *scores;
    enum kvc_status status = kvc_stage_scores(stage, &scores, error);
    if (status == KVC_OK)
        status = kvc_stage_window_mass(stage, window, scores, error);
    if (status != KVC_OK)
        return status;
    float *host = malloc(info->entries * sizeof *host);
    int32_t *positions = malloc(info->entries * sizeof *positions);
    if (!host || !positions)
        status = kvc_fail(error, KVC_RESOURCE, "no memory for %u scores", (unsigned)info->entries);
    for (uint32_t head = 0; head < info->kv_heads && status == KVC_OK; head++)
        status = fade_head(stage, scores, head, kvc_value_real(values, "halve"), host, positions, info->entries, error);
    free(host);
    free(positions);
    if (status != KVC_OK)
        return status;
    const struct kvc_keep keep = {.tail = window, .top = budget - window, .recent = INT64_MAX, .scores = scores};
    return kvc_stage_keep(stage, &keep, error);
}

static const struct kvc_policy_class fade = {.name = "fade",
                                             .summary = "what the last queries attended to, fading with distance",
                                             .paper = "-",
                                             .idea = "An example of a policy outside the library.",
                                             .formula = "score_j = mass_j * 2^(-age_j / halve)",
                                             .memory = "budget entries, one more per generated token",
                                             .traffic = "all entries held",
                                             .differences = "none",
                                             .stages = KVC_STAGE_PROMPT,
                                             .options = options,
                                             .queries = queries,
                                             .prompt = prompt};

int main(int argc, char **argv) {
    if (argc < 4) {
        fprintf(stderr, "usage: policy MODEL PROMPT fade:budget=48[,halve=N]\n");
        return KVC_USAGE;
    }
    struct kvc_error error;
    struct kvc_engine *engine = NULL;
    struct kvc_model *model = NULL;
    struct kvc_session *session = NULL;
    int32_t *tokens = NULL;
    size_t count;
    struct kvc_session_options session_options;
    kvc_session_defaults(&session_options);
    session_options.policy = argv[3];

    enum kvc_status status = kvc_engine_open(NULL, &engine, &error);
    if (status == KVC_OK)
        status = kvc_engine_register(engine, &fade, &error);
    if (status == KVC_OK)
        status = kvc_model_open(engine, argv[1], &model, &error);
    if (status == KVC_OK)
        status = kvc_session_open(model, &session_options, &session, &error);
    if (status == KVC_OK)
        status = kvc_tokenize(model, argv[2], strlen(argv[2]), KVC_TOKENIZE_BOS, &tokens, &count, &error);
    if (status == KVC_OK)
        status = kvc_session_prompt(session, tokens, count, NULL, NULL, &error);
    int32_t positions[64];
    size_t kept = 0;
    if (status == KVC_OK)
        status = kvc_session_positions(session, 0, 0, positions, 64, &kept, &error);
    if (status == KVC_OK) {
        printf("%zu tokens; layer 0, head 0 keeps %zu:", count, kept);
        for (size_t i = 0; i < kept && i < 64; i++)
            printf(" %d", (int)positions[i]);
        printf("\n");
    } else {
        fprintf(stderr, "policy: %s\n", error.text);
    }
    free(tokens);
    kvc_session_close(session);
    kvc_model_close(model);
    kvc_engine_close(engine);
    return (int)status;
}

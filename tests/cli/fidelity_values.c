/* fidelity_values.c - fidelity_values MODEL TEXT STEPS SPEC: computes the results of `kvcull eval fidelity` for a
 * policy step by step from two sessions, and prints them as JSON for test_eval.sh. */
#include "kvcull.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FULL, POLICY };

struct outputs { /* The layer outputs of one decode step; the policy's are compared with the full cache's. */
    float *full;
    uint32_t width;
    double error; /* the sum over layers and steps */
};

static void keep(void *user, uint32_t layer, const float *output) {
    struct outputs *o = user;
    memcpy(o->full + (size_t)layer * o->width, output, o->width * sizeof *output);
}

static void compare(void *user, uint32_t layer, const float *output) {
    struct outputs *o = user;
    double away = 0, size = 0;
    for (uint32_t i = 0; i < o->width; i++) {
        const double x = (double)o->full[(size_t)layer * o->width + i];
        away += pow((double)output[i] - x, 2);
        size += x * x;
    }
    o->error += sqrt(away / size);
}

static double normalizer(const float *x, uint32_t n) {
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += exp((double)x[i]);
    return log(sum);
}

static double divergence(const float *p, const float *q, uint32_t n) {
    const double p_sum = normalizer(p, n), q_sum = normalizer(q, n);
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += exp((double)p[i] - p_sum) * ((double)p[i] - p_sum - ((double)q[i] - q_sum));
    return sum;
}

static int32_t likeliest(const float *x, uint32_t n) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        best = x[i] > x[best] ? i : best;
    return (int32_t)best;
}

static struct kvc_error error;

static void must(enum kvc_status status) {
    if (status == KVC_OK)
        return;
    fprintf(stderr, "%s\n", error.text);
    exit(1);
}

int main(int argc, char **argv) {
    static char text[1 << 16];
    struct kvc_engine *engine;
    struct kvc_model *model;
    struct kvc_session *session[2];
    struct kvc_session_stats first, last;
    float *logits[2];
    int32_t *tokens;
    size_t count, bytes = 0;
    FILE *file = argc == 5 ? fopen(argv[2], "rb") : NULL;
    if (!file)
        return 2;
    bytes = fread(text, 1, sizeof text, file);
    fclose(file);
    const long steps = strtol(argv[3], NULL, 10);
    must(kvc_engine_open(NULL, &engine, &error));
    must(kvc_model_open(engine, argv[1], &model, &error));
    must(kvc_tokenize(model, text, bytes, KVC_TOKENIZE_BOS, &tokens, &count, &error));
    const struct kvc_model_info *info = kvc_model_info(model);
    struct outputs outputs = {.width = info->heads * info->head_size};
    outputs.full = malloc((size_t)info->layers * outputs.width * sizeof(float));
    for (int s = FULL; s <= POLICY; s++) {
        struct kvc_session_options options;
        kvc_session_defaults(&options);
        options.policy = s == FULL ? "full" : argv[4];
        options.expected = (uint64_t)steps;
        logits[s] = malloc(info->vocab * sizeof(float));
        if (!logits[s] || !outputs.full)
            return 4;
        must(kvc_session_open(model, &options, &session[s], &error));
        must(kvc_session_watch(session[s], s == FULL ? keep : compare, &outputs, &error));
        must(kvc_session_prompt(session[s], tokens, count, NULL, logits[s], &error));
    }
    kvc_session_stats(session[POLICY], &first);
    double sum = divergence(logits[FULL], logits[POLICY], info->vocab);
    long same = likeliest(logits[FULL], info->vocab) == likeliest(logits[POLICY], info->vocab);
    for (long i = 0; i < steps; i++) {
        const int32_t token = likeliest(logits[FULL], info->vocab); /* the full run's token, for both */
        for (int s = FULL; s <= POLICY; s++)
            must(kvc_decode(&session[s], &token, 1, logits[s], NULL, &error));
        sum += divergence(logits[FULL], logits[POLICY], info->vocab);
        same += likeliest(logits[FULL], info->vocab) == likeliest(logits[POLICY], info->vocab);
    }
    kvc_session_stats(session[POLICY], &last);
    printf("{\"kl\": %.12g, \"same_top\": %.12g, \"output_error\": %.12g, \"prompt_peak_bytes\": %llu, "
           "\"held_bytes\": %llu, \"end_bytes\": %llu, \"read_bytes_per_token\": %llu}\n",
           sum / (double)(steps + 1), (double)same / (double)(steps + 1), outputs.error / (double)steps / info->layers,
           (unsigned long long)first.peak_bytes, (unsigned long long)(first.cache_bytes + first.state_bytes),
           (unsigned long long)(last.cache_bytes + last.state_bytes),
           (unsigned long long)(last.read_bytes / (uint64_t)steps));
    for (int s = FULL; s <= POLICY; s++) {
        kvc_session_close(session[s]);
        free(logits[s]);
    }
    free(outputs.full);
    free(tokens);
    kvc_model_close(model);
    kvc_engine_close(engine);
    return 0;
}

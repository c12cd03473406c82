/* lengths.c - a request's policy, the maximum length of its answers, and a check that they can fit in memory. */
#include <stdlib.h>
#include <string.h>

#include "serve/serve.h"

/* ---- the policy ---- */

/* Returns true if the value at `value` is the word that its option accepts instead of a file. `spec` has no
 * quotes, so the method of this option begins after the last '+' before it. */
static bool is_word(const struct serve *serve, const char *spec, const char *option, const char *value) {
    const size_t length = strcspn(value, ",+");
    const char *method = value;
    while (method > spec && method[-1] != '+')
        method--;
    if (value[length] == '+' && value[length + 1] >= '0' && value[length + 1] <= '9') /* '+' is part of the value */
        return false;
    for (size_t i = 0; kvc_policy(serve->engine, i); i++) {
        const struct kvc_policy_class *policy = kvc_policy(serve->engine, i);
        const size_t n = strlen(policy->name);
        if (strncmp(method, policy->name, n) != 0 || method[n] != ':')
            continue;
        for (const struct kvc_option *o = policy->options; o && o->name; o++)
            if (strcmp(o->name, option) == 0)
                return o->choices && strlen(o->choices) == length && memcmp(o->choices, value, length) == 0;
    }
    return false;
}

/* Returns true if a policy string sets an option that names a file. Such options have kind text and no default.
 * Requests must not use them, because that would read files of the server. A word that names no file is allowed. */
static bool names_file(const struct serve *serve, const char *spec) {
    for (size_t i = 0; kvc_policy(serve->engine, i); i++)
        for (const struct kvc_option *o = kvc_policy(serve->engine, i)->options; o && o->name; o++) {
            char option[64];
            snprintf(option, sizeof option, "%s=", o->name);
            if (o->kind != KVC_OPTION_TEXT || (o->default_value && *o->default_value))
                continue;
            for (const char *at = spec; (at = strstr(at, option)) != NULL;) {
                at += strlen(option);
                if (strchr(spec, '"') || !is_word(serve, spec, o->name, at))
                    return true;
            }
        }
    return false;
}

bool serve_policy_check(const struct serve *serve, const char *spec, const char *field, unsigned *stages,
                        struct serve_error *error) {
    struct kvc_error cause;
    const bool own = strcmp(spec, serve->options->kv) != 0;
    if (strlen(spec) > 1000)
        return serve_refuse(error, 400, SERVE_INVALID, field, NULL, "%s: at most 1000 characters", field);
    if (own && names_file(serve, spec))
        return serve_refuse(error, 400, SERVE_INVALID, field, NULL, "%s: a request may not name files", field);
    if (kvc_policy_stages(serve->engine, spec, stages, &cause) == KVC_OK)
        return true;
    if (cause.status == KVC_USAGE)
        return serve_refuse_by(error, field, &cause);
    return serve_refuse(error, 400, SERVE_INVALID, field, NULL,
                        "%s: this policy needs a file that the server cannot use", field);
}

bool serve_policy_read(struct serve_request *request, struct serve_error *error) {
    const struct serve *serve = request->serve;
    const char *spec = request->values.kv ? request->values.kv : serve->options->kv;
    if (!serve_policy_check(serve, spec, "kv", &request->stages, error))
        return false;
    request->spec = strdup(spec);
    return request->spec ||
           serve_refuse(error, 500, "server_error", "", NULL, "the server has no memory for this request");
}

enum kvc_status serve_estimate(const struct serve *serve, const char *spec, uint64_t prompt, uint64_t generated,
                               struct kvc_estimate *estimate, struct kvc_error *error) {
    const struct kvc_model_info *info = serve->info;
    const struct kvc_geometry geometry = {info->layers, info->heads, info->kv_heads, info->head_size};
    const enum kvc_status status =
        kvc_estimate_windows(serve->engine, spec, &geometry, info->windows, info->hidden,
                             serve->options->common.cache_type, prompt, generated, estimate, error);
    if (status == KVC_OK)
        kvc_estimate_recurrent(estimate, info->recurrent_bytes);
    return status;
}

enum kvc_status serve_forecast(const struct serve *serve, const char *spec, uint64_t prompt, uint64_t generated,
                               uint64_t *bytes, struct kvc_error *error) {
    struct kvc_estimate estimate;
    const enum kvc_status status = serve_estimate(serve, spec, prompt, generated, &estimate, error);
    if (status == KVC_OK)
        *bytes = estimate.peak_bytes + estimate.hidden_bytes;
    return status;
}

/* ---- lengths ---- */

static size_t prepare_longest(const struct serve_request *request) {
    size_t most = 0;
    for (size_t i = 0; i < request->prompt_count; i++)
        most = cli_max(most, request->prompts[i].count);
    return most;
}

bool serve_length_limit(struct serve_request *request, uint64_t prompt, struct serve_error *error) {
    const struct serve *serve = request->serve;
    const struct serve_options *options = serve->options;
    const int64_t wanted = request->values.max_tokens;
    const uint64_t original = serve->info->original_context;
    if (serve->context && (prompt > serve->context || (prompt == serve->context && wanted != 0)))
        return serve_refuse(error, 400, SERVE_INVALID, request->chat ? "messages" : "prompt", "context_length_exceeded",
                            "the prompt has %llu tokens; prompt and answer together may have %llu",
                            (unsigned long long)prompt, (unsigned long long)serve->context);
    request->limit = serve->context ? serve->context - prompt : INT32_MAX;
    if (wanted >= 0)
        request->limit = cli_min(request->limit, (uint64_t)wanted);
    else if (prompt + SERVE_STEP <= original) /* longrope: the answer ends where the short factors end */
        request->limit = cli_min(request->limit, original - prompt);
    if (options->most >= 0)
        request->limit = cli_min(request->limit, (uint64_t)options->most);
    return true;
}

bool serve_length_check(struct serve_request *request, struct serve_error *error) {
    const struct serve *serve = request->serve;
    const uint64_t prompt = prepare_longest(request), buffer = request->values.stream ? SERVE_OUT_LEAST : 0;
    struct kvc_error cause;
    uint64_t bytes = 0;
    if (!serve_length_limit(request, prompt, error))
        return false;
    /* reserves memory up to the end of a block of 256 entries */
    const uint64_t part = cli_min(request->limit, SERVE_STEP - prompt % SERVE_STEP);
    request->promise = request->values.max_tokens < 0 ? part : request->limit;
    for (;;) {
        if (serve_forecast(serve, request->spec, prompt, request->promise, &bytes, &cause) != KVC_OK)
            return serve_refuse_by(error, "kv", &cause);
        if (bytes + buffer <= serve->memory)
            return true;
        if (request->promise == part)
            return serve_refuse(error, 400, SERVE_INVALID, request->chat ? "messages" : "prompt", "too_large",
                                "the cache would need %llu bytes; the server has %llu. Send a shorter prompt, or use "
                                "a policy with a smaller budget",
                                (unsigned long long)(bytes + buffer), (unsigned long long)serve->memory);
        request->promise = part;
    }
}

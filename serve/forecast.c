/* forecast.c - POST /kvcull/forecast: the bytes that policies would hold after a prompt and an answer. The model does
 * not run. */
#include <string.h>

#include "serve/http.h"

enum { POLICIES_MOST = 64 }; /* largest number of policies in one request */

struct forecast { /* data that all policies of the request share */
    const struct serve *serve;
    uint64_t prompt, answer; /* tokens */
    uint64_t full;           /* bytes that `full` would hold */
};

/* Returns how many tokens a session has computed at the end of the answer. It does not compute the answer's last
 * token. */
static uint64_t steps(const struct forecast *forecast) { return forecast->answer - (forecast->answer > 0); }

static bool put_forecast(struct serve_text *text, const struct forecast *forecast, const char *spec, const char *field,
                         struct serve_error *error) {
    struct kvc_estimate estimate;
    struct kvc_error cause;
    unsigned stages;
    if (!serve_policy_check(forecast->serve, spec, field, &stages, error))
        return false;
    if (serve_estimate(forecast->serve, spec, forecast->prompt, steps(forecast), &estimate, &cause) != KVC_OK)
        return serve_refuse_by(error, field, &cause);
    serve_text_put(text, "{\"kv\":");
    serve_text_string(text, spec, strlen(spec));
    serve_text_print(text,
                     ",\"prompt_tokens\":%llu,\"max_tokens\":%llu,\"cache\":%llu,\"state\":%llu,\"peak\":%llu,"
                     "\"full\":%llu,\"exact\":%s,\"entries\":",
                     (unsigned long long)forecast->prompt, (unsigned long long)forecast->answer,
                     (unsigned long long)estimate.cache_bytes, (unsigned long long)estimate.state_bytes,
                     (unsigned long long)estimate.peak_bytes, (unsigned long long)forecast->full,
                     estimate.kind == KVC_EXPECTED_EXACT ? "true" : "false");
    serve_text_number(text, (double)estimate.all_entries / (double)cli_max(estimate.lists, 1));
    serve_text_print(text, ",\"lists\":%llu}", (unsigned long long)estimate.lists);
    return true;
}

static void put_refused(struct serve_text *text, const char *spec, const struct serve_error *error) {
    serve_text_put(text, "{\"kv\":");
    serve_text_string(text, spec, strlen(spec));
    serve_text_put(text, ",\"error\":");
    serve_text_string(text, error->text, strlen(error->text));
    serve_text_put(text, "}");
}

static bool put_forecasts(struct serve_text *text, const struct forecast *forecast, const json_t *specs,
                          struct serve_error *error) {
    if (!json_is_array(specs) || json_array_size(specs) > POLICIES_MOST)
        return serve_refuse(error, 400, SERVE_INVALID, "kvs", NULL, "kvs: must be an array of at most %d policies",
                            POLICIES_MOST);
    serve_text_put(text, "{\"forecasts\":[");
    for (size_t i = 0; i < json_array_size(specs); i++) {
        const json_t *spec = json_array_get(specs, i);
        if (!json_is_string(spec))
            return serve_refuse(error, 400, SERVE_INVALID, "kvs", NULL, "kvs: each policy must be a text");
        serve_text_put(text, i ? "," : "");
        /* If one policy is wrong, for example because its budget is smaller than its window, the others still get
         * forecasts. */
        if (!put_forecast(text, forecast, json_string_value(spec), "kvs", error))
            put_refused(text, json_string_value(spec), error);
    }
    serve_text_put(text, "]}");
    return true;
}

/* Counts the prompt's tokens. The request has their number, or messages, or one text, or one array of token ids. */
static bool count_prompt(struct serve_request *request, uint64_t *tokens, struct serve_error *error) {
    const struct serve_values *values = &request->values;
    const int given = (values->prompt_tokens >= 0) + (values->messages != NULL) + (values->prompt != NULL);
    if (given != 1)
        return serve_refuse(error, 400, SERVE_INVALID, "prompt_tokens", NULL,
                            "prompt_tokens: give one of prompt_tokens, messages and prompt");
    *tokens = values->prompt_tokens > 0 ? (uint64_t)values->prompt_tokens : 0;
    if (values->prompt_tokens >= 0)
        return true;
    request->chat = values->messages != NULL;
    if (!serve_tools_read(request, error) || !serve_prompt_read(request, error))
        return false;
    if (request->prompt_count != 1)
        return serve_refuse(error, 400, SERVE_INVALID, "prompt", NULL, "prompt: must be one prompt");
    *tokens = request->prompts[0].count;
    return true;
}

/* Writes the answer to a request whose fields have been read. */
static bool answer(struct serve_request *request, struct serve_text *text, struct serve_error *error) {
    const struct serve *serve = request->serve;
    struct serve_values *values = &request->values;
    struct forecast forecast = {.serve = serve};
    struct kvc_estimate full;
    struct kvc_error cause;
    if (values->max_tokens == SERVE_LENGTH_UNSAID)
        values->max_tokens = serve->options->max_tokens;
    if (!count_prompt(request, &forecast.prompt, error))
        return false;
    if (!serve_length_limit(request, forecast.prompt, error)) {
        if (values->prompt_tokens >= 0)
            snprintf(error->param, sizeof error->param, "prompt_tokens");
        return false;
    }
    forecast.answer = request->limit;
    if (serve_estimate(serve, "full", forecast.prompt, steps(&forecast), &full, &cause) != KVC_OK)
        return serve_refuse_by(error, "max_tokens", &cause);
    forecast.full = full.cache_bytes;
    if (values->kvs && values->kv)
        return serve_refuse(error, 400, SERVE_INVALID, "kvs", NULL, "kvs: the request also has kv; give only one");
    return values->kvs ? put_forecasts(text, &forecast, values->kvs, error)
                       : put_forecast(text, &forecast, values->kv ? values->kv : serve->options->kv, "kv", error);
}

enum MHD_Result serve_forecasts(struct serve_exchange *exchange) {
    struct serve *serve = exchange->http->serve;
    struct serve_error error;
    struct serve_text text = {0};
    json_t *body = serve_body(exchange->body.data ? exchange->body.data : "", exchange->body.bytes, &error);
    struct serve_request *request = body ? serve_request_new(serve, true) : NULL;
    if (body && !request) {
        json_decref(body);
        return MHD_NO;
    }
    const bool good = body && serve_fields_read(body, SERVE_FORECAST, serve->options, &request->values, &error) &&
                      answer(request, &text, &error);
    if (request)
        serve_request_release(request);
    json_decref(body);
    if (good)
        return serve_respond(exchange, MHD_HTTP_OK, "application/json", &text, NULL, NULL);
    serve_text_free(&text);
    return serve_respond_refusal(exchange, &error);
}

/* kept.c - traces the first samples: runs every policy again in both question modes and records what each head holds.
 */
#include "eval/kept.h"
#include "eval/trace.h"

#include <stdlib.h>
#include <string.h>

bool eval_wants_trace(const struct eval_run *run, uint64_t sample) { return sample < (uint64_t)run->kept; }

/* Returns how many occurrences of `what` begin in the text before byte `end`. */
static size_t occurrences(const char *text, const char *what, size_t end) {
    size_t count = 0;
    if (!what[0])
        return 0;
    for (const char *at = text; (at = strstr(at, what)) != NULL && (size_t)(at - text) < end; at++)
        count++;
    return count;
}

/* Adds the spans that contain the evidence. If there are none, adds each answer that occurs exactly once in the text;
 * if an answer occurs several times, the right occurrence is unknown. */
static enum kvc_status add_asked(const struct eval_sample *sample, const struct eval_prompt_text *text,
                                 struct eval_spans *spans, struct kvc_error *error) {
    const struct eval_asked *asked = &sample->asked[0];
    enum kvc_status status = KVC_OK;
    bool there;
    for (size_t i = 0; i < asked->span_count && status == KVC_OK; i++) {
        char *what = strndup(sample->context + asked->spans[i].start, asked->spans[i].bytes);
        if (!what)
            return kvc_fail(error, KVC_RESOURCE, "no memory left");
        const size_t skip = occurrences(sample->context, what, asked->spans[i].start);
        status = eval_spans_add(spans, text, what, skip, &there, error);
        free(what);
    }
    for (size_t i = 0; i < asked->answer_count && asked->span_count == 0 && status == KVC_OK; i++) {
        if (occurrences(sample->context, asked->answers[i], SIZE_MAX) == 1)
            status = eval_spans_add(spans, text, asked->answers[i], 0, &there, error);
    }
    return status;
}

static enum kvc_status add_given(const struct eval_run *run, const struct eval_prompt_text *text,
                                 struct eval_spans *spans, struct kvc_error *error) {
    enum kvc_status status = KVC_OK;
    for (size_t i = 0; i < run->spans.count && status == KVC_OK; i++) {
        bool there;
        status = eval_spans_add(spans, text, run->spans.items[i].text, 0, &there, error);
    }
    return status;
}

/* Traces one policy in one question mode. Takes ownership of the record. */
static int trace_one(struct eval_run *run, const struct eval_kept *kept, const struct eval_prompt_text *text,
                     const struct eval_spans *spans, size_t s, json_t *record) {
    const char *spec = run->specs.items[s / 2].text;
    struct kvc_session_options options;
    struct kvc_error error;
    char hash[20];
    json_t *trace;
    cli_session_options(&run->common, spec, &options);
    if (options.context == 0)
        options.context = kept->length;
    options.expected = kept->answer;
    const struct eval_trace_request request = {.model = run->model,
                                               .options = &options,
                                               .prompt = kept->prompt,
                                               .spans = spans,
                                               .seen = s % 2 == 0,
                                               .most = kept->answer,
                                               .logits = run->logits};
    if (eval_trace(&request, &trace, &error) != KVC_OK) {
        json_decref(record);
        return cli_error(run->command, error.status, "%s of %llu tokens, --kv %s: %s", kept->task->name,
                         (unsigned long long)kept->length, spec, error.text);
    }
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)kept->prompt->hash);
    cli_json_set(record, "prompt_hash", json_string(hash));
    cli_json_set(record, "prompt_tokens", json_integer((json_int_t)kept->prompt->count));
    if (!eval_results_text(&run->results, json_object_get(record, "prompt_hash")))
        cli_json_set(trace, "text", eval_prompt_text_json(text));
    cli_json_set(record, "trace", trace);
    return eval_results_add(&run->results, record);
}

int eval_keep_traces(struct eval_run *run, struct eval_kept *kept) {
    struct eval_prompt_text text = {0};
    struct eval_spans spans = {NULL, 0};
    struct kvc_error error;
    enum kvc_status found = eval_prompt_text_open(run->model, kept->prompt, &text, &error);
    if (found == KVC_OK)
        found = add_asked(kept->sample, &text, &spans, &error);
    if (found == KVC_OK)
        found = add_given(run, &text, &spans, &error);
    int status = found == KVC_OK ? KVC_OK : cli_report(run->command, &error);
    for (size_t s = 0; s < 2 * run->specs.count && status == KVC_OK; s++) {
        if (!run->sides[s % 2])
            continue;
        json_t *record = eval_record(run, kept->task, kept->length, kept->index, run->specs.items[s / 2].text, s % 2);
        if (kept->data)
            cli_json_set(record, "data", json_string(kept->data));
        if (eval_results_has_trace(&run->results, record)) {
            json_decref(record);
            continue;
        }
        status = trace_one(run, kept, &text, &spans, s, record);
        kept->made += status == KVC_OK;
    }
    eval_spans_free(&spans);
    eval_prompt_text_free(&text);
    return status;
}

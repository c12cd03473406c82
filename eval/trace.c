/* trace.c - runs a sample again and inspects what each head holds after every chunk, prompt and step. */
#include "eval/trace.h"
#include "eval/eval.h"

#include <stdlib.h>
#include <string.h>

struct list { /* what happened to one span in one list */
    uint32_t now, prompt;
    int32_t broken, gone; /* index of the moment; -1: never */
};
struct moment {
    char name[32];
    uint64_t *lost; /* [spans] */
};
struct trace {
    const struct eval_trace_request *request;
    struct kvc_session *session;
    uint32_t layers;
    size_t *base; /* [layers + 1]: index of each layer's first list */
    size_t lists;
    struct list *spans; /* [spans, lists] */
    struct moment *moments;
    size_t moment_count, moment_capacity;
    uint32_t *held;    /* [tokens] */
    uint32_t *entries; /* [lists] */
    int32_t *positions;
    size_t capacity;
    uint32_t chunk; /* number of the latest chunk */
    const char *prefix;
    struct kvc_error error; /* error of an inspection in a callback */
};

static enum kvc_status no_memory(struct kvc_error *error) { return kvc_fail(error, KVC_RESOURCE, "no memory left"); }

/* Reads a list's positions into trace->positions. */
static enum kvc_status read_list(struct trace *trace, uint32_t layer, uint32_t head, size_t *count,
                                 struct kvc_error *error) {
    return kvc_session_positions(trace->session, layer, head, trace->positions, trace->capacity, count, error);
}

/* Returns the index of the first of `count` ascending positions that is at least `position`. */
static size_t lower_bound(const int32_t *positions, size_t count, int64_t position) {
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (positions[middle] < position)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Returns in *number the index of the current moment. Adds the moment unless it is the latest one. */
static enum kvc_status moment_now(struct trace *trace, const char *name, size_t *number, struct kvc_error *error) {
    if (trace->moment_count > 0 && strcmp(trace->moments[trace->moment_count - 1].name, name) == 0) {
        *number = trace->moment_count - 1;
        return KVC_OK;
    }
    if (trace->moment_count == trace->moment_capacity) {
        const size_t capacity = cli_max(16, 2 * trace->moment_capacity);
        struct moment *more = realloc(trace->moments, capacity * sizeof *more);
        if (!more)
            return no_memory(error);
        trace->moments = more;
        trace->moment_capacity = capacity;
    }
    struct moment *moment = &trace->moments[trace->moment_count];
    snprintf(moment->name, sizeof moment->name, "%s", name);
    moment->lost = calloc(trace->request->spans->count + 1, sizeof *moment->lost);
    if (!moment->lost)
        return no_memory(error);
    *number = trace->moment_count++;
    return KVC_OK;
}

/* Records which tokens of each span one list has evicted since the last inspection. Tokens that have not been read yet
 * do not count. */
static enum kvc_status look_at_list(struct trace *trace, const char *name, size_t list, size_t count, uint64_t read,
                                    struct kvc_error *error) {
    const struct eval_spans *spans = trace->request->spans;
    enum kvc_status status = KVC_OK;
    for (size_t s = 0; s < spans->count && status == KVC_OK; s++) {
        const struct eval_traced_span *span = &spans->items[s];
        struct list *one = &trace->spans[s * trace->lists + list];
        const size_t from = lower_bound(trace->positions, count, (int64_t)span->first);
        const size_t end = lower_bound(trace->positions, count, (int64_t)(span->first + span->count));
        const uint64_t come = read > span->first ? cli_min(read - span->first, span->count) : 0;
        const uint32_t now = (uint32_t)(end - from), away = (uint32_t)(come > now ? come - now : 0);
        const uint32_t before = (uint32_t)(span->count - one->now); /* number of tokens evicted so far */
        if (away > before) {
            size_t moment = 0;
            status = moment_now(trace, name, &moment, error);
            if (status != KVC_OK)
                return status;
            trace->moments[moment].lost[s] += away - before;
            one->now = (uint32_t)span->count - away;
            if (one->broken < 0)
                one->broken = (int32_t)moment;
            if (one->now == 0)
                one->gone = (int32_t)moment;
        }
    }
    return status;
}

/* Inspects all lists. `read` is the number of tokens read so far. */
static enum kvc_status trace_look(struct trace *trace, const char *name, uint64_t read, struct kvc_error *error) {
    enum kvc_status status = KVC_OK;
    if (trace->request->spans->count == 0)
        return KVC_OK;
    for (uint32_t l = 0; l < trace->layers && status == KVC_OK; l++) {
        for (size_t i = trace->base[l]; i < trace->base[l + 1] && status == KVC_OK; i++) {
            size_t count = 0;
            status = read_list(trace, l, (uint32_t)(i - trace->base[l]), &count, error);
            if (status == KVC_OK)
                status = look_at_list(trace, name, i, cli_min(count, trace->capacity), read, error);
        }
    }
    return status;
}

struct chunk_look {
    struct trace *trace;
    uint64_t before; /* number of tokens of earlier turns */
};

static int after_chunk(void *user, uint64_t tokens) {
    const struct chunk_look *look_at = user;
    struct trace *trace = look_at->trace;
    char name[32];
    snprintf(name, sizeof name, "%schunk %u", trace->prefix, ++trace->chunk);
    return trace_look(trace, name, look_at->before + tokens, &trace->error) != KVC_OK;
}

/* Reads tokens [from, to) of the prompt as one turn. */
static enum kvc_status turn(struct trace *trace, size_t from, size_t to, const char *name, struct kvc_error *error) {
    const struct eval_prompt *prompt = trace->request->prompt;
    struct chunk_look look_at = {trace, from};
    const struct kvc_prompt_options options = {.chunk = after_chunk, .user = &look_at};
    trace->chunk = 0;
    trace->prefix = from > 0 ? "question, " : "";
    trace->error.text[0] = '\0';
    enum kvc_status status =
        kvc_session_prompt(trace->session, prompt->tokens + from, to - from, &options, trace->request->logits, error);
    if (status != KVC_OK && trace->error.text[0])
        *error = trace->error;
    return status == KVC_OK ? trace_look(trace, name, to, error) : status;
}

/* Records what the lists hold after the prompt. */
static enum kvc_status take_stock(struct trace *trace, struct kvc_error *error) {
    const size_t tokens = trace->request->prompt->count, spans = trace->request->spans->count;
    enum kvc_status status = KVC_OK;
    for (uint32_t l = 0; l < trace->layers && status == KVC_OK; l++) {
        for (size_t i = trace->base[l]; i < trace->base[l + 1] && status == KVC_OK; i++) {
            size_t count = 0;
            status = read_list(trace, l, (uint32_t)(i - trace->base[l]), &count, error);
            trace->entries[i] = (uint32_t)count;
            for (size_t p = 0; status == KVC_OK && p < cli_min(count, trace->capacity); p++) {
                if (trace->positions[p] >= 0 && (size_t)trace->positions[p] < tokens)
                    trace->held[trace->positions[p]]++;
            }
        }
    }
    for (size_t i = 0; i < spans * trace->lists; i++)
        trace->spans[i].prompt = trace->spans[i].now;
    return status;
}

static enum kvc_status answer(struct trace *trace, char **text, struct kvc_error *error) {
    const struct eval_trace_request *request = trace->request;
    const uint32_t vocab = kvc_model_info(request->model)->vocab;
    int32_t *made = malloc(((size_t)request->most + 1) * sizeof *made);
    size_t count = 0, bytes;
    enum kvc_status status = made ? KVC_OK : no_memory(error);
    *text = NULL;
    while (status == KVC_OK && count < request->most) {
        const int32_t token = eval_likeliest(request->logits, vocab);
        if (kvc_token_ends_turn(request->model, token))
            break;
        made[count++] = token;
        if (count == request->most)
            break;
        char name[32];
        status = kvc_decode(&trace->session, &token, 1, request->logits, NULL, error);
        snprintf(name, sizeof name, "step %zu", count);
        if (status == KVC_OK)
            status = trace_look(trace, name, request->prompt->count + count, error);
    }
    if (status == KVC_OK && count > 0)
        status = kvc_detokenize(request->model, made, count, false, text, &bytes, error);
    else if (status == KVC_OK)
        *text = strdup("");
    free(made);
    return status == KVC_OK && !*text ? no_memory(error) : status;
}

static enum kvc_status trace_start(struct trace *trace, struct kvc_error *error) {
    const struct eval_trace_request *request = trace->request;
    const size_t tokens = request->prompt->count, spans = request->spans->count;
    trace->layers = kvc_model_info(request->model)->layers;
    trace->capacity = tokens + request->most + 1;
    trace->base = calloc((size_t)trace->layers + 1, sizeof *trace->base);
    trace->positions = calloc(trace->capacity, sizeof *trace->positions);
    trace->held = calloc(tokens + 1, sizeof *trace->held);
    if (!trace->base || !trace->positions || !trace->held)
        return no_memory(error);
    for (uint32_t l = 0; l < trace->layers; l++)
        trace->base[l + 1] = trace->base[l] + kvc_session_heads(trace->session, l);
    trace->lists = trace->base[trace->layers];
    trace->entries = calloc(trace->lists + 1, sizeof *trace->entries);
    trace->spans = calloc(spans * trace->lists + 1, sizeof *trace->spans);
    if (!trace->entries || !trace->spans)
        return no_memory(error);
    for (size_t s = 0; s < spans; s++) {
        for (size_t i = 0; i < trace->lists; i++)
            trace->spans[s * trace->lists + i] =
                (struct list){.now = (uint32_t)request->spans->items[s].count, .broken = -1, .gone = -1};
    }
    return KVC_OK;
}

/* ---- as JSON ---- */

enum what { ENTRIES, PROMPT, END, BROKEN, GONE };

static json_t *by_layer(const struct trace *trace, const struct list *lists, enum what what) {
    json_t *layers = json_array();
    for (uint32_t l = 0; l < trace->layers; l++) {
        json_t *row = json_array();
        for (size_t i = trace->base[l]; i < trace->base[l + 1]; i++) {
            const json_int_t value = what == ENTRIES  ? (json_int_t)trace->entries[i]
                                     : what == PROMPT ? (json_int_t)lists[i].prompt
                                     : what == END    ? (json_int_t)lists[i].now
                                     : what == BROKEN ? (json_int_t)lists[i].broken
                                                      : (json_int_t)lists[i].gone;
            json_array_append_new(row, json_integer(value));
        }
        json_array_append_new(layers, row);
    }
    return layers;
}

static json_t *span_json(const struct trace *trace, size_t s) {
    const struct eval_traced_span *span = &trace->request->spans->items[s];
    const struct list *lists = &trace->spans[s * trace->lists];
    json_t *object = json_object(), *lost = json_array();
    cli_json_set(object, "what", cli_json_text(span->what, strlen(span->what)));
    cli_json_set(object, "first", json_integer((json_int_t)span->first));
    cli_json_set(object, "count", json_integer((json_int_t)span->count));
    cli_json_set(object, "prompt", by_layer(trace, lists, PROMPT));
    cli_json_set(object, "end", by_layer(trace, lists, END));
    cli_json_set(object, "broken", by_layer(trace, lists, BROKEN));
    cli_json_set(object, "gone", by_layer(trace, lists, GONE));
    for (size_t m = 0; m < trace->moment_count; m++)
        json_array_append_new(lost, json_integer((json_int_t)trace->moments[m].lost[s]));
    cli_json_set(object, "lost", lost);
    return object;
}

static json_t *trace_json(const struct trace *trace, const char *text) {
    const size_t tokens = trace->request->prompt->count;
    json_t *object = json_object(), *held = json_array(), *moments = json_array(), *spans = json_array();
    cli_json_set(object, "answer", cli_json_text(text, strlen(text)));
    cli_json_set(object, "context", json_integer((json_int_t)trace->request->prompt->context));
    cli_json_set(object, "entries", by_layer(trace, NULL, ENTRIES));
    for (size_t i = 0, end; i < tokens; i = end) {
        for (end = i + 1; end < tokens && trace->held[end] == trace->held[i]; end++) {
        }
        json_array_append_new(held, json_integer((json_int_t)trace->held[i]));
        json_array_append_new(held, json_integer((json_int_t)(end - i)));
    }
    cli_json_set(object, "held", held);
    for (size_t m = 0; m < trace->moment_count; m++)
        json_array_append_new(moments, json_string(trace->moments[m].name));
    cli_json_set(object, "moments", moments);
    for (size_t s = 0; s < trace->request->spans->count; s++)
        json_array_append_new(spans, span_json(trace, s));
    cli_json_set(object, "spans", spans);
    return object;
}

enum kvc_status eval_trace(const struct eval_trace_request *request, json_t **made, struct kvc_error *error) {
    const struct eval_prompt *prompt = request->prompt;
    const size_t first = request->seen ? prompt->count : prompt->context;
    struct trace trace = {.request = request};
    char *text = NULL;
    *made = NULL;
    enum kvc_status status = kvc_session_open(request->model, request->options, &trace.session, error);
    if (status == KVC_OK)
        status = trace_start(&trace, error);
    if (status == KVC_OK)
        status = turn(&trace, 0, first, "prompt", error);
    if (status == KVC_OK && first < prompt->count)
        status = turn(&trace, first, prompt->count, "question", error);
    if (status == KVC_OK)
        status = take_stock(&trace, error);
    if (status == KVC_OK)
        status = answer(&trace, &text, error);
    if (status == KVC_OK)
        *made = trace_json(&trace, text);
    kvc_session_close(trace.session);
    for (size_t m = 0; m < trace.moment_count; m++)
        free(trace.moments[m].lost);
    free(trace.moments);
    free(trace.base);
    free(trace.positions);
    free(trace.held);
    free(trace.entries);
    free(trace.spans);
    free(text);
    return status;
}

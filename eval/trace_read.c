/* trace_read.c - checks traces from files, and computes their sums. */
#include "eval/trace.h"

#include <string.h>

static bool is_count(const json_t *value, json_int_t most) {
    return json_is_integer(value) && json_integer_value(value) >= 0 && json_integer_value(value) <= most;
}

json_int_t eval_matrix_at(const json_t *matrix, size_t layer, size_t list) {
    return json_integer_value(json_array_get(json_array_get(matrix, layer), list));
}

/* Returns true if `matrix` has rows of integers from `least` to `most`, with the shape of `like`. If `like` is NULL,
 * any shape without empty rows is right. */
static bool is_matrix(const json_t *matrix, const json_t *like, json_int_t least, json_int_t most) {
    const json_t *row, *value;
    size_t l, i;
    if (!json_is_array(matrix) || json_array_size(matrix) == 0 ||
        (like && json_array_size(matrix) != json_array_size(like)))
        return false;
    json_array_foreach(matrix, l, row) {
        if (!json_is_array(row) || json_array_size(row) == 0 ||
            (like && json_array_size(row) != json_array_size(json_array_get(like, l))))
            return false;
        json_array_foreach(row, i, value) {
            if (!json_is_integer(value) || json_integer_value(value) < least || json_integer_value(value) > most)
                return false;
        }
    }
    return true;
}

static json_int_t lists_of(const json_t *matrix) {
    json_int_t lists = 0;
    for (size_t l = 0; l < json_array_size(matrix); l++)
        lists += (json_int_t)json_array_size(json_array_get(matrix, l));
    return lists;
}

/* Returns true if `runs` has pairs of a value and a run length, and the lengths add up to `tokens`. */
static bool is_runs(const json_t *runs, json_int_t tokens, json_int_t most) {
    json_int_t all = 0;
    if (!json_is_array(runs) || json_array_size(runs) % 2)
        return false;
    for (size_t i = 0; i < json_array_size(runs); i += 2) {
        const json_t *count = json_array_get(runs, i + 1);
        if (!is_count(json_array_get(runs, i), most) || !is_count(count, tokens - all) || !json_integer_value(count))
            return false;
        all += json_integer_value(count);
    }
    return all == tokens;
}

static bool is_texts(const json_t *texts, json_int_t count) {
    if (!json_is_array(texts) || (count >= 0 && (json_int_t)json_array_size(texts) != count))
        return false;
    for (size_t i = 0; i < json_array_size(texts); i++) {
        if (!json_is_string(json_array_get(texts, i)))
            return false;
    }
    return true;
}

static bool is_span(const json_t *span, const json_t *entries, json_int_t moments, json_int_t tokens) {
    const json_int_t lists = lists_of(entries);
    const json_t *first = json_object_get(span, "first"), *count = json_object_get(span, "count");
    const json_t *lost = json_object_get(span, "lost");
    if (!json_is_object(span) || !json_is_string(json_object_get(span, "what")) || !is_count(first, tokens) ||
        !is_count(count, tokens - json_integer_value(first)) || json_integer_value(count) == 0 ||
        !json_is_array(lost) || (json_int_t)json_array_size(lost) != moments)
        return false;
    const json_int_t most = json_integer_value(count);
    for (size_t m = 0; m < (size_t)moments; m++) {
        if (!is_count(json_array_get(lost, m), most * lists))
            return false;
    }
    return is_matrix(json_object_get(span, "prompt"), entries, 0, most) &&
           is_matrix(json_object_get(span, "end"), entries, 0, most) &&
           is_matrix(json_object_get(span, "broken"), entries, -1, moments - 1) &&
           is_matrix(json_object_get(span, "gone"), entries, -1, moments - 1);
}

const char *eval_trace_wrong(const json_t *trace, json_int_t tokens) {
    const json_t *entries = json_object_get(trace, "entries"), *moments = json_object_get(trace, "moments");
    const json_t *spans = json_object_get(trace, "spans"), *text = json_object_get(trace, "text");
    if (!json_is_object(trace))
        return "trace";
    if (!json_is_string(json_object_get(trace, "answer")))
        return "answer";
    if (!is_count(json_object_get(trace, "context"), tokens))
        return "context";
    if (!is_matrix(entries, NULL, 0, INT32_MAX))
        return "entries";
    if (!is_runs(json_object_get(trace, "held"), tokens, lists_of(entries)))
        return "held";
    if (text && !is_texts(text, tokens))
        return "text";
    if (!is_texts(moments, -1))
        return "moments";
    if (!json_is_array(spans))
        return "spans";
    for (size_t s = 0; s < json_array_size(spans); s++) {
        if (!is_span(json_array_get(spans, s), entries, (json_int_t)json_array_size(moments), tokens))
            return "spans";
    }
    return NULL;
}

const char *eval_member(const json_t *object, const char *name) {
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

bool eval_same_prompt(const json_t *a, const json_t *b) {
    static const char *const fields[] = {"model", "weights", "arithmetic", "cache_type", "prompt_hash"};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (!json_equal(json_object_get(a, fields[i]), json_object_get(b, fields[i])))
            return false;
    }
    return true;
}

bool eval_same_span(const json_t *a, const json_t *span_a, const json_t *b, const json_t *span_b) {
    return eval_same_prompt(a, b) && json_equal(json_object_get(span_a, "first"), json_object_get(span_b, "first")) &&
           json_equal(json_object_get(span_a, "count"), json_object_get(span_b, "count"));
}

/* ---- sums ---- */

static double held_share(const json_t *matrix, size_t layer, json_int_t count) {
    const json_t *row = json_array_get(matrix, layer);
    json_int_t held = 0;
    for (size_t i = 0; i < json_array_size(row); i++)
        held += json_integer_value(json_array_get(row, i));
    return (double)held / ((double)count * (double)json_array_size(row));
}

/* Finds up to three layers with the highest or the lowest fractions; among equal fractions, the lower layers come
 * first. The worst layers exclude those that lost nothing, and the best layers those that hold nothing. */
static size_t extremes(const json_t *end, json_int_t count, bool best, size_t layers[3]) {
    size_t found = 0;
    while (found < 3) {
        double chosen_share = 0;
        size_t chosen = SIZE_MAX;
        for (size_t l = 0; l < json_array_size(end); l++) {
            const double share = held_share(end, l, count);
            bool taken = best ? share <= 0 : share >= 1;
            for (size_t i = 0; i < found; i++)
                taken = taken || layers[i] == l;
            if (!taken && (chosen == SIZE_MAX || (best ? share > chosen_share : share < chosen_share))) {
                chosen = l;
                chosen_share = share;
            }
        }
        if (chosen == SIZE_MAX)
            break;
        layers[found++] = chosen;
    }
    return found;
}

void eval_span_sum(const json_t *trace, const json_t *span, struct eval_span_sums *sums) {
    const json_t *prompt = json_object_get(span, "prompt"), *end = json_object_get(span, "end");
    const json_t *lost = json_object_get(span, "lost");
    const json_int_t count = json_integer_value(json_object_get(span, "count"));
    *sums = (struct eval_span_sums){0};
    for (size_t l = 0; l < json_array_size(end); l++) {
        for (size_t i = 0; i < json_array_size(json_array_get(end, l)); i++) {
            const json_int_t after = eval_matrix_at(prompt, l, i), at_end = eval_matrix_at(end, l, i);
            sums->lists++;
            sums->prompt_all += after == count;
            sums->prompt_any += after > 0;
            sums->end_all += at_end == count;
            sums->end_any += at_end > 0;
        }
    }
    sums->entries = sums->lists * (uint64_t)count;
    for (size_t m = 0; m < json_array_size(lost); m++) {
        const uint64_t then = (uint64_t)json_integer_value(json_array_get(lost, m));
        if (then > sums->moment_lost) {
            sums->moment_lost = then;
            sums->moment = json_string_value(json_array_get(json_object_get(trace, "moments"), m));
        }
    }
    sums->worst_count = extremes(end, count, false, sums->worst);
    sums->best_count = extremes(end, count, true, sums->best);
}

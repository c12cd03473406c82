/* check_samples.c - checks with slow, simple code that samples have the content that their task defines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/eval/check_samples.h"

size_t times(const char *text, const char *words) {
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, words)) != NULL; at++)
        count++;
    return count;
}

const char *format(char text[256], const char *pattern, ...) {
    va_list list;
    va_start(list, pattern);
    vsnprintf(text, 256, pattern, list);
    va_end(list);
    return text;
}

/* How often words, between blanks, occur in the text; each search starts from the beginning. */
static size_t comes(const char *text, const char *word) {
    const size_t bytes = strlen(word);
    size_t count = 0;
    for (const char *at = text; *at;) {
        const size_t n = strcspn(at, " \n");
        count += n == bytes && memcmp(at, word, n) == 0;
        at += n + (at[n] != '\0');
    }
    return count;
}

/* The sample must contain what its task promises. */
static void check_niah(const struct eval_task *task, const struct eval_sample *sample) {
    const struct eval_niah *form = task->form;
    const char *kind = form->uuid_values ? "uuids" : "numbers";
    char text[256];
    for (size_t q = 0; q < sample->count; q++) {
        const struct eval_asked *asked = &sample->asked[q];
        assert_int_equal(asked->answer_count, form->values * form->queries);
        for (size_t i = 0; i < asked->answer_count; i++) {
            const char *at = strstr(sample->context, format(text, " is: %s.", asked->answers[i]));
            assert_non_null(at);
            assert_int_equal(times(sample->context, asked->answers[i]), 1);
            assert_int_equal(strlen(asked->answers[i]), form->uuid_values ? 36 : 7);
            const char *key = at; /* back to the key, which is part of the question */
            while (key > sample->context && key[-1] != ' ')
                key--;
            assert_non_null(strstr(asked->question, format(text, "%.*s", (int)(at - key), key)));
            assert_non_null(strstr(asked->opening, format(text, "%.*s", (int)(at - key), key)));
        }
    }
    const size_t needles = times(sample->context, format(text, "One of the special magic %s for ", kind));
    if (form->hay == EVAL_NEEDLES)
        assert_true(needles > 3);
    else
        assert_int_equal(needles, (form->keys > form->queries ? form->keys : form->queries) * form->values);
}

static void check_vt(const struct eval_sample *sample) {
    char line[256], value[16] = "";
    assert_int_equal(sample->asked[0].answer_count, 5);
    const char *at = strstr(sample->context, format(line, "VAR %s = ", sample->asked[0].answers[0]));
    assert_non_null(at);
    assert_int_equal(sscanf(at + strlen(line), "%15[0-9]", value), 1);
    assert_non_null(strstr(sample->asked[0].question, value));
    for (size_t i = 1; i < 5; i++) { /* each line comes after the one before */
        at = strstr(at,
                    format(line, "\nVAR %s = VAR %s\n", sample->asked[0].answers[i], sample->asked[0].answers[i - 1]));
        assert_non_null(at);
    }
    assert_int_equal(times(sample->context, "\nVAR "), 10); /* including the example's lines */
}

static void check_cwe(const struct eval_sample *sample) {
    const char *list = strrchr(sample->context, ':'); /* the example's answer ends with a colon and its words */
    assert_non_null(list);
    list = strstr(list, "\n\n");
    assert_non_null(list);
    assert_int_equal(sample->asked[0].answer_count, 10);
    const size_t most = comes(list, sample->asked[0].answers[0]);
    assert_true(most == 6 || most == 30);
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(comes(list, sample->asked[0].answers[i]), most);
    size_t others = 0;
    for (uint32_t w = 0; w < eval_words; w++) {
        bool common = false;
        for (size_t i = 0; i < 10; i++)
            common = common || strcmp(eval_word(w), sample->asked[0].answers[i]) == 0;
        /* Words of the instruction occur in some of the lists. */
        others += !common && comes(strstr(list + 2, "\n"), eval_word(w)) >= most;
    }
    assert_int_equal(others, 0);
}

void check_fwe(const struct eval_sample *sample) {
    const char *text = strstr(sample->context, ". ");
    char word[64];
    size_t least = SIZE_MAX;
    assert_non_null(text);
    assert_int_equal(sample->asked[0].answer_count, 3);
    for (size_t i = 0; i < 3; i++) {
        const size_t count = comes(text, sample->asked[0].answers[i]);
        assert_true(count > 0 && count <= least);
        least = count;
    }
    for (const char *at = text + 2; sscanf(at, "%63s", word) == 1; at += strcspn(at, " "), at += *at == ' ') {
        bool asked = strcmp(word, "...") == 0;
        for (size_t i = 0; i < 3; i++)
            asked = asked || strcmp(word, sample->asked[0].answers[i]) == 0;
        if (!asked)
            assert_true(comes(text, word) < least);
    }
}

/* The keys asked for are in the list of pairs, at their places. */
static void check_pairs(const struct eval_task *task, const struct eval_sample *sample, double depth) {
    const char *list = strstr(sample->context, "{\n");
    char text[256];
    assert_non_null(list);
    const size_t pairs = times(list, "\": \"");
    for (size_t q = 0; q < sample->count; q++) {
        const struct eval_asked *asked = &sample->asked[q];
        assert_int_equal(asked->answer_count, 1);
        const char *key = strstr(asked->question, "key ");
        assert_non_null(key);
        const char *line = strstr(list, format(text, "\n \"%.36s\": \"%s\"", key + 4, asked->answers[0]));
        assert_non_null(line);
        assert_int_equal(times(list, asked->answers[0]), 1);
        size_t place = 0;
        for (const char *at = list + 1; at < line; at++)
            place += *at == '\n';
        if (task->depths)
            assert_true(depth * (double)(pairs - 1) - (double)place <= 0.51 &&
                        (double)place - depth * (double)(pairs - 1) <= 0.51);
        for (size_t other = 0; other < q; other++)
            assert_string_not_equal(sample->asked[other].question, asked->question);
    }
}

/* Follows every chain from its value, line by line. */
static void check_chains(const struct eval_sample *sample) {
    char line[256];
    assert_int_equal(times(sample->context, "\nVAR "), 4 * sample->count);
    for (size_t q = 0; q < sample->count; q++) {
        const struct eval_asked *asked = &sample->asked[q];
        unsigned value = 0;
        assert_int_equal(asked->answer_count, 4);
        assert_int_equal(sscanf(strstr(asked->question, "value "), "value %u", &value), 1);
        const char *at = strstr(sample->context, format(line, "\nVAR %s = %u\n", asked->answers[0], value));
        assert_non_null(at);
        for (size_t i = 1; i < 4; i++) {
            at = strstr(at, format(line, "\nVAR %s = VAR %s\n", asked->answers[i], asked->answers[i - 1]));
            assert_non_null(at);
        }
    }
}

/* Counts for each number how many are smaller. */
static void check_numbers(const struct eval_sample *sample) {
    const char *list = strstr(sample->context, "\n\n");
    size_t count = 1;
    assert_non_null(list);
    for (const char *at = list; *at; at++)
        count += *at == ',';
    assert_int_equal(count % 2, 1);
    for (size_t q = 0; q < sample->count; q++) {
        const struct eval_asked *asked = &sample->asked[q];
        const char *which = asked->question;
        const size_t rank = strstr(which, "second largest")    ? count - 2
                            : strstr(which, "second smallest") ? 1
                            : strstr(which, "largest")         ? count - 1
                            : strstr(which, "smallest")        ? 0
                                                               : count / 2;
        size_t smaller = 0;
        for (const char *at = list + 2; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
            smaller += atoi(at) < atoi(asked->answers[0]);
        assert_int_equal(smaller, rank);
        assert_true(eval_score_number(asked, asked->answers[0]) == 1);
        for (size_t other = 0; other < q; other++)
            assert_string_not_equal(sample->asked[other].question, which);
    }
}

static void check_list(const struct eval_sample *sample) {
    const struct eval_asked *asked = &sample->asked[0];
    char line[256];
    for (size_t i = 0; i < asked->answer_count; i++)
        assert_non_null(strstr(sample->context, format(line, "\n%zu. %s\n", i + 1, asked->answers[i])));
    assert_non_null(strstr(sample->context, format(line, "list of %zu lines", asked->answer_count)));
}

/* Every fact occurs once in the text, close to its intended place. */
static void check_needle_demo(const struct eval_sample *sample) {
    for (size_t q = 0; q < sample->count; q++) {
        const struct eval_asked *asked = &sample->asked[q];
        const char *key = strstr(asked->question, "number for ");
        const size_t bytes = strlen(sample->context);
        char line[256];
        assert_non_null(key);
        assert_int_equal(times(sample->context, format(line, "magic %s %s .", key, asked->answers[0])), 1);
        const double at = (double)(strstr(sample->context, line) - sample->context) / (double)bytes;
        assert_true(at > 0.25 * (double)q && at < 0.25 * (double)(q + 1));
    }
}

/* The spans are part of the text and contain the answers; each answer has one span or more. */
static void check_spans(const struct eval_task *task, const struct eval_sample *sample, double depth) {
    const size_t bytes = strlen(sample->context);
    for (size_t q = 0; q < sample->count; q++) {
        const struct eval_asked *asked = &sample->asked[q];
        size_t with = 0;
        if (task->make == eval_make_cwe || task->make == eval_make_fwe)
            assert_int_equal(asked->span_count, 0);
        else
            assert_true(asked->span_count > 0);
        for (size_t i = 0; i < asked->span_count; i++) {
            char text[512];
            const struct eval_span span = asked->spans[i];
            assert_true(span.start + span.bytes <= bytes && span.bytes > 0 && span.bytes < sizeof text);
            memcpy(text, sample->context + span.start, span.bytes);
            text[span.bytes] = '\0';
            with += eval_score_any(asked, text) > 0;
            assert_true(text[0] != '\n' && text[span.bytes - 1] != '\n');
            if (task->depths && task->make == eval_make_niah) {
                const double at = (double)span.start / (double)bytes;
                if (at - depth > 0.12 || depth - at > 0.12)
                    fail_msg("%s: at %f of the text, not %f", task->name, at, depth);
            }
        }
        assert_int_equal(with, asked->span_count);
    }
}

void check(const struct eval_task *task, const struct eval_sample *sample, double depth) {
    assert_int_equal(sample->count, eval_task_questions(task));
    check_spans(task, sample, depth);
    if (task->make == eval_make_niah)
        check_niah(task, sample);
    else if (task->make == eval_make_vt)
        check_vt(sample);
    else if (task->make == eval_make_cwe)
        check_cwe(sample);
    else if (task->make == eval_make_fwe)
        check_fwe(sample);
    else if (task->make == eval_make_pairs)
        check_pairs(task, sample, depth);
    else if (task->make == eval_make_chains)
        check_chains(sample);
    else if (task->make == eval_make_numbers)
        check_numbers(sample);
    else if (task->make == eval_make_needle_demo)
        check_needle_demo(sample);
    else if (task->make == eval_make_list)
        check_list(sample);
    else
        for (size_t q = 0; q < sample->count; q++)
            assert_true(eval_score_any(&sample->asked[q], sample->context) > 0);
}

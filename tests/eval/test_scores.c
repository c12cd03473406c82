/* test_scores.c - scores beside slow obvious code, intervals beside their definition, random choices, word lists. */
#include <ctype.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "eval/task.h"

static void lower(const char *text, char out[200]) {
    size_t i = 0;
    for (; text[i] && i < 199; i++)
        out[i] = (char)tolower((unsigned char)text[i]);
    out[i] = '\0';
}

/* The share as one reads it in the definition: lower both, look for each. */
static double slow_all(const struct eval_sample *sample, const char *answer) {
    char text[200], words[200];
    double found = 0;
    lower(answer, text);
    for (size_t i = 0; i < sample->answer_count; i++) {
        lower(sample->answers[i], words);
        found += strstr(text, words) != NULL;
    }
    return found / (double)sample->answer_count;
}

static void scores_are_shares(void **state) {
    static const char letters[] = "aAbB c.";
    uint64_t random = 1;
    (void)state;
    for (int round = 0; round < 3000; round++) {
        struct eval_sample sample = {0};
        char text[40];
        const size_t answers = 1 + (size_t)eval_below(&random, 4), bytes = (size_t)eval_below(&random, 39);
        for (size_t i = 0; i < answers; i++) {
            const size_t n = 1 + (size_t)eval_below(&random, 3);
            for (size_t c = 0; c < n; c++)
                text[c] = letters[eval_below(&random, 7)];
            text[n] = '\0';
            assert_true(eval_sample_answer(&sample, text));
        }
        for (size_t c = 0; c < bytes; c++)
            text[c] = letters[eval_below(&random, 7)];
        text[bytes] = '\0';
        const double all = slow_all(&sample, text);
        assert_true(eval_score_all(&sample, text) == all);
        assert_true(eval_score_any(&sample, text) == (all > 0 ? 1.0 : 0.0));
        eval_sample_free(&sample);
    }
}

/* Wilson's bounds are the shares p at which the observed one is z standard deviations of p away. */
static void intervals_are_wilsons(void **state) {
    const double z = 1.959963984540054;
    double low, high;
    (void)state;
    for (int n = 1; n < 200; n += 7) {
        for (int k = 0; k <= n; k++) {
            const double share = (double)k / n;
            eval_wilson(share, n, &low, &high);
            assert_true(low >= 0 && low <= share + 1e-12 && share <= high + 1e-12 && high <= 1);
            if (k > 0)
                assert_true(fabs(fabs(share - low) - z * sqrt(low * (1 - low) / n)) < 1e-9);
            if (k < n)
                assert_true(fabs(fabs(share - high) - z * sqrt(high * (1 - high) / n)) < 1e-9);
        }
    }
    eval_wilson(0.5, 0, &low, &high);
    assert_true(low == 0 && high == 1);
    eval_wilson(0.5, 10, &low, &high); /* as tables of it say */
    assert_true(fabs(low - 0.2366) < 1e-4 && fabs(high - 0.7634) < 1e-4);
}

static void choices_are_fair(void **state) {
    uint64_t random = 3;
    unsigned counts[10] = {0};
    (void)state;
    for (int round = 0; round < 10000; round++) {
        uint32_t *drawn = eval_draw(&random, 10, 3);
        assert_non_null(drawn);
        assert_true(drawn[0] != drawn[1] && drawn[1] != drawn[2] && drawn[0] != drawn[2]);
        for (size_t i = 0; i < 3; i++)
            counts[drawn[i]]++;
        free(drawn);
    }
    for (size_t i = 0; i < 10; i++)
        assert_true(counts[i] > 2700 && counts[i] < 3300);
    uint32_t numbers[] = {5, 1, 4, 1, 3};
    eval_sort(numbers, 5);
    for (size_t i = 1; i < 5; i++)
        assert_true(numbers[i - 1] <= numbers[i]);
    eval_shuffle(&random, numbers, 5);
    eval_sort(numbers, 5);
    assert_true(numbers[0] == 1 && numbers[1] == 1 && numbers[2] == 3 && numbers[4] == 5);
}

static void words_are_different(void **state) {
    (void)state;
    assert_true(eval_nouns + eval_adjectives < eval_words);
    for (uint32_t i = 0; i < eval_words; i++) {
        for (const char *c = eval_word(i); *c; c++)
            assert_true(*c >= 'a' && *c <= 'z');
        for (uint32_t j = 0; j < i; j++)
            assert_string_not_equal(eval_word(i), eval_word(j));
    }
}

static void tasks_are_whole(void **state) {
    (void)state;
    for (const struct eval_task *task = eval_tasks; task->name; task++) {
        assert_ptr_equal(eval_task_find(task->name), task);
        assert_non_null(task->summary);
        assert_true(task->way ? !task->make : task->make && task->score && task->answer > 0 && task->least > 0);
        assert_true(task->file < EVAL_FILES);
    }
    assert_null(eval_task_find("nosuch"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(scores_are_shares), cmocka_unit_test(intervals_are_wilsons),
                                       cmocka_unit_test(choices_are_fair), cmocka_unit_test(words_are_different),
                                       cmocka_unit_test(tasks_are_whole)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_scores.c - scores against slow, simple code; intervals against their definition; random choices; word lists. */
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

/* The share by its plain definition: both texts in lower case, then a search for each answer. */
static double slow_all(const struct eval_asked *asked, const char *answer) {
    char text[200], words[200];
    double found = 0;
    lower(answer, text);
    for (size_t i = 0; i < asked->answer_count; i++) {
        lower(asked->answers[i], words);
        found += strstr(text, words) != NULL;
    }
    return found / (double)asked->answer_count;
}

static void scores_are_shares(void **state) {
    static const char letters[] = "aAbB c.";
    uint64_t random = 1;
    (void)state;
    for (int round = 0; round < 3000; round++) {
        struct eval_sample sample = {0};
        struct eval_asked *asked = eval_sample_ask(&sample);
        char text[40];
        const size_t answers = 1 + (size_t)eval_below(&random, 4), bytes = (size_t)eval_below(&random, 39);
        for (size_t i = 0; i < answers; i++) {
            const size_t n = 1 + (size_t)eval_below(&random, 3);
            for (size_t c = 0; c < n; c++)
                text[c] = letters[eval_below(&random, 7)];
            text[n] = '\0';
            assert_true(asked && eval_asked_answer(asked, text));
        }
        for (size_t c = 0; c < bytes; c++)
            text[c] = letters[eval_below(&random, 7)];
        text[bytes] = '\0';
        const double all = slow_all(asked, text);
        assert_true(eval_score_all(asked, text) == all);
        assert_true(eval_score_any(asked, text) == (all > 0 ? 1.0 : 0.0));
        eval_sample_free(&sample);
    }
}

/* A question with these answers; the last one is NULL. */
static struct eval_asked *asking(struct eval_sample *sample, const char *const *answers) {
    struct eval_asked *asked = eval_sample_ask(sample);
    assert_non_null(asked);
    for (; *answers; answers++)
        assert_true(eval_asked_answer(asked, *answers));
    return asked;
}

static void other_scores(void **state) {
    static const char *const number[] = {"45678", NULL};
    static const char *const right[] = {"45678", " is 45,678.", "45678.0, I think, not 7", "It is 45678"};
    static const char *const wrong[] = {"", "none", "-45678", "456780", "4 45678", "45678.5"};
    static const char *const pair[] = {"48 21", NULL};
    struct eval_sample sample = {0};
    (void)state;
    for (size_t i = 0; i < 4; i++)
        assert_true(eval_score_number(asking(&sample, number), right[i]) == 1);
    for (size_t i = 0; i < 6; i++)
        assert_true(eval_score_number(asking(&sample, number), wrong[i]) == 0);
    assert_true(eval_score_begins(asking(&sample, pair), " 48 21 . the") == 1);
    assert_true(eval_score_begins(asking(&sample, pair), "4821") == 1);
    assert_true(eval_score_begins(asking(&sample, pair), "48 211") == 0);
    assert_true(eval_score_begins(asking(&sample, pair), "48") == 0);
    assert_true(eval_score_begins(asking(&sample, pair), "the 48 21") == 0);
    eval_sample_free(&sample);
}

static void lists_are_scored_by_line(void **state) {
    static const char *const words[] = {"fox", "owl", "bee", "cow", NULL};
    static const struct {
        const char *answer;
        double score;
    } cases[] = {{"1. The fox runs.\n2. An Owl!\n3. bee\n4. A cow.", 1},
                 {"1. The fox runs.\n2. A bee.\n3. An owl.\n4. A cow.", 0.5},
                 {"1. foxes\n2. owlet\n3. beehive\n4. cowl", 0},
                 {"**1.** A fox\n - 2) the owl\n# 3 bee", 0.75},
                 {"1. none\n1. fox\n2. owl", 0.25}, /* the first line with a number counts */
                 {"fox owl bee cow", 0},
                 {"5. fox\n0. owl\n99999999999999999999999. bee\n4. cow", 0.25},
                 {"", 0}};
    struct eval_sample sample = {0};
    struct eval_asked *asked = asking(&sample, words);
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (eval_score_list(asked, cases[i].answer) != cases[i].score)
            fail_msg("'%s' is %f", cases[i].answer, eval_score_list(asked, cases[i].answer));
    }
    eval_sample_free(&sample);
}

static void repetitions_are_counted(void **state) {
    static const struct {
        const char *text;
        size_t n;
        double rate;
    } cases[] = {{"", 1, 0},
                 {" \n ", 1, 0},
                 {"a b c", 4, 0},
                 {"a b c", 3, 0},
                 {"a a a a", 1, 0.75},
                 {"a b\ta  b\na b ", 2, 0.6}, /* ab ba ab ba ab */
                 {"a ab a abc a ab", 2, 0.2},
                 {"a b c d a b x a b", 2, 0.25},
                 {"1 2 3 4 5 6 7 8 9 10 1 2 3 4 5 6 7 8 9 10", EVAL_REPEATED, 1.0 / 11}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (eval_repetition(cases[i].text, cases[i].n) != cases[i].rate)
            fail_msg("'%s' is %f", cases[i].text, eval_repetition(cases[i].text, cases[i].n));
}

/* The mean plus or minus 1.96 standard errors, computed directly from the values. */
static void intervals_are_normal(void **state) {
    const double values[] = {2.5, 3.5, 1, 7, -2}, z = 1.959963984540054;
    double sum = 0, squares = 0, low, high, spread = 0;
    (void)state;
    for (size_t i = 0; i < 5; i++) {
        sum += values[i];
        squares += values[i] * values[i];
    }
    for (size_t i = 0; i < 5; i++)
        spread += (values[i] - sum / 5) * (values[i] - sum / 5);
    eval_normal(sum, squares, 5, &low, &high);
    assert_true(fabs((low + high) / 2 - sum / 5) < 1e-12);
    assert_true(fabs((high - low) / 2 - z * sqrt(spread / 4 / 5)) < 1e-12);
    eval_normal(3, 9, 1, &low, &high);
    assert_true(low == 3 && high == 3);
}

/* Wilson's bounds are the shares p from which the observed share is z standard deviations of p away. */
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
    eval_wilson(0.5, 10, &low, &high); /* as in published tables */
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
        assert_true(task->way ? !task->make && !task->measure : !!task->make != !!task->measure);
        if (task->make)
            assert_true(task->score && eval_task_answer(task, 4096) > 0 && task->least > 0);
        assert_true(task->file < EVAL_FILES);
    }
    assert_null(eval_task_find("nosuch"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(scores_are_shares),
                                       cmocka_unit_test(intervals_are_wilsons),
                                       cmocka_unit_test(other_scores),
                                       cmocka_unit_test(lists_are_scored_by_line),
                                       cmocka_unit_test(repetitions_are_counted),
                                       cmocka_unit_test(intervals_are_normal),
                                       cmocka_unit_test(choices_are_fair),
                                       cmocka_unit_test(words_are_different),
                                       cmocka_unit_test(tasks_are_whole)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

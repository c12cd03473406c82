/* test_metrics.c - every metric against the benchmarks' own scripts on the same texts
 * (tests/golden/golden_metrics.py). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "eval/metrics.h"
#include "tests/models/text_data.h"

enum { MOST = 64 };
static json_t *golden;

static bool near(double a, double b) { return fabs(a - b) <= 1e-9; }

/* ---- metrics of two texts ---- */

static double exact(const char *a, const char *t) {
    return eval_helmet(EVAL_HELMET_EXACT, a, "Answer:", (struct eval_list){&t, 1});
}
static double part(const char *a, const char *t) {
    return eval_helmet(EVAL_HELMET_PART, a, "Answer:", (struct eval_list){&t, 1});
}
static double helmet_f1(const char *a, const char *t) {
    return eval_helmet(EVAL_HELMET_F1, a, "Answer:", (struct eval_list){&t, 1});
}
static double helmet_rouge(const char *a, const char *t) {
    return eval_helmet(EVAL_HELMET_ROUGE, a, "Answer:", (struct eval_list){&t, 1});
}
static double helmet_rouge_recall(const char *a, const char *t) {
    return eval_helmet(EVAL_HELMET_ROUGE_RECALL, a, "Answer:", (struct eval_list){&t, 1});
}

static const struct {
    const char *name;
    eval_metric metric;
} metrics[] = {{"word_f1", eval_word_f1},
               {"chinese_f1", eval_chinese_f1},
               {"rouge", eval_rouge},
               {"chinese_rouge", eval_chinese_rouge},
               {"count", eval_count},
               {"code_similarity", eval_code_similarity},
               {"character_f1", eval_character_f1},
               {"rouge_sum", eval_rouge_sum},
               {"infinite_value", eval_infinite_value},
               {"infinite_speaker", eval_infinite_speaker},
               {"infinite_number", eval_infinite_number},
               {"helmet_exact", exact},
               {"helmet_part", part},
               {"helmet_f1", helmet_f1},
               {"helmet_rouge", helmet_rouge},
               {"helmet_rouge_recall", helmet_rouge_recall}};

static void pairs_are_the_scripts(void **state) {
    const json_t *texts = json_object_get(golden, "texts"), *pairs = json_object_get(golden, "pairs");
    unsigned wrong = 0;
    (void)state;
    assert_int_equal(json_object_size(pairs), sizeof metrics / sizeof *metrics);
    for (size_t m = 0; m < sizeof metrics / sizeof *metrics; m++) {
        const json_t *rows = json_object_get(pairs, metrics[m].name);
        assert_int_equal(json_array_size(rows), json_array_size(texts));
        for (size_t a = 0; a < json_array_size(texts); a++) {
            for (size_t t = 0; t < json_array_size(texts); t++) {
                const double wanted = json_number_value(json_array_get(json_array_get(rows, a), t));
                const double score = metrics[m].metric(json_string_value(json_array_get(texts, a)),
                                                       json_string_value(json_array_get(texts, t)));
                if (!near(score, wanted) && wrong++ < 40)
                    print_error("%s of texts %zu and %zu: %.12f, wanted %.12f\n", metrics[m].name, a, t, score, wanted);
            }
        }
    }
    assert_int_equal(wrong, 0);
}

/* ---- others ---- */

static double single(const char *name, const char *answer, struct eval_list truths, const json_t *one, double *some) {
    const char *truth = truths.count ? truths.items[0] : "";
    const json_int_t wanted = json_integer_value(json_object_get(one, "wanted"));
    if (strcmp(name, "class") == 0) {
        static const char *const all[] = {"Food",  "Food and drink",          "Drink", "Drink made of food",
                                          "Other", "\xe9\xa3\x9f\xe5\x93\x81"};
        return eval_class(answer, truth, (struct eval_list){all, sizeof all / sizeof *all});
    }
    if (strcmp(name, "retrieval") == 0)
        return eval_retrieval(answer, truth);
    if (strcmp(name, "chinese_retrieval") == 0)
        return eval_chinese_retrieval(answer, truth);
    if (strcmp(name, "choice") == 0)
        return eval_choice(answer, truth);
    if (strcmp(name, "infinite_option") == 0)
        return eval_infinite_option(answer, truths);
    if (strcmp(name, "infinite_bug") == 0)
        return eval_infinite_bug(answer, truths);
    if (strcmp(name, "infinite_run") == 0)
        return eval_infinite_run(answer, truth);
    if (strcmp(name, "infinite_find") == 0)
        return eval_infinite_find(answer, truth);
    if (strcmp(name, "infinite_steps") == 0)
        return eval_infinite_steps(answer, truths);
    if (strcmp(name, "ndcg") == 0) {
        int gains[MOST];
        for (size_t i = 0; i < truths.count; i++)
            gains[i] = (int)json_integer_value(json_array_get(json_object_get(one, "gains"), i));
        return eval_ndcg(answer, truths, gains);
    }
    if (strcmp(name, "length") == 0)
        return eval_length(answer, (uint64_t)wanted);
    if (strcmp(name, "completion") == 0)
        return eval_completion(answer, truth, (uint32_t)wanted);
    if (strcmp(name, "route") == 0)
        return eval_route(answer, truth, some);
    if (strcmp(name, "beliefs") == 0)
        return eval_beliefs(answer, truth, some);
    if (strcmp(name, "table") == 0)
        return eval_table(answer, truth);
    if (strcmp(name, "countdown") == 0) {
        int64_t numbers[4];
        for (size_t i = 0; i < 4; i++)
            numbers[i] = json_integer_value(json_array_get(json_object_get(one, "numbers"), i));
        return eval_countdown(answer, numbers, wanted);
    }
    fail_msg("%s: no such metric", name);
    return -1;
}

static void others_are_the_scripts(void **state) {
    const json_t *cases = json_object_get(golden, "single");
    unsigned wrong = 0;
    (void)state;
    assert_true(json_array_size(cases) > 250);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *one = json_array_get(cases, i), *truths = json_object_get(one, "truths");
        const json_t *some_wanted = json_object_get(one, "part");
        const char *name = json_string_value(json_object_get(one, "metric")), *items[MOST];
        const char *answer = json_string_value(json_object_get(one, "answer"));
        const double wanted = json_number_value(json_object_get(one, "score"));
        double some = -1;
        assert_true(json_array_size(truths) <= MOST);
        for (size_t t = 0; t < json_array_size(truths); t++)
            items[t] = json_string_value(json_array_get(truths, t));
        const double score = single(name, answer, (struct eval_list){items, json_array_size(truths)}, one, &some);
        if ((!near(score, wanted) || (some_wanted && !near(some, json_number_value(some_wanted)))) && wrong++ < 40)
            print_error("%s of \"%s\": %.12f (%.12f), wanted %.12f (%.12f)\n", name, answer, score, some, wanted,
                        json_number_value(some_wanted));
    }
    assert_int_equal(wrong, 0);
}

static void stems_are_nltks(void **state) {
    const json_t *stems = json_object_get(golden, "stems");
    unsigned wrong = 0;
    (void)state;
    assert_true(json_array_size(stems) > 100);
    for (size_t i = 0; i < json_array_size(stems); i++) {
        struct eval_pool pool = {0};
        const char *word = json_string_value(json_array_get(json_array_get(stems, i), 0));
        const char *stem = json_string_value(json_array_get(json_array_get(stems, i), 1));
        const struct eval_words made = eval_rouge_words(&pool, eval_codes_read(&pool, word), true);
        if ((made.count != 1 || !eval_codes_is(made.items[0], stem)) && wrong++ < 40)
            print_error("%s: wanted the stem %s\n", word, stem);
        eval_pool_free(&pool);
    }
    assert_int_equal(wrong, 0);
}

/* Texts for which the papers' scripts are undefined or stop with an error. */
static void odd_texts(void **state) {
    const char *const truths[] = {"Kettle Bay", "the harbour"};
    char *line = eval_first_line("\n\nfirst\nsecond");
    (void)state;
    assert_string_equal(line, "first");
    free(line);
    assert_true(eval_word_f1("\xff\xfe", "\xff") == 0); /* one word each, of different lengths */
    assert_true(eval_word_f1("\xff x", "\xff y") == 0.5);
    assert_true(eval_recall("at KETTLE BAY", (struct eval_list){truths, 2}) == 0.5);
    assert_true(eval_best_of(eval_word_f1, "harbour", (struct eval_list){truths, 2}) == 1);
    assert_true(eval_best_of(eval_word_f1, "harbour", (struct eval_list){truths, 0}) == 0);
    assert_true(eval_class("x", "x", (struct eval_list){truths, 0}) == 0);
    assert_true(eval_length("", 0) == 0 && eval_completion("", "", 0) == 0);
    assert_true(eval_infinite_find("12.0", "12") == 0); /* the script stops with an error */
}

static int read_golden(void **state) {
    (void)state;
    golden = data_json("metrics.json");
    return golden ? 0 : -1;
}

static int free_golden(void **state) {
    (void)state;
    json_decref(golden);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(pairs_are_the_scripts),
                                       cmocka_unit_test(others_are_the_scripts), cmocka_unit_test(stems_are_nltks),
                                       cmocka_unit_test(odd_texts)};
    return cmocka_run_group_tests(tests, read_golden, free_golden);
}

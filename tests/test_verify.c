/* test_verify.c - every CPU path this machine can run against the reference, and that the check can fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/verify.h"
#include "tests/check.h"

static int print_row(void *user, const struct kvc_verify_row *row) {
    unsigned *operations = user;
    if (row->differing > 0)
        print_message("  %s: %llu of %llu values differ; %s\n", row->name, (unsigned long long)row->differing,
                      (unsigned long long)row->values, row->first);
    assert_true(row->cases > 0);
    assert_true(row->values > 0);
    ++*operations;
    return 0;
}

/* One path, or skip where this machine or build does not have it. */
static void check_path(const char *path, int threads) {
    struct kvc_error error = {KVC_OK, ""};
    unsigned operations = 0;
    enum kvc_status status =
        kvc_verify_some(path, threads, kvc_test_thinned() ? 0 : 1, NULL, print_row, &operations, &error);
    if (status == KVC_RESOURCE && operations == 0) {
        print_message("%s\n", error.text);
        skip();
    }
    if (status != KVC_OK)
        print_message("%s: %s\n", path, error.text);
    assert_int_equal(status, KVC_OK);
    assert_true(operations >= 25);
}

static void plain_ref(void **state) {
    (void)state;
    if (kvc_test_thinned()) /* without FMA instructions fmaf rests on rounding modes, which valgrind has not */
        skip();
    check_path("ref", 1);
}
static void avx2(void **state) {
    (void)state;
    check_path("avx2", 3);
}
static void avx512(void **state) {
    (void)state;
    check_path("avx512", 2);
}
static void neon(void **state) {
    (void)state;
    check_path("neon", 2);
}

static void unknown_backend(void **state) {
    struct kvc_error error;
    (void)state;
    assert_int_equal(kvc_verify_some("avx3", 1, 1, NULL, NULL, NULL, &error), KVC_USAGE);
    assert_non_null(strstr(error.text, "avx3"));
}

static int remember(void *user, const struct kvc_verify_row *row) {
    *(struct kvc_verify_row *)user = *row;
    return 0;
}

/* KVCULL_BREAK flips one bit of one result: the check must see exactly that, for every operation. */
static void finds_a_flipped_bit(void **state) {
    const struct kvc_verify_operation *const tables[] = {kvc_verify_rows, kvc_verify_cache, kvc_verify_scores,
                                                              kvc_verify_select};
    (void)state;
    for (size_t t = 0; t < 4; t++)
        for (const struct kvc_verify_operation *operation = tables[t]; operation->name; operation++) {
            struct kvc_verify_row row = {.differing = 0};
            struct kvc_error error;
            setenv("KVCULL_BREAK", operation->name, 1);
            assert_int_equal(
                kvc_verify_some("cpu", 1, kvc_test_thinned() ? 0 : 1, operation->name, remember, &row, &error),
                KVC_DIFFERS);
            unsetenv("KVCULL_BREAK");
            assert_string_equal(row.name, operation->name);
            assert_int_equal(row.differing, 1);
            assert_true(strlen(row.first) > 0);
        }
}

/* The same inputs, so the same hash, whatever computes them. */
static void hashes_agree(void **state) {
    struct kvc_verify_row rows[2];
    (void)state;
    if (kvc_test_thinned())
        skip();
    assert_int_equal(kvc_verify_some("cpu", 1, 1, "norm", remember, &rows[0], NULL), KVC_OK);
    assert_int_equal(kvc_verify_some("ref", 1, 1, "norm", remember, &rows[1], NULL), KVC_OK);
    assert_true(rows[0].hash == rows[1].hash);
    assert_true(rows[0].hash != 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_ref),       cmocka_unit_test(avx2),
        cmocka_unit_test(avx512),          cmocka_unit_test(neon),
        cmocka_unit_test(unknown_backend), cmocka_unit_test(finds_a_flipped_bit),
        cmocka_unit_test(hashes_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

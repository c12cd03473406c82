/* test_verify.c - every CPU instruction set of this machine against the reference; and the check detects errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/check/verify.h"
#include "tests/check.h"
#include "tests/verify_some.h"

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

/* Checks one path; skipped where this machine or build does not have it. */
static void check_path(const char *path, int threads) {
    struct kvc_error error = {KVC_OK, ""};
    unsigned operations = 0;
    enum kvc_status status =
        kvc_test_verify(path, threads, kvc_test_thinned() ? 0 : 1, NULL, print_row, &operations, &error);
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
        SKIP_THINNED();
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
    assert_int_equal(kvc_test_verify("avx3", 1, 1, NULL, NULL, NULL, &error), KVC_USAGE);
    assert_non_null(strstr(error.text, "avx3"));
}

static int remember(void *user, const struct kvc_verify_row *row) {
    *(struct kvc_verify_row *)user = *row;
    return 0;
}

/* Damages one operation's results without the backend's knowledge: the check must detect this, and for that operation
 * only. */
static void finds_every_injected_fault(void **state) {
    const char *name;
    size_t i = 0;
    (void)state;
    for (; (name = kvc_verify_operation(i)) != NULL; i++) {
        const struct kvc_verify_options options = {.only = name, .inject = name};
        struct kvc_verify_row row = {.differing = 0};
        struct kvc_error error;
        if (kvc_verify_operations(&options, remember, &row, &error) != KVC_DIFFERS)
            fail_msg("%s: the injected fault is not found", name);
        assert_string_equal(row.name, name);
        assert_true(row.differing > 0);
        assert_true(row.differing_bits >= row.differing);
        assert_non_null(strstr(row.first, "ref has "));
    }
    /* All operations of the table except those without results: open, free, wait, reach, prepare, creating buffers and
     * weights, packing weights, and copying, reading and writing blocks, which test_device checks. */
    size_t further = 0;
#define KVC_FURTHER(name, what) further++;
#include "core/base/ops.def"
    assert_int_equal(i, (sizeof(struct kvc_ops) - sizeof(char *)) / sizeof(void (*)(void)) - 17 + further);
}

static int one_differs(void *user, const struct kvc_verify_row *row) {
    assert_true((row->differing > 0) == (strcmp(row->name, user) == 0));
    return 0;
}

static void others_are_not_touched(void **state) {
    static const char names[][16] = {"append", "attention", "entries",
                                     "download"}; /* the cases of other operations use these */
    (void)state;
    if (kvc_test_thinned())
        SKIP_THINNED();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const struct kvc_verify_options options = {.inject = names[i]};
        char name[16];
        memcpy(name, names[i], sizeof name);
        assert_int_equal(kvc_verify_operations(&options, one_differs, name, NULL), KVC_DIFFERS);
    }
}

static void unknown_operation(void **state) {
    struct kvc_verify_options options = {.inject = "nosuch"};
    struct kvc_engine *engine;
    struct kvc_error error;
    (void)state;
    assert_int_equal(kvc_verify_operations(&options, NULL, NULL, &error), KVC_USAGE);
    assert_non_null(strstr(error.text, "nosuch"));
    options = (struct kvc_verify_options){.only = "nosuch"};
    assert_int_equal(kvc_verify_operations(&options, NULL, NULL, &error), KVC_USAGE);
    assert_int_equal(kvc_engine_open(NULL, &engine, &error), KVC_OK);
    assert_int_equal(kvc_verify_inject(engine, "nosuch", &error), KVC_USAGE);
    assert_int_equal(kvc_verify_inject(engine, "linear", &error), KVC_OK);
    kvc_engine_close(engine);
}

struct hashes {
    uint64_t value[512];
    size_t count;
};

static int add_hash(void *user, const struct kvc_verify_row *row) {
    struct hashes *hashes = user;
    assert_true(hashes->count < sizeof hashes->value / sizeof *hashes->value);
    assert_int_equal(row->differing, 0);
    hashes->value[hashes->count++] = row->hash;
    return 0;
}

/* Equal inputs give equal hashes whatever device computes them, with the reference or alone. */
static void hashes_agree(void **state) {
    struct hashes beside = {.count = 0}, alone = {.count = 0}, ref = {.count = 0};
    const struct kvc_verify_options options[] = {{0}, {.alone = true}, {.backend = "ref", .alone = true}};
    (void)state;
    if (kvc_test_thinned())
        SKIP_THINNED();
    assert_int_equal(kvc_verify_operations(&options[0], add_hash, &beside, NULL), KVC_OK);
    assert_int_equal(kvc_verify_operations(&options[1], add_hash, &alone, NULL), KVC_OK);
    assert_int_equal(kvc_verify_operations(&options[2], add_hash, &ref, NULL), KVC_OK);
    assert_true(beside.count > 30);
    for (size_t i = 0; i < beside.count; i++)
        if (beside.value[i] != alone.value[i] || beside.value[i] != ref.value[i])
            fail_msg("%s has other hashes", kvc_verify_operation(i));
    assert_int_equal(ref.count, beside.count);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_ref),
        cmocka_unit_test(avx2),
        cmocka_unit_test(avx512),
        cmocka_unit_test(neon),
        cmocka_unit_test(unknown_backend),
        cmocka_unit_test(finds_every_injected_fault),
        cmocka_unit_test(hashes_agree),
        cmocka_unit_test(others_are_not_touched),
        cmocka_unit_test(unknown_operation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_measure.c - the measurements of operations report every call exactly once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/measure.h"
#include "core/base/backends.h"
#include "core/engine/engine.h"
#include "core/check/verify.h"
#include "tests/check.h"

enum { MOST = 200 };

struct seen {
    unsigned rows;
    char names[MOST][24];
    uint64_t bytes;
};

static int note(void *user, const struct kvc_rooflines *rooflines, const struct kvc_measured *row) {
    struct seen *seen = user;
    assert_true(rooflines->copy > 0 && rooflines->fma > 0 && rooflines->launch > 0 && rooflines->product >= 0);
    assert_true(row->seconds > 0 && row->shape[0] && (row->bytes || row->flops));
    assert_true(seen->rows < MOST);
    strncpy(seen->names[seen->rows++], row->name, 23);
    seen->bytes += row->bytes;
    return 0;
}

static void every_operation_once(void **state) {
    static struct seen seen;
    const struct kvc_engine_options options = {.backend = "cpu", .threads = 2, .math = KVC_MATH_EXACT};
    static const char *const names[] = {
#define KVC_OPERATION(name, parameters, ...) #name,
#define KVC_OPERATION_REF(name, parameters, ...)
#include "core/base/ops.def"
    };
    const struct kvc_measure_options all = {.quick = true};
    struct kvc_error error = {KVC_OK, ""};
    (void)state;
    if (kvc_measure_operations(&options, &all, note, &seen, &error) != KVC_OK)
        fail_msg("%s", error.text);
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        bool found = !strcmp(names[n], "fma_loop"); /* one of the measured upper limits */
        for (unsigned i = 0; i < seen.rows; i++)
            found = found || strcmp(seen.names[i], names[n]) == 0;
        if (!found)
            fail_msg("%s is in the list, but not measured", names[n]);
    }
}

static int stop(void *user, const struct kvc_rooflines *rooflines, const struct kvc_measured *row) {
    assert_true(rooflines->copy > 0 && row->beside > 0);
    ++*(unsigned *)user;
    return 1;
}

static enum kvc_status some(const struct kvc_engine_options *options, struct kvc_measure_options what, unsigned *rows,
                            struct kvc_error *error) {
    what.quick = true;
    return kvc_measure_operations(options, &what, stop, rows, error);
}

/* A short context; the same functions are called. */
static void a_long_context(void **state) {
    static struct seen seen;
    const struct kvc_engine_options options = {.backend = "cpu", .threads = 2, .math = KVC_MATH_EXACT};
    const struct kvc_measure_options what = {.entries = 300, .quick = true};
    static const char *const names[] = {"linear", "attention", "prefill", "selection"};
    struct kvc_error error = {KVC_OK, ""};
    (void)state;
    if (kvc_measure_operations(&options, &what, note, &seen, &error) != KVC_OK)
        fail_msg("%s", error.text);
    assert_int_equal(seen.rows, 4);
    for (unsigned i = 0; i < 4; i++)
        assert_string_equal(seen.names[i], names[i]);
}

static void beside_another(void **state) {
    const struct kvc_engine_options options = {.backend = "ref", .threads = 1, .math = KVC_MATH_EXACT};
    struct kvc_error error = {KVC_OK, ""};
    unsigned rows = 0;
    (void)state;
    assert_int_equal(some(&options, (struct kvc_measure_options){.beside = "cpu", .only = "embed"}, &rows, &error),
                     KVC_OK);
    assert_int_equal(rows, 1);
    assert_int_equal(some(&options, (struct kvc_measure_options){.only = "nosuch"}, &rows, &error), KVC_USAGE);
    assert_non_null(strstr(error.text, "'nosuch'"));
    assert_int_equal(some(&options, (struct kvc_measure_options){.beside = "nosuch"}, &rows, &error), KVC_USAGE);
    assert_int_equal(some(&options, (struct kvc_measure_options){.entries = 255}, &rows, &error), KVC_USAGE);
    assert_non_null(strstr(error.text, "from 256"));
    assert_int_equal(some(&options, (struct kvc_measure_options){.table = "nosuch"}, &rows, &error), KVC_USAGE);
    assert_non_null(strstr(error.text, "try operations, layer"));
    assert_int_equal(some(&options, (struct kvc_measure_options){.table = "prompt"}, &rows, &error), KVC_USAGE);
    assert_non_null(strstr(error.text, "needs a model"));
    assert_int_equal(some(&options, (struct kvc_measure_options){.table = "select", .entries = 1023}, &rows, &error),
                     KVC_USAGE);
    assert_non_null(strstr(error.text, "from 1024"));
    assert_int_equal(some(&options, (struct kvc_measure_options){.table = "int8", .entries = 4096}, &rows, &error),
                     KVC_USAGE);
    assert_int_equal(rows, 1);
}

struct counted {
    const struct kvc_measure_table *table;
    unsigned rows, fewer; /* `fewer`: rows whose call reads fewer bytes than the call compared with it */
};

static int count_row(void *user, const struct kvc_rooflines *rooflines, const struct kvc_measured *row) {
    struct counted *counted = user;
    const bool compared = counted->table->beside && strcmp(counted->table->name, "gemm") != 0; /* gemm: with OpenBLAS */
    assert_true(rooflines->fma > 0 && rooflines->read >= 0);
    assert_true(row->seconds > 0 && row->shape[0] && row->bytes > 0);
    assert_true(!compared || (row->beside > 0 && row->beside_bytes > 0));
    counted->rows++;
    counted->fewer += row->bytes < row->beside_bytes;
    return 0;
}

/* Every table has all its rows, and each row that compares two calls has the times of both. */
static void every_table(void **state) {
    static const struct {
        const char *name;
        unsigned rows;
    } tables[] = {{"attention-decode", 57},
                  {"attention-prefill", 33},
                  {"attention-int8", 24},
                  {"select", 80},
                  {"gemm", 16},
                  {"types", KVC_ALL_TYPES},
                  {"small-batch", 40},
                  {"linear-decode", KVC_ALL_TYPES},
                  {"linear-cached", KVC_ALL_TYPES},
                  {"int8", 2 * (KVC_TYPES - KVC_Q8_0)},
                  {"int16", 3 * 4}};
    const struct kvc_engine_options options = {.backend = "cpu", .threads = 2, .math = KVC_MATH_EXACT};
    struct kvc_error error = {KVC_OK, ""};
    size_t known = 0;
    (void)state;
    for (size_t i = 0; (kvc_measure_table(i)) != NULL; i++) {
        struct counted counted = {kvc_measure_table(i), 0, 0};
        const struct kvc_measure_options what = {.table = counted.table->name, .quick = true};
        if (counted.table->model || i < 2) /* the tables operations and layer have tests of their own */
            continue;
        if (kvc_measure_operations(&options, &what, count_row, &counted, &error) != KVC_OK)
            fail_msg("%s: %s", what.table, error.text);
        assert_string_equal(what.table, tables[known].name);
        assert_int_equal(counted.rows, tables[known++].rows);
        assert_true((counted.fewer > counted.rows / 2) == (strcmp(what.table, "select") == 0));
    }
    assert_int_equal(known, sizeof tables / sizeof *tables);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_operation_once), cmocka_unit_test(a_long_context),
                                       cmocka_unit_test(beside_another), cmocka_unit_test(every_table)};
    if (kvc_test_thinned()) { /* valgrind would need hundreds of megabytes */
        puts("elsewhere: ./dev check --plain runs this");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* over_seeds.c - runs one fuzz target over its seeds without libFuzzer, for `make check`: each seed complete, cut at 40
 * offsets, and with single bytes changed. The program's name selects the target: tests/fuzz/seeds_<name>. */
#include <dirent.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { MOST_BYTES = 1 << 20, CUTS = 40, CHANGES = 60 };

static void try(const uint8_t *data, size_t bytes) {
    uint8_t *copy = malloc(bytes ? bytes : 1); /* of the exact size, so that reading past the end is noticed */
    assert_non_null(copy);
    memcpy(copy, data, bytes);
    LLVMFuzzerTestOneInput(copy, bytes);
    free(copy);
}

static void try_all(const char *path) {
    static uint8_t data[MOST_BYTES];
    static const uint8_t values[] = {0x00, 0xff, 0x80, 0x01};
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    const size_t bytes = fread(data, 1, sizeof data, file);
    fclose(file);
    assert_true(bytes > 0 && bytes < sizeof data);
    try(data, bytes);
    for (size_t i = 0; i < CUTS; i++)
        try(data, bytes * i / CUTS);
    for (size_t i = 0; i < CHANGES; i++) {
        const size_t at = (bytes * i / CHANGES + 7 * i) % bytes;
        const uint8_t old = data[at];
        data[at] = values[i % 4];
        try(data, bytes);
        data[at] = old;
    }
}

static void test_seeds(void **state) {
    char path[PATH_MAX + 300];
    DIR *folder = opendir(*state);
    const struct dirent *entry;
    unsigned seeds = 0;
    assert_non_null(folder);
    while ((entry = readdir(folder)))
        if (entry->d_name[0] != '.') {
            snprintf(path, sizeof path, "%s/%s", (const char *)*state, entry->d_name);
            try_all(path);
            seeds++;
        }
    closedir(folder);
    assert_true(seeds > 0);
}

int main(int count, char **arguments) {
    char folder[PATH_MAX];
    const char *top = getenv("top_srcdir"), *name = strstr(arguments[count - 1], "seeds_");
    if (!name)
        return 2;
    snprintf(folder, sizeof folder, "%s/tests/fuzz/seeds/%s", top ? top : ".", name + strlen("seeds_"));
    const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(test_seeds, folder)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

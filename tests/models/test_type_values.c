/* test_type_values.c - the values of all block types, including edge cases, are bit-identical to the gguf package's
 * (tests/data/golden/types.txt, made by tests/golden/make_types_golden.py). */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/canon.h"
#include "core/base/types.h"
#include "models/convert/quantize.h"
#include "tests/check.h"

static FILE *open_golden(void) {
    char path[700];
    const char *top = getenv("top_srcdir");
    snprintf(path, sizeof path, "%s/tests/data/golden/types.txt", top ? top : "..");
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    return file;
}

static uint64_t hash_values(const float *x, size_t count) { /* FNV-1a */
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < count; i++) {
        const kvc_u32 bits = kvc_hash_bits(x[i]);
        for (unsigned byte = 0; byte < 4; byte++)
            hash = (hash ^ (bits >> (8 * byte) & 255)) * UINT64_C(0x100000001b3);
    }
    return hash;
}

static size_t bytes_of(const char *hex, unsigned char *bytes, size_t capacity) {
    size_t count = 0;
    for (; hex[2 * count] && count < capacity; count++) {
        unsigned byte;
        assert_int_equal(sscanf(hex + 2 * count, "%2x", &byte), 1);
        bytes[count] = (unsigned char)byte;
    }
    return count;
}

static void blocks_have_their_values(void **state) {
    (void)state;
    static char line[1024], name[16], hex[800];
    unsigned seen[KVC_TYPES] = {0}, wrong = 0;
    FILE *file = open_golden();
    while (fgets(line, sizeof line, file)) {
        enum kvc_type type;
        unsigned char block[256];
        float values[256];
        uint64_t hash;
        if (line[0] == '#')
            continue;
        assert_int_equal(sscanf(line, "%15s %799s %" SCNx64, name, hex, &hash), 3);
        if (!kvc_type_from_name(name, &type))
            fail_msg("%s is not a type", name);
        const struct kvc_type_block of = kvc_type_block(type);
        assert_int_equal(bytes_of(hex, block, sizeof block), of.bytes);
        kvc_dequantize_row(type, block, of.elements, values);
        seen[type]++;
        if (hash_values(values, of.elements) != hash) {
            print_error("%s: block %u (%.40s...): other values, which begin with %g %g %g %g\n", name, seen[type], hex,
                        (double)values[0], (double)values[1], (double)values[2], (double)values[3]);
            wrong++;
        }
    }
    fclose(file);
    assert_int_equal(wrong, 0);
    for (int type = 0; type < KVC_TYPES; type++)
        if (kvc_type_block((enum kvc_type)type).elements > 1 && seen[type] < 30)
            fail_msg("%s: %u blocks in tests/data/golden/types.txt", kvc_type_name((enum kvc_type)type), seen[type]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(blocks_have_their_values)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* random_weights.h - shared by the tests of linear layers with 8-bit activations: random weights of any type. */
#ifndef KVC_TESTS_BACKENDS_RANDOM_WEIGHTS_H
#define KVC_TESTS_BACKENDS_RANDOM_WEIGHTS_H

#include "core/base/weight_types.h"
#include "tests/backends/ref_fixture.h"

/* Returns `rows` rows of random blocks with moderate scales. The caller frees them. */
static inline unsigned char *random_weights(enum kvc_type type, size_t rows, size_t K) {
    const struct kvc_type_block of = kvc_type_block(type);
    const size_t bytes = rows * kvc_type_row_bytes(type, K);
    unsigned char *w = malloc(bytes);
    assert_non_null(w);
    for (size_t i = 0; i < bytes; i++)
        w[i] = (unsigned char)draw(256);
    for (size_t i = 0; i < bytes; i += of.bytes)
        for (size_t s = 0; s < of.scales; s++) {
            if (of.wide == 1)
                w[i + of.scale + s] = (unsigned char)(120 + draw(8));
            else
                w[i + of.scale + 2 * s + 1] = (unsigned char)((w[i + of.scale + 2 * s + 1] & 0x83) | 0x2c);
        }
    return w;
}

#endif

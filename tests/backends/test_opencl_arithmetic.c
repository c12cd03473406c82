/* test_opencl_arithmetic.c - the self-test of an OpenCL device refuses wrong devices. Quotients and square roots are
 * right over the whole range, both the device's own and those computed in integers. Skips without a device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/opencl/opencl.h"
#include "core/base/backends.h"
#include "core/base/canon.h"
#include "tests/check.h"

static struct kvc_device *open_device(struct kvc_error *error) {
    struct kvc_device *device = NULL;
    char detail[256];
    if (!kvc_backend_opencl.usable(detail, sizeof detail)) {
        print_message("skipped: %s\n", detail);
        skip();
    }
    if (kvc_backend_opencl.open(NULL, 0, 0, KVC_MATH_EXACT, &device, error) != KVC_OK) {
        assert_int_equal(error->status, KVC_RESOURCE);
        assert_null(device);
        assert_null(strchr(error->text, '\n'));
    }
    return device;
}

/* Each device is refused because of its first wrong number; the message has the operation, its values, the result and
 * the expected result. Each case compiles all kernels, so shortened runs try only one. */
static void refused(void **state) {
    static const struct {
        const char *lack, *begins, *why;
    } lacks[] = {{"fma", " cannot be exact: fma(", " (fused multiply-add is not one rounding); use --math fast or cpu"},
                 {"denormals", " cannot be exact: fma(00000000, ", " (no denormal numbers); use --math fast or cpu"},
                 {"order", " cannot be exact: a window of 1001 values is ", " (sums are not in order); use"}};
    struct kvc_error error = {KVC_OK, ""};
    struct kvc_device *device = open_device(&error);
    (void)state;
    if (!device) {
        print_message("skipped: %s\n", error.text);
        skip();
    }
    device->ops->close(device);
    for (size_t i = kvc_test_thinned() ? 2 : 0; i < sizeof lacks / sizeof *lacks; i++) {
        setenv("KVCULL_OPENCL_LACKS", lacks[i].lack, 1);
        device = open_device(&error);
        unsetenv("KVCULL_OPENCL_LACKS");
        assert_null(device);
        print_message("%s\n", error.text);
        assert_non_null(strstr(error.text, lacks[i].begins));
        assert_non_null(strstr(error.text, ", should be "));
        assert_non_null(strstr(error.text, lacks[i].why));
    }
}

/* A device that claims exact quotients but lacks them gets quotients computed with integers. */
static void quotients_not_as_claimed(void **state) {
    struct kvc_error error = {KVC_OK, ""};
    struct kvc_device *device = open_device(&error);
    bool claimed;
    (void)state;
    claimed = device && ((struct kvc_opencl *)device)->found.division;
    if (device)
        device->ops->close(device);
    if (!claimed) {
        print_message("skipped: %s\n", device ? "it claims none" : error.text);
        skip();
    }
    setenv("KVCULL_OPENCL_LACKS", "division", 1);
    device = open_device(&error);
    unsetenv("KVCULL_OPENCL_LACKS");
    assert_non_null(device);
    assert_false(((struct kvc_opencl *)device)->found.division);
    device->ops->close(device);
}

#define CASES ((size_t)1 << 18)
#define OPERATIONS 6 /* in kernels/check.h the fifth operation is a / b, the sixth sqrt(a) */

static kvc_u32 pick(kvc_u32 chance) {
    static const kvc_u32 ends[] = {0u,          1u,          2u,          3u,          0x7fffffu,   0x800000u,
                                   0x800001u,   0xffffffu,   0x1000000u,  0x3f7fffffu, 0x3f800000u, 0x3f800001u,
                                   0x7effffffu, 0x7f000000u, 0x7f7ffffeu, 0x7f7fffffu, 0x7f800000u, 0x7fc00000u};
    return ends[chance % (sizeof ends / sizeof *ends)] | (chance & 0x80000000u);
}

/* Case i of 2^25. Half of the cases have every a from 1 to below 4, with a b near it (for roots, these are all but the
 * denormal ones). A quarter has every denormal a. The others are numbers of all kinds, quotients that are denormal or
 * near the largest number, and both ends of the range. */
static void make_case(kvc_u32 i, float *in) {
    const struct kvc_philox chance = kvc_philox4x32(i, 0u, 0u, 0u, 7u);
    const kvc_u32 *word = chance.word;
    const kvc_u32 kind = i / 4 % 4;
    kvc_u32 a = 0x3f800000u + i / 2 % 0x1000000u, b = (word[1] & 0x80ffffffu) + 0x3f800000u;
    if (i % 4 == 1)
        a = i / 4 % 0x800000u, b = word[1];
    else if (i % 4 == 3 && kind == 0)
        a = word[0], b = word[1];
    else if (i % 4 == 3 && kind == 1) /* denormal quotients */
        a = word[0] & 0x81ffffffu, b = (word[1] & 0x85ffffffu) + 0x3f800000u;
    else if (i % 4 == 3 && kind == 2) /* near the largest number */
        a = (word[0] & 0x80ffffffu) + 0x7e800000u, b = (word[1] & 0x80ffffffu) + 0x3e800000u;
    else if (i % 4 == 3)
        a = pick(word[0]), b = word[2] % 2 ? pick(word[1]) : word[1];
    in[0] = kvc_from_bits(a);
    in[1] = kvc_from_bits(b);
    in[2] = 0.0f;
}

static void compare(const float *in, const float *out) {
    for (size_t i = 0; i < CASES; i++, in += 3, out += OPERATIONS) {
        const float quotient = in[0] / in[1], root = kvc_sqrt(in[0]);
        if (kvc_hash_bits(quotient) != kvc_hash_bits(out[4]))
            fail_msg("%08x / %08x is %08x, should be %08x", kvc_bits(in[0]), kvc_bits(in[1]), kvc_bits(out[4]),
                     kvc_bits(quotient));
        if (kvc_hash_bits(root) != kvc_hash_bits(out[5]))
            fail_msg("sqrt(%08x) is %08x, should be %08x", kvc_bits(in[0]), kvc_bits(out[5]), kvc_bits(root));
    }
}

/* Every sixteenth of the cases; with KVCULL_TEST_WHOLE=yes all of them. */
static void whole_range(void) {
    const bool whole = getenv("KVCULL_TEST_WHOLE") != NULL;
    const size_t in_bytes = CASES * 3 * sizeof(float), out_bytes = CASES * OPERATIONS * sizeof(float);
    struct kvc_error error = {KVC_OK, ""};
    struct kvc_device *device = open_device(&error);
    struct kvc_buffer *buffer = NULL;
    float *in, *out;
    if (!device) {
        print_message("skipped: %s\n", error.text);
        skip();
    }
    in = malloc(in_bytes);
    out = malloc(out_bytes);
    assert_true(in && out);
    assert_int_equal(device->ops->buffer_create(device, KVC_MEMORY_SCRATCH, in_bytes + out_bytes, &buffer, &error),
                     KVC_OK);
    for (kvc_u32 round = 0; round < 128; round += whole ? 1 : 16) {
        struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_check);
        for (size_t i = 0; i < CASES; i++) /* one of every 128 per round */
            make_case((kvc_u32)(i * 128 + (round + i / 8 * 5) % 128), in + 3 * i);
        device->ops->upload(device, (struct kvc_span){buffer, 0}, in, in_bytes);
        kvc_launch_span(&launch, (struct kvc_span){buffer, 0});
        kvc_launch_span(&launch, (struct kvc_span){buffer, in_bytes});
        kvc_launch_word(&launch, (uint32_t)CASES);
        kvc_launch_items((struct kvc_offload *)device, &launch, CASES, 1, 1);
        device->ops->download(device, out, (struct kvc_span){buffer, in_bytes}, out_bytes);
        assert_int_equal(device->ops->sync(device, &error), KVC_OK);
        compare(in, out);
    }
    device->ops->buffer_free(device, buffer);
    device->ops->close(device);
    free(in);
    free(out);
}

static void quotients(void **state) {
    (void)state;
    whole_range();
}

static void quotients_in_integers(void **state) {
    (void)state;
    setenv("KVCULL_OPENCL_DIVISION", "corrected", 1);
    whole_range();
    unsetenv("KVCULL_OPENCL_DIVISION");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused),
        cmocka_unit_test(quotients_not_as_claimed),
        cmocka_unit_test(quotients),
        cmocka_unit_test(quotients_in_integers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

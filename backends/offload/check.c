/* check.c - the self-test of a device's arithmetic when it is opened: what the kernels' results rest on. */
#include <math.h>
#include <stdlib.h>

#include "backends/offload/offload.h"
#include "core/canon.h"

/* Numbers of every kind: zeros, denormals, both ends, halves between floats, infinities. */
static const kvc_u32 numbers[] = {0x00000000u, 0x80000000u, 0x00000001u, 0x80000003u, 0x007fffffu, 0x00800000u,
                                  0x00800001u, 0x33800000u, 0x3effffffu, 0x3f7fffffu, 0x3f800000u, 0x3f800001u,
                                  0x3f800800u, 0xbf801000u, 0x3fffffffu, 0x40000000u, 0x40400000u, 0xc0490fdbu,
                                  0x41200000u, 0x4b7fffffu, 0x4b800001u, 0x5f3759dfu, 0x7e967699u, 0x7effffffu,
                                  0x7f7fffffu, 0xff7fffffu, 0x7f800000u, 0xff800000u};
#define KVC_NUMBERS (sizeof numbers / sizeof numbers[0])
#define KVC_CHECKS (KVC_NUMBERS * KVC_NUMBERS)

static const char *const what[] = {"a product and a sum were fused", "fma is not one rounding",
                                   "division is not correctly rounded", "square root is not correctly rounded",
                                   "a product is not correctly rounded, or denormal numbers are flushed to zero"};

static const char *compare(const float *in, const float *out) {
    for (size_t i = 0; i < KVC_CHECKS; i++) {
        volatile float a = in[3 * i], b = in[3 * i + 1], c = in[3 * i + 2], product = a * b;
        float right[5] = {product + c, kvc_fma(a, b, c), a / b, kvc_sqrt(a), product};
        for (int j = 0; j < 5; j++)
            if (kvc_hash_bits(right[j]) != kvc_hash_bits(out[5 * i + (size_t)j]))
                return what[j];
    }
    return NULL;
}

enum kvc_status kvc_offload_check(struct kvc_offload *offload, struct kvc_error *error) {
    float *in = malloc(KVC_CHECKS * 8 * sizeof *in), *out = in ? in + KVC_CHECKS * 3 : NULL;
    struct kvc_buffer *spare = in ? kvc_offload_spare(offload, KVC_CHECKS * 8 * sizeof *in) : NULL;
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_check);
    enum kvc_status status = KVC_RESOURCE;
    const char *wrong;
    if (!spare) {
        free(in);
        return kvc_fail(error, KVC_RESOURCE, "%s: no memory for the self-test", offload->device.name);
    }
    for (size_t i = 0; i < KVC_CHECKS; i++) {
        in[3 * i] = kvc_from_bits(numbers[i / KVC_NUMBERS]);
        in[3 * i + 1] = kvc_from_bits(numbers[i % KVC_NUMBERS]);
        in[3 * i + 2] = kvc_from_bits(numbers[(i * 7 + i / 5) % KVC_NUMBERS]);
    }
    offload->driver->write(offload, spare->handle, 0, in, KVC_CHECKS * 3 * sizeof *in);
    kvc_launch_span(&launch, (struct kvc_span){spare, 0});
    kvc_launch_span(&launch, (struct kvc_span){spare, KVC_CHECKS * 3 * sizeof *in});
    kvc_launch_word(&launch, KVC_CHECKS);
    kvc_launch_items(offload, &launch, KVC_CHECKS, 1, 1);
    offload->driver->read(offload, out, spare->handle, KVC_CHECKS * 3 * sizeof *in, KVC_CHECKS * 5 * sizeof *in);
    if (offload->failure != KVC_OK)
        kvc_fail(error, KVC_RESOURCE, "%s: %s", offload->device.name, offload->failure_text);
    else if ((wrong = compare(in, out)) != NULL)
        kvc_fail(error, KVC_RESOURCE, "%s: the self-test of the arithmetic failed: %s", offload->device.name, wrong);
    else
        status = KVC_OK;
    free(in);
    return status;
}

/* check.c - the self-test of a device's arithmetic, run when the device is opened. It tests every property that the
 * kernels' results depend on. The test computes results instead of asking the device about its features, because the
 * answers are unreliable: some devices claim features that they lack, and others have features that they do not
 * claim. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/offload/offload.h"
#include "core/base/canon.h"

/* Numbers of every kind: zeros, denormals, smallest and largest values, numbers halfway between floats, infinities.
 * Every pair of them is a test case. */
static const kvc_u32 numbers[] = {0x00000000u, 0x80000000u, 0x00000001u, 0x80000003u, 0x007fffffu, 0x00800000u,
                                  0x00800001u, 0x33800000u, 0x3effffffu, 0x3f7fffffu, 0x3f800000u, 0x3f800001u,
                                  0x3f800800u, 0xbf801000u, 0x3fffffffu, 0x40000000u, 0x40400000u, 0xc0490fdbu,
                                  0x41200000u, 0x4b7fffffu, 0x4b800001u, 0x5f3759dfu, 0x7e967699u, 0x7effffffu,
                                  0x7f7fffffu, 0xff7fffffu, 0x7f800000u, 0xff800000u};
#define KVC_NUMBERS (sizeof numbers / sizeof numbers[0])
#define KVC_PAIRS (KVC_NUMBERS * KVC_NUMBERS)

/* Cases in which a result that is rounded once differs from a result that is rounded twice: after each of two
 * operations, or first to double precision and then to float. */
static const kvc_u32 hard[][3] = {
    {0x3f800800u, 0x3f800800u, 0x00000000u}, /* (1 + 2^-12)^2 lies halfway between two floats */
    {0x3f800800u, 0x3f800800u, 0x21800000u}, /* plus 2^-60: slightly above the halfway point */
    {0x3f800800u, 0x3f800800u, 0xa1800000u}, /* minus 2^-60: slightly below the halfway point */
    {0x3f800800u, 0x3f800800u, 0xbf801000u}, /* minus the rounded square: the exact remainder is 2^-24 */
    {0x3f801800u, 0x3f800800u, 0x21800000u}, /* a halfway case whose lower neighbour is odd */
    {0x3f801800u, 0x3f800800u, 0xa1800000u},
    {0x7f7fffffu, 0x3f800000u, 0x73000000u}, /* the largest float plus half its unit: infinite */
    {0x7f7fffffu, 0x3f800000u, 0x72ffffffu}, /* slightly less than half a unit: finite */
    {0x7f000000u, 0x40000000u, 0xff7fffffu}, /* the product alone is infinite */
    {0x7f7fffffu, 0x40000000u, 0xff7fffffu},
    {0x1a000000u, 0x1a000000u, 0x00000000u}, /* 2^-150, half of the smallest denormal: 0 */
    {0x1a000001u, 0x1a000000u, 0x00000000u}, /* slightly more than 2^-150: 2^-149 */
    {0x1a000000u, 0x1a000000u, 0x00000001u}, /* 1.5, 2.5 and 0.5 times the smallest denormal */
    {0x1a000000u, 0x1a000000u, 0x00000002u},
    {0x1a000000u, 0x9a000000u, 0x00000001u},
    {0x00800000u, 0x3f7fffffu, 0x00000000u}, /* the largest denormal plus half a unit: the smallest normal */
    {0x00ffffffu, 0x3f000000u, 0x00000000u},
    {0x20000000u, 0x20000000u, 0x80800000u}, /* a difference that is denormal */
    {0x00000003u, 0x40000000u, 0x80000001u}, /* a halfway quotient: 1.5 times the smallest denormal */
    {0x00000005u, 0x40000000u, 0x80000002u}, /* 2.5 times the smallest denormal */
    {0x00000001u, 0x40000000u, 0x00000000u}, /* 0.5 times the smallest denormal: 0 */
    {0x00800001u, 0x40000000u, 0x00000000u},
    {0x00ffffffu, 0x40000000u, 0x00000000u}, /* rounds up to a normal number */
    {0x7f7fffffu, 0x3f7fffffu, 0x00000000u}, /* just overflows */
    {0x7f7ffffeu, 0x3f7fffffu, 0x00000000u}, /* just does not overflow */
    {0x3f7fffffu, 0x3f7ffffeu, 0x00000000u}, /* slightly below a halfway point above 1 */
    {0x3f800002u, 0x3f800001u, 0x00000000u},
    {0x00000001u, 0x7f7fffffu, 0x00000001u},
    {0x7f7fffffu, 0x00000001u, 0x00000000u},
};
#define KVC_HARD (sizeof hard / sizeof hard[0])

/* Cases are computed in batches, so that the scratch memory stays small. */
#define KVC_CASES 1024u
#define KVC_ROUNDS 4u
#define KVC_OPERATIONS 6u

static const struct {
    const char *formula, *lack;
} operation[KVC_OPERATIONS] = {{"%08x * %08x + %08x in two roundings", "a product and a sum were fused"},
                               {"fma(%08x, %08x, %08x)", "fused multiply-add is not one rounding"},
                               {"%08x * %08x", "multiplication is not rounded to nearest"},
                               {"exp(%08x) by steps", "expressions are rearranged"},
                               {"%08x / %08x", "division is not rounded to nearest"},
                               {"sqrt(%08x)", "square root is not rounded to nearest"}};
#define KVC_OF_DIVISION(operation) ((operation) >= 4)

/* Builds case i. All pairs come first, then the hard cases, then random cases. Odd random cases use arbitrary bit
 * patterns. Even ones use numbers whose sums and products stay near 1; in half of these c is nearly -a * b. */
static void make_case(size_t i, float *in) {
    const struct kvc_philox chance = kvc_philox4x32((kvc_u32)i, 0u, 0u, 0u, 20u);
    if (i < KVC_PAIRS) {
        in[0] = kvc_from_bits(numbers[i / KVC_NUMBERS]);
        in[1] = kvc_from_bits(numbers[i % KVC_NUMBERS]);
        in[2] = kvc_from_bits(numbers[(i * 7 + i / 5) % KVC_NUMBERS]);
    } else if (i < KVC_PAIRS + KVC_HARD) {
        for (int j = 0; j < 3; j++)
            in[j] = kvc_from_bits(hard[i - KVC_PAIRS][j]);
    } else {
        for (int j = 0; j < 3; j++)
            in[j] = kvc_from_bits(i % 2 ? chance.word[j] : (chance.word[j] & 0x83ffffffu) + 0x3d000000u);
        if (i % 4 == 0)
            in[2] = -(in[0] * in[1]);
    }
}

static bool denormal(float x) { return x != 0.0f && (kvc_bits(x) & 0x7f800000u) == 0; }

/* The first wrong result, as text. A wrong result that involves no denormal number takes precedence over one that
 * does. */
struct finding {
    bool wrong, is_denormal, of_division; /* of_division: all wrong results so far are quotients or square roots */
    char text[200];
};

static void check_find(struct finding *found, size_t j, const float *in, float right, float out) {
    const bool is_denormal = denormal(in[0]) || denormal(right) || (j != 3 && j != 5 && denormal(in[1])) ||
                             (j < 2 && (denormal(in[2]) || denormal(in[0] * in[1])));
    const bool of_division = KVC_OF_DIVISION(j);
    char formula[80];
    if (found->wrong &&
        (of_division > found->of_division || (of_division == found->of_division && is_denormal >= found->is_denormal)))
        return;
    found->wrong = true;
    found->is_denormal = is_denormal;
    found->of_division = of_division;
    snprintf(formula, sizeof formula, operation[j].formula, kvc_bits(in[0]), kvc_bits(in[1]), kvc_bits(in[2]));
    snprintf(found->text, sizeof found->text, "%s is %08x, should be %08x (%s)", formula, kvc_bits(out),
             kvc_bits(right), is_denormal ? "no denormal numbers" : operation[j].lack);
}

static void check_compare(const float *in, const float *out, struct finding *found) {
    for (size_t i = 0; i < KVC_CASES; i++, in += 3, out += KVC_OPERATIONS) {
        volatile float product = in[0] * in[1];
        const float right[KVC_OPERATIONS] = {
            product + in[2], kvc_fma(in[0], in[1], in[2]), product, kvc_exp(in[0]), in[0] / in[1], kvc_sqrt(in[0])};
        for (size_t j = 0; j < KVC_OPERATIONS; j++)
            if (kvc_hash_bits(right[j]) != kvc_hash_bits(out[j]))
                check_find(found, j, in, right[j], out[j]);
    }
}

/* Computes out [n, KVC_OPERATIONS] from in [n, 3] on the device. The workspace holds both. */
static void compute(struct kvc_offload *offload, struct kvc_buffer *workspace, const float *in, float *out) {
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_check);
    const size_t bytes = KVC_CASES * 3 * sizeof *in;
    offload->driver->write(offload, workspace->handle, 0, in, bytes);
    KVC_PUSH(&launch, ((struct kvc_span){workspace, 0}), ((struct kvc_span){workspace, bytes}), KVC_CASES);
    kvc_launch_items(offload, &launch, KVC_CASES, 1, 1);
    offload->driver->read(offload, out, workspace->handle, bytes, KVC_CASES * KVC_OPERATIONS * sizeof *out);
}

/* ---- sums ---- */

#define KVC_WINDOWS 64u
#define KVC_LENGTH 1001u
#define KVC_VALUES (KVC_WINDOWS + KVC_LENGTH)
#define KVC_SUMS (5u * KVC_WINDOWS)

static float sum_of(const float *x, size_t n, size_t step) {
    volatile float sum = 0.0f;
    for (size_t i = 0; i < n; i++)
        sum = sum + x[i * step];
    return sum;
}

static float dot_of(const float *a, const float *b, size_t n) {
    volatile float lane[32] = {0.0f};
    for (size_t k = 0; k < n; k++)
        lane[k % 32] = kvc_fma(a[k], b[k], lane[k % 32]);
    KVC_TREE32(lane);
    return lane[0];
}

/* Checks sums in the order of pool and of select_scores, chains of fma, and dot products. Each case starts at another
 * value. */
static void check_sums(struct kvc_offload *offload, struct kvc_buffer *workspace, float *x, float *out,
                       struct finding *found) {
    static const char *const what[] = {"a window of %u values", "a sum of %u values",
                                       "a sum of %u values, every fourth", "a sum of %u products",
                                       "a dot product of %u values"};
    struct kvc_launch windows = kvc_launch_of(KVC_KERNEL_check_windows), sums = kvc_launch_of(KVC_KERNEL_check_sums);
    const size_t bytes = KVC_VALUES * sizeof *x;
    const uint32_t count = offload->small_batch_checks ? 1 : KVC_WINDOWS;
    for (size_t i = 0; i < KVC_VALUES; i++) /* values between -1 and 1 */
        x[i] = (float)(kvc_i32)kvc_philox4x32((kvc_u32)i, 1u, 0u, 0u, 20u).word[0] * 4.6566128730773925781e-10f;
    offload->driver->write(offload, workspace->handle, 0, x, bytes);
    KVC_PUSH(&windows, ((struct kvc_span){workspace, 0}), ((struct kvc_span){workspace, bytes}), count, KVC_LENGTH);
    kvc_launch_runs(offload, &windows, count, 1);
    KVC_PUSH(&sums, ((struct kvc_span){workspace, 0}),
             ((struct kvc_span){workspace, bytes + KVC_WINDOWS * sizeof *out}), KVC_LENGTH);
    kvc_launch_groups(offload, &sums, count, 1, 1);
    offload->driver->read(offload, out, workspace->handle, bytes, KVC_SUMS * sizeof *out);
    for (size_t i = 0; i < count && !found->wrong; i++) {
        const float right[] = {sum_of(x + i, KVC_LENGTH, 1), sum_of(x + i, KVC_LENGTH, 1),
                               sum_of(x + i, KVC_LENGTH / 4, 4), 0.0f,
                               dot_of(x + i, x + i + KVC_LENGTH / 2, KVC_LENGTH / 2)};
        for (size_t j = 0; j < 5; j++) {
            char text[64];
            float should = right[j], got = j ? out[KVC_WINDOWS + 4 * i + j - 1] : out[i];
            for (size_t k = 0; j == 3 && k < KVC_LENGTH; k++)
                should = kvc_fma(x[i + k], x[i + k + 1], should);
            if (found->wrong || kvc_hash_bits(should) == kvc_hash_bits(got))
                continue;
            found->wrong = true;
            snprintf(text, sizeof text, what[j], j == 2 ? KVC_LENGTH / 4 : j == 4 ? KVC_LENGTH / 2 : KVC_LENGTH);
            snprintf(found->text, sizeof found->text, "%s is %08x, should be %08x (sums are not in order)", text,
                     kvc_bits(got), kvc_bits(should));
        }
    }
}

enum kvc_status kvc_offload_check(struct kvc_offload *offload, bool *only_division, struct kvc_error *error) {
    float *in = malloc(KVC_CASES * (3 + KVC_OPERATIONS) * sizeof *in), *out = in ? in + KVC_CASES * 3 : NULL;
    struct kvc_buffer *workspace =
        in ? kvc_offload_workspace(offload, KVC_CASES * (3 + KVC_OPERATIONS) * sizeof *in) : NULL;
    struct finding found = {.wrong = false};
    enum kvc_status status = KVC_RESOURCE;
    if (only_division)
        *only_division = false;
    if (!workspace) {
        free(in);
        return kvc_fail(error, KVC_RESOURCE, "%s: no memory for the self-test", offload->device.name);
    }
    for (size_t round = 0; round < (offload->small_batch_checks ? 1 : KVC_ROUNDS); round++) {
        for (size_t i = 0; i < KVC_CASES; i++)
            make_case(round * KVC_CASES + i, in + 3 * i);
        compute(offload, workspace, in, out);
        if (offload->failure == KVC_OK)
            check_compare(in, out, &found);
    }
    if (!found.wrong || found.of_division) {
        struct finding of_sums = {.wrong = false};
        check_sums(offload, workspace, in, out, &of_sums);
        if (of_sums.wrong)
            found = of_sums;
    }
    if (offload->failure != KVC_OK) {
        kvc_fail(error, KVC_RESOURCE, "%s: %s", offload->device.name, offload->failure_text);
    } else if (found.wrong) {
        kvc_fail(error, KVC_RESOURCE, "%s cannot be exact: %s; use --math fast or cpu", offload->device.name,
                 found.text);
        if (only_division)
            *only_division = found.of_division;
    } else {
        status = KVC_OK;
    }
    free(in);
    return status;
}

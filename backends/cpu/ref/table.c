/* table.c - ref's operation table, and a self-test of the arithmetic that ref relies on. */
#include "backends/cpu/ref/ref.h"

void KVC_REF(fill)(struct kvc_ops *table) {
#define KVC_OPERATION(name, parameters, ...) table->name = KVC_REF(name);
#define KVC_OPERATION_FUSED(name, parameters, ...)
#include "core/base/ops.def"
}

const char *KVC_REF(self_test)(void) {
    volatile float a = 1.000244140625f /* 1 + 2^-12 */, c = -1.00048828125f /* -(1 + 2^-11) */, one = 1.0f;
    volatile float three = 3.0f, two = 2.0f, tiny = 1.401298464324817e-45f /* 2^-149 */;
    volatile float least = 1.17549435e-38f /* 2^-126 */, half = 0.5f;
    float x = a, y = x * x + c;
    if (y != 0.0f)
        return "a product and a sum were fused; compile with -ffp-contract=off";
    if (kvc_fma(x, x, c) != 5.9604644775390625e-8f)
        return "fma rounds twice";
    if (kvc_bits(tiny * one) != 1u || kvc_bits(least * half) != 0x00400000u || !(tiny > 0.0f))
        return "denormal numbers are flushed to zero";
    if (kvc_bits(kvc_div(one, three)) != 0x3eaaaaabu || kvc_bits(kvc_div(two, three)) != 0x3f2aaaabu ||
        kvc_bits(kvc_div(tiny, two)) != 0u || kvc_bits(kvc_sqrt(two)) != 0x3fb504f3u)
        return "division or square root are not correctly rounded";
    if (kvc_bits(kvc_rint(2.5f * one)) != 0x40000000u || kvc_bits(kvc_rint(3.5f * one)) != 0x40800000u)
        return "sums are not rounded to nearest even";
    return NULL;
}

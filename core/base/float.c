/* float.c - sets the floating-point environment of the arithmetic: round to nearest even, keep denormals, no traps. */
#include "core/base/float.h"

#if defined(__x86_64__) || defined(__i386__) && defined(__SSE__)
#include <xmmintrin.h>

#define KVC_MXCSR_EXACT 0x1f80u /* all exceptions masked, round to nearest, no FTZ, no DAZ, flags clear */

uint64_t kvc_float_open(void) {
    uint32_t saved = _mm_getcsr();
    if (saved != KVC_MXCSR_EXACT)
        _mm_setcsr(KVC_MXCSR_EXACT);
    return saved;
}

void kvc_float_close(uint64_t saved) { _mm_setcsr((uint32_t)saved); }

#elif defined(__aarch64__)

uint64_t kvc_float_open(void) {
    uint64_t saved, exact = 0; /* FZ, FZ16, DN, AH, rounding mode and traps all 0 */
    __asm__ volatile("mrs %0, fpcr" : "=r"(saved));
    if (saved != exact)
        __asm__ volatile("msr fpcr, %0" : : "r"(exact) : "memory");
    return saved;
}

void kvc_float_close(uint64_t saved) { __asm__ volatile("msr fpcr, %0" : : "r"(saved) : "memory"); }

#else /* no known flush-to-zero mode; only the rounding mode may differ */
#include <fenv.h>

uint64_t kvc_float_open(void) {
    int saved = fegetround();
    if (saved != FE_TONEAREST)
        fesetround(FE_TONEAREST);
    return (uint64_t)(unsigned)saved;
}

void kvc_float_close(uint64_t saved) { fesetround((int)(unsigned)saved); }
#endif

/* float.h - the floating-point environment that the arithmetic needs. */
#ifndef KVC_CORE_BASE_FLOAT_H
#define KVC_CORE_BASE_FLOAT_H

#include <stdint.h>

/* kvc_float_open sets the environment (round to nearest even, no flush to zero, no traps) and returns the previous one,
 * which kvc_float_close restores. Every public function that computes calls both. */
uint64_t kvc_float_open(void);
void kvc_float_close(uint64_t saved);

#endif

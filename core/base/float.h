/* float.h - the floating-point environment that the arithmetic needs. */
#ifndef KVC_CORE_BASE_FLOAT_H
#define KVC_CORE_BASE_FLOAT_H

#include <stdint.h>

/* Sets it (round to nearest even, no flush to zero, no traps) and returns what was set before; every public function
 * that computes brackets its work with these two. */
uint64_t kvc_float_open(void);
void kvc_float_close(uint64_t saved);

#endif

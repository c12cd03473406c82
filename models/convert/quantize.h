/* quantize.h - rows of weights to and from the stored element types, on the host. libc only. */
#ifndef KVC_MODELS_CONVERT_QUANTIZE_H
#define KVC_MODELS_CONVERT_QUANTIZE_H

#include "core/base/types.h"

/* K float32 values to one row of the type, kvc_type_row_bytes(type, K) bytes. false: a value is not finite, or the type
 * cannot hold one so large. The same bytes on every machine. */
bool kvc_quantize_row(enum kvc_type type, const float *values, uint64_t K, void *row);
/* The values a stored row stands for, as the linear layers widen them. */
void kvc_dequantize_row(enum kvc_type type, const void *row, uint64_t K, float *values);

#endif

/* quantize.h - converts rows of weights to and from the stored element types, on the host. libc only. */
#ifndef KVC_MODELS_CONVERT_QUANTIZE_H
#define KVC_MODELS_CONVERT_QUANTIZE_H

#include "core/base/types.h"

/* Converts K float32 values to one row of the type, kvc_type_row_bytes(type, K) bytes. Returns false if a value is not
 * finite or too large for the type. The bytes are the same on every machine. */
bool kvc_quantize_row(enum kvc_type type, const float *values, uint64_t K, void *row);
/* Computes the values of a stored row, exactly as the linear layers dequantize them. */
void kvc_dequantize_row(enum kvc_type type, const void *row, uint64_t K, float *values);

#endif

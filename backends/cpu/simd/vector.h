/* vector.h - template: includes all templates of this folder except the linear layers, and defines the function that
 * fills the operation table. vector_<name>.c compiles it for one instruction set. */
#ifndef KVC_SIMD_VECTOR_H
#define KVC_SIMD_VECTOR_H

#include "backends/cpu/simd/attention/attention.h"
#include "backends/cpu/simd/select/select.h"
#include "backends/cpu/simd/select/select_reads.h"
#include "backends/cpu/simd/scores/columns.h"
#include "backends/cpu/simd/scores/entries.h"
#include "backends/cpu/simd/scores/expected.h"
#include "backends/cpu/simd/scores/series.h"
#include "backends/cpu/simd/scores/leverage.h"
#include "backends/cpu/simd/keep_ring.h"
#include "backends/cpu/simd/cache.h"
#include "backends/cpu/simd/scores/mass.h"
#include "backends/cpu/simd/scores/moments.h"
#include "backends/cpu/simd/pages.h"
#include "backends/cpu/simd/scores/ring_fuse.h"
#include "backends/cpu/simd/rows.h"
#include "backends/cpu/simd/experts.h"
#include "backends/cpu/simd/delta.h"
#include "backends/cpu/simd/keep.h"
#include "backends/cpu/simd/simd.h"
#include "backends/cpu/simd/rotate_keys.h"
#include "backends/cpu/simd/scores/rings.h"

/* linear/<name>.c and int8/<name>.c compile the functions of these operations. */
static void linear(struct kvc_device *device, const struct kvc_linear *args) { LANES_NAME(kvc_linear_)(device, args); }
static void expert_linear(struct kvc_device *device, const struct kvc_expert_linear *args) {
    LANES_NAME(kvc_expert_linear_)(device, args);
}
static void quantize_rows(struct kvc_device *device, const struct kvc_quantize_rows *args) {
    LANES_NAME(kvc_quantize_rows_)(device, args);
}
static void linear_int8(struct kvc_device *device, const struct kvc_linear_int8 *args) {
    LANES_NAME(kvc_linear_int8_)(device, args);
}
static void expert_linear_int8(struct kvc_device *device, const struct kvc_expert_linear_int8 *args) {
    LANES_NAME(kvc_expert_linear_int8_)(device, args);
}

static void quantize_rows_int16(struct kvc_device *device, const struct kvc_quantize_rows_int16 *args) {
    LANES_NAME(kvc_quantize_rows_int16_)(device, args);
}
static void linear_int16(struct kvc_device *device, const struct kvc_linear_int16 *args) {
    LANES_NAME(kvc_linear_int16_)(device, args);
}
static void expert_linear_int16(struct kvc_device *device, const struct kvc_expert_linear_int16 *args) {
    LANES_NAME(kvc_expert_linear_int16_)(device, args);
}

/* Fills the table. An operation without a SIMD version keeps ref's function. */
static void fill_vector(struct kvc_ops *table) {
#define KVC_OPERATION(name, parameters, ...) table->name = name;
#define KVC_OPERATION_MOVES(name, parameters, ...)
#define KVC_OPERATION_REF(name, parameters, ...)
#include "core/base/ops.def"
}

#endif

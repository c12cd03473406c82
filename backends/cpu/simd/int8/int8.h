/* int8.h - linear layers with 8-bit activations: the kernels that an instruction set provides, and the driver that
 * divides a call among threads. The sums of a block are integers and exact in any order; canon.h defines the order of
 * all later operations. There are two kinds of kernels. With few rows, weights are used in the file's layout and the
 * eight lanes of an output are one vector. With many rows, the outputs are packed into panels and the lanes are
 * computed one after another. */
#ifndef KVC_SIMD_INT8_INT8_H
#define KVC_SIMD_INT8_INT8_H

#include "backends/cpu/cpu.h"

/* 256 activations of a row, for calls with few rows. The last group of a row is padded with zeros. */
struct kvc_int8_group {
    _Alignas(64) kvc_i8 quant[256];
    float scale[8];
    kvc_i32 half[2][8], sum[8];         /* sums of the quants of each half of a block, and of the whole block */
    float half_scaled[2][8], scaled[8]; /* these sums times the scale, for kvc_int8_take */
};

/* The `type` of an int16 call whose weights are already quantized to 15 bits. */
#define KVC_PACKED KVC_ALL_TYPES

/* A block of 256 activations in 15 bits, for calls with few rows. The last block of a row is padded with zeros. */
struct kvc_int16_group {
    _Alignas(64) kvc_i16 quant[KVC_INT16_BLOCK];
    float scale;
};

struct kvc_int8_call {
    float *y;                  /* [rows, N] */
    const float *bias;         /* [N] or NULL */
    const kvc_i8 *quant;       /* [rows, K]; NULL in an int16 call */
    const kvc_i16 *wide_quant; /* [rows, K], only in an int16 call; `quant` and `sum` are NULL then */
    const float *scale;        /* [rows, K / 32]; in an int16 call [rows, ceil(K / 256)] */
    const kvc_i32 *sum;        /* [rows, K / 16] */
    const unsigned char *w;    /* N rows of row_bytes; KVC_PACKED: int16 [N, K] */
    const float *w_scale;      /* only for KVC_PACKED: [N, ceil(K / 256)] */
    enum kvc_type type;
    size_t row_bytes, rows, K, N;
    size_t tile_rows; /* number of rows of a tile, for calls with many rows; at most the kernels' tile_rows */
    struct kvc_int8_group *group;       /* [rows, ceil(K / 256)], for calls with few rows */
    struct kvc_int16_group *wide_group; /* the same for int16 calls */
    kvc_u32 *prepared; /* for calls with many rows: the data that the kernels prepare from each tile of rows, once per
                        * call */
};

struct kvc_int8_kernels {
    size_t few;          /* the largest number of rows that few_rows computes; 0: few_rows is NULL */
    size_t tile_rows;    /* maximum number of rows of a tile */
    size_t row_step;     /* the time for a tile grows in steps of this many rows */
    size_t tile_outputs; /* number of outputs of a panel */
    /* quantizes rows `first` .. `last` - 1 */
    void (*quantize)(const struct kvc_quantize_rows *args, size_t first, size_t last);
    void (*wide_quantize)(const struct kvc_quantize_rows_int16 *args, size_t first, size_t last);
    /* computes outputs `first` .. `last` - 1 */
    void (*few_rows)(const struct kvc_int8_call *call, size_t first, size_t last);
    /* prepared_words returns the size of one tile of prepared rows in words; `prepare` prepares the tiles `first` ..
     * `last` - 1. Both are NULL if the kernels prepare nothing. */
    size_t (*prepared_words)(const struct kvc_int8_call *call);
    void (*prepare)(const struct kvc_int8_call *call, size_t first, size_t last);
    size_t (*panel_bytes)(const struct kvc_int8_call *call); /* one thread's scratch memory in bytes */
    /* Multiplies a panel by rows `first` .. `last` - 1. */
    void (*panel)(const struct kvc_int8_call *call, size_t number, size_t first, size_t last, void *scratch);
};

void kvc_int8_quantize(struct kvc_cpu *cpu, const struct kvc_int8_kernels *kernels,
                       const struct kvc_quantize_rows *args);
void kvc_int8_run(struct kvc_cpu *cpu, const struct kvc_int8_kernels *kernels, const struct kvc_linear_int8 *args);
void kvc_int8_run_experts(struct kvc_cpu *cpu, const struct kvc_int8_kernels *kernels,
                          const struct kvc_expert_linear_int8 *args);

/* The same for int16. */
void kvc_int16_quantize(struct kvc_cpu *cpu, const struct kvc_int8_kernels *kernels,
                        const struct kvc_quantize_rows_int16 *args);
void kvc_int16_run(struct kvc_cpu *cpu, const struct kvc_int8_kernels *kernels, const struct kvc_linear_int16 *args);
void kvc_int16_run_experts(struct kvc_cpu *cpu, const struct kvc_int8_kernels *kernels,
                           const struct kvc_expert_linear_int16 *args);

/* Defines the functions of an instruction set that simd.h declares. */
#define INT8_FUNCTIONS(path, kernels) INT8_FUNCTIONS_OF(path, kernels)
#define INT8_FUNCTIONS_OF(path, kernels)                                                                               \
    void kvc_quantize_rows_##path(struct kvc_device *device, const struct kvc_quantize_rows *args) {                   \
        kvc_int8_quantize((struct kvc_cpu *)device, kernels, args);                                                    \
    }                                                                                                                  \
    void kvc_linear_int8_##path(struct kvc_device *device, const struct kvc_linear_int8 *args) {                       \
        kvc_int8_run((struct kvc_cpu *)device, kernels, args);                                                         \
    }                                                                                                                  \
    void kvc_expert_linear_int8_##path(struct kvc_device *device, const struct kvc_expert_linear_int8 *args) {         \
        kvc_int8_run_experts((struct kvc_cpu *)device, kernels, args);                                                 \
    }
#define INT16_FUNCTIONS(path, kernels) INT16_FUNCTIONS_OF(path, kernels)
#define INT16_FUNCTIONS_OF(path, kernels)                                                                              \
    void kvc_quantize_rows_int16_##path(struct kvc_device *device, const struct kvc_quantize_rows_int16 *args) {       \
        kvc_int16_quantize((struct kvc_cpu *)device, kernels, args);                                                   \
    }                                                                                                                  \
    void kvc_linear_int16_##path(struct kvc_device *device, const struct kvc_linear_int16 *args) {                     \
        kvc_int16_run((struct kvc_cpu *)device, kernels, args);                                                        \
    }                                                                                                                  \
    void kvc_expert_linear_int16_##path(struct kvc_device *device, const struct kvc_expert_linear_int16 *args) {       \
        kvc_int16_run_experts((struct kvc_cpu *)device, kernels, args);                                                \
    }

#endif

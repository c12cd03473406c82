/* int8.h - linear layers of activations in eight bits: the kernels a path brings, and the driver that shares a call out
 * over threads. Sums of a block are integers, exact in any order; the order of what follows is that of canon.h. Two
 * shapes: few rows, where weights are taken as they lie and the eight lanes of an output are one vector; many rows,
 * where outputs lie side by side in packed panels and one lane comes after another. */
#ifndef KVC_SIMD_INT8_INT8_H
#define KVC_SIMD_INT8_INT8_H

#include "backends/cpu/cpu.h"

/* 256 activations of a row, for the shape of few rows; the last group of a row is filled up with zeros. */
struct kvc_int8_group {
    _Alignas(64) kvc_i8 quant[256];
    float scale[8];
    kvc_i32 half[2][8], sum[8];         /* of quants: of the first and second half of each block, and of both */
    float half_scaled[2][8], scaled[8]; /* the same times the scale, as kvc_int8_take has it */
};

struct kvc_int8_call {
    float *y;               /* [rows, N] */
    const float *bias;      /* [N] or NULL */
    const kvc_i8 *quant;    /* [rows, K] */
    const float *scale;     /* [rows, K / 32] */
    const kvc_i32 *sum;     /* [rows, K / 16] */
    const unsigned char *w; /* N rows of row_bytes */
    enum kvc_type type;
    size_t row_bytes, rows, K, N;
    size_t tile_rows;             /* at most the kernels', where rows are many */
    struct kvc_int8_group *group; /* [rows, ceil(K / 256)], where rows are few */
    kvc_u32 *prepared;            /* of each tile of rows, where rows are many: what the kernels make of it once */
};

struct kvc_int8_kernels {
    size_t few;          /* up to this many rows are few */
    size_t tile_rows;    /* of the packed shape, at most */
    size_t tile_outputs; /* of a panel */
    void (*quantize)(const struct kvc_quantize_rows *args, size_t first, size_t last); /* rows */
    void (*few_rows)(const struct kvc_int8_call *call, size_t first, size_t last);     /* outputs */
    /* NULL where nothing is made of rows; otherwise the words of a tile of rows, and what fills some tiles. */
    size_t (*prepared_words)(const struct kvc_int8_call *call);
    void (*prepare)(const struct kvc_int8_call *call, size_t first, size_t last);
    size_t (*panel_bytes)(const struct kvc_int8_call *call); /* of one thread's scratch */
    /* A panel times rows first .. last - 1. */
    void (*panel)(const struct kvc_int8_call *call, size_t number, size_t first, size_t last, void *scratch);
};

void kvc_int8_quantize(struct kvc_cpu *cpu, const struct kvc_int8_kernels *kernels,
                       const struct kvc_quantize_rows *args);
void kvc_int8_run(struct kvc_cpu *cpu, const struct kvc_int8_kernels *kernels, const struct kvc_linear_int8 *args);
void kvc_int8_run_experts(struct kvc_cpu *cpu, const struct kvc_int8_kernels *kernels,
                          const struct kvc_expert_linear_int8 *args);

#endif

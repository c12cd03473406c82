/* widened.h - a stretch of a row of weights of any type, widened to memory. Part of template.h. */

/* n < 32 weights widened, and padding. */
static void end_of_row_f32(float *w, const unsigned char *from, size_t n) {
    for (size_t i = n; i < KVC_LANES; i++)
        w[i] = FILL_W;
    memcpy(w, from, n * sizeof(float));
}
static void end_of_row_f16(float *w, const unsigned char *from, size_t n) {
    for (size_t i = 0; i < KVC_LANES; i++)
        w[i] = i < n ? half_load(from + 2 * i) : FILL_W;
}
static void end_of_row_bf16(float *w, const unsigned char *from, size_t n) {
    for (size_t i = 0; i < KVC_LANES; i++)
        w[i] = i < n ? kvc_bf16_to_f32(KVC_LOAD_U16(from + 2 * i)) : FILL_W;
}

#define WIDEN_PART(type, p)                                                                                            \
    do {                                                                                                               \
        vf wv[LANE_VECTORS];                                                                                           \
        widen_##type(wv, from, p, &scales);                                                                            \
        UNROLL                                                                                                         \
        for (int v = 0; v < LANE_VECTORS; v++)                                                                         \
            vf_store(to + (p)*KVC_LANES + v * LANES, wv[v]);                                                           \
    } while (0)

/* At most GROUP weights from the start of a group. */
#define WIDEN_GROUP(type, rest)                                                                                        \
    static void widen_group_##type(float *to, const unsigned char *from, size_t n) {                                   \
        struct scales scales;                                                                                          \
        int parts = (int)(n / KVC_LANES);                                                                              \
        prepare_##type(&scales, from, parts);                                                                          \
        rest(type)                                                                                                     \
    }
#define WIDEN_WHOLE(type)                                                                                              \
    WIDEN_PART(type, 0);                                                                                               \
    WIDEN_PART(type, 1);                                                                                               \
    WIDEN_PART(type, 2);                                                                                               \
    WIDEN_PART(type, 3);                                                                                               \
    WIDEN_PART(type, 4);                                                                                               \
    WIDEN_PART(type, 5);                                                                                               \
    WIDEN_PART(type, 6);                                                                                               \
    WIDEN_PART(type, 7);                                                                                               \
    (void)parts;
#define WIDEN_PARTS(type)                                                                                              \
    for (int p = 0; p < parts; p++)                                                                                    \
        WIDEN_PART(type, p);
#define WIDEN_ALL(type)                                                                                                \
    WIDEN_PARTS(type)                                                                                                  \
    if (n % KVC_LANES)                                                                                                 \
        end_of_row_##type(to + parts * KVC_LANES, from + (size_t)parts * part_bytes_##type, n % KVC_LANES);

WIDEN_GROUP(f32, WIDEN_ALL)
WIDEN_GROUP(f16, WIDEN_ALL)
WIDEN_GROUP(bf16, WIDEN_ALL)
WIDEN_GROUP(q8_0, WIDEN_PARTS)
WIDEN_GROUP(q4_0, WIDEN_PARTS)
WIDEN_GROUP(q5_0, WIDEN_PARTS)
WIDEN_GROUP(q3_k, WIDEN_WHOLE)
WIDEN_GROUP(q4_k, WIDEN_WHOLE)
WIDEN_GROUP(q5_k, WIDEN_WHOLE)
WIDEN_GROUP(q6_k, WIDEN_WHOLE)

static const struct {
    void (*widen)(float *to, const unsigned char *from, size_t n);
    size_t bytes; /* of a group */
} widen_by_type[KVC_TYPES] = {
    [KVC_F32] = {widen_group_f32, 8 * part_bytes_f32},    [KVC_F16] = {widen_group_f16, 8 * part_bytes_f16},
    [KVC_BF16] = {widen_group_bf16, 8 * part_bytes_bf16}, [KVC_Q8_0] = {widen_group_q8_0, 8 * part_bytes_q8_0},
    [KVC_Q4_0] = {widen_group_q4_0, 8 * part_bytes_q4_0}, [KVC_Q5_0] = {widen_group_q5_0, 8 * part_bytes_q5_0},
    [KVC_Q3_K] = {widen_group_q3_k, group_bytes_q3_k},    [KVC_Q4_K] = {widen_group_q4_k, group_bytes_q4_k},
    [KVC_Q5_K] = {widen_group_q5_k, group_bytes_q5_k},    [KVC_Q6_K] = {widen_group_q6_k, group_bytes_q6_k}};

static const unsigned char *stretch_at(const struct kvc_linear_call *call, size_t output, size_t k0) {
    return call->w + output * call->row_bytes + k0 / GROUP * widen_by_type[call->type].bytes;
}

/* Weights k0 ... k0 + n - 1 of a row, k0 a multiple of GROUP, padded to whole groups of 32. Meanwhile prefetches as
 * many bytes of what will be widened next. */
static void widen_stretch(const struct kvc_linear_call *call, float *to, size_t output, size_t k0, size_t n,
                          const unsigned char *causal_offset) {
    size_t bytes = widen_by_type[call->type].bytes;
    const unsigned char *from = stretch_at(call, output, k0);
    for (; n > 0; from += bytes, causal_offset += bytes, to += GROUP) {
        size_t now = at_most(n, GROUP);
        for (size_t line = 0; line < bytes; line += 64)
            __builtin_prefetch(causal_offset + line, 0, 2); /* not into the first level: it holds what is used now */
        widen_by_type[call->type].widen(to, from, now);
        n -= now;
    }
}

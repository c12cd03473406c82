/* widened.h - a stretch of a row of weights of any type, widened to memory. Part of template.h. */

/* n < 32 weights widened, the rest filled up. */
#define END_OF_ROW(a, NAME, name, ...)                                                                                 \
    INLINE void end_of_row_##name(float *w, const unsigned char *from, size_t n) {                                     \
        for (size_t i = 0; i < KVC_LANES; i++)                                                                         \
            w[i] = i < n ? widen_one_##name(from, i) : FILL_W;                                                         \
    }
KVC_ALL_WEIGHT_TYPES(END_OF_ROW, )

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
        end_of_row_##type(to + parts * KVC_LANES, from + (size_t)parts * (group_bytes_##type / 8), n % KVC_LANES);

#define WIDEN_REST_1 WIDEN_ALL /* by the elements of a block */
#define WIDEN_REST_16 WIDEN_ALL
#define WIDEN_REST_32 WIDEN_PARTS
#define WIDEN_REST_128 WIDEN_PARTS
#define WIDEN_REST_256 WIDEN_WHOLE
#define WIDEN_GROUP_OF(a, NAME, name, gguf, elements, ...) WIDEN_GROUP(name, WIDEN_REST_##elements)
KVC_ALL_WEIGHT_TYPES(WIDEN_GROUP_OF, )

static const struct {
    void (*widen)(float *to, const unsigned char *from, size_t n);
    size_t bytes; /* of a group */
} widen_by_type[KVC_ALL_TYPES] = {
#define WIDEN_BY_TYPE(a, NAME, name, ...) [KVC_##NAME] = {widen_group_##name, group_bytes_##name},
    KVC_ALL_WEIGHT_TYPES(WIDEN_BY_TYPE, )};

static const unsigned char *stretch_at(const struct kvc_linear_call *call, size_t output, size_t k0) {
    return call->w + output * call->row_bytes + k0 / GROUP * widen_by_type[call->type].bytes;
}

/* Weights k0 ... k0 + n - 1 of a row, k0 a multiple of GROUP, padded to whole groups of 32. */
static void widen_stretch(const struct kvc_linear_call *call, float *to, size_t output, size_t k0, size_t n) {
    size_t bytes = widen_by_type[call->type].bytes;
    const unsigned char *from = stretch_at(call, output, k0);
    for (; n > 0; from += bytes, to += GROUP) {
        size_t now = kvc_min_u64(n, GROUP);
        widen_by_type[call->type].widen(to, from, now);
        n -= now;
    }
}

/* A group of weights that will be widened soon. Not into the first level: it holds what is used now. */
static void fetch_group(const struct kvc_linear_call *call, const unsigned char *from) {
    for (size_t line = 0; line < widen_by_type[call->type].bytes; line += 64)
        __builtin_prefetch(from + line, 0, 2);
}

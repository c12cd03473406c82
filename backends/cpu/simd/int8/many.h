/* many.h - template: many rows. Weights of TILE_OUTPUTS outputs are packed side by side, four of an output in each
 * element of a vector; a tile of rows passes them one lane after another, so that each sum of a block is complete
 * where it is scaled, and no sum within a vector is ever needed. */

#define TILE_OUTPUTS (TILE_VECTORS * WIDTH)

/* A packed panel; piece: what has a scale, 16 or 32 weights. Codes [K / 4][TILE_OUTPUTS], of four bytes each. */
struct panel {
    kvc_u32 *code;
    float *scale, *negated; /* [K / piece][TILE_OUTPUTS]: scales, and minimums with the other sign */
};

static size_t pieces_of(const struct kvc_int8_call *call) { return call->K / 16; }
static struct panel panel_at(const struct kvc_int8_call *call, void *scratch) {
    struct panel p = {.code = scratch};
    p.scale = (float *)(void *)(p.code + call->K / 4 * TILE_OUTPUTS);
    p.negated = p.scale + pieces_of(call) * TILE_OUTPUTS;
    return p;
}
static size_t panel_bytes(const struct kvc_int8_call *call) {
    return (call->K / 4 + 2 * pieces_of(call)) * TILE_OUTPUTS * 4;
}

/* Eight vectors of eight 32-bit elements, transposed. */
INLINE void transpose8(__m256i *x) {
    __m256i y[8], z[8];
    UNROLL
    for (int i = 0; i < 4; i++) {
        y[2 * i] = _mm256_unpacklo_epi32(x[2 * i], x[2 * i + 1]);
        y[2 * i + 1] = _mm256_unpackhi_epi32(x[2 * i], x[2 * i + 1]);
    }
    UNROLL
    for (int i = 0; i < 2; i++) {
        z[4 * i] = _mm256_unpacklo_epi64(y[4 * i], y[4 * i + 2]);
        z[4 * i + 1] = _mm256_unpackhi_epi64(y[4 * i], y[4 * i + 2]);
        z[4 * i + 2] = _mm256_unpacklo_epi64(y[4 * i + 1], y[4 * i + 3]);
        z[4 * i + 3] = _mm256_unpackhi_epi64(y[4 * i + 1], y[4 * i + 3]);
    }
    UNROLL
    for (int i = 0; i < 4; i++) {
        x[i] = _mm256_permute2x128_si256(z[i], z[i + 4], 0x20);
        x[i + 4] = _mm256_permute2x128_si256(z[i], z[i + 4], 0x31);
    }
}

/* Eight outputs' vectors, to row i of the elements at `to`: [8][TILE_OUTPUTS]. */
INLINE void store_transposed(void *to, __m256i *x, size_t stride, int rows) {
    transpose8(x);
    UNROLL
    for (int i = 0; i < 8; i++)
        if (i < rows)
            _mm256_storeu_si256((__m256i *)(void *)((kvc_u32 *)to + (size_t)i * stride), x[i]);
}

/* 256 weights, or a row's last ones, of eight outputs. */
#define PACK(a, NAME, name, gguf, elements, bytes, at, scales, wide, holds)                                            \
    static void pack_##name(const struct panel *p, const unsigned char *const *row, size_t group, int parts,           \
                            size_t place) {                                                                            \
        const int pieces = 32 / KVC_INT8_WIDTH_##NAME;                                                                 \
        struct unpacked u[8];                                                                                          \
        __m256i x[8];                                                                                                  \
        for (int i = 0; i < 8; i++) {                                                                                  \
            if (parts == 8)                                                                                            \
                unpack_##name(&u[i], row[i] + group * (256 / (elements) * (bytes)), 8);                                \
            else                                                                                                       \
                unpack_##name(&u[i], row[i] + group * (256 / (elements) * (bytes)), parts);                            \
        }                                                                                                              \
        for (int b = 0; b < parts; b++) {                                                                              \
            UNROLL                                                                                                     \
            for (int i = 0; i < 8; i++)                                                                                \
                x[i] = code_of(u[i].quant[b], SIGNED_##name, OFFSET_##name);                                           \
            store_transposed(p->code + (group * 8 + (size_t)b) * 8 * TILE_OUTPUTS + place, x, TILE_OUTPUTS, 8);        \
        }                                                                                                              \
        for (int s = 0; s < pieces; s++) {                                                                             \
            const size_t to = (group * 8 * (size_t)pieces + (size_t)s) * TILE_OUTPUTS + place;                         \
            for (int i = 0; i < 8; i++)                                                                                \
                x[i] = _mm256_castps_si256(u[i].scale[s]);                                                             \
            store_transposed(p->scale + to, x, (size_t)pieces * TILE_OUTPUTS, parts);                                  \
            for (int i = 0; KVC_INT8_HAS_MIN_##NAME && i < 8; i++)                                                     \
                x[i] = _mm256_castps_si256(negative(u[i].minimum[s]));                                                 \
            if (KVC_INT8_HAS_MIN_##NAME)                                                                               \
                store_transposed(p->negated + to, x, (size_t)pieces * TILE_OUTPUTS, parts);                            \
        }                                                                                                              \
    }
KVC_BLOCK_TYPES(PACK, )

/* `rows` rows from x and sum on, times the panel: lanes, then the tree. pieces: of a block. */
INLINE void tile(const struct kvc_int8_call *call, const struct panel *p, size_t row, size_t n0, int offset, int rows,
                 int pieces, int has_minimum) {
    fv lanes[KVC_INT8_LANES][TILE_ROWS][TILE_VECTORS];
    const size_t blocks = call->K / 32;
    const kvc_i8 *quant = call->quant + row * call->K;
    const float *x_scale = call->scale + row * blocks;
    const kvc_i32 *x_sum = call->sum + row * blocks * 2;
    for (size_t l = 0; l < KVC_INT8_LANES; l++) {
        fv f[TILE_ROWS][TILE_VECTORS];
        UNROLL
        for (int r = 0; r < rows; r++)
            UNROLL
        for (int v = 0; v < TILE_VECTORS; v++)
            f[r][v] = fv_zero();
        for (size_t b = l; b < blocks; b += KVC_INT8_LANES)
            UNROLL
        for (int s = 0; s < pieces; s++) {
            const kvc_u32 *code = p->code + (b * 8 + (size_t)(8 / pieces * s)) * TILE_OUTPUTS;
            const float *scale = p->scale + (b * (size_t)pieces + (size_t)s) * TILE_OUTPUTS;
            const float *negated = p->negated + (b * (size_t)pieces + (size_t)s) * TILE_OUTPUTS;
            iv sum[TILE_ROWS][TILE_VECTORS];
            kvc_i32 total[TILE_ROWS];
            UNROLL
            for (int r = 0; r < rows; r++) {
                const kvc_i32 *of = x_sum + ((size_t)r * blocks + b) * 2;
                total[r] = pieces == 2 ? of[s] : of[0] + of[1];
                UNROLL
                for (int v = 0; v < TILE_VECTORS; v++)
                    sum[r][v] = iv_set(-offset * total[r]);
            }
            UNROLL
            for (int k = 0; k < 8 / pieces; k++) {
                struct codes w[TILE_VECTORS];
                UNROLL
                for (int v = 0; v < TILE_VECTORS; v++)
                    w[v] = codes_load(code + k * TILE_OUTPUTS + v * WIDTH);
                UNROLL
                for (int r = 0; r < rows; r++) {
                    kvc_i32 four;
                    memcpy(&four, quant + (size_t)r * call->K + b * 32 + (size_t)(32 / pieces * s + 4 * k), 4);
                    const iv q = iv_set(four);
                    UNROLL
                    for (int v = 0; v < TILE_VECTORS; v++)
                        sum[r][v] = iv_dot(sum[r][v], w[v], q);
                }
            }
            UNROLL
            for (int v = 0; v < TILE_VECTORS; v++) {
                const fv w = fv_load(scale + v * WIDTH);
                UNROLL
                for (int r = 0; r < rows; r++)
                    f[r][v] = fv_fma(fv_mul(w, fv_set(x_scale[(size_t)r * blocks + b])), fv_of(sum[r][v]), f[r][v]);
            }
            UNROLL
            for (int v = 0; has_minimum && v < TILE_VECTORS; v++) {
                const fv m = fv_load(negated + v * WIDTH);
                UNROLL
                for (int r = 0; r < rows; r++)
                    f[r][v] = fv_fma(m, fv_set(x_scale[(size_t)r * blocks + b] * (float)total[r]), f[r][v]);
            }
        }
        UNROLL
        for (int r = 0; r < rows; r++)
            UNROLL
        for (int v = 0; v < TILE_VECTORS; v++)
            lanes[l][r][v] = f[r][v];
    }
    for (int r = 0; r < rows; r++) {
        float y[TILE_OUTPUTS];
        float *to = call->y + (row + (size_t)r) * call->N + n0;
        for (int v = 0; v < TILE_VECTORS; v++) {
            const fv a = fv_add(fv_add(lanes[0][r][v], lanes[4][r][v]), fv_add(lanes[2][r][v], lanes[6][r][v]));
            const fv b = fv_add(fv_add(lanes[1][r][v], lanes[5][r][v]), fv_add(lanes[3][r][v], lanes[7][r][v]));
            fv_store(y + v * WIDTH, fv_add(a, b));
        }
        for (size_t i = 0; i < TILE_OUTPUTS && n0 + i < call->N; i++)
            to[i] = call->bias ? y[i] + call->bias[n0 + i] : y[i];
    }
}

#define TILE(n)                                                                                                        \
    static void tile_##n(const struct kvc_int8_call *call, const struct panel *p, size_t row, size_t n0, int offset,   \
                         int kind) {                                                                                   \
        if (kind == 0)                                                                                                 \
            tile(call, p, row, n0, offset, n, 1, 0);                                                                   \
        else if (kind == 1)                                                                                            \
            tile(call, p, row, n0, offset, n, 1, 1);                                                                   \
        else if (kind == 2)                                                                                            \
            tile(call, p, row, n0, offset, n, 2, 0);                                                                   \
        else                                                                                                           \
            tile(call, p, row, n0, offset, n, 2, 1);                                                                   \
    }
TILE_EVERY(TILE)
#define TILE_NAME(n) [n] = tile_##n,
static void (*const tile_of[TILE_ROWS + 1])(const struct kvc_int8_call *, const struct panel *, size_t, size_t, int,
                                            int) = {TILE_EVERY(TILE_NAME)};

static const struct {
    void (*pack)(const struct panel *p, const unsigned char *const *row, size_t group, int parts, size_t place);
    int offset; /* of the codes */
    int kind;   /* of tile: 1, there are minimums; 2, pieces of 16 */
} many_by_type[KVC_TYPES] = {
#define MANY_BY_TYPE(a, NAME, name, ...)                                                                               \
    [KVC_##NAME] = {pack_##name, CODE_OFFSET(SIGNED_##name, OFFSET_##name),                                            \
                    KVC_INT8_HAS_MIN_##NAME + 2 * (KVC_INT8_WIDTH_##NAME == 16)},
    KVC_BLOCK_TYPES(MANY_BY_TYPE, )};

static void panel(const struct kvc_int8_call *call, size_t number, size_t first, size_t last, void *scratch) {
    const struct panel p = panel_at(call, scratch);
    const size_t n0 = number * TILE_OUTPUTS, groups = (call->K + 255) / 256;
    for (size_t place = 0; place < TILE_OUTPUTS; place += 8) { /* outputs after the last repeat it */
        const unsigned char *row[8];
        for (size_t i = 0; i < 8; i++)
            row[i] = call->w + kvc_min_u64(n0 + place + i, call->N - 1) * call->row_bytes;
        for (size_t g = 0; g < groups; g++)
            many_by_type[call->type].pack(&p, row, g, (int)(kvc_min_u64(call->K - g * 256, 256) / 32), place);
    }
    for (size_t i = first; i < last; i += TILE_ROWS)
        tile_of[kvc_min_u64(TILE_ROWS, last - i)](call, &p, i, n0, many_by_type[call->type].offset,
                                                  many_by_type[call->type].kind);
}

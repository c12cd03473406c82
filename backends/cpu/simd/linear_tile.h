/* linear_tile.h - linear layers of many rows: an outer product of packed rows and packed weights, one lane after
 * another, and the partial tiles added as the tree over the lanes wants it. Part of linear_template.h. */

struct tile {
    const float *rows;    /* packed, at the first of the lanes to visit */
    const float *outputs; /* the same */
    size_t depth, rows_lane_floats, lane_floats;
    unsigned together, round, rounds; /* lanes visited now; which of the rounds this is */
    float *outer;                     /* this tile's partial sums of earlier rounds */
    const float *bias;                /* [TILE_OUTPUTS] or NULL */
    float *y;                         /* after the last round: the sums, y_stride apart */
    size_t y_stride;
};

INLINE void tile_add(const int rows, vf sum[TILE_ROWS][TILE_VECTORS], const float *part) {
    UNROLL
    for (int i = 0; i < rows; i++)
        UNROLL
        for (int v = 0; v < TILE_VECTORS; v++)
            sum[i][v] = vf_add(vf_load(part + i * TILE_OUTPUTS + v * LANES), sum[i][v]);
}
INLINE void tile_store(const int rows, float *to, size_t stride, vf sum[TILE_ROWS][TILE_VECTORS]) {
    UNROLL
    for (int i = 0; i < rows; i++)
        UNROLL
        for (int v = 0; v < TILE_VECTORS; v++)
            vf_store(to + (size_t)i * stride + v * LANES, sum[i][v]);
}

INLINE void tile_zero(const int rows, vf sum[TILE_ROWS][TILE_VECTORS]) {
    UNROLL
    for (int i = 0; i < rows; i++)
        UNROLL
        for (int v = 0; v < TILE_VECTORS; v++)
            sum[i][v] = vf_zero();
}

/* Some of the values of x as operands, some in registers: the first takes a load each time, the second a shuffle. */
INLINE void tile_step(const int rows, vf sum[TILE_ROWS][TILE_VECTORS], const float *a, const float *b) {
    vf w[TILE_VECTORS];
    UNROLL
    for (int v = 0; v < TILE_VECTORS; v++)
        w[v] = vf_load(b + v * LANES);
    __builtin_prefetch(a + TILE_PREFETCH * TILE_ROWS);
    UNROLL
    for (int i = 0; i < rows; i++) {
        vf x = vf_set(a[i]);
        UNROLL
        for (int v = 0; v < TILE_VECTORS; v++)
            sum[i][v] = i % 3 == 2 ? vf_fma(x, w[v], sum[i][v]) : vf_fma_by(w[v], a + i, sum[i][v]);
    }
}

/* The last step of a lane (a, b), its sums stored at `part`, and the first step of the next lane, vector by vector: a
 * CPU that stores a vector in two cycles does that beside the multiplications, which wait if all stores come at once.
 * Before that, `adds` waiting tiles are added: the one at `part` last. */
INLINE void tile_turn(const int rows, const int adds, vf sum[TILE_ROWS][TILE_VECTORS], const float *a, const float *b,
                      const float *a_next, const float *b_next, float *part) {
    vf w[TILE_VECTORS], w_next[TILE_VECTORS];
    UNROLL
    for (int v = 0; v < TILE_VECTORS; v++) {
        w[v] = vf_load(b + v * LANES);
        w_next[v] = vf_load(b_next + v * LANES);
    }
    UNROLL
    for (int i = 0; i < rows; i++)
        UNROLL
        for (int v = 0; v < TILE_VECTORS; v++) {
            float *at = part + i * TILE_OUTPUTS + v * LANES;
            vf whole = vf_fma_by(w[v], a + i, sum[i][v]);
            UNROLL
            for (int n = adds - 1; n >= 0; n--)
                whole = vf_add(vf_load(at + n * TILE_FLOATS), whole);
            vf_store(at, whole);
            sum[i][v] = vf_fma_by(w_next[v], a_next + i, vf_zero());
            __asm__ volatile("" : : : "memory"); /* in this order */
        }
}

/* Sums the lanes of one round, one after another, each as a tile of rows x TILE_OUTPUTS held in registers. After lane
 * number j as many partial tiles are added as j has ones at its end: the tree, with a stack of at most five. */
INLINE void tile_sum(const int rows, const struct tile *t) {
    _Alignas(64) float inner[5 * TILE_FLOATS];
    float *top = inner;
    const float *a = t->rows, *b = t->outputs;
    vf sum[TILE_ROWS][TILE_VECTORS];
    unsigned begun = 0; /* steps of this lane that its predecessor has done */
    for (unsigned lane = 0;; lane++) {
        unsigned turn = lane + 1 < t->together && t->depth > 1, adds = (unsigned)__builtin_ctz(~lane);
        const float *bk = b + begun * TILE_OUTPUTS, *b_next = b + t->lane_floats;
        if (!begun)
            tile_zero(rows, sum);
        for (size_t k = t->depth - begun - turn; k > 0; k--) {
            tile_step(rows, sum, a, bk);
            a += TILE_ROWS;
            bk += TILE_OUTPUTS;
        }
        begun = turn;
        if (turn) {
            const float *a_next = a + TILE_ROWS + LANE_GAP;
            top -= adds * TILE_FLOATS;
            switch (adds) {
#define TILE_TURN(adds)                                                                                                \
    case adds:                                                                                                         \
        tile_turn(rows, adds, sum, a, bk, a_next, b_next, top);                                                        \
        break;
                TILE_TURN(0) TILE_TURN(1) TILE_TURN(2) TILE_TURN(3) TILE_TURN(4)
            }
            top += TILE_FLOATS;
            a = a_next + TILE_ROWS;
            b = b_next;
            continue;
        }
        a += LANE_GAP;
        b = b_next;
        while (adds-- > 0) {
            top -= TILE_FLOATS;
            tile_add(rows, sum, top);
        }
        if (lane + 1 == t->together)
            break;
        tile_store(rows, top, TILE_OUTPUTS, sum);
        top += TILE_FLOATS;
    }
    float *outer = t->outer;
    for (unsigned ones = t->round; ones; ones &= ones - 1)
        outer += TILE_FLOATS; /* one partial tile waits for each one in the number of the round */
    for (unsigned ones = t->round; ones & 1; ones >>= 1) {
        outer -= TILE_FLOATS;
        tile_add(rows, sum, outer);
    }
    if (t->round + 1 < t->rounds) {
        tile_store(rows, outer, TILE_OUTPUTS, sum);
        return;
    }
    if (t->bias) {
        UNROLL
        for (int v = 0; v < TILE_VECTORS; v++) {
            vf bias = vf_load(t->bias + v * LANES);
            UNROLL
            for (int i = 0; i < rows; i++)
                sum[i][v] = vf_add(sum[i][v], bias);
        }
    }
    tile_store(rows, t->y, t->y_stride, sum);
}

#define TILE_FUNCTION(height)                                                                                         \
    static void tile_sum_##height(const struct tile *t) { tile_sum(height, t); }
#define TILE_ENTRY(height) [height] = tile_sum_##height,
TILE_EVERY(TILE_FUNCTION)
static void (*const tile_by_height[TILE_ROWS + 1])(const struct tile *) = {TILE_EVERY(TILE_ENTRY)};

/* Offsets into the scratch of one strip, in floats. */
struct strip_scratch {
    size_t widened, outer, whole, bias, end;
};
static struct strip_scratch strip_places(const struct kvc_linear_call *call) {
    struct strip_scratch s;
    s.widened = call->strip * KVC_LANES * panel_lane_floats(call); /* behind the packed panels */
    s.outer = s.widened + LANES * GROUP;
    s.whole = s.outer + ROW_BLOCK * call->strip * outer_levels(lanes_together(call)) * TILE_FLOATS;
    s.bias = s.whole + TILE_FLOATS; /* behind a tile that hangs over the edge */
    s.end = s.bias + call->strip * TILE_OUTPUTS;
    return s;
}
static size_t strip_scratch(const struct kvc_linear_call *call) { return strip_places(call).end; }

/* One tile of rows times one panel: the lanes of one round. */
static void tile_round(const struct kvc_linear_call *call, struct tile *t, size_t tile, size_t n0, float *whole) {
    size_t rows = at_most(TILE_ROWS, call->rows - tile * TILE_ROWS), height = rows;
    size_t outputs = at_most(TILE_OUTPUTS, call->N - n0);
    while (!tile_by_height[height])
        height++;
    float *y = call->y + tile * TILE_ROWS * call->N + n0;
    int direct = height == rows && outputs == TILE_OUTPUTS;
    t->y = direct ? y : whole;
    t->y_stride = direct ? call->N : TILE_OUTPUTS;
    tile_by_height[height](t);
    for (size_t i = 0; !direct && t->round + 1 == t->rounds && i < rows; i++)
        memcpy(y + i * call->N, whole + i * TILE_OUTPUTS, outputs * sizeof(float));
}

static void strip(const struct kvc_linear_call *call, size_t number, size_t first, size_t last, const float *packed,
                  float *scratch) {
    struct strip_scratch at = strip_places(call);
    size_t n0 = number * call->strip * TILE_OUTPUTS, lane_floats = panel_lane_floats(call);
    size_t panels = at_most(call->strip, (call->N - n0 + TILE_OUTPUTS - 1) / TILE_OUTPUTS);
    size_t together = lanes_together(call), levels = outer_levels(together);
    struct tile t = {.depth = depth_of(call), .rows_lane_floats = rows_lane_floats(call), .lane_floats = lane_floats,
                     .together = (unsigned)together, .rounds = (unsigned)(KVC_LANES / together)};
    for (size_t p = 0; p < panels; p++)
        pack_panel(call, n0 + p * TILE_OUTPUTS, scratch + p * KVC_LANES * lane_floats, scratch + at.widened);
    for (size_t i = 0; call->bias && i < panels * TILE_OUTPUTS; i++)
        scratch[at.bias + i] = n0 + i < call->N ? call->bias[n0 + i] : 0.0f;
    /* Meanwhile the weights this thread will probably pack next come nearer, a few lines per tile. */
    size_t next = n0 + call->ahead * call->strip * TILE_OUTPUTS;
    const unsigned char *ahead = call->w + at_most(next, call->N) * call->row_bytes;
    const unsigned char *ahead_end = call->w + at_most(next + call->strip * TILE_OUTPUTS, call->N) * call->row_bytes;
    size_t step = (size_t)(ahead_end - ahead) / ((last - first) * panels * t.rounds) + 64;
    for (size_t block = first; block < last; block += ROW_BLOCK)
        for (t.round = 0; t.round < t.rounds; t.round++)
            for (size_t tile = block; tile < at_most(block + ROW_BLOCK, last); tile++)
                for (size_t p = 0; p < panels; p++) {
                    for (size_t line = 0; line < step && ahead < ahead_end; line += 64, ahead += 64)
                        __builtin_prefetch(ahead, 0, 1);
                    t.rows = packed + (tile * KVC_LANES + t.round * together) * t.rows_lane_floats;
                    t.outputs = scratch + (p * KVC_LANES + t.round * together) * lane_floats;
                    t.outer = scratch + at.outer + ((tile - block) * call->strip + p) * levels * TILE_FLOATS;
                    t.bias = call->bias ? scratch + at.bias + p * TILE_OUTPUTS : NULL;
                    tile_round(call, &t, tile, n0 + p * TILE_OUTPUTS, scratch + at.whole);
                }
}

/* test_delta.c - the reference's gated delta nets against their definition in double precision: one matrix for each
 * head, one row after another. Sessions do not change each other's state, and temporary rows leave no trace. */
#include "core/base/delta.h"
#include "tests/backends/ref_fixture.h"

enum { ROWS = 11, TAPS = 4, CHANNELS = 6, KEY_HEADS = 2, H = 6, N = 37, V = 5 };

static double softplus(double x) { return log1p(exp(x)); }
static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

static void soft_plus_near(void **state) {
    (void)state;
    for (float x = -86.5f; x < 30.0f; x += 0.037f) {
        const double right = softplus((double)x);
        if (fabs((double)kvc_softplus(x) - right) > 4e-7 * right)
            fail_msg("softplus(%g) is %.9g, not %.9g", (double)x, (double)kvc_softplus(x), right);
    }
    assert_true(kvc_softplus(25.0f) == 25.0f && kvc_softplus(-200.0f) == 0.0f && kvc_is_nan(kvc_softplus(kvc_nan())));
}

static void convolution(void **state) {
    const struct kvc_span x = values(ROWS * CHANNELS), w = values(CHANNELS * TAPS), y = buffer(ROWS * CHANNELS * 4);
    struct kvc_span kept = values(2 + (TAPS - 1) * CHANNELS);
    double before[TAPS - 1 + ROWS][CHANNELS]; /* The state's rows, then the new rows. */
    (void)state;
    kept.offset = 4; /* the state does not begin at the buffer's start */
    for (int i = 0; i < TAPS - 1 + ROWS; i++)
        for (int c = 0; c < CHANNELS; c++)
            before[i][c] = (double)(i < TAPS - 1 ? floats(kept)[1 + i * CHANNELS + c]
                                                 : floats(x)[(i - (TAPS - 1)) * CHANNELS + c]);
    /* Two rows, then the remaining rows of one session. The last call has rows that do not change the state. */
    const struct kvc_recurrence parts[] = {{kept, 0, 2, true}, {kept, 2, ROWS - 4, true}, {kept, ROWS - 2, 2, false}};
    for (size_t p = 0; p < 3; p++)
        OPS->convolve(device, &(struct kvc_convolve){.segments = &parts[p],
                                                     .segment_count = 1,
                                                     .state_at = 4,
                                                     .y = y,
                                                     .x = x,
                                                     .w = w,
                                                     .channels = CHANNELS,
                                                     .taps = TAPS});
    for (int i = 0; i < ROWS; i++)
        for (int c = 0; c < CHANNELS; c++) {
            double sum = 0;
            for (int t = 0; t < TAPS; t++)
                sum += before[i + t][c] * (double)floats(w)[c * TAPS + t];
            assert_near((double)floats(y)[i * CHANNELS + c], sum * sigmoid(sum), 1e-6);
        }
    for (int j = 0; j < TAPS - 1; j++) /* up to the last row that changed the state */
        for (int c = 0; c < CHANNELS; c++)
            assert_true((double)floats(kept)[1 + j * CHANNELS + c] == before[ROWS - 2 + j][c]);
}

struct net { /* The inputs for ROWS rows, and a state for each of two sessions. */
    struct kvc_span q, k, v, a, beta, rate, bias, out, state;
};

static struct net make_net(void) {
    struct net net = {.q = values(ROWS * KEY_HEADS * N),
                      .k = values(ROWS * KEY_HEADS * N),
                      .v = values(ROWS * H * V),
                      .a = values(ROWS * H),
                      .beta = values(ROWS * H),
                      .rate = values(H),
                      .bias = values(H),
                      .out = buffer(ROWS * H * V * 4),
                      .state = values(2 * H * V * N)};
    for (int h = 0; h < H; h++)
        floats(net.rate)[h] = -fabsf(floats(net.rate)[h]);
    for (int i = 0; i < ROWS * KEY_HEADS * N; i++) /* vectors of about length one */
        floats(net.k)[i] = 0.15f * floats(net.k)[i];
    return net;
}

static void run_net(const struct net *net, const struct kvc_recurrence *segments, size_t count, bool tiled) {
    OPS->delta_rule(device, &(struct kvc_delta_rule){.segments = segments,
                                                     .segment_count = count,
                                                     .out = net->out,
                                                     .q = net->q,
                                                     .k = net->k,
                                                     .v = net->v,
                                                     .a = net->a,
                                                     .beta = net->beta,
                                                     .rate = net->rate,
                                                     .bias = net->bias,
                                                     .heads = H,
                                                     .key_heads = KEY_HEADS,
                                                     .value_size = V,
                                                     .key_size = N,
                                                     .tiled = tiled});
}

static struct kvc_span state_of(const struct net *net, size_t session) {
    return (struct kvc_span){net->state.buffer, session * H * V * N * 4};
}

/* The memory is [d_k, d_v], as in papers. */
static void rule(void **state) {
    (void)state;
    for (int tiled = 0; tiled < 2; tiled++) {
        const struct net net = make_net();
        static double memory[2][H][N][V];
        const struct kvc_recurrence segments[] = {{state_of(&net, 1), 0, 4, true}, {state_of(&net, 0), 4, 7, true}};
        for (int s = 0; s < 2; s++)
            for (int h = 0; h < H; h++)
                for (int c = 0; c < V; c++)
                    for (int j = 0; j < N; j++)
                        memory[s][h][j][c] = (double)floats(state_of(&net, (size_t)s))[(h * V + c) * N + j];
        run_net(&net, segments, 2, tiled);
        for (int i = 0; i < ROWS; i++)
            for (int h = 0; h < H; h++) {
                double(*S)[V] = memory[i < 4][h];
                const int key_head = tiled ? h % KEY_HEADS : h / (H / KEY_HEADS);
                const float *q = floats(net.q) + (i * KEY_HEADS + key_head) * N;
                const float *k = floats(net.k) + (i * KEY_HEADS + key_head) * N;
                const double g = (double)floats(net.rate)[h] *
                                 softplus((double)floats(net.a)[i * H + h] + (double)floats(net.bias)[h]);
                for (int c = 0; c < V; c++) {
                    double seen = 0, out = 0;
                    for (int j = 0; j < N; j++)
                        S[j][c] *= exp(g);
                    for (int j = 0; j < N; j++)
                        seen += S[j][c] * (double)k[j];
                    const double more = sigmoid((double)floats(net.beta)[i * H + h]) *
                                        ((double)floats(net.v)[(i * H + h) * V + c] - seen);
                    for (int j = 0; j < N; j++)
                        S[j][c] += (double)k[j] * more;
                    for (int j = 0; j < N; j++)
                        out += S[j][c] * (double)q[j];
                    assert_near((double)floats(net.out)[(i * H + h) * V + c], out, 2e-5);
                }
            }
    }
}

/* The results are bit-identical for rows all at once, one by one, and repeated without changing the state. */
static void parts(void **state) {
    const struct net net = make_net();
    const size_t bytes = H * V * N * 4, out_bytes = ROWS * H * V * 4;
    const struct kvc_span first = holding(floats(state_of(&net, 0)), bytes), out = buffer(out_bytes);
    const struct kvc_recurrence all = {state_of(&net, 0), 0, ROWS, true};
    const struct kvc_recurrence trial = {first, 0, ROWS, false};
    (void)state;
    memcpy(floats(state_of(&net, 1)), floats(first), bytes);
    run_net(&net, &all, 1, false);
    OPS->copy(device, out, net.out, out_bytes);
    for (uint32_t i = 0; i < ROWS; i++) {
        const struct kvc_recurrence one = {state_of(&net, 1), i, 1, true};
        run_net(&net, &one, 1, false);
    }
    assert_memory_equal(floats(out), floats(net.out), out_bytes);
    assert_memory_equal(floats(state_of(&net, 0)), floats(state_of(&net, 1)), bytes);
    memcpy(floats(state_of(&net, 1)), floats(first), bytes);
    OPS->zero(device, net.out, out_bytes);
    run_net(&net, &trial, 1, false);
    assert_memory_equal(floats(out), floats(net.out), out_bytes);
    assert_memory_equal(floats(first), floats(state_of(&net, 1)), bytes);
}

int main(void) {
#define TEST(name) cmocka_unit_test_teardown(name, end_test)
    const struct CMUnitTest tests[] = {TEST(soft_plus_near), TEST(convolution), TEST(rule), TEST(parts)};
    return cmocka_run_group_tests(tests, open_ref, close_ref);
}

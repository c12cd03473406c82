/* test_tiles.c - AMX's tiles. The plain C code that replaces AMX's instructions is compared with products in 64 bits,
 * and the instructions are compared with this code. The kernels of the path amx run with this code and are compared
 * with the reference, on every machine with AVX-512. Each case prints what ran. The last cases need Linux, and a CPU
 * with AMX. */
#define KVC_TILES_PLAIN
#include <stdio.h>
#if defined(KVC_X86_AMX) && defined(__linux__)
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

#include "backends/cpu/ref/ref.h"
#include "tests/backends/random_weights.h"
#include "tests/backends/tiles.h"
#include "tests/check.h"

extern const struct kvc_backend_class kvc_backend_cpu;

/* Random operands; some consist of the largest magnitudes. */
static struct tiles_case random_case(unsigned rows, unsigned words, unsigned columns) {
    struct tiles_case c = {.rows = rows, .words = words, .columns = columns};
    const unsigned kind = draw(4);
    for (unsigned i = 0; i < 16; i++)
        for (unsigned j = 0; j < 64; j++) {
            c.a[i][j] = kind == 0 ? -128 : (kvc_i8)((int)draw(256) - 128);
            c.b[i][j] = kind <= 1 ? (kvc_i8)(draw(2) ? 127 : -128) : (kvc_i8)((int)draw(256) - 128);
            c.sum[i][j % 16] = (kvc_i32)draw(1u << 31) - (1 << 30);
        }
    return c;
}

static void plain_products(void **state) {
    (void)state;
    for (unsigned i = 0; i < 400; i++) {
        const struct tiles_case before = random_case(1 + draw(16), 1 + draw(16), 1 + draw(16));
        struct tiles_case after = before;
        multiply_tiles(&after);
        for (unsigned r = 0; r < 16; r++)
            for (unsigned n = 0; n < 16; n++) {
                int64_t sum = before.sum[r][n];
                for (unsigned k = 0; r < before.rows && n < before.columns && k < 4 * before.words; k++)
                    sum += (int64_t)before.a[r][k] * before.b[k / 4][4 * n + k % 4];
                assert_int_equal(after.sum[r][n], sum);
            }
    }
}

static void instructions(void **state) {
    (void)state;
#if defined(KVC_X86_AMX)
    if (!kvc_cpu_path_runs(KVC_CPU_AMX))
        SKIP_BECAUSE("this machine has no AMX, or the system does not permit it: its instructions did not run");
    print_message("AMX's instructions run\n");
    for (unsigned i = 0; i < 4000; i++) {
        struct tiles_case plain = random_case(1 + i % 16, 1 + i / 16 % 16, 1 + draw(16)), amx = plain;
        multiply_tiles(&plain);
        tiles_instructions(&amx);
        assert_memory_equal(plain.sum, amx.sum, sizeof plain.sum);
    }
#else
    SKIP_BECAUSE("this build does not contain the path amx");
#endif
}

/* ---- the kernels ---- */

#if defined(KVC_X86_SIMD)
/* Returns false if the path computes the type without tiles. */
static bool one_linear(struct kvc_device *other, enum kvc_type type, uint32_t rows, uint32_t N, uint32_t K, bool bias) {
    const struct kvc_int8_rows x = {.quant = buffer((size_t)rows * K),
                                    .scale = buffer((size_t)rows * K / 32 * 4),
                                    .sum = buffer((size_t)rows * K / 16 * 4)};
    const struct kvc_span y[2] = {buffer((size_t)rows * N * 4), buffer((size_t)rows * N * 4)}, none = {NULL, 0};
    struct kvc_linear_int8 args = {.x = x, .rows = rows, .bias = bias ? values(N) : none};
    struct kvc_weight *weight;
    unsigned char *w = random_weights(type, N, K);
    OPS->quantize_rows(device,
                       &(struct kvc_quantize_rows){.y = x, .x = values((size_t)rows * K), .rows = rows, .K = K});
    assert_int_equal(OPS->weight_create(device, type, N, K, w, &weight, NULL), KVC_OK);
    args.w = weight;
    args.y = y[0];
    OPS->linear_int8(device, &args);
    args.y = y[1];
    const bool tiles = tiles_linear_plain(other, &args);
    for (size_t i = 0; tiles && i < (size_t)rows * N; i++)
        if (kvc_bits(floats(y[0])[i]) != kvc_bits(floats(y[1])[i]))
            fail_msg("%s, %u rows, %u to %u: y[%zu, %zu] is %a, the reference's %a", kvc_type_name(type),
                     (unsigned)rows, (unsigned)K, (unsigned)N, i / N, i % N, (double)floats(y[1])[i],
                     (double)floats(y[0])[i]);
    OPS->weight_free(device, weight);
    free(w);
    end_test(NULL);
    return tiles;
}
#endif

/* Every type that is computed with tiles; rows and outputs that do not fill tiles, and lanes without blocks, with one,
 * and with more than a step.
 */
static void kernels(void **state) {
    (void)state;
#if defined(KVC_X86_SIMD)
    static const uint32_t rows[] = {1, 16, 17, 33, 70}, outputs[] = {1, 16, 31, 33, 80};
    if (!kvc_cpu_path_runs(KVC_CPU_AVX512))
        SKIP_BECAUSE("this CPU has no AVX-512: the kernels of the path amx did not run");
    print_message("the kernels of the path amx run with the tiles' double in plain C\n");
    for (int threads = 1; threads <= 3; threads += 2) {
        struct kvc_device *other;
        struct kvc_error error;
        unsigned with_tiles = 0;
        FINE(kvc_backend_cpu.open("avx512", 0, threads, KVC_MATH_FLOAT, &other, &error));
        for (int type = KVC_Q8_0; type < KVC_TYPES; type++)
            for (size_t i = 0; i < 5; i++) {
                const bool short_blocks = kvc_type_block((enum kvc_type)type).elements == 32;
                const uint32_t K = i == 4 ? 1280 : short_blocks ? 32 * (1 + draw(45)) : 256 * (1 + draw(6));
                with_tiles +=
                    one_linear(other, (enum kvc_type)type, rows[i], outputs[(i + (size_t)type) % 5], K, i % 2);
            }
        other->ops->close(other);
        assert_int_equal(with_tiles, 5 * 10); /* without the three types whose scales serve 16 weights */
    }
#else
    SKIP_BECAUSE("this build contains no paths for x86");
#endif
}

#if defined(KVC_X86_SIMD)
/* Multiplies F32 weights, or converted ones, in int16. Special rows have the largest quants. */
static void one_linear_int16(struct kvc_device *other, uint32_t rows, uint32_t N, uint32_t K, bool packed) {
    const struct kvc_int16_rows x = {.quant = buffer((size_t)rows * K * 2),
                                     .scale = buffer(rows * kvc_int16_blocks(K) * 4)};
    const struct kvc_span y[2] = {buffer((size_t)rows * N * 4), buffer((size_t)rows * N * 4)},
                          from = values((size_t)rows * K);
    struct kvc_linear_int16 args = {.x = x, .rows = rows, .bias = values(N)};
    struct kvc_weight *weight[2];
    struct kvc_error error;
    const struct kvc_span w = values((size_t)N * K);
    for (size_t i = 0; i < (size_t)rows * K; i++)
        floats(from)[i] = i / K % 5 == 1 ? (i % 3 ? 1.0f : -1.0f) : floats(from)[i];
    for (size_t i = 0; i < (size_t)N * K; i++)
        floats(w)[i] = i / K % 7 == 2 ? -1.0f : floats(w)[i];
    OPS->quantize_rows_int16(device, &(struct kvc_quantize_rows_int16){.y = x, .x = from, .rows = rows, .K = K});
    for (int side = 0; side < 2; side++) {
        struct kvc_device *d = side ? other : device;
        FINE(d->ops->weight_create(d, KVC_F32, N, K, floats(w), &weight[side], &error));
        if (packed)
            FINE(d->ops->weight_pack(d, weight[side], &error));
    }
    args.w = weight[0];
    args.y = y[0];
    OPS->linear_int16(device, &args);
    args.w = weight[1];
    args.y = y[1];
    tiles_linear_int16_plain(other, &args);
    for (size_t i = 0; i < (size_t)rows * N; i++)
        if (kvc_bits(floats(y[0])[i]) != kvc_bits(floats(y[1])[i]))
            fail_msg("int16, %u rows, %u to %u: y[%zu, %zu] is %a, the reference's %a", (unsigned)rows, (unsigned)K,
                     (unsigned)N, i / N, i % N, (double)floats(y[1])[i], (double)floats(y[0])[i]);
    for (int side = 0; side < 2; side++)
        OPS->weight_free(side ? other : device, weight[side]);
    end_test(NULL);
}
#endif

/* Rows and outputs that do not fill squares, tiles or panels; short last blocks, and more than a piece of a panel. */
static void kernels_int16(void **state) {
    (void)state;
#if defined(KVC_X86_SIMD)
    static const uint32_t rows[] = {1, 16, 17, 130, 530}, outputs[] = {1, 16, 31, 129, 80},
                          inputs[] = {32, 256, 96, 320, 2336};
    if (!kvc_cpu_path_runs(KVC_CPU_AVX512VNNI))
        SKIP_BECAUSE("this CPU has no AVX-512 with VNNI: the kernels of the path amx did not run");
    print_message("the kernels of the path amx run with the tiles' double in plain C\n");
    for (int threads = 1; threads <= 3; threads += 2) {
        struct kvc_device *other;
        struct kvc_error error;
        FINE(kvc_backend_cpu.open("avx512", 0, threads, KVC_MATH_FLOAT, &other, &error));
        for (size_t i = 0; i < 5; i++)
            for (size_t j = 0; j < 5; j++)
                if (rows[i] < 500 || outputs[(i + j) % 5] < 40 || inputs[j] < 300) /* plain C is slow */
                    one_linear_int16(other, rows[i], outputs[(i + j) % 5], inputs[j], (i + j) % 2);
        other->ops->close(other);
    }
#else
    SKIP_BECAUSE("this build contains no paths for x86");
#endif
}

/* ---- the system's permission ---- */

#if defined(KVC_X86_AMX) && defined(__linux__)
/* Makes arch_prctl(ARCH_REQ_XCOMP_PERM) and (ARCH_GET_XCOMP_PERM) fail in this process, as on older systems. */
static bool refuse_permissions(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_arch_prctl, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x1021, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 22),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

enum { REFUSED_WELL, REFUSED_BADLY, NO_AMX, NO_FILTER };

static int refused_choice(void) {
    enum kvc_cpu_path path;
    struct kvc_error error = {KVC_OK, ""};
    if (!refuse_permissions())
        return NO_FILTER;
    unsetenv("KVCULL_CPU");
    if (kvc_cpu_path_find("amx", &path, &error) != KVC_RESOURCE)
        return REFUSED_BADLY;
    if (strstr(error.text, "this CPU does not have"))
        return NO_AMX;
    if (strcmp(error.text, "cpu: the system does not let this process use the instruction set amx; best here: "
                           "avx512vnni") != 0)
        return REFUSED_BADLY;
    return kvc_cpu_path_find(NULL, &path, &error) == KVC_OK && path == KVC_CPU_AVX512VNNI ? REFUSED_WELL
                                                                                          : REFUSED_BADLY;
}
#endif

static void refused_permission(void **state) {
    (void)state;
#if defined(KVC_X86_AMX) && defined(__linux__)
    int status = -1;
    const pid_t child = fork();
    if (child == 0)
        _exit(refused_choice());
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == NO_AMX)
        SKIP_BECAUSE("this CPU has no AMX: no permission was refused");
    if (WIFEXITED(status) && WEXITSTATUS(status) == NO_FILTER)
        SKIP_BECAUSE("this system has no filters of system calls: no permission was refused");
    assert_int_equal(status, REFUSED_WELL);
#else
    SKIP_BECAUSE("this build does not contain the path amx for Linux");
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused_permission), /* first, because a granted permission stays */
        cmocka_unit_test(plain_products),
        cmocka_unit_test(instructions),
        cmocka_unit_test_teardown(kernels, end_test),
        cmocka_unit_test_teardown(kernels_int16, end_test),
    };
    return cmocka_run_group_tests(tests, open_ref, close_ref);
}

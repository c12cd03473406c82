/* paths.c - the CPU's instruction sets: which of them this build contains, which of them this machine runs, and the
 * best one. */
#include <stdlib.h>
#include <string.h>
#if defined(KVC_NEON_DOTPROD) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif
#if defined(KVC_X86_SIMD)
#include <cpuid.h>
#endif
#if defined(KVC_X86_AMX) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "backends/cpu/cpu.h"
#include "backends/cpu/ref/ref.h"
#include "backends/cpu/simd/integers/integers.h"
#include "backends/cpu/simd/simd.h"

#define BUILT_PLAIN(fill) fill
#if defined(KVC_X86_SIMD)
#define BUILT_X86_SIMD(fill) fill
#else
#define BUILT_X86_SIMD(fill) NULL
#endif
#if defined(KVC_X86_AMX)
#define BUILT_X86_AMX(fill) fill
#else
#define BUILT_X86_AMX(fill) NULL
#endif
#if defined(KVC_NEON)
#define BUILT_NEON(fill) fill
#else
#define BUILT_NEON(fill) NULL
#endif
#if defined(KVC_NEON_DOTPROD)
#define BUILT_NEON_DOTPROD(fill) fill
#else
#define BUILT_NEON_DOTPROD(fill) NULL
#endif

#define PATH_ROW(NAME, name, build) {#name, BUILT_##build(kvc_cpu_fill_##name)},
static const struct {
    const char *name;
    void (*fill)(struct kvc_ops *table); /* NULL: not in this build */
} paths[KVC_CPU_PATH_COUNT] = {KVC_CPU_PATHS(PATH_ROW)};

const char *kvc_cpu_path_name(enum kvc_cpu_path path) { return paths[path].name; }

void kvc_cpu_path_fill(enum kvc_cpu_path path, struct kvc_ops *table) { paths[path].fill(table); }

/* All instruction sets of a CPU family pack weights with one function: memory limits the speed, so wider vectors would
 * not help. */
kvc_pack_rows *kvc_cpu_path_pack(enum kvc_cpu_path path) {
#if defined(KVC_X86_SIMD)
    if (path >= KVC_CPU_AVX2)
        return kvc_pack_int16_avx2;
#elif defined(KVC_NEON)
    if (path >= KVC_CPU_NEON)
        return kvc_pack_int16_neon;
#endif
    (void)path;
    return kvc_ref_pack_int16;
}

const struct kvc_integer_kernels *kvc_cpu_path_integers(enum kvc_cpu_path path) {
    switch (path) {
    case KVC_CPU_REF:
        return NULL;
#if defined(KVC_X86_SIMD)
    case KVC_CPU_AVX2:
    case KVC_CPU_AVX512:
        return &kvc_integer_avx2;
    case KVC_CPU_AVX2VNNI:
        return &kvc_integer_avx2vnni;
    case KVC_CPU_AVX512VNNI:
        return &kvc_integer_avx512vnni;
#endif
#if defined(KVC_X86_AMX)
    case KVC_CPU_AMX:
        return &kvc_integer_amx;
#endif
#if defined(KVC_NEON)
    case KVC_CPU_NEON:
        return &kvc_integer_neon;
#endif
#if defined(KVC_NEON_DOTPROD)
    case KVC_CPU_NEONDOTPROD:
    case KVC_CPU_NEONI8MM:
        return &kvc_integer_neondotprod;
#endif
    default:
        return &kvc_integer_plain;
    }
}

/* ---- detection
 * ------------------------------------------------------------------------------------------------------- */

#if defined(KVC_X86_SIMD)
enum { HAS_AVX2 = 1, HAS_AVX_VNNI = 2, HAS_AVX512 = 4, HAS_AVX512_VNNI = 8, HAS_AMX = 16 };

/* Returns the extensions that the CPU has and whose registers the system saves. Reads CPUID directly: some compilers'
 * runtime libraries lack __builtin_cpu_supports, and older compilers do not know the name "avxvnni". */
static unsigned x86_extensions(void) {
    const unsigned avx512 = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
    unsigned a, b, c, d, saved, has = 0;

    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) || !(c & bit_FMA) || !(c & bit_F16C))
        return 0;
    __asm__("xgetbv" : "=a"(saved), "=d"(d) : "c"(0));
    /* XMM and YMM are saved */
    if ((saved & 0x06) != 0x06 || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & bit_AVX2))
        return 0;
    has = HAS_AVX2;
    if ((saved & 0xe0) == 0xe0 && (b & avx512) == avx512) /* ZMM and masks are saved */
        has |= c >> 11 & 1 ? HAS_AVX512 | HAS_AVX512_VNNI : HAS_AVX512;
    /* the CPU has AMX tiles and their byte products; the system saves tile shapes and contents */
    if ((has & HAS_AVX512_VNNI) && (d >> 24 & 3) == 3 && (saved >> 17 & 3) == 3)
        has |= HAS_AMX;
#if defined(KVC_EVEX_VNNI)
    /* This build encodes AVX-VNNI's instructions as AVX-512 does, to test them on a CPU that has only that encoding. */
    return has & HAS_AVX512_VNNI ? has | HAS_AVX_VNNI : has;
#else
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1) ? has | HAS_AVX_VNNI : has;
#endif
}
#endif

#if defined(KVC_X86_AMX)
/* Asks the system for the permission to use tiles, which Linux gives to a whole process and for its lifetime. Threads
 * that never use tiles pay nothing for it. */
static bool tiles_permitted(void) {
#if defined(__linux__)
    enum {
        GET_PERMISSIONS = 0x1022,
        ASK_PERMISSION = 0x1023,
        TILE_DATA = 18
    }; /* constants of <asm/prctl.h>, since
        * Linux 5.16 */
    unsigned long permitted = 0;
    if (syscall(SYS_arch_prctl, GET_PERMISSIONS, &permitted) == 0 && (permitted >> TILE_DATA & 1))
        return true;
    return syscall(SYS_arch_prctl, ASK_PERMISSION, TILE_DATA) == 0;
#else
    return false;
#endif
}
#endif

#if defined(KVC_NEON_DOTPROD)
/* On Linux, asks the system. Elsewhere, the compiler's target decides. */
static bool has_dotprod(void) {
#if defined(__linux__)
    return getauxval(AT_HWCAP) & HWCAP_ASIMDDP;
#elif defined(__ARM_FEATURE_DOTPROD)
    return true;
#else
    return false;
#endif
}

static bool has_i8mm(void) {
#if defined(__linux__) && defined(HWCAP2_I8MM)
    return getauxval(AT_HWCAP2) & HWCAP2_I8MM;
#elif defined(__ARM_FEATURE_MATMUL_INT8)
    return true;
#else
    return false;
#endif
}
#endif

/* Returns true if the CPU has the instruction set. */
static bool cpu_has(enum kvc_cpu_path path) {
    switch (path) {
#if defined(KVC_X86_SIMD)
    case KVC_CPU_AVX2:
        return x86_extensions() & HAS_AVX2;
    case KVC_CPU_AVX2VNNI:
        return x86_extensions() & HAS_AVX_VNNI;
    case KVC_CPU_AVX512:
        return x86_extensions() & HAS_AVX512;
    case KVC_CPU_AVX512VNNI:
        return x86_extensions() & HAS_AVX512_VNNI;
    case KVC_CPU_AMX:
        return x86_extensions() & HAS_AMX;
#endif
#if defined(KVC_NEON_DOTPROD)
    case KVC_CPU_NEONDOTPROD:
        return has_dotprod();
    case KVC_CPU_NEONI8MM:
        return has_dotprod() && has_i8mm();
#endif
    default:
        return true;
    }
}

/* Returns true if the system lets this process use an instruction set that the CPU has. */
static bool system_permits(enum kvc_cpu_path path) {
#if defined(KVC_X86_AMX)
    if (path == KVC_CPU_AMX)
        return tiles_permitted();
#endif
    (void)path;
    return true;
}

bool kvc_cpu_path_runs(enum kvc_cpu_path path) { return paths[path].fill && cpu_has(path) && system_permits(path); }

static enum kvc_cpu_path best_path(void) {
    enum kvc_cpu_path best = KVC_CPU_REF;
    for (size_t i = 0; i < KVC_CPU_PATH_COUNT; i++)
        if (kvc_cpu_path_runs((enum kvc_cpu_path)i))
            best = (enum kvc_cpu_path)i;
    return best;
}

/* Finds an instruction set by its name, such as "avx2". `where` names the option or variable that contained the name,
 * for error messages. */
static enum kvc_status find_path(const char *name, const char *where, enum kvc_cpu_path *path,
                                 struct kvc_error *error) {
#define PATH_NAME(NAME, name, build) ", " #name
    static const char names[] = KVC_CPU_PATHS(PATH_NAME);
    for (size_t i = 0; i < KVC_CPU_PATH_COUNT; i++) {
        if (strcmp(name, paths[i].name) != 0)
            continue;
        *path = (enum kvc_cpu_path)i;
        if (!paths[i].fill)
            return kvc_fail(error, KVC_RESOURCE,
                            "%s: this build does not contain the instruction set %s; best here: %s", where, name,
                            paths[best_path()].name);
        if (!cpu_has(*path))
            return kvc_fail(error, KVC_RESOURCE, "%s: this CPU does not have the instruction set %s; best here: %s",
                            where, name, paths[best_path()].name);
        if (!system_permits(*path))
            return kvc_fail(error, KVC_RESOURCE,
                            "%s: the system does not let this process use the instruction set %s; best here: %s", where,
                            name, paths[best_path()].name);
        return KVC_OK;
    }
    return kvc_fail(error, KVC_USAGE, "%s: unknown CPU instruction set '%s'; known are %s", where, name, names + 2);
}

enum kvc_status kvc_cpu_path_find(const char *name, enum kvc_cpu_path *path, struct kvc_error *error) {
    const char *variable = getenv("KVCULL_CPU");
    *path = KVC_CPU_REF;
    if (name)
        return find_path(name, "cpu", path, error);
    if (variable && *variable)
        return find_path(variable, "KVCULL_CPU", path, error);
    *path = best_path();
    return KVC_OK;
}

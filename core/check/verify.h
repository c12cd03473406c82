/* verify.h - shared by the checks of all operations: two devices side by side, synthetic inputs, and comparison of
 * bits. */
#ifndef KVC_CORE_CHECK_VERIFY_H
#define KVC_CORE_CHECK_VERIFY_H

#include "core/base/canon.h"
#include "core/base/ops.h"
#include "kvcull/check.h"

/* The kinds of synthetic values. Wild values include some NaNs, infinities and numbers at both ends of the range. All
 * other kinds are finite. */
enum kvc_flavour { KVC_PLAIN, KVC_TIES, KVC_TINY, KVC_HUGE, KVC_WILD, KVC_FLAVOURS };

/* Features that an operation received later. Their test cases are named "name+what". */
enum kvc_further {
    KVC_FURTHER_NOT,
    KVC_FURTHER_centred,
    KVC_FURTHER_activation,
    KVC_FURTHER_scoring,
    KVC_FURTHER_clamped,
    KVC_FURTHER_sinks,
    KVC_FURTHER_heads,
    KVC_FURTHER_sigmoid,
    KVC_FURTHER_chunks,
    KVC_FURTHER_maxima,
    KVC_FURTHER_integers,
    KVC_FURTHER_packed,
    KVC_FURTHER_filter,
    KVC_FURTHER_bounded,
    KVC_FURTHER_exact,
    KVC_FURTHER_width,
    KVC_FURTHER_weights,
    KVC_FURTHER_hidden
};

struct kvc_verify {
    struct kvc_device *device[2]; /* the reference and the device under test */
    int first;                    /* first device to run: 0, or 1 to run only the device under test, without a
                                   * comparison */
    enum kvc_further further;     /* the later feature that the case tests */
    bool small;                   /* short rows and few entries, for kernel interpreters */
    uint64_t random;              /* state of the random generator, which gives the same inputs on every machine */
    struct kvc_verify_row row;    /* the operation being checked */
    struct kvc_hash *hash;
    char shape[96];         /* shape of the current case */
    enum kvc_status status; /* not KVC_OK: out of memory, stop */
    struct kvc_error error;
    void *held[256]; /* host memory of this case */
    struct kvc_buffer *buffers[256][2];
    size_t held_count, buffer_count;
};

/* A buffer on each device. buffer[0], and lists[0] below, are NULL if there is no reference. */
struct kvc_twin {
    struct kvc_buffer *buffer[2];
};

/* Lists with equal contents on each device. The host arrays describe the initial contents. */
struct kvc_twin_lists {
    struct kvc_lists lists[2];
    uint32_t *slots, *count; /* [H_kv] */
    uint32_t most;           /* entries of the longest head */
    uint32_t all_slots;
    int32_t now; /* a position above all others */
};

struct kvc_lists_shape {
    struct kvc_entry_types types;
    uint32_t kv_heads, head_size, columns;
    uint32_t most_blocks;     /* blocks per head: 1 to this number */
    bool ordered;             /* the lists have order lists, which are in random order */
    enum kvc_flavour flavour; /* kind of the keys and values */
};

/* Draws a random shape and describes it in v->shape. kvc_verify_describe appends an operation's own details, with a
 * format of two unsigned numbers. */
struct kvc_lists_shape kvc_verify_shape(struct kvc_verify *v, uint32_t columns, uint32_t most_blocks, bool ordered);
void kvc_verify_describe(struct kvc_verify *v, const char *format, unsigned a, unsigned b);
/* Draws a scale, a cap or both, in cases of later features. */
struct kvc_scoring kvc_verify_scoring(struct kvc_verify *v);
/* Draws attention sinks, one per query head: near the scores, far below them or far above. */
struct kvc_twin kvc_verify_sinks(struct kvc_verify *v, uint32_t heads);
/* Draws the number of query heads per KV head: 1, 4, 7 or 8, or 1 to 3 if v->small is true. */
uint32_t kvc_verify_group(struct kvc_verify *v);
/* Draws the types of keys and values. */
struct kvc_entry_types kvc_verify_entry_types(struct kvc_verify *v);

/* Do not use two draws in one expression or call: the compiler chooses their order. */
static inline uint32_t kvc_verify_draw(struct kvc_verify *v) { /* 32 random bits (splitmix64) */
    uint64_t z = v->random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)((z ^ z >> 31) >> 32);
}
static inline uint32_t kvc_verify_range(struct kvc_verify *v, uint32_t least, uint32_t most) { /* least .. most */
    return least + (uint32_t)((uint64_t)kvc_verify_draw(v) * ((uint64_t)most - least + 1) >> 32);
}
#define kvc_verify_pick(v, array) ((array)[kvc_verify_range(v, 0, sizeof(array) / sizeof((array)[0]) - 1)])

/* The following functions allocate host memory and buffers that exist until the case ends. If out of memory, they
 * return NULL and set v->status. */
void *kvc_verify_alloc(struct kvc_verify *v, size_t bytes);
/* Frees the host memory allocated since held_count was `held`. */
void kvc_verify_release(struct kvc_verify *v, size_t held);
float *kvc_verify_values(struct kvc_verify *v, size_t n, enum kvc_flavour flavour);
enum kvc_flavour kvc_verify_flavour(struct kvc_verify *v); /* draws a kind of values, mostly KVC_PLAIN */
struct kvc_twin kvc_verify_twin(struct kvc_verify *v, size_t bytes, const void *contents); /* contents NULL: zeros */
/* A buffer of results on each device, filled with a pattern that differs between the two: a value that an operation
 * does not write shows as a difference. */
struct kvc_twin kvc_verify_output(struct kvc_verify *v, size_t bytes);
struct kvc_twin kvc_verify_twin_values(struct kvc_verify *v, size_t n, enum kvc_flavour flavour);
static inline struct kvc_span kvc_verify_span(struct kvc_twin twin, int side) {
    struct kvc_span span = {twin.buffer[side], 0};
    return span;
}

/* Draws a width that fits the type's blocks, and a matrix. The matrix may begin in memory at any multiple of the type's
 * smallest unit. */
uint32_t kvc_verify_width(struct kvc_verify *v, enum kvc_type type);
const unsigned char *kvc_verify_matrix(struct kvc_verify *v, enum kvc_type type, uint32_t outputs, uint32_t inputs,
                                       enum kvc_flavour flavour);

/* Create such a matrix as a weight on each device, or E matrices, consecutive or separate. Return false if out of
 * memory. */
bool kvc_verify_weight(struct kvc_verify *v, enum kvc_type type, uint32_t outputs, uint32_t inputs,
                       enum kvc_flavour flavour, struct kvc_weight *weight[2]);
bool kvc_verify_experts(struct kvc_verify *v, enum kvc_type type, uint32_t E, uint32_t N, uint32_t K,
                        struct kvc_weight *weight[2]);
void kvc_verify_weight_free(struct kvc_verify *v, struct kvc_weight *weight[2]);
/* Draws an array `first` [E + 1] for `pairs` pairs: some experts get none, and one may get most of them. */
uint32_t *kvc_verify_first_pairs(struct kvc_verify *v, uint32_t E, uint32_t pairs);

void kvc_verify_lists(struct kvc_verify *v, const struct kvc_lists_shape *shape, struct kvc_twin_lists *out);
void kvc_verify_lists_free(struct kvc_verify *v, struct kvc_twin_lists *lists);
/* Draws for each head ascending indices below its count: some of them, all or none. */
void kvc_verify_read_lists(struct kvc_verify *v, const struct kvc_twin_lists *lists, struct kvc_read_list out[2]);

/* Compare n values, or 32-bit integers, of the two buffers. `offset` is in values. */
void kvc_verify_compare(struct kvc_verify *v, struct kvc_twin twin, size_t offset, size_t n, const char *what);
void kvc_verify_compare_words(struct kvc_verify *v, struct kvc_twin twin, size_t offset, size_t n, const char *what);
void kvc_verify_compare_host(struct kvc_verify *v, const float *ref, const float *other, size_t n, const char *what);
void kvc_verify_compare_number(struct kvc_verify *v, const uint64_t number[2], const char *what);
/* Compares read lists: counts [heads], and indices [heads, stride] up to each count. */
void kvc_verify_compare_reads(struct kvc_verify *v, struct kvc_twin counts, struct kvc_twin indices, uint32_t heads,
                              uint32_t stride);
/* Compares scores [H_kv, stride] up to each head's count. */
void kvc_verify_compare_scores(struct kvc_verify *v, const struct kvc_twin_lists *lists, struct kvc_twin scores,
                               uint32_t stride);
/* Returns the counts [heads] of the reference or, without one, of the device under test. Returns NULL if out of
 * memory. */
uint32_t *kvc_verify_counts(struct kvc_verify *v, struct kvc_twin counts, uint32_t heads);
/* Compares everything that lists hold. */
void kvc_verify_compare_lists(struct kvc_verify *v, const struct kvc_twin_lists *lists);

typedef void kvc_verify_case_fn(struct kvc_verify *v);
struct kvc_verify_operation {
    const char *name;
    kvc_verify_case_fn *one_case;
    unsigned cases; /* number of cases at effort 1 */
    const char *of; /* the operation's name; cases of later features have a name of their own */
    enum kvc_further further;
};
/* Declares the test case of each operation in the list. KVC_CASE(name, cases) { ... v ... } defines a test case. */
#define KVC_BYTES(result, name, arguments) extern const struct kvc_verify_operation kvc_verify_##name;
#define KVC_OPERATION(name, parameters, ...) extern const struct kvc_verify_operation kvc_verify_##name;
#include "core/base/ops.def"
#define KVC_CASE(name, cases)                                                                                          \
    static void name##_case(struct kvc_verify *v);                                                                     \
    const struct kvc_verify_operation kvc_verify_##name = {#name, name##_case, cases, #name, KVC_FURTHER_NOT};         \
    static void name##_case(struct kvc_verify *v)
/* Cases of a later feature, "name+what", which run with v->further. */
#define KVC_FURTHER(name, what) extern const struct kvc_verify_operation kvc_verify_##name##_##what;
#include "core/base/ops.def"
#define KVC_FURTHER_CASES(name, what, cases)                                                                           \
    const struct kvc_verify_operation kvc_verify_##name##_##what = {#name "+" #what, name##_case, cases, #name,        \
                                                                    KVC_FURTHER_##what};

/* Makes one operation a mutant (verify_inject.c): its results get a wrong bit, entry or count that is always safe to
 * use. `memory` also allows mutants of the operations that move bytes. Such mutants break a complete run, so only test
 * cases use them. kvc_inject_end, or closing the device, restores the operations. */
enum kvc_status kvc_inject(struct kvc_device *device, const char *operation, bool memory, struct kvc_error *error);
void kvc_inject_end(struct kvc_device *device);

#endif

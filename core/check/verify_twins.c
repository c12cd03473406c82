/* verify_twins.c - shared by the test cases of all operations: synthetic values on both devices, and bitwise comparison
 * of results. */
#include "core/base/integers.h"
#include "core/check/verify.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- comparison; without a reference, the results are only hashed ---- */

static void differ(struct kvc_verify *v, const char *what, size_t i, uint32_t ref, uint32_t other) {
    if (v->row.differing++ == 0)
        snprintf(v->row.first, sizeof v->row.first, "%s: %s[%zu] is %08" PRIx32 ", ref has %08" PRIx32, v->shape, what,
                 i, other, ref);
    for (uint32_t bits = ref ^ other; bits; bits &= bits - 1)
        v->row.differing_bits++;
}

void kvc_verify_compare_host(struct kvc_verify *v, const float *ref, const float *other, size_t n, const char *what) {
    for (size_t i = 0; v->first == 0 && i < n; i++)
        if (kvc_hash_bits(ref[i]) != kvc_hash_bits(other[i]))
            differ(v, what, i, kvc_hash_bits(ref[i]), kvc_hash_bits(other[i]));
    v->row.values += n;
    kvc_hash_add(v->hash, other, n);
}

void kvc_verify_compare_number(struct kvc_verify *v, const uint64_t number[2], const char *what) {
    const float halves[2] = {(float)(uint32_t)(number[1] >> 24), (float)(uint32_t)(number[1] & 0xffffffu)};
    if (v->status != KVC_OK)
        return;
    if (v->first == 0 && number[0] != number[1])
        differ(v, what, 0, (uint32_t)number[0], (uint32_t)number[1]);
    v->row.values++;
    kvc_hash_add(v->hash, halves, 2);
}

/* Returns n words of one side. Returns NULL if this side does not exist or memory is lacking. */
static void *download(struct kvc_verify *v, struct kvc_twin twin, int side, size_t offset, size_t n) {
    void *host = side >= v->first && v->status == KVC_OK ? kvc_verify_alloc(v, n * 4) : NULL;
    struct kvc_span span = {twin.buffer[side], offset * 4};
    if (host && n > 0)
        v->device[side]->ops->download(v->device[side], host, span, n * 4);
    return host;
}

void kvc_verify_compare(struct kvc_verify *v, struct kvc_twin twin, size_t offset, size_t n, const char *what) {
    size_t held = v->held_count;
    const float *ref = download(v, twin, 0, offset, n), *other = download(v, twin, 1, offset, n);
    if (v->status == KVC_OK)
        kvc_verify_compare_host(v, ref, other, n, what);
    kvc_verify_release(v, held);
}

void kvc_verify_compare_words(struct kvc_verify *v, struct kvc_twin twin, size_t offset, size_t n, const char *what) {
    size_t held = v->held_count;
    const uint32_t *ref = download(v, twin, 0, offset, n), *other = download(v, twin, 1, offset, n);
    for (size_t i = 0; v->status == KVC_OK && i < n; i++) {
        const float value = (float)other[i]; /* correct values are below 2^24, so floats distinguish them */
        if (ref && ref[i] != other[i])
            differ(v, what, i, ref[i], other[i]);
        kvc_hash_add(v->hash, &value, 1);
    }
    if (v->status == KVC_OK)
        v->row.values += n;
    kvc_verify_release(v, held);
}

uint32_t *kvc_verify_counts(struct kvc_verify *v, struct kvc_twin counts, uint32_t heads) {
    return download(v, counts, v->first, 0, heads);
}

void kvc_verify_compare_reads(struct kvc_verify *v, struct kvc_twin counts, struct kvc_twin indices, uint32_t heads,
                              uint32_t stride) {
    const uint32_t *count = kvc_verify_counts(v, counts, heads);
    kvc_verify_compare_words(v, counts, 0, heads, "count");
    /* without a reference, no comparison has checked the counts, so they may exceed the stride */
    for (uint32_t h = 0; v->status == KVC_OK && h < heads; h++)
        kvc_verify_compare_words(v, indices, (size_t)h * stride, kvc_min_u32(count[h], stride), "index");
}

/* ---- synthetic inputs ---- */

void *kvc_verify_alloc(struct kvc_verify *v, size_t bytes) {
    void *memory = v->held_count < sizeof v->held / sizeof v->held[0] ? calloc(1, bytes ? bytes : 1) : NULL;
    if (!memory) {
        v->status = kvc_fail(&v->error, KVC_RESOURCE, "verify: no memory for %zu bytes", bytes);
        return NULL;
    }
    v->held[v->held_count++] = memory;
    return memory;
}

void kvc_verify_release(struct kvc_verify *v, size_t held) {
    while (v->held_count > held)
        free(v->held[--v->held_count]);
}

enum kvc_flavour kvc_verify_flavour(struct kvc_verify *v) {
    uint32_t i = kvc_verify_range(v, 0, 2 * KVC_FLAVOURS - 1);
    return i < KVC_FLAVOURS ? (enum kvc_flavour)i : KVC_PLAIN;
}

static float plain_value(uint32_t bits) { /* either sign, 2^-5 to 4 */
    return kvc_from_bits((bits & 0x807fffffu) | (122u + (bits >> 23) % 7) << 23);
}

static float one_value(struct kvc_verify *v, enum kvc_flavour flavour, uint32_t rarity) {
    static const float ties[] = {-1.0f, -0.5f, -0.0f, 0.0f, 0.5f, 1.0f, 2.0f};
    static const kvc_u32 wild[] = {0x7fc00000u, 0x7f800000u, 0xff800000u, 0x7f7fffffu, 0xff7fffffu, 0x00000001u,
                                   0x807fffffu, 0x80000000u, 0x00000000u, 0x00800000u, 0x477ff000u, 0xc77fefffu};
    uint32_t bits = kvc_verify_draw(v);
    switch (flavour) {
    case KVC_TIES:
        return kvc_verify_pick(v, ties);
    case KVC_TINY:
        return bits % 8 == 0 ? ties[2 + (bits >> 8) % 2]
                             : kvc_from_bits((bits & 0x807fffffu) | ((bits >> 23) % 8) << 23);
    case KVC_HUGE:
        return kvc_from_bits((bits & 0x807fffffu) | (180u + (bits >> 23) % 75) << 23);
    case KVC_WILD:
        if (kvc_verify_range(v, 0, rarity) == 0)
            return kvc_from_bits(kvc_verify_pick(v, wild));
        return plain_value(bits);
    case KVC_PLAIN:
    case KVC_FLAVOURS:
        break;
    }
    return plain_value(bits);
}

float *kvc_verify_values(struct kvc_verify *v, size_t n, enum kvc_flavour flavour) {
    float *values = kvc_verify_alloc(v, n * sizeof *values);
    uint32_t rarity = 8u << kvc_verify_range(v, 0, 3) * 3; /* 8, 64, 512, 4096 */
    if (!values)
        return NULL;
    if (flavour == KVC_PLAIN) /* most values are plain; this loop is three times as fast as the next one */
        for (size_t i = 0; i < n; i++)
            values[i] = plain_value(kvc_verify_draw(v));
    else
        for (size_t i = 0; i < n; i++)
            values[i] = one_value(v, flavour, rarity);
    return values;
}

struct kvc_twin kvc_verify_twin(struct kvc_verify *v, size_t bytes, const void *contents) {
    struct kvc_twin twin = {{NULL, NULL}};
    if (v->buffer_count >= sizeof v->buffers / sizeof v->buffers[0])
        v->status = kvc_fail(&v->error, KVC_RESOURCE, "verify: a case has too many buffers");
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++) {
        struct kvc_device *device = v->device[side];
        v->status = device->ops->buffer_create(device, KVC_MEMORY_SCRATCH, bytes, &twin.buffer[side], &v->error);
        if (v->status == KVC_OK && contents)
            device->ops->upload(device, (struct kvc_span){twin.buffer[side], 0}, contents, bytes);
    }
    if (v->buffer_count < sizeof v->buffers / sizeof v->buffers[0])
        memcpy(v->buffers[v->buffer_count++], twin.buffer, sizeof twin.buffer);
    return twin;
}

struct kvc_twin kvc_verify_output(struct kvc_verify *v, size_t bytes) {
    static const unsigned char pattern[2] = {0x5a, 0xa5};
    const size_t held = v->held_count;
    const struct kvc_twin twin = kvc_verify_twin(v, bytes, NULL);
    void *contents = v->status == KVC_OK && bytes > 0 ? kvc_verify_alloc(v, bytes) : NULL;
    for (int side = v->first; contents && side < 2; side++) {
        memset(contents, pattern[side], bytes);
        v->device[side]->ops->upload(v->device[side], (struct kvc_span){twin.buffer[side], 0}, contents, bytes);
    }
    kvc_verify_release(v, held);
    return twin;
}

struct kvc_twin kvc_verify_twin_values(struct kvc_verify *v, size_t n, enum kvc_flavour flavour) {
    const float *values = kvc_verify_values(v, n, flavour);
    return kvc_verify_twin(v, n * sizeof *values, values);
}

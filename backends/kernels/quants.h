/* quants.h - weights as integers, 16 at a time in words of four signed bytes, and their products with 8-bit
 * activations. */

/* Looks up four bytes, each below 16, in the table of kvc_e2m1_twice. */
KVC_DEVICE kvc_u32 kvc_word_e2m1(kvc_u32 index) {
    kvc_u32 word = 0;
    for (kvc_u32 i = 0; i < 32; i += 8)
        word |= ((kvc_u32)kvc_e2m1_twice((int)(index >> i & 15u)) & 255u) << i;
    return word;
}

/* Quants e .. e + 3 of block *b, as a word. */
#define KVC_NIBBLES(b, e) (kvc_load_word((b)->q + (e) % 16) >> (e) / 16 * 4 & 0x0f0f0f0fu)
#define KVC_FIFTHS(b, e) (kvc_word_of_bits((kvc_u32)(b)->high[(e) / 8] >> (e) % 8 & 15u) << 4)
#define KVC_WORD_Q8_0(b, e) kvc_load_word((kvc_bytes)(b)->q + (e))
#define KVC_WORD_Q4_0(b, e) kvc_word_less(KVC_NIBBLES(b, e), 8)
#define KVC_WORD_Q4_1(b, e) KVC_NIBBLES(b, e)
#define KVC_WORD_Q5_0(b, e) kvc_word_less(KVC_NIBBLES(b, e) | KVC_FIFTHS(b, e), 16)
#define KVC_WORD_Q5_1(b, e) (KVC_NIBBLES(b, e) | KVC_FIFTHS(b, e))
#define KVC_WORD_IQ4_NL(b, e) kvc_word_iq4(KVC_NIBBLES(b, e))
#define KVC_WORD_MXFP4(b, e) kvc_word_e2m1(KVC_NIBBLES(b, e))
#define KVC_WORD_IQ4_XS(b, e)                                                                                          \
    kvc_word_iq4(kvc_load_word((b)->q + (e) / 32 * 16 + (e) % 16) >> (e) % 32 / 16 * 4 & 0x0f0f0f0fu)
#define KVC_PAIRS_OF_BITS(b, e) (kvc_load_word((b)->q + (e) / 128 * 32 + (e) % 32) >> (e) % 128 / 32 * 2 & 0x03030303u)
#define KVC_HIGH_BITS(b, e) (kvc_load_word((b)->high + (e) % 32) >> (e) / 32 & 0x01010101u)
#define KVC_WORD_Q2_K(b, e) KVC_PAIRS_OF_BITS(b, e)
#define KVC_WORD_Q3_K(b, e) kvc_word_less(KVC_PAIRS_OF_BITS(b, e) | KVC_HIGH_BITS(b, e) << 2, 4)
#define KVC_WORD_Q4_K(b, e) (kvc_load_word((b)->q + (e) / 64 * 32 + (e) % 32) >> (e) / 32 % 2 * 4 & 0x0f0f0f0fu)
#define KVC_WORD_Q5_K(b, e) (KVC_WORD_Q4_K(b, e) | KVC_HIGH_BITS(b, e) << 4)
#define KVC_WORD_Q6_K(b, e)                                                                                            \
    kvc_word_less((kvc_load_word((b)->low + (e) / 128 * 64 + (e) % 64) >> (e) % 128 / 64 * 4 & 0x0f0f0f0fu) |          \
                      (kvc_load_word((b)->high + (e) / 128 * 32 + (e) % 32) >> (e) % 128 / 32 * 2 & 0x03030303u) << 4, \
                  32)

/* The words of half a block of 32 quants. */
struct kvc_half {
    kvc_u32 word[4];
};
KVC_DEVICE struct kvc_half kvc_half_load(KVC_GLOBAL const kvc_u32 *from) {
    struct kvc_half h;
#if KVC_WORKERS == 4
    if (KVC_ALIGNED(from, 16)) {
        const uint4 v = *(KVC_GLOBAL const uint4 *)from;
        h.word[0] = v.x;
        h.word[1] = v.y;
        h.word[2] = v.z;
        h.word[3] = v.w;
        return h;
    }
#endif
    for (int i = 0; i < 4; i++)
        h.word[i] = from[i];
    return h;
}

/* Returns sum plus the products of four signed bytes. */
#if defined(KVC_EMULATED_DOT) && !defined(cl_khr_integer_dot_product) /* for tests: an emulation of the extension */
#define cl_khr_integer_dot_product 1
#define __opencl_c_integer_dot_product_input_4x8bit_packed 1
static inline int dot_4x8packed_ss_int(uint a, uint b) {
    const int4 products = convert_int4(as_char4(a)) * convert_int4(as_char4(b));
    return products.s0 + products.s1 + products.s2 + products.s3;
}
#endif
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 610
KVC_DEVICE kvc_i32 kvc_dot4(kvc_u32 a, kvc_u32 b, kvc_i32 sum) { return __dp4a((int)a, (int)b, sum); }
#elif defined(cl_khr_integer_dot_product) && defined(__opencl_c_integer_dot_product_input_4x8bit_packed)
KVC_DEVICE kvc_i32 kvc_dot4(kvc_u32 a, kvc_u32 b, kvc_i32 sum) { return sum + dot_4x8packed_ss_int(a, b); }
#else
KVC_DEVICE kvc_i32 kvc_dot4(kvc_u32 a, kvc_u32 b, kvc_i32 sum) {
    for (kvc_u32 i = 0; i < 32; i += 8)
        sum += (kvc_i32)(kvc_i8)(a >> i & 255u) * (kvc_i32)(kvc_i8)(b >> i & 255u);
    return sum;
}
#endif

/* Return the sum of the products of two halves of a block, or of two pairs of halves. */
#if KVC_WORKERS == 1 && !defined(KVC_BY_ELEMENT) && !defined(cl_khr_integer_dot_product)
KVC_DEVICE short16 kvc_half_products(struct kvc_half a, struct kvc_half b) { /* each product is at most 128 * 127 */
    return convert_short16(as_char16((uint4)(a.word[0], a.word[1], a.word[2], a.word[3]))) *
           convert_short16(as_char16((uint4)(b.word[0], b.word[1], b.word[2], b.word[3])));
}
KVC_DEVICE kvc_i32 kvc_products_sum(short16 products) {
    const int16 all = convert_int16(products);
    const int8 eight = all.lo + all.hi;
    const int4 four = eight.lo + eight.hi;
    return four.s0 + four.s1 + four.s2 + four.s3;
}
KVC_DEVICE kvc_i32 kvc_half_dot(struct kvc_half a, struct kvc_half b) {
    return kvc_products_sum(kvc_half_products(a, b));
}
KVC_DEVICE kvc_i32 kvc_block_dot(struct kvc_half a0, struct kvc_half b0, struct kvc_half a1, struct kvc_half b1) {
    return kvc_products_sum(kvc_half_products(a0, b0) + kvc_half_products(a1, b1));
}
#else
KVC_DEVICE kvc_i32 kvc_half_dot(struct kvc_half a, struct kvc_half b) {
    kvc_i32 sum = 0;
    for (int i = 0; i < 4; i++)
        sum = kvc_dot4(a.word[i], b.word[i], sum);
    return sum;
}
KVC_DEVICE kvc_i32 kvc_block_dot(struct kvc_half a0, struct kvc_half b0, struct kvc_half a1, struct kvc_half b1) {
    return kvc_half_dot(a0, b0) + kvc_half_dot(a1, b1);
}
#endif

/* Half h of block b of a row of weights, with the half's scale and minimum. If 32 quants share a scale, both halves
 * have the same scale and minimum. */
struct kvc_half_weights {
    struct kvc_half half_block;
    float scale, minimum;
};
#define KVC_PIECE_OF(a, NAME, name, gguf, elements, bytes, at, scales, wide, holds)                                    \
    KVC_DEVICE struct kvc_half_weights kvc_half_weights_##name(kvc_bytes row, kvc_u64 b, kvc_u32 h) {                  \
        KVC_GLOBAL const struct kvc_block_##name *from =                                                               \
            (KVC_GLOBAL const struct kvc_block_##name *)row + b * 32 / (elements);                                     \
        const kvc_u32 e = (kvc_u32)(b * 32 % (elements)) + h * 16, s = e / KVC_INT8_WIDTH_##NAME;                      \
        struct kvc_half_weights p;                                                                                     \
        for (kvc_u32 i = 0; i < 4; i++)                                                                                \
            p.half_block.word[i] = KVC_WORD_##NAME(from, e + 4 * i);                                                   \
        p.scale = KVC_INT8_SCALE_##NAME(*from, s);                                                                     \
        p.minimum = KVC_INT8_MIN_##NAME(*from, s);                                                                     \
        (void)s;                                                                                                       \
        return p;                                                                                                      \
    }
KVC_BLOCK_TYPES(KVC_PIECE_OF, )

#define KVC_PIECE_CASE(a, NAME, name, gguf, elements, bytes, at, scales, wide, holds)                                  \
    case KVC_K_##NAME:                                                                                                 \
        return kvc_half_weights_##name(row, b, h);
KVC_DEVICE struct kvc_half_weights kvc_half_weights_of(kvc_u32 type, kvc_bytes row, kvc_u64 b, kvc_u32 h) {
    struct kvc_half_weights none;
    switch (type) { KVC_BLOCK_TYPES(KVC_PIECE_CASE, ) }
    for (int i = 0; i < 4; i++)
        none.half_block.word[i] = 0;
    none.scale = none.minimum = kvc_nan();
    return none;
}
#define KVC_NARROW_CASE(a, NAME, name, gguf, elements, bytes, at, scales, wide, holds)                                 \
    case KVC_K_##NAME:                                                                                                 \
        return KVC_INT8_WIDTH_##NAME == 16;
KVC_DEVICE bool kvc_int8_narrow(kvc_u32 type) { /* true if 16 quants share a scale */
    switch (type) { KVC_BLOCK_TYPES(KVC_NARROW_CASE, ) }
    return false;
}
#define KVC_MINIMUM_CASE(a, NAME, name, gguf, elements, bytes, at, scales, wide, holds)                                \
    case KVC_K_##NAME:                                                                                                 \
        return KVC_INT8_HAS_MIN_##NAME;
KVC_DEVICE bool kvc_int8_has_minimum(kvc_u32 type) {
    switch (type) { KVC_BLOCK_TYPES(KVC_MINIMUM_CASE, ) }
    return false;
}

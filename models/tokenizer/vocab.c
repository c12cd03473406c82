/* vocab.c - the pieces of a vocabulary, the hash tables of spellings and merges, growing buffers. */
#include "models/tokenizer/parts.h"

#include "core/base/assert.h"

#include <stdlib.h>
#include <string.h>

enum kvc_status kvc_no_memory(struct kvc_error *error) {
    return kvc_fail(error, KVC_RESOURCE, "tokenizer: out of memory");
}

bool kvc_grow(void **array, size_t *capacity, size_t count, size_t size) {
    if (count < *capacity)
        return true;
    if (*capacity > SIZE_MAX / 2 / size - 8)
        return false;
    size_t next = *capacity * 2 + 8;
    KVC_ASSERT(next > *capacity);
    void *grown = realloc(*array, next * size);
    if (!grown)
        return false;
    *array = grown;
    *capacity = next;
    return true;
}

bool kvc_text_add(struct kvc_text *buffer, const char *data, size_t bytes) {
    if (bytes > SIZE_MAX / 4 || buffer->bytes > SIZE_MAX / 4)
        return false;
    if (buffer->bytes + bytes > buffer->capacity || !buffer->data) {
        size_t capacity = (buffer->bytes + bytes) + (buffer->bytes + bytes) / 2 + 64;
        char *grown = realloc(buffer->data, capacity);
        if (!grown)
            return false;
        buffer->data = grown;
        buffer->capacity = capacity;
    }
    if (bytes)
        memcpy(buffer->data + buffer->bytes, data, bytes);
    buffer->bytes += bytes;
    KVC_ASSERT(buffer->bytes <= buffer->capacity);
    return true;
}

void kvc_text_free(struct kvc_text *buffer) {
    free(buffer->data);
    *buffer = (struct kvc_text){0};
}

bool kvc_id_list_add(struct kvc_id_list *list, int32_t id) {
    void *ids = list->ids;
    if (!kvc_grow(&ids, &list->capacity, list->count, sizeof *list->ids))
        return false;
    list->ids = ids;
    list->ids[list->count++] = id;
    return true;
}

static uint64_t mix(uint64_t h) {
    h ^= h >> 32;
    h *= 0x9e3779b97f4a7c15u;
    h ^= h >> 29;
    return h;
}

static uint64_t hash_text(const char *text, size_t bytes) {
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < bytes; i++)
        h = (h ^ (unsigned char)text[i]) * 0x100000001b3u;
    return mix(h);
}

/* Returns the smallest power of two that leaves at least half the cells free. Returns 0 if there are too many. */
static size_t table_size(size_t count) {
    size_t size = 16;
    while (size / 2 < count) {
        if (size > SIZE_MAX / 64)
            return 0;
        size *= 2;
    }
    return size;
}

enum kvc_status kvc_vocab_open(size_t count, struct kvc_tokenizer **tokenizer, struct kvc_error *error) {
    struct kvc_tokenizer *made = calloc(1, sizeof *made);
    if (!made)
        return kvc_no_memory(error);
    made->pieces = calloc(count ? count : 1, sizeof *made->pieces);
    made->count = count;
    made->unknown = made->bos = made->eos = -1;
    for (int i = 0; i < 256; i++)
        made->byte_ids[i] = -1;
    if (!made->pieces || !kvc_text_add(&made->store, "", 0)) {
        kvc_tokenizer_close(made);
        return kvc_no_memory(error);
    }
    *tokenizer = made;
    return KVC_OK;
}

bool kvc_vocab_set(struct kvc_tokenizer *tokenizer, int32_t id, const char *spelling, size_t bytes,
                   enum kvc_token_kind kind) {
    KVC_ASSERT(id >= 0 && (size_t)id < tokenizer->count);
    struct kvc_vocab_entry *piece = &tokenizer->pieces[id];
    if (bytes > UINT32_MAX / 4)
        return false;
    piece->spelling = tokenizer->store.bytes;
    piece->spelling_bytes = (uint32_t)bytes;
    piece->kind = (uint8_t)kind;
    return kvc_text_add(&tokenizer->store, spelling, bytes);
}

bool kvc_vocab_reserve(struct kvc_tokenizer *tokenizer, size_t count) {
    size_t size = table_size(count);
    int32_t *table = size ? malloc(size * sizeof *table) : NULL;
    if (!table)
        return false;
    for (size_t i = 0; i < size; i++)
        table[i] = -1;
    free(tokenizer->lookup);
    tokenizer->lookup = table;
    tokenizer->lookup_size = size;
    return true;
}

/* Returns the cell of the spelling, or the empty cell for it. */
static size_t lookup_place(const struct kvc_tokenizer *tokenizer, const char *text, size_t bytes) {
    size_t at = (size_t)hash_text(text, bytes) & (tokenizer->lookup_size - 1);
    KVC_ASSERT(tokenizer->lookup_size > 0 && (tokenizer->lookup_size & (tokenizer->lookup_size - 1)) == 0);
    for (;; at = (at + 1) & (tokenizer->lookup_size - 1)) {
        int32_t id = tokenizer->lookup[at];
        if (id < 0)
            return at;
        const struct kvc_vocab_entry *piece = &tokenizer->pieces[id];
        if (piece->spelling_bytes == bytes && !memcmp(tokenizer->store.data + piece->spelling, text, bytes))
            return at;
    }
}

void kvc_vocab_insert(struct kvc_tokenizer *tokenizer, int32_t id) {
    const struct kvc_vocab_entry *piece = &tokenizer->pieces[id];
    size_t at = lookup_place(tokenizer, tokenizer->store.data + piece->spelling, piece->spelling_bytes);
    KVC_ASSERT(piece->spelling + (size_t)piece->spelling_bytes <= tokenizer->store.bytes);
    if (tokenizer->lookup[at] < 0)
        tokenizer->lookup[at] = id;
    if (piece->spelling_bytes > tokenizer->longest)
        tokenizer->longest = piece->spelling_bytes;
}

int32_t kvc_vocab_find(const struct kvc_tokenizer *tokenizer, const char *text, size_t bytes) {
    if (!tokenizer->lookup || bytes > tokenizer->longest)
        return -1;
    return tokenizer->lookup[lookup_place(tokenizer, text, bytes)];
}

int32_t kvc_vocab_search(const struct kvc_tokenizer *tokenizer, const char *text, size_t bytes) {
    for (size_t i = 0; i < tokenizer->count; i++) {
        const struct kvc_vocab_entry *piece = &tokenizer->pieces[i];
        if (piece->kind != KVC_TOKEN_ABSENT && piece->spelling_bytes == bytes &&
            !memcmp(tokenizer->store.data + piece->spelling, text, bytes))
            return (int32_t)i;
    }
    return -1;
}

bool kvc_merges_reserve(struct kvc_tokenizer *tokenizer, size_t count) {
    size_t size = table_size(count);
    struct kvc_merge *table = size ? malloc(size * sizeof *table) : NULL;
    if (!table)
        return false;
    for (size_t i = 0; i < size; i++)
        table[i].left = -1;
    free(tokenizer->merges);
    tokenizer->merges = table;
    tokenizer->merges_size = size;
    return true;
}

static size_t merge_place(const struct kvc_tokenizer *tokenizer, int32_t left, int32_t right) {
    size_t at = (size_t)mix((uint64_t)(uint32_t)left << 32 | (uint32_t)right) & (tokenizer->merges_size - 1);
    for (;; at = (at + 1) & (tokenizer->merges_size - 1)) {
        const struct kvc_merge *merge = &tokenizer->merges[at];
        if (merge->left < 0 || (merge->left == left && merge->right == right))
            return at;
    }
}

const struct kvc_merge *kvc_merges_find(const struct kvc_tokenizer *tokenizer, int32_t left, int32_t right) {
    if (!tokenizer->merges || left < 0 || right < 0)
        return NULL;
    const struct kvc_merge *merge = &tokenizer->merges[merge_place(tokenizer, left, right)];
    return merge->left < 0 ? NULL : merge;
}

enum kvc_status kvc_merges_insert(struct kvc_tokenizer *tokenizer, const char *left, size_t left_bytes,
                                  const char *right, size_t right_bytes, uint32_t priority, const char *where,
                                  struct kvc_error *error) {
    struct kvc_merge merge = {.left = kvc_vocab_find(tokenizer, left, left_bytes),
                              .right = kvc_vocab_find(tokenizer, right, right_bytes),
                              .made = -1,
                              .priority = priority};
    struct kvc_text joined = {0};
    if (!kvc_text_add(&joined, left, left_bytes) || !kvc_text_add(&joined, right, right_bytes)) {
        kvc_text_free(&joined);
        return kvc_no_memory(error);
    }
    merge.made = kvc_vocab_find(tokenizer, joined.data, joined.bytes);
    kvc_text_free(&joined);
    if (merge.left < 0 || merge.right < 0 || merge.made < 0)
        return kvc_fail(error, KVC_INPUT, "%s: merge %u names a piece that the vocabulary does not have", where,
                        priority);
    tokenizer->merges[merge_place(tokenizer, merge.left, merge.right)] = merge;
    return KVC_OK;
}

int kvc_byte_piece(const char *text, size_t bytes) {
    if (bytes != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>')
        return -1;
    int value = 0;
    for (int i = 3; i < 5; i++) {
        char c = text[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                           : -1;
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

/* Converts a byte-level spelling back to bytes. Sets *all to false if a character stands for no byte. */
static bool spell_bytes(struct kvc_text *out, const char *spelling, size_t bytes, bool *all) {
    *all = true;
    for (size_t at = 0; at < bytes;) {
        uint32_t code;
        at += kvc_utf8_next(spelling + at, bytes - at, &code);
        int byte = code == KVC_NOT_UTF8 ? -1 : kvc_char_to_byte(code);
        if (byte < 0) {
            *all = false;
            return true;
        }
        char c = (char)(unsigned char)byte;
        if (!kvc_text_add(out, &c, 1))
            return false;
    }
    return true;
}

static bool spell_replaced(struct kvc_text *out, const char *spelling, size_t bytes, const char *from, const char *to) {
    size_t from_bytes = strlen(from), to_bytes = strlen(to);
    for (size_t at = 0; at < bytes;) {
        bool here = bytes - at >= from_bytes && !memcmp(spelling + at, from, from_bytes);
        if (!kvc_text_add(out, here ? to : spelling + at, here ? to_bytes : 1))
            return false;
        at += here ? from_bytes : 1;
    }
    return true;
}

static bool decode_piece(const struct kvc_tokenizer *tokenizer, const struct kvc_vocab_entry *piece,
                         struct kvc_text *out) {
    const struct kvc_decoder *decoder = &tokenizer->decoder;
    const char *spelling = tokenizer->store.data + piece->spelling;
    size_t bytes = piece->spelling_bytes;
    out->bytes = 0;
    int byte = kvc_byte_piece(spelling, bytes);
    if (byte >= 0 && (decoder->byte_fallback || piece->kind == KVC_TOKEN_BYTE)) {
        char c = (char)(unsigned char)byte;
        return kvc_text_add(out, &c, 1);
    }
    if (decoder->byte_level) {
        bool all;
        if (!spell_bytes(out, spelling, bytes, &all))
            return false;
        if (all)
            return true;
        out->bytes = 0;
    } else if (decoder->replace[0]) {
        return spell_replaced(out, spelling, bytes, decoder->replace[0], decoder->replace[1]);
    }
    return kvc_text_add(out, spelling, bytes);
}

enum kvc_status kvc_vocab_finish(struct kvc_tokenizer *tokenizer, struct kvc_error *error) {
    struct kvc_text text = {0};
    for (size_t i = 0; i < tokenizer->count; i++) {
        struct kvc_vocab_entry *piece = &tokenizer->pieces[i];
        if (piece->kind == KVC_TOKEN_ABSENT)
            continue;
        if (!decode_piece(tokenizer, piece, &text)) {
            kvc_text_free(&text);
            return kvc_no_memory(error);
        }
        piece->text_bytes = (uint32_t)text.bytes;
        if (text.bytes == piece->spelling_bytes &&
            (!text.bytes || !memcmp(text.data, tokenizer->store.data + piece->spelling, text.bytes))) {
            piece->text = piece->spelling;
        } else {
            piece->text = tokenizer->store.bytes;
            if (!kvc_text_add(&tokenizer->store, text.data, text.bytes)) {
                kvc_text_free(&text);
                return kvc_no_memory(error);
            }
        }
        const char *spelling = tokenizer->store.data + piece->spelling;
        int byte = kvc_byte_piece(spelling, piece->spelling_bytes);
        if (byte >= 0 && tokenizer->byte_ids[byte] < 0 && (tokenizer->byte_fallback || piece->kind == KVC_TOKEN_BYTE))
            tokenizer->byte_ids[byte] = (int32_t)i;
    }
    kvc_text_free(&text);
    return KVC_OK;
}

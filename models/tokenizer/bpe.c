/* bpe.c - converts one word to token ids by byte-pair merges, ordered by priority or score. Uses a heap over a linked
 * list. */
#include "models/tokenizer/parts.h"

#include "core/base/assert.h"

#include <stdlib.h>
#include <string.h>

struct symbol {
    int32_t id;           /* -1: no piece has this spelling */
    int32_t before, next; /* -1: none */
    uint32_t at, bytes;   /* position in the word; bytes 0: merged into another symbol */
};

struct candidate { /* a pair that may merge: `left` and its successor */
    double order;  /* lowest first: the merge priority, or the negated score */
    int32_t left, made;
    uint32_t bytes;
};

struct kvc_bpe {
    struct symbol *symbols;
    size_t count, capacity;
    struct candidate *heap;
    size_t heap_count, heap_capacity;
};

struct kvc_bpe *kvc_bpe_open(void) {
    return calloc(1, sizeof(struct kvc_bpe));
}

void kvc_bpe_close(struct kvc_bpe *scratch) {
    if (scratch) {
        free(scratch->symbols);
        free(scratch->heap);
        free(scratch);
    }
}

static bool before(const struct candidate *a, const struct candidate *b) {
    return a->order < b->order || (a->order == b->order && a->left < b->left);
}

static bool push(struct kvc_bpe *scratch, struct candidate candidate) {
    void *heap = scratch->heap;
    if (!kvc_grow(&heap, &scratch->heap_capacity, scratch->heap_count, sizeof *scratch->heap))
        return false;
    scratch->heap = heap;
    size_t at = scratch->heap_count++;
    while (at > 0 && before(&candidate, &scratch->heap[(at - 1) / 2])) {
        scratch->heap[at] = scratch->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    scratch->heap[at] = candidate;
    KVC_ASSERT(at == 0 || !before(&candidate, &scratch->heap[(at - 1) / 2])); /* a parent comes before its children */
    return true;
}

static struct candidate pop(struct kvc_bpe *scratch) {
    KVC_ASSERT(scratch->heap_count > 0);
    struct candidate top = scratch->heap[0], last = scratch->heap[--scratch->heap_count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= scratch->heap_count)
            break;
        if (child + 1 < scratch->heap_count && before(&scratch->heap[child + 1], &scratch->heap[child]))
            child++;
        if (!before(&scratch->heap[child], &last))
            break;
        scratch->heap[at] = scratch->heap[child];
        at = child;
    }
    scratch->heap[at] = last;
    return top;
}

/* Finds the piece that `left` and its successor merge into. Returns false if there is none. */
static bool pair(const struct kvc_tokenizer *tokenizer, const struct kvc_bpe *scratch, const char *word, int32_t left,
                 struct candidate *candidate) {
    if (left < 0 || scratch->symbols[left].next < 0)
        return false;
    const struct symbol *a = &scratch->symbols[left], *b = &scratch->symbols[a->next];
    KVC_ASSERT((size_t)a->next < scratch->count && b->bytes > 0);
    *candidate = (struct candidate){.left = left, .bytes = a->bytes + b->bytes};
    if (tokenizer->model == KVC_VOCAB_RANKS) {
        const struct kvc_merge *merge = kvc_merges_find(tokenizer, a->id, b->id);
        if (!merge)
            return false;
        candidate->order = merge->priority;
        candidate->made = merge->made;
        return true;
    }
    candidate->made = kvc_vocab_find(tokenizer, word + a->at, candidate->bytes);
    if (candidate->made < 0)
        return false;
    candidate->order = -(double)tokenizer->pieces[candidate->made].score;
    KVC_ASSERT((size_t)candidate->made < tokenizer->count);
    return true;
}

static bool merge_all(const struct kvc_tokenizer *tokenizer, struct kvc_bpe *scratch, const char *word) {
    struct candidate candidate;
    scratch->heap_count = 0;
    for (size_t i = 0; i < scratch->count; i++)
        if (pair(tokenizer, scratch, word, (int32_t)i, &candidate) && !push(scratch, candidate))
            return false;
    while (scratch->heap_count) {
        struct candidate top = pop(scratch);
        struct symbol *left = &scratch->symbols[top.left];
        /* An entry is stale if one of its symbols has merged with another one since. */
        if (!left->bytes || !pair(tokenizer, scratch, word, top.left, &candidate) || candidate.made != top.made ||
            candidate.bytes != top.bytes)
            continue;
        struct symbol *right = &scratch->symbols[left->next];
        KVC_ASSERT(right->before == top.left && right->at >= left->at + left->bytes && right->bytes > 0);
        left->id = top.made;
        left->bytes = top.bytes;
        right->bytes = 0;
        left->next = right->next;
        if (left->next >= 0)
            scratch->symbols[left->next].before = top.left;
        if (pair(tokenizer, scratch, word, left->before, &candidate) && !push(scratch, candidate))
            return false;
        if (pair(tokenizer, scratch, word, top.left, &candidate) && !push(scratch, candidate))
            return false;
    }
    return true;
}

static bool add_symbol(struct kvc_bpe *scratch, int32_t id, size_t at, size_t bytes) {
    void *symbols = scratch->symbols;
    if (!kvc_grow(&symbols, &scratch->capacity, scratch->count, sizeof *scratch->symbols))
        return false;
    scratch->symbols = symbols;
    int32_t here = (int32_t)scratch->count;
    KVC_ASSERT(bytes > 0 && here >= 0);
    if (here > 0)
        scratch->symbols[here - 1].next = here;
    scratch->symbols[scratch->count++] =
        (struct symbol){.id = id, .before = here - 1, .next = -1, .at = (uint32_t)at, .bytes = (uint32_t)bytes};
    return true;
}

static bool bytes_known(const struct kvc_tokenizer *tokenizer, const char *text, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        if (tokenizer->byte_ids[(unsigned char)text[i]] < 0)
            return false;
    return true;
}

static enum kvc_status no_piece(const char *text, size_t bytes, struct kvc_error *error) {
    char hex[3 * 16 + 1] = "";
    for (size_t i = 0; i < bytes && i < 16; i++)
        for (int k = 0; k < 2; k++)
            hex[3 * i + (size_t)k] = "0123456789abcdef"[((unsigned char)text[i] >> (k ? 0 : 4)) & 15],
                        hex[3 * i + 2] = ' ';
    return kvc_fail(error, KVC_INPUT, "tokenizer: the vocabulary has no piece for the bytes %s%sand no unknown token",
                    hex, bytes > 16 ? "... " : "");
}

/* Splits the word into its first symbols: a piece for each character, else its byte pieces, else the unknown token.
 * Consecutive unknown characters share a token if fuse_unknown is set. */
static enum kvc_status first_symbols(const struct kvc_tokenizer *tokenizer, struct kvc_bpe *scratch, const char *word,
                                     size_t bytes, struct kvc_error *error) {
    bool after_unknown = false;
    scratch->count = 0;
    for (size_t at = 0, length; at < bytes; at += length) {
        uint32_t code;
        length = kvc_utf8_next(word + at, bytes - at, &code);
        int32_t id = kvc_vocab_find(tokenizer, word + at, length);
        bool fits = true;
        if (id >= 0 || tokenizer->model == KVC_VOCAB_SCORES) { /* with scores, unknown characters may still merge */
            fits = add_symbol(scratch, id, at, length);
            after_unknown = false;
        } else if (tokenizer->byte_fallback && bytes_known(tokenizer, word + at, length)) {
            for (size_t i = 0; i < length && fits; i++)
                fits = add_symbol(scratch, tokenizer->byte_ids[(unsigned char)word[at + i]], at + i, 1);
            after_unknown = false;
        } else if (tokenizer->unknown >= 0) {
            if (after_unknown && tokenizer->fuse_unknown)
                scratch->symbols[scratch->count - 1].bytes += (uint32_t)length;
            else
                fits = add_symbol(scratch, tokenizer->unknown, at, length);
            after_unknown = true;
        } /* A character without piece, byte pieces or unknown token is dropped, as in the tokenizers library. */
        if (!fits)
            return kvc_no_memory(error);
    }
    return KVC_OK;
}

/* Adds a character that no piece covers: its byte pieces, or the unknown token. Consecutive unknown characters share a
 * token if fuse_unknown is set. */
static enum kvc_status add_bytes(const struct kvc_tokenizer *tokenizer, const char *text, size_t bytes, bool *unknown,
                                 struct kvc_id_list *out, struct kvc_error *error) {
    const bool known = bytes_known(tokenizer, text, bytes), fused = *unknown && tokenizer->fuse_unknown;
    if (!known && tokenizer->unknown < 0)
        return no_piece(text, bytes, error);
    *unknown = !known;
    if (!known && fused)
        return KVC_OK;
    for (size_t i = 0; i < (known ? bytes : 1); i++)
        if (!kvc_id_list_add(out, known ? tokenizer->byte_ids[(unsigned char)text[i]] : tokenizer->unknown))
            return kvc_no_memory(error);
    return KVC_OK;
}

enum kvc_status kvc_bpe_word(const struct kvc_tokenizer *tokenizer, struct kvc_bpe *scratch, const char *word,
                             size_t bytes, struct kvc_id_list *out, struct kvc_error *error) {
    if (bytes > INT32_MAX)
        return kvc_fail(error, KVC_INPUT, "tokenizer: a word of %zu bytes; at most %d are taken", bytes, INT32_MAX);
    if (tokenizer->model == KVC_VOCAB_WORDS || tokenizer->ignore_merges) {
        int32_t id = kvc_vocab_find(tokenizer, word, bytes);
        if (id >= 0 &&
            tokenizer->pieces[id].kind == KVC_TOKEN_CONTROL) /* control tokens are found only as added tokens */
            id = -1;
        if (id < 0 && tokenizer->model == KVC_VOCAB_WORDS) {
            if (tokenizer->unknown < 0)
                return no_piece(word, bytes, error);
            id = tokenizer->unknown;
        }
        if (id >= 0)
            return kvc_id_list_add(out, id) ? KVC_OK : kvc_no_memory(error);
    }
    enum kvc_status status = first_symbols(tokenizer, scratch, word, bytes, error);
    if (status != KVC_OK)
        return status;
    if (!merge_all(tokenizer, scratch, word))
        return kvc_no_memory(error);
    bool unknown = false; /* the previous symbol was unknown */
    for (int32_t i = scratch->count ? 0 : -1; i >= 0 && status == KVC_OK; i = scratch->symbols[i].next) {
        const struct symbol *symbol = &scratch->symbols[i];
        KVC_ASSERT(symbol->bytes > 0 && symbol->at + (size_t)symbol->bytes <= bytes);
        if (symbol->id < 0) {
            status = add_bytes(tokenizer, word + symbol->at, symbol->bytes, &unknown, out, error);
            continue;
        }
        unknown = false;
        if (!kvc_id_list_add(out, symbol->id))
            status = kvc_no_memory(error);
    }
    return status;
}

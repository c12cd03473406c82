/* added.c - added tokens such as "<|eot_id|>", which are searched for in a text before it is split. */
#include "models/tokenizer/parts.h"

#include <stdlib.h>
#include <string.h>

static int compare_text(const char *a, size_t a_bytes, const char *b, size_t b_bytes) {
    int order = memcmp(a, b, a_bytes < b_bytes ? a_bytes : b_bytes);
    return order ? order : a_bytes < b_bytes ? -1 : a_bytes > b_bytes;
}

enum kvc_status kvc_added_insert(struct kvc_tokenizer *tokenizer, const struct kvc_added *token, const char *text,
                                 size_t bytes, struct kvc_error *error) {
    struct kvc_added entry = *token;
    struct kvc_text normalized = {0};
    enum kvc_status status = KVC_OK;
    if (token->normalized)
        status = kvc_normalize(tokenizer->normalizer, tokenizer->normalizer_count, text, bytes, &normalized, error);
    else if (!kvc_text_add(&normalized, text, bytes))
        status = kvc_no_memory(error);
    if (status != KVC_OK || normalized.bytes == 0) { /* an empty token is never found */
        kvc_text_free(&normalized);
        return status;
    }
    struct kvc_added_list *list = token->normalized ? &tokenizer->added_normalized : &tokenizer->added;
    void *tokens = list->tokens;
    entry.at = tokenizer->store.bytes;
    entry.bytes = normalized.bytes;
    bool fits = kvc_grow(&tokens, &list->capacity, list->count, sizeof *list->tokens);
    list->tokens = tokens;
    fits = fits && kvc_text_add(&tokenizer->store, normalized.data, normalized.bytes);
    if (fits) {
        list->begins[(unsigned char)normalized.data[0]] = true;
        list->tokens[list->count++] = entry;
    }
    kvc_text_free(&normalized);
    return fits ? KVC_OK : kvc_no_memory(error);
}

static int added_compare(const struct kvc_tokenizer *tokenizer, const struct kvc_added *a, const struct kvc_added *b) {
    int order = compare_text(tokenizer->store.data + a->at, a->bytes, tokenizer->store.data + b->at, b->bytes);
    return order ? order : a->id < b->id ? -1 : a->id > b->id;
}

/* Sorts by text with a bottom-up merge sort, because qsort cannot pass the store to its comparison. Returns false if
 * out of memory. */
static bool sort_list(const struct kvc_tokenizer *tokenizer, struct kvc_added_list *list) {
    if (list->count < 2)
        return true;
    struct kvc_added *from = list->tokens, *to = malloc(list->count * sizeof *to);
    if (!to)
        return false;
    for (size_t width = 1; width < list->count; width *= 2) {
        for (size_t at = 0; at < list->count; at += 2 * width) {
            size_t left = at, middle = at + width < list->count ? at + width : list->count;
            size_t right = middle, end = middle + width < list->count ? middle + width : list->count;
            for (size_t k = at; k < end; k++) {
                bool take_left =
                    left < middle && (right == end || added_compare(tokenizer, &from[left], &from[right]) <= 0);
                to[k] = take_left ? from[left++] : from[right++];
            }
        }
        struct kvc_added *swap = from;
        from = to;
        to = swap;
    }
    list->tokens = from; /* perhaps the new array, which has room for only `count` tokens */
    list->capacity = list->count;
    free(to);
    return true;
}

enum kvc_status kvc_added_sort(struct kvc_tokenizer *tokenizer, struct kvc_error *error) {
    if (!sort_list(tokenizer, &tokenizer->added) || !sort_list(tokenizer, &tokenizer->added_normalized))
        return kvc_no_memory(error);
    return KVC_OK;
}

/* Returns the first index in [low, high) whose text has a byte of at least `byte` at offset `depth`. All texts in the
 * range are equal up to that offset. */
static size_t added_bound(const struct kvc_tokenizer *tokenizer, const struct kvc_added_list *list, size_t low,
                          size_t high, size_t depth, int byte) {
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct kvc_added *token = &list->tokens[middle];
        int here = depth < token->bytes ? (unsigned char)tokenizer->store.data[token->at + depth] : -1;
        if (here < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool kvc_added_controls(const struct kvc_tokenizer *tokenizer, const struct kvc_added *token) {
    return token->special || tokenizer->pieces[token->id].ends_turn;
}

/* Returns the longest token at the beginning of text. */
static const struct kvc_added *longest_at(const struct kvc_tokenizer *tokenizer, const struct kvc_added_list *list,
                                          const char *text, const char *marks, size_t bytes, bool special) {
    size_t low = 0, high = list->count;
    bool touched = false; /* a byte in front of `depth` is marked */
    const struct kvc_added *best = NULL;
    for (size_t depth = 0; low < high; depth++) {
        for (size_t i = low; i < high && list->tokens[i].bytes == depth; i++) { /* equal texts are adjacent */
            const struct kvc_added *token = &list->tokens[i];
            if (touched ? !kvc_added_controls(tokenizer, token) : special || !token->special) {
                best = token;
                break;
            }
        }
        if (depth == bytes)
            break;
        const int byte = (unsigned char)text[depth];
        touched |= marks && marks[depth];
        low = added_bound(tokenizer, list, low, high, depth, byte);
        high = added_bound(tokenizer, list, low, high, depth, byte + 1);
    }
    return best;
}

static bool word_before(const char *text, size_t at) {
    size_t begin = at;
    while (begin > 0 && at - begin < 4) {
        begin--;
        uint32_t code;
        if (kvc_utf8_next(text + begin, at - begin, &code) == at - begin && code != KVC_NOT_UTF8)
            return kvc_is_word(code);
    }
    return false;
}

static bool word_after(const char *text, size_t bytes, size_t at) {
    uint32_t code;
    if (at >= bytes)
        return false;
    kvc_utf8_next(text + at, bytes - at, &code);
    return kvc_is_word(code);
}

static size_t spaces_before(const char *text, size_t from, size_t at) {
    while (at > from) {
        size_t begin = at;
        bool space = false;
        while (begin > from && at - begin < 4 && !space) {
            begin--;
            uint32_t code;
            space = kvc_utf8_next(text + begin, at - begin, &code) == at - begin && code != KVC_NOT_UTF8 &&
                    kvc_is_space(code);
        }
        if (!space)
            break;
        at = begin;
    }
    return at;
}

static size_t spaces_after(const char *text, size_t bytes, size_t at) {
    while (at < bytes) {
        uint32_t code;
        size_t length = kvc_utf8_next(text + at, bytes - at, &code);
        if (code == KVC_NOT_UTF8 || !kvc_is_space(code))
            break;
        at += length;
    }
    return at;
}

const struct kvc_added *kvc_added_find(const struct kvc_tokenizer *tokenizer, const struct kvc_added_list *list,
                                       const char *text, const char *marks, size_t bytes, size_t from, bool special,
                                       size_t *start, size_t *end) {
    for (size_t at = from; list->count && at < bytes;) {
        const struct kvc_added *token = NULL;
        if (list->begins[(unsigned char)text[at]])
            token = longest_at(tokenizer, list, text + at, marks ? marks + at : NULL, bytes - at, special);
        if (!token) {
            at++;
            continue;
        }
        size_t stop = at + token->bytes;
        if (token->single_word && (word_before(text, at) || word_after(text, bytes, stop))) {
            at = stop;
            continue;
        }
        *start = token->strip_left ? spaces_before(text, from, at) : at;
        *end = token->strip_right ? spaces_after(text, bytes, stop) : stop;
        return token;
    }
    return NULL;
}

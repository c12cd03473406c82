/* codes.c - texts as code points, with Python's character classes. */
#include "eval/codes.h"

#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* ---- memory ---- */

union block { /* header of an allocation */
    union block *before;
    max_align_t aligned;
};

void *eval_pool_take(struct eval_pool *pool, size_t count, size_t bytes) {
    if (count == 0)
        count = 1;
    if (pool->lost || bytes > (SIZE_MAX - sizeof(union block)) / count) {
        pool->lost = true;
        return NULL;
    }
    union block *block = calloc(1, sizeof *block + count * bytes);
    if (!block) {
        pool->lost = true;
        return NULL;
    }
    block->before = pool->last;
    pool->last = block;
    return block + 1;
}

void eval_pool_free(struct eval_pool *pool) {
    for (union block *block = pool->last; block;) {
        union block *before = block->before;
        free(block);
        block = before;
    }
    pool->last = NULL;
}

double eval_pool_score(struct eval_pool *pool, double score) {
    eval_pool_free(pool);
    return pool->lost ? -1 : score;
}

/* ---- kinds of characters ---- */

bool eval_is_blank(int32_t code) {
    return (code >= 0x09 && code <= 0x0d) || (code >= 0x1c && code <= 0x20) || code == 0x85 || code == 0xa0 ||
           code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 || code == 0x2029 || code == 0x202f ||
           code == 0x205f || code == 0x3000;
}

bool eval_is_digit(int32_t code) { return utf8proc_category(code) == UTF8PROC_CATEGORY_ND; }

bool eval_is_letter(int32_t code) {
    switch (utf8proc_category(code)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
        return true;
    default:
        return code == '_';
    }
}

bool eval_is_ascii_mark(int32_t c) {
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

static bool is_one_of(int32_t code, const char *ascii) {
    return code > 0 && code < 0x80 && strchr(ascii, (char)code) != NULL;
}

size_t eval_code_write(int32_t code, char *bytes) {
    return (size_t)utf8proc_encode_char(code, (utf8proc_uint8_t *)bytes);
}

int32_t eval_code_upper(int32_t code) { return utf8proc_toupper(code); }

/* ---- texts ---- */

struct eval_codes eval_codes_read(struct eval_pool *pool, const char *text) {
    const size_t bytes = strlen(text);
    struct eval_codes codes = {eval_pool_take(pool, bytes, sizeof(int32_t)), 0};
    for (size_t at = 0, n; codes.items && at < bytes; at += n) {
        enum cli_part kind;
        int32_t code = 0xfffd;
        n = cli_part(text + at, bytes - at, &kind);
        if (kind == CLI_CHARACTER)
            utf8proc_iterate((const utf8proc_uint8_t *)text + at, (utf8proc_ssize_t)n, &code);
        codes.items[codes.count++] = code;
    }
    return codes;
}

static bool is_cased(int32_t code) {
    return utf8proc_tolower(code) != code || utf8proc_toupper(code) != code ||
           utf8proc_category(code) == UTF8PROC_CATEGORY_LT;
}

/* A capital sigma at the end of a word has a special lower-case form. A word ends here if a letter precedes the sigma
 * and none follows. */
static bool ends_a_word(struct eval_codes text, size_t at) {
    return at > 0 && is_cased(text.items[at - 1]) && (at + 1 == text.count || !is_cased(text.items[at + 1]));
}

struct eval_codes eval_codes_lower(struct eval_pool *pool, struct eval_codes text) {
    struct eval_codes small = {eval_pool_take(pool, text.count, 2 * sizeof(int32_t)), 0};
    for (size_t i = 0; small.items && i < text.count; i++) {
        const int32_t code = text.items[i];
        if (code == 0x130) { /* capital I with a dot becomes two characters */
            small.items[small.count++] = 'i';
            small.items[small.count++] = 0x307;
        } else if (code == 0x3a3) {
            small.items[small.count++] = ends_a_word(text, i) ? 0x3c2 : 0x3c3;
        } else {
            small.items[small.count++] = utf8proc_tolower(code);
        }
    }
    return small;
}

struct eval_codes eval_codes_part(struct eval_codes text, size_t start, size_t count) {
    start = cli_min(start, text.count);
    /* a text without memory has items NULL */
    return (struct eval_codes){start ? text.items + start : text.items, cli_min(count, text.count - start)};
}

struct eval_codes eval_codes_from(struct eval_codes text, size_t start) {
    return eval_codes_part(text, start, text.count);
}

struct eval_codes eval_codes_strip_end(struct eval_codes text) {
    while (text.count > 0 && eval_is_blank(text.items[text.count - 1]))
        text.count--;
    return text;
}

struct eval_codes eval_codes_strip(struct eval_codes text) {
    size_t start = 0;
    while (start < text.count && eval_is_blank(text.items[start]))
        start++;
    return eval_codes_strip_end(eval_codes_from(text, start));
}

const char *eval_codes_strip_text(struct eval_pool *pool, const char *text) {
    const struct eval_codes codes = eval_codes_strip(eval_codes_read(pool, text));
    char *made = eval_pool_take(pool, codes.count + 1, 4);
    size_t bytes = 0;
    for (size_t i = 0; made && i < codes.count; i++)
        bytes += eval_code_write(codes.items[i], made + bytes);
    return made ? made : "";
}

struct eval_codes eval_codes_blank(struct eval_pool *pool, struct eval_codes text, const char *ascii) {
    struct eval_codes made = {eval_pool_take(pool, text.count, sizeof(int32_t)), 0};
    for (size_t i = 0; made.items && i < text.count; i++)
        made.items[made.count++] = is_one_of(text.items[i], ascii) ? ' ' : text.items[i];
    return made;
}

struct eval_codes eval_codes_without(struct eval_pool *pool, struct eval_codes text, const char *ascii) {
    struct eval_codes made = {eval_pool_take(pool, text.count, sizeof(int32_t)), 0};
    for (size_t i = 0; made.items && i < text.count; i++) {
        if (!is_one_of(text.items[i], ascii))
            made.items[made.count++] = text.items[i];
    }
    return made;
}

int eval_codes_compare(struct eval_codes a, struct eval_codes b) {
    for (size_t i = 0; i < a.count && i < b.count; i++) {
        if (a.items[i] != b.items[i])
            return a.items[i] < b.items[i] ? -1 : 1;
    }
    return (a.count > b.count) - (a.count < b.count);
}

bool eval_codes_equal(struct eval_codes a, struct eval_codes b) {
    return a.count == b.count && eval_codes_compare(a, b) == 0;
}

bool eval_codes_begins(struct eval_codes text, const char *ascii) {
    size_t i = 0;
    while (ascii[i] && i < text.count && text.items[i] == (unsigned char)ascii[i])
        i++;
    return ascii[i] == '\0';
}

bool eval_codes_is(struct eval_codes text, const char *ascii) {
    return text.count == strlen(ascii) && eval_codes_begins(text, ascii);
}

size_t eval_codes_find(struct eval_codes text, struct eval_codes part, size_t from) {
    for (size_t i = from; i <= text.count && part.count <= text.count - i; i++) {
        if (eval_codes_equal(eval_codes_part(text, i, part.count), part))
            return i;
    }
    return EVAL_NONE;
}

size_t eval_codes_find_ascii(struct eval_codes text, const char *part, size_t from) {
    for (size_t i = from; i <= text.count; i++) {
        if (eval_codes_begins(eval_codes_from(text, i), part))
            return i;
    }
    return EVAL_NONE;
}

/* ---- words ---- */

/* Allocates for the maximum number of words that a text can have. */
static struct eval_words codes_room(struct eval_pool *pool, struct eval_codes text) {
    return (struct eval_words){eval_pool_take(pool, text.count + 1, sizeof(struct eval_codes)), 0};
}

struct eval_words eval_words_split(struct eval_pool *pool, struct eval_codes text) {
    struct eval_words words = codes_room(pool, text);
    for (size_t i = 0, start = 0; words.items && i <= text.count; i++) {
        if (i < text.count && !eval_is_blank(text.items[i]))
            continue;
        if (i > start)
            words.items[words.count++] = eval_codes_part(text, start, i - start);
        start = i + 1;
    }
    return words;
}

struct eval_words eval_words_cut(struct eval_pool *pool, struct eval_codes text, int32_t at) {
    struct eval_words words = codes_room(pool, text);
    for (size_t i = 0, start = 0; words.items && i <= text.count; i++) {
        if (i < text.count && text.items[i] != at)
            continue;
        words.items[words.count++] = eval_codes_part(text, start, i - start);
        start = i + 1;
    }
    return words;
}

struct eval_words eval_words_numbers(struct eval_pool *pool, struct eval_codes text) {
    struct eval_words words = codes_room(pool, text);
    for (size_t i = 0, n; words.items && i < text.count; i += n) {
        for (n = 0; i + n < text.count && eval_is_digit(text.items[i + n]);)
            n++;
        if (n > 0)
            words.items[words.count++] = eval_codes_part(text, i, n);
        else
            n = 1;
    }
    return words;
}

const char eval_articles[] = "a an the";

/* Returns true if the word is in a list separated by single spaces. */
static bool is_listed(struct eval_codes word, const char *list) {
    while (*list) {
        const size_t bytes = strcspn(list, " ");
        size_t i = 0;
        while (i < bytes && i < word.count && word.items[i] == (unsigned char)list[i])
            i++;
        if (i == bytes && i == word.count)
            return true;
        list += bytes + (list[bytes] == ' ');
    }
    return false;
}

struct eval_words eval_words_normal(struct eval_pool *pool, struct eval_codes text, const char *left_out,
                                    int32_t also_mark) {
    const struct eval_codes small = eval_codes_lower(pool, text);
    struct eval_codes left = {small.items, 0};
    for (size_t i = 0; i < small.count; i++) {
        if (!eval_is_ascii_mark(small.items[i]) && (also_mark == 0 || small.items[i] != also_mark))
            left.items[left.count++] = small.items[i];
    }
    for (size_t i = 0, n; i < left.count; i += n) {
        for (n = 0; i + n < left.count && eval_is_letter(left.items[i + n]);)
            n++;
        const bool out = n > 0 && is_listed(eval_codes_part(left, i, n), left_out);
        for (size_t c = 0; c < n && out; c++)
            left.items[i + c] = ' ';
        n = cli_max(n, 1);
    }
    return eval_words_split(pool, left);
}

struct eval_codes eval_words_join(struct eval_pool *pool, struct eval_words words, int32_t between) {
    size_t count = words.count;
    for (size_t i = 0; i < words.count; i++)
        count += words.items[i].count;
    struct eval_codes text = {eval_pool_take(pool, count, sizeof(int32_t)), 0};
    for (size_t i = 0; i < words.count && text.items; i++) {
        if (i > 0 && between)
            text.items[text.count++] = between;
        for (size_t c = 0; c < words.items[i].count; c++)
            text.items[text.count++] = words.items[i].items[c];
    }
    return text;
}

static int by_codes(const void *a, const void *b) {
    return eval_codes_compare(*(const struct eval_codes *)a, *(const struct eval_codes *)b);
}

static uint32_t id_of(const struct eval_codes *word, const struct eval_words *known) {
    const struct eval_codes *found = bsearch(word, known->items, known->count, sizeof *known->items, by_codes);
    return found ? (uint32_t)(found - known->items) : 0;
}

struct eval_ids eval_words_ids(struct eval_pool *pool, struct eval_words a, struct eval_words b) {
    struct eval_ids ids = {eval_pool_take(pool, a.count, sizeof(uint32_t)),
                           eval_pool_take(pool, b.count, sizeof(uint32_t)), 0};
    struct eval_words known = {eval_pool_take(pool, a.count + b.count, sizeof(struct eval_codes)), 0};
    if (!ids.a || !ids.b || !known.items)
        return (struct eval_ids){NULL, NULL, 0};
    for (size_t i = 0; i < a.count + b.count; i++)
        known.items[i] = i < a.count ? a.items[i] : b.items[i - a.count];
    qsort(known.items, a.count + b.count, sizeof *known.items, by_codes);
    for (size_t i = 0; i < a.count + b.count; i++) {
        if (i == 0 || !eval_codes_equal(known.items[known.count - 1], known.items[i]))
            known.items[known.count++] = known.items[i];
    }
    for (size_t i = 0; i < a.count; i++)
        ids.a[i] = id_of(&a.items[i], &known);
    for (size_t i = 0; i < b.count; i++)
        ids.b[i] = id_of(&b.items[i], &known);
    ids.different = known.count;
    return ids;
}

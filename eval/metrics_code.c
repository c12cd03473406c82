/* metrics_code.c - the similarity of two texts as Python's difflib computes it (fuzzywuzzy's ratio without its C
 * library), for LongBench's code tasks: 2M / T, where M counts the characters of matching blocks and T all characters
 * of both texts. */
#include "eval/metrics.h"

#include <math.h>
#include <stdlib.h>

#include "cli/cli.h"

struct places { /* positions of the second text's characters, sorted by character, then by position; without frequent
                   characters */
    struct place {
        int32_t code;
        size_t at;
    } * items;
    size_t count;
};

static int by_code(const void *a, const void *b) {
    const struct place *x = a, *y = b;
    if (x->code != y->code)
        return x->code < y->code ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

/* In a text of 200 or more characters, a character with a share above 1 % cannot begin a block. */
static struct places find_places(struct eval_pool *pool, struct eval_codes text) {
    struct places places = {eval_pool_take(pool, text.count, sizeof(struct place)), 0};
    const size_t often = text.count / 100 + 1;
    size_t left = 0;
    if (!places.items)
        return places;
    for (size_t i = 0; i < text.count; i++)
        places.items[i] = (struct place){text.items[i], i};
    qsort(places.items, text.count, sizeof *places.items, by_code);
    for (size_t i = 0, n; i < text.count; i += n) {
        for (n = 1; i + n < text.count && places.items[i + n].code == places.items[i].code;)
            n++;
        for (size_t c = 0; c < n && (text.count < 200 || n <= often); c++)
            places.items[left++] = places.items[i + c];
    }
    places.count = left;
    return places;
}

/* Returns the first place of this character at or after `from`. */
static size_t first_place(const struct places *places, int32_t code, size_t from) {
    const struct place wanted = {code, from};
    size_t low = 0, high = places->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (by_code(&places->items[middle], &wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct range { /* a range of each of the two texts */
    size_t a, a_end, b, b_end;
};
struct block {
    size_t a, b, count;
};

/* Returns the longest common block; among equals, the one that begins first in a, then in b. lengths, next [b + 1]: for
 * the current and the previous character of a, the length of the block that ends at each position of b. Both arrays are
 * zero before and after the call. */
static struct block metrics_code_longest(struct eval_codes a, struct eval_codes b, const struct places *places,
                                         struct range in, size_t *lengths, size_t *next) {
    struct block best = {in.a, in.b, 0};
    for (size_t i = in.a; i < in.a_end; i++) {
        const int32_t code = a.items[i];
        for (size_t p = first_place(places, code, in.b); p < places->count; p++) {
            const size_t j = places->items[p].at;
            if (places->items[p].code != code || j >= in.b_end)
                break;
            const size_t count = next[j + 1] = lengths[j] + 1;
            if (count > best.count)
                best = (struct block){i + 1 - count, j + 1 - count, count};
        }
        if (i > in.a) { /* clears the previous character's lengths */
            const int32_t last = a.items[i - 1];
            for (size_t p = first_place(places, last, in.b);
                 p < places->count && places->items[p].code == last && places->items[p].at < in.b_end; p++)
                lengths[places->items[p].at + 1] = 0;
        }
        size_t *other = lengths;
        lengths = next;
        next = other;
    }
    for (size_t j = in.b; j <= in.b_end; j++)
        lengths[j] = next[j] = 0;
    while (best.a > in.a && best.b > in.b && a.items[best.a - 1] == b.items[best.b - 1]) {
        best.a--;
        best.b--;
        best.count++;
    }
    while (best.a + best.count < in.a_end && best.b + best.count < in.b_end &&
           a.items[best.a + best.count] == b.items[best.b + best.count])
        best.count++;
    return best;
}

double eval_similarity(struct eval_pool *pool, struct eval_codes a, struct eval_codes b) {
    const struct places places = find_places(pool, b);
    size_t *lengths = eval_pool_take(pool, b.count + 1, sizeof *lengths);
    size_t *next = eval_pool_take(pool, b.count + 1, sizeof *next);
    /* The ranges still to be searched do not overlap, so there are fewer of them than characters. */
    struct range *left = eval_pool_take(pool, cli_min(a.count, b.count) + 2, sizeof *left);
    size_t count = 1, matched = 0;
    if (a.count + b.count == 0)
        return 1;
    if (pool->lost)
        return 0;
    left[0] = (struct range){0, a.count, 0, b.count};
    while (count > 0) {
        const struct range in = left[--count];
        const struct block block = metrics_code_longest(a, b, &places, in, lengths, next);
        if (block.count == 0)
            continue;
        matched += block.count;
        if (in.a < block.a && in.b < block.b)
            left[count++] = (struct range){in.a, block.a, in.b, block.b};
        if (block.a + block.count < in.a_end && block.b + block.count < in.b_end)
            left[count++] = (struct range){block.a + block.count, in.a_end, block.b + block.count, in.b_end};
    }
    return 2.0 * (double)matched / (double)(a.count + b.count);
}

double eval_code_similarity(const char *answer, const char *truth) {
    struct eval_pool pool = {0};
    struct eval_codes text = eval_codes_read(&pool, answer), line = {NULL, 0};
    const struct eval_codes wanted = eval_codes_read(&pool, truth);
    while (text.count > 0 && text.items[0] == '\n')
        text = eval_codes_from(text, 1);
    const struct eval_words lines = eval_words_cut(&pool, text, '\n');
    for (size_t i = 0; i < lines.count; i++) {
        const struct eval_codes one = lines.items[i];
        if (eval_codes_find_ascii(one, "`", 0) != EVAL_NONE || eval_codes_find_ascii(one, "#", 0) != EVAL_NONE ||
            eval_codes_find_ascii(one, "//", 0) != EVAL_NONE)
            continue;
        line = one;
        break;
    }
    const double ratio = eval_codes_equal(line, wanted) ? 1 : eval_similarity(&pool, line, wanted);
    /* rounds to hundredths, halves to even */
    return eval_pool_score(&pool, nearbyint(100 * ratio) / 100);
}

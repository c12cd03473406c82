/* codes.h - texts as code points, cut into words: what the metrics are computed on. Blanks, digits, letters of words
 * and small letters are Unicode's, as Python's str and re have them, since the benchmarks' own scripts are Python. */
#ifndef KVC_EVAL_CODES_H
#define KVC_EVAL_CODES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a metric allocates, freed at once. After a failed allocation `lost` stays true, texts come out empty, and the
 * score is worth nothing. */
struct eval_pool {
    void *last;
    bool lost;
};
void *eval_pool_take(struct eval_pool *pool, size_t count, size_t bytes); /* zeroed, never for 0; NULL: lost */
void eval_pool_free(struct eval_pool *pool);
/* The score, or -1 where memory ran out. Frees the pool. */
double eval_pool_score(struct eval_pool *pool, double score);

struct eval_codes { /* a view: `items` may lie inside those of another */
    int32_t *items;
    size_t count;
};
/* UTF-8; U+FFFD stands for bytes that are none. */
struct eval_codes eval_codes_read(struct eval_pool *pool, const char *text);
struct eval_codes eval_codes_lower(struct eval_pool *pool, struct eval_codes text);
struct eval_codes eval_codes_part(struct eval_codes text, size_t start, size_t count);
struct eval_codes eval_codes_from(struct eval_codes text, size_t start); /* to its end */
struct eval_codes eval_codes_strip(struct eval_codes text);              /* without blanks at both ends */
struct eval_codes eval_codes_strip_end(struct eval_codes text);
/* A new text in which each character of these (ASCII) is a space; and one without them. */
struct eval_codes eval_codes_blank(struct eval_pool *pool, struct eval_codes text, const char *ascii);
struct eval_codes eval_codes_without(struct eval_pool *pool, struct eval_codes text, const char *ascii);
/* The text without blanks at both ends, as UTF-8; "" where memory ran out. */
const char *eval_codes_strip_text(struct eval_pool *pool, const char *text);
bool eval_codes_equal(struct eval_codes a, struct eval_codes b);
int eval_codes_compare(struct eval_codes a, struct eval_codes b); /* by code points: < 0, 0, > 0 */
bool eval_codes_is(struct eval_codes text, const char *ascii);
bool eval_codes_begins(struct eval_codes text, const char *ascii);
#define EVAL_NONE SIZE_MAX
/* Where the part begins first, at `from` or later; EVAL_NONE: nowhere. An empty part is everywhere. */
size_t eval_codes_find(struct eval_codes text, struct eval_codes part, size_t from);
size_t eval_codes_find_ascii(struct eval_codes text, const char *part, size_t from);

size_t eval_code_write(int32_t code, char *bytes); /* as UTF-8, at most 4 bytes; returns how many */
int32_t eval_code_upper(int32_t code);

bool eval_is_blank(int32_t code);   /* str.isspace */
bool eval_is_digit(int32_t code);   /* \d */
bool eval_is_letter(int32_t code);  /* \w */
bool eval_is_ascii_mark(int32_t c); /* string.punctuation */

struct eval_words {
    struct eval_codes *items;
    size_t count;
};
struct eval_words eval_words_split(struct eval_pool *pool, struct eval_codes text); /* at blanks; none is empty */
struct eval_words eval_words_cut(struct eval_pool *pool, struct eval_codes text, int32_t at); /* empty ones, too */
struct eval_words eval_words_numbers(struct eval_pool *pool, struct eval_codes text);         /* every \d+ */
/* Small letters, without ASCII's punctuation and marks, and without the words given ("a an the"), which stand between
 * characters that belong to no word; then split. What SQuAD's script calls a normal answer is these joined by spaces.
 */
struct eval_words eval_words_normal(struct eval_pool *pool, struct eval_codes text, const char *left_out,
                                    int32_t also_mark);
extern const char eval_articles[];
/* One text of them all, with a space between each two (0: nothing). */
struct eval_codes eval_words_join(struct eval_pool *pool, struct eval_words words, int32_t between);

/* Ids of words: equal where the words are. Both lists are numbered together; *different is how many ids there are. */
struct eval_ids {
    uint32_t *a, *b;
    size_t different;
};
struct eval_ids eval_words_ids(struct eval_pool *pool, struct eval_words a, struct eval_words b);

#endif

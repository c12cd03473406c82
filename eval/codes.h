/* codes.h - texts as code points, and their words, for the metrics. Whitespace, digits, word characters and lower case
 * follow Unicode as Python's str and re do, because the benchmarks' scripts are Python. */
#ifndef KVC_EVAL_CODES_H
#define KVC_EVAL_CODES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A metric's allocations, which are freed together. After a failed allocation `lost` stays true, texts are empty, and
 * the score is invalid. */
struct eval_pool {
    void *last;
    bool lost;
};
void *eval_pool_take(struct eval_pool *pool, size_t count,
                     size_t bytes); /* zeroed memory, also for count 0; NULL: lost */
void eval_pool_free(struct eval_pool *pool);
/* Frees the pool. Returns the score, or -1 if an allocation failed. */
double eval_pool_score(struct eval_pool *pool, double score);

struct eval_codes { /* a view: `items` may point into another text */
    int32_t *items;
    size_t count;
};
/* Decodes UTF-8. Each invalid byte sequence becomes U+FFFD. */
struct eval_codes eval_codes_read(struct eval_pool *pool, const char *text);
struct eval_codes eval_codes_lower(struct eval_pool *pool, struct eval_codes text);
struct eval_codes eval_codes_part(struct eval_codes text, size_t start, size_t count);
struct eval_codes eval_codes_from(struct eval_codes text, size_t start); /* the text from `start` on */
struct eval_codes eval_codes_strip(struct eval_codes text);              /* the text without whitespace at both ends */
struct eval_codes eval_codes_strip_end(struct eval_codes text);
/* Return a new text: _blank replaces each of the ASCII characters by a space, _without removes them. */
struct eval_codes eval_codes_blank(struct eval_pool *pool, struct eval_codes text, const char *ascii);
struct eval_codes eval_codes_without(struct eval_pool *pool, struct eval_codes text, const char *ascii);
/* Returns the text without whitespace at both ends, as UTF-8. Returns "" if out of memory. */
const char *eval_codes_strip_text(struct eval_pool *pool, const char *text);
bool eval_codes_equal(struct eval_codes a, struct eval_codes b);
int eval_codes_compare(struct eval_codes a, struct eval_codes b); /* order by code points: < 0, 0, > 0 */
bool eval_codes_is(struct eval_codes text, const char *ascii);
bool eval_codes_begins(struct eval_codes text, const char *ascii);
#define EVAL_NONE SIZE_MAX
/* Returns the first index of the part at or after `from`, or EVAL_NONE. An empty part is found at `from`. */
size_t eval_codes_find(struct eval_codes text, struct eval_codes part, size_t from);
size_t eval_codes_find_ascii(struct eval_codes text, const char *part, size_t from);

size_t eval_code_write(int32_t code, char *bytes); /* writes at most 4 bytes of UTF-8; returns the number of bytes */
int32_t eval_code_upper(int32_t code);

bool eval_is_blank(int32_t code);   /* str.isspace */
bool eval_is_digit(int32_t code);   /* \d */
bool eval_is_letter(int32_t code);  /* \w */
bool eval_is_ascii_mark(int32_t c); /* string.punctuation */

struct eval_words {
    struct eval_codes *items;
    size_t count;
};
struct eval_words eval_words_split(struct eval_pool *pool,
                                   struct eval_codes text); /* splits at whitespace; no word is empty */
struct eval_words eval_words_cut(struct eval_pool *pool, struct eval_codes text,
                                 int32_t at); /* splits at each `at`; words may be empty */
struct eval_words eval_words_numbers(struct eval_pool *pool, struct eval_codes text); /* every \d+ */
/* Converts to lower case, removes ASCII punctuation and also_mark, removes the words in left_out ("a an the"), and
 * splits the rest at whitespace. Joined by spaces, the words are SQuAD's normalized answer. */
struct eval_words eval_words_normal(struct eval_pool *pool, struct eval_codes text, const char *left_out,
                                    int32_t also_mark);
extern const char eval_articles[];
/* Joins the words, with the character `between` in between (0: nothing). */
struct eval_codes eval_words_join(struct eval_pool *pool, struct eval_words words, int32_t between);

/* Numbers for words: equal words of both lists have equal numbers. `different` is the count of numbers. */
struct eval_ids {
    uint32_t *a, *b;
    size_t different;
};
struct eval_ids eval_words_ids(struct eval_pool *pool, struct eval_words a, struct eval_words b);

#endif

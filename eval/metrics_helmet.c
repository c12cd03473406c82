/* metrics_helmet.c - HELMET's scores (github.com/princeton-nlp/HELMET, utils.py and data.py). */
#include "eval/metrics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

/* ---- exact match, substring match, F1, ROUGE-L ---- */

static double match(struct eval_pool *pool, enum eval_helmet metric, struct eval_codes answer,
                    struct eval_codes truth) {
    static const char *const closed[] = {"yes", "no", "noanswer"};
    if (metric == EVAL_HELMET_ROUGE || metric == EVAL_HELMET_ROUGE_RECALL) {
        const struct eval_rouge_l rouge =
            eval_rouge_of(pool, eval_rouge_words(pool, answer, true), eval_rouge_words(pool, truth, true));
        return metric == EVAL_HELMET_ROUGE ? rouge.f1 : rouge.recall;
    }
    const struct eval_words a = eval_words_normal(pool, answer, eval_articles, 0);
    const struct eval_words t = eval_words_normal(pool, truth, eval_articles, 0);
    const struct eval_codes a_text = eval_words_join(pool, a, ' '), t_text = eval_words_join(pool, t, ' ');
    const bool equal = eval_codes_equal(a_text, t_text);
    if (metric == EVAL_HELMET_EXACT)
        return equal;
    if (metric == EVAL_HELMET_PART)
        return eval_codes_find(a_text, t_text, 0) != EVAL_NONE;
    for (size_t i = 0; i < sizeof closed / sizeof *closed; i++) {
        if (!equal && (eval_codes_is(a_text, closed[i]) || eval_codes_is(t_text, closed[i])))
            return 0;
    }
    return eval_f1_of(pool, a, t);
}

static int32_t small_ascii(int32_t c) { return c >= 'A' && c <= 'Z' ? c + 'a' - 'A' : c; }

static bool begins_any_size(struct eval_codes text, const char *ascii) {
    size_t i = 0;
    while (ascii[i] && i < text.count && small_ascii(text.items[i]) == small_ascii((unsigned char)ascii[i]))
        i++;
    return ascii[i] == '\0';
}

/* Returns the text after the prefix, up to the end of its line. Without the prefix, returns the first line. */
static struct eval_codes parsed(struct eval_codes text, const char *prefix) {
    size_t start = 0, end;
    while (start < text.count && !begins_any_size(eval_codes_from(text, start), prefix))
        start++;
    start = start < text.count ? start + strlen(prefix) : 0;
    for (end = start; end < text.count && text.items[end] != '\n';)
        end++;
    struct eval_codes line = eval_codes_strip(eval_codes_part(text, start, end - start));
    if (begins_any_size(line, prefix)) /* the prefix occurs twice */
        line = eval_codes_strip(eval_codes_from(line, strlen(prefix)));
    return line;
}

double eval_helmet(enum eval_helmet metric, const char *answer, const char *prefix, struct eval_list truths) {
    struct eval_pool pool = {0};
    const struct eval_codes text = eval_codes_read(&pool, answer), line = parsed(text, prefix);
    double score = 0;
    for (size_t i = 0; i < truths.count; i++) {
        const struct eval_codes truth = eval_codes_read(&pool, truths.items[i]);
        score = fmax(score, match(&pool, metric, line, truth));
        score = fmax(score, match(&pool, metric, text, truth));
    }
    return eval_pool_score(&pool, score);
}

double eval_recall(const char *answer, struct eval_list truths) {
    struct eval_pool pool = {0};
    const struct eval_codes text = eval_codes_lower(&pool, eval_codes_read(&pool, answer));
    size_t found = 0;
    for (size_t i = 0; i < truths.count; i++) {
        const struct eval_codes truth = eval_codes_lower(&pool, eval_codes_read(&pool, truths.items[i]));
        found += eval_codes_find(text, truth, 0) != EVAL_NONE;
    }
    return eval_pool_score(&pool, truths.count ? (double)found / (double)truths.count : 0);
}

/* ---- rankings ---- */

static size_t skip_blanks(struct eval_codes text, size_t at) {
    while (at < text.count && eval_is_blank(text.items[at]))
        at++;
    return at;
}

static size_t skip_digits(struct eval_codes text, size_t at) {
    while (at < text.count && eval_is_digit(text.items[at]))
        at++;
    return at;
}

/* Returns the longest of the rankings "3 > 1 > 2", the first of equals. */
static struct eval_codes longest_row(struct eval_codes text) {
    struct eval_codes longest = {NULL, 0};
    for (size_t at = 0; at < text.count;) {
        size_t end = skip_digits(text, at);
        if (end == at) {
            at++;
            continue;
        }
        for (size_t next = skip_blanks(text, end); next < text.count && text.items[next] == '>';
             next = skip_blanks(text, end)) {
            const size_t number = skip_blanks(text, next + 1), after = skip_digits(text, number);
            if (after == number)
                break;
            end = after;
        }
        if (end - at > longest.count)
            longest = eval_codes_part(text, at, end - at);
        at = end;
    }
    return longest;
}

/* Removes brackets, colons and "id", and converts to lower case. */
static struct eval_codes plain_ranking(struct eval_pool *pool, const char *answer) {
    const struct eval_codes text =
        eval_codes_lower(pool, eval_codes_without(pool, eval_codes_read(pool, answer), "[]:"));
    struct eval_codes made = {eval_pool_take(pool, text.count, sizeof(int32_t)), 0};
    for (size_t i = 0; made.items && i < text.count;) {
        if (eval_codes_begins(eval_codes_from(text, i), "id"))
            i += 2;
        else
            made.items[made.count++] = text.items[i++];
    }
    return made;
}

static int descending(const void *a, const void *b) {
    const int x = *(const int *)a, y = *(const int *)b;
    return (x < y) - (x > y);
}

double eval_ndcg(const char *answer, struct eval_list ids, const int *gains) {
    enum { RANKS = 10 };
    struct eval_pool pool = {0};
    const struct eval_words row = eval_words_cut(&pool, longest_row(plain_ranking(&pool, answer)), '>');
    int *sorted = eval_pool_take(&pool, ids.count, sizeof *sorted);
    double made = 0, ideal = 0;
    size_t ranks = 0;
    char text[32];
    if (pool.lost)
        return eval_pool_score(&pool, 0);
    for (size_t i = 0; i < row.count && ranks < RANKS; i++) {
        const struct eval_codes id = eval_codes_strip(row.items[i]);
        bool again = id.count == 0;
        for (size_t j = 0; j < i && !again; j++)
            again = eval_codes_equal(eval_codes_strip(row.items[j]), id);
        if (again)
            continue;
        for (size_t d = 0; d < ids.count; d++) {
            if (gains[d] > 0 && eval_codes_equal(eval_codes_read(&pool, ids.items[d]), id))
                made += gains[d] / log2((double)ranks + 2);
        }
        ranks++;
    }
    for (size_t d = 0; d < ids.count; d++)
        sorted[d] = gains[d];
    qsort(sorted, ids.count, sizeof *sorted, descending);
    for (size_t i = 0; i < ids.count && i < RANKS; i++)
        ideal += sorted[i] > 0 ? sorted[i] / log2((double)i + 2) : 0;
    snprintf(text, sizeof text, "%.5f", ideal > 0 ? made / ideal : 0);
    return eval_pool_score(&pool, strtod(text, NULL));
}

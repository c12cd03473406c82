/* metrics_words.c - LongBench's scores that compare words, classes and numbers (github.com/THUDM/LongBench,
 * LongBench/metrics.py and eval.py). */
#include "eval/metrics.h"

#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

double eval_best_of(eval_metric metric, const char *answer, struct eval_list truths) {
    double best = 0;
    for (size_t i = 0; i < truths.count; i++) {
        const double score = metric(answer, truths.items[i]);
        if (score < 0)
            return score;
        best = score > best ? score : best;
    }
    return best;
}

static int by_codes(const void *a, const void *b) {
    return eval_codes_compare(*(const struct eval_codes *)a, *(const struct eval_codes *)b);
}

double eval_f1_of(struct eval_pool *pool, struct eval_words answer, struct eval_words truth) {
    size_t same = 0;
    struct eval_codes *a = eval_pool_take(pool, answer.count, sizeof *a);
    struct eval_codes *b = eval_pool_take(pool, truth.count, sizeof *b);
    if (!a || !b || answer.count == 0 || truth.count == 0)
        return 0;
    memcpy(a, answer.items, answer.count * sizeof *a);
    memcpy(b, truth.items, truth.count * sizeof *b);
    qsort(a, answer.count, sizeof *a, by_codes);
    qsort(b, truth.count, sizeof *b, by_codes);
    for (size_t i = 0, j = 0; i < answer.count && j < truth.count;) {
        const int order = eval_codes_compare(a[i], b[j]);
        same += order == 0;
        i += order <= 0;
        j += order >= 0;
    }
    if (same == 0)
        return 0;
    const double precision = (double)same / (double)answer.count, recall = (double)same / (double)truth.count;
    return 2 * precision * recall / (precision + recall);
}

double eval_word_f1(const char *answer, const char *truth) {
    struct eval_pool pool = {0};
    const struct eval_words a = eval_words_normal(&pool, eval_codes_read(&pool, answer), eval_articles, 0);
    const struct eval_words b = eval_words_normal(&pool, eval_codes_read(&pool, truth), eval_articles, 0);
    return eval_pool_score(&pool, eval_f1_of(&pool, a, b));
}

/* ---- Chinese ---- */

static bool is_chinese_mark(int32_t code) {
    static const struct {
        int32_t first, last;
    } marks[] = {{0x2013, 0x2014}, {0x2018, 0x2019}, {0x201b, 0x201f}, {0x2026, 0x2027}, {0x3001, 0x3003},
                 {0x300b, 0x3011}, {0x3014, 0x301f}, {0x3030, 0x3030}, {0x303e, 0x303f}, {0xfe4f, 0xfe4f},
                 {0xff01, 0xff0d}, {0xff0f, 0xff0f}, {0xff1a, 0xff20}, {0xff3b, 0xff40}, {0xff5b, 0xff64}};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        if (code >= marks[i].first && code <= marks[i].last)
            return true;
    }
    return false;
}

static bool is_ascii_word(int32_t c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Splits into single characters and runs of ASCII letters and digits. */
static struct eval_words chinese_words(struct eval_pool *pool, struct eval_codes text) {
    struct eval_words words = {eval_pool_take(pool, text.count, sizeof(struct eval_codes)), 0};
    for (size_t i = 0, n; words.items && i < text.count; i += n) {
        for (n = 0; i + n < text.count && is_ascii_word(text.items[i + n]);)
            n++;
        n = cli_max(n, 1);
        words.items[words.count++] = eval_codes_part(text, i, n);
    }
    return words;
}

/* Converts to lower case and removes punctuation and whitespace. Omits words that become empty. */
static struct eval_words normal_chinese(struct eval_pool *pool, struct eval_words words) {
    struct eval_words made = {eval_pool_take(pool, words.count, sizeof(struct eval_codes)), 0};
    for (size_t w = 0; made.items && w < words.count; w++) {
        struct eval_codes small = eval_codes_lower(pool, words.items[w]), left = {small.items, 0};
        for (size_t i = 0; i < small.count; i++) {
            const int32_t code = small.items[i];
            if (!eval_is_ascii_mark(code) && !is_chinese_mark(code) && !eval_is_blank(code))
                left.items[left.count++] = code;
        }
        if (left.count > 0)
            made.items[made.count++] = left;
    }
    return made;
}

double eval_chinese_f1(const char *answer, const char *truth) {
    struct eval_pool pool = {0};
    const struct eval_words a = normal_chinese(&pool, chinese_words(&pool, eval_codes_read(&pool, answer)));
    const struct eval_words b = normal_chinese(&pool, chinese_words(&pool, eval_codes_read(&pool, truth)));
    return eval_pool_score(&pool, eval_f1_of(&pool, a, b));
}

/* Returns each character of the normalized text as a word. */
static struct eval_words characters(struct eval_pool *pool, const char *text) {
    const struct eval_codes codes = eval_codes_read(pool, text);
    const struct eval_words whole = normal_chinese(pool, (struct eval_words){(struct eval_codes[]){codes}, 1});
    struct eval_words made = {eval_pool_take(pool, 2 * codes.count, sizeof(struct eval_codes)), 0};
    for (size_t i = 0; made.items && whole.count > 0 && i < whole.items[0].count; i++)
        made.items[made.count++] = eval_codes_part(whole.items[0], i, 1);
    return made;
}

double eval_character_f1(const char *answer, const char *truth) {
    struct eval_pool pool = {0};
    const struct eval_words a = characters(&pool, answer), b = characters(&pool, truth);
    return eval_pool_score(&pool, eval_f1_of(&pool, a, b));
}

/* Returns the words separated by spaces, for eval_rouge. malloc'ed; NULL: no memory. */
static char *spaced(const char *text) {
    struct eval_pool pool = {0};
    const struct eval_codes codes = eval_codes_read(&pool, text);
    const struct eval_codes whole = eval_words_join(&pool, chinese_words(&pool, codes), ' ');
    char *made = pool.lost ? NULL : malloc(4 * whole.count + 1);
    size_t bytes = 0;
    for (size_t i = 0; made && i < whole.count; i++)
        bytes += eval_code_write(whole.items[i], made + bytes);
    if (made)
        made[bytes] = '\0';
    eval_pool_free(&pool);
    return made;
}

double eval_chinese_rouge(const char *answer, const char *truth) {
    char *a = spaced(answer), *b = spaced(truth);
    const double score = a && b ? eval_rouge(a, b) : -1;
    free(a);
    free(b);
    return score;
}

/* ---- classes and numbers ---- */

double eval_class(const char *answer, const char *truth, struct eval_list classes) {
    struct eval_pool pool = {0};
    const char **found = eval_pool_take(&pool, classes.count, sizeof *found);
    size_t count = 0, right = 0;
    for (size_t i = 0; found && i < classes.count; i++) {
        if (strstr(answer, classes.items[i]))
            found[count++] = classes.items[i];
    }
    /* LongBench's script removes elements while it iterates over the list, so it skips the element after each removed
     * one. This loop does the same. */
    for (size_t i = 0; i < count; i++) {
        size_t first = 0;
        if (!strstr(truth, found[i]) || strcmp(found[i], truth) == 0)
            continue;
        while (strcmp(found[first], found[i]) != 0)
            first++;
        memmove(found + first, found + first + 1, (count - first - 1) * sizeof *found);
        count--;
    }
    for (size_t i = 0; i < count; i++)
        right += strcmp(found[i], truth) == 0;
    return eval_pool_score(&pool, right ? 1.0 / (double)count : 0);
}

/* Returns the share of the answer's numbers that equal `wanted`, digit by digit. */
static double share_of_numbers(struct eval_pool *pool, const char *answer, struct eval_codes wanted) {
    const struct eval_words numbers = eval_words_numbers(pool, eval_codes_read(pool, answer));
    size_t right = 0;
    for (size_t i = 0; i < numbers.count; i++)
        right += eval_codes_equal(numbers.items[i], wanted);
    return numbers.count ? (double)right / (double)numbers.count : 0;
}

double eval_count(const char *answer, const char *truth) {
    struct eval_pool pool = {0};
    const struct eval_codes wanted = eval_codes_read(&pool, truth);
    return eval_pool_score(&pool, share_of_numbers(&pool, answer, wanted));
}

/* Returns the share of the answer's numbers that equal the truth's number. That number follows the first `word` of the
 * truth that has digits directly after it. */
static double retrieval(const char *answer, const char *truth, const char *word) {
    struct eval_pool pool = {0};
    const struct eval_codes text = eval_codes_read(&pool, truth), front = eval_codes_read(&pool, word);
    double score = 0;
    for (size_t at = eval_codes_find(text, front, 0); at != EVAL_NONE; at = eval_codes_find(text, front, at + 1)) {
        const size_t start = at + front.count;
        size_t n = 0;
        while (start + n < text.count && eval_is_digit(text.items[start + n]))
            n++;
        if (n == 0)
            continue;
        score = share_of_numbers(&pool, answer, eval_codes_part(text, start, n));
        break;
    }
    return eval_pool_score(&pool, score);
}

double eval_retrieval(const char *answer, const char *truth) { return retrieval(answer, truth, "Paragraph "); }

double eval_chinese_retrieval(const char *answer, const char *truth) {
    return retrieval(answer, truth, "\xe6\xae\xb5\xe8\x90\xbd");
}

char *eval_first_line(const char *answer) {
    answer += strspn(answer, "\n");
    return strndup(answer, strcspn(answer, "\n"));
}

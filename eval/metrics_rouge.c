/* metrics_rouge.c - ROUGE-L in the definitions of two packages. `rouge` 1.0.1 (LongBench) ends sentences at full stops
 * and counts different words. `rouge_score` 0.1.2 (InfiniteBench, HELMET) uses words of a to z and digits. If several
 * longest common subsequences exist, the packages choose different ones. */
#include "eval/metrics.h"

#include "cli/cli.h"

/* ---- the longest common subsequence ---- */

enum { BOTH, LESS_X, LESS_Y }; /* which text a backtracking step shortens; two bits each */

void eval_lcs(struct eval_pool *pool, const uint32_t *x, size_t x_count, const uint32_t *y, size_t y_count, bool up,
              bool *marks) {
    if (x_count == 0 || y_count == 0)
        return;
    if (x_count > SIZE_MAX / y_count) {
        pool->lost = true;
        return;
    }
    struct eval_pool own = {0};
    unsigned char *steps = eval_pool_take(&own, x_count * y_count / 4 + 1, 1);
    uint32_t *before = eval_pool_take(&own, y_count + 1, sizeof *before);
    uint32_t *row = eval_pool_take(&own, y_count + 1, sizeof *row);
    for (size_t i = 0; i < x_count && !own.lost; i++) {
        for (size_t j = 0; j < y_count; j++) {
            const size_t cell = i * y_count + j;
            unsigned step = BOTH;
            if (x[i] == y[j]) {
                row[j + 1] = before[j] + 1;
            } else {
                const uint32_t less_x = before[j + 1], less_y = row[j];
                step = less_x > less_y || (less_x == less_y && up) ? LESS_X : LESS_Y;
                row[j + 1] = step == LESS_X ? less_x : less_y;
            }
            steps[cell / 4] = (unsigned char)(steps[cell / 4] | step << 2 * (cell % 4));
        }
        uint32_t *other = before;
        before = row;
        row = other;
    }
    for (size_t i = x_count, j = y_count; i > 0 && j > 0 && !own.lost;) {
        const size_t cell = (i - 1) * y_count + j - 1;
        const unsigned step = (unsigned)steps[cell / 4] >> 2 * (cell % 4) & 3u;
        if (step == BOTH)
            marks[i - 1] = true;
        i -= step != LESS_Y;
        j -= step != LESS_X;
    }
    pool->lost = pool->lost || own.lost;
    eval_pool_free(&own);
}

/* ---- the package `rouge` ---- */

struct sentences {
    struct eval_words words; /* words of all sentences, in order */
    size_t *ends;            /* [count] */
    size_t count;
};

static struct sentences at_full_stops(struct eval_pool *pool, const char *text) {
    const struct eval_codes codes = eval_codes_read(pool, text);
    const struct eval_words pieces = eval_words_cut(pool, codes, '.');
    struct sentences made = {{eval_pool_take(pool, codes.count + 1, sizeof(struct eval_codes)), 0},
                             eval_pool_take(pool, pieces.count, sizeof(size_t)),
                             0};
    for (size_t i = 0; i < pieces.count && !pool->lost; i++) {
        if (pieces.items[i].count == 0)
            continue;
        const struct eval_words words = eval_words_split(pool, pieces.items[i]);
        for (size_t w = 0; w < words.count; w++)
            made.words.items[made.words.count++] = words.items[w];
        if (words.count == 0) /* a sentence of blanks counts as one empty word, as in the package */
            made.words.items[made.words.count++] = (struct eval_codes){NULL, 0};
        made.ends[made.count++] = made.words.count;
    }
    return made;
}

static size_t different(struct eval_pool *pool, const uint32_t *ids, size_t count, size_t ids_count) {
    bool *seen = eval_pool_take(pool, ids_count, sizeof *seen);
    size_t found = 0;
    for (size_t i = 0; i < count && seen; i++) {
        found += !seen[ids[i]];
        seen[ids[i]] = true;
    }
    return found;
}

double eval_rouge(const char *answer, const char *truth) {
    struct eval_pool pool = {0};
    const struct sentences a = at_full_stops(&pool, answer), b = at_full_stops(&pool, truth);
    if (a.count == 0 || b.count == 0)
        return eval_pool_score(&pool, 0);
    const struct eval_ids ids = eval_words_ids(&pool, a.words, b.words);
    bool *shared = eval_pool_take(&pool, ids.different, sizeof *shared);
    bool *marks = eval_pool_take(&pool, b.words.count, sizeof *marks);
    size_t count = 0;
    for (size_t t = 0, from = 0; t < b.count && !pool.lost; from = b.ends[t++]) {
        for (size_t s = 0, start = 0; s < a.count; start = a.ends[s++])
            eval_lcs(&pool, ids.b + from, b.ends[t] - from, ids.a + start, a.ends[s] - start, false, marks + from);
    }
    for (size_t i = 0; i < b.words.count && !pool.lost; i++) {
        count += marks[i] && !shared[ids.b[i]];
        shared[ids.b[i]] = shared[ids.b[i]] || marks[i];
    }
    if (pool.lost)
        return eval_pool_score(&pool, 0);
    const double recall = (double)count / (double)different(&pool, ids.b, b.words.count, ids.different);
    const double precision = (double)count / (double)different(&pool, ids.a, a.words.count, ids.different);
    return eval_pool_score(&pool, 2.0 * ((precision * recall) / (precision + recall + 1e-8)));
}

/* ---- the package `rouge_score` ---- */

static bool is_plain(int32_t c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

struct eval_words eval_rouge_words(struct eval_pool *pool, struct eval_codes text, bool stems) {
    const struct eval_codes small = eval_codes_lower(pool, text);
    struct eval_words words = {eval_pool_take(pool, small.count, sizeof(struct eval_codes)), 0};
    for (size_t i = 0, n; words.items && i < small.count; i += n) {
        for (n = 0; i + n < small.count && is_plain(small.items[i + n]);)
            n++;
        if (n > 0) {
            struct eval_codes *word = &words.items[words.count++];
            *word = eval_codes_part(small, i, n);
            if (stems && n > 3)
                eval_stem(word);
        }
        n = cli_max(n, 1);
    }
    return words;
}

static struct eval_rouge_l result(double hits, size_t answer, size_t truth) {
    struct eval_rouge_l rouge = {hits / (double)answer, hits / (double)truth, 0};
    if (rouge.precision + rouge.recall > 0)
        rouge.f1 = 2 * rouge.precision * rouge.recall / (rouge.precision + rouge.recall);
    return rouge;
}

struct eval_rouge_l eval_rouge_of(struct eval_pool *pool, struct eval_words answer, struct eval_words truth) {
    const struct eval_ids ids = eval_words_ids(pool, answer, truth);
    bool *marks = eval_pool_take(pool, truth.count, sizeof *marks);
    size_t hits = 0;
    if (pool->lost || answer.count == 0 || truth.count == 0)
        return (struct eval_rouge_l){0, 0, 0};
    eval_lcs(pool, ids.b, truth.count, ids.a, answer.count, true, marks);
    for (size_t i = 0; i < truth.count; i++)
        hits += marks[i];
    return result((double)hits, answer.count, truth.count);
}

struct lines {
    struct eval_words words;
    size_t *ends, count;
};

static struct lines at_line_ends(struct eval_pool *pool, const char *text) {
    const struct eval_codes codes = eval_codes_read(pool, text);
    const struct eval_words pieces = eval_words_cut(pool, codes, '\n');
    struct lines made = {{eval_pool_take(pool, 2 * codes.count, sizeof(struct eval_codes)), 0},
                         eval_pool_take(pool, pieces.count, sizeof(size_t)),
                         0};
    for (size_t i = 0; i < pieces.count && !pool->lost; i++) {
        const struct eval_words words = eval_rouge_words(pool, pieces.items[i], false);
        for (size_t w = 0; w < words.count; w++)
            made.words.items[made.words.count++] = words.items[w];
        made.ends[made.count++] = made.words.count;
    }
    return made;
}

double eval_rouge_sum(const char *answer, const char *truth) {
    struct eval_pool pool = {0};
    const struct lines a = at_line_ends(&pool, answer), b = at_line_ends(&pool, truth);
    const struct eval_ids ids = eval_words_ids(&pool, a.words, b.words);
    size_t *left_a = eval_pool_take(&pool, ids.different, sizeof *left_a);
    size_t *left_b = eval_pool_take(&pool, ids.different, sizeof *left_b), hits = 0;
    bool *marks = eval_pool_take(&pool, b.words.count, sizeof *marks);
    if (pool.lost || a.words.count == 0 || b.words.count == 0)
        return eval_pool_score(&pool, 0);
    for (size_t i = 0; i < a.words.count; i++)
        left_a[ids.a[i]]++;
    for (size_t i = 0; i < b.words.count; i++)
        left_b[ids.b[i]]++;
    for (size_t t = 0, from = 0; t < b.count; from = b.ends[t++]) {
        for (size_t s = 0, start = 0; s < a.count; start = a.ends[s++])
            eval_lcs(&pool, ids.b + from, b.ends[t] - from, ids.a + start, a.ends[s] - start, true, marks + from);
    }
    for (size_t i = 0; i < b.words.count && !pool.lost;
         i++) { /* a word counts at most as often as it occurs in both texts */
        const uint32_t id = ids.b[i];
        if (!marks[i] || left_a[id] == 0 || left_b[id] == 0)
            continue;
        hits++;
        left_a[id]--;
        left_b[id]--;
    }
    const double f1 = result((double)hits, a.words.count, b.words.count).f1;
    return eval_pool_score(&pool, f1);
}

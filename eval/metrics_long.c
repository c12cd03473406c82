/* metrics_long.c - scores of long answers. LongWriter: how close the length is to the requested one
 * (github.com/THUDM/LongWriter, evaluation/eval_length.py and pred.py). LongGenBench: the share of requested pieces
 * that exist (github.com/mozhu621/LongGenBench, Evalution/eval.py). LongGenBench also lets another model judge each
 * piece; that score does not exist here. */
#include "eval/metrics.h"

#include <string.h>

#include "cli/cli.h"

static bool is_ascii_letter(int32_t c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

uint64_t eval_length_count(struct eval_pool *pool, const char *answer) {
    const struct eval_codes text = eval_codes_read(pool, answer);
    uint64_t count = 0;
    for (size_t i = 0, n; i < text.count; i += cli_max(n, 1)) {
        bool letters = true;
        for (n = 0; i + n < text.count && eval_is_letter(text.items[i + n]); n++) {
            const int32_t code = text.items[i + n];
            letters = letters && is_ascii_letter(code);
            count += code >= 0x4e00 && code <= 0x9fff;
        }
        count += n > 0 && letters;
    }
    return count;
}

double eval_length(const char *answer, uint64_t wanted) {
    struct eval_pool pool = {0};
    const double x = (double)wanted, y = (double)eval_length_count(&pool, answer);
    double score = 0;
    if (y > x && x > 0)
        score = 1. - (y / x - 1) / 3;
    else if (y > 0 && y <= x)
        score = 1. - (x / y - 1) / 2;
    return eval_pool_score(&pool, score > 0 ? score : 0);
}

/* Returns the number after the first "KIND " of the piece; 0: none, or above `most`. */
static uint32_t piece_number(struct eval_codes piece, struct eval_codes kind, uint32_t most) {
    for (size_t at = eval_codes_find(piece, kind, 0); at != EVAL_NONE; at = eval_codes_find(piece, kind, at + 1)) {
        uint64_t number = 0;
        size_t i = at + kind.count;
        if (i >= piece.count || piece.items[i] != ' ' || i + 1 >= piece.count || !eval_is_digit(piece.items[i + 1]))
            continue;
        for (i++; i < piece.count && eval_is_digit(piece.items[i]) && number <= most; i++) {
            const int32_t code = piece.items[i]; /* a digit of another script: its value is unknown here */
            number = code >= '0' && code <= '9' ? 10 * number + (uint64_t)(code - '0') : (uint64_t)most + 1;
        }
        return number <= most ? (uint32_t)number : 0;
    }
    return 0;
}

double eval_completion(const char *answer, const char *kind, uint32_t count) {
    static const char mark[] = "#*#";
    struct eval_pool pool = {0};
    const struct eval_codes text = eval_codes_read(&pool, answer), word = eval_codes_read(&pool, kind);
    bool *there = eval_pool_take(&pool, (size_t)count + 1, sizeof *there);
    uint32_t found = 0;
    for (size_t at = 0; there && at <= text.count;) {
        const size_t next = eval_codes_find_ascii(text, mark, at), end = next == EVAL_NONE ? text.count : next;
        const uint32_t number = piece_number(eval_codes_part(text, at, end - at), word, count);
        found += number > 0 && !there[number];
        there[number] = true;
        if (next == EVAL_NONE)
            break;
        at = next + sizeof mark - 1;
    }
    return eval_pool_score(&pool, count ? (double)found / count : 0);
}

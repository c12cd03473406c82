/* metrics_choice.c - extracts the letter from an answer as LongBench v2's script does (github.com/THUDM/LongBench,
 * pred.py). */
#include "eval/metrics.h"

static const char front[] = "The correct answer is ";

/* Returns the first letter A to D that follows `front`, with `before` and `after` around it; 0: none. */
static int32_t find_letter(struct eval_codes text, const char *before, const char *after) {
    for (size_t at = eval_codes_find_ascii(text, front, 0); at != EVAL_NONE;
         at = eval_codes_find_ascii(text, front, at + 1)) {
        struct eval_codes rest = eval_codes_from(text, at + sizeof front - 1);
        if (!eval_codes_begins(rest, before))
            continue;
        rest = eval_codes_from(rest, before[0] != '\0');
        if (rest.count > 0 && rest.items[0] >= 'A' && rest.items[0] <= 'D' &&
            eval_codes_begins(eval_codes_from(rest, 1), after))
            return rest.items[0];
    }
    return 0;
}

double eval_choice(const char *answer, const char *truth) {
    struct eval_pool pool = {0};
    const struct eval_codes text = eval_codes_without(&pool, eval_codes_read(&pool, answer), "*");
    int32_t letter = find_letter(text, "(", ")");
    if (letter == 0)
        letter = find_letter(text, "", "");
    return eval_pool_score(&pool, letter != 0 && truth[0] == letter && truth[1] == '\0');
}

/* score.c - how answers are scored, and how sure a share is. */
#include "eval/task.h"

#include <math.h>
#include <string.h>
#include <strings.h>

/* Whether the text has the words in it; letters of ASCII count as equal in both sizes. */
static bool has(const char *text, const char *words) {
    const size_t bytes = strlen(words);
    for (; *text; text++) {
        if (strncasecmp(text, words, bytes) == 0)
            return true;
    }
    return bytes == 0;
}

double eval_score_all(const struct eval_sample *sample, const char *answer) {
    size_t found = 0;
    for (size_t i = 0; i < sample->answer_count; i++)
        found += has(answer, sample->answers[i]);
    return sample->answer_count ? (double)found / (double)sample->answer_count : 0;
}

double eval_score_any(const struct eval_sample *sample, const char *answer) {
    return eval_score_all(sample, answer) > 0;
}

void eval_wilson(double share, double count, double *low, double *high) {
    const double z = 1.959963984540054; /* of the normal distribution, 2.5 % are above */
    *low = 0;
    *high = 1;
    if (count <= 0)
        return;
    const double whole = 1 + z * z / count, middle = share + z * z / (2 * count);
    const double half = z * sqrt(share * (1 - share) / count + z * z / (4 * count * count));
    *low = fmax(0, (middle - half) / whole);
    *high = fmin(1, (middle + half) / whole);
}

/* score.c - computes the scores of answers, and confidence intervals. */
#include "eval/task.h"
#include "core/base/assert.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Returns true if the text contains the words. Ignores the case of ASCII letters. */
static bool has(const char *text, const char *words) {
    const size_t bytes = strlen(words);
    for (; *text; text++) {
        if (strncasecmp(text, words, bytes) == 0)
            return true;
    }
    return bytes == 0;
}

double eval_score_all(const struct eval_asked *asked, const char *answer) {
    size_t found = 0;
    for (size_t i = 0; i < asked->answer_count; i++)
        found += has(answer, asked->answers[i]);
    return asked->answer_count ? (double)found / (double)asked->answer_count : 0;
}

double eval_score_any(const struct eval_asked *asked, const char *answer) { return eval_score_all(asked, answer) > 0; }

static bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* Returns the number of words. Unless `word` is NULL, word [count] receives the beginnings of the words. */
static size_t find_words(const char *text, const char **word) {
    size_t count = 0;
    for (size_t i = 0; text[i]; i++)
        if (!is_blank(text[i]) && (i == 0 || is_blank(text[i - 1]))) {
            if (word)
                word[count] = text + i;
            count++;
        }
    return count;
}

static bool same_word(const char *a, const char *b) {
    while (*a == *b && *a && !is_blank(*a))
        a++, b++;
    return (!*a || is_blank(*a)) && (!*b || is_blank(*b));
}

double eval_repetition(const char *text, size_t n) {
    const size_t count = find_words(text, NULL), runs = count < n ? 0 : count - n + 1;
    const char **word = malloc((count + 1) * sizeof *word);
    size_t repeated = 0;
    if (!word)
        return -1;
    find_words(text, word);
    for (size_t i = 1; i < runs; i++) {
        bool found = false;
        for (size_t j = 0; j < i && !found; j++) {
            size_t same = 0;
            while (same < n && same_word(word[i + same], word[j + same]))
                same++;
            found = same == n;
        }
        repeated += found;
    }
    free(word);
    return runs ? (double)repeated / (double)runs : 0;
}

double eval_score_begins(const struct eval_asked *asked, const char *answer) {
    for (size_t i = 0; i < asked->answer_count; i++) {
        const char *wanted = asked->answers[i], *at = answer;
        bool same = true;
        while (is_blank(*at))
            at++;
        while (*wanted && same) {
            if (is_blank(*wanted)) { /* blanks in the wanted text match any number of blanks, including none */
                while (is_blank(*wanted))
                    wanted++;
                while (is_blank(*at))
                    at++;
            } else {
                same = *wanted++ == *at;
                at += same;
            }
        }
        if (same && !(*at >= '0' && *at <= '9'))
            return 1;
    }
    return 0;
}

/* Parses the first number of the text. It may have a minus sign, and commas between digits. Returns false if there is
 * no number. */
static bool first_number(const char *text, double *number) {
    char digits[64];
    size_t count = 0;
    const char *at = text;
    while (*at && !(*at >= '0' && *at <= '9'))
        at++;
    if (!*at)
        return false;
    if (at > text && at[-1] == '-')
        digits[count++] = '-';
    for (; count + 1 < sizeof digits; at++) {
        const bool digit = at[0] >= '0' && at[0] <= '9', next = at[0] && at[1] >= '0' && at[1] <= '9';
        if (digit || (at[0] == '.' && next))
            digits[count++] = *at;
        else if (at[0] != ',' || !next)
            break;
    }
    KVC_ASSERT(count < sizeof digits);
    digits[count] = '\0';
    *number = strtod(digits, NULL);
    return true;
}

double eval_score_number(const struct eval_asked *asked, const char *answer) {
    double wanted, given;
    return asked->answer_count > 0 && first_number(asked->answers[0], &wanted) && first_number(answer, &given) &&
           wanted == given;
}

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/* Returns true if the line contains the word with no letter next to it. */
static bool has_word(const char *line, size_t bytes, const char *word) {
    const size_t length = strlen(word);
    for (size_t i = 0; i + length <= bytes; i++) {
        if (strncasecmp(line + i, word, length) == 0 && (i == 0 || !is_letter(line[i - 1])) &&
            (i + length == bytes || !is_letter(line[i + length])))
            return true;
    }
    return false;
}

/* Returns the number at the beginning of a line, after blanks and Markdown marks. Returns 0 if there is none or if it
 * is above `most`. */
static size_t line_number(const char *line, size_t bytes, size_t most) {
    size_t at = 0, number = 0;
    while (at < bytes && (is_blank(line[at]) || strchr("*#-", line[at])))
        at++;
    for (; at < bytes && line[at] >= '0' && line[at] <= '9' && number <= most; at++)
        number = 10 * number + (size_t)(line[at] - '0');
    return number <= most ? number : 0;
}

/* Returns true if the first line that begins with this number contains the word. */
static bool line_has(const char *text, size_t number, size_t most, const char *word) {
    size_t bytes;
    for (const char *line = text; *line; line += bytes + (line[bytes] == '\n')) {
        bytes = strcspn(line, "\n");
        if (line_number(line, bytes, most) == number)
            return has_word(line, bytes, word);
    }
    return false;
}

double eval_score_list(const struct eval_asked *asked, const char *answer) {
    size_t right = 0;
    for (size_t i = 0; i < asked->answer_count; i++)
        right += line_has(answer, i + 1, asked->answer_count, asked->answers[i]);
    return asked->answer_count ? (double)right / (double)asked->answer_count : 0;
}

void eval_wilson(double share, double count, double *low, double *high) {
    const double z = 1.959963984540054; /* 97.5 % quantile of the normal distribution */
    *low = 0;
    *high = 1;
    if (count <= 0)
        return;
    const double whole = 1 + z * z / count, middle = share + z * z / (2 * count);
    const double half = z * sqrt(share * (1 - share) / count + z * z / (4 * count * count));
    *low = fmax(0, (middle - half) / whole);
    *high = fmin(1, (middle + half) / whole);
    KVC_ASSERT(share < 0 || share > 1 || (*low <= share + 1e-9 && *high >= share - 1e-9));
}

void eval_normal(double sum, double squares, double count, double *low, double *high) {
    const double z = 1.959963984540054, mean = count > 0 ? sum / count : 0;
    const double variance = count > 1 ? fmax(0, (squares - count * mean * mean) / (count - 1)) : 0;
    const double half = count > 1 ? z * sqrt(variance / count) : 0;
    *low = mean - half;
    *high = mean + half;
}

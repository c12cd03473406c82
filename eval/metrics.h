/* metrics.h - scores of answers, computed as the benchmarks' scripts compute them. A score is 0 to 1, or negative if
 * memory ran out. `answer` is the model's text; `truth` (or each of `truths`) is a correct answer. Invalid UTF-8
 * becomes U+FFFD. docs/how-to/benchmark-files.md lists the metric of each benchmark. tests/data/metrics.json has scores
 * of the official scripts. */
#ifndef KVC_EVAL_METRICS_H
#define KVC_EVAL_METRICS_H

#include "eval/codes.h"

struct eval_list { /* a list of texts */
    const char *const *items;
    size_t count;
};
typedef double (*eval_metric)(const char *answer, const char *truth);
/* Returns the best score among the truths; 0 without truths. */
double eval_best_of(eval_metric metric, const char *answer, struct eval_list truths);

/* ---- LongBench (metrics_words.c, metrics_rouge.c, metrics_code.c) ---- */

/* Returns the F1 score of the answer's and the truth's words as multisets: 2PR / (P + R), with P the precision and R
 * the recall. Words are lower case, without ASCII punctuation and articles. */
double eval_word_f1(const char *answer, const char *truth);
/* Returns the F1 score for Chinese. A word is one character, or a run of ASCII letters and digits; punctuation is
 * ignored. The original script uses jieba to find words. */
double eval_chinese_f1(const char *answer, const char *truth);
/* ROUGE-L as the package `rouge` computes it. Sentences end at full stops, words at blanks, and each different word
 * counts once. The score uses the union of the longest common subsequences of every pair of a truth's and an answer's
 * sentence. */
double eval_rouge(const char *answer, const char *truth);
double eval_chinese_rouge(const char *answer, const char *truth); /* eval_rouge with the words of eval_chinese_f1 */
/* Returns 1/n if the answer contains n of the classes and the truth is one of them. Classes that are a proper part of
 * the truth do not count. (Like the script, it ignores only the first of two such consecutive classes.) */
double eval_class(const char *answer, const char *truth, struct eval_list classes);
/* Returns the share of the numbers in the answer that equal the truth. In retrieval tasks, the truth's number follows
 * "Paragraph " or its Chinese translation. */
double eval_count(const char *answer, const char *truth);
double eval_retrieval(const char *answer, const char *truth);
double eval_chinese_retrieval(const char *answer, const char *truth);
/* difflib's similarity 2M / T, rounded to hundredths. Compares the first line of the answer without a backquote, # or
 * //. */
double eval_code_similarity(const char *answer, const char *truth);
double eval_similarity(struct eval_pool *pool, struct eval_codes a, struct eval_codes b); /* 2M / T */
/* Returns the answer's first line after empty lines, malloc'ed, or NULL if out of memory. Few-shot tasks score only
 * this line. */
char *eval_first_line(const char *answer);

/* ---- LongBench v2 (metrics_choice.c) ---- */

/* Compares the letter after "The correct answer is". Asterisks are ignored. A letter in parentheses has precedence. */
double eval_choice(const char *answer, const char *truth);

/* ---- InfiniteBench (metrics_infinite.c) ---- */

double eval_infinite_value(const char *answer, const char *truth);  /* the truth is a word of the answer */
double eval_infinite_number(const char *answer, const char *truth); /* the truth is the first run of digits */
double eval_infinite_run(const char *answer, const char *truth);  /* the last word equals the truth as a whole number */
double eval_infinite_find(const char *answer, const char *truth); /* the first number equals the truth */
double eval_infinite_steps(const char *answer, struct eval_list truths); /* share of correct numbers at the beginning */
double eval_infinite_speaker(const char *answer,
                             const char *truth); /* the truth is a word of the answer, in capitals */
/* `truths` are the option's text and its letter. */
double eval_infinite_option(const char *answer, struct eval_list truths);
double eval_infinite_bug(const char *answer, struct eval_list truths);
double eval_character_f1(const char *answer, const char *truth); /* F1 of characters, no punctuation or whitespace */
/* ROUGE-Lsum as the package `rouge_score` computes it, without stemming. A sentence is a line. */
double eval_rouge_sum(const char *answer, const char *truth);

/* ---- HELMET (metrics_helmet.c) ---- */

/* Returns the better score of the whole answer and of the rest of the line after `prefix` ("Answer:"), among all
 * truths. */
enum eval_helmet { EVAL_HELMET_EXACT, EVAL_HELMET_PART, EVAL_HELMET_F1, EVAL_HELMET_ROUGE, EVAL_HELMET_ROUGE_RECALL };
double eval_helmet(enum eval_helmet metric, const char *answer, const char *prefix, struct eval_list truths);
/* Returns the share of truths that the answer contains, ignoring case. */
double eval_recall(const char *answer, struct eval_list truths);
/* Returns NDCG@10 of the ranking "ID3 > ID1 > ...", rounded to 0.00001. `ids` are the documents and gains [count] their
 * relevance. */
double eval_ndcg(const char *answer, struct eval_list ids, const int *gains);

/* ---- long answers (metrics_long.c, metrics_process.c) ---- */

/* LongWriter's length score: 1 - (y/x - 1)/3 if y is above the requested length x, 1 - (x/y - 1)/2 if below. y counts
 * words of ASCII letters and Chinese characters. */
double eval_length(const char *answer, uint64_t wanted);
uint64_t eval_length_count(struct eval_pool *pool, const char *answer);
/* LongGenBench: returns the share of the pieces 1 ... count that the answer contains. A piece begins with "#*#" and
 * contains "KIND n". */
double eval_completion(const char *answer, const char *kind, uint32_t count);
/* LongProc: returns 1 if everything is correct, otherwise 0. *part is the script's partial accuracy; part may be NULL.
 */
double eval_route(const char *answer, const char *truth, double *part);
double eval_beliefs(const char *answer, const char *truth, double *part);
double eval_table(const char *answer, const char *truth); /* F1 of the rows */
double eval_countdown(const char *answer, const int64_t numbers[4], int64_t target);

/* ---- helpers of the metrics ---- */

double eval_f1_of(struct eval_pool *pool, struct eval_words answer, struct eval_words truth);
/* Finds a longest common subsequence, and sets marks [x_count] for its elements of x. If two are equally long, `up`
 * shortens x first. */
void eval_lcs(struct eval_pool *pool, const uint32_t *x, size_t x_count, const uint32_t *y, size_t y_count, bool up,
              bool *marks);
/* Returns the words as `rouge_score` splits them. If `stems` is true, replaces words of more than three letters by
 * their Porter stems. */
struct eval_words eval_rouge_words(struct eval_pool *pool, struct eval_codes text, bool stems);
struct eval_rouge_l {
    double precision, recall, f1;
};
struct eval_rouge_l eval_rouge_of(struct eval_pool *pool, struct eval_words answer, struct eval_words truth);
/* Replaces a word (letters a to z and digits) by its Porter stem, in place (metrics_stem.c). */
void eval_stem(struct eval_codes *word);

#endif

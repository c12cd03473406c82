/* metrics.h - scores of an answer as the benchmarks' own scripts compute them. All are 0 to 1, and negative where
 * memory ran out. `answer` is what the model wrote, `truth` (or each of `truths`) what was wanted; bytes that are no
 * UTF-8 count as U+FFFD. docs/how-to/benchmark-files.md says which benchmark takes which, and tests/data/metrics.json
 * has the numbers of the official scripts. */
#ifndef KVC_EVAL_METRICS_H
#define KVC_EVAL_METRICS_H

#include "eval/codes.h"

struct eval_list { /* of texts */
    const char *const *items;
    size_t count;
};
typedef double (*eval_metric)(const char *answer, const char *truth);
/* The best of all truths; 0 of none. */
double eval_best_of(eval_metric metric, const char *answer, struct eval_list truths);

/* ---- LongBench (metrics_words.c, metrics_rouge.c, metrics_code.c) ---- */

/* F1 of the words of both as sets that may hold a word several times: 2PR / (P + R), P of the answer's words and R of
 * the truth's. Words: small letters, without ASCII punctuation and articles. */
double eval_word_f1(const char *answer, const char *truth);
/* The same of Chinese: a word is a character or a row of ASCII's letters and digits, punctuation is left out. The
 * script asks jieba for words. */
double eval_chinese_f1(const char *answer, const char *truth);
/* ROUGE-L as the package `rouge` has it: sentences end at full stops, words at blanks, each different word counts once;
 * the words of the longest common subsequences of every sentence of the truth with every one of the answer, together.
 */
double eval_rouge(const char *answer, const char *truth);
double eval_chinese_rouge(const char *answer, const char *truth); /* words as those of eval_chinese_f1 */
/* One over how many of the classes the answer has in it, if the truth is among these. Classes that are part of the
 * truth, and not the truth, do not count (of two that follow each other only the first is left out, as the script). */
double eval_class(const char *answer, const char *truth, struct eval_list classes);
/* Of the numbers in the answer the share that is the truth; the truth's own is what follows "Paragraph " or its Chinese
 * word. */
double eval_count(const char *answer, const char *truth);
double eval_retrieval(const char *answer, const char *truth);
double eval_chinese_retrieval(const char *answer, const char *truth);
/* 2M / T of Python's difflib, in whole hundredths: the first line of the answer that has no backquote, # or //. */
double eval_code_similarity(const char *answer, const char *truth);
double eval_similarity(struct eval_pool *pool, struct eval_codes a, struct eval_codes b); /* 2M / T */
/* The answer's first line, after empty ones: what a few-shot task is scored by. malloc'ed; NULL: no memory. */
char *eval_first_line(const char *answer);

/* ---- LongBench v2 (metrics_choice.c) ---- */

/* The letter after "The correct answer is", in brackets anywhere or else without; asterisks aside. */
double eval_choice(const char *answer, const char *truth);

/* ---- InfiniteBench (metrics_infinite.c) ---- */

double eval_infinite_value(const char *answer, const char *truth);       /* is a word of the answer */
double eval_infinite_number(const char *answer, const char *truth);      /* is the first row of digits */
double eval_infinite_run(const char *answer, const char *truth);         /* the last word is this whole number */
double eval_infinite_find(const char *answer, const char *truth);        /* the first number is this one */
double eval_infinite_steps(const char *answer, struct eval_list truths); /* leading numbers that are right, of all */
double eval_infinite_speaker(const char *answer, const char *truth);     /* is a word of the answer, in capitals */
/* truths: the option's text and its letter */
double eval_infinite_option(const char *answer, struct eval_list truths);
double eval_infinite_bug(const char *answer, struct eval_list truths);
double eval_character_f1(const char *answer, const char *truth); /* of characters, without punctuation and blanks */
/* ROUGE-Lsum as the package `rouge_score` has it, without stems; sentences are lines. */
double eval_rouge_sum(const char *answer, const char *truth);

/* ---- HELMET (metrics_helmet.c) ---- */

/* The better of the whole answer and the rest of its line after `prefix` ("Answer:"), of all truths. */
enum eval_helmet { EVAL_HELMET_EXACT, EVAL_HELMET_PART, EVAL_HELMET_F1, EVAL_HELMET_ROUGE, EVAL_HELMET_ROUGE_RECALL };
double eval_helmet(enum eval_helmet metric, const char *answer, const char *prefix, struct eval_list truths);
/* The same without looking at the whole answer. */
double eval_helmet_parsed(enum eval_helmet metric, const char *answer, const char *prefix, struct eval_list truths);
/* The share of the truths that the answer has, letters' sizes aside. */
double eval_recall(const char *answer, struct eval_list truths);
/* NDCG@10 of the ranking "ID3 > ID1 > ..." : documents' ids and their gains, [count]. In steps of 0.00001. */
double eval_ndcg(const char *answer, struct eval_list ids, const int *gains);

/* ---- answers that are long (metrics_long.c, metrics_process.c) ---- */

/* LongWriter: 1 - (y/x - 1)/3 above the asked-for length x, 1 - (x/y - 1)/2 below it; y counts words of ASCII letters
 * and Chinese characters. */
double eval_length(const char *answer, uint64_t wanted);
uint64_t eval_length_count(struct eval_pool *pool, const char *answer);
/* LongGenBench: of the pieces 1 ... count the share that the answer has, each begun by "#*#" and with "KIND n" in it.
 */
double eval_completion(const char *answer, const char *kind, uint32_t count);
/* LongProc: all right (1 or 0); *part is how far, as the script's partial accuracy. part may be NULL. */
double eval_route(const char *answer, const char *truth, double *part);
double eval_beliefs(const char *answer, const char *truth, double *part);
double eval_table(const char *answer, const char *truth); /* F1 of the rows */
double eval_countdown(const char *answer, const int64_t numbers[4], int64_t target);
double eval_travel(const char *answer, const char *cities, const char *days); /* "A**B", "2**3" */

/* ---- shared by the above ---- */

double eval_f1_of(struct eval_pool *pool, struct eval_words answer, struct eval_words truth);
/* The longest common subsequence; marks [x count] which of x are in it. up: of equal ones, x is shortened first. */
void eval_lcs(struct eval_pool *pool, const uint32_t *x, size_t x_count, const uint32_t *y, size_t y_count, bool up,
              bool *marks);
/* The words as `rouge_score` has them; stems: longer than three letters by Porter's algorithm. */
struct eval_words eval_rouge_words(struct eval_pool *pool, struct eval_codes text, bool stems);
struct eval_rouge_l {
    double precision, recall, f1;
};
struct eval_rouge_l eval_rouge_of(struct eval_pool *pool, struct eval_words answer, struct eval_words truth);
/* Porter's stem of a word of letters a to z and digits, in place (metrics_stem.c). */
void eval_stem(struct eval_codes *word);

#endif

/* needle.h - options and results of `kvcull eval needle`, shared by the run and its report. */
#ifndef KVC_EVAL_NEEDLE_H
#define KVC_EVAL_NEEDLE_H

#include "eval/eval.h"
#include "eval/needle_text.h"

#define NEEDLE_DEPTHS 20u

struct needle_cell { /* results of one policy at one length */
    uint64_t asked[NEEDLE_DEPTHS], right[NEEDLE_DEPTHS];
    uint64_t unseen[NEEDLE_DEPTHS]; /* correct answers with NEEDLE_BOTH, for questions that are a turn after the text */
    uint64_t prompts, entries, held_bytes, peak_bytes, read_bytes, steps;
    double seconds;
};

/* How a text's questions are asked. NEEDLE_ONE asks each question directly after the text. NEEDLE_ANSWER asks for all
 * facts in one answer. NEEDLE_TURNS asks in turns of a conversation. NEEDLE_BOTH asks each question directly after the
 * text, and also as a separate turn. */
enum needle_mode { NEEDLE_ONE, NEEDLE_ANSWER, NEEDLE_TURNS, NEEDLE_BOTH };
extern const char *const needle_modes[]; /* "one", "answer", "turns" and "both" */

struct needle_task {
    const struct cli_command *command;
    struct cli_common common;
    const char *model_path, *words_path, *out, *ask;
    enum needle_mode mode;
    struct cli_texts specs;
    struct cli_counts lengths;
    int64_t texts, depth_count, seed, show;
    double depths[NEEDLE_DEPTHS];
    struct kvc_engine *engine;
    struct kvc_model *model;
    struct needle_words words;
    float *logits;
    struct needle_cell *cells; /* [lengths, specs] */
    struct cli_progress progress;
    uint64_t done, total; /* numbers of runs; a run is one policy on one text */
};

struct needle_cell *needle_cell_at(const struct needle_task *task, size_t length, size_t spec);

/* The report: a table for one length, all results as JSON, all results as CSV (the argument `user` is the task). */
int needle_print_length(const struct needle_task *task, size_t length);
json_t *needle_json(const struct needle_task *task);
void needle_csv(const void *user, FILE *stream);

#endif

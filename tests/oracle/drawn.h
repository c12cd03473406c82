/* drawn.h - makes policies with random options and their oracles' plans, and runs them over random prompts, heads and
 * tensors. The ends of each range, and prompts around the budget, are frequent. */
#ifndef KVC_TESTS_ORACLE_DRAWN_H
#define KVC_TESTS_ORACLE_DRAWN_H

#include "tests/oracle/entries.h"
#include "tests/oracle/mass.h"
#include "tests/oracle/scores.h"
#include "tests/oracle/select.h"
#include "tests/oracle/side_by_side.h"

enum { MOST_LAYERS = 5, MOST_LISTS = 8, MOST_HEADS = 14, HEAD_SIZE = 8 };

/* merging and cam, with the method that evicts */
struct merge_plan {
    struct side evicts;
    const enum kvc_type *type;
    uint32_t left_out;
    bool similar; /* merging */
    float threshold;
    uint32_t span; /* cam */
    uint64_t seed;
    bool keeps_prompt;
};

/* think, with another method; other.prompt NULL: alone */
struct think_plan {
    struct side other;
    uint32_t left_out, channels, window, recent; /* channels 0: by the ratio */
    double ratio;
};

moment_fn oracle_think_prompt, oracle_think_step;

struct drawn {
    char spec[800];
    uint32_t layers, heads, kv_heads;
    uint32_t budget, share; /* `share`: a percentage of the held entries that replaces the budget; 0: no percentage */
    uint32_t each[MOST_LAYERS]; /* the budget or percentage of each layer; 0: all layers have the same */
    uint32_t left_out;          /* one bit for each layer in which the method does not act */
    bool per_head, cut_rows;
    bool both; /* a method with two stages uses both */
    struct plan plan;
    struct scores_plan scores;
    struct mass_plan mass;
    struct cake_seen seen;
    struct select_plan select;
    struct entries_plan entries;
    struct parts parts;
    struct merge_plan merge;
    struct think_plan think;
    struct side side;
    struct side one; /* with budgets per layer: the side of the plan, which holds one layer's budget */
    float file[MOST_LAYERS * MOST_LISTS];
    char path[32]; /* the file that an option names; empty: no file */
    float centres[MOST_LAYERS * MOST_HEADS * HEAD_SIZE];
    float spreads[MOST_LAYERS * MOST_HEADS * HEAD_SIZE * (HEAD_SIZE + 1) / 2];
};

/* Returns a random number below n. The seed of drawn_begin starts the sequence. */
uint32_t drawn_below(uint32_t n);
/* Write to d->path the file that duo reads, or one with statistics of queries; also fill d->file, or d->centres and the
 * parts of the plan that depend on it. */
void drawn_scores(struct drawn *d);
enum drawn_file { DRAWN_PAIRS, DRAWN_COVARIANCES, DRAWN_FILTERS };
void drawn_stats(struct drawn *d, enum drawn_file kind);
/* Appends formatted text to the policy string. */
void drawn_say(struct drawn *d, const char *format, ...);
/* Begins a case: sets the numbers of heads and the random sequence. */
void drawn_begin(struct drawn *d, uint64_t seed, uint32_t layers);
/* Compares a replay of the policy with its oracle: prompts below, at, just above and well above the budget. `steps` is
 * the number of steps of the first turn, or UINT32_MAX for random turns. */
void drawn_run(struct drawn *d, uint32_t steps);

/* Each function appends the text of its policy and fills the policy's plans. */
typedef void draw_fn(struct drawn *d);
#define METHOD(name, function) draw_fn draw_##function;
#include "tests/oracle/methods.def"
#undef METHOD

#endif

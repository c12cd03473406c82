/* rules.c - what holds for every method: words, stages and numbered rules, for the manual page and
 * docs/reference/methods.md. Comments in the source that name a rule of docs/reference/methods.md mean the rule of that
 * number here. */
#include "cli/info/info.h"

#define TEXT(member) offsetof(struct kvc_policy_class, member)
const struct info_part info_before[] = {
    {"idea", "Idea", TEXT(idea)}, {"formula", "Formula", TEXT(formula)}, {NULL, NULL, 0}};
const struct info_part info_after[] = {{"memory", "Memory", TEXT(memory)},
                                       {"traffic", "Traffic", TEXT(traffic)},
                                       {"second_turn", "A second turn", TEXT(second_turn)},
                                       {"paper", "Paper", TEXT(paper)},
                                       {"differences", "Differences from the authors' code", TEXT(differences)},
                                       {NULL, NULL, 0}};

const char *info_text(const struct kvc_policy_class *policy, const struct info_part *part) {
    const char *text = *(const char *const *)((const char *)policy + part->offset);

    return text ? text : "";
}

const struct info_rule info_words[] = {
    {"L, H, H_kv, d", "layers, query heads, key-value heads, head size"},
    {"G", "H / H_kv, the query heads that share one key-value head (a group)"},
    {"N", "length of the prompt in tokens; positions start at 0"},
    {"n", "tokens seen so far, or the entries held of them"},
    {"entry", "the key and value of one token in one key-value head of one layer, with its original position"},
    {"B", "budget: entries per key-value head and layer after an eviction, with everything in it"},
    {"w", "observation window: the prompt's last w queries"},
    {"R", "recent window while decoding: positions from now - R on, where now is the number of tokens seen"},
    {"a_ij", "attention probability of key j for query i, in one layer and query head: the softmax of s_ij = (q_i . "
             "k_j) / sqrt(d), or with the model's own scale in place of 1 / sqrt(d) and capped where it has a soft "
             "cap, over all entries that query i attended to and the head's attention sink, where the model has sinks, "
             "in float32"},
    {"sinks elsewhere",
     "in the softmax by which select methods choose, also of guessed scores, the sink counts as it does in a_ij. Over "
     "entries alone are keyformer's softmax (noise, a temperature) and that of morphkv's scores=logits: a sink has no "
     "key, so no draw of noise, and is nothing that could be evicted; each query's vote adds up to 1"},
    {"window mass", "of entry j: the sum of a_ij over the window's queries and the group's heads"},
    {NULL, NULL}};

const struct info_rule info_stage_rules[] = {
    {"chunk", "after a chunk of the prompt, in all layers: evicts"},
    {"prompt", "after the prompt, layer by layer: evicts"},
    {"propagate", "after a layer of the prompt: prunes tokens, of which the layers above compute no rows"},
    {"select", "before a decode step's attention: chooses what is read, and evicts nothing"},
    {"decode", "after a decode step: evicts"},
    {NULL, NULL}};

const char info_joining[] =
    "Methods of different stages are joined by +, as in snapkv:budget=512+morphkv:budget=256. One method holds a "
    "stage. A method of the prompt and decode stages yields either of them to a method that has not both; fastkv "
    "yields the prompt stage to a method that does not yield it; rocketkv and rocketkv-mt act in both of their stages "
    "or not at all. Any other two that want one stage are refused with both names, unless stages= leaves one of them "
    "another; so are take with fastkv, which must see the whole prompt. Beside a method of the prompt stage the recent "
    "entries of a decode method are still those of the last positions, present or not: morphkv does not replace "
    "missing ones, h2o, keyformer and scissorhands fill up by score.";

const struct info_rule info_rules[] = {
    {"Groups decide together.", "There is one selection per key-value head, from sums over its group."},
    {"Positions stay.",
     "A kept key keeps its rotation; the next token takes the next true position. With streaming and lacache "
     "positions=cache is the exception: the entry of rank r has the key of a token at position r, and a query stands "
     "at "
     "the rank of its own entry. Only methods that select may be joined with it."},
    {"Order.", "Kept entries are in ascending position; windows, pooling and pages run over that list."},
    {"Ties.",
     "The higher score wins; of equal scores (-0 and +0 are equal) the lower index in the list. NaN never wins."},
    {"Within the budget nothing happens.",
     "While a head holds no more than its budget everything is kept and read, and results equal those of full to the "
     "bit."},
    {"Pooling",
     "is one-dimensional with stride 1 and an odd kernel, after the group's sum, on what is left when the window is "
     "cut "
     "off. With max it looks only at what lies inside; with avg it counts the outside as zero and divides by the "
     "kernel."},
    {"Budgets", "are tokens or a share of the prompt (10%; at least w + 1, or 1 without a window). What cannot be is "
                "an error that "
                "names option, value and range, before a model is loaded."},
    {"Layers.",
     "They are those with attention, numbered from 0; recurrent layers between them hold no entries. "
     "skip_layers=n leaves the first n layers full; layers=0-3/8 acts on these alone. Naming a layer that the model "
     "does "
     "not have, or leaving none to act on, is an error that says how many there are. A method of the prompt and decode "
     "stages takes stages=prompt or stages=decode."},
    {"State is memory.", "Scores and rings count as cache and are reported with it."},
    {"Rounding",
     "is to the nearest, halves up; half of a count is its floor where a formula does not say otherwise; a count never "
     "exceeds what there is."},
    {"Methods that select", "read everything until a head holds more than their budget."},
    {"A decode step", "appends, then reads, then evicts: a query may see B + 1 entries (B + k where a method evicts at "
                      "every k-th step)."},
    {"Scores see stored keys,", "rounded to the cache's type, and probabilities as the attention computed them: "
                                "evicted entries count 0 and nothing is "
                                "renormalised."},
    {"Methods of the prompt stage let the cache grow", "after the prompt, unless a decode method is joined."},
    {"A second turn",
     "attends to what is held and to itself, and runs the prompt stage again over both: N is then the number of "
     "entries "
     "held with the turn's prompt in, shares of a budget count from it, and w is at most the turn's tokens. What was "
     "evicted does not come back. Each method says what else it does."},
    {"Sliding windows",
     "come first. In a layer that sees its last W positions, entries that no later row can see are gone before a "
     "method "
     "chooses what stays, so a budget is spent on what can be seen. A head holds no more than its budget, as rule 5 "
     "says, "
     "where at most that many of its entries can be seen, and N is at most W - 1. Until a method evicts from the "
     "layer, and with methods that only select, what is hidden goes 256 entries at a time, at the front of the list, "
     "and "
     "every bit is that of keeping it; after that it goes entry by entry: before each choice, at the end of a prompt, "
     "and before a step at each 256th position. lacache, which plans before the step, leaves the entry that its own "
     "row is "
     "the last to see. Where take's layer W - 1 has a window and chooses for a layer that sees more, it chooses among "
     "all "
     "that it holds, and windows take theirs from what it leaves."},
    {NULL, NULL}};

/* rules.c - terms, stages and numbered rules of all methods, for the manual page and docs/reference/methods.md.
 * Comments in the source cite these rules by number. */
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
    {"L, H, H_kv, d", "number of layers, query heads and key-value heads, and the head size"},
    {"G", "H / H_kv: the number of query heads that share one key-value head (a group)"},
    {"N", "length of the prompt in tokens; positions start at 0"},
    {"n", "number of tokens so far, or number of entries of these tokens that are held"},
    {"entry", "the key and value of one token in one key-value head of one layer, with the token's position"},
    {"index", "place of an entry in the list of its head; 0 is the oldest"},
    {"B", "budget: entries per key-value head and layer after an eviction, sinks and windows included"},
    {"w", "observation window: the last w queries of the prompt"},
    {"R", "recent window in decode: positions from now - R on, where now is the number of tokens so far"},
    {"a_ij", "attention probability of key j for query i, in one layer and query head: the softmax of s_ij in float32, "
             "over all entries that query i attended to and over the head's attention sink, if the model has sinks. "
             "s_ij = (q_i . k_j) / sqrt(d); a model may have its own scale in place of 1 / sqrt(d), and a soft cap"},
    {"sinks elsewhere", "the softmax by which select methods choose includes the attention sink, as a_ij does, even if "
                        "the scores are estimates. Two other softmaxes cover entries alone, without the sink: that of "
                        "keyformer (with noise and a temperature) and that of morphkv with scores=logits. A sink has "
                        "no key, so it gets no noise and cannot be evicted. In these two softmaxes, each query's votes "
                        "add up to 1"},
    {"window mass", "of entry j: the sum of a_ij over the window's queries and the group's heads"},
    {NULL, NULL}};

const struct info_rule info_stage_rules[] = {
    {"chunk", "after each chunk of the prompt, in all layers: evicts entries"},
    {"prompt", "after the prompt, layer by layer: evicts entries"},
    {"propagate", "after one layer of the prompt: drops tokens, for which the layers above compute no rows"},
    {"select", "before the attention of a decode step: chooses the entries to read, and evicts nothing"},
    {"decode", "after a decode step: evicts entries"},
    {NULL, NULL}};

const char info_joining[] =
    "Join methods of different stages with +, as in snapkv:budget=512+morphkv:budget=256. Each stage has at most one "
    "method. If a joined method has only a prompt stage or only a decode stage, a method with both stages gives up "
    "that stage. The method fastkv gives up its prompt stage if a joined method needs this stage. The methods rocketkv "
    "and rocketkv-mt act in both of their stages or not at all. If any other two methods need the same stage, the "
    "policy is refused, and the error names both; the option stages= can limit one of them to its other stage. The "
    "methods take and fastkv cannot be joined, because fastkv must see the whole prompt. If a prompt method is joined, "
    "a decode method still counts the last positions as recent, although the prompt method may have evicted entries "
    "there. Then morphkv holds fewer entries, while h2o, keyformer and scissorhands keep more entries with high "
    "scores.";

const struct info_rule info_rules[] = {
    {"Groups decide together.", "Each key-value head has one selection. An entry's score is the sum of its scores over "
                                "the query heads of the group."},
    {"Positions stay.",
     "A kept key keeps its rotation, and the next token takes the next position of the text. The exception is the "
     "option positions=cache of the methods streaming, lacache, finch and take. With this option, the key of the entry "
     "with index r is rotated to position r. The query of a token is rotated to the index of that token's own entry. "
     "A method with positions=cache may be joined only with select methods."},
    {"Order.", "Kept entries are in the order of their positions. Windows, pooling and pages follow that order."},
    {"Ties.",
     "The higher score wins. Of equal scores (-0 and +0 are equal) the lower index wins. NaN never wins. Scores are "
     "float32, summed in one order (queries from old to new, then heads), the same on every machine. If the "
     "scores of two entries are sums of the same terms in different orders, the scores may differ in their last bit. "
     "Such scores are not equal here, so the entry with the lower index may lose."},
    {"Within the budget nothing happens.", "While a head holds no more entries than its budget, everything is kept and "
                                           "read, and results are bit-identical to those of full."},
    {"Pooling", "is one-dimensional, with stride 1 and an odd kernel. It applies to the sums of rule 1, and leaves out "
                "the entries of the observation window. At both ends of the range, some neighbours are missing: max "
                "ignores them; avg counts them as zero and always divides by the kernel size."},
    {"Budgets",
     "are a number of tokens or a share of the prompt, such as 10%. A share is raised, if necessary, to one token "
     "more than the method always keeps: to w + 1 tokens with an observation window of w tokens, to one token more "
     "than the sinks, or to 1 token if the method has neither. budget=512/256/128 gives each layer its own budget, "
     "whether the method acts on it or not: all in tokens, or all as shares (50%/25%/10%). Methods that divide one "
     "budget among the layers refuse a budget for each layer, and so do methods in which one layer chooses for other "
     "layers. A prompt method and a select method can share a split budget, just as snapkv and hsa share the budget of "
     "rocketkv. An example is adakv:budget=split:512+quest:budget=split:512. Here the whole compression is c = N / "
     "512, with N as in rule 15. The prompt method compresses by the factor c^r, where r = min(0.2 + 0.06 log2 c, "
     "0.8): "
     "it keeps floor(N / c^r) entries, but no fewer than the minimum of a share. The select method's budget is 512. "
     "The select "
     "method computes its pages and channels for the entries that the prompt method keeps. Both methods need the same "
     "split budget. Shares of other things, which are numbers from 0 to 1, are also accepted as 40%. "
     "An impossible value is an error that names the option, the value and the range, before a model is "
     "loaded."},
    {"Layers",
     "with attention are numbered from 0. Recurrent layers between them hold no entries and have no number. With "
     "skip_layers=n the first n layers stay full. With layers=0-3/8 a method acts on layers 0 to 3 and 8 only. If "
     "these options name a layer that the model lacks, or leave no layer to act on, the error gives the number of "
     "layers. A method with a prompt and a decode stage accepts the option stages=prompt or stages=decode, which "
     "limits it to that stage."},
    {"State is memory.", "Scores and ring buffers count as memory of the cache and are reported with it."},
    {"Rounding", "is to the nearest integer, halves up. A formula that halves a count rounds down, unless it says "
                 "otherwise. A count never exceeds the number of entries present."},
    {"Select methods", "read everything until a head holds more entries than their budget. Entries or pages that a "
                       "sliding window hides completely rank below all others."},
    {"A decode step", "first appends an entry, then reads, then evicts. So a query may attend to B + 1 entries (B + k "
                      "if a method evicts at every k-th step)."},
    {"Scores use stored keys,", "rounded to the cache's type, and the probabilities that the attention computed. "
                                "Evicted entries count 0, and nothing is renormalized."},
    {"Prompt methods let the cache grow", "after the prompt, unless a decode method is joined."},
    {"A second turn",
     "attends to the entries held and to itself, and then runs the prompt stage again over both. N is then the number "
     "of entries held, including the turn's prompt. A budget given as a share is a share of this N, and w is at most "
     "the number of the turn's tokens. Evicted entries do not come back. The page of each method says what else it "
     "does."},
    {"Sliding windows",
     "come first. In a layer whose rows attend to the last W positions only, an entry expires when no later row can "
     "attend to it. Expired entries are removed before a method chooses, so a budget is spent on entries that can "
     "still be read. For rule 5 only entries that are not expired count, and N is at most W - 1. Until a method evicts "
     "from the layer (select methods never do), expired entries are removed from the front of the list, 256 at a time, "
     "and results are bit-identical to those without removal. After that, all expired entries are removed before each "
     "choice, at the end of a prompt, and before the step at every 256th position. The method lacache chooses before "
     "the step's row is appended. The entry that expires with this row still counts as present then. In the method "
     "take, one layer chooses for all lower layers. If this layer has a sliding window and a lower layer attends "
     "further back, it chooses among all entries that it holds, expired ones included. Layers with sliding windows "
     "then drop the expired entries of this choice."},
    {"Values stay",
     "as they were stored. The exceptions are merging and cam. They have no stage: joined with other methods, they "
     "change values of entries that are kept, before each eviction of these methods but not when entries expire. The "
     "new values are rounded to the cache's type. Keys stay, too, except with think. It has no stage either: after the "
     "prompt stage it sets channels of the remaining keys to 0, whether another method is joined or not."},
    {NULL, NULL}};

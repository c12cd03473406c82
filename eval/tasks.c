/* tasks.c - the table of tasks, from which lists, help and manual are made, and the commands of those that have options
 * of their own. Adding a task: its generator and a row here. */
#include "eval/eval.h"
#include "eval/task.h"

#include <string.h>

const char *const eval_file_options[EVAL_FILES] = {"essays", "squad", "hotpotqa"};

/* ---- RULER ---- */

static const struct eval_niah single_1 = {EVAL_NOISE, false, false, 1, 1, 1};
static const struct eval_niah single_2 = {EVAL_ESSAY, false, false, 1, 1, 1};
static const struct eval_niah single_3 = {EVAL_ESSAY, false, true, 1, 1, 1};
static const struct eval_niah multikey_1 = {EVAL_ESSAY, false, false, 4, 1, 1};
static const struct eval_niah multikey_2 = {EVAL_NEEDLES, false, false, 1, 1, 1};
static const struct eval_niah multikey_3 = {EVAL_NEEDLES, true, true, 1, 1, 1};
static const struct eval_niah multivalue = {EVAL_ESSAY, false, false, 1, 4, 1};
static const struct eval_niah multiquery = {EVAL_ESSAY, false, false, 1, 1, 4};
static const int squad = EVAL_SQUAD, hotpotqa = EVAL_HOTPOTQA;

/* file, tokens of an answer, least size, form, generator, score; answers are as long as the paper's. */
#define NIAH(form, file, least) NULL, file, 128, least, &form, eval_make_niah, eval_score_all
#define QA(file) NULL, file, 32, 1, &file, eval_make_qa, eval_score_any

const struct eval_task eval_tasks[] = {
    {"niah_single_1", "a number in lines of noise", NIAH(single_1, -1, 1)},
    {"niah_single_2", "a number in essays", NIAH(single_2, EVAL_ESSAYS, 16)},
    {"niah_single_3", "a UUID in essays", NIAH(single_3, EVAL_ESSAYS, 16)},
    {"niah_multikey_1", "a number in essays, among three of other keys", NIAH(multikey_1, EVAL_ESSAYS, 16)},
    {"niah_multikey_2", "a number in lines that are all of this kind", NIAH(multikey_2, -1, 1)},
    {"niah_multikey_3", "a UUID in lines that are all of this kind, with UUIDs for keys", NIAH(multikey_3, -1, 1)},
    {"niah_multivalue", "four numbers of one key in essays", NIAH(multivalue, EVAL_ESSAYS, 16)},
    {"niah_multiquery", "the numbers of four keys in essays, asked for at once", NIAH(multiquery, EVAL_ESSAYS, 16)},
    {"vt", "variable tracking: a chain of five assignments in lines of noise", NULL, -1, 30, 5, NULL, eval_make_vt,
     eval_score_all},
    {"cwe", "common words: the ten that a numbered list has most often", NULL, -1, 120, 11, NULL, eval_make_cwe,
     eval_score_all},
    {"fwe", "frequent words: the three most frequent of coded words", NULL, -1, 50, 27, NULL, eval_make_fwe,
     eval_score_all},
    {"qa_1", "questions of SQuAD, their documents among others", QA(squad)},
    {"qa_2", "questions of HotpotQA, each about two documents among others", QA(hotpotqa)},
    {"needle", "facts at several depths of texts in the bundled model's words", "kvcull eval needle", -1, 0, 0, NULL,
     NULL, NULL},
    {"fidelity", "how near a policy stays to the full cache on any text", "kvcull eval fidelity", -1, 0, 0, NULL, NULL,
     NULL},
    {NULL, NULL, NULL, -1, 0, 0, NULL, NULL, NULL}};

const struct eval_task *eval_task_find(const char *name) {
    for (const struct eval_task *task = eval_tasks; task->name; task++) {
        if (strcmp(task->name, name) == 0)
            return task;
    }
    return NULL;
}

/* ---- commands with options of their own ---- */

const struct cli_command cli_eval_tasks[] = {
    {"eval fidelity", "-m MODEL -f TEXT --kv SPEC [--kv SPEC...]", "how near a policy stays to the full cache",
     "The model reads the text with the full cache and answers greedily; then every policy reads it and is given the "
     "same "
     "answer, token by token. No labels are needed.\n\n"
     "recall: of the prompt entries to which the full run's answer attended most, as many as the policy holds of a "
     "head, "
     "the share that it holds (a method that chooses what to read: reads, in the mean of the steps); the mean over "
     "layers "
     "and heads, and the worst head. output: the relative error of the attention's output, in the mean of steps and "
     "layers. "
     "KL: the divergence of the policy's next-token distribution from the full run's, in the mean of the answer's "
     "tokens; "
     "top-1: how often both find the same token likeliest. Then entries of the fullest head after the prompt; cache "
     "and state at their peak in prefill, at the first generated token and at the end; bytes of cache read per token. "
     "--out also gives every layer's recall, its worst head's, and its output error.",
     "kvcull eval fidelity -m data/demo -f TEXT --kv snapkv:budget=128 --kv streaming:budget=128\n"
     "kvcull eval fidelity -m MODEL -f TEXT --prompt 4096 --gen 128 --kv morphkv:budget=10% --out results",
     eval_fidelity},
    {"eval merge", "FILE... [options]", "the tables of results from several files",
     "Reads the files that `kvcull eval TASK... --out FILE` wrote, such as those of several shards, and prints the "
     "tables "
     "that one run over all of their samples prints. A sample that is in several files counts once; it must have the "
     "same answer in all. The last line of a run that was ended in the middle of it is left out.",
     "kvcull eval merge shard-1.jsonl shard-2.jsonl\n"
     "kvcull eval merge results/*.jsonl --json\n",
     eval_merge},
    {"eval needle", "-m MODEL --kv SPEC [--kv SPEC...]", "finds facts hidden at several depths of long texts",
     "Makes texts of filler sentences with one fact at each depth (\"the magic number for lantern 48 21 .\"), asks for "
     "every fact after the whole text, and compares the greedy answer with the two numbers. All policies get the same "
     "texts and questions. --ask answer reads the text once and asks for one fact after another within one long "
     "answer, "
     "so that methods which evict while decoding must keep what later questions need; --ask turns asks in turns of a "
     "conversation.\n\n"
     "The table shows, for each policy and length, the share of exact answers at each depth and over all, the entries "
     "of the fullest head after the prompt, the bytes of cache and state held then, and the bytes of cache read per "
     "generated token.",
     "kvcull eval needle -m data/demo --kv full --kv snapkv:budget=128 --kv streaming:budget=128\n"
     "kvcull eval needle -m MODEL --kv full --kv morphkv:budget=25% --length 1024,2048 --out results",
     eval_needle},
    {"eval span", "-m MODEL -f FILE -p QUESTION --span TEXT --kv SPEC [--kv SPEC...]",
     "where a policy loses a piece of a text",
     "The model reads the text with every policy and answers the question. After each chunk of a method that reads in "
     "chunks, after the prompt, and after every step it is looked at which heads of which layers still hold the tokens "
     "of "
     "the given pieces of the text.\n\n"
     "The table shows, for each policy, the share of the heads of all layers that hold all tokens of the piece, or "
     "any, "
     "after the prompt and at the answer's end; the moment at which most entries were lost, with the share that went "
     "then; the layers that hold most of it in the end, and those that hold least (three each). --json and --out have "
     "it "
     "for every head, --report draws it.",
     "kvcull eval span -m MODEL -f notes.txt -p 'Who is on duty?' --span 'Margaret Holloway' --kv snapkv:budget=512\n"
     "kvcull eval span -m MODEL -f notes.txt -p 'Who is on duty?' --span 482177 --kv take:budget=512 --report "
     "where.html",
     eval_where},
    {NULL, NULL, NULL, NULL, NULL, NULL}};

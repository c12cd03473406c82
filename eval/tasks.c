/* tasks.c - the table of tasks, and the commands of tasks that have options of their own. Lists, help and manual are
 * made from them. To add a task, write its generator and add a row to the table. */
#include "eval/eval.h"
#include "eval/windows.h"

#include <string.h>

const char *const eval_file_options[EVAL_FILES] = {"essays", "squad", "hotpotqa", "text", "words"};
const char *const eval_units[EVAL_UNITS] = {"share", "nats/token"};

/* ---- forms of the generators ---- */

static const struct eval_niah single_1 = {EVAL_NOISE, false, false, 1, 1, 1};
static const struct eval_niah single_2 = {EVAL_ESSAY, false, false, 1, 1, 1};
static const struct eval_niah single_3 = {EVAL_ESSAY, false, true, 1, 1, 1};
static const struct eval_niah multikey_1 = {EVAL_ESSAY, false, false, 4, 1, 1};
static const struct eval_niah multikey_2 = {EVAL_NEEDLES, false, false, 1, 1, 1};
static const struct eval_niah multikey_3 = {EVAL_NEEDLES, true, true, 1, 1, 1};
static const struct eval_niah multivalue = {EVAL_ESSAY, false, false, 1, 4, 1};
static const struct eval_niah multiquery = {EVAL_ESSAY, false, false, 1, 1, 4};
static const struct eval_niah anywhere = {EVAL_ANY, false, false, 1, 1, 1};
static const struct eval_niah several = {EVAL_ANY, false, false, 4, 1, 1};
static const int squad = EVAL_SQUAD, hotpotqa = EVAL_HOTPOTQA;

/* A task of RULER: the required file, the smallest size, and the number of answer tokens in the paper. */
#define RULER(needs, size, tokens) .group = "ruler", .file = needs, .least = size, .answer = tokens
#define ALONE(needs, size, tokens) .file = needs, .least = size, .answer = tokens
/* A task with a shared text and `count` questions, as turns or as separate requests. */
#define SCB(needs, size, tokens, count)                                                                                \
    .group = "scb", .file = needs, .least = size, .answer = tokens, .questions = count
#define NIAH(which) .form = &which, .make = eval_make_niah, .score = eval_score_all
#define QA(which) .form = &which, .make = eval_make_qa, .score = eval_score_any
#define MADE(generator, scored) .make = generator, .score = scored

const struct eval_task eval_tasks[] = {
    {"niah_single_1", "a number in lines of noise", RULER(-1, 1, 128), NIAH(single_1)},
    {"niah_single_2", "a number in essays", RULER(EVAL_ESSAYS, 16, 128), NIAH(single_2)},
    {"niah_single_3", "a UUID in essays", RULER(EVAL_ESSAYS, 16, 128), NIAH(single_3)},
    {"niah_multikey_1", "a number in essays that also contain the numbers of three other keys",
     RULER(EVAL_ESSAYS, 16, 128), NIAH(multikey_1)},
    {"niah_multikey_2", "a number in lines that all have a key and a number", RULER(-1, 1, 128), NIAH(multikey_2)},
    {"niah_multikey_3", "a UUID in lines that all have a UUID as key and another as value", RULER(-1, 1, 128),
     NIAH(multikey_3)},
    {"niah_multivalue", "four numbers of one key in essays", RULER(EVAL_ESSAYS, 16, 128), NIAH(multivalue)},
    {"niah_multiquery", "the numbers of four keys in essays, in one question", RULER(EVAL_ESSAYS, 16, 128),
     NIAH(multiquery)},
    {"vt", "variable tracking: a chain of five assignments in lines of noise", RULER(-1, 5, 30),
     MADE(eval_make_vt, eval_score_all)},
    {"cwe", "common words: the ten most common words of a numbered list", RULER(-1, 11, 120),
     MADE(eval_make_cwe, eval_score_all)},
    {"fwe", "frequent words: the three most frequent words among coded words", RULER(-1, 27, 50),
     MADE(eval_make_fwe, eval_score_all)},
    {"qa_1", "SQuAD questions, with their documents among other documents", RULER(EVAL_SQUAD, 1, 32), QA(squad)},
    {"qa_2", "HotpotQA questions, each with its two documents among other documents", RULER(EVAL_HOTPOTQA, 1, 32),
     QA(hotpotqa)},
    {"niah", "a number at each depth of essays (without --essays: of noise), for a heat map", ALONE(EVAL_ESSAYS, 1, 64),
     .optional = true, .depths = true, NIAH(anywhere)},
    {"kv_retrieval", "the value of a key at each depth of a list of UUIDs", ALONE(-1, 2, 64), .depths = true,
     MADE(eval_make_pairs, eval_score_all)},
    {"litm_qa", "lost in the middle: a SQuAD document at each depth among other documents", ALONE(EVAL_SQUAD, 2, 32),
     .depths = true, QA(squad)},
    {"scb_kv", "the values of five keys in a list of UUIDs, one per turn", SCB(-1, 8, 64, 5),
     MADE(eval_make_pairs, eval_score_all)},
    {"scb_kv_requests", "the same, each question as a separate request after the same text", SCB(-1, 8, 64, 5),
     .manner = EVAL_REQUESTS, MADE(eval_make_pairs, eval_score_all)},
    {"scb_niah", "four numbers in essays (without --essays: in noise), one per turn", SCB(EVAL_ESSAYS, 4, 32, 4),
     .optional = true, NIAH(several)},
    {"scb_niah_requests", "the same, each question as a separate request after the same text",
     SCB(EVAL_ESSAYS, 4, 32, 4), .optional = true, .manner = EVAL_REQUESTS, NIAH(several)},
    {"scb_vt", "four chains of assignments in lines of noise, one per turn", SCB(-1, 20, 30, 4),
     MADE(eval_make_chains, eval_score_all)},
    {"scb_vt_requests", "the same, each question as a separate request after the same text", SCB(-1, 20, 30, 4),
     .manner = EVAL_REQUESTS, MADE(eval_make_chains, eval_score_all)},
    {"scb_mf", "the two largest numbers of a list, its two smallest and its median, one per turn", SCB(-1, 7, 16, 5),
     MADE(eval_make_numbers, eval_score_number)},
    {"scb_mf_requests", "the same, each question as a separate request after the same text", SCB(-1, 7, 16, 5),
     .manner = EVAL_REQUESTS, MADE(eval_make_numbers, eval_score_number)},
    {"scb_qa", "five SQuAD questions about the same documents, one per turn", SCB(EVAL_SQUAD, 1, 32, 5), .form = &squad,
     MADE(eval_make_shared_qa, eval_score_any)},
    {"scb_qa_requests", "the same, each question as a separate request after the same text", SCB(EVAL_SQUAD, 1, 32, 5),
     .manner = EVAL_REQUESTS, .form = &squad, MADE(eval_make_shared_qa, eval_score_any)},
    {"list", "a long answer: a numbered list with a given word in each line", ALONE(-1, 3, 0), .memory = true,
     MADE(eval_make_list, eval_score_list)},
    {"needle_demo", "facts at four depths of texts from the demo vocabulary, one request per fact",
     ALONE(EVAL_WORDS, 4, 12), .optional = true, .questions = 4, .manner = EVAL_REQUESTS,
     MADE(eval_make_needle_demo, eval_score_begins)},
    {"perplexity", "perplexity of the second half of text windows, token by token", ALONE(EVAL_TEXT, 1, 1),
     .unit = EVAL_NATS, .measure = eval_measure_perplexity},
    {"fidelity_recall", "share of the most attended entries that a policy holds, on text windows",
     ALONE(EVAL_TEXT, 1, 1), .measure = eval_measure_fidelity},
    {"needle", "facts at several depths of texts from the bundled model's vocabulary", .way = "kvcull eval needle",
     .file = -1},
    {"fidelity", "how close a policy stays to the full cache on any text", .way = "kvcull eval fidelity", .file = -1},
    {NULL, NULL, .file = -1}};

const struct eval_task *eval_task_find(const char *name) {
    for (const struct eval_task *task = eval_tasks; task->name; task++) {
        if (strcmp(task->name, name) == 0)
            return task;
    }
    return NULL;
}

/* ---- commands with options of their own ---- */

const struct cli_command cli_eval_tasks[] = {
    {"eval fidelity", "-m MODEL -f TEXT --kv SPEC [--kv SPEC...]", "compares policies with the full cache on a text",
     "The model reads the text with the full cache and answers greedily. Then, with each policy, it reads the text "
     "again and is given that answer token by token. The text needs no questions or expected answers.\n\n"
     "The columns of the table: if a policy holds n prompt entries in a head, `recall` is the share of them that "
     "belong to the n entries with the most attention from the full run's answer. The table shows the mean over layers "
     "and heads, and the worst head. For a method that selects entries to read, the entries read count instead of "
     "those held, averaged over the steps. `output` is the relative error of the attention output, averaged over steps "
     "and layers. `KL` is the divergence of the policy's next-token distribution from that of the full run, averaged "
     "over the answer's tokens. `top-1` is how often both have the same most likely token. Further columns show the "
     "number of entries in the longest head after the prompt, the bytes of cache and policy state at their peak in "
     "prefill, at the first generated token and at the end, and the cache bytes read per token. --out also writes the "
     "recall, the recall of the worst head and the output error of each layer.",
     "kvcull eval fidelity -m data/demo -f TEXT --kv snapkv:budget=128 --kv streaming:budget=128\n"
     "kvcull eval fidelity -m MODEL -f TEXT --prompt 4096 --gen 128 --kv morphkv:budget=10% --out results",
     eval_fidelity},
    {"eval merge", "FILE... [options]", "prints the tables of several result files",
     "Reads files that `kvcull eval TASK... --out FILE` wrote, such as the files of several shards. Prints the tables "
     "that a single run over all these samples would print. A sample that occurs in several files counts once; its "
     "answer must be the same in all of them. The command ignores an incomplete last line, which an interrupted run "
     "leaves.",
     "kvcull eval merge shard-1.jsonl shard-2.jsonl\n"
     "kvcull eval merge results/*.jsonl --json\n",
     eval_merge},
    {"eval needle", "-m MODEL --kv SPEC [--kv SPEC...]", "finds facts hidden at several depths of long texts",
     "Makes texts of filler sentences with one fact at each depth (\"the magic number for lantern 48 21 .\"), asks for "
     "every fact after the whole text, and compares the greedy answer with the two numbers. All policies get the same "
     "texts and questions. With --ask answer the model reads the text once, and each question is asked within one long "
     "answer, so that methods that evict while decoding must keep what later questions need. With --ask turns the "
     "questions are turns of a conversation. With --ask both each question is asked twice: in the prompt that is "
     "compressed, and as a turn after a text that was compressed without any question.\n\n"
     "The table shows for each policy and length the share of exact answers at each depth and overall; the number of "
     "entries in the longest head and the bytes of cache and policy state, both after the prompt; and the cache bytes "
     "read per generated token.",
     "kvcull eval needle -m data/demo --kv full --kv snapkv:budget=128 --kv streaming:budget=128\n"
     "kvcull eval needle -m MODEL --kv full --kv morphkv:budget=25% --length 1024,2048 --out results",
     eval_needle},
    {"eval span", "-m MODEL -f FILE -p QUESTION --span TEXT --kv SPEC [--kv SPEC...]",
     "shows where a policy loses a piece of a text",
     "The model reads the text with every policy and answers the question. After the prompt and after every step, the "
     "program records which heads of which layers still hold the tokens of the given pieces of the text. If a method "
     "reads the prompt in chunks, it also records this after each chunk.\n\n"
     "The table shows for each policy: the share of all heads that hold all tokens of the piece, or at least one of "
     "them, after the prompt and at the end of the answer; the moment at which most of the piece's entries were "
     "evicted, with their share; and the three layers that hold most of the piece at the end, and the three that hold "
     "least. --json and --out give the numbers of every head. --report draws them.",
     "kvcull eval span -m MODEL -f notes.txt -p 'Who is on duty?' --span 'Margaret Holloway' --kv snapkv:budget=512\n"
     "kvcull eval span -m MODEL -f notes.txt -p 'Who is on duty?' --span 482177 --kv take:budget=512 --report "
     "where.html",
     eval_where},
    {NULL, NULL, NULL, NULL, NULL, NULL}};

/* tasks.c - the list of tasks, in which cli/eval.c looks up the second word. Adding one: its file and an entry here. */
#include "eval/eval.h"

const struct cli_command cli_eval_tasks[] = {
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
    {NULL, NULL, NULL, NULL, NULL, NULL}};

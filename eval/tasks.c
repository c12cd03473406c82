/* tasks.c - the list of tasks. Adding one: its file and an entry here. */
#include "eval/eval.h"

const struct cli_command eval_tasks[] = {
    {"eval needle", "-m MODEL --kv SPEC [--kv SPEC...]", "finds facts hidden at several depths of long texts",
     "Makes texts of filler sentences with one fact at each depth (\"the magic number for lantern 48 21 .\"), asks for "
     "every fact after the whole text, and compares the greedy answer with the two numbers. All policies get the same "
     "texts and questions.\n\n"
     "The table shows, for each policy and length, the share of exact answers at each depth and over all, the entries "
     "of the fullest head after the prompt, the bytes of cache and state held then, and the bytes of cache read per "
     "generated token.",
     "kvcull eval needle -m data/demo --kv full --kv snapkv:budget=128 --kv streaming:budget=128\n"
     "kvcull eval needle -m MODEL --kv full --kv morphkv:budget=25% --length 1024,2048 --out results",
     eval_needle},
    {NULL, NULL, NULL, NULL, NULL, NULL}};

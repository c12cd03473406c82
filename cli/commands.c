/* commands.c - the list of commands, with what help and manual say about them. Adding one: its file and an entry. */
#include "cli/cli.h"

const struct cli_command cli_commands[] = {
    {"run", "-m MODEL [-p TEXT | -f FILE | -] [--kv SPEC] [options]", "answers or continues a prompt",
     "Writes the model's answer to a prompt, without the prompt, to standard output. Several -p and -f, in the order "
     "given (- comes last), are several turns of one session: each is answered before the next one is read. Without a "
     "prompt the model begins by itself, from its BOS token.\n\n"
     "Where the model has a chat template, each prompt is a user's message in that template. --raw continues the text "
     "as it stands instead. A prompt that holds control tokens of the model, such as <|im_start|>, has a template "
     "applied already and is continued as it stands, too, unless an option of the template is given. --show-prompt "
     "shows the text and the tokens that the model gets.\n\n"
     "An answer ends at one of the model's own end-of-turn tokens, before a --stop text, after -n tokens, or when "
     "--ctx is full; an empty answer, and one that --ctx cut, is said on standard error, with -q too. What an answer "
     "has that is not UTF-8, as a character cut by its end, is written as U+FFFD; the ids in --json are exact.\n\n"
     "A summary on standard error gives the tokens read and written, the time to the first token, tokens per second, "
     "the cache's bytes now and at its peak, and the bytes that the policy full would hold.\n\n"
     "--save writes the session to a file when the last answer is there, and --load goes on with it, on any backend: "
     "with a prompt as its next turn, or without one with the answer, whose tokens are those of a run that did not "
     "stop. A session that was saved as a chat goes on as a chat. So a long prompt is read once (-n 0 --save FILE) for "
     "many questions. The file holds what the policy kept; "
     "model, arithmetic, policy and --kv-type must be the same.",
     "kvcull run -m model.gguf -p \"What is a KV cache?\"\n"
     "kvcull run -m model.gguf --raw -p \"Once upon a time\" -n 100 --temp 0\n"
     "kvcull run -m model.gguf -f report.txt --kv snapkv:budget=1024+streaming:budget=2048\n"
     "kvcull run -m model.gguf -f report.txt --kv snapkv:budget=1024 -n 0 --save report.kv\n"
     "kvcull run -m model.gguf --load report.kv -p \"What does it cost?\"\n"
     "cat story.txt | kvcull run -m model.gguf - --kv morphkv:budget=10%\n",
     kvc_cli_run},
    {"chat", "MODEL [--kv SPEC] [--system TEXT] [--template NAME] [options]", "talks with a model",
     "Reads a line, answers it, and reads the next one. The conversation goes through the model's chat template; "
     "the session keeps what was said, and each turn adds only its own part.\n\n"
     "With --session the conversation is kept in a file after each answer, and a later chat goes on with it. The file "
     "is "
     "the old one or the new one whenever the program ends.\n\n"
     "Models with longrope (Phi-3.5, Phi-4-mini) have short factors for conversations up to their original length, "
     "and long ones. With --kv full the conversation begins with the short ones and is read again with the long ones "
     "when it outgrows that length. With any other policy, whose entries cannot be had again, it has the long ones "
     "from the first token on, unless --ctx keeps it short.\n\n"
     "A line ending in a backslash continues in the next line. /exit or the end of input ends the chat; a line that is "
     "to begin with / is typed with //. Ctrl-C ends "
     "an answer, not the chat; pressed three times before anything listens, as while a long prompt is read, it ends "
     "the program.",
     "kvcull chat model.gguf --kv morphkv:budget=2048\n"
     "kvcull chat -m model.gguf --kv morphkv:budget=2048 --session talk.kv\n"
     "kvcull chat -m model.gguf --system \"You answer in one sentence.\" --temp 0.7\n",
     kvc_cli_chat},
    {"serve", "-m MODEL [--kv SPEC] [--port N] [--mem BYTES] [options]", "answers requests of OpenAI's interface",
     "Serves a model over HTTP, at /v1/chat/completions, /v1/completions, /v1/models, /tokenize, /detokenize, /health "
     "and /metrics, for clients that talk to OpenAI's interface. docs/reference/server.md has every field of a "
     "request. "
     "The "
     "server ignores a field that it does not know, and names the field on standard error; --strict refuses such a "
     "field.\n\n"
     "Answers are computed together, a token of each in a step, and join and leave between steps; while a long prompt "
     "is "
     "read the others go on. No bit of an answer depends on who else is served. Each request may name the policy of "
     "its "
     "cache, kv, and its usage says what the cache held and what was read of it.\n\n"
     "--mem bounds what all sessions hold. What a request may need is forecast before it begins: it waits while it "
     "does "
     "not fit beside the others, and is told after --wait seconds to come again. Sessions are kept for the next "
     "request "
     "of their conversation as long as nobody needs their memory.\n\n"
     "It listens where nobody else can reach it unless --host says otherwise. For TLS put a proxy in front. SIGTERM "
     "and "
     "Ctrl-C let it finish the answers that have begun; a second one ends it at once.",
     "kvcull serve -m model.gguf\n"
     "kvcull serve -m model.gguf --kv snapkv:budget=1024 --mem 8G --port 9000\n"
     "kvcull serve -m model.gguf --host 0.0.0.0 --api-key-file keys.txt\n",
     kvc_cli_serve},
    {"eval", "TASK... -m MODEL --kv SPEC [--kv SPEC...] [options]", "tests how well policies keep what matters",
     "Runs standard tasks with every policy given and prints tables that compare them. ruler stands for the thirteen "
     "tasks of RULER, scb for those that ask several questions about one text; tasks that need a file of yours are "
     "left out without it, with a line that says so. needle and fidelity have options of their own.\n\n"
     "Samples are made from the seed and the number of the sample, of as many tokens of the model at hand as --length "
     "asks for, the answer's included; all policies get the same ones. Answers are greedy, in the model's chat "
     "template, until the end of the turn or the task's length.\n\n"
     "Methods that choose by the prompt's last queries do far better where these are the question. So every sample is "
     "asked twice: seen, with the question in the prompt that is compressed, and unseen, where the text is compressed "
     "first and the question comes as the next turn. Both prompts are the same tokens.\n\n"
     "The tables show the mean score of the samples, seen and unseen, each with its confidence interval (Wilson's, of "
     "95 %), the number of samples, the bytes of cache and state held after the prompt, the bytes of cache read per "
     "generated token, the time to the first token and the time of each further one. Where a task puts what it asks "
     "for "
     "at several depths, a table for each policy has the scores by depth and length; where it asks several questions, "
     "one has the scores of each turn; where an answer is long, one has the bytes held while it grows. A conversation "
     "counts as one sample. perplexity asks nothing: its mean has the normal interval.\n\n"
     "--out appends every answer to a file, a line of JSON each. After an end of any kind --resume goes on with it: a "
     "torn last line is dropped, and what is there is not computed again. --shard lets several processes, each with a "
     "file of its own, share the samples; `kvcull eval merge` prints the tables of all files.",
     "kvcull eval ruler -m model.gguf --kv full --kv snapkv:budget=512 --length 8192 --out results.jsonl\n"
     "kvcull eval niah_single_2 qa_1 -m model.gguf --kv full --essays essays.txt --squad dev-v2.0.json\n"
     "kvcull eval vt -m model.gguf --kv h2o:budget=10% --shard 3/8 --out vt-3.jsonl --resume\n"
     "kvcull eval merge vt-*.jsonl\n"
     "kvcull eval needle -m model.gguf --kv full --kv snapkv:budget=128 --kv streaming:budget=128\n",
     kvc_cli_eval},
    {"bench", "(-m MODEL | --shape NAME [--type TYPE]) [--kv SPEC...] [--prompt N,..] [--gen N] [--batch B,..]",
     "measures speed and memory",
     "Measures prefill and decode with every policy given; the policies' measurements are interleaved, so that each "
     "can be compared "
     "with the first one. Times are medians; what a policy costs beside the first is the median of their ratios, "
     "taken step by step.\n\n"
     "Prefill: tokens per second, the time relative to the first policy, the peak of cache bytes beside the bytes "
     "of one layer's full cache and what is kept, and the bytes of the rows' hidden states. Decode: the time of one "
     "step at each batch size, tokens per second, cache bytes read per step, and how near a step comes to the time "
     "that reading the weights and the cache needs at the machine's read bandwidth, which is measured in the same "
     "run. Memory: the counted bytes and the process's own anonymous memory at the first, middle and last step, and "
     "the time of a step by quarters of the generation.\n\n"
     "With --ops no model is measured but every operation of a backend, at shapes of a model of one billion "
     "parameters: what a call must read, write and compute, and how near it comes to what the same run finds the "
     "device can do. With --beside the same calls are made on a second backend, interleaved, five times where the "
     "first "
     "is not clearly faster (the median counts); the exit status is 1 when any is slower than there, by more than the "
     "cost of queueing it.",
     "kvcull bench -m model.gguf --kv full --kv snapkv:budget=512 --prompt 4096 --batch 1,8\n"
     "kvcull bench --shape 100m --kv streaming:budget=1024 --kv morphkv:budget=1024 --prompt 2048\n"
     "kvcull bench --ops --backend opencl --beside ref\n",
     kvc_cli_bench},
    {"verify", "[--backend NAME|all] [--kv SPEC|all] [-m MODEL] [options]", "compares backends with the reference",
     "Compares every backend that can be used here, or one, with the reference in plain C: each operation over many "
     "odd shapes, then whole runs (a prompt and decode steps) with every policy, step by step beside each other. "
     "Logits, the entries kept and the entries read in every step must be the same to the bit. The exit status is 1 "
     "when anything differs, and the first difference is located.\n\n"
     "The table counts differing bits of results or logits, and entries that only one of the two keeps or reads; the "
     "hash is of all results of an operation, or all logits of a run.\n\n"
     "With --against stored ref need not run: hashes of what it computes, for each operation and for the whole runs "
     "of the bundled model with the default --prompt, --gen and --kv-type, are stored with the program. Where a "
     "backend's hash is another, or none is stored, ref is run beside it after all, and finds what differs. If then "
     "nothing differs the stored hash is old, which ends the command with status 3.",
     "kvcull verify\n"
     "kvcull verify --backend avx2 --kv morphkv:budget=64 -m model.gguf\n"
     "kvcull verify --backend cuda --against stored\n",
     kvc_cli_verify},
    {"replay", "--kv SPEC --prompt N --in DUMP.safetensors --out KEPT.json [--attn OUT.safetensors]",
     "runs a policy on tensors, without a model",
     "Feeds queries, keys and values from a file to a policy and writes, after the prompt and after every decode "
     "step, the positions that each layer and head keeps. The file holds layers.<l>.q [T, H, d] and layers.<l>.k "
     "and .v [T, H_kv, d], float32, after RoPE. Rows below --prompt are the prompt, each later row is a decode "
     "step.\n\n"
     "The output is {\"kv\": SPEC, \"steps\": [{\"at\": \"prompt\" or row, \"kept\": [layer][head][position...]}]}; "
     "kept is what is held after the step's eviction. "
     "Steps of a method that evicts while the prompt is read come first, as {\"at\": \"chunk\", \"chunk\": N}; a "
     "decode "
     "step of a method that chooses what is read has \"read\" besides, the same lists of what it read.",
     "kvcull replay --kv snapkv:budget=64 --prompt 512 --in dump.safetensors --out kept.json\n"
     "kvcull replay --kv morphkv:budget=64 --prompt 512 --in dump.safetensors --attn out.safetensors\n",
     kvc_cli_replay},
    {"logits", "-m MODEL (--tokens LIST | -f FILE) [--out OUT.safetensors] [--kv SPEC] [--prompt N] [--chunk N]",
     "writes the logits of every token",
     "Writes the tensor logits [tokens, vocab], float32, row by row to a safetensors file, and prints the hash "
     "(XXH64) of all rows with the version of the arithmetic. Two machines that print the same hash computed the "
     "same bits.\n\n"
     "Without --prompt the whole text is one prompt. With it, later tokens are decode steps, so that what a policy "
     "evicts shows in the logits.\n\n"
     "With --math int8 or fast the same tokens are computed a second time with float, and the distance is printed: "
     "the largest difference of any logit, the largest relative error of a row, and in how many rows the likeliest "
     "token is the same.",
     "kvcull logits -m model.gguf --tokens 1,2,3 --out logits.safetensors\n"
     "kvcull logits -m model.gguf -f text.txt --kv morphkv:budget=64 --prompt 100\n"
     "kvcull logits -m model.gguf -f text.txt --math int8\n",
     kvc_cli_logits},
    {"tokenize", "-m MODEL [--decode] [--pieces] [--template NAME] (TEXT | -p TEXT | -f FILE | -)",
     "text into token ids and back",
     "Prints the ids of a text's tokens, separated by commas, with what the model puts in front. With --decode the "
     "input is a list of ids and the output is text. With --template the text is a user's message, and the tokens are "
     "those of the prompt that the chat template makes of it; --json has that prompt as text.",
     "kvcull tokenize -m model.gguf \"Once upon a time\"\n"
     "kvcull tokenize -m model.gguf --pieces -f text.txt\n"
     "kvcull tokenize -m model.gguf --template model --pieces \"What is a KV cache?\"\n"
     "kvcull tokenize -m model.gguf --decode 1,403,407\n",
     kvc_cli_tokenize},
    {"perplexity", "-m MODEL -f FILE [--kv SPEC...] [--ctx N] [--prompt N] [options]",
     "measures how well a text is predicted",
     "Cuts a text into windows of --ctx tokens (one window without it) and prints the perplexity, its standard "
     "error and the cache's size for every policy. The first half of each window, or --prompt tokens of it, are its "
     "prompt; every later token is predicted, scored and given as a single decode step. So the same tokens are scored "
     "whatever policies are named; --prompt 1 scores all but a window's first. full alone takes a window at once, with "
     "the same result.\n\n"
     "The cache, and what full would hold, are those at the end of a whole window, the most of them where they differ; "
     "the peak is of all windows.",
     "kvcull perplexity -m model.gguf -f text.txt --ctx 2048\n"
     "kvcull perplexity -m model.gguf -f text.txt --ctx 2048 --kv full --kv morphkv:budget=256\n",
     kvc_cli_perplexity},
    {"collect", "-m MODEL -f TEXT -o OUT [-n N] [options]", "writes statistics of a model's queries",
     "Runs the model over a text and writes, for each layer and query head, the mean query before its rotation and the "
     "mean length of each pair of channels that is rotated: what the policy triattention reads as stats=OUT. Any text "
     "of some thousand tokens does; queries of a head differ little from text to text. The file is text, its numbers "
     "are the same on every backend, and it appears under its name only when it is complete.\n\n"
     "The summary says how concentrated queries are: the length of a pair's mean beside the mean of its lengths, 1 "
     "where it never changes.",
     "kvcull collect -m model.gguf -f book.txt -o model.stats\n"
     "kvcull run -m model.gguf -f task.txt -n 4000 --kv triattention:budget=1024,stats=model.stats\n",
     kvc_cli_collect},
    {"convert", "MODEL -o OUT.gguf|OUT/ [--type TYPE]", "writes a model as GGUF or as a folder, in another type",
     "Writes the model of a Hugging Face folder or a GGUF file as one GGUF file, with its matrices in the type "
     "asked for; or, where OUT ends in a slash, as a Hugging Face folder of f32, f16 or bf16, with its tokenizer and "
     "chat template. A model that kvcull could not run afterwards, of another family say, is refused. The file appears "
     "under its name only when it is complete, and then replaces what was there, the model "
     "itself too; a write-protected file is not replaced, and no folder that has files in it.",
     "kvcull convert Qwen2.5-0.5B-Instruct -o qwen.gguf --type q8_0\n"
     "kvcull convert qwen.gguf -o qwen-folder/ --type bf16\n",
     kvc_cli_convert},
    {"mkmodel", "--shape NAME -o OUT.gguf [--type TYPE] [--seed S]", "writes a model of random weights",
     "Writes a GGUF file with the geometry of a real model and random weights, to measure speed and memory with.",
     "kvcull mkmodel --list\n"
     "kvcull mkmodel --shape llama-3.2-1b --type q8_0 -o random.gguf\n",
     kvc_cli_mkmodel},
    {"info", "[backends | methods [NAME] | families | shapes | templates | MODEL] [options]",
     "tells about backends, methods and models",
     "Without a word: the version and the backends. methods: all methods, or one in detail: the idea, the formula, "
     "its options, what it costs in memory and traffic, the paper. families: the models that can be read. MODEL: what "
     "the model is, and whether it fits "
     "with each policy: entries per head, bytes of cache and of the policy's state at the end, the peak, the hidden "
     "states of prefill beside it, and the longest prompt that fits. Weights are not read for that. "
     "Without --mem the least counts of what the machine has available, what each control group of this process leaves "
     "of its limit (pages of files do not count as used), and ulimit -v and -d.",
     "kvcull info methods\n"
     "kvcull info methods morphkv\n"
     "kvcull info model.gguf --prompt 32000 --gen 1000 --kv full --kv snapkv:budget=1024 --mem 8G\n",
     kvc_cli_info},
    {NULL, NULL, NULL, NULL, NULL, NULL}};

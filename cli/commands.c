/* commands.c - the list of commands, with the texts of their help and manual pages. A new command needs a file of its
 * own and an entry here. */
#include "cli/cli.h"

const struct cli_command cli_commands[] = {
    {"run", "-m MODEL [-p TEXT | -f FILE | -] [--kv SPEC] [options]", "answers or continues a prompt",
     "Writes the model's answer to standard output, without the prompt. If -p and -f are given several times, each "
     "prompt is one turn of the same session, in the order given. The argument `-` reads the last turn from "
     "standard input. kvcull answers a turn before it reads the next. Without a prompt the model starts from its BOS "
     "token.\n\n"
     "If the model has a chat template, each prompt becomes a user's message in that template. With --raw the model "
     "continues the prompt as it is. A prompt that contains control tokens of the model, such as <|im_start|>, counts "
     "as already formatted: the model continues it as it is, unless a template option is given. --show-prompt shows "
     "the text and the tokens that the model receives.\n\n"
     "An answer ends at one of the model's end-of-turn tokens, before a --stop text, after -n tokens, or when --ctx is "
     "full. If an answer is empty or --ctx ended it, a message on standard error says so, even with -q. U+FFFD "
     "replaces bytes of an answer that are not UTF-8, such as a character cut off at the end; the token ids in --json "
     "are exact.\n\n"
     "With --json-schema, --regex or --grammar each answer matches a JSON schema, a regular expression or a grammar. "
     "kvcull draws only tokens that keep a match possible. It draws an end token only after a full match, and this "
     "token then ends the answer despite --ignore-eos. If -n, --ctx or --stop ends an answer, the match may be "
     "incomplete. If no token keeps a match possible, the answer ends, and a message says so.\n\n"
     "A summary on standard error gives the tokens read and written, the time to the first token, tokens per second, "
     "the current and the peak size of the cache, and the size of a full cache.\n\n"
     "--save writes the session to a file after the last answer. --load continues a saved session, on any backend. A "
     "prompt becomes the session's next turn. Without a prompt the last answer continues, with the same tokens as in a "
     "run that did not stop. A session saved as a chat continues as a chat. To ask many questions about a long prompt, "
     "read the prompt once (-n 0 --save FILE) and load the file for each question. The file contains the entries that "
     "the policy kept. The model, arithmetic, policy and --kv-type must be the same as when it was saved.",
     "kvcull run -m model.gguf -p \"What is a KV cache?\"\n"
     "kvcull run -m model.gguf --raw -p \"Once upon a time\" -n 100 --temp 0\n"
     "kvcull run -m model.gguf -f report.txt --kv snapkv:budget=1024+streaming:budget=2048\n"
     "kvcull run -m model.gguf -f report.txt --kv snapkv:budget=1024 -n 0 --save report.kv\n"
     "kvcull run -m model.gguf --load report.kv -p \"What does it cost?\"\n"
     "cat story.txt | kvcull run -m model.gguf - --kv morphkv:budget=10%\n"
     "kvcull run -m model.gguf -f invoice.txt --json-schema invoice.json\n",
     kvc_cli_run},
    {"chat", "MODEL [--kv SPEC] [--system TEXT] [--template NAME] [options]", "talks with a model",
     "Reads a line, answers it, and reads the next one. The conversation is formatted by the model's chat template. "
     "The session keeps the conversation so far, so each turn processes only new tokens.\n\n"
     "With --session the conversation is saved to a file after each answer, and a later chat continues it. If the "
     "program is killed while it saves, the file still contains the previous state.\n\n"
     "Models with longrope (Phi-3.5, Phi-4-mini) have two sets of rope factors: short ones for conversations up to the "
     "model's original length, and long ones. With --kv full a conversation begins with the short factors. When it "
     "outgrows the original length, kvcull computes it again with the long ones. Other policies evict entries, so they "
     "cannot compute a conversation again. They use the long factors from the first token on, unless --ctx limits the "
     "conversation to the original length.\n\n"
     "In a terminal, you can edit a message: the arrow keys, Home, End, Ctrl-A, Ctrl-E, Ctrl-W, Ctrl-U, Ctrl-K and "
     "Ctrl-Y work as in a shell. Up and Down show earlier messages, and Tab completes commands. kvcull keeps the "
     "messages in a file (--history). Text that you type during an answer appears at the next prompt.\n\n"
     "A line that ends in a backslash continues in the next line; Alt-Enter begins a new line, too. Pasted text is one "
     "message. A message that begins and ends with three quotation marks (\"\"\") may have any number of lines. /help "
     "lists the commands: /stats, /policy, /clear, /save, /load and /exit. To send a line that begins with /, type //. "
     "--json-schema, --regex and --grammar apply to each answer, as in kvcull run. Ctrl-C ends an answer, but not the "
     "chat; at the prompt it clears the message. While the model reads a long message, Ctrl-C drops this message. If "
     "the conversation before the message is longer than the message, a second Ctrl-C is needed, because the model "
     "must then read that conversation again. A third Ctrl-C ends the program.",
     "kvcull chat model.gguf --kv morphkv:budget=2048\n"
     "kvcull chat -m model.gguf --kv morphkv:budget=2048 --session talk.kv\n"
     "kvcull chat -m model.gguf --system \"You answer in one sentence.\" --temp 0.7\n",
     kvc_cli_chat},
    {"serve", "-m MODEL [--kv SPEC] [--port N] [--mem BYTES] [options]", "serves an OpenAI-compatible interface",
     "Serves a model over HTTP, at /v1/chat/completions, /v1/completions, /v1/models, /tokenize, /detokenize, /health "
     "and /metrics, for clients of the OpenAI API. docs/reference/server.md describes every field of a request. If "
     "a request has a field that the server does not know, the server ignores the field and names it on standard "
     "error. With --strict it refuses the request.\n\n"
     "The server computes running requests in a batch: each step computes one token of every request. Requests join "
     "and leave the batch between steps, and continue while the server reads a long prompt. Other running "
     "requests do not change an answer. A request may name a policy in its field `kv`. The field `usage` of the "
     "response reports the size of the request's cache and the bytes read from it.\n\n"
     "--mem limits the memory of all sessions. Before a request starts, the server predicts the memory that the "
     "request needs. A request that does not fit waits. After --wait seconds the server refuses it and tells the "
     "client when to try again. The server keeps a conversation's session for the next request of this conversation "
     "until another request needs the memory.\n\n"
     "Without --host the server listens on the loopback address, which other machines cannot reach. For TLS put a "
     "proxy in front. After SIGTERM or Ctrl-C the server finishes the running requests and exits; a second signal "
     "stops it at once.",
     "kvcull serve -m model.gguf\n"
     "kvcull serve -m model.gguf --kv snapkv:budget=1024 --mem 8G --port 9000\n"
     "kvcull serve -m model.gguf --host 0.0.0.0 --api-key-file keys.txt\n",
     kvc_cli_serve},
    {"eval", "TASK... -m MODEL --kv SPEC [--kv SPEC...] [options]",
     "compares the answers of policies on standard tasks",
     "Runs standard tasks with every given policy and prints tables that compare the policies. The name `ruler` "
     "selects the thirteen tasks of RULER; `scb` selects the tasks that ask several questions about one text. If a "
     "task needs a file that is not given, a message says that the task is skipped. The tasks `needle` and `fidelity` "
     "have options of their own.\n\n"
     "Each sample is generated from the seed and the sample's index. --length limits the number of its tokens, "
     "including the "
     "answer. All policies get the same samples. Prompts use the model's chat template. Decoding is greedy. An answer "
     "ends at an end-of-turn token or at the task's maximum length.\n\n"
     "Methods that choose entries by the prompt's last queries do far better if the prompt ends with the question. So "
     "every sample is run twice. `seen` (question-aware): the question is part of the prompt that is compressed. "
     "`unseen` (question-agnostic): the text is compressed first, and the question is the next turn. Both runs read "
     "the same tokens.\n\n"
     "The tables show the mean scores `seen` and `unseen`, each with its confidence interval (Wilson, 95 %). The other "
     "columns show the number of samples, the bytes of cache and policy state after the prompt, the cache bytes read "
     "per generated token, the time to the first token, and the time per further token. For tasks that place the "
     "answer at several depths, a table for each policy shows the scores by depth and length. For tasks with several "
     "questions, a table shows the scores of each turn. For tasks with long answers, a table shows the bytes held "
     "while the answer grows. A conversation counts as one sample. The task `perplexity` asks no question; the "
     "confidence interval of its mean assumes a normal distribution.\n\n"
     "--out appends every answer to a file, one JSON object per line. After an interruption, --resume removes an "
     "incomplete last line and computes only the missing samples. With --shard several processes share the samples, "
     "each with an output file of its own; `kvcull eval merge` prints the tables of all files.",
     "kvcull eval ruler -m model.gguf --kv full --kv snapkv:budget=512 --length 8192 --out results.jsonl\n"
     "kvcull eval niah_single_2 qa_1 -m model.gguf --kv full --essays essays.txt --squad dev-v2.0.json\n"
     "kvcull eval vt -m model.gguf --kv h2o:budget=10% --shard 3/8 --out vt-3.jsonl --resume\n"
     "kvcull eval merge vt-*.jsonl\n"
     "kvcull eval needle -m model.gguf --kv full --kv snapkv:budget=128 --kv streaming:budget=128\n",
     kvc_cli_eval},
    {"bench", "(-m MODEL | --shape NAME [--type TYPE]) [--kv SPEC...] [--prompt N,..] [--gen N] [--batch B,..]",
     "measures speed and memory",
     "Measures prefill and decode with every given policy. Measurements of the policies are interleaved, so that each "
     "policy can be compared with the first. Times are medians. The time relative to the first policy is the median of "
     "the ratios of single steps.\n\n"
     "The prefill table shows tokens per second, the time relative to the first policy, and four sizes: the cache at "
     "its peak, the kept entries plus one layer's full cache, only the kept entries, and the hidden states. The decode "
     "table shows, for each batch size, the time of a step, tokens per second, the cache bytes read per step, and the "
     "fraction of the roofline that the step reaches. The roofline is the time that it takes to read the weights and "
     "the cache once at the read bandwidth that the same run measures. The memory table shows kvcull's own count of "
     "allocated bytes and the process's anonymous memory at the first, middle and last step, and the time of a step in "
     "each "
     "quarter of the generation.\n\n"
     "--ops measures every operation of a backend instead of a model, at the shapes of a model with one billion "
     "parameters. It shows the bytes and flops of a call, and what fraction of the device's limits they reach. The "
     "same run measures these limits. --beside makes the same calls on a second backend as well. If the first backend "
     "is not clearly faster, kvcull repeats both calls up to five times and shows the median. The exit status is 1 if "
     "any operation is slower than on the second backend by more than the time that a launch takes.\n\n"
     "--table measures one group of operations in the same way. `operations`: the same as --ops. `layer`: the same as "
     "--ops --entries. `attention-decode`, `attention-prefill`: attention over caches of several shapes. "
     "`attention-int8`: integer attention over Q8_0 entries, compared with float attention. `select`: choosing entries "
     "and attending to them, compared with attention to all entries. `gemm`: F32 linear layers of 512 rows, compared "
     "with those of --math fast. `types`: linear layers with each weight type. `small-batch`: linear layers of 1 to 64 "
     "rows. `linear-decode`, `linear-cached`: linear layers of one row, with matrices in memory or in the processor's "
     "cache. `int8`, `int16`: integer linear layers, compared with float. `prompt` (needs a model): the time of each "
     "operation in a prefill of the first length that --prompt gives.\n\n"
     "With --threads 1, all tables except `operations`, `layer` and `prompt` measure processor time, which other load "
     "affects less.",
     "kvcull bench -m model.gguf --kv full --kv snapkv:budget=512 --prompt 4096 --batch 1,8\n"
     "kvcull bench --shape 100m --kv streaming:budget=1024 --kv morphkv:budget=1024 --prompt 2048\n"
     "kvcull bench --ops --backend opencl --beside ref\n"
     "kvcull bench --table attention-decode --threads 1\n"
     "kvcull bench --table prompt --shape 100m --prompt 4096\n",
     kvc_cli_bench},
    {"verify", "[--backend NAME|all] [--kv SPEC|all] [-m MODEL] [options]", "compares backends with the reference",
     "Compares one or every usable backend with the reference in plain C. First it runs each operation over many odd "
     "shapes. Then it makes whole runs (a prompt and decode steps) with every policy, step by step on both backends. "
     "In every step both must compute the same bits of the logits, keep the same entries and read the same entries. If "
     "anything differs, the exit status is 1 and the output locates the first difference.\n\n"
     "The table counts the bits of results or logits that differ, and the entries that only one of the two backends "
     "keeps or reads. It also shows a hash of all results of each operation, or of all logits of each run.\n\n"
     "With `--against stored`, the reference usually does not run. kvcull comes with hashes of the reference's "
     "results, "
     "for each operation and for the whole runs of the bundled model with the default --prompt, --gen and --kv-type. "
     "The reference runs only if a backend's hash differs or no hash is stored, and then locates any difference. If "
     "it ran and all values agree, only the stored hash is missing or out of date; the exit status is then 3.",
     "kvcull verify\n"
     "kvcull verify --backend avx2 --kv morphkv:budget=64 -m model.gguf\n"
     "kvcull verify --backend cuda --against stored\n",
     kvc_cli_verify},
    {"replay", "--kv SPEC --prompt N --in DUMP.safetensors --out KEPT.json [--attn OUT.safetensors]",
     "runs a policy on tensors, without a model",
     "Passes queries, keys and values from a file to a policy, and writes the positions that each layer and head keeps "
     "after the prompt and after every decode step. The file contains the tensors layers.<l>.q [T, H, d] and "
     "layers.<l>.k and .v [T, H_kv, d], in float32, after RoPE. The first --prompt rows are the prompt, and each later "
     "row is a decode step.\n\n"
     "The output is {\"kv\": SPEC, \"steps\": [{\"at\": \"prompt\" or row, \"kept\": [layer][head][position...]}]}. "
     "kept lists the entries held after the step's eviction. A method that evicts while it reads the prompt adds steps "
     "{\"at\": \"chunk\", \"chunk\": N} in front. If a method chooses the entries to read, each decode step also has "
     "\"read\", which lists these entries in the same form.",
     "kvcull replay --kv snapkv:budget=64 --prompt 512 --in dump.safetensors --out kept.json\n"
     "kvcull replay --kv morphkv:budget=64 --prompt 512 --in dump.safetensors --attn out.safetensors\n",
     kvc_cli_replay},
    {"logits", "-m MODEL (--tokens LIST | -f FILE) [--out OUT.safetensors] [--kv SPEC] [--prompt N] [--chunk N]",
     "writes the logits of every token",
     "Writes the tensor logits [tokens, vocab], float32, row by row to a safetensors file, and prints the hash (XXH64) "
     "of all rows with the version of the arithmetic. Two machines that print the same hash computed the same bits.\n\n"
     "Without --prompt the whole text is one prompt. With --prompt N all tokens after the first N are decode steps, so "
     "a policy's evictions change the logits.\n\n"
     "With --math int8, int16 or fast the command computes the same tokens again with float and prints the distance "
     "between both results: the largest difference of a logit, the largest relative error of a row, and the number of "
     "rows with the same most likely token.",
     "kvcull logits -m model.gguf --tokens 1,2,3 --out logits.safetensors\n"
     "kvcull logits -m model.gguf -f text.txt --kv morphkv:budget=64 --prompt 100\n"
     "kvcull logits -m model.gguf -f text.txt --math int8\n",
     kvc_cli_logits},
    {"trace", "compare FILE FILE [--json]", "finds the first operation that differs between two runs",
     "Compares two files that other commands wrote with --trace FILE, and prints the first output that differs: the "
     "position of its token, its layer, operation and head. If both files contain values (--trace-values), the command "
     "prints both values. The exit status is 1 if an output differs.\n\n"
     "The runs may use different backends, threads, --chunk and machines. A run of several processes writes FILE, "
     "FILE.rank1, FILE.rank2 and so on; give FILE. If the two runs had different numbers of processes, the command "
     "skips outputs of which each process computes only a part.",
     "kvcull logits -m model.gguf --tokens 1,2,3 --backend ref --trace ref.trace\n"
     "kvcull logits -m model.gguf --tokens 1,2,3 --backend cuda --trace cuda.trace\n"
     "kvcull trace compare ref.trace cuda.trace\n",
     kvc_cli_trace},
    {"tokenize", "-m MODEL [--decode] [--pieces] [--template NAME] (TEXT | -p TEXT | -f FILE | -)",
     "converts text to token ids and back",
     "Prints the ids of a text's tokens, separated by commas. The first ids are those of the tokens with which the "
     "model begins every text, such as BOS. With --decode the input is a list of ids and the output is text. With "
     "--template the text is a user's message, and the command prints the ids of the formatted prompt; --json also "
     "prints that prompt as text.",
     "kvcull tokenize -m model.gguf \"Once upon a time\"\n"
     "kvcull tokenize -m model.gguf --pieces -f text.txt\n"
     "kvcull tokenize -m model.gguf --template model --pieces \"What is a KV cache?\"\n"
     "kvcull tokenize -m model.gguf --decode 1,403,407\n",
     kvc_cli_tokenize},
    {"perplexity", "-m MODEL -f FILE [--kv SPEC...] [--ctx N] [--prompt N] [options]",
     "measures how well a model predicts a text",
     "Cuts a text into windows of --ctx tokens (without --ctx: one window) and prints the perplexity, its standard "
     "error and the size of the cache for every policy. The prompt is the first half of each window, or its first "
     "--prompt tokens. Every later token is predicted, scored, and then processed as a decode step, so that all "
     "policies score the same tokens. With --prompt 1 all tokens of a window except the first are scored. The policy "
     "`full` computes a whole window at once, with the same result.\n\n"
     "The table shows the size of the cache at the end of a whole window (the largest if windows differ), the size of "
     "a full cache there, and the peak over all windows.",
     "kvcull perplexity -m model.gguf -f text.txt --ctx 2048\n"
     "kvcull perplexity -m model.gguf -f text.txt --ctx 2048 --kv full --kv morphkv:budget=256\n",
     kvc_cli_perplexity},
    {"collect", "-m MODEL -f TEXT -o OUT [-n N] [options]", "records statistics of a model's query vectors",
     "Runs the model over a text and writes, for each layer and query head, the mean query before RoPE and the mean "
     "length of each rotated pair of channels. The method `triattention` reads this file (option stats=OUT). With "
     "--for "
     "expected, the file has the mean and the covariance of the queries instead, for `expected` (stats=OUT). With "
     "--for "
     "qfilter, it has for each KV head the main direction of the rotated queries, for `qfilter` and `dms` (file=OUT). "
     "Any text of a few thousand tokens is suitable, because the queries of a head differ little between texts. The "
     "output is a text file, with the same numbers on every backend.\n\n"
     "The summary shows how concentrated the queries are: the length of a pair's mean vector divided by the pair's "
     "mean length. The ratio is 1 if the pair never changes. With --for qfilter it shows the share of the queries' "
     "squared lengths along the main direction.",
     "kvcull collect -m model.gguf -f book.txt -o model.stats\n"
     "kvcull run -m model.gguf -f task.txt -n 4000 --kv triattention:budget=1024,stats=model.stats\n"
     "kvcull collect -m model.gguf -f book.txt -o model.filters --for qfilter\n",
     kvc_cli_collect},
    {"convert", "MODEL -o OUT.gguf|OUT/ [--type TYPE]", "converts a model to a GGUF file or a Hugging Face folder",
     "Reads a Hugging Face folder or a GGUF file and writes one GGUF file with matrices of the given type. If OUT ends "
     "in a slash, the command writes a Hugging Face folder with f32, f16 or bf16 weights instead, with tokenizer and "
     "chat template. It refuses a model that kvcull could not run afterwards, such as one of an unsupported family. "
     "The output gets its name only when it is complete, and then replaces an existing file, even the source. It never "
     "replaces a write-protected file or a folder that contains files.",
     "kvcull convert Qwen2.5-0.5B-Instruct -o qwen.gguf --type q8_0\n"
     "kvcull convert qwen.gguf -o qwen-folder/ --type bf16\n",
     kvc_cli_convert},
    {"mkmodel", "--shape NAME -o OUT.gguf [--type TYPE] [--seed S]", "writes a model with random weights",
     "Writes a GGUF file with the geometry of a real model and random weights, for measurements of speed and memory.",
     "kvcull mkmodel --list\n"
     "kvcull mkmodel --shape llama-3.2-1b --type q8_0 -o random.gguf\n",
     kvc_cli_mkmodel},
    {"info", "[backends | methods [NAME] | families | shapes | templates | MODEL] [options]",
     "describes backends, methods and models",
     "Without an argument, prints the version and the backends. `methods` prints all methods, or one in detail, with "
     "its idea, formula, options, memory, traffic and paper. `families` prints the supported model families. MODEL "
     "prints the properties of a model, and whether it fits in memory with each policy.\n\n"
     "For each policy, a table shows the entries per head, the bytes of the cache and of the policy's state (at the "
     "end and at their peak), the additional bytes of prefill's hidden states, and the longest prompt that fits. The "
     "command does not read the weights. Without --mem the limit is the smallest of these: the machine's available "
     "memory, the memory that each control group of this process has left (file pages do not count as used), and "
     "ulimit -v and -d.",
     "kvcull info methods\n"
     "kvcull info methods morphkv\n"
     "kvcull info model.gguf --prompt 32000 --gen 1000 --kv full --kv snapkv:budget=1024 --mem 8G\n",
     kvc_cli_info},
    {NULL, NULL, NULL, NULL, NULL, NULL}};

/* cli.h - declarations that the commands share: options, errors, opening models, tables, JSON, files, progress.
 *
 * The program uses only the public headers of the library. Every command has one entry point, which cli/commands.c
 * lists. The tasks of eval use the same helpers. Functions that return int return an exit status (enum kvc_status) and
 * print an error line before they return anything but 0. */
#ifndef KVC_CLI_CLI_H
#define KVC_CLI_CLI_H

#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <sys/types.h>

#include "kvcull.h"

/* ---- commands and options ----------------------------------------------------------------------------------- */

struct cli_command {
    const char *name;        /* "run"; errors start with "kvcull run: " */
    const char *synopsis;    /* the rest of the usage line, after the name */
    const char *summary;     /* one line, no full stop */
    const char *description; /* for help and manual; an empty line separates paragraphs */
    const char *examples;    /* one command per line */
    int (*main)(const struct cli_command *command, int argc, char **argv);
};

enum cli_kind {
    CLI_END,     /* the last row of a table */
    CLI_GROUP,   /* a heading in the help; `name` is its text */
    CLI_FLAG,    /* bool */
    CLI_TEXT,    /* const char * */
    CLI_TEXTS,   /* struct cli_texts; the option may be repeated, and several options may share a target */
    CLI_INT,     /* int64_t, from minimum to maximum */
    CLI_REAL,    /* double, from minimum to maximum */
    CLI_COUNTS,  /* struct cli_counts: a list such as 1,8,32 of numbers from minimum to maximum */
    CLI_BYTES,   /* uint64_t, written as 8G, 512M or 1000000 */
    CLI_TYPE,    /* enum kvc_type: one of `choices` ("f32|f16|q8_0"); if this is NULL, any weight type */
    CLI_ENTRIES, /* struct kvc_entry_types: one of the types in `choices`, or k=TYPE,v=TYPE */
    CLI_CHOICE   /* const char *: one of `choices` */
};

struct cli_option {
    enum cli_kind kind;
    char letter; /* 0: the option has no letter */
    const char *name;
    const char *meta; /* "N" in --threads N; NULL for flags */
    const char *help; /* the help shows the target's initial value as the default */
    void *target;
    double minimum, maximum;
    const char *choices; /* the allowed values, separated by '|' */
};

/* The option --kv-type with its target. tests/cli/test_parts.c compares the choices with the library's types. */
#define CLI_KV_CHOICES "f32|f16|bf16|q8_0|q4_0|q4_1|iq4_nl|q4h|q5h|q6h|k=q8_0,v=q4h"
#define CLI_KV_TYPE(target)                                                                                            \
    {                                                                                                                  \
        CLI_ENTRIES, 0, "kv-type", "TYPE", "type of keys and values; k=TYPE,v=TYPE gives each its own type", target,   \
            0, 0, CLI_KV_CHOICES                                                                                       \
    }

struct cli_texts {
    struct cli_given {
        char letter; /* the option's letter; 0: the option has no letter; '*': the text results from expanding "all" */
        const char *text;
    } * items;
    size_t count;
};
struct cli_counts {
    uint64_t items[32];
    size_t count;
};
struct cli_words { /* arguments that are not options, in order */
    const char **items;
    size_t count;
};

enum { CLI_GO = -1 };
/* Parses argv[1...] into the targets of the options. Returns CLI_GO if the command shall continue. Any other value,
 * which follows --help or an error, is the command's exit status. The table needs no rows for --help, --version and --.
 * If words is NULL, arguments that are not options are errors. */
int cli_parse(const struct cli_command *command, const struct cli_option *options, int argc, char **argv,
              struct cli_words *words);
/* Returns true if an option is among the arguments, under its own name or an alias. */
bool cli_is_given(int argc, char **argv, const char *name);
/* Sets *other to the i-th alias, which is another program's name for an option, such as "ctx-size". Sets *name to this
 * program's name for it, such as "ctx". Returns false after the last alias. */
bool cli_alias(size_t i, const char **other, const char **name);
/* Accepts "kvcull chat MODEL" for "kvcull chat -m MODEL": moves the only word to *model. Fails if there is another word
 * or -m was given. */
int cli_model_word(const struct cli_command *command, const struct cli_words *words, const char **model);
void cli_texts_free(struct cli_texts *texts);
void cli_words_free(struct cli_words *words);
/* Writes the names of all weight types, "f32, f16, ...", to text and returns text. */
#define CLI_TYPES_BYTES (16 * KVC_TYPES)
const char *cli_weight_types(char text[CLI_TYPES_BYTES]);
/* Returns the name that is most similar to a mistyped word, or NULL if no name is similar. The list of names ends with
 * NULL. */
const char *cli_nearest(const char *word, const char *const *names);
/* cli_help prints a command's help text; cli_manual prints its manual page (mdoc). */
void cli_help(const struct cli_command *command, const struct cli_option *options);
void cli_manual(const struct cli_command *command, const struct cli_option *options);
/* Prints the options as lines for tools/completions.sh. */
void cli_completion(const struct cli_option *options);

/* Parses a list of token ids such as "1,2 3". The caller frees *tokens. On an error, the message names `what`
 * ("--tokens" or a file name) and the function returns `status`. */
int cli_token_list(const struct cli_command *command, const char *what, const char *text, size_t bytes,
                   enum kvc_status status, int32_t **tokens, size_t *count);

/* ---- errors ------------------------------------------------------------------------------------------------- */

/* Prints "kvcull run: TEXT" as one line on stderr and returns status. */
int cli_error(const struct cli_command *command, enum kvc_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int cli_report(const struct cli_command *command,
               const struct kvc_error *error); /* prints an error of the library in the form of cli_error */
int cli_no_memory(const struct cli_command *command);
void cli_warn(const struct cli_command *command, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Starts the ranks if mpirun or srun started the program as several processes. Returns CLI_GO on rank 0; on the other
 * ranks it serves rank 0 until the end and returns an exit status. */
int cli_start_ranks(const struct cli_command *command, int argc, char **argv);
struct kvc_ranks *cli_ranks(void); /* returns the ranks that compute each library call together, or NULL */
/* Closes the ranks. The program calls it last. It is not registered with atexit, because an MPI library that ends the
 * program calls exit, which would run it. */
void cli_leave_ranks(void);
/* With --ranks data, every rank runs the command with a share of the work, and only rank 0 prints. cli_data_ranks
 * returns the ranks, and cli_data_rank the rank of this process. Without --ranks data they return NULL and 0. */
struct kvc_ranks *cli_data_ranks(void);
uint32_t cli_data_rank(void);
/* With --ranks data, check that all ranks have the same model or the same bytes. Every rank must call them, unless it
 * has ended with a failure. In errors, `what` names the bytes. Without --ranks data, return `status`. */
int cli_same_model(const struct cli_command *command, int status, struct kvc_model *model);
int cli_same_bytes(const struct cli_command *command, int status, const char *what, const void *bytes, size_t count);
/* Sets *traffic to the messages that all ranks have sent so far. Returns false if no ranks share the library calls. */
struct kvc_ranks_traffic;
bool cli_traffic(struct kvc_ranks_traffic *traffic);
int cli_refuse_data(const struct cli_command *command); /* reports that the command cannot divide its work */
/* With --ranks data, waits for all ranks. Returns KVC_OK if all succeeded; otherwise the status of a failed rank, after
 * rank 0 has reported it. Without --ranks data, returns `status`. Call it at most once. */
int cli_agree(const struct cli_command *command, int status);
void cli_signals(void); /* installs the signal handlers; call it once */

/* ---- common options and opening ------------------------------------------------------------------------------ */

struct cli_common {
    const char *backend;
    int64_t threads, context, chunk;
    const char *math;
    const char *ranks, *share; /* cli/ranks.c reads ranks, share and rank_timeout before the other options are parsed */
    int64_t rank_timeout;
    const char *trace, *trace_values;
    struct kvc_entry_types cache_type;
    bool json, quiet;
    bool alone; /* ignores --ranks: the engine belongs to this process only */
};
void cli_common_defaults(struct cli_common *common);
/* Returns the arithmetic that --math requests for an engine. kvc_model_info returns the arithmetic that a model
 * uses. */
enum kvc_math cli_math(const struct cli_common *common);
const char *cli_math_name(enum kvc_math math);
/* Returns a note for the user about integer arithmetic, or NULL if the arithmetic is another one. */
const char *cli_math_note(enum kvc_math math);
/* Returns the version of the integer arithmetic, or 0 if the arithmetic is another one. */
int cli_integer_version(enum kvc_math math);
/* Writes the name and version of the integer arithmetic (", int8 1") to text, or "" if the arithmetic is another one.
 * Returns text. */
const char *cli_integer_text(enum kvc_math math, char text[24]);

/* clang-format off */
#define CLI_RANKS_OPTION(c)                                                                                           \
    {CLI_TEXT, 0, "ranks", "HOW",                                                                                     \
     "how the processes that mpirun or srun launches divide the work. tensor: each process has some heads with their " \
     "entries, and some outputs of every matrix. pipeline: each process has consecutive layers. "                     \
     "tensor=N,pipeline=M: M groups of layers, each divided among N processes of one machine. data (eval and "        \
     "perplexity only): each process has the whole model and some samples. Does not change results",                  \
     &(c)->ranks, 0, 0, NULL},                                                                                         \
        {CLI_TEXT, 0, "share", "LIST",                                                                                \
         "relative sizes of the parts of the model that the processes of --ranks hold, such as 2,1,1; by default all " \
         "parts are equal", &(c)->share, 0,                                                                           \
         0, NULL},                                                                                                    \
        {CLI_INT, 0, "rank-timeout", "SECONDS",                                                                       \
         "end all processes if one does not answer for SECONDS, for example because it is stopped; 0: never",          \
         &(c)->rank_timeout, 0, 1000000, NULL}
#define CLI_TRACE_OPTIONS(c)                                                                                          \
    {CLI_TEXT, 0, "trace", "FILE",                                                                                    \
     "write a hash of every operation's output to FILE, for each token and layer (slow); `kvcull trace compare` "     \
     "finds the first difference between two files",                                                                  \
     &(c)->trace, 0, 0, NULL},                                                                                        \
        {CLI_TEXT, 0, "trace-values", "WHERE",                                                                        \
         "with --trace, write the values, too. WHERE is `all` or POSITION[:LAYER[:OPERATION]]; * matches every number",  \
         &(c)->trace_values, 0, 0, NULL}
#define CLI_ENGINE_OPTIONS(c)                                                                                         \
    {CLI_GROUP, 0, "Engine", NULL, NULL, NULL, 0, 0, NULL},                                                           \
        {CLI_TEXT, 0, "backend", "NAME",                                                                              \
         "where to compute: cpu, ref (plain C), opencl[:N], opencl:TEXT (TEXT is a part of the device's name) or "    \
         "cuda[:N]; `kvcull info backends` lists them",                                                               \
         &(c)->backend, 0, 0, NULL},                                                                                  \
        {CLI_INT, 't', "threads", "N", "threads; 0: one per core. Does not change results", &(c)->threads, 0, 1024,   \
         NULL},                                                                                                       \
        {CLI_CHOICE, 0, "math", "MATH",                                                                               \
         "arithmetic. int8 (default): quantized linear layers use integers; in a quantized model, attention over 4- "  \
         "to 8-bit entries uses them, too; the rest uses float32. int16: linear layers with "                          \
         "float weights use integers; the rest uses float32. float: everything uses float32. Each of these three "    \
         "gives the same bits on every machine. fast: a BLAS library computes linear layers. exact: the same as "     \
         "float",                                                                                                     \
         &(c)->math, 0, 0, "float|int8|int16|fast|exact"},                                                            \
        CLI_RANKS_OPTION(c), CLI_TRACE_OPTIONS(c)
#define CLI_SESSION_OPTIONS(c)                                                                                        \
    {CLI_GROUP, 0, "Session", NULL, NULL, NULL, 0, 0, NULL},                                                          \
        CLI_KV_TYPE(&(c)->cache_type),                                                                                 \
        {CLI_INT, 'c', "ctx", "N",                                                                                    \
         "maximum tokens of context; 0: no limit (with a warning past the trained length). If N exceeds a longrope "  \
         "model's original length, which `kvcull info MODEL` shows, the model uses its long factors",                 \
         &(c)->context, 0, 2147483647, NULL},                                                                         \
        {CLI_INT, 0, "chunk", "N", "prompt tokens computed at once. Does not change results", &(c)->chunk, 1,         \
         65536, NULL}
#define CLI_SHOW_OPTION(target)                                                                                       \
    {CLI_FLAG, 0, "show-prompt", NULL,                                                                                \
     "write the model's input to standard error: its text with control tokens, and its token ids", (target), 0, 0, NULL}
#define CLI_OUTPUT_OPTIONS(c)                                                                                         \
    {CLI_GROUP, 0, "Output", NULL, NULL, NULL, 0, 0, NULL},                                                           \
        {CLI_FLAG, 0, "json", NULL, "print JSON", &(c)->json, 0, 0, NULL},                                            \
        {CLI_FLAG, 'q', "quiet", NULL, "no progress and no summary", &(c)->quiet, 0, 0, NULL}
/* clang-format on */

/* A temporary model file in a folder of its own under TMPDIR. cli_temporary_close removes both; if the program ends
 * before, they are removed too. */
struct cli_temporary {
    char folder[4096], file[4096 + 32];
    pid_t watcher;
    int hold;
};
int cli_temporary_open(const struct cli_command *command, struct cli_temporary *temporary);
void cli_temporary_close(struct cli_temporary *temporary);

/* Opens an engine according to the options that all commands share. */
int cli_open_engine(const struct cli_command *command, const struct cli_common *common, struct kvc_engine **engine);
/* Checks every policy string. Commands call it before slow work. */
int cli_check_policies(const struct cli_command *command, const struct kvc_engine *engine,
                       const struct cli_texts *specs);
/* Copies the given policies. Replaces "all" by every method, with a budget if the method has that option. Free the
 * copies with cli_specs_free. */
int cli_all_specs(const struct cli_command *command, const struct cli_texts *given, uint64_t budget,
                  struct cli_texts *specs);
void cli_specs_free(struct cli_texts *specs);
/* Removes policies that come from "all" and that do not suit the model, with a warning. */
void cli_leave_out(const struct cli_command *command, const struct kvc_engine *engine, struct kvc_model *model,
                   struct kvc_entry_types types, struct cli_texts *specs);
/* Opens the engine, checks the policies and opens the model. After a failure, both pointers are NULL. If the path is
 * NULL, the error asks for -m. */
int cli_open_model(const struct cli_command *command, const struct cli_common *common, const char *path,
                   const struct cli_texts *specs, struct kvc_engine **engine, struct kvc_model **model);
/* Opens a model like cli_open_model. If that fails, opens only the tokenizer and the chat templates: with
 * CLI_TEXT_OF_ANY those of any model, with CLI_TEXT_OF_VOCABULARIES only those of a vocabulary without weights. */
enum cli_text_of { CLI_TEXT_OF_VOCABULARIES, CLI_TEXT_OF_ANY };
int cli_open_model_or_text(const struct cli_command *command, const struct cli_common *common, const char *path,
                           const struct cli_texts *specs, enum cli_text_of which, struct kvc_engine **engine,
                           struct kvc_model **model);
/* Fills session options from the common options. If spec is NULL, the policy is "full". */
void cli_session_options(const struct cli_common *common, const char *spec, struct kvc_session_options *options);
/* Refuses more tokens than --ctx. */
int cli_check_context(const struct cli_command *command, const struct cli_common *common, uint64_t tokens);
/* If `tokens` exceeds the length with which the model was trained and *warned is false, prints a warning and sets
 * *warned. */
void cli_warn_context(const struct cli_command *command, const struct kvc_model *model, uint64_t tokens, bool *warned);
/* Finds bundled data, such as "demo": in KVCULL_DATA, next to the program, in the installed data, or in the source
 * tree. The caller frees *path. */
int cli_data_path(const struct cli_command *command, const char *name, char **path);

/* ---- text in and out ------------------------------------------------------------------------------------------ */

/* Reads a whole text file, or standard input if path is "-", and applies cli_check_text. The caller frees *text, which
 * ends with a NUL that *bytes does not count. */
int cli_read_file(const struct cli_command *command, const char *path, char **text, size_t *bytes);
/* Removes a byte order mark, with a warning. Fails with KVC_INPUT if the text is UTF-16 or contains a byte 0. */
int cli_check_text(const struct cli_command *command, const char *name, char *text, size_t *bytes);

/* Checks the name of a file to write. Fails with KVC_USAGE if the name is empty or "-". */
int cli_check_name(const struct cli_command *command, const char *option, const char *path);
/* An output file that gets its name only when it is complete. "-" is standard output. Devices and pipes are written
 * directly. */
struct cli_file {
    FILE *stream;
    char *path;
    struct kvc_output *output; /* NULL if the program writes to the file directly */
};
int cli_file_open(const struct cli_command *command, const char *path, struct cli_file *file);
int cli_file_commit(const struct cli_command *command, struct cli_file *file); /* also closes it on failure */
void cli_file_abandon(struct cli_file *file); /* gives up the file after an error; the file need not be open */
/* Checks before slow work that the file can be written. Leaves no file behind. */
int cli_check_output(const struct cli_command *command, const char *path);
/* Checks that the output file is not one of the inputs, and not part of an input that is a model folder. Each of inputs
 * [count] may be NULL. */
int cli_check_inputs(const struct cli_command *command, const char *path, const char *const *inputs, size_t count);
/* Flushes standard output and reports an error such as a full disk or a closed pipe. */
int cli_flush(const struct cli_command *command);

/* Write bytes as "1.50 GiB" or "512 B", and seconds as "1.2 s" or "350 us", to text [32] and return text. */
char *cli_bytes(uint64_t bytes, char *text);
char *cli_time(double seconds, char *text);
char *cli_number(uint64_t number, char *text); /* writes "1,048,576" to text [32] and returns text */
double cli_seconds(void);                      /* seconds of a monotonic clock */
uint64_t cli_available(void);                  /* bytes of memory available to this process; UINT64_MAX: unknown */
static inline uint64_t cli_min(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline uint64_t cli_max(uint64_t a, uint64_t b) { return a > b ? a : b; }
/* Returns a random number for synthetic tokens (splitmix64). */
uint64_t cli_random(uint64_t *state);
double cli_median(double *values, size_t count);                     /* sorts the values; 0 if count is 0 */
double cli_loss(const float *logits, uint32_t vocab, int32_t token); /* -log of the token's probability */

/* ---- tables --------------------------------------------------------------------------------------------------- */

/* Collects cells and prints them aligned, at most 100 columns wide: the last column wraps if necessary. */
struct cli_table;
/* Opens a table. '|' separates headings. A column whose heading begins with '<' is aligned to the left (words), others
 * to the right (numbers): "<method|budget|cache". */
struct cli_table *cli_table_open(const char *headings);
/* Adds the next cell; rows fill from left to right. cli_table_print reports a failed allocation. */
void cli_cell(struct cli_table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
void cli_table_rule(struct cli_table *table); /* puts an empty line before the next row */
int cli_table_print(const struct cli_command *command, struct cli_table *table, FILE *stream);
void cli_table_free(struct cli_table *table);
/* Prints the names and summaries that next() returns: as a table with this heading, or as a JSON list with this key. */
int cli_names(const struct cli_command *command, const struct cli_common *common, const char *heading, const char *key,
              bool (*next)(size_t, const char **, const char **));
/* Prints text wrapped to 100 columns and indented; an empty line separates paragraphs. */
void cli_wrap(FILE *stream, const char *text, unsigned indent);

/* ---- UTF-8 ----------------------------------------------------------------------------------------------------- */

#define CLI_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD, which replaces invalid bytes */
enum cli_part { CLI_CHARACTER, CLI_PART_BEGUN /* the text ends within a character */, CLI_PART_NONE };
/* Returns the number of bytes of the UTF-8 character at the beginning of text. Returns 0 if that character is
 * incomplete or invalid. `bytes` is at least 1. */
size_t cli_character(const char *text, size_t bytes);
/* Returns the number of bytes of the character at the beginning of text. If it is incomplete or invalid, returns the
 * number of bytes (at least 1) that one replacement character replaces. *kind tells which case applies. */
size_t cli_part(const char *text, size_t bytes, enum cli_part *kind);
/* Returns the number of bytes of an incomplete character at the end of text, or 0 if text ends with a complete
 * character. */
size_t cli_begun(const char *text, size_t bytes);
/* Writes text and replaces invalid bytes by U+FFFD. */
void cli_write_text(FILE *stream, const char *text, size_t bytes);

/* ---- JSON ------------------------------------------------------------------------------------------------------ */

/* Makes a JSON string from any bytes. U+FFFD replaces invalid UTF-8. */
json_t *cli_json_text(const char *text, size_t bytes);
json_t *cli_json_number(double value); /* returns null if the value is not finite, because JSON has no such number */
/* Counts jansson's failed allocations from now on. The program calls it once, before it makes any JSON. */
void cli_json_start(void);
/* Returns true if an allocation of this thread failed. An error that jansson then reports about a text may be wrong. */
bool cli_json_lost(void);
/* Resets cli_json_lost. Call it after this thread has freed all JSON that lacks values. */
void cli_json_forget(void);
/* Frees the result of json_dumps. */
void cli_json_free(void *block);
/* Adds a value to an object. If the value is NULL because memory ran out, the next print fails. */
void cli_json_set(json_t *object, const char *key, json_t *value);
/* Appends a value to an array. If either is NULL because memory ran out, the next print fails. */
void cli_json_add(json_t *array, json_t *value);
/* Prints indented JSON and releases root. If stream is NULL, prints to standard output. Fails if root is NULL. */
int cli_json_print(const struct cli_command *command, json_t *root, FILE *stream);

/* ---- progress --------------------------------------------------------------------------------------------------- */

/* A progress bar on a terminal; elsewhere, a line from time to time. Short work shows no progress, and neither does
 * --quiet. */
enum { CLI_PROGRESS_MARKS = 8 };
struct cli_progress {
    const char *what;
    bool quiet, terminal, shown;
    double start, last;
    struct {
        double when;
        uint64_t done;
    } marks[CLI_PROGRESS_MARKS]; /* the times at which the last parts ended; mark i is marks[i % CLI_PROGRESS_MARKS] */
    unsigned mark_count;
};
void cli_progress_start(struct cli_progress *progress, const char *what, bool quiet);
int cli_progress(void *progress, uint64_t done, uint64_t total); /* a kvc_progress_fn; returns 0 */
void cli_progress_end(struct cli_progress *progress);
/* cli_progress_mark records that a part ended at second `now`. cli_progress_left returns how many seconds are left at
 * the speed of the last few parts, or -1 if there are fewer than four marks. */
void cli_progress_mark(struct cli_progress *progress, double now, uint64_t done);
double cli_progress_left(const struct cli_progress *progress, uint64_t total);

/* ---- generation -------------------------------------------------------------------------------------------------- */

enum cli_stop {
    CLI_STOP_LENGTH,
    CLI_STOP_END, /* the model ended the answer, or the answer is complete and cannot continue */
    CLI_STOP_TEXT,
    CLI_STOP_CONTEXT,
    CLI_STOP_INTERRUPT,
    CLI_STOP_STUCK /* no token would keep the answer within the grammar */
};
const char *cli_stop_name(enum cli_stop stop);

struct cli_generation { /* cli_generation_open and the command fill it */
    const struct cli_command *command;
    struct kvc_model *model;
    struct kvc_session *session;
    struct kvc_sampler *sampler;
    float *logits; /* [vocab] */
    const struct cli_texts *stops;
    const struct kvc_grammar *grammar; /* the grammar that each answer matches; NULL: none */
    uint64_t limit;                    /* maximum number of tokens to generate */
    uint64_t context;                  /* maximum number of tokens in the session; 0: no limit */
    float frequency_penalty, presence_penalty;
    bool ignore_end;
    bool quiet;
    bool echo;          /* write the answer to stdout while it is generated */
    bool show_prompt;   /* write the prompt to stderr, with control tokens and ids */
    const char *unused; /* the option that would select the model's chat template; NULL if the prompts use this
                         * template */
    const volatile sig_atomic_t *interrupted; /* NULL, or a flag that ends the answer when it is not 0 */
    struct kvc_engine *engine;                /* the model's engine; `interrupted` can stop a prompt in it */
    int32_t pending; /* last token of the previous answer, if the session has not processed it; -1: none */
    bool warned;     /* true if the warning about the trained length was printed */
    struct kvc_sampler_options sampling; /* options with which the sampler was opened */
    struct kvc_session_options options;  /* options with which the session was opened */
    int32_t *history; /* [given]: all tokens so far, while a longrope session may have to be recomputed (longrope.c) */
    size_t given;
    bool outgrown;                     /* true if the session already uses the long factors, or cannot change to them */
    bool ended;                        /* true if a token of the model ended the last answer */
    bool goes_on;                      /* true if the session was loaded and its last answer can be continued */
    char *policy;                      /* the policy string, if a saved session supplied it */
    uint64_t seen_prompt, seen_answer; /* numbers of tokens of all turns so far */
    double first_seconds, prompt_seconds,
        answer_seconds; /* first_seconds: time to the first token of the first turn; the others: sums over all turns */
};
struct cli_answer {
    char *text; /* ends with a NUL */
    size_t bytes;
    int32_t *tokens;
    size_t count;
    size_t prompt_tokens;
    enum cli_stop stop;
    bool unread; /* true if the user stopped the prompt; the session must then be opened anew (cli_generation_anew) */
};
void cli_answer_free(struct cli_answer *answer);
/* Prepares a longrope session for `count` more tokens. If the session then exceeds the length of the short factors,
 * recomputes the session with the long factors, or warns. */
int cli_longrope(struct cli_generation *generation, const int32_t *tokens, size_t count);
/* If the session may outgrow the short factors and will have evicted entries by then, selects the long factors at once.
 * Call it before the first tokens. */
int cli_longrope_first(struct cli_generation *generation);
/* Runs one turn: the tokens of the prompt, then the answer. If `first` is true, no text precedes the answer, so the
 * leading space that some tokenizers write is dropped. */
int cli_generate(struct cli_generation *generation, const int32_t *tokens, size_t count, bool first,
                 struct cli_answer *answer);

struct cli_sampling { /* options of `run` and `chat` */
    double temperature, top_p, min_p, repeat_penalty, frequency_penalty, presence_penalty;
    int64_t top_k, repeat_last, seed, limit;
    struct cli_texts stops;
    bool ignore_end;
    const char *schema, *regex, *grammar; /* at most one is given; schema and grammar are files, regex is a text */
    struct kvc_grammar *opened;           /* set by cli_grammar_open */
};
void cli_sampling_defaults(struct cli_sampling *sampling);
/* Opens the grammar that the options name, if any. `taken` tells that the prompt is read from standard input. */
int cli_grammar_open(const struct cli_command *command, struct cli_sampling *sampling, bool taken);
void cli_sampling_close(struct cli_sampling *sampling);
/* clang-format off */
#define CLI_SAMPLING_OPTIONS(s)                                                                                       \
    {CLI_GROUP, 0, "Answer", NULL, NULL, NULL, 0, 0, NULL},                                                           \
        {CLI_INT, 'n', "tokens", "N", "maximum tokens of an answer; -1: no limit", &(s)->limit, -1, 2147483647,       \
         NULL},                                                                                                       \
        {CLI_REAL, 0, "temp", "T", "temperature; 0: always the most likely token", &(s)->temperature, 0, 100, NULL},  \
        {CLI_INT, 0, "top-k", "K", "draw among the K most likely tokens; 0: off", &(s)->top_k, 0, 2147483647, NULL},  \
        {CLI_REAL, 0, "top-p", "P", "draw among the most likely tokens whose probabilities add up to P; 1: off",      \
         &(s)->top_p, 0, 1, NULL},                                                                                    \
        {CLI_REAL, 0, "min-p", "P", "minimum probability relative to the most likely token; 0: off", &(s)->min_p, 0,  \
         1, NULL},                                                                                                    \
        {CLI_REAL, 0, "repeat-penalty", "R", "make recent tokens less likely; 1: off", &(s)->repeat_penalty, 0.01,    \
         100, NULL},                                                                                                  \
        {CLI_INT, 0, "repeat-last", "N", "number of tokens that count as recent", &(s)->repeat_last, 0, 2147483647,   \
         NULL},                                                                                                       \
        {CLI_REAL, 0, "frequency-penalty", "P",                                                                       \
         "lower a token's logit by P for each time it already occurs in the answer; 0: off", &(s)->frequency_penalty, \
         -2, 2, NULL},                                                                                                \
        {CLI_REAL, 0, "presence-penalty", "P",                                                                        \
         "lower a token's logit by P if it already occurs in the answer; 0: off",                                     \
         &(s)->presence_penalty, -2, 2, NULL},                                                                        \
        {CLI_INT, 0, "seed", "S",                                                                                     \
         "seed of the random numbers: the same seed gives the same answer; -1: a random seed", &(s)->seed, -1,        \
         9007199254740992.0, NULL},                                                                                   \
        {CLI_TEXTS, 0, "stop", "TEXT", "end an answer before TEXT; may be given several times", &(s)->stops, 0, 0,    \
         NULL},                                                                                                       \
        {CLI_FLAG, 0, "ignore-eos", NULL, "do not end an answer at the model's end token", &(s)->ignore_end, 0, 0,    \
         NULL},                                                                                                       \
        {CLI_TEXT, 0, "json-schema", "FILE",                                                                          \
         "each answer is JSON, valid under the JSON schema in FILE; - is standard input", &(s)->schema, 0, 0,         \
         NULL},                                                                                                       \
        {CLI_TEXT, 0, "regex", "PATTERN",                                                                             \
         "each whole answer matches a PCRE2 regular expression: '[0-9]{4}|unknown'", &(s)->regex, 0, 0,               \
         NULL},                                                                                                       \
        {CLI_TEXT, 0, "grammar", "FILE",                                                                              \
         "each answer matches the grammar in FILE, in llama.cpp's format (GBNF); - is standard input",                \
         &(s)->grammar, 0, 0, NULL}
/* clang-format on */
/* Opens the session, the sampler and the array of logits. Close with cli_generation_close. */
int cli_generation_open(const struct cli_command *command, const struct cli_common *common,
                        const struct cli_sampling *sampling, struct kvc_model *model, const char *spec,
                        struct cli_generation *generation);
/* Makes the sampler forget the conversation: its penalties and random numbers no longer depend on the tokens so far. */
int cli_generation_forget(struct cli_generation *generation);
/* Replaces the session by an empty one with this policy. On failure, prints the reason and keeps the session. */
int cli_generation_anew(struct cli_generation *generation, const char *spec);
void cli_generation_close(struct cli_generation *generation);
/* Prints the prompt on stderr: its text with the control tokens, and its ids. */
int cli_show_prompt(const struct cli_generation *generation, const int32_t *tokens, size_t count);
/* If the answer is empty or was cut, prints the reason to stderr. */
void cli_say_ending(const struct cli_generation *generation, const struct cli_answer *answer);
/* On a terminal and without -q: prints tokens per second, and the bytes of the cache compared with those that `full`
 * would hold. */
void cli_say_cost(const struct cli_generation *generation, size_t tokens, double seconds);
/* cli_summary_print prints the summary to stderr; cli_summary_json returns it as a JSON object. */
void cli_summary_print(const struct cli_generation *generation, const char *spec);
json_t *cli_summary_json(const struct cli_generation *generation);
/* Returns the memory of a session as JSON. */
json_t *cli_stats_json(const struct kvc_session_stats *stats);

/* The options for chat templates. */
struct cli_template {
    const char *name, *system;                /* name: "model" or NULL selects the model's own template */
    const char *file;                         /* file of a template, instead of `name` */
    bool implied;                             /* true if no option asked for a chat, but the model has a template */
    const char *messages, *tools, *documents; /* names of JSON files */
    const char *variables;                    /* JSON text */
    const char *date;
    bool special_content;
};
bool cli_template_given(const struct cli_template *from); /* returns true if an option for chat templates was given */
/* clang-format off */
#define CLI_NO_SPECIAL_OPTION(flag)                                                                                   \
    {CLI_FLAG, 0, "no-special", NULL, "treat control tokens in the text, such as <|im_end|>, as plain text", flag, 0, \
     0, NULL}
#define CLI_TEMPLATE_OPTIONS(t)                                                                                       \
    {CLI_TEXT, 0, "chat-template-file", "FILE", "a Jinja chat template to use instead of --template", &(t)->file, 0,  \
     0, NULL},                                                                                                        \
        {CLI_TEXT, 0, "messages", "FILE",                                                                             \
         "messages that precede the chat: a JSON array of objects with role, content, and other fields that the "     \
         "template reads, such as tool_calls",                                                                        \
         &(t)->messages, 0, 0, NULL},                                                                                 \
        {CLI_TEXT, 0, "tools", "FILE", "a JSON array of the functions that the model may call", &(t)->tools, 0, 0,    \
         NULL},                                                                                                       \
        {CLI_TEXT, 0, "documents", "FILE", "a JSON array of texts that the model may quote", &(t)->documents, 0, 0,   \
         NULL},                                                                                                       \
        {CLI_TEXT, 0, "template-vars", "JSON", "more variables for the template: '{\"enable_thinking\": false}'",     \
         &(t)->variables, 0, 0, NULL},                                                                                \
        {CLI_TEXT, 0, "date", "DATE",                                                                                 \
         "date for the template: a date such as 2025-06-30, or today; by default the template gets no date",          \
         &(t)->date, 0, 0, NULL},                                                                                     \
        {CLI_FLAG, 0, "special-content", NULL,                                                                        \
         "recognize control tokens in messages, tools and variables. Use it only with trusted texts: a control "      \
         "token can end a turn",                                                                                      \
         &(t)->special_content, 0, 0, NULL}
/* clang-format on */

/* Returns the option that a message suggests for a model with a chat template: "--template model", or
 * "--template NAME" if the model's template fails. Returns NULL if the model has no template. */
const char *cli_own_template(const struct kvc_model *model);
/* A conversation. The text of the first turn is the whole formatted conversation. The text of a later turn is what the
 * template writes after the last answer. */
struct cli_chat;
int cli_chat_open(const struct cli_command *command, struct kvc_model *model, const struct cli_template *from,
                  struct cli_chat **chat);
void cli_chat_close(struct cli_chat *chat);
/* Returns the tokens of the next turn; the caller frees them. */
int cli_chat_turn(struct cli_chat *chat, const char *user, int32_t **tokens, size_t *count);
int cli_chat_answer(struct cli_chat *chat, const struct cli_answer *answer);
/* Appends text to the last answer. */
int cli_chat_extend(struct cli_chat *chat, const struct cli_answer *answer);
/* cli_chat_messages returns the messages. cli_chat_restore adds messages to a chat that has none. Its errors name
 * `path`, the file of the messages. */
json_t *cli_chat_messages(const struct cli_chat *chat);
int cli_chat_restore(struct cli_chat *chat, const json_t *messages, const char *path);
/* Removes all messages. If keep_system is true, keeps the system message and the messages of --messages. The next turn
 * is then a first turn. */
void cli_chat_clear(struct cli_chat *chat, bool keep_system);
void cli_chat_drop(struct cli_chat *chat); /* removes the last message */
/* Makes the whole conversation the text of the next turn, for a session that holds none of it. Returns false if the
 * conversation is empty. */
bool cli_chat_reread(struct cli_chat *chat);
/* Returns true if the session holds the conversation. */
bool cli_chat_begun(const struct cli_chat *chat);
/* Finds the last message of the user and its answer. Returns false if there are none. */
bool cli_chat_last(const struct cli_chat *chat, const struct kvc_message **user, const struct kvc_message **answer);

/* ---- saved sessions ---- */

/* Saves the session to a file, so that the answer can be continued. If chat is not NULL, saves the chat. */
int cli_generation_save(struct cli_generation *generation, const char *path, const struct cli_chat *chat);
/* Replaces the generation's session by a saved session. If `kv` is true, the given policy must match the file. If
 * `type` is true, the given type of the entries must match. *messages receives the messages of a saved chat (a new
 * reference), or NULL. */
int cli_generation_load(struct cli_generation *generation, const char *path, bool kv, bool type, json_t **messages);
/* Loads a session into a newly opened chat. */
int cli_chat_resume(struct cli_generation *generation, const struct cli_template *from, const char *path, bool kv,
                    bool type, struct cli_chat *chat);

#define CLI_LOCK ".kvcull-lock" /* ending of a lock file's name, after the name of the locked file */
struct cli_lock {               /* a lock on a file; if all members are zero, there is no lock */
    int file;
    char *guard; /* name of the lock file, which is removed when the lock is released */
};
/* Locks the file `guard`, so that no other process that uses this lock writes to path. Messages name path by the
 * option that gave it, `option`. */
int cli_lock_open(const struct cli_command *command, const char *option, const char *path, const char *guard,
                  struct cli_lock *lock);
void cli_lock_close(struct cli_lock *lock);
/* Checks that a session can be saved to path, and locks the file against other processes. Call it before the answer is
 * computed. */
int cli_session_guard(const struct cli_command *command, const char *option, const char *path, struct cli_lock *lock);

/* ---- the commands -------------------------------------------------------------------------------------------------
 */

extern const struct cli_command cli_commands[]; /* the last element has a NULL name */
const struct cli_command *cli_find_command(const char *name);
/* The tasks of `kvcull eval`, in the folder eval/, with names such as "eval needle". The last element has a NULL
 * name. */
extern const struct cli_command cli_eval_tasks[];
/* Runs the standard tasks that the words of argv name. */
int cli_eval_standard(const struct cli_command *command, int argc, char **argv);

int kvc_cli_run(const struct cli_command *command, int argc, char **argv);
int kvc_cli_chat(const struct cli_command *command, int argc, char **argv);
int kvc_cli_serve(const struct cli_command *command, int argc, char **argv);
int kvc_cli_eval(const struct cli_command *command, int argc, char **argv);
int kvc_cli_bench(const struct cli_command *command, int argc, char **argv);
int kvc_cli_verify(const struct cli_command *command, int argc, char **argv);
int kvc_cli_replay(const struct cli_command *command, int argc, char **argv);
int kvc_cli_logits(const struct cli_command *command, int argc, char **argv);
int kvc_cli_trace(const struct cli_command *command, int argc, char **argv);
int kvc_cli_tokenize(const struct cli_command *command, int argc, char **argv);
int kvc_cli_perplexity(const struct cli_command *command, int argc, char **argv);
int kvc_cli_collect(const struct cli_command *command, int argc, char **argv);
int kvc_cli_convert(const struct cli_command *command, int argc, char **argv);
int kvc_cli_mkmodel(const struct cli_command *command, int argc, char **argv);
int kvc_cli_info(const struct cli_command *command, int argc, char **argv);

#endif

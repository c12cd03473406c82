/* cli.h - what the subcommands share: options, errors, opening models, tables, JSON, files, progress.
 *
 * The program uses the library through the public headers only. Every command has one entry point, listed in
 * cli/commands.c; eval tasks use the same helpers. Functions that return int return an exit status (enum kvc_status)
 * and have printed their error line before they return anything but 0.
 */
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
    const char *synopsis;    /* what follows the name in the usage line */
    const char *summary;     /* one line, no full stop */
    const char *description; /* paragraphs separated by an empty line; help and manual show it */
    const char *examples;    /* one command a line */
    int (*main)(const struct cli_command *command, int argc, char **argv);
};

enum cli_kind {
    CLI_END,    /* ends a table */
    CLI_GROUP,  /* a heading in the help: name */
    CLI_FLAG,   /* bool */
    CLI_TEXT,   /* const char * */
    CLI_TEXTS,  /* struct cli_texts: may be given several times; options may share one target */
    CLI_INT,    /* int64_t, minimum..maximum */
    CLI_REAL,   /* double, minimum..maximum */
    CLI_COUNTS, /* struct cli_counts: a list 1,8,32, each minimum..maximum */
    CLI_BYTES,  /* uint64_t: 8G, 512M, 1000000 */
    CLI_TYPE,   /* enum kvc_type, one of choices ("f32|f16|q8_0"); NULL: any type of weights */
    CLI_CHOICE  /* const char *, one of choices */
};

struct cli_option {
    enum cli_kind kind;
    char letter; /* 0: none */
    const char *name;
    const char *meta; /* "N" in --threads N; NULL for flags */
    const char *help; /* a value that the target already holds is shown as the default */
    void *target;
    double minimum, maximum;
    const char *choices; /* separated by '|' */
};

struct cli_texts {
    struct cli_given {
        char letter; /* of the option it came with, 0: it has none, '*': "all" stands for it */
        const char *text;
    } * items;
    size_t count;
};
struct cli_counts {
    uint64_t items[32];
    size_t count;
};
struct cli_words { /* what is no option, in order */
    const char **items;
    size_t count;
};

enum { CLI_GO = -1 };
/* Reads argv[1...]. CLI_GO: continue; anything else: return it (--help was printed, or an error was). --help, --version
 * and -- need no row in the table. words NULL: no other words are taken. */
int cli_parse(const struct cli_command *command, const struct cli_option *options, int argc, char **argv,
              struct cli_words *words);
/* Whether an option is among the arguments, under its own name or an alias, whatever its value. */
bool cli_is_given(int argc, char **argv, const char *name);
/* The i-th name that another program uses for an option of this one, as "ctx-size" for "ctx"; false past the last. */
bool cli_alias(size_t i, const char **other, const char **name);
/* "kvcull chat MODEL" in the place of "kvcull chat -m MODEL": takes the one word that is given where there is no -m. */
int cli_model_word(const struct cli_command *command, const struct cli_words *words, const char **model);
void cli_texts_free(struct cli_texts *texts);
void cli_words_free(struct cli_words *words);
/* "f32, f16, ...": all types of weights, put into text, which is returned. */
#define CLI_TYPES_BYTES (16 * KVC_TYPES)
const char *cli_weight_types(char text[CLI_TYPES_BYTES]);
/* The nearest of the names (ended by NULL) to a mistyped word; NULL: none is near. */
const char *cli_nearest(const char *word, const char *const *names);
/* The help text, and the same as a manual page (mdoc). */
void cli_help(const struct cli_command *command, const struct cli_option *options);
void cli_manual(const struct cli_command *command, const struct cli_option *options);
/* The options as lines for tools/completions.sh. */
void cli_completion(const struct cli_option *options);

/* Parses a list of token ids "1,2 3"; *tokens is malloc'ed. what: "--tokens", or a file's name. */
int cli_token_list(const struct cli_command *command, const char *what, const char *text, size_t bytes,
                   enum kvc_status status, int32_t **tokens, size_t *count);

/* ---- errors ------------------------------------------------------------------------------------------------- */

/* Prints "kvcull run: TEXT" as one line on stderr and returns status. */
int cli_error(const struct cli_command *command, enum kvc_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int cli_report(const struct cli_command *command, const struct kvc_error *error); /* the same, of a library error */
int cli_no_memory(const struct cli_command *command);
void cli_warn(const struct cli_command *command, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Where the program was started as several processes (mpirun): CLI_GO on rank 0; on the others all that rank 0 asks
 * for is done when this returns, an exit status. */
int cli_start_ranks(const struct cli_command *command, int argc, char **argv);
struct kvc_ranks *cli_ranks(void); /* NULL: one process */
/* Last of all, and not by atexit: an MPI that ends the program calls exit from within itself. */
void cli_leave_ranks(void);
/* --ranks data: every rank runs the command with a share of the work; rank 0 alone prints. NULL, and 0, without. */
struct kvc_ranks *cli_data_ranks(void);
uint32_t cli_data_rank(void);
/* With --ranks data each rank has a model, and bytes of its own that must be all ranks': without, these do nothing. All
 * ranks come to them, or have ended with a status that is none of success. what: how an error calls the bytes. */
int cli_same_model(const struct cli_command *command, int status, struct kvc_model *model);
int cli_same_bytes(const struct cli_command *command, int status, const char *what, const void *bytes, size_t count);
/* What all ranks have sent so far; false: there is one. */
struct kvc_ranks_traffic;
bool cli_traffic(struct kvc_ranks_traffic *traffic);
int cli_refuse_data(const struct cli_command *command); /* of commands that have no shares */
/* Waits for all ranks of --ranks data: KVC_OK where all have come to it, else a status that one has, which rank 0 has
 * told. Without: status. At most once. */
int cli_agree(const struct cli_command *command, int status);
void cli_signals(void); /* how signals end the program; called once */

/* ---- common options and opening ------------------------------------------------------------------------------ */

struct cli_common {
    const char *backend;
    int64_t threads, context, chunk;
    const char *math;
    const char *ranks, *share; /* read before the other options (cli/ranks.c), as is the next */
    int64_t rank_timeout;
    enum kvc_type cache_type;
    bool json, quiet;
    bool alone; /* the engine is this process's, whatever --ranks says */
};
void cli_common_defaults(struct cli_common *common);
/* What an engine is opened with; kvc_model_info says what is in force for a model. */
enum kvc_math cli_math(const struct cli_common *common);
const char *cli_math_name(enum kvc_math math);
#define CLI_INT8_NOTE "int8 where weights are quantized; --math float rounds less"
/* ", int8 1" where the bits are those of that arithmetic, and otherwise "". */
const char *cli_int8_version(enum kvc_math math, char text[24]);

/* clang-format off */
#define CLI_RANKS_OPTION(c)                                                                                           \
    {CLI_TEXT, 0, "ranks", "HOW",                                                                                     \
     "how processes that mpirun or srun started share the work; tensor: each has some heads with their entries, and " \
     "some outputs of every matrix; pipeline: each has a run of layers; tensor=N,pipeline=M: M runs, each shared by N " \
     "processes of one machine; data, for eval and perplexity: each has the model and some samples. Never changes a " \
     "bit",                                                                                                            \
     &(c)->ranks, 0, 0, NULL},                                                                                         \
        {CLI_TEXT, 0, "share", "LIST",                                                                                \
         "how much of the model each of these processes gets, in proportion: 2,1,1 say", &(c)->share, 0, 0, NULL},    \
        {CLI_INT, 0, "rank-timeout", "SECONDS",                                                                       \
         "end all processes when one of them has not answered for so long, because it is stopped or cut off; 0: never", \
         &(c)->rank_timeout, 0, 1000000, NULL}
#define CLI_ENGINE_OPTIONS(c)                                                                                         \
    {CLI_GROUP, 0, "Engine", NULL, NULL, NULL, 0, 0, NULL},                                                           \
        {CLI_TEXT, 0, "backend", "NAME",                                                                              \
         "where to compute: cpu, ref (plain C), opencl[:N], cuda[:N], or opencl:part of a device's name; `kvcull "    \
         "info backends` lists them",                                                                                 \
         &(c)->backend, 0, 0, NULL},                                                                                  \
        {CLI_INT, 't', "threads", "N", "threads; 0: one per core. Never changes a bit", &(c)->threads, 0, 1024, NULL},   \
        {CLI_CHOICE, 0, "math", "MATH",                                                                               \
         "arithmetic of linear layers. int8, the default: activations of eight bits where weights are quantized, "      \
         "elsewhere float; float: without; both the same bits everywhere. fast: a BLAS library; exact: another word "   \
         "for float",                                                                                                  \
         &(c)->math, 0, 0, "float|int8|fast|exact"},                                                                  \
        CLI_RANKS_OPTION(c)
#define CLI_SESSION_OPTIONS(c)                                                                                        \
    {CLI_GROUP, 0, "Session", NULL, NULL, NULL, 0, 0, NULL},                                                          \
        {CLI_TYPE, 0, "kv-type", "TYPE", "how cache entries are stored", &(c)->cache_type, 0, 0, "f32|f16|q8_0"},      \
        {CLI_INT, 'c', "ctx", "N",                                                                                       \
         "tokens of context at most; 0: no limit (past the trained length it warns). More than a longrope model's "    \
         "original length, which `kvcull info` says, chooses its long factors",                                        \
         &(c)->context, 0, 2147483647, NULL},                                                                          \
        {CLI_INT, 0, "chunk", "N", "prompt rows computed at once. Never changes a bit", &(c)->chunk, 1, 65536, NULL}
#define CLI_SHOW_OPTION(target)                                                                                       \
    {CLI_FLAG, 0, "show-prompt", NULL,                                                                                \
     "write what the model is given to standard error: the text with its control tokens, and the ids", (target), 0,    \
     0, NULL}
#define CLI_OUTPUT_OPTIONS(c)                                                                                         \
    {CLI_GROUP, 0, "Output", NULL, NULL, NULL, 0, 0, NULL},                                                           \
        {CLI_FLAG, 0, "json", NULL, "print JSON", &(c)->json, 0, 0, NULL},                                            \
        {CLI_FLAG, 'q', "quiet", NULL, "no progress and no summary", &(c)->quiet, 0, 0, NULL}
/* clang-format on */

/* The file of a model, not made yet, in a folder of its own under TMPDIR; both go away on closing, or when the program
 * ends. */
struct cli_temporary {
    char folder[4096], file[4096 + 32];
    pid_t watcher;
    int hold;
};
int cli_temporary_open(const struct cli_command *command, struct cli_temporary *temporary);
void cli_temporary_close(struct cli_temporary *temporary);

/* Opens the engine the common options ask for. */
int cli_open_engine(const struct cli_command *command, const struct cli_common *common, struct kvc_engine **engine);
/* Checks every policy before anything slow happens. */
int cli_check_policies(const struct cli_command *command, const struct kvc_engine *engine,
                       const struct cli_texts *specs);
/* The given policies; "all" stands for every method, with a budget where it takes one. Texts are malloc'ed:
 * cli_specs_free. */
int cli_all_specs(const struct cli_command *command, const struct cli_texts *given, uint64_t budget,
                  struct cli_texts *specs);
void cli_specs_free(struct cli_texts *specs);
/* Takes those that "all" made and that do not suit the model out of the list, with a warning. */
void cli_leave_out(const struct cli_command *command, const struct kvc_engine *engine, struct kvc_model *model,
                   struct cli_texts *specs);
/* Engine, policies and model, in this order; both are NULL after a failure. path NULL: an error that asks for -m. */
int cli_open_model(const struct cli_command *command, const struct cli_common *common, const char *path,
                   const struct cli_texts *specs, struct kvc_engine **engine, struct kvc_model **model);
/* The same, and where the model cannot be opened, its text alone: of a vocabulary without weights only, or of any. */
enum cli_text_of { CLI_TEXT_OF_VOCABULARIES, CLI_TEXT_OF_ANY };
int cli_open_model_or_text(const struct cli_command *command, const struct cli_common *common, const char *path,
                           const struct cli_texts *specs, enum cli_text_of which, struct kvc_engine **engine,
                           struct kvc_model **model);
/* Session options as the common options say. spec NULL: full. */
void cli_session_options(const struct cli_common *common, const char *spec, struct kvc_session_options *options);
/* Warns, once per flag, when tokens exceed the trained length. */
void cli_warn_context(const struct cli_command *command, const struct kvc_model *model, uint64_t tokens, bool *warned);
/* The folder of bundled data, "demo" say: KVCULL_DATA, beside the program, installed, or the source tree. *path is
 * malloc'ed. */
int cli_data_path(const struct cli_command *command, const char *name, char **path);

/* ---- text in and out ------------------------------------------------------------------------------------------ */

/* A whole file of text, or standard input where path is "-"; *text is malloc'ed and ends in a NUL not counted. It has
 * passed cli_check_text. */
int cli_read_file(const struct cli_command *command, const char *path, char **text, size_t *bytes);
/* Texts are UTF-8: takes a byte order mark off, with a warning; KVC_INPUT for UTF-16 and for a byte 0. */
int cli_check_text(const struct cli_command *command, const char *name, char *text, size_t *bytes);

/* A name that the library can write a model or tensors to: not empty, not "-". KVC_USAGE, with a message. */
int cli_check_name(const struct cli_command *command, const char *option, const char *path);
/* A file that appears under its name only when it is complete. "-" is standard output; devices and pipes are
 * written directly. */
struct cli_file {
    FILE *stream;
    char *path;
    struct kvc_output *output; /* NULL: written directly */
};
int cli_file_open(const struct cli_command *command, const char *path, struct cli_file *file);
int cli_file_commit(const struct cli_command *command, struct cli_file *file); /* closes it in any case */
void cli_file_abandon(struct cli_file *file);                                  /* after an error; fine when not open */
/* Before anything is computed: whether the file could be written. Nothing is left there. */
int cli_check_output(const struct cli_command *command, const char *path);
/* Whether the file is none of those that the command reads, [count] of which may be NULL, or a folder of a model. */
int cli_check_inputs(const struct cli_command *command, const char *path, const char *const *inputs, size_t count);
/* Flushes standard output; an error (a full disk, a closed pipe) is reported. */
int cli_flush(const struct cli_command *command);

/* "1.50 GiB", "512 B", "1.2 s", "350 us"; text has 32 bytes and is returned. */
char *cli_bytes(uint64_t bytes, char *text);
char *cli_time(double seconds, char *text);
char *cli_number(uint64_t number, char *text); /* 1,048,576 */
double cli_seconds(void);                      /* a monotonic clock */
uint64_t cli_available(void);                  /* bytes of memory left to this process; UINT64_MAX: not known */
static inline uint64_t cli_min(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline uint64_t cli_max(uint64_t a, uint64_t b) { return a > b ? a : b; }
uint64_t cli_random(uint64_t *state);                                /* splitmix64, for made-up tokens */
double cli_median(double *values, size_t count);                     /* reorders; 0 of none */
double cli_loss(const float *logits, uint32_t vocab, int32_t token); /* -log of the softmax at the token */

/* ---- tables --------------------------------------------------------------------------------------------------- */

/* Collects cells and prints them aligned, at most 100 columns wide: the last column wraps when it must. */
struct cli_table;
/* headings: separated by '|', a leading '<' aligns left (words), otherwise right (numbers): "<method|budget|cache". */
struct cli_table *cli_table_open(const char *headings);
/* The next cell; rows fill from left to right. A failed allocation is remembered until the print. */
void cli_cell(struct cli_table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
void cli_table_rule(struct cli_table *table); /* an empty line before the next row */
int cli_table_print(const struct cli_command *command, struct cli_table *table, FILE *stream);
void cli_table_free(struct cli_table *table);
/* Prints the names and summaries that next() gives, as a table with that heading or as a JSON list with that key. */
int cli_names(const struct cli_command *command, const struct cli_common *common, const char *heading, const char *key,
              bool (*next)(size_t, const char **, const char **));
/* Prints text wrapped to 100 columns, every line indented; an empty line separates paragraphs. */
void cli_wrap(FILE *stream, const char *text, unsigned indent);

/* ---- UTF-8 ----------------------------------------------------------------------------------------------------- */

#define CLI_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD, instead of what is no character */
enum cli_part { CLI_CHARACTER, CLI_PART_BEGUN /* the text ends inside */, CLI_PART_NONE };
/* Bytes of the UTF-8 character at text, of which there are bytes (at least one); 0: none begins there. */
size_t cli_character(const char *text, size_t bytes);
/* The same, or the bytes that stand for one: at least 1 in any case. */
size_t cli_part(const char *text, size_t bytes, enum cli_part *kind);
/* Bytes at the end of the text that begin a character; 0: it ends with a whole one. */
size_t cli_begun(const char *text, size_t bytes);
/* Writes the text with U+FFFD instead of what is no character. */
void cli_write_text(FILE *stream, const char *text, size_t bytes);

/* ---- JSON ------------------------------------------------------------------------------------------------------ */

/* Any bytes as a JSON string: what is not UTF-8 becomes U+FFFD. */
json_t *cli_json_text(const char *text, size_t bytes);
json_t *cli_json_number(double value); /* null where it is not finite, which JSON cannot say */
/* Called once, before any JSON: counts the requests for memory that jansson makes in vain. */
void cli_json_start(void);
/* Whether a value was lost for want of memory: what jansson then says of a text is not true. */
bool cli_json_lost(void);
/* A new begin, where this thread has freed all JSON that lost something. */
void cli_json_forget(void);
/* What json_dumps gave. */
void cli_json_free(void *block);
/* Adds to an object; a value that is lost (NULL: no memory) makes the next print fail. */
void cli_json_set(json_t *object, const char *key, json_t *value);
/* Prints (indented) to standard output or the stream, gives the reference back, and fails when root is NULL. */
int cli_json_print(const struct cli_command *command, json_t *root, FILE *stream);

/* ---- progress --------------------------------------------------------------------------------------------------- */

/* A bar on a terminal, now and then a plain line elsewhere, nothing when quiet or short. */
enum { CLI_PROGRESS_MARKS = 8 };
struct cli_progress {
    const char *what;
    bool quiet, terminal, shown;
    double start, last;
    struct {
        double when;
        uint64_t done;
    } marks[CLI_PROGRESS_MARKS]; /* of the last parts, mark i in marks[i % CLI_PROGRESS_MARKS] */
    unsigned mark_count;
};
void cli_progress_start(struct cli_progress *progress, const char *what, bool quiet);
int cli_progress(void *progress, uint64_t done, uint64_t total); /* a kvc_progress_fn; returns 0 */
void cli_progress_end(struct cli_progress *progress);
/* The two halves of the estimate: a part that ended at this second, and the seconds left at the speed of the last few
 * parts (negative: fewer than three have ended). */
void cli_progress_mark(struct cli_progress *progress, double now, uint64_t done);
double cli_progress_left(const struct cli_progress *progress, uint64_t total);

/* ---- generation -------------------------------------------------------------------------------------------------- */

enum cli_stop { CLI_STOP_LENGTH, CLI_STOP_END, CLI_STOP_TEXT, CLI_STOP_CONTEXT, CLI_STOP_INTERRUPT };
const char *cli_stop_name(enum cli_stop stop);

struct cli_generation { /* what one turn needs; filled by cli_generation_options and the command */
    const struct cli_command *command;
    struct kvc_model *model;
    struct kvc_session *session;
    struct kvc_sampler *sampler;
    float *logits; /* [vocab] */
    const struct cli_texts *stops;
    uint64_t limit;   /* tokens to generate at most */
    uint64_t context; /* tokens the session may see; 0: no limit */
    float frequency_penalty, presence_penalty;
    bool ignore_end;
    bool quiet;
    bool echo;          /* write the answer to stdout as it comes */
    bool show_prompt;   /* write what the model is given to stderr */
    const char *unused; /* the option that uses the model's chat template, where the prompts do not; or NULL */
    const volatile sig_atomic_t *interrupted; /* NULL, or ends the answer when not 0 */
    int32_t pending; /* the last token of the answer before, which the session has not seen; -1: none */
    bool warned;     /* of the trained length */
    struct kvc_session_options options; /* of the session */
    int32_t *history; /* [given], while a session of a longrope model may have to begin anew (longrope.c) */
    size_t given;
    bool outgrown;                                        /* the short factors, or the first prompt chose the others */
    bool ended;                                           /* the last answer, by a token of the model's */
    bool goes_on;                                         /* a saved session was loaded, whose answer had not ended */
    char *policy;                                         /* of options, where a saved session says it */
    uint64_t seen_prompt, seen_answer;                    /* tokens so far, all turns */
    double first_seconds, prompt_seconds, answer_seconds; /* of the first turn; of all turns */
};
struct cli_answer {
    char *text; /* malloc'ed, NUL-terminated */
    size_t bytes;
    int32_t *tokens;
    size_t count;
    size_t prompt_tokens;
    enum cli_stop stop;
};
void cli_answer_free(struct cli_answer *answer);
/* Before the session gets `count` tokens more: begins it anew with longrope's long factors, or warns. */
int cli_longrope(struct cli_generation *generation, const int32_t *tokens, size_t count);
/* Before the first: the long factors from the first token on, where it may grow past the short ones' length and entries
 * will be gone by then. */
int cli_longrope_first(struct cli_generation *generation);
/* One turn: the prompt's tokens, then the answer. first: nothing precedes the answer's text, so that a leading space
 * some tokenizers put in front of a text is dropped. */
int cli_generate(struct cli_generation *generation, const int32_t *tokens, size_t count, bool first,
                 struct cli_answer *answer);

struct cli_sampling { /* options of run and chat */
    double temperature, top_p, min_p, repeat_penalty, frequency_penalty, presence_penalty;
    int64_t top_k, repeat_last, seed, limit;
    struct cli_texts stops;
    bool ignore_end;
};
void cli_sampling_defaults(struct cli_sampling *sampling);
/* clang-format off */
#define CLI_SAMPLING_OPTIONS(s)                                                                                       \
    {CLI_GROUP, 0, "Answer", NULL, NULL, NULL, 0, 0, NULL},                                                           \
        {CLI_INT, 'n', "tokens", "N", "tokens of an answer at most; -1: no limit", &(s)->limit, -1,                   \
         2147483647, NULL},                                                                                           \
        {CLI_REAL, 0, "temp", "T", "temperature; 0: always the likeliest token", &(s)->temperature, 0, 100, NULL},    \
        {CLI_INT, 0, "top-k", "K", "only the K likeliest tokens; 0: off", &(s)->top_k, 0, 2147483647, NULL},          \
        {CLI_REAL, 0, "top-p", "P", "only the likeliest tokens that sum up to P; 1: off", &(s)->top_p, 0, 1, NULL},   \
        {CLI_REAL, 0, "min-p", "P", "only tokens at least P times as likely as the likeliest; 0: off", &(s)->min_p, 0,\
         1, NULL},                                                                                                    \
        {CLI_REAL, 0, "repeat-penalty", "R", "makes recent tokens less likely; 1: off", &(s)->repeat_penalty, 0.01,   \
         100, NULL},                                                                                                  \
        {CLI_INT, 0, "repeat-last", "N", "tokens that count as recent", &(s)->repeat_last, 0, 2147483647, NULL},      \
        {CLI_REAL, 0, "frequency-penalty", "P",                                                                       \
         "lowers a token's logit by P each time that the answer has it already; 0: off", &(s)->frequency_penalty, -2, \
         2, NULL},                                                                                                    \
        {CLI_REAL, 0, "presence-penalty", "P", "lowers a token's logit by P once the answer has it; 0: off",          \
         &(s)->presence_penalty, -2, 2, NULL},                                                                        \
        {CLI_INT, 0, "seed", "S",                                                                                     \
         "seed of the random numbers: the same seed gives the same answer; -1: draw one", &(s)->seed, -1,             \
         9007199254740992.0, NULL},                                                                                   \
        {CLI_TEXTS, 0, "stop", "TEXT", "ends an answer before TEXT; may be given several times", &(s)->stops, 0, 0,   \
         NULL},                                                                                                       \
        {CLI_FLAG, 0, "ignore-eos", NULL, "does not end an answer at the model's end token", &(s)->ignore_end, 0, 0,  \
         NULL}
/* clang-format on */
/* Opens the session, the sampler and the array of logits; cli_generation_close frees them. */
int cli_generation_open(const struct cli_command *command, const struct cli_common *common,
                        const struct cli_sampling *sampling, struct kvc_model *model, const char *spec,
                        struct cli_generation *generation);
void cli_generation_close(struct cli_generation *generation);
/* What the model is given, on stderr: the text with its control tokens, and the ids. */
int cli_show_prompt(const struct cli_generation *generation, const int32_t *tokens, size_t count);
/* Says on stderr what the answer itself does not: that it is empty, or cut, and why. */
void cli_say_ending(const struct cli_generation *generation, const struct cli_answer *answer);
/* The summary on stderr, or as a JSON object. */
void cli_summary_print(const struct cli_generation *generation, const char *spec);
json_t *cli_summary_json(const struct cli_generation *generation);
/* Bytes held, as JSON. */
json_t *cli_stats_json(const struct kvc_session_stats *stats);

/* What the options of a chat say. */
struct cli_template {
    const char *name, *system;                /* name "model": the model's own, as NULL */
    const char *file;                         /* of a template, instead of name */
    bool implied;                             /* nobody asked for a chat: the model has a template */
    const char *messages, *tools, *documents; /* files of JSON */
    const char *variables;                    /* JSON */
    const char *date;
    bool special_content;
};
bool cli_template_given(const struct cli_template *from); /* any of them */
/* clang-format off */
#define CLI_NO_SPECIAL_OPTION(flag)                                                                                   \
    {CLI_FLAG, 0, "no-special", NULL, "control tokens in the text, as <|im_end|>, are plain text", flag, 0, 0, NULL}
#define CLI_TEMPLATE_OPTIONS(t)                                                                                       \
    {CLI_TEXT, 0, "chat-template-file", "FILE", "a chat template in Jinja, instead of --template", &(t)->file, 0, 0,   \
     NULL},                                                                                                           \
        {CLI_TEXT, 0, "messages", "FILE",                                                                             \
     "earlier messages in front of the chat: a JSON array of objects with role, content, and tool_calls or whatever " \
     "the template reads",                                                                                            \
     &(t)->messages, 0, 0, NULL},                                                                                     \
        {CLI_TEXT, 0, "tools", "FILE", "a JSON array of the functions that the model may call", &(t)->tools, 0, 0,    \
         NULL},                                                                                                       \
        {CLI_TEXT, 0, "documents", "FILE", "a JSON array of texts that the model may quote", &(t)->documents, 0, 0,   \
         NULL},                                                                                                       \
        {CLI_TEXT, 0, "template-vars", "JSON", "more variables for the template: '{\"enable_thinking\": false}'",     \
         &(t)->variables, 0, 0, NULL},                                                                                \
        {CLI_TEXT, 0, "date", "DATE",                                                                                 \
         "the date for the template, like 2025-06-30, or today; without one a template that asks whether there is a " \
         "date is told no",                                                                                           \
         &(t)->date, 0, 0, NULL},                                                                                        \
        {CLI_FLAG, 0, "special-content", NULL,                                                                       \
         "control tokens in messages, tools and variables are tokens: whoever wrote them can end a turn",             \
         &(t)->special_content, 0, 0, NULL}
/* clang-format on */

/* The option that uses the model's own chat template: "--template model", or "--template NAME" where it is none that is
 * known; NULL: it has none. */
const char *cli_own_template(const struct kvc_model *model);
/* A chat as text: the first turn whole, later ones as what the template puts after the last answer. */
struct cli_chat;
int cli_chat_open(const struct cli_command *command, struct kvc_model *model, const struct cli_template *from,
                  struct cli_chat **chat);
void cli_chat_close(struct cli_chat *chat);
/* The tokens of the next turn; the caller frees them. */
int cli_chat_turn(struct cli_chat *chat, const char *user, int32_t **tokens, size_t *count);
int cli_chat_answer(struct cli_chat *chat, const struct cli_answer *answer);
/* The last answer goes on with this one. */
int cli_chat_extend(struct cli_chat *chat, const struct cli_answer *answer);
/* Its messages, and the same put back into one that has begun with none. path: where they are from. */
json_t *cli_chat_messages(const struct cli_chat *chat);
int cli_chat_restore(struct cli_chat *chat, const json_t *messages, const char *path);

/* ---- saved sessions ---- */

/* The session in a file, so that an answer or a chat (NULL: there is none) can go on. */
int cli_generation_save(struct cli_generation *generation, const char *path, const struct cli_chat *chat);
/* The other way: it takes the place of the generation's session. kv, type: the policy and the type of entries were
 * given and must be the file's. *messages: those of a chat, a new reference, or NULL. */
int cli_generation_load(struct cli_generation *generation, const char *path, bool kv, bool type, json_t **messages);
/* The same of a chat that has just been opened. */
int cli_chat_resume(struct cli_generation *generation, const struct cli_template *from, const char *path, bool kv,
                    bool type, struct cli_chat *chat);

#define CLI_LOCK ".kvcull-lock" /* follows the name of what it guards */
struct cli_lock {               /* zeroed: none */
    int file;
    char *guard; /* the lock's file, which goes with the lock */
};
/* Locks the file `guard`, so that no other process that asks for it writes to path, which an option names. */
int cli_lock_open(const struct cli_command *command, const char *option, const char *path, const char *guard,
                  struct cli_lock *lock);
void cli_lock_close(struct cli_lock *lock);
/* Before an answer is computed: a session can be saved to path, and no other process is to until the lock is closed. */
int cli_session_guard(const struct cli_command *command, const char *option, const char *path, struct cli_lock *lock);

/* ---- the commands -------------------------------------------------------------------------------------------------
 */

extern const struct cli_command cli_commands[]; /* ends with name NULL */
const struct cli_command *cli_find_command(const char *name);
/* The tasks of `kvcull eval`, named "eval needle" and so on; ends with name NULL. The folder eval/ has them. */
extern const struct cli_command cli_eval_tasks[];
/* Standard tasks, named by the words of argv. */
int cli_eval_standard(const struct cli_command *command, int argc, char **argv);

int kvc_cli_run(const struct cli_command *command, int argc, char **argv);
int kvc_cli_chat(const struct cli_command *command, int argc, char **argv);
int kvc_cli_serve(const struct cli_command *command, int argc, char **argv);
int kvc_cli_eval(const struct cli_command *command, int argc, char **argv);
int kvc_cli_bench(const struct cli_command *command, int argc, char **argv);
int kvc_cli_verify(const struct cli_command *command, int argc, char **argv);
int kvc_cli_replay(const struct cli_command *command, int argc, char **argv);
int kvc_cli_logits(const struct cli_command *command, int argc, char **argv);
int kvc_cli_tokenize(const struct cli_command *command, int argc, char **argv);
int kvc_cli_perplexity(const struct cli_command *command, int argc, char **argv);
int kvc_cli_collect(const struct cli_command *command, int argc, char **argv);
int kvc_cli_convert(const struct cli_command *command, int argc, char **argv);
int kvc_cli_mkmodel(const struct cli_command *command, int argc, char **argv);
int kvc_cli_info(const struct cli_command *command, int argc, char **argv);

#endif

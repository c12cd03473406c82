/* kvcull.h - the public interface of libkvcull: engines, models, text, sessions, sampling, files.
 *
 * kvcull runs language models with a key-value cache of bounded size. Every function that can fail returns an
 * enum kvc_status and, where it takes one, fills a struct kvc_error with one line: what, where, what would be right.
 * Nothing here is thread-safe per object: an engine and everything opened from it belong to one thread at a time. But
 * functions that take nothing but const objects (text, chat templates, policy strings, estimates, what a model is) may
 * be called by several threads, beside one that computes.
 * Sizes are in bytes, counts in tokens or entries; H = query heads, H_kv = key-value heads, d = head size.
 *
 * Two more headers are installed beside this one: kvcull/policy.h for those who write a method of their own, and
 * kvcull/check.h for replays on tensors, verification and measurements.
 */
#ifndef KVCULL_H
#define KVCULL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KVC_VERSION "0.1.0"
#define KVC_ARITHMETIC_VERSION 1 /* changes when any result changes by a bit */
#define KVC_INT8_VERSION 1       /* the same of KVC_MATH_INT8 alone */
const char *kvc_version(void);   /* KVC_VERSION of the library itself, for programs that find it when they run */

/* ---- errors ------------------------------------------------------------------------------------------------- */

/* Also the exit status of the program. A wrong argument is KVC_USAGE, be it an option, a geometry or a value that is
 * not of its enum. What a file says wrongly is KVC_INPUT; so are rows of tensors that do not suit a policy, because
 * they come from files. */
enum kvc_status {
    KVC_OK = 0,
    KVC_DIFFERS = 1, /* a check did not hold */
    KVC_USAGE = 2,   /* a wrong option, policy or argument */
    KVC_INPUT = 3,   /* a bad input file, or a model that gives logits which are not finite */
    KVC_RESOURCE = 4 /* no memory, no device, no space */
};

struct kvc_error {
    enum kvc_status status;
    char text[500]; /* one line, no newline */
};

/* Fills error (may be NULL) and returns status, so that `return kvc_fail(...)` reads well. */
enum kvc_status kvc_fail(struct kvc_error *error, enum kvc_status status, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;
/* Makes one line to print of any bytes: control characters and what is not UTF-8 become '?', and where the text is too
 * long its middle becomes "...". line [capacity], capacity at least 1, ends in a NUL; line and text may be the same.
 * The text of a struct kvc_error is such a line. Async-signal-safe. */
void kvc_printable(const char *text, size_t bytes, char *line, size_t capacity);

/* Finds the name that a mistyped word most likely stands for, to ask "did you mean NAME?": start with kvc_nearest, try
 * every name, then read `name`. Names are not copied. */
struct kvc_nearest {
    const char *word; /* [word_bytes] the word as it was typed */
    size_t word_bytes;
    const char *name; /* [bytes] the nearest name so far, a pointer that kvc_nearest_try got; NULL: none is near */
    size_t bytes;
    size_t edits; /* a name must take fewer edits than this to become the nearest */
};
struct kvc_nearest kvc_nearest(const char *word, size_t bytes);
void kvc_nearest_try(struct kvc_nearest *nearest, const char *name, size_t bytes);
void kvc_nearest_try_choices(struct kvc_nearest *nearest, const char *choices); /* names separated by '|' */
/* "; did you mean NAME?" for the end of an error message, or "" where no name is near; returns text. */
#define KVC_NEAREST_HINT 64
const char *kvc_nearest_hint(const struct kvc_nearest *nearest, char text[KVC_NEAREST_HINT]);

/* ---- engine: a backend, its threads, its memory, the known policies ----------------------------------------- */

/* Element types. Weights may have any of them; cache entries KVC_F32, KVC_F16 or KVC_Q8_0. */
enum kvc_type {
    KVC_F32,
    KVC_F16,
    KVC_BF16,
    KVC_Q8_0,
    KVC_Q4_0,
    KVC_Q5_0,
    KVC_Q3_K,
    KVC_Q4_K,
    KVC_Q5_K,
    KVC_Q6_K,
    KVC_Q4_1,
    KVC_Q5_1,
    KVC_IQ4_NL,
    KVC_MXFP4,
    KVC_Q2_K,
    KVC_IQ4_XS,
    KVC_TYPES,           /* how many there are in files, which kvc_convert writes */
    KVC_FP8 = KVC_TYPES, /* in memory: FP8 weights of Hugging Face folders, with float32 scales */
    KVC_ALL_TYPES
};
const char *kvc_type_name(enum kvc_type type);                  /* "f32", "f16", "bf16", "q8_0", ... */
bool kvc_type_from_name(const char *name, enum kvc_type *type); /* in any case, "F16"; false: none of files */

/* The arithmetic of linear layers. FLOAT and INT8 are the same bits everywhere; INT8 multiplies weights that are blocks
 * of small integers with activations of eight bits, other weights as FLOAT does (the program's default). FAST leaves
 * many rows to a BLAS library. */
enum kvc_math { KVC_MATH_FLOAT, KVC_MATH_FAST, KVC_MATH_INT8, KVC_MATH_EXACT = KVC_MATH_FLOAT /* its name before */ };

struct kvc_ranks; /* kvcull/ranks.h */

struct kvc_engine_options {
    const char *backend; /* "cpu" (default, NULL), "ref"; opencl[:N] and cuda[:N] where they are built */
    int threads;         /* 0: one per available core */
    enum kvc_math math;
    struct kvc_ranks *ranks; /* the processes that the engine's models are shared out to; NULL: this one alone */
};

enum kvc_memory_kind {
    KVC_MEMORY_WEIGHTS, /* copied weights; mapped ones are reported by kvc_model_info */
    KVC_MEMORY_CACHE,   /* blocks of keys and values */
    KVC_MEMORY_STATE,   /* a policy's columns, order lists, positions, block tables */
    KVC_MEMORY_HIDDEN,  /* hidden states of a layer-major prefill */
    KVC_MEMORY_SCRATCH,
    KVC_MEMORY_KINDS
};
struct kvc_memory { /* bytes by kind, counted at every allocation */
    uint64_t now[KVC_MEMORY_KINDS], peak[KVC_MEMORY_KINDS];
    uint64_t now_total, peak_total; /* peak_total: the peak of the sum */
};

struct kvc_engine;
enum kvc_status kvc_engine_open(const struct kvc_engine_options *options, struct kvc_engine **engine,
                                struct kvc_error *error);
void kvc_engine_close(struct kvc_engine *engine); /* after everything opened from it; NULL is fine */
void kvc_engine_memory(const struct kvc_engine *engine, struct kvc_memory *memory);
void kvc_engine_reset_peaks(struct kvc_engine *engine);
const char *kvc_engine_backend(const struct kvc_engine *engine); /* "cpu (avx512, 2 threads)" */

/* Called before every part of a layer of a prompt, of a session or a replay, in the thread that computes: a program
 * whose signal handlers cannot end the call themselves, as an interpreter, looks for signals here. It must not use the
 * engine. Non-zero ends the call with KVC_USAGE, and its sessions must be closed. */
typedef int kvc_interrupt_fn(void *user);
/* interrupt NULL: no longer. KVC_USAGE: the engine has several processes. */
enum kvc_status kvc_engine_on_interrupt(struct kvc_engine *engine, kvc_interrupt_fn *interrupt, void *user,
                                        struct kvc_error *error);

struct kvc_backend_info {
    const char *name; /* "ref", "cpu" */
    bool usable;
    char detail[256];  /* the path chosen, or why it cannot be used here */
    char missing[512]; /* operations that fall back to ref, "none" where none do */
};
/* Looks at the i-th backend of this build; false past the last. */
bool kvc_backend(size_t i, struct kvc_backend_info *info);
/* The device that "opencl:N" names, in one line, of a backend that may have several; false past the last. */
bool kvc_backend_device(size_t backend, size_t device, char *text, size_t capacity);

/* ---- models ------------------------------------------------------------------------------------------------- */

struct kvc_model;

struct kvc_model_info {
    const char *path, *format /* "gguf", "huggingface" */, *architecture /* "llama", "qwen3", ... */, *name;
    /* layers: those with attention, which have a cache and which methods count */
    uint32_t layers, hidden, heads, kv_heads, head_size, feed_forward, vocab;
    uint32_t recurrent_layers; /* gated delta nets between these */
    uint64_t recurrent_bytes;  /* of a session: their state, which no token makes larger */
    uint32_t trained_context;
    uint32_t original_context;      /* longrope: tokens that the short factors serve; 0: there is one set of factors */
    uint32_t sliding_window;        /* 0: none */
    const uint32_t *windows;        /* [layers]: the window of each, 0: none; NULL: no layer has one */
    uint32_t experts, experts_used; /* feed-forward networks of a layer, and how many a token passes; 0: one */
    uint32_t expert_layers;         /* layers that have these, of width feed_forward each */
    uint32_t dense_feed;            /* the width of the network of the other layers; 0: all have experts, or none */
    uint64_t parameters, weight_bytes, mapped_bytes;
    uint64_t active_parameters, active_bytes; /* of these, what one token alone is computed with */
    const char *weight_types;                 /* "q4_k, q6_k, f32" */
    enum kvc_math math; /* in force: the engine's, but FLOAT for INT8 where no weight is quantized */
    const char *rope;   /* "plain", "linear", "llama3", "yarn", "longrope", "divisors" */
    int32_t bos, eos;   /* -1: none */
    bool has_chat_template;
};

/* Opens a GGUF file or a Hugging Face folder. The file stays mapped until kvc_model_close. */
enum kvc_status kvc_model_open(struct kvc_engine *engine, const char *path, struct kvc_model **model,
                               struct kvc_error *error);
/* Opens the text side of a model alone: its tokenizer and its chat template. No weights are read, so the file may be a
 * vocabulary without weights, or a model of a family that is not supported. Functions of text take such a model;
 * kvc_session_open refuses it with KVC_USAGE. kvc_model_info says its vocabulary, name, architecture, and in
 * weight_bytes how many bytes of weights the GGUF file has (0: it is a vocabulary; 0 of a folder, too); all other sizes
 * are 0. KVC_INPUT: there is no tokenizer. */
enum kvc_status kvc_model_open_text(struct kvc_engine *engine, const char *path, struct kvc_model **model,
                                    struct kvc_error *error);
void kvc_model_close(struct kvc_model *model); /* after its sessions; NULL is fine */
const struct kvc_model_info *kvc_model_info(const struct kvc_model *model);

/* Writes a GGUF file with the model's weights in another type. A matrix whose rows are no whole number of the type's
 * blocks becomes q8_0 or f16; error->text says so where that happened, though KVC_OK is returned, and is "" otherwise.
 * Where `to` ends in a slash, a Hugging Face folder is written, of type f32, f16 or bf16; none with files in it may be
 * there. */
enum kvc_status kvc_convert(const char *from, const char *to, enum kvc_type type, struct kvc_error *error);
/* A type that kvc_convert can write there, for callers who ask for none. For a GGUF file KVC_Q8_0. For a folder, whose
 * name ends in a slash, the type of the source's matrices where it is KVC_F32 or KVC_BF16; otherwise KVC_F16. */
enum kvc_status kvc_convert_type(const char *from, const char *to, enum kvc_type *type, struct kvc_error *error);
/* Writes a GGUF file of random weights with the geometry of a real model (kvc_shape), the same bytes on every machine.
 * Each type has weights of its own. error->text is used as by kvc_convert. */
enum kvc_status kvc_make_model(const char *shape, enum kvc_type type, uint64_t seed, const char *to,
                               struct kvc_error *error);
bool kvc_shape(size_t i, const char **name, const char **summary); /* the i-th shape; false past the last */
/* A family of models that can be read. */
struct kvc_model_family {
    const char *models; /* the released models; NULL: those of the family before, under another model_type */
    const char *gguf;   /* general.architecture of GGUF files */
    const char *folder; /* model_type of Hugging Face folders */
    const char *apart;  /* what sets it apart; NULL with `models` */
};
bool kvc_model_family(size_t i, struct kvc_model_family *family); /* the i-th; false past the last */

/* ---- text --------------------------------------------------------------------------------------------------- */

/* Flags of kvc_tokenize, as bits. */
enum {
    KVC_TOKENIZE_BOS = 1,    /* add what the model puts in front */
    KVC_TOKENIZE_SPECIAL = 2 /* control tokens are recognised: "<|eot_id|>" is one token */
};

/* text need not be valid UTF-8. *tokens is malloc'ed, the caller frees it. */
enum kvc_status kvc_tokenize(const struct kvc_model *model, const char *text, size_t bytes, unsigned flags,
                             int32_t **tokens, size_t *count, struct kvc_error *error);
/* *text is malloc'ed and ends in a NUL not counted in *bytes. special: also write control tokens. */
enum kvc_status kvc_detokenize(const struct kvc_model *model, const int32_t *tokens, size_t count, bool special,
                               char **text, size_t *bytes, struct kvc_error *error);
/* The bytes that one token adds to a text: after other tokens, or (first) at its beginning. A token may hold part of a
 * character. *bytes is how many there are; text [capacity] gets as many as fit, and no NUL. No memory is
 * allocated. KVC_INPUT: the model has no tokenizer; KVC_USAGE: no such token. */
enum kvc_status kvc_token_bytes(const struct kvc_model *model, int32_t token, bool first, char *text, size_t capacity,
                                size_t *bytes, struct kvc_error *error);
/* A token that the model's files name as an end: its eos, and the further ones of generation_config.json, config.json
 * and tokenizer.ggml.eot_token_id, eom_token_id, eog_token_id. */
bool kvc_token_ends_turn(const struct kvc_model *model, int32_t token);

struct kvc_message {
    const char *role; /* "system", "user", "assistant", or what else the template takes */
    const char *content;
};

/* What a chat template is given beside the messages. Texts of JSON; NULL: none. */
struct kvc_chat_options {
    const char *template_name; /* a built-in one's, or one of the model's; NULL: the model's own: "tool_use" of several
                                  where there are tools, else "default" */
    const char *template_text; /* Jinja source of a template to use instead; NULL: none. Not with template_name */
    const char *earlier;       /* an array: messages in front of the others, with all that a template may read, as
                                  "tool_calls" */
    const char *tools;         /* an array: the functions that the model may call */
    const char *documents;     /* an array: texts that the model may quote */
    const char *variables;     /* an object: more variables, as {"enable_thinking": false} */
    const char *date;          /* what strftime_now tells a template, "2025-06-30" or "2025-06-30 14:05:09"; NULL: it is
                                  not defined, so that a prompt does not depend on the day */
    bool answer;               /* end with the opening of the assistant's turn */
    bool special_content;      /* control tokens that messages, tools, documents and variables write are control tokens,
                                  too: whoever wrote these can then end a turn and begin another */
};
void kvc_chat_defaults(struct kvc_chat_options *options); /* the model's own template, the answer's opening, no more */

/* The text of a conversation, to be read; kvc_chat_tokens (kvcull/chat.h) makes tokens of one. *text is malloc'ed.
 * KVC_USAGE: there is no such template, or it refuses the conversation; KVC_INPUT: the template is broken, goes beyond
 * its bounds, or needs what is not supported (docs/reference/chat-templates.md).
 */
enum kvc_status kvc_chat_text_with(const struct kvc_model *model, const struct kvc_chat_options *options,
                                   const struct kvc_message *messages, size_t count, char **text,
                                   struct kvc_error *error);
/* The same with a template's name and answer alone. */
enum kvc_status kvc_chat_text(const struct kvc_model *model, const char *template_name,
                              const struct kvc_message *messages, size_t count, bool answer, char **text,
                              struct kvc_error *error);
/* Whether the template that these options choose reads a variable, as "tools" or "documents": what it does not read is
 * not in the text. true also where no template is found, or it is broken: kvc_chat_text_with says so. */
bool kvc_chat_reads(const struct kvc_model *model, const struct kvc_chat_options *options, const char *variable);
bool kvc_chat_template(size_t i, const char **name, const char **summary); /* the i-th built-in; false past the last */

/* ---- sessions ----------------------------------------------------------------------------------------------- */

struct kvc_session;

struct kvc_session_options {
    const char *policy;       /* "full" when NULL; see kvc_policy_check */
    enum kvc_type cache_type; /* KVC_F32, KVC_F16 or KVC_Q8_0; kvc_session_defaults sets F16 */
    uint32_t chunk;           /* rows computed at once in a prompt; 0: 512, or 256 where ranks share layers out. Never
                               * changes a bit */
    uint64_t context;      /* tokens the caller means to use: longrope models choose their factors by it, once for the
                              session; 0: they choose by the first prompt */
    uint64_t seed;         /* for policies that draw random numbers */
    uint64_t memory_limit; /* cache + state bytes this session may hold; 0: no limit */
    uint64_t expected;     /* tokens the caller means to ask for after each prompt; some methods use it; 0: unknown */
    bool record_reads;     /* remember what the last decode step read, for kvc_session_reads */
};
void kvc_session_defaults(struct kvc_session_options *options);

enum kvc_status kvc_session_open(struct kvc_model *model, const struct kvc_session_options *options,
                                 struct kvc_session **session, struct kvc_error *error);
void kvc_session_close(struct kvc_session *session); /* NULL is fine */
/* The policy string that it was opened with, and how its entries are stored. */
const char *kvc_session_policy(const struct kvc_session *session);
enum kvc_type kvc_session_cache_type(const struct kvc_session *session);

/* Called for prompt rows in ascending order. logits [vocab] is valid during the call, which must not use the model's
 * sessions. Non-zero return stops. */
typedef int kvc_row_fn(void *user, uint64_t row, const float *logits);
/* done of total, counted in rows times layers; non-zero stops. The last call has done = total. The total falls where
 * token pruning drops rows. The call may use other sessions of the model, but for prompts: kvc_decode, so that a long
 * prompt does not keep them waiting, and kvc_session_close. No result changes by that. */
typedef int kvc_progress_fn(void *user, uint64_t done, uint64_t total);
/* Called where a method reads a prompt chunk by chunk (stage chunk): after each chunk, with the turn's tokens read so
 * far and what the session holds then, which kvc_session_positions says. Non-zero return stops. */
typedef int kvc_prompt_chunk_fn(void *user, uint64_t tokens);

struct kvc_prompt_options {
    kvc_row_fn *row;            /* NULL, or called with the logits of every row */
    kvc_progress_fn *progress;  /* NULL, or called now and then */
    kvc_prompt_chunk_fn *chunk; /* NULL, or called after each chunk of a chunk method */
    void *user;                 /* of all three */
    bool synthetic; /* for measurements: no layer is computed. Random keys and values become the entries, and only the
                     rows that the policy's prompt stage looks at attend; logits mean nothing */
};
/* One turn: count >= 1 tokens, then the policy's prompt stage. logits [vocab] (or NULL) gets those of the last token.
 * After a failure the session holds an undefined number of the turn's tokens and must be closed. KVC_INPUT: the logits
 * or hidden states of the last row, or of any row where `row` is given, are NaN or infinite; the error names the first
 * layer that has such a value. */
enum kvc_status kvc_session_prompt(struct kvc_session *session, const int32_t *tokens, size_t count,
                                   const struct kvc_prompt_options *options, float *logits, struct kvc_error *error);
/* The same turn of session_count different sessions of one model: each gets what kvc_session_prompt would give it
 * alone, to the bit: entries, statistics (but for prompt_sessions and spared_rows) and logits [session_count, vocab] or
 * NULL. The prompt's rows are computed once for all that may share them: sessions that have no tokens yet, of one cache
 * type and `chunk`, whose methods leave the rows of a prompt as they are, which is to say that none holds the stage
 * chunk or propagate (kvc_policy_stages); with longrope those that use the same factors. The prompts of others are
 * computed one by one. Of a layer's whole rows there are two copies at most, and one more for each session with a
 * method that looks on while they attend (struct kvc_policy_class, attended; positions=cache). Sessions fail one by
 * one, the others go on: statuses [session_count] or NULL has what became of each, the return value is the first
 * failure, and error says which session it was. What shared rows lack (memory, finite logits) fails all that share
 * them. A session that could not begin is left as it was; one that failed later must be closed. */
enum kvc_status kvc_session_prompt_many(struct kvc_session *const *sessions, size_t session_count,
                                        const int32_t *tokens, size_t count, float *logits, enum kvc_status *statuses,
                                        struct kvc_error *error);
/* One decode step of each of count different sessions of one model: tokens [count], logits [count, vocab] or NULL.
 * Sessions fail one by one, the others take the step: statuses [count] or NULL has what became of each, the return
 * value is the first failure, and error says which session it was. One that cannot take part (no memory for the new
 * entry, a wrong token) is left as it was before the step, and so is its row of logits. One whose policy fails in the
 * step, or whose logits are NaN or infinite (KVC_INPUT; the error names the layer), must be closed. */
enum kvc_status kvc_decode(struct kvc_session *const *sessions, const int32_t *tokens, size_t count, float *logits,
                           enum kvc_status *statuses, struct kvc_error *error);

struct kvc_session_stats {
    uint64_t tokens;                   /* seen so far */
    uint64_t entries;                  /* held now, by all layers and heads */
    uint64_t entries_most;             /* by the fullest head */
    uint64_t entry_bytes;              /* a key and a value */
    uint64_t cache_bytes, state_bytes; /* held now */
    uint64_t peak_bytes;               /* of cache + state, this session, since it was opened */
    uint64_t prompt_peak_bytes;        /* the same, of the last prompt */
    uint64_t full_bytes;               /* what `full` would hold now, same cache type */
    uint64_t read_bytes;               /* cache bytes read by decode steps so far, select_bytes included */
    uint64_t select_bytes;             /* of these: read to choose what to read */
    uint64_t decode_steps;
    uint64_t saturated; /* values clipped to the F16 range when stored; of a step of several sessions, those of all */
    bool outgrown; /* longrope: the session began with the short factors, keeps them, and now has more tokens than they
                      serve (original_context of the model). A new one with a larger `context` takes the long factors */
    uint32_t prompt_sessions; /* that the last prompt's rows were computed for, this one among them; 1: it alone */
    uint64_t spared_rows;     /* prompt rows times layers that it got from what was computed for another session */
};
void kvc_session_stats(const struct kvc_session *session, struct kvc_session_stats *stats);
/* Lists of entries that a layer has: the model's KV heads, or its query heads where a method has per=head. */
uint32_t kvc_session_heads(const struct kvc_session *session, uint32_t layer);
/* The positions that one of these lists holds, ascending. positions [capacity] gets as many as fit; *count
 * is how many there are. */
enum kvc_status kvc_session_positions(const struct kvc_session *session, uint32_t layer, uint32_t kv_head,
                                      int32_t *positions, size_t capacity, size_t *count, struct kvc_error *error);

/* The same for what the last decode step read of the list: all of it, where no method chose. For sessions opened with
 * record_reads. */
enum kvc_status kvc_session_reads(const struct kvc_session *session, uint32_t layer, uint32_t kv_head,
                                  int32_t *positions, size_t capacity, size_t *count, struct kvc_error *error);

/* Called in every decode step, layer by layer, with the attention's output [H, d]; NULL: no longer. */
typedef void kvc_output_fn(void *user, uint32_t layer, const float *output);
enum kvc_status kvc_session_watch(struct kvc_session *session, kvc_output_fn *output, void *user,
                                  struct kvc_error *error);

/* XXH64 (seed 0) of little-endian float32 values, in the order in which they are added; every NaN counts as
 * 0x7fc00000. */
struct kvc_hash;
struct kvc_hash *kvc_hash_open(void); /* NULL: no memory */
void kvc_hash_add(struct kvc_hash *hash, const float *values, size_t count);
uint64_t kvc_hash_value(const struct kvc_hash *hash);
void kvc_hash_close(struct kvc_hash *hash);

/* ---- sampling ----------------------------------------------------------------------------------------------- */

struct kvc_sampler_options {
    float temperature;    /* 0: the highest logit, the lowest id where equal */
    int32_t top_k;        /* 0: off */
    float top_p, min_p;   /* 1 and 0: off */
    float repeat_penalty; /* 1: off */
    uint32_t repeat_last; /* tokens the penalty looks back on */
    uint64_t seed;
};
struct kvc_sampler;
void kvc_sampler_defaults(struct kvc_sampler_options *options);
enum kvc_status kvc_sampler_open(const struct kvc_sampler_options *options, uint32_t vocab,
                                 struct kvc_sampler **sampler, struct kvc_error *error);
void kvc_sampler_close(struct kvc_sampler *sampler);
void kvc_sampler_accept(struct kvc_sampler *sampler, int32_t token);  /* a prompt token the penalty should see */
int32_t kvc_sample(struct kvc_sampler *sampler, const float *logits); /* accepts what it returns */

/* What is added to the logits of some tokens, after the penalty. -INFINITY: never. It stays until it is set anew. */
struct kvc_bias {
    int32_t token;
    float bias;
};
/* count 0: none. The last of several for one token counts. KVC_USAGE: no such token, or a bias that is NaN or
 * +INFINITY; the biases are then as they were. */
enum kvc_status kvc_sampler_bias(struct kvc_sampler *sampler, const struct kvc_bias *biases, size_t count,
                                 struct kvc_error *error);

/* Lowers the logit of a token that has been drawn n > 0 times by n * frequency + presence, each from -2 to 2, after the
 * repeat penalty and before the bias. Tokens that kvc_sampler_accept was given do not count. The call begins the counts
 * anew, so that an answer begins with it; a saved session does not hold them. 0 and 0: off. KVC_USAGE: out of range. */
enum kvc_status kvc_sampler_penalties(struct kvc_sampler *sampler, float frequency, float presence,
                                      struct kvc_error *error);

struct kvc_logprob {
    int32_t token;
    float logprob; /* the natural logarithm of its probability */
};
/* The logarithm of the probability that the softmax of logits [vocab] gives the token. best [count], or NULL with 0:
 * the likeliest tokens, best first, the lowest id where equal; past the vocabulary token -1. The same bits on every
 * machine. */
float kvc_logprobs(const float *logits, uint32_t vocab, int32_t token, struct kvc_logprob *best, size_t count);

/* ---- policy strings, and whether one will fit ---------------------------------------------------------------- */

/* Checks a policy string, name[:option=value[,...]][+name...], without a model. */
enum kvc_status kvc_policy_check(const struct kvc_engine *engine, const char *spec, struct kvc_error *error);

struct kvc_geometry { /* each 1 to 65536, kv_heads dividing heads; otherwise KVC_USAGE */
    uint32_t layers, heads, kv_heads, head_size;
};

/* How a figure that was worked out beforehand relates to the one that will be counted. */
enum kvc_expected {
    KVC_EXPECTED_EXACT, /* they are equal, but for rounding */
    KVC_EXPECTED_MOST   /* data decides: it is the most that can be counted */
};

/* Bytes a policy would need, before a model is loaded. Scratch is not among them (a few rows; with keyformer on the
 * vector paths of CPUs also its noise, at most 64 MiB). */
struct kvc_estimate {
    uint64_t entries;                  /* of a head after prompt + generated tokens; where data decides: in the mean */
    uint64_t cache_bytes, state_bytes; /* then */
    uint64_t peak_bytes;               /* of cache + state, prefill included */
    uint64_t prompt_peak_bytes;        /* the same, of prefill alone */
    uint64_t hidden_bytes;             /* prefill's hidden states, beside it (0 when chunk-major) */
    enum kvc_expected kind;            /* of these bytes */
};
enum kvc_status kvc_estimate(const struct kvc_engine *engine, const char *spec, const struct kvc_geometry *geometry,
                             uint32_t hidden, enum kvc_type cache_type, uint64_t prompt, uint64_t generated,
                             struct kvc_estimate *estimate, struct kvc_error *error);
/* The same of a model with sliding windows [layers], as struct kvc_model_info has them; NULL: no layer has one. */
enum kvc_status kvc_estimate_windows(const struct kvc_engine *engine, const char *spec,
                                     const struct kvc_geometry *geometry, const uint32_t *windows, uint32_t hidden,
                                     enum kvc_type cache_type, uint64_t prompt, uint64_t generated,
                                     struct kvc_estimate *estimate, struct kvc_error *error);
/* The same of some of its layers alone, as a rank of a pipeline has them (kvcull/ranks.h). */
enum kvc_status kvc_estimate_part(const struct kvc_engine *engine, const char *spec,
                                  const struct kvc_geometry *geometry, const uint32_t *windows, uint32_t first_layer,
                                  uint32_t layers, uint32_t hidden, enum kvc_type cache_type, uint64_t prompt,
                                  uint64_t generated, struct kvc_estimate *estimate, struct kvc_error *error);

/* Adds what a session of the model holds besides, whatever its policy: the state of recurrent layers. */
void kvc_estimate_recurrent(struct kvc_estimate *estimate, uint64_t recurrent_bytes);

/* ---- output files, and what handlers of signals need ------------------------------------------------------------ */

/* A file that appears under its name only when it is complete; until then it lies in the same folder as
 * NAME.part-PID-N. Every file that this library writes is written so. Where the name is a symbolic link, its target is
 * replaced or made. A file that is replaced hands on its permissions. */
struct kvc_output;
/* bytes: the size it will have, which is reserved at once, so that a full disk shows early; 0: not known. Failures are
 * KVC_RESOURCE. */
enum kvc_status kvc_output_open(const char *path, uint64_t bytes, struct kvc_output **output, struct kvc_error *error);
/* Makes a folder, one level, for such files to lie in. *output: the folder, to be committed or abandoned after the
 * files in it, or NULL where there was one already. KVC_RESOURCE: it cannot be made. */
enum kvc_status kvc_output_folder(const char *path, struct kvc_output **output, struct kvc_error *error);
int kvc_output_descriptor(const struct kvc_output *output); /* to write to; it is closed with the output */
/* Both free the output. commit renames the file to its name, or removes it and fails; abandon removes it. A folder
 * stays, or goes if nothing is in it. NULL is fine. */
enum kvc_status kvc_output_commit(struct kvc_output *output, struct kvc_error *error);
void kvc_output_abandon(struct kvc_output *output);

/* For a program's handler of signals that end it; the library installs none. Removes this process's files that are not
 * complete, after which the process must end. Async-signal-safe. */
void kvc_output_remove_all(void);
/* For a handler of SIGBUS: the file of a model or of tensors that is mapped at the address (si_addr); it has been cut
 * short, or cannot be read any more. NULL: no file is mapped there. Async-signal-safe. */
const char *kvc_mapped_path(const void *address);

/* ---- tensor files: float32 arrays in safetensors files, for replay and logits --------------------------------- */

struct kvc_tensor {
    const char *name;
    uint32_t dimensions; /* 1 to 4 */
    uint64_t shape[4];   /* outermost first */
    const float *values; /* reading: in the mapped file, dense and row-major; writing: not used */
};

/* Writing. Names and shapes are given when the file is opened. Values are appended as they come; different tensors may
 * alternate. Until commit the file has a temporary name (as a kvc_output), and an existing one is not replaced. */
struct kvc_tensor_writer;
enum kvc_status kvc_tensor_writer_open(const char *path, const struct kvc_tensor *tensors, size_t count,
                                       struct kvc_tensor_writer **writer, struct kvc_error *error);
enum kvc_status kvc_tensor_write(struct kvc_tensor_writer *writer, size_t tensor, const float *values, size_t count,
                                 struct kvc_error *error);
/* Both free the writer. Every tensor must be complete for commit; abandon removes the file; NULL is fine. */
enum kvc_status kvc_tensor_writer_commit(struct kvc_tensor_writer *writer, struct kvc_error *error);
void kvc_tensor_writer_abandon(struct kvc_tensor_writer *writer);

/* Reading: a .safetensors file, mapped until it is closed. */
struct kvc_tensor_reader;
enum kvc_status kvc_tensor_reader_open(const char *path, struct kvc_tensor_reader **reader, struct kvc_error *error);
void kvc_tensor_reader_close(struct kvc_tensor_reader *reader); /* NULL is fine */
bool kvc_tensor_has(const struct kvc_tensor_reader *reader, const char *name);
/* KVC_INPUT where there is no such tensor or it is not float32. */
enum kvc_status kvc_tensor_read(const struct kvc_tensor_reader *reader, const char *name, struct kvc_tensor *tensor,
                                struct kvc_error *error);
/* The i-th tensor's name; NULL past the last. */
const char *kvc_tensor_name(const struct kvc_tensor_reader *reader, size_t i);

#ifdef __cplusplus
}
#endif
#endif

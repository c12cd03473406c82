/* kvcull.h - the public interface of libkvcull, the only installed header.
 *
 * kvcull runs language models with a key-value cache of bounded size. Every function that can fail returns an
 * enum kvc_status and, where it takes one, fills a struct kvc_error with one line: what, where, what would be right.
 * Nothing here is thread-safe per object: an engine and everything opened from it belong to one thread at a time.
 * Sizes are in bytes, counts in tokens or entries; H = query heads, H_kv = key-value heads, d = head size.
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

/* ---- errors ------------------------------------------------------------------------------------------------- */

/* Also the exit status of the program. One rule: what a caller gives is KVC_USAGE, geometries and values of enums
 * included; KVC_INPUT is what a file says, and rows of tensors that do not suit a policy (they come from files). */
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
/* Any bytes as one line to print: control characters and what is not UTF-8 become '?'; where the room is too small, the
 * middle becomes "...". line [room], room >= 1, ends in a NUL and may be text itself. error->text is such a line.
 * Async-signal-safe. */
void kvc_printable(const char *text, size_t bytes, char *line, size_t capacity);

/* ---- engine: a backend, its threads, its memory, the known policies ----------------------------------------- */

enum kvc_type { /* element types of weights and of cache entries (F32, F16, Q8_0 only) */
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
                KVC_TYPES
};
const char *kvc_type_name(enum kvc_type type);                  /* "f32", "f16", "bf16", "q8_0", ... */
bool kvc_type_from_name(const char *name, enum kvc_type *type); /* false: unknown */

enum kvc_math { KVC_MATH_EXACT, KVC_MATH_FAST };

struct kvc_engine_options {
    const char *backend; /* "cpu" (default, NULL), "ref"; opencl[:N] and cuda[:N] where they are built */
    int threads;         /* 0: one per available core */
    enum kvc_math math;
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

struct kvc_backend_info {
    const char *name; /* "ref", "cpu" */
    bool usable;
    char detail[256];  /* the path chosen, or why it cannot be used here */
    char missing[512]; /* operations that fall back to ref, "none" where none do */
};
/* Asks the i-th backend of this build; false past the last. */
bool kvc_backend(size_t i, struct kvc_backend_info *info);
/* Its i-th device, where it may have several, in one line: what "opencl:N" means; false past the last. */
bool kvc_backend_device(size_t backend, size_t device, char *text, size_t capacity);

/* ---- models ------------------------------------------------------------------------------------------------- */

struct kvc_model;

struct kvc_model_info {
    const char *path, *format /* "gguf", "huggingface" */, *architecture /* "llama", "qwen3", ... */, *name;
    uint32_t layers, hidden, heads, kv_heads, head_size, feed_forward, vocab;
    uint32_t trained_context;
    uint32_t original_context; /* longrope: tokens that the short factors serve; 0: there is one set of factors */
    uint32_t sliding_window;   /* 0: none */
    uint64_t parameters, weight_bytes, mapped_bytes;
    const char *weight_types; /* "q4_k, q6_k, f32" */
    const char *rope;         /* "plain", "linear", "llama3", "yarn", "longrope", "divisors" */
    int32_t bos, eos;         /* -1: none */
    bool has_chat_template;
};

/* Opens a GGUF file or a Hugging Face folder. The file stays mapped until kvc_model_close. */
enum kvc_status kvc_model_open(struct kvc_engine *engine, const char *path, struct kvc_model **model,
                               struct kvc_error *error);
void kvc_model_close(struct kvc_model *model); /* after its sessions; NULL is fine */
const struct kvc_model_info *kvc_model_info(const struct kvc_model *model);

/* Writes a GGUF file with the model's weights in another type ("f16", "q8_0", "q4_0", "q4_k", "q6_k", ...). Matrices
 * whose rows do not fit its blocks become q8_0 or f16; error->text then says so after KVC_OK ("" otherwise). */
enum kvc_status kvc_convert(const char *from, const char *to, enum kvc_type type, struct kvc_error *error);
/* Writes a GGUF file of random weights with a named real geometry (see kvc_shape), the same bytes on every machine;
 * another type is another model. Notes as kvc_convert. */
enum kvc_status kvc_make_model(const char *shape, enum kvc_type type, uint64_t seed, const char *to,
                               struct kvc_error *error);
bool kvc_shape(size_t i, const char **name, const char **summary); /* the i-th shape; false past the last */

/* ---- text --------------------------------------------------------------------------------------------------- */

enum {
    KVC_TOKENIZE_BOS = 1 /* add what the model puts in front */,
    KVC_TOKENIZE_SPECIAL = 2 /* "<|eot_id|>" is one token */
};

/* text need not be valid UTF-8. *tokens is malloc'ed, the caller frees it. */
enum kvc_status kvc_tokenize(const struct kvc_model *model, const char *text, size_t bytes, unsigned flags,
                             int32_t **tokens, size_t *count, struct kvc_error *error);
/* *text is malloc'ed and ends in a NUL not counted in *bytes. special: also write control tokens. */
enum kvc_status kvc_detokenize(const struct kvc_model *model, const int32_t *tokens, size_t count, bool special,
                               char **text, size_t *bytes, struct kvc_error *error);
/* The bytes one token adds when it follows others, or, first, when none is before it; a token may hold part of a
 * character. *bytes is what it needs; of these at most room are written, and no NUL. It takes no memory. KVC_INPUT: the
 * model has no tokenizer; KVC_USAGE: no such token. */
enum kvc_status kvc_token_bytes(const struct kvc_model *model, int32_t token, bool first, char *text, size_t capacity,
                                size_t *bytes, struct kvc_error *error);
bool kvc_token_ends_turn(const struct kvc_model *model, int32_t token); /* eos, <|eot_id|>, <|im_end|>, <|end|>, ... */

struct kvc_message {
    const char *role; /* "system", "user", "assistant" */
    const char *content;
};
/* template_name NULL: the model's own. answer: end with the opening of the assistant's turn. *text is malloc'ed. */
enum kvc_status kvc_chat_text(const struct kvc_model *model, const char *template_name,
                              const struct kvc_message *messages, size_t count, bool answer, char **text,
                              struct kvc_error *error);
bool kvc_chat_template(size_t i, const char **name, const char **summary); /* the i-th built-in; false past the last */

/* ---- sessions ----------------------------------------------------------------------------------------------- */

struct kvc_session;

struct kvc_session_options {
    const char *policy;       /* "full" when NULL; see kvc_policy_check */
    enum kvc_type cache_type; /* KVC_F32, KVC_F16 or KVC_Q8_0; kvc_session_defaults sets F16 */
    uint32_t chunk;           /* rows computed at once in a prompt; 0: 512. Never changes a bit */
    uint64_t context;         /* tokens the caller means to use; chooses longrope's factors, which the session then
                                 keeps; 0: the first prompt */
    uint64_t seed;            /* of policies that draw */
    uint64_t memory_limit;    /* cache + state bytes this session may hold; 0: no limit */
    uint64_t expected;        /* tokens the caller asks for after each prompt, for methods that go by it; 0: unknown */
    bool record_reads;        /* remember what the last decode step read, for kvc_session_reads */
};
void kvc_session_defaults(struct kvc_session_options *options);

enum kvc_status kvc_session_open(struct kvc_model *model, const struct kvc_session_options *options,
                                 struct kvc_session **session, struct kvc_error *error);
void kvc_session_close(struct kvc_session *session); /* NULL is fine */

/* Called for prompt rows in ascending order. logits [vocab] is valid during the call, which must not use the model's
 * sessions. Non-zero return stops. */
typedef int kvc_row_fn(void *user, uint64_t row, const float *logits);
/* Row-layers; non-zero stops. The last call has done = total; total falls where a method lets fewer rows go on. */
typedef int kvc_progress_fn(void *user, uint64_t done, uint64_t total);

struct kvc_prompt_options {
    kvc_row_fn *row;           /* NULL, or wants the logits of every row */
    kvc_progress_fn *progress; /* NULL, or told now and then */
    void *user;
    bool made_up; /* for measurements: random keys and values become the entries, no layer is computed,
                     only the rows that the policy's prompt stage looks at attend; logits mean nothing */
};
/* One turn: count >= 1 tokens, then the policy's prompt stage. logits [vocab] (or NULL) gets those of the last
 * token. After a failure the session holds an undefined number of the turn's tokens and must be closed. KVC_INPUT where
 * logits or hidden states of a row that is looked at (the last one; all where `row` is given) are NaN or infinite: the
 * error names the first layer that has such a value. */
enum kvc_status kvc_session_prompt(struct kvc_session *session, const int32_t *tokens, size_t count,
                                   const struct kvc_prompt_options *options, float *logits, struct kvc_error *error);
/* One decode step of each of count different sessions of one model: tokens [count], logits [count, vocab] or NULL.
 * statuses [count] or NULL: a session that cannot take part (no memory for the new entry, a wrong token) fails alone,
 * is left as it was before the step, and its row of logits is untouched; the return value is then the first failure
 * and error says which session. One whose policy fails in the step, or whose logits come out NaN or infinite
 * (KVC_INPUT, naming the layer), also fails alone, and must be closed. */
enum kvc_status kvc_decode(struct kvc_session *const *sessions, const int32_t *tokens, size_t count, float *logits,
                           enum kvc_status *statuses, struct kvc_error *error);

struct kvc_session_stats {
    uint64_t tokens;                   /* seen so far */
    uint64_t entries, entries_most;    /* all layers and heads; the fullest head */
    uint64_t entry_bytes;              /* a key and a value */
    uint64_t cache_bytes, state_bytes; /* now */
    uint64_t peak_bytes;               /* of cache + state, this session, since it was opened */
    uint64_t prompt_peak_bytes;        /* the same, of the last prompt */
    uint64_t full_bytes;               /* what `full` would hold now, same cache type */
    uint64_t read_bytes;               /* cache bytes read by decode steps so far, select_bytes included */
    uint64_t select_bytes;             /* of these: read to choose what to read */
    uint64_t decode_steps;
    uint64_t saturated; /* values clipped to the F16 range when stored, by its whole batches */
    bool outgrown; /* longrope: it keeps the short factors it began with, past the tokens they serve (original_context
                      of the model): one that begins anew with `context` above them turns its keys by the long ones */
};
void kvc_session_stats(const struct kvc_session *session, struct kvc_session_stats *stats);
/* Lists of entries that a layer has: the model's KV heads, or its query heads where a method has per=head. */
uint32_t kvc_session_heads(const struct kvc_session *session, uint32_t layer);
/* Positions held by one of them, ascending: fills at most room; *count says how many there are. */
enum kvc_status kvc_session_positions(const struct kvc_session *session, uint32_t layer, uint32_t kv_head,
                                      int32_t *positions, size_t capacity, size_t *count, struct kvc_error *error);

/* The same for the entries that the last decode step read; all it held where nothing was chosen. For sessions opened
 * with record_reads. */
enum kvc_status kvc_session_reads(const struct kvc_session *session, uint32_t layer, uint32_t kv_head,
                                  int32_t *positions, size_t capacity, size_t *count, struct kvc_error *error);

/* Called in every decode step, layer by layer, with the attention's output [H, d]; NULL: no longer. */
typedef void kvc_output_fn(void *user, uint32_t layer, const float *output);
enum kvc_status kvc_session_watch(struct kvc_session *session, kvc_output_fn *output, void *user,
                                  struct kvc_error *error);

/* XXH64 (seed 0) over little-endian float32, NaN as 0x7fc00000; feed rows in order, start from kvc_hash_open. */
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

/* ---- policies ----------------------------------------------------------------------------------------------- */

struct kvc_geometry { /* each 1 to 65536, kv_heads dividing heads; otherwise KVC_USAGE */
    uint32_t layers, heads, kv_heads, head_size;
};

enum kvc_stage_kind { /* bits */
                      KVC_STAGE_CHUNK = 1,
                      KVC_STAGE_PROMPT = 2,
                      KVC_STAGE_PROPAGATE = 4,
                      KVC_STAGE_SELECT = 8,
                      KVC_STAGE_DECODE = 16
};

enum kvc_option_kind {
    KVC_OPTION_INT,    /* minimum..maximum */
    KVC_OPTION_REAL,   /* minimum..maximum */
    KVC_OPTION_BUDGET, /* tokens, or a share of the prompt as "10%" */
    KVC_OPTION_CHOICE, /* one of choices, separated by '|' */
    KVC_OPTION_TEXT
};
struct kvc_option { /* one row of a policy's option table; a table ends with name NULL */
    const char *name;
    enum kvc_option_kind kind;
    const char *default_value; /* default as written; NULL: must be given; "": none, a number is then 0 */
    double minimum, maximum;
    const char *choices;
    const char *help;
};

struct kvc_values; /* a method's parsed options */
int64_t kvc_value_int(const struct kvc_values *values, const char *name);
double kvc_value_real(const struct kvc_values *values, const char *name);
const char *kvc_value_text(const struct kvc_values *values, const char *name); /* also of a choice */
/* Tokens, at least `least`, for a prompt of N tokens: a share is rounded to the nearest, halves up. */
uint64_t kvc_value_budget(const struct kvc_values *values, const char *name, uint64_t prompt, uint64_t least);
bool kvc_value_is_share(const struct kvc_values *values, const char *name);
bool kvc_value_given(const struct kvc_values *values, const char *name); /* written in the policy string */

/* What a stage function sees: one session, one layer. All heads share these. */
struct kvc_stage_info {
    uint32_t layer, layers, heads, head_size;
    uint32_t kv_heads; /* lists of entries: the model's KV heads, or its query heads where a method has per=head */
    uint32_t acting, actings; /* this layer's place among the layers the method acts on, and how many these are */
    uint64_t turn;            /* prompt rows of this turn that came to this layer */
    uint64_t turn_tokens;     /* and those that a propagate stage kept away */
    uint64_t held;     /* N of docs/methods.md: entries of the fullest head when the turn's prompt was in, those that a
                          propagate stage kept away from this layer included */
    uint64_t after;    /* entries of the fullest head after the prompt stage; 0 before */
    uint64_t now;      /* tokens seen, this step's included; in a chunk: those of the chunk too */
    uint64_t step;     /* decode steps since the last prompt, this one included; 0 in the prompt stage */
    uint64_t entries;  /* of the fullest head, now; at most, where a decode stage has evicted */
    uint64_t expected; /* tokens the caller asked for; 0: unknown */
    uint64_t seed;
    bool last_chunk;               /* chunk stage: the prompt ends here */
    bool owns_prompt, owns_decode; /* which of its stages this method holds in this policy */
};
struct kvc_stage;
const struct kvc_stage_info *kvc_stage_info(const struct kvc_stage *stage);
/* What the class's `open` made for this session. */
void *kvc_stage_state(const struct kvc_stage *stage);
void *kvc_stage_user(const struct kvc_stage *stage); /* the class's */
/* Whether the method acts on a layer. */
bool kvc_stage_acts(const struct kvc_stage *stage, uint32_t layer);
/* Later calls of this stage function work on an earlier layer; its queries are gone, its columns are there. */
enum kvc_status kvc_stage_layer(struct kvc_stage *stage, uint32_t layer, struct kvc_error *error);

/* Scores: float32 per list of entries (or per query head) and rank, on the device. They live until the stage function
 * returns or turns to another layer. All of these run on the backend; nothing is copied to the host unless said. */
struct kvc_scores;
enum kvc_status kvc_stage_scores(struct kvc_stage *stage, struct kvc_scores **scores, struct kvc_error *error);
enum kvc_status kvc_stage_head_scores(struct kvc_stage *stage, struct kvc_scores **scores, struct kvc_error *error);
/* Window mass (docs/methods.md) of the last `window` prompt queries (at most those the class asked for); of each query
 * head by itself where the scores are per query head. */
enum kvc_status kvc_stage_window_mass(struct kvc_stage *stage, uint32_t window, struct kvc_scores *scores,
                                      struct kvc_error *error);
/* The same of the class's pseudo rows. */
enum kvc_status kvc_stage_pseudo_mass(struct kvc_stage *stage, struct kvc_scores *scores, struct kvc_error *error);
/* take's score in a chunk: accumulates the probe, A = alpha*A + (1-alpha)*Q, A = Q in the first chunk, on the layer's
 * rotated probe queries; scores = the mean over the probe's tokens of softmax(A K^T / sqrt(d)) over all entries. */
enum kvc_status kvc_stage_probe_mass(struct kvc_stage *stage, float alpha, struct kvc_scores *scores,
                                     struct kvc_error *error);
/* Mean and variance of the last `window` queries' weights, as cake's scores (per query head): mean + gamma * variance,
 * for ranks below entries - tail; and their total dispersion and variance, to the host (docs/methods.md, cake). */
enum kvc_status kvc_stage_moments(struct kvc_stage *stage, uint32_t window, uint64_t tail, float gamma,
                                  struct kvc_scores *scores, float *dispersion, float *variance,
                                  struct kvc_error *error);
enum kvc_pooling { KVC_POOL_MAX, KVC_POOL_AVERAGE };
/* 1-D pooling of every head's ranks below (its entries - tail), kernel odd (docs/methods.md rule 6). */
enum kvc_status kvc_stage_pool(struct kvc_stage *stage, struct kvc_scores *scores, uint64_t tail, uint32_t kernel,
                               enum kvc_pooling pooling, struct kvc_error *error);
/* Scores per query head to scores per list: the sum over each group, divided by divisor. */
enum kvc_status kvc_stage_group(struct kvc_stage *stage, const struct kvc_scores *heads, float divisor,
                                struct kvc_scores *scores, struct kvc_error *error);

/* State columns, numbered from 0 for each class; an entry's columns are 0 when it comes.
 * Rings: columns first .. first+rows-1 hold, per entry, one row for each of the last `rows` queries; the row of the
 * query at position p is column first + p % rows: the group's summed weights, its summed logits, or how many of its
 * heads gave the entry less than 1/n, n being the entries that the query attended to. Writes the rows of the newest
 * `count` queries (the step's own, or the last prompt queries); what a query did not see is 0, minus infinity among
 * logits, and so is the row of a token that a propagate stage kept away from the layer. */
/* counts: rows of weights, behind them `rows` columns of how often weights were low, and minus the sum of those. */
enum kvc_row_kind { KVC_ROW_WEIGHTS, KVC_ROW_LOGITS, KVC_ROW_LOW, KVC_ROW_COUNTS };
enum kvc_fusion { KVC_FUSE_SUM, KVC_FUSE_MAX };
enum kvc_status kvc_stage_ring_write(struct kvc_stage *stage, uint32_t first, uint32_t rows, uint32_t count,
                                     enum kvc_row_kind kind, struct kvc_error *error);
/* Fuses the ring's newest `filled` rows, ascending query position, into scores, for entries older than position
 * `recent` (INT64_MAX: all); logits go through a softmax over those entries first. */
enum kvc_status kvc_stage_ring_fuse(struct kvc_stage *stage, uint32_t first, uint32_t rows, uint32_t filled,
                                    enum kvc_row_kind kind, enum kvc_fusion fusion, int64_t recent,
                                    struct kvc_scores *scores, struct kvc_error *error);
/* Sums of KVC_RING_BLOCK neighbouring rows of a ring of weights, in kvc_ring_blocks columns from `sums` on, so that
 * kvc_stage_keep_ring need not read all rows: to be called after each kvc_stage_ring_write of `count` rows. */
enum { KVC_RING_BLOCK = 8 };
static inline uint32_t kvc_ring_blocks(uint32_t rows) { return (rows + KVC_RING_BLOCK - 1) / KVC_RING_BLOCK; }
enum kvc_status kvc_stage_ring_sums(struct kvc_stage *stage, uint32_t first, uint32_t rows, uint32_t sums,
                                    uint32_t count, struct kvc_error *error);
/* Adds the weights of all the stage's queries (a chunk's in `attended`, the step's own) to columns first and first+1,
 * whose sum is the accumulated weight. tau 0: attention's weights; otherwise keyformer's, softmax((s + g) / tau) with
 * the noise of `seed`. */
enum kvc_status kvc_stage_accumulate(struct kvc_stage *stage, uint32_t first, float tau, uint64_t seed,
                                     struct kvc_error *error);
/* scores = the sum of `count` neighbouring columns; and scores into one column. */
enum kvc_status kvc_stage_column_scores(struct kvc_stage *stage, uint32_t first, uint32_t count,
                                        struct kvc_scores *scores, struct kvc_error *error);
enum kvc_status kvc_stage_scores_column(struct kvc_stage *stage, const struct kvc_scores *scores, uint32_t column,
                                        struct kvc_error *error);
/* Copies one head's scores or positions to the host (waits for the device); returns the head's entries. */
enum kvc_status kvc_stage_read_scores(struct kvc_stage *stage, const struct kvc_scores *scores, uint32_t head,
                                      float *values, size_t capacity, size_t *count, struct kvc_error *error);
enum kvc_status kvc_stage_read_positions(struct kvc_stage *stage, uint32_t head, int32_t *positions, size_t capacity,
                                         size_t *count, struct kvc_error *error);
enum kvc_status kvc_stage_write_scores(struct kvc_stage *stage, struct kvc_scores *scores, uint32_t head,
                                       const float *values, size_t count, struct kvc_error *error);

/* What to keep of a head: ranks below `first`, the last `tail` ranks, entries at positions >= recent (INT64_MAX: none),
 * and of the others the top `top` by score (docs/methods.md rule 4; equal scores by `ties`, where given, the higher
 * first). fill: top grows so that `fill` entries are kept in all, where there are so many (0: it does not). A head with
 * no more than `limit` entries keeps them all. scores may be NULL where top and fill are 0. */
struct kvc_keep {
    uint64_t first, tail, top, fill, limit;
    int64_t recent;
    const struct kvc_scores *scores, *ties;
};
enum kvc_status kvc_stage_keep(struct kvc_stage *stage, const struct kvc_keep *keep, struct kvc_error *error);
/* The same by the sums of a ring's newest `filled` rows, of weights, for entries older than keep->recent, as
 * kvc_stage_ring_fuse makes them: they are the scores, or where keep->scores is given its ties. sums: the columns of
 * kvc_stage_ring_sums, or UINT32_MAX. */
enum kvc_status kvc_stage_keep_ring(struct kvc_stage *stage, const struct kvc_keep *keep, uint32_t first, uint32_t rows,
                                    uint32_t filled, uint32_t sums, struct kvc_error *error);
/* A rule for each head [kv_heads]; scores and ties are those of the first. */
enum kvc_status kvc_stage_keep_heads(struct kvc_stage *stage, const struct kvc_keep *keeps, struct kvc_error *error);
/* The same ranks, ascending, of every head. */
enum kvc_status kvc_stage_keep_ranks(struct kvc_stage *stage, const uint32_t *ranks, uint32_t count,
                                     struct kvc_error *error);
/* The entries at these positions, ascending, of each head: positions [kv_heads][counts[head]]. Those a head does not
 * hold are passed over. */
enum kvc_status kvc_stage_keep_positions(struct kvc_stage *stage, const int32_t *const *positions, const size_t *counts,
                                         struct kvc_error *error);
/* What the last kept of this stage function was, head by head, in the layer it has turned to, whose heads hold as many
 * entries as those did. */
enum kvc_status kvc_stage_keep_again(struct kvc_stage *stage, struct kvc_error *error);
/* Ranks that a head will keep, ascending, for kvc_stage_keep_planned. Of all heads, from the class's plan (of a step
 * that keeps by it) or from its prompt stage. */
enum kvc_status kvc_stage_plan(struct kvc_stage *stage, uint32_t head, const uint32_t *ranks, uint32_t count,
                               struct kvc_error *error);
enum kvc_status kvc_stage_keep_planned(struct kvc_stage *stage, struct kvc_error *error);
/* How the `slots` highest scores over all heads (those of the last `tail` entries left out) fall to them: shares
 * [kv_heads], to the host. */
enum kvc_status kvc_stage_shares(struct kvc_stage *stage, const struct kvc_scores *scores, uint64_t tail,
                                 uint64_t slots, uint32_t *shares, struct kvc_error *error);
/* Evicts nothing, but until the next prompt select methods see only these entries and those that come. */
enum kvc_status kvc_stage_view(struct kvc_stage *stage, const struct kvc_keep *keep, struct kvc_error *error);
/* Propagate stage: the rows of this turn's prompt (numbered from 0, ascending, the last one among them) that go on. */
enum kvc_status kvc_stage_go_on(struct kvc_stage *stage, const uint32_t *rows, uint32_t count, struct kvc_error *error);

/* Select stage: what the step's query reads of every head (or of its view). A head with no more than `budget` entries
 * reads all. exact: the `top` best by attention weight; channels: the `top` best by weights from its `dims` strongest
 * channels, the newest `local` among them, with mean_value the unread share is given the mean value (sparq); page 1:
 * the keys are kept a second time, by channel, so that only those channels are read from memory;
 * page_channels: the same from pages of `page` entries (hsa); page_bound: the `top` best pages by upper bound (quest).
 */
enum kvc_select_kind { KVC_SELECT_EXACT, KVC_SELECT_CHANNELS, KVC_SELECT_PAGE_CHANNELS, KVC_SELECT_PAGE_BOUND };
struct kvc_select {
    enum kvc_select_kind kind;
    uint32_t page, dims;
    uint64_t budget, top, local;
    bool mean_value;
};
enum kvc_status kvc_stage_select(struct kvc_stage *stage, const struct kvc_select *select, struct kvc_error *error);

/* A turn's prompt as a method sees it that adds rows. */
struct kvc_turn {
    const int32_t *tokens; /* [count]; NULL in a replay, whose rows come with it */
    uint64_t count, held;  /* held: N, entries of the fullest head with the prompt in */
    uint64_t seed;
    void *state; /* what the class's `open` made */
};
/* How a chunk method cuts the prompt: chunks of `chunk` rows; the last `probe` tokens run as extra rows with every
 * chunk but the last, at positions behind the chunk, or (at_end) at their own. */
struct kvc_chunking {
    uint32_t chunk, probe;
    bool at_end;
};

/* One layer as a method's formulas see it. */
struct kvc_layer_context {
    uint32_t layer, layers;              /* of the model */
    uint32_t acting, actings;            /* among the layers the method acts on */
    uint32_t kv_heads, group, head_size; /* lists of entries, query heads of each */
    uint32_t model_kv_heads;             /* of which a list is one, or (per=head) a part */
    double entry_bytes;                  /* a key and a value */
    double element_bytes;                /* one channel of a key */
    double page_element_bytes;           /* one channel of a page's lowest or highest key */
    double from;  /* for `entries`: what the list held before the prompt stage; where another method holds that, before
                     the first decode step */
    bool prompts; /* whether the method holds the prompt stage */
    bool uneven;  /* the data decides what each list holds, `from` is their mean: the most it can be is wanted */
};

/* How entries fall to heads, or to layers: known beforehand, or by the data. */
enum kvc_ragged { KVC_RAGGED_NONE, KVC_RAGGED_HEADS, KVC_RAGGED_LAYERS };

struct kvc_policy_class {
    const char *name, *summary, *paper;
    const char *idea;    /* one paragraph for the manual */
    const char *formula; /* for the manual */
    const char *memory, *traffic, *differences;
    const char *second_turn; /* what it does with a later turn, beside rule 15 of docs/methods.md */
    void *user;              /* the writer's own, for kvc_stage_user */
    unsigned stages;         /* bits of enum kvc_stage_kind */
    const struct kvc_option *options;
    /* Beyond each option's own range; NULL: nothing to check. Errors name option, value and range. */
    enum kvc_status (*check)(const struct kvc_values *values, struct kvc_error *error);
    /* What can be checked only when the layers are known; `acts` [layers]: those it acts on. NULL: nothing. */
    enum kvc_status (*check_model)(const struct kvc_values *values, const struct kvc_geometry *geometry,
                                   const bool *acts, struct kvc_error *error);
    /* State of one session, or of an estimate, made when it opens and freed with it (kvc_stage_state); NULL: none. */
    enum kvc_status (*open)(const struct kvc_values *values, const struct kvc_geometry *geometry, void **state,
                            struct kvc_error *error);
    void (*close)(void *state);
    uint32_t (*queries)(const struct kvc_values *values); /* last prompt queries its stages look at; NULL: none */
    uint32_t (*columns)(const struct kvc_values *values); /* float32 state per entry; NULL: none */
    uint32_t (*surplus)(const struct kvc_values *values); /* entries held above the budget between decode evictions,
                                                             so that room is made once; NULL: 1 */
    bool (*per_head)(const struct kvc_values *values);    /* a list of entries for every query head; NULL: no */
    bool (*cache_positions)(
        const struct kvc_values *values); /* keys are turned to their places in the cache; NULL: no */
    /* Most entries a head holds after prompt (steps 0) or after so many decode steps; for "will it fit". */
    uint64_t (*bound)(const struct kvc_values *values, uint64_t prompt, uint64_t steps);
    /* The method's formulas, for `kvcull bench`: entries of a head, in the mean over the layer's heads, after the
     * prompt or after so many decode steps, where there were so many (place->from); NULL: bound(prompt, 0). */
    double (*entries)(const struct kvc_values *values, const struct kvc_layer_context *context, uint64_t prompt,
                      uint64_t steps);
    /* Of the layer's heads, how many keep everything; the others keep `entries`. NULL: none. */
    uint32_t (*whole)(const struct kvc_values *values, const struct kvc_layer_context *context);
    /* What the data decides of it: `entries` is then a mean. */
    enum kvc_ragged ragged;
    /* Behind another method that evicts, data decides how many entries it leaves: `entries` is then the most. */
    bool follows;
    /* What a step reads, from the info's held, after, entries and head_size; in place of `select` where that is all. */
    struct kvc_select (*sizes)(const struct kvc_values *values, const struct kvc_stage_info *info);
    /* Entries of the view that the prompt stage leaves; NULL: all it leaves. */
    uint64_t (*seen)(const struct kvc_values *values, uint64_t prompt);
    void (*chunking)(const struct kvc_values *values, struct kvc_chunking *chunking); /* with KVC_STAGE_CHUNK */
    /* Entries a head keeps between the chunks; NULL: bound(prompt, 0). And the layer at whose turn it evicts them, this
     * one or one above it; NULL: this one. */
    uint64_t (*between)(const struct kvc_values *values, const struct kvc_layer_context *context, uint64_t prompt);
    uint32_t (*decider)(const struct kvc_values *values, const struct kvc_layer_context *context);
    /* With KVC_STAGE_PROPAGATE: how many of `rows` reach the layer above. */
    uint64_t (*propagated)(const struct kvc_values *values, const struct kvc_layer_context *context, uint64_t rows);
    /* Pseudo tokens to run behind the prompt: how many (0: none this turn), the distance of the first one's position
     * from the prompt's end, and, where tokens is not NULL, which. */
    uint32_t (*pseudo)(const struct kvc_values *values, const struct kvc_turn *turn, uint32_t *offset, int32_t *tokens);
    /* After the attention of some of the prompt's rows (kvc_stage_accumulate sees those); also when another method
     * holds the prompt stage. */
    enum kvc_status (*attended)(struct kvc_stage *, const struct kvc_values *, struct kvc_error *);
    /* After a layer's prompt rows, before the prompt stage evicts, which this one must not; also when another method
     * holds that stage. */
    enum kvc_status (*observe_prompt)(struct kvc_stage *, const struct kvc_values *, struct kvc_error *);
    /* The stages. chunk: after each chunk, layer by layer. */
    enum kvc_status (*chunk)(struct kvc_stage *, const struct kvc_values *, struct kvc_error *);
    enum kvc_status (*prompt)(struct kvc_stage *, const struct kvc_values *, struct kvc_error *);
    enum kvc_status (*propagate)(struct kvc_stage *, const struct kvc_values *, struct kvc_error *);
    enum kvc_status (*select)(struct kvc_stage *, const struct kvc_values *, struct kvc_error *);
    enum kvc_status (*decode)(struct kvc_stage *, const struct kvc_values *, struct kvc_error *);
    /* Before each decode step, where the host alone can say what `decode` will keep: the info's entries count the one
     * to come, there are no queries. So nothing need go to the device within the step. NULL: no plan. */
    enum kvc_status (*plan)(struct kvc_stage *, const struct kvc_values *, struct kvc_error *);
};

/* The class must outlive the engine. A name that is taken is KVC_USAGE. */
enum kvc_status kvc_engine_register(struct kvc_engine *engine, const struct kvc_policy_class *policy,
                                    struct kvc_error *error);
/* The i-th policy known to the engine, built-in ones first; NULL past the last. */
const struct kvc_policy_class *kvc_policy(const struct kvc_engine *engine, size_t i);
/* Options every method takes (skip_layers, layers, stages), a table ending with name NULL. */
const struct kvc_option *kvc_common_options(void);
/* Parses name[:option=value[,...]][+name...] and checks it, without a model. */
enum kvc_status kvc_policy_check(const struct kvc_engine *engine, const char *spec, struct kvc_error *error);
/* The stages (bits) that its methods act at; fails as kvc_policy_check does. */
enum kvc_status kvc_policy_stages(const struct kvc_engine *engine, const char *spec, unsigned *stages,
                                  struct kvc_error *error);

/* What a figure that was worked out beforehand is of the one that will be counted. */
enum kvc_expected {
    KVC_EXPECTED_EXACT, /* the same, but for rounding */
    KVC_EXPECTED_MOST   /* the most it can be: data decides */
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

/* What a policy should hold and read by its methods' formulas, to be compared with what is counted. */
struct kvc_formula {
    double entries;               /* of all layers and heads after the prompt */
    double read_bytes;            /* of the cache by `steps` decode steps in all, choosing included */
    double select_bytes;          /* of these: to choose */
    enum kvc_expected entry_kind; /* of entries */
    enum kvc_expected read_kind;  /* of read_bytes */
};
enum kvc_status kvc_formula(const struct kvc_engine *engine, const char *spec, const struct kvc_geometry *geometry,
                            enum kvc_type cache_type, uint64_t prompt, uint64_t steps, struct kvc_formula *formula,
                            struct kvc_error *error);

/* ---- replay: a policy on tensors from anywhere, without a model ---------------------------------------------- */

struct kvc_replay;
/* prompt rows then single steps; layer by layer. context rows are what `held` etc. count. */
enum kvc_status kvc_replay_open(struct kvc_engine *engine, const struct kvc_geometry *geometry,
                                const struct kvc_session_options *options, struct kvc_replay **replay,
                                struct kvc_error *error);
void kvc_replay_close(struct kvc_replay *replay);
/* One layer's rows of the prompt (once per layer, ascending, then steps): q [rows, H, d], k and v [rows, H_kv, d]
 * after RoPE; out [rows, H, d] or NULL. The policy's prompt stage runs at the end. Another prompt after steps is
 * another turn. After a failure inside a layer the replay must be closed. */
enum kvc_status kvc_replay_prompt(struct kvc_replay *replay, uint32_t layer, const float *q, const float *k,
                                  const float *v, uint64_t rows, float *out, struct kvc_error *error);
/* Before a layer's prompt: the rows a method adds. pseudo (dapq): q [rows, H, d], k [rows, H_kv, d]; probe (take): q
 * [rows, H, d] of every chunk but the last. They must stay valid until the last layer's prompt. */
enum kvc_status kvc_replay_pseudo(struct kvc_replay *replay, uint32_t layer, const float *q, const float *k,
                                  uint32_t rows, struct kvc_error *error);
enum kvc_status kvc_replay_probe(struct kvc_replay *replay, uint32_t layer, uint32_t chunk, const float *q,
                                 uint32_t rows, struct kvc_error *error);
/* With a chunk method nothing is computed before the last layer's prompt; q, k, v and out of all layers must stay valid
 * until then. Called after every chunk, when all layers have passed it; non-zero stops. */
typedef int kvc_chunk_fn(void *user, uint32_t chunk);
void kvc_replay_on_chunk(struct kvc_replay *replay, kvc_chunk_fn *done, void *user);
/* One decode row of one layer (all layers, ascending, before the next row): q [H, d], k, v [H_kv, d], out [H, d]. */
enum kvc_status kvc_replay_step(struct kvc_replay *replay, uint32_t layer, const float *q, const float *k,
                                const float *v, float *out, struct kvc_error *error);
const struct kvc_session *kvc_replay_session(const struct kvc_replay *replay); /* for positions and stats */

/* ---- output files, and what handlers of signals need ------------------------------------------------------------ */

/* A file that appears under its name only when it is complete, as all files do that this library writes: until then
 * it lies beside its place as NAME.part-PID-N. A symbolic link stays one, its target is replaced or made. */
struct kvc_output;
/* bytes: taken from the disk at once, so that a full disk shows early; 0: not known. Failures are KVC_RESOURCE. */
enum kvc_status kvc_output_open(const char *path, uint64_t bytes, struct kvc_output **output, struct kvc_error *error);
int kvc_output_descriptor(const struct kvc_output *output); /* to write to; it is closed with the output */
/* Both free the output. commit renames the file to its name, or removes it and fails; abandon removes it. */
enum kvc_status kvc_output_commit(struct kvc_output *output, struct kvc_error *error);
void kvc_output_abandon(struct kvc_output *output); /* NULL is fine */

/* The library installs no handlers. For those of a program, of signals that end it: removes all files of this process
 * that are not complete; the process must end then. Async-signal-safe. */
void kvc_output_remove_all(void);
/* For a handler of SIGBUS: the file of a model or of tensors that lies mapped at the address (si_addr), which then was
 * cut short or cannot be read any more; NULL: none does. Async-signal-safe. */
const char *kvc_mapped_path(const void *address);

/* ---- tensor files: float32 arrays in safetensors files, for replay and logits --------------------------------- */

struct kvc_tensor {
    const char *name;
    uint32_t dimensions; /* 1 to 4 */
    uint64_t shape[4];   /* outermost first */
    const float *values; /* reading: in the mapped file, dense and row-major; writing: not used */
};

/* Writing: names and shapes are known beforehand, values are appended as they come, the tensors in any order. The
 * file has a temporary name, and its room on the disk, until commit; an existing file is replaced only then. */
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

/* ---- verify: a backend against the reference, to the bit ------------------------------------------------------ */

struct kvc_verify_row {
    const char *kind; /* "operation" or "method" */
    const char *name;
    uint64_t cases;                /* shapes tried */
    uint64_t values;               /* compared */
    uint64_t differing;            /* values (operation) or logits (method) with other bits */
    uint64_t differing_bits;       /* bits of these */
    uint64_t kept_differing;       /* entries (method) that one of the two keeps and the other does not */
    uint64_t read_differing;       /* the same of entries that decode steps read */
    uint64_t hash;                 /* of all results (operation) or logits (method) of the backend under test */
    uint64_t kept_hash, read_hash; /* (method) of the entries kept and read, all steps */
    char first[160];               /* first difference: shape, index, both values in hex; "" when none */
};
typedef int kvc_verify_fn(void *user, const struct kvc_verify_row *row); /* non-zero stops */
struct kvc_verify_options {
    const char *backend; /* as in kvc_engine_options, or "ref|avx2|avx512|neon" for one CPU path */
    int threads;
    unsigned effort;    /* multiplies the cases; `kvcull verify` takes 10; 0: an eighth of 1 */
    bool alone;         /* ref is not run: results are hashed, for comparison with stored hashes, not compared */
    bool small;         /* short rows and few entries: for an interpreter of kernels, such as Oclgrind */
    const char *only;   /* one operation; NULL: all */
    const char *inject; /* for tests: this operation's results are damaged behind the backend's back; NULL: none */
};
/* Calls row for every operation. KVC_DIFFERS when anything differed. */
enum kvc_status kvc_verify_operations(const struct kvc_verify_options *options, kvc_verify_fn *row, void *user,
                                      struct kvc_error *error);
const char *kvc_verify_operation(size_t i); /* the i-th operation's name; NULL past the last */
/* For tests: damages one operation's results in everything that is opened from the engine from now on. */
enum kvc_status kvc_verify_inject(struct kvc_engine *engine, const char *operation, struct kvc_error *error);

/* ---- measure: a backend's operations beside what its device can do --------------------------------------------- */

struct kvc_ceilings { /* of the device, measured in the same run */
    double copy;      /* bytes per second, read and written, of a large copy */
    double fma;       /* flops per second of exact fused multiply-adds that need no memory */
    double product;   /* flops per second of a library's matrix product (--math fast); 0: there is none */
    double launch;    /* seconds of a call that has nothing to do */
};
struct kvc_measured {
    const char *name, *shape;
    uint64_t bytes, flops;  /* of one call: what it has to read and write, and its arithmetic; 0: none */
    unsigned calls;         /* queued for it: 1, or with copies that put back what it starts from */
    double seconds, beside; /* of one call, the best of several; beside: on the other backend, 0 where there is none. If
                               the first is not twice as fast, of five rounds in turns the one of the median ratio */
    double launch;          /* of a call that has nothing to do, in the same round; 0 where nothing is beside */
};
typedef int kvc_measure_fn(void *user, const struct kvc_ceilings *ceilings, const struct kvc_measured *row);
enum { KVC_MEASURE_LEAST = 256, KVC_MEASURE_MOST = 1 << 22 };
struct kvc_measure_options {
    const char *beside; /* NULL, or a second backend to time with the same calls */
    const char *only;   /* NULL, or an operation's name */
    uint32_t entries;   /* 0: operations at shapes of a model of one billion parameters. KVC_MEASURE_LEAST to _MOST:
                           what a context so long costs in a layer of a model of eight: a decode step's "linear" layer
                           and its "attention" over heads of different lengths; a chunk's "prefill", half of the context
                           before it; the "selection" of what a prompt leaves in the cache */
};
/* Calls row for every operation of the backend; another result than 0 ends it. A fused multiply-add counts as two
 * flops, an exponential as twenty. */
enum kvc_status kvc_measure_operations(const struct kvc_engine_options *options, const struct kvc_measure_options *what,
                                       kvc_measure_fn *row, void *user, struct kvc_error *error);

#ifdef __cplusplus
}
#endif
#endif

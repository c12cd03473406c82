/** @file kvcull.h
 * The public interface of libkvcull: engines, models, text, sessions, sampling, estimates, files.
 *
 * kvcull runs language models with a key-value cache of bounded size. The usual order of calls is kvc_engine_open,
 * kvc_model_open, kvc_tokenize, kvc_session_open, kvc_session_prompt, then kvc_sample and kvc_decode in turn.
 *
 * Errors: a function that can fail returns an enum kvc_status. Most also take a struct kvc_error, which may be NULL,
 * and fill it with one line that names the object, its wrong value and the accepted values. Output arguments are
 * undefined after a failure, except that the functions named `..._open` set the new object to NULL.
 *
 * Ownership: the caller closes what it opens, in reverse order. Returned strings belong to the object they came from,
 * unless the function says that the caller frees them (with free).
 *
 * Threads: only one thread at a time may use an engine or anything opened from it. Functions that take only const
 * objects (text, chat templates, policy strings, estimates, model information) are an exception: several threads may
 * call them, even while another thread computes.
 *
 * Units: sizes are in bytes, counts in tokens or entries. An entry is the key and the value of one token in one
 * key-value head of one layer. Shapes are row-major: H is the number of query heads, H_kv the number of key-value
 * heads, d the head size.
 *
 * More headers are installed with this one: kvcull/policy.h (write a method), kvcull/chat.h (conversations as tokens),
 * kvcull/saved.h (fork, save and load sessions), kvcull/check.h (replay, verification, measurements) and
 * kvcull/ranks.h (several processes).
 */
#ifndef KVCULL_H
#define KVCULL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The version of these headers. */
#define KVC_VERSION "0.1.0"
/** Version of the arithmetic. It increases when any result changes, even in a single bit. */
#define KVC_ARITHMETIC_VERSION 1
/** Version of the arithmetic of KVC_MATH_INT8. It increases when any result with KVC_MATH_INT8 changes. */
#define KVC_INT8_VERSION 3
/** Version of the arithmetic of KVC_MATH_INT16. It increases when any result with KVC_MATH_INT16 changes. */
#define KVC_INT16_VERSION 2
/** Returns KVC_VERSION of the library in use, which may differ from the headers that a program was compiled with. */
const char *kvc_version(void);

/* ---- errors ------------------------------------------------------------------------------------------------- */

/** The result of a function that can fail; also the exit status of the program. */
enum kvc_status {
    KVC_OK = 0,      /**< success */
    KVC_DIFFERS = 1, /**< a comparison found a difference */
    KVC_USAGE = 2, /**< a wrong argument: an option, a policy string, a geometry, a value outside its enum; also a call
                        in the wrong order, and a call that a callback stopped */
    KVC_INPUT = 3, /**< wrong content of a file, or of tensors read from one; also logits that are NaN or infinite */
    KVC_RESOURCE = 4 /**< no memory, no device, no disk space, or a part that this build lacks */
};

/** Describes a failure. */
struct kvc_error {
    enum kvc_status status; /**< the status that the function returned */
    char text[500];         /**< one line without a newline, always terminated by a NUL */
};

/** Fills `error` (which may be NULL) with a formatted message and returns `status`, for `return kvc_fail(...)`.
 * kvc_printable turns the message into one line. */
enum kvc_status kvc_fail(struct kvc_error *error, enum kvc_status status, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;
/** Turns any bytes into one printable line. Control characters and invalid UTF-8 become '?'. If the text is too long,
 * "..." replaces its middle. Writes at most `capacity` (at least 1) bytes to `line`, the NUL included; `line` and
 * `text` may be the same array. Async-signal-safe. */
void kvc_printable(const char *text, size_t bytes, char *line, size_t capacity);

/** Searches for the name that a mistyped word most likely stands for. Start with kvc_nearest, call kvc_nearest_try for
 * every known name, then read `name` or call kvc_nearest_hint. Strings are not copied. */
struct kvc_nearest {
    const char *word;  /**< the mistyped word, `word_bytes` long */
    size_t word_bytes; /**< length of `word` */
    const char *name;  /**< the nearest name so far, a pointer that kvc_nearest_try received; NULL: no name is near */
    size_t bytes;      /**< length of `name` */
    size_t edits; /**< number of edits from `word` to `name` (1 if one is a prefix of the other). While `name` is NULL,
                     this is a limit: kvc_nearest_try accepts only a name that needs fewer edits */
};
/** Begins a search for `word`, `bytes` long. */
struct kvc_nearest kvc_nearest(const char *word, size_t bytes);
/** Compares one more name, `bytes` long, with the word. An edit inserts, deletes or replaces a character, or swaps two
 * neighbours. */
void kvc_nearest_try(struct kvc_nearest *nearest, const char *name, size_t bytes);
/** Calls kvc_nearest_try for each of several names, which are separated by '|'. */
void kvc_nearest_try_choices(struct kvc_nearest *nearest, const char *choices);
/** Maximum number of bytes that kvc_nearest_hint writes, including the NUL. */
#define KVC_NEAREST_HINT 64
/** Writes "; did you mean NAME?" for the end of an error message, or "" if no name is near. Returns `text`. */
const char *kvc_nearest_hint(const struct kvc_nearest *nearest, char text[KVC_NEAREST_HINT]);

/* ---- engine: a backend, its threads, its memory, the known policies ----------------------------------------- */

/** Element types of weights and of cache entries. */
enum kvc_type {
    KVC_F32,             /**< IEEE 754 single precision */
    KVC_F16,             /**< IEEE 754 half precision */
    KVC_BF16,            /**< the upper 16 bits of a KVC_F32 */
    KVC_Q8_0,            /**< GGUF's q8_0: blocks of 32 values, 8 bits each */
    KVC_Q4_0,            /**< GGUF's q4_0 */
    KVC_Q5_0,            /**< GGUF's q5_0 */
    KVC_Q3_K,            /**< GGUF's q3_k */
    KVC_Q4_K,            /**< GGUF's q4_k */
    KVC_Q5_K,            /**< GGUF's q5_k */
    KVC_Q6_K,            /**< GGUF's q6_k */
    KVC_Q4_1,            /**< GGUF's q4_1 */
    KVC_Q5_1,            /**< GGUF's q5_1 */
    KVC_IQ4_NL,          /**< GGUF's iq4_nl */
    KVC_MXFP4,           /**< GGUF's mxfp4 */
    KVC_Q2_K,            /**< GGUF's q2_k */
    KVC_IQ4_XS,          /**< GGUF's iq4_xs */
    KVC_TYPES,           /**< number of types above, which kvc_convert can write */
    KVC_FP8 = KVC_TYPES, /**< FP8 weights of Hugging Face folders with float32 scales; exists in memory only */
    KVC_ALL_TYPES,       /**< number of all types of weights */
    /* Types of cache entries only. Keys and values are rotated by a Walsh-Hadamard transform before they are stored.
     * The mean of the session's first keys is then subtracted from the keys (docs/reference/entry-types.md). */
    KVC_Q4H = KVC_ALL_TYPES, /**< blocks of 32 values, 4 bits each */
    KVC_Q5H,                 /**< 5 bits each */
    KVC_Q6H,                 /**< 6 bits each */
    KVC_ANY_TYPE             /**< any type, for functions that say so */
};
/** Returns the name in lower case: "f32", "f16", "bf16", "q8_0", ... */
const char *kvc_type_name(enum kvc_type type);
/** Returns true if keys and values of the type are rotated before they are stored. */
bool kvc_type_is_rotated(enum kvc_type type);
/** Finds a type below KVC_TYPES by its name (case-insensitive). Returns false if there is none. */
bool kvc_type_from_name(const char *name, enum kvc_type *type);

/** Types of the keys and of the values of cache entries: KVC_F32, KVC_F16, KVC_BF16, KVC_Q8_0, KVC_Q4_0, KVC_Q4_1,
 * KVC_IQ4_NL, KVC_Q4H, KVC_Q5H or KVC_Q6H. */
struct kvc_entry_types {
    enum kvc_type key;   /**< type of the keys */
    enum kvc_type value; /**< type of the values */
};
/** Returns `type` for the keys and for the values. */
struct kvc_entry_types kvc_entry_types(enum kvc_type type);
/** Returns true if cache entries can have these types. */
bool kvc_entry_types_valid(struct kvc_entry_types types);
/** Returns true if both pairs are the same. */
bool kvc_entry_types_equal(struct kvc_entry_types a, struct kvc_entry_types b);
/** Size of the text that kvc_entry_types_name writes, including the NUL. */
#define KVC_ENTRY_TYPES_NAME 32
/** Writes the types as text: "f16" if both are the same, otherwise "k=q8_0,v=q4h". Returns `text`. */
const char *kvc_entry_types_name(struct kvc_entry_types types, char text[KVC_ENTRY_TYPES_NAME]);
/** Reads types from such a text (case-insensitive names; "v=" may come first). Returns false if the text is invalid. */
bool kvc_entry_types_from_name(const char *name, struct kvc_entry_types *types);

/** The arithmetic of linear layers and of attention. Results of FLOAT, of INT8 and of INT16 are bit-identical on every
 * machine. */
enum kvc_math {
    KVC_MATH_FLOAT, /**< float32, summed in a fixed order */
    KVC_MATH_FAST,  /**< products of many rows use a BLAS library, so results depend on the machine */
    KVC_MATH_INT8,  /**< quantized weights are multiplied by activations of 8 bits; if the model has such weights,
                         attention also multiplies integers, over entries of the types KVC_Q8_0, KVC_Q4_0, KVC_IQ4_NL,
                         KVC_Q4H, KVC_Q5H and KVC_Q6H. Everything else as with FLOAT. The default of the program
                         `kvcull` */
    KVC_MATH_INT16, /**< float weights (KVC_F32, KVC_F16, KVC_BF16, KVC_FP8) and activations are quantized to 15 bits
                         and multiplied as integers, if the number of the layer's inputs is a multiple of 32. Everything
                         else as with FLOAT
                     */
    KVC_MATH_EXACT = KVC_MATH_FLOAT /**< the former name of FLOAT */
};

/** The processes of a parallel run; see kvcull/ranks.h. */
struct kvc_ranks;

/** Options of kvc_engine_open. Zeroed memory gives the defaults. */
struct kvc_engine_options {
    const char *backend; /**< "cpu" (NULL: the same), "ref"; if built in, "opencl[:N]" and "cuda[:N]" for device N */
    int threads;         /**< 0 to 1024; 0: one per available core */
    enum kvc_math math;  /**< arithmetic of linear layers and of attention */
    struct kvc_ranks *ranks; /**< processes among which the engine's models are sharded; NULL: this process only */
    const char *trace; /**< a file that receives a hash of the output of each operation, for `kvcull trace compare`;
                            rank N > 0 writes to the file with ".rankN" added; NULL: no trace */
    const char *trace_values; /**< the outputs whose values are written in addition to the hash: "all" or
                                   "POSITION[:LAYER[:OPERATION]]", with * for any number; NULL: none */
};

/** Uses of memory that the engine counts separately. */
enum kvc_memory_kind {
    KVC_MEMORY_WEIGHTS, /**< copied and converted weights; kvc_model_info reports those used in the mapped file */
    KVC_MEMORY_CACHE,   /**< blocks of keys and values */
    KVC_MEMORY_STATE,   /**< state columns of policies, order lists, positions, block tables */
    KVC_MEMORY_HIDDEN,  /**< hidden states of a prompt that is computed layer by layer */
    KVC_MEMORY_SCRATCH, /**< temporary buffers of operations */
    KVC_MEMORY_KINDS    /**< number of kinds */
};
/** Bytes by kind, counted at every allocation. */
struct kvc_memory {
    uint64_t now[KVC_MEMORY_KINDS];  /**< allocated now */
    uint64_t peak[KVC_MEMORY_KINDS]; /**< the most of each kind since the engine was opened or its peaks were reset */
    uint64_t now_total;              /**< sum of all kinds */
    uint64_t peak_total;             /**< the peak of that sum */
};

/** A backend with its threads, its memory and the policies it knows. */
struct kvc_engine;
/** Opens a backend. `options` NULL: the defaults. Close the engine with kvc_engine_close. Fails with KVC_USAGE for an
 * unknown backend, a value out of range or an invalid KVCULL_LOG, and with KVC_RESOURCE if this build lacks the
 * backend, the device cannot be used or memory runs out. */
enum kvc_status kvc_engine_open(const struct kvc_engine_options *options, struct kvc_engine **engine,
                                struct kvc_error *error);
/** Frees an engine. Everything opened from it must be closed before. NULL is allowed. */
void kvc_engine_close(struct kvc_engine *engine);
/** Reports the memory of an engine, summed over all its processes. */
void kvc_engine_memory(const struct kvc_engine *engine, struct kvc_memory *memory);
/** Sets the peaks to the current numbers. */
void kvc_engine_reset_peaks(struct kvc_engine *engine);
/** Returns a description of the backend in use, such as "cpu (avx512, 2 threads)". */
const char *kvc_engine_backend(const struct kvc_engine *engine);

/** Asks the program whether to go on. A nonzero result stops the current prompt with KVC_USAGE, and its sessions must
 * be closed. The library calls it before each part of a layer of a prompt and within long parts, several times a second
 * on usual machines, in the thread that computes. The function must not use the engine. If the engine has several
 * processes, the function runs in the first one, and all of them end the prompt alike. */
typedef int kvc_interrupt_fn(void *user);
/** Sets the function to call during prompts of sessions and replays, with `user` as its argument; NULL removes it. */
enum kvc_status kvc_engine_on_interrupt(struct kvc_engine *engine, kvc_interrupt_fn *interrupt, void *user,
                                        struct kvc_error *error);

/** A backend of this build. */
struct kvc_backend_info {
    const char *name;  /**< "ref", "cpu", ... */
    bool usable;       /**< true if this machine can use it */
    char detail[256];  /**< the instruction set or device chosen, or the reason why it is not usable */
    char missing[512]; /**< operations that fall back to ref, or "none" */
};
/** Describes the i-th backend of this build. Returns false past the last one. */
bool kvc_backend(size_t i, struct kvc_backend_info *info);
/** Describes one device of a backend in one line of at most `capacity` bytes: `device` is the number N in "opencl:N".
 * Returns false past the last device, and for backends without numbered devices. */
bool kvc_backend_device(size_t backend, size_t device, char *text, size_t capacity);

/** A library of another project that this library opens when a run first needs it. */
struct kvc_library_info {
    const char *name; /**< "OpenCL", "Open MPI", ... */
    const char *use;  /**< the option or backend that needs it */
    bool found;       /**< true if this build can use the library and it was opened */
    char detail[512]; /**< path of the library, or the reason why it was not found */
};
/** Describes the i-th library after trying to open it. Returns false past the last one. */
bool kvc_library(size_t i, struct kvc_library_info *info);

/* ---- log: what the library chose, and why -------------------------------------------------------------------- */

/** The severity of a line of the log. A log with a level contains the lines of that level and of those before it. */
enum kvc_log_level {
    KVC_LOG_OFF,   /**< no lines */
    KVC_LOG_ERROR, /**< failures */
    KVC_LOG_WARN,  /**< results may be unexpected, such as memory that is short */
    KVC_LOG_INFO,  /**< choices for an engine, a model, a session or a request */
    KVC_LOG_DEBUG  /**< choices within a prompt or a step */
};
/** Returns "off", "error", "warn", "info" or "debug". */
const char *kvc_log_level_name(enum kvc_log_level level);

/** The subjects of lines. */
enum kvc_log_subject {
    KVC_LOG_DEVICE,  /**< the backend, its instruction set and its memory */
    KVC_LOG_MODEL,   /**< shapes, weight types and arithmetic of a model */
    KVC_LOG_MEMORY,  /**< blocks that lists get and free, and requests that fail */
    KVC_LOG_CACHE,   /**< entry types, lists, evictions and copies of sessions */
    KVC_LOG_POLICY,  /**< which method holds which stage, and how a prompt is computed */
    KVC_LOG_RANKS,   /**< how the processes of a parallel run divide the work */
    KVC_LOG_SERVER,  /**< admission of requests, and reuse of sessions */
    KVC_LOG_SUBJECTS /**< number of subjects */
};
/** Describes the i-th subject: its name in a choice of lines, and what its lines are about. Returns false past the last
 * one. */
bool kvc_log_subject(size_t i, const char **name, const char **summary);

/** Receives a line of the log, without a newline. Several threads may call it at the same time if several threads call
 * kvc_log_line. The function must not use the engine. */
typedef void kvc_log_fn(void *user, enum kvc_log_level level, enum kvc_log_subject subject, const char *line);
/** Chooses the lines that an engine writes, in place of the environment variable KVCULL_LOG, which kvc_engine_open
 * reads. `lines` is "LEVEL[,SUBJECT...]", such as "info" (all subjects) or "debug,cache,memory"; NULL: none. `write`
 * receives the lines, with `user` as its argument; NULL: standard error. The lines about the open engine are written
 * again. The other processes of a parallel run keep their choice. Fails with KVC_USAGE for an unknown level or
 * subject, and then changes nothing. */
enum kvc_status kvc_log_set(struct kvc_engine *engine, const char *lines, kvc_log_fn *write, void *user,
                            struct kvc_error *error);
/** Returns true if the engine writes lines of this level and subject. */
bool kvc_log_on(const struct kvc_engine *engine, enum kvc_log_level level, enum kvc_log_subject subject);
/** Writes a line of a program, if the engine writes lines of this level and subject. Any thread may call it. */
void kvc_log_line(const struct kvc_engine *engine, enum kvc_log_level level, enum kvc_log_subject subject,
                  const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 4, 5)))
#endif
    ;

/* ---- models ------------------------------------------------------------------------------------------------- */

/** An opened model: its weights, its tokenizer and its chat templates. */
struct kvc_model;

/** Properties of a model. Pointers are valid until the model is closed. */
struct kvc_model_info {
    const char *path;           /**< as passed to kvc_model_open */
    const char *format;         /**< "gguf" or "huggingface" */
    const char *architecture;   /**< "llama", "qwen3", ... */
    const char *name;           /**< the name in the file; otherwise the path */
    uint32_t layers;            /**< layers with attention: these have a cache, and methods count only these */
    uint32_t hidden;            /**< width of the hidden states */
    uint32_t heads;             /**< H, query heads */
    uint32_t kv_heads;          /**< H_kv, key-value heads */
    uint32_t head_size;         /**< d */
    uint32_t feed_forward;      /**< width of a feed-forward network, or of one expert */
    uint32_t vocab;             /**< tokens in the vocabulary */
    uint32_t recurrent_layers;  /**< recurrent layers (gated delta nets) between the others */
    uint64_t recurrent_bytes;   /**< recurrent state of one session; independent of the number of tokens */
    uint32_t trained_context;   /**< tokens that the model was trained for */
    uint32_t original_context;  /**< longrope: tokens up to which the short factors apply; 0: one set of factors */
    uint32_t sliding_window;    /**< width of the sliding window; 0: none */
    const uint32_t *windows;    /**< [layers] each layer's window, 0: none; NULL: no layer has one */
    uint32_t experts;           /**< experts of a layer; 0: none */
    uint32_t experts_used;      /**< experts that each token passes */
    uint32_t expert_layers;     /**< layers with experts, each expert of width feed_forward */
    uint32_t dense_feed;        /**< width of the network in layers without experts; 0: all or no layers have experts */
    uint64_t parameters;        /**< number of weights */
    uint64_t weight_bytes;      /**< size of all weights */
    uint64_t mapped_bytes;      /**< the part of weight_bytes that is used in the mapped file, without a copy */
    uint64_t packed_bytes;      /**< KVC_MATH_INT16: size of the matrices that the first session converts; else 0 */
    uint64_t resident_bytes;    /**< size of the weights in memory. A converted matrix counts instead of its original in
                                     the file, but both count if the original is an embedding */
    uint64_t active_parameters; /**< number of weights that the computation of one token uses */
    uint64_t active_bytes;      /**< size of these weights */
    const char *weight_types;   /**< for example "q4_k, q6_k, f32" */
    enum kvc_math math;         /**< arithmetic in use: FLOAT if the engine has INT8 and no weight is quantized, or if
                                     it has INT16 and all weights are quantized; otherwise the engine's */
    const char *rope;           /**< "plain", "linear", "llama3", "yarn", "longrope" or "divisors" */
    int32_t bos;                /**< token at the beginning of a text; -1: none */
    int32_t eos;                /**< token at the end of a text; -1: none */
    bool has_chat_template;     /**< true if the model's files contain a chat template */
};

/** Opens a GGUF file or a Hugging Face folder. The files stay mapped until kvc_model_close. Fails with KVC_INPUT if the
 * model is damaged or not supported, and with KVC_RESOURCE if memory runs out. */
enum kvc_status kvc_model_open(struct kvc_engine *engine, const char *path, struct kvc_model **model,
                               struct kvc_error *error);
/** Opens only the tokenizer and the chat templates of a model. No weights are read, so the file may be a vocabulary
 * without weights, or a model of an unsupported family. The functions on text accept such a model; kvc_session_open
 * refuses it with KVC_USAGE. kvc_model_info reports the vocabulary, name and architecture. The reported weight_bytes is
 * the size of the weights in a GGUF file (0 for a vocabulary and for a folder). All other sizes are 0. Fails with
 * KVC_INPUT if there is no tokenizer. */
enum kvc_status kvc_model_open_text(struct kvc_engine *engine, const char *path, struct kvc_model **model,
                                    struct kvc_error *error);
/** Frees a model. Its sessions must be closed before. NULL is allowed. */
void kvc_model_close(struct kvc_model *model);
/** Returns the properties of a model, which belong to it. */
const struct kvc_model_info *kvc_model_info(const struct kvc_model *model);

/** Writes the model `from` (a GGUF file or a folder) to `to` with weights of another type.
 *
 * `to` is a GGUF file, or, if it ends in a slash, a Hugging Face folder of type f32, f16 or bf16, which must be new or
 * empty. A matrix whose rows are not a whole number of the type's blocks becomes q8_0 or f16; the function then returns
 * KVC_OK with a note in error->text, which is "" otherwise. Fails with KVC_USAGE for a wrong type or name, with
 * KVC_INPUT if `from` cannot be converted, and with KVC_RESOURCE if `to` cannot be written. */
enum kvc_status kvc_convert(const char *from, const char *to, enum kvc_type type, struct kvc_error *error);
/** Sets `*type` to the default type for kvc_convert: KVC_Q8_0 for a GGUF file. For a folder (a name that ends in a
 * slash), it is the type of the source's matrices if that is KVC_F32 or KVC_BF16, else KVC_F16. */
enum kvc_status kvc_convert_type(const char *from, const char *to, enum kvc_type *type, struct kvc_error *error);
/** Writes a GGUF file of random weights with the geometry of a real model, for measurements. The file is the same on
 * every machine. Weights of different types are drawn independently.
 *
 * `shape` is a name from kvc_shape; error->text receives a note as with kvc_convert. */
enum kvc_status kvc_make_model(const char *shape, enum kvc_type type, uint64_t seed, const char *to,
                               struct kvc_error *error);
/** Returns the name and a one-line summary of the i-th shape; false past the last one. */
bool kvc_shape(size_t i, const char **name, const char **summary);
/** A supported model family. */
struct kvc_model_family {
    const char *models; /**< the released models; NULL: those of the previous family, under another model_type */
    const char *gguf;   /**< general.architecture in GGUF files */
    const char *folder; /**< model_type in the config.json of Hugging Face folders */
    const char *apart;  /**< the differences from other families; NULL if `models` is NULL */
};
/** Describes the i-th supported family. Returns false past the last one. */
bool kvc_model_family(size_t i, struct kvc_model_family *family);

/* ---- text --------------------------------------------------------------------------------------------------- */

/** Flags of kvc_tokenize, to be combined by |. */
enum {
    KVC_TOKENIZE_BOS = 1,    /**< add the tokens that the model puts in front of a text */
    KVC_TOKENIZE_SPECIAL = 2 /**< recognize control tokens: "<|eot_id|>" becomes one token */
};

/** Splits a text into tokens. `text` need not be valid UTF-8. The caller frees `*tokens`. */
enum kvc_status kvc_tokenize(const struct kvc_model *model, const char *text, size_t bytes, unsigned flags,
                             int32_t **tokens, size_t *count, struct kvc_error *error);
/** Joins tokens into a text. The caller frees `*text`, which ends in a NUL that `*bytes` does not count. With
 * `special`, control tokens are written, too. */
enum kvc_status kvc_detokenize(const struct kvc_model *model, const int32_t *tokens, size_t count, bool special,
                               char **text, size_t *bytes, struct kvc_error *error);
/** Writes the bytes that one token adds to a text, at its beginning (`first`) or after other tokens. A token may hold
 * part of a character. `*bytes` receives the number of these bytes; `text` receives at most `capacity` of them and no
 * NUL. Allocates no memory. Fails with KVC_INPUT if the model has no tokenizer, and with KVC_USAGE if there is no such
 * token. */
enum kvc_status kvc_token_bytes(const struct kvc_model *model, int32_t token, bool first, char *text, size_t capacity,
                                size_t *bytes, struct kvc_error *error);
/** Returns true if the model's files name the token as an end token: eos, or one of the other end tokens in
 * generation_config.json, config.json and tokenizer.ggml.eot_token_id, eom_token_id, eog_token_id. */
bool kvc_token_ends_turn(const struct kvc_model *model, int32_t token);

/** One message of a conversation. */
struct kvc_message {
    const char *role;    /**< "system", "user", "assistant", or another role that the template knows */
    const char *content; /**< the text */
};

/** Input of a chat template besides the messages. NULL members are absent. */
struct kvc_chat_options {
    const char *template_name; /**< a built-in template, or one of the model's; NULL: the model's own. If the model has
                                    several: "tool_use" with tools, else "default" */
    const char *template_text; /**< Jinja source of a template to use instead; not together with template_name */
    const char *earlier;       /**< JSON array of messages before the others, with all fields that a template may read,
                                    such as "tool_calls" */
    const char *tools;         /**< JSON array of the functions that the model may call */
    const char *documents;     /**< JSON array of texts that the model may quote */
    const char *variables;     /**< JSON object of further variables, such as {"enable_thinking": false} */
    const char *date;          /**< result of the template function strftime_now: "2025-06-30" or "2025-06-30 14:05:09".
                                    NULL: the function is undefined, so that a prompt does not depend on the day */
    bool answer;               /**< end with the beginning of the assistant's turn */
    bool special_content;      /**< recognize control tokens also in messages, tools, documents and variables. Whoever
                                    writes these can then end a turn and begin another */
};
/** Sets the defaults: the model's own template, `answer` true, all else absent. */
void kvc_chat_defaults(struct kvc_chat_options *options);

/** Writes a conversation as one text for people to read. Use kvc_chat_tokens (kvcull/chat.h) to tokenize a
 * conversation. The caller frees `*text`. Fails with KVC_USAGE if there is no such template or the template refuses the
 * conversation, and with KVC_INPUT if the template has an error, exceeds its limits or needs an unsupported feature
 * (docs/reference/chat-templates.md). */
enum kvc_status kvc_chat_text_with(const struct kvc_model *model, const struct kvc_chat_options *options,
                                   const struct kvc_message *messages, size_t count, char **text,
                                   struct kvc_error *error);
/** Calls kvc_chat_text_with with default options except for the template's name and `answer`. */
enum kvc_status kvc_chat_text(const struct kvc_model *model, const char *template_name,
                              const struct kvc_message *messages, size_t count, bool answer, char **text,
                              struct kvc_error *error);
/** Returns true if the template that these options choose reads a variable, such as "tools" or "documents". The text
 * does not contain a variable that the template does not read. Also returns true if there is no template or it has an
 * error: kvc_chat_text_with then reports that. */
bool kvc_chat_reads(const struct kvc_model *model, const struct kvc_chat_options *options, const char *variable);
/** Returns the name and a one-line summary of the i-th built-in template; false past the last one. */
bool kvc_chat_template(size_t i, const char **name, const char **summary);

/* ---- sessions ----------------------------------------------------------------------------------------------- */

/** The maximum number of keys in the mean that is subtracted from all keys of a session if their type is rotated. They
 * are the keys of the first prompt's first tokens (docs/reference/entry-types.md). */
#define KVC_MEAN_ROWS 256u

/** A text in progress: its cache entries, its policy's state and its counters. */
struct kvc_session;

/** Options of a session; kvc_session_defaults fills them. */
struct kvc_session_options {
    const char *policy;                /**< a policy string (kvc_policy_check); NULL: "full" */
    struct kvc_entry_types cache_type; /**< types of keys and values; default: KVC_F16 for both */
    uint32_t chunk;        /**< rows of a prompt that are computed at once; 0: 512, or 256 if ranks share layers; at
                                least KVC_MEAN_ROWS with keys of a rotated type. Results do not depend on it */
    uint64_t context;      /**< tokens that the caller intends to use. A longrope model chooses its factors by this
                                number, once per session; 0: by the length of the first prompt */
    uint64_t seed;         /**< seed of policies that draw random numbers */
    uint64_t memory_limit; /**< the most bytes of cache and state the session may hold; 0: no limit */
    uint64_t expected;     /**< tokens that the caller intends to generate after each prompt, which some methods use;
                                0: unknown */
    bool record_reads;     /**< record the entries that the last decode step read, for kvc_session_reads */
};
/** Sets the defaults: policy "full", KVC_F16 entries, all else 0. */
void kvc_session_defaults(struct kvc_session_options *options);

/** Opens a session without tokens. `options` NULL: the defaults. Close it with kvc_session_close. Fails with KVC_USAGE
 * for a wrong option or a policy that does not suit the model, with KVC_INPUT for a wrong file that the policy names,
 * and with KVC_RESOURCE if memory runs out. */
enum kvc_status kvc_session_open(struct kvc_model *model, const struct kvc_session_options *options,
                                 struct kvc_session **session, struct kvc_error *error);
/** Frees a session. NULL is allowed. */
void kvc_session_close(struct kvc_session *session);
/** Returns the policy string that the session was opened with. */
const char *kvc_session_policy(const struct kvc_session *session);
/** Returns the type of the session's entries. */
struct kvc_entry_types kvc_session_cache_type(const struct kvc_session *session);

/** Receives the logits [vocab] of one prompt row. Rows come in ascending order. `logits` is valid during the call. The
 * function must not use the model's sessions. Nonzero stops the prompt. */
typedef int kvc_row_fn(void *user, uint64_t row, const float *logits);
/** Receives progress: `done` of `total`, in rows times layers. Nonzero stops the prompt. The last call has `done` equal
 * to `total`; `total` decreases when token pruning drops rows. The function may run kvc_decode on other sessions of the
 * model, so that a long prompt does not delay them, and may close other sessions. It must not start a prompt. These
 * calls do not change the prompt's results. */
typedef int kvc_progress_fn(void *user, uint64_t done, uint64_t total);
/** Called after each chunk when a method reads the prompt in chunks (stage chunk). `tokens` is the number of the turn's
 * tokens read so far; kvc_session_positions reports the entries held then. Nonzero stops the prompt. */
typedef int kvc_prompt_chunk_fn(void *user, uint64_t tokens);

/** Callbacks and options of one prompt. Zeroed memory: no callbacks. */
struct kvc_prompt_options {
    kvc_row_fn *row;            /**< NULL, or called with the logits of every row */
    kvc_progress_fn *progress;  /**< NULL, or called from time to time */
    kvc_prompt_chunk_fn *chunk; /**< NULL, or called after each chunk of a chunk method */
    void *user;                 /**< first argument of all three */
    bool synthetic;             /**< for measurements: skip the layers and fill the cache with random keys and values.
                                     Attention is computed only for the rows that the policy's prompt stage
                                     reads. Logits are meaningless */
};
/** Runs one turn: `count` (at least 1) tokens, then the policy's prompt stage. `logits` [vocab], or NULL, receives the
 * logits of the last token.
 *
 * Fails with KVC_USAGE for a token outside the vocabulary or if a callback stopped the prompt, and with KVC_RESOURCE if
 * memory runs out or the session's limit is reached. Fails with KVC_INPUT if logits or hidden states of the last row
 * (if `row` is set: of any row) are NaN or infinite; the error names the first layer with such a value. After a failure
 * the session holds an undefined number of the turn's tokens and must be closed. */
enum kvc_status kvc_session_prompt(struct kvc_session *session, const int32_t *tokens, size_t count,
                                   const struct kvc_prompt_options *options, float *logits, struct kvc_error *error);
/** Runs the same turn in `session_count` different sessions of one model and computes shared rows once.
 *
 * Each session gets bit-identical results to its own kvc_session_prompt: entries, statistics (except prompt_sessions
 * and spared_rows) and logits [session_count, vocab] (or NULL).
 *
 * Sessions share rows if they have no tokens yet, have the same cache type and `chunk`, and their methods leave the
 * rows of a prompt unchanged, that is, none holds the stage chunk or propagate (kvc_policy_stages). With longrope they
 * must also use the same factors. The prompts of all other sessions are computed one by one. The shared computation
 * holds at most two copies of a layer's rows, and one more for each session whose method observes attention (`attended`
 * of struct kvc_policy_class) or uses positions=cache.
 *
 * Sessions fail independently: `statuses` [session_count], or NULL, receives the status of each. The function returns
 * the first failure, and the error names that session. A failure of the shared rows (memory, NaN logits) fails every
 * session that shares them. A session that could not begin is unchanged; one that failed later must be closed. */
enum kvc_status kvc_session_prompt_many(struct kvc_session *const *sessions, size_t session_count,
                                        const int32_t *tokens, size_t count, float *logits, enum kvc_status *statuses,
                                        struct kvc_error *error);
/** Runs one decode step in each of `count` different sessions of one model: `tokens` [count] are appended, `logits`
 * [count, vocab] (or NULL) receives the logits that follow.
 *
 * Sessions fail independently: `statuses` [count], or NULL, receives the status of each. The function returns the first
 * failure, and the error names that session. A session that cannot take part (a wrong token, no memory for the new
 * entry) stays as it was, and so does its row of `logits`. A session must be closed if its policy fails within the step
 * or its logits are NaN or infinite (KVC_INPUT; the error names the layer). */
enum kvc_status kvc_decode(struct kvc_session *const *sessions, const int32_t *tokens, size_t count, float *logits,
                           enum kvc_status *statuses, struct kvc_error *error);

/** Counters of a session. With several processes, they are sums over all processes. */
struct kvc_session_stats {
    uint64_t tokens;            /**< tokens processed so far */
    uint64_t entries;           /**< entries held now, in all layers and heads */
    uint64_t entries_most;      /**< entries of the longest head */
    uint64_t entry_bytes;       /**< size of one entry */
    uint64_t cache_bytes;       /**< blocks of keys and values held now */
    uint64_t state_bytes;       /**< state held now: columns, order lists, positions, block tables */
    uint64_t peak_bytes;        /**< the most of cache_bytes + state_bytes since the session was opened */
    uint64_t prompt_peak_bytes; /**< the most of that sum during the last prompt */
    uint64_t full_bytes;        /**< the size that the cache of policy `full` would have now, with the same type. Such a
                                     cache has no entries that sliding windows hide from all later tokens */
    uint64_t read_bytes;        /**< cache bytes that decode steps have read, select_bytes included */
    uint64_t select_bytes;      /**< the part of read_bytes that was read in order to choose entries */
    uint64_t decode_steps;      /**< decode steps so far */
    uint64_t saturated;         /**< values clipped to the F16 range when stored. After a step of several sessions, each
                                     counts the values of all of them */
    bool outgrown;              /**< longrope: the session began with the short factors and now has more tokens than
                                     they serve (original_context of the model). The session keeps the short factors; a
                                     new session with a larger `context` uses the long ones */
    uint32_t prompt_sessions;   /**< sessions that shared the last prompt's rows, this one included */
    uint64_t spared_rows;       /**< rows times layers that were computed for another session */
    uint32_t mean_rows;         /**< number of first keys whose mean is subtracted from the keys, in a list; 0: none */
};
/** Reports the counters of a session. */
void kvc_session_stats(const struct kvc_session *session, struct kvc_session_stats *stats);
/** Returns how many lists of entries a layer has: the model's KV heads, or its query heads if a method has per=head. */
uint32_t kvc_session_heads(const struct kvc_session *session, uint32_t layer);
/** Reports the positions (token numbers in the text) of the entries in one list, ascending. `*count` is their number;
 * `positions` receives at most `capacity` of them. Fails with KVC_USAGE if there is no such layer or head. */
enum kvc_status kvc_session_positions(const struct kvc_session *session, uint32_t layer, uint32_t kv_head,
                                      int32_t *positions, size_t capacity, size_t *count, struct kvc_error *error);

/** Reports the positions in one list that the last decode step read, as kvc_session_positions does. The step read all
 * of them unless a method selected some. Fails with KVC_USAGE if the session was opened without record_reads. */
enum kvc_status kvc_session_reads(const struct kvc_session *session, uint32_t layer, uint32_t kv_head,
                                  int32_t *positions, size_t capacity, size_t *count, struct kvc_error *error);

/** Receives the attention output [H, d] of one layer in a decode step; valid during the call. */
typedef void kvc_output_fn(void *user, uint32_t layer, const float *output);
/** Sets the function to call in every decode step, layer by layer; NULL removes it. Fails with KVC_USAGE if several
 * processes share the session. */
enum kvc_status kvc_session_watch(struct kvc_session *session, kvc_output_fn *output, void *user,
                                  struct kvc_error *error);

/** An XXH64 hash (seed 0) of little-endian float32 values in the order in which they are added. Every NaN counts as
 * 0x7fc00000. */
struct kvc_hash;
/** Begins a hash; NULL: no memory. */
struct kvc_hash *kvc_hash_open(void);
/** Adds `count` values. */
void kvc_hash_add(struct kvc_hash *hash, const float *values, size_t count);
/** Returns the hash of all values so far. */
uint64_t kvc_hash_value(const struct kvc_hash *hash);
/** Frees a hash. */
void kvc_hash_close(struct kvc_hash *hash);

/* ---- sampling ----------------------------------------------------------------------------------------------- */

/** How to draw the next token. The order is repeat penalty, frequency and presence penalties, bias, top_k, temperature,
 * top_p, min_p. */
struct kvc_sampler_options {
    float temperature;    /**< 0 to 100; 0: take the most likely token (among equally likely tokens, the lowest id) */
    int32_t top_k;        /**< draw among the k most likely tokens; 0: all */
    float top_p;          /**< draw among the most likely tokens whose probabilities add up to this; 1: all */
    float min_p;          /**< minimum probability relative to the most likely token; 0: none */
    float repeat_penalty; /**< positive logits of recent tokens are divided by this number, negative logits are
                               multiplied by it; 1: off */
    uint32_t repeat_last; /**< number of recent tokens that the repeat penalty applies to */
    uint64_t seed;        /**< the same seed and logits give the same tokens on every machine */
};
/** The state of a series of draws. */
struct kvc_sampler;
/** Sets the defaults: temperature 0.8, top_k 40, top_p 0.95, min_p 0.05, no penalty, seed 0. */
void kvc_sampler_defaults(struct kvc_sampler_options *options);
/** Opens a sampler for logits [vocab]. Close it with kvc_sampler_close. Fails with KVC_USAGE for a value out of range.
 */
enum kvc_status kvc_sampler_open(const struct kvc_sampler_options *options, uint32_t vocab,
                                 struct kvc_sampler **sampler, struct kvc_error *error);
/** Frees a sampler. NULL is allowed. */
void kvc_sampler_close(struct kvc_sampler *sampler);
/** Adds a token of the prompt to those that the repeat penalty applies to. */
void kvc_sampler_accept(struct kvc_sampler *sampler, int32_t token);
/** Draws a token by logits [vocab] and accepts it. Returns -1 if a grammar (kvcull/grammar.h) allows none. */
int32_t kvc_sample(struct kvc_sampler *sampler, const float *logits);

/** A number to add to the logit of a token, after the penalties. */
struct kvc_bias {
    int32_t token; /**< the token */
    float bias;    /**< -INFINITY: never draw it */
};
/** Replaces all biases; `count` 0 removes them. If a token occurs twice, the last bias counts. Fails with KVC_USAGE for
 * a token outside the vocabulary or a bias that is NaN or +INFINITY, and keeps the former biases. */
enum kvc_status kvc_sampler_bias(struct kvc_sampler *sampler, const struct kvc_bias *biases, size_t count,
                                 struct kvc_error *error);

/** Sets the frequency and presence penalties, each -2 to 2 (otherwise KVC_USAGE); 0 and 0: off. The logit of a token
 * drawn n > 0 times decreases by `n * frequency + presence`, after the repeat penalty and before the bias. Tokens
 * passed to kvc_sampler_accept do not count. The call resets the counts, so call it at the beginning of each answer; a
 * saved session does not contain them. */
enum kvc_status kvc_sampler_penalties(struct kvc_sampler *sampler, float frequency, float presence,
                                      struct kvc_error *error);

/** A token and its probability. */
struct kvc_logprob {
    int32_t token; /**< the token; -1: none */
    float logprob; /**< the natural logarithm of its probability */
};
/** Returns the natural logarithm of the probability of `token` in the softmax of logits [vocab]. `best` [count], or
 * NULL with `count` 0, receives the most likely tokens in descending order, the lowest id first among equally likely
 * ones; elements past the vocabulary have token -1. Results are bit-identical on every machine. */
float kvc_logprobs(const float *logits, uint32_t vocab, int32_t token, struct kvc_logprob *best, size_t count);

/* ---- policy strings, and whether one will fit ---------------------------------------------------------------- */

/** Checks a policy string, `name[:option=value[,...]][+name...]`, without a model. Fails with KVC_USAGE if it is wrong,
 * and with KVC_INPUT if a file that it names is wrong. */
enum kvc_status kvc_policy_check(const struct kvc_engine *engine, const char *spec, struct kvc_error *error);

/** The shape of a model's attention. Each number is 1 to 65536, and kv_heads divides heads; otherwise functions fail
 * with KVC_USAGE. */
struct kvc_geometry {
    uint32_t layers;    /**< layers with attention */
    uint32_t heads;     /**< H, query heads */
    uint32_t kv_heads;  /**< H_kv, key-value heads */
    uint32_t head_size; /**< d */
};

/** How a predicted number relates to the number that a run will count. */
enum kvc_expected {
    KVC_EXPECTED_EXACT, /**< equal, except for rounding */
    KVC_EXPECTED_MOST   /**< an upper bound: the actual number depends on the data */
};

/** Memory that a policy will need, predicted without a model. The numbers do not include temporary buffers: a few rows,
 * and with keyformer on CPUs with vector instructions at most 64 MiB for its noise. */
struct kvc_estimate {
    uint64_t entries;     /**< entries of the longest head after the prompt and the generated tokens; the mean over
                               heads if the number depends on the data */
    uint64_t all_entries; /**< entries of all lists at that time; an upper bound if a decode method evicts */
    uint64_t lists;       /**< number of lists of all layers (kvc_session_heads) */
    uint64_t cache_bytes; /**< size of the blocks of keys and values at that time */
    uint64_t state_bytes; /**< size of the state at that time */
    uint64_t peak_bytes;  /**< the most of cache and state at any time, prefill included */
    uint64_t prompt_peak_bytes; /**< the most of cache and state during prefill */
    uint64_t hidden_bytes;  /**< hidden states during prefill, not part of peak_bytes; with a chunk method, the hidden
                                 states of one chunk */
    enum kvc_expected kind; /**< accuracy of these bytes */
};
/** Predicts the memory of a session with policy string `spec` after `prompt` tokens and `generated` more. `hidden` is
 * the width of the hidden states (0: leave them out). Fails with KVC_USAGE for a wrong argument. */
enum kvc_status kvc_estimate(const struct kvc_engine *engine, const char *spec, const struct kvc_geometry *geometry,
                             uint32_t hidden, struct kvc_entry_types cache_type, uint64_t prompt, uint64_t generated,
                             struct kvc_estimate *estimate, struct kvc_error *error);
/** Predicts the same for a model with sliding windows: `windows` [layers] as in struct kvc_model_info; NULL: none. */
enum kvc_status kvc_estimate_windows(const struct kvc_engine *engine, const char *spec,
                                     const struct kvc_geometry *geometry, const uint32_t *windows, uint32_t hidden,
                                     struct kvc_entry_types cache_type, uint64_t prompt, uint64_t generated,
                                     struct kvc_estimate *estimate, struct kvc_error *error);
/** Predicts the same for `layers` layers from `first_layer` on, the part of one rank of a pipeline (kvcull/ranks.h). */
enum kvc_status kvc_estimate_part(const struct kvc_engine *engine, const char *spec,
                                  const struct kvc_geometry *geometry, const uint32_t *windows, uint32_t first_layer,
                                  uint32_t layers, uint32_t hidden, struct kvc_entry_types cache_type, uint64_t prompt,
                                  uint64_t generated, struct kvc_estimate *estimate, struct kvc_error *error);

/** Adds the state of recurrent layers (recurrent_bytes of struct kvc_model_info) to an estimate. */
void kvc_estimate_recurrent(struct kvc_estimate *estimate, uint64_t recurrent_bytes);
/** Computes the bytes of the networks that the methods of policy string `spec` load (as kvzap and fastkvzip do), for
 * `layers` layers from `first_layer` on and `kv_heads` key-value heads; 0: no method loads any. They belong to the
 * weights (KVC_MEMORY_WEIGHTS): all sessions of the model share them, and no struct kvc_estimate includes them. Reads
 * the files, and fails as kvc_session_open does if they do not fit the model. */
enum kvc_status kvc_estimate_networks(const struct kvc_model *model, const char *spec, uint32_t first_layer,
                                      uint32_t layers, uint32_t kv_heads, uint64_t *bytes, struct kvc_error *error);

/* ---- output files, and functions for signal handlers ----------------------------------------------------------- */

/** A file that appears under its name only when it is complete. Until then it is in the same folder, named
 * NAME.part-PID-N. The library writes all its files in this way. If NAME is a symbolic link, its target is replaced or
 * created. A new file gets the permissions of the file that it replaces. */
struct kvc_output;
/** Creates the temporary file. `bytes` is the file's future size, which is reserved at once to detect a full disk
 * early; 0: unknown. Fails with KVC_RESOURCE. */
enum kvc_status kvc_output_open(const char *path, uint64_t bytes, struct kvc_output **output, struct kvc_error *error);
/** Creates a folder (not its parents) for such files. `*output` is the folder, to be committed or abandoned after its
 * files; NULL: the folder existed before. Fails with KVC_RESOURCE. */
enum kvc_status kvc_output_folder(const char *path, struct kvc_output **output, struct kvc_error *error);
/** Returns the file descriptor to write to. It is closed with the output. */
int kvc_output_descriptor(const struct kvc_output *output);
/** Renames the temporary file to its name and frees the output. On failure the temporary file is removed. A committed
 * folder is kept. NULL is allowed. */
enum kvc_status kvc_output_commit(struct kvc_output *output, struct kvc_error *error);
/** Removes the temporary file, or the folder if it is empty, and frees the output. NULL is allowed. */
void kvc_output_abandon(struct kvc_output *output);

/** Removes all temporary files of this process. A handler of signals that end the program may call it, and must then
 * end the process. The library itself installs no handler. Async-signal-safe. */
void kvc_output_remove_all(void);
/** Returns the path of the model or tensor file that is mapped at an address, or NULL. A handler of SIGBUS may call it
 * with si_addr: the signal means that the file was truncated or cannot be read any more. Async-signal-safe. */
const char *kvc_mapped_path(const void *address);

/* ---- tensor files: float32 arrays in safetensors files, for replay and logits --------------------------------- */

/** A dense row-major float32 array. */
struct kvc_tensor {
    const char *name;    /**< name in the file */
    uint32_t dimensions; /**< 1 to 4 */
    uint64_t shape[4];   /**< sizes, the outermost first */
    const float *values; /**< reading: in the mapped file, valid until the reader is closed; writing: not used */
};

/** Writes a safetensors file. Names and shapes are fixed when the writer is opened; values are appended to each tensor,
 * in any order of the tensors. Until the commit the file has a temporary name, and an existing file is not replaced
 * (struct kvc_output).
 */
struct kvc_tensor_writer;
/** Creates a file of `count` tensors. Fails with KVC_USAGE if names are not UTF-8 or not unique, and with KVC_RESOURCE
 * if the file cannot be created.
 */
enum kvc_status kvc_tensor_writer_open(const char *path, const struct kvc_tensor *tensors, size_t count,
                                       struct kvc_tensor_writer **writer, struct kvc_error *error);
/** Appends `count` values to the tensor of the given index. Fails with KVC_USAGE if they exceed its shape, and with
 * KVC_RESOURCE if the disk is full. */
enum kvc_status kvc_tensor_write(struct kvc_tensor_writer *writer, size_t tensor, const float *values, size_t count,
                                 struct kvc_error *error);
/** Gives the file its name and frees the writer, also on failure. Fails with KVC_USAGE if a tensor is incomplete. */
enum kvc_status kvc_tensor_writer_commit(struct kvc_tensor_writer *writer, struct kvc_error *error);
/** Removes the file and frees the writer. NULL is allowed. */
void kvc_tensor_writer_abandon(struct kvc_tensor_writer *writer);

/** Reads a safetensors file, which is mapped until the reader is closed. */
struct kvc_tensor_reader;
/** Opens a safetensors file. Fails with KVC_INPUT if it cannot be read or is damaged. */
enum kvc_status kvc_tensor_reader_open(const char *path, struct kvc_tensor_reader **reader, struct kvc_error *error);
/** Frees a reader. NULL is allowed. */
void kvc_tensor_reader_close(struct kvc_tensor_reader *reader);
/** Returns true if the file has a tensor of this name. */
bool kvc_tensor_has(const struct kvc_tensor_reader *reader, const char *name);
/** Describes a tensor. Fails with KVC_INPUT if no tensor has this name or the tensor is not float32. */
enum kvc_status kvc_tensor_read(const struct kvc_tensor_reader *reader, const char *name, struct kvc_tensor *tensor,
                                struct kvc_error *error);
/** Returns the name of the i-th tensor; NULL past the last one. */
const char *kvc_tensor_name(const struct kvc_tensor_reader *reader, size_t i);

#ifdef __cplusplus
}
#endif
#endif

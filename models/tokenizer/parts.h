/* parts.h - what the tokenizer's files share: the object itself, growing buffers, Unicode, splitting. */
#ifndef KVC_MODELS_TOKENIZER_PARTS_H
#define KVC_MODELS_TOKENIZER_PARTS_H

#include "models/tokenizer/tokenizer.h"

/* ---- growing buffers; the functions that add return false where there is no memory ---- */

struct kvc_text {
    char *data;
    size_t bytes, capacity;
};
bool kvc_text_add(struct kvc_text *buffer, const char *data, size_t bytes);
void kvc_text_free(struct kvc_text *buffer);

struct kvc_id_list {
    int32_t *ids;
    size_t count, capacity;
};
bool kvc_id_list_add(struct kvc_id_list *list, int32_t id);

/* Grows an array of `size`-byte elements so that one more fits after `count`. */
bool kvc_grow(void **array, size_t *capacity, size_t count, size_t size);

/* ---- Unicode (unicode.c) ---- */

#define KVC_NOT_UTF8 UINT32_MAX
/* The first character of text (bytes >= 1): its length, its code point; length 1 and KVC_NOT_UTF8 for a byte that
 * begins no well-formed character. */
size_t kvc_utf8_next(const char *text, size_t bytes, uint32_t *code);
size_t kvc_utf8_put(uint32_t code, char out[4]);
bool kvc_is_utf8(const char *text, size_t bytes); /* all of it */
bool kvc_is_space(uint32_t code);                 /* the White_Space property */
bool kvc_is_word(uint32_t code);                  /* letters, marks, decimal digits, connecting punctuation */

/* The printable character that byte-level vocabularies write for a byte, and back (-1: stands for no byte). */
uint32_t kvc_byte_to_char(unsigned char byte);
int kvc_char_to_byte(uint32_t code);

/* ---- patterns (split.c, match.c) ---- */

struct kvc_pattern {      /* a regular expression, or the text `literal` where that is not NULL */
    void *code, *counted; /* pcre2's; counted calls back before each part */
    uint32_t repeats;     /* characters that a part may pass without a step between */
    char *expression;     /* as it was written */
    char *literal;
    size_t literal_bytes;
};
/* Compiles an expression in the dialect of tokenizer.json; where names the file for the error. */
enum kvc_status kvc_pattern_compile(const char *expression, size_t bytes, const char *where,
                                    struct kvc_pattern *pattern, struct kvc_error *error);
enum kvc_status kvc_pattern_literal(const char *text, size_t bytes, struct kvc_pattern *pattern,
                                    struct kvc_error *error);
void kvc_pattern_free(struct kvc_pattern *pattern);

/* A text made fit for pcre2: bytes that are not UTF-8 become U+0001, which keeps every offset and is neither letter,
 * digit nor space, as U+FFFD is. */
struct kvc_subject {
    const char *text;
    size_t bytes;
    char *copy;                         /* NULL: the text was fit as it is */
    void *match_data, *near, *counting; /* pcre2's */
    uint64_t steps, most_steps;         /* that matching may still take, and might at first */
    size_t at, unseen;                  /* where the last step was; what each may have passed unseen */
};
bool kvc_subject_open(struct kvc_subject *subject, const char *text, size_t bytes);
void kvc_subject_close(struct kvc_subject *subject);
/* The next match at or after `from`. *found false: none. Matches may be empty. KVC_INPUT where the subject's steps are
 * used up. The subject must not have moved. */
enum kvc_status kvc_pattern_find(const struct kvc_pattern *pattern, struct kvc_subject *subject, size_t from,
                                 bool *found, size_t *start, size_t *end, struct kvc_error *error);

/* ---- normalizing (unicode.c) ---- */

enum kvc_normalize_kind {
    KVC_NORMALIZE_NFC,
    KVC_NORMALIZE_NFD,
    KVC_NORMALIZE_NFKC,
    KVC_NORMALIZE_NFKD,
    KVC_NORMALIZE_LOWERCASE,
    KVC_NORMALIZE_PREPEND,
    KVC_NORMALIZE_REPLACE,
    KVC_NORMALIZE_STRIP
};
struct kvc_normalize_step {
    enum kvc_normalize_kind kind;
    struct kvc_pattern pattern; /* REPLACE */
    char *text;                 /* REPLACE: with what; PREPEND: what */
    size_t text_bytes;
    bool left, right; /* STRIP */
};
/* Adds the normalized text to out. */
enum kvc_status kvc_normalize(const struct kvc_normalize_step *steps, size_t count, const char *text, size_t bytes,
                              struct kvc_text *out, struct kvc_error *error);

/* The same with marks, a byte for each byte of text that is not 0 where the caller wrote it (marks.c). A character made
 * from several is marked where one of these is. */
enum kvc_status kvc_normalize_marked(const struct kvc_normalize_step *steps, size_t count, const char *text,
                                     const char *marks, size_t bytes, struct kvc_text *out, struct kvc_text *out_marks,
                                     struct kvc_error *error);

/* ---- pre-tokenizing: cutting normalized text into words (split.c) ---- */

enum kvc_behavior { /* what becomes of the matches of a split; names as in tokenizer.json */
                    KVC_SPLIT_REMOVED,
                    KVC_SPLIT_ISOLATED,
                    KVC_SPLIT_MERGED_PREVIOUS,
                    KVC_SPLIT_MERGED_NEXT,
                    KVC_SPLIT_CONTIGUOUS
};
enum kvc_prefix { KVC_PREFIX_NEVER, KVC_PREFIX_FIRST, KVC_PREFIX_ALWAYS };
enum kvc_split_kind {
    KVC_STEP_SPLIT,        /* by pattern */
    KVC_STEP_PREFIX_SPACE, /* every word that does not begin with a space gets one */
    KVC_STEP_BYTES,        /* every byte becomes its printable character */
    KVC_STEP_METASPACE     /* spaces become `mark`, one is put in front as `prefix` says */
};
struct kvc_split_step {
    enum kvc_split_kind kind;
    struct kvc_pattern pattern;
    enum kvc_behavior behavior;
    bool invert;
    enum kvc_prefix prefix;
    char mark[4];
    size_t mark_bytes;
};
struct kvc_span {
    size_t at, bytes;
};
struct kvc_words {
    struct kvc_text text;
    struct kvc_span *spans;
    size_t count, capacity;
};
/* first: the text stands at the very beginning of what is encoded. */
enum kvc_status kvc_split(const struct kvc_split_step *steps, size_t count, const char *text, size_t bytes, bool first,
                          struct kvc_words *words, struct kvc_error *error);
void kvc_words_free(struct kvc_words *words);

/* ---- the vocabulary (vocab.c) ---- */

enum kvc_token_kind { /* numbered as GGUF's token types; 0: there is no such token */
                      KVC_TOKEN_ABSENT,
                      KVC_TOKEN_NORMAL,
                      KVC_TOKEN_UNKNOWN,
                      KVC_TOKEN_CONTROL,
                      KVC_TOKEN_USER,
                      KVC_TOKEN_UNUSED,
                      KVC_TOKEN_BYTE
};
struct kvc_vocab_entry {
    size_t spelling, text; /* where they begin in `store`; spelling: as the vocabulary writes it, text: decoded */
    uint32_t spelling_bytes, text_bytes;
    float score;
    uint8_t kind;
    bool ends_turn;
};
struct kvc_merge {
    int32_t left, right, made; /* left < 0: an empty cell */
    uint32_t priority;
};
struct kvc_added { /* a token found in the text before anything else looks at it */
    size_t at;     /* in `store`: normalized where `normalized` */
    size_t bytes;
    int32_t id;
    bool special, normalized, single_word, strip_left, strip_right;
};
struct kvc_added_list {
    struct kvc_added *tokens; /* sorted by text */
    size_t count, capacity;
    bool begins[256]; /* some token begins with this byte */
};

enum kvc_vocab_model {
    KVC_VOCAB_RANKS /* BPE by merge ranks */,
    KVC_VOCAB_SCORES /* by piece scores */,
    KVC_VOCAB_WORDS
};

struct kvc_decoder {
    bool byte_level;    /* characters back to bytes */
    bool byte_fallback; /* <0x0A> is one byte */
    bool first_plain;   /* the first token loses every `mark` (Metaspace), others make it a space */
    char *replace[2];   /* from, to; NULL: none */
    char *join;         /* between tokens; NULL: nothing */
    size_t strip;       /* spaces taken off the beginning of the whole text, at most */
};

struct kvc_template { /* Jinja text */
    char *name, *text;
};

struct kvc_tokenizer {
    struct kvc_text store;
    struct kvc_vocab_entry *pieces; /* [count], by id */
    size_t count;
    int32_t *lookup; /* [lookup_size], a power of two: spelling -> id, -1 empty */
    size_t lookup_size;
    uint32_t longest;         /* bytes of the longest spelling in the lookup */
    struct kvc_merge *merges; /* [merges_size], a power of two */
    size_t merges_size;
    enum kvc_vocab_model model;
    bool byte_fallback, fuse_unknown, ignore_merges;
    int32_t byte_ids[256]; /* of <0xXX>, -1: none */
    int32_t unknown, bos, eos;
    struct kvc_id_list prefix; /* what the model puts in front of a text */
    struct kvc_added_list added, added_normalized;
    struct kvc_normalize_step *normalizer;
    size_t normalizer_count;
    struct kvc_split_step *splitter;
    size_t splitter_count;
    struct kvc_decoder decoder;
    struct kvc_template *templates; /* sorted by name */
    size_t template_count, template_capacity;
    struct json_t *special_names; /* {"pad_token": "<pad>"}: texts or null; NULL: the files name none */
};

#define KVC_MOST_TOKENS ((uint64_t)1 << 24)

enum kvc_status kvc_vocab_open(size_t count, struct kvc_tokenizer **tokenizer, struct kvc_error *error);
/* Sets a piece's spelling; the caller has checked id < count. */
bool kvc_vocab_set(struct kvc_tokenizer *tokenizer, int32_t id, const char *spelling, size_t bytes,
                   enum kvc_token_kind kind);
/* Makes the lookup large enough for `count` spellings, then adds them one by one; of equal ones the first stays. */
bool kvc_vocab_reserve(struct kvc_tokenizer *tokenizer, size_t count);
void kvc_vocab_insert(struct kvc_tokenizer *tokenizer, int32_t id);
int32_t kvc_vocab_find(const struct kvc_tokenizer *tokenizer, const char *text, size_t bytes); /* -1: none */
/* Any piece, control tokens too, by walking all of them: for loading. */
int32_t kvc_vocab_search(const struct kvc_tokenizer *tokenizer, const char *text, size_t bytes);
bool kvc_merges_reserve(struct kvc_tokenizer *tokenizer, size_t count);
/* `left` and `right` with their spelling; KVC_INPUT where one of the three pieces is unknown. A later equal pair
 * replaces an earlier one. */
enum kvc_status kvc_merges_insert(struct kvc_tokenizer *tokenizer, const char *left, size_t left_bytes,
                                  const char *right, size_t right_bytes, uint32_t priority, const char *where,
                                  struct kvc_error *error);
const struct kvc_merge *kvc_merges_find(const struct kvc_tokenizer *tokenizer, int32_t left, int32_t right);
int kvc_byte_piece(const char *text, size_t bytes); /* the value of <0xHH>; -1: something else */
/* After all pieces and the decoder are there: decoded texts, byte ids. */
enum kvc_status kvc_vocab_finish(struct kvc_tokenizer *tokenizer, struct kvc_error *error);

/* ---- added tokens (added.c) ---- */

/* Adds a token; `text` is normalized here where the token says so. Then sort once. */
enum kvc_status kvc_added_insert(struct kvc_tokenizer *tokenizer, const struct kvc_added *token, const char *text,
                                 size_t bytes, struct kvc_error *error);
enum kvc_status kvc_added_sort(struct kvc_tokenizer *tokenizer, struct kvc_error *error);
/* A token that ends something or begins it: what no text of a caller's may become. */
bool kvc_added_controls(const struct kvc_tokenizer *tokenizer, const struct kvc_added *token);
/* The next token in text at or after `from`: *start..*end is what it takes of the text, spaces it strips included.
 * NULL: none. special: control tokens count too, but none with a byte in it that is marked. marks: NULL: none is. */
const struct kvc_added *kvc_added_find(const struct kvc_tokenizer *tokenizer, const struct kvc_added_list *list,
                                       const char *text, const char *marks, size_t bytes, size_t from, bool special,
                                       size_t *start, size_t *end);

/* ---- one word to ids (bpe.c) ---- */

struct kvc_bpe; /* scratch space */
struct kvc_bpe *kvc_bpe_open(void);
void kvc_bpe_close(struct kvc_bpe *scratch);
enum kvc_status kvc_bpe_word(const struct kvc_tokenizer *tokenizer, struct kvc_bpe *scratch, const char *word,
                             size_t bytes, struct kvc_id_list *out, struct kvc_error *error);

enum kvc_status kvc_no_memory(struct kvc_error *error);

/* ---- chat templates, names of special tokens (templates.c, special_names.c) ---- */

#define KVC_MORE_TEMPLATES "additional_chat_templates" /* a folder of NAME.jinja in a model's folder */
void kvc_templates_clear(struct kvc_tokenizer *tokenizer);
/* "chat_template" of tokenizer_config.json: a text, an object of texts, or a list of {"name", "template"}. */
enum kvc_status kvc_templates_from_json(struct kvc_tokenizer *tokenizer, const struct json_t *value,
                                        struct kvc_error *error);
/* chat_template.jinja and the folder KVC_MORE_TEMPLATES, which overrule tokenizer_config.json. */
enum kvc_status kvc_templates_from_folder(struct kvc_tokenizer *tokenizer, const char *folder, struct kvc_error *error);
/* tokenizer.chat_template and tokenizer.chat_template.NAME. */
enum kvc_status kvc_templates_from_gguf(struct kvc_tokenizer *tokenizer, const struct kvc_gguf *file,
                                        struct kvc_error *error);
const char *kvc_template_named(const struct kvc_tokenizer *tokenizer, const char *name); /* NULL: none */
/* The template of a conversation: "tool_use" where there are tools, else "default", else the only one. NULL: none. */
const char *kvc_template_for(const struct kvc_tokenizer *tokenizer, bool tools);

enum kvc_status kvc_special_names_from_json(struct kvc_tokenizer *tokenizer, const struct json_t *config,
                                            struct kvc_error *error);
enum kvc_status kvc_special_names_from_gguf(struct kvc_tokenizer *tokenizer, const struct kvc_gguf *file,
                                            struct kvc_error *error);
/* From the tokenizer.json that a GGUF file holds whole under tokenizer.huggingface.json (embedded.c). */
enum kvc_status kvc_tokenizer_embedded(const struct kvc_gguf *file, const char *path, uint64_t vocab,
                                       struct kvc_tokenizer **tokenizer, struct kvc_error *error);

/* The built-in splittings of a GGUF file's tokenizer.ggml.pre (named_splits.c). */
#define KVC_SPLIT_PATTERNS 6
struct kvc_named_split {
    const char *names;                        /* separated by spaces */
    const char *patterns[KVC_SPLIT_PATTERNS]; /* one after another; NULL: no more */
    bool compose;                             /* NFC first */
    bool ignore_merges, bos;
};
const struct kvc_named_split *kvc_named_split(const char *name, size_t bytes); /* NULL: unknown */
const struct kvc_named_split *kvc_named_split_at(size_t i);                    /* NULL past the last */
/* The name of a byte-level tokenizer's splitting; NULL: it has none. */
const char *kvc_split_name(const struct kvc_tokenizer *tokenizer, size_t *bytes);
extern const char kvc_gpt2_pattern[];

#endif

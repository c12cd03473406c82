/* parts.h - shared by the tokenizer's files: the tokenizer object, growing buffers, Unicode, splitting. */
#ifndef KVC_MODELS_TOKENIZER_PARTS_H
#define KVC_MODELS_TOKENIZER_PARTS_H

#include "models/tokenizer/tokenizer.h"

/* ---- growing buffers; functions that add return false if out of memory ---- */

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

/* Ensures that an array of `count` elements of `size` bytes has room for one more. */
bool kvc_grow(void **array, size_t *capacity, size_t count, size_t size);

/* ---- Unicode (unicode.c) ---- */

#define KVC_NOT_UTF8 UINT32_MAX
/* Reads the first character of text (bytes >= 1) into *code and returns its length. For a byte that begins no
 * well-formed character, returns 1 and sets KVC_NOT_UTF8. */
size_t kvc_utf8_next(const char *text, size_t bytes, uint32_t *code);
size_t kvc_utf8_put(uint32_t code, char out[4]);
bool kvc_is_utf8(const char *text, size_t bytes); /* true if all of text is UTF-8 */
bool kvc_is_space(uint32_t code);                 /* has the White_Space property */
bool kvc_is_word(uint32_t code);                  /* letter, mark, decimal digit or connecting punctuation */

/* Convert between a byte and the printable character that byte-level vocabularies write for it. kvc_char_to_byte
 * returns -1 if the character stands for no byte. */
uint32_t kvc_byte_to_char(unsigned char byte);
int kvc_char_to_byte(uint32_t code);

/* ---- patterns (split.c, match.c) ---- */

struct kvc_pattern {      /* a regular expression, or the text `literal` if not NULL */
    void *code, *counted; /* compiled by pcre2; counted: calls back before each part */
    uint32_t repeats;     /* maximum number of characters that a part may pass without a callback */
    char *expression;     /* source text */
    char *literal;
    size_t literal_bytes;
};
/* Compiles an expression in the dialect of tokenizer.json. `where` is the name of the file in errors. */
enum kvc_status kvc_pattern_compile(const char *expression, size_t bytes, const char *where,
                                    struct kvc_pattern *pattern, struct kvc_error *error);
enum kvc_status kvc_pattern_literal(const char *text, size_t bytes, struct kvc_pattern *pattern,
                                    struct kvc_error *error);
void kvc_pattern_free(struct kvc_pattern *pattern);

/* A text prepared for pcre2. Bytes that are not UTF-8 become U+0001: offsets stay the same, and U+0001, like U+FFFD, is
 * not a letter, digit or space. */
struct kvc_subject {
    const char *text;
    size_t bytes;
    char *copy;                         /* NULL: the text needed no change */
    void *match_data, *near, *counting; /* objects of pcre2 */
    uint64_t steps, most_steps;         /* remaining steps; limit at the beginning */
    size_t at, unseen;                  /* position of the last step; characters that a step may pass uncounted */
};
bool kvc_subject_open(struct kvc_subject *subject, const char *text, size_t bytes);
void kvc_subject_close(struct kvc_subject *subject);
/* Finds the next match at or after `from`. Sets *found to false if there is none. Matches may be empty. Returns
 * KVC_INPUT if the subject's steps are used up. The subject must not move in memory. */
enum kvc_status kvc_pattern_find(const struct kvc_pattern *pattern, struct kvc_subject *subject, size_t from,
                                 bool *found, size_t *start, size_t *end, struct kvc_error *error);

/* ---- normalization (unicode.c) ---- */

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
    char *text;                 /* REPLACE: replacement; PREPEND: text to prepend */
    size_t text_bytes;
    bool left, right; /* STRIP */
};
/* Appends the normalized text to out. */
enum kvc_status kvc_normalize(const struct kvc_normalize_step *steps, size_t count, const char *text, size_t bytes,
                              struct kvc_text *out, struct kvc_error *error);

/* Also tracks marks: one byte per byte of text, nonzero if the caller wrote that byte (marks.c). A character composed
 * from several is marked if one of them is. */
enum kvc_status kvc_normalize_marked(const struct kvc_normalize_step *steps, size_t count, const char *text,
                                     const char *marks, size_t bytes, struct kvc_text *out, struct kvc_text *out_marks,
                                     struct kvc_error *error);

/* ---- pre-tokenization: splitting normalized text into words (split.c) ---- */

enum kvc_behavior { /* how a split treats its matches; names as in tokenizer.json */
                    KVC_SPLIT_REMOVED,
                    KVC_SPLIT_ISOLATED,
                    KVC_SPLIT_MERGED_PREVIOUS,
                    KVC_SPLIT_MERGED_NEXT,
                    KVC_SPLIT_CONTIGUOUS
};
enum kvc_prefix { KVC_PREFIX_NEVER, KVC_PREFIX_FIRST, KVC_PREFIX_ALWAYS };
enum kvc_split_kind {
    KVC_STEP_SPLIT,        /* splits by a pattern */
    KVC_STEP_PREFIX_SPACE, /* prepends a space to every word that does not begin with one */
    KVC_STEP_BYTES,        /* replaces every byte by its printable character */
    KVC_STEP_METASPACE     /* replaces spaces by `mark` and prepends a mark according to `prefix` */
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
/* Splits text into words. `first` is true if the text is at the beginning of the input. */
enum kvc_status kvc_split(const struct kvc_split_step *steps, size_t count, const char *text, size_t bytes, bool first,
                          struct kvc_words *words, struct kvc_error *error);
void kvc_words_free(struct kvc_words *words);

/* ---- the vocabulary (vocab.c) ---- */

enum kvc_token_kind { /* numbers of GGUF's token types; 0: no such token */
                      KVC_TOKEN_ABSENT,
                      KVC_TOKEN_NORMAL,
                      KVC_TOKEN_UNKNOWN,
                      KVC_TOKEN_CONTROL,
                      KVC_TOKEN_USER,
                      KVC_TOKEN_UNUSED,
                      KVC_TOKEN_BYTE
};
struct kvc_vocab_entry {
    size_t spelling, text; /* offsets in `store`; spelling: as in the vocabulary, text: decoded */
    uint32_t spelling_bytes, text_bytes;
    float score;
    uint8_t kind;
    bool ends_turn;
};
struct kvc_merge {
    int32_t left, right, made; /* left < 0: empty cell */
    uint32_t priority;
};
struct kvc_added { /* a token that is searched for before the text is split */
    size_t at;     /* offset in `store`; the text there is normalized if `normalized` is set */
    size_t bytes;
    int32_t id;
    bool special, normalized, single_word, strip_left, strip_right;
};
struct kvc_added_list {
    struct kvc_added *tokens; /* sorted by text */
    size_t count, capacity;
    bool begins[256]; /* whether some token begins with this byte */
};

enum kvc_vocab_model {
    KVC_VOCAB_RANKS,  /* BPE by merge priority */
    KVC_VOCAB_SCORES, /* BPE by piece score */
    KVC_VOCAB_WORDS
};

struct kvc_decoder {
    bool byte_level;    /* converts characters back to bytes */
    bool byte_fallback; /* decodes <0x0A> to one byte */
    bool first_plain;   /* removes every `mark` from the first token (Metaspace); in other tokens it becomes a space */
    char *replace[2];   /* replaces [0] by [1]; NULL: nothing */
    char *join;         /* inserted between tokens; NULL: nothing */
    size_t strip;       /* maximum number of spaces to remove from the beginning of the text */
};

struct kvc_template { /* a Jinja template */
    char *name, *text;
};

struct kvc_tokenizer {
    struct kvc_text store;
    struct kvc_vocab_entry *pieces; /* [count], indexed by id */
    size_t count;
    int32_t *lookup; /* [lookup_size], a power of two: hash table from spelling to id; -1: empty */
    size_t lookup_size;
    uint32_t longest;         /* bytes of the longest spelling in the table */
    struct kvc_merge *merges; /* [merges_size], a power of two: hash table of merges */
    size_t merges_size;
    enum kvc_vocab_model model;
    bool byte_fallback, fuse_unknown, ignore_merges;
    int32_t byte_ids[256]; /* ids of <0xXX>; -1: none */
    int32_t unknown, bos, eos;
    struct kvc_id_list prefix; /* tokens that the model expects in front of a text */
    struct kvc_added_list added, added_normalized;
    struct kvc_normalize_step *normalizer;
    size_t normalizer_count;
    struct kvc_split_step *splitter;
    size_t splitter_count;
    struct kvc_decoder decoder;
    struct kvc_template *templates; /* sorted by name */
    size_t template_count, template_capacity;
    struct json_t *special_names; /* {"pad_token": "<pad>"}, with text or null; NULL: the files name none */
};

#define KVC_MOST_TOKENS ((uint64_t)1 << 24)

enum kvc_status kvc_vocab_open(size_t count, struct kvc_tokenizer **tokenizer, struct kvc_error *error);
/* Sets a piece's spelling. The caller has checked that id < count. */
bool kvc_vocab_set(struct kvc_tokenizer *tokenizer, int32_t id, const char *spelling, size_t bytes,
                   enum kvc_token_kind kind);
/* kvc_vocab_reserve makes room for `count` spellings; kvc_vocab_insert then adds one. The first of equal spellings is
 * kept. */
bool kvc_vocab_reserve(struct kvc_tokenizer *tokenizer, size_t count);
void kvc_vocab_insert(struct kvc_tokenizer *tokenizer, int32_t id);
int32_t kvc_vocab_find(const struct kvc_tokenizer *tokenizer, const char *text, size_t bytes); /* -1: not found */
/* Finds any piece, including control tokens, by linear search. Used for loading. */
int32_t kvc_vocab_search(const struct kvc_tokenizer *tokenizer, const char *text, size_t bytes);
bool kvc_merges_reserve(struct kvc_tokenizer *tokenizer, size_t count);
/* Adds a merge of `left` and `right`, given by spelling. Returns KVC_INPUT if one of the three pieces is unknown. A
 * later equal pair replaces an earlier one. */
enum kvc_status kvc_merges_insert(struct kvc_tokenizer *tokenizer, const char *left, size_t left_bytes,
                                  const char *right, size_t right_bytes, uint32_t priority, const char *where,
                                  struct kvc_error *error);
const struct kvc_merge *kvc_merges_find(const struct kvc_tokenizer *tokenizer, int32_t left, int32_t right);
int kvc_byte_piece(const char *text, size_t bytes); /* the value of <0xHH>; -1: not such a piece */
/* Computes decoded texts and byte ids. Call it when all pieces and the decoder are complete. */
enum kvc_status kvc_vocab_finish(struct kvc_tokenizer *tokenizer, struct kvc_error *error);

/* ---- added tokens (added.c) ---- */

/* kvc_added_insert adds a token and normalizes `text` if the token requires it. After all tokens, call kvc_added_sort
 * once. */
enum kvc_status kvc_added_insert(struct kvc_tokenizer *tokenizer, const struct kvc_added *token, const char *text,
                                 size_t bytes, struct kvc_error *error);
enum kvc_status kvc_added_sort(struct kvc_tokenizer *tokenizer, struct kvc_error *error);
/* Returns true for a control token or a token that ends a turn. A caller's text must never produce one. */
bool kvc_added_controls(const struct kvc_tokenizer *tokenizer, const struct kvc_added *token);
/* Finds the next token in text at or after `from`. *start..*end is the range that it covers, including the whitespace
 * that it strips. Returns NULL if there is none. If `special` is true, also finds control tokens, but none with a
 * marked byte. If `marks` is NULL, no byte is marked. */
const struct kvc_added *kvc_added_find(const struct kvc_tokenizer *tokenizer, const struct kvc_added_list *list,
                                       const char *text, const char *marks, size_t bytes, size_t from, bool special,
                                       size_t *start, size_t *end);

/* ---- converting a word to ids (bpe.c) ---- */

struct kvc_bpe; /* scratch memory */
struct kvc_bpe *kvc_bpe_open(void);
void kvc_bpe_close(struct kvc_bpe *scratch);
enum kvc_status kvc_bpe_word(const struct kvc_tokenizer *tokenizer, struct kvc_bpe *scratch, const char *word,
                             size_t bytes, struct kvc_id_list *out, struct kvc_error *error);

enum kvc_status kvc_no_memory(struct kvc_error *error);

/* ---- chat templates and names of special tokens (templates.c, special_names.c) ---- */

#define KVC_MORE_TEMPLATES "additional_chat_templates" /* subfolder of a model's folder with files NAME.jinja */
void kvc_templates_clear(struct kvc_tokenizer *tokenizer);
/* Reads "chat_template" of tokenizer_config.json: a text, an object of texts, or a list of {"name", "template"}. */
enum kvc_status kvc_templates_from_json(struct kvc_tokenizer *tokenizer, const struct json_t *value,
                                        struct kvc_error *error);
/* Reads chat_template.jinja and the folder KVC_MORE_TEMPLATES, which override tokenizer_config.json. */
enum kvc_status kvc_templates_from_folder(struct kvc_tokenizer *tokenizer, const char *folder, struct kvc_error *error);
/* Reads tokenizer.chat_template and tokenizer.chat_template.NAME. */
enum kvc_status kvc_templates_from_gguf(struct kvc_tokenizer *tokenizer, const struct kvc_gguf *file,
                                        struct kvc_error *error);
const char *kvc_template_named(const struct kvc_tokenizer *tokenizer, const char *name); /* NULL: no such template */
/* Returns a conversation's template: "tool_use" if there are tools, else "default", else the only one. Returns NULL if
 * there is none. */
const char *kvc_template_for(const struct kvc_tokenizer *tokenizer, bool tools);

enum kvc_status kvc_special_names_from_json(struct kvc_tokenizer *tokenizer, const struct json_t *config,
                                            struct kvc_error *error);
enum kvc_status kvc_special_names_from_gguf(struct kvc_tokenizer *tokenizer, const struct kvc_gguf *file,
                                            struct kvc_error *error);
/* Reads the complete tokenizer.json that a GGUF file stores under tokenizer.huggingface.json (embedded.c). */
enum kvc_status kvc_tokenizer_embedded(const struct kvc_gguf *file, const char *path, uint64_t vocab,
                                       struct kvc_tokenizer **tokenizer, struct kvc_error *error);

/* The built-in pre-tokenizers for a GGUF file's tokenizer.ggml.pre (named_splits.c). */
#define KVC_SPLIT_PATTERNS 6
struct kvc_named_split {
    const char *names;                        /* separated by spaces */
    const char *patterns[KVC_SPLIT_PATTERNS]; /* applied in turn; NULL: end of the list */
    bool compose;                             /* normalize to NFC first */
    bool ignore_merges, bos;
};
const struct kvc_named_split *kvc_named_split(const char *name, size_t bytes); /* NULL: unknown */
const struct kvc_named_split *kvc_named_split_at(size_t i);                    /* NULL: past the last one */
/* Returns the name of a byte-level tokenizer's pre-tokenizer, or NULL if it is not a built-in one. */
const char *kvc_split_name(const struct kvc_tokenizer *tokenizer, size_t *bytes);
extern const char kvc_gpt2_pattern[];

#endif

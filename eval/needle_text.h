/* needle_text.h - texts with hidden key-number facts, made from lists of words. */
#ifndef KVC_EVAL_NEEDLE_TEXT_H
#define KVC_EVAL_NEEDLE_TEXT_H

#include "cli/cli.h"

struct needle_list {
    const char **words; /* the JSON document owns these texts */
    size_t count;
};

struct needle_words {
    json_t *document;
    struct needle_list keys, numbers, nouns, adjectives, verbs, people, places, prepositions;
};

struct needle_fact {
    const char *key;
    const char *number[2];
    double depth; /* 0: the beginning of the text; 1: its end */
};

struct needle_text {
    char *text;
    size_t tokens; /* number of tokens of all sentences, without the question */
    struct needle_fact *facts;
    size_t fact_count;
};

int needle_words_open(const struct cli_command *command, const char *path, struct needle_words *words);
/* Returns the path of words.json next to the model or, if there is none, next to the bundled model. The caller frees
 * it. */
int needle_words_path(const struct cli_command *command, const char *model_path, char **path);
void needle_words_close(struct needle_words *words);

/* Makes a text of about `tokens` tokens with one fact at each depth. Equal seeds give equal texts. */
int needle_text_make(const struct cli_command *command, const struct kvc_model *model, const struct needle_words *words,
                     uint64_t tokens, const double *depths, size_t depth_count, uint64_t seed,
                     struct needle_text *text);
/* Makes a text with `count` filler sentences. *random is the state of the random generator. Returns KVC_INPUT if there
 * are fewer keys than depths. */
enum kvc_status needle_text_sentences(const struct needle_words *words, uint64_t count, const double *depths,
                                      size_t depth_count, uint64_t *random, struct needle_text *text,
                                      struct kvc_error *error);
void needle_text_free(struct needle_text *text);

/* Returns "question : the magic number for KEY", which the caller frees, or NULL if memory runs out. */
char *needle_question(const struct needle_fact *fact);

#endif

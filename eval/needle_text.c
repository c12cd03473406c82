/* needle_text.c - makes the texts of the needle task: filler sentences, with facts between them at given depths. */
#include "eval/needle_text.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DRAWS_MOST 10000u /* largest number of attempts to draw an unused key */

static int read_list(const struct cli_command *command, const char *path, json_t *document, const char *name,
                     size_t least, struct needle_list *list) {
    json_t *array = json_object_get(document, name);
    const size_t count = json_array_size(array);
    if (count < least)
        return cli_error(command, KVC_INPUT, "%s: '%s' has %zu words; at least %zu are needed", path, name, count,
                         least);
    list->words = malloc(count * sizeof *list->words);
    if (!list->words)
        return cli_no_memory(command);
    list->count = count;
    for (size_t i = 0; i < count; i++) {
        list->words[i] = json_string_value(json_array_get(array, i));
        if (!list->words[i] || !*list->words[i])
            return cli_error(command, KVC_INPUT, "%s: entry %zu of '%s' is not a word", path, i, name);
    }
    return KVC_OK;
}

int needle_words_open(const struct cli_command *command, const char *path, struct needle_words *words) {
    json_error_t where;
    char *text;
    size_t bytes;
    memset(words, 0, sizeof *words);
    int status = cli_read_file(command, path, &text, &bytes);
    if (status != KVC_OK)
        return status;
    words->document = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &where);
    free(text);
    if (cli_json_lost()) {
        needle_words_close(words);
        return cli_no_memory(command);
    }
    if (!words->document)
        return cli_error(command, KVC_INPUT, "%s: line %d: %s; the file must have word lists", path, where.line,
                         where.text);
    const struct {
        const char *name;
        struct needle_list *list;
        size_t least;
    } lists[] = {{"keys", &words->keys, 1},     {"numbers", &words->numbers, 2},
                 {"nouns", &words->nouns, 1},   {"adjectives", &words->adjectives, 1},
                 {"verbs", &words->verbs, 1},   {"people", &words->people, 1},
                 {"places", &words->places, 1}, {"prepositions", &words->prepositions, 1}};
    for (size_t i = 0; i < sizeof lists / sizeof *lists && status == KVC_OK; i++)
        status = read_list(command, path, words->document, lists[i].name, lists[i].least, lists[i].list);
    if (status != KVC_OK)
        needle_words_close(words);
    return status;
}

int needle_words_path(const struct cli_command *command, const char *model_path, char **path) {
    const size_t capacity = strlen(model_path) + 16;
    struct stat found;
    char *folder;
    *path = malloc(capacity);
    if (!*path)
        return cli_no_memory(command);
    snprintf(*path, capacity, "%s/words.json", model_path);
    if (stat(*path, &found) == 0)
        return KVC_OK;
    free(*path);
    *path = NULL;
    const int status = cli_data_path(command, "demo", &folder);
    if (status != KVC_OK)
        return status;
    const size_t length = strlen(folder) + 16;
    *path = malloc(length);
    if (*path)
        snprintf(*path, length, "%s/words.json", folder);
    free(folder);
    return *path ? KVC_OK : cli_no_memory(command);
}

void needle_words_close(struct needle_words *words) {
    struct needle_list *lists[] = {&words->keys,  &words->numbers, &words->nouns,  &words->adjectives,
                                   &words->verbs, &words->people,  &words->places, &words->prepositions};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        free(lists[i]->words);
    json_decref(words->document);
    memset(words, 0, sizeof *words);
}

static const char *pick(const struct needle_list *list, uint64_t *random) {
    return list->words[cli_random(random) % list->count];
}

struct sentences {
    char **items;
    size_t count, capacity;
};

/* Takes ownership of the sentence. If it is NULL, memory has run out. */
static bool push(struct sentences *sentences, char *sentence) {
    if (!sentence)
        return false;
    if (sentences->count == sentences->capacity) {
        const size_t capacity = sentences->capacity ? 2 * sentences->capacity : 64;
        char **grown = realloc(sentences->items, capacity * sizeof *grown);
        if (!grown) {
            free(sentence);
            return false;
        }
        sentences->items = grown;
        sentences->capacity = capacity;
    }
    sentences->items[sentences->count++] = sentence;
    return true;
}

/* Joins words [count] with spaces. */
static char *needle_text_join(const char *const *words, size_t count) {
    size_t bytes = 1;
    for (size_t i = 0; i < count; i++)
        bytes += strlen(words[i]) + 1;
    char *text = malloc(bytes), *at = text;
    if (!text)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        if (i)
            *at++ = ' ';
        const size_t length = strlen(words[i]);
        memcpy(at, words[i], length);
        at += length;
    }
    *at = 0;
    return text;
}

static char *filler(const struct needle_words *w, uint64_t *random) {
    const char *words[20];
    size_t n = 0;
    if (cli_random(random) % 2)
        words[n++] = "then";
    words[n++] = "the";
    words[n++] = pick(&w->adjectives, random);
    words[n++] = pick(&w->people, random);
    words[n++] = pick(&w->verbs, random);
    words[n++] = "the";
    words[n++] = pick(&w->adjectives, random);
    words[n++] = pick(&w->nouns, random);
    words[n++] = pick(&w->prepositions, random);
    words[n++] = "the";
    words[n++] = pick(&w->places, random);
    if (cli_random(random) % 2) {
        words[n++] = "and";
        words[n++] = pick(&w->verbs, random);
        words[n++] = "a";
        words[n++] = pick(&w->nouns, random);
    }
    words[n++] = ".";
    return needle_text_join(words, n);
}

static char *fact_sentence(const struct needle_fact *fact) {
    const char *const words[] = {"the", "magic", "number", "for", fact->key, fact->number[0], fact->number[1], "."};
    return needle_text_join(words, sizeof words / sizeof *words);
}

char *needle_question(const struct needle_fact *fact) {
    const char *const words[] = {"question", ":", "the", "magic", "number", "for", fact->key};
    return needle_text_join(words, sizeof words / sizeof *words);
}

static int count_tokens(const struct cli_command *command, const struct kvc_model *model, const char *text,
                        size_t *tokens) {
    struct kvc_error error;
    int32_t *ids;
    if (kvc_tokenize(model, text, strlen(text), 0, &ids, tokens, &error) != KVC_OK)
        return cli_report(command, &error);
    free(ids);
    return KVC_OK;
}

/* Chooses a different key for each depth. Returns KVC_INPUT if too few of the keys differ. */
static enum kvc_status choose_facts(const struct needle_words *words, const double *depths, size_t count,
                                    uint64_t *random, struct needle_text *text) {
    text->facts = calloc(count, sizeof *text->facts);
    if (!text->facts)
        return KVC_RESOURCE;
    text->fact_count = count;
    for (size_t i = 0; i < count; i++) {
        struct needle_fact *fact = &text->facts[i];
        bool taken = true;
        for (uint32_t draws = 0; taken; draws++) {
            if (draws == DRAWS_MOST)
                return KVC_INPUT;
            fact->key = pick(&words->keys, random);
            taken = false;
            for (size_t j = 0; j < i; j++)
                taken = taken || !strcmp(text->facts[j].key, fact->key);
        }
        fact->number[0] = pick(&words->numbers, random);
        fact->number[1] = pick(&words->numbers, random);
        fact->depth = depths[i];
    }
    return KVC_OK;
}

/* Inserts every fact before the filler sentence at its depth. */
static char *interleave(const struct sentences *fillers, const struct needle_text *text) {
    struct sentences all = {NULL, 0, 0};
    bool fine = true;
    for (size_t i = 0; i <= fillers->count && fine; i++) {
        for (size_t f = 0; f < text->fact_count && fine; f++) {
            if ((size_t)(text->facts[f].depth * (double)fillers->count) == i)
                fine = push(&all, fact_sentence(&text->facts[f]));
        }
        if (fine && i < fillers->count)
            fine = push(&all, strdup(fillers->items[i]));
    }
    char *whole = fine ? needle_text_join((const char *const *)all.items, all.count) : NULL;
    for (size_t i = 0; i < all.count; i++)
        free(all.items[i]);
    free(all.items);
    return whole;
}

int needle_text_make(const struct cli_command *command, const struct kvc_model *model, const struct needle_words *words,
                     uint64_t tokens, const double *depths, size_t depth_count, uint64_t seed,
                     struct needle_text *text) {
    uint64_t random = seed;
    struct sentences fillers = {NULL, 0, 0};
    memset(text, 0, sizeof *text);
    int status = KVC_OK;
    if (depth_count > words->keys.count)
        status = cli_error(command, KVC_USAGE, "%zu facts in a text, but the word lists have only %zu keys",
                           depth_count, words->keys.count);
    const enum kvc_status chosen = status == KVC_OK ? choose_facts(words, depths, depth_count, &random, text) : KVC_OK;
    if (chosen == KVC_RESOURCE)
        status = cli_no_memory(command);
    else if (chosen != KVC_OK)
        status = cli_error(command, KVC_INPUT, "'keys': too few different words for %zu facts among %zu words",
                           depth_count, words->keys.count);
    for (size_t i = 0; i < text->fact_count && status == KVC_OK; i++) {
        char *sentence = fact_sentence(&text->facts[i]);
        size_t count = 0;
        status = sentence ? count_tokens(command, model, sentence, &count) : cli_no_memory(command);
        text->tokens += count;
        free(sentence);
    }
    while (status == KVC_OK) {
        char *sentence = filler(words, &random);
        size_t count = 0;
        status = sentence ? count_tokens(command, model, sentence, &count) : cli_no_memory(command);
        if (status == KVC_OK && count == 0)
            status = cli_error(command, KVC_INPUT, "the tokenizer makes no tokens from '%s'", sentence);
        if (status == KVC_OK && text->tokens + count > tokens) {
            free(sentence);
            break;
        }
        text->tokens += count;
        if (status != KVC_OK)
            free(sentence);
        else if (!push(&fillers, sentence))
            status = cli_no_memory(command);
    }
    if (status == KVC_OK) {
        text->text = interleave(&fillers, text);
        if (!text->text)
            status = cli_no_memory(command);
    }
    for (size_t i = 0; i < fillers.count; i++)
        free(fillers.items[i]);
    free(fillers.items);
    if (status != KVC_OK)
        needle_text_free(text);
    return status;
}

enum kvc_status needle_text_sentences(const struct needle_words *words, uint64_t count, const double *depths,
                                      size_t depth_count, uint64_t *random, struct needle_text *text,
                                      struct kvc_error *error) {
    struct sentences fillers = {NULL, 0, 0};
    memset(text, 0, sizeof *text);
    enum kvc_status status = choose_facts(words, depths, depth_count, random, text);
    for (uint64_t i = 0; i < count && status == KVC_OK; i++)
        status = push(&fillers, filler(words, random)) ? KVC_OK : KVC_RESOURCE;
    if (status == KVC_OK) {
        text->text = interleave(&fillers, text);
        status = text->text ? KVC_OK : KVC_RESOURCE;
    }
    for (size_t i = 0; i < fillers.count; i++)
        free(fillers.items[i]);
    free(fillers.items);
    if (status == KVC_OK)
        return KVC_OK;
    needle_text_free(text);
    return status == KVC_RESOURCE
               ? kvc_fail(error, KVC_RESOURCE, "no memory left")
               : kvc_fail(error, KVC_INPUT, "'keys': too few different words for %zu facts among %zu words",
                          depth_count, words->keys.count);
}

void needle_text_free(struct needle_text *text) {
    free(text->text);
    free(text->facts);
    memset(text, 0, sizeof *text);
}

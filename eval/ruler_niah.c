/* ruler_niah.c - RULER's needles in a haystack: magic numbers (or UUIDs) of keys, hidden among lines that say nothing,
 * in essays, or among other needles. */
#include "eval/task.h"

#include <stdlib.h>
#include <string.h>

const char eval_noise[] = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again.";

enum { KEY = 64, DEPTHS = 40, NEEDLES = 4 };

static void random_uuid(uint64_t *random, char text[KEY]) {
    const uint64_t high = cli_random(random), low = cli_random(random);
    snprintf(text, KEY, "%08x-%04x-4%03x-%04x-%012llx", (unsigned)(high >> 32), (unsigned)(high >> 16 & 0xffff),
             (unsigned)(high & 0xfff), (unsigned)(0x8000 | (low >> 48 & 0x3fff)),
             (unsigned long long)(low & 0xffffffffffff));
}

static void random_key(const struct eval_niah *form, uint64_t *random, char text[KEY]) {
    if (form->uuid_keys) {
        random_uuid(random, text);
    } else {
        const uint64_t adjective = eval_below(random, eval_adjectives), noun = eval_below(random, eval_nouns);
        snprintf(text, KEY, "%s-%s", eval_word(eval_nouns + (uint32_t)adjective), eval_word((uint32_t)noun));
    }
}

static void random_value(const struct eval_niah *form, uint64_t *random, char text[KEY]) {
    if (form->uuid_values)
        random_uuid(random, text);
    else
        snprintf(text, KEY, "%u", 1000000 + (unsigned)eval_below(random, 9000000));
}

static const char *kind(const struct eval_niah *form, bool several) {
    return form->uuid_values ? several ? "uuids" : "uuid" : several ? "numbers" : "number";
}

struct needles {
    char keys[NEEDLES][KEY];
    char values[NEEDLES][NEEDLES][KEY]; /* of each key */
    uint32_t key_count, count;          /* of needles: keys times values */
    uint32_t order[NEEDLES * NEEDLES];  /* in which they come in the text */
};

static bool is_key(const struct needles *needles, uint32_t count, const char *key) {
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(needles->keys[i], key) == 0)
            return true;
    }
    return false;
}

static void make_needles(const struct eval_niah *form, uint64_t *random, struct needles *needles) {
    needles->key_count = form->keys > form->queries ? form->keys : form->queries;
    needles->count = needles->key_count * form->values;
    for (uint32_t k = 0; k < needles->key_count; k++) {
        do {
            random_key(form, random, needles->keys[k]);
        } while (is_key(needles, k, needles->keys[k]));
        for (uint32_t v = 0; v < form->values; v++)
            random_value(form, random, needles->values[k][v]);
    }
    for (uint32_t i = 0; i < needles->count; i++)
        needles->order[i] = i;
    eval_shuffle(random, needles->order, needles->count);
}

static void add_needle(const struct eval_niah *form, const char *key, const char *value, struct eval_text *text) {
    eval_add(text, "One of the special magic %s for %s is: %s.", kind(form, true), key, value);
}

static void add_one(const struct eval_niah *form, const struct needles *needles, uint32_t i, struct eval_text *text) {
    const uint32_t needle = needles->order[i], key = needle / form->values;
    add_needle(form, needles->keys[key], needles->values[key][needle % form->values], text);
}

/* Lines of noise or of other needles, and the needles in front of some of them. */
static bool add_lines(const struct eval_niah *form, const struct needles *needles, uint32_t lines, uint64_t *random,
                      struct eval_text *text) {
    uint32_t *places = eval_draw(random, lines, needles->count), next = 0;
    if (!places)
        return false;
    eval_sort(places, needles->count);
    for (uint32_t line = 0; line < lines; line++) {
        char key[KEY], value[KEY];
        if (next < needles->count && places[next] == line) {
            eval_add(text, "%s", line ? "\n" : "");
            add_one(form, needles, next++, text);
            eval_add(text, "\n");
        } else if (line) {
            eval_add(text, "\n");
        }
        if (form->hay == EVAL_NOISE) {
            eval_add(text, "%s", eval_noise);
        } else {
            do {
                random_key(form, random, key);
            } while (is_key(needles, needles->key_count, key));
            random_value(form, random, value);
            add_needle(form, key, value, text);
        }
    }
    free(places);
    return true;
}

/* Whether a sentence ends with this word: a full stop or the like, and quotes or brackets after it. */
static bool ends_sentence(const char *word, size_t bytes) {
    while (bytes > 0 && strchr("\"')]", word[bytes - 1]))
        bytes--;
    return bytes > 0 && strchr(".!?", word[bytes - 1]) != NULL;
}

/* The first words of the essays, again from the start where they are too few; the needles stand between sentences, at
 * as many different depths of 40 evenly spaced ones. */
static bool add_essay(const struct eval_niah *form, const struct needles *needles, const struct eval_essays *essays,
                      uint64_t words, uint64_t *random, struct eval_text *text) {
    uint64_t sentences = 0, sentence = 0;
    uint32_t *depths = eval_draw(random, DEPTHS, needles->count), next = 0;
    if (!depths)
        return false;
    eval_sort(depths, needles->count);
    for (uint64_t w = 0; w < words; w++) {
        const struct eval_span *word = &essays->words[w % essays->count];
        sentences += w + 1 == words || ends_sentence(essays->text + word->start, word->bytes);
    }
    bool begins = true;
    for (uint64_t w = 0; w < words; w++) {
        const struct eval_span *word = &essays->words[w % essays->count];
        for (; begins && next < needles->count && sentences * depths[next] / (DEPTHS - 1) <= sentence; next++) {
            eval_add(text, "%s", w || next ? " " : "");
            add_one(form, needles, next, text);
        }
        eval_add(text, "%s%.*s", w || next ? " " : "", (int)word->bytes, essays->text + word->start);
        begins = ends_sentence(essays->text + word->start, word->bytes);
        sentence += begins;
    }
    for (; next < needles->count; next++) {
        eval_add(text, " ");
        add_one(form, needles, next, text);
    }
    free(depths);
    return true;
}

enum kvc_status eval_make_niah(struct eval_maker *maker, struct eval_sample *sample, struct kvc_error *error) {
    const struct eval_niah *form = maker->task->form;
    const bool several = form->queries * form->values > 1;
    uint64_t *random = &maker->random;
    struct needles needles;
    struct eval_text context = {0}, question = {0}, opening = {0}, asked = {0};
    uint32_t *queries;
    bool fine;

    make_needles(form, random, &needles);
    queries = eval_draw(random, needles.key_count, form->queries);
    eval_add(&context,
             "%s special magic %s %s hidden in the text below. Memorize %s: you will be asked after the text.\n",
             several ? "Some" : "A", kind(form, several), several ? "are" : "is", several ? "them" : "it");
    fine = queries &&
           (form->hay == EVAL_ESSAY ? add_essay(form, &needles, &maker->data->essays, maker->size, random, &context)
                                    : add_lines(form, &needles, (uint32_t)maker->size, random, &context));
    for (uint32_t q = 0; fine && q < form->queries; q++) {
        eval_add(&asked, "%s%s", q == 0 ? "" : q + 1 < form->queries ? ", " : ", and ", needles.keys[queries[q]]);
        for (uint32_t v = 0; v < form->values; v++)
            fine = fine && eval_sample_answer(sample, needles.values[queries[q]][v]);
    }
    free(queries);
    char *keys = eval_text_take(&asked);
    if (fine && keys) {
        eval_add(&question, "\nWhat %s the special magic %s for %s that the text above gives?",
                 several ? "are all" : "is", kind(form, several), keys);
        eval_add(&opening, "The special magic %s for %s that the text above gives %s", kind(form, several), keys,
                 several ? "are" : "is");
    }
    fine = fine && keys;
    free(keys);
    sample->context = eval_text_take(&context);
    sample->question = eval_text_take(&question);
    sample->opening = eval_text_take(&opening);
    if (!fine || !sample->context || !sample->question || !sample->opening)
        return kvc_fail(error, KVC_RESOURCE, "no memory left");
    return KVC_OK;
}

/* ruler_niah.c - RULER's tasks of needles in a haystack: numbers or UUIDs as values of keys, hidden in noise lines, in
 * essays, or among other needles. */
#include "eval/task.h"

#include <stdlib.h>
#include <string.h>

const char eval_noise[] = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again.";

enum { KEY = 64, DEPTHS = 40, NEEDLES = 4 };

static void random_key(const struct eval_niah *form, uint64_t *random, char text[KEY]) {
    if (form->uuid_keys) {
        eval_uuid(random, text);
    } else {
        const uint64_t adjective = eval_below(random, eval_adjectives), noun = eval_below(random, eval_nouns);
        snprintf(text, KEY, "%s-%s", eval_word(eval_nouns + (uint32_t)adjective), eval_word((uint32_t)noun));
    }
}

static void random_value(const struct eval_niah *form, uint64_t *random, char text[KEY]) {
    if (form->uuid_values)
        eval_uuid(random, text);
    else
        snprintf(text, KEY, "%u", 1000000 + (unsigned)eval_below(random, 9000000));
}

static const char *kind(const struct eval_niah *form, bool several) {
    return form->uuid_values ? several ? "uuids" : "uuid" : several ? "numbers" : "number";
}

struct needles {
    char keys[NEEDLES][KEY];
    char values[NEEDLES][NEEDLES][KEY];        /* values of each key */
    uint32_t key_count, count;                 /* number of needles, which is keys times values */
    uint32_t order[NEEDLES * NEEDLES];         /* order of the needles in the text */
    struct eval_span spans[NEEDLES * NEEDLES]; /* bytes of each needle in the text */
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

static void add_one(const struct eval_niah *form, struct needles *needles, uint32_t i, struct eval_text *text) {
    const uint32_t needle = needles->order[i], key = needle / form->values;
    const size_t start = text->count;
    add_needle(form, needles->keys[key], needles->values[key][needle % form->values], text);
    needles->spans[needle] = (struct eval_span){start, text->count - start};
}

/* Writes lines of noise or of other needles, with the needles before some lines. If depth >= 0, it is the position of
 * the only needle; otherwise positions are random. */
static bool add_lines(const struct eval_niah *form, struct needles *needles, uint32_t lines, double depth,
                      uint64_t *random, struct eval_text *text) {
    uint32_t *places = eval_draw(random, lines, needles->count), next = 0;
    if (!places)
        return false;
    eval_sort(places, needles->count);
    if (depth >= 0)
        places[0] = (uint32_t)(depth * lines + 0.5);
    for (uint32_t line = 0; line < lines; line++) {
        char key[KEY], value[KEY];
        if (next < needles->count && places[next] == line) {
            eval_add(text, "%s", line ? "\n" : "");
            add_one(form, needles, next++, text);
            eval_add(text, "\n");
        } else if (line) {
            eval_add(text, "\n");
        }
        if (form->hay != EVAL_NEEDLES) {
            eval_add(text, "%s", eval_noise);
        } else {
            do {
                random_key(form, random, key);
            } while (is_key(needles, needles->key_count, key));
            random_value(form, random, value);
            add_needle(form, key, value, text);
        }
    }
    for (; next < needles->count; next++) {
        eval_add(text, "\n");
        add_one(form, needles, next, text);
    }
    free(places);
    return true;
}

/* Returns true if a sentence ends with this word, that is, with one of . ! ? and perhaps quotes or brackets after
 * it. */
static bool ends_sentence(const char *word, size_t bytes) {
    while (bytes > 0 && strchr("\"')]", word[bytes - 1]))
        bytes--;
    return bytes > 0 && strchr(".!?", word[bytes - 1]) != NULL;
}

/* Returns the index of the sentence before which a needle is placed. */
static uint64_t place_of(uint64_t sentences, uint32_t drawn, double depth) {
    return depth >= 0 ? (uint64_t)(depth * (double)sentences + 0.5) : sentences * drawn / (DEPTHS - 1);
}

/* Writes the first words of the essays, repeated if necessary, with the needles between sentences. If depth >= 0, it is
 * the position of the only needle; otherwise each needle has a different depth, one of 40 evenly spaced depths. */
static bool add_essay(const struct eval_niah *form, struct needles *needles, const struct eval_essays *essays,
                      uint64_t words, double depth, uint64_t *random, struct eval_text *text) {
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
        for (; begins && next < needles->count && place_of(sentences, depths[next], depth) <= sentence; next++) {
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

/* Adds the question that asks for the keys queries [form->queries]. */
static bool ruler_niah_ask(const struct eval_niah *form, const struct needles *needles, const uint32_t *queries,
                           struct eval_sample *sample) {
    const bool several = form->queries * form->values > 1;
    struct eval_asked *asked = eval_sample_ask(sample);
    struct eval_text question = {0}, opening = {0}, wanted = {0};
    bool fine = asked != NULL;
    for (uint32_t q = 0; fine && q < form->queries; q++) {
        eval_add(&wanted, "%s%s", q == 0 ? "" : q + 1 < form->queries ? ", " : ", and ", needles->keys[queries[q]]);
        for (uint32_t v = 0; v < form->values && fine; v++) {
            const struct eval_span *span = &needles->spans[queries[q] * form->values + v];
            fine = eval_asked_answer(asked, needles->values[queries[q]][v]) &&
                   eval_asked_span(asked, span->start, span->bytes);
        }
    }
    char *keys = eval_text_take(&wanted);
    if (fine && keys) {
        eval_add(&question, "\nWhat %s the special magic %s for %s that the text above gives?",
                 several ? "are all" : "is", kind(form, several), keys);
        eval_add(&opening, "The special magic %s for %s that the text above gives %s", kind(form, several), keys,
                 several ? "are" : "is");
    }
    fine = fine && keys;
    free(keys);
    return eval_asked_end(asked, &question, &opening) && fine;
}

enum kvc_status eval_make_niah(struct eval_maker *maker, struct eval_sample *sample, struct kvc_error *error) {
    const struct eval_niah *form = maker->task->form;
    const struct eval_essays *essays = &maker->data->essays;
    const uint32_t questions = eval_task_questions(maker->task);
    const bool several = form->queries * form->values * questions > 1;
    const bool essay = form->hay == EVAL_ESSAY || (form->hay == EVAL_ANY && essays->count > 0);
    const double depth = maker->task->depths ? maker->depth : -1;
    uint64_t *random = &maker->random;
    struct needles needles;
    struct eval_text context = {0};

    make_needles(form, random, &needles);
    uint32_t *queries = eval_draw(random, needles.key_count, form->queries * questions);
    eval_add(&context,
             "%s special magic %s %s hidden in the text below. Memorize %s: you will be asked after the text.\n",
             several ? "Some" : "A", kind(form, several), several ? "are" : "is", several ? "them" : "it");
    bool fine = queries && (essay ? add_essay(form, &needles, essays, maker->size, depth, random, &context)
                                  : add_lines(form, &needles, (uint32_t)maker->size, depth, random, &context));
    for (uint32_t q = 0; q < questions && fine; q++)
        fine = ruler_niah_ask(form, &needles, queries + (size_t)q * form->queries, sample);
    free(queries);
    return eval_sample_end(sample, &context, fine, error);
}

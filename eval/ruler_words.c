/* ruler_words.c - RULER's two counting tasks: the most common words of a numbered list, and the most frequent coded
 * words, whose frequencies follow a zeta distribution. */
#include "eval/task.h"

#include <stdlib.h>
#include <string.h>

/* ---- common words ---- */

enum {
    COMMON = 10,
    LONG_LIST = 4096 /* number of tokens; in shorter texts, words are repeated less often */
};

struct word_list { /* distinct words, of which the first COMMON are the common ones */
    uint32_t *drawn;
    bool pairs; /* true if words are pairs "adjective-noun", because there are too few single words */
};

static bool draw_words(uint32_t count, uint64_t *random, struct word_list *list) {
    list->pairs = count > eval_words;
    list->drawn = eval_draw(random, list->pairs ? eval_adjectives * eval_nouns : eval_words, count);
    return list->drawn != NULL;
}

static void add_word(const struct word_list *list, uint32_t i, struct eval_text *text) {
    const uint32_t word = list->drawn[i];
    if (list->pairs)
        eval_add(text, "%s-%s", eval_word(eval_nouns + word / eval_nouns), eval_word(word % eval_nouns));
    else
        eval_add(text, "%s", eval_word(word));
}

/* Writes a numbered list in which the first COMMON of `count` words occur `often` times and the others `seldom` times.
 */
static bool add_list(const struct word_list *list, uint32_t count, uint32_t often, uint32_t seldom, uint64_t *random,
                     struct eval_text *text) {
    const size_t places = (size_t)COMMON * often + (size_t)(count - COMMON) * seldom;
    uint32_t *words = malloc(places * sizeof *words);
    size_t at = 0;
    if (!words)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < (i < COMMON ? often : seldom); k++)
            words[at++] = i;
    }
    eval_shuffle(random, words, places);
    eval_add(text, "In the numbered list of words below, some words come more often than others. Memorize those that "
                   "come most often.\n");
    for (size_t i = 0; i < places; i++) {
        eval_add(text, "%s%zu. ", i ? " " : "", i + 1);
        add_word(list, words[i], text);
    }
    eval_add(text, "\n");
    free(words);
    return true;
}

static const char common_question[] = "Question: Which 10 words are the most common ones in the list above?";
static const char common_opening[] = "Answer: The 10 words that come most often in the list are:";

enum kvc_status eval_make_cwe(struct eval_maker *maker, struct eval_sample *sample, struct kvc_error *error) {
    const bool big = maker->length >= LONG_LIST;
    struct eval_text context = {0}, question = {0}, opening = {0};
    struct eval_asked *asked = eval_sample_ask(sample);
    struct word_list example = {NULL, false}, list = {NULL, false};
    uint64_t *random = &maker->random;
    const uint32_t size =
        (uint32_t)cli_min(maker->size, eval_adjectives * eval_nouns); /* the number of possible pairs */
    bool fine = draw_words(big ? 40 : 20, random, &example) &&
                add_list(&example, big ? 40 : 20, big ? 10 : 3, big ? 3 : 1, random, &context);

    if (fine) {
        eval_add(&context, "%s %s", common_question, common_opening);
        for (uint32_t i = 0; i < COMMON; i++) {
            eval_add(&context, " %u. ", (unsigned)i + 1);
            add_word(&example, i, &context);
        }
        eval_add(&context, "\n\n");
    }
    fine =
        fine && draw_words(size, random, &list) && add_list(&list, size, big ? 30 : 6, big ? 3 : 1, random, &context);
    for (uint32_t i = 0; i < COMMON && fine; i++) {
        struct eval_text word = {0};
        add_word(&list, i, &word);
        char *answer = eval_text_take(&word);
        fine = answer && asked && eval_asked_answer(asked, answer);
        free(answer);
    }
    free(example.drawn);
    free(list.drawn);
    eval_add(&question, "%s", common_question);
    eval_add(&opening, "%s", common_opening);
    fine = eval_asked_end(asked, &question, &opening) && fine;
    return eval_sample_end(sample, &context, fine, error);
}

/* ---- frequent words ---- */

enum { CODED = 6, ASKED = 3, LEAST_WORDS = 8 };

/* Returns how often the word of rank k (the first is 1) occurs among about n words: n / (zeta(2) k^2), rounded down. */
static uint64_t frequency(uint64_t n, uint64_t rank) {
    const double square = 9.8696044010893586; /* pi^2, because zeta(2) is pi^2 / 6 */
    return (uint64_t)((double)(6 * n) / (square * (double)(rank * rank)));
}

/* Draws words of six lower-case letters. The first word consists of dots instead. */
static char (*make_codes(uint32_t count, uint64_t *random))[CODED + 1] {
    char(*codes)[CODED + 1] = malloc(count * sizeof *codes);
    for (uint32_t i = 0; codes && i < count; i++) {
        bool taken = true;
        while (taken) {
            for (size_t c = 0; c < CODED; c++)
                codes[i][c] = (char)('a' + eval_below(random, 26));
            codes[i][CODED] = '\0';
            taken = false;
            for (uint32_t j = 1; j <= ASKED && j < i; j++) /* only the answers must be distinct */
                taken = taken || strcmp(codes[i], codes[j]) == 0;
        }
    }
    if (codes)
        memcpy(codes[0], "...", 4);
    return codes;
}

enum kvc_status eval_make_fwe(struct eval_maker *maker, struct eval_sample *sample, struct kvc_error *error) {
    const uint32_t count = (uint32_t)cli_max(LEAST_WORDS, maker->length / 50);
    uint64_t *random = &maker->random, size = maker->size;
    struct eval_text context = {0}, question = {0}, opening = {0};
    struct eval_asked *asked = eval_sample_ask(sample);
    size_t places = 0, at = 0;

    while (size > 1 && frequency(size, ASKED + 1) == frequency(size, ASKED + 2))
        size--; /* the third word must be more frequent than the fourth */
    for (uint32_t i = 0; i < count; i++)
        places += frequency(size, i + 1);
    char(*codes)[CODED + 1] = make_codes(count, random);
    uint32_t *words = malloc((places + 1) * sizeof *words);
    bool fine = codes && words;
    for (uint32_t i = 0; i < count && fine; i++) {
        for (uint64_t k = frequency(size, i + 1); k > 0; k--)
            words[at++] = i;
    }
    if (fine) {
        eval_shuffle(random, words, places);
        eval_add(&context, "Watch how often each coded word comes in the text below, and find the three that come most "
                           "often. ");
        for (size_t i = 0; i < places; i++)
            eval_add(&context, "%s%s", i ? " " : "", codes[words[i]]);
    }
    for (size_t i = 1; i <= ASKED && fine; i++)
        fine = asked && eval_asked_answer(asked, codes[i]);
    free(codes);
    free(words);
    eval_add(&question, "\nQuestion: Which three coded words come most often in the text above? Explain nothing, "
                        "and leave out the dots '...'.");
    eval_add(&opening, "Answer: The three words that come most often in the coded text above are:");
    fine = eval_asked_end(asked, &question, &opening) && fine;
    return eval_sample_end(sample, &context, fine, error);
}

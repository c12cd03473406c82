/* shared.c - tasks with several questions about one text, as in SCBench: chains of assignments, and a list of numbers
 * with questions for the largest, the smallest and so on. */
#include "eval/task.h"

#include <stdlib.h>
#include <string.h>

/* ---- interleaved chains of assignments, among noise lines ---- */

enum { CHAIN = 4, NAME = 8, LETTERS = 5, MOST_CHAINS = 8 };

struct chain {
    char names[CHAIN][NAME];
    unsigned value;
    struct eval_span spans[CHAIN]; /* spans of its lines */
};

static bool is_taken(const struct chain *chains, uint32_t chain, size_t name) {
    const char *text = chains[chain].names[name];
    for (uint32_t c = 0; c <= chain; c++) {
        for (size_t n = 0; n < (c < chain ? CHAIN : name); n++) {
            if (strcmp(chains[c].names[n], text) == 0)
                return true;
        }
    }
    return false;
}

static bool has_value(const struct chain *chains, uint32_t count, unsigned value) {
    for (uint32_t c = 0; c < count; c++) {
        if (chains[c].value == value)
            return true;
    }
    return false;
}

/* Draws distinct names and values. */
static void make_chains(uint64_t *random, uint32_t count, struct chain *chains) {
    for (uint32_t c = 0; c < count; c++) {
        unsigned value;
        do {
            value = 10000 + (unsigned)eval_below(random, 90000);
        } while (has_value(chains, c, value));
        chains[c].value = value;
        for (size_t n = 0; n < CHAIN; n++) {
            do {
                for (size_t i = 0; i < LETTERS; i++)
                    chains[c].names[n][i] = (char)('A' + eval_below(random, 26));
                chains[c].names[n][LETTERS] = '\0';
            } while (is_taken(chains, c, n));
        }
    }
}

/* Writes the noise lines and the assignments. The order within each chain is kept; the chains are mixed at random. */
static bool add_chains(struct chain *chains, uint32_t count, uint32_t lines, uint64_t *random, struct eval_text *text) {
    const uint32_t all = CHAIN * count;
    uint32_t *places = eval_draw(random, lines, all), *turns = eval_draw(random, all, all), next = 0;
    size_t said[MOST_CHAINS] = {0};
    if (places && turns)
        eval_sort(places, all);
    eval_add(text,
             "Chains of variable assignments are hidden in the text below. Memorize them and follow them: you will "
             "be asked after the text.\n\n");
    for (uint32_t line = 0; line < lines && places && turns; line++) {
        if (next < all && places[next] == line) {
            struct chain *chain = &chains[turns[next++] % count];
            const size_t n = said[chain - chains]++, start = text->count;
            if (n == 0)
                eval_add(text, "VAR %s = %u", chain->names[0], chain->value);
            else
                eval_add(text, "VAR %s = VAR %s", chain->names[n], chain->names[n - 1]);
            chain->spans[n] = (struct eval_span){start, text->count - start};
            eval_add(text, "\n");
        }
        eval_add(text, "%s\n", eval_noise);
    }
    const bool fine = places && turns;
    free(places);
    free(turns);
    return fine;
}

static bool ask_chain(const struct chain *chain, struct eval_sample *sample) {
    struct eval_text question = {0}, opening = {0};
    struct eval_asked *asked = eval_sample_ask(sample);
    eval_add(&question, "\nWhich variables have the value %u by the assignments in the text above? Name all of them.",
             chain->value);
    eval_add(&opening, "By the assignments in the text above, %d variables have the value %u, namely:", CHAIN,
             chain->value);
    bool fine = eval_asked_end(asked, &question, &opening);
    for (size_t n = 0; n < CHAIN && fine; n++)
        fine = eval_asked_answer(asked, chain->names[n]) &&
               eval_asked_span(asked, chain->spans[n].start, chain->spans[n].bytes);
    return fine;
}

enum kvc_status eval_make_chains(struct eval_maker *maker, struct eval_sample *sample, struct kvc_error *error) {
    const uint32_t count = (uint32_t)cli_min(MOST_CHAINS, eval_task_questions(maker->task));
    struct chain chains[MOST_CHAINS];
    struct eval_text context = {0};
    make_chains(&maker->random, count, chains);
    bool fine = add_chains(chains, count, (uint32_t)maker->size, &maker->random, &context);
    for (uint32_t c = 0; c < count && fine; c++)
        fine = ask_chain(&chains[c], sample);
    return eval_sample_end(sample, &context, fine, error);
}

/* ---- a list of numbers ---- */

enum { LEAST_NUMBER = 10000, NUMBERS = 90000, MOST_NUMBERS = 30001 };

static const char *const kinds[] = {"largest", "smallest", "second largest", "second smallest", "median"};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* Draws `count` different numbers in random order. The caller frees them. */
static uint32_t *draw_numbers(uint64_t *random, uint32_t count) {
    uint32_t *numbers = malloc(count * sizeof *numbers);
    bool *taken = calloc(NUMBERS, sizeof *taken);
    for (uint32_t i = 0; numbers && taken && i < count; i++) {
        uint32_t drawn;
        do {
            drawn = (uint32_t)eval_below(random, NUMBERS);
        } while (taken[drawn]);
        taken[drawn] = true;
        numbers[i] = LEAST_NUMBER + drawn;
    }
    if (!taken) {
        free(numbers);
        numbers = NULL;
    }
    free(taken);
    return numbers;
}

static bool ask_number(uint32_t kind, const uint32_t *numbers, uint32_t *sorted, uint32_t count, size_t start,
                       struct eval_sample *sample) {
    const uint32_t ranks[KINDS] = {count - 1, 0, count - 2, 1, count / 2};
    const uint32_t wanted = sorted[ranks[kind]];
    struct eval_text question = {0}, opening = {0};
    struct eval_asked *asked = eval_sample_ask(sample);
    char answer[16];
    uint32_t place = 0;
    while (numbers[place] != wanted)
        place++;
    snprintf(answer, sizeof answer, "%u", (unsigned)wanted);
    eval_add(&question, "\nWhich number is the %s of the list above?", kinds[kind]);
    eval_add(&opening, "The %s number of the list above is", kinds[kind]);
    /* every number has five digits, followed by a comma and a space */
    return eval_asked_end(asked, &question, &opening) && eval_asked_answer(asked, answer) &&
           eval_asked_span(asked, start + 7 * (size_t)place, 5);
}

enum kvc_status eval_make_numbers(struct eval_maker *maker, struct eval_sample *sample, struct kvc_error *error) {
    const uint32_t count = (uint32_t)cli_min(MOST_NUMBERS, maker->size | 1); /* odd, so that there is a median */
    const uint32_t questions = (uint32_t)cli_min(KINDS, eval_task_questions(maker->task));
    struct eval_text context = {0};
    uint32_t *numbers = draw_numbers(&maker->random, count), *sorted = malloc(count * sizeof *sorted);
    uint32_t *order = eval_draw(&maker->random, KINDS, KINDS);
    bool fine = numbers && sorted && order;
    eval_add(&context, "Read this list of numbers carefully: you will be asked for some of them after it.\n\n");
    const size_t start = context.count;
    if (fine) {
        memcpy(sorted, numbers, count * sizeof *sorted);
        eval_sort(sorted, count);
        for (uint32_t i = 0; i < count; i++)
            eval_add(&context, "%s%u", i ? ", " : "", (unsigned)numbers[i]);
    }
    eval_add(&context, "\n");
    for (uint32_t q = 0; q < questions && fine; q++)
        fine = ask_number(order[q], numbers, sorted, count, start, sample);
    free(numbers);
    free(sorted);
    free(order);
    return eval_sample_end(sample, &context, fine, error);
}

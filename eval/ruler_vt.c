/* ruler_vt.c - RULER's variable tracking: a chain of assignments among noise lines. The first assignment gives a number
 * to a variable; the question asks for all variables that finally have that number. A solved example comes first. */
#include "eval/task.h"

#include <stdlib.h>
#include <string.h>

enum { HOPS = 4, CHAIN = HOPS + 1, NAME = 8, EXAMPLE_LINES = 5, LONGEST_EXAMPLE = 13 };

struct chain {
    char names[CHAIN][NAME];
    unsigned value;
};

/* Draws a number, and distinct names of `letters` capital letters each. */
static void make_chain(uint64_t *random, size_t letters, struct chain *chain) {
    chain->value = 10000 + (unsigned)eval_below(random, 90000);
    for (size_t i = 0; i < CHAIN; i++) {
        bool taken = true;
        while (taken) {
            memset(chain->names[i], 0, NAME);
            for (size_t c = 0; c < letters; c++)
                chain->names[i][c] = (char)('A' + eval_below(random, 26));
            taken = false;
            for (size_t j = 0; j < i; j++)
                taken = taken || strcmp(chain->names[i], chain->names[j]) == 0;
        }
    }
}

/* Writes noise lines, and inserts the chain's assignments in order before some of them. If `asked` is not NULL, it
 * receives the spans of the assignments. */
static bool add_lines(const struct chain *chain, uint32_t lines, uint64_t *random, struct eval_text *text,
                      struct eval_asked *asked) {
    uint32_t *places = eval_draw(random, lines, CHAIN), next = 0;
    bool fine = true;
    if (!places)
        return false;
    eval_sort(places, CHAIN);
    eval_add(text, "A chain of variable assignments is hidden in the text below. Memorize it and follow it.\n\n");
    for (uint32_t line = 0; line < lines; line++) {
        if (next < CHAIN && places[next] == line) {
            const size_t start = text->count;
            if (next == 0)
                eval_add(text, "VAR %s = %u\n", chain->names[0], chain->value);
            else
                eval_add(text, "VAR %s = VAR %s\n", chain->names[next], chain->names[next - 1]);
            fine = fine && (!asked || eval_asked_span(asked, start, text->count - start - 1));
            next++;
        }
        eval_add(text, "%s\n", eval_noise);
    }
    free(places);
    return fine;
}

static void add_question(const struct chain *chain, struct eval_text *text) {
    eval_add(text,
             "Question: Which variables have the value %u by the assignments in the text above? Name all of them.",
             chain->value);
}

static void add_opening(const struct chain *chain, struct eval_text *text) {
    eval_add(text,
             "Answer: By the chain of assignments in the text above, %d variables have the value %u, namely:", CHAIN,
             chain->value);
}

enum kvc_status eval_make_vt(struct eval_maker *maker, struct eval_sample *sample, struct kvc_error *error) {
    struct eval_text context = {0}, question = {0}, opening = {0};
    struct eval_asked *asked = eval_sample_ask(sample);
    struct chain example, chain;
    uint64_t *random = &maker->random;
    /* the example has about 500 tokens, or fewer if the text is short */
    const uint32_t lines = (uint32_t)cli_max(EXAMPLE_LINES, cli_min(LONGEST_EXAMPLE, maker->length / 320));

    make_chain(random, 3, &example);
    bool fine = add_lines(&example, lines, random, &context, NULL);
    add_question(&example, &context);
    eval_add(&context, " ");
    add_opening(&example, &context);
    for (size_t i = 0; i < CHAIN; i++)
        eval_add(&context, " %s", example.names[i]);
    eval_add(&context, "\n\n");
    make_chain(random, 5, &chain);
    fine = fine && add_lines(&chain, (uint32_t)maker->size, random, &context, asked);
    add_question(&chain, &question);
    add_opening(&chain, &opening);
    for (size_t i = 0; i < CHAIN; i++)
        fine = fine && asked && eval_asked_answer(asked, chain.names[i]);
    fine = eval_asked_end(asked, &question, &opening) && fine;
    return eval_sample_end(sample, &context, fine, error);
}

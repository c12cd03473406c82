/* held.c - shows which tokens the cache still holds: for each token, the percentage of lists that hold its entry
 * (return_held), and when the last list lost it (return_lost). The page at / uses both. */
#include <stdlib.h>
#include <string.h>

#include "serve/serve.h"

enum {
    LOOK = 16,              /* return_held: number of answer tokens between two checks of the cache */
    LOOK_ENTRIES = 1 << 20, /* return_lost: a session with at most this many entries is checked after every token */
    CELLS_MOST = 1000000    /* return_lost: reports each layer if tokens times layers times answers are at most this
                             * many */
};

struct look {
    const struct serve_choice *choice;
    size_t tokens;      /* number of tokens that the session has computed */
    uint32_t *counts;   /* [tokens]: number of lists that hold each token */
    uint32_t *own;      /* [tokens]: the same for one layer */
    int32_t *positions; /* [tokens]: scratch memory */
    char *cells;        /* [layers, tokens + 1]: a text for each layer, or NULL */
    uint32_t lists;
};

/* Counts the lists of a layer that hold each token. Returns the number of lists. */
static uint32_t count_layer(const struct look *look, uint32_t layer) {
    const uint32_t heads = kvc_session_heads(look->choice->session, layer);
    memset(look->own, 0, look->tokens * sizeof *look->own);
    for (uint32_t h = 0; h < heads; h++) {
        struct kvc_error error;
        size_t count = 0;
        if (kvc_session_positions(look->choice->session, layer, h, look->positions, look->tokens, &count, &error) !=
            KVC_OK)
            continue;
        for (size_t i = 0; i < cli_min(count, look->tokens); i++)
            if (look->positions[i] >= 0 && (size_t)look->positions[i] < look->tokens)
                look->own[look->positions[i]]++;
    }
    return heads;
}

/* Returns '0' if none of the lists holds a token, '9' if all of them do, and a digit in between otherwise. */
static char cell(uint32_t count, uint32_t lists) {
    if (count == 0 || count >= lists)
        return count == 0 ? '0' : '9';
    const uint32_t digit = (9 * count + lists / 2) / lists;
    return (char)('0' + cli_max(1, cli_min(digit, 8)));
}

static void count_lists(struct look *look) {
    for (uint32_t l = 0; l < look->choice->request->serve->info->layers; l++) {
        const uint32_t lists = count_layer(look, l);
        char *cells = look->cells ? look->cells + l * (look->tokens + 1) : NULL;
        for (size_t i = 0; i < look->tokens; i++) {
            look->counts[i] += look->own[i];
            if (cells)
                cells[i] = cell(look->own[i], lists);
        }
        look->lists += lists;
    }
}

/* Stores the percentages for return_held. */
static void keep_held(struct serve_choice *choice, const struct look *look) {
    unsigned char *held = realloc(choice->held, look->tokens + 1);
    if (!held)
        return;
    choice->held = held;
    for (size_t i = 0; i < look->tokens; i++)
        held[i] = (unsigned char)(look->lists ? (100u * look->counts[i] + look->lists - 1) / look->lists : 0);
    choice->held_count = look->tokens;
    choice->held_news = true;
}

/* Records which tokens no list holds any more. */
static void keep_lost(struct serve_choice *choice, const struct look *look) {
    uint32_t *lost = realloc(choice->lost, (look->tokens + 1) * sizeof *lost);
    if (!lost)
        return;
    choice->lost = lost;
    for (; choice->lost_count < look->tokens; choice->lost_count++)
        lost[choice->lost_count] = 0;
    for (size_t i = 0; i < look->tokens; i++)
        if (look->counts[i] > 0)
            lost[i] = 0;
        else if (lost[i] == 0)
            lost[i] = (uint32_t)look->tokens;
}

static void held_look(struct serve_choice *choice, size_t tokens, bool held, bool last) {
    const struct serve_values *values = &choice->request->values;
    const size_t layers = choice->request->serve->info->layers, answers = choice->request->choice_count;
    struct look look = {.choice = choice, .tokens = tokens};
    look.counts = calloc(tokens + 1, sizeof *look.counts);
    look.own = malloc((tokens + 1) * sizeof *look.own);
    look.positions = malloc((tokens + 1) * sizeof *look.positions);
    if (last && values->return_lost && tokens * answers <= CELLS_MOST / cli_max(layers, 1))
        look.cells = calloc(layers, tokens + 1);
    if (look.counts && look.own && look.positions) {
        count_lists(&look);
        if (held && values->return_held)
            keep_held(choice, &look);
        if (values->return_lost)
            keep_lost(choice, &look);
        if (choice->lost_count == tokens) { /* not true after an allocation has failed */
            choice->cells = look.cells;
            look.cells = NULL;
        }
    }
    free(look.counts);
    free(look.own);
    free(look.positions);
    free(look.cells);
}

void serve_held_look(struct serve_choice *choice, bool last) {
    const struct serve_values *values = &choice->request->values;
    if (!choice->session || !(values->return_held || values->return_lost))
        return;
    const bool held = last || choice->answer.count % LOOK == 1;
    kvc_session_stats(choice->session, &choice->stats);
    if (held || (values->return_lost && choice->stats.entries <= LOOK_ENTRIES))
        held_look(choice, (size_t)choice->stats.tokens, held, last);
}

void serve_held_chunk(struct serve_choice *choice, size_t tokens) {
    if (choice->request->values.return_lost)
        held_look(choice, tokens, false, false);
}

static void put_lost(struct serve_text *text, const struct serve_choice *choice) {
    serve_text_put(text, ",\"lost\":[");
    for (size_t i = 0; i < choice->lost_count; i++)
        serve_text_print(text, "%s%u", i ? "," : "", choice->lost[i]);
    serve_text_put(text, "]");
    for (uint32_t l = 0; choice->cells && l < choice->request->serve->info->layers; l++)
        serve_text_print(text, "%s\"%s\"", l ? "," : ",\"layers\":[", choice->cells + l * (choice->lost_count + 1));
    serve_text_put(text, choice->cells ? "]" : "");
}

void serve_held_put(struct serve_text *text, struct serve_choice *choice) {
    if (choice->finish && choice->lost)
        put_lost(text, choice);
    if (!choice->held_news)
        return;
    serve_text_put(text, ",\"held\":[");
    for (size_t i = 0; i < choice->held_count; i++)
        serve_text_print(text, "%s%u", i ? "," : "", choice->held[i]);
    serve_text_print(text, "],\"bytes\":{\"cache\":%llu,\"state\":%llu,\"full\":%llu}",
                     (unsigned long long)choice->stats.cache_bytes, (unsigned long long)choice->stats.state_bytes,
                     (unsigned long long)choice->stats.full_bytes);
    choice->held_news = false;
}

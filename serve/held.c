/* held.c - shows which tokens the cache still holds: for each token, the percentage of lists that hold its entry. Used
 * for return_held and for the page at /. */
#include <stdlib.h>
#include <string.h>

#include "serve/serve.h"

/* Counts, for each position below `tokens`, the lists that hold it. Returns the number of lists. */
static uint32_t count_lists(const struct serve_choice *choice, uint32_t *counts, int32_t *positions, size_t tokens) {
    uint32_t lists = 0;
    for (uint32_t l = 0; l < choice->request->serve->info->layers; l++)
        for (uint32_t h = 0; h < kvc_session_heads(choice->session, l); h++) {
            struct kvc_error error;
            size_t count = 0;
            if (kvc_session_positions(choice->session, l, h, positions, tokens, &count, &error) != KVC_OK)
                continue;
            for (size_t i = 0; i < cli_min(count, tokens); i++)
                counts[positions[i]] += positions[i] >= 0 && (size_t)positions[i] < tokens;
            lists++;
        }
    return lists;
}

void serve_held_look(struct serve_choice *choice) {
    if (!choice->request->values.return_held || !choice->session)
        return;
    kvc_session_stats(choice->session, &choice->stats);
    const size_t tokens = (size_t)choice->stats.tokens;
    uint32_t *counts = calloc(tokens + 1, sizeof *counts);
    int32_t *positions = malloc((tokens + 1) * sizeof *positions);
    unsigned char *held = realloc(choice->held, tokens + 1);
    if (held)
        choice->held = held;
    if (counts && positions && held) {
        const uint32_t lists = count_lists(choice, counts, positions, tokens);
        for (size_t i = 0; i < tokens; i++)
            held[i] = (unsigned char)(lists ? (100u * counts[i] + lists - 1) / lists : 0);
        choice->held_count = tokens;
        choice->held_news = true;
    }
    free(counts);
    free(positions);
}

void serve_held_put(struct serve_text *text, struct serve_choice *choice) {
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

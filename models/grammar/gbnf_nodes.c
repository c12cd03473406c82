/* gbnf_nodes.c - the arrays of a grammar in llama.cpp's format. */
#include "models/grammar/gbnf.h"
#include "models/tokenizer/parts.h"

#include <stdlib.h>
#include <string.h>

/* PCRE2 compiles a pattern to at most 64 KiB, and a node takes at least three bytes of them. */
#define NODES_MOST 20000u
#define RULES_MOST 1000u
#define RANGES_MOST (1u << 20)

/* Makes room for one more item of an array. */
static bool grow(struct gbnf *gbnf, void **items, size_t *capacity, uint32_t count, uint32_t most, size_t size) {
    gbnf->full = gbnf->full || count >= most;
    return count < most && kvc_grow(items, capacity, count, size);
}

uint32_t kvc_gbnf_node(struct gbnf *gbnf, const struct gbnf_node *node) {
    void *items = gbnf->nodes;
    if (!grow(gbnf, &items, &gbnf->node_capacity, gbnf->node_count, NODES_MOST, sizeof *node))
        return GBNF_NONE;
    gbnf->nodes = items;
    gbnf->nodes[gbnf->node_count] = *node;
    return gbnf->node_count++;
}

bool kvc_gbnf_range(struct gbnf *gbnf, uint32_t low, uint32_t high) {
    void *items = gbnf->ranges;
    if (!grow(gbnf, &items, &gbnf->range_capacity, gbnf->range_count, RANGES_MOST, sizeof *gbnf->ranges))
        return false;
    gbnf->ranges = items;
    gbnf->ranges[gbnf->range_count++] = (struct gbnf_range){low, high};
    return true;
}

uint32_t kvc_gbnf_find(const struct gbnf *gbnf, const char *name, size_t length) {
    for (uint32_t r = 0; r < gbnf->rule_count; r++)
        if (gbnf->rules[r].length == length && memcmp(gbnf->rules[r].name, name, length) == 0)
            return r;
    return GBNF_NONE;
}

uint32_t kvc_gbnf_rule(struct gbnf *gbnf, const char *name, size_t length) {
    const uint32_t known = kvc_gbnf_find(gbnf, name, length);
    void *items = gbnf->rules;
    if (known != GBNF_NONE)
        return known;
    if (!grow(gbnf, &items, &gbnf->rule_capacity, gbnf->rule_count, RULES_MOST, sizeof *gbnf->rules))
        return GBNF_NONE;
    gbnf->rules = items;
    gbnf->rules[gbnf->rule_count] =
        (struct gbnf_rule){.name = name, .length = length, .body = GBNF_NONE, .group = GBNF_NONE};
    return gbnf->rule_count++;
}

void kvc_gbnf_free(struct gbnf *gbnf) {
    free(gbnf->nodes);
    free(gbnf->ranges);
    free(gbnf->rules);
    *gbnf = (struct gbnf){0};
}

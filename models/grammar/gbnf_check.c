/* gbnf_check.c - refuses grammars in llama.cpp's format whose rules are missing, have no text or are left recursive. */
#include "core/base/assert.h"
#include "models/grammar/gbnf.h"

#include <stdio.h>
#include <string.h>

#define SHOWN_MOST 40 /* bytes of a rule's name in a message */
#define SHOWN(rule) (int)((rule)->length < SHOWN_MOST ? (rule)->length : SHOWN_MOST), (rule)->name

/* Returns true if all children have the property, or, with `any`, if one has it. */
static bool children_hold(const struct gbnf *gbnf, const struct gbnf_node *node, enum gbnf_property property,
                          bool any) {
    for (uint32_t child = node->first; child != GBNF_NONE; child = gbnf->nodes[child].next)
        if (gbnf->nodes[child].holds[property] == any)
            return any;
    return !any;
}

/* The text of a sequence begins within the first child that cannot be empty, or within an earlier child. Later children
 * do not matter. */
static bool sequence_is_clear(const struct gbnf *gbnf, const struct gbnf_node *node) {
    for (uint32_t child = node->first; child != GBNF_NONE; child = gbnf->nodes[child].next) {
        if (!gbnf->nodes[child].holds[GBNF_CLEAR])
            return false;
        if (!gbnf->nodes[child].holds[GBNF_EMPTY])
            return true;
    }
    return true;
}

/* Returns true if the node has the property, given the properties of its children and of the rules. */
static bool follows(const struct gbnf *gbnf, const struct gbnf_node *node, enum gbnf_property property) {
    switch (node->kind) {
    case GBNF_LITERAL:
        return property != GBNF_EMPTY || node->count == 0;
    case GBNF_CLASS:
        return property != GBNF_EMPTY;
    case GBNF_CALL:
        return gbnf->nodes[gbnf->rules[node->rule].body].holds[property];
    case GBNF_SEQUENCE:
        return property == GBNF_CLEAR ? sequence_is_clear(gbnf, node) : children_hold(gbnf, node, property, false);
    case GBNF_CHOICE:
        return children_hold(gbnf, node, property, property != GBNF_CLEAR);
    case GBNF_REPEAT:
        return (property != GBNF_CLEAR && node->minimum == 0) || gbnf->nodes[node->first].holds[property];
    }
    return false;
}

/* Finds the nodes that have a property: starts with none and repeats until nothing changes. */
static void find(struct gbnf *gbnf, enum gbnf_property property) {
    bool changed = true;
    while (changed) {
        changed = false;
        for (uint32_t n = 0; n < gbnf->node_count; n++) {
            struct gbnf_node *node = &gbnf->nodes[n];
            if (!node->holds[property] && follows(gbnf, node, property))
                changed = node->holds[property] = true;
        }
    }
}

/* Returns a rule that `rule` calls before any character. Neither of the two rules is GBNF_CLEAR. */
static uint32_t left_call(const struct gbnf *gbnf, uint32_t rule) {
    const struct gbnf_node *node = &gbnf->nodes[gbnf->rules[rule].body];
    while (node->kind != GBNF_CALL) {
        uint32_t child = node->first;
        while (gbnf->nodes[child].holds[GBNF_CLEAR])
            child = gbnf->nodes[child].next;
        node = &gbnf->nodes[child];
        KVC_ASSERT(!node->holds[GBNF_CLEAR]);
    }
    return node->rule;
}

static enum kvc_status refuse_left(const struct gbnf *gbnf, uint32_t rule, struct kvc_error *error) {
    char through[160] = "";
    for (uint32_t i = 0; i < gbnf->rule_count; i++) /* after so many calls, the rule is certainly within the cycle */
        rule = left_call(gbnf, rule);
    for (uint32_t next = left_call(gbnf, rule), last = rule; next != last; next = left_call(gbnf, next))
        rule = next < rule ? next : rule; /* the rule of the cycle that comes first in the text */
    const struct gbnf_rule *first = &gbnf->rules[rule];
    for (uint32_t next = left_call(gbnf, rule); next != rule; next = left_call(gbnf, next)) {
        const size_t used = strlen(through);
        snprintf(through + used, sizeof through - used, "%s%.*s", used ? ", " : ", through ",
                 SHOWN(&gbnf->rules[next]));
    }
    return kvc_fail(error, KVC_USAGE,
                    "grammar, line %u: the rule %.*s is left recursive: it calls itself%s, before any character; "
                    "write it with * or +",
                    first->line, SHOWN(first), through);
}

enum kvc_status kvc_gbnf_check(struct gbnf *gbnf, struct kvc_error *error) {
    const uint32_t root = kvc_gbnf_find(gbnf, "root", 4);
    for (uint32_t r = 0; r < gbnf->rule_count; r++)
        if (gbnf->rules[r].line == 0)
            return kvc_fail(error, KVC_USAGE, "grammar, line %u: the rule %.*s is not defined", gbnf->rules[r].called,
                            SHOWN(&gbnf->rules[r]));
    if (root == GBNF_NONE)
        return kvc_fail(error, KVC_USAGE, "grammar: the rule root, which is the whole answer, is not defined");
    find(gbnf, GBNF_ENDS);
    find(gbnf, GBNF_EMPTY);
    find(gbnf, GBNF_CLEAR);
    for (uint32_t r = 0; r < gbnf->rule_count; r++) {
        const struct gbnf_rule *rule = &gbnf->rules[r];
        if (!gbnf->nodes[rule->body].holds[GBNF_CLEAR])
            return refuse_left(gbnf, r, error);
        if (!gbnf->nodes[rule->body].holds[GBNF_ENDS])
            return kvc_fail(error, KVC_USAGE,
                            "grammar, line %u: the rule %.*s has no end: each of its alternatives calls it again",
                            rule->line, SHOWN(rule));
    }
    return KVC_OK;
}

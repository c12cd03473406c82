/* gbnf.c - translates grammars in llama.cpp's format into patterns.
 *
 * A rule becomes a named group of the pattern's definitions: `root ::= "a" root?` is
 * (?s)(?(DEFINE)(?<g0>a(?&g0)?))(?&g0). A rule that is called once is written in place of its call, because every
 * group takes room in every frame of PCRE2's stack. */
#include "models/grammar/gbnf.h"

#include "core/base/assert.h"

#include <stdlib.h>

/* A rule within more parentheses than this becomes a group. PCRE2 allows 250 parentheses, and a rule has up to 200. */
#define IN_PLACE_DEEPEST 20u

struct writer {
    struct gbnf *gbnf;
    struct kvc_regex *regex;
    uint32_t *groups; /* [node_count] the nodes that are groups of the pattern */
    uint32_t group_count;
    unsigned depth; /* open parentheses within the group */
};

static void write_node(struct writer *writer, uint32_t node);

static uint32_t add_group(struct writer *writer, uint32_t node) {
    KVC_ASSERT(writer->group_count < writer->gbnf->node_count);
    writer->groups[writer->group_count] = node;
    return writer->group_count++;
}

static void open(struct writer *writer) {
    kvc_regex_put(writer->regex, "(?:");
    writer->depth++;
}

static void close(struct writer *writer) {
    kvc_regex_put(writer->regex, ")");
    writer->depth--;
}

static void write_range(struct kvc_regex *regex, const struct gbnf_range *range) {
    kvc_regex_code_point(regex, range->low);
    if (range->high > range->low) {
        kvc_regex_put(regex, "-");
        kvc_regex_code_point(regex, range->high);
    }
}

static void write_class(struct writer *writer, const struct gbnf_node *node) {
    if (node->count == 0) { /* (?s) lets "." match line ends, too */
        kvc_regex_put(writer->regex, ".");
        return;
    }
    kvc_regex_put(writer->regex, node->negated ? "[^" : "[");
    for (uint32_t i = 0; i < node->count; i++)
        write_range(writer->regex, &writer->gbnf->ranges[node->from + i]);
    kvc_regex_put(writer->regex, "]");
}

/* Writes a node in a form that a quantifier may follow. */
static void write_atom(struct writer *writer, uint32_t index) {
    const struct gbnf_node *node = &writer->gbnf->nodes[index];
    const bool is_atom = node->kind == GBNF_CLASS || node->kind == GBNF_CALL || node->kind == GBNF_CHOICE ||
                         (node->kind == GBNF_LITERAL && node->count == 1);
    if (!is_atom)
        open(writer);
    write_node(writer, index);
    if (!is_atom)
        close(writer);
}

static void write_group(struct writer *writer, struct gbnf_rule *rule) {
    if (rule->group == GBNF_NONE)
        rule->group = add_group(writer, rule->body);
    kvc_regex_print(writer->regex, "(?&g%u)", rule->group);
}

static void write_call(struct writer *writer, const struct gbnf_node *node) {
    struct gbnf_rule *rule = &writer->gbnf->rules[node->rule];
    if (rule->group == GBNF_NONE && rule->calls == 1 && writer->depth < IN_PLACE_DEEPEST)
        write_atom(writer, rule->body);
    else
        write_group(writer, rule);
}

/* PCRE2 copies an item that is repeated a number of times. So a long item becomes a group, and PCRE2 copies only its
 * call. */
static void write_repeat(struct writer *writer, const struct gbnf_node *node) {
    const struct gbnf_node *child = &writer->gbnf->nodes[node->first];
    const bool counted = node->minimum > 1 || (node->limit != GBNF_NONE && node->limit > 1);
    const bool is_long = child->kind != GBNF_CLASS && !(child->kind == GBNF_LITERAL && child->count == 1);
    if (counted && child->kind == GBNF_CALL)
        write_group(writer, &writer->gbnf->rules[child->rule]);
    else if (counted && is_long)
        kvc_regex_print(writer->regex, "(?&g%u)", add_group(writer, node->first));
    else
        write_atom(writer, node->first);
    if (counted && node->limit == GBNF_NONE)
        kvc_regex_print(writer->regex, "{%u,}", node->minimum);
    else if (node->limit == GBNF_NONE)
        kvc_regex_put(writer->regex, node->minimum == 0 ? "*" : "+");
    else if (node->limit == 1 && node->minimum == 0)
        kvc_regex_put(writer->regex, "?");
    else
        kvc_regex_print(writer->regex, "{%u,%u}", node->minimum, node->limit);
}

static void write_choice(struct writer *writer, const struct gbnf_node *node) {
    open(writer);
    for (uint32_t child = node->first; child != GBNF_NONE; child = writer->gbnf->nodes[child].next) {
        kvc_regex_put(writer->regex, child == node->first ? "" : "|");
        write_node(writer, child);
    }
    close(writer);
}

static void write_node(struct writer *writer, uint32_t index) {
    const struct gbnf_node *node = &writer->gbnf->nodes[index];
    switch (node->kind) {
    case GBNF_LITERAL:
        for (uint32_t i = 0; i < node->count; i++)
            write_range(writer->regex, &writer->gbnf->ranges[node->from + i]);
        return;
    case GBNF_CLASS:
        write_class(writer, node);
        return;
    case GBNF_CALL:
        write_call(writer, node);
        return;
    case GBNF_SEQUENCE:
        for (uint32_t child = node->first; child != GBNF_NONE; child = writer->gbnf->nodes[child].next)
            write_node(writer, child);
        return;
    case GBNF_CHOICE:
        write_choice(writer, node);
        return;
    case GBNF_REPEAT:
        write_repeat(writer, node);
        return;
    }
}

/* Writes the groups that `root` needs. A group may add further groups. */
static enum kvc_status write_pattern(struct gbnf *gbnf, struct kvc_regex *regex, struct kvc_error *error) {
    struct writer writer = {.gbnf = gbnf, .regex = regex, .groups = malloc(gbnf->node_count * sizeof(uint32_t))};
    struct gbnf_rule *root = &gbnf->rules[kvc_gbnf_find(gbnf, "root", 4)];
    if (!writer.groups)
        return kvc_fail(error, KVC_RESOURCE, "grammar: no memory");
    root->group = add_group(&writer, root->body);
    kvc_regex_put(regex, "(?s)(?(DEFINE)");
    for (uint32_t g = 0; g < writer.group_count; g++) {
        kvc_regex_print(regex, "(?<g%u>", g);
        write_node(&writer, writer.groups[g]);
        kvc_regex_put(regex, ")");
    }
    kvc_regex_put(regex, ")(?&g0)");
    free(writer.groups);
    return KVC_OK;
}

enum kvc_status kvc_gbnf_regex(const char *text, size_t bytes, struct kvc_regex *regex, struct kvc_error *error) {
    struct gbnf gbnf = {0};
    enum kvc_status status = kvc_gbnf_read(text, bytes, &gbnf, error);
    if (status == KVC_OK)
        status = kvc_gbnf_check(&gbnf, error);
    if (status == KVC_OK)
        status = write_pattern(&gbnf, regex, error);
    kvc_gbnf_free(&gbnf);
    return status;
}

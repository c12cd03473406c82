/* gbnf.h - a grammar in llama.cpp's format after it was read: rules, and the nodes of their bodies. */
#ifndef KVC_MODELS_GRAMMAR_GBNF_H
#define KVC_MODELS_GRAMMAR_GBNF_H

#include "models/grammar/grammar.h"

#define GBNF_NONE UINT32_MAX /* no node, no group, no upper limit of a repeat */

enum gbnf_kind {
    GBNF_LITERAL,  /* characters, possibly none */
    GBNF_CLASS,    /* one character that is in one of some ranges, or in none of them */
    GBNF_CALL,     /* a rule */
    GBNF_SEQUENCE, /* all children, in order */
    GBNF_CHOICE,   /* one of the children */
    GBNF_REPEAT    /* the only child, several times */
};
/* What gbnf_check.c finds out about a node. */
enum gbnf_property {
    GBNF_ENDS,  /* the node has a finite text */
    GBNF_EMPTY, /* the empty text is one of its texts */
    GBNF_CLEAR, /* the node has no left recursion */
    GBNF_PROPERTIES
};
struct gbnf_node {
    enum gbnf_kind kind;
    bool negated;            /* a class of all other characters */
    uint32_t first, next;    /* first child, next child of the same parent; children come before their parent */
    uint32_t from, count;    /* literals and classes: part of `ranges` */
    uint32_t rule;           /* calls: the rule */
    uint32_t minimum, limit; /* repeats: how often at least and at most */
    bool holds[GBNF_PROPERTIES];
};
struct gbnf_range {
    uint32_t low, high; /* code points; equal in a literal */
};
struct gbnf_rule {
    const char *name; /* [length], in the grammar's text */
    size_t length;
    uint32_t line, called; /* lines of the definition and of the first call; 0: none */
    uint32_t calls;        /* number of calls */
    uint32_t body;         /* index of the node that is its body */
    uint32_t group;        /* the rule's group in the pattern; GBNF_NONE: none yet */
};
struct gbnf {
    struct gbnf_node *nodes;
    struct gbnf_range *ranges;
    struct gbnf_rule *rules;
    uint32_t node_count, range_count, rule_count;
    size_t node_capacity, range_capacity, rule_capacity;
    bool full; /* the grammar is too large */
};

/* Reads text [bytes], which must outlive the result. Free the result after a failure, too. */
enum kvc_status kvc_gbnf_read(const char *text, size_t bytes, struct gbnf *gbnf, struct kvc_error *error);
void kvc_gbnf_free(struct gbnf *gbnf);
/* Returns the index of a rule, or GBNF_NONE. */
uint32_t kvc_gbnf_find(const struct gbnf *gbnf, const char *name, size_t length);
/* Refuses rules that are called but not defined, that have no text, or that are left recursive. */
enum kvc_status kvc_gbnf_check(struct gbnf *gbnf, struct kvc_error *error);

/* Build the nodes. They return false, or GBNF_NONE, if there is no memory or the grammar is too large. */
uint32_t kvc_gbnf_node(struct gbnf *gbnf, const struct gbnf_node *node);
uint32_t kvc_gbnf_rule(struct gbnf *gbnf, const char *name, size_t length);
bool kvc_gbnf_range(struct gbnf *gbnf, uint32_t low, uint32_t high);

#endif

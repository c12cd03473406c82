/* parse_postfix.c - parses what may follow a primary expression: attributes, items, calls, filters, tests. */
#include "models/jinja/syntax.h"

#include <string.h>

/* Parses the arguments of a call into the node's items. The opening bracket is the current token. */
static void parse_arguments(struct jinja_parser *p, struct jinja_node *node) {
    struct jinja_node **end = node ? &node->items : NULL;
    bool named = false;
    jinja_expect_operator(p, "(");
    while (p->j->status == KVC_OK && !jinja_skip_operator(p, ")")) {
        if (node->count && !jinja_expect_operator(p, ",")) {
            break;
        }
        if (jinja_skip_operator(p, ")")) {
            break;
        }
        if (jinja_at_operator(&p->lexer, "*") || jinja_at_operator(&p->lexer, "**")) {
            jinja_fail(p->j, "arguments with * or ** are not supported");
            break;
        }
        const char *name = NULL;
        if (p->lexer.token.kind == JINJA_TOKEN_NAME && p->lexer.ahead.kind == JINJA_TOKEN_OPERATOR &&
            !strcmp(p->lexer.ahead.data, "=")) {
            name = p->lexer.token.data;
            jinja_advance(&p->lexer);
            jinja_advance(&p->lexer);
            named = true;
        } else if (named) {
            jinja_fail(p->j, "an argument without a name after one with a name");
            break;
        }
        struct jinja_node *item = jinja_node(p, JINJA_ARGUMENT, NULL, NULL);
        if (item) {
            item->name = name;
            item->a = jinja_parse_expression(p);
            jinja_append(node, &end, item);
        }
    }
}

/* Parses a[b], a[b:c:d], or a[b, c]. */
static struct jinja_node *parse_subscript(struct jinja_parser *p, struct jinja_node *a) {
    struct jinja_node *node = jinja_node(p, JINJA_ITEM, a, NULL), **end = node ? &node->items : NULL;
    jinja_expect_operator(p, "[");
    if (p->j->status != KVC_OK) {
        return NULL;
    }
    for (;;) {
        const bool empty = jinja_at_operator(&p->lexer, ":") || jinja_at_operator(&p->lexer, "]");
        jinja_append(node, &end,
                     empty ? jinja_constant(p, (struct jinja_value){.kind = JINJA_UNSET}) : jinja_parse_expression(p));
        if (!jinja_skip_operator(p, ":") || p->j->status != KVC_OK) {
            break;
        }
        node->kind = JINJA_SLICE;
    }
    if (node->kind == JINJA_ITEM) {
        node->b = node->items;
        if (node->b && node->b->kind == JINJA_CONSTANT && node->b->value.kind == JINJA_UNSET) {
            jinja_parse_unexpected(p, "an index");
        }
    } else if (node->count > 3) {
        jinja_fail(p->j, "a slice has more than three parts");
    }
    jinja_expect_operator(p, "]");
    return node;
}

struct jinja_node *jinja_parse_attribute(struct jinja_parser *p, struct jinja_node *a) {
    jinja_advance(&p->lexer);
    if (p->lexer.token.kind == JINJA_TOKEN_INT) {
        struct jinja_node *key = jinja_constant(p, jinja_int(p->lexer.token.whole));
        jinja_advance(&p->lexer);
        return jinja_node(p, JINJA_ITEM, a, key);
    }
    struct jinja_node *node = jinja_node(p, JINJA_ATTRIBUTE, a, NULL);
    const char *name = jinja_expect_a_name(p);
    if (node) {
        node->name = name;
    }
    return node;
}

static struct jinja_node *parse_call(struct jinja_parser *p, struct jinja_node *a) {
    struct jinja_node *node = jinja_node(p, JINJA_CALL, a, NULL);
    parse_arguments(p, node);
    return node;
}

struct jinja_node *jinja_parse_postfix(struct jinja_parser *p, struct jinja_node *node) {
    while (p->j->status == KVC_OK) {
        if (jinja_at_operator(&p->lexer, ".")) {
            node = jinja_parse_attribute(p, node);
        } else if (jinja_at_operator(&p->lexer, "[")) {
            node = parse_subscript(p, node);
        } else if (jinja_at_operator(&p->lexer, "(")) {
            node = parse_call(p, node);
        } else {
            break;
        }
    }
    return node;
}

static void note_unknown(struct jinja_parser *p, const struct jinja_node *node) {
    if (node && !node->builtin && !p->unknown) {
        p->unknown = node->name;
        p->unknown_line = node->line;
    }
}

static struct jinja_node *parse_filter(struct jinja_parser *p, struct jinja_node *a) {
    struct jinja_node *node = jinja_node(p, JINJA_FILTER, a, NULL);
    const char *name = jinja_expect_a_name(p);
    if (node) {
        node->name = name;
        node->builtin = jinja_filter(name, strlen(name));
        note_unknown(p, node);
        if (jinja_at_operator(&p->lexer, "(")) {
            parse_arguments(p, node);
        }
    }
    return node;
}

/* Returns true if an argument of a test may begin here without brackets, as in "x is divisibleby 3". */
static bool begins_argument(const struct jinja_parser *p) {
    const struct jinja_token *token = &p->lexer.token;
    if (token->kind == JINJA_TOKEN_OPERATOR) {
        return token->data[1] == '\0' && strchr("[{", token->data[0]);
    }
    return (token->kind == JINJA_TOKEN_NAME && !jinja_at_name(&p->lexer, "else") && !jinja_at_name(&p->lexer, "or") &&
            !jinja_at_name(&p->lexer, "and")) ||
           (token->kind >= JINJA_TOKEN_STRING && token->kind <= JINJA_TOKEN_FLOAT);
}

static struct jinja_node *parse_test(struct jinja_parser *p, struct jinja_node *a) {
    jinja_advance(&p->lexer);
    const bool negated = jinja_skip_name(p, "not");
    struct jinja_node *node = jinja_node(p, JINJA_TEST, a, NULL);
    const char *name = jinja_expect_a_name(p);
    if (!node || p->j->status != KVC_OK) {
        return node;
    }
    node->name = name;
    node->builtin = jinja_builtin(jinja_tests, name, strlen(name));
    note_unknown(p, node);
    if (jinja_at_operator(&p->lexer, "(")) {
        parse_arguments(p, node);
    } else if (begins_argument(p)) {
        if (jinja_at_name(&p->lexer, "is")) {
            jinja_fail(p->j, "a test of a test: x is a is b");
        }
        struct jinja_node *item = jinja_node(p, JINJA_ARGUMENT, NULL, NULL);
        if (item) {
            item->a = jinja_parse_postfix(p, jinja_parse_primary(p));
            node->items = item;
            node->count = 1;
        }
    }
    return negated ? jinja_node(p, JINJA_NOT, node, NULL) : node;
}

struct jinja_node *jinja_parse_filters(struct jinja_parser *p, struct jinja_node *node, bool first_is_named) {
    if (first_is_named) {
        node = parse_filter(p, node);
    }
    while (p->j->status == KVC_OK) {
        if (jinja_skip_operator(p, "|")) {
            node = parse_filter(p, node);
        } else if (!first_is_named && jinja_at_name(&p->lexer, "is")) {
            node = parse_test(p, node);
        } else if (!first_is_named && jinja_at_operator(&p->lexer, "(")) {
            node = parse_call(p, node);
        } else {
            break;
        }
    }
    return node;
}

/* parse_expression.c - parses expressions into a tree, with Jinja's precedence. */
#include "models/jinja/syntax.h"

#include <string.h>

struct jinja_node *jinja_node(struct jinja_parser *p, enum jinja_node_kind kind, struct jinja_node *a,
                              struct jinja_node *b) {
    struct jinja_node *node = jinja_alloc(p->j, sizeof *node);
    if (node) {
        node->kind = kind;
        node->line = p->j->line;
        node->a = a;
        node->b = b;
    }
    return node;
}

void jinja_parse_unexpected(struct jinja_parser *p, const char *wanted) {
    const struct jinja_token *token = &p->lexer.token;
    static const char *const kinds[] = {
        "the template's end", "text", "{%", "%}", "{{", "}}", "name", "string", "number", "number", "operator"};
    const bool named = token->kind == JINJA_TOKEN_NAME || token->kind == JINJA_TOKEN_OPERATOR;
    jinja_fail(p->j, "%s \"%.*s\" where %s should be", kinds[token->kind],
               named ? (token->bytes > 40 ? 40 : (int)token->bytes) : 0, named ? token->data : "", wanted);
}

bool jinja_skip_operator(struct jinja_parser *p, const char *text) {
    const bool there = jinja_at_operator(&p->lexer, text);
    if (there) {
        jinja_advance(&p->lexer);
    }
    return there;
}

bool jinja_skip_name(struct jinja_parser *p, const char *text) {
    const bool there = jinja_at_name(&p->lexer, text);
    if (there) {
        jinja_advance(&p->lexer);
    }
    return there;
}

bool jinja_expect_operator(struct jinja_parser *p, const char *text) {
    if (!jinja_skip_operator(p, text)) {
        jinja_parse_unexpected(p, text);
    }
    return p->j->status == KVC_OK;
}

const char *jinja_expect_a_name(struct jinja_parser *p) {
    if (p->lexer.token.kind != JINJA_TOKEN_NAME) {
        jinja_parse_unexpected(p, "a name");
        return "";
    }
    const char *name = p->lexer.token.data;
    jinja_advance(&p->lexer);
    return name;
}

/* Appends an item to a node. *end points to the place of the next item. */
void jinja_append(struct jinja_node *node, struct jinja_node ***end, struct jinja_node *item) {
    if (node && item) {
        **end = item;
        *end = &item->next;
        node->count++;
    }
}

/* ---- primaries ---- */

struct jinja_node *jinja_constant(struct jinja_parser *p, struct jinja_value value) {
    struct jinja_node *node = jinja_node(p, JINJA_CONSTANT, NULL, NULL);
    if (node) {
        node->value = value;
    }
    return node;
}

/* Parses adjacent strings as one. */
static struct jinja_node *parse_strings(struct jinja_parser *p) {
    struct jinja_text text = {0};
    const struct jinja_token first = p->lexer.token;
    jinja_advance(&p->lexer);
    if (p->lexer.token.kind != JINJA_TOKEN_STRING) {
        return jinja_constant(p, jinja_literal(p->j, first.data, first.bytes));
    }
    jinja_put_made(p->j, &text, first.data, first.bytes, false);
    while (p->lexer.token.kind == JINJA_TOKEN_STRING && p->j->status == KVC_OK) {
        jinja_put_made(p->j, &text, p->lexer.token.data, p->lexer.token.bytes, false);
        jinja_advance(&p->lexer);
    }
    return jinja_constant(p, jinja_taken(p->j, &text));
}

static struct jinja_node *parse_list(struct jinja_parser *p) {
    struct jinja_node *list = jinja_node(p, JINJA_LIST_OF, NULL, NULL), **end = list ? &list->items : NULL;
    while (p->j->status == KVC_OK && !jinja_skip_operator(p, "]")) {
        if (list->count && !jinja_expect_operator(p, ",")) {
            break;
        }
        if (jinja_skip_operator(p, "]")) {
            break;
        }
        jinja_append(list, &end, jinja_parse_expression(p));
    }
    return list;
}

static struct jinja_node *parse_dict(struct jinja_parser *p) {
    struct jinja_node *dict = jinja_node(p, JINJA_DICT_OF, NULL, NULL), **end = dict ? &dict->items : NULL;
    while (p->j->status == KVC_OK && !jinja_skip_operator(p, "}")) {
        if (dict->count && !jinja_expect_operator(p, ",")) {
            break;
        }
        if (jinja_skip_operator(p, "}")) {
            break;
        }
        jinja_append(dict, &end, jinja_parse_expression(p));
        if (jinja_expect_operator(p, ":")) {
            jinja_append(dict, &end, jinja_parse_expression(p));
        }
    }
    return dict;
}

unsigned jinja_special(const char *name) {
    return !strcmp(name, "caller")    ? JINJA_CALLER
           : !strcmp(name, "kwargs")  ? JINJA_KWARGS
           : !strcmp(name, "varargs") ? JINJA_VARARGS
                                      : 0;
}

void jinja_note_name(struct jinja_parser *p, const char *name, bool set) {
    const unsigned special = jinja_special(name);
    p->j->read |= !set && name == p->j->watched;
    for (struct jinja_specials *macro = p->specials; macro && special && jinja_step(p->j, 1); macro = macro->outer) {
        macro->set |= set ? special : 0;
        macro->read |= special & ~macro->set;
    }
}

static struct jinja_node *parse_name(struct jinja_parser *p) {
    const char *name = p->lexer.token.data;
    jinja_advance(&p->lexer);
    if (!strcmp(name, "true") || !strcmp(name, "True")) {
        return jinja_constant(p, jinja_bool(true));
    }
    if (!strcmp(name, "false") || !strcmp(name, "False")) {
        return jinja_constant(p, jinja_bool(false));
    }
    if (!strcmp(name, "none") || !strcmp(name, "None")) {
        return jinja_constant(p, jinja_none());
    }
    struct jinja_node *node = jinja_node(p, JINJA_NAME, NULL, NULL);
    jinja_note_name(p, name, p->setting);
    if (node) {
        node->name = name;
    }
    return node;
}

struct jinja_node *jinja_parse_primary(struct jinja_parser *p) {
    const struct jinja_token token = p->lexer.token;
    struct jinja_node *node;
    switch (token.kind) {
    case JINJA_TOKEN_NAME:
        return parse_name(p);
    case JINJA_TOKEN_STRING:
        return parse_strings(p);
    case JINJA_TOKEN_INT:
        jinja_advance(&p->lexer);
        return jinja_constant(p, jinja_int(token.whole));
    case JINJA_TOKEN_FLOAT:
        jinja_advance(&p->lexer);
        return jinja_constant(p, jinja_float(token.real));
    default:
        break;
    }
    if (jinja_skip_operator(p, "(")) {
        node = jinja_parse_tuple(p, JINJA_NO_BRACKETS, NULL);
        jinja_expect_operator(p, ")");
        return node;
    }
    if (jinja_skip_operator(p, "[")) {
        return parse_list(p);
    }
    if (jinja_skip_operator(p, "{")) {
        return parse_dict(p);
    }
    jinja_parse_unexpected(p, "an expression");
    return NULL;
}

/* ---- operators, from the tightest to the loosest ---- */

static struct jinja_node *parse_unary(struct jinja_parser *p, bool filters) {
    struct jinja_node *node = NULL;
    if (jinja_enter(p->j)) {
        if (jinja_skip_operator(p, "-")) {
            node = jinja_node(p, JINJA_NEGATIVE, parse_unary(p, false), NULL);
        } else if (jinja_skip_operator(p, "+")) {
            node = jinja_node(p, JINJA_POSITIVE, parse_unary(p, false), NULL);
        } else {
            node = jinja_parse_primary(p);
        }
        node = jinja_parse_postfix(p, node);
        if (filters) {
            node = jinja_parse_filters(p, node, false);
        }
    }
    jinja_leave(p->j);
    return node;
}

enum level { LEVEL_ADD, LEVEL_JOIN, LEVEL_MULTIPLY, LEVEL_POWER, LEVEL_UNARY };

static bool operator_of(const struct jinja_parser *p, enum level level, enum jinja_operator *what) {
    static const struct {
        const char *text;
        enum level level;
        enum jinja_operator what;
    } all[] = {{"+", LEVEL_ADD, JINJA_ADD},
               {"-", LEVEL_ADD, JINJA_SUBTRACT},
               {"*", LEVEL_MULTIPLY, JINJA_MULTIPLY},
               {"/", LEVEL_MULTIPLY, JINJA_DIVIDE},
               {"//", LEVEL_MULTIPLY, JINJA_DIVIDE_WHOLE},
               {"%", LEVEL_MULTIPLY, JINJA_REMAINDER},
               {"**", LEVEL_POWER, JINJA_POWER}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i].level == level && jinja_at_operator(&p->lexer, all[i].text)) {
            *what = all[i].what;
            return true;
        }
    }
    return false;
}

static struct jinja_node *parse_level(struct jinja_parser *p, enum level level);

static struct jinja_node *parse_joined(struct jinja_parser *p) {
    struct jinja_node *first = parse_level(p, LEVEL_MULTIPLY);
    if (!jinja_at_operator(&p->lexer, "~")) {
        return first;
    }
    struct jinja_node *node = jinja_node(p, JINJA_TEXT_LIST, NULL, NULL), **end = node ? &node->items : NULL;
    jinja_append(node, &end, first);
    while (p->j->status == KVC_OK && jinja_skip_operator(p, "~")) {
        jinja_append(node, &end, parse_level(p, LEVEL_MULTIPLY));
    }
    return node;
}

static struct jinja_node *parse_level(struct jinja_parser *p, enum level level) {
    enum jinja_operator what;
    if (level == LEVEL_UNARY) {
        return parse_unary(p, true);
    }
    if (level == LEVEL_JOIN) {
        return parse_joined(p);
    }
    struct jinja_node *node = parse_level(p, level + 1);
    while (p->j->status == KVC_OK && operator_of(p, level, &what)) {
        jinja_advance(&p->lexer);
        node = jinja_node(p, JINJA_BINARY, node, parse_level(p, level + 1));
        if (node) {
            node->what = what;
        }
    }
    return node;
}

static bool comparison_of(struct jinja_parser *p, enum jinja_operator *what) {
    static const struct {
        const char *text;
        enum jinja_operator what;
    } all[] = {{"==", JINJA_EQUAL},      {"!=", JINJA_UNEQUAL}, {"<", JINJA_LESS},
               {"<=", JINJA_LESS_EQUAL}, {">", JINJA_MORE},     {">=", JINJA_MORE_EQUAL}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (jinja_skip_operator(p, all[i].text)) {
            *what = all[i].what;
            return true;
        }
    }
    if (jinja_skip_name(p, "in")) {
        *what = JINJA_IN;
        return true;
    }
    const struct jinja_token *ahead = &p->lexer.ahead;
    if (jinja_at_name(&p->lexer, "not") && ahead->kind == JINJA_TOKEN_NAME && !strcmp(ahead->data, "in")) {
        jinja_advance(&p->lexer);
        jinja_advance(&p->lexer);
        *what = JINJA_NOT_IN;
        return true;
    }
    return false;
}

static struct jinja_node *parse_compare(struct jinja_parser *p) {
    struct jinja_node *first = parse_level(p, LEVEL_ADD), *node = NULL, **end = NULL;
    enum jinja_operator what;
    while (p->j->status == KVC_OK && comparison_of(p, &what)) {
        if (!node) {
            node = jinja_node(p, JINJA_COMPARE, first, NULL);
            end = node ? &node->items : NULL;
        }
        struct jinja_node *operand = jinja_node(p, JINJA_ARGUMENT, parse_level(p, LEVEL_ADD), NULL);
        if (operand) {
            operand->what = what;
        }
        jinja_append(node, &end, operand);
    }
    return node ? node : first;
}

static struct jinja_node *parse_not(struct jinja_parser *p) {
    struct jinja_node *node = NULL;
    if (!jinja_at_name(&p->lexer, "not")) {
        return parse_compare(p);
    }
    jinja_advance(&p->lexer);
    if (jinja_enter(p->j)) {
        node = jinja_node(p, JINJA_NOT, parse_not(p), NULL);
    }
    jinja_leave(p->j);
    return node;
}

static struct jinja_node *parse_and(struct jinja_parser *p) {
    struct jinja_node *node = parse_not(p);
    while (p->j->status == KVC_OK && jinja_skip_name(p, "and")) {
        node = jinja_node(p, JINJA_AND, node, parse_not(p));
    }
    return node;
}

static struct jinja_node *parse_or(struct jinja_parser *p) {
    struct jinja_node *node = parse_and(p);
    while (p->j->status == KVC_OK && jinja_skip_name(p, "or")) {
        node = jinja_node(p, JINJA_OR, node, parse_and(p));
    }
    return node;
}

struct jinja_node *jinja_parse_expression(struct jinja_parser *p) {
    struct jinja_node *node = NULL;
    if (jinja_enter(p->j)) {
        const char *unknown = p->unknown;
        node = parse_or(p);
        while (p->j->status == KVC_OK && jinja_skip_name(p, "if")) {
            node = jinja_node(p, JINJA_INLINE_IF, parse_or(p), node);
            if (jinja_skip_name(p, "else") && node) {
                node->c = jinja_parse_expression(p);
            }
            p->unknown = unknown;
        }
    }
    jinja_leave(p->j);
    return node;
}

static bool at_end(const struct jinja_parser *p, const char *stop) {
    return p->lexer.token.kind == JINJA_TOKEN_CLOSE || p->lexer.token.kind == JINJA_TOKEN_CLOSE_OUT ||
           jinja_at_operator(&p->lexer, ")") || (stop && jinja_at_name(&p->lexer, stop));
}

struct jinja_node *jinja_parse_tuple(struct jinja_parser *p, unsigned how, const char *stop) {
    struct jinja_node *tuple = jinja_node(p, JINJA_TUPLE_OF, NULL, NULL), **end = tuple ? &tuple->items : NULL;
    bool commas = false;
    while (p->j->status == KVC_OK && !at_end(p, stop)) {
        jinja_append(tuple, &end, how & JINJA_NO_CONDITION ? parse_or(p) : jinja_parse_expression(p));
        if (!jinja_skip_operator(p, ",")) {
            break;
        }
        commas = true;
    }
    if (p->j->status != KVC_OK || commas) {
        return tuple;
    }
    if (!tuple->count && !(how & JINJA_NO_BRACKETS)) {
        jinja_parse_unexpected(p, "an expression");
    }
    return tuple->count ? tuple->items : tuple;
}

/* Parses the target of an assignment: a name, an attribute of a namespace, or several of these. */
struct jinja_node *jinja_parse_target(struct jinja_parser *p, const char *stop) {
    struct jinja_node *tuple = jinja_node(p, JINJA_TUPLE_OF, NULL, NULL), **end = tuple ? &tuple->items : NULL;
    bool commas = false;
    while (p->j->status == KVC_OK && !at_end(p, stop) && !jinja_at_operator(&p->lexer, "=")) {
        struct jinja_node *one = NULL;
        if (jinja_enter(p->j) && jinja_skip_operator(p, "(")) {
            one = jinja_parse_target(p, stop);
            jinja_expect_operator(p, ")");
        } else if (p->j->status == KVC_OK) {
            p->setting = true;
            one = jinja_parse_primary(p);
            p->setting = false;
            if (one && one->kind == JINJA_NAME && jinja_at_operator(&p->lexer, ".")) {
                one = jinja_parse_attribute(p, one);
            }
            if (one && one->kind != JINJA_NAME && one->kind != JINJA_ATTRIBUTE) {
                jinja_fail(p->j, "this cannot be assigned to");
            }
        }
        jinja_leave(p->j);
        jinja_append(tuple, &end, one);
        if (!jinja_skip_operator(p, ",")) {
            break;
        }
        commas = true;
    }
    if (p->j->status == KVC_OK && !tuple->count) {
        jinja_parse_unexpected(p, "a name");
    }
    return p->j->status == KVC_OK && !commas ? tuple->items : tuple;
}

/* parse.c - parses statements into a tree. */
#include "models/jinja/syntax.h"

#include <string.h>

static struct jinja_node *parse_body(struct jinja_parser *p, const char *const *ends);

static bool expect_close(struct jinja_parser *p) {
    if (p->lexer.token.kind != JINJA_TOKEN_CLOSE) {
        jinja_parse_unexpected(p, "%}");
        return false;
    }
    jinja_advance(&p->lexer);
    return p->j->status == KVC_OK;
}

/* Finishes the current tag, then parses its body up to a tag with one of the names in `ends`. */
static struct jinja_node *body_to(struct jinja_parser *p, const char *const *ends) {
    if (!expect_close(p)) {
        return NULL;
    }
    return parse_body(p, ends);
}

/* Parses a body up to a single kind of end tag and skips its name. */
static struct jinja_node *body(struct jinja_parser *p, const char *end) {
    const char *const ends[] = {end, NULL};
    struct jinja_node *first = body_to(p, ends);
    jinja_skip_name(p, end);
    return first;
}

/* Begins the body of a loop, macro or block. In it, an unknown filter is an error at once, even inside an {% if %}. */
static const char *enter_block(struct jinja_parser *p) {
    const char *unknown = p->unknown;
    p->unknown = NULL;
    return unknown;
}

static void leave_block(struct jinja_parser *p, const char *unknown) {
    if (p->unknown && !p->unknown_at_once) {
        p->unknown_at_once = p->unknown;
        p->unknown_at_once_line = p->unknown_line;
    }
    p->unknown = unknown;
}

static struct jinja_node *parse_if(struct jinja_parser *p) {
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    const char *unknown = p->unknown;
    struct jinja_node *first = jinja_node(p, JINJA_IF, NULL, NULL), *node = first;
    while (p->j->status == KVC_OK) {
        node->a = jinja_parse_tuple(p, JINJA_NO_CONDITION, NULL);
        node->body = body_to(p, ends);
        if (jinja_skip_name(p, "elif")) {
            node->chained = true;
            node = node->other = jinja_node(p, JINJA_IF, NULL, NULL);
            continue;
        }
        if (jinja_skip_name(p, "else")) {
            node->other = body(p, "endif");
        } else {
            jinja_skip_name(p, "endif");
        }
        break;
    }
    p->unknown = unknown;
    return first;
}

static struct jinja_node *parse_for(struct jinja_parser *p) {
    static const char *const ends[] = {"else", "endfor", NULL};
    struct jinja_node *node = jinja_node(p, JINJA_FOR, jinja_parse_target(p, "in"), NULL);
    if (p->j->status == KVC_OK && !jinja_skip_name(p, "in")) {
        jinja_parse_unexpected(p, "in");
    }
    if (p->j->status != KVC_OK) {
        return node;
    }
    node->b = jinja_parse_tuple(p, JINJA_NO_CONDITION, "recursive");
    const char *unknown = enter_block(p);
    if (jinja_skip_name(p, "if")) {
        node->c = jinja_parse_expression(p);
    }
    if (jinja_at_name(&p->lexer, "recursive")) {
        jinja_fail(p->j, "recursive loops are not supported");
    }
    p->loops++;
    node->body = body_to(p, ends);
    p->loops--;
    if (jinja_skip_name(p, "else")) {
        node->other = body(p, "endfor");
    } else {
        jinja_skip_name(p, "endfor");
    }
    leave_block(p, unknown);
    return node;
}

static struct jinja_node *parse_set(struct jinja_parser *p) {
    struct jinja_node *node = jinja_node(p, JINJA_SET, jinja_parse_target(p, NULL), NULL);
    if (p->j->status != KVC_OK) {
        return node;
    }
    if (jinja_skip_operator(p, "=")) {
        node->b = jinja_parse_tuple(p, 0, NULL);
        return node;
    }
    const char *unknown = enter_block(p);
    if (jinja_skip_operator(p, "|")) {
        node->b = jinja_parse_filters(p, NULL, true);
    }
    node->kind = JINJA_SET_BLOCK;
    node->body = body(p, "endset");
    leave_block(p, unknown);
    return node;
}

/* Parses a macro's parameters and their defaults, from the opening bracket on. */
static void parse_signature(struct jinja_parser *p, struct jinja_node *node) {
    struct jinja_node **end = node ? &node->items : NULL;
    jinja_expect_operator(p, "(");
    while (p->j->status == KVC_OK && !jinja_skip_operator(p, ")")) {
        if (node->count && !jinja_expect_operator(p, ",")) {
            break;
        }
        struct jinja_node *item = jinja_node(p, JINJA_NAME, NULL, NULL);
        const char *name = jinja_expect_a_name(p);
        if (!item || p->j->status != KVC_OK) {
            break;
        }
        item->name = name;
        jinja_note_name(p, name, true);
        if (jinja_skip_operator(p, "=")) {
            item->b = jinja_parse_expression(p);
        }
        *end = item;
        end = &item->next;
        node->count++;
    }
}

/* Parses the body of a macro or call block. Records which of caller, kwargs and varargs it reads. */
static void parse_macro_body(struct jinja_parser *p, struct jinja_node *node, const char *end) {
    struct jinja_specials specials = {.outer = p->specials};
    const unsigned loops = p->loops;
    p->loops = 0;
    p->specials = &specials;
    node->body = body(p, end);
    p->specials = specials.outer;
    p->loops = loops;
    node->specials = specials.read;
    for (const struct jinja_node *item = node->items; item; item = item->next) {
        const unsigned special = jinja_special(item->name);
        if (special == JINJA_CALLER && (specials.read & JINJA_CALLER) && !item->b) {
            jinja_fail(p->j, "the argument \"caller\" of a macro needs a default");
        }
        node->specials &= ~special;
    }
}

static struct jinja_node *parse_macro(struct jinja_parser *p) {
    struct jinja_node *node = jinja_node(p, JINJA_MACRO_OF, NULL, NULL);
    const char *name = jinja_expect_a_name(p), *unknown = enter_block(p);
    if (node) {
        node->name = name;
        parse_signature(p, node);
        parse_macro_body(p, node, "endmacro");
    }
    leave_block(p, unknown);
    return node;
}

static struct jinja_node *parse_call_block(struct jinja_parser *p) {
    struct jinja_node *node = jinja_node(p, JINJA_CALL_BLOCK, NULL, NULL);
    if (!node) {
        return NULL;
    }
    node->name = "caller";
    if (jinja_at_operator(&p->lexer, "(")) {
        parse_signature(p, node);
    }
    node->a = jinja_parse_expression(p);
    if (p->j->status == KVC_OK && node->a->kind != JINJA_CALL) {
        jinja_fail(p->j, "{%% call %%} without a call");
    }
    const char *unknown = enter_block(p);
    parse_macro_body(p, node, "endcall");
    leave_block(p, unknown);
    return node;
}

static struct jinja_node *parse_filter_block(struct jinja_parser *p) {
    struct jinja_node *node = jinja_node(p, JINJA_FILTER_BLOCK, NULL, NULL);
    const char *unknown = enter_block(p);
    if (node) {
        node->a = jinja_parse_filters(p, NULL, true);
        node->body = body(p, "endfilter");
    }
    leave_block(p, unknown);
    return node;
}

static struct jinja_node *parse_scope(struct jinja_parser *p, const char *end) {
    struct jinja_node *node = jinja_node(p, JINJA_SCOPE, NULL, NULL), **last = node ? &node->items : NULL;
    while (p->j->status == KVC_OK && p->lexer.token.kind != JINJA_TOKEN_CLOSE) {
        if (node->count && !jinja_expect_operator(p, ",")) {
            break;
        }
        struct jinja_node *item = jinja_node(p, JINJA_SET, NULL, NULL);
        if (!item) {
            break;
        }
        const char *name = jinja_expect_a_name(p);
        item->a = jinja_node(p, JINJA_NAME, NULL, NULL);
        if (item->a) {
            item->a->name = name;
            jinja_note_name(p, name, true);
        }
        jinja_expect_operator(p, "=");
        item->b = jinja_parse_expression(p);
        *last = item;
        last = &item->next;
        node->count++;
    }
    const char *unknown = enter_block(p);
    const unsigned loops = p->loops;
    if (node) {
        p->loops = strcmp(end, "endgeneration") ? loops : 0;
        node->body = body(p, end);
        p->loops = loops;
    }
    leave_block(p, unknown);
    return node;
}

static struct jinja_node *parse_jump(struct jinja_parser *p, enum jinja_node_kind kind) {
    if (!p->loops) {
        jinja_fail(p->j, "break or continue outside of a loop");
    }
    return jinja_node(p, kind, NULL, NULL);
}

static struct jinja_node *parse_statement(struct jinja_parser *p) {
    const char *name = jinja_expect_a_name(p);
    struct jinja_node *node = NULL;
    if (!jinja_enter(p->j)) {
        node = NULL;
    } else if (!strcmp(name, "if")) {
        node = parse_if(p);
    } else if (!strcmp(name, "for")) {
        node = parse_for(p);
    } else if (!strcmp(name, "set")) {
        node = parse_set(p);
    } else if (!strcmp(name, "macro")) {
        node = parse_macro(p);
    } else if (!strcmp(name, "call")) {
        node = parse_call_block(p);
    } else if (!strcmp(name, "filter")) {
        node = parse_filter_block(p);
    } else if (!strcmp(name, "with")) {
        node = parse_scope(p, "endwith");
    } else if (!strcmp(name, "generation")) {
        node = parse_scope(p, "endgeneration");
    } else if (!strcmp(name, "break")) {
        node = parse_jump(p, JINJA_BREAK);
    } else if (!strcmp(name, "continue")) {
        node = parse_jump(p, JINJA_CONTINUE);
    } else {
        jinja_fail(p->j, "there is no tag \"%.40s\" here", name);
    }
    jinja_leave(p->j);
    expect_close(p);
    return node;
}

/* {{ ... }} */
static struct jinja_node *parse_output(struct jinja_parser *p) {
    struct jinja_node *node = jinja_node(p, JINJA_PRINT, NULL, NULL);
    jinja_advance(&p->lexer);
    struct jinja_node *shown = jinja_parse_tuple(p, 0, NULL);
    if (p->lexer.token.kind != JINJA_TOKEN_CLOSE_OUT) {
        jinja_parse_unexpected(p, "}}");
        return NULL;
    }
    jinja_advance(&p->lexer);
    if (node) {
        node->a = shown;
    }
    return node;
}

static bool at_one_of(const struct jinja_parser *p, const char *const *names) {
    for (; names && *names; names++) {
        if (jinja_at_name(&p->lexer, *names)) {
            return true;
        }
    }
    return false;
}

/* Parses statements up to a tag with one of the names in `ends`; that name is then the current token. If `ends` is
 * NULL, parses up to the end. */
static struct jinja_node *parse_body(struct jinja_parser *p, const char *const *ends) {
    struct jinja_node *first = NULL, **last = &first;
    while (p->j->status == KVC_OK) {
        struct jinja_node *node = NULL;
        if (p->lexer.token.kind == JINJA_TOKEN_END) {
            if (ends) {
                jinja_fail(p->j, "the template ends where {%% %s %%} should be", ends[ends[1] ? ends[2] ? 2 : 1 : 0]);
            }
            break;
        }
        if (p->lexer.token.kind == JINJA_TOKEN_DATA) {
            node = jinja_node(p, JINJA_DATA, NULL, NULL);
            if (node) {
                node->value = jinja_literal(p->j, p->lexer.token.data, p->lexer.token.bytes);
            }
            jinja_advance(&p->lexer);
        } else if (p->lexer.token.kind == JINJA_TOKEN_OPEN_OUT) {
            node = parse_output(p);
        } else {
            jinja_advance(&p->lexer);
            if (at_one_of(p, ends)) {
                break;
            }
            node = parse_statement(p);
        }
        if (node) {
            *last = node;
            last = &node->next;
        }
    }
    return first;
}

struct jinja_node *jinja_parse(struct jinja *j, const char *source, size_t bytes) {
    struct jinja_parser parser = {.j = j};
    if (!jinja_lexer_open(j, source, bytes, &parser.lexer)) {
        return NULL;
    }
    struct jinja_node *first = parse_body(&parser, NULL);
    leave_block(&parser, NULL);
    if (j->status == KVC_OK && parser.unknown_at_once) {
        j->line = parser.unknown_at_once_line;
        jinja_fail(j, "there is no filter or test \"%.40s\" here", parser.unknown_at_once);
    }
    return first;
}

/* syntax.h - the tokens of a template, and the tree into which it is parsed. */
#ifndef KVC_MODELS_JINJA_SYNTAX_H
#define KVC_MODELS_JINJA_SYNTAX_H

#include "models/jinja/parts.h"

enum jinja_token_kind {
    JINJA_TOKEN_END,
    JINJA_TOKEN_DATA,      /* text between tags */
    JINJA_TOKEN_OPEN,      /* {% */
    JINJA_TOKEN_CLOSE,     /* %} */
    JINJA_TOKEN_OPEN_OUT,  /* {{ */
    JINJA_TOKEN_CLOSE_OUT, /* }} */
    JINJA_TOKEN_NAME,
    JINJA_TOKEN_STRING,
    JINJA_TOKEN_INT,
    JINJA_TOKEN_FLOAT,
    JINJA_TOKEN_OPERATOR
};

struct jinja_token {
    enum jinja_token_kind kind;
    int line;
    const char *data; /* DATA, STRING (without escapes) or OPERATOR; a NAME is interned */
    size_t bytes;
    union {
        int64_t whole;
        double real;
    };
};

struct jinja_lexer {
    struct jinja *j;
    const char *text; /* the source with every line end as \n, and without the last line end */
    size_t bytes, at;
    int line;
    bool in_tag, in_out, opening, at_line_start, raw;
    char open[200]; /* open brackets in the tag */
    size_t open_count;
    struct jinja_token token; /* current token */
    struct jinja_token ahead; /* next token */
};

bool jinja_lexer_open(struct jinja *j, const char *source, size_t bytes, struct jinja_lexer *lexer);
void jinja_advance(struct jinja_lexer *lexer);
bool jinja_at_operator(const struct jinja_lexer *lexer, const char *text);
bool jinja_at_name(const struct jinja_lexer *lexer, const char *text);

enum jinja_node_kind {
    /* Expressions. Each comment writes the node in the template's syntax, with names of its members (struct
     * jinja_node). */
    JINJA_CONSTANT,  /* value */
    JINJA_NAME,      /* name */
    JINJA_TEXT_LIST, /* items ~ items */
    JINJA_LIST_OF,   /* [items] */
    JINJA_TUPLE_OF,
    JINJA_DICT_OF,   /* items: key, value, key, value */
    JINJA_ATTRIBUTE, /* a.name */
    JINJA_ITEM,      /* a[b] */
    JINJA_SLICE,     /* a[items[0]:items[1]:items[2]]; an omitted part is a CONSTANT with JINJA_UNSET */
    JINJA_CALL,      /* a(items) */
    JINJA_FILTER,    /* a | builtin(items); if a is NULL, the filter is applied to the text of a block */
    JINJA_TEST,      /* a is builtin(items) */
    JINJA_NOT,
    JINJA_NEGATIVE,
    JINJA_POSITIVE,
    JINJA_AND,
    JINJA_OR,
    JINJA_BINARY,    /* a what b */
    JINJA_COMPARE,   /* a, then items; each item has an operator (what) and an operand (a) */
    JINJA_ARGUMENT,  /* an item of a call or comparison: a, with name or what */
    JINJA_INLINE_IF, /* a if b else c */
    /* Statements. */
    JINJA_DATA,         /* value */
    JINJA_PRINT,        /* a */
    JINJA_IF,           /* if a: body, else: other */
    JINJA_FOR,          /* for a in b if c: body, else: other */
    JINJA_SET,          /* a = b */
    JINJA_SET_BLOCK,    /* a = the text of body, through the filters b */
    JINJA_MACRO_OF,     /* name(items): body; an item is a NAME with its default in b */
    JINJA_CALL_BLOCK,   /* call(items) a: body */
    JINJA_FILTER_BLOCK, /* a: a filter; body */
    JINJA_SCOPE,        /* body, in a scope of its own; items: NAME with its value in b */
    JINJA_BREAK,
    JINJA_CONTINUE
};

struct jinja_node {
    enum jinja_node_kind kind;
    enum jinja_operator what;
    int line;
    unsigned count;                      /* number of items */
    const char *name;                    /* interned; for an argument: its keyword */
    const struct jinja_builtin *builtin; /* NULL: unknown filter or test */
    struct jinja_value value;
    struct jinja_node *a, *b, *c;
    struct jinja_node *items, *body, *other; /* each is the first node of a list that `next` links */
    struct jinja_node *next;
    bool chained;      /* an {% if %} whose `other` is an {% elif %} */
    unsigned specials; /* for a macro: the special names that its body reads, as bits (JINJA_CALLER, ...) */
};

/* Special names of a macro, defined if its body reads them before setting them. */
enum { JINJA_CALLER = 1, JINJA_KWARGS = 2, JINJA_VARARGS = 4 };
struct jinja_specials { /* the special names of the surrounding macros */
    struct jinja_specials *outer;
    unsigned read, set;
};

struct jinja_parser {
    struct jinja *j;
    struct jinja_lexer lexer;
    unsigned loops; /* number of surrounding loops */
    struct jinja_specials *specials;
    bool setting; /* the next name is an assignment target */
    /* Filters or tests that Jinja does not have. Such a name is an error at once; inside an {% if %}, only when it is
     * reached. */
    const char *unknown, *unknown_at_once;
    int unknown_line, unknown_at_once_line;
};

/* Parses a whole template into statements. */
struct jinja_node *jinja_parse(struct jinja *j, const char *source, size_t bytes);

/* Parsing of expressions, for the statements' parser (parse_expression.c). */
struct jinja_node *jinja_node(struct jinja_parser *p, enum jinja_node_kind kind, struct jinja_node *a,
                              struct jinja_node *b);
/* Appends an item to a node. *end points to the place of the next item. */
void jinja_append(struct jinja_node *node, struct jinja_node ***end, struct jinja_node *item);
struct jinja_node *jinja_constant(struct jinja_parser *p, struct jinja_value value);
struct jinja_node *jinja_parse_primary(struct jinja_parser *p);
struct jinja_node *jinja_parse_postfix(struct jinja_parser *p, struct jinja_node *node);
struct jinja_node *jinja_parse_attribute(struct jinja_parser *p, struct jinja_node *a); /* the current token is '.' */
struct jinja_node *jinja_parse_expression(struct jinja_parser *p);
enum { JINJA_NO_CONDITION = 1, JINJA_NO_BRACKETS = 2 };
/* Parses expressions separated by commas. The name `stop` ends them. */
struct jinja_node *jinja_parse_tuple(struct jinja_parser *p, unsigned how, const char *stop);
struct jinja_node *jinja_parse_target(struct jinja_parser *p, const char *stop);
struct jinja_node *jinja_parse_filters(struct jinja_parser *p, struct jinja_node *a, bool first_is_named);
bool jinja_expect_operator(struct jinja_parser *p, const char *text);
bool jinja_skip_operator(struct jinja_parser *p, const char *text);
bool jinja_skip_name(struct jinja_parser *p, const char *text);
const char *jinja_expect_a_name(struct jinja_parser *p);
/* Record that an expression reads a name, or that a statement sets it. */
unsigned jinja_special(const char *name); /* JINJA_CALLER, ...; 0: not a special name */
void jinja_note_name(struct jinja_parser *p, const char *name, bool set);
void jinja_parse_unexpected(struct jinja_parser *p, const char *wanted);

/* Running the tree (evaluate.c, execute.c). */
struct jinja_value jinja_evaluate(struct jinja *j, const struct jinja_node *node);
struct jinja_value jinja_call_with(struct jinja *j, const struct jinja_node *node, const char *name,
                                   struct jinja_value value); /* evaluates a call; if `name` is not NULL, with one more
                                                               * argument */
struct jinja_value jinja_filtered(struct jinja *j, const struct jinja_node *node, struct jinja_value self);
enum jinja_flow { JINJA_ON, JINJA_BROKEN, JINJA_CONTINUED };
enum jinja_flow jinja_execute(struct jinja *j, const struct jinja_node *node);
void jinja_bind_target(struct jinja *j, const struct jinja_node *target, struct jinja_value value);
struct jinja_value jinja_call_macro(struct jinja *j, const struct jinja_macro *macro, const struct jinja_call *call);

#endif

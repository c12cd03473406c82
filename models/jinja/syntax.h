/* syntax.h - tokens and the tree that a template is parsed into. */
#ifndef KVC_MODELS_JINJA_SYNTAX_H
#define KVC_MODELS_JINJA_SYNTAX_H

#include "models/jinja/parts.h"

enum jinja_token_kind {
    JINJA_TOKEN_END,
    JINJA_TOKEN_DATA,      /* text between tags */
    JINJA_TOKEN_OPEN,      /* of a tag {% */
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
    const char *data; /* DATA, STRING (without escapes), OPERATOR; a NAME is interned */
    size_t bytes;
    union {
        int64_t whole;
        double real;
    };
};

struct jinja_lexer {
    struct jinja *j;
    const char *text; /* with \n for every line end, and without the last one */
    size_t bytes, at;
    int line;
    bool in_tag, in_out, opening, at_line_start, raw;
    char open[200]; /* brackets that are open within the tag */
    size_t open_count;
    struct jinja_token token; /* the present one */
    struct jinja_token ahead; /* the one after it */
};

bool jinja_lexer_open(struct jinja *j, const char *source, size_t bytes, struct jinja_lexer *lexer);
void jinja_advance(struct jinja_lexer *lexer);
bool jinja_at_operator(const struct jinja_lexer *lexer, const char *text);
bool jinja_at_name(const struct jinja_lexer *lexer, const char *text);

enum jinja_node_kind {
    /* expressions */
    JINJA_CONSTANT,  /* value */
    JINJA_NAME,      /* name */
    JINJA_TEXT_LIST, /* items ~ items */
    JINJA_LIST_OF,   /* [items] */
    JINJA_TUPLE_OF,
    JINJA_DICT_OF,   /* items: key, value, key, value */
    JINJA_ATTRIBUTE, /* a.name */
    JINJA_ITEM,      /* a[b] */
    JINJA_SLICE,     /* a[items[0]:items[1]:items[2]]; a NULL kind is a CONSTANT unset */
    JINJA_CALL,      /* a(items) */
    JINJA_FILTER,    /* a | builtin(items); a NULL: the text of a block */
    JINJA_TEST,      /* a is builtin(items) */
    JINJA_NOT,
    JINJA_NEGATIVE,
    JINJA_POSITIVE,
    JINJA_AND,
    JINJA_OR,
    JINJA_BINARY,    /* a what b */
    JINJA_COMPARE,   /* a, then items: each with what and its operand a */
    JINJA_ARGUMENT,  /* an item of calls and comparisons: a, with name or what */
    JINJA_INLINE_IF, /* a if b else c */
    /* statements */
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
    unsigned count;                      /* of items */
    const char *name;                    /* interned; of an item: given by this name */
    const struct jinja_builtin *builtin; /* NULL: there is no such filter or test */
    struct jinja_value value;
    struct jinja_node *a, *b, *c;
    struct jinja_node *items, *body, *other; /* the first of each; linked by next */
    struct jinja_node *next;
    bool chained;      /* an if whose other is an elif */
    unsigned specials; /* of a macro: what its body reads of these */
};

/* Names that a macro has where its body reads them before it sets them. */
enum { JINJA_CALLER = 1, JINJA_KWARGS = 2, JINJA_VARARGS = 4 };
struct jinja_specials { /* of the macros around the present place */
    struct jinja_specials *outer;
    unsigned read, set;
};

struct jinja_parser {
    struct jinja *j;
    struct jinja_lexer lexer;
    unsigned loops; /* that the present place is in */
    struct jinja_specials *specials;
    bool setting; /* the name that comes is assigned to */
    /* A filter or test that Jinja has not: an error at once, but only when it is reached where it depends on an if. */
    const char *unknown, *unknown_at_once;
    int unknown_line, unknown_at_once_line;
};

/* The statements of a whole template. */
struct jinja_node *jinja_parse(struct jinja *j, const char *source, size_t bytes);

/* What statements need of expressions (parse_expression.c). */
struct jinja_node *jinja_node(struct jinja_parser *p, enum jinja_node_kind kind, struct jinja_node *a,
                              struct jinja_node *b);
/* Puts an item behind the others of a node; *end is where the next one goes. */
void jinja_append(struct jinja_node *node, struct jinja_node ***end, struct jinja_node *item);
struct jinja_node *jinja_constant(struct jinja_parser *p, struct jinja_value value);
struct jinja_node *jinja_parse_primary(struct jinja_parser *p);
struct jinja_node *jinja_parse_postfix(struct jinja_parser *p, struct jinja_node *node);
struct jinja_node *jinja_parse_attribute(struct jinja_parser *p, struct jinja_node *a); /* at the point */
struct jinja_node *jinja_parse_expression(struct jinja_parser *p);
enum { JINJA_NO_CONDITION = 1, JINJA_NO_BRACKETS = 2 };
/* Expressions with commas between them; stop: a name that ends them. */
struct jinja_node *jinja_parse_tuple(struct jinja_parser *p, unsigned how, const char *stop);
struct jinja_node *jinja_parse_target(struct jinja_parser *p, const char *stop);
struct jinja_node *jinja_parse_filters(struct jinja_parser *p, struct jinja_node *a, bool first_is_named);
bool jinja_expect_operator(struct jinja_parser *p, const char *text);
bool jinja_skip_operator(struct jinja_parser *p, const char *text);
bool jinja_skip_name(struct jinja_parser *p, const char *text);
const char *jinja_expect_a_name(struct jinja_parser *p);
/* An expression reads a name, or a statement sets it. */
unsigned jinja_special(const char *name); /* JINJA_CALLER and so on; 0: another */
void jinja_note_name(struct jinja_parser *p, const char *name, bool set);
void jinja_parse_unexpected(struct jinja_parser *p, const char *wanted);

/* Running it (evaluate.c, execute.c). */
struct jinja_value jinja_evaluate(struct jinja *j, const struct jinja_node *node);
struct jinja_value
jinja_call_with(struct jinja *j, const struct jinja_node *node, const char *name,
                struct jinja_value value); /* a call, with one argument more where name is not NULL */
struct jinja_value jinja_filtered(struct jinja *j, const struct jinja_node *node, struct jinja_value self);
enum jinja_flow { JINJA_ON, JINJA_BROKEN, JINJA_CONTINUED };
enum jinja_flow jinja_execute(struct jinja *j, const struct jinja_node *node);
void jinja_bind_target(struct jinja *j, const struct jinja_node *target, struct jinja_value value);
struct jinja_value jinja_call_macro(struct jinja *j, const struct jinja_macro *macro, const struct jinja_call *call);

#endif

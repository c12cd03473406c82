/* parts.h - shared by the files of the template engine: memory, values, text, the state of a rendering.
 *
 * A rendering fails at most once. The first jinja_fail fills the error and sets j->status. From then on functions
 * return anything (no value, NULL, false). Loops check j->status; other callers need not check after every call. All
 * memory belongs to the rendering and is freed with it. */
#ifndef KVC_MODELS_JINJA_PARTS_H
#define KVC_MODELS_JINJA_PARTS_H

#include "models/jinja/jinja.h"
#include "models/tokenizer/parts.h"

/* ---- values ---- */

enum jinja_kind {
    JINJA_UNSET, /* an argument that is not given */
    JINJA_UNDEFINED,
    JINJA_NONE,
    JINJA_BOOL,
    JINJA_INT,
    JINJA_FLOAT,
    JINJA_STRING,
    JINJA_LIST, /* also other iterables of Python: see enum jinja_flavor */
    JINJA_DICT,
    JINJA_NAMESPACE, /* a dict that templates may change */
    JINJA_LOOP,
    JINJA_BUILTIN,
    JINJA_MACRO
};

struct jinja_value {
    enum jinja_kind kind;
    union {
        bool truth;
        int64_t whole;
        double real;
        const struct jinja_string *string;
        struct jinja_list *list;
        struct jinja_dict *dict;
        struct jinja_loop *loop;
        const struct jinja_bound *bound;
        const struct jinja_macro *macro;
        const char *what; /* undefined: name of the missing value, for messages */
    };
};

struct jinja_string {
    const char *data;
    size_t bytes;
    const char *marks;         /* [bytes], 1 for each byte written by the caller, else 0; NULL: all 0 */
    struct jinja_store *store; /* the store that contains `data`; NULL: nothing can be appended */
    bool safe;                 /* marked by the filter `safe`: text that is added to it gets escaped */
};
struct jinja_store {    /* Shared by several strings, each of which is a prefix of the longest */
    char *data, *marks; /* marks NULL: all 0 */
    size_t used, capacity;
};

enum jinja_flavor {
    JINJA_PLAIN,
    JINJA_TUPLE,
    JINJA_RANGE,
    JINJA_VIEW,     /* keys, values or items of a dict: has a length but no indices */
    JINJA_GENERATOR /* result of a filter such as map: can be read once and has no length */
};
struct jinja_list {
    struct jinja_value *items;
    size_t count, capacity, taken; /* `taken`: items already read from a generator */
    enum jinja_flavor flavor;
};

struct jinja_entry {
    struct jinja_value key, value;
};
struct jinja_dict {
    struct jinja_entry *entries; /* in order of insertion */
    size_t count, capacity;
};

struct jinja_loop {
    const struct jinja_list *list;
    size_t first, at, count;    /* items list[first..first+count); the current one is first+at */
    struct jinja_value changed; /* last arguments of loop.changed */
};

/* ---- the state of a rendering ---- */

struct jinja_chunk {
    struct jinja_chunk *next;
    size_t used, capacity;
};

struct jinja_variable {
    const char *name; /* interned: equal names are the same pointer */
    struct jinja_value value;
};
struct jinja_scope {
    struct jinja_scope *parent;
    struct jinja_variable *variables;
    size_t count, capacity;
    bool held; /* a macro refers to it */
};

struct jinja_text {     /* growing text; a zeroed struct is empty */
    char *data, *marks; /* marks: as in struct jinja_string */
    size_t bytes, capacity;
};

struct jinja {
    const char *where, *date;
    struct kvc_error *error;
    enum kvc_status status;
    int line;
    unsigned depth;
    uint64_t steps, memory; /* remaining limits */
    struct jinja_chunk *chunks;
    char **names; /* [names_size], a power of two; NULL: empty cell */
    size_t names_size, names_count;
    const char *loop, *caller; /* interned names */
    const char *watched;       /* interned name to look for; `read`: an expression uses it */
    bool read;
    struct jinja_scope *scope;
    struct jinja_text *out;
};

/* ---- memory, limits, errors (memory.c) ---- */

void *jinja_alloc(struct jinja *j, size_t bytes); /* zeroed memory; NULL: failed */
/* Ensures that an array of `count` elements has room for one more. */
bool jinja_grow(struct jinja *j, void **array, size_t *capacity, size_t count, size_t size);
const char *jinja_intern(struct jinja *j, const char *name, size_t bytes);
void jinja_close(struct jinja *j);

void jinja_fail(struct jinja *j, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Fails and returns an undefined value. */
#define JINJA_FAIL(j, ...) (jinja_fail((j), __VA_ARGS__), jinja_undefined(NULL))
bool jinja_step(struct jinja *j, uint64_t steps);
bool jinja_enter(struct jinja *j); /* false: too deep; call jinja_leave in either case */
void jinja_leave(struct jinja *j);

/* ---- strings and text, with marks (text.c) ---- */

struct jinja_string jinja_cut(const struct jinja_string *string, size_t at, size_t bytes); /* a part with its marks */
bool jinja_marked(const struct jinja_string *string, size_t at);
struct jinja_value jinja_part(struct jinja *j, const struct jinja_string *string, size_t at, size_t bytes);
/* Makes a string of the template or the engine, never of the caller. `data` must outlive the rendering. */
struct jinja_value jinja_literal(struct jinja *j, const char *data, size_t bytes);
struct jinja_value jinja_copied(struct jinja *j, const char *data, size_t bytes, bool marked);
struct jinja_value jinja_joined(struct jinja *j, const struct jinja_string *a, const struct jinja_string *b);
void jinja_put(struct jinja *j, struct jinja_text *text, const struct jinja_string *from, size_t at, size_t bytes);
void jinja_put_all(struct jinja *j, struct jinja_text *text, const struct jinja_string *from);
void jinja_puts(struct jinja *j, struct jinja_text *text, const char *data); /* text of the engine */
/* Appends characters that were derived from other characters, such as uppercase letters. `marked` is true if one of the
 * original characters was marked. */
void jinja_put_made(struct jinja *j, struct jinja_text *text, const char *data, size_t bytes, bool marked);
struct jinja_string jinja_seen(const struct jinja_text *text); /* the text as a string, valid until the text changes */
struct jinja_value jinja_taken_safe(struct jinja *j, const struct jinja_text *text,
                                    bool safe); /* `safe`: mark it as the filter `safe` does */
/* Marks `made` (or the strings in a list) as safe if `from` is safe. */
struct jinja_value jinja_safe_as(struct jinja *j, struct jinja_value made, const struct jinja_string *from);
struct jinja_value jinja_taken(struct jinja *j, const struct jinja_text *text);

/* ---- creating and inspecting values (value.c, lists.c) ---- */

struct jinja_value jinja_undefined(const char *what);
struct jinja_value jinja_none(void);
struct jinja_value jinja_bool(bool truth);
struct jinja_value jinja_int(int64_t whole);
struct jinja_value jinja_float(double real);
struct jinja_value jinja_list(struct jinja *j, enum jinja_flavor flavor);
void jinja_add(struct jinja *j, struct jinja_value list, struct jinja_value item);
struct jinja_value jinja_pair(struct jinja *j, struct jinja_value a, struct jinja_value b);
struct jinja_value jinja_dict(struct jinja *j, enum jinja_kind kind);
void jinja_set(struct jinja *j, struct jinja_dict *dict, struct jinja_value key, struct jinja_value value);
struct jinja_value *jinja_find(struct jinja *j, const struct jinja_dict *dict, struct jinja_value key); /* NULL: none */
struct jinja_value *jinja_find_text(struct jinja *j, const struct jinja_dict *dict, const char *key);
/* Converts JSON to a value. `marked` is true if the caller wrote it. Usual role names are never marked. */
struct jinja_value jinja_from_json(struct jinja *j, const json_t *json, bool marked);

const char *jinja_type(struct jinja_value value); /* Python's name of the type */
bool jinja_is_number(struct jinja_value value);   /* bool, int or float */
bool jinja_is_whole(struct jinja_value value);    /* bool or int */
int64_t jinja_whole(struct jinja_value value);    /* the value of a bool or int */
double jinja_real(struct jinja_value value);      /* the value of a number as a double */
bool jinja_is_text(struct jinja_value value, const char *text);
bool jinja_true(struct jinja *j, struct jinja_value value);
bool jinja_equal(struct jinja *j, struct jinja_value a, struct jinja_value b);
int jinja_order(struct jinja *j, struct jinja_value a,
                struct jinja_value b); /* -1, 0 or 1; fails if the values have no order */
bool jinja_hashable(struct jinja_value value);
/* Returns the list that a loop over the value iterates, from item *first on. Uses up a generator. */
const struct jinja_list *jinja_items(struct jinja *j, struct jinja_value value, size_t *first);
struct jinja_value jinja_length(struct jinja *j, struct jinja_value value);

/* ---- access (access.c) ---- */

struct jinja_value jinja_attribute(struct jinja *j, struct jinja_value of, const char *name);
struct jinja_value jinja_item(struct jinja *j, struct jinja_value of, struct jinja_value key);
struct jinja_value jinja_slice(struct jinja *j, struct jinja_value of, const struct jinja_value part[3]);
bool jinja_contains(struct jinja *j, struct jinja_value in, struct jinja_value what);

/* ---- characters (characters.c) ---- */

size_t jinja_next(const char *text, size_t bytes, uint32_t *code); /* like kvc_utf8_next */
bool jinja_space(uint32_t code);                                   /* whitespace as in Python's str.strip */
bool jinja_printable(uint32_t code);
bool jinja_letter(uint32_t code);
bool jinja_decimal(uint32_t code);
size_t jinja_characters(const struct jinja_string *text);
size_t jinja_offset(const struct jinja_string *text, size_t character); /* bytes in front of a character */
/* Returns the offset of `part` in `text`, at or after `from`. Returns SIZE_MAX if it is not found. */
size_t jinja_search(const char *text, size_t bytes, size_t from, const char *part, size_t part_bytes);

/* ---- upper and lower case (case.c) ---- */

bool jinja_digit(uint32_t code);   /* decimal digits and others such as superscripts */
bool jinja_numeric(uint32_t code); /* digits, fractions, numerals */
bool jinja_alnum(uint32_t code);   /* letters, digits and other numeric characters */
int jinja_case(uint32_t code);     /* 1: upper, -1: lower, 2: title, 0: none */
enum jinja_case { JINJA_LOWER, JINJA_UPPER, JINJA_TITLE, JINJA_FOLD };
/* Writes the case mapping of the character at *at and moves *at past it. *letter says whether a cased character
 * precedes; combining marks between the two do not count. Start with false; the calls update *letter. */
void jinja_put_case(struct jinja *j, struct jinja_text *out, const struct jinja_string *text, size_t *at,
                    enum jinja_case to, bool *letter);
struct jinja_value jinja_in_case(struct jinja *j, const struct jinja_string *text, enum jinja_case to);
struct jinja_value jinja_capitalized(struct jinja *j, const struct jinja_string *text);

/* ---- values as text (print.c, tojson.c, format.c) ---- */

const struct jinja_string *jinja_str(struct jinja *j, struct jinja_value value); /* never NULL */
void jinja_put_str(struct jinja *j, struct jinja_text *text, struct jinja_value value);
void jinja_put_repr(struct jinja *j, struct jinja_text *text, struct jinja_value value);
void jinja_put_int(struct jinja *j, struct jinja_text *text, int64_t whole);
void jinja_put_float(struct jinja *j, struct jinja_text *text, double real);
/* Writes a finite nonnegative number with this many significant digits, or with as many as needed (-1). Always writes a
 * decimal point. */
void jinja_put_significant(struct jinja *j, struct jinja_text *text, double real, int digits);
int jinja_exponent(double real); /* power of ten of the first digit */
void jinja_put_scientific(struct jinja *j, struct jinja_text *text, double real, int digits); /* 1.25e+03 */
struct jinja_string jinja_ascii(struct jinja *j,
                                const struct jinja_string *string); /* non-ASCII characters become \\x or \\u escapes */
bool jinja_read_float(const char *text, size_t bytes,
                      double *real); /* digits, point, exponent; independent of the locale */
void jinja_put_fixed(struct jinja *j, struct jinja_text *text, double real, int places);
void jinja_put_escaped(struct jinja *j, struct jinja_text *text, const struct jinja_string *string);
/* Implement '%s and %d' % value, and '{} and {x}'.format(...). */
struct jinja_value jinja_percent(struct jinja *j, const struct jinja_string *form, struct jinja_value value);
struct jinja_call;
struct jinja_value jinja_format(struct jinja *j, const struct jinja_string *form, const struct jinja_call *call);
struct jinja_value jinja_date(struct jinja *j, const struct jinja_string *form);

/* ---- operators (operators.c) ---- */

enum jinja_operator {
    JINJA_ADD,
    JINJA_SUBTRACT,
    JINJA_MULTIPLY,
    JINJA_DIVIDE,
    JINJA_DIVIDE_WHOLE,
    JINJA_REMAINDER,
    JINJA_POWER,
    JINJA_EQUAL,
    JINJA_UNEQUAL,
    JINJA_LESS,
    JINJA_LESS_EQUAL,
    JINJA_MORE,
    JINJA_MORE_EQUAL,
    JINJA_IN,
    JINJA_NOT_IN
};
struct jinja_value jinja_calculate(struct jinja *j, enum jinja_operator what, struct jinja_value a,
                                   struct jinja_value b);
bool jinja_compare(struct jinja *j, enum jinja_operator what, struct jinja_value a, struct jinja_value b);
struct jinja_value jinja_negative(struct jinja *j, struct jinja_value value);

/* ---- functions, filters, methods, tests, macros ---- */

struct jinja_call { /* the arguments of a call */
    const struct jinja_value *values;
    size_t count;
    const char *const *names; /* names of the named arguments */
    const struct jinja_value *named;
    size_t named_count;
};

enum { JINJA_MOST_PARAMETERS = 6 };
/* The implementation of a callable. `a` holds the arguments in the order of the callable's `parameters`. An argument
 * that is not given is JINJA_UNSET. */
typedef struct jinja_value jinja_function(struct jinja *j, struct jinja_value self, const struct jinja_value *a,
                                          const struct jinja_call *call);
struct jinja_builtin {
    const char *name;
    const char *parameters; /* "old new count"; "*": the function reads the call itself */
    unsigned required;
    jinja_function *function; /* NULL: exists in Jinja but is not supported */
};
struct jinja_bound {
    const struct jinja_builtin *builtin;
    struct jinja_value self;
    const char *kind; /* "filter", "method", ... for messages */
};
struct jinja_macro {
    const struct jinja_node *node; /* a macro or call block */
    struct jinja_scope *scope;
};

jinja_function jinja_tojson, jinja_round;
extern const struct jinja_builtin jinja_text_filters[], jinja_list_filters[], jinja_tests[], jinja_globals[];
extern const struct jinja_builtin jinja_string_methods[], jinja_class_methods[], jinja_dict_methods[],
    jinja_list_methods[], jinja_tuple_methods[], jinja_loop_methods[];
const struct jinja_builtin *jinja_builtin(const struct jinja_builtin *table, const char *name, size_t bytes);
const struct jinja_builtin *jinja_filter(const char *name, size_t bytes);

/* evaluate.c */
struct jinja_value jinja_apply(struct jinja *j, const char *kind, const struct jinja_builtin *builtin,
                               struct jinja_value self, const struct jinja_call *call);
struct jinja_value jinja_call_value(struct jinja *j, struct jinja_value what, const struct jinja_call *call);
/* text_filters.c. `sides` selects where to strip. If `chars` is NULL, strips whitespace. */
enum jinja_sides { JINJA_LEFT = 1, JINJA_RIGHT = 2, JINJA_BOTH = 3 };
struct jinja_value jinja_strip(struct jinja *j, const struct jinja_string *text, const struct jinja_string *chars,
                               enum jinja_sides sides);
struct jinja_value jinja_replace(struct jinja *j, const struct jinja_string *text, const struct jinja_string *old,
                                 const struct jinja_string *new, int64_t most);
struct jinja_value jinja_lines(struct jinja *j, const struct jinja_string *text, bool keep_ends);

/* scope.c */
struct jinja_scope *jinja_scope_open(struct jinja *j, struct jinja_scope *parent);
void jinja_assign(struct jinja *j, struct jinja_scope *scope, const char *name, struct jinja_value value);
const struct jinja_value *jinja_lookup(const struct jinja *j, const char *name); /* NULL: no such variable */

#endif

/* evaluate.c - evaluates expressions. */
#include "models/jinja/syntax.h"

#include "core/base/assert.h"

#include <string.h>

/* ---- calls ---- */

const struct jinja_builtin *jinja_builtin(const struct jinja_builtin *table, const char *name, size_t bytes) {
    for (; table->name; table++) {
        if (strlen(table->name) == bytes && !memcmp(table->name, name, bytes)) {
            return table;
        }
    }
    return NULL;
}

const struct jinja_builtin *jinja_filter(const char *name, size_t bytes) {
    const struct jinja_builtin *found = jinja_builtin(jinja_text_filters, name, bytes);
    return found ? found : jinja_builtin(jinja_list_filters, name, bytes);
}

/* Returns the index of a name in a list of parameters such as "old new count". Returns -1 if it is not found. */
static int parameter(const char *parameters, const char *name) {
    const size_t bytes = strlen(name);
    for (int i = 0; *parameters; i++) {
        const size_t length = strcspn(parameters, " ");
        if (length == bytes && !memcmp(parameters, name, bytes)) {
            return i;
        }
        parameters += length + strspn(parameters + length, " ");
    }
    return -1;
}

static unsigned parameters_of(const char *parameters) {
    unsigned count = *parameters != '\0';
    for (; *parameters; parameters++) {
        count += *parameters == ' ';
    }
    return count;
}

struct jinja_value jinja_apply(struct jinja *j, const char *kind, const struct jinja_builtin *builtin,
                               struct jinja_value self, const struct jinja_call *call) {
    struct jinja_value a[JINJA_MOST_PARAMETERS] = {{0}};
    if (!builtin->function) {
        return JINJA_FAIL(j, "the %s \"%s\" is not supported", kind, builtin->name);
    }
    if (!strcmp(builtin->parameters, "*")) {
        return builtin->function(j, self, NULL, call);
    }
    const unsigned most = parameters_of(builtin->parameters);
    KVC_ASSERT(most <= JINJA_MOST_PARAMETERS && builtin->required <= most);
    if (call->count > most) {
        return JINJA_FAIL(j, "%s \"%s\" takes at most %u arguments", kind, builtin->name, most);
    }
    for (size_t i = 0; i < call->count; i++) {
        a[i] = call->values[i];
    }
    for (size_t i = 0; i < call->named_count; i++) {
        const int place = parameter(builtin->parameters, call->names[i]);
        if (place < 0 || a[place].kind != JINJA_UNSET) {
            return JINJA_FAIL(j, "%s \"%s\" has no argument \"%.40s\", or has it twice", kind, builtin->name,
                              call->names[i]);
        }
        a[place] = call->named[i];
        KVC_ASSERT((unsigned)place < most);
    }
    for (unsigned i = 0; i < builtin->required; i++) {
        if (a[i].kind == JINJA_UNSET) {
            return JINJA_FAIL(j, "%s \"%s\" needs %u argument(s): %s", kind, builtin->name, builtin->required,
                              builtin->parameters);
        }
    }
    const struct jinja_value made = builtin->function(j, self, a, call);
    return self.kind == JINJA_STRING && !strcmp(kind, "method") ? jinja_safe_as(j, made, self.string) : made;
}

struct jinja_value jinja_call_value(struct jinja *j, struct jinja_value what, const struct jinja_call *call) {
    if (what.kind == JINJA_BUILTIN) {
        return jinja_apply(j, what.bound->kind, what.bound->builtin, what.bound->self, call);
    }
    if (what.kind == JINJA_MACRO) {
        return jinja_call_macro(j, what.macro, call);
    }
    if (what.kind == JINJA_UNDEFINED && what.what && !strcmp(what.what, "strftime_now") && !j->date) {
        j->status = kvc_fail(j->error, KVC_USAGE, "%s, line %d: the template needs the date, but none was given",
                             j->where, j->line);
        return what;
    }
    if (what.kind == JINJA_UNDEFINED) {
        return JINJA_FAIL(j, "%.60s is undefined and so cannot be called", what.what ? what.what : "a value");
    }
    return JINJA_FAIL(j, "a %s cannot be called", jinja_type(what));
}

/* Evaluates the arguments of a node. If `extra` is not NULL, adds one more argument with that name. */
static struct jinja_call arguments(struct jinja *j, const struct jinja_node *node, const char *extra,
                                   struct jinja_value value) {
    struct jinja_value *values = jinja_alloc(j, (node->count + 1) * sizeof *values);
    const char **names = jinja_alloc(j, (node->count + 1) * sizeof *names);
    struct jinja_call call = {.values = values, .names = names};
    if (!values || !names) {
        return (struct jinja_call){0};
    }
    const struct jinja_node *item = node->items;
    for (; item && !item->name && j->status == KVC_OK; item = item->next) {
        values[call.count++] = jinja_evaluate(j, item->a);
    }
    call.named = values + call.count;
    for (; item && j->status == KVC_OK; item = item->next) {
        for (size_t k = 0; k < call.named_count; k++) {
            if (names[k] == item->name) {
                jinja_fail(j, "an argument \"%.40s\" is given twice", item->name);
            }
        }
        names[call.named_count] = item->name;
        values[call.count + call.named_count++] = jinja_evaluate(j, item->a);
    }
    for (size_t k = 0; k < call.named_count && extra; k++) {
        if (names[k] == extra) {
            jinja_fail(j, "an argument \"%.40s\" is given twice", extra);
        }
    }
    if (extra && j->status == KVC_OK) {
        names[call.named_count] = extra;
        values[call.count + call.named_count++] = value;
    }
    KVC_ASSERT(call.count + call.named_count <= (size_t)node->count + 1);
    return call;
}

struct jinja_value jinja_call_with(struct jinja *j, const struct jinja_node *node, const char *name,
                                   struct jinja_value value) {
    const struct jinja_value what = jinja_evaluate(j, node->a);
    const struct jinja_call call = arguments(j, node, name, value);
    return j->status == KVC_OK ? jinja_call_value(j, what, &call) : jinja_undefined(NULL);
}

struct jinja_value jinja_filtered(struct jinja *j, const struct jinja_node *node, struct jinja_value self) {
    if (!node->builtin) {
        return JINJA_FAIL(j, "there is no %s \"%.40s\"", node->kind == JINJA_TEST ? "test" : "filter", node->name);
    }
    const struct jinja_call call = arguments(j, node, NULL, self);
    return j->status == KVC_OK
               ? jinja_apply(j, node->kind == JINJA_TEST ? "test" : "filter", node->builtin, self, &call)
               : jinja_undefined(NULL);
}

/* ---- names, lists and operators ---- */

static struct jinja_value name(struct jinja *j, const struct jinja_node *node) {
    const struct jinja_value *value = jinja_lookup(j, node->name);
    if (value) {
        return *value;
    }
    const struct jinja_builtin *builtin = jinja_builtin(jinja_globals, node->name, strlen(node->name));
    if (!builtin || (!strcmp(builtin->name, "strftime_now") && !j->date)) {
        return jinja_undefined(node->name);
    }
    struct jinja_bound *bound = jinja_alloc(j, sizeof *bound);
    if (!bound) {
        return jinja_undefined(NULL);
    }
    *bound = (struct jinja_bound){builtin, jinja_undefined(NULL), "function"};
    return (struct jinja_value){.kind = JINJA_BUILTIN, .bound = bound};
}

static struct jinja_value evaluate_list(struct jinja *j, const struct jinja_node *node) {
    struct jinja_value made = jinja_list(j, node->kind == JINJA_TUPLE_OF ? JINJA_TUPLE : JINJA_PLAIN);
    for (const struct jinja_node *item = node->items; item && j->status == KVC_OK; item = item->next) {
        jinja_add(j, made, jinja_evaluate(j, item));
    }
    return made;
}

static struct jinja_value dict(struct jinja *j, const struct jinja_node *node) {
    struct jinja_value made = jinja_dict(j, JINJA_DICT);
    for (const struct jinja_node *key = node->items; key && j->status == KVC_OK; key = key->next->next) {
        const struct jinja_value name = jinja_evaluate(j, key), value = jinja_evaluate(j, key->next);
        if (j->status == KVC_OK) {
            jinja_set(j, made.dict, name, value);
        }
    }
    return made;
}

/* Evaluates a ~ b ~ c: joins the texts. The result is not marked safe. */
static struct jinja_value texts(struct jinja *j, const struct jinja_node *node) {
    struct jinja_value made = jinja_literal(j, "", 0);
    for (const struct jinja_node *item = node->items; item && j->status == KVC_OK; item = item->next) {
        struct jinja_string plain = *jinja_str(j, jinja_evaluate(j, item));
        plain.safe = false;
        if (item == node->items) {
            struct jinja_string *first = jinja_alloc(j, sizeof *first);
            if (first) {
                *first = plain;
                made.string = first;
            }
        } else if (j->status == KVC_OK) {
            made = jinja_joined(j, made.string, &plain);
        }
    }
    return made;
}

static struct jinja_value evaluate_compare(struct jinja *j, const struct jinja_node *node) {
    struct jinja_value left = jinja_evaluate(j, node->a);
    for (const struct jinja_node *item = node->items; item && j->status == KVC_OK; item = item->next) {
        const struct jinja_value right = jinja_evaluate(j, item->a);
        if (j->status != KVC_OK || !jinja_compare(j, item->what, left, right)) {
            return jinja_bool(false);
        }
        left = right;
    }
    return jinja_bool(true);
}

static struct jinja_value slice(struct jinja *j, const struct jinja_node *node) {
    struct jinja_value part[3] = {{0}};
    const struct jinja_value of = jinja_evaluate(j, node->a);
    const struct jinja_node *item = node->items;
    for (int i = 0; item && i < 3; item = item->next, i++) {
        part[i] = jinja_evaluate(j, item);
    }
    return j->status == KVC_OK ? jinja_slice(j, of, part) : jinja_undefined(NULL);
}

static struct jinja_value binary(struct jinja *j, const struct jinja_node *node) {
    const struct jinja_value a = jinja_evaluate(j, node->a), b = jinja_evaluate(j, node->b);
    return j->status == KVC_OK ? jinja_calculate(j, node->what, a, b) : jinja_undefined(NULL);
}

static struct jinja_value inline_if(struct jinja *j, const struct jinja_node *node) {
    if (jinja_true(j, jinja_evaluate(j, node->a))) {
        return jinja_evaluate(j, node->b);
    }
    return node->c ? jinja_evaluate(j, node->c) : jinja_undefined("an inline if without else");
}

static struct jinja_value one_operand(struct jinja *j, const struct jinja_node *node) {
    const struct jinja_value a = jinja_evaluate(j, node->a);
    if (j->status != KVC_OK) {
        return a;
    }
    switch (node->kind) {
    case JINJA_ATTRIBUTE:
        return jinja_attribute(j, a, node->name);
    case JINJA_FILTER:
    case JINJA_TEST:
        return jinja_filtered(j, node, a);
    case JINJA_NOT:
        return jinja_bool(!jinja_true(j, a));
    case JINJA_NEGATIVE:
        return jinja_negative(j, a);
    case JINJA_POSITIVE:
        return jinja_is_number(a) ? (a.kind == JINJA_BOOL ? jinja_int(a.truth) : a)
                                  : JINJA_FAIL(j, "the operator + does not take a value of type %s", jinja_type(a));
    case JINJA_AND:
        return jinja_true(j, a) ? jinja_evaluate(j, node->b) : a;
    case JINJA_OR:
        return jinja_true(j, a) ? a : jinja_evaluate(j, node->b);
    default: { /* JINJA_ITEM */
        const struct jinja_value key = jinja_evaluate(j, node->b);
        return j->status == KVC_OK ? jinja_item(j, a, key) : key;
    }
    }
}

static struct jinja_value evaluate(struct jinja *j, const struct jinja_node *node) {
    switch (node->kind) {
    case JINJA_CONSTANT:
        return node->value;
    case JINJA_NAME:
        return name(j, node);
    case JINJA_TEXT_LIST:
        return texts(j, node);
    case JINJA_LIST_OF:
    case JINJA_TUPLE_OF:
        return evaluate_list(j, node);
    case JINJA_DICT_OF:
        return dict(j, node);
    case JINJA_SLICE:
        return slice(j, node);
    case JINJA_CALL:
        return jinja_call_with(j, node, NULL, jinja_none());
    case JINJA_BINARY:
        return binary(j, node);
    case JINJA_COMPARE:
        return evaluate_compare(j, node);
    case JINJA_INLINE_IF:
        return inline_if(j, node);
    default:
        return one_operand(j, node);
    }
}

struct jinja_value jinja_evaluate(struct jinja *j, const struct jinja_node *node) {
    struct jinja_value value = jinja_undefined(NULL);
    const int line = j->line;
    if (j->status != KVC_OK || !jinja_step(j, 1)) {
        return value;
    }
    j->line = node->line;
    if (jinja_enter(j)) {
        value = evaluate(j, node);
    }
    jinja_leave(j);
    if (j->status == KVC_OK) {
        j->line = line;
    }
    return value;
}

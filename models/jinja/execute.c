/* execute.c - runs statements. */
#include "models/jinja/syntax.h"

#include <string.h>

/* Runs statements and writes their output to text. */
static enum jinja_flow execute_into(struct jinja *j, const struct jinja_node *body, struct jinja_text *text) {
    struct jinja_text *outer = j->out;
    j->out = text;
    const enum jinja_flow flow = jinja_execute(j, body);
    j->out = outer;
    return flow;
}

/* Runs statements in a scope of their own and returns their output. */
static struct jinja_value text_of(struct jinja *j, const struct jinja_node *body, enum jinja_flow *flow) {
    struct jinja_scope *outer = j->scope;
    struct jinja_text text = {0};
    j->scope = jinja_scope_open(j, outer);
    *flow = j->scope ? execute_into(j, body, &text) : JINJA_ON;
    j->scope = outer;
    return jinja_taken(j, &text);
}

/* Applies the filters of a block to its text. The innermost filter has no operand node. */
static struct jinja_value filtered(struct jinja *j, const struct jinja_node *filter, struct jinja_value text) {
    if (!filter || j->status != KVC_OK) {
        return text;
    }
    if (jinja_enter(j)) {
        text = filtered(j, filter->a, text);
        if (j->status == KVC_OK) {
            text = jinja_filtered(j, filter, text);
        }
    }
    jinja_leave(j);
    return text;
}

/* ---- assignments ---- */

static void bind_attribute(struct jinja *j, const struct jinja_node *target, struct jinja_value value) {
    const struct jinja_value *of = jinja_lookup(j, target->a->name);
    if (!of || of->kind != JINJA_NAMESPACE) {
        jinja_fail(j, "%.60s.%.60s: only attributes of a namespace can be set", target->a->name, target->name);
        return;
    }
    if (target->name[0] == '_') {
        jinja_fail(j, "%.60s: a namespace's names begin with a letter", target->name);
        return;
    }
    struct jinja_value *old = jinja_find_text(j, of->dict, target->name);
    if (old) {
        *old = value;
    } else {
        jinja_set(j, of->dict, jinja_literal(j, target->name, strlen(target->name)), value);
    }
}

void jinja_bind_target(struct jinja *j, const struct jinja_node *target, struct jinja_value value) {
    if (j->status != KVC_OK) {
        return;
    }
    if (target->kind == JINJA_NAME) {
        jinja_assign(j, j->scope, target->name, value);
        return;
    }
    if (target->kind == JINJA_ATTRIBUTE) {
        bind_attribute(j, target, value);
        return;
    }
    size_t i;
    const struct jinja_list *list = jinja_items(j, value, &i);
    if (j->status == KVC_OK && list->count - i != target->count) {
        jinja_fail(j, "%zu values for %u names", list->count - i, target->count);
    }
    for (const struct jinja_node *one = target->items; one && j->status == KVC_OK; one = one->next) {
        jinja_bind_target(j, one, list->items[i++]);
    }
}

/* ---- loops ---- */

/* Prepares an empty scope for the next iteration of a loop. Reuses the current one unless a macro refers to it. */
static bool next_scope(struct jinja *j, struct jinja_scope *outer, struct jinja_scope **scope) {
    if (*scope && !(*scope)->held) {
        (*scope)->count = 0;
    } else {
        *scope = jinja_scope_open(j, outer);
    }
    j->scope = *scope;
    return *scope != NULL;
}

/* Returns the items that satisfy the loop's condition. */
static const struct jinja_list *chosen(struct jinja *j, const struct jinja_node *node, const struct jinja_list *list,
                                       size_t *first) {
    struct jinja_scope *outer = j->scope, *scope = NULL;
    struct jinja_value some = jinja_list(j, JINJA_PLAIN);
    for (size_t i = *first; i < list->count && j->status == KVC_OK && next_scope(j, outer, &scope); i++) {
        jinja_bind_target(j, node->a, list->items[i]);
        if (jinja_true(j, jinja_evaluate(j, node->c)) && j->status == KVC_OK) {
            jinja_add(j, some, list->items[i]);
        }
    }
    j->scope = outer;
    *first = 0;
    return j->status == KVC_OK ? some.list : list;
}

static enum jinja_flow run_else(struct jinja *j, const struct jinja_node *body) {
    struct jinja_scope *outer = j->scope;
    j->scope = jinja_scope_open(j, outer);
    const enum jinja_flow flow = j->scope ? jinja_execute(j, body) : JINJA_ON;
    j->scope = outer;
    return flow;
}

static enum jinja_flow run_for(struct jinja *j, const struct jinja_node *node) {
    struct jinja_scope *outer = j->scope, *scope = NULL;
    const struct jinja_value over = jinja_evaluate(j, node->b);
    size_t first;
    if (j->status != KVC_OK) {
        return JINJA_ON;
    }
    const struct jinja_list *list = jinja_items(j, over, &first);
    if (node->c) {
        list = chosen(j, node, list, &first);
    }
    if (j->status != KVC_OK) {
        return JINJA_ON;
    }
    const size_t count = list->count - first;
    if (!count) {
        return node->other ? run_else(j, node->other) : JINJA_ON;
    }
    struct jinja_loop *loop = jinja_alloc(j, sizeof *loop);
    if (!loop) {
        return JINJA_ON;
    }
    *loop = (struct jinja_loop){.list = list, .first = first, .count = count};
    for (; loop->at < count && jinja_step(j, 1) && next_scope(j, outer, &scope); loop->at++) {
        jinja_assign(j, scope, j->loop, (struct jinja_value){.kind = JINJA_LOOP, .loop = loop});
        jinja_bind_target(j, node->a, list->items[first + loop->at]);
        if (jinja_execute(j, node->body) == JINJA_BROKEN) {
            break;
        }
    }
    j->scope = outer;
    return JINJA_ON;
}

/* ---- macros ---- */

/* Makes a macro. Marks its scope and all outer ones as held, so that loops do not reuse them. */
static struct jinja_value make_macro(struct jinja *j, const struct jinja_node *node) {
    struct jinja_macro *macro = jinja_alloc(j, sizeof *macro);
    if (!macro) {
        return jinja_undefined(NULL);
    }
    *macro = (struct jinja_macro){node, j->scope};
    for (struct jinja_scope *scope = j->scope; scope && !scope->held; scope = scope->parent) {
        scope->held = true;
    }
    return (struct jinja_value){.kind = JINJA_MACRO, .macro = macro};
}

/* Returns and marks the argument of this name, unless a parameter has already taken it. */
static struct jinja_value take_named(const struct jinja_call *call, const char *name, bool *taken) {
    for (size_t k = 0; k < call->named_count; k++) {
        if (call->names[k] == name && !taken[k]) {
            taken[k] = true;
            return call->named[k];
        }
    }
    return (struct jinja_value){.kind = JINJA_UNSET};
}

/* Binds the arguments that no parameter has taken. Such arguments go to caller, kwargs and varargs if the macro reads
 * these names; otherwise they are an error. */
static void bind_rest(struct jinja *j, const struct jinja_node *node, const struct jinja_call *call, bool *taken) {
    struct jinja_value varargs = jinja_list(j, JINJA_TUPLE), kwargs = jinja_dict(j, JINJA_DICT);
    if (j->status == KVC_OK && (node->specials & JINJA_CALLER)) {
        const struct jinja_value caller = take_named(call, j->caller, taken);
        const bool given = caller.kind != JINJA_UNSET && caller.kind != JINJA_NONE;
        jinja_assign(j, j->scope, j->caller, given ? caller : jinja_undefined("caller"));
    }
    for (size_t i = node->count; i < call->count && j->status == KVC_OK; i++) {
        jinja_add(j, varargs, call->values[i]);
    }
    for (size_t k = 0; k < call->named_count && j->status == KVC_OK; k++) {
        if (!taken[k]) {
            jinja_set(j, kwargs.dict, jinja_literal(j, call->names[k], strlen(call->names[k])), call->named[k]);
        }
    }
    if (j->status != KVC_OK) {
        return;
    }
    if ((varargs.list->count && !(node->specials & JINJA_VARARGS)) ||
        (kwargs.dict->count && !(node->specials & JINJA_KWARGS))) {
        jinja_fail(j, "macro \"%.40s\" gets an argument that it does not take", node->name);
    }
    if (node->specials & JINJA_VARARGS) {
        jinja_assign(j, j->scope, jinja_intern(j, "varargs", 7), varargs);
    }
    if (node->specials & JINJA_KWARGS) {
        jinja_assign(j, j->scope, jinja_intern(j, "kwargs", 6), kwargs);
    }
}

/* Binds the parameters. Defaults are evaluated last, because they may refer to any other parameter. */
static void bind_parameters(struct jinja *j, const struct jinja_node *node, const struct jinja_call *call) {
    bool *taken = jinja_alloc(j, (call->named_count + node->count + 1) * sizeof *taken);
    bool *missing = taken ? taken + call->named_count : NULL;
    size_t i = 0;
    if (!taken) {
        return;
    }
    for (const struct jinja_node *item = node->items; item && j->status == KVC_OK; item = item->next, i++) {
        struct jinja_value value = i < call->count ? call->values[i] : take_named(call, item->name, taken);
        missing[i] = value.kind == JINJA_UNSET;
        jinja_assign(j, j->scope, item->name, missing[i] ? jinja_undefined(item->name) : value);
    }
    bind_rest(j, node, call, taken);
    i = 0;
    for (const struct jinja_node *item = node->items; item && j->status == KVC_OK; item = item->next, i++) {
        if (missing[i] && item->b) {
            jinja_assign(j, j->scope, item->name, jinja_evaluate(j, item->b));
        }
    }
}

struct jinja_value jinja_call_macro(struct jinja *j, const struct jinja_macro *macro, const struct jinja_call *call) {
    struct jinja_scope *outer = j->scope;
    struct jinja_text text = {0};
    if (!jinja_enter(j)) {
        jinja_leave(j);
        return jinja_undefined(NULL);
    }
    j->scope = jinja_scope_open(j, macro->scope);
    if (j->scope) {
        bind_parameters(j, macro->node, call);
        execute_into(j, macro->node->body, &text);
    }
    j->scope = outer;
    jinja_leave(j);
    return jinja_taken(j, &text);
}

static void run_call_block(struct jinja *j, const struct jinja_node *node) {
    const struct jinja_value value = jinja_call_with(j, node->a, j->caller, make_macro(j, node));
    jinja_put_str(j, j->out, value);
}

/* Runs {% with %} or {% generation %}. The values of its variables are evaluated in the outer scope. */
static enum jinja_flow run_scope(struct jinja *j, const struct jinja_node *node) {
    struct jinja_scope *outer = j->scope, *inner = jinja_scope_open(j, outer);
    for (const struct jinja_node *item = node->items; item && inner && j->status == KVC_OK; item = item->next) {
        const struct jinja_value value = jinja_evaluate(j, item->b);
        jinja_assign(j, inner, item->a->name, value);
    }
    if (!inner) {
        return JINJA_ON;
    }
    j->scope = inner;
    const enum jinja_flow flow = jinja_execute(j, node->body);
    j->scope = outer;
    return flow;
}

/* ---- statements ---- */

static enum jinja_flow run_if(struct jinja *j, const struct jinja_node *node) {
    for (; node && j->status == KVC_OK; node = node->other) {
        j->line = node->line;
        if (jinja_true(j, jinja_evaluate(j, node->a))) {
            return j->status == KVC_OK ? jinja_execute(j, node->body) : JINJA_ON;
        }
        if (!node->chained) {
            return node->other ? jinja_execute(j, node->other) : JINJA_ON;
        }
    }
    return JINJA_ON;
}

static enum jinja_flow execute_run(struct jinja *j, const struct jinja_node *node) {
    enum jinja_flow flow = JINJA_ON;
    struct jinja_value value;
    switch (node->kind) {
    case JINJA_DATA:
        jinja_put_all(j, j->out, node->value.string);
        break;
    case JINJA_PRINT:
        jinja_put_str(j, j->out, jinja_evaluate(j, node->a));
        break;
    case JINJA_IF:
        return run_if(j, node);
    case JINJA_FOR:
        return run_for(j, node);
    case JINJA_SET:
        value = jinja_evaluate(j, node->b);
        jinja_bind_target(j, node->a, value);
        break;
    case JINJA_SET_BLOCK:
        value = text_of(j, node->body, &flow);
        jinja_bind_target(j, node->a, filtered(j, node->b, value));
        break;
    case JINJA_MACRO_OF:
        jinja_assign(j, j->scope, node->name, make_macro(j, node));
        break;
    case JINJA_CALL_BLOCK:
        run_call_block(j, node);
        break;
    case JINJA_FILTER_BLOCK:
        value = filtered(j, node->a, text_of(j, node->body, &flow));
        if (value.kind == JINJA_STRING) {
            jinja_put_all(j, j->out, value.string);
        } else {
            jinja_fail(j, "a filter block makes a %s; it must be a string", jinja_type(value));
        }
        break;
    case JINJA_SCOPE:
        return run_scope(j, node);
    case JINJA_BREAK:
        return JINJA_BROKEN;
    case JINJA_CONTINUE:
        return JINJA_CONTINUED;
    default:
        break;
    }
    return flow;
}

enum jinja_flow jinja_execute(struct jinja *j, const struct jinja_node *node) {
    enum jinja_flow flow = JINJA_ON;
    if (jinja_enter(j)) {
        for (; node && flow == JINJA_ON && j->status == KVC_OK && jinja_step(j, 1); node = node->next) {
            j->line = node->line;
            flow = execute_run(j, node);
        }
    }
    jinja_leave(j);
    return flow;
}

/* scope.c - variables and their scopes. Each body of a loop or macro, and each {% set %}, {% call %} and {% filter %}
 * block, has its own scope. */
#include "models/jinja/parts.h"

#include "core/base/assert.h"

struct jinja_scope *jinja_scope_open(struct jinja *j, struct jinja_scope *parent) {
    struct jinja_scope *scope = jinja_alloc(j, sizeof *scope);
    if (scope) {
        scope->parent = parent;
    }
    return scope;
}

void jinja_assign(struct jinja *j, struct jinja_scope *scope, const char *name, struct jinja_value value) {
    if (j->status != KVC_OK) {
        return;
    }
    for (size_t i = 0; i < scope->count; i++) {
        if (scope->variables[i].name == name) {
            scope->variables[i].value = value;
            return;
        }
    }
    void *variables = scope->variables;
    if (jinja_grow(j, &variables, &scope->capacity, scope->count, sizeof *scope->variables)) {
        scope->variables = variables;
        scope->variables[scope->count++] = (struct jinja_variable){name, value};
        KVC_ASSERT(scope->count <= scope->capacity);
    }
}

const struct jinja_value *jinja_lookup(const struct jinja *j, const char *name) {
    for (const struct jinja_scope *scope = j->scope; scope; scope = scope->parent) {
        for (size_t i = 0; i < scope->count; i++) {
            if (scope->variables[i].name == name) {
                return &scope->variables[i].value;
            }
        }
    }
    return NULL;
}

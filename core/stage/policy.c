/* policy.c - parses a policy string, name[:option=value[,option=value]...][+name...], and checks it against the option
 * tables. The string is untrusted. */
#include "core/base/assert.h"
#include "core/base/integers.h"
#include "core/stage/policy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPEC_LIMIT 65536u

struct reader {
    const char *at;
    const struct kvc_engine *engine;
    struct kvc_error *error;
};

/* Reads a value up to ',', '+' or the end. A quoted value may contain these characters. A number may contain '+'
 * (1e+06), because no method's name begins with a digit. The caller frees *text. */
static enum kvc_status take_text(struct reader *reader, const char *what, char **text) {
    const char *from = reader->at;
    size_t length;
    if (*from == '"') {
        const char *close = strchr(++from, '"');
        if (!close)
            return kvc_fail(reader->error, KVC_USAGE, "policy: %s: a quote is not closed", what);
        length = (size_t)(close - from);
        reader->at = close + 1;
        if (*reader->at && *reader->at != ',' && *reader->at != '+')
            return kvc_fail(reader->error, KVC_USAGE, "policy: %s: ',' or '+' must follow the closing quote", what);
    } else {
        length = strcspn(from, ",+");
        while (from[length] == '+' && from[length + 1] >= '0' && from[length + 1] <= '9')
            length += 1 + strcspn(from + length + 1, ",+");
        reader->at = from + length;
    }
    *text = malloc(length + 1);
    if (!*text)
        return kvc_fail(reader->error, KVC_RESOURCE, "policy: no memory for %zu bytes", length + 1);
    memcpy(*text, from, length);
    (*text)[length] = 0;
    return KVC_OK;
}

static enum kvc_status take_option(struct reader *reader, struct kvc_values *values) {
    const struct kvc_policy_class *policy = values->policy;
    const size_t length = strcspn(reader->at, "=,+");
    if (reader->at[length] != '=' || length == 0) {
        const struct kvc_option *main = NULL; /* the budget option: a number without a name probably means it */
        for (size_t i = 0; reader->at[0] >= '0' && reader->at[0] <= '9' && i < values->count && !main; i++)
            if (kvc_policy_option(policy, i)->kind == KVC_OPTION_BUDGET)
                main = kvc_policy_option(policy, i);
        const int shown = (int)kvc_min_u64(length, 40);
        return kvc_fail(reader->error, KVC_USAGE, "policy %s: '%.*s': must be option=value%s%s%s%.*s", policy->name,
                        shown, reader->at, main ? ", as " : "", main ? main->name : "", main ? "=" : "",
                        main ? shown : 0, reader->at);
    }
    for (size_t i = 0; i < values->count; i++) {
        const struct kvc_option *option = kvc_policy_option(policy, i);
        if (strlen(option->name) != length || memcmp(option->name, reader->at, length))
            continue;
        struct kvc_value *value = &values->value[i];
        if (value->given)
            return kvc_fail(reader->error, KVC_USAGE, "policy %s: option '%s' is given twice", policy->name,
                            option->name);
        reader->at += length + 1;
        value->given = true;
        return take_text(reader, option->name, &value->text);
    }
    char known[240] = "", hint[KVC_NEAREST_HINT];
    struct kvc_nearest nearest = kvc_nearest(reader->at, length);
    for (size_t i = 0; i < values->count; i++) {
        const char *name = kvc_policy_option(policy, i)->name;
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", name);
        kvc_nearest_try(&nearest, name, strlen(name));
    }
    return kvc_fail(reader->error, KVC_USAGE, "policy %s: unknown option '%.*s'; it has %s%s", policy->name,
                    (int)kvc_min_u64(length, 40), reader->at, known, kvc_nearest_hint(&nearest, hint));
}

enum kvc_status kvc_policy_named(const struct kvc_policy_class *policy, enum kvc_status status,
                                 struct kvc_error *error) {
    if (status == KVC_OK || !error || strncmp(error->text, "policy: ", 8) != 0)
        return status;
    char text[sizeof error->text];
    memcpy(text, error->text, sizeof text);
    return kvc_fail(error, status, "policy %s%s", policy->name, text + 6);
}

/* Calls the class's check, for each layer if layers have their own budgets. */
static enum kvc_status check_values(const struct kvc_values *values, struct kvc_error *error) {
    const struct kvc_policy_class *policy = values->policy;
    uint32_t layers = 0;
    enum kvc_status status = policy->check ? policy->check(values, error) : KVC_OK;
    for (size_t i = 0; i < values->count; i++)
        layers = kvc_max_u32(layers, values->value[i].each_count);
    for (uint32_t l = 0; l < layers && status == KVC_OK && policy->check; l++) {
        struct kvc_values here = *values;
        here.layer = l;
        status = policy->check(&here, error);
    }
    return status;
}

/* Fills in defaults, parses every value, and calls the class's check. */
static enum kvc_status finish_values(struct kvc_values *values, struct kvc_error *error) {
    const struct kvc_policy_class *policy = values->policy;
    for (size_t i = 0; i < values->count; i++) {
        const struct kvc_option *option = kvc_policy_option(policy, i);
        struct kvc_value *value = &values->value[i];
        if (!value->text) {
            if (!option->default_value)
                return kvc_fail(error, KVC_USAGE, "policy %s: %s= is missing: %s", policy->name, option->name,
                                option->help);
            value->text = strdup(option->default_value);
            if (!value->text)
                return kvc_fail(error, KVC_RESOURCE, "policy %s: no memory", policy->name);
        }
        const enum kvc_status status = kvc_value_read(policy, option, value, error);
        if (status != KVC_OK)
            return status;
    }
    const char *layers = kvc_value_text(values, "layers");
    if (!kvc_layers_are_valid(layers))
        return kvc_fail(error, KVC_USAGE, "policy %s: layers=%.60s: must be numbers and ranges as 0-3/8", policy->name,
                        layers);
    const enum kvc_status status = check_values(values, error);
    if (status != KVC_OK)
        return kvc_policy_named(policy, status, error);
    if (policy->columns && policy->columns(values) > KVC_COLUMNS_MOST)
        return kvc_fail(error, KVC_USAGE, "policy %s: %u state columns; at most %u", policy->name,
                        policy->columns(values), KVC_COLUMNS_MOST);
    return status;
}

static enum kvc_status unknown_method(const struct reader *reader, size_t length) {
    struct kvc_nearest nearest = kvc_nearest(reader->at, length);
    const struct kvc_policy_class *policy;
    char hint[KVC_NEAREST_HINT];
    if (length == 0)
        return kvc_fail(reader->error, KVC_USAGE,
                        "policy: a method's name is missing; as in snapkv:budget=512+streaming:budget=512");
    for (size_t i = 0; (policy = kvc_policy(reader->engine, i)) != NULL; i++)
        kvc_nearest_try(&nearest, policy->name, strlen(policy->name));
    return kvc_fail(reader->error, KVC_USAGE, "policy '%.*s' is unknown%s", (int)kvc_min_u64(length, 40), reader->at,
                    nearest.name ? kvc_nearest_hint(&nearest, hint) : "; 'kvcull info methods' lists all");
}

static enum kvc_status take_method(struct reader *reader, struct kvc_method *method) {
    const size_t length = strcspn(reader->at, ":+");
    method->policy = kvc_engine_find_policy(reader->engine, reader->at, length);
    if (!method->policy)
        return unknown_method(reader, length);
    struct kvc_values *values = &method->values;
    values->policy = method->policy;
    values->count = kvc_policy_options(method->policy);
    values->layer = KVC_NO_LAYER;
    KVC_ASSERT(values->count > 0);
    values->value = calloc(values->count, sizeof *values->value);
    if (!values->value)
        return kvc_fail(reader->error, KVC_RESOURCE, "policy %s: no memory", method->policy->name);
    reader->at += length;
    if (*reader->at == ':') {
        do {
            reader->at++;
            const enum kvc_status status = take_option(reader, values);
            if (status != KVC_OK)
                return status;
        } while (*reader->at == ',');
    }
    return finish_values(values, reader->error);
}

enum kvc_status kvc_policy_parse(const struct kvc_engine *engine, const char *spec, struct kvc_policy **policy,
                                 struct kvc_error *error) {
    *policy = NULL;
    if (!spec)
        spec = "full";
    if (strlen(spec) > SPEC_LIMIT)
        return kvc_fail(error, KVC_USAGE, "policy: %zu characters; at most %u", strlen(spec), SPEC_LIMIT);
    struct kvc_policy *made = calloc(1, sizeof *made);
    if (!made)
        return kvc_fail(error, KVC_RESOURCE, "policy: no memory");
    made->spec = strdup(spec);
    struct reader reader = {spec, engine, error};
    enum kvc_status status = made->spec ? KVC_OK : kvc_fail(error, KVC_RESOURCE, "policy: no memory");
    while (status == KVC_OK) {
        struct kvc_method *grown = realloc(made->method, (made->count + 1) * sizeof *grown);
        if (!grown) {
            status = kvc_fail(error, KVC_RESOURCE, "policy: no memory");
            break;
        }
        made->method = grown;
        memset(&grown[made->count], 0, sizeof *grown);
        status = take_method(&reader, &grown[made->count++]);
        if (status != KVC_OK || *reader.at == 0)
            break;
        reader.at++; /* skip the '+' */
    }
    if (status == KVC_OK)
        status = kvc_policy_share(made, error);
    if (status != KVC_OK) {
        kvc_policy_free(made);
        return status;
    }
    KVC_ASSERT(made->count > 0 && *reader.at == 0); /* the whole text has been read */
    *policy = made;
    return KVC_OK;
}

void kvc_policy_free(struct kvc_policy *policy) {
    if (!policy)
        return;
    for (size_t i = 0; i < policy->count; i++) {
        struct kvc_values *values = &policy->method[i].values;
        for (size_t v = 0; values->value && v < values->count; v++) {
            free(values->value[v].text);
            free(values->value[v].each);
        }
        free(values->value);
    }
    free(policy->method);
    free(policy->spec);
    free(policy);
}

enum kvc_status kvc_policy_check(const struct kvc_engine *engine, const char *spec, struct kvc_error *error) {
    struct kvc_policy *policy;
    const enum kvc_status status = kvc_policy_parse(engine, spec, &policy, error);
    kvc_policy_free(policy);
    return status;
}

enum kvc_status kvc_policy_stages(const struct kvc_engine *engine, const char *spec, unsigned *stages,
                                  struct kvc_error *error) {
    struct kvc_policy *policy;
    *stages = 0;
    const enum kvc_status status = kvc_policy_parse(engine, spec, &policy, error);
    if (status != KVC_OK)
        return status;
    for (size_t i = 0; i < policy->count; i++)
        *stages |= policy->method[i].stages;
    kvc_policy_free(policy);
    return KVC_OK;
}

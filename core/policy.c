/* policy.c - reads name[:option=value[,option=value]...][+name...], checks it against the option tables, and shares
 * out the stages. The string is untrusted. */
#include "core/policy.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPEC_LIMIT 65536u

static const struct kvc_option common_options[] = {
    {"skip_layers", KVC_OPTION_INT, "0", 0, 1 << 20, NULL, "the first so many layers stay full"},
    {"layers", KVC_OPTION_TEXT, "all", 0, 0, NULL, "layers it acts on, as 0-3/8; the others stay full"},
    {"stages", KVC_OPTION_CHOICE, "both", 0, 0, "both|prompt|decode", "limits a method of two stages to one"},
    {NULL, KVC_OPTION_INT, NULL, 0, 0, NULL, NULL}};

const struct kvc_option *kvc_common_options(void) { return common_options; }

static size_t table_length(const struct kvc_option *options) {
    size_t n = 0;
    while (options && options[n].name)
        n++;
    return n;
}

/* Row i of the class's options followed by the common ones. */
static const struct kvc_option *option_at(const struct kvc_policy_class *policy, size_t i) {
    const size_t own = table_length(policy->options);
    return i < own ? &policy->options[i] : &common_options[i - own];
}

static size_t option_count(const struct kvc_policy_class *policy) {
    return table_length(policy->options) + table_length(common_options);
}

/* ---- values ---- */

static const struct kvc_value *find_value(const struct kvc_values *values, const char *name) {
    for (size_t i = 0; i < values->count; i++) {
        if (!strcmp(option_at(values->policy, i)->name, name))
            return &values->value[i];
    }
    return NULL;
}

int64_t kvc_value_int(const struct kvc_values *values, const char *name) {
    const struct kvc_value *value = find_value(values, name);
    return value ? value->integer : 0;
}

double kvc_value_real(const struct kvc_values *values, const char *name) {
    const struct kvc_value *value = find_value(values, name);
    return value ? value->real : 0;
}

const char *kvc_value_text(const struct kvc_values *values, const char *name) {
    const struct kvc_value *value = find_value(values, name);
    return value && value->text ? value->text : "";
}

bool kvc_value_is_share(const struct kvc_values *values, const char *name) {
    const struct kvc_value *value = find_value(values, name);
    return value && value->share;
}

bool kvc_value_given(const struct kvc_values *values, const char *name) {
    const struct kvc_value *value = find_value(values, name);
    return value && value->given;
}

uint64_t kvc_value_budget(const struct kvc_values *values, const char *name, uint64_t prompt, uint64_t least) {
    const struct kvc_value *value = find_value(values, name);
    if (!value)
        return least;
    if (!value->share)
        return (uint64_t)value->integer;
    const double share = floor((double)prompt * value->real / 100.0 + 0.5);
    const uint64_t tokens = share < (double)prompt ? (uint64_t)share : prompt;
    return tokens > least ? tokens : least;
}

static bool is_choice(const char *choices, const char *text) {
    const size_t length = strlen(text);
    for (const char *c = choices; c;) {
        const char *end = strchr(c, '|');
        const size_t n = end ? (size_t)(end - c) : strlen(c);
        if (n == length && n > 0 && !memcmp(c, text, n))
            return true;
        c = end ? end + 1 : NULL;
    }
    return false;
}

/* A plain decimal number; strtod alone would take "0x10", "inf" and leading blanks. */
static bool read_number(const char *text, size_t length, double *number) {
    char copy[64];
    bool digit = false;
    if (length == 0 || length >= sizeof copy)
        return false;
    for (size_t i = 0; i < length; i++) {
        const char c = text[i];
        if (c >= '0' && c <= '9')
            digit = true;
        else if (c != '.' && c != '-' && c != '+' && c != 'e' && c != 'E')
            return false;
    }
    memcpy(copy, text, length);
    copy[length] = 0;
    char *end;
    *number = strtod(copy, &end);
    return digit && *end == 0 && isfinite(*number);
}

static enum kvc_status wrong_value(const struct kvc_policy_class *policy, const struct kvc_option *option,
                                   const char *text, const char *right, struct kvc_error *error) {
    return kvc_fail(error, KVC_USAGE, "policy %s: %s=%.60s: must be %s", policy->name, option->name, text, right);
}

static enum kvc_status read_value(const struct kvc_policy_class *policy, const struct kvc_option *option,
                                  struct kvc_value *value, struct kvc_error *error) {
    const char *text = value->text;
    size_t length = strlen(text);
    char right[160];
    double number;
    switch (option->kind) {
    case KVC_OPTION_CHOICE:
        if (is_choice(option->choices, text))
            return KVC_OK;
        snprintf(right, sizeof right, "one of %s", option->choices);
        return wrong_value(policy, option, text, right, error);
    case KVC_OPTION_TEXT: /* only a default may be empty */
        if (length > 0 || !value->given)
            return KVC_OK;
        return wrong_value(policy, option, text, "a text that is not empty", error);
    case KVC_OPTION_BUDGET:
        if (length > 0 && text[length - 1] == '%') {
            value->share = true;
            if (read_number(text, length - 1, &number) && number > 0 && number <= 100) {
                value->real = number;
                return KVC_OK;
            }
            return wrong_value(policy, option, text, "above 0% and at most 100% of the prompt", error);
        }
        break;
    case KVC_OPTION_INT:
    case KVC_OPTION_REAL:
        break;
    }
    const bool whole = option->kind != KVC_OPTION_REAL;
    if (read_number(text, length, &number) && number >= option->minimum && number <= option->maximum &&
        (!whole || floor(number) == number)) {
        value->real = number;
        value->integer = whole ? (int64_t)number : 0;
        return KVC_OK;
    }
    snprintf(right, sizeof right, "a%s number from %.10g to %.10g%s", whole ? " whole" : "", option->minimum,
             option->maximum, option->kind == KVC_OPTION_BUDGET ? ", or a share of the prompt as 10%" : "");
    return wrong_value(policy, option, text, right, error);
}

/* ---- layers=a-b/c ---- */

/* Reads one a or a-b at *text and moves past it and a following '/'. */
static bool read_layer_range(const char **text, unsigned long *from, unsigned long *to) {
    char *end;
    if (**text < '0' || **text > '9')
        return false;
    errno = 0;
    *from = *to = strtoul(*text, &end, 10);
    if (*end == '-') {
        if (end[1] < '0' || end[1] > '9')
            return false;
        *to = strtoul(end + 1, &end, 10);
    }
    if (errno || *to < *from || *to > (1ul << 20))
        return false;
    if (*end == '/') {
        *text = end + 1;
        return **text != 0;
    }
    *text = end;
    return *end == 0;
}

static bool layers_are_valid(const char *text) {
    unsigned long from, to;
    if (!strcmp(text, "all"))
        return true;
    if (!*text)
        return false;
    while (*text) {
        if (!read_layer_range(&text, &from, &to))
            return false;
    }
    return true;
}

bool kvc_method_acts(const struct kvc_method *method, uint32_t layer) {
    if ((int64_t)layer < kvc_value_int(&method->values, "skip_layers"))
        return false;
    const char *text = kvc_value_text(&method->values, "layers");
    if (!strcmp(text, "all"))
        return true;
    unsigned long from, to;
    while (*text && read_layer_range(&text, &from, &to)) {
        if (layer >= from && layer <= to)
            return true;
    }
    return false;
}

enum kvc_status kvc_policy_check_layers(const struct kvc_policy *policy, uint32_t layers, struct kvc_error *error) {
    for (size_t i = 0; i < policy->count; i++) {
        const struct kvc_values *values = &policy->method[i].values;
        const char *name = values->policy->name, *text = kvc_value_text(values, "layers"), *at = text;
        const int64_t skip = kvc_value_int(values, "skip_layers");
        unsigned long from, to;
        if (skip >= layers)
            return kvc_fail(error, KVC_USAGE, "policy %s: skip_layers=%lld: must be 0 to %u; there are %u layers", name,
                            (long long)skip, layers - 1, layers);
        while (strcmp(text, "all") && *at && read_layer_range(&at, &from, &to)) {
            if (to >= layers)
                return kvc_fail(error, KVC_USAGE, "policy %s: layers=%.60s: must lie in 0-%u; there are %u layers",
                                name, text, layers - 1, layers);
        }
        uint32_t first = 0;
        while (first < layers && !kvc_method_acts(&policy->method[i], first))
            first++;
        if (first == layers)
            return kvc_fail(error, KVC_USAGE, "policy %s: layers=%.60s and skip_layers=%lld leave no layer to act on",
                            name, text, (long long)skip);
    }
    return KVC_OK;
}

/* ---- parsing ---- */

struct reader {
    const char *at;
    const struct kvc_engine *engine;
    struct kvc_error *error;
};

/* A value up to ',', '+' or the end; a quoted one may hold those. malloc'ed. */
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
    if (reader->at[length] != '=' || length == 0)
        return kvc_fail(reader->error, KVC_USAGE, "policy %s: '%.*s': must be option=value", policy->name,
                        (int)(length > 40 ? 40 : length), reader->at);
    for (size_t i = 0; i < values->count; i++) {
        const struct kvc_option *option = option_at(policy, i);
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
    char known[240] = "";
    for (size_t i = 0; i < values->count; i++) {
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", option_at(policy, i)->name);
    }
    return kvc_fail(reader->error, KVC_USAGE, "policy %s: unknown option '%.*s'; it has %s", policy->name,
                    (int)(length > 40 ? 40 : length), reader->at, known);
}

/* Fills in defaults, reads every value, and asks the class. */
static enum kvc_status finish_values(struct kvc_values *values, struct kvc_error *error) {
    const struct kvc_policy_class *policy = values->policy;
    for (size_t i = 0; i < values->count; i++) {
        const struct kvc_option *option = option_at(policy, i);
        struct kvc_value *value = &values->value[i];
        if (!value->text) {
            if (!option->standard)
                return kvc_fail(error, KVC_USAGE, "policy %s: %s= is missing: %s", policy->name, option->name,
                                option->help);
            value->text = strdup(option->standard);
            if (!value->text)
                return kvc_fail(error, KVC_RESOURCE, "policy %s: no memory", policy->name);
        }
        const enum kvc_status status = read_value(policy, option, value, error);
        if (status != KVC_OK)
            return status;
    }
    const char *layers = kvc_value_text(values, "layers");
    if (!layers_are_valid(layers))
        return kvc_fail(error, KVC_USAGE, "policy %s: layers=%.60s: must be numbers and ranges as 0-3/8", policy->name,
                        layers);
    const enum kvc_status status = policy->check ? policy->check(values, error) : KVC_OK;
    if (status == KVC_OK && policy->columns && policy->columns(values) > KVC_COLUMNS_MOST)
        return kvc_fail(error, KVC_USAGE, "policy %s: %u state columns; at most %u", policy->name,
                        policy->columns(values), KVC_COLUMNS_MOST);
    return status;
}

static enum kvc_status take_method(struct reader *reader, struct kvc_method *method) {
    const size_t length = strcspn(reader->at, ":+");
    method->policy = kvc_engine_find_policy(reader->engine, reader->at, length);
    if (!method->policy)
        return kvc_fail(reader->error, KVC_USAGE,
                        length ? "policy '%.*s' is unknown; 'kvcull info methods' lists what there is"
                               : "policy%.*s: a method's name is missing; as in snapkv:budget=512+streaming:budget=512",
                        (int)(length > 40 ? 40 : length), reader->at);
    struct kvc_values *values = &method->values;
    values->policy = method->policy;
    values->count = option_count(method->policy);
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

/* ---- stages ---- */

static enum kvc_status limit_stages(struct kvc_method *method, struct kvc_error *error) {
    const char *text = kvc_value_text(&method->values, "stages");
    method->stages = method->policy->stages;
    if (!strcmp(text, "both"))
        return KVC_OK;
    const unsigned two = KVC_STAGE_PROMPT | KVC_STAGE_DECODE;
    if ((method->stages & two) != two)
        return kvc_fail(error, KVC_USAGE, "policy %s: stages=%s: only a method of both stages can be limited to one",
                        method->policy->name, text);
    method->stages &= ~two;
    method->stages |= !strcmp(text, "prompt") ? (unsigned)KVC_STAGE_PROMPT : (unsigned)KVC_STAGE_DECODE;
    return KVC_OK;
}

/* How readily a method gives up a stage that another wants: 0 not at all, also where it was told which stage to act at;
 * one of prompt and propagate before one that must have all its stages; one of prompt and decode before these, too. */
static int readiness(const struct kvc_method *method) {
    const unsigned stages = method->policy->stages;
    if (kvc_value_given(&method->values, "stages"))
        return 0;
    return stages == (KVC_STAGE_PROMPT | KVC_STAGE_DECODE)      ? 2
           : stages == (KVC_STAGE_PROMPT | KVC_STAGE_PROPAGATE) ? 1
                                                                : 0;
}

static const char *stage_name(unsigned stage) {
    switch (stage) {
    case KVC_STAGE_CHUNK:
        return "chunk";
    case KVC_STAGE_PROMPT:
        return "prompt";
    case KVC_STAGE_PROPAGATE:
        return "propagate";
    case KVC_STAGE_SELECT:
        return "select";
    default:
        return "decode";
    }
}

/* Who holds a stage: those that must have it choose first, the others take what is free. Two that want it alike clash. */
static enum kvc_status share_stage(struct kvc_policy *policy, unsigned stage, struct kvc_error *error) {
    struct kvc_method *holder = NULL;
    for (int ready = 0; ready <= 2; ready++)
        for (size_t i = 0; i < policy->count; i++) {
            struct kvc_method *method = &policy->method[i];
            if (readiness(method) != ready || !(method->stages & stage))
                continue;
            if (holder && readiness(holder) == ready)
                return kvc_fail(error, KVC_USAGE,
                                "policy: %s and %s both act at the %s stage; one of them must be left out%s",
                                holder->policy->name, method->policy->name, stage_name(stage),
                                ready == 2 ? " or limited by stages=" : "");
            if (holder)
                method->stages &= ~stage;
            else
                holder = method;
        }
    return KVC_OK;
}

static enum kvc_status share_stages(struct kvc_policy *policy, struct kvc_error *error) {
    enum kvc_status status = KVC_OK;
    for (size_t i = 0; i < policy->count && status == KVC_OK; i++)
        status = limit_stages(&policy->method[i], error);
    for (unsigned stage = KVC_STAGE_CHUNK; stage <= KVC_STAGE_DECODE && status == KVC_OK; stage <<= 1)
        status = share_stage(policy, stage, error);
    if (status != KVC_OK)
        return status;
    const struct kvc_method *chunk = kvc_policy_holder(policy, KVC_STAGE_CHUNK);
    const struct kvc_method *propagate = kvc_policy_holder(policy, KVC_STAGE_PROPAGATE);
    if (chunk && propagate)
        return kvc_fail(error, KVC_USAGE,
                        "policy: %s reads the prompt in chunks, but %s chooses among all of its rows; one of them must be "
                        "left out",
                        chunk->policy->name, propagate->policy->name);
    for (size_t i = 0; i < policy->count; i++) {
        if (policy->method[i].policy->stages && !policy->method[i].stages)
            return kvc_fail(error, KVC_USAGE, "policy: %s has no stage left to act at; the other methods hold both",
                            policy->method[i].policy->name);
    }
    return KVC_OK;
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
        reader.at++; /* '+' */
    }
    if (status == KVC_OK)
        status = share_stages(made, error);
    if (status != KVC_OK) {
        kvc_policy_free(made);
        return status;
    }
    *policy = made;
    return KVC_OK;
}

void kvc_policy_free(struct kvc_policy *policy) {
    if (!policy)
        return;
    for (size_t i = 0; i < policy->count; i++) {
        struct kvc_values *values = &policy->method[i].values;
        for (size_t v = 0; values->value && v < values->count; v++)
            free(values->value[v].text);
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

unsigned kvc_policy_stages(const struct kvc_engine *engine, const char *spec) {
    struct kvc_policy *policy;
    unsigned stages = 0;
    if (kvc_policy_parse(engine, spec, &policy, NULL) != KVC_OK)
        return 0;
    for (size_t i = 0; i < policy->count; i++)
        stages |= policy->method[i].stages;
    kvc_policy_free(policy);
    return stages;
}

const struct kvc_method *kvc_policy_holder(const struct kvc_policy *policy, enum kvc_stage_kind stage) {
    for (size_t i = 0; i < policy->count; i++) {
        if (policy->method[i].stages & (unsigned)stage)
            return &policy->method[i];
    }
    return NULL;
}

/* policy_values.c - the options of a method: their tables, the given values and their ranges, and the layers on which
 * it acts. */
#include "core/stage/policy.h"

#include "core/base/assert.h"
#include "core/base/integers.h"
#include "core/base/budget_split.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct kvc_option common_options[] = {
    {"skip_layers", KVC_OPTION_INT, "0", 0, 1 << 20, NULL, "number of layers, from the first, that stay full"},
    {"layers", KVC_OPTION_TEXT, "all", 0, 0, NULL, "layers that the method acts on, as 0-3/8; the others stay full"},
    {"stages", KVC_OPTION_CHOICE, "both", 0, 0, "both|prompt|decode", "limits a method of two stages to one"},
    {NULL, KVC_OPTION_INT, NULL, 0, 0, NULL, NULL}};

const struct kvc_option *kvc_common_options(void) { return common_options; }

static size_t table_length(const struct kvc_option *options) {
    size_t n = 0;
    while (options && options[n].name)
        n++;
    return n;
}

const struct kvc_option *kvc_policy_option(const struct kvc_policy_class *policy, size_t i) {
    const size_t own = table_length(policy->options);
    KVC_ASSERT(i < own + table_length(common_options));
    return i < own ? &policy->options[i] : &common_options[i - own];
}

size_t kvc_policy_options(const struct kvc_policy_class *policy) {
    return table_length(policy->options) + table_length(common_options);
}

/* ---- values ---- */

static const struct kvc_value *find_value(const struct kvc_values *values, const char *name) {
    for (size_t i = 0; i < values->count; i++) {
        const struct kvc_value *value = &values->value[i];
        if (!strcmp(kvc_policy_option(values->policy, i)->name, name))
            return value->each && values->layer != KVC_NO_LAYER ? &value->each[values->layer] : value;
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
    return value && (value->share || value->split);
}

bool kvc_value_given(const struct kvc_values *values, const char *name) {
    const struct kvc_value *value = find_value(values, name);
    return value && value->given;
}

/* Returns a budget as a number of tokens, at least 1. A percentage refers to the prompt's tokens. */
static uint64_t tokens_of(const struct kvc_value *value, uint64_t prompt) {
    if (!value->share)
        return (uint64_t)value->integer;
    const double share = floor((double)prompt * value->real / 100.0 + 0.5);
    KVC_ASSERT(value->real > 0 && value->real <= 100);
    return kvc_max_u64(share < (double)prompt ? (uint64_t)share : prompt, 1);
}

bool kvc_value_split(const struct kvc_values *values, const char *name, uint64_t prompt, uint64_t *total) {
    const struct kvc_value *value = find_value(values, name);
    if (!value || !value->split)
        return false;
    *total = tokens_of(value, prompt);
    return true;
}

uint64_t kvc_value_budget(const struct kvc_values *values, const char *name, uint64_t prompt, uint64_t least) {
    const struct kvc_value *value = find_value(values, name);
    if (!value)
        return least;
    if (!value->share && !value->split)
        return (uint64_t)value->integer;
    const uint64_t tokens = tokens_of(value, prompt);
    return kvc_max_u64(value->split ? kvc_budget_split(prompt, tokens, 1, -1).kept : tokens, least);
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

static enum kvc_status wrong_value(const struct kvc_policy_class *policy, const struct kvc_option *option,
                                   const struct kvc_value *value, const char *right, struct kvc_error *error) {
    return kvc_fail(error, KVC_USAGE, "policy %s: %s=%.60s: must be %s", policy->name, option->name, value->text,
                    right);
}

/* Parses text [length] as a budget. */
static bool read_budget(const char *text, size_t length, const struct kvc_option *option, struct kvc_value *value) {
    value->share = length > 0 && text[length - 1] == '%';
    if (!kvc_decimal(text, length - value->share, &value->real))
        return false;
    if (value->share)
        return value->real > 0 && value->real <= 100;
    value->integer = value->real >= option->minimum && value->real <= option->maximum ? (int64_t)value->real : 0;
    return value->integer > 0 && (double)value->integer == value->real;
}

/* Parses budgets as 512/256/128, one for each layer. */
static enum kvc_status read_budgets(const struct kvc_policy_class *policy, const struct kvc_option *option,
                                    struct kvc_value *value, struct kvc_error *error) {
    uint32_t count = 1;
    for (const char *c = value->text; *c; c++)
        count += *c == '/';
    value->each = calloc(count, sizeof *value->each);
    if (!value->each)
        return kvc_fail(error, KVC_RESOURCE, "policy %s: no memory for %u budgets", policy->name, count);
    value->each_count = count;
    const char *at = value->text;
    for (uint32_t i = 0; i < count; i++, at++) {
        struct kvc_value *one = &value->each[i];
        const size_t length = strcspn(at, "/");
        one->given = true;
        if (!read_budget(at, length, option, one) || one->share != value->each[0].share)
            return wrong_value(policy, option, value, "for each layer a number of tokens, or for each a share as 10%",
                               error);
        if (i == 0 || one->real < value->real) {
            value->share = one->share;
            value->integer = one->integer;
            value->real = one->real;
        }
        at += length;
    }
    return KVC_OK;
}

enum kvc_status kvc_value_read(const struct kvc_policy_class *policy, const struct kvc_option *option,
                               struct kvc_value *value, struct kvc_error *error) {
    const char *text = value->text;
    size_t length = strlen(text);
    char right[160 + KVC_NEAREST_HINT], hint[KVC_NEAREST_HINT];
    static const char split[] = "split:";
    const bool main_budget = !strcmp(option->name, "budget"); /* only this one may be split, or differ by layer */
    struct kvc_nearest nearest;
    double number;
    if (length == 0 && !value->given) /* an empty default */
        return KVC_OK;
    switch (option->kind) {
    case KVC_OPTION_CHOICE:
        if (is_choice(option->choices, text))
            return KVC_OK;
        nearest = kvc_nearest(text, length);
        kvc_nearest_try_choices(&nearest, option->choices);
        snprintf(right, sizeof right, "one of %s%s", option->choices, kvc_nearest_hint(&nearest, hint));
        return wrong_value(policy, option, value, right, error);
    case KVC_OPTION_TEXT:
        if (length > 0)
            return KVC_OK;
        return wrong_value(policy, option, value, "a text that is not empty", error);
    case KVC_OPTION_BUDGET:
        if (main_budget && strchr(text, '/'))
            return read_budgets(policy, option, value, error);
        value->split = main_budget && strncmp(text, split, sizeof split - 1) == 0;
        if (value->split)
            text += sizeof split - 1;
        length = strlen(text);
        if (read_budget(text, length, option, value)) {
            value->real = value->split && !value->share ? 0 : value->real;
            return KVC_OK;
        }
        if (value->share)
            return wrong_value(policy, option, value, "above 0% and at most 100% of the prompt", error);
        break;
    case KVC_OPTION_INT:
    case KVC_OPTION_REAL:
        break;
    }
    KVC_ASSERT(option->minimum <= option->maximum);
    const bool whole = option->kind != KVC_OPTION_REAL;
    const bool percent = !whole && option->minimum == 0 && option->maximum == 1 && length && text[length - 1] == '%';
    if (kvc_decimal(text, length - percent, &number) && number >= option->minimum &&
        number <= option->maximum * (percent ? 100 : 1) && (!whole || floor(number) == number)) {
        value->real = percent ? number / 100 : number;
        value->integer = whole ? (int64_t)number : 0;
        return KVC_OK;
    }
    snprintf(right, sizeof right, "a%s number from %.16g to %.16g%s", whole ? " whole" : "", option->minimum,
             option->maximum,
             option->kind != KVC_OPTION_BUDGET ? ""
             : main_budget                     ? ", or a share of the prompt as 10%, or split:512"
                                               : ", or a share of the prompt as 10%");
    return wrong_value(policy, option, value, right, error);
}

/* ---- layers=a-b/c ---- */

/* Parses one number or range (a or a-b) at *text and moves past it and a following '/'. */
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

bool kvc_layers_are_valid(const char *text) {
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

struct kvc_values kvc_method_values(const struct kvc_method *method, uint32_t layer) {
    struct kvc_values values = method->values;
    values.layer = layer;
    return values;
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
        const struct kvc_value *budget = find_value(values, "budget");
        if (budget && budget->each && budget->each_count != layers)
            return kvc_fail(error, KVC_USAGE, "policy %s: budget=%.60s: %u budgets; must be 1 or %u, one per layer",
                            name, budget->text, budget->each_count, layers);
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

/* policy_text.c - writes a policy as normalized text: every option with its value, given or default. Policies with the
 * same text behave the same. */
#include "core/stage/policy.h"

#include "core/base/assert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct text {
    char *bytes;
    size_t count, capacity;
    bool failed;
};

static void policy_text_add(struct text *text, const char *more) {
    const size_t length = strlen(more);
    if (text->failed)
        return;
    if (text->count + length + 1 > text->capacity) {
        const size_t capacity = 2 * (text->count + length) + 256;
        char *grown = realloc(text->bytes, capacity);
        text->failed = !grown;
        if (!grown)
            return;
        text->bytes = grown;
        text->capacity = capacity;
    }
    KVC_ASSERT(text->count + length < text->capacity);
    memcpy(text->bytes + text->count, more, length + 1);
    text->count += length;
}

/* Replaces the locale's decimal separator with a point. */
static void set_point(char *number) {
    char *point = number + strspn(number, "-0123456789");
    const size_t bytes = strcspn(point, "0123456789e%");
    if (bytes == 0)
        return;
    *point = '.';
    memmove(point + 1, point + bytes, strlen(point + bytes) + 1);
}

static void add_value(struct text *text, const struct kvc_option *option, const struct kvc_value *value) {
    char number[40];
    if (value->each) {
        policy_text_add(text, value->text);
        return;
    }
    policy_text_add(text, value->split ? "split:" : "");
    if (option->kind == KVC_OPTION_INT || (option->kind == KVC_OPTION_BUDGET && !value->share)) {
        snprintf(number, sizeof number, "%lld", (long long)value->integer);
    } else if (option->kind == KVC_OPTION_REAL || option->kind == KVC_OPTION_BUDGET) {
        snprintf(number, sizeof number, "%.17g%s", value->real, value->share ? "%" : "");
        set_point(number);
    } else {
        const bool quote = strpbrk(value->text, ",+ ") != NULL;
        policy_text_add(text, quote ? "\"" : "");
        policy_text_add(text, value->text);
        policy_text_add(text, quote ? "\"" : "");
        return;
    }
    policy_text_add(text, number);
}

char *kvc_policy_text(const struct kvc_policy *policy) {
    struct text text = {.bytes = NULL};
    for (size_t i = 0; i < policy->count; i++) {
        const struct kvc_values *values = &policy->method[i].values;
        char join = ':';
        policy_text_add(&text, i ? "+" : "");
        policy_text_add(&text, values->policy->name);
        for (size_t o = 0; o < values->count; o++) {
            const struct kvc_option *option = kvc_policy_option(values->policy, o);
            if (!values->value[o].text[0]) /* an empty default */
                continue;
            policy_text_add(&text, (const char[]){join, 0});
            policy_text_add(&text, option->name);
            policy_text_add(&text, "=");
            add_value(&text, option, &values->value[o]);
            join = ',';
        }
    }
    if (!text.failed)
        return text.bytes;
    free(text.bytes);
    return NULL;
}

/* specs.c - makes lists of policies. "all" is every method; kvcull verify also runs every choice of the methods'
 * options. */
#include <stdlib.h>
#include <string.h>

#include "cli/verify/verify.h"
#include "kvcull/policy.h"

static int add_spec(const struct cli_command *command, struct cli_texts *specs, const char *text) {
    struct cli_given *items = realloc(specs->items, (specs->count + 1) * sizeof *items);
    char *copy = strdup(text);

    if (items)
        specs->items = items;
    if (!items || !copy) {
        free(copy);
        return cli_no_memory(command);
    }
    items[specs->count++] = (struct cli_given){0, copy};
    return KVC_OK;
}

void cli_specs_free(struct cli_texts *specs) {
    for (size_t i = 0; i < specs->count; i++)
        free((char *)(uintptr_t)specs->items[i].text);
    cli_texts_free(specs);
}

/* Returns true if the policy can run on the model. A check of the model's geometry is not enough: positions=cache, for
 * example, excludes sliding windows. */
static bool suits(struct kvc_model *model, const char *spec, struct kvc_error *error) {
    struct kvc_session_options options;
    struct kvc_session *session = NULL;

    kvc_session_defaults(&options);
    options.policy = spec;
    const enum kvc_status status = kvc_session_open(model, &options, &session, error);
    kvc_session_close(session);
    return status != KVC_USAGE;
}

void cli_leave_out(const struct cli_command *command, const struct kvc_engine *engine, struct kvc_model *model,
                   struct kvc_entry_types types, struct cli_texts *specs) {
    const struct kvc_model_info *info = kvc_model_info(model);
    const struct kvc_geometry geometry = {info->layers, info->heads, info->kv_heads, info->head_size};
    size_t kept = 0;

    for (size_t i = 0; i < specs->count; i++) {
        struct kvc_formula formula;
        struct kvc_error error;

        if (specs->items[i].letter == '*' &&
            (kvc_formula(engine, specs->items[i].text, &geometry, types, 1, 0, &formula, &error) != KVC_OK ||
             !suits(model, specs->items[i].text, &error))) {
            cli_warn(command, "%s is left out: %s", specs->items[i].text, error.text);
            free((char *)(uintptr_t)specs->items[i].text);
            continue;
        }
        specs->items[kept++] = specs->items[i];
    }
    specs->count = kept;
}

/* Adds the spec if it is valid. Otherwise skips it with a warning, for example because the method needs a file. */
static int add_valid(const struct cli_command *command, const struct kvc_engine *engine, const char *spec,
                     struct cli_texts *specs) {
    struct kvc_error error;

    if (kvc_policy_check(engine, spec, &error) == KVC_OK) {
        const int status = add_spec(command, specs, spec);

        if (status == KVC_OK)
            specs->items[specs->count - 1].letter = '*';
        return status;
    }
    cli_warn(command, "%s is left out: %s", spec, error.text);
    return KVC_OK;
}

/* Writes "name:budget=..." with every option that is required, if it is a budget or a text. */
static void method_spec(const struct kvc_policy_class *policy, uint64_t budget, char *spec, size_t capacity) {
    snprintf(spec, capacity, "%s", policy->name);
    for (const struct kvc_option *option = policy->options; option && option->name; option++) {
        const char *join = strchr(spec, ':') ? "," : ":";
        size_t n = strlen(spec);

        if (option->kind == KVC_OPTION_BUDGET && (!option->default_value || strcmp(option->name, "budget") == 0))
            snprintf(spec + n, capacity - n, "%s%s=%llu", join, option->name, (unsigned long long)budget);
        else if (option->kind == KVC_OPTION_TEXT && !option->default_value &&
                 option->choices) /* a word that is valid for any model */
            snprintf(spec + n, capacity - n, "%s%s=%s", join, option->name, option->choices);
    }
}

int cli_all_specs(const struct cli_command *command, const struct cli_texts *given, uint64_t budget,
                  struct cli_texts *specs) {
    struct kvc_engine_options options = {.backend = "ref"};
    const struct kvc_policy_class *policy;
    struct kvc_engine *engine = NULL;
    struct kvc_error error;
    int status = KVC_OK;

    if (kvc_engine_open(&options, &engine, &error) != KVC_OK)
        return cli_report(command, &error);
    for (size_t i = 0; i < given->count && status == KVC_OK; i++) {
        if (strcmp(given->items[i].text, "all") != 0)
            status = add_spec(command, specs, given->items[i].text);
        for (size_t k = 0; strcmp(given->items[i].text, "all") == 0 && status == KVC_OK; k++) {
            char spec[256];

            if ((policy = kvc_policy(engine, k)) == NULL)
                break;
            method_spec(policy, budget, spec, sizeof spec);
            status = add_valid(command, engine, spec, specs);
        }
    }
    kvc_engine_close(engine);
    return status;
}

/* Returns a budget below the length of the prompt. If the prompt is long enough, the budget is above the usual
 * windows. */
static unsigned long long budget(const struct verify_arguments *a) { return cli_max((uint64_t)a->prompt / 3, 40); }

/* Returns true if policies that need a file are run, too. Policies with stored hashes must not depend on files. */
static bool brings_file(const struct verify_arguments *a) { return !a->write && strcmp(a->against, "stored") != 0; }

/* Adds a method with its required options, and then once more for each choice of its options that is not the default.
 */
static int add_method(const struct cli_command *command, const struct verify_arguments *a,
                      const struct kvc_engine *engine, const struct kvc_policy_class *policy, struct cli_texts *specs) {
    const struct kvc_option *option;
    char spec[256];
    int status;

    method_spec(policy, budget(a), spec, sizeof spec);
    if (policy->trial)
        snprintf(spec + strlen(spec), sizeof spec - strlen(spec), "%c%s", strchr(spec, ':') ? ',' : ':', policy->trial);
    status = add_valid(command, engine, spec, specs);
    for (option = policy->options; option && option->name && status == KVC_OK; option++) {
        const char *choice = option->kind == KVC_OPTION_CHOICE ? option->choices : NULL;

        while (choice && *choice && status == KVC_OK) {
            size_t n = strcspn(choice, "|");
            char with[320];

            bool default_value = option->default_value && strlen(option->default_value) == n &&
                                 !memcmp(option->default_value, choice, n);
            bool file = n == 4 && !memcmp("file", choice, n);

            if (!default_value && (!file || brings_file(a))) {
                snprintf(with, sizeof with, "%s%s%s=%.*s%s", spec, strchr(spec, ':') ? "," : ":", option->name, (int)n,
                         choice, file ? VERIFY_FILE : "");
                status = add_valid(command, engine, with, specs);
            }
            choice += n + (choice[n] == '|');
        }
    }
    return status;
}

static int specs_fill(const struct cli_command *command, const struct verify_arguments *a,
                      const struct kvc_engine *engine, struct cli_texts *specs) {
    /* Cases that single methods do not cover: a percentage, an interval, an excluded layer, and one pair of methods for
     * each kind of pair that can be joined (tests/core/test_policy.c lists the kinds). */
    static const char *const joined[] = {"snapkv:budget=%llu+morphkv:budget=%llu",
                                         "adakv:budget=%llu+scissorhands:budget=%llu",
                                         "snapkv:budget=%llu,skip_layers=1+streaming:budget=%llu",
                                         "morphkv:budget=%llu,every=3",
                                         "chunkkv:budget=%llu,gate=4",
                                         "dapq:budget=%llu,kernel=5,offset=-40",
                                         "finch:budget=%llu,window=8,chunk=24",
                                         "chunkkv:budget=%llu+snapkv-decode:budget=%llu,every=5",
                                         "expected:budget=%llu+rkv:budget=%llu,every=5",
                                         "fastkv:budget=%llu,tsp=48+h2o:budget=%llu",
                                         "take:budget=%llu,chunk=64,probe=8+pyramidkv:budget=%llu",
                                         "take:budget=%llu,chunk=64,probe=8+morphkv:budget=%llu",
                                         "take:budget=%llu,chunk=64,probe=8+quest:budget=%llu",
                                         "take:budget=%llu,chunk=64,probe=8+rocketkv:budget=%llu",
                                         "cake:budget=%llu+fastkv:budget=%llu,tsp=48",
                                         "fastkv:budget=%llu,tsp=48+sparq:budget=%llu",
                                         "rocketkv:budget=%llu+fastkv:budget=%llu,tsp=48",
                                         "adakv:budget=%llu+quest:budget=%llu",
                                         "adakv:budget=split:%llu+quest:budget=split:%llu,page=auto",
                                         "lacache:budget=%llu,span=2,sinks=4,positions=cache+hsa:budget=%llu",
                                         "rocketkv-mt:budget=%llu+keyformer:budget=%llu",
                                         "tova:budget=%llu+merging",
                                         "adakv:budget=%llu+snapkv-decode:budget=%llu,every=5+merging",
                                         "h2o:budget=%llu+cam:prompt=merge,span=5",
                                         "snapkv:budget=%llu+think:ratio=0.6,recent=0",
                                         "think:channels=3,window=5+quest:budget=%llu+morphkv:budget=%llu",
                                         "dapq:budget=%llu,kernel=5+hsa:budget=%llu+tova:budget=%llu"};
    bool all = a->specs.count == 0;
    const struct kvc_policy_class *policy;
    int status = KVC_OK;

    for (size_t i = 0; i < a->specs.count && status == KVC_OK; i++) {
        if (strcmp(a->specs.items[i].text, "all") == 0)
            all = true;
        else
            status = add_spec(command, specs, a->specs.items[i].text);
    }
    if (status == KVC_OK)
        status = cli_check_policies(command, engine, specs);
    for (size_t i = 0; all && status == KVC_OK && (policy = kvc_policy(engine, i)) != NULL; i++)
        status = add_method(command, a, engine, policy, specs);
    for (size_t i = 0; all && status == KVC_OK && i < sizeof joined / sizeof joined[0]; i++) {
        char spec[128];

        snprintf(spec, sizeof spec, joined[i], budget(a), budget(a), budget(a));
        status = add_valid(command, engine, spec, specs);
    }
    return status;
}

int verify_specs(const struct cli_command *command, const struct verify_arguments *a, struct cli_texts *specs) {
    struct cli_common common = a->common;
    struct kvc_engine *engine;
    int status;

    common.backend = "ref";
    status = cli_open_engine(command, &common, &engine);
    if (status == KVC_OK)
        status = specs_fill(command, a, engine, specs);
    kvc_engine_close(engine);
    return status;
}

/* methods.c - kvcull info methods: prints a table of all methods, or a page about one method, from the methods' own
 * tables. */
#include <math.h>
#include <string.h>

#include "cli/info/info.h"

void info_stages(unsigned stages, char text[64]) {
    static const char *const names[] = {"chunk", "prompt", "propagate", "select", "decode"};

    text[0] = '\0';
    for (unsigned i = 0; i < 5; i++)
        if (stages & (1u << i))
            snprintf(text + strlen(text), 64 - strlen(text), "%s%s", text[0] ? ", " : "", names[i]);
    if (!text[0])
        snprintf(text, 64, "none");
}

static void methods_bound(double value, char *text, size_t capacity) {
    if (value == floor(value) && fabs(value) < 1e15)
        snprintf(text, capacity, "%.0f", value);
    else
        snprintf(text, capacity, "%g", value);
}

void info_range(const struct kvc_option *option, char text[96]) {
    char low[32], high[32];

    methods_bound(option->minimum, low, sizeof low);
    methods_bound(option->maximum, high, sizeof high);
    switch (option->kind) {
    case KVC_OPTION_INT:
    case KVC_OPTION_REAL:
        if (option->maximum >= 2147483647.0)
            snprintf(text, 96, "%s or more", low);
        else
            snprintf(text, 96, "%s to %s", low, high);
        break;
    case KVC_OPTION_BUDGET:
        snprintf(text, 96, "tokens, or a share as 10%%");
        break;
    case KVC_OPTION_CHOICE:
        snprintf(text, 96, "%s", option->choices ? option->choices : "");
        break;
    default:
        snprintf(text, 96, "text");
        break;
    }
}

static void section(const char *title, const char *text) {
    if (!text[0])
        return;
    printf("\n%s\n", title);
    cli_wrap(stdout, text, 4);
}

static void sections(const struct kvc_policy_class *policy, const struct info_part *parts) {
    for (; parts->key; parts++)
        section(parts->title, info_text(policy, parts));
}

static int option_table(const struct cli_command *command, const struct kvc_option *options) {
    struct cli_table *table = cli_table_open("<    option|<default|<takes|<meaning");
    int status;

    for (; options && options->name; options++) {
        char range[96];

        info_range(options, range);
        cli_cell(table, "    %s", options->name);
        cli_cell(table, "%s",
                 options->default_value ? options->default_value[0] ? options->default_value : "-" : "(needed)");
        cli_cell(table, "%s", range);
        cli_cell(table, "%s", options->help ? options->help : "");
    }
    status = cli_table_print(command, table, stdout);
    cli_table_free(table);
    return status;
}

static int page(const struct cli_command *command, const struct kvc_policy_class *policy) {
    char stages[64];
    int status = KVC_OK;

    info_stages(policy->stages, stages);
    printf("%s - %s\n", policy->name, policy->summary);
    sections(policy, info_before);
    section("Stages", stages);
    if (policy->options && policy->options->name) {
        printf("\nOptions\n");
        status = option_table(command, policy->options);
    }
    if (policy->stages && status == KVC_OK) {
        printf("\nOptions that every method takes\n");
        status = option_table(command, kvc_common_options());
    }
    if (status != KVC_OK)
        return status;
    sections(policy, info_after);
    return cli_flush(command);
}

static json_t *options_json(const struct kvc_option *options) {
    static const char *const kinds[] = {"integer", "number", "budget", "choice", "text"};
    json_t *list = json_array();

    for (; options && options->name; options++) {
        json_t *one = json_object();

        cli_json_set(one, "name", json_string(options->name));
        cli_json_set(one, "kind", json_string(kinds[options->kind]));
        cli_json_set(one, "default", options->default_value ? json_string(options->default_value) : json_null());
        if (options->kind == KVC_OPTION_INT || options->kind == KVC_OPTION_REAL) {
            cli_json_set(one, "minimum", json_real(options->minimum));
            cli_json_set(one, "maximum", json_real(options->maximum));
        }
        if (options->kind == KVC_OPTION_CHOICE)
            cli_json_set(one, "choices", json_string(options->choices));
        cli_json_set(one, "help", json_string(options->help ? options->help : ""));
        if (json_array_append_new(list, one) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static void set_texts(json_t *one, const struct kvc_policy_class *policy, const struct info_part *parts) {
    for (; parts->key; parts++)
        cli_json_set(one, parts->key, json_string(info_text(policy, parts)));
}

static json_t *policy_json(const struct kvc_policy_class *policy) {
    json_t *one = json_object();
    char stages[64];

    cli_json_set(one, "name", json_string(policy->name));
    cli_json_set(one, "summary", json_string(policy->summary ? policy->summary : ""));
    set_texts(one, policy, info_before);
    set_texts(one, policy, info_after);
    info_stages(policy->stages, stages);
    cli_json_set(one, "stages", json_string(stages));
    cli_json_set(one, "options", options_json(policy->options));
    return one;
}

static const struct kvc_policy_class *methods_find(const struct kvc_engine *engine, const char *name) {
    const struct kvc_policy_class *policy;

    for (size_t i = 0; (policy = kvc_policy(engine, i)) != NULL; i++)
        if (strcmp(policy->name, name) == 0)
            return policy;
    return NULL;
}

static int methods_unknown(const struct cli_command *command, const struct kvc_engine *engine, const char *name) {
    const char *names[64], *near;
    size_t count = 0;

    for (size_t i = 0; kvc_policy(engine, i) && count < 63; i++)
        names[count++] = kvc_policy(engine, i)->name;
    names[count] = NULL;
    near = cli_nearest(name, names);
    if (near)
        return cli_error(command, KVC_USAGE, "%s: no such method; did you mean %s?", name, near);
    return cli_error(command, KVC_USAGE, "%s: no such method; `kvcull info methods` lists them", name);
}

/* Prints one kind of text, such as the summary, for every method. Each kind has its own table, because only the last
 * column of a table wraps. */
static int text_table(const struct cli_command *command, const struct kvc_engine *engine, const char *headings,
                      const char *(*text)(const struct kvc_policy_class *policy)) {
    const struct kvc_policy_class *policy;
    struct cli_table *table = cli_table_open(headings);
    int status;

    for (size_t i = 0; (policy = kvc_policy(engine, i)) != NULL; i++) {
        cli_cell(table, "%s", policy->name);
        cli_cell(table, "%s", text(policy) ? text(policy) : "-");
    }
    printf("\n");
    status = cli_table_print(command, table, stdout);
    cli_table_free(table);
    return status;
}

static const char *paper(const struct kvc_policy_class *policy) { return policy->paper; }
static const char *memory(const struct kvc_policy_class *policy) { return policy->memory; }
static const char *traffic(const struct kvc_policy_class *policy) { return policy->traffic; }

static int methods_list(const struct cli_command *command, const struct info_arguments *a,
                        const struct kvc_engine *engine) {
    const struct kvc_policy_class *policy;
    struct cli_table *table;
    int status;

    if (a->common.json) {
        json_t *root = json_object(), *all = json_array();

        for (size_t i = 0; all && (policy = kvc_policy(engine, i)) != NULL; i++)
            cli_json_add(all, policy_json(policy));
        cli_json_set(root, "methods", all);
        cli_json_set(root, "common_options", options_json(kvc_common_options()));
        return cli_json_print(command, root, stdout);
    }
    table = cli_table_open("<method|<stages|<what it does");
    for (size_t i = 0; (policy = kvc_policy(engine, i)) != NULL; i++) {
        char stages[64];

        info_stages(policy->stages, stages);
        cli_cell(table, "%s", policy->name);
        cli_cell(table, "%s", stages);
        cli_cell(table, "%s", policy->summary);
    }
    status = cli_table_print(command, table, stdout);
    cli_table_free(table);
    if (status == KVC_OK)
        status = text_table(command, engine, "<method|<memory", memory);
    if (status == KVC_OK)
        status = text_table(command, engine, "<method|<traffic", traffic);
    if (status == KVC_OK)
        status = text_table(command, engine, "<method|<paper", paper);
    if (status == KVC_OK && !a->common.quiet)
        printf("\nA policy is name:option=value,option=value; methods of different stages are joined by +.\n`kvcull "
               "info methods NAME` describes one.\n");
    return status == KVC_OK ? cli_flush(command) : status;
}

int info_methods(const struct cli_command *command, const struct info_arguments *a, const char *name) {
    struct kvc_engine *engine = NULL;
    const struct kvc_policy_class *policy;
    int status = cli_open_engine(command, &a->common, &engine);

    if (status != KVC_OK)
        return status;
    if (!name && a->man)
        status = info_methods_manual(command, engine);
    else if (!name && a->markdown)
        status = info_methods_markdown(command, engine);
    else if (!name)
        status = methods_list(command, a, engine);
    else if ((policy = methods_find(engine, name)) == NULL)
        status = methods_unknown(command, engine, name);
    else if (a->man)
        status = info_method_manual(command, policy);
    else if (a->markdown)
        status = info_method_markdown(command, policy);
    else if (a->common.json)
        status = cli_json_print(command, policy_json(policy), stdout);
    else
        status = page(command, policy);
    kvc_engine_close(engine);
    return status;
}

/* manual.c - prints the methods as manual pages (mdoc), from the methods' own tables. */
#include "cli/info/info.h"
#include "cli/roff.h"

static void roff_options(const struct kvc_option *options) {
    printf(".Bl -tag -width Ds\n");
    for (; options && options->name; options++) {
        char range[96];

        info_range(options, range);
        printf(".It Cm %s\n", options->name);
        cli_roff_sentence(options->help ? options->help : "");
        if (options->kind == KVC_OPTION_CHOICE)
            printf("One of %s.\n", range);
        else if (options->kind != KVC_OPTION_TEXT)
            printf("It takes %s.\n", range);
        if (options->default_value && options->default_value[0])
            printf("The default is %s.\n", options->default_value);
        else if (!options->default_value)
            printf("It must be given.\n");
    }
    printf(".El\n");
}

static void roff_part(const char *title, const char *text) {
    if (!text[0])
        return;
    printf(".Ss %s\n", title);
    cli_roff(text);
}

static void roff_parts(const struct kvc_policy_class *policy, const struct info_part *parts) {
    for (; parts->key; parts++)
        roff_part(parts->title, info_text(policy, parts));
}

static void roff_rules(const char *title, const struct info_rule *rules) {
    printf(".Ss %s\n.Bl -tag -width Ds\n", title);
    for (; rules->name; rules++) {
        printf(".It %s\n", rules->name);
        cli_roff_sentence(rules->text);
    }
    printf(".El\n");
}

int info_methods_manual(const struct cli_command *command, const struct kvc_engine *engine) {
    const struct kvc_policy_class *policy;

    cli_roff_head("info methods --man", "cli/info/rules.c", "kvcull-methods", 7,
                  "methods that keep a key-value cache small");
    printf(".Sh SYNOPSIS\n.Sm off\n.Ar name\n"
           ".Op : Ar option No = Ar value Op , Ar option No = Ar value ...\n.Op + Ar name No ...\n.Sm on\n"
           ".Sh DESCRIPTION\n");
    cli_roff(
        "A policy says which entries of the key-value cache are kept or read. It is one method with its options, or "
        "several of different stages joined by +. Lists inside a value use /; a value may stand in double quotes.");
    printf(".Ss Methods\nEach has a page of its own, with its formula and options.\n.Bl -tag -width Ds\n");
    for (size_t i = 0; (policy = kvc_policy(engine, i)) != NULL; i++) {
        char stages[64];

        info_stages(policy->stages, stages);
        printf(".It Xr kvcull-method-%s 7\n", policy->name);
        cli_roff_sentence(policy->summary);
        printf("Stages: %s.\n", stages);
    }
    printf(".El\n");
    roff_rules("Words", info_words);
    roff_rules("Stages, in their order", info_stage_rules);
    printf(".Pp\n");
    cli_roff(info_joining);
    printf(".Ss Rules for every method\n.Bl -enum\n");
    for (const struct info_rule *rule = info_rules; rule->name; rule++) {
        printf(".It\n.Em %s\n", rule->name);
        cli_roff(rule->text);
    }
    printf(".El\n");
    printf(".Ss Options that every method takes\n");
    roff_options(kvc_common_options());
    printf(".Sh SEE ALSO\n.Xr kvcull 1 ,\n.Xr kvcull-info 1\n");
    return cli_flush(command);
}

int info_method_manual(const struct cli_command *command, const struct kvc_policy_class *policy) {
    char arguments[96], page[96], stages[64];

    snprintf(arguments, sizeof arguments, "info methods %s --man", policy->name);
    snprintf(page, sizeof page, "kvcull-method-%s", policy->name);
    info_stages(policy->stages, stages);
    cli_roff_head(arguments, "the method's class in policies/", page, 7, policy->summary);
    printf(".Sh DESCRIPTION\n");
    roff_parts(policy, info_before);
    roff_part("Stages", stages);
    if (policy->options && policy->options->name) {
        printf(".Ss Options\n");
        roff_options(policy->options);
    }
    if (policy->stages)
        printf("%sThe options that every method takes are in\n.Xr kvcull-methods 7 .\n",
               policy->options && policy->options->name ? ".Pp\n" : ".Ss Options\n");
    roff_parts(policy, info_after);
    printf(".Sh SEE ALSO\n.Xr kvcull-info 1 ,\n.Xr kvcull-methods 7\n");
    return cli_flush(command);
}

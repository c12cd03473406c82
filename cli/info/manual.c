/* manual.c - the methods as a manual page (mdoc) and as Markdown, from the methods' own tables. */
#include <ctype.h>
#include <string.h>

#include "cli/info/info.h"
#include "cli/roff.h"

/* ---- mdoc -------------------------------------------------------------------------------------------------------- */

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

int info_method_manual(const struct cli_command *command, const struct kvc_engine *engine) {
    const struct kvc_policy_class *policy;

    printf(".\\\" Made by `kvcull info methods --man`; edit the tables in policies/ instead.\n"
           ".Dd November 21, 2026\n.Dt KVCULL-METHODS 7\n.Os kvcull\n.Sh NAME\n.Nm kvcull-methods\n"
           ".Nd methods that keep a key-value cache small\n.Sh SYNOPSIS\n.Sm off\n.Ar name\n"
           ".Op : Ar option No = Ar value Op , Ar option No = Ar value ...\n.Op + Ar name No ...\n.Sm on\n"
           ".Sh DESCRIPTION\n");
    cli_roff(
        "A policy says which entries of the key-value cache are kept or read. It is one method with its options, or "
        "several of different stages joined by +. Lists inside a value use /; a value may stand in double quotes.");
    roff_rules("Words", info_words);
    roff_rules("Stages, in the order in which they come", info_stage_rules);
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
    for (size_t i = 0; (policy = kvc_policy(engine, i)) != NULL; i++) {
        char stages[64];

        info_stages(policy->stages, stages);
        printf(".Sh %s\n", policy->name); /* in small letters, as it is written in a policy */
        cli_roff_sentence(policy->summary);
        roff_parts(policy, info_before);
        roff_part("Stages", stages);
        if (policy->options && policy->options->name) {
            printf(".Ss Options\n");
            roff_options(policy->options);
        }
        roff_parts(policy, info_after);
    }
    printf(".Sh SEE ALSO\n.Xr kvcull 1 ,\n.Xr kvcull-info 1\n");
    return cli_flush(command);
}

/* ---- Markdown ---------------------------------------------------------------------------------------------------- */

/* A table's cell: the bar is escaped. */
static void cell(const char *text) {
    for (; *text; text++) {
        if (*text == '|')
            fputc('\\', stdout);
        fputc(*text == '\n' ? ' ' : *text, stdout);
    }
}

static void markdown_options(const struct kvc_option *options) {
    printf("| option | default | takes | meaning |\n|---|---|---|---|\n");
    for (; options && options->name; options++) {
        char range[96];

        info_range(options, range);
        printf("| `%s` | %s | ", options->name,
               options->default_value ? options->default_value[0] ? options->default_value : "-" : "(needed)");
        cell(range);
        printf(" | ");
        cell(options->help ? options->help : "");
        printf(" |\n");
    }
}

static void markdown_part(const char *title, const char *text) {
    if (text[0])
        printf("\n**%s.** %s\n", title, text);
}

static void markdown_table(const char *headings, const struct info_rule *rules) {
    printf("\n| %s |\n|---|---|\n", headings);
    for (; rules->name; rules++)
        printf("| %s | %s |\n", rules->name, rules->text);
}

static void markdown_rules(void) {
    unsigned number = 0;

    printf("\n## Words\n");
    markdown_table("word | meaning", info_words);
    printf("\n## Rules for every method\n\n");
    for (const struct info_rule *rule = info_rules; rule->name; rule++)
        printf("%u. **%s** %s\n", ++number, rule->name, rule->text);
    printf("\n## Stages and composition\n");
    markdown_table("stage | when", info_stage_rules);
    printf("\n");
    cli_wrap(stdout, info_joining, 0);
    printf("\nOptions that every method takes:\n\n");
    markdown_options(kvc_common_options());
}

int info_method_markdown(const struct cli_command *command, const struct kvc_engine *engine) {
    const struct kvc_policy_class *policy;

    printf(
        "<!-- Made by `kvcull info methods --markdown`; edit the tables in policies/ and cli/info/rules.c instead. "
        "-->\n"
        "# Methods: what exactly is kept\n\nPapers leave details open; here they are fixed, so that every backend and "
        "every test means the same. Comments in the\nsource that name a rule mean the rule of that number on this "
        "page. "
        "A policy is `name:option=value,option=value`; methods of\ndifferent stages are joined by `+`.\n\n"
        "| method | stages | what it does |\n|---|---|---|\n");
    for (size_t i = 0; (policy = kvc_policy(engine, i)) != NULL; i++) {
        char stages[64];

        info_stages(policy->stages, stages);
        printf("| [%s](#%s) | %s | ", policy->name, policy->name, stages);
        cell(policy->summary);
        printf(" |\n");
    }
    markdown_rules();
    for (size_t i = 0; (policy = kvc_policy(engine, i)) != NULL; i++) {
        char stages[64];

        info_stages(policy->stages, stages);
        printf("\n## %s\n\n%c%s.\n", policy->name, toupper((unsigned char)policy->summary[0]), policy->summary + 1);
        markdown_part("Idea", policy->idea ? policy->idea : "");
        if (policy->formula && policy->formula[0]) {
            printf("\n**Formula.**\n\n```\n");
            cli_wrap(stdout, policy->formula, 0);
            printf("```\n");
        }
        markdown_part("Stages", stages);
        if (policy->options && policy->options->name) {
            printf("\n");
            markdown_options(policy->options);
        }
        for (const struct info_part *part = info_after; part->key; part++)
            markdown_part(part->title, info_text(policy, part));
    }
    return cli_flush(command);
}

/* markdown.c - prints the methods as Markdown (docs/reference/methods.md and docs/reference/methods/NAME.md), from the
 * methods' own tables. */
#include <ctype.h>

#include "cli/info/info.h"

/* Prints a table's cell and escapes bars. */
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

int info_methods_markdown(const struct cli_command *command, const struct kvc_engine *engine) {
    const struct kvc_policy_class *policy;

    printf(
        "<!-- Made by `kvcull info methods --markdown`; edit cli/info/rules.c instead. -->\n"
        "# Methods: which entries are kept\n\n"
        "Papers leave details open. This page defines them, so that every backend and every test agrees. Comments "
        "in the source\ncite a rule of this page by its number. A policy is written `name:option=value,option=value`, "
        "and `+` joins methods of\ndifferent stages.\n\n"
        "| method | stages | what it does |\n|---|---|---|\n");
    for (size_t i = 0; (policy = kvc_policy(engine, i)) != NULL; i++) {
        char stages[64];

        info_stages(policy->stages, stages);
        printf("| [%s](methods/%s.md) | %s | ", policy->name, policy->name, stages);
        cell(policy->summary);
        printf(" |\n");
    }
    markdown_rules();
    return cli_flush(command);
}

int info_method_markdown(const struct cli_command *command, const struct kvc_policy_class *policy) {
    char stages[64];
    info_stages(policy->stages, stages);
    printf("<!-- Made by `kvcull info methods %s --markdown`; edit the method's class in policies/ instead. -->\n"
           "# %s\n\n%c%s. Words, rules and the options that every method takes are in [methods](../methods.md).\n",
           policy->name, policy->name, toupper((unsigned char)policy->summary[0]), policy->summary + 1);
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
    return cli_flush(command);
}

/* info_manual.c - the methods as a manual page (mdoc) and as Markdown, from the methods' own tables. */
#include <string.h>

#include "cli/info.h"
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
        if (options->standard && options->standard[0])
            printf("The default is %s.\n", options->standard);
        else if (!options->standard)
            printf("It must be given.\n");
    }
    printf(".El\n");
}

static void roff_part(const char *title, const char *text) {
    if (!text || !text[0])
        return;
    printf(".Ss %s\n", title);
    cli_roff(text);
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
        "several of different stages joined by +. A method acts in one or more of five stages, in this order: chunk "
        "(after each prefill chunk), prompt (after the prompt, layer by layer), propagate (after one layer of the "
        "prompt), select (before each decode attention) and decode (after each decode step). Each stage is held by "
        "one method only. Lists inside a value use /; a value may be quoted.");
    printf(".Ss Options that every method takes\n");
    roff_options(kvc_common_options());
    for (size_t i = 0; (policy = kvc_policy(engine, i)) != NULL; i++) {
        char stages[64];

        info_stages(policy->stages, stages);
        printf(".Sh %s\n", policy->name); /* in small letters, as it is written in a policy */
        cli_roff_sentence(policy->summary);
        roff_part("Idea", policy->idea);
        roff_part("Formula", policy->formula);
        roff_part("Stages", stages);
        if (policy->options && policy->options->name) {
            printf(".Ss Options\n");
            roff_options(policy->options);
        }
        roff_part("Memory", policy->memory);
        roff_part("Traffic", policy->traffic);
        roff_part("Paper", policy->paper);
        roff_part("Differences from the authors' code", policy->differences);
    }
    printf(".Sh SEE ALSO\n.Xr kvcull 1 ,\n.Xr kvcull-info 1\n");
    return cli_flush(command);
}

/* ---- Markdown -----------------------------------------------------------------------------------------------------
 */

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
        printf("| `%s` | %s | ", options->name, options->standard ? options->standard : "(needed)");
        cell(range);
        printf(" | ");
        cell(options->help ? options->help : "");
        printf(" |\n");
    }
}

static void markdown_part(const char *title, const char *text) {
    if (text && text[0])
        printf("\n**%s.** %s\n", title, text);
}

int info_method_markdown(const struct cli_command *command, const struct kvc_engine *engine) {
    const struct kvc_policy_class *policy;

    printf("<!-- Made by `kvcull info methods --markdown`; edit the tables in policies/ instead. -->\n"
           "# Methods\n\nA policy is `name:option=value,option=value`; methods of different stages are joined by `+`. "
           "Each stage is held by one method only.\n\n| method | stages | what it does |\n|---|---|---|\n");
    for (size_t i = 0; (policy = kvc_policy(engine, i)) != NULL; i++) {
        char stages[64];

        info_stages(policy->stages, stages);
        printf("| [%s](#%s) | %s | ", policy->name, policy->name, stages);
        cell(policy->summary);
        printf(" |\n");
    }
    printf("\nOptions that every method takes:\n\n");
    markdown_options(kvc_common_options());
    for (size_t i = 0; (policy = kvc_policy(engine, i)) != NULL; i++) {
        char stages[64];

        info_stages(policy->stages, stages);
        printf("\n## %s\n\n%s.\n", policy->name, policy->summary);
        markdown_part("Idea", policy->idea);
        if (policy->formula && policy->formula[0])
            printf("\n**Formula.**\n\n```\n%s\n```\n", policy->formula);
        markdown_part("Stages", stages);
        if (policy->options && policy->options->name) {
            printf("\n");
            markdown_options(policy->options);
        }
        markdown_part("Memory", policy->memory);
        markdown_part("Traffic", policy->traffic);
        markdown_part("Paper", policy->paper);
        markdown_part("Differences from the authors' code", policy->differences);
    }
    return cli_flush(command);
}

/* completion.c - prints a command's options as lines, from which tools/completions.sh makes shell completions. */
#include <string.h>

#include "cli/cli.h"

/* Returns the kind of an option's value: "flag", "number", "size", "choice" or "text". */
static const char *kind_name(enum cli_kind kind) {
    switch (kind) {
    case CLI_FLAG:
        return "flag";
    case CLI_INT:
    case CLI_REAL:
    case CLI_COUNTS:
        return "number";
    case CLI_BYTES:
        return "size";
    case CLI_TYPE:
    case CLI_ENTRIES:
    case CLI_CHOICE:
        return "choice";
    default:
        return "text";
    }
}

/* Prints the first part of a help text, which is short enough for one line of a list. */
static void brief(const char *help) {
    size_t n = strcspn(help, ";:");
    const char *stop = strstr(help, ". "), *open = strstr(help, " (");

    if (stop && (size_t)(stop - help) < n)
        n = (size_t)(stop - help);
    if (open && (size_t)(open - help) < n)
        n = (size_t)(open - help);
    for (size_t i = 0; i < n; i++)
        fputc(help[i] == '\t' || help[i] == '\n' ? ' ' : help[i], stdout);
}

/* Prints one line for each option. Its fields, separated by tabs, are "letter name kind meta choices help". "-" is an
 * empty field, and '|' separates choices. */
void cli_completion(const struct cli_option *options) {
    for (; options->kind != CLI_END; options++) {
        char types[CLI_TYPES_BYTES];
        const char *choices = options->choices;

        if (options->kind == CLI_GROUP)
            continue;
        if (options->kind == CLI_TYPE && !choices) {
            char *to = types;

            for (const char *from = cli_weight_types(types); *from; from++)
                if (*from != ' ')
                    *to++ = *from == ',' ? '|' : *from;
            *to = '\0';
            choices = types;
        }
        printf("%c\t%s\t%s\t%s\t%s\t", options->letter ? options->letter : '-', options->name ? options->name : "-",
               kind_name(options->kind), options->meta ? options->meta : "-", choices ? choices : "-");
        brief(options->help);
        fputc('\n', stdout);
    }
}

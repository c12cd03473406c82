/* help.c - prints a command's help and its manual page, both from the same table. */
#include <string.h>

#include "cli/cli.h"
#include "cli/roff.h"

enum { WIDTH = 100, HELP_COLUMN = 30 };

/* Writes an option's default, which is the target's value before parsing. Returns false if the help shows no default.
 */
static bool defaults(const struct cli_option *option, char text[64]) {
    text[0] = '\0';
    switch (option->kind) {
    case CLI_TEXT:
    case CLI_CHOICE:
        if (*(const char *const *)option->target)
            snprintf(text, 64, "%s", *(const char *const *)option->target);
        break;
    case CLI_INT:
        if (*(const int64_t *)option->target >= 0)
            snprintf(text, 64, "%lld", (long long)*(const int64_t *)option->target);
        break;
    case CLI_REAL:
        if (*(const double *)option->target >= 0)
            snprintf(text, 64, "%g", *(const double *)option->target);
        break;
    case CLI_COUNTS: {
        const struct cli_counts *counts = option->target;

        for (size_t i = 0; i < counts->count; i++)
            snprintf(text + strlen(text), 64 - strlen(text), "%s%llu", i ? "," : "",
                     (unsigned long long)counts->items[i]);
        break;
    }
    case CLI_TYPE:
        if (*(const enum kvc_type *)option->target <
            KVC_TYPES) /* for other values, the help text itself explains the default */
            snprintf(text, 64, "%s", kvc_type_name(*(const enum kvc_type *)option->target));
        break;
    case CLI_ENTRIES:
        kvc_entry_types_name(*(const struct kvc_entry_types *)option->target, text);
        break;
    default:
        break;
    }
    return text[0] != '\0';
}

static size_t help_columns(const char *text, size_t bytes) {
    size_t n = 0;

    for (size_t i = 0; i < bytes; i++)
        n += ((unsigned char)text[i] & 0xc0) != 0x80;
    return n;
}

/* Prints the words of one paragraph. The first line continues at column `at`; further lines are indented. */
static void help_fill(FILE *stream, const char *text, size_t bytes, size_t at, unsigned indent) {
    size_t column = at;
    bool first = true;

    for (size_t i = 0; i < bytes;) {
        size_t n = 0, width;

        while (i < bytes && (text[i] == ' ' || text[i] == '\n'))
            i++;
        while (i + n < bytes && text[i + n] != ' ' && text[i + n] != '\n')
            n++;
        if (n == 0)
            break;
        width = help_columns(text + i, n);
        if (!first && column + 1 + width > WIDTH) {
            fprintf(stream, "\n%*s", (int)indent, "");
            column = indent;
        } else if (!first) {
            fputc(' ', stream);
            column++;
        }
        fwrite(text + i, 1, n, stream);
        column += width;
        first = false;
        i += n;
    }
    fputc('\n', stream);
}

void cli_wrap(FILE *stream, const char *text, unsigned indent) {
    while (*text) {
        const char *end = strstr(text, "\n\n");
        size_t bytes = end ? (size_t)(end - text) : strlen(text);

        fprintf(stream, "%*s", (int)indent, "");
        help_fill(stream, text, bytes, indent, indent);
        text += bytes;
        if (end) {
            fputc('\n', stream);
            text += 2;
        }
    }
}

/* Adds the choices as the user types them. If they are many, adds blanks at which a line may end. */
static void add_choices(char *help, size_t size, const char *choices) {
    const bool many = strlen(choices) > 60;
    size_t at = strlen(help);

    at += (size_t)snprintf(help + at, size - at, " [");
    for (; *choices && at + 3 < size; choices++) {
        help[at++] = *choices;
        if (many && *choices == '|')
            help[at++] = ' ';
    }
    snprintf(help + at, size - at, "]");
}

static const char *const common_name[] = {"help", "version"};
static const char *const common_help[] = {"print this help", "print the version"};

void cli_help(const struct cli_command *command, const struct cli_option *options) {
    printf("Usage: kvcull %s ", command->name);
    help_fill(stdout, command->synopsis, strlen(command->synopsis), 15 + strlen(command->name), 11);
    printf("\n");
    cli_wrap(stdout, command->description, 0);
    if (options->kind != CLI_GROUP)
        printf("\n");
    for (; options->kind != CLI_END; options++) {
        char left[96], help[600], value[64], types[CLI_TYPES_BYTES];

        if (options->kind == CLI_GROUP) {
            printf("\n%s:\n", options->name);
            continue;
        }
        if (options->letter && options->name)
            snprintf(left, sizeof left, "  -%c, --%s", options->letter, options->name);
        else if (options->letter)
            snprintf(left, sizeof left, "  -%c", options->letter);
        else
            snprintf(left, sizeof left, "      --%s", options->name);
        if (options->meta)
            snprintf(left + strlen(left), sizeof left - strlen(left), " %s", options->meta);
        snprintf(help, sizeof help, "%s", options->help);
        if (options->kind == CLI_TYPE && !options->choices)
            snprintf(help + strlen(help), sizeof help - strlen(help), " [one of %s]", cli_weight_types(types));
        else if (options->choices && !strstr(help, "exact:"))
            add_choices(help, sizeof help, options->choices);
        if (defaults(options, value))
            snprintf(help + strlen(help), sizeof help - strlen(help), " [default=%s]", value);
        if (strlen(left) + 2 > HELP_COLUMN)
            printf("%s\n%*s", left, HELP_COLUMN, "");
        else
            printf("%-*s", HELP_COLUMN, left);
        help_fill(stdout, help, strlen(help), HELP_COLUMN, HELP_COLUMN);
    }
    printf("\n");
    for (size_t i = 0; i < 2; i++)
        printf("      --%-*s%s\n", HELP_COLUMN - 8, common_name[i], common_help[i]);
    if (command->examples) {
        printf("\nExamples:\n");
        for (const char *line = command->examples; *line;) {
            size_t n = strcspn(line, "\n");

            printf("  %.*s\n", (int)n, line);
            line += n + (line[n] == '\n');
        }
    }
}

/* ---- the manual, in mdoc --------------------------------------------------------------------------------------- */

/* Prints a macro's argument, quoted if necessary. */
static void argument(const char *text) {
    printf("\"");
    for (; *text; text++) {
        if (*text == '\\')
            fputs("\\e", stdout);
        else if (*text == '"')
            fputs("\"\"", stdout);
        else
            fputc(*text, stdout);
    }
    printf("\"");
}

static void manual_options(const struct cli_option *options) {
    char value[64];

    printf(".Bl -tag -width Ds\n");
    for (; options->kind != CLI_END; options++) {
        if (options->kind == CLI_GROUP)
            continue;
        printf(".It");
        if (options->letter)
            printf(" Fl %c", options->letter);
        if (options->letter && options->name)
            printf(" ,");
        if (options->name)
            printf(" Fl -%s", options->name);
        if (options->meta) {
            printf(" Ar ");
            argument(options->meta);
        }
        printf("\n");
        cli_roff_sentence(options->help);
        if (options->kind == CLI_TYPE && !options->choices)
            printf("One of the weight types in\n.Xr kvcull 1 .\n");
        else if (options->choices && !strstr(options->help, "exact:"))
            printf("One of %s.\n", options->choices);
        if (defaults(options, value))
            printf("The default is %s.\n", value);
    }
    for (size_t i = 0; i < 2; i++)
        printf(".It Fl -%s\n%s.\n", common_name[i], i ? "Print the version" : "Print a summary of the options");
    printf(".El\n");
}

static void manual_types(void) {
    char text[CLI_TYPES_BYTES];

    cli_weight_types(text);
    printf(".Ss Weight types\nThe matrices of models are read and written as\n%s.\n", text);
}

/* Prints the aliases of options. */
static void manual_aliases(void) {
    const char *other, *name;

    printf(".Ss Other names of options\nThese names are also accepted:\n");
    for (size_t i = 0; cli_alias(i, &other, &name); i++)
        printf("%s.Fl -%s\nfor\n.Fl -%s", i ? " ,\n" : "", other, name);
    printf(" .\n");
}

static void manual_tail(void) {
    printf(".Sh EXIT STATUS\n.Bl -tag -width Ds -compact\n"
           ".It 0\nSuccess.\n"
           ".It 1\nA comparison found a difference.\n"
           ".It 2\nA wrong option, policy or argument.\n"
           ".It 3\nA bad input file, or a model with logits that are NaN or infinite.\n"
           ".It 4\nNo memory, no device or no disk space.\n"
           ".El\n.Pp\nAn error is one line on standard error.\nIt names the object, its wrong value and the accepted "
           "values.\n"
           "If a signal ends the program, the shell reports 128 plus its number, and no half-written file remains.\n"
           "If the reader of a pipe closes it, the program ends with status 4 and without a message; so the answer "
           "ends in\n.Ql kvcull run ... | head -n 1 .\n"
           "A driver of OpenCL may end the program by SIGABRT (134), as PoCL does if it has no memory or cannot run "
           "its\ncompiler.\n");
}

#define LOG_VARIABLE "KVCULL_LOG"

static void manual_subjects(void) {
    const char *name, *summary;

    printf(".Bl -tag -width Ds -compact\n");
    for (size_t i = 0; kvc_log_subject(i, &name, &summary); i++) {
        printf(".It Cm %s\n", name);
        cli_roff(summary);
    }
    printf(".El\n");
}

static void manual_environment(const char *command) {
    static const struct {
        const char *command, *name, *text;
    } variables[] = {
        {"", "KVCULL_CPU",
         "The instruction set of the cpu backend: ref, avx2, avx2vnni, avx512, avx512vnni, amx, neon, neondotprod "
         "or neoni8mm. The default is the fastest that the CPU supports. It does not change results."},
        {"", "KVCULL_DATA", "The folder of bundled data. The default is the folder where it was installed."},
        {"", LOG_VARIABLE,
         "LEVEL[,SUBJECT...]: print on standard error, line by line, what the program chose and why. The levels are "
         "error, warn, info, debug and off (the default); each includes those before it. Without subjects all lines of "
         "the level are printed. The subjects:"},
        {"", "XDG_CACHE_HOME",
         "The folder in which a folder kvcull stores compiled kernels of OpenCL devices (~/.cache). PoCL stores its "
         "own "
         "kernels there, too, and offers no device if it cannot."},
        {"bench", "TMPDIR", "The folder for the random model of --shape (/tmp)."},
        {"verify", "TMPDIR", "The folder for the bundled model in q8_0, which --math int8 writes and removes (/tmp)."},
        {"verify", "KVCULL_INJECT",
         "For tests of this command only: the name of an operation. The tested backend (not ref) then returns wrong "
         "results for it, as a broken kernel would. The comparison must report differences in that operation and in "
         "whole runs that use it."},
        {"verify", "KVCULL_DATA",
         "The folder of bundled data: the model of the whole runs and the stored hashes (hashes.txt)."}};
    bool any = false;

    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        if (strcmp(variables[i].command, command) != 0)
            continue;
        if (!any)
            printf(".Sh ENVIRONMENT\n.Bl -tag -width Ds\n");
        any = true;
        printf(".It Ev %s\n", variables[i].name);
        cli_roff(variables[i].text);
        if (strcmp(variables[i].name, LOG_VARIABLE) == 0)
            manual_subjects();
    }
    if (any)
        printf(".El\n");
}

void cli_manual(const struct cli_command *command, const struct cli_option *options) {
    char page[64];

    if (command->name[0] == '\0') {
        snprintf(page, sizeof page, "kvcull");
    } else {
        snprintf(page, sizeof page, "kvcull-%s", command->name);
        for (char *c = page; *c; c++)
            *c = *c == ' ' ? '-' : *c;
    }
    cli_roff_head(command->name[0] ? "COMMAND --manual" : "--manual", "the command's table in cli/", page, 1,
                  command->summary);
    printf(".Sh SYNOPSIS\n.Nm kvcull%s%s\n", command->name[0] ? " " : "", command->name);
    cli_roff(command->synopsis);
    printf(".Sh DESCRIPTION\n");
    cli_roff(command->description);
    if (command->name[0] == '\0') {
        printf(".Ss Commands\n.Bl -tag -width perplexity\n");
        for (const struct cli_command *other = cli_commands; other->name; other++)
            printf(".It Xr kvcull-%s 1\n%s.\n", other->name, other->summary);
        printf(".El\n");
        manual_types();
        manual_aliases();
    } else {
        printf(".Pp\nThe options are:\n");
        manual_options(options);
    }
    manual_environment(command->name);
    manual_tail();
    if (command->examples) {
        printf(".Sh EXAMPLES\n.Bd -literal\n");
        cli_roff_lines(command->examples);
        printf(".Ed\n");
    }
    printf(".Sh SEE ALSO\n");
    if (command->name[0] == '\0')
        printf(".Xr kvcull-info 1 ,\n.Xr kvcull-run 1 ,\n.Xr kvcull-methods 7\n");
    else
        printf(".Xr kvcull 1 ,\n");
    for (const struct cli_command *task = cli_eval_tasks; task->name && strcmp(command->name, "eval") == 0; task++)
        printf(".Xr kvcull-eval-%s 1 ,\n", task->name + strlen("eval "));
    if (command->name[0] != '\0')
        printf(".Xr kvcull-methods 7\n");
}

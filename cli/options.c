/* options.c - reads a command's arguments after its option table. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

enum { MOST_NAMES = 128 };

void cli_texts_free(struct cli_texts *texts) {
    free(texts->items);
    *texts = (struct cli_texts){NULL, 0};
}

void cli_words_free(struct cli_words *words) {
    free(words->items);
    *words = (struct cli_words){NULL, 0};
}

/* Edits (insert, delete, replace, swap neighbours) from a to b; names are short. */
static size_t distance(const char *a, const char *b) {
    size_t n = strlen(a), m = strlen(b);
    size_t row[3][40] = {{0}}; /* row i of the table lies in row[i % 3] */

    if (n >= 40 || m >= 40)
        return 99;
    for (size_t j = 0; j <= m; j++)
        row[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        const size_t *last = row[(i - 1) % 3], *before = row[(i + 1) % 3];
        size_t *now = row[i % 3];

        now[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t best = last[j - 1] + (a[i - 1] != b[j - 1]);

            if (last[j] + 1 < best)
                best = last[j] + 1;
            if (now[j - 1] + 1 < best)
                best = now[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            now[j] = best;
        }
    }
    return row[n % 3][m];
}

const char *cli_nearest(const char *word, const char *const *names) {
    const char *best = NULL;
    size_t least = strlen(word) < 4 ? 2 : 3;

    for (; *names; names++) {
        size_t n = cli_min(strlen(word), strlen(*names));
        size_t d = n >= 2 && strncmp(word, *names, n) == 0 ? 1 : distance(word, *names); /* one begins the other */

        if (d < least) {
            least = d;
            best = *names;
        }
    }
    return best;
}

static bool is_value(const struct cli_option *option) { return option->kind != CLI_FLAG && option->kind != CLI_GROUP; }

static const struct cli_option *find(const struct cli_option *options, const char *name, size_t length, char letter) {
    for (; options->kind != CLI_END; options++) {
        if (options->kind == CLI_GROUP)
            continue;
        if (name && options->name && strlen(options->name) == length && memcmp(options->name, name, length) == 0)
            return options;
        if (!name && options->letter == letter)
            return options;
    }
    return NULL;
}

/* "--threads" or "-n", as the user wrote it. */
static void spell(const struct cli_option *option, bool brief, char text[48]) {
    if (brief || !option->name)
        snprintf(text, 48, "-%c", option->letter);
    else
        snprintf(text, 48, "--%s", option->name);
}

static bool whole_number(const char *text, int64_t *value) {
    char *end;

    errno = 0;
    *value = strtoll(text, &end, 10);
    return end != text && *end == '\0' && errno == 0 && !isspace((unsigned char)text[0]);
}

static bool real_number(const char *text, double *value) {
    char *end;

    errno = 0;
    *value = strtod(text, &end);
    return end != text && *end == '\0' && isfinite(*value) && !isspace((unsigned char)text[0]);
}

static bool byte_count(const char *text, uint64_t *value) {
    static const char units[] = "kmgtp";
    double number, factor = 1;
    char *end;

    if (!isdigit((unsigned char)text[0]))
        return false;
    number = strtod(text, &end);
    if (*end) {
        const char *unit = strchr(units, tolower((unsigned char)*end));

        if (!unit)
            return false;
        factor = ldexp(1, 10 * (int)(unit - units + 1));
        end++;
        if (strcmp(end, "iB") == 0 || strcmp(end, "B") == 0)
            end += strlen(end);
    }
    number *= factor;
    if (*end || !(number < 9.2e18))
        return false;
    *value = (uint64_t)number;
    return true;
}

const char *cli_weight_types(char text[CLI_TYPES_BYTES]) {
    text[0] = '\0';
    for (unsigned i = 0; i < KVC_TYPES; i++)
        snprintf(text + strlen(text), CLI_TYPES_BYTES - strlen(text), "%s%s", i ? ", " : "",
                 kvc_type_name((enum kvc_type)i));
    return text;
}

static bool among(const char *text, const char *choices) {
    size_t length = strlen(text);

    while (choices && *choices) {
        size_t n = strcspn(choices, "|");

        if (n == length && memcmp(text, choices, n) == 0)
            return true;
        choices += n + (choices[n] == '|');
    }
    return false;
}

static int set_counts(const struct cli_command *command, const struct cli_option *option, const char *name,
                      const char *text) {
    struct cli_counts *counts = option->target;
    const char *at = text;

    counts->count = 0;
    for (;;) {
        size_t n = strcspn(at, ",");
        char number[24] = "";
        int64_t value;

        if (n < sizeof number)
            memcpy(number, at, n);
        if (!whole_number(number, &value) || (double)value < option->minimum || (double)value > option->maximum)
            return cli_error(command, KVC_USAGE, "%s %s: takes whole numbers from %.0f to %.0f, separated by commas",
                             name, text, option->minimum, option->maximum);
        if (counts->count == sizeof counts->items / sizeof counts->items[0])
            return cli_error(command, KVC_USAGE, "%s: takes at most %zu numbers", name,
                             sizeof counts->items / sizeof counts->items[0]);
        counts->items[counts->count++] = (uint64_t)value;
        if (at[n] == '\0')
            return CLI_GO;
        at += n + 1;
    }
}

static int add_text(const struct cli_command *command, struct cli_texts *texts, char letter, const char *text) {
    struct cli_given *items = realloc(texts->items, (texts->count + 1) * sizeof *items);

    if (!items)
        return cli_no_memory(command);
    items[texts->count] = (struct cli_given){letter, text};
    texts->items = items;
    texts->count++;
    return CLI_GO;
}

static int set(const struct cli_command *command, const struct cli_option *option, const char *name, const char *text) {
    char types[CLI_TYPES_BYTES];
    int64_t whole;
    double real;

    switch (option->kind) {
    case CLI_FLAG:
        *(bool *)option->target = true;
        return CLI_GO;
    case CLI_TEXT:
        *(const char **)option->target = text;
        return CLI_GO;
    case CLI_TEXTS:
        return add_text(command, option->target, option->letter, text);
    case CLI_INT:
        if (!whole_number(text, &whole) || (double)whole < option->minimum || (double)whole > option->maximum)
            return cli_error(command, KVC_USAGE, "%s %s: takes a whole number from %.0f to %.0f", name, text,
                             option->minimum, option->maximum);
        *(int64_t *)option->target = whole;
        return CLI_GO;
    case CLI_REAL:
        if (!real_number(text, &real) || real < option->minimum || real > option->maximum)
            return cli_error(command, KVC_USAGE, "%s %s: takes a number from %g to %g", name, text, option->minimum,
                             option->maximum);
        *(double *)option->target = real;
        return CLI_GO;
    case CLI_COUNTS:
        return set_counts(command, option, name, text);
    case CLI_BYTES:
        if (!byte_count(text, option->target))
            return cli_error(command, KVC_USAGE, "%s %s: takes a size such as 8G, 512M or 1000000", name, text);
        return CLI_GO;
    case CLI_TYPE:
        if (!kvc_type_from_name(text, option->target) || (option->choices && !among(text, option->choices)))
            return cli_error(command, KVC_USAGE, "%s %s: takes one of %s", name, text,
                             option->choices ? option->choices : cli_weight_types(types));
        return CLI_GO;
    case CLI_CHOICE:
        if (!among(text, option->choices))
            return cli_error(command, KVC_USAGE, "%s %s: takes one of %s", name, text, option->choices);
        *(const char **)option->target = text;
        return CLI_GO;
    default:
        return CLI_GO;
    }
}

static int unknown(const struct cli_command *command, const struct cli_option *options, const char *argument,
                   const char *name) {
    const char *names[MOST_NAMES], *near = NULL;
    size_t count = 0;

    names[count++] = "help";
    names[count++] = "version";
    for (; options->kind != CLI_END && count < MOST_NAMES - 1; options++)
        if (options->kind != CLI_GROUP && options->name)
            names[count++] = options->name;
    names[count] = NULL;
    if (name)
        near = cli_nearest(name, names);
    if (near)
        return cli_error(command, KVC_USAGE, "%s: no such option; did you mean --%s?", argument, near);
    return cli_error(command, KVC_USAGE, "%s: no such option; `kvcull%s%s --help` lists them", argument,
                     command->name[0] ? " " : "", command->name);
}

static int add_word(const struct cli_command *command, struct cli_words *words, const char *word) {
    const char **items;

    if (!words)
        return cli_error(command, KVC_USAGE,
                         "%s: not an option, and nothing else is taken here; `kvcull %s --help` "
                         "shows what is",
                         word, command->name);
    items = realloc(words->items, (words->count + 1) * sizeof *items);
    if (!items)
        return cli_no_memory(command);
    items[words->count++] = word;
    words->items = items;
    return CLI_GO;
}

/* "--name", "--name value", "--name=value". */
static int long_option(const struct cli_command *command, const struct cli_option *options, int argc, char **argv,
                       int *at) {
    const char *argument = argv[*at], *name = argument + 2;
    size_t length = strcspn(name, "=");
    const struct cli_option *option;
    char word[48];

    snprintf(word, sizeof word, "%.*s", (int)(length < 46 ? length : 46), name);
    if (strcmp(word, "help") == 0) {
        cli_help(command, options);
        return cli_flush(command);
    }
    if (strcmp(word, "manual") == 0) { /* for the maintainers: makes docs/man */
        cli_manual(command, options);
        return cli_flush(command);
    }
    if (strcmp(word, "completion") == 0) { /* for tools/completions.sh */
        cli_completion(options);
        return cli_flush(command);
    }
    if (strcmp(word, "version") == 0) {
        printf("kvcull %s (arithmetic %d)\n", KVC_VERSION, KVC_ARITHMETIC_VERSION);
        return cli_flush(command);
    }
    option = find(options, name, length, 0);
    if (!option)
        return unknown(command, options, argument, word);
    spell(option, false, word);
    if (!is_value(option)) {
        if (name[length] == '=')
            return cli_error(command, KVC_USAGE, "%s: takes no value", word);
        return set(command, option, word, NULL);
    }
    if (name[length] == '=')
        return set(command, option, word, name + length + 1);
    if (*at + 1 >= argc)
        return cli_error(command, KVC_USAGE, "%s: needs a value: %s %s", word, word, option->meta);
    return set(command, option, word, argv[++*at]);
}

/* "-q", "-n 5", "-n5", "-qn5". */
static int brief_options(const struct cli_command *command, const struct cli_option *options, int argc, char **argv,
                         int *at) {
    for (const char *letter = argv[*at] + 1; *letter; letter++) {
        const struct cli_option *option = find(options, NULL, 0, *letter);
        char word[48];
        int status;

        if (!option && *letter == 'h') {
            cli_help(command, options);
            return cli_flush(command);
        }
        if (!option)
            return unknown(command, options, argv[*at], NULL);
        spell(option, true, word);
        if (is_value(option)) {
            if (letter[1])
                return set(command, option, word, letter + 1);
            if (*at + 1 >= argc)
                return cli_error(command, KVC_USAGE, "%s: needs a value: %s %s", word, word, option->meta);
            return set(command, option, word, argv[++*at]);
        }
        status = set(command, option, word, NULL);
        if (status != CLI_GO)
            return status;
    }
    return CLI_GO;
}

int cli_parse(const struct cli_command *command, const struct cli_option *options, int argc, char **argv,
              struct cli_words *words) {
    bool ended = false;

    for (int i = 1; i < argc; i++) {
        int status;

        if (!ended && strcmp(argv[i], "--") == 0) {
            ended = true;
            continue;
        }
        if (ended || argv[i][0] != '-' || argv[i][1] == '\0')
            status = add_word(command, words, argv[i]);
        else if (argv[i][1] == '-')
            status = long_option(command, options, argc, argv, &i);
        else
            status = brief_options(command, options, argc, argv, &i);
        if (status != CLI_GO)
            return status;
    }
    return CLI_GO;
}

int cli_token_list(const struct cli_command *command, const char *what, const char *text, size_t bytes,
                   enum kvc_status status, int32_t **tokens, size_t *count) {
    size_t capacity = 64, n = 0;
    int32_t *list = malloc(capacity * sizeof *list);

    *tokens = NULL;
    *count = 0;
    if (!list)
        return cli_no_memory(command);
    for (size_t i = 0; i < bytes;) {
        int64_t value = 0;
        size_t start = i;

        if (isspace((unsigned char)text[i]) || text[i] == ',') {
            i++;
            continue;
        }
        while (i < bytes && isdigit((unsigned char)text[i]) && value <= INT32_MAX)
            value = value * 10 + (text[i++] - '0');
        if (i == start || value > INT32_MAX || (i < bytes && !isspace((unsigned char)text[i]) && text[i] != ',')) {
            free(list);
            return cli_error(command, status,
                             "%s: byte %zu: takes token ids, whole numbers separated by commas or "
                             "spaces",
                             what, start);
        }
        if (n == capacity) {
            int32_t *more = realloc(list, 2 * capacity * sizeof *list);

            if (!more) {
                free(list);
                return cli_no_memory(command);
            }
            list = more;
            capacity *= 2;
        }
        list[n++] = (int32_t)value;
    }
    if (n == 0) {
        free(list);
        return cli_error(command, status, "%s: has no token ids; takes whole numbers separated by commas or spaces",
                         what);
    }
    *tokens = list;
    *count = n;
    return KVC_OK;
}

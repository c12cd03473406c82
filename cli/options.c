/* options.c - parses a command's arguments according to its option table. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

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

const char *cli_nearest(const char *word, const char *const *names) {
    struct kvc_nearest nearest = kvc_nearest(word, strlen(word));

    for (; *names; names++)
        kvc_nearest_try(&nearest, *names, strlen(*names));
    return nearest.name;
}

/* Names that other programs use for options of this program. */
static const struct {
    const char *other, *name;
} aliases[] = {{"ctx-size", "ctx"},
               {"predict", "tokens"},
               {"n-predict", "tokens"},
               {"temperature", "temp"},
               {"repeat-last-n", "repeat-last"},
               {"chat-template", "template"},
               {"system-prompt", "system"},
               {"grammar-file", "grammar"},
               {"json-schema-file", "json-schema"},
               {"cache-type-k", "kv-type"},
               {"cache-type-v", "kv-type"}};

bool cli_alias(size_t i, const char **other, const char **name) {
    if (i >= sizeof aliases / sizeof *aliases)
        return false;
    *other = aliases[i].other;
    *name = aliases[i].name;
    return true;
}

/* Returns this program's name for the option: if the name [*length] is an alias, the name it stands for; otherwise the
 * name itself. */
static const char *own_name(const char *name, size_t *length) {
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (strlen(aliases[i].other) == *length && memcmp(aliases[i].other, name, *length) == 0) {
            *length = strlen(aliases[i].name);
            return aliases[i].name;
        }
    return name;
}

static bool is_value(const struct cli_option *option) { return option->kind != CLI_FLAG && option->kind != CLI_GROUP; }

static const struct cli_option *options_find(const struct cli_option *options, const char *name, size_t length,
                                             char letter) {
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

/* Writes the option as the user wrote it: "--threads" or "-n". */
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

/* Reports a value that is not one of an option's choices. If the option has no list of choices, the choices are the
 * weight types. */
static int no_choice(const struct cli_command *command, const struct cli_option *option, const char *name,
                     const char *text) {
    struct kvc_nearest nearest = kvc_nearest(text, strlen(text));
    char types[CLI_TYPES_BYTES], hint[KVC_NEAREST_HINT];

    kvc_nearest_try_choices(&nearest, option->choices);
    for (unsigned i = 0; !option->choices && i < KVC_TYPES; i++)
        kvc_nearest_try(&nearest, kvc_type_name((enum kvc_type)i), strlen(kvc_type_name((enum kvc_type)i)));
    return cli_error(command, KVC_USAGE, "%s %s: takes one of %s%s", name, text,
                     option->choices ? option->choices : cli_weight_types(types), kvc_nearest_hint(&nearest, hint));
}

static int set(const struct cli_command *command, const struct cli_option *option, const char *name, const char *text) {
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
        if (!kvc_type_from_name(text, option->target) ||
            (option->choices && !among(kvc_type_name(*(enum kvc_type *)option->target), option->choices)))
            return no_choice(command, option, name, text);
        return CLI_GO;
    case CLI_ENTRIES:
        return kvc_entry_types_from_name(text, option->target) ? CLI_GO : no_choice(command, option, name, text);
    case CLI_CHOICE:
        if (!among(text, option->choices))
            return no_choice(command, option, name, text);
        *(const char **)option->target = text;
        return CLI_GO;
    default:
        return CLI_GO;
    }
}

static int options_unknown(const struct cli_command *command, const struct cli_option *options, const char *argument,
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
                         "%s: not an option, and the command takes no other words; see `kvcull %s --help`", word,
                         command->name);
    items = realloc(words->items, (words->count + 1) * sizeof *items);
    if (!items)
        return cli_no_memory(command);
    items[words->count++] = word;
    words->items = items;
    return CLI_GO;
}

/* Parses "--name", "--name value" or "--name=value". */
static int long_option(const struct cli_command *command, const struct cli_option *options, int argc, char **argv,
                       int *at) {
    const char *argument = argv[*at], *name = argument + 2;
    size_t length = strcspn(name, "="), own_length = length;
    const char *own = own_name(name, &own_length);
    const struct cli_option *option;
    char word[48];

    snprintf(word, sizeof word, "%.*s", (int)(length < 46 ? length : 46), name);
    if (strcmp(word, "help") == 0) {
        cli_help(command, options);
        return cli_flush(command);
    }
    if (strcmp(word, "manual") == 0) { /* tools/manual.sh uses this option */
        cli_manual(command, options);
        return cli_flush(command);
    }
    if (strcmp(word, "completion") == 0) { /* tools/completions.sh uses this option */
        cli_completion(options);
        return cli_flush(command);
    }
    if (strcmp(word, "version") == 0) {
        printf("kvcull %s (arithmetic %d)\n", KVC_VERSION, KVC_ARITHMETIC_VERSION);
        return cli_flush(command);
    }
    option = options_find(options, own, own_length, 0);
    if (!option)
        return options_unknown(command, options, argument, word);
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

/* Parses "-q", "-n 5", "-n5" or "-qn5". */
static int brief_options(const struct cli_command *command, const struct cli_option *options, int argc, char **argv,
                         int *at) {
    for (const char *letter = argv[*at] + 1; *letter; letter++) {
        const struct cli_option *option = options_find(options, NULL, 0, *letter);
        char word[48];
        int status;

        if (!option && *letter == 'h') {
            cli_help(command, options);
            return cli_flush(command);
        }
        if (!option)
            return options_unknown(command, options, argv[*at], NULL);
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

/* Returns the value if argument i is "--name VALUE" or "--name=VALUE", otherwise NULL. */
static const char *value_at(int argc, char **argv, int i, const char *name) {
    const size_t length = strlen(name);

    if (strncmp(argv[i], "--", 2) != 0 || strncmp(argv[i] + 2, name, length) != 0)
        return NULL;
    if (argv[i][2 + length] == '=')
        return argv[i] + 3 + length;
    return argv[i][2 + length] == '\0' && i + 1 < argc ? argv[i + 1] : NULL;
}

/* Returns false if only one of --cache-type-k and --cache-type-v is given, or if their types differ. */
static bool types_agree(int argc, char **argv) {
    const char *keys = NULL, *values = NULL;

    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        const char *key = value_at(argc, argv, i, "cache-type-k"), *value = value_at(argc, argv, i, "cache-type-v");

        keys = key ? key : keys;
        values = value ? value : values;
    }
    return !keys == !values && (!keys || strcasecmp(keys, values) == 0);
}

bool cli_is_given(int argc, char **argv, const char *name) {
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        size_t length = strlen(name), written = strcspn(argv[i], "=");
        const char *own;

        if (strncmp(argv[i], "--", 2) != 0)
            continue;
        written -= 2;
        own = own_name(argv[i] + 2, &written);
        if (written == length && memcmp(own, name, length) == 0)
            return true;
    }
    return false;
}

int cli_parse(const struct cli_command *command, const struct cli_option *options, int argc, char **argv,
              struct cli_words *words) {
    bool ended = false;

    if (!types_agree(argc, argv))
        return cli_error(command, KVC_USAGE,
                         "--cache-type-k, --cache-type-v: keys and values have one type here; give both options the "
                         "same TYPE, or --kv-type TYPE");
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

int cli_model_word(const struct cli_command *command, const struct cli_words *words, const char **model) {
    if (words->count == 0)
        return CLI_GO;
    if (words->count > 1 || *model)
        return cli_error(command, KVC_USAGE, "%s: not an option; the model is %s", words->items[words->count - 1],
                         *model ? *model : words->items[0]);
    *model = words->items[0];
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

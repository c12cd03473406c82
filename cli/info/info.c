/* info.c - kvcull info: prints facts about this build, its backends, the methods, or a model. */
#include <string.h>

#include "cli/info/info.h"
#include "kvcull/ranks.h"

/* Tells whether this build checks invariants (core/base/assert.h). */
#ifdef KVC_ASSERTIONS
static const bool assertions = true;
#else
static const bool assertions = false;
#endif

/* Returns the devices of the i-th backend, one line each, or an empty list if the backend has only one device. */
static json_t *devices(size_t i) {
    json_t *list = json_array();
    char text[256];

    for (size_t d = 0; list && kvc_backend_device(i, d, text, sizeof text); d++)
        cli_json_add(list, json_string(text));
    return list;
}

/* Prints a device on three lines: its name, its properties, its driver. */
static void print_device(const char *backend, const char *text, bool first) {
    printf("%s%s:", first ? "\n" : "", backend);
    for (const char *rest; (rest = strstr(text, "; ")) != NULL; text = rest + 2)
        printf("%.*s\n    ", (int)(rest - text), text);
    printf("%s\n", text);
}

/* Returns the libraries that are opened at run time. If one was not found, adds the reason. */
static json_t *libraries(void) {
    json_t *list = json_array();
    struct kvc_library_info info;

    for (size_t i = 0; list && kvc_library(i, &info); i++) {
        json_t *one = json_object();

        cli_json_set(one, "name", json_string(info.name));
        cli_json_set(one, "use", json_string(info.use));
        cli_json_set(one, "found", json_boolean(info.found));
        cli_json_set(one, "detail", json_string(info.detail));
        cli_json_add(list, one);
    }
    return list;
}

/* Prints which operations each backend leaves to the reference. */
static int print_missing(const struct cli_command *command) {
    struct cli_table *table = cli_table_open("<backend|<operations that run on ref");
    struct kvc_backend_info info;

    for (size_t i = 0; kvc_backend(i, &info); i++) {
        cli_cell(table, "%s", info.name);
        cli_cell(table, "%s", info.missing);
    }
    printf("\n");
    const int status = cli_table_print(command, table, stdout);
    cli_table_free(table);
    return status;
}

static int print_libraries(const struct cli_command *command) {
    struct cli_table *table = cli_table_open("<library|<for|<found|<where, or why not");
    struct kvc_library_info info;

    for (size_t i = 0; kvc_library(i, &info); i++) {
        cli_cell(table, "%s", info.name);
        cli_cell(table, "%s", info.use);
        cli_cell(table, "%s", info.found ? "yes" : "no");
        cli_cell(table, "%s", info.detail);
    }
    printf("\n");
    const int status = cli_table_print(command, table, stdout);
    cli_table_free(table);
    return status;
}

static int backends(const struct cli_command *command, const struct info_arguments *a) {
    struct kvc_backend_info info;
    struct cli_table *table;
    char text[256];
    int status;

    if (a->common.json) {
        json_t *root = json_object(), *list = json_array();

        for (size_t i = 0; list && kvc_backend(i, &info); i++) {
            json_t *one = json_object();

            cli_json_set(one, "name", json_string(info.name));
            cli_json_set(one, "usable", json_boolean(info.usable));
            cli_json_set(one, "detail", json_string(info.detail));
            cli_json_set(one, "missing", json_string(info.missing));
            cli_json_set(one, "devices", devices(i));
            cli_json_add(list, one);
        }
        cli_json_set(root, "backends", list);
        cli_json_set(root, "libraries", libraries());
        cli_json_set(root, "assertions", json_boolean(assertions));
        return cli_json_print(command, root, stdout);
    }
    table = cli_table_open("<backend|<usable|<detail");
    for (size_t i = 0; kvc_backend(i, &info); i++) {
        cli_cell(table, "%s", info.name);
        cli_cell(table, "%s", info.usable ? "yes" : "no");
        cli_cell(table, "%s", info.detail);
    }
    status = cli_table_print(command, table, stdout);
    cli_table_free(table);
    for (size_t i = 0; status == KVC_OK && kvc_backend(i, &info); i++)
        for (size_t d = 0; kvc_backend_device(i, d, text, sizeof text); d++)
            print_device(info.name, text, d == 0);
    if (status == KVC_OK)
        status = print_missing(command);
    if (status == KVC_OK)
        status = print_libraries(command);
    return status == KVC_OK ? cli_flush(command) : status;
}

int cli_names(const struct cli_command *command, const struct cli_common *common, const char *heading, const char *key,
              bool (*next)(size_t, const char **, const char **)) {
    const char *name, *summary;
    struct cli_table *table;
    int status;

    if (common->json) {
        json_t *root = json_object(), *list = json_array();

        for (size_t i = 0; list && next(i, &name, &summary); i++) {
            json_t *one = json_object();

            cli_json_set(one, "name", json_string(name));
            cli_json_set(one, "summary", json_string(summary));
            cli_json_add(list, one);
        }
        cli_json_set(root, key, list);
        return cli_json_print(command, root, stdout);
    }
    table = cli_table_open(heading);
    for (size_t i = 0; next(i, &name, &summary); i++) {
        cli_cell(table, "%s", name);
        cli_cell(table, "%s", summary);
    }
    status = cli_table_print(command, table, stdout);
    cli_table_free(table);
    return status == KVC_OK ? cli_flush(command) : status;
}

static int overview(const struct cli_command *command, const struct info_arguments *a) {
    if (!a->common.json)
        printf("kvcull %s, arithmetic %d, assertions %s\n\n", KVC_VERSION, KVC_ARITHMETIC_VERSION,
               assertions ? "on" : "off");
    return backends(command, a);
}

int kvc_cli_info(const struct cli_command *command, int argc, char **argv) {
    struct info_arguments a = {.generate = 256};
    const struct cli_option options[] = {
        {CLI_GROUP, 0, "Will it fit", NULL, NULL, NULL, 0, 0, NULL},
        {CLI_INT, 0, "prompt", "N", "tokens of the prompt; 0: the trained length", &a.prompt, 0, 1073741824, NULL},
        {CLI_INT, 0, "gen", "N", "tokens generated after the prompt", &a.generate, 0, 1073741824, NULL},
        {CLI_TEXTS, 0, "kv", "SPEC", "a policy; several are compared", &a.specs, 0, 0, NULL},
        CLI_KV_TYPE(&a.common.cache_type),
        {CLI_CHOICE, 0, "math", "MATH", "arithmetic. With int16, float weights are converted and take 2.016 bytes each",
         &a.common.math, 0, 0, "float|int8|int16|fast|exact"},
        {CLI_BYTES, 0, "mem", "SIZE",
         "limit of memory, such as 8G; the exit status is 1 if the model does not fit. The default is the memory that "
         "the machine, control groups and ulimit leave",
         &a.memory, 0, 0, NULL},
        {CLI_TEXT, 0, "ranks", "HOW",
         "show the parts that the processes of a parallel run would hold; HOW is for example tensor=4,pipeline=2; "
         "--mem then limits each process",
         &a.ranks, 0, 0, NULL},
        {CLI_TEXT, 0, "share", "LIST",
         "relative sizes of the parts of the model that the processes of --ranks hold, "
         "such as 2,1,1",
         &a.share, 0, 0, NULL},
        {CLI_GROUP, 0, "Output", NULL, NULL, NULL, 0, 0, NULL},
        {CLI_FLAG, 0, "man", NULL, "print methods [NAME] as a manual page", &a.man, 0, 0, NULL},
        {CLI_FLAG, 0, "markdown", NULL, "print methods [NAME] or families as Markdown", &a.markdown, 0, 0, NULL},
        {CLI_FLAG, 0, "json", NULL, "print JSON", &a.common.json, 0, 0, NULL},
        {CLI_FLAG, 'q', "quiet", NULL, "print tables only", &a.common.quiet, 0, 0, NULL},
        {.kind = CLI_END}};
    struct cli_words words = {NULL, 0};
    struct cli_given full = {0, "full"};
    struct kvc_error error;
    const char *what;
    uint32_t ranks;
    bool given;
    int status;

    cli_common_defaults(&a.common);
    a.common.backend = "ref"; /* nothing is computed, and with ref no weights are copied to a device */
    status = cli_parse(command, options, argc, argv, &words);
    given = a.specs.count > 0;
    if (status == CLI_GO && a.ranks && kvc_ranks_planned(a.ranks, &ranks, &error) != KVC_OK)
        status = cli_report(command, &error);
    if (!given)
        a.specs = (struct cli_texts){&full, 1};
    what = words.count ? words.items[0] : NULL;
    if (status == CLI_GO && words.count > (what && strcmp(what, "methods") == 0 ? 2 : 1))
        status =
            cli_error(command, KVC_USAGE,
                      "%s: takes one subject; give backends, methods [NAME], families, shapes, templates or a MODEL",
                      words.items[words.count - 1]);
    if (status == CLI_GO) {
        if (!what)
            status = overview(command, &a);
        else if (strcmp(what, "backends") == 0)
            status = backends(command, &a);
        else if (strcmp(what, "methods") == 0)
            status = info_methods(command, &a, words.count > 1 ? words.items[1] : NULL);
        else if (strcmp(what, "families") == 0)
            status = info_families(command, &a);
        else if (strcmp(what, "shapes") == 0)
            status = cli_names(command, &a.common, "<shape|<geometry", "shapes", kvc_shape);
        else if (strcmp(what, "templates") == 0)
            status = cli_names(command, &a.common, "<template|<models", "templates", kvc_chat_template);
        else
            status = info_model(command, &a, what);
    }
    if (given)
        cli_texts_free(&a.specs);
    cli_words_free(&words);
    return status;
}

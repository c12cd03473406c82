/* common.c - prints error messages, and opens an engine, policies and a model according to the common options. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "kvcull/check.h"
#include "kvcull/ranks.h"

static void print_line(const struct cli_command *command, const char *kind, const char *text) {
    char line[2000];

    char rank[24] = "";

    kvc_printable(text, strlen(text), line, sizeof line);
    fflush(stdout);
    if (cli_data_rank() > 0)
        snprintf(rank, sizeof rank, "rank %u: ", cli_data_rank());
    fprintf(stderr, "kvcull%s%s: %s%s%s\n", command->name[0] ? " " : "", command->name, rank, kind, line);
}

static void print_list(const struct cli_command *command, const char *kind, const char *format, va_list list) {
    char *text = NULL;

    if (vasprintf(&text, format, list) < 0)
        text = NULL;
    print_line(command, kind, text ? text : "no memory left");
    free(text);
}

/* Returns true if rank 0 reports this error of the command line for all ranks. */
static bool is_told(enum kvc_status status) { return cli_data_rank() > 0 && status == KVC_USAGE; }

int cli_error(const struct cli_command *command, enum kvc_status status, const char *format, ...) {
    va_list list;

    if (is_told(status))
        return (int)status;
    va_start(list, format);
    print_list(command, "", format, list);
    va_end(list);
    return (int)status;
}

int cli_report(const struct cli_command *command, const struct kvc_error *error) {
    if (!is_told(error->status))
        print_line(command, "", error->text);
    return (int)error->status;
}

int cli_no_memory(const struct cli_command *command) { return cli_error(command, KVC_RESOURCE, "no memory left"); }

void cli_warn(const struct cli_command *command, const char *format, ...) {
    va_list list;

    if (cli_data_rank() > 0)
        return;
    va_start(list, format);
    print_list(command, "warning: ", format, list);
    va_end(list);
}

void cli_common_defaults(struct cli_common *common) {
    struct kvc_session_options options;

    kvc_session_defaults(&options);
    *common = (struct cli_common){
        .backend = "cpu", .cache_type = options.cache_type, .chunk = 512, .rank_timeout = KVC_RANKS_TIMEOUT};
    if (cli_ranks() && kvc_ranks_tensor(cli_ranks()) > 1)
        common->chunk = 256; /* the default of the library for --ranks tensor */
}

enum kvc_math cli_math(const struct cli_common *common) {
    if (!common->math || strcmp(common->math, "int8") == 0)
        return KVC_MATH_INT8;
    if (strcmp(common->math, "int16") == 0)
        return KVC_MATH_INT16;
    return strcmp(common->math, "fast") == 0 ? KVC_MATH_FAST : KVC_MATH_FLOAT;
}

const char *cli_math_name(enum kvc_math math) {
    return math == KVC_MATH_INT8 ? "int8" : math == KVC_MATH_INT16 ? "int16" : math == KVC_MATH_FAST ? "fast" : "float";
}

const char *cli_math_note(enum kvc_math math) {
    return math == KVC_MATH_INT8    ? "int8 where weights are quantized; --math float rounds less"
           : math == KVC_MATH_INT16 ? "int16 where weights are floats"
                                    : NULL;
}

int cli_integer_version(enum kvc_math math) {
    return math == KVC_MATH_INT8 ? KVC_INT8_VERSION : math == KVC_MATH_INT16 ? KVC_INT16_VERSION : 0;
}

const char *cli_integer_text(enum kvc_math math, char text[24]) {
    text[0] = '\0';
    if (cli_integer_version(math))
        snprintf(text, 24, ", %s %d", cli_math_name(math), cli_integer_version(math));
    return text;
}

int cli_open_engine(const struct cli_command *command, const struct cli_common *common, struct kvc_engine **engine) {
    struct kvc_engine_options options = {
        .backend = common->backend, .threads = (int)common->threads, .ranks = common->alone ? NULL : cli_ranks()};
    const char *inject = common->trace ? getenv("KVCULL_INJECT") : NULL; /* tests of `kvcull trace` inject an error */
    char trace[4096];
    struct kvc_error error;

    options.math = cli_math(common);
    *engine = NULL;
    if (common->trace_values && !common->trace)
        return cli_error(command, KVC_USAGE, "--trace-values: works with --trace FILE");
    if (common->trace && cli_check_name(command, "trace", common->trace) != KVC_OK)
        return KVC_USAGE;
    if (common->trace) {
        const int length = cli_data_rank() == 0
                               ? snprintf(trace, sizeof trace, "%s", common->trace)
                               : snprintf(trace, sizeof trace, "%s.rank%u", common->trace, cli_data_rank());
        if (length >= (int)sizeof trace)
            return cli_error(command, KVC_USAGE, "--trace: the name is longer than %zu bytes", sizeof trace - 1);
        options.trace = trace;
        options.trace_values = common->trace_values;
    }
    if (kvc_engine_open(&options, engine, &error) != KVC_OK)
        return cli_report(command, &error);
    if (inject && kvc_verify_inject(*engine, inject, &error) != KVC_OK) {
        kvc_engine_close(*engine);
        *engine = NULL;
        return cli_report(command, &error);
    }
    if (options.math == KVC_MATH_FAST)
        cli_warn(command, "--math fast: results depend on the machine; `kvcull logits --math fast` shows how far they "
                          "are from float");
    return KVC_OK;
}

int cli_check_policies(const struct cli_command *command, const struct kvc_engine *engine,
                       const struct cli_texts *specs) {
    struct kvc_error error;

    for (size_t i = 0; specs && i < specs->count; i++)
        if (kvc_policy_check(engine, specs->items[i].text, &error) != KVC_OK)
            return cli_error(command, error.status, "--kv %s: %s", specs->items[i].text, error.text);
    return KVC_OK;
}

/* Tries to open the tokenizer and chat templates of a model. On failure, *error keeps the reason why the model could
 * not be opened, which is more useful than the reason for this failure. If memory ran out here, *error says that
 * instead. */
static bool open_text(struct kvc_engine *engine, const char *path, enum cli_text_of which, struct kvc_model **model,
                      struct kvc_error *error) {
    struct kvc_error own;

    if (kvc_model_open_text(engine, path, model, &own) != KVC_OK) {
        if (own.status == KVC_RESOURCE)
            *error = own;
        return false;
    }
    if (which == CLI_TEXT_OF_ANY ||
        (kvc_model_info(*model)->weight_bytes == 0 && strcmp(kvc_model_info(*model)->format, "gguf") == 0))
        return true;
    kvc_model_close(*model);
    *model = NULL;
    return false;
}

/* Opens the engine, checks the policies and opens the model. `text` says for which models the tokenizer and chat
 * templates are enough; NULL: for none. */
static int open_model(const struct cli_command *command, const struct cli_common *common, const char *path,
                      const struct cli_texts *specs, const enum cli_text_of *text, struct kvc_engine **engine,
                      struct kvc_model **model) {
    struct kvc_error error;
    int status;

    *engine = NULL;
    *model = NULL;
    if (!path)
        return cli_error(command, KVC_USAGE, "no model; give -m MODEL, a GGUF file or a Hugging Face folder");
    status = cli_open_engine(command, common, engine);
    if (status == KVC_OK)
        status = cli_check_policies(command, *engine, specs);
    if (status == KVC_OK && kvc_model_open(*engine, path, model, &error) != KVC_OK &&
        !(text && error.status == KVC_INPUT && open_text(*engine, path, *text, model, &error)))
        status = cli_report(command, &error);
    status = cli_same_model(command, status, *model);
    if (status != KVC_OK) {
        kvc_model_close(*model);
        kvc_engine_close(*engine);
        *engine = NULL;
        *model = NULL;
    }
    return status;
}

int cli_open_model(const struct cli_command *command, const struct cli_common *common, const char *path,
                   const struct cli_texts *specs, struct kvc_engine **engine, struct kvc_model **model) {
    return open_model(command, common, path, specs, NULL, engine, model);
}

int cli_open_model_or_text(const struct cli_command *command, const struct cli_common *common, const char *path,
                           const struct cli_texts *specs, enum cli_text_of which, struct kvc_engine **engine,
                           struct kvc_model **model) {
    return open_model(command, common, path, specs, &which, engine, model);
}

void cli_session_options(const struct cli_common *common, const char *spec, struct kvc_session_options *options) {
    kvc_session_defaults(options);
    options->policy = spec;
    options->cache_type = common->cache_type;
    options->chunk = (uint32_t)common->chunk;
    options->context = (uint64_t)common->context;
}

int cli_check_context(const struct cli_command *command, const struct cli_common *common, uint64_t tokens) {
    if (common->context == 0 || tokens <= (uint64_t)common->context)
        return KVC_OK;
    return cli_error(command, KVC_USAGE, "--ctx %lld: there are %llu tokens; give a larger --ctx",
                     (long long)common->context, (unsigned long long)tokens);
}

void cli_warn_context(const struct cli_command *command, const struct kvc_model *model, uint64_t tokens, bool *warned) {
    const struct kvc_model_info *info = kvc_model_info(model);

    if (*warned || info->trained_context == 0 || tokens <= info->trained_context)
        return;
    *warned = true;
    cli_warn(command, "the context grows past the %u tokens the model was trained for; answers may get worse",
             info->trained_context);
}

/* ---- bundled data ------------------------------------------------------------------------------------------------ */

static char *common_join(const char *folder, const char *name) {
    size_t bytes = strlen(folder) + strlen(name) + 2;
    char *path = malloc(bytes);

    if (path)
        snprintf(path, bytes, "%s/%s", folder, name);
    return path;
}

int cli_data_path(const struct cli_command *command, const char *name, char **path) {
    const char *folder = getenv("KVCULL_DATA");
    char beside[4096 + 32];
    const char *places[4];
    size_t count = 0;
    ssize_t n;

    *path = NULL;
    if (folder && folder[0]) {
        places[count++] = folder;
    } else {
        n = readlink("/proc/self/exe", beside, 4096);
        if (n > 0 && n < 4096) {
            char *slash;

            beside[n] = '\0';
            slash = strrchr(beside, '/');
            if (slash) {
                memcpy(slash, "/../share/kvcull", sizeof "/../share/kvcull");
                places[count++] = beside;
            }
        }
#ifdef KVC_DATADIR
        places[count++] = KVC_DATADIR;
        places[count++] = KVC_SOURCE_DATA;
#endif
    }
    for (size_t i = 0; i < count; i++) {
        char *try = common_join(places[i], name);

        if (!try)
            return cli_no_memory(command);
        if (access(try, R_OK) == 0) {
            *path = try;
            return KVC_OK;
        }
        free(try);
    }
    return cli_error(
        command, KVC_INPUT,
        "%s/%s: the bundled data is missing; set KVCULL_DATA to the folder that holds it, or give -m MODEL", places[0],
        name);
}

/* longrope.c - models with two sets of rope factors. A session begins with the short factors, unless the context is
 * known to be long. When a session outgrows the short factors and keeps all entries, it is computed again with the long
 * factors. Any other session keeps the short factors, and the command prints a warning. */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

/* Returns the number of tokens up to which a new session uses the short factors, or 0 if it does not use them. */
static uint64_t short_until(const struct cli_generation *generation) {
    const uint64_t original = kvc_model_info(generation->model)->original_context;

    return generation->options.context > original ? 0 : original;
}

static bool keeps_all(const struct cli_generation *generation) {
    return strcmp(generation->options.policy, "full") == 0;
}

static int open_long(struct cli_generation *generation) {
    struct kvc_session *session;
    struct kvc_error error;

    generation->options.context = short_until(generation) + 1;
    if (kvc_session_open(generation->model, &generation->options, &session, &error) != KVC_OK)
        return cli_report(generation->command, &error);
    kvc_session_close(generation->session);
    generation->session = session;
    return KVC_OK;
}

static int remember(struct cli_generation *generation, const int32_t *tokens, size_t count) {
    int32_t *grown;

    if (keeps_all(generation)) {
        grown = realloc(generation->history, (generation->given + count) * sizeof *grown);
        if (!grown)
            return cli_no_memory(generation->command);
        memcpy(grown + generation->given, tokens, count * sizeof *tokens);
        generation->history = grown;
    }
    generation->given += count;
    return KVC_OK;
}

/* Computes all tokens so far again, with the long factors. */
static int begin_anew(struct cli_generation *generation) {
    struct cli_progress progress;
    struct kvc_prompt_options options = {.progress = cli_progress, .user = &progress};
    struct kvc_error error;
    int status = open_long(generation);

    if (status != KVC_OK)
        return status;
    cli_progress_start(&progress, "reading all again, with longrope's long factors", generation->quiet);
    if (kvc_session_prompt(generation->session, generation->history, generation->given, &options, NULL, &error) !=
        KVC_OK)
        status = cli_report(generation->command, &error);
    cli_progress_end(&progress);
    return status;
}

int cli_longrope(struct cli_generation *generation, const int32_t *tokens, size_t count) {
    const uint64_t original = short_until(generation);
    int status = KVC_OK;

    if (!original || generation->outgrown)
        return KVC_OK;
    if (generation->given + count <= original)
        return remember(generation, tokens, count);
    generation->outgrown = true;
    if (generation->given > 0 && keeps_all(generation))
        status = begin_anew(generation);
    else if (generation->given > 0)
        cli_warn(
            generation->command,
            "the context exceeds the %llu tokens that longrope's short factors serve; evicted entries cannot be "
            "computed again, so the short factors stay in use; --ctx %llu or more selects the long ones from the start",
            (unsigned long long)original, (unsigned long long)original + 1);
    free(generation->history);
    generation->history = NULL;
    return status;
}

int cli_longrope_first(struct cli_generation *generation) {
    if (!short_until(generation) || keeps_all(generation) || generation->context)
        return KVC_OK;
    return open_long(generation);
}

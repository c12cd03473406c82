/* grammar.c - opens the grammar that answers of `run` and `chat` must match: --json-schema, --regex, --grammar. */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "kvcull/grammar.h"

int cli_grammar_open(const struct cli_command *command, struct cli_sampling *sampling, bool taken) {
    const struct {
        const char *option, *value;
        enum kvc_grammar_kind kind;
        bool file;
    } all[] = {{"json-schema", sampling->schema, KVC_GRAMMAR_JSON_SCHEMA, true},
               {"regex", sampling->regex, KVC_GRAMMAR_REGEX, false},
               {"grammar", sampling->grammar, KVC_GRAMMAR_GBNF, true}};
    char *owned = NULL;
    struct kvc_error error;
    int status;
    size_t bytes, given = sizeof all / sizeof *all;

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!all[i].value)
            continue;
        if (given < sizeof all / sizeof *all)
            return cli_error(command, KVC_USAGE, "--%s, --%s: give only one of them", all[given].option, all[i].option);
        given = i;
    }
    if (given == sizeof all / sizeof *all)
        return KVC_OK;
    if (all[given].file && (all[given].value[0] == '{' || strstr(all[given].value, "::=")))
        return cli_error(command, KVC_USAGE, "--%s: takes the name of a file, not the text; - is standard input",
                         all[given].option);
    if (all[given].file && taken && strcmp(all[given].value, "-") == 0)
        return cli_error(command, KVC_USAGE, "--%s -: standard input is already the prompt; give a file",
                         all[given].option);
    if (all[given].file && (status = cli_read_file(command, all[given].value, &owned, &bytes)) != KVC_OK)
        return status;
    if (!all[given].file)
        bytes = strlen(all[given].value);
    status = (int)kvc_grammar_open(all[given].kind, owned ? owned : all[given].value, bytes, &sampling->opened, &error);
    free(owned);
    if (status == KVC_OK)
        return KVC_OK;
    return cli_error(command, status == KVC_USAGE && all[given].file ? KVC_INPUT : (enum kvc_status)status,
                     "--%s %s: %s", all[given].option, all[given].value, error.text);
}

void cli_sampling_close(struct cli_sampling *sampling) {
    cli_texts_free(&sampling->stops);
    kvc_grammar_close(sampling->opened);
    sampling->opened = NULL;
}

/* options.h - what the command line of kvcull serve says. */
#ifndef KVC_SERVE_OPTIONS_H
#define KVC_SERVE_OPTIONS_H

#include <stdio.h>

#include "cli/cli.h"

struct serve_options {
    struct cli_common common;
    const char *model, *kv, *host, *name, *template_name, *template_file, *date, *key_file, *sessions;
    struct cli_texts allowed;                                              /* names of the server */
    struct cli_texts origins;                                              /* of pages that may ask it */
    bool log;                                                              /* a line for each request */
    int64_t port, batch, queue, wait, connections, connections_each, kept; /* connections_each: 0: all */
    int64_t most, max_tokens; /* tokens of any answer, and of one whose request says none; -1: no limit */
    uint64_t memory, body;
    bool cache_prompt, strict, strict_model;
};

/* Serves until a signal ends it; there where configure found libmicrohttpd. */
int serve_main(const struct cli_command *command, const struct serve_options *options);
void serve_fields_print(FILE *stream); /* the fields of requests as a table of Markdown */

#endif

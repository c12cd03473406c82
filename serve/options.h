/* options.h - the command line of kvcull serve. */
#ifndef KVC_SERVE_OPTIONS_H
#define KVC_SERVE_OPTIONS_H

#include <stdio.h>

#include "cli/cli.h"

struct serve_options {
    struct cli_common common;
    const char *model, *kv, *host, *name, *template_name, *template_file, *date, *key_file, *sessions;
    struct cli_texts allowed;                                              /* Host names to accept in addition */
    struct cli_texts origins;                                              /* allowed origins of web pages */
    bool log;                                                              /* print a line for each request */
    int64_t port, batch, queue, wait, connections, connections_each, kept; /* connections_each: 0 means no limit */
    int64_t most, max_tokens; /* `most`: limit of every answer; `max_tokens`: default for requests without a limit; -1:
                               * none */
    uint64_t memory, body;
    bool cache_prompt, strict, strict_model;
};

/* Serves until a signal arrives. Exists only if configure found libmicrohttpd. */
int serve_main(const struct cli_command *command, const struct serve_options *options);
void serve_fields_print(FILE *stream); /* prints the fields of requests as a Markdown table */

#endif

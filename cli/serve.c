/* serve.c - kvcull serve: the options of the server. The server itself, in the folder serve/, is an optional part of
 * the build. */
#include "serve/options.h"

static int serve(const struct cli_command *command, const struct serve_options *o) {
#ifdef KVC_SERVER
    if (!o->model)
        return cli_error(command, KVC_USAGE, "no model; give -m MODEL, a GGUF file or a Hugging Face folder");
    return serve_main(command, o);
#else
    (void)o;
    return cli_error(command, KVC_RESOURCE,
                     "this program was built without the server; configure found no libmicrohttpd (Debian: apt-get "
                     "install libmicrohttpd-dev)");
#endif
}

int kvc_cli_serve(const struct cli_command *command, int argc, char **argv) {
    struct serve_options o = {.kv = "full",
                              .host = "127.0.0.1",
                              .port = 8080,
                              .batch = 16,
                              .queue = 128,
                              .wait = 60,
                              .connections = 1024,
                              .most = -1,
                              .max_tokens = -1,
                              .kept = 16,
                              .body = 4 << 20};
    struct cli_words words = {NULL, 0};
    bool fields = false;
    const struct cli_option options[] = {
        {CLI_TEXT, 'm', "model", "MODEL", "a GGUF file or a Hugging Face folder", &o.model, 0, 0, NULL},
        {CLI_TEXT, 0, "kv", "SPEC", "policy of the cache, if a request names none", &o.kv, 0, 0, NULL},
        {CLI_TEXT, 0, "template", "NAME", "chat template to use instead of the model's", &o.template_name, 0, 0, NULL},
        {CLI_TEXT, 0, "chat-template-file", "FILE", "file of a Jinja chat template to use instead of --template",
         &o.template_file, 0, 0, NULL},
        {CLI_TEXT, 0, "date", "DATE", "date for the template, such as 2025-06-30", &o.date, 0, 0, NULL},
        {CLI_INT, 0, "max-tokens", "N",
         "maximum tokens of an answer if the request has no field max_tokens; -1: as many as the context and --mem "
         "allow",
         &o.max_tokens, -1, 2147483647, NULL},
        {CLI_FLAG, 0, "strict", NULL, "refuse requests with unknown fields", &o.strict, 0, 0, NULL},
        {CLI_FLAG, 0, "strict-model", NULL, "refuse requests that name a model other than the one served",
         &o.strict_model, 0, 0, NULL},
        {CLI_GROUP, 0, "Connections", NULL, NULL, NULL, 0, 0, NULL},
        {CLI_TEXT, 0, "host", "ADDRESS", "address to listen on", &o.host, 0, 0, NULL},
        {CLI_INT, 0, "port", "N", "port; 0: any free port, which the first line of output names", &o.port, 0, 65535,
         NULL},
        {CLI_TEXT, 0, "name", "NAME", "name of the model for clients; by default the name of its file", &o.name, 0, 0,
         NULL},
        {CLI_TEXT, 0, "api-key-file", "FILE", "file of API keys, one per line; a request must contain one of them",
         &o.key_file, 0, 0, NULL},
        {CLI_INT, 0, "connections", "N", "maximum connections; the limit of open files is raised accordingly",
         &o.connections, 2, 100000, NULL},
        {CLI_INT, 0, "connections-each", "N", "maximum connections of one client address; 0: the same as --connections",
         &o.connections_each, 0, 100000, NULL},
        {CLI_TEXTS, 0, "allow-host", "NAME",
         "accept this name in a request's Host header, in addition to localhost, 127.0.0.1, [::1] and ADDRESS. Without "
         "this option, a server at a loopback ADDRESS accepts only these four names, and any other server accepts "
         "every name",
         &o.allowed, 0, 0, NULL},
        {CLI_TEXTS, 0, "cors-origin", "ORIGIN",
         "an origin, such as https://example.org, whose pages may send requests and read the answers; *: any origin",
         &o.origins, 0, 0, NULL},
        {CLI_BYTES, 0, "body", "BYTES", "maximum size of a request", &o.body, 1024, 1073741824, NULL},
        {CLI_GROUP, 0, "Limits", NULL, NULL, NULL, 0, 0, NULL},
        {CLI_BYTES, 0, "mem", "BYTES",
         "memory limit of all sessions together; default: half of the memory that is available at the start", &o.memory,
         0, 0, NULL},
        {CLI_INT, 0, "batch", "N", "maximum number of requests computed together", &o.batch, 1, 1024, NULL},
        {CLI_INT, 0, "queue", "N", "maximum number of waiting requests; further ones are refused", &o.queue, 1, 100000,
         NULL},
        {CLI_INT, 0, "wait", "SECONDS", "longest time that a request waits for memory", &o.wait, 0, 86400, NULL},
        {CLI_INT, 0, "keep", "N", "maximum number of sessions cached for the next request of their conversation",
         &o.kept, 0, 10000, NULL},
        {CLI_FLAG, 0, "cache-prompt", NULL,
         "reuse cached sessions under every policy; a request's field cache_prompt overrides this. Without this "
         "option, "
         "the server does so only under policies that neither evict nor select entries",
         &o.cache_prompt, 0, 0, NULL},
        {CLI_TEXT, 0, "sessions", "FOLDER",
         "save cached sessions in this folder when the server ends, and load them when it starts; created if missing",
         &o.sessions, 0, 0, NULL},
        {CLI_INT, 'n', "tokens", "N", "maximum tokens of an answer, even if the request asks for more; -1: no limit",
         &o.most, -1, 2147483647, NULL},
        CLI_ENGINE_OPTIONS(&o.common),
        CLI_SESSION_OPTIONS(&o.common),
        {CLI_GROUP, 0, "Output", NULL, NULL, NULL, 0, 0, NULL},
        {CLI_FLAG, 'q', "quiet", NULL, "print only the address and errors", &o.common.quiet, 0, 0, NULL},
        {CLI_FLAG, 0, "log", NULL,
         "print a line on standard error for each request: time, method, path, status, tokens (in, cached, out) and "
         "seconds, but no contents",
         &o.log, 0, 0, NULL},
        {CLI_FLAG, 0, "fields", NULL, "print a table of the fields that a request can have, then exit", &fields, 0, 0,
         NULL},
        {.kind = CLI_END}};

    cli_common_defaults(&o.common);
    int status = cli_parse(command, options, argc, argv, &words);
    if (status == CLI_GO)
        status = cli_model_word(command, &words, &o.model);
    if (status == CLI_GO && fields) {
        serve_fields_print(stdout);
        status = cli_flush(command);
    } else if (status == CLI_GO) {
        status = serve(command, &o);
    }
    cli_texts_free(&o.allowed);
    cli_texts_free(&o.origins);
    cli_words_free(&words);
    return status;
}

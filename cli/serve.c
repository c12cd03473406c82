/* serve.c - kvcull serve: the options of the server. The server itself is in serve/, where it is built. */
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
        {CLI_TEXT, 0, "kv", "SPEC", "the cache's policy, where a request names none", &o.kv, 0, 0, NULL},
        {CLI_TEXT, 0, "template", "NAME", "the chat template, instead of the model's own", &o.template_name, 0, 0,
         NULL},
        {CLI_TEXT, 0, "chat-template-file", "FILE", "a chat template in Jinja, instead of --template", &o.template_file,
         0, 0, NULL},
        {CLI_TEXT, 0, "date", "DATE", "the date for the template, like 2025-06-30", &o.date, 0, 0, NULL},
        {CLI_INT, 0, "max-tokens", "N",
         "tokens of an answer at most, where a request does not say max_tokens; -1: what the context and --mem leave",
         &o.max_tokens, -1, 2147483647, NULL},
        {CLI_FLAG, 0, "strict", NULL, "refuse requests with fields that are not known", &o.strict, 0, 0, NULL},
        {CLI_FLAG, 0, "strict-model", NULL, "refuse requests that name another model than the one served",
         &o.strict_model, 0, 0, NULL},
        {CLI_GROUP, 0, "Connections", NULL, NULL, NULL, 0, 0, NULL},
        {CLI_TEXT, 0, "host", "ADDRESS", "where to listen", &o.host, 0, 0, NULL},
        {CLI_INT, 0, "port", "N", "the port; 0: one that is free, which the first line says", &o.port, 0, 65535, NULL},
        {CLI_TEXT, 0, "name", "NAME", "the model's name for clients; without: its file's", &o.name, 0, 0, NULL},
        {CLI_TEXT, 0, "api-key-file", "FILE", "keys, one a line, of which requests must have one", &o.key_file, 0, 0,
         NULL},
        {CLI_INT, 0, "connections", "N", "connections at most; the limit of open files is raised for them",
         &o.connections, 2, 100000, NULL},
        {CLI_INT, 0, "connections-each", "N", "connections of one address at most; 0: as many as of all",
         &o.connections_each, 0, 100000, NULL},
        {CLI_TEXTS, 0, "allow-host", "NAME",
         "a name that requests may have in Host, beside localhost, 127.0.0.1, [::1] and ADDRESS; without, these "
         "alone at a loopback address, elsewhere all",
         &o.allowed, 0, 0, NULL},
        {CLI_TEXTS, 0, "cors-origin", "ORIGIN",
         "an origin like https://example.org whose pages may send requests and read the answers; * for all", &o.origins,
         0, 0, NULL},
        {CLI_BYTES, 0, "body", "BYTES", "of a request at most", &o.body, 1024, 1073741824, NULL},
        {CLI_GROUP, 0, "Limits", NULL, NULL, NULL, 0, 0, NULL},
        {CLI_BYTES, 0, "mem", "BYTES",
         "that sessions may hold together; without: half of the memory that is available when it starts", &o.memory, 0,
         0, NULL},
        {CLI_INT, 0, "batch", "N", "answers computed together at most", &o.batch, 1, 1024, NULL},
        {CLI_INT, 0, "queue", "N", "requests that may wait; others are sent away", &o.queue, 1, 100000, NULL},
        {CLI_INT, 0, "wait", "SECONDS", "that a request waits for memory at most", &o.wait, 0, 86400, NULL},
        {CLI_INT, 0, "keep", "N", "sessions kept for the next request of their conversation", &o.kept, 0, 10000, NULL},
        {CLI_FLAG, 0, "cache-prompt", NULL,
         "requests that say nothing of cache_prompt go on from a kept session under every policy; without, under those "
         "that evict nothing",
         &o.cache_prompt, 0, 0, NULL},
        {CLI_TEXT, 0, "sessions", "FOLDER",
         "kept sessions are saved there when the server ends, and loaded when it begins; it is made where it is "
         "missing",
         &o.sessions, 0, 0, NULL},
        {CLI_INT, 'n', "tokens", "N", "tokens of an answer at most, whatever its request says; -1: no such limit",
         &o.most, -1, 2147483647, NULL},
        CLI_ENGINE_OPTIONS(&o.common),
        CLI_SESSION_OPTIONS(&o.common),
        {CLI_GROUP, 0, "Output", NULL, NULL, NULL, 0, 0, NULL},
        {CLI_FLAG, 'q', "quiet", NULL, "say nothing but where it listens, and errors", &o.common.quiet, 0, 0, NULL},
        {CLI_FLAG, 0, "log", NULL,
         "a line on standard error for each request: time, method, path, status, tokens and seconds, nothing of what "
         "it says",
         &o.log, 0, 0, NULL},
        {CLI_FLAG, 0, "fields", NULL, "print the fields of requests as a table, and end", &fields, 0, 0, NULL},
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

/* main.c - runs the server: loads the model, starts the engine and HTTP threads, and waits for a signal. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "serve/serve.h"

/* Sets the model's name for clients: --name, or the name of the file or folder without .gguf. Clients do not see
 * paths. */
static void name_model(struct serve *serve) {
    const char *path = serve->options->model, *name = serve->options->name;
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    size_t from = length;
    while (from > 0 && path[from - 1] != '/')
        from--;
    if (length - from > 5 && memcmp(path + length - 5, ".gguf", 5) == 0)
        length -= 5;
    if (name)
        kvc_printable(name, strlen(name), serve->name, sizeof serve->name);
    else
        kvc_printable(path + from, length - from, serve->name, sizeof serve->name);
}

static int check_template(const struct serve *serve) {
    const struct kvc_message greeting = {"user", "hello"};
    struct kvc_chat_options options;
    struct kvc_error error;
    char *text = NULL;
    if (!serve->info->has_chat_template && !serve->options->template_name && !serve->template_text) {
        cli_warn(serve->command, "the model has no chat template, so /v1/chat/completions refuses all requests; "
                                 "--template NAME names one");
        return KVC_OK;
    }
    kvc_chat_defaults(&options);
    options.template_name = serve->options->template_name;
    options.template_text = serve->template_text;
    options.date = serve->options->date;
    const enum kvc_status status = kvc_chat_text_with(serve->model, &options, &greeting, 1, &text, &error);
    free(text);
    return status == KVC_OK ? KVC_OK : cli_report(serve->command, &error);
}

static int open_model(struct serve *serve) {
    const struct serve_options *options = serve->options;
    struct cli_given kv = {0, options->kv};
    const struct cli_texts specs = {&kv, 1};
    struct kvc_error error;
    uint64_t networks;
    int status = serve_origins_check(serve);
    if (status == KVC_OK)
        status =
            cli_open_model(serve->command, &options->common, options->model, &specs, &serve->engine, &serve->model);
    if (status != KVC_OK)
        return status;
    serve->info = kvc_model_info(serve->model);
    if (kvc_estimate_networks(serve->model, options->kv, 0, serve->info->layers, serve->info->kv_heads, &networks,
                              &error) != KVC_OK)
        return cli_report(serve->command, &error);
    serve->context = options->common.context ? (uint64_t)options->common.context : serve->info->trained_context;
    /* `first` is memory that the first session will allocate for weights */
    const uint64_t available = cli_available(), first = serve->info->packed_bytes + networks;
    serve->memory = options->memory           ? options->memory
                    : available == UINT64_MAX ? (uint64_t)4 << 30
                                              : (available > first ? available - first : 0) / 2;
    name_model(serve);
    size_t bytes;
    if (options->template_file)
        status = cli_read_file(serve->command, options->template_file, &serve->template_text, &bytes);
    if (status == KVC_OK)
        status = check_template(serve);
    if (status == KVC_OK)
        status = serve_slots_check(serve);
    if (status == KVC_OK && options->key_file)
        status = serve_keys_read(serve->command, options->key_file, &serve->keys);
    return status;
}

static int announce(const struct serve *serve, int port) {
    const char *host = serve->options->host;
    char memory[32];
    const bool six = strchr(host, ':') != NULL;
    if (!serve->loopback && serve->keys.count == 0)
        cli_warn(serve->command,
                 "--host %s: anyone who can connect can use the server; --api-key-file FILE requires keys", host);
    printf("listening on http://%s%s%s:%d (model %s, --kv %s, %s for sessions)\n", six ? "[" : "", host, six ? "]" : "",
           port, serve->name, serve->options->kv, cli_bytes(serve->memory, memory));
    return cli_flush(serve->command);
}

/* Waits for a signal that ends the server. Returns true if one arrived within `milliseconds`. */
static bool signalled(const sigset_t *signals, long milliseconds) {
    const struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    return sigtimedwait(signals, NULL, &time) > 0;
}

static bool finished(struct serve *serve, struct serve_http *http) {
    pthread_mutex_lock(&serve->lock);
    const size_t left = serve->unfinished;
    pthread_mutex_unlock(&serve->lock);
    return left == 0 && serve_http_busy(http) == 0;
}

static bool ended(struct serve *serve) {
    pthread_mutex_lock(&serve->lock);
    const bool over = serve->ended;
    pthread_mutex_unlock(&serve->lock);
    return over;
}

/* Waits 20 ms. A second signal ends the program immediately. */
static void wait_or_end(const sigset_t *signals) {
    if (!signalled(signals, 20))
        return;
    kvc_output_remove_all();
    signal(SIGTERM, SIG_DFL);
    sigprocmask(SIG_UNBLOCK, signals, NULL);
    raise(SIGTERM);
}

/* Waits for the first signal, refuses new requests, and waits until the running ones have finished. */
static void wait_for_end(struct serve *serve, struct serve_http *http, const sigset_t *signals) {
    while (!signalled(signals, 3600000))
        continue;
    pthread_mutex_lock(&serve->lock);
    serve->draining = true;
    pthread_mutex_unlock(&serve->lock);
    serve_http_refuse(http);
    if (!serve->options->common.quiet)
        fprintf(stderr, "finishing the running requests; a second signal ends the server at once\n");
    while (!finished(serve, http))
        wait_or_end(signals);
}

static int serve_until_end(struct serve *serve, const sigset_t *signals) {
    struct serve_http *http = NULL;
    pthread_t thread;
    void *good = NULL;
    int port = 0;
    int status = serve_http_open(serve, &http, &port);
    if (status != KVC_OK)
        return status;
    const int cause = pthread_create(&thread, NULL, serve_loop, serve);
    if (cause) {
        serve_http_close(http);
        return cli_error(serve->command, KVC_RESOURCE, "no thread for the engine: %s", strerror(cause));
    }
    status = announce(serve, port);
    if (status == KVC_OK)
        wait_for_end(serve, http, signals);
    pthread_mutex_lock(&serve->lock);
    serve->draining = serve->stopped = true;
    pthread_cond_signal(&serve->wake);
    pthread_mutex_unlock(&serve->lock);
    while (!ended(serve)) /* waits, because the engine thread may be saving sessions */
        wait_or_end(signals);
    pthread_join(thread, &good);
    serve_http_close(http);
    return status == KVC_OK && !good ? KVC_RESOURCE : status;
}

int serve_main(const struct cli_command *command, const struct serve_options *options) {
    struct serve serve = {.command = command, .options = options, .began = cli_seconds()};
    sigset_t signals, before;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigprocmask(SIG_BLOCK, &signals, &before); /* blocked in all threads, because signalled() waits for these signals */
    pthread_mutex_init(&serve.lock, NULL);
    pthread_cond_init(&serve.wake, NULL);
    int status = open_model(&serve);
    if (status == KVC_OK)
        status = serve_until_end(&serve, &signals);
    cli_lock_close(&serve.folder_lock);
    serve_keys_free(&serve.keys);
    free(serve.template_text);
    kvc_model_close(serve.model);
    kvc_engine_close(serve.engine);
    pthread_cond_destroy(&serve.wake);
    pthread_mutex_destroy(&serve.lock);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return status;
}

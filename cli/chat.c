/* chat.c - kvcull chat: a conversation through the model's chat template, in one session. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/chat_commands.h"

/* A signal handler can only write to a global variable. */
static volatile sig_atomic_t interrupted;

static void on_interrupt(int number) {
    if (++interrupted >= 3) { /* the chat does not react, for example while it reads a long prompt */
        signal(number, SIG_DFL);
        raise(number);
    }
}

struct arguments {
    struct cli_common common;
    struct cli_sampling sampling;
    const char *model, *kv, *session;
    struct cli_template template;
    bool show_prompt;
};

/* Reads one line of standard input, without its newline. A line that ends in a backslash continues in the next one.
 * *line grows as with getline; *bytes is the length. Returns false at the end of the input. */
static bool read_line(char **line, size_t *capacity, size_t *bytes) {
    char *more = NULL;
    size_t more_capacity = 0, held = 0;
    ssize_t n;

    for (;;) {
        n = getline(&more, &more_capacity, stdin);
        if (n < 0) {
            bool again = interrupted && !feof(stdin);

            if (again) { /* Ctrl-C at the prompt counts as an empty line */
                clearerr(stdin);
                n = 0;
            } else if (held == 0) {
                free(more);
                return false;
            } else {
                break;
            }
        }
        while (n > 0 && (more[n - 1] == '\n' || more[n - 1] == '\r'))
            n--;
        if (held + (size_t)n + 2 > *capacity) {
            char *grown = realloc(*line, held + (size_t)n + 2);

            if (!grown) {
                free(more);
                return false;
            }
            *line = grown;
            *capacity = held + (size_t)n + 2;
        }
        if (n > 0)
            memcpy(*line + held, more, (size_t)n);
        held += (size_t)n;
        if (held > 0 && (*line)[held - 1] == '\\') {
            (*line)[held - 1] = '\n';
            continue;
        }
        break;
    }
    (*line)[held] = '\0';
    *bytes = held;
    free(more);
    return true;
}

/* Answers one message. */
static int chat_answer(const struct arguments *arguments, struct cli_talk *talk, const char *line) {
    struct cli_generation *generation = talk->generation;
    struct cli_answer answer = {0};
    const double before = generation->answer_seconds;
    int32_t *tokens = NULL;
    size_t count = 0;
    int status = cli_chat_turn(talk->chat, line, &tokens, &count);

    if (status == KVC_OK)
        status = cli_generate(generation, tokens, count, true, &answer);
    if (status == KVC_OK) {
        putchar('\n');
        status = cli_flush(talk->command);
    }
    if (status == KVC_OK && answer.stop == CLI_STOP_CONTEXT)
        status = cli_error(talk->command, KVC_USAGE, "--ctx %lld: the context is full; give a larger --ctx",
                           (long long)arguments->common.context);
    else if (status == KVC_OK)
        cli_say_ending(generation, &answer);
    if (status == KVC_OK)
        status = cli_chat_answer(talk->chat, &answer);
    if (status == KVC_OK && talk->session)
        status = cli_generation_save(generation, talk->session, talk->chat);
    if (status == KVC_OK)
        cli_say_cost(generation, answer.count, generation->answer_seconds - before);
    cli_answer_free(&answer);
    free(tokens);
    return status;
}

static int converse(const struct arguments *arguments, struct cli_talk *talk) {
    const bool terminal = isatty(0) == 1 && isatty(2) == 1;
    char *line = NULL;
    size_t capacity = 0;
    int status = KVC_OK;

    if (terminal && !arguments->common.quiet)
        fputs("/help lists the commands, Ctrl-D ends the chat, Ctrl-C an answer.\n", stderr);
    while (status == KVC_OK && !talk->over) {
        size_t bytes;

        interrupted = 0;
        if (terminal)
            fputs("> ", stderr);
        if (!read_line(&line, &capacity, &bytes)) {
            if (terminal)
                fputc('\n', stderr);
            break;
        }
        status = cli_check_text(talk->command, "standard input", line, &bytes);
        if (status != KVC_OK)
            break;
        if (line[0] == '\0' || interrupted) {
            if (interrupted && terminal)
                fputc('\n', stderr);
        } else if (line[0] == '/' && line[1] != '/') {
            status = cli_chat_command(talk, line);
        } else {
            status = chat_answer(arguments, talk, line + (line[0] == '/'));
        }
    }
    free(line);
    return status;
}

/* Loads the conversation of a saved session. */
static int resume(const struct arguments *arguments, int argc, char **argv, struct cli_generation *generation,
                  struct cli_chat *chat) {
    struct kvc_session_stats stats;
    const int status = cli_chat_resume(generation, &arguments->template, arguments->session,
                                       cli_is_given(argc, argv, "kv"), cli_is_given(argc, argv, "kv-type"), chat);

    if (status == KVC_OK && !arguments->common.quiet) {
        kvc_session_stats(generation->session, &stats);
        fprintf(stderr, "(%llu tokens from %s)\n", (unsigned long long)stats.tokens, arguments->session);
    }
    return status;
}

int kvc_cli_chat(const struct cli_command *command, int argc, char **argv) {
    struct arguments a = {.model = NULL};
    const struct cli_option options[] = {
        {CLI_TEXT, 'm', "model", "MODEL", "a GGUF file or a Hugging Face folder", &a.model, 0, 0, NULL},
        {CLI_TEXT, 0, "kv", "SPEC", "policy of the cache", &a.kv, 0, 0, NULL},
        {CLI_TEXT, 0, "session", "FILE",
         "save the conversation to FILE after each answer; if FILE exists, continue it with its policy and entry type",
         &a.session, 0, 0, NULL},
        {CLI_TEXT, 0, "system", "TEXT", "system message", &a.template.system, 0, 0, NULL},
        {CLI_TEXT, 0, "template", "NAME", "chat template; `kvcull info templates` lists them", &a.template.name, 0, 0,
         NULL},
        CLI_TEMPLATE_OPTIONS(&a.template),
        CLI_SAMPLING_OPTIONS(&a.sampling),
        CLI_ENGINE_OPTIONS(&a.common),
        CLI_SESSION_OPTIONS(&a.common),
        {CLI_GROUP, 0, "Output", NULL, NULL, NULL, 0, 0, NULL},
        {CLI_FLAG, 'q', "quiet", NULL, "no hints, no progress and no summary", &a.common.quiet, 0, 0, NULL},
        CLI_SHOW_OPTION(&a.show_prompt),
        {.kind = CLI_END}};
    struct sigaction action = {.sa_handler = on_interrupt};
    struct kvc_engine *engine = NULL;
    struct kvc_model *model = NULL;
    struct cli_generation generation;
    struct cli_chat *chat = NULL;
    struct cli_given kv;
    struct cli_texts specs = {&kv, 1};
    struct cli_lock lock = {0, NULL};
    struct cli_words words = {NULL, 0};
    int status, opened, guarded;

    cli_common_defaults(&a.common);
    cli_sampling_defaults(&a.sampling);
    a.sampling.limit = 1024;
    a.kv = "full";
    a.template.name = "model";
    status = cli_parse(command, options, argc, argv, &words);
    if (status == CLI_GO)
        status = cli_model_word(command, &words, &a.model);
    if (status == CLI_GO && (opened = cli_grammar_open(command, &a.sampling, true)) != KVC_OK)
        status = opened;
    if (status == CLI_GO && a.session && (guarded = cli_session_guard(command, "session", a.session, &lock)) != KVC_OK)
        status = guarded;
    if (status == CLI_GO) {
        kv = (struct cli_given){0, a.kv};
        status = cli_open_model(command, &a.common, a.model, &specs, &engine, &model);
        if (status == KVC_OK)
            status = cli_generation_open(command, &a.common, &a.sampling, model, a.kv, &generation);
        if (status == KVC_OK) {
            generation.echo = true;
            generation.show_prompt = a.show_prompt;
            generation.interrupted = &interrupted;
            status = cli_chat_open(command, model, &a.template, &chat);
            if (status == KVC_OK && a.session && access(a.session, F_OK) == 0)
                status = resume(&a, argc, argv, &generation, chat);
            else if (status == KVC_OK)
                status = cli_longrope_first(&generation);
            if (status == KVC_OK) {
                struct cli_talk talk = {command, &generation, chat, a.session, a.session, false};

                cli_chat_show_last(&talk);
                sigaction(SIGINT, &action, NULL);
                status = converse(&a, &talk);
            }
            if (generation.seen_prompt > 0)
                cli_summary_print(&generation, generation.options.policy);
            cli_chat_close(chat);
            cli_generation_close(&generation);
        }
        kvc_model_close(model);
        kvc_engine_close(engine);
    }
    cli_lock_close(&lock);
    cli_sampling_close(&a.sampling);
    cli_words_free(&words);
    return status;
}

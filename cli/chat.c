/* chat.c - kvcull chat: a conversation through the model's chat template, in one session. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/chat_commands.h"
#include "cli/reader.h"

/* A signal handler can only write to a global variable. */
static volatile sig_atomic_t interrupted;

static void on_interrupt(int number) {
    if (++interrupted >= 3) { /* the first two signals had no effect, for example while the chat reads a long prompt */
        cli_terminal_restore();
        signal(number, SIG_DFL);
        raise(number);
    }
}

struct arguments {
    struct cli_common common;
    struct cli_sampling sampling;
    const char *model, *kv, *session, *history;
    struct cli_template template;
    bool show_prompt;
};

/* Continues the chat after the user has stopped the model while it was reading a message. The session cannot be used
 * any more. */
static int leave_out(struct cli_talk *talk) {
    const struct kvc_message *user, *answer;
    const int status = cli_generation_anew(talk->generation, talk->generation->options.policy);

    cli_chat_drop(talk->chat);
    (void)cli_chat_reread(talk->chat);
    if (status == KVC_OK)
        fprintf(stderr, "(stopped: the message is left out%s)\n",
                cli_chat_last(talk->chat, &user, &answer) ? "; your next one makes the model reread the conversation"
                                                          : "");
    return status;
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
    if (status == KVC_OK && answer.unread) {
        cli_answer_free(&answer);
        free(tokens);
        return leave_out(talk);
    }
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

static int converse(const struct arguments *arguments, struct cli_talk *talk, struct cli_reader *reader) {
    int status = KVC_OK;

    if (reader->terminal && !arguments->common.quiet)
        fputs("/help lists the commands, Ctrl-D ends the chat, Ctrl-C an answer.\n", stderr);
    while (status == KVC_OK && !talk->over) {
        char *line;
        size_t bytes;

        interrupted = 0;
        switch (cli_reader_next(reader, &line, &bytes)) {
        case CLI_READ_END:
            return KVC_OK;
        case CLI_READ_NOTHING:
            continue;
        case CLI_READ_TEXT:
            break;
        }
        status = cli_check_text(talk->command, "standard input", line, &bytes);
        if (status != KVC_OK || line[0] == '\0')
            continue;
        if (line[0] == '/' && line[1] != '/')
            status = cli_chat_command(talk, line);
        else
            status = chat_answer(arguments, talk, line + (line[0] == '/'));
    }
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

/* Opens the model, and talks until the user ends the chat. */
static int run_chat(const struct cli_command *command, const struct arguments *arguments, int argc, char **argv,
                    struct cli_reader *reader) {
    struct sigaction action = {.sa_handler = on_interrupt};
    struct cli_given kv = {0, arguments->kv};
    const struct cli_texts specs = {&kv, 1};
    struct kvc_engine *engine = NULL;
    struct kvc_model *model = NULL;
    struct cli_generation generation;
    struct cli_chat *chat = NULL;
    int status = cli_open_model(command, &arguments->common, arguments->model, &specs, &engine, &model);

    if (status == KVC_OK)
        status =
            cli_generation_open(command, &arguments->common, &arguments->sampling, model, arguments->kv, &generation);
    if (status == KVC_OK) {
        generation.echo = true;
        generation.show_prompt = arguments->show_prompt;
        generation.interrupted = &interrupted;
        generation.engine = engine;
        status = cli_chat_open(command, model, &arguments->template, &chat);
        if (status == KVC_OK && arguments->session && access(arguments->session, F_OK) == 0)
            status = resume(arguments, argc, argv, &generation, chat);
        else if (status == KVC_OK)
            status = cli_longrope_first(&generation);
        if (status == KVC_OK) {
            struct cli_talk talk = {command, &generation, chat, arguments->session, arguments->session, false};

            cli_chat_show_last(&talk);
            sigaction(SIGINT, &action, NULL);
            status = converse(arguments, &talk, reader);
        }
        if (generation.seen_prompt > 0)
            cli_summary_print(&generation, generation.options.policy);
        cli_chat_close(chat);
        cli_generation_close(&generation);
    }
    kvc_model_close(model);
    kvc_engine_close(engine);
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
        {CLI_TEXT, 0, "history", "FILE",
         "keep the messages that you type at a terminal in FILE, for the arrow keys; \"\": keep none; the default is "
         "kvcull/chat_history in $XDG_STATE_HOME or in ~/.local/state",
         &a.history, 0, 0, NULL},
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
    struct cli_reader reader;
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
        status = cli_reader_open(&reader, a.history, cli_chat_command_name, &interrupted)
                     ? run_chat(command, &a, argc, argv, &reader)
                     : cli_no_memory(command);
        cli_reader_close(&reader);
    }
    cli_lock_close(&lock);
    cli_sampling_close(&a.sampling);
    cli_words_free(&words);
    return status;
}

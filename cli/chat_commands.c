/* chat_commands.c - the commands that a user types in a chat, such as /stats. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/chat_commands.h"

static int say_help(struct cli_talk *talk, const char *argument);

static int end_chat(struct cli_talk *talk, const char *argument) {
    (void)argument;
    talk->over = true;
    return KVC_OK;
}

static const char *policy_of(const struct cli_talk *talk) { return talk->generation->options.policy; }

/* Stops saving to the file of --session, so that the file stays as it is. */
static void leave_file(struct cli_talk *talk) {
    if (talk->session)
        fprintf(stderr, "(no longer saving to %s; /save %s overwrites it and resumes)\n", talk->session, talk->session);
    talk->session = NULL;
}

static int clear(struct cli_talk *talk, const char *argument) {
    (void)argument;
    if (cli_generation_anew(talk->generation, policy_of(talk)) != KVC_OK)
        return KVC_OK;
    const int status = cli_generation_forget(talk->generation);
    cli_chat_clear(talk->chat, true);
    fputs("(a new conversation)\n", stderr);
    leave_file(talk);
    return status;
}

static int say_stats(struct cli_talk *talk, const char *argument) {
    const bool quiet = talk->generation->quiet;
    (void)argument;
    talk->generation->quiet = false;
    cli_summary_print(talk->generation, policy_of(talk));
    talk->generation->quiet = quiet;
    return KVC_OK;
}

/* The conversation is read again with the new policy, because entries that the old policy evicted are gone. */
static int set_policy(struct cli_talk *talk, const char *argument) {
    if (!*argument) {
        fprintf(stderr, "%s\n", policy_of(talk));
        return KVC_OK;
    }
    if (cli_generation_anew(talk->generation, argument) != KVC_OK)
        return KVC_OK;
    if (cli_chat_reread(talk->chat))
        fputs("(your next message makes the model reread the conversation)\n", stderr);
    return KVC_OK;
}

static int save(struct cli_talk *talk, const char *argument) {
    struct cli_lock lock = {0, NULL};
    const bool ours = talk->locked && strcmp(argument, talk->locked) == 0;
    if (!*argument || !cli_chat_begun(talk->chat)) {
        fputs(*argument ? "/save: send a message first\n" : "/save FILE: name the file\n", stderr);
        return KVC_OK;
    }
    if (ours || cli_session_guard(talk->command, "save", argument, &lock) == KVC_OK) {
        if (cli_generation_save(talk->generation, argument, talk->chat) == KVC_OK) {
            fprintf(stderr, "(saved to %s)\n", argument);
            talk->session = ours ? talk->locked : talk->session;
        }
    }
    cli_lock_close(&lock);
    return KVC_OK;
}

static int load(struct cli_talk *talk, const char *argument) {
    json_t *messages = NULL;
    if (!*argument) {
        fputs("/load FILE: name the file\n", stderr);
        return KVC_OK;
    }
    if (cli_generation_load(talk->generation, argument, false, false, &messages) != KVC_OK)
        return KVC_OK;
    cli_chat_clear(talk->chat, false);
    int status = cli_chat_restore(talk->chat, messages, argument);
    json_decref(messages);
    if (cli_generation_forget(talk->generation) != KVC_OK)
        return KVC_RESOURCE;
    if (status != KVC_OK) { /* a run without a chat template saved this session; a chat cannot use it */
        cli_chat_clear(talk->chat, false);
        status = cli_generation_anew(talk->generation, policy_of(talk));
        fputs("(a new conversation)\n", stderr);
    } else {
        fprintf(stderr, "(goes on with %s, policy %s)\n", argument, policy_of(talk));
        cli_chat_show_last(talk);
    }
    leave_file(talk);
    return status;
}

static const struct chat_command {
    const char *name, *argument, *help;
    int (*run)(struct cli_talk *, const char *argument);
} chat_commands[] = {
    {"/help", "", "lists the commands", say_help},
    {"/stats", "", "prints the tokens per second and the size of the cache", say_stats},
    {"/policy", "[SPEC]", "prints the cache's policy, or changes it from the next message on", set_policy},
    {"/clear", "", "begins a new conversation, with the system message and --messages of the command", clear},
    {"/save", "FILE", "saves the conversation", save},
    {"/load", "FILE", "goes on with a saved conversation and its policy", load},
    {"/exit", "", "ends the chat, as Ctrl-D does", end_chat},
    {"/quit", "", "like /exit", end_chat}};
#define COMMANDS (sizeof chat_commands / sizeof *chat_commands)

static int say_help(struct cli_talk *talk, const char *argument) {
    (void)talk;
    (void)argument;
    for (size_t i = 0; i < COMMANDS; i++) {
        const struct chat_command *each = &chat_commands[i];
        fprintf(stderr, "%s %-*s %s\n", each->name, (int)(14 - strlen(each->name)), each->argument, each->help);
    }
    fputs(
        "A line that ends in \\ continues in the next one, and so do lines between two \"\"\". Type // to send a line "
        "that begins with /. Ctrl-C ends an answer.\n",
        stderr);
    return KVC_OK;
}

const char *cli_chat_command_name(size_t i) { return i < COMMANDS ? chat_commands[i].name : NULL; }

int cli_chat_command(struct cli_talk *talk, const char *line) {
    const size_t length = strcspn(line, " \t\n");
    const char *argument = line + length + strspn(line + length, " \t\n");
    char clean[60];
    for (size_t i = 0; i < COMMANDS; i++) {
        const struct chat_command *each = &chat_commands[i];
        if (strlen(each->name) != length || memcmp(each->name, line, length) != 0)
            continue;
        if (*argument && !*each->argument) {
            fprintf(stderr, "%s: takes no argument\n", each->name);
            return KVC_OK;
        }
        return each->run(talk, argument);
    }
    kvc_printable(line, strlen(line), clean, sizeof clean);
    fprintf(stderr, "%s: no such command; /help lists them, // sends a line that begins with /\n", clean);
    return KVC_OK;
}

void cli_chat_show_last(const struct cli_talk *talk) {
    const struct kvc_message *user, *answer;
    if (talk->generation->quiet || isatty(2) != 1 || !cli_chat_last(talk->chat, &user, &answer))
        return;
    fputs("> ", stderr);
    cli_write_text(stderr, user->content, strlen(user->content));
    fputc('\n', stderr);
    cli_write_text(stderr, answer->content, strlen(answer->content));
    fputc('\n', stderr);
}

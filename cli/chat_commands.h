/* chat_commands.h - the commands that a user types in a chat, such as /stats. */
#ifndef KVC_CLI_CHAT_COMMANDS_H
#define KVC_CLI_CHAT_COMMANDS_H

#include "cli/cli.h"

/* A running chat. */
struct cli_talk {
    const struct cli_command *command;
    struct cli_generation *generation;
    struct cli_chat *chat;
    const char *locked;  /* the file of --session, if this process may write it; NULL: none */
    const char *session; /* equal to `locked` if each answer is saved to it; otherwise NULL */
    bool over;           /* the user has ended the chat */
};

/* Runs the command in a line that begins with a slash. A command that fails prints why, and the chat goes on. Returns
 * a status other than KVC_OK only if the chat cannot go on. */
int cli_chat_command(struct cli_talk *talk, const char *line);
/* Returns the name of the i-th command, or NULL after the last one. */
const char *cli_chat_command_name(size_t i);
/* Prints the last message of the user and the answer, if the output is a terminal. */
void cli_chat_show_last(const struct cli_talk *talk);

#endif

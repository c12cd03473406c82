/* reader.h - reads the messages of a chat. */
#ifndef KVC_CLI_READER_H
#define KVC_CLI_READER_H

#include <signal.h>

#include "cli/edit.h"

struct cli_reader {
    bool terminal;        /* standard input and standard error are terminals */
    bool at_terminal;     /* standard input is a terminal */
    bool edits;           /* the terminal can move its cursor */
    struct editor editor; /* used with `edits` */
    struct edit_history history;
    char *line; /* the last message */
    size_t capacity;
    char *early; /* without `edits`: text that was typed before the prompt and has not been read yet */
    size_t early_bytes;
    const volatile sig_atomic_t *interrupted;
};
enum cli_read { CLI_READ_TEXT, CLI_READ_NOTHING /* Ctrl-C */, CLI_READ_END };

/* Prepares to read from standard input. From now on, a terminal echoes typed text only while a message is read, but no
 * typed text is lost. `names` returns the names that Tab completes at the beginning of a message. *interrupted is not 0
 * after Ctrl-C. */
bool cli_reader_open(struct cli_reader *reader, const char *history, edit_name_fn *names,
                     const volatile sig_atomic_t *interrupted);
/* Reads a message. *text [*bytes] is valid until the next call. */
enum cli_read cli_reader_next(struct cli_reader *reader, char **text, size_t *bytes);
void cli_reader_close(struct cli_reader *reader);

#endif

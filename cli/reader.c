/* reader.c - reads the messages of a chat: on a terminal with the line editor, elsewhere as plain lines. Text that the
 * user types during an answer becomes the beginning of the next message. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/reader.h"

static const char prompt[] = "> ";

/* Returns true if the terminal understands the sequences that move the cursor. */
static bool moves_cursor(void) {
    const char *kind = getenv("TERM");
    return kind && *kind && strcmp(kind, "dumb") != 0;
}

bool cli_reader_open(struct cli_reader *reader, const char *history, edit_name_fn *names,
                     const volatile sig_atomic_t *interrupted) {
    *reader = (struct cli_reader){.interrupted = interrupted};
    reader->at_terminal = cli_terminal_open();
    reader->terminal = reader->at_terminal && isatty(2) == 1;
    reader->edits = reader->terminal && moves_cursor();
    if (reader->edits) {
        if (!edit_text_open(&reader->editor.text))
            return false;
        edit_history_open(&reader->history, history);
        reader->editor.history = &reader->history;
        reader->editor.names = names;
        reader->editor.interrupted = interrupted;
        reader->editor.screen.prompt = prompt;
        cli_terminal_marks_pastes();
    }
    if (reader->at_terminal)
        cli_terminal_set(CLI_TERMINAL_WAITS);
    return true;
}

void cli_reader_close(struct cli_reader *reader) {
    if (reader->at_terminal)
        cli_terminal_close();
    edit_text_free(&reader->editor.text);
    edit_history_close(&reader->history);
    free(reader->editor.draft);
    free(reader->early);
    free(reader->line);
    *reader = (struct cli_reader){.line = NULL};
}

/* ---- lines ---- */

/* Reads the bytes that the user has typed so far, without waiting. */
static void take_early(struct cli_reader *reader) {
    struct pollfd terminal = {.fd = 0, .events = POLLIN};
    char bytes[256];
    while (poll(&terminal, 1, 0) == 1) {
        const ssize_t n = read(0, bytes, sizeof bytes);
        char *grown = n > 0 ? realloc(reader->early, reader->early_bytes + (size_t)n) : NULL;
        if (!grown)
            return;
        reader->early = grown;
        for (ssize_t i = 0; i < n; i++) {
            const bool erases = bytes[i] == 0x7f || bytes[i] == '\b';
            if (erases && reader->early_bytes > 0 && grown[reader->early_bytes - 1] != '\n')
                reader->early_bytes--;
            else if (!erases)
                grown[reader->early_bytes++] = (char)(bytes[i] == '\r' ? '\n' : bytes[i]);
        }
    }
}

/* Moves the first line of the early text to *line, and shows it. Returns true if this line is complete. */
static bool use_early(struct cli_reader *reader, char **line, size_t *bytes) {
    const char *end = reader->early_bytes ? memchr(reader->early, '\n', reader->early_bytes) : NULL;
    const size_t n = end ? (size_t)(end - reader->early) : reader->early_bytes;
    *line = n ? strndup(reader->early, n) : NULL;
    *bytes = *line ? strlen(*line) : 0;
    reader->early_bytes -= n + (end != NULL);
    if (end)
        memmove(reader->early, end + 1, reader->early_bytes);
    if (*line)
        fwrite(*line, 1, *bytes, stderr);
    if (end)
        fputc('\n', stderr);
    return end != NULL;
}

static bool reader_put(struct cli_reader *reader, size_t *held, const char *data, size_t bytes) {
    if (*held + bytes + 1 > reader->capacity) {
        const size_t capacity = cli_max(2 * reader->capacity, *held + bytes + 1);
        char *grown = realloc(reader->line, capacity);
        if (!grown)
            return false;
        reader->line = grown;
        reader->capacity = capacity;
    }
    if (bytes > 0)
        memcpy(reader->line + *held, data, bytes);
    *held += bytes;
    reader->line[*held] = '\0';
    return true;
}

/* Appends a line of standard input, without its end, to the message. */
static enum cli_read add_line(struct cli_reader *reader, size_t *held) {
    char *more = NULL, *early = NULL;
    size_t capacity = 0, early_bytes = 0;
    ssize_t n = 0;
    enum cli_read result = CLI_READ_TEXT;
    if (!(reader->at_terminal && use_early(reader, &early, &early_bytes))) {
        errno = 0;
        n = getline(&more, &capacity, stdin);
    }
    if (n < 0 && *reader->interrupted && !feof(stdin)) {
        clearerr(stdin);
        result = CLI_READ_NOTHING;
    } else if (n < 0 && early_bytes == 0) {
        result = CLI_READ_END;
    }
    for (; n > 0 && (more[n - 1] == '\n' || more[n - 1] == '\r'); n--)
        continue;
    if (result == CLI_READ_TEXT &&
        !(reader_put(reader, held, early, early_bytes) && reader_put(reader, held, more, n > 0 ? (size_t)n : 0)))
        result = CLI_READ_END;
    free(early);
    free(more);
    return result;
}

/* Reads a message as plain lines. */
static enum cli_read read_lines(struct cli_reader *reader, size_t *held) {
    enum cli_read result = CLI_READ_END;
    *held = 0;
    if (reader->at_terminal) {
        take_early(reader);
        cli_terminal_set(CLI_TERMINAL_USER);
    }
    for (bool goes_on = true; goes_on;) {
        const bool begun = *held > 0;
        size_t remove = 0;
        if (reader->terminal)
            fputs(begun ? "  " : prompt, stderr);
        result = add_line(reader, held);
        goes_on = result == CLI_READ_TEXT && edit_goes_on(reader->line, *held, &remove);
        if (goes_on) {
            *held -= remove;
            goes_on = reader_put(reader, held, "\n", 1);
        }
        if (result == CLI_READ_END && begun) /* the input ends within a message */
            result = CLI_READ_TEXT;
    }
    if (reader->at_terminal)
        cli_terminal_set(CLI_TERMINAL_WAITS);
    if (reader->terminal && result != CLI_READ_TEXT)
        fputc('\n', stderr);
    return result;
}

/* ---- messages ---- */

/* Removes the marks around a block. */
static void strip_block(char **text, size_t *bytes) {
    const char *quotes = "\"\"\"";
    if (*bytes < 3 || memcmp(*text, quotes, 3) != 0)
        return;
    *text += 3;
    *bytes -= 3;
    if (*bytes >= 3 && memcmp(*text + *bytes - 3, quotes, 3) == 0)
        *bytes -= 3;
    if (*bytes > 0 && **text == '\n') {
        ++*text;
        --*bytes;
    }
    if (*bytes > 0 && (*text)[*bytes - 1] == '\n')
        --*bytes;
    (*text)[*bytes] = '\0';
}

static enum cli_read read_edited(struct cli_reader *reader, char **text, size_t *bytes) {
    const enum edit_end end = edit_run(&reader->editor);
    *text = reader->editor.text.data;
    *bytes = reader->editor.text.bytes;
    if (end == EDIT_DONE && *bytes > strspn(*text, " \t\n"))
        edit_history_add(&reader->history, *text);
    return end == EDIT_DONE ? CLI_READ_TEXT : end == EDIT_DROPPED ? CLI_READ_NOTHING : CLI_READ_END;
}

enum cli_read cli_reader_next(struct cli_reader *reader, char **text, size_t *bytes) {
    enum cli_read result;
    if (reader->edits) {
        result = read_edited(reader, text, bytes);
    } else {
        result = read_lines(reader, bytes);
        *text = reader->line;
    }
    if (result == CLI_READ_TEXT)
        strip_block(text, bytes);
    return result;
}

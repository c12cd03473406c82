/* edit.h - the line editor of kvcull chat: the text (edit_text.c), how a terminal shows it (edit_draw.c), the keys
 * (edit_keys.c), earlier messages (history.c), and the terminal's modes (terminal.c). reader.c uses them.
 *
 * A character here is what a terminal shows in one place: a code point and the combining marks after it. */
#ifndef KVC_CLI_EDIT_H
#define KVC_CLI_EDIT_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* ---- terminal.c ---- */

enum cli_terminal_mode {
    CLI_TERMINAL_USER,  /* the user's own mode */
    CLI_TERMINAL_EDITS, /* keys are not echoed; Ctrl-C is a signal and discards nothing; Ctrl-S and Ctrl-Q are keys */
    CLI_TERMINAL_WAITS  /* as CLI_TERMINAL_EDITS, but Ctrl-S and Ctrl-Q stop and continue the output */
};
/* Saves the settings of the terminal on standard input. They are restored when the program stops or ends, and set again
 * when it continues. Returns false if standard input is not a terminal. */
bool cli_terminal_open(void);
void cli_terminal_set(enum cli_terminal_mode mode);
void cli_terminal_close(void);
/* Restores the user's settings. May be called in a signal handler, and without cli_terminal_open. */
void cli_terminal_restore(void);
/* Returns what has changed since the last call: the terminal has another size, or the program continues after a
 * stop. */
enum cli_terminal_change { CLI_TERMINAL_SAME, CLI_TERMINAL_RESIZED, CLI_TERMINAL_CONTINUED };
enum cli_terminal_change cli_terminal_changed(void);
/* Makes the terminal send marks around pasted text, so that line ends in this text do not count as Enter. */
void cli_terminal_marks_pastes(void);

/* ---- edit_text.c ---- */

struct edit_text {
    char *data;   /* valid UTF-8 that ends with a NUL; it contains no control characters except \n and \t */
    size_t bytes; /* size of `data` without the NUL */
    size_t at;    /* offset of the cursor */
    size_t capacity;
    char *cut; /* the last text that edit_cut removed, or NULL */
};
bool edit_text_open(struct edit_text *text); /* returns false if memory runs out */
void edit_text_free(struct edit_text *text);
/* Returns how many columns the character at `at` takes in a terminal; 0 if it combines with the character before. */
int edit_width(const struct edit_text *text, size_t at);
/* Inserts text at the cursor. Drops control characters and replaces invalid UTF-8. If memory runs out, inserts
 * nothing. */
void edit_insert(struct edit_text *text, const char *data, size_t bytes);
/* Replaces the whole text and moves the cursor to its end. */
void edit_replace(struct edit_text *text, const char *data);
/* Remove the text between two offsets and move the cursor there. edit_cut keeps the text for edit_put_back. */
void edit_remove(struct edit_text *text, size_t from, size_t to);
void edit_cut(struct edit_text *text, size_t from, size_t to);
void edit_put_back(struct edit_text *text);
/* Return the offset of the character or word before or after `at`, and of the beginning or end of the line at `at`. */
size_t edit_back(const struct edit_text *text, size_t at);
size_t edit_forward(const struct edit_text *text, size_t at);
size_t edit_word_back(const struct edit_text *text, size_t at);
size_t edit_word_forward(const struct edit_text *text, size_t at);
size_t edit_line_begin(const struct edit_text *text, size_t at);
size_t edit_line_end(const struct edit_text *text, size_t at);
/* Moves the cursor to the same column of the line above or below, or to the end of that line if it is shorter. Returns
 * false if there is no such line. */
bool edit_move_line(struct edit_text *text, bool up);
/* Returns true if Enter starts a new line instead of ending the text: the text ends in a backslash, or a block of """
 * is open. *remove then receives how many of the text's last bytes the new line end replaces. */
bool edit_goes_on(const char *data, size_t bytes, size_t *remove);

/* ---- edit_draw.c ---- */

struct edit_screen {
    const char *prompt;    /* ASCII; it precedes the first line, and blanks precede the others */
    size_t columns, lines; /* size of the terminal when the text was drawn */
    size_t top;            /* if the text has more rows than the terminal: the first row that is shown */
    size_t row;            /* the cursor's row; 0 is the first row that is shown */
};
/* Draws the text at the place where it was drawn last; if `anew` is true, at the terminal's cursor. */
void edit_draw(struct edit_screen *screen, const struct edit_text *text, bool anew);
/* Moves the terminal's cursor to a new line after the text. */
void edit_leave(struct edit_screen *screen, struct edit_text *text);

/* ---- history.c ---- */

struct edit_history {
    char **items; /* [count]: the messages, the oldest first */
    size_t count, capacity;
    char *path; /* NULL if the history is not kept in a file */
    bool named; /* true if the user named the file, so that problems are worth a warning */
};
/* Reads the history file. If path is NULL, this is the default file. If path is "", there is no file. */
void edit_history_open(struct edit_history *history, const char *path);
void edit_history_add(struct edit_history *history, const char *text); /* also adds the message to the file */
void edit_history_close(struct edit_history *history);

/* ---- edit_keys.c ---- */

enum edit_end { EDIT_DONE, EDIT_DROPPED /* Ctrl-C */, EDIT_OVER /* Ctrl-D, or the terminal is gone */ };
typedef const char *edit_name_fn(size_t i); /* returns the i-th name that Tab completes, or NULL after the last one */
struct editor {
    struct edit_text text;
    struct edit_screen screen;
    struct edit_history *history;
    edit_name_fn *names;
    const volatile sig_atomic_t *interrupted; /* not 0 after Ctrl-C */
    size_t place;                             /* the shown entry's index in the history; history->count: the new text */
    char *draft;                              /* the new text, while an entry of the history is shown */
    unsigned char input[256];
    size_t input_at, input_bytes;
};
/* Lets the user write a text. */
enum edit_end edit_run(struct editor *editor);

#endif

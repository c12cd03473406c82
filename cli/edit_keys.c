/* edit_keys.c - the keys of the line editor. They act as in the emacs mode of other programs. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/edit.h"

enum {
    ENDED = -1,
    LATE = -2,        /* no byte came in time */
    DROPPED = -3,     /* Ctrl-C */
    ESCAPE_WAIT = 100 /* milliseconds within which the rest of a key's sequence must arrive */
};
#define CONTROL(letter) ((letter)&0x1f)

static void keys_draw(struct editor *editor) {
    if (editor->input_at == editor->input_bytes) /* text that arrives all at once is drawn only once */
        edit_draw(&editor->screen, &editor->text, false);
}

/* Waits at most `wait` milliseconds (-1: for ever) until a byte can be read. Returns poll's result. A signal that
 * arrives just before the wait also ends it. */
static int wait_for_byte(struct editor *editor, int wait) {
    const struct timespec time = {wait / 1000, wait % 1000 * 1000000L};
    struct pollfd terminal = {.fd = 0, .events = POLLIN};
    sigset_t signals, before;
    int ready = 0;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGWINCH);
    sigaddset(&signals, SIGCONT);
    sigprocmask(SIG_BLOCK, &signals, &before);
    const enum cli_terminal_change change = cli_terminal_changed();
    if (change != CLI_TERMINAL_SAME)
        edit_draw(&editor->screen, &editor->text, change == CLI_TERMINAL_CONTINUED);
    if (!*editor->interrupted)
        ready = ppoll(&terminal, 1, wait < 0 ? NULL : &time, &before);
    else
        errno = EINTR;
    if (*editor->interrupted)
        ready = -1;
    sigprocmask(SIG_SETMASK, &before, NULL);
    return ready;
}

/* Returns the next byte; LATE if none came within `wait` milliseconds (-1: waits for ever); DROPPED after Ctrl-C; or
 * ENDED. */
static int next_byte(struct editor *editor, int wait) {
    while (*editor->interrupted || editor->input_at == editor->input_bytes) {
        const int ready = wait_for_byte(editor, wait);
        if (*editor->interrupted)
            return DROPPED;
        if (ready == 0)
            return LATE;
        if (ready < 0 && errno == EINTR)
            continue;
        const ssize_t n = ready < 0 ? -1 : read(0, editor->input, sizeof editor->input);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return ENDED;
        editor->input_at = 0;
        editor->input_bytes = (size_t)n;
    }
    return editor->input[editor->input_at++];
}

/* ---- history and completion ---- */

/* Shows the previous or the next entry of the history. After the last entry comes the new text. */
static void show_entry(struct editor *editor, bool earlier) {
    const size_t count = editor->history->count;
    if (earlier ? editor->place == 0 : editor->place >= count)
        return;
    if (editor->place >= count) {
        free(editor->draft);
        editor->draft = strdup(editor->text.data);
    }
    editor->place += earlier ? (size_t)-1 : 1;
    const char *shown = editor->place < count ? editor->history->items[editor->place] : editor->draft;
    edit_replace(&editor->text, shown ? shown : "");
}

/* Returns how many names begin with the text before the cursor. *common receives the length of their common prefix, and
 * *any one of them. */
static size_t count_names(const struct editor *editor, const char **any, size_t *common) {
    const struct edit_text *text = &editor->text;
    size_t count = 0;
    const char *name;
    for (size_t i = 0; (name = editor->names(i)); i++) {
        if (strncmp(name, text->data, text->at) != 0)
            continue;
        if (count++ == 0) {
            *any = name;
            *common = strlen(name);
        }
        for (size_t n = 0; n < *common; n++)
            if (name[n] != (*any)[n])
                *common = n;
    }
    return count;
}

static void list_names(struct editor *editor) {
    const char *name;
    const size_t at = editor->text.at;
    edit_leave(&editor->screen, &editor->text);
    editor->text.at = at;
    for (size_t i = 0; (name = editor->names(i)); i++)
        if (strncmp(name, editor->text.data, at) == 0)
            fprintf(stderr, "%s  ", name);
    fputs("\r\n", stderr);
}

/* Completes the name of a command at the beginning of the text. */
static void complete(struct editor *editor) {
    struct edit_text *text = &editor->text;
    const char *any = NULL;
    size_t common = 0;
    if (text->data[0] != '/' || memchr(text->data, ' ', text->at))
        return;
    const size_t count = count_names(editor, &any, &common);
    if (count == 0)
        fputc('\a', stderr);
    else if (common > text->at)
        edit_insert(text, any + text->at, common - text->at);
    else if (count > 1)
        list_names(editor);
}

/* ---- keys ---- */

/* Inserts pasted text up to the mark at its end. */
static void paste(struct editor *editor) {
    static const char end[] = "\033[201~";
    const size_t mark = sizeof end - 1;
    char *pasted = NULL;
    size_t bytes = 0, size = 0;
    for (int c; (c = next_byte(editor, -1)) >= 0;) {
        if (bytes == size) {
            char *grown = realloc(pasted, size ? 2 * size : 256);
            if (!grown)
                break;
            pasted = grown;
            size = size ? 2 * size : 256;
        }
        pasted[bytes++] = (char)c;
        if (bytes >= mark && memcmp(pasted + bytes - mark, end, mark) == 0) {
            edit_insert(&editor->text, pasted, bytes - mark);
            break;
        }
    }
    free(pasted);
}

static void move_row(struct editor *editor, bool up) {
    if (!edit_move_line(&editor->text, up))
        show_entry(editor, up);
}

/* Reads the rest of a key that begins with ESC [ and acts on it. */
static void bracket_key(struct editor *editor) {
    struct edit_text *text = &editor->text;
    char numbers[16];
    size_t count = 0;
    int c;
    while ((c = next_byte(editor, ESCAPE_WAIT)) >= 0 && c < 0x40)
        if (count + 1 < sizeof numbers)
            numbers[count++] = (char)c;
    numbers[count] = '\0';
    const bool word = strcmp(numbers, "1;5") == 0 || strcmp(numbers, "1;3") == 0;
    if (c == 'A' || c == 'B')
        move_row(editor, c == 'A');
    else if (c == 'C')
        text->at = word ? edit_word_forward(text, text->at) : edit_forward(text, text->at);
    else if (c == 'D')
        text->at = word ? edit_word_back(text, text->at) : edit_back(text, text->at);
    else if (c == 'H' || (c == '~' && (strcmp(numbers, "1") == 0 || strcmp(numbers, "7") == 0)))
        text->at = edit_line_begin(text, text->at);
    else if (c == 'F' || (c == '~' && (strcmp(numbers, "4") == 0 || strcmp(numbers, "8") == 0)))
        text->at = edit_line_end(text, text->at);
    else if (c == '~' && strcmp(numbers, "3") == 0)
        edit_remove(text, text->at, edit_forward(text, text->at));
    else if (c == '~' && strcmp(numbers, "200") == 0)
        paste(editor);
}

static void escape_key(struct editor *editor) {
    struct edit_text *text = &editor->text;
    const int c = next_byte(editor, ESCAPE_WAIT);
    if (c == '[') {
        bracket_key(editor);
    } else if (c == 'O') {
        const int key = next_byte(editor, ESCAPE_WAIT);
        if (key == 'A' || key == 'B')
            move_row(editor, key == 'A');
        else if (key == 'C' || key == 'D')
            text->at = key == 'C' ? edit_forward(text, text->at) : edit_back(text, text->at);
        else if (key == 'H' || key == 'F')
            text->at = key == 'H' ? edit_line_begin(text, text->at) : edit_line_end(text, text->at);
    } else if (c == 'b' || c == 'f') {
        text->at = c == 'b' ? edit_word_back(text, text->at) : edit_word_forward(text, text->at);
    } else if (c == 'd') {
        edit_cut(text, text->at, edit_word_forward(text, text->at));
    } else if (c == 0x7f || c == '\b') {
        edit_cut(text, edit_word_back(text, text->at), text->at);
    } else if (c == '\r' || c == '\n') {
        edit_insert(text, "\n", 1);
    }
}

/* Inserts a character that begins with this byte. */
static void insert_character(struct editor *editor, int first) {
    const size_t more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : first >= 0xc0 ? 1 : 0;
    char bytes[4] = {(char)first};
    size_t n = 1;
    for (int c; n <= more && (c = next_byte(editor, ESCAPE_WAIT)) >= 0; n++) {
        if ((c & 0xc0) != 0x80) { /* the byte does not belong to this character but to the next key */
            editor->input_at--;
            break;
        }
        bytes[n] = (char)c;
    }
    edit_insert(&editor->text, bytes, n);
}

/* Acts on Enter. Returns true if the text is complete. */
static bool enter(struct editor *editor) {
    struct edit_text *text = &editor->text;
    size_t remove;
    if (!edit_goes_on(text->data, text->bytes, &remove))
        return true;
    if (remove > 0)
        edit_remove(text, text->bytes - remove, text->bytes);
    edit_insert(text, "\n", 1);
    return false;
}

/* Acts on a key that changes the text or the cursor's place. */
static void edit_key(struct editor *editor, int c) {
    struct edit_text *text = &editor->text;
    switch (c) {
    case CONTROL('A'):
        text->at = edit_line_begin(text, text->at);
        break;
    case CONTROL('E'):
        text->at = edit_line_end(text, text->at);
        break;
    case CONTROL('B'):
        text->at = edit_back(text, text->at);
        break;
    case CONTROL('F'):
        text->at = edit_forward(text, text->at);
        break;
    case CONTROL('P'):
    case CONTROL('N'):
        move_row(editor, c == CONTROL('P'));
        break;
    case CONTROL('D'):
        edit_remove(text, text->at, edit_forward(text, text->at));
        break;
    case CONTROL('K'):
        edit_cut(text, text->at, edit_line_end(text, text->at));
        break;
    case CONTROL('U'):
        edit_cut(text, edit_line_begin(text, text->at), text->at);
        break;
    case CONTROL('W'):
        edit_cut(text, edit_word_back(text, text->at), text->at);
        break;
    case CONTROL('Y'):
        edit_put_back(text);
        break;
    case CONTROL('H'):
    case 0x7f:
        edit_remove(text, edit_back(text, text->at), text->at);
        break;
    case CONTROL('I'):
        complete(editor);
        break;
    case 0x1b:
        escape_key(editor);
        break;
    default:
        if (c >= ' ')
            insert_character(editor, c);
    }
}

static enum edit_end leave(struct editor *editor, enum edit_end end) {
    edit_leave(&editor->screen, &editor->text);
    if (end != EDIT_DONE)
        edit_replace(&editor->text, "");
    cli_terminal_set(CLI_TERMINAL_WAITS);
    return end;
}

enum edit_end edit_run(struct editor *editor) {
    edit_replace(&editor->text, "");
    editor->place = editor->history->count;
    cli_terminal_set(CLI_TERMINAL_EDITS);
    (void)cli_terminal_changed();
    edit_draw(&editor->screen, &editor->text, true);
    for (;;) {
        const int c = next_byte(editor, -1);
        if (c == DROPPED)
            return leave(editor, EDIT_DROPPED);
        if (c < 0 || (c == CONTROL('D') && editor->text.bytes == 0))
            return leave(editor, EDIT_OVER);
        if ((c == '\r' || c == '\n') && enter(editor))
            return leave(editor, EDIT_DONE);
        if (c == CONTROL('L')) {
            fputs("\033[H\033[2J", stderr);
            edit_draw(&editor->screen, &editor->text, true);
        } else {
            if (c != '\r' && c != '\n')
                edit_key(editor, c);
            keys_draw(editor);
        }
    }
}

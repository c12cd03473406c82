/* edit_draw.c - draws the text of the line editor. It breaks lines itself instead of relying on the terminal, so that
 * it knows the row and column of every character. */
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/edit.h"

/* Walks over the text and its rows. */
struct walk {
    FILE *stream; /* receives the rows from `first` to `last`; NULL: nothing is drawn */
    size_t columns, first, last;
    size_t row, column;
    size_t cursor_row, cursor_column;
    size_t narrow, narrow_above; /* narrow: columns of a narrower terminal, or 0; narrow_above: number of rows into
                                  * which it breaks the rows above the cursor */
};

static void walk_put(const struct walk *walk, const char *data, size_t bytes) {
    if (walk->stream && walk->row >= walk->first && walk->row <= walk->last)
        fwrite(data, 1, bytes, walk->stream);
}

static void walk_row(struct walk *walk) {
    if (walk->row >= walk->first && walk->row < walk->last)
        walk_put(walk, "\r\n", 2);
    if (walk->narrow && walk->row >= walk->first)
        walk->narrow_above += cli_max(1, (walk->column + walk->narrow - 1) / walk->narrow);
    walk->row++;
    walk->column = 0;
}

static void walk_character(struct walk *walk, const struct edit_text *text, size_t at, size_t next) {
    const bool tab = text->data[at] == '\t';
    const size_t width = cli_min((size_t)edit_width(text, at), walk->columns);
    if (walk->column + width > walk->columns)
        walk_row(walk);
    if (at == text->at) {
        walk->cursor_row = walk->row;
        walk->cursor_column = walk->column;
    }
    if (tab)
        walk_put(walk, "    ", width);
    else
        walk_put(walk, text->data + at, next - at);
    walk->column += width;
}

/* Walks from the current offset to the offset `until`. */
static void walk_text(struct walk *walk, const struct edit_text *text, const char *prompt, size_t until) {
    const size_t indent = strlen(prompt);
    walk_put(walk, prompt, indent);
    walk->column = indent;
    for (size_t at = 0, next; at < until; at = next) {
        next = edit_forward(text, at);
        if (text->data[at] == '\n') {
            if (at == text->at) {
                walk->cursor_row = walk->row;
                walk->cursor_column = cli_min(walk->column, walk->columns - 1);
            }
            walk_row(walk);
            for (; walk->column < indent; walk->column++)
                walk_put(walk, " ", 1);
        } else {
            walk_character(walk, text, at, next);
        }
    }
    if (text->at == until) {
        if (walk->column == walk->columns)
            walk_row(walk);
        walk->cursor_row = walk->row;
        walk->cursor_column = walk->column;
    }
}

static struct winsize terminal_size(void) {
    struct winsize size = {0};
    if (ioctl(2, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0)
        size = (struct winsize){.ws_row = 24, .ws_col = 80};
    return size;
}

/* Returns the row of the cursor after a terminal was made narrower and broke its rows again. */
static size_t broken_row(const struct edit_screen *screen, const struct edit_text *text, size_t columns) {
    struct walk walk = {.columns = screen->columns, .first = screen->top, .narrow = columns};
    if (columns >= screen->columns)
        return screen->row;
    walk_text(&walk, text, screen->prompt, text->at);
    return walk.narrow_above + walk.cursor_column / columns;
}

void edit_draw(struct edit_screen *screen, const struct edit_text *text, bool anew) {
    const struct winsize size = terminal_size();
    const size_t columns = cli_max(size.ws_col, 8), lines = size.ws_row;
    struct walk walk = {.columns = columns};
    char *output = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&output, &bytes);
    if (!stream)
        return;
    const size_t up = anew || screen->columns == 0 ? 0 : broken_row(screen, text, columns);
    walk_text(&walk, text, screen->prompt, text->bytes);
    const size_t rows = walk.row + 1, shown = cli_min(rows, lines);
    screen->top = anew ? 0 : screen->top;
    screen->top = cli_min(screen->top, walk.cursor_row);
    if (walk.cursor_row >= screen->top + shown)
        screen->top = walk.cursor_row - shown + 1;
    screen->top = cli_min(screen->top, rows - shown);
    fputs("\r", stream);
    if (up > 0)
        fprintf(stream, "\033[%zuA", up);
    fputs("\033[J", stream);
    walk = (struct walk){.stream = stream, .columns = columns, .first = screen->top, .last = screen->top + shown - 1};
    walk_text(&walk, text, screen->prompt, text->bytes);
    const size_t down = cli_min(walk.row, walk.last) - walk.cursor_row;
    if (down > 0)
        fprintf(stream, "\033[%zuA", down);
    fputs("\r", stream);
    if (walk.cursor_column > 0)
        fprintf(stream, "\033[%zuC", walk.cursor_column);
    screen->columns = columns;
    screen->lines = lines;
    screen->row = walk.cursor_row - screen->top;
    if (fclose(stream) == 0)
        fwrite(output, 1, bytes, stderr);
    free(output);
}

void edit_leave(struct edit_screen *screen, struct edit_text *text) {
    text->at = text->bytes;
    edit_draw(screen, text, false);
    fputs("\r\n", stderr);
    *screen = (struct edit_screen){.prompt = screen->prompt};
}

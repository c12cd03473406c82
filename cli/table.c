/* table.c - aligned tables of at most 100 columns. If a table is too wide, words in the last column wrap, and a long
 * first cell, such as a policy, gets a line of its own. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "core/base/assert.h"

enum { WIDTH = 100, MOST_COLUMNS = 24, GAP = 2, LEAST_LAST = 20, LEAST_FIRST = 8 };

struct cli_table {
    size_t columns, cells, capacity;
    bool left[MOST_COLUMNS];
    char *heading; /* a copy of the headings, divided at the separators */
    const char *head[MOST_COLUMNS];
    char **cell; /* NULL: the row is an empty line */
    bool failed;
};

struct cli_table *cli_table_open(const char *headings) {
    struct cli_table *table = calloc(1, sizeof *table);
    char *at;

    if (!table)
        return NULL;
    table->heading = strdup(headings);
    if (!table->heading) {
        free(table);
        return NULL;
    }
    for (at = table->heading; at && table->columns < MOST_COLUMNS;) {
        char *end = strchr(at, '|');

        if (end)
            *end = '\0';
        table->left[table->columns] = at[0] == '<';
        table->head[table->columns++] = at + (at[0] == '<');
        at = end ? end + 1 : NULL;
    }
    return table;
}

static void table_add(struct cli_table *table, char *text) {
    if (table->cells == table->capacity) {
        size_t capacity = table->capacity ? 2 * table->capacity : 64;
        char **more = realloc(table->cell, capacity * sizeof *more);

        if (!more) {
            table->failed = true;
            free(text);
            return;
        }
        table->cell = more;
        table->capacity = capacity;
    }
    table->cell[table->cells++] = text;
}

void cli_cell(struct cli_table *table, const char *format, ...) {
    char *text = NULL;
    va_list list;

    if (!table || table->failed)
        return;
    va_start(list, format);
    if (vasprintf(&text, format, list) < 0)
        text = NULL;
    va_end(list);
    if (!text) {
        table->failed = true;
        return;
    }
    kvc_printable(text, strlen(text), text, strlen(text) + 1); /* names from files may contain any characters */
    table_add(table, text);
}

void cli_table_rule(struct cli_table *table) {
    for (size_t i = 0; table && !table->failed && i < table->columns; i++)
        table_add(table, NULL);
}

static size_t width_of(const char *text) {
    size_t n = 0;

    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

static void pad(FILE *stream, size_t count) {
    while (count-- > 0)
        fputc(' ', stream);
}

/* Prints the last column wrapped to the given width. A line ends between words, otherwise after a comma or a plus
 * (policies), otherwise anywhere. */
static void print_last(FILE *stream, const char *text, size_t indent, size_t width) {
    bool first = true;
    KVC_ASSERT(width > 0);

    do {
        size_t take = 0, seen = 0, space = 0, mark = 0;

        while (text[take] && seen <= width) {
            if (text[take] == ' ')
                space = take;
            seen += ((unsigned char)text[take] & 0xc0) != 0x80;
            take++;
            if ((text[take - 1] == ',' || text[take - 1] == '+') && seen <= width)
                mark = take;
        }
        if (seen > width) /* text[take - 1] is the first byte of the character that does not fit */
            take = space ? space : mark ? mark : take - 1;
        if (!first)
            pad(stream, indent);
        fwrite(text, 1, take, stream);
        fputc('\n', stream);
        text += take;
        while (*text == ' ')
            text++;
        first = false;
    } while (*text);
}

static void print_row(const struct cli_table *table, FILE *stream, const char *const *cell, const size_t *width) {
    size_t at = 0;
    bool apart = table->columns > 1 && width_of(cell[0]) > width[0];

    if (apart)
        fprintf(stream, "%s\n", cell[0]);
    for (size_t c = 0; c < table->columns; c++) {
        const char *text = c == 0 && apart ? "" : cell[c];
        size_t w = width_of(text), fill = width[c] > w ? width[c] - w : 0;
        bool last = c + 1 == table->columns;

        if (!table->left[c])
            pad(stream, fill);
        if (last && table->left[c]) {
            print_last(stream, text, at, width[c]);
            return;
        }
        fputs(text, stream);
        if (last)
            break;
        if (table->left[c])
            pad(stream, fill);
        pad(stream, GAP);
        at += cli_max(w, width[c]) + GAP;
    }
    fputc('\n', stream);
}

int cli_table_print(const struct cli_command *command, struct cli_table *table, FILE *stream) {
    size_t width[MOST_COLUMNS], total = 0, last;
    bool headed = false;

    if (!table || table->failed)
        return cli_no_memory(command);
    last = table->columns - 1;
    KVC_ASSERT(table->cells % table->columns == 0); /* every row is complete */
    for (size_t c = 0; c <= last; c++) {
        width[c] = width_of(table->head[c]);
        headed = headed || width[c] > 0;
        for (size_t i = c; i < table->cells; i += table->columns)
            if (table->cell[i] && width_of(table->cell[i]) > width[c])
                width[c] = width_of(table->cell[i]);
        total += width[c] + (c < last ? GAP : 0);
    }
    if (total > WIDTH && table->left[last]) {
        size_t others = total - width[last];

        width[last] = others + LEAST_LAST < WIDTH ? WIDTH - others : LEAST_LAST;
        total = others + width[last];
    }
    if (total > WIDTH && table->left[0] && last > 0) {
        size_t others = total - width[0];

        width[0] = others + LEAST_FIRST < WIDTH ? WIDTH - others : LEAST_FIRST;
    }
    if (headed)
        print_row(table, stream, table->head, width);
    for (size_t i = 0; i + table->columns <= table->cells; i += table->columns) {
        if (table->cell[i])
            print_row(table, stream, (const char *const *)table->cell + i, width);
        else
            fputc('\n', stream);
    }
    return KVC_OK;
}

void cli_table_free(struct cli_table *table) {
    if (!table)
        return;
    for (size_t i = 0; i < table->cells; i++)
        free(table->cell[i]);
    free(table->cell);
    free(table->heading);
    free(table);
}

/* roff.c - prints text for manual pages in mdoc. Backslashes, and dots and quotes at the beginning of a line, are
 * escaped. */
#include "cli/roff.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { WIDTH = 76 };

static void word(const char *text, size_t bytes, bool line_start) {
    if (line_start && (text[0] == '.' || text[0] == '\''))
        fputs("\\&", stdout);
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] == '\\')
            fputs("\\e", stdout);
        else
            fputc(text[i], stdout);
    }
}

static void roff_fill(const char *text, bool capital, bool stop) {
    size_t column = 0;

    while (*text) {
        size_t n = strcspn(text, " \n");

        if (text[0] == '\n' && text[1] == '\n') {
            printf("%s.Pp\n", column ? "\n" : "");
            column = 0;
            text += 2;
            continue;
        }
        if (n == 0) {
            text++;
            continue;
        }
        if (column > 0 && column + 1 + n > WIDTH) {
            fputc('\n', stdout);
            column = 0;
        } else if (column > 0) {
            fputc(' ', stdout);
            column++;
        }
        if (capital && islower((unsigned char)text[0])) {
            fputc(toupper((unsigned char)text[0]), stdout);
            word(text + 1, n - 1, false);
        } else {
            word(text, n, column == 0);
        }
        capital = false;
        column += n;
        text += n;
        if (text[-1] == '.' && text[0] == ' ' && isupper((unsigned char)text[1])) {
            fputc('\n', stdout);
            column = 0;
        }
    }
    if (column > 0)
        fputs(stop && text[-1] != '.' ? ".\n" : "\n", stdout);
}

void cli_roff(const char *text) { roff_fill(text, false, false); }

void cli_roff_sentence(const char *text) { roff_fill(text, true, true); }

void cli_roff_lines(const char *text) {
    while (*text) {
        size_t n = strcspn(text, "\n");

        word(text, n, true);
        fputc('\n', stdout);
        text += n + (text[n] == '\n');
    }
}

void cli_roff_head(const char *arguments, const char *edit, const char *page, int section, const char *summary) {
    printf(".\\\" Made by `kvcull %s`; edit %s instead.\n.Dd November 21, 2026\n.Dt ", arguments, edit);
    for (const char *c = page; *c; c++)
        fputc(toupper((unsigned char)*c), stdout);
    printf(" %d\n.Os kvcull\n.Sh NAME\n.Nm %s\n.Nd %s\n", section, page, summary);
}

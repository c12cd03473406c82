/* roff.h - text for manual pages in mdoc. */
#ifndef KVC_CLI_ROFF_H
#define KVC_CLI_ROFF_H

#include <stddef.h>

/* Prints text on lines of its own: short lines, a new one for each sentence. An empty line separates paragraphs. */
void cli_roff(const char *text);
/* Prints the same with a capital first letter and a full stop at the end. */
void cli_roff_sentence(const char *text);
/* Prints lines unchanged, for literal displays. */
void cli_roff_lines(const char *text);
/* Prints the head of a page. arguments: the program's arguments that print the page; edit: the source to edit instead;
 * page: its name, such as "kvcull-run". */
void cli_roff_head(const char *arguments, const char *edit, const char *page, int section, const char *summary);

#endif

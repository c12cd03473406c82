/* roff.h - prints text for manual pages in mdoc. */
#ifndef KVC_CLI_ROFF_H
#define KVC_CLI_ROFF_H

#include <stddef.h>

/* Prints text as short lines, with a new line for each sentence. An empty line separates paragraphs. */
void cli_roff(const char *text);
/* Prints text like cli_roff, with a capital first letter and a full stop at the end. */
void cli_roff_sentence(const char *text);
/* Prints lines unchanged, for literal displays. */
void cli_roff_lines(const char *text);
/* Prints the head of a page. `arguments` are those with which the program prints this page, `edit` is the source file
 * to edit instead of the page, and `page` is its name, such as "kvcull-run". */
void cli_roff_head(const char *arguments, const char *edit, const char *page, int section, const char *summary);

#endif

/* roff.h - text for manual pages in mdoc. */
#ifndef KVC_CLI_ROFF_H
#define KVC_CLI_ROFF_H

#include <stddef.h>

/* Text on lines of its own: short lines, a new one for each sentence; an empty line in it separates paragraphs. */
void cli_roff(const char *text);
/* The same with a capital first letter and a full stop at the end. */
void cli_roff_sentence(const char *text);
/* Lines as they are, for literal displays. */
void cli_roff_lines(const char *text);
/* A page's head: the program's arguments that write it, what to edit instead, its name ("kvcull-run"), section, NAME.
 */
void cli_roff_head(const char *arguments, const char *edit, const char *page, int section, const char *summary);

#endif

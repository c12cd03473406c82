/* page.h - the page at / in pieces, which serve/page/embed.sh makes from the files of serve/page. */
#ifndef KVC_SERVE_PAGE_H
#define KVC_SERVE_PAGE_H

#include <stddef.h>

extern const char *const serve_page_pieces[]; /* a piece that is NULL stands for the answer's nonce */
extern const size_t serve_page_count;

#endif

/* page.c - serves the page at /, which has a chat, two methods side by side, and the text shaded by what the cache
 * holds. Its sources are in serve/page. The page is one document that loads nothing else, and its
 * Content-Security-Policy lets a browser run only scripts that carry the answer's nonce. */
#include "serve/page.h"

#include <sys/random.h>

#include "serve/http.h"

enum { NONCE = 16 }; /* bytes of a nonce */

/* Writes a new nonce in hexadecimal. Returns false if the system gives no random bytes. */
static bool draw_nonce(char nonce[2 * NONCE + 1]) {
    unsigned char bytes[NONCE];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return false;
    for (size_t i = 0; i < NONCE; i++)
        snprintf(nonce + 2 * i, 3, "%02x", bytes[i]);
    return true;
}

/* Writes the Content-Security-Policy. It has no 'unsafe-inline' and requires trusted types, so no text can become a
 * script, whatever the page does with it. */
static void put_policy(struct serve_text *text, const char *nonce) {
    serve_text_print(text,
                     "default-src 'none'; script-src 'nonce-%s'; style-src 'nonce-%s'; connect-src 'self'; "
                     "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
                     "require-trusted-types-for 'script'; trusted-types 'none'",
                     nonce, nonce);
}

enum MHD_Result serve_page(struct serve_exchange *exchange) {
    struct serve_text text = {0}, policy = {0};
    char nonce[2 * NONCE + 1];
    text.failed = !draw_nonce(nonce);
    for (size_t i = 0; i < serve_page_count; i++)
        serve_text_put(&text, serve_page_pieces[i] ? serve_page_pieces[i] : nonce);
    put_policy(&policy, nonce);
    if (policy.failed)
        text.failed = true;
    const enum MHD_Result result = serve_respond(exchange, 200, "text/html; charset=utf-8", &text,
                                                 policy.failed ? NULL : "Content-Security-Policy", policy.data);
    serve_text_free(&policy);
    return result;
}

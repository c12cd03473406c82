/* fuzz_grammar.c - input: a byte that selects the language, a grammar up to the first NUL byte, then a text. */
#include "models/grammar/grammar.h"
#include "tests/fuzz/memory_file.h"

#define TEXT_MOST 200u

/* Checks every beginning of a text. If the text is possible, each beginning is; regular expressions may say otherwise,
 * because they can look ahead. */
static void try_text(const struct kvc_grammar *grammar, bool prefixes, const uint8_t *text, size_t bytes) {
    struct kvc_matcher matcher;
    char copy[TEXT_MOST + 3];
    bool wrong = false;
    check(kvc_matcher_open(&matcher, grammar));
    for (size_t n = 0; n <= bytes && !matcher.exhausted; n++) {
        memcpy(copy, text, n);
        const bool whole = kvc_matcher_whole(&matcher, copy, n);
        const bool possible = kvc_matcher_possible(&matcher, copy, n);
        check(!prefixes || !possible || !wrong);
        check(!whole || possible || matcher.exhausted);
        wrong = !possible && !matcher.exhausted;
    }
    kvc_matcher_close(&matcher);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    struct kvc_error error = {0};
    struct kvc_grammar *grammar;
    if (bytes < 1)
        return 0;
    const enum kvc_grammar_kind kind = (enum kvc_grammar_kind)(data[0] % 4);
    const uint8_t *end = memchr(data + 1, 0, bytes - 1);
    const size_t written = end ? (size_t)(end - data - 1) : bytes - 1;
    const enum kvc_status status = kvc_grammar_open(kind, (const char *)data + 1, written, &grammar, &error);
    check(status == KVC_OK ? grammar != NULL
                           : !grammar && status == KVC_USAGE && error.text[0] && !strchr(error.text, '\n'));
    if (status == KVC_OK && end) {
        const size_t text = bytes - written - 2;
        try_text(grammar, kind != KVC_GRAMMAR_REGEX, end + 1, text < TEXT_MOST ? text : TEXT_MOST);
    }
    kvc_grammar_close(grammar);
    return 0;
}

/* fuzz_words.c - input: the word lists of eval needle. */
#include "eval/needle_text.h"
#include "tests/fuzz/memory_file.h"

static const struct cli_command command = {.name = "eval"};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    struct needle_words words = {.document = NULL};
    silence(true);
    const int status = needle_words_open(&command, memory_file(data, bytes), &words);
    silence(false);
    check(status == KVC_OK || status == KVC_INPUT || status == KVC_RESOURCE);
    const struct needle_list *lists[] = {&words.keys,  &words.numbers, &words.nouns,  &words.adjectives,
                                         &words.verbs, &words.people,  &words.places, &words.prepositions};
    for (size_t i = 0; status == KVC_OK && i < sizeof lists / sizeof *lists; i++) {
        check(lists[i]->count > 0);
        for (size_t k = 0; k < lists[i]->count; k++)
            touch(lists[i]->words[k], strlen(lists[i]->words[k]));
    }
    needle_words_close(&words);
    return 0;
}

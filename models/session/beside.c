/* beside.c - the caller's data in a saved session: the tokens so far, a note, logits, the sampler's state. */
#include "models/session/file.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/assert.h"
#include "core/engine/sampler.h"

void kvc_saved_free(struct kvc_saved *saved) {
    free(saved->tokens);
    free(saved->note);
    free(saved->logits);
    saved->tokens = NULL;
    saved->note = NULL;
    saved->logits = NULL;
    saved->token_count = saved->note_bytes = saved->logit_count = 0;
}

/* Writes an array of 4-byte words as bytes. */
static void write_words(struct kvc_archive *archive, void *words, size_t count) {
    char *bytes = words;
    size_t all = 4 * count;
    kvc_archive_text(archive, &bytes, &all);
}

/* Reads an array of 4-byte words, which the caller frees. Returns NULL if it is empty. */
static void *read_words(struct kvc_archive *archive, const char *what, size_t *count) {
    char *bytes = NULL;
    size_t all = 0;
    kvc_archive_text(archive, &bytes, &all);
    if (all % 4)
        kvc_archive_fail(archive, KVC_INPUT, "%zu bytes of %s: must be a multiple of 4", all, what);
    *count = all / 4;
    if (*count > 0)
        return bytes;
    free(bytes);
    return NULL;
}

/* Checks that tokens and logits fit the model's vocabulary. */
static void session_beside_check(struct kvc_archive *archive, uint32_t vocab, const struct kvc_saved *saved,
                                 enum kvc_status status) {
    for (size_t i = 0; i < saved->token_count && kvc_archive_fine(archive); i++)
        if (saved->tokens[i] < 0 || (uint32_t)saved->tokens[i] >= vocab)
            kvc_archive_fail(archive, status, "token %zu is %ld: must be from 0 to %u", i, (long)saved->tokens[i],
                             vocab - 1);
    if (saved->logit_count != 0 && saved->logit_count != vocab)
        kvc_archive_fail(archive, status, "%zu logits: must be none or %u", saved->logit_count, vocab);
}

void kvc_session_beside_write(struct kvc_archive *archive, uint32_t vocab, const struct kvc_saved *saved) {
    static const struct kvc_saved nothing;
    bool sampled;
    if (!saved)
        saved = &nothing;
    sampled = saved->sampler != NULL;
    session_beside_check(archive, vocab, saved, KVC_USAGE);
    kvc_archive_begin(archive, KVC_SECTION_BESIDE, 0);
    write_words(archive, saved->tokens, saved->token_count);
    char *note = saved->note;
    size_t note_bytes = saved->note_bytes;
    kvc_archive_text(archive, &note, &note_bytes);
    write_words(archive, saved->logits, saved->logit_count);
    kvc_archive_bool(archive, &sampled);
    if (sampled)
        kvc_sampler_pass(archive, saved->sampler);
    kvc_archive_end(archive, KVC_SECTION_BESIDE, 0);
}

void kvc_session_beside_read(struct kvc_archive *archive, uint32_t vocab, struct kvc_saved *saved) {
    struct kvc_saved read = {.tokens = NULL};
    KVC_ASSERT(archive->reads);
    bool sampled = false;
    kvc_archive_begin(archive, KVC_SECTION_BESIDE, 0);
    read.tokens = read_words(archive, "tokens", &read.token_count);
    kvc_archive_text(archive, &read.note, &read.note_bytes);
    read.logits = read_words(archive, "logits", &read.logit_count);
    kvc_archive_bool(archive, &sampled);
    if (sampled)
        kvc_sampler_pass(archive, saved ? saved->sampler : NULL);
    kvc_archive_end(archive, KVC_SECTION_BESIDE, 0);
    session_beside_check(archive, vocab, &read, KVC_INPUT);
    if (!saved || !kvc_archive_fine(archive)) {
        kvc_saved_free(&read);
        return;
    }
    read.sampler = saved->sampler;
    *saved = read;
}

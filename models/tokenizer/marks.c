/* marks.c - tracks which bytes of a normalized text came from the caller, so that none of them becomes part of a
 * control token.
 *
 * Normalization does not report where bytes end up. So each step is repeated on the runs of bytes with equal marks, one
 * run at a time. If a run's result equals the next bytes of the whole result, these bytes get the run's mark. If the
 * step composes a character from several runs, they are processed as one, and all bytes of the result are marked. */
#include "models/tokenizer/parts.h"

#include "core/base/assert.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_JOINED = 4 }; /* longest sequence of runs to join; beyond it the rest of the text counts as marked */

struct marked {
    struct kvc_text text, marks; /* both have the same length */
};

static void marked_free(struct marked *marked) {
    kvc_text_free(&marked->text);
    kvc_text_free(&marked->marks);
}

static bool add_marks(struct kvc_text *marks, char mark, size_t count) {
    bool fits = true;
    for (size_t i = 0; i < count && fits; i++)
        fits = kvc_text_add(marks, &mark, 1);
    return fits;
}

static size_t run_end(const struct marked *from, size_t at) {
    const char mark = from->marks.data[at];
    while (at < from->text.bytes && from->marks.data[at] == mark)
        at++;
    return at;
}

/* Computes the marks of to->text, the result of applying the step to `from`. */
static enum kvc_status follow(const struct kvc_normalize_step *step, const struct marked *from, struct marked *to,
                              struct kvc_error *error) {
    struct kvc_text piece = {0};
    enum kvc_status status = KVC_OK;
    bool fits = true, lost = false;
    size_t at = 0;
    while (at < from->text.bytes && status == KVC_OK && fits && !lost) {
        size_t end = at, runs = 0;
        bool same = false;
        while (end < from->text.bytes && !same && runs < MOST_JOINED && status == KVC_OK) {
            end = run_end(from, end);
            runs++;
            piece.bytes = 0;
            status = kvc_normalize(step, 1, from->text.data + at, end - at, &piece, error);
            same = status == KVC_OK && piece.bytes <= to->text.bytes - to->marks.bytes &&
                   (!piece.bytes || !memcmp(to->text.data + to->marks.bytes, piece.data, piece.bytes));
        }
        lost = !same;
        if (same)
            fits = add_marks(&to->marks, (char)(runs > 1 || from->marks.data[at]), piece.bytes);
        at = end;
    }
    if (status == KVC_OK && fits)
        fits = add_marks(&to->marks, 1, to->text.bytes - to->marks.bytes);
    kvc_text_free(&piece);
    return status == KVC_OK && !fits ? kvc_no_memory(error) : status;
}

/* Applies a step and computes its marks. Prepended text is not the caller's; the marks of stripped text are dropped. */
static enum kvc_status follow_step(const struct kvc_normalize_step *step, const struct marked *from, struct marked *to,
                                   struct kvc_error *error) {
    struct kvc_text right = {0};
    size_t taken = 0;
    enum kvc_status status = kvc_normalize(step, 1, from->text.data, from->text.bytes, &to->text, error);
    if (status != KVC_OK)
        return status;
    if (step->kind == KVC_NORMALIZE_PREPEND)
        return add_marks(&to->marks, 0, to->text.bytes - from->text.bytes) &&
                       kvc_text_add(&to->marks, from->marks.data, from->marks.bytes)
                   ? KVC_OK
                   : kvc_no_memory(error);
    if (step->kind != KVC_NORMALIZE_STRIP)
        return follow(step, from, to, error);
    const struct kvc_normalize_step only_left = {.kind = KVC_NORMALIZE_STRIP, .left = step->left};
    status = kvc_normalize(&only_left, 1, from->text.data, from->text.bytes, &right, error);
    if (status == KVC_OK) {
        taken = from->text.bytes - right.bytes;
        status = kvc_text_add(&to->marks, from->marks.data + taken, to->text.bytes) ? KVC_OK : kvc_no_memory(error);
    }
    kvc_text_free(&right);
    return status;
}

enum kvc_status kvc_normalize_marked(const struct kvc_normalize_step *steps, size_t count, const char *text,
                                     const char *marks, size_t bytes, struct kvc_text *out, struct kvc_text *out_marks,
                                     struct kvc_error *error) {
    struct marked now = {0}, next = {0};
    enum kvc_status status =
        kvc_text_add(&now.text, text, bytes) && kvc_text_add(&now.marks, marks, bytes) ? KVC_OK : kvc_no_memory(error);
    for (size_t i = 0; i < count && status == KVC_OK; i++) {
        next.text.bytes = next.marks.bytes = 0;
        status = follow_step(&steps[i], &now, &next, error);
        const struct marked swap = now;
        now = next;
        next = swap;
    }
    KVC_ASSERT(status != KVC_OK || now.text.bytes == now.marks.bytes); /* each byte has a mark */
    if (status == KVC_OK && (!kvc_text_add(out, now.text.data, now.text.bytes) ||
                             !kvc_text_add(out_marks, now.marks.data, now.marks.bytes)))
        status = kvc_no_memory(error);
    marked_free(&now);
    marked_free(&next);
    return status;
}

/* folder_tokenizer.c - writes tokenizer.json for a tokenizer read from GGUF keys. A byte-level tokenizer also gets its
 * splitting patterns. SentencePiece pieces become BPE with byte fallback, with merges derived from the scores. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/assert.h"
#include "models/convert/text.h"
#include "models/convert/to_folder.h"
#include "models/tokenizer/parts.h"

struct writer {
    const struct kvc_tokenizer *t;
    struct kvc_text text;
    bool fits; /* no allocation has failed so far */
};

static void raw(struct writer *writer, const char *text) {
    writer->fits = writer->fits && kvc_text_add(&writer->text, text, strlen(text));
}

/* Writes the contents of a JSON string. The text is UTF-8. */
static void escaped(struct writer *writer, const char *text, size_t bytes) {
    size_t from = 0;
    for (size_t i = 0; i < bytes; i++) {
        const unsigned char c = (unsigned char)text[i];
        char code[8];
        if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f)
            continue;
        snprintf(code, sizeof code, "\\u%04x", (unsigned)c);
        writer->fits = writer->fits && kvc_text_add(&writer->text, text + from, i - from);
        raw(writer, code);
        from = i + 1;
    }
    writer->fits = writer->fits && kvc_text_add(&writer->text, text + from, bytes - from);
}

static void string(struct writer *writer, const char *text, size_t bytes) {
    raw(writer, "\"");
    escaped(writer, text, bytes);
    raw(writer, "\"");
}

static void folder_tokenizer_number(struct writer *writer, long value) {
    char text[24];
    snprintf(text, sizeof text, "%ld", value);
    raw(writer, text);
}

static void spelled(struct writer *writer, int32_t id) {
    const struct kvc_vocab_entry *piece = &writer->t->pieces[id];
    string(writer, writer->t->store.data + piece->spelling, piece->spelling_bytes);
}

static const char *truth(bool value) { return value ? "true" : "false"; }

/* ---- added tokens ---- */

static int by_id(const void *a, const void *b) {
    const struct kvc_added *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

static void put_added(struct writer *writer) {
    const struct kvc_added_list *lists[2] = {&writer->t->added, &writer->t->added_normalized};
    const size_t count = lists[0]->count + lists[1]->count;
    struct kvc_added *all = malloc((count + 1) * sizeof *all);
    writer->fits = writer->fits && all;
    if (!writer->fits) {
        free(all);
        return;
    }
    for (size_t i = 0; i < count; i++)
        all[i] = i < lists[0]->count ? lists[0]->tokens[i] : lists[1]->tokens[i - lists[0]->count];
    qsort(all, count, sizeof *all, by_id);
    raw(writer, "\"added_tokens\":[");
    for (size_t i = 0; i < count; i++) {
        raw(writer, i ? ",\n{\"id\":" : "\n{\"id\":");
        folder_tokenizer_number(writer, all[i].id);
        raw(writer, ",\"content\":");
        spelled(writer, all[i].id);
        raw(writer, ",\"single_word\":");
        raw(writer, truth(all[i].single_word));
        raw(writer, ",\"lstrip\":");
        raw(writer, truth(all[i].strip_left));
        raw(writer, ",\"rstrip\":");
        raw(writer, truth(all[i].strip_right));
        raw(writer, ",\"normalized\":");
        raw(writer, truth(all[i].normalized));
        raw(writer, ",\"special\":");
        raw(writer, truth(all[i].special));
        raw(writer, "}");
    }
    raw(writer, "],\n");
    free(all);
}

/* ---- steps ---- */

/* Writes a pattern for tokenizer.json: characters above U+007F are written as themselves, not as \x{...}. */
static void put_pattern(struct writer *writer, const struct kvc_pattern *pattern) {
    if (pattern->literal) {
        raw(writer, "{\"String\":");
        string(writer, pattern->literal, pattern->literal_bytes);
        raw(writer, "}");
        return;
    }
    raw(writer, "{\"Regex\":\"");
    for (const char *at = pattern->expression; at && *at;) {
        char *end = NULL, text[4];
        const unsigned long code = strncmp(at, "\\x{", 3) == 0 ? strtoul(at + 3, &end, 16) : 0;
        if (code >= 0x80 && code < 0x110000 && *end == '}') {
            escaped(writer, text, kvc_utf8_put((uint32_t)code, text));
            at = end + 1;
        } else {
            const size_t bytes = *at == '\\' && at[1] ? 2 : 1;
            escaped(writer, at, bytes);
            at += bytes;
        }
    }
    raw(writer, "\"}");
}

/* Writes the steps that tokenizers of GGUF files have. */
static void put_normalizer(struct writer *writer) {
    const struct kvc_tokenizer *t = writer->t;
    raw(writer, "\"normalizer\":");
    raw(writer, t->normalizer_count ? "{\"type\":\"Sequence\",\"normalizers\":[" : "null");
    for (size_t i = 0; i < t->normalizer_count; i++) {
        const struct kvc_normalize_step *step = &t->normalizer[i];
        raw(writer, i ? ",{\"type\":\"" : "{\"type\":\"");
        if (step->kind == KVC_NORMALIZE_PREPEND || step->kind == KVC_NORMALIZE_REPLACE) {
            const bool prepend = step->kind == KVC_NORMALIZE_PREPEND;
            raw(writer, prepend ? "Prepend\",\"prepend\":" : "Replace\",\"pattern\":");
            if (!prepend) {
                put_pattern(writer, &step->pattern);
                raw(writer, ",\"content\":");
            }
            string(writer, step->text, step->text_bytes);
            raw(writer, "}");
        } else {
            KVC_ASSERT(step->kind == KVC_NORMALIZE_NFC);
            raw(writer, "NFC\"}");
        }
    }
    raw(writer, t->normalizer_count ? "]},\n" : ",\n");
}

static void put_splitter(struct writer *writer) {
    const struct kvc_tokenizer *t = writer->t;
    raw(writer, "\"pre_tokenizer\":");
    raw(writer, t->splitter_count ? "{\"type\":\"Sequence\",\"pretokenizers\":[" : "null");
    for (size_t i = 0; i < t->splitter_count; i++) {
        const struct kvc_split_step *step = &t->splitter[i];
        raw(writer, i ? ",\n" : "\n");
        if (step->kind == KVC_STEP_SPLIT) {
            KVC_ASSERT(step->behavior == KVC_SPLIT_ISOLATED && !step->invert);
            raw(writer, "{\"type\":\"Split\",\"pattern\":");
            put_pattern(writer, &step->pattern);
            raw(writer, ",\"behavior\":\"Isolated\",\"invert\":false}");
        } else {
            KVC_ASSERT(step->kind == KVC_STEP_BYTES);
            raw(writer,
                "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":false,\"use_regex\":false}");
        }
    }
    raw(writer, t->splitter_count ? "]},\n" : ",\n");
}

static void put_decoder(struct writer *writer) {
    const struct kvc_decoder *decoder = &writer->t->decoder;
    raw(writer, "\"decoder\":");
    if (decoder->byte_level) {
        raw(writer,
            "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":false,\"use_regex\":false},\n");
        return;
    }
    raw(writer, "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":");
    string(writer, decoder->replace[0], strlen(decoder->replace[0]));
    raw(writer, "},\"content\":");
    string(writer, decoder->replace[1], strlen(decoder->replace[1]));
    raw(writer, "},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}");
    if (decoder->strip) {
        raw(writer, ",{\"type\":\"Strip\",\"content\":\" \",\"start\":");
        folder_tokenizer_number(writer, decoder->strip < 1000 ? (long)decoder->strip : 1000);
        raw(writer, ",\"stop\":0}");
    }
    raw(writer, "]},\n");
}

/* Writes the post-processor that puts a token in front of a text. */
static void put_prefix(struct writer *writer) {
    const struct kvc_id_list *prefix = &writer->t->prefix;
    raw(writer, "\"post_processor\":");
    if (!prefix->count) {
        raw(writer, "null,\n");
        return;
    }
    const int32_t id = prefix->ids[0];
    raw(writer, "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":");
    spelled(writer, id);
    raw(writer, ",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],\"pair\":[{\"SpecialToken\":{\"id\":");
    spelled(writer, id);
    raw(writer, ",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},"
                "{\"Sequence\":{\"id\":\"B\",\"type_id\":1}}],\"special_tokens\":{");
    spelled(writer, id);
    raw(writer, ":{\"id\":");
    spelled(writer, id);
    raw(writer, ",\"ids\":[");
    folder_tokenizer_number(writer, id);
    raw(writer, "],\"tokens\":[");
    spelled(writer, id);
    raw(writer, "]}}},\n");
}

/* ---- vocabulary and merges ---- */

static bool is_added(const struct kvc_vocab_entry *piece) {
    return piece->kind == KVC_TOKEN_CONTROL || piece->kind == KVC_TOKEN_USER;
}

/* Returns the number of entries in "vocab". In byte-level files, added tokens at the end of the vocabulary are listed
 * only as added tokens. All other tokens must be in "vocab" to keep their ids. */
static size_t vocabulary_end(const struct kvc_tokenizer *t) {
    size_t end = t->count;
    while (end > 0 && t->pieces[end - 1].kind == KVC_TOKEN_ABSENT) /* embedding rows without a token */
        end--;
    while (end > 0 && is_added(&t->pieces[end - 1]) && t->model == KVC_VOCAB_RANKS && !t->byte_fallback)
        end--;
    return end;
}

static void put_vocab(struct writer *writer) {
    const struct kvc_tokenizer *t = writer->t;
    const size_t end = vocabulary_end(t);
    bool first = true;
    raw(writer, "\"vocab\":{");
    for (size_t i = 0; i < end && writer->fits; i++) {
        if (t->pieces[i].kind == KVC_TOKEN_ABSENT || t->pieces[i].kind == KVC_TOKEN_UNUSED)
            continue;
        raw(writer, first ? "\n" : ",\n");
        spelled(writer, (int32_t)i);
        raw(writer, ":");
        folder_tokenizer_number(writer, (long)i);
        first = false;
    }
    raw(writer, "},\n");
}

static void put_merges(struct writer *writer, const struct kvc_merge *merges, size_t count) {
    raw(writer, "\"merges\":[");
    for (size_t i = 0; i < count && writer->fits; i++) {
        raw(writer, i ? ",\n[" : "\n[");
        spelled(writer, merges[i].left);
        raw(writer, ",");
        spelled(writer, merges[i].right);
        raw(writer, "]");
    }
    raw(writer, "]");
}

/* ---- merges of scored pieces ---- */

struct scored {
    float score;
    struct kvc_merge merge;
};

/* Pairs with higher scores merge first. */
static int by_score(const void *a, const void *b) {
    const struct scored *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    if (x->merge.made != y->merge.made)
        return x->merge.made < y->merge.made ? -1 : 1;
    return x->merge.left < y->merge.left ? -1 : x->merge.left > y->merge.left;
}

/* Adds every way to make a piece from two other pieces. */
static bool add_splits(const struct kvc_tokenizer *t, int32_t id, struct scored **list, size_t *capacity,
                       size_t *count) {
    const struct kvc_vocab_entry *piece = &t->pieces[id];
    const char *text = t->store.data + piece->spelling;
    for (size_t at = 0; at < piece->spelling_bytes;) {
        uint32_t code;
        at += kvc_utf8_next(text + at, piece->spelling_bytes - at, &code);
        const int32_t left = at < piece->spelling_bytes ? kvc_vocab_find(t, text, at) : -1;
        const int32_t right = left >= 0 ? kvc_vocab_find(t, text + at, piece->spelling_bytes - at) : -1;
        if (right < 0)
            continue;
        void *grown = *list;
        if (!kvc_grow(&grown, capacity, *count, sizeof **list))
            return false;
        *list = grown;
        (*list)[(*count)++] = (struct scored){piece->score, {left, right, id, 0}};
    }
    return true;
}

static struct kvc_merge *merges_of_scores(const struct kvc_tokenizer *t, size_t *count) {
    struct scored *list = NULL;
    size_t capacity = 0;
    bool fits = true;
    *count = 0;
    for (size_t i = 0; i < t->count && fits; i++) {
        const struct kvc_vocab_entry *piece = &t->pieces[i];
        if ((piece->kind == KVC_TOKEN_NORMAL || piece->kind == KVC_TOKEN_USER) &&
            kvc_vocab_find(t, t->store.data + piece->spelling, piece->spelling_bytes) == (int32_t)i)
            fits = add_splits(t, (int32_t)i, &list, &capacity, count);
    }
    struct kvc_merge *merges = fits ? malloc((*count + 1) * sizeof *merges) : NULL;
    if (merges && *count)
        qsort(list, *count, sizeof *list, by_score);
    for (size_t i = 0; merges && i < *count; i++)
        merges[i] = list[i].merge;
    free(list);
    return merges;
}

/* ---- the whole file ---- */

struct spelling {
    const char *text;
    size_t bytes, id;
};

static int by_text(const void *a, const void *b) {
    const struct spelling *x = a, *y = b;
    const int order = memcmp(x->text, y->text, x->bytes < y->bytes ? x->bytes : y->bytes);
    return order ? order : x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* Checks that spellings are valid UTF-8 and unique, because they become JSON keys. */
static enum kvc_status check_spellings(const struct kvc_tokenizer *t, const char *from, struct kvc_error *error) {
    struct spelling *list = malloc((t->count + 1) * sizeof *list);
    size_t count = 0;
    enum kvc_status status = list ? KVC_OK : kvc_no_memory(error);
    for (size_t i = 0; !status && i < t->count; i++) {
        const struct kvc_vocab_entry *piece = &t->pieces[i];
        if (piece->kind == KVC_TOKEN_ABSENT || piece->kind == KVC_TOKEN_UNUSED)
            continue;
        list[count] = (struct spelling){t->store.data + piece->spelling, piece->spelling_bytes, i};
        if (!kvc_is_utf8(list[count].text, list[count].bytes) || memchr(list[count].text, 0, list[count].bytes))
            status = kvc_fail(error, KVC_INPUT, "%s: token %zu is not text in UTF-8; a tokenizer.json cannot hold it",
                              from, i);
        count++;
    }
    if (!status)
        qsort(list, count, sizeof *list, by_text);
    for (size_t i = 1; !status && i < count; i++)
        if (by_text(&list[i - 1], &list[i]) == 0)
            status = kvc_fail(error, KVC_INPUT,
                              "%s: tokens %zu and %zu are spelled alike; a tokenizer.json cannot hold them", from,
                              list[i - 1].id, list[i].id);
    free(list);
    return status;
}

enum kvc_status kvc_write_tokenizer(struct kvc_output_set *set, const char *from, const struct kvc_tokenizer *tokenizer,
                                    struct kvc_error *error) {
    struct writer writer = {.t = tokenizer, .fits = true};
    size_t count = 0;
    enum kvc_status status = check_spellings(tokenizer, from, error);
    if (status)
        return status;
    const bool scores = tokenizer->model == KVC_VOCAB_SCORES;
    struct kvc_merge *merges = scores ? merges_of_scores(tokenizer, &count) : kvc_sorted_merges(tokenizer, &count);
    writer.fits = merges != NULL;
    raw(&writer, "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\n");
    put_added(&writer);
    put_normalizer(&writer);
    put_splitter(&writer);
    put_prefix(&writer);
    put_decoder(&writer);
    raw(&writer, "\"model\":{\"type\":\"BPE\",\"dropout\":null,\"continuing_subword_prefix\":null,"
                 "\"end_of_word_suffix\":null,\"unk_token\":");
    if (tokenizer->unknown >= 0)
        spelled(&writer, tokenizer->unknown);
    else
        raw(&writer, "null");
    raw(&writer, ",\"fuse_unk\":");
    raw(&writer, truth(tokenizer->fuse_unknown));
    raw(&writer, ",\"byte_fallback\":");
    raw(&writer, truth(scores || tokenizer->byte_fallback));
    raw(&writer, ",\"ignore_merges\":");
    raw(&writer, truth(tokenizer->ignore_merges));
    raw(&writer, ",\n");
    put_vocab(&writer);
    put_merges(&writer, merges, count);
    raw(&writer, "}}\n");
    if (!writer.fits)
        status = kvc_no_memory(error);
    else
        status = kvc_output_set_write(set, "tokenizer.json", writer.text.data, writer.text.bytes, error);
    kvc_text_free(&writer.text);
    free(merges);
    return status;
}

/* unicode.c - UTF-8, the few character properties that tokenizers need, and normalization through utf8proc. */
#include "models/tokenizer/parts.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

size_t kvc_utf8_next(const char *text, size_t bytes, uint32_t *code) {
    const unsigned char *s = (const unsigned char *)text;
    *code = KVC_NOT_UTF8;
    if (s[0] < 0x80) {
        *code = s[0];
        return 1;
    }
    size_t length = s[0] >= 0xc2 && s[0] <= 0xdf   ? 2
                    : s[0] >= 0xe0 && s[0] <= 0xef ? 3
                    : s[0] >= 0xf0 && s[0] <= 0xf4 ? 4
                                                   : 0;
    if (length == 0 || length > bytes)
        return 1;
    uint32_t value = s[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 1;
        value = value << 6 | (s[i] & 0x3fu);
    }
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    if (value < least[length] || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff))
        return 1;
    *code = value;
    return length;
}

size_t kvc_utf8_put(uint32_t code, char out[4]) {
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned lead[5] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = length - 1; i > 0; i--, code >>= 6)
        out[i] = (char)(unsigned char)(0x80 | (code & 0x3f));
    out[0] = (char)(unsigned char)(lead[length] | code);
    return length;
}

bool kvc_is_utf8(const char *text, size_t bytes) {
    uint32_t code = 0;
    for (size_t at = 0; at < bytes && code != KVC_NOT_UTF8;)
        at += kvc_utf8_next(text + at, bytes - at, &code);
    return code != KVC_NOT_UTF8;
}

bool kvc_is_space(uint32_t code) {
    return (code >= 9 && code <= 13) || code == 0x20 || code == 0x85 || code == 0xa0 || code == 0x1680 ||
           (code >= 0x2000 && code <= 0x200a) || code == 0x2028 || code == 0x2029 || code == 0x202f || code == 0x205f ||
           code == 0x3000;
}

bool kvc_is_word(uint32_t code) {
    if (code == KVC_NOT_UTF8)
        return false;
    if (code == 0x200c || code == 0x200d || (code >= 0x24b6 && code <= 0x24e9) ||
        (code >= 0x1f130 && code <= 0x1f149) || (code >= 0x1f150 && code <= 0x1f169) ||
        (code >= 0x1f170 && code <= 0x1f189))
        return true; /* joiners, circled and squared letters */
    switch (utf8proc_category((utf8proc_int32_t)code)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
        return true;
    default:
        return false;
    }
}

/* Bytes 33..126, 161..172 and 174..255 map to themselves, the others to U+0100 and up in ascending order. */
uint32_t kvc_byte_to_char(unsigned char byte) {
    if (byte <= 32)
        return 256u + byte;
    if (byte >= 127 && byte <= 160)
        return 256u + 33u + (byte - 127u);
    return byte == 173 ? 256u + 67u : byte;
}

int kvc_char_to_byte(uint32_t code) {
    if (code >= 256 && code <= 288)
        return (int)code - 256;
    if (code >= 289 && code <= 322)
        return (int)code - 289 + 127;
    if (code == 323)
        return 173;
    return (code >= 33 && code <= 126) || (code >= 161 && code <= 255 && code != 173) ? (int)code : -1;
}

static bool add_code(struct kvc_text *out, uint32_t code) {
    char text[4];
    return kvc_text_add(out, text, kvc_utf8_put(code, text));
}

/* Normalizes well-formed runs and copies other bytes. Under NFC nothing below U+0300 changes. */
static bool normalize_form(enum kvc_normalize_kind kind, const char *text, size_t bytes, struct kvc_text *out) {
    int options = UTF8PROC_STABLE |
                  (kind == KVC_NORMALIZE_NFC || kind == KVC_NORMALIZE_NFKC ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE);
    if (kind == KVC_NORMALIZE_NFKC || kind == KVC_NORMALIZE_NFKD)
        options |= UTF8PROC_COMPAT;
    uint32_t quiet = kind == KVC_NORMALIZE_NFC ? 0x300 : 0x80;
    for (size_t at = 0; at < bytes;) {
        size_t end = at;
        bool changes = false;
        while (end < bytes) {
            uint32_t code;
            size_t length = kvc_utf8_next(text + end, bytes - end, &code);
            if (code == KVC_NOT_UTF8)
                break;
            changes |= code >= quiet;
            end += length;
        }
        if (end == at) { /* not a well-formed character */
            if (!kvc_text_add(out, text + at, 1))
                return false;
            at++;
            continue;
        }
        if (changes) {
            utf8proc_uint8_t *made = NULL;
            utf8proc_ssize_t length = utf8proc_map((const utf8proc_uint8_t *)text + at, (utf8proc_ssize_t)(end - at),
                                                   &made, (utf8proc_option_t)options);
            bool fits = length >= 0 && kvc_text_add(out, (const char *)made, (size_t)length);
            free(made);
            if (!fits)
                return false;
        } else if (!kvc_text_add(out, text + at, end - at)) {
            return false;
        }
        at = end;
    }
    return true;
}

static bool lowercase(const char *text, size_t bytes, struct kvc_text *out) {
    for (size_t at = 0; at < bytes;) {
        uint32_t code;
        size_t length = kvc_utf8_next(text + at, bytes - at, &code);
        bool fits;
        if (code == KVC_NOT_UTF8)
            fits = kvc_text_add(out, text + at, 1);
        else if (code == 0x130) /* the only letter whose lowercase form is two characters */
            fits = add_code(out, 'i') && add_code(out, 0x307);
        else
            fits = add_code(out, (uint32_t)utf8proc_tolower((utf8proc_int32_t)code));
        if (!fits)
            return false;
        at += length;
    }
    return true;
}

static enum kvc_status too_long(size_t most, struct kvc_error *error) {
    return kvc_fail(error, KVC_INPUT, "tokenizer: the normalizer makes more than %zu bytes of this text", most);
}

static enum kvc_status unicode_replace(const struct kvc_normalize_step *step, const char *text, size_t bytes,
                                       size_t most, struct kvc_text *out, struct kvc_error *error) {
    struct kvc_subject subject;
    if (!kvc_subject_open(&subject, text, bytes))
        return kvc_no_memory(error);
    enum kvc_status status = KVC_OK;
    size_t at = 0, from = 0;
    bool fits = true;
    while (status == KVC_OK && fits) {
        bool found;
        size_t start, end;
        status = kvc_pattern_find(&step->pattern, &subject, from, &found, &start, &end, error);
        if (status != KVC_OK || !found)
            break;
        if (end == start) { /* an empty match replaces nothing */
            if (start >= bytes)
                break;
            uint32_t code;
            from = start + kvc_utf8_next(text + start, bytes - start, &code);
            continue;
        }
        fits = kvc_text_add(out, text + at, start - at) && kvc_text_add(out, step->text, step->text_bytes);
        at = from = end;
        if (out->bytes > most)
            status = too_long(most, error);
    }
    kvc_subject_close(&subject);
    if (status == KVC_OK && (!fits || !kvc_text_add(out, text + at, bytes - at)))
        return kvc_no_memory(error);
    return status;
}

static bool strip(const struct kvc_normalize_step *step, const char *text, size_t bytes, struct kvc_text *out) {
    size_t first = 0, last = 0;
    bool seen = false;
    for (size_t at = 0; at < bytes;) {
        uint32_t code;
        size_t length = kvc_utf8_next(text + at, bytes - at, &code);
        if (code == KVC_NOT_UTF8 || !kvc_is_space(code)) {
            if (!seen)
                first = at;
            seen = true;
            last = at + length;
        }
        at += length;
    }
    if (!seen)
        first = last = step->left ? bytes : 0;
    size_t from = step->left ? first : 0;
    size_t to = step->right ? last : bytes;
    return kvc_text_add(out, text + from, to > from ? to - from : 0);
}

enum kvc_status kvc_normalize(const struct kvc_normalize_step *steps, size_t count, const char *text, size_t bytes,
                              struct kvc_text *out, struct kvc_error *error) {
    struct kvc_text now = {0}, next = {0};
    enum kvc_status status = KVC_OK;
    bool fits = kvc_text_add(&now, text, bytes);
    /* Far above the needs of any real normalizer. Without this limit, a malicious file's replacements could double the
     * text again and again. */
    size_t most = bytes < SIZE_MAX / 128 ? bytes * 64 + ((size_t)1 << 20) : SIZE_MAX;
    for (size_t i = 0; i < count && fits && status == KVC_OK; i++) {
        const struct kvc_normalize_step *step = &steps[i];
        next.bytes = 0;
        switch (step->kind) {
        case KVC_NORMALIZE_LOWERCASE:
            fits = lowercase(now.data, now.bytes, &next);
            break;
        case KVC_NORMALIZE_PREPEND:
            fits = (!now.bytes || kvc_text_add(&next, step->text, step->text_bytes)) &&
                   kvc_text_add(&next, now.data, now.bytes);
            break;
        case KVC_NORMALIZE_REPLACE:
            status = unicode_replace(step, now.data, now.bytes, most, &next, error);
            break;
        case KVC_NORMALIZE_STRIP:
            fits = strip(step, now.data, now.bytes, &next);
            break;
        default:
            fits = normalize_form(step->kind, now.data, now.bytes, &next);
            break;
        }
        struct kvc_text swap = now;
        now = next;
        next = swap;
        if (status == KVC_OK && fits && now.bytes > most)
            status = too_long(most, error);
    }
    if (status == KVC_OK && (!fits || !kvc_text_add(out, now.data, now.bytes)))
        status = kvc_no_memory(error);
    kvc_text_free(&now);
    kvc_text_free(&next);
    return status;
}

/* case.c - upper and lower case as in Python's str, including characters that map to several characters, and the Greek
 * sigma at the end of a word. */
#include <string.h>
#include <utf8proc.h>

#include "models/jinja/characters.h"
#include "models/jinja/parts.h"

static bool within(const struct jinja_range *ranges, uint32_t code) {
    while (ranges->last && ranges->last < code) {
        ranges++;
    }
    return ranges->last && ranges->first <= code;
}

static utf8proc_category_t category(uint32_t code) {
    return code > 0x10ffff ? UTF8PROC_CATEGORY_CN : utf8proc_category((utf8proc_int32_t)code);
}

int jinja_case(uint32_t code) {
    switch (category(code)) {
    case UTF8PROC_CATEGORY_LU:
        return 1;
    case UTF8PROC_CATEGORY_LL:
        return -1;
    case UTF8PROC_CATEGORY_LT:
        return 2;
    default:
        return code < 0x80 ? 0 : within(jinja_more_upper, code) ? 1 : within(jinja_more_lower, code) ? -1 : 0;
    }
}

bool jinja_digit(uint32_t code) { return jinja_decimal(code) || within(jinja_more_digits, code); }

bool jinja_numeric(uint32_t code) {
    const utf8proc_category_t is = category(code);
    return is == UTF8PROC_CATEGORY_ND || is == UTF8PROC_CATEGORY_NL || is == UTF8PROC_CATEGORY_NO ||
           within(jinja_more_numbers, code);
}

bool jinja_alnum(uint32_t code) { return jinja_letter(code) || jinja_numeric(code); }

/* Returns true for characters that are skipped when looking at the neighbors of a sigma. */
static bool is_ignorable(uint32_t code) {
    static const uint32_t marks[] = {'\'',   '.',    ':',    0xb7,   0x387,  0x55f,  0x5f4,  0x2018, 0x2019,
                                     0x2024, 0x2027, 0xfe13, 0xfe52, 0xfe55, 0xff07, 0xff0e, 0xff1a};
    switch (category(code)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
        return true;
    default:
        break;
    }
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        if (marks[i] == code) {
            return true;
        }
    }
    return false;
}

static bool letter_follows(struct jinja *j, const struct jinja_string *text, size_t at) {
    uint32_t code = 0;
    bool there = false;
    while (at < text->bytes && !there && jinja_step(j, 1)) {
        at += jinja_next(text->data + at, text->bytes - at, &code);
        there = !is_ignorable(code);
    }
    return there && jinja_case(code) != 0;
}

static const struct jinja_special_case *special_case(uint32_t code) {
    const struct jinja_special_case *row = jinja_special_cases;
    while (row->code && row->code < code) {
        row++;
    }
    return row->code == code && code ? row : NULL;
}

/* Writes the case mapping of a character as UTF-8 and returns its length in bytes. `out` is large enough for every
 * character. */
static size_t mapped(uint32_t code, enum jinja_case to, char out[16]) {
    const utf8proc_int32_t is = (utf8proc_int32_t)code;
    const struct jinja_special_case *special = to == JINJA_UPPER || to == JINJA_TITLE ? special_case(code) : NULL;
    utf8proc_int32_t codes[4];
    utf8proc_ssize_t count = 1;
    int boundary = 0;
    size_t bytes = 0;
    if (special) {
        const char *text = to == JINJA_UPPER ? special->upper : special->title;
        memcpy(out, text, strlen(text));
        return strlen(text);
    }
    codes[0] = to == JINJA_UPPER   ? utf8proc_toupper(is)
               : to == JINJA_TITLE ? utf8proc_totitle(is)
                                   : utf8proc_tolower(is);
    if (to == JINJA_LOWER && code == 0x130) {
        codes[1] = 0x307;
        count = 2;
    } else if (to == JINJA_FOLD) {
        count = utf8proc_decompose_char(is, codes, 4, UTF8PROC_CASEFOLD, &boundary);
        if (count < 1 || count > 4) {
            codes[0] = is;
            count = 1;
        }
    }
    for (utf8proc_ssize_t i = 0; i < count && i < 4; i++) {
        bytes += kvc_utf8_put((uint32_t)codes[i], out + bytes);
    }
    return bytes;
}

void jinja_put_case(struct jinja *j, struct jinja_text *out, const struct jinja_string *text, size_t *at,
                    enum jinja_case to, bool *letter) {
    uint32_t code;
    char made[16];
    const size_t begin = *at, bytes = jinja_next(text->data + begin, text->bytes - begin, &code);
    *at += bytes;
    jinja_step(j, 1);
    if (code == KVC_NOT_UTF8) {
        jinja_put(j, out, text, begin, bytes);
        *letter = false;
        return;
    }
    const bool ends = to == JINJA_LOWER && code == 0x3a3 && *letter && !letter_follows(j, text, *at);
    jinja_put_made(j, out, made, ends ? kvc_utf8_put(0x3c2, made) : mapped(code, to, made), jinja_marked(text, begin));
    *letter = is_ignorable(code) ? *letter : jinja_case(code) != 0;
}

struct jinja_value jinja_in_case(struct jinja *j, const struct jinja_string *text, enum jinja_case to) {
    struct jinja_text out = {0};
    bool letter = false;
    for (size_t at = 0; at < text->bytes && j->status == KVC_OK;) {
        jinja_put_case(j, &out, text, &at, to, &letter);
    }
    return jinja_taken(j, &out);
}

struct jinja_value jinja_capitalized(struct jinja *j, const struct jinja_string *text) {
    struct jinja_text out = {0};
    bool letter = false;
    for (size_t at = 0; at < text->bytes && j->status == KVC_OK;) {
        jinja_put_case(j, &out, text, &at, at ? JINJA_LOWER : JINJA_TITLE, &letter);
    }
    return jinja_taken(j, &out);
}

/* schema_text.c - translates the pattern of a string (ECMA-262's regular expressions) into one for JSON text.
 *
 * In JSON a quote, a backslash and control characters are escaped. If the pattern has such a character, the translation
 * has its escape. Classes match only characters that need no escape. */
#include "models/grammar/schema.h"
#include "models/tokenizer/parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLAIN "(?![\"\\\\\\x00-\\x1f])" /* the next character needs no escape */
#define GROUPS_DEEPEST 100u
/* White space of ECMA-262 and all other characters, as members of a class. */
#define SPACES "\\t-\\r \\xa0\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}\\x{feff}"
#define NO_SPACES                                                                                                      \
    "\\x00-\\x08\\x0e-\\x1f!-\\x9f\\xa1-\\x{167f}\\x{1681}-\\x{1fff}\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}"            \
    "\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{d7ff}\\x{e000}-\\x{fefe}\\x{ff00}-\\x{10ffff}"

struct reader {
    struct schema *schema;
    const struct schema_place *at;
    const char *text, *end;
    struct kvc_regex *out;
    unsigned depth;
    bool repeatable; /* the preceding item can be repeated by a quantifier */
};

static bool refuse(struct reader *reader, const char *what) {
    return schema_refuse(reader->schema, reader->at, "%s is not supported", what);
}

/* Reads n hexadecimal digits. */
static bool hexadecimal(struct reader *reader, int n, uint32_t *code) {
    char digits[9] = {0}, *end;
    if (reader->end - reader->text < n)
        return refuse(reader, "an escape without its digits");
    memcpy(digits, reader->text, (size_t)n);
    *code = (uint32_t)strtoul(digits, &end, 16);
    if (strspn(digits, "0123456789abcdefABCDEF") != (size_t)n)
        return refuse(reader, "an escape without its digits");
    reader->text += n;
    return true;
}

/* Appends a literal character as JSON writes it. */
static bool literal(struct reader *reader, uint32_t code) {
    static const char escaped[] = "\b\f\n\r\t\"\\", letters[] = "bfnrt\"\\";
    const char *place = code && code < 0x80 ? strchr(escaped, (int)code) : NULL;
    if (place) {
        kvc_regex_put(reader->out, "(?:\\\\");
        kvc_regex_code_point(reader->out, (unsigned char)letters[place - escaped]);
        kvc_regex_put(reader->out, ")");
    } else if (code < 0x20 || (code >= 0xd800 && code < 0xe000) || code > 0x10ffff) {
        return refuse(reader, "this character");
    } else {
        kvc_regex_code_point(reader->out, code);
    }
    return true;
}

/* Reads what follows a backslash: a class such as \d, which is returned in *class, or a character. */
static bool escape(struct reader *reader, bool inside, char *class, uint32_t *code) {
    static const char controls[] = "fnrtv", meant[] = "\f\n\r\t\v";
    if (reader->text == reader->end)
        return refuse(reader, "a backslash at the end");
    const char c = *reader->text++;
    *class = '\0';
    if (strchr("dDwWsS", c)) {
        *class = c;
        return true;
    }
    if (strchr(controls, c)) {
        *code = (unsigned char)meant[strchr(controls, c) - controls];
        return true;
    }
    if (c == 'x')
        return hexadecimal(reader, 2, code);
    if (c == 'u')
        return hexadecimal(reader, 4, code);
    if (c == 'b' && inside) {
        *code = '\b';
        return true;
    }
    *code = (unsigned char)c;
    return (c > ' ' && c < 0x7f && !strchr("0123456789", c) && (c < 'A' || (c > 'Z' && c < 'a') || c > 'z')) ||
           refuse(reader, "this escape");
}

/* Appends a class such as \d as a member of a class. */
static void put_class(struct kvc_regex *out, char class) {
    if (class == 's' || class == 'S')
        kvc_regex_put(out, class == 's' ? SPACES : NO_SPACES);
    else
        kvc_regex_print(out, "\\%c", class);
}

/* Reads one member of a class: a class such as \d or a character. */
static bool member(struct reader *reader, char *class, uint32_t *code) {
    *class = '\0';
    if (*reader->text == '\\') {
        reader->text++;
        return escape(reader, true, class, code);
    }
    reader->text += kvc_utf8_next(reader->text, (size_t)(reader->end - reader->text), code);
    return true;
}

static bool class_of(struct reader *reader) {
    struct kvc_regex *out = reader->out;
    bool empty = true;
    kvc_regex_put(out, "(?:" PLAIN "[");
    if (reader->text < reader->end && *reader->text == '^') {
        kvc_regex_put(out, "^");
        reader->text++;
    }
    while (reader->text < reader->end && *reader->text != ']') {
        char class, last_class;
        uint32_t code, last;
        if (!member(reader, &class, &code))
            return false;
        empty = false;
        if (class)
            put_class(out, class);
        else
            kvc_regex_code_point(out, code);
        if (reader->end - reader->text < 2 || *reader->text != '-' || reader->text[1] == ']')
            continue;
        reader->text++;
        if (!member(reader, &last_class, &last))
            return false;
        if (class || last_class || last < code)
            return refuse(reader, "this range of a class");
        kvc_regex_put(out, "-");
        kvc_regex_code_point(out, last);
    }
    if (reader->text == reader->end || empty)
        return refuse(reader, "an empty class, or one without its end,");
    reader->text++;
    kvc_regex_put(out, "])");
    return true;
}

/* Reads a quantifier, {2,3}, after its brace. */
static bool braces(struct reader *reader) {
    const char *from = reader->text - 1;
    const size_t length = strspn(reader->text, "0123456789,");
    unsigned least, most;
    if (length <= 9 && sscanf(from, "{%u,%u}", &least, &most) == 2 && least > most)
        return refuse(reader, "a quantifier whose first number is the larger one");
    reader->text += length;
    if (length == 0 || length > 9 || from[1] == ',' || reader->text >= reader->end || *reader->text != '}')
        return refuse(reader, "a brace that is not {n}, {n,} or {n,m}");
    reader->text++;
    kvc_regex_add(reader->out, from, (size_t)(reader->text - from));
    return true;
}

static bool open_group(struct reader *reader) {
    const char *text = reader->text;
    if (++reader->depth > GROUPS_DEEPEST)
        return refuse(reader, "such a deep nesting of groups");
    kvc_regex_put(reader->out, "(?:");
    if (text == reader->end || *text != '?')
        return true;
    if (reader->end - text > 1 && text[1] == ':') {
        reader->text += 2;
        return true;
    }
    if (reader->end - text > 2 && text[1] == '<' && text[2] != '=' && text[2] != '!') {
        const char *name_end = memchr(text, '>', (size_t)(reader->end - text));
        if (name_end) {
            reader->text = name_end + 1;
            return true;
        }
    }
    return refuse(reader, "a group that begins with (?, other than (?: and (?<name>,");
}

static bool part(struct reader *reader) {
    const char c = *reader->text++;
    char class;
    uint32_t code;
    bool good = true;
    switch (c) {
    case '\\':
        good = escape(reader, false, &class, &code);
        if (good && class) {
            kvc_regex_put(reader->out, "(?:" PLAIN "[");
            put_class(reader->out, class);
            kvc_regex_put(reader->out, "])");
        } else {
            good = good && literal(reader, code);
        }
        break;
    case '[':
        good = class_of(reader);
        break;
    case '.':
        kvc_regex_put(reader->out, "[^\"\\\\\\x00-\\x1f\\x{2028}\\x{2029}]");
        break;
    case '^':
    case '$':
        return refuse(reader, "^ or $, other than at the beginning and the end,");
    case '(':
        reader->repeatable = false;
        return open_group(reader);
    case ')':
        if (reader->depth-- == 0)
            return refuse(reader, "a ) without its (");
        kvc_regex_put(reader->out, ")");
        break;
    case '|':
        kvc_regex_put(reader->out, "|");
        reader->repeatable = false;
        return true;
    case '*':
    case '+':
    case '?':
    case '{':
        if (!reader->repeatable)
            return refuse(reader, "a quantifier with nothing before it");
        if (c == '{')
            good = braces(reader);
        else
            kvc_regex_print(reader->out, "%c", c);
        if (good && reader->text < reader->end && *reader->text == '?') { /* a lazy quantifier matches the same texts */
            kvc_regex_put(reader->out, "?");
            reader->text++;
        }
        reader->repeatable = false;
        return good;
    default:
        reader->text--;
        good = member(reader, &class, &code) && literal(reader, code);
        break;
    }
    reader->repeatable = true;
    return good;
}

/* Returns true if the pattern has an alternative outside of all groups. */
static bool has_choice(const char *text, size_t bytes) {
    size_t depth = 0;
    bool class = false;
    for (size_t i = 0; i < bytes; i++) {
        const char c = text[i];
        if (c == '\\')
            i++;
        else if (class)
            class = c != ']';
        else if (c == '[')
            class = true;
        else if (c == '(')
            depth++;
        else if (c == ')' && depth > 0)
            depth--;
        else if (c == '|' && depth == 0)
            return true;
    }
    return false;
}

bool schema_text(struct schema *schema, const char *pattern, size_t bytes, const struct schema_place *at,
                 struct kvc_regex *out) {
    struct reader reader = {schema, at, pattern, pattern + bytes, out, 0, false};
    const bool begins = bytes > 0 && *pattern == '^';
    size_t slashes = 0;
    while (slashes + 1 < bytes && pattern[bytes - 2 - slashes] == '\\')
        slashes++;
    const bool ends = bytes > begins && pattern[bytes - 1] == '$' && slashes % 2 == 0;
    if ((begins || ends) && has_choice(pattern, bytes))
        return refuse(&reader, "^ or $ beside | outside of a group");
    reader.text += begins;
    reader.end -= ends;
    kvc_regex_put(out, begins ? "(?:" : "(?&c)*?(?:");
    while (reader.text < reader.end)
        if (!part(&reader))
            return false;
    if (reader.depth > 0)
        return refuse(&reader, "a ( without its )");
    kvc_regex_put(out, ends ? ")" : ")(?&c)*+"); /* possessive, because a quote follows */
    return true;
}

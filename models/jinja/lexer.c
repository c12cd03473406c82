/* lexer.c - splits a template into text and tokens. Whitespace around tags follows Jinja's rules with trim_blocks and
 * lstrip_blocks on, as for all chat templates. */
#include "models/jinja/syntax.h"

#include "core/base/assert.h"

#include <string.h>

bool jinja_lexer_open(struct jinja *j, const char *source, size_t bytes, struct jinja_lexer *lexer) {
    char *text = jinja_alloc(j, bytes + 1);
    size_t n = 0;
    if (!text) {
        return false;
    }
    for (size_t i = 0; i < bytes; i++) {
        if (source[i] == '\r') {
            i += i + 1 < bytes && source[i + 1] == '\n';
            text[n++] = '\n';
        } else {
            text[n++] = source[i];
        }
    }
    if (n && text[n - 1] == '\n') {
        n--;
    }
    *lexer = (struct jinja_lexer){.j = j, .text = text, .bytes = n, .line = 1, .at_line_start = true};
    for (size_t at = 0; at < n;) {
        uint32_t code;
        j->line += text[at] == '\n';
        at += jinja_next(text + at, n - at, &code);
        if (code == KVC_NOT_UTF8 || code == 0) {
            jinja_fail(j, code ? "the template is not UTF-8" : "the template has a byte 0");
            return false;
        }
    }
    j->line = 1;
    jinja_advance(lexer);
    jinja_advance(lexer);
    return j->status == KVC_OK;
}

static void lexer_fail(struct jinja_lexer *lexer, const char *why) {
    lexer->j->line = lexer->line;
    jinja_fail(lexer->j, "%s", why);
}

static size_t blanks_at(const struct jinja_lexer *lexer, size_t at) {
    const size_t from = at;
    uint32_t code;
    while (at < lexer->bytes) {
        const size_t bytes = jinja_next(lexer->text + at, lexer->bytes - at, &code);
        if (!jinja_space(code)) {
            break;
        }
        at += bytes;
    }
    return at - from;
}

/* Skips bytes and counts their lines. */
static void pass(struct jinja_lexer *lexer, size_t bytes) {
    KVC_ASSERT(bytes <= lexer->bytes - lexer->at);
    for (; bytes; bytes--) {
        lexer->line += lexer->text[lexer->at++] == '\n';
    }
}

/* ---- between tags ---- */

/* Returns the end of text[begin..end) without trailing whitespace. */
static size_t without_blanks(const char *text, size_t begin, size_t end) {
    size_t last = begin;
    uint32_t code;
    for (size_t at = begin; at < end;) {
        const size_t bytes = jinja_next(text + at, end - at, &code);
        at += bytes;
        last = jinja_space(code) ? last : at;
    }
    return last;
}

/* Returns the end of the text in front of a tag. Sign '-' strips all whitespace. Without a sign, whitespace is stripped
 * if the line contains nothing else in front of the tag. */
static size_t trimmed(const struct jinja_lexer *lexer, size_t begin, size_t end, char sign, bool block) {
    if (sign == '-') {
        return without_blanks(lexer->text, begin, end);
    }
    if (sign == '+' || !block) {
        return end;
    }
    size_t line = end;
    while (line > begin && lexer->text[line - 1] != '\n') {
        line--;
    }
    const bool whole = line > begin || lexer->at_line_start;
    return whole && without_blanks(lexer->text, line, end) == line ? line : end;
}

/* Returns the length of a tag's end at `at`: "%}" with its sign and the whitespace that it strips. Returns 0 if no tag
 * ends there. */
static size_t tag_end(const struct jinja_lexer *lexer, size_t at, const char *end, bool trims) {
    const char sign = at < lexer->bytes ? lexer->text[at] : '\0';
    KVC_ASSERT(at <= lexer->bytes);
    const size_t skip = sign == '-' || (sign == '+' && trims);
    if (lexer->bytes - at < skip + 2 || memcmp(lexer->text + at + skip, end, 2) != 0) {
        return 0;
    }
    const size_t bytes = skip + 2;
    if (sign == '-') {
        return bytes + blanks_at(lexer, at + bytes);
    }
    return bytes + (trims && !skip && at + bytes < lexer->bytes && lexer->text[at + bytes] == '\n');
}

static size_t sign_at(const struct jinja_lexer *lexer, size_t at) {
    return at < lexer->bytes && (lexer->text[at] == '-' || lexer->text[at] == '+');
}

/* Returns the length of the tag {% name %} at `at`; name is "raw" or "endraw". Returns 0 if something else is there. */
static size_t raw_tag(const struct jinja_lexer *lexer, size_t at, const char *name, bool trims) {
    const size_t begin = at;
    at += 2 + sign_at(lexer, at + 2);
    at += blanks_at(lexer, at);
    if (lexer->bytes - at < strlen(name) || memcmp(lexer->text + at, name, strlen(name)) != 0) {
        return 0;
    }
    at += strlen(name);
    at += blanks_at(lexer, at);
    const size_t end = tag_end(lexer, at, "%}", trims);
    return end ? at + end - begin : 0;
}

static struct jinja_token data_token(const struct jinja_lexer *lexer, size_t begin, size_t end) {
    KVC_ASSERT(begin <= end && end <= lexer->bytes);
    return (struct jinja_token){
        .kind = JINJA_TOKEN_DATA, .line = lexer->line, .data = lexer->text + begin, .bytes = end - begin};
}

static void ends_with_line(struct jinja_lexer *lexer) {
    lexer->at_line_start = lexer->at > 0 && lexer->text[lexer->at - 1] == '\n';
}

/* Returns the text from the lexer's position up to {% endraw %}. */
static struct jinja_token raw_text(struct jinja_lexer *lexer) {
    const size_t begin = lexer->at;
    lexer->raw = false;
    for (size_t at = begin; at + 1 < lexer->bytes; at++) {
        const size_t tag =
            lexer->text[at] == '{' && lexer->text[at + 1] == '%' ? raw_tag(lexer, at, "endraw", true) : 0;
        if (tag) {
            const char sign = at + 2 < lexer->bytes ? lexer->text[at + 2] : '\0';
            const struct jinja_token token = data_token(lexer, begin, trimmed(lexer, begin, at, sign, true));
            pass(lexer, at + tag - begin);
            ends_with_line(lexer);
            return token;
        }
    }
    lexer_fail(lexer, "{% raw %} has no {% endraw %}");
    return (struct jinja_token){.kind = JINJA_TOKEN_END};
}

static void skip_comment(struct jinja_lexer *lexer) {
    for (size_t at = lexer->at; at + 1 < lexer->bytes; at++) {
        const size_t end = tag_end(lexer, at, "#}", true);
        if (end) {
            pass(lexer, at + end - lexer->at);
            ends_with_line(lexer);
            return;
        }
    }
    lexer_fail(lexer, "a comment {# has no end #}");
}

/* Returns the text up to the next tag. Enters that tag, or skips a comment. */
static struct jinja_token text_token(struct jinja_lexer *lexer) {
    const char *text = lexer->text;
    const size_t begin = lexer->at;
    size_t at = begin;
    while (at + 1 < lexer->bytes && !(text[at] == '{' && strchr("{%#", text[at + 1]))) {
        at++;
    }
    if (at + 1 >= lexer->bytes) {
        const struct jinja_token token = data_token(lexer, begin, lexer->bytes);
        pass(lexer, lexer->bytes - begin);
        return token;
    }
    const char kind = text[at + 1], sign = at + 2 < lexer->bytes ? text[at + 2] : '\0';
    const struct jinja_token token = data_token(lexer, begin, trimmed(lexer, begin, at, sign, kind != '{'));
    pass(lexer, at - begin);
    const size_t raw = kind == '%' ? raw_tag(lexer, at, "raw", false) : 0;
    if (raw) {
        pass(lexer, raw);
        ends_with_line(lexer);
        lexer->raw = true;
        return token;
    }
    pass(lexer, 2 + sign_at(lexer, at + 2));
    if (kind == '#') {
        skip_comment(lexer);
        return token;
    }
    lexer->opening = true;
    lexer->in_tag = kind == '%';
    lexer->in_out = kind == '{';
    return token;
}

/* ---- within tags ---- */

static bool is_name(char c, bool first) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (unsigned char)c >= 0x80 ||
           (!first && c >= '0' && c <= '9');
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static int digit(char c) {
    return is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : 99;
}

/* Returns the end of the digits at `at`, with single underscores between them. */
static size_t digits_end(const struct jinja_lexer *lexer, size_t at) {
    while (at < lexer->bytes && (is_digit(lexer->text[at]) ||
                                 (lexer->text[at] == '_' && at + 1 < lexer->bytes && is_digit(lexer->text[at + 1])))) {
        at++;
    }
    return at;
}

static struct jinja_token whole_number(struct jinja_lexer *lexer, size_t begin, size_t end) {
    struct jinja_token token = {.kind = JINJA_TOKEN_INT, .line = lexer->line};
    int base = 10;
    size_t at = begin;
    if (lexer->text[begin] == '0' && begin + 1 < end) {
        const char mark = (char)(lexer->text[begin + 1] | 0x20);
        base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
        at += base == 10 ? 0 : 2;
    }
    for (; at < end; at++) {
        if (lexer->text[at] != '_' && (__builtin_mul_overflow(token.whole, base, &token.whole) ||
                                       __builtin_add_overflow(token.whole, digit(lexer->text[at]), &token.whole))) {
            lexer_fail(lexer, "a whole number has more than 64 bits");
            break;
        }
    }
    lexer->at = end;
    return token;
}

static struct jinja_token number_token(struct jinja_lexer *lexer) {
    const char *text = lexer->text;
    const size_t begin = lexer->at;
    size_t end = digits_end(lexer, begin), real = end;
    if (real + 1 < lexer->bytes && text[real] == '.' && is_digit(text[real + 1])) {
        real = digits_end(lexer, real + 1);
    }
    if (real < lexer->bytes && (text[real] | 0x20) == 'e') {
        const size_t sign = real + 1 < lexer->bytes && (text[real + 1] == '+' || text[real + 1] == '-');
        if (real + 1 + sign < lexer->bytes && is_digit(text[real + 1 + sign])) {
            real = digits_end(lexer, real + 1 + sign);
        }
    }
    if (real > end) {
        struct jinja_token token = {.kind = JINJA_TOKEN_FLOAT, .line = lexer->line};
        char copy[304];
        size_t n = 0;
        for (size_t i = begin; i < real && n < sizeof copy - 1; i++) {
            if (text[i] != '_') {
                copy[n++] = text[i];
            }
        }
        if (real - begin >= sizeof copy || !jinja_read_float(copy, n, &token.real)) {
            lexer_fail(lexer, "a number is not readable");
        }
        lexer->at = real;
        return token;
    }
    if (text[begin] == '0') { /* "04" is 0 followed by 4 */
        size_t zeros = begin + 1;
        while (zeros < end && (text[zeros] == '0' || (text[zeros] == '_' && text[zeros + 1] == '0'))) {
            zeros++;
        }
        end = zeros;
    }
    if (text[begin] == '0' && begin + 2 < lexer->bytes && strchr("xXoObB", text[begin + 1])) {
        const int base = (text[begin + 1] | 0x20) == 'x' ? 16 : (text[begin + 1] | 0x20) == 'o' ? 8 : 2;
        size_t at = begin + 2;
        while (at < lexer->bytes && (digit(text[at]) < base || text[at] == '_')) {
            at++;
        }
        end = at > begin + 2 ? at : end;
    }
    return whole_number(lexer, begin, end);
}

/* Reads a hexadecimal or octal escape of up to `most` digits at *at. */
static uint32_t code_at(const char *text, size_t bytes, size_t *at, size_t most, int base) {
    uint32_t code = 0;
    for (size_t n = 0; n < most && *at < bytes && digit(text[*at]) < base; n++) {
        code = code * (uint32_t)base + (uint32_t)digit(text[(*at)++]);
    }
    return code;
}

/* Writes one escape of a string. text[*at] follows the backslash. */
static void put_escape(struct jinja_lexer *lexer, const char *text, size_t bytes, size_t *at, struct jinja_text *out) {
    static const char letters[] = "\\'\"abfnrtv", means[] = "\\'\"\a\b\f\n\r\t\v";
    const char c = text[*at];
    const char *letter = c ? strchr(letters, c) : NULL;
    char utf8[4];
    if (letter) {
        jinja_put_made(lexer->j, out, &means[letter - letters], 1, false);
        (*at)++;
        return;
    }
    if (c == '\n') {
        (*at)++;
        return;
    }
    const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (!digits && !(c >= '0' && c <= '7')) {
        if (c == 'N') {
            lexer_fail(lexer, "\\N{...} in a string is not supported");
        }
        jinja_puts(lexer->j, out, "\\");
        return;
    }
    *at += digits > 0;
    const size_t before = *at;
    const uint32_t code = digits ? code_at(text, bytes, at, digits, 16) : code_at(text, bytes, at, 3, 8);
    if ((digits && *at - before != digits) || code == 0 || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) {
        lexer_fail(lexer, "an escape in a string is not a character");
        return;
    }
    jinja_put_made(lexer->j, out, utf8, kvc_utf8_put(code, utf8), false);
}

static struct jinja_token string_token(struct jinja_lexer *lexer) {
    const char quote = lexer->text[lexer->at];
    const size_t begin = lexer->at + 1;
    struct jinja_token token = {.kind = JINJA_TOKEN_STRING, .line = lexer->line};
    size_t end = begin;
    bool escapes = false;
    for (; end < lexer->bytes && lexer->text[end] != quote; end++) {
        escapes |= lexer->text[end] == '\\';
        end += lexer->text[end] == '\\';
    }
    if (end >= lexer->bytes) {
        lexer_fail(lexer, "a string has no end");
        return token;
    }
    struct jinja_text out = {0};
    for (size_t at = begin; escapes && at < end && lexer->j->status == KVC_OK;) {
        if (lexer->text[at] == '\\') {
            at++;
            put_escape(lexer, lexer->text, end, &at, &out);
        } else {
            jinja_put_made(lexer->j, &out, lexer->text + at++, 1, false);
        }
    }
    token.data = escapes ? (out.data ? out.data : "") : lexer->text + begin;
    KVC_ASSERT(end < lexer->bytes && lexer->text[end] == quote);
    token.bytes = escapes ? out.bytes : end - begin;
    pass(lexer, end + 1 - lexer->at);
    return token;
}

static struct jinja_token operator_token(struct jinja_lexer *lexer) {
    static const char *const all[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
                                      "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    struct jinja_token token = {.kind = JINJA_TOKEN_OPERATOR, .line = lexer->line};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const size_t bytes = strlen(all[i]);
        if (lexer->bytes - lexer->at >= bytes && !memcmp(lexer->text + lexer->at, all[i], bytes)) {
            token.data = all[i];
            token.bytes = bytes;
            break;
        }
    }
    if (!token.data) {
        lexer_fail(lexer, "a character is not allowed in an expression");
        token.data = "";
        return token;
    }
    const char c = token.data[0];
    if (c == '(' || c == '[' || c == '{') {
        if (lexer->open_count == sizeof lexer->open) {
            lexer_fail(lexer, "brackets are nested too deeply");
            return token;
        }
        lexer->open[lexer->open_count++] = (char)(c == '(' ? ')' : c + 2);
    } else if (c == ')' || c == ']' || c == '}') {
        if (!lexer->open_count || lexer->open[--lexer->open_count] != c) {
            lexer_fail(lexer, "a bracket is closed that is not open");
        }
    }
    lexer->at += token.bytes;
    return token;
}

static struct jinja_token tag_token(struct jinja_lexer *lexer) {
    pass(lexer, blanks_at(lexer, lexer->at));
    struct jinja_token token = {.line = lexer->line};
    const size_t end = lexer->open_count ? 0 : tag_end(lexer, lexer->at, lexer->in_tag ? "%}" : "}}", lexer->in_tag);
    if (end) {
        token.kind = lexer->in_tag ? JINJA_TOKEN_CLOSE : JINJA_TOKEN_CLOSE_OUT;
        pass(lexer, end);
        ends_with_line(lexer);
        lexer->in_tag = lexer->in_out = false;
        return token;
    }
    if (lexer->at >= lexer->bytes) {
        lexer_fail(lexer, "the template ends within a tag");
        return token;
    }
    const char c = lexer->text[lexer->at];
    if (is_digit(c)) {
        return number_token(lexer);
    }
    if (c == '\'' || c == '"') {
        return string_token(lexer);
    }
    if (is_name(c, true)) {
        const size_t begin = lexer->at;
        while (lexer->at < lexer->bytes && is_name(lexer->text[lexer->at], false)) {
            lexer->at++;
        }
        token.kind = JINJA_TOKEN_NAME;
        token.data = jinja_intern(lexer->j, lexer->text + begin, lexer->at - begin);
        token.bytes = lexer->at - begin;
        return token;
    }
    return operator_token(lexer);
}

static struct jinja_token next(struct jinja_lexer *lexer) {
    while (lexer->j->status == KVC_OK) {
        if (lexer->opening) {
            lexer->opening = false;
            return (struct jinja_token){.kind = lexer->in_tag ? JINJA_TOKEN_OPEN : JINJA_TOKEN_OPEN_OUT,
                                        .line = lexer->line};
        }
        if (lexer->in_tag || lexer->in_out) {
            return tag_token(lexer);
        }
        if (lexer->at >= lexer->bytes && !lexer->raw) {
            break;
        }
        const struct jinja_token token = lexer->raw ? raw_text(lexer) : text_token(lexer);
        if (token.bytes) {
            return token;
        }
    }
    return (struct jinja_token){.kind = JINJA_TOKEN_END, .line = lexer->line};
}

void jinja_advance(struct jinja_lexer *lexer) {
    lexer->token = lexer->ahead;
    lexer->j->line = lexer->token.line ? lexer->token.line : 1;
    lexer->ahead = next(lexer);
}

bool jinja_at_operator(const struct jinja_lexer *lexer, const char *text) {
    return lexer->token.kind == JINJA_TOKEN_OPERATOR && !strcmp(lexer->token.data, text);
}

bool jinja_at_name(const struct jinja_lexer *lexer, const char *text) {
    return lexer->token.kind == JINJA_TOKEN_NAME && !strcmp(lexer->token.data, text);
}

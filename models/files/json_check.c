/* json_check.c - checks without allocating whether a text is JSON. jansson reports the same errors for damaged text and
 * for lack of memory; this check distinguishes them. It does not check conditions for which jansson has separate
 * errors: invalid UTF-8, NULs, duplicate keys, numbers out of range. */
#include <string.h>

#include "models/files/json.h"

struct cursor {
    const char *at, *end;
};

static void skip_space(struct cursor *c) {
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\n' || *c->at == '\r')) {
        c->at++;
    }
}

static bool json_check_take(struct cursor *c, char wanted) {
    const bool there = c->at < c->end && *c->at == wanted;
    c->at += there;
    return there;
}

/* Reads the four hexadecimal digits after \u. Returns -1 if there are fewer. */
static int code_unit(struct cursor *c) {
    int code = 0;
    for (int i = 0; i < 4; i++, c->at++) {
        const char *digit = c->at < c->end && *c->at ? strchr("0123456789abcdef0123456789ABCDEF", *c->at) : NULL;
        if (!digit) {
            return -1;
        }
        code = 16 * code + (int)(digit - "0123456789abcdef0123456789ABCDEF") % 16;
    }
    return code;
}

static bool escape(struct cursor *c) {
    if (c->at < c->end && *c->at && strchr("\"\\/bfnrt", *c->at)) {
        c->at++;
        return true;
    }
    if (!json_check_take(c, 'u')) {
        return false;
    }
    const int code = code_unit(c);
    if (code < 0xd800 || code > 0xdfff) {
        return code >= 0;
    }
    if (code > 0xdbff || !json_check_take(c, '\\') || !json_check_take(c, 'u')) { /* half of a surrogate pair */
        return false;
    }
    const int low = code_unit(c);
    return low >= 0xdc00 && low <= 0xdfff;
}

static bool string(struct cursor *c) {
    if (!json_check_take(c, '"')) {
        return false;
    }
    while (c->at < c->end && *c->at != '"') {
        if ((unsigned char)*c->at < 0x20) {
            return false;
        }
        if (*c->at++ == '\\' && !escape(c)) {
            return false;
        }
    }
    return json_check_take(c, '"');
}

static bool digits(struct cursor *c) {
    const char *begin = c->at;
    while (c->at < c->end && *c->at >= '0' && *c->at <= '9') {
        c->at++;
    }
    return c->at > begin;
}

static bool json_check_number(struct cursor *c) {
    json_check_take(c, '-');
    if (!json_check_take(c, '0') && !digits(c)) {
        return false;
    }
    if (json_check_take(c, '.') && !digits(c)) {
        return false;
    }
    if (json_check_take(c, 'e') || json_check_take(c, 'E')) {
        if (!json_check_take(c, '+')) {
            json_check_take(c, '-');
        }
        return digits(c);
    }
    return true;
}

static bool word(struct cursor *c, const char *text) {
    const size_t bytes = strlen(text);
    if ((size_t)(c->end - c->at) < bytes || memcmp(c->at, text, bytes) != 0) {
        return false;
    }
    c->at += bytes;
    return true;
}

static bool value(struct cursor *c, unsigned depth);

static bool members(struct cursor *c, char close, unsigned depth) {
    skip_space(c);
    if (json_check_take(c, close)) {
        return true;
    }
    do {
        skip_space(c);
        if (close == '}') {
            if (!string(c)) {
                return false;
            }
            skip_space(c);
            if (!json_check_take(c, ':')) {
                return false;
            }
        }
        if (!value(c, depth)) {
            return false;
        }
        skip_space(c);
    } while (json_check_take(c, ','));
    return json_check_take(c, close);
}

static bool value(struct cursor *c, unsigned depth) {
    skip_space(c);
    if (c->at == c->end || depth > KVC_JSON_DEEPEST) {
        return false;
    }
    switch (*c->at) {
    case '{':
        c->at++;
        return members(c, '}', depth + 1);
    case '[':
        c->at++;
        return members(c, ']', depth + 1);
    case '"':
        return string(c);
    case 't':
        return word(c, "true");
    case 'f':
        return word(c, "false");
    case 'n':
        return word(c, "null");
    default:
        return json_check_number(c);
    }
}

bool kvc_json_well_formed(const char *text, size_t bytes) {
    struct cursor c = {text, text + bytes};
    skip_space(&c);
    if (c.at == c.end || (*c.at != '{' && *c.at != '[') || !value(&c, 0)) {
        return false;
    }
    skip_space(&c);
    return c.at == c.end;
}

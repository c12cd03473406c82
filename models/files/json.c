/* json.c - parses untrusted JSON files. */
#include "models/files/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "models/files/map.h"

#define MOST_DIGITS 64u /* longer numbers are refused */

/* Checks the depth of nesting first. jansson descends recursively, and its own limit depends on its version. */
static bool too_deep(const char *text, size_t bytes) {
    unsigned depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < bytes; i++) {
        if (quoted) {
            if (text[i] == '\\') {
                i++;
            } else if (text[i] == '"') {
                quoted = false;
            }
        } else if (text[i] == '"') {
            quoted = true;
        } else if (text[i] == '{' || text[i] == '[') {
            if (++depth > KVC_JSON_DEEPEST) {
                return true;
            }
        } else if ((text[i] == '}' || text[i] == ']') && depth > 0) {
            depth--;
        }
    }
    return false;
}

/* Returns the length of the longest string or number. */
static size_t longest_token(const char *text, size_t bytes) {
    size_t longest = 0, run = 0;
    bool quoted = false;
    for (size_t i = 0; i < bytes; i++) {
        run++;
        if (quoted && text[i] == '\\') {
            i++;
            run++;
        } else if (text[i] == '"') {
            quoted = !quoted;
        } else if (!quoted && text[i] && strchr(",:[]{} \t\r\n", text[i])) {
            run = 0;
        }
        longest = run > longest ? run : longest;
    }
    return longest;
}

/* Presents a text as the second element of a JSON array whose first element is a string of spaces. */
struct padded {
    const char *text;
    size_t bytes, spaces, at; /* `at`: number of bytes of the padded text that were read */
};

static size_t read_padded(void *buffer, size_t capacity, void *data) {
    struct padded *from = data;
    const struct {
        const char *text;
        size_t bytes;
    } parts[] = {{"[\"", 2}, {NULL, from->spaces}, {"\",\n", 3}, {from->text, from->bytes}, {"]", 1}};
    size_t begin = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; begin += parts[i++].bytes) {
        if (from->at - begin < parts[i].bytes) {
            const size_t left = begin + parts[i].bytes - from->at, count = left < capacity ? left : capacity;
            if (parts[i].text) {
                memcpy(buffer, parts[i].text + (from->at - begin), count);
            } else {
                memset(buffer, ' ', count);
            }
            from->at += count;
            return count;
        }
    }
    return 0;
}

/* jansson's scanner keeps the current token in a buffer that doubles. If that allocation fails, jansson drops a byte
 * and goes on: keys get shorter, and a number aborts the program by an assertion. So the scanner first reads a string
 * that is longer than any token, which grows the buffer in advance. The string's length is chosen so that it does not
 * end where the buffer doubles. */
static json_t *json_parse(const char *text, size_t bytes) {
    const size_t longest = longest_token(text, bytes);
    size_t capacity = 32;
    while (capacity < longest) {
        capacity *= 2;
    }
    struct padded padded = {text, bytes, capacity + 6, 0};
    json_error_t why;
    json_t *pair = json_load_callback(read_padded, &padded, JSON_REJECT_DUPLICATES, &why);
    const bool grown = json_string_length(json_array_get(pair, 0)) >= capacity;
    json_t *root = grown && json_array_size(pair) == 2 ? json_array_get(pair, 1) : NULL;
    root = json_is_object(root) || json_is_array(root) ? json_incref(root) : NULL;
    json_decref(pair);
    return root;
}

/* Returns the length of the integer at text[at], or 0 if there is none or it has a fraction or an exponent. */
static size_t integer_at(const char *text, size_t bytes, size_t at) {
    size_t end = at;
    while (end < bytes && text[end] >= '0' && text[end] <= '9') {
        end++;
    }
    const bool more = end < bytes && text[end] && strchr(".eE", text[end]);
    return more ? 0 : end - at;
}

static bool is_huge(const char *integer, size_t digits) {
    char number[MOST_DIGITS];
    if (digits < 19 || digits >= sizeof number) {
        return false;
    }
    memcpy(number, integer, digits);
    number[digits] = '\0';
    errno = 0;
    (void)strtoll(number, NULL, 10);
    return errno == ERANGE;
}

/* Returns a copy of the text in which integers of 64 bits or more are real numbers: their last two digits become an
 * exponent. tokenizer_config.json of many models has 10^30 as model_max_length, for "no limit", and jansson refuses the
 * whole text for it. A field that must be an integer then finds a real number. Returns NULL if there is no such
 * integer, or if there is no memory; in the second case *full becomes true. */
static char *without_huge_integers(const char *text, size_t bytes, bool *full) {
    char *copy = NULL;
    bool quoted = false;
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] == '"') {
            quoted = !quoted;
        } else if (quoted) {
            i += text[i] == '\\';
        } else if (text[i] >= '0' && text[i] <= '9') {
            const size_t digits = integer_at(text, bytes, i);
            const bool huge = is_huge(text + i, digits);
            if (huge && !copy) {
                copy = malloc(bytes);
                *full = !copy;
                if (!copy) {
                    return NULL;
                }
                memcpy(copy, text, bytes);
            }
            if (huge) {
                memcpy(copy + i + digits - 2, "e2", 2);
            }
            while (i + 1 < bytes && text[i + 1] && strchr("0123456789.eE+-", text[i + 1])) {
                i++;
            }
        }
    }
    return copy;
}

/* Returns true if an error means lack of memory. jansson rarely says so; it reports a syntax error or nothing. */
static bool no_memory(const json_error_t *why, const char *text, size_t bytes) {
    switch (json_error_code(why)) {
    case json_error_out_of_memory:
        return true;
    case json_error_unknown:
    case json_error_invalid_syntax:
    case json_error_premature_end_of_input:
        return kvc_json_well_formed(text, bytes);
    default:
        return false;
    }
}

enum kvc_status kvc_json_parse(const char *path, const char *text, size_t bytes, json_t **root,
                               struct kvc_error *error) {
    *root = NULL;
    if (too_deep(text, bytes)) {
        return kvc_fail(error, KVC_INPUT, "%s: the JSON is nested more than %d levels deep", path, KVC_JSON_DEEPEST);
    }
    const char *zero = bytes ? memchr(text, '\0', bytes) : NULL;
    if (zero) { /* jansson skips a NUL after a number or a word */
        return kvc_fail(error, KVC_INPUT, "%s: not valid JSON: byte %zu is 0", path, (size_t)(zero - text));
    }
    *root = json_parse(text, bytes);
    bool full = false;
    char *copy = *root ? NULL : without_huge_integers(text, bytes, &full);
    if (full) {
        return kvc_fail(error, KVC_RESOURCE, "%s: no memory for its JSON", path);
    }
    if (copy) {
        *root = json_parse(copy, bytes);
        free(copy);
    }
    if (!*root) {                        /* parse again to get the reason */
        json_error_t why = {.line = -1}; /* jansson does not set the error if its first allocation fails */
        json_t *again = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &why);
        json_decref(again);
        if (again || no_memory(&why, text, bytes)) {
            return kvc_fail(error, KVC_RESOURCE, "%s: no memory for its JSON", path);
        }
        for (char *c = why.text; *c; c++) { /* the message quotes the input */
            if ((unsigned char)*c < 0x20 || *c == 0x7f) {
                *c = ' ';
            }
        }
        const enum json_error_code code = json_error_code(&why);
        const bool nul = code == json_error_null_character || code == json_error_null_byte_in_key;
        return kvc_fail(error, KVC_INPUT, "%s: not valid JSON: line %d, column %d: %s", path, why.line, why.column,
                        nul ? "\\u0000, the character NUL, is not allowed" : why.text);
    }
    return KVC_OK;
}

enum kvc_status kvc_json_load(const char *path, json_t **root, struct kvc_error *error) {
    *root = NULL;
    struct kvc_map map;
    enum kvc_status status = kvc_map_open(path, &map, error);
    if (!status) {
        status = kvc_json_parse(path, (const char *)map.data, map.bytes, root, error);
        kvc_map_close(&map);
    }
    return status;
}

/* reader_call.c - reads the JSON of calls: objects with a name and arguments, alone or in an array, and
 * NAME[ARGS]{...}.
 *
 * A call begins as soon as its name is known and its arguments have begun. Until then the reader holds
 * its bytes. If the bytes turn out not to be a call, they become content. */
#include <stdlib.h>
#include <string.h>

#include "core/base/assert.h"
#include "serve/reader.h"

#define WORD_MOST 256u /* largest size of a name in bytes */

/* The meaning of a call's members. An object that has other members before its arguments is not a call. */
enum { KEY_NONE, KEY_NAME, KEY_ARGUMENTS, KEY_OTHER };
static const struct {
    const char *name;
    int key;
} keys[] = {{"name", KEY_NAME},  {"tool_name", KEY_NAME}, {"arguments", KEY_ARGUMENTS}, {"parameters", KEY_ARGUMENTS},
            {"type", KEY_OTHER}, {"id", KEY_OTHER},       {"tool_call_id", KEY_OTHER}};

const char *reader_function(const struct serve_reader *reader, const char *name) {
    for (size_t i = 0; i < json_array_size(reader->functions); i++) {
        const char *each = json_string_value(json_object_get(json_array_get(reader->functions, i), "name"));
        if (each && strcmp(each, name) == 0)
            return each;
    }
    return NULL;
}

/* ---- JSON, byte by byte ---- */

bool reader_value_put(struct reader_value *value, char c, bool *before) {
    *before = false;
    if (value->quoted) {
        if (value->escaped)
            value->escaped = false;
        else if (c == '\\')
            value->escaped = true;
        else if (c == '"')
            value->quoted = false;
        return !value->quoted && value->depth == 0;
    }
    if (value->scalar) {
        *before = reader_blank(c) || strchr(",}]", c);
        return *before;
    }
    if (c == '"')
        value->quoted = true;
    else if (c == '{' || c == '[')
        value->depth++;
    else if ((c == '}' || c == ']') && value->depth > 0)
        return --value->depth == 0;
    else
        value->scalar = value->depth == 0;
    return false;
}

/* Writes the code point of a \u escape as UTF-8. Returns its number of bytes. */
static int encode(unsigned code, char *out) {
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    out[0] = (char)((more == 1 ? 0xc0 : more == 2 ? 0xe0 : 0xf0) | code >> (6 * more));
    for (int i = 1; i <= more; i++)
        out[i] = (char)(0x80 | (code >> (6 * (more - i)) & 0x3f));
    return more + 1;
}

/* Ends the escape \uXXXX. A surrogate without its partner becomes U+FFFD. */
static int end_code(struct reader_string *string, char *out) {
    const unsigned code = string->code, high = string->high;
    const bool is_high = code >= 0xd800 && code < 0xdc00, is_low = code >= 0xdc00 && code < 0xe000;
    string->high = is_high ? code : 0;
    if (high && is_low)
        return encode(0x10000 + ((high - 0xd800) << 10) + (code - 0xdc00), out);
    const int lost = high ? encode(0xfffd, out) : 0;
    return is_high ? lost : lost + encode(is_low ? 0xfffd : code, out + lost);
}

/* Reads a digit of \uXXXX. If the byte is not a digit, the escape becomes U+FFFD. */
static int decode_digit(struct reader_string *string, char c, char *out) {
    static const char digits[] = "0123456789abcdefABCDEF";
    const char *digit = c ? strchr(digits, c) : NULL;
    if (!digit) {
        string->digits = 0;
        string->code = 0xfffd;
        const int bytes = end_code(string, out);
        out[bytes] = c;
        return bytes + 1;
    }
    const unsigned place = (unsigned)(digit - digits);
    string->code = string->code << 4 | (place < 16 ? place : place - 6);
    return --string->digits == 0 ? end_code(string, out) : 0;
}

/* Decodes a byte of a JSON string. Returns n, the number of bytes of text written to out [8], or -1 - n at the closing
 * quote. */
static int decode(struct reader_string *string, char c, char *out) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (string->digits > 0)
        return decode_digit(string, c, out);
    if (c == '\\' && !string->escaped) {
        string->escaped = true;
        return 0;
    }
    if (c == 'u' && string->escaped) {
        string->escaped = false;
        string->digits = 4;
        string->code = 0;
        return 0;
    }
    int bytes = string->high ? encode(0xfffd, out) : 0; /* a surrogate whose partner did not follow */
    string->high = 0;
    if (c == '"' && !string->escaped)
        return -1 - bytes;
    const char *which = c && string->escaped ? strchr(from, c) : NULL;
    string->escaped = false;
    out[bytes++] = which ? to[which - from] : c;
    return bytes;
}

/* ---- calls ---- */

void reader_call_begin(struct serve_reader *reader, const char *name) {
    struct reader_call *call = &reader->call;
    call->begun = true;
    call->muted = reader->single && reader->call_count > 0;
    reader_clear(&reader->held);
    if (call->muted)
        return;
    call->over = false;
    if ((reader->call_count & (reader->call_count - 1)) == 0) { /* the array is full at counts of 0, 1, 2, 4, ... */
        struct serve_call *grown =
            realloc(reader->calls, (reader->call_count ? 2 * reader->call_count : 1) * sizeof *grown);
        if (!grown) {
            reader->failed = true;
            call->muted = true;
            return;
        }
        reader->calls = grown;
    }
    reader->calls[reader->call_count++] = (struct serve_call){.name = name};
}

void reader_arguments(struct serve_reader *reader, const char *text, size_t bytes) {
    if (!reader->call.muted)
        serve_text_add(&reader->calls[reader->call_count - 1].arguments, text, bytes);
}

/* Begins the call if its name is known. */
static void call_begin(struct serve_reader *reader) {
    struct reader_call *call = &reader->call;
    if (call->begun || !call->name)
        return;
    reader_call_begin(reader, call->name);
    if (call->early.bytes > 0) {
        reader_arguments(reader, call->early.data, call->early.bytes);
        call->over = true;
    }
    reader_clear(&call->early);
}

/* Adds bytes of the arguments, which may come before the name. */
static void call_add(struct serve_reader *reader, const char *text, size_t bytes) {
    call_begin(reader);
    if (reader->call.begun)
        reader_arguments(reader, text, bytes);
    else
        serve_text_add(&reader->call.early, text, bytes);
}

/* Ends an object. Returns false if the object was not a call. */
static bool call_end(struct serve_reader *reader) {
    struct reader_call *call = &reader->call;
    call_begin(reader);
    if (!call->begun)
        return false;
    if (!call->muted && reader->calls[reader->call_count - 1].arguments.bytes == 0)
        reader_arguments(reader, "{}", 2);
    call->begun = false;
    call->over = true;
    call->name = NULL;
    reader_clear(&call->early);
    call->state = CALL_LIST_NEXT;
    if (!call->list)
        reader->state = READER_AFTER_CALL;
    return true;
}

void reader_call_open(struct serve_reader *reader, bool bare) {
    struct reader_call *call = &reader->call;
    reader->state = READER_IN_CALL;
    call->state = CALL_OPEN;
    call->list = call->more = call->plain = call->begun = false;
    call->bare = bare;
    call->name = NULL;
    reader_clear(&call->early);
}

bool reader_call_between(const struct serve_reader *reader) {
    const struct reader_call *call = &reader->call;
    return call->state == CALL_LIST_NEXT || (call->state == CALL_OPEN && call->list && call->more);
}

static void begin_word(struct reader_call *call, enum call_state state) {
    call->state = state;
    call->string = (struct reader_string){0};
    reader_clear(&call->word);
}

static void begin_value(struct reader_call *call, enum call_state state) {
    call->state = state;
    call->value = (struct reader_value){0};
}

/* Adds a byte to a name. Returns false if a name cannot contain it. */
static bool add_word(struct reader_call *call, char c) {
    return c && call->word.bytes < WORD_MOST && serve_text_add(&call->word, &c, 1);
}

static const char *word_of(const struct reader_call *call) { return call->word.bytes ? call->word.data : ""; }

/* ---- NAME[ARGS]{...} ---- */

static bool plain_put(struct serve_reader *reader, char c) {
    struct reader_call *call = &reader->call;
    if (call->state == CALL_ID) {
        if (c == '[')
            begin_word(call, CALL_BRACKET);
        return c == '[' || add_word(call, c);
    }
    if (call->state == CALL_PLAIN && (c == '[' || c == '{')) {
        call->name = reader_function(reader, word_of(call));
        begin_word(call, CALL_BRACKET);
        if (c == '{') {
            begin_value(call, CALL_IN_ARGUMENTS);
            return call->name && reader_call_put(reader, c);
        }
        return call->name != NULL;
    }
    if (call->state == CALL_PLAIN)
        return !reader_blank(c) && c != '<' && c != '"' && add_word(call, c);
    if (c != ']') /* in state CALL_BRACKET */
        return add_word(call, c);
    if (strcmp(word_of(call), "CALL_ID") == 0) {
        begin_word(call, CALL_ID);
        return true;
    }
    begin_value(call, CALL_VALUE);
    call->key = KEY_ARGUMENTS;
    return strcmp(word_of(call), "ARGS") == 0;
}

/* ---- {"name": NAME, "arguments": {...}} ---- */

static bool open_put(struct serve_reader *reader, char c) {
    struct reader_call *call = &reader->call;
    if (reader_blank(c))
        return true;
    if (c == '{') {
        call->state = CALL_FIRST;
        return true;
    }
    if (c == ']' && call->more) {
        reader->state = READER_AFTER_CALL;
        return true;
    }
    if (c == '[' && !call->list) {
        call->list = true;
        return true;
    }
    call->plain = !call->list && !call->bare && c != '<' && c != '"';
    begin_word(call, CALL_PLAIN);
    return call->plain && add_word(call, c);
}

/* Reads a byte of a value, which follows a key and its colon. */
static bool value_put(struct serve_reader *reader, char c) {
    struct reader_call *call = &reader->call;
    if (reader_blank(c))
        return true;
    if (call->key == KEY_NAME) {
        begin_word(call, CALL_IN_NAME);
        return c == '"';
    }
    if (call->key == KEY_ARGUMENTS && c == '"' && !call->plain) {
        begin_word(call, CALL_IN_QUOTED);
        return true;
    }
    if (call->key == KEY_ARGUMENTS ? c != '{' && (c != 'n' || call->plain) : strchr(",:}]", c) != NULL)
        return false;
    begin_value(call, call->key == KEY_ARGUMENTS && c == '{' ? CALL_IN_ARGUMENTS : CALL_IN_VALUE);
    return reader_call_put(reader, c);
}

/* Ends a member's name. A second name or a second value for the arguments is ignored. */
static bool end_key(struct reader_call *call) {
    call->key = KEY_NONE;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(word_of(call), keys[i].name) == 0)
            call->key = keys[i].key;
    if (call->begun || (call->key == KEY_NAME && call->name) || (call->key == KEY_ARGUMENTS && call->early.bytes > 0))
        call->key = KEY_OTHER;
    call->state = CALL_COLON;
    return call->key != KEY_NONE;
}

/* Reads a byte within a string: a key, a name, or arguments. */
static bool string_put(struct serve_reader *reader, char c) {
    struct reader_call *call = &reader->call;
    char out[8];
    const int got = decode(&call->string, c, out), bytes = got < 0 ? -1 - got : got;
    for (int i = 0; i < bytes; i++) {
        const bool first = call->early.bytes == 0 && !call->begun;
        if (call->state != CALL_IN_QUOTED) {
            if (!add_word(call, out[i]) && !(call->state == CALL_IN_KEY && call->begun))
                return false;
        } else if (!first || !reader_blank(out[i])) {
            if (first && out[i] != '{')
                return false;
            call_add(reader, out + i, 1);
        }
    }
    if (got >= 0)
        return true;
    if (call->state == CALL_IN_KEY)
        return end_key(call);
    if (call->state == CALL_IN_NAME)
        call->name = reader_function(reader, word_of(call));
    const bool name = call->state == CALL_IN_NAME;
    call->over = call->over || (!name && call->begun);
    call->state = CALL_NEXT;
    if (call->name && call->early.bytes > 0)
        call_begin(reader);
    return call->name || !name;
}

/* Reads a byte of a value that is not a string to be decoded. */
static bool any_put(struct serve_reader *reader, char c) {
    struct reader_call *call = &reader->call;
    bool before;
    const bool ends = reader_value_put(&call->value, c, &before), arguments = call->state == CALL_IN_ARGUMENTS;
    if (arguments)
        call_add(reader, &c, 1);
    if (!ends)
        return true;
    call->state = CALL_NEXT;
    call->over = call->over || (arguments && call->begun);
    if (call->plain)
        return call_end(reader);
    return !before || reader_call_put(reader, c);
}

static bool next_put(struct serve_reader *reader, char c) {
    struct reader_call *call = &reader->call;
    if (c == ',')
        call->state = CALL_KEY;
    else if (c == '}')
        return call_end(reader);
    return c == ',' || reader_blank(c);
}

/* Reads a byte after an object of a list. */
static bool list_put(struct serve_reader *reader, char c) {
    reader->call.more = true;
    if (c == ',')
        reader->call.state = CALL_OPEN;
    else if (c == ']')
        reader->state = READER_AFTER_CALL;
    return c == ',' || c == ']' || reader_blank(c);
}

bool reader_call_put(struct serve_reader *reader, char c) {
    struct reader_call *call = &reader->call;
    switch (call->state) {
    case CALL_OPEN:
        return open_put(reader, c);
    case CALL_PLAIN:
    case CALL_BRACKET:
    case CALL_ID:
        return plain_put(reader, c);
    case CALL_FIRST:
    case CALL_KEY:
        if (c == '}' && call->state == CALL_FIRST)
            return call_end(reader);
        if (c == '"')
            begin_word(call, CALL_IN_KEY);
        return c == '"' || reader_blank(c);
    case CALL_IN_KEY:
    case CALL_IN_NAME:
    case CALL_IN_QUOTED:
        return string_put(reader, c);
    case CALL_COLON:
        if (c == ':')
            call->state = CALL_VALUE;
        return c == ':' || reader_blank(c);
    case CALL_VALUE:
        return value_put(reader, c);
    case CALL_IN_VALUE:
    case CALL_IN_ARGUMENTS:
        return any_put(reader, c);
    case CALL_NEXT:
        return next_put(reader, c);
    case CALL_LIST_NEXT:
        return list_put(reader, c);
    }
    KVC_ASSERT(false);
    return false;
}

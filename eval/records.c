/* records.c - finds the objects of a JSON file (JSON lines, or one array), and reads one at a time. */
#include "eval/records.h"
#include "core/base/assert.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "eval/prompt.h"

static enum kvc_status records_wrong(const struct eval_records *records, uint64_t line, struct kvc_error *error,
                                     const char *what) {
    return kvc_fail(error, KVC_INPUT, "--%s: %s: line %llu: %s", records->option, records->path,
                    (unsigned long long)line, what);
}

static enum kvc_status unreadable(const struct eval_records *records, struct kvc_error *error) {
    return kvc_fail(error, KVC_INPUT, "--%s: %s: cannot be read: %s", records->option, records->path, strerror(errno));
}

/* ---- finding records ---- */

struct finder { /* scans the bytes once */
    struct eval_records *into;
    size_t capacity;
    uint64_t at, line;
    bool array;  /* the file is an array of objects; otherwise lines */
    bool began;  /* after the array's opening bracket */
    bool ended;  /* after its closing bracket */
    bool inside; /* inside a record */
    bool quoted, escaped;
    unsigned depth; /* bracket depth within the record */
};

static enum kvc_status begin_record(struct finder *finder, struct kvc_error *error) {
    struct eval_records *into = finder->into;
    if (into->count == EVAL_RECORDS_MOST)
        return records_wrong(into, finder->line, error, "too many records; the maximum is a million");
    if (into->count == finder->capacity) {
        const size_t capacity = cli_max(256, 2 * finder->capacity);
        struct eval_record_place *items = realloc(into->items, capacity * sizeof *items);
        if (!items)
            return kvc_fail(error, KVC_RESOURCE, "no memory left");
        into->items = items;
        finder->capacity = capacity;
    }
    into->items[into->count++] = (struct eval_record_place){finder->at, finder->line, 0};
    finder->inside = true;
    finder->quoted = finder->escaped = false;
    finder->depth = 0;
    return KVC_OK;
}

/* Processes a byte of an array element, which ends at its matching bracket. */
static void inside_array(struct finder *finder, char c) {
    if (finder->escaped)
        finder->escaped = false;
    else if (finder->quoted && c == '\\')
        finder->escaped = true;
    else if (c == '"')
        finder->quoted = !finder->quoted;
    else if (!finder->quoted && (c == '{' || c == '['))
        finder->depth++;
    else if (!finder->quoted && (c == '}' || c == ']') && finder->depth > 0)
        finder->inside = --finder->depth > 0;
}

static enum kvc_status take_byte(struct finder *finder, char c, struct kvc_error *error) {
    struct eval_records *into = finder->into;
    const bool blank = c == ' ' || c == '\t' || c == '\r' || c == '\n';
    enum kvc_status status = KVC_OK;
    if (!finder->inside && !blank) {
        if (!finder->began && !finder->array && into->count == 0 && c == '[') {
            finder->array = finder->began = true;
        } else if (finder->array && c == ']' && !finder->ended) {
            finder->ended = true;
        } else if (finder->ended) {
            status = records_wrong(into, finder->line, error, "text after the array's end");
        } else if (c == '{') {
            status = begin_record(finder, error);
        } else if (!finder->array || c != ',') {
            status =
                records_wrong(into, finder->line, error,
                              "not an object; the file must have a JSON object on each line, or an array of objects");
        }
    }
    if (finder->inside && status == KVC_OK) {
        struct eval_record_place *record = &into->items[into->count - 1];
        KVC_ASSERT(into->count > 0 && finder->at >= record->start);
        if (finder->array)
            inside_array(finder, c);
        else if (c == '\n')
            finder->inside = false;
        record->bytes = (size_t)(finder->at + 1 - record->start);
        if (record->bytes > EVAL_RECORD_BYTES)
            status = records_wrong(into, record->line, error, "a record of more than 64 MiB");
    }
    finder->line += c == '\n';
    finder->at++;
    return status;
}

/* Checks a block of bytes for UTF-8. *whole receives the number of bytes up to the last complete character; the caller
 * moves the rest into the next block. */
static enum kvc_status check_utf8(const struct eval_records *records, const char *bytes, size_t count, bool last,
                                  uint64_t line, size_t *whole, struct kvc_error *error) {
    size_t at = 0;
    while (at < count) {
        const size_t n = (unsigned char)bytes[at] < 0x80 ? 1 : cli_character(bytes + at, count - at);
        if (n == 0 && !last && count - at < 4)
            break;
        if (n == 0 || bytes[at] == '\0')
            return records_wrong(records, line, error, "not UTF-8");
        line += bytes[at] == '\n';
        at += n;
    }
    *whole = at;
    return KVC_OK;
}

static enum kvc_status find_records(struct finder *finder, struct kvc_error *error) {
    enum { BLOCK = 1 << 16 };
    struct eval_records *into = finder->into;
    char *block = malloc(BLOCK);
    size_t kept = 0, whole = 0;
    enum kvc_status status = block ? KVC_OK : kvc_fail(error, KVC_RESOURCE, "no memory left");
    for (bool last = false; status == KVC_OK && !last;) {
        const size_t count = fread(block + kept, 1, BLOCK - kept, into->file);
        last = count < BLOCK - kept;
        if (last && ferror(into->file)) {
            status = unreadable(into, error);
            break;
        }
        status = check_utf8(into, block, kept + count, last, finder->line, &whole, error);
        if (status != KVC_OK)
            break; /* whole is that of the block before */
        into->hash = eval_hash(into->hash, block, whole);
        for (size_t i = 0; i < whole && status == KVC_OK; i++)
            status = take_byte(finder, block[i], error);
        KVC_ASSERT(whole <= kept + count && kept + count - whole < 4); /* at most a part of a character is left */
        kept = kept + count - whole;
        memmove(block, block + whole, kept);
    }
    free(block);
    return status;
}

enum kvc_status eval_records_open(const char *option, const char *path, struct eval_records *records,
                                  struct kvc_error *error) {
    struct finder finder = {.into = records, .line = 1};
    *records = (struct eval_records){.option = option, .path = strdup(path)};
    if (!records->path)
        return kvc_fail(error, KVC_RESOURCE, "no memory left");
    records->file = fopen(path, "rb");
    if (!records->file)
        return unreadable(records, error);
    const enum kvc_status status = find_records(&finder, error);
    if (status != KVC_OK)
        return status;
    if (finder.array && !finder.ended)
        return records_wrong(records, finder.line, error, "the file ends inside its array");
    if (records->count == 0)
        return kvc_fail(error, KVC_INPUT,
                        "--%s: %s: no records; the file must have a JSON object on each line, or an array of objects",
                        option, path);
    return KVC_OK;
}

void eval_records_close(struct eval_records *records) {
    if (records->file)
        fclose(records->file);
    free(records->items);
    free(records->path);
    *records = (struct eval_records){0};
}

enum kvc_status eval_records_read(const struct eval_records *records, size_t index, json_t **object,
                                  struct kvc_error *error) {
    KVC_ASSERT(index < records->count);
    const struct eval_record_place *place = &records->items[index];
    char *text = malloc(place->bytes + 1);
    json_error_t where = {.line = -1};
    enum kvc_status status = KVC_OK;
    *object = NULL;
    if (!text)
        return kvc_fail(error, KVC_RESOURCE, "no memory left");
    if (fseeko(records->file, (off_t)place->start, SEEK_SET) != 0 ||
        fread(text, 1, place->bytes, records->file) != place->bytes)
        status = kvc_fail(error, KVC_INPUT, "--%s: %s: line %llu: cannot be read; has the file changed?",
                          records->option, records->path, (unsigned long long)place->line);
    if (status == KVC_OK)
        *object = json_loadb(text, place->bytes, JSON_REJECT_DUPLICATES, &where);
    free(text);
    if (status == KVC_OK && cli_json_lost()) { /* jansson may have lost a character of a text without an error */
        status = kvc_fail(error, KVC_RESOURCE, "no memory left");
    } else if (status == KVC_OK && !json_is_object(*object)) {
        for (char *c = where.text; *c; c++) /* the message quotes the input */
            *c = (unsigned char)*c < 0x20 || *c == 0x7f ? ' ' : *c;
        status = kvc_fail(error, KVC_INPUT, "--%s: %s: line %llu: not a JSON object: %s", records->option,
                          records->path, (unsigned long long)place->line, where.text);
    }
    if (status != KVC_OK) {
        json_decref(*object);
        *object = NULL;
    }
    return status;
}

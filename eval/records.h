/* records.h - the objects of a JSON file that may be far larger than memory should be: lines of JSON, or one array.
 * Each is read when it is asked for, and its fields are looked at. */
#ifndef KVC_EVAL_RECORDS_H
#define KVC_EVAL_RECORDS_H

#include "eval/task.h"

enum { EVAL_RECORD_BYTES = 64 << 20, EVAL_RECORDS_MOST = 1 << 20 }; /* of a record; of a file */

struct eval_records {
    const char *option; /* for messages: "longbench" */
    char *path;
    FILE *file;
    struct eval_record_place {
        uint64_t start, line; /* line: from 1 */
        size_t bytes;
    } * items;
    size_t count;
    uint64_t hash; /* of the file's bytes */
};
/* Finds where records begin and end, and that the bytes are UTF-8. KVC_INPUT: no record, or something else. */
enum kvc_status eval_records_open(const char *option, const char *path, struct eval_records *records,
                                  struct kvc_error *error);
void eval_records_close(struct eval_records *records);
/* Record `index` as an object, a new reference. */
enum kvc_status eval_records_read(const struct eval_records *records, size_t index, json_t **object,
                                  struct kvc_error *error);

/* ---- fields: NULL after a failure, which the first one leaves in `error` ---- */

struct eval_row {
    const struct eval_records *from;
    size_t index;
    json_t *object;
    struct kvc_error *error;
    enum kvc_status status; /* KVC_OK until a field is wrong */
};
/* One line: file, line, field, what is wrong with it, what it takes. */
void eval_row_wrong(struct eval_row *row, const char *field, const char *takes);
const char *eval_row_text(struct eval_row *row, const char *field);  /* may be empty */
const char *eval_row_words(struct eval_row *row, const char *field); /* may not */
/* An array with at least `least` texts that are not empty, or one text where `alone`. */
json_t *eval_row_texts(struct eval_row *row, const char *field, size_t least, bool alone);
json_t *eval_row_list(struct eval_row *row, const char *field, size_t least); /* of anything */
bool eval_row_number(struct eval_row *row, const char *field, int64_t least, int64_t most, int64_t *number);
/* Text i of what eval_row_texts gave. */
const char *eval_text_at(const json_t *texts, size_t i);
size_t eval_texts_count(const json_t *texts);

/* ---- templates ---- */

struct eval_field {
    const char *name, *text;
};
/* The template with fields in it: {name}, and {{ and }} for brackets (dollars false), as Python's format; or $name$,
 * and everything else as it is. What follows the field named `split` goes to `after`. KVC_INPUT: another name, or no
 * such field; where: what the template is, for the message. */
enum kvc_status eval_fill(const char *where, const char *template, bool dollars, const struct eval_field *fields,
                          size_t count, const char *split, struct eval_text *before, struct eval_text *after,
                          struct kvc_error *error);

#endif

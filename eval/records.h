/* records.h - reads the objects of a JSON file (JSON lines, or one array) one by one, so that the file may be larger
 * than memory. Checks the type of every field. */
#ifndef KVC_EVAL_RECORDS_H
#define KVC_EVAL_RECORDS_H

#include "eval/task.h"

enum { EVAL_RECORD_BYTES = 64 << 20, EVAL_RECORDS_MOST = 1 << 20 }; /* limits: bytes of a record; records of a file */

struct eval_records {
    const char *option; /* name of the option, for messages: "longbench" */
    char *path;
    FILE *file;
    struct eval_record_place {
        uint64_t start, line; /* line: counted from 1 */
        size_t bytes;
    } * items;
    size_t count;
    uint64_t hash; /* hash of the file's bytes */
};
/* Finds the records and checks that the file is UTF-8. Returns KVC_INPUT if there is no record, or if the file has
 * something else. */
enum kvc_status eval_records_open(const char *option, const char *path, struct eval_records *records,
                                  struct kvc_error *error);
void eval_records_close(struct eval_records *records);
/* Reads record `index` as an object; new reference. */
enum kvc_status eval_records_read(const struct eval_records *records, size_t index, json_t **object,
                                  struct kvc_error *error);

/* ---- fields: the functions return NULL after a failure; `error` has the first one ---- */

struct eval_row {
    const struct eval_records *from;
    size_t index;
    json_t *object;
    struct kvc_error *error;
    enum kvc_status status; /* KVC_OK until a field fails */
};
/* Fails with one line: file, line, field, what is wrong, and the expected value. */
void eval_row_wrong(struct eval_row *row, const char *field, const char *takes);
const char *eval_row_text(struct eval_row *row, const char *field);  /* may be empty */
const char *eval_row_words(struct eval_row *row, const char *field); /* must not be empty */
/* Returns an array with at least `least` nonempty texts, or, if `alone`, one nonempty text. */
json_t *eval_row_texts(struct eval_row *row, const char *field, size_t least, bool alone);
json_t *eval_row_list(struct eval_row *row, const char *field, size_t least); /* a list of any values */
bool eval_row_number(struct eval_row *row, const char *field, int64_t least, int64_t most, int64_t *number);
/* Returns text i of eval_row_texts' result. */
const char *eval_text_at(const json_t *texts, size_t i);
size_t eval_texts_count(const json_t *texts);

/* ---- templates ---- */

struct eval_field {
    const char *name, *text;
};
/* Replaces the template's fields. If `dollars` is false, a field is {name}, with {{ and }} for braces, as in Python's
 * format. Otherwise a field is $name$, and everything else is literal. Text after the field named `split` goes to
 * `after`. Returns KVC_INPUT for an unknown name, or if there is no field `split`. `where` names the template in
 * messages. */
enum kvc_status eval_fill(const char *where, const char *template, bool dollars, const struct eval_field *fields,
                          size_t count, const char *split, struct eval_text *before, struct eval_text *after,
                          struct kvc_error *error);

#endif

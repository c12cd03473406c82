/* field.h - formats one value by a format specification. Used by '%5.1f' % value and by '{:>5}'.format(value). */
#ifndef KVC_MODELS_JINJA_FIELD_H
#define KVC_MODELS_JINJA_FIELD_H

#include "models/jinja/parts.h"

struct jinja_field {
    struct jinja_string fill; /* padding character; its mark says whether the caller wrote it */
    char align;               /* <, >, ^, or = for padding after the sign; 0: text to the left, numbers to the right */
    char sign;                /* + or a space in front of nonnegative numbers; 0: none */
    char group;               /* ',' or '_' between digit groups; 0: none */
    char kind;                /* s, d, f, ...; 0: depends on the value */
    bool alternate, zeros;    /* flags # and 0 */
    int64_t width, places;    /* -1: not given */
};

/* Reads a number at text[*at]. Returns -1 if there is none; fails if it is very large. */
int64_t jinja_field_number(struct jinja *j, const struct jinja_string *text, size_t *at);
/* Writes prefix (a sign or 0x) and body, padded to the width. */
void jinja_put_filled(struct jinja *j, struct jinja_text *text, const struct jinja_field *field, const char *prefix,
                      const struct jinja_string *body, char align);
/* Writes a number in the format field->kind: one of bcdeEfFgGnoxX%, or 0. An integer has at least `least` digits. */
void jinja_put_number(struct jinja *j, struct jinja_text *text, const struct jinja_field *field,
                      struct jinja_value value, int64_t least);

#endif

/* field.h - one value put into a text by a form: '%5.1f' % value and '{:>5}'.format(value) share it. */
#ifndef KVC_MODELS_JINJA_FIELD_H
#define KVC_MODELS_JINJA_FIELD_H

#include "models/jinja/parts.h"

struct jinja_field {
    struct jinja_string fill; /* a character, with the mark of whoever wrote the form */
    char align;               /* <, >, ^, or = for zeros behind the sign; 0: text to the left, numbers to the right */
    char sign;                /* + or a blank in front of what is not negative; 0: nothing */
    char group;               /* , or _ between groups of digits; 0: nothing */
    char kind;                /* s, d, f, ...; 0: by the value */
    bool alternate, zeros;    /* #, 0 */
    int64_t width, places;    /* -1: not given */
};

/* A number at text[*at], -1 where there is none; fails where it is very large. */
int64_t jinja_field_number(struct jinja *j, const struct jinja_string *text, size_t *at);
/* body behind prefix (a sign, 0x), filled up to the width. */
void jinja_put_filled(struct jinja *j, struct jinja_text *text, const struct jinja_field *field, const char *prefix,
                      const struct jinja_string *body, char align);
/* A number of one of the kinds bcdeEfFgGnoxX%, or 0. least: digits of a whole number at least. */
void jinja_put_number(struct jinja *j, struct jinja_text *text, const struct jinja_field *field,
                      struct jinja_value value, int64_t least);

#endif

/* characters.h - tables of character properties (character_table.c). */
#ifndef KVC_MODELS_JINJA_CHARACTERS_H
#define KVC_MODELS_JINJA_CHARACTERS_H

#include <stddef.h>
#include <stdint.h>

struct jinja_range {
    uint32_t first, last;
};
extern const struct jinja_range jinja_more_upper[], jinja_more_lower[], jinja_more_digits[],
    jinja_more_numbers[]; /* ascending; each table ends with {0, 0} */

struct jinja_special_case {
    uint32_t code;
    const char *upper, *title;
};
extern const struct jinja_special_case jinja_special_cases[]; /* ascending; ends with code 0 */

#endif

/* string_classes.c - string methods that test the class of all characters. */
#include "models/jinja/parts.h"

#define METHOD(name)                                                                                                   \
    static struct jinja_value name(struct jinja *j, struct jinja_value self, const struct jinja_value *a,              \
                                   const struct jinja_call *call)
#define UNUSED ((void)j, (void)self, (void)a, (void)call)

static bool is_ascii(uint32_t code) { return code < 0x80; }
static bool is_blank(uint32_t code) { return code != KVC_NOT_UTF8 && jinja_space(code); }

static struct jinja_value all(struct jinja *j, const struct jinja_string *text, bool (*is)(uint32_t), bool empty) {
    jinja_step(j, text->bytes / 4);
    for (size_t at = 0; at < text->bytes;) {
        uint32_t code;
        at += jinja_next(text->data + at, text->bytes - at, &code);
        if (!is(code)) {
            return jinja_bool(false);
        }
    }
    return jinja_bool(text->bytes || empty);
}
#define ALL(name, is, empty)                                                                                           \
    METHOD(name) {                                                                                                     \
        UNUSED;                                                                                                        \
        return all(j, self.string, is, empty);                                                                         \
    }
ALL(do_isalpha, jinja_letter, false)
ALL(do_isdecimal, jinja_decimal, false)
ALL(do_isdigit, jinja_digit, false)
ALL(do_isnumeric, jinja_numeric, false)
ALL(do_isalnum, jinja_alnum, false)
ALL(do_isspace, is_blank, false)
ALL(do_isascii, is_ascii, true)
ALL(do_isprintable, jinja_printable, true)

METHOD(do_islower) { return jinja_builtin(jinja_tests, "lower", 5)->function(j, self, a, call); }
METHOD(do_isupper) { return jinja_builtin(jinja_tests, "upper", 5)->function(j, self, a, call); }

const struct jinja_builtin jinja_class_methods[] = {
    {"isalnum", "", 0, do_isalnum},
    {"isalpha", "", 0, do_isalpha},
    {"isascii", "", 0, do_isascii},
    {"isdecimal", "", 0, do_isdecimal},
    {"isdigit", "", 0, do_isdigit},
    {"isidentifier", "", 0, NULL},
    {"islower", "", 0, do_islower},
    {"isnumeric", "", 0, do_isnumeric},
    {"isprintable", "", 0, do_isprintable},
    {"isspace", "", 0, do_isspace},
    {"istitle", "", 0, NULL},
    {"isupper", "", 0, do_isupper},
    {NULL, NULL, 0, NULL},
};

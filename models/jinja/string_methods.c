/* string_methods.c - the methods of strings. */
#include "models/jinja/parts.h"

#include <string.h>

#define METHOD(name)                                                                                                   \
    static struct jinja_value name(struct jinja *j, struct jinja_value self, const struct jinja_value *a,              \
                                   const struct jinja_call *call)
#define UNUSED ((void)j, (void)self, (void)a, (void)call)

static bool string_methods_given(struct jinja_value value) {
    return value.kind != JINJA_UNSET && value.kind != JINJA_NONE;
}

/* Returns an argument that must be a string; after a failure, the empty string. */
static const struct jinja_string *text_of(struct jinja *j, struct jinja_value value) {
    if (value.kind != JINJA_STRING) {
        jinja_fail(j, "a string method got a %s; it must be a string", jinja_type(value));
        return jinja_str(j, jinja_undefined(NULL));
    }
    return value.string;
}

/* Escapes text that a method inserts into a string marked safe, unless the text is safe, too. */
static const struct jinja_string *escaped_for(struct jinja *j, struct jinja_value self,
                                              const struct jinja_string *text) {
    struct jinja_text out = {0};
    if (!self.string->safe || text->safe) {
        return text;
    }
    jinja_put_escaped(j, &out, text);
    const struct jinja_value made = jinja_taken(j, &out);
    return made.kind == JINJA_STRING ? made.string : text;
}

static int64_t whole_or(struct jinja *j, struct jinja_value value, int64_t standard) {
    if (value.kind == JINJA_UNSET) {
        return standard;
    }
    if (!jinja_is_whole(value)) {
        jinja_fail(j, "a string method got a %s; it must be an int", jinja_type(value));
        return standard;
    }
    return jinja_whole(value);
}

static struct jinja_value part_of(struct jinja *j, const struct jinja_string *text, size_t begin, size_t end) {
    return jinja_part(j, text, begin, end - begin);
}

/* ---- strip, case ---- */

static struct jinja_value strip(struct jinja *j, struct jinja_value self, struct jinja_value chars,
                                enum jinja_sides sides) {
    return jinja_strip(j, self.string, string_methods_given(chars) ? text_of(j, chars) : NULL, sides);
}
METHOD(do_strip) {
    UNUSED;
    return strip(j, self, a[0], JINJA_BOTH);
}
METHOD(do_lstrip) {
    UNUSED;
    return strip(j, self, a[0], JINJA_LEFT);
}
METHOD(do_rstrip) {
    UNUSED;
    return strip(j, self, a[0], JINJA_RIGHT);
}
METHOD(do_lower) {
    UNUSED;
    return jinja_in_case(j, self.string, JINJA_LOWER);
}
METHOD(do_upper) {
    UNUSED;
    return jinja_in_case(j, self.string, JINJA_UPPER);
}
METHOD(do_capitalize) {
    UNUSED;
    return jinja_capitalized(j, self.string);
}
METHOD(do_casefold) {
    UNUSED;
    return jinja_in_case(j, self.string, JINJA_FOLD);
}
METHOD(do_title) {
    UNUSED;
    struct jinja_text out = {0};
    bool within = false, letter = false;
    for (size_t at = 0; at < self.string->bytes && j->status == KVC_OK;) {
        uint32_t code;
        jinja_next(self.string->data + at, self.string->bytes - at, &code);
        jinja_put_case(j, &out, self.string, &at, within ? JINJA_LOWER : JINJA_TITLE, &letter);
        within = jinja_case(code) != 0;
    }
    return jinja_taken(j, &out);
}

/* ---- finding ---- */

/* Converts start and end, in characters, to a range of bytes. Returns false if the range begins after its end, so that
 * not even the empty string is found in it. */
static bool range_of(struct jinja *j, const struct jinja_string *text, struct jinja_value start, struct jinja_value end,
                     size_t *from, size_t *to) {
    *from = 0;
    *to = text->bytes;
    if (!string_methods_given(start) && !string_methods_given(end)) {
        return j->status == KVC_OK;
    }
    const int64_t n = (int64_t)jinja_characters(text);
    int64_t first = string_methods_given(start) ? whole_or(j, start, 0) : 0,
            last = string_methods_given(end) ? whole_or(j, end, n) : n;
    jinja_step(j, text->bytes / 4);
    first = first < 0 ? (first + n < 0 ? 0 : first + n) : first;
    last = last < 0 ? (last + n < 0 ? 0 : last + n) : last > n ? n : last;
    *from = jinja_offset(text, (size_t)first);
    *to = jinja_offset(text, (size_t)last);
    return first <= last && j->status == KVC_OK;
}

/* Returns the byte offset of the first or last occurrence of a part in the range. Returns SIZE_MAX if it is not found.
 */
static size_t search(struct jinja *j, const struct jinja_string *text, const struct jinja_value *a, bool last) {
    const struct jinja_string *part = text_of(j, a[0]);
    size_t from, to, found = SIZE_MAX;
    if (!range_of(j, text, a[1], a[2], &from, &to)) {
        return SIZE_MAX;
    }
    jinja_step(j, (to - from) / 16);
    found = jinja_search(text->data, to, from, part->data, part->bytes);
    while (last && found != SIZE_MAX && jinja_step(j, 1)) {
        const size_t next = jinja_search(text->data, to, found + 1, part->data, part->bytes);
        if (next == SIZE_MAX) {
            break;
        }
        found = next;
    }
    return found;
}

static struct jinja_value string_methods_place(const struct jinja_string *text, size_t found) {
    const struct jinja_string before = jinja_cut(text, 0, found == SIZE_MAX ? 0 : found);
    return jinja_int(found == SIZE_MAX ? -1 : (int64_t)jinja_characters(&before));
}
METHOD(do_find) {
    UNUSED;
    return string_methods_place(self.string, search(j, self.string, a, false));
}
METHOD(do_rfind) {
    UNUSED;
    return string_methods_place(self.string, search(j, self.string, a, true));
}
METHOD(do_index) {
    UNUSED;
    const size_t found = search(j, self.string, a, false);
    return found == SIZE_MAX ? JINJA_FAIL(j, "index: the text is not there") : string_methods_place(self.string, found);
}
METHOD(do_rindex) {
    UNUSED;
    const size_t found = search(j, self.string, a, true);
    return found == SIZE_MAX ? JINJA_FAIL(j, "rindex: the text is not there")
                             : string_methods_place(self.string, found);
}

METHOD(do_count) {
    UNUSED;
    const struct jinja_string *part = text_of(j, a[0]);
    size_t at, to;
    int64_t count = 0;
    if (!range_of(j, self.string, a[1], a[2], &at, &to)) {
        return jinja_int(0);
    }
    if (!part->bytes) {
        const struct jinja_string range = jinja_cut(self.string, at, to - at);
        return jinja_int((int64_t)jinja_characters(&range) + 1);
    }
    jinja_step(j, (to - at) / 16);
    while ((at = jinja_search(self.string->data, to, at, part->data, part->bytes)) != SIZE_MAX && jinja_step(j, 1)) {
        count++;
        at += part->bytes;
    }
    return jinja_int(count);
}

/* Returns true if the text begins (or ends) with the argument, or with one of a tuple of arguments. */
static struct jinja_value has_end(struct jinja *j, const struct jinja_string *text, const struct jinja_value *a,
                                  bool last) {
    size_t from, to;
    const bool several = a[0].kind == JINJA_LIST && a[0].list->flavor == JINJA_TUPLE;
    if (!range_of(j, text, a[1], a[2], &from, &to)) {
        return jinja_bool(false);
    }
    for (size_t i = 0; i < (several ? a[0].list->count : 1); i++) {
        const struct jinja_string *part = text_of(j, several ? a[0].list->items[i] : a[0]);
        if (j->status == KVC_OK && part->bytes <= to - from &&
            !memcmp(text->data + (last ? to - part->bytes : from), part->data, part->bytes)) {
            return jinja_bool(true);
        }
    }
    return jinja_bool(false);
}
METHOD(do_startswith) {
    UNUSED;
    return has_end(j, self.string, a, false);
}
METHOD(do_endswith) {
    UNUSED;
    return has_end(j, self.string, a, true);
}
METHOD(do_removeprefix) {
    UNUSED;
    const struct jinja_string *part = text_of(j, a[0]), *text = self.string;
    const bool there = part->bytes <= text->bytes && !memcmp(text->data, part->data, part->bytes);
    return part_of(j, text, there ? part->bytes : 0, text->bytes);
}
METHOD(do_removesuffix) {
    UNUSED;
    const struct jinja_string *part = text_of(j, a[0]), *text = self.string;
    const bool there =
        part->bytes <= text->bytes && !memcmp(text->data + text->bytes - part->bytes, part->data, part->bytes);
    return part_of(j, text, 0, text->bytes - (there ? part->bytes : 0));
}
METHOD(do_replace) {
    UNUSED;
    const struct jinja_string *new = escaped_for(j, self, text_of(j, a[1]));
    return jinja_replace(j, self.string, text_of(j, a[0]), new, whole_or(j, a[2], -1));
}

/* ---- cutting and joining ---- */

/* Splits at every run of whitespace. */
static struct jinja_value split_blanks(struct jinja *j, const struct jinja_string *text, int64_t most) {
    struct jinja_value list = jinja_list(j, JINJA_PLAIN);
    for (size_t at = 0; at < text->bytes && j->status == KVC_OK;) {
        uint32_t code;
        size_t bytes = jinja_next(text->data + at, text->bytes - at, &code), begin = at;
        at += bytes;
        if (code != KVC_NOT_UTF8 && jinja_space(code)) {
            continue;
        }
        if (most == 0) {
            jinja_add(j, list, part_of(j, text, begin, text->bytes));
            break;
        }
        while (at < text->bytes) {
            bytes = jinja_next(text->data + at, text->bytes - at, &code);
            if (code != KVC_NOT_UTF8 && jinja_space(code)) {
                break;
            }
            at += bytes;
        }
        jinja_add(j, list, part_of(j, text, begin, at));
        most -= most > 0;
    }
    jinja_step(j, text->bytes / 4);
    return list;
}

METHOD(do_split) {
    UNUSED;
    const struct jinja_string *text = self.string, *by = string_methods_given(a[0]) ? text_of(j, a[0]) : NULL;
    int64_t most = whole_or(j, a[1], -1);
    if (!by) {
        return split_blanks(j, text, most);
    }
    if (!by->bytes) {
        return JINJA_FAIL(j, "split: the text to split at is empty");
    }
    struct jinja_value list = jinja_list(j, JINJA_PLAIN);
    size_t at = 0, found;
    while (most != 0 && j->status == KVC_OK &&
           (found = jinja_search(text->data, text->bytes, at, by->data, by->bytes)) != SIZE_MAX) {
        jinja_add(j, list, part_of(j, text, at, found));
        at = found + by->bytes;
        most -= most > 0;
    }
    jinja_add(j, list, part_of(j, text, at, text->bytes));
    jinja_step(j, text->bytes / 4);
    return list;
}

/* Splits at the last `most` runs of whitespace and leaves the words in front of these in one piece. */
static struct jinja_value rsplit_blanks(struct jinja *j, const struct jinja_string *text, int64_t most) {
    struct jinja_value words = split_blanks(j, text, -1), list = jinja_list(j, JINJA_PLAIN);
    if (j->status != KVC_OK || (int64_t)words.list->count <= most) {
        return words;
    }
    const size_t together = words.list->count - (size_t)most;
    const struct jinja_string *last = words.list->items[together ? together - 1 : 0].string;
    jinja_add(j, list, part_of(j, text, 0, (size_t)(last->data - text->data) + last->bytes));
    for (size_t i = together; i < words.list->count && j->status == KVC_OK; i++) {
        jinja_add(j, list, words.list->items[i]);
    }
    return list;
}

/* Splits at the last `most` separators. Collects the pieces from the end, then reverses them. */
METHOD(do_rsplit) {
    int64_t most = whole_or(j, a[1], -1);
    if (most < 0 || j->status != KVC_OK) {
        return do_split(j, self, a, call);
    }
    const struct jinja_string *text = self.string, *by = string_methods_given(a[0]) ? text_of(j, a[0]) : NULL;
    struct jinja_value list = jinja_list(j, JINJA_PLAIN), reversed = jinja_list(j, JINJA_PLAIN);
    if (!by) {
        return rsplit_blanks(j, text, most);
    }
    if (!by->bytes) {
        return JINJA_FAIL(j, "rsplit: the text to split at is empty");
    }
    size_t end = text->bytes;
    for (size_t at = end; most > 0 && at >= by->bytes && jinja_step(j, 1);) {
        if (!memcmp(text->data + at - by->bytes, by->data, by->bytes)) {
            jinja_add(j, list, part_of(j, text, at, end));
            end = at = at - by->bytes;
            most--;
        } else {
            at--;
        }
    }
    jinja_add(j, list, part_of(j, text, 0, end));
    for (size_t i = j->status == KVC_OK ? list.list->count : 0; i > 0; i--) {
        jinja_add(j, reversed, list.list->items[i - 1]);
    }
    return reversed;
}

METHOD(do_splitlines) {
    UNUSED;
    return jinja_lines(j, self.string, jinja_true(j, a[0]));
}

static struct jinja_value partition(struct jinja *j, struct jinja_value self, const struct jinja_value *a, bool last) {
    const struct jinja_value all[3] = {a[0], {0}, {0}};
    const struct jinja_string *text = self.string, *by = text_of(j, a[0]);
    const size_t found = search(j, text, all, last);
    struct jinja_value list = jinja_list(j, JINJA_TUPLE);
    if (j->status == KVC_OK && !by->bytes) {
        return JINJA_FAIL(j, "partition: the text to split at is empty");
    }
    if (found != SIZE_MAX) {
        jinja_add(j, list, part_of(j, text, 0, found));
        jinja_add(j, list, part_of(j, text, found, found + by->bytes));
        jinja_add(j, list, part_of(j, text, found + by->bytes, text->bytes));
    } else {
        for (int i = 0; i < 3; i++) {
            jinja_add(j, list, i == (last ? 2 : 0) ? self : jinja_literal(j, "", 0));
        }
    }
    return list;
}
METHOD(do_partition) {
    UNUSED;
    return partition(j, self, a, false);
}
METHOD(do_rpartition) {
    UNUSED;
    return partition(j, self, a, true);
}

METHOD(do_join) {
    UNUSED;
    size_t i;
    const struct jinja_list *list = jinja_items(j, a[0], &i);
    struct jinja_text out = {0};
    for (bool first = true; i < list->count && j->status == KVC_OK; i++, first = false) {
        if (!first) {
            jinja_put_all(j, &out, self.string);
        }
        const struct jinja_value item = list->items[i];
        jinja_put_all(j, &out, self.string->safe ? escaped_for(j, self, jinja_str(j, item)) : text_of(j, item));
    }
    return jinja_taken(j, &out);
}

METHOD(do_format) {
    UNUSED;
    return jinja_format(j, self.string, call);
}

/* ---- padding ---- */

static struct jinja_value string_methods_fill(struct jinja *j, struct jinja_value self, const struct jinja_value *a,
                                              int side) {
    const struct jinja_string *text = self.string;
    const int64_t width = whole_or(j, a[0], 0), length = (int64_t)jinja_characters(text);
    static const struct jinja_string blank = {" ", 1, NULL, NULL, false};
    const struct jinja_string *with = string_methods_given(a[1]) ? escaped_for(j, self, text_of(j, a[1])) : &blank;
    const int64_t blanks = width > length ? width - length : 0;
    const int64_t left = side < 0 ? 0 : side > 0 ? blanks : blanks / 2 + (blanks & width & 1);
    struct jinja_text out = {0};
    if (jinja_characters(with) != 1) {
        return JINJA_FAIL(j, "the fill text must be one character");
    }
    for (int64_t i = 0; i <= blanks && j->status == KVC_OK; i++) {
        if (i == left) {
            jinja_put_all(j, &out, text);
        }
        if (i < blanks) {
            jinja_put_all(j, &out, with);
        }
    }
    return jinja_taken(j, &out);
}
METHOD(do_ljust) {
    UNUSED;
    return string_methods_fill(j, self, a, -1);
}
METHOD(do_rjust) {
    UNUSED;
    return string_methods_fill(j, self, a, 1);
}
METHOD(do_center) {
    UNUSED;
    return string_methods_fill(j, self, a, 0);
}
METHOD(do_zfill) {
    UNUSED;
    const struct jinja_string *text = self.string;
    const bool sign = text->bytes && (text->data[0] == '-' || text->data[0] == '+');
    const int64_t width = whole_or(j, a[0], 0), length = (int64_t)jinja_characters(text);
    struct jinja_text out = {0};
    jinja_put(j, &out, text, 0, sign);
    for (int64_t i = length; i < width && j->status == KVC_OK; i++) {
        jinja_puts(j, &out, "0");
    }
    jinja_put(j, &out, text, sign, text->bytes - sign);
    return jinja_taken(j, &out);
}

const struct jinja_builtin jinja_string_methods[] = {
    {"capitalize", "", 0, do_capitalize},
    {"casefold", "", 0, do_casefold},
    {"center", "width fillchar", 1, do_center},
    {"count", "sub start end", 1, do_count},
    {"encode", "", 0, NULL},
    {"endswith", "suffix start end", 1, do_endswith},
    {"expandtabs", "", 0, NULL},
    {"find", "sub start end", 1, do_find},
    {"format", "*", 0, do_format},
    {"format_map", "mapping", 1, NULL},
    {"index", "sub start end", 1, do_index},
    {"join", "iterable", 1, do_join},
    {"ljust", "width fillchar", 1, do_ljust},
    {"lower", "", 0, do_lower},
    {"lstrip", "chars", 0, do_lstrip},
    {"maketrans", "", 0, NULL},
    {"partition", "sep", 1, do_partition},
    {"removeprefix", "prefix", 1, do_removeprefix},
    {"removesuffix", "suffix", 1, do_removesuffix},
    {"replace", "old new count", 2, do_replace},
    {"rfind", "sub start end", 1, do_rfind},
    {"rindex", "sub start end", 1, do_rindex},
    {"rjust", "width fillchar", 1, do_rjust},
    {"rpartition", "sep", 1, do_rpartition},
    {"rsplit", "sep maxsplit", 0, do_rsplit},
    {"rstrip", "chars", 0, do_rstrip},
    {"split", "sep maxsplit", 0, do_split},
    {"splitlines", "keepends", 0, do_splitlines},
    {"startswith", "prefix start end", 1, do_startswith},
    {"strip", "chars", 0, do_strip},
    {"swapcase", "", 0, NULL},
    {"title", "", 0, do_title},
    {"translate", "", 0, NULL},
    {"upper", "", 0, do_upper},
    {"zfill", "width", 1, do_zfill},
    {NULL, NULL, 0, NULL},
};

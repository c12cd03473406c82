/* gbnf_read.c - reads the rules of grammars in llama.cpp's format. */
#include "models/grammar/gbnf_read.h"

#include <ctype.h>
#include <string.h>

#define DEPTH_MOST 100u   /* maximum nesting of parentheses */
#define REPEATS_MOST 8u   /* maximum number of repeats after one item; x*+? has three */
#define COUNT_MOST 65535u /* maximum count of a repeat; PCRE2's limit */
#define SHOWN_MOST 40     /* bytes of a rule's name in a message */
#define SHOWN(rule) (int)((rule)->length < SHOWN_MOST ? (rule)->length : SHOWN_MOST), (rule)->name

static bool read_choice(struct gbnf_reader *reader, bool nested, uint32_t *made);

bool kvc_gbnf_no_room(struct gbnf_reader *reader) {
    if (reader->gbnf->full)
        return kvc_gbnf_fail(reader, reader->line, "the grammar is too large");
    reader->status = kvc_fail(reader->error, KVC_RESOURCE, "grammar: no memory");
    return false;
}

static bool is_name(int c) { return c > 0 && c < 0x80 && (isalnum(c) || c == '-' || c == '_'); }

static bool add(struct gbnf_reader *reader, const struct gbnf_node *node, uint32_t *made) {
    *made = kvc_gbnf_node(reader->gbnf, node);
    return *made != GBNF_NONE || kvc_gbnf_no_room(reader);
}

/* Reads a name and finds or adds its rule. */
static bool read_name(struct gbnf_reader *reader, uint32_t *rule) {
    const size_t from = reader->at;
    while (is_name(gbnf_peek(reader)))
        reader->at++;
    *rule = kvc_gbnf_rule(reader->gbnf, reader->text + from, reader->at - from);
    return *rule != GBNF_NONE || kvc_gbnf_no_room(reader);
}

static bool read_number(struct gbnf_reader *reader, uint32_t *number) {
    char found[GBNF_FOUND_BYTES];
    if (gbnf_peek(reader) < '0' || gbnf_peek(reader) > '9')
        return kvc_gbnf_fail(reader, reader->line, "a repeat is {N}, {N,} or {N,M}; found %s",
                             kvc_gbnf_found(reader, found));
    *number = 0;
    for (; gbnf_peek(reader) >= '0' && gbnf_peek(reader) <= '9'; reader->at++) {
        *number = *number * 10 + (uint32_t)(gbnf_peek(reader) - '0');
        if (*number > COUNT_MOST)
            return kvc_gbnf_fail(reader, reader->line, "a repeat count is at most %u", COUNT_MOST);
    }
    kvc_gbnf_space(reader, false);
    return true;
}

/* Reads {n}, {n,} or {n,m} after its brace. */
static bool read_counts(struct gbnf_reader *reader, struct gbnf_node *node) {
    char found[GBNF_FOUND_BYTES];
    kvc_gbnf_space(reader, false);
    if (!read_number(reader, &node->minimum))
        return false;
    node->limit = node->minimum;
    if (gbnf_peek(reader) == ',') {
        reader->at++;
        kvc_gbnf_space(reader, false);
        node->limit = GBNF_NONE;
        if (gbnf_peek(reader) != '}' && !read_number(reader, &node->limit))
            return false;
    }
    if (gbnf_peek(reader) != '}')
        return kvc_gbnf_fail(reader, reader->line, "a repeat is {N}, {N,} or {N,M}; found %s",
                             kvc_gbnf_found(reader, found));
    if (node->limit < node->minimum)
        return kvc_gbnf_fail(reader, reader->line, "the repeat {%u,%u} is in the wrong order", node->minimum,
                             node->limit);
    reader->at++;
    return true;
}

/* Reads the repeats after an item and wraps the item in them. */
static bool read_repeats(struct gbnf_reader *reader, bool nested, uint32_t *item) {
    for (unsigned repeats = 0;; repeats++) {
        struct gbnf_node node = {.kind = GBNF_REPEAT, .first = *item, .next = GBNF_NONE, .limit = GBNF_NONE};
        kvc_gbnf_space(reader, nested);
        const int c = gbnf_peek(reader);
        if (c != '*' && c != '+' && c != '?' && c != '{')
            return true;
        if (repeats == REPEATS_MOST)
            return kvc_gbnf_fail(reader, reader->line, "an item has more than %u repeats", REPEATS_MOST);
        reader->at++;
        node.minimum = c == '+';
        node.limit = c == '?' ? 1 : GBNF_NONE;
        if (c == '{' && !read_counts(reader, &node))
            return false;
        if (!add(reader, &node, item))
            return false;
    }
}

static bool read_group(struct gbnf_reader *reader, uint32_t *made) {
    const uint32_t begun = reader->line;
    char found[GBNF_FOUND_BYTES];
    if (reader->depth == DEPTH_MOST)
        return kvc_gbnf_fail(reader, begun, "more than %u parentheses are nested", DEPTH_MOST);
    reader->at++;
    reader->depth++;
    kvc_gbnf_space(reader, true);
    if (!read_choice(reader, true, made))
        return false;
    if (gbnf_peek(reader) != ')')
        return kvc_gbnf_fail(reader, begun, "the ( is not closed: line %u has %s", reader->line,
                             kvc_gbnf_found(reader, found));
    reader->at++;
    reader->depth--;
    return true;
}

static bool read_call(struct gbnf_reader *reader, struct gbnf_node *node) {
    *node = (struct gbnf_node){.kind = GBNF_CALL};
    if (!read_name(reader, &node->rule))
        return false;
    struct gbnf_rule *rule = &reader->gbnf->rules[node->rule];
    if (rule->calls++ == 0)
        rule->called = reader->line;
    return true;
}

/* Reads one item without its repeats. *made is GBNF_NONE if no item begins here. */
static bool read_item(struct gbnf_reader *reader, uint32_t *made) {
    struct gbnf_node node = {.kind = GBNF_CLASS, .negated = true};
    const int c = gbnf_peek(reader);
    bool read = true;
    *made = GBNF_NONE;
    if (c == '(')
        return read_group(reader, made);
    if (c == '<' || c == '!')
        return kvc_gbnf_fail(reader, reader->line, "references to tokens, such as <[123]>, are not supported");
    if (c == '"')
        read = kvc_gbnf_literal(reader, &node);
    else if (c == '[')
        read = kvc_gbnf_class(reader, &node);
    else if (is_name(c))
        read = read_call(reader, &node);
    else if (c == '.') /* a negated class without ranges: any character */
        reader->at++;
    else if (c == '*' || c == '+' || c == '?' || c == '{')
        return kvc_gbnf_fail(reader, reader->line, "there is nothing before %c to repeat", c);
    else
        return true;
    node.first = node.next = GBNF_NONE;
    return read && add(reader, &node, made);
}

/* Appends a node to the children of `parent`, of which *last is the last. */
static void append(struct gbnf *gbnf, struct gbnf_node *parent, uint32_t *last, uint32_t child) {
    if (parent->first == GBNF_NONE)
        parent->first = child;
    else
        gbnf->nodes[*last].next = child;
    *last = child;
    parent->count++;
}

/* Adds a parent, unless its only child can replace it. */
static bool close(struct gbnf_reader *reader, struct gbnf_node *parent, uint32_t *made) {
    *made = parent->first;
    if (parent->count == 1)
        return true;
    parent->count = 0;
    return add(reader, parent, made);
}

static bool read_sequence(struct gbnf_reader *reader, bool nested, uint32_t *made) {
    struct gbnf_node sequence = {.kind = GBNF_SEQUENCE, .first = GBNF_NONE, .next = GBNF_NONE};
    uint32_t last = GBNF_NONE, item;
    for (;;) {
        if (!read_item(reader, &item))
            return false;
        if (item == GBNF_NONE)
            return close(reader, &sequence, made);
        if (!read_repeats(reader, nested, &item))
            return false;
        append(reader->gbnf, &sequence, &last, item);
    }
}

static bool read_choice(struct gbnf_reader *reader, bool nested, uint32_t *made) {
    struct gbnf_node choice = {.kind = GBNF_CHOICE, .first = GBNF_NONE, .next = GBNF_NONE};
    uint32_t last = GBNF_NONE, sequence;
    for (;;) {
        if (!read_sequence(reader, nested, &sequence))
            return false;
        append(reader->gbnf, &choice, &last, sequence);
        if (gbnf_peek(reader) != '|')
            return close(reader, &choice, made);
        reader->at++;
        kvc_gbnf_space(reader, true);
    }
}

static bool read_rule(struct gbnf_reader *reader) {
    const uint32_t line = reader->line;
    char found[GBNF_FOUND_BYTES];
    uint32_t index, body;
    if (!is_name(gbnf_peek(reader)))
        return kvc_gbnf_fail(reader, line,
                             "a rule must begin here, with its name and ::=, but there is %s; "
                             "a rule goes on in the next line within parentheses or after |",
                             kvc_gbnf_found(reader, found));
    if (!read_name(reader, &index))
        return false;
    kvc_gbnf_space(reader, false);
    const struct gbnf_rule *rule = &reader->gbnf->rules[index];
    if (reader->bytes - reader->at < 3 || memcmp(reader->text + reader->at, "::=", 3) != 0)
        return kvc_gbnf_fail(reader, line, "after the name %.*s there must be ::=, but there is %s", SHOWN(rule),
                             kvc_gbnf_found(reader, found));
    if (rule->line > 0)
        return kvc_gbnf_fail(reader, line, "the rule %.*s is defined twice, first in line %u", SHOWN(rule), rule->line);
    reader->gbnf->rules[index].line = line;
    reader->at += 3;
    kvc_gbnf_space(reader, true);
    if (!read_choice(reader, false, &body))
        return false;
    reader->gbnf->rules[index].body = body;
    if (gbnf_peek(reader) == ')')
        return kvc_gbnf_fail(reader, reader->line, "the ) closes nothing");
    if (gbnf_peek(reader) == ':')
        return kvc_gbnf_fail(reader, line,
                             "line %u begins a rule before this one has a body; for an empty text write \"\"",
                             reader->line);
    if (gbnf_peek(reader) != -1 && gbnf_peek(reader) != '\n' && gbnf_peek(reader) != '\r')
        return kvc_gbnf_fail(reader, reader->line, "unknown: %s", kvc_gbnf_found(reader, found));
    return true;
}

enum kvc_status kvc_gbnf_read(const char *text, size_t bytes, struct gbnf *gbnf, struct kvc_error *error) {
    struct gbnf_reader reader = {.text = text, .bytes = bytes, .line = 1, .gbnf = gbnf, .error = error};
    for (;;) {
        kvc_gbnf_space(&reader, true);
        if (gbnf_peek(&reader) == -1)
            return KVC_OK;
        if (!read_rule(&reader))
            return reader.status;
    }
}

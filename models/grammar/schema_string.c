/* schema_string.c - strings of a schema: lengths, formats, and patterns of JSON schema. */
#include "models/grammar/schema.h"

#include <stdio.h>
#include <string.h>

#define LENGTH_MOST 262143u /* maximum length; `exactly` writes a length as three digits in base 64 */

/* Appends `n` characters. */
static void exactly(uint64_t n, struct kvc_regex *out) {
    if (n >= 4096)
        kvc_regex_print(out, "(?&k){%u}", (unsigned)(n / 4096));
    if (n / 64 % 64)
        kvc_regex_print(out, "(?&d){%u}", (unsigned)(n / 64 % 64));
    if (n % 64)
        kvc_regex_print(out, "(?&c){%u}", (unsigned)(n % 64));
}

/* Appends up to n characters. A quote follows, so each repeat may take all that it can (possessive, `+`). */
static void at_most(uint64_t n, struct kvc_regex *out) {
    const unsigned k = (unsigned)(n / 4096), d = (unsigned)(n / 64 % 64), c = (unsigned)(n % 64);
    kvc_regex_put(out, "(?:");
    if (k > 0)
        kvc_regex_print(out, "(?&k){0,%u}+(?&d){0,63}+(?&c){0,63}+|(?&k){%u}", k - 1, k);
    if (d > 0)
        kvc_regex_print(out, "(?:(?&d){0,%u}+(?&c){0,63}+|(?&d){%u}(?&c){0,%u}+)", d - 1, d, c);
    else
        kvc_regex_print(out, "(?&c){0,%u}+", c);
    kvc_regex_put(out, ")");
}

static const char *format_of(const char *name) {
#define DATE                                                                                                           \
    "[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|"                 \
    "02-(?:0[1-9]|1[0-9]|2[0-8]))"
#define TIME "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,6})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
#define OCTET "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
#define LABEL "[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?"
    static const char *const formats[][2] = {
        {"date", DATE},
        {"time", TIME},
        {"date-time", DATE "T" TIME},
        {"uuid", "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"},
        {"ipv4", OCTET "\\." OCTET "\\." OCTET "\\." OCTET},
        {"email", "[A-Za-z0-9_+-]{1,32}(?:\\.[A-Za-z0-9_+-]{1,32}){0,4}@" LABEL "(?:\\." LABEL "){1,4}"}};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(name, formats[i][0]) == 0)
            return formats[i][1];
    return NULL; /* other formats restrict nothing, as the JSON schema standard says */
}

bool schema_string(struct schema *schema, const json_t *node, const struct schema_place *at, struct kvc_regex *out) {
    const json_t *pattern = json_object_get(node, "pattern"), *format = json_object_get(node, "format");
    const struct schema_place here = {at, pattern ? "pattern" : "format", 0};
    uint64_t least = 0, most = UINT64_MAX;
    if (!schema_count(schema, node, at, "minLength", LENGTH_MOST, &least) ||
        !schema_count(schema, node, at, "maxLength", LENGTH_MOST, &most))
        return false;
    if ((pattern && !json_is_string(pattern)) || (format && !json_is_string(format)))
        return schema_refuse(schema, &here, "must be a string");
    const char *known = format ? format_of(json_string_value(format)) : NULL;
    const bool lengths = least > 0 || most != UINT64_MAX;
    if ((pattern && (lengths || known)) || (known && lengths))
        return schema_refuse(schema, &here, "beside %s is not supported",
                             lengths ? "minLength or maxLength" : "format");
    if (least > most)
        return schema_refuse(schema, at, "minLength is above maxLength");
    if (!pattern && !known && !lengths) {
        kvc_regex_put(out, "(?&s)");
        return true;
    }
    kvc_regex_put(out, "\"");
    if (pattern && !schema_text(schema, json_string_value(pattern), json_string_length(pattern), &here, out))
        return false;
    if (known)
        kvc_regex_put(out, known);
    if (lengths) {
        exactly(least, out);
        if (most == UINT64_MAX)
            kvc_regex_put(out, "(?&c)*+");
        else
            at_most(most - least, out);
    }
    kvc_regex_put(out, "\"");
    return true;
}

/* schema.h - the translation of a JSON schema into a pattern: one named group for each schema within it. */
#ifndef KVC_MODELS_GRAMMAR_SCHEMA_H
#define KVC_MODELS_GRAMMAR_SCHEMA_H

#include <jansson.h>

#include "models/grammar/grammar.h"

/* A place in the schema, for messages: a member of `up`, or an element if `key` is NULL. */
struct schema_place {
    const struct schema_place *up; /* NULL: the root */
    const char *key;
    size_t index;
};

struct schema_known {
    const json_t *node;
    unsigned group;
    unsigned value; /* number of the value that `node` describes, while its group is being defined; 0 afterwards */
};

struct schema {
    const json_t *root;
    struct kvc_regex groups; /* the definitions of all finished groups */
    struct schema_known *known;
    size_t known_count, known_capacity;
    unsigned last_group;
    unsigned depth;
    size_t steps;           /* steps of schema_disjoint so far */
    unsigned value, values; /* number of the value that is being described, and of the last one */
    enum kvc_status status; /* status of the first failure */
    struct kvc_error *error;
};

/* Records that the schema is refused: "schema: #/place: MESSAGE". Returns false. */
__attribute__((format(printf, 3, 4))) bool schema_refuse(struct schema *schema, const struct schema_place *at,
                                                         const char *format, ...);
/* Appends a call of the group for a schema, `(?&g1)`, and defines the group if it is new. Returns false if the schema
 * is refused or memory runs out. */
bool schema_call(struct schema *schema, const json_t *node, const struct schema_place *at, struct kvc_regex *out);
/* Appends the definitions of all groups. The caller appends the closing parenthesis. */
void schema_define(const struct schema *schema, struct kvc_regex *out);
void schema_close(struct schema *schema); /* frees its memory */
/* Reads an optional member that must be a whole number from 0 to `most`. *number is unchanged if it is absent. */
bool schema_count(struct schema *schema, const json_t *node, const struct schema_place *at, const char *name,
                  uint64_t most, uint64_t *number);
/* Returns the schema that a $ref stands for, or NULL after a refusal. */
const json_t *schema_target(struct schema *schema, const char *reference, const struct schema_place *at);
/* Appends the JSON text of a value. */
bool schema_literal(struct schema *schema, const json_t *value, struct kvc_regex *out);

/* Each appends the values of one type that satisfy the schema's keywords for the type. */
bool schema_object(struct schema *schema, const json_t *node, const struct schema_place *at, struct kvc_regex *out);
bool schema_array(struct schema *schema, const json_t *node, const struct schema_place *at, struct kvc_regex *out);
bool schema_string(struct schema *schema, const json_t *node, const struct schema_place *at, struct kvc_regex *out);
bool schema_number(struct schema *schema, const json_t *node, const struct schema_place *at, bool whole,
                   struct kvc_regex *out);
/* Appends the strings that match a pattern of JSON schema, without their quotes. */
bool schema_text(struct schema *schema, const char *pattern, size_t bytes, const struct schema_place *at,
                 struct kvc_regex *out);
/* Returns true if types or constants show that no value satisfies both schemas. Compares the schemas themselves, and
 * the constants of members that both require. */
bool schema_disjoint(struct schema *schema, const json_t *a, const json_t *b, const struct schema_place *at);
/* Returns the types that a schema allows, as bits 1 << enum schema_type. */
enum schema_type {
    SCHEMA_NULL,
    SCHEMA_BOOLEAN,
    SCHEMA_INTEGER,
    SCHEMA_NUMBER,
    SCHEMA_STRING,
    SCHEMA_ARRAY,
    SCHEMA_OBJECT,
    SCHEMA_TYPES
};
bool schema_types(struct schema *schema, const json_t *node, const struct schema_place *at, unsigned *types);
bool schema_has_type(const json_t *value, unsigned types);

#endif

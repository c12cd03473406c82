/* json.h - parses JSON files that nobody vouches for: bounded depth, no duplicate keys, errors in one line. jansson. */
#ifndef KVC_MODELS_FILES_JSON_H
#define KVC_MODELS_FILES_JSON_H

#include <jansson.h>

#include "kvcull.h"

#define KVC_JSON_DEEPEST 64

/* Whether a text is an object or an array and what lies in it is JSON (see json_check.c for what is not looked at). */
bool kvc_json_well_formed(const char *text, size_t bytes);

/* KVC_RESOURCE where memory ran out, KVC_INPUT where the text is at fault. jansson's allocation functions belong to the
 * program and are left alone. *root is a new reference. path is for messages only. */
enum kvc_status kvc_json_parse(const char *path, const char *text, size_t bytes, json_t **root,
                               struct kvc_error *error);
enum kvc_status kvc_json_load(const char *path, json_t **root, struct kvc_error *error);

#endif

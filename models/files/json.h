/* json.h - parses untrusted JSON files: limited depth, no duplicate keys, one-line errors. Uses jansson. */
#ifndef KVC_MODELS_FILES_JSON_H
#define KVC_MODELS_FILES_JSON_H

#include <jansson.h>

#include "kvcull.h"

#define KVC_JSON_DEEPEST 64

/* Returns true if the text is an object or array of well-formed JSON. json_check.c lists what is not checked. */
bool kvc_json_well_formed(const char *text, size_t bytes);

/* Parse JSON. Return KVC_RESOURCE if out of memory, KVC_INPUT for bad text. jansson's allocation functions belong to
 * the program and are not changed. *root is a new reference. `path` is for messages only. */
enum kvc_status kvc_json_parse(const char *path, const char *text, size_t bytes, json_t **root,
                               struct kvc_error *error);
enum kvc_status kvc_json_load(const char *path, json_t **root, struct kvc_error *error);

#endif

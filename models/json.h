/* json.h - parses JSON files that nobody vouches for: bounded depth, no duplicate keys, errors in one line. jansson. */
#ifndef KVC_MODELS_JSON_H
#define KVC_MODELS_JSON_H

#include <jansson.h>

#include "kvcull.h"

/* *root is a new reference. path is for messages only. */
enum kvc_status kvc_json_parse(const char *path, const char *text, size_t bytes, json_t **root,
                               struct kvc_error *error);
enum kvc_status kvc_json_load(const char *path, json_t **root, struct kvc_error *error);

#endif

/* json.c - parses JSON files that nobody vouches for. */
#include "models/json.h"

#include <string.h>

#include "models/map.h"

enum { DEEPEST = 64 };

/* jansson descends recursively; its own limit depends on its version, so the depth is counted before. */
static bool too_deep(const char *text, size_t bytes) {
    unsigned depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < bytes; i++) {
        if (quoted) {
            if (text[i] == '\\') {
                i++;
            } else if (text[i] == '"') {
                quoted = false;
            }
        } else if (text[i] == '"') {
            quoted = true;
        } else if (text[i] == '{' || text[i] == '[') {
            if (++depth > DEEPEST) {
                return true;
            }
        } else if ((text[i] == '}' || text[i] == ']') && depth > 0) {
            depth--;
        }
    }
    return false;
}

enum kvc_status kvc_json_parse(const char *path, const char *text, size_t bytes, json_t **root,
                               struct kvc_error *error) {
    *root = NULL;
    if (too_deep(text, bytes)) {
        return kvc_fail(error, KVC_INPUT, "%s: the JSON is nested more than %d levels deep", path, DEEPEST);
    }
    json_error_t why;
    *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &why);
    if (!*root) {
#if JANSSON_VERSION_HEX >= 0x020b00
        if (json_error_code(&why) == json_error_out_of_memory) {
            return kvc_fail(error, KVC_RESOURCE, "%s: no memory for its JSON", path);
        }
#endif
        for (char *c = why.text; *c; c++) { /* it quotes the input */
            if ((unsigned char)*c < 0x20 || *c == 0x7f) {
                *c = ' ';
            }
        }
        return kvc_fail(error, KVC_INPUT, "%s: not valid JSON: line %d, column %d: %s", path, why.line, why.column,
                        why.text);
    }
    return KVC_OK;
}

enum kvc_status kvc_json_load(const char *path, json_t **root, struct kvc_error *error) {
    *root = NULL;
    struct kvc_map map;
    enum kvc_status status = kvc_map_open(path, &map, error);
    if (!status) {
        status = kvc_json_parse(path, (const char *)map.data, map.bytes, root, error);
        kvc_map_close(&map);
    }
    return status;
}

/* text_data.h - reads files of the test data as JSON or as text, for tests of tokenizers and templates. */
#ifndef KVC_TESTS_MODELS_TEXT_DATA_H
#define KVC_TESTS_MODELS_TEXT_DATA_H

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void data_path(char *path, size_t capacity, const char *name) {
    const char *top = getenv("top_srcdir");
    snprintf(path, capacity, "%s/tests/data/%s", top ? top : ".", name);
}

/* Returns the contents of a file with a NUL after them, or NULL if the file cannot be read. The caller frees them. */
static inline char *read_whole(const char *path, size_t *bytes) {
    FILE *file = fopen(path, "rb");
    char *text = file ? malloc((size_t)1 << 22) : NULL;
    if (text) {
        *bytes = fread(text, 1, ((size_t)1 << 22) - 1, file);
        text[*bytes] = 0;
    }
    if (file)
        fclose(file);
    return text;
}

static inline json_t *data_json(const char *name) {
    char path[1000];
    json_error_t reason;
    data_path(path, sizeof path, name);
    json_t *root = json_load_file(path, JSON_ALLOW_NUL, &reason);
    if (!root)
        fprintf(stderr, "%s: line %d: %s\n", path, reason.line, reason.text);
    return root;
}

#endif

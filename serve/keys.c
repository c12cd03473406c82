/* keys.c - reads API keys, one per line, and compares them in constant time. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "serve/serve.h"

static int keys_add(const struct cli_command *command, const char *path, size_t line, const char *text, size_t bytes,
                    struct serve_keys *keys) {
    if (bytes > sizeof keys->key[0] - 1)
        return cli_error(command, KVC_INPUT, "%s: line %zu: a key has at most %zu characters", path, line,
                         sizeof keys->key[0] - 1);
    for (size_t i = 0; i < bytes; i++)
        if (!isgraph((unsigned char)text[i]))
            return cli_error(command, KVC_INPUT,
                             "%s: line %zu: a key must consist of visible ASCII characters, without blanks", path,
                             line);
    void *grown = realloc(keys->key, (keys->count + 1) * sizeof *keys->key);
    if (!grown)
        return cli_no_memory(command);
    keys->key = grown;
    memset(keys->key[keys->count], 0, sizeof *keys->key);
    memcpy(keys->key[keys->count++], text, bytes);
    return KVC_OK;
}

int serve_keys_read(const struct cli_command *command, const char *path, struct serve_keys *keys) {
    char *text = NULL;
    size_t bytes = 0, line = 1;
    int status = cli_read_file(command, path, &text, &bytes);
    for (size_t from = 0; status == KVC_OK && from < bytes; line++) {
        const char *end = memchr(text + from, '\n', bytes - from);
        const size_t next = end ? (size_t)(end - text) + 1 : bytes;
        size_t length = (end ? next - 1 : bytes) - from;
        while (length > 0 && (text[from + length - 1] == '\r' || text[from + length - 1] == ' '))
            length--;
        if (length > 0 && text[from] != '#')
            status = keys_add(command, path, line, text + from, length, keys);
        from = next;
    }
    if (text)
        memset(text, 0, bytes);
    free(text);
    if (status == KVC_OK && keys->count == 0)
        status = cli_error(command, KVC_INPUT, "%s: no keys; the file must have one key per line", path);
    return status;
}

/* Compares all bytes of all keys, so that the time does not depend on what the client sent. */
bool serve_key_known(const struct serve_keys *keys, const char *authorization) {
    char given[sizeof keys->key[0]] = {0};
    const char *text = "";
    unsigned known = 0;
    if (authorization && strncasecmp(authorization, "Bearer ", 7) == 0)
        text = authorization + 7;
    const size_t length = strlen(text);
    const bool fits = length > 0 && length < sizeof given;
    memcpy(given, text, fits ? length : 0);
    for (size_t k = 0; k < keys->count; k++) {
        unsigned difference = 0;
        for (size_t i = 0; i < sizeof given; i++)
            difference |= (unsigned char)given[i] ^ (unsigned char)keys->key[k][i];
        known |= difference == 0;
    }
    return fits && known != 0;
}

void serve_keys_free(struct serve_keys *keys) {
    if (keys->key)
        memset(keys->key, 0, keys->count * sizeof *keys->key);
    free(keys->key);
    *keys = (struct serve_keys){NULL, 0};
}

/* json_value.c - prints one value of the JSON on standard input, for shell tests: json_value a.b.0.c */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    json_error_t error;
    json_t *root = json_loadf(stdin, JSON_DECODE_ANY, &error), *value = root;
    const char *at = argc > 1 ? argv[1] : "";

    if (!root) {
        fprintf(stderr, "not JSON: line %d: %s\n", error.line, error.text);
        return 1;
    }
    while (*at && value) {
        size_t n = strcspn(at, ".");
        char key[128] = "";

        if (n < sizeof key)
            memcpy(key, at, n);
        value = json_is_array(value) ? json_array_get(value, strtoul(key, NULL, 10)) : json_object_get(value, key);
        at += n + (at[n] == '.');
    }
    if (!value)
        printf("(none)\n");
    else if (json_is_string(value))
        printf("%s\n", json_string_value(value));
    else if (json_is_array(value))
        printf("[%zu]\n", json_array_size(value));
    else if (json_is_real(value))
        printf("%.9g\n", json_real_value(value));
    else
        json_dumpf(value, stdout, JSON_ENCODE_ANY), printf("\n");
    json_decref(root);
    return value ? 0 : 1;
}

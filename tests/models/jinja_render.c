/* jinja_render.c - renders templates for tools/compare_templates.py. Reads JSON lines, each an object with "template",
 * "variables" and "date" (null: none), and writes a line for each: {"text": ...} or {"status": 2 or 3, "error": ...}.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/jinja/jinja.h"

static json_t *render(const json_t *line) {
    const json_t *source = json_object_get(line, "template");
    const struct kvc_jinja_job job = {.where = "template",
                                      .source = json_string_value(source),
                                      .bytes = json_string_length(source),
                                      .variables = json_object_get(line, "variables"),
                                      .date = json_string_value(json_object_get(line, "date"))};
    struct kvc_error error = {0};
    struct kvc_rendered made;
    enum kvc_status status = kvc_jinja_render(&job, &made, &error);
    json_t *result = json_object();
    if (status == KVC_OK) {
        json_object_set_new(result, "text", json_string(made.text));
    } else {
        json_object_set_new(result, "status", json_integer(status));
        json_object_set_new(result, "error", json_string(error.text));
    }
    free(made.text);
    return result;
}

int main(void) {
    char *text = NULL;
    size_t capacity = 0;
    while (getline(&text, &capacity, stdin) >= 0) {
        json_error_t why;
        json_t *line = json_loads(text, JSON_ALLOW_NUL, &why);
        if (!line) {
            fprintf(stderr, "jinja_render: %s\n", why.text);
            return 1;
        }
        json_t *result = render(line);
        json_dumpf(result, stdout, JSON_COMPACT);
        putchar('\n');
        fflush(stdout);
        json_decref(result);
        json_decref(line);
    }
    free(text);
    return 0;
}

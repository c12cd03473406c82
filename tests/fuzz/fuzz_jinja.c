/* fuzz_jinja.c - input: a chat template up to the first NUL byte, then a JSON object of variables; without it, a
 * conversation with tools. */
#include "models/jinja/jinja.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static const char conversation[] =
    "{\"messages\":[{\"role\":\"system\",\"content\":\"Be kind.\"},{\"role\":\"user\",\"content\":\"Hi\"},"
    "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"1\",\"function\":{\"name\":\"f\","
    "\"arguments\":{\"a\":[1,2.5,true]}}}]},{\"role\":\"tool\",\"content\":\"x\"}],\"tools\":[{\"function\":"
    "{\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"array\"}}}}}],"
    "\"documents\":null,\"add_generation_prompt\":true,\"bos_token\":\"<s>\",\"eos_token\":\"</s>\"}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    const uint8_t *end = bytes ? memchr(data, 0, bytes) : NULL;
    const size_t source = end ? (size_t)(end - data) : bytes;
    struct kvc_error error = {0};
    struct kvc_rendered made;
    json_t *variables = end ? json_loadb((const char *)end + 1, bytes - source - 1, 0, NULL) : NULL;
    if (!json_is_object(variables)) {
        json_decref(variables);
        variables = json_loads(conversation, 0, NULL);
    }
    const struct kvc_jinja_job job = {.where = "template",
                                      .source = (const char *)data,
                                      .bytes = source,
                                      .variables = variables,
                                      .date = bytes % 2 ? "2025-06-30" : NULL};
    enum kvc_status status = kvc_jinja_render(&job, &made, &error);
    if (status == KVC_OK ? !made.text : made.text || !error.text[0] || strchr(error.text, '\n'))
        abort();
    free(made.text);
    json_decref(variables);
    return 0;
}

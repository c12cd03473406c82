/* methods.c - GET /kvcull, the data that the page at / needs: the model, the server's policy, and all methods with
 * their options. */
#include <string.h>

#include "cli/info/info.h"
#include "serve/http.h"

static void put_member(struct serve_text *text, const char *name, const char *value) {
    serve_text_print(text, ",\"%s\":", name);
    if (value)
        serve_text_string(text, value, strlen(value));
    else
        serve_text_put(text, "null");
}

/* Writes the rows of an option table. A required option has the default null. An optional option that has no default
 * value gets the default "". */
static void put_options(struct serve_text *text, const char *name, const struct kvc_option *options) {
    serve_text_print(text, ",\"%s\":[", name);
    for (const struct kvc_option *o = options; o && o->name; o++) {
        char takes[96];
        info_range(o, takes);
        serve_text_print(text, "%s{\"name\":\"%s\"", o == options ? "" : ",", o->name);
        put_member(text, "default", o->default_value);
        put_member(text, "takes", takes);
        put_member(text, "meaning", o->help ? o->help : "");
        serve_text_put(text, "}");
    }
    serve_text_put(text, "]");
}

static void put_method(struct serve_text *text, const struct kvc_policy_class *method) {
    char stages[64];
    info_stages(method->stages, stages);
    serve_text_print(text, "{\"name\":\"%s\"", method->name);
    put_member(text, "stage", stages);
    put_member(text, "summary", method->summary ? method->summary : "");
    put_options(text, "options", method->options);
    serve_text_put(text, "}");
}

enum MHD_Result serve_methods(struct serve_exchange *exchange) {
    const struct serve *serve = exchange->http->serve;
    const struct kvc_model_info *info = serve->info;
    const struct kvc_policy_class *method;
    struct serve_text text = {0};
    serve_text_print(&text, "{\"version\":\"%s\"", KVC_VERSION);
    put_member(&text, "model", serve->name);
    put_member(&text, "kv", serve->options->kv);
    serve_text_print(&text, ",\"context\":%llu,\"layers\":%u,\"heads\":%u,\"vocabulary\":%u",
                     (unsigned long long)serve->context, info->layers, info->kv_heads, info->vocab);
    put_options(&text, "common_options", kvc_common_options());
    serve_text_put(&text, ",\"methods\":[");
    for (size_t i = 0; (method = kvc_policy(serve->engine, i)); i++) {
        serve_text_put(&text, i ? "," : "");
        put_method(&text, method);
    }
    serve_text_put(&text, "]}");
    return serve_respond(exchange, MHD_HTTP_OK, "application/json", &text, NULL, NULL);
}

/* read_back.c - opens a converted model before it is renamed to its final name, so that `convert` never reports success
 * for a model that kvcull refuses. */
#include <string.h>

#include "models/convert/convert.h"

enum kvc_status kvc_convert_read_back(const char *written, const char *to, struct kvc_error *error) {
    /* ref and one thread are enough, because nothing is computed */
    const struct kvc_engine_options options = {.backend = "ref", .threads = 1};
    struct kvc_engine *engine;
    struct kvc_model *model;
    struct kvc_error why = {0};
    enum kvc_status status = kvc_engine_open(&options, &engine, &why);
    if (!status) {
        status = kvc_model_open(engine, written, &model, &why);
        if (!status) {
            kvc_model_close(model);
        }
        kvc_engine_close(engine);
    }
    if (!status) {
        return KVC_OK;
    }
    /* strips the temporary path from the message, because users do not know it */
    const size_t length = strlen(written);
    const char *rest = strncmp(why.text, written, length) == 0 ? why.text + length : why.text;
    return kvc_fail(error, status, "%s: was not written, because it could not be opened afterwards%s%s", to,
                    *rest == ':' || *rest == '/' ? "" : ": ", rest);
}

/* wrong_rank.c - an LD_PRELOAD library: an engine that writes a trace has a wrong result in the operation $WRONG_RANK.
 * The program itself damages an engine only on rank 0, which opens it; other ranks repeat that call. */
#include <dlfcn.h>
#include <stdlib.h>

#include "kvcull.h"
#include "kvcull/check.h"

enum kvc_status kvc_engine_open(const struct kvc_engine_options *options, struct kvc_engine **engine,
                                struct kvc_error *error) {
    enum kvc_status (*open)(const struct kvc_engine_options *, struct kvc_engine **, struct kvc_error *);
    const char *operation = getenv("WRONG_RANK");
    *(void **)&open = dlsym(RTLD_NEXT, "kvc_engine_open");
    const enum kvc_status status = open(options, engine, error);
    return status == KVC_OK && operation && options->trace ? kvc_verify_inject(*engine, operation, error) : status;
}

/* backends.c - the list of backends, and what a user may know of them. */
#include "core/backends.h"

#include <pthread.h>

#include "core/engine.h"

const struct kvc_backend_class *const kvc_backend_list[] = {&kvc_backend_cpu, &kvc_backend_ref, NULL};

#define KVC_BACKENDS (sizeof kvc_backend_list / sizeof kvc_backend_list[0] - 1)

static struct { /* asked once */
    bool usable;
    char detail[256];
} answers[KVC_BACKENDS];
static pthread_once_t asked = PTHREAD_ONCE_INIT;

static void ask(void) {
    for (size_t i = 0; i < KVC_BACKENDS; i++)
        answers[i].usable = kvc_backend_list[i]->usable(answers[i].detail, sizeof answers[i].detail);
}

bool kvc_backend(size_t i, struct kvc_backend_info *info) {
    if (i >= KVC_BACKENDS)
        return false;
    pthread_once(&asked, ask);
    info->name = kvc_backend_list[i]->name;
    info->detail = answers[i].detail;
    info->usable = answers[i].usable;
    info->missing = kvc_backend_list[i]->missing();
    return true;
}

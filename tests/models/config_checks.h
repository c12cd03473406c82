/* config_checks.h - test support for model descriptions. */
#ifndef KVC_TESTS_MODELS_CONFIG_CHECKS_H
#define KVC_TESTS_MODELS_CONFIG_CHECKS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/engine/engine.h"
#include "models/config/config.h"
#include "models/model.h"

static struct kvc_error error;

static inline const char *golden(const char *rest, char *path, size_t capacity) {
    const char *folder = getenv("top_srcdir");
    snprintf(path, capacity, "%s/tests/data/golden/%s", folder ? folder : ".", rest);
    return path;
}

static inline void expect_error(enum kvc_status status, const char *text, const char *what) {
    if (status != KVC_INPUT)
        fail_msg("%s: status %d, 3 was expected (%s)", what, (int)status, text);
    if (!strstr(error.text, text))
        fail_msg("%s: \"%s\" was expected in: %s", what, text, error.text);
    if (strchr(error.text, '\n'))
        fail_msg("%s: more than one line: %s", what, error.text);
}

static char folder[] = "/tmp/kvcull-config-XXXXXX";

static inline int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static inline int remove_folder(void **state) {
    (void)state;
    return rmdir(folder);
}

#endif

/* error.c - one-line errors. */
#include "kvcull.h"

#include <stdarg.h>
#include <stdio.h>

enum kvc_status kvc_fail(struct kvc_error *error, enum kvc_status status, const char *format, ...) {
    if (error) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(error->text, sizeof error->text, format, arguments);
        va_end(arguments);
        error->status = status;
        /* names from files must not break the line */
        for (char *c = error->text; *c; c++) {
            if ((unsigned char)*c < 32 || *c == 127)
                *c = '?';
        }
    }
    return status;
}

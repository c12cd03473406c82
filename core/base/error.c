/* error.c - formats one-line error messages. */
#include "kvcull.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kvc_status kvc_fail(struct kvc_error *error, enum kvc_status status, const char *format, ...) {
    if (error) {
        char text[2048], *longer = NULL;
        va_list arguments;
        va_start(arguments, format);
        const int bytes = vsnprintf(text, sizeof text, format, arguments);
        va_end(arguments);
        if (bytes >= (int)sizeof text && (longer = malloc((size_t)bytes + 1)) != NULL) {
            va_start(arguments, format);
            vsnprintf(longer, (size_t)bytes + 1, format, arguments);
            va_end(arguments);
        }
        /* names from files must not break the line, and long paths must not cut off the reason */
        kvc_printable(longer ? longer : text, strlen(longer ? longer : text), error->text, sizeof error->text);
        error->status = status;
        free(longer);
    }
    return status;
}

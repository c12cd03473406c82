/* decimal.c - parses decimal numbers. */
#include "kvcull/policy.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool kvc_decimal(const char *text, size_t length, double *number) {
    char copy[64];
    bool digit = false;
    if (length == 0 || length >= sizeof copy)
        return false;
    for (size_t i = 0; i < length; i++) {
        const char c = text[i];
        if (c >= '0' && c <= '9')
            digit = true;
        else if (c != '.' && c != '-' && c != '+' && c != 'e' && c != 'E')
            return false;
    }
    memcpy(copy, text, length);
    copy[length] = 0;
    const locale_t plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    if (!plain)
        return false;
    char *end;
    const locale_t host = uselocale(plain);
    *number = strtod(copy, &end);
    uselocale(host);
    freelocale(plain);
    return digit && *end == 0 && isfinite(*number);
}

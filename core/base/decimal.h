/* decimal.h - numbers as people write them. */
#ifndef KVC_CORE_BASE_DECIMAL_H
#define KVC_CORE_BASE_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>

/* A plain decimal number [length] with a point, whatever the host's locale; not "0x10", "inf" or with blanks, which
 * strtod accepts. False: it is none. */
bool kvc_decimal(const char *text, size_t length, double *number);

#endif

/* format.c - formats bytes, times and numbers for people; also the clock. */
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "cli/cli.h"

char *cli_bytes(uint64_t bytes, char *text) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double value = (double)bytes;
    size_t unit = 0;

    while (value >= 1023.5 && unit < 5) {
        value /= 1024;
        unit++;
    }
    if (unit == 0)
        snprintf(text, 32, "%u B", (unsigned)bytes);
    else
        snprintf(text, 32, "%.*f %s", value < 9.995 ? 2 : value < 99.95 ? 1 : 0, value, units[unit]);
    return text;
}

char *cli_time(double seconds, char *text) {
    double value = seconds;
    const char *unit = "s";

    if (seconds >= 100) {
        unsigned long whole = (unsigned long)(seconds + 0.5);

        snprintf(text, 32, "%lu:%02lu min", whole / 60, whole % 60);
        return text;
    }
    if (seconds < 1e-3) {
        value = seconds * 1e6;
        unit = "us";
    } else if (seconds < 1) {
        value = seconds * 1e3;
        unit = "ms";
    }
    snprintf(text, 32, "%.*f %s", value < 9.995 ? 2 : value < 99.95 ? 1 : 0, value, unit);
    return text;
}

char *cli_number(uint64_t number, char *text) {
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%llu", (unsigned long long)number), at = 0;

    for (int i = 0; i < n; i++) {
        if (i > 0 && (n - i) % 3 == 0)
            text[at++] = ',';
        text[at++] = digits[i];
    }
    text[at] = '\0';
    return text;
}

double cli_seconds(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

uint64_t cli_random(uint64_t *state) {
    uint64_t x = *state += 0x9e3779b97f4a7c15u;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static int format_ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double cli_median(double *values, size_t count) {
    if (count == 0)
        return 0;
    qsort(values, count, sizeof *values, format_ascending);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

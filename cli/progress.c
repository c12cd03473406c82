/* progress.c - a bar on a terminal, now and then a plain line elsewhere. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

enum { BAR = 40 };

void cli_progress_start(struct cli_progress *progress, const char *what, bool quiet) {
    double now = cli_seconds();

    *progress =
        (struct cli_progress){.what = what, .quiet = quiet, .terminal = isatty(2) == 1, .start = now, .last = now};
}

int cli_progress(void *user, uint64_t done, uint64_t total) {
    struct cli_progress *progress = user;
    double now, share = total ? (double)done / (double)total : 1;
    char time[32], left[48] = "";

    if (progress->quiet)
        return 0;
    now = cli_seconds();
    /* Short work shows nothing. */
    if (now - progress->start < (progress->terminal ? 0.5 : 5) || now - progress->last < (progress->terminal ? 0.1 : 5))
        return 0;
    progress->last = now;
    progress->shown = true;
    if (share > 0 && share < 1)
        snprintf(left, sizeof left, "%s left", cli_time((now - progress->start) * (1 - share) / share, time));
    if (progress->terminal) {
        int full = (int)(share * BAR);
        char bar[BAR + 1];

        memset(bar, '.', BAR);
        memset(bar, '#', (size_t)(full > BAR ? BAR : full));
        bar[BAR] = '\0';
        fprintf(stderr, "\r%-24.24s [%s] %3.0f%%  %s\033[K", progress->what, bar, floor(100 * share), left);
        fflush(stderr);
    } else {
        fprintf(stderr, "%s: %.0f%%%s%s\n", progress->what, floor(100 * share), left[0] ? ", about " : "", left);
    }
    return 0;
}

void cli_progress_end(struct cli_progress *progress) {
    if (progress->shown && progress->terminal) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
    progress->shown = false;
}

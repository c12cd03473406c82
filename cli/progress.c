/* progress.c - shows progress: a bar on a terminal; elsewhere, a line from time to time. */
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

/* Minimum seconds between two marks: parts that end at about the same time count as one. */
#define MARK_SECONDS 0.3

void cli_progress_mark(struct cli_progress *progress, double now, uint64_t done) {
    const unsigned last = (progress->mark_count + CLI_PROGRESS_MARKS - 1) % CLI_PROGRESS_MARKS;

    if (progress->mark_count && (progress->marks[last].done == done || now - progress->marks[last].when < MARK_SECONDS))
        return;
    progress->marks[progress->mark_count % CLI_PROGRESS_MARKS].when = now;
    progress->marks[progress->mark_count % CLI_PROGRESS_MARKS].done = done;
    progress->mark_count++;
}

double cli_progress_left(const struct cli_progress *progress, uint64_t total) {
    const unsigned count = progress->mark_count;
    const unsigned kept = count < CLI_PROGRESS_MARKS ? count : CLI_PROGRESS_MARKS;
    const unsigned first = (count - kept) % CLI_PROGRESS_MARKS, last = (count - 1) % CLI_PROGRESS_MARKS;

    if (kept < 4 || progress->marks[last].done <= progress->marks[first].done)
        return -1;
    return (progress->marks[last].when - progress->marks[first].when) * (double)(total - progress->marks[last].done) /
           (double)(progress->marks[last].done - progress->marks[first].done);
}

/* Writes "40 s", "3 min" or "2 h". An estimate needs no more digits. */
static void rough_time(double seconds, char text[32]) {
    if (seconds < 99.5)
        snprintf(text, 32, "%.0f s", seconds < 1 ? 1 : seconds);
    else if (seconds < 99.5 * 60)
        snprintf(text, 32, "%.0f min", seconds / 60);
    else
        snprintf(text, 32, "%.0f h", seconds / 3600);
}

int cli_progress(void *user, uint64_t done, uint64_t total) {
    struct cli_progress *progress = user;
    double now, share = total ? (double)done / (double)total : 1;
    char time[32], left[48] = "";

    if (progress->quiet)
        return 0;
    now = cli_seconds();
    cli_progress_mark(progress, now, done);
    /* Short work shows no progress. */
    if (now - progress->start < (progress->terminal ? 0.5 : 5) || now - progress->last < (progress->terminal ? 0.1 : 5))
        return 0;
    progress->last = now;
    progress->shown = true;
    if (done < total && cli_progress_left(progress, total) >= 0) {
        rough_time(cli_progress_left(progress, total), time);
        snprintf(left, sizeof left, "%s left", time);
    }
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

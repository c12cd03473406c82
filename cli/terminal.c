/* terminal.c - sets the modes of the terminal from which a chat reads. Restores the user's settings when the program
 * stops or ends, even by a signal. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "cli/edit.h"

/* Signal handlers can only use global variables. `opened` tells whether `user` is valid. */
static struct termios user;
static volatile sig_atomic_t opened, mode, changed, marks;

static const char pastes_on[] = "\033[?2004h", pastes_off[] = "\033[?2004l";

static void tell(const char *text) {
    ssize_t n;
    do
        n = write(2, text, strlen(text));
    while (n < 0 && errno == EINTR);
}

/* Applies the mode, unless the program is in the background: there, the attempt would stop the program. */
static void apply(void) {
    struct termios settings = user;
    if (!opened || tcgetpgrp(0) != getpgrp())
        return;
    if (mode != CLI_TERMINAL_USER) {
        settings.c_lflag &= ~(tcflag_t)(ECHO | ICANON | IEXTEN);
        settings.c_iflag &= ~(tcflag_t)(ICRNL | INLCR | IGNCR | ISTRIP);
        settings.c_cc[VMIN] = 1;
        settings.c_cc[VTIME] = 0;
        /* Ctrl-C must discard neither what was typed before it nor what the program is writing. */
        settings.c_lflag |= NOFLSH;
    }
    if (mode == CLI_TERMINAL_EDITS)
        settings.c_iflag &= ~(tcflag_t)IXON;
    (void)tcsetattr(0, TCSANOW, &settings);
}

void cli_terminal_restore(void) {
    if (!opened || tcgetpgrp(0) != getpgrp())
        return;
    if (marks)
        tell(pastes_off);
    (void)tcsetattr(0, TCSANOW, &user);
}

static void on_size(int number) {
    (void)number;
    changed = changed ? changed : CLI_TERMINAL_RESIZED;
}

static void on_continue(int number) {
    const int error = errno;
    (void)number;
    apply();
    if (marks && tcgetpgrp(0) == getpgrp())
        tell(pastes_on);
    changed = CLI_TERMINAL_CONTINUED;
    errno = error;
}

static void on_stop(int number) {
    struct sigaction action = {.sa_handler = SIG_DFL}, old;
    sigset_t this, before;
    const int error = errno;
    if (mode == CLI_TERMINAL_EDITS)
        tell("\r\n");
    cli_terminal_restore();
    sigaction(number, &action, &old);
    sigemptyset(&this);
    sigaddset(&this, number);
    raise(number);
    sigprocmask(SIG_UNBLOCK, &this, &before); /* the program stops here */
    sigprocmask(SIG_SETMASK, &before, NULL);
    sigaction(number, &old, NULL);
    errno = error;
}

static void handle(int number, void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = (int)SA_RESTART}, old;
    if (sigaction(number, NULL, &old) == 0 && old.sa_handler == SIG_DFL) /* shells without job control ignore SIGTSTP */
        sigaction(number, &action, NULL);
}

bool cli_terminal_open(void) {
    if (isatty(0) != 1 || tcgetattr(0, &user) != 0)
        return false;
    mode = CLI_TERMINAL_USER;
    opened = 1;
    handle(SIGWINCH, on_size);
    handle(SIGCONT, on_continue);
    handle(SIGTSTP, on_stop);
    return true;
}

void cli_terminal_set(enum cli_terminal_mode wanted) {
    mode = wanted;
    apply();
}

void cli_terminal_marks_pastes(void) {
    marks = 1;
    tell(pastes_on);
}

void cli_terminal_close(void) {
    cli_terminal_restore();
    opened = mode = marks = 0;
}

enum cli_terminal_change cli_terminal_changed(void) {
    const int was = changed;
    changed = CLI_TERMINAL_SAME;
    return (enum cli_terminal_change)was;
}

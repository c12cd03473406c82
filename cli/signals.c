/* signals.c - ends the program after a signal. No half-written file remains, and the caller sees which signal ended the
 * program. A model file that is truncated while it is mapped raises a signal, too; the program reports it like any
 * other bad file. */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "cli/edit.h"
#include "cli/cli.h"

/* Handlers use async-signal-safe functions only. SA_RESETHAND has restored the default action. The signal is blocked
 * until the handler returns; the raised signal then ends the program. */
static void on_end(int number) {
    cli_terminal_restore();
    kvc_output_remove_all();
    raise(number);
}

static void say(const char *text) {
    size_t left = strlen(text);

    while (left > 0) {
        ssize_t n = write(2, text, left);

        if (n <= 0)
            return;
        text += n;
        left -= (size_t)n;
    }
}

static void on_bus_error(int number, siginfo_t *about, void *context) {
    /* only a signal raised by the kernel has an address */
    const char *path = about->si_code > 0 ? kvc_mapped_path(about->si_addr) : NULL;
    char line[500];

    (void)context;
    kvc_output_remove_all();
    if (!path) {
        raise(number);
        return;
    }
    kvc_printable(path, strlen(path), line, sizeof line);
    say("kvcull: ");
    say(line);
    say(": cut short while it was in use, or its disk fails; give a file that nothing changes\n");
    _exit(KVC_INPUT);
}

void cli_signals(void) {
    static const int ending[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXCPU, SIGABRT};
    struct sigaction action = {.sa_handler = on_end, .sa_flags = (int)SA_RESETHAND}, old;

    signal(SIGPIPE, SIG_IGN); /* a closed pipe shall be reported as a write error */
    signal(SIGXFSZ, SIG_IGN); /* an exceeded limit of file sizes shall be reported as a write error */
    sigfillset(&action.sa_mask);
    for (size_t i = 0; i < sizeof ending / sizeof ending[0]; i++)
        if (sigaction(ending[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL) /* nohup ignores SIGHUP */
            sigaction(ending[i], &action, NULL);
    action.sa_flags |= SA_SIGINFO;
    action.sa_sigaction = on_bus_error;
    sigaction(SIGBUS, &action, NULL);
}

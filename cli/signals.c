/* signals.c - what the program does when a signal ends it: no file stays half-written, and the caller sees the signal.
 * A model file that is cut short while it is mapped comes as a signal too, and is told as any other bad file. */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

/* Everything here runs in handlers: async-signal-safe functions only. SA_RESETHAND has put the default action back; the
 * signal is blocked until the handler returns, and what is raised ends the program then. */
static void on_end(int number) {
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
    /* raised by the kernel: of a signal that another process sends there is no address */
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

    signal(SIGPIPE, SIG_IGN); /* a closed pipe is a write error like any other */
    signal(SIGXFSZ, SIG_IGN); /* and so is a file that may not grow */
    sigfillset(&action.sa_mask);
    for (size_t i = 0; i < sizeof ending / sizeof ending[0]; i++)
        if (sigaction(ending[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL) /* nohup ignores SIGHUP */
            sigaction(ending[i], &action, NULL);
    action.sa_flags |= SA_SIGINFO;
    action.sa_sigaction = on_bus_error;
    sigaction(SIGBUS, &action, NULL);
}

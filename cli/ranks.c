/* ranks.c - runs the program as several processes. Rank 0 runs the command. Until the command ends, the other ranks
 * compute their parts of every library call that rank 0 makes. With --ranks data every rank runs the command with a
 * share of the work, and rank 0 prints the results. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "kvcull/ranks.h"

static struct kvc_ranks *program_ranks; /* the ranks of this process, from start to exit */
static bool program_data;               /* true with --ranks data */
static bool program_agreed;             /* true if cli_agree was called */
static int program_failed;              /* the status that cli_agree returned on all ranks; a failure is final */

struct kvc_ranks *cli_ranks(void) {
    return program_data ? NULL : program_ranks;
}

struct kvc_ranks *cli_data_ranks(void) {
    return program_data ? program_ranks : NULL;
}

uint32_t cli_data_rank(void) { return program_data && program_ranks ? kvc_ranks_rank(program_ranks) : 0; }

bool cli_traffic(struct kvc_ranks_traffic *traffic) {
    struct kvc_ranks *ranks = cli_ranks();
    *traffic = (struct kvc_ranks_traffic){0, 0, 0};
    if (!ranks || kvc_ranks_count(ranks) == 1)
        return false;
    kvc_ranks_all_traffic(ranks, traffic);
    return true;
}

int cli_refuse_data(const struct cli_command *command) {
    return cli_error(
        command, KVC_USAGE,
        "--ranks data: works with perplexity and with eval's standard tasks; others take tensor or pipeline");
}

/* Returns the first nonzero exit status among those of all ranks, and the rank that it came from. */
static int gather_status(int status, uint32_t *whose) {
    const uint32_t count = kvc_ranks_count(program_ranks);
    size_t *sizes = malloc(count * sizeof *sizes);
    void *all = NULL;
    int first = KVC_OK;
    *whose = 0;
    if (!sizes)
        _exit(KVC_RESOURCE); /* this ends the other ranks */
    program_agreed = true;
    kvc_ranks_gather(program_ranks, &status, sizeof status, &all, sizes);
    while (*whose < count && (first = ((const int *)all)[*whose]) == KVC_OK)
        ++*whose;
    free(all);
    free(sizes);
    return first;
}

int cli_agree(const struct cli_command *command, int status) {
    uint32_t whose;
    if (!program_data || program_failed)
        return program_failed ? program_failed : status;
    const int first = program_failed = gather_status(status, &whose);
    if (first != KVC_OK && status == KVC_OK && cli_data_rank() == 0)
        return cli_error(command, (enum kvc_status)first,
                         "rank %u ended with exit status %d, so its results are missing", whose, first);
    return first;
}

int cli_same_model(const struct cli_command *command, int status, struct kvc_model *model) {
    status = cli_agree(command, status);
    if (!program_data || status != KVC_OK)
        return status;
    program_agreed = false;
    kvc_ranks_same_model(program_ranks, model);
    return KVC_OK;
}

int cli_same_bytes(const struct cli_command *command, int status, const char *what, const void *bytes, size_t count) {
    uint32_t rank;
    status = cli_agree(command, status);
    if (!program_data || status != KVC_OK)
        return status;
    program_agreed = false;
    if (kvc_ranks_same_bytes(program_ranks, bytes, count, &rank))
        return KVC_OK;
    if (cli_data_rank() > 0)
        return KVC_INPUT;
    return cli_error(command, KVC_INPUT, "%s: is not the same on rank %u: all ranks need the same", what, rank);
}

/* Returns the value of an option before the command's options are parsed, because every rank needs it. */
static const char *ranks_given(const char *option, int argc, char **argv) {
    const size_t length = strlen(option);
    const char *value = NULL;
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strncmp(argv[i], option, length) != 0)
            continue;
        if (argv[i][length] == '=')
            value = argv[i] + length + 1;
        else if (argv[i][length] == '\0' && i + 1 < argc)
            value = argv[++i];
    }
    return value;
}

/* Returns true for an option whose value may differ between ranks. */
static bool is_own(const char *argument) {
    static const char *const own[] = {"--backend", "--threads", "-t", "--out", "--rank-timeout"};
    const size_t length = strcspn(argument, "=");
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strlen(own[i]) == length && memcmp(argument, own[i], length) == 0)
            return true;
    return false;
}

/* With --ranks data, checks that all ranks were started with the same arguments. */
static int same_arguments(const struct cli_command *command, int argc, char **argv) {
    size_t bytes = 0;
    uint32_t rank;
    for (int i = 1; i < argc; i++)
        bytes += strlen(argv[i]) + 1;
    char *text = calloc(1, bytes + 1);
    if (!text)
        _exit(cli_no_memory(command)); /* this ends the other ranks */
    bytes = 0;
    for (int i = 1; i < argc; i++) {
        if (is_own(argv[i])) {
            i += !strchr(argv[i], '=');
            continue;
        }
        strcpy(text + bytes, argv[i]);
        bytes += strlen(argv[i]) + 1;
    }
    const bool same = kvc_ranks_same_bytes(program_ranks, text, bytes, &rank);
    free(text);
    if (same || cli_data_rank() > 0)
        return same ? KVC_OK : KVC_USAGE;
    return cli_error(
        command, KVC_USAGE,
        "rank %u was started with other arguments: only --backend, --threads, --out and --rank-timeout may differ",
        rank);
}

/* With --ranks data, a rank that ends early still takes part in the other ranks' next agreement. */
void cli_leave_ranks(void) {
    uint32_t whose;
    if (!program_ranks)
        return;
    if (program_data && !program_agreed)
        (void)gather_status(KVC_RESOURCE, &whose);
    kvc_ranks_close(program_ranks);
    program_ranks = NULL;
}

int cli_start_ranks(const struct cli_command *command, int argc, char **argv) {
    struct kvc_error error;
    const bool plans = argc > 1 && strcmp(argv[1], "info") == 0; /* in kvcull info, --ranks only plans a division */
    const char *how = plans ? NULL : ranks_given("--ranks", argc, argv),
               *share = plans ? NULL : ranks_given("--share", argc, argv);
    if (!how && !share && !kvc_ranks_started())
        return CLI_GO;
    if (kvc_ranks_open(how, share, &program_ranks, &error) != KVC_OK)
        return error.text[0] ? cli_report(command, &error)
                             : KVC_OK; /* if a rank failed, mpirun could end rank 0 before it prints its message */
    const char *timeout = ranks_given("--rank-timeout", argc, argv);
    if (timeout) /* an invalid number is reported later, when the options are parsed */
        kvc_ranks_timeout(program_ranks, strtod(timeout, NULL));
    program_data = how && strcmp(how, "data") == 0;
    if (program_data) {
        const int status = same_arguments(command, argc, argv);
        if (status != KVC_OK)
            return status;
        if (argc < 2 || (strcmp(argv[1], "eval") != 0 && strcmp(argv[1], "perplexity") != 0))
            return cli_refuse_data(command);
        if (cli_data_rank() > 0 && !freopen("/dev/null", "w", stdout))
            return cli_error(command, KVC_RESOURCE, "/dev/null: cannot be opened");
        return CLI_GO;
    }
    if (kvc_ranks_rank(program_ranks) == 0)
        return CLI_GO;
    kvc_ranks_follow(program_ranks);
    return KVC_OK;
}

/* fail_each.c - runs a command many times, each time with another memory request failing (tests/cli/fail_memory.c), and
 * checks its messages, its exit status and the files that it leaves.
 *
 *     fail_each SHIM FOLDER POINTS PROGRAM ARGUMENTS...
 *
 * FOLDER is an empty folder that the command may write to. POINTS: how many requests fail, evenly spread; 0: every one.
 * Each fails twice: alone, and together with all later ones. Exit status: 0 passed, 1 failed, 77 the program cannot be
 * made to fail here. */
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SECONDS = 120, NO_MEMORY = 4 };

struct bytes {
    char *data;
    size_t count;
};

struct outcome {
    int status; /* as waitpid returns it */
    struct bytes out, err, files;
    uint64_t calls;
    int64_t blocks;
};

static void *need(void *pointer) {
    if (pointer)
        return pointer;
    perror("fail_each");
    exit(99);
}

static void add(struct bytes *to, const void *data, size_t count) {
    to->data = need(realloc(to->data, to->count + count + 1));
    memcpy(to->data + to->count, data, count);
    to->count += count;
    to->data[to->count] = '\0';
}

static void add_file(struct bytes *to, FILE *file) {
    char part[65536];
    size_t count;
    rewind(file);
    while ((count = fread(part, 1, sizeof part, file)) > 0)
        add(to, part, count);
}

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

/* Takes names and contents of all files of a folder and removes the files. */
static void take_files(struct bytes *to, const char *folder) {
    struct dirent **list = NULL;
    const int count = scandir(folder, &list, NULL, by_name);
    for (int i = 0; i < count; i++) {
        if (list[i]->d_name[0] != '.' || strlen(list[i]->d_name) > 2) {
            char path[4096];
            struct stat about;
            snprintf(path, sizeof path, "%s/%s", folder, list[i]->d_name);
            add(to, list[i]->d_name, strlen(list[i]->d_name) + 1);
            if (stat(path, &about) == 0 && S_ISDIR(about.st_mode)) {
                take_files(to, path);
                rmdir(path);
            } else {
                FILE *file = need(fopen(path, "rb"));
                add_file(to, file);
                fclose(file);
                remove(path);
            }
        }
        free(list[i]);
    }
    free(list);
}

/* Removes measured times, which are not compared. */
static void drop_times(struct bytes *text) {
    static const char name[] = "seconds\": ";
    const size_t length = sizeof name - 1;
    size_t kept = 0;
    for (size_t i = 0; i < text->count; i++) {
        text->data[kept++] = text->data[i];
        if (kept >= length && memcmp(text->data + kept - length, name, length) == 0)
            while (i + 1 < text->count && text->data[i + 1] && strchr("0123456789.e+-", text->data[i + 1]))
                i++;
    }
    text->count = kept;
}

static void child(const char *shim, uint64_t fail_at, bool from, FILE *out, FILE *err, FILE *report, char **command) {
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)fail_at);
    setenv("FAIL_AT", text, 1);
    setenv("FAIL_FROM", from ? "1" : "0", 1);
    snprintf(text, sizeof text, "%d", fileno(report));
    setenv("FAIL_REPORT", text, 1);
    setenv("LD_PRELOAD", shim, 1);
    const int in = open("/dev/null", O_RDONLY);
    if (in < 0 || dup2(in, 0) < 0 || dup2(fileno(out), 1) < 0 || dup2(fileno(err), 2) < 0)
        _exit(99);
    alarm(SECONDS);
    execv(command[0], command);
    _exit(99);
}

static struct outcome run(const char *shim, const char *folder, uint64_t fail_at, bool from, char **command) {
    struct outcome outcome = {0};
    struct bytes told = {0};
    FILE *out = need(tmpfile()), *err = need(tmpfile()), *report = need(tmpfile());
    fflush(stdout);
    const pid_t process = fork();
    if (process == 0)
        child(shim, fail_at, from, out, err, report, command);
    if (process < 0 || waitpid(process, &outcome.status, 0) != process)
        need(NULL);
    add_file(&outcome.out, out);
    add_file(&outcome.err, err);
    add_file(&told, report);
    add(&told, "", 0);
    unsigned long long calls = 0;
    long long blocks = 0;
    if (sscanf(told.data, "%llu %lld", &calls, &blocks) == 2) {
        outcome.calls = calls;
        outcome.blocks = blocks;
    }
    free(told.data);
    add(&outcome.out, "", 0);
    add(&outcome.err, "", 0);
    add(&outcome.files, "", 0);
    take_files(&outcome.files, folder);
    drop_times(&outcome.out);
    drop_times(&outcome.files);
    fclose(out);
    fclose(err);
    fclose(report);
    return outcome;
}

static void outcome_free(struct outcome *outcome) {
    free(outcome->out.data);
    free(outcome->err.data);
    free(outcome->files.data);
}

static bool same(const struct bytes *a, const struct bytes *b) {
    return a->count == b->count && memcmp(a->data, b->data, a->count) == 0;
}

/* NULL: the outcome is correct. */
static const char *wrong(const struct outcome *got, const struct outcome *right) {
    if (!WIFEXITED(got->status))
        return WTERMSIG(got->status) == SIGALRM ? "it hangs" : "it crashes";
    if (got->blocks > right->blocks)
        return "memory is leaked";
    if (WEXITSTATUS(got->status) == 0)
        return !same(&got->out, &right->out)       ? "it succeeds with another output"
               : !same(&got->files, &right->files) ? "it succeeds with other files"
               : !same(&got->err, &right->err)     ? "it succeeds with another message"
                                                   : NULL;
    if (WEXITSTATUS(got->status) != NO_MEMORY)
        return "another exit status than that for memory";
    const char *end = strchr(got->err.data, '\n');
    if (strncmp(got->err.data, "kvcull", 6) != 0 || !end || end[1])
        return "not one line that says so";
    size_t printed = got->out.count;
    if (printed && got->out.data[printed - 1] == '\n')
        printed--; /* an output that is cut short still ends with a line end */
    if (printed > right->out.count || memcmp(got->out.data, right->out.data, printed) != 0)
        return "what it printed before is wrong";
    return got->files.count ? "it leaves files" : NULL;
}

int main(int count, char **arguments) {
    if (count < 5)
        return 2;
    const char *shim = arguments[1], *folder = arguments[2];
    const uint64_t points = strtoull(arguments[3], NULL, 10);
    struct outcome right = run(shim, folder, 0, false, arguments + 4);
    if (right.status != 0) {
        printf("undisturbed it ends with %d: %s\n", right.status, right.err.data);
        return 1;
    }
    if (!right.calls)
        return 77;
    uint64_t bad = 0, tried = 0, done_without = 0;
    const uint64_t of = points && points < right.calls ? points : right.calls;
    for (uint64_t i = 0; i < of; i++) {
        const uint64_t at = 1 + i * right.calls / of;
        for (int from = 0; from < 2; from++) {
            struct outcome got = run(shim, folder, at, from, arguments + 4);
            const char *what = wrong(&got, &right);
            tried++;
            done_without += got.status == 0;
            if (what && ++bad <= 10)
                printf("not ok: request %llu of %llu%s: %s; status %d, it says: %.300s%s", (unsigned long long)at,
                       (unsigned long long)right.calls, from ? " and all after it" : "", what,
                       WIFEXITED(got.status) ? WEXITSTATUS(got.status) : -WTERMSIG(got.status), got.err.data,
                       got.err.count ? "" : "\n");
            outcome_free(&got);
        }
    }
    printf("%llu requests, %llu runs, %llu did without, %llu wrong\n", (unsigned long long)right.calls,
           (unsigned long long)tried, (unsigned long long)done_without, (unsigned long long)bad);
    outcome_free(&right);
    return bad != 0;
}

/* history.c - keeps the user's messages in a file between runs. The first line names the file's kind. Each further line
 * is a message, with \n for a line end and \\ for a backslash. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/edit.h"

enum {
    KEPT = 1000,         /* number of messages that the file keeps */
    LONGEST = 64 << 10,  /* bytes of the longest message that is kept */
    READ_MOST = 16 << 20 /* bytes read from the end of the file */
};
static const char first_line[] = "# messages typed in kvcull chat\n";

/* ---- the file ---- */

/* Returns the path of the default file: in $XDG_STATE_HOME if it is absolute, or in ~/.local/state. */
static char *default_path(void) {
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    const bool own = state && *state == '/';
    char *path = NULL;
    if (!own && !(home && *home == '/'))
        return NULL;
    if (asprintf(&path, "%s%s/kvcull/chat_history", own ? state : home, own ? "" : "/.local/state") < 0)
        return NULL;
    return path;
}

/* Creates the folders of a path. */
static void make_folders(char *path) {
    for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        (void)mkdir(path, 0700);
        *at = '/';
    }
}

/* Stops using the file. */
static void forget_file(struct edit_history *history, const char *why) {
    char clean[300];
    if (history->named) {
        kvc_printable(history->path, strlen(history->path), clean, sizeof clean);
        fprintf(stderr, "kvcull chat: warning: --history %s: %s; messages are not kept\n", clean, why);
    }
    free(history->path);
    history->path = NULL;
}

/* Writes a message as a line of the file. Returns false if memory runs out. */
static bool make_line(const char *text, char **line, size_t *bytes) {
    *line = malloc(2 * strlen(text) + 2);
    *bytes = 0;
    if (!*line)
        return false;
    for (; *text; text++) {
        if (*text == '\n' || *text == '\\')
            (*line)[(*bytes)++] = '\\';
        (*line)[(*bytes)++] = (char)(*text == '\n' ? 'n' : *text);
    }
    (*line)[(*bytes)++] = '\n';
    return true;
}

static bool write_all(int file, const char *data, size_t bytes) {
    while (bytes > 0) {
        const ssize_t n = write(file, data, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        data += n;
        bytes -= (size_t)n;
    }
    return true;
}

/* Appends a message to the file. */
static void append(struct edit_history *history, const char *text) {
    struct stat about;
    char *line;
    size_t bytes;
    if (!history->path || !make_line(text, &line, &bytes))
        return;
    const int file = open(history->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600);
    bool good = file >= 0 && fstat(file, &about) == 0 && S_ISREG(about.st_mode);
    if (good && about.st_size == 0)
        good = write_all(file, first_line, sizeof first_line - 1);
    good = good && write_all(file, line, bytes);
    if (!good)
        forget_file(history, file < 0 ? strerror(errno) : "cannot be written");
    if (file >= 0)
        close(file);
    free(line);
}

/* ---- the list ---- */

static bool history_put(struct edit_history *history, char *text) {
    if (history->count == history->capacity) {
        const size_t capacity = history->capacity ? 2 * history->capacity : 64;
        char **grown = realloc(history->items, capacity * sizeof *grown);
        if (!grown)
            return false;
        history->items = grown;
        history->capacity = capacity;
    }
    history->items[history->count++] = text;
    return true;
}

/* Reads an entry from one line [bytes] of the file. */
static void read_entry(struct edit_history *history, const char *line, size_t bytes) {
    char *text = bytes > 0 && bytes <= 2 * LONGEST ? malloc(bytes + 1) : NULL;
    size_t count = 0;
    if (!text)
        return;
    for (size_t i = 0; i < bytes; i++) {
        const bool marked = line[i] == '\\' && i + 1 < bytes;
        i += marked;
        text[count++] = (char)(marked && line[i] == 'n' ? '\n' : line[i]);
    }
    text[count] = '\0';
    if (memchr(text, '\0', count) || !history_put(history, text))
        free(text);
}

/* Drops the oldest messages, so that KEPT are left. */
static void drop_first(struct edit_history *history) {
    const size_t dropped = history->count > KEPT ? history->count - KEPT : 0;
    for (size_t i = 0; i < dropped; i++)
        free(history->items[i]);
    history->count -= dropped;
    if (dropped > 0)
        memmove(history->items, history->items + dropped, history->count * sizeof *history->items);
}

/* Writes the file again, with only the messages that are kept. */
static void rewrite(struct edit_history *history) {
    struct kvc_output *output;
    struct kvc_error error;
    if (kvc_output_open(history->path, 0, &output, &error) != KVC_OK)
        return; /* the longer file is left as it is */
    const int file = kvc_output_descriptor(output);
    bool good = write_all(file, first_line, sizeof first_line - 1);
    for (size_t i = 0; i < history->count && good; i++) {
        char *line;
        size_t bytes;
        good = make_line(history->items[i], &line, &bytes);
        good = good && write_all(file, line, bytes);
        free(line);
    }
    if (good)
        (void)kvc_output_commit(output, &error);
    else
        kvc_output_abandon(output);
}

/* Reads the last part of an open file. If the file must not be used, returns false and sets *why. */
static bool read_file(struct edit_history *history, int file, const char **why) {
    char head[sizeof first_line];
    struct stat about;
    *why = "not a history of kvcull chat";
    if (fstat(file, &about) != 0 || !S_ISREG(about.st_mode))
        return false;
    if (about.st_size == 0)
        return true;
    if (pread(file, head, sizeof head - 1, 0) != sizeof head - 1 || memcmp(head, first_line, sizeof head - 1) != 0)
        return false;
    const off_t from = about.st_size > READ_MOST ? about.st_size - READ_MOST : (off_t)sizeof first_line - 1;
    const size_t bytes = (size_t)(about.st_size - from);
    char *data = malloc(bytes + 1);
    *why = "no memory for it";
    const ssize_t n = data ? pread(file, data, bytes, from) : -1;
    const char *at = data, *end = data && n > 0 ? data + n : data;
    if (n > 0 && about.st_size > READ_MOST) { /* the first line that was read may be incomplete */
        at = memchr(at, '\n', (size_t)n);
        at = at ? at + 1 : end;
    }
    while (n > 0 && at < end) {
        const char *next = memchr(at, '\n', (size_t)(end - at));
        next = next ? next : end;
        read_entry(history, at, (size_t)(next - at));
        at = next + 1;
    }
    free(data);
    return n >= 0;
}

void edit_history_open(struct edit_history *history, const char *path) {
    const char *why = NULL;
    *history = (struct edit_history){.path = path && *path ? strdup(path)
                                             : path        ? NULL
                                                           : default_path(),
                                     .named = path != NULL};
    if (!history->path)
        return;
    if (!history->named)
        make_folders(history->path);
    const int file = open(history->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) {
        if (errno != ENOENT)
            forget_file(history, strerror(errno));
        return;
    }
    if (!read_file(history, file, &why))
        forget_file(history, why);
    close(file);
    const bool many = history->count > 2 * KEPT;
    drop_first(history);
    if (history->path && many)
        rewrite(history);
}

void edit_history_add(struct edit_history *history, const char *text) {
    const bool again = history->count > 0 && strcmp(history->items[history->count - 1], text) == 0;
    char *copy = again || strlen(text) > LONGEST ? NULL : strdup(text);
    if (!copy)
        return;
    if (history_put(history, copy))
        append(history, text);
    else
        free(copy);
}

void edit_history_close(struct edit_history *history) {
    for (size_t i = 0; i < history->count; i++)
        free(history->items[i]);
    free(history->items);
    free(history->path);
    *history = (struct edit_history){.items = NULL};
}

/* file.c - reads whole files, and writes files that appear only when they are complete. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"

int cli_check_text(const struct cli_command *command, const char *name, char *text, size_t *bytes) {
    const unsigned char *begin = (const unsigned char *)text;
    const char *zero;

    if (*bytes >= 2 && ((begin[0] == 0xff && begin[1] == 0xfe) || (begin[0] == 0xfe && begin[1] == 0xff)))
        return cli_error(command, KVC_INPUT,
                         "%s: is UTF-16 (by its byte order mark); must be UTF-8: iconv -f UTF-16 -t UTF-8 converts it",
                         name);
    zero = memchr(text, '\0', *bytes);
    if (zero)
        return cli_error(
            command, KVC_INPUT,
            "%s: byte %zu is 0, which a text cannot contain; iconv -t UTF-8 converts it if it is UTF-16 or UTF-32",
            name, (size_t)(zero - text));
    if (*bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        *bytes -= 3;
        memmove(text, text + 3, *bytes + 1);
        cli_warn(command, "%s: begins with a byte order mark, which is ignored", name);
    }
    return KVC_OK;
}

int cli_read_file(const struct cli_command *command, const char *path, char **text, size_t *bytes) {
    bool standard = strcmp(path, "-") == 0;
    const char *name = standard ? "standard input" : path;
    FILE *stream = standard ? stdin : fopen(path, "rb");
    const size_t most =
        (size_t)1 << 30; /* more than any text needs; it ends the reading of endless files such as /dev/zero */
    size_t capacity = 65536, held = 0;
    char *buffer;
    struct stat about;
    int status = KVC_OK;

    *text = NULL;
    *bytes = 0;
    if (!stream)
        return errno == ENOMEM
                   ? cli_no_memory(command)
                   : cli_error(command, KVC_INPUT, "%s: %s; give a file that can be read", name, strerror(errno));
    if (fstat(fileno(stream), &about) == 0 && S_ISDIR(about.st_mode)) {
        if (!standard)
            fclose(stream);
        return cli_error(command, KVC_INPUT, "%s: is a directory; give a text file", name);
    }
    buffer = malloc(capacity + 1);
    while (buffer) {
        size_t n = fread(buffer + held, 1, capacity - held, stream);
        char *more;

        held += n;
        if (n == 0 || held < capacity)
            if (feof(stream) || ferror(stream))
                break;
        if (held < capacity)
            continue;
        if (held >= most) {
            if (!standard)
                fclose(stream);
            free(buffer);
            return cli_error(command, KVC_INPUT, "%s: is longer than 1 GiB; give a shorter text", name);
        }
        more = realloc(buffer, 2 * capacity + 1);
        if (!more) {
            free(buffer);
            buffer = NULL;
            break;
        }
        buffer = more;
        capacity *= 2;
    }
    if (!buffer) {
        status = cli_no_memory(command);
    } else if (ferror(stream)) {
        status = cli_error(command, KVC_INPUT, "%s: cannot be read: %s", name, strerror(errno));
        free(buffer);
    } else {
        buffer[held] = '\0';
        status = cli_check_text(command, name, buffer, &held);
        if (status == KVC_OK) {
            *text = buffer;
            *bytes = held;
        } else {
            free(buffer);
        }
    }
    if (!standard)
        fclose(stream);
    return status;
}

int cli_check_name(const struct cli_command *command, const char *option, const char *path) {
    if (path[0] == '\0')
        return cli_error(command, KVC_USAGE, "--%s: the name is empty; give a file name", option);
    if (strcmp(path, "-") == 0) /* some formats write their header last, which a pipe does not allow */
        return cli_error(command, KVC_USAGE, "--%s -: cannot go to standard output; give a file name", option);
    return KVC_OK;
}

int cli_file_open(const struct cli_command *command, const char *path, struct cli_file *file) {
    struct stat about;
    struct kvc_error error;
    bool there = stat(path, &about) == 0;

    *file = (struct cli_file){NULL, NULL, NULL};
    if (path[0] == '\0')
        return cli_check_name(command, "out", path);
    if (strcmp(path, "-") == 0) {
        file->stream = stdout;
        return KVC_OK;
    }
    if (there && S_ISDIR(about.st_mode))
        return cli_error(command, KVC_RESOURCE, "%s: is a directory; give a file name", path);
    file->path = strdup(path);
    if (!file->path)
        return cli_no_memory(command);
    if (there && !S_ISREG(about.st_mode)) {
        file->stream = fopen(path, "wb");
    } else {
        int descriptor;

        if (kvc_output_open(path, 0, &file->output, &error) != KVC_OK) {
            cli_file_abandon(file);
            return cli_report(command, &error);
        }
        descriptor = fcntl(kvc_output_descriptor(file->output), F_DUPFD_CLOEXEC, 0);
        if (descriptor >= 0 && !(file->stream = fdopen(descriptor, "wb")))
            close(descriptor);
    }
    if (!file->stream) {
        int failure = errno;

        cli_file_abandon(file);
        return cli_error(command, KVC_RESOURCE, "%s: cannot be written: %s", path, strerror(failure));
    }
    return KVC_OK;
}

void cli_file_abandon(struct cli_file *file) {
    if (file->stream && file->stream != stdout)
        fclose(file->stream);
    kvc_output_abandon(file->output);
    free(file->path);
    *file = (struct cli_file){NULL, NULL, NULL};
}

int cli_file_commit(const struct cli_command *command, struct cli_file *file) {
    struct kvc_error error;
    int status = KVC_OK, failure;
    bool good;

    if (file->stream == stdout) {
        *file = (struct cli_file){NULL, NULL, NULL};
        return cli_flush(command);
    }
    errno = 0;
    good = fflush(file->stream) == 0 && !ferror(file->stream);
    failure = errno;
    if (fclose(file->stream) != 0 && good) {
        good = false;
        failure = errno;
    }
    file->stream = NULL;
    if (!good) {
        status = cli_error(command, KVC_RESOURCE, "%s: cannot be written: %s", file->path,
                           failure ? strerror(failure) : "write error");
    } else if (file->output) {
        if (kvc_output_commit(file->output, &error) != KVC_OK)
            status = cli_report(command, &error);
        file->output = NULL;
    }
    cli_file_abandon(file);
    return status;
}

int cli_flush(const struct cli_command *command) {
    errno = 0;
    if (fflush(stdout) != 0 || ferror(stdout)) {
        int failure = errno;

        clearerr(stdout);
        if (failure == EPIPE) /* the reader closed the pipe, as in `kvcull info methods | head` */
            return KVC_RESOURCE;
        return cli_error(command, KVC_RESOURCE, "standard output: cannot be written: %s",
                         failure ? strerror(failure) : "write error");
    }
    return KVC_OK;
}

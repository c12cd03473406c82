/* hashes.c - reads and writes the file of hashes of ref's results, with which a backend can be checked without running
 * ref. Its lines are "arithmetic N"; "operation NAME CASES HASH"; "runs MODEL PROMPT STEPS TYPE", where MODEL is a hash
 * of the model's files; "method SPEC LOGITS KEPT READ", one line for each policy of these runs; and "end COUNT HASH",
 * where HASH covers all bytes before this line. */
#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/verify/verify.h"

static void hash_bytes(struct kvc_hash *hash, const char *bytes, size_t count) {
    float values[256];

    while (count > 0) {
        size_t part = cli_min(count, 256);

        for (size_t i = 0; i < part; i++)
            values[i] = (float)(unsigned char)bytes[i];
        kvc_hash_add(hash, values, part);
        bytes += part;
        count -= part;
    }
}

static int hash_of(const struct cli_command *command, const char *bytes, size_t count, uint64_t *value) {
    struct kvc_hash *hash = kvc_hash_open();

    if (!hash)
        return cli_no_memory(command);
    hash_bytes(hash, bytes, count);
    *value = kvc_hash_value(hash);
    kvc_hash_close(hash);
    return KVC_OK;
}

/* ---- the model --------------------------------------------------------------------------------------------------- */

static int hash_file(const struct cli_command *command, struct kvc_hash *hash, const char *path) {
    FILE *file = fopen(path, "rb");
    char bytes[65536];
    size_t n;
    int status = KVC_OK;

    while (file && (n = fread(bytes, 1, sizeof bytes, file)) > 0)
        hash_bytes(hash, bytes, n);
    if (!file || ferror(file))
        status = cli_error(command, KVC_INPUT, "%s: cannot be read", path);
    if (file)
        fclose(file);
    return status;
}

static int holds_weights(const struct dirent *entry) {
    const char *dot = strrchr(entry->d_name, '.');

    return strcmp(entry->d_name, "config.json") == 0 || (dot && strcmp(dot, ".safetensors") == 0);
}

int verify_model_hash(const struct cli_command *command, const char *path, uint64_t *value) {
    struct kvc_hash *hash = kvc_hash_open();
    struct dirent **names = NULL;
    struct stat about;
    int status = hash ? KVC_OK : cli_no_memory(command);

    if (status == KVC_OK && stat(path, &about) == 0 && S_ISDIR(about.st_mode)) {
        int count = scandir(path, &names, holds_weights, alphasort);

        for (int i = 0; i < count; i++) {
            char file[4096];

            if (status == KVC_OK && snprintf(file, sizeof file, "%s/%s", path, names[i]->d_name) < (int)sizeof file)
                status = hash_file(command, hash, file);
            free(names[i]);
        }
        free(names);
    } else if (status == KVC_OK) {
        status = hash_file(command, hash, path);
    }
    if (status == KVC_OK)
        *value = kvc_hash_value(hash);
    kvc_hash_close(hash);
    return status;
}

/* ---- entries ----------------------------------------------------------------------------------------------------- */

static int hashes_add(const struct cli_command *command, struct verify_hashes *hashes, bool method, const char *name,
                      uint64_t cases, const uint64_t hash[3]) {
    struct verify_entry *more = realloc(hashes->items, (hashes->count + 1) * sizeof *more);
    char *copy = strdup(name);

    if (more)
        hashes->items = more;
    if (!more || !copy) {
        free(copy);
        return cli_no_memory(command);
    }
    more[hashes->count++] = (struct verify_entry){method, copy, cases, {hash[0], hash[1], hash[2]}};
    return KVC_OK;
}

int verify_hashes_add(const struct cli_command *command, struct verify_hashes *hashes,
                      const struct kvc_verify_row *row) {
    const uint64_t hash[3] = {row->hash, row->kept_hash, row->read_hash};

    return hashes_add(command, hashes, strcmp(row->kind, "method") == 0, row->name, row->cases, hash);
}

enum verify_stored verify_hashes_find(const struct verify_hashes *hashes, const struct kvc_verify_row *row) {
    bool method = strcmp(row->kind, "method") == 0;

    for (size_t i = 0; i < hashes->count; i++) {
        const struct verify_entry *e = &hashes->items[i];

        if (e->method != method || strcmp(e->name, row->name) != 0 || (!method && e->cases != row->cases))
            continue;
        return e->hash[0] == row->hash && (!method || (e->hash[1] == row->kept_hash && e->hash[2] == row->read_hash))
                   ? VERIFY_EQUAL
                   : VERIFY_OTHER;
    }
    return VERIFY_MISSING;
}

void verify_hashes_free(struct verify_hashes *hashes) {
    for (size_t i = 0; i < hashes->count; i++)
        free(hashes->items[i].name);
    free(hashes->items);
    free(hashes->path);
    *hashes = (struct verify_hashes){.count = 0};
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

static const char renew[] = "make it again with `kvcull verify --write-hashes`, or use --against ref";

static int damaged(const struct cli_command *command, const struct verify_hashes *hashes, size_t line,
                   const char *what) {
    return cli_error(command, KVC_INPUT, "%s: line %zu: %s; %s", hashes->path, line, what, renew);
}

/* Checks by the "end" line that the file is complete and unchanged. */
static int check_end(const struct cli_command *command, const struct verify_hashes *hashes, const char *text,
                     size_t bytes) {
    const char *last = bytes > 1 && text[bytes - 1] == '\n' ? text + bytes - 1 : text;
    uint64_t want, have = 0;
    size_t lines = 0, count;
    int status;

    while (last > text && last[-1] != '\n')
        last--;
    for (const char *at = text; at < last; at++)
        lines += *at == '\n';
    if (sscanf(last, "end %zu %16" SCNx64, &count, &want) != 2)
        return damaged(command, hashes, lines + 1, "the file is cut off: must be its end");
    status = hash_of(command, text, (size_t)(last - text), &have);
    if (status == KVC_OK && (count != lines || have != want))
        return damaged(command, hashes, lines + 1, "the lines before it were changed");
    return status;
}

static int read_line(const struct cli_command *command, struct verify_hashes *hashes, const char *line, size_t number) {
    char name[300], type[KVC_ENTRY_TYPES_NAME];
    uint64_t hash[3] = {0, 0, 0}, cases;
    int arithmetic;

    if (line[0] == '#' || strncmp(line, "end ", 4) == 0)
        return KVC_OK;
    if (sscanf(line, "arithmetic %d", &arithmetic) == 1) {
        hashes->arithmetic = arithmetic;
        return KVC_OK;
    }
    if (sscanf(line, "operation %299s %" SCNu64 " %16" SCNx64, name, &cases, &hash[0]) == 3)
        return hashes_add(command, hashes, false, name, cases, hash);
    if (sscanf(line, "runs %16" SCNx64 " %" SCNd64 " %" SCNd64 " %31s", &hashes->model, &hashes->prompt, &hashes->steps,
               type) == 4 &&
        kvc_entry_types_from_name(type, &hashes->type))
        return KVC_OK;
    if (sscanf(line, "method %299s %16" SCNx64 " %16" SCNx64 " %16" SCNx64, name, &hash[0], &hash[1], &hash[2]) == 4)
        return hashes_add(command, hashes, true, name, 0, hash);
    return damaged(command, hashes, number, "must be arithmetic, operation, runs, method or end");
}

int verify_hashes_read(const struct cli_command *command, struct verify_hashes *hashes) {
    char *text = NULL, *line;
    size_t bytes, number = 0;
    int status = cli_data_path(command, "hashes.txt", &hashes->path);

    if (status == KVC_OK)
        status = cli_read_file(command, hashes->path, &text, &bytes);
    if (status == KVC_OK)
        status = check_end(command, hashes, text, bytes);
    for (line = text; status == KVC_OK && line && *line; number++) {
        char *end = strchr(line, '\n');

        if (end)
            *end = '\0';
        status = read_line(command, hashes, line, number + 1);
        line = end ? end + 1 : NULL;
    }
    free(text);
    if (status == KVC_OK && hashes->arithmetic != KVC_ARITHMETIC_VERSION)
        status = cli_error(command, KVC_INPUT, "%s: has hashes of arithmetic %d, the program has %d; %s", hashes->path,
                           hashes->arithmetic, KVC_ARITHMETIC_VERSION, renew);
    return status;
}

int verify_hashes_stale(const struct cli_command *command, const struct verify_hashes *hashes, const char *name) {
    return cli_error(command, KVC_INPUT, "%s: %s: the hash of ref's results differs from the stored one; %s",
                     hashes->path, name, renew);
}

static int write_lines(const struct cli_command *command, const struct verify_hashes *hashes, FILE *stream) {
    bool runs = false;

    fprintf(stream, "# Hashes of what ref computes, by kvcull verify --write-hashes\narithmetic %d\n",
            hashes->arithmetic);
    for (size_t i = 0; i < hashes->count; i++) {
        const struct verify_entry *e = &hashes->items[i];

        if (!e->method) {
            fprintf(stream, "operation %s %" PRIu64 " %016" PRIx64 "\n", e->name, e->cases, e->hash[0]);
            continue;
        }
        char type[KVC_ENTRY_TYPES_NAME];
        if (!runs)
            fprintf(stream, "runs %016" PRIx64 " %" PRId64 " %" PRId64 " %s\n", hashes->model, hashes->prompt,
                    hashes->steps, kvc_entry_types_name(hashes->type, type));
        runs = true;
        fprintf(stream, "method %s %016" PRIx64 " %016" PRIx64 " %016" PRIx64 "\n", e->name, e->hash[0], e->hash[1],
                e->hash[2]);
    }
    return ferror(stream) ? cli_no_memory(command) : KVC_OK;
}

int verify_hashes_write(const struct cli_command *command, const struct verify_hashes *hashes, const char *path) {
    struct cli_file file;
    char *text = NULL;
    size_t bytes = 0, lines = 0;
    uint64_t sum = 0;
    FILE *stream = open_memstream(&text, &bytes);
    int status = stream ? write_lines(command, hashes, stream) : cli_no_memory(command);

    if (stream && fclose(stream) != 0 && status == KVC_OK)
        status = cli_no_memory(command);
    if (status == KVC_OK)
        status = hash_of(command, text, bytes, &sum);
    if (status == KVC_OK)
        status = cli_file_open(command, path, &file);
    if (status == KVC_OK) {
        for (size_t i = 0; i < bytes; i++)
            lines += text[i] == '\n';
        fprintf(file.stream, "%send %zu %016" PRIx64 "\n", text, lines, sum);
        status = cli_file_commit(command, &file);
    }
    free(text);
    return status;
}

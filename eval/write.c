/* write.c - what tasks share: the likeliest token, and results as JSON and CSV in a folder. */
#include "eval/eval.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int32_t eval_likeliest(const float *logits, uint32_t vocab) {
    uint32_t best = 0;
    for (uint32_t t = 1; t < vocab; t++) {
        if (logits[t] > logits[best])
            best = t;
    }
    return (int32_t)best;
}

void eval_csv_text(FILE *stream, const char *text) {
    fputc('"', stream);
    for (const char *c = text; *c; c++)
        fprintf(stream, *c == '"' ? "\"\"" : "%c", *c);
    fputc('"', stream);
}

int eval_write(const struct cli_command *command, const char *folder, const char *name, json_t *json,
               void (*csv)(const void *task, FILE *stream), const void *task) {
    const size_t room = strlen(folder) + strlen(name) + 8;
    char *path = malloc(room);
    struct cli_file file;
    int status = path ? KVC_OK : cli_no_memory(command);
    if (status == KVC_OK && mkdir(folder, 0777) && errno != EEXIST)
        status = cli_error(command, KVC_RESOURCE, "--out %s: %s", folder, strerror(errno));
    for (int kind = 0; kind < 2 && status == KVC_OK; kind++) {
        snprintf(path, room, "%s/%s.%s", folder, name, kind ? "csv" : "json");
        status = cli_file_open(command, path, &file);
        if (status != KVC_OK)
            break;
        if (kind)
            csv(task, file.stream);
        else
            status = cli_json_print(command, json_incref(json), file.stream);
        if (status == KVC_OK)
            status = cli_file_commit(command, &file);
        else
            cli_file_abandon(&file);
    }
    json_decref(json);
    free(path);
    return status;
}

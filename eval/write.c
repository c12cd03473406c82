/* write.c - helpers of tasks: find the most likely token, and write results as JSON and CSV files in a folder. */
#include "eval/eval.h"

#include <stdlib.h>
#include <string.h>

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

/* Opens NAME.json and NAME.csv in the folder, which it creates if necessary. If `files` is NULL, only checks that they
 * can be opened. */
static int open_files(const struct cli_command *command, const char *folder, const char *name, struct kvc_output **made,
                      struct cli_file *files) {
    const size_t capacity = strlen(folder) + strlen(name) + 8;
    char *path = malloc(capacity);
    struct kvc_error error;
    int status = path ? KVC_OK : cli_no_memory(command);
    if (status == KVC_OK && kvc_output_folder(folder, made, &error) != KVC_OK)
        status = cli_error(command, KVC_RESOURCE, "--out %s", error.text);
    for (int kind = 0; kind < 2 && status == KVC_OK; kind++) {
        snprintf(path, capacity, "%s/%s.%s", folder, name, kind ? "csv" : "json");
        status = files ? cli_file_open(command, path, &files[kind]) : cli_check_output(command, path);
    }
    free(path);
    return status;
}

int eval_write_check(const struct cli_command *command, const char *folder, const char *name) {
    struct kvc_output *made = NULL;
    const int status = open_files(command, folder, name, &made, NULL);
    kvc_output_abandon(made);
    return status;
}

int eval_write(const struct cli_command *command, const char *folder, const char *name, json_t *json,
               void (*csv)(const void *task, FILE *stream), const void *task) {
    struct cli_file files[2] = {{NULL, NULL, NULL}, {NULL, NULL, NULL}};
    struct kvc_output *made = NULL;
    int status = open_files(command, folder, name, &made, files);
    if (status == KVC_OK)
        status = cli_json_print(command, json_incref(json), files[0].stream);
    if (status == KVC_OK)
        csv(task, files[1].stream);
    /* commits the file first that may be incomplete: if the disk is full, this commit fails, so neither file appears */
    const int first = status == KVC_OK && fflush(files[0].stream) == 0;
    for (int i = 0; i < 2 && status == KVC_OK; i++)
        status = cli_file_commit(command, &files[i ? !first : first]);
    for (int kind = 0; kind < 2; kind++)
        cli_file_abandon(&files[kind]);
    if (status == KVC_OK)
        kvc_output_commit(made, NULL);
    else
        kvc_output_abandon(made);
    json_decref(json);
    return status;
}

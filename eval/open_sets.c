/* open_sets.c - opens the data sets of the chosen tasks, and skips tasks whose file is missing in the folder. */
#include "eval/sets.h"
#include "eval/standard.h"

#include <stdlib.h>
#include <unistd.h>

bool eval_is_folder(int file) { return file >= EVAL_FOLDERS; }

/* Opens the set of a task for texts of `length` tokens. If the file is missing, sets *there to false and returns
 * KVC_OK, unless `alone`. */
static int open_one(struct eval_run *run, const struct eval_task *task, uint64_t length, bool alone, bool *there) {
    struct eval_set *set = &run->data.sets[run->data.set_count];
    struct kvc_error error;
    *there = eval_set_there(task, run->files[task->file], length);
    if (!*there && !alone)
        return KVC_OK;
    run->data.set_count++; /* also after a failure, so that it is closed */
    return eval_set_open(task, run->files[task->file], length, set, &error) == KVC_OK
               ? KVC_OK
               : cli_report(run->command, &error);
}

int eval_open_sets(struct eval_run *run) {
    size_t left = 0;
    int status = KVC_OK;
    run->data.sets = calloc(run->task_count * run->lengths.count + 1, sizeof *run->data.sets);
    if (!run->data.sets)
        return cli_no_memory(run->command);
    for (size_t t = 0; t < run->task_count && status == KVC_OK; t++) {
        const struct eval_task *task = run->tasks[t];
        const struct eval_set_form *form = task->form;
        const bool alone = left == 0 && t + 1 == run->task_count;
        bool there = true;
        if (eval_is_folder(task->file)) {
            const size_t lengths = form->sizes ? run->lengths.count : 1;
            for (size_t l = 0; l < lengths && status == KVC_OK && there; l++)
                status = open_one(run, task, run->lengths.items[l], alone, &there);
            if (!there && status == KVC_OK)
                cli_warn(run->command, "%s is skipped: --%s %s does not have its file", task->name,
                         eval_file_options[task->file], run->files[task->file]);
        }
        if (there)
            run->tasks[left++] = task;
    }
    run->task_count = left;
    return status;
}

const char *eval_whether_there(const struct eval_run *run, const struct eval_task *task) {
    const char *path = task->file >= 0 ? run->files[task->file] : NULL;
    if (!path)
        return "";
    const bool there =
        eval_is_folder(task->file) ? eval_set_there(task, path, run->lengths.items[0]) : access(path, F_OK) == 0;
    return there ? "there" : "missing";
}

uint64_t eval_samples_of(const struct eval_run *run, const struct eval_task *task, uint64_t length) {
    const struct eval_set *set = eval_set_of(&run->data, task, length);
    return cli_min((uint64_t)run->samples, set ? set->records.count : UINT64_MAX);
}

const char *eval_data_hash(const struct eval_run *run, const struct eval_task *task, uint64_t length) {
    const struct eval_set *set = eval_set_of(&run->data, task, length);
    if (set)
        return set->hash;
    return task->file >= 0 ? run->data_hash[task->file] : "";
}

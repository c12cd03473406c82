/* choose.c - which tasks and which share of the samples `kvcull eval` is asked for, and the files that they need. */
#include "eval/standard.h"

#include <stdlib.h>
#include <string.h>

static const char group[] = "ruler"; /* all tasks that have no options of their own */

/* The task nearest to a mistyped name, or none. */
static int unknown(const struct eval_run *run, const char *name) {
    const char *names[64];
    size_t count = 0;
    names[count++] = group;
    for (const struct eval_task *task = eval_tasks; task->name && count < 63; task++)
        names[count++] = task->name;
    names[count] = NULL;
    const char *near = cli_nearest(name, names);
    if (near)
        return cli_error(run->command, KVC_USAGE, "%s: no such task; did you mean %s?", name, near);
    return cli_error(run->command, KVC_USAGE, "%s: no such task; `kvcull eval --list` lists them", name);
}

static void add_task(struct eval_run *run, const struct eval_task *task) {
    for (size_t i = 0; i < run->task_count; i++) {
        if (run->tasks[i] == task)
            return;
    }
    if (task->file >= 0 && !run->files[task->file]) {
        cli_warn(run->command, "%s is left out: it needs --%s FILE", task->name, eval_file_options[task->file]);
        return;
    }
    run->tasks[run->task_count++] = task;
}

int eval_choose_tasks(struct eval_run *run, const struct cli_words *names) {
    size_t all = 0;
    while (eval_tasks[all].name)
        all++;
    if (names->count == 0)
        return cli_error(run->command, KVC_USAGE, "no task; `kvcull eval --list` lists them");
    run->tasks = calloc(all, sizeof *run->tasks);
    if (!run->tasks)
        return cli_no_memory(run->command);
    for (size_t i = 0; i < names->count; i++) {
        const struct eval_task *task = eval_task_find(names->items[i]);
        const bool whole = strcmp(names->items[i], group) == 0;
        if (!task && !whole)
            return unknown(run, names->items[i]);
        if (task && task->way)
            return cli_error(run->command, KVC_USAGE, "%s has options of its own and goes alone: %s", task->name,
                             task->way);
        if (task)
            add_task(run, task);
        for (task = eval_tasks; whole && task->name; task++) {
            if (!task->way)
                add_task(run, task);
        }
    }
    if (run->task_count == 0)
        return cli_error(run->command, KVC_USAGE, "no task is left that has the file it needs");
    return KVC_OK;
}

int eval_choose_shard(struct eval_run *run) {
    const char *text = run->shard;
    char *end = NULL;
    unsigned long index = 1, count = 1;
    if (text) {
        index = text[0] >= '0' && text[0] <= '9' ? strtoul(text, &end, 10) : 0;
        count = end && *end == '/' && end[1] >= '0' && end[1] <= '9' ? strtoul(end + 1, &end, 10) : 0;
        if (!end || *end || index < 1 || index > count || count > 1000000)
            return cli_error(run->command, KVC_USAGE,
                             "--shard %s: takes i/n, the i-th of n shares of the samples, i from 1 to n, as 3/8", text);
    }
    run->shard_index = index - 1;
    run->shards = count;
    run->sides[0] = strcmp(run->question, "unseen") != 0;
    run->sides[1] = strcmp(run->question, "seen") != 0;
    return KVC_OK;
}

static enum kvc_status read_one(struct eval_run *run, int file, const char *text, size_t bytes,
                                struct kvc_error *error) {
    const char *path = run->files[file];
    if (file == EVAL_ESSAYS)
        return eval_essays_read(path, text, bytes, &run->data.essays, error);
    if (file == EVAL_SQUAD)
        return eval_squad_read(path, text, bytes, &run->data.questions[file], error);
    return eval_hotpotqa_read(path, text, bytes, &run->data.questions[file], error);
}

int eval_read_files(struct eval_run *run) {
    int status = KVC_OK;
    for (int file = 0; file < EVAL_FILES && status == KVC_OK; file++) {
        struct kvc_error error;
        char *text;
        size_t bytes;
        bool needed = false;
        for (size_t i = 0; i < run->task_count; i++)
            needed = needed || run->tasks[i]->file == file;
        if (!needed)
            continue;
        status = cli_read_file(run->command, run->files[file], &text, &bytes);
        if (status != KVC_OK)
            return status;
        if (read_one(run, file, text, bytes, &error) != KVC_OK)
            status = cli_report(run->command, &error);
        snprintf(run->data_hash[file], sizeof run->data_hash[file], "%016llx",
                 (unsigned long long)eval_hash(0, text, bytes));
        free(text);
        const size_t questions = run->data.questions[file].count;
        if (status == KVC_OK && file != EVAL_ESSAYS && (uint64_t)run->samples > questions)
            status = cli_error(run->command, KVC_USAGE, "--samples %lld: --%s %s has %zu questions",
                               (long long)run->samples, eval_file_options[file], run->files[file], questions);
    }
    return status;
}

/* choose.c - determines which tasks and which shard of the samples to run, and reads the files that the tasks need. */
#include "eval/needle_text.h"
#include "eval/standard.h"
#include "kvcull/ranks.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static size_t count_tasks(void) {
    size_t count = 0;
    while (eval_tasks[count].name)
        count++;
    return count;
}

static bool is_group(const struct eval_task *task, const char *name) {
    return task->group && strcmp(task->group, name) == 0;
}

/* Reports an unknown name, with the most similar name of a task or group. */
static int choose_unknown(const struct eval_run *run, const char *name) {
    const char **names = calloc(2 * count_tasks() + 1, sizeof *names);
    size_t count = 0;
    if (!names)
        return cli_no_memory(run->command);
    for (const struct eval_task *task = eval_tasks; task->name; task++) {
        names[count++] = task->name;
        if (task->group)
            names[count++] = task->group;
    }
    const char *near = cli_nearest(name, names);
    free(names);
    if (near)
        return cli_error(run->command, KVC_USAGE, "%s: no such task; did you mean %s?", name, near);
    return cli_error(run->command, KVC_USAGE, "%s: no such task; `kvcull eval --list` lists them", name);
}

static void add_task(struct eval_run *run, const struct eval_task *task) {
    for (size_t i = 0; i < run->task_count; i++) {
        if (run->tasks[i] == task)
            return;
    }
    if (task->file >= 0 && !task->optional && !run->files[task->file]) {
        cli_warn(run->command, "%s is skipped: it needs --%s FILE", task->name, eval_file_options[task->file]);
        return;
    }
    run->tasks[run->task_count++] = task;
}

int eval_choose_tasks(struct eval_run *run, const struct cli_words *names) {
    if (names->count == 0)
        return cli_error(run->command, KVC_USAGE, "no task; `kvcull eval --list` lists them");
    run->tasks = calloc(count_tasks(), sizeof *run->tasks);
    if (!run->tasks)
        return cli_no_memory(run->command);
    if (!run->files[EVAL_TEXT])
        run->files[EVAL_TEXT] = run->files[EVAL_ESSAYS];
    for (size_t i = 0; i < names->count; i++) {
        const struct eval_task *task = eval_task_find(names->items[i]);
        bool known = task != NULL;
        if (task && task->way)
            return cli_error(run->command, KVC_USAGE, "%s has its own options; run it as %s", task->name, task->way);
        if (task)
            add_task(run, task);
        for (task = eval_tasks; task->name; task++) {
            if (is_group(task, names->items[i])) {
                known = true;
                add_task(run, task);
            }
        }
        if (!known)
            return choose_unknown(run, names->items[i]);
    }
    if (run->task_count == 0)
        return cli_error(run->command, KVC_USAGE,
                         "every task was skipped, because the files that they need were not given");
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
            return cli_error(run->command, KVC_USAGE, "--shard %s: must be I/N with I from 1 to N, such as 3/8", text);
    }
    struct kvc_ranks *ranks = cli_data_ranks();
    if (ranks && text)
        return cli_error(run->command, KVC_USAGE,
                         "--shard %s: not with --ranks data, which divides the samples among the ranks", text);
    if (ranks) {
        index = kvc_ranks_rank(ranks) + 1;
        count = kvc_ranks_count(ranks);
        run->common.quiet = run->common.quiet || index > 1;
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
    if (file == EVAL_HOTPOTQA)
        return eval_hotpotqa_read(path, text, bytes, &run->data.questions[file], error);
    if (file == EVAL_WORDS) { /* needle_words_open opens this file later */
        run->data.words = calloc(1, sizeof *run->data.words);
        return run->data.words ? KVC_OK : kvc_fail(error, KVC_RESOURCE, "no memory left");
    }
    run->data.text = malloc(bytes + 1);
    if (!run->data.text)
        return kvc_fail(error, KVC_RESOURCE, "no memory left");
    memcpy(run->data.text, text, bytes);
    run->data.text_bytes = bytes;
    return KVC_OK;
}

/* Checks that a file has enough questions for the samples of each task. */
static int check_questions(const struct eval_run *run, int file) {
    const size_t questions = run->data.questions[file].count;
    for (size_t i = 0; i < run->task_count; i++) {
        const struct eval_task *task = run->tasks[i];
        const uint64_t each = eval_task_questions(task);
        if (task->file != file || (uint64_t)run->samples <= questions / each)
            continue;
        if (each == 1)
            return cli_error(run->command, KVC_USAGE, "--samples %lld: --%s %s has only %zu questions",
                             (long long)run->samples, eval_file_options[file], run->files[file], questions);
        return cli_error(
            run->command, KVC_USAGE, "--samples %lld: --%s %s has %zu questions, and each sample of %s needs %u",
            (long long)run->samples, eval_file_options[file], run->files[file], questions, task->name, (unsigned)each);
    }
    return KVC_OK;
}

int eval_read_files(struct eval_run *run) {
    int status = KVC_OK;
    for (int file = 0; file < EVAL_FILES && status == KVC_OK; file++) {
        struct kvc_error error;
        char *text;
        size_t bytes;
        bool wanted = false;
        for (size_t i = 0; i < run->task_count; i++)
            wanted = wanted || run->tasks[i]->file == file;
        if (file == EVAL_WORDS && wanted && !run->files[file] && run->model_path) {
            status = needle_words_path(run->command, run->model_path, &run->words_path);
            run->files[file] = run->words_path;
        }
        if (status != KVC_OK || !wanted || !run->files[file])
            continue;
        status = cli_read_file(run->command, run->files[file], &text, &bytes);
        if (status != KVC_OK)
            return status;
        if (read_one(run, file, text, bytes, &error) != KVC_OK)
            status = cli_report(run->command, &error);
        snprintf(run->data_hash[file], sizeof run->data_hash[file], "%016llx",
                 (unsigned long long)eval_hash(0, text, bytes));
        free(text);
        if (status == KVC_OK && file == EVAL_WORDS)
            status = needle_words_open(run->command, run->files[file], run->data.words);
        if (status == KVC_OK && (file == EVAL_SQUAD || file == EVAL_HOTPOTQA))
            status = check_questions(run, file);
    }
    return status;
}

const char *eval_whether_there(const struct eval_run *run, const struct eval_task *task) {
    const char *path = task->file >= 0 ? run->files[task->file] : NULL;
    if (!path)
        return "";
    return access(path, F_OK) == 0 ? "there" : "missing";
}

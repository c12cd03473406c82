/* sets.c - opens benchmark data sets, and converts records to samples. */
#include "eval/sets.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "eval/prompt.h"

enum { SIZED_BYTES = 400 };

static enum kvc_status no_memory(struct kvc_error *error) { return kvc_fail(error, KVC_RESOURCE, "no memory left"); }

char *eval_set_find(const char *folder, const char *files) {
    for (const char *file = files; *file;) {
        const size_t bytes = strcspn(file, "|");
        struct eval_text path = {0};
        eval_add(&path, "%s/%.*s", folder, (int)bytes, file);
        char *found = eval_text_take(&path);
        if (!found || access(found, F_OK) == 0)
            return found;
        free(found);
        file += bytes + (file[bytes] == '|');
    }
    return NULL;
}

/* Replaces # in the form's files by a size: the size for the largest of 8192, 16384, ... tokens that does not exceed
 * the length. */
static void put_size(const struct eval_set_form *form, uint64_t length, char text[SIZED_BYTES]) {
    const char *size = form->sizes ? form->sizes : "";
    size_t n = 0, bytes = strcspn(size, "|");
    for (uint64_t tokens = 16384; tokens <= length && size[bytes] == '|'; tokens *= 2) {
        size += bytes + 1;
        bytes = strcspn(size, "|");
    }
    text[0] = '\0';
    for (const char *c = form->files; *c && n + bytes + 2 < SIZED_BYTES; c++)
        n += (size_t)snprintf(text + n, SIZED_BYTES - n, "%.*s", *c == '#' ? (int)bytes : 1, *c == '#' ? size : c);
}

bool eval_set_there(const struct eval_task *task, const char *folder, uint64_t length) {
    char files[SIZED_BYTES];
    put_size(task->form, length, files);
    char *path = eval_set_find(folder, files);
    const bool there = path != NULL;
    free(path);
    return there;
}

/* Finds the first existing file. The error names all possible places. */
static enum kvc_status sets_find(const char *option, const char *folder, const char *files, char **path,
                                 struct kvc_error *error) {
    char places[200];
    size_t n = 0;
    if (access(folder, F_OK) != 0)
        return kvc_fail(error, KVC_INPUT, "--%s %s: cannot be opened: %s", option, folder, strerror(errno));
    *path = eval_set_find(folder, files);
    if (*path)
        return KVC_OK;
    for (const char *c = files; *c && n + 8 < sizeof places; c++) {
        n += (size_t)snprintf(places + n, sizeof places - n, *c == '|' ? " or " : "%c", *c);
    }
    places[cli_min(n, sizeof places - 1)] = '\0';
    return kvc_fail(error, KVC_INPUT, "--%s %s: does not contain %s", option, folder, places);
}

/* ---- prompts ---- */

static bool ends_in(const char *path, const char *end) {
    const size_t bytes = strlen(path), end_bytes = strlen(end);
    return bytes >= end_bytes && strcmp(path + bytes - end_bytes, end) == 0;
}

/* Reads a file of at most 1 MiB. */
static enum kvc_status read_small(const char *option, const char *path, char **text, size_t *bytes,
                                  struct kvc_error *error) {
    enum { MOST = 1 << 20 };
    FILE *file = fopen(path, "rb");
    *text = malloc(MOST + 1);
    *bytes = 0;
    if (file && *text)
        *bytes = fread(*text, 1, MOST + 1, file);
    const bool failed = !file || ferror(file);
    if (file)
        fclose(file);
    if (!*text)
        return no_memory(error);
    if (failed || *bytes > MOST)
        return kvc_fail(error, KVC_INPUT, "--%s: %s: %s", option, path,
                        failed ? strerror(errno) : "prompt files must not exceed 1 MiB");
    (*text)[*bytes] = '\0';
    for (size_t i = 0, n; i < *bytes; i += n) {
        n = cli_character(*text + i, *bytes - i);
        if (n == 0 || (*text)[i] == '\0')
            return kvc_fail(error, KVC_INPUT, "--%s: %s: byte %zu: not UTF-8; the file must be a text in UTF-8", option,
                            path, i);
    }
    return KVC_OK;
}

/* Extracts the block under "USER_PROMPT: |-" of a YAML file, without its indentation, in place. */
static bool yaml_prompt(char *text) {
    static const char key[] = "USER_PROMPT: |-\n";
    const char *at = strstr(text, key);
    char *to = text;
    if (!at)
        return false;
    at += sizeof key - 1;
    while (strncmp(at, "  ", 2) == 0 || *at == '\n') {
        const size_t skip = *at == '\n' ? 0 : 2, bytes = strcspn(at + skip, "\n");
        const bool more = at[skip + bytes] == '\n';
        memmove(to, at + skip, bytes);
        to += bytes;
        at += skip + bytes + more;
        *to++ = '\n';
        if (!more)
            break;
    }
    while (to > text && to[-1] == '\n')
        to--;
    *to = '\0';
    return to > text;
}

static enum kvc_status read_prompts(const char *option, const char *folder, struct eval_set *set, uint64_t *hash,
                                    struct kvc_error *error) {
    const struct eval_set_form *form = set->task->form;
    json_error_t where;
    char *path = NULL, *text = NULL;
    size_t bytes;
    enum kvc_status status = sets_find(option, folder, form->prompts, &path, error);
    if (status == KVC_OK)
        status = read_small(option, path, &text, &bytes, error);
    if (status == KVC_OK)
        *hash = eval_hash(*hash, text, bytes);
    if (status == KVC_OK && ends_in(path, ".json")) {
        set->prompts = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &where);
        const json_t *prompt = json_object_get(set->prompts, form->name);
        if (cli_json_lost())
            status = no_memory(error);
        else if (!set->prompts)
            status = kvc_fail(error, KVC_INPUT, "--%s: %s: line %d: not JSON", option, path, where.line);
        else if (!json_is_string(prompt))
            status = kvc_fail(error, KVC_INPUT, "--%s: %s: no text \"%s\", which is the prompt of %s", option, path,
                              form->name, set->task->name);
        else
            set->prompt_text = strdup(json_string_value(prompt));
        if (status == KVC_OK && !set->prompt_text)
            status = no_memory(error);
    } else if (status == KVC_OK) {
        if (ends_in(path, ".yaml") && !yaml_prompt(text))
            status = kvc_fail(error, KVC_INPUT, "--%s: %s: no \"USER_PROMPT: |-\" with a text below", option, path);
        set->prompt_text = text;
        text = NULL;
    }
    free(text);
    free(path);
    return status;
}

/* ---- sets ---- */

/* Converts every record once, so that errors appear before a long computation. */
static enum kvc_status check_all(const struct eval_set *set, struct kvc_error *error) {
    const struct eval_set_form *form = set->task->form;
    enum kvc_status status = KVC_OK;
    for (size_t i = 0; i < set->records.count && status == KVC_OK; i++) {
        struct eval_row row = {&set->records, i, NULL, error, KVC_OK};
        struct eval_sample sample = {0};
        status = eval_records_read(&set->records, i, &row.object, error);
        if (status == KVC_OK)
            status = form->make(set, &row, &sample);
        eval_sample_free(&sample);
        json_decref(row.object);
    }
    return status;
}

enum kvc_status eval_set_open(const struct eval_task *task, const char *folder, uint64_t length, struct eval_set *set,
                              struct kvc_error *error) {
    const struct eval_set_form *form = task->form;
    const char *option = eval_file_options[task->file];
    char *path = NULL, *demos = NULL, files[SIZED_BYTES];
    uint64_t hash = 0;
    *set = (struct eval_set){.task = task, .length = form->sizes ? length : 0, .folder = folder};
    put_size(form, length, files);
    enum kvc_status status = sets_find(option, folder, files, &path, error);
    if (status == KVC_OK && form->prompts)
        status = read_prompts(option, folder, set, &hash, error);
    if (status == KVC_OK)
        status = eval_records_open(option, path, &set->records, error);
    if (status == KVC_OK && form->demos)
        status = sets_find(option, folder, form->demos, &demos, error);
    if (status == KVC_OK && form->demos)
        status = eval_records_open(option, demos, &set->demos, error);
    free(path);
    free(demos);
    if (status != KVC_OK)
        return status;
    hash = eval_hash(hash, &set->records.hash, sizeof set->records.hash);
    hash = eval_hash(hash, &set->demos.hash, sizeof set->demos.hash);
    snprintf(set->hash, sizeof set->hash, "%016llx", (unsigned long long)hash);
    set->rows = calloc(set->records.count, sizeof *set->rows);
    return set->rows ? check_all(set, error) : no_memory(error);
}

void eval_set_close(struct eval_set *set) {
    for (size_t i = 0; set->rows && i < set->records.count; i++)
        json_decref(set->rows[i]);
    free(set->rows);
    free(set->prompt_text);
    json_decref(set->prompts);
    eval_records_close(&set->records);
    eval_records_close(&set->demos);
    *set = (struct eval_set){0};
}

const struct eval_set *eval_set_of(const struct eval_data *data, const struct eval_task *task, uint64_t length) {
    for (size_t i = 0; i < data->set_count; i++) {
        if (data->sets[i].task == task && (data->sets[i].length == 0 || data->sets[i].length == length))
            return &data->sets[i];
    }
    return NULL;
}

/* ---- samples ---- */

enum kvc_status eval_make_record(struct eval_maker *maker, struct eval_sample *sample, struct kvc_error *error) {
    const struct eval_set *set = eval_set_of(maker->data, maker->task, maker->length);
    const struct eval_set_form *form = maker->task->form;
    struct eval_row row = {NULL, (size_t)maker->index, NULL, error, KVC_OK};
    if (!set || maker->index >= set->records.count)
        return kvc_fail(error, KVC_USAGE, "%s has %zu records; --samples must not exceed them", maker->task->name,
                        set ? set->records.count : 0);
    row.from = &set->records;
    enum kvc_status status = eval_records_read(&set->records, row.index, &row.object, error);
    if (status == KVC_OK)
        status = form->make(set, &row, sample);
    if (status == KVC_OK && !set->rows[row.index]) {
        json_object_del(row.object, "context");
        set->rows[row.index] = json_incref(row.object);
    }
    for (size_t i = 0; status == KVC_OK && i < sample->count; i++)
        sample->asked[i].row = set->rows[row.index];
    json_decref(row.object);
    return status;
}

enum kvc_status eval_set_sample(const struct eval_set *set, struct eval_row *row, const char *template, bool dollars,
                                const struct eval_field *fields, size_t count, const char *split, const char *opening,
                                const json_t *answers, struct eval_sample *sample) {
    struct eval_text context = {0}, question = {0}, begun = {0};
    char where[160];
    if (row->status != KVC_OK)
        return row->status;
    snprintf(where, sizeof where, "--%s: the prompt of %s", row->from->option, set->task->name);
    enum kvc_status status = eval_fill(where, template, dollars, fields, count, split, &context, &question, row->error);
    struct eval_asked *asked = status == KVC_OK ? eval_sample_ask(sample) : NULL;
    bool fine = asked != NULL;
    for (size_t i = 0; i < eval_texts_count(answers) && fine; i++)
        fine = eval_asked_answer(asked, eval_text_at(answers, i));
    eval_add(&begun, "%s", opening);
    if (asked)
        fine = eval_asked_end(asked, &question, &begun) && fine;
    free(question.bytes);
    free(begun.bytes);
    if (status == KVC_OK)
        return eval_sample_end(sample, &context, fine, row->error);
    free(context.bytes);
    return status;
}

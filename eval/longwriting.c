/* longwriting.c - tasks with long answers: LongWriter's length (github.com/THUDM/LongWriter), LongGenBench's pieces
 * (github.com/mozhu621/LongGenBench), and LongProc's procedures (github.com/princeton-pli/LongProc). LongProc's prompts
 * are files. */
#include "eval/metrics.h"
#include "eval/sets.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_WORDS = 1000000, MOST_PIECES = 100000 };

static enum kvc_status no_memory(struct eval_row *row) {
    if (row->status == KVC_OK)
        row->status = kvc_fail(row->error, KVC_RESOURCE, "no memory left");
    return row->status;
}

/* ---- LongWriter: {"prompt", "length": requested words} ---- */

enum kvc_status eval_longwriter_make(const struct eval_set *set, struct eval_row *row, struct eval_sample *sample) {
    const struct eval_field field = {"prompt", eval_row_words(row, "prompt")};
    int64_t length;
    eval_row_number(row, "length", 1, MOST_WORDS, &length);
    return eval_set_sample(set, row, "{prompt}", false, &field, 1, "prompt", "", NULL, sample);
}

double eval_score_length(const struct eval_asked *asked, const char *answer) {
    return eval_length(answer, (uint64_t)json_integer_value(json_object_get(asked->row, "length")));
}

/* ---- LongGenBench: {"prompt", "prefix": beginning of the answer, "type", "number": of pieces} ---- */

enum kvc_status eval_longgenbench_make(const struct eval_set *set, struct eval_row *row, struct eval_sample *sample) {
    const char *prompt = eval_row_words(row, "prompt"), *prefix = eval_row_text(row, "prefix");
    const size_t bytes = prompt ? strlen(prompt) : 0, end = prefix ? strlen(prefix) : 0;
    const bool ends = prompt && prefix && end < bytes && strcmp(prompt + bytes - end, prefix) == 0;
    int64_t number;
    char *front = strndup(prompt ? prompt : "", ends ? bytes - end : bytes);
    const struct eval_field field = {"prompt", front};
    eval_row_words(row, "type");
    eval_row_number(row, "number", 1, MOST_PIECES, &number);
    if (!front)
        no_memory(row);
    const enum kvc_status status =
        eval_set_sample(set, row, "{prompt}", false, &field, 1, "prompt", ends ? prefix : "", NULL, sample);
    free(front);
    return status;
}

double eval_score_completion(const struct eval_asked *asked, const char *answer) {
    const json_t *row = asked->row;
    const char *prefix = json_string_value(json_object_get(row, "prefix")), *end = strstr(answer, "*** finished");
    struct eval_text whole = {0};
    eval_add(&whole, "%s%s", prefix, answer);
    if (end && !whole.lost)
        whole.bytes[strlen(prefix) + (size_t)(end - answer)] = '\0';
    char *text = eval_text_take(&whole);
    const double score = text ? eval_completion(text, json_string_value(json_object_get(row, "type")),
                                                (uint32_t)json_integer_value(json_object_get(row, "number")))
                              : -1;
    free(text);
    return score;
}

/* ---- LongProc ---- */

/* {"context_nl": the cities, "question_repr": [from, to, ...], "answer_nl": the route} */
enum kvc_status eval_longproc_route(const struct eval_set *set, struct eval_row *row, struct eval_sample *sample) {
    const json_t *ends = eval_row_texts(row, "question_repr", 2, false);
    const struct eval_field fields[] = {{"city_context", eval_row_words(row, "context_nl")},
                                        {"src_city", ends ? eval_text_at(ends, 0) : NULL},
                                        {"dst_city", ends ? eval_text_at(ends, 1) : NULL}};
    eval_row_words(row, "answer_nl");
    return eval_set_sample(set, row, set->prompt_text, false, fields, 3, "city_context", "",
                           json_object_get(row->object, "answer_nl"), sample);
}

/* {"story_components", "story", "question", "solution"} */
enum kvc_status eval_longproc_beliefs(const struct eval_set *set, struct eval_row *row, struct eval_sample *sample) {
    const struct eval_field fields[] = {{"story", eval_row_words(row, "story")},
                                        {"question", eval_row_words(row, "question")},
                                        {"story_components", eval_row_text(row, "story_components")}};
    eval_row_words(row, "solution");
    return eval_set_sample(set, row, set->prompt_text, false, fields, 3, "story", "",
                           json_object_get(row->object, "solution"), sample);
}

/* Reads the page that a record names. Accepts only UTF-8 files of at most 16 MiB in the folder. malloc'ed; NULL: an
 * error. */
static char *read_page(const struct eval_set *set, struct eval_row *row) {
    enum { MOST = 16 << 20 };
    const char *name = eval_row_words(row, "html_path");
    struct eval_text places = {0};
    if (name && (name[0] == '/' || strstr(name, "..") || strlen(name) > 200 || strpbrk(name, "|\\"))) {
        eval_row_wrong(row, "html_path", "the name of a file in the folder");
        return NULL;
    }
    if (!name)
        return NULL;
    eval_add(&places, "data/html_to_tsv/%s|html_to_tsv/%s|%s", name, name, name);
    char *files = eval_text_take(&places), *path = files ? eval_set_find(set->folder, files) : NULL;
    FILE *file = path ? fopen(path, "rb") : NULL;
    char *text = file ? malloc(MOST + 1) : NULL;
    const size_t bytes = text ? fread(text, 1, MOST + 1, file) : 0;
    bool fine = file && text && bytes <= MOST && !ferror(file);
    for (size_t i = 0, n; fine && i < bytes; i += n) {
        n = cli_character(text + i, bytes - i);
        fine = n > 0 && text[i] != '\0';
    }
    if (file)
        fclose(file);
    if (!files || (file && !text))
        no_memory(row);
    else if (!fine)
        eval_row_wrong(row, "html_path", "an existing UTF-8 file of at most 16 MiB");
    else
        text[bytes] = '\0';
    free(files);
    free(path);
    if (row->status == KVC_OK)
        return text;
    free(text);
    return NULL;
}

/* {"html_path", "task_topic", "task_description", "filtering_instruction", "tsv_header", "gt": the table} */
enum kvc_status eval_longproc_table(const struct eval_set *set, struct eval_row *row, struct eval_sample *sample) {
    char *page = read_page(set, row);
    const struct eval_field fields[] = {{"html_str", page},
                                        {"task_topic", eval_row_text(row, "task_topic")},
                                        {"task_description", eval_row_text(row, "task_description")},
                                        {"filtering_instruction", eval_row_text(row, "filtering_instruction")},
                                        {"tsv_header", eval_row_words(row, "tsv_header")}};
    eval_row_words(row, "gt");
    const enum kvc_status status = eval_set_sample(set, row, set->prompt_text, false, fields, 5, "html_str", "",
                                                   json_object_get(row->object, "gt"), sample);
    free(page);
    return status;
}

/* Reads the four numbers and the target. */
static bool read_numbers(struct eval_row *row, int64_t numbers[4], int64_t *target) {
    enum { MOST = 1000000 };
    const json_t *list = eval_row_list(row, "nums", 4);
    eval_row_number(row, "target", 0, MOST, target);
    for (size_t i = 0; i < 4 && list; i++) {
        const json_t *number = json_array_get(list, i);
        numbers[i] = json_integer_value(number);
        if (!json_is_integer(number) || numbers[i] < 0 || numbers[i] > MOST || json_array_size(list) != 4)
            eval_row_wrong(row, "nums", "a list of four whole numbers");
    }
    return row->status == KVC_OK;
}

static void add_numbers(const int64_t numbers[4], struct eval_text *text) {
    for (size_t i = 0; i < 4; i++)
        eval_add(text, "%s%lld%s", i ? ", " : "[", (long long)numbers[i], i == 3 ? "]" : "");
}

/* Adds an earlier record's demonstration as an example. Wraps around at the first record. */
static void add_search(const struct eval_set *set, struct eval_row *row, size_t back, struct eval_text *text) {
    static const char head[] = "<Search Procedure>";
    const size_t count = set->records.count;
    struct eval_row one = {&set->records, (row->index + count - back % count) % count, NULL, row->error, row->status};
    int64_t numbers[4], target;
    if (one.status == KVC_OK)
        one.status = eval_records_read(one.from, one.index, &one.object, row->error);
    const char *shown = one.status == KVC_OK ? eval_row_words(&one, "demonstration") : NULL;
    if (shown && read_numbers(&one, numbers, &target)) {
        const bool marked = strncmp(shown, head, sizeof head - 1) == 0;
        eval_add(text, "# Example\nNumbers: ");
        add_numbers(numbers, text);
        eval_add(text, "\nTarget: %lld\n\n%s%s%s", (long long)target, marked ? "# Search Procedure" : "",
                 shown + (marked ? sizeof head - 1 : 0), back > 1 ? "\n\n" : "");
    }
    row->status = one.status;
    json_decref(one.object);
}

/* {"nums": [4 numbers], "target", "demonstration"}. The two previous records are the examples. */
enum kvc_status eval_longproc_countdown(const struct eval_set *set, struct eval_row *row, struct eval_sample *sample) {
    struct eval_text examples = {0}, list = {0};
    int64_t numbers[4] = {0}, target = 0;
    char text[24];
    eval_row_words(row, "demonstration");
    if (read_numbers(row, numbers, &target)) {
        add_search(set, row, 2, &examples);
        add_search(set, row, 1, &examples);
    }
    add_numbers(numbers, &list);
    snprintf(text, sizeof text, "%lld", (long long)target);
    char *texts[] = {eval_text_take(&examples), eval_text_take(&list)};
    const struct eval_field fields[] = {{"demonstration", texts[0]}, {"nums", texts[1]}, {"target", text}};
    if (!texts[0] || !texts[1])
        no_memory(row);
    const enum kvc_status status =
        eval_set_sample(set, row, set->prompt_text, false, fields, 3, "demonstration", "", NULL, sample);
    free(texts[0]);
    free(texts[1]);
    return status;
}

double eval_score_route(const struct eval_asked *asked, const char *answer) {
    return eval_route(answer, asked->answers[0], NULL);
}

double eval_score_beliefs(const struct eval_asked *asked, const char *answer) {
    return eval_beliefs(answer, asked->answers[0], NULL);
}

double eval_score_table(const struct eval_asked *asked, const char *answer) {
    return eval_table(answer, asked->answers[0]);
}

double eval_score_countdown(const struct eval_asked *asked, const char *answer) {
    const json_t *list = json_object_get(asked->row, "nums");
    int64_t numbers[4];
    for (size_t i = 0; i < 4; i++)
        numbers[i] = json_integer_value(json_array_get(list, i));
    return eval_countdown(answer, numbers, json_integer_value(json_object_get(asked->row, "target")));
}

/* needle_results.c - prints the results of `kvcull eval needle` as tables, JSON and CSV. */
#include "eval/needle.h"

#include <string.h>

const char *const needle_modes[] = {"one", "answer", "turns", "both"};

struct needle_cell *needle_cell_at(const struct needle_task *task, size_t length, size_t spec) {
    return &task->cells[length * task->specs.count + spec];
}

/* Splits "morphkv:budget=128,every=8" into method "morphkv:every=8" and budget "128". */
static void split_budget(const char *spec, char *method, char *budget, size_t capacity) {
    const char *found = strstr(spec, "budget=");
    size_t start = found ? (size_t)(found - spec) : strlen(spec), end = start;
    snprintf(budget, capacity, "-");
    if (found) {
        const size_t length = strcspn(found + 7, ",+");
        snprintf(budget, capacity, "%.*s", (int)length, found + 7);
        end = start + 7 + length;
        if (spec[end] == ',')
            end++;
        else if (start > 0)
            start--;
    }
    snprintf(method, capacity, "%.*s%s", (int)start, spec, spec + end);
}

static double needle_results_share(uint64_t part, uint64_t whole) { return whole ? (double)part / (double)whole : 0; }

static void totals(const struct needle_task *task, const struct needle_cell *cell, uint64_t *asked, uint64_t *right,
                   uint64_t *unseen) {
    *asked = *right = *unseen = 0;
    for (int64_t f = 0; f < task->depth_count; f++) {
        *asked += cell->asked[f];
        *right += cell->right[f];
        *unseen += cell->unseen[f];
    }
}

int needle_print_length(const struct needle_task *task, size_t length) {
    const bool both = task->mode == NEEDLE_BOTH;
    char headings[400] = "<method|budget";
    for (int64_t f = 0; f < task->depth_count; f++) {
        const size_t used = strlen(headings);
        snprintf(headings + used, sizeof headings - used, "|%.0f%%", 100 * task->depths[f]);
    }
    const size_t used = strlen(headings);
    snprintf(headings + used, sizeof headings - used, "|%s|entries|held|read/token", both ? "seen|unseen" : "all");
    struct cli_table *table = cli_table_open(headings);
    for (size_t s = 0; s < task->specs.count; s++) {
        const struct needle_cell *cell = needle_cell_at(task, length, s);
        char method[256], budget[256], held[32], read[32];
        uint64_t asked, right, unseen;
        split_budget(task->specs.items[s].text, method, budget, sizeof method);
        cli_cell(table, "%s", method);
        cli_cell(table, "%s", budget);
        for (int64_t f = 0; f < task->depth_count; f++)
            cli_cell(table, "%.2f", needle_results_share(cell->right[f], cell->asked[f]));
        totals(task, cell, &asked, &right, &unseen);
        cli_cell(table, "%.2f", needle_results_share(right, asked));
        if (both)
            cli_cell(table, "%.2f", needle_results_share(unseen, asked));
        cli_cell(table, "%.0f", needle_results_share(cell->entries, cell->prompts));
        cli_cell(table, "%s", cli_bytes(cell->prompts ? cell->held_bytes / cell->prompts : 0, held));
        cli_cell(table, "%s", cli_bytes(cell->steps ? cell->read_bytes / cell->steps : 0, read));
    }
    static const char *const asked[] = {"each after the text", "within one answer", "in turns",
                                        "seen: asked in the prompt, unseen: after it"};
    printf("%sTexts of %llu tokens: exact answers by depth, %s (%lld texts, %s)\n\n", length ? "\n" : "",
           (unsigned long long)task->lengths.items[length], asked[task->mode], (long long)task->texts,
           kvc_entry_types_name(task->common.cache_type, (char[KVC_ENTRY_TYPES_NAME]){0}));
    const int status = cli_table_print(task->command, table, stdout);
    cli_table_free(table);
    return status;
}

static json_t *cell_json(const struct needle_task *task, size_t length, size_t s) {
    const struct needle_cell *cell = needle_cell_at(task, length, s);
    char method[256], budget[256];
    uint64_t asked, right, unseen;
    json_t *object = json_object(), *depths = json_array();
    split_budget(task->specs.items[s].text, method, budget, sizeof method);
    totals(task, cell, &asked, &right, &unseen);
    for (int64_t f = 0; f < task->depth_count; f++) {
        json_t *depth = json_object();
        cli_json_set(depth, "depth", json_real(task->depths[f]));
        cli_json_set(depth, "asked", json_integer((json_int_t)cell->asked[f]));
        cli_json_set(depth, "right", json_integer((json_int_t)cell->right[f]));
        if (task->mode == NEEDLE_BOTH)
            cli_json_set(depth, "right_unseen", json_integer((json_int_t)cell->unseen[f]));
        json_array_append_new(depths, depth);
    }
    const char *spec = task->specs.items[s].text;
    cli_json_set(object, "kv", cli_json_text(spec, strlen(spec)));
    cli_json_set(object, "method", cli_json_text(method, strlen(method)));
    cli_json_set(object, "budget", cli_json_text(budget, strlen(budget)));
    cli_json_set(object, "tokens", json_integer((json_int_t)task->lengths.items[length]));
    cli_json_set(object, "accuracy", json_real(needle_results_share(right, asked)));
    if (task->mode == NEEDLE_BOTH)
        cli_json_set(object, "accuracy_unseen", json_real(needle_results_share(unseen, asked)));
    cli_json_set(object, "depths", depths);
    cli_json_set(object, "entries", json_real(needle_results_share(cell->entries, cell->prompts)));
    cli_json_set(object, "held_bytes", json_real(needle_results_share(cell->held_bytes, cell->prompts)));
    cli_json_set(object, "peak_bytes", json_integer((json_int_t)cell->peak_bytes));
    cli_json_set(object, "read_bytes_per_token", json_real(needle_results_share(cell->read_bytes, cell->steps)));
    cli_json_set(object, "seconds", json_real(cell->seconds));
    return object;
}

json_t *needle_json(const struct needle_task *task) {
    json_t *object = json_object(), *cells = json_array();
    for (size_t length = 0; length < task->lengths.count; length++) {
        for (size_t s = 0; s < task->specs.count; s++)
            json_array_append_new(cells, cell_json(task, length, s));
    }
    cli_json_set(object, "task", json_string("needle"));
    cli_json_set(object, "ask", json_string(needle_modes[task->mode]));
    cli_json_set(object, "model", cli_json_text(task->model_path, strlen(task->model_path)));
    cli_json_set(object, "cache_type",
                 json_string(kvc_entry_types_name(task->common.cache_type, (char[KVC_ENTRY_TYPES_NAME]){0})));
    cli_json_set(object, "texts", json_integer(task->texts));
    cli_json_set(object, "seed", json_integer(task->seed));
    cli_json_set(object, "results", cells);
    return object;
}

void needle_csv(const void *user, FILE *stream) {
    const struct needle_task *task = user;
    fprintf(stream, "kv,tokens,depth,asked,right,entries,held_bytes,peak_bytes,read_bytes_per_token,right_unseen\n");
    for (size_t length = 0; length < task->lengths.count; length++) {
        for (size_t s = 0; s < task->specs.count; s++) {
            const struct needle_cell *cell = needle_cell_at(task, length, s);
            for (int64_t f = 0; f < task->depth_count; f++) {
                char unseen[24] = ""; /* empty unless --ask both */
                if (task->mode == NEEDLE_BOTH)
                    snprintf(unseen, sizeof unseen, "%llu", (unsigned long long)cell->unseen[f]);
                eval_csv_text(stream, task->specs.items[s].text);
                fprintf(stream, ",%llu,%g,%llu,%llu,%.1f,%.1f,%llu,%.1f,%s\n",
                        (unsigned long long)task->lengths.items[length], task->depths[f],
                        (unsigned long long)cell->asked[f], (unsigned long long)cell->right[f],
                        needle_results_share(cell->entries, cell->prompts),
                        needle_results_share(cell->held_bytes, cell->prompts), (unsigned long long)cell->peak_bytes,
                        needle_results_share(cell->read_bytes, cell->steps), unseen);
            }
        }
    }
}

/* tables.c - prints the tables of results: one for each model, set of options, task and length, with a row for every
 * policy. */
#include "eval/results.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const eval_group_fields[EVAL_GROUP_FIELDS] = {"model", "weights", "arithmetic", "cache_type", "prompt"};
static const char *const sides[] = {"seen", "unseen"};

struct side {
    double score, squares,
        count; /* turns of one conversation are not independent, so each turn counts as a fraction of a sample */
};
struct cell {
    const json_t *record;   /* the first record, which has the cell's group, task, length and policy */
    size_t group, task, kv; /* numbers by which cells are sorted */
    uint64_t length;
    struct side sides[2];
    double entries, held, read, steps, prompt_us, answer_us, shared; /* sums over all records */
    uint64_t count;
};
struct cells {
    struct cell *items;
    size_t count, capacity;
    json_t *numbers; /* maps the texts of cells, groups and policies to their numbers */
    size_t groups, policies;
    bool lost;
};

const char *eval_text_of(const json_t *record, const char *name) {
    return json_string_value(json_object_get(record, name));
}
static double number_of(const json_t *record, const char *name) {
    return json_number_value(json_object_get(record, name));
}

size_t eval_number_for(json_t *numbers, const char *kind, const char *text, size_t next, bool *lost) {
    struct eval_text whole = {0};
    eval_add(&whole, "%s %s", kind, text);
    char *key = eval_text_take(&whole);
    const json_t *known = key ? json_object_get(numbers, key) : NULL;
    if (known)
        next = (size_t)json_integer_value(known);
    else if (!key || json_object_set_new(numbers, key, json_integer((json_int_t)next)))
        *lost = true;
    free(key);
    return next;
}

char *eval_group_text(const json_t *record) {
    struct eval_text text = {0};
    for (size_t i = 0; i < EVAL_GROUP_FIELDS; i++)
        eval_add(&text, "%s\n", eval_text_of(record, eval_group_fields[i]));
    return eval_text_take(&text);
}

static size_t task_number(const char *name) {
    size_t i = 0;
    while (eval_tasks[i].name && strcmp(eval_tasks[i].name, name))
        i++;
    return i;
}

static struct cell *cell_of(struct cells *cells, const json_t *record) {
    struct eval_text whole = {0};
    char *group_text = eval_group_text(record);
    eval_add(&whole, "%s%s\n%.0f\n%s", group_text ? group_text : "", eval_text_of(record, "task"),
             number_of(record, "length"), eval_text_of(record, "kv"));
    char *text = eval_text_take(&whole);
    struct cell *cell = NULL;
    if (group_text && text) {
        const size_t groups = eval_number_for(cells->numbers, "group", group_text, cells->groups, &cells->lost);
        const size_t policies =
            eval_number_for(cells->numbers, "kv", eval_text_of(record, "kv"), cells->policies, &cells->lost);
        const size_t place = eval_number_for(cells->numbers, "cell", text, cells->count, &cells->lost);
        if (place == cells->capacity && !cells->lost) {
            const size_t capacity = cli_max(64, 2 * cells->capacity);
            struct cell *more = realloc(cells->items, capacity * sizeof *more);
            cells->lost = !more;
            cells->items = more ? more : cells->items;
            cells->capacity = more ? capacity : cells->capacity;
        }
        if (place == cells->count && !cells->lost)
            cells->items[cells->count++] = (struct cell){.record = record,
                                                         .group = groups,
                                                         .task = task_number(eval_text_of(record, "task")),
                                                         .kv = policies,
                                                         .length = (uint64_t)number_of(record, "length")};
        cells->groups = cli_max(cells->groups, groups + 1);
        cells->policies = cli_max(cells->policies, policies + 1);
        cell = cells->lost ? NULL : &cells->items[place];
    }
    free(group_text);
    free(text);
    return cell;
}

static int in_order(const void *a, const void *b) {
    const struct cell *x = a, *y = b;
    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    if (x->length != y->length)
        return x->length < y->length ? -1 : 1;
    if (x->task != y->task)
        return x->task < y->task ? -1 : 1;
    /* orders unknown tasks by name */
    const int names = strcmp(eval_text_of(x->record, "task"), eval_text_of(y->record, "task"));
    return names ? names : (x->kv > y->kv) - (x->kv < y->kv);
}

/* Returns the unit of a task without questions; NULL: the score is a fraction. */
static const char *unit_of(const struct cell *cell) { return eval_text_of(cell->record, "unit"); }
static bool is_asked(const struct cell *cell) { return strcmp(eval_text_of(cell->record, "question"), "none") != 0; }

static void add_up(struct cell *cell, const json_t *record) {
    struct side *side = &cell->sides[strcmp(eval_text_of(record, "question"), "unseen") == 0];
    const double turns = number_of(record, "turns"), score = number_of(record, "score");
    const double part = turns > 1 ? 1 / turns : 1;
    side->score += part * score;
    side->squares += part * score * score;
    side->count += part;
    cell->count++;
    cell->entries += number_of(record, "entries");
    cell->held += number_of(record, "held_bytes");
    cell->read += number_of(record, "read_bytes");
    cell->steps += number_of(record, "steps");
    cell->prompt_us += number_of(record, "prompt_us");
    cell->answer_us += number_of(record, "answer_us");
    const double shared = number_of(record, "shared"); /* some files lack this field */
    cell->shared += shared > 1 ? shared : 1;
}

/* Adds a cell to the sum over tasks. */
static void add_cell(struct cell *sum, const struct cell *cell) {
    for (size_t s = 0; s < 2; s++) {
        sum->sides[s].score += cell->sides[s].score;
        sum->sides[s].squares += cell->sides[s].squares;
        sum->sides[s].count += cell->sides[s].count;
    }
    sum->count += cell->count;
    sum->entries += cell->entries;
    sum->held += cell->held;
    sum->read += cell->read;
    sum->steps += cell->steps;
    sum->prompt_us += cell->prompt_us;
    sum->answer_us += cell->answer_us;
    sum->shared += cell->shared;
}

static bool tables_collect(const struct eval_results *results, struct cells *cells) {
    json_t *record;
    size_t i;
    *cells = (struct cells){.numbers = json_object()};
    cells->lost = !cells->numbers;
    json_array_foreach(results->records, i, record) {
        struct cell *cell = cells->lost ? NULL : cell_of(cells, record);
        if (cell)
            add_up(cell, record);
        cells->lost = cells->lost || !cell;
    }
    if (cells->count > 0)
        qsort(cells->items, cells->count, sizeof *cells->items, in_order);
    json_decref(cells->numbers);
    cells->numbers = NULL;
    return !cells->lost;
}

static double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

static void interval(const struct cell *cell, const struct side *side, double *low, double *high) {
    if (unit_of(cell))
        eval_normal(side->score, side->squares, side->count, low, high);
    else
        eval_wilson(ratio(side->score, side->count), side->count, low, high);
}

/* ---- as text ---- */

static struct cli_table *open_table(const struct cell *cell) {
    struct eval_text heading = {0};
    if (is_asked(cell))
        return cli_table_open("<policy|seen|95 %|unseen|95 %|n|held|read|first|token");
    if (unit_of(cell))
        eval_add(&heading, "<policy|%s|95 %%|perplexity|n|held|read|first|token", unit_of(cell));
    else
        eval_add(&heading, "<policy|share|95 %%|n|held|read|first|token");
    char *text = eval_text_take(&heading);
    struct cli_table *table = text ? cli_table_open(text) : NULL;
    free(text);
    return table;
}

static void add_row(struct cli_table *table, const struct cell *cell) {
    char text[4][32];
    cli_cell(table, "%s", eval_text_of(cell->record, "kv"));
    for (size_t s = 0; s < (is_asked(cell) ? 2 : 1); s++) {
        const struct side *side = &cell->sides[s];
        double low, high;
        interval(cell, side, &low, &high);
        if (side->count > 0) {
            cli_cell(table, "%.3f", ratio(side->score, side->count));
            cli_cell(table, unit_of(cell) ? "%.3f..%.3f" : "%.2f-%.2f", low, high);
        } else {
            cli_cell(table, "-");
            cli_cell(table, "-");
        }
    }
    if (unit_of(cell))
        cli_cell(table, "%.3f", exp(ratio(cell->sides[0].score, cell->sides[0].count)));
    const double count = (double)cell->count;
    cli_cell(table, "%.0f", fmax(cell->sides[0].count, cell->sides[1].count));
    cli_cell(table, "%s", cli_bytes((uint64_t)ratio(cell->held, count), text[0]));
    cli_cell(table, "%s", cli_bytes((uint64_t)ratio(cell->read, cell->steps), text[1]));
    cli_cell(table, "%s", cli_time(1e-6 * ratio(cell->prompt_us, count), text[2]));
    cli_cell(table, "%s", cli_time(1e-6 * ratio(cell->answer_us, cell->steps), text[3]));
}

static int print_table(const struct eval_results *results, struct cli_table *table) {
    const int status = cli_table_print(results->command, table, stdout);
    cli_table_free(table);
    return status;
}

/* Prints cells [from, to), which have the same group and length: a table for each task and, if there are several tasks,
 * one over all of them. */
static int print_length(const struct eval_results *results, const struct cells *cells, size_t from, size_t to) {
    struct cell *sums = calloc(cells->policies, sizeof *sums);
    struct cli_table *all = NULL;
    size_t tasks = 0;
    int status = sums ? KVC_OK : cli_no_memory(results->command);
    for (size_t i = from; i < to && status == KVC_OK;) {
        const char *task = eval_text_of(cells->items[i].record, "task");
        struct cli_table *table = open_table(&cells->items[i]);
        const bool asked = is_asked(&cells->items[i]);
        printf("%s of %llu tokens\n\n", task, (unsigned long long)cells->items[i].length);
        for (; i < to && strcmp(eval_text_of(cells->items[i].record, "task"), task) == 0; i++) {
            struct cell *sum = &sums[cells->items[i].kv];
            if (asked) {
                sum->record = cells->items[i].record;
                add_cell(sum, &cells->items[i]);
            }
            add_row(table, &cells->items[i]);
        }
        tasks += asked;
        status = print_table(results, table);
        printf("\n");
    }
    for (size_t kv = 0; kv < cells->policies && status == KVC_OK; kv++) {
        if (sums[kv].record && !all && !(all = open_table(&sums[kv])))
            status = cli_no_memory(results->command);
        else if (sums[kv].record)
            add_row(all, &sums[kv]);
    }
    if (status == KVC_OK && tasks > 1) {
        printf("all samples of %zu tasks of %llu tokens\n\n", tasks, (unsigned long long)cells->items[from].length);
        status = print_table(results, all);
        all = NULL;
        printf("\n");
    }
    cli_table_free(all);
    free(sums);
    return status;
}

int eval_tables_print(const struct eval_results *results) {
    struct cells cells;
    bool shared = false;
    int status = tables_collect(results, &cells) ? KVC_OK : cli_no_memory(results->command);
    for (size_t i = 0; i < cells.count && status == KVC_OK;) {
        const struct cell *first = &cells.items[i];
        char line[600], clean[600];
        size_t end = i;
        if (i == 0 || first->group != first[-1].group) {
            snprintf(line, sizeof line, "%s (%s), arithmetic %s, %s cache, prompts: %s",
                     eval_text_of(first->record, "model"), eval_text_of(first->record, "weights"),
                     eval_text_of(first->record, "arithmetic"), eval_text_of(first->record, "cache_type"),
                     eval_text_of(first->record, "prompt"));
            kvc_printable(line, strlen(line), clean, sizeof clean);
            cli_wrap(stdout, clean, 0);
            printf("\n");
        }
        while (end < cells.count && cells.items[end].group == first->group && cells.items[end].length == first->length)
            end++;
        status = print_length(results, &cells, i, end);
        i = end;
    }
    for (size_t i = 0; i < cells.count; i++)
        shared = shared || cells.items[i].shared > (double)cells.items[i].count;
    if (status == KVC_OK && shared)
        cli_wrap(stdout, "Policies that ran together share their times; --alone measures each policy by itself.", 0);
    free(cells.items);
    return status == KVC_OK ? eval_grids_print(results) : status;
}

/* ---- as JSON ---- */

static json_t *cell_json(const struct cell *cell) {
    static const char *const copied[] = {"task", "length", "kv"};
    json_t *object = json_object();
    const double count = (double)cell->count;
    for (size_t i = 0; i < EVAL_GROUP_FIELDS; i++)
        cli_json_set(object, eval_group_fields[i], json_incref(json_object_get(cell->record, eval_group_fields[i])));
    for (size_t i = 0; i < sizeof copied / sizeof *copied; i++)
        cli_json_set(object, copied[i], json_incref(json_object_get(cell->record, copied[i])));
    for (size_t s = 0; s < 2; s++) {
        const struct side *side = &cell->sides[s];
        double low, high;
        if (side->count <= 0)
            continue;
        json_t *numbers = json_object();
        interval(cell, side, &low, &high);
        cli_json_set(numbers, "samples", json_integer((json_int_t)(side->count + 0.5)));
        cli_json_set(numbers, "score", json_real(ratio(side->score, side->count)));
        cli_json_set(numbers, "low", json_real(low));
        cli_json_set(numbers, "high", json_real(high));
        cli_json_set(object, is_asked(cell) ? sides[s] : "measured", numbers);
    }
    if (unit_of(cell))
        cli_json_set(object, "unit", json_string(unit_of(cell)));
    cli_json_set(object, "entries", json_real(ratio(cell->entries, count)));
    cli_json_set(object, "held_bytes", json_real(ratio(cell->held, count)));
    cli_json_set(object, "read_bytes_per_token", json_real(ratio(cell->read, cell->steps)));
    cli_json_set(object, "first_seconds", json_real(1e-6 * ratio(cell->prompt_us, count)));
    cli_json_set(object, "token_seconds", json_real(1e-6 * ratio(cell->answer_us, cell->steps)));
    cli_json_set(object, "shared", json_real(ratio(cell->shared, count)));
    return object;
}

json_t *eval_tables_json(const struct eval_results *results) {
    json_t *root = json_object(), *list = json_array();
    struct cells cells;
    if (tables_collect(results, &cells)) {
        for (size_t i = 0; i < cells.count; i++)
            json_array_append_new(list, cell_json(&cells.items[i]));
        cli_json_set(root, "results", list);
        eval_grids_json(results, root);
    } else {
        json_decref(list);
        cli_json_set(root, "results", NULL); /* makes the JSON printer report that memory ran out */
    }
    free(cells.items);
    return root;
}

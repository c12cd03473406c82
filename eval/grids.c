/* grids.c - prints detailed tables: scores by depth and length (the heat map of needle tasks), scores by turn, further
 * values of a task, and memory while an answer grows. */
#include "eval/results.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_COLUMNS = 20 };
enum grid { BY_DEPTH, BY_TURN, BY_VALUE, BY_TOKENS, GRIDS };
static const char *const names[GRIDS] = {"depths", "turns", "values", "memory"};

struct place {            /* one cell of a table, which is the mean of some records */
    const json_t *record; /* the first of the records */
    enum grid grid;
    size_t group, kv; /* numbers by which cells are sorted */
    uint64_t length;
    double x;         /* the cell's column: a depth, a turn, the index of a value, or a number of tokens */
    const char *name; /* name of the value */
    double sum, squares, count;
};
struct places {
    struct place *items;
    size_t count, capacity;
    json_t *numbers; /* maps the texts of cells, groups and policies to their numbers */
    size_t groups, policies;
    bool lost;
};

static bool grids_grow(struct places *places) {
    if (places->count < places->capacity)
        return true;
    const size_t capacity = cli_max(64, 2 * places->capacity);
    struct place *more = realloc(places->items, capacity * sizeof *more);
    if (!more)
        return false;
    places->items = more;
    places->capacity = capacity;
    return true;
}

static void grids_add(struct places *places, const json_t *record, enum grid grid, double x, const char *name,
                      double value) {
    char *group = eval_group_text(record);
    struct eval_text whole = {0};
    eval_add(&whole, "%s%d\n%s\n%s\n%s\n%lld\n%.9g", group ? group : "", (int)grid, eval_text_of(record, "task"),
             eval_text_of(record, "kv"), eval_text_of(record, "question"),
             (long long)json_integer_value(json_object_get(record, "length")), x);
    char *text = eval_text_take(&whole);
    places->lost = places->lost || !group || !text || !grids_grow(places);
    if (!places->lost) {
        const size_t groups = eval_number_for(places->numbers, "group", group, places->groups, &places->lost);
        const size_t policies =
            eval_number_for(places->numbers, "kv", eval_text_of(record, "kv"), places->policies, &places->lost);
        const size_t number = eval_number_for(places->numbers, "place", text, places->count, &places->lost);
        if (number == places->count)
            places->items[places->count++] =
                (struct place){.record = record,
                               .grid = grid,
                               .group = groups,
                               .kv = policies,
                               .length = (uint64_t)json_integer_value(json_object_get(record, "length")),
                               .x = x,
                               .name = name};
        places->groups = cli_max(places->groups, groups + 1);
        places->policies = cli_max(places->policies, policies + 1);
        places->items[number].sum += value;
        places->items[number].squares += value * value;
        places->items[number].count += 1;
    }
    free(group);
    free(text);
}

static void add_record(struct places *places, json_t *record) {
    const double score = json_number_value(json_object_get(record, "score"));
    const json_t *depth = json_object_get(record, "depth"), *turn = json_object_get(record, "turn");
    json_t *values = json_object_get(record, "values"), *memory = json_object_get(record, "memory"), *value;
    const char *name;
    size_t i = 0;
    if (depth)
        grids_add(places, record, BY_DEPTH, json_number_value(depth), NULL, score);
    if (turn)
        grids_add(places, record, BY_TURN, json_number_value(turn), NULL, score);
    json_object_foreach(values, name, value) {
        grids_add(places, record, BY_VALUE, (double)i++, name, json_number_value(value));
    }
    json_array_foreach(memory, i, value) {
        grids_add(places, record, BY_TOKENS, json_number_value(json_array_get(value, 0)), NULL,
                  json_number_value(json_array_get(value, 1)));
    }
}

#define ORDER(a, b) ((a) > (b)) - ((a) < (b))

/* Sorts by table, then by row. Scores by depth have a table for each policy and question mode. */
static int in_order(const void *a, const void *b) {
    const struct place *x = a, *y = b;
    const bool depths = x->grid == BY_DEPTH;
    const int keys[] = {ORDER(x->grid, y->grid),
                        ORDER(x->group, y->group),
                        strcmp(eval_text_of(x->record, "task"), eval_text_of(y->record, "task")),
                        depths ? 0 : ORDER(x->length, y->length),
                        ORDER(x->kv, y->kv),
                        strcmp(eval_text_of(x->record, "question"), eval_text_of(y->record, "question")),
                        ORDER(x->x, y->x),
                        ORDER(x->length, y->length)};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (keys[i])
            return keys[i];
    }
    return 0;
}

static bool same_row(const struct place *x, const struct place *y) {
    return x->kv == y->kv && strcmp(eval_text_of(x->record, "question"), eval_text_of(y->record, "question")) == 0 &&
           (x->grid != BY_DEPTH || x->x == y->x);
}

static bool same_table(const struct place *x, const struct place *y) {
    return x->grid == y->grid && x->group == y->group &&
           strcmp(eval_text_of(x->record, "task"), eval_text_of(y->record, "task")) == 0 &&
           (x->grid == BY_DEPTH ? x->kv == y->kv && strcmp(eval_text_of(x->record, "question"),
                                                           eval_text_of(y->record, "question")) == 0
                                : x->length == y->length);
}

static bool grids_collect(const struct eval_results *results, struct places *places) {
    json_t *record;
    size_t i;
    *places = (struct places){.numbers = json_object()};
    places->lost = !places->numbers;
    json_array_foreach(results->records, i, record) {
        if (!places->lost)
            add_record(places, record);
    }
    if (places->count > 0)
        qsort(places->items, places->count, sizeof *places->items, in_order);
    json_decref(places->numbers);
    places->numbers = NULL;
    return !places->lost;
}

/* ---- as text ---- */

static double column_of(const struct place *place) {
    return place->grid == BY_DEPTH ? (double)place->length : place->x;
}

static int grids_ascending(const void *a, const void *b) { return ORDER(*(const double *)a, *(const double *)b); }

/* Returns the distinct columns of the cells places [count], at most MOST_COLUMNS, in ascending order. The caller frees
 * them. */
static double *columns_of(const struct place *places, size_t count, size_t *columns) {
    double *all = malloc((count + 1) * sizeof *all);
    size_t different = 0;
    for (size_t i = 0; all && i < count; i++)
        all[i] = column_of(&places[i]);
    if (all && count > 0)
        qsort(all, count, sizeof *all, grids_ascending);
    for (size_t i = 0; all && i < count; i++) {
        if (different == 0 || all[different - 1] != all[i])
            all[different++] = all[i];
    }
    *columns = cli_min(different, MOST_COLUMNS);
    return all;
}

static void print_title(const struct place *place, bool groups) {
    const json_t *record = place->record;
    char line[600], clean[600];
    static const char *const kinds[GRIDS] = {"score at each depth (rows) and length in tokens (columns)",
                                             "score of each turn", "means of further values",
                                             "bytes of cache and state by tokens of the answer"};
    int bytes;
    if (place->grid == BY_DEPTH)
        bytes = snprintf(line, sizeof line, "%s, --kv %s, question %s: %s", eval_text_of(record, "task"),
                         eval_text_of(record, "kv"), eval_text_of(record, "question"), kinds[place->grid]);
    else
        bytes = snprintf(line, sizeof line, "%s of %llu tokens: %s", eval_text_of(record, "task"),
                         (unsigned long long)place->length, kinds[place->grid]);
    if (groups && bytes > 0 && (size_t)bytes < sizeof line)
        snprintf(line + bytes, sizeof line - (size_t)bytes, " (%s, %s, %s)", eval_text_of(record, "model"),
                 eval_text_of(record, "arithmetic"), eval_text_of(record, "prompt"));
    kvc_printable(line, strlen(line), clean, sizeof clean);
    cli_wrap(stdout, clean, 0);
    printf("\n");
}

static void add_head(struct eval_text *heading, const struct place *places, size_t count, const double *columns,
                     size_t column_count) {
    eval_add(heading, "%s", places->grid == BY_DEPTH ? "depth" : "<policy|<question");
    for (size_t c = 0; c < column_count; c++) {
        const char *name = NULL;
        for (size_t i = 0; i < count && !name; i++)
            name = column_of(&places[i]) == columns[c] ? places[i].name : NULL;
        if (name)
            eval_add(heading, "|%s", name);
        else
            eval_add(heading, "|%.0f", columns[c]);
    }
}

static void add_number(struct cli_table *table, const struct place *place) {
    char text[32];
    if (place->grid == BY_TOKENS)
        cli_cell(table, "%s", cli_bytes((uint64_t)(place->sum / place->count), text));
    else
        cli_cell(table, place->grid == BY_VALUE ? "%.4f" : "%.2f", place->sum / place->count);
}

/* Prints the cells places [count] as one table. */
static int print_table(const struct eval_results *results, const struct place *places, size_t count, bool groups) {
    struct eval_text heading = {0};
    size_t column_count, i = 0;
    double *columns = columns_of(places, count, &column_count);
    if (columns)
        add_head(&heading, places, count, columns, column_count);
    char *head = eval_text_take(&heading);
    struct cli_table *table = columns && head ? cli_table_open(head) : NULL;
    int status = columns && head ? KVC_OK : cli_no_memory(results->command);
    if (status == KVC_OK)
        print_title(places, groups);
    while (i < count && status == KVC_OK) {
        const struct place *row = &places[i];
        if (row->grid == BY_DEPTH) {
            cli_cell(table, "%.0f %%", 100 * row->x);
        } else {
            cli_cell(table, "%s", eval_text_of(row->record, "kv"));
            cli_cell(table, "%s", eval_text_of(row->record, "question"));
        }
        for (size_t c = 0; c < column_count; c++) {
            if (i < count && same_row(row, &places[i]) && column_of(&places[i]) == columns[c])
                add_number(table, &places[i++]);
            else
                cli_cell(table, "-");
        }
        while (i < count && same_row(row, &places[i]))
            i++;
    }
    if (status == KVC_OK)
        status = cli_table_print(results->command, table, stdout);
    printf("\n");
    cli_table_free(table);
    free(columns);
    free(head);
    return status;
}

int eval_grids_print(const struct eval_results *results) {
    struct places places;
    int status = grids_collect(results, &places) ? KVC_OK : cli_no_memory(results->command);
    for (size_t i = 0, end; i < places.count && status == KVC_OK; i = end) {
        for (end = i; end < places.count && same_table(&places.items[i], &places.items[end]);)
            end++;
        status = print_table(results, &places.items[i], end - i, places.groups > 1);
    }
    free(places.items);
    return status;
}

/* ---- as JSON ---- */

static json_t *place_json(const struct place *place) {
    static const char *const copied[] = {"task", "length", "kv", "question"};
    static const char *const axes[GRIDS] = {"depth", "turn", "value", "tokens"};
    const bool bytes = place->grid == BY_TOKENS;
    json_t *object = json_object();
    double low, high;
    for (size_t i = 0; i < EVAL_GROUP_FIELDS; i++)
        cli_json_set(object, eval_group_fields[i], json_incref(json_object_get(place->record, eval_group_fields[i])));
    for (size_t i = 0; i < sizeof copied / sizeof *copied; i++)
        cli_json_set(object, copied[i], json_incref(json_object_get(place->record, copied[i])));
    cli_json_set(object, axes[place->grid], place->name ? json_string(place->name) : json_real(place->x));
    cli_json_set(object, "samples", json_integer((json_int_t)place->count));
    cli_json_set(object,
                 bytes                     ? "bytes"
                 : place->grid == BY_VALUE ? "mean"
                                           : "score",
                 json_real(place->sum / place->count));
    if (place->grid == BY_VALUE) {
        eval_normal(place->sum, place->squares, place->count, &low, &high);
        cli_json_set(object, "low", json_real(low));
        cli_json_set(object, "high", json_real(high));
    }
    return object;
}

void eval_grids_json(const struct eval_results *results, json_t *root) {
    struct places places;
    const bool fine = grids_collect(results, &places);
    for (int grid = 0; grid < GRIDS; grid++) {
        json_t *list = fine ? json_array() : NULL;
        for (size_t i = 0; list && i < places.count; i++) {
            if (places.items[i].grid == (enum grid)grid)
                json_array_append_new(list, place_json(&places.items[i]));
        }
        if (!fine || json_array_size(list) > 0)
            cli_json_set(root, names[grid], list); /* NULL if memory ran out; the JSON printer reports that */
        else
            json_decref(list);
    }
    free(places.items);
}

/* report_collect.c - collects the data of a report: table rows for each setting, means over tasks, and numbers of
 * policies. */
#include "eval/report.h"

#include <stdlib.h>
#include <string.h>

static const char *const same_fields[] = {"model", "weights", "arithmetic", "cache_type", "prompt", "length"};

bool report_same_setting(const json_t *a, const json_t *b) {
    for (size_t i = 0; i < sizeof same_fields / sizeof *same_fields; i++) {
        if (!json_equal(json_object_get(a, same_fields[i]), json_object_get(b, same_fields[i])))
            return false;
    }
    return true;
}

static double number_of(const json_t *object, const char *name) {
    return json_number_value(json_object_get(object, name));
}

/* ---- policies ---- */

/* Returns true if two policies have the same method names, whatever their options. */
static bool same_methods(const char *a, const char *b) {
    for (;;) {
        const size_t some = strcspn(a, ":+");
        if (some != strcspn(b, ":+") || strncmp(a, b, some))
            return false;
        a += strcspn(a, "+");
        b += strcspn(b, "+");
        if (!*a || !*b)
            return *a == *b;
        a++;
        b++;
    }
}

static void add_policy(struct report *report, const char *kv) {
    const size_t count = report->policy_count;
    if (report->lost || report_policy_number(report, kv) < count)
        return;
    const char **policies = realloc(report->policies, (count + 1) * sizeof *policies);
    report->policies = policies ? policies : report->policies;
    size_t *families = realloc(report->families, (count + 1) * sizeof *families), next = 0, i = 0;
    report->families = families ? families : report->families;
    report->lost = !policies || !families;
    if (report->lost)
        return;
    while (i < count && !same_methods(policies[i], kv))
        i++;
    for (size_t j = 0; j < count; j++)
        next = cli_max(next, families[j] + 1);
    policies[count] = kv;
    families[count] = i < count ? families[i] : next;
    report->policy_count++;
}

/* ---- rows ---- */

static struct report_row row_of(const struct report *report, const json_t *object) {
    static const char *const sides[] = {"seen", "unseen"};
    struct report_row row = {.policy = report_policy_number(report, json_string_value(json_object_get(object, "kv"))),
                             .task = json_string_value(json_object_get(object, "task")),
                             .entries = number_of(object, "entries"),
                             .held = number_of(object, "held_bytes"),
                             .read = number_of(object, "read_bytes_per_token"),
                             .first = number_of(object, "first_seconds"),
                             .token = number_of(object, "token_seconds")};
    for (size_t s = 0; s < 2; s++) {
        const json_t *side = json_object_get(object, sides[s]);
        row.samples[s] = number_of(side, "samples");
        row.score[s] = number_of(side, "score");
        row.low[s] = number_of(side, "low");
        row.high[s] = number_of(side, "high");
        row.weight += row.samples[s];
    }
    return row;
}

static void add_row(struct report *report, struct report_setting *setting, struct report_row row) {
    struct report_row *rows = realloc(setting->rows, (setting->row_count + 1) * sizeof *rows);
    const char **tasks = realloc(setting->tasks, (setting->task_count + 1) * sizeof *tasks);
    size_t task = 0;
    setting->rows = rows ? rows : setting->rows;
    setting->tasks = tasks ? tasks : setting->tasks;
    if (!rows || !tasks || !row.task) {
        report->lost = true;
        return;
    }
    rows[setting->row_count++] = row;
    while (task < setting->task_count && strcmp(tasks[task], row.task))
        task++;
    if (task == setting->task_count)
        tasks[setting->task_count++] = row.task;
}

/* Adds a task's row to the sums of its policy. */
static void add_to_mean(struct report_row *mean, const struct report_row *row) {
    for (size_t s = 0; s < 2; s++) {
        mean->score[s] += row->score[s] * row->samples[s];
        mean->samples[s] += row->samples[s];
    }
    mean->entries += row->entries * row->weight;
    mean->held += row->held * row->weight;
    mean->read += row->read * row->weight;
    mean->first += row->first * row->weight;
    mean->token += row->token * row->weight;
    mean->weight += row->weight;
}

static double both_sides(const struct report_row *row) {
    double sum = 0, sides = 0;
    for (size_t s = 0; s < 2; s++) {
        sum += row->samples[s] > 0 ? row->score[s] : 0;
        sides += row->samples[s] > 0;
    }
    return sides > 0 ? sum / sides : 0;
}

static int best_first(const void *a, const void *b) {
    const struct report_row *x = a, *y = b;
    const double difference = both_sides(y) - both_sides(x);
    if (difference != 0)
        return difference < 0 ? -1 : 1;
    return (x->policy > y->policy) - (x->policy < y->policy);
}

/* Computes the mean of each policy over its rows. */
static void add_means(struct report *report, struct report_setting *setting) {
    setting->means = calloc(report->policy_count + 1, sizeof *setting->means);
    if (!setting->means) {
        report->lost = true;
        return;
    }
    for (size_t p = 0; p < report->policy_count; p++) {
        struct report_row mean = {.policy = p};
        for (size_t r = 0; r < setting->row_count; r++) {
            if (setting->rows[r].policy == p)
                add_to_mean(&mean, &setting->rows[r]);
        }
        if (mean.weight <= 0)
            continue;
        for (size_t s = 0; s < 2; s++) {
            mean.score[s] = mean.samples[s] > 0 ? mean.score[s] / mean.samples[s] : 0;
            eval_wilson(mean.score[s], mean.samples[s], &mean.low[s], &mean.high[s]);
        }
        mean.entries /= mean.weight;
        mean.held /= mean.weight;
        mean.read /= mean.weight;
        mean.first /= mean.weight;
        mean.token /= mean.weight;
        setting->means[setting->mean_count++] = mean;
    }
    qsort(setting->means, setting->mean_count, sizeof *setting->means, best_first);
}

static struct report_setting *setting_of(struct report *report, const json_t *object) {
    for (size_t i = 0; i < report->setting_count; i++) {
        if (report_same_setting(report->settings[i].like, object))
            return &report->settings[i];
    }
    struct report_setting *more = realloc(report->settings, (report->setting_count + 1) * sizeof *more);
    if (!more) {
        report->lost = true;
        return NULL;
    }
    report->settings = more;
    more[report->setting_count] = (struct report_setting){.like = object};
    return &more[report->setting_count++];
}

bool report_collect(struct report *report) {
    const json_t *rows, *object;
    size_t i;
    report->tables = eval_tables_json(report->results);
    rows = json_object_get(report->tables, "results");
    report->lost = !rows;
    json_array_foreach(rows, i, object) add_policy(report, json_string_value(json_object_get(object, "kv")));
    json_array_foreach(report->results->traces, i, object)
        add_policy(report, json_string_value(json_object_get(object, "kv")));
    json_array_foreach(rows, i, object) {
        struct report_setting *setting = report->lost ? NULL : setting_of(report, object);
        if (setting && !json_object_get(object, "measured"))
            add_row(report, setting, row_of(report, object));
    }
    for (i = 0; i < report->setting_count && !report->lost; i++)
        add_means(report, &report->settings[i]);
    return !report->lost;
}

void report_free(struct report *report) {
    for (size_t i = 0; i < report->setting_count; i++) {
        free(report->settings[i].rows);
        free(report->settings[i].means);
        free(report->settings[i].tasks);
    }
    free(report->settings);
    free(report->policies);
    free(report->families);
    json_decref(report->tables);
    *report = (struct report){.out = NULL};
}

/* tables.c - kvcull bench --ops and --table: operations relative to the roofline of the device. */
#include <stdlib.h>
#include <string.h>

#include "cli/bench/bench.h"

struct ops_report {
    const struct cli_command *command;
    const struct bench_arguments *a;
    const struct kvc_measure_table *measured;
    const char *beside; /* the other backend or call with which each row is compared; NULL: none */
    struct cli_table *table;
    json_t *rows; /* NULL: print a table */
    struct kvc_rooflines rooflines;
    unsigned slower;
    char first[128]; /* name of the first slower operation */
    bool failed;
};

/* Returns the name of the limit that bounds a call, and the fraction of this limit that the call reached. */
static double of_roofline(const struct kvc_rooflines *c, const struct kvc_measured *row, const char **bound) {
    const double bytes = (double)row->bytes / (c->read > 0 ? c->read : c->copy), flops = (double)row->flops / c->fma;
    const double least = bytes > flops ? bytes : flops;

    *bound = c->launch > least ? "call" : bytes > flops ? "bytes" : "flops";
    return (c->launch > least ? c->launch : least) / row->seconds;
}

/* Returns true if an operation is slower than on the other backend by more than the usual variation. Before the
 * comparison, subtracts from the operation's time the time of two empty calls for each of its calls. */
static bool is_slower(const struct ops_report *report, const struct kvc_measured *row) {
    return report->a->beside && row->beside > 0 && row->seconds - 2 * row->calls * row->launch > 1.1 * row->beside;
}

static void rate(struct ops_report *report, double count, double seconds) {
    if (count > 0)
        cli_cell(report->table, "%.1f", count / seconds / 1e9);
    else
        cli_cell(report->table, "-");
}

/* Returns the ratio of the call's bytes per second to those of the call with which it is compared; 0 if this is
 * unknown. */
static double rate_beside(const struct kvc_measured *row) {
    return row->beside_bytes ? (double)row->bytes / (double)row->beside_bytes * row->beside / row->seconds : 0;
}

static json_t *row_json(const struct ops_report *report, const struct kvc_measured *row) {
    json_t *one = json_object();

    cli_json_set(one, "name", json_string(row->name));
    cli_json_set(one, "shape", json_string(row->shape));
    cli_json_set(one, "seconds", json_real(row->seconds));
    if (report->measured->model) {
        cli_json_set(one, "calls", json_integer(row->calls));
        cli_json_set(one, "share", json_real(row->seconds / row->beside));
        return one;
    }
    const char *bound;
    const double ratio = of_roofline(&report->rooflines, row, &bound);

    cli_json_set(one, "bytes", json_integer((json_int_t)row->bytes));
    cli_json_set(one, "flops", json_integer((json_int_t)row->flops));
    cli_json_set(one, "bound", json_string(bound));
    cli_json_set(one, "of_roofline", json_real(ratio));
    cli_json_set(one, "of_ceiling", json_real(ratio)); /* the former name of the key */
    if (report->beside) {
        cli_json_set(one, "beside_seconds", json_real(row->beside));
        cli_json_set(one, "beside_bytes", json_integer((json_int_t)row->beside_bytes));
        cli_json_set(one, "call_seconds", json_real(row->launch));
    }
    return one;
}

static void row_cells(struct ops_report *report, const struct kvc_measured *row) {
    char text[32];

    cli_cell(report->table, "%s", row->name);
    cli_cell(report->table, "%s", cli_time(row->seconds, text));
    if (report->measured->model) {
        cli_cell(report->table, "%.1f %%", 100 * row->seconds / row->beside);
    } else {
        const char *bound;
        const double ratio = of_roofline(&report->rooflines, row, &bound);

        rate(report, (double)row->bytes, row->seconds);
        rate(report, (double)row->flops, row->seconds);
        cli_cell(report->table, "%s", bound);
        cli_cell(report->table, "%.2f", ratio);
    }
    if (report->beside && row->beside > 0)
        cli_cell(report->table, "%.2f%s", row->beside / row->seconds, is_slower(report, row) ? " !" : "");
    else if (report->beside)
        cli_cell(report->table, "-");
    if (report->beside && !report->a->beside && row->beside > 0)
        cli_cell(report->table, "%.2f", rate_beside(row));
    else if (report->beside && !report->a->beside)
        cli_cell(report->table, "-");
    cli_cell(report->table, "%s", row->shape);
}

static int add_row(void *user, const struct kvc_rooflines *rooflines, const struct kvc_measured *row) {
    struct ops_report *report = user;

    report->rooflines = *rooflines;
    if (is_slower(report, row) && report->slower++ == 0)
        snprintf(report->first, sizeof report->first, "%s (%s)", row->name, row->shape);
    if (!report->a->common.quiet)
        fprintf(stderr, "%s, %s\n", row->name, row->shape);
    if (!report->rows)
        row_cells(report, row);
    else if (json_array_append_new(report->rows, row_json(report, row)) != 0)
        report->failed = true;
    return 0;
}

static void set_rooflines(json_t *root, const struct kvc_rooflines *c) {
    json_t *rooflines = json_object();

    cli_json_set(rooflines, "copy_bytes_per_second", json_real(c->copy));
    cli_json_set(rooflines, "read_bytes_per_second", c->read > 0 ? json_real(c->read) : json_null());
    cli_json_set(rooflines, "fma_flops_per_second", json_real(c->fma));
    cli_json_set(rooflines, "product_flops_per_second", c->product > 0 ? json_real(c->product) : json_null());
    cli_json_set(rooflines, "call_seconds", json_real(c->launch));
    cli_json_set(root, "ceilings", json_incref(rooflines)); /* the former name of the key */
    cli_json_set(root, "rooflines", rooflines);
}

static int print_json(struct ops_report *report) {
    json_t *root = json_object();

    cli_json_set(root, "backend", cli_json_text(report->a->common.backend, strlen(report->a->common.backend)));
    cli_json_set(root, "table", json_string(report->measured->name));
    if (!report->measured->model)
        set_rooflines(root, &report->rooflines);
    if (report->beside)
        cli_json_set(root, "beside", cli_json_text(report->beside, strlen(report->beside)));
    if (report->a->beside)
        cli_json_set(root, "slower", json_integer((json_int_t)report->slower));
    cli_json_set(root, "operations", report->failed ? NULL : json_incref(report->rows));
    return cli_json_print(report->command, root, stdout);
}

static void print_rooflines(const struct ops_report *report) {
    const struct kvc_rooflines *c = &report->rooflines;
    char text[32];

    printf("%s: a large copy %.1f GB/s, ", report->a->common.backend, c->copy / 1e9);
    if (c->read > 0)
        printf("reads %.1f GB/s, ", c->read / 1e9);
    printf("multiply-adds %.1f GFLOP/s, a library's matrix product ", c->fma / 1e9);
    if (c->product > 0)
        printf("%.1f GFLOP/s", c->product / 1e9);
    else
        printf("-");
    printf(", an empty call %s\n", cli_time(c->launch, text));
}

static int print_table(struct ops_report *report) {
    int status;

    if (!report->measured->model)
        print_rooflines(report);
    status = cli_table_print(report->command, report->table, stdout);
    if (status != KVC_OK)
        return status;
    if (!report->a->common.quiet && !report->measured->model)
        printf("\nBytes and flops are the minimum that a call needs; its data may be in a cache. of limit: the time "
               "that the %s, the\nmultiply-adds or the empty call allow, divided by the time of the call.\n",
               report->rooflines.read > 0 ? "reads" : "copy");
    if (report->beside && !report->a->beside && !report->a->common.quiet)
        printf("x %s: times as fast; rate: times as many bytes per second.\n", report->beside);
    if (report->a->beside && report->slower)
        printf("\nSLOWER than %s: %u, the first %s\n", report->a->beside, report->slower, report->first);
    else if (report->a->beside)
        printf("\nNo operation is slower than %s.\n", report->a->beside);
    return cli_flush(report->command);
}

static int report_open(struct ops_report *report) {
    char headings[160] = "<operation|time|share|<shape";

    report->beside = report->a->beside ? report->a->beside : report->measured->beside;
    if (!report->measured->model)
        snprintf(headings, sizeof headings, "<operation|time|GB/s|GFLOP/s|<bound|of limit%s%.40s%s|<shape",
                 report->beside ? "|x " : "", report->beside ? report->beside : "",
                 report->beside && !report->a->beside ? "|rate" : "");
    if (report->a->common.json)
        report->rows = json_array();
    else
        report->table = cli_table_open(headings);
    return report->rows || report->table ? KVC_OK : cli_no_memory(report->command);
}

/* Prints the table, unless the measurement failed, and frees the report. */
static int report_close(struct ops_report *report, enum kvc_status measured, const struct kvc_error *error) {
    int status = (int)measured;

    if (status != KVC_OK)
        status = cli_report(report->command, error);
    else
        status = report->rows ? print_json(report) : print_table(report);
    cli_table_free(report->table);
    json_decref(report->rows);
    return status == KVC_OK && report->slower ? KVC_DIFFERS : status;
}

int bench_table(const struct cli_command *command, const struct bench_arguments *a,
                const struct kvc_measure_table *table) {
    const struct kvc_engine_options options = {
        .backend = a->common.backend, .threads = (int)a->common.threads, .math = KVC_MATH_EXACT};
    const struct kvc_measure_options what = {
        .beside = a->beside, .only = a->only, .entries = (uint32_t)a->entries, .table = table->name, .quick = a->quick};
    struct ops_report report = {.command = command, .a = a, .measured = table};
    struct kvc_error error;
    const int status = report_open(&report);

    if (status != KVC_OK)
        return status;
    return report_close(&report, kvc_measure_operations(&options, &what, add_row, &report, &error), &error);
}

int bench_prompt(const struct bench *bench, const struct kvc_measure_table *table) {
    const struct bench_arguments *a = bench->a;
    const size_t count = (size_t)a->prompts.items[0];
    struct ops_report report = {.command = bench->command, .a = a, .measured = table};
    struct kvc_session_options options;
    uint64_t state = (uint64_t)a->seed;
    int32_t *tokens = malloc(count * sizeof *tokens);
    struct kvc_error error;
    int status = tokens ? report_open(&report) : cli_no_memory(bench->command);

    if (status == KVC_OK) {
        bench_random_tokens(bench, &state, tokens, count);
        cli_session_options(&a->common, a->specs.items[0].text, &options);
        status = report_close(
            &report, kvc_measure_prompt(bench->engine, bench->model, &options, tokens, count, add_row, &report, &error),
            &error);
    }
    free(tokens);
    return status;
}

/* ops.c - kvcull bench --ops: the operations of a backend relative to the roofline of its device. */
#include <string.h>

#include "cli/bench/bench.h"

struct ops_report {
    const struct cli_command *command;
    const struct bench_arguments *a;
    struct cli_table *table;
    json_t *rows; /* NULL: print a table */
    struct kvc_rooflines rooflines;
    unsigned slower;
    char first[128]; /* name of the first slower operation */
    bool failed;
};

/* Returns the limit that bounds a call, and the fraction of it that the call reached. */
static double of_roofline(const struct kvc_rooflines *c, const struct kvc_measured *row, const char **bound) {
    const double bytes = (double)row->bytes / c->copy, flops = (double)row->flops / c->fma;
    const double least = bytes > flops ? bytes : flops;

    *bound = c->launch > least ? "call" : bytes > flops ? "bytes" : "flops";
    return (c->launch > least ? c->launch : least) / row->seconds;
}

/* Returns true if an operation is slower than on the other backend by more than the usual variation, after two empty
 * calls are subtracted for each of its calls. */
static bool is_slower(const struct kvc_measured *row) {
    return row->beside > 0 && row->seconds - 2 * row->calls * row->launch > 1.1 * row->beside;
}

static void rate(struct ops_report *report, double count, double seconds) {
    if (count > 0)
        cli_cell(report->table, "%.1f", count / seconds / 1e9);
    else
        cli_cell(report->table, "-");
}

static int add_row(void *user, const struct kvc_rooflines *rooflines, const struct kvc_measured *row) {
    struct ops_report *report = user;
    const char *bound;
    const double ratio = of_roofline(rooflines, row, &bound);
    char text[32];

    report->rooflines = *rooflines;
    if (is_slower(row) && report->slower++ == 0)
        snprintf(report->first, sizeof report->first, "%s (%s)", row->name, row->shape);
    if (!report->a->common.quiet)
        fprintf(stderr, "%s, %s\n", row->name, row->shape);
    if (report->rows) {
        json_t *one = json_object();

        cli_json_set(one, "name", json_string(row->name));
        cli_json_set(one, "shape", json_string(row->shape));
        cli_json_set(one, "seconds", json_real(row->seconds));
        cli_json_set(one, "bytes", json_integer((json_int_t)row->bytes));
        cli_json_set(one, "flops", json_integer((json_int_t)row->flops));
        cli_json_set(one, "bound", json_string(bound));
        cli_json_set(one, "of_roofline", json_real(ratio));
        cli_json_set(one, "of_ceiling", json_real(ratio)); /* the former name of the key */
        if (report->a->beside) {
            cli_json_set(one, "beside_seconds", json_real(row->beside));
            cli_json_set(one, "call_seconds", json_real(row->launch));
        }
        if (json_array_append_new(report->rows, one) != 0)
            report->failed = true;
        return 0;
    }
    cli_cell(report->table, "%s", row->name);
    cli_cell(report->table, "%s", cli_time(row->seconds, text));
    rate(report, (double)row->bytes, row->seconds);
    rate(report, (double)row->flops, row->seconds);
    cli_cell(report->table, "%s", bound);
    cli_cell(report->table, "%.2f", ratio);
    if (report->a->beside)
        cli_cell(report->table, "%.2f%s", row->beside / row->seconds, is_slower(row) ? " !" : "");
    cli_cell(report->table, "%s", row->shape);
    return 0;
}

static int print_json(struct ops_report *report) {
    json_t *root = json_object(), *rooflines = json_object();

    cli_json_set(rooflines, "copy_bytes_per_second", json_real(report->rooflines.copy));
    cli_json_set(rooflines, "fma_flops_per_second", json_real(report->rooflines.fma));
    cli_json_set(rooflines, "product_flops_per_second",
                 report->rooflines.product > 0 ? json_real(report->rooflines.product) : json_null());
    cli_json_set(rooflines, "call_seconds", json_real(report->rooflines.launch));
    cli_json_set(root, "backend", cli_json_text(report->a->common.backend, strlen(report->a->common.backend)));
    cli_json_set(root, "ceilings", json_incref(rooflines)); /* the former name of the key */
    cli_json_set(root, "rooflines", rooflines);
    if (report->a->beside) {
        cli_json_set(root, "beside", cli_json_text(report->a->beside, strlen(report->a->beside)));
        cli_json_set(root, "slower", json_integer((json_int_t)report->slower));
    }
    cli_json_set(root, "operations", report->failed ? NULL : json_incref(report->rows));
    return cli_json_print(report->command, root, stdout);
}

static int print_table(struct ops_report *report) {
    const struct kvc_rooflines *c = &report->rooflines;
    char text[32];
    int status;

    printf("%s: a large copy %.1f GB/s, multiply-adds %.1f GFLOP/s, a library's matrix product ",
           report->a->common.backend, c->copy / 1e9, c->fma / 1e9);
    if (c->product > 0)
        printf("%.1f GFLOP/s", c->product / 1e9);
    else
        printf("-");
    printf(", an empty call %s\n", cli_time(c->launch, text));
    status = cli_table_print(report->command, report->table, stdout);
    if (status != KVC_OK)
        return status;
    if (!report->a->common.quiet)
        printf("\nBytes and flops are the minimum that a call needs; its data may be in a cache. of limit: the time "
               "that the copy, the\nmultiply-adds or the empty call allow, divided by the time of the call.\n");
    if (report->a->beside && report->slower)
        printf("\nSLOWER than %s: %u, the first %s\n", report->a->beside, report->slower, report->first);
    else if (report->a->beside)
        printf("\nNo operation is slower than %s.\n", report->a->beside);
    return cli_flush(report->command);
}

int bench_ops(const struct cli_command *command, const struct bench_arguments *a) {
    const struct kvc_engine_options options = {
        .backend = a->common.backend, .threads = (int)a->common.threads, .math = KVC_MATH_EXACT};
    const struct kvc_measure_options what = {a->beside, a->only, (uint32_t)a->entries};
    struct ops_report report = {.command = command, .a = a};
    struct kvc_error error;
    char headings[128];
    int status;

    if (a->beside)
        snprintf(headings, sizeof headings, "<operation|time|GB/s|GFLOP/s|<bound|of limit|x %.40s|<shape", a->beside);
    else
        snprintf(headings, sizeof headings, "<operation|time|GB/s|GFLOP/s|<bound|of limit|<shape");
    if (a->common.json)
        report.rows = json_array();
    else
        report.table = cli_table_open(headings);
    if (!report.rows && !report.table)
        return cli_no_memory(command);
    status = (int)kvc_measure_operations(&options, &what, add_row, &report, &error);
    if (status != KVC_OK)
        status = cli_report(command, &error);
    else
        status = report.rows ? print_json(&report) : print_table(&report);
    cli_table_free(report.table);
    json_decref(report.rows);
    return status == KVC_OK && report.slower ? KVC_DIFFERS : status;
}

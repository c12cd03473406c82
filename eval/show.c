/* show.c - results as tables or JSON on standard output, and as a report. */
#include "eval/report.h"

/* The tables, and of samples that were traced all but the texts. */
static json_t *all_json(const struct eval_results *results) {
    json_t *root = eval_tables_json(results), *traces = json_array(), *record;
    size_t i;
    json_array_foreach(results->traces, i, record) {
        json_t *copy = json_copy(record), *trace = json_copy(json_object_get(record, "trace"));
        (void)json_object_del(trace, "text");
        cli_json_set(copy, "trace", trace);
        json_array_append_new(traces, copy);
    }
    if (json_array_size(traces) > 0)
        cli_json_set(root, "traces", traces);
    else
        json_decref(traces);
    return root;
}

int eval_results_show(const struct eval_results *results, bool json, const char *report) {
    int status;
    if (json) {
        status = cli_json_print(results->command, all_json(results), stdout);
    } else {
        status = eval_tables_print(results);
        if (status == KVC_OK)
            status = eval_spans_print(results);
    }
    if (status == KVC_OK)
        status = cli_flush(results->command);
    return status == KVC_OK && report ? eval_report_write(results, report) : status;
}

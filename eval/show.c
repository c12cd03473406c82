/* show.c - writes results as tables or JSON to standard output, and as a report. */
#include "eval/report.h"

/* Returns the tables, and the traces without their texts. */
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

int eval_results_show(const struct eval_results *results, const struct eval_computed *computed, bool json,
                      const char *report) {
    int status;
    if (json) {
        json_t *root = all_json(results);
        if (computed) {
            cli_json_set(root, "prompt_tokens", json_integer((json_int_t)computed->prompt_tokens));
            cli_json_set(root, "computed_prompt_tokens", json_integer((json_int_t)computed->computed_tokens));
        }
        status = cli_json_print(results->command, root, stdout);
    } else {
        char number[2][32];
        status = eval_tables_print(results);
        if (status == KVC_OK && computed && computed->prompt_tokens > 0)
            printf("Prompts: %s of %s tokens computed, the others shared\n",
                   cli_number(computed->computed_tokens, number[0]), cli_number(computed->prompt_tokens, number[1]));
        if (status == KVC_OK)
            status = eval_spans_print(results);
    }
    if (status == KVC_OK)
        status = cli_flush(results->command);
    return status == KVC_OK && report ? eval_report_write(results, report) : status;
}

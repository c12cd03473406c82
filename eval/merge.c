/* merge.c - `kvcull eval merge`: prints the tables of several result files. */
#include "eval/eval.h"
#include "eval/report.h"

static int merge(const struct cli_command *command, const struct cli_common *common, const struct cli_words *paths,
                 const char *report) {
    struct eval_results results;
    int status = report ? cli_check_inputs(command, report, (const char *const *)paths->items, paths->count) : KVC_OK;
    if (status == KVC_OK && report)
        status = eval_report_check(command, report);
    const int started = eval_results_start(command, &results);
    status = status == KVC_OK ? started : status;
    for (size_t i = 0; i < paths->count && status == KVC_OK; i++) {
        status = eval_results_read(&results, paths->items[i]);
        if (status == KVC_OK && results.dropped > 0 && !common->quiet)
            cli_warn(command, "%s: the last line is incomplete and was ignored", paths->items[i]);
    }
    if (status == KVC_OK && results.twice > 0 && !common->quiet)
        cli_warn(command, "%zu results are duplicates, which count once", results.twice);
    if (status == KVC_OK && json_array_size(results.records) + json_array_size(results.traces) == 0)
        status = cli_error(command, KVC_INPUT, "%s: %s no results; `kvcull eval TASK... --out FILE` writes them",
                           paths->items[0], paths->count > 1 ? "like the other files, has" : "has");
    if (status == KVC_OK)
        status = eval_results_show(&results, NULL, common->json, report);
    eval_results_close(&results);
    return status;
}

int eval_merge(const struct cli_command *command, int argc, char **argv) {
    struct cli_common common;
    struct cli_words paths = {NULL, 0};
    const char *report = NULL;
    cli_common_defaults(&common);
    const struct cli_option options[] = {
        {CLI_TEXT, 0, "report", "FILE.html", "also write one HTML file with charts", &report, 0, 0, NULL},
        CLI_OUTPUT_OPTIONS(&common),
        {CLI_END, 0, NULL, NULL, NULL, NULL, 0, 0, NULL}};
    int status = cli_parse(command, options, argc, argv, &paths);
    if (status == CLI_GO) {
        status = paths.count > 0 ? merge(command, &common, &paths, report)
                                 : cli_error(command, KVC_USAGE, "no file; give files that --out wrote");
    }
    cli_words_free(&paths);
    return status;
}

/* print.c - prints the measurements as tables and as JSON. */
#include <string.h>

#include "cli/bench/bench.h"

/* Formats the ratio of a result to the first policy's result for the same prompt or batch. */
static void relative(double ratio, bool self, char text[32]) {
    if (self)
        snprintf(text, 32, "-");
    else
        snprintf(text, 32, "%+.1f %%", 100 * (ratio - 1));
}

/* Returns the seconds that one step needs to read its bytes at the machine's bandwidth. */
static double limit(const struct bench *bench, const struct bench_decode *d) {
    return bench->bandwidth > 0 ? (double)(bench_step_bytes(bench, d->batch) + d->read_bytes) / bench->bandwidth : 0;
}

static int print_prefill(const struct bench *bench, const struct bench_prefill *prefill, size_t count) {
    struct cli_table *table =
        cli_table_open("<policy|prompt|time|tokens/s|vs first|peak cache|layer + kept|kept|hidden");
    size_t specs = bench->a->specs.count;
    char text[32];
    int status;

    printf("\nPrefill%s, median of %lld (layer + kept: one full layer and the kept entries)\n",
           bench->a->fill ? " with synthetic entries" : "", (long long)bench->a->repeat);
    for (size_t i = 0; i < count; i++) {
        const struct bench_prefill *p = &prefill[i], *first = &prefill[i - i % specs];

        if (i > 0 && i % specs == 0)
            cli_table_rule(table);
        cli_cell(table, "%s", p->spec);
        cli_cell(table, "%llu", (unsigned long long)p->prompt);
        cli_cell(table, "%s", cli_time(p->median, text));
        cli_cell(table, "%.1f", (double)p->prompt / p->median);
        relative(p->relative, p == first, text);
        cli_cell(table, "%s", text);
        cli_cell(table, "%s", cli_bytes(p->peak_bytes, text));
        cli_cell(table, "%s", cli_bytes(p->layer_bytes + p->kept_bytes, text));
        cli_cell(table, "%s", cli_bytes(p->kept_bytes, text));
        cli_cell(table, "%s", cli_bytes(p->hidden_bytes, text));
    }
    status = cli_table_print(bench->command, table, stdout);
    cli_table_free(table);
    return status;
}

static int print_decode(const struct bench *bench, const struct bench_decode *decode, size_t count) {
    struct cli_table *table = cli_table_open("<policy|prompt|batch|a step|vs first|tokens/s|cache read|GB/s|of limit");
    size_t specs = bench->a->specs.count;
    char text[32];
    int status;

    printf("\nDecode%s, median of %lld steps; limit: weights and cache read once at the measured bandwidth\n",
           bench->a->fill ? " with synthetic entries (no prompt was computed)" : "", (long long)bench->a->generate);
    for (size_t i = 0; i < count; i++) {
        const struct bench_decode *d = &decode[i], *first = &decode[i - i % specs];

        if (i > 0 && i % specs == 0)
            cli_table_rule(table);
        cli_cell(table, "%s", d->spec);
        cli_cell(table, "%llu", (unsigned long long)d->prompt);
        cli_cell(table, "%llu", (unsigned long long)d->batch);
        cli_cell(table, "%s", cli_time(d->median, text));
        relative(d->relative, d == first, text);
        cli_cell(table, "%s", text);
        cli_cell(table, "%.1f", (double)d->batch / d->mean);
        cli_cell(table, "%s", cli_bytes(d->read_bytes, text));
        cli_cell(table, "%.1f", (double)(bench_step_bytes(bench, d->batch) + d->read_bytes) / d->median / 1e9);
        if (bench->bandwidth > 0)
            cli_cell(table, "%.2f", limit(bench, d) / d->median);
        else
            cli_cell(table, "-");
    }
    status = cli_table_print(bench->command, table, stdout);
    cli_table_free(table);
    return status;
}

static int print_memory(const struct bench *bench, const struct bench_decode *decode, size_t count) {
    struct cli_table *table = cli_table_open("<policy|batch|cache: first|middle|last|process: first|middle|last");
    struct cli_table *flat = cli_table_open("<policy|batch|1st quarter|2nd|3rd|4th|last/first");
    char text[32];
    int status;

    for (size_t i = 0; i < count; i++) {
        const struct bench_decode *d = &decode[i];

        cli_cell(table, "%s", d->spec);
        cli_cell(table, "%llu", (unsigned long long)d->batch);
        for (size_t p = 0; p < BENCH_POINTS; p++)
            cli_cell(table, "%s", cli_bytes(d->cache[p], text));
        for (size_t p = 0; p < BENCH_POINTS; p++)
            cli_cell(table, "%s", cli_bytes(d->resident[p], text));
        cli_cell(flat, "%s", d->spec);
        cli_cell(flat, "%llu", (unsigned long long)d->batch);
        for (size_t q = 0; q < BENCH_QUARTERS; q++)
            cli_cell(flat, "%s", cli_time(d->quarter[q], text));
        cli_cell(flat, "%.3f", d->quarter[0] > 0 ? d->quarter[BENCH_QUARTERS - 1] / d->quarter[0] : 0);
    }
    printf("\nMemory at the first, middle and last step: cache and state as counted; the process's anonymous\n"
           "resident memory%s\n",
           bench->a->specs.count > 1 ? ", which holds all policies of the run" : "");
    status = cli_table_print(bench->command, table, stdout);
    printf("\nMedian time of a step in each quarter of the generation\n");
    if (status == KVC_OK)
        status = cli_table_print(bench->command, flat, stdout);
    cli_table_free(table);
    cli_table_free(flat);
    return status;
}

/* Prints three cells: the counted number, the predicted number, and their relative difference. If the prediction is an
 * upper bound and it holds, the last cell is "within". */
static void counted_cells(struct cli_table *table, uint64_t counted, double expected, enum kvc_expected kind) {
    const bool most = kind == KVC_EXPECTED_MOST;
    char text[32];

    cli_cell(table, "%s", cli_bytes(counted, text));
    cli_cell(table, "%s%s", most ? "<=" : "", cli_bytes((uint64_t)(expected + 0.5), text));
    if (most && (double)counted <= expected)
        cli_cell(table, "within");
    else if (expected > 0)
        cli_cell(table, "%+.1f %%", 100 * ((double)counted / expected - 1));
    else
        cli_cell(table, counted > 0 ? "above 0" : "0.0 %%");
}

/* Prints the counted numbers next to the predictions of the methods' formulas. */
static int print_formulas(const struct bench *bench, const struct bench_prefill *prefill, size_t prefills,
                          const struct bench_decode *decode, size_t decodes) {
    struct cli_table *table = cli_table_open("<policy|kept|formula|off|peak|estimate|off|read|formula|off");
    struct cli_table *choosing = cli_table_open("<policy|read/token|to choose|to attend");
    bool chooses = false;
    char text[32];
    int status;

    printf("\nCounted numbers, compared with the predictions of the methods' formulas: entries kept after the\n"
           "prompt, the peak of cache and state in prefill, cache bytes read per token. \"<=\": the prediction\n"
           "is an upper bound, because the number depends on the data\n");
    for (size_t i = 0; i < prefills; i++) {
        const struct bench_prefill *p = &prefill[i];
        const struct bench_decode *d = NULL;

        for (size_t j = 0; j < decodes && !d; j++)
            if (strcmp(decode[j].spec, p->spec) == 0 && decode[j].prompt == p->prompt)
                d = &decode[j];
        cli_cell(table, "%s", p->spec);
        counted_cells(table, p->entry_bytes, p->expected_entry_bytes, p->entry_kind);
        counted_cells(table, p->peak_bytes, (double)p->expected_peak, p->peak_kind);
        if (!d) {
            for (int c = 0; c < 3; c++)
                cli_cell(table, "-");
            continue;
        }
        counted_cells(table, d->read_bytes, d->expected_read_bytes, d->read_kind);
        if (d->select_bytes == 0)
            continue;
        chooses = true;
        cli_cell(choosing, "%s", d->spec);
        cli_cell(choosing, "%s", cli_bytes(d->read_bytes, text));
        cli_cell(choosing, "%s", cli_bytes(d->select_bytes, text));
        cli_cell(choosing, "%s", cli_bytes(d->read_bytes - d->select_bytes, text));
    }
    status = cli_table_print(bench->command, table, stdout);
    if (status == KVC_OK && chooses) {
        printf("\nCache bytes that select methods read in order to choose entries\n");
        status = cli_table_print(bench->command, choosing, stdout);
    }
    cli_table_free(table);
    cli_table_free(choosing);
    return status;
}

static void sent_row(struct cli_table *table, const char *spec, const char *what, uint64_t batch,
                     const struct kvc_ranks_traffic *sent, double tokens, double computing) {
    char text[32];

    cli_cell(table, "%s", spec);
    cli_cell(table, "%s", what);
    cli_cell(table, "%llu", (unsigned long long)batch);
    cli_cell(table, "%s", cli_bytes((uint64_t)((double)sent->bytes / tokens), text));
    cli_cell(table, "%.2f", (double)sent->messages / tokens);
    cli_cell(table, "%.2f", computing);
}

/* Prints the numbers of messages between ranks. */
static int print_sent(const struct bench *bench, const struct bench_prefill *prefill, size_t prefills,
                      const struct bench_decode *decode, size_t decodes) {
    struct cli_table *table = cli_table_open("<policy|<of|batch|bytes/token|messages/token|computing");
    int status;

    printf("\nBytes sent by all %u ranks, and the mean number of ranks that computed at once (the others waited)\n",
           kvc_ranks_count(cli_ranks()));
    for (size_t i = 0; i < prefills; i++)
        sent_row(table, prefill[i].spec, "prefill", 1, &prefill[i].sent, (double)prefill[i].prompt,
                 prefill[i].computing);
    for (size_t i = 0; i < decodes; i++)
        sent_row(table, decode[i].spec, "decode", decode[i].batch, &decode[i].sent,
                 (double)decode[i].batch * (double)bench->a->generate, decode[i].computing);
    status = cli_table_print(bench->command, table, stdout);
    cli_table_free(table);
    return status;
}

static bool has_ranks(void) { return cli_ranks() && kvc_ranks_count(cli_ranks()) > 1; }

int bench_print(const struct bench *bench, const struct bench_prefill *prefill, size_t prefills,
                const struct bench_decode *decode, size_t decodes) {
    const struct kvc_model_info *info = kvc_model_info(bench->model);
    char text[3][32], types[KVC_ENTRY_TYPES_NAME];
    int status;

    printf("%s: %s parameters, weights %s (%s), loaded in %s\n", bench->a->shape ? bench->a->shape : bench->a->model,
           cli_number(info->parameters, text[0]), cli_bytes(info->weight_bytes, text[1]), info->weight_types,
           cli_time(bench->load_seconds, text[2]));
    printf("%s; math %s; memory reads at %.1f GB/s; cache entries %s\n", kvc_engine_backend(bench->engine),
           cli_math_name(info->math), bench->bandwidth / 1e9, kvc_entry_types_name(bench->a->common.cache_type, types));
    status = prefills > 0 ? print_prefill(bench, prefill, prefills) : KVC_OK;
    if (status == KVC_OK && decodes > 0)
        status = print_decode(bench, decode, decodes);
    if (status == KVC_OK && decodes > 0)
        status = print_memory(bench, decode, decodes);
    if (status == KVC_OK && prefills > 0)
        status = print_formulas(bench, prefill, prefills, decode, decodes);
    if (status == KVC_OK && has_ranks())
        status = print_sent(bench, prefill, prefills, decode, decodes);
    return status == KVC_OK ? cli_flush(bench->command) : status;
}

/* ---- JSON
 * ------------------------------------------------------------------------------------------------------------ */

/* Returns "at most" or "equal" as JSON: how the counted number should relate to the prediction. */
static json_t *kind_json(enum kvc_expected kind) {
    return json_string(kind == KVC_EXPECTED_MOST ? "at most" : "equal");
}

static void set_sent(json_t *o, const struct kvc_ranks_traffic *sent, double tokens, double computing) {
    if (!has_ranks())
        return;
    cli_json_set(o, "sent_bytes_per_token", json_real((double)sent->bytes / tokens));
    cli_json_set(o, "sent_messages_per_token", json_real((double)sent->messages / tokens));
    cli_json_set(o, "ranks_computing", json_real(computing));
}

static json_t *prefill_json(const struct bench_prefill *p) {
    json_t *o = json_object();

    cli_json_set(o, "kv", cli_json_text(p->spec, strlen(p->spec)));
    cli_json_set(o, "prompt", json_integer((json_int_t)p->prompt));
    cli_json_set(o, "seconds", json_real(p->median));
    cli_json_set(o, "best_seconds", json_real(p->best));
    cli_json_set(o, "tokens_per_second", json_real((double)p->prompt / p->median));
    cli_json_set(o, "relative", json_real(p->relative));
    cli_json_set(o, "peak_bytes", json_integer((json_int_t)p->peak_bytes));
    cli_json_set(o, "one_layer_full_bytes", json_integer((json_int_t)p->layer_bytes));
    cli_json_set(o, "kept_bytes", json_integer((json_int_t)p->kept_bytes));
    cli_json_set(o, "hidden_bytes", json_integer((json_int_t)p->hidden_bytes));
    cli_json_set(o, "entry_bytes", json_integer((json_int_t)p->entry_bytes));
    cli_json_set(o, "entry_bytes_by_formula", json_real(p->expected_entry_bytes));
    cli_json_set(o, "entry_bytes_is", kind_json(p->entry_kind));
    cli_json_set(o, "peak_bytes_by_estimate", json_integer((json_int_t)p->expected_peak));
    cli_json_set(o, "peak_bytes_is", kind_json(p->peak_kind));
    set_sent(o, &p->sent, (double)p->prompt, p->computing);
    return o;
}

static json_t *list_json(const uint64_t *bytes, const double *seconds, size_t count) {
    json_t *list = json_array();

    for (size_t i = 0; list && i < count; i++)
        if (json_array_append_new(list, bytes ? json_integer((json_int_t)bytes[i]) : json_real(seconds[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static json_t *decode_json(const struct bench *bench, const struct bench_decode *d) {
    json_t *o = json_object();

    cli_json_set(o, "kv", cli_json_text(d->spec, strlen(d->spec)));
    cli_json_set(o, "prompt", json_integer((json_int_t)d->prompt));
    cli_json_set(o, "batch", json_integer((json_int_t)d->batch));
    cli_json_set(o, "step_seconds", json_real(d->median));
    cli_json_set(o, "mean_step_seconds", json_real(d->mean));
    cli_json_set(o, "relative", json_real(d->relative));
    cli_json_set(o, "tokens_per_second", json_real((double)d->batch / d->mean));
    cli_json_set(o, "cache_read_bytes_per_step", json_integer((json_int_t)d->read_bytes));
    cli_json_set(o, "select_bytes_per_step", json_integer((json_int_t)d->select_bytes));
    cli_json_set(o, "cache_read_bytes_by_formula", json_real(d->expected_read_bytes));
    cli_json_set(o, "cache_read_bytes_is", kind_json(d->read_kind));
    cli_json_set(o, "limit_ratio", bench->bandwidth > 0 ? json_real(limit(bench, d) / d->median) : json_null());
    cli_json_set(o, "cache_bytes", list_json(d->cache, NULL, BENCH_POINTS));
    cli_json_set(o, "resident_bytes", list_json(d->resident, NULL, BENCH_POINTS));
    cli_json_set(o, "peak_bytes", json_integer((json_int_t)d->peak_bytes));
    cli_json_set(o, "quarter_seconds", list_json(NULL, d->quarter, BENCH_QUARTERS));
    set_sent(o, &d->sent, (double)d->batch * (double)bench->a->generate, d->computing);
    return o;
}

int bench_print_json(const struct bench *bench, const struct bench_prefill *prefill, size_t prefills,
                     const struct bench_decode *decode, size_t decodes) {
    const struct kvc_model_info *info = kvc_model_info(bench->model);
    const char *name = bench->a->shape ? bench->a->shape : bench->a->model;
    json_t *root = json_object(), *list = json_array(), *second = json_array();

    cli_json_set(root, "model", cli_json_text(name, strlen(name)));
    cli_json_set(root, "backend", json_string(kvc_engine_backend(bench->engine)));
    cli_json_set(root, "math", json_string(cli_math_name(info->math)));
    cli_json_set(root, "parameters", json_integer((json_int_t)info->parameters));
    cli_json_set(root, "active_parameters", json_integer((json_int_t)info->active_parameters));
    cli_json_set(root, "weight_bytes", json_integer((json_int_t)info->weight_bytes));
    cli_json_set(root, "weight_bytes_per_step", json_integer((json_int_t)bench_step_bytes(bench, 1)));
    cli_json_set(root, "load_seconds", json_real(bench->load_seconds));
    cli_json_set(root, "synthetic", json_boolean(bench->a->fill));
    cli_json_set(root, "made_up", json_boolean(bench->a->fill)); /* the former name of the key */
    cli_json_set(root, "bandwidth", json_real(bench->bandwidth));
    for (size_t i = 0; list && i < prefills; i++)
        cli_json_add(list, prefill_json(&prefill[i]));
    for (size_t i = 0; second && i < decodes; i++)
        cli_json_add(second, decode_json(bench, &decode[i]));
    cli_json_set(root, "prefill", list);
    cli_json_set(root, "decode", second);
    return cli_json_print(bench->command, root, stdout);
}

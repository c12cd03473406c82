/* tables.c - the list of tables that can be measured: their names and limits, and the calls with which they compare. */
#include <stdio.h>
#include <string.h>

#include "bench/measure.h"

static const struct kvc_measure_group groups[] = {
    {.table = {"operations", NULL, false}},
    {.table = {"layer", NULL, false}, .operations = kvc_measure_layer, .entries = 32768, .least = KVC_MEASURE_LEAST},
    {.table = {"attention-decode", NULL, false},
     .operations = kvc_measure_decode_attention,
     .cold = true,
     .reads = true},
    {.table = {"attention-prefill", NULL, false}, .operations = kvc_measure_prefill_attention},
    {.table = {"attention-int8", "float", false},
     .operations = kvc_measure_int8_attention,
     .other = KVC_MEASURE_OTHER_CALL,
     .reads = true},
    {.table = {"select", "full", false},
     .operations = kvc_measure_select,
     .other = KVC_MEASURE_OTHER_CALL,
     .cold = true,
     .reads = true,
     .entries = 32768,
     .least = 1024},
    {.table = {"gemm", "fast", false}, .operations = kvc_measure_gemm, .other = KVC_MEASURE_OTHER_LIBRARY},
    {.table = {"types", NULL, false}, .operations = kvc_measure_types},
    {.table = {"small-batch", NULL, false}, .operations = kvc_measure_small_batch},
    {.table = {"linear-decode", NULL, false}, .operations = kvc_measure_decode_linear, .reads = true},
    {.table = {"linear-cached", NULL, false}, .operations = kvc_measure_cached_linear},
    {.table = {"int8", "float", false}, .operations = kvc_measure_int8, .other = KVC_MEASURE_OTHER_CALL, .reads = true},
    {.table = {"int16", "float", false},
     .operations = kvc_measure_int16,
     .other = KVC_MEASURE_OTHER_CALL,
     .reads = true},
    {.table = {"prompt", NULL, true}}};
enum { GROUPS = sizeof groups / sizeof *groups };

const struct kvc_measure_table *kvc_measure_table(size_t i) { return i < GROUPS ? &groups[i].table : NULL; }

const struct kvc_measure_group *kvc_measure_group(const char *name, struct kvc_error *error) {
    char names[256] = "";
    for (size_t i = 0; i < GROUPS; i++) {
        if (strcmp(groups[i].table.name, name) == 0)
            return &groups[i];
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? ", " : "", groups[i].table.name);
    }
    (void)kvc_fail(error, KVC_USAGE, "measure: there is no table '%s'; try %s", name, names);
    return NULL;
}

/* json.c - JSON output, and detection of lost values. If an allocation fails, jansson loses values and seldom reports
 * it. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

json_t *cli_json_text(const char *text, size_t bytes) {
    char *clean = malloc(3 * bytes + 1);
    size_t at = 0;
    json_t *value;

    if (!clean)
        return NULL;
    for (size_t i = 0; i < bytes;) {
        enum cli_part kind;
        size_t n = cli_part(text + i, bytes - i, &kind);

        memcpy(clean + at, kind == CLI_CHARACTER ? text + i : CLI_REPLACEMENT, kind == CLI_CHARACTER ? n : 3);
        at += kind == CLI_CHARACTER ? n : 3;
        i += n;
    }
    value = json_stringn(clean, at);
    free(clean);
    return value;
}

json_t *cli_json_number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

/* Number of values that this thread lost to failed allocations. If values were lost, the program ends without printing
 * JSON. */
static _Thread_local size_t lost;

/* After a failed allocation, jansson continues with incomplete texts, and its scanner may end in an assertion. To
 * prevent this, jansson gets memory from this reserve until the caller has read cli_json_lost. */
static _Thread_local union {
    max_align_t align;
    unsigned char bytes[65536];
} reserve;
static _Thread_local size_t reserved;

static void *counted(size_t bytes) {
    void *block = malloc(bytes);

    if (block)
        return block;
    lost++;
    if (bytes > sizeof reserve.bytes - reserved)
        return NULL;
    block = reserve.bytes + reserved;
    reserved += (bytes + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
    if (reserved > sizeof reserve.bytes)
        reserved = sizeof reserve.bytes;
    return block;
}

void cli_json_free(void *block) {
    const uintptr_t at = (uintptr_t)block, start = (uintptr_t)reserve.bytes;

    if (at < start || at >= start + sizeof reserve.bytes)
        free(block);
}

void cli_json_start(void) { json_set_alloc_funcs(counted, cli_json_free); }

bool cli_json_lost(void) { return lost > 0; }

void cli_json_forget(void) { lost = reserved = 0; }

void cli_json_set(json_t *object, const char *key, json_t *value) {
    lost += json_object_set_new(object, key, value) != 0;
}

void cli_json_add(json_t *array, json_t *value) { lost += json_array_append_new(array, value) != 0; }

int cli_json_print(const struct cli_command *command, json_t *root, FILE *stream) {
    int status = KVC_OK;

    lost += !root;
    /* The stream remembers a write error, which cli_flush or cli_file_commit reports. */
    if (!lost && json_dumpf(root, stream, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) == 0)
        fputc('\n', stream);
    if (lost)
        status = cli_no_memory(command);
    else if (stream == stdout)
        status = cli_flush(command);
    json_decref(root);
    return status;
}

json_t *cli_stats_json(const struct kvc_session_stats *stats) {
    json_t *object = json_object();

    cli_json_set(object, "tokens", json_integer((json_int_t)stats->tokens));
    cli_json_set(object, "entries", json_integer((json_int_t)stats->entries));
    cli_json_set(object, "entries_most", json_integer((json_int_t)stats->entries_most));
    cli_json_set(object, "cache_bytes", json_integer((json_int_t)stats->cache_bytes));
    cli_json_set(object, "state_bytes", json_integer((json_int_t)stats->state_bytes));
    cli_json_set(object, "peak_bytes", json_integer((json_int_t)stats->peak_bytes));
    cli_json_set(object, "prompt_peak_bytes", json_integer((json_int_t)stats->prompt_peak_bytes));
    cli_json_set(object, "full_bytes", json_integer((json_int_t)stats->full_bytes));
    cli_json_set(object, "read_bytes", json_integer((json_int_t)stats->read_bytes));
    cli_json_set(object, "decode_steps", json_integer((json_int_t)stats->decode_steps));
    cli_json_set(object, "saturated", json_integer((json_int_t)stats->saturated));
    return object;
}

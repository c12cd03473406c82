/* advice.c - writes the advice of an out-of-memory error: how much memory is missing, and what would fit. */
#include "core/engine/advice.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/assert.h"
#include "core/base/integers.h"
#include "core/base/types.h"
#include "core/engine/engine.h"

struct need {
    const struct kvc_session *session;
    uint64_t others; /* bytes on the device that are not entries of this session */
    uint64_t capacity;
};

/* Formats a size as "1.50 GiB" or "7.2 MiB". */
static const char *size(uint64_t bytes, char text[32]) {
    const bool large = bytes >= (uint64_t)1 << 30;
    snprintf(text, 32, large ? "%.2f GiB" : "%.1f MiB", (double)bytes / (large ? 0x1p30 : 0x1p20));
    return text;
}

/* Replaces the advice of an error: the part of its text after the last "; ". */
static void advice_replace(struct kvc_error *error, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;
static void advice_replace(struct kvc_error *error, const char *format, ...) {
    char *end = error->text + strlen(error->text);
    for (char *at = error->text; (at = strstr(at, "; ")) != NULL; at++)
        end = at;
    const size_t capacity = (size_t)(error->text + sizeof error->text - end);
    KVC_ASSERT(capacity >= 1 && capacity <= sizeof error->text);
    va_list arguments;
    va_start(arguments, format);
    if (capacity > 2) {
        memcpy(end, "; ", 3);
        vsnprintf(end + 2, capacity - 2, format, arguments);
    }
    va_end(arguments);
}

/* Returns the bytes on the device after `tokens` tokens, or 0 if they are unknown. *surplus receives the bytes that
 * partly filled blocks may take in addition, because several blocks are allocated at a time. */
static uint64_t needed(const struct need *need, const char *spec, uint64_t tokens, uint64_t *surplus) {
    const struct kvc_session *s = need->session;
    const struct kvc_network *network = s->runner->network;
    struct kvc_estimate e;
    uint32_t *windows = malloc(network->layers * sizeof *windows);
    for (uint32_t l = 0; windows && l < network->layers; l++)
        windows[l] = network->layer[l].window;
    const enum kvc_status status = kvc_estimate_windows(s->engine, spec, &s->runner->geometry, windows, network->hidden,
                                                        kvc_session_cache_type(s), tokens, 0, &e, NULL);
    free(windows);
    if (status != KVC_OK)
        return 0;
    *surplus = kvc_min_u64(e.peak_bytes, need->capacity / 4);
    kvc_estimate_recurrent(&e, kvc_network_state_bytes(network));
    return need->others + e.peak_bytes + e.hidden_bytes;
}

static bool fits(const struct need *need, const char *spec, uint64_t tokens) {
    uint64_t surplus = 0;
    const uint64_t bytes = needed(need, spec, tokens, &surplus);
    return bytes && bytes <= need->capacity && surplus <= need->capacity - bytes;
}

/* Returns the largest number of tokens below `tokens` that fits. */
static uint64_t most_tokens(const struct need *need, const char *spec, uint64_t tokens) {
    uint64_t low = 0, high = tokens;
    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        if (fits(need, spec, middle))
            low = middle;
        else
            high = middle;
    }
    return low;
}

enum kvc_status kvc_advise(const struct kvc_session *session, uint64_t tokens, enum kvc_status status,
                           struct kvc_error *error) {
    struct kvc_device *device = session->runner->device;
    const uint64_t mine = session->cache.cache_bytes + session->cache.state_bytes;
    struct need need = {session, 0, device->capacity};
    char method[64] = "";
    uint64_t surplus, budget = 16;
    char text[32];
    if (status != KVC_RESOURCE || !error || !device->refused || !device->capacity || !session->runner->network)
        return status;
    KVC_LOG(&session->engine->log, KVC_LOG_WARN, KVC_LOG_MEMORY,
            "%s has no room for %llu bytes: %llu of %llu bytes are used", device->name,
            (unsigned long long)device->refused, (unsigned long long)device->memory.now_total,
            (unsigned long long)device->capacity);
    device->refused = 0;
    need.others = device->memory.now_total - device->memory.now[KVC_MEMORY_HIDDEN];
    need.others -= kvc_min_u64(need.others, mine);
    const uint64_t bytes = needed(&need, session->policy->spec, tokens, &surplus);
    const uint64_t fewer = most_tokens(&need, session->policy->spec, tokens);
    for (; budget <= tokens; budget *= 2) { /* find the largest power of two that fits */
        char larger[64];
        snprintf(larger, sizeof larger, "streaming:budget=%llu", (unsigned long long)budget);
        if (!fits(&need, larger, tokens))
            break;
        memcpy(method, larger, sizeof method);
    }
    if (!bytes || fits(&need, session->policy->spec, tokens))
        return status; /* the failed allocation was not for the cache */
    if (!fewer && !method[0])
        advice_replace(error, "%llu tokens need %s in all, and no shorter context fits beside the weights",
                       (unsigned long long)tokens, size(bytes, text));
    else
        advice_replace(error, "%llu tokens need %s in all; a context of %llu would fit%s%s", (unsigned long long)tokens,
                       size(bytes, text), (unsigned long long)fewer, method[0] ? ", or --kv " : "", method);
    return status;
}

enum kvc_status kvc_advise_weights(struct kvc_device *device, uint64_t bytes, uint64_t values, enum kvc_status status,
                                   struct kvc_error *error) {
    char text[32], has[32];
    if (status != KVC_RESOURCE || !error || !device->refused || !device->capacity || !values)
        return status;
    device->refused = 0;
    const double bits = (double)device->capacity * 0.9 * 8 / (double)values;
    double least = 32;
    for (unsigned i = 0; i < KVC_TYPES; i++) {
        const struct kvc_type_block block = kvc_type_block((enum kvc_type)i);
        const double of = 8.0 * block.bytes / block.elements;
        least = of < least ? of : least;
    }
    char type[80] = "";
    if (bits >= 1.02 * least) /* norms stay float32 */
        snprintf(type, sizeof type, "a type of at most %.1f bits a weight would fit (kvcull convert), or ", bits);
    advice_replace(error, "the weights need %s of its %s; %sthe cpu backend%s", size(bytes, text),
                   size(device->capacity, has), type, *type ? "" : " may have enough memory");
    return status;
}

/* same_sessions.h - compares the entries, positions and statistics of two sessions, and reads the bytes of a saved
 * session. */
#ifndef KVC_TESTS_CORE_SAME_SESSIONS_H
#define KVC_TESTS_CORE_SAME_SESSIONS_H

#include "core/engine/session.h"
#include "tests/core/session_fixture.h"
#include "kvcull/saved.h"

#include <sys/stat.h>

/* Returns the entries of a head: keys and values in the form that attention reads, then positions. The caller frees
 * them. */
static inline void *entries_of(struct kvc_session *session, uint32_t layer, uint32_t head, size_t *bytes) {
    struct kvc_device *device = session->runner->device;
    struct kvc_buffer *rows;
    const struct kvc_lists *lists = &session->cache.layer[layer].lists;
    size_t count = 0;
    FINE(kvc_session_positions(session, layer, head, NULL, 0, &count, &error));
    const size_t wide = count * session->runner->geometry.head_size * sizeof(float);
    char *all = calloc(1, 2 * wide + count * sizeof(int32_t) + 1);
    assert_non_null(all);
    FINE(device->ops->buffer_create(device, KVC_MEMORY_SCRATCH, 2 * wide + 1, &rows, &error));
    device->ops->entries(
        device, &(struct kvc_entries){.lists = lists, .head = head, .keys = {rows, 0}, .values = {rows, wide}});
    device->ops->download(device, all, (struct kvc_span){rows, 0}, 2 * wide);
    device->ops->buffer_free(device, rows);
    FINE(kvc_session_positions(session, layer, head, (int32_t *)(void *)(all + 2 * wide), count, &count, &error));
    *bytes = 2 * wide + count * sizeof(int32_t);
    return all;
}

static inline void same(struct kvc_session *a, struct kvc_session *b, const char *spec, const char *when) {
    struct kvc_session_stats of[2];
    kvc_session_stats(a, &of[0]);
    kvc_session_stats(b, &of[1]);
    for (size_t i = 0; i < 2; i++)
        of[i].prompt_sessions = 0, of[i].spared_rows = 0;
    if (memcmp(&of[0], &of[1], sizeof of[0]) != 0)
        fail_msg("%s, %s: other statistics: %llu and %llu tokens, %llu and %llu entries, %llu and %llu bytes, %llu and "
                 "%llu of state, peaks of %llu and %llu, %llu and %llu read, %llu and %llu saturated",
                 spec, when, (unsigned long long)of[0].tokens, (unsigned long long)of[1].tokens,
                 (unsigned long long)of[0].entries, (unsigned long long)of[1].entries,
                 (unsigned long long)of[0].cache_bytes, (unsigned long long)of[1].cache_bytes,
                 (unsigned long long)of[0].state_bytes, (unsigned long long)of[1].state_bytes,
                 (unsigned long long)of[0].peak_bytes, (unsigned long long)of[1].peak_bytes,
                 (unsigned long long)of[0].read_bytes, (unsigned long long)of[1].read_bytes,
                 (unsigned long long)of[0].saturated, (unsigned long long)of[1].saturated);
    for (uint32_t l = 0; l < a->cache.layers; l++)
        for (uint32_t h = 0; h < kvc_session_heads(a, l); h++) {
            size_t bytes[2];
            void *one = entries_of(a, l, h, &bytes[0]), *other = entries_of(b, l, h, &bytes[1]);
            if (bytes[0] != bytes[1] || memcmp(one, other, bytes[0]) != 0)
                fail_msg("%s, %s: layer %u, head %u: other entries", spec, when, l, h);
            free(one);
            free(other);
        }
}

static inline void same_logits(const float *a, const float *b, uint32_t count, const char *spec, const char *when) {
    if (memcmp(a, b, count * sizeof *a) != 0)
        fail_msg("%s, %s: other logits", spec, when);
}

/* Returns the contents of a file. The caller frees them. */
static inline char *bytes_of(const char *path, size_t *bytes) {
    FILE *file = fopen(path, "rb");
    struct stat about;
    assert_non_null(file);
    assert_int_equal(fstat(fileno(file), &about), 0);
    char *all = malloc((size_t)about.st_size + 1);
    assert_non_null(all);
    *bytes = fread(all, 1, (size_t)about.st_size, file);
    assert_int_equal(*bytes, about.st_size);
    fclose(file);
    return all;
}

#endif

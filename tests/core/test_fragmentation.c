/* test_fragmentation.c - thousands of sessions of random lengths and methods that come and go: the counted bytes are
 * those of the sessions, each list has at most one block more than its entries need, and the process holds no more
 * memory than is counted. */
#include "core/engine/cache.h"
#include "core/engine/session.h"
#include "tests/core/session_fixture.h"

enum { SESSIONS = 10000, ALIVE = 40, PROMPT_MOST = 500 };
#define SLACK_BYTES ((int64_t)4 << 20) /* of the C library's allocator and of tables */

static uint64_t state_of_draws = 7;

static uint32_t draw_below(uint32_t n) {
    state_of_draws = state_of_draws * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((state_of_draws >> 33) % n);
}

/* Draws a policy that acts after the prompt, in decode steps, or both; some leave lists of different lengths. */
static struct kvc_session *open_any(void) {
    static const char *const specs[] = {"full",
                                        "snapkv:budget=%u",
                                        "adakv:budget=%u",
                                        "pyramidkv:budget=%u",
                                        "streaming:budget=%u",
                                        "h2o:budget=%u",
                                        "window:budget=%u",
                                        "snapkv:budget=%u,per=head",
                                        "adakv:budget=%u+tova:budget=70",
                                        "snapkv:budget=%u+morphkv:budget=50"};
    char spec[80];
    snprintf(spec, sizeof spec, specs[draw_below(sizeof specs / sizeof *specs)], (unsigned)(40 + draw_below(60)));
    return open_with(model, spec, KVC_F16, 0);
}

/* Checks that each list has less than one block of free slots, not counting the slot that the next step needs.
 * Returns the number of extra slots. */
static uint64_t check_lists(const struct kvc_session *session, const char *when) {
    uint64_t extra = 0;
    for (uint32_t l = 0; l < session->cache.layers; l++) {
        const struct kvc_cache_layer *layer = &session->cache.layer[l];
        for (uint32_t h = 0; h < layer->lists.kv_heads; h++) {
            const uint32_t slots = layer->lists.host_base[h + 1] - layer->lists.host_base[h];
            if (kvc_slots_hold(slots) > layer->count[h] + KVC_BLOCK)
                fail_msg("%s, %s, layer %u, head %u: %u entries in %u slots", session->policy->spec, when, l, h,
                         layer->count[h], slots);
            extra += slots % KVC_BLOCK != 0;
        }
    }
    return extra;
}

/* Compares the sessions' bytes with the engine's count and with the process's memory. */
static void check_memory(struct kvc_session *const *alive, int64_t before) {
    const uint64_t block = 2ull * KVC_BLOCK * kvc_entry_row_bytes(KVC_F16, kvc_model_info(model)->head_size);
    struct kvc_memory memory;
    uint64_t bytes = 0, extra = 0, all = 0;
    for (size_t i = 0; i < ALIVE; i++) {
        struct kvc_session_stats stats;
        if (!alive[i])
            continue;
        kvc_session_stats(alive[i], &stats);
        bytes += stats.cache_bytes;
        extra += check_lists(alive[i], "later");
    }
    kvc_engine_memory(engine, &memory);
    const uint64_t held = memory.now[KVC_MEMORY_CACHE];
    assert_true(held % block == 0 && held >= bytes && held - bytes <= extra * block);
    for (size_t i = 0; i < KVC_MEMORY_KINDS; i++)
        all += i == KVC_MEMORY_WEIGHTS ? 0 : memory.now[i];
    const int64_t resident = kvc_test_resident() - before;
    if (RESIDENT_IS_MEANINGFUL && before >= 0 && resident > (int64_t)all + SLACK_BYTES)
        fail_msg("%lld bytes are resident, %llu are counted, %llu of them for the cache", (long long)resident,
                 (unsigned long long)all, (unsigned long long)held);
}

static void test_come_and_go(void **state) {
    (void)state;
    struct kvc_session *alive[ALIVE] = {NULL};
    const int64_t before = kvc_test_resident();
    for (int i = 0; i < (kvc_test_thinned() ? 200 : SESSIONS); i++) {
        struct kvc_session **one = &alive[draw_below(ALIVE)];
        kvc_session_close(*one);
        *one = open_any();
        const uint32_t length = 1 + draw_below(draw_below(8) ? 32 : PROMPT_MOST);
        FINE(kvc_session_prompt(*one, tokens + draw_below(500), length, NULL, NULL, &error));
        check_lists(*one, "after the prompt");
        for (uint32_t step = draw_below(4); step > 0; step--) {
            struct kvc_session **other = &alive[draw_below(ALIVE)];
            if (*other)
                FINE(kvc_decode(other, &tokens[i % 4096], 1, NULL, NULL, &error));
        }
        check_memory(alive, before);
    }
    for (size_t i = 0; i < ALIVE; i++)
        kvc_session_close(alive[i]);
    check_memory((struct kvc_session *[ALIVE]){NULL}, before);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_come_and_go)};
    return cmocka_run_group_tests(tests, set_up, close_whole);
}

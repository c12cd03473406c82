/* test_ref_cache.c - reference operations that change cache lists, against a model of the lists in the test. */
#include "tests/backends/ref_fixture.h"

static void append_rounds(void **state) {
    static const float given[D] = {1.0f, -65519.0f, 65520.0f, 1e-8f, 0.1f, -3.14159f, -1e30f, 2049.0f};
    static const enum kvc_type types[] = {KVC_F32, KVC_F16, KVC_Q8_0};
    (void)state;
    for (size_t t = 0; t < 3; t++) {
        struct kvc_arena *arena;
        struct kvc_lists lists = make_lists(types[t], 0, false, &arena);
        struct kvc_span k = buffer(HEADS * D * 4), v = values(HEADS * D), keys = buffer(D * 4), found = buffer(D * 4);
        uint64_t before = device->saturated;
        float amax = 0;
        memcpy(floats(k), given, sizeof given);
        memcpy(floats(k) + D, floats(v), sizeof given);
        append(&lists, 1, 0, k, v);
        assert_int_equal(count_of(&lists, 0), 1);
        OPS->entries(device, &(struct kvc_entries){.lists = &lists, .head = 0, .keys = keys, .values = found});
        for (int i = 0; i < D; i++)
            amax = fmaxf(amax, fabsf(floats(v)[i]));
        for (int i = 0; i < D; i++) {
            if (types[t] == KVC_F32) {
                assert_true(floats(keys)[i] == given[i]);
                assert_true(floats(found)[i] == floats(v)[i]);
            } else if (types[t] == KVC_F16) {
                float expected = kvc_f16_to_f32(kvc_f32_to_f16(given[i]));
                assert_true(floats(keys)[i] ==
                            (fabsf(given[i]) >= 65520.0f ? copysignf(65504.0f, given[i]) : expected));
            } else {
                float scale = kvc_f16_to_f32(kvc_f32_to_f16(amax / 127.0f));
                assert_true(floats(found)[i] == scale * rintf(floats(v)[i] / scale));
                assert_true(floats(keys)[i] == 65504.0f * fmaxf(-127.0f, rintf(given[i] / 65504.0f)));
            }
        }
        assert_int_equal(device->saturated - before, types[t] == KVC_F32 ? 0 : types[t] == KVC_F16 ? 2 : 1);
        OPS->arena_free(device, arena);
    }
}

static void append_not_a_number(void **state) {
    struct kvc_arena *arena;
    struct kvc_lists lists = make_lists(KVC_Q8_0, 0, false, &arena);
    struct kvc_span k = values(HEADS * D), v = buffer(HEADS * D * 4), keys = buffer(D * 4), found = buffer(D * 4);
    (void)state;
    floats(k)[3] = NAN;
    append(&lists, 1, 0, k, v); /* v is all zeros, so its scale is 0 */
    OPS->entries(device, &(struct kvc_entries){.lists = &lists, .head = 0, .keys = keys, .values = found});
    for (int i = 0; i < D; i++) {
        assert_true(isnan(floats(keys)[i]));
        assert_true(floats(found)[i] == 0.0f);
    }
    OPS->entries(device, &(struct kvc_entries){.lists = &lists, .head = 1, .keys = keys, .values = found});
    assert_true(!isnan(floats(keys)[0])); /* other groups keep their values */
    OPS->arena_free(device, arena);
}

static void evict_and_reuse(void **state) {
    static const uint32_t first[] = {0, 2, 5}, second[] = {1, 2, 3, 4, 5};
    struct kvc_arena *arena;
    struct kvc_lists lists = make_lists(KVC_F32, 2, true, &arena);
    struct kvc_span k = values(7 * HEADS * D), v = values(7 * HEADS * D), keys = buffer(SLOTS * D * 4),
                    found = buffer(SLOTS * D * 4);
    struct kvc_read_list kept;
    const uint32_t *order = lists.order->data;
    (void)state;
    append(&lists, 6, 0, k, v);
    for (int i = 0; i < 2 * HEADS * SLOTS; i++)
        floats((struct kvc_span){lists.state, 0})[i] = (float)i;
    kept = indices(first, 3, second, 5);
    OPS->evict(device, &(struct kvc_evict){.lists = &lists, .kept = &kept});
    assert_int_equal(count_of(&lists, 0), 3);
    assert_int_equal(count_of(&lists, 1), 5);
    assert_true(order[0] == 0 && order[1] == 2 && order[2] == 5); /* kept */
    assert_true(order[3] == 1 && order[4] == 3 && order[5] == 4 &&
                order[6] == 6); /* the evicted slots, then those that were free */
    assert_int_equal(order[SLOTS + 5], 0);
    for (uint32_t r = 0; r < 3; r++)
        assert_int_equal(position_of(&lists, 0, r), first[r]);
    OPS->entries(device, &(struct kvc_entries){.lists = &lists, .head = 0, .keys = keys, .values = found});
    for (uint32_t r = 0; r < 3; r++) {
        assert_memory_equal(floats(keys) + r * D, floats(k) + first[r] * HEADS * D, D * 4);
        assert_memory_equal(floats(found) + r * D, floats(v) + first[r] * HEADS * D, D * 4);
    }
    append(&lists, 1, 6, k, v); /* takes slot 1 of head 0 and slot 0 of head 1 */
    assert_int_equal(order[3], 1);
    assert_int_equal(position_of(&lists, 0, 3), 6);
    assert_int_equal(position_of(&lists, 1, 5), 6);
    assert_true(floats((struct kvc_span){lists.state, 0})[1] == 0 &&
                floats((struct kvc_span){lists.state, 0})[SLOTS + 1] == 0);
    assert_true(floats((struct kvc_span){lists.state, 0})[2] == 2); /* only the new slot's columns are zeroed */
    kept = indices(second, 2, second,
                   2); /* again, now that indices and slots differ: indices 1 and 2 of 4 entries and of 6 */
    OPS->evict(device, &(struct kvc_evict){.lists = &lists, .kept = &kept});
    assert_true(order[0] == 2 && order[1] == 5 && order[2] == 0 && order[3] == 1 && order[4] == 3);
    append(&lists, 2, 7, k, v);
    OPS->drop(device, &(struct kvc_drop){.lists = &lists, .rows = 2});
    assert_int_equal(count_of(&lists, 0), 2);
    assert_int_equal(count_of(&lists, 1), 2);
    OPS->drop(device, &(struct kvc_drop){.lists = &lists, .rows = 100});
    assert_int_equal(count_of(&lists, 0), 0);
    OPS->arena_free(device, arena);
}

/* A view loses the entries that an eviction removed and has new indices for the rest. */
static void evict_of_a_view(void **state) {
    static const uint32_t first[] = {0, 2, 3, 7, 9}, second[] = {4, 5, 6}, seen[] = {1, 2, 7, 8, 9}, few[] = {1, 3, 7};
    struct kvc_arena *arena;
    struct kvc_lists lists = make_lists(KVC_F32, 0, true, &arena);
    struct kvc_span k = values(10 * HEADS * D);
    struct kvc_read_list kept = indices(first, 5, second, 3), view = indices(seen, 5, few, 3);
    const uint32_t *count = view.count->data, *index = view.index->data;
    (void)state;
    append(&lists, 10, 0, k, k);
    OPS->evict(device, &(struct kvc_evict){.lists = &lists, .kept = &kept});
    OPS->view_evict(device, &(struct kvc_view_evict){.lists = &lists, .kept = &kept, .view = &view});
    assert_int_equal(count[0], 3);
    assert_true(index[0] == 1 && index[1] == 3 && index[2] == 4); /* 2, 7, 9 */
    assert_int_equal(count[1], 0);
    OPS->arena_free(device, arena);
}

static void append_without_capacity(void **state) {
    struct kvc_arena *arena;
    struct kvc_lists lists = make_lists(KVC_F16, 0, false, &arena);
    struct kvc_span k = values((SLOTS + 1) * HEADS * D);
    struct kvc_error error;
    (void)state;
    append(&lists, SLOTS + 1, 0, k, k);
    assert_int_equal(OPS->sync(device, &error), KVC_RESOURCE);
    assert_non_null(strstr(error.text, "no free slot"));
    assert_int_equal(count_of(&lists, 0), SLOTS);
    OPS->arena_free(device, arena);
}

enum { PER_TILE = KVC_TILE / KVC_BLOCK };

static void relayout_shrinks(void **state) {
    uint32_t base[HEADS + 1] = {0, KVC_TILE, 4 * KVC_TILE}, kept_indices[300], more[PER_TILE],
                          n = 0; /* head 1 gets the blocks of another tile */
    struct kvc_arena *arena;
    struct kvc_lists src = make_lists(KVC_F16, 1, true, &arena), dst = src;
    struct kvc_span k = values(SLOTS * HEADS * D), v = values(SLOTS * HEADS * D);
    struct kvc_span keys = buffer(SLOTS * D * 4), found = buffer(SLOTS * D * 4), keys2 = buffer(SLOTS * D * 4),
                    found2 = buffer(SLOTS * D * 4);
    struct kvc_read_list kept;
    bool seen[KVC_TILE] = {false};
    (void)state;
    append(&src, SLOTS, 0, k, v);
    for (int i = 0; i < HEADS * SLOTS; i++)
        floats((struct kvc_span){src.state, 0})[i] = (float)i;
    for (uint32_t r = 0; r < SLOTS && n < 200; r++)
        if (draw(2) == 0)
            kept_indices[n++] = r;
    kept = indices(kept_indices, n, kept_indices, n);
    OPS->evict(device, &(struct kvc_evict){.lists = &src, .kept = &kept});
    dst.host_base = base;
    dst.base = holding(base, sizeof base).buffer;
    dst.count = buffer(HEADS * 4).buffer;
    dst.blocks = buffer((4 * PER_TILE + 2) * 4).buffer;
    dst.order = buffer(4 * KVC_TILE * 4).buffer;
    dst.position = buffer(4 * KVC_TILE * 4).buffer;
    dst.state = buffer(4 * KVC_TILE * 4).buffer;
    assert_int_equal(OPS->arena_take(device, arena, PER_TILE, more, NULL), KVC_OK);
    memcpy((uint32_t *)dst.blocks->data + 3 * PER_TILE + 1, more, sizeof more);
    OPS->relayout(device, &(struct kvc_relayout){.dst = &dst, .src = &src});
    for (uint32_t h = 0; h < HEADS; h++) {
        assert_int_equal(count_of(&dst, h), n);
        OPS->entries(device, &(struct kvc_entries){.lists = &src, .head = h, .keys = keys, .values = found});
        OPS->entries(device, &(struct kvc_entries){.lists = &dst, .head = h, .keys = keys2, .values = found2});
        assert_memory_equal(floats(keys), floats(keys2), n * D * 4);
        assert_memory_equal(floats(found), floats(found2), n * D * 4);
        for (uint32_t r = 0; r < n; r++) {
            uint32_t from = kvc_list_slot(&src, h, r), to = kvc_list_slot(&dst, h, r);
            assert_int_equal(position_of(&dst, h, r), kept_indices[r]);
            assert_true(floats((struct kvc_span){dst.state, 0})[base[h] + to] == (float)(h * SLOTS + from));
            assert_true(h == 1 || to < KVC_TILE);
            assert_true(from >= base[h + 1] - base[h] ||
                        to == from); /* an entry with a slot in the new list stays in it */
        }
    }
    for (uint32_t i = 0; i < KVC_TILE; i++) { /* in head 0 each slot occurs once, free ones in ascending order */
        uint32_t slot = ((const uint32_t *)dst.order->data)[i];
        assert_true(slot < KVC_TILE && !seen[slot]);
        seen[slot] = true;
        assert_true(i <= n || slot > ((const uint32_t *)dst.order->data)[i - 1]);
    }
    const uint32_t *to = dst.blocks->data, *from = src.blocks->data;
    assert_memory_equal(to, from, PER_TILE * sizeof *to);
    assert_memory_equal(to + PER_TILE + 1, from + 2 * PER_TILE + 1, 2 * PER_TILE * sizeof *to);
    assert_memory_equal(to + 3 * PER_TILE + 1, more, sizeof more);
    OPS->arena_free(device, arena);
}

int main(void) {
#define TEST(name) cmocka_unit_test_teardown(name, end_test)
    const struct CMUnitTest tests[] = {TEST(append_rounds),   TEST(append_not_a_number),     TEST(evict_and_reuse),
                                       TEST(evict_of_a_view), TEST(append_without_capacity), TEST(relayout_shrinks)};
    return cmocka_run_group_tests(tests, open_ref, close_ref);
}

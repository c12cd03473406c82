/* test_split.c - what ranks share out, what they tell each other, and the link of one process alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/ranks/ranks.h"
#include "ranks/links.h"

/* Shares lie side by side and are all of it; none has two more than another; too few are not shared out. */
static void outputs_are_shared_out(void **state) {
    (void)state;
    for (uint32_t ranks = 1; ranks <= 9; ranks++)
        for (uint64_t n = 0; n <= 40; n++) {
            uint64_t next = 0;
            assert_int_equal(kvc_split_shares(n, ranks), ranks > 1 && n >= 2 * ranks);
            for (uint32_t r = 0; r < ranks; r++) {
                const struct kvc_range range = kvc_split_outputs(n, ranks, r);
                if (!kvc_split_shares(n, ranks)) {
                    assert_true(range.first == 0 && range.count == n);
                    continue;
                }
                assert_int_equal(range.first, next);
                assert_in_range(range.count, n / ranks, n / ranks + 1);
                next += range.count;
            }
            assert_int_equal(next, kvc_split_shares(n, ranks) ? n : 0);
        }
}

/* Every KV head counts once, in the order of ranks; ranks beyond hold one that another has. */
static void heads_count_once(void **state) {
    (void)state;
    for (uint32_t ranks = 1; ranks <= 9; ranks++)
        for (uint32_t heads = 1; heads <= 10; heads++) {
            uint32_t counted = 0;
            for (uint32_t r = 0; r < ranks; r++) {
                const struct kvc_range range = kvc_split_heads(heads, ranks, r);
                const uint32_t owned = kvc_split_owned_heads(heads, ranks, r);
                assert_true(range.count >= 1 && range.first + range.count <= heads);
                assert_true(owned == 0 || (owned == range.count && range.first == counted));
                assert_int_equal(owned == 0, r >= heads);
                counted += owned;
            }
            assert_int_equal(counted, heads);
        }
}

static void packets_say_what_was_put(void **state) {
    static const char bytes[5] = "abcd";
    struct kvc_packet packet = {.data = NULL};
    (void)state;
    kvc_packet_put_number(&packet, UINT64_MAX);
    kvc_packet_put_text(&packet, "snapkv:budget=64");
    kvc_packet_put_text(&packet, NULL);
    kvc_packet_put_text(&packet, "");
    kvc_packet_put(&packet, bytes, sizeof bytes);
    kvc_packet_put(&packet, NULL, 0);
    kvc_packet_put_pointer(&packet, bytes);
    assert_int_equal(packet.bytes % 8, 0);
    assert_true(kvc_packet_get_number(&packet) == UINT64_MAX);
    assert_string_equal(kvc_packet_get_text(&packet), "snapkv:budget=64");
    assert_null(kvc_packet_get_text(&packet));
    assert_string_equal(kvc_packet_get_text(&packet), "");
    assert_memory_equal(kvc_packet_get(&packet, sizeof bytes), bytes, sizeof bytes);
    assert_non_null(kvc_packet_get(&packet, 0));
    assert_true(kvc_packet_get_number(&packet) == (uint64_t)(uintptr_t)bytes);
    assert_int_equal(packet.at, packet.bytes);
    assert_false(packet.broken);
    assert_int_equal(kvc_packet_get_number(&packet), 0); /* more than was put */
    assert_true(packet.broken);
    kvc_packet_free(&packet);
}

/* One that is cut off, anywhere, is broken and is not read past its end; so are sizes that cannot be. */
static void broken_packets_are_seen(void **state) {
    struct kvc_packet whole = {.data = NULL};
    (void)state;
    kvc_packet_put_number(&whole, 7);
    kvc_packet_put_text(&whole, "window:budget=66");
    for (size_t bytes = 0; bytes < whole.bytes; bytes++) {
        struct kvc_packet cut = {.bytes = bytes};
        assert_non_null(cut.data = malloc(bytes + 1));
        memcpy(cut.data, whole.data, bytes);
        (void)kvc_packet_get_number(&cut);
        assert_null(kvc_packet_get_text(&cut));
        assert_true(cut.broken);
        assert_null(kvc_packet_get(&cut, 0)); /* and stays so */
        kvc_packet_free(&cut);
    }
    kvc_packet_free(&whole);
    struct kvc_packet large = {.data = NULL};
    kvc_packet_put_number(&large, UINT64_MAX); /* a text of so many bytes */
    kvc_packet_put_number(&large, 0);
    assert_null(kvc_packet_get_text(&large));
    assert_true(large.broken);
    large.bytes = large.at = 0;
    large.broken = false;
    kvc_packet_put_number(&large, 8); /* a text without an end */
    kvc_packet_put(&large, "abcdefgh", 8);
    assert_null(kvc_packet_get_text(&large));
    assert_false(kvc_packet_reserve(&large, SIZE_MAX));
    assert_true(large.broken);
    kvc_packet_free(&large);
}

/* One process: gathers are copies, calls are not told, and a call returns what it came to. */
static void one_process_is_a_link(void **state) {
    const float mine[2] = {1, 2};
    float all[2] = {0, 0};
    const size_t width = 2;
    uint64_t numbers[2] = {3, 4};
    struct kvc_ranks ranks = {.link = NULL};
    struct kvc_error error;
    (void)state;
    assert_int_equal(kvc_link_open_single(&ranks.link, &error), KVC_OK);
    assert_int_equal(ranks.link->count, 1);
    assert_false(kvc_ranks_several(&ranks));
    assert_false(kvc_ranks_several(NULL));
    kvc_ranks_gather_rows(&ranks, mine, 1, &width, all);
    assert_memory_equal(all, mine, sizeof mine);
    kvc_ranks_add(&ranks, numbers, 2);
    kvc_ranks_most(&ranks, numbers, 2);
    assert_true(numbers[0] == 3 && numbers[1] == 4);
    assert_null(kvc_call_begin(&ranks, KVC_CALL_DECODE));
    assert_int_equal(kvc_call_end(&ranks, KVC_INPUT, NULL), KVC_INPUT);
    assert_int_equal(kvc_call_back(&ranks, 0, 5), 5);
    assert_true(ranks.link->messages == 0 && ranks.link->bytes == 0);
    ranks.link->class->close(ranks.link);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_are_shared_out),   cmocka_unit_test(heads_count_once),
        cmocka_unit_test(packets_say_what_was_put), cmocka_unit_test(broken_packets_are_seen),
        cmocka_unit_test(one_process_is_a_link),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

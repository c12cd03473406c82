/* test_split.c - how work is divided among ranks, their messages, and the link of a single process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/ranks/ranks.h"
#include "kvcull/ranks.h"
#include "ranks/common.h"
#include "ranks/links.h"
#include "ranks/ways.h"

static const uint32_t shares[][9] = {
    {1, 1, 1, 1, 1, 1, 1, 1, 1}, {3, 1, 2, 1, 1, 7, 1, 1, 4}, {1, 1000, 1, 1000, 1, 1, 1, 1, 1}};

/* The splits for that many ranks: equal, and by each of the shares. */
static size_t splits_of(uint32_t ranks, struct kvc_split splits[]) {
    size_t n = 0;
    splits[n++] = (struct kvc_split){ranks, NULL};
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++)
        splits[n++] = (struct kvc_split){ranks, shares[i]};
    return n;
}

/* Parts are adjacent and cover everything; each is close to its share, in whole blocks if there are many outputs; too
 * few outputs are not divided. */
static void outputs_are_shared_out(void **state) {
    static const uint64_t counts[] = {0, 1, 2, 3, 7, 18, 19, 40, 1024, 2048, 8192, 8200, UINT32_MAX};
    struct kvc_split splits[8];
    (void)state;
    for (uint32_t ranks = 1; ranks <= 9; ranks++)
        for (size_t i = splits_of(ranks, splits); i-- > 0;)
            for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
                const struct kvc_split *split = &splits[i];
                const uint64_t n = counts[c], unit = n % 32 == 0 && n >= 1024 * ranks ? 32 : 1;
                uint64_t next = 0, sum = 0;
                for (uint32_t r = 0; r < ranks; r++)
                    sum += split->share ? split->share[r] : 1;
                assert_int_equal(kvc_split_shares(n, split), ranks > 1 && n >= 2 * ranks);
                for (uint32_t r = 0; r < ranks; r++) {
                    const struct kvc_range range = kvc_split_outputs(n, split, r);
                    if (!kvc_split_shares(n, split)) {
                        assert_true(range.first == 0 && range.count == n);
                        continue;
                    }
                    const double ideal =
                        1 + (double)(n / unit - ranks) * (split->share ? split->share[r] : 1) / (double)sum;
                    const double units = (double)range.count / (double)unit;
                    assert_true(range.first == next && range.count >= 1 && range.count % unit == 0);
                    assert_true(units > ideal - 1 && units < ideal + 1);
                    next += range.count;
                }
                assert_true(next == (kvc_split_shares(n, split) ? n : 0));
            }
}

static void every_stage_has_a_layer(void **state) {
    struct kvc_split splits[8];
    (void)state;
    for (uint32_t ranks = 1; ranks <= 9; ranks++)
        for (size_t i = splits_of(ranks, splits); i-- > 0;)
            for (uint32_t n = ranks; n <= 40; n++) {
                uint64_t next = 0;
                for (uint32_t r = 0; r < ranks; r++) {
                    const struct kvc_range range = kvc_split_layers(n, &splits[i], r);
                    assert_true(range.first == next && range.count >= 1);
                    next += range.count;
                }
                assert_int_equal(next, n);
            }
}

/* Every KV head counts once, in the order of ranks; ranks beyond the last head hold a copy of another rank's head. */
static void heads_count_once(void **state) {
    struct kvc_split splits[8];
    (void)state;
    for (uint32_t ranks = 1; ranks <= 9; ranks++)
        for (size_t i = splits_of(ranks, splits); i-- > 0;)
            for (uint32_t heads = 1; heads <= 10; heads++) {
                uint32_t counted = 0;
                for (uint32_t r = 0; r < ranks; r++) {
                    const struct kvc_range range = kvc_split_heads(heads, &splits[i], r);
                    const uint32_t owned = kvc_split_owned_heads(heads, &splits[i], r);
                    assert_true(range.count >= 1 && range.first + range.count <= heads);
                    assert_true(owned == 0 || (owned == range.count && range.first == counted));
                    assert_int_equal(owned == 0, r >= heads);
                    counted += owned;
                }
                assert_int_equal(counted, heads);
            }
}

/* One of three ranks differs: the error line names it and rank 0. */
static void builds_are_compared(void **state) {
    struct kvc_error error;
    (void)state;
    for (int kind = 0; kind < 7; kind++) {
        struct kvc_common all[3];
        for (int r = 0; r < 3; r++)
            all[r] = kvc_common_here("tensor", kind == 1 ? "1,2,3" : NULL);
        assert_int_equal(kvc_common_check(all, 3, &error), KVC_OK);
        if (kind == 0)
            all[1] = kvc_common_here("pipeline", NULL);
        else if (kind == 1)
            all[1] = kvc_common_here("tensor", NULL);
        else if (kind == 2)
            strcpy(all[1].version, "9.9.9");
        else if (kind == 3)
            all[1].arithmetic = 77;
        else if (kind == 4)
            all[1].int8 = 88;
        else if (kind == 5)
            all[1].int16 = 99;
        else
            all[1].pointer = 4;
        static const char *const said[] = {"rank 0 was given 'tensor', rank 1 'pipeline'",
                                           "rank 0 was given the share '1,2,3', rank 1 ''",
                                           "rank 1 9.9.9 (",
                                           "), rank 1 " KVC_VERSION " (77, ",
                                           ", 88, ",
                                           ", 99): must",
                                           "rank 0 is kvcull " KVC_VERSION};
        assert_int_equal(kvc_common_check(all, 3, &error), kind < 2 ? KVC_USAGE : KVC_INPUT);
        assert_non_null(strstr(error.text, said[kind]));
    }
}

/* The meaning of --ranks and --share for that many ranks; 0: as many as the options require. */
static void ways_are_read(void **state) {
    static const struct {
        const char *text, *share;
        uint32_t count, tensor, pipeline; /* tensor 0: refused */
    } cases[] = {{"tensor", NULL, 4, 4, 1},
                 {"pipeline", NULL, 4, 1, 4},
                 {"tensor=4", NULL, 4, 4, 1},
                 {"tensor=4,pipeline=2", NULL, 8, 4, 2},
                 {"pipeline=2,tensor=4", NULL, 8, 4, 2},
                 {"pipeline=2,tensor=4", NULL, 0, 4, 2},
                 {"tensor=1,pipeline=3", "1,2,3", 3, 1, 3},
                 {"tensor", "1000,1", 2, 2, 1},
                 {"tensor", NULL, 0, 0, 0},
                 {"tensor=4", NULL, 8, 0, 0},
                 {"tensor,pipeline=2", NULL, 8, 0, 0},
                 {"tensor=2,tensor=2", NULL, 4, 0, 0},
                 {"tensor=2,pipeline=2,", NULL, 4, 0, 0},
                 {"tensor=0", NULL, 1, 0, 0},
                 {"tensor=", NULL, 1, 0, 0},
                 {"tensor=-1", NULL, 1, 0, 0},
                 {"tensor=4294967297", NULL, 1, 0, 0},
                 {"tensor=99999999999999999999999", NULL, 1, 0, 0},
                 {"tensor=65536,pipeline=65536", NULL, 0, 0, 0},
                 {"tensors", NULL, 2, 0, 0},
                 {"", NULL, 2, 0, 0},
                 {",", NULL, 2, 0, 0},
                 {"tensor", "1", 2, 0, 0},
                 {"tensor", "1,2,3", 2, 0, 0},
                 {"tensor", "1,0", 2, 0, 0},
                 {"tensor", "1,1001", 2, 0, 0},
                 {"tensor", "1,", 2, 0, 0},
                 {"tensor", "", 2, 0, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct kvc_ways ways;
        struct kvc_error error = {KVC_OK, ""};
        enum kvc_status status = kvc_ways_read(cases[i].text, cases[i].count, &ways, &error);
        if (status == KVC_OK && cases[i].share)
            status = kvc_ways_share(&ways, cases[i].share, &error);
        assert_int_equal(status, cases[i].tensor ? KVC_OK : KVC_USAGE);
        assert_int_equal(error.text[0] != '\0', status != KVC_OK);
        if (status == KVC_OK) {
            assert_int_equal(ways.tensor, cases[i].tensor);
            assert_int_equal(ways.pipeline, cases[i].pipeline);
        }
        kvc_ways_free(&ways);
    }
}

/* Each place's share is the sum over all its ranks; the same for each stage. */
static void shares_are_added_up(void **state) {
    static const uint32_t wanted[] = {1 + 4, 2 + 5, 3 + 6, 1 + 2 + 3, 4 + 5 + 6};
    struct kvc_ways ways;
    (void)state;
    assert_int_equal(kvc_ways_read("tensor=3,pipeline=2", 6, &ways, NULL), KVC_OK);
    assert_int_equal(kvc_ways_share(&ways, "1,2,3,4,5,6", NULL), KVC_OK);
    assert_memory_equal(ways.share, wanted, sizeof wanted);
    kvc_ways_free(&ways);
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
    assert_int_equal(kvc_packet_get_number(&packet), 0); /* more than was written */
    assert_true(packet.broken);
    kvc_packet_free(&packet);
}

/* A packet truncated at any byte is detected and not read past its end; so are impossible sizes. */
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
        assert_null(kvc_packet_get(&cut, 0)); /* and it stays broken */
        kvc_packet_free(&cut);
    }
    kvc_packet_free(&whole);
    struct kvc_packet large = {.data = NULL};
    kvc_packet_put_number(&large, UINT64_MAX); /* a text of that many bytes */
    kvc_packet_put_number(&large, 0);
    assert_null(kvc_packet_get_text(&large));
    assert_true(large.broken);
    large.bytes = large.at = 0;
    large.broken = false;
    kvc_packet_put_number(&large, 8); /* a text whose end is missing */
    kvc_packet_put(&large, "abcdefgh", 8);
    assert_null(kvc_packet_get_text(&large));
    assert_false(kvc_packet_reserve(&large, SIZE_MAX));
    assert_true(large.broken);
    kvc_packet_free(&large);
}

enum { LAYERS = 4, KV_HEADS = 2 }; /* of the bundled model */

/* The parts that are planned for all ranks hold each layer once, and each key-value head once. If there are more ranks
 * than heads, the ranks take the heads in turn. */
static void parts_cover_the_model(void **state) {
    static const struct {
        const char *how, *share;
        uint32_t tensor, pipeline;
    } ways[] = {{"tensor=2", NULL, 2, 1},
                {"tensor=3", NULL, 3, 1},
                {"pipeline=4", NULL, 1, 4},
                {"pipeline=2", "3,1", 1, 2},
                {"tensor=2,pipeline=2", "1,1,2,2", 2, 2},
                {"tensor=3,pipeline=2", NULL, 3, 2}};
    const char *source = getenv("top_srcdir");
    char demo[4096];
    (void)state;
    snprintf(demo, sizeof demo, "%s/data/demo", source ? source : ".");
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        unsigned held[LAYERS][KV_HEADS] = {{0}};
        for (uint32_t rank = 0; rank < ways[i].tensor * ways[i].pipeline; rank++) {
            struct kvc_error error = {KVC_OK, ""};
            struct kvc_ranks_part part;
            kvc_ranks_part(demo, ways[i].how, ways[i].share, rank, &part, &error);
            assert_string_equal(error.text, "");
            assert_true(part.first_layer + part.layers <= LAYERS && part.first_kv_head + part.kv_heads <= KV_HEADS);
            if (ways[i].tensor > 1)
                assert_int_equal(part.first_kv_head, rank % ways[i].tensor % KV_HEADS);
            for (uint32_t layer = part.first_layer; layer < part.first_layer + part.layers; layer++)
                for (uint32_t head = part.first_kv_head; head < part.first_kv_head + part.kv_heads; head++)
                    held[layer][head]++;
        }
        for (uint32_t layer = 0; layer < LAYERS; layer++)
            for (uint32_t head = 0; head < KV_HEADS; head++)
                assert_int_equal(held[layer][head], ways[i].tensor == 3 && head == 0 ? 2 : 1);
    }
}

/* One process: gathers copy data, calls are not transmitted, and a call returns its result. */
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
    ranks.rows = (struct kvc_team){ranks.link, {1, NULL}};
    assert_false(kvc_ranks_several(&ranks));
    assert_false(kvc_ranks_several(NULL));
    kvc_ranks_gather_rows(&ranks, mine, 1, &width, all);
    assert_memory_equal(all, mine, sizeof mine);
    kvc_ranks_add(&ranks, numbers, 2);
    kvc_ranks_maximum(&ranks, ranks.link, numbers, 2);
    assert_true(numbers[0] == 3 && numbers[1] == 4);
    assert_null(kvc_call_begin(&ranks, KVC_CALL_DECODE));
    assert_int_equal(kvc_call_end(&ranks, KVC_INPUT, NULL), KVC_INPUT);
    assert_int_equal(kvc_call_back(&ranks, 0, 5), 5);
    assert_true(ranks.link->messages == 0 && ranks.link->bytes == 0);
    ranks.link->class->close(ranks.link);
    free(ranks.gathered);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_are_shared_out),   cmocka_unit_test(every_stage_has_a_layer),
        cmocka_unit_test(heads_count_once),         cmocka_unit_test(ways_are_read),
        cmocka_unit_test(shares_are_added_up),      cmocka_unit_test(builds_are_compared),
        cmocka_unit_test(packets_say_what_was_put), cmocka_unit_test(broken_packets_are_seen),
        cmocka_unit_test(one_process_is_a_link),    cmocka_unit_test(parts_cover_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

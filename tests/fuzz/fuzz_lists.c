/* fuzz_lists.c - input: a text file as named by an option of a policy. The first byte selects its kind: token ids of
 * dapq, scores of duo, statistics of queries. */
#include "tests/fuzz/memory_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static const char *const specs[] = {
        "dapq:budget=5,content=file,file=%s", "dapq:budget=5,pseudo=4096,content=file,file=%s",
        "duo:sinks=2,recent=3,file=%s",       "duo:sinks=2,recent=3,sparsity=0.3,file=%s",
        "triattention:budget=5,stats=%s",     "expected:budget=5,stats=%s",
        "qfilter:budget=5,file=%s",           "dms:file=%s"};
    static const struct kvc_geometry geometry = {2, 6, 3, 4};
    static struct kvc_engine *engine;
    struct kvc_error error = {0};
    struct kvc_session_options options;
    struct kvc_replay *replay = NULL;
    struct kvc_estimate estimate;
    char spec[200];
    if (bytes == 0)
        return 0;
    if (!engine) {
        const struct kvc_engine_options on_ref = {.backend = "ref", .threads = 1};
        check(kvc_engine_open(&on_ref, &engine, &error) == KVC_OK);
    }
    snprintf(spec, sizeof spec, specs[data[0] % (sizeof specs / sizeof *specs)], memory_file(data + 1, bytes - 1));
    const enum kvc_status status =
        kvc_estimate(engine, spec, &geometry, 8, kvc_entry_types(KVC_F16), 20, 3, &estimate, &error);
    if (status != KVC_OK)
        check_refusal(status, NULL, &error);
    kvc_session_defaults(&options);
    options.policy = spec;
    check(kvc_replay_open(engine, &geometry, &options, &replay, &error) == status);
    kvc_replay_close(replay);
    return 0;
}

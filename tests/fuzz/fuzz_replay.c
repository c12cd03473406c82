/* fuzz_replay.c - input: a byte that selects the policy, then a dump of tensors for kvcull replay. */
#include "cli/cli.h"
#include "tests/fuzz/memory_file.h"

static const struct cli_command command = {.name = "replay"};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static char policies[][48] = {"snapkv:budget=3,window=2", "dapq:budget=2,pseudo=2,head=1",
                                  "take:budget=3,chunk=3,probe=2", "morphkv:budget=3,window=1",
                                  "quest:budget=2,page=2"};
    static char name[] = "replay", in[] = "--in", kv[] = "--kv", backend[] = "--backend", ref[] = "ref",
                out[] = "--out", standard[] = "-", quiet[] = "-q", prompt[] = "--prompt", three[] = "3", path[40];
    if (bytes == 0)
        return 0;
    silence(true);
    snprintf(path, sizeof path, "%s", memory_file(data + 1, bytes - 1));
    char *arguments[] = {name,  in,     path,  kv,  policies[data[0] % 5], backend, ref, out, standard,
                         quiet, prompt, three, NULL};
    const int status = kvc_cli_replay(&command, data[0] & 128 ? 12 : 10, arguments);
    silence(false);
    check(status == KVC_OK || status == KVC_USAGE || status == KVC_INPUT || status == KVC_RESOURCE);
    return 0;
}

/* fuzz_session.c - loads a saved session with some bytes changed and its checksums corrected, and continues it. Input:
 * a byte that selects the policy (from 128 on, the checksums stay wrong), then changes of five bytes each: offset and
 * value. */
#include "core/base/bytes_hash.h"
#include "tests/fuzz/memory_file.h"
#include "kvcull/saved.h"

static const char *const policies[] = {"full",
                                       "streaming:budget=5,sinks=1,positions=cache",
                                       "snapkv:budget=6,window=2+morphkv:budget=5,window=2",
                                       "rocketkv-mt:budget=4",
                                       "lacache:budget=12,span=1,sinks=1",
                                       "h2o:budget=5,per=head"};
enum { POLICIES = sizeof policies / sizeof *policies, MOST = 1 << 20, ROWS = 12 };

struct image {
    uint8_t *bytes;
    size_t count;
};

static struct kvc_model *model;
static struct image images[POLICIES];

static void read_image(const char *path, struct image *image) {
    FILE *file = fopen(path, "rb");
    check(file && (image->bytes = malloc(MOST)));
    image->count = fread(image->bytes, 1, MOST, file);
    fclose(file);
    check(image->count > 0 && image->count < MOST);
}

static void make_images(void) {
    const struct kvc_engine_options with = {.backend = "ref", .threads = 1};
    const char *folder = getenv("TMPDIR");
    struct kvc_engine *engine;
    struct kvc_error error;
    char path[300];
    snprintf(path, sizeof path, "%s/kvcull-fuzz-session-%ld", folder ? folder : "/tmp", (long)getpid());
    check(kvc_engine_open(&with, &engine, &error) == KVC_OK);
    check(kvc_make_model("tiny", KVC_F32, 3, path, &error) == KVC_OK);
    check(kvc_model_open(engine, path, &model, &error) == KVC_OK);
    check(remove(path) == 0); /* a session replaces only a file that is a saved session */
    for (size_t i = 0; i < POLICIES; i++) {
        struct kvc_session_options options;
        struct kvc_session *session;
        int32_t tokens[ROWS];
        for (int32_t t = 0; t < ROWS; t++)
            tokens[t] = t * t;
        kvc_session_defaults(&options);
        options.policy = policies[i];
        check(kvc_session_open(model, &options, &session, &error) == KVC_OK);
        check(kvc_session_prompt(session, tokens, ROWS, NULL, NULL, &error) == KVC_OK);
        check(kvc_decode(&session, tokens, 1, NULL, NULL, &error) == KVC_OK);
        check(kvc_session_save(session, path, NULL, &error) == KVC_OK);
        read_image(path, &images[i]);
        kvc_session_close(session);
    }
    remove(path);
}

/* Corrects the checksum of every section of a file that ends within it. */
static void put_right(uint8_t *bytes, size_t count) {
    uint64_t length, hash = count < 16 ? 0 : kvc_bytes_hash(0, bytes, 16);
    for (size_t at = 16; at + 24 <= count; at += 24 + (size_t)length) {
        memcpy(&length, bytes + at + 8, sizeof length);
        if (length > count - at - 24)
            return;
        hash = kvc_bytes_hash(hash, bytes + at, 16);
        if (length)
            hash = kvc_bytes_hash(hash, bytes + at + 24, (size_t)length);
        memcpy(bytes + at + 16, &hash, sizeof hash);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    struct kvc_session *session;
    struct kvc_error error = {0};
    if (!model)
        make_images();
    if (bytes == 0)
        return 0;
    const struct image *image = &images[data[0] % POLICIES];
    uint8_t *copy = malloc(image->count);
    check(copy != NULL);
    memcpy(copy, image->bytes, image->count);
    for (size_t i = 1; i + 5 <= bytes; i += 5) {
        uint32_t where;
        memcpy(&where, data + i, sizeof where);
        copy[where % image->count] = data[i + 4];
    }
    if (data[0] < 128)
        put_right(copy, image->count);
    const char *path = memory_file(copy, image->count);
    free(copy);
    const enum kvc_status status = kvc_session_load(model, NULL, path, NULL, &session, &error);
    if (status != KVC_OK) {
        check_refusal(status, session, &error);
        return 0;
    }
    for (int32_t i = 0; i < 2; i++) /* whatever its numbers have become, it continues or fails with one line */
        if (kvc_decode(&session, &i, 1, NULL, NULL, &error) != KVC_OK)
            check(error.text[0] && !strchr(error.text, '\n'));
    kvc_session_close(session);
    return 0;
}

/* test_saved_killed.c - a process that saves sessions is killed at random moments: the file always has exactly the old
 * or the new content. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "kvcull.h"
#include "kvcull/saved.h"
#include "tests/check.h"

enum { KILLS = 200, IMAGES = 2 };

static char file_path[300];
static struct kvc_error error;

struct image {
    char *bytes;
    size_t count;
};

static struct image read_image(void) {
    struct image image = {.bytes = malloc(1 << 20)};
    FILE *file = fopen(file_path, "rb");
    assert_non_null(image.bytes);
    assert_non_null(file);
    image.count = fread(image.bytes, 1, 1 << 20, file);
    fclose(file);
    assert_true(image.count > 0 && image.count < 1 << 20);
    return image;
}

/* Saves repeatedly until the process is killed. After the fork it has only one thread. */
static void save_on(struct kvc_session *const *sessions) {
    for (size_t i = 0;; i++)
        if (kvc_session_save(sessions[i % IMAGES], file_path, NULL, &error) != KVC_OK)
            _exit(1);
}

static void wait_microseconds(long microseconds) {
    const struct timespec time = {0, microseconds * 1000};
    nanosleep(&time, NULL);
}

static long microseconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long)(now.tv_sec % 1000) * 1000000 + now.tv_nsec / 1000;
}

/* Partial files of a killed process remain next to the target. */
static void remove_part(pid_t process) {
    char path[340];
    for (unsigned i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s.part-%ld-%u", file_path, (long)process, i);
        remove(path);
    }
}

static void test_killed(void **state) {
    (void)state;
    const struct kvc_engine_options one_thread = {.backend = "ref", .threads = 1, .math = KVC_MATH_EXACT};
    const char *folder = getenv("TMPDIR"), *source = getenv("top_srcdir");
    static const char *const specs[] = {"h2o:budget=8", "full"};
    struct kvc_session *sessions[IMAGES];
    struct image images[IMAGES];
    struct kvc_engine *e;
    struct kvc_model *m;
    unsigned seen[IMAGES] = {0};
    uint64_t random = 7;
    long most = 6000; /* microseconds; on any disk some saves end within this time */
    char path[512];
    snprintf(path, sizeof path, "%s/tests/data/golden/qwen3/model.gguf", source ? source : ".");
    snprintf(file_path, sizeof file_path, "%s/kvcull-killed-%ld", folder ? folder : "/tmp", (long)getpid());
    FINE(kvc_engine_open(&one_thread, &e, &error));
    FINE(kvc_model_open(e, path, &m, &error));
    for (size_t i = 0; i < IMAGES; i++) {
        int32_t turn[20];
        for (size_t t = 0; t < 20; t++)
            turn[t] = (int32_t)(t * t % kvc_model_info(m)->vocab);
        struct kvc_session_options options;
        kvc_session_defaults(&options);
        options.policy = specs[i];
        FINE(kvc_session_open(m, &options, &sessions[i], &error));
        FINE(kvc_session_prompt(sessions[i], turn, 20, NULL, NULL, &error));
        const long start = microseconds_now();
        FINE(kvc_session_save(sessions[i], file_path, NULL, &error));
        const long took = 4 * (microseconds_now() - start);
        most = took > most && took < 1000000 ? took : most;
        images[i] = read_image();
    }
    for (int kill_number = 0; kill_number < (kvc_test_thinned() ? 10 : KILLS); kill_number++) {
        const pid_t process = fork();
        assert_true(process >= 0);
        if (process == 0)
            save_on(sessions);
        random = random * 6364136223846793005u + 1442695040888963407u;
        wait_microseconds((long)(random >> 33) % most);
        assert_int_equal(kill(process, SIGKILL), 0);
        int status;
        assert_int_equal(waitpid(process, &status, 0), process);
        assert_true(WIFSIGNALED(status));
        struct image found = read_image();
        size_t which = 0;
        while (which < IMAGES &&
               (found.count != images[which].count || memcmp(found.bytes, images[which].bytes, found.count) != 0))
            which++;
        assert_true(which < IMAGES);
        seen[which]++;
        free(found.bytes);
        remove_part(process);
    }
    assert_true(kvc_test_thinned() || (seen[0] > 0 && seen[1] > 0));
    for (size_t i = 0; i < IMAGES; i++) {
        free(images[i].bytes);
        kvc_session_close(sessions[i]);
    }
    remove(file_path);
    kvc_model_close(m);
    kvc_engine_close(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_killed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

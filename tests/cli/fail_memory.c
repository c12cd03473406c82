/* fail_memory.c - an LD_PRELOAD library that makes the n-th request for memory or for a thread fail, counted from the
 * beginning of main: malloc, calloc, realloc, aligned_alloc, posix_memalign, mmap and pthread_create, called by the
 * program or by a library.
 *
 *     FAIL_AT=N      the N-th call fails (0: none)
 *     FAIL_FROM=1    every later call fails too
 *     FAIL_REPORT=F  a descriptor; at exit it gets "CALLS BLOCKS": the calls counted and the blocks never freed
 *     FAIL_TRACE=1   prints on stderr where the failing call came from, to debug a failure */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <execinfo.h>
#endif

static struct {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void *(*aligned_alloc)(size_t, size_t);
    int (*posix_memalign)(void **, size_t, size_t);
    void (*free)(void *);
    void *(*mmap)(void *, size_t, int, int, int, off_t);
    int (*pthread_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
} real;
static char early[8192]; /* memory for dlsym itself while it looks up the real functions */
static size_t early_used;
static bool counting, looking;
static uint64_t calls, fail_at;
static int64_t blocks;
static bool fail_from, trace;
static int report = -1;
static int (*real_main)(int, char **, char **);

#define LOOK_UP(name) *(void **)&real.name = dlsym(RTLD_NEXT, #name)

static void look_up(void) {
    if (real.pthread_create || looking)
        return;
    looking = true;
    LOOK_UP(malloc);
    LOOK_UP(calloc);
    LOOK_UP(realloc);
    LOOK_UP(aligned_alloc);
    LOOK_UP(posix_memalign);
    LOOK_UP(free);
    LOOK_UP(mmap);
    LOOK_UP(pthread_create);
    looking = false;
}

static void *from_early(size_t bytes) {
    size_t at = early_used;
    early_used += (bytes + 15) / 16 * 16;
    return early_used <= sizeof early ? early + at : NULL;
}

static bool is_early(const void *block) {
    return (const char *)block >= early && (const char *)block < early + sizeof early;
}

static bool fails(void) {
    look_up();
    if (!counting)
        return false;
    const uint64_t call = __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
    if (!fail_at || (fail_from ? call < fail_at : call != fail_at))
        return false;
#ifdef __GLIBC__
    if (trace) {
        void *frames[40];
        counting = false;
        backtrace_symbols_fd(frames, backtrace(frames, 40), STDERR_FILENO);
        counting = true;
        trace = false;
    }
#endif
    errno = ENOMEM;
    return true;
}

static void *made(void *block) {
    if (block && counting)
        __atomic_add_fetch(&blocks, 1, __ATOMIC_RELAXED);
    return block;
}

void *malloc(size_t bytes) {
    if (fails())
        return NULL;
    return real.malloc ? made(real.malloc(bytes)) : from_early(bytes);
}

void *calloc(size_t count, size_t bytes) {
    if (fails())
        return NULL;
    return real.calloc ? made(real.calloc(count, bytes)) : from_early(count * bytes);
}

void *realloc(void *old, size_t bytes) {
    if (is_early(old)) {
        void *block = malloc(bytes);
        if (block)
            memcpy(block, old, bytes); /* may copy too much, but not beyond `early`, which is longer than any block */
        return block;
    }
    if (fails())
        return NULL;
    void *block = real.realloc(old, bytes);
    return old ? block : made(block);
}

void *aligned_alloc(size_t alignment, size_t bytes) {
    return fails() ? NULL : made(real.aligned_alloc(alignment, bytes));
}

int posix_memalign(void **block, size_t alignment, size_t bytes) {
    if (fails())
        return ENOMEM;
    const int status = real.posix_memalign(block, alignment, bytes);
    if (status == 0)
        made(*block);
    return status;
}

void free(void *block) {
    look_up();
    if (!block || is_early(block))
        return;
    if (counting)
        __atomic_sub_fetch(&blocks, 1, __ATOMIC_RELAXED);
    real.free(block);
}

void *mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset) {
    return fails() ? MAP_FAILED : real.mmap(address, bytes, protection, flags, file, offset);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument) {
    return fails() ? EAGAIN : real.pthread_create(thread, attributes, run, argument);
}

static uint64_t number(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

static void tell(void) {
    char text[64];
    counting = false;
    const int bytes = snprintf(text, sizeof text, "%llu %lld\n", (unsigned long long)calls, (long long)blocks);
    if (report >= 0 && write(report, text, (size_t)bytes) != bytes)
        abort();
}

static int counted_main(int count, char **arguments, char **environment) {
    fail_at = number("FAIL_AT", 0);
    fail_from = number("FAIL_FROM", 0);
    trace = number("FAIL_TRACE", 0);
    report = (int)number("FAIL_REPORT", (uint64_t)-1);
    if (atexit(tell) != 0)
        abort();
    counting = true;
    return real_main(count, arguments, environment);
}

int __libc_start_main(int (*program)(int, char **, char **), int count, char **arguments, void (*begin)(void),
                      void (*end)(void), void (*loader_end)(void), void *stack_end);
int __libc_start_main(int (*program)(int, char **, char **), int count, char **arguments, void (*begin)(void),
                      void (*end)(void), void (*loader_end)(void), void *stack_end) {
    int (*start)(int (*)(int, char **, char **), int, char **, void (*)(void), void (*)(void), void (*)(void), void *);
    *(void **)&start = dlsym(RTLD_NEXT, "__libc_start_main");
    real_main = program;
    return start(counted_main, count, arguments, begin, end, loader_end, stack_end);
}

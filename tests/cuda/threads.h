/* threads.h - test support: the threads of a block as fibers, the order of threads and blocks, barriers, and
 * asynchronous copies. Between two barriers, threads run one after another: forward, backward or shuffled. If a thread
 * reads data that another thread writes, without a barrier in between, the results differ. With -fsanitize=thread, each
 * fiber is a thread to the sanitizer and only barriers order them, so it reports such a race. ./dev does not run this
 * check. */
#include <setjmp.h>
#include <ucontext.h>

kvc_index3 threadIdx, blockIdx, blockDim, gridDim;

enum state { RUNS, AT_BLOCK, AT_WARP, AT_SHUFFLE, ENDED };
enum { MOST_THREADS = 1024, STACK = 256 << 10, COPIES = 64 };

struct copy {
    void *to;
    const void *from;
    uint32_t bytes;
};

struct fiber {
    ucontext_t context;
    jmp_buf point;
    enum state state;
    bool made;
    void *watched; /* the thread sanitizer's fiber */
    unsigned block_rotate, warp_transpose;
    struct copy copies[COPIES]; /* copies that have not completed */
    unsigned first_copy, copy_count, group_count, group_end[COPIES];
};

static struct fiber fibers[MOST_THREADS];
static struct fiber scheduler;
static unsigned running;
static void (*job)(const void *, void **);
static const void *job_kernel;
static void **job_arguments;
static uint32_t mail[MOST_THREADS];

/* The thread sanitizer treats a fiber as a thread. A fiber that reaches a barrier releases its clock; a fiber that
 * continues acquires all clocks. */
#if defined(__SANITIZE_THREAD__)
extern "C" void *__tsan_create_fiber(unsigned);
extern "C" void *__tsan_get_current_fiber();
extern "C" void __tsan_switch_to_fiber(void *, unsigned);
extern "C" void __tsan_acquire(void *);
extern "C" void __tsan_release(void *);
#define KVC_UNWATCHED __attribute__((no_sanitize_thread))
#else
#define KVC_UNWATCHED
#define __tsan_acquire(at) ((void)(at))
#define __tsan_release(at) ((void)(at))
#endif
static char launch_clock, end_clock, block_clock[2],
    warp_clock[MOST_THREADS / 32][2]; /* two clocks for alternating barriers */

#if defined(__SANITIZE_THREAD__)
KVC_UNWATCHED static void go(struct fiber *from, struct fiber *to) {
    __tsan_switch_to_fiber(to->watched, 1); /* 1: the switch does not order memory accesses */
    swapcontext(&from->context, &to->context);
}
#elif defined(__SANITIZE_ADDRESS__) /* this sanitizer supports swapcontext, but not jumps between stacks */
static void go(struct fiber *from, struct fiber *to) { swapcontext(&from->context, &to->context); }
#else
static void go(struct fiber *from, struct fiber *to) {
    if (_setjmp(from->point) == 0)
        _longjmp(to->point, 1);
}
#endif

KVC_UNWATCHED static void body() {
    for (;;) {
        __tsan_acquire(&launch_clock);
        job(job_kernel, job_arguments);
        __tsan_release(&end_clock);
        fibers[running].state = ENDED;
        go(&fibers[running], &scheduler);
    }
}

KVC_UNWATCHED static void start(struct fiber *fiber) {
    fiber->made = true;
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = malloc(STACK); /* kept until the program ends */
    fiber->context.uc_stack.ss_size = STACK;
    fiber->context.uc_link = NULL;
    if (!fiber->context.uc_stack.ss_sp)
        abort();
    makecontext(&fiber->context, body, 0);
#if defined(__SANITIZE_THREAD__)
    scheduler.watched = __tsan_get_current_fiber();
    fiber->watched = __tsan_create_fiber(0);
    go(&scheduler, fiber);
#elif defined(__SANITIZE_ADDRESS__)
    go(&scheduler, fiber);
#else
    if (_setjmp(scheduler.point) == 0)
        setcontext(&fiber->context);
#endif
}

KVC_UNWATCHED static void step(unsigned thread) {
    running = thread;
    threadIdx.x = thread;
    if (fibers[thread].made)
        go(&scheduler, &fibers[thread]);
    else
        start(&fibers[thread]);
}

KVC_UNWATCHED static void wait_at(enum state state) {
    struct fiber *fiber = &fibers[running];
    char *clock = state == AT_BLOCK ? &block_clock[fiber->block_rotate++ % 2]
                                    : &warp_clock[running / 32][fiber->warp_transpose++ % 2];
    fiber->state = state;
    __tsan_release(clock);
    go(fiber, &scheduler);
    __tsan_acquire(clock);
}

void __syncthreads() { wait_at(AT_BLOCK); }
void __syncwarp(unsigned) { wait_at(AT_WARP); }
KVC_UNWATCHED uint32_t kvc_shuffle(uint32_t value, unsigned from) {
    unsigned first = running / 32 * 32;
    mail[running] = value;
    wait_at(AT_SHUFFLE);
    value =
        fibers[first + from].state == ENDED ? 0x7fdeadu : mail[first + from]; /* an ended lane has no defined value */
    wait_at(AT_SHUFFLE);
    return value;
}

static enum kvc_fake_order order; /* the order of this launch */
static uint64_t random_state = 1;
KVC_UNWATCHED static unsigned random_below(unsigned n) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(((random_state >> 32) * n) >> 32);
}

/* ---- asynchronous copies ---- */

KVC_UNWATCHED static void copy_until(struct fiber *fiber, unsigned end) {
    for (; fiber->first_copy < end; fiber->first_copy++) {
        const struct copy *copy = &fiber->copies[fiber->first_copy % COPIES];
        memcpy(copy->to, copy->from, copy->bytes);
    }
}
KVC_UNWATCHED void kvc_emulated_copy(void *to, const void *from, uint32_t bytes) {
    struct fiber *fiber = &fibers[running];
    if (((uintptr_t)to | (uintptr_t)from) % bytes) {
        fprintf(stderr, "emulation: an asynchronous copy of %u bytes is not aligned to them\n", bytes);
        abort();
    }
    if (fiber->copy_count - fiber->first_copy == COPIES) /* the list of copies is full: complete the oldest copy */
        copy_until(fiber, fiber->first_copy + 1);
    fiber->copies[fiber->copy_count++ % COPIES] = {to, from, bytes};
    if (order == KVC_FAKE_FORWARD || (order == KVC_FAKE_SHUFFLED && random_below(4) == 0))
        copy_until(fiber, fiber->copy_count);
}
KVC_UNWATCHED void kvc_emulated_commit() {
    struct fiber *fiber = &fibers[running];
    fiber->group_end[fiber->group_count++ % COPIES] = fiber->copy_count;
}
KVC_UNWATCHED void kvc_emulated_wait(unsigned left) {
    struct fiber *fiber = &fibers[running];
    if (fiber->group_count > left)
        copy_until(fiber, fiber->group_end[(fiber->group_count - left - 1) % COPIES]);
}

/* Threads run in the order of their number, with the bits of a mask inverted. */
KVC_UNWATCHED static unsigned order_mask(unsigned all) {
    return order == KVC_FAKE_BACKWARD ? all : order == KVC_FAKE_SHUFFLED ? random_below(all + 1) : 0;
}

/* Runs a warp until its threads have ended or wait for the block. */
KVC_UNWATCHED static void run_warp(unsigned first, unsigned end) {
    for (;;) {
        const unsigned mask = order_mask(31);
        unsigned count[ENDED + 1] = {0};
        for (unsigned i = 0; i < 32; i++) {
            const unsigned thread = first + (i ^ mask);
            if (thread >= end)
                continue;
            if (fibers[thread].state == RUNS)
                step(thread);
            count[fibers[thread].state]++;
        }
        if (count[AT_WARP] + count[AT_SHUFFLE] == 0)
            return;
        if ((count[AT_WARP] != 0) + (count[AT_SHUFFLE] != 0) + (count[AT_BLOCK] != 0) > 1) {
            fprintf(stderr, "emulation: threads of a warp wait at different barriers\n");
            abort();
        }
        for (unsigned i = first; i < end; i++)
            if (fibers[i].state != ENDED)
                fibers[i].state = RUNS;
    }
}

extern unsigned char __start_kvc_shared[], __stop_kvc_shared[];

KVC_UNWATCHED static void run_block(unsigned threads) {
    unsigned warps = 1, waiting;
    while (warps * 32 < threads)
        warps *= 2;
    for (unsigned i = 0; i < threads; i++) {
        fibers[i].state = RUNS;
        fibers[i].first_copy = fibers[i].copy_count = fibers[i].group_count = 0;
        fibers[i].block_rotate = fibers[i].warp_transpose = 0;
    }
    if (random_below(64) == 0) /* blocks must not rely on previous contents of shared memory */
        memset(__start_kvc_shared, 0x7f, (size_t)(__stop_kvc_shared - __start_kvc_shared));
    __tsan_release(&launch_clock);
    do {
        const unsigned mask = order_mask(warps - 1);
        for (unsigned w = 0; w < warps; w++) {
            const unsigned first = (w ^ mask) * 32;
            if (first < threads)
                run_warp(first, first + 32 < threads ? first + 32 : threads);
        }
        waiting = 0; /* the block's barrier: all threads that have not ended have reached it */
        for (unsigned i = 0; i < threads; i++)
            if (fibers[i].state == AT_BLOCK) {
                fibers[i].state = RUNS;
                waiting++;
            }
    } while (waiting);
    __tsan_acquire(&end_clock);
}

KVC_UNWATCHED static void run_blocks(uint64_t blocks, unsigned threads) {
    static unsigned launches;
    uint64_t at = 0, by = 1;
    order = kvc_fake_cuda.order == KVC_FAKE_IN_TURN ? (enum kvc_fake_order)(launches++ % 3) : kvc_fake_cuda.order;
    if (order == KVC_FAKE_BACKWARD)
        at = blocks - 1, by = blocks - 1;
    if (order == KVC_FAKE_SHUFFLED && blocks < 7919) /* a prime number, so that each block is visited once */
        at = random_below((unsigned)blocks), by = 7919;
    for (uint64_t i = 0; i < blocks; i++, at = (at + by) % blocks) {
        blockIdx.x = (unsigned)(at % gridDim.x);
        blockIdx.y = (unsigned)(at / gridDim.x % gridDim.y);
        blockIdx.z = (unsigned)(at / gridDim.x / gridDim.y);
        run_block(threads);
    }
}

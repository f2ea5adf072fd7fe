/* Benchmark of a native call stack, by depth: frame pointers alone, frame pointers that the
 * unwinder confirmed (the default), the unwinder alone; and backtrace() of the C library for
 * comparison. Compiled with frame pointers, as programs are that want cheap stacks. */
#include "bench.h"
#include "record/unwind.h"

#include <execinfo.h>

#define ROUNDS 21
#define CALLS  2000

static kr_stack_thread thread;
static uint64_t addresses[KR_STACK_MAX];
static uint32_t last_count;

static __attribute__((noinline)) double by_us(void)
{
    double start = bench_thread_ns();
    for (int i = 0; i < CALLS; i++) {
        last_count = kr_stack_capture(&thread, __builtin_frame_address(0), addresses, KR_STACK_MAX);
        BENCH_BARRIER();
    }
    return (bench_thread_ns() - start) / CALLS;
}

static __attribute__((noinline)) double by_libc(void)
{
    static void *at[KR_STACK_MAX];
    double start = bench_thread_ns();
    for (int i = 0; i < CALLS / 10; i++) {
        last_count = (uint32_t)backtrace(at, KR_STACK_MAX);
        BENCH_BARRIER();
    }
    return (bench_thread_ns() - start) / (CALLS / 10);
}

static __attribute__((noinline)) double at_depth(int depth, double (*measure)(void))
{
    double ns = depth > 0 ? at_depth(depth - 1, measure) : measure();
    BENCH_BARRIER(); /* no tail call */
    return ns;
}

static void compare_depth(kr_stack_by by, const char *word, int depth)
{
    bench_series ours = {.count = 0}, libc = {.count = 0};
    char name[64];
    kineto_error err = {.message = ""};
    if (kr_stack_prepare(by, &err) != KINETO_OK) {
        fprintf(stderr, "%s\n", err.message);
        return;
    }
    for (int i = 0; i < ROUNDS; i++) {
        bench_add(&libc, at_depth(depth, by_libc));
        bench_add(&ours, at_depth(depth, by_us));
    }
    snprintf(name, sizeof name, "stack_%s_%u_frames", word, last_count);
    bench_print(name, "ns/stack", &ours, &libc);
}

int main(void)
{
    static const int depths[] = {5, 25, 100};
    for (size_t i = 0; i < sizeof depths / sizeof depths[0]; i++) {
        compare_depth(KR_STACK_FRAMES, "frames", depths[i]);
        compare_depth(KR_STACK_AUTO, "auto", depths[i]);
        compare_depth(KR_STACK_TABLES, "tables", depths[i]);
    }
    return 0;
}

/* Programs for record --cpu-timers, of which the CPU time, the use of signals and the use of system calls
 * are known:
 *   split MS          MS of CPU time, 70 % in `heavy` and 30 % in `light`; fails if errno changes
 *   brief COUNT MS    COUNT threads, one after the other, each for MS of CPU time in `heavy`; prints their
 *                     CPU time in ns
 *   own               timers, signals and an alternate stack of its own; prints "own ok"
 *   takes             installs a handler for each real-time signal; prints "takes ok"
 *   blocks MS         a thread that blocks all signals, and one that blocks only the last ones, each MS
 *   restart MS        calls that a signal may interrupt, without a look at EINTR; prints how often which
 *                     call was interrupted, "calls interrupted" for all
 *   foreign MS        computes on stacks of its own, below 8 KiB in size, next to memory without access
 *   deep MS           computes below 30000 calls
 *   fork MS           computes in a child of fork, and in a thread of it
 *   reset MS          sets all signals to their default, then computes
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

static volatile uint64_t sink;
static uint64_t length_ms;

static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Not one function for both, so that the compiler keeps two. */
#define SPINNER(name, factor)                                                                      \
    __attribute__((noinline)) static void name(uint64_t us)                                        \
    {                                                                                              \
        uint64_t end = cpu_ns() + us * 1000;                                                       \
        do {                                                                                       \
            for (int i = 0; i < 20000; i++)                                                        \
                sink = sink * factor + 7;                                                          \
        } while (cpu_ns() < end);                                                                  \
    }
SPINNER(heavy, 31)
SPINNER(light, 37)

static void run_split(void)
{
    for (uint64_t end = cpu_ns() + length_ms * 1000000; cpu_ns() < end;) {
        errno = EILSEQ;
        heavy(17500); /* together no multiple of a usual period of samples */
        light(7500);
        if (errno != EILSEQ)
            exit(3);
    }
}

static void *spin_heavy(void *unused)
{
    (void)unused;
    heavy(length_ms * 1000);
    return (void *)(uintptr_t)cpu_ns();
}

static void run_brief(int count)
{
    uint64_t sum = 0;
    for (int i = 0; i < count; i++) {
        pthread_t thread;
        void *used;
        if (pthread_create(&thread, NULL, spin_heavy, NULL) || pthread_join(thread, &used))
            exit(1);
        sum += (uint64_t)(uintptr_t)used;
    }
    printf("%llu\n", (unsigned long long)sum);
}

/* ---- signals of its own ---------------------------------------------------------------------- */

static volatile sig_atomic_t profiled, alarmed, queued;
static void on_profile(int number) { (void)number, profiled++; }
static void on_alarm(int number) { (void)number, alarmed++; }
static void on_queued(int number, siginfo_t *info, void *context)
{
    (void)number, (void)context;
    queued += info->si_value.sival_int;
}

static void set_handler(int number, void (*handler)(int))
{
    struct sigaction a = {.sa_flags = SA_RESTART | SA_ONSTACK};
    a.sa_handler = handler;
    sigaction(number, &a, NULL);
}

static int run_own(void)
{
    struct itimerval every = {{0, 5000}, {0, 5000}}, none = {{0, 0}, {0, 0}};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 1};
    struct itimerspec often = {{0, 5000000}, {0, 5000000}};
    struct sigaction counted = {.sa_flags = SA_SIGINFO | SA_RESTART}, before;
    stack_t stack = {.ss_sp = malloc(64 << 10), .ss_size = 64 << 10};
    union sigval seven = {.sival_int = 7};
    timer_t timer;
    counted.sa_sigaction = on_queued;
    sigaltstack(&stack, NULL);
    set_handler(SIGPROF, on_profile);
    set_handler(SIGRTMIN + 1, on_alarm);
    sigaction(SIGRTMIN + 2, &counted, NULL);
    setitimer(ITIMER_PROF, &every, NULL);
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    timer_settime(timer, 0, &often, NULL);
    for (int i = 0; i < 10; i++) {
        heavy(30000);
        sigqueue(getpid(), SIGRTMIN + 2, seven);
    }
    setitimer(ITIMER_PROF, &none, NULL);
    timer_delete(timer);
    for (int number = 1; number <= SIGRTMAX; number++) /* what it has not set reads as not set */
        if (number != SIGPROF && number != SIGRTMIN + 1 && number != SIGRTMIN + 2 &&
            sigaction(number, NULL, &before) == 0 && before.sa_handler != SIG_DFL &&
            before.sa_handler != SIG_IGN)
            printf("signal %d has a handler\n", number);
    printf("%d %d %d\n", (int)profiled, (int)alarmed, (int)queued);
    if (profiled > 5 && alarmed > 5 && queued == 70)
        puts("own ok");
    return 0;
}

static int run_takes(void)
{
    int count = 0;
    heavy(50000);
    for (int number = SIGRTMIN; number <= SIGRTMAX; number++) {
        set_handler(number, on_alarm);
        raise(number);
        count++;
    }
    heavy(50000);
    if (alarmed == count)
        puts("takes ok");
    return 0;
}

static void *block_and_spin(void *all)
{
    sigset_t set;
    sigemptyset(&set);
    for (int number = SIGRTMAX - 5; number <= SIGRTMAX; number++)
        sigaddset(&set, number);
    if (all)
        sigfillset(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    heavy(length_ms * 1000);
    return NULL;
}

/* All are blocked before the first thread is created, as libuv and GLib do. */
static void run_blocks(void)
{
    pthread_t first, second;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_create(&first, NULL, spin_heavy, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_setname_np(first, "blocks-all");
    pthread_join(first, NULL);
    pthread_create(&second, NULL, block_and_spin, NULL);
    pthread_setname_np(second, "blocks-some");
    pthread_join(second, NULL);
}

static void run_reset(void)
{
    for (int number = 1; number <= SIGRTMAX; number++)
        signal(number, SIG_DFL);
    heavy(length_ms * 1000);
}

/* ---- calls that signals interrupt ------------------------------------------------------------ */

static int pipe_ends[2];

static void *feed_pipe(void *unused)
{
    (void)unused;
    for (;;) {
        usleep(300);
        if (write(pipe_ends[1], "x", 1) != 1)
            return NULL;
    }
}

/* A little work before each call, so that a timer may expire at any place. */
static void run_restart(void)
{
    enum { READ, NANOSLEEP, POLL, SEMAPHORE, CALLS };
    static const char *const names[CALLS] = {"read", "nanosleep", "poll", "sem_timedwait"};
    int calls[CALLS] = {0}, interrupted[CALLS] = {0};
    struct timespec moment = {0, 100000};
    sem_t semaphore;
    pthread_t feeder;
    char byte;
    sem_init(&semaphore, 0, 0);
    if (pipe(pipe_ends) || pthread_create(&feeder, NULL, feed_pipe, NULL))
        exit(1);
    for (uint64_t end = cpu_ns() + length_ms * 1000000; cpu_ns() < end;)
        for (int call = 0; call < CALLS; call++) {
            struct timespec until;
            int result = 0;
            clock_gettime(CLOCK_REALTIME, &until);
            until.tv_nsec = (until.tv_nsec + 100000) % 1000000000;
            until.tv_sec += until.tv_nsec < 100000;
            heavy(20);
            errno = 0;
            if (call == READ)
                result = (int)read(pipe_ends[0], &byte, 1);
            else if (call == NANOSLEEP)
                result = nanosleep(&moment, NULL);
            else if (call == POLL)
                result = poll(NULL, 0, 1);
            else
                result = sem_timedwait(&semaphore, &until);
            calls[call]++;
            interrupted[call] += result < 0 && errno == EINTR;
        }
    for (int call = 0; call < CALLS; call++)
        printf("%s %d of %d\n", names[call], interrupted[call], calls[call]);
}

/* ---- stacks ---------------------------------------------------------------------------------- */

static ucontext_t main_context, other_context;
static void spin_there(void)
{
    heavy(5000);
}

/* The upper end of each stack borders on memory that cannot be read. */
static void run_foreign(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), size = 16 * page;
    for (uint64_t end = cpu_ns() + length_ms * 1000000; cpu_ns() < end;) {
        char *memory = mmap(NULL, size + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED || mprotect(memory + size, page, PROT_NONE))
            exit(1);
        getcontext(&other_context);
        other_context.uc_stack.ss_sp = memory;
        other_context.uc_stack.ss_size = size;
        other_context.uc_link = &main_context;
        makecontext(&other_context, spin_there, 0);
        swapcontext(&main_context, &other_context);
        munmap(memory, size + page);
    }
}

__attribute__((noinline)) static uint64_t descend(int depth)
{
    char room[64];
    memset(room, depth & 0x7f, sizeof room);
    if (depth > 1)
        sink += descend(depth - 1);
    else
        heavy(length_ms * 1000);
    return sink + (uint64_t)room[depth & 63];
}

static void run_fork(void)
{
    pthread_t thread;
    if (fork() == 0) {
        heavy(length_ms * 1000);
        pthread_create(&thread, NULL, spin_heavy, NULL);
        pthread_join(thread, NULL);
        exit(0);
    }
    wait(NULL);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    length_ms = argc > 2 ? (uint64_t)atoi(argv[argc - 1]) : 0;
    if (strcmp(what, "split") == 0)
        run_split();
    else if (strcmp(what, "brief") == 0 && argc == 4)
        run_brief(atoi(argv[2]));
    else if (strcmp(what, "own") == 0)
        return run_own();
    else if (strcmp(what, "takes") == 0)
        return run_takes();
    else if (strcmp(what, "blocks") == 0)
        run_blocks();
    else if (strcmp(what, "reset") == 0)
        run_reset();
    else if (strcmp(what, "restart") == 0)
        run_restart();
    else if (strcmp(what, "foreign") == 0)
        run_foreign();
    else if (strcmp(what, "deep") == 0)
        descend(30000);
    else if (strcmp(what, "fork") == 0)
        run_fork();
    else
        return 2;
    return 0;
}

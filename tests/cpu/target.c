/* A program with known behaviour, for the tests of the source "cpu":
 *   target deep DEPTH MS     spins MS of CPU time below DEPTH calls of `descend`
 *   target threads MS        three threads for MS: one computes, one sleeps, one waits for a lock
 *   target children MS       a child process that computes, and one that executes `target deep`
 *   target states MS         threads that compute, hand a lock over, sleep and read from a pipe for MS; each
 *                            prints "TID NAME RUN_NS WAIT_NS": its CPU time, and what the kernel counted of
 *                            waiting for a CPU
 *   target times FILE COMMAND…   runs the command, and writes its CPU time in ns into the file
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile uint64_t sink;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t clock_ms(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

__attribute__((noinline)) static void spin(uint64_t ms)
{
    uint64_t end = clock_ms(CLOCK_THREAD_CPUTIME_ID) + ms;
    do {
        for (int i = 0; i < 100000; i++)
            sink = sink * 31 + 7;
    } while (clock_ms(CLOCK_THREAD_CPUTIME_ID) < end);
}

__attribute__((noinline)) static uint64_t descend(int depth, uint64_t ms)
{
    char room[64];
    memset(room, depth & 0x7f, sizeof room);
    if (depth > 1)
        sink += descend(depth - 1, ms);
    else
        spin(ms);
    return sink + (uint64_t)room[depth & 63];
}

static uint64_t length_ms;

static void *compute(void *unused)
{
    (void)unused;
    spin(length_ms);
    return NULL;
}

static void *sleep_long(void *unused)
{
    (void)unused;
    usleep((useconds_t)(length_ms * 1000));
    return NULL;
}

static void *wait_for_lock(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void run_threads(void)
{
    pthread_t threads[3];
    static void *(*const functions[3])(void *) = {compute, sleep_long, wait_for_lock};
    static const char *const names[3] = {"computes", "sleeps", "waits"};
    pthread_mutex_lock(&lock);
    for (int i = 0; i < 3; i++) {
        pthread_create(&threads[i], NULL, functions[i], NULL);
        pthread_setname_np(threads[i], names[i]);
    }
    usleep((useconds_t)(length_ms * 1000));
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}

static void run_children(const char *self, const char *ms)
{
    if (fork() == 0) {
        spin(length_ms);
        _exit(0);
    }
    if (fork() == 0) {
        execl(self, self, "deep", "5", ms, (char *)NULL);
        _exit(1);
    }
    while (wait(NULL) > 0)
        ;
}

/* ---- states ---------------------------------------------------------------------------------- */

static int pipe_ends[2];
static uint64_t end_ms;

static void print_times(const char *name)
{
    char path[64];
    unsigned long long ran = 0, waited = 0;
    struct timespec t;
    long tid = syscall(SYS_gettid);
    snprintf(path, sizeof path, "/proc/self/task/%ld/schedstat", tid);
    FILE *f = fopen(path, "re");
    if (!f || fscanf(f, "%llu %llu", &ran, &waited) != 2)
        waited = 0;
    if (f)
        fclose(f);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* schedstat counts only up to the last tick */
    printf("%ld %s %llu %llu\n", tid, name,
           (unsigned long long)t.tv_sec * 1000000000u + (unsigned long long)t.tv_nsec, waited);
}

static void compute_on(void)
{
    while (clock_ms(CLOCK_MONOTONIC) < end_ms)
        spin(5);
}

static void share_lock(void)
{
    while (clock_ms(CLOCK_MONOTONIC) < end_ms) {
        pthread_mutex_lock(&lock);
        spin(3);
        pthread_mutex_unlock(&lock);
        usleep(500);
    }
}

static void sleep_and_work(void)
{
    while (clock_ms(CLOCK_MONOTONIC) < end_ms) {
        usleep(2000);
        spin(1);
    }
}

static void write_pipe(void)
{
    while (clock_ms(CLOCK_MONOTONIC) < end_ms) {
        spin(2);
        if (write(pipe_ends[1], "x", 1) != 1)
            break;
        usleep(1000);
    }
    close(pipe_ends[1]);
}

static void read_pipe(void)
{
    char byte;
    while (read(pipe_ends[0], &byte, 1) == 1)
        spin(1);
}

static const struct {
    const char *name;
    void (*run)(void);
} actors[] = {{"computes-a", compute_on}, {"computes-b", compute_on}, {"computes-c", compute_on},
              {"locks-a", share_lock},    {"locks-b", share_lock},    {"sleeps", sleep_and_work},
              {"writes", write_pipe},     {"reads", read_pipe}};
enum { ACTORS = sizeof actors / sizeof actors[0] };

static void *act(void *index)
{
    int i = (int)(intptr_t)index;
    pthread_setname_np(pthread_self(), actors[i].name);
    actors[i].run();
    print_times(actors[i].name);
    return NULL;
}

static void run_states(void)
{
    pthread_t threads[ACTORS];
    end_ms = clock_ms(CLOCK_MONOTONIC) + length_ms;
    if (pipe(pipe_ends) != 0)
        exit(1);
    for (int i = 0; i < ACTORS; i++)
        pthread_create(&threads[i], NULL, act, (void *)(intptr_t)i);
    for (int i = 0; i < ACTORS; i++)
        pthread_join(threads[i], NULL);
}

/* ---- times ----------------------------------------------------------------------------------- */

static int run_timed(const char *file, char **command)
{
    struct rusage used;
    int status = 1;
    pid_t child = fork();
    if (child == 0) {
        execvp(command[0], command);
        _exit(127);
    }
    FILE *f = fopen(file, "we");
    if (waitpid(child, &status, 0) != child || getrusage(RUSAGE_CHILDREN, &used) != 0 || !f)
        return 1;
    long long us = ((long long)used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000 +
                   used.ru_utime.tv_usec + used.ru_stime.tv_usec;
    fprintf(f, "%lld\n", us * 1000);
    return fclose(f) != 0 || status != 0;
}

int main(int argc, char **argv)
{
    if (argc >= 4 && strcmp(argv[1], "times") == 0)
        return run_timed(argv[2], argv + 3);
    if (argc == 4 && strcmp(argv[1], "deep") == 0) {
        descend(atoi(argv[2]), (uint64_t)atoi(argv[3]));
        return 0;
    }
    if (argc != 3)
        return 2;
    length_ms = (uint64_t)atoi(argv[2]);
    if (strcmp(argv[1], "threads") == 0)
        run_threads();
    else if (strcmp(argv[1], "states") == 0)
        run_states();
    else
        run_children(argv[0], argv[2]);
    return 0;
}

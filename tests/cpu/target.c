/* A program with known behaviour, for the tests of the source "cpu":
 *   target deep DEPTH MS     spins MS of CPU time below DEPTH calls of `descend`
 *   target threads MS        three threads for MS: one computes, one sleeps, one waits for a lock
 *   target children MS       a child process that computes, and one that executes `target deep`
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "deep") == 0) {
        descend(atoi(argv[2]), (uint64_t)atoi(argv[3]));
        return 0;
    }
    if (argc != 3)
        return 2;
    length_ms = (uint64_t)atoi(argv[2]);
    if (strcmp(argv[1], "threads") == 0)
        run_threads();
    else
        run_children(argv[0], argv[2]);
    return 0;
}

/* Programs with calls that do not end.
 *
 *   circle N END    N threads, each of which holds a lock and waits for that of the next one
 *   kinds END       a thread in each of several functions
 *   handler END     a wait for a lock during which a signal handler waits for time, and ends
 *   jump END        a wait for a lock that is left with siglongjmp, then another call
 *   short END       the main thread has called sched_yield only: nothing is open
 *
 * END: kill (by SIGKILL), exit, abort, hang (print "ready 1" and wait for the end of stdin). Each prints
 * "threads N": how many calls are open, and "open_ns N", for how long all of them were at least. */
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MAX_THREADS 16
#define OPEN_NS     60000000

static pthread_mutex_t locks[MAX_THREADS];
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t semaphore;
static atomic_int tids[MAX_THREADS];
static int count;
static pthread_barrier_t all_hold;
static sigjmp_buf jump;
static pthread_t joined; /* a thread that does not end */

/* By system calls that nothing interposes: is the thread blocked? */
static int is_thread_asleep(int tid)
{
    char path[64], text[512], *at;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
    FILE *f = fopen(path, "r");
    text[f ? fread(text, 1, sizeof text - 1, f) : 0] = 0;
    if (f)
        fclose(f);
    at = strrchr(text, ')');
    return at && at[1] && at[2] == 'S';
}

static void *hold_and_wait(void *number)
{
    int n = (int)(intptr_t)number;
    pthread_mutex_lock(&locks[n]);
    (void)pthread_barrier_wait(&all_hold);
    atomic_store(&tids[n], (int)syscall(SYS_gettid));
    pthread_mutex_lock(&locks[(n + 1) % count]);
    return NULL;
}

static void start_circle(int threads)
{
    pthread_t thread;
    count = threads;
    pthread_barrier_init(&all_hold, NULL, (unsigned)count);
    for (int i = 0; i < count; i++)
        pthread_mutex_init(&locks[i], NULL);
    for (int i = 0; i < count; i++)
        pthread_create(&thread, NULL, hold_and_wait, (void *)(intptr_t)i);
}

static void *wait_in_function(void *number)
{
    int n = (int)(intptr_t)number, pipes[2];
    char byte;
    pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
    if (pipe(pipes) != 0)
        return NULL;
    struct pollfd descriptor = {pipes[0], POLLIN, 0};
    atomic_store(&tids[n], (int)syscall(SYS_gettid));
    pthread_mutex_lock(&own);
    switch (n) {
    case 0: pthread_cond_wait(&condition, &own); break;
    case 1: sem_wait(&semaphore); break;
    case 2: (void)!read(pipes[0], &byte, 1); break;
    case 3: (void)poll(&descriptor, 1, -1); break;
    case 4: sleep(1000); break;
    default: pthread_join(joined, NULL); break;
    }
    return NULL;
}

static void start_kinds(void)
{
    pthread_t thread;
    count = 6;
    sem_init(&semaphore, 0, 0);
    pthread_create(&joined, NULL, wait_in_function, (void *)(intptr_t)0);
    for (int i = 1; i < count; i++)
        pthread_create(&thread, NULL, wait_in_function, (void *)(intptr_t)i);
}

static void wait_in_handler(int number)
{
    (void)number;
    (void)nanosleep(&(struct timespec){0, 2000000}, NULL);
}

static void leave_wait(int number)
{
    (void)number;
    siglongjmp(jump, 1);
}

static void *wait_and_leave(void *leaves)
{
    atomic_store(&tids[0], (int)syscall(SYS_gettid));
    if (sigsetjmp(jump, 1) == 0)
        pthread_mutex_lock(&locks[0]);
    if (leaves)
        (void)nanosleep(&(struct timespec){0, 2000000}, NULL);
    atomic_store(&tids[1], atomic_load(&tids[0]));
    for (;;)
        (void)syscall(SYS_ppoll, NULL, 0, NULL, NULL, 0);
    return NULL;
}

/* A thread waits for a lock of main, which interrupts it with a signal. */
static void interrupt_wait(void (*handler)(int), int leaves)
{
    pthread_t thread;
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGUSR1, &action, NULL);
    pthread_mutex_init(&locks[0], NULL);
    pthread_mutex_lock(&locks[0]);
    pthread_create(&thread, NULL, wait_and_leave, leaves ? &thread : NULL);
    while (!atomic_load(&tids[0]) || !is_thread_asleep(atomic_load(&tids[0])))
        sched_yield();
    pthread_kill(thread, SIGUSR1);
    count = leaves ? 0 : 1;
    while (leaves && !atomic_load(&tids[1]))
        sched_yield();
}

static void end_program(const char *how)
{
    struct timespec until;
    char byte;
    for (int i = 0; i < count; i++)
        while (!atomic_load(&tids[i]) || !is_thread_asleep(atomic_load(&tids[i])))
            sched_yield();
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t end_ns = until.tv_sec * 1000000000 + until.tv_nsec + OPEN_NS, now_ns = 0;
    while (now_ns < end_ns) {
        clock_gettime(CLOCK_MONOTONIC, &until);
        now_ns = until.tv_sec * 1000000000 + until.tv_nsec;
        sched_yield();
    }
    printf("threads %d\nopen_ns %d\n", count, OPEN_NS);
    for (int i = 0; i < count; i++)
        printf("tid%d %d\n", i, atomic_load(&tids[i]));
    fflush(stdout);
    if (strcmp(how, "kill") == 0)
        kill(getpid(), SIGKILL);
    if (strcmp(how, "abort") == 0)
        abort();
    if (strcmp(how, "exit") == 0)
        exit(0);
    printf("ready 1\n");
    fflush(stdout);
    while (read(0, &byte, 1) > 0)
        ;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "circle") == 0 && argc == 4)
        start_circle(atoi(argv[2]));
    else if (strcmp(what, "kinds") == 0)
        start_kinds();
    else if (strcmp(what, "handler") == 0)
        interrupt_wait(wait_in_handler, 0);
    else if (strcmp(what, "jump") == 0)
        interrupt_wait(leave_wait, 1);
    else if (strcmp(what, "short") != 0)
        return 2;
    end_program(argv[argc - 1]);
    return 0;
}

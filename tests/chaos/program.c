/* A program that counts for itself what it records, in a file that stays when it is killed, while it
 * does what programs do at their worst: chaos_program COUNTS VERB ARGUMENTS…
 *
 *     run T MS US    T threads record until MS ms are over, and pause for US between 64 pairs
 *     soak T MS US   the same, with kineto_step_mark
 *     threads N      N threads at once, each with some ranges
 *     eintr MS       a timer interrupts everything, its handler records, no call is restarted
 *     cancel N       N threads are cancelled inside of ranges
 *     forks N        N children and their children, 16 at a time
 *     nofiles MS     no descriptor is free, while threads come and go */
#include "counts.h"

#include <ckineto/record.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

KINETO_SITE(outer, KINETO_KIND_USER_ANNOTATION, "chaos outer");
KINETO_SITE_ARGS(inner, KINETO_KIND_CPU_OP, "chaos inner", {"i", KINETO_ARG_INT});
KINETO_SITE(moment, KINETO_KIND_USER_ANNOTATION, "chaos moment");

static chaos_counts *counts;
static _Thread_local chaos_slot *slot, *handler_slot;

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void die(const char *what)
{
    perror(what);
    exit(2);
}

/* ---- counting ------------------------------------------------------------------------------------- */

static chaos_slot *slot_take(void)
{
    uint32_t i = __atomic_fetch_add(&counts->used, 1, __ATOMIC_RELAXED);
    if (i >= CHAOS_SLOTS)
        die("too many threads for the counts");
    return &counts->slots[i];
}

static void count(uint64_t *of) { __atomic_store_n(of, *of + 1, __ATOMIC_RELEASE); }

/* A child has a slot of its own, as every thread has. */
static void forked(void) { slot = handler_slot = NULL; }

/* Inner ranges of a thread bear numbers that follow: what is missing shows. */
static void pairs(long n)
{
    if (!slot)
        slot = slot_take();
    for (long i = 0; i < n; i++) {
        kineto_value value = {.i = (int64_t)(slot->begun / 2)};
        count(&slot->begun);
        kineto_range o = kineto_range_begin(&outer);
        count(&slot->begun);
        kineto_range r = kineto_range_begin_args(&inner, &value);
        kineto_range_end(r);
        count(&slot->ended);
        kineto_range_end(o);
        count(&slot->ended);
    }
}

/* ---- the verbs ------------------------------------------------------------------------------------- */

static double until_ms;
static struct timespec pause_between;

static void *run_thread(void *unused)
{
    (void)unused;
    while (now_ms() < until_ms) {
        pairs(64);
        if (pause_between.tv_nsec)
            nanosleep(&pause_between, NULL);
    }
    return NULL;
}

void kineto_step_mark(void) __attribute__((weak)); /* a library that cannot be asked has none */
static void *step_thread(void *unused)
{
    (void)unused;
    while (now_ms() < until_ms) {
        if (kineto_step_mark)
            kineto_step_mark();
        nanosleep(&pause_between, NULL);
    }
    return NULL;
}

static long start_threads(pthread_t *ids, long n, void *(*main)(void *), void *argument)
{
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 << 10);
    long started = 0;
    while (started < n && pthread_create(&ids[started], &small, main, argument) == 0)
        started++;
    pthread_attr_destroy(&small);
    return started;
}

static void join_all(const pthread_t *ids, long n)
{
    for (long i = 0; i < n; i++)
        pthread_join(ids[i], NULL);
}

static pthread_t *ids_new(long n)
{
    pthread_t *ids = calloc((size_t)n + 1, sizeof *ids);
    if (!ids)
        die("no memory");
    return ids;
}

static void run(long threads, double ms)
{
    pthread_t *ids = ids_new(threads);
    until_ms = now_ms() + ms;
    join_all(ids, start_threads(ids, threads, run_thread, NULL));
    free(ids);
}

static void soak(long threads, double ms)
{
    pthread_t *ids = ids_new(threads + 1);
    until_ms = now_ms() + ms;
    long started = start_threads(ids, threads, run_thread, NULL);
    started += start_threads(ids + started, 1, step_thread, NULL);
    join_all(ids, started);
    free(ids);
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static void *waiting_thread(void *unused)
{
    (void)unused;
    pairs(3);
    pthread_mutex_lock(&gate); /* all others are there, too */
    pthread_mutex_unlock(&gate);
    pairs(2);
    return NULL;
}

static void many_threads(long n)
{
    pthread_t *ids = ids_new(n);
    pthread_mutex_lock(&gate);
    long started = start_threads(ids, n, waiting_thread, NULL);
    pthread_mutex_unlock(&gate);
    join_all(ids, started);
    printf("threads %ld\n", started);
    free(ids);
}

static void on_alarm(int number)
{
    int saved = errno;
    (void)number;
    if (handler_slot) { /* not inside of slot_take */
        count(&handler_slot->begun);
        kineto_instant_mark(&moment, NULL);
        count(&handler_slot->ended);
    }
    errno = saved;
}

static void interrupted(double ms)
{
    struct sigaction action = {.sa_handler = on_alarm}; /* no SA_RESTART */
    struct itimerval every = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    int broken = 0;
    handler_slot = slot_take();
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
    for (until_ms = now_ms() + ms; now_ms() < until_ms;) {
        struct timespec pause = {0, 2000000};
        pairs(50);
        broken += nanosleep(&pause, NULL) != 0;
    }
    setitimer(ITIMER_REAL, &never, NULL);
    printf("interrupted %d\n", broken);
}

static void *cancelled_thread(void *unused)
{
    (void)unused;
    slot = slot_take();
    for (;;) {
        struct timespec pause = {0, 100000};
        count(&slot->begun);
        kineto_range o = kineto_range_begin(&outer);
        count(&slot->begun);
        kineto_range i = kineto_range_begin(&outer);
        nanosleep(&pause, NULL); /* cancelled here, or there */
        kineto_range_end(i);
        count(&slot->ended);
        pthread_testcancel();
        kineto_range_end(o);
        count(&slot->ended);
    }
    return NULL;
}

static void cancelled(long n)
{
    pthread_t *ids = ids_new(n);
    for (long done = 0; done < n;) {
        long some = start_threads(ids, n - done < 64 ? n - done : 64, cancelled_thread, NULL);
        struct timespec pause = {0, 1000000};
        nanosleep(&pause, NULL);
        for (long i = 0; i < some; i++)
            pthread_cancel(ids[i]);
        join_all(ids, some);
        done += some;
        if (!some)
            die("no thread");
    }
    free(ids);
}

static void fork_storm(long n)
{
    long running = 0;
    for (long i = 0; i < n; i++) {
        if (running == 16 && wait(NULL) > 0)
            running--;
        pid_t pid = fork();
        if (pid == 0) {
            forked();
            pairs(5);
            if (i % 4 == 0 && fork() == 0) {
                forked();
                pairs(5);
                _exit(0);
            }
            while (wait(NULL) > 0)
                ;
            _exit(0);
        }
        running += pid > 0;
        pairs(1);
    }
    while (wait(NULL) > 0)
        ;
}

static void no_files(double ms)
{
    struct rlimit limit;
    int fd, first = -1, last = -1;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_cur < 256 ? limit.rlim_cur : 256;
    setrlimit(RLIMIT_NOFILE, &limit);
    while ((fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0) {
        first = first < 0 ? fd : first;
        last = fd;
    }
    double end = now_ms() + ms;
    while (now_ms() < end)
        run(8, 5);
    for (fd = first; fd >= 0 && fd <= last; fd++)
        close(fd);
}

static void open_counts(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof *counts) != 0)
        die(path);
    counts = mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (counts == MAP_FAILED)
        die(path);
    close(fd);
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    open_counts(argv[1]);
    const char *verb = argv[2];
    long n = strtol(argv[3], NULL, 10);
    if (argc > 5)
        pause_between.tv_nsec = strtol(argv[5], NULL, 10) * 1000;
    if (strcmp(verb, "run") == 0 && argc > 4)
        run(n, (double)strtol(argv[4], NULL, 10));
    else if (strcmp(verb, "soak") == 0 && argc > 5)
        soak(n, (double)strtol(argv[4], NULL, 10));
    else if (strcmp(verb, "threads") == 0)
        many_threads(n);
    else if (strcmp(verb, "eintr") == 0)
        interrupted((double)n);
    else if (strcmp(verb, "cancel") == 0)
        cancelled(n);
    else if (strcmp(verb, "forks") == 0)
        fork_storm(n);
    else if (strcmp(verb, "nofiles") == 0)
        no_files((double)n);
    else
        return 2;
    __atomic_store_n(&counts->done, 1, __ATOMIC_RELEASE);
    return 7;
}

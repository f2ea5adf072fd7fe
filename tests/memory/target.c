/* Programs that allocate in known ways: target MODE. What they print must not depend on who
 * watches. */
#include "marker.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void must(int condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "target: %s\n", what);
    exit(99);
}

static void mark(void)
{
    char *block = malloc(MARKER);
    must(block != NULL, "no memory for a marker");
    *(volatile char *)block = 1;
    free(block);
}

static uint64_t random_of(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return *state >> 33;
}

/* ---- every event of every thread ------------------------------------------------------------------ */

enum { THREADS = 4, STEPS = 3000, SLOTS = 16 };

typedef struct worker {
    pthread_t thread;
    long tid;
    size_t count;
    struct {
        uint64_t address;
        int64_t bytes;
    } log[2 * STEPS + 2 * SLOTS];
} worker;
static worker workers[THREADS];

static void note(worker *w, void *block, int sign)
{
    must(block != NULL, "no memory");
    w->log[w->count].address = (uint64_t)(uintptr_t)block;
    w->log[w->count++].bytes = sign * (int64_t)malloc_usable_size(block);
}

static void *take_some(uint64_t *seed)
{
    void *block = NULL;
    size_t bytes = random_of(seed) % 3000;
    switch (random_of(seed) % 7) {
    case 0:
        return calloc(bytes + 1, 3);
    case 1:
        must(posix_memalign(&block, 256, bytes) == 0, "posix_memalign");
        return block;
    case 2:
        return aligned_alloc(64, (bytes + 63) / 64 * 64);
    case 3:
        return memalign(128, bytes);
    case 4:
        return realloc(NULL, bytes + 1);
    case 5:
        return valloc(bytes);
    default:
        return malloc(bytes);
    }
}

static void *log_threads(void *argument)
{
    worker *w = argument;
    void *slots[SLOTS] = {NULL};
    uint64_t seed = (uint64_t)(w - workers) + 1;
    w->tid = syscall(SYS_gettid);
    for (int i = 0; i < STEPS; i++) {
        void **slot = &slots[random_of(&seed) % SLOTS];
        if (*slot && random_of(&seed) % 3 == 0) {
            note(w, *slot, -1);
            size_t bytes = random_of(&seed) % 9000 + 1;
            *slot = i % 2 ? realloc(*slot, bytes) : reallocarray(*slot, bytes, 2);
            note(w, *slot, 1);
        } else if (*slot) {
            note(w, *slot, -1);
            free(*slot);
            *slot = NULL;
        } else {
            *slot = take_some(&seed);
            note(w, *slot, 1);
        }
    }
    for (int i = 0; i < SLOTS; i++) {
        if (slots[i])
            note(w, slots[i], -1);
        free(slots[i]);
    }
    return NULL;
}

static void run_workers(void *(*work)(void *))
{
    for (int i = 0; i < THREADS; i++)
        must(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0, "pthread_create");
    for (int i = 0; i < THREADS; i++)
        must(pthread_join(workers[i].thread, NULL) == 0, "pthread_join");
}

static int mode_log(void)
{
    run_workers(log_threads);
    for (int i = 0; i < THREADS; i++)
        for (size_t n = 0; n < workers[i].count; n++)
            printf("%ld %llu %lld\n", workers[i].tid, (unsigned long long)workers[i].log[n].address,
                   (long long)workers[i].log[n].bytes);
    return 0;
}

/* ---- totals and peak ------------------------------------------------------------------------------ */

static pthread_barrier_t meeting;

static void *hold(void *argument)
{
    enum { COUNT = 500 };
    static void *all[THREADS][COUNT];
    void **blocks = all[(worker *)argument - workers];
    for (int i = 0; i < COUNT; i++)
        blocks[i] = malloc(100 + (size_t)i * 7);
    pthread_barrier_wait(&meeting); /* all are held */
    pthread_barrier_wait(&meeting); /* the main thread has made the peak */
    for (int i = 0; i < COUNT; i++)
        free(blocks[i]);
    return NULL;
}

static int mode_peak(void)
{
    pthread_barrier_init(&meeting, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++)
        must(pthread_create(&workers[i].thread, NULL, hold, &workers[i]) == 0, "pthread_create");
    pthread_barrier_wait(&meeting);
    mark();
    pthread_barrier_wait(&meeting);
    for (int i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    mark();
    return 0;
}

/* ---- a truth to estimate --------------------------------------------------------------------------- */

static const size_t estimate_sizes[] = {24, 200, 1000, 5000, 40000, 300000};
enum { ESTIMATE_SIZES = 6, ESTIMATE_BYTES = 12 << 20 };

static void *allocate_known(void *argument)
{
    int keep = *(int *)argument;
    for (int s = 0; s < ESTIMATE_SIZES; s++) {
        for (size_t done = 0; done < ESTIMATE_BYTES; done += estimate_sizes[s]) {
            void *block = malloc(estimate_sizes[s]);
            *(volatile char *)block = 1;
            if (!keep)
                free(block);
        }
    }
    return NULL;
}

/* Prints how many blocks of which usable size. */
static int mode_estimate(void)
{
    pthread_t threads[THREADS];
    int keep = 0;
    for (int i = 0; i < THREADS; i++)
        must(pthread_create(&threads[i], NULL, allocate_known, &keep) == 0, "pthread_create");
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int s = 0; s < ESTIMATE_SIZES; s++) {
        void *block = malloc(estimate_sizes[s]);
        size_t count = (ESTIMATE_BYTES + estimate_sizes[s] - 1) / estimate_sizes[s] * THREADS;
        printf("%zu %zu\n", malloc_usable_size(block), count);
        free(block);
    }
    return 0;
}

/* ---- threads that end ------------------------------------------------------------------------------ */

static pthread_key_t first_key, second_key;

static void release_late(void *value)
{
    static __thread int rounds;
    free(value);
    if (++rounds < 3) /* a destructor that needs another round */
        pthread_setspecific(second_key, malloc(333));
}

static void *end_with_memory(void *argument)
{
    pthread_setspecific(first_key, malloc(1000));
    pthread_setspecific(second_key, malloc(2000));
    free(strerror(100000 + (int)(intptr_t)argument) ? malloc(10) : NULL); /* libc frees its text */
    return malloc(50);                                                    /* for who joins */
}

static int mode_exits(void)
{
    must(pthread_key_create(&first_key, free) == 0, "first key");
    must(pthread_key_create(&second_key, release_late) == 0, "second key");
    for (intptr_t i = 0; i < 400; i++) {
        pthread_t thread;
        void *result;
        must(pthread_create(&thread, NULL, end_with_memory, (void *)i) == 0, "pthread_create");
        pthread_join(thread, &result);
        free(result);
    }
    mark();
    return 0;
}

/* ---- forks of a program with threads ------------------------------------------------------------- */

static volatile int stop_churning;

static void *churn(void *argument)
{
    uint64_t seed = (uint64_t)(uintptr_t)argument;
    while (!stop_churning) {
        void *block = malloc(random_of(&seed) % 5000);
        *(volatile char *)block = 1;
        free(block);
        if (seed >> 33 & 1)
            usleep(100);
    }
    return NULL;
}

static void child_of_fork(int number)
{
    void *blocks[100];
    for (int i = 0; i < 100; i++)
        blocks[i] = malloc(1000 + (size_t)number);
    for (int i = 0; i < 100; i++)
        free(blocks[i]);
    exit(number);
}

static int mode_fork(void)
{
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        must(pthread_create(&threads[i], NULL, churn, &workers[i]) == 0, "pthread_create");
    for (int number = 1; number <= 20; number++) {
        int status = 0;
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0)
            child_of_fork(number);
        must(waitpid(pid, &status, 0) == pid, "waitpid");
        printf("child %d: %d\n", number, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    }
    stop_churning = 1;
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    return 0;
}

/* ---- more blocks than can be followed ------------------------------------------------------------ */

static int mode_many(void)
{
    enum { COUNT = 10000 };
    static void *blocks[COUNT];
    for (int i = 0; i < COUNT; i++)
        blocks[i] = malloc(50);
    for (int i = 0; i < COUNT; i++)
        free(blocks[i]);
    return 0;
}

/* ---- corners: what is printed is compared with a plain run ---------------------------------------- */

static void *from_constructor;
__attribute__((constructor)) static void allocate_first(void) { from_constructor = calloc(3, 7); }

static volatile sig_atomic_t handled;
static void on_signal(int number)
{
    (void)number;
    char *block = malloc(4321);
    block = realloc(block, 8765);
    free(block);
    handled++;
}

static int is_zero(const char *block, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (block[i])
            return 0;
    return 1;
}

static void corner_failures(void)
{
    void *block = NULL;
    volatile size_t huge = SIZE_MAX / 2, half = SIZE_MAX / 2 + 1;
    errno = 0;
    printf("huge %d", malloc(huge) == NULL);
    printf(" %d\n", errno);
    errno = 0;
    printf("calloc overflow %d", calloc(half, 2) == NULL);
    printf(" %d\n", errno);
    errno = 0;
    printf("reallocarray overflow %d", reallocarray(NULL, half, 2) == NULL);
    printf(" %d\n", errno);
    errno = 77;
    printf("memalign %d", posix_memalign(&block, 3, 10));
    printf(" %d\n", errno);
    errno = 0;
    block = malloc(100);
    memset(block, 5, 100);
    printf("realloc fails %d", realloc(block, huge) == NULL);
    printf(" %d and keeps %d\n", errno, ((char *)block)[99]);
    free(block);
    errno = 55;
    block = malloc(2000000);
    free(block);
    free(NULL);
    printf("errno %d\n", errno);
}

static void corner_reallocs(void)
{
    char *block = realloc(NULL, 10);
    memcpy(block, "012345678", 10);
    for (size_t bytes = 20; bytes < 3000000; bytes *= 3)
        block = realloc(block, bytes);
    for (size_t bytes = 3000000; bytes > 10; bytes /= 2)
        block = realloc(block, bytes);
    printf("moved and shrunk: %s\n", block);
    block = realloc(block, 0);
    printf("realloc to nothing: %d\n", block == NULL);
    free(block);
    block = reallocarray(NULL, 10, 10);
    printf("usable %d\n", malloc_usable_size(block) >= 100 && malloc_usable_size(NULL) == 0);
    free(block);
}

static void corner_alignments(void)
{
    void *block = NULL;
    for (size_t align = sizeof(void *); align <= 1 << 16; align *= 2) {
        must(posix_memalign(&block, align, align + 3) == 0, "posix_memalign");
        printf("%d", (uintptr_t)block % align == 0);
        free(block);
        block = memalign(align, 5);
        printf("%d", (uintptr_t)block % align == 0);
        free(block);
        block = aligned_alloc(align, align);
        printf("%d ", (uintptr_t)block % align == 0);
        block = realloc(block, 3 * align);
        free(block);
    }
    block = valloc(10);
    printf("%d", (uintptr_t)block % 4096 == 0);
    free(block);
    block = pvalloc(10);
    printf("%d\n", (uintptr_t)block % 4096 == 0 && malloc_usable_size(block) >= 4096);
    free(block);
}

static int mode_corners(void)
{
    printf("constructor %d\n", is_zero(from_constructor, 21));
    from_constructor = realloc(from_constructor, 100);
    printf("realloc of it %d\n", is_zero(from_constructor, 21));
    free(from_constructor);
    corner_failures();
    corner_reallocs();
    corner_alignments();
    signal(SIGUSR1, on_signal);
    for (int i = 0; i < 100; i++)
        raise(SIGUSR1);
    printf("handled %d\n", (int)handled);
    char *copy = strdup("a copy by libc");
    printf("%s\n", copy);
    free(copy);
    return 7;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(void);
    } modes[] = {{"log", mode_log},     {"peak", mode_peak}, {"estimate", mode_estimate},
                 {"exits", mode_exits}, {"fork", mode_fork}, {"corners", mode_corners},
                 {"many", mode_many}};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (argc > 1 && strcmp(argv[1], modes[i].name) == 0)
            return modes[i].run();
    return 98;
}

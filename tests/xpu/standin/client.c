/* Programs that use the fake SYCL: client WAY [N]. Each prints one line. */
#include "standin.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void launch(long n)
{
    for (long i = 0; i < n; i++)
        xs_launch(0, (uint32_t)(i % 2) + 1, (uint32_t)i);
}

static void way_add(long n)
{
    xs_copy(0, 4096);
    launch(n);
    xs_fill(0, 1024, 7);
    xs_wait();
}

static void way_all(long n)
{
    for (long i = 0; i < n; i++) {
        xs_copy(1, 100000);
        xs_copy_to_gpu(0, 1, 5000);
        xs_launch(1, 3, 1);
        xs_fill(0, 64, 0);
        xs_allreduce(8192);
        xs_wait();
    }
}

static void *run_thread(void *n)
{
    launch((long)(intptr_t)n);
    return NULL;
}

static void way_threads(long n)
{
    pthread_t threads[8];
    for (int i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, run_thread, (void *)(intptr_t)n);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    xs_wait();
}

static void way_fork(long n)
{
    way_add(n);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    waitpid(child, NULL, 0);
    way_add(n);
}

/* What fills a buffer is in the trace. */
static void way_kill(long n)
{
    for (long i = 0; i < n; i++)
        xs_launch(0, 1, 0);
    xs_wait();
    usleep(300000);
    fflush(stdout);
    raise(9);
}

/* PyTorch's profiler comes in the middle of the program. */
static void way_kineto(long n)
{
    void *library = dlopen("libkineto_standin.so", RTLD_NOW | RTLD_LOCAL);
    void *start = library ? dlsym(library, "xk_start") : NULL, *stop = library ? dlsym(library, "xk_stop") : NULL;
    int (*begin)(void);
    unsigned (*end)(void);
    memcpy(&begin, &start, sizeof begin);
    memcpy(&end, &stop, sizeof end);
    way_add(n);
    if (!library || begin() != 0)
        exit(3);
    way_add(n);
    if (end() != (unsigned)n)
        exit(4);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(long);
    } ways[] = {{"add", way_add},   {"all", way_all},   {"threads", way_threads},
                {"fork", way_fork}, {"kill", way_kill}, {"kineto", way_kineto}};
    long n = argc > 2 ? strtol(argv[2], NULL, 10) : 3;
    for (size_t i = 0; argc > 1 && i < sizeof ways / sizeof ways[0]; i++)
        if (strcmp(ways[i].name, argv[1]) == 0) {
            ways[i].run(n);
            printf("%s %ld done\n", argv[1], n);
            return 0;
        }
    return 2;
}

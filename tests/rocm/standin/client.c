/* Programs that use the fake HIP: client WAY [N]. Each prints one line. */
#include "hip.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void launch(long n)
{
    int device;
    for (long i = 0; i < n; i++) {
        hipGetDevice(&device);
        hipLaunchKernel((int)(i % 3) + 1, 8, 128, (uintptr_t)(i % 2));
    }
}

static void way_add(long n)
{
    hipMemcpyAsync(2, 4096);
    launch(n);
    hipMemcpyAsync(3, 4096);
    hipDeviceSynchronize();
}

/* Work is in flight when the program ends. */
static void way_flight(long n) { launch(n); }

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
    hipDeviceSynchronize();
}

static void way_graph(long n)
{
    for (long i = 0; i < n; i++)
        hipGraphLaunch(17, 3);
    hipDeviceSynchronize();
}

static void way_all(long n)
{
    void *memory[4];
    for (long i = 0; i < n; i++) {
        hipSetDevice((int)(i % 2));
        for (int k = 0; k < 4; k++)
            hipMalloc(&memory[k], 1024);
        hipMemcpyAsync(4, 100000);
        launch(1);
        ncclAllReduce();
        hipGraphLaunch(5, 2);
        for (int k = 0; k < 4; k++)
            hipFree(memory[k]);
    }
    hipDeviceSynchronize();
}

static void way_roctx(long n)
{
    for (long i = 0; i < n; i++) {
        hipGetDevice(&(int){0});
        roctxRangePushA("outer");
        roctxRangePushA("inner");
        launch(1);
        roctxRangePop();
        roctxMarkA("mark");
        uint64_t id = roctxRangeStartA("process");
        roctxRangePop();
        roctxRangeStop(id);
    }
    hipDeviceSynchronize();
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

static void way_kill(long n)
{
    launch(n);
    usleep(1200000);
    fflush(stdout);
    raise(9);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(long);
    } ways[] = {{"add", way_add},     {"flight", way_flight}, {"threads", way_threads},
                {"graph", way_graph}, {"all", way_all},       {"roctx", way_roctx},
                {"fork", way_fork},   {"kill", way_kill}};
    long n = argc > 2 ? strtol(argv[2], NULL, 10) : 3;
    for (size_t i = 0; argc > 1 && i < sizeof ways / sizeof ways[0]; i++)
        if (strcmp(ways[i].name, argv[1]) == 0) {
            ways[i].run(n);
            printf("%s %ld done\n", argv[1], n);
            return 0;
        }
    return 2;
}

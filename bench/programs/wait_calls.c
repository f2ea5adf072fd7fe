/* wait_calls lock|read CALLS [THREADS]: prints the nanoseconds of CPU time of a pthread_mutex_lock
 * and its unlock that nothing contends, or of a read of one byte of /dev/zero. Each thread has a
 * mutex and a descriptor of its own. In programs with one thread libc may use shortcuts. */
#include "../bench.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#define MAX_THREADS 8

static long calls;
static int reads;

static void *run_calls(void *out)
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    char byte = 0;
    int fd = open("/dev/zero", O_RDONLY);
    double begin = bench_thread_ns();
    for (long i = 0; i < calls && reads; i++)
        byte = (char)read(fd, &byte, 1);
    for (long i = 0; i < calls && !reads; i++) {
        (void)pthread_mutex_lock(&mutex);
        (void)pthread_mutex_unlock(&mutex);
    }
    *(double *)out = (bench_thread_ns() - begin) / (double)calls;
    (void)close(fd);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[MAX_THREADS];
    double ns[MAX_THREADS] = {0}, sum = 0;
    reads = argc > 1 && strcmp(argv[1], "read") == 0;
    calls = argc > 2 ? atol(argv[2]) : 0;
    int count = argc > 3 ? atoi(argv[3]) : 1, started = 0;
    if (calls < 1 || count < 1 || count > MAX_THREADS)
        return 2;
    if (count == 1)
        (void)run_calls(&ns[0]);
    for (; count > 1 && started < count; started++)
        if (pthread_create(&threads[started], NULL, run_calls, &ns[started]) != 0)
            return 1;
    for (int i = 0; i < started; i++)
        (void)pthread_join(threads[i], NULL);
    for (int i = 0; i < count; i++)
        sum += ns[i];
    printf("%.3f\n", sum / count);
    return 0;
}

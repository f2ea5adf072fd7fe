/* Profiles several threads: child threads join the profiler that the main thread has enabled. */
#include <ckineto/profiler.h>

#include <pthread.h>
#include <stdio.h>

#define THREADS 3

/* An operator with its number as the input. */
static void run_step(int n)
{
    KINETO_FUNCTION("example::step", kineto_input_int(n));
    volatile double sum = 0;
    for (int i = 1; i <= 10000; i++)
        sum += 1.0 / i;
}

/* A thread joins only if a profiler is enabled, and leaves before it ends. */
static void *run_child(void *number)
{
    kineto_error err;
    bool joined = false;
    if (kineto_profiler_is_enabled_in_main_thread()) {
        joined = kineto_profiler_enable_in_child_thread(&err) == KINETO_OK;
        if (!joined)
            fprintf(stderr, "multithread: %s\n", err.message);
    }
    for (int i = 0; i < 2; i++)
        run_step(*(int *)number);
    if (joined)
        kineto_profiler_disable_in_child_thread(NULL);
    return NULL;
}

int main(int argc, char **argv)
{
    kineto_error err;
    kineto_profiler_config config;
    kineto_profiler_result *result = NULL;
    pthread_t threads[THREADS];
    int numbers[THREADS], started = 0;
    kineto_profiler_config_init(&config, KINETO_STATE_KINETO);
    if (kineto_profiler_enable(&config, KINETO_ACTIVITY_SET(CPU), 0, &err))
        goto failed;
    run_step(0);
    for (; started < THREADS; started++) {
        numbers[started] = started + 1;
        if (pthread_create(&threads[started], NULL, run_child, &numbers[started]))
            break;
    }
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    if (kineto_profiler_disable(&result, &err) ||
        kineto_profiler_result_save(result, argc > 1 ? argv[1] : "trace.json", &err))
        goto failed;
    printf("%llu steps on %d threads\n", (unsigned long long)kineto_profiler_result_event_count(result),
           started + 1);
    kineto_profiler_result_release(result);
    return 0;
failed:
    fprintf(stderr, "multithread: %s\n", err.message);
    kineto_profiler_result_release(result);
    return 1;
}

/* Profiles a part of a program with kineto_profiler and saves the result as a trace that viewers
 * open. */
#include <ckineto/profiler.h>

#include <stdio.h>

/* An operator: KINETO_FUNCTION records it with its input until the end of the function. */
static double run_multiply(int n)
{
    KINETO_FUNCTION("example::multiply", kineto_input_int(n));
    double sum = 0;
    for (int i = 1; i <= n * 1000; i++)
        sum += 1.0 / i;
    return sum;
}

int main(int argc, char **argv)
{
    kineto_error err;
    kineto_profiler_config config;
    kineto_profiler_result *result = NULL;
    kineto_profiler_config_init(&config, KINETO_STATE_KINETO);
    if (kineto_profiler_enable(&config, KINETO_ACTIVITY_SET(CPU), 0, &err))
        goto failed;
    double sum = 0;
    for (int n = 1; n <= 3; n++)
        sum += run_multiply(n);
    if (kineto_profiler_disable(&result, &err) ||
        kineto_profiler_result_save(result, argc > 1 ? argv[1] : "trace.json", &err))
        goto failed;
    printf("%llu events, the sum is %.6f\n", (unsigned long long)kineto_profiler_result_event_count(result),
           sum);
    kineto_profiler_result_release(result);
    return 0;
failed:
    fprintf(stderr, "basic: %s\n", err.message);
    kineto_profiler_result_release(result);
    return 1;
}

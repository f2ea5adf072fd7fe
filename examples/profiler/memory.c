/* Profiles memory: an allocator reports each allocation and release, and the profiler attributes
 * them to operators. */
#include <ckineto/profiler.h>

#include <stdio.h>
#include <stdlib.h>

static uint64_t in_use;

/* Reports a change as an allocator does: positive bytes for an allocation, negative for a
 * release. */
static void report_block(const void *block, int64_t bytes)
{
    in_use += (uint64_t)bytes;
    kineto_memory_event event = {.size = sizeof event,
                                 .address = (uint64_t)(uintptr_t)block,
                                 .bytes = bytes,
                                 .total_allocated_bytes = in_use,
                                 .device_type = KINETO_DEVICE_CPU,
                                 .device_index = -1};
    kineto_memory_report(&event);
}

/* An operator that allocates and releases a block. */
static void run_work(size_t bytes)
{
    KINETO_FUNCTION("example::work", kineto_input_int((int64_t)bytes));
    char *block = malloc(bytes);
    if (!block)
        return;
    report_block(block, (int64_t)bytes);
    block[0] = 1;
    report_block(block, -(int64_t)bytes);
    free(block);
}

int main(int argc, char **argv)
{
    kineto_error err;
    kineto_profiler_config config;
    kineto_profiler_result *result = NULL;
    kineto_profiler_config_init(&config, KINETO_STATE_KINETO);
    config.profile_memory = true;
    if (kineto_profiler_enable(&config, KINETO_ACTIVITY_SET(CPU), 0, &err))
        goto failed;
    for (size_t kib = 1; kib <= 4; kib *= 2)
        run_work(kib << 10);
    if (kineto_profiler_disable(&result, &err) ||
        kineto_profiler_result_save(result, argc > 1 ? argv[1] : "trace.json", &err))
        goto failed;
    for (uint64_t i = 0; i < kineto_profiler_result_event_count(result); i++) {
        kineto_event e;
        kineto_profiler_result_event(result, i, &e);
        if (kineto_event_nbytes(&e))
            printf("%+lld bytes\n", (long long)kineto_event_nbytes(&e));
    }
    kineto_profiler_result_release(result);
    return 0;
failed:
    fprintf(stderr, "memory: %s\n", err.message);
    kineto_profiler_result_release(result);
    return 1;
}

/* What records of each kind become. */
#include "begun.h"

#include <pthread.h>
#include <sys/syscall.h>

/* ---- kernels ---------------------------------------------------------------------------------------- */

static void a_kernel_has_the_args_of_kineto(void **state)
{
    (void)state;
    begin(CUDA_12_4);
    uint8_t *r = write_kernel(w, "ampere_sgemm_128x64_nn", 27, 20);
    put_kernel_channel(r, 8);
    put_kernel_channel_type(r, 1);
    written_read(w, &d);
    const kept *k = host_find("ampere_sgemm_128x64_nn", 0);
    assert_non_null(k);
    assert_int_equal(k->a.event.eventType, KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL);
    assert_int_equal(k->a.event.startTimeUtcNs, 1270);
    assert_int_equal(k->a.event.endTimeUtcNs, 1275);
    assert_int_equal(k->a.event.deviceId, 0);
    assert_int_equal(k->a.event.resourceId, 20);
    assert_int_equal(k->a.event.eventId, 27);
    assert_int_equal(k->a.flowId, 27);
    assert_string_equal(
        k->args,
        " |queued=0 |device=0 |context=1 |stream=20 |registers per thread=122 |shared memory=12544"
        " |blocks per SM=5.92593 |warps per SM=23.7037 |grid=[8,16,5] |block=[128,1,1]"
        " |est. achieved occupancy %=25 |occupancy={\"activeBlocksPerMultiprocessor\": 4, "
        "\"limitingFactors\": \"REGS\", \"blockLimitRegs\": 4, \"blockLimitSharedMem\": 12, "
        "\"blockLimitWarps\": 16, \"blockLimitBlocks\": 32, \"blockLimitBarriers\": 2147483647, "
        "\"allocatedRegistersPerBlock\": 16384, \"allocatedSharedMemPerBlock\": 13568}"
        " |graph id=0 |graph node id=0 |channel=8 |channel_type=1");
    end();
}

static void launches_of_one_configuration_share_their_values(void **state)
{
    (void)state;
    begin(CUDA_12_4);
    for (uint32_t i = 1; i <= 50; i++)
        write_kernel(w, i & 1 ? "a" : "b", i, 7);
    write_kernel(w, "a", 51, 8);
    put_kernel_grid_x(write_kernel(w, "a", 52, 8), 9);
    written_read(w, &d);
    assert_int_equal(host->count, 52);
    assert_int_equal(host->set_count, 3);
    assert_int_equal(host->list[0].a.metadataCount, 0);
    assert_arg(host_find("a", 0), "stream", "7");
    assert_arg(host_find("a", 26), "grid", "[9,16,5]");
    end();
}

static void a_host_that_keeps_no_sets_gets_the_values_each_time(void **state)
{
    (void)state;
    for (int older = 0; older < 2; older++) {
        begin(CUDA_12_4);
        if (older) /* than sets */
            host->builder.unpaddedStructSize =
                KINETO_PLUGIN_SIZE(KinetoPlugin_TraceBuilder, addCounterSamples);
        else
            host->has_no_sets = true;
        for (uint32_t i = 1; i <= 3; i++)
            write_kernel(w, "a", i, 7);
        written_read(w, &d);
        assert_int_equal(host->count, 3);
        for (uint32_t i = 0; i < 3; i++)
            assert_arg(host_find("a", i), "est. achieved occupancy %", "25");
        assert_int_equal(host->sets_asked, older ? 0 : 1);
        end();
    }
}

static void a_kernel_of_a_graph_names_graph_and_node(void **state)
{
    (void)state;
    begin(CUDA_12_4);
    for (uint32_t i = 1; i <= 2; i++) {
        uint8_t *r = write_kernel(w, "a", i, 7);
        put_kernel_graph(r, 3);
        put_kernel_graph_node(r, UINT64_C(12884901888) + i);
    }
    written_read(w, &d);
    assert_arg(host_find("a", 0), "graph id", "3");
    assert_arg(host_find("a", 0), "graph node id", "12884901889");
    assert_arg(host_find("a", 1), "graph node id", "12884901890");
    assert_int_equal(host->set_count, 1);
    end();
}

static void old_releases_say_less(void **state)
{
    (void)state;
    begin(13);
    write_kernel(w, "a", 1, 7);
    written_read(w, &d);
    assert_arg(host_find("a", 0), "graph id", "");
    assert_arg(host_find("a", 0), "channel", "");
    assert_arg(host_find("a", 0), "priority", "");
    assert_arg(host_find("a", 0), "stream", "7");
    end();
}

static void new_releases_say_priority_and_clusters(void **state)
{
    (void)state;
    begin(CUDA_13_1);
    uint8_t *r = write_kernel(w, "a", 1, 7);
    put_kernel_priority(r, -3);
    put_kernel_cluster_x(r, 2);
    put_kernel_cluster_y(r, 1);
    put_kernel_cluster_z(r, 1);
    write_kernel(w, "a", 2, 7);
    written_read(w, &d);
    assert_arg(host_find("a", 0), "priority", "-3");
    assert_arg(host_find("a", 0), "cluster", "[2,1,1]");
    assert_arg(host_find("a", 1), "priority", "0");
    assert_arg(host_find("a", 1), "cluster", "");
    end();
}

static void a_device_that_the_driver_does_not_know_has_no_occupancy(void **state)
{
    (void)state;
    begin(CUDA_12_4);
    put_kernel_device(write_kernel(w, "a", 1, 7), 9);
    written_read(w, &d);
    assert_arg(host_find("a", 0), "device", "9");
    assert_arg(host_find("a", 0), "occupancy", "");
    assert_arg(host_find("a", 0), "grid", "[8,16,5]");
    end();
}

static void when_a_kernel_was_queued_is_reported_where_it_is_known(void **state)
{
    (void)state;
    begin(CUDA_12_4);
    put_kernel_queued(write_kernel(w, "a", 1, 7), 5000);
    put_kernel_queued(write_kernel(w, "a", 2, 7), 7000);
    written_read(w, &d);
    assert_arg(host_find("a", 0), "queued", "5");
    assert_arg(host_find("a", 1), "queued", "7");
    assert_int_equal(host->set_count, 1);
    end();
}

static void a_kernel_without_times_is_counted(void **state)
{
    (void)state;
    begin(CUDA_12_4);
    put_kernel_start(write_kernel(w, "a", 1, 7), 0);
    put_kernel_end(write_kernel(w, "a", 2, 7), 0);
    write_kernel(w, "a", 3, 7);
    written_read(w, &d);
    assert_int_equal(host->count, 1);
    cp_decoder_finish(&d);
    assert_int_equal(host_line("activities without a time of the device"), 2);
    assert_int_equal(host->requested, 3);
    assert_int_equal(host->dropped, 2);
    end();
}

static void a_graph_as_a_whole_is_one_activity(void **state)
{
    (void)state;
    begin(CUDA_12_4);
    uint8_t *r = written_add(w, CP_KIND_GRAPH_TRACE);
    put_graph_start(r, 100);
    put_graph_end(r, 200);
    put_graph_device(r, INT32_MAX); /* it begins on the host */
    put_graph_end_device(r, 1);
    put_graph_graph(r, 42);
    put_graph_context(r, 2);
    put_graph_stream(r, 13);
    put_graph_correlation(r, 77);
    written_read(w, &d);
    const kept *k = host_find("CUDA graph 42", 0);
    assert_non_null(k);
    assert_string_equal(k->args, " |device=1 |context=2 |stream=13 |graph id=42");
    assert_int_equal(k->a.event.deviceId, 1);
    assert_int_equal(k->a.event.eventId, 77);
    end();
}

static void functions_of_the_host_are_waits_of_their_stream(void **state)
{
    (void)state;
    begin(CUDA_13_1);
    uint8_t *r = written_add(w, CP_KIND_HOST_LAUNCH);
    put_host_launch_start(r, 100);
    put_host_launch_end(r, 200);
    put_host_launch_stream(r, 13);
    put_host_launch_context(r, 2);
    put_host_launch_device(r, 1);
    put_host_launch_correlation(r, 77);
    put_host_launch_thread(r, 4711);
    r = written_add(w, CP_KIND_GRAPH_HOST_NODE);
    put_host_node_start(r, 300);
    put_host_node_end(r, 310);
    put_host_node_graph(r, 5);
    put_host_node_node(r, UINT64_C(12884901889));
    written_add(w, CP_KIND_HOST_LAUNCH); /* without times */
    written_read(w, &d);
    cp_decoder_finish(&d);
    const kept *k = host_find("Host Function Sync", 0);
    assert_non_null(k);
    assert_int_equal(k->a.event.eventType, KINETO_PLUGIN_PROFILE_EVENT_TYPE_CUDA_SYNC);
    assert_int_equal(k->a.event.deviceId, 1);
    assert_int_equal(k->a.event.resourceId, 13);
    assert_int_equal(k->a.flowId, 77);
    assert_string_equal(k->args, " |cuda_sync_kind=Host Function Sync |stream=13 |device=1 "
                                 "|context=2 |host thread=4711");
    assert_arg(host_find("Host Function Sync", 1), "graph id", "5");
    assert_arg(host_find("Host Function Sync", 1), "graph node id", "12884901889");
    assert_int_equal(host_line("activities without a time of the device"), 1);
    end();
}

static void a_green_context_has_a_part_of_the_device(void **state)
{
    (void)state;
    begin(130200);
    uint8_t *r = written_add(w, CP_KIND_GREEN_CONTEXT);
    put_green_context(r, 1);
    put_green_sm_count(r, 54);
    write_kernel(w, "a", 27, 7);
    put_kernel_context(write_kernel(w, "a", 28, 7), 2);
    written_read(w, &d);
    assert_arg(host_find("a", 0), "green context SMs", "54");
    assert_arg(host_find("a", 0), "blocks per SM", "11.8519");
    assert_arg(host_find("a", 1), "green context SMs", "");
    assert_arg(host_find("a", 1), "blocks per SM", "5.92593");
    end();
}

static void only_the_newest_green_contexts_are_kept(void **state)
{
    (void)state;
    begin(130500);
    for (uint32_t i = 1; i <= CP_MAX_GREEN + 1; i++) {
        uint8_t *r = written_add(w, CP_KIND_GREEN_CONTEXT);
        put_green_context(r, i);
        put_green_sm_count(r, (uint16_t)(i * 2));
    }
    written_read(w, &d);
    assert_int_equal(cp_green_context_sms(&d, 1), 0);
    assert_int_equal(cp_green_context_sms(&d, 2), 4);
    assert_int_equal(cp_green_context_sms(&d, CP_MAX_GREEN + 1), 2 * (CP_MAX_GREEN + 1));
    end();
}

static void kinds_of_later_releases_are_not_asked_for(void **state)
{
    (void)state;
    assert_int_equal(cp_record_bytes(CP_KIND_HOST_LAUNCH, 130000), 0);
    assert_int_equal(cp_record_bytes(CP_KIND_GRAPH_HOST_NODE, 130100), 56);
    assert_int_equal(cp_record_bytes(CP_KIND_GREEN_CONTEXT, 130100), 0);
    assert_int_equal(cp_record_bytes(CP_KIND_GREEN_CONTEXT, 130200), 168);
}

/* ---- names --------------------------------------------------------------------------------------------- */

static void names_of_kernels_are_demangled(void **state)
{
    (void)state;
    begin(CUDA_12_4);
    write_kernel(w, "_Z6vecAddPKfS0_Pfi", 1, 7);
    write_kernel(w, "kernel", 2, 7);
    write_kernel(w, "i", 3, 7); /* is a type to those who demangle everything */
    write_kernel(w, "_Znot a mangled name", 4, 7);
    write_kernel(w, NULL, 5, 7);
    write_kernel(w, "", 6, 7);
    written_read(w, &d);
    assert_string_equal(host->list[0].name, "vecAdd(float const*, float const*, float*, int)");
    assert_string_equal(host->list[1].name, "Kernel");
    assert_string_equal(host->list[2].name, "i");
    assert_string_equal(host->list[3].name, "_Znot a mangled name");
    assert_string_equal(host->list[4].name, "Kernel");
    assert_string_equal(host->list[5].name, "Kernel");
    end();
}

static void names_of_code_that_came_in_the_place_of_other_code_are_its_own(void **state)
{
    char place[32] = "_Z5firstv";
    (void)state;
    begin(CUDA_12_4);
    write_kernel(w, place, 1, 7);
    written_read(w, &d);
    strcpy(place, "_Z6secondv");
    write_kernel(w, place, 2, 7);
    written_read(w, &d);
    assert_string_equal(host->list[0].name, "first()");
    assert_string_equal(host->list[1].name, "second()");
    end();
}

static void very_long_names_stay_as_they_are(void **state)
{
    static char name[9000];
    (void)state;
    begin(CUDA_12_4);
    memset(name, 'x', sizeof name - 1);
    memcpy(name, "_Z8990", 6);
    cp_names *n = cp_names_create();
    cp_text text = cp_names_kernel(n, name);
    assert_int_equal(text.size, sizeof name - 1);
    assert_string_equal(text.data, name);
    assert_ptr_not_equal(text.data, name);
    assert_ptr_equal(cp_names_kernel(n, name).data, text.data);
    cp_names_destroy(n);
    end();
}

static void thousands_of_names_are_kept_apart(void **state)
{
    enum { NAMES = 3000 };
    static char mangled[NAMES][24];
    char shown[24];
    (void)state;
    cp_names *n = cp_names_create();
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < NAMES; i++) {
            cp_names_begin_buffer(n);
            snprintf(mangled[i], sizeof mangled[i], "_Z5k%04dv", i);
            snprintf(shown, sizeof shown, "k%04d()", i);
            assert_string_equal(cp_names_kernel(n, mangled[i]).data, shown);
        }
    cp_names_destroy(n);
}

/* ---- copies ----------------------------------------------------------------------------------------------- */

static void a_copy_has_the_args_of_kineto(void **state)
{
    (void)state;
    begin(CUDA_12_4);
    uint8_t *r = written_add(w, CP_KIND_MEMCPY);
    put_memcpy_copy_kind(r, 1);
    put_memcpy_from_kind(r, 2);
    put_memcpy_to_kind(r, 3);
    put_memcpy_bytes(r, 4096);
    put_memcpy_start(r, 1000);
    put_memcpy_end(r, 1512);
    put_memcpy_context(r, 1);
    put_memcpy_stream(r, 7);
    put_memcpy_correlation(r, 5);
    put_memcpy_channel(r, 4);
    put_memcpy_channel_type(r, 2);
    written_read(w, &d);
    const kept *k = host_find("Memcpy HtoD (Pinned -> Device)", 0);
    assert_non_null(k);
    assert_int_equal(k->a.event.eventType, KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMCPY);
    assert_string_equal(k->args, " |device=0 |context=1 |stream=7 |graph id=0 |graph node id=0"
                                 " |channel=4 |channel_type=2 |bytes=4096"
                                 " |memory bandwidth (GB/s)=8");
    end();
}

static void a_copy_that_took_no_time_has_no_bandwidth(void **state)
{
    (void)state;
    begin(13);
    uint8_t *r = written_add(w, CP_KIND_MEMCPY);
    put_memcpy_start(r, 1000);
    put_memcpy_end(r, 1000);
    put_memcpy_bytes(r, 1);
    put_memcpy_copy_kind(r, 200);
    put_memcpy_from_kind(r, 200);
    written_read(w, &d);
    const kept *k = host_find("Memcpy <unknown> (Unrecognized -> Unknown)", 0);
    assert_string_equal(k->args, " |device=0 |context=0 |stream=0 |bytes=1");
    end();
}

static void bandwidth_is_per_ns_whatever_the_clock(void **state)
{
    (void)state;
    begin(CUDA_12_4);
    cp_decoder_free(&d);
    assert_true(
        cp_decoder_init(&d, &host->builder, UINT64_MAX, CUDA_12_4, KINETO_PLUGIN_CLOCK_TICKS));
    uint8_t *r = written_add(w, CP_KIND_MEMCPY);
    put_memcpy_start(r, 3000);
    put_memcpy_end(r, 6000); /* the host's ticks are three in a ns */
    put_memcpy_bytes(r, 8000);
    written_read(w, &d);
    double bandwidth = atof(arg(&host->list[0], "memory bandwidth (GB/s)"));
    assert_true(bandwidth > 7 && bandwidth < 9);
    assert_int_equal(host->list[0].a.clock, KINETO_PLUGIN_CLOCK_TICKS);
    end();
}

static void a_copy_between_devices_names_all_three(void **state)
{
    (void)state;
    begin(CUDA_12_4);
    uint8_t *r = written_add(w, CP_KIND_MEMCPY2);
    put_memcpy2_copy_kind(r, 10);
    put_memcpy2_from_kind(r, 3);
    put_memcpy2_to_kind(r, 3);
    put_memcpy2_bytes(r, 100);
    put_memcpy2_start(r, 1000);
    put_memcpy2_end(r, 1100);
    put_memcpy2_device(r, 2);
    put_memcpy2_context(r, 12);
    put_memcpy2_stream(r, 7);
    put_memcpy2_from_device(r, 3);
    put_memcpy2_from_context(r, 13);
    put_memcpy2_to_device(r, 4);
    put_memcpy2_to_context(r, 14);
    written_read(w, &d);
    const kept *k = host_find("Memcpy PtoP (Device -> Device)", 0);
    assert_non_null(k);
    assert_int_equal(k->a.event.deviceId, 2);
    assert_string_equal(k->args, " |fromDevice=3 |inDevice=2 |toDevice=4 |fromContext=13"
                                 " |inContext=12 |toContext=14 |stream=7 |graph id=0"
                                 " |graph node id=0 |channel=0 |channel_type=0 |bytes=100"
                                 " |memory bandwidth (GB/s)=1");
    end();
}

static void a_memset_has_the_args_of_kineto(void **state)
{
    (void)state;
    begin(CUDA_12_4);
    uint8_t *r = written_add(w, CP_KIND_MEMSET);
    put_memset_memory_kind(r, 3);
    put_memset_bytes(r, 512);
    put_memset_start(r, 10);
    put_memset_end(r, 522);
    put_memset_stream(r, 20);
    put_memset_graph(r, 6);
    put_memset_graph_node(r, 9);
    written_read(w, &d);
    const kept *k = host_find("Memset (Device)", 0);
    assert_non_null(k);
    assert_int_equal(k->a.event.eventType, KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMSET);
    assert_arg(k, "bytes", "512");
    assert_arg(k, "memory bandwidth (GB/s)", "1");
    assert_arg(k, "graph id", "6");
    assert_arg(k, "graph node id", "9");
    end();
}

/* ---- calls --------------------------------------------------------------------------------------------------- */

static void a_call_is_an_activity_of_its_thread(void **state)
{
    (void)state;
    begin(CUDA_12_4);
    write_call(w, CP_KIND_RUNTIME, 211, 5);
    written_read(w, &d);
    const kept *k = host_find("cudaLaunchKernel", 0);
    assert_non_null(k);
    assert_int_equal(k->a.event.eventType, KINETO_PLUGIN_PROFILE_EVENT_TYPE_RUNTIME);
    assert_int_equal(k->a.event.processId, 4711);
    assert_int_equal(k->a.event.threadId, 4712);
    assert_int_equal(k->a.event.eventId, 5);
    assert_int_equal(k->a.flowType, 0); /* the host draws arrows where they lead somewhere */
    assert_string_equal(k->args, " |cbid=211");
    end();
}

static void calls_that_say_nothing_are_left_out(void **state)
{
    (void)state;
    begin(CUDA_12_4);
    write_call(w, CP_KIND_RUNTIME, 17, 1);
    write_call(w, CP_KIND_DRIVER, 5, 2);
    write_call(w, CP_KIND_RUNTIME, 214, 3);
    write_call(w, CP_KIND_DRIVER, 307, 4);
    write_call(w, CP_KIND_DRIVER, 277, 5);
    write_call(w, CP_KIND_DRIVER, 551, 6);
    write_call(w, CP_KIND_INTERNAL_LAUNCH_API, 0, 7);
    write_call(w, CP_KIND_RUNTIME, 505, 8);
    written_read(w, &d);
    assert_int_equal(host->count, 6);
    assert_int_equal(host_count("cudaLaunchKernel"), 1);
    assert_int_equal(host_count("cudaLaunchKernel_ptsz"), 1);
    assert_int_equal(host_count("cuLaunchKernel"), 1);
    assert_int_equal(host_count("cuMemcpyHtoDAsync_v2"), 1);
    assert_int_equal(host_count("cuMemMap"), 1);
    assert_int_equal(host_count("Internal launch"), 1);
    assert_int_equal(host_find("cuMemMap", 0)->a.event.eventType,
                     KINETO_PLUGIN_PROFILE_EVENT_TYPE_DRIVER);
    end();
}

static void a_call_that_cupti_has_no_name_for_has_its_number(void **state)
{
    (void)state;
    begin(CUDA_12_4);
    write_call(w, CP_KIND_RUNTIME, 999, 1);
    write_call(w, CP_KIND_DRIVER, 5000, 2);
    write_call(w, CP_KIND_DRIVER, UINT32_MAX, 3);
    written_read(w, &d);
    assert_int_equal(host_count("CUDA runtime call 999"), 1);
    assert_int_equal(host_count("CUDA driver call 5000"), 1);
    assert_int_equal(host_count("CUDA driver call 4294967295"), 1);
    end();
}

static void *note_thread(void *out)
{
    cp_threads_register();
    cp_threads_register();
    *(int32_t *)out = (int32_t)syscall(SYS_gettid);
    return NULL;
}

static void threads_that_cupti_calls_otherwise_get_their_system_ids(void **state)
{
    enum { COUNT = 8 };
    pthread_t threads[COUNT];
    int32_t tids[COUNT];
    (void)state;
    begin(CUDA_12_4);
    for (uint32_t i = 0; i < COUNT; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, note_thread, &tids[i]), 0);
    for (uint32_t i = 0; i < COUNT; i++) {
        put_call_thread(write_call(w, CP_KIND_RUNTIME, 211, i + 1), (uint32_t)threads[i]);
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    put_call_thread(write_call(w, CP_KIND_RUNTIME, 211, 9), 0x80001000u);
    written_read(w, &d);
    for (uint32_t i = 0; i < COUNT; i++)
        assert_int_equal(host->list[i].a.event.threadId, tids[i]);
    assert_int_equal(host->list[COUNT].a.event.threadId, 0x1000);
    end();
}

static void what_cupti_costs_has_a_row_of_its_own(void **state)
{
    static const struct {
        uint32_t kind;
        const char *name;
    } all[] = {{0, "Unknown"},
               {1, "Driver Compiler"},
               {1 << 16, "Buffer Flush"},
               {2 << 16, "Instrumentation"},
               {3 << 16, "Resource"},
               {4 << 16, "Runtime Triggered Module Loading"},
               {5 << 16, "Lazy Function Loading"},
               {6 << 16, "Command Buffer Full"},
               {7 << 16, "Activity Buffer Request"},
               {0x7fffffff, "Unknown"}};
    (void)state;
    begin(CUDA_12_4);
    for (size_t i = 0; i < CP_COUNT(all); i++) {
        uint8_t *r = written_add(w, CP_KIND_OVERHEAD);
        put_overhead_kind(r, all[i].kind);
        put_overhead_start(r, 10);
        put_overhead_end(r, 20);
    }
    written_read(w, &d);
    for (size_t i = 0; i < CP_COUNT(all); i++)
        assert_string_equal(host->list[i].name, all[i].name);
    assert_int_equal(host->list[0].a.event.deviceId, -1);
    assert_string_equal(host->list[0].args, "");
    assert_int_equal(host->row_count, 1);
    assert_true(host_has_row("-1 CUPTI Overhead"));
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kernel_has_the_args_of_kineto),
        cmocka_unit_test(launches_of_one_configuration_share_their_values),
        cmocka_unit_test(a_host_that_keeps_no_sets_gets_the_values_each_time),
        cmocka_unit_test(a_kernel_of_a_graph_names_graph_and_node),
        cmocka_unit_test(old_releases_say_less),
        cmocka_unit_test(new_releases_say_priority_and_clusters),
        cmocka_unit_test(a_device_that_the_driver_does_not_know_has_no_occupancy),
        cmocka_unit_test(when_a_kernel_was_queued_is_reported_where_it_is_known),
        cmocka_unit_test(a_kernel_without_times_is_counted),
        cmocka_unit_test(a_graph_as_a_whole_is_one_activity),
        cmocka_unit_test(functions_of_the_host_are_waits_of_their_stream),
        cmocka_unit_test(a_green_context_has_a_part_of_the_device),
        cmocka_unit_test(only_the_newest_green_contexts_are_kept),
        cmocka_unit_test(kinds_of_later_releases_are_not_asked_for),
        cmocka_unit_test(names_of_kernels_are_demangled),
        cmocka_unit_test(names_of_code_that_came_in_the_place_of_other_code_are_its_own),
        cmocka_unit_test(very_long_names_stay_as_they_are),
        cmocka_unit_test(thousands_of_names_are_kept_apart),
        cmocka_unit_test(a_copy_has_the_args_of_kineto),
        cmocka_unit_test(a_copy_that_took_no_time_has_no_bandwidth),
        cmocka_unit_test(bandwidth_is_per_ns_whatever_the_clock),
        cmocka_unit_test(a_copy_between_devices_names_all_three),
        cmocka_unit_test(a_memset_has_the_args_of_kineto),
        cmocka_unit_test(a_call_is_an_activity_of_its_thread),
        cmocka_unit_test(calls_that_say_nothing_are_left_out),
        cmocka_unit_test(a_call_that_cupti_has_no_name_for_has_its_number),
        cmocka_unit_test(threads_that_cupti_calls_otherwise_get_their_system_ids),
        cmocka_unit_test(what_cupti_costs_has_a_row_of_its_own),
    };
    return RUN_TESTS(tests);
}

/* A plug-in that is loaded: its life, and what its events become, in the trace and in the file. */
#include "mock.h"

#include <dlfcn.h>

static void *library; /* the plug-in's, for what it wrote down */

static const char *life(void)
{
    const char *(*dynamic_life)(void);
    *(void **)&dynamic_life = dlsym(library, "dynamic_life");
    return dynamic_life();
}

static int64_t start_of_plugin(void)
{
    int64_t (*dynamic_start)(void);
    *(void **)&dynamic_start = dlsym(library, "dynamic_start");
    return dynamic_start();
}

static void load(void)
{
    kineto_error err = {0};
    if (kineto_plugin_load(DYNAMIC_PLUGIN, NULL, &err))
        fail_msg("%s", err.message);
    library = dlopen(DYNAMIC_PLUGIN, RTLD_NOW | RTLD_NOLOAD);
    assert_non_null(library);
}

static void unload(void)
{
    assert_int_equal(dlclose(library), 0);
    assert_int_equal(kineto_plugin_unload(DYNAMIC_PLUGIN, NULL), KINETO_OK);
    assert_null(dlopen(DYNAMIC_PLUGIN, RTLD_NOW | RTLD_NOLOAD)); /* closed indeed */
}

static kineto_plugin_info plugin_named(const char *name)
{
    kineto_plugin_info info = {.size = sizeof info};
    for (uint32_t i = 0; i < kineto_plugin_count(); i++)
        if (kineto_plugin_info_get(i, &info) && strcmp(info.name, name) == 0)
            return info;
    fail_msg("no plug-in is named %s", name);
    return info;
}

static void plugin_profiler_lifecycle(void **state)
{
    (void)state;
    load();
    assert_string_equal(life(), "rq"); /* registered, asked; no session records */
    kineto_plugin_info info = plugin_named("dynamic");
    assert_int_equal(info.state, KINETO_PLUGIN_LOADED);
    assert_int_equal(info.type_count, 3);
    assert_int_equal(info.kinds, KINETO_KIND_BIT(KINETO_KIND_RUNTIME) |
                                     KINETO_KIND_BIT(KINETO_KIND_CONCURRENT_KERNEL) |
                                     KINETO_KIND_BIT(KINETO_KIND_GPU_MEMCPY));
    assert_non_null(strstr(info.path, "dynamic"));

    kineto_correlation_push(11); /* before a session it has no effect */
    kineto_session *s = record();
    assert_string_equal(life(), "rqcs");
    kineto_correlation_pop(); /* nor a pop whose push was not heard */
    kineto_correlation_push(11);
    kineto_user_correlation_push(22);
    kineto_user_correlation_pop();
    kineto_correlation_pop();
    assert_string_equal(life(), "rqcs([])");
    kineto_trace_release(finish(s));
    assert_string_equal(life(), "rqcs([])tpd");

    kineto_trace_release(finish(record())); /* once more, from create on */
    assert_string_equal(life(), "rqcs([])tpdcstpd");
    kineto_session *other = session_of(KINETO_KIND_BIT(KINETO_KIND_CPU_OP), 1 << 20, 0);
    kineto_trace_release(finish(other)); /* none of its kinds: not its session */
    assert_string_equal(life(), "rqcs([])tpdcstpd");
    unload();
    kineto_trace_release(finish(record())); /* no function is called any more */
}

/* The same whether the trace comes from the recording or out of a file. */
static void expect_events(const kineto_trace *t, int64_t start)
{
    kineto_activity launch = find_only(t, "dynLaunch"), kernel = find_only(t, "matmul<float>"),
                    copy = find_only(t, "copy");
    assert_int_equal(launch.kind, KINETO_KIND_RUNTIME);
    /* It names no vendor: as the proposal's time knew it. */
    assert_text(kineto_trace_string(t, launch.category), "cuda_runtime");
    assert_int_equal(kernel.kind, KINETO_KIND_CONCURRENT_KERNEL);
    assert_int_equal(copy.kind, KINETO_KIND_GPU_MEMCPY);
    assert_int_equal(kernel.start_ns, start + 200);
    assert_int_equal(kernel.end_ns, start + 900);
    assert_int_equal(copy.start_ns, copy.end_ns);
    assert_int_equal(kernel.correlation_id, launch.correlation_id);

    assert_text(arg_of(t, kernel.row, "grid").text, "[64,1,1]");
    assert_int_equal(arg_of(t, kernel.row, "registers per thread").i, 32);
    assert_true(arg_of(t, kernel.row, "occupancy").type == KINETO_ARG_JSON ||
                arg_of(t, kernel.row, "occupancy").d == 0.5);
    assert_int_equal(arg_of(t, kernel.row, "unquoted").type, KINETO_ARG_STRING);
    assert_text(arg_of(t, kernel.row, "unquoted").text, "as it comes");

    assert_int_equal(kineto_trace_flow_count(t), 1);
    kineto_flow f;
    kineto_trace_flow(t, 0, &f);
    assert_int_equal(f.from, launch.row);
    assert_int_equal(f.to, kernel.row);
    assert_int_equal(f.type, KINETO_FLOW_ASYNC_CPU_GPU);

    kineto_process p = process_of(t, kernel.row);
    assert_text(p.name, "Dynamic accelerator");
    assert_text(p.label, "DYN 5");
    assert_int_equal(p.sort_index, 105);
    kineto_track track = track_of(t, kernel.row);
    assert_text(track.name, "queue 3");
    assert_int_equal(track.sort_index, 33);
}

static void event_builder_processing(void **state)
{
    (void)state;
    load();
    kineto_session *s = record();
    usleep(2000);
    kineto_trace *t = finish(s);
    int64_t start = start_of_plugin();
    verify(t);
    assert_nothing_lost(t);
    assert_int_equal(ledger(t, "dynamic", "delivered"), 3);
    assert_int_equal(ledger(t, "dynamic", "plug-in call failed"), 0);
    expect_events(t, start);
    char path[] = "/tmp/ckineto-dynamic-XXXXXX.json";
    int fd = mkstemps(path, 5);
    assert_true(fd >= 0);
    (void)close(fd);
    kineto_error err = {0};
    if (kineto_trace_save(t, path, &err))
        fail_msg("%s", err.message);
    kineto_trace_release(t);
    if (kineto_trace_open(path, &t, &err))
        fail_msg("%s", err.message);
    (void)unlink(path);
    expect_events(t, start);
    kineto_trace_release(t);
    unload();
}

static const struct CMUnitTest tests[] = {
    {"DynamicPlugin.PluginProfilerLifecycle", plugin_profiler_lifecycle, NULL, NULL, NULL},
    {"DynamicPlugin.EventBuilderProcessing", event_builder_processing, NULL, NULL, NULL},
};

int main(int argc, char **argv) { return run_named(tests, COUNT_OF(tests), argc, argv); }

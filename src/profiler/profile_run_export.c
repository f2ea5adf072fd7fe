/* Results of a profile as files and summaries: the trace of the last cycle, summaries of all cycles
 * that are kept. Conditions and messages follow torch.profiler.profile; those of PyTorch are kept
 * as they are. */
#include "profiler/fallback.h"
#include "profiler/profile_run.h"

#include <ckineto/files.h>

#include <errno.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <time.h>

/* The trace of the last complete cycle; *out stays the profile's. */
static kineto_status get_last_trace(const kineto_profile_run *p, const kineto_trace **out,
                                    kineto_error *err)
{
    kineto_profiler_result *last = kineto_profile_run_result(p);
    if (!last)
        return kb_fail(err, KINETO_E_STATE, "the profile run has no complete cycle yet");
    *out = kineto_profiler_result_trace(last);
    return *out ? KINETO_OK
                : kb_fail(err, KINETO_E_STATE,
                          "Missing trace: a profiler of state %s records nothing itself",
                          kineto_profiler_state_name(p->config.values.state));
}

kineto_status kineto_profile_run_export_chrome_trace(const kineto_profile_run *p, const char *path,
                                                 kineto_error *err)
{
    const kineto_trace *trace;
    if (!p || !path)
        return kb_fail_null(err, __func__, "profile, path", p, path);
    kineto_status status = get_last_trace(p, &trace, err);
    return status ? status : kineto_profiler_result_save(kineto_profile_run_result(p), path, err);
}

/* ---- summaries ------------------------------------------------------------------------------- */

/* Adapts kp_fallback_find to kineto_function_events_options.device_elapsed. */
static bool get_device_elapsed(uint64_t external_id, int64_t *elapsed_ns, void *user)
{
    const kineto_profiler_result *r = user;
    return kp_fallback_find(r->fallback, external_id, elapsed_ns, NULL);
}

/* All kept cycles as one trace, which the caller releases. */
static kineto_status merge_cycles(const kineto_profile_run *p, kineto_trace **out, kineto_error *err)
{
    const kineto_trace **traces = calloc(p->cycles.count, sizeof *traces);
    if (!traces)
        return kb_fail_memory(err, NULL);
    for (size_t i = 0; i < p->cycles.count; i++)
        traces[i] = kineto_profiler_result_trace(p->cycles.data[i]);
    kineto_status status = kineto_trace_merge(traces, p->cycles.count, NULL, out, err);
    free(traces);
    return status;
}

/* Function events of the last cycle, with device times from the fallback if it has one. */
static kineto_status create_last_events(const kineto_profile_run *p, const kineto_trace *trace,
                                        kineto_function_events **out, kineto_error *err)
{
    kineto_profiler_result *last = kineto_profile_run_result(p);
    kineto_function_events_options o = {.size = sizeof o};
    if (last->fallback) {
        o.device_elapsed = get_device_elapsed;
        o.user = last;
        o.device_type = last->fallback_device;
    }
    return kineto_function_events_create(trace, &o, out, err);
}

kineto_status kineto_profile_run_events(const kineto_profile_run *p, kineto_function_events **out,
                                    kineto_error *err)
{
    const kineto_trace *trace;
    kineto_trace *all = NULL;
    if (out)
        *out = NULL;
    if (!p || !out)
        return kb_fail_null(err, __func__, "profile, out", p, out);
    kineto_status status = get_last_trace(p, &trace, err);
    if (status || p->cycles.count == 1)
        return status ? status : create_last_events(p, trace, out, err);
    /* The merged trace numbers operators anew, so that ids of the fallback would not match. */
    if (kineto_profile_run_result(p)->fallback)
        return kb_fail(err, KINETO_E_UNSUPPORTED,
                       "device times by events around operators cannot be summed over cycles; "
                       "use kineto_profile_run_cycle for a single one");
    status = merge_cycles(p, &all, err);
    if (!status)
        status = kineto_function_events_create(all, NULL, out, err);
    kineto_trace_release(all);
    return status;
}

kineto_status kineto_profile_run_key_averages(const kineto_profile_run *p,
                                          const kineto_averages_options *options,
                                          kineto_averages **out, kineto_error *err)
{
    kineto_function_events *events;
    if (out)
        *out = NULL;
    if (!p || !out)
        return kb_fail_null(err, __func__, "profile, out", p, out);
    kineto_status status = kineto_profile_run_events(p, &events, err);
    if (!status)
        status = kineto_averages_create(events, options, out, err);
    kineto_function_events_destroy(events);
    return status;
}

kineto_status kineto_profile_run_export_stacks(const kineto_profile_run *p, const char *path,
                                           const char *metric, kineto_error *err)
{
    kineto_function_events *events = NULL;
    kineto_stacks_options o = {.size = sizeof o, .metric = metric};
    if (!p || !path)
        return kb_fail_null(err, __func__, "profile, path", p, path);
    if (!p->config.values.with_stack)
        return kb_fail(err, KINETO_E_STATE, "export_stacks() requires with_stack=True");
    kineto_status status = kineto_profile_run_events(p, &events, err);
    if (!status)
        status = kineto_stacks_save(events, &o, path, NULL, err);
    kineto_function_events_destroy(events);
    return status;
}

kineto_status kineto_profile_run_export_memory_timeline(const kineto_profile_run *p, const char *path,
                                                    const char *device, kineto_error *err)
{
    const kineto_trace *trace;
    kineto_function_events *events = NULL;
    kineto_memory_timeline_options o = {.size = sizeof o, .device = device};
    if (!p || !path)
        return kb_fail_null(err, __func__, "profile, path", p, path);
    if (!p->config.values.profile_memory)
        return kb_fail(err, KINETO_E_STATE, "profile_memory=True required for memory profiling.");
    kineto_status status = get_last_trace(p, &trace, err);
    if (!status)
        status = create_last_events(p, trace, &events, err);
    if (!status)
        status = kineto_memory_timeline_save(events, &o, path, NULL, err);
    kineto_function_events_destroy(events);
    return status;
}

kineto_status kineto_profile_run_export_execution_trace(const kineto_profile_run *p, const char *path,
                                                    kineto_error *err)
{
    const kineto_trace *trace;
    if (!p || !path)
        return kb_fail_null(err, __func__, "profile, path", p, path);
    kineto_status status = get_last_trace(p, &trace, err);
    return status ? status : kineto_execution_trace_save(trace, path, err);
}

/* ---- TensorBoard ----------------------------------------------------------------------------- */

/* The name of a worker, which begins the file's name; by default HOST_PID as in PyTorch. */
static kineto_status write_worker_name(const char *given, char *out, size_t bytes,
                                       kineto_error *err)
{
    char host[256] = "";
    if (!given) {
        (void)kb_os_host_name(host, sizeof host);
        snprintf(out, bytes, "%s_%u", host, kb_os_pid());
        return KINETO_OK;
    }
    if (!*given || strchr(given, '/') || strlen(given) >= bytes)
        return kb_fail(
            err, KINETO_E_ARGUMENT,
            "invalid worker name '%.60s': it begins a file name; use 1 to 299 bytes without '/'",
            given);
    snprintf(out, bytes, "%s", given);
    return KINETO_OK;
}

kineto_status kineto_profile_run_save_tensorboard(const kineto_profile_run *p,
                                              const kineto_tensorboard *where, char *path,
                                              size_t bytes, kineto_error *err)
{
    kineto_tensorboard w = {.size = sizeof w};
    char worker[300], whole[4096];
    const kineto_trace *trace;
    if (!p || !where)
        return kb_fail_null(err, __func__, "profile, where", p, where);
    kineto_status status = kb_options_read(&w, sizeof w, where, "kineto_tensorboard", err);
    if (status)
        return status;
    if (!w.directory || !*w.directory)
        return kb_fail(err, KINETO_E_ARGUMENT, "Can't create directory: it has no name");
    status = get_last_trace(p, &trace, err);
    if (!status)
        status = write_worker_name(w.worker, worker, sizeof worker, err);
    if (!status)
        status = kb_os_make_directories(w.directory, err);
    if (status)
        return status;
    int n = snprintf(whole, sizeof whole, "%s/%s.%" PRIu64 ".pt.trace.json%s", w.directory, worker,
                     kb_clock_ns(CLOCK_REALTIME), w.gzip ? ".gz" : "");
    if (n < 0 || (size_t)n >= sizeof whole || (path && (size_t)n >= bytes))
        return kb_fail(err, KINETO_E_ARGUMENT, "the path in %.80s… is too long", w.directory);
    if (path)
        memcpy(path, whole, (size_t)n + 1);
    return kineto_profiler_result_save(kineto_profile_run_result(p), whole, err);
}

kineto_status kineto_tensorboard_handler(kineto_profile_run *profile, void *where, kineto_error *err)
{
    if (!profile || !where)
        return kb_fail_null(err, __func__, "profile, where", profile, where);
    return kineto_profile_run_save_tensorboard(profile, where, NULL, 0, err);
}

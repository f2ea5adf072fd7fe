/* The driver of a recorder: traces its programs by windows of its collector (session/windows.c).
 * Traces are built on the thread that writes them, while the collector goes on. */
#include "ondemand/capture/recorder.h"
#include "ondemand/output/output.h"

#define QUOTED_BYTES (6 * 256 + 3) /* a JSON string of at most 255 bytes */
#define MAX_HEADERS  3u

/* Guarded by the controller's lock, except where noted. */
struct ko_recorder {
    ko_recorder_options options;
    ks_window *window; /* under way; `write` takes it without the lock */
    bool limited;      /* its iterations begin and end it themselves */
    int64_t start_ns, end_ns;
};

/* ---- a window -------------------------------------------------------------------------------- */

static uint32_t wants_of_request(const ko_request *r)
{
    return KF_WANT_USUAL | (r->record_shapes ? KF_WANT_INPUTS : 0);
}

/* ko_driver.prepare: a window with the request's kinds, replacing one that was never released. */
static kineto_status prepare_recorder_window(void *context, const ko_request *request,
                                             kineto_error *err)
{
    ko_recorder *r = context;
    uint64_t memory = request->profile_memory ? KINETO_KIND_BIT(KINETO_KIND_MEMORY) : 0;
    ks_window_options o = {.kinds = (request->kinds ? request->kinds : r->options.kinds) | memory,
                           .wants = wants_of_request(request),
                           .custom_config = request->custom};
    ks_window_release(r->options.collector, r->window);
    r->window = NULL;
    r->limited = false;
    return ks_window_prepare(r->options.collector, &o, &r->window, err);
}

/* ko_driver.limit: by the iterations of the first process that steps. */
static kineto_status limit_recorder_window(void *context, int64_t from_step, int64_t until_step,
                                           kineto_error *err)
{
    ko_recorder *r = context;
    int64_t times_ns[KF_STEP_TIMES];
    uint32_t pid;
    if (!r->window)
        return kb_fail(err, KINETO_E_STATE, "the window was not prepared");
    (void)ks_collector_steps(r->options.collector, times_ns, &pid);
    if (!pid || from_step < 0)
        return KINETO_OK; /* the window begins when it is armed */
    r->limited = true;
    return ks_window_limit(r->options.collector, r->window, pid, (uint64_t)from_step,
                           until_step > from_step ? (uint64_t)until_step : 0, err);
}

static kineto_status arm_recorder_window(void *context, kineto_error *err)
{
    ko_recorder *r = context;
    if (!r->window)
        return kb_fail(err, KINETO_E_STATE, "the window was not prepared");
    return ks_window_arm(r->options.collector, r->window, err);
}

static kineto_status stop_recorder_window(void *context, int64_t start_ns, int64_t end_ns,
                                          kineto_error *err)
{
    ko_recorder *r = context;
    if (!r->window)
        return kb_fail(err, KINETO_E_STATE, "the window was not prepared");
    ks_window_stop(r->options.collector, r->window);
    r->start_ns = start_ns;
    r->end_ns = end_ns;
    return KINETO_OK;
}

static void drop_recorder_window(void *context)
{
    ko_recorder *r = context;
    ks_window_release(r->options.collector, r->window);
    r->window = NULL;
}

/* ---- writing: without the lock --------------------------------------------------------------- */

/* Keys for the header of the trace. */
typedef struct headers {
    char quoted[MAX_HEADERS][QUOTED_BYTES];
    kt_build_header list[MAX_HEADERS];
    uint32_t count;
} headers;

static void add_trace_header(headers *h, const char *key, const char *text)
{
    char cut[256];
    if (!text[0] || h->count == MAX_HEADERS)
        return;
    snprintf(cut, sizeof cut, "%s", text);
    *kb_json_escape(h->quoted[h->count], kb_string(cut), NULL) = 0;
    h->list[h->count] = (kt_build_header){key, h->quoted[h->count]};
    h->count++;
}

/* These options need a process that is linked with the library. */
static bool needs_linked_library(const ko_request *r) { return r->with_stack || r->with_flops; }

static const kt_build_note less_than_asked = {
    "on demand", "left out", "call stacks and FLOPs need a program that is linked with ckineto", 1,
    false};

/* Writes the trace unless building it failed, and releases it in any case. */
static kineto_status save_trace(kineto_status status, kineto_trace *trace, ko_request_source source,
                                const char *path, uint64_t *bytes, kineto_error *err)
{
    if (status == KINETO_OK)
        status = ko_output_write(trace, source, path, bytes, err);
    kineto_trace_release(trace);
    return status;
}

/* ko_driver.write. Runs without the controller's lock; the window is released also on failure. */
static kineto_status write_recorder_trace(void *context, const ko_request *request,
                                          ko_request_source source, const char *path,
                                          uint64_t *bytes, kineto_error *err)
{
    ko_recorder *r = context;
    kineto_trace *trace = NULL;
    headers h = {.count = 0};
    if (!r->window)
        return kb_fail(err, KINETO_E_STATE, "no window to write");
    add_trace_header(&h, "trace_id", request->trace_id);
    add_trace_header(&h, "group_trace_id", request->group_id);
    ks_window_cut cut = {.from_ns = r->start_ns,
                         .until_ns = r->end_ns,
                         .header = h.list,
                         .header_count = h.count,
                         .notes = &less_than_asked,
                         .note_count = needs_linked_library(request)};
    kineto_status status = ks_window_build(r->options.collector, r->window, &cut, &trace, err);
    ks_window_release(r->options.collector, r->window);
    r->window = NULL;
    return save_trace(status, trace, source, path, bytes, err);
}

/* ---- the ring -------------------------------------------------------------------------------- */

static kineto_status dump_recorder_ring(void *context, ko_request_source source, const char *path,
                                        const char *reason, uint64_t *bytes, kineto_error *err)
{
    ko_recorder *r = context;
    kineto_trace *trace = NULL;
    headers h = {.count = 0};
    add_trace_header(&h, "ckineto_dump_reason", reason[0] ? reason : "asked for");
    ks_window_cut cut = {.header = h.list, .header_count = h.count};
    kineto_status status = ks_ring_build(r->options.collector, &cut, &trace, err);
    return save_trace(status, trace, source, path, bytes, err);
}

/* ---- iterations ------------------------------------------------------------------------------ */

static uint64_t read_program_steps(void *context, int64_t times_ns[64])
{
    ko_recorder *r = context;
    uint32_t pid;
    return ks_collector_steps(r->options.collector, times_ns, &pid);
}

/* ---- creation -------------------------------------------------------------------------------- */

kineto_status ko_recorder_create(const ko_recorder_options *options, ko_recorder **out,
                                 kineto_error *err)
{
    ko_recorder *r = *out = calloc(1, sizeof *r);
    if (!r)
        return kb_fail_memory(err, NULL);
    r->options = *options;
    return KINETO_OK;
}

void ko_recorder_destroy(ko_recorder *r)
{
    if (!r)
        return;
    ks_window_release(r->options.collector, r->window);
    free(r);
}

void ko_recorder_driver(ko_recorder *r, ko_driver *out)
{
    *out = (ko_driver){.context = r,
                       .prepare = prepare_recorder_window,
                       .limit = limit_recorder_window,
                       .arm = arm_recorder_window,
                       .stop = stop_recorder_window,
                       .write = write_recorder_trace,
                       .drop = drop_recorder_window,
                       .dump = r->options.ring_ns ? dump_recorder_ring : NULL,
                       .steps = read_program_steps};
}

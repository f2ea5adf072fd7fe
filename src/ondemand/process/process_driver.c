/* The driver of this process: records a requested trace as a window of the front end, over all
 * threads, in state KINETO_ONDEMAND. Recording begins early and with little memory, so that the
 * window can begin in time; records outside of it are cut away. Traces are built on the thread that
 * writes them. */
#include "ondemand/capture/observers.h"
#include "ondemand/capture/ring.h"
#include "ondemand/output/output.h"
#include "ondemand/process/process.h"
#include "profiler/profiler.h"

#include <ckineto/host.h>
#include <inttypes.h>

/* Memory to prefault per turn: the controller does nothing else meanwhile. */
#define GROW_BYTES ((size_t)4 << 20)
/* Buffer of warm-up records, which are discarded. */
#define WARM_BYTES ((size_t)2 << 20)
#define MAX_BYTES  ((size_t)2 << 30)

/* Guarded by the controller's lock, except where noted. */
typedef struct process {
    kineto_profiler *window;   /* prepared, or recording */
    kineto_profiler *ended;    /* to be built; `write` takes it without the lock */
    kineto_session *warm;      /* devices warm up */
    kineto_session *warm_over; /* atomic: to be destroyed */
    bool recording;
    uint64_t iterations; /* 0: by time */
    ko_iteration first;  /* of the window; ticks 0: not known */
    int64_t armed_ns, start_ns, end_ns;
    bool client_snapshot; /* the program takes it itself */
} process;

static process self;

/* ---- warming up ------------------------------------------------------------------------------ */

/* The kinds that plug-ins deliver; with kinds of their own, also those that are recorded by
 * default. */
static uint64_t device_kinds(void)
{
    uint64_t kinds = 0;
    kineto_plugin_info info = {.size = sizeof info};
    for (uint32_t i = 0; kineto_plugin_info_get(i, &info); i++)
        kinds |= info.kinds;
    return kinds & KINETO_KINDS_OWN ? kinds | KINETO_KIND_BIT(KINETO_KIND_OWN_DEFAULT) : kinds;
}

/* Starts the window's device kinds in a session that overwrites its own records and protects none.
 * It goes on until the window records, so that devices are not stopped and started again in
 * between. */
static void begin_warmup(uint64_t kinds, const char *lines)
{
    kineto_error why;
    kineto_session_options options;
    ks_extras extras = {.grows = true};
    kineto_session_options_init(&options);
    options.kinds = kinds & device_kinds();
    options.buffer_bytes = WARM_BYTES;
    options.retention = KINETO_RETAIN_NEWEST;
    options.custom_config = lines[0] ? lines : NULL;
    if (!options.kinds)
        return;
    kineto_status status = ks_session_prepare(&options, &extras, &self.warm, &why);
    if (!status)
        status = kineto_session_start(self.warm, &why);
    if (status)
        kb_log(KINETO_LOG_WARNING, "devices do not warm up: %s", why.message);
}

/* Destroys the warm-up session, after the window records; on any thread that has time for it. */
static void end_warmup(void)
{
    kineto_session *none = NULL;
    kineto_session_destroy(kb_exchange_acqrel(&self.warm_over, none));
}

static void retire_warmup(void)
{
    if (self.warm)
        kb_store_release(&self.warm_over, self.warm);
    self.warm = NULL;
}

/* ---- preparing ------------------------------------------------------------------------------- */

static bool is_key_given(const ko_request *r, const char *name)
{
    size_t count;
    const ko_request_key *keys = ko_request_keys(&count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(keys[i].name, name) == 0)
            return r->given >> i & 1;
    return false;
}

/* The key limits memory for device records only: it never makes the shared buffer smaller than the
 * default. */
static size_t window_buffer_bytes(const ko_request *r)
{
    if (!is_key_given(r, "ACTIVITIES_MAX_GPU_BUFFER_SIZE_MB") || r->max_buffer_bytes <= 0)
        return KS_DEFAULT_BUFFER_BYTES;
    return KB_MIN(KB_MAX((size_t)r->max_buffer_bytes, KS_DEFAULT_BUFFER_BYTES), MAX_BYTES);
}

static kineto_profiler_config make_profiler_config(const ko_request *r)
{
    kineto_profiler_config c;
    kineto_profiler_config_init(&c, KINETO_STATE_KINETO_ONDEMAND);
    c.report_input_shapes = r->record_shapes;
    c.profile_memory = r->profile_memory;
    c.with_stack = r->with_stack;
    c.with_flops = r->with_flops;
    c.with_modules = r->with_modules;
    c.buffer_bytes = window_buffer_bytes(r);
    c.trace_id = r->trace_id[0] ? r->trace_id : NULL;
    c.experimental.trace_only = true;
    return c;
}

/* Records where the window may not have begun yet. */
static kineto_status start_recording(kineto_error *err)
{
    kineto_status status = kp_window_start(self.window, err);
    self.armed_ns = ks_session_started_ns(self.window->session);
    self.recording = !status;
    return status;
}

/* By iteration, recording begins now: at the beginning of the first iteration it would be slightly
 * too late. */
static kineto_status prepare_process_window(void *context, const ko_request *request,
                                            kineto_error *err)
{
    (void)context;
    kineto_profiler_config config = make_profiler_config(request);
    kp_window_request more = {.kinds = request->kinds ? request->kinds : KINETO_KINDS_DEFAULT,
                    .lines = request->custom};
    if (request->profile_memory)
        more.kinds |= KINETO_KIND_BIT(KINETO_KIND_MEMORY);
    end_warmup();
    kineto_status status = kp_window_prepare(&config, &more, &self.window, err);
    if (status)
        return status;
    self.recording = false;
    self.iterations = request->iterations > 0 ? (uint64_t)request->iterations : 0;
    self.first = (ko_iteration){0};
    if (self.iterations)
        status = start_recording(err);
    else if (request->warmup_ns > 0)
        begin_warmup(more.kinds, request->custom);
    ko_client_prepare(request);
    ko_control_wake();
    return status;
}

/* ---- recording ------------------------------------------------------------------------------- */

static kineto_status arm_process_window(void *context, kineto_error *err)
{
    (void)context;
    if (!self.window)
        return kb_fail(err, KINETO_E_STATE, "the window was not prepared");
    kineto_status status = self.recording ? KINETO_OK : start_recording(err);
    retire_warmup();
    ko_control_wake();
    return status;
}

static void begin_process_window(void *context, int64_t start_ns)
{
    (void)context;
    if (!self.window)
        return; /* a memory snapshot has no window */
    if (!self.iterations || !ko_control_iteration_at(start_ns, &self.first))
        self.first = (ko_iteration){0};
    kp_window_keep_from(self.window, start_ns, self.first.ticks);
    ko_client_start();
}

/* Ticks at which the iteration began that ends the window; 0: not known, or the window ends
 * otherwise. */
static uint64_t window_end_ticks(int64_t end_ns)
{
    ko_iteration after;
    bool is = self.first.ticks &&
              ko_control_iteration(self.first.number + self.iterations, &after) &&
              after.reported_ns <= end_ns;
    return is ? after.ticks : 0;
}

/* ko_driver.stop. Cheap: the trace is built later. */
static kineto_status stop_process_window(void *context, int64_t start_ns, int64_t end_ns,
                                         kineto_error *err)
{
    (void)context;
    if (!self.window)
        return kb_fail(err, KINETO_E_STATE, "the window was not prepared");
    kp_window_range cut = {start_ns, end_ns, self.first.ticks, window_end_ticks(end_ns)};
    kineto_status status = kp_window_end(self.window, &cut, err);
    self.start_ns = start_ns;
    self.end_ns = end_ns;
    KB_ASSERT(!self.ended);
    self.ended = self.window;
    self.window = NULL;
    retire_warmup();
    ko_client_stop();
    return status;
}

static void drop_process_window(void *context)
{
    (void)context;
    kp_window_destroy(self.window);
    kp_window_destroy(self.ended);
    self.window = self.ended = NULL;
    retire_warmup();
    end_warmup();
    ko_client_drop();
    ko_client_snapshot_drop();
    ko_snapshot_drop();
}

/* ---- writing: without the lock --------------------------------------------------------------- */

/* A JSON string; `out` has QUOTED_BYTES. */
static const char *quote_json_id(const char *text, char *out)
{
    *kb_json_escape(out, kb_string(text), NULL) = 0;
    return out;
}

#define QUOTED_BYTES (6 * KO_REQUEST_ID_BYTES + 3)

/* Header and notes of the trace. */
typedef struct texts {
    char id[QUOTED_BYTES], group[QUOTED_BYTES], note[160];
    kt_build_header header[2];
    kt_build_note notes[1];
    kp_window_annotations all;
} texts;

/* Header keys and the note about when recording began. */
static void make_trace_texts(texts *t, const ko_request *request)
{
    uint32_t n = 0;
    if (request->trace_id[0])
        t->header[n++] = (kt_build_header){"trace_id", quote_json_id(request->trace_id, t->id)};
    if (request->group_id[0])
        t->header[n++] =
            (kt_build_header){"group_trace_id", quote_json_id(request->group_id, t->group)};
    int64_t early_ns = kb_length_ns(self.armed_ns, self.start_ns);
    snprintf(t->note, sizeof t->note, "recording began %s %s; the trace is cut at the window",
             kb_duration(early_ns < 0 ? -early_ns : early_ns).s,
             early_ns < 0 ? "into the window" : "before the window");
    t->notes[0] = (kt_build_note){"on demand", "windows", t->note, 1, false};
    t->all = (kp_window_annotations){t->header, n, t->notes, 1};
}

/* ko_driver.write. Without the controller's lock. */
static kineto_status write_process_trace(void *context, const ko_request *request,
                                         ko_request_source source, const char *path,
                                         uint64_t *bytes, kineto_error *err)
{
    (void)context;
    texts t;
    kineto_trace *trace = NULL;
    if (!self.ended)
        return kb_fail(err, KINETO_E_STATE, "no window to write");
    make_trace_texts(&t, request);
    end_warmup();
    kineto_status status = kp_window_build(self.ended, &t.all, &trace, err);
    if (!status)
        status = ko_output_write(trace, source, path, bytes, err);
    kineto_trace_release(trace);
    kp_window_destroy(self.ended);
    self.ended = NULL;
    return status;
}

/* ---- snapshots of memory --------------------------------------------------------------------- */

static kineto_status start_process_snapshot(void *context, const ko_request *request,
                                            kineto_error *err)
{
    (void)context;
    self.client_snapshot = ko_client_takes_snapshots();
    if (!self.client_snapshot)
        return ko_snapshot_start(request, err);
    ko_client_snapshot_start();
    return KINETO_OK;
}

/* Without the lock. */
static kineto_status stop_process_snapshot(void *context, const ko_request *request,
                                           ko_request_source source, const char *path,
                                           uint64_t *bytes, kineto_error *err)
{
    (void)context;
    (void)request;
    return self.client_snapshot ? ko_client_snapshot_stop(source, path, bytes, err)
                                : ko_snapshot_stop(source, path, bytes, err);
}

/* ---- the driver ------------------------------------------------------------------------------ */

void ko_process_driver(ko_driver *out)
{
    *out = (ko_driver){.prepare = prepare_process_window,
                       .arm = arm_process_window,
                       .started = begin_process_window,
                       .stop = stop_process_window,
                       .write = write_process_trace,
                       .drop = drop_process_window,
                       .snapshot_start = start_process_snapshot,
                       .snapshot_stop = stop_process_snapshot};
}

bool ko_process_tend(void)
{
    if (kb_load_acquire(&self.warm_over))
        end_warmup();
    return ks_sessions_grow(GROW_BYTES);
}

/* The parent's threads may have been changing these objects: they are not freed, only kept
 * reachable. */
void ko_process_forked(void)
{
    static process inherited;
    kp_window_set_reported(NULL);
    inherited = self;
    (void)inherited;
    memset(&self, 0, sizeof self);
}

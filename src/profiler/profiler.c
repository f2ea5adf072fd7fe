/* A profiler by its handle: a session that records, callbacks that mark operators for a tool or a
 * device (emit.h, fallback.h), or both. Follows the state machine created → running → stopped →
 * running …; a caller must not use one handle from two threads at once, except that any thread may
 * join or leave. registry.c keeps those of PyTorch's functions without a handle, profile.c drives one
 * over the steps of a long run. */
#include "profiler/profiler.h"
#include "profiler/emit.h"
#include "profiler/fallback.h"
#include "profiler/stubs.h"
#include "record/record.h"

/* ---- requests -------------------------------------------------------------------------------- */

/* Checks that state, activities and scopes go together. PyTorch's own messages are kept as they
 * are. */
static kineto_status check_profiler_request(const kineto_profiler_config *c, uint32_t activities,
                                            uint32_t scopes, kineto_error *err)
{
    if (activities >> KINETO_NUM_ACTIVITY_TYPES || scopes >> KINETO_NUM_SCOPES)
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "profiler: activities %#x or scopes %#x have unknown bits", activities,
                       scopes);
    if (c->state == KINETO_STATE_DISABLED)
        return kb_fail(err, KINETO_E_ARGUMENT, "profiler: the state is DISABLED");
    bool cpu = activities & KINETO_ACTIVITY_SET(CPU);
    bool own_set = c->state == KINETO_STATE_CPU || c->state == KINETO_STATE_CUDA;
    if (kp_state_records(c->state) && !own_set && !activities)
        return kb_fail(err, KINETO_E_ARGUMENT, "No activities specified.");
    if (c->state == KINETO_STATE_KINETO_ONDEMAND && !cpu)
        return kb_fail(err, KINETO_E_ARGUMENT, "Ondemand profiling must enable CPU tracing");
    if (c->experimental.performance_event_count && !cpu && !own_set)
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "Cannot run cpu hardware profiler without CPU activities, please only use "
                       "CPU activity type");
    return KINETO_OK;
}

/* A text being written into a buffer of `bytes`. `used` counts also what did not fit, so that the
 * caller learns the size that would have been needed. */
typedef struct config_lines {
    char *out;
    size_t bytes, used;
} config_lines;

/* Appends a piece whole or not at all; the text stays NUL-terminated. */
static void append_config(config_lines *t, const char *piece)
{
    KB_ASSERT(t->out && t->bytes);
    size_t n = strlen(piece);
    if (t->used + n < t->bytes)
        memcpy(t->out + t->used, piece, n + 1);
    t->used += n;
}

/* Appends KEY=VALUE and a newline, unless the value is NULL. */
static void append_config_line(config_lines *t, const char *key, const char *value)
{
    if (!value)
        return;
    append_config(t, key);
    append_config(t, "=");
    append_config(t, value);
    append_config(t, "\n");
}

/* The keys of libkineto's own configuration for CUPTI's range profiler; others read them too. */
static void append_metrics(config_lines *t, const kineto_experimental_config *x)
{
    append_config(t, "ACTIVITIES_WARMUP_PERIOD_SECS=0\nCUPTI_PROFILER_METRICS=");
    for (size_t i = 0; i < x->profiler_metric_count; i++) {
        append_config(t, i ? "," : "");
        append_config(t, x->profiler_metrics[i] ? x->profiler_metrics[i] : "");
    }
    append_config(t, "\n");
    append_config_line(t, "CUPTI_PROFILER_ENABLE_PER_KERNEL",
                       x->profiler_measure_per_kernel ? "true" : "false");
}

/* Writes the configuration for plug-ins, lines KEY=VALUE as in libkineto's configuration files. */
static kineto_status write_plugin_config(const kineto_profiler_config *c, char *out, size_t bytes,
                                         kineto_error *err)
{
    const kineto_experimental_config *x = &c->experimental;
    config_lines t = {out, bytes, 0};
    if (x->profiler_metric_count)
        append_metrics(&t, x);
    append_config_line(&t, "REQUEST_TRACE_ID", c->trace_id);
    append_config_line(&t, "REQUEST_GROUP_TRACE_ID", c->trace_id);
    append_config_line(&t, "CUSTOM_CONFIG", x->custom_profiler_config);
    if (t.used >= bytes)
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "profiler config: metrics, trace id and custom config need %zu bytes "
                       "together; at most %zu are possible",
                       t.used, bytes - 1);
    return KINETO_OK;
}

/* Plans the hardware counters of the request. Those that this machine lacks are a line of the
 * ledger, not an error. */
static kineto_status prepare_counters(kineto_profiler *p, kineto_error *err)
{
    const kineto_experimental_config *x = &p->config.values.experimental;
    kineto_error absent = {.code = KINETO_OK};
    kineto_status status = kineto_rt_counters_prepare(
        x->performance_events, x->performance_event_count, &p->counters, &absent, err);
    if (!status && absent.code)
        kineto_rt_note("counters", "not to be had here", 1, false, absent.message);
    return status;
}

/* Puts the lines of an on-demand request before the profiler's own in `text` of `bytes`. If not all
 * fits, the request's lines stay: the user asked for them explicitly. */
static void prepend_lines(const char *more, char *text, size_t bytes)
{
    char own[KS_CONFIG_BYTES];
    size_t n = strlen(more), m = strlen(text);
    memcpy(own, text, m + 1);
    if (n >= bytes)
        return;
    memcpy(text, more, n + 1);
    if (n + m < bytes)
        memcpy(text + n, own, m + 1);
}

/* Creates the session of a profiler that records; `more` is for on-demand windows, else NULL. */
static kineto_status prepare_session(kineto_profiler *p, const kp_window_request *more, kineto_error *err)
{
    const kineto_profiler_config *c = &p->config.values;
    char text[KS_CONFIG_BYTES] = "";
    kineto_session_options options;
    ks_extras extras = {.no_privateuse1 = c->state != KINETO_STATE_KINETO_PRIVATEUSE1,
                        .counters = c->experimental.performance_event_count != 0,
                        .adjust_steps = c->experimental.adjust_profiler_step,
                        .no_links = !kineto_profiler_get_fwd_bwd()};
    kp_session_options(c, p->activities, p->scopes, &options);
    kineto_status status = write_plugin_config(c, text, sizeof text, err);
    if (more) {
        extras.no_privateuse1 = false;
        extras.armed = extras.grows = true;
        options.kinds = more->kinds;
        prepend_lines(more->lines, text, sizeof text);
    }
    options.custom_config = text[0] ? text : NULL;
    if (!status)
        status = ks_session_prepare(&options, &extras, &p->session, err);
    if (!status && extras.counters)
        status = prepare_counters(p, err);
    return status;
}

/* Opens whatever the state shows operators to besides a session: a tool (NVTX, ITT) or device
 * events. A fallback may hold one operator per 64 bytes of the budget. */
static kineto_status open_marks(kineto_profiler *p, kineto_error *err)
{
    const kineto_profiler_config *c = &p->config.values;
    uint64_t max_operators = (c->buffer_bytes ? c->buffer_bytes : KS_DEFAULT_BUFFER_BYTES) / 64;
    switch (c->state) {
    case KINETO_STATE_NVTX:
        return kp_emission_open(&kp_nvtx_emitter, c->report_input_shapes, &p->emission, err);
    case KINETO_STATE_ITT:
        return kp_emission_open(&kp_itt_emitter, c->report_input_shapes, &p->emission, err);
    case KINETO_STATE_KINETO_GPU_FALLBACK:
        return kp_fallback_open(KINETO_STUBS_CUDA, max_operators, &p->fallback, err);
    case KINETO_STATE_KINETO_PRIVATEUSE1_FALLBACK:
        return kp_fallback_open(KINETO_STUBS_PRIVATEUSE1, max_operators, &p->fallback, err);
    default:
        return KINETO_OK;
    }
}

kineto_status kineto_profiler_create(const kineto_profiler_config *config, uint32_t activities,
                                     uint32_t scopes, kineto_profiler **out, kineto_error *err)
{
    return kp_profiler_create(config, activities, scopes, NULL, out, err);
}

kineto_status kp_profiler_create(const kineto_profiler_config *config, uint32_t activities,
                                 uint32_t scopes, const kp_window_request *more, kineto_profiler **out,
                                 kineto_error *err)
{
    if (!out)
        return kb_fail_null(err, "kineto_profiler_create", "out", out);
    *out = NULL;
    if (!config)
        return kb_fail_null(err, "kineto_profiler_create", "config", config);
    kineto_profiler *p = calloc(1, sizeof *p);
    if (!p)
        return kb_fail_memory(err, NULL);
    kineto_status status = kp_config_copy(config, &p->config, err);
    const kineto_profiler_config *c = &p->config.values;
    if (!status)
        status = check_profiler_request(c, activities, scopes, err);
    p->activities = activities;
    p->scopes = scopes;
    p->records = kp_state_records(c->state);
    p->global = kineto_profiler_config_push_global_callbacks(c);
    if (!status)
        status = open_marks(p, err);
    if (!status && p->records)
        status = prepare_session(p, more, err);
    if (status)
        kineto_profiler_destroy(p);
    else
        *out = p;
    return status;
}

/* ---- running --------------------------------------------------------------------------------- */

/* The callback is registered for all threads and filters by membership, so that the thread that
 * stops the profiler can remove it, whichever thread started it. */
static bool is_member(const kineto_profiler *p, uint64_t thread)
{
    uint32_t count = kb_load_acquire(&p->member_count);
    for (uint32_t i = 0; i < count; i++)
        if (kb_load_relaxed(&p->members[i]) == thread)
            return true;
    return false;
}

/* Context of operators that began on a thread that was no member: their end is skipped as well. */
static char not_shown_mark;

static void *on_operator_enter(const kineto_function_view *f, void *user)
{
    const kineto_profiler *p = user;
    if (!p->global && !is_member(p, f->thread_id))
        return &not_shown_mark;
    return p->marks.enter ? p->marks.enter(f, p->marks.user) : NULL;
}

static void on_operator_exit(const kineto_function_view *f, void *context, void *user)
{
    const kineto_profiler *p = user;
    if (context != &not_shown_mark && p->marks.exit)
        p->marks.exit(f, context, p->marks.user);
}

/* Fills the gap with the last member. A callback that reads meanwhile may miss the moved member
 * once. */
static void remove_member(kineto_profiler *p, uint32_t index)
{
    KB_ASSERT(index < p->member_count && p->member_count <= KP_MEMBERS);
    uint32_t last = p->member_count - 1;
    p->identities[index] = p->identities[last];
    kb_store_relaxed(&p->members[index], p->members[last]);
    kb_store_release(&p->member_count, last);
}

/* Threads end without leaving; called only when the table is full. */
static KB_COLD void remove_ended_members(kineto_profiler *p)
{
    for (uint32_t i = p->member_count; i-- > 0;)
        if (p->identities[i].start_time &&
            !kb_os_alive(p->identities[i].tid, p->identities[i].start_time))
            remove_member(p, i);
}

/* Adds the calling thread. The entry is complete before the count shows it to callbacks. */
static kineto_status add_member(kineto_profiler *p, uint64_t thread, kineto_error *err)
{
    KB_ASSERT(p->member_count <= KP_MEMBERS);
    if (p->member_count == KP_MEMBERS)
        remove_ended_members(p);
    uint32_t count = p->member_count, tid = kb_os_tid();
    if (count == KP_MEMBERS)
        return kb_fail(err, KINETO_E_LIMIT, "the profiler is full: %u threads take part",
                       KP_MEMBERS);
    p->identities[count] = (kp_thread_identity){kb_os_start_time(tid), tid};
    kb_store_relaxed(&p->members[count], thread);
    kb_store_release(&p->member_count, count + 1);
    return KINETO_OK;
}

/* Makes the calling thread a member, or no longer one. KINETO_E_STATE if that is so already. */
static kineto_status set_membership(kineto_profiler *p, bool in, kineto_error *err)
{
    uint64_t thread = kineto_function_thread_id();
    if (is_member(p, thread) == in)
        return kb_fail(err, KINETO_E_STATE,
                       in ? "the thread is in the profiler already"
                          : "the thread is not in the profiler");
    if (in)
        return add_member(p, thread, err);
    for (uint32_t i = p->member_count; i-- > 0;)
        if (p->members[i] == thread)
            remove_member(p, i);
    return KINETO_OK;
}

/* Registers the callback of the emission or fallback; without one of these there is nothing to do.
 * A profiler of one thread begins with the calling thread as its only member. */
static kineto_status add_operator_callback(kineto_profiler *p, kineto_error *err)
{
    if (p->emission)
        p->marks = kp_emission_callback(p->emission, p->scopes);
    else if (p->fallback)
        p->marks = kp_fallback_callback(p->fallback, p->scopes);
    else
        return KINETO_OK;
    kineto_function_callback c = p->marks;
    c.enter = on_operator_enter;
    c.exit = on_operator_exit;
    c.user = p;
    p->member_count = 0;
    kineto_status status = p->global ? KINETO_OK : set_membership(p, true, err);
    return status ? status : kineto_function_add_global(&c, &p->callback, err);
}

/* Reserves the process' counters for this profiler: one at a time may use them. */
static kineto_status begin_counters(kineto_profiler *p, kineto_error *err)
{
    kineto_status status =
        p->counters.count ? kineto_rt_counters_begin(&p->counters, err) : KINETO_OK;
    p->counts = p->counters.count && !status;
    return status;
}

/* Gives the counters back. Only after the session has stopped: another profiler may program them
 * from then on. */
static void end_counters(kineto_profiler *p)
{
    if (p->counts)
        kineto_rt_counters_end();
    p->counts = false;
}

/* Removes the callback and disables the observer. */
static void end_marks(kineto_profiler *p)
{
    if (p->callback && kineto_function_remove(p->callback) == KINETO_E_BUSY)
        p->stuck = true; /* see kineto_profiler.stuck */
    p->callback = 0;
    if (p->observed)
        (void)kp_observer_disable(NULL);
    p->observed = false;
}

uint32_t kp_gc_requests;

/* Order: windows on demand give way, then marks, counters, and the session last, which begins to
 * record. A failure undoes these in reverse. */
kineto_status kineto_profiler_start(kineto_profiler *p, kineto_error *err)
{
    if (!p)
        return kb_fail_null(err, __func__, "profiler", p);
    if (p->running)
        return kb_fail(err, KINETO_E_STATE, "the profiler is running already; stop it first");
    kineto_status status = p->fallback || p->emission ? KINETO_OK : open_marks(p, err);
    if (status)
        return status;
    kp_preempt_windows(p, true);
    if (p->config.values.state == KINETO_STATE_PRIVATEUSE1) {
        status = kp_observer_enable(&p->config.values, p->scopes, err);
        p->observed = !status;
    }
    if (!status)
        status = add_operator_callback(p, err);
    if (!status)
        status = begin_counters(p, err);
    if (!status && p->session)
        status = kineto_session_start(p->session, err);
    if (status) {
        end_marks(p);
        end_counters(p);
        kp_preempt_windows(p, false);
    }
    p->running = !status;
    if (p->running && p->config.values.experimental.record_python_gc_info)
        kb_add_relaxed(&kp_gc_requests, 1u);
    return status;
}

/* Options of the config that PyTorch writes into the header of a trace, as keys whose value is
 * 1. */
static void set_header_wishes(const kineto_profiler_config *c, ks_extras *extras)
{
    const struct {
        bool on;
        const char *key;
    } wishes[] = {{c->profile_memory, "profile_memory"},
                  {c->with_stack, "with_stack"},
                  {c->report_input_shapes, "record_shapes"},
                  {c->with_modules, "with_modules"},
                  {c->with_flops, "with_flops"}};
    extras->metadata_count = 0;
    for (size_t i = 0; i < KB_COUNT(wishes); i++)
        if (wishes[i].on)
            extras->metadata[extras->metadata_count++] = wishes[i].key;
    KB_ASSERT(extras->metadata_count <= KB_COUNT(extras->metadata));
}

/* Called by the builder for each event; the public type is the builder's under another name. */
static void call_post_process(void *context, int64_t debug_handle, kt_build_post *post)
{
    const kineto_profiler *p = context;
    p->post(debug_handle, (kineto_post_event *)(void *)post, p->post_user);
}

/* Appends a text and the separator after it to the stack or the modules of an event. */
static void append_post_text(kt_build_post *p, bool stack, const char *text, char separator)
{
    size_t n = p && text ? strlen(text) : 0;
    for (size_t i = 0; i <= n && n; i++) {
        char c = i == n ? separator : text[i];
        bool fine = stack ? kb_vec_push(&p->stack, c) : kb_vec_push(&p->modules, c);
        p->out_of_memory |= !fine;
    }
}

void kineto_post_event_add_frame(kineto_post_event *event, const char *frame)
{
    append_post_text((kt_build_post *)(void *)event, true, frame, ';');
}

void kineto_post_event_add_module(kineto_post_event *event, const char *module)
{
    append_post_text((kt_build_post *)(void *)event, false, module, '.');
}

/* Stops the session; *trace is set only if `keep`. */
static kineto_status stop_profiler_session(kineto_profiler *p, bool keep, kineto_trace **trace,
                                           kineto_error *err)
{
    ks_extras *extras = ks_session_extras(p->session);
    extras->post = p->post ? call_post_process : NULL;
    extras->post_context = p;
    extras->last = p->last;
    set_header_wishes(&p->config.values, extras);
    return kineto_session_stop(p->session, keep ? trace : NULL, err);
}

/* The device times become the result's; a new start opens a fresh fallback. While a thread is stuck
 * in a callback the fallback stays with the profiler, which is never freed. */
static kineto_status hand_over_fallback(kineto_profiler *p, kineto_profiler_result *result,
                                        kineto_error *err)
{
    if (!p->fallback || p->stuck)
        return KINETO_OK;
    kineto_status status = kp_fallback_finish(p->fallback, err);
    bool cuda = p->config.values.state == KINETO_STATE_KINETO_GPU_FALLBACK;
    if (result) {
        result->fallback = p->fallback;
        result->fallback_device = cuda ? KINETO_DEVICE_CUDA : KINETO_DEVICE_PRIVATEUSE1;
    } else {
        kp_fallback_close(p->fallback);
    }
    p->fallback = NULL;
    return status;
}

kineto_status kineto_profiler_stop(kineto_profiler *p, kineto_profiler_result **out,
                                   kineto_error *err)
{
    if (out)
        *out = NULL;
    if (!p)
        return kb_fail_null(err, __func__, "profiler", p);
    if (!p->running)
        return kb_fail(err, KINETO_E_STATE, "the profiler is not running; start it first");
    p->running = false;
    if (p->config.values.experimental.record_python_gc_info)
        kb_add_relaxed(&kp_gc_requests, (uint32_t)-1);
    kineto_trace *trace = NULL;
    kineto_status status = KINETO_OK;
    /* The reverse of the order in which kineto_profiler_start began. */
    end_marks(p);
    if (p->session)
        status = stop_profiler_session(p, out != NULL, &trace, err);
    end_counters(p);
    kp_preempt_windows(p, false);
    kineto_profiler_result *result = out && !status ? kp_result_create(trace) : NULL;
    if (out && !status && !result)
        status = kb_fail_memory(err, NULL);
    kineto_status handed = hand_over_fallback(p, result, status ? NULL : err);
    status = status ? status : handed;
    if (status) {
        kineto_profiler_result_release(result);
        return status;
    }
    if (result) {
        result->exposes_metadata = p->config.values.experimental.expose_kineto_event_metadata;
        result->trace_only = p->config.values.experimental.trace_only;
        *out = result;
    }
    return KINETO_OK;
}

void kineto_profiler_set_post_process(kineto_profiler *p, kineto_post_process process, void *user)
{
    if (!p)
        return;
    p->post = process;
    p->post_user = user;
}

static kineto_status check_profiler_running(const kineto_profiler *p, const char *function,
                                            kineto_error *err)
{
    if (!p)
        return kb_fail_null(err, function, "profiler", p);
    return p->running ? KINETO_OK
                      : kb_fail(err, KINETO_E_STATE, "the profiler is not running; start it first");
}

kineto_status kineto_profiler_pause(kineto_profiler *p, bool paused, kineto_error *err)
{
    kineto_status status = check_profiler_running(p, __func__, err);
    if (status)
        return status;
    if (p->callback)
        status =
            paused ? kineto_function_disable(p->callback) : kineto_function_reenable(p->callback);
    return p->session ? kineto_session_pause(p->session, paused, err) : status;
}

/* Join or leave for session and callback alike: if the second fails, the first is undone. */
static kineto_status set_thread_taking_part(kineto_profiler *p, const char *function, bool in,
                                            kineto_error *err)
{
    kineto_status status = check_profiler_running(p, function, err);
    if (!status && p->global)
        status = kb_fail(err, KINETO_E_STATE,
                         "the profiler records all threads; none can join or leave");
    if (!status && p->session)
        status = in ? kineto_session_join(p->session, err) : kineto_session_leave(p->session, err);
    if (!status && p->callback) {
        (void)kb_lock_take(&p->lock, kb_os_self());
        status = set_membership(p, in, err);
        kb_lock_drop(&p->lock);
        if (status && in && p->session)
            (void)kineto_session_leave(p->session, NULL);
    }
    return status;
}

kineto_status kineto_profiler_join(kineto_profiler *p, kineto_error *err)
{
    return set_thread_taking_part(p, __func__, true, err);
}

kineto_status kineto_profiler_leave(kineto_profiler *p, kineto_error *err)
{
    return set_thread_taking_part(p, __func__, false, err);
}

void kineto_profiler_destroy(kineto_profiler *p)
{
    if (!p)
        return;
    if (p->running)
        (void)kineto_profiler_stop(p, NULL, NULL);
    if (p->stuck)
        return;
    kineto_session_destroy(p->session);
    kp_emission_free(p->emission);
    kp_fallback_close(p->fallback);
    kp_config_free(&p->config);
    free(p);
}

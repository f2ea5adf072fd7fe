/* A profiler by its handle: a session, or callbacks that mark operators elsewhere, or both. */
#include "profiler/profiler.h"
#include "profiler/emit.h"
#include "profiler/fallback.h"
#include "profiler/stubs.h"
#include "record/record.h"

/* ---- asking for things ------------------------------------------------------------------------ */

static kineto_status check(const kineto_profiler_config *c, uint32_t activities, uint32_t scopes,
                           kineto_error *err)
{
    if (activities >> KINETO_NUM_ACTIVITY_TYPES || scopes >> KINETO_NUM_SCOPES)
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "profiler: activities %#x or scopes %#x have bits that stand for nothing",
                       activities, scopes);
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

/* A text that is put together; it knows how long it would have become. */
typedef struct lines {
    char *out;
    size_t bytes, used;
} lines;

static void add(lines *t, const char *piece)
{
    size_t n = strlen(piece);
    if (t->used + n < t->bytes)
        memcpy(t->out + t->used, piece, n + 1);
    t->used += n;
}

static void add_line(lines *t, const char *key, const char *value)
{
    if (!value)
        return;
    add(t, key);
    add(t, "=");
    add(t, value);
    add(t, "\n");
}

static void add_metrics(lines *t, const kineto_experimental_config *x)
{
    add(t, "ACTIVITIES_WARMUP_PERIOD_SECS=0\nCUPTI_PROFILER_METRICS=");
    for (size_t i = 0; i < x->profiler_metric_count; i++) {
        add(t, i ? "," : "");
        add(t, x->profiler_metrics[i] ? x->profiler_metrics[i] : "");
    }
    add(t, "\n");
    add_line(t, "CUPTI_PROFILER_ENABLE_PER_KERNEL",
             x->profiler_measure_per_kernel ? "true" : "false");
}

/* What plug-ins are told, in the spelling of Kineto's own configuration. */
static kineto_status config_text(const kineto_profiler_config *c, char *out, size_t bytes,
                                 kineto_error *err)
{
    const kineto_experimental_config *x = &c->experimental;
    lines t = {out, bytes, 0};
    if (x->profiler_metric_count)
        add_metrics(&t, x);
    add_line(&t, "REQUEST_TRACE_ID", c->trace_id);
    add_line(&t, "REQUEST_GROUP_TRACE_ID", c->trace_id);
    add_line(&t, "CUSTOM_CONFIG", x->custom_profiler_config);
    if (t.used >= bytes)
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "profiler config: metrics, trace id and custom config have %zu bytes "
                       "together, %zu are possible",
                       t.used, bytes - 1);
    return KINETO_OK;
}

static kineto_status counters_prepare(kineto_profiler *p, kineto_error *err)
{
    const kineto_experimental_config *x = &p->config.values.experimental;
    kineto_error absent = {.code = KINETO_OK};
    kineto_status status =
        kineto_rt_counters_prepare(x->performance_events, x->performance_event_count, &p->counters,
                                   &absent, err);
    if (!status && absent.code)
        kineto_rt_note("counters", "not to be had here", 1, false, absent.message);
    return status;
}

/* The program's lines first: they were asked for. */
static void lines_add(const char *more, char *text, size_t bytes)
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

static kineto_status session_prepare(kineto_profiler *p, const kp_more *more, kineto_error *err)
{
    const kineto_profiler_config *c = &p->config.values;
    char text[KS_CONFIG_BYTES] = "";
    kineto_session_options options;
    ks_extras extras = {.no_privateuse1 = c->state != KINETO_STATE_KINETO_PRIVATEUSE1,
                        .counters = c->experimental.performance_event_count != 0,
                        .adjust_steps = c->experimental.adjust_profiler_step,
                        .no_links = !kineto_profiler_get_fwd_bwd()};
    kp_session_options(c, p->activities, p->scopes, &options);
    kineto_status status = config_text(c, text, sizeof text, err);
    if (more) {
        extras.no_privateuse1 = false;
        extras.armed = extras.grows = true;
        options.kinds = more->kinds;
        lines_add(more->lines, text, sizeof text);
    }
    options.custom_config = text[0] ? text : NULL;
    if (!status)
        status = ks_session_prepare(&options, &extras, &p->session, err);
    if (!status && extras.counters)
        status = counters_prepare(p, err);
    return status;
}

static kineto_status marks_prepare(kineto_profiler *p, kineto_error *err)
{
    const kineto_profiler_config *c = &p->config.values;
    uint64_t budget = c->buffer_bytes ? c->buffer_bytes : KS_BUFFER_BYTES;
    switch (c->state) {
    case KINETO_STATE_NVTX:
        return kp_emission_open(&kp_nvtx_emitter, c->report_input_shapes, &p->emission, err);
    case KINETO_STATE_ITT:
        return kp_emission_open(&kp_itt_emitter, c->report_input_shapes, &p->emission, err);
    case KINETO_STATE_KINETO_GPU_FALLBACK:
        return kp_fallback_open(KINETO_STUBS_CUDA, budget / 64, &p->fallback, err);
    case KINETO_STATE_KINETO_PRIVATEUSE1_FALLBACK:
        return kp_fallback_open(KINETO_STUBS_PRIVATEUSE1, budget / 64, &p->fallback, err);
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
                                 uint32_t scopes, const kp_more *more, kineto_profiler **out,
                                 kineto_error *err)
{
    if (!out)
        return kb_fail(err, KINETO_E_ARGUMENT, "kineto_profiler_create: out is NULL");
    *out = NULL;
    kineto_profiler *p = calloc(1, sizeof *p);
    if (!p)
        return kb_fail(err, KINETO_E_MEMORY, "out of memory");
    kineto_status status = kp_config_copy(config, &p->config, err);
    const kineto_profiler_config *c = &p->config.values;
    if (!status)
        status = check(c, activities, scopes, err);
    p->activities = activities;
    p->scopes = scopes;
    p->records = kp_state_records(c->state);
    p->global = kineto_profiler_config_push_global_callbacks(c);
    if (!status)
        status = marks_prepare(p, err);
    if (!status && p->records)
        status = session_prepare(p, more, err);
    if (status)
        kineto_profiler_destroy(p);
    else
        *out = p;
    return status;
}

/* ---- running ---------------------------------------------------------------------------------- */

/* Callbacks are for all threads, and look for theirs: whoever stops the profiler can remove them.
 */
static bool is_member(const kineto_profiler *p, uint64_t thread)
{
    uint32_t count = kb_load_acquire(&p->member_count);
    for (uint32_t i = 0; i < count; i++)
        if (kb_load_relaxed(&p->members[i]) == thread)
            return true;
    return false;
}

static char not_shown;

static void *on_enter(const kineto_function_view *f, void *user)
{
    const kineto_profiler *p = user;
    if (!p->global && !is_member(p, f->thread_id))
        return &not_shown;
    return p->marks.enter ? p->marks.enter(f, p->marks.user) : NULL;
}

static void on_exit_of(const kineto_function_view *f, void *context, void *user)
{
    const kineto_profiler *p = user;
    if (context != &not_shown && p->marks.exit)
        p->marks.exit(f, context, p->marks.user);
}

static void member_drop(kineto_profiler *p, uint32_t index)
{
    uint32_t last = p->member_count - 1;
    p->lives[index] = p->lives[last];
    kb_store_relaxed(&p->members[index], p->members[last]);
    kb_store_release(&p->member_count, last);
}

/* Threads that end do not say so. */
static KB_COLD void drop_ended(kineto_profiler *p)
{
    for (uint32_t i = p->member_count; i-- > 0;)
        if (p->lives[i].start_time && !kb_os_alive(p->lives[i].tid, p->lives[i].start_time))
            member_drop(p, i);
}

static kineto_status member_add(kineto_profiler *p, uint64_t thread, kineto_error *err)
{
    if (p->member_count == KP_MEMBERS)
        drop_ended(p);
    uint32_t count = p->member_count, tid = kb_os_tid();
    if (count == KP_MEMBERS)
        return kb_fail(err, KINETO_E_LIMIT, "%u threads are in the profiler already", KP_MEMBERS);
    p->lives[count] = (kp_life){kb_os_start_time(tid), tid};
    kb_store_relaxed(&p->members[count], thread);
    kb_store_release(&p->member_count, count + 1);
    return KINETO_OK;
}

static kineto_status member_set(kineto_profiler *p, bool in, kineto_error *err)
{
    uint64_t thread = kineto_function_thread_id();
    if (is_member(p, thread) == in)
        return kb_fail(err, KINETO_E_STATE,
                       in ? "the thread is in the profiler already"
                          : "the thread is not in the profiler");
    if (in)
        return member_add(p, thread, err);
    for (uint32_t i = p->member_count; i-- > 0;)
        if (p->members[i] == thread)
            member_drop(p, i);
    return KINETO_OK;
}

static kineto_status callback_add(kineto_profiler *p, kineto_error *err)
{
    if (p->emission)
        p->marks = kp_emission_callback(p->emission, p->scopes);
    else if (p->fallback)
        p->marks = kp_fallback_callback(p->fallback, p->scopes);
    else
        return KINETO_OK;
    kineto_function_callback c = p->marks;
    c.enter = on_enter;
    c.exit = on_exit_of;
    c.user = p;
    p->member_count = 0;
    kineto_status status = p->global ? KINETO_OK : member_set(p, true, err);
    return status ? status : kineto_function_add_global(&c, &p->callback, err);
}

static kineto_status counters_begin(kineto_profiler *p, kineto_error *err)
{
    kineto_status status =
        p->counters.count ? kineto_rt_counters_begin(&p->counters, err) : KINETO_OK;
    p->counts = p->counters.count && !status;
    return status;
}

/* When the session has stopped: others may count something else from then on. */
static void counters_end(kineto_profiler *p)
{
    if (p->counts)
        kineto_rt_counters_end();
    p->counts = false;
}

static void marks_end(kineto_profiler *p)
{
    if (p->callback && kineto_function_remove(p->callback) == KINETO_E_BUSY)
        p->stuck = true; /* a thread is inside and does not come back: what it uses stays */
    p->callback = 0;
    if (p->observed)
        (void)kp_observer_disable(NULL);
    p->observed = false;
}

uint32_t kp_gc_wishes;

kineto_status kineto_profiler_start(kineto_profiler *p, kineto_error *err)
{
    if (!p)
        return kb_fail(err, KINETO_E_ARGUMENT, "kineto_profiler_start: profiler is NULL");
    if (p->running)
        return kb_fail(err, KINETO_E_STATE, "the profiler runs already: stop it first");
    kineto_status status = p->fallback || p->emission ? KINETO_OK : marks_prepare(p, err);
    if (status)
        return status;
    kp_preempt(p, true);
    if (p->config.values.state == KINETO_STATE_PRIVATEUSE1) {
        status = kp_observer_enable(&p->config.values, p->scopes, err);
        p->observed = !status;
    }
    if (!status)
        status = callback_add(p, err);
    if (!status)
        status = counters_begin(p, err);
    if (!status && p->session)
        status = kineto_session_start(p->session, err);
    if (status) {
        marks_end(p);
        counters_end(p);
        kp_preempt(p, false);
    }
    p->running = !status;
    if (p->running && p->config.values.experimental.record_python_gc_info)
        kb_add_relaxed(&kp_gc_wishes, 1u);
    return status;
}

/* What was wished goes into the header, as PyTorch writes it. */
static void say_wishes(const kineto_profiler_config *c, ks_extras *extras)
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
}

static void post_call(void *context, int64_t debug_handle, kt_build_post *post)
{
    const kineto_profiler *p = context;
    p->post(debug_handle, (kineto_post_event *)(void *)post, p->post_user);
}

static void post_add(kt_build_post *p, bool stack, const char *text, char separator)
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
    post_add((kt_build_post *)(void *)event, true, frame, ';');
}

void kineto_post_event_add_module(kineto_post_event *event, const char *module)
{
    post_add((kt_build_post *)(void *)event, false, module, '.');
}

static kineto_status stop_session(kineto_profiler *p, bool keep, kineto_trace **trace,
                                  kineto_error *err)
{
    ks_extras *extras = ks_session_extras(p->session);
    extras->post = p->post ? post_call : NULL;
    extras->post_context = p;
    extras->last = p->last;
    say_wishes(&p->config.values, extras);
    return kineto_session_stop(p->session, keep ? trace : NULL, err);
}

/* Times of the device become the result's; fresh ones are prepared if the profiler begins again. */
static kineto_status fallback_hand_over(kineto_profiler *p, kineto_profiler_result *result,
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
        return kb_fail(err, KINETO_E_ARGUMENT, "kineto_profiler_stop: profiler is NULL");
    if (!p->running)
        return kb_fail(err, KINETO_E_STATE, "the profiler does not run: start it first");
    p->running = false;
    if (p->config.values.experimental.record_python_gc_info)
        kb_add_relaxed(&kp_gc_wishes, (uint32_t)-1);
    kineto_trace *trace = NULL;
    kineto_status status = KINETO_OK;
    marks_end(p);
    if (p->session)
        status = stop_session(p, out != NULL, &trace, err);
    counters_end(p);
    kp_preempt(p, false);
    kineto_profiler_result *result = out && !status ? kp_result_create(trace) : NULL;
    if (out && !status && !result)
        status = kb_fail(err, KINETO_E_MEMORY, "out of memory");
    kineto_status handed = fallback_hand_over(p, result, status ? NULL : err);
    status = status ? status : handed;
    if (status) {
        kineto_result_release(result);
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

static kineto_status check_running(const kineto_profiler *p, kineto_error *err)
{
    if (!p)
        return kb_fail(err, KINETO_E_ARGUMENT, "profiler is NULL");
    return p->running ? KINETO_OK
                      : kb_fail(err, KINETO_E_STATE, "the profiler does not run: start it first");
}

kineto_status kineto_profiler_pause(kineto_profiler *p, bool paused, kineto_error *err)
{
    kineto_status status = check_running(p, err);
    if (status)
        return status;
    if (p->callback)
        status =
            paused ? kineto_function_disable(p->callback) : kineto_function_reenable(p->callback);
    return p->session ? kineto_session_toggle(p->session, !paused, err) : status;
}

static kineto_status set_thread(kineto_profiler *p, bool in, kineto_error *err)
{
    kineto_status status = check_running(p, err);
    if (!status && p->global)
        status = kb_fail(err, KINETO_E_STATE, "the profiler is one of all threads");
    if (!status && p->session)
        status = in ? kineto_session_join(p->session, err) : kineto_session_leave(p->session, err);
    if (!status && p->callback) {
        (void)kb_lock_take(&p->lock, kb_os_self());
        status = member_set(p, in, err);
        kb_lock_drop(&p->lock);
        if (status && in && p->session)
            (void)kineto_session_leave(p->session, NULL);
    }
    return status;
}

kineto_status kineto_profiler_join(kineto_profiler *p, kineto_error *err)
{
    return set_thread(p, true, err);
}

kineto_status kineto_profiler_leave(kineto_profiler *p, kineto_error *err)
{
    return set_thread(p, false, err);
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

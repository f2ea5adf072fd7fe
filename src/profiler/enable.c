/* Profilers as PyTorch has them: one for each thread, one for all threads, found without a handle.
 */
#include "profiler/profiler.h"
#include "record/record.h"

#include <pthread.h>

/* Those that are enabled, the last first; and those that were prepared and not yet enabled. */
static kb_lock lock;
static kineto_profiler *enabled, *prepared;
static kineto_profiler *main_one; /* whom child threads join */
static uint32_t joinable;         /* for who asks without the lock */
static kineto_profiler *window;   /* a controller's: seen by who asks, ended by nobody else */

static uint32_t again; /* times that its holder took it once more: a plug-in asks from within */

static void take(void)
{
    if (!kb_lock_take(&lock, kb_os_self()))
        again++; /* read by who has the lock, only */
}

static void drop(void)
{
    if (again)
        again--;
    else
        kb_lock_drop(&lock);
}

static kineto_profiler *global_one(kineto_profiler *list)
{
    for (kineto_profiler *p = list; p; p = p->next)
        if (p->global)
            return p;
    return NULL;
}

static kineto_profiler *own_one(kineto_profiler *list, uint64_t thread)
{
    for (kineto_profiler *p = list; p; p = p->next)
        if (!p->global && p->owner == thread)
            return p;
    return NULL;
}

/* The last one that its thread left behind. */
static kineto_profiler *orphan_one(void)
{
    kineto_profiler *p = enabled;
    while (p && !p->orphan)
        p = p->next;
    return p;
}

static void list_add(kineto_profiler **list, kineto_profiler *p)
{
    p->next = *list;
    *list = p;
}

static void list_remove(kineto_profiler **list, kineto_profiler *p)
{
    for (; *list; list = &(*list)->next)
        if (*list == p) {
            *list = p->next;
            return;
        }
}

/* What is prepared on demand is for nobody else. */
static kineto_profiler *prepared_one(const kineto_profiler_config *config, uint64_t thread)
{
    bool on_demand = config->state == KINETO_STATE_KINETO_ONDEMAND;
    bool global = kineto_profiler_config_push_global_callbacks(config);
    for (kineto_profiler *p = prepared; p; p = p->next) {
        bool same = (p->config.values.state == KINETO_STATE_KINETO_ONDEMAND) == on_demand;
        if (p->global == global && (global ? same : p->owner == thread))
            return p;
    }
    return NULL;
}

/* The one that is meant by who has no handle. */
static kineto_profiler *current(void)
{
    kineto_profiler *p = global_one(enabled);
    if (!p)
        p = own_one(enabled, kineto_function_thread_id());
    if (!p)
        p = orphan_one();
    if (!p && enabled && !enabled->next)
        p = enabled;
    return p;
}

/* ---- threads that end with their own enabled, or prepared --------------------------------------- */

static pthread_key_t owner_key;
static bool has_owner_key;
static pthread_once_t owner_once = PTHREAD_ONCE_INIT;

static void owner_ended(void *number)
{
    take();
    for (kineto_profiler *p = enabled; p; p = p->next)
        p->orphan |= !p->global && p->owner == (uintptr_t)number;
    kineto_profiler *nobodys = own_one(prepared, (uintptr_t)number);
    if (nobodys)
        list_remove(&prepared, nobodys);
    drop();
    kineto_profiler_destroy(nobodys);
}

static void owner_key_make(void)
{
    has_owner_key = pthread_key_create(&owner_key, owner_ended) == 0;
}

static void owner_watch(const kineto_profiler *p)
{
    (void)pthread_once(&owner_once, owner_key_make);
    if (has_owner_key && !p->global)
        (void)pthread_setspecific(owner_key, (void *)(uintptr_t)p->owner);
}

/* ---- prepare and enable ------------------------------------------------------------------------- */

/* Programs of other versions have less, or more: what is known here of a config, with the size that
 * says whether there is more. */
static kineto_profiler_config known_part(const kineto_profiler_config *config)
{
    kineto_profiler_config c;
    kineto_profiler_config_init(&c, KINETO_STATE_DISABLED);
    memcpy(&c, config, KB_MIN(config->size, sizeof c));
    c.size = KB_MAX(config->size, sizeof c);
    return c;
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_texts(const char *const *a, size_t a_count, const char *const *b, size_t b_count)
{
    bool same = a_count == b_count;
    for (size_t i = 0; i < a_count && same; i++)
        same = a && b && same_text(a[i], b[i]);
    return same;
}

static bool same_experimental(const kineto_experimental_config *a,
                              const kineto_experimental_config *b)
{
    return same_texts(a->profiler_metrics, a->profiler_metric_count, b->profiler_metrics,
                      b->profiler_metric_count) &&
           same_texts(a->performance_events, a->performance_event_count, b->performance_events,
                      b->performance_event_count) &&
           same_text(a->custom_profiler_config, b->custom_profiler_config) &&
           a->profiler_measure_per_kernel == b->profiler_measure_per_kernel &&
           a->verbose == b->verbose && a->enable_cuda_sync_events == b->enable_cuda_sync_events &&
           a->adjust_profiler_step == b->adjust_profiler_step &&
           a->disable_external_correlation == b->disable_external_correlation &&
           a->profile_all_threads == b->profile_all_threads &&
           a->capture_overload_names == b->capture_overload_names &&
           a->record_python_gc_info == b->record_python_gc_info &&
           a->expose_kineto_event_metadata == b->expose_kineto_event_metadata &&
           a->adjust_timestamps == b->adjust_timestamps && a->trace_only == b->trace_only;
}

/* Is it the profiler that is now asked for?  A newer one may have more, which is not compared. */
static bool is_for(const kineto_profiler *p, const kineto_profiler_config *c, uint32_t activities)
{
    const kineto_profiler_config *v = &p->config.values;
    return c->size == sizeof *c && v->state == c->state && p->activities == activities &&
           v->report_input_shapes == c->report_input_shapes &&
           v->profile_memory == c->profile_memory && v->with_stack == c->with_stack &&
           v->with_flops == c->with_flops && v->with_modules == c->with_modules &&
           v->buffer_bytes == c->buffer_bytes && v->retention == c->retention &&
           v->record_tensor_ids == c->record_tensor_ids && same_text(v->trace_id, c->trace_id) &&
           same_experimental(&v->experimental, &c->experimental);
}

static kineto_status make(const kineto_profiler_config *config, uint32_t activities,
                          uint32_t scopes, kineto_profiler **out, kineto_error *err)
{
    kineto_status status = kineto_profiler_create(config, activities, scopes, out, err);
    if (!status)
        (*out)->owner = kineto_function_thread_id();
    return status;
}

/* In place of the one that was prepared for the same before. */
static kineto_status prepare(const kineto_profiler_config *config, uint32_t activities,
                             uint32_t scopes, kineto_error *err)
{
    kineto_profiler *p, *before;
    kineto_status status = make(config, activities, scopes, &p, err);
    if (status)
        return status;
    owner_watch(p);
    take();
    before = prepared_one(&p->config.values, p->owner);
    if (before)
        list_remove(&prepared, before);
    list_add(&prepared, p);
    drop();
    kineto_profiler_destroy(before);
    return KINETO_OK;
}

kineto_status kineto_profiler_prepare(const kineto_profiler_config *config, uint32_t activities,
                                      kineto_error *err)
{
    if (!config)
        return kb_fail(err, KINETO_E_ARGUMENT, "kineto_profiler_prepare: config is NULL");
    uint32_t state = known_part(config).state;
    if (state == KINETO_STATE_NVTX || state == KINETO_STATE_ITT)
        return KINETO_OK;
    if (state < KINETO_STATE_KINETO || state == KINETO_STATE_KINETO_ONDEMAND)
        return kb_fail(err, KINETO_E_UNSUPPORTED, "Supported only in Kineto profiler");
    return prepare(config, activities, 0, err);
}

/* What was prepared for this, if it still fits. */
static kineto_profiler *take_prepared(const kineto_profiler_config *config, uint32_t activities,
                                      uint32_t scopes)
{
    take();
    kineto_profiler *p = prepared_one(config, kineto_function_thread_id());
    if (p)
        list_remove(&prepared, p);
    drop();
    if (p && !scopes && is_for(p, config, activities))
        return p;
    kineto_profiler_destroy(p);
    return NULL;
}

/* With the lock held. */
static bool is_taken(bool global, uint64_t thread)
{
    return global ? global_one(enabled) != NULL : own_one(enabled, thread) != NULL;
}

static kineto_status refuse(const kineto_profiler_config *config, kineto_error *err)
{
    return kb_fail(err, KINETO_E_STATE, "Profiler is already enabled%s",
                   kineto_profiler_config_global(config) ? "." : " on this thread.");
}

static kineto_status already(const kineto_profiler_config *config, kineto_error *err)
{
    bool global = kineto_profiler_config_push_global_callbacks(config);
    take();
    bool is = is_taken(global, kineto_function_thread_id());
    drop();
    return is ? refuse(config, err) : KINETO_OK;
}

static bool has_cpu(const kineto_profiler *p)
{
    uint32_t state = p->config.values.state;
    return p->records && (p->activities & KINETO_ACTIVITY_SET(CPU) || state == KINETO_STATE_CPU ||
                          state == KINETO_STATE_CUDA);
}

/* False: another thread's came first, since `already` looked. */
static bool publish(kineto_profiler *p)
{
    take();
    bool first = !is_taken(p->global, p->owner);
    if (first)
        list_add(&enabled, p);
    if (first && has_cpu(p)) {
        main_one = p;
        kb_store_release(&joinable, 1u);
    }
    drop();
    return first;
}

static kineto_status start_and_publish(kineto_profiler *p, kineto_error *err)
{
    kineto_status status = kineto_profiler_start(p, err);
    owner_watch(p);
    if (!status && !publish(p))
        status = refuse(&p->config.values, err);
    if (status)
        kineto_profiler_destroy(p);
    return status;
}

static kineto_status enable(const kineto_profiler_config *config, uint32_t activities,
                            uint32_t scopes, kineto_post_process post, void *user,
                            kineto_error *err)
{
    if (!config)
        return kb_fail(err, KINETO_E_ARGUMENT, "kineto_profiler_enable: config is NULL");
    kineto_profiler_config known = known_part(config);
    kineto_status status = already(&known, err);
    kineto_profiler *p = status ? NULL : take_prepared(&known, activities, scopes);
    if (!status && !p)
        status = make(config, activities, scopes, &p, err);
    if (status)
        return status;
    kineto_profiler_set_post_process(p, post, user);
    return start_and_publish(p, err);
}

void kp_window_show(kineto_profiler *p)
{
    take();
    window = p;
    drop();
}

kineto_status kineto_profiler_enable(const kineto_profiler_config *config, uint32_t activities,
                                     uint32_t scopes, kineto_error *err)
{
    return enable(config, activities, scopes, NULL, NULL, err);
}

kineto_status kineto_profiler_enable_with_post_process(const kineto_profiler_config *config,
                                                       uint32_t activities,
                                                       kineto_post_process process, void *user,
                                                       uint32_t scopes, kineto_error *err)
{
    if (!config)
        return kb_fail(err, KINETO_E_ARGUMENT, "kineto_profiler_enable: config is NULL");
    uint32_t state = known_part(config).state;
    if (state == KINETO_STATE_KINETO_ONDEMAND)
        return kb_fail(err, KINETO_E_UNSUPPORTED,
                       "On-demand profiling does not support post processing callback");
    if (state < KINETO_NUM_PROFILER_STATES && !kp_state_records(state))
        return kb_fail(err, KINETO_E_UNSUPPORTED, "%s does not support post processing callback.",
                       kineto_profiler_state_name((kineto_profiler_state)state));
    return enable(config, activities, scopes, process, user, err);
}

/* ---- disable ------------------------------------------------------------------------------------ */

static kineto_profiler *withdraw(void)
{
    take();
    kineto_profiler *p = current();
    if (p) {
        list_remove(&enabled, p);
        if (main_one == p)
            main_one = NULL;
        for (kineto_profiler *q = enabled; q && !main_one; q = q->next)
            main_one = has_cpu(q) ? q : NULL;
        kb_store_release(&joinable, main_one != NULL);
    }
    drop();
    return p;
}

/* ---- on demand ---------------------------------------------------------------------------------- */

static kineto_ondemand_ready ready;
static void *ready_user;
static uint64_t steps;

void kineto_ondemand_set_ready(kineto_ondemand_ready function, void *user)
{
    take();
    ready = function;
    ready_user = user;
    drop();
}

/* Its trace is for who drives it. */
void kp_ondemand_hand_over(const kineto_trace *trace)
{
    take();
    kineto_ondemand_ready function = ready;
    void *user = ready_user;
    drop();
    if (function && trace)
        function(trace, user);
}

static kineto_status stop_ondemand(kineto_profiler *p, kineto_profiler_result **out,
                                   kineto_error *err)
{
    kineto_profiler_result *result = NULL;
    kineto_status status = kineto_profiler_stop(p, &result, err);
    if (!status)
        kp_ondemand_hand_over(kineto_result_trace(result));
    kineto_result_release(result);
    if (!status && out) {
        *out = kp_result_create(NULL);
        if (!*out)
            status = kb_fail(err, KINETO_E_MEMORY, "out of memory");
    }
    return status;
}

kineto_status kineto_profiler_disable(kineto_profiler_result **out, kineto_error *err)
{
    if (out)
        *out = NULL;
    kineto_profiler *p = withdraw();
    if (!p)
        return kb_fail(err, KINETO_E_STATE, "Can't disable Kineto profiler when it's not running");
    p->last = true;
    kineto_status status = p->config.values.state == KINETO_STATE_KINETO_ONDEMAND
                               ? stop_ondemand(p, out, err)
                               : kineto_profiler_stop(p, out, err);
    kineto_profiler_destroy(p);
    return status;
}

kineto_status kineto_ondemand_prepare(const kineto_profiler_config *config, kineto_error *err)
{
    kineto_profiler_config c;
    if (!config)
        return kb_fail(err, KINETO_E_ARGUMENT, "kineto_ondemand_prepare: config is NULL");
    kineto_profiler_config_init(&c, KINETO_STATE_KINETO_ONDEMAND);
    kineto_status status = kb_options_read(&c, sizeof c, config, "kineto_ondemand_prepare", err);
    if (status)
        return status;
    c.state = KINETO_STATE_KINETO_ONDEMAND;
    uint32_t scopes = 1u << KINETO_SCOPE_FUNCTION | 1u << KINETO_SCOPE_USER_SCOPE |
                      1u << KINETO_SCOPE_BACKWARD_FUNCTION;
    return prepare(&c, KINETO_ACTIVITY_SET(CPU), scopes, err);
}

kineto_status kineto_ondemand_start(kineto_error *err)
{
    kineto_profiler_config wanted;
    kineto_profiler_config_init(&wanted, KINETO_STATE_KINETO_ONDEMAND);
    take();
    kineto_profiler *p = prepared_one(&wanted, 0);
    bool busy = global_one(enabled) || window;
    if (p && !busy)
        list_remove(&prepared, p);
    else
        p = NULL;
    drop();
    if (busy)
        return kb_fail(err, KINETO_E_STATE, "Profiler is already enabled.");
    if (!p)
        return kb_fail(err, KINETO_E_STATE, "on-demand profiling was not prepared");
    return start_and_publish(p, err);
}

kineto_status kineto_ondemand_stop(kineto_error *err)
{
    take();
    kineto_profiler *p = global_one(enabled);
    bool is = p && p->config.values.state == KINETO_STATE_KINETO_ONDEMAND;
    drop();
    return is ? kineto_profiler_disable(NULL, err)
              : kb_fail(err, KINETO_E_STATE, "on-demand profiling does not run");
}

void kineto_profiler_step(void)
{
    kb_add_relaxed(&steps, 1);
    kineto_step();
}

uint64_t kineto_profiler_step_count(void) { return kb_load_relaxed(&steps); }

/* ---- while it runs ------------------------------------------------------------------------------ */

kineto_status kineto_profiler_toggle_collection_dynamic(bool on, uint32_t activities,
                                                        kineto_error *err)
{
    if (!activities || activities >> KINETO_NUM_ACTIVITY_TYPES)
        return kb_fail(err, KINETO_E_ARGUMENT, "No activities specified.");
    take();
    kineto_profiler *p = current();
    kineto_status status =
        p ? kineto_profiler_pause(p, !on, err)
          : kb_fail(err, KINETO_E_STATE, "there is no profiler to be paused or to go on");
    drop();
    return status;
}

bool kineto_profiler_is_enabled_in_main_thread(void) { return kb_load_acquire(&joinable) != 0; }

kineto_status kineto_profiler_enable_in_child_thread(kineto_error *err)
{
    kineto_status status = KINETO_E_STATE;
    take();
    bool is = main_one != NULL;
    if (is && !main_one->global)
        status = kineto_profiler_join(main_one, err);
    drop();
    if (status != KINETO_E_STATE)
        return status;
    return kb_fail(err, KINETO_E_STATE,
                   is ? "Profiler is already enabled in this thread."
                      : "Profiler is not enabled in main thread.");
}

kineto_status kineto_profiler_disable_in_child_thread(kineto_error *err)
{
    take();
    bool left = main_one && !main_one->global && !kineto_profiler_leave(main_one, NULL);
    drop();
    return left ? KINETO_OK
                : kb_fail(err, KINETO_E_STATE,
                          "Can't disable Kineto profiler when it's not running in this thread");
}

/* ---- questions ---------------------------------------------------------------------------------- */

bool kineto_profiler_enabled(void) { return kineto_profiler_type() != KINETO_ACTIVE_NONE; }

kineto_active_profiler kineto_profiler_type(void)
{
    take();
    kineto_profiler *p = global_one(enabled);
    if (!p)
        p = own_one(enabled, kineto_function_thread_id());
    if (!p)
        p = window;
    kineto_active_profiler type = p ? kp_state_active(p->config.values.state) : KINETO_ACTIVE_NONE;
    drop();
    return type;
}

kineto_status kineto_profiler_get_config(kineto_profiler_config *out, kineto_error *err)
{
    kineto_status status = kp_config_sized(out, err);
    if (status)
        return status;
    take();
    const kineto_profiler *p = current();
    if (!p)
        p = window;
    if (p)
        kp_config_give(&p->config.values, out);
    drop();
    return p ? KINETO_OK
             : kb_fail(err, KINETO_E_STATE,
                       "Tried to access profiler config, but profiler is not enabled!");
}

/* ---- reports ------------------------------------------------------------------------------------ */

void kineto_profiler_report_backend_event_ns(int64_t start_ns, int64_t end_ns, int64_t debug_handle,
                                             kineto_scope scope, const char *name,
                                             const char *backend)
{
    if ((uint32_t)scope < KINETO_NUM_SCOPES)
        kineto_rt_backend_event(start_ns, end_ns, debug_handle, (uint32_t)scope, name, backend);
}

KINETO_SITE(site_gc, KINETO_KIND_PYTHON_FUNCTION, "Python GC");

void kineto_profiler_report_gc(bool begin)
{
    static __thread kineto_range open;
    if (!begin) {
        kineto_range_end(open);
        open = 0;
    } else if (!open && kineto_enabled(KINETO_KIND_PYTHON_FUNCTION) &&
               kb_load_relaxed(&kp_gc_wishes)) {
        open = kineto_range_begin(&site_gc);
    }
}

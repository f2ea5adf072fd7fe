/* Profilers as PyTorch has them, without a handle: one for each thread, or one for all threads.
 * This file keeps the registry of enabled and prepared profilers, decides which of them a call
 * without a handle means, and reports the configuration of that one. All lists are guarded by
 * `registry`; a profiler that is in a list is owned by it. Starting and stopping happens in
 * profiler.c, outside the lock. */
#include "profiler/profiler.h"
#include "record/record.h"

#include <pthread.h>

/* Guards all of the following. */
static kb_lock registry;
/* Linked by kineto_profiler.next, the newest first. A profiler is in at most one of the two. */
static kineto_profiler *enabled, *prepared;
/* The profiler that child threads join: the newest enabled one that records operators. */
static kineto_profiler *joinable_profiler;
/* Whether there is one; atomic, read without the lock. */
static uint32_t has_joinable;
/* The window of an on-demand controller, which alone ends it; here only to answer queries. */
static kineto_profiler *ondemand_window;
/* How often the holder of the lock took it again: a plug-in may query from within a callback. Only
 * the holder reads and writes it. */
static uint32_t registry_reentries;

static void lock_registry(void)
{
    if (!kb_lock_take(&registry, kb_os_self()))
        registry_reentries++;
}

static void unlock_registry(void)
{
    KB_ASSERT(kb_load_relaxed(&registry.owner) == kb_os_self());
    if (registry_reentries)
        registry_reentries--;
    else
        kb_lock_drop(&registry);
}

/* The profiler of all threads in a list; NULL: none. There is at most one in `enabled`. */
static kineto_profiler *find_global_profiler(kineto_profiler *list)
{
    for (kineto_profiler *p = list; p; p = p->next)
        if (p->global)
            return p;
    return NULL;
}

/* The profiler that a thread has for itself in a list; NULL: none. */
static kineto_profiler *find_thread_profiler(kineto_profiler *list, uint64_t thread)
{
    for (kineto_profiler *p = list; p; p = p->next)
        if (!p->global && p->owner == thread)
            return p;
    return NULL;
}

/* The newest enabled profiler whose owner thread has ended; NULL: none. Any thread may disable such
 * a profiler. */
static kineto_profiler *find_orphaned_profiler(void)
{
    kineto_profiler *p = enabled;
    while (p && !p->orphan)
        p = p->next;
    return p;
}

/* Hands a profiler to a list. The caller holds the lock and gives up ownership. */
static void push_profiler(kineto_profiler **list, kineto_profiler *p)
{
    KB_ASSERT(p && !p->next);
    p->next = *list;
    *list = p;
}

/* Takes a profiler out of a list, to the caller's ownership; does nothing if it is not there. */
static void remove_profiler(kineto_profiler **list, kineto_profiler *p)
{
    for (; *list; list = &(*list)->next)
        if (*list == p) {
            *list = p->next;
            p->next = NULL;
            return;
        }
}

/* A prepared profiler that a new one with this config would use or replace; NULL: none. A profiler
 * that is prepared for on-demand use serves only on-demand use. */
static kineto_profiler *find_prepared_profiler(const kineto_profiler_config *config,
                                               uint64_t thread)
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

/* The profiler that a call without a handle means: that of all threads, else that of the calling
 * thread, else an orphan, else the only one there is. The caller holds the lock. */
static kineto_profiler *find_current_profiler(void)
{
    kineto_profiler *p = find_global_profiler(enabled);
    if (!p)
        p = find_thread_profiler(enabled, kineto_function_thread_id());
    if (!p)
        p = find_orphaned_profiler();
    if (!p && enabled && !enabled->next)
        p = enabled;
    return p;
}

/* ---- threads that end with their own enabled, or prepared ------------------------------------ */

static pthread_key_t owner_key;
static bool has_owner_key;
static pthread_once_t owner_once = PTHREAD_ONCE_INIT;

/* Destructor of the thread-specific value: profilers that the thread enabled become orphans, one
 * that it only prepared is destroyed. */
static void on_owner_thread_exit(void *number)
{
    lock_registry();
    for (kineto_profiler *p = enabled; p; p = p->next)
        p->orphan |= !p->global && p->owner == (uintptr_t)number; /* never cleared */
    kineto_profiler *abandoned = find_thread_profiler(prepared, (uintptr_t)number);
    if (abandoned)
        remove_profiler(&prepared, abandoned);
    unlock_registry();
    kineto_profiler_destroy(abandoned);
}

static void create_owner_key(void)
{
    has_owner_key = pthread_key_create(&owner_key, on_owner_thread_exit) == 0;
}

/* Registers the exit handler of the thread that owns a profiler. Without a key (the process has
 * used them all up) orphans stay unknown, which only makes them harder to find. */
static void watch_owner_thread(const kineto_profiler *p)
{
    (void)pthread_once(&owner_once, create_owner_key);
    if (has_owner_key && !p->global)
        (void)pthread_setspecific(owner_key, (void *)(uintptr_t)p->owner);
}

/* ---- prepare and enable ---------------------------------------------------------------------- */

/* The members of a config that this version knows, defaults for members that an older program does
 * not have. A size larger than ours is kept, so that the caller sees that there is more. */
static kineto_profiler_config copy_known_config(const kineto_profiler_config *config)
{
    kineto_profiler_config c;
    kineto_profiler_config_init(&c, KINETO_STATE_DISABLED);
    memcpy(&c, config, KB_MIN(config->size, sizeof c));
    c.size = KB_MAX(config->size, sizeof c);
    return c;
}

static bool is_same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool are_same_texts(const char *const *a, size_t a_count, const char *const *b,
                           size_t b_count)
{
    bool same = a_count == b_count;
    for (size_t i = 0; i < a_count && same; i++)
        same = a && b && is_same_text(a[i], b[i]);
    return same;
}

/* Every member of a config but its size, by how it is compared: a value, a text, or a list of texts
 * with its count. A member that is missing here would let a prepared profiler pass for another one;
 * configs grow at their end only and `size` must distinguish versions, so that the assertion below
 * fails for each new member. */
#define CONFIG_MEMBERS(VALUE, TEXT, TEXTS)                                                         \
    VALUE(state)                                                                                   \
    VALUE(report_input_shapes)                                                                     \
    VALUE(profile_memory)                                                                          \
    VALUE(with_stack)                                                                              \
    VALUE(with_flops)                                                                              \
    VALUE(with_modules)                                                                            \
    TEXTS(experimental.profiler_metrics, experimental.profiler_metric_count)                       \
    VALUE(experimental.profiler_measure_per_kernel)                                                \
    VALUE(experimental.verbose)                                                                    \
    TEXTS(experimental.performance_events, experimental.performance_event_count)                   \
    VALUE(experimental.enable_cuda_sync_events)                                                    \
    VALUE(experimental.adjust_profiler_step)                                                       \
    VALUE(experimental.disable_external_correlation)                                               \
    VALUE(experimental.profile_all_threads)                                                        \
    VALUE(experimental.capture_overload_names)                                                     \
    VALUE(experimental.record_python_gc_info)                                                      \
    VALUE(experimental.expose_kineto_event_metadata)                                               \
    TEXT(experimental.custom_profiler_config)                                                      \
    VALUE(experimental.adjust_timestamps)                                                          \
    VALUE(experimental.trace_only)                                                                 \
    TEXT(trace_id)                                                                                 \
    VALUE(buffer_bytes)                                                                            \
    VALUE(retention)                                                                               \
    VALUE(record_tensor_ids)
_Static_assert(sizeof(void *) != 8 || sizeof(kineto_profiler_config) == 112,
               "a config has a new member: add it to CONFIG_MEMBERS");

static bool is_same_config(const kineto_profiler_config *a, const kineto_profiler_config *b)
{
#define VALUE(member)      &&a->member == b->member
#define TEXT(member)       &&is_same_text(a->member, b->member)
#define TEXTS(list, count) &&are_same_texts(a->list, a->count, b->list, b->count)
    return true CONFIG_MEMBERS(VALUE, TEXT, TEXTS);
#undef VALUE
#undef TEXT
#undef TEXTS
}

/* True if a prepared profiler is the one that is now requested. A config of a newer program has
 * members that cannot be compared: then it is not. */
static bool is_prepared_for(const kineto_profiler *p, const kineto_profiler_config *c,
                            uint32_t activities)
{
    return c->size == sizeof *c && p->activities == activities &&
           is_same_config(&p->config.values, c);
}

/* kineto_profiler_create for the calling thread, which becomes the owner. */
static kineto_status create_owned_profiler(const kineto_profiler_config *config,
                                           uint32_t activities, uint32_t scopes,
                                           kineto_profiler **out, kineto_error *err)
{
    kineto_status status = kineto_profiler_create(config, activities, scopes, out, err);
    if (!status)
        (*out)->owner = kineto_function_thread_id();
    return status;
}

/* Prepares a profiler in place of one that was prepared for the same use before. The old one is
 * destroyed after the lock is dropped: that may call plug-ins. */
static kineto_status replace_prepared_profiler(const kineto_profiler_config *config,
                                               uint32_t activities, uint32_t scopes,
                                               kineto_error *err)
{
    kineto_profiler *p, *before;
    kineto_status status = create_owned_profiler(config, activities, scopes, &p, err);
    if (status)
        return status;
    watch_owner_thread(p);
    lock_registry();
    before = find_prepared_profiler(&p->config.values, p->owner);
    if (before)
        remove_profiler(&prepared, before);
    push_profiler(&prepared, p);
    unlock_registry();
    kineto_profiler_destroy(before);
    return KINETO_OK;
}

kineto_status kineto_profiler_prepare(const kineto_profiler_config *config, uint32_t activities,
                                      kineto_error *err)
{
    if (!config)
        return kb_fail_null(err, __func__, "config", config);
    uint32_t state = copy_known_config(config).state;
    if (state == KINETO_STATE_NVTX || state == KINETO_STATE_ITT)
        return KINETO_OK;
    if (state < KINETO_STATE_KINETO || state == KINETO_STATE_KINETO_ONDEMAND)
        return kb_fail(err, KINETO_E_UNSUPPORTED, "Supported only in Kineto profiler");
    return replace_prepared_profiler(config, activities, 0, err);
}

/* Takes out the prepared profiler for this use. Returns it if it matches the request (`scopes`
 * cannot be prepared); else destroys it and returns NULL. */
static kineto_profiler *take_matching_prepared(const kineto_profiler_config *config,
                                               uint32_t activities, uint32_t scopes)
{
    lock_registry();
    kineto_profiler *p = find_prepared_profiler(config, kineto_function_thread_id());
    if (p)
        remove_profiler(&prepared, p);
    unlock_registry();
    if (p && !scopes && is_prepared_for(p, config, activities))
        return p;
    kineto_profiler_destroy(p);
    return NULL;
}

/* True if a profiler of this reach is enabled: of all threads, or of this thread. The caller holds
 * the lock. */
static bool has_enabled_profiler(bool global, uint64_t thread)
{
    return global ? find_global_profiler(enabled) != NULL
                  : find_thread_profiler(enabled, thread) != NULL;
}

/* PyTorch's message, which differs in its end for profilers of all threads. */
static kineto_status fail_already_enabled(const kineto_profiler_config *config, kineto_error *err)
{
    return kb_fail(err, KINETO_E_STATE, "Profiler is already enabled%s",
                   kineto_profiler_config_global(config) ? "." : " on this thread.");
}

/* Early check before a profiler is built. publish_profiler decides, under the lock. */
static kineto_status check_not_enabled(const kineto_profiler_config *config, kineto_error *err)
{
    bool global = kineto_profiler_config_push_global_callbacks(config);
    lock_registry();
    bool is_enabled = has_enabled_profiler(global, kineto_function_thread_id());
    unlock_registry();
    return is_enabled ? fail_already_enabled(config, err) : KINETO_OK;
}

/* True if the profiler records operators, which is what child threads can join. */
static bool profiles_cpu(const kineto_profiler *p)
{
    uint32_t state = p->config.values.state;
    return p->records && (p->activities & KINETO_ACTIVITY_SET(CPU) || state == KINETO_STATE_CPU ||
                          state == KINETO_STATE_CUDA);
}

/* Adds a started profiler to the enabled ones. False if another thread enabled one of the same
 * reach since check_not_enabled: `p` still belongs to the caller. */
static bool publish_profiler(kineto_profiler *p)
{
    lock_registry();
    bool first = !has_enabled_profiler(p->global, p->owner);
    if (first)
        push_profiler(&enabled, p);
    if (first && profiles_cpu(p)) {
        joinable_profiler = p;
        kb_store_release(&has_joinable, 1u);
    }
    unlock_registry();
    return first;
}

/* Starts `p` and publishes it; destroys it if either fails. */
static kineto_status start_and_publish_profiler(kineto_profiler *p, kineto_error *err)
{
    kineto_status status = kineto_profiler_start(p, err);
    watch_owner_thread(p);
    if (!status && !publish_profiler(p))
        status = fail_already_enabled(&p->config.values, err);
    if (status)
        kineto_profiler_destroy(p);
    return status;
}

/* The common part of all kineto_profiler_enable…: uses the prepared profiler if there is one that
 * matches, else creates one. */
static kineto_status enable_profiler(const kineto_profiler_config *config, uint32_t activities,
                                     uint32_t scopes, kineto_post_process post, void *user,
                                     kineto_error *err)
{
    if (!config)
        return kb_fail_null(err, "kineto_profiler_enable", "config", config);
    kineto_profiler_config known = copy_known_config(config);
    kineto_status status = check_not_enabled(&known, err);
    kineto_profiler *p = status ? NULL : take_matching_prepared(&known, activities, scopes);
    if (!status && !p)
        status = create_owned_profiler(config, activities, scopes, &p, err);
    if (status)
        return status;
    kineto_profiler_set_post_process(p, post, user);
    return start_and_publish_profiler(p, err);
}

void kp_window_set_reported(kineto_profiler *p)
{
    lock_registry();
    ondemand_window = p;
    unlock_registry();
}

kineto_status kineto_profiler_enable(const kineto_profiler_config *config, uint32_t activities,
                                     uint32_t scopes, kineto_error *err)
{
    return enable_profiler(config, activities, scopes, NULL, NULL, err);
}

kineto_status kineto_profiler_enable_with_post_process(const kineto_profiler_config *config,
                                                       uint32_t activities,
                                                       kineto_post_process process, void *user,
                                                       uint32_t scopes, kineto_error *err)
{
    if (!config)
        return kb_fail_null(err, __func__, "config", config);
    uint32_t state = copy_known_config(config).state;
    if (state == KINETO_STATE_KINETO_ONDEMAND)
        return kb_fail(err, KINETO_E_UNSUPPORTED,
                       "On-demand profiling does not support post processing callback");
    if (state < KINETO_NUM_PROFILER_STATES && !kp_state_records(state))
        return kb_fail(err, KINETO_E_UNSUPPORTED, "%s does not support post processing callback.",
                       kineto_profiler_state_name((kineto_profiler_state)state));
    return enable_profiler(config, activities, scopes, process, user, err);
}

/* ---- disable --------------------------------------------------------------------------------- */

/* Takes the current profiler out of the registry, to the caller's ownership, and chooses the next
 * one that child threads may join. NULL: none is enabled. */
static kineto_profiler *pop_current_profiler(void)
{
    lock_registry();
    kineto_profiler *p = find_current_profiler();
    if (p) {
        KB_ASSERT(p != prepared);
        remove_profiler(&enabled, p);
        if (joinable_profiler == p)
            joinable_profiler = NULL;
        for (kineto_profiler *q = enabled; q && !joinable_profiler; q = q->next)
            joinable_profiler = profiles_cpu(q) ? q : NULL;
        kb_store_release(&has_joinable, joinable_profiler != NULL);
    }
    unlock_registry();
    return p;
}

/* ---- on demand ------------------------------------------------------------------------------- */

static kineto_ondemand_ready ondemand_ready;
static void *ondemand_ready_user;
static uint64_t step_count;

void kineto_ondemand_set_ready(kineto_ondemand_ready function, void *user)
{
    lock_registry();
    ondemand_ready = function;
    ondemand_ready_user = user;
    unlock_registry();
}

/* The callback runs outside the lock: it may enable or disable profilers. */
void kp_ondemand_pass_trace(const kineto_trace *trace)
{
    lock_registry();
    kineto_ondemand_ready function = ondemand_ready;
    void *user = ondemand_ready_user;
    unlock_registry();
    if (function && trace)
        function(trace, user);
}

/* The trace of an on-demand profiler goes to the function of kineto_ondemand_set_ready; the caller
 * of disable gets an empty result. */
static kineto_status stop_ondemand_profiler(kineto_profiler *p, kineto_profiler_result **out,
                                            kineto_error *err)
{
    kineto_profiler_result *result = NULL;
    kineto_status status = kineto_profiler_stop(p, &result, err);
    if (!status)
        kp_ondemand_pass_trace(kineto_profiler_result_trace(result));
    kineto_profiler_result_release(result);
    if (!status && out) {
        *out = kp_result_create(NULL);
        if (!*out)
            status = kb_fail_memory(err, NULL);
    }
    return status;
}

kineto_status kineto_profiler_disable(kineto_profiler_result **out, kineto_error *err)
{
    if (out)
        *out = NULL;
    kineto_profiler *p = pop_current_profiler();
    if (!p)
        return kb_fail(err, KINETO_E_STATE, "Can't disable Kineto profiler when it's not running");
    p->last = true;
    kineto_status status = p->config.values.state == KINETO_STATE_KINETO_ONDEMAND
                               ? stop_ondemand_profiler(p, out, err)
                               : kineto_profiler_stop(p, out, err);
    kineto_profiler_destroy(p);
    return status;
}

kineto_status kineto_ondemand_prepare(const kineto_profiler_config *config, kineto_error *err)
{
    kineto_profiler_config c;
    if (!config)
        return kb_fail_null(err, __func__, "config", config);
    kineto_profiler_config_init(&c, KINETO_STATE_KINETO_ONDEMAND);
    kineto_status status = kb_options_read(&c, sizeof c, config, "kineto_ondemand_prepare", err);
    if (status)
        return status;
    c.state = KINETO_STATE_KINETO_ONDEMAND;
    uint32_t scopes = 1u << KINETO_SCOPE_FUNCTION | 1u << KINETO_SCOPE_USER_SCOPE |
                      1u << KINETO_SCOPE_BACKWARD_FUNCTION;
    return replace_prepared_profiler(&c, KINETO_ACTIVITY_SET(CPU), scopes, err);
}

kineto_status kineto_ondemand_start(kineto_error *err)
{
    kineto_profiler_config wanted;
    kineto_profiler_config_init(&wanted, KINETO_STATE_KINETO_ONDEMAND);
    lock_registry();
    kineto_profiler *p = find_prepared_profiler(&wanted, 0);
    bool busy = find_global_profiler(enabled) || ondemand_window;
    if (p && !busy)
        remove_profiler(&prepared, p);
    else
        p = NULL;
    unlock_registry();
    if (busy)
        return kb_fail(err, KINETO_E_STATE, "Profiler is already enabled.");
    if (!p)
        return kb_fail(err, KINETO_E_STATE,
                       "on-demand profiling is not prepared; call kineto_ondemand_prepare first");
    return start_and_publish_profiler(p, err);
}

kineto_status kineto_ondemand_stop(kineto_error *err)
{
    lock_registry();
    kineto_profiler *p = find_global_profiler(enabled);
    bool is_ondemand = p && p->config.values.state == KINETO_STATE_KINETO_ONDEMAND;
    unlock_registry();
    return is_ondemand ? kineto_profiler_disable(NULL, err)
                       : kb_fail(err, KINETO_E_STATE, "on-demand profiling is not running");
}

void kineto_profiler_step(void)
{
    kb_add_relaxed(&step_count, 1);
    kineto_step_mark();
}

uint64_t kineto_profiler_step_count(void) { return kb_load_relaxed(&step_count); }

/* ---- while it runs --------------------------------------------------------------------------- */

kineto_status kineto_profiler_pause_collection(bool paused, uint32_t activities,
                                                        kineto_error *err)
{
    if (!activities || activities >> KINETO_NUM_ACTIVITY_TYPES)
        return kb_fail(err, KINETO_E_ARGUMENT, "No activities specified.");
    lock_registry();
    kineto_profiler *p = find_current_profiler();
    kineto_status status =
        p ? kineto_profiler_pause(p, paused, err)
          : kb_fail(err, KINETO_E_STATE, "no profiler is enabled that could be paused or resumed");
    unlock_registry();
    return status;
}

bool kineto_profiler_is_enabled_in_main_thread(void) { return kb_load_acquire(&has_joinable) != 0; }

kineto_status kineto_profiler_enable_in_child_thread(kineto_error *err)
{
    kineto_status status = KINETO_E_STATE;
    lock_registry();
    bool can_join = joinable_profiler != NULL;
    if (can_join && !joinable_profiler->global)
        status = kineto_profiler_join(joinable_profiler, err);
    unlock_registry();
    if (status != KINETO_E_STATE)
        return status;
    return kb_fail(err, KINETO_E_STATE,
                   can_join ? "Profiler is already enabled in this thread."
                            : "Profiler is not enabled in main thread.");
}

kineto_status kineto_profiler_disable_in_child_thread(kineto_error *err)
{
    lock_registry();
    bool left = joinable_profiler && !joinable_profiler->global &&
                !kineto_profiler_leave(joinable_profiler, NULL);
    unlock_registry();
    return left ? KINETO_OK
                : kb_fail(err, KINETO_E_STATE,
                          "Can't disable Kineto profiler when it's not running in this thread");
}

/* ---- questions ------------------------------------------------------------------------------- */

bool kineto_profiler_enabled(void) { return kineto_profiler_type() != KINETO_ACTIVE_NONE; }

kineto_active_profiler kineto_profiler_type(void)
{
    lock_registry();
    kineto_profiler *p = find_global_profiler(enabled);
    if (!p)
        p = find_thread_profiler(enabled, kineto_function_thread_id());
    if (!p)
        p = ondemand_window;
    kineto_active_profiler type = p ? kp_state_active(p->config.values.state) : KINETO_ACTIVE_NONE;
    unlock_registry();
    return type;
}

bool kineto_profiler_config_get(kineto_profiler_config *out)
{
    if (!out || out->size < sizeof out->size)
        return false;
    lock_registry();
    const kineto_profiler *p = find_current_profiler();
    if (!p)
        p = ondemand_window;
    if (p)
        kp_config_write(&p->config.values, out);
    unlock_registry();
    return p != NULL;
}

/* ---- reports --------------------------------------------------------------------------------- */

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
               kb_load_relaxed(&kp_gc_requests)) {
        open = kineto_range_begin(&site_gc);
    }
}

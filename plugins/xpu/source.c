/* The session of the Intel source: views of PTI that are enabled and disabled, and the decoder that its
 * buffers go to. There is one session at a time. Calls of the host come one after the other, push and
 * pop on any thread, buffers on a thread of PTI, and the end of the program at any time.
 *
 * PTI has one user: who sets the callbacks last gets all buffers, also those of the user before, which
 * PyTorch's Kineto does not survive. If PTI has a user, the source stands aside; if another one comes,
 * the session ends first (xp_source_yield).
 *
 * Lock order: session_lock before the locks of buffers.c. PTI waits for its thread in a flush, which
 * takes those of buffers.c only. */
#include "xpu.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* SOURCE_OFF → (prepare) → SOURCE_READY → (start) → SOURCE_LIVE → (stop) → SOURCE_READY → (end) → OFF. */
typedef enum source_phase { SOURCE_OFF, SOURCE_READY, SOURCE_LIVE } source_phase;

static struct {
    source_phase phase;
    bool paused, has_callbacks; /* PTI calls us */
    uint32_t enabled;           /* bit per view */
    xp_options options;
    pid_t pid;
    const KinetoPlugin_TraceBuilder *builder;
} s;
static xp_decoder decoder;
static atomic_bool is_over; /* a fork made PTI unusable */
static pthread_once_t handlers_once = PTHREAD_ONCE_INIT;
static pthread_mutex_t session_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- operators ------------------------------------------------------------------------------- */

/* PTI has a stack of ids for each thread. Kineto uses the first two kinds. */
#define OPERATOR_KIND (XP_EXTERNAL_CUSTOM_0 + 3)
static atomic_bool wants_operators;
static _Thread_local uint32_t operator_depth;

void xp_operators_push(uint64_t id)
{
    if (atomic_load_explicit(&wants_operators, memory_order_acquire) &&
        xp_pti.push_external(OPERATOR_KIND, id) == XP_SUCCESS)
        operator_depth++;
}

/* Also after the session: what was pushed must not stay on PTI's stack. */
void xp_operators_pop(void)
{
    uint64_t last;
    if (!operator_depth || atomic_load(&is_over))
        return;
    operator_depth--;
    (void)xp_pti.pop_external(OPERATOR_KIND, &last);
}

/* ---- the clock ------------------------------------------------------------------------------- */

static uint64_t read_clock(clockid_t id)
{
    struct timespec t = {0, 0};
    (void)clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t read_raw_clock(void) { return read_clock(CLOCK_MONOTONIC_RAW); }
static uint64_t read_utc_clock(void) { return read_clock(CLOCK_REALTIME); }

/* PTI converts times of the device to a clock of the user's choice: the one that cannot be set.
 * Otherwise they are in UTC. */
static int32_t choose_pti_clock(void)
{
    if (xp_pti.set_timestamp && xp_pti.set_timestamp(read_raw_clock) == XP_SUCCESS)
        return KINETO_PLUGIN_CLOCK_MONOTONIC_RAW;
    return KINETO_PLUGIN_CLOCK_UTC;
}

/* The next user of PTI expects its default. */
static void restore_pti_clock(void)
{
    if (xp_pti.set_timestamp)
        (void)xp_pti.set_timestamp(read_utc_clock);
}

/* ---- views ----------------------------------------------------------------------------------- */

static const struct pti_view {
    int kind;
    int32_t type; /* of the activities; INVALID: always */
    const char *what;
} views[] = {
    {XP_VIEW_KERNEL, KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL, "kernels"},
    {XP_VIEW_COPY, KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMCPY, "copies"},
    {XP_VIEW_COPY_P2P, KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMCPY, "copies between devices"},
    {XP_VIEW_FILL, KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMSET, "fills"},
    {XP_VIEW_RUNTIME, KINETO_PLUGIN_PROFILE_EVENT_TYPE_RUNTIME, "calls of SYCL"},
    {XP_VIEW_DRIVER, KINETO_PLUGIN_PROFILE_EVENT_TYPE_DRIVER, "calls of Level Zero"},
    {XP_VIEW_SYNC, KINETO_PLUGIN_PROFILE_EVENT_TYPE_CUDA_SYNC, "synchronisation"},
    {XP_VIEW_COMMS, KINETO_PLUGIN_PROFILE_EVENT_TYPE_COLLECTIVE_COMM, "communication of oneCCL"},
    {XP_VIEW_OVERHEAD, KINETO_PLUGIN_PROFILE_EVENT_TYPE_OVERHEAD, "overhead of PTI"},
    {XP_VIEW_EXTERNAL, KINETO_PLUGIN_PROFILE_EVENT_TYPE_INVALID, "operators"},
};

static bool wants_view(const struct pti_view *v)
{
    if (v->kind == XP_VIEW_DRIVER && (!s.options.driver || xp_pti_version() < XP_VERSION_API))
        return false;
    if (v->kind == XP_VIEW_EXTERNAL)
        return xp_pti.push_external && xp_pti.pop_external;
    return s.options.types >> v->type & 1;
}

static void disable_all_views(void)
{
    for (size_t i = CP_COUNT(views); i-- > 0;)
        if (s.enabled >> views[i].kind & 1)
            (void)xp_pti.disable(views[i].kind);
    s.enabled = 0;
}

/* Like Kineto: of SYCL's calls those that submit work. */
static void select_runtime_calls(void)
{
    if (!s.options.all_runtime_calls && xp_pti.enable_runtime_class)
        (void)xp_pti.enable_runtime_class(1, XP_CLASS_GPU_CORE, XP_GROUP_ALL);
}

/* Only kernels are essential. */
static bool enable_all_views(char why[CP_TEXT_BYTES])
{
    char doing[96];
    for (size_t i = 0; i < CP_COUNT(views); i++) {
        if (!wants_view(&views[i]))
            continue;
        xp_status status = xp_pti.enable(views[i].kind);
        if (status == XP_SUCCESS) {
            s.enabled |= 1u << views[i].kind;
            continue;
        }
        snprintf(doing, sizeof doing, "%s cannot be recorded", views[i].what);
        xp_explain(status, doing, why);
        if (views[i].kind == XP_VIEW_KERNEL) {
            disable_all_views();
            return false;
        }
        cp_note(s.builder, "a kind of activity cannot be recorded", 1, false, "%s", why);
    }
    if (s.enabled >> XP_VIEW_RUNTIME & 1)
        select_runtime_calls();
    return true;
}

/* ---- other users of PTI ---------------------------------------------------------------------- */

/* A view that no version has is refused for its kind if callbacks are set, else for the lack of them. */
static bool is_pti_taken(void)
{
    enum { VIEW_OF_PROCESSORS = 2 };
    if (s.has_callbacks || xp_pti.enable(VIEW_OF_PROCESSORS) != XP_NOT_IMPLEMENTED)
        return false; /* without a GPU everything is refused like this */
    return xp_pti.local_available && xp_pti.local_available() != XP_NOT_IMPLEMENTED;
}

static void explain_taken(char why[CP_TEXT_BYTES])
{
    snprintf(why, CP_TEXT_BYTES,
             "another user of PTI is in this program (PyTorch's profiler, for example), and PTI has one "
             "at a time: this source stands aside");
}

/* PTI requests the first buffer at once. */
static bool set_pti_callbacks(char why[CP_TEXT_BYTES])
{
    xp_status status = xp_pti.set_callbacks(xp_buffers_request, xp_buffers_complete);
    s.has_callbacks = status == XP_SUCCESS;
    if (!s.has_callbacks)
        xp_explain(status, "this program's GPUs cannot be recorded", why);
    return s.has_callbacks;
}

/* ---- the end of a session -------------------------------------------------------------------- */

static void note_buffer_stats(const xp_buffer_stats *stats)
{
    if (stats->dropped)
        cp_note(s.builder, "records that had no buffer", stats->dropped, true,
                "all buffers were in use; set xpu.max_bytes=256MiB");
    if (stats->kept)
        cp_note(s.builder, "buffers that PTI did not give back", stats->kept, true,
                "their records are missing");
    if (stats->late)
        cp_note(s.builder, "records came after the end of an earlier session", stats->late, false, "%s",
                "");
}

static void flush_pti(void)
{
    char why[CP_TEXT_BYTES];
    xp_status status = xp_pti.flush();
    if (status == XP_SUCCESS)
        return;
    xp_explain(status, "the last records of the session are missing", why);
    cp_note(s.builder, "records that were not handed over", 1, true, "%s", why);
}

static void end_xpu_decoding(void)
{
    xp_buffer_stats stats = xp_buffers_detach();
    xp_decoder_finish(&decoder);
    note_buffer_stats(&stats);
    xp_decoder_free(&decoder);
}

/* PTI is flushed when its views are disabled: it does not allow a flush beside work. The session lock
 * is held. */
static void stop_xpu_records(void)
{
    if (s.phase != SOURCE_LIVE)
        return;
    atomic_store(&wants_operators, false);
    disable_all_views();
    flush_pti();
    end_xpu_decoding();
    restore_pti_clock();
    s.builder = NULL;
    s.phase = SOURCE_READY;
}

void xp_source_stop(void)
{
    pthread_mutex_lock(&session_lock);
    stop_xpu_records();
    pthread_mutex_unlock(&session_lock);
}

#define END_WAIT_S 7 /* another thread may be stopping while the program exits */

/* May be called by a host and by an exit handler, one after the other or at once. */
void xp_source_end(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += END_WAIT_S;
    if (s.pid != getpid() || pthread_mutex_timedlock(&session_lock, &until) != 0)
        return;
    stop_xpu_records();
    s.phase = SOURCE_OFF;
    pthread_mutex_unlock(&session_lock);
}

void xp_source_yield(void)
{
    pthread_mutex_lock(&session_lock);
    if (s.phase == SOURCE_LIVE)
        cp_note(s.builder, "another user of PTI came", 1, true,
                "PTI has one user at a time: recording of Intel GPUs ended there");
    stop_xpu_records();
    s.has_callbacks = false;
    pthread_mutex_unlock(&session_lock);
}

/* ---- forks and exit -------------------------------------------------------------------------- */

/* PTI does not work in a child of a process that had used it. */
static void reset_xpu_in_child(void)
{
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    session_lock = fresh;
    atomic_store(&is_over, true);
    atomic_store(&wants_operators, false);
    xp_buffers_after_fork();
    s.phase = SOURCE_OFF;
    s.builder = NULL;
}

/* Installed when PTI is in use, so that the session ends before PTI does. */
static void install_xpu_handlers(void)
{
    (void)pthread_atfork(NULL, NULL, reset_xpu_in_child);
    (void)atexit(xp_source_end);
}

/* ---- a session ------------------------------------------------------------------------------- */

bool xp_source_prepare(const xp_options *options, char why[CP_TEXT_BYTES])
{
    if (atomic_load(&is_over)) {
        snprintf(why, CP_TEXT_BYTES, "PTI does not work in a forked child of a program that has used it");
        return false;
    }
    if (!xp_libs_open(why))
        return false;
    pthread_mutex_lock(&session_lock);
    bool taken = is_pti_taken();
    s.options = *options;
    s.phase = SOURCE_READY;
    s.pid = getpid();
    pthread_mutex_unlock(&session_lock);
    if (taken)
        explain_taken(why);
    return !taken;
}

/* Undone if a step fails. The session lock is held. */
static bool begin_xpu_records(char why[CP_TEXT_BYTES])
{
    if (is_pti_taken()) {
        explain_taken(why);
        return false;
    }
    if (!xp_decoder_init(&decoder, s.builder, &s.options, xp_pti_version(), choose_pti_clock())) {
        snprintf(why, CP_TEXT_BYTES, "out of memory");
        restore_pti_clock();
        return false;
    }
    xp_buffers_attach(&decoder, &s.options);
    if (set_pti_callbacks(why) && enable_all_views(why))
        return true;
    end_xpu_decoding();
    restore_pti_clock();
    return false;
}

bool xp_source_start(const KinetoPlugin_TraceBuilder *builder, char why[CP_TEXT_BYTES])
{
    pthread_mutex_lock(&session_lock);
    s.builder = builder;
    s.paused = false;
    bool begun = begin_xpu_records(why);
    if (begun) {
        (void)pthread_once(&handlers_once, install_xpu_handlers);
        s.phase = SOURCE_LIVE;
        atomic_store(&wants_operators, (s.enabled >> XP_VIEW_EXTERNAL & 1) != 0);
    } else {
        s.builder = NULL;
    }
    pthread_mutex_unlock(&session_lock);
    return begun;
}

/* Nothing while views are enabled: records come when a buffer is full, and at the end. */
void xp_source_drain(void)
{
    pthread_mutex_lock(&session_lock);
    if (s.phase == SOURCE_LIVE && s.paused)
        flush_pti();
    pthread_mutex_unlock(&session_lock);
}

/* Pauses or resumes; operators are pushed and popped meanwhile. */
void xp_source_toggle(bool on)
{
    char why[CP_TEXT_BYTES];
    pthread_mutex_lock(&session_lock);
    if (s.phase == SOURCE_LIVE && s.paused == on) {
        s.paused = !on;
        if (!on) {
            disable_all_views();
            flush_pti();
        } else if (!enable_all_views(why)) {
            cp_note(s.builder, "recording did not go on after a pause", 1, true, "%s", why);
        }
    }
    pthread_mutex_unlock(&session_lock);
}

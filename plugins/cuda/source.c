/* The session of the NVIDIA source: what is switched on in CUPTI, when, and off again. There is one
 * session at a time. Calls of the host come one after the other; push, pop and CUPTI's callbacks
 * come on any thread, and the end of the program at any time. */
#include "counters.h"
#include "layouts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* SOURCE_OFF → (prepare, start) → SOURCE_LIVE → (stop) → SOURCE_READY → (end) → SOURCE_OFF. */
typedef enum source_phase { SOURCE_OFF, SOURCE_READY, SOURCE_LIVE } source_phase;

static struct {
    source_phase phase;
    /* CUPTI has been used in this process. */
    bool used;
    /* A forked child of a process that had used CUPTI: it does not work here. */
    bool dead;
    /* CUPTI uses the host's clock, which it keeps until finalised. */
    bool clocked;
    bool paused;
    bool without_cupti; /* only NVML is sampled */
    cp_options options;
    /* Bit per CP_KIND_… that is switched on. */
    uint64_t kinds;
    uint32_t pid;
    int32_t clock;
    /* CUPTI's records have the system's thread ids. */
    bool system_threads;
    cp_decoder decoder;
    const KinetoPlugin_TraceBuilder *builder;
} s;

/* Number of the session that wants ids of operators; 0: none does. */
static atomic_uint pushing;
static uint32_t sessions;
/* The host's clock and its argument, which stay set as long as CUPTI may call get_host_ticks. */
static _Atomic(uint64_t (*)(KinetoPlugin_TraceBuilderHandle *)) ticks;
static _Atomic(KinetoPlugin_TraceBuilderHandle *) ticks_of;
/* The program is exiting: CUPTI is not called any more. */
static atomic_bool program_over;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT, exit_once = PTHREAD_ONCE_INIT;
/* Held while a session begins, is drained, or ends, because the program may exit meanwhile. */
static pthread_mutex_t session_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- the clock ------------------------------------------------------------------------------- */

/* CUPTI's timestamp callback: called for each API call, and to convert the device's times. */
static uint64_t CP_CUPTI_CALL get_host_ticks(void)
{
    uint64_t (*read)(KinetoPlugin_TraceBuilderHandle *) = atomic_load(&ticks);
    return read ? read(atomic_load(&ticks_of)) : 0;
}

static int64_t read_clock_ns(clockid_t id)
{
    struct timespec t = {0, 0};
    (void)clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* How far CUPTI's time lies outside of two readings of a clock around it; 0: it fits. */
static int64_t measure_clock_distance(clockid_t id)
{
    uint64_t theirs = 0;
    int64_t before = read_clock_ns(id);
    bool is_known = cp_cupti.timestamp && cp_cupti.timestamp(&theirs) == CP_SUCCESS;
    int64_t after = read_clock_ns(id), time = (int64_t)theirs;
    if (!is_known)
        return INT64_MAX;
    if (time < before)
        return before - time;
    return time > after ? time - after : 0;
}

/* The clock that CUPTI uses by itself: CLOCK_REALTIME, or another one where that may go back, as in
 * Windows' Linux, where CUPTI accepts no clock of ours. */
static int32_t find_cupti_clock(void)
{
    static const struct {
        int32_t number;
        clockid_t id;
    } clocks[] = {{KINETO_PLUGIN_CLOCK_UTC, CLOCK_REALTIME},
                  {KINETO_PLUGIN_CLOCK_MONOTONIC_RAW, CLOCK_MONOTONIC_RAW},
                  {KINETO_PLUGIN_CLOCK_MONOTONIC, CLOCK_MONOTONIC}};
    int64_t nearest = 1000000; /* a clock that is farther away does not count */
    int32_t found = KINETO_PLUGIN_CLOCK_UTC;
    for (size_t i = 0; i < CP_COUNT(clocks); i++) {
        int64_t distance = measure_clock_distance(clocks[i].id);
        if (distance >= nearest)
            continue;
        nearest = distance;
        found = clocks[i].number;
    }
    return found;
}

/* Gives CUPTI the host's clock if it accepts one; else finds the clock that it uses. */
static void choose_record_clock(void)
{
    if (atomic_load(&ticks) && cp_cupti.timestamp_callback &&
        cp_cupti.timestamp_callback(get_host_ticks) == CP_SUCCESS)
        s.clocked = true;
    s.clock = s.clocked ? KINETO_PLUGIN_CLOCK_TICKS : find_cupti_clock();
}

/* ---- kinds ----------------------------------------------------------------------------------- */

static bool is_type_wanted(int32_t type) { return s.options.types >> type & 1; }

/* Frequent calls without information, which are not recorded; the first is also made by us. The
 * numbers are the same in all versions. */
static const uint32_t unwanted_calls[] = {2 /* cudaRuntimeGetVersion */,
                                          10 /* cudaGetLastError */,
                                          11 /* cudaPeekAtLastError */,
                                          16 /* cudaSetDevice */,
                                          17 /* cudaGetDevice */,
                                          133 /* cudaEventCreate */,
                                          134 /* cudaEventCreateWithFlags */,
                                          136 /* cudaEventDestroy */};
static void write_ledger_line(const char *reason, uint64_t count, bool is_loss, const char *detail)
{
    if (s.builder)
        cp_note(s.builder, reason, count, is_loss, "%s", detail ? detail : "");
}

/* Messages from before the start, kept until there is a ledger. */
#define MAX_NOTES 8
static char notes[MAX_NOTES][CP_TEXT_BYTES];
static size_t note_count;

static void add_note(const char *text)
{
    if (note_count < MAX_NOTES)
        snprintf(notes[note_count++], CP_TEXT_BYTES, "%s", text);
}

static void write_notes(void)
{
    for (size_t i = 0; i < note_count; i++)
        write_ledger_line("a kind of activity cannot be recorded", 1, false, notes[i]);
    note_count = 0;
}

/* Switches on one kind of record; of driver calls only those of driver_calls.c, if CUPTI can
 * select. */
static cp_result switch_kind_on(uint32_t kind)
{
    if (kind == CP_KIND_DRIVER && cp_driver_calls_on() == CP_SUCCESS)
        return CP_SUCCESS;
    cp_result result = cp_cupti.enable(kind);
    for (size_t i = 0;
         i < CP_COUNT(unwanted_calls) && kind == CP_KIND_RUNTIME && result == CP_SUCCESS; i++)
        if (cp_cupti.enable_runtime_api)
            (void)cp_cupti.enable_runtime_api(unwanted_calls[i], 0);
    return result;
}

/* The kinds of records that the wanted activities need. Operators are found through calls, so that
 * most need those, too. */
static uint64_t find_needed_kinds(void)
{
    const struct {
        int32_t type;
        uint64_t kinds;
    } needs[] = {
#define K(name) (UINT64_C(1) << CP_KIND_##name)
        {KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL,
         K(CONCURRENT_KERNEL) | K(GREEN_CONTEXT) | K(RUNTIME) | K(DRIVER) |
             K(EXTERNAL_CORRELATION)},
        {KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMCPY,
         K(MEMCPY) | K(MEMCPY2) | K(RUNTIME) | K(DRIVER) | K(EXTERNAL_CORRELATION)},
        {KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMSET,
         K(MEMSET) | K(RUNTIME) | K(DRIVER) | K(EXTERNAL_CORRELATION)},
        {KINETO_PLUGIN_PROFILE_EVENT_TYPE_RUNTIME, K(RUNTIME) | K(EXTERNAL_CORRELATION)},
        {KINETO_PLUGIN_PROFILE_EVENT_TYPE_DRIVER, K(DRIVER) | K(EXTERNAL_CORRELATION)},
        {KINETO_PLUGIN_PROFILE_EVENT_TYPE_CUDA_SYNC,
         K(SYNCHRONIZATION) | K(CUDA_EVENT) | K(GRAPH_HOST_NODE) | K(HOST_LAUNCH)},
        {KINETO_PLUGIN_PROFILE_EVENT_TYPE_CUDA_EVENT, K(CUDA_EVENT)},
        {KINETO_PLUGIN_PROFILE_EVENT_TYPE_OVERHEAD, K(OVERHEAD)},
    };
    uint64_t kinds = 0;
    for (size_t i = 0; i < CP_COUNT(needs); i++)
        kinds |= is_type_wanted(needs[i].type) ? needs[i].kinds : 0;
    bool graphs = is_type_wanted(KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL);
    kinds |= graphs && !s.options.graph_nodes ? K(GRAPH_TRACE) : 0;
    return kinds | (s.options.memory ? K(MEMORY2) : 0);
#undef K
}

/* A session without kernels, copies or calls makes no sense; other kinds may be missing. */
static bool is_essential_kind(uint32_t kind)
{
    return kind == CP_KIND_CONCURRENT_KERNEL || kind == CP_KIND_MEMCPY || kind == CP_KIND_RUNTIME;
}

static const char *get_kind_name(uint32_t kind)
{
    static const char *const names[CP_KIND_COUNT] = {
        [CP_KIND_MEMCPY] = "copies",
        [CP_KIND_MEMSET] = "memsets",
        [CP_KIND_DRIVER] = "driver calls",
        [CP_KIND_RUNTIME] = "runtime calls",
        [CP_KIND_CONCURRENT_KERNEL] = "kernels",
        [CP_KIND_OVERHEAD] = "CUPTI's overhead",
        [CP_KIND_MEMCPY2] = "copies between devices",
        [CP_KIND_CUDA_EVENT] = "CUDA events",
        [CP_KIND_SYNCHRONIZATION] = "synchronisation",
        [CP_KIND_EXTERNAL_CORRELATION] = "operators of launches",
        [CP_KIND_MEMORY2] = "memory of devices",
        [CP_KIND_GRAPH_TRACE] = "graphs as a whole",
        [CP_KIND_GRAPH_HOST_NODE] = "functions of the host in graphs",
        [CP_KIND_HOST_LAUNCH] = "functions of the host in streams",
        [CP_KIND_GREEN_CONTEXT] = "green contexts",
    };
    return kind < CP_KIND_COUNT && names[kind] ? names[kind] : "records";
}

static void switch_kind_off(uint32_t kind)
{
    if (!(s.kinds >> kind & 1))
        return;
    s.kinds &= ~(UINT64_C(1) << kind);
    (void)cp_cupti.disable(kind);
    if (kind == CP_KIND_DRIVER)
        cp_driver_calls_off();
}

static void switch_all_off(void)
{
    for (uint32_t kind = 0; kind < CP_KIND_COUNT; kind++)
        switch_kind_off(kind);
}

/* Switches on all needed kinds. False: an essential one was refused, and all are off again. */
static bool switch_all_on(char why[CP_TEXT_BYTES])
{
    uint64_t needed = find_needed_kinds();
    for (uint32_t kind = 0; kind < CP_KIND_COUNT; kind++) {
        if (!(needed >> kind & 1) || !cp_record_bytes(kind, cp_cupti_version()))
            continue;
        char text[CP_TEXT_BYTES], doing[64];
        cp_result result = switch_kind_on(kind);
        if (result == CP_SUCCESS) {
            s.kinds |= UINT64_C(1) << kind;
            continue;
        }
        snprintf(doing, sizeof doing, "%s cannot be recorded", get_kind_name(kind));
        cp_explain(result, doing, text);
        if (is_essential_kind(kind)) {
            memcpy(why, text, CP_TEXT_BYTES);
            switch_all_off();
            return false;
        }
        add_note(text);
    }
    return true;
}

/* ---- forks ----------------------------------------------------------------------------------- */

/* CUPTI does not work in a child if it was used in the parent. */
static void reset_source_in_child(void)
{
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    session_lock = fresh; /* its owner may not exist in the child */
    atomic_store(&pushing, 0);
    s.dead = s.dead || s.used;
    s.phase = SOURCE_OFF;
    s.kinds = 0;
    s.builder = NULL;
    cp_buffers_after_fork();
    cp_devices_reset();
}

static void install_fork_handler(void) { (void)pthread_atfork(NULL, NULL, reset_source_in_child); }

/* ---- a session ------------------------------------------------------------------------------- */

/* The API version of CUDA 12.9, since which CUPTI handles a refused buffer. */
#define VERSION_MAY_BE_REFUSED 27u

/* Settings of CUPTI that must precede the registration of callbacks. */
static void set_attributes(void)
{
    uint8_t on = s.options.per_thread_buffers;
    cp_buffers_never_refuse(cp_cupti_version() < VERSION_MAY_BE_REFUSED);
    size_t size = sizeof on;
    if (cp_cupti.set_attribute && cp_cupti_version() >= 21) /* CUDA 12.3; it may be on already */
        (void)cp_cupti.set_attribute(CP_ATTRIBUTE_PER_THREAD_BUFFER, &size, &on);
    s.system_threads = cp_cupti.set_thread_id_type &&
                       cp_cupti.set_thread_id_type(CP_THREAD_ID_SYSTEM) == CP_SUCCESS;
    if (cp_cupti.event_timestamps && is_type_wanted(KINETO_PLUGIN_PROFILE_EVENT_TYPE_CUDA_EVENT))
        (void)cp_cupti.event_timestamps(1);
}

/* Opens the libraries unless CUPTI must not be used here. */
static bool open_cupti(char why[CP_TEXT_BYTES])
{
    if (s.dead) {
        snprintf(why, CP_TEXT_BYTES,
                 "CUDA was in use when this process was forked, and cannot be used in the child");
        return false;
    }
    if (secure_getenv("KINETO_DISABLE_CUPTI")) {
        snprintf(why, CP_TEXT_BYTES, "KINETO_DISABLE_CUPTI is set; CUPTI is not used");
        return false;
    }
    return cp_libs_open(why);
}

static bool is_program_over(char why[CP_TEXT_BYTES])
{
    bool is_over = atomic_load(&program_over);
    if (is_over)
        snprintf(why, CP_TEXT_BYTES, "the program is exiting; no new session can start");
    return is_over;
}

bool cp_source_prepare(const cp_options *options, char why[CP_TEXT_BYTES])
{
    (void)pthread_once(&fork_once, install_fork_handler);
    if (is_program_over(why))
        return false;
    s.options = *options;
    note_count = 0;
    s.pid = (uint32_t)getpid();
    s.without_cupti = !open_cupti(why);
    if (s.without_cupti && options->nvml_interval_ms && !s.dead) {
        add_note(why);
        return true;
    }
    if (s.without_cupti || !cp_buffers_create(options->buffer_bytes, why))
        return false;
    s.used = true;
    set_attributes();
    cp_result result = cp_cupti.register_callbacks(cp_buffers_request, cp_buffers_complete);
    if (result != CP_SUCCESS) {
        cp_explain(result, "CUPTI takes no buffers", why);
        return false;
    }
    return true;
}

/* Creates the decoder and starts the reader thread. */
static bool begin_decoding(const KinetoPlugin_TraceBuilder *builder, char why[CP_TEXT_BYTES])
{
    if (!cp_decoder_init(&s.decoder, builder, s.options.types, cp_cupti_version(), s.clock)) {
        snprintf(why, CP_TEXT_BYTES, "out of memory");
        return false;
    }
    s.decoder.pid = s.pid;
    s.decoder.show_waits = s.options.show_waits;
    if (cp_buffers_attach(&s.decoder, why))
        return true;
    cp_decoder_free(&s.decoder);
    return false;
}

/* Starts the samplers. The host limits the number of counter rows, so metrics that the user named
 * come first. */
static void begin_counters(void)
{
    char why[CP_TEXT_BYTES];
    if (s.options.pm_metrics[0] && !s.without_cupti && !cp_pm_start(&s.options, s.builder, why))
        write_ledger_line("metrics of multiprocessors are not sampled", 1, false, why);
    if (s.options.nvml_interval_ms && !cp_nvml_start(&s.options, s.builder, why))
        write_ledger_line("power and clocks are not sampled", 1, false, why);
}

/* The clock must be chosen before anything is switched on. Undone if a step fails. */
static bool begin_records(const KinetoPlugin_TraceBuilder *builder, char why[CP_TEXT_BYTES])
{
    atomic_store(&ticks_of, builder->pTraceBuilderHandle);
    atomic_store(&ticks, builder->hostTicks);
    choose_record_clock(); /* first: a record has the clock that was set when it was made */
    if (!begin_decoding(builder, why))
        return false;
    if (switch_all_on(why))
        return true;
    cp_buffers_detach();
    cp_decoder_free(&s.decoder);
    return false;
}

/* ---- the end of the program ------------------------------------------------------------------ */

/* Longer than the five seconds that a stop may wait for the device. */
#define EXIT_WAIT_S 7

static void stop_session(void);

/* Exit handler. CUPTI's own handlers run later: its records are collected now, and it is not called
 * any more. */
static void stop_at_exit(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += EXIT_WAIT_S;
    if (s.pid != (uint32_t)getpid())
        return;
    atomic_store(&program_over, true);
    if (pthread_mutex_timedlock(&session_lock, &until) != 0)
        return;
    stop_session();
    s.phase = SOURCE_OFF;
    pthread_mutex_unlock(&session_lock);
}

/* Exit handlers run in reverse order, so ours is installed after CUPTI's. */
void cp_source_install_exit_handler(void) { (void)atexit(stop_at_exit); }

/* ---- start and stop -------------------------------------------------------------------------- */

/* Starts records and counters. The session lock is held. */
static bool start_session(const KinetoPlugin_TraceBuilder *builder, char why[CP_TEXT_BYTES])
{
    if (is_program_over(why) || (!s.without_cupti && !begin_records(builder, why)))
        return false;
    s.builder = builder;
    s.phase = SOURCE_LIVE;
    s.paused = false;
    if (!s.without_cupti)
        cp_devices_announce_once(&s.decoder);
    begin_counters();
    write_notes();
    sessions = sessions == UINT32_MAX ? 1 : sessions + 1;
    atomic_store(&pushing, s.without_cupti ? 0 : sessions);
    (void)pthread_once(&exit_once, cp_source_install_exit_handler);
    return true;
}

bool cp_source_start(const KinetoPlugin_TraceBuilder *builder, char why[CP_TEXT_BYTES])
{
    pthread_mutex_lock(&session_lock);
    bool started = start_session(builder, why);
    pthread_mutex_unlock(&session_lock);
    return started;
}

void cp_source_drain(void)
{
    pthread_mutex_lock(&session_lock);
    if (s.phase == SOURCE_LIVE && !s.without_cupti) {
        cp_devices_announce_once(&s.decoder);
        (void)cp_cupti.flush_all(0);
        cp_buffers_drain();
    }
    pthread_mutex_unlock(&session_lock);
}

/* Waits for running work, whose records would be incomplete. False: it still runs. */
static bool wait_for_device_at_stop(void)
{
    if (!s.options.sync_at_stop || cp_wait_for_device())
        return true;
    write_ledger_line(
        "work that did not end", 1, true,
        "the GPU was still busy seconds after the session; its running work is missing");
    return false;
}

/* Reports records that were dropped, kept by another tool, or came too late. */
static void write_losses(void)
{
    cp_buffer_stats stats = cp_buffers_stats();
    write_ledger_line("records dropped by CUPTI", stats.dropped, stats.dropped != 0,
                      stats.dropped ? "its buffers were full; increase cuda.buffer_bytes" : NULL);
    if (stats.refused)
        write_ledger_line("CUPTI asked for a buffer when none was free", stats.refused, false,
                          "it may have dropped records; increase cuda.buffer_bytes");
    if (stats.kept)
        write_ledger_line(
            "buffers that CUPTI did not give back", stats.kept, true,
            "another tool has taken CUPTI over in this program, and has what was recorded since");
    if (stats.late)
        write_ledger_line("records came after the end", stats.late, false, NULL);
}

/* Ends recording: waits, flushes CUPTI's buffers, reads them all and writes the ledger. */
static void end_records(void)
{
    cp_devices_announce_once(&s.decoder);
    switch_kind_off(CP_KIND_DRIVER); /* our own waiting must not be recorded */
    switch_kind_off(CP_KIND_SYNCHRONIZATION);
    (void)wait_for_device_at_stop();
    switch_all_off();
    (void)cp_cupti.flush_all(CP_FLUSH_FORCED);
    cp_buffers_detach();
    cp_decoder_finish(&s.decoder);
    write_losses();
    cp_decoder_free(&s.decoder);
}

/* Ends what start_session began. The session lock is held. */
static void stop_session(void)
{
    if (s.phase != SOURCE_LIVE)
        return;
    atomic_store(&pushing, 0);
    cp_nvml_stop();
    cp_pm_stop();
    if (!s.without_cupti)
        end_records();
    s.builder = NULL;
    s.phase = SOURCE_READY;
}

void cp_source_stop(void)
{
    pthread_mutex_lock(&session_lock);
    stop_session();
    pthread_mutex_unlock(&session_lock);
}

void cp_source_end(void)
{
    pthread_mutex_lock(&session_lock);
    stop_session();
    bool wanted =
        s.options.teardown && cp_cupti.finalize && s.phase == SOURCE_READY && !s.without_cupti;
    if (wanted && wait_for_device_at_stop()) {
        (void)cp_cupti.finalize();
        s.clocked = false;
    }
    s.phase = SOURCE_OFF;
    pthread_mutex_unlock(&session_lock);
}

/* Pauses or resumes. Ids of operators are pushed and popped during a pause as well: else the stack
 * would be wrong after it. */
static void toggle_session(bool on)
{
    char why[CP_TEXT_BYTES];
    if (s.phase != SOURCE_LIVE || s.paused == !on || s.without_cupti)
        return;
    s.paused = !on;
    if (!on) {
        switch_all_off();
        (void)cp_cupti.flush_all(0);
    } else if (!switch_all_on(why)) {
        write_ledger_line("recording did not go on after a pause", 1, true, why);
    }
}

void cp_source_toggle(bool on)
{
    pthread_mutex_lock(&session_lock);
    toggle_session(on);
    pthread_mutex_unlock(&session_lock);
}

/* What this thread has pushed to CUPTI's stack of ids, which outlives sessions: entries of an
 * earlier one must be popped first. */
static _Thread_local struct {
    uint32_t session, depth;
} pushed;

static void pop_earlier_session(uint32_t session)
{
    uint64_t last;
    for (; pushed.depth; pushed.depth--)
        (void)cp_cupti.pop_external(CP_EXTERNAL_CUSTOM0, &last);
    pushed.session = session;
}

void cp_source_push(uint64_t external_id)
{
    uint32_t session = atomic_load_explicit(&pushing, memory_order_acquire);
    if (!session)
        return;
    if (pushed.session != session)
        pop_earlier_session(session);
    if (!s.system_threads)
        cp_threads_register();
    cp_operators_pushed();
    if (cp_cupti.push_external(CP_EXTERNAL_CUSTOM0, external_id) == CP_SUCCESS)
        pushed.depth++;
}

void cp_source_pop(void)
{
    uint64_t last;
    if (!pushed.depth || pushed.session != atomic_load_explicit(&pushing, memory_order_acquire))
        return;
    pushed.depth--;
    (void)cp_cupti.pop_external(CP_EXTERNAL_CUSTOM0, &last);
}

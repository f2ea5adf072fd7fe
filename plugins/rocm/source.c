/* The session of the AMD source: contexts of the SDK that are started and stopped, and the decoder that
 * its batches go to. There is one session at a time. Calls of the host come one after the other, push
 * and pop on any thread, batches on a thread of the SDK, and the end of the program at any time.
 *
 * Lock order: session_lock before decoder_lock. The SDK waits for its thread in a flush, so that no
 * lock that rp_source_receive takes may be held there: it takes decoder_lock only. */
#include "libs.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* SOURCE_OFF → (prepare) → SOURCE_READY → (start) → SOURCE_LIVE → (stop) → SOURCE_READY → (end) → OFF. */
typedef enum source_phase { SOURCE_OFF, SOURCE_READY, SOURCE_LIVE } source_phase;

static struct {
    source_phase phase;
    bool paused, has_device_clock;
    bool is_hip_over; /* or may be */
    rp_options options;
    pid_t pid;
    int32_t clock;
    const KinetoPlugin_TraceBuilder *builder;
    cp_ticker ticker;
} s;
static uint32_t sessions;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
/* Held while a session begins, is drained, or ends, because the program may exit meanwhile. */
static pthread_mutex_t session_lock = PTHREAD_MUTEX_INITIALIZER;

/* Held while a batch is read. */
static pthread_mutex_t decoder_lock = PTHREAD_MUTEX_INITIALIZER;
static rp_decoder decoder;
static bool decodes;
static uint64_t late;                /* records that came when no session wanted them */
static uint64_t dropped, seen_dropped[RP_PARTS]; /* of this session; the SDK's counts, which never fall */

/* ---- batches --------------------------------------------------------------------------------- */

void rp_source_receive(rp_context context, rp_buffer buffer, rp_header **headers, size_t count,
                       void *data, uint64_t dropped_count)
{
    size_t part = (size_t)(uintptr_t)data;
    (void)context;
    (void)buffer;
    pthread_mutex_lock(&decoder_lock);
    if (part < RP_PARTS && dropped_count > seen_dropped[part]) {
        dropped += dropped_count - seen_dropped[part];
        seen_dropped[part] = dropped_count;
    }
    if (decodes)
        rp_decoder_read(&decoder, headers, count);
    else
        late += count;
    pthread_mutex_unlock(&decoder_lock);
}

/* ---- the clock ------------------------------------------------------------------------------- */

static int64_t read_system_clock(clockid_t id)
{
    struct timespec t = {0, 0};
    (void)clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* How far the SDK's time lies outside of two readings of a clock around it; 0: it fits. */
static int64_t measure_sdk_distance(clockid_t id)
{
    uint64_t theirs = 0;
    int64_t before = read_system_clock(id);
    bool is_known = rp_sdk.get_timestamp(&theirs) == RP_SUCCESS;
    int64_t after = read_system_clock(id), time = (int64_t)theirs;
    if (!is_known)
        return INT64_MAX;
    return time < before ? before - time : time > after ? time - after : 0;
}

/* The clock of the SDK's times: CLOCK_BOOTTIME, in early versions CLOCK_MONOTONIC. If the SDK does not
 * say its time, the former. -1: no clock of the system's fits. */
static int32_t find_sdk_clock(void)
{
    static const struct {
        int32_t number;
        clockid_t id;
    } clocks[] = {{KINETO_PLUGIN_CLOCK_BOOTTIME, CLOCK_BOOTTIME},
                  {KINETO_PLUGIN_CLOCK_MONOTONIC, CLOCK_MONOTONIC},
                  {KINETO_PLUGIN_CLOCK_MONOTONIC_RAW, CLOCK_MONOTONIC_RAW},
                  {KINETO_PLUGIN_CLOCK_UTC, CLOCK_REALTIME}};
    int64_t nearest = 1000000; /* a clock that is farther away does not count */
    uint64_t time = 0;
    int32_t found = rp_sdk.get_timestamp(&time) == RP_SUCCESS ? -1 : KINETO_PLUGIN_CLOCK_BOOTTIME;
    for (size_t i = 0; i < CP_COUNT(clocks); i++) {
        int64_t distance = measure_sdk_distance(clocks[i].id);
        if (distance >= nearest)
            continue;
        nearest = distance;
        found = clocks[i].number;
    }
    return found;
}

/* One pair of readings, for a clock of the SDK's own: the host fits a line through them. */
static void add_clock_pair(void)
{
    const KinetoPlugin_TraceBuilder *b = s.builder;
    uint64_t theirs = 0, before = b->hostTicks(b->pTraceBuilderHandle);
    bool is_known = rp_sdk.get_timestamp(&theirs) == RP_SUCCESS;
    uint64_t after = b->hostTicks(b->pTraceBuilderHandle);
    if (is_known)
        (void)b->addClockSample(b->pTraceBuilderHandle, s.clock, (int64_t)theirs, before, after);
}

/* Chooses the clock of all records of the session. */
static void choose_sdk_clock(void)
{
    const KinetoPlugin_TraceBuilder *b = s.builder;
    s.clock = find_sdk_clock();
    s.has_device_clock = s.clock < 0;
    if (!s.has_device_clock)
        return;
    if (b->registerClock(b->pTraceBuilderHandle, "rocprofiler-sdk", &s.clock) != 0)
        s.clock = KINETO_PLUGIN_CLOCK_BOOTTIME;
    cp_note(b, "times are of a clock of rocprofiler-sdk's own", 1, false,
            "no clock of the system fits; times are converted by a line through pairs of readings");
    add_clock_pair();
}

/* ---- contexts -------------------------------------------------------------------------------- */

/* Does the session want what this context records? */
static bool wants_part(rp_part part)
{
    switch (part) {
    case RP_PART_MEMORY:
        return s.options.memory && rp_memory_type;
    case RP_PART_HSA:
        return s.options.hsa;
    case RP_PART_MARKERS:
        return s.options.markers && !rp_markers_are_taken();
    default:
        return true;
    }
}

static void stop_all_parts(void)
{
    for (rp_part part = RP_PART_MAIN; part < RP_PARTS; part++)
        rp_part_stop(part);
}

/* Only the main part is essential. */
static bool start_all_parts(char why[CP_TEXT_BYTES])
{
    for (rp_part part = RP_PART_MAIN; part < RP_PARTS; part++) {
        rp_status status = wants_part(part) ? rp_part_start(part) : RP_SUCCESS;
        if (status == RP_SUCCESS)
            continue;
        rp_explain(status,
                   part == RP_PART_MAIN ? "this program's GPUs cannot be recorded"
                                        : "calls of HSA, allocations or ranges cannot be recorded",
                   why);
        if (part == RP_PART_MAIN)
            return false;
        cp_note(s.builder, "a kind of activity cannot be recorded", 1, false, "%s", why);
    }
    return true;
}

/* ---- decoding -------------------------------------------------------------------------------- */

/* From here on batches go to the decoder. */
static bool begin_rocm_decoding(char why[CP_TEXT_BYTES])
{
    pthread_mutex_lock(&decoder_lock);
    decodes = rp_decoder_init(&decoder, s.builder, &s.options, rp_sdk_version(), s.clock);
    uint64_t before = late;
    late = dropped = 0;
    bool begun = decodes;
    pthread_mutex_unlock(&decoder_lock);
    if (!begun)
        snprintf(why, CP_TEXT_BYTES, "out of memory");
    if (before)
        cp_note(s.builder, "records came after the end of an earlier session", before, false, "%s", "");
    return begun;
}

/* Stops decoding and writes the ledger. */
static void end_rocm_decoding(void)
{
    pthread_mutex_lock(&decoder_lock);
    decodes = false;
    rp_decoder_finish(&decoder);
    uint64_t lost = dropped;
    rp_decoder_free(&decoder);
    pthread_mutex_unlock(&decoder_lock);
    cp_note(s.builder, "records dropped by rocprofiler-sdk", lost, lost != 0, "%s",
            lost ? "its buffers were full; set CKINETO_ROCM=rocm.buffer_bytes=64MiB, or "
                   "rocm.full=wait"
                 : "");
}

/* A program that is killed loses little: partly filled buffers are handed over twice a second. */
#define FLUSH_NS INT64_C(500000000)

static void flush_regularly(void)
{
    if (rp_tool_is_over())
        return;
    if (s.has_device_clock)
        add_clock_pair();
    (void)rp_tracing_flush();
}

/* What the trace should say of this SDK and of other tools. */
static void write_start_notes(void)
{
    char name[128];
    rp_find_other_tool(name);
    if (name[0])
        cp_note(s.builder, "another tool of rocprofiler-sdk is in this program", 1, false,
                "%s: it has contexts of its own, and what it records is not affected", name);
    if (!rp_kind_is_traced(RP_KIND_MEMORY) && s.options.memory)
        cp_note(s.builder, "a kind of activity cannot be recorded", 1, false,
                "this version of rocprofiler-sdk does not report allocations");
}

/* ---- forks ----------------------------------------------------------------------------------- */

/* The SDK does not work in a child of a process that had used it. */
static void reset_rocm_in_child(void)
{
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    session_lock = decoder_lock = fresh; /* their owners may not exist in the child */
    rp_operators_begin(0);
    rp_tool_end();
    decodes = false;
    s.phase = SOURCE_OFF;
    s.builder = NULL;
}

static void install_rocm_fork_handler(void)
{
    (void)pthread_atfork(NULL, NULL, reset_rocm_in_child);
}

/* ---- a session ------------------------------------------------------------------------------- */

bool rp_source_prepare(const rp_options *options, char why[CP_TEXT_BYTES])
{
    if (!rp_tool_ensure(why))
        return false;
    (void)pthread_once(&fork_once, install_rocm_fork_handler);
    s.options = *options;
    s.phase = SOURCE_READY;
    s.pid = getpid();
    return true;
}

/* Undone if a step fails. */
static bool begin_rocm_records(char why[CP_TEXT_BYTES])
{
    choose_sdk_clock(); /* first: a record has the clock that was set when it was made */
    if (!begin_rocm_decoding(why))
        return false;
    if (start_all_parts(why) &&
        cp_ticker_start(&s.ticker, "ckineto-rocm", FLUSH_NS, flush_regularly, why))
        return true;
    stop_all_parts();
    end_rocm_decoding();
    return false;
}

/* The session lock is held. */
static bool start_rocm_records(const KinetoPlugin_TraceBuilder *builder, char why[CP_TEXT_BYTES])
{
    char smi_why[CP_TEXT_BYTES];
    if (rp_tool_is_over()) {
        snprintf(why, CP_TEXT_BYTES, "rocprofiler-sdk has ended; no new session can start");
        return false;
    }
    s.builder = builder;
    s.paused = false;
    sessions = sessions == UINT32_MAX ? 1 : sessions + 1;
    rp_operators_begin(sessions);
    if (!begin_rocm_records(why)) {
        rp_operators_begin(0);
        s.builder = NULL;
        return false;
    }
    s.phase = SOURCE_LIVE;
    rp_agents_announce(builder);
    write_start_notes();
    if (s.options.smi_interval_ms && !rp_smi_start(&s.options, builder, smi_why))
        cp_note(builder, "power and clocks are not sampled", 1, false, "%s", smi_why);
    return true;
}

bool rp_source_start(const KinetoPlugin_TraceBuilder *builder, char why[CP_TEXT_BYTES])
{
    pthread_mutex_lock(&session_lock);
    bool started = start_rocm_records(builder, why);
    pthread_mutex_unlock(&session_lock);
    return started;
}

void rp_source_drain(void)
{
    pthread_mutex_lock(&session_lock);
    if (s.phase == SOURCE_LIVE && !rp_tool_is_over())
        (void)rp_tracing_flush();
    pthread_mutex_unlock(&session_lock);
}

/* After the contexts have stopped, work that was launched before still gets its record. */
static void collect_last_records(void)
{
    char why[CP_TEXT_BYTES];
    if (rp_tool_is_over())
        return;
    stop_all_parts();
    if (s.options.sync_at_stop && !s.is_hip_over && !rp_wait_for_device())
        cp_note(s.builder, "work that did not end", 1, true,
                "the GPU was still busy seconds after the session; its running work is missing");
    if (s.has_device_clock)
        add_clock_pair();
    rp_status status = rp_tracing_flush();
    if (status == RP_SUCCESS)
        return;
    rp_explain(status, "the last records of the session are missing", why);
    cp_note(s.builder, "records that were not handed over", 1, true, "%s", why);
}

/* The session lock is held. */
static void stop_rocm_records(void)
{
    if (s.phase != SOURCE_LIVE)
        return;
    rp_operators_begin(0);
    rp_smi_stop();
    (void)cp_ticker_stop(&s.ticker);
    collect_last_records();
    end_rocm_decoding();
    s.builder = NULL;
    s.phase = SOURCE_READY;
}

void rp_source_stop(void)
{
    pthread_mutex_lock(&session_lock);
    stop_rocm_records();
    pthread_mutex_unlock(&session_lock);
}

/* Longer than a stop may wait for the device: another thread may be stopping while the program exits. */
#define END_WAIT_S 7

/* May be called by a host, by an exit handler and by the SDK, one after the other or at once. */
static void end_rocm_session(bool is_hip_over)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += END_WAIT_S;
    if (s.pid != getpid() || pthread_mutex_timedlock(&session_lock, &until) != 0)
        return;
    s.is_hip_over = s.is_hip_over || is_hip_over;
    stop_rocm_records();
    s.phase = SOURCE_OFF;
    pthread_mutex_unlock(&session_lock);
}

void rp_source_end(void) { end_rocm_session(false); }
void rp_source_finalize(void) { end_rocm_session(true); }
void rp_source_install_exit_handler(void) { (void)atexit(rp_source_end); }

/* Pauses or resumes; operators are pushed and popped meanwhile. */
static void toggle_rocm_records(bool on)
{
    char why[CP_TEXT_BYTES];
    if (s.phase != SOURCE_LIVE || s.paused == !on || rp_tool_is_over())
        return;
    s.paused = !on;
    if (!on) {
        stop_all_parts();
        (void)rp_tracing_flush();
    } else if (!start_all_parts(why)) {
        cp_note(s.builder, "recording did not go on after a pause", 1, true, "%s", why);
    }
}

void rp_source_toggle(bool on)
{
    pthread_mutex_lock(&session_lock);
    toggle_rocm_records(on);
    pthread_mutex_unlock(&session_lock);
}

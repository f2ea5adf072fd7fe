/* What is switched on in CUPTI, when, and off again. One session at a time; the calls come one
 * after the other, those of push and pop and CUPTI's own on any thread, and the end of the program
 * when it comes. */
#include "counters.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef enum phase { OFF, READY, LIVE } phase;

static struct {
    phase phase;
    bool used;    /* CUPTI, in this process */
    bool dead;    /* after a fork of a process that had used CUPTI: never again */
    bool clocked; /* CUPTI has our clock, and keeps it */
    bool paused;
    bool without_cupti; /* only power and such are sampled */
    bool announced;     /* the devices */
    cp_options options;
    uint64_t kinds; /* bit per CP_KIND_… that is switched on */
    uint32_t pid;
    int32_t clock;
    bool system_threads; /* CUPTI says thread ids of the system */
    cp_decoder decoder;
    const KinetoPlugin_TraceBuilder *builder;
} s;

static atomic_uint pushing; /* number of the session that wants ids of operators; 0: none does */
static uint32_t sessions;
static _Atomic(uint64_t (*)(KinetoPlugin_TraceBuilderHandle *)) ticks; /* the host's */
static _Atomic(KinetoPlugin_TraceBuilderHandle *) ticks_of; /* and what it is called with */
static atomic_bool over; /* the program ends: CUPTI is not called any more */
static pthread_once_t once = PTHREAD_ONCE_INIT, exit_once = PTHREAD_ONCE_INIT;
/* Held while a session begins, is drained, or ends: the program may end meanwhile. */
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

/* ---- the clock ------------------------------------------------------------------------------------ */

/* CUPTI asks for the time of each call, and to place the device's times. */
static uint64_t CP_CUPTI_CALL now(void)
{
    uint64_t (*read)(KinetoPlugin_TraceBuilderHandle *) = atomic_load(&ticks);
    return read ? read(atomic_load(&ticks_of)) : 0;
}

static int64_t read_clock(clockid_t id)
{
    struct timespec t = {0, 0};
    (void)clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* How far CUPTI's time is from being between two readings of a clock. */
static int64_t distance_of(clockid_t id)
{
    uint64_t theirs = 0;
    int64_t before = read_clock(id);
    bool told = cp_cupti.timestamp && cp_cupti.timestamp(&theirs) == CP_SUCCESS;
    int64_t after = read_clock(id), time = (int64_t)theirs;
    if (!told)
        return INT64_MAX;
    return time < before ? before - time : time > after ? time - after : 0;
}

/* CUPTI's own clock counts nanoseconds of CLOCK_REALTIME, and of another one where that may go back:
 * in Windows' Linux, where it takes no clock of ours. */
static int32_t own_clock(void)
{
    static const struct {
        int32_t number;
        clockid_t id;
    } clocks[] = {{KINETO_PLUGIN_CLOCK_UTC, CLOCK_REALTIME},
                  {KINETO_PLUGIN_CLOCK_MONOTONIC_RAW, CLOCK_MONOTONIC_RAW},
                  {KINETO_PLUGIN_CLOCK_MONOTONIC, CLOCK_MONOTONIC}};
    int64_t nearest = 1000000; /* farther, it is none of them */
    int32_t found = KINETO_PLUGIN_CLOCK_UTC;
    for (size_t i = 0; i < CP_COUNT(clocks); i++) {
        int64_t distance = distance_of(clocks[i].id);
        if (distance >= nearest)
            continue;
        nearest = distance;
        found = clocks[i].number;
    }
    return found;
}

static void choose_clock(void)
{
    if (atomic_load(&ticks) && cp_cupti.timestamp_callback &&
        cp_cupti.timestamp_callback(now) == CP_SUCCESS)
        s.clocked = true;
    s.clock = s.clocked ? KINETO_PLUGIN_CLOCK_TICKS : own_clock();
}

/* ---- kinds ---------------------------------------------------------------------------------------- */

static bool wants(int32_t type) { return s.options.types >> type & 1; }

/* Calls that are made all the time and say nothing; the first is ours, too. The numbers are the
 * same in all versions. */
static const uint32_t noise[] = {2 /* cudaRuntimeGetVersion */,
                                 10 /* cudaGetLastError */,
                                 11 /* cudaPeekAtLastError */,
                                 16 /* cudaSetDevice */,
                                 17 /* cudaGetDevice */,
                                 133 /* cudaEventCreate */,
                                 134 /* cudaEventCreateWithFlags */,
                                 136 /* cudaEventDestroy */};
static void ledger(const char *reason, uint64_t count, bool is_loss, const char *detail)
{
    if (s.builder)
        cp_note(s.builder, reason, count, is_loss, "%s", detail ? detail : "");
}

/* What could not be switched on, until there is a ledger to say it in. */
#define NOTES_MAX 8
static char notes[NOTES_MAX][CP_TEXT_BYTES];
static size_t note_count;

static void note(const char *text)
{
    if (note_count < NOTES_MAX)
        snprintf(notes[note_count++], CP_TEXT_BYTES, "%s", text);
}

static void tell_notes(void)
{
    for (size_t i = 0; i < note_count; i++)
        ledger("a kind of activity cannot be recorded", 1, false, notes[i]);
    note_count = 0;
}

static cp_result switch_on(uint32_t kind)
{
    if (kind == CP_KIND_DRIVER && cp_driver_calls_on() == CP_SUCCESS)
        return CP_SUCCESS;
    cp_result result = cp_cupti.enable(kind);
    for (size_t i = 0; i < CP_COUNT(noise) && kind == CP_KIND_RUNTIME && result == CP_SUCCESS; i++)
        if (cp_cupti.enable_runtime_api)
            (void)cp_cupti.enable_runtime_api(noise[i], 0);
    return result;
}

/* The kinds of records that the wanted activities need. Operators are found through calls. */
static uint64_t kinds_needed(void)
{
    const struct {
        int32_t type;
        uint64_t kinds;
    } needs[] = {
#define K(name) (UINT64_C(1) << CP_KIND_##name)
        {KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL,
         K(CONCURRENT_KERNEL) | K(RUNTIME) | K(DRIVER) | K(EXTERNAL_CORRELATION)},
        {KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMCPY,
         K(MEMCPY) | K(MEMCPY2) | K(RUNTIME) | K(DRIVER) | K(EXTERNAL_CORRELATION)},
        {KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMSET,
         K(MEMSET) | K(RUNTIME) | K(DRIVER) | K(EXTERNAL_CORRELATION)},
        {KINETO_PLUGIN_PROFILE_EVENT_TYPE_RUNTIME, K(RUNTIME) | K(EXTERNAL_CORRELATION)},
        {KINETO_PLUGIN_PROFILE_EVENT_TYPE_DRIVER, K(DRIVER) | K(EXTERNAL_CORRELATION)},
        {KINETO_PLUGIN_PROFILE_EVENT_TYPE_CUDA_SYNC, K(SYNCHRONIZATION) | K(CUDA_EVENT)},
        {KINETO_PLUGIN_PROFILE_EVENT_TYPE_CUDA_EVENT, K(CUDA_EVENT)},
        {KINETO_PLUGIN_PROFILE_EVENT_TYPE_OVERHEAD, K(OVERHEAD)},
    };
    uint64_t kinds = 0;
    for (size_t i = 0; i < CP_COUNT(needs); i++)
        kinds |= wants(needs[i].type) ? needs[i].kinds : 0;
    bool graphs = wants(KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL);
    kinds |= graphs && !s.options.graph_nodes ? K(GRAPH_TRACE) : 0;
    return kinds | (s.options.memory ? K(MEMORY2) : 0);
#undef K
}

/* Without kernels, copies and calls there is nothing to record; the rest can be missing. */
static bool is_essential(uint32_t kind)
{
    return kind == CP_KIND_CONCURRENT_KERNEL || kind == CP_KIND_MEMCPY || kind == CP_KIND_RUNTIME;
}

static const char *kind_name(uint32_t kind)
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
    };
    return kind < CP_KIND_COUNT && names[kind] ? names[kind] : "records";
}

static void switch_off(uint32_t kind)
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
        switch_off(kind);
}

static bool switch_all_on(char why[CP_TEXT_BYTES])
{
    uint64_t needed = kinds_needed();
    for (uint32_t kind = 0; kind < CP_KIND_COUNT; kind++) {
        if (!(needed >> kind & 1))
            continue;
        char text[CP_TEXT_BYTES], doing[64];
        cp_result result = switch_on(kind);
        if (result == CP_SUCCESS) {
            s.kinds |= UINT64_C(1) << kind;
            continue;
        }
        snprintf(doing, sizeof doing, "%s cannot be recorded", kind_name(kind));
        cp_explain(result, doing, text);
        if (is_essential(kind)) {
            memcpy(why, text, CP_TEXT_BYTES);
            switch_all_off();
            return false;
        }
        note(text);
    }
    return true;
}

/* When the driver loads us it is not ready yet: again later. */
static void announce_devices(void)
{
    if (!s.announced && s.builder && !s.without_cupti)
        s.announced = cp_devices_announce(s.builder);
}

/* ---- forks ------------------------------------------------------------------------------------------ */

static void after_fork(void)
{
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    turn = fresh; /* its owner may be gone */
    atomic_store(&pushing, 0);
    s.dead = s.dead || s.used;
    s.phase = OFF;
    s.kinds = 0;
    s.builder = NULL;
    cp_buffers_after_fork();
    cp_devices_forget();
}

static void install_fork_handler(void) { (void)pthread_atfork(NULL, NULL, after_fork); }

/* ---- a session ---------------------------------------------------------------------------------------- */

#define MAY_BE_REFUSED 27u /* CUDA 12.9: it can be told that there is no buffer */

static void set_attributes(void)
{
    uint8_t on = s.options.per_thread_buffers;
    cp_buffers_never_refuse(cp_cupti_version() < MAY_BE_REFUSED);
    size_t size = sizeof on;
    if (cp_cupti.set_attribute && cp_cupti_version() >= 21) /* CUDA 12.3; it may be on already */
        (void)cp_cupti.set_attribute(CP_ATTRIBUTE_PER_THREAD_BUFFER, &size, &on);
    s.system_threads = cp_cupti.set_thread_id_type &&
                       cp_cupti.set_thread_id_type(CP_THREAD_ID_SYSTEM) == CP_SUCCESS;
    if (cp_cupti.event_timestamps && wants(KINETO_PLUGIN_PROFILE_EVENT_TYPE_CUDA_EVENT))
        (void)cp_cupti.event_timestamps(1);
}

static bool open_cupti(char why[CP_TEXT_BYTES])
{
    if (s.dead) {
        snprintf(why, CP_TEXT_BYTES,
                 "CUDA was in use when this process was forked, and cannot be used in the child");
        return false;
    }
    if (secure_getenv("KINETO_DISABLE_CUPTI")) {
        snprintf(why, CP_TEXT_BYTES, "KINETO_DISABLE_CUPTI is set: CUPTI is left alone");
        return false;
    }
    return cp_libs_open(why);
}

static bool is_over(char why[CP_TEXT_BYTES])
{
    bool is = atomic_load(&over);
    if (is)
        snprintf(why, CP_TEXT_BYTES, "the program ends: CUPTI takes no new session");
    return is;
}

bool cp_source_prepare(const cp_options *options, char why[CP_TEXT_BYTES])
{
    (void)pthread_once(&once, install_fork_handler);
    if (is_over(why))
        return false;
    s.options = *options;
    note_count = 0;
    s.pid = (uint32_t)getpid();
    s.without_cupti = !open_cupti(why);
    if (s.without_cupti && options->nvml_interval_ms && !s.dead) {
        note(why);
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

/* The host has room for so many rows of counters: those that were named come first. */
static void begin_counters(void)
{
    char why[CP_TEXT_BYTES];
    if (s.options.pm_metrics[0] && !s.without_cupti && !cp_pm_start(&s.options, s.builder, why))
        ledger("metrics of multiprocessors are not sampled", 1, false, why);
    if (s.options.nvml_interval_ms && !cp_nvml_start(&s.options, s.builder, why))
        ledger("power and clocks are not sampled", 1, false, why);
}

static bool begin_records(const KinetoPlugin_TraceBuilder *builder, char why[CP_TEXT_BYTES])
{
    atomic_store(&ticks_of, builder->pTraceBuilderHandle);
    atomic_store(&ticks, builder->hostTicks);
    choose_clock(); /* before anything is switched on: records are in the clock of their time */
    if (!begin_decoding(builder, why))
        return false;
    if (switch_all_on(why))
        return true;
    cp_buffers_detach();
    cp_decoder_free(&s.decoder);
    return false;
}

/* ---- the end of the program --------------------------------------------------------------------------- */

#define PATIENCE_S 7 /* a stop may wait five seconds for a device that works */

static void stop(void);

/* CUPTI's own exit handlers come later: what it has comes out now, and it is left alone then. */
static void at_exit(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    if (s.pid != (uint32_t)getpid())
        return;
    atomic_store(&over, true);
    if (pthread_mutex_timedlock(&turn, &until) != 0)
        return;
    stop();
    s.phase = OFF;
    pthread_mutex_unlock(&turn);
}

/* Handlers run last to first: so it is installed when CUPTI is loaded and has begun. */
static void install_exit_handler(void) { (void)atexit(at_exit); }

/* ---- start and stop -------------------------------------------------------------------------------------- */

static bool start(const KinetoPlugin_TraceBuilder *builder, char why[CP_TEXT_BYTES])
{
    if (is_over(why) || (!s.without_cupti && !begin_records(builder, why)))
        return false;
    s.builder = builder;
    s.phase = LIVE;
    s.paused = false;
    s.announced = false;
    announce_devices();
    begin_counters();
    tell_notes();
    sessions = sessions == UINT32_MAX ? 1 : sessions + 1;
    atomic_store(&pushing, s.without_cupti ? 0 : sessions);
    (void)pthread_once(&exit_once, install_exit_handler);
    return true;
}

bool cp_source_start(const KinetoPlugin_TraceBuilder *builder, char why[CP_TEXT_BYTES])
{
    pthread_mutex_lock(&turn);
    bool started = start(builder, why);
    pthread_mutex_unlock(&turn);
    return started;
}

void cp_source_drain(void)
{
    pthread_mutex_lock(&turn);
    if (s.phase == LIVE && !s.without_cupti) {
        announce_devices();
        (void)cp_cupti.flush_all(0);
        cp_buffers_drain();
    }
    pthread_mutex_unlock(&turn);
}

/* Work that is under way would come out without its end. False: it goes on. */
static bool wait_for_device(void)
{
    if (!s.options.sync_at_stop || cp_wait_for_device())
        return true;
    ledger("work that did not end", 1, true,
           "the GPU was still busy seconds after the session: what it was doing is missing");
    return false;
}

static void tell_losses(void)
{
    cp_buffer_stats stats = cp_buffers_stats();
    ledger("records dropped by CUPTI", stats.dropped, stats.dropped != 0,
           stats.dropped ? "its buffers were full: give it more with cuda.buffer_bytes" : NULL);
    if (stats.refused)
        ledger("CUPTI asked for a buffer when none was free", stats.refused, false,
               "it may have dropped records; cuda.buffer_bytes gives it more");
    if (stats.kept)
        ledger(
            "buffers that CUPTI did not give back", stats.kept, true,
            "another tool has taken CUPTI over in this program, and has what was recorded since");
    if (stats.late)
        ledger("records came after the end", stats.late, false, NULL);
}

static void end_records(void)
{
    announce_devices();
    switch_off(CP_KIND_DRIVER); /* our waiting is not the program's */
    switch_off(CP_KIND_SYNCHRONIZATION);
    (void)wait_for_device();
    switch_all_off();
    (void)cp_cupti.flush_all(CP_FLUSH_FORCED);
    cp_buffers_detach();
    cp_decoder_finish(&s.decoder);
    tell_losses();
    cp_decoder_free(&s.decoder);
}

static void stop(void)
{
    if (s.phase != LIVE)
        return;
    atomic_store(&pushing, 0);
    cp_nvml_stop();
    cp_pm_stop();
    if (!s.without_cupti)
        end_records();
    s.builder = NULL;
    s.phase = READY;
}

void cp_source_stop(void)
{
    pthread_mutex_lock(&turn);
    stop();
    pthread_mutex_unlock(&turn);
}

void cp_source_end(void)
{
    pthread_mutex_lock(&turn);
    stop();
    bool wanted = s.options.teardown && cp_cupti.finalize && s.phase == READY && !s.without_cupti;
    if (wanted && wait_for_device()) {
        (void)cp_cupti.finalize();
        s.clocked = false;
    }
    s.phase = OFF;
    pthread_mutex_unlock(&turn);
}

/* Ids are pushed and popped in a pause, too: else the stack were another one behind it. */
static void toggle(bool on)
{
    char why[CP_TEXT_BYTES];
    if (s.phase != LIVE || s.paused == !on || s.without_cupti)
        return;
    s.paused = !on;
    if (!on) {
        switch_all_off();
        (void)cp_cupti.flush_all(0);
    } else if (!switch_all_on(why)) {
        ledger("recording did not go on after a pause", 1, true, why);
    }
}

void cp_source_toggle(bool on)
{
    pthread_mutex_lock(&turn);
    toggle(on);
    pthread_mutex_unlock(&turn);
}

/* CUPTI's stack of ids is the thread's, and outlives sessions: what an earlier one left there goes.
 */
static _Thread_local struct {
    uint32_t session, depth;
} mine;

static void forget_earlier(uint32_t session)
{
    uint64_t last;
    for (; mine.depth; mine.depth--)
        (void)cp_cupti.pop_external(CP_EXTERNAL_CUSTOM0, &last);
    mine.session = session;
}

void cp_source_push(uint64_t external_id)
{
    uint32_t session = atomic_load_explicit(&pushing, memory_order_acquire);
    if (!session)
        return;
    if (mine.session != session)
        forget_earlier(session);
    if (!s.system_threads)
        cp_threads_note();
    cp_operators_expect();
    if (cp_cupti.push_external(CP_EXTERNAL_CUSTOM0, external_id) == CP_SUCCESS)
        mine.depth++;
}

void cp_source_pop(void)
{
    uint64_t last;
    if (!mine.depth || mine.session != atomic_load_explicit(&pushing, memory_order_acquire))
        return;
    mine.depth--;
    (void)cp_cupti.pop_external(CP_EXTERNAL_CUSTOM0, &last);
}

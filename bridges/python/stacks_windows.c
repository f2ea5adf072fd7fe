/* Sessions: their begin and end, and rows of functions that are still running when one ends.
 *
 * The library registers as a plug-in of the kind PYTHON_FUNCTION. It is not a device; as a plug-in
 * it is called at the begin and end of every session, on whatever thread, and may deliver rows of
 * functions that are still running in other threads. None of that waits for the GIL.
 *
 * The epoch is changed with the lock. A thread that has seen the new epoch goes to cs_lane_attend,
 * which takes the lock before it touches entries; a thread that has not is inside its lane. So with
 * the lock, after a barrier on all threads, entries are stable once `inside` is false. */
#include "stacks.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* For a thread to leave its lane. One that takes longer is most likely stopped; its functions then
 * have no rows. */
#define MAX_WAIT_MS 100u

/* Commands of membarrier(2). */
#define MEMBARRIER_PRIVATE  8
#define MEMBARRIER_REGISTER 16

cs_state cs = {.epoch = 1};

static const KinetoPlugin_TraceBuilder *builder; /* while a session of ours runs; with the lock */
static uint64_t epoch_ticks;                     /* when the epoch began; with the lock */
static KinetoPlugin_ProfilerHandle *const handle = (KinetoPlugin_ProfilerHandle *)&cs;

uint64_t cs_windows_began(void) { return epoch_ticks; }

/* ---- rows on behalf of any thread ------------------------------------------------------------ */

void cs_emit(const cs_lane *lane, const cs_entry *entry, uint64_t end)
{
    const cs_name *name = entry->name;
    if (!builder || (name->flags & CS_IS_HIDDEN))
        return;
    KinetoPlugin_Metadata args[3] = {
        {.pKey = "Python id", .valueType = KINETO_PLUGIN_VALUE_INT, .i = (int64_t)entry->id},
        {.pKey = "Python parent id", .valueType = KINETO_PLUGIN_VALUE_INT,
         .i = (int64_t)entry[-1].id},
        {.pKey = "Python module id", .valueType = KINETO_PLUGIN_VALUE_INT, .i = name->number},
    };
    if (!entry[-1].id) {
        args[1].valueType = KINETO_PLUGIN_VALUE_JSON;
        args[1].count = 4;
        args[1].pointer = "null";
    }
    KinetoPlugin_Activity row = {
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_Activity, metadataSet),
        .clock = KINETO_PLUGIN_CLOCK_TICKS,
        .nameSize = name->bytes,
        .pName = name->text,
        .metadataCount = name->site.arg_count,
        .pMetadata = args};
    row.event.unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_ProfileEvent, resourceId);
    row.event.eventType = KINETO_PLUGIN_PROFILE_EVENT_TYPE_PYTHON_FUNCTION;
    row.event.startTimeUtcNs = (int64_t)entry->start;
    row.event.endTimeUtcNs = (int64_t)end;
    row.event.processId = (int32_t)lane->pid;
    row.event.threadId = (int32_t)lane->tid;
    (void)builder->emit(builder->pTraceBuilderHandle, &row);
}

static uint64_t read_clock_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

/* Wait until the lane's thread is outside. False: it is inside for too long. */
static bool wait_until_left(const cs_lane *lane)
{
    uint64_t begun = read_clock_ms();
    while (atomic_load_explicit(&lane->inside, memory_order_acquire)) {
        if (read_clock_ms() - begun > MAX_WAIT_MS)
            return false;
        (void)sched_yield();
    }
    return true;
}

/* Issue a memory barrier on all threads of the process; the first call registers for it. False: the
 * kernel does not support it, and other threads' entries cannot be read safely. */
static bool issue_barrier(void)
{
    if (syscall(SYS_membarrier, MEMBARRIER_PRIVATE, 0, 0) == 0)
        return true;
    (void)syscall(SYS_membarrier, MEMBARRIER_REGISTER, 0, 0);
    return syscall(SYS_membarrier, MEMBARRIER_PRIVATE, 0, 0) == 0;
}

/* Start a new epoch, never 0; with the lock. @return the epoch before. */
static uint32_t change_epoch(void)
{
    uint32_t old = atomic_load_explicit(&cs.epoch, memory_order_relaxed);
    epoch_ticks = kineto_record_ticks();
    atomic_store_explicit(&cs.epoch, old + 1 ? old + 1 : 1, memory_order_seq_cst);
    return old;
}

/* Move a placeholder lane to the new epoch: its functions go on. The GIL is not held here, so the
 * ids come from a range of their own and not from cs.last_id. */
static void restart_placeholder(cs_lane *lane)
{
    static int64_t last_id = INT64_C(1) << 40; /* with the lock */
    lane->synced = atomic_load_explicit(&cs.epoch, memory_order_relaxed);
    for (uint32_t i = 1; i <= cs_depth(lane); i++) {
        cs_entry *e = &lane->entries[i];
        e->start = epoch_ticks;
        e->id = e->name->flags & CS_IS_HIDDEN ? e[-1].id : (uint64_t)++last_id;
    }
}

/* Write rows of all entries of this epoch, ending now. With the lock, after issue_barrier. */
static void flush_lanes(uint32_t epoch)
{
    for (cs_lane *lane = cs_lanes; lane; lane = lane->next) {
        if (lane->synced != epoch || !wait_until_left(lane))
            continue;
        for (uint32_t i = 1; i <= cs_depth(lane); i++)
            cs_emit(lane, &lane->entries[i], epoch_ticks);
        if (!lane->has_owner)
            restart_placeholder(lane);
    }
}

void cs_windows_flush(void)
{
    (void)pthread_mutex_lock(&cs_lock);
    uint32_t old = change_epoch();
    if (builder && issue_barrier())
        flush_lanes(old);
    (void)pthread_mutex_unlock(&cs_lock);
}

void cs_windows_renew(void)
{
    (void)pthread_mutex_lock(&cs_lock);
    (void)change_epoch();
    (void)pthread_mutex_unlock(&cs_lock);
}

/* ---- the plug-in ----------------------------------------------------------------------------- */

#define HAS(p, type, member) ((p) && KINETO_PLUGIN_HAS(p, KinetoPlugin_##type, member))

static int create_window(KinetoPlugin_ProfilerCreate_Params *p)
{
    if (!HAS(p, ProfilerCreate_Params, pProfilerHandle))
        return -1;
    p->pProfilerHandle = handle;
    return 0;
}

static int destroy_window(KinetoPlugin_ProfilerDestroy_Params *p)
{
    (void)p;
    return 0;
}

static int query_window(KinetoPlugin_ProfilerQuery_Params *p)
{
    if (!HAS(p, ProfilerQuery_Params, supportedActivityTypesMaxLen) ||
        p->supportedActivityTypesMaxLen == 0)
        return -1;
    (void)snprintf(p->pProfilerName, p->profilerNameMaxLen + 1, "%s", CS_SOURCE);
    p->pSupportedActivityTypes[0] = KINETO_PLUGIN_PROFILE_EVENT_TYPE_PYTHON_FUNCTION;
    return 0;
}

static int start_window(KinetoPlugin_ProfilerStart_Params *p)
{
    if (!HAS(p, ProfilerStart_Params, pLiveBuilder) || !p->pLiveBuilder)
        return -1;
    (void)pthread_mutex_lock(&cs_lock);
    builder = p->pLiveBuilder;
    (void)change_epoch();
    atomic_store_explicit(&cs.recording, true, memory_order_release);
    (void)pthread_mutex_unlock(&cs_lock);
    return 0;
}

static int stop_window(KinetoPlugin_ProfilerStop_Params *p)
{
    (void)p;
    atomic_store_explicit(&cs.recording, false, memory_order_release);
    cs_windows_flush();
    (void)pthread_mutex_lock(&cs_lock);
    builder = NULL;
    (void)pthread_mutex_unlock(&cs_lock);
    return 0;
}

/* A session that had joined this one ends, or takes a snapshot. After stop there are no entries. */
static int process_events(KinetoPlugin_ProfilerProcessEvents_Params *p)
{
    (void)p;
    if (atomic_load_explicit(&cs.recording, memory_order_relaxed))
        cs_windows_flush();
    return 0;
}

static const KinetoPlugin_ProfilerInterface profiler = {
    .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_ProfilerInterface, profilerProcessEvents),
    .profilerCreate = create_window,
    .profilerDestroy = destroy_window,
    .profilerQuery = query_window,
    .profilerStart = start_window,
    .profilerStop = stop_window,
    .profilerProcessEvents = process_events};

/* ---- forks ----------------------------------------------------------------------------------- */

static void lock_before_fork(void)
{
    cs_names_lock();
    (void)pthread_mutex_lock(&cs_lock);
}
static void unlock_after_fork(void)
{
    (void)pthread_mutex_unlock(&cs_lock);
    cs_names_unlock();
}

/* Only the calling thread exists in the child. Its functions begin with the child's epoch. */
static void renew_in_child(void)
{
    atomic_store_explicit(&cs.pid, (unsigned)getpid(), memory_order_relaxed);
    (void)change_epoch();
    for (cs_lane *lane = cs_lanes; lane; lane = lane->next) {
        lane->synced = 0;
        atomic_store_explicit(&lane->inside, false, memory_order_relaxed);
    }
    unlock_after_fork();
}

void cs_windows_register(void)
{
    const KinetoPlugin_Registry *registry = kineto_plugin_registry();
    atomic_store_explicit(&cs.pid, (unsigned)getpid(), memory_order_relaxed);
    (void)pthread_atfork(lock_before_fork, unlock_after_fork, renew_in_child);
    (void)registry->registerProfiler(registry->pRegistryHandle, &profiler);
}

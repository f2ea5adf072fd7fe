/* A tool of OMPT, which LLVM's runtime (libomp) and Intel's (libiomp5) load from OMP_TOOL_LIBRARIES. A
 * program's own tool, and tools that come earlier in the list, are used instead of this one.
 *
 * The runtime keeps 64 bits of ours for each region (the ct_region) and explicit task (its number, which is
 * odd). They are 0 if nothing was recorded at the begin. */
#include "ompt.h"
#include "openmp.h"

#define NO_CONSTRUCT CT_CONSTRUCT_COUNT

/* ---- regions and their threads --------------------------------------------------------------- */

static void on_thread_begin(int type, ct_ompt_data *thread)
{
    ct_thread *t = type == CT_OMPT_WORKER ? ct_this_thread : NULL;
    (void)thread;
    if (type == CT_OMPT_WORKER && !t)
        t = ct_attach_thread();
    if (t)
        ct_name_worker(t);
}

static void on_parallel_begin(ct_ompt_data *task, const void *frame, ct_ompt_data *region,
                              unsigned requested, int flags, const void *code)
{
    (void)task, (void)frame, (void)flags;
    region->ptr = ct_begin_region((uintptr_t)code, requested);
}

static void on_parallel_end(ct_ompt_data *region, ct_ompt_data *task, int flags, const void *code)
{
    (void)task, (void)flags, (void)code;
    if (region->ptr)
        ct_end_region(region->ptr);
    region->ptr = NULL;
}

static void on_implicit_task(int endpoint, ct_ompt_data *region, ct_ompt_data *task,
                             unsigned threads, unsigned number, int flags)
{
    (void)task;
    if (flags & CT_OMPT_TASK_INITIAL)
        return;
    if (endpoint == CT_OMPT_BEGIN)
        ct_begin_implicit_task(region ? region->ptr : NULL, threads, number);
    else
        ct_end_implicit_task();
}

/* ---- waiting and work sharing ---------------------------------------------------------------- */

/* By ompt_sync_region_t. A barrier without a kind of its own is taken for an implicit one. */
static const uint8_t waits[] = {
    NO_CONSTRUCT,        CT_BARRIER,       CT_IMPLICIT_BARRIER, CT_BARRIER,
    CT_IMPLICIT_BARRIER, CT_TASKWAIT,      CT_TASKGROUP_WAIT,   CT_REDUCTION,
    CT_IMPLICIT_BARRIER, CT_IMPLICIT_BARRIER, CT_IMPLICIT_BARRIER};
/* By ompt_work_t. A thread that another one keeps from executing a "single" has no work in it. */
static const uint8_t works[] = {NO_CONSTRUCT, CT_LOOP,       CT_SECTIONS,   CT_SINGLE, NO_CONSTRUCT,
                                CT_WORKSHARE, CT_DISTRIBUTE, CT_TASKLOOP,   CT_SCOPE,  CT_WORKSHARE,
                                CT_LOOP,      CT_LOOP,       CT_LOOP,       CT_LOOP};

static void follow_construct(ct_construct what, int endpoint, const void *code)
{
    if (what == NO_CONSTRUCT)
        return;
    if (endpoint == CT_OMPT_BEGIN)
        ct_open_construct(what, 0, (uintptr_t)code);
    else if (endpoint == CT_OMPT_END)
        ct_close_construct(what, 0);
}

static void on_sync_region_wait(int kind, int endpoint, ct_ompt_data *region, ct_ompt_data *task,
                                const void *code)
{
    (void)region, (void)task;
    if (kind >= 0 && (size_t)kind < CT_COUNT(waits))
        follow_construct(waits[kind], endpoint, code);
}

/* Only a taskgroup is more than its waiting. */
static void on_sync_region(int kind, int endpoint, ct_ompt_data *region, ct_ompt_data *task,
                           const void *code)
{
    (void)region, (void)task;
    if (kind >= 0 && (size_t)kind < CT_COUNT(waits) && waits[kind] == CT_TASKGROUP_WAIT)
        follow_construct(CT_TASKGROUP, endpoint, code);
}

static void on_work(int kind, int endpoint, ct_ompt_data *region, ct_ompt_data *task,
                    uint64_t count, const void *code)
{
    (void)region, (void)task, (void)count;
    if (kind >= 0 && (size_t)kind < CT_COUNT(works))
        follow_construct(works[kind], endpoint, code);
}

static void on_masked(int endpoint, ct_ompt_data *region, ct_ompt_data *task, const void *code)
{
    (void)region, (void)task;
    follow_construct(CT_MASKED, endpoint, code);
}

/* ---- explicit tasks -------------------------------------------------------------------------- */

static bool is_our_task(const ct_ompt_data *task) { return task && (task->value & 1); }

static void on_task_create(ct_ompt_data *task, const void *frame, ct_ompt_data *created, int flags,
                           int has_dependences, const void *code)
{
    (void)task, (void)frame, (void)has_dependences;
    created->value = flags & CT_OMPT_TASK_EXPLICIT ? ct_create_task((uintptr_t)code) : 0;
}

/* A task that is interrupted stays open below those that run meanwhile, and may go on on this thread. */
static bool is_task_open(uint64_t task)
{
    const ct_thread *t = ct_this_thread;
    for (uint32_t i = t ? t->count : 0; i > 0; i--)
        if (t->open[i - 1].what == CT_TASK && t->open[i - 1].key == task)
            return true;
    return false;
}

static void on_task_schedule(ct_ompt_data *prior, int status, ct_ompt_data *next)
{
    bool has_ended = status == CT_OMPT_TASK_COMPLETE || status == CT_OMPT_TASK_CANCEL;
    if (status == CT_OMPT_TASK_LATE_FULFILL)
        return; /* `prior` had ended before */
    if (is_our_task(prior) && has_ended)
        ct_close_construct(CT_TASK, prior->value);
    if (is_our_task(next) && !is_task_open(next->value))
        ct_open_construct(CT_TASK, next->value, ct_code_of_task(next->value));
}

/* ---- locks ----------------------------------------------------------------------------------- */

/* By ompt_mutex_t: the waiting, and what is held afterwards. */
static const uint8_t locks[][2] = {{NO_CONSTRUCT, NO_CONSTRUCT},   {CT_LOCK_WAIT, CT_LOCK},
                                   {NO_CONSTRUCT, CT_LOCK},        {CT_LOCK_WAIT, CT_LOCK},
                                   {NO_CONSTRUCT, CT_LOCK},        {CT_CRITICAL_WAIT, CT_CRITICAL},
                                   {CT_ATOMIC_WAIT, CT_ATOMIC},    {CT_ORDERED_WAIT, CT_ORDERED}};

static const uint8_t *constructs_of_lock(int kind)
{
    return locks[kind >= 0 && (size_t)kind < CT_COUNT(locks) ? kind : 0];
}

static void on_mutex_acquire(int kind, unsigned hint, unsigned implementation, uint64_t lock,
                             const void *code)
{
    const uint8_t *what = constructs_of_lock(kind);
    (void)hint, (void)implementation;
    if (what[0] != NO_CONSTRUCT)
        ct_open_construct(what[0], lock, (uintptr_t)code);
}

static void on_mutex_acquired(int kind, uint64_t lock, const void *code)
{
    const uint8_t *what = constructs_of_lock(kind);
    if (what[0] != NO_CONSTRUCT)
        ct_close_construct(what[0], lock);
    if (what[1] != NO_CONSTRUCT)
        ct_open_construct(what[1], lock, (uintptr_t)code);
}

static void on_mutex_released(int kind, uint64_t lock, const void *code)
{
    const uint8_t *what = constructs_of_lock(kind);
    (void)code;
    if (what[1] != NO_CONSTRUCT)
        ct_close_construct(what[1], lock);
}

/* ---- start ----------------------------------------------------------------------------------- */

/* Functions of many types in one table: each number implies the type with which it is called. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wcast-function-type"
#endif
#define EVENT(name, function) {CT_OMPT_##name, (ct_ompt_callback)(function)}
static const struct {
    int event;
    ct_ompt_callback callback;
} events[] = {
    EVENT(THREAD_BEGIN, on_thread_begin),
    EVENT(PARALLEL_BEGIN, on_parallel_begin),
    EVENT(PARALLEL_END, on_parallel_end),
    EVENT(TASK_CREATE, on_task_create),
    EVENT(TASK_SCHEDULE, on_task_schedule),
    EVENT(IMPLICIT_TASK, on_implicit_task),
    EVENT(SYNC_REGION_WAIT, on_sync_region_wait),
    EVENT(SYNC_REGION, on_sync_region),
    EVENT(WORK, on_work),
    EVENT(MASKED, on_masked),
    EVENT(MUTEX_ACQUIRE, on_mutex_acquire),
    EVENT(MUTEX_ACQUIRED, on_mutex_acquired),
    EVENT(MUTEX_RELEASED, on_mutex_released),
};

/* Returns whether the tool stays active. */
static int initialize_tool(ct_ompt_lookup lookup, int device, ct_ompt_data *tool)
{
    ct_ompt_set_callback set = (ct_ompt_set_callback)lookup("ompt_set_callback");
    (void)device, (void)tool;
    if (!set)
        return 0;
    for (size_t i = 0; i < CT_COUNT(events); i++)
        (void)set(events[i].event, events[i].callback);
    return 1;
}

static void finalize_tool(ct_ompt_data *tool) { (void)tool; }

CT_EXPORT ct_ompt_start_result *ompt_start_tool(unsigned version, const char *runtime);
ct_ompt_start_result *ompt_start_tool(unsigned version, const char *runtime)
{
    static ct_ompt_start_result result = {initialize_tool, finalize_tool, {0}};
    (void)runtime;
    if (version < CT_OMPT_FIRST_VERSION) {
        ct_count(CT_TALLY_OLD_OMPT);
        return NULL;
    }
    return &result;
}

/* Parts of operators that are recorded only on request: native stacks and hardware counters; and
 * operators that a backend reports after their end. */
#include "record/function.h"
#include "record/host.h"

#include <errno.h>

/* State of one thread; mapped for its first operator with stack or counters. */
typedef struct kr_extras {
    kr_stack_thread stack;
    bool counts;   /* its counters are open */
    uint32_t turn; /* counters.turn that it opened, or failed to open; 0: none yet */
    kr_perf_thread perf;
    kr_perf_values begun[KF_MAX_DEPTH]; /* by depth of the range */
    uint32_t begun_turn[KF_MAX_DEPTH];
} kr_extras;

/* The counters of all threads. The plan changes only while no session counts, since threads have
 * one set of counters for all sessions. */
static struct {
    kb_lock lock;
    uint32_t process;
    uint32_t sessions; /* sessions of that process that count: a fork's child begins with none */
    kr_perf_plan plan;
    uint32_t turn;     /* number of changes: a thread with another turn opens the new plan */
    uint32_t reported; /* the turn for which a refused thread was noted in the ledger: once */
} counters;

static kr_extras *get_thread_extras(kr_cursor *c)
{
    if (c->is_second)
        return NULL;
    if (!c->extras)
        c->extras = kb_os_map_wiped_on_fork(sizeof(kr_extras));
    return c->extras;
}

void kr_extras_thread_exit(kr_cursor *c)
{
    kr_extras *x = c->extras;
    if (!x)
        return;
    c->extras = NULL;
    if (x->counts)
        kr_perf_close(&x->perf);
    kb_os_unmap(x, sizeof *x);
}

/* Of a thread's stacks the first STACKS_TIMED, which take longest, are timed, then one of
 * STACKS_EACH, which stands for all of them. */
#define STACKS_TIMED 16u
#define STACKS_EACH  8u

static bool is_stack_timed(kr_cursor *c)
{
    return c->stacks++ < STACKS_TIMED || c->stacks % STACKS_EACH == 0;
}

static void add_stack_cost(const kr_cursor *c, uint64_t ticks)
{
    uint64_t stands_for = c->stacks <= STACKS_TIMED ? 1 : STACKS_EACH;
    kr_cost_add(KF_COST_STACK, ticks * stands_for, stands_for);
}

void kr_stack_take(kr_operator *op, const kr_place *place, uint64_t *room)
{
    kr_cursor *c = kr_me;
    kr_extras *x = c->busy ? NULL : get_thread_extras(c);
    if (!x)
        return;
    uint64_t begun = is_stack_timed(c) ? kr_ticks(c) : 0;
    uint32_t n = kr_stack_capture(&x->stack, place->frame, room, KR_STACK_MAX);
    if (begun)
        add_stack_cost(c, kr_ticks(c) - begun);
    uint32_t ours = n > 1 && room[1] == (uint64_t)(uintptr_t)place->caller;
    op->stack = room + ours;
    op->stack_count = n - ours;
}

static KB_COLD void report_counters_refused(uint32_t turn, const char *why)
{
    uint32_t reported = kb_load_relaxed(&counters.reported);
    if (reported != turn && kb_cas_acqrel(&counters.reported, &reported, turn))
        (void)kr_note("counters", "a thread could not count", 1, false, why,
                      kb_ticks(kb_ticks_clock()));
}

/* Open the current plan's counters for this thread. Tried once per plan: a refusal would repeat.
 * The cursor is entered, so that a signal handler does not close the same descriptors meanwhile. */
static KB_COLD void open_thread_counters(kr_cursor *c, kr_extras *x)
{
    int saved = errno;
    kineto_error why = {.code = KINETO_OK};
    if (!kr_lock_take(&counters.lock))
        return; /* a signal handler of the thread that changes them */
    kr_enter(c);
    kr_perf_plan plan = counters.plan;
    x->turn = counters.turn;
    kb_lock_drop(&counters.lock);
    if (x->counts)
        kr_perf_close(&x->perf);
    x->counts = kr_perf_open(&x->perf, &plan, &why) == KINETO_OK;
    if (!x->counts)
        report_counters_refused(x->turn, why.message);
    kr_leave(c);
    errno = saved;
}

void kr_counters_begin(kineto_function *f)
{
    kr_cursor *c = kr_me;
    kr_extras *x =
        c->busy || !f->range || (f->range & KR_RANGE_SIGNAL) ? NULL : get_thread_extras(c);
    if (!x)
        return;
    uint32_t depth = (f->range - 1) % KF_MAX_DEPTH;
    if (KINETO_UNLIKELY(x->turn != kb_load_acquire(&counters.turn)))
        open_thread_counters(c, x);
    if (!x->counts)
        return;
    uint64_t begun = kr_ticks(c);
    kr_perf_read(&x->perf, &x->begun[depth]);
    x->begun_turn[depth] = x->turn;
    kr_cost_add(KF_COST_COUNTERS, kr_ticks(c) - begun, 1);
    f->state |= KR_FUNCTION_COUNTED;
}

/* Has this thread counted with the same plan since that range began? */
static bool has_counted_range(const kr_cursor *c, const kineto_function *f)
{
    const kr_extras *x = c->extras;
    return !c->is_second && x && x->counts && f->range <= c->depth &&
           x->begun_turn[(f->range - 1) % KF_MAX_DEPTH] == x->turn;
}

/* Write the differences as more args of the open range, then its end. Its time ends before the
 * counters are read. */
void kr_counters_end(kineto_function *f)
{
    kr_cursor *c = kr_cursor_enter();
    if (!c)
        return;
    uint64_t ticks = kr_ticks(c), *end = NULL;
    kr_extras *x = c->extras;
    kr_perf_values now;
    if (has_counted_range(c, f) && kr_room(c, 3 + 2 * (KR_PERF_MAX + 1))) {
        kr_perf_read(&x->perf, &now);
        kr_perf_since(&x->begun[(f->range - 1) % KF_MAX_DEPTH], &now);
        end = kr_counters_write(c->at + 2, kr_record_limit(c, c->at), &x->perf.plan, &now);
    }
    if (end) {
        uint32_t words = (uint32_t)(end - c->at);
        c->at[1] = ticks;
        kr_commit(c, c->at, kf_header(KF_ARGS, words, f->range - 1, 0), words);
    } else if (c->at) {
        kr_undo(c);
    }
    if (f->range <= c->depth)
        kr_end_write(c, f->range - 1, ticks);
    kr_cost_add(KF_COST_COUNTERS, kr_ticks(c) - ticks, 1);
    kr_leave(c);
}

kineto_status kineto_rt_stacks_prepare(kineto_error *err)
{
    kineto_status status = kr_stack_prepare(kr_stack_by_setting(), err);
    if (!status)
        kineto_rt_modules_note(true);
    return status;
}

kineto_status kineto_rt_counters_prepare(const char *const *names, size_t count,
                                         kr_perf_plan *out, kineto_error *absent,
                                         kineto_error *err)
{
    return kr_perf_prepare(names, count, out, absent, err);
}

/* One more session counts with this plan. False: others count with another plan. A new turn begins
 * also when a thread was refused before, so that it tries again and the new session's ledger has a
 * line about it. */
static bool acquire_counters(const kr_perf_plan *plan)
{
    uint32_t process = kb_os_pid(), sessions = counters.process == process ? counters.sessions : 0;
    const kr_perf_plan *now = &counters.plan;
    if (sessions &&
        (now->count != plan->count || memcmp(now->event, plan->event, plan->count) != 0))
        return false;
    counters.process = process;
    counters.sessions = sessions + 1;
    if (!sessions && (counters.reported == counters.turn || memcmp(now, plan, sizeof *plan) != 0)) {
        counters.plan = *plan;
        kb_store_release(&counters.turn, counters.turn + 1);
    }
    return true;
}

kineto_status kineto_rt_counters_begin(const kr_perf_plan *plan, kineto_error *err)
{
    (void)kr_lock_take(&counters.lock);
    bool taken = acquire_counters(plan);
    kb_lock_drop(&counters.lock);
    return taken ? KINETO_OK
                 : kb_fail(err, KINETO_E_BUSY,
                           "another profiler is running with other counters; request the same "
                           "counters, or stop it first");
}

void kineto_rt_counters_end(void)
{
    (void)kr_lock_take(&counters.lock);
    KB_ASSERT(counters.process != kb_os_pid() || counters.sessions);
    if (counters.process == kb_os_pid() && counters.sessions)
        counters.sessions--;
    kb_lock_drop(&counters.lock);
}

/* ---- modules --------------------------------------------------------------------------------- */

static kb_lock modules_lock;

static void add_module_entry(void *context, const kr_module *m)
{
    const kf_pool *pool = context;
    kf_module_entry entry = {.process = kineto_rt_process(),
                             .is_gone = m->is_gone,
                             .start = m->start,
                             .end = m->end,
                             .file_offset = m->file_offset};
    uint32_t path = (uint32_t)strlen(m->path), id = m->build_id_bytes;
    kf_part parts[] = {{&entry, sizeof entry},
                       {&path, sizeof path},
                       {m->path, path},
                       {&id, sizeof id},
                       {m->build_id, id}};
    if (!kf_dictionary_add(pool, KF_ENTRY_MODULE, parts, KB_COUNT(parts)))
        kr_count(KF_SOURCE_API, KF_REASON_DICTIONARY_FULL, 1);
}

void kineto_rt_modules_note(bool anyway)
{
    const kf_pool *pool = kr_pool_get();
    if (!pool || !(anyway || kr_modules_are_stale()) || !kr_lock_take(&modules_lock))
        return;
    (void)kr_modules_note(add_module_entry, (void *)pool, NULL);
    kb_lock_drop(&modules_lock);
}

/* Addresses that were noted, by a hash, for the pool and the process of the last call: a child of a fork has an
 * entry of its own. Lost updates only cost another look at the list. */
#define NOTED_CODE 256u
static uintptr_t noted_code[NOTED_CODE];
static const kf_pool *noted_pool;
static uint32_t noted_process;

void kineto_code_note(const void *address)
{
    const kf_pool *pool = kr_pool_get();
    uint32_t process = kineto_rt_process(); /* 0: not registered yet */
    uintptr_t code = (uintptr_t)address;
    uintptr_t *slot = &noted_code[(code ^ code >> 8 ^ code >> 16) % NOTED_CODE];
    bool is_other = kb_load_relaxed(&noted_pool) != pool || kb_load_relaxed(&noted_process) != process;
    if (!pool || !process || (kb_load_relaxed(slot) == code && !is_other))
        return;
    if (kr_module_of(code) == KR_MODULE_UNKNOWN)
        kr_modules_set_stale();
    kineto_rt_modules_note(is_other);
    kb_store_relaxed(&noted_pool, pool);
    kb_store_relaxed(&noted_process, process);
    kb_store_relaxed(slot, code);
}

/* ---- operators of a backend ------------------------------------------------------------------ */

static uint64_t *write_backend_args(uint64_t *at, const uint64_t *limit, int64_t debug_handle,
                                    const char *backend)
{
    if (debug_handle != -1)
        at = kr_loose_int_write(at, limit, "Debug handle", debug_handle);
    if (at && backend && backend[0])
        at = kr_loose_text_write(at, limit, "Backend", backend);
    return at;
}

void kineto_rt_backend_event(int64_t start_ns, int64_t end_ns, int64_t debug_handle, uint32_t scope,
                             const char *name, const char *backend)
{
    uint32_t kind = KINETO_SCOPE_KIND(scope);
    kr_cursor *c = kineto_enabled(kind) ? kr_cursor_enter() : NULL;
    if (!c)
        return;
    uint32_t id = kr_intern(name ? name : "", name ? strlen(name) : 0);
    uint64_t *at = kr_room(c, 64), *end = NULL;
    if (at)
        end = write_backend_args(at + 7, kr_record_limit(c, at), debug_handle, backend);
    if (end) {
        uint32_t words = (uint32_t)(end - at);
        uint32_t props = KF_DEVICE_EXTERNAL | (words > 7 ? KF_DEVICE_LOOSE : 0);
        at[1] = (uint64_t)start_ns;
        at[2] = (uint64_t)KB_MAX(start_ns, end_ns);
        at[3] = 0;
        at[4] = c->pid | (uint64_t)c->tid << 32;
        at[5] = 0;
        at[6] = kr_function_id(c);
        kr_commit(
            c, at,
            kf_header(KF_DEVICE, words, kf_device_aux(kind, KINETO_PLUGIN_CLOCK_UTC, props), id),
            words);
    } else if (at) {
        kr_undo(c);
        kr_count(c->source, KF_REASON_TOO_LARGE, 1);
    }
    kr_leave(c);
}

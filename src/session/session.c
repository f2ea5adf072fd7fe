/* Sessions of the running program (<ckineto/session.h>): windows over its one recorder.
 *
 * Without a collector the pool belongs to this process (own_pool.c). With one (`ckineto record`) it
 * belongs to the collector, and chunks that were copied out are read back from the spool.
 * One lock guards the list of sessions and their windows; it is never taken while recording.
 * Life of a session: prepared (slot UINT32_MAX) → warming (warm_up, optional: the window is open,
 * and its start moves when the session starts) → recording (start) → ended (ks_session_end, the
 * window is still open for its chunks) → stopped (the trace is built, the window closes). A stopped
 * session can be started again.
 */
#include "record/record.h"
#include "session/own_pool.h"
#include "session/self_cost.h"

#include <time.h>

struct kineto_session {
    kineto_session_options options;
    struct kineto_session *next; /* of the prepared ones, newest first */
    uint32_t pid;
    uint32_t slot;                        /* UINT32_MAX: not recording */
    bool is_warming;                      /* its sources record, and its window has not begun */
    bool was_warmed;                      /* device work that began before its window is left out */
    KB_VEC(kt_build_thread_span) threads; /* that are, or were, in it */
    KB_VEC(kt_build_thread_span) pauses;
    uint64_t start_ticks, end_ticks; /* end 0: it records */
    /* Metadata and ledger notes that the program added in this span belong to this session; 0: from
     * the beginning, up to now. Reaches beyond end_ticks, so that it includes errors of plug-ins
     * while they are stopped. */
    uint64_t stated_from, over_ticks;
    kb_clock_snapshot armed; /* when it was started */
    uint64_t complete_from;  /* before this time, some of its kinds were not recorded */
    uint64_t counters[KF_MAX_SOURCES][KF_REASON_SLOTS]; /* at the start: the pool's go on */
    char custom_config[KS_CONFIG_BYTES];
    ks_extras extras;
    ks_account account; /* since it was started */
    ks_cost cost;       /* until its end, or the last snapshot */
    uint64_t lasted_ns, prepare_ns;
};

/* All sessions of this process; guarded by the lock, which a fork's child may break. */
static kb_lock sessions_lock;
static kineto_session *sessions;
static uint64_t last_over_ticks = 1; /* when the last session that claims was over */
static struct { /* traces that are being built by this process: a fork's child has none */
    uint32_t pid, count;
} building;

static void lock_sessions(void) { (void)kb_lock_take(&sessions_lock, kb_os_self()); }
static void unlock_sessions(void) { kb_lock_drop(&sessions_lock); }

/* Not in a fork's child, where it is the parent's. */
static bool is_recording(const kineto_session *s)
{
    return s->slot != UINT32_MAX && s->pid == kb_os_pid();
}

/* KINETO_E_STATE unless the window of the session has begun. */
static kineto_status check_started(const kineto_session *s, kineto_error *err)
{
    return is_recording(s) && !s->is_warming
               ? KINETO_OK
               : kb_fail(err, KINETO_E_STATE, "the session is not recording; start it first");
}

/* Do notes of the program during this session belong to it alone? Rings and on-demand windows are
 * not started by the program: they see all notes, and leave them to other sessions as well. */
static bool owns_notes(const kineto_session *s)
{
    return !s->extras.grows && s->options.retention != KINETO_RETAIN_NEWEST;
}

/* From when on notes belong to this session: notes that were made while no session recorded go to
 * the next one. */
static uint64_t notes_from(const kineto_session *s)
{
    if (!owns_notes(s))
        return 0;
    for (const kineto_session *other = sessions; other; other = other->next)
        if (other != s && is_recording(other) && !other->over_ticks && owns_notes(other))
            return s->start_ticks;
    return last_over_ticks;
}

static void (*prepare_hook)(void);

void ks_session_hook(void (*hook)(void)) { kb_store_release(&prepare_hook, hook); }

/* ---- the pool -------------------------------------------------------------------------------- */

/* Prefaults outside the lock: no thread can own these chunks yet, because they are beyond
 * chunk_limit. The limit is raised only if it is still the same afterwards. */
bool ks_sessions_grow(size_t bytes)
{
    const kf_pool *pool = kineto_rt_pool();
    size_t most = 0, want;
    if (!pool || pool->control->external)
        return false;
    lock_sessions();
    for (const kineto_session *s = sessions; s; s = s->next)
        if (s->extras.grows && !s->end_ticks && s->pid == kb_os_pid())
            most = KB_MAX(most, s->options.buffer_bytes);
    uint32_t have = kb_load_acquire(&pool->control->chunk_limit);
    unlock_sessions();
    most = KB_MIN(most / KF_CHUNK_BYTES, pool->chunk_count);
    if (have >= most)
        return false;
    want = KB_MIN(most, have + KB_MAX(bytes / KF_CHUNK_BYTES, 1u));
    kb_os_prefault(kf_pool_chunk(pool, have), (want - have) * KF_CHUNK_BYTES);
    KB_ASSERT(want > have && want <= pool->chunk_count);
    lock_sessions();
    if (sessions && kb_load_acquire(&pool->control->chunk_limit) == have)
        (void)ks_own_pool_grow(pool, want * KF_CHUNK_BYTES, NULL);
    unlock_sessions();
    return want < most;
}

/* ---- giving chunks back ---------------------------------------------------------------------- */

/* Chunks that end before this time are not needed by any session that records. UINT64_MAX: no
 * session of this process does. */
static uint64_t wanted_from(void)
{
    uint64_t from = UINT64_MAX;
    for (const kineto_session *s = sessions; s; s = s->next)
        if (is_recording(s))
            from = KB_MIN(from, s->start_ticks);
    return from;
}

/* ---- cost ------------------------------------------------------------------------------------ */

/* With the lock. */
static void begin_account(kineto_session *s, const kf_pool *pool)
{
    const kf_control *control = pool->control;
    ks_account_free(&s->account);
    s->account = (ks_account){.by = KS_BY_PROGRAM,
                              .recorder_pid = control->external ? control->collector_pid : 0};
    ks_account_process(&s->account, s->pid);
    ks_account_find_processes(&s->account, pool);
    ks_account_begin(&s->account, control);
}

static void take_account(kineto_session *s, const kf_pool *pool)
{
    ks_account_find_processes(&s->account, pool);
    ks_account_read(&s->account, pool->control, false, &s->cost);
    s->lasted_ns = kb_monotonic_ns() - s->account.begun_ns;
}

/* The cost of all programs of the recording within this session's window, including what other
 * sessions requested. */
static ks_cost_part make_session_cost(const kineto_session *s, const kt_build_options *options)
{
    return (ks_cost_part){
        .account = s->account,
        .part = {options->start_ticks, options->end_ticks},
        .summary = {.cost = s->cost, .lasted_ns = s->lasted_ns, .prepare_ns = s->prepare_ns}};
}

/* ---- reading what was recorded --------------------------------------------------------------- */

/* Is this the only session of all processes, and does it end now? Then its memory can be given back
 * while the trace is built. */
static bool is_last_reader(const kineto_session *s, const kf_control *control)
{
    return s->extras.last && sessions == s && !s->next && !ks_has_foreign_windows(control) &&
           control->collector_pid == s->pid;
}

/* The pool's counters only grow: what they had at the start of this session is not its own. */
static void subtract_start_counters(const kineto_session *s, kf_control *control)
{
    for (uint32_t i = 0; i < KF_MAX_SOURCES; i++)
        for (uint32_t k = 0; k < KF_REASON_SLOTS; k++)
            control->counters[i][k] -= s->counters[i][k];
}

/* While a ring is open, writers overwrite chunks that are older than this window, but none of its
 * own: such evictions are not losses of this session. */
static void clear_foreign_evictions(const kineto_session *s, kf_control *control)
{
    if (s->extras.armed || s->options.retention == KINETO_RETAIN_NEWEST)
        return;
    for (uint32_t i = 0; i < KF_MAX_SOURCES; i++)
        control->counters[i][KF_REASON_EVICTED] = 0;
}

/* Does building the trace hold the lock? Sessions that give memory back must not meet others that
 * want some, and threads of a KINETO_THREADS_CALLER session must not join meanwhile. */
static bool builds_under_lock(const kineto_session *s)
{
    return s->extras.last || s->options.threads == KINETO_THREADS_CALLER;
}

/* Reads chunks in place or one at a time: without a copy of the whole pool. */
static kineto_status build_from_pool(const kineto_session *s, const kf_pool *pool,
                                     const kt_build_options *common, kineto_trace **out,
                                     kineto_error *err)
{
    kineto_status status;
    kt_build_options options = *common;
    kf_input input;
    bool last = is_last_reader(s, pool->control);
    if (last)
        kb_store_release(&pool->control->chunk_limit, 0u); /* no thread may claim chunks now */
    ks_pool_reader *reader = ks_pool_reader_create(pool, ks_own_chunks_in_use(pool), last, &input);
    if (!builds_under_lock(s))
        input.peek =
            NULL; /* a ring that begins meanwhile may overwrite them: only copies are safe */
    kf_control *control = aligned_alloc(_Alignof(kf_control), sizeof *control);
    if (!reader || !control) {
        status = kb_fail_memory(err, "reading the recording");
        goto done;
    }
    ks_words_copy(control, pool->control, sizeof *control);
    subtract_start_counters(s, control);
    clear_foreign_evictions(s, control);
    options.complete_from = KB_MAX(options.complete_from, control->forgotten_ticks);
    ks_cost_part part = make_session_cost(s, &options);
    ks_cost_part_attach(&part, control, &input, &options);
    status = kt_build(&input, control, &options, out, err);
done:
    ks_pool_reader_destroy(reader);
    free(control);
    return status;
}

static bool pool_overwrites(const kf_control *control)
{
    return kb_load_relaxed(&control->full_policy) == KF_FULL_RING;
}

/* A session without end_ticks goes on: this is a snapshot. In a ring, the snapshot ends when the
 * copy was made and begins where nothing had been overwritten. Threads overwrite the oldest chunks
 * without waiting for each other, so only fragments are left of what lies before. */
static kineto_status copy_pool(const kineto_session *s, const kf_pool *pool,
                               kt_build_options *options, ks_input **input, kineto_error *err)
{
    char path[KS_PATH_BYTES];
    memcpy(path, pool->control->spool_path, sizeof path);
    path[sizeof path - 1] = 0;
    const char *spool = path[0] ? path : NULL;
    if (s->end_ticks || !pool_overwrites(pool->control))
        return ks_input_open(spool, pool, input, err);
    kineto_status status = ks_input_open_ring(spool, NULL, pool, input, &options->end_ticks, err);
    if (status == KINETO_OK)
        options->start_ticks = KB_MAX(options->start_ticks, (*input)->control->forgotten_ticks);
    return status;
}

/* Builds from a copy: while threads may overwrite their chunks, or another process frees them. */
static kineto_status build_from_copy(const kineto_session *s, const kf_pool *pool,
                                     const kt_build_options *common, kineto_trace **out,
                                     kineto_error *err)
{
    kt_build_options options = *common;
    ks_input *input = NULL;
    kf_pool used = *pool;
    if (!pool->control->external)
        used.chunk_count = ks_own_chunks_in_use(pool);
    kineto_status status = copy_pool(s, &used, &options, &input, err);
    if (status)
        return status;
    subtract_start_counters(s, input->control);
    if (!pool->control->external) {
        clear_foreign_evictions(s, input->control);
        options.complete_from = KB_MAX(options.complete_from, input->control->forgotten_ticks);
    }
    ks_cost_part part = make_session_cost(s, &options);
    ks_cost_part_attach(&part, input->control, &input->input, &options);
    status = kt_build(&input->input, input->control, &options, out, err);
    ks_input_close(input);
    return status;
}

/* In place only while no other thread or process can overwrite or free chunks. */
static bool needs_pool_copy(const kineto_session *s, const kf_control *control)
{
    return control->external || (pool_overwrites(control) && !is_last_reader(s, control));
}

/* KF_WANT_… bits of its window: the usual ones, without those that are turned off, and the extra
 * ones. */
static uint32_t session_wants(const kineto_session *s)
{
    const kineto_session_options *o = &s->options;
    uint32_t not = (o->operators & KINETO_OPERATORS_NO_TEXTS ? KF_WANT_TEXTS : 0) |
                   (o->operators & KINETO_OPERATORS_NO_CORRELATION ? KF_WANT_CORRELATION : 0) |
                   (o->threads == KINETO_THREADS_CALLER ? KF_WANT_ALL_THREADS : 0) |
                   (o->scopes ? KF_WANT_SCOPES : 0);
    uint32_t more = (o->operators & KINETO_OPERATORS_INPUTS ? KF_WANT_INPUTS : 0) |
                    (o->operators & KINETO_OPERATORS_VALUES ? KF_WANT_VALUES : 0) |
                    (o->operators & KINETO_OPERATORS_IDS ? KF_WANT_IDS : 0) |
                    (o->operators & KINETO_OPERATORS_STACK ? KF_WANT_STACK : 0) |
                    (o->operators & KINETO_OPERATORS_BOTH_STACKS ? KF_WANT_BOTH : 0) |
                    (s->extras.counters ? KF_WANT_COUNTERS : 0);
    return (KF_WANT_USUAL & ~not) | more | o->scopes << 16;
}

/* Who, what and when: from the session's window, options and threads. */
static void set_window_options(const kineto_session *s, uint64_t end_ticks, kt_build_options *o)
{
    o->kinds = s->options.kinds;
    o->wants = session_wants(s);
    o->overloads = s->options.operators & KINETO_OPERATORS_OVERLOADS;
    o->start_ticks = o->requested_from = s->start_ticks;
    o->end_ticks = end_ticks;
    o->complete_from = s->complete_from;
    o->stated_from = s->stated_from;
    o->stated_until = s->over_ticks;
    o->threads = s->threads.data;
    o->thread_count = s->threads.count;
    o->pauses = s->pauses.data;
    o->pause_count = s->pauses.count;
    o->clip_open = true;
    o->drop_early_devices = s->was_warmed;
}

/* How the trace is cut: limits that are known more exactly than the window's. */
static void set_cut_options(const kineto_session *s, kt_build_options *o)
{
    const ks_extras *extras = &s->extras;
    o->from_ns = extras->from_ns;
    o->until_ns = extras->until_ns;
    o->from_ticks = extras->from_ticks;
    o->until_ticks = extras->until_ticks;
    o->epoch_ticks = extras->from_ns ? s->armed.ticks : 0;
}

/* What the front end adds to the trace. */
static void set_front_end_options(const ks_extras *extras, kt_build_options *o)
{
    o->no_links = extras->no_links;
    o->adjust_steps = extras->adjust_steps;
    o->metadata = extras->metadata;
    o->metadata_count = extras->metadata_count;
    o->header = extras->header;
    o->header_count = extras->header_count;
    o->notes = extras->notes;
    o->note_count = extras->note_count;
    o->post = extras->post;
    o->post_context = extras->post_context;
}

static kineto_status build_session_trace(const kineto_session *s, uint64_t end_ticks,
                                         kineto_trace **out, kineto_error *err)
{
    const kf_pool *pool = kineto_rt_pool();
    const kf_control *control = pool->control;
    kt_build_options options = {0};
    set_window_options(s, end_ticks, &options);
    set_cut_options(s, &options);
    set_front_end_options(&s->extras, &options);
    /* A pool that this process made is shared only with its descendants: all of it belongs to the
     * trace, also where a parent in between ended or never recorded. Otherwise only the processes
     * below this one do. */
    bool own_pool = !control->external && control->collector_pid == s->pid;
    options.root_pid = own_pool ? 0 : s->pid;
    return needs_pool_copy(s, control) ? build_from_copy(s, pool, &options, out, err)
                                       : build_from_pool(s, pool, &options, out, err);
}

/* Called with the lock, which is released meanwhile unless builds_under_lock: another window may
 * end in a step of the program, which must not wait until a trace is built. The session's own
 * window stays open and keeps its chunks; `building` keeps others from releasing chunks that are
 * being read. */
static kineto_status build_unlocked(const kineto_session *s, uint64_t end_ticks, kineto_trace **out,
                                    kineto_error *err)
{
    bool locked = builds_under_lock(s);
    if (building.pid != kb_os_pid())
        building.count = 0;
    building.pid = kb_os_pid();
    KB_ASSERT(is_recording(s));
    building.count++;
    if (!locked)
        unlock_sessions();
    kineto_status status = build_session_trace(s, end_ticks, out, err);
    if (!locked)
        lock_sessions();
    KB_ASSERT(building.count > 0);
    building.count--;
    return status;
}

/* A trace that is being built reads all chunks: the last build to finish releases them. */
static void chunks_release(const kf_pool *pool)
{
    if (building.count == 0 || building.pid != kb_os_pid())
        ks_own_chunks_release(pool, wanted_from());
}

/* Adds a clock snapshot to the control page. @return ticks now. */
static uint64_t take_clock_snapshot(kf_control *control, kb_clock_snapshot *now)
{
    kb_clock_snapshot_take(control->ticks_clock, now);
    kf_snapshot_add(control, now);
    return kb_ticks(control->ticks_clock);
}

static uint64_t snapshot_clock_now(kf_control *control)
{
    kb_clock_snapshot now;
    return take_clock_snapshot(control, &now);
}

/* ---- the public calls ------------------------------------------------------------------------ */

static kineto_status read_session_options(const kineto_session_options *in,
                                          kineto_session_options *out, kineto_error *err)
{
    kineto_session_options_init(out);
    kineto_status status = kb_options_read(out, sizeof *out, in,
                                           "session options, see kineto_session_options_init", err);
    if (status)
        return status;
    if (!out->kinds)
        out->kinds = KINETO_KINDS_DEFAULT;
    if (!out->buffer_bytes)
        out->buffer_bytes = KS_DEFAULT_BUFFER_BYTES;
    if (out->retention > KINETO_RETAIN_NEWEST || out->threads > KINETO_THREADS_CALLER)
        return kb_fail(err, KINETO_E_ARGUMENT, "session options: unknown retention or threads");
    if (out->scopes >> KINETO_NUM_SCOPES || out->operators > 2 * KINETO_OPERATORS_BOTH_STACKS - 1)
        return kb_fail(err, KINETO_E_ARGUMENT, "session options: unknown scopes or operators");
    if (out->custom_config && strlen(out->custom_config) >= KS_CONFIG_BYTES)
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "session options: custom_config has %zu bytes, at most %u are possible",
                       strlen(out->custom_config), KS_CONFIG_BYTES - 1);
    return KINETO_OK;
}

ks_extras *ks_session_extras(kineto_session *s) { return &s->extras; }

int64_t ks_session_started_ns(const kineto_session *s) { return s->armed.realtime_ns; }

kineto_status kineto_session_create(const kineto_session_options *options, kineto_session **out,
                                     kineto_error *err)
{
    return ks_session_prepare(options, &(ks_extras){0}, out, err);
}

/* The session object alone; its options are copied, nothing is borrowed afterwards. */
static kineto_session *create_session(const kineto_session_options *options,
                                      const ks_extras *extras)
{
    kineto_session *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->options = *options;
    s->options.custom_config = NULL;
    if (options->custom_config)
        memcpy(s->custom_config, options->custom_config, strlen(options->custom_config));
    s->extras = *extras;
    s->slot = UINT32_MAX;
    s->pid = kb_os_pid();
    return s;
}

/* Memory for its records, and its place in the list. */
static kineto_status register_session(kineto_session *s, kineto_error *err)
{
    size_t bytes = s->options.buffer_bytes;
    if (s->extras.grows)
        bytes = KB_MIN(bytes, KS_FIRST_BYTES);
    lock_sessions();
    kineto_status status = ks_own_pool_ready(bytes, err);
    if (status == KINETO_OK) {
        s->next = sessions;
        sessions = s;
    }
    unlock_sessions();
    return status;
}

static kineto_status prepare_sources(const kineto_session *s, kineto_error *err)
{
    kineto_rt_plugins_prepare(!s->extras.no_privateuse1);
    bool stacks = s->options.operators & KINETO_OPERATORS_STACK;
    return stacks ? kineto_rt_stacks_prepare(err) : KINETO_OK;
}

kineto_status ks_session_prepare(const kineto_session_options *options, const ks_extras *extras,
                                 kineto_session **out, kineto_error *err)
{
    if (!out)
        return kb_fail_null(err, "kineto_session_create", "out", out);
    *out = NULL;
    uint64_t begun_ns = kb_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    kineto_session_options read;
    kineto_status status = read_session_options(options, &read, err);
    if (status)
        return status;
    kineto_session *s = create_session(&read, extras);
    if (!s)
        return kb_fail_memory(err, NULL);
    void (*hook)(void) = kb_load_acquire(&prepare_hook);
    if (hook)
        hook();
    status = register_session(s, err);
    if (status) {
        free(s);
        return status;
    }
    status = prepare_sources(s, err);
    s->prepare_ns = kb_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begun_ns;
    if (status)
        kineto_session_destroy(s);
    else
        *out = s;
    return status;
}

/* Since when all of these kinds have been recorded without a break; to be called when they are
 * about to be recorded, with the lock. Ends of asynchronous ranges are not recorded while no window
 * wants their kind, so a begin before this time may lack its end. */
static uint64_t kinds_complete_since(uint64_t kinds, const kf_control *control, uint64_t now)
{
    static uint64_t since[KINETO_KIND_COUNT]; /* plug-ins' own kinds have no such ranges */
    uint64_t latest = 0, gate = kb_load_acquire(&control->gate);
    for (uint32_t kind = 0; kind < KINETO_KIND_COUNT; kind++) {
        if (!(kinds & KINETO_KIND_BIT(kind)))
            continue;
        if (!(gate & KINETO_KIND_BIT(kind)))
            since[kind] = now;
        latest = KB_MAX(latest, since[kind]);
    }
    return latest;
}

/* The configuration text applies to plug-in profilers that are created from now on. A session
 * without one clears it only when no other session is recording. */
static void set_plugin_config(const kineto_session *s, kf_control *control)
{
    if (s->custom_config[0] || kf_held_kinds(control) == 0)
        memcpy(control->custom_config, s->custom_config, sizeof s->custom_config);
}

/* ---- threads of a session -------------------------------------------------------------------- */

/* A KINETO_THREADS_CALLER session begins with the thread that starts it. */
static kineto_status join_starting_thread(kineto_session *s, kineto_error *err)
{
    kt_build_thread_span span = {.tid = kb_os_tid(), .from_ticks = s->start_ticks};
    bool fine = s->options.threads != KINETO_THREADS_CALLER || kb_vec_push(&s->threads, span);
    return fine ? KINETO_OK : kb_fail_memory(err, NULL);
}

/* The span of the calling thread that is still open; NULL: the thread is not in the session. */
static kt_build_thread_span *find_open_span(kineto_session *s)
{
    uint32_t tid = kb_os_tid();
    for (size_t i = s->threads.count; i-- > 0;)
        if (s->threads.data[i].tid == tid && !s->threads.data[i].to_ticks)
            return &s->threads.data[i];
    return NULL;
}

static kineto_status check_joinable(const kineto_session *s, const char *function,
                                    kineto_error *err)
{
    if (!s)
        return kb_fail_null(err, function, "session", s);
    if (!is_recording(s))
        return kb_fail(err, KINETO_E_STATE, "the session is not recording; start it first");
    if (s->options.threads != KINETO_THREADS_CALLER)
        return kb_fail(err, KINETO_E_STATE, "the session is one of all threads");
    return KINETO_OK;
}

kineto_status kineto_session_join(kineto_session *s, kineto_error *err)
{
    kineto_status status = check_joinable(s, __func__, err);
    if (status)
        return status;
    lock_sessions();
    kt_build_thread_span span = {.tid = kb_os_tid(),
                                 .from_ticks = kb_ticks(kineto_rt_pool()->control->ticks_clock)};
    /* An open span alone proves nothing: a thread that ended may have had the same tid. */
    kt_build_thread_span *before = find_open_span(s);
    if (before && kineto_rt_joined(s->slot))
        status = kb_fail(err, KINETO_E_STATE, "the thread is in the session already");
    else if (!kb_vec_push(&s->threads, span))
        status = kb_fail_memory(err, NULL);
    else
        kineto_rt_join(s->slot, true);
    unlock_sessions();
    return status;
}

kineto_status kineto_session_leave(kineto_session *s, kineto_error *err)
{
    kineto_status status = check_joinable(s, __func__, err);
    if (status)
        return status;
    lock_sessions();
    kt_build_thread_span *span = find_open_span(s);
    if (!span) {
        status = kb_fail(err, KINETO_E_STATE, "the thread is not in the session");
    } else {
        span->to_ticks = kb_ticks(kineto_rt_pool()->control->ticks_clock);
        kineto_rt_join(s->slot, false);
    }
    unlock_sessions();
    return status;
}

/* Which records of its window a full buffer keeps. With the lock. */
static void set_window_retention(const kineto_session *s, kf_control *control)
{
    bool newest =
        s->is_warming || s->extras.armed || s->options.retention == KINETO_RETAIN_NEWEST;
    kb_store_relaxed(&control->windows[s->slot].keep_newest,
                     newest ? KS_KEEP_NEWEST : KS_KEEP_OLDEST);
    ks_retention_update(control);
}

/* Begins the account, the counters and the notes of a session. With the lock. */
static void begin_session_state(kineto_session *s, kf_control *control)
{
    s->pid = kb_os_pid();
    s->threads.count = s->pauses.count = 0;
    begin_account(s, kineto_rt_pool());
    s->start_ticks = take_clock_snapshot(control, &s->armed);
    s->end_ticks = s->over_ticks = 0;
    s->stated_from = notes_from(s);
    ks_words_copy(s->counters, control->counters, sizeof s->counters);
    s->complete_from = kinds_complete_since(s->options.kinds, control, s->start_ticks);
    set_plugin_config(s, control);
}

/* Opens the window of a session that does not record. */
static kineto_status open_window(kineto_session *s, bool is_warming, kineto_error *err)
{
    kf_control *control = kineto_rt_pool()->control;
    lock_sessions();
    s->is_warming = s->was_warmed = is_warming;
    ks_chunks_inherit_from_dead(kineto_rt_pool());
    begin_session_state(s, control);
    kineto_status status = join_starting_thread(s, err);
    if (!status)
        s->slot = kf_window_open(control, s->options.kinds, s->start_ticks);
    if (!status && s->slot == UINT32_MAX)
        status = kb_fail(err, KINETO_E_LIMIT, "%u sessions are recording already: stop one first",
                         KF_MAX_WINDOWS);
    if (!status) {
        kf_window_want(control, s->slot, session_wants(s));
        set_window_retention(s, control);
        if (s->options.threads == KINETO_THREADS_CALLER)
            kineto_rt_join(s->slot, true);
    }
    unlock_sessions();
    kineto_rt_profilers_update();
    return status;
}

/* Moves the start of an open window; what was recorded before does not count any more. With the
 * lock. */
static void move_window_start(kineto_session *s, kf_control *control, uint64_t start_ticks)
{
    ks_account_begin(&s->account, control);
    s->start_ticks = start_ticks;
    ks_words_copy(s->counters, control->counters, sizeof s->counters);
    control->windows[s->slot].start_ticks = start_ticks;
    kb_store_relaxed(&control->windows[s->slot].keep_newest,
                     s->options.retention == KINETO_RETAIN_NEWEST ? KS_KEEP_NEWEST
                                                                  : KS_KEEP_FROM_START);
    ks_retention_update(control);
}

/* Begins the window of a session that warms up. Its sources are on already. */
static void begin_warm_window(kineto_session *s)
{
    kf_control *control = kineto_rt_pool()->control;
    lock_sessions();
    s->is_warming = false;
    move_window_start(s, control, snapshot_clock_now(control));
    unlock_sessions();
}

kineto_status kineto_session_warm_up(kineto_session *s, kineto_error *err)
{
    if (!s)
        return kb_fail_null(err, __func__, "session", s);
    if (is_recording(s))
        return kb_fail(err, KINETO_E_STATE, "the session is recording already; stop it first");
    return open_window(s, true, err);
}

kineto_status kineto_session_start(kineto_session *s, kineto_error *err)
{
    if (!s)
        return kb_fail_null(err, __func__, "session", s);
    if (is_recording(s) && !s->is_warming)
        return kb_fail(err, KINETO_E_STATE, "the session is recording already; stop it first");
    if (!is_recording(s))
        return open_window(s, false, err);
    begin_warm_window(s);
    return KINETO_OK;
}

/* Ticks at wall-clock time at_ns, rather a little early than late. The rate comes from
 * CLOCK_MONOTONIC_RAW, which is never adjusted, over the short time since the session was started.
 */
static uint64_t ticks_at_time(const kineto_session *s, const kb_clock_snapshot *now, int64_t at_ns)
{
    const int64_t least_ns = 2000000, slack_ns = 250000;
    int64_t raw_ns = now->monotonic_raw_ns - s->armed.monotonic_raw_ns;
    int64_t ago_ns = now->realtime_ns - at_ns + slack_ns;
    if (raw_ns < least_ns || ago_ns < 0 || ago_ns >= raw_ns)
        return s->start_ticks;
    double per_ns = (double)(now->ticks - s->armed.ticks) / (double)raw_ns;
    return KB_MAX(s->start_ticks, now->ticks - (uint64_t)((double)ago_ns * per_ns));
}

void ks_session_keep(kineto_session *s, int64_t start_ns, uint64_t start_ticks)
{
    kb_clock_snapshot now;
    if (!is_recording(s) || s->end_ticks || !s->extras.armed)
        return;
    kf_control *control = kineto_rt_pool()->control;
    kb_clock_snapshot_take(control->ticks_clock, &now);
    lock_sessions();
    s->extras.armed = false;
    uint64_t from = s->start_ticks;
    if (start_ticks > from)
        from = start_ticks - 1; /* the window begins after this tick */
    else if (!start_ticks)
        from = ticks_at_time(s, &now, start_ns);
    move_window_start(s, control, from);
    unlock_sessions();
}

kineto_status ks_session_end(kineto_session *s, kineto_error *err)
{
    if (check_started(s, err))
        return KINETO_E_STATE;
    if (s->end_ticks)
        return kb_fail(err, KINETO_E_STATE, "the session has ended already");
    kf_control *control = kineto_rt_pool()->control;
    lock_sessions();
    s->end_ticks = snapshot_clock_now(control);
    take_account(s, kineto_rt_pool());
    unlock_sessions();
    /* The window closes when its trace has been built: until then its chunks must be kept. */
    kf_window_set_kinds(control, s->slot, 0);
    return KINETO_OK;
}

kineto_status kineto_session_stop(kineto_session *s, kineto_trace **out, kineto_error *err)
{
    if (out)
        *out = NULL;
    if (!s)
        return kb_fail_null(err, __func__, "session", s);
    kineto_status status = check_started(s, err);
    if (status)
        return status;
    const kf_pool *pool = kineto_rt_pool();
    kf_control *control = pool->control;
    if (!s->end_ticks)
        (void)ks_session_end(s, NULL);
    if (out && kb_load_acquire(&control->gate))
        kineto_rt_profilers_collect(); /* another session goes on: only collect what is there */
    kineto_rt_profilers_update();
    kineto_rt_modules_note(false);
    kineto_rt_thread_names();
    lock_sessions();
    kf_windows_sweep(control);
    s->over_ticks = kb_ticks(control->ticks_clock);
    if (owns_notes(s))
        last_over_ticks = s->over_ticks;
    status = out ? build_unlocked(s, s->end_ticks, out, err) : KINETO_OK;
    KB_ASSERT(s->end_ticks && s->slot != UINT32_MAX);
    kf_window_close(control, s->slot, s->end_ticks);
    kineto_rt_join(s->slot, false); /* other threads' marks mean nothing without the window */
    s->slot = UINT32_MAX;
    ks_retention_update(control);
    ks_chunks_inherit_from_dead(pool);
    chunks_release(pool);
    unlock_sessions();
    return status;
}

kineto_status kineto_session_pause(kineto_session *s, bool paused, kineto_error *err)
{
    if (!s)
        return kb_fail_null(err, __func__, "session", s);
    if (!is_recording(s))
        return kb_fail(err, KINETO_E_STATE, "the session is not recording; start it first");
    kf_control *control = kineto_rt_pool()->control;
    kineto_status status = KINETO_OK;
    lock_sessions();
    uint64_t now = kb_ticks(control->ticks_clock);
    kt_build_thread_span *last = s->pauses.count ? &s->pauses.data[s->pauses.count - 1] : NULL;
    bool was_paused = last && !last->to_ticks;
    if (!paused)
        s->complete_from =
            kb_max_u64(s->complete_from, kinds_complete_since(s->options.kinds, control, now));
    if (!paused && was_paused)
        last->to_ticks = now;
    else if (paused && !was_paused && !kb_vec_push(&s->pauses, (kt_build_thread_span){.from_ticks = now}))
        status = kb_fail_memory(err, NULL);
    if (!status)
        kf_window_pause(control, s->slot, paused);
    unlock_sessions();
    kineto_rt_profilers_update();
    return status;
}

kineto_status kineto_session_snapshot(kineto_session *s, kineto_trace **out, kineto_error *err)
{
    if (out)
        *out = NULL;
    if (!s || !out)
        return kb_fail_null(err, __func__, "session, out", s, out);
    kineto_status status = check_started(s, err);
    if (status)
        return status;
    kineto_rt_profilers_collect();
    kineto_rt_thread_names();
    lock_sessions();
    kineto_rt_modules_note(false);
    ks_chunks_inherit_from_dead(kineto_rt_pool());
    uint64_t now = snapshot_clock_now(kineto_rt_pool()->control);
    take_account(s, kineto_rt_pool());
    status = build_unlocked(s, now, out, err);
    unlock_sessions();
    return status;
}

/* With the lock. */
static void unlink_session(kineto_session *s)
{
    for (kineto_session **at = &sessions; *at; at = &(*at)->next)
        if (*at == s) {
            *at = s->next;
            break;
        }
}

void kineto_session_destroy(kineto_session *s)
{
    if (!s)
        return;
    s->is_warming = false;
    if (is_recording(s))
        (void)kineto_session_stop(s, NULL, NULL);
    lock_sessions();
    unlink_session(s);
    if (kineto_rt_pool() && !sessions) {
        kf_windows_sweep(kineto_rt_pool()->control);
        ks_own_memory_release(kineto_rt_pool());
    }
    unlock_sessions();
    kb_vec_free(&s->threads);
    kb_vec_free(&s->pauses);
    ks_account_free(&s->account);
    free(s);
}

kineto_status ks_session_record(const kineto_session_options *options, kineto_session **out,
                                   kineto_error *err)
{
    kineto_status status = kineto_session_create(options, out, err);
    if (status)
        return status;
    status = kineto_session_start(*out, err);
    if (status) {
        kineto_session_destroy(*out);
        *out = NULL;
    }
    return status;
}

kineto_status ks_session_finish(kineto_session *session, kineto_trace **out, kineto_error *err)
{
    kineto_status status = kineto_session_stop(session, out, err);
    kineto_session_destroy(session);
    return status;
}

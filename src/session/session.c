/* Sessions of the running program: windows over its one recorder.
 *
 * Without a collector the pool is this process' own (own_pool.c). With a collector (`ckineto
 * record`) it is the collector's, and what that has copied out is read back from its spool.
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
    KB_VEC(kt_build_thread_span) threads; /* that are, or were, in it */
    KB_VEC(kt_build_thread_span) pauses;
    uint64_t start_ticks, end_ticks; /* end 0: it records */
    /* What the program says in between is said of this one; 0: all, and up to the end. What
     * plug-ins did wrong when they were stopped is, too: it is over later than it ends. */
    uint64_t said_from, over_ticks;
    kb_clock_snapshot armed; /* when it was started */
    uint64_t complete_from;  /* before, not all of its kinds were recorded */
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

static bool is_recording(const kineto_session *s)
{
    return s->slot != UINT32_MAX && s->pid == kb_os_pid();
}

/* Is what the program says meanwhile said of this session? Rings and windows on demand come and go
 * without the program's doing: they take what it ever said, and leave it to others. */
static bool owns_notes(const kineto_session *s)
{
    return !s->extras.grows && s->options.retention != KINETO_RETAIN_NEWEST;
}

/* What was said while nobody recorded is the next session's. */
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

/* What is touched meanwhile is nobody's yet, so that nobody has to wait. */
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
    lock_sessions();
    if (sessions && kb_load_acquire(&pool->control->chunk_limit) == have)
        (void)ks_own_pool_grow(pool, want * KF_CHUNK_BYTES, NULL);
    unlock_sessions();
    return want < most;
}

/* ---- giving chunks back ---------------------------------------------------------------------- */

/* What no open session may still want ends before this. 0: keep everything from the start of time
 * (cannot happen: then there is no session). */
static uint64_t wanted_from(void)
{
    uint64_t from = UINT64_MAX;
    for (const kineto_session *s = sessions; s; s = s->next)
        if (is_recording(s))
            from = KB_MIN(from, s->start_ticks);
    return from;
}

/* ---- what it costs --------------------------------------------------------------------------- */

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
    s->lasted_ns = kb_clock_ns(CLOCK_MONOTONIC) - s->account.begun_ns;
}

/* What all programs of the recording made in its window, whoever wanted it. */
static ks_cost_part make_session_cost(const kineto_session *s, const kt_build_options *options)
{
    return (ks_cost_part){
        .account = s->account,
        .part = {options->start_ticks, options->end_ticks},
        .said = {.cost = s->cost, .lasted_ns = s->lasted_ns, .prepare_ns = s->prepare_ns}};
}

/* ---- reading what was recorded --------------------------------------------------------------- */

/* Is this the last session there is, and does it end? */
static bool is_last_reader(const kineto_session *s, const kf_control *control)
{
    return s->extras.last && sessions == s && !s->next && !ks_has_foreign_windows(control) &&
           control->collector_pid == s->pid;
}

/* The ledger of this session alone. */
static void subtract_start_counters(const kineto_session *s, kf_control *control)
{
    for (uint32_t i = 0; i < KF_MAX_SOURCES; i++)
        for (uint32_t k = 0; k < KF_REASON_SLOTS; k++)
            control->counters[i][k] -= s->counters[i][k];
}

/* While somebody keeps the newest, what is older than this window is overwritten, but nothing of
 * its own. */
static void clear_foreign_evictions(const kineto_session *s, kf_control *control)
{
    if (s->extras.armed || s->options.retention == KINETO_RETAIN_NEWEST)
        return;
    for (uint32_t i = 0; i < KF_MAX_SOURCES; i++)
        control->counters[i][KF_REASON_EVICTED] = 0;
}

/* While its trace is built. */
static bool builds_under_lock(const kineto_session *s)
{
    return s->extras.last || s->options.threads == KINETO_THREADS_CALLER;
}

static kineto_status build_from_pool(const kineto_session *s, const kf_pool *pool,
                                     const kt_build_options *common, kineto_trace **out,
                                     kineto_error *err)
{
    kineto_status status;
    kt_build_options options = *common;
    kf_input input;
    bool last = is_last_reader(s, pool->control);
    if (last)
        kb_store_release(&pool->control->chunk_limit, 0u); /* no thread is to touch them now */
    ks_pool_reader *reader = ks_pool_reader_create(pool, ks_own_chunks_in_use(pool), last, &input);
    if (!builds_under_lock(s))
        input.peek =
            NULL; /* a ring that begins meanwhile may overwrite them: only copies are safe */
    kf_control *control = aligned_alloc(_Alignof(kf_control), sizeof *control);
    if (!reader || !control) {
        status = kb_fail(err, KINETO_E_MEMORY, "out of memory while reading the recording");
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

/* Only a snapshot is of a session that goes on. In a ring, its end is then when the copy was made, and it
 * begins where nothing was overwritten any more: threads overwrite the oldest, but do not wait for each
 * other to do so, and of what lies before, there are pieces. */
static kineto_status copy_pool(const kineto_session *s, const kf_pool *pool, kt_build_options *options,
                               ks_input **input, kineto_error *err)
{
    char path[KS_PATH_BYTES];
    memcpy(path, pool->control->spool_path, sizeof path);
    path[sizeof path - 1] = 0;
    const char *spool = path[0] ? path : NULL;
    if (s->end_ticks || !pool_overwrites(pool->control))
        return ks_input_open(spool, pool, input, err);
    kineto_status status =
        ks_input_open_ring(spool, NULL, pool, input, &options->end_ticks, err);
    if (status == KINETO_OK)
        options->start_ticks = KB_MAX(options->start_ticks, (*input)->control->forgotten_ticks);
    return status;
}

/* While threads may overwrite what they wrote, or another process reads the pool, too. */
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

static bool needs_pool_copy(const kineto_session *s, const kf_control *control)
{
    return control->external || (pool_overwrites(control) && !is_last_reader(s, control));
}

/* What its window asks for. */
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
    return (KF_WANT_USUAL & ~not ) | more | o->scopes << 16;
}

static kineto_status build_session_trace(const kineto_session *s, uint64_t end_ticks, kineto_trace **out,
                           kineto_error *err)
{
    const kf_pool *pool = kineto_rt_pool();
    /* All who share the pool that this process made are it and those below it, also where the chain
     * of parents has a gap: one that ended, or never recorded. */
    bool ours = !pool->control->external && pool->control->collector_pid == s->pid;
    kt_build_options options = {.kinds = s->options.kinds,
                                .start_ticks = s->start_ticks,
                                .end_ticks = end_ticks,
                                .threads = s->threads.data,
                                .thread_count = s->threads.count,
                                .pauses = s->pauses.data,
                                .pause_count = s->pauses.count,
                                .wants = session_wants(s),
                                .overloads = s->options.operators & KINETO_OPERATORS_OVERLOADS,
                                .no_links = s->extras.no_links,
                                .adjust_steps = s->extras.adjust_steps,
                                .metadata = s->extras.metadata,
                                .metadata_count = s->extras.metadata_count,
                                .header = s->extras.header,
                                .header_count = s->extras.header_count,
                                .notes = s->extras.notes,
                                .note_count = s->extras.note_count,
                                .post = s->extras.post,
                                .post_context = s->extras.post_context,
                                .root_pid = ours ? 0 : s->pid,
                                .complete_from = s->complete_from,
                                .from_ns = s->extras.from_ns,
                                .until_ns = s->extras.until_ns,
                                .from_ticks = s->extras.from_ticks,
                                .until_ticks = s->extras.until_ticks,
                                .epoch_ticks = s->extras.from_ns ? s->armed.ticks : 0,
                                .said_from = s->said_from,
                                .said_until = s->over_ticks,
                                .clip_open = true};
    return needs_pool_copy(s, pool->control) ? build_from_copy(s, pool, &options, out, err)
                                       : build_from_pool(s, pool, &options, out, err);
}

/* With the lock, which others get meanwhile: a window may end in a step of the program, which is
 * not to wait until a trace is built. The session's own window keeps its chunks; its threads do not
 * join, and the memory is not given back while others might want some. */
static kineto_status build_unlocked(const kineto_session *s, uint64_t end_ticks, kineto_trace **out,
                                 kineto_error *err)
{
    bool locked = builds_under_lock(s);
    if (building.pid != kb_os_pid())
        building.count = 0;
    building.pid = kb_os_pid();
    building.count++;
    if (!locked)
        unlock_sessions();
    kineto_status status = build_session_trace(s, end_ticks, out, err);
    if (!locked)
        lock_sessions();
    building.count--;
    return status;
}

/* A trace that is being built looks at all chunks: the last one to be ready clears up. */
static void chunks_release(const kf_pool *pool)
{
    if (building.count == 0 || building.pid != kb_os_pid())
        ks_own_chunks_release(pool, wanted_from());
}

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

static kineto_status read_session_options(const kineto_session_options *in, kineto_session_options *out,
                                  kineto_error *err)
{
    kineto_session_options_init(out);
    kineto_status status = kb_options_read(out, sizeof *out, in,
                                           "session options, see kineto_session_options_init", err);
    if (status)
        return status;
    if (!out->kinds)
        out->kinds = KINETO_KINDS_DEFAULT;
    if (!out->buffer_bytes)
        out->buffer_bytes = KS_BUFFER_BYTES;
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

kineto_status kineto_session_prepare(const kineto_session_options *options, kineto_session **out,
                                     kineto_error *err)
{
    return ks_session_prepare(options, &(ks_extras){0}, out, err);
}

kineto_status ks_session_prepare(const kineto_session_options *options, const ks_extras *extras,
                                 kineto_session **out, kineto_error *err)
{
    if (!out)
        return kb_fail(err, KINETO_E_ARGUMENT, "kineto_session_prepare: out is NULL");
    *out = NULL;
    uint64_t begun_ns = kb_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    kineto_session_options read;
    kineto_status status = read_session_options(options, &read, err);
    if (status)
        return status;
    kineto_session *s = calloc(1, sizeof *s);
    if (!s)
        return kb_fail(err, KINETO_E_MEMORY, "out of memory");
    s->options = read;
    if (read.custom_config)
        memcpy(s->custom_config, read.custom_config, strlen(read.custom_config));
    s->options.custom_config = NULL; /* borrowed until now */
    s->slot = UINT32_MAX;
    s->pid = kb_os_pid();
    s->extras = *extras;
    void (*hook)(void) = kb_load_acquire(&prepare_hook);
    if (hook)
        hook();
    lock_sessions();
    status = ks_own_pool_ready(
        extras->grows ? KB_MIN(read.buffer_bytes, KS_FIRST_BYTES) : read.buffer_bytes, err);
    if (status == KINETO_OK) {
        s->next = sessions;
        sessions = s;
    }
    unlock_sessions();
    if (status) {
        free(s);
        return status;
    }
    kineto_rt_plugins_prepare(!extras->no_privateuse1);
    if (read.operators & KINETO_OPERATORS_STACK)
        status = kineto_rt_stacks_prepare(err);
    s->prepare_ns = kb_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begun_ns;
    if (status)
        kineto_session_destroy(s);
    else
        *out = s;
    return status;
}

/* Since when all of these kinds have been recorded without a break, now that they are to be. Ends
 * of asynchronous ranges are not recorded while nobody wants their kind. */
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

/* What is said for plug-ins holds for those that are created from now on. */
static void set_plugin_config(const kineto_session *s, kf_control *control)
{
    if (s->custom_config[0] || kf_held_kinds(control) == 0)
        memcpy(control->custom_config, s->custom_config, sizeof s->custom_config);
}

/* ---- threads of a session ---- */

static kineto_status join_starting_thread(kineto_session *s, kineto_error *err)
{
    kt_build_thread_span span = {.tid = kb_os_tid(), .from_ticks = s->start_ticks};
    bool fine = s->options.threads != KINETO_THREADS_CALLER || kb_vec_push(&s->threads, span);
    return fine ? KINETO_OK : kb_fail(err, KINETO_E_MEMORY, "out of memory");
}

/* Where the calling thread is in it now; NULL: it is not. */
static kt_build_thread_span *find_open_span(kineto_session *s)
{
    uint32_t tid = kb_os_tid();
    for (size_t i = s->threads.count; i-- > 0;)
        if (s->threads.data[i].tid == tid && !s->threads.data[i].to_ticks)
            return &s->threads.data[i];
    return NULL;
}

static kineto_status check_joinable(const kineto_session *s, kineto_error *err)
{
    if (!s)
        return kb_fail(err, KINETO_E_ARGUMENT, "kineto_session_join: session is NULL");
    if (!is_recording(s))
        return kb_fail(err, KINETO_E_STATE, "the session is not recording: start it first");
    if (s->options.threads != KINETO_THREADS_CALLER)
        return kb_fail(err, KINETO_E_STATE, "the session is one of all threads");
    return KINETO_OK;
}

kineto_status kineto_session_join(kineto_session *s, kineto_error *err)
{
    kineto_status status = check_joinable(s, err);
    if (status)
        return status;
    lock_sessions();
    kt_build_thread_span span = {.tid = kb_os_tid(),
                                 .from_ticks = kb_ticks(kineto_rt_pool()->control->ticks_clock)};
    /* A thread that ended may have had its number. */
    kt_build_thread_span *before = find_open_span(s);
    if (before && kineto_rt_joined(s->slot))
        status = kb_fail(err, KINETO_E_STATE, "the thread is in the session already");
    else if (!kb_vec_push(&s->threads, span))
        status = kb_fail(err, KINETO_E_MEMORY, "out of memory");
    else
        kineto_rt_join(s->slot, true);
    unlock_sessions();
    return status;
}

kineto_status kineto_session_leave(kineto_session *s, kineto_error *err)
{
    kineto_status status = check_joinable(s, err);
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

kineto_status kineto_session_start(kineto_session *s, kineto_error *err)
{
    if (!s)
        return kb_fail(err, KINETO_E_ARGUMENT, "kineto_session_start: session is NULL");
    if (is_recording(s))
        return kb_fail(err, KINETO_E_STATE, "the session is recording already: stop it first");
    kineto_status status = KINETO_OK;
    kf_control *control = kineto_rt_pool()->control;
    lock_sessions();
    s->pid = kb_os_pid();
    s->threads.count = s->pauses.count = 0;
    ks_chunks_inherit_from_dead(kineto_rt_pool());
    begin_account(s, kineto_rt_pool());
    s->start_ticks = take_clock_snapshot(control, &s->armed);
    s->end_ticks = s->over_ticks = 0;
    s->said_from = notes_from(s);
    ks_words_copy(s->counters, control->counters, sizeof s->counters);
    s->complete_from = kinds_complete_since(s->options.kinds, control, s->start_ticks);
    set_plugin_config(s, control);
    status = join_starting_thread(s, err);
    if (!status)
        s->slot = kf_window_open(control, s->options.kinds, s->start_ticks);
    if (s->slot != UINT32_MAX)
        kf_window_want(control, s->slot, session_wants(s));
    bool newest = s->extras.armed || s->options.retention == KINETO_RETAIN_NEWEST;
    if (s->slot != UINT32_MAX)
        kb_store_relaxed(&control->windows[s->slot].keep_newest,
                         newest ? KS_KEEP_NEWEST : KS_KEEP_OLDEST);
    if (!status && s->slot == UINT32_MAX)
        status = kb_fail(err, KINETO_E_LIMIT, "%u sessions are recording already: stop one first",
                         KF_MAX_WINDOWS);
    else if (!status)
        ks_retention_update(control);
    if (!status && s->options.threads == KINETO_THREADS_CALLER)
        kineto_rt_join(s->slot, true);
    unlock_sessions();
    kineto_rt_profilers_update();
    return status;
}

/* Ticks at a time since it was started, a little early rather than late: the wall clock against the
 * clock that nobody bends, over the short time since then. */
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
    ks_account_begin(&s->account, control);
    if (start_ticks > s->start_ticks)
        s->start_ticks = start_ticks - 1; /* the window begins behind this */
    else if (!start_ticks)
        s->start_ticks = ticks_at_time(s, &now, start_ns);
    ks_words_copy(s->counters, control->counters, sizeof s->counters);
    control->windows[s->slot].start_ticks = s->start_ticks;
    kb_store_relaxed(&control->windows[s->slot].keep_newest, KS_KEEP_FROM_START);
    ks_retention_update(control);
    unlock_sessions();
}

kineto_status ks_session_end(kineto_session *s, kineto_error *err)
{
    if (!is_recording(s) || s->end_ticks)
        return kb_fail(err, KINETO_E_STATE, "the session is not recording: start it first");
    kf_control *control = kineto_rt_pool()->control;
    lock_sessions();
    s->end_ticks = snapshot_clock_now(control);
    take_account(s, kineto_rt_pool());
    unlock_sessions();
    /* The window closes when its trace is built: until then nobody may give its chunks away. */
    kf_window_set_kinds(control, s->slot, 0);
    return KINETO_OK;
}

kineto_status kineto_session_stop(kineto_session *s, kineto_trace **out, kineto_error *err)
{
    if (out)
        *out = NULL;
    if (!s)
        return kb_fail(err, KINETO_E_ARGUMENT, "kineto_session_stop: session is NULL");
    if (!is_recording(s))
        return kb_fail(err, KINETO_E_STATE, "the session is not recording: start it first");
    const kf_pool *pool = kineto_rt_pool();
    kf_control *control = pool->control;
    if (!s->end_ticks)
        (void)ks_session_end(s, NULL);
    if (out && kb_load_acquire(&control->gate))
        kineto_rt_profilers_collect(); /* somebody else goes on: only hand over what is there */
    kineto_rt_profilers_update();
    kineto_rt_modules_note(false);
    kineto_rt_thread_names();
    lock_sessions();
    kf_windows_sweep(control);
    s->over_ticks = kb_ticks(control->ticks_clock);
    if (owns_notes(s))
        last_over_ticks = s->over_ticks;
    kineto_status status = out ? build_unlocked(s, s->end_ticks, out, err) : KINETO_OK;
    kf_window_close(control, s->slot, s->end_ticks);
    kineto_rt_join(s->slot, false); /* other threads' marks mean nothing without the window */
    s->slot = UINT32_MAX;
    ks_retention_update(control);
    ks_chunks_inherit_from_dead(pool);
    chunks_release(pool);
    unlock_sessions();
    return status;
}

kineto_status kineto_session_toggle(kineto_session *s, bool on, kineto_error *err)
{
    if (!s)
        return kb_fail(err, KINETO_E_ARGUMENT, "kineto_session_toggle: session is NULL");
    if (!is_recording(s))
        return kb_fail(err, KINETO_E_STATE, "the session is not recording: start it first");
    kf_control *control = kineto_rt_pool()->control;
    kineto_status status = KINETO_OK;
    lock_sessions();
    uint64_t now = kb_ticks(control->ticks_clock);
    kt_build_thread_span *last = s->pauses.count ? &s->pauses.data[s->pauses.count - 1] : NULL;
    bool paused = last && !last->to_ticks;
    if (on)
        s->complete_from = KB_MAX(s->complete_from, kinds_complete_since(s->options.kinds, control, now));
    if (on && paused)
        last->to_ticks = now;
    else if (!on && !paused && !kb_vec_push(&s->pauses, (kt_build_thread_span){.from_ticks = now}))
        status = kb_fail(err, KINETO_E_MEMORY, "out of memory");
    if (!status)
        kf_window_pause(control, s->slot, !on);
    unlock_sessions();
    kineto_rt_profilers_update();
    return status;
}

kineto_status kineto_session_snapshot(kineto_session *s, kineto_trace **out, kineto_error *err)
{
    if (out)
        *out = NULL;
    if (!s || !out)
        return kb_fail(err, KINETO_E_ARGUMENT, "kineto_session_snapshot: an argument is NULL");
    if (!is_recording(s))
        return kb_fail(err, KINETO_E_STATE, "the session is not recording: start it first");
    kineto_rt_profilers_collect();
    kineto_rt_thread_names();
    lock_sessions();
    kineto_rt_modules_note(false);
    ks_chunks_inherit_from_dead(kineto_rt_pool());
    uint64_t now = snapshot_clock_now(kineto_rt_pool()->control);
    take_account(s, kineto_rt_pool());
    kineto_status status = build_unlocked(s, now, out, err);
    unlock_sessions();
    return status;
}

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

kineto_status kineto_session_begin(const kineto_session_options *options, kineto_session **out,
                                   kineto_error *err)
{
    kineto_status status = kineto_session_prepare(options, out, err);
    if (status)
        return status;
    status = kineto_session_start(*out, err);
    if (status) {
        kineto_session_destroy(*out);
        *out = NULL;
    }
    return status;
}

kineto_status kineto_session_end(kineto_session *session, kineto_trace **out, kineto_error *err)
{
    kineto_status status = kineto_session_stop(session, out, err);
    kineto_session_destroy(session);
    return status;
}

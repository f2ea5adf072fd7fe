/* Windows over the pool of an on-demand recorder, and its ring.
 *
 * While no window is open the gate is closed and nothing wakes up. A window first records the
 * sources that need time to get ready (warm), then all kinds (slot). A chunk that ended before all
 * windows began is freed, or stays in the buffer as part of the ring, where writers reclaim the
 * oldest themselves. All other chunks are copied out as in any recording, until the trace of the
 * window that needs them has been built. When no window is left, the spool is truncated.
 *
 * Life of a ks_window: free → prepared (used, warm) → armed or limited (slot) → stopped → built →
 * released. The polling thread takes it to "stopped"; build and release may run on another thread.
 */
#include "session/collector.h"
#include "session/own_pool.h"

#include <time.h>

#define IDLE_SCAN_NS (10 * KB_SECOND_NS) /* for chunks of threads that died */
#define CROWDED      4u            /* one chunk in this many is held by a thread: scan sooner */
#define YOUNG_NS     (100 * KB_MILLISECOND_NS)
#define HAND_OVER_NS (3 * KB_SECOND_NS) /* sources that take longer are late */
#define MAX_AGO_NS   1e18         /* the control page is untrusted */
#define NEVER        UINT64_MAX
#define NO_SLOT      UINT32_MAX

/* Kinds that programs record themselves: these sources need no time to get ready. */
#define HOST_KINDS                                                                                 \
    (KINETO_KIND_BIT(KINETO_KIND_CPU_OP) | KINETO_KIND_BIT(KINETO_KIND_USER_ANNOTATION) |          \
     KINETO_KIND_BIT(KINETO_KIND_CPU_INSTANT_EVENT) |                                              \
     KINETO_KIND_BIT(KINETO_KIND_PYTHON_FUNCTION) | KINETO_KIND_BIT(KINETO_KIND_COUNTER) |         \
     KINETO_KIND_BIT(KINETO_KIND_MEMORY))

static uint64_t now_ticks(const ks_collector *c) { return kb_ticks(c->pool.control->ticks_clock); }

static void lock_windows(ks_collector *c) { (void)pthread_mutex_lock(&c->lock); }
static void unlock_windows(ks_collector *c) { (void)pthread_mutex_unlock(&c->lock); }

/* Ticks in a duration. */
static uint64_t ticks_in(const ks_collector *c, uint64_t ns)
{
    return (uint64_t)((double)ns * c->ticks_per_ns);
}

/* ---- life ------------------------------------------------------------------------------------ */

kineto_status ks_windows_init(ks_collector *c, kineto_error *err)
{
    int failed = pthread_mutex_init(&c->lock, NULL);
    return failed ? kb_fail_os(err, failed, "cannot make a lock") : KINETO_OK;
}

void ks_windows_free(ks_collector *c) { (void)pthread_mutex_destroy(&c->lock); }

/* Measures the tick rate over 2 ms: exact to about a thousandth, which is enough for intervals of
 * seconds. Absolute times come from clock snapshots. */
static void find_rate(ks_collector *c)
{
    const struct timespec wait = {0, 2000000};
    kb_clock_snapshot a, b;
    kb_clock_snapshot_take(c->pool.control->ticks_clock, &a);
    nanosleep(&wait, NULL);
    kb_clock_snapshot_take(c->pool.control->ticks_clock, &b);
    int64_t ns = b.monotonic_raw_ns - a.monotonic_raw_ns;
    c->ticks_per_ns = ns > 0 && b.ticks > a.ticks ? (double)(b.ticks - a.ticks) / (double)ns : 1;
}

/* Opens the window of the ring, which lasts as long as the recording. */
static kineto_status ring_open(ks_collector *c, kineto_error *err)
{
    kf_control *control = c->pool.control;
    kb_store_relaxed(&control->window_ticks, c->first_ticks);
    kf_evicted_prepare(control, ticks_in(c, c->options.ring_ns));
    c->window = kf_window_open(control, c->options.kinds, c->first_ticks);
    if (c->window == NO_SLOT)
        return kb_fail(err, KINETO_E_LIMIT, "too many recording windows are open");
    if (c->options.wants)
        kf_window_want(control, c->window, c->options.wants);
    kb_store_relaxed(&control->windows[c->window].keep_newest, 1u);
    (void)ks_windows_update(c);
    return KINETO_OK;
}

kineto_status ks_windows_start(ks_collector *c, kineto_error *err)
{
    kf_control *control = c->pool.control;
    find_rate(c);
    c->first_ticks = c->start_ticks;
    kb_store_release(&control->watched, 1u);
    ks_words_copy(c->ring_counters, control->counters, sizeof c->ring_counters);
    return c->options.ring_ns ? ring_open(c, err) : KINETO_OK;
}

void ks_collector_program_ended(ks_collector *c)
{
    lock_windows(c);
    c->over = true;
    unlock_windows(c);
}

bool ks_collector_has_recorded(const ks_collector *c)
{
    return kb_load_relaxed(&c->pool.control->cursor_serial) != 0;
}

/* ---- what is kept ---------------------------------------------------------------------------- */

/* From when on sessions that programs opened in this pool need chunks; NEVER: none does. *newest:
 * one of them is a ring. */
static uint64_t foreign_windows_from(const ks_collector *c, bool *newest)
{
    uint64_t from = NEVER;
    uint32_t self = kb_os_pid();
    *newest = false;
    for (uint32_t i = 0; i < KF_MAX_WINDOWS; i++) {
        const kf_window *w = &c->pool.control->windows[i];
        if (kb_load_acquire(&w->state) != KF_WINDOW_OPEN || kb_load_relaxed(&w->owner_pid) == self)
            continue;
        if (kb_load_relaxed(&w->keep_newest) == KS_KEEP_NEWEST)
            *newest = true;
        else
            from = kb_min_u64(from, kb_load_relaxed(&w->start_ticks));
    }
    return from;
}

/* With the lock: chunks that ended before this time are not needed by any window. */
static uint64_t kept_from(const ks_collector *c, bool *newest)
{
    uint64_t from = foreign_windows_from(c, newest);
    for (uint32_t i = 0; i < KS_WINDOWS; i++)
        if (c->windows[i].used)
            from = KB_MIN(from, c->windows[i].kept_from);
    return from;
}

/* With the lock: publishes from when on chunks are protected. In a ring, writers reclaim older
 * ones.
 *  @return that time; NEVER: no window needs any chunk. */
static uint64_t update_protection(const ks_collector *c, bool *ring)
{
    kf_control *control = c->pool.control;
    uint64_t from = kept_from(c, ring);
    *ring |= c->options.ring_ns != 0;
    kb_store_relaxed(&control->ring_protect_ticks, from == NEVER ? 0 : from);
    kb_store_relaxed(&control->full_policy, (uint32_t)(*ring ? KF_FULL_RING : KF_FULL_DROP));
    return from;
}

bool ks_windows_update(ks_collector *c)
{
    uint64_t now = now_ticks(c), young = ticks_in(c, YOUNG_NS);
    lock_windows(c);
    c->pass_from = update_protection(c, &c->pass_ring);
    unlock_windows(c);
    c->pass_young = now > young ? now - young : 0;
    c->spool_is_used |= c->pass_from != NEVER;
    return c->pass_from != NEVER;
}

bool ks_window_wants(const ks_collector *c, uint64_t last_ticks)
{
    return c->pass_from != NEVER && last_ticks >= c->pass_from;
}

/* Young chunks are kept: a session that is just being opened may need what was sealed a moment ago.
 */
void ks_window_skip_chunk(ks_collector *c, const ks_pending *p)
{
    if (!c->pass_ring && p->last_ticks < c->pass_young)
        (void)kf_chunk_free(&c->pool, p->chunk.index, p->claim);
}

/* ---- while nothing happens ------------------------------------------------------------------- */

/* Truncates the spool once no window and no reader needs it; also called when a window begins,
 * which may happen before the collector was ever idle. */
static void spool_empty(ks_collector *c)
{
    kineto_error err;
    bool newest;
    lock_windows(c);
    bool unread = c->readers == 0 && kept_from(c, &newest) == NEVER;
    unlock_windows(c);
    if (!unread || !c->spool_is_used)
        return;
    if (ks_spool_reset(c->spool, &err))
        kb_log(KINETO_LOG_WARNING, "%s", err.message);
    c->spool_is_used = c->keep_is_full = c->dictionary_holes = false;
    c->dictionary_at = 1;
    c->kept_bytes = c->spool_failures = 0;
    kb_store_relaxed(&c->pool.control->counters[KF_SOURCE_API][KF_REASON_IN_SPOOL], 0);
}

/* Moves window_ticks forward: evicted chunks that are older than the ring's length are not counted
 * as losses. */
static void advance_ring(ks_collector *c)
{
    uint64_t now = now_ticks(c), length = ticks_in(c, c->options.ring_ns);
    if (length && now > length && now - length > c->first_ticks)
        kb_store_relaxed(&c->pool.control->window_ticks, now - length);
    ks_collector_clock(c);
}

/* Chunks that are held by threads, possibly dead ones, are not available to others. */
static bool is_crowded(const ks_collector *c)
{
    uint32_t live = 0;
    for (uint32_t i = 0; i < c->pool.chunk_count; i++)
        live += kf_chunk_state_of(&c->pool.descriptors[i]) == KF_CHUNK_LIVE;
    return live > c->pool.chunk_count / CROWDED;
}

uint64_t ks_windows_idle(ks_collector *c)
{
    uint64_t now = kb_monotonic_ns();
    uint32_t taken;
    spool_empty(c);
    if (c->pass_ring && now >= c->next_second_ns) {
        c->next_second_ns = now + KB_SECOND_NS;
        advance_ring(c);
        ks_thread_names_read(c->thread_names, &c->pool);
        if (is_crowded(c))
            c->next_scan_ns = now;
    }
    if (now >= c->next_scan_ns) {
        c->next_scan_ns = now + IDLE_SCAN_NS;
        if (c->children)
            ks_children_sample(c->children);
        (void)ks_collector_drain(c, true, &taken);
    }
    return c->pass_ring ? KB_SECOND_NS : IDLE_SCAN_NS;
}

uint32_t ks_collector_wait_change(const ks_collector *c, uint32_t seen)
{
    kf_follow_wait(c->pool.control, seen);
    return kb_load_acquire(&c->pool.control->window_changes);
}

void ks_collector_wake(const ks_collector *c) { kf_windows_changed(c->pool.control); }

/* ---- a window -------------------------------------------------------------------------------- */

static ks_window *take_free_window(ks_collector *c)
{
    ks_window *free_one = NULL;
    lock_windows(c);
    for (uint32_t i = 0; i < KS_WINDOWS && !free_one; i++)
        if (!c->windows[i].used)
            free_one = &c->windows[i];
    if (free_one) {
        memset(free_one, 0, sizeof *free_one);
        free_one->used = true;
        free_one->kept_from = NEVER;
        free_one->warm = free_one->slot = NO_SLOT;
    }
    unlock_windows(c);
    return free_one;
}

static void keep_window_from(ks_collector *c, ks_window *w, uint64_t ticks)
{
    bool ring;
    lock_windows(c);
    KB_ASSERT(w->used && ticks != NEVER);
    w->kept_from = ticks;
    (void)update_protection(c, &ring);
    unlock_windows(c);
}

static kineto_status slot_open(ks_collector *c, const ks_window *w, uint64_t kinds, uint32_t *slot,
                               kineto_error *err)
{
    KB_ASSERT(w->used && *slot == NO_SLOT);
    *slot = kf_window_open(c->pool.control, kinds, now_ticks(c));
    if (*slot == NO_SLOT)
        return kb_fail(err, KINETO_E_LIMIT,
                       "%u windows are open in the programs already: wait for one to end",
                       KF_MAX_WINDOWS);
    if (w->wants != KF_WANT_USUAL)
        kf_window_want(c->pool.control, *slot, w->wants);
    return KINETO_OK;
}

/* Closes a window of the control page, if it is open. */
static void slot_close(ks_collector *c, uint32_t *slot)
{
    if (*slot != NO_SLOT)
        kf_window_close(c->pool.control, *slot, now_ticks(c));
    *slot = NO_SLOT;
}

/* Brings the list of processes up to date first: it is not maintained while nothing is recorded. */
static void open_window_account(ks_collector *c, ks_window *w)
{
    lock_windows(c);
    ks_account_find_processes(&c->account, &c->pool);
    ks_account_read_processes(&c->account);
    ks_account_join(&w->account, &c->account);
    ks_account_begin(&w->account, c->pool.control);
    unlock_windows(c);
}

kineto_status ks_window_prepare(ks_collector *c, const ks_window_options *options, ks_window **out,
                                kineto_error *err)
{
    kf_control *control = c->pool.control;
    ks_window *w = *out = take_free_window(c);
    if (!w)
        return kb_fail(err, KINETO_E_LIMIT, "%u traces are under way already", KS_WINDOWS);
    w->kinds = options->kinds;
    w->wants = options->wants;
    if (options->custom_config && options->custom_config[0])
        snprintf(control->custom_config, sizeof control->custom_config, "%s",
                 options->custom_config);
    spool_empty(c);
    w->opened_ticks = now_ticks(c);
    ks_collector_clock(c);
    ks_words_copy(w->counters, control->counters, sizeof w->counters);
    open_window_account(c, w);
    if (c->children)
        ks_children_sample(c->children);
    uint64_t devices = w->kinds & ~HOST_KINDS;
    kineto_status status = devices ? slot_open(c, w, devices, &w->warm, err) : KINETO_OK;
    if (status) {
        ks_window_release(c, w);
        *out = NULL;
    }
    return status;
}

/* Opens a window that still waits for its first iteration. */
static void limit_lift(ks_collector *c, const ks_window *w)
{
    KB_ASSERT(w->slot < KF_MAX_WINDOWS);
    kf_window *slot = &c->pool.control->windows[w->slot];
    uint32_t waiting = KF_STEPS_WAITING;
    if (kb_cas_acqrel(&slot->step_state, &waiting, (uint32_t)KF_STEPS_NONE))
        kf_window_pause(c->pool.control, w->slot, false);
}

kineto_status ks_window_arm(ks_collector *c, ks_window *w, kineto_error *err)
{
    if (w->slot != NO_SLOT) {
        limit_lift(c, w);
        return KINETO_OK;
    }
    spool_empty(c);
    keep_window_from(c, w, now_ticks(c));
    return slot_open(c, w, w->kinds, &w->slot, err);
}

/* The window is opened with no kinds until its limits are set, so that nothing is recorded too
 * early. */
kineto_status ks_window_limit(ks_collector *c, ks_window *w, uint32_t pid, uint64_t from,
                              uint64_t until, kineto_error *err)
{
    spool_empty(c);
    keep_window_from(c, w, now_ticks(c));
    kineto_status status = slot_open(c, w, 0, &w->slot, err);
    if (status)
        return status;
    kf_window *slot = &c->pool.control->windows[w->slot];
    kb_store_relaxed(&slot->held, w->kinds);
    kf_window_limit(c->pool.control, w->slot, pid, from, until);
    return KINETO_OK;
}

/* Adds ledger lines with the current time, which lies in this window. */
static void note_window_problems(ks_collector *c)
{
    char detail[512];
    uint64_t now = now_ticks(c);
    if (c->spool_failures) {
        snprintf(detail, sizeof detail,
                 "%s; full chunks stayed in the buffer, and what found no room there is counted as "
                 "lost",
                 c->spool_error);
        ks_pool_note_at(&c->pool, "recorder", "copying out failed", c->spool_failures, false,
                        detail, now);
    }
    if (c->children) {
        ks_children_sample(c->children);
        ks_children_report(c->children, &c->pool, now);
    }
}

/* Takes CPU times up to now. Records are counted when the trace is built. */
static void take_window_cost(ks_collector *c, ks_window *w)
{
    uint64_t now = kb_monotonic_ns();
    lock_windows(c);
    ks_account_find_processes(&c->account, &c->pool);
    ks_account_read_processes(&c->account);
    ks_account_join(&w->account, &c->account);
    ks_account_read(&w->account, c->pool.control, false, &w->cost);
    unlock_windows(c);
    w->lasted_ns = now - w->account.begun_ns;
    w->budget = c->budget;
    ks_cost_limit_end(&w->budget, now - c->account.begun_ns);
}

void ks_window_stop(ks_collector *c, ks_window *w)
{
    if (w->slot != NO_SLOT) {
        const kf_window *slot = &c->pool.control->windows[w->slot];
        if (kb_load_acquire(&slot->step_state) >= KF_STEPS_INSIDE) {
            w->from_ticks = kb_load_acquire(&slot->from_ticks);
            w->until_ticks = kb_load_acquire(&slot->until_ticks);
        }
    }
    KB_ASSERT(w->used);
    slot_close(c, &w->slot);
    slot_close(c, &w->warm);
    ks_collector_clock(c);
    w->closed_ticks = now_ticks(c);
    note_window_problems(c);
    ks_thread_names_finish(c->thread_names, &c->pool);
    take_window_cost(c, w);
}

void ks_window_release(ks_collector *c, ks_window *w)
{
    bool ring;
    if (!w)
        return;
    slot_close(c, &w->slot);
    slot_close(c, &w->warm);
    lock_windows(c);
    KB_ASSERT(w->used && w >= c->windows && w < c->windows + KS_WINDOWS);
    ks_account_free(&w->account);
    w->used = false;
    w->kept_from = NEVER;
    (void)update_protection(c, &ring);
    unlock_windows(c);
}

/* ---- traces ---------------------------------------------------------------------------------- */

/* Reduces the counters to those of this window. A ring in the buffer never evicts what a window
 * needs. */
static void subtract_window_counters(const ks_collector *c, kf_control *control,
                                     const uint64_t before[][KF_REASON_SLOTS], bool of_ring)
{
    bool all_kept = c->options.policy != KS_POLICY_RING && !of_ring;
    for (uint32_t i = 0; i < KF_MAX_SOURCES; i++) {
        for (uint32_t k = 0; k < KF_REASON_SLOTS; k++)
            control->counters[i][k] -= before[i][k];
        if (all_kept)
            control->counters[i][KF_REASON_EVICTED] = 0;
    }
}

/* Has sources deliver what they hold: those that deliver at the end of their session must do so
 * although another window goes on. */
static void collect_from_sources(const ks_collector *c)
{
    kf_control *control = c->pool.control;
    if (kb_load_acquire(&control->gate))
        kf_followers_collect(control);
    uint32_t late = kf_followers_wait(control, HAND_OVER_NS);
    if (late)
        ks_pool_note_at(&c->pool, "plug-ins", "programs whose plug-ins did not hand over in time",
                        late, true, "what they had recorded by then is missing", now_ticks(c));
}

/* Options for windows and ring dumps alike. */
static kt_build_options common_options(ks_collector *c, const ks_window_cut *cut)
{
    lock_windows(c);
    bool over = c->over;
    unlock_windows(c);
    return (kt_build_options){.is_over = over,
                              .clip_open = true,
                              .no_inlined = cut->is_quick,
                              .header = cut->header,
                              .header_count = cut->header_count,
                              .stated_until = now_ticks(c)};
}

/* By iteration, the ticks of its iterations limit the trace; by time, the requested times. */
static kt_build_options window_build_options(ks_collector *c, const ks_window *w,
                                             const ks_window_cut *cut)
{
    kt_build_options o = common_options(c, cut);
    bool by_iteration = w->from_ticks != 0;
    o.kinds = w->kinds;
    o.wants = w->wants;
    o.start_ticks = by_iteration ? w->from_ticks : w->kept_from;
    o.end_ticks = by_iteration && w->until_ticks ? w->until_ticks : w->closed_ticks;
    o.from_ns = by_iteration ? 0 : cut->from_ns;
    o.until_ns = by_iteration ? 0 : cut->until_ns;
    o.epoch_ticks = w->opened_ticks;
    o.complete_from = w->kept_from;
    o.notes = cut->notes;
    o.note_count = cut->note_count;
    return o;
}

kineto_status ks_window_build(ks_collector *c, ks_window *w, const ks_window_cut *cut,
                              kineto_trace **out, kineto_error *err)
{
    ks_input *input = NULL;
    KB_ASSERT(w->used && w->slot == NO_SLOT && w->warm == NO_SLOT && w->closed_ticks);
    collect_from_sources(c);
    kt_build_options options = window_build_options(c, w, cut);
    kineto_status status = ks_input_open_written(c->spool, &c->pool, &input, err);
    if (status)
        return status;
    subtract_window_counters(c, input->control, w->counters, false);
    ks_cost_part part = {
        .account = w->account,
        .part = {w->opened_ticks, w->closed_ticks},
        .summary = {.budget = &w->budget, .cost = w->cost, .lasted_ns = w->lasted_ns}};
    ks_cost_part_attach(&part, input->control, &input->input, &options);
    status = kt_build(&input->input, input->control, &options, out, err);
    ks_input_close(input);
    return status;
}

/* ---- the ring -------------------------------------------------------------------------------- */

static void count_reader(ks_collector *c, bool begins)
{
    lock_windows(c);
    KB_ASSERT(begins || c->readers > 0);
    c->readers += begins ? 1u : (uint32_t)-1;
    unlock_windows(c);
}

/* The ledger line of a ring that is shorter than requested, with its text. */
typedef struct short_ring {
    kt_build_note note;
    char detail[256];
} short_ring;

#define MIB (UINT64_C(1) << 20)
/* Also estimates the buffer that the requested length would need. */
static void describe_short(const ks_collector *c, uint64_t asked_ticks, uint64_t whole_ticks,
                           short_ring *text)
{
    double asked_ns = (double)asked_ticks / c->ticks_per_ns;
    double whole_ns = (double)whole_ticks / c->ticks_per_ns;
    double mib = (double)(c->pool.chunk_count * (uint64_t)KF_CHUNK_BYTES) / (double)MIB;
    snprintf(text->detail, sizeof text->detail,
             "only the last %s of %s are whole: what was before had to make room in %.0f MiB; for "
             "all of it "
             "--ring-mb would have to be about %.0f",
             kb_duration((int64_t)whole_ns).s, kb_duration((int64_t)asked_ns).s, mib,
             mib * (double)asked_ticks / (double)KB_MAX(whole_ticks, 1u) + 1);
    text->note = (kt_build_note){"ring", "shorter than asked for", text->detail, 1, false};
}

/* Does a window keep everything since then? What left the buffer is in the spool. */
static bool is_kept_since(ks_collector *c, uint64_t ticks)
{
    bool is_kept = false;
    lock_windows(c);
    for (uint32_t i = 0; i < KS_WINDOWS; i++)
        is_kept |= c->windows[i].used && c->windows[i].kept_from <= ticks;
    unlock_windows(c);
    return is_kept;
}

/* Chunks that were overwritten too early shorten the ring; a ledger line says so. */
static void ring_options(ks_collector *c, kf_control *control, uint64_t now,
                         const ks_window_cut *cut, short_ring *text, kt_build_options *o)
{
    uint64_t length = ticks_in(c, c->options.ring_ns);
    uint64_t from = KB_MAX(now > length ? now - length : 0, c->first_ticks);
    if (is_kept_since(c, from))
        control->forgotten_ticks = KB_MIN(control->forgotten_ticks, from);
    bool short_one = control->forgotten_ticks > from;
    o->requested_from = from;
    o->kinds = c->options.kinds;
    o->start_ticks = KB_MAX(from, control->forgotten_ticks);
    o->end_ticks = now;
    o->complete_from = o->start_ticks;
    o->from_ns = cut->from_ns;
    o->until_ns = cut->until_ns;
    o->epoch_ticks = o->start_ticks - KB_MIN(o->start_ticks, ticks_in(c, 2 * KB_SECOND_NS));
    if (!short_one)
        return;
    describe_short(c, now - from, now - KB_MIN(now, control->forgotten_ticks), text);
    o->notes = &text->note;
    o->note_count = 1;
}

/* The cost since the recording began: the cost of the ring's last seconds alone is not known. */
static void take_ring_cost(ks_collector *c, uint64_t now, ks_cost_part *part)
{
    memset(part, 0, sizeof *part);
    lock_windows(c);
    ks_account_find_processes(&c->account, &c->pool);
    ks_account_read(&c->account, c->pool.control, false, &part->summary.cost);
    part->account = c->account;
    unlock_windows(c);
    memset(&part->account.tally, 0, sizeof part->account.tally);
    part->part = (ks_part){c->first_ticks, now};
    part->summary.lasted_ns = kb_monotonic_ns() - part->account.begun_ns;
}

kineto_status ks_ring_build(ks_collector *c, const ks_window_cut *cut, kineto_trace **out,
                            kineto_error *err)
{
    short_ring text;
    ks_input *input = NULL;
    collect_from_sources(c);
    if (c->over)
        ks_pool_note_steps(&c->pool);
    count_reader(c, true);
    ks_collector_clock(c);
    ks_thread_names_finish(c->thread_names, &c->pool);
    uint64_t now = 0;
    kineto_status status = ks_input_open_ring(NULL, c->spool, &c->pool, &input, &now, err);
    if (status == KINETO_OK) {
        kt_build_options options = common_options(c, cut);
        subtract_window_counters(c, input->control, c->ring_counters, true);
        ring_options(c, input->control, now, cut, &text, &options);
        ks_cost_part part;
        take_ring_cost(c, now, &part);
        ks_cost_part_attach(&part, input->control, &input->input, &options);
        status = kt_build(&input->input, input->control, &options, out, err);
    }
    ks_input_close(input);
    count_reader(c, false);
    return status;
}

/* ---- iterations ------------------------------------------------------------------------------ */

uint64_t ks_collector_steps(ks_collector *c, int64_t times_ns[KF_STEP_TIMES], uint32_t *pid)
{
    kf_control *control = c->pool.control;
    uint64_t ticks[KF_STEP_TIMES], now = kb_monotonic_ns();
    if (!c->step_pid || now >= c->next_steps_ns) { /* finding a living process is slow */
        const kf_steps *first = kf_steps_of(control, 0);
        c->step_pid = first ? kb_load_relaxed(&first->pid) : 0;
        c->next_steps_ns = now + KB_SECOND_NS;
    }
    const kf_steps *steps = c->step_pid ? kf_steps_of(control, c->step_pid) : NULL;
    *pid = steps ? c->step_pid : 0;
    if (!steps)
        return 0;
    kb_clock_snapshot clock;
    uint64_t count = kf_steps_read(steps, ticks);
    kb_clock_snapshot_take(control->ticks_clock, &clock);
    for (uint32_t i = 0; i < KF_STEP_TIMES; i++) {
        double ago_ns = (double)(int64_t)(clock.ticks - ticks[i]) / c->ticks_per_ns;
        bool possible = ago_ns > -MAX_AGO_NS && ago_ns < MAX_AGO_NS;
        times_ns[i] = clock.realtime_ns - (possible ? (int64_t)ago_ns : 0);
    }
    return count;
}

/* Threads that a recorder watched from outside (source "cpu"): collects the records about them, and
 * makes the row with their states: running, waiting for a CPU, blocked.
 *
 * Only times on a CPU are recorded. What lies between two of them follows from how the first ended:
 * a thread that was preempted waits for a CPU, another one is blocked, until it runs again. Where it is
 * known when the thread was woken, it waits for a CPU from then on; else, for example for ordinary users,
 * that time counts as blocked. */
#include "trace/from_recording/build_watched.h"

/* ---- collecting ------------------------------------------------------------------------------ */

/* Selects the thread of a record. False: the options leave it out, or out of memory. */
static bool select_watched_thread(kt_build_state *s, const kf_watched_thread *t, kineto_kind kind)
{
    if (!(s->options.kinds & KINETO_KIND_BIT(kind)))
        return false;
    kt_build_select_watcher(s, t->process, t->pid, t->tid);
    return !s->out_of_memory && (!s->options.root_pid || kt_build_below_root(s));
}

static kineto_status finish_record(const kt_build_state *s)
{
    return s->out_of_memory ? KINETO_E_MEMORY : KINETO_OK;
}

kineto_status kt_build_thread_run(void *state, const kf_thread_run *run)
{
    kt_build_state *s = state;
    if (select_watched_thread(s, &run->thread, KINETO_KIND_THREAD_STATE)) {
        kt_build_run r = {.start = run->start,
                          .end = run->end,
                          .thread = s->here_thread,
                          .cpu = run->cpu,
                          .flags = run->flags};
        kt_build_wake w = {run->woken, s->here_thread, true, run->waker_tid};
        s->out_of_memory |= !kb_vec_push(&s->runs, r);
        if (run->flags & KF_RUN_WOKEN)
            s->out_of_memory |= !kb_vec_push(&s->wakes, w);
    }
    return finish_record(s);
}

kineto_status kt_build_thread_life(void *state, const kf_thread_life *life)
{
    kt_build_state *s = state;
    if (select_watched_thread(s, &life->thread, KINETO_KIND_THREAD_STATE)) {
        kt_build_life l = {life->start, life->end, s->here_thread, life->flags};
        s->out_of_memory |= !kb_vec_push(&s->lives, l);
    }
    return finish_record(s);
}

kineto_status kt_build_stack_sample(void *state, const kf_stack_sample *sample)
{
    kt_build_state *s = state;
    bool is_blocked = (sample->flags & KF_SAMPLE_BLOCKED) != 0;
    bool is_fault = (sample->flags & KF_SAMPLE_FAULT) != 0;
    if (!select_watched_thread(s, &sample->thread,
                               is_fault     ? KINETO_KIND_CPU_INSTANT_EVENT
                               : is_blocked ? KINETO_KIND_THREAD_STATE
                                            : KINETO_KIND_CPU_SAMPLE))
        return finish_record(s);
    size_t bytes = (sample->count + 1) * sizeof(uint64_t);
    uint64_t *copy = kb_arena_alloc(&s->arena, bytes, sizeof *copy);
    kt_build_sample item = {.ticks = sample->ticks,
                            .cpu_ns = sample->cpu_ns,
                            .addresses = copy,
                            .thread = s->here_thread,
                            .count = (uint16_t)sample->count,
                            .kernel_count = (uint16_t)sample->kernel_count,
                            .flags = (uint16_t)sample->flags};
    if (copy)
        memcpy(copy, sample->addresses, sample->count * sizeof *copy);
    if (copy && is_fault && sample->count)
        copy[0]++; /* the instruction that touched the memory: as if a call returned after it */
    s->out_of_memory |= !copy || (is_fault     ? !kb_vec_push(&s->faults, item)
                                  : is_blocked ? !kb_vec_push(&s->blocked, item)
                                               : !kb_vec_push(&s->samples, item));
    return finish_record(s);
}

/* ---- the row of states ----------------------------------------------------------------------- */

static const char *const state_names[] = {"running", "waiting for a CPU", "blocked"};
enum { STATE_RUNNING, STATE_WAITING, STATE_BLOCKED };

static int compare_runs(const void *left, const void *right)
{
    const kt_build_run *a = left, *b = right;
    return a->thread != b->thread ? KB_COMPARE(a->thread, b->thread) : KB_COMPARE(a->start, b->start);
}

static int compare_lives(const void *left, const void *right)
{
    const kt_build_life *a = left, *b = right;
    if (a->thread != b->thread)
        return KB_COMPARE(a->thread, b->thread);
    return a->start != b->start ? KB_COMPARE(a->start, b->start) : KB_COMPARE(b->end, a->end);
}

static int compare_wakes(const void *left, const void *right)
{
    const kt_build_wake *a = left, *b = right;
    return a->thread != b->thread ? KB_COMPARE(a->thread, b->thread) : KB_COMPARE(a->ticks, b->ticks);
}

uint32_t kt_build_watched_track(kt_build_state *s, uint32_t thread, const char *what)
{
    const kt_build_thread *t = &s->threads.data[thread];
    char text[64];
    snprintf(text, sizeof text, "%s %u", what, t->tid);
    uint32_t track = kt_track_text(s->b, kt_build_process_row(s, t->process), kb_string(text));
    kineto_string name = kt_build_thread_name_of(s, thread);
    char shown[200];
    snprintf(shown, sizeof shown, name.size ? "thread %u (%.*s): %s" : "thread %u%.*s: %s", t->tid,
             (int)KB_MIN(name.size, (size_t)120), name.size ? name.data : "", what);
    kt_track_set(s->b, track, kb_string(shown), t->order ? t->order : (int64_t)t->tid);
    return track;
}

int kt_build_compare_samples(const void *left, const void *right)
{
    const kt_build_sample *a = left, *b = right;
    return a->thread != b->thread ? KB_COMPARE(a->thread, b->thread) : KB_COMPARE(a->ticks, b->ticks);
}

/* Where a thread was that lost its CPU at these ticks: the innermost function, and the stack. */
static void stage_blocked_stack(kt_build_state *s, uint32_t thread, uint64_t ticks)
{
    kt_symbols *symbols = s->processes.data[s->threads.data[thread].process].symbols;
    kt_symbol_text text;
    size_t at = 0;
    KB_LOWER_BOUND(at, s->blocked.count,
                   s->blocked.data[at].thread < thread ||
                       (s->blocked.data[at].thread == thread && s->blocked.data[at].ticks < ticks));
    const kt_build_sample *b = at < s->blocked.count ? &s->blocked.data[at] : NULL;
    if (!b || b->thread != thread || b->ticks != ticks || !symbols || !b->count)
        return;
    if (kt_symbol(symbols, b->addresses[0] + 1, &text) && text.function.size)
        kt_args_put_shared(s->b, kt_string(s->b, kb_string("in")), KINETO_ARG_STRING,
                           kt_string(s->b, text.function));
    kineto_string stack = kt_symbols_stack(symbols, b->addresses, b->count);
    kt_args_put_shared(s->b, s->function_keys.call_stack, KINETO_ARG_STRING,
                       kt_string(s->b, stack));
}

/* "thread 42 (worker)", "an interrupt". */
static void stage_waker(kt_build_state *s, const kt_build_wake *wake)
{
    char text[64] = "an interrupt";
    const uint64_t *at = wake->waker_tid ? kb_map_find(&s->thread_of_tid, wake->waker_tid) : NULL;
    kineto_string name = at ? kt_build_thread_name_of(s, (uint32_t)*at) : (kineto_string){"", 0};
    if (wake->waker_tid)
        snprintf(text, sizeof text, name.size ? "thread %u (%.*s)" : "thread %u%.*s", wake->waker_tid,
                 (int)KB_MIN(name.size, (size_t)32), name.size ? name.data : "");
    kt_args_put_shared(s->b, kt_string(s->b, kb_string("woken by")), KINETO_ARG_STRING,
                       kt_string(s->b, kb_string(text)));
}

/* One state of a thread, if a part of it is in the window.
 * @param run   of RUNNING: this one; else NULL.
 * @param wake  of WAITING: after it; else NULL. */
static void append_state(kt_build_state *s, uint32_t track, uint32_t thread, uint32_t state,
                         uint64_t start, uint64_t end, const kt_build_run *run,
                         const kt_build_wake *wake)
{
    kt_row row = {.track = track,
                  .kind = KINETO_KIND_THREAD_STATE,
                  .form = KINETO_FORM_SLICE,
                  .name = kt_string(s->b, kb_string(state_names[state]))};
    if (start >= end || !kt_build_place(s, start, end, false, &row))
        return;
    if (wake && wake->has_waker) {
        stage_waker(s, wake);
    } else if (run) {
        row.flags |= run->flags & KF_RUN_OPEN_END ? KINETO_ACTIVITY_OPEN_END : 0;
        if (!(run->flags & KF_RUN_POLLED))
            kt_args_put_number(s->b, kt_string(s->b, kb_string("cpu")), run->cpu);
    } else if (state == STATE_BLOCKED && s->blocked.count) {
        stage_blocked_stack(s, thread, start);
    }
    (void)kt_append(s->b, &row);
}

/* Runs that go on in the next record become one. @return how many there are then. */
static size_t join_runs(kt_build_run *runs, size_t count)
{
    size_t kept = 0;
    for (size_t i = 1; i < count; i++) {
        if (runs[kept].flags & KF_RUN_GOES_ON && runs[i].start == runs[kept].end) {
            runs[kept].end = runs[i].end;
            runs[kept].flags = runs[i].flags;
        } else {
            runs[++kept] = runs[i];
        }
    }
    return count ? kept + 1 : 0;
}

/* The life of the thread of the first of these: the longest of those with one start includes the others, and one that
 * begins where it ends continues it, as after an exec. @param used  receives how many are of this thread. */
static const kt_build_life *join_lives(kt_build_life *lives, size_t count, size_t *used)
{
    size_t i = 1;
    for (; i < count && lives[i].thread == lives->thread; i++) {
        if (lives[i].start > lives->end || lives[i].end <= lives->end)
            continue;
        lives->end = lives[i].end;
        lives->flags = (lives->flags & KF_LIFE_OPEN_START) | (lives[i].flags & KF_LIFE_OPEN_END);
    }
    *used = i;
    return lives;
}

/* What a thread did between two runs. A blocked one waits for a CPU from when it was woken first, if it is
 * known when it got one. */
static void append_state_between(kt_build_state *s, uint32_t track, uint32_t thread, uint32_t state,
                                 uint64_t start, uint64_t end, bool is_end_known)
{
    size_t at = 0;
    KB_LOWER_BOUND(at, s->wakes.count,
                   s->wakes.data[at].thread < thread ||
                       (s->wakes.data[at].thread == thread && s->wakes.data[at].ticks < start));
    bool is_woken = state == STATE_BLOCKED && at < s->wakes.count &&
                    s->wakes.data[at].thread == thread && s->wakes.data[at].ticks < end;
    const kt_build_wake *wake = is_woken ? &s->wakes.data[at] : NULL;
    append_state(s, track, thread, state, start, wake ? wake->ticks : end, NULL, NULL);
    if (is_end_known && wake)
        append_state(s, track, thread, STATE_WAITING, wake->ticks, end, NULL, wake);
}

/* The states of one thread, from its runs and, if it is known, its life. */
static void append_thread_states(kt_build_state *s, const kt_build_run *runs, size_t count,
                                 const kt_build_life *life, uint32_t thread)
{
    uint32_t track = kt_build_watched_track(s, thread, "state");
    bool is_born = life && !(life->flags & KF_LIFE_OPEN_START);
    uint64_t at = life ? life->start : runs[0].start;
    /* A new thread waits for its first CPU. What one did that was there before is not known, but it
     * was not running. */
    uint32_t state = is_born ? STATE_WAITING : STATE_BLOCKED;
    for (size_t i = 0; i < count; i++) {
        append_state_between(s, track, thread, state, at, runs[i].start,
                             !(runs[i].flags & KT_BUILD_RUN_UNSEEN));
        append_state(s, track, thread, STATE_RUNNING, KB_MAX(runs[i].start, at), runs[i].end, &runs[i],
                     NULL);
        at = KB_MAX(at, runs[i].end);
        state = runs[i].flags & KF_RUN_PREEMPTED ? STATE_WAITING : STATE_BLOCKED;
    }
    if (life)
        append_state_between(s, track, thread, state, at, life->end, false);
}

void kt_build_thread_states(kt_build_state *s)
{
    size_t run = 0, life = 0;
    for (uint32_t i = 0; i < s->threads.count && s->runs.count; i++)
        s->out_of_memory |= !kb_map_insert(&s->thread_of_tid, s->threads.data[i].tid, i, NULL);
    if (s->runs.count)
        qsort(s->runs.data, s->runs.count, sizeof *s->runs.data, compare_runs);
    if (s->blocked.count)
        qsort(s->blocked.data, s->blocked.count, sizeof *s->blocked.data, kt_build_compare_samples);
    if (s->wakes.count)
        qsort(s->wakes.data, s->wakes.count, sizeof *s->wakes.data, compare_wakes);
    if (s->lives.count)
        qsort(s->lives.data, s->lives.count, sizeof *s->lives.data, compare_lives);
    while (run < s->runs.count || life < s->lives.count) {
        uint32_t of_run = run < s->runs.count ? s->runs.data[run].thread : KT_NONE;
        uint32_t of_life = life < s->lives.count ? s->lives.data[life].thread : KT_NONE;
        uint32_t thread = KB_MIN(of_run, of_life);
        size_t first = run;
        while (run < s->runs.count && s->runs.data[run].thread == thread)
            run++;
        size_t lives = 0, runs = join_runs(s->runs.data + first, run - first);
        const kt_build_life *its =
            of_life == thread ? join_lives(s->lives.data + life, s->lives.count - life, &lives) : NULL;
        append_thread_states(s, s->runs.data + first, runs, its, thread);
        life += lives;
    }
}

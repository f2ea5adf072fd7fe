/* The thread of the recorder that watches a program: it takes the kernel's events in order of time,
 * keeps track of processes and threads, unwinds sampled stacks, and writes records.
 *
 * A thread's time on a CPU becomes one record when it ends (write_run). From these the trace derives
 * what the thread did in between: it waited for a CPU if it had been preempted, else it was blocked. */
#include "cpu/source.h"
#include "cpu/attach.h"
#include "cpu/events.h"
#include "cpu/polling.h"
#include "session/process_image.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

#define WAIT_MS     100
_Static_assert(WAIT_MS * KB_MILLISECOND_NS < KU_READING_NS, "events are read in time");
#define STACK_BYTES 8192u
#define RING_BYTES  ((size_t)512 << 10) /* what ordinary users may lock for each CPU */
#define RINGS_BYTES ((size_t)64 << 20)  /* of all CPUs, where the user may lock more */

struct ku_source {
    ku_source_options options;
    ku_events *events;
    ku_unwinder *unwinder;
    ku_images images;
    ku_records records;
    uint64_t samples, next_measurement; /* of the cost of a sample, after so many */
    uint64_t sample_ns;                 /* that cost; 0: not measured yet */
    uint64_t next_progress_ns;          /* CLOCK_MONOTONIC_RAW */
    uint64_t next_look_ns;              /* for threads that were missed when they were attached to */
    KB_VEC(uint32_t) missed;            /* threads that the last look has found */
    KB_VEC(uint32_t) unsampled;         /* threads to be sampled after this drain */
    char refusal[256];                  /* why there are no events, and counters are polled */
    ku_polling polling;
    uint64_t timed[KF_TIMERS_COUNTERS]; /* counters of timers, as far as they are accounted for */
    pthread_t thread;
    uint32_t hz;          /* atomic */
    uint32_t ending;      /* atomic */
    bool is_running;
};

/* ---- samples --------------------------------------------------------------------------------- */

/* The kernel's own markers between parts of a stack are not addresses (PERF_CONTEXT_…). */
static uint32_t copy_kernel_frames(const ku_event *e, uint64_t *frames)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < e->kernel_frame_count && count < KU_MAX_FRAMES; i++) {
        uint64_t address;
        memcpy(&address, e->kernel_frames + i, sizeof address);
        if (address < (uint64_t)-4095)
            frames[count++] = address;
    }
    return count;
}

/* Of CPU time, or of page faults. */
static void write_sample(ku_source *s, const ku_event *e, ku_thread *t, uint64_t ticks)
{
    uint64_t frames[2 * KU_MAX_FRAMES];
    bool is_cut = false, is_fault = e->type == KU_EVENT_FAULT;
    ku_process *p = ku_watched_process(&s->records.watched, t->pid);
    if (!p || !ku_is_wanted(&s->records, is_fault ? KINETO_KIND_CPU_INSTANT_EVENT : KINETO_KIND_CPU_SAMPLE))
        return;
    ku_writer_count(&s->records.writer, KF_REASON_REQUESTED, 1);
    ku_stack stack = {.frames = frames, .cpu = e->cpu, .cpu_ns = is_fault ? e->count : e->period_ns};
    if (!is_fault)
        stack.count = stack.kernel = copy_kernel_frames(e, frames);
    if (e->stack.instruction)
        stack.count += ku_unwind(s->unwinder, &s->images, &p->space, &e->stack,
                                 frames + stack.kernel, &is_cut);
    stack.flags = is_cut ? KF_SAMPLE_CUT : 0;
    if (is_fault)
        stack.flags |= KF_SAMPLE_FAULT | (e->is_major ? KF_SAMPLE_MAJOR : 0);
    if (ku_write_stack(&s->records, t, ticks, &stack))
        ku_writer_count(&s->records.writer, KF_REASON_DELIVERED, 1);
    s->samples++;
    ku_writer_add_cost(&s->records.writer, KF_COST_SAMPLE, s->sample_ns, 1);
}

/* Keep the stack until the switch that follows says whether the thread has to wait. */
static void keep_stack_before(ku_source *s, const ku_event *e, ku_thread *t)
{
    ku_process *p = ku_watched_process(&s->records.watched, t->pid);
    if (!t->frames_before)
        t->frames_before = calloc(KU_MAX_FRAMES, sizeof *t->frames_before);
    t->frame_count_before = 0;
    if (p && t->frames_before && e->stack.instruction)
        t->frame_count_before = ku_unwind(s->unwinder, &s->images, &p->space, &e->stack,
                                          t->frames_before, &t->is_cut_before);
}

static void write_stack_before(ku_source *s, ku_thread *t, uint64_t ticks)
{
    uint32_t flags = KF_SAMPLE_BLOCKED | (t->is_cut_before ? KF_SAMPLE_CUT : 0);
    ku_stack stack = {t->frames_before, t->frame_count_before, 0, t->cpu, flags, 0};
    if (t->frame_count_before && ku_is_wanted(&s->records, KINETO_KIND_THREAD_STATE))
        (void)ku_write_stack(&s->records, t, ticks, &stack);
    t->frame_count_before = 0;
}

/* ---- events ---------------------------------------------------------------------------------- */

/* The thread of an event; one that is seen for the first time was there before. */
static ku_thread *thread_of_event(ku_source *s, const ku_event *e, uint64_t ticks)
{
    ku_thread *t = ku_watched_thread(&s->records.watched, e->pid, e->tid);
    if (t && !t->born_ticks) {
        t->born_ticks = ticks;
        t->sampled_since_ns = e->time_ns;
    }
    return t;
}

/* A thread is sampled as the one that started it, if that was sampled already. */
static void inherit_sampling(ku_source *s, ku_thread *t, const ku_event *fork)
{
    const ku_thread *parent = ku_watched_find_thread(&s->records.watched, fork->parent_tid);
    bool is_sampled = !parent || (parent->sampled_since_ns && parent->sampled_since_ns <= fork->time_ns);
    t->sampled_since_ns = is_sampled ? fork->time_ns : 0;
    if (!is_sampled && s->options.hz)
        (void)kb_vec_push(&s->unsampled, t->tid);
}

static void handle_fork(ku_source *s, const ku_event *e, uint64_t ticks)
{
    if (e->pid != e->parent_pid)
        ku_watched_copy_process(&s->records.watched, e->pid, e->parent_pid);
    ku_thread *t = ku_watched_thread(&s->records.watched, e->pid, e->tid);
    if (!t)
        return;
    t->born_ticks = ticks;
    t->is_born_here = true;
    t->creator_tid = e->parent_tid;
    inherit_sampling(s, t, e);
}

static void handle_exit(ku_source *s, const ku_event *e, uint64_t ticks)
{
    ku_thread *t = ku_watched_find_thread(&s->records.watched, e->tid);
    if (!t)
        return;
    ku_write_run(&s->records, t, ticks, 0);
    ku_write_life(&s->records, t, ticks, 0);
    ku_watched_forget_thread(&s->records.watched, t);
}

/* A thread that executes a program ends the others of its process, and continues with the tid of the first one. Its own
 * former tid has no exit. */
static void end_other_threads(ku_source *s, const ku_thread *executing, uint64_t ticks)
{
    ku_watched *w = &s->records.watched;
    for (size_t i = w->thread_list.count; i > 0; i--) {
        ku_thread *t = w->thread_list.data[i - 1];
        if (t->pid != executing->pid || t == executing)
            continue;
        ku_write_run(&s->records, t, ticks, 0);
        ku_write_life(&s->records, t, ticks, 0);
        ku_watched_forget_thread(w, t);
    }
}

/* A thread that was there before, and has not got a CPU since, has had one all the time. */
static void handle_first_event(ku_thread *t, const ku_event *e)
{
    if (e->type == KU_EVENT_SWITCH_OUT || e->type == KU_EVENT_SAMPLE || e->type == KU_EVENT_FAULT ||
        e->type == KU_EVENT_EXEC) {
        t->on_ticks = t->born_ticks;
        t->cpu = e->cpu;
    }
    t->is_attached = false;
}

/* The thread that executes a program has a CPU. Events of the first program begin with this one. */
static void handle_exec(ku_source *s, const ku_event *e, uint64_t ticks)
{
    ku_thread *t = thread_of_event(s, e, ticks);
    if (!t)
        return;
    if (t->is_attached)
        handle_first_event(t, e);
    end_other_threads(s, t, ticks);
    ku_write_exec(&s->records, t, ticks);
    ku_watched_exec(&s->records.watched, e->pid, e->name, ticks);
    t->is_born_here |= e->pid == s->options.pid && s->options.at_exec;
    t->on_ticks = ticks;
    t->cpu = e->cpu;
    snprintf(t->name, sizeof t->name, "%s", e->name);
}

static void handle_switch(ku_source *s, const ku_event *e, ku_thread *t, uint64_t ticks)
{
    if (e->type == KU_EVENT_SWITCH_OUT) {
        ku_write_run(&s->records, t, ticks, e->is_preempted ? KF_RUN_PREEMPTED : 0);
        if (!e->is_preempted)
            write_stack_before(s, t, ticks);
        return;
    }
    t->on_ticks = ticks;
    t->cpu = e->cpu;
}

/* A thread that still runs is about to wait, and will not. */
static void handle_waking(ku_source *s, const ku_event *e, uint64_t ticks)
{
    ku_thread *t = ku_watched_find_thread(&s->records.watched, e->woken_tid);
    if (!t || t->on_ticks)
        return;
    t->woken_ticks = ticks;
    t->waker_pid = e->is_interrupt ? 0 : e->pid;
    t->waker_tid = e->is_interrupt ? 0 : e->tid;
}

static void handle_map(ku_source *s, const ku_event *e)
{
    ku_process *p = ku_watched_process(&s->records.watched, e->pid);
    ku_watched_note_file(&s->records.watched, e->name);
    if (p && !ku_space_add(&p->space, e->start, e->bytes, e->file_offset, e->name))
        s->records.watched.no_memory++;
}

static void handle_thread_event(ku_source *s, const ku_event *e, uint64_t ticks)
{
    ku_thread *t = thread_of_event(s, e, ticks);
    if (!t)
        return;
    if (t->is_attached && e->type != KU_EVENT_NAME)
        handle_first_event(t, e);
    if (e->type == KU_EVENT_SAMPLE || e->type == KU_EVENT_FAULT)
        write_sample(s, e, t, ticks);
    else if (e->type == KU_EVENT_STACK_BEFORE)
        keep_stack_before(s, e, t);
    else if (e->type == KU_EVENT_NAME)
        snprintf(t->name, sizeof t->name, "%s", e->name);
    else
        handle_switch(s, e, t, ticks);
}

static void handle_event(void *context, const ku_event *e)
{
    ku_source *s = context;
    uint64_t ticks = ku_writer_ticks(&s->records.writer, e->time_ns);
    if (e->pid == s->records.writer.pid && e->type != KU_EVENT_LOST) /* the recorder, below a watched shell */
        return;
    switch (e->type) {
    case KU_EVENT_FORK:
        handle_fork(s, e, ticks);
        break;
    case KU_EVENT_EXIT:
        handle_exit(s, e, ticks);
        break;
    case KU_EVENT_EXEC:
        handle_exec(s, e, ticks);
        break;
    case KU_EVENT_MAP:
        handle_map(s, e);
        break;
    case KU_EVENT_WAKING:
        handle_waking(s, e, ticks);
        break;
    case KU_EVENT_LOST:
        ku_writer_count(&s->records.writer, KF_REASON_REQUESTED, e->count);
        ku_writer_count(&s->records.writer, KF_REASON_RING_FULL, e->count);
        break;
    default:
        handle_thread_event(s, e, ticks);
    }
}

/* ---- processes that were there before -------------------------------------------------------- */

static void watch_running_thread(ku_source *s, uint32_t pid, uint32_t tid)
{
    ku_process *p = ku_watched_process(&s->records.watched, pid);
    ku_thread *t = p ? ku_watched_thread(&s->records.watched, pid, tid) : NULL;
    if (!t)
        return;
    if (!p->name[0])
        ku_attach_read_process(&s->records.watched, p);
    (void)kb_os_thread_name(pid, tid, t->name, sizeof t->name);
    t->is_attached = true;
    t->born_ticks = kb_ticks(s->records.writer.ticks_clock);
    t->sampled_since_ns = kb_clock_ns(CLOCK_MONOTONIC_RAW);
}

/* The program's first thread has events already. One that cannot be watched has ended, or needs more
 * descriptors than this process may have. */
static void attach_thread(void *context, uint32_t pid, uint32_t tid)
{
    ku_source *s = context;
    if (ku_watched_find_thread(&s->records.watched, tid))
        return;
    int error = tid == s->options.pid ? 0 : ku_events_add_thread(s->events, tid);
    if (!error)
        watch_running_thread(s, pid, tid);
    else if (error != ESRCH)
        ku_writer_count(&s->records.writer, KF_REASON_UNWATCHED, 1);
}

/* A thread that was not known at the last look either was started while its creator was not watched
 * yet. */
static void look_for_missed_thread(void *context, uint32_t pid, uint32_t tid)
{
    ku_source *s = context;
    if (ku_watched_find_thread(&s->records.watched, tid))
        return;
    for (size_t i = 0; i < s->missed.count; i++)
        if (s->missed.data[i] == tid) {
            attach_thread(s, pid, tid);
            return;
        }
    (void)kb_vec_push(&s->missed, tid);
}

static void look_for_missed_threads(ku_source *s)
{
    uint64_t now_ns = kb_monotonic_ns();
    if (s->options.at_exec || now_ns < s->next_look_ns)
        return;
    s->next_look_ns = now_ns + (uint64_t)KB_SECOND_NS;
    size_t known = s->missed.count;
    (void)ku_attach_visit_threads(s->options.pid, look_for_missed_thread, s);
    if (known)
        memmove(s->missed.data, s->missed.data + known, (s->missed.count - known) * sizeof *s->missed.data);
    s->missed.count -= known;
}

/* ---- the rate -------------------------------------------------------------------------------- */

static void sample_missed_threads(ku_source *s)
{
    for (size_t i = 0; i < s->unsampled.count; i++) {
        ku_thread *t = ku_watched_find_thread(&s->records.watched, s->unsampled.data[i]);
        if (t && ku_events_add_sampler(s->events, t->tid) == 0)
            t->sampled_since_ns = kb_clock_ns(CLOCK_MONOTONIC_RAW);
    }
    s->unsampled.count = 0;
}

static void change_hz(ku_source *s, uint32_t hz)
{
    if (s->options.timers) {
        ku_timers_set_hz(s->options.timers, hz);
        kb_store_relaxed(&s->hz, hz);
        return;
    }
    KB_VEC(ku_sampled_thread) sampled = {0};
    for (size_t i = 0; i < s->records.watched.thread_list.count; i++) {
        ku_sampled_thread one = {.tid = s->records.watched.thread_list.data[i]->tid};
        if (!kb_vec_push(&sampled, one))
            break;
    }
    if (sampled.count == s->records.watched.thread_list.count) {
        ku_events_set_hz(s->events, hz, sampled.data, sampled.count);
        for (size_t i = 0; i < sampled.count; i++)
            s->records.watched.thread_list.data[i]->sampled_since_ns = sampled.data[i].since_ns;
        kb_store_relaxed(&s->hz, hz);
    }
    kb_vec_free(&sampled);
}

/* Samples take the same part of all CPU time, rate times cost of one, so the rate follows from the
 * limit. The cost is measured again now and then: it depends on what else the machine does. */
static void limit_cost_of_samples(ku_source *s)
{
    const uint64_t FIRST = 32, AGAIN = 8; /* samples; times as many */
    if (s->samples < KB_MAX(s->next_measurement, FIRST))
        return;
    s->next_measurement = s->samples * AGAIN;
    s->sample_ns = s->options.timers ? ku_timers_sample_ns(s->options.timers)
                                     : ku_events_measure_sample_ns(s->events);
    if (s->options.max_cost_ppm <= 0 || !s->sample_ns)
        return;
    double allowed = s->options.max_cost_ppm * 1e-6 * KB_SECOND_NS / (double)s->sample_ns;
    uint32_t hz = allowed < s->options.hz ? (uint32_t)KB_MAX(allowed, 1.0) : s->options.hz;
    uint32_t now = kb_load_relaxed(&s->hz);
    if (hz < now - now / 8 || hz > now + now / 8)
        change_hz(s, hz);
}

/* ---- samples of timers ----------------------------------------------------------------------- */

#define REREAD_NS (20 * (uint64_t)KB_MILLISECOND_NS)

/* Lines of /proc/self/maps that a program has sent when it began. */
static void handle_code(ku_source *s, const kf_slot *slot, ku_process *p, ku_thread *t, uint64_t ticks)
{
    char text[KF_TIMERS_STACK + 1], *rest = text;
    uint64_t exec_ticks = KB_MAX(ticks, t->polled_ticks);
    memcpy(text, slot->stack, slot->bytes);
    text[slot->bytes] = '\0';
    ku_write_exec(&s->records, t, exec_ticks);
    ku_watched_exec(&s->records.watched, slot->pid, slot->name, ticks);
    p->exec_id = ks_process_exec_id(slot->pid);
    p->parent_pid = slot->parent_pid;
    for (char *line; (line = strtok_r(rest, "\n", &rest)) != NULL;)
        ku_attach_add_mapping(&s->records.watched, p, line);
}

/* A library may have been loaded since the mappings were read. */
static void read_code_for_sample(ku_source *s, ku_process *p, uint64_t instruction)
{
    uint64_t now_ns = kb_monotonic_ns();
    if (ku_space_find(&p->space, instruction) || now_ns - p->maps_ns < REREAD_NS)
        return;
    p->maps_ns = now_ns;
    ku_attach_read_process(&s->records.watched, p);
}

static void handle_timed_sample(ku_source *s, const kf_slot *slot, ku_process *p, ku_thread *t,
                                uint64_t ticks)
{
    _Static_assert(KF_TIMERS_REGISTERS == KB_CFI_REGISTERS, "one numbering");
    ku_event e = {.type = KU_EVENT_SAMPLE,
                  .pid = slot->pid,
                  .tid = slot->tid,
                  .cpu = slot->cpu,
                  .time_ns = slot->time_ns,
                  .period_ns = slot->period_ns,
                  .stack = {.instruction = slot->instruction, .bytes = slot->stack, .size = slot->bytes}};
    memcpy(e.stack.registers, slot->registers, sizeof e.stack.registers);
    read_code_for_sample(s, p, slot->instruction);
    write_sample(s, &e, t, ticks);
}

static void handle_slot(void *context, const kf_slot *slot)
{
    ku_source *s = context;
    uint64_t ticks = ku_writer_ticks(&s->records.writer, slot->time_ns);
    ku_thread *t = ku_polling_meet(&s->polling, slot->pid, slot->tid, ticks);
    ku_process *p = ku_watched_process(&s->records.watched, slot->pid);
    if (!t || !p)
        return;
    if (slot->type == KF_SLOT_CODE)
        handle_code(s, slot, p, t, ticks);
    else if (slot->type == KF_SLOT_FORK && !p->has_timers)
        ku_watched_copy_process(&s->records.watched, slot->pid, slot->parent_pid);
    else if (slot->type == KF_SLOT_SAMPLE)
        handle_timed_sample(s, slot, p, t, ticks);
    p->has_timers = true;
}

static uint64_t count_since_last_time(ku_source *s, kf_timers_counter what)
{
    uint64_t now = ku_timers_count(s->options.timers, what), before = s->timed[what];
    s->timed[what] = now;
    return now - before;
}

static void account_for_timers(ku_source *s)
{
    kf_control *control = s->records.writer.pool->control;
    uint64_t lost = count_since_last_time(s, KF_TIMERS_LOST);
    uint64_t starts = count_since_last_time(s, KF_TIMERS_STARTS);
    if (starts) { /* the cost of attaching is in ns */
        s->sample_ns = ku_timers_sample_ns(s->options.timers);
        kb_add_relaxed(&control->cost_calls[KF_COST_ATTACH], starts);
        kb_add_relaxed(&control->cost_ticks[KF_COST_ATTACH], count_since_last_time(s, KF_TIMERS_START_NS));
    }
    if (!lost)
        return;
    ku_writer_count(&s->records.writer, KF_REASON_REQUESTED, lost);
    ku_writer_count(&s->records.writer, KF_REASON_NO_ROOM, lost);
    ku_timers_reclaim(s->options.timers);
}

static void take_timed_samples(ku_source *s)
{
    if (!s->options.timers)
        return;
    ku_timers_drain(s->options.timers, handle_slot, s);
    account_for_timers(s);
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void drain_events(ku_source *s, bool all)
{
    ku_writer_read_clocks(&s->records.writer);
    uint64_t until_ns = ku_events_drain(s->events, all, handle_event, s);
    sample_missed_threads(s);
    if (!s->options.progress_ns || until_ns < s->next_progress_ns)
        return;
    s->next_progress_ns = until_ns + s->options.progress_ns;
    ku_write_progress(&s->records, ku_writer_ticks(&s->records.writer, until_ns));
}

static void read_events(ku_source *s)
{
    if (!s->options.at_exec)
        (void)ku_attach_visit_threads(s->options.pid, attach_thread, s);
    while (!kb_load_acquire(&s->ending)) {
        ku_events_wait(s->events, WAIT_MS);
        drain_events(s, false);
        limit_cost_of_samples(s);
        look_for_missed_threads(s);
    }
    drain_events(s, true);
}

static void sleep_for(uint64_t ns)
{
    struct timespec t = {0, (long)ns};
    KB_ASSERT(ns < (uint64_t)KB_SECOND_NS);
    (void)nanosleep(&t, NULL);
}

/* Where events are not allowed. Samples of timers are taken while their process is likely to be there
 * still. */
static void poll_counters(ku_source *s)
{
    const uint64_t STEP_NS = 5 * (uint64_t)KB_MILLISECOND_NS; /* until the end is noticed */
    s->polling = (ku_polling){
        .records = &s->records, .pid = s->options.pid, .at_exec = s->options.at_exec};
    while (!kb_load_acquire(&s->ending)) {
        uint64_t until_ns = ku_polling_pass(&s->polling) + kb_monotonic_ns();
        if (s->options.progress_ns)
            ku_write_progress(&s->records, kb_ticks(s->records.writer.ticks_clock));
        for (uint64_t now_ns; !kb_load_acquire(&s->ending) && (now_ns = kb_monotonic_ns()) < until_ns;) {
            take_timed_samples(s);
            sleep_for(KB_MIN(until_ns - now_ns, STEP_NS));
        }
        limit_cost_of_samples(s);
    }
    take_timed_samples(s);
    (void)ku_polling_pass(&s->polling);
}

static void *run_reading_thread(void *context)
{
    ku_source *s = context;
    (void)pthread_setname_np(pthread_self(), "ckineto cpu");
    ku_writer_init(&s->records.writer, s->records.watched.pool, "cpu");
    if (s->events)
        read_events(s);
    else
        poll_counters(s);
    ku_write_open_threads(&s->records);
    ku_writer_finish(&s->records.writer);
    return NULL;
}

kineto_status ku_source_probe(bool *sees_kernel, kineto_error *err)
{
    ku_events *events;
    ku_events_options options = {.pid = kb_os_pid(), .stack_bytes = STACK_BYTES, .ring_bytes = 1};
    kineto_status status = ku_events_open(&options, &events, err);
    if (status)
        return status;
    *sees_kernel = ku_events_rights(events) == KU_RIGHTS_KERNEL;
    ku_events_close(events);
    return KINETO_OK;
}

/* Room for a second of samples, which a recorder may have to wait for a CPU on a busy machine; of switches there
 * may be thousands. */
static size_t choose_ring_bytes(const ku_source_options *o)
{
    uint32_t per_second = KB_MAX(o->hz, o->off_cpu || o->page_faults ? 4000u : 0u);
    size_t wanted = (size_t)per_second * (STACK_BYTES + 512), bytes = RING_BYTES;
    while (bytes < wanted && bytes * 2 * kb_os_cpus() <= RINGS_BYTES)
        bytes *= 2;
    return bytes;
}

static bool is_refused(kineto_status status)
{
    return status == KINETO_E_PERMISSION || status == KINETO_E_UNSUPPORTED;
}

kineto_status ku_source_create(const ku_source_options *options, const kf_pool *pool,
                               ku_source **out, kineto_error *err)
{
    ku_source *s = calloc(1, sizeof *s);
    *out = NULL;
    if (!s || !(s->unwinder = ku_unwinder_create())) {
        free(s);
        return kb_fail_memory(err, "source 'cpu'");
    }
    s->options = *options;
    s->records.watched.pool = pool;
    s->hz = options->hz;
    ku_events_options events = {.pid = options->pid,
                                .at_exec = options->at_exec,
                                .hz = options->hz,
                                .off_cpu = options->off_cpu,
                                .page_faults = options->page_faults,
                                .stack_bytes = STACK_BYTES,
                                .ring_bytes = choose_ring_bytes(options)};
    s->records.kinds = options->kinds;
    kineto_status status =
        options->timers ? KINETO_OK : ku_events_open(&events, &s->events, err);
    if (is_refused(status) && ku_polling_is_possible()) {
        memcpy(s->refusal, err->message, sizeof s->refusal - 1);
        s->records.kinds &= KINETO_KIND_BIT(KINETO_KIND_THREAD_STATE);
        status = KINETO_OK;
    }
    int failed = status ? 0 : kb_thread_start(&s->thread, run_reading_thread, s);
    if (failed)
        status = kb_fail_os(err, failed, "cannot start a thread that watches the program");
    s->is_running = status == KINETO_OK;
    if (status) {
        ku_source_destroy(s);
        return status;
    }
    *out = s;
    return KINETO_OK;
}

bool ku_source_sees_wakeups(const ku_source *s)
{
    return s->events && ku_events_sees_wakeups(s->events);
}

uint32_t ku_source_hz(const ku_source *s) { return kb_load_relaxed(&s->hz); }

bool ku_source_has_file(const ku_source *s, const char *beginning)
{
    KB_ASSERT(!s->is_running);
    return ku_watched_has_file(&s->records.watched, beginning);
}

uint64_t ku_source_without_timers(const ku_source *s)
{
    const ku_watched *w = &s->records.watched;
    uint64_t count = s->options.timers ? w->without_timers : 0;
    KB_ASSERT(!s->is_running);
    for (size_t i = 0; s->options.timers && i < w->process_list.count; i++)
        count += !w->process_list.data[i]->has_timers;
    return count;
}

const char *ku_source_refusal(const ku_source *s) { return s->events ? NULL : s->refusal; }

bool ku_source_sees_callers(const ku_source *s) { return s->events && ku_events_have_stacks(); }

bool ku_source_sees_off_cpu(const ku_source *s)
{
    return s->options.off_cpu && s->events && ku_events_rights(s->events) == KU_RIGHTS_KERNEL;
}

void ku_source_finish(ku_source *s)
{
    if (!s || !s->is_running)
        return;
    kb_store_release(&s->ending, 1u);
    pthread_join(s->thread, NULL);
    s->is_running = false;
}

void ku_source_destroy(ku_source *s)
{
    if (!s)
        return;
    ku_source_finish(s);
    ku_events_close(s->events);
    ku_unwinder_destroy(s->unwinder);
    ku_images_free(&s->images);
    ku_watched_free(&s->records.watched);
    kb_vec_free(&s->missed);
    kb_vec_free(&s->unsampled);
    free(s);
}

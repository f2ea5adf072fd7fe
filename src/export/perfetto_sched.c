/* States of threads for Perfetto: the events of the kernel's scheduler that they come of, so that
 * Perfetto shows its own rows of CPUs and of states. Threads that were not recorded are not known to
 * have run: their time on a CPU looks idle. Traces of several hosts, whose CPUs have equal numbers,
 * and tracks with other states keep their states as slices. */
#include "export/perfetto.h"

#define MAX_CPUS      1024u /* Perfetto reads no more */
#define BUNDLE_EVENTS 1024u
#define NORMAL_PRIO   120u /* of Linux' scheduler, for threads without a priority of their own */

/* ---- threads --------------------------------------------------------------------------------- */

/* The thread of a track; 0: out of memory, else its index + 1. */
static uint32_t find_watched(ke_perfetto *w, kb_map *by_thread, uint32_t track, uint32_t tid)
{
    uint32_t process = w->tracks[track].view.process;
    bool created;
    uint64_t *at = kb_map_insert(by_thread, (uint64_t)process << 32 | tid, w->watched.count + 1,
                                 &created);
    ke_pf_watched fresh = {.process = process, .tid = tid};
    if (!at)
        return 0;
    if (!created)
        return (uint32_t)*at;
    fresh.uuid = ++w->next_uuid;
    fresh.label = ke_cpu_thread_label(w->trace, track);
    return kb_vec_push(&w->watched, fresh) ? (uint32_t)*at : 0;
}

/* A thread that has a track of its own, with the ranges that it recorded, keeps that one. */
static void match_thread_track(ke_perfetto *w, kb_map *by_thread, const ke_pf_track *t)
{
    uint64_t *at = t->tid ? kb_map_find(by_thread, (uint64_t)t->view.process << 32 | (uint64_t)t->tid)
                          : NULL;
    if (!at)
        return;
    w->watched.data[*at - 1].uuid = t->uuid;
    w->watched.data[*at - 1].described = true;
}

static bool find_all_watched(ke_perfetto *w)
{
    uint32_t tid, count = kineto_trace_track_count(w->trace);
    kb_map by_thread = {0};
    bool ok = true;
    for (uint32_t i = 0; ok && i < count; i++) {
        ke_pf_track *t = &w->tracks[i];
        if (!w->processes[t->view.process].pid || ke_cpu_track(w->trace, i, &tid) == KE_CPU_ROW_NONE)
            continue;
        t->watched = find_watched(w, &by_thread, i, tid);
        ok = t->watched != 0;
    }
    for (uint32_t i = 0; ok && w->watched.count && i < count; i++)
        match_thread_track(w, &by_thread, &w->tracks[i]);
    kb_map_free(&by_thread);
    return ok;
}

/* ---- times on CPUs --------------------------------------------------------------------------- */

static bool is_one_host(const ke_perfetto *w)
{
    kineto_string host = {"", 0};
    for (size_t i = 0; i < w->watched.count; i++) {
        kineto_string other = w->processes[w->watched.data[i].process].view.host;
        if (i && !kb_string_equal(host, other))
            return false;
        host = other;
    }
    return true;
}

/* Can all states of a track be told by the scheduler's events? */
static bool has_only_states(const ke_perfetto *w, const ke_pf_track *t, const kineto_row *rows)
{
    if (t->view.lane_count != 1)
        return false;
    for (uint64_t i = 0; i < t->view.count; i++) {
        uint32_t cpu = 0;
        const kt_block *b = kt_block_at(w->trace, rows[i] / KT_BLOCK_ROWS);
        ke_state state = b->kind[rows[i] % KT_BLOCK_ROWS] == KINETO_KIND_THREAD_STATE &&
                                 b->form[rows[i] % KT_BLOCK_ROWS] == KINETO_FORM_SLICE
                             ? ke_state_of(w->trace, rows[i])
                             : KE_STATE_COUNT;
        if (state == KE_STATE_COUNT || b->start_ns[rows[i] % KT_BLOCK_ROWS] < 0 ||
            (state == KE_STATE_RUNNING && (!ke_state_cpu(w->trace, rows[i], &cpu) || cpu >= MAX_CPUS)))
            return false;
    }
    return true;
}

/* How a thread left its CPU follows from what it did then. */
static uint16_t left_state(const ke_perfetto *w, kineto_row row, const kineto_row *next)
{
    const kt_block *b = kt_block_at(w->trace, row / KT_BLOCK_ROWS);
    if (next)
        return ke_state_of(w->trace, *next) == KE_STATE_BLOCKED ? KE_PF_LEFT_BLOCKED
                                                                : KE_PF_LEFT_PREEMPTED;
    return b->flags[row % KT_BLOCK_ROWS] & KINETO_ACTIVITY_OPEN_END ? 0 : KE_PF_LEFT_ENDED;
}

static bool add_track_runs(ke_perfetto *w, const ke_pf_track *t, const kineto_row *rows)
{
    bool has_run = false;
    for (uint64_t i = 0; i < t->view.count; i++) {
        const kt_block *b = kt_block_at(w->trace, rows[i] / KT_BLOCK_ROWS);
        uint32_t at = rows[i] % KT_BLOCK_ROWS, cpu = 0;
        if (!ke_state_cpu(w->trace, rows[i], &cpu)) {
            w->first_states += !has_run && !ke_pf_state_is_slice(w, rows[i]);
            continue;
        }
        has_run = true;
        bool is_last = i + 1 == t->view.count;
        ke_pf_run r = {b->start_ns[at], b->end_ns[at], t->watched - 1, (uint16_t)cpu,
                       left_state(w, rows[i], is_last ? NULL : &rows[i + 1])};
        if (!kb_vec_push(&w->runs, r))
            return false;
    }
    return true;
}

static int compare_by_thread(const void *left, const void *right)
{
    const ke_pf_run *a = left, *b = right;
    return a->watched != b->watched ? KB_COMPARE(a->watched, b->watched)
                                    : KB_COMPARE(a->start_ns, b->start_ns);
}

static int compare_by_cpu(const void *left, const void *right)
{
    const ke_pf_run *a = left, *b = right;
    return a->cpu != b->cpu             ? KB_COMPARE(a->cpu, b->cpu)
           : a->start_ns != b->start_ns ? KB_COMPARE(a->start_ns, b->start_ns)
                                        : KB_COMPARE(a->watched, b->watched);
}

bool ke_pf_plan_sched(ke_perfetto *w)
{
    uint32_t tid;
    kb_clock_fit fit;
    if (!find_all_watched(w))
        return false;
    if (!w->watched.count || !is_one_host(w))
        return true;
    for (uint32_t i = 0; i < kineto_trace_track_count(w->trace); i++) {
        ke_pf_track *t = &w->tracks[i];
        const kineto_row *rows = kineto_trace_track_rows(w->trace, i);
        if (!t->watched || !t->view.count || ke_cpu_track(w->trace, i, &tid) != KE_CPU_ROW_STATE)
            continue;
        if (!rows)
            return false;
        t->is_sched = has_only_states(w, t, rows);
        if (t->is_sched && !add_track_runs(w, t, rows))
            return false;
    }
    if (w->runs.count)
        qsort(w->runs.data, w->runs.count, sizeof *w->runs.data, compare_by_thread);
    if (kt_clock_fit(w->trace, &fit) && fit.realtime_minus_boottime_ns < w->base_ns)
        w->realtime_minus_boottime_ns = fit.realtime_minus_boottime_ns;
    return true;
}

bool ke_pf_state_is_slice(const ke_perfetto *w, kineto_row row)
{
    kineto_arg arg;
    if (w->flow_first && w->flow_first[row + 1] > w->flow_first[row])
        return true;
    return ke_state_of(w->trace, row) == KE_STATE_BLOCKED &&
           (kineto_args_find(w->trace, row, "in", &arg) ||
            kineto_args_find(w->trace, row, "Call stack", &arg));
}

bool ke_pf_cpu_at(const ke_perfetto *w, uint32_t watched, int64_t ns, uint32_t *cpu)
{
    size_t at = 0;
    KB_LOWER_BOUND(at, w->runs.count,
                   w->runs.data[at].watched < watched ||
                       (w->runs.data[at].watched == watched && w->runs.data[at].end_ns < ns));
    if (at == w->runs.count || w->runs.data[at].watched != watched || w->runs.data[at].start_ns > ns)
        return false;
    *cpu = w->runs.data[at].cpu;
    return true;
}

/* ---- events ---------------------------------------------------------------------------------- */

/* The bundle that is being written: events of one CPU. */
typedef struct sched_bundle {
    size_t packet, bundle;
    uint32_t events; /* 0: not begun */
} sched_bundle;

static void end_sched_bundle(ke_perfetto *w, sched_bundle *s)
{
    if (!s->events)
        return;
    ke_proto_end(&w->packets, s->bundle);
    ke_pf_end_packet(w, s->packet);
    w->all.records++;
    s->events = 0;
}

static void put_switch_end(ke_perfetto *w, uint32_t field, const ke_pf_run *r)
{
    /* comm, pid and prio of the thread that leaves the CPU have the numbers 1 to 3, of the next one 5
     * to 7. Without a run it is the idle thread. */
    if (r) {
        const ke_pf_watched *t = &w->watched.data[r->watched];
        kineto_string name = ke_cpu_thread_name(&t->label);
        if (name.size)
            ke_proto_string(&w->packets, field, name);
        ke_proto_uint(&w->packets, field + 1, (uint64_t)t->tid);
    } else {
        ke_proto_string(&w->packets, field, kb_string("swapper"));
        ke_proto_uint(&w->packets, field + 1, 0);
    }
    ke_proto_uint(&w->packets, field + 2, NORMAL_PRIO);
}

/* One thread leaves the CPU, the other one runs on it from then on. */
static void put_switch(ke_perfetto *w, sched_bundle *s, uint32_t cpu, int64_t ns,
                       const ke_pf_run *from, const ke_pf_run *to)
{
    if (s->events == BUNDLE_EVENTS)
        end_sched_bundle(w, s);
    if (!s->events) {
        s->packet = ke_pf_begin_packet(w);
        s->bundle = ke_proto_begin(&w->packets, KE_PF_PACKET_FTRACE);
        ke_proto_uint(&w->packets, KE_PF_FTRACE_CPU, cpu);
    }
    s->events++;
    size_t event = ke_proto_begin(&w->packets, KE_PF_FTRACE_EVENT);
    ke_proto_uint(&w->packets, KE_PF_FTRACE_TIMESTAMP,
                  (uint64_t)(ns - w->realtime_minus_boottime_ns));
    ke_proto_uint(&w->packets, KE_PF_FTRACE_PID,
                  from ? (uint64_t)w->watched.data[from->watched].tid : 0);
    size_t payload = ke_proto_begin(&w->packets, KE_PF_FTRACE_SWITCH);
    put_switch_end(w, KE_PF_SWITCH_PREV_COMM, from);
    ke_proto_uint(&w->packets, KE_PF_SWITCH_PREV_STATE, from ? from->left : 0);
    put_switch_end(w, KE_PF_SWITCH_NEXT_COMM, to);
    ke_proto_end(&w->packets, payload);
    ke_proto_end(&w->packets, event);
}

/* The switches of one CPU. Runs that overlap, because clocks are not exact, begin where the one
 * before ends. */
static void write_cpu_switches(ke_perfetto *w, const ke_pf_run *runs, size_t count)
{
    const ke_pf_run *last = NULL;
    sched_bundle s = {0};
    int64_t at = INT64_MIN;
    for (size_t i = 0; i < count; i++) {
        int64_t start = KB_MAX(runs[i].start_ns, at);
        if (last && start > at)
            put_switch(w, &s, runs[i].cpu, at, last, NULL);
        put_switch(w, &s, runs[i].cpu, start, last && start == at ? last : NULL, &runs[i]);
        last = &runs[i];
        at = KB_MAX(runs[i].end_ns, start);
    }
    if (last && last->left)
        put_switch(w, &s, last->cpu, at, last, NULL);
    end_sched_bundle(w, &s);
}

void ke_pf_write_sched(ke_perfetto *w)
{
    size_t first = 0;
    for (size_t i = 0; i < w->watched.count; i++)
        if (!w->watched.data[i].described)
            ke_pf_describe_watched(w, (uint32_t)i);
    if (!w->runs.count)
        return;
    w->sequence++;
    qsort(w->runs.data, w->runs.count, sizeof *w->runs.data, compare_by_cpu);
    for (size_t i = 1; i <= w->runs.count; i++)
        if (i == w->runs.count || w->runs.data[i].cpu != w->runs.data[first].cpu) {
            write_cpu_switches(w, w->runs.data + first, i - first);
            first = i;
        }
    qsort(w->runs.data, w->runs.count, sizeof *w->runs.data, compare_by_thread);
}

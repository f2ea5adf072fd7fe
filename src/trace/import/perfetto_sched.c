/* The scheduler's events of a Perfetto trace as rows of thread states, as ckineto's own source "cpu" makes them:
 * running, waiting for a CPU, blocked. */
#include "trace/import/perfetto_read.h"

/* Fields of messages: a bundle of a CPU, its events, switches, wakes, and the columns of the compact form. */
enum {
    BUNDLE_CPU = 1, BUNDLE_EVENT = 2, BUNDLE_COMPACT = 4, BUNDLE_OWN_TIME = 6, BUNDLE_BOOT_TIME = 7,
    FTRACE_TIME = 1, FTRACE_PID = 2, FTRACE_SWITCH = 4, FTRACE_WAKEUP = 17, FTRACE_WAKING = 20, FTRACE_WAKEUP_NEW = 114,
    SWITCH_PREV_COMM = 1, SWITCH_PREV_PID = 2, SWITCH_PREV_STATE = 4, SWITCH_NEXT_COMM = 5, SWITCH_NEXT_PID = 6,
    WAKING_PID = 2,
    COMPACT_TIME = 1, COMPACT_STATE = 2, COMPACT_NEXT = 3, COMPACT_TEXTS = 5, COMPACT_COMM = 6, COMPACT_WAKING_TIME = 7,
    COMPACT_WAKING_PID = 8
};
#define MAX_CPUS 65536u

/* ---- collecting ------------------------------------------------------------------------------- */

/* Times that no clock can express are counted. States are made later, in the order of time: bundles of CPUs overlap. */
static void add_switch(kt_perfetto *p, pf_switch s, uint64_t ticks, int64_t offset)
{
    int64_t time;
    if (ticks > INT64_MAX || __builtin_add_overflow((int64_t)ticks, offset, &time) || time < 0 ||
        !pf_clocks_convert(p, 0, PF_CLOCK_BOOTTIME, (uint64_t)time, &s.ns)) {
        p->bad_events++;
        return;
    }
    s.order = (uint32_t)p->switches.count;
    p->no_memory |= p->switches.count >= PF_NONE || !kb_vec_push(&p->switches, s);
}

/* Who leaves the CPU, how, and who gets it. Priorities are not kept. */
static void read_switch(kt_perfetto *p, kineto_string bytes, pf_switch *s)
{
    kt_wire w = kt_wire_of(bytes);
    kt_field f;
    while (kt_wire_next(&w, &f)) {
        if (f.id == SWITCH_PREV_COMM && f.wire == KT_WIRE_BYTES)
            s->prev_name = kt_string(p->m.b, f.bytes);
        else if (f.id == SWITCH_NEXT_COMM && f.wire == KT_WIRE_BYTES)
            s->next_name = kt_string(p->m.b, f.bytes);
        else if (f.wire != KT_WIRE_VARINT)
            continue;
        else if (f.id == SWITCH_PREV_PID)
            s->prev = (int32_t)f.n;
        else if (f.id == SWITCH_NEXT_PID)
            s->next = (int32_t)f.n;
        else if (f.id == SWITCH_PREV_STATE)
            s->prev_state = (int64_t)f.n;
    }
}

/* sched_waking is written by the waker; the other events of this form are not, so that the waker is unknown. */
static void read_waking(kineto_string bytes, int64_t waker, pf_switch *s)
{
    kt_wire w = kt_wire_of(bytes);
    kt_field f;
    s->is_wake = 1;
    s->prev = waker;
    while (kt_wire_next(&w, &f))
        if (kt_field_is(&f, WAKING_PID, KT_WIRE_VARINT))
            s->next = (int32_t)f.n;
}

/* Events of other types are counted by number. */
static void read_ftrace_event(kt_perfetto *p, kineto_string bytes, uint32_t cpu, int64_t offset)
{
    kt_wire w = kt_wire_of(bytes);
    kt_field f;
    uint64_t ticks = 0;
    int64_t pid = 0;
    pf_switch s = {.cpu = cpu};
    bool is_read = false;
    while (kt_wire_next(&w, &f)) {
        if (kt_field_is(&f, FTRACE_TIME, KT_WIRE_VARINT))
            ticks = f.n;
        else if (kt_field_is(&f, FTRACE_PID, KT_WIRE_VARINT))
            pid = (int32_t)f.n;
        else if (f.wire == KT_WIRE_BYTES && f.id == FTRACE_SWITCH) {
            read_switch(p, f.bytes, &s);
            is_read = true;
        } else if (f.wire == KT_WIRE_BYTES &&
                   (f.id == FTRACE_WAKING || f.id == FTRACE_WAKEUP || f.id == FTRACE_WAKEUP_NEW)) {
            read_waking(f.bytes, f.id == FTRACE_WAKING ? pid : 0, &s);
            is_read = true;
        } else if (f.wire == KT_WIRE_BYTES)
            pf_count_unread(p, &p->unread_ftrace, f.id);
    }
    if (is_read)
        add_switch(p, s, ticks, offset);
}

/* A column of the compact form. */
typedef struct compact_column {
    kt_wire list;
} compact_column;

/* 0 after the end of a column that is shorter than the others. */
static uint64_t next_number(compact_column *c)
{
    uint64_t n = 0;
    (void)kt_wire_item(&c->list, &n);
    return n;
}

/* Texts are few, and each is looked up once for a bundle. */
static kineto_string compact_text(kineto_string compact, uint64_t index)
{
    kt_wire w = kt_wire_of(compact);
    kt_field f;
    while (kt_wire_next(&w, &f))
        if (kt_field_is(&f, COMPACT_TEXTS, KT_WIRE_BYTES) && index-- == 0)
            return f.bytes;
    return (kineto_string){"", 0};
}

/* Times are differences to the one before; the thread that leaves is the one that runs. */
static void read_compact(kt_perfetto *p, kineto_string compact, uint32_t cpu, int64_t offset)
{
    compact_column columns[COMPACT_WAKING_PID + 1] = {0};
    kt_wire w = kt_wire_of(compact);
    kt_field f;
    while (kt_wire_next(&w, &f))
        if (f.wire == KT_WIRE_BYTES && f.id <= COMPACT_WAKING_PID && f.id != COMPACT_TEXTS)
            columns[f.id].list = kt_wire_of(f.bytes);
    uint32_t names[64];
    for (size_t i = 0; i < KB_COUNT(names); i++)
        names[i] = PF_NONE;
    uint64_t ticks = 0, n;
    while (kt_wire_item(&columns[COMPACT_TIME].list, &n)) {
        uint64_t text = next_number(&columns[COMPACT_COMM]);
        ticks += n;
        if (text < KB_COUNT(names) && names[text] == PF_NONE)
            names[text] = kt_string(p->m.b, compact_text(compact, text));
        pf_switch s = {.cpu = cpu, .is_compact = 1};
        s.prev_state = (int64_t)next_number(&columns[COMPACT_STATE]);
        s.next = (int32_t)next_number(&columns[COMPACT_NEXT]);
        s.next_name = text < KB_COUNT(names) ? names[text] : 0;
        add_switch(p, s, ticks, offset);
    }
    ticks = 0;
    while (kt_wire_item(&columns[COMPACT_WAKING_TIME].list, &n)) {
        ticks += n;
        pf_switch s = {.cpu = cpu, .is_wake = 1, .next = (int32_t)next_number(&columns[COMPACT_WAKING_PID])};
        add_switch(p, s, ticks, offset);
    }
}

/* The CPU and the clock may come after the events, so that they are read first. */
void pf_read_ftrace(kt_perfetto *p, const pf_packet *packet, kineto_string bundle)
{
    kt_wire w = kt_wire_of(bundle);
    kt_field f;
    uint64_t cpu = 0, own = 0, boot = 0;
    (void)packet;
    while (kt_wire_next(&w, &f)) {
        cpu = kt_field_is(&f, BUNDLE_CPU, KT_WIRE_VARINT) ? f.n : cpu;
        own = kt_field_is(&f, BUNDLE_OWN_TIME, KT_WIRE_VARINT) ? f.n : own;
        boot = kt_field_is(&f, BUNDLE_BOOT_TIME, KT_WIRE_VARINT) ? f.n : boot;
    }
    if (cpu >= MAX_CPUS || w.is_bad) {
        p->bad_packets++;
        return;
    }
    int64_t offset = own && boot ? (int64_t)(boot - own) : 0;
    w = kt_wire_of(bundle);
    while (kt_wire_next(&w, &f) && !p->no_memory) {
        if (kt_field_is(&f, BUNDLE_EVENT, KT_WIRE_BYTES))
            read_ftrace_event(p, f.bytes, (uint32_t)cpu, offset);
        else if (kt_field_is(&f, BUNDLE_COMPACT, KT_WIRE_BYTES))
            read_compact(p, f.bytes, (uint32_t)cpu, offset);
    }
}

/* ---- states ----------------------------------------------------------------------------------- */

/* At one moment in the order of the file. */
static int compare_switches(const void *left, const void *right)
{
    const pf_switch *a = left, *b = right;
    return a->ns != b->ns ? KB_COMPARE(a->ns, b->ns) : KB_COMPARE(a->order, b->order);
}

/* PF_NONE: the idle thread, or out of memory. */
static uint32_t find_thread(kt_perfetto *p, int64_t tid, uint32_t name)
{
    bool created;
    uint64_t *at = tid > 0 ? kb_map_insert(&p->thread_of_tid, (uint64_t)tid, p->threads.count, &created) : NULL;
    pf_thread fresh = {.track = PF_NONE, .tid = tid, .out_ns = INT64_MIN, .wake_ns = INT64_MIN};
    if (!at)
        return PF_NONE;
    if (created && !kb_vec_push(&p->threads, fresh)) {
        p->no_memory = true;
        return PF_NONE;
    }
    pf_thread *t = &p->threads.data[*at];
    t->name = name ? name : t->name;
    return (uint32_t)*at;
}

/* The row of its states, with the name that ckineto's own have. */
static uint32_t find_state_track(kt_perfetto *p, pf_thread *t)
{
    char text[160];
    if (t->track != PF_NONE)
        return t->track;
    const uint64_t *pid = kb_map_find(&p->tgid_of_tid, (uint64_t)t->tid);
    uint32_t process = kt_process(p->m.b, false, pid ? (int64_t)*pid : t->tid, 0);
    kineto_string name = kineto_trace_string(p->m.b->trace, t->name);
    kb_snprintf(text, sizeof text, "state %lld", (long long)t->tid);
    t->track = kt_track_text(p->m.b, process, kb_string(text));
    kb_snprintf(text, sizeof text, name.size ? "thread %lld (%.*s): state" : "thread %lld%.*s: state", (long long)t->tid,
                (int)KB_MIN(name.size, (size_t)100), name.size ? name.data : "");
    if (!p->is_own)
        kt_track_set(p->m.b, t->track, kb_string(text), t->tid);
    if (!pid && name.size)
        kt_import_name_process(&p->m, t->tid, name);
    return t->track;
}

/* A state that the file also has as a slice with arguments is not made twice. */
static bool is_slice_already(const kt_perfetto *p, uint32_t track, int64_t start_ns)
{
    uint64_t key[] = {track, (uint64_t)start_ns};
    return p->is_own && kb_map_find(&p->own_states, kb_hash(key, sizeof key));
}

/* States without a length are left out; the arguments that were staged for one are dropped with it. */
static void append_state(kt_perfetto *p, pf_thread *t, const char *name, int64_t start_ns, int64_t end_ns, uint32_t flags)
{
    kt_row row = {.start_ns = start_ns, .end_ns = end_ns, .track = find_state_track(p, t), .flags = flags,
                  .kind = KINETO_KIND_THREAD_STATE, .form = KINETO_FORM_SLICE, .name = kt_string(p->m.b, kb_string(name))};
    if (start_ns < end_ns && !is_slice_already(p, row.track, start_ns))
        (void)kt_append(p->m.b, &row);
    p->m.b->staged.count = 0;
}

/* A time on a CPU, with its number. */
static void append_run(kt_perfetto *p, uint32_t thread, uint32_t cpu, int64_t start_ns, int64_t end_ns, uint32_t flags)
{
    if (thread == PF_NONE)
        return;
    kt_args_put_number(p->m.b, kt_string(p->m.b, kb_string("cpu")), cpu);
    append_state(p, &p->threads.data[thread], "running", start_ns, end_ns, flags);
}

/* The waker is known only where the event tells it. */
static void append_waiting(kt_perfetto *p, pf_thread *t, int64_t start_ns, int64_t end_ns)
{
    char text[48];
    if (t->waker > 0) {
        kb_snprintf(text, sizeof text, "thread %lld", (long long)t->waker);
        kt_args_put_string(p->m.b, kt_string(p->m.b, kb_string("woken by")), kb_string(text));
    }
    append_state(p, t, "waiting for a CPU", start_ns, end_ns, 0);
}

/* What a thread did since it left its CPU: it waited for one, or was blocked until it was woken. */
static void append_time_off_cpu(kt_perfetto *p, uint32_t thread, int64_t now_ns)
{
    pf_thread *t = thread == PF_NONE ? NULL : &p->threads.data[thread];
    if (!t || t->out_ns == INT64_MIN)
        return;
    bool is_woken = !t->is_runnable && t->wake_ns >= t->out_ns && t->wake_ns <= now_ns;
    int64_t runnable_ns = t->is_runnable ? t->out_ns : is_woken ? t->wake_ns : now_ns;
    t->waker = is_woken ? t->waker : 0;
    append_state(p, t, "blocked", t->out_ns, runnable_ns, 0);
    append_waiting(p, t, runnable_ns, now_ns);
    t->wake_ns = INT64_MIN;
    t->waker = 0;
}

/* CPUs are added when they are first seen; their number is bounded. */
static bool grow_cpus(kt_perfetto *p, uint32_t cpu)
{
    while (p->cpus.count <= cpu)
        if (!kb_vec_push(&p->cpus, (pf_cpu){.since_ns = INT64_MIN, .thread = PF_NONE})) {
            p->no_memory = true;
            return false;
        }
    return true;
}

/* State 0, and flags above the first eight bits only: it could go on. */
static bool is_runnable_state(int64_t state) { return (state & 0xff) == 0; }

/* The time of the thread that leaves is known only if its begin was recorded on this CPU. */
static void apply_switch(kt_perfetto *p, const pf_switch *s)
{
    enum { ENDED = 0x10, DEAD = 0x20 };
    pf_cpu *cpu = &p->cpus.data[s->cpu];
    uint32_t prev = s->is_compact ? cpu->thread : find_thread(p, s->prev, s->prev_name);
    uint32_t next = find_thread(p, s->next, s->next_name);
    if (cpu->thread == prev && cpu->since_ns != INT64_MIN)
        append_run(p, prev, s->cpu, cpu->since_ns, s->ns, 0);
    if (prev != PF_NONE) {
        pf_thread *t = &p->threads.data[prev];
        t->out_ns = s->prev_state & (ENDED | DEAD) ? INT64_MIN : s->ns;
        t->is_runnable = is_runnable_state(s->prev_state);
    }
    append_time_off_cpu(p, next, s->ns);
    *cpu = (pf_cpu){.since_ns = s->ns, .thread = next};
}

/* The first wake since it left its CPU counts; further ones change nothing. */
static void apply_wake(kt_perfetto *p, const pf_switch *s)
{
    uint32_t thread = find_thread(p, s->next, 0);
    pf_thread *t = thread == PF_NONE ? NULL : &p->threads.data[thread];
    if (!t || t->wake_ns != INT64_MIN)
        return;
    t->wake_ns = s->ns;
    t->waker = s->prev;
}

/* What still runs at the end is flagged as open. */
void pf_make_states(kt_perfetto *p)
{
    int64_t last_ns = INT64_MIN;
    if (!p->switches.count)
        return;
    qsort(p->switches.data, p->switches.count, sizeof *p->switches.data, compare_switches);
    for (size_t i = 0; i < p->switches.count && !p->no_memory; i++) {
        const pf_switch *s = &p->switches.data[i];
        last_ns = s->ns;
        if (s->is_wake)
            apply_wake(p, s);
        else if (grow_cpus(p, s->cpu))
            apply_switch(p, s);
    }
    for (uint32_t i = 0; i < p->cpus.count; i++)
        if (p->cpus.data[i].since_ns != INT64_MIN)
            append_run(p, p->cpus.data[i].thread, i, p->cpus.data[i].since_ns, last_ns, KINETO_ACTIVITY_OPEN_END);
}

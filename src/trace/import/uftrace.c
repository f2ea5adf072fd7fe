/* The text of `uftrace dump` as a trace: functions as ranges, and, from the switches that uftrace records
 * with them, states of threads. The text has a section for each thread, then one for each CPU. */
#include "trace/import/import.h"
#include "trace/import/text_line.h"
#include "trace/import/timeline.h"
#include "trace/from_recording/build_watched.h"

#define MAX_DEPTH 1024u

/* A function that has not returned. */
typedef struct entered_function {
    uint32_t name;
    uint64_t start_ns;
} entered_function;

typedef struct switch_event {
    uint64_t time_ns;
    uint32_t tid;
    bool is_in, is_preempted;
} switch_event;

/* A line about a thread: "1278.663550296  25280: [entry] main(56004e24e373) depth: 0". */
typedef struct dump_line {
    uint64_t time_ns;
    uint32_t tid;
    kineto_string what, name; /* what: "[entry]", "[exit" … */
} dump_line;

typedef struct uftrace_import {
    kt_timeline timeline;
    uint32_t first_tid, tid; /* tid: whose functions are open; 0: none yet */
    entered_function open[MAX_DEPTH];
    uint32_t depth;
    uint64_t first_ns, last_ns;
    uint64_t too_deep, without_begin, lost;
    KB_VEC(switch_event) switches;
} uftrace_import;

/* "main(56004e24e373) depth: 0": the name ends before the last bracket that opens a number. */
static kineto_string cut_function_name(kineto_string text)
{
    kineto_string rest = text;
    size_t size = text.size;
    for (const char *at; (at = memchr(rest.data, '(', rest.size)) != NULL;) {
        size = (size_t)(at - text.data);
        rest = kb_string_skip(text, size + 1);
        if (rest.size && kb_is_hex_digit(rest.data[0]))
            break;
    }
    return (kineto_string){text.data, size};
}

static bool parse_dump_line(kineto_string line, dump_line *out)
{
    out->time_ns = kt_line_time(kt_line_word(&line));
    kineto_string tid = kt_line_word(&line);
    if (out->time_ns == KT_NO_NUMBER || tid.size < 2 || tid.data[tid.size - 1] != ':')
        return false;
    tid.size--;
    uint64_t number = kt_line_number(tid);
    line = kt_line_trim(line);
    const char *end = line.size ? memchr(line.data, ']', line.size) : NULL;
    if (number == 0 || number > INT32_MAX || !end || line.data[0] != '[')
        return false;
    out->tid = (uint32_t)number;
    out->what = (kineto_string){line.data, (size_t)(end - line.data) + 1};
    out->name = cut_function_name(kt_line_trim(kb_string_skip(line, out->what.size)));
    return true;
}

/* ---- functions ------------------------------------------------------------------------------- */

/* The text does not say to which process a thread belongs: all are shown in the first one's. */
static kt_timeline_thread *find_dumped_thread(uftrace_import *u, const dump_line *line)
{
    u->first_tid = u->first_tid ? u->first_tid : line->tid;
    return kt_timeline_find_thread(&u->timeline, u->first_tid, line->tid, line->time_ns);
}

static void append_function(uftrace_import *u, const entered_function *f, uint64_t end_ns,
                            bool is_open)
{
    kt_build_state *s = u->timeline.s;
    kt_row row = {.kind = KINETO_KIND_USER_ANNOTATION,
                  .form = KINETO_FORM_SLICE,
                  .flags = KT_WRITER(1) | (is_open ? KINETO_ACTIVITY_OPEN_END : 0),
                  .name = f->name,
                  .track = kt_build_thread_track(s)};
    if (kt_build_place(s, f->start_ns, KB_MAX(end_ns, f->start_ns), false, &row))
        (void)kt_append(s->b, &row);
}

static void close_functions(uftrace_import *u)
{
    while (u->depth) {
        u->depth--;
        if (u->depth < MAX_DEPTH)
            append_function(u, &u->open[u->depth], u->last_ns, true);
    }
}

/* Makes the thread of a line the one whose functions are read. */
static bool select_dumped_thread(uftrace_import *u, const dump_line *line)
{
    if (u->tid == line->tid)
        return true;
    close_functions(u);
    kt_timeline_thread *thread = find_dumped_thread(u, line);
    if (!thread)
        return false;
    u->tid = line->tid;
    u->timeline.s->here_thread = thread->index;
    u->timeline.s->here = kt_timeline_process_of(&u->timeline, thread)->index;
    return true;
}

static void enter_function(uftrace_import *u, const dump_line *line)
{
    if (u->depth < MAX_DEPTH)
        u->open[u->depth] = (entered_function){kt_string(u->timeline.s->b, line->name),
                                               line->time_ns};
    else
        u->too_deep++;
    u->depth++;
}

static void leave_function(uftrace_import *u, const dump_line *line)
{
    if (!u->depth) {
        u->without_begin++;
        return;
    }
    u->depth--;
    if (u->depth < MAX_DEPTH)
        append_function(u, &u->open[u->depth], line->time_ns, false);
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* "linux:sched-out" or "linux:sched-out (pre-empted)". */
static void add_switch(uftrace_import *u, const dump_line *line)
{
    switch_event e = {line->time_ns, line->tid, kb_string_starts_with(line->name, "linux:sched-in"),
                      kb_string_contains(line->name, "pre-empted")};
    if (!e.is_in && !kb_string_starts_with(line->name, "linux:sched-out"))
        return;
    u->timeline.s->out_of_memory |= !kb_vec_push(&u->switches, e);
}

static void apply_dump_line(uftrace_import *u, const dump_line *line)
{
    u->first_ns = KB_MIN(u->first_ns, line->time_ns);
    if (kb_string_is(line->what, "[event]")) {
        add_switch(u, line);
        return;
    }
    bool is_entry = kb_string_is(line->what, "[entry]");
    if (!is_entry && !kb_string_starts_with(line->what, "[exit")) {
        u->lost += kb_string_starts_with(line->what, "[lost");
        return;
    }
    if (!select_dumped_thread(u, line))
        return;
    u->last_ns = KB_MAX(u->last_ns, line->time_ns);
    if (is_entry)
        enter_function(u, line);
    else
        leave_function(u, line);
}

static int compare_switches(const void *left, const void *right)
{
    const switch_event *a = left, *b = right;
    return a->time_ns != b->time_ns ? KB_COMPARE(a->time_ns, b->time_ns)
                                    : KB_COMPARE(a->is_in, b->is_in);
}

/* Of threads that have functions: others are of uftrace itself. */
static void apply_switches(uftrace_import *u)
{
    u->timeline.has_states = u->switches.count != 0;
    if (u->switches.count)
        qsort(u->switches.data, u->switches.count, sizeof *u->switches.data, compare_switches);
    for (size_t i = 0; i < u->switches.count; i++) {
        const switch_event *e = &u->switches.data[i];
        kt_timeline_thread *thread = kt_timeline_known_thread(&u->timeline, e->tid);
        u->last_ns = KB_MAX(u->last_ns, e->time_ns);
        if (thread && e->is_in)
            kt_timeline_switch_in(thread, 0, e->time_ns);
        else if (thread)
            kt_timeline_switch_out(&u->timeline, thread, e->is_preempted, e->time_ns);
    }
}

/* ---- the trace ------------------------------------------------------------------------------- */

static void add_dump_line_to_ledger(uftrace_import *u, const char *reason, uint64_t count)
{
    if (count)
        kt_ledger_add(u->timeline.s->b, kb_string("uftrace"), kb_string(reason), count, true,
                      kb_string(""));
}

static kineto_status build_dump_trace(uftrace_import *u, kineto_trace **out, kineto_error *err)
{
    kt_build_state *s = u->timeline.s;
    close_functions(u);
    apply_switches(u);
    kt_timeline_finish(&u->timeline, u->last_ns);
    kt_build_thread_states(s);
    kt_build_name_threads(s);
    if (u->first_ns <= u->last_ns)
        kt_window(s->b, (int64_t)u->first_ns, (int64_t)u->last_ns);
    add_dump_line_to_ledger(u, "functions deeper than 1024 calls", u->too_deep);
    add_dump_line_to_ledger(u, "end without a begin", u->without_begin);
    add_dump_line_to_ledger(u, "records lost by uftrace", u->lost);
    return s->out_of_memory ? kb_fail_memory(err, "uftrace dump")
                            : kt_builder_finish(s->b, out, err);
}

bool kt_is_uftrace_dump(kineto_string head)
{
    return kb_string_starts_with(head, "uftrace file header: magic");
}

kineto_status kt_import_uftrace_dump(kineto_string bytes, kineto_trace **out, kineto_error *err)
{
    uftrace_import *u = calloc(1, sizeof *u);
    kineto_string line;
    dump_line parsed;
    kineto_status status = u ? kt_timeline_create(&u->timeline, err)
                             : kb_fail_memory(err, "uftrace dump");
    if (!status) {
        u->first_ns = UINT64_MAX;
        while (kt_line_next(&bytes, &line) && !u->timeline.s->out_of_memory)
            if (parse_dump_line(line, &parsed))
                apply_dump_line(u, &parsed);
        status = build_dump_trace(u, out, err);
        kt_timeline_free(&u->timeline);
        kb_vec_free(&u->switches);
    }
    free(u);
    return status;
}

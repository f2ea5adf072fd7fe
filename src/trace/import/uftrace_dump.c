/* The text of `uftrace dump` as a trace: functions as ranges, and, from the switches that uftrace records
 * with them, states of threads. The text has a section for each thread, then one for each CPU. */
#include "trace/import/import.h"
#include "trace/import/text_line.h"
#include "trace/import/uftrace_calls.h"

/* A line about a thread: "1278.663550296  25280: [entry] main(56004e24e373) depth: 0". */
typedef struct dump_line {
    uint64_t time_ns;
    uint32_t tid;
    kineto_string what, name; /* what: "[entry]", "[exit" … */
    uint32_t depth;           /* KT_NONE: unknown */
} dump_line;

typedef struct uftrace_import {
    kt_uftrace_calls calls;
    uint32_t first_tid;
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

/* "… depth: 3"; KT_NONE: the line does not end so. */
static uint32_t find_depth(kineto_string text)
{
    static const char key[] = " depth: ";
    const char *at = memmem(text.data, text.size, key, sizeof key - 1);
    uint64_t depth = KT_NO_NUMBER;
    if (at)
        depth = kt_line_number(kb_string_skip(text, (size_t)(at - text.data) + sizeof key - 1));
    return depth < KT_NONE ? (uint32_t)depth : KT_NONE;
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
    line = kt_line_trim(kb_string_skip(line, out->what.size));
    out->name = cut_function_name(line);
    out->depth = find_depth(kb_string_skip(line, out->name.size));
    return true;
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* The text does not say to which process a thread belongs: all are shown in the first one's. */
static bool select_dumped_thread(uftrace_import *u, const dump_line *line)
{
    u->first_tid = u->first_tid ? u->first_tid : line->tid;
    kt_timeline_thread *thread = kt_timeline_find_thread(&u->calls.timeline, u->first_tid, line->tid,
                                                         line->time_ns);
    if (thread)
        kt_uftrace_select(&u->calls, thread);
    return thread != NULL;
}

/* "linux:sched-out" or "linux:sched-out (pre-empted)". */
static void add_switch(uftrace_import *u, const dump_line *line)
{
    kt_uftrace_event e = {.time_ns = line->time_ns, .tid = line->tid};
    bool is_out = kb_string_starts_with(line->name, "linux:sched-out");
    if (!is_out && !kb_string_starts_with(line->name, "linux:sched-in"))
        return;
    e.what = !is_out                                         ? KT_UFTRACE_SWITCH_IN
             : kb_string_contains(line->name, "pre-empted") ? KT_UFTRACE_PREEMPTED
                                                             : KT_UFTRACE_SWITCH_OUT;
    kt_uftrace_add_event(&u->calls, e);
}

static void apply_dump_line(uftrace_import *u, const dump_line *line)
{
    bool is_entry = kb_string_is(line->what, "[entry]");
    if (kb_string_is(line->what, "[event]"))
        add_switch(u, line);
    u->calls.lost += kb_string_starts_with(line->what, "[lost");
    if ((!is_entry && !kb_string_starts_with(line->what, "[exit")) || line->depth == KT_NONE ||
        !select_dumped_thread(u, line))
        return;
    uint32_t name = kt_string(u->calls.timeline.s->b, line->name);
    if (is_entry)
        kt_uftrace_enter(&u->calls, name, line->depth, line->time_ns);
    else
        kt_uftrace_leave(&u->calls, name, line->depth, line->time_ns);
}

bool kt_is_uftrace_dump(kineto_string head)
{
    return kb_string_starts_with(head, "uftrace file header: magic");
}

kineto_status kt_import_uftrace_dump(const kt_import_source *source, kineto_trace **out, kineto_error *err)
{
    uftrace_import *u = calloc(1, sizeof *u);
    kineto_string bytes = source->bytes, line;
    dump_line parsed;
    kineto_status status = u ? kt_uftrace_create(&u->calls, err) : kb_fail_memory(err, "uftrace dump");
    if (!status) {
        kt_build_state *s = u->calls.timeline.s;
        while (kt_line_next(&bytes, &line) && !s->out_of_memory)
            if (parse_dump_line(line, &parsed))
                apply_dump_line(u, &parsed);
        kt_uftrace_finish(&u->calls);
        status = s->out_of_memory ? kb_fail_memory(err, "uftrace dump")
                                  : kt_builder_finish(s->b, out, err);
        kt_uftrace_free(&u->calls);
    }
    free(u);
    return status;
}

/* The text of `perf script` as a trace. A sample is a line
 *
 *    COMM  PID/TID [CPU] SECONDS: PERIOD EVENT: ...
 *
 * of which CPU, PERIOD and EVENT may be missing, and the number of the process; the frames of its stack
 * follow, the innermost first, one a line, up to an empty line:
 *
 *    ADDRESS SYMBOL+OFFSET (FILE) */
#include "trace/import/import.h"
#include "trace/import/text_line.h"
#include "trace/import/timeline.h"
#include "trace/from_recording/build_watched.h"

#define MAX_SCRIPT_FRAMES 1024u
#define MAX_EVENTS        64u

/* The first line of a sample. */
typedef struct script_line {
    kineto_string comm, event; /* event: without its colon; empty: not stated */
    uint32_t pid, tid, cpu;
    uint64_t time_ns, period; /* period: KT_NO_NUMBER: not stated */
    kineto_string rest;
} script_line;

typedef struct script_event {
    kineto_string name;
    uint64_t samples;
} script_event;

typedef struct script_import {
    kt_timeline timeline;
    script_event events[MAX_EVENTS];
    uint32_t event_count, chosen; /* chosen: whose samples are CPU time; MAX_EVENTS: none */
    kb_map frame_of_names;
    kb_map last_of_thread;   /* thread → time of its last sample */
    KB_VEC(double) ratios;   /* time per unit of period, of pairs of samples */
    script_line sample;      /* the sample whose frames are being read */
    bool has_sample;
    uint64_t frames[MAX_SCRIPT_FRAMES];
    uint32_t frame_count;
    uint64_t first_ns, last_ns, delivered, idle, ended, unread;
} script_import;

/* ---- lines ----------------------------------------------------------------------------------- */

/* "25227" or "25172/25176". Only a thread's number: its process is not known, and is called the same. Of a
 * thread that has ended: "-1". */
static bool parse_ids(kineto_string word, script_line *out)
{
    out->pid = out->tid = UINT32_MAX;
    if (kb_string_is(word, "-1") || kb_string_is(word, "-1/-1"))
        return true;
    const char *slash = word.size ? memchr(word.data, '/', word.size) : NULL;
    kineto_string first = {word.data, slash ? (size_t)(slash - word.data) : word.size};
    kineto_string second = slash ? kb_string_skip(word, first.size + 1) : first;
    uint64_t pid = kt_line_number(first), tid = kt_line_number(second);
    if (pid > INT32_MAX || tid > INT32_MAX)
        return false;
    out->pid = (uint32_t)pid;
    out->tid = (uint32_t)tid;
    return true;
}

static uint32_t parse_cpu(kineto_string word)
{
    kineto_string inside = {word.data + 1, word.size - 2};
    uint64_t cpu = word.size > 2 && word.data[0] == '[' ? kt_line_number(inside) : KT_NO_NUMBER;
    return cpu <= 65535 ? (uint32_t)cpu : UINT32_MAX;
}

/* Splits what is before the time: name, numbers, CPU. The name may have blanks in it. */
static bool parse_before_time(kineto_string text, script_line *out)
{
    kineto_string last;
    text = kt_line_trim(text);
    out->cpu = 0;
    for (int words = 0; words < 2; words++) {
        size_t begin = text.size;
        while (begin > 0 && !kb_is_blank(text.data[begin - 1]))
            begin--;
        last = kb_string_skip(text, begin);
        text = kt_line_trim((kineto_string){text.data, begin});
        if (!last.size)
            return false;
        if (last.data[0] != '[')
            break;
        out->cpu = parse_cpu(last);
        if (out->cpu == UINT32_MAX)
            return false;
    }
    out->comm = text;
    return parse_ids(last, out);
}

/* After the time: a period, and an event with a colon. */
static void parse_after_time(kineto_string text, script_line *out)
{
    kineto_string rest = text, word = kt_line_word(&rest);
    out->period = kt_line_number(word);
    if (out->period != KT_NO_NUMBER) {
        text = rest;
        word = kt_line_word(&rest);
    }
    out->event = (kineto_string){"", 0};
    if (word.size > 1 && word.data[word.size - 1] == ':') {
        out->event = (kineto_string){word.data, word.size - 1};
        text = rest;
    } else if (kb_string_starts_with(word, "PERF_RECORD_")) {
        out->event = word;
        text = rest;
    }
    out->rest = kt_line_trim(text);
}

static bool parse_script_line(kineto_string line, script_line *out)
{
    kineto_string rest = line;
    if (!line.size || line.data[0] == '\t' || line.data[0] == '#')
        return false;
    for (kineto_string word; (word = kt_line_word(&rest)).size;) {
        if (word.data[word.size - 1] != ':')
            continue;
        out->time_ns = kt_line_time((kineto_string){word.data, word.size - 1});
        if (out->time_ns == KT_NO_NUMBER)
            continue;
        kineto_string before = {line.data, (size_t)(word.data - line.data)};
        if (!parse_before_time(before, out))
            return false;
        parse_after_time(rest, out);
        return true;
    }
    return false;
}

/* ---- frames ---------------------------------------------------------------------------------- */

static kineto_string file_name_of_path(kineto_string path)
{
    size_t from = path.size;
    while (from > 0 && path.data[from - 1] != '/')
        from--;
    return kb_string_skip(path, from);
}

/* "(FILE)" at the end of a line, which may be followed by "(inlined)" or similar words. */
static kineto_string cut_file(kineto_string *line)
{
    kineto_string none = {"", 0};
    if (kb_string_ends_with(*line, "(inlined)")) {
        *line = kt_line_trim((kineto_string){line->data, line->size - 9});
        return none;
    }
    if (!line->size || line->data[line->size - 1] != ')')
        return none;
    size_t at = line->size - 1, depth = 1;
    while (at > 0 && depth) {
        at--;
        depth += line->data[at] == ')';
        depth -= line->data[at] == '(';
    }
    if (depth || at == 0 || !kb_is_blank(line->data[at - 1]))
        return none;
    kineto_string file = {line->data + at + 1, line->size - at - 2};
    *line = kt_line_trim((kineto_string){line->data, at});
    return file;
}

static kineto_string cut_offset(kineto_string symbol)
{
    for (size_t i = symbol.size; i > 2; i--)
        if (symbol.data[i - 1] == 'x' && symbol.data[i - 2] == '0' && symbol.data[i - 3] == '+')
            return (kineto_string){symbol.data, i - 3};
    return symbol;
}

static bool is_hex_word(kineto_string word)
{
    for (size_t i = 0; i < word.size; i++)
        if (!kb_is_hex_digit(word.data[i]))
            return false;
    return word.size != 0;
}

/* The number of a frame with these names. */
static void push_frame(script_import *x, kineto_string name, kineto_string module)
{
    kt_build_state *s = x->timeline.s;
    kt_build_frame frame = {kt_string(s->b, name), kt_string(s->b, module)};
    uint64_t key = (uint64_t)frame.name << 32 | frame.module;
    bool is_new = false;
    uint64_t *number = kb_map_insert(&x->frame_of_names, key, s->frames.count, &is_new);
    if (!number || (is_new && !kb_vec_push(&s->frames, frame)))
        s->out_of_memory = true;
    else if (x->frame_count < MAX_SCRIPT_FRAMES)
        x->frames[x->frame_count++] = *number;
}

static void read_frame(script_import *x, kineto_string line)
{
    char unknown[320];
    kineto_string rest = kt_line_trim(line), after = rest;
    kineto_string address = kt_line_word(&after);
    bool has_address = is_hex_word(address) && kt_line_trim(after).size;
    if (has_address)
        rest = kt_line_trim(after);
    kineto_string file = cut_file(&rest), module = file_name_of_path(file);
    kineto_string symbol = cut_offset(rest);
    if (kb_string_is(module, "[unknown]"))
        module.size = 0;
    if (kb_string_is(symbol, "[unknown]") && module.size && has_address) {
        int size = snprintf(unknown, sizeof unknown, "%.*s+0x%.*s",
                            (int)KB_MIN(module.size, (size_t)255), module.data,
                            (int)KB_MIN(address.size, (size_t)16), address.data);
        symbol = (kineto_string){unknown, (size_t)size};
    }
    if (symbol.size)
        push_frame(x, symbol, module);
}

/* ---- which event ----------------------------------------------------------------------------- */

static uint32_t find_event(script_import *x, kineto_string name)
{
    for (uint32_t i = 0; i < x->event_count; i++)
        if (kb_string_equal(x->events[i].name, name))
            return i;
    if (x->event_count == MAX_EVENTS)
        return MAX_EVENTS;
    x->events[x->event_count] = (script_event){name, 0};
    return x->event_count++;
}

/* How well an event measures CPU time, by its name. 0: it does not. */
static int rate_event(kineto_string name)
{
    bool is_other = kb_string_contains(name, "stall") || kb_string_contains(name, "miss") ||
                    kb_string_starts_with(name, "PERF_RECORD_") ||
                    kb_string_starts_with(name, "sched:");
    if (is_other)
        return 0;
    if (kb_string_contains(name, "cpu-clock") || kb_string_contains(name, "task-clock"))
        return 4;
    if (kb_string_contains(name, "cycles") || kb_string_contains(name, "ibs_op"))
        return 3;
    if (kb_string_contains(name, "instructions"))
        return 2;
    return name.size == 0; /* not stated */
}

static void choose_event(script_import *x, kineto_string text)
{
    kineto_string line;
    script_line parsed;
    int best = 0;
    while (kt_line_next(&text, &line)) {
        if (!parse_script_line(line, &parsed))
            continue;
        uint32_t event = find_event(x, parsed.event);
        if (event < MAX_EVENTS)
            x->events[event].samples++;
    }
    x->chosen = MAX_EVENTS;
    for (uint32_t i = 0; i < x->event_count; i++) {
        int rate = rate_event(x->events[i].name);
        if (rate > best) {
            best = rate;
            x->chosen = i;
        }
        x->timeline.has_states |=
            kb_string_starts_with(x->events[i].name, "PERF_RECORD_SWITCH") ||
            kb_string_starts_with(x->events[i].name, "sched:sched_switch");
    }
}

/* True if periods of the chosen event are nanoseconds. */
static bool is_period_time(const script_import *x)
{
    return x->chosen < MAX_EVENTS && rate_event(x->events[x->chosen].name) == 4;
}

/* ---- samples --------------------------------------------------------------------------------- */

/* For the estimate of a unit's time: see scale_periods. */
static void note_pair(script_import *x, const script_line *sample, uint64_t period)
{
    uint64_t *before = kb_map_insert(&x->last_of_thread, sample->tid, 0, NULL);
    if (before && *before && period && sample->time_ns > *before)
        x->timeline.s->out_of_memory |=
            !kb_vec_push(&x->ratios, (double)(sample->time_ns - *before) / (double)period);
    if (before)
        *before = sample->time_ns;
}

static kt_timeline_thread *find_script_thread(script_import *x, const script_line *line)
{
    kt_timeline_thread *thread =
        kt_timeline_find_thread(&x->timeline, line->pid, line->tid, line->time_ns);
    if (thread && !kb_string_equal(x->timeline.s->threads.data[thread->index].system_name,
                                   line->comm))
        kt_timeline_name(&x->timeline, thread, line->comm, false, line->time_ns);
    return thread;
}

/* The sample whose frames have been read. */
static void finish_sample(script_import *x)
{
    const script_line *line = &x->sample;
    bool is_chosen = x->has_sample && x->chosen < MAX_EVENTS &&
                     kb_string_equal(line->event, x->events[x->chosen].name);
    x->has_sample = false;
    if (!is_chosen || !x->frame_count)
        return;
    if (!line->tid) {
        x->idle++;
        return;
    }
    uint64_t period = line->period == KT_NO_NUMBER ? 1 : line->period;
    kt_timeline_thread *thread = find_script_thread(x, line);
    kt_build_sample sample = {.ticks = line->time_ns,
                              .cpu_ns = period,
                              .addresses = x->frames,
                              .count = (uint16_t)x->frame_count};
    if (!thread) {
        x->ended++;
        return;
    }
    kt_timeline_sample(&x->timeline, thread, sample, false);
    note_pair(x, line, period);
    x->delivered++;
}

/* "prev_pid=2396 prev_prio=120 prev_state=D ==> next_comm=… next_pid=18". */
static kineto_string find_value(kineto_string text, const char *key)
{
    const char *at = text.size ? memmem(text.data, text.size, key, strlen(key)) : NULL;
    if (!at)
        return (kineto_string){"", 0};
    kineto_string rest = kb_string_skip(text, (size_t)(at - text.data) + strlen(key));
    return kt_line_word(&rest);
}

static void apply_script_tracepoint(script_import *x, const script_line *line)
{
    kineto_string state = find_value(line->rest, " prev_state=");
    uint64_t prev = kt_line_number(find_value(line->rest, " prev_pid="));
    uint64_t next = kt_line_number(find_value(line->rest, " next_pid="));
    kt_timeline_thread *out = kt_timeline_known_thread(&x->timeline, (uint32_t)prev);
    kt_timeline_thread *in = kt_timeline_known_thread(&x->timeline, (uint32_t)next);
    if (prev > INT32_MAX || next > INT32_MAX || !state.size)
        return;
    if (!out && prev)
        out = find_script_thread(x, line); /* the line is of the thread that loses the CPU */
    if (!in && next)
        in = kt_timeline_find_thread(&x->timeline, (uint32_t)next, (uint32_t)next, line->time_ns);
    if (out && prev && out->tid == prev)
        kt_timeline_switch_out(&x->timeline, out, state.data[0] == 'R', line->time_ns);
    if (in && next)
        kt_timeline_switch_in(in, line->cpu, line->time_ns);
}

/* "comm=perf pid=2396 prio=120 target_cpu=000": a thread can run again. */
static void apply_script_waking(script_import *x, const script_line *line)
{
    uint64_t tid = kt_line_number(find_value(line->rest, " pid="));
    kt_timeline_thread *thread =
        tid <= INT32_MAX ? kt_timeline_known_thread(&x->timeline, (uint32_t)tid) : NULL;
    if (thread && tid)
        kt_timeline_wake(&x->timeline, thread, line->time_ns);
}

static bool is_waking_event(kineto_string event)
{
    return kb_string_starts_with(event, "sched:sched_waking") ||
           kb_string_starts_with(event, "sched:sched_wakeup");
}

/* Lines of other records: only switches are of interest. */
static bool apply_script_record(script_import *x, const script_line *line)
{
    bool is_record = kb_string_starts_with(line->event, "PERF_RECORD_");
    if (kb_string_starts_with(line->event, "sched:sched_switch")) {
        apply_script_tracepoint(x, line);
        return true;
    }
    if (is_waking_event(line->event)) {
        apply_script_waking(x, line);
        return true;
    }
    if (!is_record || !kb_string_starts_with(line->event, "PERF_RECORD_SWITCH") || !line->tid)
        return is_record;
    kt_timeline_thread *thread = find_script_thread(x, line);
    if (thread && kb_string_starts_with(line->rest, "OUT"))
        kt_timeline_switch_out(&x->timeline, thread, kb_string_contains(line->rest, "preempt"),
                               line->time_ns);
    else if (thread)
        kt_timeline_switch_in(thread, line->cpu, line->time_ns);
    return true;
}

static void apply_script_line(script_import *x, kineto_string line)
{
    script_line parsed;
    if (!kt_line_trim(line).size) {
        finish_sample(x);
        return;
    }
    if (!parse_script_line(line, &parsed)) {
        bool is_frame = line.data[0] == '\t' || kb_string_starts_with(line, "    ");
        if (x->has_sample && is_frame)
            read_frame(x, line);
        else if (line.data[0] != '#' && !kb_is_blank(line.data[0]))
            x->unread++;
        return;
    }
    finish_sample(x);
    x->first_ns = KB_MIN(x->first_ns, parsed.time_ns ? parsed.time_ns : x->first_ns);
    x->last_ns = KB_MAX(x->last_ns, parsed.time_ns);
    if (apply_script_record(x, &parsed))
        return;
    x->sample = parsed;
    x->has_sample = true;
    x->frame_count = 0;
    if (parsed.rest.size)
        read_frame(x, parsed.rest);
}

/* ---- the trace ------------------------------------------------------------------------------- */

/* Makes CPU time of periods in other units, by the median of (time since the thread's last sample) /
 * period. */
static void scale_periods(script_import *x)
{
    size_t count = x->ratios.count;
    if (is_period_time(x))
        return;
    if (count)
        qsort(x->ratios.data, count, sizeof *x->ratios.data, kb_compare_doubles);
    double unit = count ? x->ratios.data[count / 2] : 0.0;
    for (size_t i = 0; i < x->timeline.s->samples.count; i++) {
        kt_build_sample *sample = &x->timeline.s->samples.data[i];
        double ns = (double)sample->cpu_ns * unit;
        sample->cpu_ns = ns < 1e18 ? (uint64_t)ns : 0;
    }
}

static void add_script_ledger(script_import *x)
{
    kt_builder *b = x->timeline.s->b;
    kineto_string perf = kb_string("perf"), none = {"", 0};
    if (x->delivered)
        kt_ledger_add(b, perf, kb_string("delivered"), x->delivered, false, none);
    if (x->idle)
        kt_ledger_add(b, perf, kb_string("samples of idle CPUs, left out"), x->idle, false, none);
    if (x->ended)
        kt_ledger_add(b, perf, kb_string("samples of threads that had ended"), x->ended, true, none);
    if (x->unread)
        kt_ledger_add(b, perf, kb_string("lines that are not of perf script"), x->unread, true, none);
    if (x->delivered && !is_period_time(x))
        kt_ledger_add(b, perf,
                      kb_string("samples whose CPU time was estimated from the event's count"),
                      x->delivered, false, x->events[x->chosen].name);
    for (uint32_t i = 0; i < x->event_count; i++)
        if (i != x->chosen && !kb_string_starts_with(x->events[i].name, "PERF_RECORD_") &&
            !kb_string_starts_with(x->events[i].name, "sched:sched_switch") &&
            !is_waking_event(x->events[i].name))
            kt_ledger_add(b, perf,
                          kb_string("samples of an event that does not measure CPU time, not read"),
                          x->events[i].samples, false, x->events[i].name);
}

static kineto_status build_script_trace(script_import *x, kineto_trace **out, kineto_error *err)
{
    kt_build_state *s = x->timeline.s;
    kt_timeline_finish(&x->timeline, x->last_ns);
    scale_periods(x);
    kt_build_thread_states(s);
    kt_build_samples(s);
    if (x->first_ns <= x->last_ns)
        kt_window(s->b, (int64_t)x->first_ns, (int64_t)x->last_ns);
    add_script_ledger(x);
    return s->out_of_memory ? kb_fail_memory(err, "perf script") : kt_builder_finish(s->b, out, err);
}

static kineto_status read_script(script_import *x, kineto_string text, kineto_trace **out,
                                 kineto_error *err)
{
    kineto_string line;
    choose_event(x, text);
    if (x->chosen == MAX_EVENTS && !x->timeline.has_states)
        return kb_fail(err, KINETO_E_UNSUPPORTED,
                       "perf script: no event in it measures CPU time; record with 'perf record -e "
                       "cpu-clock' or '-e cycles'");
    x->first_ns = UINT64_MAX;
    while (kt_line_next(&text, &line) && !x->timeline.s->out_of_memory)
        apply_script_line(x, line);
    finish_sample(x);
    return build_script_trace(x, out, err);
}

/* The first lines that are not comments: one is a sample's. */
bool kt_is_perf_script(kineto_string head)
{
    kineto_string line;
    script_line parsed;
    while (kt_line_next(&head, &line))
        if (kt_line_trim(line).size && line.data[0] != '#')
            return parse_script_line(line, &parsed) && (parsed.event.size || parsed.rest.size == 0);
    return false;
}

kineto_status kt_import_perf_script(const kt_import_source *source, kineto_trace **out, kineto_error *err)
{
    script_import *x = calloc(1, sizeof *x);
    kineto_status status = x ? kt_timeline_create(&x->timeline, err)
                             : kb_fail_memory(err, "perf script");
    if (!status) {
        status = read_script(x, source->bytes, out, err);
        kt_timeline_free(&x->timeline);
        kb_map_free(&x->frame_of_names);
        kb_map_free(&x->last_of_thread);
        kb_vec_free(&x->ratios);
    }
    free(x);
    return status;
}

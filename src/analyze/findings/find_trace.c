/* Rules about the trace itself: one-time work at the start, work of the profiler, and traces that
 * are incomplete or contradict themselves.
 *
 * trace.unfit uses the rules of `ckineto verify` and the ledger of lost events: it is listed
 * before all other findings if most of a device's time was not recorded. */
#include "analyze/facts/idle.h"
#include "analyze/findings/find_work.h"
#include "trace/bytes/json_text.h"

#include <ckineto/analyze.h>

/* ---- what happens once ----------------------------------------------------------------------- */

#define LAZY_PERCENT      1.0
#define LAZY_MEDIUM       10.0
#define LONG_LAUNCH_NS    INT64_C(1000000)
#define LONG_LAUNCH_TIMES 20 /* of the mean of all */

/* One-time work by kind: code is loaded, memory is taken from the driver, algorithms are
 * chosen, and launches, which load code at their first use of a kernel. */
enum { NOT_LAZY, LOADS, TAKES, CHOOSES, LAUNCHES };

static uint8_t classify_lazy_call(kineto_string name)
{
    static const struct {
        const char *begins;
        uint8_t is;
    } names[] = {{"cuModuleLoad", LOADS},
                 {"cuLibraryLoad", LOADS},
                 {"cudaLibraryLoad", LOADS},
                 {"hipModuleLoad", LOADS},
                 {"hipLibraryLoad", LOADS},
                 {"zeModuleCreate", LOADS},
                 {"urProgramBuild", LOADS},
                 {"urProgramCompile", LOADS},
                 {"cuLinkCreate", LOADS},
                 {"cuLinkAddData", LOADS},
                 {"Lazy Function Loading", LOADS},
                 {"cudaMalloc", TAKES},
                 {"hipMalloc", TAKES},
                 {"cudaHostAlloc", TAKES},
                 {"cudaFree", TAKES},
                 {"cudnnFind", CHOOSES},
                 {"cudaLaunchKernel", LAUNCHES},
                 {"cuLaunchKernel", LAUNCHES},
                 {"hipLaunchKernel", LAUNCHES},
                 {"hipExtModuleLaunch", LAUNCHES},
                 {"hipModuleLaunch", LAUNCHES},
                 {"urEnqueueKernel", LAUNCHES}};
    for (size_t i = 0; i < KB_COUNT(names); i++)
        if (kb_string_starts_with(name, names[i].begins))
            return names[i].is;
    return NOT_LAZY;
}

typedef struct lazy {
    ka_answers names;
    ka_amount loads, takes, chooses, launches; /* launches: very long ones */
    ka_amount every_launch;
    int64_t warm_ns;  /* after it, allocations are churn */
    int64_t first_ns; /* what the first steps took beyond the median; 0: not known */
    uint32_t first_count;
} lazy;

/* Overhead records of the profiler include "Lazy Function Loading". */
static bool is_runtime_call(const ka_slice *s)
{
    return kt_kind_is_launch(s->kind) || s->kind == KINETO_KIND_OVERHEAD;
}

/* Class of slice i if it is one-time work, else NOT_LAZY. Launches and allocations count only
 * before the program is warm; launches moreover only if they take LONG_LAUNCH_NS and
 * LONG_LAUNCH_TIMES as long as the mean. */
static uint8_t add_lazy_at(const ka_finder *f, lazy *l, uint32_t i)
{
    const ka_slice *s = &f->s->slices[i];
    uint8_t is =
        is_runtime_call(s) ? ka_answer(f->s, &l->names, s->name, classify_lazy_call) : NOT_LAZY;
    int64_t mean = l->every_launch.ns / (int64_t)KB_MAX(l->every_launch.count, 1u);
    if ((is == LAUNCHES || is == TAKES) && s->start_ns >= l->warm_ns)
        return NOT_LAZY;
    if (is == LAUNCHES &&
        (ka_slice_ns(s) < LONG_LAUNCH_NS || ka_slice_ns(s) / LONG_LAUNCH_TIMES < mean))
        return NOT_LAZY;
    return is;
}

/* Sums all launches, each limited to LONG_LAUNCH_NS so that the long ones do not raise the
 * mean that they are compared with. */
static void add_lazy_launches(const ka_finder *f, lazy *l)
{
    const ka_dataset *s = f->s;
    for (uint32_t i = 0; i < s->slice_count; i++)
        if (is_runtime_call(&s->slices[i]) &&
            ka_answer(s, &l->names, s->slices[i].name, classify_lazy_call) == LAUNCHES)
            ka_amount_add(&l->every_launch, KB_MIN(ka_slice_ns(&s->slices[i]), LONG_LAUNCH_NS));
}

/* Appends the time that counts: selected steps or, without steps, the recorded time. United. */
static void add_whole_lazy(ka_finder *f, ka_spans *whole)
{
    const ka_dataset *s = f->s;
    for (uint32_t i = 0; i < s->step_count; i++)
        if (s->steps[i].slice != KA_NONE)
            f->no_memory |=
                !kb_vec_push(whole, (ka_span){s->steps[i].start_ns, s->steps[i].end_ns});
    if (!f->step_count)
        f->no_memory |= !kb_vec_push(whole, (ka_span){s->start_ns, s->end_ns});
    ka_spans_unite(whole);
}

/* How much of the time that counts the spans cover. Frees `spans`; 0 if memory ran out. */
static int64_t union_ns(ka_finder *f, ka_spans *spans)
{
    ka_spans whole = {0}, both = {0};
    add_whole_lazy(f, &whole);
    ka_spans_unite(spans);
    f->no_memory |= !ka_spans_both(spans, &whole, &both);
    int64_t ns = ka_spans_ns(&both);
    kb_vec_free(&both);
    kb_vec_free(&whole);
    kb_vec_free(spans);
    return f->no_memory ? 0 : ns;
}

/* Sums one-time work by class; returns how long any of it ran, within steps if there are some. */
static int64_t add_lazy(ka_finder *f, lazy *l)
{
    const ka_dataset *s = f->s;
    ka_spans spans = {0};
    ka_amount *of[] = {NULL, &l->loads, &l->takes, &l->chooses, &l->launches};
    for (uint32_t i = 0; i < s->slice_count; i++) {
        uint8_t is = ka_is_in_steps(f, s->slices[i].step) ? add_lazy_at(f, l, i) : NOT_LAZY;
        if (is == NOT_LAZY)
            continue;
        ka_amount_add(of[is], ka_slice_ns(&s->slices[i]));
        f->no_memory |= !kb_vec_push(&spans, (ka_span){s->slices[i].start_ns, s->slices[i].end_ns});
    }
    return union_ns(f, &spans);
}

/* By how much the warm-up steps (as step_statistics finds them) are longer than the median.
 * Sets warm_ns to the end of the first step. */
static void add_first_steps(const ka_finder *f, lazy *l)
{
    const ka_dataset *s = f->s;
    const ka_table *t = ka_fact_table(f, KA_TABLE_step_statistics);
    if (!ka_table_rows(t))
        return;
    double median = 1000 * ka_fact_number(t, 0, KA_COL_step_statistics_median_us);
    int64_t left = ka_fact_int(t, 0, KA_COL_step_statistics_warm_up);
    l->warm_ns = s->steps[0].end_ns;
    for (uint32_t i = 0; i < s->step_count; i++) {
        const ka_step *step = &s->steps[i];
        if (step->slice == KA_NONE)
            continue;
        if (left-- <= 0 || !(median < 9e18))
            break;
        l->first_ns =
            ka_add_ns(l->first_ns, kb_length_ns(step->start_ns, step->end_ns) - (int64_t)median);
        l->first_count++;
    }
}

/* Appends "what (N calls, time)" to a text of `n` bytes; returns the new length, which exceeds
 * `room` if it was cut. */
static size_t write_lazy_amount(char *text, size_t room, size_t n, const char *what,
                                const ka_amount *a)
{
    if (!a->count || n >= room)
        return n;
    return n + (size_t)snprintf(text + n, room - n, "%s%s (%llu call%s, %s)", n ? "; " : "", what,
                                (unsigned long long)a->count, a->count == 1 ? "" : "s",
                                kb_duration(a->ns).s);
}

static void show_lazy(ka_finder *f, ka_found *x, lazy *l)
{
    const ka_dataset *s = f->s;
    for (uint32_t i = 0; i < s->slice_count; i++)
        if (ka_is_in_steps(f, s->slices[i].step) && add_lazy_at(f, l, i) != NOT_LAZY)
            ka_show_row(f, x, s->slices[i].row, ka_slice_ns(&s->slices[i]), NULL);
    for (uint32_t i = 0, shown = 0; i < s->step_count && shown < l->first_count; i++)
        if (s->steps[i].slice != KA_NONE && ++shown)
            ka_show_row(f, x, s->slices[s->steps[i].slice].row,
                        kb_length_ns(s->steps[i].start_ns, s->steps[i].end_ns), NULL);
}

/* The sentence lists each class of one-time work that occurred. */
static void report_lazy(ka_finder *f, lazy *l, int64_t ns)
{
    const ka_dataset *s = f->s;
    char text[400] = "";
    size_t n = 0, room = sizeof text;
    ka_found *x = ka_open_finding(f, KA_NO_SAVINGS, 0.7, kb_string(""));
    if (!x)
        return;
    ka_set_extent(x, ka_share(f, ns));
    ka_set_severity(x, ka_share(f, ns) >= LAZY_MEDIUM ? KINETO_FINDING_MEDIUM : KINETO_FINDING_LOW);
    if (l->first_count == 1)
        n = (size_t)snprintf(text, room, "the first step takes %s longer than the others",
                             kb_duration(l->first_ns).s);
    else if (l->first_count)
        n = (size_t)snprintf(text, room, "the first %u steps take %s longer than the others",
                             l->first_count, kb_duration(l->first_ns).s);
    n = write_lazy_amount(text, room, n, "code is loaded", &l->loads);
    n = write_lazy_amount(text, room, n, "memory is allocated from the driver", &l->takes);
    n = write_lazy_amount(text, room, n, "algorithms are chosen", &l->chooses);
    (void)write_lazy_amount(text, room, n, "launches take very long", &l->launches);
    x->count =
        l->first_count + l->loads.count + l->takes.count + l->chooses.count + l->launches.count;
    ka_say(f, x, "one-time work takes %.1f %% of the time: %s", ka_share(f, ns), text);
    ka_advise(f, x,
              "Warm up before recording: torch.profiler.schedule(wait=1, warmup=3, active=5)%s",
              s->step_count > 2 ? "; of this trace, analyze later steps only (--steps)" : "");
    show_lazy(f, x, l);
}

/* One-time work: loading of modules, first allocations, and warm-up steps. */
void ka_find_lazy_start(ka_finder *f)
{
    lazy l = {.warm_ns = f->s->start_ns + kb_length_ns(f->s->start_ns, f->s->end_ns) / 3};
    if (!ka_answers_make(f, &l.names))
        return;
    add_first_steps(f, &l);
    add_lazy_launches(f, &l);
    int64_t ns = add_lazy(f, &l);
    ns = KB_MAX(ns, l.first_ns);
    if (!f->no_memory && ka_share(f, ns) >= LAZY_PERCENT)
        report_lazy(f, &l, ns);
    ka_answers_free(&l.names);
}

/* ---- the profiler ---------------------------------------------------------------------------- */

#define OVERHEAD_PERCENT 1.0
#define OVERHEAD_MEDIUM  10.0

/* Rows of the kind `overhead` within steps; ns is the union of their times. */
typedef struct overhead {
    KB_VEC(kineto_row) rows;
    int64_t ns, longest_ns;
    kineto_row longest;
} overhead;

/* Does a span overlap a step, or has the trace no steps? Binary search over the starts of
 * steps. */
static bool is_slice_in_steps(const ka_finder *f, int64_t start_ns, int64_t end_ns)
{
    const ka_dataset *s = f->s;
    uint32_t next = 0;
    KB_LOWER_BOUND(next, s->step_count, s->steps[next].start_ns <= start_ns);
    return !f->step_count || (next > 0 && start_ns < s->steps[next - 1].end_ns) ||
           (next < s->step_count && end_ns > s->steps[next].start_ns);
}

/* The category "Trace" is kineto's own mark of the whole recording, which is not work. */
static bool is_profiler_work(const ka_finder *f, const kineto_activity *a)
{
    kineto_string category = kineto_trace_string(f->s->trace, a->category);
    return !kb_string_equal(category, kb_string("Trace")) && a->end_ns > f->s->start_ns &&
           a->start_ns < f->s->end_ns && is_slice_in_steps(f, a->start_ns, a->end_ns);
}

/* Overhead has tracks of its own, which are not threads of the dataset: hence rows of the
 * trace are read. */
static void find_overhead(ka_finder *f, overhead *o)
{
    const kineto_trace *t = f->s->trace;
    ka_spans spans = {0};
    kineto_row row = 0;
    for (uint32_t b = 0; b < kt_block_count(t) && !f->no_memory; b++) {
        const kt_block *block = kt_block_at(t, b);
        bool any = block->kinds >> KINETO_KIND_OVERHEAD & 1;
        for (uint32_t i = 0; any && i < block->count && !f->no_memory; i++) {
            kineto_activity a;
            if (block->kind[i] != KINETO_KIND_OVERHEAD)
                continue;
            kineto_trace_get(t, row + i, &a);
            if (!is_profiler_work(f, &a))
                continue;
            f->no_memory |= !kb_vec_push(&spans, (ka_span){a.start_ns, a.end_ns}) ||
                            !kb_vec_push(&o->rows, row + i);
            if (kb_length_ns(a.start_ns, a.end_ns) > o->longest_ns) {
                o->longest_ns = kb_length_ns(a.start_ns, a.end_ns);
                o->longest = row + i;
            }
        }
        row += block->count;
    }
    o->ns = union_ns(f, &spans);
}

static void report_overhead(ka_finder *f, const overhead *o)
{
    const kineto_trace *t = f->s->trace;
    kineto_activity a;
    ka_found *x = ka_open_finding(f, KA_NO_SAVINGS, 0.9, kb_string(""));
    if (!x)
        return;
    kineto_trace_get(t, o->longest, &a);
    kb_text name = ka_short_name(a.name);
    x->count = o->rows.count;
    ka_set_extent(x, ka_share(f, o->ns));
    ka_set_severity(x, ka_share(f, o->ns) >= OVERHEAD_MEDIUM ? KINETO_FINDING_MEDIUM
                                                             : KINETO_FINDING_LOW);
    ka_say(
        f, x,
        "the profiler itself takes %.1f %% of the time (%zu row%s); the longest is %s, %s",
        ka_share(f, o->ns), o->rows.count, o->rows.count == 1 ? "" : "s", name.s,
        kb_duration(o->longest_ns).s);
    ka_advise(f, x,
              kb_string_contains(a.name, "Buffer") || kb_string_contains(a.name, "Flush")
                  ? "Fewer and larger buffers: raise their number or size so that none is flushed "
                    "within a step, and record fewer steps; compare times with a run without "
                    "profiler"
                  : "Record fewer kinds, and stacks, shapes and memory only where they are needed; "
                    "compare times with a run without profiler");
    for (size_t i = 0; i < o->rows.count; i++) {
        kineto_trace_get(t, o->rows.data[i], &a);
        ka_show_row(f, x, o->rows.data[i], kb_length_ns(a.start_ns, a.end_ns), NULL);
    }
}

/* Rows of the kind `overhead`, as far as they are in steps. */
void ka_find_profiler_overhead(ka_finder *f)
{
    overhead o = {0};
    find_overhead(f, &o);
    if (!f->no_memory && ka_share(f, o.ns) >= OVERHEAD_PERCENT)
        report_overhead(f, &o);
    kb_vec_free(&o.rows);
}

/* ---- is it fit? ------------------------------------------------------------------------------ */

#define LOST_PERCENT   0.1 /* of all activities: below, sums hardly change */
#define FAULTY_PERCENT 0.5 /* of all activities, that are touched by an error */

/* Reasons to doubt the trace: lost events from the ledger, and errors of `verify`, whose
 * report is released by the caller. */
typedef struct doubts {
    kineto_verify_report *report;
    uint64_t unrecorded, unread; /* events: those that a recorder lost, those of the file */
    bool is_cut;                 /* the end of the file is missing */
    double lost_percent;         /* both */
    uint32_t errors; /* findings that count */
    uint64_t places;
    char ids[200];
} doubts;

/* Errors that spoil the whole trace count at once; errors of single activities only if
 * FAULTY_PERCENT of all activities have them. */
static bool counts_as_doubt(const ka_finder *f, const kineto_verify_finding *v, const char *id)
{
    double all = (double)kineto_trace_count(f->s->trace);
    static const char *const spoiling[] = {"device.missing", "clock.suspicion", "rows.none"};
    if (kb_string_is_one_of(kb_string(id), spoiling, KB_COUNT(spoiling)))
        return true;
    if (v->severity < KINETO_SEVERITY_ERROR)
        return false;
    return strcmp(id, "buffer.truncated") == 0 || strcmp(id, "units.mixed") == 0 ||
           ka_percent((double)v->count, all) >= FAULTY_PERCENT;
}

/* Adds up the findings of `verify` that count, and lists their ids. */
static void read_verify_report(const ka_finder *f, doubts *d)
{
    kineto_verify_finding v;
    size_t n = 0;
    for (uint32_t i = 0; kineto_verify_report_finding(d->report, i, &v); i++) {
        kineto_verify_rule rule;
        kineto_verify_rule_get(v.rule, &rule);
        if (!counts_as_doubt(f, &v, rule.id))
            continue;
        d->errors++;
        d->places += v.count;
        if (n < sizeof d->ids)
            n += (size_t)snprintf(d->ids + n, sizeof d->ids - n, "%s%s", n ? ", " : "", rule.id);
    }
}

/* Evidence: places of lost events from the ledger, and the first place of each error that
 * counts. */
static void show_verify_doubts(ka_finder *f, ka_found *x, const doubts *d)
{
    kineto_verify_finding v;
    for (uint32_t i = 0; kineto_verify_report_finding(d->report, i, &v); i++) {
        kineto_verify_rule rule;
        kineto_verify_place p;
        kineto_verify_rule_get(v.rule, &rule);
        int64_t weight = (int64_t)KB_MIN(v.count, (uint64_t)INT64_MAX);
        if (strncmp(rule.id, "ledger.", 7) == 0) {
            for (uint32_t k = 0; kineto_verify_report_place(d->report, i, k, &p); k++)
                ka_show_span(f, x, 0, 0, weight, "%s: %.*s", rule.id,
                             (int)KB_MIN(p.text.size, (size_t)400), p.text.data);
            continue;
        }
        if (!counts_as_doubt(f, &v, rule.id))
            continue;
        if (kineto_verify_report_place(d->report, i, 0, &p) && p.row != KINETO_NO_ROW)
            ka_show_row(f, x, p.row, weight, "%s: %.*s", rule.id,
                        (int)KB_MIN(v.sentence.size, (size_t)400), v.sentence.data);
        else
            ka_show_span(f, x, 0, 0, weight, "%s: %.*s", rule.id,
                         (int)KB_MIN(v.sentence.size, (size_t)400), v.sentence.data);
    }
}

static void report_empty(ka_finder *f, ka_found *x)
{
    ka_say(f, x, "the trace is empty");
    ka_advise(f, x, "'ckineto doctor' says what can be recorded on a machine; record again");
}

static void report_doubts(ka_finder *f, ka_found *x, const doubts *d, const char *what)
{
    ka_say(f, x, "%s: sums, gaps and findings may be wrong", what);
    ka_advise(
        f, x,
        d->unrecorded && d->lost_percent >= LOST_PERCENT
            ? "Record again with larger buffers, fewer kinds or a shorter window; 'ckineto "
              "verify' says what is missing"
            : "'ckineto verify' says where and what to do; record again if it can be avoided");
}

/* Appends "5 events are missing, 2.0 % of all" to a text of `used` bytes; returns the new
 * length. Nothing for 0 lost events. */
static size_t write_lost_text(char *text, size_t size, size_t used, uint64_t lost, double all,
                              const char *words)
{
    if (!lost)
        return used;
    return used + (size_t)kb_snprintf(text + used, size - used, "%s%llu event%s %s, %.1f %% of all",
                                      used ? ", and " : "", (unsigned long long)lost,
                                      lost == 1 ? "" : "s", words, ka_percent((double)lost, all));
}

/* The sentence names lost events of the recorder and of the file separately, since only the
 * first can be avoided by recording again. */
static void report_unfit(ka_finder *f, const doubts *d)
{
    uint64_t there = kineto_trace_count(f->s->trace);
    double all = (double)d->unrecorded + (double)d->unread + (double)there;
    char text[500] = "";
    size_t n = 0;
    ka_found *x = ka_open_finding(f, KA_NO_SAVINGS, 1, kb_string(""));
    if (!x)
        return;
    ka_set_severity(x, KINETO_FINDING_HIGH);
    ka_set_extent(x, d->lost_percent);
    if (d->is_cut) {
        n = (size_t)snprintf(text, sizeof text,
                             "the file ends early, how many events are missing is not known");
    } else if (d->lost_percent >= LOST_PERCENT) {
        n = write_lost_text(text, sizeof text, n, d->unrecorded, all, "could not be recorded");
        n = write_lost_text(text, sizeof text, n, d->unread, all, "of the file could not be used");
    }
    if (d->errors && n < sizeof text)
        (void)snprintf(text + n, sizeof text - n,
                       "%sthe trace is incomplete or contradicts itself (%s)", n ? ", and " : "",
                       d->ids);
    x->count = d->unrecorded + d->unread + d->places;
    if (all <= 0)
        report_empty(f, x);
    else
        report_doubts(f, x, d, text);
    show_verify_doubts(f, x, d);
}

/* ---- graphs whose nodes were not recorded ---------------------------------------------------- */

#define UNRECORDED_PERCENT 50.0 /* of a device's time, from its first work to its last */

/* From the first work of a device to the end of its last; 0 without work. */
static int64_t span_of_device(const ka_dataset *s, int64_t device)
{
    int64_t start = INT64_MAX, end = INT64_MIN;
    for (uint32_t i = 0; i < s->work_count; i++)
        if (s->streams[s->work[i].stream].device == device) {
            start = KB_MIN(start, s->work[i].start_ns);
            end = KB_MAX(end, s->work[i].end_ns);
        }
    return end > start ? kb_length_ns(start, end) : 0;
}

typedef struct unrecorded {
    int64_t device, ns;
    double percent;
} unrecorded;

/* The device of whose time the largest part was taken by graphs without a record of what they
 * did. */
static unrecorded find_unrecorded(const ka_finder *f)
{
    const ka_table *t = ka_fact_table(f, KA_TABLE_idle_named);
    unrecorded most = {.percent = 0};
    for (uint64_t row = 0; row < ka_table_rows(t); row++) {
        if (ka_fact_int(t, row, KA_COL_idle_named_stream) != -1 ||
            ka_idle_of(ka_text_at(t, row, KA_COL_idle_named_reason)) != KA_IDLE_UNRECORDED_WORK)
            continue;
        unrecorded u = {ka_fact_int(t, row, KA_COL_idle_named_device),
                        ka_fact_int(t, row, KA_COL_idle_named_idle_us), 0};
        u.percent = ka_percent((double)u.ns, (double)span_of_device(f->s, u.device));
        if (u.percent > most.percent)
            most = u;
    }
    return most;
}

static void report_unrecorded(ka_finder *f, const unrecorded *u)
{
    ka_found *x = ka_open_finding(f, KA_NO_SAVINGS, 0.9, kb_string("graphs"));
    if (!x)
        return;
    x->comes_first = true;
    ka_set_severity(x, KINETO_FINDING_HIGH);
    ka_set_extent(x, u->percent);
    ka_say(f, x,
           "for %.1f %% of the time of device %lld graphs ran whose kernels were not recorded, "
           "%s: findings about kernels, gaps and operators cover only the rest",
           u->percent, (long long)u->device, kb_duration(u->ns).s);
    ka_advise(
        f, x,
        "Record the nodes of graphs: start the profiler before the graphs are captured, or record "
        "the program without graphs (without mode=\"reduce-overhead\"; servers have an option for "
        "it)");
    ka_show_span(f, x, f->s->start_ns, f->s->end_ns, u->ns, "%s unrecorded", kb_duration(u->ns).s);
}

/* An empty trace, lost events, contradictions that `verify` finds, and unrecorded graphs. */
void ka_find_unfit(ka_finder *f)
{
    unrecorded graphs = find_unrecorded(f);
    if (graphs.percent >= UNRECORDED_PERCENT)
        report_unrecorded(f, &graphs);
    const kineto_trace *t = f->s->trace;
    kineto_error err = {0};
    doubts d = {0};
    double lost = (double)kineto_trace_lost(t), there = (double)kineto_trace_count(t);
    d.unrecorded = kt_ledger_lost(t, KT_LOSS_RECORDING);
    d.unread = kt_ledger_lost(t, KT_LOSS_READING);
    d.is_cut = kt_ledger_is_cut(t);
    if (kineto_verify_run(t, NULL, &d.report, &err)) {
        f->no_memory = true;
        return;
    }
    d.lost_percent = ka_percent(lost, lost + there);
    read_verify_report(f, &d);
    if (d.errors || d.is_cut || d.lost_percent >= LOST_PERCENT)
        report_unfit(f, &d);
    kineto_verify_report_destroy(d.report);
}

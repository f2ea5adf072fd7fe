/* Rules about the data loader: time in which the program waits for the next batch, and loaders
 * without worker processes.
 *
 * A wait is a range whose name is that of a data loader's __next__ (ka_is_dataloader), in steps
 * and between them or, without steps, in the whole trace. Savings are the part of the waits in
 * which devices are idle, too; on programs without devices, the critical path without the waits. */
#include "analyze/findings/finding.h"

/* ---- the data loader ------------------------------------------------------------------------- */

/* The time that counts, and the waits in it: steps, and the time between two steps if the program
 * waits there (some programs end a step before they load); without steps the whole trace. */
typedef struct waiting {
    ka_spans whole; /* with the time between steps */
    ka_spans spans; /* some thread waits, also outside of these */
    int64_t between_ns; /* of that */
    int64_t whole_ns;   /* what ns is a part of */
    int64_t ns;         /* some thread waits */
    uint64_t count;
    double confidence;
} waiting;

static void free_loader_waits(waiting *w)
{
    kb_vec_free(&w->whole);
    kb_vec_free(&w->spans);
}

/* How much of a range lies in the time that counts: w->whole is united, and searched for the
 * first span that matters. */
static int64_t ns_in_whole(const waiting *w, int64_t start_ns, int64_t end_ns)
{
    size_t cursor = 0;
    KB_LOWER_BOUND(cursor, w->whole.count, w->whole.data[cursor].end_ns <= start_ns);
    return ka_spans_within(&w->whole, start_ns, end_ns, &cursor);
}

/* Is the slice a wait for data that lies, at least in part, in the time that counts? */
static bool is_loader_wait(const ka_dataset *s, const waiting *w, uint32_t slice)
{
    const ka_slice *x = &s->slices[slice];
    return ka_is_dataloader(ka_name(s, x->name)) && ns_in_whole(w, x->start_ns, x->end_ns) > 0;
}

/* Appends a step to the time that counts, up to the start of the next one of its process,
 * provided that this has the next number: else steps between them were not recorded. */
static void add_loader_step(ka_finder *f, waiting *w, uint32_t step)
{
    const ka_dataset *s = f->s;
    int64_t end_ns = s->steps[step].end_ns;
    for (uint32_t i = step + 1; i < s->step_count; i++) {
        if (s->steps[i].process != s->steps[step].process)
            continue;
        if (s->steps[i].slice != KA_NONE && s->steps[i].number == s->steps[step].number + 1)
            end_ns = KB_MAX(end_ns, s->steps[i].start_ns);
        break;
    }
    f->no_memory |= !kb_vec_push(&w->whole, (ka_span){s->steps[step].start_ns, end_ns});
}

/* Initialises `w`, and fills w->whole and `steps`, both united. The difference of both is the
 * time between steps. */
static void add_loader_whole(ka_finder *f, waiting *w, ka_spans *steps)
{
    const ka_dataset *s = f->s;
    *w = (waiting){.whole_ns = f->whole_ns, .confidence = 0.8};
    for (uint32_t i = 0; i < (f->step_count ? s->step_count : 0); i++) {
        if (s->steps[i].slice == KA_NONE)
            continue;
        add_loader_step(f, w, i);
        f->no_memory |= !kb_vec_push(steps, (ka_span){s->steps[i].start_ns, s->steps[i].end_ns});
    }
    if (!f->step_count) {
        f->no_memory |= !kb_vec_push(&w->whole, (ka_span){s->start_ns, s->end_ns}) ||
                        !kb_vec_push(steps, (ka_span){s->start_ns, s->end_ns});
    }
    ka_spans_unite(&w->whole);
    ka_spans_unite(steps);
    w->between_ns = ka_spans_ns(&w->whole) - ka_spans_ns(steps);
}

/* Length of the time in both; 0 if memory ran out (f->no_memory). */
static int64_t overlap_ns(ka_finder *f, const ka_spans *a, const ka_spans *b)
{
    ka_spans both = {0};
    f->no_memory |= !ka_spans_both(a, b, &both);
    int64_t ns = f->no_memory ? 0 : ka_spans_ns(&both);
    kb_vec_free(&both);
    return ns;
}

/* Sums the waits. Time between steps becomes a part of the whole only if the program waits
 * there, as it does not belong to a step. Freed with free_loader_waits in any case. */
static waiting sum_loader_waits(ka_finder *f)
{
    waiting w;
    ka_spans steps = {0};
    add_loader_whole(f, &w, &steps);
    for (uint32_t i = 0; i < f->s->slice_count && !f->no_memory; i++) {
        const ka_slice *x = &f->s->slices[i];
        if (!is_loader_wait(f->s, &w, i))
            continue;
        f->no_memory |= !kb_vec_push(&w.spans, (ka_span){x->start_ns, x->end_ns});
        w.count++;
    }
    ka_spans_unite(&w.spans);
    w.ns = overlap_ns(f, &w.spans, &w.whole);
    if (w.ns > overlap_ns(f, &w.spans, &steps))
        w.whole_ns = ka_add_ns(w.whole_ns, w.between_ns);
    kb_vec_free(&steps);
    return w;
}

/* Percent of the time that counts, which may be longer than the steps. */
static double loader_share(const waiting *w, int64_t ns)
{
    return 100 * (double)ns / (double)w->whole_ns;
}

static void show_loader_waits(ka_finder *f, const waiting *w, ka_found *x)
{
    const ka_dataset *s = f->s;
    for (uint32_t i = 0; i < s->slice_count; i++)
        if (is_loader_wait(s, w, i))
            ka_show_row(f, x, s->slices[i].row,
                        ns_in_whole(w, s->slices[i].start_ns, s->slices[i].end_ns), NULL);
}

/* PyTorch's iterator with worker processes is called _MultiProcessingDataLoaderIter. */
static bool loads_in_workers(const ka_dataset *s)
{
    for (uint32_t i = 0; i < s->slice_count; i++) {
        kineto_string name = ka_name(s, s->slices[i].name);
        if (ka_is_dataloader(name) && kb_string_contains(name, "MultiProcessing"))
            return true;
    }
    return false;
}

#define MIN_PERCENT 1.0

/* The latest end of device work that began before a moment, in the whole trace, also outside
 * of the dataset; INT64_MIN: there is none. */
static int64_t device_busy_until(const kineto_trace *trace, int64_t ns)
{
    int64_t latest = INT64_MIN;
    kineto_activity a;
    for (kineto_row row = 0; row < kineto_trace_count(trace); row++) {
        kineto_trace_get(trace, row, &a);
        if (kt_kind_is_work(a.kind) && a.start_ns < ns)
            latest = KB_MAX(latest, a.end_ns);
    }
    return latest;
}

/* Gaps lie between pieces of work, so this is added to them: the wait from the start of the first
 * step to the first work. If the trace does not show what devices did before, they may have been
 * busy: then it is at most what the other waits are on average. */
static int64_t idle_before_first_work(const ka_finder *f, waiting *w, int64_t gaps_ns)
{
    size_t cursor = 0;
    int64_t from = w->whole.count ? w->whole.data[0].start_ns : INT64_MAX;
    int64_t to = f->s->work_count ? f->s->work[f->s->by_time[0]].start_ns : INT64_MIN;
    if (!f->step_count || from >= to)
        return 0;
    int64_t busy = device_busy_until(f->s->trace, to), ns;
    from = KB_MAX(from, busy);
    ns = from < to ? ka_spans_within(&w->spans, from, to, &cursor) : 0;
    if (busy != INT64_MIN || !ns)
        return ns;
    if (w->count > 1)
        return KB_MIN(ns, gaps_ns / (int64_t)(w->count - 1));
    w->confidence = 0.5;
    return ns;
}

/* Bounded by the idle time of devices and by the critical path; without a device or a path, by
 * the waits alone. */
static int64_t estimate_loader_savings(ka_finder *f, const waiting *w, int64_t idle_ns)
{
    static const kineto_what_if_scale at_once = {KINETO_WHAT_IF_CLASS, "data_loading", 0};
    int64_t saved = ka_saved_by(f, &at_once, 1);
    if (!f->device_count || saved == KA_NO_SAVINGS) /* without a device the host is all there is */
        return w->ns;
    return ka_min_savings(saved, idle_ns);
}

static void report_loader_waits(ka_finder *f, const waiting *w, int64_t idle_ns, int64_t saved)
{
    ka_found *x = ka_open_finding(f, saved, w->confidence, kb_string(""));
    char idle[60] = "";
    if (!x)
        return;
    x->count = w->count;
    x->whole_ns = w->whole_ns;
    if (f->device_count)
        kb_snprintf(idle, sizeof idle, "; devices are idle for %.1f %%", loader_share(w, idle_ns));
    ka_say(f, x, "the program waits for the data loader in %.1f %% of %s, %s per batch%s",
           loader_share(w, w->ns), f->step_count ? "step time" : "the time",
           kb_duration(w->ns / (int64_t)w->count).s, idle);
    if (loads_in_workers(f->s))
        ka_advise(f, x,
                  "The worker processes do not keep up: more of them (num_workers), a larger "
                  "prefetch_factor, or cheaper decoding and augmentation");
    else
        ka_advise(f, x,
                  "Load in worker processes: DataLoader(num_workers=4, %spersistent_workers=True)",
                  f->device_count ? "pin_memory=True, " : "");
    show_loader_waits(f, w, x);
}

/* Waits for the next batch, with the idle time of devices in them. */
void ka_find_data_loader(ka_finder *f)
{
    waiting w = sum_loader_waits(f);
    if (w.count && loader_share(&w, w.ns) >= MIN_PERCENT) {
        int64_t idle_ns = ka_idle_ns(f, KA_IDLE_BIT(DATA_LOADER));
        idle_ns = kb_min_i64(ka_add_ns(idle_ns, idle_before_first_work(f, &w, idle_ns)), w.ns);
        int64_t saved = estimate_loader_savings(f, &w, idle_ns);
        if (loader_share(&w, saved) >= MIN_PERCENT)
            report_loader_waits(f, &w, idle_ns, saved);
    }
    free_loader_waits(&w);
}

/* ---- loading in the thread that trains ------------------------------------------------------- */

static bool is_python_function(const ka_dataset *s, uint32_t slice, const char *file,
                               const char *name)
{
    kineto_string text = ka_name(s, s->slices[slice].name);
    return s->slices[slice].kind == KINETO_KIND_PYTHON_FUNCTION &&
           kb_string_ends_with(text, name) && kb_string_contains(text, file);
}

static bool has_inside(const ka_dataset *s, uint32_t slice, const char *name)
{
    for (uint32_t i = slice + 1; i < s->slices[slice].next; i = s->slices[i].next)
        if (is_python_function(s, i, "", name))
            return true;
    return false;
}

/* Does a DataLoader make its iterator here, without worker processes? One with workers checks
 * their number in it. */
static bool makes_single_loader(const ka_dataset *s, uint32_t slice)
{
    return is_python_function(s, slice, "dataloader.py(", ": _get_iterator") &&
           !has_inside(s, slice, ": check_worker_number_rationality") &&
           !has_inside(s, slice, "_MultiProcessingDataLoaderIter");
}

/* Where waits were recorded, input.data_loader says what they cost, and gives the same advice. */
void ka_find_synchronized_loader(ka_finder *f)
{
    const ka_dataset *s = f->s;
    waiting w = sum_loader_waits(f);
    uint64_t count = 0;
    free_loader_waits(&w);
    for (uint32_t i = 0; i < s->slice_count; i++)
        count += makes_single_loader(s, i);
    if (!count || w.count)
        return;
    ka_found *x = ka_open_finding(f, KA_NO_SAVINGS, 0.9, kb_string(""));
    if (!x)
        return;
    x->count = count;
    ka_set_severity(x, KINETO_FINDING_LOW);
    ka_say(f, x, "The data loader has no worker processes: the thread that trains loads, too");
    ka_advise(f, x, "DataLoader(dataset, num_workers=4, persistent_workers=True, pin_memory=True)");
    for (uint32_t i = 0; i < s->slice_count; i++)
        if (makes_single_loader(s, i))
            ka_show_row(f, x, s->slices[i].row, ka_slice_ns(&s->slices[i]), NULL);
}

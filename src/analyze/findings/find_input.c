/* Waiting for input. */
#include "analyze/findings/finding.h"

/* ---- the data loader ------------------------------------------------------------------------ */

typedef struct waiting {
    int64_t from_ns, to_ns; /* what is before the first step and behind the last is not looked at */
    int64_t ns;             /* on threads that wait, each moment once */
    uint64_t count;
} waiting;

static bool waits(const ka_scope *s, const waiting *w, uint32_t slice)
{
    const ka_slice *x = &s->slices[slice];
    return x->start_ns >= w->from_ns && x->start_ns < w->to_ns &&
           ka_is_dataloader(ka_name(s, x->name));
}

/* Also between steps: some programs end theirs before they load. */
static void find_span(const ka_finder *f, waiting *w)
{
    const ka_scope *s = f->s;
    *w = (waiting){.from_ns = INT64_MIN, .to_ns = INT64_MAX};
    if (!f->step_count)
        return;
    *w = (waiting){.from_ns = INT64_MAX, .to_ns = INT64_MIN};
    for (uint32_t i = 0; i < s->step_count; i++) {
        if (s->steps[i].slice == KA_NONE)
            continue;
        w->from_ns = KB_MIN(w->from_ns, s->steps[i].start_ns);
        w->to_ns = KB_MAX(w->to_ns, s->steps[i].end_ns);
    }
}

static waiting add_waits(const ka_finder *f)
{
    waiting w;
    find_span(f, &w);
    for (uint32_t i = 0; i < f->s->slice_count; i++) {
        if (!waits(f->s, &w, i))
            continue;
        w.ns = ka_add_ns(w.ns, ka_slice_ns(&f->s->slices[i]));
        w.count++;
    }
    return w;
}

static void show_waits(ka_finder *f, const waiting *w, ka_found *x)
{
    const ka_scope *s = f->s;
    for (uint32_t i = 0; i < s->slice_count; i++)
        if (waits(s, w, i))
            ka_show_row(f, x, s->slices[i].row, ka_slice_ns(&s->slices[i]), NULL);
}

static bool loads_in_workers(const ka_scope *s)
{
    for (uint32_t i = 0; i < s->slice_count; i++) {
        kineto_string name = ka_name(s, s->slices[i].name);
        if (ka_is_dataloader(name) && kb_string_holds(name, "MultiProcessing"))
            return true;
    }
    return false;
}

/* As the table of steps counts it: where neither device nor calls were busy. */
static double alone_percent(const ka_finder *f)
{
    const ka_table *t = ka_fact_table(f, KA_TABLE_steps);
    uint32_t loader = ka_fact_column(t, "dataloader_us"), all = ka_fact_column(t, "dur_us");
    int64_t waits = 0, whole = 0;
    for (uint64_t row = 0; row < ka_table_rows(t); row++) {
        waits = ka_add_ns(waits, ka_fact_int(t, row, loader));
        whole = ka_add_ns(whole, ka_fact_int(t, row, all));
    }
    return ka_percent((double)waits, (double)whole);
}

#define LEAST_PERCENT 1.0

/* What it would save is bounded by how long the program and devices waited, and by the critical
 * path. */
void ka_look_data_loader(ka_finder *f)
{
    static const kineto_what_if_scale at_once = {KINETO_WHAT_IF_CLASS, "data_loading", 0};
    waiting w = add_waits(f);
    if (!w.count || ka_share(f, w.ns) < LEAST_PERCENT)
        return;
    int64_t saved = ka_saved_by(f, &at_once, 1);
    int64_t idle_ns = KB_MIN(ka_idle_ns(f, "data_loader"), w.ns);
    if (f->device_count)
        saved = ka_lesser_saving(saved, idle_ns);
    if (saved == KA_NO_WORTH || !f->device_count) /* without a device the host is all there is */
        saved = w.ns;
    if (ka_share(f, saved) < LEAST_PERCENT)
        return;
    ka_found *x = ka_open_finding(f, saved, 0.8, kb_string(""));
    if (!x)
        return;
    x->count = w.count;
    ka_say(f, x,
           "%.1f %% of the time of steps the program waits for its data loader with nothing else "
           "going on, %s a batch; devices are idle for %.1f %%",
           alone_percent(f), kb_duration(w.ns / (int64_t)w.count).s, ka_share(f, idle_ns));
    if (loads_in_workers(f->s))
        ka_advise(f, x,
                  "The worker processes do not keep up: more of them (num_workers), a larger "
                  "prefetch_factor, or cheaper decoding and augmentation");
    else
        ka_advise(f, x,
                  "Load in worker processes: DataLoader(num_workers=4, pin_memory=True, "
                  "persistent_workers=True)");
    show_waits(f, &w, x);
}

/* ---- loading in the thread that trains ------------------------------------------------------ */

static bool is_function_of(const ka_scope *s, uint32_t slice, const char *file, const char *name)
{
    kineto_string text = ka_name(s, s->slices[slice].name);
    return s->slices[slice].kind == KINETO_KIND_PYTHON_FUNCTION && kb_string_ends(text, name) &&
           kb_string_holds(text, file);
}

static bool has_inside(const ka_scope *s, uint32_t slice, const char *name)
{
    for (uint32_t i = slice + 1; i < s->slices[slice].next; i = s->slices[i].next)
        if (is_function_of(s, i, "", name))
            return true;
    return false;
}

/* With workers, a loader that makes its iterator looks at how many they are. */
static bool makes_single_loader(const ka_scope *s, uint32_t slice)
{
    return is_function_of(s, slice, "dataloader.py(", ": _get_iterator") &&
           !has_inside(s, slice, ": check_worker_number_rationality") &&
           !has_inside(s, slice, "_MultiProcessingDataLoaderIter");
}

static bool loads_by_itself(const ka_scope *s, uint32_t slice)
{
    kineto_string name = ka_name(s, s->slices[slice].name);
    return ka_is_dataloader(name) && kb_string_holds(name, "_SingleProcess");
}

/* What it costs is the matter of input.data_loader. */
void ka_look_synchronized_loader(ka_finder *f)
{
    const ka_scope *s = f->s;
    waiting w = add_waits(f);
    uint64_t count = 0;
    for (uint32_t i = 0; i < s->slice_count; i++)
        count += makes_single_loader(s, i) || loads_by_itself(s, i);
    if (!count || (w.count && ka_share(f, w.ns) < LEAST_PERCENT))
        return;
    ka_found *x = ka_open_finding(f, KA_NO_WORTH, 0.9, kb_string(""));
    if (!x)
        return;
    x->count = count;
    ka_set_extent(x, (double)w.ns);
    ka_set_severity(x, w.count ? KINETO_FINDING_MEDIUM : KINETO_FINDING_LOW);
    ka_say(f, x, "The data loader has no worker processes: the thread that trains loads, too%s%s",
           w.count ? ", a batch in " : "", w.count ? kb_duration(w.ns / (int64_t)w.count).s : "");
    ka_advise(f, x, "DataLoader(dataset, num_workers=4, persistent_workers=True, pin_memory=True)");
    for (uint32_t i = 0; i < s->slice_count; i++)
        if (makes_single_loader(s, i) || loads_by_itself(s, i))
            ka_show_row(f, x, s->slices[i].row, ka_slice_ns(&s->slices[i]), NULL);
}

/* The rule about parallel regions of OpenMP: threads that wait at barriers for the slowest one. */
#include "analyze/facts/openmp.h"
#include "analyze/findings/finding.h"

#define MIN_SAVED_PERCENT     1.0  /* of the recorded time */
#define MIN_SAVED_OF_REGION   5.0  /* of the region's own time */
#define MIN_SAVED_NS_PER_RUN  5000 /* less is the price of threads that start one after the other */

/* The time that savings are a part of: that of the finder, or without operators and devices the window. */
static int64_t find_whole_ns(const ka_finder *f)
{
    int64_t start_ns, end_ns;
    kineto_trace_window(f->s->trace, &start_ns, &end_ns);
    return f->step_count || f->s->slice_count || f->s->work_count
               ? f->whole_ns
               : KB_MAX(kb_length_ns(start_ns, end_ns), 1);
}

static bool is_region_imbalanced(const ka_openmp_region *r, int64_t whole_ns)
{
    return r->threads > 1 && r->savings_ns / r->count >= MIN_SAVED_NS_PER_RUN &&
           ka_percent((double)r->savings_ns, (double)whole_ns) >= MIN_SAVED_PERCENT &&
           ka_percent((double)r->savings_ns, (double)r->ns) >= MIN_SAVED_OF_REGION;
}

static void report_imbalance(ka_finder *f, const ka_openmp_region *r, int64_t whole_ns)
{
    kineto_string place = ka_openmp_place(f->s, r->name);
    ka_found *x = ka_open_finding(f, r->savings_ns, 0.7, place);
    if (!x)
        return;
    x->count = r->count;
    x->whole_ns = whole_ns;
    ka_say(f, x,
           "Load imbalance in %s: %s of %s could be saved (%u runs with up to %u threads, "
           "%s of waiting at barriers)",
           ka_short_name(place).s, kb_duration(r->savings_ns).s, kb_duration(r->ns).s, r->count,
           r->threads, kb_duration(r->waiting_ns).s);
    ka_show_row(f, x, r->worst, r->worst_ns, "the run with the most waiting");
}

void ka_find_openmp_imbalance(ka_finder *f)
{
    ka_openmp_regions list = {0};
    int64_t whole_ns = find_whole_ns(f);
    f->no_memory |= !ka_openmp_regions_find(f->s, &list);
    for (size_t i = 0; i < list.count && !f->no_memory; i++)
        if (is_region_imbalanced(&list.data[i], whole_ns))
            report_imbalance(f, &list.data[i], whole_ns);
    kb_vec_free(&list);
}

/* Derived columns of a trace (order, lanes, parents, launches): each stage is built once,
 * on first use, under the mutex, and then read by any thread without a lock. A stage is
 * complete before its bit appears in `ready` (release store, acquire load), and never
 * changes afterwards. */
#include "trace/model/model.h"

void kt_derived_free(kt_store *store, kt_derived *d)
{
    void *const large[] = {d->order,   d->time_order, d->parent,  d->lane,
                           d->self_ns, d->launch,     d->launched};
    pthread_mutex_destroy(&d->mutex);
    for (size_t i = 0; i < KB_COUNT(large); i++)
        kt_store_free(store, large[i]);
    free(d->track_first);
    free(d->lane_count);
}

/* The stages, each after the stages that it needs. */
static const struct {
    kt_stage stage;
    uint32_t needs;
    bool (*build)(kineto_trace *);
} stages[] = {{KT_STAGE_ORDER, 0, kt_build_order},
              {KT_STAGE_LANES, KT_STAGE_ORDER, kt_build_lanes},
              {KT_STAGE_NESTING, KT_STAGE_ORDER, kt_build_nesting},
              {KT_STAGE_LINKS, 0, kt_build_links}};

/* With the mutex held: builds a stage and those that it needs. False: out of memory; stages
 * that are complete stay. */
static bool build_stages(kineto_trace *t, kt_stage wanted)
{
    uint32_t missing = wanted;
    for (size_t i = KB_COUNT(stages); i-- > 0;)
        if (missing & stages[i].stage)
            missing |= stages[i].needs;
    for (size_t i = 0; i < KB_COUNT(stages); i++) {
        uint32_t bit = stages[i].stage;
        if (!(missing & bit) || (t->derived.ready & bit))
            continue;
        if (!stages[i].build(t))
            return false;
        kb_store_release(&t->derived.ready, t->derived.ready | bit);
    }
    return true;
}

bool kt_need(const kineto_trace *trace, kt_stage stage)
{
    if (kb_load_acquire(&trace->derived.ready) & stage)
        return true;
    /* The only place that writes to a finished trace: caches, under the mutex. */
    kineto_trace *t = (kineto_trace *)(uintptr_t)trace;
    pthread_mutex_lock(&t->derived.mutex);
    bool ok = build_stages(t, stage);
    pthread_mutex_unlock(&t->derived.mutex);
    return ok;
}

bool kt_prepare(const kineto_trace *t, bool nesting, bool links)
{
    return kt_need(t, KT_STAGE_ORDER) && kt_need(t, KT_STAGE_LANES) &&
           (!nesting || kt_need(t, KT_STAGE_NESTING)) && (!links || kt_need(t, KT_STAGE_LINKS));
}

const kineto_row *kineto_trace_track_rows(const kineto_trace *t, uint32_t track)
{
    if (!t || track >= t->tracks.count || !kt_need(t, KT_STAGE_ORDER))
        return NULL;
    return t->derived.order + t->derived.track_first[track];
}

const kineto_row *kineto_trace_time_order(const kineto_trace *t)
{
    return t && kt_need(t, KT_STAGE_ORDER) ? t->derived.time_order : NULL;
}

kineto_row kineto_trace_parent(const kineto_trace *t, kineto_row row)
{
    if (!t || row >= t->count || !kt_need(t, KT_STAGE_NESTING))
        return KINETO_NO_ROW;
    return t->derived.parent[row];
}

int64_t kineto_trace_self_ns(const kineto_trace *t, kineto_row row)
{
    bool exists = t && row < t->count && kt_need(t, KT_STAGE_NESTING);
    return exists ? t->derived.self_ns[row] : 0;
}

uint32_t kineto_trace_lane(const kineto_trace *t, kineto_row row)
{
    if (!t || row >= t->count || !kt_need(t, KT_STAGE_LANES))
        return 0;
    return t->derived.lane ? t->derived.lane[row] : 0;
}

/* The row that is linked from a row, by binary search; KINETO_NO_ROW: none. */
static kineto_row find_linked_row(const kt_link *links, size_t count, kineto_row from)
{
    size_t i = 0;
    KB_LOWER_BOUND(i, count, links[i].from < from);
    return i < count && links[i].from == from ? links[i].to : KINETO_NO_ROW;
}

kineto_row kineto_trace_launch(const kineto_trace *t, kineto_row device_row)
{
    if (!t || !kt_need(t, KT_STAGE_LINKS))
        return KINETO_NO_ROW;
    return find_linked_row(t->derived.launch, t->derived.launch_count, device_row);
}

kineto_row kineto_trace_launched(const kineto_trace *t, kineto_row host_row)
{
    if (!t || !kt_need(t, KT_STAGE_LINKS))
        return KINETO_NO_ROW;
    return find_linked_row(t->derived.launched, t->derived.launched_count, host_row);
}

/* Checks each track in the order of time: slices of a thread nest, device work on one queue does
 * not overlap, and no activity occurs twice. What hardware and profilers do by design (graphs,
 * dependent launches, asynchronous annotations, rounding) is only a note. */
#include "analyze/verify/verify.h"
#include "trace/bytes/json_value.h"

/* The columns of a row that these checks compare. */
typedef struct slice {
    int64_t start_ns, end_ns;
    kineto_row row;
    uint32_t name, kind;
    uint64_t correlation_id, external_id;
} slice;

/* The state of the pass over tracks; slices and stack are reused by all of them. */
typedef struct pass {
    ka_verify *v;
    KB_VEC(slice) slices; /* of one track, in order */
    KB_VEC(const slice *) stack;
    bool may_overlap; /* the device starts work before the previous work has ended */
    ka_tally crossing, skew, annotations, overlap, legal, duplicate;
    int64_t worst_crossing_ns, worst_overlap_ns, worst_legal_ns;
    double busiest; /* how many activities ran at once, on average, on a queue */
    ka_tally busy;
} pass;

/* Slices of a track in the order of its rows; rows with implausible times are left out. */
static void load_track_slices(pass *p, uint32_t track)
{
    const kineto_row *rows = kineto_trace_track_rows(p->v->t, track);
    kineto_track about;
    kineto_trace_track(p->v->t, track, &about);
    p->slices.count = 0;
    p->v->no_memory |= !rows && about.count;
    for (uint64_t i = 0; rows && i < about.count; i++) {
        ka_row r = ka_row_at(p->v, rows[i]);
        const kt_block *b = r.block;
        if (!b || ka_is_implausible(p->v, rows[i]) || b->form[r.index] != KINETO_FORM_SLICE)
            continue;
        slice s = {b->start_ns[r.index],   b->end_ns[r.index], rows[i],
                   b->name[r.index],       b->kind[r.index],   b->correlation_id[r.index],
                   b->external_id[r.index]};
        if (!kb_vec_push(&p->slices, s))
            p->v->no_memory = true;
    }
}

/* Equal ones stand side by side in the order; without an id two short calls may well be equal. */
static void check_duplicates(pass *p)
{
    for (size_t i = 1; i < p->slices.count; i++) {
        const slice *a = &p->slices.data[i - 1], *b = &p->slices.data[i];
        if (a->start_ns == b->start_ns && a->end_ns == b->end_ns && a->name == b->name &&
            a->kind == b->kind && a->correlation_id == b->correlation_id &&
            a->external_id == b->external_id && (a->correlation_id || a->external_id) &&
            a->end_ns > a->start_ns)
            ka_tally_add(p->v, &p->duplicate, b->row);
    }
}

/* ---- threads: a stack of what runs ----------------------------------------------------------- */

/* Annotations may cross calls: some are asynchronous, and next to Python frames they begin and end
 * inside those of their own __enter__ and __exit__, and in what these call. */
static bool is_annotation(const slice *s) { return s->kind == KINETO_KIND_USER_ANNOTATION; }

/* Is it __enter__ or __exit__ of a context manager? */
static bool is_scope(const pass *p, const slice *s)
{
    return p->v->names[KB_MIN(s->name, p->v->name_count)] & KA_NAME_SCOPE;
}

/* What a slice crosses has to leave the stack, which holds what nests. */
static void check_slice_crossing(pass *p, const slice *s)
{
    bool crosses = false, scope = is_scope(p, s);
    int64_t worst_ns = 0; /* of those that may not */
    while (p->stack.count && p->stack.data[p->stack.count - 1]->end_ns < s->end_ns) {
        const slice *other = p->stack.data[--p->stack.count];
        int64_t ns = KB_MIN(kb_length_ns(s->start_ns, other->end_ns),
                            kb_length_ns(other->end_ns, s->end_ns));
        crosses = true;
        scope = scope || is_scope(p, other);
        if (!is_annotation(s) && !is_annotation(other))
            worst_ns = KB_MAX(worst_ns, ns);
    }
    if (!crosses)
        return;
    ka_tally *tally = scope || !worst_ns          ? &p->annotations
                      : worst_ns > KA_ROUNDING_NS ? &p->crossing
                                                  : &p->skew;
    ka_tally_add(p->v, tally, s->row);
    if (tally == &p->crossing)
        p->worst_crossing_ns = KB_MAX(p->worst_crossing_ns, worst_ns);
}

/* Host slices nest; those that end inside another one cross it. */
static void check_crossing(pass *p)
{
    p->stack.count = 0;
    for (size_t i = 0; i < p->slices.count; i++) {
        const slice *s = &p->slices.data[i];
        if (!ka_is_host(s->kind))
            continue;
        while (p->stack.count && p->stack.data[p->stack.count - 1]->end_ns <= s->start_ns)
            p->stack.count--;
        check_slice_crossing(p, s);
        if (s->end_ns > s->start_ns && !kb_vec_push(&p->stack, s))
            p->v->no_memory = true;
    }
}

/* ---- queues ---------------------------------------------------------------------------------- */

/* Overlap beyond rounding, of most of the shorter one, and not within one launch (of a graph). */
static void check_pair(pass *p, const slice *running, const slice *s)
{
    int64_t ns = kb_length_ns(s->start_ns, KB_MIN(running->end_ns, s->end_ns));
    int64_t shorter = KB_MIN(kb_length_ns(s->start_ns, s->end_ns),
                             kb_length_ns(running->start_ns, running->end_ns));
    bool legal = p->may_overlap || ns <= 10 * KA_ROUNDING_NS || ns < shorter / 2 ||
                 (s->correlation_id && s->correlation_id == running->correlation_id);
    ka_tally_add(p->v, legal ? &p->legal : &p->overlap, s->row);
    if (legal)
        p->worst_legal_ns = KB_MAX(p->worst_legal_ns, ns);
    else
        p->worst_overlap_ns = KB_MAX(p->worst_overlap_ns, ns);
}

/* More than a hundred at once on one queue: durations have the wrong unit, not the starts. */
static bool units_differ(pass *p, uint64_t count, double busy_ns, int64_t first, int64_t last)
{
    double span = (double)last - (double)first;
    if (count < 4 || span <= 0 || busy_ns < 100 * span)
        return false;
    p->busiest = KB_MAX(p->busiest, busy_ns / span);
    return true;
}

/* Queues on which far too much runs at once have the wrong unit; their pairs are not reported. */
static void check_overlap(pass *p)
{
    const slice *running = NULL, *first = NULL, *last = NULL;
    uint64_t count = 0;
    double busy_ns = 0;
    for (size_t i = 0; i < p->slices.count; i++) {
        const slice *s = &p->slices.data[i];
        if (!kt_kind_is_work(s->kind))
            continue;
        first = first ? first : s;
        last = s;
        count++;
        busy_ns += (double)kb_length_ns(s->start_ns, s->end_ns);
    }
    if (!last)
        return;
    busy_ns -= (double)kb_length_ns(last->start_ns, last->end_ns);
    if (units_differ(p, count, busy_ns, first->start_ns, last->start_ns)) {
        ka_tally_add(p->v, &p->busy, first->row);
        return;
    }
    for (size_t i = 0; i < p->slices.count && !p->v->units_are_mixed; i++) {
        const slice *s = &p->slices.data[i];
        if (!kt_kind_is_work(s->kind))
            continue;
        if (running && s->start_ns < running->end_ns && s->end_ns > s->start_ns)
            check_pair(p, running, s);
        if (!running || s->end_ns > running->end_ns)
            running = s;
    }
}

/* ---- all tracks ------------------------------------------------------------------------------ */

/* NVIDIA devices from Hopper on overlap dependent launches on purpose. */
static bool overlaps_by_design(const ka_verify *v, uint32_t process)
{
    kineto_process p;
    kineto_trace_process(v->t, process, &p);
    int64_t major;
    return kt_value_whole(kt_member_of(p.properties_json, "computeMajor"), &major) && major >= 9;
}

/* Tracks with device work are queues, all others threads. */
static void check_track(pass *p, uint32_t index)
{
    const ka_track *track = &p->v->tracks[index];
    if (!track->work && !(track->host && track->type == KINETO_TRACK_THREAD))
        return;
    load_track_slices(p, index);
    check_duplicates(p);
    if (track->work) {
        p->may_overlap = overlaps_by_design(p->v, track->process);
        check_overlap(p);
    } else {
        check_crossing(p);
    }
}

/* Findings of all tracks together. */
static void report_track_rules(pass *p)
{
    ka_verify *v = p->v;
    ka_find(v, KA_RULE_UNITS_MIXED, KINETO_SEVERITY_ERROR, &p->busy,
            "queues on which %.0f activities run at once, on average: durations are too long for "
            "their starts",
            p->busiest);
    ka_find(v, KA_RULE_THREAD_PARTIAL_OVERLAP, KINETO_SEVERITY_WARNING, &p->crossing,
            "slices cross the one they began in, by up to %s", kb_duration(p->worst_crossing_ns).s);
    ka_find(v, KA_RULE_THREAD_PARTIAL_OVERLAP, KINETO_SEVERITY_NOTE, &p->skew,
            "slices cross the one they began in by less than a microsecond");
    ka_find(v, KA_RULE_THREAD_PARTIAL_OVERLAP, KINETO_SEVERITY_NOTE, &p->annotations,
            "annotations cross calls, or calls annotations, at their edges");
    ka_find(v, KA_RULE_TRACK_OVERLAP, KINETO_SEVERITY_WARNING, &p->overlap,
            "device activities run while another one of their queue does, for up to %s",
            kb_duration(p->worst_overlap_ns).s);
    ka_find(
        v, KA_RULE_TRACK_OVERLAP, KINETO_SEVERITY_NOTE, &p->legal,
        "device activities overlap for up to %s: nodes of one graph, rounding, or a device that "
        "does so by design",
        kb_duration(p->worst_legal_ns).s);
    ka_find(v, KA_RULE_ROWS_DUPLICATE, KINETO_SEVERITY_WARNING, &p->duplicate,
            "activities repeat the previous one");
}

/* Tracks are independent of each other. */
void ka_verify_tracks(ka_verify *v)
{
    pass p = {.v = v};
    for (uint32_t i = 0; i < v->track_count && !v->no_memory; i++)
        check_track(&p, i);
    report_track_rules(&p);
    kb_vec_free(&p.slices);
    kb_vec_free(&p.stack);
}

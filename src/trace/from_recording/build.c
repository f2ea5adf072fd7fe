/* Builds a trace from a recording: decodes its chunks (kf_decode calls back for each
 * event), turns events inside the window into rows, and derives what needs all rows: flows,
 * links, the header, the ledger.
 *
 * The table `passes` at the end states the order of the steps and the reasons. One thread
 * builds. Everything in a recording is untrusted, the control page included: another
 * process may have written it. */
#include "trace/from_recording/build_watched.h"

/* ---- window ---------------------------------------------------------------------------------- */

/* True if the thread selection (options.threads) includes the event. */
static bool is_thread_selected(const kt_build_options *o, const kf_event *e)
{
    if (e->form == KF_FORM_DEVICE)
        return true;
    for (size_t i = 0; i < o->thread_count; i++) {
        const kt_build_thread_span *span = &o->threads[i];
        if (span->tid == e->tid && e->end >= span->from_ticks &&
            (!span->to_ticks || e->start <= span->to_ticks))
            return true;
    }
    return false;
}

/* True if the event began while this session was paused: other sessions may have recorded
 * meanwhile. */
static bool is_in_pause(const kt_build_state *s, const kf_event *e)
{
    const kt_build_options *o = &s->options;
    int64_t ns = 0;
    bool ticks = e->form != KF_FORM_DEVICE;
    if (!o->pause_count || (!ticks && !kt_build_ns(s, e->process, e->clock, e->start, &ns)))
        return false;
    for (size_t i = 0; i < o->pause_count; i++) {
        uint64_t from = o->pauses[i].from_ticks;
        uint64_t to = o->pauses[i].to_ticks ? o->pauses[i].to_ticks : UINT64_MAX >> 2;
        if (ticks ? e->start >= from && e->start < to
                  : ns >= kb_clock_fit_ns(&s->fit, from) && ns < kb_clock_fit_ns(&s->fit, to))
            return true;
    }
    return false;
}

/* True if the options select the event by kind, scope and thread. */
static bool is_event_selected(const kt_build_state *s, const kf_event *e)
{
    const kt_build_options *o = &s->options;
    bool kind = KINETO_LIKELY(e->kind < KINETO_KIND_COUNT)
                    ? (o->kinds & KINETO_KIND_BIT(e->kind)) != 0
                    : kf_kind_wanted(s->own_kinds, o->kinds, e->kind);
    bool scope = !e->function || (o->wants & KF_WANT_SCOPE(e->site->scope & 15u));
    return kind && scope && (!o->threads || is_thread_selected(o, e));
}

static uint32_t row_flags_of_event(uint32_t event_flags)
{
    return (event_flags & KF_EVENT_OPEN_START ? KINETO_ACTIVITY_OPEN_START : 0) |
           (event_flags & KF_EVENT_OPEN_END ? KINETO_ACTIVITY_OPEN_END : 0) |
           (event_flags & KF_EVENT_ARGS_LOST ? KINETO_ACTIVITY_ARGS_LOST : 0);
}

/* Clips a row at the exact times of the window, where ticks are coarser. */
static void clip_row_exactly(const kt_build_state *s, kt_row *row)
{
    row->start_ns = KB_MIN(KB_MAX(row->start_ns, s->start_ns), s->end_ns);
    row->end_ns = KB_MAX(KB_MIN(row->end_ns, s->end_ns), row->start_ns);
}

/* The range of a host event in ticks, in relation to the window. */
typedef struct tick_range {
    uint64_t start, end;
    uint64_t window_start, window_end; /* 0 and UINT64_MAX if the window is open */
    bool is_open;                      /* its end was not recorded */
} tick_range;

/* The range of an event, with ends that were not recorded:
 *
 *          | recorded  | not recorded
 *    start | as it is  | asynchronous ranges: at the window's start or before it
 *    end   | as it is  | at the window's end, if options.clip_open; else at the last known time */
KB_INLINE tick_range resolve_tick_range(const kt_build_options *o, const kf_event *e)
{
    tick_range r = {.start = e->start,
                    .end = e->end,
                    .window_start = o->start_ticks,
                    .window_end = o->end_ticks ? o->end_ticks : UINT64_MAX,
                    .is_open = (e->flags & KF_EVENT_STILL_OPEN) != 0};
    bool has_no_start = (e->flags & KF_EVENT_OPEN_START) && e->form == KF_FORM_ASYNC;
    if (r.is_open && o->clip_open && o->end_ticks)
        r.end = KB_MAX(r.end, r.window_end);
    if (has_no_start && o->start_ticks)
        r.start = KB_MIN(r.start, r.window_start);
    return r;
}

/* True if the range has a part in the window. A window in ticks includes its edges; an edge
 * that is exact in ns (options.from_ns, until_ns) belongs to the neighbouring window, except
 * for moments:
 *
 *    range                   | edge in ticks | exact edge
 *    ends before the window  | outside       | outside
 *    ends at its start       | inside        | outside, unless it is a moment
 *    begins at its end       | inside        | outside, unless it is a moment and has ended
 *    begins after the window | outside       | outside */
KB_INLINE bool is_range_in_window(const kt_build_options *o, const tick_range *r)
{
    bool is_moment = r->start == r->end;
    bool ends_at_start = r->end == r->window_start && r->start < r->end;
    bool begins_at_end = r->start == r->window_end && (r->start < r->end || r->is_open);
    KB_ASSERT(!is_moment || !ends_at_start);
    if (r->end < r->window_start || r->start > r->window_end)
        return false;
    return !(ends_at_start && o->from_ns) && !(begins_at_end && o->until_ns);
}

/* Sets the times of a host event, clipped at the window, and flags clipped ends. False: outside. */
static bool place_host_row(kt_build_state *s, const kf_event *e, kt_row *row)
{
    const kt_build_options *o = &s->options;
    tick_range r = resolve_tick_range(o, e);
    /* Its end may be in a part of the recording that is gone. */
    if (r.is_open && e->form == KF_FORM_ASYNC && e->start <= o->complete_from)
        return false;
    if (!is_range_in_window(o, &r))
        return false;
    bool has_length = !r.is_open || o->end_ticks; /* if not, it may have gone on for long */
    if (e->least_ns && has_length && (uint64_t)(kb_clock_fit_ns(&s->fit, KB_MIN(r.end, r.window_end)) -
                                  kb_clock_fit_ns(&s->fit, r.start)) < e->least_ns)
        return false;
    if (r.start < r.window_start) {
        r.start = r.window_start;
        row->flags |= KINETO_ACTIVITY_OPEN_START;
    }
    if (r.end > r.window_end) {
        r.end = r.window_end;
        row->flags |= KINETO_ACTIVITY_OPEN_END;
    }
    row->start_ns = kb_clock_fit_ns(&s->fit, r.start);
    row->end_ns = r.start == r.end ? row->start_ns : kb_clock_fit_ns(&s->fit, r.end);
    if (KINETO_UNLIKELY(o->from_ns))
        clip_row_exactly(s, row);
    return true;
}

bool kt_build_place(kt_build_state *s, uint64_t start_ticks, uint64_t end_ticks, bool is_open,
                    kt_row *row)
{
    kf_event e = {.form = KF_FORM_RANGE,
                  .start = start_ticks,
                  .end = end_ticks,
                  .flags = is_open ? KF_EVENT_OPEN_END | KF_EVENT_STILL_OPEN : 0};
    return place_host_row(s, &e, row);
}

#define DAY_NS (INT64_C(86400) * 1000000000)
#define FAR_NS INT64_C(4000000000000000000) /* the years 1843 to 2096 */

/* Clips a device time that is days away from the window: it is wrong, and would stretch the
 * whole trace. */
static void clip_distant_row(kt_build_state *s, uint32_t source, kt_row *row)
{
    int64_t low = KB_MAX(s->start_ns, -FAR_NS) - DAY_NS, high = KB_MIN(s->end_ns, FAR_NS) + DAY_NS;
    if (KINETO_LIKELY(row->start_ns >= low && row->end_ns <= high))
        return;
    s->cut_time[source]++;
    row->flags |= row->start_ns < low ? KINETO_ACTIVITY_OPEN_START : 0;
    row->flags |= row->end_ns > high ? KINETO_ACTIVITY_OPEN_END : 0;
    row->start_ns = KB_MIN(KB_MAX(row->start_ns, low), high);
    row->end_ns = KB_MAX(KB_MIN(row->end_ns, high), row->start_ns);
}

/* True for a time in the recording before this window: the event belongs to an earlier
 * window, and is not counted as lost. */
static bool is_of_earlier_window(const kt_build_state *s, int64_t ns)
{
    return ns < s->start_ns && ns >= kb_clock_fit_ns(&s->fit, s->first_ticks);
}

/* Sets the times of a device event. They are not clipped at the window, because devices
 * report when work really began and ended. `moment`: only the start counts. False: outside,
 * or begun before a window that leaves such work out, or its clock is unknown. */
static bool place_device_row(kt_build_state *s, const kf_event *e, bool moment, kt_row *row)
{
    if (!kt_build_ns(s, e->process, e->clock, e->start, &row->start_ns) ||
        !kt_build_ns(s, e->process, e->clock, e->end, &row->end_ns)) {
        s->no_clock++;
        return false;
    }
    if (moment)
        row->end_ns = row->start_ns;
    if (s->options.drop_early_devices && row->start_ns < s->start_ns)
        return false;
    int64_t last = KB_MAX(row->start_ns, row->end_ns);
    if (last < s->start_ns || row->start_ns > s->end_ns) {
        s->out_of_window[e->source] += !is_of_earlier_window(s, last);
        return false;
    }
    if (KINETO_UNLIKELY(row->end_ns < row->start_ns)) {
        s->bad_time[e->source]++;
        row->end_ns = row->start_ns;
    }
    clip_distant_row(s, e->source, row);
    return true;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* String id of a name of the dictionary. The dictionary does not move, so the address
 * identifies the name, and a direct-mapped cache by address avoids hashing. */
static uint32_t intern_dictionary_name(kt_build_state *s, kineto_string name)
{
    size_t place = ((uintptr_t)name.data >> 3) % KT_BUILD_NAMES;
    if (KINETO_UNLIKELY(s->names[place].data != name.data || s->names[place].size != name.size)) {
        s->names[place].id = kt_string(s->b, name);
        s->names[place].data = name.data;
        s->names[place].size = name.size;
    }
    return s->names[place].id;
}

/* String id of the name of an event. */
static uint32_t event_name_id(kt_build_state *s, const kf_event *e)
{
    if (e->form == KF_FORM_MEMORY)
        return kt_string(s->b,
                         kb_string(e->flags & KF_EVENT_NO_MEMORY ? "[OutOfMemory]" : "[memory]"));
    if (!e->site)
        return intern_dictionary_name(s, e->name);
    if (e->name.data != e->site->name.data || e->name.size != e->site->name.size)
        return kt_string(s->b, e->name);
    const kt_build_site *site = kt_build_site_of(s, e->site);
    s->out_of_memory |= !site;
    return site ? site->name - 1 : 0;
}

/* Remembers a launch or a launched row for derive_launch_flows. */
static void remember_correlated_row(kt_build_state *s, kt_correlated_list *list, const kt_row *row,
                                    kineto_row number)
{
    kt_correlated item = {row->correlation_id, row->start_ns, number};
    s->out_of_memory |= !kb_vec_push(list, item);
}

/* True if the event states no flow, or only that the flow of its launch ends here: then
 * both ends are derived from the correlation id. */
static bool is_flow_derived(const kf_event *e)
{
    return !e->flow_type || (e->flow_type == KINETO_FLOW_ASYNC_CPU_GPU && !e->flow_start &&
                             e->flow_id == (uint32_t)e->correlation_id);
}

/* Appends the row of an event, with its name, ids, args and flows. */
static void append_event_row(kt_build_state *s, const kf_event *e, kt_row *row)
{
    row->name = kt_build_has_code(e) ? kt_build_code_name(s, e) : event_name_id(s, e);
    row->correlation_id = kt_build_id(s, e->correlation_id);
    row->external_id = kt_build_id(s, e->external_id);
    if (e->function)
        kt_build_function(s, e, row);
    if (e->args.words || e->more_count)
        kt_build_stage_args(s, e, &row->flags);
    else if (e->set)
        kt_build_stage_set(s, e, &row->flags);
    if (e->form == KF_FORM_DEVICE && e->source == KF_SOURCE_API)
        kt_build_backend(s, e);
    kineto_row number = kt_append(s->b, row);
    if (row->correlation_id && row->form == KINETO_FORM_SLICE) {
        if (kt_kind_is_launch(row->kind))
            remember_correlated_row(s, &s->launches, row, number);
        else if (kt_kind_is_device(row->kind) && is_flow_derived(e))
            remember_correlated_row(s, &s->launched, row, number);
    }
    if (!is_flow_derived(e))
        kt_flow(s->b, e->flow_type, kt_build_id(s, e->flow_id), number, e->flow_start);
    for (uint32_t i = 0; i < e->flow_count; i++)
        kt_flow(s->b, e->flows[i].type, kt_build_id(s, e->flows[i].id), number, e->flows[i].start);
}

static uint32_t process_counter_track(kt_build_state *s, uint32_t process_row)
{
    return kt_track(s->b, process_row, KINETO_TRACK_COUNTER, 0);
}

static void stage_memory_args(kt_build_state *s, const kf_event *e)
{
    static const char *const keys[] = {"Addr", "Bytes", "Total Allocated", "Total Reserved"};
    kt_builder *b = s->b;
    kt_args_put_int(b, kt_string(b, kb_string("Device Type")), (int32_t)(uint32_t)e->memory[4]);
    kt_args_put_int(b, kt_string(b, kb_string("Device Id")), (int32_t)(e->memory[4] >> 32));
    for (size_t i = e->flags & KF_EVENT_NO_MEMORY ? 1 : 0; i < KB_COUNT(keys); i++) {
        uint32_t key = kt_string(b, kb_string(keys[i]));
        if (i == 1)
            kt_args_put_int(b, key, (int64_t)e->memory[i]);
        else
            kt_args_put_uint(b, key, e->memory[i]);
    }
}

/* Remembers the row if its name is that of a collective. For names of sites this is known
 * already. */
static void remember_collective_row(kt_build_state *s, const kf_event *e, const kt_row *row)
{
    bool of_site = e->site && e->name.data == e->site->name.data && e->site->index < s->sites.count;
    if (KINETO_UNLIKELY(of_site ? s->sites.data[e->site->index].collective
                                : kt_build_is_collective(e->name)))
        kt_build_add_collective(s, e, row);
}

/* An event of the host: a range, instant, counter or memory event, or an asynchronous range. */
static void build_host_event(kt_build_state *s, const kf_event *e)
{
    kt_row row = {.flags = row_flags_of_event(e->flags), .form = KINETO_FORM_SLICE};
    if (!place_host_row(s, e, &row)) {
        s->out_of_window[KF_SOURCE_API]++;
        return;
    }
    kt_build_kind(s, e, &row);
    switch (e->form) {
    case KF_FORM_ASYNC:
        row.form = KINETO_FORM_ASYNC;
        row.async_id = e->async_id;
        row.track = kt_track(s->b, kt_build_process_row(s, s->here), KINETO_TRACK_ASYNC, 0);
        break;
    case KF_FORM_COUNTER:
        row.form = KINETO_FORM_COUNTER;
        row.track = process_counter_track(s, kt_build_process_row(s, s->here));
        break;
    case KF_FORM_MEMORY:
        stage_memory_args(s, e);
        row.form = KINETO_FORM_INSTANT;
        row.flags |= KT_WRITER(s->here_writer);
        row.category = kt_string(s->b, kb_string("cpu_instant_event")); /* as Kineto writes it */
        if (e->flags & KF_EVENT_NO_MEMORY) /* not an allocation: it must not be summed */
            row.kind = KINETO_KIND_CPU_INSTANT_EVENT;
        row.track = kt_build_thread_track(s);
        break;
    default:
        row.form = e->form == KF_FORM_INSTANT ? KINETO_FORM_INSTANT : KINETO_FORM_SLICE;
        row.flags |= KT_WRITER(s->here_writer);
        row.track = kt_build_thread_track(s);
    }
    append_event_row(s, e, &row);
    if (row.external_id && e->form == KF_FORM_RANGE)
        remember_collective_row(s, e, &row);
    s->delivered++;
}

/* True if a source reports a host activity: its device and resource are process and thread. */
static bool is_reported_host_activity(const kf_event *e, uint32_t kind)
{
    switch (kind) {
    case KINETO_KIND_CPU_OP:
    case KINETO_KIND_USER_ANNOTATION:
    case KINETO_KIND_EXTERNAL_CORRELATION:
    case KINETO_KIND_RUNTIME:
    case KINETO_KIND_DRIVER:
    case KINETO_KIND_CPU_INSTANT_EVENT:
    case KINETO_KIND_PYTHON_FUNCTION:
        return true;
    case KINETO_KIND_OVERHEAD:
        return (uint32_t)e->device == e->pid;
    default:
        return false;
    }
}

/* Makes the process and thread of a reported host activity current. */
static void locate_reported_activity(kt_build_state *s, const kf_event *e)
{
    uint32_t pid = e->device > 0 ? (uint32_t)e->device : e->pid;
    uint32_t tid = e->resource > 0 ? (uint32_t)e->resource : e->tid;
    kt_build_select_thread(s, pid == e->pid ? e->process : 0, pid, tid);
}

static bool is_counter_kind(uint32_t kind)
{
    return kind == KINETO_KIND_COUNTER || kind == KINETO_KIND_GPU_PM_COUNTER;
}

/* An activity that a source reports, of a device or of the host. */
static void build_device_event(kt_build_state *s, const kf_event *e)
{
    kt_row row = {.flags = row_flags_of_event(e->flags), .form = KINETO_FORM_SLICE};
    kt_build_kind(s, e, &row);
    if (is_counter_kind(row.kind))
        row.form = KINETO_FORM_COUNTER;
    else if (row.kind == KINETO_KIND_CPU_INSTANT_EVENT)
        row.form = KINETO_FORM_INSTANT;
    if (!place_device_row(s, e, row.form != KINETO_FORM_SLICE, &row))
        return;
    if (row.form == KINETO_FORM_COUNTER) {
        row.track = process_counter_track(s, kt_build_device_row(s, e->source, e->device));
    } else if (is_reported_host_activity(e, row.kind)) {
        locate_reported_activity(s, e);
        if (s->out_of_memory)
            return;
        row.track = kt_build_thread_track(s);
    } else {
        row.track = kt_build_stream_track(s, e->source, e->device, e->resource);
    }
    append_event_row(s, e, &row);
}

/* Callback of the decoder: one event. */
static kineto_status build_event(void *state, const kf_event *e)
{
    kt_build_state *s = state;
    if (!is_event_selected(s, e) || is_in_pause(s, e))
        return KINETO_OK;
    kt_build_select_thread(s, e->process, e->pid, e->tid);
    if (s->out_of_memory)
        return KINETO_E_MEMORY;
    if (s->options.root_pid && !kt_build_below_root(s))
        return KINETO_OK;
    if (e->form == KF_FORM_DEVICE)
        build_device_event(s, e);
    else
        build_host_event(s, e);
    return s->out_of_memory ? KINETO_E_MEMORY : KINETO_OK;
}

/* ---- flows ----------------------------------------------------------------------------------- */

/* Adds a flow from each launch to the rows that it launched, as Kineto does, unless the
 * source stated one. */
static void derive_launch_flows(kt_build_state *s)
{
    const kt_correlated *started = NULL;
    if (!s->launches.count || !s->launched.count)
        return;
    KB_ASSERT(s->launches.data[s->launches.count - 1].row < s->b->trace->count);
    kt_sort_correlated(s->launches.data, s->launches.count);
    kt_sort_correlated(s->launched.data, s->launched.count);
    for (size_t i = 0; i < s->launched.count; i++) {
        const kt_correlated *to = &s->launched.data[i];
        const kt_correlated *from =
            kt_find_launch(s->launches.data, s->launches.count, to->id, to->start_ns);
        if (!from)
            continue;
        if (from != started)
            kt_flow(s->b, KINETO_FLOW_ASYNC_CPU_GPU, from->id, from->row, true);
        started = from;
        kt_flow(s->b, KINETO_FLOW_ASYNC_CPU_GPU, to->id, to->row, false);
    }
}

/* ---- the clock and the window ---------------------------------------------------------------- */

/* Drops the snapshots before the epoch; if all are, the last one stays. */
static void drop_old_snapshots(kt_build_state *s)
{
    uint32_t from = 0;
    s->first_ticks = s->snapshots[0].ticks;
    while (from + 1 < s->snapshot_count && s->snapshots[from].ticks < s->options.epoch_ticks)
        from++;
    KB_ASSERT(from < s->snapshot_count);
    s->snapshot_count -= from;
    memmove(s->snapshots, s->snapshots + from, s->snapshot_count * sizeof *s->snapshots);
}

/* The ticks of an edge of the window: the first in [low, high] that are not before *ns. If `ticks`
 * are known and between low and high, they decide, and *ns receives their time. */
static uint64_t find_window_edge(const kt_build_state *s, int64_t *ns, uint64_t ticks, uint64_t low,
                                 uint64_t high)
{
    if (ticks > low && ticks < high) {
        *ns = kb_clock_fit_ns(&s->fit, ticks);
        return ticks;
    }
    KB_LOWER_BOUND(low, high, kb_clock_fit_ns(&s->fit, low) < *ns);
    return low;
}

/* Makes the window exact to the nanosecond, also if ticks are coarser: ranges are clipped
 * at its times, and ticks decide on which side of an edge other events are. */
static void set_exact_window(kt_build_state *s)
{
    kt_build_options *o = &s->options;
    uint64_t last = o->end_ticks;
    if (!o->from_ns || !o->start_ticks || !last)
        return;
    if (o->requested_from)
        KB_LOWER_BOUND(o->requested_from, last,
                       kb_clock_fit_ns(&s->fit, o->requested_from) < o->from_ns);
    o->start_ticks = find_window_edge(s, &o->from_ns, o->from_ticks, o->start_ticks, last);
    s->start_ns = KB_MAX(o->from_ns, s->start_ns);
    if (o->until_ns && o->until_ns < s->end_ns) {
        o->end_ticks = find_window_edge(s, &o->until_ns, o->until_ticks, o->start_ticks, last);
        s->end_ns = KB_MAX(o->until_ns, s->start_ns);
    }
}

/* Pass: fits a line through the clock snapshots, and converts the window. The control page
 * is untrusted. */
static kineto_status fit_recording_clock(kt_build_state *s, kineto_error *err)
{
    uint32_t count = kb_load_acquire(&s->control->snapshot_count);
    s->snapshot_count = KB_MIN(count, KF_MAX_SNAPSHOTS);
    memcpy(s->snapshots, s->control->snapshots, s->snapshot_count * sizeof *s->snapshots);
    if (s->snapshot_count == 0)
        return kb_fail(err, KINETO_E_FORMAT,
                       "the recording has no clock snapshot; its times cannot be converted");
    drop_old_snapshots(s);
    for (uint32_t i = 0; i < s->snapshot_count; i++)
        kt_snapshot(s->b, &s->snapshots[i]);
    bool here = kb_os_is_this_boot((const char *)s->control->boot_id, sizeof s->control->boot_id);
    kineto_status status = here ? kb_clock_fit_make(s->snapshots, s->snapshot_count, &s->fit, err)
                                : kb_clock_fit_again(s->snapshots, s->snapshot_count, &s->fit);
    const kt_build_options *o = &s->options;
    s->start_ns = o->start_ticks && !status ? kb_clock_fit_ns(&s->fit, o->start_ticks) : INT64_MIN;
    s->end_ns = o->end_ticks && !status ? kb_clock_fit_ns(&s->fit, o->end_ticks) : INT64_MAX;
    if (!status)
        set_exact_window(s);
    return status;
}

/* Pass: sets the window of the trace; an open edge is at the first or last event. */
static void set_trace_window_of_recording(kt_build_state *s)
{
    const kt_build_options *o = &s->options;
    const kf_decode_result *result = &s->decoded;
    uint64_t start = o->start_ticks ? o->start_ticks : result->first_ticks;
    uint64_t end = o->end_ticks ? o->end_ticks : result->last_ticks;
    if (start && end && o->from_ns)
        kt_window(s->b, s->start_ns, s->end_ns);
    else if (start && end)
        kt_window(s->b, kb_clock_fit_ns(&s->fit, start), kb_clock_fit_ns(&s->fit, end));
}

/* ---- the passes ------------------------------------------------------------------------------ */

/* Pass: interns keys of args that many rows have. */
static void intern_common_keys(kt_build_state *s)
{
    s->key_correlation = kt_string(s->b, kb_string("correlation"));
    s->key_external = kt_string(s->b, kb_string("External id"));
    s->function_keys = (kt_build_keys){
        .call_stack = kt_string(s->b, kb_string("Call stack")),
        .native_stack = kt_string(s->b, kb_string("Native stack")),
        .modules = kt_string(s->b, kb_string("Module Hierarchy")),
    };
}

/* Pass: reads the entries of the dictionary (processes, devices, names), and fits the
 * clocks of devices. */
static kineto_status read_dictionary_entries(kt_build_state *s, kineto_error *err)
{
    kf_input entries_only = s->input_kept;
    kf_visitor visitor = {.context = s, .entry = kt_build_entry};
    entries_only.chunk_count = 0;
    kineto_status status = kf_decode(&entries_only, &visitor, NULL, err);
    if (!status && s->clocks.count)
        status = kt_build_device_clocks(s, err);
    return status;
}

/* Pass: turns events into rows. It reads the chunks last: input.done may free each one. */
static kineto_status read_recorded_events(kt_build_state *s, kineto_error *err)
{
    kf_visitor visitor = {.context = s,
                          .event = build_event,
                          .thread_name = kt_build_thread_name,
                          .thread_run = kt_build_thread_run,
                          .stack_sample = kt_build_stack_sample,
                          .thread_life = kt_build_thread_life};
    kf_input input = *s->input;
    input.from_ticks = s->options.start_ticks;
    return kf_decode(&input, &visitor, &s->decoded, err);
}

/* Pass: links forward and backward operators, unless the options forbid it. */
static void link_autograd_operators(kt_build_state *s)
{
    if (!s->options.no_links)
        kt_build_nodes(s);
}

/* Pass: adds the keys of the options to the header. */
static void add_option_header(kt_build_state *s)
{
    for (uint32_t i = 0; i < s->options.metadata_count; i++)
        kt_metadata(s->b, kb_string(s->options.metadata[i]), kb_string("1"));
    for (uint32_t i = 0; i < s->options.header_count; i++)
        kt_metadata(s->b, kb_string(s->options.header[i].key),
                    kb_string(s->options.header[i].json_value));
}

/* Pass: adds the rows of GPU user annotations. */
static void project_annotations(kt_build_state *s) { kt_project_user_annotations(s->b); }

/* Pass: adds the ledger lines of the options, after those of the recording. */
static void add_option_notes(kt_build_state *s)
{
    for (uint32_t i = 0; i < s->options.note_count; i++) {
        const kt_build_note *note = &s->options.notes[i];
        kt_ledger_add(s->b, kb_string(note->source), kb_string(note->reason), note->count,
                      note->is_loss, kb_string(note->detail));
    }
}

/* Pass: lets the session add to the ledger and the header. */
static void call_sign_callback(kt_build_state *s)
{
    if (s->options.sign)
        s->options.sign(s->options.sign_context, s->b);
}

/* Bits of the passes, in the order of the table. */
enum {
    PASS_KEYS = 1 << 0,
    PASS_CLOCK = 1 << 1,
    PASS_KINDS = 1 << 2,
    PASS_ENTRIES = 1 << 3,
    PASS_EVENTS = 1 << 4,
    PASS_DEVICES = 1 << 5,
    PASS_THREADS = 1 << 6,
    PASS_FLOWS = 1 << 7,
    PASS_LINKS = 1 << 8,
    PASS_THREAD_NUMBERS = 1 << 9,
    PASS_STEPS = 1 << 10,
    PASS_HEADER = 1 << 11,
    PASS_COLLECTIVES = 1 << 12,
    PASS_RANK = 1 << 13,
    PASS_PROJECTION = 1 << 14,
    PASS_LEDGER = 1 << 15,
    PASS_NOTES = 1 << 16,
    PASS_SIGN = 1 << 17,
    PASS_WINDOW = 1 << 18,
    PASS_STATES = 1 << 19,
    PASS_SAMPLES = 1 << 20,
    PASS_FAULTS = 1 << 22,
    PASS_MESSAGES = 1 << 21
};

/* One step of building. `needs`: passes whose results it uses; they come before it in the
 * table. A pass has one of two functions: `read` may fail with an error, `run` only by
 * s->out_of_memory. */
typedef struct build_pass {
    uint32_t pass, needs;
    kineto_status (*read)(kt_build_state *s, kineto_error *err);
    void (*run)(kt_build_state *s);
} build_pass;

static const build_pass passes[] = {
    {PASS_KEYS, 0, NULL, intern_common_keys},
    {PASS_CLOCK, 0, fit_recording_clock, NULL},
    {PASS_KINDS, 0, NULL, kt_build_own_kinds},
    /* Clocks of devices are converted to the recording's clock. */
    {PASS_ENTRIES, PASS_CLOCK, read_dictionary_entries, NULL},
    {PASS_EVENTS, PASS_KEYS | PASS_CLOCK | PASS_KINDS | PASS_ENTRIES, read_recorded_events, NULL},
    {PASS_STATES, PASS_EVENTS, NULL, kt_build_thread_states},
    {PASS_SAMPLES, PASS_STATES, NULL, kt_build_samples},
    {PASS_FAULTS, PASS_EVENTS, NULL, kt_build_faults},
    /* Devices with events have their rows by now, and come before devices without events. */
    {PASS_DEVICES, PASS_EVENTS, NULL, kt_build_devices},
    /* Names of threads come as events; only threads with rows are named. */
    {PASS_THREADS, PASS_EVENTS, NULL, kt_build_name_threads},
    {PASS_FLOWS, PASS_EVENTS, NULL, derive_launch_flows},
    {PASS_MESSAGES, PASS_EVENTS, NULL, kt_build_messages},
    {PASS_LINKS, PASS_EVENTS, NULL, link_autograd_operators},
    {PASS_THREAD_NUMBERS, PASS_EVENTS, NULL, kt_build_thread_numbers},
    /* Moves starts of steps, which are annotations: before the projection. */
    {PASS_STEPS, PASS_EVENTS, NULL, kt_build_steps},
    /* A later value of a key wins: the options override the recorded header. */
    {PASS_HEADER, PASS_ENTRIES | PASS_THREAD_NUMBERS, NULL, add_option_header},
    /* Adds "distributedInfo", unless the header has it. */
    {PASS_COLLECTIVES, PASS_EVENTS | PASS_HEADER, NULL, kt_build_collectives},
    /* Adds "distributedInfo", unless the header or the collectives have it. */
    {PASS_RANK, PASS_COLLECTIVES, NULL, kt_build_rank},
    /* Appends rows: after all passes that walk the recorded rows. */
    {PASS_PROJECTION, PASS_STEPS | PASS_COLLECTIVES | PASS_LINKS, NULL, project_annotations},
    /* All passes that count have run. */
    {PASS_LEDGER, PASS_EVENTS | PASS_PROJECTION, NULL, kt_build_ledger},
    {PASS_NOTES, PASS_LEDGER, NULL, add_option_notes},
    /* The session sees a complete header and ledger. */
    {PASS_SIGN, PASS_RANK | PASS_NOTES, NULL, call_sign_callback},
    {PASS_WINDOW, PASS_EVENTS, NULL, set_trace_window_of_recording},
};

/* Runs all passes in order, up to the first that fails. */
static kineto_status run_build_passes(kt_build_state *s, kineto_error *err)
{
    uint32_t done = 0;
    for (size_t i = 0; i < KB_COUNT(passes); i++) {
        const build_pass *p = &passes[i];
        KB_ASSERT(!(done & p->pass) && (done & p->needs) == p->needs);
        kineto_status status = KINETO_OK;
        if (p->read)
            status = p->read(s, err);
        else
            p->run(s);
        if (status)
            return status;
        done |= p->pass;
    }
    return s->out_of_memory ? KINETO_E_MEMORY : KINETO_OK;
}

void kt_build_state_free(kt_build_state *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->clocks.count; i++)
        kb_vec_free(&s->clocks.data[i].samples);
    kb_vec_free(&s->clocks);
    for (size_t i = 0; i < s->processes.count; i++)
        kt_symbols_destroy(s->processes.data[i].symbols);
    kb_vec_free(&s->processes);
    kb_vec_free(&s->threads);
    kb_vec_free(&s->devices);
    kb_vec_free(&s->resources);
    kb_vec_free(&s->sites);
    kb_vec_free(&s->launches);
    kb_vec_free(&s->launched);
    kb_vec_free(&s->text);
    kb_vec_free(&s->keys);
    kb_vec_free(&s->key_places);
    kb_vec_free(&s->inputs);
    kb_vec_free(&s->words);
    kb_vec_free(&s->post.stack);
    kb_vec_free(&s->post.modules);
    kb_vec_free(&s->nodes);
    kb_vec_free(&s->steps);
    kb_vec_free(&s->sets);
    kb_vec_free(&s->set_keys);
    kb_vec_free(&s->collectives);
    kb_vec_free(&s->runs);
    kb_vec_free(&s->lives);
    kb_map_free(&s->thread_of_tid);
    kb_vec_free(&s->wakes);
    kb_vec_free(&s->samples);
    kb_vec_free(&s->blocked);
    kb_vec_free(&s->faults);
    kb_vec_free(&s->frames);
    kb_map_free(&s->set_of_entry);
    kb_map_free(&s->ledger_of_text);
    kb_map_free(&s->code_names);
    kb_map_free(&s->inputs_of_hash);
    kb_map_free(&s->process_of_entry);
    kb_map_free(&s->thread_of_key);
    kb_arena_free(&s->arena);
    kt_builder_destroy(s->b);
    free(s);
}

kineto_status kt_build_state_create(kt_build_state **out, kineto_error *err)
{
    kt_build_state *s = calloc(1, sizeof *s);
    *out = NULL;
    if (!s || kt_builder_create(&s->b, err) != KINETO_OK) {
        free(s);
        return kb_fail_memory(err, "building a trace");
    }
    s->options.kinds = KINETO_KINDS_ALL;
    s->options.wants = UINT32_MAX;
    s->start_ns = INT64_MIN;
    s->end_ns = INT64_MAX;
    s->fit = (kb_clock_fit){.mult = UINT64_C(1) << 32, .shift = 32, .ns_per_tick = 1.0};
    intern_common_keys(s);
    *out = s;
    return KINETO_OK;
}

kineto_status kt_build(const kf_input *input, const kf_control *control,
                       const kt_build_options *options, kineto_trace **out, kineto_error *err)
{
    kineto_error why = {.code = KINETO_OK};
    *out = NULL;
    kt_build_state *s = calloc(1, sizeof *s);
    if (!s)
        return kb_fail_memory(err, "building a trace");
    s->input = input;
    s->input_kept = *input;
    s->input_kept.done = NULL;
    s->control = control;
    s->options = *options;
    if (!s->options.kinds)
        s->options.kinds = KINETO_KINDS_ALL;
    if (!s->options.wants)
        s->options.wants = UINT32_MAX;
    kineto_status status = kt_builder_create(&s->b, &why);
    if (!status)
        status = run_build_passes(s, &why);
    if (!status)
        status = kt_builder_finish(s->b, out, &why);
    kt_build_state_free(s);
    if (status == KINETO_OK)
        return KINETO_OK;
    return kb_fail(err, status, "%s",
                   why.code ? why.message : "out of memory while building a trace");
}

/* From a recording to a trace: the decoder calls back per event, each becomes a row. */
#include "trace/from_recording/build.h"

/* ---- window ---------------------------------------------------------------------------------- */

static bool thread_wanted(const kt_build_options *o, const kf_event *e)
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

/* Others may have recorded meanwhile. */
static bool in_pause(const kt_build_state *s, const kf_event *e)
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

static bool wanted(const kt_build_state *s, const kf_event *e)
{
    const kt_build_options *o = &s->options;
    bool kind = KINETO_LIKELY(e->kind < KINETO_KIND_COUNT)
                    ? (o->kinds & KINETO_KIND_BIT(e->kind)) != 0
                    : kf_kind_wanted(s->own_kinds, o->kinds, e->kind);
    bool scope = !e->function || (o->wants & KF_WANT_SCOPE(e->site->scope & 15u));
    return kind && scope && (!o->threads || thread_wanted(o, e));
}

static uint32_t row_flags(uint32_t event_flags)
{
    return (event_flags & KF_EVENT_OPEN_START ? KINETO_ACTIVITY_OPEN_START : 0) |
           (event_flags & KF_EVENT_OPEN_END ? KINETO_ACTIVITY_OPEN_END : 0) |
           (event_flags & KF_EVENT_ARGS_LOST ? KINETO_ACTIVITY_ARGS_LOST : 0);
}

/* By the exact times of the window, where ticks are coarser. */
static void cut_row(const kt_build_state *s, kt_row *row)
{
    row->start_ns = KB_MIN(KB_MAX(row->start_ns, s->start_ns), s->end_ns);
    row->end_ns = KB_MAX(KB_MIN(row->end_ns, s->end_ns), row->start_ns);
}

/* Times of a host event, cut at the window; false: outside. What still runs when the window ends
 * runs to its end. */
static bool place_host(kt_build_state *s, const kf_event *e, kt_row *row)
{
    const kt_build_options *o = &s->options;
    uint64_t start = e->start, end = e->end, window_end = o->end_ticks ? o->end_ticks : UINT64_MAX;
    if ((e->flags & KF_EVENT_STILL_OPEN) && e->form == KF_FORM_ASYNC && start <= o->complete_from)
        return false; /* it may have ended: elsewhere, in what is gone */
    if ((e->flags & KF_EVENT_STILL_OPEN) && o->clip_open && o->end_ticks)
        end = KB_MAX(end, window_end);
    if ((e->flags & KF_EVENT_OPEN_START) && e->form == KF_FORM_ASYNC && o->start_ticks)
        start = KB_MIN(start, o->start_ticks);
    if (end < o->start_ticks || start > window_end)
        return false;
    if (end == o->start_ticks && start < end && o->from_ns) /* it ends where this begins */
        return false;
    if (start == window_end && o->until_ns && (start < end || e->flags & KF_EVENT_STILL_OPEN))
        return false; /* it begins where this ends */
    if (start < o->start_ticks) {
        start = o->start_ticks;
        row->flags |= KINETO_ACTIVITY_OPEN_START;
    }
    if (end > window_end) {
        end = window_end;
        row->flags |= KINETO_ACTIVITY_OPEN_END;
    }
    row->start_ns = kb_clock_fit_ns(&s->fit, start);
    row->end_ns = start == end ? row->start_ns : kb_clock_fit_ns(&s->fit, end);
    if (KINETO_UNLIKELY(o->from_ns))
        cut_row(s, row);
    return true;
}

#define DAY_NS (INT64_C(86400) * 1000000000)
#define FAR_NS INT64_C(4000000000000000000) /* the years 1843 to 2096 */

/* What is days away from the window is a wrong time, which must not stretch the whole trace. */
static void cut_far(kt_build_state *s, uint32_t source, kt_row *row)
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

/* Recorded before this window was opened, for another one: nobody expects it here. */
static bool of_an_earlier_window(const kt_build_state *s, int64_t ns)
{
    return ns < s->start_ns && ns >= kb_clock_fit_ns(&s->fit, s->first_ticks);
}

/* Devices report when things really began and ended: no cutting at the window. `moment`: the start
 * is all there is. */
static bool place_device(kt_build_state *s, const kf_event *e, bool moment, kt_row *row)
{
    if (!kt_build_ns(s, e->process, e->clock, e->start, &row->start_ns) ||
        !kt_build_ns(s, e->process, e->clock, e->end, &row->end_ns)) {
        s->no_clock++;
        return false;
    }
    if (moment)
        row->end_ns = row->start_ns;
    int64_t last = KB_MAX(row->start_ns, row->end_ns);
    if (last < s->start_ns || row->start_ns > s->end_ns) {
        s->out_of_window[e->source] += !of_an_earlier_window(s, last);
        return false;
    }
    if (KINETO_UNLIKELY(row->end_ns < row->start_ns)) {
        s->bad_time[e->source]++;
        row->end_ns = row->start_ns;
    }
    cut_far(s, e->source, row);
    return true;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* The dictionary stays where it is: the same place is the same name. */
static uint32_t dictionary_name(kt_build_state *s, kineto_string name)
{
    size_t place = ((uintptr_t)name.data >> 3) % KT_BUILD_NAMES;
    if (KINETO_UNLIKELY(s->names[place].data != name.data || s->names[place].size != name.size)) {
        s->names[place].id = kt_string(s->b, name);
        s->names[place].data = name.data;
        s->names[place].size = name.size;
    }
    return s->names[place].id;
}

static uint32_t name_of(kt_build_state *s, const kf_event *e)
{
    if (e->form == KF_FORM_MEMORY)
        return kt_string(s->b,
                         kb_string(e->flags & KF_EVENT_NO_MEMORY ? "[OutOfMemory]" : "[memory]"));
    if (!e->site)
        return dictionary_name(s, e->name);
    if (e->name.data != e->site->name.data || e->name.size != e->site->name.size)
        return kt_string(s->b, e->name);
    const kt_build_site *site = kt_build_site_of(s, e->site);
    s->out_of_memory |= !site;
    return site ? site->name - 1 : 0;
}

static void keep_correlated(kt_build_state *s, kt_correlated_list *list, const kt_row *row,
                            kineto_row number)
{
    kt_correlated item = {row->correlation_id, row->start_ns, number};
    s->out_of_memory |= !kb_vec_push(list, item);
}

/* A source that says "the arrow of my launch ends here" and nothing else: both ends follow from the
 * correlation id. */
static bool flow_is_derived(const kf_event *e)
{
    return !e->flow_type || (e->flow_type == KINETO_FLOW_ASYNC_CPU_GPU && !e->flow_start &&
                             e->flow_id == (uint32_t)e->correlation_id);
}

static void append(kt_build_state *s, const kf_event *e, kt_row *row)
{
    row->name = name_of(s, e);
    row->correlation_id = kt_build_id(s, e->correlation_id);
    row->external_id = kt_build_id(s, e->external_id);
    if (e->function)
        kt_build_function(s, e, row);
    if (e->args.words || e->more_count)
        kt_build_put_args(s, e, &row->flags);
    else if (e->set)
        kt_build_put_set(s, e, &row->flags);
    if (e->form == KF_FORM_DEVICE && e->source == KF_SOURCE_API)
        kt_build_backend(s, e);
    kineto_row number = kt_append(s->b, row);
    if (row->correlation_id && row->form == KINETO_FORM_SLICE) {
        if (kt_kind_is_launch(row->kind))
            keep_correlated(s, &s->launches, row, number);
        else if (kt_kind_is_device(row->kind) && flow_is_derived(e))
            keep_correlated(s, &s->launched, row, number);
    }
    if (!flow_is_derived(e))
        kt_flow(s->b, e->flow_type, kt_build_id(s, e->flow_id), number, e->flow_start);
    for (uint32_t i = 0; i < e->flow_count; i++)
        kt_flow(s->b, e->flows[i].type, kt_build_id(s, e->flows[i].id), number, e->flows[i].start);
}

static uint32_t counter_track(kt_build_state *s, uint32_t process_row)
{
    return kt_track(s->b, process_row, KINETO_TRACK_COUNTER, 0);
}

static void put_memory(kt_build_state *s, const kf_event *e)
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

/* Names of sites were looked at when the site was made. */
static void keep_collective(kt_build_state *s, const kf_event *e, const kt_row *row)
{
    bool of_site = e->site && e->name.data == e->site->name.data && e->site->index < s->sites.count;
    if (KINETO_UNLIKELY(of_site ? s->sites.data[e->site->index].collective
                                : kt_build_is_collective(e->name)))
        kt_build_keep_collective(s, e, row);
}

static void on_host(kt_build_state *s, const kf_event *e)
{
    kt_row row = {.flags = row_flags(e->flags), .form = KINETO_FORM_SLICE};
    if (!place_host(s, e, &row)) {
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
        row.track = counter_track(s, kt_build_process_row(s, s->here));
        break;
    case KF_FORM_MEMORY:
        put_memory(s, e);
        row.form = KINETO_FORM_INSTANT;
        row.flags |= KT_WRITER(s->here_writer);
        row.category = kt_string(s->b, kb_string("cpu_instant_event")); /* as Kineto has it */
        if (e->flags & KF_EVENT_NO_MEMORY) /* nothing was allocated: not one to be added up */
            row.kind = KINETO_KIND_CPU_INSTANT_EVENT;
        row.track = kt_build_thread_track(s);
        break;
    default:
        row.form = e->form == KF_FORM_INSTANT ? KINETO_FORM_INSTANT : KINETO_FORM_SLICE;
        row.flags |= KT_WRITER(s->here_writer);
        row.track = kt_build_thread_track(s);
    }
    append(s, e, &row);
    if (row.external_id && e->form == KF_FORM_RANGE)
        keep_collective(s, e, &row);
    s->delivered++;
}

/* A source may report host activities as well; then device and resource are process and thread. */
static bool is_host_activity(const kf_event *e, uint32_t kind)
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

static void locate_reported(kt_build_state *s, const kf_event *e)
{
    uint32_t pid = e->device > 0 ? (uint32_t)e->device : e->pid;
    uint32_t tid = e->resource > 0 ? (uint32_t)e->resource : e->tid;
    kt_build_locate(s, pid == e->pid ? e->process : 0, pid, tid);
}

static bool is_counter(uint32_t kind)
{
    return kind == KINETO_KIND_COUNTER || kind == KINETO_KIND_GPU_PM_COUNTER;
}

static void on_device(kt_build_state *s, const kf_event *e)
{
    kt_row row = {.flags = row_flags(e->flags), .form = KINETO_FORM_SLICE};
    kt_build_kind(s, e, &row);
    if (is_counter(row.kind))
        row.form = KINETO_FORM_COUNTER;
    else if (row.kind == KINETO_KIND_CPU_INSTANT_EVENT)
        row.form = KINETO_FORM_INSTANT;
    if (!place_device(s, e, row.form != KINETO_FORM_SLICE, &row))
        return;
    if (row.form == KINETO_FORM_COUNTER) {
        row.track = counter_track(s, kt_build_device_row(s, e->source, e->device));
    } else if (is_host_activity(e, row.kind)) {
        locate_reported(s, e);
        if (s->out_of_memory)
            return;
        row.track = kt_build_thread_track(s);
    } else {
        row.track = kt_build_stream_track(s, e->source, e->device, e->resource);
    }
    append(s, e, &row);
}

static kineto_status on_event(void *state, const kf_event *e)
{
    kt_build_state *s = state;
    if (!wanted(s, e) || in_pause(s, e))
        return KINETO_OK;
    kt_build_locate(s, e->process, e->pid, e->tid);
    if (s->out_of_memory)
        return KINETO_E_MEMORY;
    if (s->options.root_pid && !kt_build_below_root(s))
        return KINETO_OK;
    if (e->form == KF_FORM_DEVICE)
        on_device(s, e);
    else
        on_host(s, e);
    return s->out_of_memory ? KINETO_E_MEMORY : KINETO_OK;
}

/* ---- flows ----------------------------------------------------------------------------------- */

/* An arrow from each launch to what it launched, as Kineto draws it, where the source gave none. */
static void derive_flows(kt_build_state *s)
{
    const kt_correlated *started = NULL;
    if (!s->launches.count || !s->launched.count)
        return;
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

/* ---- the whole ------------------------------------------------------------------------------- */

/* Those of before the epoch, but for the last one if there are no others. */
static void forget_snapshots(kt_build_state *s)
{
    uint32_t from = 0;
    s->first_ticks = s->snapshots[0].ticks;
    while (from + 1 < s->snapshot_count && s->snapshots[from].ticks < s->options.epoch_ticks)
        from++;
    s->snapshot_count -= from;
    memmove(s->snapshots, s->snapshots + from, s->snapshot_count * sizeof *s->snapshots);
}

/* The first ticks that are not before a time. */
static uint64_t ticks_of(const kb_clock_fit *fit, int64_t ns, uint64_t low, uint64_t high)
{
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (kb_clock_fit_ns(fit, middle) < ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Where the window begins, or ends. */
static uint64_t edge_of(const kt_build_state *s, int64_t *ns, uint64_t ticks, uint64_t low,
                        uint64_t high)
{
    if (ticks <= low || ticks >= high)
        return ticks_of(&s->fit, *ns, low, high);
    *ns = kb_clock_fit_ns(&s->fit, ticks);
    return ticks;
}

/* The window is to be exact to the nanosecond, in clocks that are coarser, too: ranges that are cut
 * are cut at the times, and ticks decide on which side of them the others are. */
static void cut_exactly(kt_build_state *s)
{
    kt_build_options *o = &s->options;
    uint64_t last = o->end_ticks;
    if (!o->from_ns || !o->start_ticks || !last)
        return;
    o->start_ticks = edge_of(s, &o->from_ns, o->from_ticks, o->start_ticks, last);
    s->start_ns = KB_MAX(o->from_ns, s->start_ns);
    if (o->until_ns && o->until_ns < s->end_ns) {
        o->end_ticks = edge_of(s, &o->until_ns, o->until_ticks, o->start_ticks, last);
        s->end_ns = KB_MAX(o->until_ns, s->start_ns);
    }
}

/* The control page is as untrusted as the rest. */
static kineto_status fit_clock(kt_build_state *s, kineto_error *err)
{
    uint32_t count = kb_load_acquire(&s->control->snapshot_count);
    s->snapshot_count = KB_MIN(count, KF_MAX_SNAPSHOTS);
    memcpy(s->snapshots, s->control->snapshots, s->snapshot_count * sizeof *s->snapshots);
    if (s->snapshot_count == 0)
        return kb_fail(err, KINETO_E_FORMAT,
                       "the recording holds no clock snapshot: its times cannot be placed");
    forget_snapshots(s);
    for (uint32_t i = 0; i < s->snapshot_count; i++)
        kt_snapshot(s->b, &s->snapshots[i]);
    bool here = kb_os_is_this_boot((const char *)s->control->boot_id, sizeof s->control->boot_id);
    kineto_status status = here ? kb_clock_fit_make(s->snapshots, s->snapshot_count, &s->fit, err)
                                : kb_clock_fit_again(s->snapshots, s->snapshot_count, &s->fit);
    const kt_build_options *o = &s->options;
    s->start_ns = o->start_ticks && !status ? kb_clock_fit_ns(&s->fit, o->start_ticks) : INT64_MIN;
    s->end_ns = o->end_ticks && !status ? kb_clock_fit_ns(&s->fit, o->end_ticks) : INT64_MAX;
    if (!status)
        cut_exactly(s);
    return status;
}

static void set_window(kt_build_state *s, const kf_decode_result *result)
{
    const kt_build_options *o = &s->options;
    uint64_t start = o->start_ticks ? o->start_ticks : result->first_ticks;
    uint64_t end = o->end_ticks ? o->end_ticks : result->last_ticks;
    if (start && end && o->from_ns)
        kt_window(s->b, s->start_ns, s->end_ns);
    else if (start && end)
        kt_window(s->b, kb_clock_fit_ns(&s->fit, start), kb_clock_fit_ns(&s->fit, end));
}

static kineto_status read_entries(kt_build_state *s, kineto_error *err)
{
    kf_input entries_only = s->input_kept;
    kf_visitor visitor = {.context = s, .entry = kt_build_entry};
    entries_only.chunk_count = 0;
    kineto_status status = kf_decode(&entries_only, &visitor, NULL, err);
    if (!status && s->clocks.count)
        status = kt_build_device_clocks(s, err);
    return status;
}

static kineto_status build(kt_build_state *s, kineto_trace **out, kineto_error *err)
{
    kf_decode_result result;
    kf_visitor visitor = {.context = s, .event = on_event, .thread_name = kt_build_thread_name};
    s->key_correlation = kt_string(s->b, kb_string("correlation"));
    s->key_external = kt_string(s->b, kb_string("External id"));
    s->function_keys = (kt_build_keys){
        .call_stack = kt_string(s->b, kb_string("Call stack")),
        .native_stack = kt_string(s->b, kb_string("Native stack")),
        .modules = kt_string(s->b, kb_string("Module Hierarchy")),
    };
    kineto_status status = fit_clock(s, err);
    kt_build_own_kinds(s);
    if (!status)
        status = read_entries(s, err);
    kf_input input = *s->input; /* the last pass: chunks may go */
    input.from_ticks = s->options.start_ticks;
    if (!status)
        status = kf_decode(&input, &visitor, &result, err);
    if (status)
        return status;
    kt_build_devices(s);
    kt_build_name_threads(s);
    derive_flows(s);
    if (!s->options.no_links)
        kt_build_nodes(s);
    kt_build_thread_numbers(s);
    kt_build_steps(s);
    for (uint32_t i = 0; i < s->options.metadata_count; i++)
        kt_metadata(s->b, kb_string(s->options.metadata[i]), kb_string("1"));
    for (uint32_t i = 0; i < s->options.header_count; i++)
        kt_metadata(s->b, kb_string(s->options.header[i].key),
                    kb_string(s->options.header[i].json_value));
    kt_build_collectives(s); /* when the header is known */
    kt_build_rank(s);
    kt_project_user_annotations(s->b);
    kt_build_ledger(s, &result);
    for (uint32_t i = 0; i < s->options.note_count; i++) {
        const kt_build_note *note = &s->options.notes[i];
        kt_ledger_add(s->b, kb_string(note->source), kb_string(note->reason), note->count,
                      note->is_loss, kb_string(note->detail));
    }
    if (s->options.sign)
        s->options.sign(s->options.sign_context, s->b);
    set_window(s, &result);
    if (s->out_of_memory)
        return KINETO_E_MEMORY;
    return kt_builder_finish(s->b, out, err);
}

static void state_free(kt_build_state *s)
{
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
    kb_map_free(&s->set_of_entry);
    kb_map_free(&s->ledger_of_text);
    kb_map_free(&s->inputs_of_hash);
    kb_map_free(&s->process_of_entry);
    kb_map_free(&s->thread_of_key);
    kb_arena_free(&s->arena);
    kt_builder_destroy(s->b);
    free(s);
}

kineto_status kt_build(const kf_input *input, const kf_control *control,
                       const kt_build_options *options, kineto_trace **out, kineto_error *err)
{
    kineto_error why = {.code = KINETO_OK};
    *out = NULL;
    kt_build_state *s = calloc(1, sizeof *s);
    if (!s)
        return kb_fail(err, KINETO_E_MEMORY, "out of memory while building a trace");
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
        status = build(s, out, &why);
    state_free(s);
    if (status == KINETO_OK)
        return KINETO_OK;
    return kb_fail(err, status, "%s",
                   why.code ? why.message : "out of memory while building a trace");
}

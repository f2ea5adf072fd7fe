/* The last steps of reading a trace, when all events are committed: shifts times to the
 * base time, closes ranges, applies the header, writes the ledger, and builds the trace.
 * One thread runs at this point. */
#include "trace/read/read.h"

/* Adds the base time of the header to all times that were read with another one. */
static void shift_times_to_base(kt_reader *r)
{
    kineto_trace *t = r->b->trace;
    int64_t by;
    if (__builtin_sub_overflow(r->base_ns, r->used_base_ns, &by))
        by = 0;
    for (size_t i = 0; by && i < t->blocks.count; i++) {
        kt_block *b = t->blocks.data[i];
        for (uint32_t row = 0; row < b->count; row++) {
            b->start_ns[row] = kt_shifted(b->start_ns[row], by);
            b->end_ns[row] = kt_shifted(b->end_ns[row], by);
        }
        b->min_start_ns = kt_shifted(b->min_start_ns, by);
        b->max_end_ns = kt_shifted(b->max_end_ns, by);
    }
    for (size_t i = 0; i < r->late.count; i++)
        r->late.data[i].ts_ns = kt_shifted(r->late.data[i].ts_ns, r->base_ns);
    for (size_t i = 0; i < r->pending.count; i++)
        if (r->pending.data[i].closed || r->pending.data[i].bounded)
            r->pending.data[i].end_ns = kt_shifted(r->pending.data[i].end_ns, r->base_ns);
    r->window_end_ns = kt_shifted(r->window_end_ns, r->base_ns);
}

/* The earliest start and the latest end of all rows. */
static void rows_time_span(const kineto_trace *t, int64_t *start, int64_t *end)
{
    *start = INT64_MAX;
    *end = INT64_MIN;
    for (size_t i = 0; i < t->blocks.count; i++) {
        *start = KB_MIN(*start, t->blocks.data[i]->min_start_ns);
        *end = KB_MAX(*end, t->blocks.data[i]->max_end_ns);
    }
}

/* Sets the ends of the rows of begins that have one. */
static void close_matched_begins(kt_reader *r)
{
    for (size_t i = 0; i < r->pending.count; i++) {
        const kt_pending *p = &r->pending.data[i];
        if (p->closed)
            kt_row_close(r->b, p->row, p->end_ns, p->open_end);
    }
}

/* A begin without an end lasts to the end of the enclosing range, else to the last known time. */
static void close_unmatched_begin(kt_reader *r, const kt_pending *p, int64_t last_ns)
{
    int64_t end_ns = p->bounded ? p->end_ns : last_ns;
    KB_ASSERT(!p->closed && p->row < r->b->trace->count);
    kt_row_close(r->b, p->row, KB_MAX(end_ns, kt_start(r->b->trace, p->row)), true);
    r->lost_ends += p->bounded;
    r->unclosed += !p->bounded;
}

/* Sets the window of the trace, and closes begins that are still open at its end. */
static void set_trace_window(kt_reader *r)
{
    const kineto_trace *t = r->b->trace;
    int64_t start, end;
    rows_time_span(t, &start, &end);
    if (r->has_window_end && t->count && r->window_end_ns < start) {
        r->has_window_end = false;
        kt_read_ignore_window(r);
    }
    end = r->has_window_end ? r->window_end_ns : end;
    for (size_t i = 0; i < r->pending.count; i++)
        if (!r->pending.data[i].closed)
            close_unmatched_begin(r, &r->pending.data[i], end);
    if (r->has_window)
        kt_window(r->b, r->window_start_ns, r->window_end_ns);
    else if (r->has_window_end)
        kt_window(r->b, KB_MIN(start, end), end);
}

/* Sets the kinds of rows with categories of plug-ins, which the header defines after the events. */
static void apply_plugin_kinds(kt_reader *r)
{
    kineto_trace *t = r->b->trace;
    int kinds[KT_MAX_OWN_KINDS], none = 1;
    uint16_t categories[KT_MAX_OWN_KINDS];
    size_t count = 0;
    uint32_t memory = kt_string(r->b, kb_string("[memory]"));
    for (size_t i = 0; i < t->own_kinds.count; i++)
        for (size_t c = 0; c < t->categories.count; c++)
            if (t->categories.data[c] == t->own_kinds.data[i].category &&
                kb_kind_parse(kb_intern_get(&t->strings, t->categories.data[c])) < 0) {
                categories[count] = (uint16_t)c;
                kinds[count++] = (int)t->own_kinds.data[i].kind;
                none = 0;
            }
    for (size_t i = 0; !none && i < t->blocks.count; i++) {
        kt_block *b = t->blocks.data[i];
        for (uint32_t row = 0; row < b->count; row++)
            for (size_t k = 0; k < count; k++)
                if (b->category[row] == categories[k] &&
                    !(b->form[row] == KINETO_FORM_INSTANT && b->name[row] == memory)) {
                    b->kind[row] = (uint8_t)kinds[k];
                    b->kinds |= KINETO_KIND_BIT(kinds[k]);
                }
    }
}

/* Adds the repairs of the text to the ledger. */
static void add_repairs_to_ledger(kt_reader *r)
{
    const kt_repairs *repairs = &r->b->trace->repairs;
    char reason[160], detail[80];
    for (uint32_t kind = 0; kind < KT_REPAIR_KINDS; kind++) {
        if (!repairs->kinds[kind].count)
            continue;
        snprintf(reason, sizeof reason, KT_REPAIR_REASON, kt_repair_text((kt_repair_kind)kind));
        bool is_end = kind == KT_REPAIR_TRUNCATED;
        snprintf(detail, sizeof detail,
                 is_end ? "it ends at byte %llu" : "first at byte %llu of the text",
                 (unsigned long long)(is_end ? r->b->trace->text_bytes
                                             : repairs->kinds[kind].first_offset));
        kt_ledger_add(r->b, kb_string("reader"), kb_string(reason), repairs->kinds[kind].count,
                      kt_repair_loss_of((kt_repair_kind)kind) == KT_LOSES_EVENTS, kb_string(detail));
    }
    if (kt_input_status(r->input) != KINETO_OK)
        kt_ledger_add(r->b, kb_string("reader"), kb_string(KT_REPAIR_DAMAGED), 1, true,
                      kb_string(r->input->error.message));
}

/* Adds the members of events that were not read to the ledger. */
static void add_unread_to_ledger(kt_reader *r)
{
    for (size_t i = 0; i < r->unread.count; i++) {
        const kt_unread *u = &r->unread.data[i];
        char reason[200], phase[40] = "";
        if (u->phase)
            snprintf(phase, sizeof phase, " with \"ph\": \"%c\"", u->phase);
        kineto_string name = kb_utf8_cut(u->name, 100);
        snprintf(reason, sizeof reason,
                 u->name.size ? "member of an event that is not read: \"%.*s\"%s"
                                                     : "member of an event that is not read",
                 (int)name.size, name.data, phase);
        kt_ledger_add(r->b, kb_string("reader"), kb_string(reason), u->count, false, kb_string(""));
    }
}

/* Adds all counts of the reader to the ledger. */
static void fill_reader_ledger(kt_reader *r)
{
    const struct {
        uint64_t count;
        const char *reason;
        bool is_loss;
    } lines[] = {
        {r->other_phases, "event of an unsupported phase", true},
        {r->unmatched_ends, "end without a begin", true},
        {r->end_args_twice, "argument of a begin and its end: that of the end counts", false},
        {r->doubtful_ends,
         "range with a doubtful end, as ends near it match no begin: flagged", false},
        {r->unclosed, "begin without an end: lasts to the last known moment", false},
        {r->lost_ends, "begin whose end is missing: ends with the range around it", true},
        {r->other_metadata, "unknown metadata event", false},
        {r->empty_objects, "empty object among the events", false},
        {r->repeated_header,
         "member repeated in the header, with another value: the first one counts", false},
        {r->nameless_devices, "device properties without an id: ignored", false},
        {r->repeated_members, "member repeated in its event: the last one counts", false},
        {r->second_events, "more lists of events: all were read", false},
        {r->lone_surrogates, "half a surrogate pair replaced by U+FFFD", false}};
    for (size_t i = 0; i < KB_COUNT(lines); i++)
        if (lines[i].count)
            kt_ledger_add(r->b, kb_string("reader"), kb_string(lines[i].reason), lines[i].count,
                          lines[i].is_loss, kb_string(""));
    add_unread_to_ledger(r);
    add_repairs_to_ledger(r);
    r->b->negative_durations += r->negative_durations;
    r->b->long_args += r->long_args;
}

/* Number of rows of the track that begin at or before a time. */
static size_t count_rows_until(const kineto_trace *t, uint32_t track, int64_t ns)
{
    const kineto_row *rows = kineto_trace_track_rows(t, track);
    size_t count = 0;
    KB_LOWER_BOUND(count, rows ? t->tracks.data[track].count : 0, kt_start(t, rows[count]) <= ns);
    return count;
}

/* The innermost row of the track that encloses a time: the last row that has begun, or the
 * first of its ancestors (nesting.c) that has not ended. */
static kineto_row find_row_at(const kineto_trace *t, uint32_t track, int64_t ns)
{
    size_t count = count_rows_until(t, track, ns);
    kineto_row row = count ? kineto_trace_track_rows(t, track)[count - 1] : KINETO_NO_ROW;
    while (row != KINETO_NO_ROW && kt_end(t, row) < ns)
        row = kineto_trace_parent(t, row);
    return row;
}

/* The row of the track that begins at a time, else the next one, else the enclosing one. */
static kineto_row find_row_from(const kineto_trace *t, uint32_t track, int64_t ns)
{
    size_t count = count_rows_until(t, track, ns);
    kineto_row around = find_row_at(t, track, ns);
    bool begins = around != KINETO_NO_ROW && kt_start(t, around) == ns;
    if (begins || count >= t->tracks.data[track].count)
        return around;
    return kineto_trace_track_rows(t, track)[count];
}

/* Finds the rows of flow ends that have none yet, and joins all flows. False: out of memory. */
static bool join_reader_flows(kt_reader *r, kineto_trace *t)
{
    uint64_t nowhere = 0;
    if (r->late.count && !kt_need(t, KT_STAGE_NESTING))
        return false;
    for (size_t i = 0; i < r->late.count; i++) {
        const kt_late_flow *late = &r->late.data[i];
        kineto_row row = late->next ? find_row_from(t, late->track, late->ts_ns)
                                    : find_row_at(t, late->track, late->ts_ns);
        KB_ASSERT(late->end < r->ends.count);
        r->ends.data[late->end].row = row;
        if (row != KINETO_NO_ROW)
            continue;
        r->late.data[nowhere++] = *late; /* the list keeps the ends without a row */
    }
    r->late.count = nowhere;
    if (nowhere) {
        kt_ledger_row line = {.source = kb_intern_id(&t->strings, kb_string("reader")),
                              .reason = kb_intern_id(&t->strings, kb_string("flow without a row")),
                              .is_loss = true,
                              .count = nowhere};
        if (line.source == KB_INTERN_NONE || line.reason == KB_INTERN_NONE ||
            !kb_vec_push(&t->ledger, line))
            return false;
    }
    return kt_join_flows(t, &(kt_stated_flows){.ends = r->ends.data,
                                               .count = r->ends.count,
                                               .nowhere = r->late.data,
                                               .nowhere_count = r->late.count,
                                               .texts = r->flow_texts.data,
                                               .text_count = r->flow_texts.count});
}

/* The order of the steps matters: processes are joined while begins are open; times are
 * shifted before ranges are closed and the window is set; the header is applied to rows
 * that have their kinds; the ledger is last, because all steps count into it. Flows need
 * the finished trace for the order of its rows. */
kineto_status kt_read_finish(kt_reader *r, kineto_string devices, kineto_string own,
                             kineto_trace **out)
{
    r->b->trace->was_read = true;
    r->b->trace->file_base_ns = r->base_ns;
    kt_input_mark_passed(r->input, SIZE_MAX);
    r->b->trace->text_bytes = kt_input_wait(r->input, SIZE_MAX);
    kineto_status status = kt_read_join_processes(r);
    if (status != KINETO_OK)
        return status;
    kt_read_own_kinds(r, own);
    shift_times_to_base(r);
    close_matched_begins(r);
    kt_read_write_end_args(r);
    apply_plugin_kinds(r);
    kt_read_apply(r, devices, own);
    set_trace_window(r);
    fill_reader_ledger(r);
    status = kt_builder_finish(r->b, out, r->err);
    if (status != KINETO_OK || join_reader_flows(r, *out))
        return status;
    kineto_trace_release(*out);
    *out = NULL;
    return kt_read_no_memory(r);
}

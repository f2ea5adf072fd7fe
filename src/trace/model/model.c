/* Accessors of a finished trace (public kineto_trace_… and internal kt_…), and its
 * reference count. All of them may be called from any thread. Indices out of range give
 * empty results where the public API promises it; internal functions rely on their callers. */
#include "trace/model/model.h"
#include "format/format.h"

kineto_trace *kineto_trace_retain(const kineto_trace *trace)
{
    kineto_trace *t = (kineto_trace *)(uintptr_t)trace; /* the count is not part of its value */
    if (t)
        kb_add_relaxed(&t->references, 1);
    return t;
}

void kineto_trace_release(kineto_trace *t)
{
    if (!t || kb_add_acqrel(&t->references, UINT32_MAX) != 1)
        return;
    KB_ASSERT(t->references == 0);
    for (size_t i = 0; i < t->blocks.count; i++)
        kt_block_release(t->blocks.data[i]);
    kb_vec_free(&t->blocks);
    kb_vec_free(&t->categories);
    kb_vec_free(&t->own_kinds);
    kb_vec_free(&t->processes);
    kb_vec_free(&t->tracks);
    kt_store_free(t->store, t->async_ids.data);
    kt_store_free(t->store, t->flows.data);
    kb_vec_free(&t->flow_texts);
    kb_vec_free(&t->ledger);
    kb_vec_free(&t->metadata);
    kb_vec_free(&t->snapshots);
    kt_repairs_free(&t->repairs);
    kb_intern_free(&t->strings);
    kb_intern_free(&t->sets);
    kt_derived_free(t->store, &t->derived);
    kt_store_release(t->store);
    free(t);
}

/* The string with an id of this trace. */
static kineto_string trace_text(const kineto_trace *t, uint32_t id)
{
    return kb_intern_get(&t->strings, id);
}

/* ---- rows ------------------------------------------------------------------------------------ */

uint64_t kineto_trace_count(const kineto_trace *trace) { return trace ? trace->count : 0; }

uint64_t kt_async_id(const kineto_trace *t, kineto_row row)
{
    size_t i = 0;
    KB_LOWER_BOUND(i, t->async_ids.count, t->async_ids.data[i].row < row);
    bool found = i < t->async_ids.count && t->async_ids.data[i].row == row;
    return found ? t->async_ids.data[i].id : 0;
}

bool kineto_trace_get(const kineto_trace *t, kineto_row row, kineto_activity *out)
{
    if (!out)
        return false;
    memset(out, 0, sizeof *out);
    if (!t || row >= t->count)
        return false;
    const kt_block *b = kt_block_of(t, row);
    uint32_t i = (uint32_t)(row % KT_BLOCK_ROWS);
    out->row = row;
    out->start_ns = b->start_ns[i];
    out->end_ns = b->end_ns[i];
    out->name_id = b->name[i];
    out->name = trace_text(t, b->name[i]);
    out->track = b->track[i];
    out->kind = b->kind[i];
    out->category = t->categories.data[b->category[i]];
    out->form = b->form[i];
    out->flags = b->flags[i] & 0xffu;
    out->correlation_id = b->correlation_id[i];
    out->external_id = b->external_id[i];
    if (out->form == KINETO_FORM_ASYNC)
        out->async_id = kt_async_id(t, row);
    return true;
}

uint32_t kt_block_count(const kineto_trace *t) { return (uint32_t)t->blocks.count; }
const kt_block *kt_block_at(const kineto_trace *t, uint32_t index)
{
    KB_ASSERT(index < t->blocks.count);
    return t->blocks.data[index];
}

/* ---- repairs --------------------------------------------------------------------------------- */

uint64_t kineto_trace_text_bytes(const kineto_trace *t) { return t ? t->text_bytes : 0; }

/* True if `text` is `wanted`; NULL matches any text. */
static bool matches_or_any(kineto_string text, const char *wanted)
{
    return !wanted || kb_string_equal(text, kb_string(wanted));
}

bool kt_ledger_has(const kineto_trace *t, const char *source, const char *reason)
{
    for (uint32_t i = 0; i < kineto_trace_ledger_count(t); i++) {
        kineto_ledger_line line;
        kineto_trace_ledger(t, i, &line);
        if (line.count && matches_or_any(line.source, source) &&
            matches_or_any(line.reason, reason))
            return true;
    }
    return false;
}

bool kt_ledger_line_is_cut(const kineto_ledger_line *line)
{
    static const char *const reasons[] = {KT_REPAIR_REASON_OF(KT_REPAIR_CUT), KT_REPAIR_DAMAGED};
    return line->count && kb_string_is_one_of(line->reason, reasons, KB_COUNT(reasons));
}

bool kt_ledger_line_is_gap(const kineto_ledger_line *line)
{
    static const char *const phrases[] = {KT_GAP_PHRASES};
    if (!line->count || line->is_loss)
        return false;
    if (kb_string_is(line->source, KT_SOURCE_UNRECORDED)) /* each reason why, and the CPU time of unknown ones */
        return !kb_string_contains(line->reason, "[us]");
    for (size_t i = 0; i < KB_COUNT(phrases); i++)
        if (kb_string_contains(line->reason, phrases[i]))
            return true;
    return false;
}

uint64_t kt_ledger_bad_times(const kineto_trace *t, const char *source)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < kineto_trace_ledger_count(t); i++) {
        kineto_ledger_line line;
        kineto_trace_ledger(t, i, &line);
        if (!matches_or_any(line.source, source) || !kb_string_is(line.reason, kf_reason_text(KF_REASON_BAD_TIME)))
            continue;
        if (__builtin_add_overflow(sum, line.count, &sum))
            return UINT64_MAX;
    }
    return sum;
}

bool kt_ledger_is_cut(const kineto_trace *t)
{
    kineto_ledger_line line;
    for (uint32_t i = 0; i < kineto_trace_ledger_count(t); i++) {
        kineto_trace_ledger(t, i, &line);
        if (kt_ledger_line_is_cut(&line))
            return true;
    }
    return false;
}

const char *kt_writer_version(const kineto_trace *t) { return t->writer_version; }
uint64_t kineto_trace_repair_total(const kineto_trace *t) { return t ? t->repairs.total : 0; }
uint32_t kineto_trace_repair_count(const kineto_trace *t)
{
    return t ? (uint32_t)t->repairs.list.count : 0;
}

bool kineto_trace_repair(const kineto_trace *t, uint32_t index, kineto_repair *out)
{
    if (!out)
        return false;
    memset(out, 0, sizeof *out);
    if (!t || index >= t->repairs.list.count)
        return false;
    const kt_repair *r = &t->repairs.list.data[index];
    *out = (kineto_repair){.kind = kb_string(kt_repair_name((kt_repair_kind)r->kind)),
                           .text = kb_string(kt_repair_text((kt_repair_kind)r->kind)),
                           .offset = r->offset,
                           .bytes = r->bytes,
                           .is_loss = kt_repair_loss_of((kt_repair_kind)r->kind)};
    return true;
}

bool kt_is_from_file(const kineto_trace *t) { return t->was_read; }

int64_t kt_file_base_ns(const kineto_trace *t) { return t->file_base_ns; }

kineto_string kt_category_string(const kineto_trace *t, uint16_t category)
{
    return trace_text(t, category < t->categories.count ? t->categories.data[category] : 0);
}

uint32_t kt_own_kind_count(const kineto_trace *t) { return (uint32_t)t->own_kinds.count; }

kineto_string kt_own_kind_at(const kineto_trace *t, uint32_t index, uint32_t *kind)
{
    *kind = index < t->own_kinds.count ? t->own_kinds.data[index].kind : 0;
    return trace_text(t, index < t->own_kinds.count ? t->own_kinds.data[index].category : 0);
}

kineto_string kineto_trace_string(const kineto_trace *trace, uint32_t id)
{
    return trace ? trace_text(trace, id) : (kineto_string){"", 0};
}

uint32_t kineto_trace_string_count(const kineto_trace *trace)
{
    return trace ? (uint32_t)trace->strings.strings.count : 0;
}

/* ---- processes and tracks -------------------------------------------------------------------- */

uint32_t kineto_trace_process_count(const kineto_trace *t)
{
    return t ? (uint32_t)t->processes.count : 0;
}

bool kineto_trace_process(const kineto_trace *t, uint32_t index, kineto_process *out)
{
    if (!out)
        return false;
    memset(out, 0, sizeof *out);
    if (!t || index >= t->processes.count)
        return false;
    const kt_process_row *p = &t->processes.data[index];
    *out = (kineto_process){.is_device = p->is_device,
                            .pid = kt_process_number(p),
                            .ppid = p->ppid,
                            .name = trace_text(t, p->name),
                            .label = trace_text(t, p->label),
                            .sort_index = p->sort_index,
                            .rank = p->rank,
                            .host = trace_text(t, p->host),
                            .properties_json = trace_text(t, p->properties)};
    return true;
}

uint32_t kineto_trace_track_count(const kineto_trace *t)
{
    return t ? (uint32_t)t->tracks.count : 0;
}

bool kineto_trace_track(const kineto_trace *t, uint32_t index, kineto_track *out)
{
    if (!out)
        return false;
    memset(out, 0, sizeof *out);
    if (!t || index >= t->tracks.count)
        return false;
    const kt_track_row *k = &t->tracks.data[index];
    bool lanes = kt_need(t, KT_STAGE_LANES);
    *out = (kineto_track){.process = k->process,
                          .type = k->type,
                          .id = kt_track_text_of(t, index).data ? -1 : k->id,
                          .name = trace_text(t, k->name),
                          .sort_index = k->sort_index,
                          .count = k->count,
                          .lane_count = lanes ? t->derived.lane_count[index] : 0};
    return true;
}

bool kt_track_device(const kineto_trace *t, uint32_t track, int64_t *device)
{
    *device = 0;
    if (track >= t->tracks.count)
        return false;
    const kt_process_row *p = &t->processes.data[t->tracks.data[track].process];
    *device = kt_process_number(p);
    return p->is_device;
}

uint8_t *kt_find_devices(const kineto_trace *t)
{
    uint32_t count = kineto_trace_process_count(t);
    uint8_t *is_device = calloc((size_t)count + 1, 1);
    for (uint32_t i = 0; is_device && i < count; i++) {
        kineto_process p;
        kineto_trace_process(t, i, &p);
        is_device[i] = kt_is_described_device(&p);
    }
    for (size_t i = 0; is_device && i < t->tracks.count; i++) {
        const kt_process_row *p = &t->processes.data[t->tracks.data[i].process];
        if (p->is_device && p->pid != KT_OVERHEAD_NUMBER && t->tracks.data[i].count)
            is_device[t->tracks.data[i].process] = 1;
    }
    return is_device;
}

/* The text of a row that is known by a text: its number is derived from the text's id, and
 * no other row has such a number. data NULL: the row is known by its number. */
static kineto_string row_text(const kineto_trace *t, int64_t number, uint32_t id)
{
    return number == INT64_MIN + (int64_t)id ? trace_text(t, id) : (kineto_string){NULL, 0};
}

kineto_string kt_process_text_of(const kineto_trace *t, uint32_t process)
{
    KB_ASSERT(process < t->processes.count);
    const kt_process_row *p = &t->processes.data[process];
    return row_text(t, p->pid, p->text);
}

kineto_string kt_track_text_of(const kineto_trace *t, uint32_t track)
{
    KB_ASSERT(track < t->tracks.count);
    const kt_track_row *k = &t->tracks.data[track];
    return row_text(t, k->id, k->text);
}

bool kt_process_counts_device(const kineto_trace *t, uint32_t process)
{
    static const char start[] = "GPU ", end[] = " Counters";
    kineto_string name = kt_process_text_of(t, process);
    if (!name.data || name.size < sizeof start + sizeof end - 2)
        return t->processes.data[process].is_device;
    return memcmp(name.data, start, sizeof start - 1) == 0 &&
           memcmp(name.data + name.size - (sizeof end - 1), end, sizeof end - 1) == 0;
}

/* ---- flows, ledger, header ------------------------------------------------------------------- */

kt_flow_about kt_flow_about_of(const kineto_trace *t, uint64_t flow)
{
    size_t i = 0;
    KB_LOWER_BOUND(i, t->flow_texts.count, t->flow_texts.data[i].flow < flow);
    bool found = i < t->flow_texts.count && t->flow_texts.data[i].flow == flow;
    return found ? t->flow_texts.data[i].about : (kt_flow_about){0};
}

uint32_t kt_process_place(const kineto_trace *t, uint32_t process)
{
    return process < t->processes.count ? t->processes.data[process].place : 0;
}

bool kt_track_has_own_tid(const kineto_trace *t, uint32_t track)
{
    return t->was_read && track < t->tracks.count && !t->tracks.data[track].has_other_tid;
}

uint64_t kineto_trace_flow_count(const kineto_trace *t) { return t ? t->flows.count : 0; }

bool kineto_trace_flow(const kineto_trace *t, uint64_t index, kineto_flow *out)
{
    if (!out)
        return false;
    *out = (kineto_flow){.from = KINETO_NO_ROW, .to = KINETO_NO_ROW};
    if (!t || index >= t->flows.count)
        return false;
    *out = t->flows.data[index];
    return true;
}

uint32_t kineto_trace_ledger_count(const kineto_trace *t)
{
    return t ? (uint32_t)t->ledger.count : 0;
}

bool kineto_trace_ledger(const kineto_trace *t, uint32_t index, kineto_ledger_line *out)
{
    if (!out)
        return false;
    memset(out, 0, sizeof *out);
    if (!t || index >= t->ledger.count)
        return false;
    const kt_ledger_row *l = &t->ledger.data[index];
    *out = (kineto_ledger_line){.source = trace_text(t, l->source),
                                .reason = trace_text(t, l->reason),
                                .count = l->count,
                                .is_loss = l->is_loss,
                                .detail = trace_text(t, l->detail)};
    return true;
}

kt_loss kt_ledger_loss(const kineto_ledger_line *line)
{
    static const char *const processes[] = {KT_SOURCE_UNRECORDED, KT_SOURCE_RUNNING};
    static const char *const readers[] = {"reader", "repair"};
    if (!line->is_loss || !line->count)
        return KT_LOSS_NONE;
    if (kb_string_is_one_of(line->source, processes, KB_COUNT(processes)))
        return KT_LOSS_PROCESSES;
    return kb_string_is_one_of(line->source, readers, KB_COUNT(readers)) ? KT_LOSS_READING
                                                                          : KT_LOSS_RECORDING;
}

uint64_t kt_ledger_lost(const kineto_trace *t, kt_loss loss)
{
    uint64_t lost = 0;
    for (uint32_t i = 0; i < kineto_trace_ledger_count(t); i++) {
        kineto_ledger_line line;
        kineto_trace_ledger(t, i, &line);
        if (kt_ledger_loss(&line) == loss && __builtin_add_overflow(lost, line.count, &lost))
            return UINT64_MAX;
    }
    return lost;
}

uint64_t kineto_trace_lost(const kineto_trace *t)
{
    uint64_t lost = kt_ledger_lost(t, KT_LOSS_RECORDING);
    bool is_more = __builtin_add_overflow(lost, kt_ledger_lost(t, KT_LOSS_READING), &lost);
    return is_more ? UINT64_MAX : lost;
}

uint32_t kineto_trace_metadata_count(const kineto_trace *t)
{
    return t ? (uint32_t)t->metadata.count : 0;
}

bool kineto_trace_metadata(const kineto_trace *t, uint32_t index, kineto_string *key,
                           kineto_string *json_value)
{
    if (!key || !json_value)
        return false;
    bool exists = t && index < t->metadata.count;
    *key = kineto_trace_string(t, exists ? t->metadata.data[index].key : 0);
    *json_value = kineto_trace_string(t, exists ? t->metadata.data[index].value : 0);
    return exists;
}

void kineto_trace_window(const kineto_trace *t, int64_t *start_ns, int64_t *end_ns)
{
    if (start_ns)
        *start_ns = t ? t->window_start_ns : 0;
    if (end_ns)
        *end_ns = t ? t->window_end_ns : 0;
}

uint32_t kineto_trace_snapshot_count(const kineto_trace *t)
{
    return t ? (uint32_t)t->snapshots.count : 0;
}

bool kineto_trace_snapshot(const kineto_trace *t, uint32_t index, kineto_clock_snapshot *out)
{
    if (!out)
        return false;
    memset(out, 0, sizeof *out);
    if (!t || index >= t->snapshots.count)
        return false;
    const kb_clock_snapshot *s = &t->snapshots.data[index];
    *out = (kineto_clock_snapshot){.ticks = s->ticks,
                                   .monotonic_ns = s->monotonic_ns,
                                   .monotonic_raw_ns = s->monotonic_raw_ns,
                                   .realtime_ns = s->realtime_ns,
                                   .boottime_ns = s->boottime_ns,
                                   .width_ticks = s->width_ticks};
    return true;
}

bool kt_clock_fit(const kineto_trace *t, kb_clock_fit *fit)
{
    return t->snapshots.count &&
           kb_clock_fit_again(t->snapshots.data, t->snapshots.count, fit) == KINETO_OK;
}

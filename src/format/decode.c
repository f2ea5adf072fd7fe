/* The decoder's second pass: segments in the order in which each cursor wrote them, begins paired
 * with ends, one call per event. The first pass (scan.c) has found the segments; asynchronous
 * ranges are joined at the end (async.c). Input is untrusted, and each header is read once, because
 * a pool in use may change meanwhile. Memory is bounded by the ranges that are open at one time,
 * the asynchronous halves, and the index of segments. */
#include "format/decode.h"

/* The clocks of two cores may differ a little, so an END may be earlier than the previous record by
 * up to this many ticks; if it seems earlier by more, the upper bits of the ticks have changed. */
#define MAX_BACKWARD_TICKS (UINT64_C(1) << 32)

/* A range that was begun. Its record is in the chunk; when the segment ends, it is copied to
 * `arena` (keep_open_range), since the chunk's memory may be reused. */
typedef struct open_range {
    uint64_t ticks;
    const uint64_t *record;
    kf_parts_view parts;
    bool present, owned;
    bool stale; /* open in the previous segment, its REOPEN was not seen in this one yet */
    size_t owned_more;
    KB_VEC(kf_args) more;
    KB_VEC(kf_flow) flows;
    const uint64_t *outputs;
    bool owned_outputs;
    kb_arena arena;
} open_range;

typedef struct decoder {
    const kf_input *input;
    const kf_visitor *visitor;
    kf_decode_result *result;
    kf_sites sites;
    kf_segments segments;
    kf_halves halves;
    /* of the cursor and the segment that are being decoded: */
    uint32_t cursor, process, pid, tid;
    uint64_t previous; /* full ticks of the previous record, to complete those of an END */
    uint64_t last;     /* greatest ticks of this cursor so far */
    uint64_t stale_end;
    uint32_t top; /* one more than the deepest open range */
    bool any_stale;
    bool bad;       /* the current record is malformed */
    kf_event range; /* the last range event: members that do not change stay set */
    uint32_t *left; /* by chunk: segments still to decode; NULL: input->done is not set */
    open_range open[KF_MAX_DEPTH];
} decoder;

/* ---- emitting -------------------------------------------------------------------------------- */

static kineto_status emit_event(decoder *d, const kf_event *event)
{
    return d->visitor->event ? d->visitor->event(d->visitor->context, event) : KINETO_OK;
}

static kf_event make_event(const decoder *d, kf_event_form form, uint64_t start, uint64_t end)
{
    return (kf_event){.form = form,
                      .clock = KINETO_PLUGIN_CLOCK_TICKS,
                      .process = d->process,
                      .pid = d->pid,
                      .tid = d->tid,
                      .cursor = d->cursor,
                      .start = start,
                      .end = KB_MAX(start, end)};
}

static void clear_open_range(open_range *r)
{
    r->present = r->owned = r->stale = false;
    r->more.count = r->flows.count = r->owned_more = 0;
    r->outputs = NULL;
    r->owned_outputs = false;
    if (r->arena.used_bytes)
        kb_arena_free(&r->arena);
}

/* Emit an open range that ends at `end`, with the parts collected for it, and forget it. */
static kineto_status emit_open_range(decoder *d, open_range *r, uint64_t end, uint32_t flags)
{
    KB_ASSERT(r->present);
    kf_event *e = &d->range;
    e->flags = flags;
    e->start = r->ticks;
    e->end = KB_MAX(r->ticks, end);
    kf_event_set_parts(e, &r->parts);
    e->more_args = r->more.data;
    e->more_count = (uint32_t)r->more.count;
    e->flows = r->flows.data;
    e->flow_count = (uint32_t)r->flows.count;
    e->outputs = r->outputs;
    d->result->open_ranges += (flags & KF_EVENT_OPEN_END) != 0;
    kineto_status status = emit_event(d, e);
    clear_open_range(r);
    return status;
}

/* Close the ranges from `depth` inwards, the innermost first. */
static kineto_status close_ranges_from(decoder *d, uint32_t depth, uint64_t end, uint32_t flags)
{
    kineto_status status = KINETO_OK;
    KB_ASSERT(d->top <= KF_MAX_DEPTH);
    while (d->top > depth && !status) {
        open_range *r = &d->open[--d->top];
        if (r->present)
            status = emit_open_range(d, r, r->stale ? d->stale_end : end, flags);
    }
    while (d->top > 0 && !d->open[d->top - 1].present)
        d->top--;
    return status;
}

/* Close the ranges that the previous segment left open and this one did not reopen: their ends are
 * lost. */
static kineto_status close_stale_ranges(decoder *d)
{
    kineto_status status = KINETO_OK;
    for (uint32_t i = d->top; i > 0 && !status; i--)
        if (d->open[i - 1].present && d->open[i - 1].stale)
            status = emit_open_range(d, &d->open[i - 1], d->stale_end, KF_EVENT_OPEN_END);
    while (d->top > 0 && !d->open[d->top - 1].present)
        d->top--;
    d->any_stale = false;
    return status;
}

/* ---- records ---------------------------------------------------------------------------------
 * Each function decodes one record, which has at least the words of its type (kf_min_words). A malformed
 * one sets d->bad and returns KINETO_OK: the rest of the segment is skipped and counted. */

static void advance_ticks(decoder *d, uint64_t ticks)
{
    d->previous = ticks;
    d->last = KB_MAX(d->last, ticks);
}

static kineto_status mark_malformed(decoder *d)
{
    d->bad = true;
    return KINETO_OK;
}

static kineto_status decode_begin(decoder *d, const uint64_t *record, uint32_t words)
{
    uint32_t depth = kf_header_aux(record[0]) & 0xff;
    kineto_status status = KINETO_OK;
    if (KINETO_UNLIKELY(d->top > depth)) /* their ends are missing */
        status = close_ranges_from(d, depth, record[1], KF_EVENT_OPEN_END);
    open_range *r = &d->open[depth];
    if (!kf_parts_read(&d->sites, record, words, 2, &r->parts))
        return mark_malformed(d);
    r->ticks = record[1];
    r->record = record;
    r->present = true;
    d->top = depth + 1;
    return status;
}

static kineto_status decode_reopen(decoder *d, const uint64_t *record, uint32_t words)
{
    open_range *r = &d->open[kf_header_aux(record[0]) & 0xff];
    if (r->present && r->stale && r->ticks == record[1]) {
        r->stale = false;
        return KINETO_OK;
    }
    return decode_begin(d, record, words);
}

static kineto_status decode_end(decoder *d, uint64_t header)
{
    uint32_t depth = (uint32_t)(header >> 6 & 1023);
    uint64_t delta = ((header >> 16) - d->previous) & KF_END_TICK_MASK;
    if (delta > KF_END_TICK_MASK - MAX_BACKWARD_TICKS)
        delta -= KF_END_TICK_MASK + 1;
    uint64_t ticks = d->previous + delta;
    advance_ticks(d, ticks);
    if (KINETO_UNLIKELY(depth >= d->top || !d->open[depth].present)) {
        d->result->unmatched_ends++;
        return KINETO_OK;
    }
    return close_ranges_from(d, depth, ticks, 0);
}

static kineto_status decode_instant(decoder *d, const uint64_t *record, uint32_t words)
{
    kf_parts_view parts;
    if (!kf_parts_parse(&d->sites, record, words, 2, &parts))
        return mark_malformed(d);
    kf_event e = make_event(d, KF_FORM_INSTANT, record[1], record[1]);
    kf_event_set_parts(&e, &parts);
    return emit_event(d, &e);
}

/* A complete range in one record. */
static kineto_status decode_range(decoder *d, const uint64_t *record, uint32_t words)
{
    kf_parts_view parts;
    if (!kf_parts_parse(&d->sites, record, words, 3, &parts))
        return mark_malformed(d);
    kf_event e = make_event(d, KF_FORM_RANGE, record[1], record[2]);
    kf_event_set_parts(&e, &parts);
    return emit_event(d, &e);
}

static kineto_status decode_open_call(decoder *d, const uint64_t *record, uint32_t words)
{
    kf_parts_view parts;
    if (!kf_parts_parse(&d->sites, record, words, KF_CALL_WORDS, &parts))
        return mark_malformed(d);
    bool is_dead = kf_header_aux(record[0]) & KF_CALL_DEAD;
    kf_event e = make_event(d, KF_FORM_RANGE, record[1], record[2]);
    kf_event_set_parts(&e, &parts);
    e.flags |= KF_EVENT_OPEN_END | (is_dead ? 0 : KF_EVENT_STILL_OPEN);
    e.least_ns = record[3];
    d->result->last_ticks = KB_MAX(d->result->last_ticks, e.end);
    return emit_event(d, &e);
}

static kineto_status decode_async(decoder *d, const uint64_t *record, uint32_t words)
{
    kf_parts_view parts;
    if (!kf_parts_parse(&d->sites, record, words, 3, &parts))
        return mark_malformed(d);
    kf_half half = {.ticks = record[1],
                    .id = record[2],
                    .process = d->process,
                    .site = kf_header_id(record[0]),
                    .cursor = d->cursor,
                    .pid = d->pid,
                    .tid = d->tid,
                    .is_end = kf_header_type(record[0]) == KF_ASYNC_END};
    return kf_half_add(&d->halves, half, record, words) ? KINETO_OK : KINETO_E_MEMORY;
}

static kineto_status decode_counter(decoder *d, const uint64_t *record, uint32_t words)
{
    const kf_site *site = kf_site_of(&d->sites, kf_header_id(record[0]));
    kf_event e = make_event(d, KF_FORM_COUNTER, record[1], record[1]);
    kf_parts_view parts = {.site = site, .name = site->name, .args = {record + 2, words - 2, site}};
    if (!site->known || words == 2) {
        parts.args = (kf_args){NULL, 0, NULL};
        parts.flags = words > 2 || site->arg_count ? KF_EVENT_ARGS_LOST : 0;
    } else if (!kf_site_args_valid(site, record + 2, words - 2)) {
        return mark_malformed(d);
    }
    kf_event_set_parts(&e, &parts);
    return emit_event(d, &e);
}

static kineto_status decode_args(decoder *d, const uint64_t *record, uint32_t words)
{
    uint32_t depth = kf_header_aux(record[0]), id = kf_header_id(record[0]);
    const kf_site *site = id ? kf_site_of(&d->sites, id) : NULL;
    if (depth >= d->top || !d->open[depth].present) {
        d->result->unmatched_parts++;
        return KINETO_OK;
    }
    open_range *r = &d->open[depth];
    if (site && !site->known) {
        r->parts.flags |= KF_EVENT_ARGS_LOST;
        return KINETO_OK;
    }
    if (site ? !kf_site_args_valid(site, record + 2, words - 2)
             : !kf_loose_args_valid(record + 2, words - 2))
        return mark_malformed(d);
    kf_args args = {record + 2, words - 2, site};
    return kb_vec_push(&r->more, args) ? KINETO_OK : KINETO_E_MEMORY;
}

static kineto_status decode_outputs(decoder *d, const uint64_t *record, uint32_t words)
{
    uint32_t depth = kf_header_aux(record[0]);
    if (depth >= d->top || !d->open[depth].present) {
        d->result->unmatched_parts++;
        return KINETO_OK;
    }
    if (kf_function_check(record + 2, words - 2) != words - 2)
        return mark_malformed(d);
    d->open[depth].outputs = record + 2;
    d->open[depth].owned_outputs = false;
    return KINETO_OK;
}

static kineto_status decode_flow(decoder *d, const uint64_t *record)
{
    if (d->top == 0) {
        d->result->unmatched_parts++;
        return KINETO_OK;
    }
    uint32_t aux = kf_header_aux(record[0]);
    kf_flow flow = {
        .type = aux & 0xff, .start = (aux & 0x100) != 0, .id = record[2], .ticks = record[1]};
    return kb_vec_push(&d->open[d->top - 1].flows, flow) ? KINETO_OK : KINETO_E_MEMORY;
}

static kineto_status decode_memory(decoder *d, const uint64_t *record)
{
    kf_event e = make_event(d, KF_FORM_MEMORY, record[1], record[1]);
    e.kind = KINETO_KIND_MEMORY;
    e.flags = kf_header_aux(record[0]) & 1 ? KF_EVENT_NO_MEMORY : 0;
    e.memory = record + 2;
    return emit_event(d, &e);
}

/* The event of a DEVICE record's fixed words. */
static void decode_device_words(const decoder *d, const uint64_t *record, kf_event *e)
{
    uint32_t aux = kf_header_aux(record[0]);
    *e = (kf_event){.form = KF_FORM_DEVICE,
                    .kind = aux & 63,
                    .clock = aux >> 6 & 15,
                    .process = d->process,
                    .pid = d->pid,
                    .tid = d->tid,
                    .cursor = d->cursor,
                    .start = record[1],
                    .end = record[2],
                    .correlation_id = record[3],
                    .device = (int32_t)(uint32_t)record[4],
                    .resource = (int32_t)(record[4] >> 32),
                    .flow_id = (uint32_t)record[5],
                    .flow_type = (uint32_t)(record[5] >> 32 & 0xff),
                    .flow_start = (record[5] >> 40 & 0xff) != 0,
                    .source = (uint32_t)(record[5] >> 48 & 0xff),
                    .spelling = (uint32_t)(record[5] >> 56)};
}

/* Name and args, from a site or loose; `words` follow the fixed ones. False: malformed. */
static bool decode_device_parts(decoder *d, kf_event *e, uint32_t props, uint32_t id,
                                const uint64_t *words, uint32_t count)
{
    if (!(props & KF_DEVICE_SITE)) {
        e->name = kf_dictionary_string(d->input->dictionary, d->input->dictionary_words, id);
        if (!(props & KF_DEVICE_LOOSE))
            return count == 0;
        e->args = (kf_args){words, count, NULL};
        return kf_loose_args_valid(words, count);
    }
    e->site = kf_site_of(&d->sites, id);
    e->name = e->site->name;
    if (props & KF_DEVICE_LOOSE)
        return false;
    if (!e->site->known || count == 0) {
        e->flags |= count || e->site->arg_count ? KF_EVENT_ARGS_LOST : 0;
        return true;
    }
    e->args = (kf_args){words, count, e->site};
    return kf_site_args_valid(e->site, words, count);
}

static kineto_status decode_device(decoder *d, const uint64_t *record, uint32_t words)
{
    uint32_t props = kf_header_aux(record[0]) >> 10, at = 6;
    kf_event e;
    decode_device_words(d, record, &e);
    if (!kf_kind_possible(e.kind) || e.source >= KF_MAX_SOURCES || e.spelling > kb_kind_alias_count)
        return mark_malformed(d);
    if (props & KF_DEVICE_EXTERNAL) {
        if (at == words)
            return mark_malformed(d);
        e.external_id = record[at++];
    }
    if (props & KF_DEVICE_SET) {
        if (at == words || props & KF_DEVICE_SITE)
            return mark_malformed(d);
        e.set = kf_set_of(&d->sites, (uint32_t)record[at++]);
        e.flags |= e.set ? 0 : KF_EVENT_ARGS_LOST;
    }
    if (!decode_device_parts(d, &e, props, kf_header_id(record[0]), record + at, words - at))
        return mark_malformed(d);
    return emit_event(d, &e);
}

static kineto_status decode_clock_sample(decoder *d, const uint64_t *record)
{
    kf_clock_sample sample = {.process = d->process,
                              .clock = kf_header_id(record[0]),
                              .ticks_before = record[1],
                              .ticks_after = record[2],
                              .device_time = (int64_t)record[3]};
    const kf_visitor *v = d->visitor;
    return v->clock_sample ? v->clock_sample(v->context, &sample) : KINETO_OK;
}

static kineto_status decode_thread_name(decoder *d, const uint64_t *record)
{
    const kf_visitor *v = d->visitor;
    if (!v->thread_name)
        return KINETO_OK;
    kineto_string name = kf_dictionary_string(d->input->dictionary, d->input->dictionary_words,
                                              kf_header_id(record[0]));
    return v->thread_name(v->context, d->process, d->pid, d->tid, name,
                          kf_header_aux(record[0]) == KF_NAME_OF_SYSTEM);
}

/* ---- records about threads of other processes ---- */

static kf_watched_thread read_watched_thread(const uint64_t *record)
{
    return (kf_watched_thread){.process = (uint32_t)record[4],
                               .pid = (uint32_t)record[3],
                               .tid = (uint32_t)(record[3] >> 32)};
}

static kineto_status decode_thread_run(decoder *d, const uint64_t *record, uint32_t words)
{
    kf_thread_run run = {.thread = read_watched_thread(record),
                         .start = record[1],
                         .end = KB_MAX(record[1], record[2]),
                         .cpu = kf_header_id(record[0]),
                         .flags = kf_header_aux(record[0])};
    const kf_visitor *v = d->visitor;
    if (run.flags & KF_RUN_WOKEN && words < KF_RUN_WORDS + 2)
        return mark_malformed(d);
    if (run.flags & KF_RUN_WOKEN) {
        run.woken = record[KF_RUN_WORDS];
        run.waker_pid = (uint32_t)record[KF_RUN_WORDS + 1];
        run.waker_tid = (uint32_t)(record[KF_RUN_WORDS + 1] >> 32);
    }
    return v->thread_run ? v->thread_run(v->context, &run) : KINETO_OK;
}

static kineto_status decode_stack_sample(decoder *d, const uint64_t *record, uint32_t words)
{
    kf_stack_sample sample = {.thread = read_watched_thread(record),
                              .ticks = record[1],
                              .cpu_ns = record[2],
                              .cpu = kf_header_id(record[0]),
                              .flags = kf_header_aux(record[0]),
                              .kernel_count = (uint32_t)(record[4] >> 32),
                              .count = words - KF_STACK_SAMPLE_WORDS,
                              .addresses = record + KF_STACK_SAMPLE_WORDS};
    const kf_visitor *v = d->visitor;
    if (sample.kernel_count > sample.count)
        return mark_malformed(d);
    return v->stack_sample ? v->stack_sample(v->context, &sample) : KINETO_OK;
}

static kineto_status decode_thread_life(const decoder *d, const uint64_t *record)
{
    kf_thread_life life = {.thread = read_watched_thread(record),
                           .start = record[1],
                           .end = KB_MAX(record[1], record[2]),
                           .creator_tid = (uint32_t)(record[4] >> 32),
                           .flags = kf_header_aux(record[0])};
    const kf_visitor *v = d->visitor;
    return v->thread_life ? v->thread_life(v->context, &life) : KINETO_OK;
}

/* Does word 2 hold the record's last ticks? */
static bool has_end_ticks(uint32_t type)
{
    return type == KF_RANGE || type == KF_THREAD_RUN || type == KF_THREAD_LIFE;
}

static kineto_status dispatch_record(decoder *d, uint32_t type, const uint64_t *record,
                                     uint32_t words)
{
    if (type == KF_OPEN_CALL)
        return decode_open_call(d, record, words);
    if (type != KF_DEVICE && type != KF_CLOCK_SAMPLE) /* those have times of a source's own clock */
        advance_ticks(d, record[has_end_ticks(type) ? 2 : 1]);
    switch (type) {
    case KF_BEGIN:
        return decode_begin(d, record, words);
    case KF_INSTANT:
        return decode_instant(d, record, words);
    case KF_RANGE:
        return decode_range(d, record, words);
    case KF_ASYNC_BEGIN:
    case KF_ASYNC_END:
        return decode_async(d, record, words);
    case KF_COUNTER:
        return decode_counter(d, record, words);
    case KF_ARGS:
        return decode_args(d, record, words);
    case KF_OUTPUTS:
        return decode_outputs(d, record, words);
    case KF_FLOW:
        return decode_flow(d, record);
    case KF_MEMORY:
        return decode_memory(d, record);
    case KF_DEVICE:
        return decode_device(d, record, words);
    case KF_CLOCK_SAMPLE:
        return decode_clock_sample(d, record);
    case KF_THREAD_NAME:
        return decode_thread_name(d, record);
    case KF_THREAD_RUN:
        return decode_thread_run(d, record, words);
    case KF_STACK_SAMPLE:
        return decode_stack_sample(d, record, words);
    case KF_THREAD_LIFE:
        return decode_thread_life(d, record);
    case KF_THROTTLED:
        d->result->throttled += record[2];
        return KINETO_OK;
    case KF_THREAD_EXIT:
        return close_ranges_from(d, 0, d->last, KF_EVENT_OPEN_END);
    default: /* a keyframe inside a segment: the chunk changed while it was read */
        return mark_malformed(d);
    }
}

/* One record of valid length. The first record other than PAD and REOPEN ends the reopening: ranges
 * that are still stale are closed. */
static kineto_status decode_record(decoder *d, const uint64_t *record, uint64_t header,
                                   uint32_t words)
{
    uint32_t type = kf_header_type(header);
    if (type == KF_PAD)
        return KINETO_OK;
    d->result->records++;
    if (type == KF_REOPEN)
        return decode_reopen(d, record, words);
    if (KINETO_UNLIKELY(d->any_stale)) {
        kineto_status status = close_stale_ranges(d);
        if (status)
            return status;
    }
    return type == KF_END ? decode_end(d, header) : dispatch_record(d, type, record, words);
}

/* ---- segments -------------------------------------------------------------------------------- */

/* The last segment of the cursor is decoded: emit the ranges that stay open. */
static kineto_status finish_cursor(decoder *d)
{
    kf_decode_result *r = d->result;
    kineto_status status =
        close_ranges_from(d, 0, d->last, KF_EVENT_OPEN_END | KF_EVENT_STILL_OPEN);
    r->last_ticks = KB_MAX(r->last_ticks, d->last);
    KB_ASSERT(status || d->top == 0);
    d->last = 0;
    return status;
}

/* Set the decoder's state from the segment's keyframe. */
static void start_segment_state(decoder *d, const kf_segment *s, const uint64_t *record)
{
    d->any_stale = d->top > 0;
    for (uint32_t i = 0; i < d->top; i++)
        d->open[i].stale = d->open[i].present;
    d->stale_end = d->last;
    d->cursor = s->cursor;
    d->pid = (uint32_t)record[2];
    d->tid = (uint32_t)(record[2] >> 32);
    d->process = (uint32_t)record[3];
    d->range = make_event(d, KF_FORM_RANGE, 0, 0);
    advance_ticks(d, record[1]);
    if (d->result->first_ticks == 0 || record[1] < d->result->first_ticks)
        d->result->first_ticks = record[1];
}

/* Copy words to the range's arena and let *words point to the copy. False: out of memory. */
static bool keep_words(open_range *r, const uint64_t **words, uint32_t count)
{
    uint64_t *copy = kb_arena_alloc(&r->arena, (count + 1) * sizeof *copy, sizeof *copy);
    if (!copy)
        return false;
    memcpy(copy, *words, count * sizeof *copy);
    *words = copy;
    return true;
}

/* Copy everything in the chunk that an open range points to. Parts that were copied for an earlier
 * segment are not copied again. False: out of memory. */
static bool keep_open_range(decoder *d, open_range *r)
{
    KB_ASSERT(r->present && r->owned_more <= r->more.count);
    if (!r->owned) {
        uint32_t words = kf_header_words(r->record[0]), flags = r->parts.flags;
        if (!keep_words(r, &r->record, words))
            return false;
        (void)kf_parts_parse(&d->sites, r->record, words, 2, &r->parts);
        r->parts.flags |= flags;
        r->owned = true;
    }
    for (; r->owned_more < r->more.count; r->owned_more++) {
        kf_args *args = &r->more.data[r->owned_more];
        if (!keep_words(r, &args->words, args->word_count))
            return false;
    }
    if (r->outputs && !r->owned_outputs) {
        if (!keep_words(r, &r->outputs, kf_function_words(r->outputs[0])))
            return false;
        r->owned_outputs = true;
    }
    return true;
}

/* The records of a segment after its keyframe. A bad record ends it. */
static kineto_status decode_words(decoder *d, const kf_segment *s, const uint64_t *words)
{
    for (uint32_t at = s->offset + KF_KEYFRAME_WORDS, end = s->offset + s->words; at < end;) {
        uint64_t header = kb_load_acquire(&words[at]);
        uint32_t n = kf_header_words(header), min = kf_min_words(kf_header_type(header));
        d->bad = min == 0 || n < min || n > end - at;
        kineto_status status = d->bad ? KINETO_OK : decode_record(d, words + at, header, n);
        if (status)
            return status;
        if (d->bad) {
            d->result->bad_records++;
            break;
        }
        at += n;
    }
    for (uint32_t i = 0; i < d->top; i++)
        if (d->open[i].present && !keep_open_range(d, &d->open[i]))
            return KINETO_E_MEMORY;
    return KINETO_OK;
}

/* Is the segment still where scan.c found it? A pool in use may have changed since. */
static bool is_segment_unchanged(const kf_segment *s, const uint64_t *words, uint32_t count)
{
    if (s->words < KF_KEYFRAME_WORDS || (uint32_t)s->offset + s->words > count)
        return false;
    uint64_t header = kb_load_acquire(&words[s->offset]);
    return kf_header_type(header) == KF_KEYFRAME && kf_header_id(header) == s->cursor &&
           (uint32_t)(words[s->offset + 3] >> 32) == s->seq;
}

static kineto_status decode_segment(decoder *d, const kf_segment *s, const kf_segment *before,
                                    kineto_error *err)
{
    uint32_t count = 0;
    kineto_status status = KINETO_OK;
    bool same_cursor = before && before->cursor == s->cursor;
    if (before && !same_cursor)
        status = finish_cursor(d);
    if (status)
        return status;
    kineto_error why = {.code = KINETO_OK};
    const uint64_t *words = d->input->get(d->input->context, s->chunk, &count, &why);
    if (!words)
        return kb_fail(err, why.code ? why.code : KINETO_E_IO, "chunk %u cannot be read: %s",
                       s->chunk, why.code ? why.message : "no reason given");
    if (!is_segment_unchanged(s, words, KB_MIN(count, KF_CHUNK_WORDS))) {
        d->result->missing_segments++;
        return KINETO_OK;
    }
    /* A segment begins where the one before it was sealed. */
    uint64_t until = d->input->until_ticks ? d->input->until_ticks : UINT64_MAX;
    if (same_cursor && words[s->offset + 1] > d->input->from_ticks && words[s->offset + 1] <= until)
        d->result->missing_segments += s->seq - before->seq - 1;
    start_segment_state(d, s, words + s->offset);
    d->result->records++;
    return decode_words(d, s, words);
}

/* Count the segments of each chunk, so that input->done can be called after the last one. False:
 * out of memory. */
static bool count_segments_by_chunk(decoder *d)
{
    if (!d->input->done)
        return true;
    d->left = calloc((size_t)d->input->chunk_count + 1, sizeof *d->left);
    for (size_t i = 0; i < d->segments.count && d->left; i++)
        d->left[d->segments.data[i].chunk]++;
    return d->left != NULL;
}

static void finish_chunk_segment(decoder *d, uint32_t chunk)
{
    KB_ASSERT(!d->left || (chunk < d->input->chunk_count && d->left[chunk] > 0));
    if (d->left && --d->left[chunk] == 0)
        d->input->done(d->input->context, chunk);
}

static kineto_status decode_segments(decoder *d, kineto_error *err)
{
    kineto_status status = kf_dictionary_walk(d->input, d->visitor, &d->result->bad_entries);
    if (!status)
        status = kf_scan(d->input, &d->segments, d->result, err);
    if (!status && !count_segments_by_chunk(d))
        status = KINETO_E_MEMORY;
    for (size_t i = 0; i < d->segments.count && !status; i++) {
        const kf_segment *s = &d->segments.data[i];
        status = decode_segment(d, s, i ? s - 1 : NULL, err);
        finish_chunk_segment(d, s->chunk);
    }
    if (!status)
        status = finish_cursor(d);
    if (!status)
        status = kf_halves_emit(&d->halves, &d->sites, d->visitor, d->result);
    d->result->bad_entries += d->sites.bad_entries;
    return status;
}

static void free_decoder(decoder *d)
{
    for (uint32_t i = 0; i < KF_MAX_DEPTH; i++) {
        kb_vec_free(&d->open[i].more);
        kb_vec_free(&d->open[i].flows);
        kb_arena_free(&d->open[i].arena);
    }
    kf_halves_free(&d->halves);
    kf_sites_free(&d->sites);
    kb_vec_free(&d->segments);
    free(d->left);
    free(d);
}

kineto_status kf_decode(const kf_input *input, const kf_visitor *visitor, kf_decode_result *result,
                        kineto_error *err)
{
    kf_decode_result unused;
    kf_decode_result *counts = result ? result : &unused;
    *counts = (kf_decode_result){0};
    decoder *d = calloc(1, sizeof *d);
    if (!d)
        return kb_fail_memory(err, "decoder");
    d->input = input;
    d->visitor = visitor;
    d->result = counts;
    kineto_error why = {.code = KINETO_OK};
    kineto_status status = kf_sites_init(&d->sites, input, &why);
    if (!status)
        status = decode_segments(d, &why);
    free_decoder(d);
    if (status && why.code)
        return kb_fail(err, why.code, "%s", why.message);
    if (status == KINETO_E_MEMORY)
        return kb_fail_memory(err, "decoder");
    return status;
}

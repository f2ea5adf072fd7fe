/* The functions of <ckineto/record.h>: what runs for each event. Attaching threads and changing
 * chunks, which are rare, are in cursor.c; packing of args is in encode.h; the layout of records is
 * in format.h.
 *
 * Each call has a fast path that checks everything first (thread attached, site registered, room in
 * the chunk) and a general path, out of line, that handles the rest. Budget: a begin+end pair costs
 * two clock reads and 24 bytes; everything else fits into the latency of reading the clock. */
#include "record/encode.h"

const uint64_t kr_closed_gate = 0;
const uint64_t *kineto_gate = &kr_closed_gate;

static const kineto_props kr_no_props = {sizeof kr_no_props, NULL, 0, 0, 0, NULL};
static KB_NOINLINE kineto_range begin_range_general(kineto_site *site, const kineto_props *props);

static KB_NOINLINE kineto_range begin_range_values(kineto_site *site, const kineto_value *values)
{
    kineto_props props = kr_no_props;
    props.values = values;
    return begin_range_general(site, &props);
}

/* Checks come after kr_enter: a signal handler may use up the room before it, not after. */
kineto_range kineto_record_begin(kineto_site *site)
{
    kr_cursor *c = kr_me;
    if (!kr_ready(c))
        return begin_range_values(site, NULL);
    kr_enter(c);
    uint32_t id = kb_load_acquire(&site->id);
    if (!id || !kr_room_for(c, 3) || c->depth >= KF_MAX_DEPTH) {
        kr_leave(c);
        return begin_range_values(site, NULL);
    }
    uint64_t *at = c->at;
    at[1] = kb_ticks_hw();
    return kr_range_begin(c, at, 2, 0, id);
}

/* Fewer than 16 words in at most four moves: a loop would cost a mispredicted branch when the count
 * varies. Returns the end. */
KB_INLINE uint64_t *copy_few_words(uint64_t *out, const void *from, uint32_t count)
{
    const uint64_t *at = from;
    if (count & 2) {
        memcpy(out, at, 16);
        out += 2;
        at += 2;
    }
    if (count & 4) {
        memcpy(out, at, 32);
        out += 4;
        at += 4;
    }
    if (count & 1)
        *out++ = *at++;
    if (count & 8) {
        memcpy(out, at, 64);
        out += 8;
    }
    return out;
}

/* A range of a site whose args are all single words: their packed form is the array itself. */
KB_INLINE kineto_range begin_fixed_args(kr_cursor *c, const kineto_site *site,
                                        const kineto_value *values)
{
    uint64_t *at = c->at;
    uint32_t n = site->arg_count;
    at[1] = kb_ticks_hw();
    if (KINETO_LIKELY(n < 16))
        (void)copy_few_words(at + 2, values, n);
    else
        memcpy(at + 2, values, n * sizeof *values);
    return kr_range_begin(c, at, 2 + n, KF_PROP_ARGS, kb_load_relaxed(&site->id));
}

/* For sites whose only arg is the shapes of an operator's inputs, up to four of them: what nearly
 * every operator has. `ranks` is the packed word of ranks, `dims` the sum of them. */
typedef struct kr_few_shapes {
    uint64_t ranks;
    uint32_t dims;
} kr_few_shapes;

/* @return false if there are none, more than four, or one of an absurd rank. */
KB_INLINE bool pack_few_shapes(const kineto_shapes *list, kr_few_shapes *out)
{
    if (!list || list->count - 1 > 3)
        return false;
    uint64_t ranks = 0;
    uint32_t dims = 0;
    for (size_t i = 0; i < list->count; i++) {
        uint32_t rank = list->data[i].rank;
        ranks |= (uint64_t)rank << (16 * i);
        dims |= rank >> 4 << 24; /* absurd ranks take the other path */
        dims += rank;
    }
    *out = (kr_few_shapes){ranks, dims};
    return dims < 1u << 24;
}

KB_INLINE kineto_range begin_shapes(kr_cursor *c, const kineto_site *site,
                                    const kineto_shapes *list, kr_few_shapes few)
{
    uint64_t *at = c->at, *out = at + 4;
    at[1] = kb_ticks_hw();
    at[2] = list->count;
    at[3] = few.ranks;
    for (const kineto_shape *s = list->data; few.ranks; few.ranks >>= 16, s++)
        out = copy_few_words(out, s->dims, s->rank);
    return kr_range_begin(c, at, 4 + few.dims, KF_PROP_ARGS, kb_load_relaxed(&site->id));
}

kineto_range kineto_record_begin_args(kineto_site *site, const kineto_value *values)
{
    kr_cursor *c = kr_me;
    kr_few_shapes few;
    if (!kr_ready(c))
        return begin_range_values(site, values);
    kr_enter(c);
    if (KINETO_LIKELY(kb_load_acquire(&site->id) && c->depth < KF_MAX_DEPTH && values)) {
        if (KINETO_LIKELY(kb_load_relaxed(&site->flags) & KR_SITE_FIXED) &&
            kr_room_for(c, 3u + site->arg_count))
            return begin_fixed_args(c, site, values);
        if ((kb_load_relaxed(&site->flags) & KR_SITE_SHAPES) &&
            pack_few_shapes(values->shapes, &few) && kr_room_for(c, 5 + few.dims))
            return begin_shapes(c, site, values->shapes, few);
    }
    kr_leave(c);
    return begin_range_values(site, values);
}

/* ---- events with optional parts -------------------------------------------------------------- */

/* Write the optional parts in the order of their KF_PROP_… bits, which *flags receives.
 * @return the end; NULL: they do not fit before `limit`. */
KB_INLINE uint64_t *write_parts(uint64_t *at, const uint64_t *limit, const kineto_site *site,
                                const kineto_props *props, uint32_t *flags)
{
    *flags = 0;
    if (limit - at < 2)
        return NULL;
    if (props->correlation_id) {
        *flags |= KF_PROP_CORRELATION;
        *at++ = props->correlation_id;
    }
    if (props->external_id) {
        *flags |= KF_PROP_EXTERNAL;
        *at++ = props->external_id;
    }
    if (props->name) {
        *flags |= KF_PROP_NAME;
        size_t size = props->name_size ? props->name_size : strlen(props->name);
        at = kr_text_write(at, limit, props->name, size, KF_MAX_INLINE_NAME);
    }
    if (at && props->values && site->arg_count) {
        *flags |= KF_PROP_ARGS;
        at = kr_args_write(at, limit, site, props->values);
    }
    return at;
}

/* Write the parts once more where there is most room, in a fresh chunk; then without the values,
 * counting that args were lost. @return the end, c->at is the record's; NULL: no room (counted). */
static KB_COLD uint64_t *write_parts_slow(kr_cursor *c, uint32_t fixed, const kineto_site *site,
                                          const kineto_props *props, uint32_t *flags)
{
    kineto_props less = *props;
    kr_undo(c);
    if (!kr_room_for_longest(c))
        return NULL;
    const uint64_t *limit = kr_record_limit(c, c->at);
    uint64_t *end = write_parts(c->at + fixed, limit, site, &less, flags);
    if (!end) {
        kr_undo(c);
        kr_count(c->source, KF_REASON_ARGS_LOST, 1);
        less.values = NULL;
        end = write_parts(c->at + fixed, limit, site, &less, flags);
        *flags |= KF_PROP_ARGS_LOST;
    }
    return end;
}

/* Write a BEGIN, INSTANT, ASYNC_* or RANGE record. The first three are alike: [header, ticks, the
 * event's id if there is one, parts]; RANGE is [header, ticks of its begin, of its end, parts], and
 * `event_id` points to both, an end of 0 is now. False: no room (counted). */
KB_INLINE bool write_event_record(kr_cursor *c, kf_type type, kineto_site *site, uint32_t site_id,
                                  const uint64_t *event_id, const kineto_props *props)
{
    uint32_t fixed = event_id ? 3 : 2, flags;
    KB_ASSERT((event_id != NULL) ==
              (type == KF_RANGE || type == KF_ASYNC_BEGIN || type == KF_ASYNC_END));
    uint64_t *at = kr_room(c, fixed + 4), *end; /* 4: its END, and the ids */
    if (KINETO_UNLIKELY(!at))
        return false;
    uint64_t ticks = kr_ticks(c); /* first: the clock runs while the parts are written */
    end = write_parts(at + fixed, kr_record_limit(c, at) - 1, site, props, &flags);
    if (KINETO_UNLIKELY(!end)) {
        end = write_parts_slow(c, fixed, site, props, &flags);
        if (!end)
            return false;
        at = c->at;
    }
    at[1] = type == KF_RANGE ? *event_id : ticks;
    if (event_id)
        at[2] = type != KF_RANGE ? *event_id : event_id[1] ? event_id[1] : ticks;
    uint32_t words = (uint32_t)(end - at), depth = 0;
    if (type == KF_BEGIN) {
        depth = c->depth;
        (void)kr_range_opened(c, at);
    }
    kr_commit(c, at, kf_header(type, words, depth | flags << 8, site_id), words);
    return true;
}

static KB_NOINLINE kineto_range begin_range_general(kineto_site *site, const kineto_props *props)
{
    kr_cursor *c = kr_cursor_enter();
    if (KINETO_UNLIKELY(!c))
        return 0;
    uint32_t id = kr_site_id_or_throttled(c, site);
    kineto_range range = 0;
    if (KINETO_UNLIKELY(id == KR_SITE_THROTTLED))
        kr_throttle_count(c);
    else if (!kr_too_deep(c) && write_event_record(c, KF_BEGIN, site, id, NULL, props))
        range = c->depth | (c->is_second ? KR_RANGE_SIGNAL : 0);
    kr_leave(c);
    return range;
}

kineto_range kineto_record_begin_props(kineto_site *site, const kineto_props *props)
{
    return begin_range_general(site, props ? props : &kr_no_props);
}

/* COUNTER and ARGS: [header, ticks, values]. */
static void write_values_record(kr_cursor *c, kf_type type, uint32_t aux, kineto_site *site,
                                const kineto_value *values)
{
    uint32_t id = kr_site_id(site);
    uint64_t *at = kr_room(c, 3), *end;
    if (!at)
        return;
    end = kr_args_write(at + 2, kr_record_limit(c, at), site, values);
    if (!end) {
        kr_undo(c);
        if (!kr_room_for_longest(c))
            return;
        at = c->at;
        end = kr_args_write(at + 2, kr_record_limit(c, at), site, values);
    }
    if (!end) {
        kr_undo(c);
        kr_count(c->source, type == KF_ARGS ? KF_REASON_ARGS_LOST : KF_REASON_TOO_LARGE, 1);
        return;
    }
    at[1] = kr_ticks(c);
    kr_commit(c, at, kf_header(type, (uint32_t)(end - at), aux, id), (uint32_t)(end - at));
}

/* ---- ends ------------------------------------------------------------------------------------ */

KB_COLD void kr_end_slow(kineto_range range)
{
    kr_cursor *c = kr_me;
    uint32_t depth = range & (KR_RANGE_SIGNAL - 1);
    if (range & KR_RANGE_SIGNAL)
        c = c->second;
    if (!c || !c->in_use || c->busy || depth == 0 || depth > c->depth)
        return; /* closed already, or opened before a fork */
    kr_enter(c);
    kr_end_write(c, depth - 1, kr_ticks(c));
    kr_leave(c);
}

/* Bindings of other languages call this also for ranges that were not recorded: 0. */
void kineto_record_end(kineto_range range)
{
    if (KINETO_LIKELY(range != 0))
        kr_range_end(range);
}

/* ---- ranges that have ended: one record for both ends ---------------------------------------- */

static KB_NOINLINE void record_past_general(kineto_site *site, uint64_t began, uint64_t ended,
                                            const kineto_value *values)
{
    kr_cursor *c = kr_cursor_enter();
    if (KINETO_UNLIKELY(!c))
        return;
    kineto_props props = kr_no_props;
    props.values = values;
    uint32_t id = kr_site_id_or_throttled(c, site);
    if (KINETO_UNLIKELY(id == KR_SITE_THROTTLED))
        kr_throttle_count(c);
    else
        (void)write_event_record(c, KF_RANGE, site, id, (const uint64_t[]){began, ended}, &props);
    kr_leave(c);
}

/* The site is registered, its args are fewer than 16 single words, there is room. */
KB_INLINE void record_past_fixed(kr_cursor *c, const kineto_site *site, uint32_t id, uint64_t began,
                                 uint64_t ended, const kineto_value *values)
{
    uint32_t n = site->arg_count;
    uint64_t *at = c->at;
    at[1] = began;
    at[2] = ended ? ended : kb_ticks_hw();
    (void)copy_few_words(at + 3, values, n);
    kr_commit(c, at, kf_header(KF_RANGE, 3 + n, (n ? KF_PROP_ARGS : 0) << 8, id), 3 + n);
}

/* `ended` 0: now. */
KB_INLINE void record_past(kineto_site *site, uint64_t began, uint64_t ended,
                           const kineto_value *values)
{
    kr_cursor *c = kr_me;
    if (!kr_ready(c)) {
        record_past_general(site, began, ended, values);
        return;
    }
    kr_enter(c);
    uint32_t id = kb_load_acquire(&site->id);
    bool fast = id && (kb_load_relaxed(&site->flags) & KR_SITE_FIXED) && site->arg_count < 16 &&
                (values || !site->arg_count) && kr_room_for(c, 3u + site->arg_count);
    if (KINETO_LIKELY(fast))
        record_past_fixed(c, site, id, began, ended, values);
    kr_leave(c);
    if (KINETO_UNLIKELY(!fast))
        record_past_general(site, began, ended, values);
}

void kineto_record_past(kineto_site *site, uint64_t began, const kineto_value *values)
{
    record_past(site, began, 0, values);
}

void kineto_record_span(kineto_site *site, uint64_t began, uint64_t ended,
                        const kineto_value *values)
{
    KB_ASSERT(began <= ended);
    record_past(site, began, ended, values);
}

uint64_t kineto_record_ticks(void)
{
    const kr_cursor *c = kr_me;
    return KINETO_LIKELY(c->tsc) ? kb_ticks_hw() : kb_ticks(kb_ticks_clock());
}

/* ---- instants, counters, flows, memory, names ------------------------------------------------ */

void kineto_record_instant(kineto_site *site, const kineto_props *props)
{
    kr_cursor *c = kr_cursor_enter();
    if (!c)
        return;
    uint32_t id = kr_site_id(site);
    (void)write_event_record(c, KF_INSTANT, site, id, NULL, props ? props : &kr_no_props);
    kr_leave(c);
}

void kineto_record_async(kineto_site *site, uint64_t id, bool begin, const kineto_props *props)
{
    kr_cursor *c = kr_cursor_enter();
    if (!c)
        return;
    uint32_t site_id = kr_site_id(site);
    (void)write_event_record(c, begin ? KF_ASYNC_BEGIN : KF_ASYNC_END, site, site_id, &id,
                             props ? props : &kr_no_props);
    kr_leave(c);
}

void kineto_record_counter(kineto_site *site, const kineto_value *values)
{
    kr_cursor *c = kr_cursor_enter();
    if (!c)
        return;
    write_values_record(c, KF_COUNTER, 0, site, values);
    kr_leave(c);
}

void kineto_record_args(kineto_range range, kineto_site *site, const kineto_value *values)
{
    kr_cursor *c = kr_cursor_enter();
    if (!c)
        return;
    /* The range must be open on this very cursor: the thread's own or the signal handler's. */
    uint32_t depth = range & (KR_RANGE_SIGNAL - 1);
    bool ours = depth != 0 && depth <= c->depth && !(range & KR_RANGE_SIGNAL) == !c->is_second;
    if (ours && site->arg_count && values)
        write_values_record(c, KF_ARGS, depth - 1, site, values);
    kr_leave(c);
}

void kineto_record_flow(uint32_t type, uint64_t id, bool start)
{
    kr_cursor *c = kr_cursor_enter();
    if (!c)
        return;
    uint64_t *at = kr_room(c, 3);
    if (at) {
        at[1] = kr_ticks(c);
        at[2] = id;
        kr_commit(c, at, kf_header(KF_FLOW, 3, (type & 0xff) | (start ? 0x100u : 0), 0), 3);
    }
    kr_leave(c);
}

/* aux 1: the allocation failed. */
static void write_memory_record(const kineto_memory_event *event, uint32_t aux)
{
    kr_cursor *c = kr_cursor_enter();
    if (!c)
        return;
    uint64_t *at = kr_room(c, 7);
    if (at) {
        at[1] = kr_ticks(c);
        at[2] = event->address;
        at[3] = (uint64_t)event->bytes;
        at[4] = event->total_allocated_bytes;
        at[5] = event->total_reserved_bytes;
        at[6] = (uint32_t)event->device_type | (uint64_t)(uint32_t)event->device_index << 32;
        kr_commit(c, at, kf_header(KF_MEMORY, 7, aux, 0), 7);
    }
    kr_leave(c);
}

void kineto_record_memory(const kineto_memory_event *event) { write_memory_record(event, 0); }
void kineto_record_out_of_memory(const kineto_memory_event *event)
{
    write_memory_record(event, 1);
}

void kineto_thread_set_name(const char *name)
{
    kr_cursor *c = kr_cursor_enter();
    if (!c)
        return;
    size_t n = name ? strlen(name) : 0;
    n = KB_MIN(n, sizeof c->name - 1);
    memcpy(c->name, name ? name : "", n);
    c->name[n] = 0;
    c->name_id = 0;
    kr_cursor_put_name(c);
    kr_leave(c);
}

/* Memory profiles: what is allocated now, what was at the peak, and where. Computed from the memory
 * rows of a trace; a place is the operator or range that was open on the thread. */
#include "analyze/summary/summary.h"
#include "profiler/profiler.h"

static kb_lock lock;
static kineto_session *session; /* while it runs */
static kineto_trace *kept;      /* of the last one that was stopped */

static kineto_status profile_begin(kineto_error *err)
{
    kineto_session_options o;
    kineto_session_options_init(&o);
    o.kinds = KINETO_KIND_BIT(KINETO_KIND_MEMORY) | KINETO_KIND_BIT(KINETO_KIND_CPU_OP) |
              KINETO_KIND_BIT(KINETO_KIND_USER_ANNOTATION);
    o.operators = KINETO_OPERATORS_NO_CORRELATION | KINETO_OPERATORS_NO_TEXTS;
    return kineto_session_begin(&o, &session, err);
}

kineto_status kineto_memory_profile_start(kineto_error *err)
{
    (void)kb_lock_take(&lock, kb_os_self());
    kineto_status status =
        session ? kb_fail(err, KINETO_E_STATE, "a memory profile runs already: stop it first")
                : profile_begin(err);
    kb_lock_drop(&lock);
    return status;
}

kineto_status kineto_memory_profile_stop(kineto_error *err)
{
    (void)kb_lock_take(&lock, kb_os_self());
    kineto_trace *trace = NULL;
    kineto_status status =
        session ? kineto_session_end(session, &trace, err)
                : kb_fail(err, KINETO_E_STATE, "no memory profile runs: start one first");
    session = NULL;
    if (!status) {
        kineto_trace_release(kept);
        kept = trace;
    }
    kb_lock_drop(&lock);
    return status;
}

/* ---- what a trace says of memory ------------------------------------------------------------- */

typedef struct place_sums {
    uint32_t name; /* string id of the trace; UINT32_MAX: outside of all */
    uint64_t allocations, releases, allocated_bytes, live_bytes, live_blocks;
} place_sums;

typedef struct block {
    uint64_t address, bytes;
    int64_t device; /* type << 32 | index */
    int64_t time_ns;
    uint32_t place;
    bool live;
} block;

typedef struct profile {
    const kineto_trace *trace;
    KB_VEC(place_sums) places;
    kb_map place_of_name;
    KB_VEC(block) blocks;
    kb_map block_of_address; /* of the last allocation there */
    int64_t live_bytes, peak_bytes, peak_ns;
    uint64_t allocations, releases, unknown_releases, unknown_bytes;
} profile;

static bool is_allocation(const kineto_activity *a)
{
    return a->form == KINETO_FORM_INSTANT && kb_string_equal(a->name, kb_string("[memory]"));
}

/* By name: the same operator at all times is one place. */
static place_sums *place_get(profile *p, kineto_row range)
{
    kineto_activity a = {.name_id = UINT32_MAX};
    if (range != KINETO_NO_ROW)
        kineto_trace_get(p->trace, range, &a);
    bool created;
    uint64_t *slot =
        kb_map_insert(&p->place_of_name, (uint64_t)a.name_id + 1, p->places.count, &created);
    if (!slot || (created && !kb_vec_push(&p->places, (place_sums){.name = a.name_id})))
        return NULL;
    return &p->places.data[*slot];
}

static uint64_t block_key(uint64_t address, int64_t device)
{
    return address ^ (uint64_t)device * UINT64_C(0x9e3779b97f4a7c15);
}

static bool allocate(profile *p, const kineto_activity *a, uint64_t address, int64_t bytes,
                     int64_t device)
{
    place_sums *place = place_get(p, kineto_trace_parent(p->trace, a->row));
    uint64_t *slot = kb_map_insert(&p->block_of_address, block_key(address, device), 0, NULL);
    block b = {.address = address,
               .bytes = (uint64_t)bytes,
               .device = device,
               .time_ns = a->start_ns,
               .live = true};
    if (!place || !slot)
        return false;
    b.place = (uint32_t)(place - p->places.data);
    *slot = p->blocks.count;
    p->allocations++;
    place->allocations++;
    place->allocated_bytes += (uint64_t)bytes;
    place->live_bytes += (uint64_t)bytes;
    place->live_blocks++;
    p->live_bytes = ka_add_saturated(p->live_bytes, bytes);
    if (p->live_bytes > p->peak_bytes) {
        p->peak_bytes = p->live_bytes;
        p->peak_ns = a->start_ns;
    }
    return kb_vec_push(&p->blocks, b);
}

/* What was allocated before is not known; it is counted apart. */
static void release(profile *p, uint64_t address, int64_t bytes, int64_t device)
{
    uint64_t *slot = kb_map_find(&p->block_of_address, block_key(address, device));
    block *b = slot ? &p->blocks.data[*slot] : NULL;
    if (!b || !b->live || b->address != address) {
        p->unknown_releases++;
        p->unknown_bytes += 0 - (uint64_t)bytes;
        return;
    }
    b->live = false;
    p->releases++;
    p->live_bytes = ka_add_saturated(p->live_bytes, -(int64_t)b->bytes);
    place_sums *place = &p->places.data[b->place];
    place->releases++;
    place->live_bytes -= b->bytes;
    place->live_blocks--;
}

static bool profile_read(profile *p)
{
    const kineto_row *order = kineto_trace_time_order(p->trace);
    uint64_t count = kineto_trace_count(p->trace);
    bool fine = order && kt_prepare(p->trace, true, false);
    for (uint64_t i = 0; i < count && fine; i++) {
        kineto_activity a;
        kineto_trace_get(p->trace, order[i], &a);
        if (!is_allocation(&a))
            continue;
        ka_memory_args args;
        ka_memory_args_read(p->trace, a.row, &args);
        int64_t device = (int64_t)((uint64_t)args.device_type << 32 | (uint32_t)args.device_index);
        if (args.bytes >= 0)
            fine = allocate(p, &a, args.address, args.bytes, device);
        else
            release(p, args.address, args.bytes, device);
    }
    return fine;
}

static void profile_free(profile *p)
{
    kb_vec_free(&p->places);
    kb_vec_free(&p->blocks);
    kb_map_free(&p->place_of_name);
    kb_map_free(&p->block_of_address);
}

/* ---- the file -------------------------------------------------------------------------------- */

static kineto_string place_name(const profile *p, const place_sums *place)
{
    return place->name == UINT32_MAX ? kb_string("") : kineto_trace_string(p->trace, place->name);
}

static void put_totals(kb_json *j, const profile *p)
{
    kb_json_put_int(j, "live_bytes", p->live_bytes);
    kb_json_put_int(j, "peak_bytes", p->peak_bytes);
    kb_json_put_int(j, "peak_ns", p->peak_ns);
    kb_json_put_uint(j, "allocations", p->allocations);
    kb_json_put_uint(j, "releases", p->releases);
    kb_json_put_uint(j, "releases_of_earlier_blocks", p->unknown_releases);
    kb_json_put_uint(j, "bytes_of_earlier_blocks", p->unknown_bytes);
    kb_json_put_uint(j, "events_lost", kineto_trace_lost(p->trace));
}

static void put_places(kb_json *j, const profile *p)
{
    kb_json_key_z(j, "places");
    kb_json_array_begin(j);
    for (size_t i = 0; i < p->places.count; i++) {
        const place_sums *s = &p->places.data[i];
        kb_json_newline(j);
        kb_json_object_begin(j);
        kb_json_put_string(j, "name", place_name(p, s));
        kb_json_put_uint(j, "allocations", s->allocations);
        kb_json_put_uint(j, "allocated_bytes", s->allocated_bytes);
        kb_json_put_uint(j, "releases", s->releases);
        kb_json_put_uint(j, "live_blocks", s->live_blocks);
        kb_json_put_uint(j, "live_bytes", s->live_bytes);
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
}

static void put_blocks(kb_json *j, const profile *p)
{
    kb_json_key_z(j, "live_blocks");
    kb_json_array_begin(j);
    for (size_t i = 0; i < p->blocks.count; i++) {
        const block *b = &p->blocks.data[i];
        if (!b->live)
            continue;
        kb_json_newline(j);
        kb_json_object_begin(j);
        kb_json_put_uint(j, "address", b->address);
        kb_json_put_uint(j, "bytes", b->bytes);
        kb_json_put_int(j, "device_type", b->device >> 32);
        kb_json_put_int(j, "device_index", (int32_t)b->device);
        kb_json_put_int(j, "allocated_ns", b->time_ns);
        kb_json_put_string(j, "place", place_name(p, &p->places.data[b->place]));
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
}

static void profile_write(const profile *p, kb_sink *sink)
{
    kb_json j;
    kb_json_init(&j, sink);
    kb_json_object_begin(&j);
    put_totals(&j, p);
    put_places(&j, p);
    put_blocks(&j, p);
    kb_json_object_end(&j);
    kb_sink_write(sink, "\n", 1);
}

static kineto_status export_trace(const kineto_trace *trace, kb_sink *sink, kineto_error *err)
{
    profile p = {.trace = trace};
    kineto_status status = KINETO_OK;
    if (profile_read(&p))
        profile_write(&p, sink);
    else
        status = kb_fail(err, KINETO_E_MEMORY, "out of memory");
    profile_free(&p);
    return status;
}

static kineto_status trace_now(kineto_trace **out, kineto_error *err)
{
    kineto_status status = KINETO_OK;
    (void)kb_lock_take(&lock, kb_os_self());
    if (session)
        status = kineto_session_snapshot(session, out, err);
    else if (kept)
        *out = kineto_trace_retain(kept);
    else
        status = kb_fail(err, KINETO_E_STATE, "there is no memory profile: start one first");
    kb_lock_drop(&lock);
    return status;
}

kineto_status kp_memory_profile_write(kb_sink *sink, kineto_error *err)
{
    kineto_trace *trace = NULL;
    kineto_status status = trace_now(&trace, err);
    if (!status)
        status = export_trace(trace, sink, err);
    kineto_trace_release(trace);
    return status;
}

kineto_status kineto_memory_profile_export(const char *path, kineto_error *err)
{
    kineto_trace *trace = NULL;
    kb_sink *sink = NULL;
    if (!path)
        return kb_fail(err, KINETO_E_ARGUMENT, "kineto_memory_profile_export: path is NULL");
    kineto_status status = trace_now(&trace, err);
    if (!status)
        status = kb_sink_open_file(path, kb_compression_of(path), &sink, err);
    if (!status)
        status = export_trace(trace, sink, err);
    if (!status)
        status = kb_sink_close(sink, err);
    else if (sink)
        kb_sink_abort(sink);
    kineto_trace_release(trace);
    return status;
}

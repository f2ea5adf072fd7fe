/* Memory profiles: the blocks that are allocated now, the size at the peak, and the places of
 * allocation. Computed from the memory rows of a trace; a place is the operator or range that was
 * open on the thread. One profile in a process at a time; the format of the file is described in
 * docs/reference/memory.md. */
#include "analyze/summary/summary.h"
#include "profiler/profiler.h"

static kb_lock profile_lock;
static kineto_session *running_session; /* NULL while no profile runs */
static kineto_trace *kept_trace;        /* of the profile that was stopped last; NULL */

/* Memory rows, and the ranges that can be places. */
static kineto_status begin_session(kineto_error *err)
{
    kineto_session_options o;
    kineto_session_options_init(&o);
    o.kinds = KINETO_KIND_BIT(KINETO_KIND_MEMORY) | KINETO_KIND_BIT(KINETO_KIND_CPU_OP) |
              KINETO_KIND_BIT(KINETO_KIND_USER_ANNOTATION);
    o.operators = KINETO_OPERATORS_NO_CORRELATION | KINETO_OPERATORS_NO_TEXTS;
    return ks_session_record(&o, &running_session, err);
}

kineto_status kineto_memory_profile_start(kineto_error *err)
{
    (void)kb_lock_take(&profile_lock, kb_os_self());
    kineto_status status = running_session ? kb_fail(err, KINETO_E_STATE,
                                                     "a memory profile is running already; stop it first")
                                           : begin_session(err);
    kb_lock_drop(&profile_lock);
    return status;
}

kineto_status kineto_memory_profile_stop(kineto_error *err)
{
    (void)kb_lock_take(&profile_lock, kb_os_self());
    kineto_trace *trace = NULL;
    kineto_status status =
        running_session
            ? ks_session_finish(running_session, &trace, err)
            : kb_fail(err, KINETO_E_STATE, "no memory profile is running; start one first");
    running_session = NULL;
    if (!status) {
        kineto_trace_release(kept_trace);
        kept_trace = trace;
    }
    kb_lock_drop(&profile_lock);
    return status;
}

/* ---- allocations of a trace ------------------------------------------------------------------ */

/* Allocations by one place. */
typedef struct place_sums {
    uint32_t name; /* string id of the trace; UINT32_MAX: outside of all */
    uint64_t allocations, releases, allocated_bytes, live_bytes, live_blocks;
} place_sums;

/* A block that was allocated within the trace; it stays here after its release, with live false. */
typedef struct block {
    uint64_t address, bytes;
    int64_t device; /* type << 32 | index */
    int64_t time_ns;
    uint32_t place;
    bool live;
} block;

/* All that is computed from one trace. */
typedef struct profile {
    const kineto_trace *trace;
    KB_VEC(place_sums) places;
    kb_map place_of_name;
    KB_VEC(block) blocks;
    kb_map block_of_address; /* of the last allocation there */
    int64_t live_bytes, peak_bytes, peak_ns;
    uint64_t allocations, releases, unknown_releases, unknown_bytes;
} profile;

/* Memory rows carry PyTorch's fixed name. */
static bool is_memory_row(const kineto_activity *a)
{
    return a->form == KINETO_FORM_INSTANT && kb_string_equal(a->name, kb_string("[memory]"));
}

/* The place of a range, found by name: all calls of an operator are one place. NULL: out of memory.
 * The pointer is valid until the next call. */
static place_sums *get_place(profile *p, kineto_row range)
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

/* Hashes address and device into a map key; add_release compares the address, as keys may
 * collide. */
static uint64_t memory_block_key(uint64_t address, int64_t device)
{
    return address ^ (uint64_t)device * UINT64_C(0x9e3779b97f4a7c15);
}

/* False: out of memory. */
static bool add_allocation(profile *p, const kineto_activity *a, uint64_t address, int64_t bytes,
                           int64_t device)
{
    place_sums *place = get_place(p, kineto_trace_parent(p->trace, a->row));
    uint64_t *slot =
        kb_map_insert(&p->block_of_address, memory_block_key(address, device), 0, NULL);
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

/* A block that was allocated before the trace began is unknown; its release is counted
 * separately. */
static void add_release(profile *p, uint64_t address, int64_t bytes, int64_t device)
{
    uint64_t *slot = kb_map_find(&p->block_of_address, memory_block_key(address, device));
    KB_ASSERT(!slot || *slot < p->blocks.count);
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
    KB_ASSERT(place->live_blocks);
    place->live_bytes -= b->bytes;
    place->live_blocks--;
}

/* Goes through the memory rows in the order of time. False: out of memory. */
static bool replay_allocations(profile *p)
{
    const kineto_row *order = kineto_trace_time_order(p->trace);
    uint64_t count = kineto_trace_count(p->trace);
    bool has_memory = order && kt_prepare(p->trace, true, false);
    for (uint64_t i = 0; i < count && has_memory; i++) {
        kineto_activity a;
        kineto_trace_get(p->trace, order[i], &a);
        if (!is_memory_row(&a))
            continue;
        ka_memory_args args;
        ka_memory_args_read(p->trace, a.row, &args);
        int64_t device = (int64_t)((uint64_t)args.device_type << 32 | (uint32_t)args.device_index);
        if (args.bytes >= 0)
            has_memory = add_allocation(p, &a, args.address, args.bytes, device);
        else
            add_release(p, args.address, args.bytes, device);
    }
    return has_memory;
}

static void free_profile(profile *p)
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

static void write_totals(kb_json *j, const profile *p)
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

static void write_places(kb_json *j, const profile *p)
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

static void write_blocks(kb_json *j, const profile *p)
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

static void write_profile(const profile *p, kb_sink *sink)
{
    kb_json j;
    kb_json_init(&j, sink);
    kb_json_object_begin(&j);
    write_totals(&j, p);
    write_places(&j, p);
    write_blocks(&j, p);
    kb_json_object_end(&j);
    kb_sink_write(sink, "\n", 1);
}

/* Computes and writes the profile of a trace; closing the sink is the caller's part. */
static kineto_status export_profile(const kineto_trace *trace, kb_sink *sink, kineto_error *err)
{
    profile p = {.trace = trace};
    kineto_status status = KINETO_OK;
    if (replay_allocations(&p))
        write_profile(&p, sink);
    else
        status = kb_fail_memory(err, NULL);
    free_profile(&p);
    return status;
}

/* The trace of the running profile so far, or of the stopped one; the caller releases it. */
static kineto_status get_profiled_trace(kineto_trace **out, kineto_error *err)
{
    kineto_status status = KINETO_OK;
    (void)kb_lock_take(&profile_lock, kb_os_self());
    if (running_session)
        status = kineto_session_snapshot(running_session, out, err);
    else if (kept_trace)
        *out = kineto_trace_retain(kept_trace);
    else
        status = kb_fail(err, KINETO_E_STATE, "no memory profile was started; start one first");
    kb_lock_drop(&profile_lock);
    return status;
}

kineto_status kp_memory_profile_write(kb_sink *sink, kineto_error *err)
{
    kineto_trace *trace = NULL;
    kineto_status status = get_profiled_trace(&trace, err);
    if (!status)
        status = export_profile(trace, sink, err);
    kineto_trace_release(trace);
    return status;
}

kineto_status kineto_memory_profile_export(const char *path, kineto_error *err)
{
    kineto_trace *trace = NULL;
    kb_sink *sink = NULL;
    if (!path)
        return kb_fail_null(err, __func__, "path", path);
    kineto_status status = get_profiled_trace(&trace, err);
    if (!status)
        status = kb_sink_open_file(path, kb_compression_of(path), &sink, err);
    if (!status)
        status = export_profile(trace, sink, err);
    if (!status)
        status = kb_sink_close(sink, err);
    else if (sink)
        kb_sink_abort(sink);
    kineto_trace_release(trace);
    return status;
}

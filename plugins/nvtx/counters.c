/* Counters: a site for each counter or group of counters, whose arguments are the series. The table
 * is append-only: readers need no lock. */
#include "nvtx.h"

#include <stdio.h>

#define MAX_COUNTERS 1024u
#define MAX_NAME     256u

typedef struct counter {
    uint64_t id;
    uint32_t domain, bytes;  /* bytes of one sample */
    const cn_schema *schema; /* of a group or a number */
    bool is_single;
    /* For integers and for doubles, if it is single; else only the first. */
    kineto_site sites[2];
    kineto_arg_desc args[];
} counter;

static _Atomic(counter *) counter_table[2 * MAX_COUNTERS];
static uint32_t counter_count;
static atomic_uint_fast64_t next_counter_id = CN_SCHEMA_DYNAMIC_FIRST;

/* Ids that programs choose are local to a domain; those that we gave out are global. */
static uint32_t get_counter_key_domain(uint32_t domain, uint64_t id)
{
    return id < CN_SCHEMA_DYNAMIC_FIRST ? domain : 0;
}

/* The slot of a counter, or the free one where it belongs. The table is twice as large as the
 * limit, so that there always is one. */
static _Atomic(counter *) *find_counter_slot(uint32_t domain, uint64_t id)
{
    domain = get_counter_key_domain(domain, id);
    uint64_t hash = (id ^ (uint64_t)domain << 40) * UINT64_C(0x9e3779b97f4a7c15);
    for (uint32_t i = (uint32_t)(hash >> 40) % CN_COUNT(counter_table);;
         i = (i + 1) % CN_COUNT(counter_table)) {
        const counter *c = atomic_load_explicit(&counter_table[i], memory_order_acquire);
        if (!c || (c->id == id && c->domain == domain))
            return &counter_table[i];
    }
}

/* ---- series ---------------------------------------------------------------------------------- */

/* Fields that can be a series: single numbers, but not timestamps. */
static bool is_series_field(const cn_field *f)
{
    bool number = f->class == CN_CLASS_INT || f->class == CN_CLASS_UINT ||
                  f->class == CN_CLASS_FLOAT || f->class == CN_CLASS_CHARS;
    return number && !f->array && !f->is_pointer && !f->is_time;
}
static bool is_group_field(const cn_field *f)
{
    return f->class == CN_CLASS_NESTED && !f->array && !f->is_pointer;
}

static uint32_t get_series_type(const cn_field *f)
{
    return f->class == CN_CLASS_FLOAT  ? KINETO_ARG_DOUBLE
           : f->class == CN_CLASS_UINT ? KINETO_ARG_UINT
                                       : KINETO_ARG_INT;
}

/* A permanent copy; "value" if out of memory. The caller holds the lock. */
static const char *copy_permanent_text(const char *text)
{
    size_t size = strlen(text) + 1;
    char *kept = cn_alloc_permanent(size);
    return kept ? memcpy(kept, text, size) : "value";
}

typedef struct series_list {
    kineto_arg_desc args[KINETO_SITE_MAX_ARGS];
    uint32_t count;
} series_list;

/* Lists the series of a schema with the names "outer.name [unit]". */
static void list_series(series_list *l, const cn_schema *schema, const char *outer)
{
    for (uint32_t i = 0; i < schema->count && l->count < KINETO_SITE_MAX_ARGS; i++) {
        char name[MAX_NAME], whole[MAX_NAME + 64];
        const cn_field *f = &schema->fields[i];
        if (!is_series_field(f) && !is_group_field(f))
            continue;
        if (f->name)
            (void)snprintf(name, sizeof name, "%.100s%s%.100s", outer, *outer ? "." : "", f->name);
        else
            (void)snprintf(name, sizeof name, "%.100s%s%u", outer, *outer ? "." : "", i);
        if (is_group_field(f)) {
            list_series(l, f->nested, name);
            continue;
        }
        (void)snprintf(whole, sizeof whole, f->unit_name ? "%s [%.40s]" : "%s", name, f->unit_name);
        l->args[l->count++] = (kineto_arg_desc){copy_permanent_text(whole), get_series_type(f)};
    }
}

/* Reads the values of a sample in the order of list_series. */
static void read_series(kineto_value *values, uint32_t *count, const cn_schema *schema,
                        const cn_view *view, size_t base)
{
    for (uint32_t i = 0; i < schema->count && *count < KINETO_SITE_MAX_ARGS; i++) {
        const cn_field *f = &schema->fields[i];
        size_t at = base + f->offset;
        if (is_group_field(f)) {
            read_series(values, count, f->nested, view, at);
            continue;
        }
        if (!is_series_field(f))
            continue;
        kineto_value *v = &values[(*count)++];
        if (f->class == CN_CLASS_FLOAT)
            (void)cn_read_float(view, at, f, &v->d);
        else if (f->class == CN_CLASS_UINT)
            (void)cn_read_unsigned(view, at, f->size, &v->u);
        else
            (void)cn_read_signed(view, at, f->size, &v->i);
    }
}

/* ---- registering ----------------------------------------------------------------------------- */

/* "domain: name", or the number of a counter without a name. */
static void write_counter_name(char *to, size_t room, uint32_t domain, const char *name,
                               uint64_t id)
{
    char number[32];
    const char *in = cn_domain_name(domain);
    (void)snprintf(number, sizeof number, "counter %llu", (unsigned long long)id);
    (void)snprintf(to, room, "%.100s%s%.140s", in, *in ? ": " : "", name ? name : number);
}

/* A counter of one number; NULL: no memory, or its type is not a number. Programs may sample it as
 * integer or as double. */
static counter *create_single_counter(const cn_schema *schema, const char *name, const char *unit)
{
    char series[64];
    counter *c = is_series_field(&schema->fields[0])
                     ? cn_alloc_permanent(sizeof *c + 2 * sizeof *c->args)
                     : NULL;
    if (!c)
        return NULL;
    (void)snprintf(series, sizeof series, unit ? "value [%.40s]" : "value", unit);
    const char *kept = copy_permanent_text(series);
    *c = (counter){.schema = schema, .is_single = true, .bytes = schema->size};
    c->args[0] = (kineto_arg_desc){kept, schema->fields[0].class == CN_CLASS_UINT ? KINETO_ARG_UINT
                                                                                  : KINETO_ARG_INT};
    c->args[1] = (kineto_arg_desc){kept, KINETO_ARG_DOUBLE};
    for (uint32_t i = 0; i < 2; i++)
        c->sites[i] = (kineto_site){
            .kind = KINETO_KIND_COUNTER, .arg_count = 1, .name = name, .args = &c->args[i]};
    return c;
}

/* A group; NULL: no memory, or it has no series. */
static counter *create_counter_group(const cn_schema *schema, const char *name)
{
    series_list l = {.count = 0};
    list_series(&l, schema, "");
    counter *c = l.count ? cn_alloc_permanent(sizeof *c + l.count * sizeof *c->args) : NULL;
    if (!c)
        return NULL;
    *c = (counter){.schema = schema, .bytes = schema->size};
    memcpy(c->args, l.args, l.count * sizeof *l.args);
    c->sites[0] = (kineto_site){
        .kind = KINETO_KIND_COUNTER, .arg_count = (uint8_t)l.count, .name = name, .args = c->args};
    return c;
}

/* Adds a counter, unless another copy of the library has registered it already. False: it could not
 * be added. */
static bool add_counter(uint32_t domain, uint64_t id, const cn_schema *schema, const char *name,
                        const char *unit)
{
    char whole[MAX_NAME];
    if (!cn_tables_lock())
        return false;
    _Atomic(counter *) *slot = find_counter_slot(domain, id);
    bool done = atomic_load(slot) != NULL; /* another copy of the library has it already */
    if (!done && counter_count < MAX_COUNTERS) {
        write_counter_name(whole, sizeof whole, domain, name, id);
        const char *kept = copy_permanent_text(whole);
        bool single = schema->id < CN_TYPE_LIMIT;
        counter *c =
            single ? create_single_counter(schema, kept, unit) : create_counter_group(schema, kept);
        if (c) {
            c->id = id;
            c->domain = get_counter_key_domain(domain, id);
            counter_count++;
            atomic_store_explicit(slot, c, memory_order_release);
            done = true;
        }
    }
    cn_tables_unlock();
    return done;
}

uint64_t cn_counter_register(cn_handle handle, const cn_counter_attributes *a)
{
    uint32_t domain = cn_domain_from_handle(handle);
    bool is_complete = a && a->struct_size >= sizeof *a;
    const cn_schema *schema = is_complete ? cn_schema_find(domain, a->schema_id) : NULL;
    if (!schema || schema->is_dynamic || schema->is_enum || schema->is_union || !schema->size) {
        cn_count(CN_TALLY_SCHEMA);
        return 0;
    }
    bool given = a->counter_id >= CN_SCHEMA_STATIC_FIRST && a->counter_id < CN_SCHEMA_DYNAMIC_FIRST;
    uint64_t id = given ? a->counter_id : atomic_fetch_add(&next_counter_id, 1);
    if (!add_counter(domain, id, schema, a->name, cn_unit_of(a->semantics)))
        cn_count(CN_TALLY_SCHEMA);
    return id;
}

/* ---- samples --------------------------------------------------------------------------------- */

static bool is_recording_counters(void) { return kineto_enabled(KINETO_KIND_COUNTER); }

/* The counter with this id; NULL: not registered, which is counted. */
static counter *find_counter(cn_handle domain, uint64_t id)
{
    counter *c =
        atomic_load_explicit(find_counter_slot(cn_domain_from_handle(domain), id), memory_order_acquire);
    if (!c)
        cn_count(CN_TALLY_COUNTER);
    return c;
}

static bool is_double(const counter *c) { return c->schema->fields[0].class == CN_CLASS_FLOAT; }

void cn_counter_int(cn_handle domain, uint64_t id, int64_t value)
{
    counter *c = is_recording_counters() ? find_counter(domain, id) : NULL;
    if (!c)
        return;
    if (!c->is_single) {
        cn_count(CN_TALLY_COUNTER);
        return;
    }
    kineto_value v = {.i = value};
    if (is_double(c))
        v.d = (double)value;
    kineto_counter_sample(&c->sites[is_double(c)], &v);
}

void cn_counter_double(cn_handle domain, uint64_t id, double value)
{
    counter *c = is_recording_counters() ? find_counter(domain, id) : NULL;
    kineto_value v = {.d = value};
    if (c && c->is_single)
        kineto_counter_sample(&c->sites[1], &v);
    else if (c)
        cn_count(CN_TALLY_COUNTER);
}

/* Records one sample of all series. */
static void record_sample(counter *c, const void *data, size_t size)
{
    kineto_value values[KINETO_SITE_MAX_ARGS];
    uint32_t count = 0;
    cn_view view = {data, size};
    if (!data || size < c->bytes) {
        cn_count(CN_TALLY_SHORT_PAYLOAD);
        return;
    }
    read_series(values, &count, c->schema, &view, 0);
    kineto_counter_sample(&c->sites[c->is_single && is_double(c)], values);
}

void cn_counter_sample(cn_handle domain, uint64_t id, const void *data, size_t size)
{
    counter *c = is_recording_counters() ? find_counter(domain, id) : NULL;
    if (c)
        record_sample(c, data, size);
}

/* Reasons of NVTX for a missing value: only zero is recorded; the others are "unchanged" and
 * "unavailable". */
enum { REASON_ZERO = 0 };

void cn_counter_no_value(cn_handle domain, uint64_t id, uint8_t reason)
{
    kineto_value values[KINETO_SITE_MAX_ARGS];
    counter *c = is_recording_counters() && reason == REASON_ZERO ? find_counter(domain, id) : NULL;
    if (!c)
        return;
    memset(values, 0, sizeof values);
    kineto_counter_sample(&c->sites[c->is_single && is_double(c)], values);
}

void cn_counter_batch_submit(cn_handle domain, const cn_counter_batch *batch)
{
    counter *c = is_recording_counters() && batch ? find_counter(domain, batch->counter_id) : NULL;
    if (!c || !batch->counters)
        return;
    const char *data = batch->counters;
    for (size_t at = 0; batch->counters_size - at >= c->bytes; at += c->bytes) {
        record_sample(c, data + at, c->bytes);
        cn_count(CN_TALLY_BATCHED);
    }
}

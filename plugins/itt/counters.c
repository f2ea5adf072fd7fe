/* Counters: a site with one series each. Increments are added to the last value also while nothing is
 * recorded, so that a recording that begins later shows the right one. */
#include "itt.h"

#include <stdio.h>

#define MAX_COUNTERS 1024u

struct ci_counter {
    const cn_name *name;
    int type;
    /* Of counters of integers. */
    atomic_int_fast64_t value;
    kineto_arg_desc arg;
    kineto_site site;
};

static ci_counter all_counters[MAX_COUNTERS];
static atomic_uint counter_count;
/* Index + 1 by the hash of the name; 0: free. */
static atomic_uint counter_table[2 * MAX_COUNTERS];
/* For counters beyond the limit: its samples are counted as lost. */
static ci_counter lost_counter;

/* ---- creation -------------------------------------------------------------------------------- */

/* The slot of a counter, or the free one where it belongs. */
static atomic_uint *find_counter_slot_by_name(const cn_name *name)
{
    for (uint32_t i = (uint32_t)(name->hash >> 20) % CN_COUNT(counter_table);;
         i = (i + 1) % CN_COUNT(counter_table)) {
        uint32_t index = atomic_load_explicit(&counter_table[i], memory_order_acquire);
        if (!index || all_counters[index - 1].name == name)
            return &counter_table[i];
    }
}

/* Adds a counter; the caller holds the lock. NULL: there are too many. */
static ci_counter *add_named_counter(const cn_name *name, int type)
{
    atomic_uint *slot = find_counter_slot_by_name(name);
    uint32_t index = atomic_load(slot), count = atomic_load(&counter_count);
    if (index || count == MAX_COUNTERS)
        return index ? &all_counters[index - 1] : NULL;
    ci_counter *c = &all_counters[count];
    c->name = name;
    c->type = ci_type_arg(type) ? type : CI_TYPE_U64;
    c->arg = (kineto_arg_desc){"value", ci_type_arg(c->type)};
    c->site = (kineto_site){
        .kind = KINETO_KIND_COUNTER, .arg_count = 1, .name = name->text, .args = &c->arg};
    atomic_store_explicit(&counter_count, count + 1, memory_order_release);
    atomic_store_explicit(slot, count + 1, memory_order_release);
    return c;
}

/* The counter "domain: name", created if there is none. */
static ci_counter *get_counter(const char *domain, const char *name, int type)
{
    char whole[512];
    if (!name)
        name = "counter";
    bool has_domain = domain && *domain;
    (void)snprintf(whole, sizeof whole, "%.200s%s%.300s", has_domain ? domain : "",
                   has_domain ? ": " : "", name);
    const cn_name *key = cn_name_intern(whole, strlen(whole));
    uint32_t index =
        key ? atomic_load_explicit(find_counter_slot_by_name(key), memory_order_acquire) : 0;
    ci_counter *c = index ? &all_counters[index - 1] : NULL;
    if (!c && key && cn_tables_lock()) {
        c = add_named_counter(key, type);
        cn_tables_unlock();
    }
    return c ? c : &lost_counter;
}

ci_counter *ci_counter_create(const char *name, const char *domain)
{
    return get_counter(domain, name, CI_TYPE_U64);
}
ci_counter *ci_counter_create_typed(const char *name, const char *domain, int type)
{
    return get_counter(domain, name, type);
}
ci_counter *ci_counter_create_v3(const ci_domain *domain, const char *name, int type)
{
    return get_counter(domain ? domain->name : NULL, name, type);
}

/* ---- samples --------------------------------------------------------------------------------- */

/* A counter of ours; NULL: one beyond the limit, which is counted, or a foreign pointer. */
static ci_counter *check_counter(ci_counter *c)
{
    uintptr_t offset = (uintptr_t)c - (uintptr_t)all_counters;
    if (offset < sizeof all_counters && offset % sizeof *c == 0 &&
        offset / sizeof *c < atomic_load_explicit(&counter_count, memory_order_acquire))
        return c;
    if (c && kineto_enabled(KINETO_KIND_COUNTER))
        cn_count(CI_TALLY_COUNTERS);
    return NULL;
}

static void record_counter_value(ci_counter *c, kineto_value v)
{
    if (!atomic_load_explicit(&ci_paused, memory_order_relaxed))
        kineto_counter_sample(&c->site, &v);
}

/* Counters of floating point numbers cannot be incremented. */
static void add_to_counter(ci_counter *counter, int64_t delta)
{
    ci_counter *c = check_counter(counter);
    if (!c || c->arg.type == KINETO_ARG_DOUBLE)
        return;
    int64_t value = atomic_fetch_add_explicit(&c->value, delta, memory_order_relaxed) + delta;
    record_counter_value(c, (kineto_value){.i = value});
}

void ci_counter_inc(ci_counter *c) { add_to_counter(c, 1); }
void ci_counter_dec(ci_counter *c) { add_to_counter(c, -1); }
void ci_counter_inc_delta(ci_counter *c, unsigned long long value)
{
    add_to_counter(c, (int64_t)value);
}
void ci_counter_dec_delta(ci_counter *c, unsigned long long value)
{
    add_to_counter(c, (int64_t)(0 - value));
}

void ci_counter_set(ci_counter *counter, void *value)
{
    ci_counter *c = check_counter(counter);
    kineto_value v = {.u = 0};
    if (!c || !value || !ci_read_number(c->type, value, 0, &v))
        return;
    if (c->arg.type != KINETO_ARG_DOUBLE)
        atomic_store_explicit(&c->value, v.i, memory_order_relaxed);
    record_counter_value(c, v);
}

void ci_counter_set_ex(ci_counter *c, void *clock, unsigned long long time, void *value)
{
    ci_count_own_time(clock, time);
    ci_counter_set(c, value);
}

/* Counters that are named at each call. */
static void add_by_name(const ci_domain *domain, const ci_string *name, int64_t delta)
{
    add_to_counter(get_counter(domain ? domain->name : NULL, name ? name->text : NULL, CI_TYPE_S64),
                   delta);
}
void ci_counter_inc_v3(const ci_domain *domain, ci_string *name) { add_by_name(domain, name, 1); }
void ci_counter_dec_v3(const ci_domain *domain, ci_string *name) { add_by_name(domain, name, -1); }
void ci_counter_inc_delta_v3(const ci_domain *domain, ci_string *name, unsigned long long value)
{
    add_by_name(domain, name, (int64_t)value);
}
void ci_counter_dec_delta_v3(const ci_domain *domain, ci_string *name, unsigned long long value)
{
    add_by_name(domain, name, (int64_t)(0 - value));
}

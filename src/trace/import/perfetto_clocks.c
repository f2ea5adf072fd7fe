/* Times of Perfetto's packets: clocks, their readings at the same moment, and times since 1970.
 *
 * A snapshot has readings of several clocks at one moment. One clock is common to all: BOOTTIME where it exists. Each
 * other one has a list of its readings with the time of the common clock, found through whatever clock a snapshot shares
 * with it. */
#include "trace/import/perfetto_read.h"

enum { CLOCK_FIELD = 1, PRIMARY_FIELD = 2, ID_FIELD = 1, TIME_FIELD = 2, INCREMENTAL_FIELD = 3, UNIT_FIELD = 4 };
#define MAX_CLOCKS_OF_SNAPSHOT 64u

/* A clock in a snapshot, as it is written. */
typedef struct read_clock {
    uint32_t id;
    uint64_t time, unit_ns;
    bool is_incremental;
} read_clock;

/* A snapshot, as it is written. */
typedef struct read_snapshot {
    read_clock clocks[MAX_CLOCKS_OF_SNAPSHOT];
    uint32_t count, primary;
} read_snapshot;

/* A clock in a snapshot. A unit of 0 would make all times equal, and is taken as 1. */
static read_clock read_one_clock(kineto_string bytes)
{
    read_clock c = {.unit_ns = 1};
    kt_wire w = kt_wire_of(bytes);
    kt_field f;
    while (kt_wire_next(&w, &f)) {
        if (f.wire != KT_WIRE_VARINT)
            continue;
        if (f.id == ID_FIELD)
            c.id = (uint32_t)KB_MIN(f.n, UINT32_MAX);
        else if (f.id == TIME_FIELD)
            c.time = f.n;
        else if (f.id == INCREMENTAL_FIELD)
            c.is_incremental = f.n != 0;
        else if (f.id == UNIT_FIELD && f.n)
            c.unit_ns = f.n;
    }
    return c;
}

/* Snapshots have a handful of clocks; of longer ones the first 64 are used. */
static void read_readings(kineto_string bytes, read_snapshot *s)
{
    kt_wire w = kt_wire_of(bytes);
    kt_field f;
    s->count = s->primary = 0;
    while (kt_wire_next(&w, &f)) {
        if (kt_field_is(&f, PRIMARY_FIELD, KT_WIRE_VARINT))
            s->primary = (uint32_t)f.n;
        else if (kt_field_is(&f, CLOCK_FIELD, KT_WIRE_BYTES) && s->count < MAX_CLOCKS_OF_SNAPSHOT)
            s->clocks[s->count++] = read_one_clock(f.bytes);
    }
}

/* Ns of a clock's time; false: too large. */
static bool scale_time(uint64_t time, uint64_t unit_ns, int64_t *ns)
{
    uint64_t scaled;
    if (__builtin_mul_overflow(time, unit_ns, &scaled) || scaled > INT64_MAX)
        return false;
    *ns = (int64_t)scaled;
    return true;
}

/* Ids from 64 to 127 belong to their sequence, all others to the whole trace. */
static uint64_t clock_key(uint32_t sequence, uint32_t id)
{
    bool is_own = id >= PF_FIRST_OWN_CLOCK && id <= PF_LAST_OWN_CLOCK;
    return (uint64_t)(is_own ? sequence : 0) << 32 | id;
}

/* NULL: no snapshot has it. */
static pf_clock *find_clock(const kt_perfetto *p, uint32_t sequence, uint32_t id)
{
    const uint64_t *at = kb_map_find(&p->clocks.numbers, clock_key(sequence, id));
    return at ? &p->clocks.clocks.data[*at] : NULL;
}

/* The unit is that of the first snapshot: all have to use the same. */
static pf_clock *add_clock(kt_perfetto *p, uint32_t sequence, const read_clock *c)
{
    bool created;
    uint64_t *at = kb_map_insert(&p->clocks.numbers, clock_key(sequence, c->id), p->clocks.clocks.count, &created);
    pf_clock fresh = {.unit_ns = c->unit_ns, .is_incremental = c->is_incremental};
    if (!at || (created && !kb_vec_push(&p->clocks.clocks, fresh))) {
        p->no_memory = true;
        return NULL;
    }
    return &p->clocks.clocks.data[*at];
}

/* Only kept: which clock is the common one is not known before all snapshots are. */
bool pf_clocks_add(kt_perfetto *p, kineto_string snapshot, uint32_t sequence)
{
    pf_snapshot s = {snapshot, sequence};
    return kb_vec_push(&p->clocks.snapshots, s);
}

/* ---- the common clock ------------------------------------------------------------------------- */

/* BOOTTIME, which does not stop, if a snapshot has it; else the primary clock, or the first one. */
static uint32_t choose_common_clock(const kt_perfetto *p)
{
    uint32_t primary = 0, first = 0;
    read_snapshot s;
    for (size_t i = 0; i < p->clocks.snapshots.count; i++) {
        read_readings(p->clocks.snapshots.data[i].bytes, &s);
        primary = primary ? primary : s.primary;
        for (uint32_t k = 0; k < s.count; k++) {
            if (s.clocks[k].id == PF_CLOCK_BOOTTIME)
                return PF_CLOCK_BOOTTIME;
            first = first || s.clocks[k].id >= PF_FIRST_OWN_CLOCK ? first : s.clocks[k].id;
        }
    }
    return primary ? primary : first ? first : PF_CLOCK_BOOTTIME;
}

/* The reading at or before a time, else the first one. */
static const pf_reading *find_reading(const pf_clock *c, int64_t ns)
{
    size_t after = 0;
    KB_LOWER_BOUND(after, c->readings.count, c->readings.data[after].clock <= ns);
    return c->readings.count ? &c->readings.data[after ? after - 1 : 0] : NULL;
}

/* Time passes at the same rate on all clocks between two snapshots, so that the distance to a reading is kept. */
static bool convert_to_common(const kt_perfetto *p, uint32_t sequence, uint32_t id, int64_t ns, int64_t *common)
{
    const pf_clock *c = id == p->clocks.common ? NULL : find_clock(p, sequence, id);
    const pf_reading *r = c ? find_reading(c, ns) : NULL;
    int64_t since;
    *common = ns;
    if (id == p->clocks.common)
        return true;
    return r && !__builtin_sub_overflow(ns, r->clock, &since) && !__builtin_add_overflow(r->common, since, common);
}

/* The moment of a snapshot on the common clock, by the first of its clocks that can be converted. */
static bool find_moment(const kt_perfetto *p, const read_snapshot *s, uint32_t sequence, int64_t *common)
{
    int64_t ns;
    for (uint32_t i = 0; i < s->count; i++)
        if (s->clocks[i].id == p->clocks.common && scale_time(s->clocks[i].time, s->clocks[i].unit_ns, common))
            return true;
    for (uint32_t i = 0; i < s->count; i++)
        if (!s->clocks[i].is_incremental && scale_time(s->clocks[i].time, s->clocks[i].unit_ns, &ns) &&
            convert_to_common(p, sequence, s->clocks[i].id, ns, common))
            return true;
    return false;
}

/* Readings of a clock are kept in its order: of those that go back, as after the clock was set, none is. */
static void add_reading(kt_perfetto *p, uint32_t sequence, const read_clock *c, int64_t common)
{
    int64_t ns;
    pf_clock *clock = c->id && c->id != p->clocks.common ? add_clock(p, sequence, c) : NULL;
    if (!clock || !scale_time(c->time, clock->unit_ns, &ns))
        return;
    pf_reading r = {ns, common};
    size_t count = clock->readings.count;
    if (count && clock->readings.data[count - 1].clock >= ns)
        return;
    p->no_memory |= !kb_vec_push(&clock->readings, r);
}

/* Of the first snapshot that can tell it. Later ones may differ, if the time of day was set meanwhile. */
static void note_unix_time(kt_perfetto *p, const read_snapshot *s, int64_t common)
{
    int64_t ns;
    for (uint32_t i = 0; i < s->count && !p->clocks.has_unix; i++)
        if (s->clocks[i].id == PF_CLOCK_REALTIME && scale_time(s->clocks[i].time, s->clocks[i].unit_ns, &ns)) {
            p->clocks.common_to_unix = ns - common;
            p->clocks.has_unix = true;
        }
}

/* Makes the lists of readings, in the order of the file. */
bool pf_clocks_settle(kt_perfetto *p)
{
    read_snapshot s;
    int64_t common;
    p->clocks.common = choose_common_clock(p);
    for (size_t i = 0; i < p->clocks.snapshots.count && !p->no_memory; i++) {
        const pf_snapshot *from = &p->clocks.snapshots.data[i];
        read_readings(from->bytes, &s);
        if (!find_moment(p, &s, from->sequence, &common))
            continue;
        note_unix_time(p, &s, common);
        for (uint32_t k = 0; k < s.count; k++)
            add_reading(p, from->sequence, &s.clocks[k], common);
    }
    return !p->no_memory;
}

/* ---- times of packets ------------------------------------------------------------------------- */

/* The first packet after a snapshot counts from the reading in it. */
void pf_clocks_restart(kt_perfetto *p, kineto_string snapshot, uint32_t sequence)
{
    read_snapshot s;
    read_readings(snapshot, &s);
    for (uint32_t i = 0; i < s.count; i++) {
        pf_clock *c = find_clock(p, sequence, s.clocks[i].id);
        if (c && c->is_incremental && !scale_time(s.clocks[i].time, c->unit_ns, &c->last))
            c->last = 0;
    }
}

/* Has to be called once for each packet with a time, in the order of the file: incremental clocks advance. */
bool pf_clocks_convert(kt_perfetto *p, uint32_t sequence, uint32_t clock, uint64_t time, int64_t *ns)
{
    uint32_t id = clock ? clock : p->clocks.common;
    pf_clock *c = id == p->clocks.common ? NULL : find_clock(p, sequence, id);
    int64_t scaled, common;
    if (!c && id != p->clocks.common && id < PF_FIRST_OWN_CLOCK)
        id = p->clocks.common; /* a clock of the system that no snapshot has */
    if (!scale_time(time, c ? c->unit_ns : 1, &scaled))
        return false;
    if (c && c->is_incremental) {
        if (__builtin_add_overflow(c->last, scaled, &scaled))
            return false;
        c->last = scaled;
    }
    if (!convert_to_common(p, sequence, id, scaled, &common)) {
        p->clocks.unknown++;
        return false;
    }
    return !__builtin_add_overflow(common, p->clocks.common_to_unix, ns);
}

/* Snapshots refer to the file; only the lists are owned. */
void pf_clocks_free(pf_clocks *c)
{
    for (size_t i = 0; i < c->clocks.count; i++)
        kb_vec_free(&c->clocks.data[i].readings);
    kb_vec_free(&c->clocks);
    kb_vec_free(&c->snapshots);
    kb_map_free(&c->numbers);
}

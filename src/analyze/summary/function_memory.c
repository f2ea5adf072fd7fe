/* Memory of function events: each function gets what was allocated and released on its thread while
 * it ran. Prefix sums over the records make this linear in records and events. Sums wrap around as
 * unsigned numbers; differences of two are right nevertheless. */
#include "analyze/summary/summary.h"

/* Records in the order of (group, time). A group is a track; PyTorch does not separate threads, so
 * that with as_torch all records are one group. */
typedef struct memory_map {
    uint32_t groups;
    uint64_t count;
    /* By group, with one entry more than groups: where its records begin. */
    uint64_t *first;
    /* By group: the first record that is not before the current event. */
    uint64_t *next;
    int64_t *time_ns; /* by record */
    uint32_t *event;  /* by record */
    /* By record, with one entry more: sums of the records before it, modulo 2^64. */
    uint64_t *cpu, *device;
    /* By record, with one entry more: functions that begin to cover it less those that no longer
     * do. */
    int64_t *cover;
} memory_map;

static uint32_t get_memory_group(const kineto_function_events *e, uint32_t i)
{
    return e->as_torch ? 0 : e->track[i];
}

static bool create_memory_map(memory_map *m, const kineto_function_events *e, uint64_t count)
{
    m->groups = e->as_torch ? 1 : kineto_trace_track_count(e->trace);
    m->count = count;
    m->first = calloc((size_t)m->groups + 2, sizeof *m->first);
    m->next = calloc((size_t)m->groups + 1, sizeof *m->next);
    m->time_ns = malloc(ka_column_bytes(count, sizeof *m->time_ns));
    m->event = malloc(ka_column_bytes(count, sizeof *m->event));
    m->cpu = calloc(count + 1, sizeof *m->cpu);
    m->device = calloc(count + 1, sizeof *m->device);
    m->cover = calloc(count + 1, sizeof *m->cover);
    return m->first && m->next && m->time_ns && m->event && m->cpu && m->device && m->cover;
}

static void free_memory_map(memory_map *m)
{
    free(m->first);
    free(m->next);
    free(m->time_ns);
    free(m->event);
    free(m->cpu);
    free(m->device);
    free(m->cover);
}

/* The record of a row. Records are in the order of rows, and the row has one. */
static const ka_memory_record *find_memory_record(const ka_memory_record_list *records,
                                                  kineto_row row)
{
    KB_ASSERT(records->count);
    size_t after = 1;
    KB_LOWER_BOUND(after, records->count, records->data[after].row <= row);
    return &records->data[after - 1];
}

/* True for memory rows but not for failed allocations, which have no sizes. */
static bool is_memory_event(const kineto_function_events *e, uint32_t i)
{
    return e->flags[i] & KINETO_FUNCTION_MEMORY && e->kind[i] == KINETO_KIND_MEMORY;
}

/* Distributes the records to their groups (counting sort). Events come in the order of time, so
 * that each group gets its records in that order. */
static void arrange_records(memory_map *m, const kineto_function_events *e)
{
    for (uint32_t i = 0; i < e->count; i++)
        if (is_memory_event(e, i))
            m->first[get_memory_group(e, i) + 1]++;
    for (uint32_t g = 0; g < m->groups; g++)
        m->first[g + 1] += m->first[g];
    memcpy(m->next, m->first, m->groups * sizeof *m->next);
    for (uint32_t i = 0; i < e->count; i++) {
        if (!is_memory_event(e, i))
            continue;
        uint64_t at = m->next[get_memory_group(e, i)]++;
        m->time_ns[at] = e->start_ns[i];
        m->event[at] = i;
    }
    memcpy(m->next, m->first, m->groups * sizeof *m->next);
}

/* Fills the prefix sums; each record's own event gets its size. */
static void sum_records(memory_map *m, kineto_function_events *e,
                        const ka_memory_record_list *records)
{
    for (uint64_t at = 0; at < m->count; at++) {
        const ka_memory_record *r = find_memory_record(records, e->row[m->event[at]]);
        uint64_t bytes = (uint64_t)r->bytes;
        m->cpu[at + 1] = m->cpu[at] + (r->on_device ? 0 : bytes);
        m->device[at + 1] = m->device[at] + (r->on_device ? bytes : 0);
        e->cpu_bytes[m->event[at]] = r->on_device ? 0 : r->bytes;
        e->device_bytes[m->event[at]] = r->on_device ? r->bytes : 0;
    }
}

/* The first record from `at` on that is later than `time_ns`. Gallops, since most functions cover
 * few. */
static uint64_t find_first_record_after(const memory_map *m, uint64_t at, uint64_t end,
                                        int64_t time_ns)
{
    uint64_t step = 1, low = at;
    while (low + step <= end && m->time_ns[low + step - 1] <= time_ns) {
        low += step;
        step *= 2;
    }
    KB_LOWER_BOUND(low, KB_MIN(low + step, end), m->time_ns[low] <= time_ns);
    return low;
}

/* Gives each function the sums of the records within its time, and notes which ones it covers. */
static void attribute_records(memory_map *m, kineto_function_events *e)
{
    for (uint32_t i = 0; i < e->count; i++) {
        if (e->flags[i] & (KINETO_FUNCTION_DEVICE | KINETO_FUNCTION_MEMORY))
            continue;
        uint32_t g = get_memory_group(e, i);
        uint64_t end = m->first[g + 1], from = m->next[g];
        while (from < end && m->time_ns[from] < e->start_ns[i])
            from++;
        m->next[g] = from;
        uint64_t to = find_first_record_after(m, from, end, e->end_ns[i]);
        KB_ASSERT(from <= to && to <= end);
        if (to == from)
            continue;
        e->cpu_bytes[i] = (int64_t)(m->cpu[to] - m->cpu[from]);
        e->device_bytes[i] = (int64_t)(m->device[to] - m->device[from]);
        m->cover[from]++;
        m->cover[to]--;
    }
}

/* A record within some function is not an event of its own: its row is cleared. */
static void mark_attributed_records(memory_map *m, kineto_function_events *e)
{
    int64_t cover = 0;
    for (uint64_t at = 0; at < m->count; at++) {
        cover += m->cover[at];
        if (cover > 0)
            e->row[m->event[at]] = KINETO_NO_ROW;
    }
}

/* Removes events without a row. Before links exist, so that nothing has to be renumbered. */
static void remove_marked_events(kineto_function_events *e)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < e->count; i++) {
        if (e->row[i] == KINETO_NO_ROW)
            continue;
        e->row[kept] = e->row[i];
        e->start_ns[kept] = e->start_ns[i];
        e->end_ns[kept] = e->end_ns[i];
        e->track[kept] = e->track[i];
        e->name[kept] = e->name[i];
        e->flags[kept] = e->flags[i];
        e->kind[kept] = e->kind[i];
        e->cpu_bytes[kept] = e->cpu_bytes[i];
        e->device_bytes[kept] = e->device_bytes[i];
        kept++;
    }
    e->count = kept;
}

bool ka_attribute_memory(kineto_function_events *e, const ka_memory_record_list *records)
{
    memory_map m = {0};
    if (!records->count)
        return true;
    uint64_t count = 0;
    for (uint32_t i = 0; i < e->count; i++)
        count += is_memory_event(e, i);
    bool ok = create_memory_map(&m, e, count);
    if (ok) {
        arrange_records(&m, e);
        sum_records(&m, e, records);
        attribute_records(&m, e);
        mark_attributed_records(&m, e);
        remove_marked_events(e);
    }
    free_memory_map(&m);
    return ok;
}

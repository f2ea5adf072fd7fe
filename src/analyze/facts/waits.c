/* The tables locks and blocking_calls: what threads waited for in functions of libc (ckineto record
 * --waits), by lock with its holders, and by function with its file, peer or address.
 *
 * Calls are activities of the kind blocking_call. Those with an argument "holder" are waits for a
 * lock. Calls below the threshold are known from counters, by function only. */
#include "analyze/facts/analyses.h"

#include "base/strings.h"

#include <inttypes.h>

#define BELOW " below the threshold"

typedef struct wait_record {
    int64_t start_ns, ns, bytes, holder;
    kineto_row row;
    uint32_t track, name;
    uint32_t call, lock; /* ids in calls and locks; lock 0: none */
    bool failed;
} wait_record;

/* What rows are about, interned as bytes to number it. */
typedef struct wait_subject {
    uint32_t process, name; /* name: of the function; 0 for locks */
    uint32_t object;        /* id in objects */
} wait_subject;

typedef struct waits {
    const ka_dataset *s;
    KB_VEC(wait_record) records;
    KB_VEC(wait_record) by_thread; /* the same by thread and start, while holders are looked at */
    kb_map threads;                /* process and tid (see make_thread_key): index of its track */
    KB_VEC(kineto_row) short_calls; /* last counters, by place in short_subjects */
    kb_intern calls, locks, short_subjects; /* of wait_subject */
    kb_intern objects;
    bool no_memory;
} waits;

static uint32_t get_process_of(const waits *w, uint32_t track)
{
    kineto_track t;
    kineto_trace_track(w->s->trace, track, &t);
    return t.process;
}

static int64_t get_pid(const waits *w, uint32_t process)
{
    kineto_process p;
    kineto_trace_process(w->s->trace, process, &p);
    return p.pid;
}

static uint32_t number_subject(waits *w, kb_intern *in, const wait_subject *subject)
{
    uint32_t id = kb_intern_id(in, (kineto_string){(const char *)subject, sizeof *subject});
    w->no_memory |= id == KB_INTERN_NONE;
    return id;
}

static wait_subject get_subject(const kb_intern *in, uint32_t id)
{
    wait_subject subject = {0};
    kineto_string bytes = kb_intern_get(in, id);
    if (bytes.size == sizeof subject)
        memcpy(&subject, bytes.data, sizeof subject);
    return subject;
}

/* ---- names of locks -------------------------------------------------------------------------- */

/* The source writes names of variables into the header, by process. */
static kineto_string find_lock_name(const waits *w, uint32_t process, const char *address)
{
    char key[48];
    kineto_string name, value;
    snprintf(key, sizeof key, "ckineto_locks_%" PRId64, get_pid(w, process));
    for (uint32_t i = 0; kineto_trace_metadata(w->s->trace, i, &name, &value); i++)
        if (kb_string_equal(name, kb_string(key)))
            return ka_json_text(value, address);
    return (kineto_string){"", 0};
}

/* "name (0x1000)", or the address only. */
static uint32_t number_address(waits *w, uint32_t process, uint64_t address)
{
    char digits[32], text[320];
    snprintf(digits, sizeof digits, "%" PRIu64, address);
    kineto_string name = find_lock_name(w, process, digits);
    if (name.size)
        snprintf(text, sizeof text, "%.*s (0x%" PRIx64 ")", (int)KB_MIN(name.size, 256), name.data,
                 address);
    else
        snprintf(text, sizeof text, "0x%" PRIx64, address);
    return kb_intern_id(&w->objects, kb_string(text));
}

/* ---- calls of the trace ---------------------------------------------------------------------- */

enum { ADDRESS, HOLDER, ERROR, BYTES, NUMBERS };
static const ka_keys wait_numbers = {
    NUMBERS, {'a', 'h', 'e', 'b'}, {KA_KEY("address"), KA_KEY("holder"), KA_KEY("error"),
                                    KA_KEY("bytes")}};

static void add_wait(waits *w, const kt_block *block, uint32_t i, kineto_row row)
{
    int64_t have[NUMBERS] = {0};
    uint32_t known = ka_arg_ints(w->s->trace, row, &wait_numbers, have);
    uint32_t process = get_process_of(w, block->track[i]);
    wait_subject subject = {.process = process, .name = block->name[i]};
    subject.object = known >> ADDRESS & 1
                         ? number_address(w, process, (uint64_t)have[ADDRESS])
                         : kb_intern_id(&w->objects, ka_arg_text(w->s->trace, row, "file"));
    wait_record r = {.start_ns = block->start_ns[i],
                     .name = block->name[i],
                     .ns = kb_length_ns(block->start_ns[i], block->end_ns[i]),
                     .bytes = have[BYTES],
                     .holder = have[HOLDER],
                     .row = row,
                     .track = block->track[i],
                     .failed = have[ERROR] != 0,
                     .call = number_subject(w, &w->calls, &subject)};
    subject.name = 0;
    if (known >> HOLDER & 1)
        r.lock = number_subject(w, &w->locks, &subject);
    w->no_memory |= !kb_vec_push(&w->records, r);
}

/* Counters are cumulative: the last one of a process and function counts. */
static void add_short_calls(waits *w, const kt_block *block, uint32_t i, kineto_row row)
{
    kineto_string name = ka_name(w->s, block->name[i]);
    const size_t size = sizeof BELOW - 1;
    if (name.size <= size || memcmp(name.data + name.size - size, BELOW, size) != 0)
        return;
    wait_subject subject = {.process = get_process_of(w, block->track[i]), .name = block->name[i]};
    uint32_t id = number_subject(w, &w->short_subjects, &subject);
    while (!w->no_memory && w->short_calls.count <= id)
        w->no_memory |= !kb_vec_push(&w->short_calls, KA_NONE);
    if (w->no_memory)
        return;
    kineto_row before = w->short_calls.data[id];
    if (before == KA_NONE || ka_row_span(w->s->trace, before).start_ns <= block->start_ns[i])
        w->short_calls.data[id] = row;
}

/* Scans all blocks; those without such a row are skipped by their set of kinds. */
static void collect_waits(waits *w)
{
    const uint64_t kinds =
        KINETO_KIND_BIT(KINETO_KIND_BLOCKING_CALL) | KINETO_KIND_BIT(KINETO_KIND_COUNTER);
    const kineto_trace *t = w->s->trace;
    kineto_row row = 0;
    for (uint32_t b = 0; b < kt_block_count(t) && !w->no_memory; b++) {
        const kt_block *block = kt_block_at(t, b);
        for (uint32_t i = 0; i < block->count && (block->kinds & kinds); i++) {
            if (block->kind[i] == KINETO_KIND_BLOCKING_CALL)
                add_wait(w, block, i, row + i);
            else if (block->kind[i] == KINETO_KIND_COUNTER)
                add_short_calls(w, block, i, row + i);
        }
        row += block->count;
    }
}

/* ---- sums ------------------------------------------------------------------------------------ */

static int compare_u64(uint64_t a, uint64_t b) { return a < b ? -1 : a > b; }

static int compare_by_call(const void *left, const void *right)
{
    const wait_record *a = left, *b = right;
    int order = compare_u64(a->call, b->call);
    order = order ? order : compare_u64(a->track, b->track);
    return order ? order : compare_u64(a->row, b->row);
}

static int compare_by_lock(const void *left, const void *right)
{
    const wait_record *a = left, *b = right;
    int order = compare_u64(a->lock, b->lock);
    order = order ? order : compare_u64(a->track, b->track);
    return order ? order : compare_u64(a->row, b->row);
}

static int compare_by_holder(const void *left, const void *right)
{
    const wait_record *a = left, *b = right;
    int order = compare_u64((uint64_t)a->holder, (uint64_t)b->holder);
    return order ? order : compare_u64(a->row, b->row);
}

static void sort_waits(waits *w, int (*compare)(const void *, const void *))
{
    if (w->records.count)
        qsort(w->records.data, w->records.count, sizeof *w->records.data, compare);
}

/* Of records that are sorted by thread. */
typedef struct wait_sums {
    ka_tally_ns calls;
    kineto_row longest;
    int64_t bytes, most_ns; /* most_ns: of the thread that waited most */
    uint64_t errors, threads;
} wait_sums;

static wait_sums sum_waits(const wait_record *records, size_t count)
{
    wait_sums sums = {0};
    int64_t thread_ns = 0;
    for (size_t i = 0; i < count; i++) {
        const wait_record *r = &records[i];
        bool is_new = i == 0 || records[i - 1].track != r->track;
        sums.threads += is_new;
        thread_ns = ka_add_ns(is_new ? 0 : thread_ns, r->ns);
        sums.most_ns = KB_MAX(sums.most_ns, thread_ns);
        if (i == 0 || r->ns > sums.calls.max_ns)
            sums.longest = r->row;
        sums.bytes = ka_add_ns(sums.bytes, r->bytes);
        sums.errors += r->failed;
        ka_tally_ns_add(&sums.calls, r->ns);
    }
    return sums;
}

/* The holder during most of the waiting time; 0 if no holder is known. */
typedef struct wait_holder {
    int64_t tid, ns;
} wait_holder;

static wait_holder find_main_holder(wait_record *records, size_t count)
{
    wait_holder best = {0}, at = {0};
    qsort(records, count, sizeof *records, compare_by_holder);
    for (size_t i = 0; i < count; i++) {
        at.ns = ka_add_ns(at.tid == records[i].holder ? at.ns : 0, records[i].ns);
        at.tid = records[i].holder;
        if (at.tid && at.ns > best.ns)
            best = at;
    }
    return best;
}

/* ---- what holders did meanwhile --------------------------------------------------------------- */

static uint64_t make_thread_key(uint32_t process, int64_t tid)
{
    return (uint64_t)process << 32 | (uint32_t)tid;
}

static int compare_by_thread(const void *left, const void *right)
{
    const wait_record *a = left, *b = right;
    int order = compare_u64(a->track, b->track);
    order = order ? order : kb_compare_int64(&a->start_ns, &b->start_ns);
    return order ? order : compare_u64(a->row, b->row);
}

static void index_threads(waits *w)
{
    w->no_memory |= !kb_vec_reserve(&w->by_thread, w->records.count);
    for (size_t i = 0; i < w->records.count && !w->no_memory; i++)
        w->no_memory |= !kb_vec_push(&w->by_thread, w->records.data[i]);
    if (w->by_thread.count)
        qsort(w->by_thread.data, w->by_thread.count, sizeof *w->by_thread.data, compare_by_thread);
    for (uint32_t i = 0; i < kineto_trace_track_count(w->s->trace) && !w->no_memory; i++) {
        kineto_track track;
        kineto_trace_track(w->s->trace, i, &track);
        if (track.type == KINETO_TRACK_THREAD)
            w->no_memory |=
                !kb_map_insert(&w->threads, make_thread_key(track.process, track.id), i, NULL);
    }
}

/* First call of the thread that ends after `ns`. Calls of a thread do not overlap, but for those of
 * signal handlers, which are within another one. */
static size_t find_first_call(const waits *w, uint32_t track, int64_t ns)
{
    size_t low = 0, high = w->by_thread.count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        const wait_record *r = &w->by_thread.data[mid];
        if (r->track < track || (r->track == track && ka_add_ns(r->start_ns, r->ns) <= ns))
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* The function in which holders were longest while others waited; ns 0: none. */
typedef struct holder_call {
    uint32_t name;
    int64_t ns;
} holder_call;

/* Adds to `sums`, by name of a function, how long the holder was in it during this wait. */
static void add_holder_calls(waits *w, const wait_record *wait, uint32_t track, kb_map *sums,
                             holder_call *best)
{
    int64_t end_ns = ka_add_ns(wait->start_ns, wait->ns);
    for (size_t i = find_first_call(w, track, wait->start_ns); i < w->by_thread.count; i++) {
        const wait_record *r = &w->by_thread.data[i];
        if (r->track != track || r->start_ns >= end_ns)
            return;
        int64_t from = KB_MAX(r->start_ns, wait->start_ns);
        int64_t until = KB_MIN(ka_add_ns(r->start_ns, r->ns), end_ns);
        uint64_t *sum = kb_map_insert(sums, r->name, 0, NULL);
        w->no_memory |= !sum;
        if (sum && until > from)
            *sum += (uint64_t)(until - from);
        if (sum && (int64_t)*sum > best->ns)
            *best = (holder_call){r->name, (int64_t)*sum};
    }
}

static holder_call find_holder_call(waits *w, uint32_t process, const wait_record *records,
                                    size_t count)
{
    holder_call best = {0};
    kb_map sums = {0};
    for (size_t i = 0; i < count && !w->no_memory; i++) {
        const uint64_t *track =
            records[i].holder
                ? kb_map_find(&w->threads, make_thread_key(process, records[i].holder))
                : NULL;
        if (track)
            add_holder_calls(w, &records[i], (uint32_t)*track, &sums, &best);
    }
    kb_map_free(&sums);
    return best;
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* The name of a thread without activities of its own: that of the row of its states, "thread 7
 * (name): state". Empty if it has none. */
static kineto_string find_watched_name(const waits *w, uint32_t process, const char *text)
{
    const kineto_string end = kb_string(": state");
    for (uint32_t i = 0; i < kineto_trace_track_count(w->s->trace); i++) {
        kineto_track track;
        kineto_trace_track(w->s->trace, i, &track);
        kineto_string name = track.name;
        size_t size = strlen(text);
        if (track.process == process && name.size > size + end.size &&
            memcmp(name.data, text, size) == 0 && name.data[size] == ' ' &&
            memcmp(name.data + name.size - end.size, end.data, end.size) == 0)
            return (kineto_string){name.data, name.size - end.size};
    }
    return (kineto_string){"", 0};
}

/* "thread 7 (name)", as the trace has it. */
static void put_thread(ka_table *t, const waits *w, uint32_t process, int64_t tid)
{
    char text[48];
    if (!tid) {
        ka_put_text(t, kb_string("not known"));
        return;
    }
    for (uint32_t i = 0; i < kineto_trace_track_count(w->s->trace); i++) {
        kineto_track track;
        kineto_trace_track(w->s->trace, i, &track);
        if (track.process == process && track.type == KINETO_TRACK_THREAD && track.id == tid &&
            track.name.size) {
            ka_put_text(t, track.name);
            return;
        }
    }
    snprintf(text, sizeof text, "thread %" PRId64, tid);
    kineto_string name = find_watched_name(w, process, text);
    ka_put_text(t, name.size ? name : kb_string(text));
}

static void put_lock(ka_table *t, waits *w, wait_record *records, size_t count)
{
    wait_subject subject = get_subject(&w->locks, records->lock);
    wait_sums sums = sum_waits(records, count);
    wait_holder holder = find_main_holder(records, count);
    ka_put_int(t, w->s->rank);
    ka_put_int(t, get_pid(w, subject.process));
    ka_put_text(t, kb_intern_get(&w->objects, subject.object));
    ka_put_int(t, (int64_t)sums.calls.count);
    ka_put_ns(t, sums.calls.sum_ns);
    ka_put_ns(t, sums.calls.max_ns);
    ka_put_int(t, (int64_t)sums.threads);
    ka_put_ns(t, sums.most_ns);
    put_thread(t, w, subject.process, holder.tid);
    ka_put_ns(t, holder.ns);
    holder_call call = find_holder_call(w, subject.process, records, count);
    ka_put_text(t, call.ns ? ka_name(w->s, call.name) : kb_string(""));
    ka_put_ns(t, call.ns);
    ka_put_int(t, (int64_t)sums.longest);
}

static void put_locks(ka_table *t, waits *w)
{
    index_threads(w);
    sort_waits(w, compare_by_lock);
    size_t count = w->records.count;
    wait_record *all = w->records.data;
    for (size_t first = 0, next; first < count; first = next) {
        for (next = first; next < count && all[next].lock == all[first].lock;)
            next++;
        if (all[first].lock)
            put_lock(t, w, all + first, next - first);
    }
    KA_SORT(t, KA_DOWN(locks, sum_us), KA_UP(locks, lock));
}

static void put_blocking_call(ka_table *t, const waits *w, const wait_record *records, size_t count)
{
    wait_subject subject = get_subject(&w->calls, records->call);
    wait_sums sums = sum_waits(records, count);
    ka_put_int(t, w->s->rank);
    ka_put_int(t, get_pid(w, subject.process));
    ka_put_text(t, ka_name(w->s, subject.name));
    ka_put_text(t, kb_intern_get(&w->objects, subject.object));
    ka_put_tally(t, &sums.calls);
    ka_put_ns(t, sums.most_ns);
    ka_put_int(t, sums.bytes);
    ka_put_int(t, (int64_t)sums.errors);
    ka_put_int(t, (int64_t)sums.longest);
}

enum { SHORT_CALLS, SHORT_US, SHORT_BYTES, SHORT_NUMBERS };
static const ka_keys short_numbers = {
    SHORT_NUMBERS,
    {'c', 't', 'm', 'c'},
    {KA_KEY("calls"), KA_KEY("time [us]"), KA_KEY("moved [bytes]")}};

static void put_short_calls(ka_table *t, const waits *w, uint32_t id)
{
    wait_subject subject = get_subject(&w->short_subjects, id);
    kineto_string name = ka_name(w->s, subject.name);
    double have[SHORT_NUMBERS] = {0};
    kineto_row row = w->short_calls.data[id];
    (void)ka_arg_numbers(w->s->trace, row, &short_numbers, have);
    name.size -= sizeof BELOW - 1;
    ka_put_int(t, w->s->rank);
    ka_put_int(t, get_pid(w, subject.process));
    ka_put_text(t, name);
    ka_put_text(t, kb_string("(below the threshold)"));
    ka_put_int(t, (int64_t)have[SHORT_CALLS]);
    ka_put_ns(t, (int64_t)(have[SHORT_US] * 1000));
    ka_put_none(t); /* longest */
    ka_put_none(t); /* shortest */
    ka_put_number(t, have[SHORT_CALLS] > 0 ? have[SHORT_US] / have[SHORT_CALLS] : 0);
    ka_put_none(t); /* deviation */
    ka_put_none(t); /* of one thread */
    ka_put_int(t, (int64_t)have[SHORT_BYTES]);
    ka_put_none(t); /* errors */
    ka_put_int(t, (int64_t)row);
}

static void put_blocking_calls(ka_table *t, waits *w)
{
    sort_waits(w, compare_by_call);
    size_t count = w->records.count;
    const wait_record *all = w->records.data;
    for (size_t first = 0, next; first < count; first = next) {
        for (next = first; next < count && all[next].call == all[first].call;)
            next++;
        put_blocking_call(t, w, all + first, next - first);
    }
    for (uint32_t id = 0; id < w->short_calls.count; id++)
        if (w->short_calls.data[id] != KA_NONE)
            put_short_calls(t, w, id);
    KA_SORT(t, KA_DOWN(blocking_calls, sum_us), KA_UP(blocking_calls, function),
            KA_UP(blocking_calls, object));
}

kineto_status ka_analyze_waits(const ka_dataset *s, kineto_analysis *a, kineto_error *err)
{
    ka_table *locks = ka_table_of(a, KA_TABLE_locks);
    ka_table *calls = ka_table_of(a, KA_TABLE_blocking_calls);
    waits w = {.s = s};
    collect_waits(&w);
    if (calls && !w.no_memory)
        put_blocking_calls(calls, &w);
    if (locks && !w.no_memory)
        put_locks(locks, &w);
    for (int i = 0; i < 2; i++) {
        ka_table *t = i ? calls : locks;
        if (t && !ka_table_rows(t))
            ka_note(t, "%s: record with ckineto record --waits",
                    w.records.count ? "no waits for locks in the trace"
                                    : "no blocking calls in the trace");
    }
    kb_vec_free(&w.records);
    kb_vec_free(&w.by_thread);
    kb_map_free(&w.threads);
    kb_vec_free(&w.short_calls);
    kb_intern_free(&w.calls);
    kb_intern_free(&w.locks);
    kb_intern_free(&w.short_subjects);
    kb_intern_free(&w.objects);
    return w.no_memory ? kb_fail_memory(err, NULL) : KINETO_OK;
}

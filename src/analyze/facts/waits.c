/* The tables locks and blocking_calls: what threads waited for in functions of libc (ckineto record
 * --waits), by lock with its holders, and by function with its file, peer or address.
 *
 * Calls are activities of the kind blocking_call. Those with an argument "holder" are waits for a
 * lock. Calls below the threshold are known from counters, by function only. */
#include "analyze/facts/analyses.h"
#include "analyze/facts/lock_holders.h"

#include "analyze/dataset/blocking_calls.h"

#include "base/strings.h"

#include <inttypes.h>

#define BELOW " below the threshold"

typedef struct wait_record {
    int64_t start_ns, ns, bytes, holder;
    kineto_row row;
    uint32_t track, name;
    uint32_t call, lock; /* ids in calls and locks; lock 0: none */
    uint32_t object;     /* id in objects */
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
    ka_thread_spans holder_calls, holder_samples; /* of all threads, while holders are looked at */
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

/* ---- names of objects -------------------------------------------------------------------------- */

/* "name (0x1000)", or the address only. */
static uint32_t number_address(waits *w, uint32_t process, uint64_t address)
{
    char text[320];
    kineto_string name = ka_lock_name(w->s->trace, process, address);
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
                     .object = subject.object,
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

static uint64_t get_thread_key(const waits *w, uint32_t track)
{
    kineto_track t;
    kineto_trace_track(w->s->trace, track, &t);
    return ka_thread_key(t.process, t.id);
}

static int64_t get_end_ns(const wait_record *r) { return ka_add_ns(r->start_ns, r->ns); }

static int compare_by_end(const void *left, const void *right)
{
    const wait_record *a = left, *b = right;
    int64_t a_ns = get_end_ns(a), b_ns = get_end_ns(b);
    int order = kb_compare_int64(&a_ns, &b_ns);
    return order ? order : compare_u64(a->row, b->row);
}

static void collect_holder_spans(waits *w)
{
    for (size_t i = 0; i < w->records.count && !w->no_memory; i++) {
        const wait_record *r = &w->records.data[i];
        ka_thread_span call = {get_thread_key(w, r->track), r->start_ns, get_end_ns(r), r->name, r->object};
        w->no_memory |= !kb_vec_push(&w->holder_calls.list, call);
    }
    ka_thread_spans_sort(&w->holder_calls);
    w->no_memory |= !ka_thread_spans_add_samples(&w->holder_samples, w->s->trace);
}

/* What holders of a lock did while others waited for it. */
typedef struct holder_times {
    ka_name_times calls, functions;
} holder_times;

static void add_hold(waits *w, holder_times *out, ka_lock_hold hold)
{
    ka_lock_hold_cut(&hold, &w->holder_calls);
    w->no_memory |= !ka_name_times_add(&out->calls, &w->holder_calls, &hold) ||
                    !ka_name_times_add(&out->functions, &w->holder_samples, &hold);
}

/* During a wait the lock passes on to each thread whose own wait for it ends then.
 * @param by_end  the waits for the lock. */
static void add_holds_of_wait(waits *w, uint32_t process, const wait_record *by_end, size_t count,
                              const wait_record *wait, holder_times *out)
{
    ka_lock_hold hold = {.thread = ka_thread_key(process, wait->holder),
                         .start_ns = wait->start_ns,
                         .object = wait->object};
    int64_t end_ns = get_end_ns(wait);
    bool is_known = wait->holder != 0;
    size_t i = 0;
    KB_LOWER_BOUND(i, count, get_end_ns(&by_end[i]) <= wait->start_ns);
    for (; hold.start_ns < end_ns && !w->no_memory; i++) {
        int64_t until_ns = i < count ? KB_MIN(get_end_ns(&by_end[i]), end_ns) : end_ns;
        hold.end_ns = until_ns;
        if (is_known)
            add_hold(w, out, hold);
        hold.start_ns = until_ns;
        if (i == count || by_end[i].failed)
            continue;
        hold.thread = get_thread_key(w, by_end[i].track);
        is_known = true;
    }
}

/* Sorts the records by their ends. out->…sums are freed by the caller. */
static void sum_holder_times(waits *w, uint32_t process, wait_record *records, size_t count, holder_times *out)
{
    qsort(records, count, sizeof *records, compare_by_end);
    for (size_t i = 0; i < count && !w->no_memory; i++)
        add_holds_of_wait(w, process, records, count, &records[i], out);
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

static void put_name_time(ka_table *t, const waits *w, ka_name_times *times)
{
    ka_put_text(t, times->most.ns ? ka_name(w->s, times->most.name) : kb_string(""));
    ka_put_ns(t, times->most.ns);
    kb_map_free(&times->sums);
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
    holder_times times = {0};
    sum_holder_times(w, subject.process, records, count, &times);
    put_name_time(t, w, &times.calls);
    put_name_time(t, w, &times.functions);
    ka_put_int(t, (int64_t)sums.longest);
}

static void put_locks(ka_table *t, waits *w)
{
    collect_holder_spans(w);
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
    kb_vec_free(&w.holder_calls.list);
    kb_vec_free(&w.holder_samples.list);
    kb_vec_free(&w.short_calls);
    kb_intern_free(&w.calls);
    kb_intern_free(&w.locks);
    kb_intern_free(&w.short_subjects);
    kb_intern_free(&w.objects);
    return w.no_memory ? kb_fail_memory(err, NULL) : KINETO_OK;
}

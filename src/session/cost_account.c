/* The account of a recording's own cost. Records are counted in the chunks that are copied out and
 * multiplied by the cost of one record, which each program measures when it attaches. Slow
 * operations are timed in the programs. CPU times are the kernel's. */
#include "session/self_cost.h"
#include "session/session.h"

#include <sys/resource.h>
#include <time.h>

/* ---- counting -------------------------------------------------------------------------------- */

static uint32_t least_words(uint32_t type)
{
    static const uint8_t least[KF_TYPE_COUNT] = {
        [KF_ASYNC_BEGIN] = 3, [KF_ASYNC_END] = 3, [KF_FLOW] = 3, [KF_MEMORY] = 7,
        [KF_DEVICE] = 6,      [KF_RANGE] = 3,     [KF_THROTTLED] = 3, [KF_CLOCK_SAMPLE] = 4,
    };
    return least[type] ? least[type] : 2;
}

/* KF_FUNCTION_… bits of an operator: in the first word after its ids and its name. */
static uint32_t operator_parts(const uint64_t *record, uint32_t words)
{
    uint32_t props = kf_header_aux(record[0]) >> 8, at = 2;
    at += (props & KF_PROP_CORRELATION) != 0;
    at += (props & KF_PROP_EXTERNAL) != 0;
    if ((props & KF_PROP_NAME) && at < words) {
        uint32_t size = (uint32_t)record[at];
        at += 1 + (record[at] >> 32 ? 0 : (KB_MIN(size, KF_MAX_INLINE_NAME) + 7) / 8);
    }
    return at < words ? (uint32_t)record[at] & 0xfff : 0;
}

/* Ends, keyframes and the like have no extra words. */
static void tally_record(ks_tally *t, const uint64_t *record, uint32_t words)
{
    uint32_t type = kf_header_type(record[0]);
    if (type >= KF_TYPE_COUNT)
        return;
    t->records[type]++;
    bool is_recorder_own = type >= KF_THREAD_RUN && type <= KF_THREAD_LIFE;
    if (type == KF_END || type <= KF_KEYFRAME || type == KF_REOPEN || is_recorder_own)
        return;
    uint32_t least = least_words(type);
    t->more_words += words > least ? words - least : 0;
    if (type == KF_THROTTLED && words >= least)
        t->throttled += record[2];
    if (type != KF_BEGIN || !(kf_header_aux(record[0]) >> 8 & KF_PROP_FUNCTION))
        return;
    uint32_t parts = operator_parts(record, words);
    t->operators++;
    t->with_stack += (parts & KF_FUNCTION_STACK) != 0;
    t->with_inputs += (parts & KF_FUNCTION_INPUTS) != 0;
}

uint64_t ks_tally_events(const ks_tally *t)
{
    static const kf_type events[] = {KF_END,    KF_INSTANT, KF_ASYNC_BEGIN, KF_COUNTER,
                                     KF_MEMORY, KF_DEVICE,  KF_RANGE,
                                     KF_THREAD_RUN, KF_STACK_SAMPLE};
    uint64_t sum = 0;
    for (size_t i = 0; i < KB_COUNT(events); i++)
        sum += t->records[events[i]];
    return sum;
}

/* Fast path: nearly all records are ranges without arguments. Predictable branches do not wait for
 * the memory that was read. @return index of the first word that is not part of such a range. */
static uint32_t pass_plain_ranges(ks_tally *t, const uint64_t *words, uint32_t at, uint32_t count)
{
    const uint64_t mask = kf_header(63, 1023, 0xff00, 0), plain = kf_header(KF_BEGIN, 2, 0, 0);
    uint64_t begins = 0, ends = 0;
    while (at + 2 < count) {
        if ((words[at] & mask) == plain) {
            begins++;
            at += 2;
        }
        if ((words[at] & 63) != KF_END)
            break;
        ends++;
        at++;
    }
    t->records[KF_BEGIN] += begins;
    t->records[KF_END] += ends;
    return at;
}

/* Records without a time of their own are in the part if the record before them is. */
static bool is_record_in_part(const ks_part *part, const uint64_t *record, uint32_t words,
                              bool before)
{
    static const bool has_time[KF_TYPE_COUNT] = {
        [KF_KEYFRAME] = true,  [KF_BEGIN] = true,   [KF_INSTANT] = true, [KF_ASYNC_BEGIN] = true,
        [KF_ASYNC_END] = true, [KF_COUNTER] = true, [KF_MEMORY] = true,
        [KF_THREAD_RUN] = true, [KF_STACK_SAMPLE] = true, [KF_THREAD_LIFE] = true,
    };
    uint32_t type = kf_header_type(record[0]);
    if (words < 2 || type >= KF_TYPE_COUNT || !has_time[type])
        return before;
    return record[1] >= part->from_ticks && record[1] <= part->until_ticks;
}

/* Only records whose time lies in the part; stops at a malformed record. */
static void tally_part(ks_tally *t, const uint64_t *words, uint32_t count, const ks_part *part)
{
    uint32_t counted = 0;
    bool in = false;
    for (uint32_t at = 0; at < count;) {
        uint32_t n = kf_header_words(words[at]);
        if (words[at] == 0 || n == 0 || n > count - at)
            break;
        in = is_record_in_part(part, words + at, n, in);
        if (in) {
            tally_record(t, words + at, n);
            counted += n;
        }
        at += n;
    }
    t->chunks += counted != 0;
    t->bytes += counted * 8u;
}

/* Stops at a malformed record. */
static void tally_whole(ks_tally *t, const uint64_t *words, uint32_t count)
{
    t->chunks++;
    t->bytes += count * 8u;
    for (uint32_t at = 0; at < count;) {
        at = pass_plain_ranges(t, words, at, count);
        if (at >= count)
            return;
        uint32_t n = kf_header_words(words[at]);
        if (words[at] == 0 || n == 0 || n > count - at)
            return;
        tally_record(t, words + at, n);
        at += n;
    }
}

void ks_tally_chunk(ks_tally *t, const uint64_t *words, uint32_t count, const ks_part *part)
{
    if (part)
        tally_part(t, words, count, part);
    else
        tally_whole(t, words, count);
}

void ks_tally_rest(ks_tally *t, const kf_pool *pool)
{
    uint64_t chunk[KF_CHUNK_WORDS];
    for (uint32_t i = 0; i < pool->chunk_count; i++) {
        if (kf_chunk_state_of(&pool->descriptors[i]) == KF_CHUNK_FREE)
            continue;
        uint32_t count = ks_chunk_copy(chunk, kf_pool_chunk(pool, i));
        if (count)
            tally_whole(t, chunk, count);
    }
}

/* ---- CPU time -------------------------------------------------------------------------------- */

static uint64_t timeval_ns(struct timeval t)
{
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_usec * 1000u;
}

/* CPU time of this process or its children (RUSAGE_…); 0: unknown. */
static uint64_t usage_ns(int target, uint64_t *system_ns)
{
    struct rusage r;
    bool known = getrusage(target, &r) == 0;
    if (system_ns)
        *system_ns = known ? timeval_ns(r.ru_stime) : 0;
    return known ? timeval_ns(r.ru_utime) + timeval_ns(r.ru_stime) : 0;
}

uint64_t ks_process_cpu_ns(uint32_t pid)
{
    clockid_t clock;
    return pid && clock_getcpuclockid((pid_t)pid, &clock) == 0 ? kb_clock_ns(clock) : 0;
}

/* CPU times now, as far as this side of the recording can know them. */
static ks_spent spent_now(const ks_account *a)
{
    ks_spent s = {0};
    if (a->by == KS_BY_RECORDER) {
        s.recorder_ns = usage_ns(RUSAGE_SELF, &s.recorder_system_ns);
    } else if (a->by == KS_BY_PROGRAM) {
        s.recorder_ns = ks_process_cpu_ns(a->recorder_pid);
        s.helpers_ns = kb_threads_cpu_ns();
    }
    s.children_ns = usage_ns(RUSAGE_CHILDREN, NULL);
    return s;
}

/* 0 if the later value is smaller: counters of other processes may be reset. */
static uint64_t elapsed_since(uint64_t now, uint64_t then) { return now > then ? now - then : 0; }

uint64_t ks_account_waited_ns(const ks_account *a, uint64_t program_ns)
{
    return elapsed_since(elapsed_since(usage_ns(RUSAGE_CHILDREN, NULL), a->then.children_ns),
                         program_ns);
}

/* ---- processes ------------------------------------------------------------------------------- */

/* Adds the process if it is new; NULL: out of memory. */
static ks_cpu *find_account_process(ks_account *a, uint32_t pid)
{
    for (size_t i = 0; i < a->processes.count; i++)
        if (a->processes.data[i].pid == pid)
            return &a->processes.data[i];
    return kb_vec_push(&a->processes, ((ks_cpu){.pid = pid}))
               ? &a->processes.data[a->processes.count - 1]
               : NULL;
}

void ks_account_process(ks_account *a, uint32_t pid) { (void)find_account_process(a, pid); }

static bool add_attached_process(void *context, const kf_process_entry *p, kineto_string name)
{
    (void)name;
    ks_account_process(context, p->pid);
    return true;
}

void ks_account_find_processes(ks_account *a, const kf_pool *pool)
{
    ks_pool_processes(pool, false, add_attached_process, a);
}

void ks_account_read_processes(ks_account *a)
{
    for (size_t i = 0; i < a->processes.count; i++) {
        ks_cpu *p = &a->processes.data[i];
        uint64_t now = ks_process_cpu_ns(p->pid);
        p->is_gone = now == 0;
        p->ns = KB_MAX(p->ns, now);
    }
}

void ks_account_join(ks_account *a, const ks_account *of)
{
    for (size_t i = 0; i < of->processes.count; i++) {
        const ks_cpu *p = &of->processes.data[i];
        ks_cpu *mine = find_account_process(a, p->pid);
        if (!mine)
            continue;
        mine->ns = KB_MAX(mine->ns, p->ns);
        mine->is_gone = p->is_gone;
    }
}

/* For a recorder: ended processes count with their last known CPU time. */
static uint64_t programs_of_recorder(const ks_account *a, uint64_t children_ns, bool over)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < a->processes.count; i++)
        sum += elapsed_since(a->processes.data[i].ns, a->processes.data[i].begun_ns);
    return over ? KB_MAX(sum, children_ns) : sum;
}

/* For a program: ended children count as the CPU time that it waited for, over all of their life.
 */
static uint64_t programs_of_program(const ks_account *a, uint64_t children_ns)
{
    uint64_t sum = children_ns, before = 0;
    for (size_t i = 0; i < a->processes.count; i++) {
        const ks_cpu *p = &a->processes.data[i];
        if (p->is_gone)
            before += p->begun_ns;
        else
            sum += elapsed_since(p->ns, p->begun_ns);
    }
    return elapsed_since(sum, KB_MIN(before, children_ns));
}

/* ---- the account ----------------------------------------------------------------------------- */

void ks_account_begin(ks_account *a, const kf_control *control)
{
    kb_clock_snapshot_take(control->ticks_clock, &a->begun);
    a->begun_ns = kb_monotonic_ns();
    for (uint32_t i = 0; i < KF_COST_COUNT; i++) {
        a->ticks_then[i] = kb_load_relaxed(&control->cost_ticks[i]);
        a->calls_then[i] = kb_load_relaxed(&control->cost_calls[i]);
    }
    ks_account_read_processes(a);
    for (size_t i = 0; i < a->processes.count; i++) /* CPU time from before does not count */
        a->processes.data[i].begun_ns = a->processes.data[i].ns;
    a->then = spent_now(a);
}

void ks_account_free(ks_account *a) { kb_vec_free(&a->processes); }

/* Ticks that the counted records took in the programs' threads. */
static double ticks_of_records(const ks_tally *t, const kf_control *control)
{
    static const uint8_t single[] = {KF_INSTANT, KF_ASYNC_BEGIN, KF_ASYNC_END, KF_COUNTER,
                                     KF_ARGS,    KF_FLOW,        KF_MEMORY,    KF_DEVICE,
                                     KF_OUTPUTS, KF_RANGE};
    double units[KF_UNIT_COUNT], ticks;
    uint64_t singles = 0;
    for (uint32_t i = 0; i < KF_UNIT_COUNT; i++)
        units[i] = (double)kb_load_relaxed(&control->unit_costs[i]) / KF_UNIT_PARTS;
    for (size_t i = 0; i < KB_COUNT(single); i++)
        singles += t->records[single[i]];
    ticks = (double)t->records[KF_BEGIN] * units[KF_UNIT_PAIR];
    ticks += (double)singles * units[KF_UNIT_SINGLE];
    ticks += (double)t->more_words * units[KF_UNIT_WORD];
    return ticks + (double)t->throttled * units[KF_UNIT_MUTED];
}

/* Chunks of a ring that were overwritten before they were counted: assumed to have been full. */
static double ticks_unseen(const ks_account *a, const kf_control *control)
{
    uint64_t claimed = a->calls[KF_COST_CHUNK], seen = a->tally.chunks;
    double per_chunk = KF_CHUNK_WORDS / 3.0 *
                       (double)kb_load_relaxed(&control->unit_costs[KF_UNIT_PAIR]) / KF_UNIT_PARTS;
    bool ring = kb_load_relaxed(&control->full_policy) == KF_FULL_RING;
    return ring && claimed > seen ? (double)(claimed - seen) * per_chunk : 0;
}

void ks_account_estimate(const ks_account *a, const kf_control *control, ks_cost *cost)
{
    KB_ASSERT(a->ns_per_tick >= 0);
    double ticks = ticks_of_records(&a->tally, control) + ticks_unseen(a, control);
    cost->estimated_ns = (uint64_t)(ticks * a->ns_per_tick);
}

void ks_account_read_timers(ks_account *a, const kf_control *control, ks_cost *out)
{
    double other = 0, sources;
    for (uint32_t i = 0; i < KF_COST_COUNT; i++) {
        a->ticks[i] = elapsed_since(kb_load_relaxed(&control->cost_ticks[i]), a->ticks_then[i]);
        a->calls[i] = elapsed_since(kb_load_relaxed(&control->cost_calls[i]), a->calls_then[i]);
        if (i != KF_COST_ATTACH && i != KF_COST_SOURCE)
            other += (double)a->ticks[i];
    }
    sources = (double)a->ticks[KF_COST_SOURCE];
    out->measured_ns = (uint64_t)(other * a->ns_per_tick) + out->helpers_ns;
    out->fixed_ns = a->ticks[KF_COST_ATTACH] + (uint64_t)(sources * a->ns_per_tick);
}

void ks_account_read(ks_account *a, const kf_control *control, bool over, ks_cost *out)
{
    kb_clock_snapshot now;
    kb_clock_snapshot_take(control->ticks_clock, &now);
    int64_t ns = now.monotonic_raw_ns - a->begun.monotonic_raw_ns;
    uint64_t ticks = now.ticks - a->begun.ticks;
    a->ns_per_tick = ns > 0 && ticks ? (double)ns / (double)ticks : 1;
    ks_spent spent = spent_now(a);
    out->helpers_ns = elapsed_since(spent.helpers_ns, a->then.helpers_ns);
    out->recorder_ns = elapsed_since(spent.recorder_ns, a->then.recorder_ns);
    out->recorder_system_ns = elapsed_since(spent.recorder_system_ns, a->then.recorder_system_ns);
    ks_account_read_timers(a, control, out);
    ks_account_estimate(a, control, out);
    ks_account_read_processes(a);
    uint64_t children_ns = elapsed_since(spent.children_ns, a->then.children_ns);
    out->program_ns = a->by == KS_BY_PROGRAM ? programs_of_program(a, children_ns)
                                             : programs_of_recorder(a, children_ns, over);
}

bool ks_cost_is_comparable(const ks_cost *c, uint64_t lasted_ns)
{
    const uint64_t MIN_OWN_NS = 10000000, MIN_OWN_PART = 100;
    uint64_t own = ks_cost_own(c);
    return own >= lasted_ns / MIN_OWN_PART && (own >= MIN_OWN_NS || !c->recorder_ns);
}

double ks_cost_share_ppm(const ks_cost *c)
{
    uint64_t own = ks_cost_own(c);
    return own ? 1e6 * (double)(ks_cost_hooks(c) + c->recorder_ns) / (double)own : 0;
}

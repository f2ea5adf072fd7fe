/* The account of a recording's own cost. Records are counted in the chunks that are copied out, and
 * each is taken for what it took the program when it attached; what is slow was timed there; CPU
 * time is the kernel's. */
#include "session/self_cost.h"

#include <sys/resource.h>
#include <time.h>

/* ---- counting ------------------------------------------------------------------------------------ */

static uint32_t least_words(uint32_t type)
{
    static const uint8_t least[KF_TYPE_COUNT] = {
        [KF_ASYNC_BEGIN] = 3, [KF_ASYNC_END] = 3, [KF_FLOW] = 3,  [KF_MEMORY] = 7,
        [KF_DEVICE] = 6,      [KF_RANGE] = 3,     [KF_SHED] = 3,  [KF_CLOCK_SAMPLE] = 4,
    };
    return least[type] ? least[type] : 2;
}

/* Parts of an operator: KF_FUNCTION_…, in the first word behind its ids and its name. */
static uint32_t parts_of(const uint64_t *record, uint32_t words)
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

static void tally_record(ks_tally *t, const uint64_t *record, uint32_t words)
{
    uint32_t type = kf_header_type(record[0]);
    if (type >= KF_TYPE_COUNT)
        return;
    t->records[type]++;
    if (type == KF_END || type <= KF_KEYFRAME || type == KF_REOPEN)
        return;
    uint32_t least = least_words(type);
    t->more_words += words > least ? words - least : 0;
    if (type == KF_SHED && words >= least)
        t->shed += record[2];
    if (type != KF_BEGIN || !(kf_header_aux(record[0]) >> 8 & KF_PROP_FUNCTION))
        return;
    uint32_t parts = parts_of(record, words);
    t->operators++;
    t->with_stack += (parts & KF_FUNCTION_STACK) != 0;
    t->with_inputs += (parts & KF_FUNCTION_INPUTS) != 0;
}

/* What nearly all records are: ranges without more. Branches that always go the same way do not wait
 * for what was read. @return words that were passed. */
static uint32_t pass_plain_ranges(ks_tally *t, const uint64_t *words, uint32_t at, uint32_t count)
{
    const uint64_t mask = kf_header(63, 1023, 0xff00, 0), plain = kf_header(KF_BEGIN, 2, 0, 0);
    uint64_t begins = 0;
    while (at + 2 < count) {
        if ((words[at] & mask) == plain) {
            begins++;
            at += 2;
        }
        if ((words[at] & 63) != KF_END)
            break;
        at++;
    }
    t->records[KF_BEGIN] += begins;
    return at;
}

void ks_tally_chunk(ks_tally *t, const uint64_t *words, uint32_t count)
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

/* ---- CPU time ------------------------------------------------------------------------------------ */

static uint64_t timeval_ns(struct timeval t)
{
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_usec * 1000u;
}

static uint64_t usage_ns(int who)
{
    struct rusage r;
    return getrusage(who, &r) == 0 ? timeval_ns(r.ru_utime) + timeval_ns(r.ru_stime) : 0;
}

/* What the kernel did for the recorder: copying to the file, mostly. */
static uint64_t system_ns(void)
{
    struct rusage r;
    return getrusage(RUSAGE_SELF, &r) == 0 ? timeval_ns(r.ru_stime) : 0;
}

void ks_account_process(ks_account *a, uint32_t pid)
{
    for (size_t i = 0; i < a->processes.count; i++)
        if (a->processes.data[i].pid == pid)
            return;
    (void)kb_vec_push(&a->processes, ((ks_cpu){pid, 0}));
}

static uint64_t processes_ns(ks_account *a)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < a->processes.count; i++) {
        ks_cpu *p = &a->processes.data[i];
        clockid_t clock;
        struct timespec t;
        if (clock_getcpuclockid((pid_t)p->pid, &clock) == 0 && clock_gettime(clock, &t) == 0)
            p->ns = KB_MAX(p->ns, (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec);
        sum += p->ns;
    }
    return sum;
}

/* ---- the account --------------------------------------------------------------------------------- */

void ks_account_begin(ks_account *a, const kf_control *control)
{
    kb_clock_snapshot_take(control->ticks_clock, &a->begun);
    a->begun_ns = kb_clock_ns(CLOCK_MONOTONIC);
    a->recorder_ns = usage_ns(RUSAGE_SELF);
    a->recorder_system_ns = system_ns();
    a->children_ns = usage_ns(RUSAGE_CHILDREN);
}

void ks_account_free(ks_account *a) { kb_vec_free(&a->processes); }

static double ticks_of_records(const ks_tally *t, const kf_control *control)
{
    static const uint8_t single[] = {KF_INSTANT, KF_ASYNC_BEGIN, KF_ASYNC_END, KF_COUNTER, KF_ARGS,
                                     KF_FLOW,    KF_MEMORY,      KF_DEVICE,    KF_OUTPUTS, KF_RANGE};
    double units[KF_UNIT_COUNT], ticks;
    uint64_t singles = 0;
    for (uint32_t i = 0; i < KF_UNIT_COUNT; i++)
        units[i] = (double)kb_load_relaxed(&control->unit_costs[i]) / KF_UNIT_PARTS;
    for (size_t i = 0; i < KB_COUNT(single); i++)
        singles += t->records[single[i]];
    ticks = (double)t->records[KF_BEGIN] * units[KF_UNIT_PAIR];
    ticks += (double)singles * units[KF_UNIT_SINGLE];
    ticks += (double)t->more_words * units[KF_UNIT_WORD];
    return ticks + (double)t->shed * units[KF_UNIT_MUTED];
}

/* Chunks that were never copied out, since the ring was overwritten, had been full as well. */
static double ticks_unseen(const ks_tally *t, const kf_control *control)
{
    uint64_t claimed = kb_load_relaxed(&control->cost_calls[KF_COST_CHUNK]);
    double per_chunk = KF_CHUNK_WORDS / 3.0 *
                       (double)kb_load_relaxed(&control->unit_costs[KF_UNIT_PAIR]) / KF_UNIT_PARTS;
    bool ring = kb_load_relaxed(&control->full_policy) == KF_FULL_RING;
    return ring && claimed > t->chunks ? (double)(claimed - t->chunks) * per_chunk : 0;
}

void ks_account_look(ks_account *a, const kf_control *control, bool over, ks_cost *out)
{
    kb_clock_snapshot now;
    kb_clock_snapshot_take(control->ticks_clock, &now);
    int64_t ns = now.monotonic_raw_ns - a->begun.monotonic_raw_ns;
    uint64_t ticks = now.ticks - a->begun.ticks;
    double measured = 0, ns_per_tick = ns > 0 && ticks ? (double)ns / (double)ticks : 1;
    a->ns_per_tick = ns_per_tick;
    for (uint32_t i = 0; i < KF_COST_COUNT; i++)
        if (i != KF_COST_ATTACH && i != KF_COST_SOURCE)
            measured += (double)kb_load_relaxed(&control->cost_ticks[i]);
    double records = ticks_of_records(&a->tally, control) + ticks_unseen(&a->tally, control);
    out->estimated_ns = (uint64_t)(records * ns_per_tick);
    out->measured_ns = (uint64_t)(measured * ns_per_tick);
    double sources = (double)kb_load_relaxed(&control->cost_ticks[KF_COST_SOURCE]) * ns_per_tick;
    out->fixed_ns = kb_load_relaxed(&control->cost_ticks[KF_COST_ATTACH]) + (uint64_t)sources;
    out->recorder_ns = usage_ns(RUSAGE_SELF) - a->recorder_ns;
    out->recorder_system_ns = system_ns() - a->recorder_system_ns;
    out->program_ns = processes_ns(a);
    if (over)
        out->program_ns = KB_MAX(out->program_ns, usage_ns(RUSAGE_CHILDREN) - a->children_ns);
}

double ks_cost_share_ppm(const ks_cost *c)
{
    uint64_t hooks = ks_cost_hooks(c), own = c->program_ns > hooks ? c->program_ns - hooks : 0;
    return own ? 1e6 * (double)(hooks + c->recorder_ns) / (double)own : 0;
}

void ks_account_since(ks_account *a, ks_cost *cost, const ks_tally *tally_then, const ks_cost *then)
{
    ks_tally *t = &a->tally;
    for (uint32_t i = 0; i < KF_TYPE_COUNT; i++)
        t->records[i] -= tally_then->records[i];
    t->more_words -= tally_then->more_words;
    t->bytes -= tally_then->bytes;
    t->chunks -= tally_then->chunks;
    t->shed -= tally_then->shed;
    t->operators -= tally_then->operators;
    t->with_stack -= tally_then->with_stack;
    t->with_inputs -= tally_then->with_inputs;
    cost->estimated_ns -= then->estimated_ns;
    cost->fixed_ns -= then->fixed_ns;
    cost->measured_ns -= then->measured_ns;
    cost->recorder_ns -= then->recorder_ns;
    cost->recorder_system_ns -= then->recorder_system_ns;
    cost->program_ns -= then->program_ns;
}

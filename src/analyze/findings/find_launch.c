/* Rules about idle devices and launches: low utilisation, launch-bound programs, tiny kernels,
 * full queues, and gaps between operators.
 *
 * Idle time is cut by reason in facts/idle.h: the rules use the same pieces as the table
 * idle_named, so that the findings and the table agree. Gaps after a wait (find_sync.c) or a
 * late batch (find_data_loader.c) are left to the rules about these. */
#include "analyze/facts/idle.h"
#include "analyze/findings/find_time.h"

/* ---- gaps of devices ------------------------------------------------------------------------- */

/* One gap, for evidence. */
typedef struct long_gap {
    uint32_t after; /* work */
    int64_t start_ns, end_ns, ns;
} long_gap;

#define MAX_GAPS 64u

/* Idle time of devices, except gaps after a wait or a late batch: there the queue was drained,
 * and the rules about waits and data loaders report the cause. */
typedef struct gaps {
    ka_finder *f;
    int64_t ns[KA_IDLE_COUNT];
    uint64_t count;  /* of gaps with what is looked for */
    uint64_t wanted; /* bits of ka_idle: what it is */
    long_gap longest[MAX_GAPS];
    uint32_t kept;
} gaps;

/* Replaces the shortest of MAX_GAPS kept gaps if this one is longer. */
static void keep_longest_gap(gaps *g, const long_gap *gap)
{
    uint32_t least = 0;
    if (g->kept < MAX_GAPS) {
        g->longest[g->kept++] = *gap;
        return;
    }
    for (uint32_t i = 1; i < g->kept; i++)
        if (g->longest[i].ns < g->longest[least].ns)
            least = i;
    if (gap->ns > g->longest[least].ns)
        g->longest[least] = *gap;
}

/* Gap callback of ka_idleness_walk; never stops the walk. */
static bool add_gap(void *context, const ka_gap *gap)
{
    gaps *g = context;
    int64_t wanted = 0;
    if (!gap->whole || gap->ns[KA_IDLE_SYNCHRONIZING] || gap->ns[KA_IDLE_DATA_LOADER] ||
        !ka_is_in_steps(g->f, g->f->s->work[gap->after].step))
        return true;
    for (uint32_t i = 0; i < KA_IDLE_COUNT; i++) {
        g->ns[i] = ka_add_ns(g->ns[i], gap->ns[i]);
        if (g->wanted >> i & 1)
            wanted = ka_add_ns(wanted, gap->ns[i]);
    }
    if (wanted <= 0)
        return true;
    g->count++;
    keep_longest_gap(g, &(long_gap){gap->after, gap->start_ns, gap->end_ns, wanted});
    return true;
}

static int compare_gap_lengths(const void *left, const void *right)
{
    const long_gap *a = left, *b = right;
    if (a->ns != b->ns)
        return a->ns > b->ns ? -1 : 1;
    return (a->start_ns > b->start_ns) - (a->start_ns < b->start_ns);
}

/* Idle time for the wanted reasons, as a mean of all devices; -1: out of memory. The longest
 * gap is left out of the sum and of the evidence: one-time work (loading of code, a
 * checkpoint) is not typical of the program. Leaves g->longest sorted. */
static int64_t find_launch_gaps(ka_finder *f, gaps *g)
{
    ka_idleness idle = {0};
    kineto_error err = {0};
    int64_t sum = 0;
    g->f = f;
    f->no_memory |= ka_idleness_make(&idle, f->s, &err) != KINETO_OK ||
                    !ka_idleness_walk(&idle, add_gap, NULL, g);
    ka_idleness_free(&idle);
    for (uint32_t i = 0; i < KA_IDLE_COUNT; i++)
        if (g->wanted >> i & 1)
            sum = ka_add_ns(sum, g->ns[i]);
    if (g->kept) { /* gaps that are not in the sum are not evidence */
        qsort(g->longest, g->kept, sizeof *g->longest, compare_gap_lengths);
        sum -= g->longest[0].ns;
        g->count--;
        memmove(g->longest, g->longest + 1, --g->kept * sizeof *g->longest);
    }
    return f->no_memory ? -1 : sum / KB_MAX(f->device_count, 1u);
}

/* Evidence: the kept gaps with the work after them. Stacks are slow to make, and only for as
 * many gaps as can be shown. */
static void show_launch_gaps(ka_finder *f, ka_found *x, const gaps *g)
{
    const ka_dataset *s = f->s;
    for (uint32_t i = 0; i < g->kept; i++) {
        const long_gap *gap = &g->longest[i];
        uint32_t call = s->work[gap->after].call;
        kineto_string stack = {"", 0};
        if (i < f->evidence_limit && call != KA_NONE)
            stack = ka_stack_of(f, ka_site_of(s, call));
        kineto_string place = ka_place_of(s, call);
        bool is_part = gap->ns < kb_length_ns(gap->start_ns, gap->end_ns);
        ka_show_span(f, x, gap->start_ns, gap->end_ns, gap->ns, "%s%sbefore %s%s%s%s%.*s",
                     is_part ? kb_duration(gap->ns).s : "", is_part ? " of it, " : "",
                     ka_short_name(ka_name(s, s->work[gap->after].name)).s,
                     place.size ? ", launched in " : "", ka_short_name(place).s,
                     stack.size ? ": " : "", (int)stack.size, stack.data);
    }
}

/* ---- a device is idle most of the time ------------------------------------------------------- */

/* A reason in words, and the rule that is about it. */
typedef struct about {
    const char *words, *rule;
} about;

/* For reasons without a rule of their own the id is empty. */
static about gap_cause_text(ka_idle reason)
{
    static const about all[KA_IDLE_COUNT] = {
        [KA_IDLE_SYNCHRONIZING] = {"the host waiting for the device", "sync.stall"},
        [KA_IDLE_DATA_LOADER] = {"the data loader", "input.data_loader"},
        [KA_IDLE_BETWEEN_OPERATORS] = {"the host between operators", "host.python_gaps"},
        [KA_IDLE_IN_OPERATOR] = {"operators that have not launched yet", "launch.bound"},
        [KA_IDLE_LAUNCHING] = {"calls that launch", "launch.bound"},
        [KA_IDLE_IN_RUNTIME] = {"other calls of the runtime", "memory.allocator_churn"},
        [KA_IDLE_FULL_QUEUE] = {"launches into a full queue", "launch.full_queue"},
        [KA_IDLE_PROFILER_OVERHEAD] = {"the profiler", "trace.profiler_overhead"},
        [KA_IDLE_OTHER_RANK] = {"waiting for other ranks", "communication.exposed"},
        [KA_IDLE_OTHER_STREAM] = {"waiting for another stream", ""},
        [KA_IDLE_DEVICE_LATENCY] = {"the time work takes to begin", "launch.tiny_kernels"}};
    return all[reason].words ? all[reason] : (about){"not explained by the trace", ""};
}

/* A device that is busy for less than half of the time is reported; for less than a quarter,
 * as severe. */
#define LOW_PERCENT  50.0
#define POOR_PERCENT 25.0

/* Use of one device, from its first work to its last, as gaps are counted; with steps from the
 * first step of its process. Device ids repeat over processes, so entries are by index of
 * idle.devices. */
typedef struct use {
    int64_t device, start_ns, end_ns;
    int64_t gaps_ns[KA_IDLE_COUNT], idle_ns;
    uint32_t process; /* whose steps its work is in; KA_NONE */
    double busy_percent;
} use;

typedef struct uses {
    const ka_dataset *s;
    ka_idleness idle;
    use *of;           /* by device */
    int64_t *first_ns; /* by process: its first selected step begins; last: the first of
                          all; INT64_MAX: there is none */
    uint64_t low;
} uses;

/* Gap callback of ka_idleness_walk: only gaps of whole devices count. */
static bool add_device_idle(void *context, const ka_gap *gap)
{
    uses *all = context;
    use *u = &all->of[gap->device];
    for (uint32_t r = 0; gap->whole && r < KA_IDLE_COUNT; r++)
        u->gaps_ns[r] = ka_add_ns(u->gaps_ns[r], gap->ns[r]);
    return true;
}

/* Initialises the uses, then finds the extent of each device's work and the process whose
 * steps it is in. */
static void add_device_work(uses *all)
{
    const ka_dataset *s = all->s;
    for (size_t d = 0; d < all->idle.devices.count; d++)
        all->of[d] = (use){.device = all->idle.devices.data[d].id,
                           .start_ns = INT64_MAX,
                           .end_ns = INT64_MIN,
                           .process = KA_NONE};
    for (uint32_t i = 0; i < s->work_count; i++) {
        const ka_work *w = &s->work[i];
        use *u = &all->of[all->idle.device_of[w->stream]];
        u->start_ns = KB_MIN(u->start_ns, w->start_ns);
        u->end_ns = KB_MAX(u->end_ns, w->end_ns);
        if (u->process == KA_NONE && w->step >= 0)
            u->process = s->steps[w->step].process;
    }
}

/* Fills first_ns by process; the entry after the last process is the first step of all. Steps
 * that were not selected stay in the list, before the others, and have no slice. False: out of
 * memory. */
static bool find_first_steps(const ka_finder *f, uses *all)
{
    const ka_dataset *s = f->s;
    size_t any = kineto_trace_process_count(s->trace);
    all->first_ns = malloc((any + 1) * sizeof *all->first_ns);
    for (size_t i = 0; all->first_ns && i <= any; i++)
        all->first_ns[i] = INT64_MAX;
    for (uint32_t i = f->step_count ? s->step_count : 0; all->first_ns && i-- > 0;)
        if (s->steps[i].slice != KA_NONE)
            all->first_ns[s->steps[i].process] = all->first_ns[any] = s->steps[i].start_ns;
    return all->first_ns != NULL;
}

/* Fills all->of with extents and gaps. The caller frees its members, also on failure. False:
 * out of memory. */
static bool make_device_uses(ka_finder *f, uses *all)
{
    kineto_error err = {0};
    *all = (uses){.s = f->s};
    bool ok = ka_idleness_make(&all->idle, f->s, &err) == KINETO_OK && find_first_steps(f, all);
    all->of = ok ? calloc(all->idle.devices.count + 1, sizeof *all->of) : NULL;
    if (all->of)
        add_device_work(all);
    f->no_memory |= !all->of || !ka_idleness_walk(&all->idle, add_device_idle, NULL, all);
    return !f->no_memory;
}

/* Sets idle_ns and busy_percent. Time of unrecorded work is not idle; the time from the first
 * step to the first work is. False: the device was never idle between its work. */
static bool find_device_use(const uses *all, use *u)
{
    bool any = false;
    uint32_t last = kineto_trace_process_count(all->s->trace);
    int64_t first_ns = all->first_ns[KB_MIN(u->process, last)];
    for (uint32_t r = 0; r < KA_IDLE_COUNT; r++) {
        any |= u->gaps_ns[r] != 0;
        u->idle_ns = ka_add_ns(u->idle_ns, r == KA_IDLE_UNRECORDED_WORK ? 0 : u->gaps_ns[r]);
    }
    u->gaps_ns[KA_IDLE_UNRECORDED_WORK] = 0;
    if (first_ns < u->start_ns) {
        u->idle_ns = ka_add_ns(u->idle_ns, kb_length_ns(first_ns, u->start_ns));
        u->start_ns = first_ns;
    }
    int64_t span = kb_length_ns(u->start_ns, u->end_ns);
    u->busy_percent = span > 0 ? 100 - 100 * (double)KB_MIN(u->idle_ns, span) / (double)span : 100;
    return any;
}

/* The device that is busy for the smallest share of time, and all->low; NULL: none was ever
 * idle. */
static const use *find_least_used(uses *all)
{
    const use *worst = NULL;
    for (size_t d = 0; d < all->idle.devices.count; d++) {
        use *u = &all->of[d];
        if (!find_device_use(all, u))
            continue;
        all->low += u->busy_percent < LOW_PERCENT;
        if (!worst || u->busy_percent < worst->busy_percent)
            worst = u;
    }
    return worst;
}

/* The reason with the most time; *gaps_ns is the time of all reasons. */
static ka_idle find_most_idle(const use *u, int64_t *gaps_ns)
{
    uint32_t most = KA_IDLE_UNKNOWN;
    *gaps_ns = 0;
    for (uint32_t r = 0; r < KA_IDLE_COUNT; r++) {
        *gaps_ns = ka_add_ns(*gaps_ns, u->gaps_ns[r]);
        if (u->gaps_ns[r] > u->gaps_ns[most])
            most = r;
    }
    return (ka_idle)most;
}

/* Reports how much idle time and why; the findings about the reasons report the savings. */
static void report_low_utilization(ka_finder *f, const use *u, uint64_t low)
{
    int64_t gaps_ns;
    ka_idle reason = find_most_idle(u, &gaps_ns);
    about most = gap_cause_text(reason);
    kineto_string name = ka_device_text(f->s->trace, u->device, "name");
    ka_found *x = ka_open_finding(f, KA_NO_SAVINGS, 0.9, kb_string(""));
    if (!x)
        return;
    x->count = low;
    ka_set_extent(x, 100 - u->busy_percent);
    ka_set_severity(x,
                    u->busy_percent < POOR_PERCENT ? KINETO_FINDING_HIGH : KINETO_FINDING_MEDIUM);
    ka_say(f, x,
           "Device %lld%s%s%s is busy for %.1f %% of the %s up to its last work; %.0f %% of its "
           "idle time is %s",
           (long long)u->device, name.size ? " (" : "", ka_short_name(name).s, name.size ? ")" : "",
           u->busy_percent, kb_duration(kb_length_ns(u->start_ns, u->end_ns)).s,
           ka_percent((double)u->gaps_ns[reason], (double)gaps_ns), most.words);
    uint64_t without_length = kt_ledger_bad_times(f->s->trace, NULL);
    if (without_length)
        ka_advise(f, x,
                  "Fix the times first: %llu events ended before they began, and count as no work; 'ckineto plugin "
                  "check FILE' of the plug-in that recorded them says which",
                  (unsigned long long)without_length);
    else if (most.rule[0])
        ka_advise(f, x,
                  "Look at the finding %s first; if there is none, give the device more work at "
                  "once: larger batches",
                  most.rule);
    ka_show_span(f, x, u->start_ns, u->end_ns, u->idle_ns, "idle for %s of it",
                 kb_duration(u->idle_ns).s);
}

/* Idle time of the device with the least work, and its main reason. Has no savings of its own. */
void ka_find_low_utilization(ka_finder *f)
{
    uses all;
    if (make_device_uses(f, &all)) {
        const use *worst = find_least_used(&all);
        if (worst && worst->busy_percent < LOW_PERCENT)
            report_low_utilization(f, worst, all.low);
    }
    free(all.of);
    free(all.first_ns);
    ka_idleness_free(&all.idle);
}

/* ---- the host cannot launch as fast ---------------------------------------------------------- */

#define MIN_PERCENT 1.0

/* Opens a finding about devices that wait for the host; savings are bounded by the idle time
 * and by the critical path without the host's activity (`at_once`). `words` continue "a device
 * …". NULL: below the threshold, or out of memory. */
static ka_found *open_host_bound(ka_finder *f, gaps *g, const kineto_what_if_scale *at_once,
                                 size_t scale_count, const char *words)
{
    int64_t idle = find_launch_gaps(f, g);
    if (idle < 0 || ka_share(f, idle) < MIN_PERCENT)
        return NULL;
    int64_t saved = ka_min_savings(idle, ka_saved_by(f, at_once, scale_count));
    if (ka_share(f, saved) < MIN_PERCENT)
        return NULL;
    ka_found *x = ka_open_finding(f, saved, 0.6, kb_string(""));
    if (!x)
        return NULL;
    x->count = g->count;
    int64_t each = idle / (int64_t)KB_MAX(g->count, 1u) * (int64_t)KB_MAX(f->device_count, 1u);
    ka_say(f, x, "%llu times a device %s: %s %s, %.1f %% of the time, %s each",
           (unsigned long long)g->count, words, kb_duration(idle).s,
           f->device_count > 1 ? "on each device on average" : "in all", ka_share(f, idle),
           kb_duration(each).s);
    return x;
}

/* Ranges that torch.compile leaves in a trace, of several versions of PyTorch. */
static bool has_compiled(const ka_dataset *s)
{
    return ka_find_range(s, "CompiledFunction") != KA_NONE ||
           ka_find_range(s, "Torch-Compiled Region") != KA_NONE ||
           ka_find_range(s, "## Call CompiledFxGraph") != KA_NONE;
}

/* With calls and operators that took no time the device would not wait for them. */
void ka_find_launch_bound(ka_finder *f)
{
    static const kineto_what_if_scale at_once[] = {{KINETO_WHAT_IF_CLASS, "host_operator", 0},
                                                   {KINETO_WHAT_IF_LAUNCH, "", 0}};
    gaps g = {.wanted = 1u << KA_IDLE_LAUNCHING | 1u << KA_IDLE_IN_OPERATOR};
    ka_found *x = open_host_bound(f, &g, at_once, KB_COUNT(at_once),
                                  "is idle because the host is still in an operator or in the "
                                  "call that launches its next work");
    if (!x)
        return;
    ka_advise(f, x, "%s",
              has_compiled(f->s)
                  ? "Replay the launches as a graph: torch.compile(model, "
                    "mode=\"reduce-overhead\"), or torch.cuda.graph(…) around what is the same in "
                    "each step; larger batches make each launch do more"
                  : "Launch less: torch.compile(model, mode=\"reduce-overhead\") fuses operators "
                    "and replays them as a graph; torch.cuda.make_graphed_callables(…) does so "
                    "without compiling; larger batches make each launch do more");
    show_launch_gaps(f, x, &g);
}

/* ---- between operators ----------------------------------------------------------------------- */

/* Gaps in which the host is in no operator. */
void ka_find_host_gaps(ka_finder *f)
{
    static const kineto_what_if_scale at_once[] = {{KINETO_WHAT_IF_CLASS, "host_between", 0},
                                                   {KINETO_WHAT_IF_CLASS, "host_python", 0}};
    gaps g = {.wanted = 1u << KA_IDLE_BETWEEN_OPERATORS};
    ka_found *x = open_host_bound(f, &g, at_once, KB_COUNT(at_once),
                                  "is idle while the host runs no operator");
    if (!x)
        return;
    ka_advise(f, x, "%s",
              f->has & KA_NEEDS_STACKS
                  ? "Look at the Python around the longest gaps below: logging, metrics and "
                    "loops over tensors belong out of the step; torch.compile(model) leaves the "
                    "interpreter out of what remains"
                  : "Record once with profile(with_stack=True) to see which Python it is; "
                    "torch.compile(model) leaves the interpreter out");
    show_launch_gaps(f, x, &g);
}

/* ---- tiny kernels ---------------------------------------------------------------------------- */

/* A kernel below 10 us is mostly overhead. EMPTY_NS is the part of its time that joining it
 * with another one saves at most. */
#define TINY_NS      INT64_C(10000)
#define EMPTY_NS     INT64_C(2000) /* what a kernel takes that does nothing */
#define MIN_RUN    3u            /* kernels in a row */
#define TINY_PERCENT 50.0

/* Kernels in a row in a stream that could be one, while the queue was not empty. */
typedef struct run {
    uint32_t first, count; /* work */
    int64_t gaps_ns;
} run;

typedef struct runs {
    ka_finder *f;
    uint64_t kernels, tiny, in_runs;
    int64_t gaps_ns, least_ns, fixed_ns;
    run longest;
    ka_factors x; /* without gaps, and without what an empty kernel takes */
} runs;

static bool is_tiny(const ka_finder *f, const ka_work *w)
{
    return w->kind == KINETO_KIND_CONCURRENT_KERNEL && w->type != KA_TYPE_COMMUNICATION &&
           ka_is_in_steps(f, w->step) && ka_work_ns(w) < TINY_NS;
}

/* Was the work launched before the previous one ended, and did it begin at once? Then the gap
 * between them is the device's, not the host's. */
static bool follows_at_once(const ka_dataset *s, uint32_t before, uint32_t work)
{
    const ka_work *a = &s->work[before], *b = &s->work[work];
    int64_t gap = kb_length_ns(a->end_ns, b->start_ns);
    return b->call != KA_NONE && s->slices[b->call].end_ns <= a->end_ns && gap >= 0 &&
           gap <= KA_LATENCY_NS;
}

/* Adds a complete run: if it were one kernel, all but the first would be shorter by the time
 * of an empty kernel. */
static void take_tiny_run(runs *r, const run *taken)
{
    int64_t empty_ns = KB_MIN(r->least_ns, EMPTY_NS);
    r->in_runs += taken->count;
    r->gaps_ns = ka_add_ns(r->gaps_ns, taken->gaps_ns);
    r->fixed_ns = ka_add_ns(r->fixed_ns, empty_ns * (int64_t)(taken->count - 1));
    for (uint32_t i = taken->first + 1; i < taken->first + taken->count; i++)
        r->x.work[i] =
            1 - (double)empty_ns / (double)KB_MAX(ka_work_ns(&r->f->s->work[i]), empty_ns);
    if (taken->count > r->longest.count)
        r->longest = *taken;
}

/* Ends the current run; runs of fewer than MIN_RUN kernels are dropped. */
static void end_tiny_run(runs *r, run *current)
{
    if (current->count >= MIN_RUN)
        take_tiny_run(r, current);
    *current = (run){0};
}

/* Counts kernels, and finds the shortest, as which an empty one cannot be longer. */
static void count_tiny_kernels(runs *r)
{
    const ka_dataset *s = r->f->s;
    r->least_ns = INT64_MAX;
    for (uint32_t i = 0; i < s->work_count; i++) {
        const ka_work *w = &s->work[i];
        if (w->kind != KINETO_KIND_CONCURRENT_KERNEL || !ka_is_in_steps(r->f, w->step))
            continue;
        r->kernels++;
        r->tiny += is_tiny(r->f, w);
        if (ka_work_ns(w) > 0)
            r->least_ns = KB_MIN(r->least_ns, ka_work_ns(w));
    }
}

/* Finds runs in a stream: tiny kernels of which each follows the one before at once. */
static void find_tiny_runs(runs *r, const ka_stream *stream)
{
    const ka_dataset *s = r->f->s;
    run current = {0};
    for (uint32_t i = stream->first; i < stream->first + stream->count; i++) {
        if (!is_tiny(r->f, &s->work[i])) {
            end_tiny_run(r, &current);
            continue;
        }
        if (current.count && follows_at_once(s, i - 1, i)) {
            current.gaps_ns += kb_length_ns(s->work[i - 1].end_ns, s->work[i].start_ns);
        } else {
            end_tiny_run(r, &current);
            current.first = i;
        }
        current.count++;
    }
    end_tiny_run(r, &current);
}

static void show_tiny_run(ka_finder *f, ka_found *x, const run *longest)
{
    for (uint32_t i = longest->first; i < longest->first + longest->count; i++)
        ka_show_row(f, x, f->s->work[i].row, ka_work_ns(&f->s->work[i]), "one of %u in a row",
                    longest->count);
}

static void report_tiny_runs(ka_finder *f, const runs *r, int64_t saved)
{
    ka_found *x = ka_open_finding(f, saved, 0.5, kb_string(""));
    if (!x)
        return;
    x->count = r->in_runs;
    ka_say(f, x,
           "%.0f %% of the kernels take less than 10 us; %llu of them follow one another in "
           "runs that were waiting in the queue, up to %u in a row, with %s of gaps between them",
           ka_percent((double)r->tiny, (double)r->kernels), (unsigned long long)r->in_runs,
           r->longest.count, kb_duration(r->gaps_ns).s);
    show_tiny_run(f, x, &r->longest);
}

/* Joined runs save the gaps and the time of empty kernels, but nothing where other work hides
 * these: the critical path limits the savings. Runs that wait for launches are reported by
 * launch.bound. */
static void check_tiny_runs(ka_finder *f, runs *r)
{
    for (uint32_t i = 0; i < f->s->stream_count; i++)
        find_tiny_runs(r, &f->s->streams[i]);
    int64_t saved = ka_add_ns(r->gaps_ns, r->fixed_ns) / KB_MAX(f->device_count, 1u);
    if (ka_share(f, saved) < MIN_PERCENT)
        return;
    r->x.gaps = 0;
    saved = ka_min_savings(saved, ka_saved_with(f, &r->x));
    if (!f->no_memory && ka_share(f, saved) >= MIN_PERCENT)
        report_tiny_runs(f, r, saved);
}

/* Runs of short kernels that wait in the queue: the gaps between them are the savings. */
void ka_find_launch_tiny(ka_finder *f)
{
    runs r = {.f = f};
    count_tiny_kernels(&r);
    if (!r.tiny || ka_percent((double)r.tiny, (double)r.kernels) < TINY_PERCENT)
        return;
    if (ka_factors_make(f, &r.x))
        check_tiny_runs(f, &r);
    ka_factors_free(&r.x);
}

/* ---- a full queue ---------------------------------------------------------------------------- */

/* A launch that finds room takes a few microseconds. */
#define MIN_BLOCKED_NS 20000
#define BLOCKED_PERCENT  5.0

typedef struct blocked {
    ka_hosts hosts;
    uint64_t count;
    int64_t ns;
} blocked;

/* Took the call long while the stream had KA_FULL_QUEUE launches waiting? */
static bool is_launch_blocked(const blocked *b, const ka_slice *call)
{
    const ka_dataset *s = b->hosts.s;
    return call->work_count && ka_slice_ns(call) >= MIN_BLOCKED_NS &&
           ka_hosts_waiting(&b->hosts, s->work[s->launched[call->first_work]].stream,
                            call->start_ns) >= KA_FULL_QUEUE;
}

/* The severity follows from the idle time: a full queue alone keeps only the host waiting. */
static void report_full_queue(ka_finder *f, const blocked *b)
{
    const ka_dataset *s = f->s;
    int64_t idle = ka_idle_ns(f, KA_IDLE_BIT(FULL_QUEUE));
    ka_found *x = ka_open_finding(f, idle, 0.8, kb_string(""));
    if (!x)
        return;
    x->count = b->count;
    ka_say(f, x,
           "%llu launches block on a queue of about 1024 others, for %s, %.1f %% of the time; "
           "devices are idle for %s of it",
           (unsigned long long)b->count, kb_duration(b->ns).s, ka_share(f, b->ns),
           kb_duration(idle).s);
    if (ka_share(f, idle) < MIN_PERCENT)
        ka_advise(f, x,
                  "Nothing for the device, which is busy; move other work of the host (input, "
                  "logging) away from the thread that launches");
    for (uint32_t i = 0; i < s->slice_count; i++)
        if (is_launch_blocked(b, &s->slices[i]) && ka_is_in_steps(f, s->slices[i].step))
            ka_show_row(f, x, s->slices[i].row, ka_slice_ns(&s->slices[i]), NULL);
}

/* Launches that take long while about 1024 others wait in the stream. */
void ka_find_launch_full_queue(ka_finder *f)
{
    const ka_dataset *s = f->s;
    blocked b = {.count = 0};
    f->no_memory |= !ka_hosts_make(&b.hosts, s);
    for (uint32_t i = 0; i < s->slice_count && !f->no_memory; i++)
        if (is_launch_blocked(&b, &s->slices[i]) && ka_is_in_steps(f, s->slices[i].step)) {
            b.count++;
            b.ns = ka_add_ns(b.ns, ka_slice_ns(&s->slices[i]));
        }
    if (!f->no_memory && b.count && ka_share(f, b.ns) >= BLOCKED_PERCENT)
        report_full_queue(f, &b);
    ka_hosts_free(&b.hosts);
}

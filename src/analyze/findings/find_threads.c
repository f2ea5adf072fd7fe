/* Rules about when threads of a program could run: too few CPUs for them, and time in which only one of
 * them has something to do. */
#include "analyze/findings/find_threads.h"

#include "analyze/facts/openmp.h"

#define MIN_WAITING_PERCENT 10.0 /* of all time, that would be saved */
#define MIN_SERIAL_PERCENT  25.0 /* of all time in which one thread is alone */
#define MIN_PARALLEL_PERCENT 5.0 /* … of a program that is parallel at other times */

/* ---- active threads -------------------------------------------------------------------------- */

const ka_watched *ka_watched_of(ka_finder *f)
{
    const ka_watched *w = f->host_only ? ka_dataset_watched(f->s) : NULL;
    f->no_memory |= f->host_only && !w;
    return w && w->threads.count ? w : NULL;
}

static bool is_active(const ka_watched_thread *t)
{
    int64_t busy_ns = ka_add_ns(t->ns[KA_STATE_RUNNING], t->ns[KA_STATE_WAITING]);
    return busy_ns > 0 &&
           ka_percent((double)busy_ns, (double)ka_watched_life_ns(t)) >= KA_ACTIVE_PERCENT;
}

#define MAX_CPUS 4096u
/* CPUs that active threads ran on. */
static uint32_t count_cpus(const ka_active *a)
{
    uint64_t seen[MAX_CPUS / 64] = {0};
    uint32_t count = 0;
    for (uint32_t i = 0; i < a->w->threads.count; i++)
        for (uint32_t k = 0; a->threads[i] && k < a->w->threads.data[i].count; k++) {
            int32_t cpu = a->w->states.data[a->w->threads.data[i].first + k].cpu;
            if (cpu < 0 || cpu >= (int32_t)MAX_CPUS || seen[cpu / 64] >> cpu % 64 & 1)
                continue;
            seen[cpu / 64] |= UINT64_C(1) << cpu % 64;
            count++;
        }
    return count;
}

/* The process with the most CPU time. */
static uint32_t find_main_process(ka_finder *f, const ka_watched *w)
{
    uint32_t best = 0, count = kineto_trace_process_count(w->trace);
    int64_t *ns = calloc((size_t)count + 1, sizeof *ns);
    f->no_memory |= !ns;
    for (uint32_t i = 0; ns && i < w->threads.count; i++) {
        uint32_t process = w->threads.data[i].process;
        ns[process] = ka_add_ns(ns[process], w->threads.data[i].ns[KA_STATE_RUNNING]);
        best = ns[process] > ns[best] ? process : best;
    }
    free(ns);
    return best;
}

static bool is_lasting(const ka_active *a, uint32_t i, uint32_t main_process)
{
    const ka_watched_thread *t = &a->w->threads.data[i];
    return t->process == main_process ||
           ka_percent((double)ka_watched_life_ns(t), (double)a->whole_ns) >= KA_LASTING_PERCENT;
}

bool ka_active_make(ka_finder *f, const uint8_t *marked, const uint8_t *also, bool lasting, ka_active *a)
{
    int64_t cpu_ns = 0;
    bool any_also = false;
    *a = (ka_active){.w = ka_watched_of(f)};
    if (!a->w || !a->w->states.count)
        return false;
    a->whole_ns = ka_watched_span_ns(a->w);
    uint32_t main_process = lasting ? find_main_process(f, a->w) : 0;
    a->threads = calloc(a->w->threads.count, 1);
    for (uint32_t i = 0; a->threads && i < a->w->threads.count; i++) {
        any_also |= also && also[i];
        a->threads[i] = (is_active(&a->w->threads.data[i]) && (!lasting || is_lasting(a, i, main_process))) ||
                        (also && also[i]);
        a->count += a->threads[i];
        cpu_ns = ka_add_ns(cpu_ns, a->w->threads.data[i].ns[KA_STATE_RUNNING]);
    }
    if (!a->threads || !ka_load_make(a->w, a->threads, marked, &a->load)) {
        f->no_memory = true;
        return false;
    }
    a->cpus = count_cpus(a);
    a->is_counted = !a->cpus;
    if (a->is_counted && a->count == 1)
        a->cpus = 1;
    return a->count && (any_also || cpu_ns >= KA_MIN_CPU_NS);
}

void ka_active_free(ka_active *a)
{
    free(a->threads);
    ka_load_free(&a->load);
}

ka_found *ka_open_thread_finding(ka_finder *f, const ka_watched *w, int64_t saved_ns,
                                 double confidence, const char *subject)
{
    ka_found *x = ka_open_finding(f, saved_ns, confidence, kb_string(subject));
    if (x && ka_watched_span_ns(w) != f->whole_ns)
        x->whole_ns = ka_watched_span_ns(w);
    return x;
}

/* ---- waiting for a CPU ----------------------------------------------------------------------- */

/* Time of active threads that waited for a CPU: while as many of them were running as there are CPUs, or
 * while others had the CPUs. */
typedef struct cpu_wait {
    int64_t ns;    /* sum over threads */
    int64_t saved; /* by how much all would be shorter, if each had had a CPU */
} cpu_wait;

/* With n threads that could run and r of them running, all of them come forward r / n as fast as with
 * a CPU for each. */
static void sum_waits(const ka_active *a, cpu_wait *own, cpu_wait *others)
{
    double own_saved = 0, others_saved = 0;
    for (size_t i = 0; i < a->load.points.count; i++) {
        const ka_load_point *p = &a->load.points.data[i];
        int64_t ns = ka_load_length_ns(&a->load, i), sum;
        bool by_own = a->cpus && p->running >= a->cpus;
        if (!p->waiting || __builtin_mul_overflow(ns, (int64_t)p->waiting, &sum))
            continue;
        cpu_wait *w = by_own ? own : others;
        w->ns = ka_add_ns(w->ns, sum);
        *(by_own ? &own_saved : &others_saved) +=
            (double)ns * p->waiting / ((double)p->waiting + p->running);
    }
    own->saved = (int64_t)own_saved;
    others->saved = (int64_t)others_saved;
}

/* Were as many threads running in most of the wait as there are CPUs? */
static bool is_own_wait(const ka_active *a, const ka_state *s)
{
    double ns = (double)kb_length_ns(s->start_ns, s->end_ns);
    return (double)ka_load_ran_ns(&a->load, s->start_ns, s->end_ns) >= (a->cpus - 0.5) * ns;
}

/* The waits of active threads, of one of both kinds, or of both. */
static void show_waits_of(ka_finder *f, ka_found *x, const ka_active *a, bool own, bool both)
{
    x->count = 0;
    for (uint32_t i = 0; i < a->w->threads.count; i++) {
        const ka_watched_thread *t = &a->w->threads.data[i];
        for (uint32_t k = t->first; a->threads[i] && k < t->first + t->count; k++) {
            const ka_state *s = &a->w->states.data[k];
            if (s->state != KA_STATE_WAITING ||
                (!both && is_own_wait(a, s) != own))
                continue;
            x->count++;
            ka_show_row(f, x, s->row, kb_length_ns(s->start_ns, s->end_ns), NULL);
        }
    }
}

/* Long waits may be of both kinds, so that none is of one of them in most of its time. */
static void show_waits(ka_finder *f, ka_found *x, const ka_active *a, bool own)
{
    show_waits_of(f, x, a, own, false);
    if (!x->count)
        show_waits_of(f, x, a, own, true);
}

/* Who had the CPUs while threads waited; COUNTED: of states from counters it is not known on which CPUs, nor in what
 * order within an interval. */
typedef enum wait_cause { OWN_THREADS, OTHER_PROGRAMS, COUNTED } wait_cause;

static void say_waits(ka_finder *f, ka_found *x, const ka_active *a, const cpu_wait *w, wait_cause cause)
{
    const char *cpus = a->cpus == 1 ? "CPU" : "CPUs";
    if (cause == OWN_THREADS)
        ka_say(f, x,
               "%u threads have work for more than the %u %s that they ran on: they waited for a CPU for "
               "%s in all, while the program itself had all of these CPUs",
               a->count, a->cpus, cpus, kb_duration(w->ns).s);
    else if (cause == OTHER_PROGRAMS)
        ka_say(f, x,
               "threads waited for a CPU for %s in all while fewer of them were running than the %u %s "
               "that they ran on: other programs had the CPUs, or a limit of the cgroup was reached",
               kb_duration(w->ns).s, a->cpus, cpus);
    else
        ka_say(f, x,
               "threads waited for a CPU for %s in all (%u threads that work); counters do not show whether the "
               "program itself had the CPUs or other programs",
               kb_duration(w->ns).s, a->count);
}

static const char other_programs[] = "other programs"; /* the subject */

bool ka_is_circumstance(const kineto_finding *x)
{
    return x->rule == KA_FIND_oversubscription && kb_string_equal(x->subject, kb_string(other_programs));
}

/* Waits that are a noticeable part of the time. */
static void report_waits(ka_finder *f, const ka_active *a, const cpu_wait *w, wait_cause cause)
{
    static const struct {
        const char *subject;
        double confidence;
        const char *advice;
    } causes[] = {
        [OWN_THREADS] = {"own threads", 0.5,
                         "Run it on more CPUs (check taskset, cpuset and cpu.max of its cgroup), or start no more "
                         "threads than CPUs (nproc; OMP_NUM_THREADS): that saves switches and cache misses, not the "
                         "waiting itself"},
        [OTHER_PROGRAMS] = {other_programs, 0.5,
                            "See what else runs on the machine (top), and cpu.max and cpu.stat (nr_throttled) of the "
                            "program's cgroup; give it CPUs of its own (taskset, cpuset), or a better nice value"},
        [COUNTED] = {"by counters", 0.4,
                     "Start no more threads than CPUs (nproc; OMP_NUM_THREADS; taskset, cpuset and cpu.max of its "
                     "cgroup), and see what else runs on the machine (top)"}};
    if (ka_percent((double)w->saved, (double)a->whole_ns) < MIN_WAITING_PERCENT)
        return;
    ka_found *x = ka_open_thread_finding(f, a->w, w->saved, causes[cause].confidence, causes[cause].subject);
    if (!x)
        return;
    say_waits(f, x, a, w, cause);
    ka_advise(f, x, "%s", causes[cause].advice);
    if (cause == COUNTED)
        show_waits_of(f, x, a, false, true);
    else
        show_waits(f, x, a, cause == OWN_THREADS);
}

/* More threads that could run than CPUs. */
void ka_find_oversubscription(ka_finder *f)
{
    ka_active a;
    cpu_wait own = {0}, others = {0};
    if (ka_active_make(f, NULL, NULL, false, &a)) {
        sum_waits(&a, &own, &others);
        if (!a.cpus)
            report_waits(f, &a, &others, COUNTED);
    }
    if (a.cpus) {
        report_waits(f, &a, &own, OWN_THREADS);
        report_waits(f, &a, &others, OTHER_PROGRAMS);
    }
    ka_active_free(&a);
}

/* ---- one thread alone ------------------------------------------------------------------------ */

/* Times of active threads by how many could run. */
typedef struct parallelism {
    int64_t alone_ns, together_ns; /* exactly one; several */
    int64_t work_ns;               /* of all threads, while several could run */
} parallelism;

static parallelism measure_parallelism(const ka_active *a)
{
    parallelism p = {0};
    for (size_t i = 0; i < a->load.points.count; i++) {
        const ka_load_point *at = &a->load.points.data[i];
        int64_t ns = ka_load_length_ns(&a->load, i), work = 0;
        uint64_t count = (uint64_t)at->running + at->waiting;
        if (count == 1)
            p.alone_ns = ka_add_ns(p.alone_ns, ns);
        if (count < 2)
            continue;
        p.together_ns = ka_add_ns(p.together_ns, ns);
        (void)__builtin_mul_overflow(ns, (int64_t)at->running, &work);
        p.work_ns = ka_add_ns(p.work_ns, work);
    }
    return p;
}

/* The thread that is alone at a moment: the state in which it is then. NULL: none. */
static const ka_state *find_alone(const ka_active *a, int64_t ns)
{
    for (uint32_t i = 0; i < a->w->threads.count; i++) {
        uint32_t at = a->threads[i] ? ka_watched_state_after(a->w, i, ns) : 0;
        if (!a->threads[i] || at == a->w->threads.data[i].first + a->w->threads.data[i].count)
            continue;
        const ka_state *s = &a->w->states.data[at];
        if (s->start_ns <= ns && s->state != KA_STATE_BLOCKED)
            return s;
    }
    return NULL;
}

#define MAX_SHOWN 5u
/* The longest times in which one thread is alone, each with a state of that thread. */
static void show_alone(ka_finder *f, ka_found *x, const ka_active *a)
{
    size_t longest[MAX_SHOWN], count = 0;
    for (size_t i = 0; i < a->load.points.count; i++) {
        if (a->load.points.data[i].running + a->load.points.data[i].waiting != 1)
            continue;
        size_t at = count < MAX_SHOWN ? count++ : MAX_SHOWN;
        for (; at > 0 && (at == MAX_SHOWN || ka_load_length_ns(&a->load, i) >
                                                 ka_load_length_ns(&a->load, longest[at - 1]));
             at--) {
            if (ka_load_length_ns(&a->load, i) <= ka_load_length_ns(&a->load, longest[at - 1]))
                break;
            if (at < MAX_SHOWN)
                longest[at] = longest[at - 1];
        }
        if (at < MAX_SHOWN)
            longest[at] = i;
    }
    for (size_t i = 0; i < count; i++) {
        int64_t ns = ka_load_length_ns(&a->load, longest[i]);
        const ka_state *s = find_alone(a, a->load.points.data[longest[i]].ns);
        if (s)
            ka_show_row(f, x, s->row, ns, "alone for %s", kb_duration(ns).s);
    }
}

#define MIN_REGION_SHARE 0.5 /* of the time alone: then parallel regions explain it */

/* How much of the time in which one thread is alone parallel regions of OpenMP were running: there the others
 * wait for it at a barrier. Without such rows 0. */
static int64_t find_alone_in_regions(ka_finder *f, const ka_active *a)
{
    ka_spans regions = {0};
    size_t cursor = 0;
    int64_t ns = 0;
    f->no_memory |= !ka_openmp_region_spans(f->s, &regions);
    for (size_t i = 0; i + 1 < a->load.points.count && !f->no_memory; i++) {
        const ka_load_point *p = &a->load.points.data[i];
        if ((uint64_t)p->running + p->waiting == 1)
            ns = ka_add_ns(ns, ka_spans_within(&regions, p->ns, p[1].ns, &cursor));
    }
    kb_vec_free(&regions);
    return ns;
}

/* Are bodies of parallel regions among the sampled functions? Then what is alone may be the slowest thread of
 * a region that was not recorded. */
static bool has_region_bodies(const ka_watched *w)
{
    for (size_t i = 0; i < w->of_all.count; i++)
        if (ka_is_openmp_body(kineto_trace_string(w->trace, w->of_all.data[i].name)))
            return true;
    return false;
}

static bool has_imbalance_finding(const ka_finder *f)
{
    for (size_t i = 0; i < f->out->found.count; i++)
        if (f->out->found.data[i].rule == KA_FIND_openmp_imbalance)
            return true;
    return false;
}

/* Of a part that is serial, with its limit; of parallel regions without one, since better divided work is
 * parallel. */
static void say_serial(ka_finder *f, ka_found *x, const ka_active *a, const parallelism *p, bool recorded)
{
    double percent = ka_percent((double)p->alone_ns, (double)a->whole_ns);
    double limit = (double)ka_add_ns(p->alone_ns, p->work_ns) / (double)KB_MAX(p->alone_ns, 1);
    kb_text alone = kb_duration(p->alone_ns);
    if (recorded) {
        ka_say(f, x,
               "in %.1f %% of the time (%s) only one of %u threads had something to do, mostly in parallel "
               "regions of OpenMP, in which the others waited for it", percent, alone.s, a->count);
        ka_advise(f, x, "Divide the work of the regions evenly: schedule(dynamic) or schedule(guided)");
    } else if (has_region_bodies(a->w)) {
        ka_say(f, x,
               "in %.1f %% of the time (%s) only one of %u threads had something to do; the program has "
               "parallel regions of OpenMP, which were not recorded: that may be their slowest thread",
               percent, alone.s, a->count);
        ka_advise(f, x,
                  "Record with 'ckineto record --openmp': it shows whether threads of a region wait for the "
                  "slowest one (openmp.imbalance), or the part is serial");
    } else {
        ka_say(f, x,
               "in %.1f %% of the time (%s) only one of %u threads had something to do; if that part cannot be "
               "divided, no number of CPUs makes the program more than %.1f times as fast as on one (Amdahl's "
               "law)", percent, alone.s, a->count, limit);
    }
}

static void report_serial(ka_finder *f, const ka_active *a, const parallelism *p)
{
    uint32_t at_once = KB_MIN(a->count, a->cpus);
    int64_t saved = (int64_t)((double)p->alone_ns * (1.0 - 1.0 / at_once));
    bool in_regions =
        (double)find_alone_in_regions(f, a) >= MIN_REGION_SHARE * (double)KB_MAX(p->alone_ns, 1);
    if (in_regions && has_imbalance_finding(f))
        return; /* the same time, and that finding names the region */
    ka_found *x = ka_open_thread_finding(f, a->w, saved, 0.4, "");
    if (!x)
        return;
    say_serial(f, x, a, p, in_regions);
    show_alone(f, x, a);
}

/* A parallel program in which one thread is often alone. */
void ka_find_serial_fraction(ka_finder *f)
{
    ka_active a;
    if (ka_active_make(f, NULL, NULL, true, &a) && a.count > 1 && a.cpus > 1) {
        parallelism p = measure_parallelism(&a);
        if (ka_percent((double)p.alone_ns, (double)a.whole_ns) >= MIN_SERIAL_PERCENT &&
            ka_percent((double)p.together_ns, (double)a.whole_ns) >= MIN_PARALLEL_PERCENT)
            report_serial(f, &a, &p);
    }
    ka_active_free(&a);
}

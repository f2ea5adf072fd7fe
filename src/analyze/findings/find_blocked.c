/* Threads that compute, and are blocked in between: by what, where the recorder saw the functions in
 * which they were blocked (record --off-cpu). Time in which a thread waits for work or for the end of
 * another one is not counted. */
#include "analyze/findings/find_threads.h"
#include "analyze/findings/find_waits.h"

#include "analyze/dataset/blocking_calls.h"

#define MIN_BLOCKED_PERCENT 3.0  /* of the life of a thread, and of all time */
#define MIN_UNKNOWN_PERCENT 10.0 /* the same, if it is not known in what */
#define MIN_BLOCKED_NS INT64_C(20000000)
/* A thread that is in calls to files for this much of its life does nothing but that: it counts although it
 * hardly runs. Calls that read are not among them, as a thread may wait in read() for its next work. */
#define MIN_FILE_PERCENT 20.0
#define MIN_FILE_NS INT64_C(100000000)

/* BLOCKED_READ is reported with BLOCKED_FILE; BLOCKED_ELSEWHERE not at all: rules of MPI and OpenMP have it. */
enum {
    BLOCKED_OTHER,
    BLOCKED_LOCK,
    BLOCKED_SLEEP,
    BLOCKED_FILE,
    BLOCKED_BARRIER,
    BLOCKED_READ,
    BLOCKED_ELSEWHERE
};
#define BLOCKED_COUNT BLOCKED_READ

static const struct {
    const char *subject, *what, *advice;
} classes[BLOCKED_COUNT] = {
    [BLOCKED_OTHER] = {"", "", ""},
    [BLOCKED_LOCK] = {"locks", "waiting for locks",
                      "Hold locks for less time (no sleep and no I/O while holding one), use one lock for "
                      "each piece of data, or data of each thread"},
    [BLOCKED_SLEEP] = {"sleep", "sleeping",
                       "Wait for what the program really waits for (a condition variable, poll() with a "
                       "timeout) instead of a fixed time"},
    [BLOCKED_FILE] = {"files", "in calls that read, write, open or flush files",
                      "Do it in a thread of its own, in larger pieces and less often; flush (fsync) once "
                      "for many writes"},
    [BLOCKED_BARRIER] = {"barriers", "waiting at barriers for other threads",
                         "Divide the work more evenly among threads, in smaller pieces that are handed "
                         "out as threads become free"},
};

/* ---- by function ----------------------------------------------------------------------------- */

static bool is_any(kineto_string text, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (kb_string_contains(text, words[i]))
            return true;
    return false;
}

/* "__GI___libc_write" is "write" for users: without the prefixes of libc, and what follows a name. */
static kineto_string strip_libc_name(kineto_string name)
{
    static const char *const prefixes[] = {"_", "GI_", "libc_", "x64_sys_"};
    static const char *const endings[] = {"64", "_nocancel", "_time"};
    for (size_t i = 0; i < KB_COUNT(prefixes); i++) {
        size_t size = strlen(prefixes[i]);
        if (kb_string_starts_with(name, prefixes[i]) && name.size > size) {
            name = (kineto_string){name.data + size, name.size - size};
            i = SIZE_MAX; /* from the first one again */
        }
    }
    for (size_t i = 0; i < KB_COUNT(endings); i++) {
        size_t size = strlen(endings[i]);
        if (name.size > size && memcmp(name.data + name.size - size, endings[i], size) == 0)
            name.size -= size;
    }
    return name;
}

static bool is_one_of(kineto_string name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (kb_string_equal(name, kb_string(names[i])))
            return true;
    return false;
}

static uint8_t classify_file_call(kineto_string name)
{
    static const char *const reads[] = {"read", "pread", "readv", "preadv"};
    static const char *const calls[] = {
        "fsync", "fdatasync", "msync", "sync_file_range", "syncfs", "sync", "open", "openat", "creat",
        "close", "write", "pwrite", "writev", "pwritev", "unlink",
        "unlinkat", "rename", "renameat", "renameat2", "mkdir", "rmdir", "stat", "lstat", "fstat",
        "fstatat", "statx", "getdents", "ftruncate", "truncate", "fallocate", "posix_fallocate",
        "copy_file_range", "sendfile", "link", "symlink", "readahead"};
    return is_one_of(name, calls, KB_COUNT(calls))   ? BLOCKED_FILE
           : is_one_of(name, reads, KB_COUNT(reads)) ? BLOCKED_READ
                                                     : BLOCKED_OTHER;
}

/* By the innermost function, and by the stack where that one is a futex of many uses. */
static uint8_t classify_blocked(kineto_string function, kineto_string stack)
{
    static const char *const sleeps[] = {"nanosleep", "usleep"},
                      *const locks[] = {"lll_lock_wait", "mutex_lock", "rwlock_", "lock_contended",
                                        "lll_lock_elision"},
                      *const barriers[] = {"barrier_wait", "gomp_barrier", "gomp_team_barrier",
                                           "kmp_barrier"},
                      *const not_counted[] = {"pthread_join", "clockjoin", "cond_wait",
                                              "cond_timedwait", "cond_clockwait"};
    kineto_string name = strip_libc_name(function);
    if (is_any(stack, barriers, KB_COUNT(barriers)) || is_any(name, barriers, KB_COUNT(barriers)))
        return BLOCKED_BARRIER;
    if (is_any(stack, not_counted, KB_COUNT(not_counted)))
        return BLOCKED_OTHER;
    if (is_any(name, locks, KB_COUNT(locks)) ||
        (kb_string_contains(name, "futex") && is_any(stack, locks, KB_COUNT(locks))))
        return BLOCKED_LOCK;
    if (is_any(name, sleeps, KB_COUNT(sleeps)) || kb_string_equal(name, kb_string("sleep")))
        return BLOCKED_SLEEP;
    return classify_file_call(name);
}

static uint8_t classify_state(const ka_watched *w, const ka_state *s)
{
    kineto_arg arg;
    kineto_string stack = {"", 0};
    if (kineto_args_find(w->trace, s->row, "Call stack", &arg) && arg.type == KINETO_ARG_STRING)
        stack = arg.text;
    return classify_blocked(ka_watched_text(w, s->in), stack);
}

/* By the recorded call that covers most of a blocked state without a function. */
static uint8_t classify_by_call(const ka_watched *w, const ka_blocking_calls *calls,
                                const ka_watched_thread *t, const ka_state *s, kineto_string *in)
{
    size_t i = ka_blocking_call_after(calls, t->process, t->id, s->start_ns);
    kineto_activity a;
    if (!ka_blocking_call_is_of(calls, i, t->process, t->id))
        return BLOCKED_OTHER;
    const ka_blocking_call *call = &calls->list.data[i];
    int64_t both_ns = kb_length_ns(KB_MAX(call->start_ns, s->start_ns), KB_MIN(call->end_ns, s->end_ns));
    if (both_ns <= kb_length_ns(s->start_ns, s->end_ns) / 2)
        return BLOCKED_OTHER;
    kineto_trace_get(w->trace, call->row, &a);
    if (a.kind == KINETO_KIND_MPI || a.kind == KINETO_KIND_OPENMP ||
        a.kind == KINETO_KIND_COLLECTIVE_COMM)
        return BLOCKED_ELSEWHERE;
    *in = a.name;
    return classify_blocked(a.name, (kineto_string){"", 0});
}

/* By index of states: the class of a blocked state, and the function in which the thread was. */
typedef struct blocked_states {
    uint8_t *class_of;
    kineto_string *in;
} blocked_states;

static void free_blocked_states(blocked_states *b)
{
    free(b->class_of);
    free(b->in);
}

static void classify_thread(const ka_watched *w, const ka_blocking_calls *calls, const ka_watched_thread *t,
                            blocked_states *out)
{
    for (uint32_t k = t->first; k < t->first + t->count; k++) {
        const ka_state *s = &w->states.data[k];
        out->in[k] = ka_watched_text(w, s->in);
        if (s->in)
            out->class_of[k] = classify_state(w, s);
        else if (s->state == KA_STATE_BLOCKED && calls->list.count)
            out->class_of[k] = classify_by_call(w, calls, t, s, &out->in[k]);
    }
}

/* False: out of memory. To be freed in any case. */
static bool classify_states(const ka_watched *w, blocked_states *out)
{
    ka_blocking_calls calls;
    bool ok = ka_blocking_calls_make(w->trace, &calls);
    *out = (blocked_states){calloc(w->states.count + 1, 1), calloc(w->states.count + 1, sizeof *out->in)};
    ok = ok && out->class_of && out->in;
    for (size_t i = 0; ok && i < w->threads.count; i++)
        classify_thread(w, &calls, &w->threads.data[i], out);
    ka_blocking_calls_free(&calls);
    return ok;
}

bool ka_is_sleep(kineto_string function)
{
    return classify_blocked(function, (kineto_string){"", 0}) == BLOCKED_SLEEP;
}

/* ---- what it costs --------------------------------------------------------------------------- */

/* Marked time of active threads. `worst` is the thread with the most of it. */
typedef struct blocked_sum {
    int64_t ns, worst_ns;
    uint64_t count;
    uint32_t worst;
    double percent; /* of the life of `worst` */
} blocked_sum;

static blocked_sum sum_blocked(const ka_active *a, const uint8_t *marked)
{
    blocked_sum sum = {0};
    for (uint32_t i = 0; i < a->w->threads.count; i++) {
        const ka_watched_thread *t = &a->w->threads.data[i];
        int64_t ns = 0;
        for (uint32_t k = t->first; a->threads[i] && k < t->first + t->count; k++) {
            const ka_state *s = &a->w->states.data[k];
            if (s->state != KA_STATE_BLOCKED || !marked[k])
                continue;
            ns = ka_add_ns(ns, kb_length_ns(s->start_ns, s->end_ns));
            sum.count++;
        }
        sum.ns = ka_add_ns(sum.ns, ns);
        if (ns > sum.worst_ns) {
            sum.percent = ka_percent((double)ns, (double)ka_watched_life_ns(t));
            sum.worst_ns = ns;
            sum.worst = i;
        }
    }
    return sum;
}

static bool is_long(const ka_active *a, const blocked_sum *sum, double min_percent)
{
    return sum->worst_ns >= MIN_BLOCKED_NS && sum->percent >= min_percent &&
           ka_percent((double)sum->worst_ns, (double)a->whole_ns) >= min_percent;
}

/* Without being blocked these threads could have run, beside those that did, on CPUs that were free. */
static int64_t blocked_savings(const ka_active *a)
{
    double saved = 0;
    for (size_t i = 0; i < a->load.points.count; i++) {
        const ka_load_point *p = &a->load.points.data[i];
        uint32_t busy = p->running + p->waiting, free_cpus = busy < a->cpus ? a->cpus - busy : 0;
        double more = KB_MIN(p->blocked, free_cpus);
        if (more > 0)
            saved += (double)ka_load_length_ns(&a->load, i) * more / (more + busy);
    }
    return (int64_t)saved;
}

static void show_blocked(ka_finder *f, ka_found *x, const ka_active *a, const uint8_t *marked,
                         const blocked_states *states)
{
    for (uint32_t i = 0; i < a->w->threads.count; i++) {
        const ka_watched_thread *t = &a->w->threads.data[i];
        for (uint32_t k = t->first; a->threads[i] && k < t->first + t->count; k++) {
            const ka_state *s = &a->w->states.data[k];
            kineto_string in = states->in[k];
            if (s->state == KA_STATE_BLOCKED && marked[k])
                ka_show_row(f, x, s->row, kb_length_ns(s->start_ns, s->end_ns), "%s%.*s",
                            in.size ? "in " : "", (int)KB_MIN(in.size, (size_t)100), in.data);
        }
    }
}

#define MAX_NAMED 3u
/* Times by name of a function. */
typedef struct function_times {
    kb_intern names;
    KB_VEC(int64_t) ns; /* by id in names */
} function_times;

static bool add_function_time(function_times *t, kineto_string name, int64_t ns)
{
    uint32_t id = kb_intern_id(&t->names, name);
    while (id != KB_INTERN_NONE && t->ns.count <= id)
        if (!kb_vec_push(&t->ns, 0))
            return false;
    if (id != KB_INTERN_NONE)
        t->ns.data[id] = ka_add_ns(t->ns.data[id], ns);
    return id != KB_INTERN_NONE;
}

/* Writes ": fsync (47 ms), open (62 ms)": the functions with the most time, which is set to 0. */
static void name_functions(function_times *t, char *text, size_t room)
{
    size_t n = 0;
    text[0] = '\0';
    for (uint32_t count = 0; count < MAX_NAMED && t->ns.count && n + 100 < room; count++) {
        uint32_t best = 0;
        for (uint32_t i = 1; i < t->ns.count; i++)
            if (t->ns.data[i] > t->ns.data[best])
                best = i;
        if (t->ns.data[best] <= 0)
            return;
        kb_text name = ka_short_name(kb_intern_get(&t->names, best));
        n += (size_t)snprintf(text + n, room - n, "%s%.60s (%s)", count ? ", " : ": ", name.s,
                              kb_duration(t->ns.data[best]).s);
        t->ns.data[best] = 0;
    }
}

/* The same, from the marked states of active threads. */
static void name_blocking_functions(ka_finder *f, const ka_active *a, const uint8_t *marked,
                                    const blocked_states *states, char *text, size_t room)
{
    function_times times = {0};
    for (uint32_t i = 0; i < a->w->threads.count; i++) {
        const ka_watched_thread *t = &a->w->threads.data[i];
        for (uint32_t k = t->first; a->threads[i] && k < t->first + t->count; k++) {
            const ka_state *s = &a->w->states.data[k];
            kineto_string name = strip_libc_name(states->in[k]);
            if (marked[k] && name.size)
                f->no_memory |= !add_function_time(&times, name, kb_length_ns(s->start_ns, s->end_ns));
        }
    }
    name_functions(&times, text, room);
    kb_intern_free(&times.names);
    kb_vec_free(&times.ns);
}

/* Does the ledger say that no library could be loaded into this process? */
static bool cannot_be_loaded_into(const kineto_trace *t, uint32_t process)
{
    static const char *const reasons[] = {KT_REASON_STATIC, KT_REASON_WORD_SIZE, KT_REASON_SET_ID};
    char pid[32];
    kineto_process p;
    kineto_ledger_line line;
    kineto_trace_process(t, process, &p);
    (void)snprintf(pid, sizeof pid, "(%lld)", (long long)p.pid);
    for (uint32_t i = 0; i < kineto_trace_ledger_count(t); i++) {
        kineto_trace_ledger(t, i, &line);
        if (kb_string_is(line.source, KT_SOURCE_UNRECORDED) && kb_string_contains(line.detail, pid) &&
            is_one_of(line.reason, reasons, KB_COUNT(reasons)))
            return true;
    }
    return false;
}

static void report_blocked(ka_finder *f, const ka_active *a, const uint8_t *marked,
                           const blocked_states *states, uint8_t class)
{
    char functions[400];
    blocked_sum sum = sum_blocked(a, marked);
    if (!is_long(a, &sum, MIN_BLOCKED_PERCENT))
        return;
    ka_found *x = ka_open_thread_finding(f, a->w, blocked_savings(a), 0.4, classes[class].subject);
    if (!x)
        return;
    x->count = sum.count;
    name_blocking_functions(f, a, marked, states, functions, sizeof functions);
    ka_say(f, x,
           "threads are blocked %s for %s in all (%llu times), %s for %.1f %% of its "
           "life%s",
           classes[class].what, kb_duration(sum.ns).s, (unsigned long long)sum.count,
           ka_short_name(a->w->threads.data[sum.worst].name).s, sum.percent, functions);
    bool waits_help = class == BLOCKED_LOCK &&
                      !cannot_be_loaded_into(f->s->trace, a->w->threads.data[sum.worst].process);
    ka_advise(f, x, "%s%s", classes[class].advice,
              waits_help ? "; 'ckineto record --waits -- PROGRAM' shows which lock it is and which thread held it"
                         : "");
    show_blocked(f, x, a, marked, states);
}

static bool has_header_key(const kineto_trace *t, const char *key)
{
    kineto_string name, value;
    for (uint32_t i = 0; kineto_trace_metadata(t, i, &name, &value); i++)
        if (kb_string_equal(name, kb_string(key)))
            return true;
    return false;
}

/* Was the program running already when it was recorded? Then nothing was loaded into it, and cannot be. */
static bool was_attached(const kineto_trace *t) { return has_header_key(t, "ckineto_attached_pid"); }

/* Did the kernel refuse its events, so that states come from counters? */
static bool has_counted_states(const kineto_trace *t)
{
    kineto_ledger_line line;
    for (uint32_t i = 0; i < kineto_trace_ledger_count(t); i++) {
        kineto_trace_ledger(t, i, &line);
        if (kb_string_is(line.source, "cpu") && kb_string_starts_with(line.reason, KT_REASON_COUNTERS))
            return true;
    }
    return false;
}

/* How to record what threads of the process wait for. */
static void advise_recording(ka_finder *f, ka_found *x, uint32_t process)
{
    const char *off_cpu = has_counted_states(f->s->trace)
                              ? ""
                              : "; or, as root or with CAP_PERFMON, record with --off-cpu, which records the function "
                                "and its callers";
    if (cannot_be_loaded_into(f->s->trace, process))
        ka_advise(f, x,
                  "Link the program dynamically: then --waits names locks, sleeps and files; nothing can be loaded into "
                  "this one (it is statically linked, of another architecture, or runs with raised privileges)%s",
                  off_cpu);
    else if (was_attached(f->s->trace))
        ka_advise(f, x,
                  "Start the program under ckineto, 'ckineto record --waits -- PROGRAM', which names locks, sleeps and "
                  "files: --waits cannot enter a program that runs already%s",
                  off_cpu);
    else
        ka_advise(f, x, "Record once with --waits, which names locks, sleeps and files%s", off_cpu);
}

/* Without functions it is only known that threads were blocked. */
static void report_unknown(ka_finder *f, const ka_active *a, const uint8_t *marked, const blocked_states *states)
{
    blocked_sum sum = sum_blocked(a, marked);
    if (!is_long(a, &sum, MIN_UNKNOWN_PERCENT))
        return;
    ka_found *x = ka_open_thread_finding(f, a->w, KA_NO_SAVINGS, 0.3, "");
    if (!x)
        return;
    x->count = sum.count;
    ka_say(f, x,
           "threads that compute are blocked for %s in all (%llu times), %s for %.1f %% of its life; what "
           "they waited for was not recorded",
           kb_duration(sum.ns).s, (unsigned long long)sum.count,
           ka_short_name(a->w->threads.data[sum.worst].name).s, sum.percent);
    advise_recording(f, x, a->w->threads.data[sum.worst].process);
    show_blocked(f, x, a, marked, states);
}

/* ---- all threads at once --------------------------------------------------------------------- */

#define MIN_STILL_PERCENT 90.0 /* of the recording */
#define MIN_STILL_NS INT64_C(500000000)

/* The longest blocked state of a thread; NULL: it was never blocked. */
static const ka_state *find_longest_blocked(const ka_watched *w, const ka_watched_thread *t)
{
    const ka_state *longest = NULL;
    for (uint32_t k = t->first; k < t->first + t->count; k++) {
        const ka_state *s = &w->states.data[k];
        if (s->state == KA_STATE_BLOCKED && (!longest || kb_length_ns(s->start_ns, s->end_ns) >
                                                             kb_length_ns(longest->start_ns, longest->end_ns)))
            longest = s;
    }
    return longest;
}

/* A program of which no thread runs for nearly all of the recording, and that did not end by itself: maybe a
 * deadlock. */
static void find_standstill(ka_finder *f, const ka_watched *w)
{
    int64_t from_ns = w->start_ns, until_ns = w->end_ns;
    for (uint32_t i = 0; i < w->threads.count; i++) {
        const ka_state *s = find_longest_blocked(w, &w->threads.data[i]);
        from_ns = KB_MAX(from_ns, s ? s->start_ns : INT64_MAX);
        until_ns = KB_MIN(until_ns, s ? s->end_ns : INT64_MIN);
    }
    int64_t ns = from_ns < until_ns ? kb_length_ns(from_ns, until_ns) : 0;
    double percent = ka_percent((double)ns, (double)ka_watched_span_ns(w));
    bool was_killed = has_header_key(f->s->trace, "ckineto_dump_reason");
    if (ns < MIN_STILL_NS || percent < MIN_STILL_PERCENT || !(was_killed || was_attached(f->s->trace)))
        return;
    ka_found *x = ka_open_thread_finding(f, w, KA_NO_SAVINGS, 0.5, "all threads");
    if (!x)
        return;
    x->count = w->threads.count;
    ka_say(f, x,
           "no thread of the program runs for %s at a stretch, %.1f %% of the recording; what they wait for was not "
           "recorded: it may be a deadlock",
           kb_duration(ns).s, percent);
    advise_recording(f, x, w->threads.data[0].process);
    for (uint32_t i = 0; i < w->threads.count; i++) {
        const ka_state *s = find_longest_blocked(w, &w->threads.data[i]);
        ka_show_row(f, x, s->row, kb_length_ns(s->start_ns, s->end_ns), NULL);
    }
}

/* ---- the rule -------------------------------------------------------------------------------- */

bool ka_has_rows_of(const kineto_trace *t, kineto_kind kind)
{
    for (uint32_t b = 0; b < kt_block_count(t); b++)
        if (kt_block_at(t, b)->kinds & KINETO_KIND_BIT(kind))
            return true;
    return false;
}

/* Threads that are in calls to files most of the time; NULL: out of memory. */
static uint8_t *find_file_threads(const ka_watched *w, const uint8_t *class_of)
{
    uint8_t *threads = calloc(w->threads.count + 1, 1);
    for (uint32_t i = 0; threads && i < w->threads.count; i++) {
        const ka_watched_thread *t = &w->threads.data[i];
        int64_t ns = 0;
        for (uint32_t k = t->first; k < t->first + t->count; k++)
            if (class_of[k] == BLOCKED_FILE)
                ns = ka_add_ns(ns, kb_length_ns(w->states.data[k].start_ns, w->states.data[k].end_ns));
        threads[i] = ns >= MIN_FILE_NS && ka_percent((double)ns, (double)ka_watched_life_ns(t)) >=
                                              MIN_FILE_PERCENT;
    }
    return threads;
}

/* Is the state one of those that are reported together: BLOCKED_OTHER are those without a function. */
static bool is_of_class(const ka_state *s, uint8_t class_of, uint8_t class)
{
    if (class == BLOCKED_OTHER)
        return s->state == KA_STATE_BLOCKED && !s->in && class_of != BLOCKED_ELSEWHERE;
    return class_of == class || (class == BLOCKED_FILE && class_of == BLOCKED_READ);
}

/* Marks the blocked states of one class, and reports them. */
static void check_class(ka_finder *f, const ka_watched *w, const blocked_states *states, uint8_t class)
{
    ka_active a = {0};
    uint8_t *marked = calloc(w->states.count + 1, 1);
    uint8_t *also = class == BLOCKED_FILE ? find_file_threads(w, states->class_of) : NULL;
    f->no_memory |= !marked || (class == BLOCKED_FILE && !also);
    for (size_t i = 0; marked && i < w->states.count; i++)
        marked[i] = is_of_class(&w->states.data[i], states->class_of[i], class);
    if (!f->no_memory && ka_active_make(f, marked, also, false, &a) && a.cpus &&
        (!a.is_counted || class == BLOCKED_OTHER)) {
        if (class == BLOCKED_OTHER)
            report_unknown(f, &a, marked, states);
        else
            report_blocked(f, &a, marked, states, class);
    }
    ka_active_free(&a);
    free(marked);
    free(also);
}

/* Where calls that block were recorded, rules about these calls report locks and files, and nothing is
 * unknown. */
void ka_find_blocked(ka_finder *f)
{
    const ka_watched *w = ka_watched_of(f);
    bool has_calls = ka_has_rows_of(f->s->trace, KINETO_KIND_BLOCKING_CALL);
    blocked_states states = {0};
    bool ok = w && classify_states(w, &states);
    f->no_memory |= w && !ok;
    for (uint8_t class = BLOCKED_OTHER; ok && class < BLOCKED_COUNT; class++)
        if (!has_calls || class == BLOCKED_SLEEP || class == BLOCKED_BARRIER)
            check_class(f, w, &states, class);
    if (ok && !has_calls)
        find_standstill(f, w);
    free_blocked_states(&states);
}

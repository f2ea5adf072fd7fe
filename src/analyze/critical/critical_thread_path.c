/* The critical path of a program without devices, through its threads: from the end of the thread that ended
 * last backward, in each state of the thread, and where it was blocked over to the thread that it waited
 * for, if that was recorded:
 *
 *    woken by a thread             that one (record --off-cpu, where the kernel says who woke a thread)
 *    blocked in a join             the thread of its process that ended last meanwhile
 *    blocked in wait4              the child process that ended last meanwhile
 *    blocked for a lock            the thread that held it (blocking calls have a holder)
 *    before the first state        the thread that made it: the only one of its process, or of the parent
 *                                  process, that was running then
 *
 * What woke a thread otherwise was not seen: then the path stays in the thread while it is blocked. */
#include "analyze/critical/critical.h"

#include "analyze/dataset/blocking_calls.h"

/* A row of the table. */
typedef struct path_sum {
    uint32_t thread, words;
    uint64_t count;
    int64_t ns;
} path_sum;

/* Where the walk is: everything after `ns` is done. */
typedef struct thread_walk {
    const ka_dataset *s;
    const ka_watched *w;
    ka_blocking_calls calls;
    int64_t *pid;  /* by process: its number, and that of its parent */
    int64_t *ppid;
    uint32_t thread;
    int64_t ns;
    uint32_t jumps; /* to other threads, since time last went back */
    KB_VEC(path_sum) sums;
    kb_map by_key;
    kb_intern words;
    bool no_memory;
} thread_walk;

static void add_time(thread_walk *x, kineto_string words, int64_t start_ns)
{
    bool created;
    uint32_t id = kb_intern_id(&x->words, words);
    uint64_t key = ((uint64_t)x->thread << 32 | id) + 1;
    uint64_t *at = id == KB_INTERN_NONE ? NULL
                                        : kb_map_insert(&x->by_key, key, x->sums.count, &created);
    x->no_memory |=
        !at || (created && !kb_vec_push(&x->sums, ((path_sum){.thread = x->thread, .words = id})));
    if (x->no_memory)
        return;
    x->sums.data[*at].count++;
    x->sums.data[*at].ns = ka_add_ns(x->sums.data[*at].ns, kb_length_ns(start_ns, x->ns));
    x->ns = start_ns;
    x->jumps = 0;
}

/* ---- threads at a moment --------------------------------------------------------------------- */

static int64_t born_ns(const thread_walk *x, uint32_t thread)
{
    return x->w->states.data[x->w->threads.data[thread].first].start_ns;
}

static int64_t died_ns(const thread_walk *x, uint32_t thread)
{
    const ka_watched_thread *t = &x->w->threads.data[thread];
    return x->w->states.data[t->first + t->count - 1].end_ns;
}

/* The state of a thread right before a moment; NULL: it has none then. */
static const ka_state *state_before(const thread_walk *x, uint32_t thread, int64_t ns)
{
    const ka_watched_thread *t = &x->w->threads.data[thread];
    uint32_t at = ka_watched_state_after(x->w, thread, ns - 1);
    if (at == t->first + t->count || x->w->states.data[at].start_ns >= ns)
        return NULL;
    return &x->w->states.data[at];
}

/* A thread with states; UINT32_MAX: there is none. */
static uint32_t find_last_thread(const thread_walk *x)
{
    uint32_t last = UINT32_MAX;
    for (uint32_t i = 0; i < x->w->threads.count; i++)
        if (x->w->threads.data[i].count &&
            (last == UINT32_MAX || died_ns(x, i) > died_ns(x, last)))
            last = i;
    return last;
}

/* ---- what a blocked thread waited for -------------------------------------------------------- */

/* Of the threads that `is_one` names, the one that ended last in a blocked state; UINT32_MAX: none did. */
static uint32_t find_ended(const thread_walk *x, const ka_state *blocked,
                           bool (*is_one)(const thread_walk *x, uint32_t thread))
{
    uint32_t last = UINT32_MAX;
    for (uint32_t i = 0; i < x->w->threads.count; i++) {
        if (i == x->thread || !x->w->threads.data[i].count || !is_one(x, i))
            continue;
        int64_t ns = died_ns(x, i);
        if (ns > blocked->start_ns && ns <= x->ns && (last == UINT32_MAX || ns > died_ns(x, last)))
            last = i;
    }
    return last;
}

static bool is_of_process(const thread_walk *x, uint32_t thread)
{
    return x->w->threads.data[thread].process == x->w->threads.data[x->thread].process;
}

static bool is_of_child(const thread_walk *x, uint32_t thread)
{
    int64_t parent = x->ppid[x->w->threads.data[thread].process];
    return parent > 0 && parent == x->pid[x->w->threads.data[x->thread].process];
}

static bool has_word(kineto_string text, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (kb_string_contains(text, words[i]))
            return true;
    return false;
}

/* The blocking call of the thread that is under way at the end of a blocked state; KINETO_NO_ROW. */
static kineto_row call_at_end(const thread_walk *x, const ka_state *blocked)
{
    const ka_watched_thread *t = &x->w->threads.data[x->thread];
    int64_t end_ns = KB_MIN(blocked->end_ns, x->ns);
    size_t i = ka_blocking_call_after(&x->calls, t->process, t->id, blocked->start_ns);
    kineto_row row = KINETO_NO_ROW;
    for (; ka_blocking_call_is_of(&x->calls, i, t->process, t->id) &&
           x->calls.list.data[i].start_ns < end_ns;
         i++)
        row = x->calls.list.data[i].end_ns >= end_ns ? x->calls.list.data[i].row : row;
    return row;
}

/* The thread that is named by the state after a blocked one: "woken by" "thread 42 (name)". UINT32_MAX:
 * none is, or not one that was watched. */
static uint32_t find_recorded_waker(const thread_walk *x, const ka_state *blocked)
{
    const ka_watched_thread *t = &x->w->threads.data[x->thread];
    uint32_t next = (uint32_t)(blocked - x->w->states.data) + 1, process = t->process;
    kineto_arg arg;
    if (next == t->first + t->count || x->w->states.data[next].state != KA_STATE_WAITING ||
        x->w->states.data[next].start_ns != blocked->end_ns || blocked->end_ns > x->ns ||
        !kineto_args_find(x->w->trace, x->w->states.data[next].row, "woken by", &arg) ||
        arg.type != KINETO_ARG_STRING)
        return UINT32_MAX;
    int64_t id = ka_watched_id(arg.text);
    uint32_t waker = id < 0 ? UINT32_MAX : ka_watched_find(x->w, process, id);
    for (uint32_t i = 0; id >= 0 && waker == UINT32_MAX && i < x->w->threads.count; i++)
        waker = x->w->threads.data[i].id == id ? i : UINT32_MAX;
    return waker != UINT32_MAX && waker != x->thread && state_before(x, waker, blocked->end_ns)
               ? waker
               : UINT32_MAX;
}

/* The thread that woke this one, and at *since from when on the path is in it. UINT32_MAX: not seen. */
static uint32_t find_waker(const thread_walk *x, const ka_state *blocked, kineto_row call,
                           int64_t *since)
{
    static const char *const joins[] = {"pthread_join", "clockjoin", "timedjoin", "thrd_join"},
                      *const waits[] = {"wait4", "waitpid", "waitid"};
    kineto_arg arg;
    kineto_activity a = {.name = {"", 0}};
    kineto_string in = ka_watched_text(x->w, blocked->in), stack = {"", 0};
    int64_t holder = call == KINETO_NO_ROW ? -1 : ka_blocking_call_holder(x->w->trace, call);
    uint32_t waker = find_recorded_waker(x, blocked);
    if (waker != UINT32_MAX) {
        *since = blocked->end_ns;
        return waker;
    }
    if (holder > 0) {
        waker = ka_watched_find(x->w, x->w->threads.data[x->thread].process, holder);
        *since = KB_MIN(blocked->end_ns, x->ns);
        return waker != x->thread && waker != UINT32_MAX && state_before(x, waker, *since) ? waker
                                                                                           : UINT32_MAX;
    }
    if (call != KINETO_NO_ROW)
        kineto_trace_get(x->w->trace, call, &a);
    if (blocked->in && kineto_args_find(x->w->trace, blocked->row, "Call stack", &arg) &&
        arg.type == KINETO_ARG_STRING)
        stack = arg.text;
    if (has_word(in, joins, KB_COUNT(joins)) || has_word(stack, joins, KB_COUNT(joins)) ||
        has_word(a.name, joins, KB_COUNT(joins)))
        waker = find_ended(x, blocked, is_of_process);
    else if (has_word(in, waits, KB_COUNT(waits)) || has_word(a.name, waits, KB_COUNT(waits)))
        waker = find_ended(x, blocked, is_of_child);
    if (waker != UINT32_MAX)
        *since = died_ns(x, waker);
    return waker;
}

/* A blocked state: over to the thread that ended it, or its own time. */
static void walk_blocked(thread_walk *x, const ka_state *blocked)
{
    int64_t since = 0;
    kineto_row call = call_at_end(x, blocked);
    uint32_t waker = x->jumps < x->w->threads.count ? find_waker(x, blocked, call, &since) : UINT32_MAX;
    if (waker == UINT32_MAX) {
        kb_text words = call == KINETO_NO_ROW ? ka_blocked_words(ka_watched_text(x->w, blocked->in))
                                              : ka_blocking_call_words(x->w->trace, call);
        add_time(x, kb_string(words.s), blocked->start_ns);
        return;
    }
    if (since < x->ns)
        add_time(x, kb_string("waking up"), since);
    x->thread = waker;
    x->jumps++;
}

/* ---- where a thread came from ---------------------------------------------------------------- */

/* Is the thread of the process of the one under way (also as what it was before an exec), or of the
 * parent process? */
static bool may_have_made(const thread_walk *x, uint32_t thread)
{
    uint32_t own = x->w->threads.data[x->thread].process;
    int64_t pid = x->pid[x->w->threads.data[thread].process];
    return is_of_process(x, thread) || (pid > 0 && (pid == x->pid[own] || pid == x->ppid[own]));
}

/* The only thread that may have made this one: it was running. UINT32_MAX: none, or several. */
static uint32_t find_maker(const thread_walk *x)
{
    uint32_t maker = UINT32_MAX;
    for (uint32_t i = 0; i < x->w->threads.count; i++) {
        if (i == x->thread || !x->w->threads.data[i].count || born_ns(x, i) >= x->ns ||
            !may_have_made(x, i))
            continue;
        const ka_state *state = state_before(x, i, x->ns);
        if (!state || state->state != KA_STATE_RUNNING)
            continue;
        if (maker != UINT32_MAX)
            return UINT32_MAX;
        maker = i;
    }
    return maker;
}

/* ---- the walk -------------------------------------------------------------------------------- */

/* One step backward; false: the path begins here. */
static bool walk_back(thread_walk *x)
{
    const ka_state *state = state_before(x, x->thread, x->ns);
    if (!state) { /* before its first state, or in a hole: threads have states all their life */
        uint32_t maker = x->jumps < x->w->threads.count ? find_maker(x) : UINT32_MAX;
        if (maker == UINT32_MAX)
            return false;
        x->thread = maker;
        x->jumps++;
        return true;
    }
    if (state->end_ns < x->ns)
        add_time(x, kb_string("(not recorded)"), state->end_ns);
    if (state->state == KA_STATE_BLOCKED)
        walk_blocked(x, state);
    else
        add_time(x, kb_string(ka_state_name((ka_state_kind)state->state)), state->start_ns);
    return !x->no_memory;
}

static void put_thread_path(const thread_walk *x, ka_table *t)
{
    int64_t all_ns = 0;
    for (size_t i = 0; i < x->sums.count; i++)
        all_ns = ka_add_ns(all_ns, x->sums.data[i].ns);
    for (size_t i = 0; i < x->sums.count; i++) {
        const path_sum *sum = &x->sums.data[i];
        const ka_watched_thread *thread = &x->w->threads.data[sum->thread];
        ka_put_int(t, x->s->rank);
        ka_put_int(t, x->pid[thread->process]);
        ka_put_text(t, thread->name);
        ka_put_text(t, kb_intern_get(&x->words, sum->words));
        ka_put_int(t, (int64_t)sum->count);
        ka_put_ns(t, sum->ns);
        ka_put_number(t, ka_percent((double)sum->ns, (double)all_ns));
    }
    KA_SORT(t, KA_DOWN(thread_path, us), KA_UP(thread_path, thread), KA_UP(thread_path, thread_was));
}

/* False: out of memory. */
static bool read_processes(thread_walk *x)
{
    uint32_t count = kineto_trace_process_count(x->w->trace);
    x->pid = calloc((size_t)count + 1, sizeof *x->pid);
    x->ppid = calloc((size_t)count + 1, sizeof *x->ppid);
    for (uint32_t i = 0; x->pid && x->ppid && i < count; i++) {
        kineto_process p;
        kineto_trace_process(x->w->trace, i, &p);
        x->pid[i] = p.pid;
        x->ppid[i] = p.ppid;
    }
    return x->pid && x->ppid;
}

static bool fill_thread_path(const ka_dataset *s, const ka_watched *w, ka_table *t)
{
    thread_walk x = {.s = s, .w = w};
    bool ok = read_processes(&x) && ka_blocking_calls_make(w->trace, &x.calls);
    x.thread = find_last_thread(&x);
    x.ns = ok ? died_ns(&x, x.thread) : 0;
    while (ok && walk_back(&x))
        continue;
    ok = ok && !x.no_memory;
    if (ok)
        put_thread_path(&x, t);
    free(x.pid);
    free(x.ppid);
    ka_blocking_calls_free(&x.calls);
    kb_vec_free(&x.sums);
    kb_map_free(&x.by_key);
    kb_intern_free(&x.words);
    return ok;
}

kineto_status ka_analyze_thread_path(const ka_dataset *s, kineto_analysis *a, kineto_error *err)
{
    ka_table *t = ka_table_of(a, KA_TABLE_thread_path);
    const ka_watched *w = ka_dataset_watched(s);
    if (!w)
        return kb_fail_memory(err, NULL);
    if (!w->states.count)
        ka_note(t, "the trace has no states of threads: 'ckineto record' has them on Linux");
    else if (s->work_count)
        ka_note(t, "the program uses devices: critical_path_summary has its path");
    else if (!fill_thread_path(s, w, t))
        return kb_fail_memory(err, NULL);
    return KINETO_OK;
}

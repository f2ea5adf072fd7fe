/* Tables of threads that were watched from outside: their states, their longest waits for a CPU, where
 * they were blocked, and the functions that used their CPU time. */
#include "analyze/facts/analyses.h"

#define MAX_WAITS 50u

static int64_t pid_of(const ka_watched *w, uint32_t thread)
{
    kineto_process p;
    kineto_trace_process(w->trace, w->threads.data[thread].process, &p);
    return p.pid;
}

/* The cells that rows of one thread begin with. */
static void put_thread_cells(const ka_dataset *s, const ka_watched *w, uint32_t thread, ka_table *t)
{
    ka_put_int(t, s->rank);
    ka_put_int(t, pid_of(w, thread));
    ka_put_text(t, w->threads.data[thread].name);
}

static void put_share(ka_table *t, int64_t part_ns, int64_t whole_ns)
{
    ka_put_number(t, ka_percent((double)part_ns, (double)whole_ns));
}

static void put_thread_states(const ka_dataset *s, const ka_watched *w, ka_table *t)
{
    for (uint32_t i = 0; i < w->threads.count; i++) {
        const ka_watched_thread *thread = &w->threads.data[i];
        int64_t life_ns = ka_watched_life_ns(thread);
        if (!thread->count)
            continue;
        put_thread_cells(s, w, i, t);
        ka_put_ns(t, life_ns);
        for (uint32_t k = 0; k < KA_STATE_COUNT; k++)
            ka_put_ns(t, thread->ns[k]);
        for (uint32_t k = 0; k < KA_STATE_COUNT; k++)
            put_share(t, thread->ns[k], life_ns);
        ka_put_int(t, (int64_t)thread->times[KA_STATE_RUNNING]);
        ka_put_int(t, (int64_t)thread->times[KA_STATE_WAITING]);
    }
    KA_SORT(t, KA_DOWN(thread_states, running_us), KA_UP(thread_states, pid),
            KA_UP(thread_states, thread));
}

/* ---- waits for a CPU ------------------------------------------------------------------------- */

/* The longest waits so far; `shortest` is the index of the one that a longer one replaces. */
typedef struct longest_waits {
    uint32_t state[MAX_WAITS], thread[MAX_WAITS];
    uint32_t count, shortest;
} longest_waits;

static int64_t state_ns(const ka_watched *w, uint32_t state)
{
    return kb_length_ns(w->states.data[state].start_ns, w->states.data[state].end_ns);
}

static void keep_wait(const ka_watched *w, longest_waits *l, uint32_t state, uint32_t thread)
{
    if (l->count == MAX_WAITS && state_ns(w, state) <= state_ns(w, l->state[l->shortest]))
        return;
    uint32_t at = l->count < MAX_WAITS ? l->count++ : l->shortest;
    l->state[at] = state;
    l->thread[at] = thread;
    l->shortest = 0;
    for (uint32_t i = 1; i < l->count; i++)
        if (state_ns(w, l->state[i]) < state_ns(w, l->state[l->shortest]))
            l->shortest = i;
}

static void find_longest_waits(const ka_watched *w, longest_waits *l)
{
    for (uint32_t i = 0; i < w->threads.count; i++)
        for (uint32_t k = 0; k < w->threads.data[i].count; k++) {
            uint32_t state = w->threads.data[i].first + k;
            if (w->states.data[state].state == KA_STATE_WAITING)
                keep_wait(w, l, state, i);
        }
}

static bool put_waits(const ka_dataset *s, const ka_watched *w, ka_table *t)
{
    ka_load load;
    longest_waits l = {.count = 0};
    bool ok = ka_load_make(w, NULL, NULL, &load);
    if (ok)
        find_longest_waits(w, &l);
    for (uint32_t i = 0; i < l.count; i++) {
        const ka_state *state = &w->states.data[l.state[i]];
        int64_t ns = state_ns(w, l.state[i]);
        put_thread_cells(s, w, l.thread[i], t);
        ka_put_ns(t, kb_length_ns(s->series_origin_ns, state->start_ns));
        ka_put_ns(t, ns);
        ka_put_number(t, (double)ka_load_ran_ns(&load, state->start_ns, state->end_ns) /
                             (double)KB_MAX(ns, 1));
    }
    KA_SORT(t, KA_DOWN(runqueue_waits, wait_us), KA_UP(runqueue_waits, start_us),
            KA_UP(runqueue_waits, thread));
    ka_load_free(&load);
    return ok;
}

/* ---- functions ------------------------------------------------------------------------------- */

static void put_blocked(const ka_dataset *s, const ka_watched *w, ka_table *t)
{
    for (size_t i = 0; i < w->blocked.count; i++) {
        const ka_blocked *b = &w->blocked.data[i];
        put_thread_cells(s, w, b->thread, t);
        ka_put_text(t, ka_watched_text(w, b->function));
        ka_put_int(t, (int64_t)b->count);
        ka_put_ns(t, b->ns);
        ka_put_ns(t, b->longest_ns);
        put_share(t, b->ns, ka_watched_life_ns(&w->threads.data[b->thread]));
    }
    KA_SORT(t, KA_DOWN(blocked_in, blocked_us), KA_UP(blocked_in, thread),
            KA_UP(blocked_in, function));
}

static void put_functions(const ka_watched *w, ka_table *t)
{
    for (size_t i = 0; i < w->of_all.count; i++) {
        const ka_sampled *f = &w->of_all.data[i];
        ka_put_text(t, kineto_trace_string(w->trace, f->name));
        ka_put_text(t, ka_watched_text(w, f->module));
        ka_put_int(t, (int64_t)f->samples);
        ka_put_ns(t, f->self_ns);
        put_share(t, f->self_ns, w->sampled_ns);
        ka_put_ns(t, f->total_ns);
        ka_put_int(t, f->own_samples);
    }
    KA_SORT(t, KA_DOWN(cpu_functions, self_us), KA_DOWN(cpu_functions, total_us),
            KA_UP(cpu_functions, function), KA_UP(cpu_functions, module));
}

static bool put_thread_functions(const ka_dataset *s, const ka_watched *w, ka_table *t)
{
    int64_t *all = calloc(w->threads.count + 1, sizeof *all);
    for (size_t i = 0; all && i < w->functions.count; i++)
        all[w->functions.data[i].thread] =
            ka_add_ns(all[w->functions.data[i].thread], w->functions.data[i].self_ns);
    for (size_t i = 0; all && i < w->functions.count; i++) {
        const ka_sampled *f = &w->functions.data[i];
        put_thread_cells(s, w, f->thread, t);
        ka_put_text(t, kineto_trace_string(w->trace, f->name));
        ka_put_text(t, ka_watched_text(w, f->module));
        ka_put_int(t, (int64_t)f->samples);
        ka_put_ns(t, f->self_ns);
        put_share(t, f->self_ns, all[f->thread]);
        ka_put_ns(t, f->total_ns);
    }
    KA_SORT(t, KA_DOWN(thread_functions, self_us), KA_DOWN(thread_functions, total_us),
            KA_UP(thread_functions, thread), KA_UP(thread_functions, function));
    free(all);
    return all != NULL;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* One note for all tables of a trace without such rows, so that they are reported together. */
static void note_unwatched(const ka_watched *w, ka_table *t, const char *why)
{
    if (!t || ka_table_rows(t))
        return;
    if (!w->threads.count)
        ka_note(t, "the trace has no states of threads and no CPU samples: 'ckineto record' has "
                   "them on Linux (docs/reference/cpu.md)");
    else
        ka_note(t, "%s", why);
}

kineto_status ka_analyze_cpu(const ka_dataset *s, kineto_analysis *a, kineto_error *err)
{
    ka_table *states = ka_table_of(a, KA_TABLE_thread_states),
             *waits = ka_table_of(a, KA_TABLE_runqueue_waits),
             *blocked = ka_table_of(a, KA_TABLE_blocked_in),
             *functions = ka_table_of(a, KA_TABLE_cpu_functions),
             *by_thread = ka_table_of(a, KA_TABLE_thread_functions);
    const ka_watched *w = ka_dataset_watched(s);
    bool ok = w != NULL;
    if (ok && states)
        put_thread_states(s, w, states);
    if (ok && waits)
        ok = put_waits(s, w, waits);
    if (ok && blocked)
        put_blocked(s, w, blocked);
    if (ok && functions)
        put_functions(w, functions);
    if (ok && by_thread)
        ok = put_thread_functions(s, w, by_thread);
    if (!ok)
        return kb_fail_memory(err, NULL);
    note_unwatched(w, states, "states of threads were not recorded");
    note_unwatched(w, waits, "no thread waited for a CPU, or states were not recorded");
    note_unwatched(w, blocked, "the functions in which threads were blocked were not recorded: "
                               "record --off-cpu, which needs CAP_PERFMON");
    note_unwatched(w, functions, "no CPU samples: the program used little CPU time, or --cpu 0");
    note_unwatched(w, by_thread, "no CPU samples: the program used little CPU time, or --cpu 0");
    return KINETO_OK;
}

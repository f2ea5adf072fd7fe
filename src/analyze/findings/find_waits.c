/* Rules about what threads of any program wait for in libc: locks, and files in a loop. They read
 * the tables locks and blocking_calls, of recordings with --waits.
 *
 * Savings are an upper bound: what the thread that waited most would wait less, and of traces with states of
 * threads no more than the critical path through the threads (thread_path) allows. */
#include "analyze/findings/find_waits.h"

#include "analyze/dataset/thread_time.h"
#include "base/strings.h"

#define MIN_WAIT_PERCENT 2.0 /* of the recorded time, by one thread */
#define MIN_LOOP_CALLS   10  /* of one function on one file */
#define MIN_SHORT_CALLS  1000
#define SMALL_BYTES      4096.0 /* transfers below it cost what the call costs */

static int64_t get_window_ns(const ka_finder *f)
{
    int64_t start_ns, end_ns;
    kineto_trace_window(f->s->trace, &start_ns, &end_ns);
    return KB_MAX(kb_length_ns(start_ns, end_ns), 1);
}

/* A finding of `ns` that a thread waited, if it is worth reporting. Evidence is a row of the trace.
 * `most_ns` is what the run waits for it, the most that it could be shorter. */
static ka_found *open_wait(ka_finder *f, int64_t ns, int64_t most_ns, kineto_string subject)
{
    int64_t window_ns = get_window_ns(f);
    if (100 * (double)ns < MIN_WAIT_PERCENT * (double)window_ns)
        return NULL;
    ka_found *x = ka_open_finding(f, KB_MIN(KB_MIN(ns, most_ns), window_ns), 0.4, subject);
    if (x)
        x->whole_ns = window_ns;
    return x;
}

/* ---- locks ----------------------------------------------------------------------------------- */

/* The thread on the critical path that takes the longest however long it waits for locks: the run is never
 * shorter than that. `run_ns` is the length of the path; INT64_MAX: there is none. */
typedef struct pace {
    int64_t run_ns, own_ns;
    kineto_string thread;
} pace;

/* Time that does not depend on other threads: running, waiting for a CPU, asleep. */
static void add_own_time(void *context, kineto_string words, int64_t ns)
{
    static const char blocked[] = "blocked in ";
    int64_t *own_ns = context;
    bool is_asleep = kb_string_starts_with(words, blocked) &&
                     ka_is_sleep((kineto_string){words.data + sizeof blocked - 1, words.size - sizeof blocked + 1});
    if (is_asleep || kb_string_is(words, ka_state_name(KA_STATE_RUNNING)) ||
        kb_string_is(words, ka_state_name(KA_STATE_WAITING)))
        *own_ns = ka_add_ns(*own_ns, ns);
}

static bool is_on_path(const ka_table *path, kineto_string thread)
{
    bool found = false;
    for (uint64_t row = 0; row < ka_table_rows(path) && !found; row++)
        found = kb_string_equal(ka_text_at(path, row, KA_COL_thread_path_thread), thread);
    return found;
}

static pace find_pace(ka_finder *f)
{
    const ka_table *path = ka_fact_table(f, KA_TABLE_thread_path);
    const ka_watched *w = ka_dataset_watched(f->s);
    ka_blocking_calls calls = {0};
    pace p = {.run_ns = ka_table_rows(path) ? 0 : INT64_MAX};
    f->no_memory |= !w || !ka_blocking_calls_make(f->s->trace, &calls);
    for (uint64_t row = 0; row < ka_table_rows(path); row++)
        p.run_ns = ka_add_ns(p.run_ns, ka_fact_int(path, row, KA_COL_thread_path_us));
    for (uint32_t i = 0; p.run_ns != INT64_MAX && !f->no_memory && i < w->threads.count; i++) {
        const ka_watched_thread *t = &w->threads.data[i];
        int64_t own_ns = 0;
        if (!t->count || !is_on_path(path, t->name))
            continue;
        ka_thread_time(w, &calls, t->process, t->id, w->states.data[t->first].start_ns,
                       w->states.data[t->first + t->count - 1].end_ns, add_own_time, &own_ns);
        if (own_ns > p.own_ns) {
            p.own_ns = own_ns;
            p.thread = t->name;
        }
    }
    ka_blocking_calls_free(&calls);
    return p;
}

static int64_t find_most_saved_ns(const pace *p)
{
    return p->run_ns == INT64_MAX ? INT64_MAX : KB_MAX(p->run_ns - p->own_ns, 0);
}

#define MIN_HOLDER_PERCENT 25.0 /* of the waiting, in one function */

/* What holders do with the lock in hand, in most of that time, is what to change. */
static void advise_holder(ka_finder *f, ka_found *x, const ka_table *t, uint64_t row)
{
    kineto_string in = ka_text_at(t, row, KA_COL_locks_holder_in);
    kineto_string runs = ka_text_at(t, row, KA_COL_locks_holder_runs);
    double sum_ns = (double)KB_MAX(ka_fact_int(t, row, KA_COL_locks_sum_us), 1);
    double in_percent = 100 * (double)ka_fact_int(t, row, KA_COL_locks_in_us) / sum_ns;
    double runs_percent = 100 * (double)ka_fact_int(t, row, KA_COL_locks_runs_us) / sum_ns;
    kb_text function = ka_short_name(runs_percent > in_percent ? runs : in);
    double percent = KB_MAX(in_percent, runs_percent);
    if (percent < MIN_HOLDER_PERCENT)
        return;
    if (runs_percent > in_percent)
        ka_advise(f, x, "Hold the lock for less: during %.1f %% of the waiting its holder was running %s.",
                  percent, function.s);
    else if (kb_string_contains(in, "mutex_") || kb_string_contains(in, "rwlock_") ||
             kb_string_contains(in, "mtx_"))
        ka_advise(f, x,
                  "Do not hold the lock while waiting for another one: during %.1f %% of the waiting "
                  "the holder was in %s.",
                  percent, function.s);
    else
        ka_advise(f, x, "Call %s without the lock: during %.1f %% of the waiting the holder was in it.",
                  function.s, percent);
}

static bool has_row(const ka_wait_rows *rows, kineto_row row)
{
    bool found = false;
    for (size_t i = 0; i < rows->count; i++)
        found |= rows->data[i] == row;
    return found;
}

static void report_lock(ka_finder *f, const ka_table *t, uint64_t row, const pace *p)
{
    kineto_string lock = ka_text_at(t, row, KA_COL_locks_lock);
    kineto_string holder = ka_text_at(t, row, KA_COL_locks_holder);
    int64_t most_ns = ka_fact_int(t, row, KA_COL_locks_most_us);
    int64_t sum_ns = ka_fact_int(t, row, KA_COL_locks_sum_us);
    int64_t saved_ns = find_most_saved_ns(p);
    ka_found *x = open_wait(f, most_ns, saved_ns, lock);
    char limit[400] = "";
    if (!x)
        return;
    x->count = (uint64_t)ka_fact_int(t, row, KA_COL_locks_waits);
    ka_set_extent(x, 100 * (double)most_ns / (double)x->whole_ns);
    if (saved_ns < most_ns)
        kb_snprintf(limit, sizeof limit,
                    "; that is of the threads' time, not of the run, in which %s runs or sleeps for %s anyway",
                    ka_short_name(p->thread).s, kb_duration(p->own_ns).s);
    bool is_known = ka_fact_int(t, row, KA_COL_locks_holder_us) > 0;
    ka_say(f, x,
           "Lock contention: lock %.*s%s%.*s, %s of waiting in %llu waits of %lld threads; "
           "one thread waited %.1f %% of the time%s",
           (int)lock.size, lock.data, is_known ? " held by " : "",
           is_known ? (int)holder.size : 0, holder.data, kb_duration(sum_ns).s,
           (unsigned long long)x->count, (long long)ka_fact_int(t, row, KA_COL_locks_threads),
           100 * (double)most_ns / (double)x->whole_ns, limit);
    advise_holder(f, x, t, row);
    ka_show_row(f, x, (kineto_row)ka_fact_int(t, row, KA_COL_locks_row),
                ka_fact_int(t, row, KA_COL_locks_max_us), "the longest wait");
}

void ka_find_lock_contention(ka_finder *f)
{
    const ka_table *t = ka_fact_table(f, KA_TABLE_locks);
    if (!ka_table_rows(t) && !ka_table_rows(ka_fact_table(f, KA_TABLE_blocking_calls)))
        ka_skip_rule(f, "the trace has no waits for locks: record with ckineto record --waits");
    ka_wait_rows deadlocked = {0};
    pace p = ka_table_rows(t) ? find_pace(f) : (pace){.run_ns = INT64_MAX};
    ka_deadlock_waits(f, &deadlocked);
    for (uint64_t row = 0; row < ka_table_rows(t); row++)
        if (!has_row(&deadlocked, (kineto_row)ka_fact_int(t, row, KA_COL_locks_row)))
            report_lock(f, t, row, &p);
    kb_vec_free(&deadlocked);
}

/* ---- files in a loop ------------------------------------------------------------------------- */

/* What to do about many calls of a function; NULL: it is not one that a program calls for files. */
static const char *get_file_advice(kineto_string function)
{
    static const struct {
        const char *name, *advice;
    } all[] = {
        {"fsync", "Sync once after several writes, or from another thread."},
        {"fdatasync", "Sync once after several writes, or from another thread."},
        {"open", "Open the file once and keep the descriptor."},
        {"openat", "Open the file once and keep the descriptor."},
        {"close", "Open the file once and keep the descriptor."},
        {"flock", "Hold the file's lock over several accesses."},
        {"read", "Read larger blocks, or ahead in another thread."},
        {"pread", "Read larger blocks, or ahead in another thread."},
        {"readv", "Read larger blocks, or ahead in another thread."},
        {"write", "Gather data in a buffer and write larger blocks, or from another thread."},
        {"pwrite", "Gather data in a buffer and write larger blocks, or from another thread."},
        {"writev", "Gather data in a buffer and write larger blocks, or from another thread."},
    };
    for (size_t i = 0; i < KB_COUNT(all); i++)
        if (kb_string_equal(function, kb_string(all[i].name)))
            return all[i].advice;
    return NULL;
}

/* How long the path through the threads is blocked in a function; INT64_MAX: there is none. */
static int64_t find_path_call_ns(const ka_finder *f, kineto_string function)
{
    const ka_table *t = ka_fact_table(f, KA_TABLE_thread_path);
    kb_text words = ka_blocked_words(function);
    int64_t ns = 0;
    for (uint64_t row = 0; row < ka_table_rows(t); row++)
        if (kb_string_is(ka_text_at(t, row, KA_COL_thread_path_thread_was), words.s))
            ns = ka_add_ns(ns, ka_fact_int(t, row, KA_COL_thread_path_us));
    return ka_table_rows(t) ? ns : INT64_MAX;
}

static void find_file_loop(ka_finder *f, const ka_table *t, uint64_t row, const char *advice)
{
    char subject[512];
    kineto_string function = ka_text_at(t, row, KA_COL_blocking_calls_function);
    kineto_string file = ka_text_at(t, row, KA_COL_blocking_calls_object);
    int64_t count = ka_fact_int(t, row, KA_COL_blocking_calls_count);
    int64_t most_ns = ka_fact_int(t, row, KA_COL_blocking_calls_most_us);
    if (count < MIN_LOOP_CALLS)
        return;
    snprintf(subject, sizeof subject, "%.*s of %.*s", (int)KB_MIN(function.size, 32), function.data,
             (int)KB_MIN(file.size, 256), file.data);
    ka_found *x = open_wait(f, most_ns, find_path_call_ns(f, function), kb_string(subject));
    if (!x)
        return;
    x->count = (uint64_t)count;
    ka_say(f, x, "I/O in a loop: %s, %lld calls that took %s, %.1f %% of the time of one thread",
           subject, (long long)count,
           kb_duration(ka_fact_int(t, row, KA_COL_blocking_calls_sum_us)).s,
           100 * (double)most_ns / (double)x->whole_ns);
    ka_advise(f, x, "%s", advice);
    ka_show_row(f, x, (kineto_row)ka_fact_int(t, row, KA_COL_blocking_calls_row),
                ka_fact_int(t, row, KA_COL_blocking_calls_max_us), "the longest call");
}

/* Calls below the threshold, which are many and small. */
static void find_small_transfers(ka_finder *f, const ka_table *t, uint64_t row, const char *advice)
{
    kineto_string function = ka_text_at(t, row, KA_COL_blocking_calls_function);
    int64_t count = ka_fact_int(t, row, KA_COL_blocking_calls_count);
    int64_t sum_ns = ka_fact_int(t, row, KA_COL_blocking_calls_sum_us);
    double bytes = (double)ka_fact_int(t, row, KA_COL_blocking_calls_bytes) / (double)KB_MAX(count, 1);
    if (count < MIN_SHORT_CALLS || bytes <= 0 || bytes >= SMALL_BYTES)
        return;
    char subject[64];
    snprintf(subject, sizeof subject, "small calls of %.*s", (int)KB_MIN(function.size, 32),
             function.data);
    ka_found *x = open_wait(f, sum_ns, INT64_MAX, kb_string(subject));
    if (!x)
        return;
    x->count = (uint64_t)count;
    ka_say(f, x, "I/O in a loop: %lld calls of %.*s moved %.0f bytes each, and took %s in all",
           (long long)count, (int)function.size, function.data, bytes,
           kb_duration(sum_ns).s);
    ka_advise(f, x, "%s", advice);
    ka_show_row(f, x, (kineto_row)ka_fact_int(t, row, KA_COL_blocking_calls_row), sum_ns,
                "their counter");
}

void ka_find_file_loop(ka_finder *f)
{
    const ka_table *t = ka_fact_table(f, KA_TABLE_blocking_calls);
    if (!ka_table_rows(t))
        ka_skip_rule(f, "the trace has no blocking calls: record with ckineto record --waits");
    for (uint64_t row = 0; row < ka_table_rows(t); row++) {
        kineto_string file = ka_text_at(t, row, KA_COL_blocking_calls_object);
        const char *advice = get_file_advice(ka_text_at(t, row, KA_COL_blocking_calls_function));
        if (!advice)
            continue;
        if (file.size && file.data[0] == '/')
            find_file_loop(f, t, row, advice);
        else if (file.size && file.data[0] == '(')
            find_small_transfers(f, t, row, advice);
    }
}

/* ---- sleep ----------------------------------------------------------------------------------- */

#define MIN_SLEEP_PERCENT 10.0 /* of the recorded time, by one thread */

/* Calls of one function that sleeps, and the thread that slept most in it. */
typedef struct sleep_sum {
    kineto_string function;
    int64_t ns, most_ns, longest_ns;
    int64_t thread_id;
    uint64_t count, threads;
    kineto_row row; /* the longest call of that thread */
} sleep_sum;

typedef KB_VEC(sleep_sum) sleep_sums;

static sleep_sum *find_sleep(ka_finder *f, sleep_sums *sums, kineto_string function)
{
    for (size_t i = 0; i < sums->count; i++)
        if (kb_string_equal(sums->data[i].function, function))
            return &sums->data[i];
    f->no_memory |= !kb_vec_push(sums, (sleep_sum){.function = function});
    return f->no_memory ? NULL : &sums->data[sums->count - 1];
}

/* Adds the sleep of one thread in one function. */
static void end_thread_sleep(sleep_sum *all, const sleep_sum *own)
{
    all->ns = ka_add_ns(all->ns, own->ns);
    all->count += own->count;
    all->threads++;
    if (own->ns <= all->most_ns)
        return;
    all->most_ns = own->ns;
    all->thread_id = own->thread_id;
    all->row = own->row;
    all->longest_ns = own->longest_ns;
}

static void add_sleep(ka_finder *f, sleep_sums *own, const ka_blocking_call *call)
{
    kineto_activity a;
    kineto_trace_get(f->s->trace, call->row, &a);
    sleep_sum *sum = a.kind == KINETO_KIND_BLOCKING_CALL && ka_is_sleep(a.name) ? find_sleep(f, own, a.name) : NULL;
    if (!sum)
        return;
    int64_t ns = kb_length_ns(call->start_ns, call->end_ns);
    sum->ns = ka_add_ns(sum->ns, ns);
    sum->count++;
    sum->thread_id = call->thread_id;
    if (ns > sum->longest_ns || sum->count == 1) {
        sum->longest_ns = ns;
        sum->row = call->row;
    }
}

/* Thread by thread, as calls are sorted. */
static void sum_sleeps(ka_finder *f, const ka_blocking_calls *calls, sleep_sums *all)
{
    sleep_sums own = {0};
    for (size_t i = 0; i < calls->list.count && !f->no_memory; i++) {
        const ka_blocking_call *call = &calls->list.data[i];
        add_sleep(f, &own, call);
        if (i + 1 < calls->list.count && ka_blocking_call_is_of(calls, i + 1, call->process, call->thread_id))
            continue;
        for (size_t k = 0; k < own.count; k++) {
            sleep_sum *sum = find_sleep(f, all, own.data[k].function);
            if (sum)
                end_thread_sleep(sum, &own.data[k]);
        }
        own.count = 0;
    }
    kb_vec_free(&own);
}

static void report_sleep(ka_finder *f, const sleep_sum *sum)
{
    int64_t window_ns = get_window_ns(f);
    double percent = 100 * (double)sum->most_ns / (double)window_ns;
    ka_found *x = percent >= MIN_SLEEP_PERCENT ? ka_open_finding(f, KA_NO_SAVINGS, 0.5, sum->function) : NULL;
    if (!x)
        return;
    x->count = sum->count;
    ka_set_extent(x, percent);
    ka_say(f, x,
           "%.*s sleeps for %s in all (%llu calls of %llu thread%s), thread %lld for %s of it, %.1f %% of the "
           "recorded time",
           (int)sum->function.size, sum->function.data, kb_duration(sum->ns).s, (unsigned long long)sum->count,
           (unsigned long long)sum->threads, sum->threads == 1 ? "" : "s", (long long)sum->thread_id, kb_duration(sum->most_ns).s, percent);
    ka_show_row(f, x, sum->row, sum->longest_ns, "the longest call of that thread");
}

/* Where states of threads show that they would have run, thread.blocked has reported it. */
static bool has_sleep_finding(const ka_finder *f)
{
    bool found = false;
    for (size_t i = 0; i < f->out->found.count; i++)
        found |= f->out->found.data[i].rule == KA_FIND_blocked &&
                 kb_string_is(f->out->found.data[i].subject, "sleep");
    return found;
}

void ka_find_sleeping(ka_finder *f)
{
    ka_blocking_calls calls = {0};
    sleep_sums sums = {0};
    if (!ka_has_rows_of(f->s->trace, KINETO_KIND_BLOCKING_CALL)) {
        ka_skip_rule(f, "the trace has no blocking calls: record with ckineto record --waits");
        return;
    }
    if (f->host_only && !has_sleep_finding(f)) { /* else the devices set the pace */
        f->no_memory |= !ka_blocking_calls_make(f->s->trace, &calls);
        sum_sleeps(f, &calls, &sums);
    }
    for (size_t i = 0; i < sums.count && !f->no_memory; i++)
        report_sleep(f, &sums.data[i]);
    ka_blocking_calls_free(&calls);
    kb_vec_free(&sums);
}

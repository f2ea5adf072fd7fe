/* Reads /proc/PID/task/TID/schedstat of all threads: nanoseconds with a CPU and waiting for one. Of each
 * pass the sums are exact, the order within it is not known: the thread is shown as running first, then as
 * waiting, then as blocked. What a thread did between its last pass and its end is not known. */
#include "cpu/polling.h"
#include "cpu/attach.h"
#include "cpu/source.h"
#include "session/process_image.h"

#include <stdio.h>
#include <time.h>

#define NAME_PASSES 16u  /* after so many passes names are read again */
#define MAX_SHARE   100u /* a pass takes at most one part in so many of the time */

static bool read_times(uint32_t pid, uint32_t tid, uint64_t *run_ns, uint64_t *wait_ns)
{
    char path[64], text[96];
    unsigned long long run, wait;
    snprintf(path, sizeof path, "/proc/%u/task/%u/schedstat", pid, tid);
    if (!kb_os_read_file(path, text, sizeof text) || sscanf(text, "%llu %llu", &run, &wait) != 2)
        return false;
    *run_ns = run;
    *wait_ns = wait;
    return true;
}

bool ku_polling_is_possible(void)
{
    uint64_t run_ns, wait_ns;
    return kb_os_proc_is_ours() && read_times(kb_os_pid(), kb_os_pid(), &run_ns, &wait_ns);
}

static void write_polled_run(ku_records *r, ku_thread *t, uint64_t start, uint64_t end, bool waits)
{
    t->on_ticks = start;
    ku_write_run(r, t, end, KF_RUN_POLLED | (waits ? KF_RUN_PREEMPTED : 0));
}

/* One interval as runs: a run that ends preempted is followed by waiting, which ends with the next run. A
 * run without length ends it where the thread was blocked afterwards. */
static void write_interval(ku_records *r, ku_thread *t, uint64_t now, uint64_t run_ns, uint64_t wait_ns)
{
    uint64_t length = now - t->polled_ticks, start = t->polled_ticks;
    double ticks_per_ns = r->writer.ticks_per_ns;
    uint64_t run = KB_MIN((uint64_t)((double)run_ns * ticks_per_ns), length);
    uint64_t wait = KB_MIN((uint64_t)((double)wait_ns * ticks_per_ns), length - run);
    if (run || wait)
        write_polled_run(r, t, start, start + run, wait != 0);
    if (wait && run + wait + 1 < length)
        write_polled_run(r, t, start + run + wait, start + run + wait, false);
}

/* What the threads did since the last pass counts for the new program. Any of them may be the one by which the exec is
 * noticed. */
static void write_exec_of_threads(ku_polling *p, uint32_t pid)
{
    const ku_watched *w = &p->records->watched;
    for (size_t i = 0; i < w->thread_list.count; i++) {
        ku_thread *t = w->thread_list.data[i];
        if (t->pid == pid && t->polled_ticks)
            ku_write_exec(p->records, t, t->polled_ticks);
    }
}

/* A program that was executed has a new identity; a thread may have got a name. */
static void read_names(ku_polling *p, ku_process *process, ku_thread *t, uint64_t now)
{
    uint64_t exec_id = ks_process_exec_id(process->pid);
    char name[KU_NAME_BYTES];
    if (exec_id && exec_id != process->exec_id) {
        process->exec_id = exec_id;
        kb_os_process_name(process->pid, process->name, sizeof process->name);
        write_exec_of_threads(p, process->pid);
        ku_watched_exec(&p->records->watched, process->pid, process->name, now);
    }
    if (t->tid == process->pid) /* the libraries, as they come */
        ku_attach_read_process(&p->records->watched, process);
    if (!kb_os_thread_name(t->pid, t->tid, name, sizeof name) || strcmp(name, t->last_name) == 0)
        return;
    snprintf(t->name, sizeof t->name, "%s", name);
    snprintf(t->last_name, sizeof t->last_name, "%s", name);
}

static void poll_thread(void *context, uint32_t pid, uint32_t tid)
{
    ku_polling *p = context;
    ku_watched *w = &p->records->watched;
    ku_thread *t = ku_watched_find_thread(w, tid);
    ku_process *process = ku_watched_process(w, pid);
    uint64_t run_ns, wait_ns, now = kb_ticks(p->records->writer.ticks_clock);
    bool is_new = !t;
    if (!process || !read_times(pid, tid, &run_ns, &wait_ns))
        return;
    if (is_new && !(t = ku_watched_thread(w, pid, tid)))
        return;
    if (is_new)
        t->born_ticks = now;
    if (is_new || p->passes % NAME_PASSES == tid % NAME_PASSES)
        read_names(p, process, t, now);
    if (!is_new && run_ns >= t->run_ns && wait_ns >= t->wait_ns)
        write_interval(p->records, t, now, run_ns - t->run_ns, wait_ns - t->wait_ns);
    t->polled_ticks = now;
    t->run_ns = run_ns;
    t->wait_ns = wait_ns;
    t->pass = p->passes;
}

ku_thread *ku_polling_meet(ku_polling *p, uint32_t pid, uint32_t tid, uint64_t ticks)
{
    ku_watched *w = &p->records->watched;
    if (!ku_watched_find_thread(w, tid))
        poll_thread(p, pid, tid);
    ku_thread *t = ku_watched_find_thread(w, tid);
    if (t)
        return t;
    t = ku_watched_thread(w, pid, tid);
    if (t) {
        t->born_ticks = t->polled_ticks = ticks;
        t->pass = p->passes;
    }
    return t;
}

/* Threads that this pass has not found have ended since the one before. */
static void end_threads(ku_polling *p)
{
    ku_watched *w = &p->records->watched;
    for (size_t i = w->thread_list.count; i > 0; i--) {
        ku_thread *t = w->thread_list.data[i - 1];
        if (t->pass == p->passes)
            continue;
        if (t->polled_ticks > t->born_ticks) /* else it has ended with the program that was executed before */
            ku_write_life(p->records, t, t->polled_ticks, KF_LIFE_OPEN_END);
        ku_watched_forget_thread(w, t);
    }
}

uint64_t ku_polling_pass(ku_polling *p)
{
    uint64_t begun_ns = kb_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    if (p->at_exec && ks_process_exec_id(p->pid) == kb_os_exec_id())
        return (uint64_t)KB_MILLISECOND_NS;
    p->at_exec = false;
    p->passes++;
    ku_writer_read_clocks(&p->records->writer);
    (void)ku_attach_visit_threads(p->pid, poll_thread, p);
    end_threads(p);
    return kb_max_u64(KU_POLLING_MS * (uint64_t)KB_MILLISECOND_NS, MAX_SHARE * (kb_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begun_ns));
}

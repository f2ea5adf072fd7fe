/* Writes the records of runs, lives and stacks, with the entries of the dictionary that they need. */
#include "cpu/records.h"

bool ku_is_wanted(const ku_records *r, kineto_kind kind)
{
    return (r->kinds & kb_load_relaxed(&r->writer.pool->control->gate) & KINETO_KIND_BIT(kind)) != 0;
}

void ku_write_run(ku_records *r, ku_thread *t, uint64_t end_ticks, uint32_t flags)
{
    uint64_t start_ticks = t->on_ticks;
    t->on_ticks = 0;
    if (!start_ticks || !ku_is_wanted(r, KINETO_KIND_THREAD_STATE))
        return;
    uint32_t process = ku_watched_entries(&r->watched, t);
    bool is_woken = t->woken_ticks && t->woken_ticks <= start_ticks;
    uint32_t words = KF_RUN_WORDS + (is_woken ? 2 : 0);
    uint64_t *at = ku_writer_begin(&r->writer, words);
    if (!at)
        return;
    at[1] = start_ticks;
    at[2] = KB_MAX(end_ticks, start_ticks);
    at[3] = kf_pair(t->pid, t->tid);
    at[4] = process;
    if (is_woken) {
        at[5] = t->woken_ticks;
        at[6] = kf_pair(t->waker_pid, t->waker_tid);
    }
    t->woken_ticks = 0;
    flags |= is_woken ? KF_RUN_WOKEN : 0;
    ku_writer_commit(&r->writer, at, kf_header(KF_THREAD_RUN, words, flags, t->cpu));
}

void ku_write_life(ku_records *r, ku_thread *t, uint64_t end_ticks, uint32_t flags)
{
    if (!ku_is_wanted(r, KINETO_KIND_THREAD_STATE))
        return;
    uint32_t process = ku_watched_entries(&r->watched, t);
    uint64_t *at = ku_writer_begin(&r->writer, 5);
    if (!at)
        return;
    at[1] = t->born_ticks;
    at[2] = KB_MAX(end_ticks, t->born_ticks);
    at[3] = kf_pair(t->pid, t->tid);
    at[4] = kf_pair(process, t->creator_tid);
    flags |= t->is_born_here ? 0 : KF_LIFE_OPEN_START;
    ku_writer_commit(&r->writer, at, kf_header(KF_THREAD_LIFE, 5, flags, 0));
}

/* The new program has a track of its own. On it the thread begins when the old program's track ends: a thread is never
 * in two states. */
void ku_write_exec(ku_records *r, ku_thread *t, uint64_t ticks)
{
    ku_write_run(r, t, ticks, 0);
    if (!t->born_ticks || t->born_ticks >= ticks) /* nothing of the old program was seen */
        return;
    ku_write_life(r, t, ticks, 0);
    t->born_ticks = ticks;
    t->woken_ticks = 0;
    t->is_born_here = true;
}

/* Describe the code that a stack goes through, once. */
static void note_mappings(ku_records *r, const ku_process *p, const uint64_t *frames, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        ku_mapping *m = ku_space_find(&p->space, frames[i] - (i ? 1 : 0));
        if (m && !m->is_noted)
            ku_watched_note_mapping(&r->watched, p->entry, m);
    }
}

bool ku_write_stack(ku_records *r, ku_thread *t, uint64_t ticks, const ku_stack *stack)
{
    const ku_process *p = ku_watched_process(&r->watched, t->pid);
    uint32_t process = ku_watched_entries(&r->watched, t);
    uint32_t words = KF_STACK_SAMPLE_WORDS + stack->count;
    if (p)
        note_mappings(r, p, stack->frames + stack->kernel, stack->count - stack->kernel);
    uint64_t *at = ku_writer_begin(&r->writer, words);
    if (!at)
        return false;
    at[1] = ticks;
    at[2] = stack->cpu_ns;
    at[3] = kf_pair(t->pid, t->tid);
    at[4] = kf_pair(process, stack->kernel);
    memcpy(at + KF_STACK_SAMPLE_WORDS, stack->frames, stack->count * sizeof *stack->frames);
    ku_writer_commit(&r->writer, at, kf_header(KF_STACK_SAMPLE, words, stack->flags, stack->cpu));
    return true;
}

void ku_write_progress(ku_records *r, uint64_t until_ticks)
{
    for (size_t i = 0; i < r->watched.thread_list.count; i++) {
        ku_thread *t = r->watched.thread_list.data[i];
        if (t->on_ticks && t->on_ticks < until_ticks) {
            ku_write_run(r, t, until_ticks, KF_RUN_GOES_ON);
            t->on_ticks = until_ticks;
        }
        if (t->born_ticks && t->born_ticks < until_ticks)
            ku_write_life(r, t, until_ticks, KF_LIFE_OPEN_END);
    }
}

void ku_write_open_threads(ku_records *r)
{
    uint64_t now = kb_ticks(r->writer.ticks_clock);
    for (size_t i = 0; i < r->watched.thread_list.count; i++) {
        ku_thread *t = r->watched.thread_list.data[i];
        ku_write_run(r, t, now, KF_RUN_OPEN_END);
        ku_write_life(r, t, now, KF_LIFE_OPEN_END);
    }
}

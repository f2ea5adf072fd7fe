/* Follows processes and threads of an imported recording; see timeline.h. Times are nanoseconds of the
 * recording's clock, and serve as the ticks of the state. */
#include "trace/import/timeline.h"

/* A damaged file could have any number of processes that inherit any number of mappings. */
#define MAX_COPIED_MAPPINGS ((size_t)1 << 20)

kineto_status kt_timeline_create(kt_timeline *t, kineto_error *err)
{
    *t = (kt_timeline){0};
    return kt_build_state_create(&t->s, err);
}

void kt_timeline_free(kt_timeline *t)
{
    for (size_t i = 0; i < t->processes.count; i++) {
        ku_space_free(&t->processes.data[i]->space);
        free(t->processes.data[i]);
    }
    for (size_t i = 0; i < t->threads.count; i++)
        free(t->threads.data[i]);
    kb_vec_free(&t->processes);
    kb_vec_free(&t->threads);
    kb_map_free(&t->process_of_pid);
    kb_map_free(&t->thread_of_tid);
    kt_build_state_free(t->s);
}

/* ---- processes ------------------------------------------------------------------------------- */

static uint64_t *find_number(kt_timeline *t, kb_map *map, uint32_t number)
{
    uint64_t *slot = kb_map_insert(map, number, 0, NULL);
    t->s->out_of_memory |= !slot;
    return slot;
}

/* Adds an image of a process, which becomes the current one. */
static kt_timeline_process *add_image(kt_timeline *t, uint32_t pid, int64_t ppid, kineto_string name)
{
    kt_build_process p = {.pid = pid, .ppid = ppid, .exec_id = ++t->image_count, .name = name};
    uint64_t *slot = find_number(t, &t->process_of_pid, pid);
    kt_timeline_process *added = slot ? calloc(1, sizeof *added) : NULL;
    p.row = p.number = KT_NONE;
    if (!added || !kb_vec_push(&t->processes, added)) {
        free(added);
        t->s->out_of_memory = true;
        return NULL;
    }
    added->index = (uint32_t)t->s->processes.count;
    *slot = t->processes.count;
    if (!kb_vec_push(&t->s->processes, p)) {
        t->s->out_of_memory = true;
        return NULL;
    }
    return added;
}

kt_timeline_process *kt_timeline_find_process(kt_timeline *t, uint32_t pid)
{
    const uint64_t *known = kb_map_find(&t->process_of_pid, pid);
    if (t->s->out_of_memory)
        return NULL;
    return known && *known ? t->processes.data[*known - 1]
                           : add_image(t, pid, 0, (kineto_string){"", 0});
}

/* ---- threads --------------------------------------------------------------------------------- */

kt_timeline_thread *kt_timeline_known_thread(const kt_timeline *t, uint32_t tid)
{
    const uint64_t *known = kb_map_find(&t->thread_of_tid, tid);
    return known && *known ? t->threads.data[*known - 1] : NULL;
}

/* Gives a thread its place in the current image of its process. */
static bool enter_process(kt_timeline *t, kt_timeline_thread *thread, kineto_string name)
{
    kt_timeline_process *p = kt_timeline_find_process(t, thread->pid);
    if (!p)
        return false;
    kt_build_thread row = {
        .process = p->index, .tid = thread->tid, .track = KT_NONE, .system_name = name};
    thread->process = (uint32_t)*kb_map_find(&t->process_of_pid, thread->pid) - 1;
    thread->index = (uint32_t)t->s->threads.count;
    thread->has_runs = false;
    if (!kb_vec_push(&t->s->threads, row)) {
        t->s->out_of_memory = true;
        return false;
    }
    return true;
}

static kt_timeline_thread *add_thread(kt_timeline *t, uint32_t pid, uint32_t tid, uint64_t time_ns)
{
    uint64_t *slot = find_number(t, &t->thread_of_tid, tid);
    kt_timeline_thread *thread = slot ? calloc(1, sizeof *thread) : NULL;
    if (!thread || !kb_vec_push(&t->threads, thread)) {
        free(thread);
        t->s->out_of_memory = true;
        return NULL;
    }
    *slot = t->threads.count;
    *thread = (kt_timeline_thread){.pid = pid, .tid = tid, .born_ns = time_ns};
    return enter_process(t, thread, (kineto_string){"", 0}) ? thread : NULL;
}

kt_timeline_thread *kt_timeline_find_thread(kt_timeline *t, uint32_t pid, uint32_t tid,
                                            uint64_t time_ns)
{
    kt_timeline_thread *thread = kt_timeline_known_thread(t, tid);
    bool is_none = pid == UINT32_MAX || tid == UINT32_MAX || tid == 0;
    if (is_none || t->s->out_of_memory)
        return NULL;
    if (!thread || thread->pid != pid)
        return add_thread(t, pid, tid, time_ns);
    if (!thread->born_ns)
        thread->born_ns = time_ns;
    return thread;
}

/* ---- states ---------------------------------------------------------------------------------- */

static void end_run(kt_timeline *t, kt_timeline_thread *thread, uint64_t end_ns, uint32_t flags)
{
    uint64_t start_ns = thread->on_ns;
    thread->on_ns = 0;
    if (!start_ns || !t->has_states)
        return;
    kt_build_run run = {start_ns, KB_MAX(end_ns, start_ns), thread->index, thread->cpu, flags};
    thread->has_runs = true;
    t->s->out_of_memory |= !kb_vec_push(&t->s->runs, run);
}

/* Only of threads whose runs are known: what another one did is not. */
static void end_life(kt_timeline *t, const kt_timeline_thread *thread, uint64_t end_ns, uint32_t flags)
{
    if (!t->has_states || !thread->born_ns || !thread->has_runs)
        return;
    flags |= thread->is_born_here ? 0 : KF_LIFE_OPEN_START;
    kt_build_life life = {thread->born_ns, KB_MAX(end_ns, thread->born_ns), thread->index, flags};
    t->s->out_of_memory |= !kb_vec_push(&t->s->lives, life);
}

void kt_timeline_switch_in(kt_timeline_thread *thread, uint32_t cpu, uint64_t time_ns)
{
    thread->on_ns = time_ns;
    thread->cpu = cpu;
    thread->before.count = 0;
}

void kt_timeline_switch_out(kt_timeline *t, kt_timeline_thread *thread, bool is_preempted,
                            uint64_t time_ns)
{
    bool has_stack = thread->before.count && !is_preempted;
    uint32_t flags = is_preempted ? KF_RUN_PREEMPTED : 0;
    flags |= thread->on_ns ? 0 : KT_BUILD_RUN_UNSEEN;
    thread->on_ns = thread->on_ns ? thread->on_ns : time_ns;
    end_run(t, thread, time_ns, flags);
    if (has_stack) {
        thread->before.ticks = time_ns;
        thread->before.thread = thread->index;
        t->s->out_of_memory |= !kb_vec_push(&t->s->blocked, thread->before);
    }
    thread->before.count = 0;
}

void kt_timeline_wake(kt_timeline *t, const kt_timeline_thread *thread, uint64_t time_ns)
{
    kt_build_wake wake = {.ticks = time_ns, .thread = thread->index};
    if (!thread->on_ns)
        t->s->out_of_memory |= !kb_vec_push(&t->s->wakes, wake);
}

/* ---- lives ----------------------------------------------------------------------------------- */

static void copy_mappings(kt_timeline *t, kt_timeline_process *to, const kt_timeline_process *from)
{
    t->copied_mappings += from->space.mappings.count;
    if (t->copied_mappings <= MAX_COPIED_MAPPINGS && !ku_space_copy(&to->space, &from->space))
        t->s->out_of_memory = true;
}

void kt_timeline_fork(kt_timeline *t, uint32_t pid, uint32_t tid, uint32_t parent_pid,
                      uint64_t time_ns)
{
    if (pid != parent_pid) {
        kt_timeline_process *parent = kt_timeline_find_process(t, parent_pid);
        kineto_string name = {"", 0};
        if (parent && parent->index < t->s->processes.count)
            name = t->s->processes.data[parent->index].name;
        kt_timeline_process *child = add_image(t, pid, parent_pid, name);
        if (parent && child)
            copy_mappings(t, child, parent);
    }
    kt_timeline_thread *thread =
        t->s->out_of_memory || tid == 0 ? NULL : add_thread(t, pid, tid, time_ns);
    if (thread)
        thread->is_born_here = time_ns != 0;
}

void kt_timeline_exit(kt_timeline *t, uint32_t tid, uint64_t time_ns)
{
    kt_timeline_thread *thread = kt_timeline_known_thread(t, tid);
    if (!thread || !time_ns)
        return;
    end_run(t, thread, time_ns, 0);
    end_life(t, thread, time_ns, 0);
    *kb_map_find(&t->thread_of_tid, tid) = 0;
}

/* Makes the program that the thread executes a new image of its process. */
static void execute_program(kt_timeline *t, kt_timeline_thread *thread, kineto_string name,
                            uint64_t time_ns)
{
    uint64_t on_ns = time_ns && thread->on_ns ? time_ns : thread->on_ns;
    int64_t ppid = t->s->processes.data[kt_timeline_process_of(t, thread)->index].ppid;
    bool is_first = !thread->has_runs && !thread->is_born_here && !thread->on_ns;
    end_run(t, thread, time_ns, 0);
    end_life(t, thread, time_ns, 0);
    if (!add_image(t, thread->pid, ppid, name) || !enter_process(t, thread, name))
        return;
    thread->born_ns = time_ns;
    thread->is_born_here |= is_first;
    thread->on_ns = is_first ? time_ns : on_ns; /* who executes a program has a CPU */
}

void kt_timeline_name(kt_timeline *t, kt_timeline_thread *thread, kineto_string name, bool by_exec,
                      uint64_t time_ns)
{
    const char *copy = kb_arena_copy(&t->s->arena, name.data, name.size);
    if (!copy) {
        t->s->out_of_memory = true;
        return;
    }
    name.data = copy;
    if (by_exec && time_ns) {
        execute_program(t, thread, name, time_ns);
        return;
    }
    t->s->threads.data[thread->index].system_name = name;
    if (thread->tid == thread->pid)
        t->s->processes.data[kt_timeline_process_of(t, thread)->index].name = name;
}

/* ---- samples --------------------------------------------------------------------------------- */

void kt_timeline_sample(kt_timeline *t, kt_timeline_thread *thread, kt_build_sample sample,
                        bool is_blocked)
{
    uint64_t *copy = kb_arena_alloc(&t->s->arena, ((size_t)sample.count + 1) * sizeof *copy,
                                    sizeof *copy);
    if (!copy) {
        t->s->out_of_memory = true;
        return;
    }
    if (sample.count)
        memcpy(copy, sample.addresses, sample.count * sizeof *copy);
    sample.addresses = copy;
    sample.thread = thread->index;
    kt_timeline_process_of(t, thread)->has_samples = true;
    if (is_blocked)
        thread->before = sample;
    else
        t->s->out_of_memory |= !kb_vec_push(&t->s->samples, sample);
}

void kt_timeline_finish(kt_timeline *t, uint64_t time_ns)
{
    for (size_t i = 0; i < t->threads.count && !t->s->out_of_memory; i++) {
        kt_timeline_thread *thread = t->threads.data[i];
        if (kt_timeline_known_thread(t, thread->tid) != thread)
            continue;
        end_run(t, thread, time_ns, KF_RUN_OPEN_END);
        end_life(t, thread, time_ns, KF_LIFE_OPEN_END);
    }
}

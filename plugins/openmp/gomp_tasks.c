/* Explicit tasks. The body of a task is replaced by run_recorded_task, with a head before the copy of the
 * task's data: the runtime copies both by copy_task_data. Tasks of "taskloop" and those with "detach" have
 * data that the runtime writes to, and are passed on as they are. */
#include "gomp.h"

#include <string.h>

#define FLAG_DETACH (1u << 13)

typedef struct task_head {
    ct_body *fn;
    void (*copy)(void *, void *); /* of the data; NULL: bytes */
    void *data;                   /* the original; valid while the runtime copies it */
    size_t offset, size;          /* of the data, from the head */
    uint64_t task;
    uintptr_t code;
    const ct_gomp *next;
} task_head;

static void copy_task_data(void *to, void *from)
{
    const task_head *head = from;
    char *data = (char *)to + head->offset;
    memcpy(to, head, sizeof *head);
    if (head->copy)
        head->copy(data, head->data);
    else if (head->size)
        memcpy(data, head->data, head->size);
}

static void run_recorded_task(void *data)
{
    const task_head *head = data;
    uint64_t task = head->task;
    ct_open_construct(CT_TASK, task, head->code);
    ct_running_body outer = ct_exchange_body((ct_running_body){head->fn, head->next});
    head->fn((char *)data + head->offset);
    (void)ct_exchange_body(outer);
    ct_close_construct(CT_TASK, task);
}

void GOMP_task(ct_body *fn, void *data, void (*copy)(void *, void *), long size, long align,
               bool deferred, unsigned flags, void **depend, int priority, void *detach)
{
    const ct_gomp *next = CT_NEXT_OF(fn);
    task_head head = {fn, copy, data, 0, (size_t)size, 0, (uintptr_t)fn + 1, next};
    long head_align = (long)_Alignof(task_head);
    if (!next->has_tool && ct_recording())
        head.task = ct_create_task(head.code);
    if (!head.task || flags & FLAG_DETACH || size < 0 || align < 0 || (align & (align - 1))) {
        next->GOMP_task(fn, data, copy, size, align, deferred, flags, depend, priority, detach);
        return;
    }
    align = align < head_align ? head_align : align;
    head.offset = (sizeof head + (size_t)align - 1) & ~((size_t)align - 1);
    next->GOMP_task(run_recorded_task, &head, copy_task_data, (long)head.offset + size, align,
                    deferred, flags, depend, priority, detach);
}

void GOMP_taskloop(ct_body *fn, void *data, void (*copy)(void *, void *), long size, long align,
                   unsigned flags, unsigned long tasks, int priority, long start, long end,
                   long step)
{
    const ct_gomp *next = CT_NEXT_OF(fn);
    ct_open_of(next, CT_TASKLOOP, 0, CT_CALLER);
    next->GOMP_taskloop(fn, data, copy, size, align, flags, tasks, priority, start, end, step);
    ct_close_of(next, CT_TASKLOOP, 0);
}

void GOMP_taskloop_ull(ct_body *fn, void *data, void (*copy)(void *, void *), long size, long align,
                       unsigned flags, unsigned long tasks, int priority, ct_ull start, ct_ull end,
                       ct_ull step)
{
    const ct_gomp *next = CT_NEXT_OF(fn);
    ct_open_of(next, CT_TASKLOOP, 0, CT_CALLER);
    next->GOMP_taskloop_ull(fn, data, copy, size, align, flags, tasks, priority, start, end, step);
    ct_close_of(next, CT_TASKLOOP, 0);
}

/* ---- waiting for tasks ----------------------------------------------------------------------- */

void GOMP_taskwait(void)
{
    const ct_gomp *next = CT_NEXT;
    ct_open_of(next, CT_TASKWAIT, 0, CT_CALLER);
    next->GOMP_taskwait();
    ct_close_of(next, CT_TASKWAIT, 0);
}

void GOMP_taskwait_depend(void **depend)
{
    const ct_gomp *next = CT_NEXT;
    ct_open_of(next, CT_TASKWAIT, 0, CT_CALLER);
    next->GOMP_taskwait_depend(depend);
    ct_close_of(next, CT_TASKWAIT, 0);
}

void GOMP_taskgroup_start(void)
{
    const ct_gomp *next = CT_NEXT;
    next->GOMP_taskgroup_start();
    ct_open_of(next, CT_TASKGROUP, 0, CT_CALLER);
}

void GOMP_taskgroup_end(void)
{
    const ct_gomp *next = CT_NEXT;
    ct_open_of(next, CT_TASKGROUP_WAIT, 0, CT_CALLER);
    next->GOMP_taskgroup_end();
    ct_close_of(next, CT_TASKGROUP_WAIT, 0);
    ct_close_of(next, CT_TASKGROUP, 0);
}

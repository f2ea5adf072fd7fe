/* The part of OpenMP's tool interface (OMPT, OpenMP 5.0 section 4) that this source uses. */
#ifndef CT_OMPT_H
#define CT_OMPT_H

#include <stdint.h>

typedef union ct_ompt_data {
    uint64_t value;
    void *ptr;
} ct_ompt_data;

typedef void (*ct_ompt_callback)(void);
typedef void (*ct_ompt_function)(void);
typedef ct_ompt_function (*ct_ompt_lookup)(const char *name);
typedef int (*ct_ompt_set_callback)(int event, ct_ompt_callback callback);

typedef struct ct_ompt_start_result {
    int (*initialize)(ct_ompt_lookup lookup, int device, ct_ompt_data *tool);
    void (*finalize)(ct_ompt_data *tool);
    ct_ompt_data tool;
} ct_ompt_start_result;

/* The first version of OpenMP with this interface, as ompt_start_tool gets it (a preview of 5.0). */
#define CT_OMPT_FIRST_VERSION 201611u

enum { /* events */
    CT_OMPT_THREAD_BEGIN = 1,
    CT_OMPT_PARALLEL_BEGIN = 3,
    CT_OMPT_PARALLEL_END = 4,
    CT_OMPT_TASK_CREATE = 5,
    CT_OMPT_TASK_SCHEDULE = 6,
    CT_OMPT_IMPLICIT_TASK = 7,
    CT_OMPT_SYNC_REGION_WAIT = 16,
    CT_OMPT_MUTEX_RELEASED = 17,
    CT_OMPT_WORK = 20,
    CT_OMPT_MASKED = 21,
    CT_OMPT_SYNC_REGION = 23,
    CT_OMPT_MUTEX_ACQUIRE = 26,
    CT_OMPT_MUTEX_ACQUIRED = 27
};
enum { CT_OMPT_BEGIN = 1, CT_OMPT_END = 2, CT_OMPT_BEGIN_END = 3 }; /* endpoints */
enum { CT_OMPT_WORKER = 2 };                                        /* kinds of threads */
enum { CT_OMPT_TASK_INITIAL = 0x1, CT_OMPT_TASK_EXPLICIT = 0x4 };   /* flags of tasks */
enum {                                                              /* ends of a task's part */
    CT_OMPT_TASK_COMPLETE = 1,
    CT_OMPT_TASK_CANCEL = 3,
    CT_OMPT_TASK_LATE_FULFILL = 6
};
#endif

/* The memory that the recorder and libckineto-timers.so share (record --cpu-timers). A timer of each
 * thread's CPU time interrupts it; the signal handler copies registers and the top of the stack into a
 * slot, and the recorder takes it from there (src/cpu/timer_slots.c). This is the one file that both
 * include; it needs no other file of ckineto.
 *
 * State of a slot: FREE -> WRITING by the thread that claims it (a compare-and-swap), WRITING -> FULL by
 * the same thread (release), FULL -> FREE by the recorder. The recorder also frees a slot in state
 * WRITING whose thread has ended. */
#ifndef KF_TIMERS_H
#define KF_TIMERS_H

#include <stdint.h>

#define KF_TIMERS_MAGIC     UINT64_C(0x31304d4954494b43) /* changes with the layout */
#define KF_TIMERS_VARIABLE  "CKINETO_CPU_TIMERS_MEMORY"
#define KF_TIMERS_STACK     8192u /* bytes copied of a stack at most */
#define KF_TIMERS_REGISTERS 33u   /* by DWARF's numbers */

typedef enum kf_slot_state { KF_SLOT_FREE = 0, KF_SLOT_WRITING, KF_SLOT_FULL } kf_slot_state;

typedef enum kf_slot_type {
    KF_SLOT_SAMPLE = 0,
    KF_SLOT_CODE, /* lines of /proc/self/maps of the code that a program begins with, NUL at the end */
    KF_SLOT_FORK  /* a child of fork, which has the memory of its parent */
} kf_slot_type;

typedef struct kf_slot {
    uint32_t type; /* kf_slot_type */
    uint32_t pid, parent_pid, tid, cpu;
    uint32_t bytes;    /* of the stack, or of the text */
    uint64_t time_ns;  /* CLOCK_MONOTONIC_RAW */
    uint64_t period_ns; /* CPU time that the sample stands for */
    char name[16];      /* of the process, for CODE */
    uint64_t instruction;
    uint64_t registers[KF_TIMERS_REGISTERS];
    _Alignas(uint64_t) uint8_t stack[KF_TIMERS_STACK];
} kf_slot;

/* What the library counts: X(NAME). */
#define KF_TIMERS_COUNTER_MAP(X)                                                                   \
    X(TAKEN)     /* samples for which a slot was free */                                           \
    X(LOST)      /* samples for which none was */                                                  \
    X(BLOCKED)   /* threads that block the signal */                                               \
    X(REFUSED)   /* threads for which the kernel has no timer */                                   \
    X(ASIDE)     /* programs that use the signal themselves */                                     \
    X(NO_SIGNAL) /* programs that leave no signal free */                                          \
    X(STARTS)    /* programs that the library has started in */                                    \
    X(START_NS)  /* CPU time that this took them */
typedef enum kf_timers_counter {
#define KF_X(name) KF_TIMERS_##name,
    KF_TIMERS_COUNTER_MAP(KF_X)
#undef KF_X
    KF_TIMERS_COUNTERS
} kf_timers_counter;

/* The slots follow the states. */
typedef struct kf_timers {
    uint64_t magic;
    uint32_t slot_count, recorder_pid;
    uint64_t pid_namespace[2]; /* of the recorder: device and inode; 0: not known */
    uint64_t period_ns;        /* between two samples of a thread; 0: no samples any more */
    uint64_t sample_ns;        /* what one costs, the least that a program has measured; 0: not yet */
    uint64_t counters[KF_TIMERS_COUNTERS];
    uint32_t states[]; /* kf_slot_state */
} kf_timers;

static inline uint64_t kf_timers_bytes_before_slots(uint32_t slot_count)
{
    return (sizeof(kf_timers) + (uint64_t)slot_count * sizeof(uint32_t) + 63) & ~UINT64_C(63);
}

static inline uint64_t kf_timers_bytes(uint32_t slot_count)
{
    return kf_timers_bytes_before_slots(slot_count) + (uint64_t)slot_count * sizeof(kf_slot);
}

static inline kf_slot *kf_timers_slot(kf_timers *t, uint32_t i)
{
    return (kf_slot *)(void *)((uint8_t *)t + kf_timers_bytes_before_slots(t->slot_count)) + i;
}
#endif

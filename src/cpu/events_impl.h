/* The rings of the kernel's events, shared by events_open.c, which opens them, and events.c, which
 * reads them. */
#ifndef KU_EVENTS_IMPL_H
#define KU_EVENTS_IMPL_H

#include "cpu/events.h"

#include <linux/perf_event.h>
#include <poll.h>

#define KU_MAX_RECORD_BYTES 65536u

/* Registers that samples have: perf_event_attr.sample_regs_user; 0: none on this processor. */
#if defined(__x86_64__)
#define KU_REGISTER_MASK UINT64_C(0xff0fff)
#elif defined(__aarch64__)
#define KU_REGISTER_MASK UINT64_C(0x1ffffffff)
#else
#define KU_REGISTER_MASK UINT64_C(0)
#endif

/* What the samples of a ring are. */
typedef enum ku_ring_content {
    KU_RING_SAMPLES,  /* of CPU time; reports come in the same ring */
    KU_RING_SWITCHES, /* stacks of threads that lose their CPU */
    KU_RING_WAKEUPS,
    KU_RING_MAJOR_FAULTS,
    KU_RING_MINOR_FAULTS
} ku_ring_content;

/* Where the tracepoint sched_waking has its fields. */
typedef struct ku_waking_format {
    uint64_t id; /* 0: it is not known */
    uint32_t flags_at, pid_at;
} ku_waking_format;

/* Where the events of one CPU arrive. */
typedef struct ku_ring {
    int fd, cpu;
    struct perf_event_mmap_page *page;
    const uint8_t *data;
    uint64_t bytes;      /* of data; a power of two */
    uint64_t head, tail; /* of this drain */
    uint64_t next_ns;    /* time of the record at tail */
    ku_ring_content content;
} ku_ring;

struct ku_events {
    ku_events_options options;
    ku_rights rights;
    ku_waking_format waking;
    KB_VEC(ku_ring) rings;
    KB_VEC(struct pollfd) polls; /* one for each ring */
    KB_VEC(int) samplers;        /* descriptors of the events that sample */
    KB_VEC(int) others;          /* of further threads, whose events arrive in the same rings */
    uint8_t *whole; /* a record that continues at the ring's beginning is put together here */
};
#endif

/* Reads the kernel's events about a program from the rings of all CPUs, merged by time. Layouts of
 * records: perf_event_open(2).
 *
 * The rings are shared with the kernel, which is trusted here; lengths are checked all the same, so
 * that a mistake in this file cannot read outside. */
#include "cpu/events_impl.h"

#include <time.h>

/* Events of different CPUs that are younger may still be written. */
#define UNSETTLED_NS  (2 * KB_MILLISECOND_NS)
#define TRAILER_BYTES 24u /* of all records but samples: pid, tid, time, cpu */

/* Registers of a sample, in the order in which the kernel copies them, by their DWARF numbers. */
#if defined(__x86_64__)
static const uint8_t register_order[] = {0,  3,  2,  1,  4,  5,  6,  7,  KB_CFI_RETURN, 0xff,
                                         0xff, 0xff, 8, 9, 10, 11, 12, 13, 14, 15};
#define INSTRUCTION_AT 8 /* index of the instruction pointer */
#elif defined(__aarch64__)
static const uint8_t register_order[] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
                                         11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
                                         22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 0xff};
#define INSTRUCTION_AT 32
#else
static const uint8_t register_order[] = {0xff};
#define INSTRUCTION_AT 0
#endif

/* ---- reading records ------------------------------------------------------------------------- */

/* A record's contents after its header. */
typedef struct record_reader {
    const uint8_t *at, *end;
} record_reader;

static uint64_t take_word(record_reader *r)
{
    uint64_t word = 0;
    if ((size_t)(r->end - r->at) < sizeof word) {
        r->at = r->end;
        return 0;
    }
    memcpy(&word, r->at, sizeof word);
    r->at += sizeof word;
    return word;
}

/* A word of two numbers: the first is in the low half where bytes go upwards. */
static void take_pair(record_reader *r, uint32_t *first, uint32_t *second)
{
    uint64_t word = take_word(r);
    *first = (uint32_t)word;
    *second = (uint32_t)(word >> 32);
}

static const uint8_t *take_bytes(record_reader *r, uint64_t bytes)
{
    const uint8_t *at = r->at;
    r->at += KB_MIN(bytes, (uint64_t)(r->end - r->at));
    return at;
}

static void read_registers(record_reader *r, ku_event *e)
{
    if (take_word(r) == 0) /* PERF_SAMPLE_REGS_ABI_NONE: a thread of the kernel */
        return;
    for (size_t i = 0; i < KB_COUNT(register_order); i++) {
        uint64_t value = take_word(r);
        if (register_order[i] < KB_CFI_REGISTERS)
            e->stack.registers[register_order[i]] = value;
        if (i == INSTRUCTION_AT)
            e->stack.instruction = value;
    }
}

/* A sample of the tracepoint sched_waking: its own fields are the raw data, which a size precedes. */
static void read_waking(const ku_events *all, record_reader *r, ku_event *e)
{
    enum { IN_INTERRUPT = 0x18 }; /* common_flags: hard and soft ones */
    uint32_t size = 0;
    if ((size_t)(r->end - r->at) < sizeof size)
        return;
    memcpy(&size, r->at, sizeof size);
    const uint8_t *raw = r->at + sizeof size;
    size = (uint32_t)KB_MIN((size_t)size, (size_t)(r->end - raw));
    if (all->waking.flags_at >= size || size < sizeof e->woken_tid ||
        all->waking.pid_at > size - sizeof e->woken_tid)
        return;
    memcpy(&e->woken_tid, raw + all->waking.pid_at, sizeof e->woken_tid);
    e->is_interrupt = (raw[all->waking.flags_at] & IN_INTERRUPT) != 0;
}

/* Order of the fields: perf_event_open(2), "PERF_RECORD_SAMPLE". */
static void read_sample(const ku_events *all, ku_ring_content content, record_reader *r, ku_event *e)
{
    uint32_t unused;
    e->stack.instruction = take_word(r);
    take_pair(r, &e->pid, &e->tid);
    e->time_ns = take_word(r);
    take_pair(r, &e->cpu, &unused);
    e->is_major = content == KU_RING_MAJOR_FAULTS;
    if (content >= KU_RING_MAJOR_FAULTS)
        e->count = e->is_major ? 1 : KU_MINOR_FAULTS;
    else
        e->period_ns = take_word(r);
    if (content == KU_RING_WAKEUPS) {
        read_waking(all, r, e);
        return;
    }
    if (all->rights == KU_RIGHTS_KERNEL) {
        uint64_t count = take_word(r);
        e->kernel_frames = (const uint64_t *)(const void *)take_bytes(r, 8 * KB_MIN(count, 4096u));
        e->kernel_frame_count = (uint32_t)KB_MIN(count, 4096u);
    }
    if (!KU_REGISTER_MASK || !all->options.stack_bytes)
        return;
    read_registers(r, e);
    uint64_t size = take_word(r);
    e->stack.bytes = take_bytes(r, size);
    uint64_t copied = size ? take_word(r) : 0; /* less where the stack ends before */
    e->stack.size = KB_MIN(copied, size);
}

bool ku_events_have_stacks(void) { return KU_REGISTER_MASK != 0; }

static ku_event_type type_of_record(const struct perf_event_header *h)
{
    switch (h->type) {
    case PERF_RECORD_COMM:
        return h->misc & PERF_RECORD_MISC_COMM_EXEC ? KU_EVENT_EXEC : KU_EVENT_NAME;
    case PERF_RECORD_SWITCH:
        return h->misc & PERF_RECORD_MISC_SWITCH_OUT ? KU_EVENT_SWITCH_OUT : KU_EVENT_SWITCH_IN;
    case PERF_RECORD_FORK:
        return KU_EVENT_FORK;
    case PERF_RECORD_EXIT:
        return KU_EVENT_EXIT;
    case PERF_RECORD_MMAP2:
        return KU_EVENT_MAP;
    default:
        return KU_EVENT_LOST;
    }
}

/* Fields of the other records, which come before the trailer. */
static void read_fields(const struct perf_event_header *h, record_reader r, ku_event *e)
{
    switch (h->type) {
    case PERF_RECORD_COMM:
        take_pair(&r, &e->pid, &e->tid);
        e->name = (const char *)r.at;
        break;
    case PERF_RECORD_FORK:
    case PERF_RECORD_EXIT:
        take_pair(&r, &e->pid, &e->parent_pid);
        take_pair(&r, &e->tid, &e->parent_tid);
        e->time_ns = take_word(&r);
        break;
    case PERF_RECORD_MMAP2:
        take_pair(&r, &e->pid, &e->tid);
        e->start = take_word(&r);
        e->bytes = take_word(&r);
        e->file_offset = take_word(&r);
        (void)take_bytes(&r, 32); /* device, inode or build id; protection, flags */
        e->name = (const char *)r.at;
        break;
    case PERF_RECORD_LOST:
        (void)take_word(&r);
        e->count = take_word(&r);
        break;
    case PERF_RECORD_SWITCH:
        e->is_preempted = (h->misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT) != 0;
        break;
    default:
        break;
    }
}

/* Names end with NUL inside the record. */
static bool is_name_terminated(const ku_event *e, const uint8_t *end)
{
    return !e->name || memchr(e->name, '\0', (size_t)(end - (const uint8_t *)e->name)) != NULL;
}

static void read_record(const ku_events *all, const struct perf_event_header *h, ku_ring_content content,
                        const uint8_t *bytes, ku_event_handler *handle, void *context)
{
    record_reader r = {bytes + sizeof *h, bytes + h->size};
    ku_event e = {.time_ns = 0};
    uint32_t unused;
    if (h->type == PERF_RECORD_SAMPLE) {
        static const ku_event_type types[] = {KU_EVENT_SAMPLE, KU_EVENT_STACK_BEFORE,
                                              KU_EVENT_WAKING, KU_EVENT_FAULT, KU_EVENT_FAULT};
        e.type = types[content];
        read_sample(all, content, &r, &e);
    } else {
        if (h->size < sizeof *h + TRAILER_BYTES)
            return;
        record_reader trailer = {r.end - TRAILER_BYTES, r.end};
        take_pair(&trailer, &e.pid, &e.tid);
        e.time_ns = take_word(&trailer);
        take_pair(&trailer, &e.cpu, &unused);
        e.type = type_of_record(h);
        read_fields(h, r, &e);
        bool is_known = e.type != KU_EVENT_LOST || h->type == PERF_RECORD_LOST;
        if (!is_known || !is_name_terminated(&e, r.end))
            return;
    }
    handle(context, &e);
}

/* ---- the rings ------------------------------------------------------------------------------- */

/* Copy from the ring, which continues at its beginning. */
static void copy_from_ring(const ku_ring *r, uint64_t at, void *to, size_t bytes)
{
    uint64_t offset = at & (r->bytes - 1);
    size_t first = (size_t)KB_MIN((uint64_t)bytes, r->bytes - offset);
    memcpy(to, r->data + offset, first);
    memcpy((uint8_t *)to + first, r->data, bytes - first);
}

/* The record at the ring's tail. False: there is none. */
static bool peek_header(const ku_ring *r, struct perf_event_header *h)
{
    if (r->head - r->tail < sizeof *h)
        return false;
    copy_from_ring(r, r->tail, h, sizeof *h);
    return h->size >= sizeof *h && h->size <= r->head - r->tail;
}

/* Time of the record at the tail; UINT64_MAX: there is none. */
static void find_next_time(ku_ring *r)
{
    struct perf_event_header h;
    r->next_ns = UINT64_MAX;
    if (!peek_header(r, &h)) {
        r->tail = r->head;
        return;
    }
    bool is_sample = h.type == PERF_RECORD_SAMPLE; /* instruction, pid and tid come before */
    uint64_t at = is_sample ? r->tail + sizeof h + 16 : r->tail + h.size - TRAILER_BYTES + 8;
    if (h.size >= sizeof h + TRAILER_BYTES)
        copy_from_ring(r, at, &r->next_ns, sizeof r->next_ns);
    else
        r->next_ns = 0;
}

static void read_next_record(ku_events *e, ku_ring *r, ku_event_handler *handle, void *context)
{
    struct perf_event_header h;
    if (!peek_header(r, &h))
        return;
    uint64_t offset = r->tail & (r->bytes - 1);
    const uint8_t *bytes = r->data + offset;
    if (offset + h.size > r->bytes) {
        copy_from_ring(r, r->tail, e->whole, h.size);
        bytes = e->whole;
    }
    read_record(e, &h, r->content, bytes, handle, context);
    r->tail += h.size;
    kb_store_release(&r->page->data_tail, r->tail);
    find_next_time(r);
}

/* The ring with the earliest record. NULL: all are empty, or have only later ones than until_ns. */
static ku_ring *find_earliest_ring(ku_events *e, uint64_t until_ns)
{
    ku_ring *earliest = NULL;
    for (size_t i = 0; i < e->rings.count; i++) {
        ku_ring *r = &e->rings.data[i];
        if (r->next_ns < until_ns && (!earliest || r->next_ns < earliest->next_ns))
            earliest = r;
    }
    return earliest;
}

uint64_t ku_events_drain(ku_events *e, bool all, ku_event_handler *handle, void *context)
{
    uint64_t until_ns = kb_clock_ns(CLOCK_MONOTONIC_RAW) - UNSETTLED_NS;
    for (size_t i = 0; i < e->rings.count; i++) {
        ku_ring *r = &e->rings.data[i];
        r->tail = r->page->data_tail;
        r->head = kb_load_acquire(&r->page->data_head);
        all |= r->head - r->tail > r->bytes / 2; /* better in a wrong order than lost */
        find_next_time(r);
    }
    for (ku_ring *r; (r = find_earliest_ring(e, all ? UINT64_MAX : until_ns)) != NULL;)
        read_next_record(e, r, handle, context);
    return until_ns;
}

/* Slots that the program's threads fill (timers.h). Other processes can write them at any time: a slot
 * is copied, and its sizes are checked, before it is used. */
#include "cpu/timers.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#define MIN_SLOTS 1024u /* pages that are not written take no memory */
#define MAX_SLOTS 8192u

typedef struct full_slot {
    uint64_t time_ns;
    uint32_t index;
} full_slot;

struct ku_timers {
    kf_timers *memory;
    uint64_t bytes;
    int fd;
    uint32_t slot_count; /* the memory's own number is not trusted */
    char path[48];
    kf_slot copy;
    full_slot full[MAX_SLOTS];
};

/* Room for a second, of all CPUs. */
static uint32_t choose_slot_count(uint32_t hz)
{
    uint64_t wanted = (uint64_t)hz * kb_os_cpus();
    return (uint32_t)KB_MAX(MIN_SLOTS, KB_MIN(wanted, MAX_SLOTS));
}

static kineto_status map_memory(ku_timers *t, kineto_error *err)
{
    t->bytes = kf_timers_bytes(t->slot_count);
    t->fd = memfd_create("ckineto-timers", MFD_CLOEXEC);
    if (t->fd < 0 || ftruncate(t->fd, (off_t)t->bytes) != 0)
        return kb_fail_os(err, errno, "--cpu-timers: cannot make shared memory");
    void *map = mmap(NULL, t->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, t->fd, 0);
    if (map == MAP_FAILED)
        return kb_fail_os(err, errno, "--cpu-timers: cannot map shared memory");
    t->memory = map;
    return KINETO_OK;
}

ku_timers *ku_timers_create(uint32_t hz, kineto_error *err)
{
    ku_timers *t = calloc(1, sizeof *t);
    if (!t) {
        kb_fail_memory(err, "--cpu-timers");
        return NULL;
    }
    t->fd = -1;
    t->slot_count = choose_slot_count(hz);
    if (map_memory(t, err)) {
        ku_timers_destroy(t);
        return NULL;
    }
    kf_timers *m = t->memory;
    m->slot_count = t->slot_count;
    m->recorder_pid = kb_os_pid();
    kb_os_pid_namespace(m->pid_namespace);
    ku_timers_set_hz(t, hz);
    kb_store_release(&m->magic, KF_TIMERS_MAGIC);
    snprintf(t->path, sizeof t->path, "/proc/%u/fd/%d", kb_os_pid(), t->fd);
    return t;
}

const char *ku_timers_path(const ku_timers *t) { return t->path; }

void ku_timers_set_hz(ku_timers *t, uint32_t hz)
{
    kb_store_relaxed(&t->memory->period_ns, hz ? (uint64_t)KB_SECOND_NS / hz : 0);
}

uint64_t ku_timers_sample_ns(const ku_timers *t) { return kb_load_relaxed(&t->memory->sample_ns); }

uint64_t ku_timers_count(const ku_timers *t, kf_timers_counter what)
{
    return kb_load_relaxed(&t->memory->counters[what]);
}

/* Where slot i is, by this side's number of slots. */
static kf_slot *slot_at(const ku_timers *t, uint32_t i)
{
    KB_ASSERT(i < t->slot_count);
    uint8_t *first = (uint8_t *)t->memory + kf_timers_bytes_before_slots(t->slot_count);
    return (kf_slot *)(void *)first + i;
}

static int compare_times(const void *a, const void *b)
{
    uint64_t x = ((const full_slot *)a)->time_ns, y = ((const full_slot *)b)->time_ns;
    return (x > y) - (x < y);
}

static void copy_slot(ku_timers *t, uint32_t i)
{
    const kf_slot *slot = slot_at(t, i);
    memcpy(&t->copy, slot, offsetof(kf_slot, stack));
    t->copy.bytes = KB_MIN(t->copy.bytes, KF_TIMERS_STACK);
    t->copy.name[sizeof t->copy.name - 1] = '\0';
    memcpy(t->copy.stack, slot->stack, t->copy.bytes);
}

void ku_timers_drain(ku_timers *t, ku_slot_handler *handle, void *context)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < t->slot_count; i++)
        if (kb_load_acquire(&t->memory->states[i]) == KF_SLOT_FULL)
            t->full[count++] = (full_slot){kb_load_relaxed(&slot_at(t, i)->time_ns), i};
    qsort(t->full, count, sizeof *t->full, compare_times);
    for (uint32_t n = 0; n < count; n++) {
        copy_slot(t, t->full[n].index);
        kb_store_release(&t->memory->states[t->full[n].index], (uint32_t)KF_SLOT_FREE);
        handle(context, &t->copy);
    }
}

static bool has_thread_ended(const kf_slot *slot)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%u/task/%u", kb_load_relaxed(&slot->pid), kb_load_relaxed(&slot->tid));
    return access(path, F_OK) != 0 && errno == ENOENT;
}

void ku_timers_reclaim(ku_timers *t)
{
    for (uint32_t i = 0; i < t->slot_count; i++) {
        uint32_t state = KF_SLOT_WRITING;
        if (kb_load_acquire(&t->memory->states[i]) == state && has_thread_ended(slot_at(t, i)))
            (void)kb_cas_acqrel(&t->memory->states[i], &state, (uint32_t)KF_SLOT_FREE);
    }
}

void ku_timers_destroy(ku_timers *t)
{
    if (!t)
        return;
    if (t->memory) {
        ku_timers_set_hz(t, 0);
        (void)munmap(t->memory, t->bytes);
    }
    if (t->fd >= 0)
        (void)close(t->fd);
    free(t);
}

/* Opens the kernel's events about a program (perf_event_open(2)), all of which are inherited by what the
 * program starts. For each thread that was there before, and for each CPU:
 *
 * - one that counts nothing and reports when threads get and lose the CPU, are created and end, get
 *   names, and map code; the first thread's own the rings, in which the others' arrive, too;
 * - one that samples: it counts CPU time. The period of an inherited event cannot be changed, so
 *   another rate takes new ones (ku_events_set_hz);
 * - with off_cpu, one that samples at each switch, and one at each wake-up, into rings of their own;
 * - with page_faults, one that samples at each major fault, and one at some of the minor faults, too.
 *
 * Numbers: the kernel's <linux/perf_event.h>. */
#include "cpu/events_impl.h"

#include <errno.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MAX_CPUS      1024
#define MAX_WATERMARK ((size_t)128 << 10)

/* ---- what is asked for ----------------------------------------------------------------------- */

/* What all have in common: the fields of samples and of the other records' trailers. */
static struct perf_event_attr describe_common(const ku_events *e)
{
    struct perf_event_attr a = {.type = PERF_TYPE_SOFTWARE,
                                .size = sizeof a,
                                .sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
                                               PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD};
    a.disabled = a.enable_on_exec = e->options.at_exec;
    a.inherit = a.sample_id_all = a.exclude_hv = 1;
    a.exclude_kernel = e->rights != KU_RIGHTS_KERNEL;
    a.use_clockid = 1;
    a.clockid = CLOCK_MONOTONIC_RAW;
    a.watermark = 1;
    return a;
}

static struct perf_event_attr describe_reports(const ku_events *e)
{
    struct perf_event_attr a = describe_common(e);
    a.config = PERF_COUNT_SW_DUMMY;
    a.mmap = a.mmap2 = a.comm = a.comm_exec = a.task = a.context_switch = 1;
    return a;
}

/* Samples have the registers and the top of the stack; where allowed, the kernel's call chain. */
static void add_stacks(const ku_events *e, struct perf_event_attr *a)
{
    a->exclude_callchain_user = 1;
    if (e->rights == KU_RIGHTS_KERNEL)
        a->sample_type |= PERF_SAMPLE_CALLCHAIN;
    if (!KU_REGISTER_MASK || !e->options.stack_bytes)
        return;
    a->sample_type |= PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
    a->sample_regs_user = KU_REGISTER_MASK;
    a->sample_stack_user = e->options.stack_bytes;
}

static struct perf_event_attr describe_samples(const ku_events *e)
{
    struct perf_event_attr a = describe_common(e);
    a.config = PERF_COUNT_SW_TASK_CLOCK;
    a.sample_period = (uint64_t)KB_SECOND_NS / KB_MAX(e->options.hz, 1u); /* 0: only page faults are sampled */
    add_stacks(e, &a);
    return a;
}

static struct perf_event_attr describe_switches(const ku_events *e)
{
    struct perf_event_attr a = describe_common(e);
    a.config = PERF_COUNT_SW_CONTEXT_SWITCHES;
    a.sample_period = 1;
    a.exclude_kernel = 0; /* that is where threads lose their CPU */
    add_stacks(e, &a);
    return a;
}

static struct perf_event_attr describe_wakeups(const ku_events *e)
{
    struct perf_event_attr a = describe_common(e);
    a.type = PERF_TYPE_TRACEPOINT;
    a.config = e->waking.id;
    a.sample_period = 1;
    a.sample_type |= PERF_SAMPLE_RAW;
    a.exclude_kernel = 0;
    return a;
}

/* Events of software whose samples have a period have one at each event. */
static struct perf_event_attr describe_faults(const ku_events *e, bool is_major)
{
    struct perf_event_attr a = describe_common(e);
    a.config = is_major ? PERF_COUNT_SW_PAGE_FAULTS_MAJ : PERF_COUNT_SW_PAGE_FAULTS_MIN;
    a.sample_period = is_major ? 1 : KU_MINOR_FAULTS;
    a.sample_type &= ~(uint64_t)PERF_SAMPLE_PERIOD;
    add_stacks(e, &a);
    return a;
}

static struct perf_event_attr describe_content(const ku_events *e, ku_ring_content content)
{
    switch (content) {
    case KU_RING_SAMPLES:
        return describe_reports(e);
    case KU_RING_SWITCHES:
        return describe_switches(e);
    case KU_RING_WAKEUPS:
        return describe_wakeups(e);
    default:
        return describe_faults(e, content == KU_RING_MAJOR_FAULTS);
    }
}

static const char *const tracefs_paths[] = {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"};

/* "field:pid_t pid; offset:24;": the offset of a field; 0: it is not there. */
static uint32_t find_field(const char *format, const char *field)
{
    const char *at = strstr(format, field);
    unsigned offset;
    return at && sscanf(at + strlen(field), " offset:%u", &offset) == 1 ? offset : 0;
}

/* The tracepoint's number and layout: they differ between kernels. Only root may read them. */
static ku_waking_format read_waking_format(void)
{
    char path[96], text[4096];
    unsigned long long id;
    for (size_t i = 0; i < KB_COUNT(tracefs_paths); i++) {
        snprintf(path, sizeof path, "%s/events/sched/sched_waking/format", tracefs_paths[i]);
        if (!kb_os_read_file(path, text, sizeof text))
            continue;
        const char *at = strstr(text, "ID:");
        ku_waking_format f = {.flags_at = find_field(text, "common_flags;"),
                              .pid_at = find_field(text, "pid_t pid;")};
        if (at && sscanf(at, "ID: %llu", &id) == 1 && f.pid_at && f.flags_at)
            f.id = id;
        return f;
    }
    return (ku_waking_format){0};
}

static int open_event(const struct perf_event_attr *a, uint32_t tid, int cpu)
{
    return (int)syscall(SYS_perf_event_open, a, (pid_t)tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

/* ---- rings ----------------------------------------------------------------------------------- */

/* Ordinary users may lock little memory: rings of page faults take a part of that of samples. */
static size_t wanted_bytes(const ku_events *e, ku_ring_content content)
{
    if (!e->options.page_faults || e->rights == KU_RIGHTS_KERNEL)
        return e->options.ring_bytes;
    return e->options.ring_bytes / (content >= KU_RING_MAJOR_FAULTS ? 4 : 2);
}

/* Where the user may not lock so much memory, the ring gets smaller. */
static bool map_ring(const ku_events *e, ku_ring *r)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (r->bytes = page; r->bytes * 2 <= wanted_bytes(e, r->content);)
        r->bytes *= 2;
    for (; r->bytes >= page; r->bytes /= 2) {
        void *map = mmap(NULL, r->bytes + page, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
        if (map == MAP_FAILED)
            continue;
        r->page = map;
        r->data = (const uint8_t *)map + page;
        return true;
    }
    return false;
}

static bool keep_ring(ku_events *e, const ku_ring *r)
{
    struct pollfd p = {.fd = r->fd, .events = POLLIN};
    if (!kb_vec_push(&e->rings, *r))
        return false;
    if (kb_vec_push(&e->polls, p))
        return true;
    e->rings.count--;
    return false;
}

/* An event and its ring. False: errno says why. */
static bool open_ring(ku_events *e, ku_ring_content content, int cpu)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    ku_ring r = {.cpu = cpu, .content = content};
    struct perf_event_attr a = describe_content(e, content);
    /* A quarter of the ring, also of one that is smaller than wanted. */
    a.wakeup_watermark = (uint32_t)KB_MIN(KB_MAX(wanted_bytes(e, content), page) / 4, MAX_WATERMARK);
    r.fd = open_event(&a, e->options.pid, cpu);
    if (r.fd < 0)
        return false;
    bool is_mapped = map_ring(e, &r);
    if (is_mapped && keep_ring(e, &r))
        return true;
    int error = is_mapped ? ENOMEM : errno;
    if (is_mapped)
        munmap(r.page, r.bytes + page);
    close(r.fd);
    errno = error;
    return false;
}

/* An event that arrives in a ring which is there. False: errno says why. */
static bool open_into_ring(int *kept, const struct perf_event_attr *a, uint32_t tid,
                           const ku_ring *r)
{
    int fd = open_event(a, tid, r->cpu);
    if (fd >= 0 && ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, r->fd) == 0) {
        *kept = fd;
        return true;
    }
    int error = errno;
    if (fd >= 0)
        close(fd);
    errno = error;
    return false;
}

static void close_all(int *fds, size_t *count)
{
    for (size_t i = 0; i < *count; i++)
        close(fds[i]);
    *count = 0;
}

static void close_rings(ku_events *e)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    close_all(e->samplers.data, &e->samplers.count);
    close_all(e->others.data, &e->others.count);
    for (size_t i = 0; i < e->rings.count; i++) {
        munmap(e->rings.data[i].page, e->rings.data[i].bytes + page);
        close(e->rings.data[i].fd);
    }
    e->rings.count = e->polls.count = 0;
}

/* ---- threads --------------------------------------------------------------------------------- */

/* Sample a thread on all CPUs. @return 0 or an errno. */
static int open_samplers(ku_events *e, uint32_t tid, bool is_disabled)
{
    if (!e->options.hz)
        return 0;
    struct perf_event_attr a = describe_samples(e);
    a.disabled |= is_disabled;
    for (size_t i = 0; i < e->rings.count; i++) {
        int *fd;
        if (e->rings.data[i].content != KU_RING_SAMPLES)
            continue;
        if (!kb_vec_reserve(&e->samplers, e->samplers.count + 1))
            return ENOMEM;
        fd = &e->samplers.data[e->samplers.count];
        if (!open_into_ring(fd, &a, tid, &e->rings.data[i]))
            return errno;
        e->samplers.count++;
    }
    return 0;
}

/* The reports of one more thread. @return 0 or an errno. */
static int open_reports(ku_events *e, uint32_t tid)
{
    for (size_t i = 0; i < e->rings.count; i++) {
        const ku_ring *r = &e->rings.data[i];
        struct perf_event_attr a = describe_content(e, r->content);
        if (!kb_vec_reserve(&e->others, e->others.count + 1))
            return ENOMEM;
        if (!open_into_ring(&e->others.data[e->others.count], &a, tid, r))
            return errno;
        e->others.count++;
    }
    return 0;
}

/* Many threads on many CPUs need more descriptors than programs usually may have. */
static void allow_more_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == limit.rlim_max)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

int ku_events_add_thread(ku_events *e, uint32_t tid)
{
    allow_more_descriptors();
    size_t others = e->others.count, samplers = e->samplers.count;
    int error = open_reports(e, tid);
    if (!error)
        error = open_samplers(e, tid, false);
    if (!error)
        return 0;
    while (e->others.count > others)
        close(e->others.data[--e->others.count]);
    while (e->samplers.count > samplers)
        close(e->samplers.data[--e->samplers.count]);
    return error;
}

/* Switch all samplers, also inherited ones. */
static void control_samplers(const ku_events *e, size_t from, size_t until, unsigned long request)
{
    for (size_t i = from; i < until; i++)
        (void)ioctl(e->samplers.data[i], request, 0);
}

int ku_events_add_sampler(ku_events *e, uint32_t tid)
{
    return open_samplers(e, tid, false);
}

/* The new samplers begin when the old ones end, so that no CPU time counts twice. */
void ku_events_set_hz(ku_events *e, uint32_t hz, ku_sampled_thread *threads, size_t count)
{
    size_t old = e->samplers.count;
    e->options.hz = hz;
    e->options.at_exec = false;
    allow_more_descriptors();
    for (size_t i = 0; i < count; i++) {
        bool is_open = open_samplers(e, threads[i].tid, true) == 0;
        threads[i].since_ns = is_open ? kb_clock_ns(CLOCK_MONOTONIC_RAW) : 0;
    }
    control_samplers(e, 0, old, PERF_EVENT_IOC_DISABLE);
    control_samplers(e, old, e->samplers.count, PERF_EVENT_IOC_ENABLE);
    for (size_t i = 0; i < old; i++)
        close(e->samplers.data[i]);
    e->samplers.count -= old;
    memmove(e->samplers.data, e->samplers.data + old, e->samplers.count * sizeof *e->samplers.data);
}

/* ---- the cost of a sample -------------------------------------------------------------------- */

/* CPU time of a fixed amount of work. */
static uint64_t time_work(void)
{
    enum { STEPS = 400000 };
    volatile uint64_t x = 1;
    uint64_t begun_ns = kb_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    for (uint32_t i = 0; i < STEPS; i++)
        x = x * 6364136223846793005u + 1442695040888963407u;
    return kb_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begun_ns;
}

/* A sampler of this thread with a small ring of its own, which the kernel overwrites since it is mapped for
 * reading only: the samples that are measured must not take the room of the program's. */
typedef struct own_sampler {
    int fd;
    void *ring;
    size_t bytes;
} own_sampler;

static bool open_own_sampler(const ku_events *e, uint32_t hz, own_sampler *out)
{
    enum { PAGES = 8 };
    struct perf_event_attr a = describe_samples(e);
    a.sample_period = (uint64_t)KB_SECOND_NS / hz;
    a.inherit = a.disabled = a.enable_on_exec = 0; /* an inherited one has no ring on all CPUs */
    out->fd = open_event(&a, kb_os_tid(), -1);
    if (out->fd < 0)
        return false;
    out->bytes = (PAGES + 1) * (size_t)sysconf(_SC_PAGESIZE);
    out->ring = mmap(NULL, out->bytes, PROT_READ, MAP_SHARED, out->fd, 0);
    if (out->ring != MAP_FAILED)
        return true;
    close(out->fd);
    return false;
}

/* 0: this thread cannot be sampled. */
static uint64_t time_sampled_work(const ku_events *e, uint32_t hz)
{
    own_sampler sampler;
    if (!open_own_sampler(e, hz, &sampler))
        return 0;
    uint64_t ns = time_work();
    munmap(sampler.ring, sampler.bytes);
    close(sampler.fd);
    return ns;
}

/* The difference that samples make to this thread's own work: the shortest of several times, since
 * other interruptions only add to them. */
uint64_t ku_events_measure_sample_ns(const ku_events *e)
{
    enum { ROUNDS = 4, HZ = 20000 };
    uint64_t without_ns = UINT64_MAX, with_ns = UINT64_MAX;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        uint64_t plain_ns = time_work(), sampled_ns = time_sampled_work(e, HZ);
        without_ns = KB_MIN(without_ns, plain_ns);
        with_ns = KB_MIN(with_ns, sampled_ns);
    }
    uint64_t samples = with_ns * HZ / (uint64_t)KB_SECOND_NS;
    return samples && with_ns > without_ns ? (with_ns - without_ns) / samples : 0;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* All rings of a CPU. False: errno says why. */
static bool open_rings(ku_events *e, int cpu)
{
    bool off_cpu = e->options.off_cpu && e->rights == KU_RIGHTS_KERNEL;
    return open_ring(e, KU_RING_SAMPLES, cpu) &&
           (!off_cpu || open_ring(e, KU_RING_SWITCHES, cpu)) &&
           (!off_cpu || !e->waking.id || open_ring(e, KU_RING_WAKEUPS, cpu)) &&
           (!e->options.page_faults || open_ring(e, KU_RING_MAJOR_FAULTS, cpu)) &&
           (!e->options.page_faults || open_ring(e, KU_RING_MINOR_FAULTS, cpu));
}

/* The program's first thread, on all CPUs that are online. @return 0 or an errno. */
static int open_first_thread(ku_events *e)
{
    int error = 0;
    for (int cpu = 0; cpu < MAX_CPUS && cpu < (int)sysconf(_SC_NPROCESSORS_CONF) && !error; cpu++)
        if (!open_rings(e, cpu))
            error = errno == ENODEV ? 0 : errno; /* the CPU is offline */
    if (!error && !e->rings.count)
        error = ENODEV;
    if (!error)
        error = open_samplers(e, e->options.pid, false);
    if (error)
        close_rings(e);
    return error;
}

static kineto_status explain_refusal(int error, bool is_running, kineto_error *err)
{
    if ((error == EACCES || error == EPERM) && is_running)
        return kb_fail(err, KINETO_E_PERMISSION,
                       "the kernel refuses perf_event_open: the process belongs to another user, a "
                       "container's seccomp filter, or /proc/sys/kernel/perf_event_paranoid above 2");
    if (error == EACCES || error == EPERM)
        return kb_fail(err, KINETO_E_PERMISSION,
                       "the kernel refuses perf_event_open: a container's seccomp filter, or "
                       "/proc/sys/kernel/perf_event_paranoid above 2");
    if (error == ENOSYS || error == ENOENT || error == ENODEV)
        return kb_fail(err, KINETO_E_UNSUPPORTED, "this kernel has no perf_event_open");
    if (error == ESRCH)
        return kb_fail(err, KINETO_E_NOT_FOUND, "the process has ended");
    return kb_fail_os(err, error, "perf_event_open");
}

kineto_status ku_events_open(const ku_events_options *options, ku_events **out, kineto_error *err)
{
    ku_events *e = calloc(1, sizeof *e);
    *out = NULL;
    if (!e || !(e->whole = malloc(KU_MAX_RECORD_BYTES))) {
        free(e);
        return kb_fail_memory(err, "events of the program");
    }
    e->options = *options;
    if (options->off_cpu)
        e->waking = read_waking_format();
    int error = EACCES;
    for (e->rights = KU_RIGHTS_KERNEL; error && e->rights < KU_RIGHTS_NONE;) {
        error = open_first_thread(e);
        if (!error || (error != EACCES && error != EPERM))
            break;
        e->rights++;
    }
    if (error) {
        ku_events_close(e);
        return explain_refusal(error, !options->at_exec && options->pid != kb_os_pid(), err);
    }
    *out = e;
    return KINETO_OK;
}

ku_rights ku_events_rights(const ku_events *e) { return e->rights; }

bool ku_events_sees_wakeups(const ku_events *e)
{
    return e->waking.id && e->rights == KU_RIGHTS_KERNEL;
}

void ku_events_wait(ku_events *e, int timeout_ms)
{
    (void)poll(e->polls.data, e->polls.count, timeout_ms);
}

void ku_events_close(ku_events *e)
{
    if (!e)
        return;
    close_rings(e);
    kb_vec_free(&e->rings);
    kb_vec_free(&e->polls);
    kb_vec_free(&e->samplers);
    kb_vec_free(&e->others);
    free(e->whole);
    free(e);
}

/* Counters by perf_event_open, and substitutes (getrusage, the thread's clock) where a program may
 * not use it. A thread opens one group of counters, which is read by one system call, or without
 * any by RDPMC through the counters' mapped pages. */
#include "record/perf.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* ---- the table ------------------------------------------------------------------------------- */

typedef enum usage {
    USAGE_NONE,
    USAGE_CLOCK,
    USAGE_FAULTS,
    USAGE_MINOR,
    USAGE_MAJOR,
    USAGE_SWITCHES
} usage;
static const struct event {
    const char *name, *usage_name;
    uint32_t type;
    uint64_t config;
    usage usage;
} events[] = {
    {"cycles", NULL, PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, USAGE_NONE},
    {"instructions", NULL, PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, USAGE_NONE},
    {"backend-stall-cycles", NULL, PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_BACKEND,
     USAGE_NONE},
    {"frontend-stall-cycles", NULL, PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_FRONTEND,
     USAGE_NONE},
    {"pagefaults", "pagefaults (getrusage)", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS,
     USAGE_FAULTS},
    {"page-faults", "page-faults (getrusage)", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS,
     USAGE_FAULTS},
    {"minor-faults", "minor-faults (getrusage)", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MIN,
     USAGE_MINOR},
    {"major-faults", "major-faults (getrusage)", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MAJ,
     USAGE_MAJOR},
    {"task-clock", "task-clock (thread clock)", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK,
     USAGE_CLOCK},
    {"context-switches", "context-switches (getrusage)", PERF_TYPE_SOFTWARE,
     PERF_COUNT_SW_CONTEXT_SWITCHES, USAGE_SWITCHES},
    {"cpu-migrations", NULL, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS, USAGE_NONE},
};

const char *kr_perf_name(const kr_perf_plan *plan, uint32_t i)
{
    if (i >= plan->count || plan->event[i] >= KB_COUNT(events))
        return NULL;
    const struct event *e = &events[plan->event[i]];
    if (plan->source[i] == KR_PERF_NONE)
        return NULL;
    return plan->source[i] == KR_PERF_USAGE ? e->usage_name : e->name;
}

/* ---- opening --------------------------------------------------------------------------------- */

int (*kr_perf_open_instead)(struct perf_event_attr *attr, int group);

static int open_perf_event(struct perf_event_attr *attr, int group)
{
    if (kr_perf_open_instead)
        return kr_perf_open_instead(attr, group);
    return (int)syscall(SYS_perf_event_open, attr, 0, -1, group, (long)PERF_FLAG_FD_CLOEXEC);
}

/* Open a counter of the thread's work in user space, as PyTorch counts it. Software counters count
 * inside the kernel, and some stay at 0 if that is excluded; so the kernel is excluded only where
 * it is forbidden to include it, and only for counters that still work. @return a descriptor, or
 * -1. */
static int try_perf_event(const struct event *e, int group)
{
    struct perf_event_attr attr = {.size = sizeof attr, .type = e->type, .config = e->config};
    bool is_hardware = e->type == PERF_TYPE_HARDWARE;
    attr.exclude_hv = 1;
    attr.exclude_kernel = is_hardware;
    attr.read_format =
        PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
    int file = open_perf_event(&attr, group);
    bool may_exclude = e->usage == USAGE_FAULTS || e->usage == USAGE_MINOR ||
                       e->usage == USAGE_MAJOR || e->usage == USAGE_CLOCK;
    if (file < 0 && (errno == EACCES || errno == EPERM) && may_exclude) {
        attr.exclude_kernel = 1;
        file = open_perf_event(&attr, group);
    }
    return file;
}

static kineto_status status_of_perf_errno(int error)
{
    switch (error) {
    case EACCES:
    case EPERM:
        return KINETO_E_PERMISSION;
    case EMFILE:
    case ENFILE:
        return KINETO_E_LIMIT;
    case EBUSY:
        return KINETO_E_BUSY;
    default:
        return KINETO_E_UNSUPPORTED;
    }
}

/* A message: why the counter cannot be opened, and what to do. */
static void explain_perf_errno(int error, const char *name, char *to, size_t size)
{
    char level[16] = "";
    kb_os_read_file("/proc/sys/kernel/perf_event_paranoid", level, sizeof level);
    int paranoid = level[0] ? atoi(level) : 0;
    level[strcspn(level, "\n")] = '\0';
    if ((error == EACCES || error == EPERM) && paranoid > 2)
        snprintf(to, size,
                 "%s: kernel.perf_event_paranoid is %s; set it to 2 or less (sysctl), or give the "
                 "program CAP_PERFMON",
                 name, level);
    else if (error == EACCES || error == EPERM)
        snprintf(to, size,
                 "%s: perf_event_open is refused, though kernel.perf_event_paranoid is %s: a "
                 "container's seccomp profile does that; allow the call there, or give CAP_PERFMON",
                 name, level[0] ? level : "not there");
    else if (error == ENOSYS)
        snprintf(to, size,
                 "%s: this kernel, or a container's seccomp profile, has no perf_event_open", name);
    else if (error == ENOENT || error == EOPNOTSUPP || error == ENODEV || error == EINVAL)
        snprintf(to, size,
                 "%s: not counted by this processor, or its counters are not passed on to this "
                 "virtual machine; task-clock, page-faults and context-switches can be counted",
                 name);
    else if (error == EMFILE || error == ENFILE)
        snprintf(to, size, "%s: no file descriptor is left (ulimit -n)", name);
    else
        snprintf(to, size, "%s: %s", name, strerror(error));
}

/* ---- the plan -------------------------------------------------------------------------------- */

static int find_event_row(const char *name)
{
    for (size_t i = 0; name && i < KB_COUNT(events); i++)
        if (strcmp(events[i].name, name) == 0)
            return (int)i;
    return -1;
}

static kineto_status choose_events(const char *const *names, size_t count, kr_perf_plan *out,
                                   kineto_error *err)
{
    if (count == 0 || !names)
        return kb_fail(err, KINETO_E_ARGUMENT, "no counters given");
    if (count > KR_PERF_MAX)
        return kb_fail(err, KINETO_E_LIMIT, "%zu counters given; at most %u are possible", count,
                       KR_PERF_MAX);
    for (size_t i = 0; i < count; i++) {
        int row = find_event_row(names[i]);
        if (row < 0)
            return kb_fail(
                err, KINETO_E_ARGUMENT,
                "Unsupported profiler event name: \"%s\"; there are cycles, instructions, "
                "pagefaults, backend-stall-cycles, frontend-stall-cycles, task-clock, "
                "page-faults, minor-faults, major-faults, context-switches, cpu-migrations",
                names[i] ? names[i] : "");
        for (size_t k = 0; k < i; k++)
            if (out->event[k] == row)
                return kb_fail(err, KINETO_E_ARGUMENT, "the counter \"%s\" is named twice",
                               names[i]);
        out->event[i] = (uint8_t)row;
    }
    out->count = (uint32_t)count;
    return KINETO_OK;
}

/* Choose the source of each counter. errors[i]: the errno that excluded the preferred source, or
 * 0. */
static void find_event_sources(kr_perf_plan *plan, int *errors)
{
    for (uint32_t i = 0; i < plan->count; i++) {
        const struct event *e = &events[plan->event[i]];
        int file = try_perf_event(e, -1);
        errors[i] = file < 0 ? errno : 0;
        if (file >= 0) {
            close(file);
            plan->source[i] = e->type == PERF_TYPE_HARDWARE ? KR_PERF_PROCESSOR : KR_PERF_KERNEL;
        } else {
            plan->source[i] = e->usage != USAGE_NONE ? KR_PERF_USAGE : KR_PERF_NONE;
        }
    }
}

/* One sentence for each reason, with the names of the counters that it concerns. */
static void explain_unavailable(const kr_perf_plan *plan, const int *errors, char *why, size_t size)
{
    for (uint32_t i = 0; i < plan->count; i++) {
        char names[128] = "";
        bool is_first = errors[i] != 0;
        for (uint32_t k = 0; k < i; k++)
            is_first &= errors[k] != errors[i];
        for (uint32_t k = i; is_first && k < plan->count; k++) {
            if (errors[k] != errors[i])
                continue;
            size_t at = strlen(names);
            snprintf(names + at, sizeof names - at, "%s%s", at ? ", " : "",
                     events[plan->event[k]].name);
        }
        if (!is_first)
            continue;
        size_t at = strlen(why);
        if (at && at + 3 < size)
            memcpy(why + at, ". ", 3), at += 2;
        explain_perf_errno(errors[i], names, why + at, size - at);
    }
}

kineto_status kr_perf_prepare(const char *const *names, size_t count, kr_perf_plan *out,
                              kineto_error *absent, kineto_error *err)
{
    char why[sizeof err->message] = "";
    memset(out, 0, sizeof *out);
    kineto_status status = choose_events(names, count, out, err);
    if (status != KINETO_OK)
        return status;
    int errors[KR_PERF_MAX] = {0}, error = 0;
    bool any = false;
    find_event_sources(out, errors);
    explain_unavailable(out, errors, why, sizeof why);
    for (uint32_t i = 0; i < out->count; i++) {
        any |= out->source[i] != KR_PERF_NONE;
        error = error ? error : errors[i];
    }
    if (!any)
        return kb_fail(err, status_of_perf_errno(error), "%s", why);
    if (why[0])
        kb_fail(absent, status_of_perf_errno(error), "%s", why);
    return KINETO_OK;
}

/* ---- counters of a thread -------------------------------------------------------------------- */

static bool is_perf_source(uint8_t source)
{
    return source == KR_PERF_PROCESSOR || source == KR_PERF_KERNEL;
}

/* Map the counter's page, which contains the number of its register, for reading by RDPMC. */
static void map_counter_page(kr_perf_thread *t, uint32_t i)
{
#if defined(__x86_64__)
    void *page = mmap(NULL, kb_os_page_bytes(), PROT_READ, MAP_SHARED, t->file[i] - 1, 0);
    if (page == MAP_FAILED)
        return;
    t->page[i] = page;
#else
    (void)t, (void)i;
#endif
}

kineto_status kr_perf_open(kr_perf_thread *t, const kr_perf_plan *plan, kineto_error *err)
{
    memset(t, 0, sizeof *t);
    t->plan = *plan;
    uint8_t slot = 0;
    bool in_user = true;
    for (uint32_t i = 0; i < plan->count; i++) {
        const struct event *e = &events[plan->event[i]];
        if (!is_perf_source(plan->source[i])) {
            in_user &= plan->source[i] == KR_PERF_NONE;
            continue;
        }
        int file = try_perf_event(e, t->leader ? t->file[t->leader - 1] - 1 : -1);
        if (file < 0) {
            char why[256];
            int error = errno;
            explain_perf_errno(error, e->name, why, sizeof why);
            kr_perf_close(t);
            return kb_fail(err, status_of_perf_errno(error), "%s", why);
        }
        t->file[i] = file + 1;
        t->slot[i] = slot++;
        if (!t->leader)
            t->leader = (uint8_t)(i + 1);
        if (plan->source[i] == KR_PERF_PROCESSOR)
            map_counter_page(t, i);
        const struct perf_event_mmap_page *page = t->page[i];
        in_user &= page != NULL && page->cap_user_rdpmc;
    }
    t->in_user = in_user && t->leader;
    return KINETO_OK;
}

void kr_perf_close(kr_perf_thread *t)
{
    for (uint32_t i = 0; i < KR_PERF_MAX; i++) {
        if (t->page[i])
            munmap(t->page[i], kb_os_page_bytes());
        if (t->file[i])
            close(t->file[i] - 1);
    }
    memset(t, 0, sizeof *t);
}

/* ---- reading --------------------------------------------------------------------------------- */

#if defined(__x86_64__)
/* The protocol of linux/perf_event.h: read again if `lock` has changed. Volatile, because the
 * kernel writes the page whenever this thread is not running. */
static bool read_in_user(const volatile struct perf_event_mmap_page *page, uint64_t *value)
{
    uint32_t turn, index;
    do {
        turn = page->lock;
        kb_signal_fence();
        index = page->index;
        int64_t offset = page->offset;
        uint32_t width = page->pmc_width;
        if (!page->cap_user_rdpmc || index == 0 || width == 0 || width > 64)
            return false; /* it does not count at present */
        uint32_t low, high;
        __asm__ volatile("rdpmc" : "=a"(low), "=d"(high) : "c"(index - 1));
        uint64_t raw = ((uint64_t)high << 32 | low) << (64 - width);
        *value = (uint64_t)(offset + ((int64_t)raw >> (64 - width)));
        kb_signal_fence();
    } while (page->lock != turn);
    return true;
}

static bool read_all_in_user(const kr_perf_thread *t, kr_perf_values *out)
{
    for (uint32_t i = 0; i < t->plan.count; i++)
        if (t->file[i] && !read_in_user(t->page[i], &out->value[i]))
            return false;
    /* All of them count now, so the two times have grown alike since the last change. */
    const volatile struct perf_event_mmap_page *page = t->page[t->leader - 1];
    out->wanted_ns = page->time_enabled;
    out->counted_ns = page->time_running;
    return true;
}
#endif

static void read_perf_group(const kr_perf_thread *t, kr_perf_values *out)
{
    struct {
        uint64_t count, wanted_ns, counted_ns, value[KR_PERF_MAX];
    } group;
    if (read(t->file[t->leader - 1] - 1, &group, sizeof group) < (ssize_t)(3 * sizeof(uint64_t)))
        return;
    out->wanted_ns = group.wanted_ns;
    out->counted_ns = group.counted_ns;
    for (uint32_t i = 0; i < t->plan.count; i++)
        if (t->file[i] && t->slot[i] < group.count)
            out->value[i] = group.value[t->slot[i]];
}

static uint64_t usage_value(usage what, const struct rusage *r)
{
    switch (what) {
    case USAGE_CLOCK:
        return kb_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    case USAGE_FAULTS:
        return (uint64_t)r->ru_minflt + (uint64_t)r->ru_majflt;
    case USAGE_MINOR:
        return (uint64_t)r->ru_minflt;
    case USAGE_MAJOR:
        return (uint64_t)r->ru_majflt;
    case USAGE_SWITCHES:
        return (uint64_t)r->ru_nvcsw + (uint64_t)r->ru_nivcsw;
    case USAGE_NONE:
        break;
    }
    return 0;
}

static void read_usage(const kr_perf_thread *t, kr_perf_values *out)
{
    struct rusage r;
    bool has = false;
    for (uint32_t i = 0; i < t->plan.count; i++) {
        if (t->plan.source[i] != KR_PERF_USAGE)
            continue;
        if (!has)
            getrusage(RUSAGE_THREAD, &r);
        has = true;
        out->value[i] = usage_value(events[t->plan.event[i]].usage, &r);
    }
}

void kr_perf_read(const kr_perf_thread *t, kr_perf_values *out)
{
    memset(out, 0, sizeof *out);
    int before = errno;
#if defined(__x86_64__)
    if (t->in_user && read_all_in_user(t, out))
        return;
#endif
    if (t->leader)
        read_perf_group(t, out);
    read_usage(t, out);
    errno = before;
}

void kr_perf_since(const kr_perf_values *begin, kr_perf_values *end)
{
    for (uint32_t i = 0; i < KR_PERF_MAX; i++)
        end->value[i] = end->value[i] > begin->value[i] ? end->value[i] - begin->value[i] : 0;
    end->wanted_ns -= begin->wanted_ns;
    end->counted_ns -= begin->counted_ns;
}

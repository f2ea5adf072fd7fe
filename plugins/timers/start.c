/* The start: opens the memory that the recorder shares, chooses a signal, tells the recorder which code
 * the program has, and measures what a sample costs. */
#include "timers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

kf_timers *cs_memory;
int cs_signal;
static bool is_aside;

bool cs_is_on(void) { return cs_memory && !__atomic_load_n(&is_aside, __ATOMIC_RELAXED); }

void cs_count(kf_timers_counter what, uint64_t count)
{
    (void)__atomic_fetch_add(&cs_memory->counters[what], count, __ATOMIC_RELAXED);
}

void cs_stand_aside(void)
{
    int saved = errno;
    if (!__atomic_exchange_n(&is_aside, true, __ATOMIC_ACQ_REL)) {
        cs_count(KF_TIMERS_ASIDE, 1);
        cs_timers_delete_all();
    }
    errno = saved;
}

/* ---- the shared memory ----------------------------------------------------------------------- */

bool cs_is_in_namespace_of(const kf_timers *m)
{
    struct stat own;
    return !m->pid_namespace[1] || stat("/proc/self/ns/pid", &own) != 0 ||
           (m->pid_namespace[0] == own.st_dev && m->pid_namespace[1] == own.st_ino);
}

static bool is_usable(const kf_timers *m, uint64_t bytes)
{
    return m->magic == KF_TIMERS_MAGIC && m->slot_count && m->slot_count < (1u << 20) &&
           kf_timers_bytes(m->slot_count) <= bytes && cs_is_in_namespace_of(m);
}

static kf_timers *open_memory(const char *path)
{
    struct stat of_file;
    void *map = MAP_FAILED;
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return NULL;
    if (fstat(fd, &of_file) == 0 && S_ISREG(of_file.st_mode) && of_file.st_uid == geteuid() &&
        of_file.st_size >= (off_t)sizeof(kf_timers))
        map = mmap(NULL, (size_t)of_file.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (map == MAP_FAILED)
        return NULL;
    if (is_usable(map, (uint64_t)of_file.st_size))
        return map;
    (void)munmap(map, (size_t)of_file.st_size);
    return NULL;
}

/* ---- the signal ------------------------------------------------------------------------------ */

static bool is_signal_free(int number, const sigset_t *blocked)
{
    struct sigaction now;
    return !sigismember(blocked, number) && cs_next()->sigaction(number, NULL, &now) == 0 &&
           !(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_DFL;
}

/* From the last one downwards, since programs count from SIGRTMIN. */
static bool install_handler(void)
{
    sigset_t blocked;
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
    int number = SIGRTMAX;
    if (cs_next()->pthread_sigmask(SIG_BLOCK, NULL, &blocked) != 0 || cs_is_set_of_all(&blocked))
        sigemptyset(&blocked);
    while (number > SIGRTMIN && !is_signal_free(number, &blocked))
        number--;
    action.sa_sigaction = cs_handle_signal;
    sigemptyset(&action.sa_mask);
    if (number == SIGRTMIN || cs_next()->sigaction(number, &action, NULL) != 0)
        return false;
    cs_signal = number;
    return true;
}

/* ---- the code of the program ----------------------------------------------------------------- */

static kf_slot *claim_code_slot(void)
{
    kf_slot *slot = cs_slot_claim(KF_SLOT_CODE);
    if (!slot)
        return NULL;
    slot->parent_pid = (uint32_t)getppid();
    slot->name[0] = '\0';
    (void)prctl(PR_GET_NAME, slot->name);
    return slot;
}

static bool is_line_of_code(const char *line)
{
    const char *permissions = strchr(line, ' ');
    return permissions && strlen(permissions) > 4 && permissions[3] == 'x';
}

/* A process may end before the recorder has read its list of mappings. */
static void report_code(void)
{
    static char line[4096 + 128];
    FILE *file = fopen("/proc/self/maps", "re");
    kf_slot *slot = claim_code_slot();
    while (slot && file && fgets(line, sizeof line, file)) {
        size_t size = strlen(line);
        if (!is_line_of_code(line) || size >= KF_TIMERS_STACK)
            continue;
        if (slot->bytes + size >= KF_TIMERS_STACK) {
            cs_slot_publish(slot);
            slot = claim_code_slot();
        }
        if (slot) {
            memcpy(slot->stack + slot->bytes, line, size + 1);
            slot->bytes += (uint32_t)size;
        }
    }
    if (slot)
        cs_slot_publish(slot);
    if (file)
        (void)fclose(file);
}

/* ---- the cost of a sample -------------------------------------------------------------------- */

static uint64_t read_cpu_time_ns(void)
{
    struct timespec t = {0, 0};
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The signal's delivery, the handler, and the return from it. */
static void measure_sample(void)
{
    enum { ROUNDS = 4 };
    uint64_t least_ns = UINT64_MAX, known_ns = __atomic_load_n(&cs_memory->sample_ns, __ATOMIC_RELAXED);
    cs_me.is_measuring = true;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t begun_ns = read_cpu_time_ns();
        (void)syscall(SYS_tgkill, getpid(), cs_me.tid, cs_signal);
        uint64_t ns = read_cpu_time_ns() - begun_ns;
        least_ns = ns < least_ns ? ns : least_ns;
    }
    cs_me.is_measuring = false;
    if (!known_ns || least_ns < known_ns)
        __atomic_store_n(&cs_memory->sample_ns, least_ns ? least_ns : 1, __ATOMIC_RELAXED);
}

/* ---- the start ------------------------------------------------------------------------------- */

__attribute__((constructor)) static void start_timers(void)
{
#if defined(__x86_64__) || defined(__aarch64__)
    int saved = errno;
    uint64_t begun_ns = read_cpu_time_ns();
    const char *path = secure_getenv(KF_TIMERS_VARIABLE);
    kf_timers *memory = path && *path ? open_memory(path) : NULL;
    if (memory && cs_threads_init()) {
        cs_memory = memory;
        if (install_handler()) {
            cs_thread_begin();
            report_code();
            if (cs_me.entry)
                measure_sample();
            cs_count(KF_TIMERS_STARTS, 1);
            cs_count(KF_TIMERS_START_NS, read_cpu_time_ns() - begun_ns);
        } else {
            cs_count(KF_TIMERS_NO_SIGNAL, 1);
            cs_memory = NULL;
        }
    }
    errno = saved;
#endif
}

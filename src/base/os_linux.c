/* Everything that depends on the operating system: processes, files, mappings, on Linux. [rt] Many
 * of these functions run inside the program's own threads, some in signal handlers: they preserve
 * errno where the header says so, and use little stack. */
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <sched.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* ---- this process -----------------------------------------------------------------------------
 */

size_t kb_os_page_bytes(void)
{
    long n = sysconf(_SC_PAGESIZE);
    return n > 0 ? (size_t)n : 4096;
}

uint32_t kb_os_pid(void) { return (uint32_t)getpid(); }

uint32_t kb_os_tid(void) { return (uint32_t)syscall(SYS_gettid); }

const char *kb_os_getenv(const char *name) { return secure_getenv(name); }

static uint64_t mix_bits(uint64_t x)
{
    x ^= x >> 32;
    x *= UINT64_C(0xd6e8feb86659fd93);
    x ^= x >> 32;
    x *= UINT64_C(0xd6e8feb86659fd93);
    return x ^ x >> 32;
}

uint64_t kb_os_exec_id_from(const uint8_t random[16])
{
    uint64_t words[2];
    memcpy(words, random, sizeof words);
    uint64_t id = mix_bits(words[0] ^ mix_bits(words[1] + 1));
    return id ? id : 1;
}

uint64_t kb_os_exec_id(void)
{
    /* The kernel gives 16 fresh random bytes to every new program image; fork keeps them. */
    static const uint8_t none[16];
    const uint8_t *random = (const uint8_t *)getauxval(AT_RANDOM);
    return kb_os_exec_id_from(random ? random : none);
}

/* ---- other processes, from /proc --------------------------------------------------------------
 */

/* One read, repeated when interrupted. 0: the end, or an error. */
static size_t read_available(int fd, char *buf, size_t size)
{
    ssize_t n;
    do
        n = read(fd, buf, size);
    while (n < 0 && errno == EINTR);
    return n > 0 ? (size_t)n : 0;
}

size_t kb_os_read_file(const char *path, char *buf, size_t size)
{
    if (size == 0)
        return 0;
    buf[0] = '\0';
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return 0;
    size_t used = 0, n;
    while (used < size - 1 && (n = read_available(fd, buf + used, size - 1 - used)) > 0)
        used += n;
    close(fd);
    buf[used] = '\0';
    return used;
}

/* "/proc/PID/FILE". Without snprintf, which takes more than 1 KiB of stack: it is called in signal
 * handlers, too. */
static const char *proc_path(uint32_t pid, const char *file, char path[128])
{
    char digits[10];
    size_t n = 0, at = strlen("/proc/"), length = strlen(file);
    memcpy(path, "/proc/", at);
    if (pid == kb_os_pid()) {
        memcpy(path + at, "self", 4);
        at += 4;
    } else {
        do
            digits[n++] = (char)('0' + pid % 10);
        while (pid /= 10);
    }
    while (n > 0)
        path[at++] = digits[--n];
    path[at++] = '/';
    length = KB_MIN(length, 127 - at);
    memcpy(path + at, file, length);
    path[at + length] = '\0';
    return path;
}

/* The number that a link of /proc consists of; 0: none. */
static uint32_t read_proc_link(const char *path)
{
    char text[16];
    int saved = errno;
    ssize_t n = readlink(path, text, sizeof text - 1);
    errno = saved;
    text[KB_MAX(n, 0)] = '\0';
    return (uint32_t)strtoul(text, NULL, 10);
}

bool kb_os_proc_is_ours(void)
{
    static uint64_t known; /* pid << 32 | answer: a fork's child checks again */
    uint32_t pid = kb_os_pid();
    uint64_t answer = kb_load_relaxed(&known);
    if (answer >> 32 != pid) {
        answer = (uint64_t)pid << 32 | (read_proc_link("/proc/self") == pid);
        kb_store_relaxed(&known, answer);
    }
    return answer & 1;
}

/* Read a file of a process. About itself a process can read in any /proc; about others only in one
 * of its own pid namespace. */
static size_t read_proc(uint32_t pid, const char *file, char *buf, size_t size)
{
    char path[128];
    if (pid != kb_os_pid() && !kb_os_proc_is_ours()) {
        if (size)
            buf[0] = '\0';
        return 0;
    }
    return kb_os_read_file(proc_path(pid, file, path), buf, size);
}

/* The fields after the name in /proc/PID/stat: "S ppid …". The name may contain anything, even ") S
 * 1", so the last parenthesis counts. NULL: no such process, or not readable. */
static const char *read_stat_fields(uint32_t pid, char *buf, size_t size)
{
    if (!read_proc(pid, "stat", buf, size))
        return NULL;
    const char *name_end = strrchr(buf, ')');
    return name_end && name_end[1] == ' ' ? name_end + 2 : NULL;
}

/* The number in field `index` (3 is the state, the first after the name); 0: none. */
static uint64_t parse_stat_number(const char *fields, int index)
{
    for (int i = 3; i < index && fields; i++) {
        fields = strchr(fields, ' ');
        if (fields)
            fields++;
    }
    return fields ? strtoull(fields, NULL, 10) : 0;
}

/* The offset that the time namespace of this process adds to the start times that it reads; they
 * differ between namespaces. A process changes its namespace only at fork and exec. */
static uint64_t read_start_time_shift(void)
{
    char text[256];
    const char *at = kb_os_read_file("/proc/self/timens_offsets", text, sizeof text)
                         ? strstr(text, "boottime")
                         : NULL;
    char *end;
    if (!at)
        return 0;
    long long seconds = strtoll(at + strlen("boottime"), &end, 10);
    long long ns = strtoll(end, NULL, 10), ticks = sysconf(_SC_CLK_TCK);
    return ticks > 0 ? (uint64_t)(seconds * ticks + ns / (KB_SECOND_NS / ticks)) : 0;
}

static uint64_t cached_start_time_shift(void)
{
    static uint64_t shift;
    static uint32_t shift_of; /* the process that it was read for */
    uint32_t pid = kb_os_pid();
    if (kb_load_acquire(&shift_of) != pid) {
        int saved = errno;
        kb_store_relaxed(&shift, read_start_time_shift());
        kb_store_release(&shift_of, pid);
        errno = saved;
    }
    return kb_load_relaxed(&shift);
}

/* The start time, the same in every time namespace; 0: unknown. */
static uint64_t start_time_from_fields(const char *fields)
{
    uint64_t shown = parse_stat_number(fields, 22);
    return shown ? shown - cached_start_time_shift() : 0;
}

uint64_t kb_os_start_time(uint32_t pid)
{
    char buf[1024];
    return start_time_from_fields(read_stat_fields(pid, buf, sizeof(buf)));
}

uint32_t kb_os_parent(uint32_t pid)
{
    char buf[1024];
    return (uint32_t)parse_stat_number(read_stat_fields(pid, buf, sizeof(buf)), 4);
}

bool kb_os_alive(uint32_t pid, uint64_t start_time)
{
    char buf[1024];
    const char *fields = read_stat_fields(pid, buf, sizeof(buf));
    if (!fields) /* it does not exist, or this process cannot read its /proc */
        return pid > 0 && pid <= INT_MAX && (kill((pid_t)pid, 0) == 0 || errno == EPERM);
    if (fields[0] == 'X')
        return false;
    /* A process whose first thread has ended shows as a zombie while others run. */
    if (fields[0] == 'Z' && parse_stat_number(fields, 20) <= 1)
        return false;
    return start_time_from_fields(fields) == start_time;
}

static size_t strip_line_end(char *buf, size_t n)
{
    while (n > 0 && (buf[n - 1] == '\n' || buf[n - 1] == '\0'))
        n--;
    buf[n] = '\0';
    return n;
}

/* The part of the first argument after its last slash, however long its path is. */
static void read_first_argument_base(uint32_t pid, char *base, size_t size)
{
    char path[128], piece[256];
    int fd = open(proc_path(pid, "cmdline", path), O_RDONLY | O_CLOEXEC | O_NOCTTY);
    size_t used = 0, n = 0, at = 0;
    while (fd >= 0 && (at < n || (at = 0, n = read_available(fd, piece, sizeof piece)) > 0)) {
        char c = piece[at++];
        if (c == '\0')
            break;
        if (c == '/')
            used = 0;
        else if (used < size - 1)
            base[used++] = c;
    }
    if (fd >= 0)
        close(fd);
    base[used] = '\0';
}

/* The kernel's name is cut to 15 bytes; the program's first argument often has the rest. */
size_t kb_os_process_name(uint32_t pid, char *buf, size_t size)
{
    enum { KERNEL_CUT = 15 };
    if (size == 0)
        return 0;
    char comm[64], base[NAME_MAX + 1];
    size_t n = strip_line_end(comm, read_proc(pid, "comm", comm, sizeof(comm)));
    const char *name = comm;
    if (n == KERNEL_CUT) {
        read_first_argument_base(pid, base, sizeof base);
        if (strncmp(base, comm, n) == 0)
            name = base;
    }
    n = KB_MIN(strlen(name), size - 1);
    memcpy(buf, name, n);
    buf[n] = '\0';
    return n;
}

size_t kb_os_command_line(uint32_t pid, char *buf, size_t size)
{
    if (size == 0)
        return 0;
    size_t n = strip_line_end(buf, read_proc(pid, "cmdline", buf, size));
    for (size_t i = 0; i < n; i++) {
        if (buf[i] == '\0')
            buf[i] = ' ';
    }
    return n;
}

size_t kb_os_thread_name(uint32_t pid, uint32_t tid, char *buf, size_t size)
{
    char file[64];
    if (size == 0)
        return 0;
    snprintf(file, sizeof(file), "task/%u/comm", tid);
    return strip_line_end(buf, read_proc(pid, file, buf, size));
}

size_t kb_os_own_thread_name(char buf[KB_OS_THREAD_NAME_BYTES])
{
    buf[0] = '\0';
    if (prctl(PR_GET_NAME, buf, 0, 0, 0) != 0)
        buf[0] = '\0';
    return strnlen(buf, KB_OS_THREAD_NAME_BYTES - 1);
}

size_t kb_os_boot_id(char *buf, size_t size)
{
    if (size == 0)
        return 0;
    return strip_line_end(buf, kb_os_read_file("/proc/sys/kernel/random/boot_id", buf, size));
}

bool kb_os_is_this_boot(const char *boot_id, size_t size)
{
    char now[64] = "";
    (void)kb_os_boot_id(now, sizeof now);
    return strncmp(boot_id, now, size) == 0;
}

uint64_t kb_os_random(void)
{
    uint64_t r = 0;
    if (getrandom(&r, sizeof r, GRND_NONBLOCK) != (ssize_t)sizeof r)
        r = mix_bits(kb_ticks(kb_ticks_clock()) ^ kb_os_exec_id());
    return r;
}

void kb_os_pid_namespace(uint64_t id[2])
{
    struct stat st;
    int saved = errno;
    bool known = stat("/proc/self/ns/pid", &st) == 0;
    id[0] = known ? st.st_dev : 0;
    id[1] = known ? st.st_ino : 0;
    errno = saved;
}

size_t kb_os_host_name(char *buf, size_t size)
{
    char name[HOST_NAME_MAX + 1] = "";
    if (size == 0)
        return 0;
    if (gethostname(name, sizeof(name)) != 0)
        name[0] = '\0';
    name[sizeof(name) - 1] = '\0';
    size_t n = KB_MIN(strlen(name), size - 1);
    memcpy(buf, name, n);
    buf[n] = '\0';
    return n;
}

bool kb_os_library_is_cut_off(const char *path)
{
    ElfW(Ehdr) head;
    ElfW(Phdr) part;
    struct stat st;
    bool cut = false;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    if (fstat(fd, &st) == 0 && pread(fd, &head, sizeof head, 0) == (ssize_t)sizeof head &&
        memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 && head.e_phentsize == sizeof part)
        for (unsigned i = 0; i < head.e_phnum && !cut; i++) {
            off_t at = (off_t)(head.e_phoff + i * sizeof part);
            cut = pread(fd, &part, sizeof part, at) != (ssize_t)sizeof part ||
                  (part.p_type == PT_LOAD && part.p_filesz > 0 &&
                   (part.p_offset > (uint64_t)st.st_size ||
                    part.p_filesz > (uint64_t)st.st_size - part.p_offset));
        }
    close(fd);
    return cut;
}

/* ---- writing ----------------------------------------------------------------------------------
 */

void kb_os_quiet_begin(kb_quiet *q)
{
    sigemptyset(&q->ours);
    sigaddset(&q->ours, SIGPIPE);
    sigaddset(&q->ours, SIGXFSZ);
    sigemptyset(&q->pending);
    sigpending(&q->pending);
    pthread_sigmask(SIG_BLOCK, &q->ours, &q->before);
}

int kb_os_quiet_end(const kb_quiet *q, bool raised)
{
    const struct timespec no_wait = {0, 0};
    int os_error = errno, taken = -1;
    sigset_t waiting = q->ours;
    if (sigismember(&q->pending, SIGPIPE))
        sigdelset(&waiting, SIGPIPE);
    if (sigismember(&q->pending, SIGXFSZ))
        sigdelset(&waiting, SIGXFSZ);
    while (raised && (taken = sigtimedwait(&waiting, NULL, &no_wait)) < 0 && errno == EINTR) {
    }
    pthread_sigmask(SIG_SETMASK, &q->before, NULL);
    errno = os_error;
    return KB_MAX(taken, 0);
}

ssize_t kb_os_write_quiet(int fd, const void *data, size_t bytes)
{
    kb_quiet q;
    kb_os_quiet_begin(&q);
    ssize_t n = write(fd, data, bytes);
    int os_error = errno;
    /* The signal is also raised when a pipe's reader closes in the middle: then part is written. */
    bool is_short = n >= 0 && (size_t)n < bytes;
    (void)kb_os_quiet_end(&q, is_short || (n < 0 && (os_error == EPIPE || os_error == EFBIG)));
    return n;
}

/* Reserve by writing, for file systems that cannot reserve otherwise. @return 0 or an errno. */
static int write_zeros(int fd, off_t offset, size_t bytes)
{
    static const char zeros[65536];
    for (size_t done = 0; done < bytes;) {
        ssize_t n = pwrite(fd, zeros, KB_MIN(sizeof(zeros), bytes - done), offset + (off_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? errno : EIO;
        done += (size_t)n;
    }
    return 0;
}

int kb_os_clear_of_standard(int fd)
{
    if (fd < 0 || fd > STDERR_FILENO)
        return fd;
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), why = errno;
    close(fd);
    errno = why;
    return moved;
}

int kb_os_create(int directory, const char *path, int flags, uint32_t mode)
{
    int fd = openat(directory, path, flags | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (fd >= 0)
        (void)fchmod(fd, mode); /* file systems without permissions refuse */
    return fd;
}

int kb_os_make_own_directory(const char *path)
{
    return mkdir(path, 0700) != 0 || chmod(path, 0700) != 0 ? -1 : 0;
}

kineto_status kb_os_make_directories(const char *directory, kineto_error *err)
{
    char path[4096];
    size_t size = strlen(directory);
    struct stat there;
    if (size >= sizeof path)
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "Can't create directory: %.80s…: its path is too long", directory);
    memcpy(path, directory, size + 1);
    for (size_t i = 1; i <= size; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        char c = path[i];
        path[i] = '\0';
        if (mkdir(path, 0777) != 0 && errno != EEXIST && stat(path, &there) != 0)
            return kb_fail_os(err, errno, "Can't create directory: %s", path);
        path[i] = c;
    }
    if (stat(path, &there) == 0 && !S_ISDIR(there.st_mode))
        return kb_fail_os(err, ENOTDIR, "Can't create directory: %s", path);
    return KINETO_OK;
}

int kb_os_make_own_temporary(char *template)
{
    return !mkdtemp(template) || chmod(template, 0700) != 0 ? -1 : 0;
}

int kb_os_reserve(int fd, off_t offset, size_t bytes)
{
    kb_quiet q;
    int rc;
    kb_os_quiet_begin(&q);
    do
        rc = posix_fallocate(fd, offset, (off_t)bytes);
    while (rc == EINTR);
    if (rc == EOPNOTSUPP || rc == EINVAL || rc == ENOSYS)
        rc = write_zeros(fd, offset, bytes);
    (void)kb_os_quiet_end(&q, rc == EFBIG);
    return rc;
}

/* ---- mappings ---------------------------------------------------------------------------------
 */

static void *map_pages(size_t bytes, int flags, int fd)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* Called by the program's threads in the middle of their work: errno is preserved. */
void *kb_os_map(size_t bytes)
{
    int saved = errno;
    void *p = map_pages(bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    errno = saved;
    return p;
}

void *kb_os_map_wiped_on_fork(size_t bytes)
{
    int saved = errno;
    void *p = kb_os_map(bytes);
    if (p)
        (void)madvise(p, bytes, MADV_WIPEONFORK); /* see kb_os_wipe_supported */
    errno = saved;
    return p;
}

bool kb_os_wipe_supported(void)
{
    static uint32_t cached; /* 0 unknown, 1 no, 2 yes */
    uint32_t answer = kb_load_relaxed(&cached);
    if (answer == 0) {
        size_t bytes = kb_os_page_bytes();
        void *p = kb_os_map(bytes);
        answer = p && madvise(p, bytes, MADV_WIPEONFORK) == 0 ? 2 : 1;
        if (p)
            munmap(p, bytes);
        kb_store_relaxed(&cached, answer);
    }
    return answer == 2;
}

void kb_os_unmap(void *p, size_t bytes)
{
    if (p)
        munmap(p, bytes);
}

void *kb_os_huge(void *memory, size_t bytes)
{
    uintptr_t first = kb_align((uintptr_t)memory, KB_HUGE_BYTES);
    uintptr_t end = ((uintptr_t)memory + bytes) / KB_HUGE_BYTES * KB_HUGE_BYTES;
    if (memory && bytes >= KB_HUGE_BYTES && first < end)
        (void)madvise((char *)memory + (first - (uintptr_t)memory), end - first, MADV_HUGEPAGE);
    return memory;
}

void kb_os_prefault(void *p, size_t bytes)
{
    if (madvise(p, bytes, MADV_POPULATE_WRITE) == 0)
        return;
    size_t page = kb_os_page_bytes();
    for (size_t at = 0; at < bytes; at += page)
        (void)kb_add_relaxed((uint8_t *)p + at,
                             (uint8_t)0); /* other threads may write there, too */
}

void *kb_os_map_shared(size_t bytes, kineto_error *err)
{
    void *p = map_pages(bytes, MAP_SHARED | MAP_ANONYMOUS, -1);
    if (!p)
        kb_fail_os(err, errno, "cannot map %zu bytes of shared memory", bytes);
    return p;
}

void *kb_os_map_create(const char *path, size_t bytes, kineto_error *err)
{
    void *p = NULL;
    if (bytes == 0 || bytes > (size_t)PTRDIFF_MAX) {
        kb_fail(err, KINETO_E_ARGUMENT, "'%s': cannot map %zu bytes", path, bytes);
        return NULL;
    }
    int fd = kb_os_create(AT_FDCWD, path, O_RDWR, 0600);
    if (fd < 0) {
        kb_fail_os(err, errno, "cannot create '%s'", path);
        return NULL;
    }
    int rc = kb_os_reserve(fd, 0, bytes);
    if (rc == ENOSPC || rc == EDQUOT)
        kb_fail_os(err, rc,
                   "'%s' needs %zu MiB; use a smaller buffer or a directory with more space", path,
                   (bytes + (1u << 20) - 1) >> 20);
    else if (rc != 0)
        kb_fail_os(err, rc, "cannot reserve %zu bytes for '%s'", bytes, path);
    else if (!(p = map_pages(bytes, MAP_SHARED, fd)))
        kb_fail_os(err, errno, "cannot map '%s'", path);
    close(fd);
    if (!p)
        unlink(path);
    return p;
}

/* Accept only a regular file of this user: anything else might block, disappear, or be written by
 * another user. */
static kineto_status check_mappable(int fd, const char *path, size_t *bytes, kineto_error *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return kb_fail_os(err, errno, "cannot read the status of '%s'", path);
    if (!S_ISREG(st.st_mode))
        return kb_fail(err, KINETO_E_PERMISSION, "'%s' is not a regular file", path);
    if (st.st_uid != geteuid())
        return kb_fail(err, KINETO_E_PERMISSION, "'%s' belongs to user %u, not to user %u", path,
                       (unsigned)st.st_uid, (unsigned)geteuid());
    if (st.st_size <= 0 || (uintmax_t)st.st_size > (uintmax_t)PTRDIFF_MAX)
        return kb_fail(err, KINETO_E_FORMAT, "'%s' is empty or too large to map", path);
    *bytes = (size_t)st.st_size;
    return KINETO_OK;
}

void *kb_os_map_open(const char *path, size_t *bytes, kineto_error *err)
{
    void *p = NULL;
    int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        if (errno == ELOOP)
            kb_fail(err, KINETO_E_PERMISSION, "'%s' is a symbolic link: not followed", path);
        else
            kb_fail_os(err, errno, "cannot open '%s'", path);
        return NULL;
    }
    if (check_mappable(fd, path, bytes, err) == KINETO_OK &&
        !(p = map_pages(*bytes, MAP_SHARED, fd)))
        kb_fail_os(err, errno, "cannot map '%s'", path);
    close(fd);
    return p;
}

/* ---- barriers -------------------------------------------------------------------------------- */

#ifndef MEMBARRIER_CMD_PRIVATE_EXPEDITED
#define MEMBARRIER_CMD_PRIVATE_EXPEDITED          (1 << 3)
#define MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED (1 << 4)
#endif

static long call_membarrier(int command)
{
#ifdef SYS_membarrier
    return syscall(SYS_membarrier, command, 0, 0);
#else
    (void)command;
    return -1;
#endif
}

bool kb_os_barrier_init(void)
{
    int saved = errno;
    bool usable = call_membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0 &&
                  call_membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0;
    errno = saved;
    return usable;
}

void kb_os_barrier(void)
{
    int saved = errno;
    if (call_membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) !=
        0) /* a fork's child has to register again */
        (void)kb_os_barrier_init();
    errno = saved;
}

/* ---- processors ------------------------------------------------------------------------------ */

uint32_t kb_os_cpus(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    int count = 0;
    size_t known = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_SETSIZE : 0;
    for (size_t i = 0; i < known; i++) /* CPU_COUNT calls a function that only glibc provides */
        count += CPU_ISSET(i, &set) != 0;
    if (count <= 0)
        count = (int)sysconf(_SC_NPROCESSORS_ONLN); /* there are more than the set has room for */
    return count > 0 ? (uint32_t)count : 1;
}

/* Program images: identity, and obstacles to attaching. All of it is read from /proc, since a
 * process that cannot map the recording's buffer cannot leave a message in it. Files of /proc may
 * vanish at any moment; unreadable ones never count as an obstacle. */
#include "session/process_image.h"
#include "session/self_cost.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#if defined(__aarch64__)
#define OUR_MACHINE EM_AARCH64
#elif defined(__x86_64__)
#define OUR_MACHINE EM_X86_64
#else
#define OUR_MACHINE EM_NONE
#endif

#define ENVIRONMENT_BYTES (256u << 10)       /* bytes of an environment that are read */
#define CAP_DAC_OVERRIDE  1u                 /* may open files of other users */
#define BEGINNING_NS      UINT64_C(30000000) /* a program has loaded its linked libraries by then */

const char *ks_unrecorded_text(ks_unrecorded why)
{
    static const char *const texts[] = {
#define X(name, text) text,
        KS_UNRECORDED_MAP(X)
#undef X
    };
    KB_ASSERT(why < KS_UNRECORDED_COUNT);
    return texts[why];
}

static const char *format_proc_path(uint32_t pid, const char *what, char path[64])
{
    snprintf(path, 64, "/proc/%u/%s", pid, what);
    return path;
}

/* "" if it cannot be read. */
static void read_namespace(uint32_t pid, const char *which, char *buf, size_t size)
{
    char path[64];
    ssize_t n = readlink(format_proc_path(pid, which, path), buf, size - 1);
    buf[n > 0 ? n : 0] = 0;
}

void ks_surroundings_init(ks_surroundings *s, const char *pool_path, uint64_t pool_bytes)
{
    struct stat st;
    uint32_t self = kb_os_pid();
    memset(s, 0, sizeof *s);
    read_namespace(self, "ns/pid", s->pid_namespace, sizeof s->pid_namespace);
    read_namespace(self, "ns/mnt", s->mount_namespace, sizeof s->mount_namespace);
    if (!pool_path || stat(pool_path, &st) != 0)
        return;
    snprintf(s->pool_path, sizeof s->pool_path, "%s", pool_path);
    s->pool_bytes = pool_bytes;
    s->pool_device = st.st_dev;
    s->pool_inode = st.st_ino;
    s->pool_owner = st.st_uid;
}

/* ---- identity -------------------------------------------------------------------------------- */

/* Reads the auxiliary vector: the address of the image's 16 random bytes (AT_RANDOM), and whether
 * its privileges were raised (AT_SECURE). 0: it cannot be read, or has another word size. */
static uint64_t read_auxiliary(uint32_t pid, bool *secure)
{
    char path[64];
    uint64_t words[128] = {0}, at = 0;
    int fd = open(format_proc_path(pid, "auxv", path), O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, words, sizeof words) : 0;
    if (fd >= 0)
        close(fd);
    for (size_t i = 0; n > 0 && (i + 2) * sizeof words[0] <= (size_t)n && words[i]; i += 2) {
        if (words[i] == AT_RANDOM)
            at = words[i + 1];
        if (words[i] == AT_SECURE)
            *secure = words[i + 1] != 0;
    }
    return at;
}

/* Equals kb_os_exec_id within the process; 0: its memory cannot be read. */
static uint64_t exec_id_at(uint32_t pid, uint64_t address)
{
    uint8_t bytes[16];
    struct iovec here = {bytes, sizeof bytes}, there = {(void *)(uintptr_t)address, sizeof bytes};
    if (!address || process_vm_readv((pid_t)pid, &here, 1, &there, 1, 0) != (ssize_t)sizeof bytes)
        return 0;
    return kb_os_exec_id_from(bytes);
}

uint64_t ks_process_exec_id(uint32_t pid)
{
    bool secure = false;
    return exec_id_at(pid, read_auxiliary(pid, &secure));
}

/* Also sets random_at and secure. */
static uint64_t find_exec_id(ks_image *it)
{
    it->random_at = read_auxiliary(it->pid, &it->secure);
    return exec_id_at(it->pid, it->random_at);
}

/* A different program file proves a different image; the same file proves nothing. */
static bool has_other_file(const ks_image *it)
{
    char path[64];
    struct stat st;
    return it->inode && stat(format_proc_path(it->pid, "exe", path), &st) == 0 &&
           (st.st_dev != it->device || st.st_ino != it->inode);
}

/* A program with raised privileges hides everything but its name. */
static bool hides_and_has_other_name(const ks_image *it)
{
    char path[64], name[sizeof it->name];
    struct stat st;
    if (!it->inode || stat(format_proc_path(it->pid, "exe", path), &st) == 0 || errno != EACCES)
        return false;
    return kb_os_process_name(it->pid, name, sizeof name) && strcmp(name, it->name) != 0;
}

bool ks_image_is_current(ks_image *it)
{
    if (it->exec_id && exec_id_at(it->pid, it->random_at) == it->exec_id)
        return true;
    ks_image now = *it;
    now.exec_id = find_exec_id(&now);
    if (now.exec_id && it->exec_id)
        return now.exec_id == it->exec_id;
    it->exec_id = now.exec_id ? now.exec_id : it->exec_id; /* it was in the middle of its exec */
    it->random_at = now.exec_id ? now.random_at : it->random_at;
    return !has_other_file(it) && !hides_and_has_other_name(it);
}

bool ks_image_is_transient(const ks_image *it)
{
    return it->replaced && it->last_ns - it->first_ns < BEGINNING_NS;
}

/* ---- kind of program ------------------------------------------------------------------------- */

static bool has_interpreter(int fd, const Elf64_Ehdr *h)
{
    Elf64_Phdr p;
    for (uint32_t i = 0; i < h->e_phnum; i++) {
        off_t at = (off_t)(h->e_phoff + (uint64_t)i * h->e_phentsize);
        if (pread(fd, &p, sizeof p, at) != (ssize_t)sizeof p)
            return true; /* unreadable: assume a dynamic program */
        if (p.p_type == PT_INTERP)
            return true;
    }
    return false;
}

/* From the ELF header: UNUSED if nothing in it prevents recording. */
static ks_unrecorded classify_file(int fd)
{
    Elf64_Ehdr h;
    if (pread(fd, &h, sizeof h, 0) != (ssize_t)sizeof h || memcmp(h.e_ident, ELFMAG, SELFMAG) != 0)
        return KS_UNRECORDED_UNUSED;
    if (h.e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32) ||
        (OUR_MACHINE != EM_NONE && h.e_machine != OUR_MACHINE))
        return KS_UNRECORDED_WORD_SIZE;
    if (h.e_ident[EI_CLASS] == ELFCLASS64 && !has_interpreter(fd, &h))
        return KS_UNRECORDED_STATIC;
    return KS_UNRECORDED_UNUSED;
}

/* Set-uid or set-gid to another user or group. */
static bool raises_privileges(const struct stat *st)
{
    return ((st->st_mode & S_ISUID) && st->st_uid != geteuid()) ||
           ((st->st_mode & S_ISGID) && st->st_gid != getegid());
}

/* ---- rights ---------------------------------------------------------------------------------- */

/* Reads up to `room` numbers of a line of /proc/PID/status. @return how many were read. */
static uint32_t read_numbers(const char *status, const char *line, int base, uint64_t *out,
                             uint32_t room)
{
    const char *at = strstr(status, line);
    uint32_t count = 0;
    char *end;
    if (!at)
        return 0;
    for (at += strlen(line); count < room; at = end) {
        out[count] = strtoull(at, &end, base);
        if (end == at)
            break;
        count++;
    }
    return count;
}

static bool all_same(const uint64_t *numbers, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++)
        if (numbers[i] != numbers[0])
            return false;
    return true;
}

/* The four ids are real, effective, saved and file system: set-uid and set-gid change all but the
 * real one. */
ks_rights ks_process_rights(uint32_t pid)
{
    enum { IDS = 4 };
    char path[64], status[8192], own[8192];
    uint64_t users[IDS] = {0}, groups[IDS] = {0}, may = 0, we_may = 0;
    snprintf(path, sizeof path, "/proc/%u/status", pid);
    if (!kb_os_proc_is_ours() || !kb_os_read_file(path, status, sizeof status) ||
        read_numbers(status, "\nUid:", 10, users, IDS) != IDS ||
        read_numbers(status, "\nGid:", 10, groups, IDS) != IDS)
        return KS_RIGHTS_UNKNOWN;
    (void)kb_os_read_file("/proc/self/status", own, sizeof own);
    (void)read_numbers(status, "\nCapPrm:", 16, &may, 1);
    (void)read_numbers(own, "\nCapPrm:", 16, &we_may, 1);
    if (!all_same(users, IDS) || !all_same(groups, IDS) || (may & ~we_may))
        return KS_RIGHTS_RAISED;
    return users[0] == geteuid() ? KS_RIGHTS_CLOSED : KS_RIGHTS_OTHER_USER;
}

static ks_unrecorded reason_of_rights(uint32_t pid)
{
    ks_rights rights = ks_process_rights(pid);
    return rights == KS_RIGHTS_RAISED   ? KS_UNRECORDED_SET_ID
           : rights == KS_RIGHTS_CLOSED ? KS_UNRECORDED_CLOSED
                                        : KS_UNRECORDED_HIDDEN;
}

/* ---- obstacles to attaching ------------------------------------------------------------------ */

static bool has_other_namespace(uint32_t pid, const char *which, const char *ours)
{
    char its[64];
    read_namespace(pid, which, its, sizeof its);
    return its[0] && strcmp(its, ours) != 0;
}

/* Looks up the pool through the process' own root directory. Unknown counts as visible. */
static bool sees_pool(const ks_surroundings *s, uint32_t pid)
{
    char path[KS_PATH_BYTES + 64];
    struct stat st;
    if (!s->pool_inode)
        return true;
    snprintf(path, sizeof path, "/proc/%u/root%s", pid, s->pool_path);
    if (stat(path, &st) != 0)
        return errno != ENOENT && errno != ENOTDIR;
    return st.st_dev == s->pool_device && st.st_ino == s->pool_inode;
}

/* The number in column `column` (0 is the first) of a line of /proc/PID/status. */
static bool status_number(const char *text, const char *line, int column, int base, uint64_t *out)
{
    const char *at = strstr(text, line);
    char *end;
    if (!at)
        return false;
    at += strlen(line);
    for (int i = 0; i <= column; i++, at = end) {
        *out = strtoull(at, &end, base);
        if (end == at)
            return false;
    }
    return true;
}

/* May it open the pool file: as its owner, or with CAP_DAC_OVERRIDE? */
static bool may_open_pool(const ks_surroundings *s, uint32_t pid)
{
    enum { OF_FILES = 3 }; /* Uid: real, effective, saved, of files */
    char path[64], text[4096];
    uint64_t user, capabilities;
    if (!s->pool_inode ||
        !kb_os_read_file(format_proc_path(pid, "status", path), text, sizeof text) ||
        !status_number(text, "\nUid:", OF_FILES, 10, &user) || user == s->pool_owner)
        return true;
    return !status_number(text, "\nCapEff:", 0, 16, &capabilities) ||
           (capabilities >> CAP_DAC_OVERRIDE & 1);
}

/* Does RLIMIT_AS leave room to map the pool? */
static bool has_address_space(const ks_surroundings *s, uint32_t pid)
{
    static const char line[] = "Max address space";
    char path[64], text[4096];
    if (!s->pool_bytes ||
        !kb_os_read_file(format_proc_path(pid, "limits", path), text, sizeof text))
        return true;
    const char *at = strstr(text, line);
    char *end;
    if (!at)
        return true;
    uint64_t limit = strtoull(at + sizeof line - 1, &end, 10), pages;
    if (end == at + sizeof line - 1) /* "unlimited" */
        return true;
    if (!kb_os_read_file(format_proc_path(pid, "statm", path), text, sizeof text))
        return true;
    pages = strtoull(text, NULL, 10);
    return pages * kb_os_page_bytes() + s->pool_bytes <= limit;
}

/* Programs may overwrite their environment to change their title: valid only if every string has a
 * '='. */
static bool is_environment(const char *text, size_t size)
{
    for (size_t at = 0; at < size; at += strlen(text + at) + 1)
        if (!strchr(text + at, '='))
            return false;
    return true;
}

/* `text` holds NUL-terminated strings, `size` bytes of them. */
static ks_unrecorded classify_environment(const ks_surroundings *s, const char *text, size_t size)
{
    static const char name[] = "CKINETO_SESSION=";
    if (!is_environment(text, size))
        return KS_UNRECORDED_UNUSED;
    for (size_t at = 0; at < size; at += strlen(text + at) + 1)
        if (strncmp(text + at, name, sizeof name - 1) == 0)
            return strcmp(text + at + sizeof name - 1, s->pool_path) == 0
                       ? KS_UNRECORDED_UNUSED
                       : KS_UNRECORDED_OTHER_RECORDING;
    return KS_UNRECORDED_ENVIRONMENT;
}

/* Reads the environment that the image was started with. */
static ks_unrecorded look_at_environment(const ks_surroundings *s, uint32_t pid)
{
    char path[64], *text = malloc(ENVIRONMENT_BYTES + 1);
    int fd = text ? open(format_proc_path(pid, "environ", path), O_RDONLY | O_CLOEXEC) : -1;
    ks_unrecorded why = KS_UNRECORDED_UNUSED;
    size_t size = 0;
    ssize_t n = -1;
    while (fd >= 0 && size < ENVIRONMENT_BYTES &&
           (n = read(fd, text + size, ENVIRONMENT_BYTES - size)) > 0)
        size += (size_t)n;
    if (fd >= 0)
        close(fd);
    if (n == 0) { /* all of it was read */
        text[size] = 0;
        why = classify_environment(s, text, size);
    }
    free(text);
    return why;
}

/* What prevents a suitable program from attaching, in the order in which attaching would fail. */
static ks_unrecorded find_obstacle(const ks_surroundings *s, uint32_t pid)
{
    bool visible = sees_pool(s, pid);
    if (has_other_namespace(pid, "ns/pid", s->pid_namespace) ||
        (!visible && has_other_namespace(pid, "ns/mnt", s->mount_namespace)))
        return KS_UNRECORDED_NAMESPACE;
    ks_unrecorded why = s->pool_inode ? look_at_environment(s, pid) : KS_UNRECORDED_UNUSED;
    if (why != KS_UNRECORDED_UNUSED)
        return why;
    if (!visible)
        return KS_UNRECORDED_INVISIBLE;
    if (!may_open_pool(s, pid))
        return KS_UNRECORDED_REFUSED;
    return has_address_space(s, pid) ? KS_UNRECORDED_UNUSED : KS_UNRECORDED_NO_MEMORY;
}

/* ---- the program ----------------------------------------------------------------------------- */

/* By the name of its program file, such as python3.11: a script's process has the script's name. */
static bool runs_python(uint32_t pid)
{
    char path[64], file[KS_PATH_BYTES];
    ssize_t size = readlink(format_proc_path(pid, "exe", path), file, sizeof file - 1);
    file[KB_MAX(size, 0)] = 0;
    const char *slash = strrchr(file, '/');
    return slash && strncmp(slash + 1, "python", 6) == 0;
}

static void look_at_program(const ks_surroundings *s, ks_image *it)
{
    char path[64];
    struct stat st;
    it->exec_id = find_exec_id(it);
    (void)kb_os_process_name(it->pid, it->name, sizeof it->name);
    if (stat(format_proc_path(it->pid, "exe", path), &st) != 0) {
        it->why = errno == EACCES ? reason_of_rights(it->pid) : KS_UNRECORDED_BRIEF;
        return;
    }
    it->device = st.st_dev;
    it->inode = st.st_ino;
    it->is_python = runs_python(it->pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    it->why = fd >= 0 ? classify_file(fd) : reason_of_rights(it->pid);
    if (fd >= 0)
        close(fd);
    if (it->secure || raises_privileges(&st))
        it->why = KS_UNRECORDED_SET_ID;
    else if (it->why == KS_UNRECORDED_UNUSED)
        it->why = find_obstacle(s, it->pid);
}

/* ---- loaded libraries ------------------------------------------------------------------------ */

typedef struct loaded {
    bool torch, opencl, vulkan, mpi, recorder, functions;
} loaded;

/* Reads /proc/PID/maps until the recorder is found; to its end for the recorder of functions. */
static loaded search_libraries(uint32_t pid, bool for_functions)
{
    char path[64], line[4096];
    loaded found = {.torch = false};
    FILE *maps = fopen(format_proc_path(pid, "maps", path), "re");
    while (maps && (for_functions || !found.recorder) && fgets(line, sizeof line, maps)) {
        found.torch |= strstr(line, "/libtorch_cpu.so") != NULL;
        found.opencl |= strstr(line, "/libOpenCL.so") != NULL;
        found.vulkan |= strstr(line, "/libvulkan.so") != NULL;
        found.mpi |= strstr(line, "/libmpi.so") || strstr(line, "/libmpich.so") ||
                     strstr(line, "/libmpi_abi.so");
        found.recorder |= strstr(line, "/libckineto-rt.so") != NULL;
        found.functions |= strstr(line, "/stacks-profile.so") != NULL ||
                           strstr(line, "/stacks-monitoring.") != NULL;
    }
    if (maps)
        fclose(maps);
    return found;
}

/* Libraries may be loaded late, and reading maps is slow: they are searched once the program has
 * had time to begin, when it has used this much CPU time, and each time that its CPU time has
 * doubled. */
#define FIRST_SEARCH_NS UINT64_C(20000000)

/* Only changes reasons that libraries can explain better. */
static void take_libraries(const ks_surroundings *s, ks_image *it, const loaded *found)
{
    bool may_change = it->why == KS_UNRECORDED_UNUSED || it->why == KS_UNRECORDED_TORCH ||
                      it->why == KS_UNRECORDED_OPENCL ||
                      it->why == KS_UNRECORDED_VULKAN || it->why == KS_UNRECORDED_MPI;
    if (!may_change)
        return;
    if (found->recorder) /* our package is imported at the end of PyTorch's import */
        it->why = KS_UNRECORDED_UNUSED;
    else if (found->torch && strncmp(it->name, "python", 6) == 0)
        it->why = s->python_left_out ? KS_UNRECORDED_TORCH_LEFT_OUT : KS_UNRECORDED_TORCH;
    else if (found->opencl)
        it->why = KS_UNRECORDED_OPENCL;
    else if (found->vulkan)
        it->why = KS_UNRECORDED_VULKAN;
    else if (found->mpi)
        it->why = KS_UNRECORDED_MPI;
}

static void look_at_libraries(const ks_surroundings *s, ks_image *it)
{
    bool has_worked = it->cpu_ns >= KB_MAX(it->next_search_ns, FIRST_SEARCH_NS);
    bool has_begun = it->last_ns - it->first_ns >= BEGINNING_NS;
    if (!has_worked && (it->was_searched || !has_begun))
        return;
    if (!it->was_searched && it->why == KS_UNRECORDED_ENVIRONMENT)
        look_at_program(s, it); /* it may have been examined in the middle of an exec */
    loaded found = search_libraries(it->pid, s->python_functions && it->is_python);
    it->was_searched = true;
    it->searched_ns = it->cpu_ns;
    it->has_recorder |= found.recorder;
    it->has_functions |= found.functions;
    if (has_worked)
        it->next_search_ns = 2 * it->cpu_ns;
    take_libraries(s, it, &found);
}

/* CPU time in which any Python has run its startup files, also on a slow machine. */
#define STARTED_NS UINT64_C(100000000)

bool ks_image_lacks_functions(const ks_surroundings *s, const ks_image *it)
{
    return s->python_functions && it->is_python && !it->has_functions &&
           it->searched_ns >= STARTED_NS;
}

/* ---- examining ------------------------------------------------------------------------------- */

void ks_image_examine(const ks_surroundings *s, ks_image *it)
{
    bool known = it->first_ns && (it->inode || it->why != KS_UNRECORDED_BRIEF);
    it->last_ns = kb_monotonic_ns();
    if (!it->first_ns)
        it->first_ns = it->last_ns;
    if (!known)
        look_at_program(s, it);
    it->cpu_ns = kb_max_u64(it->cpu_ns, ks_process_cpu_ns(it->pid));
    look_at_libraries(s, it);
}

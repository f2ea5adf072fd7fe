/* Jobs of several processes. Launchers tell each process its rank by environment variables; a program
 * that needs MPI says so in its file. */
#include "cli/launch/job.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- rank and size --------------------------------------------------------------------------- */

/* Variables of launchers, the most specific first: torchrun, Open MPI, PMIx, PMI (MPICH and what is made
 * of it), Flux, Cray PALS. */
static const struct {
    const char *rank, *size;
    bool is_of_mpi;
} launchers[] = {
    {"RANK", "WORLD_SIZE", false},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", true},
    {"PMIX_RANK", NULL, true},
    {"PMI_RANK", "PMI_SIZE", true},
    {"PALS_RANKID", "PALS_SIZE", true},
    {"FLUX_TASK_RANK", "FLUX_JOB_SIZE", true},
    {"SLURM_PROCID", "SLURM_NTASKS", false},
};

/* A whole number of a variable; -1: not set, or another text. */
static int64_t read_number_variable(const char *name)
{
    const char *text = name ? kb_os_getenv(name) : NULL;
    char *end;
    if (!text || !kb_is_digit(*text))
        return -1;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    return *end || errno || value > INT32_MAX ? -1 : value;
}

/* Index of the launcher that started this process; KB_COUNT: none. In a batch script of Slurm, outside
 * of any step, the variables are those of the script. */
static size_t find_launcher(void)
{
    for (size_t i = 0; i < KB_COUNT(launchers); i++) {
        bool is_slurm = strncmp(launchers[i].rank, "SLURM", 5) == 0;
        if (read_number_variable(launchers[i].rank) >= 0 &&
            (!is_slurm || kb_os_getenv("SLURM_STEP_ID")))
            return i;
    }
    return KB_COUNT(launchers);
}

int64_t kc_job_rank(void)
{
    size_t i = find_launcher();
    return i < KB_COUNT(launchers) ? read_number_variable(launchers[i].rank) : -1;
}

int64_t kc_job_size(void)
{
    size_t i = find_launcher();
    int64_t size = i < KB_COUNT(launchers) ? read_number_variable(launchers[i].size) : 0;
    return KB_MAX(size, 0);
}

/* ---- names of files -------------------------------------------------------------------------- */

kineto_status kc_job_expand_path(const char *path, char out[PATH_MAX], kineto_error *err)
{
    int64_t rank = kc_job_rank();
    size_t used = 0, placeholder = strlen(KC_RANK_PLACEHOLDER);
    for (const char *next; (next = strstr(path, KC_RANK_PLACEHOLDER)); path = next + placeholder) {
        if (rank < 0)
            return kb_fail(
                err, KINETO_E_ARGUMENT,
                "no launcher has set a rank for " KC_RANK_PLACEHOLDER
                " (RANK, OMPI_COMM_WORLD_RANK, PMIX_RANK, PMI_RANK, SLURM_PROCID); start "
                "ckineto by it: mpirun -n 4 ckineto record -o 'run/rank{rank}.json' -- "
                "./program");
        used += (size_t)kb_snprintf(out + used, PATH_MAX - used, "%.*s%lld", (int)(next - path),
                                    path, (long long)rank);
    }
    used += (size_t)kb_snprintf(out + used, PATH_MAX - used, "%s", path);
    if (used + 1 >= PATH_MAX)
        return kb_fail(err, KINETO_E_ARGUMENT, "the name of the output is too long");
    return KINETO_OK;
}

/* ---- does it use MPI? ------------------------------------------------------------------------ */

typedef struct mapped_file {
    const uint8_t *data;
    size_t size;
} mapped_file;

/* A structure of the file at `at`; NULL: it is not inside. */
static const void *read_at(const mapped_file *f, uint64_t at, size_t size)
{
    return at <= f->size && size <= f->size - at ? f->data + at : NULL;
}

/* Program header `index`; NULL: there is none. */
static const Elf64_Phdr *program_header(const mapped_file *f, uint32_t index)
{
    const Elf64_Ehdr *h = (const void *)f->data;
    if (index >= h->e_phnum || h->e_phentsize != sizeof(Elf64_Phdr) || h->e_phoff % 8)
        return NULL;
    return read_at(f, h->e_phoff + (uint64_t)index * sizeof(Elf64_Phdr), sizeof(Elf64_Phdr));
}

/* The place in the file of an address of the program. UINT64_MAX: none. */
static uint64_t file_offset_of(const mapped_file *f, uint64_t address)
{
    const Elf64_Phdr *p;
    for (uint32_t i = 0; (p = program_header(f, i)); i++)
        if (p->p_type == PT_LOAD && address - p->p_vaddr < p->p_filesz)
            return address - p->p_vaddr + p->p_offset;
    return UINT64_MAX;
}

/* Does a needed library's name begin with "libmpi"? */
static bool needs_mpi_library(const mapped_file *f, const Elf64_Dyn *dynamic, size_t count)
{
    uint64_t texts = UINT64_MAX;
    for (size_t i = 0; i < count; i++)
        if (dynamic[i].d_tag == DT_STRTAB)
            texts = file_offset_of(f, dynamic[i].d_un.d_ptr);
    for (size_t i = 0; i < count && texts != UINT64_MAX; i++) {
        const char *name = dynamic[i].d_tag == DT_NEEDED
                               ? read_at(f, texts + dynamic[i].d_un.d_val, strlen("libmpi"))
                               : NULL;
        if (name && memcmp(name, "libmpi", strlen("libmpi")) == 0)
            return true;
    }
    return false;
}

static bool file_needs_mpi(const mapped_file *f)
{
    const Elf64_Ehdr *h = read_at(f, 0, sizeof *h);
    const Elf64_Phdr *p;
    if (!h || memcmp(h->e_ident, ELFMAG, SELFMAG) != 0 || h->e_ident[EI_CLASS] != ELFCLASS64)
        return false;
    for (uint32_t i = 0; (p = program_header(f, i)); i++) {
        const Elf64_Dyn *dynamic = p->p_type == PT_DYNAMIC && p->p_offset % 8 == 0
                                       ? read_at(f, p->p_offset, p->p_filesz)
                                       : NULL;
        if (dynamic)
            return needs_mpi_library(f, dynamic, p->p_filesz / sizeof *dynamic);
    }
    return false;
}

static bool path_needs_mpi(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool needs = false;
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0) {
        void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        mapped_file f = {map, (size_t)st.st_size};
        needs = map != MAP_FAILED && file_needs_mpi(&f);
        if (map != MAP_FAILED)
            (void)munmap(map, (size_t)st.st_size);
    }
    if (fd >= 0)
        close(fd);
    return needs;
}

/* In the directories of PATH, unless the name has a slash. */
static bool program_needs_mpi(const char *program)
{
    char path[PATH_MAX];
    const char *list = strchr(program, '/') ? NULL : kb_os_getenv("PATH");
    if (!list)
        return path_needs_mpi(program);
    for (size_t size; *list; list += size + (list[size] == ':')) {
        size = strcspn(list, ":");
        (void)kb_snprintf(path, sizeof path, "%.*s/%s", (int)size, list, program);
        if (access(path, X_OK) == 0)
            return path_needs_mpi(path);
    }
    return false;
}

/* mpirun, mpiexec.hydra, srun … */
static bool is_launcher_name(const char *program)
{
    static const char *const others[] = {"orterun", "prterun", "srun", "aprun", "jsrun", "flux"};
    const char *slash = strrchr(program, '/'), *name = slash ? slash + 1 : program;
    for (size_t i = 0; i < KB_COUNT(others); i++)
        if (strcmp(name, others[i]) == 0)
            return true;
    return strncmp(name, "mpirun", 6) == 0 || strncmp(name, "mpiexec", 7) == 0;
}

bool kc_job_uses_mpi(const char *program)
{
    for (size_t i = 0; i < KB_COUNT(launchers); i++)
        if (launchers[i].is_of_mpi && read_number_variable(launchers[i].rank) >= 0)
            return true;
    return is_launcher_name(program) || program_needs_mpi(program);
}

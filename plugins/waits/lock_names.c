/* Which variables the recorded locks, conditions and semaphores are. Their addresses are kept in a
 * small table, and looked up in the symbols of the program and its libraries when the process ends:
 * reading symbols takes too long, and locks, for the moment at which a thread has just got a lock.
 * What is on the heap or a stack has no name.
 *
 * The header of the trace gets "ckineto_locks_PID": {"ADDRESS": "NAME", ...}. */
#include "waits.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEEN         256u
#define PROBES       8u
#define NAME_BYTES   256u
#define JSON_BYTES   (SEEN * (NAME_BYTES + 32u))
#define MAX_FILE_BYTES (UINT64_C(4) << 30)

static _Atomic(uintptr_t) seen[SEEN];

void cw_note_address(const void *address)
{
    uintptr_t mine = (uintptr_t)address;
    uint32_t at = (uint32_t)((uint64_t)mine * UINT64_C(0x9e3779b97f4a7c15) >> 56);
    for (uint32_t i = 0; i < PROBES; i++, at = (at + 1) % SEEN) {
        uintptr_t there = atomic_load_explicit(&seen[at], memory_order_relaxed);
        if (there == mine)
            return;
        if (!there && atomic_compare_exchange_strong(&seen[at], &there, mine))
            return;
    }
}

/* ---- symbols of a file ----------------------------------------------------------------------- */

typedef struct elf_file {
    const char *data;
    size_t size;
} elf_file;

/* `count` things of `each` bytes at `offset`; NULL: they are not all in the file. */
static const void *get_part(const elf_file *f, uint64_t offset, uint64_t count, uint64_t each)
{
    uint64_t bytes;
    if (__builtin_mul_overflow(count, each, &bytes) || offset > f->size || bytes > f->size - offset)
        return NULL;
    return f->data + offset;
}

static bool map_elf_file(const char *path, elf_file *f)
{
    struct stat st;
    int fd = cw_next.open(path, O_RDONLY | O_CLOEXEC);
    *f = (elf_file){NULL, 0};
    if (fd < 0)
        return false;
    if (fstat(fd, &st) == 0 && st.st_size > (off_t)sizeof(ElfW(Ehdr)) &&
        (uint64_t)st.st_size < MAX_FILE_BYTES) {
        void *data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data != MAP_FAILED)
            *f = (elf_file){data, (size_t)st.st_size};
    }
    (void)cw_next.close(fd);
    return f->data != NULL;
}

/* Sections of this type: the table, of which `names` has the texts. */
static const ElfW(Shdr) * find_section(const elf_file *f, uint32_t type, const ElfW(Shdr) * *names)
{
    const ElfW(Ehdr) *head = get_part(f, 0, 1, sizeof *head);
    if (!head || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 ||
        head->e_shentsize != sizeof(ElfW(Shdr)))
        return NULL;
    const ElfW(Shdr) *all = get_part(f, head->e_shoff, head->e_shnum, sizeof *all);
    for (uint32_t i = 0; all && i < head->e_shnum; i++)
        if (all[i].sh_type == type && all[i].sh_link < head->e_shnum) {
            *names = &all[all[i].sh_link];
            return &all[i];
        }
    return NULL;
}

/* The variable around an address of the file: its name and where the address is in it. */
static bool find_variable(const elf_file *f, uint64_t address, char name[NAME_BYTES],
                          uint64_t *offset)
{
    static const uint32_t types[] = {SHT_SYMTAB, SHT_DYNSYM};
    for (uint32_t k = 0; k < 2; k++) {
        const ElfW(Shdr) *names = NULL, *table = find_section(f, types[k], &names);
        uint64_t count = table ? table->sh_size / sizeof(ElfW(Sym)) : 0;
        const ElfW(Sym) *symbols = table ? get_part(f, table->sh_offset, count, sizeof *symbols) : NULL;
        const char *texts = names ? get_part(f, names->sh_offset, names->sh_size, 1) : NULL;
        for (uint64_t i = 0; symbols && texts && i < count; i++) {
            const ElfW(Sym) *s = &symbols[i];
            if ((s->st_info & 15) != STT_OBJECT || address - s->st_value >= s->st_size ||
                s->st_name >= names->sh_size)
                continue;
            size_t room = names->sh_size - s->st_name;
            snprintf(name, NAME_BYTES, "%.*s", (int)strnlen(texts + s->st_name, room),
                     texts + s->st_name);
            *offset = address - s->st_value;
            return true;
        }
    }
    return false;
}

/* ---- the text -------------------------------------------------------------------------------- */

typedef struct names_text {
    char *json;
    size_t used;
} names_text;

/* C++'s names as they are written, if the program has what knows them. */
static void demangle_name(char name[NAME_BYTES])
{
    char *(*demangle)(const char *, char *, size_t *, int *);
    int status = -1;
    if (strncmp(name, "_Z", 2) != 0)
        return;
    *(void **)&demangle = dlsym(RTLD_DEFAULT, "__cxa_demangle");
    char *text = demangle ? demangle(name, NULL, NULL, &status) : NULL;
    if (text && status == 0)
        snprintf(name, NAME_BYTES, "%s", text);
    free(text);
}

static void add_name(names_text *t, uintptr_t address, char name[NAME_BYTES], uint64_t offset)
{
    demangle_name(name);
    for (char *c = name; *c; c++)
        if (*c == '"' || *c == '\\' || (unsigned char)*c < ' ')
            *c = '_';
    size_t room = JSON_BYTES - t->used;
    int n = offset ? snprintf(t->json + t->used, room, "%s\"%llu\": \"%s+%llu\"",
                              t->used > 1 ? ", " : "", (unsigned long long)address, name,
                              (unsigned long long)offset)
                   : snprintf(t->json + t->used, room, "%s\"%llu\": \"%s\"",
                              t->used > 1 ? ", " : "", (unsigned long long)address, name);
    if (n > 0 && (size_t)n + 2 < room)
        t->used += (size_t)n;
    t->json[t->used] = 0;
}

static bool has_address(const struct dl_phdr_info *info, uintptr_t address)
{
    for (uint32_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_LOAD && (p->p_flags & PF_W) &&
            address - (info->dlpi_addr + p->p_vaddr) < p->p_memsz)
            return true;
    }
    return false;
}

/* Names what is in one library. The file is mapped only if something is. */
static int add_names_of_library(struct dl_phdr_info *info, size_t size, void *context)
{
    elf_file file = {NULL, 0};
    char name[NAME_BYTES];
    uint64_t offset;
    bool tried = false;
    (void)size;
    for (uint32_t i = 0; i < SEEN; i++) {
        uintptr_t address = atomic_load_explicit(&seen[i], memory_order_relaxed);
        if (!address || !has_address(info, address))
            continue;
        if (!tried)
            (void)map_elf_file(info->dlpi_name && info->dlpi_name[0] ? info->dlpi_name
                                                                     : "/proc/self/exe",
                               &file);
        tried = true;
        if (file.data && find_variable(&file, address - info->dlpi_addr, name, &offset))
            add_name(context, address, name, offset);
    }
    if (file.data)
        (void)munmap((void *)(uintptr_t)file.data, file.size);
    return 0;
}

void cw_write_names(void)
{
    char key[40];
    void *memory =
        mmap(NULL, JSON_BYTES + 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return;
    names_text text = {memory, 1};
    text.json[0] = '{';
    (void)dl_iterate_phdr(add_names_of_library, &text);
    text.json[text.used] = '}';
    snprintf(key, sizeof key, "ckineto_locks_%d", (int)getpid());
    if (text.used > 1)
        (void)kineto_process_set_metadata(key, text.json);
    (void)munmap(memory, JSON_BYTES + 2);
}

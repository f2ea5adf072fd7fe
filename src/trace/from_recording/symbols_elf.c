/* Reads function symbols and build ids of ELF files (elf(5)). Files are untrusted: every
 * offset is checked against the size of the file, and data are read, not mapped, because
 * the file may be truncated at any time. Everything is read when the file is opened;
 * searches use tables in memory. */
#include "trace/from_recording/symbols.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_SECTION_BYTES ((uint64_t)512 << 20)
#define MAX_SECTIONS      65536u
#define MAX_SEGMENTS      4096u
#define MAX_NOTES         4096u /* in all segments and sections, which may overlap */
#define BUILD_ID_BYTES    64u
#define LINK_BYTES        256u

typedef struct function {
    uint64_t start, size;
    uint32_t name; /* in `names` */
    uint8_t rank;  /* of several functions at an address, the lowest rank is used */
} function;

struct kt_elf {
    int fd; /* -1: an image in memory, or everything was read */
    const uint8_t *image;
    uint64_t bytes;
    ElfW(Phdr) * segments;
    uint32_t segment_count, notes_seen;
    KB_VEC(function) functions; /* sorted by start, one for each address */
    char *names;                /* string tables, each terminated by NUL */
    size_t names_bytes;
    bool is_full;
    bool has_table[2]; /* the tables of exported and of all functions were read */
    uint8_t build_id[BUILD_ID_BYTES];
    uint32_t build_id_bytes;
    char debug_link[LINK_BYTES];
};

/* ---- bytes ----------------------------------------------------------------------------------- */

/* Reads a range of the file or image; false: outside, or an error. */
static bool read_elf_bytes(const kt_elf *e, uint64_t offset, void *to, uint64_t bytes)
{
    if (offset > e->bytes || bytes > e->bytes - offset)
        return false;
    if (e->fd < 0) {
        if (bytes)
            memcpy(to, e->image + offset, (size_t)bytes);
        return true;
    }
    for (uint64_t done = 0; done < bytes;) {
        ssize_t got =
            pread(e->fd, (char *)to + done, (size_t)(bytes - done), (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        done += (uint64_t)got;
    }
    return true;
}

/* A copy of a range of the file, terminated by NUL, which the caller frees; NULL: outside,
 * or too large. */
static void *load_elf_range(const kt_elf *e, uint64_t offset, uint64_t bytes)
{
    if (bytes > MAX_SECTION_BYTES || offset > e->bytes || bytes > e->bytes - offset)
        return NULL;
    char *data = malloc((size_t)bytes + 1);
    if (!data)
        return NULL;
    data[bytes] = '\0';
    if (read_elf_bytes(e, offset, data, bytes))
        return data;
    free(data);
    return NULL;
}

/* ---- segments -------------------------------------------------------------------------------- */

/* Searches the notes in a range for the build id. */
static void find_build_id(kt_elf *e, uint64_t at, uint64_t bytes)
{
    ElfW(Nhdr) note;
    char name[4];
    while (bytes >= sizeof note && e->notes_seen < MAX_NOTES &&
           read_elf_bytes(e, at, &note, sizeof note)) {
        e->notes_seen++;
        uint64_t names = kb_align(note.n_namesz, 4), body = kb_align(note.n_descsz, 4);
        uint64_t whole = sizeof note + names + body;
        if (whole > bytes)
            return;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
            read_elf_bytes(e, at + sizeof note, name, 4) && memcmp(name, "GNU", 4) == 0 &&
            note.n_descsz <= BUILD_ID_BYTES &&
            read_elf_bytes(e, at + sizeof note + names, e->build_id, note.n_descsz)) {
            e->build_id_bytes = note.n_descsz;
            return;
        }
        at += whole;
        bytes -= whole;
    }
}

/* Reads the program headers; false: malformed. */
static bool read_elf_segments(kt_elf *e, const ElfW(Ehdr) * head)
{
    if (head->e_phnum == 0)
        return true; /* as in debug files */
    if (head->e_phentsize != sizeof *e->segments || head->e_phnum > MAX_SEGMENTS)
        return false;
    e->segments = load_elf_range(e, head->e_phoff, (uint64_t)head->e_phnum * sizeof *e->segments);
    if (!e->segments)
        return false;
    e->segment_count = head->e_phnum;
    for (uint32_t i = 0; i < e->segment_count && !e->build_id_bytes; i++)
        if (e->segments[i].p_type == PT_NOTE)
            find_build_id(e, e->segments[i].p_offset, e->segments[i].p_filesz);
    return true;
}

bool kt_elf_address(const kt_elf *e, uint64_t file_offset, uint64_t *address)
{
    for (uint32_t i = 0; i < e->segment_count; i++) {
        const ElfW(Phdr) *p = &e->segments[i];
        if (p->p_type != PT_LOAD || file_offset < p->p_offset ||
            file_offset - p->p_offset >= p->p_filesz)
            continue;
        *address = file_offset - p->p_offset + p->p_vaddr;
        return true;
    }
    return false;
}

/* ---- functions ------------------------------------------------------------------------------- */

/* Rank of a symbol: global before weak before local, with a size before without. */
static uint8_t symbol_rank(const ElfW(Sym) * symbol)
{
    static const uint8_t by_binding[] = {[STB_LOCAL] = 2, [STB_GLOBAL] = 0, [STB_WEAK] = 1};
    uint8_t binding = (uint8_t)(symbol->st_info >> 4);
    uint8_t rank = binding < sizeof by_binding ? by_binding[binding] : 3;
    return (uint8_t)(rank + (symbol->st_size == 0 ? 4 : 0));
}

static bool is_function_symbol(const ElfW(Sym) * symbol)
{
    uint32_t type = symbol->st_info & 15u;
    /* Functions in assembler may have no type. */
    bool may =
        type == STT_FUNC || type == STT_GNU_IFUNC || (type == STT_NOTYPE && symbol->st_size > 0);
    return may && symbol->st_shndx != SHN_UNDEF && symbol->st_shndx != SHN_ABS &&
           symbol->st_value != 0;
}

/* Adds the functions of a symbol table; false: out of memory. */
static bool add_functions(kt_elf *e, const ElfW(Shdr) * table, const ElfW(Shdr) * strings)
{
    if (table->sh_entsize != sizeof(ElfW(Sym)) || strings->sh_type != SHT_STRTAB)
        return true;
    uint64_t count = table->sh_size / sizeof(ElfW(Sym));
    ElfW(Sym) *symbols = load_elf_range(e, table->sh_offset, count * sizeof *symbols);
    char *names = load_elf_range(e, strings->sh_offset, strings->sh_size), *all = NULL;
    bool ok = symbols && names && strings->sh_size <= UINT32_MAX / 2 - e->names_bytes;
    if (ok)
        all = realloc(e->names, e->names_bytes + (size_t)strings->sh_size + 1);
    if (all) {
        uint32_t first = (uint32_t)e->names_bytes;
        memcpy(all + first, names, (size_t)strings->sh_size + 1);
        e->names = all;
        e->names_bytes += (size_t)strings->sh_size + 1;
        for (uint64_t i = 0; ok && i < count; i++)
            if (is_function_symbol(&symbols[i]) && symbols[i].st_name < strings->sh_size &&
                names[symbols[i].st_name])
                ok = kb_vec_push(&e->functions,
                                 (function){symbols[i].st_value, symbols[i].st_size,
                                            first + symbols[i].st_name, symbol_rank(&symbols[i])});
    }
    free(symbols);
    free(names);
    return ok;
}

/* Order by address, then by rank. */
static int compare_functions(const void *a, const void *b)
{
    const function *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->size != y->size)
        return x->size > y->size ? -1 : 1;
    return (x->name > y->name) - (x->name < y->name);
}

/* Sorts the functions, and keeps the first of each address. */
static void sort_functions(kt_elf *e)
{
    if (e->functions.count == 0)
        return;
    qsort(e->functions.data, e->functions.count, sizeof e->functions.data[0], compare_functions);
    size_t kept = 0;
    for (size_t i = 1; i < e->functions.count; i++)
        if (e->functions.data[i].start != e->functions.data[kept].start)
            e->functions.data[++kept] = e->functions.data[i];
    KB_ASSERT(kept < e->functions.count);
    e->functions.count = kept + 1;
}

bool kt_elf_function(const kt_elf *e, uint64_t address, kt_elf_symbol *out)
{
    size_t i = 0;
    KB_LOWER_BOUND(i, e->functions.count, e->functions.data[i].start <= address);
    /* The nearest one may be nested inside the function that contains the address. */
    KB_ASSERT(i <= e->functions.count);
    for (size_t tries = 0; i-- > 0 && tries < 16; tries++) {
        const function *f = &e->functions.data[i];
        if (address - f->start < f->size || (f->size == 0 && tries == 0)) {
            *out = (kt_elf_symbol){kb_string(e->names + f->name), f->start, f->size};
            return true;
        }
    }
    return false;
}

/* ---- sections -------------------------------------------------------------------------------- */

/* Reads .gnu_debuglink. */
static void read_debug_link(kt_elf *e, const ElfW(Shdr) * section)
{
    uint64_t bytes = KB_MIN(section->sh_size, (uint64_t)LINK_BYTES - 1);
    if (!read_elf_bytes(e, section->sh_offset, e->debug_link, bytes))
        e->debug_link[0] = '\0';
    if (strchr(e->debug_link, '/'))
        e->debug_link[0] = '\0'; /* only a file name is accepted, not a path */
}

/* Reads a section if it is a symbol table, a note, or the debug link; false: out of memory. */
static bool read_elf_section(kt_elf *e, const ElfW(Shdr) * all, uint64_t count, uint64_t i,
                             const char *names, uint64_t names_bytes)
{
    const ElfW(Shdr) *s = &all[i];
    bool is_table = s->sh_type == SHT_SYMTAB || s->sh_type == SHT_DYNSYM;
    if (is_table && s->sh_link < count && !e->has_table[s->sh_type == SHT_SYMTAB]) {
        e->has_table[s->sh_type == SHT_SYMTAB] = true;
        size_t before = e->functions.count;
        if (!add_functions(e, s, &all[s->sh_link]))
            return false;
        e->is_full |= s->sh_type == SHT_SYMTAB && e->functions.count > before;
    }
    if (s->sh_type == SHT_NOTE && !e->build_id_bytes)
        find_build_id(e, s->sh_offset, s->sh_size);
    if (names && s->sh_name < names_bytes && strcmp(names + s->sh_name, ".gnu_debuglink") == 0)
        read_debug_link(e, s);
    return true;
}

/* The section headers of a file. */
typedef struct sections {
    ElfW(Shdr) * all; /* NULL: it has none, or they are malformed */
    uint64_t count;
    char *names;
    uint64_t names_bytes;
} sections;

static sections load_sections(const kt_elf *e, const ElfW(Ehdr) * head)
{
    sections s = {NULL, 0, NULL, 0};
    ElfW(Shdr) first;
    if (head->e_shoff == 0 || head->e_shentsize != sizeof first ||
        !read_elf_bytes(e, head->e_shoff, &first, sizeof first))
        return s;
    uint64_t count = head->e_shnum ? head->e_shnum : first.sh_size;
    uint32_t names_at = head->e_shstrndx == SHN_XINDEX ? first.sh_link : head->e_shstrndx;
    if (count == 0 || count > MAX_SECTIONS)
        return s;
    s.all = load_elf_range(e, head->e_shoff, count * sizeof *s.all);
    s.count = s.all ? count : 0;
    if (names_at < s.count)
        s.names = load_elf_range(e, s.all[names_at].sh_offset, s.all[names_at].sh_size);
    s.names_bytes = s.names ? s.all[names_at].sh_size : 0;
    return s;
}

static void free_sections(sections *s)
{
    free(s->names);
    free(s->all);
}

/* Reads the sections; missing or malformed ones are not an error. False: out of memory. */
static bool read_elf_sections(kt_elf *e, const ElfW(Ehdr) * head)
{
    sections s = load_sections(e, head);
    bool ok = true;
    for (uint64_t i = 0; ok && i < s.count; i++)
        ok = read_elf_section(e, s.all, s.count, i, s.names, s.names_bytes);
    free_sections(&s);
    sort_functions(e);
    return ok;
}

/* ---- call frame information ------------------------------------------------------------------ */

/* The section .eh_frame. False: the file has no such section header. */
static bool load_frames_by_section(const kt_elf *e, const ElfW(Ehdr) * head, kt_frames *out)
{
    sections s = load_sections(e, head);
    for (uint64_t i = 0; i < s.count && !out->bytes; i++) {
        const ElfW(Shdr) *at = &s.all[i];
        if (at->sh_type == SHT_NOBITS || at->sh_name >= s.names_bytes ||
            strcmp(s.names + at->sh_name, ".eh_frame") != 0)
            continue;
        *out = (kt_frames){load_elf_range(e, at->sh_offset, at->sh_size), (size_t)at->sh_size,
                           at->sh_addr};
    }
    free_sections(&s);
    return out->bytes != NULL;
}

/* The same by the program header PT_GNU_EH_FRAME, whose segment begins with a version (1), three
 * encodings (the first is 0x1b: 4 bytes relative to their address) and the distance to .eh_frame.
 * The size is not stated: up to the end of the loaded segment. */
static void load_frames_by_segment(const kt_elf *e, kt_frames *out)
{
    struct {
        uint8_t version, encodings[3];
        int32_t distance;
    } index;
    const ElfW(Phdr) *header = NULL;
    for (uint32_t i = 0; i < e->segment_count; i++)
        if (e->segments[i].p_type == PT_GNU_EH_FRAME)
            header = &e->segments[i];
    if (!header || !read_elf_bytes(e, header->p_offset, &index, sizeof index) ||
        index.version != 1 || index.encodings[0] != 0x1b)
        return;
    uint64_t address = header->p_vaddr + 4 + (uint64_t)(int64_t)index.distance;
    for (uint32_t i = 0; i < e->segment_count && !out->bytes; i++) {
        const ElfW(Phdr) *p = &e->segments[i];
        if (p->p_type != PT_LOAD || address < p->p_vaddr || address - p->p_vaddr >= p->p_filesz)
            continue;
        uint64_t skipped = address - p->p_vaddr, bytes = p->p_filesz - skipped;
        *out = (kt_frames){load_elf_range(e, p->p_offset + skipped, bytes), (size_t)bytes, address};
    }
}

/* ---- opening --------------------------------------------------------------------------------- */

/* True if the file has the byte order and word size of this process. */
static bool is_native_elf(const ElfW(Ehdr) * head)
{
    static const uint16_t order = 1;
    uint8_t data = *(const uint8_t *)&order ? ELFDATA2LSB : ELFDATA2MSB;
    uint8_t class = sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32;
    return memcmp(head->e_ident, ELFMAG, SELFMAG) == 0 && head->e_ident[EI_CLASS] == class &&
           head->e_ident[EI_DATA] == data;
}

/* The header and the segments. */
static kineto_status read_elf_head(kt_elf *e, const char *path, ElfW(Ehdr) * head,
                                   kineto_error *err)
{
    if (!read_elf_bytes(e, 0, head, sizeof *head) || !is_native_elf(head))
        return kb_fail(err, KINETO_E_FORMAT, "%s: not an ELF file for this machine", path);
    if (!read_elf_segments(e, head))
        return kb_fail(err, KINETO_E_FORMAT, "%s: damaged ELF file", path);
    return KINETO_OK;
}

static kineto_status read_elf_tables(kt_elf *e, const char *path, kineto_error *err)
{
    ElfW(Ehdr) head;
    kineto_status status = read_elf_head(e, path, &head, err);
    if (status)
        return status;
    if (!read_elf_sections(e, &head))
        return kb_fail(err, KINETO_E_MEMORY, "symbols of %s: out of memory", path);
    return KINETO_OK;
}

/* Only the segments, and the call frame information. */
static kineto_status read_elf_frames(kt_elf *e, const char *path, kt_frames *frames,
                                     kineto_error *err)
{
    ElfW(Ehdr) head;
    kineto_status status = read_elf_head(e, path, &head, err);
    if (status)
        return status;
    if (!load_frames_by_section(e, &head, frames))
        load_frames_by_segment(e, frames);
    return KINETO_OK;
}

/* Reads all tables (frames NULL) or frames, and closes the file. Frees `e` on failure. */
static kineto_status finish_elf_open(kt_elf *e, const char *path, kt_frames *frames, kt_elf **out,
                                     kineto_error *err)
{
    kineto_status status =
        frames ? read_elf_frames(e, path, frames, err) : read_elf_tables(e, path, err);
    if (e->fd >= 0)
        close(e->fd);
    e->fd = -1;
    e->bytes = 0; /* nothing is read any more */
    if (status != KINETO_OK) {
        kt_elf_close(e);
        return status;
    }
    *out = e;
    return KINETO_OK;
}

static kineto_status open_elf_file(const char *path, kt_frames *frames, kt_elf **out,
                                   kineto_error *err)
{
    struct stat st;
    *out = NULL;
    /* O_NONBLOCK: opening a FIFO must not wait. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return kb_fail_os(err, errno, "cannot open %s", path);
    kt_elf *e = NULL;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return kb_fail(err, KINETO_E_FORMAT, "%s: not a regular file", path);
    }
    e = calloc(1, sizeof *e);
    if (!e) {
        close(fd);
        return kb_fail(err, KINETO_E_MEMORY, "symbols of %s: out of memory", path);
    }
    e->fd = fd;
    e->bytes = (uint64_t)st.st_size;
    return finish_elf_open(e, path, frames, out, err);
}

kineto_status kt_elf_open(const char *path, kt_elf **out, kineto_error *err)
{
    return open_elf_file(path, NULL, out, err);
}

kineto_status kt_elf_open_frames(const char *path, kt_elf **out, kt_frames *frames,
                                 kineto_error *err)
{
    *frames = (kt_frames){NULL, 0, 0};
    return open_elf_file(path, frames, out, err);
}

static kineto_status open_elf_image(const void *image, size_t bytes, kt_frames *frames,
                                    kt_elf **out, kineto_error *err)
{
    *out = NULL;
    kt_elf *e = calloc(1, sizeof *e);
    if (!e)
        return kb_fail_memory(err, "symbols of an image");
    e->fd = -1;
    e->image = image;
    e->bytes = bytes;
    return finish_elf_open(e, "the image", frames, out, err);
}

kineto_status kt_elf_open_memory(const void *image, size_t bytes, kt_elf **out, kineto_error *err)
{
    return open_elf_image(image, bytes, NULL, out, err);
}

/* Its section headers are at its end. */
kineto_status kt_elf_open_vdso(kt_elf **out, kt_frames *frames, kineto_error *err)
{
    const ElfW(Ehdr) *image = (const ElfW(Ehdr) *)(uintptr_t)getauxval(AT_SYSINFO_EHDR);
    *out = NULL;
    if (!image)
        return kb_fail(err, KINETO_E_UNSUPPORTED, "this process has no vdso");
    size_t bytes = (size_t)image->e_shoff + (size_t)image->e_shnum * image->e_shentsize;
    return open_elf_image(image, bytes, frames, out, err);
}

void kt_elf_close(kt_elf *e)
{
    if (!e)
        return;
    if (e->fd >= 0)
        close(e->fd);
    free(e->segments);
    kb_vec_free(&e->functions);
    free(e->names);
    free(e);
}

kineto_string kt_elf_build_id(const kt_elf *e)
{
    return (kineto_string){(const char *)e->build_id, e->build_id_bytes};
}

bool kt_elf_is_full(const kt_elf *e) { return e->is_full; }

kineto_string kt_elf_debug_link(const kt_elf *e) { return kb_string(e->debug_link); }

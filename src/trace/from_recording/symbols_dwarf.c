/* Debug information (DWARF) of program files, by libdw of elfutils: source lines, and the units in which
 * symbols_inlined.c looks for inlined functions. A build without libdw (KT_WITH_DW) has none. Used by
 * symbols.c, from one thread. */
#include "trace/from_recording/symbols_dwarf.h"

#ifdef KT_WITH_DW
#include <fcntl.h>
#include <gelf.h>
#include <unistd.h>

#define MAX_INFLATED_BYTES ((uint64_t)512 << 20)

bool kt_dwarf_is_read(void) { return true; }

/* libdw inflates all compressed sections as soon as it opens a file. */
static bool may_be_inflated(Elf *elf)
{
    uint64_t sum = 0;
    Elf_Scn *section = NULL;
    GElf_Shdr header;
    GElf_Chdr compressed;
    while ((section = elf_nextscn(elf, section)) != NULL) {
        if (!gelf_getshdr(section, &header) || !(header.sh_flags & SHF_COMPRESSED))
            continue;
        if (!gelf_getchdr(section, &compressed) || compressed.ch_size > MAX_INFLATED_BYTES - sum)
            return false;
        sum += compressed.ch_size;
    }
    return true;
}

kt_dwarf *kt_dwarf_open(const char *path)
{
    kt_dwarf *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    (void)elf_version(EV_CURRENT);
    d->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    d->elf = d->fd >= 0 ? elf_begin(d->fd, ELF_C_READ_MMAP, NULL) : NULL;
    if (d->elf && may_be_inflated(d->elf))
        d->dwarf = dwarf_begin_elf(d->elf, DWARF_C_READ, NULL);
    Dwarf_Off next;
    size_t header_bytes;
    if (!d->dwarf || dwarf_next_unit(d->dwarf, 0, &next, &header_bytes, NULL, NULL, NULL, NULL, NULL, NULL) != 0) {
        kt_dwarf_close(d); /* it has none, or only that of exceptions */
        return NULL;
    }
    return d;
}

void kt_dwarf_close(kt_dwarf *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < d->units.count; i++) {
        kb_vec_free(&d->units.data[i].functions);
        kb_vec_free(&d->units.data[i].inlined);
        kb_vec_free(&d->units.data[i].scopes);
        kb_map_free(&d->units.data[i].scope_of);
    }
    kb_map_free(&d->names);
    kb_arena_free(&d->texts);
    kb_vec_free(&d->units);
    kb_vec_free(&d->ranges);
    if (d->dwarf)
        dwarf_end(d->dwarf);
    if (d->elf)
        elf_end(d->elf);
    if (d->fd >= 0)
        close(d->fd);
    free(d);
}

/* ---- units ----------------------------------------------------------------------------------- */

/* Adds the code of a unit. Functions that the linker left out are at 0. False: out of memory. */
static bool add_unit_ranges(kt_dwarf *d, uint32_t unit)
{
    Dwarf_Addr base, start, end;
    ptrdiff_t at = 0;
    while ((at = dwarf_ranges(&d->units.data[unit].entry, at, &base, &start, &end)) > 0)
        if (start && start < end && !kb_vec_push(&d->ranges, ((kt_dwarf_range){start, end, unit})))
            return false;
    return true;
}

static int compare_ranges(const void *left, const void *right)
{
    const kt_dwarf_range *a = left, *b = right;
    return a->start != b->start ? KB_COMPARE(a->start, b->start) : KB_COMPARE(a->unit, b->unit);
}

/* Lists the units with code: the file's own table of them (.debug_aranges) is missing where Clang made
 * it. False: out of memory. */
static bool list_units(kt_dwarf *d)
{
    Dwarf_Off at = 0, next;
    size_t header_bytes;
    bool ok = true;
    for (; ok && dwarf_next_unit(d->dwarf, at, &next, &header_bytes, NULL, NULL, NULL, NULL, NULL, NULL) == 0 &&
           next > at;
         at = next) {
        kt_dwarf_unit unit = {.bytes = next - at};
        if (!dwarf_offdie(d->dwarf, at + header_bytes, &unit.entry))
            continue;
        int tag = dwarf_tag(&unit.entry);
        if (tag == DW_TAG_compile_unit || tag == DW_TAG_skeleton_unit)
            ok = kb_vec_push(&d->units, unit) && add_unit_ranges(d, (uint32_t)d->units.count - 1);
    }
    if (d->ranges.count)
        qsort(d->ranges.data, d->ranges.count, sizeof *d->ranges.data, compare_ranges);
    return ok;
}

kt_dwarf_unit *kt_dwarf_unit_at(kt_dwarf *d, uint64_t address)
{
    size_t after = 0;
    if (!d->has_units && !list_units(d))
        d->ranges.count = 0;
    d->has_units = true;
    KB_LOWER_BOUND(after, d->ranges.count, d->ranges.data[after].start <= address);
    if (after == 0 || address >= d->ranges.data[after - 1].end)
        return NULL;
    return &d->units.data[d->ranges.data[after - 1].unit];
}

bool kt_dwarf_line(kt_dwarf *d, uint64_t address, const char **file, uint32_t *line)
{
    int number = 0;
    kt_dwarf_unit *unit = kt_dwarf_unit_at(d, address);
    Dwarf_Line *found = unit ? dwarf_getsrc_die(&unit->entry, address) : NULL;
    *file = found && dwarf_lineno(found, &number) == 0 ? dwarf_linesrc(found, NULL, NULL) : NULL;
    *line = number > 0 ? (uint32_t)number : 0;
    return *file && *line;
}

#else
bool kt_dwarf_is_read(void) { return false; }

kt_dwarf *kt_dwarf_open(const char *path)
{
    (void)path;
    return NULL;
}

void kt_dwarf_close(kt_dwarf *d) { (void)d; }

bool kt_dwarf_line(kt_dwarf *d, uint64_t address, const char **file, uint32_t *line)
{
    (void)d, (void)address, (void)file, (void)line;
    return false;
}
#endif

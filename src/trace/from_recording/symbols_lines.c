/* Source files and lines from DWARF, by libdw of elfutils; a build without libdw
 * (KT_WITH_DW) has none. Used by symbols.c, from one thread. */
#include "trace/from_recording/symbols.h"

#ifdef KT_WITH_DW
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <unistd.h>

struct kt_lines {
    Dwfl *dwfl;
    Dwfl_Module *module;
};

/* Callback of libdwfl: opens the debug file by build id. The default callback would also
 * query debuginfod servers on the network. */
static int find_debuginfo(Dwfl_Module *module, void **user, const char *name, Dwarf_Addr base,
                          const char *file, const char *link, GElf_Word crc, char **path)
{
    const unsigned char *id;
    GElf_Addr where;
    char text[256] = "/usr/lib/debug/.build-id/";
    int bytes = dwfl_module_build_id(module, &id, &where);
    (void)user, (void)name, (void)base, (void)file, (void)link, (void)crc;
    if (bytes < 3 || bytes > 64)
        return -1;
    char *at = text + strlen(text);
    for (int i = 0; i < bytes; i++)
        at += sprintf(at, i == 0 ? "%02x/" : "%02x", id[i]);
    memcpy(at, ".debug", sizeof ".debug");
    int fd = open(text, O_RDONLY | O_CLOEXEC);
    *path = fd >= 0 ? strdup(text) : NULL;
    return fd;
}

kt_lines *kt_lines_open(const char *path)
{
    static const Dwfl_Callbacks callbacks = {.find_debuginfo = find_debuginfo,
                                             .section_address = dwfl_offline_section_address};
    kt_lines *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->dwfl = dwfl_begin(&callbacks);
    if (l->dwfl) {
        l->module = dwfl_report_elf(l->dwfl, path, path, -1, 0, true);
        dwfl_report_end(l->dwfl, NULL, NULL);
    }
    Dwarf_Addr bias;
    if (!l->module || !dwfl_module_getdwarf(l->module, &bias)) {
        kt_lines_close(l);
        return NULL;
    }
    return l;
}

void kt_lines_close(kt_lines *l)
{
    if (!l)
        return;
    if (l->dwfl)
        dwfl_end(l->dwfl);
    free(l);
}

/* Clang writes no table of the units' addresses (.debug_aranges), so the units themselves are asked. */
static const char *find_line_by_units(kt_lines *l, uint64_t address, int *number)
{
    Dwarf_Addr bias;
    Dwarf_Die *unit = NULL;
    while ((unit = dwfl_module_nextcu(l->module, unit, &bias)) != NULL) {
        if (dwarf_haspc(unit, address - bias) <= 0)
            continue;
        Dwarf_Line *line = dwarf_getsrc_die(unit, address - bias);
        if (line && dwarf_lineno(line, number) == 0)
            return dwarf_linesrc(line, NULL, NULL);
    }
    return NULL;
}

bool kt_lines_find(kt_lines *l, uint64_t address, const char **file, uint32_t *line)
{
    int number = 0;
    Dwfl_Line *found = dwfl_module_getsrc(l->module, address);
    if (found)
        *file = dwfl_lineinfo(found, NULL, &number, NULL, NULL, NULL);
    else
        *file = find_line_by_units(l, address, &number);
    *line = number > 0 ? (uint32_t)number : 0;
    return *file && *line;
}

#else
kt_lines *kt_lines_open(const char *path)
{
    (void)path;
    return NULL;
}

void kt_lines_close(kt_lines *l) { (void)l; }

bool kt_lines_find(kt_lines *l, uint64_t address, const char **file, uint32_t *line)
{
    (void)l, (void)address, (void)file, (void)line;
    return false;
}
#endif

/* The start and end of the source: settings, the code of the recorder, what goes to the ledger. */
#include "waits.h"

#include <link.h>
#include <stdlib.h>
#include <string.h>

uint32_t cw_threshold_us = CW_THRESHOLD_US;
uint64_t cw_threshold_ns = CW_THRESHOLD_US * UINT64_C(1000);

/* ---- the recorder's own code ----------------------------------------------------------------- */

/* Mapped libraries of the recorder: this one, libckineto-rt, other sources. Those that are loaded
 * later are not among them. */
#define MAX_OWN 16u
typedef struct code_range {
    uintptr_t start, end;
} code_range;
static code_range own[MAX_OWN];
static uint32_t own_count;

static bool is_recorder_library(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    return strncmp(name, "libckineto", 10) == 0 || strncmp(name, "ckineto-", 8) == 0;
}

static int add_recorder_library(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size, (void)context;
    if (own_count == MAX_OWN || !info->dlpi_name || !is_recorder_library(info->dlpi_name))
        return 0;
    code_range range = {UINTPTR_MAX, 0};
    for (uint32_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_X))
            continue;
        uintptr_t start = info->dlpi_addr + p->p_vaddr;
        range.start = start < range.start ? start : range.start;
        range.end = start + p->p_memsz > range.end ? start + p->p_memsz : range.end;
    }
    if (range.end)
        own[own_count++] = range;
    return 0;
}

/* libckineto-rt attaches in its constructor, which comes before ours: the first call may be its own. */
bool cw_is_recorder(const void *caller)
{
    uintptr_t at = (uintptr_t)caller;
    if (!own_count)
        (void)dl_iterate_phdr(add_recorder_library, NULL);
    for (uint32_t i = 0; i < own_count; i++)
        if (at >= own[i].start && at < own[i].end)
            return true;
    return false;
}

/* ---- settings, start and end ----------------------------------------------------------------- */

/* Microseconds; an invalid number is the default. */
static void read_threshold(void)
{
    const char *text = secure_getenv("CKINETO_WAITS_US");
    uint64_t us = 0;
    if (!text || !*text)
        return;
    for (; *text >= '0' && *text <= '9' && us < UINT32_MAX; text++)
        us = us * 10 + (uint64_t)(*text - '0');
    if (*text)
        return;
    cw_threshold_us = us < UINT32_MAX ? (uint32_t)us : UINT32_MAX;
    cw_threshold_ns = us * 1000;
}

/* The recorder's own constructor has run: we need its library. */
__attribute__((constructor)) static void start_waits_source(void)
{
    int saved = errno;
    cw_find_functions();
    cw_find_jumps();
    read_threshold();
    cw_lock_holder_start();
    cw_short_calls_start();
    errno = saved;
}

__attribute__((destructor)) static void end_waits_source(void)
{
    int saved = errno;
    if (cw_is_recording())
        cw_write_short_calls();
    if (cw_is_recording() && !cw_is_confined())
        cw_write_names();
    errno = saved;
}

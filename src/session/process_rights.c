/* Why /proc does not show the program of a process: by whose it is, and what it may do, which is in
 * /proc/PID/status for all to read. */
#include "session/session.h"

#include <unistd.h>

/* The numbers of a line, as many as there is room for. @return how many there are. */
static uint32_t read_numbers(const char *status, const char *line, int base, uint64_t *out, uint32_t room)
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

/* Real, effective, saved and of files: set-uid and set-gid leave the real one. */
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

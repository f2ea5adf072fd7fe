/* Explains why the daemon cannot bind its socket name: finds the owner, by the socket's inode in
 * /proc/net/unix and the process that has a descriptor of it. */
#include "ondemand/dynolog/dyno.h"

#include <dirent.h>
#include <unistd.h>

/* The inode of the socket with this name; 0: unknown. */
static uint64_t find_socket_inode(const char *shown)
{
    char line[512];
    unsigned long long number = 0;
    FILE *f = fopen("/proc/net/unix", "re");
    if (!f)
        return 0;
    while (!number && fgets(line, sizeof line, f)) {
        char name[KO_DYNO_NAME_BYTES + 8] = "";
        unsigned long long found;
        if (sscanf(line, "%*s %*s %*s %*s %*s %*s %llu %114[^\n]", &found, name) == 2 &&
            strcmp(name, shown) == 0)
            number = found;
    }
    fclose(f);
    return number;
}

static bool process_has_socket(const char *pid, const char *target)
{
    char path[64], link[64];
    snprintf(path, sizeof path, "/proc/%.20s/fd", pid);
    DIR *all = opendir(path);
    bool found = false;
    if (!all)
        return false;
    for (struct dirent *e; !found && (e = readdir(all));) {
        ssize_t n = readlinkat(dirfd(all), e->d_name, link, sizeof link - 1);
        link[KB_MAX(n, 0)] = '\0';
        found = strcmp(link, target) == 0;
    }
    closedir(all);
    return found;
}

/* Only root can see other users' descriptors. 0: unknown. */
static uint32_t find_socket_owner(uint64_t number)
{
    char target[64];
    uint32_t pid = 0;
    DIR *all = number ? opendir("/proc") : NULL;
    if (!all)
        return 0;
    snprintf(target, sizeof target, "socket:[%llu]", (unsigned long long)number);
    for (struct dirent *e; !pid && (e = readdir(all));)
        if (kb_is_digit(e->d_name[0]) && process_has_socket(e->d_name, target))
            pid = (uint32_t)strtoul(e->d_name, NULL, 10);
    closedir(all);
    return pid;
}

/* `name` is the kernel's, at most 15 characters. */
static const char *advice_for_owner(const char *name)
{
    if (strncmp(name, "dynolog", 7) == 0)
        return "Dynolog's daemon serves processes already, and 'ckineto trigger' talks to it";
    if (strcmp(name, "ckineto") == 0)
        return "another 'ckineto daemon' or a 'ckineto trigger' serves processes already";
    return "end it, or use another directory (--socket-dir)";
}

kineto_status ko_dyno_explain_bind_error(const char *shown, kineto_error *err)
{
    char name[64] = "";
    uint32_t pid = find_socket_owner(find_socket_inode(shown));
    if (!pid)
        return kb_fail(err, KINETO_E_BUSY,
                       "the socket %s is in use, perhaps by dynologd or another 'ckineto daemon'; "
                       "the owner is not visible to this user, run 'sudo ss -xlp'",
                       shown);
    (void)kb_os_process_name(pid, name, sizeof name);
    return kb_fail(err, KINETO_E_BUSY, "the socket %s is in use by process %u (%s); %s", shown, pid,
                   name, advice_for_owner(name));
}

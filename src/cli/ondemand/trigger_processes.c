/* Who can be asked: what /proc tells of processes, and of the sockets that they ask Dynolog with.
 */
#include "cli/ondemand/traceable.h"
#include "cli/ondemand/trigger.h"
#include "ondemand/control_wire.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- what /proc tells ------------------------------------------------------------------------ */

bool kc_process_setting(uint32_t pid, const char *name, char *out, size_t size)
{
    enum { MOST_BYTES = 1 << 18 }; /* no environment is larger, nearly */
    char path[32], *all = malloc(MOST_BYTES);
    size_t name_bytes = strlen(name);
    bool found = false;
    snprintf(path, sizeof path, "/proc/%u/environ", pid);
    size_t bytes = all ? kb_os_read_file(path, all, MOST_BYTES) : 0;
    for (size_t at = 0; !found && at < bytes; at += strlen(all + at) + 1) {
        found = strncmp(all + at, name, name_bytes) == 0 && all[at + name_bytes] == '=';
        if (found)
            snprintf(out, size, "%s", all + at + name_bytes + 1);
    }
    free(all);
    return found;
}

bool kc_process_user(uint32_t pid, uint32_t *user)
{
    char path[32];
    struct stat st;
    snprintf(path, sizeof path, "/proc/%u", pid);
    if (stat(path, &st) != 0)
        return false;
    *user = st.st_uid;
    return true;
}

bool kc_has_socket(uint32_t pid)
{
    char directory[KO_REQUEST_PATH_BYTES];
    struct sockaddr_un at;
    kineto_error none;
    return ko_control_directory(false, directory, &none) == KINETO_OK &&
           ko_control_address(directory, pid, false, &at, &none) == KINETO_OK &&
           access(at.sun_path, F_OK) == 0;
}

double kc_age_s(uint64_t born)
{
    double up_s = (double)kb_clock_ns(CLOCK_BOOTTIME) / 1e9;
    return up_s - (double)born / (double)sysconf(_SC_CLK_TCK);
}

int64_t kc_process_job(uint32_t pid)
{
    char text[32];
    return kc_process_setting(pid, "SLURM_JOB_ID", text, sizeof text) ? strtoll(text, NULL, 10) : 0;
}

bool kc_matches(const kc_request *request, const int32_t *pids, uint32_t count, int64_t job)
{
    if (request->all)
        return true;
    if (request->has_job)
        return job == request->job;
    for (uint32_t i = 0; i < count; i++)
        for (size_t k = 0; k < request->pids.count; k++)
            if (pids[i] == request->pids.data[k])
                return true;
    return false;
}

bool kc_process_matches(const kc_request *request, uint32_t pid)
{
    int32_t pids[KO_DYNO_MOST_PIDS];
    if (pid == (uint32_t)getpid())
        return false;
    uint32_t count = ko_dyno_ancestors(pid, pids);
    return kc_matches(request, pids, count, request->has_job ? kc_process_job(pid) : 0);
}

/* ---- who may come yet ------------------------------------------------------------------------ */

/* A shell that has just forked is not yet the program, nor is a program that has just begun ready.
 */
static bool is_young(uint32_t pid)
{
    enum { YOUNG_S = 3 };
    return kc_age_s(kb_os_start_time(pid)) < YOUNG_S;
}

/* A control socket is opened when the library is loaded, in Python as late as by an import. */
static bool will_ask(const kc_trigger_run *run, uint32_t pid)
{
    char words[256];
    if (kc_process_setting(pid, "KINETO_USE_DAEMON", words, sizeof words))
        return true;
    return kc_process_setting(pid, "CKINETO_CONTROL", words, sizeof words) &&
           (strstr(words, "daemon") || (kc_retry_ns(run->request) && strstr(words, "socket")));
}

bool kc_may_still_poll(const kc_trigger_run *run, uint32_t pid)
{
    kc_request it = {.pids = {.data = &(int32_t){(int32_t)pid}, .count = 1}};
    bool may = run->hidden > 0;
    for (size_t i = 0; !may && i < run->endpoints.count; i++)
        may = !run->endpoints.data[i].pid || kc_process_matches(&it, run->endpoints.data[i].pid);
    DIR *all = may ? NULL : opendir("/proc");
    for (struct dirent *e; all && !may && (e = readdir(all));) {
        uint32_t other = (uint32_t)strtoul(e->d_name, NULL, 10);
        may = other && kc_process_matches(&it, other) && (is_young(other) || will_ask(run, other));
    }
    if (all)
        closedir(all);
    return may;
}

/* ---- targets --------------------------------------------------------------------------------- */

static bool answers_for(const kc_target *t, uint32_t pid)
{
    for (uint32_t i = 0; i < t->served_count; i++)
        if (t->served[i] == pid)
            return true;
    return t->pid == pid;
}

kc_target *kc_target_find(const kc_trigger_run *run, uint32_t pid)
{
    for (size_t i = 0; i < run->targets.count; i++)
        if (answers_for(run->targets.data[i], pid))
            return run->targets.data[i];
    return NULL;
}

static kc_target *target_new(uint32_t pid, int64_t job, kc_via via)
{
    kc_target *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->pid = pid;
    t->job = job;
    t->via = via;
    t->activities = KC_NOT_GIVEN;
    t->born = kb_os_start_time(pid);
    (void)kb_os_process_name(pid, t->name, sizeof t->name);
    return t;
}

kc_target *kc_target_add(kc_trigger_run *run, uint32_t pid, int64_t job, kc_via via)
{
    if (run->targets.count >= run->request->limit) {
        if (!run->over_limit)
            kc_show_message("more than %llu processes match: the others are not asked (--limit)",
                         (unsigned long long)run->request->limit);
        run->over_limit = true;
        return NULL;
    }
    kc_target *t = target_new(pid, job, via);
    if (t && !kb_vec_push(&run->targets, t)) {
        free(t);
        t = NULL;
    }
    return t;
}

void kc_target_fail(kc_target *t, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(t->why, sizeof t->why, fmt, args);
    va_end(args);
    t->state = KC_FAILED;
}

const char *kc_target_state_name(kc_target_state state)
{
    static const char *const words[] = {"found",   "asked", "has the request", "warm-up", "collect",
                                        "process", "done",  "failed"};
    return (size_t)state < KB_COUNT(words) ? words[state] : "?";
}

/* ---- endpoints: sockets called dynoconfigclient… --------------------------------------------- */

/* Is this the name of a client, of those who ask where we look? */
static bool is_client(const char *name, const char *directory)
{
    size_t size = directory ? strlen(directory) : 0;
    if (!directory)
        return strncmp(name, "@" KO_DYNO_CLIENT, strlen("@" KO_DYNO_CLIENT)) == 0;
    while (size > 0 && directory[size - 1] == '/')
        size--;
    if (strncmp(name, directory, size) != 0 || name[size] != '/')
        return false;
    name += size + strspn(name + size, "/");
    return strncmp(name, KO_DYNO_CLIENT, strlen(KO_DYNO_CLIENT)) == 0;
}

static void read_sockets(kc_trigger_run *run)
{
    char line[512];
    FILE *f = fopen("/proc/net/unix", "re");
    while (f && fgets(line, sizeof line, f)) {
        char name[KO_DYNO_NAME_BYTES + 8] = "";
        unsigned long long inode;
        if (sscanf(line, "%*s %*s %*s %*s %*s %*s %llu %114[^\n]", &inode, name) == 2 &&
            is_client(name, run->request->socket_directory))
            (void)kb_vec_push(&run->endpoints, (kc_endpoint){.inode = inode});
    }
    if (f)
        fclose(f);
}

static void note_owner(kc_trigger_run *run, uint64_t inode, uint32_t pid)
{
    for (size_t i = 0; i < run->endpoints.count; i++)
        if (run->endpoints.data[i].inode == inode && !run->endpoints.data[i].pid)
            run->endpoints.data[i].pid = pid;
}

static void look_at_descriptors(kc_trigger_run *run, uint32_t pid)
{
    char path[32], link[64];
    snprintf(path, sizeof path, "/proc/%u/fd", pid);
    DIR *all = opendir(path);
    for (struct dirent *e; all && (e = readdir(all));) {
        ssize_t n = readlinkat(dirfd(all), e->d_name, link, sizeof link - 1);
        unsigned long long inode;
        link[KB_MAX(n, 0)] = '\0';
        if (sscanf(link, "socket:[%llu]", &inode) == 1)
            note_owner(run, inode, pid);
    }
    if (all)
        closedir(all);
}

static void find_owners(kc_trigger_run *run)
{
    DIR *all = opendir("/proc");
    for (struct dirent *e; all && (e = readdir(all));)
        if (isdigit((unsigned char)e->d_name[0]))
            look_at_descriptors(run, (uint32_t)strtoul(e->d_name, NULL, 10));
    if (all)
        closedir(all);
}

/* Those that cannot be seen may be wanted only if all are. */
static bool endpoint_wanted(const kc_trigger_run *run, const kc_endpoint *e)
{
    return e->pid ? kc_process_matches(run->request, e->pid) : run->request->all && geteuid() == 0;
}

void kc_find_endpoints(kc_trigger_run *run)
{
    size_t kept = 0;
    run->endpoints.count = 0;
    read_sockets(run);
    if (run->endpoints.count)
        find_owners(run);
    run->hidden = 0;
    for (size_t i = 0; i < run->endpoints.count; i++) {
        kc_endpoint e = run->endpoints.data[i];
        run->hidden += !e.pid;
        if (endpoint_wanted(run, &e))
            run->endpoints.data[kept++] = e;
    }
    run->endpoints.count = kept;
}

/* ---- for somebody who named nothing ---------------------------------------------------------- */

static void print_process(FILE *out, int64_t pid, const char *name, const char *how)
{
    fprintf(out, "  %lld ", (long long)pid);
    kc_put_name(out, kb_string(name), 0);
    fprintf(out, ": %s\n", how);
}

static bool is_listed(const kc_traceable *r, uint32_t pid)
{
    for (size_t i = 0; i < r->processes.count; i++)
        if (r->processes.data[i].pid == pid)
            return true;
    return false;
}

static void print_known(const kc_traceable *r, FILE *out)
{
    for (size_t i = 0; i < r->processes.count; i++) {
        const kc_process *p = &r->processes.data[i];
        print_process(out, p->pid, p->name,
                      p->has_socket ? "has a control socket" : "asks the daemon");
    }
}

static size_t print_endpoints(const kc_request *request, const kc_traceable *known, FILE *out)
{
    kc_request everybody = {.all = true, .socket_directory = request->socket_directory};
    kc_trigger_run run = {.request = &everybody};
    kc_find_endpoints(&run);
    size_t count = run.hidden;
    for (size_t i = 0; i < run.endpoints.count; i++) {
        char name[64] = "";
        uint32_t pid = run.endpoints.data[i].pid;
        if (!pid || is_listed(known, pid))
            continue;
        (void)kb_os_process_name(pid, name, sizeof name);
        print_process(out, pid, name, "asks Dynolog's socket");
        count++;
    }
    if (run.hidden)
        fprintf(out, "  %zu more, of other users or in containers, ask Dynolog's socket\n",
                run.hidden);
    kb_vec_free(&run.endpoints);
    return count;
}

void kc_print_traceable(const kc_request *request, FILE *out)
{
    const ko_rpc_daemon daemon = {.limit_ms = 1000};
    kc_traceable known = {0};
    kineto_error err;
    fputs("Processes that can be asked here:\n", out);
    (void)kc_traceable_add_sockets(&known, &err);
    (void)kc_traceable_add_daemon(&known, &daemon, true, &err);
    print_known(&known, out);
    size_t others = print_endpoints(request, &known, out);
    if (!others && !known.processes.count)
        fputs("  none. Programs linked with ckineto listen with CKINETO_CONTROL=socket in their\n"
              "  environment, PyTorch with KINETO_USE_DAEMON=1; any other program can be started\n"
              "  by 'ckineto record --on-demand -- PROGRAM'.\n",
              out);
    kc_traceable_free(&known);
}

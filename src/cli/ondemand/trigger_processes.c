/* Processes as /proc shows them: environments, users, ages, the sockets that processes poll Dynolog
 * with; and the list of targets. */
#include "cli/ondemand/traceable.h"
#include "cli/ondemand/trigger.h"
#include "ondemand/wire/control_wire.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- /proc ----------------------------------------------------------------------------------- */

/* Reads /proc/PID/environ, the environment at the start of the process. */
bool kc_process_setting(uint32_t pid, const char *name, char *out, size_t size)
{
    enum { MAX_BYTES = 1 << 18 }; /* larger environments are cut */
    char path[32], *all = malloc(MAX_BYTES);
    size_t name_bytes = strlen(name);
    bool found = false;
    snprintf(path, sizeof path, "/proc/%u/environ", pid);
    size_t bytes = all ? kb_os_read_file(path, all, MAX_BYTES) : 0;
    for (size_t at = 0; !found && at < bytes; at += strlen(all + at) + 1) {
        found = strncmp(all + at, name, name_bytes) == 0 && all[at + name_bytes] == '=';
        if (found)
            snprintf(out, size, "%s", all + at + name_bytes + 1);
    }
    free(all);
    return found;
}

/* The owner of /proc/PID. */
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

/* A file may be left from a process that was killed. */
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

/* Selected by --all, by job, or by any of its pids. */
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

/* This command itself never matches. */
bool kc_process_matches(const kc_request *request, uint32_t pid)
{
    int32_t pids[KO_DYNO_MAX_PIDS];
    if (pid == (uint32_t)getpid())
        return false;
    uint32_t count = ko_dyno_ancestors(pid, pids);
    return kc_matches(request, pids, count, request->has_job ? kc_process_job(pid) : 0);
}

/* ---- processes that may still poll ----------------------------------------------------------- */

/* A shell that has just forked is not yet the program, and a program that has just started is not
 * ready. */
static bool is_just_started(uint32_t pid)
{
    enum { YOUNG_S = 3 };
    return kc_age_s(kb_os_start_time(pid)) < YOUNG_S;
}

/* Does the environment of the process make it poll, or open a control socket when its library
 * is loaded? In Python that may be as late as an import. */
static bool is_polling_configured(const kc_trigger_run *run, uint32_t pid)
{
    char words[256];
    if (kc_process_setting(pid, "KINETO_USE_DAEMON", words, sizeof words))
        return true;
    return kc_process_setting(pid, "CKINETO_CONTROL", words, sizeof words) &&
           (strstr(words, "daemon") || (kc_retry_ns(run->request) && strstr(words, "socket")));
}

/* Reads the environments of the process and its descendants, which is slow: the caller limits the
 * rate. */
bool kc_may_still_poll(const kc_trigger_run *run, uint32_t pid)
{
    kc_request it = {.pids = {.data = &(int32_t){(int32_t)pid}, .count = 1}};
    bool may = run->hidden > 0;
    for (size_t i = 0; !may && i < run->endpoints.count; i++)
        may = !run->endpoints.data[i].pid || kc_process_matches(&it, run->endpoints.data[i].pid);
    DIR *all = may ? NULL : opendir("/proc");
    for (struct dirent *e; all && !may && (e = readdir(all));) {
        uint32_t other = (uint32_t)strtoul(e->d_name, NULL, 10);
        may = other && kc_process_matches(&it, other) &&
              (is_just_started(other) || is_polling_configured(run, other));
    }
    if (all)
        closedir(all);
    return may;
}

/* ---- targets --------------------------------------------------------------------------------- */

/* A target may stand for several processes: a recorder answers for all programs that it
 * records. */
static bool does_target_serve(const kc_target *t, uint32_t pid)
{
    for (uint32_t i = 0; i < t->served_count; i++)
        if (t->served[i] == pid)
            return true;
    return t->pid == pid;
}

kc_target *kc_target_find(const kc_trigger_run *run, uint32_t pid)
{
    for (size_t i = 0; i < run->targets.count; i++)
        if (does_target_serve(run->targets.data[i], pid))
            return run->targets.data[i];
    return NULL;
}

/* NULL: out of memory. */
static kc_target *create_target(uint32_t pid, int64_t job, kc_via via)
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

/* --limit is reported once. */
kc_target *kc_target_add(kc_trigger_run *run, uint32_t pid, int64_t job, kc_via via)
{
    if (run->targets.count >= run->request->limit) {
        if (!run->over_limit)
            kc_show_message("more than %llu processes match: the others get no request (--limit)",
                            (unsigned long long)run->request->limit);
        run->over_limit = true;
        return NULL;
    }
    kc_target *t = create_target(pid, job, via);
    if (t && !kb_vec_push(&run->targets, t)) {
        free(t);
        t = NULL;
    }
    return t;
}

/* The first reason is final: a failed target is not followed any more. */
void kc_target_fail(kc_target *t, const char *fmt, ...)
{
    KB_ASSERT(t->state != KC_FAILED); /* DONE may fail: its trace could not be moved, or is empty */
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

/* Is this the name of a socket of Dynolog's clients, in the directory that we serve? */
static bool is_client_name(const char *name, const char *directory)
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

/* Inodes of clients' sockets; their owners are found later. */
static void read_unix_sockets(kc_trigger_run *run)
{
    char line[512];
    FILE *f = fopen("/proc/net/unix", "re");
    while (f && fgets(line, sizeof line, f)) {
        char name[KO_DYNO_NAME_BYTES + 8] = "";
        unsigned long long inode;
        if (sscanf(line, "%*s %*s %*s %*s %*s %*s %llu %114[^\n]", &inode, name) == 2 &&
            is_client_name(name, run->request->socket_directory))
            (void)kb_vec_push(&run->endpoints, (kc_endpoint){.inode = inode});
    }
    if (f)
        fclose(f);
}

static void set_endpoint_owner(kc_trigger_run *run, uint64_t inode, uint32_t pid)
{
    for (size_t i = 0; i < run->endpoints.count; i++)
        if (run->endpoints.data[i].inode == inode && !run->endpoints.data[i].pid)
            run->endpoints.data[i].pid = pid;
}

/* Sockets of one process; nothing if its descriptors are not readable. */
static void read_process_sockets(kc_trigger_run *run, uint32_t pid)
{
    char path[32], link[64];
    snprintf(path, sizeof path, "/proc/%u/fd", pid);
    DIR *all = opendir(path);
    for (struct dirent *e; all && (e = readdir(all));) {
        ssize_t n = readlinkat(dirfd(all), e->d_name, link, sizeof link - 1);
        unsigned long long inode;
        link[KB_MAX(n, 0)] = '\0';
        if (sscanf(link, "socket:[%llu]", &inode) == 1)
            set_endpoint_owner(run, inode, pid);
    }
    if (all)
        closedir(all);
}

/* Search the descriptors of all processes that this user can read. */
static void find_endpoint_owners(kc_trigger_run *run)
{
    DIR *all = opendir("/proc");
    for (struct dirent *e; all && (e = readdir(all));)
        if (kb_is_digit(e->d_name[0]))
            read_process_sockets(run, (uint32_t)strtoul(e->d_name, NULL, 10));
    if (all)
        closedir(all);
}

/* Endpoints that are not visible match only --all of root. */
static bool does_endpoint_match(const kc_trigger_run *run, const kc_endpoint *e)
{
    return e->pid ? kc_process_matches(run->request, e->pid) : run->request->all && geteuid() == 0;
}

/* The list is rebuilt each time, because processes come and go. */
void kc_find_endpoints(kc_trigger_run *run)
{
    size_t kept = 0;
    run->endpoints.count = 0;
    read_unix_sockets(run);
    if (run->endpoints.count)
        find_endpoint_owners(run);
    run->hidden = 0;
    for (size_t i = 0; i < run->endpoints.count; i++) {
        kc_endpoint e = run->endpoints.data[i];
        run->hidden += !e.pid;
        if (does_endpoint_match(run, &e))
            run->endpoints.data[kept++] = e;
    }
    run->endpoints.count = kept;
}

/* ---- the list without a target --------------------------------------------------------------- */

static void print_traceable_process(FILE *out, int64_t pid, const char *name, const char *how)
{
    fprintf(out, "  %lld ", (long long)pid);
    kc_put_name(out, kb_string(name), 0);
    fprintf(out, ": %s\n", how);
}

static bool is_process_listed(const kc_traceable *r, uint32_t pid)
{
    for (size_t i = 0; i < r->processes.count; i++)
        if (r->processes.data[i].pid == pid)
            return true;
    return false;
}

/* One line each, with the way to reach it. */
static void print_known_processes(const kc_traceable *r, FILE *out)
{
    for (size_t i = 0; i < r->processes.count; i++) {
        const kc_process *p = &r->processes.data[i];
        print_traceable_process(out, p->pid, p->name,
                                p->has_socket ? "has a control socket" : "polls the daemon");
    }
}

/* Processes that poll Dynolog's socket and are not in the list. @return their number. */
static size_t print_unknown_endpoints(const kc_request *request, const kc_traceable *known,
                                      FILE *out)
{
    kc_request every = {.all = true, .socket_directory = request->socket_directory};
    kc_trigger_run run = {.request = &every};
    kc_find_endpoints(&run);
    size_t count = run.hidden;
    for (size_t i = 0; i < run.endpoints.count; i++) {
        char name[64] = "";
        uint32_t pid = run.endpoints.data[i].pid;
        if (!pid || is_process_listed(known, pid))
            continue;
        (void)kb_os_process_name(pid, name, sizeof name);
        print_traceable_process(out, pid, name, "polls Dynolog's socket");
        count++;
    }
    if (run.hidden)
        fprintf(out, "  %zu more, of other users or in containers, poll Dynolog's socket\n",
                run.hidden);
    kb_vec_free(&run.endpoints);
    return count;
}

/* Control sockets, the daemon, and processes that poll Dynolog's socket. */
void kc_print_traceable(const kc_request *request, FILE *out)
{
    const ko_rpc_daemon daemon = {.limit_ms = 1000};
    kc_traceable known = {0};
    kineto_error err;
    fputs("Traceable processes on this host:\n", out);
    (void)kc_traceable_add_sockets(&known, &err);
    (void)kc_traceable_add_daemon(&known, &daemon, true, &err);
    print_known_processes(&known, out);
    size_t others = print_unknown_endpoints(request, &known, out);
    if (!others && !known.processes.count)
        kc_put_wrapped(out, kc_page_width(out), "  ", "  ", 0,
                       kb_string("none. Programs linked with ckineto listen with CKINETO_CONTROL=socket in their "
                                 "environment, PyTorch with KINETO_USE_DAEMON=1; any other program can be started by "
                                 "'ckineto record --on-demand -- PROGRAM'."));
    kc_traceable_free(&known);
}

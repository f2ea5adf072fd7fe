/* A trigger on many hosts: every daemon is queried for matching processes, then all get the same
 * start, late enough for the slowest process to poll and to warm up. Each step runs on all hosts in
 * parallel (run_on_all_hosts); a step touches only its own host. */
#include "cli/ondemand/trigger_fleet.h"

#include <arpa/inet.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAX_THREADS      64u
#define POLL_PERIOD_NS   (KB_SECOND_NS / 2)

/* Written by the signal handler, read by all waits of this file. */
static volatile sig_atomic_t interrupted;
static void store_fleet_signal(int number) { interrupted = number; }

static int64_t read_real_ns(void) { return (int64_t)kb_clock_ns(CLOCK_REALTIME); }

/* ---- all hosts at once ----------------------------------------------------------------------- */

/* One step over all hosts; `next` is claimed with an atomic addition, all else is constant. */
typedef struct host_work {
    kc_fleet *fleet;
    void (*step)(kc_fleet *fleet, kc_host *host);
    uint32_t next;
} host_work;

/* A worker thread: take hosts until none is left. */
static void *run_host_work(void *argument)
{
    host_work *w = argument;
    for (;;) {
        uint32_t i = __atomic_fetch_add(&w->next, 1, __ATOMIC_RELAXED);
        if (i >= w->fleet->hosts.count)
            return NULL;
        w->step(w->fleet, &w->fleet->hosts.data[i]);
    }
}

/* This thread works as well, so that it also works if no thread can be started. */
static void run_on_all_hosts(kc_fleet *fleet, void (*step)(kc_fleet *fleet, kc_host *host))
{
    pthread_t threads[MAX_THREADS];
    host_work w = {.fleet = fleet, .step = step};
    uint32_t started = 0;
    while (started + 1 < KB_MIN(fleet->hosts.count, (size_t)MAX_THREADS) &&
           kb_thread_start(&threads[started], run_host_work, &w) == 0)
        started++;
    (void)run_host_work(&w);
    while (started)
        pthread_join(threads[--started], NULL);
}

/* ---- discovery ------------------------------------------------------------------------------- */

/* Users are compared only if both are known. */
static bool is_same_process(const kc_remote *a, const kc_remote *b)
{
    bool whose = a->user == b->user || a->user == KC_ANY_USER || b->user == KC_ANY_USER;
    return a->pid == b->pid && a->job == b->job && whose;
}

/* Update a known process, or add a new one unless the requests were sent already. */
static void merge_host_process(const kc_fleet *fleet, kc_host *host, kc_remote found, bool waits)
{
    for (size_t i = 0; i < host->processes.count; i++) {
        kc_remote *p = &host->processes.data[i];
        if (!is_same_process(p, &found))
            continue;
        if (p->state == KC_ASKED && !waits)
            p->state = KC_TAKEN;
        return;
    }
    if (fleet->asked)
        return;
    if (host->processes.count < fleet->request->limit)
        (void)kb_vec_push(&host->processes, found);
    else
        host->over_limit = true;
}

/* Of a ckineto daemon: merge its matching processes. */
static kineto_status list_host_processes(const kc_fleet *fleet, kc_host *host)
{
    ko_rpc_list all;
    kineto_status status = ko_rpc_list_processes(&host->daemon, &all, &host->error);
    for (size_t i = 0; status == KINETO_OK && i < all.processes.count; i++) {
        const ko_rpc_process *p = &all.processes.data[i];
        if (kc_matches(fleet->request, all.pids.data + p->pids_at, p->pid_count, p->job))
            merge_host_process(
                fleet, host, (kc_remote){.pid = p->pid, .user = p->user, .job = p->job}, p->waits);
    }
    if (status == KINETO_OK)
        ko_rpc_list_free(&all);
    return status;
}

/* Dynolog does not list processes, but reports the pids that match a request. This request has
 * no activities enabled, so that it triggers no trace. */
static kineto_status match_host_processes(const kc_fleet *fleet, kc_host *host)
{
    const kc_request *request = fleet->request;
    ko_rpc_result result;
    ko_rpc_request none = {.job = request->has_job ? request->job : 0,
                           .pids = request->pids.data,
                           .pid_count = (uint32_t)request->pids.count,
                           .config = kb_string("ACTIVITIES_ENABLED=false")};
    kineto_status status = ko_rpc_trigger(&host->daemon, &none, &result, &host->error);
    for (size_t i = 0; status == KINETO_OK && i < result.matched.count; i++)
        merge_host_process(
            fleet, host,
            (kc_remote){.pid = result.matched.data[i], .user = KC_ANY_USER, .job = none.job}, true);
    if (status == KINETO_OK)
        ko_rpc_result_free(&result);
    return status;
}

/* The daemon is assumed to read its clock in the middle of the round trip; half of the round
 * trip is the uncertainty. */
static void measure_clock_offset(kc_host *host)
{
    int64_t before_ns = read_real_ns(), theirs_ns;
    if (ko_rpc_time(&host->daemon, &theirs_ns, NULL) != KINETO_OK)
        return;
    int64_t doubt_ns = kb_max_i64(read_real_ns() - before_ns, 0) / 2; /* our clock may be set back */
    host->clock_known = true;
    host->clock_ns = theirs_ns - (before_ns + doubt_ns);
    host->clock_doubt_ns = doubt_ns;
}

/* Processes and clock of one host. Clears its error first, because probes are repeated. */
static void probe_host(kc_fleet *fleet, kc_host *host)
{
    host->error = (kineto_error){0};
    kineto_status status = list_host_processes(fleet, host);
    host->lists = status == KINETO_OK;
    if (status == KINETO_E_UNSUPPORTED)
        status = match_host_processes(fleet, host);
    host->reached = status == KINETO_OK;
    if (host->reached)
        host->error.code = KINETO_OK;
    if (host->reached)
        measure_clock_offset(host);
}

/* ---- asking ---------------------------------------------------------------------------------- */

/* A pid is listed once for each process that has it. False: not listed. */
static bool remove_pid(ko_rpc_pids *pids, int32_t pid)
{
    for (size_t i = 0; i < pids->count; i++)
        if (pids->data[i] == pid) {
            pids->data[i] = pids->data[--pids->count];
            return true;
        }
    return false;
}

/* By pid and job: daemons do not report the user of a descendant. */
static bool has_host_process(const kc_host *host, int32_t pid, int64_t job)
{
    for (size_t i = 0; i < host->processes.count; i++)
        if (host->processes.data[i].pid == pid && host->processes.data[i].job == job)
            return true;
    return false;
}

/* Descendants of the named processes that started meanwhile got the request, too. */
static void add_descendants(kc_host *host, const ko_rpc_pids *triggered, int64_t job,
                            uint64_t limit)
{
    for (size_t i = 0; i < triggered->count && host->processes.count < limit; i++)
        if (!has_host_process(host, triggered->data[i], job))
            (void)kb_vec_push(&host->processes, (kc_remote){.pid = triggered->data[i],
                                                            .user = KC_ANY_USER,
                                                            .job = job,
                                                            .state = KC_ASKED,
                                                            .why = ""});
}

/* States of the processes of a job after their request. */
static void apply_rpc_result(const kc_fleet *fleet, kc_host *host, ko_rpc_result *result,
                             int64_t job)
{
    for (size_t i = 0; i < host->processes.count; i++) {
        kc_remote *p = &host->processes.data[i];
        if (p->job != job)
            continue;
        bool matched = remove_pid(&result->matched, p->pid);
        bool triggered = remove_pid(&result->triggered, p->pid);
        p->state = triggered ? KC_ASKED : KC_FAILED;
        p->why = triggered      ? ""
                 : !matched     ? "the daemon does not know it any more"
                 : result->busy ? "busy: it has not fetched an earlier request yet"
                                : "another process got the request instead (--limit)";
    }
    add_descendants(host, &result->triggered, job, fleet->request->limit);
}

/* Fails the processes of `first`'s job (all: of the host) that got no request. The reason is
 * copied, and owned by the host. */
static void fail_unsent_processes(kc_host *host, const kc_remote *first, bool all,
                                  const char *words)
{
    int64_t job = first->job;
    char *why = strdup(words);
    if (why && !kb_vec_push(&host->refusals, why)) {
        free(why);
        why = NULL;
    }
    for (size_t i = 0; i < host->processes.count; i++) {
        kc_remote *p = &host->processes.data[i];
        if (p->state != KC_FOUND || (p->job != job && !all))
            continue;
        p->state = KC_FAILED;
        p->why = why ? why : "its daemon refused (out of memory for the reason)";
    }
}

/* Sends one request for all processes of one job on one host. The limit leaves room for
 * descendants that started meanwhile. */
static kineto_status request_job(kc_fleet *fleet, kc_host *host, int64_t job, kineto_error *err)
{
    kc_pids pids = {0};
    ko_rpc_result result;
    char *text = NULL;
    for (size_t i = 0; i < host->processes.count; i++)
        if (host->processes.data[i].job == job)
            (void)kb_vec_push(&pids, host->processes.data[i].pid);
    KB_ASSERT(host->processes.count <= fleet->request->limit);
    uint64_t room = fleet->request->limit - host->processes.count + pids.count;
    kc_request_format how = {.path = host->path, .start_ns = fleet->start_ns, .plain = true};
    kineto_status status = kc_request_text(fleet->request, &how, &text, err);
    ko_rpc_request rpc = {.job = job,
                          .pids = pids.data,
                          .pid_count = (uint32_t)pids.count,
                          .limit = (int64_t)room,
                          .config = kb_string(text)};
    if (status == KINETO_OK)
        status = ko_rpc_trigger(&host->daemon, &rpc, &result, err);
    if (status == KINETO_OK) {
        apply_rpc_result(fleet, host, &result, job);
        ko_rpc_result_free(&result);
    }
    free(text);
    kb_vec_free(&pids);
    return status;
}

/* A daemon that refuses the request for one job may accept it for another. A daemon that does not
 * answer is not tried again; its processes that have the request are followed all the same. */
static void request_host(kc_fleet *fleet, kc_host *host)
{
    for (size_t i = 0; host->reached && i < host->processes.count; i++) {
        kineto_error err = {0};
        if (host->processes.data[i].state != KC_FOUND)
            continue;
        kineto_status status = request_job(fleet, host, host->processes.data[i].job, &err);
        bool answered = status == KINETO_E_ARGUMENT || status == KINETO_E_PERMISSION;
        if (status != KINETO_OK)
            fail_unsent_processes(host, &host->processes.data[i], !answered, err.message);
    }
}

/* With several hosts the file names contain the host, because pids of different hosts may be equal.
 */
static void choose_host_path(const kc_fleet *fleet, kc_host *host)
{
    char name[KO_RPC_HOST_BYTES];
    snprintf(name, sizeof name, "%s", host->name);
    name[strcspn(name, "/")] = '\0';
    for (char *at = name; *at; at++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-", *at))
            *at = '-';
    if (fleet->hosts.count < 2 || !kc_path_with_suffix(fleet->request->out, name, host->path))
        memcpy(host->path, fleet->request->out, sizeof host->path);
}

/* ---- following ------------------------------------------------------------------------------- */

/* Updates the states of processes. A failed query is ignored, since the next round repeats it;
 * the error of the probe is kept for the report. */
static void refresh_host(kc_fleet *fleet, kc_host *host)
{
    kineto_error kept = host->error;
    if (host->reached && host->lists && kc_host_count(host, KC_ASKED) > 0)
        (void)list_host_processes(fleet, host); /* a failure is made up for by the next round */
    host->error = kept;
}

/* If hosts share the directory, the trace becomes visible here. */
static bool find_remote_file(const kc_fleet *fleet, const kc_host *host, kc_remote *p)
{
    char path[KO_REQUEST_PATH_BYTES];
    struct stat st;
    if (!kc_path_with_pid(host->path, (uint32_t)p->pid, path) || lstat(path, &st) != 0 ||
        !S_ISREG(st.st_mode) || st.st_size == 0 ||
        (int64_t)st.st_mtim.tv_sec < fleet->asked_real_ns / (int64_t)KB_SECOND_NS)
        return false;
    p->bytes = (uint64_t)st.st_size;
    p->state = KC_DONE;
    return true;
}

/* Traces that are still expected. */
static size_t count_missing_files(kc_fleet *fleet)
{
    size_t missing = 0;
    for (size_t i = 0; i < fleet->hosts.count; i++) {
        kc_host *host = &fleet->hosts.data[i];
        for (size_t k = 0; k < host->processes.count; k++) {
            kc_remote *p = &host->processes.data[k];
            if (p->state != KC_FAILED && p->state != KC_DONE && !find_remote_file(fleet, host, p))
                missing++;
        }
    }
    return missing;
}

/* A process that has not fetched the request at the start has missed it. */
static void fail_missed_starts(kc_fleet *fleet)
{
    for (size_t i = 0; i < fleet->hosts.count; i++) {
        kc_host *host = &fleet->hosts.data[i];
        for (size_t k = 0; host->lists && k < host->processes.count; k++) {
            kc_remote *p = &host->processes.data[k];
            if (p->state == KC_ASKED) {
                p->state = KC_FAILED;
                p->why = "missed the start: busy, or gone; it did not fetch the request in time";
            }
        }
    }
}

/* Processes whose request was not fetched yet, on hosts whose daemon lists them. */
static size_t count_awaited(const kc_fleet *fleet)
{
    size_t n = 0;
    for (size_t i = 0; i < fleet->hosts.count; i++)
        if (fleet->hosts.data[i].lists)
            n += kc_host_count(&fleet->hosts.data[i], KC_ASKED);
    return n;
}

/* Shorter if a signal arrives. */
static void sleep_ns(uint64_t ns)
{
    struct timespec t = {(time_t)(ns / KB_SECOND_NS), (long)(ns % KB_SECOND_NS)};
    (void)nanosleep(&t, NULL); /* a signal ends it, as intended */
}

/* Waits until all processes have the request or the start has come; requests by iteration have
 * no start, and are followed for two polling periods. Then processes without the request have
 * missed it. */
static void follow_until_start(kc_fleet *fleet)
{
    int64_t until_ns = fleet->start_ns ? fleet->start_ns : read_real_ns() + 2 * (int64_t)KC_POLL_NS;
    while (!interrupted && count_awaited(fleet) && read_real_ns() < until_ns) {
        sleep_ns(POLL_PERIOD_NS);
        run_on_all_hosts(fleet, refresh_host);
    }
    if (!interrupted)
        fail_missed_starts(fleet);
}

/* Waits until all traces are visible here or the time is over: the lead, the length of the
 * trace, and the time to write it. */
static void await_files(kc_fleet *fleet)
{
    const kc_request *request = fleet->request;
    uint64_t wait_ns = KC_WRITE_TIMEOUT_NS + kc_request_length_ns(request) +
                       (uint64_t)kb_max_i64(fleet->start_ns - read_real_ns(), 0);
    uint64_t until_ns = kb_monotonic_ns() + (request->wait_ns ? request->wait_ns : wait_ns);
    while (!interrupted && count_missing_files(fleet) && kb_monotonic_ns() < until_ns)
        sleep_ns(POLL_PERIOD_NS);
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* A common start for all hosts, late enough for polling and warm-up. */
static void choose_fleet_start(kc_fleet *fleet)
{
    int64_t lead_ns = kc_request_lead_ns(fleet->request, true), now_ns = read_real_ns();
    const int64_t MS = (int64_t)KC_MS_NS;
    if (fleet->request->start_ns) {
        fleet->start_ns = fleet->request->start_ns;
        if (fleet->start_ns < now_ns + lead_ns)
            kc_show_message("the start is in %.1f s: processes that poll every 5 s need %.1f s",
                            (double)(fleet->start_ns - now_ns) / 1e9, (double)lead_ns / 1e9);
    } else if (!kc_by_iteration(fleet->request) && !fleet->request->separately) {
        fleet->start_ns = (now_ns + lead_ns) / MS * MS;
    }
    if (fleet->start_ns)
        kc_show_message("start in %.1f s", (double)(fleet->start_ns - now_ns) / 1e9);
}

/* Parse an address and append the host. */
static kineto_status append_host(kc_fleet *fleet, const char *name, kineto_error *err)
{
    kc_host host = {.name = name};
    host.daemon.token = fleet->request->token[0] ? fleet->request->token : NULL;
    host.daemon.limit_ms = KC_HOST_DAEMON_TIMEOUT_MS;
    kineto_status status = kc_daemon_parse(fleet->request, name, &host.daemon, err);
    if (status == KINETO_OK && !kb_vec_push(&fleet->hosts, host))
        status = kb_fail_memory(err, "hosts");
    return status;
}

/* From --slurm, --hosts or --host. */
static kineto_status parse_fleet_hosts(kc_fleet *fleet, kc_request *request, kc_names *names,
                                       kineto_error *err)
{
    kineto_status status;
    if (request->slurm) {
        status = kc_slurm_hosts(request->slurm, names, &request->job, err);
        request->has_job = true;
    } else {
        status = kc_hosts_parse(request->hosts ? request->hosts : request->host, names, err);
    }
    for (size_t i = 0; status == KINETO_OK && i < names->count; i++)
        status = append_host(fleet, names->data[i], err);
    return status;
}

/* True if no daemon listens on any host. A host that answers with another error is present. */
static bool are_all_absent(const kc_fleet *fleet)
{
    for (size_t i = 0; i < fleet->hosts.count; i++)
        if (fleet->hosts.data[i].error.code != KINETO_E_NOT_FOUND)
            return false;
    return fleet->hosts.count != 0;
}

/* With --retry, wait until one daemon listens. The others are not waited for. */
static void await_hosts(kc_fleet *fleet)
{
    uint64_t absence_ns = kc_retry_ns(fleet->request);
    uint64_t until_ns = kb_monotonic_ns() + absence_ns;
    if (absence_ns && are_all_absent(fleet))
        kc_show_message("no daemon listens yet; trying again for %.0f s (--retry)",
                        (double)absence_ns / 1e9);
    while (!interrupted && are_all_absent(fleet) && kb_monotonic_ns() < until_ns) {
        sleep_ns(POLL_PERIOD_NS);
        run_on_all_hosts(fleet, probe_host);
    }
}

/* Only hosts that answered count. */
static bool has_fleet_processes(const kc_fleet *fleet)
{
    for (size_t i = 0; i < fleet->hosts.count; i++)
        if (fleet->hosts.data[i].reached && fleet->hosts.data[i].processes.count)
            return true;
    return false;
}

/* Probe, choose the start, send, follow. */
static void run_fleet(kc_fleet *fleet)
{
    run_on_all_hosts(fleet, probe_host);
    await_hosts(fleet);
    kc_fleet_show_clocks(fleet);
    kc_fleet_show_limits(fleet);
    if (!has_fleet_processes(fleet) || interrupted)
        return;
    choose_fleet_start(fleet);
    for (size_t i = 0; i < fleet->hosts.count; i++)
        choose_host_path(fleet, &fleet->hosts.data[i]);
    fleet->asked_real_ns = read_real_ns();
    run_on_all_hosts(fleet, request_host);
    fleet->asked = true;
    follow_until_start(fleet);
    if (fleet->request->has_wait)
        await_files(fleet);
}

/* The names of hosts belong to the caller. */
static void free_fleet(kc_fleet *fleet)
{
    for (size_t i = 0; i < fleet->hosts.count; i++) {
        kb_vec_free(&fleet->hosts.data[i].processes);
        kc_names_free(&fleet->hosts.data[i].refusals);
    }
    kb_vec_free(&fleet->hosts);
}

/* Over Dynolog's wire the pid is inserted only into names with ".json". */
static void choose_fleet_output(kc_request *request)
{
    size_t size = strlen(request->out);
    if (!request->has_out)
        snprintf(request->out, sizeof request->out, "/tmp/%s", kc_default_name(request));
    else if (!kc_is_snapshot(request) && !strstr(request->out, ".json") &&
             size + sizeof ".json" <= sizeof request->out)
        memcpy(request->out + size, ".json", sizeof ".json");
}

/* An invalid address is a mistake on the command line. @return the exit status. */
static int report_fleet_error(const kineto_error *err)
{
    if (err->code == KINETO_E_ARGUMENT) {
        kc_usage_error("trigger", "%s", err->message);
        return KC_EXIT_USAGE;
    }
    kc_show_message("%s", err->message);
    return KC_EXIT_FAILURE;
}

/* An interruption ends the following, not the requests. */
int kc_trigger_fleet(kc_request *request)
{
    kc_fleet fleet = {.request = request};
    kc_names names = {0};
    kineto_error err;
    int result = KC_EXIT_FAILURE;
    choose_fleet_output(request);
    if (!kc_is_below(request->out, "/tmp"))
        kc_show_message("'%s': processes write traces of requests only below /tmp, or below their "
                        "KINETO_ONDEMAND_TRACE_DIR",
                        request->out);
    kc_catch_signals(store_fleet_signal);
    if (parse_fleet_hosts(&fleet, request, &names, &err) != KINETO_OK) {
        result = report_fleet_error(&err);
    } else {
        run_fleet(&fleet);
        result = kc_fleet_show(&fleet, interrupted != 0);
    }
    free_fleet(&fleet);
    kc_names_free(&names);
    return interrupted ? 128 + (int)interrupted : result;
}

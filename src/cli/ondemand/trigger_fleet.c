/* A trigger on many hosts: every daemon is asked who is there, then all are told the same start,
 * with time enough for the slowest process to hear of it and to warm up. */
#include "cli/ondemand/trigger_fleet.h"

#include <arpa/inet.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define HOST_LIMIT_MS 3000u
#define MOST_THREADS  64u
#define AGAIN_NS      (KC_SECOND_NS / 2)
#define PATIENCE_NS   (60 * KC_SECOND_NS)

static volatile sig_atomic_t interrupted;
static void on_signal(int number) { interrupted = number; }

static int64_t real_now(void) { return (int64_t)kb_clock_ns(CLOCK_REALTIME); }

/* ---- all hosts at once ----------------------------------------------------------------------- */

typedef struct kc_work {
    kc_fleet *fleet;
    void (*step)(kc_fleet *fleet, kc_host *host);
    uint32_t next;
} kc_work;

static void *work(void *argument)
{
    kc_work *w = argument;
    for (;;) {
        uint32_t i = __atomic_fetch_add(&w->next, 1, __ATOMIC_RELAXED);
        if (i >= w->fleet->hosts.count)
            return NULL;
        w->step(w->fleet, &w->fleet->hosts.data[i]);
    }
}

/* This thread does its share, so that it also goes without others. */
static void on_all(kc_fleet *fleet, void (*step)(kc_fleet *fleet, kc_host *host))
{
    pthread_t threads[MOST_THREADS];
    kc_work w = {.fleet = fleet, .step = step};
    uint32_t started = 0;
    while (started + 1 < KB_MIN(fleet->hosts.count, (size_t)MOST_THREADS) &&
           kb_thread_start(&threads[started], work, &w) == 0)
        started++;
    (void)work(&w);
    while (started)
        pthread_join(threads[--started], NULL);
}

/* ---- who is there ---------------------------------------------------------------------------- */

static bool is_same(const kc_remote *a, const kc_remote *b)
{
    bool whose = a->user == b->user || a->user == KC_ANY_USER || b->user == KC_ANY_USER;
    return a->pid == b->pid && a->job == b->job && whose;
}

static void host_found(const kc_fleet *fleet, kc_host *host, kc_remote found, bool waits)
{
    for (size_t i = 0; i < host->processes.count; i++) {
        kc_remote *p = &host->processes.data[i];
        if (!is_same(p, &found))
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

static kineto_status list(const kc_fleet *fleet, kc_host *host)
{
    ko_rpc_list all;
    kineto_status status = ko_rpc_list_processes(&host->daemon, &all, &host->error);
    for (size_t i = 0; status == KINETO_OK && i < all.processes.count; i++) {
        const ko_rpc_process *p = &all.processes.data[i];
        if (kc_matches(fleet->request, all.pids.data + p->pids_at, p->pid_count, p->job))
            host_found(fleet, host, (kc_remote){.pid = p->pid, .user = p->user, .job = p->job},
                       p->waits);
    }
    if (status == KINETO_OK)
        ko_rpc_list_free(&all);
    return status;
}

/* Dynolog lists nobody, but says who matches a request that may trigger none. */
static kineto_status match(const kc_fleet *fleet, kc_host *host)
{
    const kc_request *request = fleet->request;
    ko_rpc_result result;
    ko_rpc_request nobody = {.job = request->has_job ? request->job : 0,
                             .pids = request->pids.data,
                             .pid_count = (uint32_t)request->pids.count,
                             .config = kb_string("ACTIVITIES_ENABLED=false")};
    kineto_status status = ko_rpc_trigger(&host->daemon, &nobody, &result, &host->error);
    for (size_t i = 0; status == KINETO_OK && i < result.matched.count; i++)
        host_found(
            fleet, host,
            (kc_remote){.pid = result.matched.data[i], .user = KC_ANY_USER, .job = nobody.job},
            true);
    if (status == KINETO_OK)
        ko_rpc_result_free(&result);
    return status;
}

/* Half of the way there and back is the daemon's time on its way. */
static void compare_clocks(kc_host *host)
{
    int64_t before_ns = real_now(), theirs_ns;
    if (ko_rpc_time(&host->daemon, &theirs_ns, NULL) != KINETO_OK)
        return;
    int64_t doubt_ns = KB_MAX(real_now() - before_ns, 0) / 2; /* our clock may be set back */
    host->clock_known = true;
    host->clock_ns = theirs_ns - (before_ns + doubt_ns);
    host->clock_doubt_ns = doubt_ns;
}

static void probe(kc_fleet *fleet, kc_host *host)
{
    host->error = (kineto_error){0};
    kineto_status status = list(fleet, host);
    host->lists = status == KINETO_OK;
    if (status == KINETO_E_UNSUPPORTED)
        status = match(fleet, host);
    host->reached = status == KINETO_OK;
    if (host->reached)
        host->error.code = KINETO_OK;
    if (host->reached)
        compare_clocks(host);
}

/* ---- asking ---------------------------------------------------------------------------------- */

/* Once for each process that has it. */
static bool take_pid(ko_rpc_pids *pids, int32_t pid)
{
    for (size_t i = 0; i < pids->count; i++)
        if (pids->data[i] == pid) {
            pids->data[i] = pids->data[--pids->count];
            return true;
        }
    return false;
}

static bool has_pid(const kc_host *host, int32_t pid, int64_t job)
{
    for (size_t i = 0; i < host->processes.count; i++)
        if (host->processes.data[i].pid == pid && host->processes.data[i].job == job)
            return true;
    return false;
}

/* Children of those that we named, which have come since we looked, are asked with them. */
static void take_others(kc_host *host, const ko_rpc_pids *triggered, int64_t job, uint64_t limit)
{
    for (size_t i = 0; i < triggered->count && host->processes.count < limit; i++)
        if (!has_pid(host, triggered->data[i], job))
            (void)kb_vec_push(&host->processes, (kc_remote){.pid = triggered->data[i],
                                                            .user = KC_ANY_USER,
                                                            .job = job,
                                                            .state = KC_ASKED,
                                                            .why = ""});
}

static void take_answer(const kc_fleet *fleet, kc_host *host, ko_rpc_result *result,
                        int64_t job)
{
    for (size_t i = 0; i < host->processes.count; i++) {
        kc_remote *p = &host->processes.data[i];
        if (p->job != job)
            continue;
        bool matched = take_pid(&result->matched, p->pid);
        bool triggered = take_pid(&result->triggered, p->pid);
        p->state = triggered ? KC_ASKED : KC_FAILED;
        p->why = triggered      ? ""
                 : !matched     ? "the daemon does not know it any more"
                 : result->busy ? "busy: it has not fetched an earlier request yet"
                                : "another one was asked in its place (--limit)";
    }
    take_others(host, &result->triggered, job, fleet->request->limit);
}

static void fail_found(kc_host *host, const kc_remote *first, bool all, const char *words)
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
        p->why = why ? why : "its daemon refused; out of memory for its words";
    }
}

static kineto_status ask_job(kc_fleet *fleet, kc_host *host, int64_t job, kineto_error *err)
{
    kc_pids pids = {0};
    ko_rpc_result result;
    char *text = NULL;
    for (size_t i = 0; i < host->processes.count; i++)
        if (host->processes.data[i].job == job)
            (void)kb_vec_push(&pids, host->processes.data[i].pid);
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
        take_answer(fleet, host, &result, job);
        ko_rpc_result_free(&result);
    }
    free(text);
    kb_vec_free(&pids);
    return status;
}

/* What a daemon refuses for one job it may do for another; one that does not answer costs its time
 * once. Who was asked already is followed in any case. */
static void ask_host(kc_fleet *fleet, kc_host *host)
{
    for (size_t i = 0; host->reached && i < host->processes.count; i++) {
        kineto_error err = {0};
        if (host->processes.data[i].state != KC_FOUND)
            continue;
        kineto_status status = ask_job(fleet, host, host->processes.data[i].job, &err);
        bool answered = status == KINETO_E_ARGUMENT || status == KINETO_E_PERMISSION;
        if (status != KINETO_OK)
            fail_found(host, &host->processes.data[i], !answered, err.message);
    }
}

/* The names of files tell the hosts apart: numbers of processes do not. */
static void choose_path(const kc_fleet *fleet, kc_host *host)
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

static void follow(kc_fleet *fleet, kc_host *host)
{
    kineto_error kept = host->error;
    if (host->reached && host->lists && kc_host_count(host, KC_ASKED) > 0)
        (void)list(fleet, host); /* what it misses once it learns the next time */
    host->error = kept;
}

static bool file_is_there(const kc_fleet *fleet, const kc_host *host, kc_remote *p)
{
    char path[KO_REQUEST_PATH_BYTES];
    struct stat st;
    if (!kc_path_with_pid(host->path, (uint32_t)p->pid, path) || lstat(path, &st) != 0 ||
        !S_ISREG(st.st_mode) || st.st_size == 0 ||
        (int64_t)st.st_mtim.tv_sec < fleet->asked_real_ns / (int64_t)KC_SECOND_NS)
        return false;
    p->bytes = (uint64_t)st.st_size;
    p->state = KC_DONE;
    return true;
}

static size_t look_for_files(kc_fleet *fleet)
{
    size_t missing = 0;
    for (size_t i = 0; i < fleet->hosts.count; i++) {
        kc_host *host = &fleet->hosts.data[i];
        for (size_t k = 0; k < host->processes.count; k++) {
            kc_remote *p = &host->processes.data[k];
            if (p->state != KC_FAILED && p->state != KC_DONE && !file_is_there(fleet, host, p))
                missing++;
        }
    }
    return missing;
}

/* Who has not fetched it when it begins has missed it. */
static void tell_missed(kc_fleet *fleet)
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

static size_t awaited(const kc_fleet *fleet)
{
    size_t n = 0;
    for (size_t i = 0; i < fleet->hosts.count; i++)
        if (fleet->hosts.data[i].lists)
            n += kc_host_count(&fleet->hosts.data[i], KC_ASKED);
    return n;
}

static void pause_for(uint64_t ns)
{
    struct timespec t = {(time_t)(ns / KC_SECOND_NS), (long)(ns % KC_SECOND_NS)};
    (void)nanosleep(&t, NULL); /* a signal ends it, and that is meant */
}

/* Until all have it, or the start is there; by iteration as long as processes take to ask. */
static void follow_all(kc_fleet *fleet)
{
    int64_t until_ns = fleet->start_ns ? fleet->start_ns : real_now() + 2 * (int64_t)KC_POLL_NS;
    while (!interrupted && awaited(fleet) && real_now() < until_ns) {
        pause_for(AGAIN_NS);
        on_all(fleet, follow);
    }
    if (!interrupted)
        tell_missed(fleet);
}

static void wait_for_files(kc_fleet *fleet)
{
    const kc_request *request = fleet->request;
    uint64_t wait_ns =
        PATIENCE_NS + kc_request_length_ns(request) + (uint64_t)KB_MAX(fleet->start_ns - real_now(), 0);
    uint64_t until_ns = kb_clock_ns(CLOCK_MONOTONIC) + (request->wait_ns ? request->wait_ns : wait_ns);
    while (!interrupted && look_for_files(fleet) && kb_clock_ns(CLOCK_MONOTONIC) < until_ns)
        pause_for(AGAIN_NS);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void choose_start(kc_fleet *fleet)
{
    int64_t lead_ns = kc_request_lead_ns(fleet->request, true), now_ns = real_now();
    const int64_t MS = (int64_t)KC_MS_NS;
    if (fleet->request->start_ns) {
        fleet->start_ns = fleet->request->start_ns;
        if (fleet->start_ns < now_ns + lead_ns)
            kc_show_message("the start leaves %.1f s: processes that ask every 5 s need %.1f s",
                         (double)(fleet->start_ns - now_ns) / 1e9, (double)lead_ns / 1e9);
    } else if (!kc_by_iteration(fleet->request) && !fleet->request->separately) {
        fleet->start_ns = (now_ns + lead_ns) / MS * MS;
    }
    if (fleet->start_ns)
        kc_show_message("start in %.1f s", (double)(fleet->start_ns - now_ns) / 1e9);
}

static kineto_status add_host(kc_fleet *fleet, const char *name, kineto_error *err)
{
    kc_host host = {.name = name};
    host.daemon.token = fleet->request->token[0] ? fleet->request->token : NULL;
    host.daemon.limit_ms = HOST_LIMIT_MS;
    kineto_status status = kc_daemon_parse(fleet->request, name, &host.daemon, err);
    if (status == KINETO_OK && !kb_vec_push(&fleet->hosts, host))
        status = kb_fail(err, KINETO_E_MEMORY, "out of memory for hosts");
    return status;
}

static kineto_status find_hosts(kc_fleet *fleet, kc_request *request, kc_names *names,
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
        status = add_host(fleet, names->data[i], err);
    return status;
}

static bool are_all_absent(const kc_fleet *fleet)
{
    for (size_t i = 0; i < fleet->hosts.count; i++)
        if (fleet->hosts.data[i].error.code != KINETO_E_NOT_FOUND)
            return false;
    return fleet->hosts.count != 0;
}

/* Daemons may start later than this command. Once one is there it is not held up by others. */
static void await_hosts(kc_fleet *fleet)
{
    uint64_t absence_ns = kc_retry_ns(fleet->request);
    uint64_t until_ns = kb_clock_ns(CLOCK_MONOTONIC) + absence_ns;
    if (absence_ns && are_all_absent(fleet))
        kc_show_message("no daemon listens yet; trying again for %.0f s (--retry)",
                     (double)absence_ns / 1e9);
    while (!interrupted && are_all_absent(fleet) && kb_clock_ns(CLOCK_MONOTONIC) < until_ns) {
        pause_for(AGAIN_NS);
        on_all(fleet, probe);
    }
}

static bool has_processes(const kc_fleet *fleet)
{
    for (size_t i = 0; i < fleet->hosts.count; i++)
        if (fleet->hosts.data[i].reached && fleet->hosts.data[i].processes.count)
            return true;
    return false;
}

static void run_all(kc_fleet *fleet)
{
    on_all(fleet, probe);
    await_hosts(fleet);
    kc_fleet_show_clocks(fleet);
    kc_fleet_show_limits(fleet);
    if (!has_processes(fleet) || interrupted)
        return;
    choose_start(fleet);
    for (size_t i = 0; i < fleet->hosts.count; i++)
        choose_path(fleet, &fleet->hosts.data[i]);
    fleet->asked_real_ns = real_now();
    on_all(fleet, ask_host);
    fleet->asked = true;
    follow_all(fleet);
    if (fleet->request->has_wait)
        wait_for_files(fleet);
}

static void fleet_free(kc_fleet *fleet)
{
    for (size_t i = 0; i < fleet->hosts.count; i++) {
        kb_vec_free(&fleet->hosts.data[i].processes);
        kc_names_free(&fleet->hosts.data[i].refusals);
    }
    kb_vec_free(&fleet->hosts);
}

/* Over Dynolog's wire only names with ".json" get the number of the process. */
static void choose_out(kc_request *request)
{
    size_t size = strlen(request->out);
    if (!request->has_out)
        snprintf(request->out, sizeof request->out, "/tmp/%s", kc_default_name(request));
    else if (!kc_is_snapshot(request) && !strstr(request->out, ".json") &&
             size + sizeof ".json" <= sizeof request->out)
        memcpy(request->out + size, ".json", sizeof ".json");
}

/* @return the exit status: an address that is none is a mistake on the command line. */
static int complain(const kineto_error *err)
{
    if (err->code == KINETO_E_ARGUMENT) {
        kc_usage_error("trigger", "%s", err->message);
        return KC_EXIT_USAGE;
    }
    kc_show_message("%s", err->message);
    return KC_EXIT_FAILURE;
}

int kc_trigger_fleet(kc_request *request)
{
    kc_fleet fleet = {.request = request};
    kc_names names = {0};
    kineto_error err;
    int result = KC_EXIT_FAILURE;
    choose_out(request);
    if (!kc_is_below(request->out, "/tmp"))
        kc_show_message("'%s': processes write for requests beneath /tmp, or where their "
                     "KINETO_ONDEMAND_TRACE_DIR says",
                     request->out);
    kc_catch_signals(on_signal);
    if (find_hosts(&fleet, request, &names, &err) != KINETO_OK) {
        result = complain(&err);
    } else {
        run_all(&fleet);
        result = kc_fleet_show(&fleet, interrupted != 0);
    }
    fleet_free(&fleet);
    kc_names_free(&names);
    return interrupted ? 128 + (int)interrupted : result;
}

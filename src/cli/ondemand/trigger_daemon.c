/* The second way to reach processes: the RPC of a daemon, ckineto's or Dynolog's, which passes the
 * request to a process when that polls. ckineto's daemon lists its processes; Dynolog only reports
 * which pids a request matches, so it is given one that cannot trigger any. */
#include "cli/ondemand/trigger.h"

#include <time.h>
#include <unistd.h>

#define POLL_PERIOD_NS (KB_SECOND_NS / 2)
/* A process that is silent for longer and not visible has ended. */
#define LOST_MS UINT64_C(12000)

/* ---- finding --------------------------------------------------------------------------------- */

/* Dynolog lists ended processes for another minute or two. A process that polls on this host is
 * visible, unless it is in a container. */
static bool is_process_gone(const kc_trigger_run *run, int32_t pid)
{
    return !run->request->host && !run->hidden && !kb_os_start_time((uint32_t)pid);
}

static void add_daemon_target(kc_trigger_run *run, int32_t pid, int64_t job)
{
    if (pid > 0 && !is_process_gone(run, pid) && !kc_target_find(run, (uint32_t)pid))
        (void)kc_target_add(run, (uint32_t)pid, job, KC_VIA_DAEMON);
}

/* Matching processes become targets; targets that have fetched their request become TAKEN. */
static void merge_daemon_list(kc_trigger_run *run, const ko_rpc_list *list)
{
    for (size_t i = 0; i < list->processes.count; i++) {
        const ko_rpc_process *p = &list->processes.data[i];
        bool gone = p->seen_ms_ago > LOST_MS && !kb_os_start_time((uint32_t)p->pid);
        if (!gone && kc_matches(run->request, list->pids.data + p->pids_at, p->pid_count, p->job))
            add_daemon_target(run, p->pid, p->job);
        kc_target *t = kc_target_find(run, (uint32_t)p->pid);
        if (t && t->via == KC_VIA_DAEMON && t->state == KC_ASKED && !p->waits)
            t->state = KC_TAKEN;
    }
}

/* Dynolog does not list processes, but reports the pids that match a request. This request is
 * disabled, so that it triggers none. Dynolog must be queried for each job by its number. */
static kineto_status match_job_pids(kc_trigger_run *run, int64_t job, kineto_error *err)
{
    ko_rpc_result result;
    ko_rpc_request none = {.job = job,
                           .pids = run->request->pids.data,
                           .pid_count = (uint32_t)run->request->pids.count,
                           .limit = 0,
                           .config = kb_string("ACTIVITIES_ENABLED=false")};
    kineto_status status = ko_rpc_trigger(&run->daemon, &none, &result, err);
    for (size_t i = 0; status == KINETO_OK && i < result.matched.count; i++)
        add_daemon_target(run, result.matched.data[i], job);
    if (status == KINETO_OK)
        ko_rpc_result_free(&result);
    return status;
}

typedef KB_VEC(int64_t) job_list;

static void add_unique_job(job_list *jobs, int64_t job)
{
    for (size_t i = 0; i < jobs->count; i++)
        if (jobs->data[i] == job)
            return;
    (void)kb_vec_push(jobs, job);
}

/* The job of --job; else the jobs of all selected processes that are visible, and 0. */
static kineto_status match_all_jobs(kc_trigger_run *run, kineto_error *err)
{
    job_list jobs = {0};
    kineto_status status = KINETO_OK;
    add_unique_job(&jobs, run->request->has_job ? run->request->job : 0);
    for (size_t i = 0; !run->request->has_job && i < run->endpoints.count; i++)
        if (run->endpoints.data[i].pid)
            add_unique_job(&jobs, kc_process_job(run->endpoints.data[i].pid));
    for (size_t i = 0; !run->request->has_job && i < run->request->pids.count; i++)
        add_unique_job(&jobs, kc_process_job((uint32_t)run->request->pids.data[i]));
    for (size_t i = 0; status == KINETO_OK && i < jobs.count; i++)
        status = match_job_pids(run, jobs.data[i], err);
    kb_vec_free(&jobs);
    return status;
}

/* Update targets from the list of the daemon, or by matching where it gives no list. */
static kineto_status query_daemon(kc_trigger_run *run, kineto_error *err)
{
    ko_rpc_list list;
    kineto_status status = ko_rpc_list_processes(&run->daemon, &list, err);
    run->daemon_lists = status == KINETO_OK;
    if (status == KINETO_OK) {
        merge_daemon_list(run, &list);
        ko_rpc_list_free(&list);
    }
    return status == KINETO_E_UNSUPPORTED ? match_all_jobs(run, err) : status;
}

kineto_status kc_daemon_parse(const kc_request *request, const char *text, ko_rpc_daemon *out,
                              kineto_error *err)
{
    out->port = request->port;
    return ko_rpc_parse_address(text, out, err);
}

/* --host, else the local daemon with a short time limit. */
static kineto_status choose_daemon_address(kc_trigger_run *run, kineto_error *err)
{
    const kc_request *request = run->request;
    run->daemon = (ko_rpc_daemon){.port = request->port};
    run->daemon.token = request->token[0] ? request->token : NULL;
    if (request->host)
        return kc_daemon_parse(request, request->host, &run->daemon, err);
    run->daemon.limit_ms = KC_LOCAL_DAEMON_TIMEOUT_MS;
    return KINETO_OK;
}

/* Without --host a missing daemon is normal and not reported; a refused permission is. */
void kc_daemon_find(kc_trigger_run *run)
{
    kineto_error err = {0};
    kineto_status status = choose_daemon_address(run, &err);
    run->daemon_again_ns = kb_monotonic_ns() + POLL_PERIOD_NS;
    if (status == KINETO_OK)
        status = query_daemon(run, &err);
    run->has_daemon = status == KINETO_OK;
    bool was_absent = run->daemon_is_absent;
    run->daemon_is_absent = status == KINETO_E_NOT_FOUND;
    if (was_absent && run->daemon_is_absent)
        return;
    if (status != KINETO_OK && (run->request->host || status == KINETO_E_PERMISSION))
        kc_show_message("daemon: %s", err.message);
}

/* ---- asking ---------------------------------------------------------------------------------- */

static bool is_in_group(const kc_trigger_run *run, const kc_target *t, const kc_target *first)
{
    return t->via == KC_VIA_DAEMON && t->state == KC_FOUND && t->job == first->job &&
           kc_start_of(run, t) == kc_start_of(run, first) &&
           strcmp(t->asked_path, first->asked_path) == 0;
}

static void set_asked(kc_target *t)
{
    KB_ASSERT(t->state == KC_FOUND);
    t->state = KC_ASKED;
    t->asked_ns = kb_monotonic_ns();
    t->asked_real_ns = (int64_t)kb_clock_ns(CLOCK_REALTIME);
}

/* Descendants that the daemon passed the request to become targets of their own, and must not get
 * it a second time. */
static void mark_triggered(kc_trigger_run *run, const ko_rpc_result *result, const kc_target *first)
{
    for (size_t i = 0; i < result->triggered.count; i++) {
        uint32_t pid = (uint32_t)result->triggered.data[i];
        kc_target *t = kc_target_find(run, pid);
        if (!t)
            t = kc_target_add(run, pid, first->job, KC_VIA_DAEMON);
        if (!t || t->state != KC_FOUND)
            continue;
        if (t->via == KC_VIA_SOCKET || !t->asked_path[0]) {
            ko_control_close(t->peer);
            t->peer = NULL;
            t->via = KC_VIA_DAEMON;
            if (!kc_files_choose(run, t, true))
                continue;
        }
        set_asked(t);
    }
}

static bool contains_pid(const ko_rpc_pids *pids, uint32_t pid)
{
    for (size_t i = 0; i < pids->count; i++)
        if ((uint32_t)pids->data[i] == pid)
            return true;
    return false;
}

/* Targets of the group that the daemon did not accept. */
static void fail_unmatched(const kc_trigger_run *run, const ko_rpc_result *result,
                           const kc_pids *group)
{
    for (size_t i = 0; i < group->count; i++) {
        kc_target *t = kc_target_find(run, (uint32_t)group->data[i]);
        if (!t || t->state != KC_FOUND)
            continue;
        if (!contains_pid(&result->matched, t->pid))
            kc_target_fail(t, "the daemon does not know it any more: has it ended?");
        else if (result->busy)
            kc_target_fail(t, "busy: it has not fetched an earlier request from the daemon yet");
        else
            kc_target_fail(t, "another process got the request instead (--limit)");
    }
}

static void fail_whole_group(const kc_trigger_run *run, const kc_pids *group, const char *why)
{
    for (size_t i = 0; i < group->count; i++)
        kc_target_fail(kc_target_find(run, (uint32_t)group->data[i]), "%s", why);
}

/* @param result to be freed if KINETO_OK. */
static kineto_status send_group_request(kc_trigger_run *run, const kc_target *first,
                                        const kc_pids *group, ko_rpc_result *result,
                                        kineto_error *err)
{
    char *text;
    kc_request_format how = {
        .path = first->asked_path, .start_ns = kc_start_of(run, first), .plain = true};
    kineto_status status = kc_request_text(run->request, &how, &text, err);
    if (status != KINETO_OK)
        return status;
    /* The daemon also passes it to descendants of the given processes, up to the limit. */
    uint64_t room = run->request->limit - run->targets.count + group->count;
    ko_rpc_request rpc = {.job = first->job,
                          .pids = group->data,
                          .pid_count = (uint32_t)group->count,
                          .limit = (int64_t)room,
                          .config = kb_string(text)};
    status = ko_rpc_trigger(&run->daemon, &rpc, result, err);
    free(text);
    return status;
}

/* Targets of one job with the same text share one request. */
static void request_group(kc_trigger_run *run, const kc_target *first)
{
    KB_ASSERT(first->via == KC_VIA_DAEMON && first->state == KC_FOUND);
    kc_pids group = {0};
    ko_rpc_result result = {0};
    kineto_error err;
    for (size_t i = 0; i < run->targets.count; i++)
        if (is_in_group(run, run->targets.data[i], first))
            (void)kb_vec_push(&group, (int32_t)run->targets.data[i]->pid);
    if (send_group_request(run, first, &group, &result, &err) == KINETO_OK) {
        mark_triggered(run, &result, first);
        fail_unmatched(run, &result, &group);
        ko_rpc_result_free(&result);
    } else {
        fail_whole_group(run, &group, err.message);
    }
    kb_vec_free(&group);
}

/* Paths are chosen first, since targets with equal paths share a request. */
void kc_daemon_ask(kc_trigger_run *run)
{
    for (size_t i = 0; i < run->targets.count; i++) {
        kc_target *t = run->targets.data[i];
        if (t->via == KC_VIA_DAEMON && t->state == KC_FOUND && !t->asked_path[0])
            (void)kc_files_choose(run, t, true);
    }
    for (size_t i = 0; i < run->targets.count; i++)
        if (run->targets.data[i]->via == KC_VIA_DAEMON && run->targets.data[i]->state == KC_FOUND)
            request_group(run, run->targets.data[i]);
}

/* ---- following ------------------------------------------------------------------------------- */

/* Is there a target that gets another request, or that has not fetched its request yet? */
static bool has_targets_to_follow(const kc_trigger_run *run)
{
    bool any = false;
    for (size_t i = 0; i < run->targets.count; i++) {
        const kc_target *t = run->targets.data[i];
        if (t->via == KC_VIA_DAEMON)
            any |= t->state == KC_FOUND ? t->tries > 0 : t->state == KC_ASKED && run->daemon_lists;
    }
    return any;
}

/* Only while discovery runs or a target has to be followed. */
void kc_daemon_poll(kc_trigger_run *run)
{
    bool discovers = kb_monotonic_ns() < run->discover_until_ns;
    kineto_error err;
    if (!run->has_daemon || kb_monotonic_ns() < run->daemon_again_ns ||
        (!discovers && !has_targets_to_follow(run)))
        return;
    run->daemon_again_ns = kb_monotonic_ns() + POLL_PERIOD_NS;
    run->has_daemon = query_daemon(run, &err) == KINETO_OK;
    if (run->has_daemon)
        kc_daemon_ask(run);
    else /* reported once: processes that have the request do not need the daemon */
        kc_show_message("daemon: %s", err.message);
}

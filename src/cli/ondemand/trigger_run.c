/* A trigger on this host: discover processes, send them requests, follow them to their traces.
 *
 * A single loop (run_turn) drives all ways of reaching processes. Three deadlines end it:
 * discovery (discover_until_ns), each target (wait_until_ns and its more_ns), and reply times of
 * control sockets. Processes that were selected and never became targets are added at the end, as
 * FAILED, so that the report names every process with a reason. */
#include "cli/ondemand/trigger.h"

#include <pwd.h>
#include <signal.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#define TURN_MS            100
#define DISCOVER_PERIOD_NS (KB_SECOND_NS / 4)
#define DAEMON_RETRY_NS  250000000

static volatile sig_atomic_t interrupted;

static void store_signal(int number) { interrupted = number; }

/* SA_RESETHAND: the second signal has its default action. */
void kc_catch_signals(void (*handler)(int number))
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = handler, .sa_flags = (int)SA_RESETHAND};
    struct sigaction old;
    for (size_t i = 0; i < KB_COUNT(signals); i++)
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(signals[i], &action, NULL);
}

/* ---- which selected processes are targets ---------------------------------------------------- */

/* Is this pid, or a descendant of it, a target? */
static bool is_pid_reached(const kc_trigger_run *run, int32_t pid)
{
    int32_t pids[KO_DYNO_MAX_PIDS];
    kc_request one = {.pids = {.data = &pid, .count = 1}};
    for (size_t i = 0; i < run->targets.count; i++) {
        const kc_target *t = run->targets.data[i];
        if (kc_matches(&one, (const int32_t *)t->served, t->served_count, 0) ||
            kc_matches(&one, pids, ko_dyno_ancestors(t->pid, pids), 0))
            return true;
    }
    return false;
}

static bool are_pids_reached(const kc_trigger_run *run)
{
    for (size_t i = 0; i < run->request->pids.count; i++)
        if (!is_pid_reached(run, run->request->pids.data[i]))
            return false;
    return run->targets.count != 0;
}

/* Endpoints that are not visible have no pid to compare: they are reached when there are as many
 * targets without control sockets as endpoints. */
static bool are_endpoints_reached(const kc_trigger_run *run)
{
    size_t without_socket = 0;
    for (size_t i = 0; i < run->targets.count; i++)
        without_socket += run->targets.data[i]->via != KC_VIA_SOCKET;
    for (size_t i = 0; i < run->endpoints.count; i++) {
        uint32_t pid = run->endpoints.data[i].pid;
        bool reached =
            pid ? kc_target_find(run, pid) != NULL : without_socket >= run->endpoints.count;
        if (!reached)
            return false;
    }
    return true;
}

/* Are all selected pids and all processes with a polling socket targets? */
static bool is_discovery_complete(const kc_trigger_run *run)
{
    return are_pids_reached(run) && are_endpoints_reached(run);
}

/* --dump and --cancel exist on control sockets only. */
static bool can_use_wire(const kc_trigger_run *run)
{
    return !run->request->dump && !run->request->cancel;
}

/* A daemon that was named replaces all other ways over Dynolog's wire. */
static bool has_wire(const kc_trigger_run *run)
{
    return can_use_wire(run) && (!run->request->host || run->has_daemon);
}

/* ---- discovery ------------------------------------------------------------------------------- */

/* A process polled while it was busy: it has no request yet, and polls again. */
static bool has_busy_poller(const kc_trigger_run *run)
{
    for (size_t i = 0; i < run->targets.count; i++) {
        const kc_target *t = run->targets.data[i];
        if (t->via != KC_VIA_SOCKET && t->state == KC_FOUND)
            return true;
    }
    return false;
}

/* A pid was selected that is not reached, and that may still begin to poll. */
static bool may_missing_pid_poll(const kc_trigger_run *run)
{
    for (size_t i = 0; i < run->request->pids.count; i++) {
        int32_t pid = run->request->pids.data[i];
        if (!is_pid_reached(run, pid) && kc_may_still_poll(run, (uint32_t)pid))
            return true;
    }
    return false;
}

/* Can a process still become a target, so that discovery has to go on? Without --pid (any process
 * may start), with --discover (the user knows why) and with a named daemon (it may learn of
 * processes later) the answer is yes until the time is over. */
static bool can_more_arrive(const kc_trigger_run *run)
{
    const kc_request *request = run->request;
    if (can_use_wire(run) && !has_wire(run))
        return false;
    if (!request->pids.count || request->has_discover || request->host)
        return true;
    return has_busy_poller(run) || may_missing_pid_poll(run) || !are_endpoints_reached(run);
}

/* Programs open their control sockets some time after their start. */
static void find_new_sockets(kc_trigger_run *run)
{
    if (are_pids_reached(run))
        return;
    kc_socket_find(run);
    kc_socket_ask(run);
}

/* At intervals, because reading /proc is slow. Ends discovery when nothing can arrive any more. */
static void discover_again(kc_trigger_run *run)
{
    uint64_t now_ns = kb_monotonic_ns();
    if (now_ns < run->discover_again_ns || now_ns >= run->discover_until_ns)
        return;
    run->discover_again_ns = now_ns + DISCOVER_PERIOD_NS;
    find_new_sockets(run);
    if (can_use_wire(run))
        kc_find_endpoints(run);
    if (!can_more_arrive(run))
        run->discover_until_ns = kb_monotonic_ns();
}

static bool is_discovering(const kc_trigger_run *run)
{
    return can_use_wire(run) && kb_monotonic_ns() < run->discover_until_ns && !run->over_limit &&
           !is_discovery_complete(run);
}

/* ---- selected processes that were not reached ------------------------------------------------ */

/* A process of another user: its environment cannot be read, and only its user (or root as that
 * user) can trace it. Returns false if the process belongs to this user. */
static bool explain_other_user(kc_target *t)
{
    uint32_t user = 0;
    if (!kc_process_user(t->pid, &user) || user == geteuid())
        return false;
    const struct passwd *entry = getpwuid(user);
    char number[16];
    snprintf(number, sizeof number, "%u", user);
    const char *name = entry ? entry->pw_name : number;
    if (geteuid() == 0)
        kc_target_fail(t,
                       "it belongs to user %s, and its control socket is that user's; run this "
                       "command as %s (runuser -u %s -- ckineto trigger …)",
                       name, name, name);
    else
        kc_target_fail(t, "it belongs to user %s; only that user can trace it", name);
    return true;
}

/* The process could be traced only over Dynolog's wire, and no daemon is involved. */
static void explain_silence(const kc_trigger_run *run, kc_target *t, bool polls)
{
    char value[8];
    if (kc_has_socket(t->pid))
        kc_target_fail(t, "it has a control socket and does not answer: is it stopped?");
    else if (polls)
        kc_target_fail(t,
                       "it did not poll for a request within %.0f s, though KINETO_USE_DAEMON is "
                       "set: is it in another container, has it loaded its profiler, is it "
                       "stopped?",
                       (double)run->request->discover_ns / 1e9);
    else if (kc_process_setting(t->pid, "CKINETO_CONTROL", value, sizeof value))
        kc_target_fail(
            t, "CKINETO_CONTROL is set in its environment, but it has no control socket here: is "
               "libckineto loaded (a linker drops libraries without calls), do its messages give "
               "a reason, does it run with another XDG_RUNTIME_DIR?");
    else
        kc_target_fail(
            t, "it does not poll for requests: neither KINETO_USE_DAEMON nor CKINETO_CONTROL seems "
               "to be set in its environment; start it with one of them, or with 'ckineto record "
               "--on-demand'; --discover SECONDS waits for a process that sets them itself; now this "
               "works: ckineto record --pid %lld --seconds 5",
            (long long)t->pid);
}

/* The most specific reason why a selected process is not a target. */
static void explain_absence(const kc_trigger_run *run, kc_target *t)
{
    char value[8];
    const char *host = run->request->host;
    bool polls = kc_process_setting(t->pid, "KINETO_USE_DAEMON", value, sizeof value);
    if (!polls && !host && explain_other_user(t))
        return;
    if (!can_use_wire(run))
        kc_target_fail(t, "it has no control socket (CKINETO_CONTROL=socket in its environment), "
                          "which --dump and --cancel need; now this works: ckineto record --pid %lld --seconds 5",
                       (long long)t->pid);
    else if (host)
        kc_target_fail(t, "the daemon at %s does not know it%s", host,
                       run->has_daemon ? "" : ", since it was not reached");
    else if (!run->own_daemon && !run->has_daemon && run->bind_error.code)
        kc_target_fail(t, "%s", run->bind_error.message);
    else
        explain_silence(run, t, polls);
}

/* Selected pids that were not reached become FAILED targets. */
static void fail_missing_pids(kc_trigger_run *run)
{
    for (size_t i = 0; i < run->request->pids.count; i++) {
        int32_t pid = run->request->pids.data[i];
        kc_target *t = NULL;
        if (!is_pid_reached(run, pid))
            t = kc_target_add(run, (uint32_t)pid, 0, KC_VIA_NONE);
        if (t && t->born)
            explain_absence(run, t);
        else if (t)
            kc_target_fail(t, "no such process");
    }
}

/* The same for processes with a polling socket that match without being named. */
static void fail_silent_endpoints(kc_trigger_run *run)
{
    for (size_t i = 0; i < run->endpoints.count && !run->over_limit; i++) {
        uint32_t pid = run->endpoints.data[i].pid;
        bool is_silent = pid && !kc_target_find(run, pid) && kb_os_start_time(pid);
        kc_target *t = is_silent ? kc_target_add(run, pid, 0, KC_VIA_NONE) : NULL;
        if (t)
            explain_absence(run, t);
    }
}

/* ---- timeouts -------------------------------------------------------------------------------- */

/* By state: what the process has not done in time. */
static void fail_late_target(const kc_trigger_run *run, kc_target *t)
{
    double seconds = (double)(kb_monotonic_ns() - run->begun_ns) / 1e9;
    KB_ASSERT(!kc_target_over(t));
    if (t->state == KC_FOUND)
        kc_target_fail(t, "it was busy: it did not accept the request within %.0f s", seconds);
    else if (t->state == KC_ASKED && t->via == KC_VIA_SOCKET)
        kc_target_fail(t, "it does not answer: is it stopped?");
    else if (t->state == KC_ASKED && run->daemon_lists)
        kc_target_fail(t, "it was busy, or has ended: it did not fetch the request within %.0f s",
                       seconds);
    else if (t->state == KC_ASKED || t->state == KC_TAKEN)
        kc_target_fail(t, "no trace after %.0f s: '%s' does not exist; see its messages", seconds,
                       t->path);
    else
        kc_target_fail(t, "still running after %.0f s (%s): its trace will be '%s'", seconds,
                       kc_target_state_name(t->state), t->path);
}

/* The common start has passed, and the daemon still has the request. */
static bool has_missed_start(const kc_trigger_run *run, const kc_target *t)
{
    return run->daemon_lists && kc_start_of(run, t) && t->via == KC_VIA_DAEMON &&
           t->state == KC_ASKED && (int64_t)kb_clock_ns(CLOCK_REALTIME) > run->start_ns;
}

/* Deadlines of replies, of discovery without --wait, and of the whole run. */
static bool is_late(const kc_trigger_run *run, const kc_target *t)
{
    uint64_t now_ns = kb_monotonic_ns();
    bool awaits_reply = t->via == KC_VIA_SOCKET && t->state == KC_ASKED;
    if (awaits_reply && now_ns - t->asked_ns > KC_REPLY_TIMEOUT_NS)
        return true;
    /* Without --wait a busy process is only waited for during discovery. */
    if (t->state == KC_FOUND && !run->request->has_wait && now_ns >= run->discover_until_ns)
        return true;
    return now_ns >= run->wait_until_ns + t->more_ns;
}

/* Targets that missed the start or a deadline become FAILED. */
static void check_timeouts(kc_trigger_run *run)
{
    for (size_t i = 0; i < run->targets.count; i++) {
        kc_target *t = run->targets.data[i];
        if (kc_target_over(t))
            continue;
        if (has_missed_start(run, t))
            kc_target_fail(t, "it missed the start: busy, or gone; it did not fetch the request");
        else if (is_late(run, t))
            fail_late_target(run, t);
    }
}

/* ---- the end --------------------------------------------------------------------------------- */

/* With --wait a target is finished when its trace is there; without it, when it has the request. A
 * control socket replies to each request, which makes its target DONE. */
static bool is_target_finished(const kc_trigger_run *run, const kc_target *t)
{
    if (run->request->has_wait || kc_target_over(t))
        return kc_target_over(t);
    if (t->via == KC_VIA_SOCKET)
        return false;
    return t->state >= (t->via == KC_VIA_OWN ? KC_TAKEN : KC_ASKED);
}

static bool is_run_finished(const kc_trigger_run *run)
{
    for (size_t i = 0; i < run->targets.count; i++)
        if (!is_target_finished(run, run->targets.data[i]))
            return false;
    return !is_discovering(run) && (run->request->has_wait || kc_own_daemon_settled(run));
}

/* Without --wait, targets that have the request are DONE. */
static void finish_targets(kc_trigger_run *run)
{
    if (run->request->has_wait)
        return;
    for (size_t i = 0; i < run->targets.count; i++) {
        kc_target *t = run->targets.data[i];
        if (!kc_target_over(t) && is_target_finished(run, t))
            t->state = KC_DONE;
    }
}

/* ---- the start ------------------------------------------------------------------------------- */

static bool is_wire_expected(const kc_trigger_run *run)
{
    for (size_t i = 0; i < run->targets.count; i++)
        if (run->targets.data[i]->via != KC_VIA_SOCKET)
            return true;
    return has_wire(run) && !is_discovery_complete(run);
}

/* Expected number of targets; 2 stands for "several" if it is not known yet. */
static size_t count_expected_targets(const kc_trigger_run *run)
{
    size_t count = run->targets.count, pids = run->request->pids.count;
    for (size_t i = 0; i < run->endpoints.count; i++) {
        uint32_t pid = run->endpoints.data[i].pid;
        count += !pid || !kc_target_find(run, pid);
    }
    bool is_unknown = !count && pids != 1;
    return is_unknown ? 2 : count;
}

/* Several targets begin at the same time, late enough for the last one to receive the request. Also
 * sets the deadline of all targets. */
static void choose_common_start(kc_trigger_run *run)
{
    const kc_request *request = run->request;
    bool wire = is_wire_expected(run);
    int64_t lead_ns = kc_request_lead_ns(request, wire);
    int64_t now_ns = (int64_t)kb_clock_ns(CLOCK_REALTIME);
    if (wire && !run->has_daemon)
        lead_ns += (int64_t)(KC_RETURN_NS - KC_POLL_NS);
    bool together =
        count_expected_targets(run) > 1 && !request->separately && !kc_by_iteration(request);
    run->start_ns = request->start_ns;
    if (request->dump || request->cancel)
        run->start_ns = 0;
    else if (run->start_ns && wire && run->start_ns < now_ns + lead_ns)
        kc_show_message("the start is in %.1f s: processes that poll every 5 s may miss it; %.1f s "
                        "are enough",
                        (double)(run->start_ns - now_ns) / 1e9, (double)lead_ns / 1e9);
    else if (!run->start_ns && together)
        run->start_ns = (now_ns + lead_ns) / (int64_t)KC_MS_NS * (int64_t)KC_MS_NS;
    int64_t until_start_ns = run->start_ns ? run->start_ns - now_ns : 0;
    uint64_t wait_ns = KC_WRITE_TIMEOUT_NS + kc_request_length_ns(request) + request->discover_ns +
                       (uint64_t)KB_MAX(until_start_ns, lead_ns);
    run->wait_until_ns =
        request->wait_ns ? run->begun_ns + request->wait_ns : kb_monotonic_ns() + wait_ns;
}

/* ---- the run --------------------------------------------------------------------------------- */

/* Control sockets first; a daemon only if processes are missing. */
static void discover_targets(kc_trigger_run *run)
{
    kc_socket_find(run);
    if (!can_use_wire(run))
        return;
    kc_find_endpoints(run);
    if (!is_discovery_complete(run))
        kc_daemon_find(run);
}

/* A daemon that was named may start later than this command. */
static void await_daemon(kc_trigger_run *run)
{
    const struct timespec pause = {0, DAEMON_RETRY_NS};
    uint64_t retry_ns = kc_retry_ns(run->request);
    if (!run->request->host || !run->daemon_is_absent || !retry_ns)
        return;
    kc_show_message("no daemon listens yet; trying again for %.0f s (--retry)",
                    (double)retry_ns / 1e9);
    while (!interrupted && run->daemon_is_absent && kb_monotonic_ns() < run->begun_ns + retry_ns) {
        (void)nanosleep(&pause, NULL);
        kc_daemon_find(run);
    }
}

/* If no process is there at all, --retry extends the time to wait for one. */
static uint64_t choose_discovery_ns(const kc_trigger_run *run)
{
    bool found_none = !run->targets.count && !run->endpoints.count && !run->request->pids.count;
    return KB_MAX(run->request->discover_ns, found_none ? kc_retry_ns(run->request) : 0);
}

/* All selected pids have ended: there is nothing to wait for. */
static bool are_all_pids_gone(const kc_trigger_run *run)
{
    for (size_t i = 0; i < run->request->pids.count; i++)
        if (kb_os_start_time((uint32_t)run->request->pids.data[i]))
            return false;
    return run->request->pids.count && !run->targets.count && !run->endpoints.count;
}

/* One turn of the loop, which waits at most TURN_MS for events. */
static void run_turn(kc_trigger_run *run)
{
    if (!run->own_daemon && !run->request->host && is_discovering(run))
        kc_own_daemon_start(run);
    kc_own_daemon_serve(run, TURN_MS);
    kc_socket_poll(run);
    kc_daemon_poll(run);
    discover_again(run);
    kc_files_poll(run);
    check_timeouts(run);
    kc_show_progress(run);
}

/* Discover, choose the start, send requests, and follow all targets. */
static void run_trigger(kc_trigger_run *run)
{
    discover_targets(run);
    await_daemon(run);
    run->discover_until_ns =
        kb_monotonic_ns() + (are_all_pids_gone(run) ? 0 : choose_discovery_ns(run));
    discover_again(run);
    choose_common_start(run);
    kc_show_begin(run);
    /* The daemon first: it may also pass the request to descendants of the processes that it is
     * given. */
    kc_daemon_ask(run);
    kc_socket_ask(run);
    while (!interrupted && !is_run_finished(run))
        run_turn(run);
    if (!interrupted)
        fail_missing_pids(run);
    if (!interrupted && can_use_wire(run))
        fail_silent_endpoints(run);
    finish_targets(run);
}

/* Targets own their connections. */
static void free_run(kc_trigger_run *run)
{
    for (size_t i = 0; i < run->targets.count; i++) {
        ko_control_close(run->targets.data[i]->peer);
        free(run->targets.data[i]);
    }
    kb_vec_free(&run->targets);
    kb_vec_free(&run->endpoints);
    kb_vec_free(&run->tried);
    ko_dyno_daemon_destroy(run->own_daemon);
    if (run->peers >= 0)
        close(run->peers);
}

/* An interruption is reported with the states of all targets. */
int kc_trigger_local(const kc_request *request)
{
    kc_trigger_run run = {.request = request, .begun_ns = kb_monotonic_ns()};
    run.peers = epoll_create1(EPOLL_CLOEXEC);
    if (run.peers < 0) {
        kc_complain("trigger: no file descriptors are left");
        return KC_EXIT_FAILURE;
    }
    kc_catch_signals(store_signal);
    run_trigger(&run);
    if (interrupted)
        kc_show_message("interrupted");
    else if (!run.targets.count)
        kc_show_message("no process to trace was found");
    int status = kc_show_end(&run, interrupted != 0);
    free_run(&run);
    return interrupted ? 128 + (int)interrupted : status;
}

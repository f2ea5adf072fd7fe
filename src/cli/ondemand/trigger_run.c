/* A trigger on this host, from looking for processes to their last trace. */
#include "cli/ondemand/trigger.h"

#include <pwd.h>
#include <signal.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#define TURN_MS    100
#define ANSWERS_NS (5 * KC_SECOND_NS) /* a process that has a control socket */
#define PATIENCE_NS                                                                                \
    (60 * KC_SECOND_NS) /* beyond what was asked for: traces are built and written */

static volatile sig_atomic_t interrupted;

static void on_signal(int number) { interrupted = number; }

void kc_catch_signals(void (*handler)(int number))
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = handler, .sa_flags = (int)SA_RESETHAND};
    struct sigaction old;
    for (size_t i = 0; i < KB_COUNT(signals); i++)
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(signals[i], &action, NULL);
}

/* ---- who is still awaited -------------------------------------------------------------------- */

static bool reached(const kc_trigger_run *run, int32_t pid)
{
    int32_t pids[KO_DYNO_MOST_PIDS];
    kc_request one = {.pids = {.data = &pid, .count = 1}};
    for (size_t i = 0; i < run->targets.count; i++) {
        const kc_target *t = run->targets.data[i];
        if (kc_matches(&one, (const int32_t *)t->served, t->served_count, 0) ||
            kc_matches(&one, pids, ko_dyno_ancestors(t->pid, pids), 0))
            return true;
    }
    return false;
}

static bool named_all_reached(const kc_trigger_run *run)
{
    for (size_t i = 0; i < run->request->pids.count; i++)
        if (!reached(run, run->request->pids.data[i]))
            return false;
    return run->targets.count != 0;
}

static bool all_endpoints_reached(const kc_trigger_run *run)
{
    size_t by_wire = 0;
    for (size_t i = 0; i < run->targets.count; i++)
        by_wire += run->targets.data[i]->via != KC_VIA_SOCKET;
    for (size_t i = 0; i < run->endpoints.count; i++) {
        uint32_t pid = run->endpoints.data[i].pid;
        if (pid ? !kc_target_find(run, pid) : by_wire < run->endpoints.count)
            return false;
    }
    return true;
}

/* Everybody who was named, and everybody who has a socket to ask with. */
static bool found_all(const kc_trigger_run *run)
{
    return named_all_reached(run) && all_endpoints_reached(run);
}

static bool needs_wire(const kc_trigger_run *run) { return !run->request->dump && !run->request->cancel; }

/* The daemon that was named is all of Dynolog's wire. */
static bool has_wire(const kc_trigger_run *run)
{
    return needs_wire(run) && (!run->request->host || run->has_daemon);
}

/* Whoever was named and is still missing: may one of them come? Who said how long to wait knows
 * why. */
static bool somebody_may_come(const kc_trigger_run *run)
{
    if (needs_wire(run) && !has_wire(run))
        return false;
    if (!run->request->pids.count || run->request->has_discover || run->request->host)
        return true;
    for (size_t i = 0; i < run->targets.count; i++) /* it has come, and was busy */
        if (run->targets.data[i]->via != KC_VIA_SOCKET && run->targets.data[i]->state == KC_FOUND)
            return true;
    for (size_t i = 0; i < run->request->pids.count; i++) {
        uint32_t pid = (uint32_t)run->request->pids.data[i];
        if (!reached(run, run->request->pids.data[i]) && kc_may_still_poll(run, pid))
            return true;
    }
    return !all_endpoints_reached(run);
}

/* Programs open their control sockets a moment after they have begun. */
static void find_new_sockets(kc_trigger_run *run)
{
    if (named_all_reached(run))
        return;
    kc_socket_find(run);
    kc_socket_ask(run);
}

/* By /proc, which takes a while: not in every turn. */
static void look_again(kc_trigger_run *run)
{
    const uint64_t AGAIN_NS = KC_SECOND_NS / 4;
    if (kc_now_ns() < run->discover_again_ns || kc_now_ns() >= run->discover_until_ns)
        return;
    run->discover_again_ns = kc_now_ns() + AGAIN_NS;
    find_new_sockets(run);
    if (needs_wire(run))
        kc_find_endpoints(run);
    if (!somebody_may_come(run))
        run->discover_until_ns = kc_now_ns();
}

static bool looks(const kc_trigger_run *run)
{
    return needs_wire(run) && kc_now_ns() < run->discover_until_ns && !run->over_limit &&
           !found_all(run);
}

/* ---- those who never came -------------------------------------------------------------------- */

/* Its environment cannot be read, and nobody but its user may ask it; root can become that. */
static bool explain_stranger(kc_target *t)
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
                       "it belongs to user %s, and what it listens to is that user's: ask as %s "
                       "(runuser -u %s -- ckineto trigger …)",
                       name, name, name);
    else
        kc_target_fail(t, "it belongs to user %s: only that user may ask it", name);
    return true;
}

static void explain_absence(const kc_trigger_run *run, kc_target *t)
{
    char value[8];
    double seconds = (double)run->request->discover_ns / 1e9;
    bool waits = kc_process_setting(t->pid, "KINETO_USE_DAEMON", value, sizeof value);
    if (!waits && !run->request->host && explain_stranger(t))
        return;
    if (!needs_wire(run))
        kc_target_fail(
            t, "it has no control socket (CKINETO_CONTROL=socket in its environment): others "
               "cannot be asked for that");
    else if (run->request->host)
        kc_target_fail(t, "the daemon at %s does not know it%s", run->request->host,
                       run->has_daemon ? "" : ", since it was not reached");
    else if (!run->own_daemon && !run->has_daemon && run->bind_error.code)
        kc_target_fail(t, "%s", run->bind_error.message);
    else if (kc_has_socket(t->pid))
        kc_target_fail(t, "it has a control socket and does not answer: is it stopped?");
    else if (!waits && kc_process_setting(t->pid, "CKINETO_CONTROL", value, sizeof value))
        kc_target_fail(
            t, "CKINETO_CONTROL is set in its environment, but it has no control socket here: is "
               "libckineto loaded (a linker leaves out what nothing is called of), do its messages "
               "say why, does it run with another XDG_RUNTIME_DIR?");
    else if (!waits)
        kc_target_fail(
            t, "it does not ask for requests: neither KINETO_USE_DAEMON nor CKINETO_CONTROL "
               "seems to be set in its environment. Start it with one of them, or by 'ckineto "
               "record --on-demand'; --discover SECONDS waits for one that sets them itself");
    else
        kc_target_fail(
            t,
            "it did not ask for a request within %.0f s, though KINETO_USE_DAEMON is set: "
            "is it in another container, has it loaded its profiler, is it stopped?",
            seconds);
}

static void fail_absent(kc_trigger_run *run)
{
    for (size_t i = 0; i < run->request->pids.count; i++) {
        int32_t pid = run->request->pids.data[i];
        kc_target *t = reached(run, pid) ? NULL : kc_target_add(run, (uint32_t)pid, 0, KC_VIA_NONE);
        if (t && t->born)
            explain_absence(run, t);
        else if (t)
            kc_target_fail(t, "there is no such process here");
    }
}

/* They have sockets to ask with, and are wanted, though nobody named them. */
static void fail_silent(kc_trigger_run *run)
{
    for (size_t i = 0; i < run->endpoints.count && !run->over_limit; i++) {
        uint32_t pid = run->endpoints.data[i].pid;
        bool silent = pid && !kc_target_find(run, pid) && kb_os_start_time(pid);
        kc_target *t = silent ? kc_target_add(run, pid, 0, KC_VIA_NONE) : NULL;
        if (t)
            explain_absence(run, t);
    }
}

/* ---- when it takes too long ------------------------------------------------------------------ */

static void explain_lateness(const kc_trigger_run *run, kc_target *t)
{
    double seconds = (double)(kc_now_ns() - run->begun_ns) / 1e9;
    if (t->state == KC_FOUND)
        kc_target_fail(t, "it was busy: it did not take the request within %.0f s", seconds);
    else if (t->state == KC_ASKED && t->via == KC_VIA_SOCKET)
        kc_target_fail(t, "it does not answer: is it stopped?");
    else if (t->state == KC_ASKED && run->daemon_lists)
        kc_target_fail(t, "it was busy, or has ended: it did not fetch the request within %.0f s",
                       seconds);
    else if (t->state == KC_ASKED || t->state == KC_TAKEN)
        kc_target_fail(t, "no trace after %.0f s: '%s' is not there; its messages may say why",
                       seconds, t->path);
    else
        kc_target_fail(t, "still at it after %.0f s (%s): its trace will be '%s'", seconds,
                       kc_target_state_name(t->state), t->path);
}

/* The daemon still has it when all begin. */
static bool missed(const kc_trigger_run *run, const kc_target *t)
{
    return run->daemon_lists && kc_start_of(run, t) && t->via == KC_VIA_DAEMON && t->state == KC_ASKED &&
           (int64_t)kb_clock_ns(CLOCK_REALTIME) > run->start_ns;
}

static bool is_late(const kc_trigger_run *run, const kc_target *t)
{
    if (t->via == KC_VIA_SOCKET && t->state == KC_ASKED && kc_now_ns() - t->asked_ns > ANSWERS_NS)
        return true;
    return kc_now_ns() >= run->wait_until_ns + t->more_ns;
}

static void check_times(kc_trigger_run *run)
{
    for (size_t i = 0; i < run->targets.count; i++) {
        kc_target *t = run->targets.data[i];
        bool was_busy =
            t->state == KC_FOUND && !run->request->has_wait && kc_now_ns() >= run->discover_until_ns;
        if (kc_target_over(t))
            continue;
        if (missed(run, t))
            kc_target_fail(t, "it missed the start: busy, or gone; it did not fetch the request");
        else if (was_busy || is_late(run, t))
            explain_lateness(run, t);
    }
}

/* ---- when it is over ------------------------------------------------------------------------- */

/* Nobody follows: to have been asked is all. */
static bool asked_enough(const kc_trigger_run *run, const kc_target *t)
{
    if (run->request->has_wait || kc_target_over(t))
        return kc_target_over(t);
    return t->via != KC_VIA_SOCKET && t->state >= (t->via == KC_VIA_OWN ? KC_TAKEN : KC_ASKED);
}

static bool finished(const kc_trigger_run *run)
{
    for (size_t i = 0; i < run->targets.count; i++)
        if (!asked_enough(run, run->targets.data[i]))
            return false;
    return !looks(run) && (run->request->has_wait || kc_own_daemon_settled(run));
}

static void settle(kc_trigger_run *run)
{
    for (size_t i = 0; i < run->targets.count; i++)
        if (!run->request->has_wait && asked_enough(run, run->targets.data[i]) &&
            !kc_target_over(run->targets.data[i]))
            run->targets.data[i]->state = KC_DONE;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static bool uses_wire(const kc_trigger_run *run)
{
    for (size_t i = 0; i < run->targets.count; i++)
        if (run->targets.data[i]->via != KC_VIA_SOCKET)
            return true;
    return has_wire(run) && !found_all(run);
}

static size_t expected(const kc_trigger_run *run)
{
    size_t count = run->targets.count;
    for (size_t i = 0; i < run->endpoints.count; i++)
        count += !run->endpoints.data[i].pid || !kc_target_find(run, run->endpoints.data[i].pid);
    bool unknown = !count && (!run->request->pids.count || run->request->pids.count > 1);
    return unknown ? 2 : count;
}

/* Several begin at the same time, with time enough for the last one to hear of it. */
static void choose_start(kc_trigger_run *run)
{
    const kc_request *request = run->request;
    bool wire = uses_wire(run);
    int64_t lead_ns = kc_request_lead_ns(request, wire);
    int64_t now_ns = (int64_t)kb_clock_ns(CLOCK_REALTIME);
    if (wire && !run->has_daemon)
        lead_ns += (int64_t)(KC_RETURN_NS - KC_POLL_NS);
    bool together = expected(run) > 1 && !request->separately && !kc_by_iteration(request);
    run->start_ns = request->start_ns;
    if (request->dump || request->cancel)
        run->start_ns = 0;
    else if (run->start_ns && wire && run->start_ns < now_ns + lead_ns)
        kc_show_message("the start is in %.1f s: processes that ask every 5 s may miss it, %.1f s "
                     "are enough",
                     (double)(run->start_ns - now_ns) / 1e9, (double)lead_ns / 1e9);
    else if (!run->start_ns && together)
        run->start_ns = (now_ns + lead_ns) / (int64_t)KC_MS_NS * (int64_t)KC_MS_NS;
    uint64_t wait_ns = PATIENCE_NS + kc_request_length_ns(request) + request->discover_ns +
                       (uint64_t)KB_MAX(run->start_ns ? run->start_ns - now_ns : 0, lead_ns);
    run->wait_until_ns = request->wait_ns ? run->begun_ns + request->wait_ns : kc_now_ns() + wait_ns;
}

static void look_for_all(kc_trigger_run *run)
{
    kc_socket_find(run);
    if (!needs_wire(run))
        return;
    kc_find_endpoints(run);
    if (!found_all(run))
        kc_daemon_find(run);
}

/* The daemon that was named may start later than this command. */
static void await_daemon(kc_trigger_run *run)
{
    const struct timespec pause = {0, 250000000};
    uint64_t absence_ns = kc_retry_ns(run->request);
    if (run->request->host && run->daemon_is_absent && absence_ns)
        kc_show_message("no daemon listens yet; trying again for %.0f s (--retry)", (double)absence_ns / 1e9);
    while (!interrupted && run->request->host && run->daemon_is_absent &&
           kc_now_ns() < run->begun_ns + absence_ns) {
        (void)nanosleep(&pause, NULL);
        kc_daemon_find(run);
    }
}

static uint64_t discover_ns(const kc_trigger_run *run)
{
    bool none = !run->targets.count && !run->endpoints.count && !run->request->pids.count;
    return KB_MAX(run->request->discover_ns, none ? kc_retry_ns(run->request) : 0);
}

static bool all_are_gone(const kc_trigger_run *run)
{
    for (size_t i = 0; i < run->request->pids.count; i++)
        if (kb_os_start_time((uint32_t)run->request->pids.data[i]))
            return false;
    return run->request->pids.count && !run->targets.count && !run->endpoints.count;
}

static void turn(kc_trigger_run *run)
{
    if (!run->own_daemon && !run->request->host && looks(run))
        kc_own_daemon_start(run);
    kc_own_daemon_serve(run, TURN_MS);
    kc_socket_poll(run);
    kc_daemon_poll(run);
    look_again(run);
    kc_files_poll(run);
    check_times(run);
    kc_show_progress(run);
}

static void run_all(kc_trigger_run *run)
{
    look_for_all(run);
    await_daemon(run);
    run->discover_until_ns = kc_now_ns() + (all_are_gone(run) ? 0 : discover_ns(run));
    look_again(run);
    choose_start(run);
    kc_show_begin(run);
    kc_daemon_ask(run); /* first: it may also ask children of those it is told of */
    kc_socket_ask(run);
    while (!interrupted && !finished(run))
        turn(run);
    if (!interrupted)
        fail_absent(run);
    if (!interrupted && needs_wire(run))
        fail_silent(run);
    settle(run);
}

static void run_free(kc_trigger_run *run)
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

int kc_trigger_local(const kc_request *request)
{
    kc_trigger_run run = {.request = request, .begun_ns = kc_now_ns(), .peers = epoll_create1(EPOLL_CLOEXEC)};
    if (run.peers < 0) {
        kc_complain("trigger: no descriptors are left");
        return KC_EXIT_FAILURE;
    }
    kc_catch_signals(on_signal);
    run_all(&run);
    if (interrupted)
        kc_show_message("interrupted");
    else if (!run.targets.count)
        kc_show_message("nobody was found to be asked");
    int status = kc_show_end(&run, interrupted != 0);
    run_free(&run);
    return interrupted ? 128 + (int)interrupted : status;
}

/* The first way to reach processes: their control sockets. They reply at once and report the
 * progress of a trace. Connections of matching processes stay open until the trace is written. */
#include "cli/ondemand/trigger.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <time.h>

/* ---- finding --------------------------------------------------------------------------------- */

typedef KB_VEC(ko_control_peer *) peer_list;

/* Sockets that did not answer, or did not match, are not tried again in later rounds. */
static bool is_pid_tried(const kc_trigger_run *run, uint32_t pid)
{
    for (size_t i = 0; i < run->tried.count; i++)
        if ((uint32_t)run->tried.data[i] == pid)
            return true;
    return false;
}

/* Connects to sockets that were not tried before and requests their status, without waiting
 * for the replies. `peers` owns the connections. */
static void query_new_sockets(kc_trigger_run *run, peer_list *peers)
{
    uint32_t *pids = NULL;
    kineto_error err = {0};
    uint32_t count = ko_control_list(&pids, &err);
    if (err.code && !run->discover_again_ns) /* report it only in the first round */
        kc_show_message("control sockets: %s", err.message);
    for (uint32_t i = 0; i < count; i++) {
        ko_control_peer *peer;
        if (kc_target_find(run, pids[i]) || is_pid_tried(run, pids[i]))
            continue;
        (void)kb_vec_push(&run->tried, (int32_t)pids[i]);
        kineto_status status = ko_control_connect(pids[i], &peer, &err);
        if (status == KINETO_OK)
            status = ko_control_send(peer, "status", kb_string(""), &err);
        else
            peer = NULL;
        if (status != KINETO_OK || !kb_vec_push(peers, peer)) {
            kc_show_message("control sockets: %s", err.message);
            ko_control_close(peer);
        }
    }
    free(pids);
}

/* Matches the programs of a recorder and the descendants of a launcher, too. */
static bool does_status_match(const kc_request *request, const ko_control_answer *a, uint32_t pid)
{
    int32_t pids[KB_COUNT(a->pids)];
    for (uint32_t i = 0; i < a->pid_count; i++)
        pids[i] = (int32_t)a->pids[i];
    if (request->all || (!request->has_job && kc_matches(request, pids, a->pid_count, 0)))
        return true;
    return kc_process_matches(request, pid);
}

/* A matching process becomes a target that owns the connection. False: it does not match. */
static bool add_socket_target(kc_trigger_run *run, ko_control_peer *peer,
                              const ko_control_answer *a)
{
    uint32_t pid = ko_control_peer_pid(peer);
    if (strcmp(a->verb, "status") != 0 || !does_status_match(run->request, a, pid))
        return false;
    kc_target *t = kc_target_add(run, pid, kc_process_job(pid), KC_VIA_SOCKET);
    if (!t)
        return false;
    t->peer = peer;
    memcpy(t->served, a->pids, sizeof t->served);
    t->served_count = a->pid_count;
    if (a->process_name[0])
        snprintf(t->name, sizeof t->name, "%.31s", a->process_name);
    return true;
}

/* True: the peer is finished: it is a target, or was closed. */
static bool receive_peer_status(kc_trigger_run *run, ko_control_peer *peer)
{
    ko_control_answer a;
    kineto_error err;
    kineto_status status = ko_control_receive(peer, &a, &err);
    if (status == KINETO_E_BUSY)
        return false;
    if (status != KINETO_OK || !add_socket_target(run, peer, &a))
        ko_control_close(peer);
    return true;
}

/* Wait for any reply until `until_ns`. */
static void poll_peers(const peer_list *peers, uint64_t until_ns)
{
    struct pollfd *polled = calloc(peers->count, sizeof *polled);
    uint64_t now_ns = kb_monotonic_ns();
    if (!polled)
        return;
    for (size_t i = 0; i < peers->count; i++)
        polled[i] = (struct pollfd){.fd = ko_control_fd(peers->data[i]), .events = POLLIN};
    (void)poll(polled, peers->count, until_ns > now_ns ? (int)((until_ns - now_ns) / KC_MS_NS) : 0);
    free(polled);
}

/* All new sockets are queried together; one that does not reply in time is reported and closed. */
void kc_socket_find(kc_trigger_run *run)
{
    peer_list peers = {0};
    uint64_t until_ns = kb_monotonic_ns() + KC_STATUS_TIMEOUT_NS;
    query_new_sockets(run, &peers);
    while (peers.count && kb_monotonic_ns() < until_ns) {
        size_t left = 0;
        poll_peers(&peers, until_ns);
        for (size_t i = 0; i < peers.count; i++)
            if (!receive_peer_status(run, peers.data[i]))
                peers.data[left++] = peers.data[i];
        peers.count = left;
    }
    for (size_t i = 0; i < peers.count; i++) {
        kc_show_message("process %u has a control socket and does not answer: is it stopped?",
                        ko_control_peer_pid(peers.data[i]));
        ko_control_close(peers.data[i]);
    }
    kb_vec_free(&peers);
}

/* ---- asking ---------------------------------------------------------------------------------- */

/* The verb of the control protocol. */
static const char *choose_control_verb(const kc_request *request)
{
    return request->cancel ? "cancel" : request->dump ? "dump" : "trace";
}

/* The request as text, or only the verb for --cancel. */
static kineto_status send_control_request(const kc_trigger_run *run, kc_target *t,
                                          kineto_error *err)
{
    char *text = NULL;
    kc_request_format how = {.path = t->asked_path, .start_ns = kc_start_of(run, t)};
    kineto_status status =
        run->request->cancel ? KINETO_OK : kc_request_text(run->request, &how, &text, err);
    if (status == KINETO_OK)
        status = ko_control_send(t->peer, choose_control_verb(run->request), kb_string(text), err);
    free(text);
    return status;
}

/* Chooses the files, sends the request, and follows the connection. A failure fails the
 * target; the others go on. */
static void request_target(kc_trigger_run *run, kc_target *t)
{
    kineto_error err = {0};
    struct epoll_event event = {.events = EPOLLIN};
    if (!run->request->cancel && !kc_files_choose(run, t, false))
        return;
    KB_ASSERT(t->state == KC_FOUND && t->peer);
    t->asked_ns = kb_monotonic_ns();
    t->asked_real_ns = (int64_t)kb_clock_ns(CLOCK_REALTIME);
    t->state = KC_ASKED;
    if (send_control_request(run, t, &err) != KINETO_OK)
        kc_target_fail(t, "%s", err.message);
    else if (epoll_ctl(run->peers, EPOLL_CTL_ADD, ko_control_fd(t->peer), &event) != 0 &&
             errno != EEXIST) /* EEXIST: an earlier request of this target */
        kc_target_fail(t, "too many processes to follow at once");
}

void kc_socket_ask(kc_trigger_run *run)
{
    for (size_t i = 0; i < run->targets.count; i++)
        if (run->targets.data[i]->via == KC_VIA_SOCKET && run->targets.data[i]->state == KC_FOUND)
            request_target(run, run->targets.data[i]);
}

/* ---- answers --------------------------------------------------------------------------------- */

/* The process may have chosen another path: its answer has the final one. */
static void finish_written(const kc_trigger_run *run, kc_target *t, const ko_control_answer *a)
{
    if (a->path[0])
        snprintf(t->path, sizeof t->path, "%s", a->path);
    t->bytes = a->bytes;
    kc_files_done(run, t);
}

/* What the process does differently from the request is reported, and is not a failure. */
static void store_accepted(const kc_trigger_run *run, kc_target *t, const ko_control_answer *a)
{
    t->state = KC_TAKEN;
    if (a->path[0])
        snprintf(t->path, sizeof t->path, "%s", a->path);
    if (a->text[0])
        kc_show_message("%u: %s", t->pid, a->text);
    if (!run->request->has_wait)
        t->state = KC_DONE;
}

/* Stages, and the ends of a trace: written, cancelled, refused, failed. */
static void apply_answer(const kc_trigger_run *run, kc_target *t, const ko_control_answer *a)
{
    static const struct {
        const char *verb;
        kc_target_state state;
    } stages[] = {{"warm-up", KC_WARMUP}, {"collect", KC_COLLECT}, {"process", KC_PROCESS}};
    for (size_t i = 0; i < KB_COUNT(stages); i++)
        if (strcmp(a->verb, stages[i].verb) == 0)
            t->state = stages[i].state;
    if (strcmp(a->verb, "accepted") == 0)
        store_accepted(run, t, a);
    else if (strcmp(a->verb, "written") == 0)
        finish_written(run, t, a);
    else if (strcmp(a->verb, "cancelled") == 0 && run->request->cancel)
        t->state = KC_DONE;
    else if (strcmp(a->verb, "cancelled") == 0)
        kc_target_fail(t, "cancelled%s%s", a->text[0] ? ": " : "", a->text);
    else if (strcmp(a->verb, "refused") == 0 || strcmp(a->verb, "failed") == 0)
        kc_target_fail(t, "%s%s%s", a->verb, a->text[0] ? ": " : "", a->text);
}

/* Read all packets; the end of the connection fails a target that is not over. */
static void receive_answers(const kc_trigger_run *run, kc_target *t)
{
    ko_control_answer a;
    kineto_error err;
    kineto_status status;
    while (!kc_target_over(t) && t->state != KC_FOUND &&
           (status = ko_control_receive(t->peer, &a, &err)) != KINETO_E_BUSY) {
        if (status == KINETO_OK)
            apply_answer(run, t, &a);
        else if (status == KINETO_E_NOT_FOUND)
            kc_target_fail(t, t->state < KC_TAKEN ? "it closed the connection without an answer"
                                                  : "it ended before its trace was written");
        else
            kc_target_fail(t, "%s", err.message);
    }
}

/* Finished connections are closed; targets that became FOUND again get their next request. */
void kc_socket_poll(kc_trigger_run *run)
{
    for (size_t i = 0; i < run->targets.count; i++) {
        kc_target *t = run->targets.data[i];
        if (!t->peer)
            continue;
        receive_answers(run, t);
        if (kc_target_over(t)) { /* closing removes it from the epoll, too */
            ko_control_close(t->peer);
            t->peer = NULL;
        }
    }
    kc_socket_ask(run); /* targets whose first trace was empty */
}

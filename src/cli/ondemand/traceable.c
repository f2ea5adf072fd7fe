/* The list of traceable processes: replies of control sockets and the list of a daemon become one
 * list by pid. All control sockets are queried at once, so that a stopped process costs the others
 * no time. */
#include "cli/ondemand/traceable.h"
#include "cli/ondemand/timeouts.h"
#include "cli/options.h"

#include <poll.h>
#include <sys/stat.h>
#include <time.h>

enum { MAX_PEERS = 128 };

/* The entry of a pid, inserted in order if it is new. NULL: out of memory. */
static kc_process *find_or_add_process(kc_traceable *r, int64_t pid)
{
    size_t at = 0;
    while (at < r->processes.count && r->processes.data[at].pid < pid)
        at++;
    if (at < r->processes.count && r->processes.data[at].pid == pid)
        return &r->processes.data[at];
    if (!kb_vec_reserve(&r->processes, r->processes.count + 1))
        return NULL;
    kc_process *p = &r->processes.data[at];
    KB_ASSERT(at <= r->processes.count);
    memmove(p + 1, p, (r->processes.count - at) * sizeof *p);
    r->processes.count++;
    *p = (kc_process){.pid = pid, .iteration = -1};
    return p;
}

/* KINETO_E_MEMORY, for the list. */
static kineto_status fail_no_memory(kineto_error *err)
{
    return kb_fail_memory(err, "list of processes");
}

/* ---- control sockets ------------------------------------------------------------------------- */

/* From the reply of a control socket. */
static void store_status(kc_process *p, const ko_control_answer *a)
{
    p->answers = true;
    p->is_recorder = strcmp(a->host, "recorder") == 0;
    p->ring = a->status.ring;
    p->iteration = a->status.iteration;
    p->traces = a->status.traces;
    p->user = a->uid;
    memcpy(p->state, a->state_name, sizeof p->state);
    memcpy(p->name, a->process_name, sizeof p->name);
    memcpy(p->daemon_client, a->daemon_client, sizeof p->daemon_client);
    p->pid_count = KB_MIN(a->pid_count, (uint32_t)KB_COUNT(p->pids));
    for (uint32_t i = 0; i < p->pid_count; i++)
        p->pids[i] = (int32_t)a->pids[i];
}

/* Peers that are queried together. */
typedef struct peer_group {
    /* NULL: it has replied, or closed */
    ko_control_peer *peers[MAX_PEERS];
    uint32_t count;
} peer_group;

/* Connect and send the query. A process that cannot be reached is skipped. */
static kineto_status query_peer(kc_traceable *r, peer_group *c, uint32_t pid, kineto_error *err)
{
    ko_control_peer *peer = NULL;
    if (ko_control_connect(pid, &peer, NULL) != KINETO_OK)
        return KINETO_OK;
    kc_process *p = find_or_add_process(r, pid);
    if (!p || ko_control_send(peer, "status", kb_string(""), NULL) != KINETO_OK) {
        ko_control_close(peer);
        return p ? KINETO_OK : fail_no_memory(err);
    }
    p->has_socket = true;
    KB_ASSERT(c->count < MAX_PEERS);
    c->peers[c->count++] = peer;
    return KINETO_OK;
}

/* Read packets until the status comes; others may come first. False: the peer is finished. */
static bool receive_status(kc_traceable *r, ko_control_peer *peer)
{
    static ko_control_answer answer;
    kineto_status status;
    while ((status = ko_control_receive(peer, &answer, NULL)) == KINETO_OK) {
        kc_process *p = find_or_add_process(r, ko_control_peer_pid(peer));
        if (!p || strcmp(answer.verb, "status") != 0)
            continue;
        store_status(p, &answer);
        return false;
    }
    return status == KINETO_E_BUSY;
}

/* Wait for replies and store them. False: no peer is left. */
static bool receive_from_group(kc_traceable *r, peer_group *c, int wait_ms)
{
    KB_ASSERT(c->count <= MAX_PEERS);
    struct pollfd polled[MAX_PEERS];
    bool any = false;
    for (uint32_t i = 0; i < c->count; i++) {
        polled[i] =
            (struct pollfd){.fd = c->peers[i] ? ko_control_fd(c->peers[i]) : -1, .events = POLLIN};
        any |= c->peers[i] != NULL;
    }
    if (!any || poll(polled, c->count, wait_ms) <= 0)
        return any;
    for (uint32_t i = 0; i < c->count; i++) {
        if (!polled[i].revents || receive_status(r, c->peers[i]))
            continue;
        ko_control_close(c->peers[i]);
        c->peers[i] = NULL;
    }
    return true;
}

/* Until all have replied or the time is over; then close all of them. */
static void await_group(kc_traceable *r, peer_group *c)
{
    uint64_t end_ns = kb_monotonic_ns() + KC_LIST_TIMEOUT_NS;
    for (uint64_t now_ns; (now_ns = kb_monotonic_ns()) < end_ns;)
        if (!receive_from_group(r, c, (int)((end_ns - now_ns) / 1000000) + 1))
            break;
    for (uint32_t i = 0; i < c->count; i++)
        ko_control_close(c->peers[i]);
    c->count = 0;
}

/* In groups of MAX_PEERS, because of the limit of descriptors. */
kineto_status kc_traceable_add_sockets(kc_traceable *r, kineto_error *err)
{
    uint32_t *pids = NULL;
    kineto_error why = {0};
    uint32_t count = ko_control_list(&pids, &why);
    kineto_status status = KINETO_OK;
    peer_group c = {.count = 0};
    if (why.code) {
        if (err)
            *err = why;
        return why.code;
    }
    for (uint32_t i = 0; status == KINETO_OK && i < count; i++) {
        status = query_peer(r, &c, pids[i], err);
        if (c.count == MAX_PEERS || i + 1 == count)
            await_group(r, &c);
    }
    await_group(r, &c);
    free(pids);
    return status;
}

/* ---- the daemon ------------------------------------------------------------------------------ */

bool kc_is_local_host(const char *host)
{
    return !*host || strcmp(host, "localhost") == 0 || strcmp(host, "::1") == 0 ||
           strncmp(host, "127.", 4) == 0;
}

/* A process reports its own pid, which differs in a container: the name is looked up only if the
 * user matches, too. */
static void look_up_process_name(kc_process *p)
{
    char path[64];
    struct stat st;
    snprintf(path, sizeof path, "/proc/%lld", (long long)p->pid);
    if (!p->name[0] && p->pid > 0 && stat(path, &st) == 0 && st.st_uid == p->user)
        (void)kb_os_process_name((uint32_t)p->pid, p->name, sizeof p->name);
}

/* False: out of memory. The reply of a control socket has precedence over the list. */
static bool merge_listed_process(kc_traceable *r, const ko_rpc_list *list,
                                 const ko_rpc_process *from, bool is_here)
{
    kc_process *p = find_or_add_process(r, from->pid);
    if (!p)
        return false;
    p->has_daemon = true;
    p->waits |= from->waits;
    p->job = from->job;
    p->seen_ms_ago = from->seen_ms_ago;
    if (!p->answers) {
        p->user = from->user;
        p->pid_count = KB_MIN(from->pid_count, (uint32_t)KB_COUNT(p->pids));
        memcpy(p->pids, list->pids.data + from->pids_at, p->pid_count * sizeof p->pids[0]);
    }
    if (is_here)
        look_up_process_name(p);
    return true;
}

/* Dynolog gives no list: KINETO_E_UNSUPPORTED stays in daemon_error. */
kineto_status kc_traceable_add_daemon(kc_traceable *r, const ko_rpc_daemon *daemon, bool is_here,
                                      kineto_error *err)
{
    ko_rpc_list list;
    kineto_status status = KINETO_OK;
    snprintf(r->daemon, sizeof r->daemon, strchr(daemon->host, ':') ? "[%s]:%u" : "%s:%u",
             *daemon->host ? daemon->host : "127.0.0.1", daemon->port ? daemon->port : KO_RPC_PORT);
    if (ko_rpc_version(daemon, r->version, &r->daemon_error) != KINETO_OK ||
        ko_rpc_list_processes(daemon, &list, &r->daemon_error) != KINETO_OK)
        return KINETO_OK;
    for (size_t i = 0; status == KINETO_OK && i < list.processes.count; i++)
        if (!merge_listed_process(r, &list, &list.processes.data[i], is_here))
            status = fail_no_memory(err);
    ko_rpc_list_free(&list);
    return status;
}

void kc_traceable_free(kc_traceable *r) { kb_vec_free(&r->processes); }

kineto_status kc_read_token(const char *verb, const char *file, char token[KO_RPC_TOKEN_BYTES])
{
    kineto_error err;
    if (!file || ko_rpc_read_token(file, token, &err) == KINETO_OK)
        return KINETO_OK;
    return kc_usage_error(verb, "--token-file: %s", err.message);
}

/* Dynolog as a listener: polls it for requests every few seconds. While a request is under way, it
 * polls without asking for one, so that the daemon keeps the next. */
#include "ondemand/dynolog/dyno.h"
#include "ondemand/listen/listeners.h"
#include "record/record.h"

#include <poll.h>

#define USUAL_INTERVAL_NS UINT64_C(5000000000)

typedef struct dyno_listener {
    ko_listener listener; /* first */
    ko_dyno_client *client;
    uint64_t interval_ns;
    bool is_aside;
} dyno_listener;

/* The daemon has forgotten the text by now, so a refusal must be logged. */
static void submit_dynolog_request(ko_controller *c, kineto_string text)
{
    kineto_error err;
    uint64_t ticket;
    if (ko_controller_request(c, text, KO_FROM_REQUEST, &ticket, &err) == KINETO_OK)
        kb_log(KINETO_LOG_INFO, "on-demand tracing: request %llu came from Dynolog",
               (unsigned long long)ticket);
    else
        kb_log(KINETO_LOG_WARNING, "on-demand tracing: refused a request of Dynolog: %s",
               err.message);
}

/* Another client in this process polls the daemon: only one of them may take a request. */
static void defer_to_other_client(ko_listener *l, uint64_t now_ns, const char *other)
{
    dyno_listener *d = (dyno_listener *)l;
    if (!d->is_aside)
        kb_log(KINETO_LOG_INFO, "on-demand tracing: requests of Dynolog are answered by %s", other);
    d->is_aside = true;
    l->fd = -1;
    l->wake_ns = now_ns + d->interval_ns;
}

/* ko_listener.turn: polls, and submits a text that arrived. */
static void turn_dynolog_listener(ko_listener *l, ko_controller *c, uint64_t now_ns)
{
    dyno_listener *d = (dyno_listener *)l;
    kineto_string text = {"", 0};
    const char *other = kineto_rt_daemon_client();
    if (other) {
        defer_to_other_client(l, now_ns, other);
        return;
    }
    d->is_aside = false;
    bool busy = !ko_controller_can_accept(c, NULL);
    /* Errors are logged and retried by the client. */
    (void)ko_dyno_client_run(d->client, now_ns, busy, d->interval_ns, &text, &l->wake_ns, NULL);
    l->fd = ko_dyno_client_fd(d->client);
    if (text.size > 0)
        submit_dynolog_request(c, text);
}

/* ko_listener.forked: the child will poll with a socket and pids of its own. */
static void forget_parent_client(ko_listener *l)
{
    dyno_listener *d = (dyno_listener *)l;
    ko_dyno_client_forked(d->client);
    l->fd = -1;
    l->wake_ns = 0;
}

static void destroy_dynolog_listener(ko_listener *l)
{
    dyno_listener *d = (dyno_listener *)l;
    ko_dyno_client_destroy(d->client);
    free(d);
}

ko_listener *ko_dyno_listener_create(uint64_t poll_interval_ns, kineto_error *err)
{
    dyno_listener *d = calloc(1, sizeof *d);
    if (!d) {
        kb_fail_memory(err, "Dynolog listener");
        return NULL;
    }
    if (ko_dyno_client_create(kb_setting("KINETO_IPC_SOCKET_DIR"), &d->client, err) != KINETO_OK) {
        free(d);
        return NULL;
    }
    d->interval_ns = poll_interval_ns ? poll_interval_ns : USUAL_INTERVAL_NS;
    d->listener = (ko_listener){.name = "Dynolog",
                                .fd = -1,
                                .events = POLLIN,
                                .wake_ns = 0,
                                .turn = turn_dynolog_listener,
                                .forked = forget_parent_client,
                                .destroy = destroy_dynolog_listener};
    return &d->listener;
}

void ko_dyno_listener_for(ko_listener *l, uint32_t pid)
{
    ko_dyno_client_for(((dyno_listener *)l)->client, pid);
}

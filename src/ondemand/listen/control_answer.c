/* Requests over the control socket of a process, their answers, and the notes about stages that
 * follow. Each accepted request has a ticket; its notes go to the connection that made it. */
#include "ondemand/listen/control_socket_impl.h"
#include "record/record.h"

#include <unistd.h>

/* ---- answers --------------------------------------------------------------------------------- */

static void send_packet(ko_control_socket *s, uint32_t slot, const ko_packet *p)
{
    ko_connection_send(s, slot, p->data, p->bytes);
}

void ko_control_reply_text(ko_control_socket *s, uint32_t slot, const char *verb, const char *text)
{
    ko_packet p;
    ko_packet_begin(&p, verb);
    if (*text)
        ko_packet_put(&p, "text", text);
    send_packet(s, slot, &p);
}

/* "refused" with a code and a text. */
static void refuse_packet(ko_control_socket *s, uint32_t slot, kineto_status code, const char *text)
{
    ko_packet p;
    ko_packet_begin(&p, "refused");
    ko_packet_put_int(&p, "code", code);
    ko_packet_put(&p, "text", text);
    send_packet(s, slot, &p);
}

/* ---- notes ----------------------------------------------------------------------------------- */

static void format_note(ko_packet *p, const ko_stage_note *note)
{
    ko_packet_begin(p, ko_stage_name(note->stage));
    ko_packet_put_int(p, "ticket", (int64_t)note->ticket);
    ko_packet_put_int(p, "time-ns", note->time_ns);
    if (note->stage == KO_STAGE_WRITTEN)
        ko_packet_put_int(p, "bytes", (int64_t)note->bytes);
    const struct {
        const char *key, *value;
    } texts[] = {{"path", note->path},
                 {"text", note->text},
                 {"trace-id", note->trace_id},
                 {"group-id", note->group_id}};
    for (size_t i = 0; i < KB_COUNT(texts); i++)
        if (texts[i].value && *texts[i].value)
            ko_packet_put(p, texts[i].key, texts[i].value);
}

void ko_control_queue_note(void *context, const ko_stage_note *note)
{
    ko_control_socket *s = context;
    ko_packet p;
    if (kb_load_acquire(&s->wanted) == 0 || note->stage == KO_STAGE_REFUSED)
        return;
    format_note(&p, note);
    pthread_mutex_lock(&s->lock);
    bool kept = s->heard.count < KO_MAX_PENDING_NOTES &&
                ko_queue_put(&s->heard, note->ticket, note->stage, p.data, p.bytes);
    if (kept)
        ko_wake_ring(&s->wake); /* with the lock: the bell may be closed and reopened meanwhile */
    pthread_mutex_unlock(&s->lock);
    if (!kept)
        kb_log(KINETO_LOG_WARNING,
               "on-demand tracing: control socket: dropped the note that request %llu is '%s'",
               (unsigned long long)note->ticket, ko_stage_name(note->stage));
}

static bool is_final_stage(uint32_t stage) { return stage >= KO_STAGE_WRITTEN; }

/* Only the connection that has the ticket gets the note. A final stage frees the ticket. */
static void send_note_to_owner(ko_control_socket *s, uint32_t slot, const ko_queued *note)
{
    ko_connection *c = s->connections[slot];
    for (uint32_t i = 0; i < c->ticket_count; i++) {
        if (c->tickets[i] != note->ticket)
            continue;
        KB_ASSERT(kb_load_relaxed(&s->wanted) > 0);
        if (is_final_stage(note->stage)) {
            c->tickets[i] = c->tickets[--c->ticket_count];
            (void)kb_sub_relaxed(&s->wanted, 1u);
        }
        ko_connection_send(s, slot, note->data, note->bytes);
        return;
    }
}

void ko_control_deliver_notes(ko_control_socket *s)
{
    pthread_mutex_lock(&s->lock);
    ko_queue heard = s->heard;
    s->heard = (ko_queue){0};
    pthread_mutex_unlock(&s->lock);
    for (ko_queued *note; (note = ko_queue_take(&heard)) != NULL; free(note))
        for (uint32_t i = 0; i < KO_MAX_CONNECTIONS; i++)
            if (s->connections[i])
                send_note_to_owner(s, i, note);
}

/* ---- questions ------------------------------------------------------------------------------- */

enum { MAX_PIDS = 64 };

/* The process itself, followed by a recorder's programs. */
static uint32_t list_pids(const ko_control_socket *s, uint32_t pids[MAX_PIDS])
{
    pids[0] = s->pid;
    return 1 +
           (s->list ? kb_min_u32(s->list(s->list_context, pids + 1, MAX_PIDS - 1), MAX_PIDS - 1u) : 0);
}

/* Comma-separated. */
static void put_pids(ko_packet *p, const uint32_t *pids, uint32_t count)
{
    char text[MAX_PIDS * 12];
    size_t used = 0;
    for (uint32_t i = 0; i < count; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%u", i ? "," : "", pids[i]);
    ko_packet_put(p, "pids", text);
}

/* The name of the process; of a recorder, with that of its program: "ckineto: train". */
static void put_process_name(ko_packet *p, const uint32_t *pids, uint32_t count)
{
    char name[64] = "", program[64] = "", both[130];
    (void)kb_os_process_name(pids[0], name, sizeof name);
    if (count > 1)
        (void)kb_os_process_name(pids[1], program, sizeof program);
    snprintf(both, sizeof both, "%s%s%s", name, program[0] ? ": " : "", program);
    ko_packet_put(p, "name", both);
}

/* All fields of ko_controller_status, and what identifies the process. */
static void answer_status(ko_control_socket *s, uint32_t slot)
{
    ko_controller_status now = {0};
    ko_packet p;
    uint32_t pids[MAX_PIDS], count = list_pids(s, pids);
    ko_controller_get_status(s->controller, &now);
    ko_packet_begin(&p, "status");
    ko_packet_put_int(&p, "pid", s->pid);
    ko_packet_put_int(&p, "uid", geteuid());
    put_process_name(&p, pids, count);
    ko_packet_put(&p, "host", now.host ? now.host : "");
    ko_packet_put(&p, "state", ko_ondemand_state_name(now.state));
    ko_packet_put_int(&p, "state-number", now.state);
    ko_packet_put_int(&p, "iteration", now.iteration);
    ko_packet_put_int(&p, "by-iteration", now.by_iteration);
    ko_packet_put_int(&p, "ring", now.ring);
    ko_packet_put_int(&p, "preempted", now.preempted);
    ko_packet_put_int(&p, "traces", (int64_t)now.traces);
    ko_packet_put_int(&p, "ticket", (int64_t)now.ticket);
    ko_packet_put_int(&p, "start-ns", now.start_ns);
    ko_packet_put_int(&p, "end-ns", now.end_ns);
    put_pids(&p, pids, count);
    if (kineto_rt_daemon_client())
        ko_packet_put(&p, "daemon-client", kineto_rt_daemon_client());
    ko_packet_put(&p, "version", kineto_version());
    send_packet(s, slot, &p);
}

typedef kineto_status request_call(ko_controller *c, kineto_string text, ko_request_source source,
                                   uint64_t *ticket, kineto_error *err);

/* The answer to an accepted request is its first note. */
static void answer_request(ko_control_socket *s, uint32_t slot, kineto_string text,
                           request_call *call, const char *what)
{
    ko_connection *c = s->connections[slot];
    uint64_t ticket = 0;
    kineto_error err;
    if (c->ticket_count == KO_MAX_TICKETS) {
        refuse_packet(s, slot, KINETO_E_LIMIT, "too many unfinished requests of this connection");
        return;
    }
    (void)kb_add_acqrel(&s->wanted, 1u); /* its notes may arrive before its ticket is known here */
    kineto_status status = call(s->controller, text, KO_FROM_REQUEST, &ticket, &err);
    if (status == KINETO_OK) {
        KB_ASSERT(ticket && c->ticket_count < KO_MAX_TICKETS);
        c->tickets[c->ticket_count++] = ticket;
        kb_log(
            KINETO_LOG_INFO,
            "on-demand tracing: request %llu, a %s, came over the control socket from process %u",
            (unsigned long long)ticket, what, c->pid);
        return;
    }
    (void)kb_sub_relaxed(&s->wanted, 1u);
    kb_log(KINETO_LOG_INFO,
           "on-demand tracing: refused a %s that process %u requested over the control socket: %s",
           what, c->pid, err.message);
    refuse_packet(s, slot, status, err.message);
}

/* The note of the cancelled request names the process that cancelled. */
static void answer_cancel(ko_control_socket *s, uint32_t slot)
{
    char name[64] = "", by[128];
    uint32_t pid = s->connections[slot]->pid;
    (void)kb_os_process_name(pid, name, sizeof name);
    snprintf(by, sizeof by, "process %u (%s)", pid, name);
    ko_controller_cancel(s->controller, by);
    ko_control_reply_text(s, slot, "cancelled", "");
}

/* Dispatches by verb. */
static void answer_view(ko_control_socket *s, uint32_t slot, const ko_packet_view *view)
{
    if (strcmp(view->verb, "status") == 0)
        answer_status(s, slot);
    else if (strcmp(view->verb, "trace") == 0)
        answer_request(s, slot, view->text, ko_controller_request, "trace");
    else if (strcmp(view->verb, "dump") == 0)
        answer_request(s, slot, view->text, ko_controller_dump, "dump");
    else if (strcmp(view->verb, "cancel") == 0)
        answer_cancel(s, slot);
    else
        refuse_packet(s, slot, KINETO_E_UNSUPPORTED,
                      "this version knows the verbs status, trace, dump and cancel");
}

void ko_control_answer_packet(ko_control_socket *s, uint32_t slot, size_t bytes)
{
    ko_packet_view view;
    char text[160];
    const char *why = NULL;
    KB_ASSERT(slot < KO_MAX_CONNECTIONS && s->connections[slot] && s->controller);
    if (bytes > sizeof s->buffer)
        why = "it is longer than 128 KiB";
    if (!why && ko_packet_read(s->buffer, bytes, &view, &why)) {
        answer_view(s, slot, &view);
        return;
    }
    snprintf(text, sizeof text, "malformed packet: %s", why);
    refuse_packet(s, slot, KINETO_E_FORMAT, text);
}

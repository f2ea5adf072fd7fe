/* Feeds events to the machine, has the driver carry out its actions, and queues notes for watchers.
 * The caller holds the controller's lock. */
#include "ondemand/controller/controller_impl.h"

#define LATE_NS INT64_C(1000000) /* later than this is reported */

void ko_post_stage(ko_controller *c, const ko_intake *of, ko_stage stage, int64_t time_ns,
                   const char *text, const char *path, uint64_t bytes)
{
    ko_stage_note note = {.ticket = of->ticket,
                          .stage = (uint32_t)stage,
                          .time_ns = time_ns,
                          .trace_id = of->request.trace_id,
                          .group_id = of->request.group_id,
                          .text = text ? text : "",
                          .path = path ? path : "",
                          .bytes = bytes};
    ko_notes_put(&c->notes, &note);
}

/* Queues a note about the request under way. The machine's reason is reported only once. */
static void post_stage(ko_controller *c, ko_ondemand_answer *a, ko_stage stage, int64_t time_ns)
{
    ko_post_stage(c, &c->current, stage, time_ns, a->reason, NULL, 0);
    a->reason[0] = '\0';
}

/* ---- the driver ------------------------------------------------------------------------------ */

static kineto_status prepare_driver(ko_controller *c, ko_ondemand_answer *a, int64_t now_ns,
                                    kineto_error *err)
{
    const ko_ondemand *m = &c->machine;
    kineto_status status = c->driver.prepare(c->driver.context, &m->request, err);
    if (status == KINETO_OK && m->by_iteration && c->driver.limit)
        status = c->driver.limit(c->driver.context, m->start_iteration, m->end_iteration, err);
    c->ready_ns = ko_now_ns();
    if (status == KINETO_OK)
        post_stage(c, a, KO_STAGE_WARMUP, now_ns);
    return status;
}

/* Once per request: early by time, or with the window itself. */
static kineto_status arm_driver(ko_controller *c, kineto_error *err)
{
    KB_ASSERT(c->machine.state != KO_ONDEMAND_WAIT);
    kineto_status status = c->armed ? KINETO_OK : c->driver.arm(c->driver.context, err);
    if (status == KINETO_OK)
        c->armed = true;
    return status;
}

static void announce_window_start(ko_controller *c, ko_ondemand_answer *a)
{
    int64_t start_ns = c->machine.window_start_ns;
    if (c->driver.started)
        c->driver.started(c->driver.context, start_ns);
    post_stage(c, a, KO_STAGE_COLLECT, start_ns);
}

/* By time, the driver was usually armed before; if not, the trace lacks the beginning of the
 * window, which the note says. */
static kineto_status start_window(ko_controller *c, ko_ondemand_answer *a, kineto_error *err)
{
    bool armed = c->armed;
    kineto_status status = arm_driver(c, err);
    if (status != KINETO_OK)
        return status;
    int64_t late_ns = kb_length_ns(c->machine.window_start_ns, ko_now_ns());
    if (!armed && late_ns >= LATE_NS && !a->reason[0])
        snprintf(a->reason, sizeof a->reason, "recording began %s into the window",
                 kb_duration(late_ns).s);
    announce_window_start(c, a);
    return KINETO_OK;
}

static kineto_status start_driver_snapshot(ko_controller *c, ko_ondemand_answer *a,
                                           kineto_error *err)
{
    kineto_status status = c->driver.snapshot_start(c->driver.context, &c->machine.request, err);
    if (status == KINETO_OK)
        announce_window_start(c, a);
    return status;
}

/* The driver keeps the records of the window for the job that writes the trace. */
static kineto_status stop_window(ko_controller *c, ko_ondemand_answer *a, kineto_error *err)
{
    const ko_ondemand *m = &c->machine;
    c->armed = false;
    kineto_status status =
        c->driver.stop(c->driver.context, m->window_start_ns, m->window_end_ns, err);
    if (status == KINETO_OK)
        post_stage(c, a, KO_STAGE_PROCESS, m->window_end_ns);
    return status;
}

/* The job gets a copy of the request: the current one is replaced by the next request. */
static kineto_status write_on_thread(ko_controller *c, ko_job_kind kind, kineto_error *err)
{
    KB_ASSERT(c->machine.state == KO_ONDEMAND_PROCESS && c->current.ticket);
    ko_intake what = c->current;
    what.request = c->machine.request;
    return ko_job_start(c, kind, &what, err);
}

static kineto_status stop_snapshot(ko_controller *c, ko_ondemand_answer *a, kineto_error *err)
{
    post_stage(c, a, KO_STAGE_PROCESS, c->machine.window_end_ns);
    return write_on_thread(c, KO_JOB_SNAPSHOT, err);
}

/* Also after failures, when the driver may have begun less than the machine assumes. */
static void drop_recording(ko_controller *c)
{
    c->armed = false;
    c->driver.drop(c->driver.context);
}

/* ---- answers --------------------------------------------------------------------------------- */

/* In the order of the KO_ACT_… bits. After a failed action the others are skipped. */
static kineto_status carry_out_actions(ko_controller *c, ko_ondemand_answer *a, int64_t now_ns,
                                       kineto_error *err)
{
    kineto_status status = KINETO_OK;
    if (a->actions & KO_ACT_PREPARE)
        status = prepare_driver(c, a, now_ns, err);
    if (a->actions & KO_ACT_DROP)
        drop_recording(c);
    if (status == KINETO_OK && a->actions & KO_ACT_START)
        status = start_window(c, a, err);
    if (status == KINETO_OK && a->actions & KO_ACT_SNAPSHOT_START)
        status = start_driver_snapshot(c, a, err);
    if (status == KINETO_OK && a->actions & KO_ACT_STOP)
        status = stop_window(c, a, err);
    if (status == KINETO_OK && a->actions & KO_ACT_WRITE)
        status = write_on_thread(c, KO_JOB_WRITE, err);
    if (status == KINETO_OK && a->actions & KO_ACT_SNAPSHOT_STOP)
        status = stop_snapshot(c, a, err);
    return status;
}

/* Publishes what other threads read without the lock. */
static void publish_machine_state(ko_controller *c, const ko_ondemand_answer *a)
{
    const ko_ondemand *m = &c->machine;
    bool under_way = m->state == KO_ONDEMAND_PENDING || m->state == KO_ONDEMAND_WARMUP ||
                     m->state == KO_ONDEMAND_COLLECT;
    c->wake_ns = a->wake_ns;
    kb_store_relaxed(&c->by_iteration, under_way && m->by_iteration);
}

/* An action failed: machine and driver drop the request, watchers get the reason. */
static void fail_request(ko_controller *c, int64_t now_ns, const kineto_error *why)
{
    ko_ondemand_answer a = ko_ondemand_step(&c->machine, KO_EVENT_FAILED, now_ns, NULL);
    drop_recording(c); /* also what the machine does not know to have begun */
    publish_machine_state(c, &a);
    ko_post_stage(c, &c->current, KO_STAGE_FAILED, ko_now_ns(), why->message, NULL, 0);
    c->current.ticket = 0;
}

/* Is arming still ahead? By time, sources are armed a little before the window. */
static bool arm_is_ahead(const ko_controller *c)
{
    return c->machine.state == KO_ONDEMAND_WARMUP && !c->machine.by_iteration && !c->armed;
}

static void arm_if_due(ko_controller *c)
{
    kineto_error why;
    int64_t now_ns = ko_now_ns();
    if (!arm_is_ahead(c) || now_ns < c->machine.start_ns - KO_ONDEMAND_ARM_NS)
        return;
    if (arm_driver(c, &why) != KINETO_OK)
        fail_request(c, now_ns, &why);
}

int64_t ko_due_ns(const ko_controller *c)
{
    return arm_is_ahead(c) ? KB_MIN(c->wake_ns, c->machine.start_ns - KO_ONDEMAND_ARM_NS)
                           : c->wake_ns;
}

/* ---- events ---------------------------------------------------------------------------------- */

/* The machine accepted a request, which becomes the current one. */
static void begin_request(ko_controller *c, const ko_intake *in, ko_ondemand_answer *a,
                          int64_t now_ns)
{
    char text[KO_NOTE_BYTES] = "";
    KB_ASSERT(!c->current.ticket && !c->armed);
    c->current = *in;
    c->armed = false;
    c->ready_ns = INT64_MIN;
    if (in->unknown_count > 0)
        snprintf(text, sizeof text, "%s%s%u unknown keys, the first is %s", a->reason,
                 a->reason[0] ? "; " : "", in->unknown_count, in->unknown.s);
    else
        snprintf(text, sizeof text, "%s", a->reason);
    a->reason[0] = '\0';
    ko_post_stage(c, in, KO_STAGE_ACCEPTED, now_ns, text, in->path, 0);
}

/* A request that ended without a trace: cancelled, or preempted by the program's own profile. */
static void report_cancelled(ko_controller *c, ko_ondemand_event event, const ko_ondemand_answer *a)
{
    const char *text = event == KO_EVENT_CANCEL ? c->by : a->reason;
    ko_post_stage(c, &c->current, KO_STAGE_CANCELLED, ko_now_ns(), text, NULL, 0);
    c->current.ticket = 0;
}

static bool waits_to_be_written(uint32_t state)
{
    return state != KO_ONDEMAND_WAIT && state != KO_ONDEMAND_PROCESS;
}

/* After each event: actions, notes about the end of a request, and arming if that is due. */
static void carry_out_and_report(ko_controller *c, ko_ondemand_event event, uint32_t before,
                                 int64_t now_ns, ko_ondemand_answer *a)
{
    kineto_error why;
    if (carry_out_actions(c, a, now_ns, &why) != KINETO_OK)
        fail_request(c, now_ns, &why);
    else if (waits_to_be_written(before) && c->machine.state == KO_ONDEMAND_WAIT)
        report_cancelled(c, event, a);
    else if (c->machine.state == KO_ONDEMAND_WAIT)
        c->current.ticket = 0;
    arm_if_due(c);
}

static kineto_status report_refused(ko_controller *c, const ko_intake *in, bool busy,
                                    int64_t now_ns, ko_ondemand_answer *a, kineto_error *err)
{
    ko_post_stage(c, in, KO_STAGE_REFUSED, now_ns, a->reason, NULL, 0);
    kineto_status status = kb_fail(err, busy ? KINETO_E_BUSY : KINETO_E_ARGUMENT, "%s", a->reason);
    a->reason[0] = '\0';
    return status;
}

kineto_status ko_apply_event(ko_controller *c, ko_ondemand_event event, int64_t now_ns,
                             const ko_intake *in, kineto_error *err)
{
    ko_ondemand *m = &c->machine;
    kineto_status status = KINETO_OK;
    uint32_t before = m->state;
    ko_ondemand_answer a = ko_ondemand_step(m, event, now_ns, in ? &in->request : NULL);
    publish_machine_state(c, &a);
    if (in && a.actions & KO_ACT_ACCEPT)
        begin_request(c, in, &a, now_ns);
    else if (in && a.actions & KO_ACT_REFUSE) {
        bool busy = m->preempted || m->state != KO_ONDEMAND_WAIT;
        status = report_refused(c, in, busy, now_ns, &a, err);
    }
    carry_out_and_report(c, event, before, now_ns, &a);
    return status;
}

void ko_tick(ko_controller *c)
{
    ko_steps_replay(c);
    int64_t now_ns = ko_now_ns();
    /* Steps that are not here yet must not find a machine that is ahead of them. */
    if (!c->by_iteration || now_ns >= c->wake_ns)
        (void)ko_apply_event(c, KO_EVENT_TICK, now_ns, NULL, NULL);
    arm_if_due(c);
}

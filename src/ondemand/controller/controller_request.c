/* From text to request: parsed, merged over the configuration file, with its destination resolved.
 * All checks are made before anything changes. */
#include "ondemand/controller/controller_impl.h"
#include "ondemand/output/output.h"

#include <inttypes.h>

#define RING_FOLDER "/tmp" /* as in output_path.c */

/* ---- reading --------------------------------------------------------------------------------- */

/* A mistake in the file is logged once, and does not prevent requests. */
void ko_request_load_file(ko_controller *c)
{
    kineto_error why;
    bool changed;
    if (ko_config_file_load(&c->file, &c->base, &changed, &why) != KINETO_OK)
        kb_log(KINETO_LOG_WARNING, "configuration file: %s; the previous values remain in effect",
               why.message);
    else if (changed)
        kb_log(KINETO_LOG_INFO, "configuration file '%s' was read", c->file.path);
}

/* Unknown keys are logged and counted for the note. */
static kineto_status parse_request_text(ko_intake *in, kineto_string text, ko_request_source source,
                                        kineto_error *err)
{
    ko_request_init(&in->request);
    kineto_status status =
        ko_request_parse(&in->request, text, source, &in->unknown, &in->unknown_count, err);
    if (status == KINETO_OK && in->unknown_count > 0)
        kb_log(KINETO_LOG_WARNING, "a request has %u unknown keys, the first is %s",
               in->unknown_count, in->unknown.s);
    return status;
}

/* The permissions of a path are those of its source. The default path lies in a directory that all
 * users may write to, so it is checked like a path from a request. */
static ko_request_source path_source(const ko_request *asked, const ko_request *base,
                                     ko_request_source source)
{
    if (asked->log_file[0])
        return source;
    return base->log_file[0] ? KO_FROM_FILE : KO_FROM_REQUEST;
}

/* The caller holds intake_lock. */
static kineto_status read_request_text(ko_controller *c, ko_intake *in, kineto_string text,
                                       ko_request_source source, kineto_error *err)
{
    ko_request_load_file(c);
    kineto_status status = parse_request_text(in, text, source, err);
    if (status != KINETO_OK)
        return status;
    in->source = path_source(&in->request, &c->base, source);
    ko_request_layer(&in->request, &c->base);
    status = ko_request_complete(&in->request, ko_now_ns(), err);
    if (status == KINETO_OK && in->request.memory_snapshot && !c->driver.snapshot_start)
        status = kb_fail(err, KINETO_E_ARGUMENT,
                         "PROFILE_MEMORY: memory snapshots are not available in this %s", c->host);
    if (status == KINETO_OK)
        status = ko_output_path(&in->request, in->source, c->options.pid, in->path, err);
    return status;
}

/* ---- traces ---------------------------------------------------------------------------------- */

static kineto_status report_refusal(ko_controller *c, const ko_intake *in, kineto_status status,
                                    const kineto_error *err)
{
    ko_post_stage(c, in, KO_STAGE_REFUSED, ko_now_ns(), err->message, NULL, 0);
    return status;
}

/* Gives the request to the machine, which accepts or refuses it. */
static kineto_status offer_request(ko_controller *c, const ko_intake *in, kineto_error *err)
{
    if (c->closing)
        return report_refusal(c, in, kb_fail(err, KINETO_E_BUSY, "busy: shutting down"), err);
    ko_steps_poll(c);
    ko_steps_replay(c);
    return ko_apply_event(c, KO_EVENT_REQUEST, ko_now_ns(), in, err);
}

kineto_status ko_controller_request(ko_controller *c, kineto_string text, ko_request_source source,
                                    uint64_t *ticket, kineto_error *err)
{
    kineto_error unused;
    ko_intake in = {0};
    if (!err)
        err = &unused;
    pthread_mutex_lock(&c->intake_lock);
    kineto_status status = read_request_text(c, &in, text, source, err);
    pthread_mutex_unlock(&c->intake_lock);
    ko_controller_lock(c);
    in.ticket = ++c->last_ticket;
    status = status == KINETO_OK ? offer_request(c, &in, err) : report_refusal(c, &in, status, err);
    ko_controller_unlock(c);
    if (ticket)
        *ticket = in.ticket;
    return status;
}

/* ---- dumps of the ring ----------------------------------------------------------------------- */

/* The default path of the N-th dump: from the options, else ckineto_ring_PID_N.json in the
 * directory for requests. */
static kineto_status choose_dump_path(ko_controller *c, ko_intake *in, uint32_t number,
                                      kineto_error *err)
{
    const char *setting = kb_setting("KINETO_ONDEMAND_TRACE_DIR"), *own = c->options.dump_path;
    ko_request *r = &in->request;
    int n = own ? snprintf(r->log_file, sizeof r->log_file, "%s", own)
                : snprintf(r->log_file, sizeof r->log_file, "%s/ckineto_ring.json",
                           setting ? setting : RING_FOLDER);
    if (n < 0 || (size_t)n >= sizeof r->log_file)
        return kb_fail(err, KINETO_E_ARGUMENT, "the path of the ring's dumps is too long");
    in->source = own ? KO_FROM_ARGUMENT : KO_FROM_REQUEST;
    kineto_status status = ko_output_path(r, in->source, c->options.pid, in->path, err);
    if (status != KINETO_OK)
        return status;
    memcpy(r->log_file, in->path, sizeof r->log_file);
    /* The same function that inserts the pid inserts the number of the dump. */
    return ko_output_path(r, in->source, number, in->path, err);
}

static kineto_status read_dump_text(ko_controller *c, ko_intake *in, kineto_string text,
                                    ko_request_source source, uint32_t number, kineto_error *err)
{
    if (!c->driver.dump || !c->options.ring)
        return kb_fail(err, KINETO_E_STATE, "no ring to write; switch it on with CKINETO_RING");
    kineto_status status = parse_request_text(in, text, source, err);
    if (status != KINETO_OK)
        return status;
    in->source = source;
    return in->request.log_file[0]
               ? ko_output_path(&in->request, source, c->options.pid, in->path, err)
               : choose_dump_path(c, in, number, err);
}

/* With the lock. One dump at a time. */
static kineto_status check_dump_possible(const ko_controller *c, kineto_error *err)
{
    if (c->closing || c->dumping)
        return kb_fail(err, KINETO_E_BUSY,
                       c->closing ? "busy: shutting down" : "busy: the ring is being written");
    return c->driver.can_dump ? c->driver.can_dump(c->driver.context, err) : KINETO_OK;
}

/* With the lock. */
static kineto_status start_dump_job(ko_controller *c, const ko_intake *in, kineto_error *err)
{
    kineto_status status = check_dump_possible(c, err);
    if (status == KINETO_OK)
        status = ko_job_start(c, KO_JOB_DUMP, in, err);
    if (status != KINETO_OK)
        return status;
    KB_ASSERT(!c->dumping && !c->closing);
    c->dumping = true;
    c->dumps++;
    ko_post_stage(c, in, KO_STAGE_ACCEPTED, ko_now_ns(), NULL, in->path, 0);
    return KINETO_OK;
}

static kineto_status request_dump(ko_controller *c, ko_intake *in, kineto_string text,
                                  ko_request_source source, kineto_error *err)
{
    pthread_mutex_lock(
        &c->intake_lock); /* until the dump has its number, which is part of its path */
    kineto_status status = read_dump_text(c, in, text, source, (uint32_t)c->dumps + 1, err);
    ko_controller_lock(c);
    in->ticket = ++c->last_ticket;
    if (status == KINETO_OK)
        status = start_dump_job(c, in, err);
    if (status != KINETO_OK)
        (void)report_refusal(c, in, status, err);
    pthread_mutex_unlock(&c->intake_lock);
    ko_controller_unlock(c);
    return status;
}

kineto_status ko_controller_dump(ko_controller *c, kineto_string text, ko_request_source source,
                                 uint64_t *ticket, kineto_error *err)
{
    kineto_error unused;
    ko_intake in = {0};
    kineto_status status = request_dump(c, &in, text, source, err ? err : &unused);
    if (ticket)
        *ticket = in.ticket;
    return status;
}

kineto_status ko_controller_dump_because(ko_controller *c, kineto_error *err, const char *fmt, ...)
{
    kineto_error unused;
    ko_intake in = {0};
    va_list args;
    va_start(args, fmt);
    vsnprintf(in.reason, sizeof in.reason, fmt, args);
    va_end(args);
    /* Checked first without a note: a watchdog may retry often. */
    ko_controller_lock(c);
    kineto_status status = check_dump_possible(c, err);
    ko_controller_unlock(c);
    return status ? status
                  : request_dump(c, &in, kb_string(""), KO_FROM_ARGUMENT, err ? err : &unused);
}

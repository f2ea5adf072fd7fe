/* The controller object: creation, destruction, external events, status queries. */
#include "ondemand/controller/controller_impl.h"

/* ---- its life -------------------------------------------------------------------------------- */

static bool init_controller_locks(ko_controller *c)
{
    if (pthread_mutex_init(&c->lock, NULL) != 0)
        return false;
    if (pthread_mutex_init(&c->intake_lock, NULL) != 0) {
        pthread_mutex_destroy(&c->lock);
        return false;
    }
    if (ko_notes_init(&c->notes))
        return true;
    pthread_mutex_destroy(&c->intake_lock);
    pthread_mutex_destroy(&c->lock);
    return false;
}

/* Everything but locks and descriptors. Iterations that the program began earlier are known from
 * the start. */
static void init_controller(ko_controller *c, const ko_controller_options *options,
                            const ko_driver *driver)
{
    c->options = *options;
    snprintf(c->host, sizeof c->host, "%s", options->host ? options->host : "process");
    c->options.host = c->host;
    c->driver = *driver;
    ko_ondemand_init(&c->machine);
    c->steps = c->seen = options->iterations;
    c->machine.iteration = (int64_t)options->iterations - 1;
    c->wake_ns = INT64_MAX;
    c->planned_ns = INT64_MIN;
    c->wake_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    ko_config_file_init(&c->file);
    ko_request_init(&c->base);
}

kineto_status ko_controller_create(const ko_controller_options *options, const ko_driver *driver,
                                   ko_controller **out, kineto_error *err)
{
    ko_controller *c = calloc(1, sizeof *c);
    *out = NULL;
    if (!c)
        return kb_fail_memory(err, "listen for requests");
    init_controller(c, options, driver);
    kineto_status status = ko_waiting_open(c, err);
    if (status == KINETO_OK && !init_controller_locks(c)) {
        status = kb_fail_memory(err, "locks of a controller");
        ko_waiting_close(c);
    }
    if (status != KINETO_OK) {
        free(c);
        return status;
    }
    ko_request_load_file(c);
    *out = c;
    return KINETO_OK;
}

void ko_controller_listen(ko_controller *c, ko_listener *listener)
{
    if (c->listener_count < KO_MAX_LISTENERS) {
        c->listeners[c->listener_count++] = listener;
        return;
    }
    kb_log(KINETO_LOG_ERROR, "more than %u listeners: %s does not listen", KO_MAX_LISTENERS,
           listener->name);
    listener->destroy(listener);
}

/* In reverse order of their registration. */
static void destroy_listeners(ko_controller *c)
{
    for (uint32_t i = c->listener_count; i-- > 0;)
        c->listeners[i]->destroy(c->listeners[i]);
    c->listener_count = 0;
}

/* A last turn, in which listeners report final stages to their peers. */
static void turn_listeners_finally(ko_controller *c)
{
    for (uint32_t i = 0; i < c->listener_count; i++)
        c->listeners[i]->turn(c->listeners[i], c, kb_monotonic_ns());
}

void ko_controller_destroy(ko_controller *c)
{
    if (!c)
        return;
    ko_controller_lock(c);
    c->closing = true;
    ko_controller_unlock(c);
    ko_controller_cancel(c, "the end of the program");
    ko_jobs_join(c, true);
    turn_listeners_finally(c);
    ko_jobs_join(c, true);
    KB_ASSERT(!c->jobs && c->machine.state == KO_ONDEMAND_WAIT);
    destroy_listeners(c);
    ko_notes_deliver(&c->notes);
    ko_notes_free(&c->notes);
    ko_waiting_close(c);
    pthread_mutex_destroy(&c->intake_lock);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

/* The parent's other threads do not exist in the child; locks that they held stay locked forever,
 * so data is freed only if its lock can be taken. */
void ko_controller_forked(ko_controller *c)
{
    if (!c)
        return;
    for (uint32_t i = 0; i < c->listener_count; i++)
        if (c->listeners[i]->forked)
            c->listeners[i]->forked(c->listeners[i]);
    destroy_listeners(c);
    if (pthread_mutex_trylock(&c->lock) == 0)
        for (ko_job *job; (job = c->jobs) != NULL;) {
            c->jobs = job->next;
            free(job);
        }
    if (pthread_mutex_trylock(&c->notes.lock) == 0)
        ko_notes_forget(&c->notes);
    ko_waiting_close(c);
    free(c);
}

/* ---- events ---------------------------------------------------------------------------------- */

/* Steps that happened before the event are given to the machine first. */
static void send_machine_event(ko_controller *c, ko_ondemand_event what)
{
    ko_steps_poll(c);
    ko_steps_replay(c);
    (void)ko_apply_event(c, what, ko_now_ns(), NULL, NULL);
}

void ko_controller_cancel(ko_controller *c, const char *by)
{
    ko_controller_lock(c);
    c->by = by ? by : "";
    send_machine_event(c, KO_EVENT_CANCEL);
    c->by = "";
    ko_controller_unlock(c);
}

void ko_controller_preempt(ko_controller *c, bool begins)
{
    ko_controller_lock(c);
    if (begins && c->preemptions++ == 0)
        send_machine_event(c, KO_EVENT_PREEMPT);
    else if (!begins && c->preemptions > 0 && --c->preemptions == 0)
        send_machine_event(c, KO_EVENT_RELEASE);
    ko_controller_unlock(c);
}

/* ---- questions ------------------------------------------------------------------------------- */

bool ko_controller_can_accept(ko_controller *c, const char **why)
{
    ko_controller_lock(c);
    bool can = ko_ondemand_can_accept(&c->machine, why);
    if (can && c->closing) {
        can = false;
        if (why)
            *why = "busy: shutting down";
    }
    ko_controller_unlock(c);
    return can;
}

/* The limits of the window as far as they are known: requested, planned or actual ones. */
static void fill_window(const ko_ondemand *m, ko_controller_status *out)
{
    bool known = m->state != KO_ONDEMAND_WAIT && !(m->by_iteration && m->window_start_ns == 0);
    out->by_iteration = m->state != KO_ONDEMAND_WAIT && m->by_iteration;
    if (!known)
        return;
    out->start_ns = m->window_start_ns ? m->window_start_ns : m->start_ns;
    if (m->window_end_ns)
        out->end_ns = m->window_end_ns;
    else if (!m->by_iteration)
        out->end_ns = m->end_ns;
}

void ko_controller_get_status(ko_controller *c, ko_controller_status *out)
{
    ko_controller_lock(c);
    ko_steps_poll(c);
    ko_steps_replay(c);
    *out = (ko_controller_status){.pid = c->options.pid,
                                  .state = c->machine.state,
                                  .host = c->host,
                                  .iteration = c->machine.iteration,
                                  .ticket = c->current.ticket,
                                  .ring = c->options.ring,
                                  .preempted = c->machine.preempted,
                                  .traces = c->traces};
    fill_window(&c->machine, out);
    ko_controller_unlock(c);
}

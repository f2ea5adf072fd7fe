/* Jobs: building and writing a trace, finishing a snapshot, dumping the ring. Each runs on a thread
 * of its own, so that requests are answered meanwhile. A job stays in the controller's list until
 * it is joined. */
#include "ondemand/controller/controller_impl.h"

/* Without the lock: this takes as long as building and writing a trace. */
static kineto_status run_driver_job(ko_job *job, uint64_t *bytes, kineto_error *err)
{
    const ko_driver *d = &job->controller->driver;
    const ko_intake *w = &job->what;
    switch (job->kind) {
    case KO_JOB_WRITE:
        return d->write(d->context, &w->request, w->source, w->path, bytes, err);
    case KO_JOB_SNAPSHOT:
        return d->snapshot_stop(d->context, &w->request, w->source, w->path, bytes, err);
    default:
        return d->dump(d->context, w->source, w->path, w->reason, bytes, err);
    }
}

/* The machine goes on whether or not the job succeeded. */
static void finish_job(ko_controller *c, const ko_job *job, bool written)
{
    KB_ASSERT(job->kind == KO_JOB_DUMP ? c->dumping : c->machine.state == KO_ONDEMAND_PROCESS);
    if (job->kind == KO_JOB_DUMP) {
        c->dumping = false;
        return;
    }
    if (written)
        c->traces++;
    else
        c->driver.drop(c->driver.context);
    ko_steps_replay(c);
    (void)ko_apply_event(c, KO_EVENT_PROCESSED, ko_now_ns(), NULL, NULL);
}

/* The thread of a job. */
static void *run_job(void *argument)
{
    ko_job *job = argument;
    ko_controller *c = job->controller;
    uint64_t bytes = 0;
    kineto_error why;
    kineto_status status = run_driver_job(job, &bytes, &why);
    ko_controller_lock(c);
    if (status == KINETO_OK)
        ko_post_stage(c, &job->what, KO_STAGE_WRITTEN, ko_now_ns(), job->what.reason,
                      job->what.path, bytes);
    else
        ko_post_stage(c, &job->what, KO_STAGE_FAILED, ko_now_ns(), why.message, NULL, 0);
    finish_job(c, job, status == KINETO_OK);
    ko_controller_unlock(c);
    ko_controller_wake(c);
    kb_store_release(&job->done,
                     true); /* the last access: afterwards the job may be joined and freed */
    return NULL;
}

kineto_status ko_job_start(ko_controller *c, ko_job_kind kind, const ko_intake *what,
                           kineto_error *err)
{
    ko_job *job = calloc(1, sizeof *job);
    if (!job)
        return kb_fail(err, KINETO_E_MEMORY, "write '%s': out of memory", what->path);
    job->controller = c;
    job->kind = kind;
    job->what = *what;
    int failed = kb_thread_start(&job->thread, run_job, job);
    if (failed) {
        free(job);
        return kb_fail_os(err, failed, "cannot start a thread to write '%s'", what->path);
    }
    KB_ASSERT(kind == KO_JOB_DUMP ? !c->dumping : c->machine.state == KO_ONDEMAND_PROCESS);
    job->next = c->jobs;
    c->jobs = job;
    return KINETO_OK;
}

/* Removes a job that has ended, or any with `all`; NULL: none. */
static ko_job *pop_job(ko_controller *c, bool all)
{
    ko_controller_lock(c);
    ko_job **at = &c->jobs;
    while (*at && !all && !kb_load_acquire(&(*at)->done))
        at = &(*at)->next;
    ko_job *job = *at;
    if (job)
        *at = job->next;
    ko_controller_unlock(c);
    return job;
}

void ko_jobs_join(ko_controller *c, bool all)
{
    for (ko_job *job; (job = pop_job(c, all)) != NULL;) {
        pthread_join(job->thread, NULL);
        free(job);
    }
}

/* Windows that an on-demand controller (src/ondemand) records, and profilers of the program that
 * keep such windows out: PyTorch refuses a daemon's request while the program profiles itself. */
#include "profiler/profiler.h"

/* ---- one window ------------------------------------------------------------------------------ */

/* Scopes that PyTorch observes for requests of a daemon. */
#define SCOPES                                                                                     \
    (1u << KINETO_SCOPE_FUNCTION | 1u << KINETO_SCOPE_USER_SCOPE |                                 \
     1u << KINETO_SCOPE_BACKWARD_FUNCTION)

kineto_status kp_window_prepare(const kineto_profiler_config *config, const kp_window_request *more,
                                kineto_profiler **out, kineto_error *err)
{
    kineto_profiler_config c = *config;
    c.state = KINETO_STATE_KINETO_ONDEMAND;
    return kp_profiler_create(&c, KINETO_ACTIVITY_SET(CPU), SCOPES, more, out, err);
}

kineto_status kp_window_start(kineto_profiler *p, kineto_error *err)
{
    KB_ASSERT(p->config.values.state == KINETO_STATE_KINETO_ONDEMAND && p->session);
    ks_session_extras(p->session)->armed = true;
    kineto_status status = kineto_profiler_start(p, err);
    if (!status)
        kp_window_set_reported(p);
    return status;
}

void kp_window_keep_from(kineto_profiler *p, int64_t start_ns, uint64_t start_ticks)
{
    ks_session_keep(p->session, start_ns, start_ticks);
}

kineto_status kp_window_end(kineto_profiler *p, const kp_window_range *cut, kineto_error *err)
{
    ks_extras *extras = ks_session_extras(p->session);
    extras->from_ns = cut->start_ns;
    extras->until_ns = cut->end_ns;
    extras->from_ticks = cut->start_ticks;
    extras->until_ticks = cut->end_ticks;
    kp_window_set_reported(NULL);
    return ks_session_end(p->session, err);
}

kineto_status kp_window_build(kineto_profiler *p, const kp_window_annotations *texts, kineto_trace **out,
                              kineto_error *err)
{
    ks_extras *extras = ks_session_extras(p->session);
    kineto_profiler_result *result = NULL;
    if (texts) {
        extras->header = texts->header;
        extras->header_count = texts->header_count;
        extras->notes = texts->notes;
        extras->note_count = texts->note_count;
    }
    *out = NULL;
    kineto_status status = kineto_profiler_stop(p, &result, err);
    if (!status && result->trace) {
        kp_ondemand_pass_trace(result->trace);
        *out = kineto_trace_retain(result->trace);
    }
    kineto_profiler_result_release(result);
    return status;
}

void kp_window_destroy(kineto_profiler *p)
{
    if (!p)
        return;
    kp_window_set_reported(NULL);
    kineto_profiler_destroy(p);
}

/* ---- profilers that keep windows out --------------------------------------------------------- */

static kb_lock preempt_lock;
static kp_preempt_hook *preempt_hook;
/* Running profilers of the program, and the process in which they were counted. */
static uint32_t own_running, own_pid;

void kp_preempt_set_hook(kp_preempt_hook *hook)
{
    bool taken = kb_lock_take(&preempt_lock, kb_os_self());
    preempt_hook = hook;
    if (hook && own_running && own_pid == kb_os_pid())
        hook(true);
    if (taken)
        kb_lock_drop(&preempt_lock);
}

/* Counts a profiler that starts or ends, and calls the hook at the first and after the last one.
 * The caller holds the lock. A forked child has none of its own, whatever its parent had. */
static void count_own_profiler(bool begins, uint32_t pid)
{
    if (own_pid != pid)
        own_running = 0;
    own_pid = pid;
    KB_ASSERT(begins || own_running);
    own_running += begins ? 1 : UINT32_MAX;
    if (preempt_hook && own_running == begins)
        preempt_hook(begins);
}

/* A profiler that began before a fork does not end in the child: its process is remembered. The
 * lock may be held by this thread already, if the hook itself starts a profiler. */
void kp_preempt_windows(kineto_profiler *p, bool begins)
{
    uint32_t pid = kb_os_pid();
    if (!p->records || p->config.values.state == KINETO_STATE_KINETO_ONDEMAND ||
        (!begins && p->preempts_pid != pid))
        return;
    p->preempts_pid = begins ? pid : 0;
    bool taken = kb_lock_take(&preempt_lock, kb_os_self());
    count_own_profiler(begins, pid);
    if (taken)
        kb_lock_drop(&preempt_lock);
}

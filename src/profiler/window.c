/* Windows that a controller records on demand, and profilers of the program that keep them out. */
#include "profiler/profiler.h"

/* ---- one window ---------------------------------------------------------------------------------- */

#define SCOPES                                                                                     \
    (1u << KINETO_SCOPE_FUNCTION | 1u << KINETO_SCOPE_USER_SCOPE |                                 \
     1u << KINETO_SCOPE_BACKWARD_FUNCTION)

kineto_status kp_window_prepare(const kineto_profiler_config *config, const kp_more *more,
                                kineto_profiler **out, kineto_error *err)
{
    kineto_profiler_config c = *config;
    c.state = KINETO_STATE_KINETO_ONDEMAND;
    return kp_profiler_create(&c, KINETO_ACTIVITY_SET(CPU), SCOPES, more, out, err);
}

kineto_status kp_window_start(kineto_profiler *p, kineto_error *err)
{
    ks_session_extras(p->session)->armed = true;
    kineto_status status = kineto_profiler_start(p, err);
    if (!status)
        kp_window_show(p);
    return status;
}

void kp_window_keep(kineto_profiler *p, int64_t start_ns, uint64_t start_ticks)
{
    ks_session_keep(p->session, start_ns, start_ticks);
}

kineto_status kp_window_end(kineto_profiler *p, const kp_window_cut *cut, kineto_error *err)
{
    ks_extras *extras = ks_session_extras(p->session);
    extras->from_ns = cut->start_ns;
    extras->until_ns = cut->end_ns;
    extras->from_ticks = cut->start_ticks;
    extras->until_ticks = cut->end_ticks;
    kp_window_show(NULL);
    return ks_session_end(p->session, err);
}

kineto_status kp_window_build(kineto_profiler *p, const kp_window_texts *texts, kineto_trace **out,
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
        kp_ondemand_hand_over(result->trace);
        *out = kineto_trace_retain(result->trace);
    }
    kineto_result_release(result);
    return status;
}

void kp_window_drop(kineto_profiler *p)
{
    if (!p)
        return;
    kp_window_show(NULL);
    kineto_profiler_destroy(p);
}

/* ---- who keeps them out -------------------------------------------------------------------------- */

static kb_lock lock;
static kp_preempt_hook *preempt_hook;
static uint32_t own_running, own_pid; /* profilers of the program, in this process */

void kp_preempt_listen(kp_preempt_hook *hook)
{
    bool taken = kb_lock_take(&lock, kb_os_self());
    preempt_hook = hook;
    if (hook && own_running && own_pid == kb_os_pid())
        hook(true);
    if (taken)
        kb_lock_drop(&lock);
}

/* A fork's child has none of its own, whatever its parent had. */
static void count(bool begins, uint32_t pid)
{
    if (own_pid != pid)
        own_running = 0;
    own_pid = pid;
    own_running += begins ? 1 : UINT32_MAX;
    if (preempt_hook && own_running == begins)
        preempt_hook(begins);
}

void kp_preempt(kineto_profiler *p, bool begins)
{
    uint32_t pid = kb_os_pid();
    if (!p->records || p->config.values.state == KINETO_STATE_KINETO_ONDEMAND ||
        (!begins && p->preempts_pid != pid))
        return;
    p->preempts_pid = begins ? pid : 0;
    bool taken = kb_lock_take(&lock, kb_os_self());
    count(begins, pid);
    if (taken)
        kb_lock_drop(&lock);
}

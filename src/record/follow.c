/* Follows the windows of an on-demand recorder: in a process that such a recorder watches and that
 * has plug-in profilers, one thread sleeps until windows change, and then starts or stops the
 * profilers. Not under a recorder that records all the time. The protocol with the recorder is in
 * format/follow.c. */
#include "base/thread_census.h"
#include "record/host.h"

#include <dlfcn.h>
#include <pthread.h>

static uint32_t kr_follow_pid; /* the process whose thread runs; a fork's child has none */

/* Keep the library from being unloaded: the thread runs its code until the process ends. */
static void pin_library(void)
{
    Dl_info info;
    if (dladdr(&kr_follow_pid, &info) && info.dli_fname && info.dli_fname[0])
        (void)dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

static void *follow_windows(void *pool_control)
{
    kf_control *control = pool_control;
    uint32_t pid = kb_os_pid(), collects = kb_load_relaxed(&control->collects);
    (void)pthread_setname_np(pthread_self(), KB_THREAD_FOLLOW);
    for (;;) {
        uint32_t seen = kb_load_acquire(&control->window_changes);
        uint32_t asked = kb_load_relaxed(&control->collects);
        kf_follower *place = kf_follow_begin(control, pid);
        bool over = !kr_host_follow(asked != collects) || kb_only_library_threads_left();
        collects = asked;
        if (place && over)
            kf_follow_end(place);
        if (over)
            return NULL; /* the process ends: there is nothing to start or stop any more */
        if (place)
            kf_follow_report(control, place, seen);
        kf_follow_wait(control, seen);
    }
}

void kr_follow_start(void)
{
    const kf_pool *pool = kr_pool_get();
    uint32_t known = kb_load_acquire(&kr_follow_pid), pid = kb_os_pid();
    pthread_t thread;
    if (!pool || !kb_load_acquire(&pool->control->watched) || known == pid ||
        !kb_cas_acqrel(&kr_follow_pid, &known, pid))
        return;
    pin_library();
    int failed = kb_thread_start(&thread, follow_windows, pool->control);
    if (failed)
        kb_log(KINETO_LOG_WARNING,
               "plug-ins will not follow requests for traces: a thread cannot be started: %s",
               strerror(failed));
    else
        (void)pthread_detach(thread);
}

/* Correlation ids, passed on to the plug-ins that listen.
 *
 * Pushing takes no lock: it reads the current list of listeners while the thread is marked as
 * inside (quiesce.c). A published list is never changed; a new list replaces it, under the host's
 * lock, and the old one is reused only after kr_wait_quiescent. A pop goes to the listeners that
 * were in the list at the time of the push: each list has a generation, each target the generation
 * since which its plug-in listens. */
#include "record/host.h"

#define KR_LISTS                                                                                   \
    4u /* more than two, so that a thread that never leaves does not read a reused one */

/* One function to call, for push or pop on one of the two stacks. */
typedef struct kr_listen_target {
    union {
        int (*push)(KinetoPlugin_ProfilerPushCorrelationId_Params *);
        int (*push_user)(KinetoPlugin_ProfilerPushUserCorrelationId_Params *);
        int (*pop)(KinetoPlugin_ProfilerPopCorrelationId_Params *);
        int (*pop_user)(KinetoPlugin_ProfilerPopUserCorrelationId_Params *);
    };
    KinetoPlugin_ProfilerHandle *handle;
    uint32_t since; /* generation of the first list that its plug-in was in */
    uint32_t source;
} kr_listen_target;

typedef struct kr_listen_targets {
    uint32_t count;
    kr_listen_target list[KR_MAX_PROFILERS];
} kr_listen_targets;

typedef struct kr_listener {
    const KinetoPlugin_ProfilerInterface *calls;
    KinetoPlugin_ProfilerHandle *handle;
    uint32_t since, source;
} kr_listener;

typedef struct kr_listeners {
    uint32_t generation, epoch, pid, count;
    kr_listen_targets push[2], pop[2]; /* by stack */
    kr_listener list[KR_MAX_PROFILERS];
} kr_listeners;

static kr_listeners kr_lists[KR_LISTS];
const void *kineto_listeners; /* the current one of kr_lists; NULL: there are no listeners */
static uint32_t kr_generation, kr_epoch;

/* ---- push and pop ---------------------------------------------------------------------------- */

#define SIZE_OF(Params) KINETO_PLUGIN_SIZE(KinetoPlugin_Profiler##Params, pProfilerHandle)

KB_INLINE int call_push(const kr_listen_target *target, uint32_t stack, uint64_t id)
{
    if (stack == KINETO_CORRELATION) {
        KinetoPlugin_ProfilerPushCorrelationId_Params p = {SIZE_OF(PushCorrelationId_Params), id,
                                                           target->handle};
        return target->push(&p);
    }
    KinetoPlugin_ProfilerPushUserCorrelationId_Params p = {SIZE_OF(PushUserCorrelationId_Params),
                                                           id, target->handle};
    return target->push_user(&p);
}

KB_INLINE int call_pop(const kr_listen_target *target, uint32_t stack)
{
    if (stack == KINETO_CORRELATION) {
        KinetoPlugin_ProfilerPopCorrelationId_Params p = {SIZE_OF(PopCorrelationId_Params),
                                                          target->handle};
        return target->pop(&p);
    }
    KinetoPlugin_ProfilerPopUserCorrelationId_Params p = {SIZE_OF(PopUserCorrelationId_Params),
                                                          target->handle};
    return target->pop_user(&p);
}

/* Forget pushes of an earlier epoch: between two epochs there were no listeners, so that nothing is
 * left to pop. */
KB_INLINE void sync_push_epoch(kr_cursor *c, const kr_listeners *l)
{
    if (KINETO_LIKELY(c->pushed_epoch == l->epoch))
        return;
    c->pushed_epoch = l->epoch;
    c->pushed_depth[0] = c->pushed_depth[1] = 0;
}

KB_INLINE void push_id_to_listeners(kr_cursor *c, const kr_listeners *l, uint32_t stack,
                                    uint64_t id)
{
    sync_push_epoch(c, l);
    uint32_t depth = c->pushed_depth[stack];
    if (KINETO_LIKELY(depth < UINT16_MAX))
        c->pushed_depth[stack] = (uint16_t)(depth + 1);
    if (KINETO_UNLIKELY(depth >= KR_PUSH_DEPTH))
        return;
    c->pushed_at[stack][depth] = l->generation;
    const kr_listen_targets *targets = &l->push[stack];
    for (uint32_t i = 0; i < targets->count; i++)
        if (KINETO_UNLIKELY(call_push(&targets->list[i], stack, id)))
            kr_count(targets->list[i].source, KF_REASON_PLUGIN_ERROR, 1);
}

KB_INLINE void pop_id_from_listeners(kr_cursor *c, const kr_listeners *l, uint32_t stack)
{
    sync_push_epoch(c, l);
    uint32_t depth = c->pushed_depth[stack];
    if (KINETO_UNLIKELY(depth-- == 0))
        return;
    c->pushed_depth[stack] = (uint16_t)depth;
    if (KINETO_UNLIKELY(depth >= KR_PUSH_DEPTH))
        return;
    uint32_t pushed_at = c->pushed_at[stack][depth];
    const kr_listen_targets *targets = &l->pop[stack];
    for (uint32_t i = 0; i < targets->count; i++)
        if (targets->list[i].since <= pushed_at &&
            KINETO_UNLIKELY(call_pop(&targets->list[i], stack)))
            kr_count(targets->list[i].source, KF_REASON_PLUGIN_ERROR, 1);
}

/* In a fork's child: the list is the parent's; the child has no sessions yet. */
static KB_COLD void drop_parent_list(const void *list)
{
    (void)kb_cas_acqrel(&kineto_listeners, &list, NULL);
}

/* The current list, with this thread marked as inside; NULL: nothing to do, and not inside. */
KB_INLINE const kr_listeners *enter_listener_list(kr_cursor **c)
{
    *c = kr_plugin_enter();
    if (!*c)
        return NULL;
    const kr_listeners *l = kb_load_acquire(&kineto_listeners);
    if (KINETO_LIKELY(l && l->pid == (*c)->pid))
        return l;
    if (l)
        drop_parent_list(l);
    kr_plugin_exit(*c);
    return NULL;
}

void kineto_record_push_id(uint32_t stack, uint64_t id)
{
    kr_cursor *c;
    const kr_listeners *l = enter_listener_list(&c);
    if (!l)
        return;
    if (KINETO_LIKELY(stack == KINETO_CORRELATION))
        push_id_to_listeners(c, l, KINETO_CORRELATION, id);
    else
        push_id_to_listeners(c, l, KINETO_CORRELATION_USER, id);
    kr_plugin_exit(c);
}

void kineto_record_pop_id(uint32_t stack)
{
    kr_cursor *c;
    const kr_listeners *l = enter_listener_list(&c);
    if (!l)
        return;
    if (KINETO_LIKELY(stack == KINETO_CORRELATION))
        pop_id_from_listeners(c, l, KINETO_CORRELATION);
    else
        pop_id_from_listeners(c, l, KINETO_CORRELATION_USER);
    kr_plugin_exit(c);
}

/* An operator pops its own push: it stores the generation itself, so that no depth is counted. */

static KB_NOINLINE void push_id_to_targets(const kr_listen_targets *targets, uint32_t stack,
                                           uint64_t id)
{
    for (uint32_t i = 0; i < targets->count; i++)
        if (KINETO_UNLIKELY(call_push(&targets->list[i], stack, id)))
            kr_count(targets->list[i].source, KF_REASON_PLUGIN_ERROR, 1);
}

static KB_NOINLINE void pop_id_from_targets(const kr_listen_targets *targets, uint32_t stack,
                                            uint32_t pushed_at)
{
    for (uint32_t i = 0; i < targets->count; i++)
        if (targets->list[i].since <= pushed_at &&
            KINETO_UNLIKELY(call_pop(&targets->list[i], stack)))
            kr_count(targets->list[i].source, KF_REASON_PLUGIN_ERROR, 1);
}

uint32_t kr_listen_push(uint32_t stack, uint64_t id)
{
    kr_cursor *c;
    const kr_listeners *l = enter_listener_list(&c);
    if (!l)
        return 0;
    uint32_t generation = l->generation;
    const kr_listen_targets *targets = &l->push[stack];
    if (KINETO_UNLIKELY(targets->count != 1 || stack != KINETO_CORRELATION))
        push_id_to_targets(targets, stack, id);
    else if (KINETO_UNLIKELY(call_push(&targets->list[0], KINETO_CORRELATION, id)))
        kr_count(targets->list[0].source, KF_REASON_PLUGIN_ERROR, 1);
    kr_plugin_exit(c);
    return generation;
}

void kr_listen_pop(uint32_t stack, uint32_t pushed_at)
{
    kr_cursor *c;
    const kr_listeners *l = enter_listener_list(&c);
    if (!l)
        return;
    const kr_listen_targets *targets = &l->pop[stack];
    if (KINETO_UNLIKELY(targets->count != 1 || stack != KINETO_CORRELATION ||
                        targets->list[0].since > pushed_at))
        pop_id_from_targets(targets, stack, pushed_at);
    else if (KINETO_UNLIKELY(call_pop(&targets->list[0], KINETO_CORRELATION)))
        kr_count(targets->list[0].source, KF_REASON_PLUGIN_ERROR, 1);
    kr_plugin_exit(c);
}

/* ---- changing the list: under the host's lock ------------------------------------------------ */

static bool wants_correlation_ids(const KinetoPlugin_ProfilerInterface *i)
{
    return i->profilerPushCorrelationId || i->profilerPopCorrelationId ||
           i->profilerPushUserCorrelationId || i->profilerPopUserCorrelationId;
}

static kr_listen_target *add_listen_target(kr_listen_targets *targets, const kr_listener *l)
{
    kr_listen_target *target = &targets->list[targets->count++];
    *target = (kr_listen_target){.handle = l->handle, .since = l->since, .source = l->source};
    return target;
}

static void add_listen_targets(kr_listeners *next, const kr_listener *l)
{
    const KinetoPlugin_ProfilerInterface *calls = l->calls;
    if (calls->profilerPushCorrelationId)
        add_listen_target(&next->push[0], l)->push = calls->profilerPushCorrelationId;
    if (calls->profilerPushUserCorrelationId)
        add_listen_target(&next->push[1], l)->push_user = calls->profilerPushUserCorrelationId;
    if (calls->profilerPopCorrelationId)
        add_listen_target(&next->pop[0], l)->pop = calls->profilerPopCorrelationId;
    if (calls->profilerPopUserCorrelationId)
        add_listen_target(&next->pop[1], l)->pop_user = calls->profilerPopUserCorrelationId;
}

/* Make a list current whose `list` is complete: derive the targets, give it the next generation. */
static void publish_listener_list(kr_listeners *next)
{
    KB_ASSERT(next->count <= KR_MAX_PROFILERS && next != kb_load_relaxed(&kineto_listeners));
    for (uint32_t stack = 0; stack < 2; stack++)
        next->push[stack].count = next->pop[stack].count = 0;
    for (uint32_t i = 0; i < next->count; i++)
        add_listen_targets(next, &next->list[i]);
    next->generation = ++kr_generation;
    next->epoch = kr_epoch;
    next->pid = kb_os_pid();
    if (next->count == 0)
        kr_epoch++;
    kb_store_release(&kineto_listeners, next->count ? (const void *)next : NULL);
}

/* A copy of the current list without this profiler, to be changed and published. Profilers are
 * identified by their interface, since handles need not differ. */
static kr_listeners *make_next_list(const KinetoPlugin_ProfilerInterface *calls)
{
    const kr_listeners *now = kb_load_acquire(&kineto_listeners);
    kr_listeners *next = &kr_lists[(kr_generation + 1) % KR_LISTS];
    next->count = 0;
    for (uint32_t i = 0; now && now->pid == kb_os_pid() && i < now->count; i++)
        if (now->list[i].calls != calls)
            next->list[next->count++] = now->list[i];
    return next;
}

void kr_listen(const KinetoPlugin_ProfilerInterface *calls, KinetoPlugin_ProfilerHandle *handle,
               uint32_t source)
{
    if (!wants_correlation_ids(calls))
        return;
    kr_quiesce_init();
    kr_listeners *next = make_next_list(calls);
    KB_ASSERT(next->count < KR_MAX_PROFILERS);
    next->list[next->count++] = (kr_listener){calls, handle, kr_generation + 1, source};
    publish_listener_list(next);
    (void)kr_wait_quiescent(KR_PLUGIN_TIMEOUT_MS);
}

bool kr_unlisten(const KinetoPlugin_ProfilerInterface *calls)
{
    if (!wants_correlation_ids(calls))
        return true;
    publish_listener_list(make_next_list(calls));
    return kr_wait_quiescent(KR_PLUGIN_TIMEOUT_MS);
}

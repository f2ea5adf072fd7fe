/* Operators that the host pushes, per thread. The SDK asks for the external id of each record on the
 * thread that makes the call, and gets the innermost operator's. Versions that do not ask have a stack
 * of their own, to which ids are pushed; there a thread that pushed none gets those of the main thread,
 * which is why asking is preferred. */
#include "rocm.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_DEPTH 64u
static _Thread_local struct {
    uint32_t session, depth; /* deeper operators than MAX_DEPTH count as the last one that is kept */
    uint64_t ids[MAX_DEPTH];
} operators;

/* Number of the session that wants ids; 0: none does. */
static atomic_uint wanting;
static atomic_bool pushes_to_sdk;

/* HIP is initialised by its first call. An exit handler that is installed by the second one runs before
 * those of HIP and of the SDK. */
static void note_call(void)
{
    static atomic_uint calls;
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (atomic_load_explicit(&calls, memory_order_relaxed) > 1)
        return;
    if (atomic_fetch_add(&calls, 1) == 1)
        (void)pthread_once(&once, rp_source_install_exit_handler);
}

void rp_operators_begin(uint32_t session) { atomic_store(&wanting, session); }
void rp_operators_push_to_sdk(void) { atomic_store(&pushes_to_sdk, true); }

/* Each context has a stack of its own. */
static void push_to_sdk(uint64_t id)
{
    uint64_t thread = (uint64_t)syscall(SYS_gettid);
    for (rp_part part = RP_PART_MAIN; part <= RP_PART_HSA; part++)
        (void)rp_sdk.push_external(rp_tracing_context(part), thread, (rp_user_data){.value = id});
}

static void pop_from_sdk(void)
{
    uint64_t thread = (uint64_t)syscall(SYS_gettid);
    rp_user_data last;
    for (rp_part part = RP_PART_MAIN; part <= RP_PART_HSA; part++)
        (void)rp_sdk.pop_external(rp_tracing_context(part), thread, &last);
}

/* What an earlier session left is dropped. */
static void enter_session(uint32_t session)
{
    if (operators.session == session)
        return;
    for (; operators.depth && atomic_load(&pushes_to_sdk); operators.depth--)
        pop_from_sdk();
    operators.session = session;
    operators.depth = 0;
}

void rp_operators_push(uint64_t id)
{
    uint32_t session = atomic_load_explicit(&wanting, memory_order_acquire);
    if (!session || rp_tool_is_over())
        return;
    enter_session(session);
    if (operators.depth < MAX_DEPTH)
        operators.ids[operators.depth] = id;
    operators.depth++;
    if (atomic_load(&pushes_to_sdk))
        push_to_sdk(id);
}

/* The host pops only what this session has pushed. */
void rp_operators_pop(void)
{
    if (!operators.depth || rp_tool_is_over() ||
        operators.session != atomic_load_explicit(&wanting, memory_order_acquire))
        return;
    operators.depth--;
    if (atomic_load(&pushes_to_sdk))
        pop_from_sdk();
}

/* On the thread that makes the call, before the record is written. */
int rp_operators_answer(uint64_t thread, rp_context context, uint32_t kind, int32_t operation,
                        uint64_t internal, rp_user_data *external, void *data)
{
    uint32_t depth = operators.depth < MAX_DEPTH ? operators.depth : MAX_DEPTH;
    bool is_current =
        depth && operators.session == atomic_load_explicit(&wanting, memory_order_acquire);
    (void)thread;
    (void)context;
    (void)kind;
    (void)operation;
    (void)internal;
    (void)data;
    note_call();
    external->value = is_current ? operators.ids[depth - 1] : 0;
    return 0;
}

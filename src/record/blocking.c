/* Calls that may block their thread: announced in the descriptor of the thread's chunk, where readers
 * find those that have not ended (see kf_open_call in format.h). Nothing is written into the chunk,
 * so that a call that ends leaves no trace.
 *
 * One call is announced for a thread: the innermost one. A signal handler that interrupts a call may
 * announce its own; its end restores the outer one. */
#include "record/cursor.h"

_Static_assert(sizeof(kf_open_call) == sizeof((kineto_blocking){0}.outer), "room for the outer call");

/* The calling thread's cursor if it can announce now: no record is being written, and its chunk has
 * room for the record of a call. The caller enters it. NULL: it cannot, which is no loss. */
static kr_cursor *find_ready_cursor(uint32_t words)
{
    kr_cursor *c = kr_me;
    if (KINETO_UNLIKELY(c == &kr_unattached || !KR_IN_USE(c)))
        c = kr_cursor_slow();
    if (!c || c->busy || c->is_second)
        return NULL;
    kr_enter(c);
    if (KINETO_LIKELY(kr_room_for(c, words) || kr_cursor_try_refill(c, words)))
        return c;
    kr_leave(c);
    return NULL;
}

/* The open call of the cursor's chunk; NULL: it has no chunk. */
static kf_open_call *find_open_call(const kr_cursor *c)
{
    const kf_pool *pool = kr_pool_get();
    return pool && c->chunk < pool->chunk_count ? &pool->descriptors[c->chunk].call : NULL;
}

/* A reader that sees one of the later words of a call sees its ticks (kf_open_call_read). */
static void store_open_call(kf_open_call *call, uint64_t header, uint64_t ticks, uint64_t place,
                            const uint64_t *args, uint32_t count)
{
    kb_store_relaxed(&call->header, UINT64_C(0));
    kb_store_relaxed(&call->ticks, ticks);
    kb_store_release(&call->place, place);
    for (uint32_t i = 0; i < count; i++)
        kb_store_release(&call->args[i], args[i]);
    kb_store_release(&call->header, header);
}

/* kf_open_call.place of a call that is announced now. */
static uint64_t find_place(const kr_cursor *c, uint32_t least_us)
{
    return kf_pair((uint32_t)(c->at - c->base), least_us);
}

void kineto_blocking_begin(kineto_blocking *call, kineto_site *site, uint32_t least_us,
                           const kineto_value *values)
{
    uint32_t count = values && site->arg_count <= KF_CALL_ARGS ? site->arg_count : 0;
    uint32_t words = KF_CALL_WORDS + count, props = count ? KF_PROP_ARGS : 0;
    uint64_t args[KF_CALL_ARGS] = {0};
    kr_cursor *c = find_ready_cursor(words);
    kf_open_call *open = c ? find_open_call(c) : NULL;
    call->outer[0] = 0;
    call->ticks = kineto_record_ticks();
    if (open) {
        if (KINETO_UNLIKELY(kb_load_relaxed(&open->header)))
            memcpy(call->outer, open, sizeof *open);
        for (uint32_t i = 0; i < count; i++)
            args[i] = values[i].u;
        store_open_call(open, kf_header(KF_OPEN_CALL, words, props << 8, kr_site_id(site)),
                        call->ticks, find_place(c, least_us), args, count);
    }
    if (c)
        kr_leave(c);
}

/* The records of the inner call are in the chunk, which may have no room left for that of the outer. */
static KB_COLD void restore_outer(const kr_cursor *c, kf_open_call *open, const kineto_blocking *call)
{
    kf_open_call outer;
    memcpy(&outer, call->outer, sizeof outer);
    if (kr_room_for(c, kf_header_words(outer.header)))
        store_open_call(open, outer.header, outer.ticks, find_place(c, (uint32_t)(outer.place >> 32)),
                        outer.args, KF_CALL_ARGS);
    else
        kb_store_release(&open->header, UINT64_C(0));
}

void kineto_blocking_end(const kineto_blocking *call)
{
    const kr_cursor *c = kr_me;
    kf_open_call *open = KR_IN_USE(c) && !c->busy ? find_open_call(c) : NULL;
    if (!open)
        return;
    if (KINETO_UNLIKELY(call->outer[0]))
        restore_outer(c, open, call);
    else
        kb_store_release(&open->header, UINT64_C(0));
}

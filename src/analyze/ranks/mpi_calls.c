/* Reads calls of MPI as collectives and messages. A blocking call waits from its start to its end. What a
 * non-blocking one started is waited for in a call of the family MPI_Wait: a receive is the wait that
 * completes it, since only then the program needs it.
 *
 * Messages have a number that both sides know (kineto_messages); it becomes the sequence number of a row in
 * one group of all messages. Only the thread with most calls waits: what other threads call is
 * communication besides the program's work. */
#include "analyze/ranks/host_calls.h"

#include "analyze/dataset/arg_lookup.h"
#include "trace/model/messages.h"

/* Started and not yet waited for: at most so many are followed. */
#define MAX_PENDING 256u

typedef struct mpi_reading {
    ka_host_calls *h;
    ka_collective_reader reader;
    size_t pending[MAX_PENDING];   /* of the thread: indexes of calls, in the order of their start */
    size_t pending_count;
    int64_t probed_ns;     /* start of the probe before this call; INT64_MAX: none */
    uint32_t thread, main_thread, messages; /* messages: the group of all messages */
    const ka_slice *slice;
    size_t first;          /* of this call's in the list */
} mpi_reading;

static kineto_string call_name(const mpi_reading *r) { return ka_name(r->h->s, r->slice->name); }

static bool is_non_blocking(kineto_string name)
{
    return kb_string_starts_with(name, "MPI_I") || kb_string_starts_with(name, "MPI_Start");
}

/* Are several requests waited for together? */
static bool completes_all(kineto_string name)
{
    return kb_string_starts_with(name, "MPI_Waitall") || kb_string_starts_with(name, "MPI_Waitsome") ||
           kb_string_starts_with(name, "MPI_Testall") || kb_string_starts_with(name, "MPI_Testsome");
}

static bool is_wait(kineto_string name)
{
    return kb_string_starts_with(name, "MPI_Wait") || kb_string_starts_with(name, "MPI_Test");
}

static ka_host_call begin_call(const mpi_reading *r)
{
    bool is_main = r->thread == r->main_thread;
    return (ka_host_call){.issued_ns = r->slice->start_ns,
                          .start_ns = r->slice->start_ns,
                          .end_ns = r->slice->end_ns,
                          .waited_from_ns = is_main ? r->slice->start_ns : INT64_MAX,
                          .waited_to_ns = is_main ? r->slice->end_ns : INT64_MIN,
                          .thread = is_main ? KA_NONE : r->thread,
                          .group = KA_NONE,
                          .sequence = KA_NO_SEQUENCE};
}

/* ---- what was started ------------------------------------------------------------------------ */

/* Notes a call that was started only: the program does not wait in it, but in the wait that completes it. */
static void await_later(mpi_reading *r, size_t index)
{
    if (index >= r->h->list.count)
        return;
    r->h->list.data[index].waited_from_ns = INT64_MAX;
    r->h->list.data[index].waited_to_ns = INT64_MIN;
    if (r->pending_count < MAX_PENDING)
        r->pending[r->pending_count++] = index;
}

/* The call ends with the wait at hand. A wait shorter than KA_MIN_HOST_WAIT_NS found it complete, and is none. */
static void complete_call(mpi_reading *r, size_t index)
{
    ka_host_call *c = &r->h->list.data[index];
    c->end_ns = r->slice->end_ns;
    if (ka_slice_ns(r->slice) < KA_MIN_HOST_WAIT_NS || r->thread != r->main_thread)
        return;
    c->waited_from_ns = r->slice->start_ns;
    c->waited_to_ns = r->slice->end_ns;
}

/* A wait without messages completes what was started first, or all; one with messages was for these. */
static void complete_pending(mpi_reading *r, bool has_messages)
{
    size_t done = completes_all(call_name(r)) ? r->pending_count : KB_MIN(r->pending_count, !has_messages);
    for (size_t i = 0; i < done && !has_messages; i++)
        complete_call(r, r->pending[i]);
    r->pending_count -= done;
    memmove(r->pending, r->pending + done, r->pending_count * sizeof *r->pending);
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* Appends a collective, unless it has one rank only or the communicator is not known. `Seq` counts the collectives of
 * the communicator on each rank; calls without it are counted in each step. */
static void see_mpi_collective(mpi_reading *r)
{
    ka_collective_args a = ka_read_collective_call(&r->reader, r->slice);
    kineto_string name = kb_intern_get(&r->reader.texts, a.group);
    if (a.ranks == 1 || !name.size)
        return;
    ka_comm_group g = {.id = kb_hash_seeded(5, name.data, name.size),
                       .name = ka_keep_host_text(r->h, name),
                       .size = a.ranks > 0 && a.ranks < UINT32_MAX ? (uint32_t)a.ranks : 0};
    ka_host_call c = begin_call(r);
    bool by_root = a.op == KA_OP_GATHER || a.op == KA_OP_SCATTER || a.op == KA_OP_ALL_TO_ALL;
    c.op = (uint8_t)a.op;
    c.elements = by_root ? 0 : (uint64_t)KB_MAX(KB_MAX(a.in, a.out), 0); /* 0: ranks have different ones */
    c.group = ka_keep_host_group(r->h, &g);
    if (a.sequence >= 0 && a.sequence < KA_NO_SEQUENCE)
        c.sequence = (uint32_t)a.sequence;
    else
        c.flags |= KA_COMM_BY_ORDER;
    ka_put_host_call(r->h, &c);
    if (is_non_blocking(call_name(r)))
        await_later(r, r->first);
}

/* The group of all messages: each has a number of its own, equal on both sides. */
static uint32_t group_messages(mpi_reading *r)
{
    ka_comm_group g = {.id = kb_hash_seeded(6, "", 0), .name = ka_keep_host_text(r->h, kb_string("messages")), .size = 2};
    if (r->messages == KA_NONE)
        r->messages = ka_keep_host_group(r->h, &g);
    return r->messages;
}

/* A visitor of messages: appends one direction of a call. A receive after a probe began to wait with the probe. Further
 * messages of a blocking call (MPI_Sendrecv) are parts of its first row, and begin with it. `id` 0 is no message. */
static bool put_message_side(void *context, int64_t id, bool is_received)
{
    mpi_reading *r = context;
    if (!id)
        return true;
    ka_host_call c = begin_call(r);
    if (is_received && r->probed_ns != INT64_MAX)
        c.issued_ns = c.start_ns = c.waited_from_ns = r->probed_ns;
    c.op = is_received ? KA_OP_RECV : KA_OP_SEND;
    c.group = group_messages(r);
    c.sequence = (uint32_t)kb_hash(&id, sizeof id) % KA_NO_SEQUENCE;
    c.flags = KA_COMM_NUMBERED;
    if (r->h->list.count > r->first && !is_non_blocking(call_name(r))) {
        c.flags |= KA_COMM_PART;
        c.issued_ns = c.start_ns = r->h->list.data[r->first].start_ns;
    }
    ka_put_host_call(r->h, &c);
    if (!is_received && is_non_blocking(call_name(r)))
        await_later(r, r->h->list.count - 1);
    return true;
}

/* A wait in which nothing is received, and that completes nothing either, was short or for something unknown. */
static void see_mpi_call(mpi_reading *r)
{
    kineto_string name = call_name(r);
    r->first = r->h->list.count;
    if (r->slice->kind == KINETO_KIND_COLLECTIVE_COMM)
        see_mpi_collective(r);
    else
        (void)kt_visit_messages(r->h->s->trace, r->slice->row, put_message_side, r);
    if (is_wait(name))
        complete_pending(r, r->h->list.count > r->first);
    bool is_probe = kb_string_starts_with(name, "MPI_Probe") || kb_string_starts_with(name, "MPI_Mprobe");
    r->probed_ns = is_probe && r->thread == r->main_thread ? r->slice->start_ns : INT64_MAX;
}

/* Calls that an MPI library makes inside of its calls are theirs. */
static void read_mpi_thread(mpi_reading *r)
{
    const ka_thread *t = &r->h->s->threads[r->thread];
    r->pending_count = 0;
    r->probed_ns = INT64_MAX;
    for (uint32_t i = t->first; i < t->first + t->count && !r->h->no_memory;) {
        r->slice = &r->h->s->slices[i];
        bool is_call = ka_is_mpi_call(r->h->s, i);
        if (is_call)
            see_mpi_call(r);
        i = is_call ? KB_MAX(r->slice->next, i + 1) : i + 1;
    }
}

/* The thread with most calls. KA_NONE: none has any. */
static uint32_t find_mpi_thread(const ka_dataset *s)
{
    uint32_t best = KA_NONE, most = 0;
    for (uint32_t t = 0; t < s->thread_count; t++) {
        uint32_t count = 0;
        for (uint32_t i = s->threads[t].first; i < s->threads[t].first + s->threads[t].count; i++)
            count += s->slices[i].kind == KINETO_KIND_MPI || s->slices[i].kind == KINETO_KIND_COLLECTIVE_COMM;
        best = count > most ? t : best;
        most = KB_MAX(most, count);
    }
    return best;
}

void ka_list_mpi_calls(ka_host_calls *h)
{
    mpi_reading r = {.h = h, .messages = KA_NONE, .main_thread = find_mpi_thread(h->s)};
    if (r.main_thread == KA_NONE)
        return;
    ka_collective_reader_create(&r.reader, h->s);
    for (r.thread = 0; r.thread < h->s->thread_count; r.thread++)
        read_mpi_thread(&r);
    h->no_memory |= r.reader.no_memory;
    ka_collective_reader_free(&r.reader);
}

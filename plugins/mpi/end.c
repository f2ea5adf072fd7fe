/* The second half of a call: messages that arrived, requests and communicators that were made. Nothing
 * is read if the call failed. */
#include "mpi.h"

#include <errno.h>
#include <string.h>

/* ---- arrivals -------------------------------------------------------------------------------- */

static const kineto_arg_desc arrival_args[] = {{"Src Rank", KINETO_ARG_INT},
                                               {"Tag", KINETO_ARG_INT},
                                               {"bytes", KINETO_ARG_INT},
                                               {"Message in", KINETO_ARG_INT}};
static kineto_site arrival_site = {.kind = KINETO_KIND_MPI, .arg_count = 4, .args = arrival_args};
static const kineto_arg_desc arrivals_args[] = {{"Messages in", KINETO_ARG_INTS}};
static kineto_site arrivals_site = {.kind = KINETO_KIND_MPI, .arg_count = 1, .args = arrivals_args};
static const kineto_arg_desc completed_args[] = {{"Src Rank", KINETO_ARG_INT},
                                                 {"Message in", KINETO_ARG_INT}};
static kineto_site completed_site = {
    .kind = KINETO_KIND_MPI, .arg_count = 2, .args = completed_args};

/* Status `index` of the call, ours or the program's; NULL: there is none. */
static const char *find_status(const cx_call *c, size_t index)
{
    if (!cx_has(c, CX_STATUS) || (!c->statuses && cx_ignores_status(c)))
        return NULL;
    return (const char *)cx_word_of(c, CX_STATUS) + index * cx_library_facts.status_bytes;
}

static int read_status(const char *status, uint8_t at)
{
    int value;
    memcpy(&value, status + at, sizeof value);
    return value;
}

/* From where a message came, by its status, and its id. 0: from nowhere (MPI_PROC_NULL). */
static uint64_t identify_message(const cx_comm *comm, const char *status, int *peer, int *tag)
{
    if (!status)
        return 0;
    *peer = cx_world_rank(comm, read_status(status, cx_library_facts.source_at));
    *tag = read_status(status, cx_library_facts.tag_at);
    return cx_message_next(comm, *peer, cx_my_world_rank(), *tag, true);
}

/* Bytes that arrived, of the room that there was. */
static int64_t count_arrived_bytes(const cx_call *c, const char *status)
{
    cx_role role = cx_has(c, CX_TYPE2) ? CX_TYPE2 : CX_TYPE;
    cx_word type = cx_handle(c, role, CX_KIND_TYPE);
    int count = 0;
    if (!status || cx_mpi.get_count(status, type, &count) || count < 0)
        return c->bytes;
    return count * cx_type_find(type).bytes;
}

static void end_receive(cx_call *c)
{
    const char *status = c->is_receiving ? find_status(c, 0) : NULL;
    if (c->is_receiving && !c->message)
        c->message = identify_message(c->comm, status, &c->peer, &c->tag);
    if (!c->range || !c->message)
        return;
    kineto_value values[] = {{.i = c->peer},
                             {.i = c->tag},
                             {.i = count_arrived_bytes(c, status)},
                             {.i = (int64_t)c->message}};
    kineto_range_args(c->range, &arrival_site, values);
}

/* ---- requests -------------------------------------------------------------------------------- */

/* Remembers a receive, or a persistent request, by the handle that the library has given to it. */
static void keep_request(const cx_call *c)
{
    bool is_send = c->spec->how == CX_HOW_SEND_INIT;
    bool persistent = is_send || c->spec->how == CX_HOW_RECV_INIT;
    if (!c->is_receiving && !is_send)
        return;
    cx_exchange exchange = {
        .comm = c->comm,
        .message = persistent ? 0 : c->message,
        .is_persistent = persistent,
        .is_send = is_send,
        .peer = is_send ? cx_world_rank(c->comm, cx_int(c, CX_PEER)) : c->peer,
        .tag = is_send ? cx_int(c, CX_TAG) : c->tag,
    };
    cx_request_add(cx_handle_at(c, CX_REQUEST, CX_KIND_REQUEST, 0), &exchange);
}

/* Messages that a wait or a test has completed. */
#define MAX_ARRIVALS 256u
typedef struct arrivals {
    int64_t message[MAX_ARRIVALS];
    size_t count;
    int peer; /* of the last */
} arrivals;

/* The request with this index has completed; its status is the one with the other index. */
static void complete_request(const cx_call *c, arrivals *a, size_t index, size_t status_index)
{
    cx_pending *p = index < c->pending_count ? &c->pending[index] : NULL;
    if (!p || !p->slot || (p->exchange.is_persistent && !p->exchange.is_active))
        return;
    int peer = p->exchange.peer, tag = p->exchange.tag;
    uint64_t message = p->exchange.message;
    if (!message && !p->exchange.is_send)
        message = identify_message(p->exchange.comm, find_status(c, status_index), &peer, &tag);
    if (p->exchange.is_persistent) { /* it stays the program's */
        p->slot->exchange.is_active = false;
        p->slot->exchange.message = 0;
    }
    p->slot = NULL;
    if (!message)
        return;
    if (a->count == MAX_ARRIVALS) {
        cx_count(CX_TALLY_MESSAGES);
        return;
    }
    a->message[a->count++] = (int64_t)message;
    a->peer = peer;
}

static void complete_requests(const cx_call *c, arrivals *a)
{
    size_t done = 1;
    switch ((cx_how)c->spec->how) {
    case CX_HOW_WAIT_ANY:
        complete_request(c, a, (size_t)cx_result(c, CX_INDEX, 0), 0);
        return;
    case CX_HOW_WAIT_ALL:
        done = c->pending_count;
        break;
    case CX_HOW_WAIT_SOME:
        done = (size_t)cx_result(c, CX_DONE, 0);
        for (size_t i = 0; i < done && i < c->pending_count; i++)
            complete_request(c, a, (size_t)cx_result(c, CX_INDEX, i), i);
        return;
    default:
        break;
    }
    for (size_t i = 0; i < done; i++)
        complete_request(c, a, i, i);
}

/* Did a test find nothing? MPI_Testsome returns a count, the others a flag. */
static bool has_found_nothing(const cx_call *c)
{
    return cx_has(c, CX_FLAG) ? cx_result(c, CX_FLAG, 0) == 0 : cx_result(c, CX_DONE, 0) <= 0;
}

static void end_wait(cx_call *c)
{
    arrivals a;
    a.count = 0;
    complete_requests(c, &a);
    if (!c->range || !a.count)
        return;
    kineto_ints list = {a.message, a.count};
    kineto_value one[] = {{.i = a.peer}, {.i = a.message[0]}}, many[] = {{.ints = &list}};
    kineto_range_args(c->range, a.count == 1 ? &completed_site : &arrivals_site,
                      a.count == 1 ? one : many);
}

/* Requests that a wait or a test did not complete. */
static void follow_again(const cx_call *c)
{
    for (uint32_t i = 0; i < c->pending_count && c->spec->how != CX_HOW_START; i++)
        if (c->pending[i].slot && !c->pending[i].exchange.is_persistent)
            cx_request_add(c->pending[i].handle, &c->pending[i].exchange);
}

/* A matched message is received by its own handle. */
static void keep_matched_message(cx_call *c)
{
    int peer = -1, tag = -1;
    uint64_t message = identify_message(c->comm, find_status(c, 0), &peer, &tag);
    cx_exchange exchange = {.message = message, .comm = c->comm, .peer = peer, .tag = tag};
    if (message)
        cx_request_add(cx_handle_at(c, CX_MESSAGE, CX_KIND_MESSAGE, 0), &exchange);
}

/* ---- others ---------------------------------------------------------------------------------- */

static void end_new_comm(cx_call *c)
{
    static const kineto_arg_desc args[] = {{"Process Group Name", KINETO_ARG_STRING},
                                           {"Group size", KINETO_ARG_INT}};
    static kineto_site about = {.kind = KINETO_KIND_MPI, .arg_count = 2, .args = args};
    const cx_comm *made = cx_comm_add(cx_handle_at(c, CX_NEW_COMM, CX_KIND_COMM, 0));
    if (!made)
        return;
    kineto_value values[] = {{.s = made->name}, {.i = made->size}};
    kineto_range_args(c->range, &about, values);
}

static CX_COLD void end_init(void)
{
    cx_library_find();
    if (!cx_library_facts.is_known)
        return;
    cx_find_ignored_statuses();
    atomic_store_explicit(&cx_is_ready, true, memory_order_release);
    cx_comms_start();
}

static void end_by_facts(cx_call *c)
{
    switch ((cx_how)c->spec->how) {
    case CX_HOW_RECV:
    case CX_HOW_SENDRECV:
    case CX_HOW_MRECV:
        end_receive(c);
        return;
    case CX_HOW_IRECV:
    case CX_HOW_RECV_INIT:
    case CX_HOW_SEND_INIT:
    case CX_HOW_IMRECV:
        keep_request(c);
        return;
    case CX_HOW_MPROBE:
        keep_matched_message(c);
        return;
    case CX_HOW_WAIT:
    case CX_HOW_WAIT_ALL:
    case CX_HOW_WAIT_ANY:
    case CX_HOW_WAIT_SOME:
        end_wait(c);
        return;
    case CX_HOW_COMM_NEW:
        end_new_comm(c);
        return;
    default:
        return;
    }
}

void cx_end(cx_call *c, int error)
{
    int saved = errno;
    bool nothing = error == 0 && c->is_test && has_found_nothing(c);
    if (c->is_test && !nothing)
        cx_begin_range(c, NULL);
    else if (nothing && c->is_recorded)
        cx_count(CX_TALLY_TESTS);
    if (error == 0 && c->spec->how == CX_HOW_INIT)
        end_init();
    else if (error == 0 && !nothing && atomic_load_explicit(&cx_is_ready, memory_order_acquire))
        end_by_facts(c);
    follow_again(c);
    kineto_range_end(c->range);
    cx_free_requests(c);
    cx_this_thread.inside = 0;
    errno = saved;
}

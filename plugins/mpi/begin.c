/* The first half of a call: its arguments, and the numbers of messages and collectives, which are
 * counted in the order in which calls begin. */
#include "mpi.h"

#include <stdlib.h>
#include <string.h>

__thread cx_thread cx_this_thread CX_TLS;
atomic_bool cx_is_ready;

/* ---- sites ----------------------------------------------------------------------------------- */

static const kineto_arg_desc send_args[] = {{"Dst Rank", KINETO_ARG_INT},
                                            {"Tag", KINETO_ARG_INT},
                                            {"bytes", KINETO_ARG_INT},
                                            {"Process Group Name", KINETO_ARG_STRING},
                                            {"Message out", KINETO_ARG_INT}};
static const kineto_arg_desc receive_args[] = {{"Process Group Name", KINETO_ARG_STRING}};
static const kineto_arg_desc post_args[] = {{"Src Rank", KINETO_ARG_INT},
                                            {"Tag", KINETO_ARG_INT},
                                            {"bytes", KINETO_ARG_INT},
                                            {"Process Group Name", KINETO_ARG_STRING}};
static const kineto_arg_desc bytes_args[] = {{"bytes", KINETO_ARG_INT}};
static const kineto_arg_desc open_args[] = {{"File name", KINETO_ARG_STRING}};

/* Arguments of collectives: those of all, then "Root Rank" or "Op" or both. */
#define COLLECTIVE_ARGS                                                                            \
    {"Collective name", KINETO_ARG_STRING}, {"In msg nelems", KINETO_ARG_INT},                     \
        {"Out msg nelems", KINETO_ARG_INT}, {"dtype", KINETO_ARG_STRING},                          \
        {"Group size", KINETO_ARG_INT}, {"Process Group Name", KINETO_ARG_STRING},                 \
    {                                                                                              \
        "Seq", KINETO_ARG_INT                                                                      \
    }
#define COLLECTIVE_ARG_COUNT 7
static const kineto_arg_desc collective_args[] = {
    COLLECTIVE_ARGS, {"Root Rank", KINETO_ARG_INT}, {"Op", KINETO_ARG_STRING}};
static const kineto_arg_desc reduction_args[] = {COLLECTIVE_ARGS, {"Op", KINETO_ARG_STRING}};

static kineto_site sites[CX_CALL_COUNT];

static void set_site_args(kineto_site *site, const cx_spec *s)
{
    static const struct {
        const kineto_arg_desc *args;
        uint8_t count;
    } of_how[CX_HOW_TYPE_FREE + 1] = {
        [CX_HOW_BYTES] = {bytes_args, CX_COUNT_OF(bytes_args)},
        [CX_HOW_OPEN] = {open_args, CX_COUNT_OF(open_args)},
        [CX_HOW_SEND] = {send_args, CX_COUNT_OF(send_args)},
        [CX_HOW_SENDRECV] = {send_args, CX_COUNT_OF(send_args)},
        [CX_HOW_RECV] = {receive_args, CX_COUNT_OF(receive_args)},
        [CX_HOW_IRECV] = {post_args, CX_COUNT_OF(post_args)},
        [CX_HOW_COLLECTIVE] = {collective_args, COLLECTIVE_ARG_COUNT},
    };
    site->args = of_how[s->how].args;
    site->arg_count = of_how[s->how].count;
    if (s->how == CX_HOW_COLLECTIVE && !s->at[CX_ROOT] && s->at[CX_OP])
        site->args = reduction_args;
    if (s->how == CX_HOW_COLLECTIVE)
        site->arg_count = (uint8_t)(site->arg_count + (s->at[CX_ROOT] != 0) + (s->at[CX_OP] != 0));
}

__attribute__((constructor)) static void make_mpi_sites(void)
{
    for (unsigned i = 0; i < CX_CALL_COUNT; i++) {
        const cx_spec *s = &cx_specs[i];
        sites[i] = (kineto_site){.kind = s->how == CX_HOW_COLLECTIVE ? KINETO_KIND_COLLECTIVE_COMM
                                                                     : KINETO_KIND_MPI,
                                 .name = s->name};
        set_site_args(&sites[i], s);
    }
}

void cx_begin_range(cx_call *c, const kineto_value *values)
{
    if (!c->is_recorded)
        return;
    kineto_site *site = &sites[c->number];
    c->range = values && site->arg_count ? kineto_range_begin_args(site, values)
                                         : kineto_range_begin(site);
}

/* ---- point to point -------------------------------------------------------------------------- */

static int64_t count_bytes(const cx_call *c, cx_role count, cx_role type)
{
    if (!atomic_load_explicit(&cx_is_ready, memory_order_relaxed) || !cx_has(c, count))
        return 0;
    return cx_size(c, count) * cx_type_find(cx_handle(c, type, CX_KIND_TYPE)).bytes;
}

static void find_comm_of_call(cx_call *c)
{
    if (atomic_load_explicit(&cx_is_ready, memory_order_acquire) && cx_has(c, CX_COMM))
        c->comm = cx_comm_find(cx_handle(c, CX_COMM, CX_KIND_COMM));
}

static const char *name_of_comm(const cx_call *c) { return c->comm ? c->comm->name : ""; }

static void begin_send(cx_call *c)
{
    int to = cx_world_rank(c->comm, cx_int(c, CX_PEER)), tag = cx_int(c, CX_TAG);
    uint64_t message = cx_message_next(c->comm, cx_my_world_rank(), to, tag, false);
    if (!c->is_recorded)
        return;
    kineto_value values[] = {{.i = c->comm ? to : cx_int(c, CX_PEER)},
                             {.i = tag},
                             {.i = count_bytes(c, CX_COUNT, CX_TYPE)},
                             {.s = name_of_comm(c)},
                             {.i = (int64_t)message}};
    cx_begin_range(c, values);
}

/* Sets from where a receive wants a message, and its id if rank and tag are stated. */
static void expect_message(cx_call *c, cx_role peer_role, cx_role tag_role)
{
    int peer = cx_int(c, peer_role), tag = cx_int(c, tag_role);
    bool any_peer = peer == cx_library_facts.any_source, any_tag = tag == cx_library_facts.any_tag;
    c->peer = cx_world_rank(c->comm, peer);
    c->tag = any_tag ? -1 : tag;
    c->is_receiving = c->comm && (any_peer || c->peer >= 0);
    bool is_template = c->spec->how == CX_HOW_RECV_INIT; /* numbered when it is started */
    if (c->is_receiving && !any_peer && !any_tag && !is_template)
        c->message = cx_message_next(c->comm, c->peer, cx_my_world_rank(), tag, true);
}

void cx_replace_status(cx_call *c)
{
    if (!cx_library_facts.is_known || !cx_ignores_status(c))
        return;
    size_t count = c->pending_count > 1 ? c->pending_count : 1;
    size_t bytes = count * cx_library_facts.status_bytes;
    c->statuses = bytes <= sizeof c->inline_status ? c->inline_status : malloc(bytes);
    if (!c->statuses)
        return;
    memset(c->statuses, 0, bytes);
    c->words[c->spec->at[CX_STATUS] - 1] = (cx_word)c->statuses;
}

static void begin_receive(cx_call *c)
{
    kineto_value values[] = {{.s = name_of_comm(c)}};
    expect_message(c, CX_PEER, CX_TAG);
    if (c->is_recorded)
        c->bytes = count_bytes(c, CX_COUNT, CX_TYPE);
    if (c->is_receiving && (c->is_recorded || !c->message))
        cx_replace_status(c);
    cx_begin_range(c, values);
}

static void begin_posted_receive(cx_call *c)
{
    expect_message(c, CX_PEER, CX_TAG);
    if (!c->is_recorded || c->spec->how == CX_HOW_RECV_INIT) {
        cx_begin_range(c, NULL);
        return;
    }
    kineto_value values[] = {{.i = c->peer},
                             {.i = c->tag},
                             {.i = count_bytes(c, CX_COUNT, CX_TYPE)},
                             {.s = name_of_comm(c)}};
    cx_begin_range(c, values);
}

static void begin_exchange(cx_call *c)
{
    expect_message(c, CX_PEER2, CX_TAG2);
    if (c->is_recorded)
        c->bytes = count_bytes(c, CX_COUNT2, CX_TYPE2);
    if (c->is_receiving && (c->is_recorded || !c->message))
        cx_replace_status(c);
    begin_send(c);
}

/* ---- persistent requests --------------------------------------------------------------------- */

/* The next message of a persistent request. Returns its id if it is sent, else 0. */
static uint64_t start_request(cx_exchange *r)
{
    int me = cx_my_world_rank();
    r->is_active = true;
    if (r->is_send)
        return cx_message_next(r->comm, me, r->peer, r->tag, false);
    r->message =
        r->peer >= 0 && r->tag >= 0 ? cx_message_next(r->comm, r->peer, me, r->tag, true) : 0;
    return 0;
}

#define MAX_LISTED_MESSAGES 256u
static void begin_start(cx_call *c)
{
    static const kineto_arg_desc args[] = {{"Messages out", KINETO_ARG_INTS}};
    static kineto_site about = {.kind = KINETO_KIND_MPI, .arg_count = 1, .args = args};
    int64_t sent[MAX_LISTED_MESSAGES];
    size_t count = 0;
    bool any = cx_copy_requests(c);
    cx_begin_range(c, NULL);
    for (uint32_t i = 0; any && i < c->pending_count; i++) {
        cx_request *r = c->pending[i].slot;
        uint64_t message = r && r->exchange.is_persistent ? start_request(&r->exchange) : 0;
        if (message && count < MAX_LISTED_MESSAGES)
            sent[count++] = (int64_t)message;
    }
    kineto_ints list = {sent, count};
    kineto_value values[] = {{.ints = &list}};
    if (count)
        kineto_range_args(c->range, &about, values);
}

/* ---- waits ----------------------------------------------------------------------------------- */

/* Requests are copied and no longer followed, because the call overwrites and frees them; end.c follows
 * those again that it did not complete. Statuses are needed of receives that did not
 * state a rank and a tag. */
static void begin_wait(cx_call *c)
{
    bool needs_status = false;
    if (cx_copy_requests(c))
        for (uint32_t i = 0; i < c->pending_count; i++) {
            const cx_pending *p = &c->pending[i];
            needs_status =
                needs_status || (p->slot && !p->exchange.is_send && !p->exchange.message);
            if (p->slot && !p->exchange.is_persistent)
                cx_request_remove(p);
        }
    if (needs_status)
        cx_replace_status(c);
    if (!c->is_test)
        cx_begin_range(c, NULL);
}

static void begin_matched_receive(cx_call *c)
{
    cx_pending matched;
    if (cx_request_find(cx_handle_at(c, CX_MESSAGE, CX_KIND_MESSAGE, 0), &matched)) {
        c->message = matched.exchange.message;
        c->comm = matched.exchange.comm;
        c->peer = matched.exchange.peer;
        c->tag = matched.exchange.tag;
        c->is_receiving = true;
        cx_request_remove(&matched);
    }
    if (c->is_recorded)
        c->bytes = count_bytes(c, CX_COUNT, CX_TYPE);
    if (c->is_recorded && cx_has(c, CX_STATUS))
        cx_replace_status(c);
    cx_begin_range(c, NULL);
}

/* ---- collectives ----------------------------------------------------------------------------- */

typedef struct elements {
    int64_t in, out;
    cx_role type;
} elements;

/* Of gather and scatter only the root reads the arguments of its side. */
static elements count_rooted_elements(const cx_call *c)
{
    int size = c->comm->size, rank = c->comm->rank;
    bool is_root = cx_int(c, CX_ROOT) == rank;
    switch ((cx_sizes)c->spec->sizes) {
    case CX_SIZES_GATHER:
        return is_root ? (elements){cx_size(c, CX_COUNT2), cx_size(c, CX_COUNT2) * size, CX_TYPE2}
                       : (elements){cx_size(c, CX_COUNT), 0, CX_TYPE};
    case CX_SIZES_GATHERV:
        return is_root ? (elements){cx_sizes_sum(c, CX_COUNT2, size, rank),
                                    cx_sizes_sum(c, CX_COUNT2, size, -1), CX_TYPE2}
                       : (elements){cx_size(c, CX_COUNT), 0, CX_TYPE};
    case CX_SIZES_SCATTER:
        return is_root ? (elements){cx_size(c, CX_COUNT) * size, cx_size(c, CX_COUNT), CX_TYPE}
                       : (elements){0, cx_size(c, CX_COUNT2), CX_TYPE2};
    default:
        return is_root ? (elements){cx_sizes_sum(c, CX_COUNT, size, -1),
                                    cx_sizes_sum(c, CX_COUNT, size, rank), CX_TYPE}
                       : (elements){0, cx_size(c, CX_COUNT2), CX_TYPE2};
    }
}

/* By the receiving side, which is read also where the result replaces the input (MPI_IN_PLACE). */
static elements count_elements(const cx_call *c)
{
    int size = c->comm->size, rank = c->comm->rank;
    switch ((cx_sizes)c->spec->sizes) {
    case CX_SIZES_SAME:
        return (elements){cx_size(c, CX_COUNT), cx_size(c, CX_COUNT), CX_TYPE};
    case CX_SIZES_ALLGATHER:
        return (elements){cx_size(c, CX_COUNT2), cx_size(c, CX_COUNT2) * size, CX_TYPE2};
    case CX_SIZES_ALLGATHERV:
        return (elements){cx_sizes_sum(c, CX_COUNT2, size, rank),
                          cx_sizes_sum(c, CX_COUNT2, size, -1), CX_TYPE2};
    case CX_SIZES_ALLTOALL:
        return (elements){cx_size(c, CX_COUNT2) * size, cx_size(c, CX_COUNT2) * size, CX_TYPE2};
    case CX_SIZES_ALLTOALLV: {
        int64_t sum = cx_sizes_sum(c, CX_COUNT2, size, -1);
        return (elements){sum, sum, CX_TYPE2};
    }
    case CX_SIZES_REDUCE_SCATTER:
        return (elements){cx_sizes_sum(c, CX_COUNT2, size, -1),
                          cx_sizes_sum(c, CX_COUNT2, size, rank), CX_TYPE2};
    case CX_SIZES_REDUCE_SCATTER_BLOCK:
        return (elements){cx_size(c, CX_COUNT2) * size, cx_size(c, CX_COUNT2), CX_TYPE2};
    case CX_SIZES_0:
    case CX_SIZES_NONE:
        return (elements){0, 0, CX_ROLE_COUNT};
    default:
        return count_rooted_elements(c);
    }
}

/* The names of PyTorch and NCCL for collectives of MPI, by the call without "MPI_" and "I". */
static const char *name_collective(const cx_spec *s)
{
    static const char *const names[] = {
        [CX_SIZES_GATHER] = "gather",
        [CX_SIZES_GATHERV] = "gatherv",
        [CX_SIZES_SCATTER] = "scatter",
        [CX_SIZES_SCATTERV] = "scatterv",
        [CX_SIZES_ALLGATHER] = "all_gather",
        [CX_SIZES_ALLGATHERV] = "all_gatherv",
        [CX_SIZES_ALLTOALL] = "all_to_all",
        [CX_SIZES_ALLTOALLV] = "all_to_allv",
        [CX_SIZES_REDUCE_SCATTER] = "reduce_scatter",
        [CX_SIZES_REDUCE_SCATTER_BLOCK] = "reduce_scatter",
    };
    bool same = s->sizes == CX_SIZES_SAME || s->sizes == CX_SIZES_NONE;
    if (!same)
        return names[s->sizes];
    const char *fortran = s->fortran + strlen("mpi_");
    fortran += s->name[4] == 'I';
    return fortran;
}

/* "bcast_" → "broadcast": names of Fortran end with '_'. */
static void write_collective_name(const cx_spec *s, char *out, size_t size)
{
    const char *name = name_collective(s);
    size_t length = strlen(name);
    length -= name[length - 1] == '_';
    length = length < size - 1 ? length : size - 1;
    memcpy(out, name, length);
    out[length] = '\0';
    if (strcmp(out, "bcast") == 0)
        memcpy(out, "broadcast", sizeof "broadcast");
}

static void begin_collective(cx_call *c)
{
    char name[32];
    uint64_t sequence = c->comm ? atomic_fetch_add(&c->comm->sequence, 1) : 0;
    if (!c->is_recorded)
        return;
    elements n = {0, 0, CX_ROLE_COUNT};
    cx_type type = {.dtype = "byte", .is_plain = true};
    if (c->comm && (!c->comm->is_inter || c->spec->sizes == CX_SIZES_SAME))
        n = count_elements(c);
    if (n.type != CX_ROLE_COUNT)
        type = cx_type_find(cx_handle(c, n.type, CX_KIND_TYPE));
    int64_t factor = type.is_plain ? 1 : type.bytes;
    write_collective_name(c->spec, name, sizeof name);
    kineto_value values[COLLECTIVE_ARG_COUNT + 2] = {{.s = name},
                                                     {.i = n.in * factor},
                                                     {.i = n.out * factor},
                                                     {.s = type.dtype},
                                                     {.i = c->comm ? c->comm->size : 0},
                                                     {.s = name_of_comm(c)},
                                                     {.i = (int64_t)sequence}};
    uint32_t used = COLLECTIVE_ARG_COUNT;
    if (cx_has(c, CX_ROOT))
        values[used++].i = cx_int(c, CX_ROOT);
    if (cx_has(c, CX_OP))
        values[used].s = cx_op_name(cx_handle(c, CX_OP, CX_KIND_OP));
    cx_begin_range(c, values);
}

/* ---- others ---------------------------------------------------------------------------------- */

static void begin_bytes(cx_call *c)
{
    kineto_value values[] = {{.i = c->is_recorded ? count_bytes(c, CX_COUNT, CX_TYPE) : 0}};
    cx_begin_range(c, values);
}

static void begin_open(cx_call *c)
{
    char name[512];
    kineto_value values[] = {{.s = name}};
    if (c->is_recorded)
        cx_file_name(c, name, sizeof name);
    cx_begin_range(c, values);
}

static void stop_following(cx_word handle)
{
    cx_pending pending;
    if (cx_request_find(handle, &pending))
        cx_request_remove(&pending);
}

/* Handles may be given to new objects as soon as the library has freed them. */
static void begin_free(cx_call *c)
{
    if (c->spec->how == CX_HOW_COMM_FREE)
        cx_comm_remove(cx_handle_at(c, CX_NEW_COMM, CX_KIND_COMM, 0));
    else if (c->spec->how == CX_HOW_REQUEST_FREE)
        stop_following(cx_handle_at(c, CX_REQUEST, CX_KIND_REQUEST, 0));
    else if (c->spec->how == CX_HOW_TYPE_FREE)
        cx_types_forget();
    cx_begin_range(c, NULL);
}

static void begin_matching_probe(cx_call *c)
{
    cx_replace_status(c);
    if (!c->is_test)
        cx_begin_range(c, NULL);
}

/* No function of MPI may be called any more. */
static void begin_finalize(cx_call *c)
{
    atomic_store(&cx_is_ready, false);
    cx_begin_range(c, NULL);
}

/* By how; NULL: nothing is read. */
static void (*const beginnings[CX_HOW_TYPE_FREE + 1])(cx_call *) = {
    [CX_HOW_BYTES] = begin_bytes,
    [CX_HOW_OPEN] = begin_open,
    [CX_HOW_FINALIZE] = begin_finalize,
    [CX_HOW_SEND] = begin_send,
    [CX_HOW_RECV] = begin_receive,
    [CX_HOW_IRECV] = begin_posted_receive,
    [CX_HOW_RECV_INIT] = begin_posted_receive,
    [CX_HOW_SENDRECV] = begin_exchange,
    [CX_HOW_MPROBE] = begin_matching_probe,
    [CX_HOW_MRECV] = begin_matched_receive,
    [CX_HOW_IMRECV] = begin_matched_receive,
    [CX_HOW_START] = begin_start,
    [CX_HOW_REQUEST_FREE] = begin_free,
    [CX_HOW_WAIT] = begin_wait,
    [CX_HOW_WAIT_ALL] = begin_wait,
    [CX_HOW_WAIT_ANY] = begin_wait,
    [CX_HOW_WAIT_SOME] = begin_wait,
    [CX_HOW_COLLECTIVE] = begin_collective,
    [CX_HOW_COMM_FREE] = begin_free,
    [CX_HOW_TYPE_FREE] = begin_free,
};

static void begin_by_facts(cx_call *c)
{
    if (beginnings[c->spec->how])
        beginnings[c->spec->how](c);
    else if (!c->is_test)
        cx_begin_range(c, NULL);
}

/* Without the library's facts, and outside of MPI's life, only begin and end are recorded. */
static void begin_without_facts(cx_call *c)
{
    kineto_site *site = &sites[c->number];
    kineto_value none[KINETO_SITE_MAX_ARGS];
    memset(none, 0, (site->arg_count + 1u) * sizeof *none);
    if (!c->is_test)
        cx_begin_range(c, none);
}

bool cx_begin(cx_call *c, cx_number number, cx_language language, cx_word *words)
{
    cx_thread *t = &cx_this_thread;
    const cx_spec *s = &cx_specs[number];
    bool recorded = kineto_enabled(sites[number].kind);
    bool ready = atomic_load_explicit(&cx_is_ready, memory_order_acquire);
    if (t->inside || (!recorded && !ready && s->how != CX_HOW_INIT))
        return false;
    t->inside = 1;
    c->spec = s;
    c->words = words;
    c->language = (uint8_t)language;
    c->is_recorded = recorded;
    c->is_test = (cx_has(c, CX_FLAG) || (cx_has(c, CX_DONE) && s->name[4] == 'T'));
    c->number = (uint8_t)number;
    c->range = 0;
    c->comm = NULL;
    c->message = 0;
    c->is_receiving = false;
    c->peer = c->tag = -1;
    c->bytes = 0;
    c->pending_count = 0;
    c->pending = NULL;
    c->statuses = NULL;
    find_comm_of_call(c);
    if (ready)
        begin_by_facts(c);
    else
        begin_without_facts(c);
    return true;
}

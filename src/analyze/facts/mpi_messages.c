/* Messages of MPI between ranks: the tables mpi_messages (each side of each message, one rank) and
 * mpi_peers (pairs of ranks, with what they waited for each other).
 *
 * A receive that began before its message was sent waited for a late sender, until the message was sent
 * or the receive was done. A blocking send that began before the call that received its message, and
 * ended after that one had begun, waited for a late receiver: small messages are sent without waiting.
 * Times of two ranks are compared, so their clocks must agree, as those of one host do; a message that
 * arrives before it was sent shows that they do not. */
#include "analyze/facts/analyses.h"
#include "trace/model/messages.h"

/* ---- one rank -------------------------------------------------------------------------------- */

typedef struct message_putting {
    const ka_dataset *s;
    const ka_slice *slice;
    ka_table *t;
} message_putting;

/* Does the call return only when the message is on its way? */
static bool is_blocking_send(kineto_string name)
{
    static const char *const names[] = {"MPI_Send", "MPI_Ssend", "MPI_Rsend"};
    return kb_string_is_one_of(name, names, KB_COUNT(names));
}

static bool put_message(void *context, int64_t id, bool is_received)
{
    const message_putting *p = context;
    kineto_string name = ka_name(p->s, p->slice->name);
    int64_t bytes = 0;
    (void)ka_arg_int(p->s->trace, p->slice->row, "bytes", &bytes);
    ka_put_int(p->t, p->s->rank);
    ka_put_int(p->t, id);
    ka_put_int(p->t, is_received);
    ka_put_int(p->t, !is_received && is_blocking_send(name));
    ka_put_ns(p->t, p->slice->start_ns);
    ka_put_ns(p->t, p->slice->end_ns);
    ka_put_int(p->t, bytes);
    return true;
}

kineto_status ka_analyze_mpi_messages(const ka_dataset *s, kineto_analysis *a, kineto_error *err)
{
    message_putting p = {.s = s, .t = ka_table_of(a, KA_TABLE_mpi_messages)};
    (void)err; /* failed allocations of a table are reported by the caller */
    for (uint32_t i = 0; i < s->slice_count; i++) {
        p.slice = &s->slices[i];
        if (p.slice->kind == KINETO_KIND_MPI)
            (void)kt_visit_messages(s->trace, p.slice->row, put_message, &p);
    }
    return KINETO_OK;
}

/* ---- all ranks ------------------------------------------------------------------------------- */

/* A message whose sides are both there. */
typedef struct exchange {
    int64_t from, to, bytes;
    int64_t wait_start_ns, wait_end_ns; /* of the receiving call */
    int64_t late_sender_ns, late_receiver_ns;
} exchange;

typedef struct pair {
    int64_t from, to, messages, bytes, late_sender_ns, late_receiver_ns;
} pair;

typedef struct peers {
    const ka_table *marks;
    KB_VEC(exchange) list;
    uint64_t impossible; /* messages that arrived before they were sent */
    bool no_memory;
} peers;

static int64_t mark_at(const peers *p, kineto_row row, uint32_t column)
{
    return ka_cell_at(p->marks, row, column).i;
}

/* The part of [start, end) before `until`. */
static int64_t time_before(int64_t start_ns, int64_t end_ns, int64_t until_ns)
{
    int64_t end = KB_MIN(end_ns, until_ns);
    return end > start_ns ? kb_length_ns(start_ns, end) : 0;
}

/* kt_join_messages: rows are those of mpi_messages. */
static void add_exchange(void *context, const kt_message_end *sent, const kt_message_end *received)
{
    peers *p = context;
    int64_t send_start = mark_at(p, sent->row, KA_COL_mpi_messages_start_us),
            send_end = mark_at(p, sent->row, KA_COL_mpi_messages_end_us);
    exchange e = {.from = mark_at(p, sent->row, KA_COL_mpi_messages_rank),
                  .to = mark_at(p, received->row, KA_COL_mpi_messages_rank),
                  .bytes = mark_at(p, sent->row, KA_COL_mpi_messages_bytes),
                  .wait_start_ns = mark_at(p, received->row, KA_COL_mpi_messages_start_us),
                  .wait_end_ns = mark_at(p, received->row, KA_COL_mpi_messages_end_us)};
    if (e.wait_end_ns < send_start) {
        p->impossible++;
        return;
    }
    e.late_sender_ns = time_before(e.wait_start_ns, e.wait_end_ns, send_start);
    if (mark_at(p, sent->row, KA_COL_mpi_messages_blocking) && send_end > e.wait_start_ns)
        e.late_receiver_ns = time_before(send_start, send_end, e.wait_start_ns);
    p->no_memory |= !kb_vec_push(&p->list, e);
}

/* Messages that one call received together, the latest first. */
static int compare_exchanges(const void *left, const void *right)
{
    const exchange *a = left, *b = right;
    if (a->to != b->to)
        return a->to < b->to ? -1 : 1;
    if (a->wait_start_ns != b->wait_start_ns)
        return a->wait_start_ns < b->wait_start_ns ? -1 : 1;
    if (a->wait_end_ns != b->wait_end_ns)
        return a->wait_end_ns < b->wait_end_ns ? -1 : 1;
    if (a->late_sender_ns != b->late_sender_ns)
        return a->late_sender_ns > b->late_sender_ns ? -1 : 1;
    return (a->from > b->from) - (a->from < b->from);
}

/* A call that receives several messages waits once: for the last of them. */
static void count_waits_once(peers *p)
{
    exchange *e = p->list.data;
    if (p->list.count)
        qsort(e, p->list.count, sizeof *e, compare_exchanges);
    for (size_t i = 1; i < p->list.count; i++)
        if (e[i].to == e[i - 1].to && e[i].wait_start_ns == e[i - 1].wait_start_ns &&
            e[i].wait_end_ns == e[i - 1].wait_end_ns)
            e[i].late_sender_ns = 0;
}

static void put_pairs(peers *p, ka_table *t)
{
    KB_VEC(pair) pairs = {0};
    kb_map at = {0};
    for (size_t i = 0; i < p->list.count && !p->no_memory; i++) {
        const exchange *e = &p->list.data[i];
        bool created;
        uint64_t *index =
            kb_map_insert(&at, (uint64_t)e->from << 32 | (uint32_t)e->to, pairs.count, &created);
        p->no_memory |=
            !index || (created && !kb_vec_push(&pairs, ((pair){.from = e->from, .to = e->to})));
        if (p->no_memory)
            break;
        pair *sum = &pairs.data[*index];
        sum->messages++;
        sum->bytes = ka_add_ns(sum->bytes, e->bytes);
        sum->late_sender_ns = ka_add_ns(sum->late_sender_ns, e->late_sender_ns);
        sum->late_receiver_ns = ka_add_ns(sum->late_receiver_ns, e->late_receiver_ns);
    }
    for (size_t i = 0; i < pairs.count; i++) {
        ka_put_int(t, pairs.data[i].from);
        ka_put_int(t, pairs.data[i].to);
        ka_put_int(t, pairs.data[i].messages);
        ka_put_int(t, pairs.data[i].bytes);
        ka_put_ns(t, pairs.data[i].late_sender_ns);
        ka_put_ns(t, pairs.data[i].late_receiver_ns);
    }
    kb_map_free(&at);
    kb_vec_free(&pairs);
}

static void note_peers(const peers *p, ka_table *t)
{
    if (!ka_table_rows(p->marks))
        ka_note(t, "no messages of MPI in the trace");
    else if (!p->list.count)
        ka_note(t, "no message has both its sides in the traces: name the traces of all ranks");
    else if (p->impossible)
        ka_note(t,
                "%llu messages arrive before they were sent, and are left out: the clocks of the "
                "ranks differ",
                (unsigned long long)p->impossible);
}

void ka_reduce_mpi_peers(kineto_analysis *a)
{
    ka_table *t = &a->tables[KA_TABLE_mpi_peers];
    peers p = {.marks = &a->tables[KA_TABLE_mpi_messages]};
    kt_message_ends ends = {0};
    t->cells.count = 0;
    t->note[0] = '\0';
    for (uint64_t row = 0; row < ka_table_rows(p.marks); row++) {
        kt_message_end end = {.id = mark_at(&p, (kineto_row)row, KA_COL_mpi_messages_message),
                              .row = (kineto_row)row,
                              .is_received =
                                  mark_at(&p, (kineto_row)row, KA_COL_mpi_messages_received) != 0};
        p.no_memory |= !kb_vec_push(&ends, end);
    }
    kt_join_messages(&ends, add_exchange, &p);
    count_waits_once(&p);
    note_peers(&p, t);
    put_pairs(&p, t);
    t->no_memory |= p.no_memory;
    KA_SORT(t, KA_DOWN(mpi_peers, late_sender_us), KA_DOWN(mpi_peers, late_receiver_us),
            KA_UP(mpi_peers, from_rank), KA_UP(mpi_peers, to_rank));
    kb_vec_free(&ends);
    kb_vec_free(&p.list);
}

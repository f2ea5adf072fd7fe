/* Rules about messages of MPI: ranks that wait for a message, or for its receiver. Both read the table
 * mpi_peers, which has the pairs of all ranks; collectives are compared by communication.imbalance. */
#include "analyze/findings/finding.h"

#define MIN_PERCENT 1.0

typedef struct pair_column {
    uint32_t column;      /* of mpi_peers: what was waited */
    uint32_t waits, late; /* its columns of the ranks that wait, and that come late */
    const char *act, *late_word;
} pair_column;

/* The rank that waits longest, and of all pairs the one with the longest waiting. */
typedef struct waiting {
    int64_t all_ns, worst_ns;
    uint64_t worst_row, ranks;
} waiting;

static int64_t larger_rank(const ka_table *t, uint64_t row)
{
    int64_t from = ka_fact_int(t, row, KA_COL_mpi_peers_from_rank),
            to = ka_fact_int(t, row, KA_COL_mpi_peers_to_rank);
    return KB_MAX(from, to);
}

static waiting sum_waiting(const ka_table *t, const pair_column *c)
{
    waiting w = {0};
    for (uint64_t row = 0; row < ka_table_rows(t); row++) {
        int64_t ns = ka_fact_int(t, row, c->column);
        w.all_ns = ka_add_ns(w.all_ns, ns);
        w.ranks = KB_MAX(w.ranks, (uint64_t)larger_rank(t, row) + 1);
        if (ns > w.worst_ns) {
            w.worst_ns = ns;
            w.worst_row = row;
        }
    }
    return w;
}

/* Evidence: each pair that waited. */
static void show_pairs(ka_finder *f, ka_found *x, const ka_table *t, const pair_column *c)
{
    for (uint64_t row = 0; row < ka_table_rows(t); row++) {
        int64_t ns = ka_fact_int(t, row, c->column);
        if (ns <= 0)
            continue;
        x->rank = (int32_t)ka_fact_int(t, row, c->waits);
        ka_show_span(f, x, 0, 0, ns, "waits for rank %lld for %s, in %lld messages",
                     (long long)ka_fact_int(t, row, c->late), kb_duration(ns).s,
                     (long long)ka_fact_int(t, row, KA_COL_mpi_peers_messages));
    }
}

/* If all ranks were in time, a rank would be done earlier by what ranks wait on the average. */
static void report_waiting(ka_finder *f, const pair_column *c)
{
    const ka_table *t = ka_fact_table(f, KA_TABLE_mpi_peers);
    waiting w = sum_waiting(t, c);
    if (!ka_table_rows(t)) {
        ka_skip_rule(f, "the traces have no messages of MPI of which both sides were recorded");
        return;
    }
    int64_t mean_ns = w.all_ns / (int64_t)KB_MAX(w.ranks, (uint64_t)1);
    if (ka_share(f, mean_ns) < MIN_PERCENT)
        return;
    ka_found *x = ka_open_finding(f, mean_ns, 0.5, kb_string(""));
    if (!x)
        return;
    int64_t waits = ka_fact_int(t, w.worst_row, c->waits),
            late = ka_fact_int(t, w.worst_row, c->late);
    x->rank_count = (uint32_t)w.ranks;
    ka_say(f, x, "%s wait %s for a late %s, summed over ranks; rank %lld waits %s for rank %lld",
           c->act, kb_duration(w.all_ns).s, c->late_word, (long long)waits,
           kb_duration(w.worst_ns).s, (long long)late);
    show_pairs(f, x, t, c);
    x->rank = (int32_t)late;
}

void ka_find_mpi_late_sender(ka_finder *f)
{
    static const pair_column senders = {KA_COL_mpi_peers_late_sender_us, KA_COL_mpi_peers_to_rank,
                                        KA_COL_mpi_peers_from_rank, "Receives", "sender"};
    report_waiting(f, &senders);
}

void ka_find_mpi_late_receiver(ka_finder *f)
{
    static const pair_column receivers = {KA_COL_mpi_peers_late_receiver_us,
                                          KA_COL_mpi_peers_from_rank, KA_COL_mpi_peers_to_rank,
                                          "Sends", "receiver"};
    report_waiting(f, &receivers);
}

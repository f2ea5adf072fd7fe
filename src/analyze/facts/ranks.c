/* Notes of tables that compare ranks: ranks that have nothing to compare, and several traces
 * with the same rank, which cannot be distinguished. */
#include "analyze/facts/analyses.h"

typedef enum lack { NOTHING, OWN_TRACE, DEVICE, COLLECTIVES } lack;

typedef struct rank_notes {
    ka_seen *seen; /* by rank, of each those with devices first */
    size_t count;
    kb_map compared;
} rank_notes;

static int compare_seen(const void *left, const void *right)
{
    const ka_seen *a = left, *b = right;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return (int)b->device - (int)a->device;
}

static bool is_same_rank(const rank_notes *w, size_t i)
{
    return i > 0 && w->seen[i - 1].rank == w->seen[i].rank;
}

/* What rank i lacks. `seen` is in the order of ranks: several traces of a rank are neighbours,
 * and are noted once, at the second one. */
static lack lack_of(const rank_notes *w, size_t i)
{
    if (is_same_rank(w, i))
        return is_same_rank(w, i - 1) ? NOTHING : OWN_TRACE;
    if (kb_map_find(&w->compared, (uint64_t)w->seen[i].rank))
        return NOTHING;
    return w->seen[i].device ? COLLECTIVES : DEVICE;
}

/* "ranks 1, 3 and 5 more have …" */
static void note_ranks_lacking(const rank_notes *w, lack what, const char *sentence, ka_table *t)
{
    enum { MAX_LISTED = 4 };
    char list[MAX_LISTED * 24];
    size_t used = 0, found = 0;
    for (size_t i = 0; i < w->count; i++)
        if (lack_of(w, i) == what && found++ < MAX_LISTED)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%lld",
                                     found > 1 ? ", " : "", (long long)w->seen[i].rank);
    if (found > MAX_LISTED)
        ka_note_also(t, "ranks %s and %zu more have %s", list, found - MAX_LISTED, sentence);
    else if (found)
        ka_note_also(t, "%s %s %s %s", found > 1 ? "ranks" : "rank", list,
                     found > 1 ? "have" : "has", sentence);
}

void ka_note_ranks(const kineto_analysis *a, const ka_table *marks, ka_table *t)
{
    rank_notes w = {.count = a->seen.count};
    if (w.count < 2)
        return;
    w.seen = malloc(w.count * sizeof *w.seen);
    t->no_memory |= !w.seen;
    if (w.seen) {
        memcpy(w.seen, a->seen.data, w.count * sizeof *w.seen);
        qsort(w.seen, w.count, sizeof *w.seen, compare_seen);
    }
    for (uint64_t row = 0; row < ka_table_rows(marks); row++)
        t->no_memory |= !kb_map_insert(&w.compared, (uint64_t)ka_cell_at(marks, row, 0).i, 1, NULL);
    if (!t->no_memory) {
        note_ranks_lacking(&w, OWN_TRACE, "several traces, which are taken for one", t);
        note_ranks_lacking(&w, DEVICE, "no device activity: left out", t);
        note_ranks_lacking(&w, COLLECTIVES, "no collectives to compare: left out", t);
    }
    kb_map_free(&w.compared);
    free(w.seen);
}

/* The tables rank_causes and rank_damage as lines. */
#include "cli/facts/facts_answer.h"
#include "cli/style.h"

#define MAX_LINES 10u

static void put_left_out(uint64_t rows, FILE *out)
{
    if (rows > MAX_LINES)
        fprintf(out, "  … and %s more: 'ckineto analyze' has them\n", kc_count(rows - MAX_LINES).s);
}

/* " (host node005, GPU 5)", as far as it is known. */
static void put_device(const ka_table *t, uint64_t row, FILE *out)
{
    kineto_string host = ka_text_at(t, row, KA_COL_rank_causes_host);
    int64_t device = ka_cell_at(t, row, KA_COL_rank_causes_device).i;
    bool has_device = device != KA_NO_INT;
    if (!host.size && !has_device)
        return;
    fputs(host.size ? " (host " : " (", out);
    kc_put_name(out, host, 0);
    if (has_device)
        fprintf(out, "%sGPU %lld", host.size ? ", " : "", (long long)device);
    fputc(')', out);
}

/* "group tp_3", "a group without a name (ranks 0-15)", "links of node001, node002" */
static void put_link(const ka_table *t, uint64_t row, FILE *out)
{
    kineto_string group = ka_text_at(t, row, KA_COL_rank_causes_group), ranks = ka_text_at(t, row, KA_COL_rank_causes_ranks),
                  host = ka_text_at(t, row, KA_COL_rank_causes_host);
    if (group.size) {
        fputs("group ", out);
        kc_put_name(out, group, 0);
    } else if (ranks.size) {
        fprintf(out, "a group without a name (ranks %.*s)", (int)ranks.size, ranks.data);
    } else {
        fputs(host.size ? "links of " : "links of a host without a name", out);
        kc_put_name(out, host, 0);
    }
}

/* "rank 21 (host node005, GPU 5)", or a link; the step, if it is only one. */
static void put_place(const ka_table *t, uint64_t row, FILE *out)
{
    int64_t rank = ka_cell_at(t, row, KA_COL_rank_causes_rank).i, step = ka_cell_at(t, row, KA_COL_rank_causes_step).i;
    if (rank == KA_NO_INT) {
        put_link(t, row, out);
    } else {
        fprintf(out, "rank %lld", (long long)rank);
        put_device(t, row, out);
    }
    if (step != KA_NO_INT)
        fprintf(out, " in step %lld", (long long)step);
}

static void put_cause(const ka_table *t, uint64_t row, FILE *out)
{
    int64_t saved_ns = ka_cell_at(t, row, KA_COL_rank_causes_saved_us).i,
            steps = ka_cell_at(t, row, KA_COL_rank_causes_steps).i;
    bool is_of_each = steps > 0 && steps != KA_NO_INT && ka_cell_at(t, row, KA_COL_rank_causes_step).i == KA_NO_INT;
    kineto_string kind = ka_text_at(t, row, KA_COL_rank_causes_kind);
    fputs("  ", out);
    put_place(t, row, out);
    if (!kb_string_is(kind, "step"))
        fprintf(out, ", %.*s", (int)kind.size, kind.data);
    fprintf(out, ": -%s%s, %.1f %%\n", kb_short_duration(is_of_each ? saved_ns / steps : saved_ns).s,
            is_of_each ? " a step" : "", ka_cell_at(t, row, KA_COL_rank_causes_saved_pct).d);
}

static void put_causes(const ka_table *t, FILE *out)
{
    uint64_t rows = ka_table_rows(t);
    if (!rows) {
        kc_put_wrapped(out, kc_page_width(out), "Ranks compared: ", "", 0, kb_string(t->note));
        return;
    }
    fputs("The run would be shorter if these were as fast as their like:\n", out);
    for (uint64_t row = 0; row < rows && row < MAX_LINES; row++)
        put_cause(t, row, out);
    put_left_out(rows, out);
}

/* The first line has named ranks that are missing. */
static bool is_shown(const ka_table *t, uint64_t row)
{
    return !kb_string_is(ka_text_at(t, row, KA_COL_rank_damage_kind), "missing");
}

/* "  wrong_op: rank 2, group 5, from number 17 on (3 collectives)"; "  truncated: rank 20 (lacks the last 66 collectives)" */
static void put_damage(const ka_table *t, uint64_t row, FILE *out)
{
    kineto_string kind = ka_text_at(t, row, KA_COL_rank_damage_kind), group = ka_text_at(t, row, KA_COL_rank_damage_group);
    int64_t number = ka_cell_at(t, row, KA_COL_rank_damage_seq).i, count = ka_cell_at(t, row, KA_COL_rank_damage_collectives).i;
    fprintf(out, "  %.*s: rank %lld", (int)kind.size, kind.data, (long long)ka_cell_at(t, row, KA_COL_rank_damage_rank).i);
    if (group.size) {
        fputs(", group ", out);
        kc_put_name(out, group, 0);
    }
    if (number != KA_NO_INT)
        fprintf(out, ", from number %lld on", (long long)number);
    const char *lacks = kb_string_is(kind, "truncated") ? "lacks the last " : kb_string_is(kind, "ring_cut") ? "lacks the first " : "";
    fprintf(out, " (%s%lld %s)\n", lacks, (long long)count, count == 1 ? "collective" : "collectives");
}

static void put_damages(const ka_table *t, FILE *out)
{
    uint64_t shown = 0;
    for (uint64_t row = 0; row < ka_table_rows(t); row++) {
        if (!is_shown(t, row) || shown++ >= MAX_LINES)
            continue;
        if (shown == 1)
            fputs("Collectives of ranks that differ from those of the others, or are not recorded:\n", out);
        put_damage(t, row, out);
    }
    put_left_out(shown, out);
}

kineto_status kc_print_answer(const ka_facts_set *s, FILE *out, kineto_error *err)
{
    const kineto_analysis_options usual = {.size = sizeof usual};
    kineto_analysis *a = NULL;
    if (ka_facts_set_readable(s) < 2)
        return KINETO_OK;
    kineto_status status = ka_facts_set_analyze(
        s, &usual, KA_TABLE_BIT(KA_TABLE_rank_causes) | KA_TABLE_BIT(KA_TABLE_rank_damage), &a, err);
    if (status)
        return status;
    put_causes(&a->tables[KA_TABLE_rank_causes], out);
    put_damages(&a->tables[KA_TABLE_rank_damage], out);
    kineto_analysis_destroy(a);
    return KINETO_OK;
}

/* The comparison of facts of two runs: the length of steps, what makes ranks slower, and damage. What names operators and
 * kernels, with confidence and gates, needs the traces. */
#include "cli/diff/diff_facts.h"
#include "analyze/diff/diff.h"
#include "analyze/ranks/rank_set.h"
#include "cli/diff/diff.h"
#include "cli/facts/facts_health.h"
#include "cli/style.h"

/* One run. */
typedef struct facts_side {
    kineto_analysis *facts;
    ka_facts_set *read; /* facts->ranks reads rows of it */
    kc_health health;
    kc_file_set set;
} facts_side;

/* A cause of either run; 0 ns: not in that one. */
typedef struct cause_pair {
    kineto_string kind, group;
    int64_t rank, step; /* KA_NO_INT */
    int64_t saved_ns[2];
} cause_pair;
typedef KB_VEC(cause_pair) cause_list;

static kineto_status read_side(char *path, facts_side *side, kineto_error *err)
{
    const kineto_analysis_options usual = {.size = sizeof usual};
    ka_table_set there = 0;
    kineto_status status = kc_open_facts(&path, 1, &side->read, err);
    if (!status)
        status = kc_add_facts_health(side->read, &side->health, &side->set, err);
    if (!status)
        status = ka_facts_set_tables(side->read, &there, err);
    there &= KA_TABLE_BIT(KA_TABLE_steps);
    if (!status)
        status = ka_facts_set_analyze(
            side->read, &usual, there | KA_TABLE_BIT(KA_TABLE_rank_causes) | KA_TABLE_BIT(KA_TABLE_rank_damage), &side->facts, err);
    return status;
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Of all steps of all ranks; 0: there are none. */
static int64_t find_median_step(const kineto_analysis *a)
{
    const ka_table *t = &a->tables[KA_TABLE_steps];
    uint64_t rows = ka_table_rows(t);
    int64_t *lengths = rows ? malloc(rows * sizeof *lengths) : NULL, median = 0;
    for (uint64_t row = 0; lengths && row < rows; row++)
        lengths[row] = ka_cell_at(t, row, KA_COL_steps_dur_us).i;
    if (lengths) {
        qsort(lengths, rows, sizeof *lengths, kb_compare_int64);
        median = lengths[rows / 2];
    }
    free(lengths);
    return median;
}

/* Steps of all ranks are rows, so that a run has rows / ranks of them. */
static double count_steps(const facts_side *side)
{
    size_t ranks = side->facts->ranks ? side->facts->ranks->ranks.count : 0;
    return (double)ka_table_rows(&side->facts->tables[KA_TABLE_steps]) / (double)KB_MAX(ranks, (size_t)1);
}

static void print_steps(const facts_side sides[2], const kineto_analysis *differences, FILE *out)
{
    int64_t before = find_median_step(sides[0].facts), after = find_median_step(sides[1].facts);
    if (!before || !after)
        return;
    double by_us = (double)kb_length_ns(before, after) / 1000;
    bool follows = kc_diff_is_consequence(differences, by_us * count_steps(&sides[1]));
    fprintf(out, "Median step of all ranks%s: %s before, %s after (%+.1f %%).\n", follows ? ", as a consequence" : "",
            kb_short_duration(before).s, kb_short_duration(after).s, 1e5 * by_us / (double)before);
}

/* ---- causes ---------------------------------------------------------------------------------- */

static cause_pair *find_cause(cause_list *list, const cause_pair *like)
{
    for (size_t i = 0; i < list->count; i++) {
        cause_pair *c = &list->data[i];
        if (kb_string_equal(c->kind, like->kind) && kb_string_equal(c->group, like->group) && c->rank == like->rank &&
            c->step == like->step)
            return c;
    }
    return kb_vec_push(list, *like) ? &list->data[list->count - 1] : NULL;
}

static bool list_causes(const kineto_analysis *a, uint32_t side, cause_list *list)
{
    const ka_table *t = &a->tables[KA_TABLE_rank_causes];
    for (uint64_t row = 0; row < ka_table_rows(t); row++) {
        cause_pair like = {.kind = ka_text_at(t, row, KA_COL_rank_causes_kind),
                           .group = ka_text_at(t, row, KA_COL_rank_causes_group),
                           .rank = ka_cell_at(t, row, KA_COL_rank_causes_rank).i,
                           .step = ka_cell_at(t, row, KA_COL_rank_causes_step).i};
        cause_pair *found = find_cause(list, &like);
        if (!found)
            return false;
        found->saved_ns[side] = ka_cell_at(t, row, KA_COL_rank_causes_saved_us).i;
    }
    return true;
}

static uint64_t measure_change(const cause_pair *c)
{
    int64_t change = kb_length_ns(c->saved_ns[0], c->saved_ns[1]);
    return change < 0 ? 0 - (uint64_t)change : (uint64_t)change;
}

/* What changed most, first. */
static int compare_causes(const void *left, const void *right)
{
    const cause_pair *a = left, *b = right;
    uint64_t change_a = measure_change(a), change_b = measure_change(b);
    if (change_a != change_b)
        return change_a > change_b ? -1 : 1;
    return KB_COMPARE(a->rank, b->rank);
}

static void print_cause(const cause_pair *c, FILE *out)
{
    char rank[24] = "", step[24] = "";
    if (c->rank != KA_NO_INT)
        snprintf(rank, sizeof rank, "%lld", (long long)c->rank);
    if (c->step != KA_NO_INT)
        snprintf(step, sizeof step, "%lld", (long long)c->step);
    fputs("  ", out);
    kc_put_name(out, c->kind, 8);
    fprintf(out, "%6s  %6s  %10s  %10s  ", rank, step, c->saved_ns[0] ? kb_short_duration(c->saved_ns[0]).s : "-",
            c->saved_ns[1] ? kb_short_duration(c->saved_ns[1]).s : "-");
    kc_put_name(out, c->group, 0);
    fputc('\n', out);
}

static kineto_status print_causes(const facts_side sides[2], uint64_t row_limit, FILE *out, kineto_error *err)
{
    cause_list list = {0};
    bool ok = list_causes(sides[0].facts, 0, &list) && list_causes(sides[1].facts, 1, &list);
    if (ok && list.count) {
        qsort(list.data, list.count, sizeof *list.data, compare_causes);
        kc_put_styled(out, KC_BOLD, "\nWhat makes ranks slower than their like: by how much the run would be shorter");
        fprintf(out, "\n  %-8s%6s  %6s  %10s  %10s  %s\n", "kind", "rank", "step", "before", "after", "group");
    } else if (ok) {
        fputs("\nNo rank and no link makes either run longer by more than noise.\n", out);
    }
    for (size_t i = 0; ok && i < list.count && (!row_limit || i < row_limit); i++)
        print_cause(&list.data[i], out);
    kb_vec_free(&list);
    return ok ? KINETO_OK : kb_fail_memory(err, NULL);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void print_side(const char *name, const facts_side *side, FILE *out)
{
    char text[400];
    uint64_t damage = ka_table_rows(&side->facts->tables[KA_TABLE_rank_damage]);
    ka_coverage_describe(&side->health.coverage, text, sizeof text);
    fprintf(out, "%s: ", name);
    kc_put_wrapped(out, kc_page_width(out), "", "  ", 0, kb_string(*text ? text : "1 rank."));
    if (damage)
        fprintf(out, "  %s %s whose collectives differ from those of the others, or are not recorded\n", kc_count(damage).s,
                kc_noun(damage, "place", "places"));
}

static kineto_status check_sides(char *const *paths, kineto_error *err)
{
    for (int i = 0; i < 2; i++) {
        kc_operands_kind kind;
        kineto_status status = kc_find_facts(paths + i, 1, &kind, NULL, err);
        if (status)
            return status;
        if (kind == KC_OPERANDS_TRACES)
            return kb_fail(err, KINETO_E_ARGUMENT,
                           "%s has no facts: facts can only be compared with facts; 'ckineto facts' makes them", paths[i]);
    }
    return KINETO_OK;
}

kineto_status kc_diff_facts(char *const *paths, uint64_t row_limit, FILE *out, kineto_error *err)
{
    facts_side sides[2] = {{.facts = NULL}};
    kineto_analysis *differences = NULL;
    kineto_status status = check_sides(paths, err);
    for (int i = 0; i < 2 && !status; i++)
        status = read_side(paths[i], &sides[i], err);
    if (!status)
        status = ka_diff_rank_sets(sides[0].facts->ranks, sides[1].facts->ranks, &differences, err);
    if (!status) {
        if (kc_diff_has_origin(differences))
            kc_diff_print_origin(differences, out);
        print_steps(sides, differences, out);
        fputc('\n', out);
        kc_diff_print_ranks(differences, out);
        print_side("before", &sides[0], out);
        print_side("after", &sides[1], out);
        status = print_causes(sides, row_limit, out, err);
    }
    if (!status)
        kc_put_wrapped(out, kc_page_width(out), "\n", "", 0,
                       kb_string("Operators, kernels, confidence and gates need the traces: name them in place of their facts."));
    kineto_analysis_destroy(differences);
    for (int i = 0; i < 2; i++) {
        kc_file_set_report(&sides[i].set);
        kineto_analysis_destroy(sides[i].facts);
        ka_facts_set_destroy(sides[i].read);
        kc_health_free(&sides[i].health);
    }
    return status;
}

bool kc_diff_is_of_facts(char *const *paths, int count)
{
    kc_operands_kind kind;
    return kc_find_facts(paths, count, &kind, NULL, NULL) == KINETO_OK && kind != KC_OPERANDS_TRACES;
}

/* The comparison of facts of two runs: the length of steps, what makes ranks slower, what differs across ranks, and damage.
 * What names operators and kernels, with confidence and gates, needs the traces. The keys of the JSON object are an
 * interface ("ckineto.diff_facts/1"). */
#include "cli/diff/diff_facts.h"
#include "analyze/ranks/rank_set.h"
#include "analyze/saved/facts_make.h"
#include "analyze/saved/facts_paths.h"
#include "cli/diff/diff.h"
#include "cli/facts/facts_health.h"
#include "cli/print.h"
#include "cli/style.h"
#include "export/export.h"

#include <ckineto/export.h>
#include <ckineto/facts.h>

#include <errno.h>
#include <unistd.h>

/* One run. */
typedef struct facts_side {
    const char *path;
    char folder[200]; /* of facts that were made of traces, temporary; "": none */
    ka_facts_set *set_of_facts;
    kineto_analysis *facts; /* causes and damage */
    int64_t step_ns;        /* the median of all steps of all ranks; 0: there are none */
    uint64_t step_rows;     /* steps of all ranks */
    kc_health health;
    kc_file_set set;
} facts_side;

/* Both, and what differs between them. */
typedef struct facts_diff {
    facts_side sides[2];
    kineto_analysis *differences;
} facts_diff;

/* A cause of either run; 0 ns: not in that one. */
typedef struct cause_pair {
    kineto_string kind, group;
    int64_t rank, step; /* KA_NO_INT */
    int64_t saved_ns[2];
} cause_pair;
typedef KB_VEC(cause_pair) cause_list;

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

/* Sets step_ns. Facts without the table of steps have none. */
static kineto_status measure_step(facts_side *side, kineto_error *err)
{
    const kineto_analysis_options usual = {.size = sizeof usual};
    kineto_analysis *steps = NULL;
    ka_table_set there = 0;
    kineto_status status = ka_facts_set_tables(side->set_of_facts, &there, err);
    if (status || !(there & KA_TABLE_BIT(KA_TABLE_steps)))
        return status;
    status = ka_facts_set_analyze(side->set_of_facts, &usual, KA_TABLE_BIT(KA_TABLE_steps), &steps, err);
    if (!status)
        side->step_ns = find_median_step(steps);
    if (!status)
        side->step_rows = ka_table_rows(&steps->tables[KA_TABLE_steps]);
    kineto_analysis_destroy(steps);
    return status;
}

/* Of a run: those of a rank. */
static double count_steps(const facts_side *side)
{
    size_t ranks = side->facts->ranks ? side->facts->ranks->ranks.count : 0;
    return (double)side->step_rows / (double)KB_MAX(ranks, (size_t)1);
}

static void print_steps(const facts_side sides[2], const kineto_analysis *differences, FILE *out)
{
    int64_t before = sides[0].step_ns, after = sides[1].step_ns;
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

/* The group, or the hosts; of a group without a name its ranks. */
static kineto_string name_link(const ka_table *t, uint64_t row)
{
    kineto_string group = ka_text_at(t, row, KA_COL_rank_causes_group), ranks = ka_text_at(t, row, KA_COL_rank_causes_ranks);
    if (group.size || ka_cell_at(t, row, KA_COL_rank_causes_rank).i != KA_NO_INT)
        return group;
    return ranks.size ? ranks : ka_text_at(t, row, KA_COL_rank_causes_host);
}

static bool list_causes(const kineto_analysis *a, uint32_t side, cause_list *list)
{
    const ka_table *t = &a->tables[KA_TABLE_rank_causes];
    for (uint64_t row = 0; row < ka_table_rows(t); row++) {
        cause_pair like = {.kind = ka_text_at(t, row, KA_COL_rank_causes_kind),
                           .group = name_link(t, row),
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

/* Are there rows of transfers that take longer, or shorter, in all groups of a kind? */
static bool has_transfers(const kineto_analysis *differences)
{
    const ka_table *t = &differences->tables[KA_TABLE_diff_ranks];
    for (uint64_t row = 0; row < ka_table_rows(t); row++)
        if (kb_string_is(ka_text_at(t, row, KA_COL_diff_ranks_what), "transfers"))
            return true;
    return false;
}

static kineto_status print_causes(const facts_diff *d, uint64_t row_limit, FILE *out, kineto_error *err)
{
    const facts_side *sides = d->sides;
    cause_list list = {0};
    bool ok = list_causes(sides[0].facts, 0, &list) && list_causes(sides[1].facts, 1, &list);
    if (ok && list.count) {
        qsort(list.data, list.count, sizeof *list.data, compare_causes);
        kc_put_styled(out, KC_BOLD, "\nWhat makes ranks slower than their like: by how much the run would be shorter");
        fprintf(out, "\n  %-8s%6s  %6s  %10s  %10s  %s\n", "kind", "rank", "step", "before", "after", "group");
    } else if (ok) {
        fprintf(out, "\nNo rank%s makes either run longer by more than noise.\n", has_transfers(d->differences) ? "" : " and no link");
    }
    for (size_t i = 0; ok && i < list.count && (!row_limit || i < row_limit); i++)
        print_cause(&list.data[i], out);
    kb_vec_free(&list);
    return ok ? KINETO_OK : kb_fail_memory(err, NULL);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* The object of a run: its name, which ranks there are, its median step, and its tables. */
static void put_side(kb_json *j, const char *key, const facts_side *side)
{
    kb_json_key_z(j, key);
    kb_json_object_begin(j);
    kb_json_put_string(j, "name", kb_string(side->path));
    kb_json_put_uint(j, "traces", ka_facts_set_count(side->set_of_facts));
    ke_put_coverage(j, &side->health.coverage);
    if (side->step_ns)
        kb_json_put_us(j, "median_step_us", side->step_ns);
    kb_json_key_z(j, "facts");
    ke_put_analysis(j, side->facts, 0, NULL);
    kb_json_object_end(j);
}

/* Schema "ckineto.diff_facts/1": members may be added, never renamed or removed. */
static void put_document(kb_json *j, const void *what)
{
    const facts_diff *d = what;
    kb_json_document_begin(j, "ckineto.diff_facts/1");
    put_side(j, "before", &d->sides[0]);
    put_side(j, "after", &d->sides[1]);
    kb_json_key_z(j, "facts");
    ke_put_analysis(j, d->differences, 0, NULL);
    kb_json_object_end(j);
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* What differs, in sentences. */
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

/* ---- facts of traces ------------------------------------------------------------------------- */

#define FACTS_NAME "/run.ckrun"

/* The callback of ka_facts_save_traces. */
static void show_progress(uint32_t index, uint32_t count, const char *path, void *user)
{
    (void)user;
    kc_show_reading(index, count, path);
}

/* Makes the temporary folder of a side. */
static kineto_status make_folder(facts_side *side, kineto_error *err)
{
    const char *wanted = kb_setting("TMPDIR");
    int size = snprintf(side->folder, sizeof side->folder - sizeof FACTS_NAME, "%s/ckineto-facts-XXXXXX",
                        wanted ? wanted : "/var/tmp");
    if (size > 0 && (size_t)size < sizeof side->folder - sizeof FACTS_NAME && mkdtemp(side->folder))
        return KINETO_OK;
    side->folder[0] = '\0';
    return kb_fail_os(err, errno, "cannot create a temporary folder in %s; set TMPDIR to another directory",
                      wanted ? wanted : "/var/tmp");
}

static void remove_folder(const facts_side *side)
{
    char path[sizeof side->folder + sizeof FACTS_NAME];
    if (!side->folder[0])
        return;
    snprintf(path, sizeof path, "%s" FACTS_NAME, side->folder);
    (void)unlink(path);
    (void)rmdir(side->folder);
}

/* Only one trace is in memory at a time. */
static kineto_status make_side(char *path, facts_side *side, kineto_error *err)
{
    char made[sizeof side->folder + sizeof FACTS_NAME];
    const char *name = made;
    kineto_files *files = NULL;
    kineto_status status = kineto_files_find((const char *const *)&path, 1, &files, err);
    if (!status)
        status = make_folder(side, err);
    snprintf(made, sizeof made, "%s" FACTS_NAME, side->folder);
    if (!status)
        status = ka_facts_save_traces(files, &kc_reading, show_progress, made, err);
    kc_show_reading(0, 0, NULL);
    kineto_files_destroy(files);
    return status ? status : ka_facts_set_open(&name, 1, &side->set_of_facts, err);
}

static kineto_status open_side(char *path, facts_side *side, kineto_error *err)
{
    ka_operands_kind kind;
    kineto_status status = ka_find_facts(&path, 1, &kind, NULL, err);
    if (status)
        return status;
    return kind == KA_OPERANDS_TRACES ? make_side(path, side, err) : ka_facts_open_paths(&path, 1, &side->set_of_facts, err);
}

/* ---- both sides ------------------------------------------------------------------------------ */

/* Opens the facts of a run, and makes the tables that are shown. @param side  to be freed, also on failure. */
static kineto_status read_side(char *path, facts_side *side, kineto_error *err)
{
    const kineto_analysis_options usual = {.size = sizeof usual};
    side->path = path;
    kineto_status status = open_side(path, side, err);
    if (status)
        return status;
    ka_facts_set_limit_memory(side->set_of_facts, kc_reading.memory_bytes);
    status = kc_add_facts_health(side->set_of_facts, &side->health, &side->set, err);
    if (!status)
        status = measure_step(side, err);
    if (!status)
        status = ka_facts_set_analyze(side->set_of_facts, &usual, KA_TABLE_BIT(KA_TABLE_rank_causes) | KA_TABLE_BIT(KA_TABLE_rank_damage),
                                      &side->facts, err);
    return status;
}

/* The text: both runs, the step, causes, what differs, and what facts cannot answer. */
static kineto_status print_comparison(const facts_diff *d, uint64_t row_limit, FILE *out, kineto_error *err)
{
    if (kc_diff_has_origin(d->differences))
        kc_diff_print_origin(d->differences, out);
    print_steps(d->sides, d->differences, out);
    fputc('\n', out);
    kc_diff_print_ranks(d->differences, out);
    print_side("before", &d->sides[0], out);
    print_side("after", &d->sides[1], out);
    kineto_status status = print_causes(d, row_limit, out, err);
    if (status)
        return status;
    kc_put_wrapped(out, kc_page_width(out), "\n", "", 0,
                   kb_string("Operators, kernels, confidence and gates need the traces of both runs, without --ranks."));
    return KINETO_OK;
}

/* Files first: an error of writing must not come after the text. */
static kineto_status write_comparison(const facts_diff *d, const kc_diff_facts_output *to, kineto_error *err)
{
    kineto_status status = to->csv ? kineto_analysis_save_csv(d->differences, to->csv, err) : KINETO_OK;
    if (!status && to->json)
        status = kc_save_json(to->json, put_document, d, err);
    bool is_printed = !to->json || strcmp(to->json, "-") != 0;
    return status || !is_printed ? status : print_comparison(d, to->row_limit, stdout, err);
}

static void free_comparison(facts_diff *d)
{
    kineto_analysis_destroy(d->differences);
    for (int i = 0; i < 2; i++) {
        kc_file_set_report(&d->sides[i].set);
        kineto_analysis_destroy(d->sides[i].facts);
        kc_health_free(&d->sides[i].health);
        ka_facts_set_destroy(d->sides[i].set_of_facts);
        remove_folder(&d->sides[i]);
    }
}

kineto_status kc_diff_facts(char *const *paths, const kc_diff_facts_output *to, kineto_error *err)
{
    facts_diff d = {.differences = NULL};
    kineto_status status = KINETO_OK;
    for (int i = 0; i < 2 && !status; i++)
        status = read_side(paths[i], &d.sides[i], err);
    if (!status)
        status = kineto_facts_diff(d.sides[0].set_of_facts, d.sides[1].set_of_facts, &d.differences, err);
    if (!status)
        status = write_comparison(&d, to, err);
    free_comparison(&d);
    return status;
}

bool kc_diff_is_of_facts(char *const *paths, int count)
{
    ka_operands_kind kind;
    return ka_find_facts(paths, count, &kind, NULL, NULL) == KINETO_OK && kind != KA_OPERANDS_TRACES;
}

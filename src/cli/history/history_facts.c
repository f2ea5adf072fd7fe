/* Facts of a run: the median of its steps, for each part of a step how long it is on average, and which ranks and links make the
 * run longer. */
#include "cli/history/history.h"

#include "analyze/classes/classes.h"
#include "analyze/facts/analyses.h"
#include "analyze/ranks/rank_names.h"
#include "analyze/ranks/rank_set.h"

#define MAX_PARTS 200u /* of a kind; the longest */

static double ns_at(const ka_table *t, uint64_t row, uint32_t column)
{
    ka_cell cell = ka_cell_at(t, row, column);
    return ka_is_none(t, column, cell) ? 0 : (double)cell.i;
}

static bool add_sum(kc_history_sums *s, const char *kind, kineto_string name, double ns)
{
    char key[1024];
    int size = snprintf(key, sizeof key, "%s\n%.*s", kind, (int)KB_MIN(name.size, (size_t)900), name.data);
    uint32_t id = size > 0 ? kb_intern_id(&s->names, kb_utf8_cut((kineto_string){key, (size_t)size}, sizeof key - 1)) : KB_INTERN_NONE;
    if (id == KB_INTERN_NONE || !kb_vec_reserve(&s->sums, id + (size_t)1))
        return false;
    for (; s->sums.count <= id; s->sums.count++)
        s->sums.data[s->sums.count] = 0;
    s->sums.data[id] += ns;
    return true;
}

static bool add_steps(kc_history_sums *s, const ka_table *steps, const ka_table *overlap)
{
    bool ok = true;
    for (uint64_t r = 0; ok && r < ka_table_rows(steps); r++) {
        ok = kb_vec_push(&s->steps, ns_at(steps, r, KA_COL_steps_dur_us));
        s->input_ns += ns_at(steps, r, KA_COL_steps_dataloader_us);
    }
    for (uint64_t r = 0; r < ka_table_rows(overlap); r++) {
        s->exposed_ns += ns_at(overlap, r, KA_COL_distributed_overlap_communication_us);
        s->idle_ns += ns_at(overlap, r, KA_COL_distributed_overlap_other_us);
    }
    return ok;
}

static bool add_kernels(kc_history_sums *s, const ka_table *kernels, const ka_rules *rules)
{
    bool ok = true;
    for (uint64_t r = 0; ok && r < ka_table_rows(kernels); r++) {
        kineto_string name = ka_text_at(kernels, r, KA_COL_kernels_name);
        double ns = ns_at(kernels, r, KA_COL_kernels_sum_us);
        ka_class class = ka_classify(rules, KINETO_KIND_CONCURRENT_KERNEL, name);
        ok = add_sum(s, "kernel family", kb_string(ka_family_name(class.family)), ns) && add_sum(s, "kernel", name, ns);
    }
    return ok;
}

/* Own time on the host, and of the work that it launches. */
static bool add_operators(kc_history_sums *s, const ka_table *operators)
{
    bool ok = true;
    for (uint64_t r = 0; ok && r < ka_table_rows(operators); r++)
        ok = add_sum(s, "operator", ka_text_at(operators, r, KA_COL_operators_name),
                     ns_at(operators, r, KA_COL_operators_host_self_us) + ns_at(operators, r, KA_COL_operators_device_self_us));
    return ok;
}

kineto_status kc_history_add_trace(kc_history_sums *s, const kineto_trace *trace, int32_t rank, kineto_error *err)
{
    kineto_analysis_options o = {.size = sizeof o, .rank = &rank};
    ka_table_set tables = KA_TABLE_BIT(KA_TABLE_steps) | KA_TABLE_BIT(KA_TABLE_distributed_overlap) |
                          KA_TABLE_BIT(KA_TABLE_kernels) | KA_TABLE_BIT(KA_TABLE_operators) | KA_TABLE_BIT(KA_TABLE_rank_marks);
    kineto_analysis *a = NULL;
    ka_rules *rules = NULL;
    int64_t start_ns, end_ns;
    kineto_status status = ka_analyze_tables(trace, &o, tables, &a, err);
    if (!status)
        status = ka_rules_create(NULL, &rules, err);
    bool ok = !status && add_steps(s, &a->tables[KA_TABLE_steps], &a->tables[KA_TABLE_distributed_overlap]) &&
              add_kernels(s, &a->tables[KA_TABLE_kernels], rules) && add_operators(s, &a->tables[KA_TABLE_operators]) && ka_rank_set_add(&s->compared, a->ranks);
    kineto_trace_window(trace, &start_ns, &end_ns);
    s->first_ns = s->ranks ? KB_MIN(s->first_ns, start_ns) : start_ns;
    s->ranks++;
    ka_rules_free(rules);
    kineto_analysis_destroy(a);
    return status ? status : ok ? KINETO_OK : kb_fail_memory(err, "facts of a run");
}

/* ---- the end ---------------------------------------------------------------------------------- */

static bool push_part(kc_history_run *run, kineto_string kind, kineto_string name, double ns)
{
    kc_history_part part = {strndup(kind.data, kind.size), strndup(name.data, name.size), ns};
    if (part.kind && part.name && kb_vec_push(&run->parts, part))
        return true;
    free(part.kind);
    free(part.name);
    return false;
}

static int compare_parts(const void *left, const void *right)
{
    const kc_history_part *a = left, *b = right;
    int kind = strcmp(a->kind, b->kind);
    return kind ? kind : KB_COMPARE(b->ns, a->ns);
}

/* Of each kind the longest parts stay. */
static void cut_parts(kc_history_run *run)
{
    size_t kept = 0, of_kind = 0;
    qsort(run->parts.data, run->parts.count, sizeof *run->parts.data, compare_parts);
    for (size_t i = 0; i < run->parts.count; i++) {
        kc_history_part part = run->parts.data[i];
        of_kind = kept && strcmp(run->parts.data[kept - 1].kind, part.kind) == 0 ? of_kind + 1 : 0;
        if (of_kind < MAX_PARTS) {
            run->parts.data[kept++] = part;
        } else {
            free(part.kind);
            free(part.name);
        }
    }
    run->parts.count = kept;
}

static double find_step_median(kc_history_sums *s)
{
    size_t n = s->steps.count;
    qsort(s->steps.data, n, sizeof *s->steps.data, kb_compare_doubles);
    return n % 2 ? s->steps.data[n / 2] : (s->steps.data[n / 2 - 1] + s->steps.data[n / 2]) / 2;
}

/* What causes cost a step: they are what its other parts wait for. */
static bool push_causes(const kc_history_sums *s, kc_history_run *run)
{
    const ka_rank_view *v = ka_view_several_ranks(s->compared);
    bool ok = v || !s->compared || s->compared->ranks.count < 2;
    if (!v || v->causes.refused[0] || v->model.refused[0])
        return ok;
    double steps = v->causes.steps ? v->causes.steps : (double)KB_MAX(run->steps, (uint64_t)1);
    for (size_t i = 0; ok && i < v->causes.list.count; i++) {
        const ka_rank_cause *c = &v->causes.list.data[i];
        ok = push_part(run, kb_string(c->kind == KA_CAUSE_LINK ? KC_SLOW_LINK : KC_STRAGGLER),
                       kb_string(ka_describe_cause(v, c).s), (double)c->saved_ns / steps);
    }
    return ok;
}

kineto_status kc_history_finish(kc_history_sums *s, kc_history_run *run, kineto_error *err)
{
    double steps = (double)s->steps.count;
    if (!s->steps.count)
        return kb_fail(err, KINETO_E_NOT_FOUND, "no step in any trace; mark the steps of the program, see docs/reference/analyze.md#steps");
    run->step_ns = find_step_median(s);
    run->steps = s->steps.count / s->ranks;
    run->ranks = s->ranks;
    run->time_ns = s->first_ns;
    bool ok = push_causes(s, run) && push_part(run, kb_string("communication"), kb_string("exposed"), s->exposed_ns / steps) &&
              push_part(run, kb_string("idle"), kb_string("idle devices"), s->idle_ns / steps) &&
              push_part(run, kb_string("input"), kb_string("data loading"), s->input_ns / steps);
    for (uint32_t id = 1; ok && id < s->sums.count; id++) {
        kineto_string key = kb_intern_get(&s->names, id);
        const char *line = memchr(key.data, '\n', key.size);
        size_t kind = line ? (size_t)(line - key.data) : key.size;
        if (line)
            ok = push_part(run, (kineto_string){key.data, kind}, (kineto_string){line + 1, key.size - kind - 1}, s->sums.data[id] / steps);
    }
    cut_parts(run);
    return ok ? KINETO_OK : kb_fail_memory(err, "facts of a run");
}

void kc_history_sums_free(kc_history_sums *s)
{
    kb_vec_free(&s->steps);
    kb_vec_free(&s->sums);
    kb_intern_free(&s->names);
    ka_rank_set_destroy(s->compared);
}

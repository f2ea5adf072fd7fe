/* Findings of one trace: which tables the rules need, running the rules, the savings per step of
 * what they found, and its order. kineto_findings_find splits a trace of several ranks and merges their
 * findings (findings_ranks.c). */
#include "analyze/findings/finding.h"
#include "analyze/ranks/rank_set.h"
#include "analyze/dataset/each_rank.h"

/* A device id is unique only within one process of the trace. */
typedef struct device {
    uint32_t process;
    int64_t id;
} device;

static int compare_device_ids(const void *left, const void *right)
{
    const device *a = left, *b = right;
    if (a->process != b->process)
        return a->process < b->process ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

/* Number of different devices with work; f->no_memory is set if it cannot be counted. */
static uint32_t count_used_devices(ka_finder *f)
{
    const ka_dataset *s = f->s;
    KB_VEC(device) all = {0};
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->stream_count; i++)
        if (s->streams[i].count)
            f->no_memory |=
                !kb_vec_push(&all, (device){s->streams[i].process, s->streams[i].device});
    if (all.count)
        qsort(all.data, all.count, sizeof *all.data, compare_device_ids);
    for (size_t i = 0; i < all.count; i++)
        count += i == 0 || compare_device_ids(&all.data[i - 1], &all.data[i]) != 0;
    kb_vec_free(&all);
    return count;
}

/* Length of all steps including device work that ends after the host has finished the step:
 * the host may run far ahead of the device. */
static int64_t sum_step_ns(const ka_finder *f)
{
    const ka_table *t = &f->facts->tables[KA_TABLE_steps];
    int64_t sum = 0;
    for (uint64_t row = 0; row < ka_table_rows(t); row++)
        sum = ka_add_ns(sum, ka_fact_int(t, row, KA_COL_steps_dur_us));
    return sum;
}

/* From the first work or range to the last. Of a watched program without device work the whole window, which findings
 * about threads and waits are measured by: so all findings have one base. */
static int64_t recorded_ns(const ka_dataset *s)
{
    const ka_watched *w = s->work_count ? NULL : ka_dataset_watched(s);
    int64_t start_ns, end_ns;
    if (!w || w->end_ns <= w->start_ns)
        return kb_length_ns(s->start_ns, s->end_ns);
    kineto_trace_window(s->trace, &start_ns, &end_ns);
    return kb_length_ns(KB_MIN(w->start_ns, start_ns), kb_max_i64(w->end_ns, end_ns));
}

/* Sets step_count and whole_ns. Steps that were not selected have no slice, and do not count.
 * Without steps the whole is the recorded time; it is never 0, as shares divide by it. */
static void measure_steps(ka_finder *f)
{
    const ka_dataset *s = f->s;
    for (uint32_t i = 0; i < s->step_count; i++)
        if (s->steps[i].slice != KA_NONE) {
            f->step_count++;
            f->whole_ns =
                ka_add_ns(f->whole_ns, kb_length_ns(s->steps[i].start_ns, s->steps[i].end_ns));
        }
    if (f->step_count)
        f->whole_ns = kb_max_i64(f->whole_ns, sum_step_ns(f));
    if (!f->step_count || f->whole_ns <= 0)
        f->whole_ns = recorded_ns(s);
    f->whole_ns = KB_MAX(f->whole_ns, 1);
    KB_ASSERT(f->step_count <= s->step_count);
}

/* ---- savings --------------------------------------------------------------------------------- */

uint8_t ka_severity_of(const ka_found *x)
{
    if (x->severity_is_set)
        return x->severity;
    if (x->saved_ns == KA_NO_SAVINGS)
        return KINETO_FINDING_LOW;
    return x->step_savings_pct >= 10  ? KINETO_FINDING_HIGH
           : x->step_savings_pct >= 2 ? KINETO_FINDING_MEDIUM
                               : KINETO_FINDING_LOW;
}

/* Savings that are shown as 0.0 % count as unknown ones. */
#define MIN_SHOWN_PERCENT 0.05

static int64_t savings_rank(const ka_found *x)
{
    return x->saved_ns == KA_NO_SAVINGS || x->step_savings_pct < MIN_SHOWN_PERCENT ? -1 : x->step_savings_ns;
}

/* Order of the report: findings about the trace itself first, then the largest savings (those
 * without known savings last), then severity, rule and subject. */
static int compare_found(const void *left, const void *right)
{
    const ka_found *a = left, *b = right;
    if (a->comes_first != b->comes_first)
        return a->comes_first ? -1 : 1;
    int64_t savings_a = savings_rank(a), savings_b = savings_rank(b);
    if (savings_a != savings_b)
        return savings_a > savings_b ? -1 : 1;
    if (a->severity != b->severity)
        return a->severity > b->severity ? -1 : 1;
    if (a->rule != b->rule)
        return a->rule < b->rule ? -1 : 1;
    int order = memcmp(a->subject.data, b->subject.data, KB_MIN(a->subject.size, b->subject.size));
    return order ? order
                 : (a->subject.size > b->subject.size) - (a->subject.size < b->subject.size);
}

static int compare_evidence(const void *left, const void *right)
{
    const ka_evidence *a = left, *b = right;
    if (a->weight_ns != b->weight_ns)
        return a->weight_ns > b->weight_ns ? -1 : 1;
    return a->start_ns < b->start_ns ? -1 : a->start_ns > b->start_ns;
}

/* ---- do savings add up? ---------------------------------------------------------------------- */

/* Does another finding save some of the same time (host, device or exchange)? Then the savings
 * of both together may be less than their sum. */
static bool overlaps_another(const kineto_findings *out, size_t index)
{
    const ka_found *x = &out->found.data[index];
    for (size_t i = 0; x->saved_ns != KA_NO_SAVINGS && i < out->found.count; i++)
        if (i != index && out->found.data[i].saved_ns != KA_NO_SAVINGS &&
            ka_finding_spec_of(out->found.data[i].rule)->saves & ka_finding_spec_of(x->rule)->saves)
            return true;
    return false;
}

bool ka_findings_know_overlaps(const kineto_findings *f) { return f->chosen == UINT64_MAX && !f->lacking; }

void ka_findings_sort(kineto_findings *out)
{
    for (size_t i = 0; i < out->found.count; i++) {
        ka_found *x = &out->found.data[i];
        x->severity = ka_severity_of(x);
        x->overlaps = overlaps_another(out, i);
        if (x->evidence.count)
            qsort(x->evidence.data, x->evidence.count, sizeof *x->evidence.data, compare_evidence);
    }
    if (out->found.count)
        qsort(out->found.data, out->found.count, sizeof *out->found.data, compare_found);
    ka_put_causes_first(out);
}

/* Since which PyTorch there is what advice names, and for which devices, where not for all. */
static const struct {
    const char *word, *name, *needs;
} features[] = {
    {"torch.compile", "torch.compile", "torch >= 2.0"},
    {"expandable_segments", "expandable_segments", "torch >= 2.1 and an NVIDIA device"},
    {"make_graphed_callables", "make_graphed_callables", "torch >= 1.10 and a CUDA device"},
    {"set_float32_matmul_precision", "set_float32_matmul_precision", "torch >= 1.12"},
    {"torch.autocast(", "torch.autocast", "torch >= 1.10"},
    {"torch.amp.GradScaler", "torch.amp.GradScaler", "torch >= 2.3"},
    {"nonzero_static", "nonzero_static", "torch >= 2.6 on CUDA devices"},
    {"foreach=True", "foreach", "torch >= 1.12"},
    {"set_modules_to_forward_prefetch", "fully_shard", "torch >= 2.6"},
    {"inference_mode", "inference_mode", "torch >= 1.9"}};

/* The advice with the versions that its features need after it; the advice itself if it names
 * none, or memory ran out. */
static kineto_string append_requirements(kineto_findings *out, kineto_string advice)
{
    char text[2600];
    size_t n = 0, size = KB_MIN(advice.size, (size_t)2000);
    bool any = false;
    for (size_t i = 0; i < KB_COUNT(features); i++)
        if (kb_string_contains(advice, features[i].word))
            any = true;
    if (!any)
        return advice;
    while (size && (advice.data[size - 1] == '.' || advice.data[size - 1] == ' '))
        size--;
    n = (size_t)snprintf(text, sizeof text, "%.*s (", (int)size, advice.data);
    for (size_t i = 0, count = 0; i < KB_COUNT(features); i++)
        if (kb_string_contains(advice, features[i].word))
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s needs %s", count++ ? ", " : "",
                                  features[i].name, features[i].needs);
    n += (size_t)snprintf(text + n, sizeof text - n, ")");
    char *copy = kb_arena_copy(&out->arena, text, KB_MIN(n, sizeof text - 1));
    return copy ? (kineto_string){copy, KB_MIN(n, sizeof text - 1)} : advice;
}

void ka_set_savings(kineto_findings *out, const ka_finder *f, size_t from)
{
    KB_ASSERT(from <= out->found.count && f->whole_ns > 0);
    for (size_t i = from; i < out->found.count; i++) {
        ka_found *x = &out->found.data[i];
        x->confidence *= out->quality;
        if (!x->sentence.size)
            x->sentence = kb_string(ka_finding_spec_of(x->rule)->title);
        if (!x->advice.size)
            x->advice = kb_string(ka_finding_spec_of(x->rule)->remedy);
        if (!f->is_torch && ka_names_torch(x->advice) && ka_plain_advice(x->rule))
            x->advice = kb_string(ka_plain_advice(x->rule));
        x->advice = append_requirements(out, x->advice);
        if (x->saved_ns == KA_NO_SAVINGS)
            continue;
        x->whole_ns = x->whole_ns == f->whole_ns ? 0 : x->whole_ns;
        int64_t whole_ns = x->whole_ns ? x->whole_ns : f->whole_ns;
        if (!f->step_count)
            whole_ns = kb_max_i64(whole_ns, f->whole_ns);
        x->step_savings_ns = KB_MIN(x->saved_ns, whole_ns) / KB_MAX(f->step_count, 1u);
        x->own_savings_ns = x->step_savings_ns;
        x->baseline_ns = whole_ns / KB_MAX(f->step_count, 1u);
        KB_ASSERT(x->step_savings_ns >= 0 && x->step_savings_ns <= x->baseline_ns);
        x->step_savings_pct = KB_MIN(100, 100 * (double)x->saved_ns / (double)whole_ns);
    }
}

/* ---- one trace ------------------------------------------------------------------------------- */

/* Share of the events that were recorded and read; 1 for an empty trace. Confidences are
 * multiplied with it. */
static double recording_quality(const kineto_trace *t)
{
    double there = (double)kineto_trace_count(t), lost = (double)kineto_trace_lost(t);
    return there + lost > 0 ? there / (there + lost) : 1;
}

/* Tables that rules that compare ranks read, and the engine: kept after the trace is released. */
static const ka_table_set across_tables =
    KA_TABLE_BIT(KA_TABLE_steps) | KA_TABLE_BIT(KA_TABLE_rank_marks) | KA_TABLE_BIT(KA_TABLE_mpi_peers) | KA_TABLE_BIT(KA_TABLE_mpi_messages);

kineto_status ka_findings_create_across(kineto_analysis **out, kineto_error *err)
{
    kineto_status status = ka_facts_create(out, err);
    for (uint32_t i = 0; !status && i < KA_TABLE_COUNT; i++)
        (*out)->tables[i].wanted = (*out)->tables[i].shown = across_tables >> i & 1;
    return status;
}

/* *out is freed by the caller, also on failure. */
static kineto_status copy_across_tables(const kineto_analysis *facts, kineto_analysis **out,
                                        kineto_error *err)
{
    kineto_status status = ka_findings_create_across(out, err);
    for (uint32_t i = 0; !status && i < KA_TABLE_COUNT; i++) {
        ka_table *to = &(*out)->tables[i];
        if (!to->wanted)
            continue;
        ka_table_add(to, &facts->tables[i]);
        if (to->no_memory)
            status = kb_fail_memory(err, NULL);
    }
    if (!status && !ka_rank_set_add(&(*out)->ranks, facts->ranks))
        status = kb_fail_memory(err, NULL);
    return status;
}

/* Tables that the chosen rules and the engine read. Not the critical path: the first rule that
 * needs it computes it (ka_saved_by). */
ka_table_set ka_findings_tables(ka_rule_set chosen)
{
    ka_table_set of_capabilities = KA_TABLE_BIT(KA_TABLE_modules) | KA_TABLE_BIT(KA_TABLE_memory);
    return ka_tables_of_rules(chosen) | across_tables | (chosen & ka_rules_of_traces() ? of_capabilities : 0);
}

static void note_skipped_rules(kineto_findings *out)
{
    for (uint32_t i = 0; i < KA_FIND_COUNT; i++)
        if (out->verdicts[i].outcome == KINETO_RULE_SKIPPED)
            out->partly_skipped |= (ka_rule_set)1 << i;
}

/* Runs the rules of `out` over a trace that is taken as one rank. With `facts` the tables are passed
 * to the caller: all, or those that options->tables names and those that rules read. */
static kineto_status find_in_trace(kineto_findings *out, const kineto_trace *trace,
                                   const kineto_analysis_options *options, kineto_analysis **facts,
                                   kineto_error *err)
{
    kineto_analysis_options o = *options;
    ka_measured m;
    o.tables = facts ? options->tables : NULL;
    o.series = false;
    o.definitions = KINETO_DEFINITIONS_EXACT;
    kineto_status status =
        ka_measure_tables(trace, &o, facts && !o.tables ? 0 : ka_findings_tables(out->chosen), &m, err);
    ka_finder f = {
        .s = &m.dataset, .facts = m.facts, .evidence_limit = out->evidence_limit, .out = out};
    if (!status) {
        measure_steps(&f);
        f.device_count = count_used_devices(&f);
        f.host_only = ka_is_host_only(f.s);
        f.is_torch = out->is_torch = ka_is_torch(trace);
        f.has = ka_detect_capabilities(&f);
        out->quality = recording_quality(trace);
        out->whole_ns = f.whole_ns;
        out->whole_count = KB_MAX(f.step_count, 1u);
        out->step_count = f.step_count;
        out->step_ns = f.whole_ns / out->whole_count;
        ka_run_rules(&f, 0);
        ka_set_savings(out, &f, 0);
        note_skipped_rules(out);
        status = copy_across_tables(m.facts, &out->across, err);
    }
    if (!status && facts) {
        *facts = m.facts;
        m.facts = NULL;
    }
    if (f.path)
        ka_path_free(f.path);
    free(f.path);
    ka_measured_free(&m);
    if (!status && f.no_memory)
        return kb_fail_memory(err, NULL);
    return status;
}

/* Of one rank. `facts` may be NULL. */
kineto_status ka_find_in_rank(const kineto_trace *trace, const kineto_findings_options *o,
                              const kineto_analysis_options *how, kineto_analysis **facts,
                              kineto_findings **out, kineto_error *err)
{
    kineto_findings *found = calloc(1, sizeof *found);
    *out = NULL;
    if (facts)
        *facts = NULL;
    if (!found)
        return kb_fail_memory(err, NULL);
    found->evidence_limit = o->evidence ? KB_MIN(o->evidence, 1000u) : 5;
    kineto_status status = ka_parse_rules(o->rules, &found->chosen, err);
    if (!status)
        status = find_in_trace(found, trace, how, facts, err);
    if (!status) {
        ka_findings_sort(found);
        *out = found;
        return KINETO_OK;
    }
    kineto_findings_destroy(found);
    if (facts) {
        kineto_analysis_destroy(*facts);
        *facts = NULL;
    }
    return status;
}

void ka_found_free(ka_found *x)
{
    kb_vec_free(&x->evidence);
    kb_vec_free(&x->by_rank);
}

void kineto_findings_destroy(kineto_findings *findings)
{
    if (!findings)
        return;
    for (size_t i = 0; i < findings->found.count; i++)
        ka_found_free(&findings->found.data[i]);
    kb_vec_free(&findings->found);
    kb_arena_free(&findings->arena);
    kineto_analysis_destroy(findings->across);
    free(findings);
}

/* Evidence is shown relative to the start of the trace, which is not available after it is
 * released. */
static void set_origins(kineto_findings *found, const kineto_trace *trace)
{
    int64_t start_ns, end_ns;
    kineto_trace_window(trace, &start_ns, &end_ns);
    for (size_t i = 0; i < found->found.count; i++)
        found->found.data[i].origin_ns = start_ns;
}

int64_t ka_finding_origin(const kineto_findings *f, uint32_t index)
{
    return index < f->found.count ? f->found.data[index].origin_ns : 0;
}

kineto_status kineto_findings_find(const kineto_trace *trace, const kineto_findings_options *options,
                          kineto_findings **out, kineto_error *err)
{
    kineto_findings_options o = {.size = sizeof o};
    kineto_analysis_options how;
    if (out)
        *out = NULL;
    if (!trace || !out)
        return kb_fail_null(err, __func__, "trace, out", trace, out);
    kineto_status status = kb_options_read(&o, sizeof o, options, "kineto_findings_options", err);
    if (!status)
        status = ka_options_read(o.analyze, &how, err);
    if (status)
        return status;
    if (o.facts)
        *o.facts = NULL;
    status = ka_has_ranks(trace) ? ka_find_in_ranks(trace, &o, &how, out, err)
                                 : ka_find_in_rank(trace, &o, &how, o.facts, out, err);
    if (!status)
        set_origins(*out, trace);
    return status;
}

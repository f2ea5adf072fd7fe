/* Findings of several ranks: merging those that say the same, and the rules that compare ranks,
 * which run on the merged tables of all ranks when these are complete. */
#include "analyze/findings/finding.h"
#include "analyze/dataset/each_rank.h"

/* ---- several ranks --------------------------------------------------------------------------- */

/* Replaces a text by its copy. False: out of memory. */
static bool copy_text_to_arena(kb_arena *arena, kineto_string *text)
{
    if (!text->size)
        return true;
    text->data = kb_arena_copy(arena, text->data, text->size);
    return text->data != NULL;
}

/* A copy whose texts belong to `to`. False: out of memory; the copy has no evidence to free
 * then. */
static bool copy_found(kineto_findings *to, const ka_found *from, ka_found *copy)
{
    *copy = *from;
    memset(&copy->evidence, 0, sizeof copy->evidence);
    memset(&copy->by_rank, 0, sizeof copy->by_rank);
    bool ok = copy_text_to_arena(&to->arena, &copy->subject) &&
              copy_text_to_arena(&to->arena, &copy->sentence) &&
              copy_text_to_arena(&to->arena, &copy->advice);
    for (size_t i = 0; ok && i < from->evidence.count; i++) {
        ka_evidence e = from->evidence.data[i];
        e.room = NULL; /* of the other's arena */
        ok = copy_text_to_arena(&to->arena, &e.name) && copy_text_to_arena(&to->arena, &e.where) &&
             copy_text_to_arena(&to->arena, &e.text) && kb_vec_push(&copy->evidence, e);
    }
    for (size_t i = 0; ok && i < from->by_rank.count; i++)
        ok = kb_vec_push(&copy->by_rank, from->by_rank.data[i]);
    if (!ok)
        ka_found_free(copy);
    return ok;
}

/* Adds what `x` saves on each of its ranks to a finding of other ranks. False: out of memory. */
static bool add_rank_savings(ka_found *to, const ka_found *x)
{
    ka_rank_savings alone = {x->rank, x->own_savings_ns};
    const ka_rank_savings *all = x->by_rank.count ? x->by_rank.data : &alone;
    bool ok = to->by_rank.count || kb_vec_push(&to->by_rank, ((ka_rank_savings){to->rank, to->own_savings_ns}));
    for (size_t i = 0; ok && i < KB_MAX(x->by_rank.count, (size_t)1); i++)
        ok = kb_vec_push(&to->by_rank, all[i]);
    return ok;
}

/* Findings are the same on all ranks if rule and subject are. */
static ka_found *find_same_finding(kineto_findings *to, const ka_found *x)
{
    for (size_t i = 0; i < to->found.count; i++)
        if (to->found.data[i].rule == x->rule &&
            kb_string_equal(to->found.data[i].subject, x->subject))
            return &to->found.data[i];
    return NULL;
}

/* Findings with savings are worse than those without; among these severity decides, then
 * extent. */
static bool is_worse_finding(const ka_found *x, const ka_found *than)
{
    if (x->saved_ns != KA_NO_SAVINGS)
        return than->saved_ns == KA_NO_SAVINGS || x->own_savings_ns > than->own_savings_ns;
    if (than->saved_ns != KA_NO_SAVINGS)
        return false;
    if (ka_severity_of(x) != ka_severity_of(than))
        return ka_severity_of(x) > ka_severity_of(than);
    return x->extent > than->extent;
}

/* Adds a finding of another rank. The merged one is that of the rank where the savings are largest;
 * what it saves of the run is known when all ranks are compared (run_savings.c). False: out of memory. */
static bool merge_finding(kineto_findings *to, const ka_found *x)
{
    ka_found *same = find_same_finding(to, x), copy;
    KB_ASSERT(x->rank_count > 0 && to->chosen >> x->rule & 1);
    if (!copy_found(to, x, &copy))
        return false;
    if (!same) {
        if (kb_vec_push(&to->found, copy))
            return true;
        ka_found_free(&copy);
        return false;
    }
    if (!add_rank_savings(&copy, same)) {
        ka_found_free(&copy);
        return false;
    }
    copy.rank_count = same->rank_count + x->rank_count;
    ka_found old = *same, *dropped = is_worse_finding(&copy, same) ? &old : &copy;
    *same = dropped == &old ? copy : old;
    same->rank_count = copy.rank_count;
    same->by_rank = copy.by_rank; /* of all ranks of both */
    kb_vec_free(&old.by_rank);
    kb_vec_free(&dropped->evidence);
    return true;
}

/* A rule that found something on any rank has found something; a rule that ran on any rank was
 * not skipped. */
static void merge_verdicts(kineto_findings *to, const kineto_findings *from)
{
    to->partly_skipped |= from->partly_skipped;
    for (uint32_t i = 0; i < KA_FIND_COUNT; i++) {
        ka_verdict *a = &to->verdicts[i];
        const ka_verdict *b = &from->verdicts[i];
        if (b->outcome == KINETO_RULE_FOUND || a->outcome == KINETO_RULE_SKIPPED)
            a->outcome = a->outcome == KINETO_RULE_FOUND ? a->outcome : b->outcome;
        if (a->outcome != KINETO_RULE_SKIPPED)
            a->because = (kineto_string){"", 0};
    }
}

/* Findings that compare ranks are made anew after each addition. */
static void drop_rank_findings(kineto_findings *to)
{
    size_t kept = 0;
    for (size_t i = 0; i < to->found.count; i++)
        if (ka_finding_spec_of(to->found.data[i].rule)->needs & KA_NEEDS_RANKS)
            ka_found_free(&to->found.data[i]);
        else
            to->found.data[kept++] = to->found.data[i];
    to->found.count = kept;
}

/* The mean step is over all steps of all ranks; ranks without steps do not count as soon as
 * one has some. */
static void merge_steps(kineto_findings *to, const kineto_findings *from)
{
    if (to->step_count && !from->step_count)
        return;
    if (!to->step_count && from->step_count)
        to->whole_ns = to->whole_count = 0;
    to->whole_ns = ka_add_ns(to->whole_ns, from->whole_ns);
    to->whole_count += from->whole_count;
    to->step_count += from->step_count;
    KB_ASSERT(to->whole_count > 0);
    to->step_ns = to->whole_ns / to->whole_count;
}

/* Runs the rules that compare ranks, on the tables of all ranks. They have no dataset; their
 * savings are of the mean step. */
static kineto_status compare_ranks(kineto_findings *to, kineto_error *err)
{
    ka_finder f = {.facts = to->across,
                   .whole_ns = KB_MAX(to->step_ns, 1) * KB_MAX(to->step_count, 1u),
                   .step_count = to->step_count,
                   .has = UINT32_MAX,
                   .is_torch = to->is_torch,
                   .evidence_limit = to->evidence_limit,
                   .out = to};
    size_t from = to->found.count;
    ka_run_rules(&f, KA_NEEDS_RANKS);
    ka_set_savings(to, &f, from);
    f.no_memory |= !ka_set_run_savings(to);
    return f.no_memory ? kb_fail_memory(err, NULL) : KINETO_OK;
}

/* Findings are sorted also if the comparison failed: they stay usable. */
static kineto_status compare_and_sort(kineto_findings *to, kineto_error *err)
{
    kineto_status status = compare_ranks(to, err);
    ka_findings_sort(to);
    return status;
}

kineto_status kineto_findings_add(kineto_findings *to, const kineto_findings *from,
                                  kineto_error *err)
{
    if (!to || !from)
        return kb_fail_null(err, __func__, "to, from", to, from);
    if (to == from || to->chosen != from->chosen)
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "findings can only be added to findings of the same rules");
    if (!to->deferred)
        drop_rank_findings(to);
    for (size_t i = 0; i < from->found.count; i++)
        if (!(ka_finding_spec_of(from->found.data[i].rule)->needs & KA_NEEDS_RANKS) &&
            !merge_finding(to, &from->found.data[i]))
            return kb_fail_memory(err, NULL);
    merge_verdicts(to, from);
    to->lacking |= from->lacking;
    ka_findings_skip_lacking(to);
    merge_steps(to, from);
    to->is_torch = to->is_torch || from->is_torch;
    to->quality = KB_MIN(to->quality, from->quality);
    kineto_status status = kineto_analysis_add(to->across, from->across, err);
    return status || to->deferred ? status : compare_and_sort(to, err);
}

void ka_findings_defer(kineto_findings *f)
{
    f->deferred = true;
    if (f->across)
        ka_facts_defer(f->across);
}

kineto_status ka_findings_complete(kineto_findings *f, kineto_error *err)
{
    if (!f->deferred)
        return KINETO_OK;
    KB_ASSERT(f->across != NULL);
    f->deferred = false;
    drop_rank_findings(f);
    kineto_status status = ka_facts_complete(f->across, err);
    return status ? status : compare_and_sort(f, err);
}

/* ---- a trace of several ranks ---------------------------------------------------------------- */

/* Findings, and with options->facts also facts, of the ranks that were visited so far. */
typedef struct finding_ranks {
    const kineto_findings_options *options;
    kineto_analysis_options how;
    kineto_findings *found;
    kineto_analysis *facts;
} finding_ranks;

/* Rows of the part of one rank become rows of the whole trace. */
static void map_evidence_rows(kineto_findings *found, const kineto_row *rows)
{
    for (size_t i = 0; i < found->found.count; i++)
        for (size_t k = 0; k < found->found.data[i].evidence.count; k++) {
            kineto_row *row = &found->found.data[i].evidence.data[k].row;
            *row = *row == KINETO_NO_ROW ? *row : rows[*row];
        }
}

/* Takes over `found` and `facts`, also on failure. */
static kineto_status merge_rank(finding_ranks *f, kineto_findings *found, kineto_analysis *facts,
                                kineto_error *err)
{
    if (!f->found) {
        f->found = found;
        f->facts = facts;
        return KINETO_OK;
    }
    kineto_status status = kineto_findings_add(f->found, found, err);
    if (!status && facts)
        status = kineto_analysis_add(f->facts, facts, err);
    kineto_findings_destroy(found);
    kineto_analysis_destroy(facts);
    return status;
}

/* Visitor of ka_visit_ranks: findings of one rank, as if its trace had been given alone. */
static kineto_status find_in_part(void *context, const kineto_trace *part, int32_t rank,
                                  const kineto_row *rows, kineto_error *err)
{
    finding_ranks *f = context;
    kineto_findings *found;
    kineto_analysis *facts = NULL;
    f->how.rank = &rank;
    kineto_status status =
        ka_find_in_rank(part, f->options, &f->how, f->options->facts ? &facts : NULL, &found, err);
    f->how.rank = NULL;
    if (status)
        return status;
    map_evidence_rows(found, rows);
    return merge_rank(f, found, facts, err);
}

kineto_status ka_find_in_ranks(const kineto_trace *trace, const kineto_findings_options *o,
                               const kineto_analysis_options *how, kineto_findings **out,
                               kineto_error *err)
{
    finding_ranks f = {.options = o, .how = *how};
    uint64_t without;
    kineto_status status = ka_visit_ranks(trace, find_in_part, &f, &without, err);
    if (!status && !f.found) /* no rank has an activity */
        return ka_find_in_rank(trace, o, how, o->facts, out, err);
    if (status) {
        kineto_findings_destroy(f.found);
        kineto_analysis_destroy(f.facts);
        return status;
    }
    *out = f.found;
    if (f.facts)
        ka_note_without_rank(f.facts, without);
    if (o->facts)
        *o->facts = f.facts;
    return KINETO_OK;
}


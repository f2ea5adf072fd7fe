/* The engine of findings: savings and order, several ranks, evidence, what could not be evaluated,
 * and gates. */
#include "analyze/findings/finding.h"

#include "analyzing.h"

#include <math.h>

/* ---- findings made by hand --------------------------------------------------------------------- */

#define STEP_NS INT64_C(1000000)
#define SMALL_NS INT64_C(1000) /* 0.1 % */

/* Of a trace in which nothing is to be found. */
static kineto_findings *nothing_found(const char *rules, uint32_t evidence)
{
    kineto_findings_options o = {.size = sizeof o, .rules = rules, .evidence = evidence};
    kineto_findings *found = NULL;
    kineto_error err = {.message = ""};
    maker m = make();
    put_range(&m, "work", 0, 1);
    kineto_trace *t = finish(m.b);
    if (kineto_findings_find(t, &o, &found, &err) != KINETO_OK)
        fail_msg("%s", err.message);
    kineto_trace_release(t);
    return found;
}

static ka_finder finder_of(kineto_findings *found, ka_finding_rule rule)
{
    return (ka_finder){.out = found,
                       .rule = rule,
                       .whole_ns = STEP_NS,
                       .step_count = 1,
                       .evidence_limit = found->evidence_limit};
}

static ka_found *put_found(kineto_findings *found, ka_finding_rule rule, int64_t savings_ns, int32_t rank,
                           const char *subject)
{
    ka_finder f = finder_of(found, rule);
    ka_found *x = ka_open_finding(&f, savings_ns, 0.8, kb_string(subject));
    assert_non_null(x);
    if (savings_ns != KA_NO_SAVINGS) {
        x->own_savings_ns = x->step_savings_ns = savings_ns;
        x->baseline_ns = found->step_ns;
        x->step_savings_pct = 100.0 * (double)savings_ns / (double)STEP_NS;
    }
    x->rank = rank;
    ka_say(&f, x, "seen on rank %d", rank);
    ka_advise(&f, x, "change it");
    ka_show_span(&f, x, rank * 100, rank * 100 + 10, 10, "evidence of rank %d", rank);
    return x;
}

static kineto_finding finding_at(const kineto_findings *found, uint32_t index)
{
    kineto_finding f;
    if (!kineto_findings_get(found, index, &f))
        fail_msg("there is no finding %u", index);
    return f;
}

static bool text_is(kineto_string text, const char *wanted)
{
    return kb_string_equal(text, kb_string(wanted));
}

static void add(kineto_findings *to, kineto_findings *from)
{
    kineto_error err = {.message = ""};
    if (kineto_findings_add(to, from, &err) != KINETO_OK)
        fail_msg("%s", err.message);
    kineto_findings_destroy(from);
}

/* ---- savings and order ----------------------------------------------------------------------------- */

static void the_largest_savings_come_first_and_findings_without_last(void **state)
{
    (void)state;
    kineto_findings *found = nothing_found(NULL, 0);
    put_found(found, KA_FIND_sync_stall, KA_NO_SAVINGS, 0, "");
    put_found(found, KA_FIND_launch_tiny, SMALL_NS, 0, "");
    put_found(found, KA_FIND_data_loader, 5 * SMALL_NS, 0, "");
    put_found(found, KA_FIND_copy_pageable, SMALL_NS, 0, "b");
    put_found(found, KA_FIND_copy_pageable, SMALL_NS, 0, "a");
    ka_set_severity(put_found(found, KA_FIND_unfit, KA_NO_SAVINGS, 0, ""), KINETO_FINDING_HIGH);
    put_found(found, KA_FIND_tensor_cores, SMALL_NS / 100, 0, ""); /* shown as 0.0 %: as if unknown */
    ka_findings_sort(found);
    static const char *const wanted[][2] = {{"input.data_loader", ""}, {"launch.tiny_kernels", ""},
                                            {"copy.pageable", "a"},    {"copy.pageable", "b"},
                                            {"trace.unfit", ""},       {"sync.stall", ""},
                                            {"precision.tensor_cores", ""}};
    assert_int_equal(kineto_findings_count(found), KB_COUNT(wanted));
    for (uint32_t i = 0; i < KB_COUNT(wanted); i++) {
        assert_string_equal(finding_at(found, i).id, wanted[i][0]);
        assert_true(text_is(finding_at(found, i).subject, wanted[i][1]));
    }
    kineto_findings_destroy(found);
}

static void severity_is_the_share_of_a_step_unless_a_rule_knows_better(void **state)
{
    (void)state;
    static const struct {
        int64_t savings_ns;
        uint32_t severity;
    } cases[] = {{100000, KINETO_FINDING_HIGH},  {99999, KINETO_FINDING_MEDIUM},
                 {20000, KINETO_FINDING_MEDIUM}, {19999, KINETO_FINDING_LOW},
                 {0, KINETO_FINDING_LOW},        {KA_NO_SAVINGS, KINETO_FINDING_LOW}};
    kineto_findings *found = nothing_found(NULL, 0);
    for (size_t i = 0; i < KB_COUNT(cases); i++)
        put_found(found, KA_FIND_data_loader, cases[i].savings_ns, 0, "");
    ka_findings_sort(found);
    for (uint32_t i = 0; i < KB_COUNT(cases); i++)
        assert_int_equal(finding_at(found, i).severity, cases[i].severity);
    kineto_findings_destroy(found);
    found = nothing_found(NULL, 0);
    ka_set_severity(put_found(found, KA_FIND_memory_limit, 5, 0, ""), KINETO_FINDING_MEDIUM);
    ka_findings_sort(found);
    assert_int_equal(finding_at(found, 0).severity, KINETO_FINDING_MEDIUM);
    kineto_findings_destroy(found);
}

static void what_is_out_of_range_is_nothing(void **state)
{
    (void)state;
    kineto_findings *found = nothing_found(NULL, 0);
    kineto_finding f = {.count = 7};
    kineto_finding_evidence e = {.rank = 7};
    kineto_finding_rule rule = {.id = "x"};
    kineto_string because = {"x", 1};
    assert_false(kineto_findings_get(found, kineto_findings_count(found), &f));
    assert_int_equal(f.count, 0);
    assert_false(kineto_findings_evidence(found, UINT32_MAX, 0, &e));
    assert_int_equal(e.rank, 0);
    assert_false(kineto_finding_rule_get(kineto_finding_rule_count(), &rule));
    assert_null(rule.id);
    assert_int_equal(kineto_findings_outcome(found, UINT32_MAX, &because), KINETO_RULE_NOT_SELECTED);
    assert_int_equal(because.size, 0);
    assert_int_equal(kineto_findings_count(NULL), 0);
    assert_int_equal(kineto_findings_mean_step_ns(NULL, NULL), 0);
    kineto_findings_destroy(NULL);
    kineto_findings_destroy(found);
}

static void each_rule_has_its_own_id_and_words(void **state)
{
    (void)state;
    kineto_finding_rule a, b;
    for (uint32_t i = 0; kineto_finding_rule_get(i, &a); i++) {
        assert_true(strchr(a.id, '.') && *a.title && *a.why && *a.remedy && a.needs);
        for (uint32_t j = 0; j < i; j++) {
            kineto_finding_rule_get(j, &b);
            assert_string_not_equal(a.id, b.id);
        }
    }
    assert_true(kineto_finding_rule_count() >= 30);
}

/* ---- evidence ------------------------------------------------------------------------------------ */

static void of_much_evidence_the_heaviest_is_kept(void **state)
{
    (void)state;
    uint64_t random = 8;
    for (uint32_t limit = 1; limit < 30; limit += 7) {
        kineto_findings *found = nothing_found(NULL, limit);
        ka_finder f = finder_of(found, KA_FIND_data_loader);
        ka_found *x = ka_open_finding(&f, 5, 1, kb_string(""));
        for (int i = 0; i < 1000; i++) {
            int64_t weight = (int64_t)(next_random(&random) % 100000);
            ka_show_span(&f, x, i, i + 1, i == 500 ? 200000 : i == 7 ? 100001 : weight, "%d", i);
        }
        ka_findings_sort(found);
        assert_int_equal(finding_at(found, 0).evidence_count, limit);
        kineto_finding_evidence e;
        assert_true(kineto_findings_evidence(found, 0, 0, &e));
        assert_int_equal(e.start_ns, 500);
        assert_true(text_is(e.text, "500"));
        for (uint32_t i = 1; i < limit; i++)
            assert_true(found->found.data[0].evidence.data[i - 1].weight_ns >=
                        found->found.data[0].evidence.data[i].weight_ns);
        assert_true(limit < 2 || found->found.data[0].evidence.data[1].weight_ns == 100001);
        assert_false(kineto_findings_evidence(found, 0, limit, &e));
        kineto_findings_destroy(found);
    }
}

static void the_usual_evidence_is_five_and_the_most_a_thousand(void **state)
{
    (void)state;
    kineto_findings *usual = nothing_found(NULL, 0), *most = nothing_found(NULL, UINT32_MAX);
    assert_int_equal(usual->evidence_limit, 5);
    assert_int_equal(most->evidence_limit, 1000);
    kineto_findings_destroy(usual);
    kineto_findings_destroy(most);
}

static void what_is_said_is_cut_between_characters(void **state)
{
    (void)state;
    char text[5000] = "";
    for (size_t i = 0; i < 1600; i++)
        memcpy(text + 1 + 3 * i, "€", 3);
    text[0] = 'x';
    kineto_findings *found = nothing_found(NULL, 0);
    ka_finder f = finder_of(found, KA_FIND_data_loader);
    for (size_t skip = 0; skip < 3; skip++) {
        ka_found *x = ka_open_finding(&f, 5, 1, kb_string(""));
        ka_say(&f, x, "%.*s%s", (int)skip, "abc", text);
        assert_true(x->sentence.size > 2000 && x->sentence.size < 2048);
        assert_int_equal(kb_utf8_valid_prefix(x->sentence.data, x->sentence.size),
                         x->sentence.size);
    }
    kb_text name = ka_short_name(kb_string(text));
    assert_int_equal(kb_utf8_valid_prefix(name.s, strlen(name.s)), strlen(name.s));
    kineto_findings_destroy(found);
}

/* ---- several ranks -------------------------------------------------------------------------------- */

/* Whichever comes first. */
static void the_same_on_several_ranks_is_one_with_the_savings_of_the_worst(void **state)
{
    (void)state;
    static const int64_t worths[][3] = {
        {10, 30, 20}, {30, 20, 10}, {20, 10, 30}, {KA_NO_SAVINGS, 30, 1}, {30, KA_NO_SAVINGS, 1}};
    for (size_t i = 0; i < KB_COUNT(worths); i++) {
        int32_t worst = 0;
        kineto_findings *all = NULL;
        for (int32_t rank = 0; rank < 3; rank++) {
            kineto_findings *one = nothing_found(NULL, 0);
            put_found(one, KA_FIND_data_loader, worths[i][rank], rank, "where");
            ka_findings_sort(one);
            worst = worths[i][rank] == 30 ? rank : worst;
            if (all)
                add(all, one);
            else
                all = one;
        }
        char wanted[40];
        snprintf(wanted, sizeof wanted, "seen on rank %d", worst);
        kineto_finding f = finding_at(all, 0);
        kineto_finding_evidence e;
        assert_int_equal(kineto_findings_count(all), 1);
        assert_int_equal(f.savings_ns, 30);
        assert_int_equal(f.rank, worst);
        assert_int_equal(f.rank_count, 3);
        assert_true(text_is(f.sentence, wanted) && text_is(f.subject, "where"));
        assert_true(kineto_findings_evidence(all, 0, 0, &e));
        assert_int_equal(e.start_ns, worst * 100);
        kineto_findings_destroy(all);
    }
}

/* High before medium, then the one with most of it; whichever comes first. */
static void a_finding_without_savings_is_that_of_the_worst_rank(void **state)
{
    (void)state;
    static const struct {
        kineto_finding_severity severity;
        double extent;
    } cases[][3] = {
        {{KINETO_FINDING_MEDIUM, 54}, {KINETO_FINDING_HIGH, 78}, {KINETO_FINDING_HIGH, 71}},
        {{KINETO_FINDING_MEDIUM, 99}, {KINETO_FINDING_HIGH, 1}, {KINETO_FINDING_LOW, 99}},
        {{KINETO_FINDING_LOW, 5}, {KINETO_FINDING_LOW, 6}, {KINETO_FINDING_LOW, 6}}};
    for (size_t i = 0; i < 3 * KB_COUNT(cases); i++) {
        kineto_findings *all = NULL;
        for (uint32_t n = 0; n < 3; n++) {
            int32_t rank = (int32_t)((n + i / KB_COUNT(cases)) % 3);
            kineto_findings *one = nothing_found(NULL, 0);
            ka_found *x = put_found(one, KA_FIND_low_utilization, KA_NO_SAVINGS, rank, "");
            ka_set_severity(x, cases[i % KB_COUNT(cases)][rank].severity);
            ka_set_extent(x, cases[i % KB_COUNT(cases)][rank].extent);
            ka_findings_sort(one);
            if (all)
                add(all, one);
            else
                all = one;
        }
        kineto_finding f = finding_at(all, 0);
        double extent = cases[i % KB_COUNT(cases)][f.rank].extent;
        assert_true(extent == cases[i % KB_COUNT(cases)][1].extent);
        assert_int_equal(f.severity, cases[i % KB_COUNT(cases)][1].severity);
        assert_int_equal(f.rank_count, 3);
        kineto_findings_destroy(all);
    }
}

static void other_subjects_and_other_rules_stay_apart(void **state)
{
    (void)state;
    kineto_findings *all = nothing_found(NULL, 0), *other = nothing_found(NULL, 0);
    put_found(all, KA_FIND_sync_stall, 5 * SMALL_NS, 0, "a");
    put_found(other, KA_FIND_sync_stall, 7 * SMALL_NS, 1, "b");
    put_found(other, KA_FIND_copy_exposed, 6 * SMALL_NS, 1, "a");
    put_found(other, KA_FIND_sync_stall, SMALL_NS, 1, "a");
    add(all, other);
    assert_int_equal(kineto_findings_count(all), 3);
    assert_true(text_is(finding_at(all, 0).subject, "b"));
    assert_string_equal(finding_at(all, 1).id, "copy.not_overlapped");
    assert_int_equal(finding_at(all, 2).savings_ns, 5 * SMALL_NS);
    assert_int_equal(finding_at(all, 2).rank_count, 2);
    kineto_findings_destroy(all);
}

static void set_judgement(kineto_findings *found, ka_finding_rule rule, kineto_rule_outcome judgement)
{
    found->verdicts[rule].outcome = (uint8_t)judgement;
    found->verdicts[rule].because =
        kb_string(judgement == KINETO_RULE_SKIPPED ? "of this trace" : "");
}

static void a_rule_that_one_rank_can_evaluate_is_evaluated(void **state)
{
    (void)state;
    enum { QUIET = KINETO_RULE_PASSED, FOUND = KINETO_RULE_FOUND, NOT = KINETO_RULE_SKIPPED };
    static const int cases[][3] = {
        {QUIET, QUIET, QUIET}, {QUIET, FOUND, FOUND}, {QUIET, NOT, QUIET},
        {FOUND, QUIET, FOUND}, {FOUND, FOUND, FOUND}, {FOUND, NOT, FOUND},
        {NOT, QUIET, QUIET},   {NOT, FOUND, FOUND},   {NOT, NOT, NOT}};
    for (size_t i = 0; i < KB_COUNT(cases); i++) {
        kineto_findings *a = nothing_found(NULL, 0), *b = nothing_found(NULL, 0);
        kineto_string because;
        set_judgement(a, KA_FIND_data_loader, (kineto_rule_outcome)cases[i][0]);
        set_judgement(b, KA_FIND_data_loader, (kineto_rule_outcome)cases[i][1]);
        add(a, b);
        assert_int_equal(kineto_findings_outcome(a, KA_FIND_data_loader, &because), cases[i][2]);
        assert_int_equal(because.size > 0, cases[i][2] == NOT);
        kineto_findings_destroy(a);
    }
}

static void rules_that_compare_ranks_wait_for_a_second_one(void **state)
{
    (void)state;
    kineto_findings *a = nothing_found(NULL, 0);
    kineto_string because;
    assert_int_equal(kineto_findings_outcome(a, KA_FIND_communication_imbalance, &because),
                     KINETO_RULE_SKIPPED);
    assert_true(memmem(because.data, because.size, "all ranks", 9) != NULL);
    add(a, nothing_found(NULL, 0));
    kineto_findings_outcome(a, KA_FIND_communication_imbalance, &because);
    assert_false(because.size && memmem(because.data, because.size, "one rank cannot", 15));
    kineto_findings_destroy(a);
}

static void only_findings_of_the_same_rules_can_be_added(void **state)
{
    (void)state;
    kineto_findings *all = nothing_found(NULL, 0), *some = nothing_found("copy", 0);
    kineto_error err;
    assert_int_equal(kineto_findings_add(all, some, &err), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_findings_add(all, all, &err), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_findings_add(all, NULL, &err), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_findings_add(NULL, all, &err), KINETO_E_ARGUMENT);
    kineto_findings_destroy(all);
    kineto_findings_destroy(some);
}

/* ---- whole traces ----------------------------------------------------------------------------------- */

#define LOADER "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"

/* Steps of 1 ms, of which the device waits `wait` us for data. */
static kineto_trace *loading_trace(int steps, double wait, const char *name, uint64_t lost)
{
    maker m = make();
    for (int n = 0; n < steps; n++) {
        double at = 1000.0 * n;
        char step[40];
        snprintf(step, sizeof step, "ProfilerStep#%d", n);
        put_range(&m, step, at, at + 1000);
        put_range(&m, name, at, at + wait);
        put_op(&m, "aten::mm", at + wait, at + wait + 10);
        put_call(&m, "cudaLaunchKernel", at + wait + 2, at + wait + 5, (uint64_t)n + 1);
        put_kernel(&m, m.stream, "gemm", at + wait + 8, at + 1000, (uint64_t)n + 1);
    }
    if (lost)
        kt_ledger_add(m.b, kb_string("test"), kb_string("lost"), lost, true, kb_string(""));
    return finish(m.b);
}

static kineto_findings *find_loading(int steps, double wait, const char *name, uint64_t lost)
{
    kineto_findings_options o = {.size = sizeof o, .rules = "input.data_loader"};
    kineto_findings *found = NULL;
    kineto_error err = {.message = ""};
    kineto_trace *t = loading_trace(steps, wait, name, lost);
    if (kineto_findings_find(t, &o, &found, &err) != KINETO_OK)
        fail_msg("%s", err.message);
    kineto_trace_release(t);
    return found;
}

static void savings_are_of_a_step_and_do_not_need_the_trace(void **state)
{
    (void)state;
    for (int steps = 2; steps < 20; steps += 6) {
        kineto_findings *found = find_loading(steps, 400, LOADER, 0);
        uint32_t count;
        kineto_finding f = finding_at(found, 0);
        assert_int_equal(kineto_findings_mean_step_ns(found, &count), 1000000);
        assert_int_equal(count, steps);
        /* in each step, also before the first kernel */
        assert_true(f.has_savings);
        assert_in_range(f.savings_ns, 380000, 420000);
        assert_true(fabs(f.savings_pct - (double)f.savings_ns / 1e4) < 0.01);
        assert_int_equal(f.count, steps);
        kineto_findings_destroy(found);
    }
}

/* What the device did before the only step is not in the trace. */
static void a_single_wait_is_less_sure(void **state)
{
    (void)state;
    kineto_findings *one = find_loading(1, 400, LOADER, 0), *two = find_loading(2, 400, LOADER, 0);
    assert_in_range(finding_at(one, 0).savings_ns, 380000, 420000);
    assert_true(finding_at(one, 0).confidence < finding_at(two, 0).confidence);
    kineto_findings_destroy(one);
    kineto_findings_destroy(two);
}

static void confidence_falls_with_what_was_lost(void **state)
{
    (void)state;
    kineto_findings *whole = find_loading(4, 400, LOADER, 0),
                    *holes = find_loading(4, 400, LOADER, 20);
    kineto_finding a = finding_at(whole, 0), b = finding_at(holes, 0);
    assert_int_equal(a.savings_ns, b.savings_ns);
    assert_true(b.confidence > 0.49 * a.confidence && b.confidence < 0.51 * a.confidence);
    kineto_findings_destroy(whole);
    kineto_findings_destroy(holes);
}

static void the_names_of_evidence_are_cut_between_characters(void **state)
{
    (void)state;
    char name[400];
    for (size_t more = 0; more < 3; more++) {
        size_t n =
            (size_t)snprintf(name, sizeof name, "enumerate(DataLoader)#%.*s", (int)more, "abc");
        for (; n + 13 < sizeof name; n += 3)
            memcpy(name + n, "€", 4);
        strcpy(name + n, ".__next__");
        kineto_findings *found = find_loading(3, 400, name, 0);
        kineto_finding_evidence e;
        assert_true(kineto_findings_evidence(found, 0, 0, &e));
        assert_true(e.name.size > 195 && e.name.size <= 200);
        assert_int_equal(kb_utf8_valid_prefix(e.name.data, e.name.size), e.name.size);
        kineto_findings_destroy(found);
    }
}

/* Each heavier than all before it. */
static void what_takes_the_place_of_lighter_evidence_has_its_own_names(void **state)
{
    (void)state;
    maker m = make();
    for (int n = 0; n < 60; n++) {
        double at = 1000.0 * n;
        char name[120];
        snprintf(name, sizeof name, "enumerate(DataLoader)#%.*s%d.__next__", n % 7, "abcdefg", n);
        put_range(&m, name, at, at + 400 + n);
        put_op(&m, "aten::mm", at + 500, at + 510);
        put_call(&m, "cudaLaunchKernel", at + 502, at + 505, (uint64_t)n + 1);
        put_kernel(&m, m.stream, "gemm", at + 508, at + 1000, (uint64_t)n + 1);
    }
    kineto_trace *t = finish(m.b);
    kineto_findings_options o = {.size = sizeof o, .rules = "input.data_loader", .evidence = 3};
    kineto_findings *found = NULL;
    assert_int_equal(kineto_findings_find(t, &o, &found, NULL), KINETO_OK);
    kineto_trace_release(t);
    for (uint32_t i = 0; i < 3; i++) {
        kineto_finding_evidence e;
        char name[120];
        int n = 59 - (int)i;
        snprintf(name, sizeof name, "enumerate(DataLoader)#%.*s%d.__next__", n % 7, "abcdefg", n);
        assert_true(kineto_findings_evidence(found, 0, i, &e));
        assert_true(text_is(e.name, name));
        assert_true(text_is(e.where, "thread 11 of process 10"));
        assert_int_equal(e.end_ns - e.start_ns, (400 + n) * 1000);
    }
    kineto_findings_destroy(found);
}

static void facts_come_with_findings_if_they_are_wanted(void **state)
{
    (void)state;
    kineto_analysis *facts = (kineto_analysis *)1;
    kineto_findings_options o = {.size = sizeof o, .rules = "nonsense", .facts = &facts};
    kineto_findings *found = (kineto_findings *)1;
    kineto_error err;
    kineto_trace *t = loading_trace(3, 400, LOADER, 0);
    assert_int_equal(kineto_findings_find(t, &o, &found, &err), KINETO_E_ARGUMENT);
    assert_null(found);
    assert_null(facts);
    o.rules = NULL;
    assert_int_equal(kineto_findings_find(t, &o, &found, &err), KINETO_OK);
    assert_int_equal(rows_of(facts, "steps"), 3);
    kineto_analysis_destroy(facts);
    kineto_findings_destroy(found);
    kineto_trace_release(t);
}

static void rules_are_named_by_id_or_by_what_stands_before_the_point(void **state)
{
    (void)state;
    static const struct {
        const char *list;
        uint32_t most, least;
    } good[] = {
        {"input.data_loader", 1, 1}, {"copy", 9, 3}, {"copy,copy.pageable", 9, 3}, {"", 0, 0}};
    static const char *const bad[] = {
        "cop",        "copy.", "copy.page", ",",    ",copy",
        "copy,,copy", "Copy",  "copy ",     "all.", "input.data_loader.x"};
    for (size_t i = 0; i < KB_COUNT(good); i++) {
        kineto_findings *found = nothing_found(good[i].list, 0);
        uint32_t asked = 0;
        for (uint32_t r = 0; r < kineto_finding_rule_count(); r++)
            asked += kineto_findings_outcome(found, r, NULL) != KINETO_RULE_NOT_SELECTED;
        assert_in_range(asked, good[i].least, good[i].most);
        kineto_findings_destroy(found);
    }
    kineto_trace *t = finish(builder());
    for (size_t i = 0; i < KB_COUNT(bad); i++) {
        kineto_findings_options o = {.size = sizeof o, .rules = bad[i]};
        kineto_findings *found;
        kineto_error err = {.message = ""};
        if (kineto_findings_find(t, &o, &found, &err) != KINETO_E_ARGUMENT)
            fail_msg("'%s' was taken for rules", bad[i]);
        assert_non_null(strstr(err.message, "unknown rule"));
    }
    kineto_trace_release(t);
}

/* ---- gates -------------------------------------------------------------------------------------------- */

/* A pageable copy with savings of 50 us, 5 % of a step; a rule that found nothing; one whose
 * savings are not known. */
static kineto_findings *findings_for_gates(void)
{
    kineto_findings *found = nothing_found(NULL, 0);
    put_found(found, KA_FIND_copy_pageable, 50000, 0, "");
    put_found(found, KA_FIND_memory_growth, KA_NO_SAVINGS, 0, "");
    set_judgement(found, KA_FIND_data_loader, KINETO_RULE_PASSED);
    set_judgement(found, KA_FIND_sync_stall, KINETO_RULE_SKIPPED);
    set_judgement(found, KA_FIND_tail_wave, KINETO_RULE_NOT_SELECTED);
    ka_findings_sort(found);
    return found;
}

static void gates_stop_findings_whose_savings_exceed_their_limit(void **state)
{
    (void)state;
    static const struct {
        const char *gate;
        bool passes;
    } cases[] = {{"copy.pageable", false},
                 {"copy", false},
                 {"all", false},
                 {"all=5%", false}, /* by a finding without savings */
                 {"copy.pageable=5%", true},
                 {"copy.pageable=4.99%", false},
                 {"copy=6%", true},
                 {"copy.pageable=50us", true},
                 {"copy.pageable=49.9us", false},
                 {"copy.pageable=0.05ms", true},
                 {"copy.pageable=49999ns", false},
                 {"copy.pageable=0.00005s", true},
                 {"copy.pageable=0%", false},
                 {"copy.pageable=.5ms", true},
                 {"copy.pageable=1e2%", true},
                 {"memory.growth", false},
                 {"memory.growth=100%", false},
                 {"input.data_loader", true},
                 {"input.data_loader=0%", true},
                 {"sync.stall", false},
                 {"sync", false},
                 {"sync=50%", false}, /* one rule, not evaluated */
                 {"kernel", true},
                 {"kernel.tail_wave", false}};
    kineto_findings *found = findings_for_gates();
    for (size_t i = 0; i < KB_COUNT(cases); i++) {
        char because[600] = "x";
        bool passed = !cases[i].passes;
        kineto_error err = {.message = ""};
        if (kineto_findings_gate(found, cases[i].gate, &passed, because, sizeof because, &err))
            fail_msg("%s: %s", cases[i].gate, err.message);
        if (passed != cases[i].passes)
            fail_msg("%s: %s", cases[i].gate, because);
        assert_int_equal(*because != '\0', !passed);
    }
    kineto_findings_destroy(found);
}

static void a_gate_says_why_it_does_not_pass(void **state)
{
    (void)state;
    kineto_findings *found = findings_for_gates();
    char because[600], little[10];
    bool passed;
    kineto_findings_gate(found, "copy", &passed, because, sizeof because, NULL);
    assert_string_equal(because, "copy.pageable: saves 50.000 us (5.0 %): seen on rank 0");
    kineto_findings_gate(found, "sync.stall", &passed, because, sizeof because, NULL);
    assert_string_equal(because, "sync.stall was skipped: of this trace");
    kineto_findings_gate(found, "kernel.tail_wave", &passed, because, sizeof because, NULL);
    assert_non_null(strstr(because, "not selected"));
    kineto_findings_gate(found, "copy", &passed, little, sizeof little, NULL);
    assert_string_equal(little, "copy.page");
    kineto_findings_gate(found, "copy", &passed, NULL, 0, NULL);
    assert_false(passed);
    kineto_findings_destroy(found);
}

static void unknown_gates_are_errors(void **state)
{
    (void)state;
    static const char *const gates[] = {"",          "=5%",       "nosuch",      "cop",
                                        "copy.",     "copy=",     "copy=5",      "copy=%",
                                        "copy=ms",   "copy=-1%",  "copy=+1%",    "copy= 1%",
                                        "copy=inf%", "copy=nan%", "copy=1e999%", "copy=5 %",
                                        "copy=5%%",  "copy=5m",   "copy=5min",   "copy=5%ms",
                                        "copy==5%",  "al",        "all.copy",    "Copy"};
    kineto_findings *found = findings_for_gates();
    for (size_t i = 0; i < KB_COUNT(gates); i++) {
        bool passed = true;
        kineto_error err = {.message = ""};
        if (kineto_findings_gate(found, gates[i], &passed, NULL, 0, &err) != KINETO_E_ARGUMENT)
            fail_msg("'%s' was understood", gates[i]);
        assert_false(passed);
        assert_true(*err.message != '\0');
    }
    bool passed = true;
    assert_int_equal(kineto_findings_gate(NULL, "all", &passed, NULL, 0, NULL), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_findings_gate(found, NULL, &passed, NULL, 0, NULL), KINETO_E_ARGUMENT);
    kineto_findings_destroy(found);
}

/* ---- traces that no program makes ------------------------------------------------------------------ */

static kineto_trace *trace_of_devices(uint32_t count)
{
    maker m = make();
    for (uint32_t i = 0; i < count; i++) {
        uint32_t device = kt_process(m.b, true, i, 0);
        char properties[80];
        snprintf(properties, sizeof properties, "{\"id\": %u, \"numSms\": %u}", i, i % 100 + 8);
        kineto_process said = {
            .is_device = true, .pid = i, .rank = -1, .properties_json = kb_string(properties)};
        kt_process_set(m.b, device, &said);
        put_json(&m, "grid", "[8, 1, 1]");
        put_json(&m, "block", "[32, 1, 1]");
        put_kernel(&m, kt_track(m.b, device, KINETO_TRACK_STREAM, 7), "gemm", 20.0 * i,
                   20.0 * i + 15, 0);
    }
    return finish(m.b);
}

static double seconds_to_evaluate(uint32_t devices)
{
    struct timespec from, until;
    kineto_findings_options o = {.size = sizeof o, .rules = "kernel.low_occupancy"};
    kineto_findings *found = NULL;
    kineto_trace *t = trace_of_devices(devices);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    assert_int_equal(kineto_findings_find(t, &o, &found, NULL), KINETO_OK);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &until);
    kineto_findings_destroy(found);
    kineto_trace_release(t);
    return (double)(until.tv_sec - from.tv_sec) + (double)(until.tv_nsec - from.tv_nsec) * 1e-9;
}

/* Each device was looked for among all: 64 times as long for 8 times as many. */
static void many_devices_take_no_longer_than_they_are_many(void **state)
{
    (void)state;
    const uint32_t devices = FEWER(10000, 2000);
    double few = seconds_to_evaluate(devices), many = seconds_to_evaluate(8 * devices);
    print_message("%u devices: %.3f s, eight times as many: %.3f s\n", devices, few, many);
    assert_true(many < 40 * few);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_savings_come_first_and_findings_without_last),
        cmocka_unit_test(severity_is_the_share_of_a_step_unless_a_rule_knows_better),
        cmocka_unit_test(what_is_out_of_range_is_nothing),
        cmocka_unit_test(each_rule_has_its_own_id_and_words),
        cmocka_unit_test(of_much_evidence_the_heaviest_is_kept),
        cmocka_unit_test(the_usual_evidence_is_five_and_the_most_a_thousand),
        cmocka_unit_test(what_is_said_is_cut_between_characters),
        cmocka_unit_test(the_same_on_several_ranks_is_one_with_the_savings_of_the_worst),
        cmocka_unit_test(a_finding_without_savings_is_that_of_the_worst_rank),
        cmocka_unit_test(other_subjects_and_other_rules_stay_apart),
        cmocka_unit_test(a_rule_that_one_rank_can_evaluate_is_evaluated),
        cmocka_unit_test(rules_that_compare_ranks_wait_for_a_second_one),
        cmocka_unit_test(only_findings_of_the_same_rules_can_be_added),
        cmocka_unit_test(savings_are_of_a_step_and_do_not_need_the_trace),
        cmocka_unit_test(a_single_wait_is_less_sure),
        cmocka_unit_test(confidence_falls_with_what_was_lost),
        cmocka_unit_test(the_names_of_evidence_are_cut_between_characters),
        cmocka_unit_test(what_takes_the_place_of_lighter_evidence_has_its_own_names),
        cmocka_unit_test(facts_come_with_findings_if_they_are_wanted),
        cmocka_unit_test(rules_are_named_by_id_or_by_what_stands_before_the_point),
        cmocka_unit_test(gates_stop_findings_whose_savings_exceed_their_limit),
        cmocka_unit_test(a_gate_says_why_it_does_not_pass),
        cmocka_unit_test(unknown_gates_are_errors),
        cmocka_unit_test(many_devices_take_no_longer_than_they_are_many),
    };
    return RUN_TESTS(tests);
}

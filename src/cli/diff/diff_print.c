/* A diff on a terminal: the verdict, conditions, steps, the changes with the largest effect on a step first,
 * findings and gates. */
#include "cli/diff/diff.h"
#include "cli/open_many.h"

#include "cli/print_facts.h"
#include "cli/style.h"

#include <math.h>

/* ---- cells ----------------------------------------------------------------------------------- */

/* A cell by the name of its column. False: the table has no such column, or the cell has no
 * value. */
static bool find_fact(const kineto_analysis *a, uint32_t table, uint64_t row, const char *name,
                      kineto_fact *out)
{
    kineto_fact_column c;
    for (uint32_t i = 0; kineto_analysis_column(a, table, i, &c); i++)
        if (kb_string_equal(c.name, kb_string(name)))
            return kineto_analysis_fact(a, table, row, i, out) && !out->is_none;
    return false;
}

double kc_fact_number(const kineto_analysis *a, uint32_t table, uint64_t row, const char *column)
{
    kineto_fact f;
    if (!find_fact(a, table, row, column, &f))
        return (double)NAN;
    return f.type == KINETO_CELL_NUMBER ? f.d : (double)f.i;
}

kineto_string kc_fact_text(const kineto_analysis *a, uint32_t table, uint64_t row,
                           const char *column)
{
    kineto_fact f;
    return find_fact(a, table, row, column, &f) ? f.text : (kineto_string){"", 0};
}

uint64_t kc_fact_rows(const kineto_analysis *a, uint32_t table)
{
    kineto_fact_table info;
    return kineto_analysis_table(a, table, &info) ? info.row_count : 0;
}

/* "-" if the number is not finite, or too large for a duration. */
kb_text kc_us(double us, bool sign)
{
    kb_text text = {"-"};
    if (!isfinite(us) || fabs(us) > 1e15)
        return text;
    kb_text plain = kb_duration((int64_t)(us * 1000));
    (void)snprintf(text.s, sizeof text.s, "%s%.60s", sign && us > 0 ? "+" : "", plain.s);
    return text;
}

/* Runs without steps have none in the table of runs. */
const char *kc_diff_unit(const kineto_analysis *a)
{
    uint32_t t = kineto_analysis_find_table(a, "diff_runs");
    for (uint64_t row = 0; row < kc_fact_rows(a, t); row++)
        if (kc_fact_number(a, t, row, "steps") > 0)
            return "step";
    return "run";
}

/* The last row of the step is the other one. */
const char *kc_diff_middle(const kineto_analysis *a)
{
    uint32_t t = kineto_analysis_find_table(a, "diff_steps");
    uint64_t rows = kc_fact_rows(a, t);
    bool is_median = rows && kb_string_equal(kc_fact_text(a, t, rows - 1, "what"), kb_string("mean step"));
    return is_median ? "median" : "mean";
}

/* The table of runs has one row a side for traces that are compared by their steps. */
const char *kc_diff_values_are(const kineto_analysis *a)
{
    return kc_fact_rows(a, kineto_analysis_find_table(a, "diff_runs")) > 2 ? "runs" : "steps";
}

/* Percentages of ten times and more are hard to read. */
kb_text kc_relative_change(double pct)
{
    kb_text text = {""};
    if (isfinite(pct) && pct < 900)
        (void)snprintf(text.s, sizeof text.s, "%+.1f %%", pct);
    else if (isfinite(pct))
        (void)snprintf(text.s, sizeof text.s, "%.*f x", pct < 9000, 1 + pct / 100);
    return text;
}

/* Column "sure" says how the difference was decided: by an interval, or by a rank test. */
kb_text kc_interval(const kineto_analysis *a, uint32_t table, uint64_t row)
{
    double low = kc_fact_number(a, table, row, "ci_low_pct"),
           high = kc_fact_number(a, table, row, "ci_high_pct");
    kb_text text;
    (void)snprintf(text.s, sizeof text.s, "too few %s to distinguish it from noise", kc_diff_values_are(a));
    if (kb_string_equal(kc_fact_text(a, table, row, "sure"), kb_string("ranks")))
        (void)snprintf(text.s, sizeof text.s, "more than noise by a rank test (Mann-Whitney)");
    else if (kb_string_equal(kc_fact_text(a, table, row, "sure"), kb_string("calls")) && isnan(low))
        (void)snprintf(text.s, sizeof text.s, "more than noise by typical calls");
    else if (isfinite(low) && high < 900)
        (void)snprintf(text.s, sizeof text.s, "95 %% interval %+.1f … %+.1f %%", low, high);
    else if (isfinite(low))
        (void)snprintf(text.s, sizeof text.s, "95 %% interval %.3g … %.3g x", 1 + low / 100, 1 + high / 100);
    else if (kb_string_equal(kc_fact_text(a, table, row, "sure"), kb_string("yes")))
        (void)snprintf(text.s, sizeof text.s, "more than noise");
    else if (kb_string_equal(kc_fact_text(a, table, row, "sure"), kb_string("no")))
        (void)snprintf(text.s, sizeof text.s, "no more than noise");
    return text;
}

/* Red: slower, or more. Green: the opposite. Plain: no more than noise, or unknown. */
static kc_style change_style(const kineto_analysis *a, uint32_t t, uint64_t row)
{
    kineto_string sure = kc_fact_text(a, t, row, "sure");
    double delta = kc_fact_number(a, t, row, "delta_us");
    bool is_sure = kb_string_equal(sure, kb_string("yes")) || kb_string_equal(sure, kb_string("ranks")) || kb_string_equal(sure, kb_string("calls"));
    return !is_sure || !isfinite(delta) || delta == 0 ? KC_PLAIN : delta > 0 ? KC_RED : KC_GREEN;
}

/* A heading after an empty line. */
static void print_heading(FILE *out, const char *before, const char *unit, const char *after)
{
    fputc('\n', out);
    kc_put_styled(out, KC_BOLD, "%s%s%s", before, unit, after);
    fputc('\n', out);
}

bool kc_is_circumstance(const kineto_analysis *a, uint32_t table, uint64_t row)
{
    return kc_fact_number(a, table, row, "is_circumstance") > 0;
}

/* "typical call 2.2 ms -> 3.2 ms (+1.0 ms) in all 3 runs; 1 a step: +1.0 ms, 86 % of the difference" */
void kc_put_typical_call(const kineto_analysis *a, uint32_t table, uint64_t row, FILE *out)
{
    double calls = kc_fact_number(a, table, row, "after_calls"), share = kc_fact_number(a, table, row, "share_pct"),
           orders = kc_fact_number(a, table, row, "orders");
    unsigned before = (unsigned)kc_fact_number(a, table, row, "before_runs"),
             after = (unsigned)kc_fact_number(a, table, row, "after_runs");
    bool is_step = kb_string_equal(kc_fact_text(a, table, row, "kind"), kb_string("step"));
    fprintf(out, "%s%s -> %s (%s, %s)", is_step ? "" : "typical call (fast quarter of calls) ",
            kc_us(kc_fact_number(a, table, row, "before_us"), false).s,
            kc_us(kc_fact_number(a, table, row, "after_us"), false).s,
            kc_us(kc_fact_number(a, table, row, "delta_us"), true).s,
            kc_relative_change(kc_fact_number(a, table, row, "delta_pct")).s);
    if (isfinite(orders) && before == after)
        fprintf(out, " in all %u runs", after);
    else if (isfinite(orders))
        fprintf(out, " in all runs");
    if (is_step)
        return;
    fprintf(out, "; %.4g %s a %s: %s", calls, calls > 1 ? "calls" : "call", kc_diff_unit(a),
            kc_us(kc_fact_number(a, table, row, "effect_us"), true).s);
    if (isfinite(share))
        fprintf(out, ", %.0f %% of the difference", share);
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* "a.json: ", or "a1.json, a2.json and 3 more (5 runs): ". */
static void print_side_name(const kc_diff_output *d, uint32_t side, FILE *out)
{
    uint32_t count = d->run_count[side], shown = (uint32_t)kc_count_shown(count, 2);
    for (uint32_t i = 0; i < shown; i++) {
        fputs(i ? ", " : "", out);
        kc_put_name(out, kb_string(d->paths[side][i]), 0);
    }
    if (count > shown)
        fprintf(out, " and %u more", count - shown);
    if (count > 1)
        fprintf(out, " (%u runs)", count);
    fputs(": ", out);
}

/* Both paths with their activities, losses and compared steps. */
static void print_traces(const kc_diff_output *d, FILE *out)
{
    uint32_t steps = kineto_analysis_find_table(d->facts, "diff_steps");
    static const char *const words[] = {"before", "after"}, *const columns[] = {"before_steps",
                                                                                "after_steps"};
    for (uint32_t i = 0; i < 2; i++) {
        fprintf(out, "%-6s  ", words[i]);
        print_side_name(d, i, out);
        fprintf(out, "%s activities", kc_count(d->activities[i]).s);
        fprintf(out, ", %s lost", kc_lost_text(d->lost[i], d->is_cut[i]).s);
        if (steps != UINT32_MAX) {
            uint64_t count = (uint64_t)kc_fact_number(d->facts, steps, 0, columns[i]);
            if (strcmp(kc_diff_unit(d->facts), "run") == 0 && count)
                fputs(", compared as a whole", out);
            else
                fprintf(out, ", %s %s compared", kc_count(count).s, kc_noun(count, "step", "steps"));
        }
        fputc('\n', out);
    }
}

/* "before -> after, difference (percent; interval)". */
static void print_step_change(const kineto_analysis *a, uint32_t t, uint64_t row, FILE *out)
{
    double before = kc_fact_number(a, t, row, "before_us"),
           after = kc_fact_number(a, t, row, "after_us"),
           delta = kc_fact_number(a, t, row, "delta_us"),
           pct = kc_fact_number(a, t, row, "delta_pct");
    fprintf(out, "%s -> %s", isnan(before) ? "none" : kc_us(before, false).s,
            isnan(after) ? "none" : kc_us(after, false).s);
    if (delta == 0)
        fputs(", no difference", out);
    else if (isfinite(pct))
        fprintf(out, ", %s%s (%s; %s)%s", kc_paint(out, change_style(a, t, row)), kc_us(delta, true).s,
                kc_relative_change(pct).s, kc_interval(a, t, row).s, kc_paint(out, KC_PLAIN));
    fputc('\n', out);
}

void kc_diff_print_ranks(const kineto_analysis *a, FILE *out)
{
    enum { MAX_ROWS = 10 };
    uint32_t t = kineto_analysis_find_table(a, "diff_ranks");
    uint64_t first = kc_diff_has_origin(a), rows = kc_fact_rows(a, t);
    for (uint64_t row = first; row < rows && row < MAX_ROWS; row++) {
        fputs(row > first ? "  " : first ? "Ranks that differ, too\n  " : "Ranks that differ\n  ", out);
        kc_put_name(out, kc_fact_text(a, t, row, "sentence"), 0);
        fputc('\n', out);
    }
    if (rows > MAX_ROWS)
        fprintf(out, "  … and %llu more\n", (unsigned long long)(rows - MAX_ROWS));
    fputs(rows > first ? "\n" : "", out);
}

/* Conditions that differ between the runs, which the reader must take into account. */
static void print_conditions(const kc_diff_output *d, FILE *out)
{
    uint32_t t = kineto_analysis_find_table(d->facts, "diff_conditions");
    uint64_t rows = kc_fact_rows(d->facts, t);
    for (uint64_t row = 0; row < rows; row++) {
        if (row)
            fputs("; ", out);
        else
            kc_put_styled(out, KC_YELLOW, "different conditions:");
        fputs(row ? "" : " ", out);
        kc_put_name(out, kc_fact_text(d->facts, t, row, "what"), 0);
        fputc(' ', out);
        kc_put_name(out, kc_fact_text(d->facts, t, row, "before"), 0);
        fputs(" -> ", out);
        kc_put_name(out, kc_fact_text(d->facts, t, row, "after"), 0);
    }
    fputs(rows ? "\n\n" : "", out);
}

/* The parts of a step that differ by more than noise, and the rest: the sum of all lines is
 * the difference of the step. Nothing if no part stands out. */
static void print_waterfall(const kc_diff_output *d, FILE *out)
{
    uint32_t t = kineto_analysis_find_table(d->facts, "diff_waterfall");
    uint64_t rows = kc_fact_rows(d->facts, t);
    if (rows < 3) /* no part differs by more than noise: the line of the step is enough */
        return;
    print_heading(out, "The ", kc_diff_unit(d->facts), ", part by part");
    for (uint64_t row = 0; row < rows; row++) {
        kineto_string part = kc_fact_text(d->facts, t, row, "part");
        if (kb_string_equal(part, kb_string("step with its work")) &&
            strcmp(kc_diff_unit(d->facts), "run") == 0)
            part = kb_string("run");
        if (kb_string_equal(part, kb_string("unexplained")))
            part = kb_string("unexplained (in the noise)");
        bool follows = kb_string_equal(part, kb_string("communication")) &&
                       kc_diff_is_step_consequence(d->facts, kc_fact_number(d->facts, t, row, "delta_us"));
        fprintf(out, "  %12s %+7.1f %%  %-26.*s  %s -> %s%s\n",
                kc_us(kc_fact_number(d->facts, t, row, "delta_us"), true).s,
                kc_fact_number(d->facts, t, row, "worth_pct"), (int)part.size, part.data,
                kc_us(kc_fact_number(d->facts, t, row, "before_us"), false).s,
                kc_us(kc_fact_number(d->facts, t, row, "after_us"), false).s, follows ? "  (as a consequence)" : "");
    }
}

/* Is the step with its work the step itself, as without devices? */
static bool is_step_again(const kineto_analysis *a, uint32_t t, uint64_t row)
{
    static const char *const columns[] = {"before_us", "after_us"};
    bool is_same = true;
    for (size_t i = 0; i < KB_COUNT(columns); i++) {
        double own = kc_fact_number(a, t, row, columns[i]), step = kc_fact_number(a, t, 0, columns[i]);
        is_same &= own == step || (isnan(own) && isnan(step));
    }
    return is_same;
}

/* What a row of the step is the mean or median of; empty: it says nothing new. Runs without steps have no work that
 * ends after them. */
static kb_text name_step_row(const kineto_analysis *a, uint32_t t, uint64_t row)
{
    kb_text name = {""};
    const char *unit = kc_diff_unit(a), *middle = kc_diff_middle(a);
    kineto_string what = kc_fact_text(a, t, row, "what");
    if (kb_string_equal(what, kb_string("step")))
        (void)snprintf(name.s, sizeof name.s, "%s %s", middle, unit);
    else if (!kb_string_equal(what, kb_string("step with its work")))
        (void)snprintf(name.s, sizeof name.s, "%s %s", strcmp(middle, "mean") == 0 ? "median" : "mean", unit);
    else if (strcmp(unit, "step") == 0 && !is_step_again(a, t, row))
        (void)snprintf(name.s, sizeof name.s, "%s with its work", middle);
    return name;
}

/* The typical step, if runs prove that it differs, with the probability of that by chance. */
static void print_typical_step(const kc_diff_output *d, FILE *out)
{
    uint32_t t = kineto_analysis_find_table(d->facts, "diff_calls");
    for (uint64_t row = 0; row < kc_fact_rows(d->facts, t); row++) {
        double orders = kc_fact_number(d->facts, t, row, "orders");
        if (!kb_string_equal(kc_fact_text(d->facts, t, row, "kind"), kb_string("step")))
            continue;
        fprintf(out, "%-20s ", "typical step");
        kc_put_typical_call(d->facts, t, row, out);
        fputs("; the fast quarter of steps", out);
        if (isfinite(orders))
            fprintf(out, "; could be chance: 1 in %.0f", orders);
        fputc('\n', out);
    }
}

/* The step and its parts, and the note of the table. */
static void print_step_rows(const kc_diff_output *d, FILE *out)
{
    kineto_fact_table info;
    uint32_t t = kineto_analysis_find_table(d->facts, "diff_steps");
    uint64_t rows = kc_fact_rows(d->facts, t);
    fputc('\n', out);
    for (uint64_t row = 0; row < rows; row++) {
        kb_text name = name_step_row(d->facts, t, row);
        if (!name.s[0])
            continue;
        fprintf(out, "%-20s ", name.s);
        print_step_change(d->facts, t, row, out);
    }
    print_typical_step(d, out);
    kineto_analysis_table(d->facts, t, &info);
    if (info.note.size)
        fprintf(out, "(%.*s)\n", (int)info.note.size, info.note.data);
}

#define CHANGE_COLUMNS 53 /* of a row before the name */
#define TIME_COLUMNS   27 /* of both times */

/* One row of the summary: effect on a step, kind, name, times, interval. */
static void print_change_row(const kc_diff_output *d, uint32_t t, uint64_t row, FILE *out)
{
    kineto_string kind = kc_fact_text(d->facts, t, row, "kind"),
                  name = kc_fact_text(d->facts, t, row, "name"),
                  change = kc_fact_text(d->facts, t, row, "change");
    fprintf(out, "  %s%12s %+7.1f %%%s  %-16.*s  %-7.*s  ", kc_paint(out, change_style(d->facts, t, row)),
            kc_us(kc_fact_number(d->facts, t, row, "delta_us"), true).s,
            kc_fact_number(d->facts, t, row, "worth_pct"), kc_paint(out, KC_PLAIN), (int)kind.size, kind.data,
            (int)change.size, change.data);
    char times[160];
    kb_text interval = kc_interval(d->facts, t, row);
    size_t width = kc_page_width(out), room = width - KB_MIN(width, (size_t)CHANGE_COLUMNS);
    int n = snprintf(times, sizeof times, "  %s -> %s",
                     kc_us(kc_fact_number(d->facts, t, row, "before_us"), false).s,
                     kc_us(kc_fact_number(d->facts, t, row, "after_us"), false).s);
    kc_put_name(out, name, KB_MAX(KB_MIN(room - KB_MIN(room, (size_t)TIME_COLUMNS), (size_t)44), (size_t)16));
    fputs(times, out);
    /* Where there is no room for it, --json has the interval. */
    fprintf(out, strlen(interval.s) + (size_t)n + 47 <= room ? " (%s)\n" : "\n", interval.s);
}

/* Typical calls that differ. Returns how many there are. */
static uint64_t print_typical_calls(const kc_diff_output *d, FILE *out)
{
    uint32_t t = kineto_analysis_find_table(d->facts, "diff_calls");
    uint64_t shown = 0;
    for (uint64_t row = 0; row < kc_fact_rows(d->facts, t); row++) {
        if (kb_string_equal(kc_fact_text(d->facts, t, row, "kind"), kb_string("step")))
            continue;
        fputs("  ", out);
        kc_put_name(out, kc_fact_text(d->facts, t, row, "name"), 0);
        fputs(": ", out);
        kc_put_typical_call(d->facts, t, row, out);
        fputc('\n', out);
        shown++;
    }
    return shown;
}

/* At most `limit` rows; 0: all. Those that only typical calls prove are listed already. */
static void print_change_rows(const kc_diff_output *d, uint64_t limit, FILE *out)
{
    kineto_fact_table info;
    uint32_t t = kineto_analysis_find_table(d->facts, "diff_summary");
    uint64_t rows = kc_fact_rows(d->facts, t), shown = limit ? KB_MIN(rows, limit) : rows;
    print_heading(out, "Changes, largest effect first (in % of the ", kc_diff_unit(d->facts), " before)");
    uint64_t typical = print_typical_calls(d, out);
    for (uint64_t row = 0; row < shown; row++)
        if (!kb_string_equal(kc_fact_text(d->facts, t, row, "sure"), kb_string("calls")))
            print_change_row(d, t, row, out);
    kineto_analysis_table(d->facts, t, &info);
    if (!rows && !typical)
        fprintf(out, "  %.*s\n", (int)info.note.size, info.note.data);
    if (shown < rows)
        fprintf(out, "  %s… and %s more: --top 0, --all%s\n", kc_paint(out, KC_DIM), kc_count(rows - shown).s,
                kc_paint(out, KC_PLAIN));
}

/* A finding of both traces with different savings. */
static void print_changed_finding(const kc_diff_output *d, uint32_t t, uint64_t row, FILE *out)
{
    static const char *const words[] = {"before", "after"},
                             *const savings[] = {"before_us", "after_us"},
                             *const sentences[] = {"sentence_before", "sentence"};
    for (uint32_t i = 0; i < 2; i++) {
        double us = kc_fact_number(d->facts, t, row, savings[i]);
        fprintf(out, "\n           %s: ", words[i]);
        if (isfinite(us))
            fprintf(out, "would save %s of a %s; ", kc_us(us, false).s, kc_diff_unit(d->facts));
        kc_put_name(out, kc_fact_text(d->facts, t, row, sentences[i]), 0);
    }
    fputc('\n', out);
}

bool kc_is_finding_in_noise(const kineto_analysis *a, uint32_t table, uint64_t row)
{
    uint32_t steps = kineto_analysis_find_table(a, "diff_steps");
    double us = kc_smallest_shown_pct(a) / 100 * kc_fact_number(a, steps, 0, "before_us");
    return fabs(kc_fact_number(a, table, row, "predicted_us")) < us;
}

/* A finding that was added, removed or changed. The step need not be shorter by what a finding that is gone could
 * have saved: its cause may still be there, below the limit of the finding. */
static void print_diff_finding(const kc_diff_output *d, uint32_t t, uint64_t row, FILE *out)
{
    kineto_string change = kc_fact_text(d->facts, t, row, "change"),
                  subject = kc_fact_text(d->facts, t, row, "subject");
    double predicted = kc_fact_number(d->facts, t, row, "predicted_us");
    bool is_changed = kb_string_equal(change, kb_string("changed")), is_added = kb_string_equal(change, kb_string("added"));
    fprintf(out, "  %s (", is_changed ? "changed" : is_added ? "newly found" : "no longer found");
    kc_put_name(out, kc_fact_text(d->facts, t, row, "id"), 0);
    if (subject.size) {
        fputs(", ", out);
        kc_put_name(out, (kineto_string){subject.data, KB_MIN(subject.size, (size_t)60)}, 0);
    }
    fputc(')', out);
    if (is_changed) {
        print_changed_finding(d, t, row, out);
        return;
    }
    if (isfinite(predicted) && predicted != 0)
        fprintf(out, ": %s up to %s of a %s", is_added ? "would save" : "would have saved", kc_us(fabs(predicted), false).s,
                kc_diff_unit(d->facts));
    fputs("\n           ", out);
    kc_put_name(out, kc_fact_text(d->facts, t, row, "sentence"), 0);
    fputc('\n', out);
}

/* Positive differences are savings: the step is shorter. */
static void print_difference(double us, FILE *out)
{
    if (us == 0)
        fputs("the same", out);
    else
        fprintf(out, "%s %s", kc_us(fabs(us), false).s, us > 0 ? "shorter" : "longer");
}

/* The measured difference of steps, to compare with predictions. */
static void print_measured_change(const kc_diff_output *d, uint32_t t, FILE *out)
{
    double mean = kc_fact_number(d->facts, t, 0, "measured_us"),
           median = kc_fact_number(d->facts, t, 0, "measured_median_us");
    if (!isfinite(mean) || !isfinite(median))
        return;
    fprintf(out, "  the mean %s is ", kc_diff_unit(d->facts));
    print_difference(mean, out);
    fputs(", the median ", out);
    print_difference(median, out);
    fputc('\n', out);
}

/* Circumstances, or all other findings, under `head` unless it is NULL. Returns how many there are. Differences of
 * savings that are no more than the noise of the step are left out. */
static uint64_t print_findings_that_are(const kc_diff_output *d, uint32_t t, bool circumstance, const char *head,
                                        FILE *out)
{
    uint64_t shown = 0;
    for (uint64_t row = 0; row < kc_fact_rows(d->facts, t); row++) {
        if (kc_is_circumstance(d->facts, t, row) != circumstance || kc_is_finding_in_noise(d->facts, t, row))
            continue;
        if (!shown++ && head)
            fputs(head, out);
        print_diff_finding(d, t, row, out);
    }
    return shown;
}

/* How many findings differ by less than the noise of the step. */
static void print_findings_left_out(const kc_diff_output *d, uint32_t t, FILE *out)
{
    uint64_t count = 0;
    for (uint64_t row = 0; row < kc_fact_rows(d->facts, t); row++)
        count += kc_is_finding_in_noise(d->facts, t, row);
    if (count)
        fprintf(out, "  %sleft out: %s %s whose savings differ by less than the noise of the %s: --all%s\n",
                kc_paint(out, KC_DIM), kc_count(count).s, kc_noun(count, "finding", "findings"),
                kc_diff_unit(d->facts), kc_paint(out, KC_PLAIN));
}

/* Nothing if findings were not compared (--no-findings). */
static void print_diff_findings(const kc_diff_output *d, FILE *out)
{
    uint32_t t = kineto_analysis_find_table(d->facts, "diff_findings");
    if (t == UINT32_MAX)
        return;
    print_heading(out, "Findings that differ", "", "");
    uint64_t changes = print_findings_that_are(d, t, false, NULL, out);
    if (!changes)
        fputs("  none\n", out);
    else
        print_measured_change(d, t, out);
    print_findings_left_out(d, t, out);
    (void)print_findings_that_are(d, t, true, "\nCircumstances: other programs on the machine, no change of this one\n",
                                  out);
}

/* Verdict, gate and the sentence that explains it, in the order of the command line. */
static void print_gates(const kc_diff_output *d, FILE *out)
{
    static const kc_style styles[] = {
        [KINETO_DIFF_PASSED] = KC_GREEN,
        [KINETO_DIFF_FAILED] = KC_RED,
        [KINETO_DIFF_SKIPPED] = KC_YELLOW,
        [KINETO_DIFF_INCONCLUSIVE] = KC_YELLOW};
    if (d->gate_count)
        print_heading(out, "Gates", "", "");
    for (size_t i = 0; i < d->gate_count; i++) {
        uint32_t outcome = d->gates[i].verdict.outcome;
        fputs("  ", out);
        kc_put_styled(out, styles[outcome % KB_COUNT(styles)], "%-10s", kineto_diff_outcome_name(outcome));
        fputs("  ", out);
        kc_put_name(out, kb_string(d->gates[i].text), 0);
        fputs(": ", out);
        kc_put_name(out, kb_string(d->gates[i].verdict.sentence), 0);
        fputc('\n', out);
    }
}

/* The HTA definitions have only plain tables. */
void kc_diff_print(const kc_diff_output *d, uint64_t row_limit, bool all, FILE *out)
{
    bool exact = kineto_analysis_find_table(d->facts, "diff_steps") != UINT32_MAX;
    for (uint32_t side = 0; side < 2; side++)
        kc_print_coverage(&d->coverage[side], side ? "after" : "before", out);
    if (exact) {
        kc_diff_print_verdict(d, out);
        kc_diff_print_ranks(d->facts, out);
        print_conditions(d, out);
    }
    print_traces(d, out);
    if (exact) {
        print_step_rows(d, out);
        print_waterfall(d, out);
        print_change_rows(d, row_limit, out);
        print_diff_findings(d, out);
    }
    if (all || !exact)
        kc_facts_print(d->facts, row_limit, false, out);
    print_gates(d, out);
}

void kc_diff_print_next(const kc_diff_output *d, FILE *out)
{
    enum { MAX_NAME_BYTES = 100 };
    bool has_runs = d->run_count[0] > 1 || d->run_count[1] > 1;
    if (!kc_fact_rows(d->facts, kineto_analysis_find_table(d->facts, "diff_summary")))
        return;
    fprintf(out, "\nnext: ckineto diff --fail-on 'step>5%%'%s", has_runs ? " --runs" : "");
    for (uint32_t side = 0; side < 2; side++) {
        fputs(has_runs && side ? " --" : "", out);
        for (uint32_t i = 0; i < d->run_count[side]; i++)
            fprintf(out, " %s", kc_command_word(d->paths[side][i], MAX_NAME_BYTES));
    }
    fputc('\n', out);
}

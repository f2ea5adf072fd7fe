/* The first lines of a comparison: the rank or link that makes one of the runs longer, if there is one; then whether the program
 * is slower, faster, or no different beyond noise, by how much, and which of its parts explains that. It decides like the gates: by the interval of the step, by typical calls of all
 * runs, or by ranks. */
#include "cli/diff/diff.h"
#include "cli/style.h"

#include <math.h>

/* ---- facts ----------------------------------------------------------------------------------- */

/* The row of the typical step, which is there only if it differs. False: there is none. */
static bool find_typical_step(const kineto_analysis *a, uint32_t calls, uint64_t *out)
{
    for (uint64_t row = 0; row < kc_fact_rows(a, calls); row++)
        if (kb_string_equal(kc_fact_text(a, calls, row, "kind"), kb_string("step"))) {
            *out = row;
            return true;
        }
    return false;
}

/* The first row about something else than the step: the largest effect. False: there is none. */
static bool find_typical_cause(const kineto_analysis *a, uint32_t calls, uint64_t *out)
{
    for (uint64_t row = 0; row < kc_fact_rows(a, calls); row++)
        if (!kb_string_equal(kc_fact_text(a, calls, row, "kind"), kb_string("step"))) {
            *out = row;
            return true;
        }
    return false;
}

/* "mean" or "median": what a row of the step is; the last row is the other one. */
static const char *middle_of_row(const kineto_analysis *a, uint64_t row)
{
    bool is_mean = (strcmp(kc_diff_middle(a), "mean") == 0) == (row == 0);
    return is_mean ? "mean" : "median";
}

/* The smallest change that the interval of a row does not hide. */
static double smallest_shown_of_row(const kineto_analysis *a, uint32_t t, uint64_t row)
{
    double high = kc_fact_number(a, t, row, "ci_high_pct"), pct = kc_fact_number(a, t, row, "delta_pct");
    return 100 * ((1 + high / 100) / (1 + pct / 100) - 1);
}

/* Of mean and median the one with less noise. */
static uint64_t find_sharper_row(const kineto_analysis *a, uint32_t t)
{
    uint64_t rows = kc_fact_rows(a, t), last = rows ? rows - 1 : 0;
    double first = smallest_shown_of_row(a, t, 0);
    return isnan(first) || smallest_shown_of_row(a, t, last) < first ? last : 0;
}

double kc_smallest_shown_pct(const kineto_analysis *a)
{
    uint32_t t = kineto_analysis_find_table(a, "diff_steps");
    return smallest_shown_of_row(a, t, find_sharper_row(a, t));
}

/* Does a row of the step differ by more than noise? */
static bool is_row_proven(const kineto_analysis *a, uint32_t t, uint64_t row)
{
    kineto_string sure = kc_fact_text(a, t, row, "sure");
    return (kb_string_equal(sure, kb_string("yes")) || kb_string_equal(sure, kb_string("ranks"))) &&
           kc_fact_number(a, t, row, "delta_us") != 0;
}

/* A name, cut where it is long. */
static void print_row_name(const kineto_analysis *a, uint32_t t, uint64_t row, FILE *out)
{
    kineto_string name = kc_fact_text(a, t, row, "name");
    kc_put_name(out, (kineto_string){name.data, KB_MIN(name.size, (size_t)60)}, 0);
}

/* ---- the origin ------------------------------------------------------------------------------ */

/* A rank or link that makes one of the runs longer is what the user looks for; longer communication of all the other ranks is what
 * follows from it. So it is printed before the step. */
#define MIN_CONFIDENCE 0.5 /* below, a cause is only a row */

bool kc_diff_has_origin(const kineto_analysis *a)
{
    uint32_t t = kineto_analysis_find_table(a, "diff_ranks");
    return kc_fact_rows(a, t) > 0 && kc_fact_number(a, t, 0, "confidence") >= MIN_CONFIDENCE;
}

void kc_diff_print_origin(const kineto_analysis *a, FILE *out)
{
    kc_put_styled(out, KC_BOLD, "Origin");
    fputs(": ", out);
    kc_put_name(out, kc_fact_text(a, kineto_analysis_find_table(a, "diff_ranks"), 0, "sentence"), 0);
    fputs(".\n", out);
}

bool kc_diff_is_consequence(const kineto_analysis *a, double run_delta_us)
{
    uint32_t t = kineto_analysis_find_table(a, "diff_ranks");
    if (!kc_diff_has_origin(a) || run_delta_us == 0)
        return false;
    if (kb_string_is(kc_fact_text(a, t, 0, "what"), "transfers")) /* the row is of one transfer; it explains half of a step, or is no origin */
        return (kc_fact_number(a, t, 0, "delta_us") > 0) == (run_delta_us > 0);
    return kc_fact_number(a, t, 0, "delta_us") / run_delta_us >= 0.5;
}

bool kc_diff_is_step_consequence(const kineto_analysis *a, double step_delta_us)
{
    uint32_t t = kineto_analysis_find_table(a, "diff_steps");
    return kc_diff_is_consequence(a, step_delta_us * kc_fact_number(a, t, 0, "after_steps"));
}

/* ---- sentences ------------------------------------------------------------------------------- */

/* "Slower: " or "Faster: ", or "As a consequence slower: " */
static void print_direction(const kineto_analysis *a, double delta, FILE *out)
{
    bool follows = kc_diff_is_step_consequence(a, delta);
    fputs(follows ? "As a consequence " : "", out);
    kc_put_styled(out, delta > 0 ? KC_RED : KC_GREEN, delta > 0 ? follows ? "slower" : "Slower" : follows ? "faster" : "Faster");
    fputs(": ", out);
}

/* "; load_batch +0.95 ms explains 86 % of it", of typical calls that change in the direction of the step. */
static void print_typical_cause(const kineto_analysis *a, uint32_t calls, FILE *out)
{
    uint64_t row;
    if (!find_typical_cause(a, calls, &row))
        return;
    double share = kc_fact_number(a, calls, row, "share_pct");
    fputs("; ", out);
    print_row_name(a, calls, row, out);
    fprintf(out, " %s", kc_us(kc_fact_number(a, calls, row, "effect_us"), true).s);
    if (share <= 100)
        fprintf(out, " explains %.0f %% of it", share);
    else
        fputs(isfinite(share) ? " explains all of it" : " is the largest change", out);
}

/* "; most in NAME, +0.95 ms": the largest change in the direction of the step. Threads run at the same time, so that
 * it is no share. */
static void print_largest_change(const kineto_analysis *a, double delta, FILE *out)
{
    uint32_t t = kineto_analysis_find_table(a, "diff_summary");
    for (uint64_t row = 0; row < kc_fact_rows(a, t); row++) {
        double own = kc_fact_number(a, t, row, "delta_us");
        if (own * delta <= 0)
            continue;
        fputs("; largest change: ", out);
        print_row_name(a, t, row, out);
        fprintf(out, " %s", kc_us(own, true).s);
        return;
    }
}

static void print_typical_verdict(const kineto_analysis *a, uint32_t calls, uint64_t row, FILE *out)
{
    double delta = kc_fact_number(a, calls, row, "delta_us");
    print_direction(a, delta, out);
    fprintf(out, "a typical step (fast quarter of steps) takes %s instead of %s (%s)",
            kc_us(kc_fact_number(a, calls, row, "after_us"), false).s,
            kc_us(kc_fact_number(a, calls, row, "before_us"), false).s,
            kc_relative_change(kc_fact_number(a, calls, row, "delta_pct")).s);
    double before = kc_fact_number(a, calls, row, "before_runs"), after = kc_fact_number(a, calls, row, "after_runs");
    if (isfinite(kc_fact_number(a, calls, row, "orders"))) {
        fputs(before == after ? " in all " : " in all runs", out);
        if (before == after)
            fprintf(out, "%.0f runs", after);
    }
    print_typical_cause(a, calls, out);
    fputs(".\n", out);
}

/* Of the mean, or of the median. */
static void print_middle_verdict(const kineto_analysis *a, uint32_t t, uint64_t row, FILE *out)
{
    double delta = kc_fact_number(a, t, row, "delta_us");
    print_direction(a, delta, out);
    fprintf(out, "the %s %s takes %s instead of %s (%s; %s)", middle_of_row(a, row), kc_diff_unit(a),
            kc_us(kc_fact_number(a, t, row, "after_us"), false).s,
            kc_us(kc_fact_number(a, t, row, "before_us"), false).s,
            kc_relative_change(kc_fact_number(a, t, row, "delta_pct")).s, kc_interval(a, t, row).s);
    if (row)
        fprintf(out, ", though the %s does not differ by more than noise", middle_of_row(a, 0));
    print_largest_change(a, delta, out);
    fputs(".\n", out);
}

/* The step does not differ by more than noise: what it could have shown, and typical calls that differ. */
static void print_no_difference(const kc_diff_output *d, uint32_t t, FILE *out)
{
    double shown = kc_smallest_shown_pct(d->facts);
    uint32_t calls = kineto_analysis_find_table(d->facts, "diff_calls");
    uint64_t row;
    bool of_runs = strcmp(kc_diff_values_are(d->facts), "runs") == 0;
    double before = of_runs ? d->run_count[0] : kc_fact_number(d->facts, t, 0, "before_steps"),
           after = of_runs ? d->run_count[1] : kc_fact_number(d->facts, t, 0, "after_steps");
    kc_put_styled(out, KC_BOLD, "No difference beyond noise");
    if (shown > 0 && isfinite(shown))
        fprintf(out, ": %.0f %s a side show changes of the %s %s above %.3g %% only", fmin(before, after),
                kc_diff_values_are(d->facts), middle_of_row(d->facts, find_sharper_row(d->facts, t)), kc_diff_unit(d->facts), shown);
    if (find_typical_cause(d->facts, calls, &row)) {
        fputs("; but ", out);
        print_row_name(d->facts, calls, row, out);
        fputs(" differs: ", out);
        kc_put_typical_call(d->facts, calls, row, out);
    }
    fputs(".\n", out);
}

/* Too few steps or runs for an interval. */
static void print_undecided(const kineto_analysis *a, uint32_t t, FILE *out)
{
    double pct = kc_fact_number(a, t, 0, "delta_pct");
    kc_put_styled(out, KC_YELLOW, "Undecided");
    if (isfinite(pct))
        fprintf(out, ": the %s %s differs by %s, but there are %s.\n", kc_diff_middle(a), kc_diff_unit(a),
                kc_relative_change(pct).s, kc_interval(a, t, 0).s);
    else
        fputs(": one of the traces has nothing that takes time.\n", out);
}

void kc_diff_print_verdict(const kc_diff_output *d, FILE *out)
{
    uint32_t t = kineto_analysis_find_table(d->facts, "diff_steps"),
             calls = kineto_analysis_find_table(d->facts, "diff_calls");
    uint64_t rows = kc_fact_rows(d->facts, t), last = rows ? rows - 1 : 0, row;
    double delta = kc_fact_number(d->facts, t, 0, "delta_us");
    bool is_proven = is_row_proven(d->facts, t, 0);
    bool is_known = !kb_string_equal(kc_fact_text(d->facts, t, 0, "sure"), kb_string("unknown"));
    if (kc_diff_has_origin(d->facts))
        kc_diff_print_origin(d->facts, out);
    if (find_typical_step(d->facts, calls, &row) &&
        (!is_proven || kc_fact_number(d->facts, calls, row, "delta_us") * delta > 0))
        print_typical_verdict(d->facts, calls, row, out);
    else if (is_proven || is_row_proven(d->facts, t, last))
        print_middle_verdict(d->facts, t, is_proven ? 0 : last, out);
    else if (delta == 0 || is_known)
        print_no_difference(d, t, out);
    else
        print_undecided(d->facts, t, out);
    fputc('\n', out);
}

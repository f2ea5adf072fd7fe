/* Gates: may a difference pass? A gate fails only if the difference is beyond its limit and not
 * noise, by the bootstrap interval, by the ranks of steps, or by the typical calls of runs. Reads the tables of the difference,
 * whose last eight columns are the cells of ka_put_estimate. */
#include "analyze/diff/diff.h"

/* ---- gates ---------------------------------------------------------------------------------- */

/* Units of limits and values. */
typedef enum unit { PERCENT, MICROSECONDS, BYTES, PLAIN } unit;

/* A table that gates can be about, with the columns that may hold the name. */
typedef struct subject {
    const char *word;
    ka_table_id table;
    unit of; /* what its values are in */
    bool whole_names;
    const char *name, *other; /* columns that may have the name */
} subject;

static const subject subjects[] = {
    {"step", KA_TABLE_diff_steps, MICROSECONDS, true, "what", NULL},
    {"memory", KA_TABLE_diff_memory, BYTES, true, "device", NULL},
    {"kernel", KA_TABLE_diff_kernels, MICROSECONDS, false, "name", "name_before"},
    {"op", KA_TABLE_diff_operators, MICROSECONDS, false, "name", NULL},
    {"function", KA_TABLE_diff_threads, MICROSECONDS, false, "name", "name_before"},
    {"category", KA_TABLE_diff_categories, MICROSECONDS, true, "name", "group"},
    {"counter", KA_TABLE_diff_counters, PLAIN, false, "name", NULL},
};

/* A parsed gate; texts are borrowed from the caller. */
typedef struct gate {
    const char *text;
    const subject *what;
    kineto_string name; /* empty: all of the table */
    bool falls;         /* '<' */
    unit of;
    double limit;
} gate;

/* A number and a unit that fits the subject. Limits may be negative only for what must not fall. */
static bool parse_limit(const char *text, gate *g)
{
    static const struct {
        const char *word;
        unit of;
        double factor;
    } units[] = {{"%", PERCENT, 1},
                 {"ns", MICROSECONDS, 1e-3},
                 {"us", MICROSECONDS, 1},
                 {"ms", MICROSECONDS, 1e3},
                 {"s", MICROSECONDS, 1e6},
                 {"B", BYTES, 1},
                 {"KB", BYTES, 1e3},
                 {"MB", BYTES, 1e6},
                 {"GB", BYTES, 1e9},
                 {"KiB", BYTES, 1024},
                 {"MiB", BYTES, 1048576},
                 {"GiB", BYTES, 1073741824},
                 {"", PLAIN, 1}};
    char *end;
    g->limit = kb_strtod(text, &end);
    if (end == text || !isfinite(g->limit) || (g->limit < 0 && !g->falls))
        return false;
    while (*end == ' ')
        end++;
    g->limit = fabs(g->limit);
    for (size_t i = 0; i < KB_COUNT(units); i++)
        if (strcmp(end, units[i].word) == 0) {
            g->of = units[i].of;
            g->limit *= units[i].factor;
            return isfinite(g->limit) && (g->of == PERCENT || g->of == g->what->of);
        }
    return false;
}

/* Names of kernels have '<' and '>', too: the limit follows the last one. */
static const char *last_sign(const char *text)
{
    const char *sign = NULL;
    for (; *text; text++)
        if (*text == '>' || *text == '<')
            sign = text;
    return sign;
}

/* False: it is not a gate. */
static bool parse_gate(const char *text, gate *g)
{
    const char *sign = last_sign(text);
    size_t word = strcspn(text, ":<>");
    *g = (gate){.text = text, .name = {"", 0}, .falls = sign && *sign == '<'};
    if (!sign)
        return false;
    for (size_t i = 0; i < KB_COUNT(subjects); i++)
        if (kb_string_equal(kb_string(subjects[i].word), (kineto_string){text, word}))
            g->what = &subjects[i];
    if (g->what && text[word] == ':' && sign > text + word)
        g->name = (kineto_string){text + word + 1, (size_t)(sign - text) - word - 1};
    bool may_have_none = g->what && (g->what->of == BYTES || g->what == &subjects[0]);
    if (!g->what || (!g->name.size && !may_have_none))
        return false;
    if (g->what == &subjects[0] && !g->name.size)
        g->name = kb_string("step");
    return parse_limit(sign + 1, g);
}

/* ---- rows ----------------------------------------------------------------------------------- */

/* Names of kernels and operators match by a part, unless one matches as a whole. */
static bool contains_text(kineto_string text, kineto_string part)
{
    return memmem(text.data, text.size, part.data, part.size) != NULL;
}

/* "part.dataloader": a category may be called with its group. */
static bool is_grouped(const ka_table *t, uint64_t row, kineto_string name)
{
    kineto_string group = ka_text_at(t, row, 0), own = ka_text_at(t, row, 1);
    return name.size == group.size + 1 + own.size && name.data[group.size] == '.' &&
           memcmp(name.data, group.data, group.size) == 0 &&
           memcmp(name.data + group.size + 1, own.data, own.size) == 0;
}

/* Does the row match the name of the gate? */
static bool is_named(const gate *g, const ka_table *t, uint64_t row, bool whole)
{
    kineto_string own = ka_text_at(t, row, ka_fact_column(t, g->what->name)), other = {"", 0};
    if (!g->name.size)
        return true;
    if (g->what->table == KA_TABLE_diff_categories && is_grouped(t, row, g->name))
        return true;
    if (g->what->other && g->what->table != KA_TABLE_diff_categories)
        other = ka_text_at(t, row, ka_fact_column(t, g->what->other));
    if (whole)
        return kb_string_equal(own, g->name) || kb_string_equal(other, g->name);
    return contains_text(own, g->name) || contains_text(other, g->name);
}

/* Does any row have exactly this name? Then parts of names do not count. */
static bool any_named(const gate *g, const ka_table *t)
{
    for (uint64_t row = 0; row < ka_table_rows(t); row++)
        if (is_named(g, t, row, true))
            return true;
    return false;
}

/* How one row fares at a gate. NAN: not known. */
typedef struct gate_result {
    kineto_diff_outcome outcome;
    kineto_diff_decider by;
    double value, before, after, low, high;
    double shift; /* by ranks or calls; 0: they prove none */
    const ka_shift *evidence; /* of the row */
    bool by_gap; /* the shift is that of the two runs that are closest to each other */
    int sure;
    bool of_runs; /* values are those of runs, not of steps */
    bool of_medians; /* values are medians, not means */
    bool is_step;
    uint32_t values; /* of the side with fewer */
    kineto_string name;
} gate_result;

/* The value the limit is compared with. A new thing has grown without limit. */
static double gated_value(const gate *g, double before, double after, double delta, double pct)
{
    if (g->of != PERCENT)
        return delta;
    bool is_new = before == 0 && after != 0 && !isnan(after);
    return is_new ? copysign((double)INFINITY, after) : before == 0 && after == 0 ? 0 : pct;
}

/* False for NAN. */
static bool is_beyond(const gate *g, double value)
{
    return g->falls ? value < -g->limit : value > g->limit;
}

/* A percentage of before in the unit of the limit. */
static double in_unit_of_limit(const gate *g, const gate_result *j, double pct)
{
    return g->of == PERCENT ? pct : pct / 100 * fabs(j->before);
}

/* Does the interval hold changes beyond the limit in both directions? Then it cannot decide. */
static bool is_wider_than_limit(const gate *g, const gate_result *j, double low_pct, double high_pct)
{
    return in_unit_of_limit(g, j, low_pct) < -g->limit && in_unit_of_limit(g, j, high_pct) > g->limit;
}

/* Are typical calls within the limit, by an interval that can decide? */
static bool are_calls_within(const gate *g, const gate_result *j)
{
    const ka_shift *s = j->evidence;
    return s->has_calls && isfinite(s->calls_low_pct) && isfinite(s->calls_high_pct) &&
           !is_beyond(g, in_unit_of_limit(g, j, s->calls_pct)) &&
           !is_wider_than_limit(g, j, s->calls_low_pct, s->calls_high_pct);
}

/* What decides: an interval, ranks or typical calls that prove a difference beyond the limit; else the limit; else
 * typical calls within it. Typical calls also decide where the noise of a few calls
 * hides the difference in the mean. */
static kineto_diff_decider decider_of(const gate *g, const gate_result *j, bool without_noise)
{
    const bool by_calls = j->evidence->by_calls || (j->by_gap && j->evidence->has_calls);
    const kineto_diff_decider by_shift = by_calls ? KINETO_DIFF_BY_CALLS : KINETO_DIFF_BY_RANKS;
    bool beyond = is_beyond(g, j->value);
    if (isnan(j->value))
        return KINETO_DIFF_BY_NOTHING;
    if (beyond && j->sure > 0)
        return KINETO_DIFF_BY_INTERVAL;
    if (is_beyond(g, j->shift) && (beyond || by_calls))
        return by_shift;
    if (!beyond)
        return KINETO_DIFF_BY_LIMIT;
    if (j->shift != 0)
        return by_shift;
    if (are_calls_within(g, j))
        return KINETO_DIFF_BY_CALLS;
    if (j->sure == 0)
        return KINETO_DIFF_BY_INTERVAL;
    return without_noise ? KINETO_DIFF_BY_DIFFERENCE : KINETO_DIFF_BY_NOTHING;
}

/* Follows from what decided. */
static kineto_diff_outcome decide_outcome(const gate *g, const gate_result *j)
{
    switch (j->by) {
    case KINETO_DIFF_BY_DIFFERENCE:
        return KINETO_DIFF_FAILED;
    case KINETO_DIFF_BY_INTERVAL:
        return j->sure > 0 ? KINETO_DIFF_FAILED : KINETO_DIFF_INCONCLUSIVE;
    case KINETO_DIFF_BY_RANKS:
    case KINETO_DIFF_BY_CALLS:
        return is_beyond(g, j->shift) ? KINETO_DIFF_FAILED : KINETO_DIFF_PASSED;
    case KINETO_DIFF_BY_NOTHING:
        return KINETO_DIFF_SKIPPED;
    case KINETO_DIFF_BY_LIMIT:
        break;
    }
    return KINETO_DIFF_PASSED;
}

/* Reads a row back into numbers and decides. */
static gate_result evaluate_row(const gate *g, const ka_table *t, uint64_t row, bool without_noise)
{
    uint32_t c = t->column_count - 8;
    kineto_string sure = ka_text_at(t, row, c + 7);
    gate_result j = {.before = ka_cell_at(t, row, c).d,
                     .after = ka_cell_at(t, row, c + 1).d,
                     .low = ka_cell_at(t, row, c + 4).d,
                     .high = ka_cell_at(t, row, c + 5).d,
                     .sure = kb_string_equal(sure, kb_string("yes"))       ? 1
                             : kb_string_equal(sure, kb_string("unknown")) ? -1
                                                                           : 0,
                     .is_step = g->what == &subjects[0],
                     .name = ka_text_at(t, row, ka_fact_column(t, g->what->name))};
    j.value =
        gated_value(g, j.before, j.after, ka_cell_at(t, row, c + 2).d, ka_cell_at(t, row, c + 3).d);
    const ka_shift *shift = &t->shifts.data[row];
    j.shift = g->of == PERCENT ? shift->pct : shift->delta;
    j.evidence = shift;
    j.by_gap = !is_beyond(g, j.shift) && is_beyond(g, in_unit_of_limit(g, &j, shift->gap_pct));
    if (j.by_gap)
        j.shift = in_unit_of_limit(g, &j, shift->gap_pct);
    j.by = decider_of(g, &j, without_noise);
    j.outcome = decide_outcome(g, &j);
    return j;
}

/* A failure outranks a gate that could not be evaluated. */
static bool is_worse(const gate *g, const gate_result *a, const gate_result *b)
{
    static const int rank[] = {
        [KINETO_DIFF_PASSED] = 0, [KINETO_DIFF_SKIPPED] = 1, [KINETO_DIFF_INCONCLUSIVE] = 2, [KINETO_DIFF_FAILED] = 3};
    if (a->outcome != b->outcome)
        return rank[a->outcome] > rank[b->outcome];
    return g->falls ? a->value < b->value : a->value > b->value;
}

/* ---- the answer ----------------------------------------------------------------------------- */

/* For people; "none": not known. */
static kb_text format_value(unit of, double value)
{
    kb_text text = {"none"};
    if (isnan(value))
        return text;
    if (of == MICROSECONDS && fabs(value) < 1e15)
        return kb_duration((int64_t)(value * 1000));
    if (of == BYTES && fabs(value) >= 1e5)
        (void)kb_snprintf(text.s, sizeof text.s, "%.2f MB", value / 1e6);
    else
        (void)kb_snprintf(text.s, sizeof text.s, "%.6g%s", value,
                          of == BYTES     ? " bytes"
                          : of == PERCENT ? " %"
                                          : "");
    return text;
}

#define MULTIPLE_PERCENT 900 /* from ten times on "370 x" is easier to read than a percentage */

/* "new" and "gone" in place of an infinite percentage. */
static kb_text relative_change(const gate_result *j)
{
    kb_text text = {"new"};
    if (isnan(j->after) && isnan(j->before))
        return (kb_text){"unknown"};
    if (isnan(j->after))
        return (kb_text){"gone"};
    if (j->before != j->after && (j->before == 0 || isnan(j->before)))
        return text;
    double pct = j->before == j->after ? 0.0 : 100 * (j->after - j->before) / fabs(j->before);
    if (pct < MULTIPLE_PERCENT)
        (void)kb_snprintf(text.s, sizeof text.s, "%+.2f %%", pct);
    else
        (void)kb_snprintf(text.s, sizeof text.s, "%.*f x", pct < 10 * MULTIPLE_PERCENT, 1 + pct / 100);
    return text;
}

/* The reason in words, for the sentence of a verdict. */
static const char *gate_reason(const gate_result *j, bool without_noise)
{
    const char *const few = j->of_runs ? "within the limit; there are too few runs to know the noise"
                                       : "within the limit; there are too few steps to know the noise";
    bool failed = j->outcome == KINETO_DIFF_FAILED;
    if (failed && j->by_gap && j->by != KINETO_DIFF_BY_INTERVAL && j->by != KINETO_DIFF_BY_DIFFERENCE)
        return "beyond the limit in each run after, compared with each run before";
    if (isnan(j->value))
        return isnan(j->before) && isnan(j->after) ? "it is on neither side"
                                                   : "it is on one side only";
    switch (j->by) {
    case KINETO_DIFF_BY_LIMIT:
        return j->sure < 0 && !without_noise ? few : "within the limit";
    case KINETO_DIFF_BY_INTERVAL:
        return failed ? "beyond the limit, and no noise" : "beyond the limit, but within the noise";
    case KINETO_DIFF_BY_RANKS:
        return failed ? "beyond the limit, and more than noise by a rank test"
               : j->of_runs
                   ? "beyond the limit by a few runs only: a rank test does not prove it"
                   : "beyond the limit by a few steps only: a rank test does not prove it";
    case KINETO_DIFF_BY_CALLS:
        break; /* explain_calls */
    case KINETO_DIFF_BY_DIFFERENCE:
        return "beyond the limit; noise was not considered";
    case KINETO_DIFF_BY_NOTHING:
        break;
    }
    return j->of_runs ? "beyond the limit, but there are too few runs to tell it from noise"
                      : "beyond the limit, but there are too few steps to tell it from noise";
}

/* What ranks say the difference is, where they decide. */
static kb_text describe_shift(const gate *g, const gate_result *j)
{
    kb_text text = {""};
    if (!is_beyond(g, j->value) || j->by == KINETO_DIFF_BY_NOTHING)
        return text;
    if (j->shift == 0 || !isfinite(j->shift))
        return text;
    if (g->of == PERCENT)
        (void)kb_snprintf(text.s, sizeof text.s, " (%+.2f %%)", j->shift);
    else
        (void)kb_snprintf(text.s, sizeof text.s, " (%s%.50s)", j->shift > 0 ? "+" : "",
                          format_value(g->of, j->shift).s);
    return text;
}

/* What changes an interval could show: those that are larger than its upper half. */
static double half_of_interval(double pct, double high_pct)
{
    return 100 * ((1 + high_pct / 100) / (1 + pct / 100) - 1);
}

/* The change that runs or steps could show, where that is more than the limit, and what to do. */
static void describe_resolution(const gate *g, const gate_result *j, char *out, size_t bytes)
{
    const ka_shift *s = j->evidence;
    double half = half_of_interval(100 * (j->after - j->before) / fabs(j->before), j->high);
    if (s->has_calls)
        half = fmin(half, half_of_interval(s->calls_pct, s->calls_high_pct));
    *out = '\0';
    bool is_passed = j->by == KINETO_DIFF_BY_LIMIT && j->sure == 0 && is_wider_than_limit(g, j, j->low, j->high) &&
                     !are_calls_within(g, j);
    if (j->outcome != KINETO_DIFF_INCONCLUSIVE && !is_passed)
        return;
    const char *what = j->of_runs ? "runs" : "steps", *more = j->of_runs ? " (bench --repeat)" : "";
    if (isfinite(half) && half > 0)
        (void)kb_snprintf(out, bytes, "%s %u %s a side show changes above %.3g %% only; use more %s%s, or that limit",
                          is_passed ? ", but" : ":", j->values, what, half, what, more);
    else if (!is_passed)
        (void)kb_snprintf(out, bytes, ": use more %s%s, or a larger limit", what, more);
}

/* ", 95 % interval -23.1 … +60.3 %"; empty: there is none. */
static kb_text describe_interval(const gate_result *j)
{
    kb_text text = {""};
    if (!isnan(j->low) && j->high < MULTIPLE_PERCENT)
        (void)kb_snprintf(text.s, sizeof text.s, ", 95 %% interval %+.2f … %+.2f %%", j->low, j->high);
    else if (!isnan(j->low))
        (void)kb_snprintf(text.s, sizeof text.s, ", 95 %% interval %.3g … %.3g x", 1 + j->low / 100,
                          1 + j->high / 100);
    return text;
}

/* What typical calls say: "slower in all runs, typical step (fast quarter of steps) +15.7 %". */
static int describe_calls(const gate *g, const gate_result *j, char *out, size_t bytes)
{
    const char *thing = j->is_step ? "step" : "call", *direction = j->shift > 0 ? "slower" : "faster";
    const ka_shift *s = j->evidence;
    kb_text value = format_value(g->of, j->shift != 0 ? j->shift : in_unit_of_limit(g, j, s->calls_pct));
    if (g->of == PERCENT)
        (void)kb_snprintf(value.s, sizeof value.s, "%.2f %%", j->shift != 0 ? j->shift : s->calls_pct);
    const char *sign = value.s[0] == '-' ? "" : "+";
    if (j->outcome != KINETO_DIFF_FAILED)
        return snprintf(out, bytes, "the typical %s (fast quarter of %ss) is within the limit, %s%s", thing, thing,
                        sign, value.s);
    return snprintf(out, bytes, "%s %s, typical %s (fast quarter of %ss) %s%s%s", direction,
                    s->gap_pct != 0 ? "in all runs" : "run by run", thing, thing, j->by_gap ? "by at least " : "", sign,
                    value.s);
}

/* A verdict by typical calls: they come first, because the mean or median does not decide. */
static void explain_calls(const gate *g, const gate_result *j, char *out, size_t bytes)
{
    int n = describe_calls(g, j, out, bytes);
    size_t at = KB_MIN((size_t)n, bytes - 1);
    const char *why = isnan(j->low)                 ? "has too few runs for an interval"
                      : !is_beyond(g, j->value) ? "is within the limit, with more noise"
                                                : "is too noisy to decide";
    (void)snprintf(out + at, bytes - at, "; the %s (%s -> %s, %s%s) %s", j->of_medians ? "median" : "mean",
                   format_value(g->what->of, j->before).s, format_value(g->what->of, j->after).s,
                   relative_change(j).s, describe_interval(j).s, why);
}

/* The sentence of a verdict. */
static void explain_gate(const gate *g, const gate_result *j, bool without_noise, char *out,
                         size_t bytes)
{
    char resolution[160];
    kb_text name = ka_short_name(j->name);
    size_t kept = kb_utf8_valid_prefix(name.s, strlen(name.s));
    if (j->by == KINETO_DIFF_BY_CALLS) {
        int n = snprintf(out, bytes, "%.*s: ", (int)kept, name.s);
        explain_calls(g, j, out + n, bytes - (size_t)n);
        return;
    }
    describe_resolution(g, j, resolution, sizeof resolution);
    (void)snprintf(out, bytes, "%.*s: %s -> %s (%s%s): %s%s%s", (int)kept, name.s,
                   format_value(g->what->of, j->before).s, format_value(g->what->of, j->after).s,
                   relative_change(j).s, describe_interval(j).s, gate_reason(j, without_noise), describe_shift(g, j).s,
                   resolution);
}

/* The gate and its table. */
static kineto_status parse_gate_for(const kineto_analysis *diff, const char *text, gate *g,
                                    const ka_table **t, kineto_error *err)
{
    if (!diff->tables[KA_TABLE_diff_steps].wanted)
        return kb_fail(err, KINETO_E_ARGUMENT, "gates are for differences with exact definitions");
    if (!parse_gate(text, g))
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "a gate is step, memory, kernel:NAME, op:NAME, function:NAME, category:NAME or "
                       "counter:NAME, then > or <, then a limit: 3%%, 2ms, 100MB; not '%.80s'",
                       text);
    *t = &diff->tables[g->what->table];
    return KINETO_OK;
}

/* The public form of a result, with its sentence. */
static kineto_diff_verdict verdict_of(const gate *g, const gate_result *j, bool without_noise)
{
    kineto_diff_verdict v = {.outcome = j->outcome,
                             .value = j->value,
                             .limit = g->limit,
                             .decided_by = j->by,
                             .subject = j->name,
                             .before = j->before,
                             .after = j->after,
                             .low_pct = j->low,
                             .high_pct = j->high,
                             .shift = j->shift != 0 ? j->shift : (double)NAN};
    explain_gate(g, j, without_noise, v.sentence, sizeof v.sentence);
    return v;
}

/* No row has the name of the gate. */
static kineto_diff_verdict verdict_of_nothing(const gate *g)
{
    const double none = (double)NAN;
    return (kineto_diff_verdict){.outcome = KINETO_DIFF_SKIPPED,
                                 .value = none,
                                 .limit = g->limit,
                                 .sentence = "no row of that name to evaluate",
                                 .decided_by = KINETO_DIFF_BY_NOTHING,
                                 .subject = {"", 0},
                                 .before = none,
                                 .after = none,
                                 .low_pct = none,
                                 .high_pct = none,
                                 .shift = none};
}

/* What the interval is over: runs, or the steps of two traces. */
static void count_values(const kineto_analysis *diff, gate_result *j)
{
    const ka_table *runs = &diff->tables[KA_TABLE_diff_runs], *steps = &diff->tables[KA_TABLE_diff_steps];
    uint64_t rows = ka_table_rows(runs), before = 0;
    uint64_t step_rows = ka_table_rows(steps);
    j->of_runs = rows > 2;
    j->of_medians = step_rows && kb_string_equal(ka_text_at(steps, step_rows - 1, 0), kb_string("mean step"));
    for (uint64_t row = 0; row < rows; row++)
        before += kb_string_equal(ka_text_at(runs, row, 0), kb_string("before"));
    if (j->of_runs)
        j->values = (uint32_t)KB_MIN(before, rows - before);
    else if (ka_table_rows(steps))
        j->values = (uint32_t)KB_MIN(ka_cell_at(steps, 0, 1).i, ka_cell_at(steps, 0, 2).i);
}

/* The verdict of the worst row that the gate names. */
kineto_status kineto_diff_gate(const kineto_analysis *diff, const char *text, bool without_noise,
                               kineto_diff_verdict *out, kineto_error *err)
{
    gate g;
    const ka_table *t = NULL;
    gate_result worst = {0};
    uint64_t count = 0;
    if (!diff || !text || !out)
        return kb_fail_null(err, __func__, "diff, gate, out", diff, text, out);
    kineto_status status = parse_gate_for(diff, text, &g, &t, err);
    if (!status)
        status = kb_size_check(out, "kineto_diff_verdict", err);
    if (status)
        return status;
    bool whole = g.what->whole_names || any_named(&g, t);
    for (uint64_t row = 0; row < ka_table_rows(t); row++) {
        if (!is_named(&g, t, row, whole))
            continue;
        gate_result j = evaluate_row(&g, t, row, without_noise);
        count_values(diff, &j);
        if (!count++ || is_worse(&g, &j, &worst))
            worst = j;
    }
    kineto_diff_verdict v = count ? verdict_of(&g, &worst, without_noise) : verdict_of_nothing(&g);
    v.size = out->size;
    memcpy(out, &v, KB_MIN(out->size, sizeof v));
    return KINETO_OK;
}

const char *kineto_diff_outcome_name(uint32_t outcome)
{
    static const char *const names[] = {"passed", "failed", "skipped", "inconclusive"};
    return outcome < KB_COUNT(names) ? names[outcome] : "";
}

const char *kineto_diff_decider_name(uint32_t decider)
{
    static const char *const names[] = {"limit", "interval", "ranks", "difference", "nothing", "calls"};
    return decider < KB_COUNT(names) ? names[decider] : "";
}

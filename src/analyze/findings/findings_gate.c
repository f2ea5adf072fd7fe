/* Public access to findings, and gates: conditions of CI ("copy=5%") that findings must not
 * exceed. */
#include "analyze/findings/finding.h"

#include <math.h>

/* ---- one after the other --------------------------------------------------------------------- */

uint32_t kineto_findings_count(const kineto_findings *findings)
{
    return findings ? (uint32_t)findings->found.count : 0;
}

bool kineto_findings_get(const kineto_findings *findings, uint32_t index, kineto_finding *out)
{
    if (!out)
        return false;
    *out = (kineto_finding){0};
    if (index >= kineto_findings_count(findings))
        return false;
    const ka_found *x = &findings->found.data[index];
    *out = (kineto_finding){.rule = x->rule,
                            .id = ka_finding_rule_id(x->rule),
                            .severity = x->severity,
                            .has_savings = x->saved_ns != KA_NO_SAVINGS,
                            .savings_ns = x->step_savings_ns,
                            .baseline_ns = ka_finding_baseline_ns(findings, x),
                            .savings_pct = x->step_savings_pct,
                            .confidence = x->confidence,
                            .rank = x->rank,
                            .rank_count = x->rank_count,
                            .count = x->count,
                            .subject = x->subject,
                            .sentence = x->sentence,
                            .advice = x->advice,
                            .evidence_count = (uint32_t)x->evidence.count};
    return true;
}

bool kineto_findings_overlaps(const kineto_findings *findings, uint32_t index)
{
    return index < kineto_findings_count(findings) && findings->found.data[index].overlaps;
}

bool kineto_findings_evidence(const kineto_findings *findings, uint32_t finding, uint32_t index,
                              kineto_finding_evidence *out)
{
    if (!out)
        return false;
    *out = (kineto_finding_evidence){.row = KINETO_NO_ROW};
    if (finding >= kineto_findings_count(findings) ||
        index >= findings->found.data[finding].evidence.count)
        return false;
    const ka_evidence *e = &findings->found.data[finding].evidence.data[index];
    *out = (kineto_finding_evidence){e->row,  e->rank,  e->start_ns, e->end_ns,
                                     e->name, e->where, e->text};
    return true;
}

kineto_rule_outcome kineto_findings_outcome(const kineto_findings *findings, uint32_t rule,
                                           kineto_string *because)
{
    bool is_rule = findings && rule < KA_FIND_COUNT;
    if (because)
        *because = is_rule ? findings->verdicts[rule].because : (kineto_string){"", 0};
    return is_rule ? (kineto_rule_outcome)findings->verdicts[rule].outcome : KINETO_RULE_NOT_SELECTED;
}

int64_t kineto_findings_mean_step_ns(const kineto_findings *findings, uint32_t *step_count)
{
    if (step_count)
        *step_count = findings ? findings->step_count : 0;
    return findings ? findings->step_ns : 0;
}

/* ---- gates ----------------------------------------------------------------------------------- */

/* A parsed gate: the rules that its word names and the limit of their savings, in percent or
 * nanoseconds. Without a limit any finding fails the gate. */
typedef struct gate {
    const char *word;
    size_t size;
    bool has_limit, is_percent;
    double limit;   /* percent or ns */
    uint64_t rules; /* bits */
    uint32_t count; /* of them */
} gate;

/* "5%", "2ms", "1.5s". False: not a limit. */
static bool parse_gate_limit(const char *text, gate *g)
{
    static const struct {
        const char *unit;
        double ns;
    } units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
    char *end;
    if (!kb_is_digit(*text) && *text != '.') /* neither signs, nor "inf", nor spaces */
        return false;
    g->limit = kb_strtod(text, &end);
    g->has_limit = true;
    g->is_percent = strcmp(end, "%") == 0;
    if (end == text || !isfinite(g->limit))
        return false;
    for (size_t i = 0; i < KB_COUNT(units); i++)
        if (strcmp(end, units[i].unit) == 0) {
            g->limit *= units[i].ns;
            return true;
        }
    return g->is_percent;
}

/* "all" names every rule; other words as in ka_finding_rule_matches. */
static void add_gate_rules(gate *g)
{
    bool all = g->size == 3 && memcmp(g->word, "all", 3) == 0;
    for (uint32_t i = 0; i < KA_FIND_COUNT; i++) {
        if (!all && !ka_finding_rule_matches((ka_finding_rule)i, g->word, g->size))
            continue;
        g->rules |= UINT64_C(1) << i;
        g->count++;
    }
}

static kineto_status parse_gate(const char *text, gate *g, kineto_error *err)
{
    const char *equals = strchr(text, '=');
    *g = (gate){.word = text, .size = equals ? (size_t)(equals - text) : strlen(text)};
    add_gate_rules(g);
    if (!g->size || !g->count)
        return kb_fail(
            err, KINETO_E_ARGUMENT,
            "unknown rule '%.*s'; 'ckineto analyze --findings --list' lists the rules",
            (int)KB_MIN(g->size, (size_t)80), text);
    if (equals && !parse_gate_limit(equals + 1, g))
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "a gate is ID, ID=5%% or ID=2ms (ns, us, ms, s), not '%.80s'", text);
    return KINETO_OK;
}

/* A finding without known savings is above every limit: the gate names its rule. */
static bool gate_stops_at(const gate *g, const ka_found *x)
{
    if (!(g->rules >> x->rule & 1))
        return false;
    if (!g->has_limit || x->saved_ns == KA_NO_SAVINGS)
        return true;
    return (g->is_percent ? x->step_savings_pct : (double)x->step_savings_ns) > g->limit;
}

/* Append a sentence to `because`; a cut one does not end inside a character. */
static void append_sentence(char *because, size_t bytes, kineto_string sentence)
{
    size_t used = strlen(because), room = bytes - used - 1;
    size_t size = KB_MIN(sentence.size, KB_MIN(room, (size_t)400));
    if (size < sentence.size)
        size = kb_utf8_valid_prefix(sentence.data, size);
    if (size)
        memcpy(because + used, sentence.data, size);
    because[used + size] = '\0';
}

/* Writes why the gate failed; savings are relative to the run for a cause across ranks, and to the
 * step of the finding's rank if that differs from the mean step. */
static void explain_finding(const kineto_findings *all, const ka_found *x, char *because,
                            size_t bytes)
{
    char of[60] = "";
    if (x->cause || (x->is_of_run && !x->whole_ns))
        snprintf(of, sizeof of, " of the run");
    else if (ka_finding_baseline_ns(all, x) != all->step_ns)
        snprintf(of, sizeof of, " of rank %d's %s", x->rank, all->step_count ? "step" : "time");
    if (x->saved_ns == KA_NO_SAVINGS)
        snprintf(because, bytes, "%s: ", ka_finding_rule_id(x->rule));
    else
        kb_snprintf(because, bytes, "%s: saves %s (%.1f %%%s): ", ka_finding_rule_id(x->rule),
                    kb_duration(x->step_savings_ns).s, x->step_savings_pct, of);
    append_sentence(because, bytes, x->sentence);
}

/* Writes why a gate of a single rule cannot pass: the rule did not run. */
static void explain_missing(ka_finding_rule rule, const ka_verdict *verdict, char *because,
                            size_t bytes)
{
    bool was_asked = verdict->outcome != KINETO_RULE_NOT_SELECTED;
    snprintf(because, bytes, "%s %s: ", ka_finding_rule_id(rule),
             was_asked ? "was skipped" : "was not selected");
    append_sentence(because, bytes,
                 was_asked ? verdict->because : kb_string("it is not among the selected rules"));
}

kineto_status kineto_findings_gate(const kineto_findings *findings, const char *text, bool *passed,
                                   char *because, size_t because_bytes, kineto_error *err)
{
    gate g;
    char unused[1];
    if (passed)
        *passed = false;
    because = because && because_bytes ? because : unused;
    because_bytes = because == unused ? sizeof unused : because_bytes;
    because[0] = '\0';
    if (!findings || !text || !passed)
        return kb_fail_null(err, __func__, "findings, gate, passed", findings, text, passed);
    kineto_status status = parse_gate(text, &g, err);
    if (status)
        return status;
    for (size_t i = 0; i < findings->found.count; i++)
        if (gate_stops_at(&g, &findings->found.data[i])) {
            explain_finding(findings, &findings->found.data[i], because, because_bytes);
            return KINETO_OK;
        }
    uint32_t only = g.count == 1 ? (uint32_t)__builtin_ctzll(g.rules) : 0;
    if (g.count == 1 && findings->verdicts[only].outcome >= KINETO_RULE_SKIPPED) {
        explain_missing((ka_finding_rule)only, &findings->verdicts[only], because, because_bytes);
        return KINETO_OK;
    }
    /* A gate of several rules does not pass either if one of them could not run for want of its input. */
    for (uint32_t i = 0; i < KA_FIND_COUNT; i++)
        if (g.rules & findings->lacking & UINT64_C(1) << i) {
            explain_missing((ka_finding_rule)i, &findings->verdicts[i], because, because_bytes);
            return KINETO_OK;
        }
    *passed = true;
    return KINETO_OK;
}

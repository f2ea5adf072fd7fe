/* Findings on a terminal, and gates. The text is wrapped at the width of the terminal;
 * everything that comes from the trace is escaped. docs/reference/findings.md describes the
 * output. */
#include "cli/print_findings.h"
#include "cli/names.h"
#include "cli/style.h"

#include "analyze/findings/finding.h"

#define MIN_WIDTH      40u
#define EVIDENCE_COLUMNS 160u /* of stacks; JSON has all of it */

/* Where it is written, and how wide that is. */
typedef struct page {
    FILE *out;
    size_t width;
} page;

static void put_wrapped(const page *p, const char *first, const char *indent, kineto_string text)
{
    kc_put_wrapped(p->out, p->width, first, indent, 0, text);
}

/* ---- a line that is put together first ------------------------------------------------------- */

/* A text that is assembled in memory, because its words are wrapped only when it is complete. */
typedef struct line {
    FILE *out;
    char *data;
    size_t size;
} line;

/* False: out of memory; the line is left out then. */
static bool line_open(line *l)
{
    *l = (line){0};
    l->out = open_memstream(&l->data, &l->size);
    return l->out != NULL;
}

/* Prints the assembled text, wrapped, and frees it. */
static void line_close(line *l, const page *p, const char *first, const char *indent)
{
    if (fclose(l->out) == 0)
        put_wrapped(p, first, indent, (kineto_string){l->data, l->size});
    free(l->data);
}

/* Place, name, track and text of one piece of evidence, as far as it has them. Times are
 * relative to the start of its trace. */
static void put_evidence(const kineto_finding_evidence *e, int64_t origin_ns, bool several,
                         const page *p)
{
    line l;
    if (!line_open(&l))
        return;
    if (several)
        fprintf(l.out, "rank %d%s ", e->rank, e->start_ns || e->end_ns ? "," : "");
    if (e->start_ns || e->end_ns)
        fprintf(l.out, "at %s for %s%s", kb_duration(kb_length_ns(origin_ns, e->start_ns)).s,
                kb_duration(kb_length_ns(e->start_ns, e->end_ns)).s,
                e->name.size || e->where.size ? ": " : "");
    if (e->name.size)
        kc_put_name(l.out, e->name, e->name.size > 80 ? 80 : 0);
    if (e->where.size) {
        fputs(e->name.size ? ", " : "", l.out);
        kc_put_name(l.out, e->where, 0);
    }
    if (e->text.size) {
        fputs(e->name.size || e->where.size || e->start_ns || e->end_ns ? ": " : "", l.out);
        kc_put_name(l.out, e->text, e->text.size > EVIDENCE_COLUMNS ? EVIDENCE_COLUMNS : 0);
    }
    line_close(&l, p, "      ", "        ");
}

static kc_style finding_style(const kineto_finding *f)
{
    return f->severity == KINETO_FINDING_HIGH     ? KC_RED
           : f->severity == KINETO_FINDING_MEDIUM ? KC_YELLOW
                                                  : KC_DIM;
}

/* Severity and savings, in columns of fixed width. */
static kb_text format_savings(const kineto_finding *f, FILE *terminal)
{
    kb_text t;
    const char *paint = kc_paint(terminal, finding_style(f)), *plain = kc_paint(terminal, KC_PLAIN);
    const char *severity = kineto_finding_severity_name(f->severity);
    if (f->has_savings)
        kb_snprintf(t.s, sizeof t.s, "%s%-6s%s %10s %5.1f %%  ", paint, severity, plain, kb_duration(f->savings_ns).s,
                    f->savings_pct);
    else
        kb_snprintf(t.s, sizeof t.s, "%s%-6s%s %18s  ", paint, severity, plain, "");
    return t;
}

#define TITLE_INDENT "                           " /* as wide as severity and savings */

/* Is there a rank besides 0, which a single trace has? */
static bool has_ranks(const kineto_findings *found)
{
    kineto_finding f;
    for (uint32_t i = 0; kineto_findings_get(found, i, &f); i++)
        if (f.rank > 0 || f.rank_count > 1)
            return true;
    return false;
}

#define MUCH_MORE 1.1 /* less is noise */

/* On how many ranks it was found. What the worst of them saves is more than what the run does. */
static void put_ranks(const kineto_findings *found, uint32_t index, const kineto_finding *f, kb_text (*format)(int64_t ns),
                      FILE *out)
{
    int64_t own_ns;
    bool is_of_run = ka_finding_rank_savings(found, index, &own_ns) &&
                     (double)own_ns > MUCH_MORE * (double)f->savings_ns;
    if (f->rank_count > 1)
        fprintf(out, ", on %u ranks, worst on %d", f->rank_count, f->rank);
    else if (is_of_run)
        fprintf(out, ", on rank %d", f->rank);
    if (is_of_run)
        fprintf(out, ": %s", format(own_ns).s);
}

/* What the savings are a part of, where it is not the mean step; of several ranks also whose. */
static void put_base(const kineto_findings *found, uint32_t index, const kineto_finding *f, FILE *out)
{
    uint32_t steps;
    int64_t run_ns = ka_finding_run_ns(found, index);
    if (run_ns > 0)
        fprintf(out, "; savings are of the run, %s", kb_duration(run_ns).s);
    if (run_ns > 0 || !f->has_savings || f->baseline_ns == kineto_findings_mean_step_ns(found, &steps))
        return;
    if (has_ranks(found))
        fprintf(out, "; savings are of rank %d's %s, %s", f->rank, steps ? "step" : "time", kb_duration(f->baseline_ns).s);
    else
        fprintf(out, "; savings are of a %s of %s", steps ? "step" : "time", kb_duration(f->baseline_ns).s);
}

/* In words, because a number would promise more than a rule can know. --json has the number. */
static const char *confidence_word(double confidence)
{
    return confidence >= 0.75 ? "high" : confidence >= 0.45 ? "medium" : "low";
}

/* Title, id, subject, confidence, and on how many ranks it was found. */
static void put_title(const kineto_findings *found, uint32_t index, const kineto_finding *f,
                      const page *p)
{
    kineto_finding_rule rule;
    line l;
    if (!line_open(&l))
        return;
    kineto_finding_rule_get(f->rule, &rule);
    fprintf(l.out, "%s: %s", rule.title, f->id);
    if (f->subject.size) {
        fputs(", ", l.out);
        kc_put_name(l.out, f->subject, f->subject.size > 60 ? 60 : 0);
    }
    if (f->has_savings)
        fprintf(l.out, " (%s confidence%s)", confidence_word(f->confidence),
                ka_findings_know_overlaps(found) && kineto_findings_overlaps(found, index) ? ", not additive" : "");
    put_ranks(found, index, f, kb_duration, l.out);
    put_base(found, index, f, l.out);
    line_close(&l, p, format_savings(f, p->out).s, TITLE_INDENT);
}

/* Headline, sentence, advice, and all evidence that was kept. */
static void print_finding(const kineto_findings *found, uint32_t index, const kineto_finding *f,
                          const page *p)
{
    kineto_finding_evidence e;
    fputc('\n', p->out);
    put_title(found, index, f, p);
    put_wrapped(p, "    ", "    ", f->sentence);
    put_wrapped(p, "    -> ", "       ", f->advice);
    for (uint32_t i = 0; kineto_findings_evidence(found, index, i, &e); i++)
        put_evidence(&e, ka_finding_origin(found, index), f->rank_count > 1, p);
}

#define ID_COLUMNS 28 /* communication.small_messages */

/* Was rule `i` skipped for this reason? */
static bool is_left_out(const kineto_findings *found, uint32_t i, kineto_string reason)
{
    kineto_string because;
    return kineto_findings_outcome(found, i, &because) == KINETO_RULE_SKIPPED &&
           kb_string_equal(because, reason);
}

#define MAX_NAMED_RULES 8u /* more are a number: a trace without a device leaves out half of them */

/* The rules from `first` on that were skipped for one reason: "REASON: a.b, c.d". */
static void put_rules_of(const kineto_findings *found, uint32_t first, kineto_string reason,
                         const page *p)
{
    kineto_finding_rule rule;
    uint32_t count = 0;
    line l;
    if (!line_open(&l))
        return;
    for (uint32_t i = first; kineto_finding_rule_get(i, &rule); i++)
        count += is_left_out(found, i, reason);
    fprintf(l.out, "%.*s:", (int)reason.size, reason.data);
    if (count > MAX_NAMED_RULES)
        fprintf(l.out, " %u rules (--json names them)", count);
    for (uint32_t i = first; count <= MAX_NAMED_RULES && kineto_finding_rule_get(i, &rule); i++)
        if (is_left_out(found, i, reason))
            fprintf(l.out, "%s %s", i == first ? "" : ",", rule.id);
    line_close(&l, p, "  ", "    ");
}

/* One line for each reason, with the rules that were skipped for it; reasons in the order of
 * the first rule. */
static void put_skipped_rules(const kineto_findings *found, const page *p)
{
    kineto_finding_rule rule;
    bool any = false;
    for (uint32_t i = 0; kineto_finding_rule_get(i, &rule); i++) {
        kineto_string reason;
        bool is_printed = false;
        if (kineto_findings_outcome(found, i, &reason) != KINETO_RULE_SKIPPED)
            continue;
        for (uint32_t k = 0; k < i && !is_printed; k++)
            is_printed = is_left_out(found, k, reason);
        if (is_printed)
            continue;
        if (!any)
            fprintf(p->out, "\n%sSkipped:%s\n", kc_paint(p->out, KC_BOLD), kc_paint(p->out, KC_PLAIN));
        any = true;
        put_rules_of(found, i, reason, p);
    }
}

/* How many findings there are, and of which time their savings are. */
static void put_headline(const page *p, uint32_t count, int64_t step_ns, uint32_t steps)
{
    line l;
    if (!line_open(&l))
        return;
    fprintf(l.out, "%u %s", count, kc_noun(count, "finding", "findings"));
    if (steps)
        fprintf(l.out, "; savings are of a step and the work that it launched: %s (mean of %u)",
                kb_duration(step_ns).s, steps);
    else if (step_ns > 1)
        fprintf(l.out, "; savings are of the recorded time, %s",
                kb_duration(step_ns).s);
    fputs(kc_paint(p->out, KC_BOLD), p->out);
    line_close(&l, p, "\n", "");
    fputs(kc_paint(p->out, KC_PLAIN), p->out);
}

void kc_findings_print(const kineto_findings *found, size_t width, FILE *out)
{
    page p = {out, width ? KB_MAX(width, (size_t)MIN_WIDTH) : KC_FINDINGS_WIDTH};
    uint32_t steps, count = kineto_findings_count(found);
    int64_t step_ns = kineto_findings_mean_step_ns(found, &steps);
    kineto_finding f;
    put_headline(&p, count, step_ns, steps);
    for (uint32_t i = 0; kineto_findings_get(found, i, &f); i++)
        print_finding(found, i, &f, &p);
    put_skipped_rules(found, &p);
}

#define TOP_INDENT "           " /* as wide as savings */
#define TOP_NAME   100u /* columns; a rank with its host and what is wrong with it fits */

/* Savings, title and time, then the advice in two lines. */
static void print_top_finding(const kineto_findings *found, uint32_t index, const kineto_finding *f, const page *p,
                              FILE *terminal)
{
    kineto_finding_rule rule;
    kineto_string label = ka_finding_label(found, index);
    size_t name_columns = f->subject.size && label.data == f->subject.data ? 60 : TOP_NAME;
    char savings[64] = TOP_INDENT;
    line l;
    kineto_finding_rule_get(f->rule, &rule);
    if (f->has_savings)
        snprintf(savings, sizeof savings, "  %s%6.1f %%%s ",
                 kc_paint(terminal, finding_style(f)),
                 f->savings_pct, kc_paint(terminal, KC_PLAIN));
    if (!line_open(&l))
        return;
    fputs(rule.title, l.out);
    if (label.size) {
        fputs(": ", l.out);
        kc_put_name(l.out, label, label.size > name_columns ? name_columns : 0);
    }
    if (f->has_savings)
        fprintf(l.out, " (%s, %s confidence)", kb_short_duration(f->savings_ns).s,
                confidence_word(f->confidence));
    put_ranks(found, index, f, kb_short_duration, l.out);
    line_close(&l, p, savings, TOP_INDENT);
    kc_put_wrapped(p->out, p->width, TOP_INDENT "-> ", TOP_INDENT "   ", 2, f->advice);
}

/* What does not fit into the width is left out. */
static void print_top_heading(const kineto_findings *found, uint32_t limit, size_t width,
                              FILE *terminal, FILE *out)
{
    static const char *const titles[] = {"What to change, by the time that it can save",
                                         "What to change", "Nothing to change was found"};
    uint32_t steps, count = kineto_findings_count(found);
    int64_t step_ns = kineto_findings_mean_step_ns(found, &steps);
    char more[80] = "";
    const char *title = titles[!count ? 2 : width < strlen(titles[0]) ? 1 : 0];
    if (count > limit)
        snprintf(more, sizeof more, " (%u of %u; --findings has all)", limit, count);
    else if (count && steps)
        snprintf(more, sizeof more, ", of a step of %s", kb_short_duration(step_ns).s);
    bool fits = strlen(title) + strlen(more) <= width;
    fprintf(out, "\n%s%s%s%s\n", kc_paint(terminal, KC_BOLD), title, kc_paint(terminal, KC_PLAIN),
            fits ? more : "");
}

/* Do savings of several of the first findings overlap? */
static bool do_savings_overlap(const kineto_findings *found, uint32_t limit)
{
    uint32_t overlapping = 0;
    kineto_finding f;
    for (uint32_t i = 0; i < limit && kineto_findings_get(found, i, &f); i++)
        overlapping += f.has_savings && kineto_findings_overlaps(found, i);
    return overlapping > 1;
}

void kc_findings_print_top(const kineto_findings *found, uint32_t limit, size_t width, bool verbose,
                           FILE *terminal, FILE *out)
{
    page p = {out, KB_MAX(width, (size_t)MIN_WIDTH)};
    kineto_finding f;
    print_top_heading(found, limit, width, terminal, out);
    for (uint32_t i = 0; i < limit && kineto_findings_get(found, i, &f); i++)
        print_top_finding(found, i, &f, &p, terminal);
    if (do_savings_overlap(found, limit))
        fputs("  savings overlap; they do not add up\n", out);
    if (verbose)
        put_skipped_rules(found, &p);
}

#define BRIEF_INDENT "           " /* as wide as savings */

/* The sentence after the savings, then the advice. */
static void print_brief_finding(const kineto_finding *f, const page *p)
{
    char savings[48] = BRIEF_INDENT;
    if (f->has_savings)
        snprintf(savings, sizeof savings, "  %s%5.1f %%%s  ", kc_paint(p->out, finding_style(f)), f->savings_pct,
                 kc_paint(p->out, KC_PLAIN));
    put_wrapped(p, savings, BRIEF_INDENT, f->sentence);
    put_wrapped(p, BRIEF_INDENT "-> ", BRIEF_INDENT "   ", f->advice);
}

void kc_findings_print_brief(const kineto_findings *found, uint32_t limit, size_t width, FILE *out)
{
    page p = {out, width ? KB_MAX(width, (size_t)MIN_WIDTH) : KC_FINDINGS_WIDTH};
    uint32_t count = kineto_findings_count(found);
    kineto_finding f;
    if (!count)
        return;
    fputs("\n  ", out);
    kc_put_styled(out, KC_BOLD, "findings, by the time that each would save at most ('ckineto analyze --findings' shows where)");
    fputc('\n', out);
    for (uint32_t i = 0; i < limit && kineto_findings_get(found, i, &f); i++)
        print_brief_finding(&f, &p);
    if (do_savings_overlap(found, limit))
        fputs("  savings overlap; they do not add up\n", out);
    if (count > limit)
        fprintf(out, "  … and %s more\n", kc_count(count - limit).s);
}

/* ---- rules and gates ------------------------------------------------------------------------- */

int kc_finding_rules_print(void)
{
    kineto_finding_rule rule;
    for (uint32_t i = 0; kineto_finding_rule_get(i, &rule); i++)
        printf("%-*s %s\n", ID_COLUMNS, rule.id, rule.title);
    return kc_finish_stdout("analyze", 0);
}

/* The text before a character; cut if it is long. */
static kb_text cut_at(const char *text, char end)
{
    kb_text begin;
    const char until[] = {end, '\0'};
    kb_snprintf(begin.s, sizeof begin.s, "%.*s", (int)KB_MIN(strcspn(text, until), sizeof begin.s - 1), text);
    return begin;
}

/* Does a gate name a rule, the first words of some rules, or "all"? */
static bool is_known(const char *gate)
{
    kineto_finding_rule rule;
    size_t size = strcspn(gate, "=");
    if (size == 3 && strncmp(gate, "all", 3) == 0)
        return true;
    for (uint32_t i = 0; kineto_finding_rule_get(i, &rule); i++)
        if (strncmp(rule.id, gate, size) == 0 && (!rule.id[size] || rule.id[size] == '.'))
            return size > 0;
    return false;
}

kineto_status kc_gates_check(const kc_texts *gates)
{
    for (size_t i = 0; i < gates->count; i++)
        if (!is_known(gates->data[i]))
            return kc_usage_error("analyze",
                                  "--gate: unknown rule '%s'%s ('ckineto analyze --findings --list' "
                                  "lists the rules)",
                                  cut_at(gates->data[i], '=').s,
                                  kc_did_you_mean(kc_list_rules, cut_at(gates->data[i], '=').s).s);
    return KINETO_OK;
}

bool kc_gates_pass(const kineto_findings *found, const kc_texts *gates, kineto_status *status,
                   kineto_error *err)
{
    bool all = true;
    for (size_t i = 0; i < gates->count && !*status; i++) {
        char because[600];
        bool passed;
        *status =
            kineto_findings_gate(found, gates->data[i], &passed, because, sizeof because, err);
        if (!*status && !passed)
            kc_complain("analyze: gate %s: %s", gates->data[i], because);
        all &= passed;
    }
    return all;
}

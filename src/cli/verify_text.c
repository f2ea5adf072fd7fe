/* What `verify` prints for people. Findings of several traces are joined by rule, because 64 ranks mostly have the same
 * ones: a line has the number of traces, the names of a few, and the places in the first. */
#include "cli/verify_text.h"
#include "cli/style.h"

#define MAX_NAMED_TRACES 4u

/* ---- collecting ------------------------------------------------------------------------------ */

/* Time from the start of the window, track and name, or a text and an offset. */
static void print_finding_place(const kineto_verify_place *place, int64_t origin_ns, FILE *out)
{
    if (place->row != KINETO_NO_ROW) {
        fprintf(out, "at %s", kb_duration(kb_length_ns(origin_ns, place->start_ns)).s);
        fprintf(out, " for %s, ", kb_duration(kb_length_ns(place->start_ns, place->end_ns)).s);
        kc_put_name(out, place->where, 0);
        fputs(": ", out);
        kc_put_name(out, place->name, 0);
        fprintf(out, " (row %u)", place->row);
    }
    kc_put_name(out, place->text, 0);
    if (place->offset != KINETO_NO_OFFSET)
        fprintf(out, " (byte %llu)", (unsigned long long)place->offset);
    fputc('\n', out);
}

/* A line for each place, to be freed. NULL: none, or out of memory. */
static char *describe_places(const kineto_verify_report *report, uint32_t index,
                             const kineto_verify_finding *f, int64_t origin_ns)
{
    kineto_verify_place place;
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    for (uint32_t i = 0; kineto_verify_report_place(report, index, i, &place); i++)
        print_finding_place(&place, origin_ns, out);
    if (kineto_verify_report_place(report, index, 0, &place) && place.row != KINETO_NO_ROW &&
        f->count > f->place_count)
        fprintf(out, "… and %s more\n", kc_count(f->count - f->place_count).s);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

/* "rank 3", or the name of the file. */
static kb_text name_trace(const char *path, int32_t rank)
{
    kb_text name;
    const char *slash = strrchr(path, '/');
    if (rank >= 0)
        kb_snprintf(name.s, sizeof name.s, "rank %d", rank);
    else
        kb_snprintf(name.s, sizeof name.s, "%s", slash && slash[1] ? slash + 1 : path);
    return name;
}

/* The group of the rule, perhaps a new one. NULL: out of memory. */
static kc_verify_group *find_group(kc_verify_text *t, const kineto_verify_finding *f)
{
    for (size_t i = 0; i < t->groups.count; i++)
        if (t->groups.data[i].rule == f->rule && t->groups.data[i].severity == f->severity)
            return &t->groups.data[i];
    kc_verify_group g = {.rule = f->rule, .severity = f->severity};
    g.sentence = strndup(f->sentence.data, f->sentence.size);
    return kb_vec_push(&t->groups, g) ? &t->groups.data[t->groups.count - 1] : NULL;
}

static void add_finding(kc_verify_text *t, const kineto_verify_report *report, uint32_t index,
                        const char *name, int64_t origin_ns)
{
    kineto_verify_finding f;
    kineto_verify_report_finding(report, index, &f);
    t->counts[KB_MIN(f.severity, 2u)]++;
    if (f.severity == KINETO_SEVERITY_NOTE && !t->has_notes)
        return;
    kc_verify_group *g = find_group(t, &f);
    if (!g)
        return;
    if (!g->files && (f.severity != KINETO_SEVERITY_NOTE || t->has_note_places))
        g->places = describe_places(report, index, &f, origin_ns);
    size_t used = strlen(g->names);
    if (g->files < MAX_NAMED_TRACES)
        snprintf(g->names + used, sizeof g->names - used, "%s%s", used ? ", " : "", name);
    g->files++;
    g->count += f.count;
}

/* "PATH: sound", or the numbers of errors, warnings and notes. */
static void print_verdict(const char *path, const uint32_t counts[3], bool hides_notes, FILE *out)
{
    uint32_t errors = counts[KINETO_SEVERITY_ERROR], warnings = counts[KINETO_SEVERITY_WARNING];
    uint32_t notes = counts[KINETO_SEVERITY_NOTE];
    kc_put_name(out, kb_string(path), 0);
    fputs(": ", out);
    if (errors || warnings)
        kc_put_styled(out, errors ? KC_RED : KC_YELLOW, "%u %s, %u %s", errors, kc_noun(errors, "error", "errors"),
                      warnings, kc_noun(warnings, "warning", "warnings"));
    else
        kc_put_styled(out, KC_GREEN, "sound");
    if (notes)
        fprintf(out, ", %u %s%s", notes, kc_noun(notes, "note", "notes"),
                hides_notes ? " (-v shows them)" : "");
    fputc('\n', out);
}

/* Of several, those that are not sound. */
static void add_verdict(kc_verify_text *t, const char *path, const uint32_t counts[3])
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return;
    print_verdict(path, counts, !t->has_notes, out);
    if (fclose(out) == 0 && kb_vec_reserve(&t->verdicts, t->verdicts.count + size)) {
        memcpy(t->verdicts.data + t->verdicts.count, text, size);
        t->verdicts.count += size;
    }
    free(text);
}

void kc_verify_text_add(kc_verify_text *t, const char *path, const kineto_trace *trace,
                        const kineto_verify_report *report)
{
    int64_t start_ns, end_ns;
    uint32_t counts[3];
    kineto_identity identity = {.size = sizeof identity};
    kineto_trace_identity(trace, path, &identity);
    kineto_trace_window(trace, &start_ns, &end_ns);
    for (uint32_t i = 0; i < KB_COUNT(counts); i++)
        counts[i] = kineto_verify_report_severity_count(report, i);
    bool is_sound = !counts[KINETO_SEVERITY_ERROR] && !counts[KINETO_SEVERITY_WARNING];
    (void)ka_coverage_add(&t->coverage, trace, identity.rank >= 0 ? &identity.rank : NULL);
    t->sound += is_sound;
    if (!t->is_set || !is_sound || t->is_verbose)
        add_verdict(t, path, counts);
    for (uint32_t i = 0; i < kineto_verify_report_count(report); i++)
        add_finding(t, report, i, name_trace(path, identity.rank).s, start_ns);
}

/* ---- printing -------------------------------------------------------------------------------- */

/* "  " and the columns of a severity. */
#define INDENT "          "

static void print_lines(const char *lines, size_t width, const char *indent, FILE *out)
{
    for (const char *at = lines; at && *at;) {
        size_t size = strcspn(at, "\n");
        kc_put_wrapped(out, width, indent, INDENT, 0, (kineto_string){at, size});
        at += size + (at[size] == '\n');
    }
}

/* "in 63 traces", "in rank 50", "in rank 3, rank 5 and 7 more". */
static void print_where(const kc_verify_group *g, uint32_t traces, FILE *out)
{
    if (g->files == traces && traces > 1)
        fprintf(out, ", in all %u traces", g->files);
    else if (g->files > MAX_NAMED_TRACES)
        fprintf(out, ", in %u traces: %s and %u more", g->files, g->names, g->files - MAX_NAMED_TRACES);
    else
        fprintf(out, ", in %s", g->names);
}

/* Severity, rule, number and sentence; then places and, except for notes, advice. */
static void print_group(const kc_verify_text *t, const kc_verify_group *g, size_t width, FILE *out)
{
    kineto_verify_rule rule;
    char *text = NULL, first[48];
    size_t size = 0;
    FILE *line = open_memstream(&text, &size);
    if (!line)
        return;
    kineto_verify_rule_get(g->rule, &rule);
    fprintf(line, "%s: %s: ", rule.id, kc_count(g->count).s);
    kc_put_name(line, kb_string(g->sentence ? g->sentence : rule.meaning), 0);
    if (t->is_set)
        print_where(g, (uint32_t)t->coverage.traces.count, line);
    snprintf(first, sizeof first, "  %s%-7s%s ", kc_paint(out, kc_severity_style(g->severity)),
             kineto_severity_name(g->severity), kc_paint(out, KC_PLAIN));
    if (fclose(line) == 0)
        kc_put_wrapped(out, width, first, INDENT, 0, (kineto_string){text, size});
    free(text);
    print_lines(g->places, width, "      ", out);
    if (g->severity == KINETO_SEVERITY_NOTE)
        return;
    kc_put_wrapped(out, width, "      why it matters: ", INDENT, 0, kb_string(rule.why));
    kc_put_wrapped(out, width, "      what to do: ", INDENT, 0, kb_string(rule.remedy));
}

/* "63 of 64 ranks; …", and how many are sound. */
static void print_set_head(const kc_verify_text *t, size_t width, FILE *out)
{
    char text[400];
    uint32_t traces = (uint32_t)t->coverage.traces.count;
    ka_coverage_describe(&t->coverage, text, sizeof text);
    if (*text)
        kc_put_wrapped(out, width, "", "", 0, kb_string(text));
    kc_put_styled(out, t->sound == traces ? KC_GREEN : KC_YELLOW, "%u of %u %s sound", t->sound, traces,
                  kc_noun(traces, "trace is", "traces are"));
    if (t->counts[KINETO_SEVERITY_NOTE] && !t->has_notes)
        fprintf(out, "; -v shows %u %s", t->counts[KINETO_SEVERITY_NOTE],
                kc_noun(t->counts[KINETO_SEVERITY_NOTE], "note", "notes"));
    fputc('\n', out);
}

void kc_verify_text_print(const kc_verify_text *t, const kineto_survey *survey, FILE *out)
{
    size_t width = kc_page_width(out);
    if (t->is_set)
        print_set_head(t, width, out);
    fwrite(t->verdicts.data, 1, t->verdicts.count, out);
    for (uint32_t severity = KINETO_SEVERITY_ERROR + 1; severity-- > 0;)
        for (size_t i = 0; i < t->groups.count; i++)
            if (t->groups.data[i].severity == severity)
                print_group(t, &t->groups.data[i], width, out);
    uint32_t least = t->has_notes ? KINETO_SEVERITY_NOTE : KINETO_SEVERITY_WARNING;
    if (!survey || kc_worst_finding(survey) < (int)least)
        return;
    kc_put_styled(out, KC_BOLD, "the set of traces:");
    fputc('\n', out);
    (void)kc_print_findings(survey, least, out);
}

void kc_verify_text_free(kc_verify_text *t)
{
    for (size_t i = 0; i < t->groups.count; i++) {
        free(t->groups.data[i].sentence);
        free(t->groups.data[i].places);
    }
    kb_vec_free(&t->groups);
    kb_vec_free(&t->verdicts);
    ka_coverage_free(&t->coverage);
}

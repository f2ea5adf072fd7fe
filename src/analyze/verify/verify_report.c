/* The report of a verification. It owns all texts in an arena and refers to rules by number;
 * findings have up to `places` places, adjacent in one array. */
#include "analyze/verify/verify.h"

#include <stdarg.h>

/* A finding; its places are adjacent in the report. */
typedef struct finding {
    ka_rule rule;
    kineto_severity severity;
    uint64_t count;
    kineto_string sentence;
    size_t first_place, place_count;
} finding;

struct kineto_verify_report {
    kb_arena arena;
    KB_VEC(finding) findings;
    KB_VEC(kineto_verify_place) places; /* those of a finding are adjacent */
};

_Static_assert(KA_RULE_COUNT <= 64, "rules are bits of a mask");

static const kineto_verify_rule rules[KA_RULE_COUNT] = {
#define X(name, id, severity, meaning, why, remedy)                                                \
    {id, KINETO_SEVERITY_##severity, meaning, why, remedy},
#include "analyze/verify/verify_rules.def"
#undef X
};

uint32_t kineto_verify_rule_count(void) { return KA_RULE_COUNT; }

bool kineto_verify_rule_get(uint32_t index, kineto_verify_rule *out)
{
    if (!out)
        return false;
    *out = index < KA_RULE_COUNT ? rules[index] : (kineto_verify_rule){0};
    return index < KA_RULE_COUNT;
}

const char *kineto_severity_name(uint32_t severity)
{
    static const char *const names[] = {"note", "warning", "error"};
    return severity < KB_COUNT(names) ? names[severity] : "unknown";
}

/* ---- filling --------------------------------------------------------------------------------- */

bool ka_report_create(kineto_verify_report **out)
{
    *out = calloc(1, sizeof **out);
    return *out != NULL;
}

/* Counts every row, but keeps only the first `places` of them. */
void ka_tally_add(ka_verify *v, ka_tally *tally, kineto_row row)
{
    if (tally->count++ < v->places && !kb_vec_push(&tally->rows, row))
        v->no_memory = true;
}

/* A copy that lives as long as the report; empty if memory has run out. */
static kineto_string copy_to_report(ka_verify *v, const char *data, size_t size)
{
    char *copy = size ? kb_arena_copy(&v->report->arena, data, size) : NULL;
    if (size && !copy)
        v->no_memory = true;
    return copy ? (kineto_string){copy, size} : (kineto_string){"", 0};
}

/* The text that the file has in place of a number (`pid` or `tid`), else the number. */
static void format_track_id(char *out, size_t size, kineto_string text, int64_t id)
{
    if (text.data)
        snprintf(out, size, "%.*s", (int)KB_MIN(text.size, (size_t)80), text.data);
    else
        snprintf(out, size, "%lld", (long long)id);
}

/* Ids that were texts in the file are shown as such. */
size_t ka_track_words(const kineto_trace *t, uint32_t index, char *text, size_t size)
{
    static const char *const types[] = {"thread", "stream", "counters", "async", "track"};
    char pid[96], tid[96];
    kineto_track track;
    kineto_process process;
    kineto_trace_track(t, index, &track);
    kineto_trace_process(t, track.process, &process);
    format_track_id(pid, sizeof pid, kt_process_text_of(t, track.process), process.pid);
    format_track_id(tid, sizeof tid, kt_track_text_of(t, index), track.id);
    int n = snprintf(text, size, "%s %s of %s %s",
                     track.type < KB_COUNT(types) ? types[track.type] : "track", tid,
                     process.is_device ? "device" : "process", pid);
    return KB_MIN((size_t)n, size - 1);
}

/* Thread or stream, its id and its process. */
static kineto_string describe_track(ka_verify *v, uint32_t index)
{
    char text[320];
    return copy_to_report(v, text, ka_track_words(v->t, index, text, sizeof text));
}

#define NAME_BYTES 200u

/* Appends a place of the finding under construction. Names are cut at NAME_BYTES. */
static void add_place(ka_verify *v, kineto_row row)
{
    kineto_activity a;
    kineto_trace_get(v->t, row, &a);
    kineto_verify_place place = {
        .row = row,
        .track = a.track,
        .start_ns = a.start_ns,
        .end_ns = a.end_ns,
        .name = copy_to_report(v, a.name.data, KB_MIN(a.name.size, NAME_BYTES)),
        .where = describe_track(v, a.track),
        .text = {"", 0},
        .offset = KINETO_NO_OFFSET};
    if (!kb_vec_push(&v->report->places, place))
        v->no_memory = true;
}

static KINETO_PRINTF(2, 0) kineto_string copy_sentence(ka_verify *v, const char *fmt, va_list list)
{
    char text[512];
    int size = kb_vsnprintf(text, sizeof text, fmt, list);
    return copy_to_report(v, text, size > 0 ? KB_MIN((size_t)size, sizeof text - 1) : 0);
}

/* Places are appended before, so the finding knows their range. */
static void add_finding(ka_verify *v, const finding *f)
{
    if (!kb_vec_push(&v->report->findings, *f))
        v->no_memory = true;
}

/* A tally without rows gives no finding. The tally is freed in any case. */
void ka_find(ka_verify *v, ka_rule rule, kineto_severity severity, ka_tally *tally, const char *fmt,
             ...)
{
    if (tally->count && ka_wants(v, rule)) {
        finding f = {.rule = rule, .severity = severity, .count = tally->count};
        va_list list;
        va_start(list, fmt);
        f.sentence = copy_sentence(v, fmt, list);
        va_end(list);
        f.first_place = v->report->places.count;
        for (size_t i = 0; i < tally->rows.count; i++)
            add_place(v, tally->rows.data[i]);
        f.place_count = v->report->places.count - f.first_place;
        add_finding(v, &f);
    }
    kb_vec_free(&tally->rows);
    tally->count = 0;
}

/* Joins the previous finding if rule and severity are the same, so that a list of places has one
 * sentence. */
void ka_find_text(ka_verify *v, ka_rule rule, kineto_severity severity, uint64_t count,
                  const char *text, uint64_t offset, const char *fmt, ...)
{
    kineto_verify_report *r = v->report;
    KB_ASSERT(rule < KA_RULE_COUNT);
    if (!ka_wants(v, rule))
        return;
    finding *last = r->findings.count ? &r->findings.data[r->findings.count - 1] : NULL;
    bool joins = last && last->rule == rule && last->severity == severity;
    finding f = {.rule = rule, .severity = severity, .first_place = r->places.count};
    if (!joins)
        add_finding(v, &f);
    last = r->findings.count ? &r->findings.data[r->findings.count - 1] : NULL;
    if (v->no_memory || !last)
        return;
    if (!joins) {
        va_list list;
        va_start(list, fmt);
        last->sentence = copy_sentence(v, fmt, list);
        va_end(list);
    }
    last->count += count;
    if (!text || last->place_count >= v->places)
        return;
    kineto_verify_place place = {.row = KINETO_NO_ROW,
                                 .track = UINT32_MAX,
                                 .name = {"", 0},
                                 .where = {"", 0},
                                 .text = copy_to_report(v, text, strlen(text)),
                                 .offset = offset};
    if (!kb_vec_push(&r->places, place))
        v->no_memory = true;
    else
        last->place_count++;
}

/* The most severe first, then in the order of rules. */
static int compare_findings(const void *left, const void *right)
{
    const finding *a = left, *b = right;
    if (a->severity != b->severity)
        return a->severity > b->severity ? -1 : 1;
    if (a->rule != b->rule)
        return a->rule < b->rule ? -1 : 1;
    return a->first_place < b->first_place ? -1 : a->first_place > b->first_place;
}

/* Not stable by itself: first_place keeps the order in which findings were made. */
void ka_report_sort(kineto_verify_report *report)
{
    if (report->findings.count)
        qsort(report->findings.data, report->findings.count, sizeof(finding), compare_findings);
}

/* ---- access ---------------------------------------------------------------------------------- */

void kineto_verify_report_destroy(kineto_verify_report *report)
{
    if (!report)
        return;
    kb_arena_free(&report->arena);
    kb_vec_free(&report->findings);
    kb_vec_free(&report->places);
    free(report);
}

uint32_t kineto_verify_report_count(const kineto_verify_report *report)
{
    return report ? (uint32_t)report->findings.count : 0;
}

bool kineto_verify_report_finding(const kineto_verify_report *report, uint32_t index,
                                  kineto_verify_finding *out)
{
    if (!out)
        return false;
    *out = (kineto_verify_finding){0};
    if (index >= kineto_verify_report_count(report))
        return false;
    const finding *f = &report->findings.data[index];
    *out = (kineto_verify_finding){.rule = f->rule,
                                   .severity = f->severity,
                                   .count = f->count,
                                   .sentence = f->sentence,
                                   .place_count = (uint32_t)f->place_count};
    return true;
}

bool kineto_verify_report_place(const kineto_verify_report *report, uint32_t index, uint32_t place,
                                kineto_verify_place *out)
{
    if (!out)
        return false;
    *out = (kineto_verify_place){0};
    if (index >= kineto_verify_report_count(report) ||
        place >= report->findings.data[index].place_count)
        return false;
    *out = report->places.data[report->findings.data[index].first_place + place];
    return true;
}

uint32_t kineto_verify_report_severity_count(const kineto_verify_report *report, uint32_t severity)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < kineto_verify_report_count(report); i++)
        count += report->findings.data[i].severity == severity;
    return count;
}

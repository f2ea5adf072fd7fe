/* Measures how sound a trace is, and keeps that in sections. */
#include "analyze/saved/trace_health.h"
#include "trace/trace.h"

static bool keep_line(ka_trace_health *h, uint8_t severity, kineto_string rule, kineto_string sentence)
{
    const char *copied_rule = kb_arena_copy(&h->arena, rule.data, rule.size);
    const char *copied = kb_arena_copy(&h->arena, sentence.data, sentence.size);
    if (!copied_rule || !copied)
        return false;
    h->lines[h->line_count++] = (ka_health_line){severity, {copied_rule, rule.size}, {copied, sentence.size}};
    return true;
}

static bool keep_finding(ka_trace_health *h, const kineto_verify_finding *f)
{
    kineto_verify_rule rule;
    if (f->severity <= KINETO_SEVERITY_NOTE)
        return true;
    h->warnings++;
    if (h->line_count == KA_MAX_HEALTH_LINES)
        return true;
    kineto_verify_rule_get(f->rule, &rule);
    return keep_line(h, (uint8_t)f->severity, kb_string(rule.id), f->sentence);
}

bool ka_measure_health(const kineto_trace *trace, const int32_t *rank, ka_trace_health *h)
{
    kineto_verify_report *report = NULL;
    *h = (ka_trace_health){.activities = kineto_trace_count(trace),
                           .lost = kineto_trace_lost(trace),
                           .is_cut = kt_ledger_is_cut(trace)};
    if (!ka_coverage_add(&h->coverage, trace, rank))
        return false;
    if (kineto_verify_run(trace, NULL, &report, NULL))
        return true;
    for (uint32_t i = 0; i < 3; i++)
        h->findings[i] = kineto_verify_report_severity_count(report, i);
    kineto_verify_finding f;
    bool ok = true;
    for (uint32_t i = 0; ok && kineto_verify_report_finding(report, i, &f); i++)
        ok = keep_finding(h, &f);
    kineto_verify_report_destroy(report);
    return ok;
}

void ka_trace_health_free(ka_trace_health *h)
{
    ka_coverage_free(&h->coverage);
    kb_arena_free(&h->arena);
    *h = (ka_trace_health){.activities = 0};
}

/* ---- as bytes -------------------------------------------------------------------------------- */

enum { COVERED_IS_CUT = 1, COVERED_IS_DUMP = 2 };

static void write_covered(ka_byte_writer *w, const ka_covered_trace *t)
{
    ka_write_signed(w, t->rank);
    ka_write_signed(w, t->start_ns);
    ka_write_signed(w, t->end_ns);
    ka_write_signed(w, t->host_ns);
    ka_write_signed(w, t->device_ns);
    ka_write_varint(w, t->activities);
    ka_write_varint(w, (t->is_cut ? COVERED_IS_CUT : 0) | (t->is_dump ? COVERED_IS_DUMP : 0));
}

static ka_covered_trace read_covered(ka_byte_reader *r)
{
    ka_covered_trace t = {.rank = ka_read_signed(r)};
    t.start_ns = ka_read_signed(r);
    t.end_ns = ka_read_signed(r);
    t.host_ns = ka_read_signed(r);
    t.device_ns = ka_read_signed(r);
    t.activities = ka_read_varint(r);
    uint64_t flags = ka_read_varint(r);
    t.is_cut = flags & COVERED_IS_CUT;
    t.is_dump = flags & COVERED_IS_DUMP;
    return t;
}

void ka_write_health(ka_byte_writer *w, const ka_trace_health *h)
{
    ka_write_varint(w, h->activities);
    ka_write_varint(w, h->lost);
    ka_write_varint(w, h->is_cut);
    for (uint32_t i = 0; i < 3; i++)
        ka_write_varint(w, h->findings[i]);
    ka_write_varint(w, h->coverage.rank_count);
    ka_write_varint(w, h->coverage.world_size);
    ka_write_varint(w, h->coverage.traces.count);
    for (size_t i = 0; i < h->coverage.traces.count; i++)
        write_covered(w, &h->coverage.traces.data[i]);
    ka_write_varint(w, h->warnings);
    ka_write_varint(w, h->line_count);
    for (uint32_t i = 0; i < h->line_count; i++) {
        ka_write_varint(w, h->lines[i].severity);
        ka_write_text(w, h->lines[i].rule);
        ka_write_text(w, h->lines[i].sentence);
    }
    ka_write_varint(w, h->coverage.ranks.count);
    for (size_t i = 0; i < h->coverage.ranks.count; i++)
        ka_write_signed(w, h->coverage.ranks.data[i]);
}

/* Without a list, those of the traces. */
static bool read_ranks(ka_byte_reader *r, ka_coverage *c)
{
    bool has_list = r->at < r->end, ok = true;
    uint64_t count = has_list ? ka_read_count(r, 1) : c->traces.count;
    for (uint64_t i = 0; i < count && !r->is_bad && ok; i++) {
        int64_t rank = has_list ? ka_read_signed(r) : c->traces.data[i].rank;
        r->is_bad |= rank < -1 || rank > INT32_MAX;
        ok = rank < 0 || kt_add_rank(&c->ranks, (int32_t)rank);
    }
    return ok;
}

static bool read_lines(ka_byte_reader *r, ka_trace_health *h)
{
    uint64_t count = ka_read_count(r, 3);
    for (uint64_t i = 0; i < count && !r->is_bad; i++) {
        uint64_t severity = ka_read_varint(r);
        kineto_string rule = ka_read_text(r), sentence = ka_read_text(r);
        r->is_bad |= severity > KINETO_SEVERITY_ERROR;
        if (i < KA_MAX_HEALTH_LINES && !r->is_bad && !keep_line(h, (uint8_t)severity, rule, sentence))
            return false;
    }
    return true;
}

bool ka_read_health(ka_byte_reader *r, ka_trace_health *h)
{
    enum { MIN_BYTES = 7 }; /* of a covered trace */
    *h = (ka_trace_health){.activities = ka_read_varint(r)};
    h->lost = ka_read_varint(r);
    h->is_cut = ka_read_varint(r) != 0;
    for (uint32_t i = 0; i < 3; i++)
        h->findings[i] = ka_read_varint(r);
    h->coverage.rank_count = (uint32_t)ka_read_varint(r);
    h->coverage.world_size = (uint32_t)ka_read_varint(r);
    uint64_t traces = ka_read_count(r, MIN_BYTES);
    for (uint64_t i = 0; i < traces && !r->is_bad; i++)
        if (!kb_vec_push(&h->coverage.traces, read_covered(r)))
            return false;
    h->warnings = ka_read_varint(r);
    bool ok = read_lines(r, h) && read_ranks(r, &h->coverage);
    h->warnings = KB_MAX(h->warnings, h->line_count);
    return ok && !r->is_bad;
}

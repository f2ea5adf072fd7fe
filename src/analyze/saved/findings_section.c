/* Findings as bytes: rules by name, as their numbers differ between versions. */
#include "analyze/saved/findings_section.h"

/* ---- writing --------------------------------------------------------------------------------- */

static void write_double(ka_byte_writer *w, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    ka_write_fixed(w, bits, 8);
}

static void write_evidence(ka_byte_writer *w, const ka_evidence *e)
{
    ka_write_varint(w, (uint32_t)(e->row + 1)); /* 0: none */
    ka_write_signed(w, e->rank);
    ka_write_signed(w, e->start_ns);
    ka_write_signed(w, e->end_ns);
    ka_write_text(w, e->name);
    ka_write_text(w, e->where);
    ka_write_text(w, e->text);
    ka_write_signed(w, e->weight_ns);
}

static void write_found(ka_byte_writer *w, const ka_found *x)
{
    ka_write_text(w, kb_string(ka_finding_rule_id(x->rule)));
    ka_write_varint(w, x->severity);
    ka_write_varint(w, (uint64_t)x->severity_is_set | (uint64_t)x->overlaps << 1 | (uint64_t)x->comes_first << 2);
    ka_write_signed(w, x->saved_ns);
    ka_write_signed(w, x->whole_ns);
    write_double(w, x->extent);
    write_double(w, x->confidence);
    ka_write_signed(w, x->rank);
    ka_write_varint(w, x->rank_count);
    ka_write_varint(w, x->count);
    ka_write_text(w, x->subject);
    ka_write_text(w, x->sentence);
    ka_write_text(w, x->advice);
    ka_write_signed(w, x->own_savings_ns);
    ka_write_signed(w, x->baseline_ns);
    ka_write_signed(w, x->origin_ns);
    write_double(w, x->is_of_run ? KB_MIN(100, ka_percent((double)x->own_savings_ns, (double)x->baseline_ns)) : x->step_savings_pct);
    ka_write_varint(w, x->evidence.count);
    for (size_t i = 0; i < x->evidence.count; i++)
        write_evidence(w, &x->evidence.data[i]);
}

void ka_write_findings(ka_byte_writer *w, const kineto_findings *f, const char *repeated_steps)
{
    ka_write_text(w, kb_string(repeated_steps));
    ka_write_signed(w, f->whole_ns);
    ka_write_varint(w, f->whole_count);
    ka_write_signed(w, f->step_ns);
    ka_write_varint(w, f->step_count);
    ka_write_varint(w, f->evidence_limit);
    ka_write_varint(w, f->is_torch);
    write_double(w, f->quality);
    ka_rule_set kept = f->chosen & ka_rules_of_traces(); /* the others run when all ranks are there */
    ka_write_varint(w, (uint64_t)__builtin_popcountll(kept));
    for (uint32_t i = 0; i < KA_FIND_COUNT; i++) {
        if (!(kept >> i & 1))
            continue;
        ka_write_text(w, kb_string(ka_finding_rule_id((ka_finding_rule)i)));
        ka_write_varint(w, f->verdicts[i].outcome);
        ka_write_text(w, f->verdicts[i].because);
    }
    ka_write_varint(w, f->found.count);
    for (size_t i = 0; i < f->found.count; i++)
        write_found(w, &f->found.data[i]);
}

/* ---- reading --------------------------------------------------------------------------------- */

static double read_double(ka_byte_reader *r)
{
    uint64_t bits = ka_read_fixed(r, 8);
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* A copy in the arena; out of memory sets *ok. */
static kineto_string read_kept_text(ka_byte_reader *r, kb_arena *arena, bool *ok)
{
    kineto_string s = ka_read_text(r);
    s.data = s.size ? kb_arena_copy(arena, s.data, s.size) : "";
    *ok &= s.data != NULL;
    return s;
}

static bool find_rule(kineto_string id, ka_finding_rule *rule)
{
    for (uint32_t i = 0; i < KA_FIND_COUNT; i++)
        if (kb_string_is(id, ka_finding_rule_id((ka_finding_rule)i))) {
            *rule = (ka_finding_rule)i;
            return true;
        }
    return false;
}

static bool read_evidence(ka_byte_reader *r, kineto_findings *f, ka_found *x)
{
    enum { MIN_BYTES = 8 };
    bool ok = true;
    uint64_t count = ka_read_count(r, MIN_BYTES);
    for (uint64_t i = 0; i < count && ok && !r->is_bad; i++) {
        ka_evidence e = {.row = (kineto_row)(ka_read_varint(r) - 1)};
        e.rank = (int32_t)ka_read_signed(r);
        e.start_ns = ka_read_signed(r);
        e.end_ns = ka_read_signed(r);
        e.name = read_kept_text(r, &f->arena, &ok);
        e.where = read_kept_text(r, &f->arena, &ok);
        e.text = read_kept_text(r, &f->arena, &ok);
        e.weight_ns = ka_read_signed(r);
        ok = ok && kb_vec_push(&x->evidence, e);
    }
    return ok;
}

/* @param is_known  its rule exists here. */
static bool read_found(ka_byte_reader *r, kineto_findings *f, ka_found *x, bool *is_known)
{
    bool ok = true;
    *x = (ka_found){.saved_ns = 0};
    *is_known = find_rule(ka_read_text(r), &x->rule);
    uint64_t severity = ka_read_varint(r), flags = ka_read_varint(r);
    r->is_bad |= severity > KINETO_FINDING_HIGH;
    x->severity = (uint8_t)severity;
    x->severity_is_set = flags & 1;
    x->overlaps = flags >> 1 & 1;
    x->comes_first = flags >> 2 & 1;
    x->saved_ns = ka_read_signed(r);
    x->whole_ns = ka_read_signed(r);
    x->extent = read_double(r);
    x->confidence = read_double(r);
    x->rank = (int32_t)ka_read_signed(r);
    x->rank_count = (uint32_t)ka_read_varint(r);
    x->count = ka_read_varint(r);
    x->subject = read_kept_text(r, &f->arena, &ok);
    x->sentence = read_kept_text(r, &f->arena, &ok);
    x->advice = read_kept_text(r, &f->arena, &ok);
    x->step_savings_ns = x->own_savings_ns = ka_read_signed(r);
    x->baseline_ns = ka_read_signed(r);
    x->origin_ns = ka_read_signed(r);
    x->step_savings_pct = read_double(r);
    r->is_bad |= !x->rank_count;
    return ok && read_evidence(r, f, x);
}

static bool read_verdicts(ka_byte_reader *r, kineto_findings *f)
{
    bool ok = true;
    uint64_t count = ka_read_count(r, 3);
    f->lacking = f->chosen & ka_rules_of_traces();
    for (uint64_t i = 0; i < count && ok; i++) {
        ka_finding_rule rule;
        bool is_known = find_rule(ka_read_text(r), &rule);
        uint64_t outcome = ka_read_varint(r);
        kineto_string because = read_kept_text(r, &f->arena, &ok);
        r->is_bad |= outcome > UINT8_MAX;
        if (is_known && f->chosen >> rule & 1)
            f->verdicts[rule] = (ka_verdict){(uint8_t)outcome, because};
        f->lacking &= is_known ? ~((ka_rule_set)1 << rule) : f->lacking;
    }
    ka_findings_skip_lacking(f);
    return ok;
}

bool ka_read_findings(ka_byte_reader *r, kineto_findings *f, kineto_string *repeated_steps)
{
    enum { MIN_BYTES = 40 };
    *repeated_steps = ka_read_text(r);
    f->whole_ns = ka_read_signed(r);
    f->whole_count = (uint32_t)ka_read_varint(r);
    f->step_ns = ka_read_signed(r);
    f->step_count = (uint32_t)ka_read_varint(r);
    f->evidence_limit = (uint32_t)ka_read_varint(r);
    f->is_torch = ka_read_varint(r) != 0;
    f->quality = read_double(r);
    r->is_bad |= !f->whole_count;
    if (!read_verdicts(r, f))
        return false;
    uint64_t count = ka_read_count(r, MIN_BYTES);
    for (uint64_t i = 0; i < count && !r->is_bad; i++) {
        ka_found x;
        bool is_known, ok = read_found(r, f, &x, &is_known), is_wanted = ok && is_known && f->chosen >> x.rule & 1;
        ok = ok && (!is_wanted || kb_vec_push(&f->found, x));
        if (!ok || !is_wanted)
            ka_found_free(&x);
        if (!ok)
            return false;
    }
    return !r->is_bad;
}

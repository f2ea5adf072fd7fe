/* The report of a recording's own cost, and of what the cost limit dropped: lines of the ledger,
 * and a JSON object in the header (key ckineto_self_cost). docs/reference/self-cost.md documents
 * both; keys and sources of lines are stable. */
#include "session/self_cost.h"

#include <stdarg.h>

#define SELF_COST "self-cost"
#define BUDGET    "budget"
#define SHOWN     6u /* periods in a line of the ledger; the header has them all */

typedef struct text {
    char *at, *end;
} text;

/* Truncates at the end of the buffer; numbers do not depend on the locale. */
__attribute__((format(printf, 2, 3))) static void append_format(text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = kb_vsnprintf(t->at, (size_t)(t->end - t->at), format, args);
    va_end(args);
    if (n > 0)
        t->at += KB_MIN(n, t->end - t->at - 1);
    KB_ASSERT(t->at < t->end);
}

/* For %llu. */
static unsigned long long as_ull(uint64_t n) { return n; }

/* ---- lines of the ledger --------------------------------------------------------------------- */

static uint64_t recording_cost_ns(const ks_cost_summary *s)
{
    return ks_cost_hooks(&s->cost) + s->cost.recorder_ns;
}

static double percent_of_elapsed(const ks_cost_summary *s)
{
    return s->lasted_ns ? 100 * (double)recording_cost_ns(s) / (double)s->lasted_ns : 0;
}

/* The most meaningful share: of the program's own time, or of elapsed time if that is too short. */
static void put_share(text *t, const ks_cost_summary *s)
{
    const ks_cost *c = &s->cost;
    kb_text own = kb_duration((int64_t)ks_cost_own(c));
    if (!c->program_ns)
        append_format(t, "a share of a program whose CPU time is not known");
    else if (ks_cost_is_comparable(c, s->lasted_ns))
        append_format(t, "%.2f %% of the %s that the program took by itself",
                      ks_cost_share_ppm(c) / 1e4, own.s);
    else
        append_format(t, "%.2f %% of one processor for %s; the program took %s by itself",
                      percent_of_elapsed(s), kb_duration((int64_t)s->lasted_ns).s, own.s);
}

/* One line with the sum; its parts are in the header. */
static void note_total_cost(const ks_cost_summary *s, ks_cost_note *note, void *context)
{
    char detail[200];
    text t = {detail, detail + sizeof detail};
    detail[0] = 0;
    if (s->account->by == KS_BY_NOBODY)
        append_format(&t,
                      "in the program's threads; what its recorder took died with the recorder");
    else
        put_share(&t, s);
    note(context, SELF_COST, KT_REASON_RECORDING_COST, recording_cost_ns(s) / 1000, false,
         detail);
    double seconds = (double)s->lasted_ns / (double)KB_SECOND_NS;
    kb_snprintf(detail, sizeof detail, "%.3f MB/s",
                seconds > 0 ? (double)s->account->tally.bytes / 1e6 / seconds : 0.0);
    note(context, SELF_COST, "bytes recorded", s->account->tally.bytes, false, detail);
}

/* Appends the times at which this level or a higher one was in force, adjacent periods merged.
 * @return their total duration. */
static uint64_t put_level_times(text *t, const ks_cost_limit *b, uint32_t level)
{
    uint64_t sum = 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < b->period_count; i++) {
        const ks_period *p = &b->periods[i];
        if (p->level < level)
            continue;
        uint64_t from_ns = p->from_ns, until_ns = p->until_ns;
        while (i + 1 < b->period_count && b->periods[i + 1].level >= level &&
               b->periods[i + 1].from_ns == until_ns)
            until_ns = b->periods[++i].until_ns;
        sum += until_ns - from_ns;
        if (count++ < SHOWN)
            append_format(t, "%s%.2f to %.2f s", count == 1 ? "from " : ", ",
                          (double)from_ns / (double)KB_SECOND_NS,
                          (double)until_ns / (double)KB_SECOND_NS);
    }
    if (count > SHOWN)
        append_format(t, ", and %u times more", count - SHOWN);
    return sum;
}

typedef struct left_out {
    uint64_t count;
    bool is_loss;
    const char *unit;
} left_out;

/* How much a level dropped. Ranges dropped by sites are not a loss here: the program's own ledger
 * lines count them. */
static left_out left_out_of(const ks_account *a, const ks_cost_limit *b, uint32_t level)
{
    const ks_tally *t = &a->tally;
    if (level == 1)
        return (left_out){t->operators - t->with_stack, false, "operators without"};
    if (level == 2)
        return (left_out){t->operators - t->with_inputs, false, "operators without"};
    if (level == 3)
        return (left_out){t->throttled, false, "ranges, counted one by one"};
    uint64_t about = (uint64_t)b->left_out_events;
    return (left_out){about, level == 4 && about,
                      "events of this line and the next, about: programs do not even count them"};
}

/* No line for a level that was never in force. */
static void note_level(const ks_account *a, const ks_cost_limit *b, uint32_t level, ks_cost_note *note,
                       void *context)
{
    char reason[128], detail[512];
    text t = {detail, detail + sizeof detail};
    detail[0] = 0;
    uint64_t sum_ns = put_level_times(&t, b, level);
    if (!sum_ns)
        return;
    left_out out = left_out_of(a, b, level);
    append_format(&t, "; %.2f s in all; %s", (double)sum_ns / (double)KB_SECOND_NS, out.unit);
    snprintf(reason, sizeof reason, "left out, %u: %s", level, ks_levels[level].what);
    note(context, BUDGET, reason, level == KS_LEVELS - 1 ? 0 : out.count, out.is_loss, detail);
}

static bool is_limit_kept(const ks_cost_limit *b, const ks_cost *c)
{
    return ks_cost_share_ppm(c) <= b->ppm;
}

/* Whether the limit was kept, and what each level dropped. */
static void note_cost_limit(const ks_account *a, const ks_cost_limit *b, const ks_cost *c,
                            ks_cost_note *note, void *context)
{
    char detail[200];
    kb_snprintf(
        detail, sizeof detail, "%s: %.2f %% of %.2f %%%s",
        is_limit_kept(b, c) ? "kept" : "NOT kept", ks_cost_share_ppm(c) / 1e4, b->ppm / 1e4,
        is_limit_kept(b, c) || b->period_count ? "" : "; leaving out more would not have helped");
    note(context, BUDGET, "in millionths of the program's CPU time", (uint64_t)b->ppm, false,
         detail);
    for (uint32_t level = 1; level < KS_LEVELS; level++)
        note_level(a, b, level, note, context);
}

/* ---- the header ------------------------------------------------------------------------------ */

static void put_records(text *t, const ks_tally *tally)
{
    static const struct {
        const char *name;
        kf_type type;
    } names[] = {{"ranges", KF_BEGIN},  {"instants", KF_INSTANT},  {"counters", KF_COUNTER},
                 {"args", KF_ARGS},     {"flows", KF_FLOW},        {"memory", KF_MEMORY},
                 {"device", KF_DEVICE}, {"async", KF_ASYNC_BEGIN}, {"outputs", KF_OUTPUTS},
                 {"steps", KF_RANGE}};
    append_format(t, ", \"records\": {");
    for (size_t i = 0; i < KB_COUNT(names); i++)
        append_format(t, "%s\"%s\": %llu", i ? ", " : "", names[i].name,
                      as_ull(tally->records[names[i].type]));
    append_format(t, "}");
}

/* Calls and time of each timed operation. KF_COST_ATTACH is in ns already, the others are in
 * ticks. */
static void put_timed(text *t, const ks_account *a)
{
    static const char *const names[] = {
#define KF_X(name, what) what,
        KF_COST_MAP(KF_X)
#undef KF_X
    };
    append_format(t, ", \"timed\": {");
    for (uint32_t i = 0; i < KF_COST_COUNT; i++)
        append_format(t, "%s\"%s\": {\"calls\": %llu, \"ns\": %.0f}", i ? ", " : "", names[i],
                      as_ull(a->calls[i]),
                      (double)a->ticks[i] * (i == KF_COST_ATTACH ? 1 : a->ns_per_tick));
    append_format(t, "}");
}

/* The measured cost of one record, by unit. */
static void put_units(text *t, const ks_account *a, const kf_control *control)
{
    static const char *const names[KF_UNIT_COUNT] = {"range", "other record", "further word",
                                                     "range left out"};
    append_format(t, ", \"unit_ns\": {");
    for (uint32_t i = 0; i < KF_UNIT_COUNT; i++)
        append_format(t, "%s\"%s\": %.2f", i ? ", " : "", names[i],
                      (double)kb_load_relaxed(&control->unit_costs[i]) / KF_UNIT_PARTS *
                          a->ns_per_tick);
    append_format(t, "}");
}

static void put_budget(text *t, const ks_account *a, const ks_cost_limit *b, const ks_cost *c)
{
    append_format(t,
                  ", \"budget\": {\"percent\": %.4f, \"kept\": %s, \"ranges_left_out\": %llu, "
                  "\"events_left_out_about\": %.0f, \"kinds_left_out_ns\": %llu, \"levels\": [",
                  b->ppm / 1e4, is_limit_kept(b, c) ? "true" : "false", as_ull(a->tally.throttled),
                  b->left_out_events, as_ull(b->closed_ns));
    for (uint32_t i = 0; i < b->period_count; i++)
        append_format(t, "%s{\"level\": %u, \"from_s\": %.3f, \"until_s\": %.3f}", i ? ", " : "",
                      b->periods[i].level, (double)b->periods[i].from_ns / (double)KB_SECOND_NS,
                      (double)b->periods[i].until_ns / (double)KB_SECOND_NS);
    append_format(t, "]}");
}

/* A JSON number, or null if it is not known. */
static void put_known(text *t, const char *key, bool known, uint64_t ns)
{
    if (known)
        append_format(t, ", \"%s\": %llu", key, as_ull(ns));
    else
        append_format(t, ", \"%s\": null", key);
}

/* CPU times; those that only a recorder or only a program knows are omitted. */
static void put_cpu(text *t, const ks_cost_summary *s)
{
    const ks_cost *c = &s->cost;
    bool known = s->account->by != KS_BY_NOBODY, inside = s->account->by == KS_BY_PROGRAM;
    if (known && ks_cost_is_comparable(c, s->lasted_ns))
        append_format(t, "\"percent\": %.4f", ks_cost_share_ppm(c) / 1e4);
    else
        append_format(t, "\"percent\": null");
    append_format(t, ", \"percent_of_elapsed\": %.4f", percent_of_elapsed(s));
    put_known(t, "program_cpu_ns", known, c->program_ns);
    put_known(t, "recorder_cpu_ns", known, c->recorder_ns);
    if (!inside)
        put_known(t, "recorder_system_ns", known, c->recorder_system_ns);
    append_format(t, ", \"in_program_estimated_ns\": %llu, \"in_program_timed_ns\": %llu",
                  as_ull(c->estimated_ns), as_ull(c->measured_ns + c->fixed_ns));
    if (inside)
        append_format(
            t,
            ", \"helper_threads_cpu_ns\": %llu, \"prepare_cpu_ns\": %llu, \"build_cpu_ns\": %llu",
            as_ull(c->helpers_ns), as_ull(s->prepare_ns), as_ull(s->build_ns));
}

static void put_cost_header(const ks_cost_summary *s, text *t)
{
    const ks_tally *tally = &s->account->tally;
    double seconds = (double)s->lasted_ns / (double)KB_SECOND_NS;
    append_format(t, "{");
    put_cpu(t, s);
    append_format(t, ", \"bytes\": %llu, \"bytes_per_second\": %.0f, \"seconds\": %.3f",
                  as_ull(tally->bytes), seconds > 0 ? (double)tally->bytes / seconds : 0.0,
                  seconds);
    put_records(t, tally);
    put_units(t, s->account, s->control);
    put_timed(t, s->account);
    if (s->budget && s->budget->ppm > 0)
        put_budget(t, s->account, s->budget, &s->cost);
    append_format(t, "}");
}

void ks_cost_report(const ks_cost_summary *summary, ks_cost_note *note, void *context,
                    char json[KS_COST_JSON_BYTES])
{
    text t = {json, json + KS_COST_JSON_BYTES};
    note_total_cost(summary, note, context);
    if (summary->budget && summary->budget->ppm > 0)
        note_cost_limit(summary->account, summary->budget, &summary->cost, note, context);
    put_cost_header(summary, &t);
}

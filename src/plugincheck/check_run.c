/* A check run: scenarios in child processes, their notes and endings, and the verdicts that
 * follow.
 *
 * Order matters: load, query and session come first, because the other scenarios are only
 * meaningful if those work. A rule gets its verdict from the notes of its scenario; a FAILED
 * verdict is final, and a rule of which nothing was reported becomes UNTESTED with a reason. */
#include "plugincheck/check_scenarios.h"
#include "plugincheck/isolate.h"

#include <unistd.h>

#define MAX_TEXT_BYTES 4096u

/* ---- in the child ---------------------------------------------------------------------------- */

typedef struct scenario_task {
    const kv_scenario *scenario;
    const char *path;
    kv_crash_site *site;
} scenario_task;

static void run_scenario(void *context, int to)
{
    /* too large for the stack */
    static kv_check check;
    const scenario_task *t = context;
    if (!kv_check_init(&check, t->path, to, t->site))
        _exit(KV_NO_MEMORY);
    t->scenario->run(&check);
}

/* ---- verdicts -------------------------------------------------------------------------------- */

/* Set a verdict other than FAILED. FAILED stays; UNTESTED does not replace a reported verdict; an
 * observation is replaced by a later one only if that has a text. */
static void set_verdict(kv_result *result, kv_verdict verdict, const char *seen)
{
    KB_ASSERT(verdict != KV_VERDICT_FAILED);
    bool replaces_text = !result->reported || result->verdict == KV_VERDICT_UNTESTED || seen[0];
    if (result->verdict == KV_VERDICT_FAILED)
        return;
    if (verdict == KV_VERDICT_UNTESTED && result->reported)
        return;
    result->verdict = verdict;
    result->reported = true;
    if (replaces_text)
        snprintf(result->seen, sizeof result->seen, "%s", seen);
}

/* The first fault of a rule is the one that is shown. */
static void fail_rule(kv_result *result, const char *seen)
{
    if (result->faults++ == 0)
        snprintf(result->seen, sizeof result->seen, "%s", seen);
    result->verdict = KV_VERDICT_FAILED;
    result->reported = true;
}

/* Unknown types and rules are ignored or wrapped, since a plug-in can corrupt the child. */
static void apply_note(kv_check_report *r, const kv_note *note)
{
    kv_result *result = &r->results[note->rule % KV_RULE_COUNT];
    switch (note->type) {
    case KV_NOTE_FAULT:
        fail_rule(result, note->text);
        break;
    case KV_NOTE_OK:
        set_verdict(result, KV_VERDICT_OK, note->text);
        break;
    case KV_NOTE_UNTESTED:
        set_verdict(result, KV_VERDICT_UNTESTED, note->text);
        break;
    case KV_NOTE_MEASURED:
        result->ns = note->ns;
        set_verdict(result, KV_VERDICT_MEASURED, note->text);
        break;
    case KV_NOTE_PROFILER:
        if (r->profiler_count < KV_MAX_PROFILERS)
            memcpy(r->profilers[r->profiler_count++], note->text, sizeof note->text);
        break;
    }
}

/* The plug-in may have written to the pipe as well: a record without the magic number ends the
 * notes. Returns true if the scenario announced that it ends the process itself. */
static bool apply_notes(kv_check_report *r, const kv_outcome *o)
{
    bool done = false;
    kv_note note;
    for (size_t at = 0; at + sizeof note <= o->data_bytes; at += sizeof note) {
        memcpy(&note, o->data + at, sizeof note);
        if (note.magic != KV_NOTE_MAGIC)
            break;
        note.text[sizeof note.text - 1] = 0;
        done |= note.type == KV_NOTE_DONE;
        apply_note(r, &note);
    }
    return done;
}

/* Reading past the end of a struct breaks size.today in whichever of the first scenarios it
 * occurs. */
static kv_rule find_crash_rule(const kv_crash_site *site)
{
    kv_rule rule = (kv_rule)(site->rule % KV_RULE_COUNT);
    bool is_struct = strstr(site->guard, "KinetoPlugin_") != NULL;
    bool is_early = rule == KV_RULE_LIFE_ORDER || rule == KV_RULE_QUERY_NULL_HANDLE ||
                    rule == KV_RULE_LOAD_REGISTER;
    return is_struct && is_early ? KV_RULE_SIZE_TODAY : rule;
}

/* "profilerStart, in addEvent: signal 11 (…): <guard>; it printed: assertion failed". The last line
 * that was printed is included: an assertion says more than the signal. */
static void report_crash(kv_check_report *r, kv_crash_site *site, kv_outcome *o,
                         const kv_isolation *how)
{
    char ending[80], printed[120], text[sizeof r->results->seen];
    const char *line = kv_quote(kv_outcome_last_line(o), printed, sizeof printed);
    const char *inner = kv_builder_call(site->builder_call);
    site->call[sizeof site->call - 1] = 0; /* shared memory that the plug-in could overwrite */
    site->guard[sizeof site->guard - 1] = 0;
    snprintf(text, sizeof text, "%s%s%s%s%s%s%s%s%s", site->call, *inner ? ", in " : "", inner,
             site->call[0] ? ": " : "", kv_outcome_text(o, how, ending, sizeof ending),
             site->guard[0] ? ": " : "", site->guard, *line ? "; it printed: " : "", line);
    fail_rule(&r->results[find_crash_rule(site)], text);
}

/* Anything on stdout or stderr breaks quiet.output. */
static void check_output(kv_check_report *r, const kv_outcome *o)
{
    char text[120], seen[160];
    kv_result *result = &r->results[KV_RULE_QUIET_OUTPUT];
    if (!o->text_bytes) {
        set_verdict(result, KV_VERDICT_OK, "");
        return;
    }
    snprintf(seen, sizeof seen, "\"%s\"", kv_quote(o->text, text, sizeof text));
    fail_rule(result, seen);
}

/* Rules of a scenario that did not report on them become untested. */
static void settle_rules(kv_check_report *r, uint64_t rules, const char *why)
{
    for (size_t i = 0; i < KV_RULE_COUNT; i++)
        if (rules & KV_RULE_BIT(i))
            set_verdict(&r->results[i], KV_VERDICT_UNTESTED, why);
}

/* The same for a scenario that did not run or ended early: the report is blocked if a wanted rule
 * is among those that have no verdict. */
static void settle_blocked_rules(kv_check_report *r, uint64_t rules, const char *why)
{
    for (size_t i = 0; i < KV_RULE_COUNT; i++)
        if ((rules & r->shown & KV_RULE_BIT(i)) && !r->results[i].reported)
            r->blocked = true;
    settle_rules(r, rules, why);
}

/* ---- running --------------------------------------------------------------------------------- */

/* Rules of one group are consecutive. */
static bool any_rule_failed(const kv_check_report *r, kv_rule first, kv_rule last)
{
    KB_ASSERT(first <= last && last < KV_RULE_COUNT);
    for (size_t i = first; i <= (size_t)last; i++)
        if (r->results[i].verdict == KV_VERDICT_FAILED)
            return true;
    return false;
}

/* Turn the notes and the ending of a scenario into verdicts.
 * Returns true if the scenario ran to its end. */
static bool evaluate_outcome(kv_check_report *r, const kv_scenario *scenario, kv_crash_site *site,
                             kv_outcome *o, const kv_isolation *how)
{
    const uint64_t checks_output =
        KV_RULE_BIT(KV_RULE_LOAD_OPENS) | KV_RULE_BIT(KV_RULE_QUIET_OUTPUT);
    bool announced_end = apply_notes(r, o);
    bool finished =
        o->ending == KV_RETURNED || (announced_end && o->ending == KV_EXITED && o->code == 0);
    if (!finished) {
        report_crash(r, site, o, how);
        settle_blocked_rules(r, scenario->rules, "its check ended early");
        return false;
    }
    if (scenario->rules & checks_output)
        check_output(r, o);
    settle_rules(r, scenario->rules, "its check reported nothing");
    return true;
}

/* Only a child without memory is an error of the run. */
static kineto_status run_in_child(kv_check_report *r, const kv_scenario *scenario,
                                  kv_crash_site *site, uint32_t limit_ms, bool *finished,
                                  kineto_error *err)
{
    kv_outcome o;
    kv_isolation how = {.limit_ms = limit_ms, .max_text_bytes = MAX_TEXT_BYTES};
    scenario_task t = {scenario, r->path, site};
    memset(site, 0, sizeof *site);
    kineto_status status = kv_isolate(&how, run_scenario, &t, &o, err);
    if (status)
        return status;
    if (o.ending == KV_EXITED && o.code == KV_NO_MEMORY)
        status = kb_fail_memory(err, "check");
    else
        *finished = evaluate_outcome(r, scenario, site, &o, &how);
    kv_outcome_free(&o);
    return status;
}

/* load and query are always needed; session, if a wanted scenario needs it. */
static bool is_scenario_needed(const kv_check_report *r, size_t index)
{
    const kv_scenario *scenario = &kv_scenarios[index];
    KB_ASSERT(index < kv_scenario_count);
    if (index < 2 || (scenario->rules & r->shown))
        return true;
    if (scenario->needs_session)
        return false;
    for (size_t i = index + 1; i < kv_scenario_count; i++)
        if (kv_scenarios[i].needs_session && (kv_scenarios[i].rules & r->shown))
            return true;
    return false;
}

/* The reason why a scenario cannot be run; NULL: none. */
static const char *find_obstacle(const kv_check_report *r, const kv_scenario *scenario,
                                 bool session_works)
{
    if (scenario->rules & KV_RULE_BIT(KV_RULE_LOAD_OPENS))
        return NULL;
    if (any_rule_failed(r, KV_RULE_LOAD_OPENS, KV_RULE_LOAD_REGISTER))
        return "it cannot be loaded: see load";
    if (scenario->rules & KV_RULE_BIT(KV_RULE_QUERY_NULL_HANDLE))
        return NULL;
    if (r->results[KV_RULE_QUERY_NULL_HANDLE].verdict != KV_VERDICT_OK)
        return "its name and kinds cannot be queried: see query and size";
    if (scenario->needs_session && !session_works)
        return "an ordinary session does not work: see life.order";
    return NULL;
}

/* In the order of the table; scenarios with an obstacle are skipped with its reason. */
static kineto_status run_scenarios(kv_check_report *r, kv_crash_site *site, uint32_t limit_ms,
                                   kineto_error *err)
{
    bool session_works = false, finished = false;
    for (size_t i = 0; i < kv_scenario_count; i++) {
        const kv_scenario *scenario = &kv_scenarios[i];
        if (!is_scenario_needed(r, i))
            continue;
        const char *why = find_obstacle(r, scenario, session_works);
        if (why) {
            settle_blocked_rules(r, scenario->rules, why);
            continue;
        }
        kineto_status status = run_in_child(r, scenario, site, limit_ms, &finished, err);
        if (status)
            return status;
        if (scenario->rules & KV_RULE_BIT(KV_RULE_LIFE_ORDER))
            session_works = finished && r->results[KV_RULE_LIFE_ORDER].verdict == KV_VERDICT_OK &&
                            r->results[KV_RULE_SIZE_TODAY].verdict == KV_VERDICT_OK;
    }
    return KINETO_OK;
}

/* Of the shown rules; measured ones are not counted. */
static void count_verdicts(kv_check_report *r)
{
    r->ok = r->failed = r->untested = 0;
    for (size_t i = 0; i < KV_RULE_COUNT; i++) {
        if (!(r->shown & KV_RULE_BIT(i)))
            continue;
        r->ok += r->results[i].verdict == KV_VERDICT_OK;
        r->failed += r->results[i].verdict == KV_VERDICT_FAILED;
        r->untested += r->results[i].verdict == KV_VERDICT_UNTESTED;
    }
    KB_ASSERT(r->ok + r->failed + r->untested <= KV_RULE_COUNT);
}

/* The crash site is shared memory, so that it survives the child. */
kineto_status kv_check_run(const char *path, uint64_t rules, uint32_t limit_ms,
                           kv_check_report *out, kineto_error *err)
{
    KB_ASSERT(rules != 0 && !(rules & ~KV_RULES_ALL));
    *out = (kv_check_report){.path = path, .shown = rules};
    kv_crash_site *site = kb_os_map_shared(sizeof *site, err);
    if (!site)
        return err->code;
    kineto_status status = run_scenarios(out, site, limit_ms, err);
    kb_os_unmap(site, sizeof *site);
    if (status)
        return status;
    count_verdicts(out);
    out->is_plugin = out->results[KV_RULE_LOAD_SYMBOL].verdict != KV_VERDICT_FAILED;
    if (out->untested && any_rule_failed(out, KV_RULE_LOAD_OPENS, KV_RULE_LIFE_ORDER))
        out->blocked = true;
    return KINETO_OK;
}

/* The report of `ckineto plugin check`, as text and as JSON. Texts in a report come from the
 * plug-in: names are printed without control characters. The keys of the JSON object are an
 * interface, see docs/reference/plugins.md. */
#include "cli/plugin_check_print.h"
#include "cli/style.h"

static const char *const verdict_names[] = {"not tested", "ok", "FAILED", "measured"};
static const kc_style verdict_styles[] = {KC_DIM, KC_GREEN, KC_RED, KC_PLAIN};

/* ---- text ------------------------------------------------------------------------------------ */

/* @param text "name\tvendor\tkinds", as the plug-in reported them. */
static void print_checked_profiler(const char *text)
{
    const char *vendor = strchr(text, '\t');
    const char *kinds = vendor ? strchr(vendor + 1, '\t') : NULL;
    if (!kinds)
        return;
    fputs("profiler \"", stdout);
    kc_put_name(stdout, (kineto_string){text, (size_t)(vendor - text)}, 0);
    fputs("\"", stdout);
    if (kinds > vendor + 1) {
        fputs(" of vendor \"", stdout);
        kc_put_name(stdout, (kineto_string){vendor + 1, (size_t)(kinds - vendor - 1)}, 0);
        fputs("\"", stdout);
    }
    fputs(": ", stdout);
    kc_put_name(stdout, kb_string(kinds + 1), 0);
    putchar('\n');
}

/* Columns before an observation. */
#define OBSERVATION_COLUMN 38

/* A text in the column of observations; `first` is there already if it is "". */
static void put_observation(const char *first, const char *label, const char *text)
{
    char indent[OBSERVATION_COLUMN + 8], line[KV_NOTE_BYTES + 64];
    snprintf(indent, sizeof indent, "%*s", OBSERVATION_COLUMN, "");
    snprintf(line, sizeof line, "%s%s", label, text);
    kc_put_wrapped(stdout, kc_page_width(stdout), first, indent, 0, kb_string(line));
}

/* A line with the verdict; a failed rule also has its text and how to fix it. */
static void print_rule_result(kv_rule rule, const kv_result *result)
{
    char first[96], seen[sizeof result->seen + 64], indent[OBSERVATION_COLUMN + 1];
    int more = snprintf(seen, sizeof seen, "%s", result->seen);
    if (result->faults > 1)
        snprintf(seen + more, sizeof seen - (size_t)more, " (and in %llu more sessions or calls)",
                 (unsigned long long)result->faults - 1);
    snprintf(first, sizeof first, "%-25s %s%-11s%s ", kv_rules[rule].id, kc_paint(stdout, verdict_styles[result->verdict]),
             verdict_names[result->verdict], kc_paint(stdout, KC_PLAIN));
    put_observation(first, "", seen);
    if (result->verdict != KV_VERDICT_FAILED)
        return;
    snprintf(indent, sizeof indent, "%*s", OBSERVATION_COLUMN, "");
    put_observation(indent, "rule: ", kv_rules[rule].text);
    if (*kv_rules[rule].hint)
        put_observation(indent, "fix: ", kv_rules[rule].hint);
}

/* All shown rules with one verdict. */
static void print_results(const kv_check_report *r, kv_verdict verdict)
{
    for (size_t i = 0; i < KV_RULE_COUNT; i++)
        if (r->shown & KV_RULE_BIT(i) && r->results[i].verdict == verdict)
            print_rule_result((kv_rule)i, &r->results[i]);
}

/* Was a rule before this one not tested for the same reason? */
static bool is_reason_printed(const kv_check_report *r, size_t rule)
{
    for (size_t i = 0; i < rule; i++)
        if (r->shown & KV_RULE_BIT(i) && r->results[i].verdict == KV_VERDICT_UNTESTED &&
            strcmp(r->results[i].seen, r->results[rule].seen) == 0)
            return true;
    return false;
}

/* "it has no push and pop: threads.push-pop, cost.push-pop": the rules that were not tested for one reason. */
static void print_reason(const kv_check_report *r, size_t rule)
{
    enum { MAX_NAMES = 8 };
    char text[KV_NOTE_BYTES + MAX_NAMES * 32];
    size_t at = (size_t)snprintf(text, sizeof text, "%s: ", r->results[rule].seen), count = 0;
    for (size_t i = rule; i < KV_RULE_COUNT && at < sizeof text; i++) {
        bool is_same = r->shown & KV_RULE_BIT(i) && r->results[i].verdict == KV_VERDICT_UNTESTED &&
                       strcmp(r->results[i].seen, r->results[rule].seen) == 0;
        if (is_same && count++ < MAX_NAMES)
            at += (size_t)kb_snprintf(text + at, sizeof text - at, "%s%s", count > 1 ? ", " : "", kv_rules[i].id);
    }
    if (count > MAX_NAMES && at < sizeof text)
        kb_snprintf(text + at, sizeof text - at, " and %zu more", count - MAX_NAMES);
    kc_put_wrapped(stdout, kc_page_width(stdout), "  ", "    ", 0, kb_string(text));
}

/* Rules without a verdict, by the reason, and whether that matters. */
static void print_untested(const kv_check_report *r)
{
    if (!r->untested)
        return;
    printf("\nnot tested, %s:\n", r->failed && r->untested > r->ok ? "until the failure is fixed"
                                  : r->blocked ? "because a precondition does not hold"
                                               : "which is no failure: these parts of the interface are optional");
    for (size_t i = 0; i < KV_RULE_COUNT; i++)
        if (r->shown & KV_RULE_BIT(i) && r->results[i].verdict == KV_VERDICT_UNTESTED && !is_reason_printed(r, i))
            print_reason(r, i);
}

/* The last words of the report; `blocked` is a report without a failure in which a rule that
 * was requested could not be tested. */
static const char *conclude_report(const kv_check_report *r)
{
    if (r->failed)
        return "it does not conform";
    return r->blocked ? "a precondition does not hold" : "it conforms";
}

/* Failures come first; the rules that hold are only counted unless `verbose`. */
void kc_check_report_print(const kv_check_report *r, bool verbose)
{
    kc_put_name(stdout, kb_string(r->path), 0);
    putchar('\n');
    for (size_t i = 0; i < r->profiler_count; i++)
        print_checked_profiler(r->profilers[i]);
    putchar('\n');
    kc_put_styled(stdout, KC_BOLD, "%-25s %-11s %s", "rule", "verdict", "observation");
    putchar('\n');
    print_results(r, KV_VERDICT_FAILED);
    if (verbose)
        print_results(r, KV_VERDICT_OK);
    else if (r->ok)
        printf("%u %s (-v lists %s)\n", r->ok, kc_noun(r->ok, "rule holds", "rules hold"), kc_noun(r->ok, "it", "them"));
    print_results(r, KV_VERDICT_MEASURED);
    print_untested(r);
    printf("\n%u %s, %u failed, %u not tested: ", r->ok, kc_noun(r->ok, "rule holds", "rules hold"), r->failed,
           r->untested);
    kc_put_styled(stdout, r->failed ? KC_RED : r->blocked ? KC_YELLOW : KC_GREEN, "%s", conclude_report(r));
    putchar('\n');
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* The note of the profiler as separate members. */
static void put_checked_profiler(kb_json *j, const char *text)
{
    const char *vendor = strchr(text, '\t');
    const char *kinds = vendor ? strchr(vendor + 1, '\t') : NULL;
    if (!kinds)
        return;
    kb_json_object_begin(j);
    kb_json_put_string(j, "name", (kineto_string){text, (size_t)(vendor - text)});
    kb_json_put_string(j, "vendor", (kineto_string){vendor + 1, (size_t)(kinds - vendor - 1)});
    kb_json_put_string(j, "kinds", kb_string(kinds + 1));
    kb_json_object_end(j);
}

/* The text of the rule and a hint only if it failed. */
static void put_rule_result(kb_json *j, kv_rule rule, const kv_result *result)
{
    static const char *const verdicts[] = {"untested", "ok", "failed", "measured"};
    kb_json_newline(j);
    kb_json_object_begin(j);
    kb_json_put_string(j, "id", kb_string(kv_rules[rule].id));
    kb_json_put_string(j, "verdict", kb_string(verdicts[result->verdict]));
    kb_json_put_string(j, "seen", kb_string(result->seen));
    if (result->verdict == KV_VERDICT_FAILED) {
        kb_json_put_string(j, "rule", kb_string(kv_rules[rule].text));
        kb_json_put_string(j, "hint", kb_string(kv_rules[rule].hint));
    }
    if (result->verdict == KV_VERDICT_MEASURED) {
        kb_json_put_double(j, "ns", result->ns);
    }
    kb_json_object_end(j);
}

/* Only the shown rules. */
static void put_check_report(kb_json *j, const void *what)
{
    const kv_check_report *r = what;
    kb_json_document_begin(j, "ckineto.plugin_check/1");
    kb_json_put_string(j, "version", kb_string(kineto_version()));
    kb_json_put_string(j, "file", kb_string(r->path));
    kb_json_put_bool(j, "conforms", r->failed == 0 && !r->blocked);
    kb_json_put_uint(j, "ok", r->ok);
    kb_json_put_uint(j, "failed", r->failed);
    kb_json_put_uint(j, "untested", r->untested);
    kb_json_key_z(j, "profilers");
    kb_json_array_begin(j);
    for (size_t i = 0; i < r->profiler_count; i++)
        put_checked_profiler(j, r->profilers[i]);
    kb_json_array_end(j);
    kb_json_key_z(j, "rules");
    kb_json_array_begin(j);
    for (size_t i = 0; i < KV_RULE_COUNT; i++)
        if (r->shown & KV_RULE_BIT(i))
            put_rule_result(j, (kv_rule)i, &r->results[i]);
    kb_json_array_end(j);
    kb_json_object_end(j);
}

kineto_status kc_check_report_json(const kv_check_report *r, kineto_error *err)
{
    return kc_put_json(put_check_report, r, err);
}

/* ---- a process with PyTorch that did not survive --------------------------------------------- */

#define CRASH_RULE "torch.survives"
#define CRASH_TEXT "The process with PyTorch survives the check."

typedef struct torch_crash {
    const char *plugin, *seen;
} torch_crash;

void kc_torch_crash_print(const char *plugin, const char *seen)
{
    kc_put_name(stdout, kb_string(plugin), 0);
    printf("\n\n%-25s %-11s %s\n", "rule", "verdict", "observation");
    printf("%-25s %-11s ", CRASH_RULE, verdict_names[KV_VERDICT_FAILED]);
    kc_put_name(stdout, kb_string(seen), 0);
    printf("\n%25s rule: " CRASH_TEXT "\n\n", "");
    puts("0 rules hold, 1 failed, 0 not tested: it does not conform");
}

/* The same members as an ordinary report, with a single failed rule. */
static void put_torch_crash(kb_json *j, const void *what)
{
    const torch_crash *c = what;
    kb_json_document_begin(j, "ckineto.plugin_check/1");
    kb_json_put_string(j, "file", kb_string(c->plugin));
    kb_json_put_bool(j, "conforms", false);
    kb_json_put_uint(j, "ok", 0);
    kb_json_put_uint(j, "failed", 1);
    kb_json_put_uint(j, "untested", 0);
    kb_json_key_z(j, "rules");
    kb_json_array_begin(j);
    kb_json_object_begin(j);
    kb_json_put_string(j, "id", kb_string(CRASH_RULE));
    kb_json_put_string(j, "verdict", kb_string("failed"));
    kb_json_put_string(j, "seen", kb_string(c->seen));
    kb_json_put_string(j, "rule", kb_string(CRASH_TEXT));
    kb_json_object_end(j);
    kb_json_array_end(j);
    kb_json_object_end(j);
}

kineto_status kc_torch_crash_json(const char *plugin, const char *seen, kineto_error *err)
{
    return kc_put_json(put_torch_crash, &(torch_crash){plugin, seen}, err);
}

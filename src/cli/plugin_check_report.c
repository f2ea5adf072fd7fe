/* The verdicts of `ckineto plugin check`, for people and for programs. */
#include "plugincheck/check.h"
#include "cli/cli.h"

static const char *const state_names[] = {"not tested", "ok", "FAILED", "measured"};

void kv_check_report_count(kv_check_report *r)
{
    r->ok = r->failed = r->untested = 0;
    for (size_t i = 0; i < KV_RULE_COUNT; i++) {
        if (!(r->shown & KV_RULE_BIT(i)))
            continue;
        r->ok += r->results[i].state == KV_STATE_OK;
        r->failed += r->results[i].state == KV_STATE_FAILED;
        r->untested += r->results[i].state == KV_STATE_UNTESTED;
    }
}

/* ---- text --------------------------------------------------------------------------------------- */

/* "name\tvendor\tkinds", as the child told it: no line of its own may come of it. */
static void print_profiler(const char *text)
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

static void print_result(kv_rule rule, const kv_result *result)
{
    printf("%-25s %-11s ", kv_rules[rule].id, state_names[result->state]);
    kc_put_name(stdout, kb_string(result->seen), 0);
    if (result->faults > 1)
        fputs(" (and more)", stdout);
    putchar('\n');
    if (result->state == KV_STATE_FAILED)
        printf("%25s rule: %s\n%25s mend: %s\n", "", kv_rules[rule].text, "", kv_rules[rule].hint);
}

void kv_check_report_print(const kv_check_report *r)
{
    kc_put_name(stdout, kb_string(r->path), 0);
    putchar('\n');
    for (size_t i = 0; i < r->profiler_count; i++)
        print_profiler(r->profilers[i]);
    printf("\n%-25s %-11s %s\n", "rule", "verdict", "what was seen");
    for (size_t i = 0; i < KV_RULE_COUNT; i++)
        if (r->shown & KV_RULE_BIT(i))
            print_result((kv_rule)i, &r->results[i]);
    printf("\n%u %s, %u failed, %u not tested: %s\n", r->ok,
           kc_noun(r->ok, "rule holds", "rules hold"), r->failed, r->untested,
           r->failed    ? "it does not conform"
           : r->blocked ? "what they need does not work"
                        : "nothing was found that does not conform");
}

/* ---- JSON --------------------------------------------------------------------------------------- */

static void json_profiler(kb_json *j, const char *text)
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

static void json_result(kb_json *j, kv_rule rule, const kv_result *result)
{
    static const char *const verdicts[] = {"untested", "ok", "failed", "measured"};
    kb_json_newline(j);
    kb_json_object_begin(j);
    kb_json_put_string(j, "id", kb_string(kv_rules[rule].id));
    kb_json_put_string(j, "verdict", kb_string(verdicts[result->state]));
    kb_json_put_string(j, "seen", kb_string(result->seen));
    if (result->state == KV_STATE_FAILED) {
        kb_json_put_string(j, "rule", kb_string(kv_rules[rule].text));
        kb_json_put_string(j, "hint", kb_string(kv_rules[rule].hint));
    }
    if (result->state == KV_STATE_MEASURED) {
        kb_json_put_double(j, "ns", result->ns);
    }
    kb_json_object_end(j);
}

static void json_report(kb_json *j, const void *what)
{
    const kv_check_report *r = what;
    kb_json_object_begin(j);
    kb_json_put_string(j, "version", kb_string(kineto_version()));
    kb_json_put_string(j, "file", kb_string(r->path));
    kb_json_put_bool(j, "conforms", r->failed == 0 && !r->blocked);
    kb_json_put_uint(j, "ok", r->ok);
    kb_json_put_uint(j, "failed", r->failed);
    kb_json_put_uint(j, "untested", r->untested);
    kb_json_key_z(j, "profilers");
    kb_json_array_begin(j);
    for (size_t i = 0; i < r->profiler_count; i++)
        json_profiler(j, r->profilers[i]);
    kb_json_array_end(j);
    kb_json_key_z(j, "rules");
    kb_json_array_begin(j);
    for (size_t i = 0; i < KV_RULE_COUNT; i++)
        if (r->shown & KV_RULE_BIT(i))
            json_result(j, (kv_rule)i, &r->results[i]);
    kb_json_array_end(j);
    kb_json_object_end(j);
}

kineto_status kv_check_report_json(const kv_check_report *r, kineto_error *err)
{
    return kc_put_json(json_report, r, err);
}

/* ckineto plugin check: does a plug-in keep the rules of the interface? Each scenario runs in a
 * child process; what it tells, and how it ends, become verdicts. */
#include "plugincheck/check.h"
#include "cli/cli.h"
#include "plugincheck/isolate.h"

#include <errno.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEFAULT_LIMIT_S 60u
#define MOST_TEXT_BYTES 4096u

static bool as_json, list_rules;
static uint64_t limit_s = DEFAULT_LIMIT_S;
static kc_texts wanted;
static kc_optional_text torch_python;
static const kc_option option_list[] = {
    {"json", 'j', KC_FLAG, &as_json, NULL, "one JSON object instead of a table"},
    {"rule", 'r', KC_TEXTS, &wanted, "ID", "only this rule, and what it needs (repeatable)"},
    {"list-rules", 'l', KC_FLAG, &list_rules, NULL, "print all rules and what they say"},
    {"limit", 0, KC_NUMBER, &limit_s, "SECONDS", "how long each part of the check may take (60)"},
    {"torch", 0, KC_OPTIONAL_TEXT, &torch_python, "[=PYTHON]",
     "check that it records in a process with PyTorch, of python3 if no\n"
     "interpreter is named, instead of the rules above"},
};
static const kc_options options = {
    "plugin check",
    "[options] FILE.so",
    "Run a plug-in through the life of a profiler, and through what hosts and programs may\n"
    "do to it, and say which rules of the interface it keeps. If it exports\n"
    "KinetoPlugin_exercise, its device is made to work and what it delivers is looked at.\n"
    "Everything runs in child processes: a crash is a verdict. The exit status is 0 if\n"
    "nothing was found, 1 if a rule is broken, 2 if there was nothing that could be checked.",
    option_list,
    KB_COUNT(option_list),
    false};

/* ---- in the child ------------------------------------------------------------------------------- */

typedef struct task {
    const kv_scenario *scenario;
    const char *path;
    kv_where *where;
} task;

static void run_scenario(void *context, int to)
{
    static kv_check check;
    const task *t = context;
    if (!kv_check_init(&check, t->path, to, t->where))
        _exit(KV_NO_MEMORY);
    t->scenario->run(&check);
}

/* ---- verdicts ----------------------------------------------------------------------------------- */

static void result_set(kv_result *result, kv_state state, const char *seen)
{
    bool better = !result->told || result->state == KV_STATE_UNTESTED || seen[0];
    if (result->state == KV_STATE_FAILED || (state == KV_STATE_UNTESTED && result->told))
        return;
    result->state = state;
    result->told = true;
    if (better)
        snprintf(result->seen, sizeof result->seen, "%s", seen);
}

static void result_fail(kv_result *result, const char *seen)
{
    if (result->faults++ == 0)
        snprintf(result->seen, sizeof result->seen, "%s", seen);
    result->state = KV_STATE_FAILED;
    result->told = true;
}

static void take_note(kv_check_report *r, const kv_note *note)
{
    kv_result *result = &r->results[note->rule % KV_RULE_COUNT];
    switch (note->word) {
    case KV_WORD_FAULT:
        result_fail(result, note->text);
        break;
    case KV_WORD_OK:
        result_set(result, KV_STATE_OK, note->text);
        break;
    case KV_WORD_UNTESTED:
        result_set(result, KV_STATE_UNTESTED, note->text);
        break;
    case KV_WORD_MEASURED:
        result->ns = note->ns;
        result_set(result, KV_STATE_MEASURED, note->text);
        break;
    case KV_WORD_PROFILER:
        if (r->profiler_count < KV_MAX_PROFILERS)
            memcpy(r->profilers[r->profiler_count++], note->text, sizeof note->text);
        break;
    }
}

/* Returns whether the child said that it ends itself. */
static bool take_notes(kv_check_report *r, const kv_outcome *o)
{
    bool done = false;
    kv_note note;
    for (size_t at = 0; at + sizeof note <= o->data_bytes; at += sizeof note) {
        memcpy(&note, o->data + at, sizeof note);
        if (note.magic != KV_NOTE_MAGIC)
            break;
        note.text[sizeof note.text - 1] = 0;
        done |= note.word == KV_WORD_DONE;
        take_note(r, &note);
    }
    return done;
}

/* Reading behind a struct is a fault of its own, wherever it shows. */
static kv_rule crash_rule(const kv_where *where)
{
    kv_rule rule = (kv_rule)(where->rule % KV_RULE_COUNT);
    bool of_struct = strstr(where->guard, "KinetoPlugin_") != NULL;
    return of_struct && (rule == KV_RULE_LIFE_ORDER || rule == KV_RULE_QUERY_NULL_HANDLE ||
                         rule == KV_RULE_LOAD_REGISTER)
               ? KV_RULE_SIZE_TODAY
               : rule;
}

/* What it said last: an assertion tells more than the signal. */
static const char *last_line(kv_outcome *o)
{
    while (o->text_bytes && o->text[o->text_bytes - 1] == '\n')
        o->text[--o->text_bytes] = 0;
    const char *line = strrchr(o->text, '\n');
    return line ? line + 1 : o->text;
}

static void tell_crash(kv_check_report *r, kv_where *where, kv_outcome *o, const kv_isolation *how)
{
    char how_ended[80], said[120], text[sizeof r->results->seen];
    const char *line = kv_quote(last_line(o), said, sizeof said);
    const char *inner = kv_builder_call(where->inner);
    where->call[sizeof where->call - 1] = 0;
    where->guard[sizeof where->guard - 1] = 0;
    snprintf(text, sizeof text, "%s%s%s%s%s%s%s%s%s", where->call, *inner ? ", in " : "", inner,
             where->call[0] ? ": " : "", kv_outcome_text(o, how, how_ended, sizeof how_ended),
             where->guard[0] ? ": " : "", where->guard, *line ? "; it said: " : "", line);
    result_fail(&r->results[crash_rule(where)], text);
}

static void look_at_output(kv_check_report *r, const kv_outcome *o)
{
    char text[120], seen[160];
    if (o->text_bytes) {
        snprintf(seen, sizeof seen, "\"%s\"", kv_quote(o->text, text, sizeof text));
        result_fail(&r->results[KV_RULE_QUIET_OUTPUT], seen);
    } else {
        result_set(&r->results[KV_RULE_QUIET_OUTPUT], KV_STATE_OK, "");
    }
}

/* Rules of a scenario of which nothing was heard. */
static void settle(kv_check_report *r, uint64_t rules, const char *why)
{
    for (size_t i = 0; i < KV_RULE_COUNT; i++)
        if (rules & KV_RULE_BIT(i))
            result_set(&r->results[i], KV_STATE_UNTESTED, why);
}

/* Of a scenario that did not run, or ended early: its rules that are asked for were not tested. */
static void settle_blocked(kv_check_report *r, uint64_t rules, const char *why)
{
    for (size_t i = 0; i < KV_RULE_COUNT; i++)
        r->blocked |= (rules & r->shown & KV_RULE_BIT(i)) && !r->results[i].told;
    settle(r, rules, why);
}

/* ---- running ------------------------------------------------------------------------------------ */

static bool any_failed(const kv_check_report *r, kv_rule first, kv_rule last)
{
    for (size_t i = first; i <= (size_t)last; i++)
        if (r->results[i].state == KV_STATE_FAILED)
            return true;
    return false;
}

static kineto_status run_one(kv_check_report *r, const kv_scenario *scenario, kv_where *where,
                             bool *finished, kineto_error *err)
{
    kv_outcome o;
    kv_isolation how = {.limit_ms = (uint32_t)limit_s * 1000u, .most_text_bytes = MOST_TEXT_BYTES};
    task t = {scenario, r->path, where};
    memset(where, 0, sizeof *where);
    kineto_status status = kv_isolate(&how, run_scenario, &t, &o, err);
    if (status)
        return status;
    if (o.ending == KV_EXITED && o.code == KV_NO_MEMORY) {
        kv_outcome_free(&o);
        return kb_fail(err, KINETO_E_MEMORY, "out of memory for the check");
    }
    bool done = take_notes(r, &o);
    *finished = o.ending == KV_RETURNED || (done && o.ending == KV_EXITED && o.code == 0);
    if (!*finished)
        tell_crash(r, where, &o, &how);
    else if (scenario->rules &
             (KV_RULE_BIT(KV_RULE_LOAD_OPENS) | KV_RULE_BIT(KV_RULE_QUIET_OUTPUT)))
        look_at_output(r, &o);
    if (*finished)
        settle(r, scenario->rules, "nothing was heard of it");
    else
        settle_blocked(r, scenario->rules, "the check of it ended early");
    kv_outcome_free(&o);
    return KINETO_OK;
}

/* Which of the first three scenarios the others need; they come first in the table. */
static bool is_needed(const kv_check_report *r, size_t index)
{
    const kv_scenario *scenario = &kv_scenarios[index];
    if (index < 2 || (scenario->rules & r->shown))
        return true;
    for (size_t i = index + 1; i < kv_scenario_count && !scenario->needs_session; i++)
        if (kv_scenarios[i].needs_session && (kv_scenarios[i].rules & r->shown))
            return true;
    return false;
}

static const char *obstacle(const kv_check_report *r, const kv_scenario *scenario,
                            bool session_works)
{
    if (scenario->rules & KV_RULE_BIT(KV_RULE_LOAD_OPENS))
        return NULL;
    if (any_failed(r, KV_RULE_LOAD_OPENS, KV_RULE_LOAD_REGISTER))
        return "it cannot be loaded: see load";
    if (scenario->rules & KV_RULE_BIT(KV_RULE_QUERY_NULL_HANDLE))
        return NULL;
    if (r->results[KV_RULE_QUERY_NULL_HANDLE].state != KV_STATE_OK)
        return "it cannot be asked for its name and kinds: see query and size";
    return scenario->needs_session && !session_works
               ? "an ordinary session does not work: see life.order"
               : NULL;
}

static kineto_status run_all(kv_check_report *r, kv_where *where, kineto_error *err)
{
    bool session_works = false, finished = false;
    for (size_t i = 0; i < kv_scenario_count; i++) {
        const kv_scenario *scenario = &kv_scenarios[i];
        if (!is_needed(r, i))
            continue;
        const char *why = obstacle(r, scenario, session_works);
        if (why) {
            settle_blocked(r, scenario->rules, why);
            continue;
        }
        kineto_status status = run_one(r, scenario, where, &finished, err);
        if (status)
            return status;
        if (scenario->rules & KV_RULE_BIT(KV_RULE_LIFE_ORDER))
            session_works = finished && r->results[KV_RULE_LIFE_ORDER].state == KV_STATE_OK &&
                            r->results[KV_RULE_SIZE_TODAY].state == KV_STATE_OK;
    }
    return KINETO_OK;
}

/* ---- the command -------------------------------------------------------------------------------- */

static int print_rules(void)
{
    for (size_t i = 0; i < KV_RULE_COUNT; i++)
        printf("%-25s %s\n", kv_rules[i].id, kv_rules[i].text);
    return kc_finish_stdout("plugin check", 0);
}

static kineto_status choose(uint64_t *shown)
{
    *shown = wanted.count ? 0 : KV_RULE_BIT(KV_RULE_COUNT - 1) * 2 - 1;
    for (size_t i = 0; i < wanted.count; i++) {
        kv_rule rule = kv_rule_find(wanted.data[i]);
        if (rule == KV_RULE_COUNT)
            return kc_usage_error("plugin check", "there is no rule '%s' (see --list-rules)",
                                  wanted.data[i]);
        *shown |= KV_RULE_BIT(rule);
    }
    return KINETO_OK;
}

/* The file, or a plug-in of ours by its name. One that is no library at all is not worth a report.
 */
static bool find_library(const char *file, char path[PATH_MAX])
{
    char magic[4] = "";
    struct stat st;
    bool ours = file[0] && !strchr(file, '/') && access(file, F_OK) != 0 &&
                kc_find_plugin(file, path, PATH_MAX);
    FILE *f = NULL;
    if ((!ours && !realpath(file, path)) || stat(path, &st) != 0 ||
        (S_ISREG(st.st_mode) && !(f = fopen(path, "rb")))) {
        kc_complain("plugin check: %s: %s", file[0] ? file : "''", strerror(errno));
        return false;
    }
    bool is_elf = f && fread(magic, 1, sizeof magic, f) == sizeof magic &&
                  memcmp(magic, "\177ELF", sizeof magic) == 0;
    if (f)
        fclose(f);
    if (!is_elf)
        kc_complain("plugin check: %s: no library that can be loaded", file);
    return is_elf;
}

static int conclude(kv_check_report *r)
{
    kineto_error err;
    kv_check_report_count(r);
    if (r->results[KV_RULE_LOAD_SYMBOL].state == KV_STATE_FAILED) {
        kc_complain("plugin check: %s: no plug-in: it exports no %s", r->path,
                    KINETO_PLUGIN_REGISTER_SYMBOL);
        return KC_EXIT_USAGE;
    }
    r->blocked |= r->untested && any_failed(r, KV_RULE_LOAD_OPENS, KV_RULE_LIFE_ORDER);
    bool blocked = r->blocked && !r->failed;
    if (blocked)
        kc_complain("plugin check: what these rules need does not work%s",
                    wanted.count ? ": run it without --rule" : "");
    if (!as_json) {
        kv_check_report_print(r);
    } else if (kv_check_report_json(r, &err)) {
        kc_complain_of("plugin check", &err);
        return KC_EXIT_USAGE;
    }
    if (kc_finish_stdout("plugin check", 0)) /* no verdict came out: not that of a broken rule */
        return KC_EXIT_USAGE;
    return blocked ? KC_EXIT_USAGE : r->failed ? KC_EXIT_FAILURE : 0;
}

int kc_plugin_check(int argc, char **argv)
{
    enum { MOST_S = 3600 };
    static kv_check_report report;
    static char path[PATH_MAX];
    kineto_error err;
    int operands;
    kineto_status status = kc_parse(&options, argc, argv, &operands);
    if (status == KINETO_E_NOT_FOUND)
        return kc_finish_stdout("plugin check", 0);
    if (!status && list_rules && (operands || as_json || wanted.count || kc_given(&limit_s) ||
                                  torch_python.given))
        status = kc_usage_error("plugin check", "--list-rules is a text of all rules: without "
                                                "FILE.so and other options");
    if (!status && list_rules)
        return print_rules();
    if (!status && operands != 1)
        status = kc_usage_error("plugin check", "one plug-in is needed: FILE.so");
    if (!status && (limit_s < 1 || limit_s > MOST_S))
        status = kc_usage_error("plugin check", "--limit is from 1 to %d", MOST_S);
    if (!status && torch_python.given && wanted.count)
        status = kc_usage_error("plugin check", "--torch has rules of its own: without --rule");
    if (!status)
        status = choose(&report.shown);
    if (status || !find_library(argv[1], path))
        return KC_EXIT_USAGE;
    if (torch_python.given)
        return kv_check_torch(torch_python.text, path, as_json, (uint32_t)limit_s * 1000u);
    kv_where *where = kb_os_map_shared(sizeof *where, &err);
    report.path = path;
    status = where ? run_all(&report, where, &err) : err.code;
    if (where)
        kb_os_unmap(where, sizeof *where);
    if (status) {
        kc_complain_of("plugin check", &err);
        return KC_EXIT_USAGE;
    }
    return conclude(&report);
}

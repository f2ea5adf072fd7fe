/* ckineto history regress: the runs from which on steps take longer, and which parts of a step do. The
 * history is cut at its clearest change, and both halves again, until noise explains what is left. A rank or link that
 * explains a change is its origin, and comes before the parts that wait for it. */
#include "cli/history/history.h"

#include "analyze/classes/classes.h"

#include "cli/style.h"

#include <math.h>

static const char *data_set, *gate_text;
static uint64_t row_limit = 5;
static const kc_option option_list[] = {
    {"dataset", 'd', KC_TEXT, &data_set, "DIR", "the data set that 'ckineto history add' wrote"},
    {"gate", 0, KC_TEXT, &gate_text, "PERCENT",
     "exit with 1 if steps became longer by this or more, and still are"},
    KC_TOP_OPTION(row_limit, "5"),
    KC_JSON_OPTION,
    KC_COLOR_OPTION,
};
static const kc_options options = {
    "history regress",
    "-d DIR [options]",
    "Find the runs of a history from which on steps take longer or shorter, with the commit, and by\n"
    "which parts: communication that is not overlapped, idle devices, data loading, kernels, operators.\n"
    "A rank or link that makes the others wait comes first, and their waiting as a consequence.\n"
    "The noise is that of the history itself; a change needs two runs after it, and six in all.",
    "ckineto history regress -d history/\n"
    "ckineto history regress -d history/ --gate 2",
    option_list,
    KB_COUNT(option_list),
    false};

typedef enum part_role {
    ROLE_ORIGIN,      /* a rank or link that explains half of the change or more */
    ROLE_CONSEQUENCE, /* waits for an origin */
    ROLE_PART
} part_role;

/* By how much a part changed. */
typedef struct part_shift {
    const char *kind, *name;
    kc_change change;
    double ns;
    part_role role;
} part_shift;

typedef struct regression {
    kc_change change;
    KB_VEC(part_shift) parts; /* the largest shift in the direction of the step first */
} regression;

typedef struct findings {
    const kc_history *history;
    ka_rules *rules; /* which kernels communicate */
    double *steps;
    KB_VEC(regression) list; /* by time */
    bool has_failed;         /* the gate */
} findings;

/* ---- parts ------------------------------------------------------------------------------------ */

/* The name of all causes of a kind together. */
#define ANY_NAME "not the same one in all runs"

/* A part of a run that is not among its parts took no time. */
static double find_part(const kc_history_run *run, const kc_history_part *like)
{
    double sum = 0;
    bool of_any = strcmp(like->name, ANY_NAME) == 0;
    for (size_t i = 0; i < run->parts.count; i++)
        if ((of_any || strcmp(run->parts.data[i].name, like->name) == 0) && strcmp(run->parts.data[i].kind, like->kind) == 0)
            sum += run->parts.data[i].ns;
    return sum;
}

/* Is it a rank or link that others wait for, not a part of the step? */
static bool is_cause(const char *kind) { return strcmp(kind, KC_STRAGGLER) == 0 || strcmp(kind, KC_SLOW_LINK) == 0; }

/* Does a part contain the waiting of ranks for one another? */
static bool is_waiting(const findings *f, const part_shift *p)
{
    if (strcmp(p->kind, "kernel") == 0)
        return ka_classify(f->rules, KINETO_KIND_CONCURRENT_KERNEL, kb_string(p->name)).type == KA_TYPE_COMMUNICATION;
    if (strcmp(p->kind, "kernel family") == 0)
        return strcmp(p->name, ka_family_name(KA_FAMILY_COLLECTIVE)) == 0 ||
               strcmp(p->name, ka_family_name(KA_FAMILY_POINT_TO_POINT)) == 0;
    if (strcmp(p->kind, "operator") == 0) /* of PyTorch: its own time has that of the collectives that it launches */
        return strcmp(p->name, "record_param_comms") == 0 || strncmp(p->name, "c10d::", 6) == 0;
    return strcmp(p->kind, "communication") == 0 || strcmp(p->kind, "idle") == 0;
}

/* The part's own change near that of the step: it may show the run more clearly. */
static bool measure_part(const findings *f, const kc_change *step, const kc_history_part *part, double *room, part_shift *out)
{
    enum { NEAR = 4 };
    size_t first = KB_MAX(step->from + 2, step->at > NEAR ? step->at - NEAR : 0);
    size_t last = KB_MIN(step->end - 2, step->at + NEAR);
    for (size_t i = step->from; i < step->end; i++)
        room[i] = find_part(&f->history->runs.data[i], part);
    *out = (part_shift){.kind = part->kind, .name = part->name, .role = ROLE_PART};
    kc_place_change(room, step->from, step->end, first, last, &out->change);
    out->ns = out->change.after - out->change.before;
    return fabs(out->change.score) > 4 && out->ns * (step->after - step->before) > 0;
}

static int compare_shifts(const void *left, const void *right)
{
    const part_shift *a = left, *b = right;
    bool first_a = a->role == ROLE_ORIGIN, first_b = b->role == ROLE_ORIGIN;
    return first_a != first_b ? KB_COMPARE(first_b, first_a) : KB_COMPARE(fabs(b->ns), fabs(a->ns));
}

/* Does the part explain half of the change, or more? */
static bool is_half(const regression *r, const part_shift *p)
{
    return fabs(p->ns) >= fabs(r->change.after - r->change.before) / 2;
}

/* Where a rank or link explains half of the change, what waits is a consequence of it. */
static bool name_roles(const findings *f, regression *r)
{
    bool has_origin = false;
    for (size_t i = 0; i < r->parts.count; i++)
        if (is_cause(r->parts.data[i].kind) && is_half(r, &r->parts.data[i])) {
            r->parts.data[i].role = ROLE_ORIGIN;
            has_origin = true;
        }
    for (size_t i = 0; has_origin && i < r->parts.count; i++)
        if (is_waiting(f, &r->parts.data[i]))
            r->parts.data[i].role = ROLE_CONSEQUENCE;
    return has_origin;
}

/* Causes of a kind may be another rank in each run, as where jobs run on other hosts each time. */
static bool add_any_cause(const findings *f, regression *r, double *room)
{
    static char kinds[][10] = {KC_STRAGGLER, KC_SLOW_LINK}, name[] = ANY_NAME;
    for (size_t i = 0; i < KB_COUNT(kinds); i++) {
        part_shift shift;
        kc_history_part any = {.kind = kinds[i], .name = name};
        bool explains = measure_part(f, &r->change, &any, room, &shift) && is_half(r, &shift);
        if (explains && !kb_vec_push(&r->parts, shift))
            return false;
    }
    return true;
}

/* The place of the change by the part that shows it best, if that is a good part of it. */
static void refine_place(const findings *f, regression *r)
{
    const part_shift *best = NULL;
    double step_ns = fabs(r->change.after - r->change.before);
    for (size_t i = 0; i < r->parts.count; i++) {
        const part_shift *p = &r->parts.data[i];
        if (fabs(p->ns) > 0.3 * step_ns && fabs(p->change.score) > 1.2 * fabs(r->change.score) &&
            (!best || fabs(p->change.score) > fabs(best->change.score)))
            best = p;
    }
    if (best)
        kc_place_change(f->steps, r->change.from, r->change.end, best->change.at, best->change.at, &r->change);
}

static kineto_status explain_change(const findings *f, regression *r, kineto_error *err)
{
    double *room = calloc(f->history->runs.count, sizeof *room);
    const kc_history_run *before = &f->history->runs.data[r->change.at - 1], *after = &f->history->runs.data[r->change.at];
    part_shift shift;
    bool ok = room != NULL;
    for (size_t i = 0; ok && i < after->parts.count; i++)
        if (measure_part(f, &r->change, &after->parts.data[i], room, &shift))
            ok = kb_vec_push(&r->parts, shift);
    for (size_t i = 0; ok && i < before->parts.count; i++)
        if (!find_part(after, &before->parts.data[i]) && measure_part(f, &r->change, &before->parts.data[i], room, &shift))
            ok = kb_vec_push(&r->parts, shift);
    if (ok && !name_roles(f, r)) {
        ok = add_any_cause(f, r, room);
        (void)name_roles(f, r);
    }
    free(room);
    if (r->parts.count)
        qsort(r->parts.data, r->parts.count, sizeof *r->parts.data, compare_shifts);
    refine_place(f, r);
    return ok ? KINETO_OK : kb_fail_memory(err, "parts of a step");
}

/* ---- changes ---------------------------------------------------------------------------------- */

static kineto_status find_changes(findings *f, size_t from, size_t end, kineto_error *err)
{
    regression r = {0};
    if (!kc_find_change(f->steps, from, end, &r.change))
        return KINETO_OK;
    kineto_status status = explain_change(f, &r, err);
    size_t at = r.change.at;
    if (!status)
        status = find_changes(f, from, at, err);
    if (!status && !kb_vec_push(&f->list, r))
        status = kb_fail_memory(err, "changes");
    return status ? status : find_changes(f, at, end, err);
}

static double shift_pct(const kc_change *c) { return 100 * (c->after / c->before - 1); }

/* Is the level at the end of the history still higher by so much than before the change? */
static bool is_beyond_gate(const findings *f, const kc_change *c, double gate)
{
    double level = f->list.data[f->list.count - 1].change.after;
    return shift_pct(c) >= gate && 100 * (level / c->before - 1) >= gate;
}

/* ---- printing --------------------------------------------------------------------------------- */

static void print_change(const findings *f, const regression *r)
{
    const kc_history_run *run = &f->history->runs.data[r->change.at];
    double pct = shift_pct(&r->change), shift = r->change.after - r->change.before;
    fputs("From run ", stdout);
    kc_put_name(stdout, kb_string(run->name), 0);
    if (*run->commit) {
        fputs(", commit ", stdout);
        kc_put_name(stdout, kb_string(run->commit), 0);
    }
    if (*run->label) {
        fputs(", ", stdout);
        kc_put_name(stdout, kb_string(run->label), 0);
    }
    printf(" (%s): steps %.1f %% %s, %s → %s\n", kc_format_utc(run->time_ns).s, fabs(pct), pct > 0 ? "longer" : "shorter",
           kb_short_duration((int64_t)r->change.before).s, kb_short_duration((int64_t)r->change.after).s);
    uint64_t shown = row_limit ? KB_MIN(r->parts.count, row_limit) : r->parts.count;
    for (uint64_t i = 0; i < shown; i++) {
        const part_shift *p = &r->parts.data[i];
        printf("  %+9.1f us  %3.0f %%  %s: ", p->ns / 1000, 100 * p->ns / shift, p->kind);
        kc_put_name(stdout, kb_string(p->name), 0);
        puts(p->role == ROLE_CONSEQUENCE ? " (as a consequence)" : "");
    }
    if (!shown)
        puts("  no part of a step changed clearly");
}

static void print_findings_text(const findings *f)
{
    size_t count = f->history->runs.count;
    printf("%zu %s in %s, ordered " KC_HISTORY_ORDER, count, kc_noun(count, "run", "runs"), data_set);
    if (count)
        printf(" (%s to %s)", kc_format_utc(f->history->runs.data[0].time_ns).s,
               kc_format_utc(f->history->runs.data[count - 1].time_ns).s);
    printf(": %zu %s of the step time\n", f->list.count, kc_noun(f->list.count, "change", "changes"));
    if (count < KC_MIN_HISTORY)
        printf("At least %u runs are needed: with fewer, noise and change look the same\n", KC_MIN_HISTORY);
    for (size_t i = 0; i < f->list.count; i++)
        print_change(f, &f->list.data[i]);
}

/* As docs/history_regress.schema.json has them. */
static const char *const role_names[] = {
    [ROLE_ORIGIN] = "origin", [ROLE_CONSEQUENCE] = "consequence", [ROLE_PART] = "part"};

static void put_json_change(kb_json *j, const findings *f, const regression *r)
{
    const kc_history_run *run = &f->history->runs.data[r->change.at];
    kb_json_newline(j);
    kb_json_object_begin(j);
    kb_json_put_string(j, "run", kb_string(run->name));
    kb_json_put_string(j, "commit", kb_string(run->commit));
    kb_json_put_string(j, "label", kb_string(run->label));
    kb_json_put_int(j, "time_ns", run->time_ns);
    kb_json_put_uint(j, "index", r->change.at);
    kb_json_put_double(j, "before_ns", r->change.before);
    kb_json_put_double(j, "after_ns", r->change.after);
    kb_json_put_double(j, "shift_pct", shift_pct(&r->change));
    kb_json_put_double(j, "noise_pct", 100 * r->change.noise / r->change.before);
    kb_json_key_z(j, "parts");
    kb_json_array_begin(j);
    for (size_t i = 0; i < r->parts.count; i++) {
        kb_json_object_begin(j);
        kb_json_put_string(j, "kind", kb_string(r->parts.data[i].kind));
        kb_json_put_string(j, "name", kb_string(r->parts.data[i].name));
        kb_json_put_double(j, "shift_ns", r->parts.data[i].ns);
        kb_json_put_string(j, "role", kb_string(role_names[r->parts.data[i].role]));
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
    kb_json_object_end(j);
}

static void put_json_findings(kb_json *j, const void *what)
{
    const findings *f = what;
    kb_json_document_begin(j, "ckineto.history_regress/1");
    kb_json_put_uint(j, "runs", f->history->runs.count);
    kb_json_put_string(j, "order", kb_string(KC_HISTORY_ORDER));
    kb_json_put_uint(j, "unreadable", f->history->bad);
    kb_json_put_bool(j, "passed", !f->has_failed);
    kb_json_key_z(j, "changes");
    kb_json_array_begin(j);
    for (size_t i = 0; i < f->list.count; i++)
        put_json_change(j, f, &f->list.data[i]);
    kb_json_array_end(j);
    kb_json_object_end(j);
}

/* ---- the verb --------------------------------------------------------------------------------- */

static kineto_status find_regressions(findings *f, double gate, kineto_error *err)
{
    size_t count = f->history->runs.count;
    f->steps = calloc(count + 1, sizeof *f->steps);
    if (!f->steps)
        return kb_fail_memory(err, data_set);
    for (size_t i = 0; i < count; i++)
        f->steps[i] = f->history->runs.data[i].step_ns;
    kineto_status status = find_changes(f, 0, count, err);
    for (size_t i = 0; i < f->list.count && gate_text; i++)
        f->has_failed |= is_beyond_gate(f, &f->list.data[i].change, gate);
    if (!status && kc_json_path)
        status = kc_put_json(put_json_findings, f, err);
    else if (!status)
        print_findings_text(f);
    for (size_t i = 0; i < f->list.count; i++)
        kb_vec_free(&f->list.data[i].parts);
    kb_vec_free(&f->list);
    free(f->steps);
    return status;
}

static kineto_status parse_gate(double *gate)
{
    char *end = NULL;
    *gate = 0;
    if (!gate_text)
        return KINETO_OK;
    *gate = kb_strtod(gate_text, &end);
    if (end != gate_text && *end == '%')
        end++;
    if (end == gate_text || *end || !(*gate > 0 && *gate < 1e6))
        return kc_usage_error("history regress", "--gate needs a percentage such as 2 or 2%%, not '%s'", gate_text);
    return KINETO_OK;
}

int kc_history_regress(int argc, char **argv)
{
    double gate;
    kineto_error err = {0};
    kc_history history = {0};
    kineto_status status = kc_history_parse("history regress", &options, argc, argv, &data_set);
    if (status == KINETO_E_NOT_FOUND)
        return kc_finish_stdout("history regress", 0);
    if (status || parse_gate(&gate))
        return KC_EXIT_USAGE;
    status = kc_history_load(data_set, &history, &err);
    bool is_read = !status;
    findings f = {.history = &history};
    if (!status)
        status = ka_rules_create(NULL, &f.rules, &err);
    if (!status)
        status = find_regressions(&f, gate, &err);
    if (status)
        kc_complain_of("history regress", &err);
    uint32_t bad = history.bad;
    ka_rules_free(f.rules);
    kc_history_free(&history);
    if (status)
        return kc_exit_of(status, is_read);
    return kc_finish_stdout("history regress", f.has_failed ? KC_EXIT_FAILURE : bad ? KC_EXIT_INCOMPLETE : 0);
}

/* The engine of findings: which rules can judge a trace, what their findings are worth, and
 * findings of several ranks. */
#include "analyze/findings/finding.h"
#include "analyze/dataset/each_rank.h"

typedef struct rule {
    void (*look)(ka_finder *f);
    const char *id;
    uint32_t needs;
    bool only_synthetic;
    const char *title, *why, *remedy;
} rule;

static const rule rules[] = {
#define X(name, id, needs, synthetic, title, why, remedy)                                          \
    {ka_look_##name, id, needs, synthetic, title, why, remedy},
#include "analyze/findings/finding_rules.def"
#undef X
};
_Static_assert(KA_LOOK_COUNT <= 64, "a bit for each rule");

static const struct {
    uint32_t bit;
    const char *word, *because;
} needs[] = {
    {KA_NEEDS_DEVICE, "device work", "the trace has no device activity: record kernels"},
    {KA_NEEDS_OPERATORS, "operators", "the trace has no operators: record cpu_op"},
    {KA_NEEDS_LAUNCHES, "launches",
     "no work is linked to the call that launched it: record runtime calls, with correlation ids"},
    {KA_NEEDS_SHAPES, "shapes", "operators have no shapes: record with record_shapes=True"},
    {KA_NEEDS_STACKS, "stacks", "operators have no stacks: record with with_stack=True"},
    {KA_NEEDS_PYTHON, "Python functions",
     "the trace has no functions of Python: record with with_stack=True"},
    {KA_NEEDS_MODULES, "modules", "the trace has no modules: record with with_modules=True"},
    {KA_NEEDS_MEMORY, "memory events",
     "the trace has no memory events: record with profile_memory=True"},
    {KA_NEEDS_STEPS, "two steps",
     "the trace has fewer than two steps: call step() once per iteration"},
    {KA_NEEDS_LIMITS, "device properties", "the trace does not say what its devices can do"},
    {KA_NEEDS_RANKS, "several ranks", "one rank cannot be compared: name the traces of all ranks"}};
_Static_assert(KB_COUNT(needs) == KA_NEEDS_COUNT, "words for each need");

/* ---- rules for other programs --------------------------------------------------------------- */

const char *ka_look_id(ka_look look) { return rules[look].id; }
uint32_t kineto_finding_rule_count(void) { return KA_LOOK_COUNT; }

#define NEEDS_BYTES 200u
static char needs_texts[KA_LOOK_COUNT][NEEDS_BYTES];
static pthread_once_t needs_once = PTHREAD_ONCE_INIT;

static void put_needs_in_words(void)
{
    for (uint32_t r = 0; r < KA_LOOK_COUNT; r++) {
        size_t n = 0;
        for (size_t i = 0; i < KB_COUNT(needs); i++)
            if (rules[r].needs & needs[i].bit)
                n += (size_t)snprintf(needs_texts[r] + n, NEEDS_BYTES - n, "%s%s", n ? ", " : "",
                                      needs[i].word);
    }
}

bool kineto_finding_rule_get(uint32_t index, kineto_finding_rule *out)
{
    *out = (kineto_finding_rule){0};
    if (index >= KA_LOOK_COUNT)
        return false;
    const rule *r = &rules[index];
    pthread_once(&needs_once, put_needs_in_words);
    *out = (kineto_finding_rule){r->id,     r->title,           r->why,
                                 r->remedy, needs_texts[index], r->only_synthetic};
    return true;
}

const char *kineto_finding_severity_name(uint32_t severity)
{
    static const char *const names[] = {"low", "medium", "high"};
    return names[KB_MIN(severity, (uint32_t)KINETO_FINDING_HIGH)];
}

bool ka_look_is_meant(ka_look look, const char *word, size_t size)
{
    const char *id = rules[look].id;
    return strncmp(id, word, size) == 0 && (id[size] == '\0' || id[size] == '.');
}

static kineto_status parse_rules(const char *list, uint64_t *bits, kineto_error *err)
{
    *bits = list ? 0 : UINT64_MAX;
    for (const char *at = list; at && *at;) {
        size_t size = strcspn(at, ",");
        uint64_t meant = 0;
        for (uint32_t i = 0; i < KA_LOOK_COUNT; i++)
            meant |= (uint64_t)ka_look_is_meant((ka_look)i, at, size) << i;
        if (!meant)
            return kb_fail(err, KINETO_E_ARGUMENT,
                           "there is no rule '%.*s'; 'ckineto analyze --findings --list' has them",
                           (int)KB_MIN(size, (size_t)80), at);
        *bits |= meant;
        at += size + (at[size] == ',');
    }
    return KINETO_OK;
}

/* ---- what a trace has ----------------------------------------------------------------------- */

static bool says_shapes(const ka_dataset *s)
{
    uint32_t tried = 0;
    for (uint32_t i = 0; i < s->slice_count && tried < 1000; i++) {
        if (s->slices[i].kind != KINETO_KIND_CPU_OP)
            continue;
        tried++;
        if (ka_input_sizes(s->trace, s->slices[i].row).size > 2)
            return true;
    }
    return false;
}

static bool says_stacks(const ka_dataset *s)
{
    uint32_t tried = 0;
    for (uint32_t i = 0; i < s->slice_count && tried < 1000; i++) {
        if (s->slices[i].kind != KINETO_KIND_CPU_OP)
            continue;
        tried++;
        if (ka_arg_text(s->trace, s->slices[i].row, "Call stack").size)
            return true;
    }
    return false;
}

static bool says_limits(const kineto_trace *t)
{
    kineto_process p;
    for (uint32_t i = 0; i < kineto_trace_process_count(t); i++) {
        kineto_trace_process(t, i, &p);
        if (p.is_device && p.properties_json.size > 2)
            return true;
    }
    return false;
}

static uint32_t what_slices_have(const ka_dataset *s)
{
    uint32_t has = 0;
    for (uint32_t i = 0; i < s->slice_count; i++) {
        uint8_t kind = s->slices[i].kind;
        has |= kind == KINETO_KIND_CPU_OP ? KA_NEEDS_OPERATORS : 0;
        has |= kind == KINETO_KIND_PYTHON_FUNCTION ? KA_NEEDS_PYTHON : 0;
    }
    return has;
}

static bool is_host_only(const ka_dataset *s)
{
    bool any = s->work_count > 0;
    for (uint32_t i = 0; i < s->slice_count && !any; i++)
        any = kt_kind_is_launch(s->slices[i].kind);
    return !any;
}

static uint32_t what_there_is(const ka_finder *f)
{
    const ka_dataset *s = f->s;
    uint32_t has = what_slices_have(s);
    has |= s->work_count ? KA_NEEDS_DEVICE : 0;
    for (uint32_t i = 0; i < s->work_count && !(has & KA_NEEDS_LAUNCHES); i++)
        has |= s->work[i].call != KA_NONE ? KA_NEEDS_LAUNCHES : 0;
    has |= says_shapes(s) ? KA_NEEDS_SHAPES : 0;
    has |= has & KA_NEEDS_PYTHON || says_stacks(s) ? KA_NEEDS_STACKS : 0;
    has |= ka_table_rows(ka_fact_table(f, KA_TABLE_modules)) ? KA_NEEDS_MODULES : 0;
    has |= ka_table_rows(ka_fact_table(f, KA_TABLE_memory)) ? KA_NEEDS_MEMORY : 0;
    has |= f->step_count > 1 ? KA_NEEDS_STEPS : 0;
    has |= says_limits(s->trace) ? KA_NEEDS_LIMITS : 0;
    return has;
}

typedef struct device {
    uint32_t process;
    int64_t id;
} device;

static int compare_devices(const void *left, const void *right)
{
    const device *a = left, *b = right;
    if (a->process != b->process)
        return a->process < b->process ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

static uint32_t count_devices(ka_finder *f)
{
    const ka_dataset *s = f->s;
    KB_VEC(device) all = {0};
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->stream_count; i++)
        if (s->streams[i].count)
            f->no_memory |=
                !kb_vec_push(&all, (device){s->streams[i].process, s->streams[i].device});
    if (all.count)
        qsort(all.data, all.count, sizeof *all.data, compare_devices);
    for (size_t i = 0; i < all.count; i++)
        count += i == 0 || compare_devices(&all.data[i - 1], &all.data[i]) != 0;
    kb_vec_free(&all);
    return count;
}

/* With the work of a step that ends after the host is done with it: a host that never waits is soon
 * through. */
static int64_t steps_with_work_ns(const ka_finder *f)
{
    const ka_table *t = ka_fact_table(f, KA_TABLE_steps);
    int64_t sum = 0;
    for (uint64_t row = 0; row < ka_table_rows(t); row++)
        sum = ka_add_ns(sum, ka_fact_int(t, row, KA_COL_steps_dur_us));
    return sum;
}

/* Steps that were left out with what is not looked at have no slice. */
static void measure_steps(ka_finder *f)
{
    const ka_dataset *s = f->s;
    for (uint32_t i = 0; i < s->step_count; i++)
        if (s->steps[i].slice != KA_NONE) {
            f->step_count++;
            f->whole_ns =
                ka_add_ns(f->whole_ns, kb_length_ns(s->steps[i].start_ns, s->steps[i].end_ns));
        }
    if (f->step_count)
        f->whole_ns = KB_MAX(f->whole_ns, steps_with_work_ns(f));
    if (!f->step_count || f->whole_ns <= 0)
        f->whole_ns = kb_length_ns(s->start_ns, s->end_ns);
    f->whole_ns = KB_MAX(f->whole_ns, 1);
}

/* ---- looking -------------------------------------------------------------------------------- */

static const char *what_is_missing(uint32_t needed, uint32_t has)
{
    uint32_t lacks = needed & ~has;
    if (lacks & KA_NEEDS_PYTHON && has & KA_NEEDS_STACKS)
        return "the trace has call stacks of operators but no functions of Python, which a newer "
               "PyTorch records with with_stack=True";
    for (size_t i = 0; i < KB_COUNT(needs); i++)
        if (lacks & needs[i].bit)
            return needs[i].because;
    return NULL;
}

static void look(ka_finder *f, ka_look which)
{
    ka_verdict *verdict = &f->out->verdicts[which];
    const char *missing = what_is_missing(rules[which].needs, f->has);
    if (!(f->out->asked >> which & 1)) {
        *verdict = (ka_verdict){KINETO_NOT_ASKED, {"", 0}};
        return;
    }
    if (missing) {
        *verdict = (ka_verdict){KINETO_NOT_JUDGED, kb_string(missing)};
        return;
    }
    *verdict = (ka_verdict){KINETO_JUDGED_QUIET, {"", 0}};
    f->rule = which;
    rules[which].look(f);
}

static void look_by_all(ka_finder *f, uint32_t needed)
{
    for (uint32_t i = 0; i < KA_LOOK_COUNT && !f->no_memory; i++)
        if ((rules[i].needs & needed) == needed)
            look(f, (ka_look)i);
}

/* ---- worth ---------------------------------------------------------------------------------- */

static uint8_t severity_of(const ka_found *x)
{
    if (x->severity_is_set)
        return x->severity;
    if (x->saved_ns == KA_NO_WORTH)
        return KINETO_FINDING_LOW;
    return x->worth_pct >= 10  ? KINETO_FINDING_HIGH
           : x->worth_pct >= 2 ? KINETO_FINDING_MEDIUM
                               : KINETO_FINDING_LOW;
}

static int compare_found(const void *left, const void *right)
{
    const ka_found *a = left, *b = right;
    if (a->comes_first != b->comes_first)
        return a->comes_first ? -1 : 1;
    int64_t worth_a = a->saved_ns == KA_NO_WORTH ? -1 : a->worth_ns,
            worth_b = b->saved_ns == KA_NO_WORTH ? -1 : b->worth_ns;
    if (worth_a != worth_b)
        return worth_a > worth_b ? -1 : 1;
    if (a->severity != b->severity)
        return a->severity > b->severity ? -1 : 1;
    if (a->rule != b->rule)
        return a->rule < b->rule ? -1 : 1;
    int order = memcmp(a->subject.data, b->subject.data, KB_MIN(a->subject.size, b->subject.size));
    return order ? order
                 : (a->subject.size > b->subject.size) - (a->subject.size < b->subject.size);
}

static int compare_evidence(const void *left, const void *right)
{
    const ka_evidence *a = left, *b = right;
    if (a->weight_ns != b->weight_ns)
        return a->weight_ns > b->weight_ns ? -1 : 1;
    return a->start_ns < b->start_ns ? -1 : a->start_ns > b->start_ns;
}

/* ---- do savings add up? ---- */

enum { SAVES_HOST = 1, SAVES_DEVICE = 2, SAVES_EXCHANGE = 4 };

/* The time that findings of a rule save, by what its id begins with; the first one counts. */
static uint32_t saves(ka_look look)
{
    static const struct {
        const char *begins;
        uint32_t what;
    } all[] = {{"step.", SAVES_HOST | SAVES_DEVICE | SAVES_EXCHANGE},
               {"optimizer.", SAVES_HOST | SAVES_DEVICE},
               {"host.loop", SAVES_HOST | SAVES_DEVICE},
               {"launch.tiny", SAVES_DEVICE},
               {"copy.synchronous", SAVES_HOST | SAVES_DEVICE},
               {"copy.pageable", SAVES_HOST | SAVES_DEVICE},
               {"copy.extra", SAVES_HOST | SAVES_DEVICE},
               {"copy.", SAVES_DEVICE},
               {"kernel.", SAVES_DEVICE},
               {"precision.", SAVES_DEVICE},
               {"model.", SAVES_DEVICE},
               {"communication.", SAVES_EXCHANGE},
               {"parallel.", SAVES_EXCHANGE}};
    for (size_t i = 0; i < KB_COUNT(all); i++)
        if (strncmp(rules[look].id, all[i].begins, strlen(all[i].begins)) == 0)
            return all[i].what;
    return SAVES_HOST;
}

/* Another finding saves some of the same time: the savings of both together may be less than their
 * sum. */
static bool overlaps_another(const kineto_findings *out, size_t index)
{
    const ka_found *x = &out->found.data[index];
    for (size_t i = 0; x->saved_ns != KA_NO_WORTH && i < out->found.count; i++)
        if (i != index && out->found.data[i].saved_ns != KA_NO_WORTH &&
            saves(out->found.data[i].rule) & saves(x->rule))
            return true;
    return false;
}

void ka_findings_settle(kineto_findings *out)
{
    for (size_t i = 0; i < out->found.count; i++) {
        ka_found *x = &out->found.data[i];
        x->severity = severity_of(x);
        x->overlaps = overlaps_another(out, i);
        if (x->evidence.count)
            qsort(x->evidence.data, x->evidence.count, sizeof *x->evidence.data, compare_evidence);
    }
    if (out->found.count)
        qsort(out->found.data, out->found.count, sizeof *out->found.data, compare_found);
}

/* Since which PyTorch there is what advice names, and for which devices, where not for all. */
static const struct {
    const char *word, *name, *needs;
} features[] = {{"torch.compile", "torch.compile", "torch >= 2.0"},
                {"expandable_segments", "expandable_segments", "torch >= 2.1 and an NVIDIA device"},
                {"make_graphed_callables", "make_graphed_callables", "torch >= 1.10 and a CUDA device"},
                {"set_float32_matmul_precision", "set_float32_matmul_precision", "torch >= 1.12"},
                {"torch.autocast(", "torch.autocast", "torch >= 1.10"},
                {"torch.amp.GradScaler", "torch.amp.GradScaler", "torch >= 2.3"},
                {"nonzero_static", "nonzero_static", "torch >= 2.6 on CUDA devices"},
                {"foreach=True", "foreach", "torch >= 1.12"},
                {"set_modules_to_forward_prefetch", "fully_shard", "torch >= 2.6"},
                {"inference_mode", "inference_mode", "torch >= 1.9"}};

/* The advice, with what it needs after it. */
static kineto_string with_needs(kineto_findings *out, kineto_string advice)
{
    char text[2600];
    size_t n = 0, size = KB_MIN(advice.size, (size_t)2000);
    bool any = false;
    for (size_t i = 0; i < KB_COUNT(features); i++)
        if (kb_string_holds(advice, features[i].word))
            any = true;
    if (!any)
        return advice;
    while (size && (advice.data[size - 1] == '.' || advice.data[size - 1] == ' '))
        size--;
    n = (size_t)snprintf(text, sizeof text, "%.*s (", (int)size, advice.data);
    for (size_t i = 0, count = 0; i < KB_COUNT(features); i++)
        if (kb_string_holds(advice, features[i].word))
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s needs %s", count++ ? ", " : "",
                                  features[i].name, features[i].needs);
    n += (size_t)snprintf(text + n, sizeof text - n, ")");
    char *copy = kb_arena_copy(&out->arena, text, KB_MIN(n, sizeof text - 1));
    return copy ? (kineto_string){copy, KB_MIN(n, sizeof text - 1)} : advice;
}

static void give_worth(kineto_findings *out, const ka_finder *f, size_t from)
{
    for (size_t i = from; i < out->found.count; i++) {
        ka_found *x = &out->found.data[i];
        x->confidence *= out->quality;
        if (!x->sentence.size)
            x->sentence = kb_string(rules[x->rule].title);
        if (!x->advice.size)
            x->advice = kb_string(rules[x->rule].remedy);
        x->advice = with_needs(out, x->advice);
        if (x->saved_ns == KA_NO_WORTH)
            continue;
        int64_t whole_ns = x->whole_ns ? x->whole_ns : f->whole_ns;
        x->worth_ns = KB_MIN(x->saved_ns, whole_ns) / KB_MAX(f->step_count, 1u);
        x->of_ns = whole_ns / KB_MAX(f->step_count, 1u);
        x->worth_pct = KB_MIN(100, 100 * (double)x->saved_ns / (double)whole_ns);
    }
}

/* ---- one trace ------------------------------------------------------------------------------ */

/* How much of what was to be recorded is there. */
static double quality_of(const kineto_trace *t)
{
    double there = (double)kineto_trace_count(t), lost = (double)kineto_trace_lost(t);
    return there + lost > 0 ? there / (there + lost) : 1;
}

/* What rules that compare ranks look at. */
static const ka_table_set across_tables =
    KA_TABLE_BIT(KA_TABLE_steps) | KA_TABLE_BIT(KA_TABLE_distributed_overlap) |
    KA_TABLE_BIT(KA_TABLE_distributed_wait) | KA_TABLE_BIT(KA_TABLE_distributed_marks) |
    KA_TABLE_BIT(KA_TABLE_stragglers) | KA_TABLE_BIT(KA_TABLE_straggler_marks);

static kineto_status copy_across(const kineto_analysis *facts, kineto_analysis **out,
                                 kineto_error *err)
{
    kineto_status status = ka_facts_create(out, err);
    for (uint32_t i = 0; !status && i < KA_TABLE_COUNT; i++) {
        ka_table *to = &(*out)->tables[i];
        to->wanted = to->shown = across_tables >> i & 1;
        if (!to->wanted)
            continue;
        ka_table_add(to, &facts->tables[i]);
        if (to->no_memory)
            status = kb_fail(err, KINETO_E_MEMORY, "out of memory");
    }
    return status;
}

/* All tables but those with a row for each event, and but the critical path: the first rule that
 * needs it computes it (ka_saved_by). */
static ka_table_set tables_of_rules(void)
{
    return ~(ka_tables_with(KA_PER_EVENT | KA_HIDDEN | KA_DIFF) |
             KA_TABLE_BIT(KA_TABLE_critical_path_summary) |
             KA_TABLE_BIT(KA_TABLE_critical_path_operators));
}

static kineto_status find(kineto_findings *out, const kineto_trace *trace,
                          const kineto_analyze_options *asked, kineto_analysis **facts,
                          kineto_error *err)
{
    kineto_analyze_options o = *asked;
    ka_measured m;
    o.tables = NULL;
    o.series = false;
    o.definitions = KINETO_DEFINITIONS_EXACT;
    kineto_status status = ka_measure_tables(trace, &o, facts ? 0 : tables_of_rules(), &m, err);
    ka_finder f = {
        .s = &m.dataset, .facts = m.facts, .evidence_limit = out->evidence_limit, .out = out};
    if (!status) {
        measure_steps(&f);
        f.device_count = count_devices(&f);
        f.host_only = is_host_only(f.s);
        f.has = what_there_is(&f);
        out->quality = quality_of(trace);
        out->whole_ns = f.whole_ns;
        out->whole_count = KB_MAX(f.step_count, 1u);
        out->step_count = f.step_count;
        out->step_ns = f.whole_ns / out->whole_count;
        look_by_all(&f, 0);
        give_worth(out, &f, 0);
        status = copy_across(m.facts, &out->across, err);
    }
    if (!status && facts) {
        *facts = m.facts;
        m.facts = NULL;
    }
    if (f.path)
        ka_path_free(f.path);
    free(f.path);
    ka_measured_free(&m);
    if (!status && f.no_memory)
        return kb_fail(err, KINETO_E_MEMORY, "out of memory");
    return status;
}

/* Of one rank. `facts` may be NULL. */
static kineto_status find_in_rank(const kineto_trace *trace, const kineto_find_options *o,
                                  const kineto_analyze_options *how, kineto_analysis **facts,
                                  kineto_findings **out, kineto_error *err)
{
    kineto_findings *found = calloc(1, sizeof *found);
    *out = NULL;
    if (facts)
        *facts = NULL;
    if (!found)
        return kb_fail(err, KINETO_E_MEMORY, "out of memory");
    found->evidence_limit = o->evidence ? KB_MIN(o->evidence, 1000u) : 5;
    kineto_status status = parse_rules(o->rules, &found->asked, err);
    if (!status)
        status = find(found, trace, how, facts, err);
    if (!status) {
        ka_findings_settle(found);
        *out = found;
        return KINETO_OK;
    }
    kineto_findings_release(found);
    if (facts) {
        kineto_analysis_release(*facts);
        *facts = NULL;
    }
    return status;
}

void kineto_findings_release(kineto_findings *findings)
{
    if (!findings)
        return;
    for (size_t i = 0; i < findings->found.count; i++)
        kb_vec_free(&findings->found.data[i].evidence);
    kb_vec_free(&findings->found);
    kb_arena_free(&findings->arena);
    kineto_analysis_release(findings->across);
    free(findings);
}

/* ---- several ranks -------------------------------------------------------------------------- */

static bool copy_text(kb_arena *arena, kineto_string *text)
{
    if (!text->size)
        return true;
    text->data = kb_arena_copy(arena, text->data, text->size);
    return text->data != NULL;
}

/* A copy whose texts belong to `to`. */
static bool copy_found(kineto_findings *to, const ka_found *from, ka_found *copy)
{
    *copy = *from;
    memset(&copy->evidence, 0, sizeof copy->evidence);
    bool ok = copy_text(&to->arena, &copy->subject) && copy_text(&to->arena, &copy->sentence) &&
              copy_text(&to->arena, &copy->advice);
    for (size_t i = 0; ok && i < from->evidence.count; i++) {
        ka_evidence e = from->evidence.data[i];
        e.room = NULL; /* of the other's arena */
        ok = copy_text(&to->arena, &e.name) && copy_text(&to->arena, &e.where) &&
             copy_text(&to->arena, &e.text) && kb_vec_push(&copy->evidence, e);
    }
    if (!ok)
        kb_vec_free(&copy->evidence);
    return ok;
}

static ka_found *same_as(kineto_findings *to, const ka_found *x)
{
    for (size_t i = 0; i < to->found.count; i++)
        if (to->found.data[i].rule == x->rule &&
            kb_string_equal(to->found.data[i].subject, x->subject))
            return &to->found.data[i];
    return NULL;
}

/* What has no worth is worst where it is most severe, and of equal ones where there is most of
 * it. */
static bool is_worse(const ka_found *x, const ka_found *than)
{
    if (x->saved_ns != KA_NO_WORTH)
        return than->saved_ns == KA_NO_WORTH || x->worth_ns > than->worth_ns;
    if (than->saved_ns != KA_NO_WORTH)
        return false;
    if (severity_of(x) != severity_of(than))
        return severity_of(x) > severity_of(than);
    return x->extent > than->extent;
}

/* The step of all ranks is as long as that of the worst: what is found on several is worth there
 * what it is on that one. */
static bool add_found(kineto_findings *to, const ka_found *x)
{
    ka_found *same = same_as(to, x), copy;
    if (!copy_found(to, x, &copy))
        return false;
    if (!same) {
        if (kb_vec_push(&to->found, copy))
            return true;
        kb_vec_free(&copy.evidence);
        return false;
    }
    copy.rank_count = same->rank_count + x->rank_count;
    bool worse = is_worse(&copy, same);
    same->rank_count = copy.rank_count;
    ka_found *dropped = worse ? same : &copy;
    kb_vec_free(&dropped->evidence);
    if (worse)
        *same = copy;
    return true;
}

static void add_verdicts(kineto_findings *to, const kineto_findings *from)
{
    for (uint32_t i = 0; i < KA_LOOK_COUNT; i++) {
        ka_verdict *a = &to->verdicts[i];
        const ka_verdict *b = &from->verdicts[i];
        if (b->judgement == KINETO_JUDGED_FOUND || a->judgement == KINETO_NOT_JUDGED)
            a->judgement = a->judgement == KINETO_JUDGED_FOUND ? a->judgement : b->judgement;
        if (a->judgement != KINETO_NOT_JUDGED)
            a->because = (kineto_string){"", 0};
    }
}

static void forget_across(kineto_findings *to)
{
    size_t kept = 0;
    for (size_t i = 0; i < to->found.count; i++)
        if (rules[to->found.data[i].rule].needs & KA_NEEDS_RANKS)
            kb_vec_free(&to->found.data[i].evidence);
        else
            to->found.data[kept++] = to->found.data[i];
    to->found.count = kept;
}

/* What ranks without steps took says nothing of a step. */
static void add_steps(kineto_findings *to, const kineto_findings *from)
{
    if (to->step_count && !from->step_count)
        return;
    if (!to->step_count && from->step_count)
        to->whole_ns = to->whole_count = 0;
    to->whole_ns = ka_add_ns(to->whole_ns, from->whole_ns);
    to->whole_count += from->whole_count;
    to->step_count += from->step_count;
    to->step_ns = to->whole_ns / to->whole_count;
}

/* Who compares ranks finds what is worth so much of the mean step of all of them. */
static kineto_status look_across(kineto_findings *to, kineto_error *err)
{
    ka_finder f = {.facts = to->across,
                   .whole_ns = KB_MAX(to->step_ns, 1) * KB_MAX(to->step_count, 1u),
                   .step_count = to->step_count,
                   .has = UINT32_MAX,
                   .evidence_limit = to->evidence_limit,
                   .out = to};
    size_t from = to->found.count;
    look_by_all(&f, KA_NEEDS_RANKS);
    give_worth(to, &f, from);
    return f.no_memory ? kb_fail(err, KINETO_E_MEMORY, "out of memory") : KINETO_OK;
}

static kineto_status settle_across(kineto_findings *to, kineto_error *err)
{
    kineto_status status = look_across(to, err);
    ka_findings_settle(to);
    return status;
}

kineto_status kineto_findings_add(kineto_findings *to, const kineto_findings *from,
                                  kineto_error *err)
{
    if (!to || !from || to == from || to->asked != from->asked)
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "findings can only be added to findings of the same rules");
    if (!to->deferred)
        forget_across(to);
    for (size_t i = 0; i < from->found.count; i++)
        if (!(rules[from->found.data[i].rule].needs & KA_NEEDS_RANKS) &&
            !add_found(to, &from->found.data[i]))
            return kb_fail(err, KINETO_E_MEMORY, "out of memory");
    add_verdicts(to, from);
    add_steps(to, from);
    to->quality = KB_MIN(to->quality, from->quality);
    kineto_status status = kineto_analysis_add(to->across, from->across, err);
    return status || to->deferred ? status : settle_across(to, err);
}

void ka_findings_defer(kineto_findings *f)
{
    f->deferred = true;
    if (f->across)
        ka_facts_defer(f->across);
}

kineto_status ka_findings_complete(kineto_findings *f, kineto_error *err)
{
    if (!f->deferred)
        return KINETO_OK;
    f->deferred = false;
    forget_across(f);
    kineto_status status = ka_facts_complete(f->across, err);
    return status ? status : settle_across(f, err);
}

/* ---- a trace of several ranks --------------------------------------------------------------- */

typedef struct finding_ranks {
    const kineto_find_options *options;
    kineto_analyze_options how;
    kineto_findings *found;
    kineto_analysis *facts;
} finding_ranks;

/* Rows of a part become those of the whole trace. */
static void name_rows(kineto_findings *found, const kineto_row *rows)
{
    for (size_t i = 0; i < found->found.count; i++)
        for (size_t k = 0; k < found->found.data[i].evidence.count; k++) {
            kineto_row *row = &found->found.data[i].evidence.data[k].row;
            *row = *row == KINETO_NO_ROW ? *row : rows[*row];
        }
}

static kineto_status add_part(finding_ranks *f, kineto_findings *found, kineto_analysis *facts,
                              kineto_error *err)
{
    if (!f->found) {
        f->found = found;
        f->facts = facts;
        return KINETO_OK;
    }
    kineto_status status = kineto_findings_add(f->found, found, err);
    if (!status && facts)
        status = kineto_analysis_add(f->facts, facts, err);
    kineto_findings_release(found);
    kineto_analysis_release(facts);
    return status;
}

static kineto_status find_rank(void *context, const kineto_trace *part, int32_t rank,
                               const kineto_row *rows, kineto_error *err)
{
    finding_ranks *f = context;
    kineto_findings *found;
    kineto_analysis *facts = NULL;
    f->how.rank = &rank;
    kineto_status status =
        find_in_rank(part, f->options, &f->how, f->options->facts ? &facts : NULL, &found, err);
    f->how.rank = NULL;
    if (status)
        return status;
    name_rows(found, rows);
    return add_part(f, found, facts, err);
}

static kineto_status find_in_ranks(const kineto_trace *trace, const kineto_find_options *o,
                                   const kineto_analyze_options *how, kineto_findings **out,
                                   kineto_error *err)
{
    finding_ranks f = {.options = o, .how = *how};
    uint64_t without;
    kineto_status status = ka_visit_ranks(trace, find_rank, &f, &without, err);
    if (!status && !f.found) /* no rank has an activity */
        return find_in_rank(trace, o, how, o->facts, out, err);
    if (status) {
        kineto_findings_release(f.found);
        kineto_analysis_release(f.facts);
        return status;
    }
    *out = f.found;
    if (f.facts)
        ka_note_without_rank(f.facts, without);
    if (o->facts)
        *o->facts = f.facts;
    return KINETO_OK;
}

static void note_origin(kineto_findings *found, const kineto_trace *trace)
{
    int64_t start_ns, end_ns;
    kineto_trace_window(trace, &start_ns, &end_ns);
    for (size_t i = 0; i < found->found.count; i++)
        found->found.data[i].origin_ns = start_ns;
}

int64_t ka_finding_origin(const kineto_findings *f, uint32_t index)
{
    return index < f->found.count ? f->found.data[index].origin_ns : 0;
}

kineto_status kineto_find(const kineto_trace *trace, const kineto_find_options *options,
                          kineto_findings **out, kineto_error *err)
{
    kineto_find_options o = {.size = sizeof o};
    kineto_analyze_options how;
    if (out)
        *out = NULL;
    if (!trace || !out)
        return kb_fail(err, KINETO_E_ARGUMENT, "a trace is needed to find what is slow in it");
    kineto_status status = kb_options_read(&o, sizeof o, options, "kineto_find_options", err);
    if (!status)
        status = ka_options_read(o.analyze, &how, err);
    if (status)
        return status;
    if (o.facts)
        *o.facts = NULL;
    status = ka_has_ranks(trace) ? find_in_ranks(trace, &o, &how, out, err)
                                 : find_in_rank(trace, &o, &how, o.facts, out, err);
    if (!status)
        note_origin(*out, trace);
    return status;
}

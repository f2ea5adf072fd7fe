/* The rules: their descriptors (finding_rules.def), which of them users choose, what a trace must
 * have for them, and running them. */
#include "analyze/findings/finding.h"

static const ka_finding_spec rules[] = {
#define RULE(name, id, needs, reads, saves, seen, title, why, remedy)                              \
    {ka_find_##name, id, title, why, remedy, reads, needs, saves, (seen) == KA_SYNTHETIC},
#include "analyze/findings/finding_rules.def"
};
_Static_assert(KA_FIND_COUNT <= 64, "ka_rule_set has a bit for each rule");

/* What a trace may lack, in the order in which the first unmet need is reported: without
 * device work the more special needs are only a consequence. */
static const struct {
    uint32_t bit;
    /* why a rule is skipped, and what to do; in programs without PyTorch, if that differs */
    const char *word, *because, *plain;
} needs[] = {
    {KA_NEEDS_DEVICE, "device work", "the trace has no device activity: record kernels", NULL},
    {KA_NEEDS_OPERATORS, "operators", "the trace has no operators: record cpu_op", NULL},
    {KA_NEEDS_LAUNCHES, "launches",
     "no work is linked to the call that launched it: record runtime calls, with correlation ids", NULL},
    {KA_NEEDS_SHAPES, "shapes", "operators have no shapes: record with record_shapes=True", "no operator has shapes"},
    {KA_NEEDS_STACKS, "stacks", "operators have no stacks: record with with_stack=True", "no operator has a stack"},
    {KA_NEEDS_PYTHON, "Python functions",
     "the trace has no functions of Python: record with with_stack=True",
     "the trace has no functions of Python: 'ckineto record --python' has them"},
    {KA_NEEDS_MODULES, "modules", "the trace has no modules: record with with_modules=True", "the trace has no modules"},
    {KA_NEEDS_MEMORY, "memory events",
     "the trace has no memory events: record with profile_memory=True",
     "the trace has no memory events: 'ckineto record --memory' has them"},
    {KA_NEEDS_STEPS, "two steps",
     "the trace has fewer than two steps: call step() once per iteration",
     "the trace has fewer than two steps: --step-pattern says which ranges are steps"},
    {KA_NEEDS_LIMITS, "device properties", "not reported: properties of devices (deviceProperties)", NULL},
    {KA_NEEDS_RANKS, "several ranks", "one rank cannot be compared: name the traces of all ranks", NULL},
    {KA_NEEDS_THREADS, "states of threads",
     "the trace has no states of threads: 'ckineto record' has them on Linux", NULL},
    {KA_NEEDS_SAMPLES, "CPU samples",
     "the trace has no CPU samples: 'ckineto record' has them on Linux (--cpu HZ)", NULL}};
_Static_assert(KB_COUNT(needs) == KA_NEEDS_COUNT, "words for each need");

const ka_finding_spec *ka_finding_spec_of(ka_finding_rule rule)
{
    KB_ASSERT(rule < KA_FIND_COUNT);
    return &rules[rule];
}

static const char *const plain_advice[KA_FIND_COUNT] = {
#define RULE(...)
#define PLAIN(name, advice) [KA_FIND_##name] = advice,
#include "analyze/findings/finding_rules.def"
};

const char *ka_plain_advice(ka_finding_rule rule)
{
    KB_ASSERT(rule < KA_FIND_COUNT);
    return plain_advice[rule];
}

bool ka_names_torch(kineto_string text)
{
    static const char *const words[] = {"torch", "PyTorch", "PYTORCH", "DataLoader", "DistributedDataParallel",
                                        "with_stack", "autocast", "tensor", "foreach=", "item()"};
    for (size_t i = 0; i < KB_COUNT(words); i++)
        if (kb_string_contains(text, words[i]))
            return true;
    return false;
}

const char *ka_finding_rule_id(ka_finding_rule rule) { return ka_finding_spec_of(rule)->id; }

/* ---- public access --------------------------------------------------------------------------- */

uint32_t kineto_finding_rule_count(void) { return KA_FIND_COUNT; }

/* Room for the words of all needs of a rule. */
#define NEEDS_BYTES 200u
static char needs_texts[KA_FIND_COUNT][NEEDS_BYTES];
static pthread_once_t needs_once = PTHREAD_ONCE_INIT;

/* Texts of all rules' needs, made once: the public structure points to them. */
static void write_needs_texts(void)
{
    for (uint32_t r = 0; r < KA_FIND_COUNT; r++) {
        size_t n = 0;
        for (size_t i = 0; i < KB_COUNT(needs); i++)
            if (rules[r].needs & needs[i].bit)
                n += (size_t)snprintf(needs_texts[r] + n, NEEDS_BYTES - n, "%s%s", n ? ", " : "",
                                      needs[i].word);
    }
}

bool kineto_finding_rule_get(uint32_t index, kineto_finding_rule *out)
{
    if (!out)
        return false;
    *out = (kineto_finding_rule){0};
    if (index >= KA_FIND_COUNT)
        return false;
    const ka_finding_spec *r = &rules[index];
    pthread_once(&needs_once, write_needs_texts);
    *out = (kineto_finding_rule){r->id,     r->title,           r->why,
                                 r->remedy, needs_texts[index], r->only_synthetic};
    return true;
}

const char *kineto_finding_severity_name(uint32_t severity)
{
    static const char *const names[] = {"low", "medium", "high"};
    return names[KB_MIN(severity, (uint32_t)KINETO_FINDING_HIGH)];
}

/* ---- the choice of rules --------------------------------------------------------------------- */

bool ka_finding_rule_matches(ka_finding_rule rule, const char *word, size_t size)
{
    const char *id = ka_finding_rule_id(rule);
    return strncmp(id, word, size) == 0 && (id[size] == '\0' || id[size] == '.');
}

kineto_status ka_parse_rules(const char *list, ka_rule_set *set, kineto_error *err)
{
    *set = list ? 0 : UINT64_MAX;
    for (const char *at = list; at && *at;) {
        size_t size = strcspn(at, ",");
        ka_rule_set named = 0;
        for (uint32_t i = 0; i < KA_FIND_COUNT; i++)
            named |= (ka_rule_set)ka_finding_rule_matches((ka_finding_rule)i, at, size) << i;
        if (!named)
            return kb_fail(err, KINETO_E_ARGUMENT,
                           "unknown rule '%.*s'; 'ckineto analyze --findings --list' lists the "
                           "rules",
                           (int)KB_MIN(size, (size_t)80), at);
        *set |= named;
        at += size + (at[size] == ',');
    }
    return KINETO_OK;
}

ka_rule_set ka_rules_of_ranks(void)
{
    ka_rule_set set = 0;
    for (uint32_t i = 0; i < KA_FIND_COUNT; i++)
        set |= (ka_rule_set)(rules[i].needs == KA_NEEDS_RANKS) << i;
    return set;
}

ka_rule_set ka_rules_of_traces(void)
{
    return UINT64_MAX >> (64 - KA_FIND_COUNT) & ~ka_rules_of_ranks();
}

void ka_list_rules_of_ranks(char *text, size_t size)
{
    ka_rule_set set = ka_rules_of_ranks();
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < KA_FIND_COUNT; i++)
        if (set >> i & 1)
            used += (size_t)kb_snprintf(text + used, size - used, "%s%s", used ? "," : "", rules[i].id);
    KB_ASSERT(used < size);
}

ka_table_set ka_tables_of_rules(ka_rule_set chosen)
{
    ka_table_set set = 0;
    for (uint32_t i = 0; i < KA_FIND_COUNT; i++)
        set |= chosen >> i & 1 ? rules[i].reads : 0;
    return set;
}

/* ---- capabilities of a trace ----------------------------------------------------------------- */

/* Operators whose arguments are checked: in a trace with shapes or stacks nearly all have them. */
#define MAX_CHECKED_OPERATORS 1000u

static bool has_shapes(const ka_dataset *s)
{
    uint32_t tried = 0;
    for (uint32_t i = 0; i < s->slice_count && tried < MAX_CHECKED_OPERATORS; i++) {
        if (s->slices[i].kind != KINETO_KIND_CPU_OP)
            continue;
        tried++;
        if (ka_input_sizes(s->trace, s->slices[i].row).size > 2)
            return true;
    }
    return false;
}

/* Call stacks of operators. Functions of Python count as stacks too, see
 * ka_detect_capabilities. */
static bool has_stacks(const ka_dataset *s)
{
    uint32_t tried = 0;
    for (uint32_t i = 0; i < s->slice_count && tried < MAX_CHECKED_OPERATORS; i++) {
        if (s->slices[i].kind != KINETO_KIND_CPU_OP)
            continue;
        tried++;
        if (ka_arg_text(s->trace, s->slices[i].row, "Call stack").size)
            return true;
    }
    return false;
}

/* Does any device have properties? Traces of libkineto have them; "{}" does not count. */
static bool has_device_limits(const kineto_trace *t)
{
    kineto_process p;
    for (uint32_t i = 0; i < kineto_trace_process_count(t); i++) {
        kineto_trace_process(t, i, &p);
        if (kt_is_described_device(&p))
            return true;
    }
    return false;
}

/* KA_NEEDS_ bits of the kinds of host ranges. */
static uint32_t detect_slice_kinds(const ka_dataset *s)
{
    uint32_t has = 0;
    for (uint32_t i = 0; i < s->slice_count; i++) {
        uint8_t kind = s->slices[i].kind;
        has |= kind == KINETO_KIND_CPU_OP ? KA_NEEDS_OPERATORS : 0;
        has |= kind == KINETO_KIND_PYTHON_FUNCTION ? KA_NEEDS_PYTHON : 0;
    }
    return has;
}

bool ka_is_host_only(const ka_dataset *s)
{
    bool any = s->work_count > 0;
    for (uint32_t i = 0; i < s->slice_count && !any; i++)
        any = kt_kind_is_launch(s->slices[i].kind);
    return !any;
}

uint32_t ka_detect_capabilities(const ka_finder *f)
{
    const ka_dataset *s = f->s;
    uint32_t has = detect_slice_kinds(s);
    has |= s->work_count ? KA_NEEDS_DEVICE : 0;
    for (uint32_t i = 0; i < s->work_count && !(has & KA_NEEDS_LAUNCHES); i++)
        has |= s->work[i].call != KA_NONE ? KA_NEEDS_LAUNCHES : 0;
    has |= has_shapes(s) ? KA_NEEDS_SHAPES : 0;
    has |= has & KA_NEEDS_PYTHON || has_stacks(s) ? KA_NEEDS_STACKS : 0;
    has |= ka_table_rows(&f->facts->tables[KA_TABLE_modules]) ? KA_NEEDS_MODULES : 0;
    has |= ka_table_rows(&f->facts->tables[KA_TABLE_memory]) ? KA_NEEDS_MEMORY : 0;
    has |= f->step_count > 1 ? KA_NEEDS_STEPS : 0;
    has |= has_device_limits(s->trace) ? KA_NEEDS_LIMITS : 0;
    const ka_watched *w = ka_dataset_watched(s);
    has |= w && w->states.count ? KA_NEEDS_THREADS : 0;
    has |= w && w->samples ? KA_NEEDS_SAMPLES : 0;
    return has;
}

/* ---- running rules --------------------------------------------------------------------------- */

/* Reason why a trace with `has` does not meet `needed`; NULL: it meets all. */
static const char *first_unmet_need(uint32_t needed, uint32_t has, bool is_torch)
{
    uint32_t lacks = needed & ~has;
    if (is_torch && lacks & KA_NEEDS_PYTHON && has & KA_NEEDS_STACKS)
        return "the trace has call stacks of operators but no functions of Python, which a newer "
               "PyTorch records with with_stack=True";
    for (size_t i = 0; i < KB_COUNT(needs); i++)
        if (lacks & needs[i].bit)
            return is_torch || !needs[i].plain ? needs[i].because : needs[i].plain;
    return NULL;
}

/* Runs one rule if it was selected and its needs are met, and records the verdict.
 * ka_open_finding and ka_skip_rule change the verdict while the rule runs. */
static void run_rule(ka_finder *f, ka_finding_rule which)
{
    ka_verdict *verdict = &f->out->verdicts[which];
    KB_ASSERT((rules[which].needs & KA_NEEDS_RANKS) != 0 || f->s != NULL ||
              !(f->out->chosen >> which & 1));
    const char *missing = first_unmet_need(rules[which].needs, f->has, f->is_torch);
    if (!(f->out->chosen >> which & 1)) {
        *verdict = (ka_verdict){KINETO_RULE_NOT_SELECTED, {"", 0}};
        return;
    }
    if (missing) {
        *verdict = (ka_verdict){KINETO_RULE_SKIPPED, kb_string(missing)};
        return;
    }
    *verdict = (ka_verdict){KINETO_RULE_PASSED, {"", 0}};
    f->rule = which;
    rules[which].find(f);
    KB_ASSERT(verdict->outcome != KINETO_RULE_NOT_SELECTED);
}

/* The verdict of a rule that found something on some rank stays: what was found is true. */
void ka_findings_skip_lacking(kineto_findings *f)
{
    static const char why[] = "not kept in these facts: 'ckineto facts --findings' keeps the findings of each trace";
    for (uint32_t i = 0; i < KA_FIND_COUNT; i++) {
        bool is_lacking = f->lacking >> i & 1, is_of_ranks = f->chosen & ka_rules_of_ranks() & (ka_rule_set)1 << i;
        if (is_of_ranks && f->verdicts[i].outcome == KINETO_RULE_NOT_SELECTED)
            f->verdicts[i] = (ka_verdict){KINETO_RULE_SKIPPED, kb_string(first_unmet_need(KA_NEEDS_RANKS, 0, false))};
        else if (is_lacking && f->verdicts[i].outcome != KINETO_RULE_FOUND)
            f->verdicts[i] = (ka_verdict){KINETO_RULE_SKIPPED, kb_string(why)};
    }
}

void ka_run_rules(ka_finder *f, uint32_t needed)
{
    for (uint32_t i = 0; i < KA_FIND_COUNT && !f->no_memory; i++)
        if ((rules[i].needs & needed) == needed)
            run_rule(f, (ka_finding_rule)i);
}


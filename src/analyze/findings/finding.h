/* Findings: the data of rules, and the functions that rules use.
 *
 * A rule (finding_rules.def) is a function that reads the facts and the dataset of one trace and
 * opens findings. The engine (findings.c) turns the time that they would save into savings per
 * step, sorts them, and keeps them after the trace is released. docs/how-to/contributing.md adds
 * a rule step by step. Everything of one kineto_findings_find runs on one thread. */
#ifndef KA_FINDING_H
#define KA_FINDING_H

#include "analyze/critical/critical.h"
#include "analyze/facts/idle.h"

#include <ckineto/findings.h>

/** What a trace must have; where it lacks one, the rule is skipped. */
enum {
    KA_NEEDS_DEVICE = 1,    /* work of devices */
    KA_NEEDS_OPERATORS = 2, /* rows cpu_op */
    KA_NEEDS_LAUNCHES = 4,  /* calls that launched work, linked to it */
    KA_NEEDS_SHAPES = 8,    /* "Input Dims" of operators */
    KA_NEEDS_STACKS = 16,   /* "Call stack" of operators, or functions of Python */
    KA_NEEDS_PYTHON = 32,   /* functions of Python */
    KA_NEEDS_MODULES = 64,  /* … with modules */
    KA_NEEDS_MEMORY = 128,  /* [memory] rows, or counters of memory */
    KA_NEEDS_STEPS = 256,   /* two steps at least */
    KA_NEEDS_LIMITS = 512,  /* what devices are: deviceProperties */
    KA_NEEDS_RANKS = 1024,  /* several ranks: asked when several are there */
    KA_NEEDS_THREADS = 2048, /* states of threads */
    KA_NEEDS_SAMPLES = 4096, /* sampled CPU time */
    KA_NEEDS_COUNT = 13
};

/** Whose time the savings of a rule are: findings that save time of the same are not additive. */
enum { KA_SAVES_HOST = 1, KA_SAVES_DEVICE = 2, KA_SAVES_EXCHANGE = 4 };
/** Has a trace of a real program shown what the rule finds? */
enum { KA_REAL, KA_SYNTHETIC };
#define KA_READS(table) KA_TABLE_BIT(KA_TABLE_##table)

typedef enum ka_finding_rule {
#define RULE(name, ...) KA_FIND_##name,
#include "analyze/findings/finding_rules.def"
    KA_FIND_COUNT
} ka_finding_rule;
/** A set of rules: a bit for each ka_finding_rule. */
typedef uint64_t ka_rule_set;

#define KA_NO_SAVINGS INT64_MIN

/** A piece of evidence, or a finding, under way; texts are in the arena of the findings. */
typedef struct ka_evidence {
    kineto_row row;
    int32_t rank;
    int64_t start_ns, end_ns;
    kineto_string name, where, text;
    int64_t weight_ns; /* the heaviest ones are kept */
    char *room;        /* for name and where, also of what takes this place later; finder.c */
} ka_evidence;

/** What a finding saves of a step of one rank. */
typedef struct ka_rank_savings {
    int32_t rank;
    int64_t ns;
} ka_rank_savings;

/* A finding under construction, and after the run. A rule sets the members up to `evidence`
 * through the functions below; members marked "engine" are set by findings.c when the rule has
 * ended. */
typedef struct ka_found {
    ka_finding_rule rule;
    uint8_t severity;
    bool severity_is_set;
    bool overlaps;    /* engine: another finding saves some of the same time */
    bool comes_first; /* before all others: it makes these doubtful */
    int64_t saved_ns; /* of all steps together; KA_NO_SAVINGS */
    int64_t whole_ns; /* what saved_ns is a part of, where that is not the finder's; 0 */
    double extent;    /* how bad it is, where no time says so: in any unit of its rule */
    double confidence;
    int32_t rank;
    uint32_t rank_count;
    uint64_t count;
    kineto_string subject, sentence, advice;
    kineto_string label; /* the subject with hosts and ranks, for people; empty: the subject */
    KB_VEC(ka_evidence) evidence;
    KB_VEC(ka_rank_savings) by_rank; /* engine: of all that have it; none: of `rank` only */
    int64_t own_savings_ns;  /* engine: per step of `rank` */
    int64_t step_savings_ns; /* engine: per step; of the run if is_of_run, else of `rank` */
    bool is_of_run;
    size_t cause;   /* of a rule that compares ranks: index of causes + 1, while these stay; 0: none */
    int64_t baseline_ns;    /* engine: a step of `rank`, or of the run for rules that compare ranks */
    int64_t origin_ns; /* the trace it is in begins: times of its evidence are shown from there */
    double step_savings_pct; /* of it */
} ka_found;

/** The input of rules. */
typedef struct ka_finder {
    const ka_dataset *s;      /* NULL for rules that compare ranks */
    kineto_analysis *facts; /* all tables but series and the critical path */
    int64_t whole_ns;       /* of all steps together; without steps of the trace: never 0 */
    uint32_t step_count;    /* 0: there are none */
    uint32_t device_count;
    bool host_only;       /* the trace has neither work of devices nor calls of their runtimes */
    bool is_torch;        /* ka_is_torch: which words reasons and advice use */
    uint32_t has; /* KA_NEEDS_…: what the trace has */
    ka_finding_rule rule; /* under way */
    uint32_t evidence_limit;
    struct kineto_findings *out;
    ka_path *path; /* once asked for */
    bool path_failed, no_memory;
} ka_finder;

/** Each rule: opens a finding for what it finds (ka_open_finding), or ends without. */
#define RULE(name, ...) void ka_find_##name(ka_finder *f);
#include "analyze/findings/finding_rules.def"

/** A rule as finding_rules.def declares it. */
typedef struct ka_finding_spec {
    void (*find)(ka_finder *f);
    const char *id, *title, *why, *remedy;
    ka_table_set reads;
    uint32_t needs, saves; /* KA_NEEDS_..., KA_SAVES_... */
    bool only_synthetic;
} ka_finding_spec;

/** Advice for programs without PyTorch; NULL: that of the rule names nothing of it, or finds nothing there. */
const char *ka_plain_advice(ka_finding_rule rule);
/** Does advice name functions or options of PyTorch? */
bool ka_names_torch(kineto_string text);

/* ---- for rules (finder.c) -------------------------------------------------------------------- */
/** Open a finding of the rule under way; NULL when out of memory (stop looking then).
 *  @param saved_ns  by how much the selected time would be shorter, of all steps together;
 *                   KA_NO_SAVINGS: not known. Negative savings count as 0.
 *  @param confidence 0 … 1: 0.9 measured waiting; 0.7 an estimate; 0.4 an upper bound.
 *  @param subject   which one, where a rule can find several: part of the finding's identity across
 *                   ranks and in diffs; "" otherwise. */
ka_found *ka_open_finding(ka_finder *f, int64_t saved_ns, double confidence, kineto_string subject);
/** What was seen, with numbers; what to change here. Without: the rule's title and remedy. */
void ka_say(ka_finder *f, ka_found *x, const char *fmt, ...) KINETO_PRINTF(3, 4);
void ka_advise(ka_finder *f, ka_found *x, const char *fmt, ...) KINETO_PRINTF(3, 4);
void ka_set_severity(ka_found *x, kineto_finding_severity severity);
/** How bad a finding without savings is: decides which rank is the worst. */
static inline void ka_set_extent(ka_found *x, double extent) { x->extent = extent; }

/** Evidence; the heaviest ones are kept. `fmt` may be NULL. */
void ka_show_row(ka_finder *f, ka_found *x, kineto_row row, int64_t weight_ns, const char *fmt, ...)
    KINETO_PRINTF(5, 6);
void ka_show_span(ka_finder *f, ka_found *x, int64_t start_ns, int64_t end_ns, int64_t weight_ns,
                  const char *fmt, ...) KINETO_PRINTF(6, 7);
/** Skip the rule although the trace meets its needs; why, and what to do. */
void ka_skip_rule(ka_finder *f, const char *fmt, ...) KINETO_PRINTF(2, 3);

/** A table of the facts that the rule declares in `reads`; never NULL, but it may be empty. Cells
 * by KA_COL_<table>_<column>. */
const ka_table *ka_fact_table(const ka_finder *f, ka_table_id id);
static inline int64_t ka_fact_int(const ka_table *t, uint64_t row, uint32_t column)
{
    return ka_cell_at(t, row, column).i;
}
static inline double ka_fact_number(const ka_table *t, uint64_t row, uint32_t column)
{
    return ka_cell_at(t, row, column).d;
}

/** Is a finding about other programs on the machine, which no change of this one is the cause of? */
bool ka_is_circumstance(const kineto_finding *x);

/** How much shorter all would be on the critical path with these scaled; KA_NO_SAVINGS if that
 *  is not known. Costs a critical path the first time. */
int64_t ka_saved_by(ka_finder *f, const kineto_what_if_scale *scales, size_t count);
/** The lesser of two savings, where both are known: each bounds the other. */
static inline int64_t ka_min_savings(int64_t a, int64_t b)
{
    return a == KA_NO_SAVINGS ? b : b == KA_NO_SAVINGS ? a : KB_MIN(a, b);
}
/** Time in which whole devices (stream -1 of idle_named) were idle for these reasons: the mean of
 *  all devices. @param reasons  KA_IDLE_BITs. */
int64_t ka_idle_ns(const ka_finder *f, uint32_t reasons);
/** Percent of the selected time. */
static inline double ka_share(const ka_finder *f, int64_t ns)
{
    return 100 * (double)ns / (double)f->whole_ns;
}
/** Stack of an operator's call: "Call stack", else the functions of Python around it, innermost
 *  first with ';' between; may be empty. In the arena of the findings. */
kineto_string ka_stack_of(ka_finder *f, uint32_t slice);
/** A member of a device's properties ("totalGlobalMem", "numSms", "computeMajor", "warpSize",
 * "name" …); -1, or empty: it does not say. `device` is an id as in ka_stream; -1: the first
 * device. */
double ka_device_number(const kineto_trace *t, int64_t device, const char *key);
/** The same of properties at hand: for callers that read many devices. */
double ka_property_number(kineto_string properties, const char *key);
kineto_string ka_device_text(const kineto_trace *t, int64_t device, const char *key);
/** The front of long names, for sentences; kernels' names can be 2000 long. */
kb_text ka_short_name(kineto_string name);

/* ---- findings.c ------------------------------------------------------------------------------ */
/* What became of a rule: found something, found nothing, was skipped (`because` has the
 * reason), or was not selected. */
typedef struct ka_verdict {
    uint8_t outcome; /* kineto_rule_outcome */
    kineto_string because;
} ka_verdict;
struct kineto_findings {
    kb_arena arena;
    KB_VEC(ka_found) found;
    ka_verdict verdicts[KA_FIND_COUNT];
    kineto_analysis *across; /* small tables that compare ranks; NULL: none of them is there */
    ka_rule_set chosen;
    int64_t run_ns;     /* of the run of ranks that are compared; else 0 */
    uint32_t run_steps; /* of it, 1 if there are none */
    ka_rule_set partly_skipped; /* some rank lacks what they need */
    ka_rule_set lacking; /* chosen, but what they need of some trace was not kept */
    int64_t whole_ns; /* of all steps of all ranks; without steps: of all traces */
    uint32_t whole_count;
    int64_t step_ns; /* the mean of these */
    uint32_t step_count;
    uint32_t evidence_limit;
    bool is_torch;  /* a trace is of a program that uses PyTorch */
    double quality; /* 0 … 1: how much of what was to be recorded is there */
    bool deferred;  /* see ka_findings_defer */
};

/* ---- rules.c --------------------------------------------------------------------------------- */
const ka_finding_spec *ka_finding_spec_of(ka_finding_rule rule);
const char *ka_finding_rule_id(ka_finding_rule rule);
/** Does the word name the rule? "copy" names "copy.pageable". */
bool ka_finding_rule_matches(ka_finding_rule rule, const char *word, size_t size);
/** Rules of a list of words with commas between; NULL: all. */
kineto_status ka_parse_rules(const char *list, ka_rule_set *set, kineto_error *err);
/** The rules that compare ranks: all that they need of a trace is what comparing ranks needs. */
ka_rule_set ka_rules_of_ranks(void);
/** All others. */
ka_rule_set ka_rules_of_traces(void);
/** Their ids with commas between, as kineto_findings_options.rules has them. @param text  of 200 bytes or more. */
void ka_list_rules_of_ranks(char *text, size_t size);
/** Tables that these rules read. */
ka_table_set ka_tables_of_rules(ka_rule_set chosen);
/** KA_NEEDS_... that the trace meets; the trace is neither of a device nor of its runtime. */
uint32_t ka_detect_capabilities(const ka_finder *f);
bool ka_is_host_only(const ka_dataset *s);
/** Run the chosen rules that need all of `needed`, and record for each whether it could run. */
void ka_run_rules(ka_finder *f, uint32_t needed);

/* ---- run_savings.c --------------------------------------------------------------------------- */
/** Sets what findings of ranks that are compared save of a step of the run. False: out of memory. */
bool ka_set_run_savings(kineto_findings *f);
/** Of sorted findings: puts causes across ranks before what they explain, and notes that these overlap. */
void ka_put_causes_first(kineto_findings *f);
/** What its percentage is of: a step of its rank, or of the run. */
int64_t ka_finding_baseline_ns(const kineto_findings *f, const ka_found *x);
/** The subject, with host and ranks where it is a rank or a link; empty for an index out of range. */
kineto_string ka_finding_label(const kineto_findings *f, uint32_t index);
/** False: its savings are not of a run of several ranks. @param ns  what it saves of a step of its worst rank. */
bool ka_finding_rank_savings(const kineto_findings *f, uint32_t index, int64_t *ns);
/** Of savings of a run of several ranks: its length, which their percentage is of; else 0. */
int64_t ka_finding_run_ns(const kineto_findings *f, uint32_t index);

/* ---- findings.c ------------------------------------------------------------------------------ */
/** Evidence and savings by rank. */
void ka_found_free(ka_found *x);
/** Sentence, advice, confidence and savings per step of the findings from index `from` on. */
void ka_set_savings(kineto_findings *out, const ka_finder *f, size_t from);
uint8_t ka_severity_of(const ka_found *x);
/** Tables that these rules and the engine read. */
ka_table_set ka_findings_tables(ka_rule_set chosen);
/** kineto_findings.across without rows. Freed by the caller, also on failure. */
kineto_status ka_findings_create_across(kineto_analysis **out, kineto_error *err);
/** Findings of one rank. `facts` may be NULL. */
kineto_status ka_find_in_rank(const kineto_trace *trace, const kineto_findings_options *o,
                              const kineto_analysis_options *how, kineto_analysis **facts,
                              kineto_findings **out, kineto_error *err);
/** Of a trace whose findings were kept: rules that compare ranks have not run yet; the others of f->lacking are skipped. */
void ka_findings_skip_lacking(kineto_findings *f);
/** findings_ranks.c: of a trace with several ranks, rank by rank. */
kineto_status ka_find_in_ranks(const kineto_trace *trace, const kineto_findings_options *o,
                               const kineto_analysis_options *how, kineto_findings **out,
                               kineto_error *err);
/** From now on kineto_findings_add leaves out what compares ranks, until ka_findings_complete: see
 *  ka_facts_defer. */
void ka_findings_defer(kineto_findings *f);
kineto_status ka_findings_complete(kineto_findings *f, kineto_error *err);
/** Were all rules run, so that it is known which savings overlap? */
bool ka_findings_know_overlaps(const kineto_findings *f);
/** When the trace of a finding's evidence begins; 0 for an index out of range. */
int64_t ka_finding_origin(const kineto_findings *f, uint32_t index);
/** Severities and order, after findings came or were added. */
void ka_findings_sort(kineto_findings *out);
#endif

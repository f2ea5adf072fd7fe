/* The conformance kit of plug-ins, as its front (`ckineto plugin check`) uses it: the rules of
 * the interface, a check run, and its report. A run executes each scenario in a child process of
 * its own, so that a crash or a hang of the plug-in is a verdict. The calling process must have
 * one thread. */
#ifndef KV_PLUGINCHECK_H
#define KV_PLUGINCHECK_H

#include "base/base.h"

/* ---- check_rules.c --------------------------------------------------------------------------- */
typedef enum kv_rule {
#define X(name, id, text, hint) KV_RULE_##name,
#include "plugincheck/check_rules.def"
#undef X
    KV_RULE_COUNT
} kv_rule;

typedef struct kv_rule_row {
    const char *id, *text, *hint;
} kv_rule_row;
extern const kv_rule_row kv_rules[KV_RULE_COUNT];
/** The rule with this id; KV_RULE_COUNT: unknown. */
kv_rule kv_rule_find(const char *id);
/* Sets of rules are masks of these bits. */
#define KV_RULE_BIT(rule) (UINT64_C(1) << (unsigned)(rule))
#define KV_RULES_ALL      (KV_RULE_BIT(KV_RULE_COUNT - 1) * 2 - 1)

/* ---- check_run.c ----------------------------------------------------------------------------- */
#define KV_MAX_PROFILERS 8u
#define KV_NOTE_BYTES    232u

typedef enum kv_verdict {
    KV_VERDICT_UNTESTED,
    KV_VERDICT_OK,
    KV_VERDICT_FAILED,
    KV_VERDICT_MEASURED
} kv_verdict;

typedef struct kv_result {
    kv_verdict verdict;
    /* a scenario gave a verdict; else it was not tested */
    bool reported;
    uint64_t faults;
    double ns; /* MEASURED */
    /* the observation; "": none */
    char seen[400];
} kv_result;

typedef struct kv_check_report {
    const char *path;
    kv_result results[KV_RULE_COUNT];
    /* the rules that the caller wants */
    uint64_t shown;
    /* it exports KinetoPlugin_register; else the report is empty */
    bool is_plugin;
    /* a wanted rule could not be tested, because its precondition does not hold */
    bool blocked;
    /* "name\tvendor\tkinds" of each profiler that registered. */
    char profilers[KV_MAX_PROFILERS][KV_NOTE_BYTES];
    size_t profiler_count;
    /* of the shown rules */
    uint32_t ok, failed, untested;
} kv_check_report;

/** Check the rules of `rules` and those that they need.
 *  @param path  the library, absolute; must outlive *out. @param limit_ms  for each scenario.
 *  @return not KINETO_OK if a child process could not be made, or was out of memory. */
kineto_status kv_check_run(const char *path, uint64_t rules, uint32_t limit_ms,
                           kv_check_report *out, kineto_error *err);

/* ---- check_torch.c --------------------------------------------------------------------------- */
typedef struct kv_torch_options {
    /* interpreter, found in PATH; NULL or "": python3 */
    const char *python;
    /* absolute path of KV_TORCH_SCRIPT */
    const char *script;
    const char *plugin; /* absolute path */
    bool as_json;
    uint32_t limit_ms;
} kv_torch_options;
/* The script below the directory of plug-ins that checks the plug-in and prints the report. */
#define KV_TORCH_SCRIPT "python/ckineto_attach/plugin_check.py"

typedef enum kv_torch_ending {
    KV_TORCH_REPORTED, /* `report` is the report, as text or JSON */
    KV_TORCH_CRASHED,  /* the process did not survive; `text` describes how it ended */
    KV_TORCH_REFUSED   /* nothing could be checked; `text` is the reason */
} kv_torch_ending;

typedef struct kv_torch_result {
    kv_torch_ending ending;
    /* REPORTED: no rule is broken */
    bool conforms;
    /* REPORTED: owned by the result */
    char *report;
    size_t report_bytes;
    char text[400];
} kv_torch_result;

/** Check the plug-in in a Python process with PyTorch. @param out  to be freed with
 *  kv_torch_result_free if KINETO_OK. */
kineto_status kv_torch_run(const kv_torch_options *options, kv_torch_result *out,
                           kineto_error *err);
void kv_torch_result_free(kv_torch_result *r);
#endif

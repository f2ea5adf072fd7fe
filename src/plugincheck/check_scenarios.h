/* Scenarios: each is run in a child process of its own and reports on some rules. */
#ifndef KV_CHECK_SCENARIOS_H
#define KV_CHECK_SCENARIOS_H

#include "plugincheck/check_host.h"

typedef struct kv_scenario {
    const char *name;
    void (*run)(kv_check *k);
    /* rules that it reports on; faults of others are possible, too */
    uint64_t rules;
    /* run only if an ordinary session works */
    bool needs_session;
} kv_scenario;
/* The first three come first: load, query, session. The others depend on them. */
extern const kv_scenario kv_scenarios[];
extern const size_t kv_scenario_count;

/* ---- check_life.c: building blocks of scenarios ---------------------------------------------- */
/** Load as a host of today's version, and run a function for each profiler. */
void kv_for_each_profiler(kv_check *k, kv_rule rule, void (*run)(kv_check *k, kv_profiler *p));
/** Create a session; false: it failed, a fault of `rule`. */
bool kv_create_session(kv_check *k, kv_session *s, kv_profiler *p, kv_rule rule);
/** A result other than 0 is a fault of `rule`. */
void kv_expect_success(kv_session *s, kv_rule rule, const char *call, int result);
/** Run an ordinary session; the rule holds if it works. */
void kv_expect_working_session(kv_check *k, kv_profiler *p, kv_rule rule);

void kv_scene_load(kv_check *k);
void kv_scene_query(kv_check *k);
void kv_scene_session(kv_check *k);
void kv_scene_create_kinds(kv_check *k);
void kv_scene_start_twice(kv_check *k);
void kv_scene_stop_unstarted(kv_check *k);
void kv_scene_process_before_stop(kv_check *k);
void kv_scene_destroy_only(kv_check *k);
void kv_scene_restart(kv_check *k);
void kv_scene_larger(kv_check *k);
void kv_scene_revision_b(kv_check *k);
void kv_scene_revision_0(kv_check *k);
void kv_scene_short(kv_check *k);
void kv_scene_each_kind(kv_check *k);
void kv_scene_toggle(kv_check *k);
void kv_scene_push_pop(kv_check *k);
void kv_scene_elsewhere(kv_check *k);
void kv_scene_empty(kv_check *k);
void kv_scene_long(kv_check *k);
void kv_scene_error_text(kv_check *k);
void kv_scene_leaks(kv_check *k);
void kv_scene_unload(kv_check *k);
void kv_scene_costs(kv_check *k);
#endif

/* The table of rules, from check_rules.def, and the table of scenarios with the rules that each
 * reports on. */
#include "plugincheck/check_scenarios.h"

const kv_rule_row kv_rules[KV_RULE_COUNT] = {
#define X(name, id, text, hint) {id, text, hint},
#include "plugincheck/check_rules.def"
#undef X
};

_Static_assert(KV_RULE_COUNT <= 64, "rules are bits of a mask");

kv_rule kv_rule_find(const char *id)
{
    size_t i = 0;
    while (i < KV_RULE_COUNT && strcmp(kv_rules[i].id, id) != 0)
        i++;
    return (kv_rule)i;
}

#define R(name) KV_RULE_BIT(KV_RULE_##name)
#define OF_SESSION                                                                                 \
    (R(LIFE_ORDER) | R(SIZE_TODAY) | R(SIZE_FILLED) | R(KINDS_ONLY_ENABLED) | R(TIME_ORDER) |      \
     R(TIME_WINDOW) | R(TIME_MONOTONIC_CLOCK) | R(FLOW_ENDS) | R(IDS_PUSHED) | R(META_JSON) |      \
     R(META_KEYS) | R(NAMES_TEXT) | R(ROWS_ANNOUNCED) | R(BUILDER_AFTER_END) | R(BUILDER_THREAD) | \
     R(BUILDER_HANDLE) | R(COUNTS_BALANCE) | R(COUNTERS_SAMPLES) | R(QUIET_OUTPUT) |               \
     R(QUIET_PROCESS) | R(QUERY_REPEATABLE))

/* load, query and session come first: check_run.c skips the others if these fail. */
const kv_scenario kv_scenarios[] = {
    {"load", kv_scene_load, R(LOAD_OPENS) | R(LOAD_SYMBOL) | R(LOAD_REGISTER), false},
    {"query", kv_scene_query,
     R(QUERY_NULL_HANDLE) | R(QUERY_NAME) | R(QUERY_KINDS) | R(QUERY_SMALL_BUFFERS), false},
    {"session", kv_scene_session, OF_SESSION, false},
    {"create-kinds", kv_scene_create_kinds, R(LIFE_CREATE_KINDS), true},
    {"start-twice", kv_scene_start_twice, R(LIFE_START_TWICE), true},
    {"stop-unstarted", kv_scene_stop_unstarted, R(LIFE_STOP_UNSTARTED), true},
    {"process-before-stop", kv_scene_process_before_stop, R(LIFE_PROCESS_BEFORE_STOP), true},
    {"destroy-only", kv_scene_destroy_only, R(LIFE_DESTROY_ONLY), true},
    {"restart", kv_scene_restart, R(LIFE_RESTART), true},
    {"larger", kv_scene_larger, R(SIZE_LARGER), true},
    {"revision-b", kv_scene_revision_b, R(SIZE_REVISION_B), true},
    {"revision-0", kv_scene_revision_0, R(SIZE_REVISION_0), true},
    {"short", kv_scene_short, R(SIZE_SHORT), true},
    {"each-kind", kv_scene_each_kind, R(KINDS_EACH), true},
    {"toggle", kv_scene_toggle, R(TOGGLE_QUIET), true},
    {"push-pop", kv_scene_push_pop, R(THREADS_PUSH_POP), true},
    {"elsewhere", kv_scene_elsewhere, R(THREADS_LIFE_ELSEWHERE), true},
    {"empty", kv_scene_empty, R(SESSION_EMPTY), true},
    {"long", kv_scene_long, R(SESSION_LONG), true},
    {"error-text", kv_scene_error_text, R(ERROR_TEXT), true},
    {"leaks", kv_scene_leaks, R(LEAK_MEMORY) | R(LEAK_FDS) | R(LEAK_THREADS), true},
    {"unload", kv_scene_unload, R(UNLOAD_CLEAN), true},
    {"costs", kv_scene_costs, R(COST_START) | R(COST_STOP) | R(COST_PUSH_POP) | R(COST_PROCESS),
     true},
};
const size_t kv_scenario_count = KB_COUNT(kv_scenarios);

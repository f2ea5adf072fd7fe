/* The rules of the interface, and what runs to test them. */
#include "cli/check.h"

const kc_rule_row kc_rules[KC_RULE_COUNT] = {
#define X(name, id, text, hint) {id, text, hint},
#include "cli/check_rules.def"
#undef X
};

_Static_assert(KC_RULE_COUNT <= 64, "rules are bits of a mask");

kc_rule kc_rule_find(const char *id)
{
    size_t i = 0;
    while (i < KC_RULE_COUNT && strcmp(kc_rules[i].id, id) != 0)
        i++;
    return (kc_rule)i;
}

#define R(name) KC_RULE_BIT(KC_RULE_##name)
#define OF_SESSION                                                                                 \
    (R(LIFE_ORDER) | R(SIZE_TODAY) | R(SIZE_FILLED) | R(KINDS_ONLY_ENABLED) | R(TIME_ORDER) |      \
     R(TIME_WINDOW) | R(TIME_MONOTONIC_CLOCK) | R(FLOW_ENDS) | R(IDS_PUSHED) | R(META_JSON) |      \
     R(META_KEYS) | R(NAMES_TEXT) | R(ROWS_ANNOUNCED) | R(BUILDER_AFTER_END) | R(BUILDER_THREAD) | \
     R(BUILDER_HANDLE) | R(COUNTS_BALANCE) | R(COUNTERS_SAMPLES) | R(QUIET_OUTPUT) |               \
     R(QUIET_PROCESS) | R(QUERY_REPEATABLE))

/* The first three come first: the others need them. */
const kc_scenario kc_scenarios[] = {
    {"load", kc_scene_load, R(LOAD_OPENS) | R(LOAD_SYMBOL) | R(LOAD_REGISTER), false},
    {"query", kc_scene_query,
     R(QUERY_NULL_HANDLE) | R(QUERY_NAME) | R(QUERY_KINDS) | R(QUERY_SMALL_BUFFERS), false},
    {"session", kc_scene_session, OF_SESSION, false},
    {"create-kinds", kc_scene_create_kinds, R(LIFE_CREATE_KINDS), true},
    {"start-twice", kc_scene_start_twice, R(LIFE_START_TWICE), true},
    {"stop-unstarted", kc_scene_stop_unstarted, R(LIFE_STOP_UNSTARTED), true},
    {"process-before-stop", kc_scene_process_before_stop, R(LIFE_PROCESS_BEFORE_STOP), true},
    {"destroy-only", kc_scene_destroy_only, R(LIFE_DESTROY_ONLY), true},
    {"restart", kc_scene_restart, R(LIFE_RESTART), true},
    {"larger", kc_scene_larger, R(SIZE_LARGER), true},
    {"revision-b", kc_scene_revision_b, R(SIZE_REVISION_B), true},
    {"revision-0", kc_scene_revision_0, R(SIZE_REVISION_0), true},
    {"short", kc_scene_short, R(SIZE_SHORT), true},
    {"each-kind", kc_scene_each_kind, R(KINDS_EACH), true},
    {"toggle", kc_scene_toggle, R(TOGGLE_QUIET), true},
    {"push-pop", kc_scene_push_pop, R(THREADS_PUSH_POP), true},
    {"elsewhere", kc_scene_elsewhere, R(THREADS_LIFE_ELSEWHERE), true},
    {"empty", kc_scene_empty, R(SESSION_EMPTY), true},
    {"long", kc_scene_long, R(SESSION_LONG), true},
    {"error-text", kc_scene_error_text, R(ERROR_TEXT), true},
    {"leaks", kc_scene_leaks, R(LEAK_MEMORY) | R(LEAK_FDS) | R(LEAK_THREADS), true},
    {"unload", kc_scene_unload, R(UNLOAD_CLEAN), true},
    {"costs", kc_scene_costs, R(COST_START) | R(COST_STOP) | R(COST_PUSH_POP) | R(COST_PROCESS),
     true},
};
const size_t kc_scenario_count = KB_COUNT(kc_scenarios);

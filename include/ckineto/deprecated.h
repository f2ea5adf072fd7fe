/** @file
 *  Names of version 0.1, for programs that were written against it. They go away in version 0.3; each says what to
 *  use instead. Every header includes this file at its end and gets the part that belongs to it. Without these names,
 *  and without the old members of structs: define KINETO_NO_OLD_NAMES.
 */
#ifndef KINETO_NO_OLD_NAMES

#include <ckineto/base.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef CKINETO_STATUS_OF_FOUND
#define CKINETO_STATUS_OF_FOUND
/* For getters that returned a status. */
static inline kineto_status kineto__status_of_found(bool found, kineto_status otherwise, const char *text,
    kineto_error *err)
{
    if (!found && err) {
        memset(err, 0, sizeof *err);
        err->code = otherwise;
        memcpy(err->message, text, strlen(text) + 1);
    }
    return found ? KINETO_OK : otherwise;
}
#endif

/* ---- record.h ---- */
#if defined(CKINETO_RECORD_DECLARED) && !defined(CKINETO_RECORD_OLD_NAMES)
#define CKINETO_RECORD_OLD_NAMES

KINETO_DEPRECATED("use kineto_instant_mark")
static inline void kineto_instant(kineto_site *site, const kineto_value *values)
{
    kineto_instant_mark(site, values);
}

KINETO_DEPRECATED("use kineto_instant_mark_props")
static inline void kineto_instant_props(kineto_site *site, const kineto_props *props)
{
    kineto_instant_mark_props(site, props);
}

KINETO_DEPRECATED("use kineto_counter_sample")
static inline void kineto_counter(kineto_site *site, const kineto_value *values)
{
    kineto_counter_sample(site, values);
}

KINETO_DEPRECATED("use kineto_flow_begin")
static inline void kineto_flow_start(uint32_t type, uint64_t id)
{
    kineto_flow_begin(type, id);
}

KINETO_DEPRECATED("use kineto_flow_end")
static inline void kineto_flow_finish(uint32_t type, uint64_t id)
{
    kineto_flow_end(type, id);
}

KINETO_DEPRECATED("use kineto_memory_report")
static inline void kineto_memory(const kineto_memory_event *event)
{
    kineto_memory_report(event);
}

KINETO_DEPRECATED("use kineto_memory_report_failure")
static inline void kineto_out_of_memory(const kineto_memory_event *event)
{
    kineto_memory_report_failure(event);
}

KINETO_DEPRECATED("use kineto_step_mark")
static inline void kineto_step(void)
{
    kineto_step_mark();
}

#endif

/* ---- function.h ---- */
#if defined(CKINETO_FUNCTION_DECLARED) && !defined(CKINETO_FUNCTION_OLD_NAMES)
#define CKINETO_FUNCTION_OLD_NAMES

KINETO_DEPRECATED("use kineto_function_record_begin")
static inline void kineto_function_start(kineto_function *f, kineto_site *site, const kineto_input
    *inputs, size_t count)
{
    kineto_function_record_begin(f, site, inputs, count);
}

KINETO_DEPRECATED("use kineto_function_record_begin_info")
static inline void kineto_function_start_info(kineto_function *f, kineto_site *site, const
    kineto_function_info *info)
{
    kineto_function_record_begin_info(f, site, info);
}

KINETO_DEPRECATED("use kineto_function_record_end")
static inline void kineto_function_finish(kineto_function *f)
{
    kineto_function_record_end(f);
}

KINETO_DEPRECATED("use kineto_function_begin_step")
static inline void kineto_function_start_step(kineto_function *f, const kineto_function_step *step,
    kineto_site *site, const kineto_function_info *info)
{
    kineto_function_begin_step(f, step, site, info);
}

#define KINETO_FUNCTION_INFO_INIT                                                                  \
    {                                                                                              \
        sizeof(kineto_function_info), NULL, NULL, 0, 0, -1, 0, -1, NULL, NULL, NULL, false         \
    }
#define KINETO_FUNCTION_CALLBACK_INIT                                                              \
    {                                                                                              \
        sizeof(kineto_function_callback), NULL, NULL, NULL, 0, false, false, false, 1.0            \
    }

#endif

/* ---- session.h ---- */
#if defined(CKINETO_SESSION_DECLARED) && !defined(CKINETO_SESSION_OLD_NAMES)
#define CKINETO_SESSION_OLD_NAMES

KINETO_DEPRECATED("use kineto_session_create")
static inline kineto_status kineto_session_prepare(const kineto_session_options *options,
    kineto_session **out, kineto_error *err)
{
    return kineto_session_create(options, out, err);
}

/** Creates a session and starts it; NULL on failure. */
KINETO_DEPRECATED("use kineto_session_create and kineto_session_start")
static inline kineto_status kineto_session_begin(const kineto_session_options *options,
    kineto_session **out, kineto_error *err)
{
    kineto_status status = kineto_session_create(options, out, err);
    if (status == KINETO_OK)
        status = kineto_session_start(*out, err);
    if (status != KINETO_OK && out) {
        kineto_session_destroy(*out);
        *out = NULL;
    }
    return status;
}

/** Stops a session and destroys it. */
KINETO_DEPRECATED("use kineto_session_stop and kineto_session_destroy")
static inline kineto_status kineto_session_end(kineto_session *session, kineto_trace **out,
    kineto_error *err)
{
    kineto_status status = kineto_session_stop(session, out, err);
    kineto_session_destroy(session);
    return status;
}

KINETO_DEPRECATED("use kineto_session_pause; mind that it has the opposite sense")
static inline kineto_status kineto_session_toggle(kineto_session *session, bool on, kineto_error *err)
{
    return kineto_session_pause(session, !on, err);
}

#endif

/* ---- analyze.h ---- */
#if defined(CKINETO_ANALYZE_DECLARED) && !defined(CKINETO_ANALYZE_OLD_NAMES)
#define CKINETO_ANALYZE_OLD_NAMES

typedef kineto_analysis_options kineto_analyze_options KINETO_DEPRECATED("use kineto_analysis_options");

KINETO_DEPRECATED("use kineto_verify_run")
static inline kineto_status kineto_verify(const kineto_trace *trace, const kineto_verify_options
    *options, kineto_verify_report **out, kineto_error *err)
{
    return kineto_verify_run(trace, options, out, err);
}

KINETO_DEPRECATED("use kineto_verify_report_destroy")
static inline void kineto_verify_report_release(kineto_verify_report *report)
{
    kineto_verify_report_destroy(report);
}

KINETO_DEPRECATED("use kineto_analysis_run")
static inline kineto_status kineto_analyze(const kineto_trace *trace, const kineto_analysis_options
    *options, kineto_analysis **out, kineto_error *err)
{
    return kineto_analysis_run(trace, options, out, err);
}

KINETO_DEPRECATED("use kineto_analysis_destroy")
static inline void kineto_analysis_release(kineto_analysis *analysis)
{
    kineto_analysis_destroy(analysis);
}

KINETO_DEPRECATED("use kineto_analysis_table_count")
static inline uint32_t kineto_analysis_count(const kineto_analysis *analysis)
{
    return kineto_analysis_table_count(analysis);
}

KINETO_DEPRECATED("use kineto_analysis_find_table")
static inline uint32_t kineto_analysis_find(const kineto_analysis *analysis, const char *name)
{
    return kineto_analysis_find_table(analysis, name);
}

KINETO_DEPRECATED("use kineto_analysis_overlay")
static inline kineto_status kineto_analyze_overlay(const kineto_trace *trace, const
    kineto_analysis_options *options, kineto_trace **out, kineto_error *err)
{
    return kineto_analysis_overlay(trace, options, out, err);
}

KINETO_DEPRECATED("use kineto_critical_path_destroy")
static inline void kineto_critical_path_release(kineto_critical_path *path)
{
    kineto_critical_path_destroy(path);
}

KINETO_DEPRECATED("use kineto_critical_path_what_if")
static inline kineto_status kineto_what_if(const kineto_critical_path *path, const
    kineto_what_if_scale *scales, size_t count, kineto_what_if_result *result, kineto_error *err)
{
    return kineto_critical_path_what_if(path, scales, count, result, err);
}

#endif

/* ---- findings.h ---- */
#if defined(CKINETO_FINDINGS_DECLARED) && !defined(CKINETO_FINDINGS_OLD_NAMES)
#define CKINETO_FINDINGS_OLD_NAMES

typedef kineto_rule_outcome kineto_judgement KINETO_DEPRECATED("use kineto_rule_outcome");

typedef kineto_findings_options kineto_find_options KINETO_DEPRECATED("use kineto_findings_options");

KINETO_DEPRECATED("use kineto_findings_find")
static inline kineto_status kineto_find(const kineto_trace *trace, const kineto_findings_options
    *options, kineto_findings **out, kineto_error *err)
{
    return kineto_findings_find(trace, options, out, err);
}

KINETO_DEPRECATED("use kineto_findings_destroy")
static inline void kineto_findings_release(kineto_findings *findings)
{
    kineto_findings_destroy(findings);
}

KINETO_DEPRECATED("use kineto_findings_outcome")
static inline kineto_rule_outcome kineto_findings_judgement(const kineto_findings *findings,
    uint32_t rule, kineto_string *because)
{
    return kineto_findings_outcome(findings, rule, because);
}

KINETO_DEPRECATED("use kineto_findings_mean_step_ns")
static inline int64_t kineto_findings_step(const kineto_findings *findings, uint32_t *step_count)
{
    return kineto_findings_mean_step_ns(findings, step_count);
}

#define KINETO_JUDGED_QUIET KINETO_RULE_PASSED

#define KINETO_JUDGED_FOUND KINETO_RULE_FOUND

#define KINETO_NOT_JUDGED KINETO_RULE_SKIPPED

#define KINETO_NOT_ASKED KINETO_RULE_NOT_SELECTED

#endif

/* ---- diff.h ---- */
#if defined(CKINETO_DIFF_DECLARED) && !defined(CKINETO_DIFF_OLD_NAMES)
#define CKINETO_DIFF_OLD_NAMES

typedef kineto_diff_outcome kineto_diff_judgement KINETO_DEPRECATED("use kineto_diff_outcome");

KINETO_DEPRECATED("use kineto_diff_run")
static inline kineto_status kineto_diff(const kineto_trace *before, const kineto_trace *after, const
    kineto_diff_options *options, kineto_analysis **out, kineto_error *err)
{
    return kineto_diff_run(before, after, options, out, err);
}

KINETO_DEPRECATED("use kineto_diff_outcome_name")
static inline const char *kineto_diff_judgement_name(uint32_t outcome)
{
    return kineto_diff_outcome_name(outcome);
}

#define KINETO_DIFF_NOT_JUDGED KINETO_DIFF_SKIPPED

#endif

/* ---- export.h ---- */
#if defined(CKINETO_EXPORT_DECLARED) && !defined(CKINETO_EXPORT_OLD_NAMES)
#define CKINETO_EXPORT_OLD_NAMES

KINETO_DEPRECATED("use kineto_export_format_get")
static inline bool kineto_export_format_at(uint32_t index, kineto_export_format *out)
{
    return kineto_export_format_get(index, out);
}

KINETO_DEPRECATED("use kineto_trace_export")
static inline kineto_status kineto_export(const kineto_trace *trace, const char *path, const
    kineto_export_options *options, kineto_export_result *result, kineto_error *err)
{
    return kineto_trace_export(trace, path, options, result, err);
}

KINETO_DEPRECATED("use kineto_trace_export_chrome")
static inline kineto_status kineto_export_chrome(const kineto_trace *trace, const char *path,
    kineto_export_result *result, kineto_error *err)
{
    return kineto_trace_export_chrome(trace, path, result, err);
}

#endif

/* ---- files.h ---- */
#if defined(CKINETO_FILES_DECLARED) && !defined(CKINETO_FILES_OLD_NAMES)
#define CKINETO_FILES_OLD_NAMES

KINETO_DEPRECATED("use kineto_files_destroy")
static inline void kineto_files_release(kineto_files *files)
{
    kineto_files_destroy(files);
}

KINETO_DEPRECATED("use kineto_survey_destroy")
static inline void kineto_survey_release(kineto_survey *survey)
{
    kineto_survey_destroy(survey);
}

#endif

/* ---- summary.h ---- */
#if defined(CKINETO_SUMMARY_DECLARED) && !defined(CKINETO_SUMMARY_OLD_NAMES)
#define CKINETO_SUMMARY_OLD_NAMES

KINETO_DEPRECATED("use kineto_function_events_destroy")
static inline void kineto_function_events_release(kineto_function_events *events)
{
    kineto_function_events_destroy(events);
}

KINETO_DEPRECATED("use kineto_averages_destroy")
static inline void kineto_averages_release(kineto_averages *averages)
{
    kineto_averages_destroy(averages);
}

#endif

/* ---- flops.h ---- */
#if defined(CKINETO_FLOPS_DECLARED) && !defined(CKINETO_FLOPS_OLD_NAMES)
#define CKINETO_FLOPS_OLD_NAMES

KINETO_DEPRECATED("use kineto_flops_count")
static inline kineto_status kineto_flops(const char *op, const kineto_flops_inputs *inputs, uint64_t
    *flops)
{
    return kineto_flops_count(op, inputs, flops);
}

#endif

/* ---- stubs.h ---- */
#if defined(CKINETO_STUBS_DECLARED) && !defined(CKINETO_STUBS_OLD_NAMES)
#define CKINETO_STUBS_OLD_NAMES

KINETO_DEPRECATED("use kineto_stubs_slot_get, which returns true")
static inline kineto_status kineto_stubs_get(kineto_stubs_slot slot, kineto_stubs *out, kineto_error
    *err)
{
    return kineto__status_of_found(kineto_stubs_slot_get(slot, out), KINETO_E_ARGUMENT,
        "unknown stubs slot, or the size of the stubs is not set", err);
}

#define KINETO_STUBS_INIT {sizeof(kineto_stubs), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL}
#define KINETO_PRIVATEUSE1_OBSERVER_INIT {sizeof(kineto_privateuse1_observer), NULL, NULL, NULL}

#endif

/* ---- host.h ---- */
#if defined(CKINETO_HOST_DECLARED) && !defined(CKINETO_HOST_OLD_NAMES)
#define CKINETO_HOST_OLD_NAMES

KINETO_DEPRECATED("use kineto_plugin_info_get")
static inline kineto_status kineto_plugin_get(uint32_t index, kineto_plugin_info *info)
{
    return kineto_plugin_info_get(index, info) ? KINETO_OK : KINETO_E_NOT_FOUND;
}

#endif

/* ---- schedule.h ---- */
#if defined(CKINETO_SCHEDULE_DECLARED) && !defined(CKINETO_SCHEDULE_OLD_NAMES)
#define CKINETO_SCHEDULE_OLD_NAMES

#define KINETO_SCHEDULE_INIT {sizeof(kineto_schedule), 0, 0, 0, 1, 0, 0}

#endif

/* ---- profiler.h ---- */
#if defined(CKINETO_PROFILER_DECLARED) && !defined(CKINETO_PROFILER_OLD_NAMES)
#define CKINETO_PROFILER_OLD_NAMES

KINETO_DEPRECATED("use kineto_profiler_result_retain")
static inline kineto_profiler_result *kineto_result_retain(kineto_profiler_result *result)
{
    return kineto_profiler_result_retain(result);
}

KINETO_DEPRECATED("use kineto_profiler_result_release")
static inline void kineto_result_release(kineto_profiler_result *result)
{
    kineto_profiler_result_release(result);
}

KINETO_DEPRECATED("use kineto_profiler_result_trace")
static inline const kineto_trace *kineto_result_trace(const kineto_profiler_result *result)
{
    return kineto_profiler_result_trace(result);
}

KINETO_DEPRECATED("use kineto_profiler_result_start_ns")
static inline int64_t kineto_result_start_ns(const kineto_profiler_result *result)
{
    return kineto_profiler_result_start_ns(result);
}

KINETO_DEPRECATED("use kineto_profiler_result_save")
static inline kineto_status kineto_result_save(const kineto_profiler_result *result, const char
    *path, kineto_error *err)
{
    return kineto_profiler_result_save(result, path, err);
}

KINETO_DEPRECATED("use kineto_profiler_result_event_count")
static inline uint64_t kineto_result_event_count(const kineto_profiler_result *result)
{
    return kineto_profiler_result_event_count(result);
}

KINETO_DEPRECATED("use kineto_profiler_result_event")
static inline bool kineto_result_event(const kineto_profiler_result *result, uint64_t index,
    kineto_event *out)
{
    return kineto_profiler_result_event(result, index, out);
}

KINETO_DEPRECATED("use kineto_profiler_result_tree_root")
static inline kineto_row kineto_result_tree_root(const kineto_profiler_result *result, uint64_t
    index)
{
    return kineto_profiler_result_tree_root(result, index);
}

KINETO_DEPRECATED("use kineto_profiler_result_tree_root_count")
static inline uint64_t kineto_result_tree_root_count(const kineto_profiler_result *result)
{
    return kineto_profiler_result_tree_root_count(result);
}

KINETO_DEPRECATED("use kineto_profiler_result_tree_parent")
static inline kineto_row kineto_result_tree_parent(const kineto_profiler_result *result, kineto_row
    row)
{
    return kineto_profiler_result_tree_parent(result, row);
}

KINETO_DEPRECATED("use kineto_profiler_result_tree_first_child")
static inline kineto_row kineto_result_tree_first_child(const kineto_profiler_result *result,
    kineto_row row)
{
    return kineto_profiler_result_tree_first_child(result, row);
}

KINETO_DEPRECATED("use kineto_profiler_result_tree_next_sibling")
static inline kineto_row kineto_result_tree_next_sibling(const kineto_profiler_result *result,
    kineto_row row)
{
    return kineto_profiler_result_tree_next_sibling(result, row);
}

KINETO_DEPRECATED("use kineto_profiler_config_get, which returns true")
static inline kineto_status kineto_profiler_get_config(kineto_profiler_config *out, kineto_error *err)
{
    bool found = kineto_profiler_config_get(out);
    return !out || out->size < sizeof out->size
        ? kineto__status_of_found(found, KINETO_E_ARGUMENT, "the size of the config is not set", err)
        : kineto__status_of_found(found, KINETO_E_STATE,
            "Tried to access profiler config, but profiler is not enabled!", err);
}

KINETO_DEPRECATED("use kineto_profiler_pause_collection; mind that it has the opposite sense")
static inline kineto_status kineto_profiler_toggle_collection_dynamic(bool enable, uint32_t activities,
    kineto_error *err)
{
    return kineto_profiler_pause_collection(!enable, activities, err);
}

#endif

/* ---- profile_run.h ---- */
#if defined(CKINETO_PROFILE_RUN_DECLARED) && !defined(CKINETO_PROFILE_RUN_OLD_NAMES)
#define CKINETO_PROFILE_RUN_OLD_NAMES

typedef kineto_profile_run_make_id kineto_profile_make_id KINETO_DEPRECATED("use kineto_profile_run_make_id");

typedef kineto_profile_run_action_of kineto_profile_action_of KINETO_DEPRECATED("use kineto_profile_run_action_of");

typedef kineto_profile_run_ready kineto_profile_ready KINETO_DEPRECATED("use kineto_profile_run_ready");

typedef kineto_profile_run_options kineto_profile_options KINETO_DEPRECATED("use kineto_profile_run_options");

typedef kineto_profile_run kineto_profile KINETO_DEPRECATED("use kineto_profile_run");

KINETO_DEPRECATED("use kineto_profile_run_create")
static inline kineto_status kineto_profile_create(const kineto_profile_run_options *options,
    kineto_profile_run **out, kineto_error *err)
{
    return kineto_profile_run_create(options, out, err);
}

KINETO_DEPRECATED("use kineto_profile_run_destroy")
static inline void kineto_profile_destroy(kineto_profile_run *profile)
{
    kineto_profile_run_destroy(profile);
}

KINETO_DEPRECATED("use kineto_profile_run_start")
static inline kineto_status kineto_profile_start(kineto_profile_run *profile, kineto_error *err)
{
    return kineto_profile_run_start(profile, err);
}

KINETO_DEPRECATED("use kineto_profile_run_step")
static inline kineto_status kineto_profile_step(kineto_profile_run *profile, kineto_error *err)
{
    return kineto_profile_run_step(profile, err);
}

KINETO_DEPRECATED("use kineto_profile_run_stop")
static inline kineto_status kineto_profile_stop(kineto_profile_run *profile, kineto_error *err)
{
    return kineto_profile_run_stop(profile, err);
}

KINETO_DEPRECATED("use kineto_profile_run_pause")
static inline kineto_status kineto_profile_pause(kineto_profile_run *profile, bool paused,
    kineto_error *err)
{
    return kineto_profile_run_pause(profile, paused, err);
}

KINETO_DEPRECATED("use kineto_profile_run_step_number")
static inline uint64_t kineto_profile_step_number(const kineto_profile_run *profile)
{
    return kineto_profile_run_step_number(profile);
}

KINETO_DEPRECATED("use kineto_profile_run_current_action")
static inline kineto_action kineto_profile_current_action(const kineto_profile_run *profile)
{
    return kineto_profile_run_current_action(profile);
}

KINETO_DEPRECATED("use kineto_profile_run_trace_id")
static inline const char *kineto_profile_trace_id(const kineto_profile_run *profile)
{
    return kineto_profile_run_trace_id(profile);
}

KINETO_DEPRECATED("use kineto_profile_run_discarded")
static inline uint64_t kineto_profile_discarded(const kineto_profile_run *profile)
{
    return kineto_profile_run_discarded(profile);
}

KINETO_DEPRECATED("use kineto_profile_run_result")
static inline kineto_profiler_result *kineto_profile_result(const kineto_profile_run *profile)
{
    return kineto_profile_run_result(profile);
}

KINETO_DEPRECATED("use kineto_profile_run_cycle_count")
static inline uint32_t kineto_profile_cycle_count(const kineto_profile_run *profile)
{
    return kineto_profile_run_cycle_count(profile);
}

KINETO_DEPRECATED("use kineto_profile_run_cycle")
static inline kineto_profiler_result *kineto_profile_cycle(const kineto_profile_run *profile,
    uint32_t index)
{
    return kineto_profile_run_cycle(profile, index);
}

KINETO_DEPRECATED("use kineto_profile_run_add_metadata")
static inline kineto_status kineto_profile_add_metadata(kineto_profile_run *profile, const char
    *key, const char *text, kineto_error *err)
{
    return kineto_profile_run_add_metadata(profile, key, text, err);
}

KINETO_DEPRECATED("use kineto_profile_run_add_metadata_json")
static inline kineto_status kineto_profile_add_metadata_json(kineto_profile_run *profile, const char
    *key, const char *json_value, kineto_error *err)
{
    return kineto_profile_run_add_metadata_json(profile, key, json_value, err);
}

KINETO_DEPRECATED("use kineto_profile_run_preset_metadata_json")
static inline kineto_status kineto_profile_preset_metadata_json(kineto_profile_run *profile, const
    char *key, const char *json_value, kineto_error *err)
{
    return kineto_profile_run_preset_metadata_json(profile, key, json_value, err);
}

KINETO_DEPRECATED("use kineto_profile_run_export_chrome_trace")
static inline kineto_status kineto_profile_export_chrome_trace(const kineto_profile_run *profile,
    const char *path, kineto_error *err)
{
    return kineto_profile_run_export_chrome_trace(profile, path, err);
}

KINETO_DEPRECATED("use kineto_profile_run_events")
static inline kineto_status kineto_profile_events(const kineto_profile_run *profile,
    kineto_function_events **out, kineto_error *err)
{
    return kineto_profile_run_events(profile, out, err);
}

KINETO_DEPRECATED("use kineto_profile_run_key_averages")
static inline kineto_status kineto_profile_key_averages(const kineto_profile_run *profile, const
    kineto_averages_options *options, kineto_averages **out, kineto_error *err)
{
    return kineto_profile_run_key_averages(profile, options, out, err);
}

KINETO_DEPRECATED("use kineto_profile_run_export_stacks")
static inline kineto_status kineto_profile_export_stacks(const kineto_profile_run *profile, const
    char *path, const char *metric, kineto_error *err)
{
    return kineto_profile_run_export_stacks(profile, path, metric, err);
}

KINETO_DEPRECATED("use kineto_profile_run_export_memory_timeline")
static inline kineto_status kineto_profile_export_memory_timeline(const kineto_profile_run *profile,
    const char *path, const char *device, kineto_error *err)
{
    return kineto_profile_run_export_memory_timeline(profile, path, device, err);
}

KINETO_DEPRECATED("use kineto_profile_run_export_execution_trace")
static inline kineto_status kineto_profile_export_execution_trace(const kineto_profile_run *profile,
    const char *path, kineto_error *err)
{
    return kineto_profile_run_export_execution_trace(profile, path, err);
}

KINETO_DEPRECATED("use kineto_profile_run_save_tensorboard")
static inline kineto_status kineto_profile_save_tensorboard(const kineto_profile_run *profile, const
    kineto_tensorboard *where, char *path, size_t bytes, kineto_error *err)
{
    return kineto_profile_run_save_tensorboard(profile, where, path, bytes, err);
}

#define KINETO_PROFILE_OPTIONS_INIT                                                                \
    {                                                                                              \
        sizeof(kineto_profile_run_options), NULL, 0, 0, NULL, NULL, NULL, NULL, NULL, false        \
    }

#endif

/* ---- control.h ---- */
#if defined(CKINETO_CONTROL_DECLARED) && !defined(CKINETO_CONTROL_OLD_NAMES)
#define CKINETO_CONTROL_OLD_NAMES

#define KINETO_CONTROL_OPTIONS_INIT                                                                \
    {                                                                                              \
        sizeof(kineto_control_options), false, false, 0, NULL, 0, 0, 0, false, 0, 0, NULL, 0       \
    }

#endif

#ifdef __cplusplus
}
#endif

#endif

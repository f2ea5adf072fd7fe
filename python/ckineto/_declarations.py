"""Declarations of the functions of libckineto that this package calls, for ctypes."""
import ctypes as C
from typing import Any, Dict, Tuple

from . import _structs as S
from ._base import bool_, char_p, double, i64, int_, size_t, u32, u64, void_p

_ERR = void_p  # kineto_error *: a byref, or None
_P = C.POINTER


def _getter(name: str, struct: Any, index: Any = u32) -> Dict[str, Tuple]:
    """void NAME(const HANDLE *, index, STRUCT *out)."""
    return {name: (None, (void_p, index, _P(struct)))}


# name: (type of the result, types of the arguments)
FULL: Dict[str, Tuple[Any, Tuple]] = {
    # session.h
    "kineto_session_create": (int_, (_P(S.SessionOptions), _P(void_p), _ERR)),
    "kineto_session_start": (int_, (void_p, _ERR)),
    "kineto_session_stop": (int_, (void_p, _P(void_p), _ERR)),
    "kineto_session_pause": (int_, (void_p, bool_, _ERR)),
    "kineto_session_snapshot": (int_, (void_p, _P(void_p), _ERR)),
    "kineto_session_destroy": (None, (void_p,)),
    # trace.h
    "kineto_trace_retain": (void_p, (void_p,)),
    "kineto_trace_release": (None, (void_p,)),
    "kineto_trace_count": (u64, (void_p,)),
    "kineto_trace_string": (S.String, (void_p, u32)),
    "kineto_trace_process_count": (u32, (void_p,)),
    "kineto_trace_track_count": (u32, (void_p,)),
    "kineto_trace_track_rows": (_P(u32), (void_p, u32)),
    "kineto_trace_time_order": (_P(u32), (void_p,)),
    "kineto_trace_parent": (u32, (void_p, u32)),
    "kineto_trace_self_ns": (i64, (void_p, u32)),
    "kineto_trace_launch": (u32, (void_p, u32)),
    "kineto_trace_launched": (u32, (void_p, u32)),
    "kineto_args_begin": (None, (void_p, u32, _P(S.ArgsIterator))),
    "kineto_args_next": (bool_, (_P(S.ArgsIterator), _P(S.Arg))),
    "kineto_trace_flow_count": (u64, (void_p,)),
    "kineto_trace_ledger_count": (u32, (void_p,)),
    "kineto_trace_lost": (u64, (void_p,)),
    "kineto_trace_metadata_count": (u32, (void_p,)),
    "kineto_trace_metadata": (None, (void_p, u32, _P(S.String), _P(S.String))),
    "kineto_trace_window": (None, (void_p, _P(i64), _P(i64))),
    "kineto_trace_open_with": (int_, (char_p, _P(S.OpenOptions), _P(void_p), _ERR)),
    "kineto_trace_text_bytes": (u64, (void_p,)),
    "kineto_trace_repair_total": (u64, (void_p,)),
    "kineto_trace_repair_count": (u32, (void_p,)),
    "kineto_trace_select": (int_, (void_p, _P(S.Selection), _P(void_p), _ERR)),
    "kineto_trace_save": (int_, (void_p, char_p, _ERR)),
    # files.h, export.h, arrow.h
    "kineto_trace_open_many": (int_, (_P(char_p), size_t, _P(S.OpenManyOptions), _P(void_p), _ERR)),
    "kineto_trace_merge": (int_, (_P(void_p), size_t, void_p, _P(void_p), _ERR)),
    "kineto_trace_export": (int_, (void_p, char_p, _P(S.ExportOptions), void_p, _ERR)),
    "kineto_trace_export_chrome": (int_, (void_p, char_p, void_p, _ERR)),
    "kineto_report_save": (int_, (void_p, _P(S.ReportOptions), char_p, _ERR)),
    "kineto_trace_arrow_stream": (int_, (void_p, char_p, _P(S.ArrowStream), _ERR)),
    # analyze.h, findings.h, diff.h
    "kineto_analysis_run": (int_, (void_p, _P(S.AnalyzeOptions), _P(void_p), _ERR)),
    "kineto_analysis_destroy": (None, (void_p,)),
    "kineto_analysis_table_count": (u32, (void_p,)),
    "kineto_analysis_table": (bool_, (void_p, u32, _P(S.FactTable))),
    "kineto_analysis_column": (bool_, (void_p, u32, u32, _P(S.FactColumn))),
    "kineto_analysis_fact": (bool_, (void_p, u32, u64, u32, _P(S.Fact))),
    "kineto_fact_table_count": (u32, ()),
    "kineto_fact_table_name": (char_p, (u32,)),
    "kineto_fact_table_is_series": (bool_, (u32,)),
    "kineto_findings_find": (int_, (void_p, _P(S.FindOptions), _P(void_p), _ERR)),
    "kineto_findings_destroy": (None, (void_p,)),
    "kineto_findings_count": (u32, (void_p,)),
    "kineto_findings_get": (bool_, (void_p, u32, _P(S.Finding))),
    "kineto_findings_evidence": (bool_, (void_p, u32, u32, _P(S.FindingEvidence))),
    "kineto_finding_rule_get": (bool_, (u32, _P(S.FindingRule))),
    "kineto_finding_severity_name": (char_p, (u32,)),
    "kineto_findings_gate": (int_, (void_p, char_p, _P(bool_), void_p, size_t, _ERR)),
    "kineto_diff_runs": (int_, (_P(void_p), size_t, _P(void_p), size_t, _P(S.DiffOptions), _P(void_p), _ERR)),
    "kineto_diff_gate": (int_, (void_p, char_p, bool_, _P(S.DiffVerdict), _ERR)),
    "kineto_diff_outcome_name": (char_p, (u32,)),
    "kineto_diff_decider_name": (char_p, (u32,)),
    # facts.h
    "kineto_facts_are_at": (bool_, (char_p,)),
    "kineto_facts_open": (int_, (_P(char_p), size_t, u64, _P(void_p), _ERR)),
    "kineto_facts_destroy": (None, (void_p,)),
    "kineto_facts_analyze": (int_, (void_p, char_p, _P(void_p), _ERR)),
    "kineto_facts_find": (int_, (void_p, char_p, _P(void_p), _ERR)),
    "kineto_facts_diff": (int_, (void_p, void_p, _P(void_p), _ERR)),
    # summary.h
    "kineto_function_events_create": (int_, (void_p, void_p, _P(void_p), _ERR)),
    "kineto_function_events_destroy": (None, (void_p,)),
    "kineto_function_events_count": (u32, (void_p,)),
    "kineto_function_events_device": (char_p, (void_p,)),
    "kineto_averages_create": (int_, (void_p, _P(S.AveragesOptions), _P(void_p), _ERR)),
    "kineto_averages_destroy": (None, (void_p,)),
    "kineto_averages_count": (u32, (void_p,)),
    "kineto_averages_frame": (S.String, (void_p, u32, u32)),
    "kineto_averages_total": (None, (void_p, _P(S.Average))),
    "kineto_averages_value": (int_, (void_p, u32, char_p, _P(double), _ERR)),
    "kineto_averages_text": (int_, (void_p, _P(S.TableOptions), _P(void_p), _P(size_t), _ERR)),
    "kineto_time_unit_parse": (bool_, (char_p, _P(u32))),
    "kineto_stacks_save": (int_, (void_p, _P(S.StacksOptions), char_p, _P(u64), _ERR)),
    "kineto_execution_trace_save": (int_, (void_p, char_p, _ERR)),
    # schedule.h, profile.h, profiler.h
    "kineto_schedule_check": (int_, (_P(S.Schedule), _P(char_p), _ERR)),
    "kineto_schedule_action": (int_, (_P(S.Schedule), u64)),
    "kineto_profile_run_create": (int_, (_P(S.ProfileOptions), _P(void_p), _ERR)),
    "kineto_profile_run_destroy": (None, (void_p,)),
    "kineto_profile_run_start": (int_, (void_p, _ERR)),
    "kineto_profile_run_pause": (int_, (void_p, bool_, _ERR)),
    "kineto_profile_run_step": (int_, (void_p, _ERR)),
    "kineto_profile_run_stop": (int_, (void_p, _ERR)),
    "kineto_profile_run_step_number": (u64, (void_p,)),
    "kineto_profile_run_current_action": (int_, (void_p,)),
    "kineto_profile_run_trace_id": (char_p, (void_p,)),
    "kineto_profile_run_discarded": (u64, (void_p,)),
    "kineto_profile_run_result": (void_p, (void_p,)),
    "kineto_profile_run_cycle_count": (u32, (void_p,)),
    "kineto_profile_run_cycle": (void_p, (void_p, u32)),
    "kineto_profile_run_add_metadata": (int_, (void_p, char_p, char_p, _ERR)),
    "kineto_profile_run_add_metadata_json": (int_, (void_p, char_p, char_p, _ERR)),
    "kineto_profile_run_preset_metadata_json": (int_, (void_p, char_p, char_p, _ERR)),
    "kineto_profile_run_export_chrome_trace": (int_, (void_p, char_p, _ERR)),
    "kineto_profile_run_export_stacks": (int_, (void_p, char_p, char_p, _ERR)),
    "kineto_profile_run_export_memory_timeline": (int_, (void_p, char_p, char_p, _ERR)),
    "kineto_profile_run_export_execution_trace": (int_, (void_p, char_p, _ERR)),
    "kineto_profile_run_events": (int_, (void_p, _P(void_p), _ERR)),
    "kineto_profile_run_save_tensorboard": (int_, (void_p, _P(S.Tensorboard), void_p, size_t, _ERR)),
    "kineto_profiler_result_retain": (void_p, (void_p,)),
    "kineto_profiler_result_release": (None, (void_p,)),
    "kineto_profiler_result_trace": (void_p, (void_p,)),
    "kineto_profiler_result_start_ns": (i64, (void_p,)),
    "kineto_profiler_result_save": (int_, (void_p, char_p, _ERR)),
    "kineto_profiler_result_event_count": (u64, (void_p,)),
    "kineto_profiler_result_event": (bool_, (void_p, u64, _P(S.Event))),
    "kineto_event_of": (bool_, (void_p, u32, _P(S.Event))),
    "kineto_event_kwinput": (bool_, (_P(S.Event), u32, _P(S.Arg))),
    "kineto_event_metadata_json": (void_p, (_P(S.Event),)),
}
for _each in (
        _getter("kineto_trace_get", S.Activity), _getter("kineto_trace_process", S.Process),
        _getter("kineto_trace_track", S.Track), _getter("kineto_trace_flow", S.Flow, u64),
        _getter("kineto_trace_ledger", S.LedgerLine), _getter("kineto_trace_repair", S.Repair),
        _getter("kineto_function_events_get", S.FunctionEvent),
        _getter("kineto_averages_get", S.Average)):
    FULL.update(_each)

# Accessors of an event without further arguments: kineto_event_NAME(const kineto_event *).
EVENT_ACCESSORS = {
    "start_thread_id": u64, "end_thread_id": u64, "activity_type": u32, "fwd_thread_id": u64,
    "has_shapes": bool_, "shapes": S.String, "strides": S.String, "has_types": bool_,
    "dtypes": S.String, "has_concrete_inputs": bool_, "concrete_inputs": S.String,
    "has_kwinputs": bool_, "is_hidden": bool_, "flops": u64, "sequence_nr": i64, "has_stack": bool_,
    "stack": S.String, "scope": int_, "has_module_hierarchy": bool_, "module_hierarchy": S.String,
    "debug_handle": i64, "name": S.String, "overload_name": S.String, "device_type": u32,
    "device_index": i64, "nbytes": i64, "start_ns": i64, "end_ns": i64, "duration_ns": i64,
    "is_async": bool_, "correlation_id": u64, "linked_correlation_id": u64,
    "device_resource_id": i64, "backend": S.String, "is_python_function": bool_,
    "is_user_annotation": bool_, "cuda_elapsed_us": i64, "privateuse1_elapsed_us": i64,
    "flow_id": u64, "flow_type": u32, "flow_start": bool_, "external_id": u64, "python_id": i64,
    "python_parent_id": i64, "python_module_id": i64,
}
for _name, _result in EVENT_ACCESSORS.items():
    FULL["kineto_event_" + _name] = (_result, (_P(S.Event),))

"""Layouts of the structs of include/ckineto/*.h that this package fills or reads, but for those of
_base.py, which says how they are checked.
"""
import ctypes as C

from ._base import (ErrorInfo, Sized, String, bool_, char_p, double, i32, i64, int_, size_t, u32, u64,
                    void_p)

# ---- session.h ---------------------------------------------------------------------------------------


class SessionOptions(Sized):
    _c_type_ = "kineto_session_options"
    _fields_ = [("size", size_t), ("kinds", u64), ("buffer_bytes", size_t), ("retention", u32),
                ("threads", u32), ("custom_config", char_p), ("operators", u32), ("scopes", u32)]


# ---- trace.h -----------------------------------------------------------------------------------------


class Activity(C.Structure):
    _c_type_ = "kineto_activity"
    _fields_ = [("row", u32), ("start_ns", i64), ("end_ns", i64), ("name", String), ("name_id", u32),
                ("track", u32), ("kind", u32), ("category", u32), ("form", u32), ("flags", u32),
                ("correlation_id", u64), ("external_id", u64), ("async_id", u64)]


class Process(C.Structure):
    _c_type_ = "kineto_process"
    _fields_ = [("is_device", bool_), ("pid", i64), ("ppid", i64), ("name", String), ("label", String),
                ("sort_index", i64), ("rank", i32), ("host", String), ("properties_json", String)]


class Track(C.Structure):
    _c_type_ = "kineto_track"
    _fields_ = [("process", u32), ("type", u32), ("id", i64), ("name", String), ("sort_index", i64),
                ("count", u64), ("lane_count", u32)]


class ArgNumber(C.Union):
    _fields_ = [("i", i64), ("u", u64), ("d", double)]


class Arg(C.Structure):
    _c_type_ = "kineto_arg"
    _anonymous_ = ("number",)
    _fields_ = [("key", String), ("type", u32), ("number", ArgNumber), ("text", String)]


class ArgsIterator(C.Structure):
    _c_type_ = "kineto_args_iterator"
    _fields_ = [("trace", void_p), ("row", u32), ("position", void_p), ("end", void_p),
                ("state", u64 * 4)]


class Flow(C.Structure):
    _c_type_ = "kineto_flow"
    _c_names_ = {"from_": "from"}
    _fields_ = [("type", u32), ("id", u64), ("from_", u32), ("to", u32)]


class LedgerLine(C.Structure):
    _c_type_ = "kineto_ledger_line"
    _fields_ = [("source", String), ("reason", String), ("count", u64), ("is_loss", bool_),
                ("detail", String)]


class OpenOptions(Sized):
    _c_type_ = "kineto_open_options"
    _fields_ = [("size", size_t), ("threads", u32), ("memory_bytes", u64), ("strict", bool_),
                ("ts_unit_ns", u64)]


class Repair(C.Structure):
    _c_type_ = "kineto_repair"
    _fields_ = [("kind", String), ("text", String), ("offset", u64), ("bytes", u64),
                ("is_loss", bool_)]


class Selection(Sized):
    _c_type_ = "kineto_selection"
    _fields_ = [("size", size_t), ("use", u32), ("top_per", u32), ("start_ns", i64), ("end_ns", i64),
                ("first_step", u64), ("last_step", u64), ("kinds", u64), ("name", char_p),
                ("track", char_p), ("pid", i64), ("rank", i32), ("min_duration_ns", i64), ("top", u64),
                ("under", char_p), ("around", char_p), ("after", char_p), ("before", char_p),
                ("step_pattern", char_p)]


# ---- files.h, export.h, arrow.h ------------------------------------------------------------------------

OPEN_PROGRESS = C.CFUNCTYPE(None, u32, u32, char_p, void_p)
WRITE_PROGRESS = C.CFUNCTYPE(None, u64, u64, void_p)


class OpenManyOptions(Sized):
    _c_type_ = "kineto_open_many_options"
    _fields_ = [("size", size_t), ("open", C.POINTER(OpenOptions)), ("only_rank", bool_),
                ("rank", i32), ("progress", OPEN_PROGRESS), ("user", void_p), ("align", bool_)]


class ExportOptions(Sized):
    _c_type_ = "kineto_export_options"
    _fields_ = [("size", size_t), ("format", char_p), ("trace_name", char_p),
                ("progress", WRITE_PROGRESS), ("user", void_p), ("roots", u32), ("weight_ns", u32),
                ("split_lanes", bool_), ("weight", u64)]


class ReportOptions(Sized):
    _c_type_ = "kineto_report_options"
    _fields_ = [("size", size_t), ("title", char_p), ("facts", void_p), ("findings", void_p),
                ("diff", void_p), ("row_limit", u64), ("activity_limit", u64),
                ("progress", WRITE_PROGRESS), ("user", void_p), ("step_pattern", char_p), ("overview", void_p)]


class ArrowStream(C.Structure):
    _c_type_ = "struct ArrowArrayStream"
    _fields_ = [("get_schema", void_p), ("get_next", void_p), ("get_last_error", void_p),
                ("release", void_p), ("private_data", void_p)]


# ---- analyze.h, findings.h, diff.h ----------------------------------------------------------------------


class AnalyzeOptions(Sized):
    _c_type_ = "kineto_analysis_options"
    _fields_ = [("size", size_t), ("tables", char_p), ("series", bool_), ("definitions", u32),
                ("steps", u32), ("first_step", u64), ("last_step", u64), ("streams", char_p),
                ("rules", char_p), ("threads", u32), ("rank", C.POINTER(i32)), ("annotation", char_p),
                ("instance", u32), ("sequence_operator", char_p), ("sequence_min", u64),
                ("sequence_top", u64), ("execution_trace", char_p), ("memory_timeline", char_p),
                ("step_pattern", char_p)]


class FactTable(C.Structure):
    _c_type_ = "kineto_fact_table"
    _fields_ = [("name", char_p), ("title", char_p), ("column_count", u32), ("row_count", u64),
                ("note", String)]


class FactColumn(C.Structure):
    _c_type_ = "kineto_fact_column"
    _fields_ = [("name", String), ("type", u32)]


class Fact(C.Structure):
    _c_type_ = "kineto_fact"
    _fields_ = [("is_none", bool_), ("type", u32), ("i", i64), ("d", double), ("text", String)]


class FindingRule(C.Structure):
    _c_type_ = "kineto_finding_rule"
    _fields_ = [("id", char_p), ("title", char_p), ("why", char_p), ("remedy", char_p),
                ("needs", char_p), ("only_synthetic", bool_)]


class FindOptions(Sized):
    _c_type_ = "kineto_findings_options"
    _fields_ = [("size", size_t), ("rules", char_p), ("evidence", u32),
                ("analyze", C.POINTER(AnalyzeOptions)), ("facts", C.POINTER(void_p))]


class Finding(C.Structure):
    _c_type_ = "kineto_finding"
    _fields_ = [("rule", u32), ("id", char_p), ("severity", u32), ("has_savings", bool_),
                ("savings_ns", i64), ("baseline_ns", i64), ("savings_pct", double), ("confidence", double),
                ("rank", i32), ("rank_count", u32), ("count", u64), ("subject", String),
                ("sentence", String), ("advice", String), ("evidence_count", u32)]


class FindingEvidence(C.Structure):
    _c_type_ = "kineto_finding_evidence"
    _fields_ = [("row", u32), ("rank", i32), ("start_ns", i64), ("end_ns", i64), ("name", String),
                ("where", String), ("text", String)]


class DiffOptions(Sized):
    _c_type_ = "kineto_diff_options"
    _fields_ = [("size", size_t), ("analyze", C.POINTER(AnalyzeOptions)), ("shapes", bool_),
                ("medians", bool_), ("findings", bool_), ("draws", u32), ("seed", u64),
                ("devices", u32), ("short_names", bool_)]


class DiffVerdict(Sized):
    _c_type_ = "kineto_diff_verdict"
    _fields_ = [("size", size_t), ("outcome", u32), ("value", double), ("limit", double),
                ("sentence", C.c_char * 600), ("decided_by", u32), ("subject", String),
                ("before", double), ("after", double), ("low_pct", double), ("high_pct", double),
                ("shift", double)]


# ---- summary.h ---------------------------------------------------------------------------------------


class FunctionEvent(C.Structure):
    _c_type_ = "kineto_function_event"
    _fields_ = [("row", u32), ("flags", u32), ("track", u32), ("parent", u32), ("first_child", u32),
                ("next_sibling", u32), ("kernel", u32), ("device_type", u32), ("device_index", i64),
                ("name", String), ("overload", String), ("trace_name", String), ("start_ns", i64),
                ("end_ns", i64), ("cpu_time_total_ns", i64), ("self_cpu_time_total_ns", i64),
                ("device_time_total_ns", i64), ("self_device_time_total_ns", i64),
                ("cpu_memory_usage", i64), ("self_cpu_memory_usage", i64),
                ("device_memory_usage", i64), ("self_device_memory_usage", i64)]


class AveragesOptions(Sized):
    _c_type_ = "kineto_averages_options"
    _fields_ = [("size", size_t), ("each_event", bool_), ("group_by_shape", bool_),
                ("group_by_overload", bool_), ("group_by_stack", u32), ("python_functions", bool_),
                ("flops", u32)]


class Average(C.Structure):
    _c_type_ = "kineto_average"
    _fields_ = [("name", String), ("overload", String), ("input_shapes", String), ("stack_depth", u32),
                ("flags", u32), ("device_type", u32), ("first_event", u32), ("count", u64),
                ("cpu_time_total_ns", i64), ("self_cpu_time_total_ns", i64),
                ("device_time_total_ns", i64), ("self_device_time_total_ns", i64),
                ("cpu_memory_usage", i64), ("self_cpu_memory_usage", i64),
                ("device_memory_usage", i64), ("self_device_memory_usage", i64), ("flops", u64)]


class TableOptions(Sized):
    _c_type_ = "kineto_table_options"
    _fields_ = [("size", size_t), ("format", u32), ("time_unit", u32), ("sort_by", char_p),
                ("header", char_p), ("row_limit", i64), ("max_name_width", u32),
                ("max_shapes_width", u32), ("max_source_width", u32),
                ("top_level_events_only", bool_), ("memory", u32)]


class StacksOptions(Sized):
    _c_type_ = "kineto_stacks_options"
    _fields_ = [("size", size_t), ("metric", char_p), ("merge", bool_), ("functions", bool_)]


# ---- schedule.h, profiler.h, profile.h -------------------------------------------------------------------


class Schedule(Sized):
    _c_type_ = "kineto_schedule"
    _fields_ = [("size", size_t), ("skip_first", u64), ("wait", u64), ("warmup", u64), ("active", u64),
                ("repeat", u64), ("skip_first_wait", u64)]


class ExperimentalConfig(C.Structure):
    _c_type_ = "kineto_experimental_config"
    _fields_ = [("profiler_metrics", C.POINTER(char_p)), ("profiler_metric_count", size_t),
                ("profiler_measure_per_kernel", bool_), ("verbose", bool_),
                ("performance_events", C.POINTER(char_p)), ("performance_event_count", size_t),
                ("enable_cuda_sync_events", bool_), ("adjust_profiler_step", bool_),
                ("disable_external_correlation", bool_), ("profile_all_threads", bool_),
                ("capture_overload_names", bool_), ("record_python_gc_info", bool_),
                ("expose_kineto_event_metadata", bool_), ("custom_profiler_config", char_p),
                ("adjust_timestamps", bool_), ("trace_only", bool_)]


class ProfilerConfig(Sized):
    _c_type_ = "kineto_profiler_config"
    _fields_ = [("size", size_t), ("state", u32), ("report_input_shapes", bool_),
                ("profile_memory", bool_), ("with_stack", bool_), ("with_flops", bool_),
                ("with_modules", bool_), ("experimental", ExperimentalConfig), ("trace_id", char_p),
                ("buffer_bytes", size_t), ("retention", u32), ("record_tensor_ids", bool_)]


PROFILE_READY = C.CFUNCTYPE(int_, void_p, void_p, C.POINTER(ErrorInfo))
PROFILE_ACTION = C.CFUNCTYPE(int_, u64, void_p)
PROFILE_MAKE_ID = C.CFUNCTYPE(None, void_p, size_t, void_p)


class ProfileOptions(Sized):
    _c_type_ = "kineto_profile_run_options"
    _fields_ = [("size", size_t), ("config", C.POINTER(ProfilerConfig)), ("activities", u32),
                ("scopes", u32), ("schedule", C.POINTER(Schedule)), ("action", PROFILE_ACTION),
                ("on_trace_ready", PROFILE_READY), ("make_trace_id", PROFILE_MAKE_ID),
                ("user", void_p), ("acc_events", bool_)]


class Tensorboard(Sized):
    _c_type_ = "kineto_tensorboard"
    _fields_ = [("size", size_t), ("directory", char_p), ("worker", char_p), ("gzip", bool_)]


class Event(C.Structure):
    _c_type_ = "kineto_event"
    _fields_ = [("trace", void_p), ("result", void_p), ("row", u32), ("activity", Activity)]


NO_ROW = 0xFFFFFFFF
NO_EVENT = 0xFFFFFFFF
# KINETO_FUNCTION_…
FUNCTION_DEVICE, FUNCTION_ASYNC, FUNCTION_ANNOTATION = 1, 2, 4
FUNCTION_PYTHON, FUNCTION_MEMORY, FUNCTION_LEGACY = 8, 16, 32
# KINETO_OPERATORS_…
OPERATORS_INPUTS, OPERATORS_VALUES, OPERATORS_IDS, OPERATORS_STACK = 1, 2, 4, 8
# KINETO_SELECT_…
SELECT_TIME, SELECT_STEPS, SELECT_RANK, SELECT_PROCESS, SELECT_CLIP = 1, 2, 4, 8, 16
SELECT_LAUNCHES, SELECT_PARENTS = 32, 64
# kineto_top_per
TOP_PER = {"trace": 0, "kind": 1, "track": 2, "name": 3}

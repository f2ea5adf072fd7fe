"""Analyses of a trace by the C library: tables of facts, findings, differences."""
import ctypes as C
from collections.abc import Mapping, Sequence
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

from . import _functions, errors
from . import _structs as S
from ._handles import Handle
from .table import FactTable


class _Options:
    """kineto_analysis_options, and the texts that it points to."""

    def __init__(self, tables: Tuple[str, ...] = (), steps: Any = None, streams: Any = None,
                 definitions: str = "exact", rules: Any = None, threads: int = 0,
                 rank: Optional[int] = None, annotation: Optional[str] = None, instance: int = 0,
                 series: bool = False, execution_trace: Any = None, memory_timeline: Any = None,
                 step_pattern: Optional[str] = None) -> None:
        text, path = _functions.text_of, _functions.path_of
        self.c = S.AnalyzeOptions(
            tables=text(",".join(tables)) if tables else None, series=series, threads=threads,
            annotation=text(annotation), instance=instance, step_pattern=text(step_pattern),
            streams=None if streams is None else text(_joined(streams)),
            rules=None if rules is None else path(rules),
            execution_trace=None if execution_trace is None else path(execution_trace),
            memory_timeline=None if memory_timeline is None else path(memory_timeline))
        if rank is not None:
            self.rank = C.c_int32(rank)
            self.c.rank = C.pointer(self.rank)
        self._set_definitions(definitions)
        self._set_steps(steps)

    def _set_definitions(self, definitions: str) -> None:
        known = {"exact": 0, "hta": 1}
        if definitions not in known:
            raise errors.make_error(-1, "unknown definitions %r; use 'exact' or 'hta'" % definitions)
        self.c.definitions = known[definitions]

    def _set_steps(self, steps: Any) -> None:
        words = {None: 0, "all": 1, "drop_last": 2}
        if steps is None or isinstance(steps, str):
            if steps not in words:
                raise errors.make_error(-1, "unknown steps %r; use 'all', 'drop_last', a number, or "
                                            "(first, last)" % steps)
            self.c.steps = words[steps]
        else:
            self.c.steps = 3
            self.c.first_step, self.c.last_step = step_range(steps)


def step_range(steps: Any) -> Tuple[int, int]:
    """A step, or the first and the last one."""
    try:
        first, last = (steps, steps) if isinstance(steps, int) else steps
        return int(first), int(last)
    except (TypeError, ValueError):
        raise errors.make_error(-1, "steps: %r is neither a number nor (first, last)" % (steps,)) from None


def _joined(values: Any) -> str:
    if isinstance(values, (str, int)):
        return str(values)
    return ",".join(str(v) for v in values)


class Analysis(Handle, Mapping):
    """Tables of facts by name: `analysis["kernels"]`. The C library computes them; docs/reference/analyze.md
    defines every number."""

    def __init__(self, handle: int) -> None:
        lib = _functions.full()
        super().__init__(handle, lib.kineto_analysis_destroy)
        self._tables: Dict[str, FactTable] = {}
        for index in range(lib.kineto_analysis_table_count(handle)):
            table = FactTable(self, index)
            self._tables[table.name] = table

    def __getitem__(self, name: str) -> FactTable:
        if name not in self._tables:
            raise KeyError("no table %r; there are %s" % (name, ", ".join(self._tables)))
        return self._tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    def __repr__(self) -> str:
        return "<ckineto.%s: %s>" % (type(self).__name__, ", ".join(
            "%s (%d)" % (name, len(table)) for name, table in self._tables.items()))

    def _repr_html_(self) -> str:
        from . import notebook

        return "".join(notebook.table_html(table) for table in self._tables.values() if len(table))


def analyze(trace: Any, names: Tuple[str, ...], **options: Any) -> Analysis:
    """kineto_analysis_run."""
    chosen = _Options(names, **options)
    lib = _functions.full()
    return Analysis(_functions.make(lib.kineto_analysis_run, trace._c, C.byref(chosen.c)))


def table_names(series: bool = True) -> List[str]:
    """Names of all tables of `Trace.analyze`, with or without those that list every event."""
    lib = _functions.full()
    return [lib.kineto_fact_table_name(i).decode() for i in range(lib.kineto_fact_table_count())
            if series or not lib.kineto_fact_table_is_series(i)]


# ---- findings ------------------------------------------------------------------------------------------


class Evidence(NamedTuple):
    """A place in the trace where a finding is visible."""

    row: Optional[int]
    rank: int
    start_ns: int
    end_ns: int
    name: str
    where: str
    text: str


class Finding(NamedTuple):
    """A bottleneck, its estimated savings, and advice."""

    id: str
    title: str
    severity: str
    savings_ns: Optional[int]  # of a step; without steps: of the whole trace. None: not known
    savings_pct: Optional[float]
    baseline_ns: int
    confidence: float
    rank: int
    rank_count: int
    count: int  # type: ignore[assignment]
    subject: str
    sentence: str
    advice: str
    why: str
    remedy: str
    evidence: List[Evidence]

    # Names of version 0.1, until 0.3.
    worth_ns = property(lambda self: self.savings_ns)
    worth_pct = property(lambda self: self.savings_pct)
    of_ns = property(lambda self: self.baseline_ns)


class Findings(Handle, Sequence):
    """Findings, the most expensive first."""

    def __init__(self, handle: int) -> None:
        lib = _functions.full()
        super().__init__(handle, lib.kineto_findings_destroy)
        self._list = [_read_finding(lib, handle, i) for i in range(lib.kineto_findings_count(handle))]

    def __len__(self) -> int:
        return len(self._list)

    def __getitem__(self, index: Any) -> Any:
        return self._list[index]

    def gate(self, gate: str) -> Tuple[bool, str]:
        """Does the trace pass "ID", "ID=5%" or "ID=2ms"? The answer, and a sentence if it does not."""
        passed, because = C.c_bool(), C.create_string_buffer(1024)
        _functions.call(_functions.full().kineto_findings_gate, self._c, _functions.text_of(gate),
                        C.byref(passed), because, len(because))
        return passed.value, because.value.decode("utf-8", "replace")

    def __repr__(self) -> str:
        lines = ["%-6s  %s%s" % (f.severity, savings_text(f), f.sentence) for f in self]
        return "\n".join(lines) or "no findings"

    def _repr_html_(self) -> str:
        from . import notebook

        return notebook.findings_html(self)


def savings_text(finding: Finding) -> str:
    """ "12.3 %  ", or nothing where the savings are not known."""
    return "" if finding.savings_pct is None else "%.1f %%  " % finding.savings_pct


def _read_finding(lib: Any, handle: int, index: int) -> Finding:
    found, rule = S.Finding(), S.FindingRule()
    lib.kineto_findings_get(handle, index, C.byref(found))
    lib.kineto_finding_rule_get(found.rule, C.byref(rule))
    evidence = [_read_evidence(lib, handle, index, i) for i in range(found.evidence_count)]
    return Finding(
        found.id.decode(), rule.title.decode(),
        lib.kineto_finding_severity_name(found.severity).decode(),
        found.savings_ns if found.has_savings else None,
        found.savings_pct if found.has_savings else None, found.baseline_ns, found.confidence, found.rank, found.rank_count, found.count,
        found.subject.text(), found.sentence.text(), found.advice.text(), rule.why.decode(),
        rule.remedy.decode(), evidence)


def _read_evidence(lib: Any, handle: int, finding: int, index: int) -> Evidence:
    e = S.FindingEvidence()
    lib.kineto_findings_evidence(handle, finding, index, C.byref(e))
    return Evidence(None if e.row == S.NO_ROW else e.row, e.rank, e.start_ns, e.end_ns, e.name.text(),
                    e.where.text(), e.text.text())


def find(trace: Any, rules: Any = None, evidence: int = 0, want_facts: bool = False,
         **options: Any) -> Tuple[Findings, Optional[Analysis]]:
    """kineto_findings_find; with the facts that the findings are based on, if requested."""
    chosen, facts = _Options(**options), C.c_void_p()
    c = S.FindOptions(rules=None if rules is None else _functions.text_of(_joined(rules)),
                      evidence=evidence, analyze=C.pointer(chosen.c),
                      facts=C.pointer(facts) if want_facts else None)
    found = Findings(_functions.make(_functions.full().kineto_findings_find, trace._c, C.byref(c)))
    return found, Analysis(facts.value) if facts.value else None


# ---- differences ---------------------------------------------------------------------------------------


class Verdict(NamedTuple):
    """The verdict of a gate on a difference."""

    passed: bool  # False also if it could not be checked: see outcome
    outcome: str  # "passed", "failed", or that it could not be checked
    value: float
    limit: float
    sentence: str
    decided_by: str
    subject: str
    before: float
    after: float
    low_pct: float
    high_pct: float


class Diff(Analysis):
    """The differences between two traces, as tables of facts."""

    def gate(self, gate: str, without_noise: bool = False) -> Verdict:
        """Evaluate a gate: "step>3%", "memory>100MB", "kernel:NAME>2ms" … (docs/reference/diff.md)."""
        lib, v = _functions.full(), S.DiffVerdict()
        _functions.call(lib.kineto_diff_gate, self._c, _functions.text_of(gate), without_noise,
                        C.byref(v))
        return Verdict(v.outcome == 0, lib.kineto_diff_outcome_name(v.outcome).decode(), v.value,
                       v.limit, v.sentence.decode("utf-8", "replace"),
                       lib.kineto_diff_decider_name(v.decided_by).decode(), v.subject.text(), v.before,
                       v.after, v.low_pct, v.high_pct)


def diff(before: Any, after: Any, shapes: bool = False, medians: bool = False, findings: bool = False,
         draws: int = 0, seed: int = 0, devices: str = "all", short_names: bool = False,
         **options: Any) -> Diff:
    """Compare two traces, or several runs of each side: lists of traces. Values of runs are the means of their
    steps, so that noise between runs counts: 3 runs a side are needed for intervals."""
    known = {"all": 0, "host": 1, "device": 2}
    if devices not in known:
        raise errors.make_error(-1, "unknown devices %r; use 'all', 'host' or 'device'" % devices)
    from .facts import Facts

    if isinstance(before, Facts) and isinstance(after, Facts):
        return before.diff(after, **options)
    for one in (before, after):
        if any(isinstance(run, Facts) for run in (one if isinstance(one, (list, tuple)) else [one])):
            raise errors.make_error(-1, "diff: facts can only be compared with facts, one run of each side: 'ckineto facts' "
                                        "makes them of traces")
    chosen = _Options(**options)
    c = S.DiffOptions(analyze=C.pointer(chosen.c), shapes=shapes, medians=medians, findings=findings,
                      draws=draws, seed=seed, devices=known[devices], short_names=short_names)
    sides: List[Any] = []
    for side in (before, after):
        runs = [trace._c for trace in (side if isinstance(side, (list, tuple)) else [side])]
        sides += [(C.c_void_p * max(len(runs), 1))(*runs), len(runs)]
    return Diff(_functions.make(_functions.full().kineto_diff_runs, *sides, C.byref(c)))

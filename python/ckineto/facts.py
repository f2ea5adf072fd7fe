"""Facts files, in place of traces: the same tables and findings, as far as these were kept."""
import ctypes as C
import os
from typing import Any, List, Optional

from . import _functions, errors
from ._handles import Handle
from .analysis import Analysis, Diff, Findings
from .traces import Trace

_UNSUPPORTED = errors.UnsupportedError.code


def are_facts(paths: List[Any]) -> bool:
    """Is any of the paths a facts file, or a directory that has such and no traces?"""
    are_at = _functions.full().kineto_facts_are_at
    return any(are_at(_functions.path_of(path)) for path in paths)


class Facts(Trace):
    """The facts of a run, as `ckineto facts` and `ckineto reduce` write them: `analyze`, `findings` and `diff`
    answer as the traces would. They have no activities: what needs these is an UnsupportedError."""

    def __init__(self, handle: int, path: Optional[str] = None) -> None:
        self._lib = _functions.full()
        Handle.__init__(self, handle, self._lib.kineto_facts_destroy)
        self._path, self._copy = path, None

    def analyze(self, *names: str, **options: Any) -> Analysis:
        """Tables of facts by name; without names all that were kept, and those that compare ranks. Options need
        the traces: facts are measured with the defaults."""
        _refuse_options("analyze", options)
        tables = _functions.text_of(",".join(names)) if names else None
        return Analysis(_functions.make(self._lib.kineto_facts_analyze, self._c, tables))

    def findings(self, rules: Any = None, evidence: int = 0, **options: Any) -> Findings:
        """Findings. Rules whose findings were not kept are skipped, and their gates do not pass."""
        _refuse_options("findings", dict(options, **({"evidence": evidence} if evidence else {})))
        chosen = None if rules is None else _functions.text_of(rules if isinstance(rules, str) else ",".join(rules))
        return Findings(_functions.make(self._lib.kineto_facts_find, self._c, chosen))

    def diff(self, other: Trace, **options: Any) -> Diff:
        """What differs across ranks from this run to another one: the table diff_ranks. Gates need the traces."""
        _refuse_options("diff", options)
        if not isinstance(other, Facts):
            raise errors.make_error(-1, "diff: facts can only be compared with facts, not with %r: 'ckineto facts' makes "
                                        "them of traces" % (other,))
        return Diff(_functions.make(self._lib.kineto_facts_diff, self._c, other._c))

    def close(self) -> None:
        Handle.close(self)

    def __repr__(self) -> str:
        return "<ckineto.Facts%s%s>" % (" " + repr(self._path) if self._path else "", " (closed)" if self.closed else "")

    _repr_html_ = None  # type: ignore[assignment]


def _refuse_options(what: str, options: Any) -> None:
    for name in options:
        raise errors.make_error(-1, "%s: %s needs the traces themselves, not their facts" % (what, name))


def _refuse(name: str) -> Any:
    """A member that needs the activities of a trace."""

    def get(self: Facts, *arguments: Any) -> Any:
        raise errors.make_error(_UNSUPPORTED, "facts have no activities: %s needs the traces themselves" % name)

    return get if name.startswith("__") else property(get)


_ANSWERED = {"__init__", "__repr__", "__bool__", "_repr_html_", "path", "close", "analyze", "findings", "diff"}
for _name in vars(Trace):
    if _name not in _ANSWERED and (not _name.startswith("_") or _name in ("__len__", "__iter__", "__getitem__", "__arrow_c_stream__")):
        setattr(Facts, _name, _refuse(_name))


def open_facts(paths: List[Any], memory_bytes: int) -> Facts:
    """Facts files, files of runs, and directories of them, as one run."""
    array = (C.c_char_p * len(paths))(*[_functions.path_of(path) for path in paths])
    handle = _functions.make(_functions.full().kineto_facts_open, array, len(paths), memory_bytes)
    return Facts(handle, os.fsdecode(paths[0]) if len(paths) == 1 else None)

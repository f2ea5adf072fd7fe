"""The report of a trace: one HTML page, which the C library writes."""
import ctypes as C
import os
import tempfile
from typing import Any, Optional

from . import _functions
from . import _structs as S
from .analysis import diff, find


def write_report(trace: Any, path: Any, title: Optional[str] = None, before: Any = None,
                 row_limit: int = 0, activity_limit: int = 0) -> None:
    """kineto_report_save, with the facts and findings that it shows."""
    from .traces import _Progress

    found, facts = find(trace, want_facts=True)
    changed = diff(before, trace) if before is not None else None
    name = title or (os.path.basename(trace.path) if trace.path else None)
    options = S.ReportOptions(title=_functions.text_of(name), facts=facts._c if facts else None,
                              findings=found._c, diff=changed._c if changed else None,
                              row_limit=row_limit, activity_limit=activity_limit)
    with _Progress("writing the report") as bar:
        options.progress = bar.write_callback
        _functions.call(_functions.full().kineto_report_save, trace._c, C.byref(options),
                        _functions.path_of(path))
    for made in (found, facts, changed):
        if made is not None:
            made.close()


class Report:
    """The page of a trace. A notebook shows it in a frame of its own."""

    def __init__(self, trace: Any, *options: Any) -> None:
        with tempfile.TemporaryDirectory(prefix="ckineto-") as folder:
            path = os.path.join(folder, "report.html")
            write_report(trace, path, *options)
            with open(path, encoding="utf-8", errors="replace") as file:
                self.html = file.read()

    def save(self, path: Any) -> None:
        """Write the page."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.html)

    def __repr__(self) -> str:
        return "<ckineto.Report: %d kB of HTML; .save(path) writes it>" % (len(self.html) // 1000)

    def _repr_html_(self) -> str:
        from . import notebook

        return notebook.frame_html(self.html)

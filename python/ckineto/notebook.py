"""HTML for traces, tables and findings in a notebook. All text of a trace is escaped. Only the report has
scripts, and it runs in a sandboxed frame."""
import html
from typing import Any, Dict, Iterable, List, Tuple

_SHOWN_TRACKS = 12
_SHOWN_PER_TRACK = 100
_SHOWN_ROWS = 20
_SHOWN_FINDINGS = 5
_MAX_ROWS_FOR_FINDINGS = 500000
_WIDTH, _LANE, _LABEL = 900, 16, 170
_COLOURS = {"kernel": "#3b78c2", "gpu_memcpy": "#c2853b", "gpu_memset": "#c2853b", "cpu_op": "#5a9e6f",
            "user_annotation": "#8a6fb0", "gpu_user_annotation": "#8a6fb0",
            "python_function": "#b5a642", "runtime": "#8c8c8c", "driver": "#8c8c8c"}


def _escape(value: Any) -> str:
    return html.escape(str(value), quote=True)


def frame_html(page: str, height: int = 700) -> str:
    """A whole page in a frame that cannot reach the notebook around it."""
    return ('<iframe sandbox="allow-scripts allow-downloads" style="width:100%%;height:%dpx;border:1px '
            'solid #ccc" srcdoc="%s"></iframe>' % (height, _escape(page)))


def text_html(text: str) -> str:
    return '<pre style="line-height:1.2">%s</pre>' % _escape(text)


def _grid(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join("<th>%s</th>" % _escape(c) for c in columns)
    body = "".join("<tr>%s</tr>" % "".join("<td>%s</td>" % _escape(v) for v in row) for row in rows)
    return "<table><thead><tr>%s</tr></thead><tbody>%s</tbody></table>" % (head, body)


def table_html(table: Any) -> str:
    """The first rows of a table."""
    from .table import _cell_text

    shown = min(len(table), _SHOWN_ROWS)
    rows = [[_cell_text(value) for value in table.row(i)] for i in range(shown)]
    title = "<b>%s</b>" % _escape(table.title) if table.title else ""
    rest = "" if shown == len(table) else "%d of %d rows. " % (shown, len(table))
    return "<div>%s%s<small>%s%s</small></div>" % (title, _grid(table.columns, rows), rest,
                                                   _escape(table.note))


def findings_html(findings: Any, limit: int = _SHOWN_FINDINGS) -> str:
    """The most expensive findings."""
    from .analysis import savings_text

    if not len(findings):
        return "<p>No findings.</p>"
    items = "".join("<li><b>%s%s</b>: %s <i>%s</i></li>" % (
        _escape(savings_text(f)), _escape(f.title), _escape(f.sentence), _escape(f.advice))
        for f in findings[:limit])
    more = len(findings) - limit
    return "<ol>%s</ol>%s" % (items, "<small>%d more: trace.findings()</small>" % more
                              if more > 0 else "")


def trace_html(trace: Any) -> str:
    """A headline, findings, and the longest activities of the busiest tracks."""
    if trace.closed:
        return "<div>%s</div>" % _escape(repr(trace))
    parts = [_headline(trace)]
    for part in (_findings_part, _timeline):
        try:
            parts.append(part(trace))
        except Exception as error:  # a picture that cannot be made must not hide the rest
            parts.append("<small>%s</small>" % _escape(error))
    return "<div>%s</div>" % "".join(parts)


def _findings_part(trace: Any) -> str:
    if len(trace) > _MAX_ROWS_FOR_FINDINGS:
        return "<p><small>Long trace: trace.findings() says what is slow.</small></p>"
    with trace.findings() as findings:
        return findings_html(findings)


def _headline(trace: Any) -> str:
    processes = trace.processes
    devices = sum(1 for process in processes if process.is_device)
    words = ["%d activities" % len(trace), "%.3f s" % (trace.duration_ns / 1e9),
             "%d processes" % (len(processes) - devices), "%d devices" % devices,
             "%d lost" % trace.lost if trace.lost else "nothing lost"]
    return "<p><b>%s</b> %s</p>" % (_escape(trace.path or "Trace"), _escape(" · ".join(words)))


def _timeline(trace: Any) -> str:
    tracks = sorted((t for t in trace.tracks if t.type in ("thread", "stream") and t.count),
                    key=lambda t: -t.count)[:_SHOWN_TRACKS]
    if not tracks or trace.duration_ns <= 0:
        return ""
    # A selection may number processes anew: tracks are matched by their properties.
    by_track: Dict[Any, List[Any]] = {}
    drawn, processes = [], trace.processes
    with trace.select(top=_SHOWN_PER_TRACK, top_per="track") as chosen:
        of_chosen = chosen.processes
        for activity in chosen:
            by_track.setdefault(_track_key(of_chosen, activity.track), []).append(activity)
        for line, track in enumerate(sorted(tracks, key=lambda t: (t.process, t.index))):
            found = by_track.get(_track_key(processes, track), [])
            drawn.append(_draw_track(trace, processes, track, found, line))
    return ('<svg xmlns="http://www.w3.org/2000/svg" width="100%%" viewBox="0 0 %d %d" '
            'font-family="sans-serif" font-size="9">%s</svg><small>The longest activities of the '
            'busiest tracks; trace.report() shows all.</small>' % (
                _WIDTH + _LABEL, len(tracks) * (_LANE + 2), "".join(drawn)))


def _track_key(processes: Any, track: Any) -> Tuple[Any, ...]:
    process = processes[track.process]
    return process.pid, process.is_device, process.rank, process.host, track.type, track.id, track.name


def _draw_track(trace: Any, processes: Any, track: Any, activities: Any, line: int) -> str:
    start, end = trace.window
    scale, top = _WIDTH / max(end - start, 1), line * (_LANE + 2)
    name = track.name or "%s %d" % (track.type, track.id)
    process = processes[track.process].name if track.process < len(processes) else ""
    label = ("%s: %s" % (process, name) if process else name)[:34]
    parts = ['<text x="0" y="%d">%s</text>' % (top + _LANE - 5, _escape(label))]
    for activity in sorted(activities, key=lambda a: -a.duration_ns):
        left = _LABEL + max(activity.start_ns - start, 0) * scale
        width = max(activity.duration_ns * scale, 0.5)
        parts.append('<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s" stroke="#fff" '
                     'stroke-width="0.3"><title>%s</title></rect>' % (
                         left, top, min(width, _LABEL + _WIDTH - left), _LANE,
                         _COLOURS.get(activity.kind, "#a0a0a0"),
                         _escape("%s, %.3f us" % (activity.name[:200], activity.duration_ns / 1e3))))
    return "".join(parts)

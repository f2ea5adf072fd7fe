"""Sessions of ckineto for tests of Python functions: record, save, read the rows with json.

CKINETO_LIBDIR names the folder of the libraries. The library that records Python functions is the one in
CKINETO_STACKS_DIR; without that it is built into a folder that goes when the tests end.
"""
import atexit
import ctypes
import json
import os
import shutil
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "python"))

from ckineto_attach import build_stacks, library, stacks  # noqa: E402
from ckineto_attach.names import stacks_name  # noqa: E402

SKIPPED = 77
PYTHON_FUNCTION = 1 << 10
CPU_OP = 1 << 0
USER_ANNOTATION = 1 << 1


class _Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("kinds", ctypes.c_uint64),
                ("buffer_bytes", ctypes.c_size_t), ("retention", ctypes.c_uint32),
                ("threads", ctypes.c_uint32), ("custom_config", ctypes.c_char_p),
                ("operators", ctypes.c_uint32), ("scopes", ctypes.c_uint32)]


class _Site(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint32), ("kind", ctypes.c_uint8), ("scope", ctypes.c_uint8),
                ("arg_count", ctypes.c_uint8), ("flags", ctypes.c_uint8), ("name", ctypes.c_char_p),
                ("args", ctypes.c_void_p)]


def _skip(why):
    sys.stdout.write("skipped: %s\n" % why)
    sys.exit(SKIPPED)


def prepare():
    """Libraries that tests need are there from now on, or the tests are skipped."""
    if not library.directory():
        _skip("CKINETO_LIBDIR does not name the folder of libckineto-rt.so.0")
    name = stacks_name(sys.version_info[:2], "t" in sys.abiflags) or ""
    if not os.path.exists(os.path.join(os.environ.get("CKINETO_STACKS_DIR", ""), name)):
        folder = tempfile.mkdtemp(prefix="ckineto-stacks-")
        atexit.register(shutil.rmtree, folder, True)
        os.environ["CKINETO_STACKS_DIR"] = folder
        try:
            build_stacks.build_library(stacks._check_python(), folder)
        except (build_stacks.BuildError, stacks.StacksError) as error:
            _skip(error)
    library.load_full()


class Session:
    """A session of this process. As a context manager: `rows` and the like are there afterwards."""

    open_sessions = []

    def __init__(self, kinds=PYTHON_FUNCTION | CPU_OP | USER_ANNOTATION, megabytes=8):
        full = library.load_full()
        options = _Options(ctypes.sizeof(_Options), kinds, megabytes << 20)
        self.handle, self.document, self.full = ctypes.c_void_p(), None, full
        if (full.kineto_session_create(ctypes.byref(options), ctypes.byref(self.handle), None) != 0 or
                full.kineto_session_start(self.handle, None) != 0):
            raise RuntimeError("the session did not start")
        self.open_sessions.append(self)

    def end(self):
        """End it and read its trace."""
        trace = ctypes.c_void_p()
        self.open_sessions.remove(self)
        if self.full.kineto_session_stop(self.handle, ctypes.byref(trace), None) != 0:
            raise RuntimeError("kineto_session_stop failed")
        self.full.kineto_session_destroy(self.handle)
        folder = tempfile.mkdtemp(prefix="ckineto-trace-")
        try:
            path = os.path.join(folder, "trace.json")
            if self.full.kineto_trace_save(trace, path.encode(), None) != 0:
                raise RuntimeError("kineto_trace_save failed")
            with open(path, encoding="utf-8") as file:
                self.document = json.load(file)
        finally:
            self.full.kineto_trace_release(trace)
            shutil.rmtree(folder, True)
        return self

    def discard(self):
        """End it without a trace."""
        self.open_sessions.remove(self)
        self.full.kineto_session_destroy(self.handle)

    @classmethod
    def discard_all(cls):
        """End those that a test that failed has left open."""
        while cls.open_sessions:
            cls.open_sessions[0].discard()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        if self.document is None:
            self.end()

    def events(self, category):
        """Events of a category, outer ones before inner ones, with start and end in nanoseconds."""
        found = [e for e in self.document["traceEvents"]
                 if e.get("cat") == category and e.get("ph") == "X"]
        for event in found:
            event["start"] = round(event["ts"] * 1000)
            event["end"] = event["start"] + round(event["dur"] * 1000)
        return sorted(found, key=lambda e: (e["pid"], e["tid"], e["start"], -e["end"]))

    def rows(self, tid=None):
        """Rows of Python functions, of one thread or of all."""
        return [e for e in self.events("python_function") if tid in (None, e["tid"])]

    def names(self, tid=None):
        """Their names, without file and line."""
        return [short(e["name"]) for e in self.rows(tid)]

    def ledger(self, reason):
        """Lines of the ledger about Python functions with this reason."""
        return [line for line in self.document["ckineto"]["ledger"]
                if line["source"] == "Python functions" and line["reason"] == reason]


def short(name):
    """`f` of "file.py(3): f"."""
    return name.rsplit("): ", 1)[-1]


class Range:
    """A range of another kind on the calling thread, as other recorders of ckineto open them."""

    def __init__(self, name, kind=1):
        rt = library.load_rt()
        rt.kineto_record_begin.restype = ctypes.c_uint32
        self.site = _Site(0, kind, 0, 0, 0, name.encode(), None)
        _SITES.append(self.site)
        self.token = rt.kineto_record_begin(ctypes.byref(self.site))

    def end(self):
        library.load_rt().kineto_record_end(ctypes.c_uint32(self.token))


_SITES = []  # a site lives as long as the process


def tree(rows):
    """Rows as [name, [children]], by "Python parent id"; siblings in the order of their ids."""
    nodes, roots = {}, []
    for row in sorted(rows, key=lambda e: e["args"]["Python id"]):
        node = [short(row["name"]), []]
        nodes[row["args"]["Python id"]] = node
        parent = nodes.get(row["args"]["Python parent id"])
        (roots if parent is None else parent[1]).append(node)
    return roots


def tree_by_time(rows):
    """The same by time: a row is inside of the innermost one that contains it."""
    roots, open_rows = [], []
    for row in sorted(rows, key=lambda e: (e["start"], -e["end"], e["args"]["Python id"])):
        node = [short(row["name"]), []]
        while open_rows and open_rows[-1][0] < row["end"]:
            open_rows.pop()
        (open_rows[-1][1][1] if open_rows else roots).append(node)
        open_rows.append((row["end"], node))
    return roots


def find(roots, name):
    """The first node of this name, in the order of a walk."""
    for node in roots:
        if node[0] == name:
            return node
        below = find(node[1], name)
        if below is not None:
            return below
    return None

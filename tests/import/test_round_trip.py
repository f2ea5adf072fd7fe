"""A trace that is written as .pftrace and read back is the trace that it was: activities, times, names, rows, arguments,
counters, flows with both ends, header, ledger. Not kept, as docs/reference/other-tools.md states: flows with one end, ids of
flows other than launches, ids of 0, the spelling `external id`, the spelling of numbers.

usage: test_round_trip.py [FILE…]   (default: the files of PyTorch in tests/data)"""
import collections, glob, gzip, json, os, subprocess, sys, tempfile, unittest

COMMAND = os.environ["CKINETO"]
HERE = os.path.dirname(os.path.abspath(__file__))
DEFAULT = sorted(p for p in glob.glob(os.path.join(HERE, "..", "data", "torch-*", "*.json.gz")) if ".et." not in p)
FILES = [a for a in sys.argv[1:] if not a.startswith("-")] or DEFAULT
ARROWS = "stf"


def run(*arguments):
    done = subprocess.run([COMMAND, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, (arguments, done.stderr)
    return done.stdout


def load(path):
    with open(path, "rb") as f:
        data = f.read()
    return json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)


def known_args(args):
    """As both files spell them: ids of 0 are not written, and the old spelling of an id is the new one."""
    if args is None:
        return None
    renamed = {("External id" if key == "external id" else key): value for key, value in args.items()}
    return {key: value for key, value in renamed.items() if key not in ("External id", "correlation") or value}


def describe(event):
    return json.dumps([event.get("pid"), event.get("tid"), event.get("name"), event.get("cat"), event["ph"], event.get("ts"),
                       event.get("dur"), known_args(event.get("args")), event.get("id") if event["ph"] in "be" else None],
                      sort_keys=True)


def events(trace, phases):
    return collections.Counter(describe(e) for e in trace["traceEvents"] if e["ph"] in phases)


def whole_arrows(trace):
    """(category, start, end) of arrows with both ends."""
    starts, ends = collections.defaultdict(list), collections.defaultdict(list)
    for e in trace["traceEvents"]:
        if e["ph"] in ARROWS:
            to = starts if e["ph"] == "s" else ends
            to[e.get("cat"), e["id"]].append((str(e["pid"]), str(e["tid"]), e["ts"]))
    return collections.Counter((cat, tuple(sorted(starts[cat, number])), end) for (cat, number), all_of in ends.items()
                               for end in all_of if (cat, number) in starts)


class RoundTrip(unittest.TestCase):
    def check(self, path):
        with tempfile.TemporaryDirectory() as folder:
            first, middle, last = (os.path.join(folder, n) for n in ("a.json", "a.pftrace", "b.json"))
            run("convert", path, "-o", first, "-o", middle)
            run("convert", middle, "-o", last)
            a, b = load(first), load(last)
            self.assertEqual(events(a, "XiCbenBE"), events(b, "XiCbenBE"))
            self.assertEqual(events(a, "M"), events(b, "M"))
            self.assertEqual(whole_arrows(a), whole_arrows(b))
            for key in set(a) | set(b):
                if key not in ("traceEvents", "traceName"):
                    self.assertEqual(a.get(key), b.get(key), key)

    def test_files(self):
        for path in FILES:
            with self.subTest(path=path):
                self.check(path)

    def test_counters_and_devices(self):
        """What files of PyTorch do not have: counters of several series, texts that look like empty lists, rows by text."""
        made = {"traceEvents": [
            {"ph": "C", "name": "memory", "pid": 1, "tid": 0, "ts": 1.5, "args": {"used [bytes]": 5, "free": 2.25}},
            {"ph": "C", "name": "memory", "pid": 1, "tid": 0, "ts": 2.5, "args": {"used [bytes]": 6, "free": 1.5}},
            {"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 7, "ts": 1, "dur": 9,
             "args": {"text": "[]", "empty": [], "none": None, "word": "null", "object": {}, "deep": [[], {"k": [1, "{}"]}]}},
            {"ph": "b", "cat": "x", "name": "async", "id": 3, "pid": 1, "tid": 7, "ts": 2, "args": {"n": 1}},
            {"ph": "e", "cat": "x", "name": "async", "id": 3, "pid": 1, "tid": 7, "ts": 20},
            {"ph": "X", "cat": "cuda", "name": "gemm", "pid": "GPU0", "tid": "stream 4", "ts": 5, "dur": 3, "args": {}},
            {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 5, "dur": 3, "args": {"device": 0, "stream": 7}},
            {"ph": "X", "cat": "kernel", "name": "overlapping", "pid": 0, "tid": 7, "ts": 6, "dur": 4, "args": {"device": 0}},
            {"ph": "s", "cat": "mine", "name": "arrow", "id": 9, "pid": 1, "tid": 7, "ts": 1},
            {"ph": "f", "cat": "mine", "name": "arrow", "id": 9, "pid": 0, "tid": 7, "ts": 5, "bp": "e"}]}
        with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
            json.dump(made, f)
            f.flush()
            with tempfile.TemporaryDirectory() as folder:
                first, middle, last = (os.path.join(folder, n) for n in ("a.json", "a.pftrace", "b.json"))
                run("convert", f.name, "-o", first, "-o", middle)
                run("convert", middle, "-o", last)
                a, b = load(first), load(last)
                self.assertEqual(events(a, "XiCbenBE"), events(b, "XiCbenBE"))
                self.assertEqual(events(a, "M"), events(b, "M"))

    def test_analyses_agree(self):
        """Findings and tables of the file and of its .pftrace are the same, and diff finds no difference."""
        path = FILES[-1]
        with tempfile.TemporaryDirectory() as folder:
            middle = os.path.join(folder, "a.pftrace.gz")
            run("convert", path, "-o", middle)
            of_json, of_perfetto = (run("analyze", "--all", name).replace(name, "") for name in (path, middle))
            self.assertEqual(of_json, of_perfetto)
            self.assertIn("no difference", run("diff", path, middle))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

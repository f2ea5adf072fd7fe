"""Files that perf and uftrace write here, read as traces: the same functions as their own reports, the same counts."""

import collections
import gzip
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

COMMAND, TARGET, FRAMES, SOURCE = (os.environ[n] for n in ("CKINETO", "IMPORT_TARGET", "IMPORT_FRAMES", "IMPORT_SOURCE"))
STATES = ("running", "waiting for a CPU", "blocked")
folder = tempfile.TemporaryDirectory()
# perf keeps copies of programs below the home directory.
ENVIRONMENT = {**os.environ, "HOME": folder.name}


def run(*command, status=0, **options):
    r = subprocess.run([str(c) for c in command], capture_output=True, text=True, errors="replace", timeout=120,
                       cwd=folder.name, env=ENVIRONMENT, **options)
    assert r.returncode == status, (command, r.returncode, r.stdout[-1000:], r.stderr[-2000:])
    return r.stdout if status == 0 else r.stderr


def path(name):
    return os.path.join(folder.name, name)


shutil.copy(TARGET, path("moved"))
# perf waits for a second before it ends: all at once. Name → options, program.
RECORDS = {"flat.data": ((), TARGET),
           "dwarf.data": (("--call-graph", "dwarf"), TARGET),
           "chains.data": (("-g",), FRAMES),
           "compressed.data": (("-z", "--call-graph", "dwarf"), TARGET),
           "states.data": (("--switch-events",), TARGET),
           "threads.data": (("--threads", "--call-graph", "dwarf"), TARGET),
           "threads-z.data": (("--threads", "-z"), TARGET),
           "moved.data": (("--call-graph", "dwarf"), path("moved")),
           "-": (("-g",), FRAMES),
           "faults.data": (("-e", "page-faults", "-c", "1"), TARGET)}


def record_all():
    """The names of files that perf could record."""
    running = {}
    for name, (options, program) in RECORDS.items() if shutil.which("perf") else ():
        event = ("-e", "cpu-clock", "-F", "1999") if "-e" not in options else ()
        with open(path("pipe.data"), "wb") if name == "-" else open(os.devnull, "wb") as out:
            running[name] = subprocess.Popen(["perf", "record", "-q", *event, *options, "-o", name, "--", program],
                                             stdout=out, stderr=subprocess.DEVNULL, cwd=folder.name, env=ENVIRONMENT)
    return {name for name, process in running.items() if process.wait(timeout=120) == 0}


RECORDED = record_all()


def record(name):
    if name not in RECORDED:
        raise unittest.SkipTest(f"perf cannot record {name} here")
    return path(name)


def events_of(trace):
    run(COMMAND, "convert", "-q", trace, "-o", path("out.json"))
    with open(path("out.json")) as f:
        return json.load(f)["traceEvents"]


def shares(sums):
    total = sum(sums.values())
    return {name: count / total for name, count in sums.items()}


def perf_shares(data):
    """Shares of periods by function, as perf report says."""
    sums = collections.Counter()
    report = run("perf", "report", "-i", data, "--stdio", "--no-children", "-g", "none", "--no-inline", "--fields",
                 "period,dso,sym", "--sort", "dso,sym", "-t", "|")
    for line in report.splitlines():
        fields = [f.strip() for f in line.split("|")]
        if line.startswith("#") or len(fields) != 3:
            continue
        level, name = fields[2][:3], fields[2][4:]
        sums["[kernel]" if level == "[k]" else name.split("@")[0]] += int(fields[0])
    return shares(sums)


def our_shares(trace):
    info = json.loads(run(COMMAND, "info", "--json", trace))
    return shares({f["name"]: f["self_cpu_ns"] for f in info["sampled_functions"]})


class Perf(unittest.TestCase):
    def check_same_functions(self, data, trace=None):
        theirs, ours = perf_shares(data), our_shares(trace or data)
        for name, share in theirs.items():
            if share >= 0.03 and not name.startswith("0x"):
                self.assertAlmostEqual(ours.get(name, 0), share, delta=0.02, msg=(name, theirs, ours))
        self.assertGreater(ours["spend_most"], 0.5)

    def samples_of(self, data):
        """How many samples perf itself sees."""
        return run("perf", "script", "-i", data, "-F", "time,event").count("cpu-clock")

    def check_all_delivered(self, data):
        info = run(COMMAND, "info", data)
        delivered = re.search(r"perf: delivered: ([\d,]+)", info)
        self.assertEqual(int(delivered[1].replace(",", "")), self.samples_of(data), info)
        self.assertIn("sound", run(COMMAND, "verify", data))

    def test_flat_samples(self):
        data = record("flat.data")
        self.check_same_functions(data)
        self.check_all_delivered(data)

    def test_copied_stacks_are_unwound(self):
        data = record("dwarf.data")
        self.check_same_functions(data)
        self.check_all_delivered(data)
        self.check_stacks(data)

    def test_chains_by_frame_pointers(self):
        data = record("chains.data")
        self.check_same_functions(data)
        self.check_all_delivered(data)
        self.check_stacks(data, ("main", "run_worker"))  # leaves have no frame pointer: their callers are skipped

    def check_stacks(self, data, callers=("run_round", "main", "run_worker")):
        events = [e for e in events_of(data) if e.get("cat") == "cpu_sample"]
        inner = [e for e in events if e["name"] == "spend_most"]
        for name in callers:
            self.assertIn(name, {e["name"] for e in events})
        enclosed = sum(any(o["name"] in ("run_worker", "main") and o["tid"] == e["tid"] and o["ts"] <= e["ts"] and
                           e["ts"] + e["dur"] <= o["ts"] + o["dur"] + 0.002 for o in events) for e in inner)
        self.assertGreater(enclosed, 0.9 * len(inner))

    def test_a_program_that_is_gone(self):
        data = record("moved.data")
        if not os.path.isdir(path(".debug/.build-id")):
            self.skipTest("this perf keeps no copies")
        os.unlink(path("moved"))
        for _ in range(2):  # first there is no file, then another one
            self.assertGreater(our_shares(data)["spend_most"], 0.5)
            self.check_stacks(data)
            shutil.copy("/bin/true", path("moved"))

    def test_compressed_records(self):
        data = record("compressed.data")
        self.check_same_functions(data)
        self.check_all_delivered(data)

    def test_directories_of_threads(self):
        for name in ("threads.data", "threads-z.data"):
            with self.subTest(name):
                data = record(name)
                self.check_same_functions(data)
                self.check_all_delivered(data)
                self.assertIn("name the directory", run(COMMAND, "info", os.path.join(data, "data"), status=2))

    def test_pipe_form_and_gzip(self):
        record("-")
        self.assertGreater(our_shares(path("pipe.data"))["spend_most"], 0.5)
        with open(path("pipe.data"), "rb") as f, gzip.open(path("pipe.data.gz"), "wb") as to:
            to.write(f.read())
        self.assertEqual(our_shares(path("pipe.data.gz")), our_shares(path("pipe.data")))

    def test_states_of_threads(self):
        data = record("states.data")
        per_thread = collections.defaultdict(list)
        for e in events_of(data):
            if e.get("cat") == "thread_state":
                per_thread[e["tid"]].append(e)
        self.assertEqual(len(per_thread), 2)
        blocked = 0
        for events in per_thread.values():
            events.sort(key=lambda e: e["ts"])
            life = events[-1]["ts"] + events[-1]["dur"] - events[0]["ts"]
            self.assertAlmostEqual(sum(e["dur"] for e in events) / life, 1, delta=0.01)
            self.assertLessEqual({e["name"] for e in events}, set(STATES))
            blocked += sum(e["name"] == "blocked" for e in events)
        self.assertGreaterEqual(blocked, 20)  # it sleeps 30 times

    def test_text_of_perf_script(self):
        data = record("chains.data")
        for name, options in (("default.txt", ()), ("pids.txt", ("-F", "comm,pid,tid,time,period,event,ip,sym,dso")),
                              ("few.txt", ("-F", "comm,tid,time,ip,sym"))):
            with open(path(name), "w") as f:
                f.write(run("perf", "script", "-i", data, *options))
            ours, whole = our_shares(path(name)), our_shares(data)
            for function in ("spend_most", "spend_some"):
                self.assertAlmostEqual(ours[function], whole[function], delta=0.02, msg=name)
            self.assertIn("sound", run(COMMAND, "verify", path(name)))

    def test_truncated_files(self):
        data = record("dwarf.data")
        with open(data, "rb") as f:
            whole = f.read()
        for size in list(range(0, 300, 23)) + list(range(300, len(whole), len(whole) // 20)):
            with open(path("cut.data"), "wb") as f:
                f.write(whole[:size])
            r = subprocess.run([COMMAND, "info", path("cut.data")], capture_output=True, text=True, timeout=60)
            self.assertIn(r.returncode, (0, 2), (size, r.stderr))
            self.assertTrue(r.returncode == 0 or "cut.data: " in r.stderr, (size, r.stderr))

    def test_an_event_that_is_no_time(self):
        record("faults.data")
        self.assertRegex(run(COMMAND, "info", path("faults.data"), status=2), r"faults\.data: .*measures CPU time.*cpu-clock")


UFTRACE = {"plain": (("-pg",), ()), "arguments": (("-pg",), ("-A", ".", "-R", ".")),
           "hooks": (("-finstrument-functions",), ("--no-libcall",)),
           "patched": (("-fpatchable-function-entry=5",), ("-P", "."))}


@unittest.skipUnless(shutil.which("uftrace"), "uftrace is not installed")
class Uftrace(unittest.TestCase):
    """The same calls, with the same times, as uftrace itself prints."""

    def record(self, name):
        """A directory, of a program that was built and recorded as `name` says."""
        flags, options = UFTRACE[name]
        if not os.path.exists(path(name)):
            run(os.environ.get("CC", "cc"), *flags, "-O0", "-o", path(name + ".program"), SOURCE, "-lpthread")
            subprocess.run(["uftrace", "record", *options, "-d", path(name), path(name + ".program"), "10"],
                           capture_output=True, timeout=60, check=False)
        if not os.path.exists(path(name + "/info")):
            self.skipTest(f"uftrace cannot record {name} here")
        return path(name)

    def calls_of(self, trace):
        """(thread, function, start, duration in ns) → how many."""
        return collections.Counter((e["tid"], e["name"], round(e["ts"] * 1000), round(e["dur"] * 1000))
                                   for e in events_of(trace) if e.get("ph") == "X" and e.get("cat") == "user_annotation")

    def their_calls(self, directory):
        """The same of begins and ends that uftrace writes."""
        open_calls, calls = collections.defaultdict(list), collections.Counter()
        chrome = json.loads(run("uftrace", "dump", "-d", directory, "--chrome"))
        for e in chrome["traceEvents"]:
            tid = e.get("tid", e["pid"])
            if e["ph"] == "B" and not e["name"].startswith("linux:"):
                open_calls[tid].append(e["ts"])
            elif e["ph"] == "E" and not e["name"].startswith("linux:"):
                start = open_calls[tid].pop()
                calls[tid, e["name"], round(start * 1000), round((e["ts"] - start) * 1000)] += 1
        return calls

    def test_directories(self):
        for name in UFTRACE:
            with self.subTest(name):
                directory = self.record(name)
                ours = self.calls_of(directory)
                self.assertEqual(ours, self.their_calls(directory))
                report = run("uftrace", "report", "-d", directory, "-f", "call")
                counts = {m[2]: int(m[1]) for m in re.finditer(r"^ *(\d+)  (\S+)$", report, re.M)}
                names = collections.Counter(call[1] for call in ours.elements())
                self.assertEqual({n: c for n, c in counts.items() if not n.startswith("linux:")}, names)
                self.assertEqual(names["run_round"], 15)
                self.assertIn("sound", run(COMMAND, "verify", directory))

    def test_dump_says_the_same(self):
        directory = self.record("plain")
        with open(path("dump.txt"), "w") as f:
            f.write(run("uftrace", "dump", "-d", directory))
        self.assertEqual(self.calls_of(path("dump.txt")), self.calls_of(directory))

    def test_states_and_names(self):
        directory = self.record("plain")
        events = events_of(directory)
        if "sched-out" not in run("uftrace", "dump", "-d", directory):
            self.skipTest("uftrace cannot record the scheduler here")
        blocked = sum(e.get("name") == "blocked" for e in events)
        self.assertGreaterEqual(blocked, 5)  # it sleeps 5 times
        self.assertIn("plain.program", run(COMMAND, "info", directory))

    def test_chrome(self):
        directory = self.record("plain")
        with open(path("chrome.json"), "w") as f:
            f.write(run("uftrace", "dump", "-d", directory, "--chrome"))
        names = collections.Counter(e["name"] for e in events_of(path("chrome.json")) if e.get("ph") == "X")
        self.assertEqual(names["spend_most"], 15)

    def test_a_part_and_the_folder_above_are_named(self):
        directory = self.record("plain")
        self.assertIn("name its directory", run(COMMAND, "info", os.path.join(directory, "info"), status=2))
        os.makedirs(path("above"), exist_ok=True)
        shutil.copytree(directory, path("above/uftrace.data"), dirs_exist_ok=True)
        self.assertIn("uftrace.data, which ckineto reads", run(COMMAND, "info", path("above"), status=2))


class Foreign(unittest.TestCase):
    """Files of other tools are named, with the command that converts them."""

    FILES = (("x.db", b"SQLite format 3\0", "SQLite"),
             ("x.nsys-rep", b"\1\2\3", "nsys export"),
             ("x.qdrep", b"\1\2\3", "nsys export"),
             ("x.tracy", b"tr\xfdP\0", "tracy-csvexport"),
             ("x.jfr", b"FLR\0\0\2", "jfr print"),
             ("x.pb.gz", gzip.compress(b"\n\x04\x08\x01\x10\x02"), "pprof"),
             ("x.pftrace", b"\n\x50\x08", "neither a Perfetto trace"),
             ("x.data", b"2ELIFREP", "perf script"),
             ("heaptrack", b"v 10500 3\nX /usr/bin/x\n", "heaptrack_print"),
             ("x.csv", b'"Kind","Agent_Id","Queue_Id"\n', "rocpd"),
             ("x.xz", b"\xfd7zXZ\0", "xz -d"),
             ("x.out", b"# callgrind format\n", "callgrind_annotate"),
             ("x", b"\x7fELF\2\1\1", "ckineto record"))

    def test_each_is_named(self):
        for name, content, word in self.FILES:
            with open(path(name), "wb") as f:
                f.write(content)
            error = run(COMMAND, "info", path(name), status=2)
            self.assertIn(word, error)
            self.assertIn(name + ": ", error)

    def test_vtune_directory(self):
        os.makedirs(path("r000hs"), exist_ok=True)
        with open(path("r000hs/r000hs.vtune"), "w") as f:
            f.write("x")
        self.assertIn("vtune -report", run(COMMAND, "info", path("r000hs"), status=2))


if __name__ == "__main__":
    unittest.main()

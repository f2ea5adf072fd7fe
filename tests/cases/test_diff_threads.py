"""ckineto diff of programs without PyTorch: the first row names the function, lock or call that takes longer, times of
threads count once, exchanged traces have mirrored rows, and samples of the same program rarely differ.

usage: test_diff_threads.py CKINETO FOLDER-OF-GIVEN-CASES
"""
import json
import random

from harness import expect, failures, finish, run, write_trace

PERIOD = 10000  # us of CPU time of a sample
BASE = {"compute": 60, "parse": 30, "memcpy": 10}  # samples


class Program:
    """A thread that computes and calls, and others that wait for its end."""

    def __init__(self, name, pid, waiting=3):
        self.name, self.pid, self.waiting = name, pid, waiting
        self.events, self.now, self.samples = [], 1000, []

    def row(self, tid, cat, name, start, dur, **args):
        self.events.append({"ph": "X", "pid": self.pid, "tid": tid, "cat": cat, "name": name, "ts": start, "dur": dur,
                            "args": args})

    def run(self, function, samples):
        start = self.now
        self.now += samples * PERIOD
        self.row(1, "thread_state", "running", start, self.now - start, cpu=0)
        for i in range(samples):
            self.samples.append((function, start + i * PERIOD))

    def call(self, function, length, **args):
        self.row(3, "blocking_call", function, self.now, length, **args)
        self.row(1, "thread_state", "blocked", self.now, length)
        self.now += length

    def range(self, name, start):
        self.row(3, "user_annotation", name, start, self.now - start)

    def write(self):
        main = self.pid
        for function, start in self.samples:
            self.row(2, "cpu_sample", "main", start, PERIOD, samples=1, cpu_ns=PERIOD * 1000, module=f"/b/{self.name}")
            self.row(2, "cpu_sample", function, start, PERIOD, samples=1, cpu_ns=PERIOD * 1000, module=f"/b/{self.name}")
        names = {1: f"thread {main} ({self.name}): state", 2: f"thread {main} ({self.name}): samples"}
        for i in range(self.waiting):
            tid = main + 1 + i
            self.row(10 + i, "thread_state", "blocked", 1000, self.now - 1500)
            self.row(tid, "blocking_call", "pthread_cond_wait", 1000, self.now - 1500, address=4096 + self.pid, error=0)
            names[10 + i] = f"thread {tid} (worker): state"
        for event in self.events:
            if event["tid"] == 3:
                event["tid"] = main
        meta = [{"ph": "M", "pid": self.pid, "tid": tid, "name": "thread_name", "args": {"name": name}}
                for tid, name in names.items()]
        return write_trace(f"{self.name}-{self.pid}.json",
                           {"traceEvents": meta + self.events, "ckineto_waits_threshold_us": "20",
                            f"ckineto_locks_{self.pid}": {str(8192 + self.pid): "queue_lock"}})


def program(name, pid, functions=None, sleeps=(), locks=(50000,) * 6, files=(2000,) * 20, ranges=True):
    p = Program(name, pid)
    for function, samples in {**BASE, **(functions or {})}.items():
        start = p.now
        p.run(function, samples)
        if ranges:
            p.range(f"phase {function}", start)
    for length in sleeps:
        p.call("nanosleep", length, error=0)
    for length in locks:
        p.call("pthread_mutex_lock", length, address=8192 + pid, holder=pid + 1, error=0)
    for length in files:
        p.call("fsync", length, file=f"/data/log.{pid}", fd=3, error=0)
    return p.write()


def tables(before, after, *options):
    found = json.loads(run("diff", "--no-findings", "--json", *options, before, after))["facts"]["tables"]
    return {name: [dict(zip(t["columns"], r)) for r in t["rows"]] for name, t in found.items()}


BEFORE = program("fast", 4000)


def check_the_first_row_names_the_cause():
    """The other program has another file name, process number, lock address and name of its log."""
    for what, after, kind, name, delta, sure in (
            ("a slower function", {"functions": {"parse": 90}}, "function", "parse", 600000, "yes"),
            ("a new function", {"functions": {"check": 50}}, "function", "check", 500000, "yes"),
            ("a lock that is held longer", {"locks": (150000,) * 6}, "lock", "lock queue_lock", 600000, "yes"),
            ("a sleep", {"sleeps": (500000,)}, "call", "nanosleep", 500000, "unknown"),
            ("many sleeps", {"sleeps": (50000, 51000, 49000, 50000, 50000)}, "call", "nanosleep", 250000, "yes"),
            ("a slower file", {"files": (20000,) * 20}, "call", "fsync /data/log.4711", 360000, "yes")):
        path = program("slow", 4711, **after)
        there, back = tables(BEFORE, path), tables(path, BEFORE)
        first = there["diff_summary"][0]
        expect(what, (first["kind"], first["name"], round(first["delta_us"]), first["sure"]), (kind, name, delta, sure))
        text = run("diff", "--no-findings", BEFORE, path).split("Changes, largest effect first")[1].splitlines()[1]
        if name not in text:
            failures.append(f"{what}: the first line is {text!r}")
        key = ("kind", "is_effect", "sure") if name.startswith("fsync") else ("kind", "name", "is_effect", "sure")
        for table in ("diff_threads", "diff_summary"):
            rows = [sorted((sign * round(r["delta_us"], 3), *(str(r.get(k)) for k in key)) for r in t[table]
                           if "log." not in r["name"]) for t, sign in ((there, 1), (back, -1))]
            expect(f"{what}, {table} exchanged", *rows)


def check_the_path_adds_up():
    """Parts of the critical path add up to the length of the run, and their differences to its difference."""
    a = program("fast", 4000, locks=(), ranges=False)
    b = program("slow", 4711, functions={"parse": 55}, sleeps=(70000,), locks=(), ranges=False)
    for before, after in ((a, b), (b, a), (a, a)):
        found = tables(before, after)
        whole, parts = found["diff_steps"][1], [r for r in found["diff_categories"] if r["group"] == "part"]
        for side in ("before_us", "after_us"):
            expect(f"{side} of parts", round(sum(p[side] for p in parts)), round(whole[side]))
        expect("waterfall", round(sum(p["delta_us"] for p in found["diff_waterfall"][:-1])), round(whole["delta_us"]))
    parts = {p["part"]: p["delta_us"] for p in tables(a, b)["diff_waterfall"]}
    expect("parts", (parts["running"], parts["blocked in nanosleep"]), (250000, 70000))


def check_renamed_files_match_by_numbers():
    row, = [r for r in tables(BEFORE, program("slow", 4711))["diff_threads"] if r["name"].startswith("fsync")]
    expect("a log with another number", (row["name"], row["name_before"], row["change"]),
           ("fsync /data/log.4711", "fsync /data/log.4000", "same"))


def check_times_count_once():
    for path in (BEFORE, program("slow", 4711, functions={"parse": 55}, sleeps=(1000, 70000))):
        found = tables(path, path)["diff_threads"]
        whole = sum(r["before_us"] for r in found if r["kind"] in ("function", "call", "lock", "state"))
        states = json.loads(run("analyze", "--only", "thread_states", "--json", path))["tables"]["thread_states"]
        life = sum(r[states["columns"].index("lifetime_us")] for r in states["rows"])
        expect("time of all threads", round(whole), round(life))
        expect("a trace and itself", [r for r in found if r["delta_us"] or r["change"] != "same"], [])


def check_samples_have_noise():
    """Poisson numbers of samples around the same means: differences are proven about once in twenty times."""
    source, proven, compared = random.Random(1), 0, 0
    means = {f"f{i}": 10 + 5 * i for i in range(12)}

    def draw(mean):
        return sum(source.random() < mean / 1000 for _ in range(1000))
    for i in range(10):
        a, b = (program(f"run{i}", 5000 + n, functions={f: draw(m) for f, m in means.items()}, ranges=False)
                for n in range(2))
        rows = [r for r in tables(a, b)["diff_threads"] if r["kind"] == "function" and r["name"] in means]
        proven, compared = proven + sum(r["sure"] == "yes" for r in rows), compared + len(rows)
    expect("functions of all pairs", compared, 120)
    if proven > 12:
        failures.append(f"{proven} of {compared} functions of the same program differ")


def check_what_was_not_recorded_is_not_known():
    """Without samples, or calls, on one side: no row says that they took no time."""
    with open(BEFORE, encoding="utf-8") as file:
        whole = json.load(file)
    for cat, kind in (("cpu_sample", "function"), ("blocking_call", "call")):
        part = {**whole, "traceEvents": [e for e in whole["traceEvents"] if e.get("cat") != cat]}
        part.pop("ckineto_waits_threshold_us")
        found = tables(BEFORE, write_trace("part.json", part))
        rows = [r for r in found["diff_threads"] if r["kind"] == kind]
        expect(f"conditions without {cat}", [(r["before"], r["after"]) for r in found["diff_conditions"]],
               [("recorded", "not recorded")])
        expect(f"{kind} without {cat}", {(r["after_us"], r["delta_us"], r["sure"]) for r in rows}, {(None, None, "unknown")})


def rows_by_name(before, after):
    return {(r["kind"], r["name"]): r for r in tables(before, after)["diff_threads"]}


def check_other_views():
    """OpenMP's regions and waits, MPI's calls, nested ranges and Python functions, which count by their own time."""
    def document(name, work, receive, inner):
        def row(tid, cat, what, start, dur, **args):
            return {"ph": "X", "pid": 1, "tid": tid, "cat": cat, "name": what, "ts": start, "dur": dur, "args": args}
        events = [row(1, "user_annotation", "outer", 0, 100000 + inner), row(1, "user_annotation", "inner", 1000, inner),
                  row(1, "python_function", "a.py(1): caller", 200000, 50000 + inner),
                  row(1, "python_function", "a.py(2): callee", 201000, inner), row(1, "mpi", "MPI_Recv", 600000, receive),
                  row(1, "collective_comm", "MPI_Barrier", 800000, receive)]
        for run_number in range(6):
            start = 1000000 + 100000 * run_number
            events.append(row(1, "openmp", "omp parallel f.c:12", start, work, region=run_number + 1, code=1, threads=2))
            for tid, own in ((1, work), (2, 10000)):
                common = {"region": run_number + 1, "code": 1}
                events.append(row(tid, "openmp", "omp implicit task f.c:12", start, work, threads=2, **common))
                if own < work:
                    events.append(row(tid, "openmp", "omp implicit barrier f.c:12", start + own, work - own, **common))
        return write_trace(name, events)
    found = rows_by_name(document("a.json", 20000, 3000, 7000), document("b.json", 50000, 90000, 30000))
    for key, before, after, effect in (
            (("range", "outer"), 100000, 100000, 1), (("range", "inner"), 7000, 30000, 1),
            (("Python function", "a.py(1): caller"), 50000, 50000, 0), (("Python function", "a.py(2): callee"), 7000, 30000, 0),
            (("call", "MPI_Recv"), 3000, 90000, 1), (("call", "MPI_Barrier"), 3000, 90000, 1), (("call", "omp implicit barrier f.c:12"), 60000, 240000, 1),
            (("parallel region", "f.c:12"), 120000, 300000, 1), (("imbalance", "f.c:12"), 30000, 120000, 0)):
        row = found.get(key, {})
        expect(key, (row.get("before_us"), row.get("after_us"), row.get("is_effect")), (before, after, effect))


def random_trace(source, name):
    """Rows of all kinds that threads have, anywhere and with any arguments."""
    kinds = ["thread_state", "cpu_sample", "blocking_call", "mpi", "openmp", "collective_comm", "user_annotation",
             "python_function", "cpu_op", "kernel"]
    names = ["running", "waiting for a CPU", "blocked", "main", "0x12", "lib.so+0x3", "pthread_mutex_lock", "nanosleep",
             "ProfilerStep#1", "ProfilerStep#2", "omp parallel x:1", "omp implicit barrier", "omp implicit task", ""]
    keys = ["samples", "cpu_ns", "module", "address", "holder", "file", "in", "region", "threads", "woken by"]
    values = [0, 1, 5, 1000, -3, 2 ** 53, 1e18, -1e18, "text", "pipe:[3]", None, [1]]
    return write_trace(name, [
        {"ph": "X", "pid": source.choice([1, 2]), "tid": source.choice([1, 2, "state 2", "samples 2"]),
         "cat": source.choice(kinds), "name": source.choice(names), "ts": source.randrange(1000),
         "dur": source.choice([source.randrange(1000), 9e15]),
         "args": {k: source.choice(values) for k in source.sample(keys, source.randrange(6))}}
        for _ in range(source.randrange(1, 60))])


def check_any_traces_are_mirrored():
    for seed in range(15):
        source = random.Random(seed)
        a, b = random_trace(source, "a.json"), random_trace(source, "b.json")
        there, back = tables(a, b), tables(b, a)
        for table in ("diff_threads", "diff_summary"):
            expect(f"seed {seed}, {table}", *(sorted(str((r["kind"], r["sure"], r["delta_us"] and sign * round(r["delta_us"], 3)))
                                                     for r in found[table]) for found, sign in ((there, 1), (back, -1))))


def check_gates():
    path = program("slow", 4711, functions={"parse": 90})
    run("diff", "--no-findings", "--fail-on", "function:parse>10%", BEFORE, path, status=1)
    run("diff", "--no-findings", "--fail-on", "function:compute>10%", BEFORE, path)
    run("diff", "--no-findings", "--fail-on", "function:parse<10%", BEFORE, path)


def check_steps():
    """With steps, samples and calls are those of steps, and have intervals by steps."""
    def stepped(name, pid, samples):
        p = Program(name, pid)
        for i in range(8):
            start = p.now
            p.run("compute", 10 + i % 3)
            p.run("parse", samples + i % 2)
            p.call("nanosleep", 3000 + 10 * (i % 3), error=0)
            p.range(f"ProfilerStep#{i}", start)
        return p.write()
    a, b = stepped("fast", 6000, 5), stepped("slow", 7000, 10)
    found = tables(a, b)
    row, = [r for r in found["diff_threads"] if r["name"] == "parse"]
    expect("a function per step", (round(row["before_us"]), round(row["after_us"]), row["before_count"], row["sure"]),
           (55000, 105000, 5.5, "yes"))
    expect("the first row", found["diff_summary"][0]["name"], "parse")


check_the_first_row_names_the_cause()
check_the_path_adds_up()
check_renamed_files_match_by_numbers()
check_times_count_once()
check_samples_have_noise()
check_what_was_not_recorded_is_not_known()
check_other_views()
check_any_traces_are_mirrored()
check_gates()
check_steps()
finish()

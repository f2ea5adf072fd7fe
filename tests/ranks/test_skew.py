"""Waiting, transfer and the critical path across ranks: cases by hand, a second implementation, and laws.

test_skew.py, with CKINETO in the environment
"""
import base64
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from hand_made import Rank

HERE = os.path.dirname(os.path.abspath(__file__))

if not os.environ.get("CKINETO"):
    print("run by ctest, which says where the command is: skipped")
    sys.exit(77)
try:
    import numpy  # noqa: F401
except ImportError:
    print("numpy is missing (python3-numpy): skipped")
    sys.exit(77)


def tables(folder, names):
    done = subprocess.run([os.environ["CKINETO"], "analyze", "--only", names, folder, "--json"], capture_output=True, text=True,
                          timeout=300, check=False)
    found = json.loads(done.stdout)["tables"]
    return {name: ([dict(zip(t["columns"], row)) for row in t["rows"]], t.get("note") or "") for name, t in found.items()}


def generate(folder, *arguments):
    subprocess.run([sys.executable, "-B", os.path.join(HERE, "generate.py"), folder, *arguments], check=True, timeout=300,
                   capture_output=True)


class Folder(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="ckineto-skew-")
        self.addCleanup(self.temporary.cleanup)
        self.folder = os.path.join(self.temporary.name, "run")
        os.mkdir(self.folder)


class ByHand(Folder):
    """Three ranks, all times known."""

    def write(self, hosts=("a", "a", "a"), offsets=(0, 0, 0)):
        """A collective that all enter at 10; computation until 400, 300, 200, that of rank 1 launched late; a collective
        until 450; rank 2 has another one, of ranks 1 and 2, on the same stream, which waits for the first."""
        for rank, work in enumerate((380, 280, 180)):
            r = Rank(rank, 3, hosts[rank], offsets[rank])
            r.step(0, 0, 600)
            r.collect(0, 10, 20, 0)
            launched = 100 if rank == 1 else 5
            start = max(20, launched + 10)
            r.compute(launched, start, start + work)
            arrival = start + work
            r.collect(launched + 3, arrival, 450, 1)
            if rank:
                r.collect(launched + 6, 450, 480, 5, "1", [1, 2])
            r.write(self.folder)

    def test_split(self):
        self.write()
        rows, note = tables(self.folder, "rank_skew_series")["rank_skew_series"]
        self.assertEqual(note, "")
        split = {(r["group"], r["seq"], r["rank"]): (r["wait_us"], r["transfer_us"], r["last"], r["ambiguous"]) for r in rows}
        # arrivals at the second one: 400, 110 + 280 = 390, 200
        self.assertEqual(split["0", 1, 0], (0, 50, 1, 0))
        self.assertEqual(split["0", 1, 1], (10, 50, 0, 0))
        self.assertEqual(split["0", 1, 2], (200, 50, 0, 0))
        self.assertEqual(split["1", 5, 1], (0, 30, 1, 0))
        late = {(r["group"], r["seq"], r["rank"]): (r["late_us"], r["queued_us"]) for r in rows}
        # nothing shows that the computation of rank 1 needed the first collective: it could have been done at 10 + 280
        self.assertEqual(late["0", 1, 1], (100, 0))
        self.assertEqual(late["0", 1, 0], (0, 0))
        self.assertEqual(late["1", 5, 1], (0, 60))
        self.assertEqual(late["1", 5, 2], (0, 250))

    def test_groups(self):
        self.write()
        found = tables(self.folder, "rank_skew,rank_skew_ranks")
        groups = {r["group"]: r for r in found["rank_skew"][0]}
        self.assertEqual((groups["0"]["collectives"], groups["0"]["ranks"], groups["0"]["last_rank"]), (2, 3, 0))
        self.assertEqual(groups["0"]["wait_us"], 70)       # (0 + 10 + 200) / 3
        self.assertEqual(groups["0"]["transfer_us"], 60)   # 10 + 50
        self.assertEqual(groups["0"]["wait_of_step_us"], 70)
        self.assertEqual(groups["0"]["dominated_by"], "mixed")
        self.assertEqual(groups["1"]["dominated_by"], "transfer")
        kinds = tables(self.folder, "rank_skew_kinds")["rank_skew_kinds"][0]
        # group 1 is of the same description, but of another size
        self.assertEqual([(k["groups"], k["collectives"], k["wait_us"], k["last_rank"]) for k in kinds], [(1, 2, 70, 0), (1, 1, 0, 1)])
        ranks = {(r["group"], r["rank"]): r for r in found["rank_skew_ranks"][0]}
        self.assertEqual(ranks["0", 2]["wait_us"], 200)
        self.assertEqual(ranks["0", 0]["last"], 2)

    def test_path(self):
        """From 480 on: transfer in group 1 since 450, in group 0 since 400, rank 0 computes since 20, transfer since 10."""
        self.write()
        found = tables(self.folder, "rank_path,rank_path_series")
        parts = [(p["kind"], p["rank"], p["start_us"], p["end_us"]) for p in found["rank_path_series"][0] if p["rank"] is not None]
        # the run begins with its first work on a device
        self.assertEqual(parts[-3:], [("device", 0, 10, 390), ("transfer", 0, 390, 440), ("transfer", 2, 440, 470)])
        self.assertEqual(sum(p["dur_us"] for p in found["rank_path_series"][0]), 470)
        shares = {(r["of"], r["rank"], r["group"]): r for r in found["rank_path"][0]}
        self.assertEqual(shares["run", None, ""]["path_us"], 470)
        self.assertEqual(shares["rank", 0, ""]["device_us"], 380)
        self.assertEqual(shares["group", None, "1"]["transfer_us"], 30)

    def test_refused(self):
        """Three hosts with two collectives in common: too few for their clocks."""
        self.write(("a", "b", "c"), (0, 5000, 0))
        found = tables(self.folder, "rank_skew,rank_skew_series,rank_path")
        for name in found:
            self.assertEqual(found[name][0], [], name)
            self.assertIn("clocks of hosts cannot be aligned", found[name][1])

    def test_refused_within_a_host(self):
        self.write(("a", "b", "b"), (0, 5000, 5000))
        rows, note = tables(self.folder, "rank_skew")["rank_skew"]
        self.assertEqual([r["group"] for r in rows], ["1"])
        self.assertEqual(rows[0]["transfer_us"], 30)
        self.assertIn("only groups within one host", note)


SYNCHRONIZING = {"allreduce", "all_gather", "_allgather_base", "reduce_scatter", "_reduce_scatter_base", "all_to_all",
                 "all_to_allv", "barrier"}


def read_collectives(folder):
    """(group, seq) → {rank: (start, end)} of kernels whose arguments say them."""
    found = {}
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            trace = json.load(file)
        for event in trace["traceEvents"]:
            args = event.get("args", {})
            if event.get("cat") == "kernel" and "Seq" in args and "Src Rank" not in args and "Dst Rank" not in args:
                rows = found.setdefault((args["Process Group Name"], args["Seq"]), {})
                rows[trace["distributedInfo"]["rank"]] = (event["ts"], event["ts"] + event["dur"], args["Group size"])
    return {key: rows for key, rows in found.items() if len(rows) == next(iter(rows.values()))[2] and len(rows) > 1}


class SecondImplementation(Folder):
    def compare(self, *arguments):
        generate(self.folder, *arguments, "--set", "ranks_per_host=64", "--set", "steps=2", "--set", "kernels=4")
        expected = read_collectives(self.folder)
        rows, _ = tables(self.folder, "rank_skew_series")["rank_skew_series"]
        got = {(r["group"], r["seq"], r["rank"]): r for r in rows if r["operation"] not in ("send", "recv", "send_recv")}
        compared = 0
        for (group, seq), of in expected.items():
            if any((group, seq, rank) not in got for rank in of):
                continue  # messages, which are numbered anew
            arrival = max(start for start, _, _ in of.values())
            for rank, (start, end, _) in of.items():
                row = got[group, seq, rank]
                self.assertAlmostEqual(row["wait_us"], min(arrival, end) - start, delta=0.0021, msg=row)
                self.assertAlmostEqual(row["transfer_us"], end - min(arrival, end), delta=0.0021, msg=row)
                compared += 1
        self.assertGreater(compared, 50)

    def test_ddp(self):
        self.compare("--program", "ddp", "--set", "ranks=8", "--plant", "device:rank=3,factor=1.3")

    def test_fsdp(self):
        self.compare("--program", "fsdp", "--set", "ranks=8", "--plant", "host:rank=3,ns=1e6")

    def test_tensor_data_pipeline(self):
        self.compare("--program", "tpd", "--set", "tp=2", "--set", "pp=2", "--set", "dp=2")


class Laws(Folder):
    def change(self, change):
        for name in os.listdir(self.folder):
            path = os.path.join(self.folder, name)
            with open(path, encoding="utf-8") as file:
                trace = json.load(file)
            for event in trace["traceEvents"]:
                if "ts" in event:
                    change(trace, event)
            with open(path, "w", encoding="utf-8") as file:
                json.dump(trace, file)

    def waits(self):
        found = tables(self.folder, "rank_skew_series,rank_clocks")
        bars = [c["bar_us"] for c in found["rank_clocks"][0]]
        rows = found["rank_skew_series"][0]
        return {(r["group"], r["seq"], r["step"], r["rank"], r["operation"]): (r["wait_us"], r["transfer_us"]) for r in rows}, max(bars)

    def test_clock_of_a_host(self):
        """Shifting the clock of a host changes waits by the errors of the clocks at most."""
        generate(self.folder, "--program", "tpd", "--set", "tp=2", "--set", "pp=1", "--set", "dp=4", "--set", "ranks_per_host=4")
        before, bar = self.waits()

        def shift(trace, event):
            if trace["host_name"] == "node001":
                event["ts"] += 7654.321
        self.change(shift)
        after, _ = self.waits()
        self.assertEqual(before.keys(), after.keys())
        self.assertGreater(len(before), 100)
        for key, times in before.items():
            self.assertAlmostEqual(times[0], after[key][0], delta=2 * bar, msg=key)
            self.assertAlmostEqual(times[1], after[key][1], delta=2 * bar, msg=key)

    def test_scale(self):
        """Twice as slow: twice the waits."""
        generate(self.folder, "--program", "ddp", "--set", "ranks=4", "--set", "ranks_per_host=8")
        before, _ = self.waits()
        first = {}

        def slow_down(_, event):
            start = first.setdefault("ts", event["ts"] - 1000)
            event["ts"] = start + 2 * (event["ts"] - start)
            event["dur"] = 2 * event.get("dur", 0)
        self.change(slow_down)
        after, _ = self.waits()
        self.assertEqual(before.keys(), after.keys())
        for key, times in before.items():
            self.assertAlmostEqual(2 * times[0], after[key][0], delta=0.01, msg=key)

    def test_path_is_as_long_as_the_run(self):
        for i, program in enumerate((("tpd", "tp=2", "pp=2", "dp=2"), ("fsdp", "ranks=8"), ("ep", "ranks=8", "ep=4"),
                                     ("pp1f1b", "tp=1", "pp=4", "dp=2"), ("decode", "ranks=8", "tp=4"))):
            folder = f"{self.folder}{i}"
            generate(folder, "--program", program[0], *(a for s in program[1:] for a in ("--set", s)), "--set", "ranks_per_host=4")
            found = tables(folder, "rank_path,rank_path_series")
            parts, shares = found["rank_path_series"][0], found["rank_path"][0]
            if not parts:
                self.fail((program, found["rank_path"][1]))
            run = next(r for r in shares if r["of"] == "run")
            self.assertEqual(parts[0]["start_us"], 0)
            for one, next_one in zip(parts, parts[1:]):
                self.assertEqual(one["end_us"], next_one["start_us"])
            self.assertAlmostEqual(sum(p["dur_us"] for p in parts), parts[-1]["end_us"], places=3)
            self.assertAlmostEqual(run["path_us"], parts[-1]["end_us"], places=3)
            self.assertAlmostEqual(run["path_pct"], 100, places=6)
            self.assertAlmostEqual(sum(r["path_us"] for r in shares if r["of"] in ("rank", "group")), run["path_us"], places=3)
            self.assertLess(run["unknown_us"], 0.01 * run["path_us"], (program, run))

    def test_who_is_on_the_path(self):
        """Of the computation on the path, most is that of the slow rank; it leads in all steps."""
        generate(self.folder, "--program", "ddp", "--set", "ranks=8", "--plant", "device:rank=5,factor=1.4")
        found = tables(self.folder, "rank_path,rank_causes")
        ranks = sorted((r for r in found["rank_path"][0] if r["of"] == "rank"), key=lambda r: -r["path_us"])
        self.assertEqual(ranks[0]["rank"], 5)
        self.assertGreater(ranks[0]["path_pct"], 60)
        cause = found["rank_causes"][0][0]
        self.assertEqual((cause["rank"], cause["leads"]), (5, cause["steps"]))
        self.assertRegex(found["rank_causes"][1], r"rank 5 \(host node000, GPU 5\) as its peers: -[0-9.]+ ?[mu]s a step; it leads in \d of \d steps$")


class AbsentRanks(Folder):
    """The others are compared without them."""

    def job(self, *arguments):
        generate(self.folder, "--program", "ddp", "--set", "ranks=8", "--set", "ranks_per_host=4", "--plant",
                 "device:rank=5,factor=1.2", *arguments)
        found = tables(self.folder, "rank_path,rank_skew,rank_skew_ranks")
        ranks = [r for r in found["rank_path"][0] if r["of"] == "rank"]
        return max(ranks, key=lambda r: r["path_us"]), found

    def check(self, damage, whole, said):
        self.folder = os.path.join(self.temporary.name, damage.split(":")[0])
        on_path, found = self.job("--damage", damage)
        self.assertEqual(on_path["rank"], whole["rank"])
        self.assertAlmostEqual(on_path["path_pct"], whole["path_pct"], delta=3)
        self.assertEqual(found["rank_skew"][0][0]["last_rank"], 5)
        for name in found:
            self.assertRegex(found[name][1], said, name)

    def test_one_rank(self):
        whole, found = self.job()
        self.assertEqual((whole["rank"], found["rank_path"][1]), (5, ""))
        said = r"^rank 3 is missing: it may have come last, so that waits are lower bounds$"
        self.check("missing:rank=3", whole, said)
        self.check("corrupt:rank=3", whole, said)
        self.check("other_run:rank=3", whole, r"^some ranks lack collectives")
        self.check("truncated:rank=3,fraction=0.6", whole, r"^some ranks lack collectives \(rank_damage\): they may have come last")


    def test_cut_rank(self):
        """The path goes on with the others where the trace of a rank begins late."""
        job = ("--program", "ddp", "--set", "ranks=16", "--plant", "step:rank=13,step=1,cause=gc,ns=1e6")
        generate(self.folder, *job, "--damage", "ring_cut:rank=7,fraction=0.3")
        found, note = tables(self.folder, "rank_path")["rank_path"]
        run = next(r for r in found if r["of"] == "run")
        self.assertLess(run["unknown_us"], 0.02 * run["path_us"])
        self.assertAlmostEqual(run["path_pct"], 100, places=6)
        self.assertIn("some ranks lack collectives", note)


def read_page(path):
    """The element `summary` of a report."""
    with open(path, encoding="utf-8") as file:
        data = re.search(r'id="summary">([^<]*)<', file.read())[1]
    return json.loads(gzip.decompress(base64.b64decode(data)))


class Report(Folder):
    def report(self, *arguments):
        page = os.path.join(self.temporary.name, "page.html")
        subprocess.run([os.environ["CKINETO"], "report", "--quiet", self.folder, "-o", page, *arguments], check=True, timeout=300,
                       capture_output=True)
        return read_page(page)["rank_map"]

    def test_map_and_path(self):
        generate(self.folder, "--program", "tpd", "--set", "tp=2", "--set", "pp=2", "--set", "dp=4", "--set", "ranks_per_host=4",
                 "--plant", "link:group=dp:1,factor=4")
        found = self.report()
        self.assertEqual((found["refused"], found["hosts"], found["ranks"]), ("", 4, list(range(16))))
        self.assertEqual([len(row) for row in found["waiting"]], [found["columns"]] * 16)
        self.assertEqual(found["path"][-1][2], found["length_ns"])
        self.assertEqual([p[2] for p in found["path"]], sorted(p[2] for p in found["path"]))
        self.assertEqual([sorted(g["ranks"]) for g in found["slow_groups"]], [[1, 3, 5, 7]])
        self.assertTrue(any(p[1] == "transfer" and p[3] == found["slow_groups"][0]["group"] for p in found["path"]))
        self.assertTrue(all(0 < c["bar_ns"] < 5000 for c in found["clocks"]))

    def test_many_ranks_share_rows(self):
        for rank in range(600):
            r = Rank(rank, 600)
            r.collect(0, 10 + rank % 3, 20, 0)
            r.write(self.folder)
        found = self.report()
        self.assertEqual((len(found["ranks"]), found["ranks_per_row"], len(found["waiting"])), (600, 3, 200))

    def test_refused(self):
        generate(self.folder, "--program", "ddp", "--set", "ranks=8", "--set", "ranks_per_host=4", "--damage",
                 "clock_step:host=1,ns=1000000")
        found = self.report()
        self.assertEqual((found["waiting"], found["path"], found["clocks"]), ([], [], []))
        self.assertTrue(found["refused"])

    def test_absent(self):
        generate(self.folder, "--program", "ddp", "--set", "ranks=24", "--set", "steps=2", "--plant", "device:rank=21,factor=1.3",
                 "--damage", "missing:rank=7")
        self.assertIn("rank 7 is missing", self.report()["absent"])
        said = subprocess.run([os.environ["CKINETO"], "report", "--text", "--width", "80", self.folder], check=True,
                              capture_output=True, text=True, timeout=300).stdout
        part = said[said.index("Ranks by time"):]
        part = part[:part.index("\n\n")]
        lines = dict(re.findall(r"^  (ranks? [-0-9, ]*\d) +(.*)$", part, re.M))
        self.assertIn("ranks 4-5", lines)
        self.assertIn("ranks 6, 8", lines)
        self.assertIn("rank 23", lines)  # the last one has no other
        self.assertGreater(lines["ranks 21-22"].count("D"), 20)
        self.assertTrue(all(len(line) <= 80 for line in part.splitlines()), part)
        legend = part[:part.index("ranks 0-1")]
        for shade in ".:-=+*#?":
            self.assertIn(f" {shade}", legend)
        self.assertIn("rank 7 is missing", part)

    def test_text(self):
        generate(self.folder, "--program", "ddp", "--set", "ranks=8", "--set", "ranks_per_host=4", "--plant",
                 "device:rank=5,factor=1.4")
        said = subprocess.run([os.environ["CKINETO"], "report", "--text", "--width", "80", self.folder], check=True,
                              capture_output=True, text=True, timeout=300).stdout
        part = said[said.index("Ranks by time"):]
        lines = {int(m[1]): m[2] for m in list(re.finditer(r"^  rank (\d) {7}(.*)$", part, re.M))[:8]}
        self.assertEqual(sorted(lines), list(range(8)))
        self.assertGreater(lines[5].count("D"), 30)
        self.assertRegex(part, r"rank 5 +[\d.]+ ms +\d\d\.\d %")
        self.assertIn("clocks of 2 hosts: aligned, ± ", part)


class Places(Folder):
    """Causes name the host, and the members of a group."""

    def find(self, *arguments):
        generate(self.folder, *arguments)
        said = subprocess.run([os.environ["CKINETO"], "analyze", "--findings", self.folder], check=True, capture_output=True, text=True,
                              timeout=300).stdout
        return tables(self.folder, "rank_causes")["rank_causes"][0][0], " ".join(said.split())

    def test_rank(self):
        cause, said = self.find("--program", "ddp", "--set", "ranks=8", "--set", "ranks_per_host=4", "--plant",
                                "device:rank=5,factor=1.4")
        self.assertEqual((cause["rank"], cause["ranks"], cause["host"]), (5, "", "node001"))
        self.assertEqual(cause["device"], 1)
        self.assertIn("rank 5 (host node001, GPU 1) computes", said)

    def test_group_within_a_host(self):
        cause, said = self.find("--program", "hsdp", "--set", "ranks=16", "--set", "ranks_per_host=4", "--plant",
                                "link:group=shard:2,factor=3")
        self.assertEqual((cause["ranks"], cause["host"]), ("8-11", "node002"))
        self.assertRegex(said, r"transfers of group \w+ \(\w+\), ranks 8-11 on node002, take")

    def test_group_across_hosts(self):
        cause, said = self.find("--program", "tpd", "--set", "tp=2", "--set", "pp=2", "--set", "dp=4", "--set", "ranks_per_host=4",
                                "--plant", "link:group=dp:1,factor=4")
        self.assertEqual((cause["ranks"], cause["host"]), ("1, 3, 5, 7", ""))
        self.assertIn("ranks 1, 3, 5, 7, take", said)


class Overview(Folder):
    def test_straggler_is_first(self):
        """Ranks of a synchronous job end their steps together: the one that they wait for is shown, for each step."""
        generate(self.folder, "--program", "ddp", "--set", "ranks=16", "--set", "steps=3", "--plant", "device:rank=13,factor=1.1",
                 "--damage", "missing:rank=7")
        said = subprocess.run([os.environ["CKINETO"], "analyze", self.folder], check=True, capture_output=True, text=True,
                              timeout=300, env={**os.environ, "COLUMNS": "100"}).stdout
        rows = {}
        for title in ("Slowest steps", r"Ranks \(\d of 15\)"):
            part = re.search(rf"^  {title} .*\n((?:  .*\n)+)", said, re.M)
            rows[title] = [line.split() for line in part[1].splitlines()]
        self.assertEqual([row[1] for row in rows["Slowest steps"][:3]], ["13"] * 3)
        self.assertEqual(len({row[0] for row in rows["Slowest steps"][:3]}), 3)
        self.assertEqual(rows[r"Ranks \(\d of 15\)"][0][0], "13")


class OneAxis(Folder):
    """Merged traces of several hosts are on one clock."""

    def convert(self, *arguments, exit_status=0):
        out = os.path.join(self.temporary.name, "merged.json")
        done = subprocess.run([os.environ["CKINETO"], "convert", "--quiet", self.folder, "-o", out, *arguments], check=False,
                              timeout=300, capture_output=True, text=True)
        self.assertEqual(done.returncode, exit_status, done.stderr)
        with open(out, encoding="utf-8") as file:
            data = file.read()
        os.remove(out)
        return data, json.loads(data), done.stderr

    def job(self, *arguments):
        generate(self.folder, "--program", "tpd", "--set", "tp=2", "--set", "pp=1", "--set", "dp=4", "--set", "ranks_per_host=4",
                 *arguments)

    def test_one_host_is_as_it_was(self):
        generate(self.folder, "--program", "ddp", "--set", "ranks=4", "--set", "ranks_per_host=8")
        self.assertEqual(self.convert()[0], self.convert("--no-align")[0])

    def test_several_hosts(self):
        """The times of each host move by its clock, which the truth of the set has."""
        self.job()
        with open(self.folder + ".truth.json", encoding="utf-8") as file:
            clocks = [host["offset_ns"] / 1000 for host in json.load(file)["hosts"]]
        (_, aligned, said), (_, raw, _) = self.convert(), self.convert("--no-align")
        self.assertEqual(said, "")
        self.assertRegex(aligned["clocks"], r"^clocks of 2 hosts are aligned by the ends of collectives, ± .* at most$")
        self.assertNotIn("clocks", raw)
        loud = subprocess.run([os.environ["CKINETO"], "convert", self.folder, "-o", os.path.join(self.temporary.name, "loud.json")],
                              check=True, timeout=300, capture_output=True, text=True)
        self.assertIn(f"  {aligned['clocks']}\n", loud.stderr)
        parts = {part["rank"]: part["clock"] for part in aligned["mergedTraces"]}
        error = parts[7]["error_ns"] / 1000
        self.assertAlmostEqual(parts[7]["offset_ns"] / 1000, -clocks[1], delta=error)
        self.assertEqual(parts[0]["offset_ns"], 0)
        kernels = [[e for e in trace["traceEvents"] if e.get("cat") == "kernel"] for trace in (aligned, raw)]
        self.assertEqual(*map(len, kernels))
        moved = set()
        for one, other in zip(*kernels):
            self.assertEqual(one["args"].get("Seq"), other["args"].get("Seq"))
            self.assertAlmostEqual(one["dur"], other["dur"], delta=0.0011 + 2e-4 * other["dur"])
            moved.add(round((one["ts"] - other["ts"]) / 100))
        self.assertEqual(moved, {0, round(-clocks[1] / 100)})
        labels = [e["args"]["labels"] for e in aligned["traceEvents"] if e["name"] == "process_labels"]
        self.assertTrue(any(re.search(r"rank 7, node001, clock [+-][0-9.]+ [mu]?s ± [0-9.]+ [nu]s$", text) for text in labels), labels)

    def test_other_verbs(self):
        self.job()
        ends = {}
        for option in ((), ("--no-align",)):
            done = subprocess.run([os.environ["CKINETO"], "query", self.folder, *option,
                                   "select max(start_ns) - min(start_ns) as length from activities where kind = 'kernel'"],
                                  capture_output=True, text=True, timeout=300, check=True)
            ends[option] = done.stdout
        self.assertNotEqual(ends[()], ends[("--no-align",)])

    def test_in_python(self):
        """ckineto.open is on the same clock as the command; align=False is as recorded, which is the default of C."""
        self.job()
        sys.path.insert(0, os.path.join(HERE, "..", "..", "python"))
        import ckineto
        for option, align in (((), True), (("--no-align",), False)):
            expected = subprocess.run([os.environ["CKINETO"], "query", "--format", "csv", self.folder, *option,
                                       "select start_ns from activities where kind = 'kernel' order by start_ns"],
                                      capture_output=True, text=True, timeout=300, check=True).stdout.split()[1:]
            with ckineto.open(self.folder, align=align) as trace:
                self.assertEqual(sorted(a.start_ns for a in trace if a.kind == "kernel"), list(map(int, expected)))
                notes = [line.detail for line in trace.ledger if line.detail.startswith("clocks of 2 hosts are aligned")]
                self.assertEqual(len(notes), align)

    @unittest.skipUnless(shutil.which("strace"), "strace is not installed")
    def test_small_files_are_read_once(self):
        self.job()
        out = os.path.join(self.temporary.name, "merged.json")
        for memory, most in (((), 1), (("--mem", "64M"), 3)):
            done = subprocess.run(["strace", "-f", "-e", "trace=openat", os.environ["CKINETO"], "convert", "--quiet", self.folder,
                                   "-o", out, *memory], capture_output=True, text=True, timeout=300, check=False)
            if done.returncode:
                self.skipTest("strace does not work here")
            opened = re.findall(r"/(rank\d+)\.json\", O_RDONLY", done.stderr)
            counts = {opened.count(rank) for rank in opened}
            self.assertEqual(len(set(opened)), 8)
            self.assertLessEqual(max(counts), most)

    def test_refused(self):
        self.job("--damage", "clock_step:host=1,ns=1000000")
        (data, trace, said), (_, raw, _) = self.convert(), self.convert("--no-align")
        self.assertRegex(said, r"^ckineto: clocks are not aligned: .*; times of different hosts cannot be compared\n$")
        self.assertEqual(said, f"ckineto: {trace['clocks']}\n")
        self.assertEqual([e["ts"] for e in trace["traceEvents"]], [e["ts"] for e in raw["traceEvents"]])
        self.assertNotIn("clock +", data)

    def test_unreadable_file(self):
        """It is a loss of the merge, as without alignment."""
        self.job()
        with open(os.path.join(self.folder, "rank5.json"), "w", encoding="utf-8") as file:
            file.write("{ nothing")
        _, trace, said = self.convert(exit_status=3)
        self.assertIn("rank5.json", said)
        self.assertIn("aligned", trace["clocks"])


if __name__ == "__main__":
    unittest.main()

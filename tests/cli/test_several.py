"""Several files and directories where a verb takes a trace: tables, merging, findings, choosing a rank."""

import json
import os
import re
import subprocess
import time
import unittest

from command import COMMAND, CommandTest, main

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")
BASE = 1700000000000000000


def rank_trace(rank, world=4, pid=None, host="node1", start=0.0, rows=3, **header):
    pid = 100 + rank if pid is None else pid
    events = [{"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": "python"}}]
    for n in range(1, rows + 1):
        ts = start + 100 * n
        events += [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": pid, "tid": 1, "ts": ts, "dur": 50,
                    "args": {"External id": n, "of": rank}},
                   {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": pid, "tid": 1,
                    "ts": ts + 10, "dur": 5, "args": {"correlation": n}},
                   {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": ts + 30, "dur": 40,
                    "args": {"correlation": n, "device": 0, "stream": 7}},
                   {"ph": "s", "id": n, "cat": "ac2g", "name": "ac2g", "pid": pid, "tid": 1, "ts": ts + 10},
                   {"ph": "f", "id": n, "cat": "ac2g", "name": "ac2g", "pid": 0, "tid": 7, "ts": ts + 30, "bp": "e"}]
    trace = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "Tesla", "of": rank}], **header,
             "baseTimeNanoseconds": BASE, "traceEvents": events}
    if world:
        trace["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": world}
    if host:
        trace["host_name"] = host
    return trace


class Several(CommandTest):
    def put(self, name, trace):
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            if isinstance(trace, str):
                f.write(trace)
            else:
                json.dump(trace, f)
        return path

    def put_ranks(self, count, **more):
        for rank in range(count):
            self.put(f"run/rank{rank}.json", rank_trace(rank, count, **more))

    def run_ok(self, *arguments, status=0):
        done = self.run_command(*arguments)
        self.assertEqual(done.returncode, status, done.err.decode())
        return done.out.decode(), done.err.decode()

    def info(self, *arguments, status=0):
        out, _ = self.run_ok("info", "--json", *arguments, status=status)
        return json.loads(out)


class Tables(Several):
    def test_a_directory_is_a_table_in_the_order_of_ranks(self):
        self.put_ranks(12)
        self.put("run/notes.txt", "hello")
        found = self.info("run")
        self.assertEqual([t["rank"] for t in found["traces"]], list(range(12)))
        self.assertEqual([t["name"] for t in found["traces"]], [f"rank{n}.json" for n in range(12)])
        self.assertEqual(found["findings"], [])
        self.assertEqual(found["other_things"], 1)
        first = found["traces"][0]
        self.assertEqual((first["world_size"], first["host"], first["pid"], first["backend"], first["activities"]),
                         (12, "node1", 100, "nccl", 9))
        self.assertEqual(first["learned"], {"rank": "header", "world_size": "header", "host": "header",
                                            "pid": "process row", "backend": "header"})
        out, _ = self.run_ok("info", "run")
        self.assertIn("12 traces, 108 activities", out)
        self.assertIn("1 other file was skipped", out)
        self.assertLess(out.index("rank9.json"), out.index("rank10.json"))

    def test_what_is_odd_is_said(self):
        for rank in (0, 1, 2, 3, 4, 5, 7):
            self.put(f"run/rank{rank}.json", rank_trace(rank, 8, rows=3 + rank))
        self.put("run/rank9.json", rank_trace(3, 8, pid=55, rows=4))
        self.put("run/rank20.json", "{}")
        found = self.info("run", status=3)
        ids = {f["id"]: f["sentence"] for f in found["findings"]}
        self.assertIn("1 of 8 ranks is missing: 6", ids["rank.missing"])
        self.assertIn("2 files claim rank 3: rank3.json, rank9.json", ids["rank.repeated"])
        self.assertIn("9 by the file name", ids["identity.conflict"])
        self.assertIn("rank20.json", ids["file.unreadable"])
        out, _ = self.run_ok("info", "run", status=3)
        for key, sentence in ids.items():
            self.assertIn(f"{key}: {sentence}", " ".join(out.split()))

    def test_copies_are_recognised_whatever_they_are_compressed_with(self):
        self.put_ranks(1)
        self.run_ok("slice", "run/rank0.json", "-o", "run/again.json.gz")
        ids = [f["id"] for f in self.info("run", status=3)["findings"]]
        self.assertIn("file.same", ids)
        self.assertNotIn("rank.repeated", ids)

    def test_control_bytes_of_names_do_not_reach_the_terminal(self):
        self.put("run/rank0\x1b[31m.json", rank_trace(0, 2, host="evil\x1b[31m"))
        self.put("run/rank1.json", rank_trace(1, 2))
        out, _ = self.run_ok("info", "run")
        self.assertNotIn("\x1b", out)

    def test_mistakes_are_explained(self):
        self.put_ranks(2)
        os.makedirs(self.path("empty/inner"))
        for arguments, status, words in ((["info", "empty"], 2, "no trace in this directory"),
                                         (["info", "empty"], 2, "its 1 subdirectories"),
                                         (["info", "run", "--timing"], 2, "--timing needs exactly one trace"),
                                         (["info", "run", "--rank", "x"], 2, "--rank needs a rank"),
                                         (["info", "run", "--rank", "9"], 2, "there are ranks 0 to 1"),
                                         (["convert", "empty", "-o", "t.json"], 2, "no trace in this directory"),
                                         (["convert", "run", "-o", "run/rank1.json"], 2, "would overwrite"),
                                         (["query", "run", "SELECT", "1"], 2, "the query is one argument"),
                                         (["verify", "empty"], 2, "no trace in this directory")):
            _, err = self.run_ok(*arguments, status=status)
            self.assertIn(words, err, arguments)

    def peak_kib(self, *arguments):
        """What a command had resident at most when it writes its answer, into a pipe that is full. (What
        wait4 says of a child is not less than what this process had.)"""
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        try:
            while True:
                os.write(writer, bytes(4096))
        except BlockingIOError:
            os.set_blocking(writer, True)
        process = self.start(*arguments, stdout=writer, stderr=subprocess.DEVNULL)
        os.close(writer)

        def spent():
            with open(f"/proc/{process.pid}/stat", encoding="utf-8") as f:
                fields = f.read().rpartition(")")[2].split()
            return fields[0], fields[11], fields[12]
        before = None
        while (now := spent())[0] == "R" or now != before:
            before = now
            time.sleep(0.4)
        with open(f"/proc/{process.pid}/status", encoding="utf-8") as f:
            peak = int(re.search(r"VmHWM:\s+(\d+)", f.read())[1])
        while os.read(reader, 65536):
            pass
        os.close(reader)
        self.assertEqual(process.wait(), 0)
        return peak

    def test_two_hundred_ranks_need_little_more_memory_than_one(self):
        self.put_ranks(200, rows=400)

        one, all_of_them = self.peak_kib("info", self.path("run/rank0.json")), self.peak_kib("info", self.path("run"))
        print(f"peak of 200 ranks: {all_of_them / one:.2f} x that of one ({one} KiB)")
        with open(COMMAND, "rb") as f:
            program = f.read()
        if b"__asan_init" not in program and b"__tsan_init" not in program:  # those keep what was freed
            self.assertLess(all_of_them, 3 * one)


class Merging(Several):
    def check_merged(self, name, ranks, rows=3):
        """Read by another parser: no id, process or arrow of two ranks meets."""
        trace = self.load(name)
        events = trace["traceEvents"]
        rank_of = {p["pid"]: p.get("rank") for p in trace["ckineto"]["processes"]}
        launches = {e["args"]["correlation"]: e["pid"] for e in events if e.get("name") == "cudaLaunchKernel"}
        kernels = [e for e in events if e.get("name") == "gemm"]
        self.assertEqual((len(launches), len(kernels)), (ranks * rows, ranks * rows))
        for kernel in kernels:
            self.assertEqual(rank_of[kernel["pid"]], rank_of[launches[kernel["args"]["correlation"]]])
        starts = {e["id"]: rank_of[e["pid"]] for e in events if e["ph"] == "s"}
        ends = {e["id"]: rank_of[e["pid"]] for e in events if e["ph"] == "f"}
        self.assertEqual(len(starts), ranks * rows)
        self.assertEqual(starts, ends)
        for op in (e for e in events if e.get("name") == "aten::mm"):
            self.assertEqual(op["args"]["of"], rank_of[op["pid"]])
        return trace

    def test_ranks_with_equal_numbers_stay_apart(self):
        self.put_ranks(3, pid=42)
        _, err = self.run_ok("convert", "run", "-o", "t.json")
        self.assertIn("27 slices", err)
        trace = self.check_merged("t.json", 3)
        real = sorted((p["id"], p["pid"], p["rank"]) for p in trace["ckineto"]["processes"] if not p["device"])
        self.assertEqual(real, [(42, 42, 0), (42, 42 + 10**9, 1), (42, 42 + 2 * 10**9, 2)])
        labels = [e["args"]["labels"] for e in trace["traceEvents"]
                  if e["ph"] == "M" and e["name"] == "process_labels"]
        self.assertIn("rank 2", labels)
        self.assertEqual([m["rank"] for m in trace["mergedTraces"]], [0, 1, 2])
        self.assertEqual(trace["host_name"], "node1")
        self.assertIn("traces merged", [l["reason"] for l in trace["ckineto"]["ledger"]])
        # What was merged can be read, and taken apart again.
        self.run_ok("convert", "t.json", "-o", "u.json")
        self.check_merged("u.json", 3)
        self.run_ok("slice", "t.json", "--rank", "1", "-o", "one.json")
        self.assertEqual({e["args"]["of"] for e in self.slices("one.json") if e["name"] == "aten::mm"}, {1})
        self.assertEqual(len(self.slices("one.json")), 9)
        self.run_ok("slice", "run", "--rank", "1", "-o", "same.json")
        self.assertEqual(len(self.slices("same.json")), 9)

    def test_every_verb_takes_several(self):
        self.put_ranks(3)
        files = [f"run/rank{n}.json" for n in range(3)]
        for given in (["run"], files, ["run", files[0]]):
            self.run_ok("convert", *given, "-o", "t.json", "-q")
            self.check_merged("t.json", 3)
            self.run_ok("convert", *given, "-o", "e.json", "-o", "csv:e.csv", "-q")
            self.check_merged("e.json", 3)
            self.run_ok("slice", *given, "--kinds", "kernel", "-o", "s.json")
            self.assertEqual(len(self.slices("s.json")), 9)
            self.run_ok("scrub", *given, "--salt", "x", "-o", "x.json")
            self.assertEqual(len(self.slices("x.json")), 27)
        with open(self.path("x.json"), encoding="utf-8") as f:
            scrubbed = f.read()
        self.assertNotIn("node1", scrubbed)
        self.assertNotIn("rank2.json", scrubbed)
        self.assertIn('"labels":"rank 2"', scrubbed)
        self.assertIn('"reason":"traces merged"', scrubbed)

    def test_sql_sees_ranks(self):
        self.put_ranks(3)
        done = self.run_command("query", "--schema")
        if done.returncode:
            self.skipTest("built without SQLite")
        out, _ = self.run_ok("query", "--format", "csv", "run",
                             "SELECT p.rank, count(*) FROM activities a JOIN processes p ON a.process = p.process "
                             "WHERE a.kind = 'kernel' GROUP BY 1 ORDER BY 1")
        self.assertEqual(out.split()[1:], ["0,3", "1,3", "2,3"])
        out, _ = self.run_ok("query", "--format", "csv", "--rank", "2", "run", "SELECT count(*) FROM activities")
        self.assertEqual(out.split()[1], "9")

    def test_one_rank_is_chosen(self):
        self.put_ranks(3)
        for verb in (["convert", "-q"], ["scrub", "--salt", "x"]):
            where = ["-o", "t.json"]
            self.run_ok(*verb, "run", "--rank", "2", *where)
            self.assertEqual({e["args"]["of"] for e in self.slices() if "of" in e["args"]} or {2}, {2})
            self.assertEqual(len(self.slices()), 9)
        self.assertEqual(self.info("run", "--rank", "1")["activities"], 9)

    def test_what_is_missing_or_odd_is_reported_on_the_way(self):
        self.put_ranks(2)
        self.put("run/rank3.json", rank_trace(3, 4))
        self.put("run/rank4.json", "no trace")
        _, err = self.run_ok("convert", "run", "-o", "t.json", status=3)
        self.assertIn("rank4.json", err)
        self.assertIn("there is no file of a rank", err)
        self.assertIn("files disagree about the number of ranks", err)
        self.assertEqual(self.lost(), 1)
        self.run_ok("convert", "run/rank0.json", "run/rank4.json", "-o", "t.json", status=3)

    def test_verify_looks_at_each_and_at_all(self):
        self.put_ranks(3)
        out, _ = self.run_ok("verify", "run")
        self.assertRegex(out, r"^3 ranks\.\n3 of 3 traces are sound")
        self.assertEqual(self.run_ok("verify", "-v", "run")[0].count(": sound"), 3)
        os.unlink(self.path("run/rank1.json"))
        out, _ = self.run_ok("verify", "run", status=1)
        self.assertIn("2 of 3 ranks; missing: 1.", out)
        self.assertIn("1 of 3 ranks is missing: 1", " ".join(out.split()))
        done = self.run_command("verify", "--json", "run")
        found = json.loads(done.out)
        self.assertEqual(len(found["traces"]), 2)
        self.assertEqual([f["id"] for f in found["findings"]], ["rank.missing"])
        # Files that are named one by one need not belong together.
        self.run_ok("verify", "run/rank0.json", "run/rank2.json")
        self.put("run/rank1.json", "no trace")
        out, err = self.run_ok("verify", "run", status=1)
        self.assertIn("2 of 3 ranks; unreadable: 1 (", out)
        self.assertIn("rank1.json", err)

    def test_one_unreadable_file_does_not_end_the_others(self):
        self.put_ranks(3)
        self.put("run/rank1.json", "no trace")
        for words in (["analyze"], ["analyze", "--all"], ["analyze", "--findings"], ["report", "--text"]):
            out, err = self.run_ok(*words, "run", status=3)
            self.assertIn("2 of 3 ranks; unreadable: 1 (rank1.json)", " ".join(out.split()), words)
            self.assertIn("rank1.json", err)
        self.run_ok("report", "run", status=3)
        self.assertGreater(os.path.getsize(self.path("run.html")), 10000)
        for rank in (0, 2):
            self.put(f"run/rank{rank}.json", "no trace")
        self.run_ok("analyze", "run", status=2)

    def test_equal_findings_of_many_files_are_one_line(self):
        """A note of all files, a warning of two."""
        for rank in range(6):
            trace = rank_trace(rank, 6)
            if rank in (2, 4):
                trace["traceEvents"].append({"ph": "X", "cat": "cpu_op", "name": "late", "pid": 1, "tid": 9, "ts": 5, "dur": -3})
            self.put(f"run/rank{rank}.json", trace)
        out, _ = self.run_ok("verify", "run", status=1)
        words = " ".join(out.split())
        self.assertIn("4 of 6 traces are sound", words)
        self.assertIn("in rank 2, rank 4", words)
        self.assertNotIn("  note ", out)
        self.assertLessEqual(max(map(len, out.splitlines())), 100)
        verbose, _ = self.run_ok("verify", "-v", "run", status=1)
        rules = [line.split()[1] for line in verbose.splitlines() if line.startswith(("  note ", "  warning ", "  error "))]
        self.assertEqual(len(rules), len(set(rules)))

    def test_real_ranks(self):
        for version in ("1.8.1", "2.5.1", "2.15.0"):
            files = [os.path.join(DATA, f"torch-{version}", f"gloo-rank{n}.json.gz") for n in (0, 1)]
            counts = [self.info(f)["activities"] for f in files]
            self.run_ok("convert", *files, "-o", "t.json", "-q")
            self.assertEqual(self.info("t.json")["activities"], sum(counts))
            found = self.info(*files)
            self.assertEqual([t["rank"] for t in found["traces"]], [0, 1])


if __name__ == "__main__":
    main()

"""The NCCL source under the recorder, driven by the scripted host.

test_record.py versions|faults|chain|join|ranks|settings|headers|cost
"""

import json
import os
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.environ["CLI_TESTS"])
from command import CommandTest  # noqa: E402

CLIENT = os.environ["NCCL_CLIENT"]
SOURCE = os.environ["NCCL_SOURCE"]
OTHERS = os.environ["NCCL_OTHERS"]
SIM = os.environ["SIM"]
ROOT = os.environ["CKINETO_SOURCE"]
VERSIONS = range(1, 7)
TOLERANCE_US = 2000  # of GPU times, which are fitted between a launch and its report


def environment(**more):
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("CKINETO_NCCL", "NCCL_", "OTHER_", "RANK", "WORLD_SIZE"))}
    return {**plain, **more}


def skip(why):
    """Ends the program, which unittest would make an error of."""
    print(f"skipped: {why}", flush=True)
    os._exit(77)


class NcclTest(CommandTest):
    def host(self, version, scenario, *options, output="t.json", **more):
        """The scripted host under the recorder. @return its trace."""
        done = self.run_command("record", "-q", "-o", output, *options, "--", CLIENT, str(version), scenario,
                                env=environment(SIM=SIM, **more))
        self.assertEqual(done.returncode, 0, done.err)
        self.assertIn(b"errors 0", done.out)
        self.said = done.out.decode()
        self.trace = self.load(output)
        self.rows = [e for e in self.trace["traceEvents"] if e["ph"] == "X"]
        return self.trace

    def named(self, category, name):
        return [e for e in self.rows if e["cat"] == category and e["name"] == name]

    def reasons(self):
        return {line["reason"]: line["count"] for line in self.trace["ckineto"]["ledger"] if line["source"] == "NCCL"}


class Versions(NcclTest):
    def test_each_version_is_taken_and_recorded(self):
        for version in VERSIONS:
            self.host(version, "train")
            self.assertIn(f"version {version} ", self.said)
            self.assertEqual(self.lost(), 0)
            channels = version >= 3
            self.assertEqual(len(self.named("nccl", "nccl:all_reduce")), 5 + 10 * channels)
            self.assertEqual(len(self.named("user_annotation", "nccl:all_reduce")), 5)
            self.assertEqual(len(self.named("runtime", "ncclAllReduce")), 5 if version >= 5 else 0)
            self.assertEqual(self.named("nccl", "step"), [])  # not asked for

    def test_rows_are_below_their_communicator(self):
        self.host(6, "train")
        names = {e["pid"]: e["args"]["name"] for e in self.trace["traceEvents"] if e["ph"] == "M" and e["name"] == "process_name"}
        tracks = {(e["pid"], e["tid"]): e["args"]["name"] for e in self.trace["traceEvents"]
                  if e["ph"] == "M" and e["name"] == "thread_name"}
        for event in self.named("nccl", "nccl:all_reduce"):
            self.assertEqual(names[event["pid"]], "NCCL communicator dp")
            self.assertRegex(tracks[event["pid"], event["tid"]], r"^(collectives|channel [01])$")
        for event in self.named("nccl", "nccl:broadcast"):
            self.assertIn(names[event["pid"]], ("NCCL communicator dp", "NCCL communicator 77"))

    def test_gpu_times_lie_between_launch_and_report(self):
        for version in (4, 5, 6):
            self.host(version, "train")
            launches = {e["args"]["Seq"]: e for e in self.named("user_annotation", "nccl:all_reduce")}
            channels = [e for e in self.named("nccl", "nccl:all_reduce") if e["tid"] >= 16]
            self.assertEqual(len(channels), 10)
            for event in channels:
                self.assertGreaterEqual(event["ts"] + TOLERANCE_US, launches[event["args"]["Seq"]]["ts"])
                self.assertGreater(event["dur"], 50)  # 100 us of a clock that is 30 ppm too fast
            for whole in [e for e in self.named("nccl", "nccl:all_reduce") if e["tid"] == 0]:
                parts = [e for e in channels if e["args"]["Seq"] == whole["args"]["Seq"]]
                self.assertLessEqual(abs(min(e["ts"] for e in parts) - whole["ts"]), 0.01)
                self.assertLessEqual(abs(max(e["ts"] + e["dur"] for e in parts) - whole["ts"] - whole["dur"]), 0.01)


class Faults(NcclTest):
    def test_no_fault_is_an_error_or_a_crash(self):
        for version in (1, 4, 6):  # all of them in nccl.faults
            for scenario in ("wrong", "open", "threads", "fork"):
                self.host(version, scenario)

    def test_losses_are_in_the_ledger(self):
        self.host(6, "flood")
        lost = self.reasons()["too many open events"]
        self.assertGreater(lost, 0)
        self.assertEqual(self.lost(), lost)
        self.host(6, "open")
        self.assertGreaterEqual(self.reasons()["events that had not ended"], 2)
        self.assertEqual([e["args"]["not ended"] for e in self.named("nccl", "nccl:all_reduce")], [True])


class Chain(NcclTest):
    def chained(self, newest, version, scenario, mask=None, **more):
        """The other plug-in exports versions up to `newest`. @return the lines of its log."""
        log = self.path("log")
        if os.path.exists(log):
            os.unlink(log)
        others = f"{OTHERS}:{os.environ['LD_LIBRARY_PATH']}" if os.environ.get("LD_LIBRARY_PATH") else OTHERS
        more.setdefault("NCCL_PROFILER_PLUGIN", f"other{newest}")
        self.host(version, scenario, OTHER_LOG=log, LD_LIBRARY_PATH=others, **({"OTHER_MASK": str(mask)} if mask else {}), **more)
        if not os.path.exists(log):
            return []
        with open(log, encoding="latin-1") as file:
            return file.read().splitlines()

    def alone(self, newest, version, scenario, mask=None):
        """What it gets of the same host without ours."""
        log = self.path("alone")
        if os.path.exists(log):
            os.unlink(log)
        subprocess.run([CLIENT, str(version), scenario], check=True, stdout=subprocess.DEVNULL,
                       env=environment(OTHER_LOG=log, NCCL_PROFILER_PLUGIN=f"{OTHERS}/libnccl-profiler-other{newest}.so",
                                       **({"OTHER_MASK": str(mask)} if mask else {})))
        with open(log, encoding="latin-1") as file:
            return file.read().splitlines()

    def test_the_other_plug_in_gets_the_same_as_without_ours(self):
        for version in VERSIONS:
            for mask in (2, 0x7fff):
                self.assertEqual(self.chained(version, version, "train", mask), self.alone(version, version, "train", mask))
                self.assertEqual(self.lost(), 0)

    def test_an_older_plug_in_gets_its_own_version(self):
        for newest in VERSIONS:
            for version in {newest, 6}:
                lines = self.chained(newest, version, "train")
                starts = [line for line in lines if line.startswith("start")]
                of_colls = [line for line in starts if " type 2 " in line]
                self.assertEqual(len(of_colls), 15)
                self.assertEqual([line for line in lines if "foreign" in line or "again" in line or "parent -1" in line], [])
                self.assertEqual(len([line for line in lines if line.startswith("stop")]), len(starts))
                self.assertEqual(len([line for line in lines if line.startswith("init")]), 2)
                self.assertEqual(lines[-2:], ["finalize 1", "finalize 1"])
                self.assertIn("func 4 dtype 7 comm abcd0123 seq 0" if newest == 1 else
                              "func AllReduce dtype ncclFloat32 algo RING seq 0", of_colls[0])
                types = {int(re.search(r"type (\d+)", line)[1]) for line in starts}
                newest_type = 1 << (14 if newest == 6 else 11 if newest == 5 else 7 if newest >= 3 else 5)
                self.assertLessEqual(max(types), newest_type)
                self.assertEqual(len(self.named("user_annotation", "nccl:all_reduce")), 5)  # ours has all, too

    def test_it_gets_what_it_asked_for_and_no_more(self):
        lines = self.chained(6, 6, "train", mask=2)
        types = {re.search(r"type (\d+)", line)[1] for line in lines if line.startswith("start")}
        self.assertEqual(types, {"1", "2", "256", "512"})  # and what is around them

    def test_names_as_nccl_has_them(self):
        path = f"{OTHERS}/libnccl-profiler-other6.so"
        for name in ("other6", "libnccl-profiler-other6.so", path):
            self.assertTrue(self.chained(6, 6, "train", NCCL_PROFILER_PLUGIN=name), name)

    def test_what_cannot_be_chained_is_in_the_ledger(self):
        self.chained(6, 6, "train", NCCL_PROFILER_PLUGIN="/nowhere/libnccl-profiler-x.so")
        self.assertEqual(self.reasons()["profiler plug-ins that could not be loaded"], 1)
        self.assertEqual(len(self.named("user_annotation", "nccl:all_reduce")), 5)

    def test_its_error_ends_only_its_part(self):
        self.chained(6, 6, "train", OTHER_FAILS="1")
        self.assertEqual(len(self.named("user_annotation", "nccl:all_reduce")), 5)

    def test_none_is_respected(self):
        done = self.run_command("record", "-q", "-o", "t.json", "--", "/bin/sh", "-c", "echo $NCCL_PROFILER_PLUGIN",
                                env=environment(NCCL_PROFILER_PLUGIN="none"))
        self.assertEqual((done.returncode, done.out.strip()), (0, b"none"))
        self.assertIn("nccl", [line["source"] for line in self.ledger()])

    def test_faults_with_another_plug_in(self):
        for version in (1, 4, 6):
            for scenario in ("wrong", "threads", "flood"):
                self.chained(min(version, 4), version, scenario)


class Join(NcclTest):
    def table(self, *files):
        done = self.run_command("analyze", "--json", "--only", "collectives", *files)
        self.assertEqual(done.returncode, 0, done.err)
        return json.loads(done.out)

    def test_kernels_have_their_collective(self):
        for version in (1, 2, 3, 4, 5, 6):
            self.host(version, "train", "--plugin", SIM)
            self.assertEqual(self.lost(), 0)
            kernels = [e for e in self.rows if e["cat"] == "kernel"]
            self.assertEqual(len(kernels), 16)
            done = self.run_command("analyze", "--csv", self.path("tables"), "--only", "collectives", "--top", "0", "t.json")
            self.assertEqual(done.returncode, 0, done.err)
            with open(self.path("tables/collectives.csv")) as file:
                lines = [line.split(",") for line in file.read().splitlines()]
            head = [name.strip('"') for name in lines[0]]
            rows = [dict(zip(head, line)) for line in lines[1:]]
            of_dp = [(r["name"], int(r["seq"])) for r in rows if r["group"] == "abcd0123" and r["seq"]]
            expected = [name for i in range(5) for name in (("all_reduce", 2 * i), ("broadcast", 2 * i + 1))]
            self.assertEqual(of_dp, expected, version)
            self.assertEqual([int(r["seq"]) for r in rows if r["group"] == "77"], [0, 1, 2, 3, 4])

    def test_launches_enclose_the_call_of_the_driver(self):
        for version in (5, 6):
            self.host(version, "train", "--plugin", SIM)
            ranges = [e for e in self.rows if e["cat"] == "user_annotation" and e["name"].startswith("nccl:")]
            for call in [e for e in self.rows if e["name"] == "simLaunch"]:
                outer = [r for r in ranges if r["tid"] == call["tid"] and r["ts"] <= call["ts"]
                         and call["ts"] + call["dur"] <= r["ts"] + r["dur"] + 0.002]
                self.assertEqual(len(outer), 1)


class Ranks(NcclTest):
    def run_ranks(self, version, folder):
        barrier = self.path(f"barrier{version}")
        ranks = [self.start("record", "-q", "--plugin", SIM, "-o", f"{folder}/rank{{rank}}.json", "--", CLIENT, str(version), "train",
                            env=environment(SIM=SIM, BARRIER=barrier, RANK=str(rank), WORLD_SIZE="2")) for rank in (0, 1)]
        for rank in ranks:
            out, err = rank.communicate(timeout=200)
            self.assertEqual(rank.returncode, 0, (out, err))

    def test_ranks_are_joined_by_numbers_without_torch(self):
        for version in (4, 6):
            self.run_ranks(version, f"run{version}")
            done = self.run_command("analyze", f"run{version}/")
            self.assertEqual(done.returncode, 0, done.err)
            self.assertIn(b"2 ranks.", done.out)
            self.assertNotIn(b"Collectives differ", done.out)

    def test_the_header_has_the_rank(self):
        self.host(6, "train", RANK="1", WORLD_SIZE="2")
        info = self.trace["distributedInfo"]
        self.assertEqual((info["backend"], info["rank"], info["world_size"]), ("nccl", 1, 2))


class Settings(NcclTest):
    def mask(self):
        return int(re.search(r"mask (\d+)", self.said)[1])

    def test_options_choose_the_events(self):
        self.host(6, "train", "--plugin-config", "nccl.proxy=on nccl.steps=on nccl.net=on")
        self.assertEqual(len(self.named("nccl", "step")), 10)
        self.assertEqual({e["args"]["bytes"] for e in self.named("nccl", "step")}, {4096})
        self.assertEqual(len(self.named("nccl", "network")), 10)
        self.host(6, "train", CKINETO_NCCL="nccl.channels=off nccl.copies=off")
        self.assertEqual(len(self.named("nccl", "nccl:all_reduce")), 5)
        self.assertEqual(self.named("nccl", "batch of copies"), [])

    def test_kinds_choose_the_events(self):
        self.host(6, "train", "-a", "runtime")
        self.assertEqual({e["cat"] for e in self.rows if "nccl" in e["name"]}, {"runtime"})
        self.host(6, "train", "-a", "kernel")
        self.assertEqual([e for e in self.rows if "nccl:" in e["name"] and e["cat"] != "kernel"], [])

    def test_an_invalid_option_is_named(self):
        self.host(6, "train", "--plugin-config", "nccl.chanels=on")
        self.assertIn("nccl.chanels", json.dumps(self.trace["ckineto"]["ledger"]))

    def test_check_and_doctor(self):
        done = self.run_command("plugin", "check", SOURCE)
        self.assertEqual(done.returncode, 0, done.out.decode())
        self.assertIn(b"0 failed", done.out)
        done = self.run_command("doctor")
        self.assertRegex(done.out.decode(), r"(?m)^\w+ +nccl +(found|not found|permission)")

    def test_doctor_states(self):
        library = self.path("libnccl.so.2")
        source = "int ncclGetVersion(int *v) { *v = %s; return 0; }"
        for version, words in (("22703", "2.27.3; this source is untested on hardware"), ("22105", "loads no profiler plug-ins")):
            subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-o", library, "-"], input=source % version, text=True, check=True)
            done = self.run_command("doctor", env=environment(LD_LIBRARY_PATH=self.directory))
            self.assertIn(words, " ".join(done.out.decode().split()))
        if os.geteuid() != 0:  # root may read all
            os.chmod(library, 0)
            done = self.run_command("doctor", env=environment(LD_LIBRARY_PATH=self.directory))
            self.assertIn("permission", done.out.decode())


class Headers(NcclTest):
    """With NVIDIA's own headers: a folder that has nccl/profiler.h, as plugins/profiler/example of NCCL's sources."""

    def test_layouts_and_a_host_with_the_real_headers(self):
        folders = [f for f in (os.environ.get("CKINETO_NCCL_INCLUDE") or os.environ.get("NCCL_HEADERS", "")).split(";") if f]
        if not folders:
            self.tearDown()
            skip("CKINETO_NCCL_INCLUDE names no folder with nccl/profiler.h")
        here = os.path.dirname(os.path.abspath(__file__))
        for folder in folders:
            newest = max(int(n) for n in re.findall(r"profiler_v(\d+)\.h", " ".join(os.listdir(f"{folder}/nccl"))))
            program = self.path("real")
            subprocess.run(["cc", "-std=gnu11", "-w", f"-DNEWEST={min(newest, 6)}", f"-I{folder}", f"-I{ROOT}/plugins/nccl",
                            "-o", program, f"{here}/real_headers.c", "-ldl"], check=True)
            for version in range(1, min(newest, 6) + 1):
                done = self.run_command("record", "-q", "-o", "t.json", "--plugin-config", "nccl.proxy=on nccl.steps=on", "--",
                                        program, str(version), env=environment())
                self.assertEqual(done.returncode, 0, done.err)
                self.rows = self.slices()
                rows = self.named("nccl", "nccl:all_reduce")
                args = [e["args"] for e in rows if e["tid"] == 0]
                self.assertEqual([(a["Seq"], a["In msg nelems"], a["dtype"], a["NCCL Seq"]) for a in args], [(0, 4096, "float", 7)])
                self.assertEqual(len(self.named("nccl", "nccl:send")), 1)
                self.assertEqual([e["args"]["bytes"] for e in self.named("nccl", "step")], [512 if version >= 4 else 513])
                self.assertEqual(len(self.named("nccl", "nccl:all_gather")), 1 if version >= 6 else 0)
                self.assertEqual(len(self.named("runtime", "ncclAllReduce")), 1 if version >= 5 else 0)


class Cost(unittest.TestCase):
    """Ratios in one run of the benchmark, and bytes, which do not depend on the machine."""

    def test_cost_of_a_record(self):
        bench = os.path.join(os.path.dirname(CLIENT), "bench_nccl")
        if not os.path.exists(bench):
            skip("benchmarks are not built")
        done = subprocess.run([bench, "--short"], stdout=subprocess.PIPE, check=True, timeout=250, text=True)
        lines = {line["name"]: line for line in map(json.loads, done.stdout.splitlines())}
        self.assertLessEqual(lines["nccl_bytes"]["value"], 120)
        self.assertLess(lines["nccl_record"]["value"], 12 * lines["plugin_event"]["value"])  # 5 alone
        self.assertLess(lines["nccl_idle"]["value"], lines["nccl_record"]["value"])


if __name__ == "__main__":
    part = sys.argv.pop(1)
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(globals()[part.capitalize()])
    sys.exit(not unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful())

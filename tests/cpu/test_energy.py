"""Energy of processors (record --energy), by counters in a made sysfs: zones of powercap that the program itself fills,
and a PMU whose events are the kernel's clock of a CPU, 1 J for each second."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

COMMAND = os.environ["CKINETO"]
RANGE = 262143328850
SOFTWARE, CLOCK, DUMMY = 1, 0, 9  # of <linux/perf_event.h>
# Adds 2.5 J to the first zone, in 25 parts, and 1 J to the second, which wraps.
PROGRAM = """
import os, sys, time
files = [os.open(p, os.O_WRONLY) for p in sys.argv[1:]]
for i in range(1, 26):
    os.pwrite(files[0], b"%020d" % (1000000 + 100000 * i), 0)
    if len(files) > 1:
        os.pwrite(files[1], b"%020d" % ((262143328850 - 500000 + 40000 * i) % 262143328850), 0)
    time.sleep(0.01)
"""


class Energy(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        os.chmod(self.folder.name, 0o777)
        self.sysfs = os.path.join(self.folder.name, "sys")
        self.path = os.path.join(self.folder.name, "trace.json")
        os.mkdir(self.sysfs)

    def tearDown(self):
        self.folder.cleanup()

    def put(self, path, text):
        path = os.path.join(self.sysfs, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="ascii") as f:
            f.write(text)
        return path

    def put_zone(self, zone, name, energy):
        self.put(f"class/powercap/{zone}/name", name + "\n")
        self.put(f"class/powercap/{zone}/max_energy_range_uj", f"{RANGE}\n")
        return self.put(f"class/powercap/{zone}/energy_uj", f"{energy:020d}")

    def put_pmu(self, **events):
        self.put("bus/event_source/devices/power/type", f"{SOFTWARE}\n")
        self.put("bus/event_source/devices/power/cpumask", "0\n")
        for name, config in events.items():
            path = f"bus/event_source/devices/power/events/energy-{name}"
            self.put(path, f"event={config:#04x}\n")
            self.put(path + ".scale", "1e-9\n")
            self.put(path + ".unit", "Joules\n")

    def run_command(self, *arguments, before=(), **settings):
        environment = {k: v for k, v in os.environ.items() if k not in ("CKINETO_ENERGY", "CKINETO_CPU")}
        environment.update(CKINETO_SYSFS=self.sysfs, **settings)
        return subprocess.run([*before, COMMAND, *arguments], env=environment, capture_output=True, text=True, timeout=100)

    def record(self, *program, options=("--energy",), **more):
        done = self.run_command("record", "-v", "-o", self.path, *options, "--", *program, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.path, encoding="utf-8") as f:
            trace = json.load(f)
        self.names = {e["pid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"}
        self.series = {}
        for e in trace["traceEvents"]:
            if e["ph"] == "C" and "energy" in e["name"]:
                (key, value), = e["args"].items()
                self.series.setdefault((self.names[e["pid"]], key), []).append((float(e["ts"]), value))
        return done.stdout + done.stderr

    def table(self):
        path = os.path.join(self.folder.name, "table.json")
        done = self.run_command("analyze", "--json=" + path, "--only", "energy", self.path)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(path, encoding="utf-8") as f:
            found = json.load(f)["tables"]
        found = found["energy"] if isinstance(found, dict) else found[0]
        columns = [c["name"] if isinstance(c, dict) else c for c in found["columns"]]
        return {row["device"]: row for row in (dict(zip(columns, r)) for r in found["rows"]) if row["step"] == "all"}

    def doctor(self, **more):
        done = self.run_command("doctor", "--json", **more)
        return next((p["verdict"], p["text"]) for p in json.loads(done.stdout)["probes"] if p["name"] == "cpu energy")

    def test_each_package_has_a_row(self):
        files = [self.put_zone("intel-rapl:0", "package-0", 1000000),
                 self.put_zone("intel-rapl:1", "package-1", RANGE - 500000)]
        text = self.record(sys.executable, "-c", PROGRAM, *files)
        self.assertNotIn("energy: not", text)
        self.assertEqual(set(self.series), {("CPU package 0", "energy [J]"), ("CPU package 1", "energy [J]")})
        for package, joules in ((0, 2.5), (1, 1.0)):
            samples = self.series[f"CPU package {package}", "energy [J]"]
            self.assertEqual(samples, sorted(samples))
            self.assertEqual(samples[0][1], 0)
            self.assertAlmostEqual(samples[-1][1], joules, places=9)
        table = self.table()
        self.assertEqual(set(table), {"CPU package 0", "CPU package 1"})
        self.assertGreater(table["CPU package 0"]["joules"], table["CPU package 1"]["joules"])
        self.assertLessEqual(table["CPU package 0"]["joules"], 2.5)
        verdict = self.run_command("verify", self.path).stdout
        self.assertRegex(verdict, "sound")
        self.assertRegex(self.run_command("info", self.path).stdout, "CPU energy +energy +J ")
        rows = json.loads(self.run_command("info", "--json", self.path).stdout)["processes"]
        packages = [row for row in rows if row["name"].startswith("CPU package")]
        self.assertEqual([row["device"] for row in packages], [True, True])
        self.assertFalse(any("busy_ns" in row for row in packages), "they are not shown as idle devices")

    def test_the_pmu_measures_what_the_kernel_counts(self):
        self.put_pmu(pkg=CLOCK, ram=CLOCK, psys=DUMMY)
        text = self.record("sleep", "1.2")
        if "energy: not available here" in text:
            self.skipTest("this user may not count on a CPU")
        table = self.table()
        self.assertEqual(set(table), {"CPU package 0", "DRAM of CPU package 0"})
        for row in table.values():
            self.assertAlmostEqual(row["mean_watts"], 1, delta=0.1)
        self.assertRegex(text, r"energy: not measured.*1")
        self.assertIn("Platform energy (Platform) did not grow", text)
        self.assertNotIn("Platform", self.names.values())

    def test_it_is_off_by_default_and_has_a_setting(self):
        file = self.put_zone("intel-rapl:0", "package-0", 1000000)
        self.record(sys.executable, "-c", PROGRAM, file, options=())
        self.assertFalse(self.series)
        self.put_zone("intel-rapl:0", "package-0", 1000000)
        self.record(sys.executable, "-c", PROGRAM, file, options=("--kinds", "cpu_op"), CKINETO_ENERGY="on")
        self.assertEqual(self.series["CPU package 0", "energy [J]"][-1][1], 2.5)
        done = self.run_command("record", "-o", self.path, "--", "true", CKINETO_ENERGY="perhaps")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("CKINETO_ENERGY is on or off, not 'perhaps'", done.stderr)

    def test_a_program_that_runs_already(self):
        self.put_pmu(pkg=CLOCK)
        with subprocess.Popen(["sleep", "60"]) as program:
            done = self.run_command("record", "-v", "-o", self.path, "--energy", "--seconds", "0.5", "--pid", str(program.pid))
            program.kill()
        if "energy: not available here" in done.stdout + done.stderr or "cannot be watched" in done.stderr:
            self.skipTest(done.stderr)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertAlmostEqual(self.table()["CPU package 0"]["mean_watts"], 1, delta=0.1)

    def test_a_machine_without_counters(self):
        self.assertIn("energy: not available here", self.record("true"))
        self.assertFalse(self.series)
        verdict, text = self.doctor()
        self.assertEqual(verdict, "absent")
        self.assertIn("no counters of energy", text)

    def test_counters_that_stay_0(self):
        self.put_zone("intel-rapl:0", "package-0", 0)
        text = self.record("sleep", "0.1")
        self.assertIn("CPU energy (CPU package 0) did not grow", text)
        self.assertFalse(self.series)
        self.assertNotIn("CPU package 0", self.names.values())
        verdict, text = self.doctor()
        self.assertEqual(verdict, "absent")
        self.assertIn("do not count here", text)

    def test_doctor_finds_counters(self):
        self.put_pmu(pkg=CLOCK)
        verdict, text = self.doctor()
        if verdict == "note":
            self.skipTest("this user may not count on a CPU")
        self.assertEqual((verdict, text.split(";")[0]), ("ok", "CPU energy (CPU package 0)"))

    def test_without_permission(self):
        with open("/proc/sys/kernel/perf_event_paranoid", encoding="ascii") as f:
            if int(f.read()) <= 0 or os.geteuid() != 0 or not shutil.which("setpriv"):
                self.skipTest("another user, who may not read the counters, is needed")
        self.put_pmu(pkg=CLOCK)
        os.chmod(self.put_zone("intel-rapl:0", "package-0", 5), 0o400)
        user = ("setpriv", "--reuid=65534", "--clear-groups")
        text = self.record("true", before=user)
        self.assertIn("energy: not available here", text)
        self.assertIn("record as root, with CAP_PERFMON", text)
        verdict, text = self.doctor(before=user)
        self.assertEqual(verdict, "note")
        self.assertIn("record as root, with CAP_PERFMON", text)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""The recipes of integrations/ for engines that run many tasks: each gives the bytes that one process gives, with a
rank that cannot be read, and with a task that is killed.

    test_cluster.py slurm|openmpi|mpich|dask|ray|kubernetes     (77: what it needs is not installed)
"""

import json
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent.parent
sys.path.insert(0, str(HERE))
import local_slurm  # noqa: E402

CKINETO = os.environ.get("CKINETO", str(SOURCE / "build/dev/bin/ckineto"))
UNREADABLE, RANKS = 5, 8


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def write_rank(folder, rank):
    """A rank of a job that does three all-reduces in each of four steps."""
    events, start = [], 1_000_000.0
    for step in range(4):
        begin = start
        for nth in range(3):
            at = start + 100 + 10 * (rank == 2)
            args = {"stream": 7, "device": rank, "correlation": 1 + step * 3 + nth, "Collective name": "allreduce",
                    "In msg nelems": 1024, "Out msg nelems": 1024, "Group size": RANKS, "dtype": "Float",
                    "Process Group Name": "0", "Process Group Description": "default_pg",
                    "Process Group Ranks": str(list(range(RANKS))), "Seq": step * 3 + nth}
            events.append({"ph": "X", "cat": "kernel", "name": "gemm", "pid": rank, "tid": 8, "ts": start, "dur": at - start,
                           "args": {"stream": 8, "device": rank, "correlation": 100 + step * 3 + nth}})
            events.append({"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "pid": rank,
                           "tid": 7, "ts": at, "dur": start + 130 - at, "args": args})
            start += 140
        events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 1, "tid": 1,
                       "ts": begin, "dur": start - begin})
    trace = {"schemaVersion": 1, "traceEvents": events,
             "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": RANKS, "pg_count": 1}}
    (folder / f"rank{rank}.json").write_text(json.dumps(trace), encoding="utf-8")


def write_script(path, text):
    path.write_text(text, encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


class Engine(unittest.TestCase):
    """What all engines share: a run with one bad file, and what one process makes of it."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ckineto-cluster-"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.run_folder = self.folder / "run"
        self.run_folder.mkdir()
        for rank in range(RANKS):
            write_rank(self.run_folder, rank)
        (self.run_folder / f"rank{UNREADABLE}.json").write_text('{"traceEvents": [nonsense', encoding="utf-8")
        self.wanted = self.folder / "alone.ckrun"
        facts = self.folder / "alone.facts"
        self.assertEqual(self.run_command(CKINETO, "facts", self.run_folder, "-o", facts).returncode, 3)
        reduced = self.run_command(CKINETO, "reduce", facts, "-o", self.wanted)
        self.assertEqual(reduced.returncode, 3, reduced.stderr)

    def run_command(self, *command, ckineto=CKINETO):
        return subprocess.run([str(one) for one in command], capture_output=True, text=True, check=False, timeout=500,
                              env=dict(os.environ, CKINETO=ckineto))

    def check_result(self, path, said):
        self.assertIn(str(UNREADABLE), said)
        self.assertEqual(path.read_bytes(), self.wanted.read_bytes(), "not the bytes of one process")

    def write_command_that_dies_once(self, kill):
        """A command whose first call for the second part ends in the middle."""
        return write_script(self.folder / "dies", f"""#!/bin/sh
if [ "$1" = facts ] && [ ! -e {self.folder}/died ] && echo "$*" | grep -q -e '--shard 1/'; then
    touch {self.folder}/died
    kill -9 {kill}
fi
exec {CKINETO} "$@"
""")


class Slurm(Engine):
    def setUp(self):
        super().setUp()
        self.slurm = local_slurm.LocalSlurm(self.folder / "slurm")
        self.slurm.__enter__()
        self.addCleanup(self.slurm.stop)

    def submit(self, command, *options):
        self.slurm.environment["CKINETO"] = command
        return self.slurm.run(SOURCE / "integrations/slurm/ckineto-slurm", "--tasks", "4", "-o",
                              self.folder / "run.ckrun", *options, self.run_folder, check=False, cwd=self.folder)

    def test_bad_rank_and_killed_task(self):
        done = self.submit(self.write_command_that_dies_once("$$"), "--wait")
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertTrue((self.folder / "died").exists())
        self.check_result(self.folder / "run.ckrun", done.stdout)

    def test_job_that_is_cancelled_is_reduced_and_says_what_is_missing(self):
        slow = write_script(self.folder / "slow", f"""#!/bin/sh
[ "$1" = reduce ] || sleep 600
exec {CKINETO} "$@"
""")
        done = self.submit(slow)
        self.assertEqual(done.returncode, 0, done.stderr)
        array = done.stdout.split()[2]
        self.slurm.run("scancel", array)
        states = self.slurm.wait_for_jobs()
        self.assertIn("FAILED", states.values())
        said = (self.folder / "run.facts/reduce.log").read_text(encoding="utf-8")
        self.assertIn("facts", said)
        self.assertFalse((self.folder / "run.ckrun").exists())
        self.submit(CKINETO)
        self.slurm.wait_for_jobs()
        self.check_result(self.folder / "run.ckrun",
                          (self.folder / "run.facts/reduce.log").read_text(encoding="utf-8"))

    def test_mistakes_are_told_before_anything_is_submitted(self):
        for options, word in ((["--tasks", "0"], "--tasks"), (["--nonsense"], "--nonsense"), (["-o"], "-o")):
            done = self.slurm.run(SOURCE / "integrations/slurm/ckineto-slurm", self.run_folder, *options, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn(word, done.stderr)


class Mpi(Engine):
    launch, command = [], ""

    def run_job(self, count, name, ckineto=CKINETO):
        return self.run_command(*self.launch, "-n", count, self.command, "-o", self.folder / name, self.run_folder,
                                ckineto=ckineto)

    def test_same_bytes_for_any_number_of_processes(self):
        for count in (1, 2, 4):
            done = self.run_job(count, f"of{count}.ckrun")
            self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
            self.check_result(self.folder / f"of{count}.ckrun", done.stdout + done.stderr)

    def test_command_that_dies_costs_its_traces_and_the_next_job_goes_on(self):
        dying = self.write_command_that_dies_once("$$")
        done = self.run_job(2, "run.ckrun", dying)
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertIn("ended with 137", done.stderr)
        done = self.run_job(2, "run.ckrun", dying)
        self.check_result(self.folder / "run.ckrun", done.stdout + done.stderr)

    def test_usage(self):
        done = self.run_command(*self.launch, "-n", 1, self.command, "-o")
        self.assertEqual(done.returncode, 2)
        self.assertIn("Usage", done.stderr)


class OpenMpi(Mpi):
    launch = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"]
    command = os.environ.get("CKINETO_MPI_OPENMPI", "")


class Mpich(Mpi):
    launch = ["mpirun.mpich"]
    command = os.environ.get("CKINETO_MPI_MPICH", "")


class Recipe(Engine):
    script = None

    def run_recipe(self, name, ckineto=CKINETO):
        done = self.run_command(sys.executable, "-B", self.script, "--shards", 4, "-o", self.folder / name,
                                self.run_folder, ckineto=ckineto)
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.check_result(self.folder / name, done.stdout + done.stderr)

    def test_bad_rank_and_killed_worker(self):
        self.run_recipe("run.ckrun")
        self.run_recipe("again.ckrun", self.write_command_that_dies_once("$PPID"))
        self.assertTrue((self.folder / "died").exists())


class Dask(Recipe):
    script = SOURCE / "integrations/dask/ckineto_dask.py"


class Ray(Recipe):
    script = SOURCE / "integrations/ray/ckineto_ray.py"


class Kubernetes(unittest.TestCase):
    """Manifests against the schema of Kubernetes: no cluster is needed, and none was tried."""

    def test_schema(self):
        import kubernetes_validate
        import yaml
        for path in sorted((SOURCE / "integrations/kubernetes").glob("*.yaml")):
            for one in yaml.safe_load_all(path.read_text(encoding="utf-8")):
                kubernetes_validate.validate(one, "1.33", strict=True)

    def test_numbers_of_parts_agree(self):
        import yaml
        job = yaml.safe_load((SOURCE / "integrations/kubernetes/ckineto-ranks.yaml").read_text(encoding="utf-8"))
        spec = job["spec"]
        self.assertEqual(spec["completionMode"], "Indexed")
        self.assertIn(f"$JOB_COMPLETION_INDEX/{spec['completions']}\"",
                      spec["template"]["spec"]["containers"][0]["args"][0])


PARTS = {"slurm": Slurm, "openmpi": OpenMpi, "mpich": Mpich, "dask": Dask, "ray": Ray, "kubernetes": Kubernetes}
MODULES = {"dask": ["distributed"], "ray": ["ray"], "kubernetes": ["kubernetes_validate", "yaml"]}


def main():
    part = sys.argv.pop(1)
    if part == "slurm" and (why := local_slurm.find_missing()):
        skip(why)
    if issubclass(PARTS[part], Mpi) and not (PARTS[part].command and shutil.which(PARTS[part].launch[0])):
        skip(f"{part} is not installed")
    for module in MODULES.get(part, []):
        try:
            __import__(module)
        except ImportError:
            skip(f"Python's module {module} is not installed")
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(PARTS[part])
    sys.exit(not unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful())


if __name__ == "__main__":
    main()

"""MPI programs of four ranks, of which one has more to do: `ckineto analyze --findings` names this rank.

test_stragglers.py openmpi|mpich [SEED]

A busy machine makes other ranks late, too: a run whose answer is wrong is repeated with a larger plant. With a seed, eight
runs have the smallest plants, and are counted instead.
"""
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

COMMAND = os.environ.get("CKINETO", "")
PROGRAMS = os.environ.get("MPI_PROGRAMS", "")
RANKS, STEPS = 4, 40
# One for each rank: of a step of 4 ms of processor time.
PLANTS = [("ring", "sleep", 15), ("groups", "compute", 3), ("sendrecv", "step", 600), ("ring", "compute", 3)]
ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_btl": "self,vader",
               "OMPI_MCA_mpi_yield_when_idle": "1", "HYDRA_IFACE": "lo"}


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def late_rank(folder):
    """The rank of communication.imbalance; None: it was not found."""
    done = subprocess.run([COMMAND, "analyze", "--findings", "--json", folder], capture_output=True, text=True, timeout=250, check=False)
    if done.returncode:
        raise AssertionError(f"{done.returncode}: {done.stderr}")
    found = [f["rank"] for f in json.loads(done.stdout)["findings"] if f["id"] == "communication.imbalance"]
    return found[0] if found else None


class Stragglers(unittest.TestCase):
    library = launcher = None

    def run_plant(self, program, plant, rank):
        """@return the rank that is named."""
        with tempfile.TemporaryDirectory(prefix="ckineto-mpi-") as folder:
            done = subprocess.run([*self.launcher, "-np", str(RANKS), COMMAND, "record", "-q", "--budget", "100%", "-o",
                                   "run/rank{rank}.json", "--", os.path.join(PROGRAMS, f"stencil_{self.library}"), program, plant,
                                   str(rank), str(STEPS // 2)],
                                  cwd=folder, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True, timeout=250, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            return late_rank(f"{folder}/run")

    def test_the_rank_with_more_to_do_is_named(self):
        for rank, (program, kind, value) in enumerate(PLANTS):
            for factor in (1, 3, 9):
                named = self.run_plant(program, f"{kind}={value * factor}", rank)
                if named == rank:
                    break
            self.assertEqual(named, rank, (self.library, program, kind, value * factor))


def measure(seed):
    numbers = random.Random(seed)
    case = Stragglers()
    for program, kind, value in [*PLANTS, *PLANTS, ("ring", "none", 0), ("groups", "none", 0)]:
        rank = numbers.randrange(RANKS)
        named = case.run_plant(program, f"{kind}={value}", rank)
        verdict = {rank: "right", None: "silent"}.get(named, "wrong") if kind != "none" else "silent" if named is None else "false alarm"
        print(f"{verdict:11} {case.library} {program} {kind}={value} rank {rank}: {named}, load {os.getloadavg()[0]:.1f}", flush=True)


if __name__ == "__main__":
    library = sys.argv.pop(1) if len(sys.argv) > 1 else sys.exit(__doc__)
    found = shutil.which({"openmpi": "mpirun.openmpi", "mpich": "mpiexec.mpich"}[library])
    if not found or not os.path.exists(os.path.join(PROGRAMS, f"stencil_{library}")):
        skip(f"{library} is not installed")
    Stragglers.library, Stragglers.launcher = library, [found] + ["--oversubscribe"] * (library == "openmpi")
    if len(sys.argv) > 1:
        measure(int(sys.argv[1]))
    else:
        unittest.main()

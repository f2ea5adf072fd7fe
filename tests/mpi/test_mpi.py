"""The MPI source with real MPI libraries: what is recorded equals what the program counted itself.

test_mpi.py openmpi|mpich|hosts|table|command|peers
"""

import collections
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

COMMAND = os.environ.get("CKINETO", "")
PROGRAMS = os.environ.get("MPI_PROGRAMS", "")
SOURCE = os.environ.get("CKINETO_SOURCE", "")
PEERS = os.path.join(SOURCE, "build/peers/mpi")
TYPE_BYTES = {"double": 8, "int": 4, "byte": 1, "char": 1}
DELAY_US = 200000  # more than a busy machine delays by itself


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


class Library:
    """An MPI library: how its programs are started and made."""

    def __init__(self, name, launcher, suffix, variables=None):
        self.name, self.launcher, self.suffix = name, launcher, suffix
        self.environment = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                            # one host, whatever its network is
                            "OMPI_MCA_btl": "self,vader", "HYDRA_IFACE": "lo",
                            # waiting ranks let others run, on a busy machine
                            "OMPI_MCA_mpi_yield_when_idle": "1",
                            "PRTE_ALLOW_RUN_AS_ROOT": "1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                            **(variables or {})}

    def program(self, name):
        return os.path.join(PROGRAMS, f"{name}_{self.suffix}")

    def run(self, *words, directory, outside=()):
        """Two ranks of a command. @return its standard output."""
        environment = {**os.environ, **self.environment}
        done = subprocess.run([*outside, *self.launcher, "-np", "2", *words], cwd=directory, env=environment,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=250)
        if done.returncode:
            raise AssertionError(f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done.stdout


def own_counts(output):
    """What each rank counted itself: {rank: {function: [calls, bytes]}}."""
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return {line["rank"]: line["counts"] for line in lines}


def load(path):
    with open(path) as f:
        return json.load(f)


def calls_of(trace):
    return [e for e in trace["traceEvents"] if e["ph"] == "X" and e["cat"] in ("mpi", "collective_comm")]


def bytes_of(call):
    args = call["args"]
    if "In msg nelems" in args:
        return max(args["In msg nelems"], args["Out msg nelems"]) * TYPE_BYTES[args["dtype"]]
    return args.get("bytes", 0)


def counts_of(trace):
    counts = collections.defaultdict(lambda: [0, 0])
    for call in calls_of(trace):
        counts[call["name"]][0] += 1
        counts[call["name"]][1] += bytes_of(call)
    return dict(counts)


def messages_of(traces):
    """Ids of messages: those that were sent, those that were received."""
    sent, received = [], []
    for trace in traces:
        for call in calls_of(trace):
            for key, value in call["args"].items():
                if key.startswith("Message"):
                    ids = value if isinstance(value, list) else [value]
                    (sent if key.endswith("out") else received).extend(i for i in ids if i)
    return sorted(sent), sorted(received)


class WithLibrary(unittest.TestCase):
    library = None
    message_count = None

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="ckineto-mpi-")
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)

    def ckineto(self, *words):
        return subprocess.run([COMMAND, *words], cwd=self.directory, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=250)

    def record(self, program, *words):
        """@return what the program printed, and the traces of both ranks."""
        output = self.library.run(COMMAND, "record", "-q", "--budget", "100%", "-o", "run/rank{rank}.json", "--",
                                  self.library.program(program), *words, directory=self.directory)
        return output, [load(f"{self.directory}/run/rank{rank}.json") for rank in range(2)]

    def check_counts(self, output, traces):
        own = own_counts(output)
        self.assertEqual(sorted(own), [0, 1])
        for rank, trace in enumerate(traces):
            self.assertEqual(counts_of(trace), own[rank], f"rank {rank}")
            info = trace["distributedInfo"]
            self.assertEqual((info["backend"], info["rank"], info["world_size"]), ("mpi", rank, 2))
        sent, received = messages_of(traces)
        self.assertEqual(sent, received)
        self.assertEqual(len(sent), len(set(sent)))
        return len(sent)

    def test_what_is_recorded_is_what_the_program_counted(self):
        bare = self.library.run(self.library.program("client"), "bare", "1000", directory=self.directory)
        output, traces = self.record("client", "file", "1000")
        self.assertEqual(own_counts(output), own_counts(bare))
        with open(f"{self.directory}/bare") as a, open(f"{self.directory}/file") as b:
            self.assertEqual(a.read(), b.read())
        messages = self.check_counts(output, traces)
        self.assertEqual(messages, 38)
        self.check_collectives(traces)
        self.check_merged(messages)

    def test_the_rank_that_is_late_is_found(self):
        """The longer rank 0 is late, the less it matters what a busy machine does to both."""
        for factor in (1, 3, 9):
            shutil.rmtree(f"{self.directory}/run", ignore_errors=True)
            self.record("client", "file", str(factor * DELAY_US))
            try:
                self.check_findings(factor * DELAY_US)
                return
            except AssertionError:
                if factor == 9:
                    raise

    def check_collectives(self, traces):
        """Ranks agree about communicators and sequence numbers."""
        lists = [[(e["name"], e["args"]["Process Group Name"], e["args"]["Seq"], e["args"]["Group size"])
                  for e in calls_of(trace) if e["cat"] == "collective_comm"] for trace in traces]
        self.assertEqual(lists[0], lists[1])
        world = [seq for _, group, seq, _ in lists[0] if group == "world"]
        self.assertEqual(world, list(range(len(world))))
        reduction = next(e for e in calls_of(traces[0]) if e["name"] == "MPI_Reduce")
        self.assertEqual(reduction["args"]["Op"], "min")
        self.assertEqual(reduction["args"]["Root Rank"], 1)
        self.assertEqual(reduction["args"]["Collective name"], "reduce")

    def check_merged(self, messages):
        done = self.ckineto("convert", "run", "-o", "merged.json")
        self.assertEqual(done.returncode, 0, done.stderr)
        starts = [e for e in load(f"{self.directory}/merged.json")["traceEvents"] if e["ph"] == "s"]
        self.assertEqual(len(starts), messages)
        done = self.ckineto("verify", "merged.json")
        self.assertEqual(done.returncode, 0, done.stdout)

    def check_findings(self, delay_us):
        """Rank 0 came late to a barrier, to a send and to a receive."""
        done = self.ckineto("analyze", "--findings", "--json=findings.json", "run")
        self.assertEqual(done.returncode, 0, done.stderr)
        found = {f["id"]: f for f in load(f"{self.directory}/findings.json")["findings"]}
        for rule in ("communication.imbalance", "mpi.late_sender", "mpi.late_receiver"):
            self.assertIn(rule, found)
            self.assertEqual(found[rule]["rank"], 0, rule)
        self.ckineto("analyze", "--only", "mpi_peers,stragglers", "--json=facts.json", "run")
        tables = load(f"{self.directory}/facts.json")["tables"]
        peers = {(r["from_rank"], r["to_rank"]): r for r in rows_of(tables, "mpi_peers")}
        self.assertEqual(sum(r["messages"] for r in peers.values()), 38)
        late = delay_us / 2  # much of it, however the machine is loaded
        self.assertGreater(peers[0, 1]["late_sender_us"], late)
        self.assertGreater(peers[1, 0]["late_receiver_us"], late)
        self.assertEqual(rows_of(tables, "stragglers")[0]["rank"], 0)

    def test_one_recorder_around_the_launcher_has_all_ranks(self):
        output = self.library.run(self.library.program("client"), directory=self.directory,
                                  outside=(COMMAND, "record", "-q", "--budget", "100%", "-o", "all.json", "--"))
        trace = load(f"{self.directory}/all.json")
        own = own_counts(output)
        both = collections.Counter()
        for counts in own.values():
            both.update({name: value[0] for name, value in counts.items()})
        self.assertEqual({k: v[0] for k, v in counts_of(trace).items()}, dict(both))
        self.assertEqual(len([e for e in trace["traceEvents"] if e["ph"] == "s"]), 36)
        self.assertEqual(sorted(p["rank"] for p in trace["ckineto"]["processes"] if "rank" in p), [0, 1])

    def test_messages_of_threads_keep_apart(self):
        if not os.path.exists(self.library.program("threads")):
            self.skipTest("not built for this library")
        output, traces = self.record("threads")
        sent, received = messages_of(traces)
        self.assertEqual(len(sent), sum(int(line) for line in output.split()))
        self.assertEqual(sent, received)
        self.assertEqual(len(sent), len(set(sent)))

    def test_python_is_recorded(self):
        python = os.path.join(os.path.dirname(self.library.launcher[0]), "python")
        if not os.path.exists(os.path.join(os.path.dirname(python), "../mpi4py-is-here")):
            self.skipTest("mpi4py is not installed for this library")
        self.library.run(COMMAND, "record", "-q", "--budget", "100%", "-o", "run/rank{rank}.json", "--", python,
                         f"{SOURCE}/tests/mpi/program.py", directory=self.directory)
        traces = [load(f"{self.directory}/run/rank{rank}.json") for rank in range(2)]
        sent, received = messages_of(traces)
        self.assertEqual(sent, received)
        self.assertGreaterEqual(len(sent), 3)
        self.assertEqual([counts_of(trace)["MPI_Barrier"][0] for trace in traces], [1, 1])

    def test_fortran_is_recorded_once(self):
        if not os.path.exists(self.library.program("fortran")):
            self.skipTest("no Fortran compiler")
        output, traces = self.record("fortran", "file")
        self.assertEqual(self.check_counts(output, traces), 9)
        names = [e["args"]["File name"] for e in calls_of(traces[0]) if e["name"] == "MPI_File_open"]
        self.assertEqual(names, ["file"])


def rows_of(tables, name):
    """Rows of a table of facts as dictionaries."""
    table = tables[name] if isinstance(tables, dict) else next(t for t in tables if t["name"] == name)
    rows = table["rows"] if isinstance(table, dict) else table
    if rows and isinstance(rows[0], list):
        columns = [c["name"] if isinstance(c, dict) else c for c in table["columns"]]
        return [dict(zip(columns, row)) for row in rows]
    return rows


class Command(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="ckineto-mpi-")
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)

    def record(self, *words, **variables):
        return subprocess.run([COMMAND, "record", "--no-summary", *words], cwd=self.directory, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60,
                              env={**os.environ, **variables})

    def test_the_rank_of_each_launcher_names_the_output(self):
        for number, name in enumerate(("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")):
            done = self.record("-o", "new/r{rank}-{rank}.json", "--", "true", **{name: str(number)})
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(os.path.exists(f"{self.directory}/new/r{number}-{number}.json"), done.stderr)
        done = self.record("-o", "s{rank}.json", "--", "true", SLURM_PROCID="7", SLURM_STEP_ID="0")
        self.assertTrue(os.path.exists(f"{self.directory}/s7.json"), done.stderr)

    def test_without_a_launcher_the_placeholder_is_an_error(self):
        for variables in ({}, {"RANK": "first"}, {"SLURM_PROCID": "0"}):
            done = self.record("-o", "r{rank}.json", "--", "true", **variables)
            self.assertEqual(done.returncode, 125)
            self.assertIn("no launcher has set a rank for {rank}", done.stderr)

    def test_ranks_do_not_overwrite_each_other(self):
        done = self.record("--", "true", RANK="1", WORLD_SIZE="2")
        self.assertTrue(os.path.exists(f"{self.directory}/trace-rank1.json"), done.stderr)
        done = self.record("-o", "one.json", "--", "true", RANK="0", WORLD_SIZE="2")
        self.assertIn("all 2 ranks write to the same file", done.stderr)

    def test_mpi_is_preloaded_where_it_is_likely(self):
        def preloaded(*words, **variables):
            done = self.record("-q", "-o", "t.json", *words, "sh", "-c", "echo $LD_PRELOAD", **variables)
            return "libckineto-mpi" in done.stdout

        self.assertFalse(preloaded("--"))
        self.assertTrue(preloaded("--mpi", "on", "--"))
        self.assertTrue(preloaded("--", PMI_RANK="0"))
        self.assertFalse(preloaded("--mpi", "off", "--", PMI_RANK="0"))
        self.assertFalse(preloaded("--", RANK="0"))
        done = self.record("--mpi", "perhaps", "--", "true")
        self.assertEqual(done.returncode, 125)
        self.assertIn("--mpi is on, off or auto, not 'perhaps'", done.stderr)

    def test_a_program_that_needs_mpi_is_recognised_by_its_file(self):
        for mpi in ("openmpi", "mpich"):
            program = os.path.join(PROGRAMS, f"cost_{mpi}")
            if not os.path.exists(program):
                continue
            done = self.record("-q", "-o", "t.json", "--", program, "10", OMPI_MCA_btl="self")
            self.assertEqual(done.returncode, 0, done.stderr)
            calls = counts_of(load(f"{self.directory}/t.json"))
            self.assertIn("MPI_Allreduce", calls)


class Table(unittest.TestCase):
    """calls.def against a header of MPI."""

    TYPES = {"COUNT": "int", "COUNT2": "int", "TYPE": "MPI_Datatype", "TYPE2": "MPI_Datatype", "PEER": "int",
             "PEER2": "int", "TAG": "int", "TAG2": "int", "COMM": "MPI_Comm", "ROOT": "int", "OP": "MPI_Op",
             "REQUEST": "MPI_Request", "REQUESTS": "int", "STATUS": "MPI_Status", "FLAG": "int", "INDEX": "int",
             "DONE": "int", "MESSAGE": "MPI_Message", "NEW_COMM": "MPI_Comm", "FILE_NAME": "char"}
    NAMES = {"PEER": ("dest", "source", "src"), "PEER2": ("source",), "TAG": ("tag", "sendtag"), "TAG2": ("recvtag",),
             "ROOT": ("root",), "FLAG": ("flag",), "DONE": ("outcount",)}

    def test_arguments_are_those_of_the_header(self):
        header = next((p for p in ("/usr/include/x86_64-linux-gnu/mpich/mpi_proto.h",
                                   "/usr/include/aarch64-linux-gnu/mpich/mpi_proto.h") if os.path.exists(p)), None)
        if not header:
            skip("libmpich-dev is not installed")
        functions = {}
        for path in (header, header.replace("mpi_proto.h", "mpio.h")):
            with open(path) as f:
                functions.update(re.findall(r"^int (MPI_\w+)\(([^;]*?)\)[^;]*;", f.read(), re.M | re.S))
        with open(f"{SOURCE}/plugins/mpi/calls.def") as f:
            calls = re.findall(r"^(CALL|LARGE|SPECIAL)\((\w+), (\w+), (\d+), (\w+), (\w+)(.*?)\)$", f.read(), re.M | re.S)
        self.assertGreater(len(calls), 100)
        for macro, name, fortran, count, _, _, roles in calls:
            arguments = functions[f"MPI_{name}"].strip()
            arguments = [] if arguments == "void" else [a.strip() for a in arguments.split(",")]
            self.assertEqual(len(arguments), int(count), name)
            self.assertEqual(fortran, name.lower())
            for role, position in re.findall(r"(\w+)\((\d+)\)?", roles):
                argument = arguments[int(position) - 1]
                self.assertIn(self.TYPES[role], argument, f"{name}: {role}")
                words = self.NAMES.get(role)
                self.assertTrue(not words or any(w in argument for w in words), f"{name}: {role} {argument}")
            if macro == "LARGE":
                self.assertIn(f"MPI_{name}_c", functions)


def peer_libraries():
    """MPI libraries of PyPI, with programs made by their compilers (tests/peers/fetch_mpi.sh)."""
    found = []
    for folder, compiler, name in (("mpich", "mpicc_abi", "standard ABI"), ("mpich", "mpicc", "MPICH 5"),
                                   ("openmpi", "mpicc", "Open MPI 5")):
        tools = os.path.join(PEERS, folder, "bin")
        if not os.path.exists(f"{tools}/{compiler}"):
            continue
        library = Library(name, [f"{tools}/mpirun"], f"{folder}_{compiler}",
                          {"LD_LIBRARY_PATH": os.path.join(PEERS, folder, "lib"),
                           "PATH": f"{tools}:{os.environ['PATH']}"})
        if folder == "openmpi":
            library.launcher += ["--allow-run-as-root", "--oversubscribe"]
            library.environment["OMPI_MCA_btl"] = "self,sm"
        subprocess.run([f"{tools}/{compiler}", "-w", "-O1", "-o", library.program("client"),
                        f"{SOURCE}/tests/mpi/client.c"], check=True, env={**os.environ, **library.environment})
        found.append(library)
    return found


def library_of_two_hosts(launcher):
    """Open MPI with a daemon for each of two hosts, which are this one: ranks talk over TCP, and share no recorder."""
    settings = {"plm_rsh_agent": f"{SOURCE}/tests/mpi/local_agent", "plm_rsh_no_tree_spawn": "1",
                "oob_tcp_if_include": "lo", "btl_tcp_if_include": "lo"}
    words = [word for key, value in settings.items() for word in ("--mca", key, value)]
    return Library("openmpi", [launcher, "--host", "a:1,b:1", *words], "openmpi", {"OMPI_MCA_btl": "self,tcp"})


def tests_of_two_hosts(library):
    """Those whose ranks have a recorder each."""
    case = type("WithTwoHosts", (WithLibrary,), {"library": library})
    return [case(name) for name in ("test_what_is_recorded_is_what_the_program_counted",
                                    "test_the_rank_that_is_late_is_found", "test_messages_of_threads_keep_apart")]


def main():
    part = sys.argv.pop()
    cases, tests = [], []
    if part in ("openmpi", "mpich"):
        launcher = shutil.which(f"mpirun.{part}")
        if not launcher or not os.path.exists(os.path.join(PROGRAMS, f"client_{part}")):
            skip(f"{part} is not installed, or its compiler is not")
        WithLibrary.library = Library(part, [launcher] + ["--oversubscribe"] * (part == "openmpi"), part)
        cases = [WithLibrary]
    elif part == "hosts":
        launcher = shutil.which("mpirun.openmpi")
        if not launcher or not os.path.exists(os.path.join(PROGRAMS, "client_openmpi")):
            skip("openmpi is not installed, or its compiler is not")
        tests = tests_of_two_hosts(library_of_two_hosts(launcher))
    elif part == "peers":
        cases = [type(f"With{i}", (WithLibrary,), {"library": library})
                 for i, library in enumerate(peer_libraries())]
        if not cases:
            skip("no MPI of PyPI in build/peers/mpi: make test-peers fetches them")
    else:
        cases = [{"table": Table, "command": Command}[part]]
    suite = unittest.TestSuite([*tests, *map(unittest.defaultTestLoader.loadTestsFromTestCase, cases)])
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    sys.exit(not result.wasSuccessful())


main()

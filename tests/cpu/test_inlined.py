"""Inlined functions in stacks: against addr2line of binutils, which reads debug information on its own, and of
programs whose CPU time is in inlined functions."""

import collections
import json
import os
import random
import re
import shutil
import subprocess
import tempfile
import unittest

COMMAND, SHOW, C_PROGRAM = (os.environ[n] for n in ("CKINETO", "CPU_SHOW_FRAMES", "CPU_INLINED"))


def code_addresses(program):
    """Every instruction of the functions that have source lines, by objdump."""
    text = subprocess.run(["objdump", "-d", "-j", ".text", "--no-show-raw-insn", program], capture_output=True,
                          text=True, check=True).stdout
    return [int(a, 16) for a in re.findall(r"^\s*([0-9a-f]+):\t", text, re.M)]


def frames_by_ckineto(program, addresses, *options):
    r = subprocess.run([SHOW, program, *options], input="\n".join(map(hex, addresses)), capture_output=True, text=True,
                       check=True, errors="replace", timeout=60)
    found, here = {}, None
    for line in r.stdout.split("\n")[:-1]:
        if re.fullmatch("0x[0-9a-f]+", line):
            here = found.setdefault(int(line, 16), [])
        else:
            function, file, number = line.split("\t")
            here.append((function, os.path.basename(file), int(number)))
    return found, int(re.search(r"skipped (\d+)", r.stderr).group(1))


# That of LLVM first: in code that g++ optimised, that of binutils has a wrong file or function for one address in 20.
ADDR2LINE = shutil.which("llvm-addr2line") or shutil.which("addr2line")


def frames_by_addr2line(program, addresses):
    text = subprocess.run([ADDR2LINE, "-a", "-i", "-f", "-C", "-e", program], input="\n".join(map(hex, addresses)),
                          capture_output=True, text=True, check=True).stdout
    found, here, lines = {}, None, iter(text.splitlines())
    for line in lines:
        if re.fullmatch("0x[0-9a-f]+", line):
            here = found.setdefault(int(line, 16), [])
            continue
        place = re.sub(r" \(discriminator \d+\)$", "", next(lines))
        file, _, number = place.rpartition(":")
        here.append((line, os.path.basename(file), int(number) if number.isdigit() else 0))
    return found


def bare(name):
    """The name without its parameters: debug information has those of public functions only."""
    name = re.sub(r" \(\.[\w.]+\)| ?\[clone[^]]*\]|\.(cold|part|constprop|isra)(\.\d+)*|\(anonymous namespace\)::|\[abi:\w+\]", "", name)
    depth, out = 0, ""
    for c in name.replace("operator()", "operator@").replace("operator<", "operator@"):
        depth -= c in ">)}"
        out += c if depth == 0 and c not in ">)}" else ""
        depth += c in "<({"
    return out.rstrip("<({?").split("::")[-1].split(" ")[-1].rstrip("<({")


class Inlined(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.compiled = tempfile.TemporaryDirectory()
        cls.programs = [C_PROGRAM]
        if shutil.which("g++"):
            cls.programs.append(cls.compile("inlined_cpp"))

    @classmethod
    def compile(cls, name, *options):
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "inlined.cc")
        program = os.path.join(cls.compiled.name, name)
        subprocess.run(["g++", "-O2", "-g", *options, "-o", program, source], check=True, cwd=cls.compiled.name)
        return program

    @classmethod
    def tearDownClass(cls):
        cls.compiled.cleanup()

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()

    def tearDown(self):
        self.folder.cleanup()

    def need(self, tool):
        if not shutil.which(tool):
            self.skipTest(f"{tool} is not installed")

    def assert_same_frames(self, program, source):
        addresses = code_addresses(source)
        ours, skipped = frames_by_ckineto(program, addresses)
        theirs = frames_by_addr2line(source, addresses)
        self.assertEqual(skipped, 0)
        compared, depths, differ = 0, collections.Counter(), []
        for a in addresses:
            if not theirs[a][-1][2]:
                continue  # code without debug information
            compared += 1
            depths[len(theirs[a])] += 1
            mine, other = ([(bare(f), file if line else "", line) for f, file, line in side[a]]
                           for side in (ours, theirs))
            undemangled = {i for i, f in enumerate(theirs[a]) if f[0].startswith("_Z")}
            mine, other = ([("" if i in undemangled else f[0], *f[1:]) for i, f in enumerate(side)]
                           for side in (mine, other))
            if mine != other:
                differ.append((hex(a), mine, other))
        self.assertGreater(max(depths), 2, "nothing is inlined in it")
        allowed = compared // 100 if "llvm" in ADDR2LINE else compared // 10
        self.assertLessEqual(len(differ), allowed + 1, differ[:3])

    def test_frames_at_every_instruction_are_those_of_addr2line(self):
        if not ADDR2LINE:
            self.skipTest("addr2line is not installed")
        self.need("objdump")
        for program in self.programs:
            with self.subTest(os.path.basename(program)):
                self.assert_same_frames(program, program)

    def test_debug_information_in_a_file_of_its_own_is_found(self):
        self.need("objcopy")
        for program in self.programs:
            copy = os.path.join(self.folder.name, os.path.basename(program))
            debug = copy + ".debug"
            for command in (["objcopy", "--only-keep-debug", program, debug],
                            ["objcopy", "--strip-debug", f"--add-gnu-debuglink={debug}", program, copy]):
                subprocess.run(command, check=True)
            with self.subTest(os.path.basename(program)):
                self.assert_same_frames(copy, program)

    def test_split_debug_information_is_read(self):
        if len(self.programs) < 2:
            self.skipTest("g++ is not installed")
        program = self.compile("split_cpp", "-gsplit-dwarf")
        addresses = code_addresses(self.programs[1])
        if code_addresses(program) != addresses:
            self.skipTest("the compiler made other code")
        self.assertEqual(frames_by_ckineto(program, addresses), frames_by_ckineto(self.programs[1], addresses))

    def test_compressed_debug_information_is_read(self):
        self.need("objcopy")
        copy = os.path.join(self.folder.name, "compressed")
        subprocess.run(["objcopy", "--compress-debug-sections", C_PROGRAM, copy], check=True)
        self.assert_same_frames(copy, C_PROGRAM)

    def test_damaged_debug_information_does_not_matter(self):
        self.need("readelf")
        sections = subprocess.run(["readelf", "-SW", C_PROGRAM], capture_output=True, text=True, check=True).stdout
        places = [(int(at, 16), int(size, 16)) for at, size in
                  re.findall(r"\] \.debug_\w+ +PROGBITS +\w+ (\w+) (\w+)", sections)]
        addresses = code_addresses(C_PROGRAM)
        whole, _ = frames_by_ckineto(C_PROGRAM, addresses)
        with open(C_PROGRAM, "rb") as file:
            content = file.read()
        for seed in range(25):
            chance, damaged = random.Random(seed), bytearray(content)
            for _ in range(chance.choice([1, 3, 20, 200])):
                at, size = chance.choice(places)
                damaged[at + chance.randrange(size)] = chance.choice([0, 1, 0x7f, 0x80, 0xff, chance.randrange(256)])
            path = os.path.join(self.folder.name, "damaged")
            with open(path, "wb") as file:
                file.write(damaged)
            found, _ = frames_by_ckineto(path, addresses)
            # Which function has the code, the symbol table says.
            self.assertEqual([f[-1][0] for f in found.values()], [f[-1][0] for f in whole.values()], seed)

    def test_a_limit_leaves_the_functions_with_the_code(self):
        for program in self.programs:
            addresses = code_addresses(program)
            whole, _ = frames_by_ckineto(program, addresses)
            for limit in ("0", "100"):
                outer, skipped = frames_by_ckineto(program, addresses, limit)
                self.assertEqual({a: f[-1][0] for a, f in whole.items()}, {a: f[0][0] for a, f in outer.items()})
                self.assertTrue(all(len(f) == 1 for f in outer.values()))
                self.assertEqual(skipped > 0, limit != "0")

    # ---- recordings ----

    def record(self, *program, environment={}):
        self.path = os.path.join(self.folder.name, "trace.json")
        plain = {k: v for k, v in os.environ.items() if k not in ("CKINETO_CPU", "CKINETO_INLINE_MB")}
        r = subprocess.run([COMMAND, "record", "-o", self.path, "--cpu", "999", "--", *program],
                           env={**plain, **environment}, capture_output=True, text=True, timeout=60)
        self.assertEqual(r.returncode, 0, r.stderr)
        if re.search("cpu: (not available here|states from counters)", r.stdout + r.stderr):
            self.skipTest("perf_event_open is not allowed here")
        with open(self.path) as file:
            events = json.load(file)["traceEvents"]
        return r.stdout + r.stderr, [e for e in events if e.get("cat") == "cpu_sample"]

    def test_time_is_that_of_the_inlined_function(self):
        said, rows = self.record(C_PROGRAM, "300")
        inlined = {e["name"] for e in rows if e["args"].get("inlined")}
        self.assertLessEqual({"mix_bits", "mix_rounds", "run_for"}, inlined)
        self.assertFalse({"call_mixing", "main"} & inlined)
        table = os.path.join(self.folder.name, "table.json")
        subprocess.run([COMMAND, "analyze", "--json=" + table, "--only", "cpu_functions", self.path], check=True,
                       capture_output=True)
        with open(table) as file:
            found = json.load(file)["tables"]
        table = found["cpu_functions"] if isinstance(found, dict) else found[0]
        columns = [c["name"] if isinstance(c, dict) else c for c in table["columns"]]
        rows = [dict(zip(columns, row)) for row in table["rows"]]
        own = {row["function"]: row["self_us"] for row in rows}
        self.assertGreater(own["mix_bits"] + own["mix_rounds"], 0.8 * sum(own.values()), own)
        self.assertGreater(own["mix_bits"], own.get("call_mixing", 0), own)

    def test_without_inlined_functions_time_is_that_of_the_caller(self):
        said, rows = self.record(C_PROGRAM, "200", environment={"CKINETO_INLINE_MB": "0"})
        self.assertIn("call_mixing", {e["name"] for e in rows})
        self.assertFalse({"mix_bits", "mix_rounds", "run_for"} & {e["name"] for e in rows})


if __name__ == "__main__":
    unittest.main()

"""The examples of docs/how-to/contributing.md work: an analysis and a finding rule are added, as the page says.

    contributing.py            CKINETO_SOURCE, CKINETO_BUILD

The code blocks of the page are applied to a copy of src, docs and tests/findings. Only the sources that include what
changed are compiled, without optimisation, and linked in front of the archives of the build: where the new objects
define all that an old member of the archive does, the linker does not take that member.
"""

import concurrent.futures
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE, BUILD = os.environ.get("CKINETO_SOURCE", ""), os.environ.get("CKINETO_BUILD", "")
COMMANDS = os.path.join(BUILD, "compile_commands.json")
PAGE = "docs/how-to/contributing.md"
STEP = re.compile(r'<!-- (?:not compiled: )?contributing\.py: (new|end of|after "[^"]+" in|before "[^"]+" in) (\S+) -->\n'
                  r"```\w+\n(.*?)^```", flags=re.S | re.M)
TRACE = "tests/data/torch-2.1.2/training.json.gz"

if not SOURCE or not os.path.exists(COMMANDS) or not shutil.which("ninja") or \
        not os.path.exists(os.path.join(BUILD, "build.ninja")):
    print("run by ctest, in a build by ninja: skipped")
    sys.exit(77)


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read()


def write(root, path, text):
    with open(os.path.join(root, path), "w", encoding="utf-8") as file:
        file.write(text)


def apply_step(root, where, path, code):
    if where == "new":
        assert not os.path.exists(os.path.join(root, path)), f"{path} exists already"
        write(root, path, code)
        return
    text = read(root, path)
    if where == "end of":
        write(root, path, text.rstrip("\n") + "\n\n\n" + code)
        return
    place, anchor = re.match(r'(\w+) "([^"]+)" in', where).groups()
    assert text.count(anchor) == 1, f"{path}: {anchor!r} must occur once"
    at = text.index(anchor)
    if place == "after":
        at = text.index("\n", at) + 1
    write(root, path, text[:at] + ("\n" if place == "after" else "") + code + text[at:])


def changed_by_hand(steps):
    return sorted({path for _, path, _ in steps})


def includes(root):
    """source or header -> the headers that it includes, as paths below src."""
    found = {}
    for folder, _, names in os.walk(os.path.join(root, "src")):
        for name in names:
            if name.endswith((".c", ".h", ".def")):
                path = os.path.relpath(os.path.join(folder, name), os.path.join(root, "src"))
                found[path] = re.findall(r'^\s*#\s*include "([^"]+)"', read(root, os.path.join("src", path)), flags=re.M)
    return found


def reaches(graph, path, changed, seen):
    if path in changed:
        return True
    seen.add(path)
    return any(reaches(graph, other, changed, seen) for other in graph.get(path, []) if other not in seen)


def sources_to_compile(root, steps):
    graph = includes(root)
    changed = {path[len("src/"):] for _, path, _ in steps if path.startswith("src/")}
    return sorted(path for path in graph if path.endswith(".c") and reaches(graph, path, changed, set()))


def flags_of():
    """source below src -> its compiler command without -o, -c, dependency files and optimisation."""
    flags = {}
    with open(COMMANDS, encoding="utf-8") as file:
        for entry in json.load(file):
            path = os.path.relpath(os.path.join(entry["directory"], entry["file"]), os.path.join(SOURCE, "src"))
            words = shlex.split(entry["command"])
            at = words.index("-o")
            words = [word for i, word in enumerate(words[:at] + words[at + 2:])
                     if not re.fullmatch(r"-O\d?|-g\d?|-M[DT]|-c|-D_FORTIFY_SOURCE=\d|-Werror", word) and
                     word != entry["file"] and not word.endswith((".o", ".o.d")) and word != "-MF"]
            flags.setdefault(path, words)
    return flags


def compile_sources(root, sources, folder):
    flags = flags_of()

    def compile_one(path):
        words = flags.get(path) or flags["analyze/facts/kernels.c"]  # a new file
        words = [word.replace(os.path.join(SOURCE, "src"), os.path.join(root, "src")) for word in words]
        out = os.path.join(folder, path.replace("/", "-") + ".o")
        done = subprocess.run([*words, "-O0", "-o", out, "-c", os.path.join(root, "src", path)], cwd=BUILD,
                              capture_output=True, text=True, check=False)
        if done.returncode:
            raise AssertionError(f"{path}: {done.stderr[:2000]}")
        return out

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        return list(pool.map(compile_one, sources))


def link(objects, out):
    """The build's own command, with the new objects in front of its archives and without old ones of the same source."""
    listed = subprocess.run(["ninja", "-C", BUILD, "-t", "commands", "bin/ckineto"], capture_output=True, text=True, check=True)
    words = shlex.split(listed.stdout.strip().splitlines()[-1])
    words = words[words.index("&&") + 1:]
    words = words[:words.index("&&")] if "&&" in words else words
    new = {os.path.basename(path) for path in objects}
    kept = [word for word in words
            if not (word.endswith(".o") and word.partition(".dir/src/")[2].replace("/", "-") in new)]
    at = kept.index("-o")
    kept[at + 1] = out
    done = subprocess.run([*kept[:at], *objects, *kept[at:]], cwd=BUILD, capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(f"the linker: {done.stderr[:3000]}")


class Examples(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.steps = STEP.findall(read(SOURCE, PAGE))
        cls.directory = tempfile.TemporaryDirectory(prefix="ckineto-contributing-")
        cls.root = os.path.join(cls.directory.name, "tree")
        for part in ("src", "docs", "tests/findings"):
            shutil.copytree(os.path.join(SOURCE, part), os.path.join(cls.root, part))
        for step in cls.steps:
            apply_step(cls.root, *step)
        cls.command = os.path.join(cls.directory.name, "ckineto")
        objects = os.path.join(cls.directory.name, "objects")
        os.mkdir(objects)
        link(compile_sources(cls.root, sources_to_compile(cls.root, cls.steps), objects), cls.command)

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    def run_command(self, *arguments):
        done = subprocess.run([self.command, *arguments], capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def run_python(self, path, *arguments):
        environment = {**os.environ, "CKINETO": self.command, "CKINETO_SHARED": ""}
        done = subprocess.run([sys.executable, "-B", os.path.join(self.root, path), *arguments], capture_output=True,
                              text=True, timeout=300, env=environment, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_an_analysis_touches_three_files_and_a_rule_four(self):
        analysis = [path for path in changed_by_hand(self.steps) if "/facts/" in path or "/tables/" in path]
        rule = [path for path in changed_by_hand(self.steps) if path not in analysis]
        self.assertEqual(len(analysis), 2, "and docs/reference/analyses.md, which is generated")
        self.assertEqual(len(rule), 4, "and the list of docs/reference/findings.md, which is generated")

    def test_the_new_table_has_rows(self):
        trace = os.path.join(SOURCE, TRACE)
        facts = json.loads(self.run_command("analyze", "--only", "thread_operators", "--json", trace))
        table = facts["tables"]["thread_operators"]
        self.assertEqual(table["columns"], ["rank", "tid", "operators", "busy_us"])
        self.assertGreater(len(table["rows"]), 0)
        self.assertGreater(table["rows"][0][2], 10)
        self.assertIn("Host threads: time in operators", self.run_command("analyze", "--only", "thread_operators", trace))
        listed = json.loads(self.run_command("analyze", "--list", "--json"))["tables"]
        self.assertIn("thread_operators", [one["name"] for one in listed])

    def test_the_new_rule_fires(self):
        trace = os.path.join(SOURCE, TRACE)
        found = json.loads(self.run_command("analyze", "--findings", "--only", "cpu.one_thread", "--json", trace))
        self.assertEqual([f["id"] for f in found["findings"]], ["cpu.one_thread"])
        self.assertIn("cpu.one_thread", self.run_command("analyze", "--findings", "--list"))

    def test_its_page_and_its_cases_pass_the_tests_of_all_rules(self):
        self.run_python("tests/findings/rules_table.py", "--write")
        self.run_python("tests/findings/test_docs.py", "Pages")
        self.run_python("tests/findings/test_findings.py", "EachRule.test_every_rule_has_cases")
        snippet = ("import os, sys, tempfile; sys.path.insert(0, os.environ['FINDINGS']); import test_findings as t\n"
                   "fires, quiet = t.CASES['cpu.one_thread']\n"
                   "for make, expected in ((fires, 'found'), (quiet, 'quiet')):\n"
                   "    with tempfile.TemporaryDirectory() as d:\n"
                   "        make().save(d + '/t.json')\n"
                   "        seen = t.judgements(t.findings_of([d + '/t.json']))['cpu.one_thread']\n"
                   "        assert seen == expected, (seen, expected)\n")
        environment = {**os.environ, "CKINETO": self.command, "CKINETO_SHARED": "",
                       "FINDINGS": os.path.join(self.root, "tests/findings")}
        done = subprocess.run([sys.executable, "-B", "-c", snippet], capture_output=True, text=True, env=environment,
                              timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)

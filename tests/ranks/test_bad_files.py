"""Damaged files among those of a job: each verb names them with the reason, answers about the others, says which ranks
are missing in its first line, and ends with 3 (verify with 1).

test_bad_files.py, with CKINETO in the environment
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
COMMAND = os.environ.get("CKINETO")
RANKS = 8
BAD = 5
OTHER_USER = 65534

if not COMMAND:
    print("run by ctest, which says where the command is: skipped")
    sys.exit(77)
try:
    import numpy  # noqa: F401
except ImportError:
    print("numpy is missing (python3-numpy): skipped")
    sys.exit(77)

# Each verb with the output that must have the good ranks, where it is a file.
VERBS = {
    "analyze": ["analyze", "{}"],
    "analyze --only": ["analyze", "--only", "kernels", "{}"],
    "analyze --findings": ["analyze", "--findings", "{}"],
    "analyze --json": ["analyze", "--json", "{}"],
    "analyze --findings --json": ["analyze", "--findings", "--json", "{}"],
    "analyze --brief": ["analyze", "--brief", "{}"],
    "analyze --csv": ["analyze", "--csv", "out.csv.d", "{}"],
    "analyze --what-if": ["analyze", "--what-if", "kernel:gemm=0.5", "{}"],
    "report": ["report", "{}", "-o", "out.html"],
    "report --text": ["report", "--text", "{}"],
    "report --flame": ["report", "--flame", "out.svg", "{}"],
    "diff before": ["diff", "--no-findings", "{}", "good"],
    "diff after": ["diff", "--no-findings", "good", "{}"],
    "diff --json": ["diff", "--no-findings", "--json", "good", "{}"],
    "info": ["info", "{}"],
    "info --json": ["info", "--json", "{}"],
    "verify": ["verify", "{}"],
    "verify --json": ["verify", "--json", "{}"],
    "query": ["query", "{}", "SELECT DISTINCT rank FROM processes WHERE rank IS NOT NULL ORDER BY rank"],
    "query --json": ["query", "--json", "{}", "SELECT DISTINCT rank FROM processes WHERE rank IS NOT NULL"],
    "convert": ["convert", "-q", "{}", "-o", "out.json"],
    "slice": ["slice", "-q", "--steps", "10..11", "{}", "-o", "out.json"],
    "scrub": ["scrub", "{}", "-o", "out.json"],
    "table": ["table", "{}"],
    "table --json": ["table", "--json", "{}"],
}
DAMAGE = ("corrupt", "empty", "unreadable", "foreign", "link", "directory", "truncated", "merged", "duplicate", "other run")
LEAVE_OUT = ("corrupt", "empty", "unreadable", "foreign", "link", "directory")
WORDS = {
    "corrupt": "rank5.json", "empty": "rank5.json: the file is empty", "unreadable": "rank5.json",
    "foreign": "rank5.json: not a Chrome trace", "link": "rank5.json: No such file", "directory": "rank5.json: Is a directory", "truncated": "rank5.json", "merged": "merged.json",
    "duplicate": "copy.json", "other run": "rank5.json",
}


def damage(kind, folder, rank=BAD):
    path = os.path.join(folder, f"rank{rank}.json")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if kind == "merged":
        subprocess.run([COMMAND, "convert", "-q", folder, "-o", os.path.join(folder, "merged.json")], check=True)
    elif kind == "duplicate":
        shutil.copy(path, os.path.join(folder, "copy.json"))
    elif kind == "missing":
        os.unlink(path)
    elif kind == "unreadable":
        os.chmod(path, 0)
    elif kind in ("link", "directory"):
        os.unlink(path)
        os.symlink("nowhere", path) if kind == "link" else os.mkdir(path)
    else:
        if kind == "other run":
            trace = json.loads(text)
            for event in trace["traceEvents"]:
                if "ts" in event:
                    event["ts"] += 3600e6
            text = json.dumps(trace)
        else:
            text = {"corrupt": '{"traceEvents": [{"ph": "X", "name": }]', "empty": "", "foreign": '{"name": "left-pad", "version": "1.3.0"}',
                    "truncated": text[:len(text) // 2]}[kind]
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def become_other_user():
    os.setgid(OTHER_USER)
    os.setuid(OTHER_USER)


class BadFiles(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = tempfile.mkdtemp(prefix="ckineto-bad-")
        cls.good = os.path.join(cls.root, "good")
        subprocess.run([sys.executable, "-B", os.path.join(HERE, "generate.py"), cls.good, "--program", "tpd", "--set", "tp=2",
                        "--set", "pp=1", "--set", "dp=4", "--set", "steps=3", "--set", "layers=2"], check=True,
                       stdout=subprocess.DEVNULL)
        os.chmod(cls.root, 0o777)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.root, ignore_errors=True)

    def make(self, *kinds, name="bad"):
        folder = os.path.join(self.root, name)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.good, folder)
        for at, kind in enumerate(kinds):
            damage(kind, folder, (BAD + at) % RANKS)
        return folder

    def run_verb(self, words, folder="bad", other_user=False):
        for name in ("out.json", "out.svg", "out.html", "out.csv.d"):
            path = os.path.join(self.root, name)
            shutil.rmtree(path, ignore_errors=True)
            if os.path.isfile(path):
                os.unlink(path)
        done = subprocess.run([COMMAND, *[w.replace("{}", folder) for w in words]], cwd=self.root, capture_output=True, text=True,
                              timeout=120, check=False, preexec_fn=become_other_user if other_user else None)
        return done.returncode, done.stdout, done.stderr

    def check_good_content(self, verb, out, err, least):
        """At least so many ranks are in the answer."""
        path = next((os.path.join(self.root, n) for n in ("out.json", "out.svg", "out.html") if
                     os.path.exists(os.path.join(self.root, n))), None)
        if verb.startswith("query"):
            found = [row[0] for row in json.loads(out)["rows"]] if "--json" in verb else [l for l in out.splitlines() if l.strip().isdigit()]
            self.assertGreaterEqual(len(found), least, verb)
        elif path and path.endswith(".json"):
            with open(path, encoding="utf-8") as file:
                text = file.read()
            found = sum(f'"pid":{10000 + rank}' in text.replace(" ", "") for rank in range(RANKS))
            if verb != "scrub":
                self.assertGreaterEqual(found, least, verb)
        elif path:
            self.assertGreater(os.path.getsize(path), 2000, verb)
        elif verb == "analyze --csv":
            self.assertIn("kernels.csv", os.listdir(os.path.join(self.root, "out.csv.d")))
        elif "what-if" in verb:
            self.assertGreaterEqual(out.count("what if"), least, verb)
        else:
            self.assertGreater(len(out), 60 if verb == "verify" else 300, verb + out)

    def check(self, kind, verb, other_user=False):
        code, out, err = self.run_verb(VERBS[verb], other_user=other_user)
        said = " ".join((out + err).split())
        context = f"{kind}: {verb}: {code}\n{out[:1500]}\n{err[:1500]}"
        self.assertEqual(code, 1 if verb.startswith("verify") else 3, context)
        self.assertIn(WORDS[kind], said, context)
        self.check_good_content(verb, out, err, RANKS - 1)
        first = (out or err).splitlines()[0] if verb != "report" else ""
        if kind in LEAVE_OUT and "json" not in verb and "brief" not in verb:
            lines = out.splitlines()[:2] + err.splitlines()[:2]
            self.assertTrue(verb == "report" or any("missing: 5" in line or "unreadable: 5 (rank5.json)" in line for line in lines), context + first)
        if kind in LEAVE_OUT and verb.endswith("--json") and verb != "table --json" and not verb.startswith("diff"):
            coverage = json.loads(out)["coverage"]
            self.assertEqual((coverage["missing"], coverage["files"][0]["name"]), ([BAD], "rank5.json"), context)

    def test_matrix(self):
        for kind in DAMAGE:
            other_user = kind == "unreadable" and os.geteuid() == 0
            self.make(kind)
            for verb in VERBS:
                with self.subTest(kind=kind, verb=verb):
                    self.check(kind, verb, other_user)

    def test_half_of_the_files(self):
        self.make("corrupt", "empty", "foreign", "truncated")
        for verb in VERBS:
            with self.subTest(verb=verb):
                code, out, err = self.run_verb(VERBS[verb])
                self.assertEqual(code, 1 if verb.startswith("verify") else 3, verb + out[:500] + err)
                for rank in (5, 6, 7, 0):
                    self.assertIn(f"rank{rank}.json", out + err, verb)
                self.check_good_content(verb, out, err, 4)

    def test_named_files(self):
        """As a shell expands run/*.json."""
        folder = self.make("corrupt")
        names = [os.path.join("bad", n) for n in sorted(os.listdir(folder))]
        for verb in ("analyze", "info", "verify", "query", "convert", "slice", "table", "report --text"):
            words = [part for word in VERBS[verb] for part in (names if word == "{}" else [word])]
            code, out, err = self.run_verb(words)
            self.assertEqual(code, 1 if verb == "verify" else 3, verb + out + err)
            self.assertIn("rank5.json", out + err, verb)
            self.check_good_content(verb, out, err, RANKS - 1)

    def test_missing_ranks(self):
        folder = self.make("missing")
        for verb, words in VERBS.items():
            code, out, err = self.run_verb(words)
            context = verb + out[:500] + err[:500]
            self.assertEqual(code, 1 if verb.startswith("verify") else 0, context)
            if verb == "report":
                continue
            if verb.endswith("json") and not verb.startswith(("table", "diff")):
                self.assertEqual(json.loads(out)["coverage"]["missing"], [BAD], context)
            elif verb == "diff --json":
                self.assertEqual(json.loads(out)["after"]["coverage"]["missing"], [BAD], context)
            else:
                first = [text.splitlines()[0] for text in (out, err) if text]
                self.assertTrue(any("7 of 8 ranks; missing: 5" in line for line in first), context)
        for words in (["export", "--parquet", "fleet", "{}", "--tables", "steps"], ["history", "add", "{}", "-d", "fleet"]):
            code, _, err = self.run_verb(words)
            self.assertEqual(code, 3, err)
            self.assertIn("ckineto: 7 of 8 ranks; missing: 5.\n", err)
        self.assertFalse(self.run_verb(["diff", "--rank", "1", "{}", "{}"])[1].startswith("before: "))
        for rank in (1, 2, 3):
            os.unlink(os.path.join(folder, f"rank{rank}.json"))
        self.assertTrue(self.run_verb(VERBS["analyze"])[1].startswith("4 of 8 ranks; missing: 1-3, 5."))

    def test_only_bad_files(self):
        folder = self.make()
        for rank in range(RANKS):
            damage("corrupt", folder, rank)
        for verb, words in VERBS.items():
            code, out, err = self.run_verb(words)
            self.assertEqual(code, 2, verb + out + err)
            for rank in range(RANKS):
                self.assertIn(f"rank{rank}.json", out + err, verb)

    def test_one_number_for_a_cut_file(self):
        self.make("truncated")
        facts, joined = os.path.join(self.root, "cut.facts"), os.path.join(self.root, "cut.ckrun")
        subprocess.run([COMMAND, "facts", "bad", "-o", facts], cwd=self.root, check=True, capture_output=True)
        subprocess.run([COMMAND, "reduce", "-q", facts, "-o", joined], check=False, capture_output=True)
        words = {verb: (w, "bad") for verb, w in VERBS.items() if "csv" not in verb and verb != "report" and "--json" not in w}
        words.update({"reduce": (["reduce", "{}"], facts), "reduce run": (["reduce", "{}"], joined),
                      "history": (["history", "add", "{}", "-d", "cut.set"], "bad")})
        words.update({f"{verb} {of}": ([verb, "{}"], of) for verb in ("info", "verify", "analyze") for of in (facts, joined)})
        found = {}
        for verb, (line, of) in words.items():
            _, out, err = self.run_verb(line, of)
            part = re.search(r"5 is cut off after (\d+ % of the time \(\d+ % of the activities\))", " ".join((out + err).split()))
            if part:
                found[verb] = part.group(1)
        self.assertEqual(len(set(found.values())), 1, found)
        self.assertLessEqual({"analyze", "info", "verify", "table", "convert", "report --text", "diff before", "reduce",
                              "reduce run", "info " + facts}, set(found), found)

    def test_report_with_a_directory_before(self):
        self.make()
        code, _, err = self.run_verb(["report", "-b", "good", "{}", "-o", "out.html"])
        self.assertEqual(code, 2, err)
        self.assertIn("good is a directory", err)
        self.assertIn("ckineto diff", err)

    def test_view_serves_the_good_ones(self):
        self.make("corrupt")
        process = subprocess.Popen([COMMAND, "view", "--no-open", "bad"], cwd=self.root, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        address = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        self.assertIn("http://127.0.0.1", address)
        self.assertIn("rank5.json", err)

    def test_mcp(self):
        self.make("corrupt")
        calls = [("open", {}), ("findings", {}), ("query", {"sql": "SELECT count(DISTINCT rank) AS n FROM processes"})]
        lines = [{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}]
        lines += [{"jsonrpc": "2.0", "id": i + 1, "method": "tools/call", "params": {
            "name": name, "arguments": {"path": os.path.join(self.root, "bad"), **more}}} for i, (name, more) in enumerate(calls)]
        done = subprocess.run([COMMAND, "mcp"], input="".join(json.dumps(l) + "\n" for l in lines), capture_output=True,
                              text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        answers = [json.loads(line) for line in done.stdout.splitlines()][1:]
        opened = json.loads(answers[0]["result"]["content"][0]["text"])
        self.assertIn("unreadable: 5 (rank5.json)", opened["headline"])
        self.assertEqual(opened["coverage"]["files"][0]["name"], "rank5.json")
        for answer in answers:
            self.assertFalse(answer["result"].get("isError"), answer)
        self.assertIn("7", answers[2]["result"]["content"][0]["text"])


if __name__ == "__main__":
    unittest.main()

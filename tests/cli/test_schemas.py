"""JSON for programs: every output names its schema, is as the published schema says, and a failure is an object, too."""

import glob
import json
import os
import re
import unittest

from command import CommandTest, main

try:
    import jsonschema
except ImportError:
    jsonschema = None

HERE = os.path.dirname(os.path.abspath(__file__))
DOCS = os.path.join(HERE, "..", "..", "docs")
DATA = os.path.join(HERE, "..", "data")
TRAINING = os.path.join(DATA, "torch-2.5.1", "training.json.gz")
FACTS = os.path.join(DATA, "..", "ranks", "frozen", "version-1.ckrun")
GOOD_PLUGIN = os.path.join(os.environ.get("CKINETO_TEST_PLUGINS", ""), "good.so")
BROKEN = '{"traceEvents":[{"ph":"X","name":"a","pid":1,"tid":1,"ts":1,"dur":5},{"ph":'

# Command lines, and the schema of what each writes.
OUTPUTS = [
    (("analyze", "--json", "-", TRAINING), "analysis"),
    (("analyze", "--json", "-", "--series", TRAINING), "analysis"),
    (("analyze", "--brief", TRAINING), "overview"),
    (("analyze", "--findings", "--json", "-", TRAINING), "findings"),
    (("analyze", "--list", "--json", "-"), "tables"),
    (("analyze", "--findings", "--list", "--json", "-"), "rules"),
    (("info", "--json", TRAINING), "info"),
    (("info", "--json", TRAINING, "broken.json"), "info_files"),
    (("verify", "--json", TRAINING, "broken.json"), "verify"),
    (("verify", "--json", "."), "verify"),
    (("verify", "--json", "--list"), "verify_rules"),
    (("diff", "--json", "-", TRAINING, TRAINING), "diff"),
    (("diff", "--json", FACTS, FACTS), "diff_facts"),
    (("bench", "--json", "-n", "2", "-w", "0", "--ab", "true", "true"), "diff"),
    (("table", "--json", TRAINING), "table"),
    (("table", "--json", "--group-by-input-shape", "--group-by-stack", "5", TRAINING), "table"),
    (("table", "--json", TRAINING, "--step-pattern", "nothing", "--top", "0"), "table"),
    (("query", "--json", TRAINING, "SELECT name, dur_ns / 3.0, NULL, x'ff' FROM activities LIMIT 3"), "query"),
    (("doctor", "--json"), "doctor"),
    (("ps", "--json"), "ps"),
    (("trigger", "--json", "--pid", "999999999"), "trigger"),
    (("trigger", "--json", "--hosts", "127.0.0.1:1,localhost:1", "--pid", "1", "-o", "t.json"), "trigger_hosts"),
    (("plugin", "list", "--json", "nothing.so"), "plugins"),
    (("plugin", "check", "--json", GOOD_PLUGIN), "plugin_check"),
    (("repair", "--json", "broken.json", "-o", "repaired.json"), "repair"),
    (("history", "list", "--json", "-d", "set"), "history_list"),
    (("history", "regress", "--json", "-d", "set"), "history_regress"),
]

# Command lines that fail, the status that the object names, and the place.
FAILURES = [
    (("analyze", "--json", "-", "nothing.json"), "E_NOT_FOUND", {"file": "nothing.json"}),
    (("analyze", "--brief", "nothing.json"), "E_NOT_FOUND", {"file": "nothing.json"}),
    (("analyze", "--json", "-", "--only", "nothing", TRAINING), "E_ARGUMENT", None),
    (("analyze", "--findings", "--json", "-", "--gate", "all", TRAINING), "E_UNKNOWN", None),
    (("info", "--jsno", "--json", TRAINING), "E_ARGUMENT", None),
    (("info", "--json", "text.json"), "E_FORMAT", {"file": "text.json", "offset": 0}),
    (("verify", "-j", "text.json"), "E_FORMAT", {"file": "text.json", "offset": 0}),
    (("repair", "--json", "text.json"), "E_FORMAT", {"file": "text.json", "offset": 0}),
    (("diff", "--json", "-", TRAINING, "nothing.json"), "E_NOT_FOUND", {"file": "nothing.json"}),
    (("table", "--json"), "E_ARGUMENT", None),
    (("query", "--json", TRAINING, "SELECT nme FROM activities"), "E_ARGUMENT", {"offset": 7}),
    (("doctor", "--json", "x"), "E_ARGUMENT", {"file": "x"}),
    (("ps", "--json", "--host", "localhost:1"), "E_NOT_FOUND", None),
    (("plugin", "check", "--json", "nothing.so"), "E_UNKNOWN", {"file": "nothing.so"}),
]


def schema_of(name):
    with open(os.path.join(DOCS, f"{name}.schema.json"), encoding="utf-8") as file:
        return json.load(file)


class Schemas(CommandTest):
    def setUp(self):
        super().setUp()
        for name, text in (("broken.json", BROKEN), ("text.json", "not a trace")):
            with open(self.path(name), "w", encoding="utf-8") as file:
                file.write(text)
        self.run_command("history", "add", TRAINING, "-d", "set", "--run", "one")

    def test_facts_of_a_run(self):
        with open(self.path("set/history/run=one/facts.json"), encoding="utf-8") as file:
            self.check(json.load(file), "history")

    def check(self, value, name):
        """First member, and all of it if the validator is installed."""
        self.assertEqual(next(iter(value)), "schema")
        self.assertEqual(value["schema"], schema_of(name)["properties"]["schema"]["const"])
        if jsonschema:
            jsonschema.Draft202012Validator(schema_of(name)).validate(value)

    def test_every_output_is_as_its_schema_says(self):
        for words, name in OUTPUTS:
            with self.subTest(words=words):
                self.check(json.loads(self.run_command(*words).out), name)

    def test_every_command_with_json_is_checked(self):
        """All commands whose help has --json are in OUTPUTS; those with verbs of their own by two words."""
        listed = re.findall(r"(?m)^  ([a-z]+) +[a-z]", self.run_command("--help").out.decode())
        self.assertIn("table", listed)
        commands = [(verb,) for verb in listed if verb not in ("plugin", "history", "help")] + [
            ("plugin", "list"), ("plugin", "check"), ("history", "add"), ("history", "list"), ("history", "regress")]
        for words in commands:
            has_json = re.search(r"(?m)^  (-j, |    )--json\b", self.run_command(*words, "--help").out.decode())
            checked = any(line[:len(words)] == words for line, _ in OUTPUTS)
            self.assertEqual(bool(has_json), checked, words)
        schemas = {os.path.basename(path).split(".")[0] for path in glob.glob(os.path.join(DOCS, "*.schema.json"))}
        unchecked = {name for name in schemas - {name for _, name in OUTPUTS} if not name.startswith("mcp_")}
        self.assertEqual(unchecked, {"error", "history"})

    def test_rows_alone_are_a_list_of_objects(self):
        done = self.run_command("query", "--format", "json", TRAINING, "SELECT 1 AS a, NULL AS b")
        self.assertEqual(json.loads(done.out), [{"a": 1, "b": None}])

    def test_every_failure_is_one_object_with_the_same_status_as_without_json(self):
        for words, status, place in FAILURES:
            with self.subTest(words=words):
                done = self.run_command(*words)
                self.assertEqual(done.err.count(b"\n"), 1, done.err)
                error = json.loads(done.err)
                self.check(error, "error")
                self.assertEqual((error["status"], error["place"]), (status, place))
                self.assertIn(error["verb"].split()[0], words)
                json_words = ("--json", "-", "-j")
                plain = self.run_command(*(w for w in words if w not in json_words and w != "--brief"))
                self.assertEqual(done.returncode, plain.returncode, plain.err)
                self.assertNotIn(b'"schema"', plain.err)

    @unittest.skipUnless(jsonschema, "python3-jsonschema is not installed")
    def test_every_schema_is_valid_and_refuses_what_lacks_a_member(self):
        for path in glob.glob(os.path.join(DOCS, "*.schema.json")):
            name = os.path.basename(path).split(".")[0]
            schema = schema_of(name)
            jsonschema.Draft202012Validator.check_schema(schema)
            with self.assertRaises(jsonschema.ValidationError, msg=name):
                jsonschema.Draft202012Validator(schema).validate({"schema": schema["properties"]["schema"]["const"]})

    def test_rows_are_limited_unless_tables_are_chosen(self):
        def rows(*words):
            tables = json.loads(self.run_command("analyze", "--json", "-", TRAINING, *words).out)["tables"]
            return {name: (len(t["rows"]), t.get("more", 0)) for name, t in tables.items()}
        whole = rows("--series")
        self.assertTrue(any(more == 0 and shown > 10 for shown, more in whole.values()))
        for words, limit in (((), 10), (("--row-limit", "3"), 3), (("--row-limit", "0"), 0), (("--all",), 0),
                             (("--only", "operators"), 0), (("--only", "operators", "--row-limit", "2"), 2)):
            for name, (shown, more) in rows(*words).items():
                self.assertEqual(shown + more, sum(whole[name]), (words, name))
                self.assertEqual(shown, min(sum(whole[name]), limit or 1 << 60), (words, name))
        self.assertNotIn("critical_path_edges", rows())
        self.assertIn("critical_path_edges", whole)

    def test_a_query_writes_one_document_for_each_statement(self):
        done = self.run_command("query", "--json", TRAINING, "SELECT 1 AS a, 2 AS a; SELECT 'é' WHERE 0")
        self.assertEqual([json.loads(line) for line in done.out.splitlines()],
                         [{"schema": "ckineto.query/1", "columns": ["a", "a"], "rows": [[1, 2]]},
                          {"schema": "ckineto.query/1", "columns": ["'é'"], "rows": []}])


main()

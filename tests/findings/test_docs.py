"""What is written about findings: the list of rules, the page of each, and the schema of the JSON.

    CKINETO=build/bin/ckineto CKINETO_SHARED=../shared python3 test_docs.py"""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
COMMAND = os.environ.get("CKINETO", "")
SHARED = os.environ.get("CKINETO_SHARED", "")

if not COMMAND:
    print("run by ctest, which says where the command is: skipped")
    sys.exit(77)

import cases_2  # noqa: E402
import rules_table  # noqa: E402

DOCS = os.path.join(rules_table.ROOT, "docs")
TYPES = {"object": dict, "array": list, "string": str}


def problems(value, schema, root, at="$"):
    """What a value has against a schema: as much of JSON Schema as ours uses."""
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    kind = schema.get("type")
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind == "number" and not is_number or kind == "integer" and not (is_number and value == int(value)):
        yield f"{at}: {value!r} is not of type {kind}"
        return
    if kind in TYPES and not isinstance(value, TYPES[kind]):
        yield f"{at}: {value!r} is not of type {kind}"
        return
    if "const" in schema and value != schema["const"] or "enum" in schema and value not in schema["enum"]:
        yield f"{at}: {value!r} may not stand there"
    if is_number and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        yield f"{at}: {value!r} is out of range"
    if isinstance(value, str) and (len(value) < schema.get("minLength", 0) or
                                   not re.search(schema.get("pattern", ""), value)):
        yield f"{at}: {value!r} does not fit"
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from problems(item, schema.get("items", {}), root, f"{at}[{number}]")
    if isinstance(value, dict):
        yield from problems_of_members(value, schema, root, at)


def problems_of_members(value, schema, root, at):
    for key in schema.get("required", []):
        if key not in value:
            yield f"{at}: {key} is missing"
    for key, others in schema.get("dependentRequired", {}).items():
        if key in value and not all(other in value for other in others):
            yield f"{at}: {key} without {others}"
    if "anyOf" in schema and not any(all(k in value for k in one["required"]) for one in schema["anyOf"]):
        yield f"{at}: none of {schema['anyOf']}"
    for key, item in value.items():
        if key in schema.get("properties", {}):
            yield from problems(item, schema["properties"][key], root, f"{at}.{key}")
        elif "properties" in schema:
            yield f"{at}: {key} is not described"


def command(*arguments):
    return subprocess.run([COMMAND, "analyze", "--findings", *arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=300)


class Pages(unittest.TestCase):
    def test_the_list_of_rules_is_that_of_the_command(self):
        listed = [line.split(None, 1) for line in command("--list").stdout.decode().splitlines()]
        self.assertEqual([tuple(line) for line in listed], [rule[:2] for rule in rules_table.rules()])

    def test_the_page_with_all_rules_is_up_to_date(self):
        page = rules_table.read_page()
        self.assertTrue(page == rules_table.with_table(page),
                        "docs/reference/findings.md is out of date; run 'CKINETO=build/dev/bin/ckineto python3 "
                        "tests/findings/rules_table.py --write'")

    def test_each_rule_has_a_page_that_says_all(self):
        parts = ["## Detection", "## Estimated savings", "## Fix", "## Limitations"]
        for name, title, _, synthetic in rules_table.rules():
            with self.subTest(rule=name):
                path = os.path.join(DOCS, "findings", name + ".md")
                self.assertTrue(os.path.exists(path), f"rule {name} has no page docs/findings/{name}.md")
                with open(path, encoding="utf-8") as f:
                    page = f.read()
                self.assertEqual(page.splitlines()[0].lower(), f"# {name}: {title}".lower())
                self.assertEqual([p for p in parts if p not in page], [], f"docs/findings/{name}.md lacks headings")
                self.assertRegex(page.partition("## Fix")[2], r"```|\n    ", "an example")
                self.assertEqual("No trace of a real program" in page, synthetic,
                                 f"docs/findings/{name}.md: only the page of a rule with KA_SYNTHETIC says under "
                                 "\"Limitations\" that \"No trace of a real program ...\" has triggered it")

    def test_no_page_is_left_of_a_rule_that_is_gone(self):
        pages = {name[:-3] for name in os.listdir(os.path.join(DOCS, "findings"))}
        self.assertEqual(pages - {rule[0] for rule in rules_table.rules()}, set())

    def test_links_lead_somewhere(self):
        for directory in (DOCS, os.path.join(DOCS, "findings")):
            for name in sorted(os.listdir(directory)):
                if directory == DOCS and name != "findings.md":
                    continue
                with open(os.path.join(directory, name), encoding="utf-8") as f:
                    for link in re.findall(r"\]\(([^)#:]+)\)", f.read()):
                        self.assertTrue(os.path.exists(os.path.join(directory, link)), f"{name}: {link}")


class Schema(unittest.TestCase):
    def setUp(self):
        with open(os.path.join(DOCS, "findings.schema.json"), encoding="utf-8") as f:
            self.schema = json.load(f)

    def check(self, *paths):
        done = command("--json", *paths)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(list(problems(json.loads(done.stdout), self.schema, self.schema)), [])

    def test_findings_of_made_traces_are_as_the_schema_says(self):
        with tempfile.TemporaryDirectory(prefix="ckineto-findings-") as directory:
            path = os.path.join(directory, "t.json")
            for rule in ("precision.tensor_cores", "memory.growth", "trace.unfit", "step.outliers"):
                with self.subTest(rule=rule):
                    cases_2.CASES[rule][0]().save(path)
                    self.check(path)

    def test_findings_of_real_traces_are_as_the_schema_says(self):
        traces = os.path.join(SHARED, "traces")
        if not SHARED or not os.path.isdir(traces):
            self.skipTest("the traces are not here")
        for name in ("resnet50_num_workers_0.json.gz", "cuda_event_sync_multi_stream.json.gz",
                     "cpu_only.json.gz", "dlrm_8rank"):
            with self.subTest(trace=name):
                self.check(os.path.join(traces, name))

    def test_the_checker_sees_what_is_wrong(self):
        good = {"schema": "ckineto.findings/1", "steps": 1, "step_us": 2.5, "findings": [], "rules": []}
        rule = {"id": "a.b", "title": "A", "judgement": "quiet"}
        self.assertEqual(list(problems({**good, "rules": [rule]}, self.schema, self.schema)), [])
        for bad in ({"steps": "1"}, {"steps": -1}, {"schema": "other"}, {"more": 1},
                    {"rules": [{**rule, "judgement": "maybe"}]}, {"rules": [{**rule, "id": "A"}]},
                    {"findings": [{}]}):
            with self.subTest(bad=bad):
                self.assertNotEqual(list(problems({**good, **bad}, self.schema, self.schema)), [])
        del good["step_us"]
        self.assertNotEqual(list(problems(good, self.schema, self.schema)), [])


class Example(unittest.TestCase):
    def test_the_example_of_the_page_is_what_the_command_prints(self):
        trace = os.path.join(SHARED, "traces", "resnet50_num_workers_0.json.gz")
        if not SHARED or not os.path.exists(trace):
            self.skipTest("the trace is not here")
        with open(os.path.join(DOCS, "reference", "findings.md"), encoding="utf-8") as f:
            example = re.search(r"(?:^    .*\n)+", f.read(), flags=re.M).group()
        self.assertIn(re.sub("^    ", "", example, flags=re.M), command(trace).stdout.decode())


class Shares(unittest.TestCase):
    def test_operators_that_could_use_tensor_cores_take_what_the_plug_in_says(self):
        trace = os.path.join(SHARED, "traces", "resnet50_num_workers_0.json.gz")
        golden = os.path.join(SHARED, "golden_tb", "resnet50_num_workers_0", "recommendations.json")
        if not SHARED or not os.path.exists(trace) or not os.path.exists(golden):
            self.skipTest("the trace is not here")
        with open(golden, encoding="utf-8") as f:
            stated = re.search(r"Kernels with (\d+)% time", f.read()).group(1)
        found = json.loads(command("--only", "precision.tensor_cores", "--json", trace).stdout)["findings"]
        share = float(re.match(r"([\d.]+) %", found[0]["sentence"]).group(1))
        self.assertEqual(round(share), int(stated))
        self.assertEqual(share, 67.6)


if __name__ == "__main__":
    unittest.main(verbosity=2)

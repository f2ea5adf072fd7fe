"""integrations/github-action: the description is valid, and its shell steps work in an environment as GitHub's."""
import http.server
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

from traces import write_runs

try:
    import yaml
except ImportError:
    print("PyYAML is not installed: skipped")
    sys.exit(77)

SOURCE = pathlib.Path(os.environ["CKINETO_SOURCE"])
ACTION = SOURCE / "integrations" / "github-action"
COMMAND = os.environ["CKINETO"]


class Action(unittest.TestCase):
    """A workspace with the files that GitHub prepares, and the command in PATH."""

    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="ckineto-action-"))
        self.addCleanup(shutil.rmtree, self.directory, True)
        (self.directory / "bin").mkdir()
        (self.directory / "bin" / "ckineto").symlink_to(COMMAND)
        self.action = yaml.safe_load((ACTION / "action.yml").read_text(encoding="utf-8"))

    def step(self, name):
        return next(s for s in self.action["runs"]["steps"] if s["name"] == name)

    def run_step(self, name, inputs=None, outputs=None, **more):
        """Runs a shell step with its `env`, in which expressions are replaced; its outputs."""
        values = {k: v.get("default", "") for k, v in self.action["inputs"].items()}
        values.update(inputs or {})
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("GITHUB_", "CKINETO"))}
        environment.update(PATH=f"{self.directory}/bin:{os.environ['PATH']}", GITHUB_ACTION_PATH=str(ACTION),
                           GITHUB_OUTPUT=str(self.directory / "output"), CKINETO_CPU="off",
                           GITHUB_STEP_SUMMARY=str(self.directory / "summary"), **more)
        for key, value in self.step(name)["env"].items():
            for known, given in values.items():
                value = value.replace("${{ inputs.%s }}" % known, given)
            for known, given in (outputs or {}).items():
                value = value.replace("${{ steps.compare.outputs.%s }}" % known, given)
            self.assertNotIn("${{", value)
            environment[key] = value
        (self.directory / "output").write_text("")
        self.done = subprocess.run(["bash", "-e", "-c", self.step(name)["run"]], cwd=self.directory,
                                   env=environment, capture_output=True, text=True, timeout=200)
        lines = (self.directory / "output").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines)


class Description(Action):
    def test_it_has_what_the_schema_requires(self):
        self.assertLessEqual({"name", "description", "inputs", "outputs", "runs"}, set(self.action))
        self.assertEqual(self.action["runs"]["using"], "composite")
        for step in self.action["runs"]["steps"]:
            self.assertEqual(("run" in step), ("shell" in step), step)
            self.assertNotEqual(("run" in step), ("uses" in step), step)
            self.assertNotIn("${{", step.get("run", ""), "inputs in a script could be code")
        for entry in list(self.action["inputs"].values()) + list(self.action["outputs"].values()):
            self.assertTrue(entry["description"])

    def test_it_is_valid_by_the_published_schema(self):
        checker = shutil.which("check-jsonschema")
        if not checker:
            self.skipTest("check-jsonschema is not installed")
        done = subprocess.run([checker, "--builtin-schema", "vendor.github-actions", str(ACTION / "action.yml")],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_every_input_is_used_and_every_script_is_there(self):
        text = (ACTION / "action.yml").read_text(encoding="utf-8")
        for name in self.action["inputs"]:
            self.assertIn(f"inputs.{name} ", text.replace("}}", " }}"))
        for step in self.action["runs"]["steps"]:
            for word in step.get("run", "").split():
                if "$GITHUB_ACTION_PATH/" in word:
                    self.assertTrue((ACTION / word.strip('"').split("/", 1)[1]).exists(), word)


class Compare(Action):
    def runs(self, change):
        write_runs(self.directory / "old", "a", 1000)
        write_runs(self.directory / "new", "b", 1000 * (1 + change))
        return {"before": "old/*.json\n", "after": "\n  new/b-*.json", "gates": "step>3%\n"}

    def test_traces_that_are_slower_fail_and_have_all_outputs(self):
        out = self.run_step("Compare", self.runs(0.2))
        self.assertEqual(self.done.returncode, 0, self.done.stderr)
        self.assertEqual(out["outcome"], "failed")
        comment = (self.directory / out["comment"]).read_text(encoding="utf-8")
        self.assertLessEqual(len(comment.encode()), 4096)
        self.assertIn("❌", comment)
        self.assertEqual((self.directory / "summary").read_text(encoding="utf-8"), comment)
        self.assertEqual(json.loads((self.directory / out["sarif"]).read_text())["version"], "2.1.0")
        self.run_step("Gates", outputs=out)
        self.assertEqual(self.done.returncode, 1)

    def test_equal_traces_pass(self):
        out = self.run_step("Compare", self.runs(0))
        self.assertEqual(out["outcome"], "passed", self.done.stderr)
        self.run_step("Gates", outputs=out)
        self.assertEqual(self.done.returncode, 0)

    def test_a_gate_without_data_is_skipped(self):
        inputs = self.runs(0)
        inputs.update(gates="kernel:nothing>3%", name="a b/../c")
        out = self.run_step("Compare", inputs)
        self.assertEqual(out["outcome"], "skipped")
        self.assertEqual(out["directory"], "ckineto-a-b-..-c")

    def test_two_commands_are_recorded(self):
        out = self.run_step("Compare", {"base-command": "true", "command": "sleep 0.3", "repeat": "3",
                                        "gates": "step>50%", "record-options": "--no-torch\n"})
        self.assertEqual(out.get("outcome"), "failed", self.done.stderr + self.done.stdout)
        self.assertEqual(len(list((self.directory / out["directory"]).glob("*.json.gz"))), 6)

    def test_one_command_is_recorded(self):
        out = self.run_step("Compare", {"command": "true", "repeat": "2"})
        self.assertEqual(out["outcome"], "recorded", self.done.stderr)

    def test_mistakes_are_errors_of_the_workflow(self):
        for inputs in ({}, {"before": "none*.json", "after": "none"}, {"command": "false", "repeat": "2"},
                       dict(self.runs(0), gates="nonsense")):
            out = self.run_step("Compare", inputs)
            self.assertEqual(self.done.returncode, 1, inputs)
            self.assertIn("::error::", self.done.stdout)
            self.assertNotIn("outcome", out)

    def test_an_installed_command_is_used(self):
        self.run_step("Install ckineto", {"version": "none"})
        self.assertEqual(self.done.returncode, 0, self.done.stderr)
        self.assertIn("ckineto", self.done.stdout)


class GitHub(http.server.BaseHTTPRequestHandler):
    """Comments of one pull request. Answers 403 if `refuses` is set."""

    comments, refuses = [], False

    def answer(self, status, value):
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(value).encode())

    def body(self):
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))["body"]

    def do_GET(self):
        page = int(self.path.rpartition("page=")[2])
        self.answer(200, self.comments[100 * (page - 1):100 * page])

    def do_POST(self):
        text = self.body()
        if self.refuses or self.path != "/repos/o/r/issues/7/comments":
            self.answer(403, {})
            return
        self.comments.append({"id": len(self.comments), "body": text})
        self.answer(201, {})

    def do_PATCH(self):
        self.comments[int(self.path.rpartition("/")[2])]["body"] = self.body()
        self.answer(200, {})

    def log_message(self, *_):
        pass


class Comment(Action):
    def setUp(self):
        super().setUp()
        GitHub.comments, GitHub.refuses = [{"id": i, "body": f"other {i}"} for i in range(150)], False
        self.server = http.server.HTTPServer(("127.0.0.1", 0), GitHub)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)

    def comment(self, text, event):
        (self.directory / "event.json").write_text(json.dumps(event))
        (self.directory / "comment.md").write_text(text)
        self.run_step("Comment", {"github-token": "secret"}, {"comment": "comment.md"}, GITHUB_REPOSITORY="o/r",
                      GITHUB_EVENT_PATH=str(self.directory / "event.json"),
                      GITHUB_API_URL=f"http://127.0.0.1:{self.server.server_port}")
        self.assertEqual(self.done.returncode, 0, self.done.stderr)

    def test_the_first_comment_is_created_and_then_updated(self):
        self.comment("first", {"pull_request": {"number": 7}})
        self.comment("second", {"pull_request": {"number": 7}})
        self.assertEqual(len(GitHub.comments), 151)
        self.assertTrue(GitHub.comments[-1]["body"].endswith("second"))

    def test_a_token_without_the_permission_is_a_warning(self):
        GitHub.refuses = True
        self.comment("text", {"pull_request": {"number": 7}})
        self.assertIn("::warning::", self.done.stdout)

    def test_other_events_have_no_comment(self):
        self.comment("text", {"push": {}})
        self.assertEqual(len(GitHub.comments), 150)


if __name__ == "__main__":
    unittest.main(verbosity=2)

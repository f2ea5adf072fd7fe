"""`ckineto plugin check` against plug-ins with one fault each: exactly the rule that is broken fails.

Environment: CKINETO (the command), CKINETO_CHECK_DIR (the plug-ins), CKINETO_SIM (the reference
accelerator's plug-in; may be empty), CKINETO_SOURCE_DIR.
"""
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import unittest
import unittest.mock

CKINETO = os.environ["CKINETO"]
FOLDER = os.environ["CKINETO_CHECK_DIR"]
SIM = os.environ.get("CKINETO_SIM", "")
SOURCE = os.environ["CKINETO_SOURCE_DIR"]

# What fails: one rule, or those that cannot be distinguished.
BROKEN = {
    "LOAD_CRASHES": {"load.opens"},
    "LOAD_UNRESOLVED": {"load.opens"},
    "REGISTER_REFUSES": {"load.register"},
    "REGISTER_LACKS": {"load.register"},
    "REGISTER_HANDLE": {"builder.handle"},
    "QUERY_TOUCHES_HANDLE": {"query.null-handle"},
    "QUERY_NO_NAME": {"query.name"},
    "QUERY_KIND_TWICE": {"query.kinds"},
    "QUERY_CHANGES": {"query.repeatable"},
    "QUERY_OVERFLOWS": {"query.small-buffers"},
    "START_CRASHES": {"life.order"},
    "START_FAILS": {"life.order"},
    "STOP_HANGS": {"life.order"},
    "STOP_EXITS": {"life.order"},
    "CREATE_UNKNOWN_KIND": {"life.create-kinds"},
    "START_TWICE": {"life.start-twice"},
    "STOP_UNSTARTED": {"life.stop-unstarted"},
    "DELIVERS_TWICE": {"life.process-before-stop"},
    "DESTROY_UNSTARTED": {"life.destroy-only"},
    "ONCE_ONLY": {"life.restart"},
    "READS_BEHIND": {"size.today"},
    "SIZE_EQUALS": {"size.larger"},
    "SIZE_IGNORED": {"size.revision-b", "size.revision-0"},
    "SIZE_IGNORED_CREATE": {"size.revision-0"},
    "TAKES_SHORT": {"size.short"},
    "NO_SIZE": {"size.filled"},
    "DISABLED_KIND": {"kinds.only-enabled"},
    "ALL_OR_NOTHING": {"kinds.each"},
    "TOGGLE_IGNORED": {"toggle.quiet"},
    "PUSH_ON_ONE_THREAD": {"threads.push-pop"},
    "LIFE_ON_ONE_THREAD": {"threads.life-elsewhere"},
    "EMPTY_FAILS": {"session.empty"},
    "LONG_LOSES": {"session.long"},
    "ENDS_BEFORE": {"time.order"},
    "WRONG_CLOCK": {"time.window"},
    "CLOCK_GOES_BACK": {"time.monotonic-clock"},
    "FLOW_WITHOUT_END": {"flow.ends"},
    "STRANGE_ID": {"ids.pushed"},
    "META_NO_JSON": {"meta.json"},
    "META_KEY_TWICE": {"meta.keys"},
    "NO_NAME": {"names.text"},
    "BAD_NAME_POINTER": {"names.text"},
    "NO_ROWS": {"rows.announced"},
    "LATE": {"builder.after-end"},
    "OTHER_THREAD": {"builder.thread"},
    "BAD_HANDLE": {"builder.handle"},
    "MISCOUNTS": {"counts.balance"},
    "COUNTER_NAN": {"counters.samples"},
    "SET_UNKNOWN": {"meta.keys"},
    "SET_REPEATED": {"meta.keys"},
    "ERROR_UNTERMINATED": {"error.text"},
    "TALKS": {"quiet.output"},
    "SIGNAL_HANDLER": {"quiet.process"},
    "LEAKS_MEMORY": {"leak.memory"},
    "LEAKS_FILES": {"leak.fds"},
    "LEAKS_THREADS": {"leak.threads"},
    "THREAD_STAYS": {"unload.clean"},
}
# Other rules that the same mistake may break, as chance has it.
ALSO = {
    "CLOCK_GOES_BACK": {"time.window"},
    "DELIVERS_TWICE": {"flow.ends"},
    "LEAKS_THREADS": {"leak.memory", "unload.clean"},
}
SIM_FAULTS = {
    "drop": {"counts.balance"},
    "late": {"builder.after-end"},
    "metadata": {"meta.json"},
    "clock-jump": {"time.monotonic-clock"},
    "error": {"life.order"},
}


def command(*arguments, **environment):
    # A sanitizer would turn a plug-in's signal into an exit status.
    asan = os.environ.get("ASAN_OPTIONS", "") + ":handle_segv=0:handle_abort=0"
    return subprocess.run([CKINETO, "plugin", "check", *arguments], capture_output=True, text=True,
                          env={**os.environ, "ASAN_OPTIONS": asan, **environment}, timeout=250,
                          check=False)


def check(path, *arguments, **environment):
    """Exit status and {rule: result} of a plug-in."""
    done = command("--json", *arguments, path, **environment)
    if not done.stdout:
        raise AssertionError(f"{path}: status {done.returncode}: {done.stderr}")
    report = json.loads(done.stdout)
    return done.returncode, {rule["id"]: rule for rule in report["rules"]}, report


def failed(rules):
    return {name for name, rule in rules.items() if rule["verdict"] == "failed"}


def plugin(name):
    return os.path.join(FOLDER, f"check-{name}.so")


class Broken(unittest.TestCase):
    """One test for each broken plug-in, made below."""


def broken_test(name, expected):
    def test(self):
        status, rules, _ = checks[name].result()
        seen = {rule: rules[rule]["seen"] for rule in failed(rules)}
        self.assertLessEqual(expected, set(seen), seen)
        self.assertLessEqual(set(seen), expected | ALSO.get(name, set()), seen)
        self.assertEqual(status, 1)
        for rule in expected:
            self.assertTrue(rules[rule]["hint"] and rules[rule]["seen"], rule)
    return test


def setUpModule():
    # A check waits more than it works: several at a time.
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        for name in BROKEN:
            limit = ["--limit", "1"] if name == "STOP_HANGS" else []
            checks[name] = pool.submit(check, plugin(name), *limit)


checks = {}
for broken_name, broken_rules in BROKEN.items():
    setattr(Broken, f"test_{broken_name.lower()}", broken_test(broken_name, broken_rules))


class Good(unittest.TestCase):
    def assert_good(self, path, untested, **environment):
        status, rules, report = check(path, **environment)
        self.assertEqual({name: rules[name]["seen"] for name in failed(rules)}, {})
        self.assertEqual({name for name, rule in rules.items() if rule["verdict"] == "untested"}, untested)
        self.assertEqual(status, 0)
        self.assertTrue(report["conforms"])
        return rules, report

    def test_a_good_plugin_that_delivers_after_the_session_passes_every_rule(self):
        rules, report = self.assert_good(plugin("GOOD"), {"time.monotonic-clock", "counters.samples"})
        self.assertEqual(report["profilers"], [{"name": "device", "vendor": "", "kinds": "6 kernel, 8 runtime"}])
        self.assertGreater(rules["cost.process"]["ns"], 0)
        self.assertGreater(rules["cost.push-pop"]["ns"], 0)

    def test_a_good_plugin_that_delivers_at_once_passes_every_rule(self):
        self.assert_good(plugin("LIVE"), {"flow.ends", "cost.process"})

    @unittest.skipUnless(SIM, "the reference accelerator is not built")
    def test_the_reference_accelerator_passes_every_rule(self):
        self.assert_good(SIM, {"cost.process"})

    @unittest.skipUnless(SIM, "the reference accelerator is not built")
    def test_losses_that_are_counted_are_no_fault(self):
        self.assert_good(SIM, {"cost.process"}, CKINETO_SIM_FAULT="drop-counted")

    def test_every_broken_plugin_that_is_built_is_tested(self):
        built = {re.fullmatch(r"check-(\w+)\.so", name)[1] for name in os.listdir(FOLDER)}
        self.assertEqual(built, set(BROKEN) | {"GOOD", "LIVE", "NO_SYMBOL"})
        self.assertGreaterEqual(len(BROKEN), 15)


@unittest.skipUnless(SIM, "the reference accelerator is not built")
class Sim(unittest.TestCase):
    def test_every_fault_of_the_reference_accelerator_breaks_its_rule(self):
        for fault, expected in SIM_FAULTS.items():
            with self.subTest(fault):
                status, rules, _ = check(SIM, CKINETO_SIM_FAULT=fault)
                self.assertLessEqual(expected, failed(rules))
                self.assertEqual(status, 1)


class Command(unittest.TestCase):
    def test_what_cannot_be_checked_has_status_2(self):
        for arguments in ([], ["/nowhere/x.so"], [os.path.join(SOURCE, "README.md")], [FOLDER],
                          [plugin("NO_SYMBOL")], [plugin("GOOD"), plugin("GOOD")], ["--rule", "nonsense", plugin("GOOD")],
                          ["--unknown"], ["--limit", "0", plugin("GOOD")],
                          ["--limit", "3601", plugin("GOOD")], [""]):
            with self.subTest(arguments):
                done = command(*arguments)
                self.assertEqual(done.returncode, 2)
                self.assertIn("ckineto", done.stderr)
                self.assertEqual(done.stdout, "")

    def test_one_rule_can_be_asked_for(self):
        status, rules, _ = check(plugin("META_NO_JSON"), "--rule", "meta.json")
        self.assertEqual((status, list(rules), failed(rules)), (1, ["meta.json"], {"meta.json"}))
        status, rules, _ = check(plugin("META_NO_JSON"), "--rule=leak.fds", "-r", "toggle.quiet")
        self.assertEqual((status, list(rules)), (0, ["toggle.quiet", "leak.fds"]))
        self.assertEqual(command("--rule", "meta.json", plugin("START_FAILS")).returncode, 2)
        status, rules, report = check(plugin("START_FAILS"), "--rule", "load.opens", "-r", "leak.memory")
        self.assertEqual((status, failed(rules), report["conforms"]), (2, set(), False))

    def test_an_undecidable_rule_has_no_verdict(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            for json_too in ([], ["--json"]):
                done = subprocess.run([CKINETO, "plugin", "check", *json_too, "-r", "load.opens", plugin("GOOD")],
                                      stdout=full, stderr=subprocess.PIPE, timeout=250, check=False)
                self.assertEqual(done.returncode, 2)
                self.assertIn(b"cannot write", done.stderr)

    def test_the_table_names_rule_and_remedy(self):
        done = command(plugin("START_CRASHES"))
        self.assertRegex(done.stdout, r"(?m)^life\.order +FAILED +profilerStart: signal 11")
        self.assertRegex(done.stdout, r"(?m)^ +fix: ")
        self.assertRegex(done.stdout, r"(?m)^\d+ rules hold, 1 failed, \d+ not tested: it does not conform$")
        self.assertEqual((done.returncode, done.stderr), (1, ""))
        self.assertIn("profilerStop: exit status 0", command(plugin("STOP_EXITS")).stdout)
        self.assertIn("no answer within 1 s", command("--limit=1", plugin("STOP_HANGS")).stdout)
        self.assertIn("read past the end of KinetoPlugin_ProfilerStart_Params",
                      " ".join(command(plugin("READS_BEHIND")).stdout.split()))

    def test_failures_come_first_and_what_holds_is_counted(self):
        with unittest.mock.patch.dict(os.environ, COLUMNS="100"):
            done = command(plugin("ENDS_BEFORE"))
        lines = done.stdout.split("\n\n")[1].splitlines()
        self.assertRegex(lines[1], r"^time\.order +FAILED +\d+ of \d+ events end before they begin")
        self.assertRegex(" ".join(done.stdout.split()), r'the first is event \d+, "[^"]+", by 1 ns: it begins at \d+ ns and ends at \d+ ns')
        self.assertRegex(done.stdout, r"(?m)^\d+ rules hold \(-v lists them\)$")
        self.assertNotIn("load.opens", done.stdout)
        self.assertIn("these parts of the interface are optional", done.stdout)
        self.assertTrue(all(len(line) <= 100 for line in done.stdout.splitlines()))
        self.assertRegex(command("-v", plugin("ENDS_BEFORE")).stdout, r"(?m)^load\.opens +ok")
        self.assertIn("not tested, until the failure is fixed", command("/bin/sh").stdout)

    def test_the_answer_is_the_same_every_time(self):
        def verdicts():
            return [(name, rule["verdict"]) for name, rule in check(plugin("GOOD"))[1].items()]
        self.assertEqual(verdicts(), verdicts())

    def test_the_document_has_the_rules_of_the_command(self):
        listed = re.findall(r"^(\S+) +(\S.*)$", command("--list-rules").stdout, flags=re.M)
        with open(os.path.join(SOURCE, "docs", "reference", "plugins.md"), encoding="utf-8") as file:
            document = re.findall(r"^\| `([a-z_0-9]+\.[a-z_0-9-]+)` \| (.*) \|$", file.read(), flags=re.M)
        with open(os.path.join(SOURCE, "python", "ckineto_attach", "plugin_check.py"), encoding="utf-8") as file:
            in_torch = re.findall(r'^    \("(torch\.\w+)", "(.*)",$', file.read(), flags=re.M)
        self.assertEqual([rule for rule in document if not rule[0].startswith("torch.")], listed)
        self.assertEqual([rule for rule in document if rule[0].startswith("torch.")], in_torch)

    def test_a_list_of_rules_has_no_other_options(self):
        for more in ("--json", "--rule=load.opens", "--limit=5", plugin("GOOD")):
            done = command("--list-rules", more)
            self.assertEqual((done.returncode, done.stdout), (2, ""), more)
            self.assertIn("--list-rules", done.stderr)

    def test_help_tells_the_exit_statuses(self):
        done = command("--help")
        self.assertEqual(done.returncode, 0)
        self.assertIn("--list-rules", done.stdout)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=1))

"""ckineto scrub: nothing of what is planted may be found in what is written, in any format."""

import gzip
import json
import os
import re
import unittest

from command import CommandTest, main

TRACES = os.environ.get("CKINETO_TRACES", "")

# Every secret has a word of its own, so that the test says where one got through.
SECRETS = [f"zebra{n:02d}q" for n in range(90)]


class Secrets:
    """Hands out secrets, each once."""

    def __init__(self):
        self.left = list(SECRETS)

    def __call__(self, form="{}"):
        return form.format(self.left.pop(0))


def planted():
    s = Secrets()
    x = {"ph": "X", "ts": 10, "dur": 5}
    args = {
        s(): s(), "Call stack": s("/home/{}/model.py(12): forward;torch/nn/modules/module.py(3): _call_impl"),
        "Module Hierarchy": s("top({}).layer1"), "kernel_file": s("/srv/{}/k.py"), "Concrete Inputs": ["", s()],
        "nested": {s(): [{"deeper": {s(): s()}}], "ok": 1}, "Process Group Description": s("group {}"),
        "Collective name": s(), "escaped": s("a\"b\\c\n{}\u00e9"), "Input type": [s()], "kernel": s("void {}<int>()"),
        "Input Dims": [[2, 3], []], s("dotted.{}"): 1.5}
    return {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": s("{} 9000"), "uuid": s("GPU-{}"), s(): {"serial": s()}}],
        "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 2, "pg_config": [{"pg_desc": s("{}_pg")}]},
        "host_name": s("{}.example.com"), "username": s(), s(): s(), "INFO": [s("log of {}")],
        "trace_id": 1234567890123456789, "traceName": s("/tmp/{}.json"),
        "traceEvents": [
            {**x, "name": s("train {} now"), "cat": "user_annotation", "pid": 100, "tid": 1, "args": args},
            {**x, "name": s("src/{}/train.py(10): main"), "cat": "python_function", "pid": 100, "tid": 1},
            {**x, "name": s("nn.Module: {}_0"), "cat": "python_function", "pid": 100, "tid": 1},
            {**x, "name": s("<built-in method {} of X object at 0x1>"), "cat": "python_function", "pid": 100, "tid": 1},
            {**x, "name": s("my::{}"), "cat": "cpu_op", "pid": 100, "tid": 1},
            {**x, "name": s("autograd::engine::evaluate_function: {}Backward"), "cat": "cpu_op", "pid": 100, "tid": 1},
            {**x, "name": s("Optimizer.step#{}.step"), "cat": "user_annotation", "pid": 100, "tid": 1},
            {**x, "name": s("void {}::kernel<float, at::native::Foo>(int)"), "cat": "kernel", "pid": 0, "tid": 7},
            {**x, "name": s("void at::native::apply<{}<float>>(int)"), "cat": "kernel", "pid": 0, "tid": 7},
            {**x, "name": s("triton_poi_fused_{}_0"), "cat": "kernel", "pid": 0, "tid": 7},
            {**x, "name": "aten::mm", "cat": "cpu_op", "pid": 100, "tid": 1},
            {**x, "name": "ProfilerStep#3", "cat": "user_annotation", "pid": 100, "tid": 1},
            {**x, "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long)", "cat": "kernel",
             "pid": 0, "tid": 7},
            {**x, "name": "x", "cat": s(), "pid": s("{} process"), "tid": s("{} row")},
            {"ph": "C", "name": s(), "pid": 100, "ts": 11, "args": {s(): 3}},
            {"ph": "b", "name": "q", "cat": "user_annotation", "pid": 100, "tid": 1, "ts": 11, "id": s()},
            {"ph": "e", "name": "q", "cat": "user_annotation", "pid": 100, "tid": 1, "ts": 12, "id": "x"},
            {"ph": "M", "name": "process_name", "pid": 100, "tid": 0, "ts": 0, "args": {"name": s()}},
            {"ph": "M", "name": "process_labels", "pid": 100, "tid": 0, "ts": 0, "args": {"labels": s()}},
            {"ph": "M", "name": "thread_name", "pid": 100, "tid": 1, "ts": 0, "args": {"name": s("thread 1 ({})")}},
        ],
        "ckineto": {"window": [0, 20000], "kinds": {s(): "cpu_op"},
                    "processes": [{"pid": 100, "id": 100, "device": False, "host": SECRETS[0] + "host"}],
                    "ledger": [{"source": s(), "reason": s(), "count": 1, "loss": False, "detail": s("at {}:80")}]}}


def texts(value):
    """Every text in it, keys as well; text that is JSON or escaped is looked into."""
    if isinstance(value, str):
        yield value
        try:
            inner = json.loads(value)
        except ValueError:
            return
        if isinstance(inner, (dict, list)):
            yield from texts(inner)
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from texts(key)
            yield from texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner)


class Scrub(CommandTest):
    def setUp(self):
        super().setUp()
        # The output lies in a directory whose name is a secret as well.
        self.place = os.path.join(self.directory, SECRETS[-1])
        os.mkdir(self.place)
        with open(self.path("in.json"), "w", encoding="utf-8") as f:
            json.dump(planted(), f)

    def scrub(self, *options, out="t.json", status=0, source="in.json"):
        target = os.path.join(self.place, out)
        done = self.run_command("scrub", source, "-o", target, *options)
        self.assertEqual(done.returncode, status, done.err)
        self.said = done.err.decode()
        if status:
            return None
        with open(target, "rb") as f:
            return f.read()

    def assert_hidden(self, data, secrets=tuple(SECRETS)):
        lower = data.lower()
        self.assertEqual([s for s in secrets if s.encode() in lower], [])

    def names(self, data):
        return [e["name"] for e in json.loads(data)["traceEvents"] if e["ph"] in "XC"]

    def test_every_secret_is_there_before(self):
        # But the name of the file and what was under "uuid" of a device that has an "id" twice, all are read.
        self.assertEqual(self.run_command("slice", "in.json", "-o", "t.json", "--time", ":").returncode, 0)
        with open(self.path("t.json"), "rb") as f:
            data = f.read()
        used = [s for s in SECRETS if s in json.dumps(planted())]
        missing = [s for s in used if s.encode() not in data]
        self.assertLessEqual(len(missing), 3, missing)

    def test_no_secret_is_left(self):
        data = self.scrub("--salt", "pepper")
        self.assert_hidden(data)
        for text in texts(json.loads(data)):
            self.assert_hidden(text.encode())
            self.assertNotIn("1234567890123456789", text)
        self.assertNotIn("pepper", data.decode())
        self.assertNotIn(b"1234567890123456789", data)

    def test_no_secret_is_left_when_everything_goes(self):
        data = self.scrub("--all")
        self.assert_hidden(data)
        names = self.names(data)
        self.assertIn("ProfilerStep#3", names)
        self.assertNotIn("aten::mm", names)

    def test_no_secret_is_left_in_other_formats(self):
        self.assert_hidden(gzip.decompress(self.scrub(out="t.json.gz")))
        for out in ("t.pftrace", "t.folded", "t.csv", "t.jsonl", "t.speedscope.json", "t.sqlite"):
            target = os.path.join(self.place, out)
            done = self.run_command("scrub", "in.json", "-o", target)
            if done.returncode == 0:
                with open(target, "rb") as f:
                    self.assert_hidden(f.read())

    def test_what_is_public_stays(self):
        data = self.scrub()
        names = self.names(data)
        for name in ("aten::mm", "ProfilerStep#3",
                     "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long)"):
            self.assertIn(name, names)
        self.assertTrue(any(re.fullmatch(r"void at::native::apply<k_[0-9a-f]{12}<float>>\(int\)", n) for n in names))
        self.assertTrue(any(re.fullmatch(r"d_[0-9a-f]+/d_[0-9a-f]+/d_[0-9a-f]+\.py\(10\): f_[0-9a-f]+", n)
                            for n in names))
        self.assertTrue(any(re.fullmatch(r"nn\.Module: m_[0-9a-f]+_0", n) for n in names))
        self.assertTrue(any(re.fullmatch(r"Optimizer\.step#m_[0-9a-f]+\.step", n) for n in names))
        after = json.loads(data)
        self.assertEqual(after["distributedInfo"]["backend"], "nccl")
        stack = next(e["args"]["Call stack"] for e in after["traceEvents"] if "Call stack" in e.get("args", {}))
        self.assertRegex(stack, r"^/d_\w+/d_\w+/d_\w+\.py\(12\): f_\w+;torch/nn/modules/module.py\(3\): _call_impl$")

    def test_times_and_structure_stay(self):
        self.scrub()
        done = self.run_command("slice", "in.json", "-o", "same.json", "--time", ":")
        self.assertEqual(done.returncode, 0)
        keep = lambda e: (e["ph"], e.get("ts"), e.get("dur"), len(e.get("args", {})))
        before = [keep(e) for e in self.load("same.json")["traceEvents"] if e["ph"] in "XCbe"]
        after = [keep(e) for e in self.load(os.path.join(self.place, "t.json"))["traceEvents"] if e["ph"] in "XCbe"]
        self.assertEqual(sorted(map(str, before)), sorted(map(str, after)))

    def test_the_salt_decides(self):
        one = self.scrub("--salt", "a", out="1.json")
        again = self.scrub("--salt", "a", out="1.json")
        other = self.scrub("--salt", "b", out="1.json")
        self.assertEqual(one, again)
        self.assertNotEqual(one, other)
        self.assertNotEqual(self.scrub(out="1.json"), self.scrub(out="1.json"))
        self.assertIn("random", self.said)
        with open(self.path("salt"), "w", encoding="utf-8") as f:
            f.write("a\n")
        self.assertEqual(self.scrub("--salt-file", self.path("salt"), out="1.json"), one)

    def test_the_same_text_has_the_same_pseudonym_in_other_traces(self):
        name = "my own phase"
        found = []
        for pid in (1, 2):
            with open(self.path("rank.json"), "w", encoding="utf-8") as f:
                json.dump([{"ph": "X", "ts": pid, "dur": 1, "pid": pid, "tid": 1, "name": name,
                            "cat": "user_annotation"}], f)
            found += self.names(self.scrub("--salt", "a", source="rank.json"))
        self.assertRegex(found[0], r"^u_[0-9a-f]{12}$")
        self.assertEqual(found[0], found[1])

    def test_classes_by_choice(self):
        secret = lambda data, text: text.encode() in data
        hosts = self.scrub("--hosts")
        self.assertFalse(secret(hosts, ".example.com"))
        self.assertTrue(secret(hosts, "train "))
        paths = self.scrub("--paths")
        self.assertFalse(secret(paths, "/home/"))
        self.assertFalse(secret(paths, "src/zebra"))
        self.assertTrue(secret(paths, "_call_impl"))
        names = self.scrub("--names")
        self.assertFalse(secret(names, "train "))
        self.assertTrue(secret(names, ".example.com"))
        shapes = json.loads(self.scrub("--shapes"))
        dims = next(e["args"]["Input Dims"] for e in shapes["traceEvents"] if "Input Dims" in e.get("args", {}))
        self.assertNotEqual(dims, [[2, 3], []])
        self.assertEqual([len(d) for d in dims], [2, 0])
        dropped = json.loads(self.scrub("--drop-stacks", "--stacks"))
        self.assertEqual({e["args"]["Call stack"] for e in dropped["traceEvents"]
                          if "Call stack" in e.get("args", {})}, {""})

    def test_what_stays_is_named_with_its_options(self):
        data = self.scrub()
        for option in ("--known-names", "--packages", "--shapes", "--ids", "--times"):
            self.assertIn(option, self.said)
        self.assertIn(b"module.py", data)
        self.assertIn("next: ckineto", self.said)
        hidden = self.scrub("--packages", "--ids", "--times")
        self.assertIn("--known-names", self.said)
        self.assertNotRegex(self.said, "--packages|--ids|--times|--names")
        self.assertNotIn(b"module.py", hidden)
        self.assertIn(b"aten::mm", hidden)
        self.scrub("--shapes")
        self.assertIn("kept names (--names), paths (--paths)", " ".join(self.said.split()))
        self.scrub("-q")
        self.assertEqual(self.said, "")

    def test_a_page_is_refused_with_the_way_to_one(self):
        self.scrub(out="t.html", status=2)
        self.assertRegex(self.said, "'ckineto report part.json -o .*t.html'")

    def test_numbers_of_threads_and_the_date_go(self):
        pid, tid, start = 40404, 50505, 1_700_000_000_000_000
        with open(self.path("threads.json"), "w", encoding="utf-8") as f:
            json.dump({"traceEvents": [
                {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": f"thread {tid} (python)"}},
                {"ph": "X", "cat": "blocking_call", "name": "pthread_mutex_lock", "pid": pid, "tid": pid, "ts": start,
                 "dur": 10, "args": {"holder": tid, "address": 7}},
                {"ph": "X", "cat": "thread_state", "name": "blocked", "pid": pid, "tid": tid, "ts": start + 5, "dur": 10,
                 "args": {"woken by": f"thread {pid} (secret)"}}]}, f)
        data = self.scrub("--ids", "--times", source="threads.json")
        for secret in (b"40404", b"50505", b"1700000000", b"secret"):
            self.assertNotIn(secret, data)
        events = sorted((e for e in json.loads(data)["traceEvents"] if e["ph"] == "X"), key=lambda e: e["ts"])
        base = json.loads(data).get("baseTimeNanoseconds", 0) / 1000
        self.assertEqual([(e["name"], e["ts"] + base, e["dur"]) for e in events],
                         [("pthread_mutex_lock", 0, 10), ("blocked", 5, 10)])
        call, state = events
        self.assertEqual(call["args"]["holder"], state["tid"])
        self.assertRegex(state["args"]["woken by"], rf"^thread {call['tid']} \(t_\w+\)$")
        self.assertEqual(call["pid"], call["tid"])

    def test_what_is_to_be_kept_is_kept(self):
        data = self.scrub("--keep", "^train .* now$")
        self.assertTrue(any(n.startswith("train ") for n in self.names(data)))

    def test_scrubbing_twice_hides_no_less(self):
        self.scrub("--salt", "a", out="1.json")
        self.assert_hidden(self.scrub("--salt", "a", source=os.path.join(self.place, "1.json")))

    def test_the_count_of_what_was_replaced_is_reported(self):
        self.scrub()
        self.assertRegex(self.said, r"replaced [1-9]\d* names, [1-9]\d* paths, [1-9]\d* machines, 1 stack, "
                                    r"[1-9]\d* keys, [1-9]\d* texts")

    def test_mistakes_are_explained(self):
        open(self.path("empty"), "wb").close()
        for words, said in ((["--keep", "("], "'('"), (["--salt-file", self.path("none")], "salt"),
                            (["--salt-file", self.path("empty")], "salt"), (["--salt", "a", "--salt-file", "b"], "--salt cannot be used")):
            self.scrub(*words, status=2)
            self.assertIn(said, self.said)
        self.assertEqual(os.listdir(self.place), [])
        self.assertEqual(self.run_command("scrub", "in.json").returncode, 2)
        self.assertEqual(self.run_command("scrub", "absent.json", "-o", "t.json").returncode, 2)
        self.assertEqual(self.run_command("scrub", "in.json", "-o", "no/such/place.json").returncode, 1)
        for output in ("t.bin", "-"):
            done = self.run_command("scrub", "in.json", "-o", output)
            self.assertEqual(done.returncode, 2)
            self.assertIn(b"unknown format of " + output.encode(), done.err)


@unittest.skipUnless(os.path.isdir(TRACES), "the collection of real traces is not at hand")
class RealTraces(CommandTest):
    def test_words_that_are_known_to_be_there_are_gone(self):
        for name, words in (("mtia_inference", (b"feed_ranking", b"vanguard", b"facebook", b"twshared", b"nobody")),
                            ("cpu_only", (b"mojif", b"pyper")), ("resnet50_num_workers_0", (b"home", b"conda", b"train_")),
                            ("triton_example", (b"my_kernel", b"/tmp/", b"cos_sin"))):
            path = os.path.join(TRACES, name + ".json.gz")
            if os.path.exists(path):
                self.assertEqual(self.run_command("scrub", path, "-o", "t.json").returncode, 0)
                with open(self.path("t.json"), "rb") as f:
                    data = f.read()
                self.assertEqual([w for w in words if w in data], [], name)


if __name__ == "__main__":
    main()

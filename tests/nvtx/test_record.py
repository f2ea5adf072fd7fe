"""Programs with NVIDIA's own headers, and libraries of theirs, under the recorder."""

import glob
import os
import sys

sys.path.insert(0, os.environ["CLI_TESTS"])
from command import CommandTest, main  # noqa: E402

SOURCE = os.environ["NVTX_SOURCE"]
OWN = os.environ["NVTX_OWN"]
# "folder|program|library|library|has payloads", several separated by spaces
CLIENTS = [c.split("|") for c in os.environ.get("NVTX_CLIENTS", "").split()]
NCCL = """
import ctypes
import sys
nccl = ctypes.CDLL(sys.argv[1])
pointer = ctypes.c_void_p
nccl.ncclAllReduce.argtypes = [pointer, pointer, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, pointer, pointer]
nccl.ncclGetUniqueId(ctypes.create_string_buffer(128))
nccl.ncclAllReduce(None, None, 1024, 7, 0, None, None)
nccl.ncclGroupStart()
nccl.ncclGroupEnd()
"""


def nccl():
    """libnccl.so.2 of CKINETO_NCCL (a file, or a folder that is searched), else of the system."""
    place = os.environ.get("CKINETO_NCCL")
    if place:
        return [place] if os.path.isfile(place) else sorted(glob.glob(f"{place}/**/libnccl.so.2", recursive=True))
    places = ("/usr/lib/*-linux-gnu", "/usr/lib64", "/usr/local/cuda/lib*", "/usr/local/lib")
    return [f for p in places for f in glob.glob(f"{p}/libnccl.so.2")][:1]


class Record(CommandTest):
    def record(self, *command):
        done = self.run_command("record", "-q", "-o", "t.json", "--", *command,
                                env={**os.environ, "NVTX_INJECTION64_PATH": SOURCE})
        self.assertEqual(done.returncode, 0, done.err)
        self.trace = self.load("t.json")
        self.events = [e for e in self.trace["traceEvents"] if e["ph"] in "XiCbe"]
        return done

    def named(self, name):
        return [e for e in self.events if e["name"] == name]

    def only(self, name):
        found = self.named(name)
        self.assertEqual(len(found), 1, f"{name}: {found}")
        return found[0]

    def assert_inside(self, inner, outer):
        self.assertEqual((inner["pid"], inner["tid"]), (outer["pid"], outer["tid"]))
        self.assertGreaterEqual(inner["ts"], outer["ts"])
        ends = [round(1000 * (e["ts"] + e.get("dur", 0))) for e in (inner, outer)]  # ns: a sum is rounded
        self.assertLessEqual(ends[0], ends[1])

    def counted(self, reason):
        return sum(l["count"] for l in self.ledger("t.json") if l["source"] == "nvtx" and l["reason"] == reason)

    def check_plain(self):
        outer, wide, moment = self.only("outer"), self.only("wide ✓"), self.only("moment")
        self.assertEqual((outer["ph"], outer["cat"], moment["ph"]), ("X", "user_annotation", "i"))
        self.assert_inside(wide, outer)
        self.assert_inside(moment, wide)
        worker = self.named("on a thread")
        self.assertEqual(len(worker), 100)
        self.assertNotEqual(worker[0]["tid"], outer["tid"])
        names = [e["args"]["name"] for e in self.trace["traceEvents"]
                 if e["name"] == "thread_name" and e["tid"] == worker[0]["tid"]]
        self.assertIn("worker", names[0])
        both = self.named("from thread to thread")
        self.assertEqual(sorted(e["ph"] for e in both), ["b", "e"])
        self.assertEqual(self.counted("pops without a push"), 1)

    def check_attributes(self):
        range_, mark = sorted(self.named("with attributes"), key=lambda e: e["ph"])
        self.assertEqual(range_["args"], {"domain": "Bücher", "category": "read", "color": 0x8000ff00,
                                          "payload": -77})
        self.assertEqual(mark["args"]["payload"], 0.25)
        self.assert_inside(mark, range_)

    def check_payloads(self):
        args = self.only("with a payload")["args"]
        self.assertEqual(args, {"domain": "payloads", "sample.size": 4096, "sample.share": 0.5,
                                "sample.text": "hello"})
        samples = [e["args"] for e in sorted(self.named("queue"), key=lambda e: e["ts"])]
        self.assertEqual([a["value [jobs]"] for a in samples], [0, 1, 4, 9, 16])

    def check_libraries(self, count):
        calls = sorted(self.named("library call"), key=lambda e: e["ts"])
        self.assertEqual([c["args"]["domain"] for c in calls], [f"library {i + 1}" for i in range(count)])
        for inside, call in zip(sorted(self.named("inside a library"), key=lambda e: e["ts"]), calls):
            self.assert_inside(inside, call)

    def test_a_program_with_threads_and_a_child_is_heard_to_its_last_words(self):
        self.record(OWN)
        work, inside = self.named("work"), self.named("in a domain")
        self.assertEqual((len(work), len(inside)), (15000, 15000))
        self.assertEqual(len({(e["pid"], e["tid"]) for e in work}), 3)
        self.assertEqual(len({e["pid"] for e in work}), 2)
        for number in (1, 2, 3):
            mine = sorted((e for e in inside if e["args"]["domain"] == f"thread {number}"), key=lambda e: e["ts"])
            self.assertEqual([e["args"]["payload"] for e in mine], list(range(5000)))
            around = sorted((e for e in work if e["tid"] == mine[0]["tid"]), key=lambda e: e["ts"])
            for inner, outer in zip(mine, around):
                self.assert_inside(inner, outer)
        self.assert_inside(self.only("last words"), self.only("at exit"))
        self.assertEqual(self.counted("pops without a push"), 3)
        self.assertEqual(self.lost("t.json"), 0)

    def test_programs_with_headers_of_the_vendor_are_heard_word_for_word(self):
        if not CLIENTS:
            self.skipTest("no headers: CKINETO_CUPTI_INCLUDE names none")
        for program, first, second, has_payloads in CLIENTS:
            with self.subTest(program=program):
                self.record(program, first, second)
                self.check_plain()
                self.check_attributes()
                if has_payloads == "1":
                    self.check_payloads()
                self.check_libraries(2)
                self.assertEqual(self.lost("t.json"), 0)

    def test_without_a_recorder_the_program_runs_as_ever(self):
        for program, first, second, _ in CLIENTS:
            plain = self.run_program(program, first, second)
            watched = self.run_program(program, first, second, NVTX_INJECTION64_PATH=SOURCE)
            self.assertEqual((plain.returncode, plain.stderr), (0, b""))
            self.assertEqual((watched.returncode, watched.stderr), (0, b""))

    @staticmethod
    def run_program(*command, **more):
        import subprocess
        return subprocess.run(command, env={**os.environ, **more}, capture_output=True, timeout=60)

    def test_nccl_is_heard_with_its_payloads(self):
        libraries = nccl()
        if not libraries:
            self.skipTest("no libnccl.so.2: CKINETO_NCCL names none")
        for library in libraries:
            with self.subTest(library=library):
                self.record(sys.executable, "-c", NCCL, library)
                reduce = self.only("ncclAllReduce")["args"]
                self.assertEqual(reduce["domain"], "NCCL")
                self.assertEqual([v for k, v in reduce.items() if "bytes" in k.lower()], [4096])
                self.assertIn("Sum", reduce.values())
                self.assertEqual(self.only("ncclGroupStart")["args"], {"domain": "NCCL"})


if __name__ == "__main__":
    main()

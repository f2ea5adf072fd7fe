"""Classes of the kernels of real traces: each is the one of a reviewed list (kernel_classes.tsv), little
time is in kernels that no rule knows, and HTA's types are those that HTA gave.

`classes.py --write` writes the list anew, to be read line by line: a name must have the class of what the
kernel does, not of a word in its template arguments."""

import collections
import csv
import functools
import glob
import gzip
import json
import os
import re
import subprocess
import sys
import unittest

CLASSIFY = os.environ.get("CKINETO_CLASSIFY", "")  # the unit test, which has a mode for this
TRACES = os.environ.get("CKINETO_TRACES", "")
GOLDEN = os.environ.get("CKINETO_GOLDEN", "")
DATA = os.environ.get("CKINETO_DATA", "")
KERNELS = {"kernel", "mtia_ccp_events"}
MOST_UNKNOWN = 0.02
LIST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kernel_classes.tsv")
FIELDS = ("type", "family", "precision", "tensor", "library")

if not CLASSIFY:
    print("run by ctest, which says where the test of the rules is: skipped")
    sys.exit(77)
if not os.path.isdir(TRACES):
    print("no real traces next to the source: skipped")
    sys.exit(77)


def opened(path):
    opener = gzip.open if path.endswith(".gz") else open
    return opener(path, "rt", errors="replace")


def events_of(path):
    """None if it is not a trace that can be read as it is; repairing is tested elsewhere."""
    try:
        with opened(path) as f:
            trace = json.load(f, strict=False)
    except (ValueError, OSError):
        return None
    events = trace.get("traceEvents") if isinstance(trace, dict) else trace
    return events if isinstance(events, list) else None


def kernel_times(paths):
    """Name to microseconds."""
    times = collections.Counter()
    for path in paths:
        for event in events_of(path) or []:
            if not isinstance(event, dict) or event.get("ph") != "X":
                continue
            if str(event.get("cat", "")).lower() in KERNELS and "\n" not in str(event.get("name")):
                times[str(event.get("name"))] += float(event.get("dur", 0))
    return times


def classes_of(names):
    names = list(names)
    done = subprocess.run([CLASSIFY, "--classify"], input="".join(n + "\n" for n in names), text=True,
                          capture_output=True, check=True)
    lines = done.stdout.splitlines()
    return {n: dict(zip((*FIELDS, "hta"), line.split("\t"))) for n, line in zip(names, lines, strict=True)}


@functools.lru_cache(maxsize=None)
def corpus():
    """Kernels of all real traces, with their times."""
    return kernel_times(sorted(glob.glob(f"{TRACES}/*.json.gz") + glob.glob(f"{TRACES}/*/*.json.gz")) +
                        sorted(glob.glob(f"{DATA}/*/*.json.gz")))


class Coverage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.times = corpus()
        cls.classes = classes_of(cls.times)

    def test_nearly_all_time_is_in_kernels_of_a_known_family(self):
        whole = sum(self.times.values())
        unknown = {n: t for n, t in self.times.items() if self.classes[n]["family"] == "unknown"}
        share = sum(unknown.values()) / whole
        print(f"{len(self.times)} names, {whole / 1e6:.3f} s, unknown {100 * share:.4f} %")
        self.assertGreater(len(self.times), 300)
        self.assertLessEqual(share, MOST_UNKNOWN, sorted(unknown, key=unknown.get)[-10:])

    def test_products_of_matrices_say_precision_and_tensor_cores(self):
        names = [n for n in self.times if self.classes[n]["family"] in ("gemm", "convolution")]
        whole = sum(self.times[n] for n in names)
        for key in ("precision", "tensor"):
            known = sum(self.times[n] for n in names if self.classes[n][key] != "unknown")
            print(f"{key} of products: {100 * known / whole:.1f} % of the time")
            self.assertGreaterEqual(known / whole, 0.95)

    def test_what_is_called_nccl_communicates(self):
        for name, c in self.classes.items():
            if name.startswith("nccl"):
                self.assertEqual(c["type"], "communication", name)


def shortened(name):
    """The front of a name, numbers alike: hundreds of names of a library differ in sizes of tiles only."""
    name = re.sub(r"^void |at::native::|\(anonymous namespace\)::|unsigned ", "", name)
    name = re.sub(r"\d+", "#", re.sub(r"\d+x\d+(x\d+)*", "#", name))
    return name if len(name) <= 72 else name[:69] + "..."


def list_of(classes):
    return sorted({"\t".join([c[field] for field in FIELDS] + [shortened(name)]) for name, c in classes.items()})


class Listed(unittest.TestCase):
    def test_every_kernel_has_the_class_that_was_reviewed(self):
        classes = classes_of(corpus())
        with open(LIST, encoding="utf-8") as f:
            reviewed = f.read().splitlines()[1:]
        self.assertEqual([line for line in list_of(classes) if line not in reviewed], [], "not in the list")
        self.assertEqual([line for line in reviewed if line not in list_of(classes)], [], "only in the list")


class AsHta(unittest.TestCase):
    """kernel_breakdown_full.1 has a row for each rank, type and name."""

    def golden_rows(self):
        for path in sorted(glob.glob(f"{GOLDEN}/*/kernel_breakdown_full.1.csv*")):
            with opened(path) as f:
                for row in csv.DictReader(f):
                    if row.get("name") not in (None, "", "others"):
                        yield path, row["name"], row["kernel_type"].lower()

    def test_types_are_those_of_hta(self):
        rows = list(self.golden_rows())
        if not rows:
            self.skipTest("no answers of HTA next to the source")
        classes = classes_of({name for _, name, _ in rows})
        wrong = [(p, n, t, classes[n]["hta"]) for p, n, t in rows if classes[n]["hta"] != t]
        print(f"{len(rows)} rows of HTA")
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        with open(LIST, "w", encoding="utf-8") as f:
            made = list_of(classes_of(corpus()))
            f.write("\n".join(["\t".join([*FIELDS, "name"]), *made]) + "\n")
        sys.exit(0)
    unittest.main(verbosity=1)

"""A trace says the same however its JSON is spelled: tables, findings and diffs of a trace that is written again
without white space, indented, with its members in another order, with \\u escapes, or with the numbers of its
arguments in quotes.

usage: test_texts.py CKINETO FOLDER-OF-GIVEN-CASES [--whole FOLDER...]
Without --whole only small traces: that of this script, and what tests/data has. With it all traces of the folders.
"""
import glob
import gzip
import json
import os
import re
import sys

from harness import CASES, failures, finish, given, path_of, run

HERE = os.path.dirname(os.path.abspath(__file__))
SMALL_BYTES, ONE_OF = 12000, 4  # the ordinary run reads one of N traces that are no larger
MAX_REPORTED = int(os.environ.get("MAX_REPORTED", 12))


class Number(str):
    """A number as it is spelled in the file, so that no digit is lost."""


def parse(text):
    return json.loads(text, parse_int=Number, parse_float=Number, object_pairs_hook=list_of_pairs, strict=False)


class Pairs(list):
    """Members of an object, in their order; a key may be there twice."""


def list_of_pairs(pairs):
    return Pairs(pairs)


# ---- spellings ----------------------------------------------------------------------------------


def quoted(text):
    return json.dumps(text, ensure_ascii=False)


def escaped(text):
    """Every second character as \\uXXXX."""
    units = []
    for i, c in enumerate(text):
        raw = c.encode("utf-16-be", "surrogatepass")
        plain = " " <= c <= "~" and c not in '"\\' and i % 2
        units.append(c if plain else "".join(f"\\u{raw[k]:02x}{raw[k + 1]:02x}" for k in range(0, len(raw), 2)))
    return '"' + "".join(units) + '"'


class Spelling:
    """How a value is written: separators, order of members, texts and numbers."""
    colon, comma, newline, text = ":", ",", "", staticmethod(quoted)
    reverses = quotes_arguments = False

    def write(self, value, depth=0, in_args=False):
        if isinstance(value, Pairs):
            return self.object(value, depth, in_args)
        if isinstance(value, list):
            return self.items([self.write(v, depth + 1, in_args) for v in value], "[]", depth)
        if isinstance(value, Number):
            return f'"{value}"' if in_args and self.quotes_arguments else str(value)
        if isinstance(value, str):
            return self.text(value)
        return {None: "null", True: "true", False: "false"}.get(value, repr(value))

    def object(self, pairs, depth, in_args):
        members = [self.text(k) + self.colon + self.write(v, depth + 1, in_args or k == "args") for k, v in pairs]
        once = len({k for k, _ in pairs}) == len(pairs)
        return self.items(members[::-1] if self.reverses and once else members, "{}", depth)

    def items(self, items, brackets, depth):
        if not self.newline or not items:
            return brackets[0] + self.comma.join(items) + brackets[1]
        inner, outer = self.newline + "\t " * (depth + 1), self.newline + "\t " * depth
        return brackets[0] + inner + (self.comma + inner).join(items) + outer + brackets[1]


class Compact(Spelling):
    pass


class Indented(Spelling):
    colon, comma, newline = " :\t", " ,", "\r\n"


class Reordered(Spelling):
    comma, colon, reverses = ", ", ": ", True


class Escaped(Spelling):
    comma, colon, text = ", ", ": ", staticmethod(escaped)


class QuotedArguments(Spelling):
    comma, colon, quotes_arguments = ", ", ": ", True


SPELLINGS = [Compact, Indented, Reordered, Escaped, QuotedArguments]


# ---- what a trace says --------------------------------------------------------------------------


def read_tables(folder):
    tables = {}
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), encoding="utf-8", errors="surrogateescape") as file:
            tables[name] = file.read()
    return tables


def run_csv(folder, *args):
    os.makedirs(folder, exist_ok=True)
    run(*args, "--csv", folder, status=None)
    return read_tables(folder)


def facts_of(trace, reference):
    """Everything that is compared, by name."""
    base = os.path.dirname(trace)
    facts = {f"analyze {k}": v for k, v in
             run_csv(os.path.join(base, "tables"), "analyze", "--all", "--series", trace).items()}
    facts.update({f"analyze hta {k}": v for k, v in
                  run_csv(os.path.join(base, "hta"), "analyze", "--all", "--series", "--definitions", "hta", trace).items()})
    facts["findings"] = run("analyze", "--findings", trace, status=None).replace(trace, "TRACE")
    facts["table"] = run("table", "--group-by-input-shape", "--flops", "--csv", trace, status=None)
    facts["table by stack"] = run("table", "--group-by-stack", "5", "--csv", trace, status=None)
    facts["verify"] = re.sub(r"byte \d+", "byte N", run("verify", trace, status=None).replace(trace, "TRACE"))
    facts.update({f"diff {k}": v for k, v in run_csv(
        os.path.join(base, "diff"), "diff", "--all", "--shapes", "--draws", "200", reference, trace).items()})
    return facts


def first_difference(left, right):
    for i, (a, b) in enumerate(zip(left.splitlines(), right.splitlines()), 1):
        if a != b:
            return f"line {i}: {a[:300]!r} became {b[:300]!r}"
    return f"{len(left.splitlines())} lines became {len(right.splitlines())}"


def compare(name, facts, others):
    for key in sorted(set(facts) | set(others)):
        left, right = facts.get(key), others.get(key)
        if left == right or len(failures) >= MAX_REPORTED:
            continue
        difference = first_difference(left, right) if left and right else "it is in one of them only"
        failures.append(f"{name}: {key}: {difference}")


def check(name, text):
    """One trace in all spellings: facts are those of the first one."""
    try:
        document = parse(text)
    except ValueError:
        return  # broken on purpose, or by an old writer
    first, reference = None, None
    for spelling in SPELLINGS:
        folder = path_of(f"{name}-{spelling.__name__}".replace("/", "_"))
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, "trace.json")
        with open(path, "w", encoding="utf-8", errors="surrogatepass") as file:
            file.write(spelling().write(document))
        reference = reference or path
        facts = facts_of(path, reference)
        if first is None:
            first = facts
        else:
            compare(f"{name} {spelling.__name__}", first, facts)


# ---- inputs -------------------------------------------------------------------------------------


def read(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
        return file.read().decode("utf-8", "surrogatepass")


def traces_of(folder):
    for path in sorted(glob.glob(os.path.join(folder, "**", "*.json*"), recursive=True)):
        if path.endswith((".json", ".json.gz")) and ".et." not in path:
            yield path


def small_traces(folder):
    """Those of the newest PyTorch in tests/data, and what the shared traces have that is as small."""
    shared = os.path.join(os.path.dirname(CASES), "traces")
    newest = max(glob.glob(os.path.join(folder, "torch-*")), key=lambda p: [int(n) for n in p.rsplit("-", 1)[1].split(".")])
    return [p for f in (newest, shared) for p in traces_of(f) if os.path.getsize(p) <= SMALL_BYTES][::ONE_OF]


def check_given():
    """One trace that was written twice."""
    compact, indented = given("analysis", "whitespace_compact.json"), given("analysis", "whitespace_indented.json")
    if not compact or not indented:
        return
    facts = []
    for path in compact, indented:
        name = path_of(os.path.basename(path)[:-5])
        os.makedirs(name)
        os.symlink(path, os.path.join(name, "trace.json"))
        facts.append(facts_of(os.path.join(name, "trace.json"), compact))
    compare("whitespace", *facts)


def own_trace():
    """What the traces of files lack: a kind of a plug-in's own, collectives with lists, devices, lists of types."""
    slices = [("cpu_op", "aten::copy_", 1, 1, 10, 20, {"External id": 5, "Input Dims": [[4, 3], [4, 3], [[1], [2]]],
                                                       "Input type": ["float", "float", "TensorList"],
                                                       "Concrete Inputs": ["", "", "[1, 2.]"], "Sequence number": 3}),
              ("cuda_runtime", "cudaLaunchKernel", 1, 1, 12, 2, {"correlation": 9, "External id": 5}),
              ("my_dma", "move", 0, 7, 20, 4, {"device": 0, "stream": 7, "correlation": 9, "bytes": 4096}),
              ("cpu_op", "nccl:all_reduce", 1, 1, 40, 20, {"External id": 6, "Input Dims": [[64]], "Input type": ["float"]}),
              ("cuda_runtime", "cudaLaunchKernel", 1, 1, 42, 2, {"correlation": 10, "External id": 6}),
              ("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 0, 7, 50, 30,
               {"device": 0, "stream": 7, "correlation": 10, "External id": 6, "Process Group Ranks": [0, 1, 2],
                "In msg nelems": 64, "Out msg nelems": 64, "Group size": 3, "dtype": "Float", "grid": [16, 1, 1],
                "block": [256, 1, 1], "registers per thread": 32, "shared memory": 0, "blocks per SM": 0.5})]
    events = [{"ph": "X", "cat": c, "name": n, "pid": p, "tid": t, "ts": ts, "dur": d, "args": a}
              for c, n, p, t, ts, d, a in slices]
    return json.dumps({"ckineto": {"kinds": {"my_dma": "gpu_memcpy"}}, "distributedInfo": {"rank": 1, "world_size": 3},
                       "deviceProperties": [{"id": 0, "name": "NVIDIA H100", "computeMajor": 9, "numSms": 132}],
                       "traceEvents": events})


def main():
    folders = sys.argv[sys.argv.index("--whole") + 1:] if "--whole" in sys.argv else None
    data = os.path.join(os.path.dirname(HERE), "data")
    paths = [p for f in folders for p in traces_of(f)] if folders else small_traces(data)
    for path in paths:
        try:
            text = read(path)
        except (OSError, EOFError, UnicodeDecodeError):
            continue  # damaged on purpose
        check("-".join(path.split(os.sep)[-2:]), text)
    check("own", own_trace())
    check_given()
    finish()


if __name__ == "__main__":
    main()

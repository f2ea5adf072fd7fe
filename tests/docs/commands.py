"""Every command of the documents runs, and every option that they name is one.

    commands.py fast|all     CKINETO (the command), CKINETO_BUILD, CKINETO_VENDOR_PLUGIN, CKINETO_SOURCE

Commands are what stands in blocks of sh, in indented lines that begin with `ckineto`, in the tables of some pages,
and in the examples of man pages. They run in a directory with the files that they speak of. What cannot run here is in NOT_RUN, with why.
"""

import concurrent.futures
import glob
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

import fixtures

SOURCE = os.environ.get("CKINETO_SOURCE", "")
BUILD = os.environ.get("CKINETO_BUILD", "")
LIMIT_SECONDS = 120
TABLES_OF_COMMANDS = ("index.md", "quick-reference.md")

# What is not run: a pattern, and why.
NOT_RUN = (
    (r"^(make|cmake|ctest)\b", "builds the tree; targets of make are looked up by abi.documents_agree_with_the_tree"),
    (r"^cc |^c\+\+ |^g\+\+ |^rustc |^cargo ", "compiles against an installed tree: the tests `install`, `docs.languages`"),
    (r"\bclpeak\b", "needs an OpenCL device: `make demo`"),
    (r"\btrigger\b.*(--slurm|--hosts)", "needs a cluster: tests/control"),
    (r"\btrigger\b.*--all|\bps\b.*--host|\bckineto daemon\b", "asks all that the machine has, or serves: tests/control"),
    (r"\bckineto top (?!-B)|--live\b", "needs a terminal: tests/cpu/test_top.py"),
    (r"\bckineto bench\b", "records programs of the reader's many times: tests/cli/test_bench.py"),
    (r"\bdiff --runs\b", "needs several runs of two programs: tests/cli/test_diff.py"),
    (r"\bperf\.data\b|\bperf script\b|\buftrace\b", "needs a recording of that tool: tests/import"),
    (r"\bview\b", "serves until it is stopped: tests/cli/test_view.py"),
    (r"\bexport --parquet\b|\bhistory (add|list|regress)\b|\bpyarrow\b", "needs the ranks of several runs: tests/parquet"),
    (r"--shard|\breduce\b|run\.ckrun", "needs the facts of all ranks: tests/ranks/test_facts.py"),
    (r"\bless\b", "waits for a person"),
    (r"gpu_pm_counter \\", "needs an NVIDIA GPU"),
    (r"acme_dma", "needs that vendor's device"),
    (r"\btorchrun\b|\bpython3? \S*train\.py", "needs PyTorch: tests/torch, tests/torch_peers"),
    (r"KINETO_USE_DAEMON", "waits for a daemon: tests/control"),
    (r"\bopenssl\b", "makes a secret in the home directory"),
    (r"^apt|^sudo|^dpkg|^pip\b|^git\b|^curl\b", "changes the machine, or needs the network"),
    (r"^(systemctl|journalctl)\b", "needs systemd"),
    (r"^transformer (--ops|--steps 200|--profile log --wait)", "trains for minutes on a small machine: make demo2"),
)
# What takes long, and is run by `all` only.
SLOW = (r"plugin check", r"^transformer", r"-- transformer", r"\bdoctor\b", r"--pid\b")
# What ends with another status than 0, and why.
STATUS = (
    (r"CKINETO_SIM_FAULT", (1,), "the fault is found"),
    (r"\bdoctor\b", (0, 1), "1: something cannot be recorded here"),
)
PLACEHOLDER = re.compile(r"…|\[[A-Z=-]|<[a-z]+>|\bPROGRAM\b|\bFILE\b|\bOPTIONS\b|\bTRACE\b|\bVERB\b|\bSECONDS\b|\bPID\b|\bDIR\b")


def read(path):
    with open(os.path.join(SOURCE, path), encoding="utf-8") as file:
        return file.read()


def documents():
    folders = ("*.md", "docs/*.md", "docs/*/*.md", "docs/man/*.1", "examples/*.md", "examples/vendor-plugin/*.md", "tests/*.md")
    for pattern in folders:
        for path in sorted(glob.glob(os.path.join(SOURCE, pattern))):
            yield os.path.relpath(path, SOURCE)


def indented(text):
    """Lines of commands that stand apart by four blanks; what follows three blanks is about them."""
    lines = []
    for line in text.split("\n"):
        if re.match(r"    (ckineto|[A-Z_]+=\S+ ckineto) ", line):
            line = re.split(r"\s{3,}(?!\\)", line.strip())[0]
            lines.append(line)
        elif lines and lines[-1].endswith("\\") and line.startswith("      "):
            lines.append(line.strip())
    return "\n".join(lines)


def scripts(path):
    """Pieces of shell of a document."""
    text = read(path)
    if path.endswith(".1"):
        for example in re.findall(r"^\.SH EXAMPLES?\n(.*?)(?=^\.SH|\Z)", text, flags=re.S | re.M):
            lines = [line.replace("\\-", "-").replace("\\e", "\\") for line in example.split("\n")]
            yield "\n".join(line for line in lines if re.match(r"ckineto |head |\s{8}", line))
        return
    yield from re.findall(r"^```sh\n(.*?)^```", text, flags=re.S | re.M)
    yield indented(re.sub(r"^```.*?^```$", "", text, flags=re.S | re.M))
    if os.path.basename(path) in TABLES_OF_COMMANDS:
        yield "\n".join(re.findall(r"`((?:ckineto|make) [^`]* [^`]*)`", text))


def whole(command):
    """Is this all of it, or does it go on in the next line?"""
    if re.search(r"(\\|\||&&)$", command.rstrip()):
        return False
    try:
        shlex.split(command, comments=True)
    except ValueError:
        return False
    return True


def commands(script):
    command = ""
    for line in script.split("\n"):
        command = f"{command}\n{line}" if command else line
        if whole(command):
            if command.strip() and not command.strip().startswith("#"):
                yield command.strip()
            command = ""
    if command:
        yield command


def reason_not_to_run(command):
    if PLACEHOLDER.search(re.sub(r"#.*", "", command)):
        return "a form, not a command"
    for pattern, reason in NOT_RUN:
        if re.search(pattern, re.sub(r"\s#.*", "", command)):
            return reason
    return None


def statuses(command):
    return next((good for pattern, good, _ in STATUS if re.search(pattern, command)), (0,))


class Listening:
    """A program that can be asked for traces, where a command speaks of process 4711."""

    def __init__(self, command):
        self.process = None
        if "4711" in command:
            environment = {**os.environ, "CKINETO_CONTROL": "socket", "CKINETO_RING": "seconds=5"}
            self.process = subprocess.Popen([f"{BUILD}/bin/control_target"], env=environment, text=True,
                                            stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.process.stdout.readline()

    def named_in(self, command):
        return command.replace("4711", str(self.process.pid)) if self.process else command

    def end(self):
        if self.process:
            self.process.kill()
            self.process.communicate()


def run(command, template, index):
    """None, or what is wrong. Each command has a copy of the files: it shares no files."""
    folder = os.path.join(template + "-runs", str(index))
    shutil.copytree(template, folder, symlinks=True)
    there = command.replace("/usr/local/lib/ckineto", f"{BUILD}/lib/ckineto").replace("trace.jsonl", "all.jsonl")
    setup = "ckineto convert trace.json -o all.jsonl >/dev/null 2>&1\n" if there != command and "jq" in command else ""
    listening = Listening(command)
    environment = {**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}", "HOME": folder, "TMPDIR": folder}
    try:
        done = subprocess.run(["bash", "-c", f"set -e -o pipefail\n{setup}{listening.named_in(there)}"], cwd=folder, env=environment,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"{command}\n  has not ended after {LIMIT_SECONDS} s"
    finally:
        listening.end()
        shutil.rmtree(folder, ignore_errors=True)
    if done.returncode in statuses(command):
        return None
    text = done.stderr.decode(errors="replace").strip() or done.stdout.decode(errors="replace").strip()
    return f"{command}\n  ends with {done.returncode}: {text[-600:]}"


def chosen(all_of_them):
    """Commands that are to be run, once each, with where they stand; and how many are not, by reason."""
    found, left = {}, {}
    for path in documents():
        for script in scripts(path):
            for command in commands(script):
                plain = re.sub(r"\s+#.*", "", command)
                reason = reason_not_to_run(command)
                if not reason and not all_of_them and any(re.search(p, plain) for p in SLOW):
                    reason = "takes long: `all`"
                for tool in ("jq", "python"):
                    if not reason and re.search(rf"\b{tool}\b", plain) and not shutil.which(tool):
                        reason = f"{tool} is not here"
                if reason:
                    left[reason] = left.get(reason, 0) + 1
                else:
                    found.setdefault(plain, (command, path))
    return list(found.values()), left


def questions():
    """SQL of the documents, as commands."""
    for path in documents():
        if path.endswith(".md"):
            for question in re.findall(r"^```sql\n(.*?)^```", read(path), flags=re.S | re.M):
                if question.startswith("-- ") and "fleet" in path: # of data sets: tests/parquet
                    continue
                yield f"ckineto query trace.json {shlex.quote(question)}", path


def options_of(verb, known={}):
    if verb not in known:
        done = subprocess.run([os.environ["CKINETO"], *verb.split(), "--help"], capture_output=True, check=False)
        known[verb] = set(re.findall(r"--[a-z][a-z-]*|(?<![\w-])-[a-zA-Z]\b", done.stdout.decode())) if not done.returncode else None
    return known[verb]


def wrong_options():
    """Options in `ckineto VERB …` anywhere in the text."""
    for path in documents():
        text = read(path).replace("\\-", "-")
        for call in re.findall(r"(?:`|^ *)(ckineto [a-z]+[^`\n#]*)", text, flags=re.M):
            words = call.split(" -- ")[0].split("|")[0].split("   ")[0].split()
            verb = " ".join(words[1:3]) if words[1:3] in (["plugin", "check"], ["history", "add"], ["history", "list"], ["history", "regress"]) else words[1]
            known = options_of(verb)
            if known is None:
                yield f"{path}: {call}: there is no such verb" if re.match(r"ckineto [a-z]+$", call) else None
                continue
            for word in words[2:]:
                option = re.match(r"--[a-z][a-z-]*", word)
                if option and option[0] not in known | {"--help", "--version"}:
                    yield f"{path}: {call}: {option[0]} is not an option of {words[1]}"


def main():
    all_of_them = sys.argv[1:] == ["all"]
    with tempfile.TemporaryDirectory(prefix="ckineto-docs-") as folder:
        template = os.path.join(folder, "files")
        os.mkdir(template)
        fixtures.make(template, BUILD, os.environ["CKINETO_VENDOR_PLUGIN"])
        todo, left = chosen(all_of_them)
        todo += list(questions())
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            results = list(pool.map(lambda pair: run(pair[1][0], template, pair[0]), enumerate(todo)))
    faults = [f"{path}: {result}" for (_, path), result in zip(todo, results) if result]
    faults += [fault for fault in wrong_options() if fault]
    for reason, count in sorted(left.items()):
        print(f"not run: {count}: {reason}")
    print("\n".join([*faults, f"{len(todo)} commands, {len(faults)} faults"]))
    return 1 if faults or len(todo) < 40 else 0


if not (SOURCE and BUILD and os.environ.get("CKINETO")):
    print("run by ctest, which says where the command is: skipped")
    sys.exit(77)
sys.exit(main())

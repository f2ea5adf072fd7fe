"""Programs and recorders at their worst. After each round what the program made by its own count is
what the trace has and what its ledger says was lost; verify finds nothing; the program never
notices.

chaos.py [--seconds N] [--seed N] [SCENARIO…]: rounds of all scenarios, or these, for about so long,
each at least once. CKINETO, CHAOS_PROGRAM and CHAOS_CLOCK name the command, the program and the
interposer."""

import argparse
import glob
import mmap
import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

COMMAND = os.environ.get("CKINETO", "")
PROGRAM = os.environ.get("CHAOS_PROGRAM", "")
CLOCK = os.environ.get("CHAOS_CLOCK", "")
SANITIZED = os.environ.get("CHAOS_SANITIZED", "")  # "", "address" or "thread"
STATUS = 7  # of a program that came to its end
BUFFER_MB = "2"
AT_ONCE = 2  # rounds
quick = True  # short rounds


class Skip(Exception):
    pass


class Counts:
    """The program's own: counts.h."""

    def __init__(self, path):
        with open(path, "rb") as f:
            data = f.read()
        self.used, self.done = struct.unpack_from("=II", data, 0)
        slots = struct.iter_unpack("=QQ", data[8:8 + 16 * min(self.used, 65536)])
        pairs = list(slots)
        self.begun = sum(b for b, _ in pairs)
        self.ended = sum(e for _, e in pairs)


def check(right, words, *more):
    if not right:
        raise AssertionError(" ".join([words, *map(str, more)]))


def until(condition, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.002)
    return False


class Round:
    """A directory, a recorder in it, and what it left."""

    def __init__(self, dice):
        self.dice = dice
        self.born = time.time() - 1
        self.directory = tempfile.mkdtemp(prefix="ckineto-chaos-")
        self.recorder = None
        self.mounted = False

    def path(self, name):
        return os.path.join(self.directory, name)

    def start(self, *verb, options=(), environment=None, **more):
        self.errors = open(self.path("errors"), "wb")
        self.output = open(self.path("output"), "wb")
        command = [COMMAND, "record", "-q", "-b", BUFFER_MB, "-o", self.path("t.json"), *options, "--",
                   PROGRAM, self.path("counts"), *map(str, verb)]
        self.recorder = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.output,
                                         stderr=self.errors, env={**os.environ, **(environment or {})},
                                         **more)
        return self.recorder

    def counts(self):
        return Counts(self.path("counts"))

    def program(self):
        """The recorder's child, once it records."""
        children = f"/proc/{self.recorder.pid}/task/{self.recorder.pid}/children"

        def found():
            try:
                with open(children) as f:
                    return f.read().split() and self.counts().begun
            except (OSError, struct.error):
                return False
        check(until(lambda: found() or self.recorder.poll() is not None), "nothing was recorded",
              self.said())
        with open(children) as f:
            pids = f.read().split()
        check(pids, "the program ended at once", self.said())
        return int(pids[0])

    def doze(self):
        time.sleep(self.dice.uniform(0, 0.03 if quick else 0.15))

    def said(self):
        with open(self.path("errors"), "rb") as f:
            return f.read().decode("utf-8", "replace")

    def start_threads(self, ms):
        """Some that record for so long, or until a process is killed."""
        pause_us = self.dice.choice([0, 300, 1000])
        return self.start("run", self.dice.randint(1, 2 if quick else 6), ms // 4 if quick else ms, pause_us)

    def run(self, *verb, status=STATUS, **more):
        process = self.start(*verb, **more)
        process.wait(timeout=300)
        check(process.returncode == status, f"status {process.returncode} instead of {status}:",
              self.said())

    def pools(self):
        """Newer than the round: numbers of processes come round again."""
        return [path for folder in ("/dev/shm", "/tmp") for path in
                glob.glob(f"{folder}/ckineto-{os.geteuid()}-{self.recorder.pid}-*.pool")
                if os.stat(path).st_mtime >= self.born]

    def recover(self, name="t.json"):
        """What a recorder that is gone left, once the program has ended."""
        check(until(lambda: self.counts().done), "the program did not come to its end")
        pools = self.pools()
        check(len(pools) == 1, "pools:", pools)
        done = subprocess.run([COMMAND, "recover", "-o", self.path(name), "--remove", *pools],
                              capture_output=True, timeout=300)
        check(done.returncode == 0, "recover:", done.stderr)

    def ask(self, name, query):
        done = subprocess.run([COMMAND, "query", "--format", "csv", self.path(name), query],
                              capture_output=True, text=True, timeout=300)
        check(done.returncode == 0, "query:", done.stderr)
        return done.stdout.strip().splitlines()[1:]

    def check_trace(self, name="t.json", whole=True):
        """whole: no process was killed while it recorded."""
        counts = self.counts()
        line, = self.ask(name, "SELECT (SELECT count(*) FROM activities WHERE name LIKE 'chaos%'), "
                               "(SELECT coalesce(sum(count), 0) FROM ledger WHERE is_loss)")
        rows, lost = map(int, line.split(","))
        least = counts.begun if whole else counts.ended
        check(least <= rows + lost <= counts.begun,
              f"{counts.begun} begun and {counts.ended} ended by the program's count, but {rows} "
              f"delivered and {lost} lost:", self.ask(name, "SELECT * FROM ledger"))
        done = subprocess.run([COMMAND, "verify", self.path(name)], capture_output=True, text=True,
                              timeout=300)
        wrong = [l for l in done.stdout.splitlines() if l.startswith(("  error", "  warning"))]
        check(done.returncode in (0, 1) and all("ledger.losses" in l or "rows.none" in l for l in wrong), "verify:",
              done.stdout, done.stderr)
        return counts.begun, rows, lost

    def close(self):
        if self.recorder and self.recorder.poll() is None:
            self.recorder.kill()
            self.recorder.wait()
        if self.mounted:
            subprocess.run(["umount", self.path("small")], capture_output=True)
        left = self.pools() if self.recorder else []
        for path in left:
            os.unlink(path)
        shutil.rmtree(self.directory, ignore_errors=True)
        return left


# ---- scenarios: each is one round and returns (made, delivered, lost) -----------------------------------

def program_is_killed(r):
    r.start_threads(60000)
    pid = r.program()
    r.doze()
    os.kill(pid, signal.SIGKILL)
    r.recorder.wait(timeout=300)
    check(r.recorder.returncode == 137, "status", r.recorder.returncode, r.said())
    return r.check_trace(whole=False)


def recorder_is_killed(r):
    r.start_threads(250)
    r.program()
    r.doze()
    r.recorder.kill()
    r.recorder.wait()
    r.recover()
    return r.check_trace()


def both_are_killed(r):
    r.start_threads(60000)
    pid = r.program()
    r.doze()
    for victim in r.dice.sample([pid, r.recorder.pid], 2):
        os.kill(victim, signal.SIGKILL)
    r.recorder.wait()
    with open(r.path("counts"), "r+b") as f:  # no other process writes it
        with mmap.mmap(f.fileno(), 8) as m:
            check(until(lambda: not os.path.exists(f"/proc/{pid}") or zombie(pid)), "it lives")
            m[4:8] = struct.pack("=I", 1)
    r.recover()
    return r.check_trace(whole=False)


def zombie(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def stopped_and_continued(r):
    r.start_threads(300)
    pid = r.program()
    while r.recorder.poll() is None and not r.counts().done:
        victim = r.dice.choice([pid, r.recorder.pid])
        try:
            os.kill(victim, signal.SIGSTOP)
            time.sleep(r.dice.uniform(0, 0.08))
            os.kill(victim, signal.SIGCONT)
        except ProcessLookupError:
            break
        time.sleep(r.dice.uniform(0, 0.02))
    r.recorder.wait(timeout=300)
    check(r.recorder.returncode == STATUS, "status", r.recorder.returncode, r.said())
    return r.check_trace()


def files_may_not_grow(r):
    """RLIMIT_FSIZE of the recorder, while it records: as a full disk, with a signal that kills."""
    r.start_threads(250)
    r.program()
    limit = r.dice.randint(1 << 16, 4 << 20)
    resource.prlimit(r.recorder.pid, resource.RLIMIT_FSIZE,
                     (limit, resource.prlimit(r.recorder.pid, resource.RLIMIT_FSIZE)[1]))
    r.recorder.wait(timeout=300)
    if r.recorder.returncode == STATUS:  # it was not so much
        return r.check_trace()
    check(r.recorder.returncode == 125, "status", r.recorder.returncode, r.said())
    r.recover()
    return r.check_trace()


def the_disk_is_full(r):
    os.mkdir(r.path("small"))
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={r.dice.randint(256, 4096)}k", "tmpfs",
                           r.path("small")], capture_output=True)
    if made.returncode:
        raise Skip("a small file system cannot be mounted here")
    r.mounted = True
    r.start("run", 2, 100 if quick else 250, 500, options=["-o", r.path("small/t.json")])
    r.recorder.wait(timeout=300)
    if r.recorder.returncode == STATUS:
        return r.check_trace("small/t.json")
    check(r.recorder.returncode == 125, "status", r.recorder.returncode, r.said())
    r.recover()
    return r.check_trace()


def no_descriptors_in_the_program(r):
    r.run("nofiles", 20 if quick else 100)
    return r.check_trace()


def no_descriptors_in_the_recorder(r):
    r.start_threads(200)
    r.program()
    used = len(os.listdir(f"/proc/{r.recorder.pid}/fd"))
    resource.prlimit(r.recorder.pid, resource.RLIMIT_NOFILE,
                     (used, resource.prlimit(r.recorder.pid, resource.RLIMIT_NOFILE)[1]))
    r.recorder.wait(timeout=300)
    if r.recorder.returncode == STATUS:
        return r.check_trace()
    check(r.recorder.returncode == 125, "status", r.recorder.returncode, r.said())
    r.recover()
    return r.check_trace()


def interrupted(r):
    process = r.start("eintr", 100 if quick else 400)
    r.program()
    while process.poll() is None:  # the recorder, too: it hears of children
        process.send_signal(r.dice.choice([signal.SIGCHLD, signal.SIGWINCH, signal.SIGCONT]))
        time.sleep(0.001)
    check(process.returncode == STATUS, "status", process.returncode, r.said())
    return r.check_trace()


def the_clock_is_set(r):
    if SANITIZED or not CLOCK:
        raise Skip("not before a sanitizer")
    r.run("run", 2, 50 if quick else 300, 300, environment={"LD_PRELOAD": CLOCK, "CHAOS_CLOCK_MS": str(r.dice.randint(3, 60))})
    worst, = r.ask("t.json", "SELECT max(dur_ns) FROM activities WHERE name LIKE 'chaos%'")
    check(int(worst) < 30e9, "an hour went into a range:", worst)
    return r.check_trace()


def threads_are_cancelled(r):
    r.run("cancel", 64 if quick or SANITIZED else 256)
    return r.check_trace()


def processes_come_and_go(r):
    r.run("forks", r.dice.randint(20, 60 if quick else 300))
    return r.check_trace()


def many_threads(r, count=0):
    count = count or r.dice.randint(50, 100 if quick else 300)
    r.run("threads", count)
    made = r.check_trace()
    with open(r.path("output")) as f:
        started = int(f.read().split()[1])
    check(made[0] == started * 10, "made:", made, "by threads:", started)
    return made


def ten_thousand_threads(r):
    return many_threads(r, 1000 if SANITIZED == "thread" else 10000)


QUICK = [program_is_killed, recorder_is_killed, both_are_killed, stopped_and_continued,
         files_may_not_grow, the_disk_is_full, no_descriptors_in_the_program,
         no_descriptors_in_the_recorder, interrupted, the_clock_is_set, threads_are_cancelled,
         processes_come_and_go, many_threads]
SLOW = [ten_thousand_threads]


def play(scenario, seed, sums):
    r = Round(random.Random(seed))
    try:
        made, delivered, lost = scenario(r)
        sums[scenario] = [a + b for a, b in zip(sums.get(scenario, [0] * 4), (1, made, delivered, lost))]
    except Skip as why:
        sums.setdefault(scenario, str(why))
    except (AssertionError, OSError, ValueError, struct.error, subprocess.TimeoutExpired) as what:
        print(f"{scenario.__name__} --seed {seed}: {what}", flush=True)
        return False
    finally:
        left = r.close()
    if left:
        print(f"{scenario.__name__} --seed {seed}: left {left}", flush=True)
    return not left


def main():
    global quick
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("scenario", nargs="*")
    chosen = parser.parse_args()
    if not (COMMAND and PROGRAM):
        print("run by ctest or make chaos, which say where the command is: skipped")
        return 77
    known = {s.__name__: s for s in QUICK + SLOW}
    quick = not chosen.seconds
    scenarios = [known[n] for n in chosen.scenario] or (QUICK + SLOW if chosen.seconds else QUICK)
    end, seed, failed, sums = time.monotonic() + chosen.seconds, chosen.seed, 0, {}
    while True:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            rounds = pool.map(lambda n: play(scenarios[n], seed + n, sums), range(len(scenarios)))
            failed += sum(not good for good in rounds)
        seed += len(scenarios)
        if time.monotonic() >= end:
            break
    for scenario, sum_ in sums.items():
        print(f"{scenario.__name__:32}", f"skipped: {sum_}" if isinstance(sum_, str) else
              "{:5} rounds {:12} made = {:12} delivered + {:12} lost".format(*sum_))
    print(f"{failed} rounds failed, seeds {chosen.seed} to {seed - 1}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

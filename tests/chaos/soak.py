"""Hours of recording: memory stays flat, what the program made by its own count is delivered or
counted as lost, exactly, and every trace on the way is valid.

soak.py [--minutes N]: three programs at once for so long, under
  ring       ckineto record --policy ring: at the end all that was made is in the trace or its ledger
  on-demand  ckineto record --ring: asked for traces and for the ring again and again
  inside     CKINETO_RING and CKINETO_CONTROL, without a recorder: asked the same
Every line is one look at their memory. CKINETO and CHAOS_PROGRAM name command and program."""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time

from chaos import COMMAND, PROGRAM, STATUS, Counts, check

THREADS = 2
PAUSE_US = 3000         # between 64 pairs: some 40 000 events a second from each thread
RING_SECONDS = 2
LOOK_SECONDS = 5
MOST_GROWTH_KIB = 2048  # from the first quarter's mean to the last one's


def rss_kib(pid):
    """Memory of its own, without what it shares (a pool is as large as it was asked for)."""
    try:
        with open(f"/proc/{pid}/status") as f:
            for line in f:
                if line.startswith("RssAnon:"):
                    return int(line.split()[1])
    except OSError:
        pass
    return 0


def child_of(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as f:
            pids = f.read().split()
    except OSError:
        pids = []
    return int(pids[0]) if pids else 0


class Soak:
    def __init__(self, directory, name, seconds, options=None, environment=None):
        self.directory, self.name = directory, name
        program = [PROGRAM, self.path("counts"), "soak", str(THREADS), str(int(seconds * 1000)),
                   str(PAUSE_US)]
        if options is not None:
            program = [COMMAND, "record", "-q", "-o", self.path("end.json"), *options, "--", *program]
        self.errors = open(self.path("errors"), "wb")
        self.process = subprocess.Popen(program, stdin=subprocess.DEVNULL, stderr=self.errors,
                                        stdout=subprocess.DEVNULL,
                                        env={**os.environ, **(environment or {})})
        self.has_recorder = options is not None
        self.looks = []  # (seconds, KiB of the program, KiB of the recorder)
        self.asked = self.rows = self.lost = 0

    def path(self, name):
        return os.path.join(self.directory, f"{self.name}-{name}")

    def program_pid(self):
        return child_of(self.process.pid) if self.has_recorder else self.process.pid

    def look(self, begun):
        if self.process.poll() is not None:
            with open(self.path("errors"), "rb") as f:
                check(False, self.name, "ended too soon, status", self.process.returncode, f.read())
        recorder = self.process.pid if self.has_recorder else 0
        self.looks.append((time.monotonic() - begun, rss_kib(self.program_pid()), rss_kib(recorder)))
        return self.looks[-1]

    def query(self, path, text):
        done = subprocess.run([COMMAND, "query", "--format", "csv", path, text], capture_output=True,
                              text=True, timeout=300)
        check(done.returncode == 0, self.name, "query:", done.stderr)
        return done.stdout.strip().split("\n")[1:]

    def check_valid(self, path):
        done = subprocess.run([COMMAND, "verify", path], capture_output=True, text=True, timeout=300)
        wrong = [l for l in done.stdout.splitlines() if l.startswith(("  error", "  warning"))]
        check(done.returncode in (0, 1) and all("ledger.losses" in l for l in wrong), self.name,
              "verify:", done.stdout, done.stderr)

    def ask(self, *how):
        """A trace by request, checked: numbers follow one another, or the ledger counts the gaps."""
        path = self.path("asked.json")
        done = subprocess.run([COMMAND, "trigger", "--pid", str(self.program_pid()), "--wait=120", "-o",
                               path, *how], capture_output=True, text=True, timeout=300)
        if self.process.poll() is not None:
            return  # it ended meanwhile
        check(done.returncode == 0, self.name, "trigger:", done.stdout, done.stderr)
        written = [n for n in os.listdir(self.directory) if n.startswith(f"{self.name}-asked")]
        check(len(written) == 1, self.name, "traces:", written)
        path = os.path.join(self.directory, written[0])
        self.check_valid(path)
        line, = self.query(path, "SELECT coalesce(sum(rows), 0), coalesce(sum(last - first + 1 - rows), 0),"
                                 " (SELECT coalesce(sum(count), 0) FROM ledger WHERE is_loss) FROM (SELECT "
                                 "count(*) AS rows, min(n) AS first, max(n) AS last FROM (SELECT track, "
                                 "arg(row, 'i') AS n FROM activities WHERE name = 'chaos inner') "
                                 "GROUP BY track)")
        rows, missing, lost = map(int, line.split(","))
        check(rows > 0, self.name, "an empty trace")
        if missing > lost:
            self.tell_gaps(path, how)
        check(missing <= lost, self.name, f"{missing} are missing, {lost} counted as lost")
        os.unlink(path)
        self.asked, self.rows, self.lost = self.asked + 1, self.rows + rows, self.lost + lost

    def tell_gaps(self, path, how):
        print(self.name, how)
        for query in ("SELECT * FROM ledger",
                      "SELECT track, n - before - 1, before, start_ns - (SELECT min(start_ns) FROM activities), "
                      "(SELECT max(start_ns) - min(start_ns) FROM activities) "
                      "FROM (SELECT track, start_ns, arg(row, 'i') AS n, lag(arg(row, 'i')) OVER "
                      "(PARTITION BY track ORDER BY arg(row, 'i')) AS before FROM activities WHERE name = "
                      "'chaos inner') WHERE n <> before + 1 LIMIT 20"):
            print("\n".join(self.query(path, query)))
        shutil.copy(path, os.environ.get("SOAK_KEEP", "/dev/null"))

    def end(self):
        self.process.wait(timeout=120)
        with open(self.path("errors"), "rb") as f:
            check(self.process.returncode == STATUS, self.name, "status", self.process.returncode, f.read())
        counts = Counts(self.path("counts"))
        check(counts.begun == counts.ended and counts.done, self.name, "it did not come to its end")
        if self.name == "ring":
            self.check_valid(self.path("end.json"))
            line, = self.query(self.path("end.json"),
                               "SELECT (SELECT count(*) FROM activities WHERE name LIKE 'chaos%'), "
                               "(SELECT coalesce(sum(count), 0) FROM ledger WHERE is_loss)")
            self.rows, self.lost = map(int, line.split(","))
            check(self.rows + self.lost == counts.begun, self.name, f"{counts.begun} made, {self.rows} "
                  f"delivered, {self.lost} lost")
        return counts.begun

    def growth(self, column):
        """KiB from the first quarter, when all is warm, to the last one."""
        values = [look[column] for look in self.looks[1:]]
        quarter = max(1, len(values) // 4)
        return sum(values[-quarter:]) / quarter - sum(values[quarter:2 * quarter]) / quarter


def run(directory, seconds):
    ring = ["--ring", str(RING_SECONDS), "--ring-mb", "32"]
    inside = {"CKINETO_RING": f"seconds={RING_SECONDS},mb=32", "CKINETO_CONTROL": "socket"}
    soaks = [Soak(directory, "ring", seconds, ["--policy", "ring", "--keep-mb", "16"]),
             Soak(directory, "on-demand", seconds, ring), Soak(directory, "inside", seconds, None, inside)]
    begun, turn = time.monotonic(), 0
    time.sleep(min(3, seconds / 4))
    while time.monotonic() < begun + seconds - LOOK_SECONDS - 2:
        looked = time.monotonic()
        for soak in soaks[1:]:
            soak.ask("--dump") if turn % 2 else soak.ask("--duration-ms", "300")
        seen = [soak.look(begun) for soak in soaks]
        print(f"{seen[0][0]:7.0f} s  KiB (program, recorder): "
              + ", ".join(f"{s.name} {l[1]} {l[2]}" for s, l in zip(soaks, seen)), flush=True)
        time.sleep(max(0, looked + LOOK_SECONDS - time.monotonic()))
        turn += 1
    failed = 0
    for soak in soaks:
        made, grown = soak.end(), [soak.growth(1), soak.growth(2)]
        words = (f"{soak.rows} delivered + {soak.lost} lost" if soak.name == "ring" else
                 f"{soak.asked} traces on request, all valid, with {soak.rows} events and {soak.lost} lost")
        print(f"{soak.name:10} {made:12} made: {words}; memory grew by {grown[0]:.0f} KiB (program) and "
              f"{grown[1]:.0f} KiB (recorder) after the first quarter of {len(soak.looks)} looks")
        failed |= max(grown) > MOST_GROWTH_KIB
    return failed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=60)
    chosen = parser.parse_args()
    if not (COMMAND and PROGRAM):
        print("run by make soak, which says where the command is: skipped")
        return 77
    directory = tempfile.mkdtemp(prefix="ckineto-soak-")
    os.environ["XDG_RUNTIME_DIR"] = directory
    try:
        return int(run(directory, chosen.minutes * 60))
    except AssertionError as what:
        print(what)
        return 1
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())

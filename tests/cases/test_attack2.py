"""Recordings in a hostile or poor environment: what is missing is counted, what keeps ckineto from recording does
not keep the program from running, and reasons are true."""
import glob
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

import harness
from harness import CKINETO, environment, expect, failures, path_of, run

LIBRARIES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(CKINETO))), "lib")
INCLUDE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "include")
ROOT = os.geteuid() == 0
PROGRAM = r"""
#include <ckineto/record.h>
#include <stdlib.h>
#include <stdio.h>
#include <unistd.h>
KINETO_SITE(site, KINETO_KIND_USER_ANNOTATION, "work");
/* EVENTS, then TIMES times 10 and 0.1 s of sleep, then a STATUS; TIMES -1: EVENTS until killed */
int main(int argc, char **argv)
{
    int status = argc > 3 ? atoi(argv[3]) : 0, times = argc > 2 ? atoi(argv[2]) : 0;
    do
        for (int i = 0; i < atoi(argv[1]); i++)
            kineto_range_end(kineto_range_begin(&site));
    while (times < 0);
    for (int i = 0; i < times; i++, usleep(100000))
        for (int k = 0; k < 10; k++)
            kineto_range_end(kineto_range_begin(&site));
    puts("done");
    return status;
}
"""


def compile_program(compiler, name):
    source, program = path_of(name + ".c"), path_of(name)
    with open(source, "w", encoding="utf-8") as file:
        file.write(PROGRAM)
    done = subprocess.run([compiler, "-O2", "-I", INCLUDE, "-o", program, source, f"-L{LIBRARIES}", "-lckineto-rt",
                           f"-Wl,-rpath,{LIBRARIES}"], capture_output=True, text=True, check=False)
    return program if done.returncode == 0 else None


def start(*args, **options):
    options.setdefault("env", environment())
    return subprocess.Popen([CKINETO, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            **options)


def wait_for(condition, what, seconds=60):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    failures.append(f"{what}: did not happen in {seconds} s")
    return None


def events_of(trace):
    """Activities, and events that the ledger says are missing."""
    text = run("info", trace)
    count = re.search(r"([\d,]+) activit", text)
    lost = re.search(r"ledger: ([\d,]+) events? (?:is|are) missing", text)
    number = lambda match: int(match.group(1).replace(",", "")) if match else 0
    return number(count), number(lost)


def pool_of(recorder):
    return glob.glob(f"/dev/shm/ckineto-{os.geteuid()}-{recorder.pid}-*.pool")


def test_missing_spool():
    """The pool knows what was copied out: without the spool, or with a part of it, that is missing."""
    directory = path_of("killed")
    os.mkdir(directory)
    for cut in (None, 0.5):
        recorder = start("record", "-q", "-b", "16", "-o", f"{directory}/t.json", "--", program, "200000", "30")
        spool = wait_for(lambda: glob.glob(f"{directory}/.t.json.ckspool-*"), "a spool")
        pool = wait_for(lambda: pool_of(recorder), "a pool")
        wait_for(lambda: os.path.getsize(spool[0]) > 4_000_000, "a spool of 200,000 events")
        recorder.kill()
        recorder.communicate()
        time.sleep(0.3)  # it is over when the program notices nothing: it goes on, into the pool
        whole = path_of("whole.json")
        run("recover", "-o", whole, pool[0])
        there, lost = events_of(whole)
        expect("recover with its spool: lost", lost, 0)
        if cut:
            os.truncate(spool[0], int(os.path.getsize(spool[0]) * cut))
        else:
            os.unlink(spool[0])
        part = path_of("part.json")
        run("recover", "-o", part, pool[0])
        some, missing = events_of(part)
        if not (some < there and 0 <= some + missing - there < 400):  # it records on meanwhile
            failures.append(f"recover without {cut or 'its'} spool: {some} and {missing} missing, of {there}")
        run("verify", part, status=1)
        for path in spool + pool:
            if os.path.exists(path):
                os.unlink(path)


def test_missing_pool():
    """Of the buffer nothing is known but that it is gone."""
    directory = path_of("rebooted")
    os.mkdir(directory)
    recorder = start("record", "-q", "-b", "16", "-o", f"{directory}/t.json", "--", program, "200000", "30")
    spool = wait_for(lambda: glob.glob(f"{directory}/.t.json.ckspool-*"), "a spool")
    wait_for(lambda: os.path.getsize(spool[0]) > 4_000_000, "a spool of 200,000 events")
    recorder.kill()
    recorder.communicate()
    for path in pool_of(recorder):
        os.unlink(path)
    trace = path_of("no_pool.json")
    run("recover", "-o", trace, spool[0])
    expect("recover without the pool says so", "buffers missing" in run("info", trace), True)
    run("verify", trace, status=1)


def test_output_directory():
    """The trace is whole, and is where a message says."""
    for change in ("removed", "renamed"):
        directory = path_of(change)
        os.mkdir(directory)
        elsewhere = path_of("elsewhere-" + change)
        os.mkdir(elsewhere)
        recorder = start("record", "-q", "-o", f"{directory}/t.json", "--", program, "1000", "5", "3",
                         env={**environment(), "TMPDIR": elsewhere})
        wait_for(lambda: glob.glob(f"{directory}/.t.json.ckspool-*"), "a spool")
        if change == "removed":
            shutil.rmtree(directory)
        else:
            os.rename(directory, directory + "-now")
        _, err = recorder.communicate()
        expect(f"{change}: status of the program", recorder.returncode, 3)
        found = re.search(r"the trace is in (.*)", err)
        expect(f"{change}: says where the trace is: {err}", bool(found), True)
        if not found:
            continue
        expect(f"{change}: place", os.path.dirname(found.group(1)),
               elsewhere if change == "removed" else directory + "-now")
        expect(f"{change}: events and losses", events_of(found.group(1)), (1050, 0))
        expect(f"{change}: files left", sorted(os.listdir(os.path.dirname(found.group(1)))),
               [os.path.basename(found.group(1))])


def test_busy_ring():
    """A dump while the program overwrites the ring as fast as it can: never empty, and what is missing is counted."""
    runtime = path_of("run")
    os.mkdir(runtime, 0o700)
    there = {**environment(), "XDG_RUNTIME_DIR": runtime, "KINETO_ONDEMAND_TRACE_DIR": runtime}
    recorder = start("record", "-q", "--ring", "60", "--ring-mb", "16", "--", program, "100000", "-1", env=there)
    wait_for(lambda: glob.glob(f"{runtime}/ckineto/*.sock"), "a socket")
    time.sleep(1)
    for number in range(2):
        asked = subprocess.run([CKINETO, "trigger", "--pid", str(recorder.pid), "--dump", "--wait=60", "-o",
                                f"{runtime}/d{number}.json"], capture_output=True, text=True, env=there, check=False)
        expect(f"trigger --dump: {asked.stderr}", asked.returncode, 0)
        if asked.returncode:
            continue
        trace = asked.stdout.split("\t")[0]
        count, _ = events_of(trace)
        text = run("info", trace)
        expect("a dump of a busy ring has events", count > 1000, True)
        expect("a dump of a busy ring says that it is short", "ring: shorter than asked for" in text, True)
        os.unlink(trace)
    children = subprocess.run(["pgrep", "-P", str(recorder.pid)], capture_output=True, text=True, check=False)
    for pid in children.stdout.split():
        os.kill(int(pid), signal.SIGKILL)
    recorder.communicate()


def limited(*limits):
    def apply():
        for which, value in limits:
            resource.setrlimit(which, (value, value))
    return apply


def test_limits():
    """The program runs; either it is recorded, or a message says that it is not."""
    for what, limit, recorded in (("a small stack", (resource.RLIMIT_STACK, 32768), True),
                                  ("a small file size", (resource.RLIMIT_FSIZE, 1024), False),
                                  ("a small address space", (resource.RLIMIT_AS, 40 << 20), False)):
        trace = path_of(what.replace(" ", "_") + ".json")
        small = {k: v for k, v in environment().items() if k in ("PATH", "CKINETO_LIBRARY_PATH", "CKINETO_CPU")}  # it lies on the stack
        recorder = start("record", "-q", "-o", trace, "--", program, "1000", "0", "3", preexec_fn=limited(limit), env=small)
        out, err = recorder.communicate()
        expect(f"{what}: status ({err})", recorder.returncode, 3)
        expect(f"{what}: output", out, "done\n")
        if recorded:
            expect(f"{what}: events", events_of(trace), (1000, 0))
        else:
            expect(f"{what}: message", "the program runs unrecorded" in err, True)
            expect(f"{what}: trace", os.path.exists(trace), False)


def test_umask():
    for mask in (0o377, 0o777):
        trace = path_of(f"masked_{mask:o}.json")
        done = start("record", "-q", "-o", trace, "--", program, "1000", "0", "3", preexec_fn=lambda: os.umask(mask))
        _, err = done.communicate()
        expect(f"umask {mask:o}: status ({err})", done.returncode, 3)
        if os.path.exists(trace):
            os.chmod(trace, 0o600)
        expect(f"umask {mask:o}: events", events_of(trace), (1000, 0))


def may_unshare(*options):
    return ROOT and subprocess.run(["unshare", *options, "true"], capture_output=True, check=False).returncode == 0


def test_namespaces():
    """Time namespaces shift start times, and /proc may be absent or another namespace's."""
    trace = path_of("namespace.json")
    if may_unshare("-T", "--boottime", "200000", "--fork"):
        run("record", "-q", "-o", trace, "--", "unshare", "-T", "--boottime", "200000", "--fork", program, "100", "3")
        expect("a program in a time namespace", events_of(trace), (130, 0))
        expect("a program in a time namespace: reason", "recorder was dead" in run("info", trace), False)
    if may_unshare("-m"):
        done = subprocess.run(["unshare", "-m", "sh", "-c", "mount -t tmpfs none /proc && exec \"$0\" \"$@\"", CKINETO,
                               "record", "-q", "-o", trace, "--", program, "100", "3", "3"],
                              capture_output=True, text=True, env=environment(), check=False)
        expect(f"no /proc: status ({done.stderr})", done.returncode, 3)
        expect("no /proc: events", events_of(trace), (130, 0))
        expect("no /proc: reason", "could not be looked at" in run("info", trace), True)
    if may_unshare("-pf"):
        subprocess.run(["unshare", "-pf", CKINETO, "record", "-q", "-o", trace, "--", program, "100", "3"],
                       capture_output=True, env=environment(), check=False)
        expect("another pid namespace's /proc: events", events_of(trace), (130, 0))
        expect("another pid namespace's /proc: others", "ended too soon" in run("info", trace), False)


def test_raised_privileges():
    """An ordinary user records a program that is more than it, or cannot be read."""
    if not ROOT or not shutil.which("setpriv"):
        return
    user = ["setpriv", "--reuid=65533", "--regid=65533", "--clear-groups"]
    directory = path_of("raised")
    os.mkdir(directory)
    os.chmod(directory, 0o777)
    os.chmod(os.path.dirname(directory), 0o755)
    for name, mode, reason in (("setuid", 0o4755, "raised privileges"), ("setgid", 0o2755, "raised privileges"),
                               ("unreadable", 0o711, "does not let itself be looked at")):
        tool, trace = os.path.join(directory, name), os.path.join(directory, name + ".json")
        shutil.copy(shutil.which("sleep"), tool)
        os.chmod(tool, mode)
        done = subprocess.run([*user, CKINETO, "record", "-q", "-o", trace, "--", "sh", "-c", f"{tool} 0.5; true"],
                              capture_output=True, text=True, env=environment(), check=False)
        expect(f"{name}: status ({done.stderr})", done.returncode, 0)
        expect(f"{name}: reason", reason in run("info", trace), True)


def test_squatters():
    """Another user holds names in directories for all: the program runs, and is recorded."""
    if not ROOT or not shutil.which("setpriv"):
        return
    owner = ["setpriv", "--reuid=65531", "--regid=65531", "--clear-groups"]
    squat = "/tmp/ckineto-65531"
    if os.path.exists(squat) or os.path.exists("/run/user/65531"):
        return
    directory = path_of("squatted")
    os.mkdir(directory)
    os.chmod(directory, 0o777)
    os.chmod(os.path.dirname(directory), 0o755)
    without = {k: v for k, v in environment().items() if k != "XDG_RUNTIME_DIR"}
    os.mkdir(squat)
    os.chown(squat, 65532, 65532)
    try:
        recorder = subprocess.Popen([*owner, CKINETO, "record", "-q", "--ring", "5", "-o", f"{directory}/t.json", "--",
                                     program, "100", "10", "3"], stderr=subprocess.PIPE, text=True, env=without)
        wait_for(lambda: glob.glob(f"{squat}-*/{recorder.pid}.sock"), "a socket in a private directory")
        listed = subprocess.run([*owner, CKINETO, "ps"], capture_output=True, text=True, env=without, check=False)
        expect("ckineto ps finds it", str(recorder.pid) in listed.stdout, True)
        _, err = recorder.communicate()
        expect(f"squatted directory: status ({err})", recorder.returncode, 3)
        expect("squatted directory: trace", events_of(f"{directory}/t.json"), (200, 0))
    finally:
        for path in glob.glob(squat + "*"):
            shutil.rmtree(path)


def test_strange_daemon():
    """Nothing is sent to a process that took the daemon's name."""
    if not ROOT:
        return
    listener = subprocess.Popen([sys.executable, "-c",
                                 "import os, socket\nos.setuid(65532)\ns = socket.socket(socket.AF_UNIX, "
                                 "socket.SOCK_DGRAM)\ns.bind('\\0dynolog\\0')\nprint('bound', flush=True)\n"
                                 "s.settimeout(3)\nprint(len(s.recv(65536)), flush=True)"],
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    if listener.stdout.readline().strip() != "bound":  # another daemon of this machine has it
        listener.communicate()
        return
    run("record", "--on-demand=daemon", "--", program, "10", "5",
        env={"KINETO_DAEMON_INIT_DELAY_S": "0", "KINETO_ONDEMAND_TRACE_DIR": harness.scratch.name})
    expect("the stranger is named", "belongs to user 65532" in run.stderr, True)
    got, _ = listener.communicate()
    expect("the stranger got", got.strip(), "")


def test_musl():
    """Programs of another libc run with what is preloaded, and record."""
    compiler = shutil.which("musl-gcc")
    program_of_musl = compiler and compile_program(compiler, "of_musl")
    if not program_of_musl:
        print("no musl-gcc here: only the symbols are checked (elf_loads_with_any_libc)")
        return
    trace = path_of("musl.json")
    for option in ("--preload", "--memory"):
        out = run("record", "-q", option, "-o", trace, "--", program_of_musl, "1000", "0", "3", status=3)
        expect(f"musl with {option}: output", out, "done\n")
        count, lost = events_of(trace)
        expect(f"musl with {option}: events, losses", (count >= 1000, lost), (True, 0))


program = compile_program(os.environ.get("CC", "cc"), "program")
if not program:
    print("no compiler here: skipped")
    sys.exit(77)
for name, test in list(globals().items()):
    if name.startswith("test_"):
        test()
harness.finish()

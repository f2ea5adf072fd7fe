"""Programs whose threads were watched from outside: too few CPUs, one thread alone, blocked threads, functions.

As in cases_1; savings are of the whole, as these programs have no steps."""

from builder import Program, Trace

SECOND = 1_000_000
JOIN = "pthread_join.c(102): __pthread_clockjoin_ex;"
COND = "pthread_cond_wait.c(503): ___pthread_cond_wait;"
MUTEX = "pthread_mutex_lock.c(48): __pthread_mutex_lock;"


def plain():
    return Trace(vendor=None)


def round_robin(threads, cpus, slice_us=10_000, total=SECOND, made=None):
    """Threads that always have something to do, on so many CPUs."""
    made = made or plain()
    for turn in range(total // slice_us):
        for n in range(threads):
            runs = (n - turn * cpus) % threads < cpus
            made.state(1000 + n, "running" if runs else "waiting for a CPU", turn * slice_us, slice_us,
                       cpu=(n - turn * cpus) % threads)
    return made


def counted(threads, cpus):
    """round_robin as counters show it: without CPUs, and in each interval first what ran, then what waited."""
    made = plain()
    for turn in range(SECOND // 50_000):
        for n in range(threads):
            ran = min(50_000 * cpus // threads, 50_000)
            made.state(1000 + n, "running", turn * 50_000, ran, cpu=None)
            if ran < 50_000:
                made.state(1000 + n, "waiting for a CPU", turn * 50_000 + ran, 50_000 - ran)
    return made


def sleeps(percent, threads=1, name="usleep"):
    """Calls only: each thread sleeps for so much of each 10 ms."""
    made = plain()
    made.slice("user_annotation", "work", 0, SECOND, tid=200)
    for thread in range(threads):
        for n in range(100):
            made.slice("blocking_call", name, n * 10_000, percent * 100, tid=1000 + thread)
    return made


def launched(made, processes=32, length=300_000):
    """The program, started by a launcher whose short-lived processes ran before it, two at a time."""
    for event in made.events:
        if event["ph"] == "X":
            event["ts"] += length
    for n in range(processes):
        made.state(5000 + n, "running", n // 2 * 2 * length // processes, 2 * length // processes, pid=5000 + n,
                   cpu=n % 2)
    return made


def one_thread(length):
    made = plain()
    made.state(1000, "running", 0, length)
    return made


def others_have_the_cpus():
    """A thread that gets its CPU for a third of the time."""
    made = plain()
    for turn in range(30):
        made.state(1000, "running", turn * 30_000, 10_000)
        made.state(1000, "waiting for a CPU", turn * 30_000 + 10_000, 20_000)
    return made


def serial(alone_percent, threads=4):
    made = plain()
    alone = SECOND * alone_percent // 100
    for n in range(threads):
        if n == 0:
            made.state(1000, "running", 0, SECOND)
            continue
        if alone:
            made.state(1000 + n, "blocked", 0, alone)
        if alone < SECOND:
            made.state(1000 + n, "running", alone, SECOND - alone, cpu=n)
    return made


def blocked(percent, function=None, stack=None, threads=2):
    """The first thread is blocked for so much of each 10 ms."""
    made = plain()
    for n in range(100):
        busy = 10_000 * (100 - percent) // 100
        made.state(1000, "running", n * 10_000, busy)
        if percent:
            made.state(1000, "blocked", n * 10_000 + busy, 10_000 - busy, function=function, stack=stack)
    for n in range(1, threads):
        made.state(1000 + n, "running", 0, SECOND, cpu=n)
    return made


def with_calls(name):
    """The first thread is blocked as in blocked(30), in calls that --waits records."""
    made = blocked(30)
    for n in range(100):
        made.slice("blocking_call", name, n * 10_000 + 6_990, 3_000, tid=1000)
    return made


def sampled(*shares, states=False):
    """Functions by name, and how many of the samples they have; main calls them."""
    made, at = plain(), 0
    whole = sum(count for _, count in shares)
    made.samples(1000, "main", 0, whole * 10_000, whole)
    for name, count in shares:
        made.samples(1000, name, at, count * 10_000, count)
        at += count * 10_000
    if states:
        made.state(1000, "running", 0, whole * 10_000)
    return made


def faults(module="[kernel]"):
    """30 % of the samples are below the kernel's entry for page faults, of different functions."""
    made = sampled(("f", 35), ("g", 35), ("touch", 30), states=True)
    made.samples(1000, "asm_exc_page_fault", 700_000, 300_000, 30, module=module)
    made.samples(1000, "clear_page_erms", 700_000, 150_000, 15, module=module)
    made.samples(1000, "do_anonymous_page", 850_000, 150_000, 15, module=module)
    return made


def even():
    return sampled(*((f"f{n}", 10) for n in range(10)))


def on_a_device(made):
    """The same rows in a program whose device is busy."""
    p = Program()
    for _ in p.steps(10):
        for _ in range(10):
            with p.op("aten::mm"):
                p.kernel("ampere_sgemm_128x64_nn", 5_000)
    p.trace.events += made.events
    return p.trace


def launched_by(state, function=None, percent=40):
    """A device that is idle for half of the time; the thread that launches is in that state for so much of it."""
    made = Trace()
    for n in range(50):
        made.kernel("ampere_sgemm_128x64_nn", 1000 * n, 500, at=1000 * n - 20)
        made.state(100, "running", 1000 * n - 100, 600)
        made.state(100, state, 1000 * n + 500, 10 * percent, function=function)
        made.state(100, "running", 1000 * n + 500 + 10 * percent, 400 - 10 * percent)
    return made


CASES = {
    "host.not_running": (lambda: launched_by("waiting for a CPU"), lambda: launched_by("running")),
    "thread.oversubscription": (lambda: round_robin(4, 2), lambda: round_robin(2, 2)),
    "thread.serial": (lambda: serial(50), lambda: serial(0)),
    "thread.sleep": (lambda: sleeps(50), lambda: sleeps(5)),
    "thread.blocked": (lambda: blocked(30, "fsync"), lambda: blocked(30, "__futex_abstimed_wait_common", COND)),
    "cpu.hot_function": (lambda: sampled(("leaf", 60), ("f", 20), ("g", 20), states=True), even),
    "cpu.allocation_churn": (lambda: sampled(("_int_malloc", 20), ("operator new(unsigned long)", 5),
                                             ("cfree", 5), ("f", 20), ("g", 25), ("h", 25), states=True), even),
    "cpu.page_faults": (faults, lambda: faults("program")),
}
WORTH = {
    "host.not_running": (19_500, 19_700),  # 400 us in each of 49 gaps
    "thread.oversubscription": (499_000, 501_000),  # half of the threads have a CPU
    "thread.serial": (374_000, 376_000),  # half of the time, divided among four
    "thread.blocked": (149_000, 151_000),  # 300 ms in which two threads could run and one does
    "cpu.hot_function": (299_000, 301_000),  # half of 600 ms
    "cpu.allocation_churn": (149_000, 151_000),
    "cpu.page_faults": (149_000, 151_000),  # half of 300 ms
}
MORE = [
    ("a thread that is blocked", "host.not_running", lambda: launched_by("blocked", "fsync"), "found"),
    ("a thread that has no CPU for a moment", "host.not_running", lambda: launched_by("waiting for a CPU", percent=4),
     "quiet"),
    ("a program without a device", "host.not_running", lambda: round_robin(4, 2), "not judged"),
    ("other programs have the CPUs", "thread.oversubscription", others_have_the_cpus, "found"),
    ("too few CPUs, by counters", "thread.oversubscription", lambda: counted(4, 2), "found"),
    ("enough CPUs, by counters", "thread.oversubscription", lambda: counted(2, 2), "quiet"),
    ("processes of a launcher", "thread.serial", lambda: launched(one_thread(2 * SECOND)), "quiet"),
    ("processes of a launcher, and a parallel program", "thread.serial", lambda: launched(serial(50)), "found"),
    ("several threads sleep", "thread.sleep", lambda: sleeps(20, 3, "clock_nanosleep"), "found"),
    ("calls that do not sleep", "thread.sleep", lambda: sleeps(50, name="poll"), "quiet"),
    ("sleep of threads that compute: another rule has it", "thread.sleep", lambda: with_calls("usleep"), "quiet"),
    ("no calls", "thread.sleep", even, "not judged"),
    ("short waits", "thread.oversubscription", lambda: round_robin(4, 2, total=40_000), "quiet"),
    ("no states", "thread.oversubscription", even, "not judged"),
    ("a program of one thread", "thread.serial", lambda: serial(100, threads=1), "quiet"),
    ("threads that are never needed", "thread.serial", lambda: serial(100), "quiet"),
    ("a little alone", "thread.serial", lambda: serial(10), "quiet"),
    ("a lock, by the stack of a futex", "thread.blocked",
     lambda: blocked(30, "__futex_abstimed_wait_common64", MUTEX), "found"),
    ("a lock, by its function", "thread.blocked", lambda: blocked(30, "__GI___lll_lock_wait"), "found"),
    ("sleep", "thread.blocked", lambda: blocked(30, "clock_nanosleep"), "found"),
    ("a join", "thread.blocked", lambda: blocked(30, "__futex_abstimed_wait_common", JOIN), "quiet"),
    ("waiting for descriptors", "thread.blocked", lambda: blocked(30, "epoll_wait"), "quiet"),
    ("nothing is known of where", "thread.blocked", lambda: blocked(30), "found"),
    ("sleep, by its call", "thread.blocked", lambda: with_calls("usleep"), "found"),
    ("a lock, by its call: another rule has it", "thread.blocked", lambda: with_calls("pthread_mutex_lock"), "quiet"),
    ("blocked now and then", "thread.blocked", lambda: blocked(1, "fsync"), "quiet"),
    ("a thread that does nothing but flush", "thread.blocked", lambda: blocked(99, "fsync"), "found"),
    ("a program that does nothing but write", "thread.blocked", lambda: blocked(99, "__GI___libc_write", threads=1), "found"),
    ("a thread that waits in read", "thread.blocked", lambda: blocked(99, "__GI___libc_read"), "quiet"),
    ("a thread that hardly runs, and sleeps", "thread.blocked", lambda: blocked(99, "clock_nanosleep"), "quiet"),
    ("samples without states", "cpu.hot_function", lambda: sampled(("leaf", 60), ("f", 40)), "found"),
    ("few samples", "cpu.hot_function", lambda: sampled(("leaf", 20)), "quiet"),
    ("the kernel", "cpu.hot_function", lambda: sampled(("[kernel]", 60), ("f", 20), ("g", 20)), "found"),
    ("functions without names", "cpu.hot_function", lambda: sampled(("[JIT code]", 60), ("f", 20), ("g", 20)), "found"),
    ("the allocator alone", "cpu.hot_function", lambda: sampled(("malloc", 60), ("f", 20), ("g", 20)), "quiet"),
    ("a function with such a name", "cpu.allocation_churn", lambda: sampled(("free_list", 60), ("f", 40)), "quiet"),
    *((f"a program with a device: {rule}", rule, lambda fires=fires: on_a_device(fires()), "quiet")
      for rule, (fires, _) in CASES.items() if rule != "host.not_running"),
]

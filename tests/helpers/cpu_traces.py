"""Random traces of the source "cpu", and what is true of them.

A Program schedules threads on CPUs, takes samples of their stacks, and writes the rows that the recorder makes of them
(docs/reference/cpu.md), as Chrome JSON. What writers must say of it is counted here from the samples and states
themselves, not from the rows."""

import collections
import json
import random

PID = 4000
BASE_NS = 1700000000000000000
FUNCTIONS = ["main", "loop", "leaf", "[kernel]", "f<a, b>::g(int)", "a;b", "näme", "walk"]
MODULES = {"[kernel]": None, "leaf": "libwork.so.1", "walk": "libwork.so.1"}
INLINED = {"walk", "f<a, b>::g(int)"}  # also where nothing is around them, which says nothing
STACKS = ["lib.c(12): wait;main.c(7): run;", "libc.so.6!nanosleep;sleeper.c(3): nap;main.c(9): main;", "0x1234;"]
RUNNING, WAITING, BLOCKED = "running", "waiting for a CPU", "blocked"


class Thread:
    def __init__(self, tid):
        self.tid = tid
        self.states = []   # (name, start, end, cpu or None, stack or None)
        self.samples = []  # (time, stack, cpu_ns, whether it continues the range of the last one)


class Program:
    def __init__(self, seed, threads=3, cpus=2, turns=40, stacks=True, names=None):
        self.chance = random.Random(seed)
        self.threads = [Thread(PID + i) for i in range(threads)]
        self.schedule(cpus, turns, stacks)
        for thread in self.threads:
            self.sample(thread, names or FUNCTIONS)

    # ---- what happens ----

    def schedule(self, cpus, turns, stacks):
        """Runs threads one after the other on each CPU: whoever has been ready for the longest."""
        ready = {t.tid: self.chance.randrange(1, 1000) for t in self.threads}
        first = dict(ready)
        free = [0] * cpus
        for _ in range(turns):
            cpu = free.index(min(free))
            thread = min(self.threads, key=lambda t: ready[t.tid])
            start = max(free[cpu], ready[thread.tid]) + self.chance.choice([0, self.chance.randrange(5000)])
            before = thread.states[-1] if thread.states else None
            if before and before[3] != cpu:
                start = max(start, before[2] + 1)  # moving to another CPU takes time
            end = start + self.chance.randrange(1, 3000000)
            if before:
                since = before[2]
                blocked = ready[thread.tid] > since
                name = BLOCKED if blocked else WAITING
                stack = self.chance.choice(STACKS) if blocked and stacks and self.chance.random() < 0.7 else None
                self.add_state(thread, name, since, start, None, stack)
            elif self.chance.random() < 0.7:
                self.add_state(thread, WAITING, first[thread.tid] - 1, start, None, None)
            self.add_state(thread, RUNNING, start, end, cpu, None)
            free[cpu] = end
            ready[thread.tid] = end + self.chance.choice([0, self.chance.randrange(1, 2000000)])

    @staticmethod
    def add_state(thread, name, start, end, cpu, stack):
        if start < end:
            thread.states.append((name, start, end, cpu, stack))

    def sample(self, thread, names):
        """Samples while it runs; a block ends ranges, a wait for a CPU does not."""
        go_on, stack = False, []
        for name, start, end, _, _ in thread.states:
            if name == BLOCKED:
                go_on = False
            if name != RUNNING:
                continue
            at = start
            while at < end and self.chance.random() < 0.8:
                at = min(end, at + self.chance.randrange(1, 1000000))
                stack = stack[:self.chance.randrange(len(stack) + 1)]
                stack = stack + [self.chance.choice(names) for _ in range(self.chance.randrange(0 if stack else 1, 5))]
                thread.samples.append((start, at, tuple(stack), self.chance.randrange(1, 1 << 24), go_on))
                go_on = True

    # ---- what is true of it ----

    def totals(self):
        """{stack: (samples, CPU time)}"""
        sums = collections.defaultdict(lambda: [0, 0])
        for thread in self.threads:
            for _, _, stack, cpu_ns, _ in thread.samples:
                sums[stack][0] += 1
                sums[stack][1] += cpu_ns
        return {stack: tuple(both) for stack, both in sums.items()}

    def state_times(self):
        """{(tid, state): ns}"""
        sums = collections.Counter()
        for thread in self.threads:
            for name, start, end, _, _ in thread.states:
                sums[(thread.tid, name)] += end - start
        return dict(sums)

    def blocked_ns(self):
        return sum(ns for (_, name), ns in self.state_times().items() if name == BLOCKED)

    # ---- its rows ----

    def ranges(self, thread):
        """Successive samples merged: (start, end, name, samples, cpu_ns), the outermost first."""
        done, opened, last = [], [], 0
        for begin, at, stack, cpu_ns, go_on in thread.samples:
            since = last if go_on else max(begin, last)
            same = 0
            while go_on and same < min(len(stack), len(opened)) and opened[same][1] == stack[same]:
                same += 1
            self.close(done, opened, same, last)
            for frame in opened:
                frame[2] += 1
                frame[3] += cpu_ns
            for name in stack[same:]:
                opened.append([since, name, 1, cpu_ns])
            last = at
        self.close(done, opened, 0, last)
        return done[::-1]

    @staticmethod
    def close(done, opened, depth, end):
        while len(opened) > depth:
            start, name, samples, cpu_ns = opened.pop()
            done.append((start, end, name, samples, cpu_ns))

    def events(self):
        yield {"ph": "M", "name": "process_name", "pid": PID, "tid": 0, "args": {"name": "work"}}
        for thread in self.threads:
            for what in ("state", "samples"):
                yield {"ph": "M", "name": "thread_name", "pid": PID, "tid": f"{what} {thread.tid}",
                       "args": {"name": f"thread {thread.tid} (t{thread.tid}): {what}"}}
            for name, start, end, cpu, stack in thread.states:
                args = {} if cpu is None else {"cpu": cpu}
                if stack:
                    args = {"in": stack.split(";")[0], "Call stack": stack}
                yield self.slice("thread_state", f"state {thread.tid}", name, start, end, args)
            for start, end, name, samples, cpu_ns in self.ranges(thread):
                args = {"samples": samples, "cpu_ns": cpu_ns}
                module = MODULES.get(name, "work")
                if module:
                    args["module"] = module
                if name in INLINED:
                    args["inlined"] = True
                yield self.slice("cpu_sample", f"samples {thread.tid}", name, start, end, args)

    @staticmethod
    def slice(cat, tid, name, start, end, args):
        return {"ph": "X", "cat": cat, "name": name, "pid": PID, "tid": tid, "ts": start, "dur": end - start,
                "args": args}

    def write(self, path):
        """Times are decimals with three places: JSON numbers of Python are not exact enough."""
        lines = []
        for e in self.events():
            for key in ("ts", "dur"):
                if key in e:
                    e[key] = f"@{e[key] // 1000}.{e[key] % 1000:03}@"
            lines.append(json.dumps(e).replace('"@', "").replace('@"', ""))
        with open(path, "w", encoding="utf-8") as file:
            file.write('{"schemaVersion": 1, "baseTimeNanoseconds": %d, "traceEvents": [\n' % BASE_NS)
            file.write(",\n".join(lines) + "\n]}\n")

"""What ranges of the module cost, compared with an empty context manager and PyTorch's record_function.

    PYTHONPATH=python CKINETO_LIBDIR=LIB python3 tests/module/bench_ranges.py [torch]

Prints ns of thread CPU time for each, less the loop around it: minima of interleaved rounds. docs/how-to/python.md
has the numbers of one machine.
"""
import sys
import time

import ckineto


class Empty:
    __slots__ = ()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        pass


def loop(n):
    for _ in range(n):
        pass


def empty_context_manager(n):
    for _ in range(n):
        with Empty():
            pass


def plain_range(n):
    make = ckineto.range
    for _ in range(n):
        with make("x"):
            pass


def range_with_numbers(n):
    make = ckineto.range
    for _ in range(n):
        with make("x", a=1, b=2.5):
            pass


def range_with_text(n):
    make = ckineto.range
    for _ in range(n):
        with make("x", a=1, b="text"):
            pass


def function():
    pass


traced = ckineto.trace(function)


def plain_call(n):
    for _ in range(n):
        function()


def traced_call(n):
    for _ in range(n):
        traced()


def instants(n):
    record = ckineto.instant
    for _ in range(n):
        record("x")


def counters(n):
    record = ckineto.counter
    for _ in range(n):
        record("x", 1.5)


def steps(n):
    record = ckineto.step
    for _ in range(n):
        record()


def torch_record_function(n):
    from torch.profiler import record_function

    for _ in range(n):
        with record_function("x"):
            pass


def measure(title, functions, count=2000, rounds=60):
    best = dict.fromkeys(functions, float("inf"))
    for _ in range(rounds):
        for each in functions:
            begun = time.thread_time_ns()
            each(count)
            best[each] = min(best[each], (time.thread_time_ns() - begun) / count)
    print("%s, Python %s" % (title, sys.version.split()[0]))
    for each in functions[1:]:
        print("  %-24s %7.0f ns" % (each.__name__, best[each] - best[loop]))


def main():
    functions = [loop, empty_context_manager, plain_range, range_with_numbers, range_with_text,
                 plain_call, traced_call, instants, counters, steps]
    if "torch" in sys.argv[1:]:
        functions.append(torch_record_function)
    measure("nothing records", functions)
    with ckineto.record(buffer="256M", keep="newest"):
        measure("recorded", functions)


if __name__ == "__main__":
    main()

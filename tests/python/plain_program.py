"""A program that never imports PyTorch: functions, exceptions, generators, coroutines, threads, an end of its choice.

It counts what it calls and prints the counts as JSON: {name of the function: number of rows expected}. A generator
or coroutine has a row for each time that it runs.
"""
import json
import os
import sys
import threading

counts = {}
lock = threading.Lock()


def count(name, number=1):
    with lock:
        counts[name] = counts.get(name, 0) + number


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def calls_of_fib(n):
    return 1 if n < 2 else 1 + calls_of_fib(n - 1) + calls_of_fib(n - 2)


def fail(depth):
    if depth == 0:
        raise ValueError("expected")
    fail(depth - 1)


def generate(number):
    for n in range(number):
        yield n


def closed():
    try:
        yield 1
        yield 2
    finally:
        len("closed")


def thrown():
    try:
        yield 1
    except KeyError:
        yield 2


class Wait:
    def __init__(self, times):
        self.times = times

    def __await__(self):
        for _ in range(self.times):
            yield


async def inner(times):
    await Wait(times)


async def outer(times):
    await inner(times)
    return times


def run_coroutine(times):
    coroutine = outer(times)
    try:
        while True:
            coroutine.send(None)
    except StopIteration as end:
        return end.value


def work():
    fib(10)
    count("fib", calls_of_fib(10))
    for _ in range(3):
        try:
            fail(5)
        except ValueError:
            pass
    count("fail", 18)
    assert sum(generate(20)) == 190
    count("generate", 21)
    generator = closed()
    next(generator)
    generator.close()
    count("closed", 2)
    generator = thrown()
    next(generator)
    generator.throw(KeyError())
    generator.close()
    count("thrown", 3)
    run_coroutine(4)
    count("outer", 5)
    count("inner", 5)
    count("run_coroutine")
    count("work")


def main():
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    work()
    count("main")
    count("<module>")
    sys.stdout.write(json.dumps(counts) + "\n")
    sys.stdout.flush()
    if "_exit" in sys.argv:
        os._exit(3)
    if "exec" in sys.argv:
        os.execv("/bin/true", ["/bin/true"])
    if "fork" in sys.argv:
        child = os.fork()
        if child == 0:
            fib(5)
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()

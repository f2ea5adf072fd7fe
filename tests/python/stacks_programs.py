"""Random programs, and what a recorder of Python functions has to make of them.

A program is a list of functions that call each other, catch and raise exceptions, and are generators that
are iterated, left half way, closed and thrown into. It is written out twice from one description: as a
plain program, and as one that says by itself when each of its functions begins to run and ceases to. The
second one gives the tree that is expected of the first one.
"""
import random

_HEAD = """
class Stop(Exception):
    pass
"""


class Program:
    """Functions f0, f1 …; each calls only those with higher numbers, and itself with a counter."""

    def __init__(self, seed, functions=9):
        self.random = random.Random(seed)
        self.count = functions
        self.is_generator = [self.random.random() < 0.45 for _ in range(functions)]
        self.is_generator[0] = False
        self.bodies = [self._body(i) for i in range(functions)]

    def _body(self, number):
        body = [self._statement(number) for _ in range(self.random.randint(1, 4))]
        if self.is_generator[number]:
            body.insert(self.random.randint(0, len(body)), ("yield",))
        return body

    def _callee(self, number):
        return self.random.randint(number + 1, self.count - 1)

    def _statement(self, number):
        choices = ["work", "raise", "recurse"]
        if number < self.count - 1:
            choices += ["call"] * 4 + ["try"] * 2
        if self.is_generator[number]:
            choices += ["yield"] * 3
        kind = self.random.choice(choices)
        if kind == "raise":
            return (kind, self.random.choice((0, 3, 4, 5)))
        if kind == "call" or kind == "try":
            callee = self._callee(number)
            if self.is_generator[callee]:
                uses = ["for", "next", "close", "throw", "drop", "list"]
                if self.is_generator[number]:
                    uses += ["from"] * 3
                return (kind, callee, self.random.choice(uses))
            return (kind, callee, "plain")
        return (kind,)

    # ---- writing it out ----

    def source(self, tells):
        """Text of the program; with `tells` it calls BEGIN and END, and delegates by DELEGATE."""
        lines = [_HEAD]
        for number in range(self.count):
            lines += ["def f%d(n, d=0):" % number, "    BEGIN('f%d')" % number, "    try:"]
            for at, statement in enumerate(self.bodies[number]):
                lines += ["        " + line for line in self._write(number, at, statement, tells)]
            lines += ["        return n", "    finally:", "        END()", ""]
        return "\n".join(lines)

    def _write(self, number, at, statement, tells):
        kind = statement[0]
        if kind == "work":
            return ["n += len(str(n))"]
        if kind == "raise":
            return ["if n %% 7 == %d:" % statement[1], "    raise Stop()"]
        if kind == "recurse":
            if self.is_generator[number]:
                return ["if n % 3 and d < 3:", "    for x in f%d(n + 1, d + 1):" % number,
                        "        n += 1"]
            return ["if n % 3 and d < 3:", "    f%d(n + 1, d + 1)" % number]
        if kind == "yield":
            return ["END()", "try:", "    yield n", "finally:", "    BEGIN('f%d')" % number]
        lines = self._use(number, at, statement, tells)
        if kind == "try":
            return ["try:"] + ["    " + line for line in lines] + ["except Stop:", "    n += 1"]
        return lines

    def _use(self, number, at, statement, tells):
        _, callee, use = statement
        call = "f%d(n + %d)" % (callee, at)
        if use == "plain":
            return ["n = %s %% 1000" % call]
        if use == "for":
            return ["for x in %s:" % call, "    n += 1"]
        if use == "list":
            return ["n += len(list(%s))" % call]
        if use == "from":
            delegate = "DELEGATE(%s, 'f%d')" % (call, number) if tells else call
            return ["yield from %s" % delegate]
        lines = ["g = %s" % call, "next(g, None)"]
        if use == "next":
            return lines + ["next(g, None)", "del g"]
        if use == "close":
            return lines + ["g.close()"]
        if use == "throw":
            return lines + ["try:", "    g.throw(Stop())", "except (Stop, StopIteration):", "    pass"]
        return lines + ["g = None"]


class Model:
    """Runs the telling version of a program and keeps the tree of its functions."""

    def __init__(self):
        self.root = ["root", []]
        self.stack = [self.root]

    def begin(self, name):
        node = [name, []]
        self.stack[-1][1].append(node)
        self.stack.append(node)

    def end(self):
        self.stack.pop()

    def delegate(self, inner, name):
        return _Delegate(self, inner, name)

    def names(self):
        return {"BEGIN": self.begin, "END": self.end, "DELEGATE": self.delegate}


class _Delegate:
    """`yield from inner` in the function `name`: it goes on before inner does, and rests with it. What is
    thrown in goes to inner first, and to the function if inner does not yield."""

    def __init__(self, model, inner, name):
        self.model, self.inner, self.name, self.rests = model, inner, name, False

    def __iter__(self):
        return self

    def __next__(self):
        if self.rests:
            self.model.begin(self.name)
        self.rests = False
        value = next(self.inner)
        self._rest()
        return value

    def _rest(self):
        self.model.end()
        self.rests = True

    def throw(self, *exception):
        try:
            return self.inner.throw(*exception)
        except BaseException:
            self._go_on()
            raise
        finally:
            del exception  # its traceback holds this frame: no cycle must keep generators alive

    def close(self):
        try:
            self.inner.close()
        finally:
            self._go_on()

    def _go_on(self):
        if self.rests:
            self.model.begin(self.name)
        self.rests = False




def compile_plain(program, name="program.py"):
    """The program's f0 as a function, with nothing in it but what it does."""
    quiet = [].clear  # functions in C, which have no rows here
    names = {"BEGIN": str, "END": quiet}
    exec(compile(program.source(False), name, "exec"), names)
    return names["f0"], names["Stop"]


def expected_tree(program, argument):
    """The tree of functions that f0(argument) runs."""
    model = Model()
    names = model.names()
    exec(compile(program.source(True), "model.py", "exec"), names)
    try:
        names["f0"](argument)
    except names["Stop"]:
        pass
    return model.root[1]

"""The structs that ctypes fills are those of the headers, and every function is declared once there."""
import ctypes
import os
import re
import shutil
import subprocess

import support
from ckineto import _base, _declarations, _functions, _structs, analysis

HEADERS = os.path.join(support.SOURCE, "include")


def find_structs():
    seen = {}
    for module in (_base, _structs):
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, ctypes.Structure) and hasattr(value, "_c_type_"):
                seen[value._c_type_] = value
    return seen


def members_of(struct):
    """(name in C, name here) of the members; those of an anonymous union have a name of their own."""
    anonymous = getattr(struct, "_anonymous_", ())
    for name, kind, *_ in struct._fields_:
        if name in anonymous:
            for inner, *_ in kind._fields_:
                yield inner, inner
        else:
            yield getattr(struct, "_c_names_", {}).get(name, name), name


def write_program(structs):
    lines = ["#include <ckineto/ckineto.h>", "#include <stdio.h>", "int main(void) {"]
    for c_type, struct in structs.items():
        lines.append('printf("%s sizeof %%zu\\n", sizeof(%s));' % (c_type.replace(" ", "_"), c_type))
        for c_name, name in members_of(struct):
            lines.append('printf("%s %s %%zu %%zu\\n", offsetof(%s, %s), sizeof(((%s *)0)->%s));' % (
                c_type.replace(" ", "_"), name, c_type, c_name, c_type, c_name))
    return "\n".join(lines + ["return 0; }"])


class Layout(support.TestCase):
    def test_sizes_and_offsets_are_those_of_the_headers(self):
        compiler = os.environ.get("CC") or shutil.which("cc")
        if not compiler or not shutil.which(compiler):
            self.skipTest("no C compiler")
        structs = find_structs()
        self.assertGreater(len(structs), 30)
        with open(self.path("layout.c"), "w") as file:
            file.write(write_program(structs))
        subprocess.run([compiler, "-I", HEADERS, "-o", self.path("layout"), self.path("layout.c")],
                       check=True)
        output = subprocess.run([self.path("layout")], check=True, stdout=subprocess.PIPE).stdout.decode()
        by_name = {c_type.replace(" ", "_"): struct for c_type, struct in structs.items()}
        for line in output.splitlines():
            c_type, name, *numbers = line.split()
            struct = by_name[c_type]
            if name == "sizeof":
                self.assertEqual(ctypes.sizeof(struct), int(numbers[0]), line)
            else:
                member = getattr(struct, name)
                self.assertEqual((member.offset, member.size), tuple(map(int, numbers)), line)

    def test_every_function_is_there_and_takes_as_many_arguments_as_in_the_headers(self):
        text = ""
        for name in sorted(set(os.listdir(os.path.join(HEADERS, "ckineto"))) - {"deprecated.h"}):
            with open(os.path.join(HEADERS, "ckineto", name), encoding="utf-8") as file:
                text += file.read()
        text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
        for library, declarations in ((_functions.rt(), _functions._RT),
                                      (_functions.full(), _declarations.FULL)):
            for name, (_, arguments) in declarations.items():
                self.assertTrue(callable(getattr(library, name)), name)
                found = re.search(r"\b%s\(([^;{]*)\)\s*;" % name, text)
                self.assertIsNotNone(found, name)
                words = found.group(1).strip()
                count = 0 if words == "void" else words.count(",") + 1
                self.assertEqual(len(arguments), count, "%s(%s)" % (name, words))

    def test_numbers_are_those_of_the_headers(self):
        rt, full = _functions.rt(), _functions.full()
        self.assertEqual(rt.kineto_kind_name(_base.KIND_USER_ANNOTATION), b"user_annotation")
        self.assertEqual(rt.kineto_kind_name(_base.KIND_CPU_INSTANT_EVENT), b"cpu_instant_event")
        self.assertEqual(rt.kineto_kind_name(_base.KIND_COUNTER), b"counter")
        self.assertEqual(full.kineto_finding_severity_name(2), b"high")
        self.assertIn("kernels", analysis.table_names())

    def test_versions_agree(self):
        import ckineto

        self.assertEqual(_functions.rt().kineto_version().decode(), ckineto.__version__)


if __name__ == "__main__":
    support.main()

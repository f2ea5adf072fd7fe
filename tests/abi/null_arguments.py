"""Calls of every public function with NULL for each pointer that must not be NULL, for null_arguments.c.

    null_arguments.py INCLUDE-DIRECTORY >null_arguments.inc

What may be NULL is taken from the comments: "@param NAME may be NULL", "NULL: …", "`NAME` may be NULL". Functions that
record do not check, see <ckineto/base.h>.
"""

import os
import re
import sys

from api_headers import Header

# Old names, what plug-ins implement, and inline constructors.
OTHER_HEADERS = ("deprecated.h", "profile.h", "plugin.h")
# What only functions that record take: <ckineto/record.h>, <ckineto/function.h>.
RECORDING = {"kineto_site", "kineto_function", "kineto_function_step", "kineto_memory_event"}
# Of every function: an error may be NULL, a callback's pointer is the program's.
ALWAYS = {"err", "user"}
# For the only pointer of a declaration.
ANY_NULL = re.compile(r"NULL is (?:fine|ignored)|(?:^|[.;(] )NULL: |\(NULL\)|NULL removes")
TEXT = '"text"'


class Parameter:
    def __init__(self, text):
        text = " ".join(text.split())
        match = re.fullmatch(r"(.*?[ *])(\w+)(\[\w+\])?", text)
        self.type, self.name = match[1].strip(), match[2]
        self.stars = self.type.count("*") + bool(match[3])
        self.array = match[3]
        self.base = re.sub(r"\b(const|struct)\b|\*", "", self.type).strip()
        self.is_function = False


# Structs that begin with their size.
SIZED = set()


def functions(include):
    """Header by header: (name, what it returns, parameters, the comment's group)."""
    headers = {}
    for name in sorted(n for n in os.listdir(include) if n.endswith(".h") and n not in OTHER_HEADERS):
        with open(os.path.join(include, name), encoding="utf-8") as file:
            headers[name] = Header(name, file.read())
    callbacks = {i.name for h in headers.values() for g in h.groups for i in g.items
                 if i.kind == "type" and re.search(r"\(\*\w+\)\(", i.text) and "{" not in i.text}
    SIZED.update(i.name for h in headers.values() for g in h.groups for i in g.items
                 if i.kind == "type" and re.search(r"\{\s*size_t size;", i.text))
    for header in headers.values():
        for group in header.groups:
            for item in group.items:
                if item.kind != "function" or item.name.endswith("_init") and "KINETO_API" not in item.text:
                    continue
                code = " ".join(re.sub(r"/\*.*?\*/", " ", item.text, flags=re.S).split())
                code = re.sub(r"^(KINETO_API|static inline) ", "", code)
                match = re.match(r"(.*?)(\w+)\(([^()]*)\)", code)
                texts = [] if match[3] == "void" else match[3].split(",")
                parameters = [Parameter(t) for t in texts]
                for p in parameters:
                    p.is_function = p.base in callbacks
                yield item.name, match[1].strip(), parameters, group


def may_be_null(parameter, group, alone):
    if parameter.name in ALWAYS:
        return True
    texts = [text for names, text in facts(group) if parameter.name in names]
    if any(re.search(r"\bNULL\b", text.replace("NULL on failure", "")) for text in texts):
        return True
    if re.search(rf"`{parameter.name}`,? (?:a \w+, )?may be NULL", group.text):
        return True
    return alone and bool(ANY_NULL.search(group.text))


def facts(group):
    """(names, text) of each @param, of which one may be about several."""
    for name, text in group.parameters:
        more = re.match(r"((?:, \w+)+)\s", text)
        yield {name.rstrip(",")} | set(re.findall(r"\w+", more[1]) if more else ()), text
    for names, text in re.findall(r"@param ((?:\w+, )+\w+)\s+([^@]*)", group.text):
        yield set(re.findall(r"\w+", names)), text


def value(parameter, index):
    """(declarations, expression) for an argument that is fine."""
    p, name = parameter, f"a{index}"
    if p.is_function:
        return "", f"({p.base})nothing"
    if p.stars == 0:
        if p.base == "kineto_string":
            return "", "(kineto_string){\"\", 0}"
        return "", "1" if p.base == "size_t" else f"({p.base})0"
    if p.type in ("const char *const *", "const kineto_trace *const *"):
        kind = p.type[:-len("const *")]
        one = TEXT if "char" in kind else "a_kineto_trace"
        return f"{kind}{name}[] = {{{one}}};", name
    if p.stars == 2:
        inner = p.type[:-1].strip()
        return f"{inner} {name} = (void *)room;", f"&{name}"
    if p.type == "const char *":
        return "", TEXT
    if p.array:
        return f"{p.base} {name}{p.array} = {{0}};", name
    if p.base in HANDLES:
        return "", f"a_{p.base}"
    if p.base in ("void", "char"):
        return "", "room"
    kind = ("struct " if "struct " in p.type else "") + p.base
    size = f" {name}.size = sizeof {name};" if p.base in SIZED else ""
    return f"{kind} {name}; memset(&{name}, 0, sizeof {name});{size}", f"&{name}"


# Objects that null_arguments.c makes: a_TYPE.
HANDLES = {"kineto_trace", "kineto_files", "kineto_survey", "kineto_builder", "kineto_verify_report", "kineto_analysis",
           "kineto_critical_path", "kineto_facts", "kineto_findings", "kineto_overview", "kineto_function_events", "kineto_averages",
           "kineto_session",
           "kineto_profiler", "kineto_profiler_result", "kineto_profile_run", "kineto_post_event", "kineto_event"}


def check(name, returned, wrong, parameters):
    """The statement that judges what `call` returned."""
    title = f'"{name}", "{wrong.name}"'
    if returned == "kineto_status":
        has_error = any(p.name == "err" for p in parameters)
        return f"expect_status({title}, {'true' if has_error else 'false'}, %s);"
    if returned == "bool":
        return f"expect_false({title}, %s);"
    if returned == "char *":
        return "free(%s);"
    return "(void)%s;" if returned != "void" else "%s;"


def cases(include):
    for name, returned, parameters, group in functions(include):
        if any(p.base in RECORDING for p in parameters) or returned == "kineto_input":
            continue
        pointers = [p for p in parameters if p.stars or p.is_function]
        alone = len([p for p in pointers if p.name not in ALWAYS]) == 1
        ends = name.endswith(("_destroy", "_release", "_retain"))
        for wrong in pointers:
            if not ends and may_be_null(wrong, group, alone):
                continue
            declarations, arguments = [], []
            for i, p in enumerate(parameters):
                if p is wrong:
                    arguments.append("NULL")
                elif p.name == "err":
                    arguments.append("&err")
                elif may_be_null(p, group, alone) and (p.stars or p.is_function):
                    arguments.append("NULL")
                else:
                    declaration, argument = value(p, i)
                    declarations += [declaration] if declaration else []
                    arguments.append(argument)
            call = check(name, returned, wrong, parameters) % f"{name}({', '.join(arguments)})"
            made = [f'expect_made_nothing("{name}", "{wrong.name}", {argument[1:]});'
                    for argument in arguments if returned == "kineto_status" and re.fullmatch(r"&a\d+", argument)
                    and any(d.endswith(f" {argument[1:]} = (void *)room;") for d in declarations)]
            yield f"{name}, {wrong.name}", declarations + [call] + made


def main():
    names = []
    for i, (title, lines) in enumerate(cases(sys.argv[1])):
        print(f"static void case_{i}(void)\n{{")
        print("".join(f"    {line}\n" for line in lines) + "}")
        names.append(f'    {{"{title}", case_{i}}},')
    print("static const struct {\n    const char *title;\n    void (*run)(void);\n} cases[] = {")
    print("\n".join(names) + "\n};")


if __name__ == "__main__":
    main()

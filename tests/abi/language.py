"""The language of the tree, as far as it can be counted: words that are avoided, names of static functions,
comments, assertions.

    language.py SOURCE-DIRECTORY [-v]     -v: also lists each place of an avoided word
"""
import collections
import os
import re
import subprocess
import sys

# Avoided word -> what to write. At most one for 10,000 lines of an area.
WORDS = {
    "told": "reported, recorded, given, set",
    "nobody": "no thread, no process, none",
    "whoever": "the caller, the process that",
    "behind": "after, past",
    "beside": "next to, besides",
    "worth": "estimated savings",
    "mend": "fix",
    "judged": "checked, evaluated",
    "so many": "N",
    "anybody": "any thread, any user",
    "somebody": "a thread, a user",
}
# Words of names: none at all.
NAMES = {r"\b(?:MOST|LEAST)_[A-Z]|_(?:MOST|LEAST)\b": "MAX_, MIN_"}
AREAS = {
    "sources": (("src", "plugins", "bridges"), (".c", ".h", ".cc", ".def", ".js")),
    "headers": (("include",), (".h", ".hpp")),
    "documents": (("docs", "README.md", "CONTRIBUTING.md"), (".md", ".1")),
    "Python": (("python",), (".py",)),
}
# Folders with invariants that are checked: assertions for 1,000 lines.
ASSERTED = ("src/record", "src/format", "src/session", "src/ondemand", "src/trace/model")
MIN_ASSERTIONS, MIN_COMMENTS, MAX_ONE_WORD, MAX_FILES = 5, 10.0, 2.0, 3
STATIC = re.compile(r"^static (?:\w+[ *]+)+(\w+)\([^;]*$", re.M)


def files_of(root, folders, endings):
    listed = subprocess.run(["git", "-C", root, "ls-files", "--", *folders], capture_output=True, text=True)
    names = listed.stdout.split("\n") if listed.returncode == 0 else [
        os.path.relpath(os.path.join(folder, name), root)
        for top in folders for folder, _, found in os.walk(os.path.join(root, top)) for name in found]
    return sorted(n for n in names if n.endswith(endings) and os.path.isfile(os.path.join(root, n)))


def read(root, name):
    with open(os.path.join(root, name), encoding="utf-8", errors="replace") as file:
        return file.read()


def count_comments(text):
    """Lines that begin within or with a comment."""
    count, inside = 0, False
    for line in text.split("\n"):
        line = line.strip()
        count += inside or line.startswith(("/*", "*", "//"))
        if line.startswith("/*") and "*/" not in line:
            inside = True
        if inside and "*/" in line:
            inside = False
    return count


def check_words(area, texts, verbose, faults):
    lines = sum(t.count("\n") + 1 for t in texts.values())
    most = max(1, round(lines / 10000))
    for word, pattern, limit, advice in ([(w, r"\b" + w + r"\b", most, a) for w, a in WORDS.items()] +
                                         [("MOST_, LEAST_", p, 0, a) for p, a in NAMES.items()]):
        places = [f"{name}:{text.count(chr(10), 0, m.start()) + 1}: {m[0]}"
                  for name, text in texts.items() for m in re.finditer(pattern, text)]
        if len(places) > limit:
            faults.append(f"{area}: '{word}' {len(places)} times in {lines} lines, at most "
                          f"{limit}; write: {advice}")
            faults += [f"    {p}" for p in places[:None if verbose else 3]]


def check_statics(texts, faults):
    homes = collections.defaultdict(set)
    total = 0
    for name, text in texts.items():
        for function in STATIC.findall(text):
            homes[function].add(name)
            total += 1
    one_word = sorted((f, sorted(h)) for f, h in homes.items() if "_" not in f)
    count = sum(len(h) for _, h in one_word)
    print(f"static functions: {total}, of one word {count} ({100 * count / max(total, 1):.1f} %)")
    if 100 * count > MAX_ONE_WORD * total:
        faults.append(f"{count} static functions of one word, at most {MAX_ONE_WORD} %: " +
                      ", ".join(f"{f} ({h[0]})" for f, h in one_word[:20]))
    for function, where in sorted(homes.items()):
        if len(where) > MAX_FILES:
            faults.append(f"static {function} is in {len(where)} files: {', '.join(sorted(where)[:6])}")


def check_comments(texts, faults):
    lines = sum(t.count("\n") + 1 for t in texts.values())
    share = 100 * sum(map(count_comments, texts.values())) / max(lines, 1)
    print(f"comments: {share:.1f} % of {lines} lines")
    if share < MIN_COMMENTS:
        faults.append(f"comments are {share:.1f} % of the lines, at least {MIN_COMMENTS} %")


def check_assertions(texts, faults):
    for folder in ASSERTED:
        inside = {n: t for n, t in texts.items() if n.startswith(folder + "/")}
        lines = sum(t.count("\n") + 1 for t in inside.values())
        count = sum(len(re.findall(r"\bKB_ASSERT\(", t)) for t in inside.values())
        rate = 1000 * count / max(lines, 1)
        print(f"{folder}: {rate:.1f} assertions for 1,000 lines")
        if rate < MIN_ASSERTIONS:
            faults.append(f"{folder}: {count} assertions in {lines} lines, at least {MIN_ASSERTIONS} for 1,000")


def main():
    root, verbose, faults = sys.argv[1], "-v" in sys.argv, []
    for area, (folders, endings) in AREAS.items():
        texts = {n: read(root, n) for n in files_of(root, folders, endings)}
        check_words(area, texts, verbose, faults)
        if area == "sources":
            code = {n: t for n, t in texts.items() if not n.endswith(".js")}
            check_statics(code, faults)
            check_comments(code, faults)
            check_assertions(code, faults)
    print("\n".join(faults))
    return 1 if faults else 0


sys.exit(main())

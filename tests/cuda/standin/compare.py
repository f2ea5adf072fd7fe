"""Are the layouts of frozen.def those of the real headers? compare.py FROZEN REAL"""
import re
import sys


def read(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    layouts = {}
    for name, size, body in re.findall(r'LAYOUT\("(\w+)", (\d+),((?:\s*"[^"]*")*)\s*\)', text):
        words = "".join(re.findall(r'"([^"]*)"', body)).split()
        layouts[name] = (int(size), set(zip(words[::3], words[1::3], words[2::3])))
    # Headers differ in whether a name has the version of its parameters, too.
    callbacks = dict(((int(d), int(i)), re.sub(r"_v\d\b|_v\d(?=_v)", "", n)) for d, i, n in
                     re.findall(r'CALLBACK\((\d+), (\d+), "(\w+)"\)', text))
    return layouts, callbacks


(frozen, frozen_names), (real, real_names) = read(sys.argv[1]), read(sys.argv[2])
faults = []
for name, (size, fields) in real.items():
    # Fields are sometimes put where there was padding.
    if name not in frozen or frozen[name][0] != size or fields - frozen[name][1]:
        faults.append(f"{name}: {frozen.get(name)} in frozen.def, {(size, fields)} in the headers")
for key, name in frozen_names.items():
    if real_names.get(key, name) != name:
        faults.append(f"{key}: {name} in frozen.def, {real_names[key]} in the headers")
common = len(set(frozen) & set(real))
if common < 30:
    faults.append(f"only {common} layouts are in both")
print("\n".join(faults) or f"{common} layouts and {len(frozen_names)} names are the same")
sys.exit(1 if faults else 0)

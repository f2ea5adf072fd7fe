"""Joins what the program of layouts.py says into the lines of frozen.def: tell short | freeze.py"""
import re
import sys

text = sys.stdin.read()
print("/* Layouts of CUPTI's records and ids of its callbacks, as CUDA 13.5 has them, for builds without its\n"
      " * headers; layouts.py tells the form. cuda.standin.frozen compares them with real ones. */")
print(re.search(r"VERSION\(\d+\)", text).group(0))
for name, size, body in re.findall(r'LAYOUT\("(\w+)", (\d+),((?:\s*"[^"]*")*)\s*\)', text):
    words = "".join(re.findall(r'"([^"]*)"', body)).split()
    lines, line = [], ""
    for item in (" ".join(words[i:i + 3]) + " " for i in range(0, len(words), 3)):
        if len(line) + len(item) > 90:
            lines.append(line)
            line = ""
        line += item
    print(f'LAYOUT("{name}", {size},')
    print("\n".join(f'       "{l}"' for l in [*lines, line]) + ")")
for callback in re.findall(r'CALLBACK\(\d+, \d+, "\w+"\)', text):
    if "_pt" not in callback:
        print(callback)

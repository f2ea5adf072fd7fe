"""A program of docs/how-to/languages.md records itself, and stands on the page as it is in examples/.

    languages.py python|rust    CKINETO_SOURCE, CKINETO_BUILD
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile

SOURCE, BUILD = os.environ.get("CKINETO_SOURCE", ""), os.environ.get("CKINETO_BUILD", "")
FILES = {"python": "examples/python/self_record.py", "rust": "examples/rust/self_record.rs"}


def read(path):
    with open(os.path.join(SOURCE, path), encoding="utf-8") as file:
        return file.read()


def command(language, folder):
    program = os.path.join(SOURCE, FILES[language])
    if language == "python":
        return [sys.executable, "-B", program]
    if not shutil.which("rustc"):
        print("rustc is not here: skipped")
        sys.exit(77)
    library = f"{BUILD}/lib"
    built = subprocess.run(["rustc", "--edition", "2021", "-L", library, "-C", f"link-arg=-Wl,-rpath,{library}",
                            "-o", f"{folder}/program", program], capture_output=True, text=True, check=False)
    if built.returncode:
        sys.exit(f"rustc: {built.stderr}")
    return [f"{folder}/program"]


def main():
    if not SOURCE or not BUILD:
        print("run by ctest: skipped")
        return 77
    language = sys.argv[1]
    if read(FILES[language]) not in read("docs/how-to/languages.md"):
        print(f"docs/how-to/languages.md does not show {FILES[language]} as it is")
        return 1
    with tempfile.TemporaryDirectory(prefix="ckineto-docs-") as folder:
        environment = {**os.environ, "CKINETO_LIBRARY": f"{BUILD}/lib/libckineto.so.0"}
        subprocess.run(command(language, folder), cwd=folder, env=environment, check=True, timeout=60)
        with open(f"{folder}/self_record.json", encoding="utf-8") as file:
            trace = json.load(file)
    steps = [e for e in trace["traceEvents"] if e.get("name") == "step" and e["cat"] == "user_annotation"]
    print(f"{len(steps)} ranges")
    return 0 if len(steps) == 3 else 1


sys.exit(main())

#!/usr/bin/env python3
"""Get PyTorch in several versions, each in a virtual environment that needs no GPU and no CUDA libraries.

    fetch.py FOLDER VERSION...        for example: fetch.py build/peers 2.6.0 2.15.0

makes FOLDER/torch-VERSION with bin/python. A wheel of PyTorch is 0.5 to 0.9 GB and an environment 1.2 to 2.2 GB; the
libraries of CUDA that the wheel asks for (4 GB more) are replaced by stand-ins (stub_libraries.py), so that GPUs
are never used. PyTorch that tools/capture has fetched (CKINETO_CAPTURE, default /srv/capture) is used where it lies.
Downloaded wheels are deleted after installation; --wheels FOLDER uses wheels that are there, and leaves them.

Exit status: 0 all versions are there, 77 one cannot be had here (the reason is printed), 2 wrong usage.
"""

import argparse
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from typing import List, Optional

import stub_libraries

PYTHON = "3.11"
# For PyTorch's own tests, besides the dependencies that the wheel names.
TEST_PACKAGES = ["numpy", "expecttest", "hypothesis", "pytest", "psutil", "parameterized", "setuptools<82"]
# Dependencies of the wheel that need a GPU, or that only GPUs need.
GPU_PACKAGES = re.compile(r"(nvidia|triton|cuda)", re.IGNORECASE)
PLATFORMS = ["manylinux_2_28_x86_64", "manylinux2014_x86_64", "manylinux1_x86_64"]
FIND = "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
CHECK = """
import torch, torch.profiler, numpy, pytest, expecttest, hypothesis
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
    torch.ones(2) + 1
assert any(event.name == "aten::add" for event in profile.events())
print(torch.__version__)
"""


class Unavailable(Exception):
    """The version cannot be had here; the text says why."""


def find_python() -> str:
    """A Python of the version for which the wheels are."""
    pyenv = sorted(glob.glob(os.path.expanduser(f"~/.pyenv/versions/{PYTHON}.*/bin/python")))
    for path in pyenv[::-1] + [shutil.which(f"python{PYTHON}") or "", sys.executable]:
        if path and python_version(path) == PYTHON:
            return path
    raise Unavailable(f"no Python {PYTHON} found in the PATH or under ~/.pyenv/versions")


def python_version(path: str) -> str:
    """MAJOR.MINOR of an interpreter that has venv and pip, else an empty string."""
    code = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([path, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def run(command: List[str], what: str, timeout: int = 1800) -> str:
    """Output of a command; Unavailable with the last line of its error output if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise Unavailable(f"{what}: {lines[-1] if lines else f'exit status {done.returncode}'}")
    return done.stdout


def works(environment: str, version: str) -> bool:
    """Whether the environment's PyTorch can profile, in a process of its own because it might crash."""
    python = os.path.join(environment, "bin", "python")
    if not os.path.exists(python):
        return False
    done = subprocess.run([python, "-c", CHECK], capture_output=True, text=True, check=False, cwd="/",
                          env={**os.environ, "CUDA_VISIBLE_DEVICES": ""})
    return done.returncode == 0 and done.stdout.strip().split("+")[0] == version


def find_wheel(version: str, folder: Optional[str]) -> Optional[str]:
    """A wheel that was downloaded before."""
    found = glob.glob(os.path.join(folder, f"torch-{version}-*cp311-*x86_64.whl")) if folder else []
    return found[0] if found else None


def download_wheel(python: str, version: str, folder: str) -> str:
    """Download the wheel of PyTorch without its dependencies."""
    command = [python, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--python-version",
               PYTHON, "--implementation", "cp", "--dest", folder]
    for platform in PLATFORMS:
        command += ["--platform", platform]
    run(command + [f"torch=={version}"], f"torch {version} cannot be downloaded")
    return find_wheel(version, folder) or ""


def install(environment: str, version: str, wheels: Optional[str]) -> None:
    """Make the environment: wheel without dependencies, the dependencies in Python, test packages, stand-ins."""
    run([find_python(), "-m", "venv", environment], "the virtual environment cannot be made")
    pip = [os.path.join(environment, "bin", "python"), "-m", "pip", "--disable-pip-version-check"]
    with tempfile.TemporaryDirectory(dir=os.path.dirname(environment)) as work:
        wheel = find_wheel(version, wheels) or download_wheel(pip[0], version, work)
        run(pip + ["install", "--quiet", "--no-deps", "--no-compile", wheel], f"torch {version} cannot be installed")
    packages = list_dependencies(pip[0]) + TEST_PACKAGES
    run(pip + ["install", "--quiet", *packages], f"dependencies of torch {version} cannot be installed")
    library = run([pip[0], "-c", FIND], "torch is not where it was installed").strip()
    made = stub_libraries.make_stubs(os.path.join(library, "lib"))
    print(f"torch {version}: {len(made)} stand-in libraries with {sum(made.values())} functions")


def find_captured(version: str) -> str:
    """The folder of packages with this version that tools/capture has made, or an empty string."""
    base = os.path.join(os.environ.get("CKINETO_CAPTURE", "/srv/capture"), f"torch-{version}")
    found = glob.glob(os.path.join(base, "lib", f"python{PYTHON}", "site-packages", f"torch-{version}*.dist-info"))
    return os.path.dirname(found[0]) if found else ""


def borrow(environment: str, packages: str) -> None:
    """Make an environment that uses the packages of another one, and has the test packages of its own."""
    run([find_python(), "-m", "venv", environment], "the virtual environment cannot be made")
    own = os.path.join(environment, "lib", f"python{PYTHON}", "site-packages")
    with open(os.path.join(own, "captured.pth"), "w", encoding="utf-8") as file:
        file.write(packages + "\n")
    run([os.path.join(environment, "bin", "python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet",
         *TEST_PACKAGES], "test packages cannot be installed")


def list_dependencies(python: str) -> List[str]:
    """What the wheel asks for, without the packages for GPUs and extras."""
    code = "import importlib.metadata as m, json; print(json.dumps(m.requires('torch') or []))"
    required = json.loads(run([python, "-c", code], "the metadata of torch cannot be read"))
    names = [text for text in required if "extra ==" not in text and not GPU_PACKAGES.match(text)]
    return [text.replace(" (", "").replace(")", "") if "(" in text.split(";")[0] else text for text in names]


def provide(folder: str, version: str, wheels: Optional[str]) -> str:
    """Path of an environment with that version, made if it does not exist."""
    environment = os.path.join(os.path.abspath(folder), f"torch-{version}")
    if works(environment, version):
        return environment
    if os.path.islink(environment):
        os.unlink(environment)
    shutil.rmtree(environment, ignore_errors=True)
    os.makedirs(folder, exist_ok=True)
    captured = find_captured(version)
    if captured:
        borrow(environment, captured)
    else:
        install(environment, version, wheels)
    if not works(environment, version):
        raise Unavailable(f"torch {version} is installed in {environment}, but its profiler does not run")
    return environment


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", help="where the environments are made, for example build/peers")
    parser.add_argument("versions", nargs="+", metavar="VERSION", help="for example 2.6.0")
    parser.add_argument("--wheels", metavar="FOLDER", help="wheels of PyTorch that were downloaded before")
    arguments = parser.parse_args()
    status = 0
    for version in arguments.versions:
        try:
            print(f"torch {version}: {provide(arguments.folder, version, arguments.wheels)}")
        except (Unavailable, subprocess.SubprocessError, OSError, RuntimeError) as error:
            print(f"torch {version}: skipped: {error}")
            status = 77
    return status


if __name__ == "__main__":
    sys.exit(main())

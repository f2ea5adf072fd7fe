#!/usr/bin/env python3
"""Get PyTorch's own profiler tests from its source packages in Debian.

    fetch_tests.py FOLDER [SUITE...]       for example: fetch_tests.py build/peers trixie sid

makes FOLDER/torch-tests-VERSION with the files of test/profiler, where VERSION is that of the suite's package: 2.6.0 in
trixie (Debian 13, the default), a recent one in sid. The wheels of PyTorch have what these import from torch.testing.
apt-get runs with its own configuration and state in a temporary folder; the system's own is only read, for the address
of the Debian mirror. 40 to 70 MB are downloaded for each and removed again.

Exit status: 0 the files are there, 77 they cannot be had here (the reason is printed), 2 wrong usage.
"""

import glob
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from typing import List

DEFAULT_SUITES = ["trixie"]
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
WANTED = "test/profiler/"
COMPLETE = "test_profiler.py"


class Unavailable(Exception):
    """The tests cannot be had here; the text says why."""


def find_mirror() -> str:
    """Address of the Debian archive that this system uses."""
    if not shutil.which("apt-get"):
        raise Unavailable("apt-get is not installed: this needs Debian or Ubuntu")
    done = subprocess.run(["apt-get", "indextargets", "--format", "$(ORIGIN)|$(REPO_URI)", "Identifier: Packages"],
                          capture_output=True, text=True, check=False)
    addresses = [line.split("|")[1] for line in done.stdout.splitlines() if line.startswith("Debian|")]
    main = [address for address in addresses if "security" not in address]
    if not main:
        raise Unavailable("no Debian archive in this system's package sources; run apt-get update")
    return main[0]


def apt_options(work: str, suite: str) -> List[str]:
    """Options with which apt-get reads and writes only below WORK, with the suite's sources as the only ones."""
    for name in ("etc", "state/lists/partial", "cache/archives/partial"):
        os.makedirs(os.path.join(work, name))
    sources = os.path.join(work, "etc", "sources.list")
    with open(sources, "w", encoding="utf-8") as file:
        file.write(f"deb-src [signed-by={KEYRING}] {find_mirror()} {suite} main\n")
    options = {
        "Dir::Etc::sourcelist": sources, "Dir::Etc::sourceparts": "-", "Dir::State": f"{work}/state",
        "Dir::State::status": "/dev/null", "Dir::Cache": f"{work}/cache", "APT::Sandbox::User": "root",
    }
    return [part for name, value in options.items() for part in ("-o", f"{name}={value}")]


def apt_get(options: List[str], arguments: List[str], folder: str) -> None:
    """Run apt-get in FOLDER."""
    done = subprocess.run(["apt-get", "-qq", *options, *arguments], cwd=folder, capture_output=True, text=True,
                          timeout=1200, check=False)
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise Unavailable(f"apt-get {arguments[0]}: {lines[-1] if lines else done.returncode}")


def download_source(work: str, suite: str) -> str:
    """Path of the archive with the suite's source of PyTorch."""
    options = apt_options(work, suite)
    apt_get(options, ["update"], work)
    apt_get(options, ["source", "--download-only", "--only-source", "pytorch"], work)
    found = glob.glob(os.path.join(work, "pytorch_*.orig.tar.*"))
    if not found:
        raise Unavailable(f"{suite} has no source of PyTorch")
    return sorted(found)[0]


def read_version(archive: str) -> str:
    """2.6.0 of pytorch_2.6.0+dfsg.orig.tar.xz."""
    match = re.search(r"pytorch_(\d+(\.\d+)+)", os.path.basename(archive))
    if not match:
        raise Unavailable(f"{os.path.basename(archive)} does not name a version")
    return match.group(1)


def extract_tests(archive: str, folder: str) -> int:
    """Copy the regular files below test/profiler of the archive to FOLDER. Returns their number."""
    count = 0
    with tarfile.open(archive) as tar:
        for member in tar:
            _, _, path = member.name.partition("/")
            if not member.isfile() or not path.startswith(WANTED) or ".." in path:
                continue
            target = os.path.join(folder, path[len(WANTED):])
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "wb") as file:
                shutil.copyfileobj(tar.extractfile(member), file)
            count += 1
    if not os.path.exists(os.path.join(folder, COMPLETE)):
        raise Unavailable(f"{os.path.basename(archive)} has no {WANTED}{COMPLETE}")
    return count


def provide(folder: str, suite: str) -> str:
    """What was done for one suite, as a sentence."""
    with tempfile.TemporaryDirectory() as work:
        archive = download_source(work, suite)
        target = os.path.join(os.path.abspath(folder), f"torch-tests-{read_version(archive)}")
        return f"{extract_tests(archive, target)} files in {target}"


def main() -> int:
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        print("usage: fetch_tests.py FOLDER [SUITE...]", file=sys.stderr)
        return 2
    status = 0
    for suite in sys.argv[2:] or DEFAULT_SUITES:
        try:
            print(f"tests of PyTorch in Debian {suite}: {provide(sys.argv[1], suite)}")
        except (Unavailable, OSError, subprocess.SubprocessError, tarfile.TarError) as error:
            print(f"tests of PyTorch in Debian {suite}: skipped: {error}")
            status = 77
    return status


if __name__ == "__main__":
    sys.exit(main())

"""Names of the libraries of this package, by versions of PyTorch and Python. Little is imported here: every
process with PyTorch, or with --python, reads this."""
from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:  # the module is slow to import
    from typing import Optional, Tuple

STACKS_PROFILE = "stacks-profile.so"
STACKS_MONITORING = "stacks-monitoring.abi3.so"


def parse_minor(version: str) -> Tuple[int, int]:
    """(2, 15) of "2.15.0+cu129". Raises ValueError for an invalid version."""
    parts = str(version).split(".")
    if len(parts) < 2 or not parts[0].isdigit() or not parts[1][:1].isdigit():
        raise ValueError("'%s' is not a version of PyTorch; for example 2.15.0" % version)
    digits = len(parts[1]) - len(parts[1].lstrip("0123456789"))
    return int(parts[0]), int(parts[1][:digits])


def bridge_name(version: str, cxx11_abi: bool, has_kineto: bool) -> str:
    """File name of the bridge for a version, ABI of std::string and kind of build."""
    major, minor = parse_minor(version)
    return "torch-%d.%d-%s%s.so" % (
        major,
        minor,
        "cxx11" if cxx11_abi else "cxx03",
        "" if has_kineto else "-nokineto",
    )


def stacks_name(version: Tuple[int, int], free_threaded: bool = False) -> Optional[str]:
    """File name of the recorder of functions for a version of Python; None if there is none. Builds without
    the GIL have one for each version: they have no limited API."""
    if not (3, 9) <= version < (4, 0) or free_threaded and version < (3, 13):
        return None
    if free_threaded:
        return "stacks-monitoring.cp%d%dt.so" % version
    return STACKS_PROFILE if version < (3, 12) else STACKS_MONITORING


def cache_folder(name: str) -> str:
    """The folder of libraries that were built at first use."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "ckineto", name)

"""The environment of a process whose PyTorch is to run on ckineto, from the source tree or an installation.

Shared by run_suite.py and compare_profiles.py. The autoload of PyTorch (2.5 and newer) needs the metadata of a package
on the path; where the folder of ckineto_attach has none, a temporary folder gets it.
"""

import glob
import os
from typing import Dict, List

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.normpath(os.path.join(HERE, "..", ".."))
DEFAULT_ATTACH = os.path.join(SOURCE, "python")
DEFAULT_BRIDGES = os.path.join(SOURCE, "build", "bridges")


def make_entry_point(attach: str, work: str) -> List[str]:
    """Folders for PYTHONPATH with which `import torch` calls ckineto_attach.autoload."""
    if glob.glob(os.path.join(attach, "*.dist-info", "entry_points.txt")):
        return [attach]
    metadata = os.path.join(work, "entry_point")
    folder = os.path.join(metadata, "ckineto_attach-0.dist-info")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "METADATA"), "w", encoding="ascii") as file:
        file.write("Metadata-Version: 2.1\nName: ckineto_attach\nVersion: 0\n")
    with open(os.path.join(folder, "entry_points.txt"), "w", encoding="ascii") as file:
        file.write("[torch.backends]\nckineto = ckineto_attach.autoload:attach\n")
    return [attach, metadata]


def seat_variables(libraries: str, attach: str, work: str) -> Dict[str, str]:
    """Variables with which torch.profiler runs on ckineto. PYTHONPATH is part of them."""
    variables = {
        "CKINETO_TORCH": "1",
        "CKINETO_LIBDIR": os.path.abspath(libraries),
        "PYTHONPATH": os.pathsep.join(make_entry_point(os.path.abspath(attach), work)),
    }
    if os.path.isdir(DEFAULT_BRIDGES) and "CKINETO_BRIDGE_DIR" not in os.environ:
        variables["CKINETO_BRIDGE_DIR"] = DEFAULT_BRIDGES
    return variables

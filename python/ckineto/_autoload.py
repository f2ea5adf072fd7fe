"""The entry point of the installed package in the group "torch.backends": `import torch` calls `attach`.

`ckineto record` puts ckineto_attach on PYTHONPATH, which has an entry point of its own. This one serves
programs that were started without it and request ckineto by an environment variable. It must cost
nothing in all others, never raise and never print: `import torch` fails with an entry point that does.
"""
import os
import sys

_VARIABLES = (
    "CKINETO_TORCH",
    "CKINETO_SESSION",
    "CKINETO_CONTROL",
    "CKINETO_RING",
    "KINETO_USE_DAEMON",
    "KINETO_PLUGIN_LIB_DIR_PATH",
)


def attach_folder() -> str:
    """Folder that holds ckineto_attach: in the wheel, or next to this package where `make install` put it."""
    here = os.path.dirname(os.path.abspath(__file__))
    inside = os.path.join(here, "_native", "lib", "ckineto", "python")
    return inside if os.path.isdir(inside) else os.path.dirname(here)


def _import_attach():
    try:
        from ckineto_attach import autoload
    except ImportError:
        folder = attach_folder()
        if folder in sys.path:
            raise
        sys.path.append(folder)
        from ckineto_attach import autoload
    return autoload


def attach() -> None:
    """Attach ckineto to this process if its environment requests it."""
    try:
        if any(os.environ.get(name) for name in _VARIABLES):
            _import_attach().attach()
    except Exception:  # never into the program
        pass

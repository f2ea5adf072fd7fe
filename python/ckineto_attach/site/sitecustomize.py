"""Attaches ckineto to a Python program: the recorder of functions (`ckineto record --python`), and PyTorch before
2.5, which does not call entry points (newer ones do).

`ckineto record` puts this folder on PYTHONPATH. Python imports the first sitecustomize that it finds, so
this one runs the sitecustomize of the distribution or environment, which it hides. Nothing else happens
unless functions are requested or such a PyTorch is installed. Never raises, except what the hidden one raises.
Any version of Python may read this file.
"""
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _other_folders():
    return [p for p in sys.path if os.path.abspath(p or ".") != _HERE]


def _run_hidden_of_python2():
    import imp

    try:
        found = imp.find_module("sitecustomize", _other_folders())
    except ImportError:
        return
    try:
        imp.load_module("sitecustomize", *found)
    finally:
        if found[0]:
            found[0].close()


def _run_hidden():
    """Import the sitecustomize that would have been found without this one, under its own name."""
    if sys.version_info < (3, 5):
        _run_hidden_of_python2()
        return
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    spec = PathFinder.find_spec("sitecustomize", _other_folders())
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def _old_torch():
    """Whether a PyTorch before 2.5 is installed; finds out without importing it."""
    from importlib.machinery import PathFinder

    spec = PathFinder.find_spec("torch", _other_folders())
    if spec is None or not spec.origin:
        return False
    try:
        with open(os.path.join(os.path.dirname(spec.origin), "version.py")) as file:
            text = file.read(4096)
    except OSError:
        return False
    for line in text.splitlines():
        if line.startswith("__version__"):
            parts = line.split("=", 1)[1].strip(" '\"").split(".")
            return (int(parts[0]), int(parts[1])) < (2, 5)
    return False


class _TorchFinder:
    """On sys.meta_path until `torch` is imported: attaches when that import has finished."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        from importlib.machinery import PathFinder

        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module):
                run(module)
                _attach()

            spec.loader.exec_module = exec_module
        return spec


def _attach():
    try:
        from ckineto_attach import autoload

        autoload.attach()
    except Exception:
        pass


def _start_functions():
    """Record Python functions, if they are requested; last, so that those of other startup files have no rows."""
    if os.environ.get("CKINETO_PYTHON", "") in ("", "0"):
        return
    try:
        from ckineto_attach import stacks

        stacks.start_requested()
    except Exception:
        pass


try:
    if sys.version_info >= (3, 5) and _old_torch():
        sys.meta_path.insert(0, _TorchFinder())
except Exception:
    pass
try:
    _run_hidden()
finally:
    _start_functions()

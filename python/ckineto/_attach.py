"""The parts of ckineto_attach that this package uses: PyTorch's operators, Python functions, plug-ins of devices.

Nothing here imports torch. Operators are recorded by the bridge, which registers itself as a plug-in:
once it is attached, any session has them.
"""
import os
import sys
import threading
import warnings
from typing import Any, Dict, List, Optional

from . import _functions

_lock = threading.Lock()
_state: Dict[str, Any] = {"attached": False, "warned": set()}


def _warn_once(what: str, reason: Any) -> None:
    if what not in _state["warned"]:
        _state["warned"].add(what)
        warnings.warn("ckineto: %s: %s" % (what, reason), RuntimeWarning, stacklevel=5)


def attach_recorder() -> bool:
    """Let sessions record PyTorch's operators, if PyTorch is imported. Warns once if that fails."""
    if "torch" not in sys.modules:
        return False
    with _lock:
        if not _state["attached"]:
            try:
                _functions.library_directory()  # puts ckineto_attach on sys.path
                from ckineto_attach import torch_bridge, torch_hooks

                bridge = torch_bridge.attach_recorder()
                bridge.ckineto_torch_want_memory(1)  # sessions of the program select themselves what they record
                torch_hooks.prepare()
                _state["attached"] = True
            except Exception as error:
                _warn_once("operators of PyTorch are not recorded", str(error) or repr(error))
        return bool(_state["attached"])


class Stacks:
    """Functions of Python and calls of modules as activities, while it is on: ckineto_attach.stacks."""

    def __init__(self, functions: bool = False, modules: bool = False, collections: bool = False,
                 c_functions: bool = False) -> None:
        self._options = {"functions": functions, "modules": modules, "c_functions": c_functions,
                         "collections": collections}
        self._is_on = False
        self._tracer: Any = None

    def is_available(self) -> bool:
        """Whether it can be turned on. Warns once if it is requested and cannot."""
        self.turn(True)
        available = self._is_on
        self.turn(False)
        return available

    def turn(self, on: bool) -> None:
        """Begin or end; a second time does nothing."""
        if on == self._is_on or not any(self._options.values()):
            return
        if not on:  # code between here and the stop would be in the trace
            self._is_on = False
            self._tracer.stop()
            return
        try:
            self._start()
        except Exception as error:
            _warn_once("functions of Python are not recorded", str(error) or repr(error))

    def _start(self) -> None:
        if self._tracer is None:
            _functions.library_directory()  # puts ckineto_attach on sys.path
            from ckineto_attach import stacks

            self._tracer = stacks
        self._is_on = bool(self._tracer.start(**self._options))
        if not self._is_on:
            self._tracer.stop()  # each start needs one, whatever it returned
            _warn_once("functions of Python are not recorded", self._tracer.reason())


def device_plugins() -> List[str]:
    """Plug-ins that come with ckineto, for devices that this machine has."""
    if os.path.exists("/proc/driver/nvidia/version") or os.path.exists("/dev/dxg"):
        return ["cuda"]
    return []


def distributed_info() -> Optional[Dict[str, Any]]:
    """What PyTorch's profiler puts into the header as "distributedInfo"; None without process groups."""
    dist = sys.modules.get("torch.distributed")
    try:
        if dist is None or not dist.is_available() or not dist.is_initialized():
            return None
        info = {"backend": dist.get_backend(), "rank": dist.get_rank(),
                "world_size": dist.get_world_size(), "pg_count": dist.get_pg_count()}
        pg_config = getattr(dist.distributed_c10d, "_get_all_pg_configs", None)
        if pg_config is not None:
            info["pg_config"] = pg_config()
        return info
    except Exception:
        return None

"""What of ckineto_attach this package uses: PyTorch's operators, Python functions, plug-ins of devices.

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


def _attach_bridge() -> None:
    from ckineto_attach import torch_bridge, torch_hooks

    bridge = torch_bridge.attach_recorder(torch_hooks.on_recording)
    torch_hooks.install(bridge, count_steps=False)


def attach_recorder() -> bool:
    """Let sessions record PyTorch's operators, if PyTorch is imported. Warns once if that fails."""
    if "torch" not in sys.modules:
        return False
    with _lock:
        if not _state["attached"]:
            try:
                _functions.library_directory()  # puts ckineto_attach on sys.path
                _attach_bridge()
                _state["attached"] = True
            except Exception as error:
                _warn_once("operators of PyTorch are not recorded", str(error) or repr(error))
        return bool(_state["attached"])


class Stacks:
    """Functions of Python as activities, while it is on. Without the tracer of ckineto_attach, nothing."""

    def __init__(self, functions: bool, modules: bool) -> None:
        self._functions, self._modules = functions, modules
        self._tracer: Any = None

    @staticmethod
    def is_available() -> bool:
        try:
            _functions.library_directory()
            from ckineto_attach import stacks
        except Exception:
            return False
        return hasattr(stacks, "start") and hasattr(stacks, "stop")

    def turn(self, on: bool) -> None:
        """Begin or end; a second time does nothing."""
        if on == (self._tracer is not None) or not (self._functions or self._modules):
            return
        try:
            from ckineto_attach import stacks

            if on:
                stacks.start(functions=self._functions, modules=self._modules)
                self._tracer = stacks
            else:
                tracer, self._tracer = self._tracer, None
                tracer.stop()
        except Exception as error:
            _warn_once("functions of Python are not recorded", str(error) or repr(error))


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

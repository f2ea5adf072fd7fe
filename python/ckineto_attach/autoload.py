"""The entry point of the group "torch.backends": PyTorch (2.5 and newer) calls `attach` at the end of
`import torch`. For older versions `sitecustomize` does (see there).

It attaches only what the environment requests:

    CKINETO_SESSION, CKINETO_CONTROL, CKINETO_RING   the recorder of operators
    CKINETO_TORCH=1                                  torch.profiler runs on ckineto
    CKINETO_TORCH=guest                              ckineto's plug-ins join libkineto's profiles
    CKINETO_TORCH=0                                  nothing

CKINETO_TORCH_BUILD=0: a bridge that is missing is not compiled in the background.

With KINETO_USE_DAEMON, PyTorch's libkineto polls a daemon for requests from the moment when libtorch is
loaded. A process must have one client only: ckineto if CKINETO_CONTROL, CKINETO_RING or CKINETO_TORCH=1 is
set, libkineto otherwise.

It never raises and never prints: a failure is a line in the ledger of the trace. If CKINETO_TORCH is set and
fails, the first profile of torch.profiler warns as well.
"""
import ctypes
import os

_state = {"done": False}

_RECORDER_VARIABLES = ("CKINETO_SESSION", "CKINETO_CONTROL", "CKINETO_RING")


def _note(reason: str, detail: str, count: int = 1) -> None:
    """Add a line to the ledger of this process."""
    from . import library

    library.load_rt().kineto_ledger_add(b"PyTorch", reason.encode(), count, False, detail.encode())


def _wants_recorder() -> bool:
    return any(os.environ.get(name) for name in _RECORDER_VARIABLES)


def _wants_control() -> bool:
    return bool(os.environ.get("CKINETO_CONTROL") or os.environ.get("CKINETO_RING"))


def _silence_library() -> None:
    """Keep the messages of libckineto, when it is loaded, out of the program's output."""
    from . import library

    rt = library.load_rt()
    rt.kineto_rt_quiet_set.restype = None
    rt.kineto_rt_quiet_set()


def _load_control() -> None:
    """Load libckineto, which starts to listen by itself if the environment requests it."""
    from . import library

    library.load_full()


def _leave_requests(reason: str) -> None:
    """Leave requests of the daemon to libkineto: libckineto, loaded now or later, does not poll it."""
    from . import library

    rt = library.load_rt()
    rt.kineto_rt_daemon_client_set.argtypes = [ctypes.c_char_p]
    rt.kineto_rt_daemon_client_set.restype = None
    rt.kineto_rt_daemon_client_set(b"PyTorch's libkineto")
    _note("on-demand requests", "answered by PyTorch's libkineto" + (reason and ": " + reason))


def _claim_requests(mode: str) -> bool:
    """Choose the client of the daemon; True: ckineto. Called before libckineto is loaded."""
    if "KINETO_USE_DAEMON" not in os.environ:
        return False
    import torch

    from . import torch_bridge

    if not torch_bridge.has_kineto(torch):
        return _wants_control()
    if mode == "guest" or not (mode or _wants_control()):
        _leave_requests("")
        return False
    try:
        torch_bridge.stop_daemon_client()
        _note("on-demand requests", "answered by ckineto")
        return True
    except torch_bridge.AttachError as error:
        _leave_requests(str(error))
        return False


def _attach_recorder() -> None:
    from . import torch_bridge

    try:
        torch_bridge.attach_recorder()
    except torch_bridge.AttachError as error:
        import torch

        from . import build

        detail = str(error)
        if not any(torch_bridge.find_bridges(torch)) and build.start_build(torch):
            detail = ("no bridge for PyTorch %s yet; it is being built with this PyTorch's headers "
                      "for the next run" % torch.__version__)
        _note("operators are not recorded", detail)


def _attach_profiler(mode: str) -> None:
    from . import torch_bridge

    try:
        if mode == "guest":
            torch_bridge.attach_guest()
        elif mode == "1":
            torch_bridge.attach_seat()
        else:
            raise torch_bridge.AttachError("CKINETO_TORCH: invalid value '%s'; use 1, guest or 0" % mode)
    except torch_bridge.AttachError as error:
        from . import seat_hooks

        _note("torch.profiler does not run on ckineto", str(error))
        seat_hooks.warn_at_start("CKINETO_TORCH=%s: torch.profiler runs without ckineto: %s" % (mode, error))


def attach() -> None:
    """Called by `import torch`."""
    if _state["done"]:
        return
    _state["done"] = True
    try:
        mode = os.environ.get("CKINETO_TORCH", "")
        if mode == "0":
            return
        if mode or _wants_control() or "KINETO_USE_DAEMON" in os.environ:
            _silence_library()
        answers = _claim_requests(mode)
        if mode:
            _attach_profiler(mode)
        if answers or _wants_recorder():
            _attach_recorder()
        if answers or _wants_control():
            _load_control()
    except Exception as error:  # never into the program
        try:
            _note("PyTorch is not recorded", "%s: %s" % (type(error).__name__, error))
        except Exception:
            pass

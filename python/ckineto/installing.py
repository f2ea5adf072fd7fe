"""torch.profiler on ckineto: the effect of CKINETO_TORCH=1, from within a program."""
from . import _functions
from .errors import StateError


def install(how: str = "seat") -> None:
    """Let torch.profiler run on ckineto from now on ("seat"), or let ckineto's sources and plug-ins join the
    profiles of PyTorch's own libkineto ("guest"). Call it before a profile starts; imports torch. Raises
    StateError with the reason if that is impossible with this PyTorch.

        import ckineto
        ckineto.install()
        with torch.profiler.profile() as prof: ...
        prof.export_chrome_trace("trace.pftrace")
    """
    if how not in ("seat", "guest"):
        raise ValueError("how must be 'seat' or 'guest', not %r" % (how,))
    _functions.library_directory()  # puts ckineto_attach on sys.path
    from ckineto_attach import torch_bridge

    try:
        if how == "seat":
            torch_bridge.attach_seat()
        else:
            torch_bridge.attach_guest()
    except torch_bridge.AttachError as error:
        raise StateError(str(error)) from None

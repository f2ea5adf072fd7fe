"""A Python program that records itself, without PyTorch: ctypes and libckineto.so."""
import contextlib
import ctypes
import os

lib = ctypes.CDLL(os.environ.get("CKINETO_LIBRARY", "libckineto.so.0"))
lib.kineto_function_site.restype = ctypes.c_void_p
lib.kineto_record_begin.argtypes = [ctypes.c_void_p]
lib.kineto_session_start.argtypes = [ctypes.c_void_p] * 2
lib.kineto_session_stop.argtypes = [ctypes.c_void_p] * 3
lib.kineto_session_destroy.argtypes = [ctypes.c_void_p]
lib.kineto_trace_save.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
lib.kineto_trace_release.argtypes = [ctypes.c_void_p]
lib.kineto_status_text.restype = ctypes.c_char_p
# Points to the mask of kinds that are recorded now, which is checked before each range, as in C.
gate = ctypes.POINTER(ctypes.c_uint64).in_dll(lib, "kineto_gate")
USER_SCOPE, USER_ANNOTATION = 7, 1 << 1


@contextlib.contextmanager
def scoped(name):
    """A range from here to the end of the block."""
    wanted = gate[0] & USER_ANNOTATION
    opened = lib.kineto_record_begin(lib.kineto_function_site(name.encode(), None, USER_SCOPE)) if wanted else 0
    try:
        yield
    finally:
        if opened:
            lib.kineto_record_end(opened)


def check(status):
    if status:
        raise RuntimeError(lib.kineto_status_text(status).decode())


session, trace = ctypes.c_void_p(), ctypes.c_void_p()
check(lib.kineto_session_create(None, ctypes.byref(session), None))
check(lib.kineto_session_start(session, None))
for number in range(3):
    with scoped("step"):
        print("step", number)
check(lib.kineto_session_stop(session, ctypes.byref(trace), None))
lib.kineto_session_destroy(session)
check(lib.kineto_trace_save(trace, b"self_record.json", None))
lib.kineto_trace_release(trace)

"""Layouts of the structs that recording needs; the others are in _structs.py.

Each class states the C type that it mirrors as `_c_type_`; tests/module/test_layout.py compiles a C
program that prints sizes and offsets of the headers, and compares. Structs whose first member is
`size` set it by themselves.
"""
import ctypes as C

bool_, char_p, void_p = C.c_bool, C.c_char_p, C.c_void_p
i8, i32, i64 = C.c_int8, C.c_int32, C.c_int64
u8, u16, u32, u64 = C.c_uint8, C.c_uint16, C.c_uint32, C.c_uint64
int_, double, size_t = C.c_int, C.c_double, C.c_size_t


class Sized(C.Structure):
    """A struct that begins with its own size."""

    def __init__(self, *args, **values):
        super().__init__(*args, **values)
        self.size = C.sizeof(self)


# ---- base.h ------------------------------------------------------------------------------------------


class ErrorInfo(C.Structure):
    _c_type_ = "kineto_error"
    _fields_ = [("code", int_), ("os_error", int_), ("offset", u64), ("message", C.c_char * 488)]


class String(C.Structure):
    _c_type_ = "kineto_string"
    _fields_ = [("data", void_p), ("size", size_t)]

    def bytes(self) -> bytes:
        return C.string_at(self.data, self.size) if self.size else b""

    def text(self) -> str:
        return self.bytes().decode("utf-8", "replace")


# ---- record.h ----------------------------------------------------------------------------------------


class ArgDesc(C.Structure):
    _c_type_ = "kineto_arg_desc"
    _fields_ = [("name", char_p), ("type", u32)]


class Site(C.Structure):
    _c_type_ = "kineto_site"
    _fields_ = [("id", u32), ("kind", u8), ("scope", u8), ("arg_count", u8), ("flags", u8),
                ("name", char_p), ("args", C.POINTER(ArgDesc))]


class Props(Sized):
    _c_type_ = "kineto_props"
    _fields_ = [("size", size_t), ("name", char_p), ("name_size", size_t), ("correlation_id", u64),
                ("external_id", u64), ("values", void_p)]


# kineto_arg_type
ARG_INT, ARG_UINT, ARG_DOUBLE, ARG_BOOL, ARG_STRING = 1, 2, 3, 4, 5
ARG_INTS, ARG_STRINGS, ARG_JSON, ARG_SHAPES = 6, 7, 8, 9
# kineto_kind
KIND_USER_ANNOTATION, KIND_CPU_INSTANT_EVENT, KIND_COUNTER = 1, 9, 18
SCOPE_USER_SCOPE = 7
SITE_MAX_ARGS = 64

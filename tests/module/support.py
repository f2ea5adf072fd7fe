"""What the tests of the module have in common: a place for files, a device, traces, and a main()."""
import ctypes
import os
import subprocess
import sys
import tempfile
import unittest

LIBDIR = os.environ.get("CKINETO_LIBDIR", "")
SOURCE = os.environ.get("CKINETO_SOURCE", os.path.join(os.path.dirname(__file__), "..", ".."))
SKIP = 77


def plugin_path(name):
    return os.path.join(LIBDIR, "ckineto", "ckineto-%s.so" % name)


class Device:
    """The software accelerator: a kernel that does nothing, in any name."""

    def __init__(self):
        import ckineto

        ckineto.load_plugin("sim")
        self._lib = ctypes.CDLL(plugin_path("sim"))
        self._lib.sim_launch.argtypes = (ctypes.c_uint32, ctypes.c_char_p, ctypes.c_uint32,
                                         ctypes.c_void_p, ctypes.c_void_p)
        self._nothing = ctypes.cast(ctypes.CDLL(None).getpid, ctypes.c_void_p)
        self._names = []  # the device reads them until it is done

    def launch(self, name="gemm", grid=16):
        self._names.append(ctypes.create_string_buffer(name.encode()))
        self._lib.sim_launch(0, ctypes.cast(self._names[-1], ctypes.c_char_p), grid, self._nothing, None)

    def synchronize(self):
        self._lib.sim_synchronize(0)


class TestCase(unittest.TestCase):
    """Each test has a directory of its own, `self.folder`."""

    def setUp(self):
        made = tempfile.TemporaryDirectory(prefix="ckineto-module-")
        self.addCleanup(made.cleanup)
        self.folder = made.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def generate(self, events=2000, layout="torch2", seed=1, name="generated.json"):
        """A trace as Kineto writes it."""
        path = self.path(name)
        subprocess.run([os.environ["CKINETO_GEN_TRACE"], "--events", str(events), "--layout", layout,
                        "--seed", str(seed), "--out", path], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        return path


def run_python(code, **environment):
    """Run a program in a process of its own; returns what it printed."""
    done = subprocess.run([sys.executable, "-B", "-c", code], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env=dict(os.environ, **environment))
    if done.returncode:
        raise AssertionError("status %d\n%s" % (done.returncode, done.stderr.decode()))
    return done.stdout.decode()


def names(trace):
    return [activity.name for activity in trace]


def main():
    """Run the tests of the file; 77 if all of them were skipped."""
    result = unittest.main(exit=False, verbosity=2).result
    if not result.wasSuccessful():
        sys.exit(1)
    if result.testsRun and len(result.skipped) == result.testsRun:
        print("skipped: %s" % result.skipped[0][1])
        sys.exit(SKIP)

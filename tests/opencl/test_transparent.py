"""A program sees no difference: output, errors and exit status of clients that print what OpenCL
tells them are equal without a layer, under an idle layer, and under one that records."""
from support import LAYER, CLIENT, FAKE_HOST, check, environment, finish, need_device, run, \
    run_fake_host

WAYS = ["api", "all", "extensions", "props0", "with_properties", "threads", "many_queues",
        "fork", "exit_running", "quick_exit"]


def same(way, words, bare, other):
    for part in ("returncode", "stdout", "stderr"):
        check(getattr(bare, part) == getattr(other, part),
              f"{way}, {words}: {part} differs:\n{getattr(bare, part)}\n{getattr(other, part)}")


need_device()
for way in WAYS:
    plain = run([CLIENT, way], environment())
    check(plain.stdout != b"", f"{way}: says nothing")
    # With the real recorder library, but no session.
    same(way, "idle", plain, run([CLIENT, way], environment([LAYER])))
    same(way, "no window", plain, run_fake_host([way], window="no")[0])
    same(way, "recording", plain, run_fake_host([way])[0])
    same(way, "windows come and go", plain, run_fake_host([way], window="3")[0])
finish("transparent")

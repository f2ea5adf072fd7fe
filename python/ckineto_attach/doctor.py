"""One line for `ckineto doctor`, about PyTorch or, with the argument "functions", about the recorder of Python
functions: "ok: …", "absent: …" or "note: …"."""
import os
import sys


def describe_functions() -> str:
    """Describe whether `record --python` can record the functions of this Python."""
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    name = "Python %d.%d of %s" % (sys.version_info[0], sys.version_info[1], sys.executable)
    try:
        from ckineto_attach import stacks

        stacks.prepare()
    except Exception as error:
        return "note: %s: functions are not recorded: %s" % (name, error)
    return "ok: %s: --python records functions, by %s" % (name, stacks.mechanism())


def describe() -> str:
    """Describe whether the PyTorch of this Python can be recorded."""
    os.environ["CKINETO_TORCH"] = "0"
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    try:
        import torch
    except ImportError:
        return "absent: PyTorch is not installed for %s" % sys.executable
    except Exception as error:
        return "note: PyTorch of %s cannot be imported: %s" % (sys.executable, error)
    from ckineto_attach import torch_bridge

    name = "PyTorch %s of %s" % (torch.__version__, sys.executable)
    try:
        bridge = torch_bridge.attach_recorder()
    except (torch_bridge.AttachError, OSError) as error:
        return "note: %s: %s" % (name, error)
    seat = bridge.ckineto_torch_features() & torch_bridge.SEAT
    return "ok: %s: operators are recorded%s" % (
        name, "; CKINETO_TORCH=1 runs torch.profiler on ckineto" if seat else "")


if __name__ == "__main__":
    describe_subject = describe_functions if sys.argv[1:] == ["functions"] else describe
    sys.stdout.write(describe_subject().replace("\n", " ") + "\n")

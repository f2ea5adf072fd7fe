"""One line about PyTorch for `ckineto doctor`: "ok: …", "absent: …" or "note: …"."""
import os
import sys


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
    sys.stdout.write(describe().replace("\n", " ") + "\n")

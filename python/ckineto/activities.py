"""Groups of activities, actions of a schedule, and types of devices, in PyTorch's numbers."""
import enum
from typing import Any, Iterable, Optional

from . import errors


class ProfilerActivity(enum.Enum):
    """What to profile: torch.profiler.ProfilerActivity."""

    CPU = 0
    XPU = 1
    CUDA = 2
    HPU = 3
    MTIA = 4
    PrivateUse1 = 5


class ProfilerAction(enum.Enum):
    """What to do in a step: torch.profiler.ProfilerAction."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


class DeviceType(enum.Enum):
    """Where something ran."""

    CPU = 0
    CUDA = 1
    MKLDNN = 2
    IDEEP = 5
    HIP = 6
    XPU = 12
    HPU = 15
    MTIA = 19
    PrivateUse1 = 20


def device_type(number: int) -> Any:
    """The DeviceType of a number; the number itself if it is unknown."""
    try:
        return DeviceType(number)
    except ValueError:
        return number


def action_number(action: Any) -> int:
    """The number of an action of ckineto or PyTorch, or of a number."""
    return int(getattr(action, "value", action))


def activity_set(activities: Optional[Iterable[Any]]) -> int:
    """The C mask of activities of ckineto, of PyTorch, or of names; None: 0, which means all."""
    if activities is None:
        return 0
    mask = 0
    for activity in activities:
        if isinstance(activity, dict):
            raise errors.make_error(-7, "activities: choosing types within a group (%r) is not possible; "
                                        "name the group itself" % (activity,))
        name = str(getattr(activity, "name", activity))
        if name not in ProfilerActivity.__members__:
            raise errors.make_error(-1, "unknown activity %r; use ProfilerActivity.%s" % (
                activity, ", ".join(ProfilerActivity.__members__)))
        mask |= 1 << ProfilerActivity[name].value
    if not mask:
        raise AssertionError("No valid profiler activities found")
    return mask

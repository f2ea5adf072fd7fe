"""Which steps a slow program counts: all but the rest that a profiler leaves after its last step when it is stopped."""


def without_rests(steps, events, process_of):
    """STEPS less the last one of a process if it is shorter than 5 % of the mean and no other of EVENTS begins in it."""
    rests = set()
    for process in {process_of(s) for s in steps}:
        own = [s for s in steps if process_of(s) == process]
        last = max(own, key=lambda s: s.start)
        mean = sum(s.end - s.start for s in own) / len(own)
        if (last.end - last.start) * 20 < mean and not any(
                process_of(e) == process and last.start <= e.start < last.end and e.cat != "python_function" and
                not e.name.startswith("ProfilerStep") for e in events):
            rests.add((process, last.start))
    return [s for s in steps if (process_of(s), s.start) not in rests]

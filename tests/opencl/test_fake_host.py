"""What the source delivers, seen by a host that has nothing but the public interface: every command
of a real device exactly once, where an independent witness says how many there were."""
from support import KERNEL, MEMCPY, MEMSET, MONOTONIC_RAW, check, finish, need_device, \
    run_fake_host


def totals_of(lines):
    return next(l for l in reversed(lines) if "requested" in l)


def check_activities(way, lines):
    launches = {l["correlation"]: l for l in lines if l.get("correlation") and "host" in l}
    activities = [l for l in lines if "type" in l]
    seen = [a["correlation"] for a in activities]
    check(len(seen) == len(set(seen)), f"{way}: a command was delivered twice")
    for a in activities:
        launch = launches.get(a["correlation"])
        if not check(launch is not None, f"{way}: no launch of {a}"):
            continue
        check(a["end"] >= a["start"], f"{way}: ends before it starts: {a}")
        # The fake host's clock is MONOTONIC_RAW, as is PoCL's: the two can be compared as they are.
        if a["clock"] == MONOTONIC_RAW:
            check(a["start"] >= launch["start"], f"{way}: starts before its launch: {a} {launch}")
    return activities


def check_way(way, kernels, *arguments):
    _, lines, counts = run_fake_host([way, *arguments])
    activities = check_activities(way, lines)
    totals = totals_of(lines)
    found = {t: sum(a["type"] == t for a in activities) for t in (KERNEL, MEMCPY, MEMSET)}
    if kernels is not None:
        check(counts["kernels"] == kernels, f"{way}: the client enqueued {counts}")
    check(totals["requested"] == totals["delivered"] + totals["lost"], f"{way}: {totals}")
    check(totals["late"] == 0, f"{way}: {totals}")
    if totals["lost"] == 0:
        check(found[KERNEL] == counts["kernels"], f"{way}: {found} of {counts}")
    else:
        check(totals["requested"] == counts["kernels"], f"{way}: {totals} of {counts}")
    return lines, activities, totals


def names(activities):
    return {a["name"] for a in activities}


def check_names():
    lines, activities, _ = check_way("all", None)
    for word in ("Memcpy HtoD (clEnqueueWriteBuffer)", "Memcpy DtoH (clEnqueueReadBuffer)",
                 "Memset (clEnqueueFillBuffer)", "Map DtoH (clEnqueueMapBuffer)", "scale"):
        check(word in names(activities), f"all: no {word}")
    hosts = {l["host"] for l in lines if "host" in l}
    for word in ("clBuildProgram", "clCreateContext", "clFinish", "clEnqueueNDRangeKernel"):
        check(word in hosts, f"all: no call {word}")
    check(sum("device_info" in l for l in lines) == 1, "all: one device")
    write = next(a for a in activities if a["name"].startswith("Memcpy HtoD (clEnqueueWriteB"))
    check(write["bytes"] == 4096, f"all: {write}")


def check_queues():
    lines, activities, _ = check_way("with_properties", 400)
    rows = {l["resource_info"]: l["name"] for l in lines if "resource_info" in l}
    check(rows == {0: "queue 0 (in-order)", 1: "queue 1 (out-of-order)"}, f"rows {rows}")
    check({a["queue"] for a in activities} == {0, 1}, "activities of both queues")
    lines, _, _ = check_way("many_queues", 600)
    rows = {l["resource_info"] for l in lines if "resource_info" in l}
    check(len(rows) <= 64, f"many_queues: {len(rows)} rows")


def check_quick_exit():
    """_exit and worse: what had finished is out."""
    _, lines, _ = run_fake_host(["quick_exit"])
    kernels = [a for a in check_activities("quick_exit", lines) if a["name"] != "spin"]
    # The last callbacks may not have run yet.
    check(190 <= len(kernels) <= 200, f"quick_exit: {len(kernels)} of 200")


need_device()
check_way("props0", 200)
check_way("props0", 5000, "5000")
check_way("threads", 800)
check_way("fork", 201)
_, _, unfinished = check_way("exit_running", 20)
check(unfinished["lost"] > 0, f"exit_running: {unfinished}")
check_names()
check_queues()
check_quick_exit()
for _ in range(3):  # windows come and go: nothing twice, nothing late
    _, toggled, _ = run_fake_host(["threads", "2000"], window="3")
    check_activities("toggled", toggled)
    sums = totals_of(toggled)
    check(sums["requested"] == sums["delivered"] + sums["lost"], f"toggled: {sums}")
    check(sums["late"] == 0, f"toggled: {sums}")
finish("fake_host")

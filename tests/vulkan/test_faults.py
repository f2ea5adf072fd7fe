"""A driver that refuses what the layer needs: the program's results stay, and each dispatch is in the trace once,
with the host's times, or is a loss of the ledger."""
from support import CLIENT, check, environment, events, finish, kernels, losses, need_device, record, run

need_device()

HOST_TIMED = "commands timed by the host"

# word of the counting layer → is each dispatch in the trace, with the times of the device?
FAULTS = {"no-bits": (True, False), "no-pool": (True, False), "no-fence": (True, True),
          "no-results": (False, False), "no-extensions": (True, True), "refuse-extensions": (True, True),
          "no-bits,no-fence": (True, False)}

for fault, (complete, timed) in FAULTS.items():
    # With no-fence the program itself gets two.
    for way in ("reuse", "idle", "timeline") + (() if "no-fence" in fault else ("threads",)):
        label = f"{fault}, {way}"
        plain = run([CLIENT, way], environment())
        result, trace, counts = record([CLIENT, way], fault)
        check(result.returncode == plain.returncode and result.stdout == plain.stdout,
              f"{label}: {plain.stdout} became {result.returncode} {result.stdout} {result.stderr}")
        found = kernels(trace)
        lost = sum(line["count"] for line in losses(trace))
        if complete:
            check(found == counts["kernels"] and lost == 0, f"{label}: {found} of {counts}, lost {losses(trace)}")
        else:
            check(found == 0 and lost == sum(counts.values()), f"{label}: {found} of {counts}, lost {losses(trace)}")
        by_host = [e for e in events(trace, "kernel") if e["args"].get("timing") == "host"]
        check(bool(by_host) == (complete and not timed), f"{label}: {len(by_host)} by the host")
        lines = [line for line in trace["ckineto"]["ledger"] if line["reason"] == HOST_TIMED]
        check(bool(lines) == bool(by_host), f"{label}: {trace['ckineto']['ledger']}")

finish("faults")

"""Programs that record themselves: many sessions, operators, and a plug-in that comes too late."""
import os
import subprocess

from support import PLUGIN, STANDIN, VERSIONS, check, environment, finish


def run(mode, rounds, script="", **env):
    out = subprocess.run([os.path.join(STANDIN, "rocm_sessions"), PLUGIN, mode, str(rounds)],
                         env=environment(script, **env), timeout=300, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT)
    text = out.stdout.decode(errors="replace")
    check(out.returncode == 0, f"{mode} [{script}]: {out.returncode} {text[-3000:]}")
    return text


if __name__ == "__main__":
    for version in VERSIONS:
        text = run("many", 20, f"version={version}")
        check("kernels 200 of 200" in text, f"many {version}: {text[-2000:]}")
    text = run("operators", 5)
    check("kernels 50 of 50" in text and "operators 50" in text, f"operators: {text[-2000:]}")
    text = run("operators", 5, "fail=configure_external_correlation_id_request_service:17")
    check("operators 50" in text, f"operators by pushing: {text[-2000:]}")
    # HIP came first and found no tool: the SDK is locked.
    text = run("late", 1)
    check("kernels 0 of" in text and "CONFIGURATION_LOCKED" in text and "before the program uses HIP" in text,
          f"late: {text[-2000:]}")
    text = run("many", 2, CKINETO_ROCPROFILER_LIBRARY="/nowhere/librocprofiler-sdk.so")
    finish("rocm.sessions")

"""Programs that record themselves: many sessions, operators, and another profiler that came first."""
import os
import subprocess

from support import PLUGIN, STANDIN, VERSIONS, check, environment, finish


def run(mode, rounds, script="", **env):
    out = subprocess.run([os.path.join(STANDIN, "xpu_sessions"), PLUGIN, mode, str(rounds)],
                         env=environment(script, **env), timeout=300, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT)
    text = out.stdout.decode(errors="replace")
    check(out.returncode == 0, f"{mode} [{script}]: {out.returncode} {text[-3000:]}")
    return text


if __name__ == "__main__":
    for version in VERSIONS:
        text = run("many", 20, f"version={version}")
        check("kernels 200 of 200" in text, f"many {version}: {text[-2000:]}")
        text = run("operators", 5, f"version={version}")
        check("kernels 50 of 50" in text and "operators 50" in text, f"operators {version}: {text[-2000:]}")
    text = run("taken", 1)
    check("kernels 0 of" in text and "another user of PTI" in text and "stands aside" in text,
          f"taken: {text[-2000:]}")
    finish("xpu.sessions")

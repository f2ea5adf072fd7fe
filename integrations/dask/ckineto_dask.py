#!/usr/bin/env python3
"""Facts of many traces on the workers of a Dask cluster, then the comparison of their ranks.

    python ckineto_dask.py [--scheduler tcp://HOST:8786] [-o run.ckrun] TRACE...

All workers have to see the traces and the facts at the same path. Without --scheduler this machine is used.
"""

import argparse
import os
import subprocess
import sys

from dask.distributed import Client

COMMAND = os.environ.get("CKINETO", "ckineto")
UNREADABLE = 3  # a trace that cannot be read: a row of the result, no reason to try again


def make_facts(shard, count, facts, traces):
    command = [COMMAND, "facts", "--shard", f"{shard}/{count}", "-o", facts, *traces]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, UNREADABLE):
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}")
    return done.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="+", metavar="TRACE", help="a trace, or a directory of them")
    parser.add_argument("--scheduler", help="address of the scheduler of Dask")
    parser.add_argument("--shards", type=int, default=0, help="parts to divide the traces into (four for each worker)")
    parser.add_argument("-o", "--output", default="run.ckrun")
    options = parser.parse_args()
    facts = os.path.abspath(options.output).removesuffix(".ckrun") + ".facts"
    traces = [os.path.abspath(one) for one in options.traces]
    with Client(options.scheduler) as client:
        count = options.shards or 4 * len(client.scheduler_info()["workers"])
        parts = client.map(make_facts, range(count), count=count, facts=facts, traces=traces, retries=3, pure=False)
        for shard, said in enumerate(client.gather(parts, errors="skip")):
            if said:
                print(f"part {shard}: {said}", end="", file=sys.stderr)
    return subprocess.run([COMMAND, "reduce", facts, "-o", options.output], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

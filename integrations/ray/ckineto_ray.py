#!/usr/bin/env python3
"""Facts of many traces on the nodes of a Ray cluster, then the comparison of their ranks.

    python ckineto_ray.py [--address auto] [-o run.ckrun] TRACE...

All nodes have to see the traces and the facts at the same path. Without --address this machine is used.
"""

import argparse
import os
import subprocess
import sys

import ray

COMMAND = os.environ.get("CKINETO", "ckineto")
UNREADABLE = 3  # a trace that cannot be read: a row of the result, no reason to try again


@ray.remote(max_retries=3, retry_exceptions=True)
def make_facts(shard, count, facts, traces):
    command = [COMMAND, "facts", "--shard", f"{shard}/{count}", "-o", facts, *traces]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, UNREADABLE):
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}")
    return done.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="+", metavar="TRACE", help="a trace, or a directory of them")
    parser.add_argument("--address", help="address of the cluster; auto: the one this node belongs to")
    parser.add_argument("--shards", type=int, default=0, help="parts to divide the traces into (four for each CPU)")
    parser.add_argument("-o", "--output", default="run.ckrun")
    options = parser.parse_args()
    facts = os.path.abspath(options.output).removesuffix(".ckrun") + ".facts"
    traces = [os.path.abspath(one) for one in options.traces]
    ray.init(address=options.address, include_dashboard=False, log_to_driver=False)
    count = options.shards or 4 * int(ray.cluster_resources().get("CPU", 1))
    for shard, part in enumerate([make_facts.remote(shard, count, facts, traces) for shard in range(count)]):
        try:
            said = ray.get(part)
        except ray.exceptions.RayError as failed:
            said = f"{failed}\n"
        if said:
            print(f"part {shard}: {said}", end="", file=sys.stderr)
    return subprocess.run([COMMAND, "reduce", facts, "-o", options.output], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

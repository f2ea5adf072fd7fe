"""A profile that JAX writes here: the same events as in the .trace.json.gz that JAX makes of it, with the same lengths.
Skipped without JAX. `PYTHON_WITH_JAX` names the interpreter that has it."""
import collections, glob, gzip, json, os, subprocess, sys, tempfile

COMMAND = os.environ["CKINETO"]
PYTHON = os.environ.get("PYTHON_WITH_JAX", sys.executable)
PROGRAM = """
import jax, jax.numpy as jnp, sys
with jax.profiler.trace(sys.argv[1]):
    f = jax.jit(lambda x: (x @ x).sum())
    for i in range(3):
        with jax.profiler.TraceAnnotation("mine", n=i):
            f(jnp.ones((64, 64))).block_until_ready()
"""


def skip(why):
    print(why)
    sys.exit(77)


def lengths(trace):
    """Name → the lengths of its events, in ns."""
    found = collections.defaultdict(list)
    for e in trace["traceEvents"]:
        if e.get("ph") in ("X", "i", "I") and e.get("name") != "Record Window End":
            found[e["name"]].append(round(e.get("dur", 0) * 1000))
    return {name: sorted(all_of) for name, all_of in found.items()}


if subprocess.run([PYTHON, "-c", "import jax"], capture_output=True).returncode:
    skip("no JAX here: set PYTHON_WITH_JAX")
with tempfile.TemporaryDirectory() as folder:
    subprocess.run([PYTHON, "-c", PROGRAM, folder], check=True, capture_output=True)
    profile, = glob.glob(os.path.join(folder, "**", "*.xplane.pb"), recursive=True)
    peer, = glob.glob(os.path.join(folder, "**", "*.trace.json.gz"), recursive=True)
    made = os.path.join(folder, "made.json")
    subprocess.run([COMMAND, "convert", profile, "-o", made], check=True, capture_output=True)
    ours, theirs = lengths(json.load(open(made))), lengths(json.loads(gzip.open(peer).read()))
    # JAX' own file is cut at a million events.
    assert sum(map(len, theirs.values())) >= 1000000 or set(ours) == set(theirs), set(ours) ^ set(theirs)
    for name in theirs:
        assert len(ours[name]) == len(theirs[name]), name
        assert all(abs(a - b) <= 1 for a, b in zip(ours[name], theirs[name])), (name, ours[name], theirs[name])
    print(sum(map(len, ours.values())), "events as JAX has them")

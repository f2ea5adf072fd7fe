"""The stand-in alone, seen by a tool of our own: what it says of a program is what the program did,
and its script is followed."""
import os

from support import STANDIN, calls_of, check, environment, finish, major_of, run, temporary, write

ALL = "1,2,3,4,5,10,17,22,36,38,39,49"
STANDINS = os.environ.get("STANDINS", "own12,own13").split(",")


def field(words):
    result = {}
    for word in words:
        key, _, value = word.partition("=")
        result[key] = int(value) if value.lstrip("-").isdigit() else value
    return result


class Output:
    """What the tool printed."""

    def __init__(self, result):
        self.status = result.returncode
        lines = [l.split() for l in result.stdout.decode(errors="replace").splitlines()]
        self.records = [(l[1], field(l[2:])) for l in lines if l and l[0] == "record"]
        self.results = [(l[1], int(l[2])) for l in lines if l and l[0] == "result"]
        self.rest = {l[i]: int(l[i + 1]) for l in lines if l and l[0] in ("buffers", "begin", "sum")
                     for i in range(0, len(l), 2)}
        self.error = result.stderr.decode(errors="replace")

    def of(self, prefix):
        return [f for name, f in self.records if name.startswith(prefix)]


def tool(which, *way, kinds=ALL, script="", log=None, **more):
    major = major_of(which)
    with temporary() as folder:
        env = environment(which, write(folder, "script", script), log,
                          TOOL_CUPTI=f"libcupti.so.{major}", **more)
        return Output(run([os.path.join(STANDIN, "standin-tool" + major), kinds, *way], env))


def check_add(which):
    output = tool(which, "add", "3")
    launches = {c["correlationId"]: c for c in output.of("API")}
    work = output.of("Kernel") + output.of("Memcpy") + output.of("Memset")
    check(output.status == 0 and output.rest["sum"] == 18, f"{which}: {output.rest} {output.error}")
    check(len(output.of("Kernel")) == 3 and len(work) == 15, f"{which}: {len(work)} pieces of work")
    check(output.rest["dropped"] == 0, f"{which}: {output.rest}")
    before = 0
    for w in sorted(work, key=lambda w: w["start"]):
        launch = launches.get(w["correlationId"])
        if check(launch is not None, f"{which}: no launch of {w}"):
            check(launch["start"] <= w["start"] < w["end"], f"{which}: {launch} and {w}")
        check(w["start"] >= before, f"{which}: overlaps on its stream: {w}")
        before = w["end"]
        check(output.rest["begin"] <= w["start"] and w["end"] <= output.rest["end"], f"{which}: {w}")
    check(all(k["name"] == "_Z9add_floatPKfS0_Pfi" for k in output.of("Kernel")), f"{which}: names")
    external = {e["correlationId"]: e["externalId"] for e in output.of("External")}
    check(all(external.get(w["correlationId"]) == 77 for w in work), f"{which}: operators")


def check_graph(which):
    nodes = tool(which, "graph", "3")
    whole = tool(which, "graph", "3", kinds=ALL + ",51")
    check(len(nodes.of("Kernel")) == 9, f"{which}: {len(nodes.of('Kernel'))} nodes of graphs")
    check(all(k["graphId"] and k["graphNodeId"] for k in nodes.of("Kernel")), f"{which}: graph ids")
    check(len({k["correlationId"] for k in nodes.of("Kernel")}) == 3, f"{which}: launches of graphs")
    check(len(whole.of("GraphTrace")) == 3 and not whole.of("Kernel"), f"{which}: whole graphs")


def check_ways(which):
    for way, kernels in (("threads", 8), ("streams", 4), ("driver", 2), ("contexts", 2), ("reset", 2),
                         ("fork", 4), ("devices", 2)):
        output = tool(which, way, "2")
        check(output.status == 0, f"{which} {way}: status {output.status} {output.error}")
        found = output.of("Kernel")
        check(len(found) == kernels, f"{which} {way}: {len(found)} kernels")
        ids = [k["correlationId"] for k in found]
        check(len(set(ids)) == len(ids), f"{which} {way}: an id is there twice")
    output = tool(which, "threads", "3", TOOL_PER_THREAD="1")
    check(len(output.of("Kernel")) == 12 and output.rest["buffers"] >= 5,
          f"{which}: buffers per thread: {output.rest}")
    output = tool(which, "devices", "4", script="device h100\ndevice t4\n")
    check({k["deviceId"] for k in output.of("Kernel")} == {0, 1}, f"{which}: two devices")
    check(len(output.of("MemcpyPtoP")) == 4, f"{which}: copies between devices")


def check_delivery(which):
    whole = tool(which, "add", "20")
    for script, words in (("fill 3", "partly filled"), ("empty_every 2\nfill 5", "empty ones"),
                          ("shuffle 7", "unordered"), ("complete_slow_us 2000\nfill 10", "slow")):
        output = tool(which, "add", "20", script=script)
        check(len(output.records) == len(whole.records), f"{which} {words}: {len(output.records)}")
        check(output.rest["dropped"] == 0, f"{which} {words}: {output.rest}")
        check((output.rest["empty"] > 0) == ("empty" in words), f"{which} {words}: {output.rest}")
    output = tool(which, "add", "20", script="version 26\n", TOOL_NO_BUFFERS="1")
    check(output.status == -6, f"{which}: before CUDA 12.9 it cannot do without buffers: {output.status}")
    output = tool(which, "add", "20", script="version 27\n", TOOL_NO_BUFFERS="1")
    check(not output.records and output.rest["dropped"] == len(whole.records), f"{which}: {output.rest}")
    output = tool(which, "add", "20", TOOL_BUFFER_BYTES="1024")
    check(len(output.records) == len(whole.records), f"{which}: small buffers")


def check_errors(which):
    for code in (8, 14, 27, 35, 39, 999):
        output = tool(which, "add", "1", script=f"fail cuptiActivityEnable 2 {code}")
        check(output.results == [("cuptiActivityEnable", code)], f"{which}: {code}: {output.results}")
    with temporary() as folder:
        log = os.path.join(folder, "log")
        output = tool(which, "add", "2", script="fail cuptiActivityFlushAll * 999\nslow cuInit 1 1000",
                    log=log)
        calls = [c[0] for c in calls_of(log)]
        check(calls.count("cudaLaunchKernel") == 2, f"{which}: the log has {calls}")
        check(("cuptiActivityFlushAll", 1, 999) in calls_of(log), f"{which}: the failure is logged")
    check(tool(which, "add", "1", script="fail cudaLaunchKernel 1 700").rest["sum"] == 700000006,
          f"{which}: a call of the program fails")
    check(tool(which, "add", "1", script="nonsense").status == 98, f"{which}: a mistake is reported")


def check_replay(which):
    script = ('record Kernel9 start=1 end=11001 name="a \\"b\\" c" streamId=9 correlationId=5\n'
              "record Memcpy5 start=0 end=0 bytes=12 copyKind=1\nbuffer\nempty\n"
              "record Kernel5 start=raw:44 end=raw:33 name=null\nbytes ff00ff00 0102030405060708\n"
              "drop 7\n")
    output = tool(which, "replay", "5", kinds="10", script="version 22\n" + script)
    kernel = output.of("Kernel9")[0]
    check(abs((kernel["end"] - kernel["start"]) / 3 - 11000) < 40, f"{which}: duration {kernel}")
    check(kernel["end"] <= output.rest["end"] and kernel["streamId"] == 9, f"{which}: {kernel}")
    check(output.of("Memcpy5")[0]["start"] == 0, f"{which}: a time of 0 stays")
    check(("?", {"kind": 0xff00ff}) in output.records, f"{which}: bytes that are no record")
    check(output.rest["dropped"] == 7 and output.rest["empty"] == 1, f"{which}: {output.rest}")
    # Kernel5 is read with the tool's layouts: what matters is that it came.
    check(len(output.records) == 4, f"{which}: {output.records}")


for standin in STANDINS:
    for part in (check_add, check_graph, check_ways, check_delivery, check_errors, check_replay):
        part(standin)
finish("stand-in")

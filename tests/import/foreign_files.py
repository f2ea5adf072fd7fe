"""One run of a program with a GPU, as files of several tools: an export of Nsight Systems (nsys export --type sqlite,
three versions of its tables), a database of rocprofv3 (rocpd, versions 3.0 and 4.1), rocprofv3's JSON, and Kineto's
JSON. The tables are those of NVIDIA's and AMD's documentation and sources."""

import gzip
import json
import math
import random
import sqlite3

EPOCH = 1_700_000_000_000_000_000
PID, THREADS = 4321, (4321, 4400)
COPY_WORDS = {1: "HtoD", 2: "DtoH", 8: "DtoD"}
MEMORY_WORDS = {0: "Pageable", 1: "Pinned", 2: "Device"}
KERNELS = ("void gemm<float, 128>(float const*, float*)", "add_kernel(int)", "ncclDevKernel_AllReduce_Sum_f32")
GLOBAL, SMS = 0x1000000, 132


class Run:
    """Times in ns since the start of recording."""

    def __init__(self, launches=60, seed=1):
        rng = random.Random(seed)
        self.calls, self.kernels, self.copies, self.fills, self.waits, self.ranges = [], [], [], [], [], []
        now, device_ns, correlation = 1_000_003, 1_200_000, 100
        for i in range(launches):
            if i % 10 == 0:
                begin = now
            correlation += 1
            now += 5_000 + rng.randrange(999)
            kind = i % 6
            name = ("cudaLaunchKernel", "cudaLaunchKernel", "cudaMemcpyAsync", "cudaLaunchKernel", "cudaMemsetAsync",
                    "cudaStreamSynchronize")[kind]
            length = 3_001 + rng.randrange(500)
            device_ns = max(device_ns, now + 2_000) + 1_500
            work = dict(device=i % 2, stream=7 + i % 2, correlation=correlation, start=device_ns)
            busy = 20_007 + rng.randrange(5_000)
            if kind in (0, 1, 3):
                work.update(end=device_ns + busy, name=KERNELS[(i + i // 6) % 3], grid=(64 + kind, 2, 1), block=(128, 1, 1), registers=40,
                            static=1024, dynamic=512)
                self.kernels.append(work)
            elif kind == 2:
                work.update(end=device_ns + busy, kind=(1, 2, 8)[i // 6 % 3], source=(0, 2, 2)[i // 6 % 3],
                            target=(2, 1, 2)[i // 6 % 3], bytes=1 << 20)
                self.copies.append(work)
            elif kind == 4:
                work.update(end=device_ns + 2_003, bytes=4096)
                self.fills.append(work)
            else:
                length = max(device_ns - now, 0) + 10_000
                work.update(start=now + 100, end=now + length - 100)
                self.waits.append(work)
            if kind != 5:
                device_ns = work["end"]
            self.calls.append(dict(name=name, start=now, end=now + length, correlation=correlation, thread=THREADS[0]))
            now += length
            if i % 10 == 9:
                self.ranges.append(dict(name=f"step {i // 10}", start=begin, end=now + 50, thread=THREADS[0]))
        self.end = max(now, device_ns) + 1_000


def kineto(run, path):
    """As libkineto writes the same run, with an exact time for each event."""
    events = []

    def put(cat, name, pid, tid, e, **args):
        start, length = EPOCH + e["start"], e["end"] - e["start"]
        events.append('{"ph":"X","cat":"%s","name":%s,"pid":%d,"tid":%d,"ts":%d.%03d,"dur":%d.%03d,"args":%s}' % (
            cat, json.dumps(name), pid, tid, start // 1000, start % 1000, length // 1000, length % 1000, json.dumps(args)))

    def put_work(cat, name, e, **args):
        put(cat, name, e["device"], e["stream"], e, device=e["device"], context=1, stream=e["stream"],
            correlation=e["correlation"], **args)
        put_arrow("f", e["device"], e["stream"], e)

    def put_arrow(phase, pid, tid, e):
        if e["correlation"] in worked:
            start = EPOCH + e["start"]
            events.append('{"ph":"%s","cat":"ac2g","name":"ac2g","id":%d,"pid":%d,"tid":%d,"ts":%d.%03d%s}' % (
                phase, e["correlation"], pid, tid, start // 1000, start % 1000, ',"bp":"e"' if phase == "f" else ""))

    worked = {e["correlation"] for part in (run.kernels, run.copies, run.fills, run.waits) for e in part}
    for e in run.kernels:
        put_work("kernel", e["name"], e, grid=e["grid"], block=e["block"],
                 **{"registers per thread": e["registers"], "shared memory": e["static"] + e["dynamic"],
                    "blocks per SM": math.prod(e["grid"]) / SMS, "warps per SM": math.prod(e["grid"]) * math.prod(e["block"]) / 32 / SMS})
    for e in run.copies:
        put_work("gpu_memcpy", f"Memcpy {COPY_WORDS[e['kind']]} ({MEMORY_WORDS[e['source']]} -> {MEMORY_WORDS[e['target']]})",
                 e, bytes=e["bytes"], **{"memory bandwidth (GB/s)": e["bytes"] / (e["end"] - e["start"])})
    for e in run.fills:
        put_work("gpu_memset", "Memset (Device)", e, bytes=e["bytes"],
                 **{"memory bandwidth (GB/s)": e["bytes"] / (e["end"] - e["start"])})
    for e in run.waits:
        put_work("cuda_sync", "Stream Sync", e, cuda_sync_kind="Stream Sync")
    for e in run.calls:
        put("cuda_runtime", e["name"], PID, e["thread"], e, correlation=e["correlation"])
        put_arrow("s", PID, e["thread"], e)
    for e in run.ranges:
        put("user_annotation", e["name"], PID, e["thread"], e)
    for device in (0, 1):
        events.append(json.dumps({"ph": "M", "name": "process_labels", "pid": device, "tid": 0, "ts": 0,
                                  "args": {"labels": f"GPU {device}"}}))
    properties = [dict(id=i, name="NVIDIA H200", totalGlobalMem=1 << 37, computeMajor=9, computeMinor=0, numSms=SMS,
                       warpSize=32) for i in (0, 1)]
    with open(path, "w", encoding="utf-8") as f:
        f.write('{"schemaVersion":1,"deviceProperties":%s,"traceEvents":[\n%s\n]}' % (json.dumps(properties), ",\n".join(events)))


# ---- Nsight Systems ----

WORK = ("start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, {green}"
        "streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, ")
NSYS = {
    "KERNEL": WORK + "demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, {mangled}launchType INTEGER, cacheConfig INTEGER, "
              "registersPerThread INTEGER NOT NULL, gridX INTEGER NOT NULL, gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL, "
              "blockX INTEGER NOT NULL, blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL, staticSharedMemory INTEGER NOT NULL, "
              "dynamicSharedMemory INTEGER NOT NULL, localMemoryPerThread INTEGER NOT NULL, localMemoryTotal INTEGER NOT NULL, "
              "gridId INTEGER NOT NULL, sharedMemoryExecuted INTEGER, graphNodeId INTEGER, sharedMemoryLimitConfig INTEGER",
    "MEMCPY": WORK + "bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL, deprecatedSrcId INTEGER, srcKind INTEGER, dstKind INTEGER, "
              "srcDeviceId INTEGER, srcContextId INTEGER, dstDeviceId INTEGER, dstContextId INTEGER, graphNodeId INTEGER",
    "MEMSET": WORK + "value INTEGER NOT NULL, bytes INTEGER NOT NULL, graphNodeId INTEGER, memKind INTEGER",
    "SYNCHRONIZATION": WORK + "syncType INTEGER NOT NULL, eventId INTEGER NOT NULL",
    "RUNTIME": "start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid INTEGER, correlationId INTEGER, "
               "nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, callchainId INTEGER",
}
NVTX = ("start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER, category INTEGER, color INTEGER, text TEXT, "
        "globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER, uint64Value INTEGER, int64Value INTEGER, "
        "doubleValue REAL, uint32Value INTEGER, int32Value INTEGER, floatValue REAL, jsonTextId INTEGER, jsonText TEXT")
NSYS_VERSIONS = ("2021.5", "2023.4", "2025.1")


def fill(db, table, **values):
    db.execute(f"INSERT INTO {table} ({','.join(values)}) VALUES ({','.join('?' * len(values))})", tuple(values.values()))


class Strings:
    def __init__(self, db, table, column):
        self.db, self.table, self.column, self.ids = db, table, column, {}

    def __call__(self, text):
        if text not in self.ids:
            self.ids[text] = len(self.ids) + 1
            self.db.execute(f"INSERT INTO {self.table} (id, {self.column}) VALUES (?, ?)", (self.ids[text], text))
        return self.ids[text]


def nsys_tables(db, version):
    new = version >= "2023"
    parts = dict(green="greenContextId INTEGER, " if version >= "2024" else "", mangled="mangledName INTEGER, " if new else "")
    db.execute("CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL)")
    for name, columns in NSYS.items():
        db.execute(f"CREATE TABLE CUPTI_ACTIVITY_KIND_{name} ({columns.format(**parts)})")
    db.execute(f"CREATE TABLE NVTX_EVENTS ({NVTX})")
    db.execute("CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT)")
    db.execute("CREATE TABLE ThreadNames (nameId INTEGER NOT NULL, priority INTEGER, globalTid INTEGER)")
    db.execute("CREATE TABLE TARGET_INFO_GPU (vmId INTEGER, id INTEGER NOT NULL, name TEXT, totalMemory INTEGER, smCount INTEGER, "
               "threadsPerWarp INTEGER, computeMajor INTEGER, computeMinor INTEGER)")
    db.execute("CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT)")
    if new:
        db.execute("CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT)")
        db.execute("CREATE TABLE ENUM_CUDA_MEM_KIND (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT)")
        db.executemany("INSERT INTO ENUM_CUDA_MEM_KIND VALUES (?, ?, ?)",
                       [(i, f"CUDA_MEMOPR_MEMORY_KIND_{w.upper()}", w) for i, w in MEMORY_WORDS.items()])
        fill(db, "PROCESSES", globalPid=PID * GLOBAL, pid=PID, name="python")


def nsys(run, path, version="2025.1"):
    db = sqlite3.connect(path)
    nsys_tables(db, version)
    text = Strings(db, "StringIds", "value")
    fill(db, "TARGET_INFO_SESSION_START_TIME", utcEpochNs=EPOCH)
    fill(db, "META_DATA_EXPORT", name="EXPORT_PRODUCT_VERSION", value=version)
    for i in (0, 1):
        fill(db, "TARGET_INFO_GPU", id=i, name="NVIDIA H200", totalMemory=1 << 37, smCount=SMS, threadsPerWarp=32, computeMajor=9,
             computeMinor=0)
    for tid in THREADS:
        fill(db, "ThreadNames", nameId=text(f"worker {tid}"), globalTid=PID * GLOBAL + tid)

    def work(table, e, **more):
        fill(db, f"CUPTI_ACTIVITY_KIND_{table}", start=e["start"], end=e["end"], deviceId=e["device"], contextId=1,
             streamId=e["stream"], correlationId=e["correlation"], globalPid=PID * GLOBAL, **more)

    for e in run.kernels:
        (gx, gy, gz), (bx, by, bz) = e["grid"], e["block"]
        work("KERNEL", e, demangledName=text(e["name"]), shortName=text(e["name"].split("(")[0]), registersPerThread=e["registers"],
             gridX=gx, gridY=gy, gridZ=gz, blockX=bx, blockY=by, blockZ=bz, staticSharedMemory=e["static"],
             dynamicSharedMemory=e["dynamic"], localMemoryPerThread=0, localMemoryTotal=0, gridId=1)
    for e in run.copies:
        work("MEMCPY", e, bytes=e["bytes"], copyKind=e["kind"], srcKind=e["source"], dstKind=e["target"])
    for e in run.fills:
        work("MEMSET", e, value=0, bytes=e["bytes"], memKind=2)
    for e in run.waits:
        work("SYNCHRONIZATION", e, syncType=3, eventId=0)
    for e in run.calls:
        fill(db, "CUPTI_ACTIVITY_KIND_RUNTIME", start=e["start"], end=e["end"], eventClass=0, globalTid=PID * GLOBAL + e["thread"],
             correlationId=e["correlation"], nameId=text(e["name"] + "_v7000"), returnValue=0)
    for i, e in enumerate(run.ranges): # registered texts and others
        name = dict(textId=text(e["name"])) if i % 2 else dict(text=e["name"])
        fill(db, "NVTX_EVENTS", start=e["start"], end=e["end"], eventType=59, globalTid=PID * GLOBAL + e["thread"], **name)
    db.commit()
    return db


# ---- rocprofv3 ----

GUID = "0190_aa"
PLACE_3 = "nid INTEGER, pid INTEGER, tid INTEGER, "
ROCPD = {
    "string": "string TEXT NOT NULL",
    "info_process": "nid INTEGER, ppid INTEGER, pid INTEGER, command TEXT",
    "info_thread": "nid INTEGER, ppid INTEGER, pid INTEGER, tid INTEGER, name TEXT",
    "info_agent": "nid INTEGER, pid INTEGER, type TEXT, absolute_index INTEGER, logical_index INTEGER, type_index INTEGER, "
                  "name TEXT, product_name TEXT, extdata JSONB DEFAULT '{{}}'",
    "info_kernel_symbol": "nid INTEGER, pid INTEGER, code_object_id INTEGER, kernel_name TEXT, display_name TEXT",
    "event": "category_id INTEGER, stack_id INTEGER, parent_stack_id INTEGER, correlation_id INTEGER, extdata JSONB DEFAULT '{{}}'",
    "track": "nid INTEGER, pid INTEGER, tid INTEGER, {track}name_id INTEGER",
    "region": "{place}start BIGINT, end BIGINT, name_id INTEGER, event_id INTEGER",
    "sample": "track_id INTEGER, {name}timestamp BIGINT, event_id INTEGER",
    "kernel_dispatch": "{place}{work}kernel_id INTEGER, dispatch_id INTEGER, start BIGINT, end BIGINT, group_segment_size INTEGER, "
                       "workgroup_size_x INTEGER, workgroup_size_y INTEGER, workgroup_size_z INTEGER, grid_size_x INTEGER, "
                       "grid_size_y INTEGER, grid_size_z INTEGER, event_id INTEGER",
    "memory_copy": "{place}{copy}start BIGINT, end BIGINT, name_id INTEGER, dst_agent_id INTEGER, src_agent_id INTEGER, "
                   "size INTEGER, event_id INTEGER",
    "memory_allocate": "{place}{work}type TEXT, level TEXT, start BIGINT, end BIGINT, address INTEGER, size INTEGER, event_id INTEGER",
    "pmc_event": "event_id INTEGER, pmc_id INTEGER, value REAL",
}
ROCPD_VERSIONS = ("3.0", "4.1")
OPERATIONS = {1: "MEMORY_COPY_HOST_TO_DEVICE", 2: "MEMORY_COPY_DEVICE_TO_HOST", 8: "MEMORY_COPY_DEVICE_TO_DEVICE"}
CPU_AGENT, FIRST_GPU = 0, 4


def hip(name):
    return "hip" + name[4:]


class Rocpd:
    def __init__(self, path, version):
        self.db, self.version, self.tracks, self.events = sqlite3.connect(path), version, {}, 0
        new = version >= "4"
        parts = dict(place="track_id INTEGER, " if new else PLACE_3,
                     track="agent_id INTEGER, queue_id INTEGER, stream_id INTEGER, " if new else "",
                     work="" if new else "agent_id INTEGER, queue_id INTEGER, stream_id INTEGER, ",
                     copy="" if new else "queue_id INTEGER, stream_id INTEGER, ", name="name_id INTEGER, " if new else "")
        for name, columns in ROCPD.items():
            self.db.execute(f"CREATE TABLE rocpd_{name}_{GUID} (id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, "
                            f"guid TEXT DEFAULT '{GUID}' NOT NULL, {columns.format(**parts)})")
            self.db.execute(f"CREATE VIEW rocpd_{name} AS SELECT * FROM rocpd_{name}_{GUID}")
        self.text = Strings(self.db, f"rocpd_string_{GUID}", "string")

    def fill(self, table, **values):
        fill(self.db, f"rocpd_{table}_{GUID}", **values)

    def place(self, tid, **work):
        if self.version < "4":
            return dict(nid=1, pid=PID, tid=tid, **work)
        key = (tid, *work.values())
        if key not in self.tracks:
            self.tracks[key] = len(self.tracks) + 1
            self.fill("track", id=self.tracks[key], nid=1, pid=PID, tid=tid, **work)
        return dict(track_id=self.tracks[key])

    def event(self, category, stack, **more):
        self.events += 1
        self.fill("event", id=self.events, category_id=self.text(category), stack_id=stack, parent_stack_id=0, **more)
        return self.events


def rocpd(run, path, version="3.0"):
    r = Rocpd(path, version)
    r.fill("info_process", id=PID, nid=1, pid=PID, command="/usr/bin/python3 train.py")
    for tid in THREADS:
        r.fill("info_thread", id=tid, nid=1, pid=PID, tid=tid, name=f"worker {tid}")
    r.fill("info_agent", id=CPU_AGENT, type="CPU", type_index=0, name="cpu", product_name="AMD EPYC")
    for i in (0, 1):
        r.fill("info_agent", id=FIRST_GPU + i, type="GPU", type_index=i, name="gfx942", product_name="AMD Instinct MI300X",
               extdata='{"cu_count": 304}')
    for i, name in enumerate(KERNELS):
        r.fill("info_kernel_symbol", id=i + 1, kernel_name=f"raw{i}", display_name=name)
    for e in run.kernels:
        (gx, gy, gz), (bx, by, bz) = e["grid"], e["block"]
        r.fill("kernel_dispatch", start=e["start"], end=e["end"], kernel_id=KERNELS.index(e["name"]) + 1, dispatch_id=1,
               group_segment_size=e["static"] + e["dynamic"], workgroup_size_x=bx, workgroup_size_y=by, workgroup_size_z=bz,
               grid_size_x=gx * bx, grid_size_y=gy * by, grid_size_z=gz * bz, event_id=r.event("KERNEL_DISPATCH", e["correlation"]),
               **r.place(THREADS[0], agent_id=FIRST_GPU + e["device"], queue_id=e["device"], stream_id=e["stream"]))
    for e in run.copies:
        gpu = FIRST_GPU + e["device"]
        r.fill("memory_copy", start=e["start"], end=e["end"], name_id=r.text(OPERATIONS[e["kind"]]), size=e["bytes"],
               dst_agent_id=CPU_AGENT if e["kind"] == 2 else gpu, src_agent_id=CPU_AGENT if e["kind"] == 1 else gpu,
               event_id=r.event("MEMORY_COPY", e["correlation"]),
               **(r.place(THREADS[0], queue_id=0, stream_id=e["stream"])))
    for e in run.calls:
        r.fill("region", start=e["start"], end=e["end"], name_id=r.text(hip(e["name"])),
               event_id=r.event("HIP_RUNTIME_API", e["correlation"]), **r.place(e["thread"]))
    for i, e in enumerate(run.ranges):
        r.fill("region", start=e["start"], end=e["end"], name_id=r.text("roctxRangePushA"),
               event_id=r.event("MARKER_CORE_RANGE_API", 10_000 + i, extdata=json.dumps({"message": e["name"]})), **r.place(e["thread"]))
    r.db.commit()
    return r


def rocprof_json(run, path):
    kinds = ("NONE", "HIP_RUNTIME_API", "MARKER_CORE_RANGE_API", "MEMORY_COPY", "KERNEL_DISPATCH")
    names = sorted({hip(e["name"]) for e in run.calls})
    operations = {"HIP_RUNTIME_API": names, "MARKER_CORE_RANGE_API": ["roctxMarkA", "roctxThreadRangeA"],
                  "MEMORY_COPY": ["MEMORY_COPY_NONE", *OPERATIONS.values()]}

    def agent(number):
        return {"handle": 1000 + number}

    def record(kind, operation, e, internal, **more):
        return {"size": 64, "kind": kinds.index(kind), "operation": operation, "thread_id": e.get("thread", THREADS[0]),
                "correlation_id": {"internal": internal, "external": 0}, "start_timestamp": e["start"], "end_timestamp": e["end"], **more}

    def dispatch(e):
        size = dict(zip("xyz", e["block"]))
        return {"size": 96, "agent_id": agent(FIRST_GPU + e["device"]), "queue_id": {"handle": e["device"]},
                "kernel_id": KERNELS.index(e["name"]) + 1, "dispatch_id": 1, "private_segment_size": 0,
                "group_segment_size": e["static"] + e["dynamic"], "workgroup_size": size,
                "grid_size": {k: g * b for (k, b), g in zip(size.items(), e["grid"])}}

    copies = []
    for e in run.copies:
        gpu = agent(FIRST_GPU + e["device"])
        copies.append(record("MEMORY_COPY", list(OPERATIONS).index(e["kind"]) + 1, e, e["correlation"], bytes=e["bytes"],
                             dst_agent_id=agent(CPU_AGENT) if e["kind"] == 2 else gpu,
                             src_agent_id=agent(CPU_AGENT) if e["kind"] == 1 else gpu, stream_id={"handle": e["stream"]}))
    agents = [{"id": agent(CPU_AGENT), "type": 1, "name": "cpu", "product_name": "AMD EPYC", "logical_node_type_id": 0}]
    agents += [{"id": agent(FIRST_GPU + i), "type": 2, "name": "gfx942", "product_name": "AMD Instinct MI300X", "cu_count": 304,
                "logical_node_type_id": i} for i in (0, 1)]
    process = {
        "metadata": {"pid": PID, "init_time": 1, "fini_time": run.end, "command": ["/usr/bin/python3", "train.py"]},
        "agents": agents,
        "counters": [],
        "strings": {"callback_records": [],
                    "buffer_records": [{"kind": k, "operations": operations.get(k, [])} for k in kinds],
                    "marker_api": [{"key": 10_000 + i, "value": e["name"]} for i, e in enumerate(run.ranges)]},
        "code_objects": [],
        "kernel_symbols": [{"kernel_id": i + 1, "kernel_name": f"raw{i}", "formatted_kernel_name": n} for i, n in enumerate(KERNELS)],
        "callback_records": {"counter_collection": []},
        "buffer_records": {
            "kernel_dispatch": [record("KERNEL_DISPATCH", 1, e, e["correlation"], dispatch_info=dispatch(e),
                                       stream_id={"handle": e["stream"]}) for e in run.kernels],
            "hip_api": [record("HIP_RUNTIME_API", names.index(hip(e["name"])), e, e["correlation"]) for e in run.calls],
            "hsa_api": [],
            "marker_api": [record("MARKER_CORE_RANGE_API", 1, e, 10_000 + i) for i, e in enumerate(run.ranges)],
            "memory_copy": copies}}
    document = {"rocprofiler-sdk-tool": [process]}
    with (gzip.open(path, "wt") if path.endswith(".gz") else open(path, "w", encoding="utf-8")) as f:
        json.dump(document, f, indent=1)
    return document

"""Writes dumps of PyTorch's flight recorder of a small job, with a planted fault, as torch writes them.

flight_dumps.py FOLDER [FAULT] [json]      FAULT: op, size, absent, no_dump, shift, ring
"""
import json
import os
import pickle
import sys

WORLD = 4
STEPS = 12
BEGIN_NS = 1_790_857_026_000_000_000
CULPRIT = 2
AT = 17 # the sequence number from which the fault is there, of the default group


def entry(record, name, group, desc, sequence, numel, out_numel, at_ns, state="completed"):
    return {"record_id": record, "pg_id": 0, "process_group": [group, desc], "collective_seq_id": sequence, "p2p_seq_id": 0,
            "op_id": record + 1, "profiling_name": f"nccl:{name}", "time_created_ns": at_ns, "duration_ms": 0.05,
            "input_sizes": [[numel]], "input_dtypes": ["Float"], "output_sizes": [[out_numel]], "output_dtypes": ["Float"],
            "state": state, "time_discovered_started_ns": at_ns + 20_000, "time_discovered_completed_ns": at_ns + 70_000,
            "retired": True, "timeout_ms": 600000, "is_p2p": False, "frames": []}


def entries_of(rank, fault=None):
    found, record, sequence = [], 0, {"0": 0, "tp": 0}
    size = 2 if rank // 2 == 0 else 2
    for step in range(STEPS):
        for part in range(3):
            at = BEGIN_NS + (step * 3 + part) * 1_000_000 + rank * 3000
            if part == 1:
                sequence["tp"] += 1
                found.append(entry(record, "_all_gather_base", f"tp{rank // 2}", "tp", sequence["tp"], 512, 512 * size, at))
                record += 1
                continue
            sequence["0"] += 1
            number, name, numel = sequence["0"], "all_reduce", 4096 + step
            bad = rank == CULPRIT and number >= AT
            if bad and fault == "absent":
                return found
            if bad and number == AT and fault == "op":
                name = "broadcast"
            if bad and number == AT and fault == "size":
                numel *= 2
            if bad and fault == "shift":
                number += 1
            found.append(entry(record, name, "0", "default_pg", number, numel, numel, at))
            record += 1
    return found[10:] if fault == "ring" and rank == CULPRIT else found


def dump_of(rank, fault=None):
    ranks = [rank // 2 * 2, rank // 2 * 2 + 1]
    return {"version": "2.10", "comm_lib_version": "2.21.5", "pg_status": {},
            "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(WORLD)))},
                          f"tp{rank // 2}": {"name": f"tp{rank // 2}", "desc": "tp", "ranks": str(ranks)}},
            "entries": entries_of(rank, fault)}


def write(folder, fault=None, as_json=False, protocol=2):
    os.makedirs(folder, exist_ok=True)
    for rank in range(WORLD):
        if fault == "no_dump" and rank == CULPRIT:
            continue
        dump = dump_of(rank, fault)
        if as_json:
            with open(os.path.join(folder, f"nccl_trace_rank_{rank}.json"), "w", encoding="utf-8") as file:
                json.dump(dump, file)
        else:
            with open(os.path.join(folder, f"nccl_trace_rank_{rank}"), "wb") as file:
                pickle.dump(dump, file, protocol=protocol)


if __name__ == "__main__":
    write(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 and sys.argv[2] != "none" else None, "json" in sys.argv[3:])

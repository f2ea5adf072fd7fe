"""What plugins/xpu/pti.h and the stand-in say of PTI's records, against the vendor's headers:

    test_layouts.py COMPILER PLUGIN-DIRECTORY STANDIN-DIRECTORY [INCLUDE-DIRECTORY ...]

An include directory is the parent of pti/pti_view.h. Headers that are missing next to it (those of Level
Zero, pti_export.h and pti_version.h, which Intel's build makes) can stand in a folder "stub" in it."""
import os
import re
import subprocess
import sys
import tempfile

TIMES = [("appended", "append", "_append_timestamp"), ("start", "start", "_start_timestamp"),
         ("end", "end", "_end_timestamp"), ("submitted", "submit", "_submit_timestamp")]
IDS = [("correlation", "correlation", "_correlation_id"), ("thread", "thread", "_thread_id")]
PLACE = [("queue", "queue", "_queue_handle"), ("context", "context", "_context_handle"), ("name", "name", "_name")]
MEMORY = [("operation", "op", "_mem_op_id"), ("bytes", "bytes", "_bytes"), ("sycl_queue", "sycl_queue", "_sycl_queue_id")]
ONE = [("pci_address", "pci", "_pci_address"), ("uuid", "uuid", "_device_uuid")]
WAY = [("type", "type", "_memcpy_type"), ("from", "src", "_mem_src"), ("to", "dst", "_mem_dst")]
# our record, the stand-in's, the vendor's, its size: (our member, the stand-in's, the vendor's)
RECORDS = [
    ("xp_kernel_record", "si_kernel_v2", "pti_view_record_kernel", PLACE + ONE + IDS + TIMES + [
        ("source_file", "source_file", "_source_file_name"), ("source_line", "line", "_source_line_number"),
        ("kernel_id", "id", "_kernel_id"), ("task_begin", "task_begin", "_sycl_task_begin_timestamp"),
        ("enqueue_begin", "enqk_begin", "_sycl_enqk_begin_timestamp"), ("node", "node", "_sycl_node_id"),
        ("sycl_queue", "sycl_queue", "_sycl_queue_id"), ("invocation", "invocation", "_sycl_invocation_id")]),
    ("xp_copy_record", "si_copy_v2", "pti_view_record_memory_copy", PLACE + ONE + IDS + TIMES + MEMORY + WAY),
    ("xp_p2p_record", "si_p2p_v2", "pti_view_record_memory_copy_p2p", PLACE + IDS + TIMES + MEMORY + WAY + [
        ("from_uuid", "src_uuid", "_src_uuid"), ("to_uuid", "dst_uuid", "_dst_uuid")]),
    ("xp_fill_record", "si_fill_v2", "pti_view_record_memory_fill", PLACE + ONE + IDS + TIMES + MEMORY + [
        ("type", "type", "_mem_type"), ("value", "value", "_value_for_set")]),
    ("xp_external_record", "si_external", "pti_view_record_external_correlation", [
        ("correlation", "correlation", "_correlation_id"), ("id", "id", "_external_id"),
        ("external_kind", "external_kind", "_external_kind")]),
    ("xp_overhead_record", "si_overhead", "pti_view_record_overhead", [
        ("start", "start", "_overhead_start_timestamp_ns"), ("end", "end", "_overhead_end_timestamp_ns"),
        ("thread", "thread", "_overhead_thread_id"), ("count", "count", "_overhead_count"),
        ("duration", "duration", "_overhead_duration_ns"), ("overhead_kind", "overhead_kind", "_overhead_kind")]),
    ("xp_sync_record", "si_sync", "pti_view_record_synchronization", IDS + [
        ("type", "type", "_synch_type"), ("context", "context", "_context_handle"), ("queue", "queue", "_queue_handle"),
        ("event", "event", "_event_handle"), ("start", "start", "_start_timestamp"), ("end", "end", "_end_timestamp"),
        ("wait_events", "waits", "_number_wait_events"), ("result", "result", "_return_code"),
        ("api", "api", "_api_id"), ("group", "group", "_api_group")]),
    ("xp_api_record", "si_api", "pti_view_record_api", IDS + [
        ("start", "start", "_start_timestamp"), ("end", "end", "_end_timestamp"), ("group", "group", "_api_group"),
        ("api", "api", "_api_id"), ("process", "process", "_process_id"), ("result", "result", "_return_code")]),
    ("xp_named_call_record", "si_named_call", "pti_view_record_sycl_runtime", IDS + [
        ("name", "name", "_name"), ("start", "start", "_start_timestamp"), ("end", "end", "_end_timestamp"),
        ("process", "process", "_process_id")]),
    ("xp_comms_record", "si_comms", "pti_view_record_comms", [
        ("start", "start", "_start_timestamp"), ("end", "end", "_end_timestamp"), ("process", "process", "_process_id"),
        ("thread", "thread", "_thread_id"), ("sent_bytes", "send", "_send_size"),
        ("received_bytes", "receive", "_recv_size"), ("communicator", "communicator", "_communicator_id"),
        ("name", "name", "_name")]),
]
ESSENTIAL = {r[2] for r in RECORDS[:6]}
KINDS = [("XP_VIEW_KERNEL", "PTI_VIEW_DEVICE_GPU_KERNEL"), ("XP_VIEW_DRIVER", "PTI_VIEW_DRIVER_API"),
         ("XP_VIEW_OVERHEAD", "PTI_VIEW_COLLECTION_OVERHEAD"), ("XP_VIEW_RUNTIME", "PTI_VIEW_RUNTIME_API"),
         ("XP_VIEW_RUNTIME", "PTI_VIEW_SYCL_RUNTIME_CALLS"), ("XP_VIEW_EXTERNAL", "PTI_VIEW_EXTERNAL_CORRELATION"),
         ("XP_VIEW_COPY", "PTI_VIEW_DEVICE_GPU_MEM_COPY"), ("XP_VIEW_FILL", "PTI_VIEW_DEVICE_GPU_MEM_FILL"),
         ("XP_VIEW_COPY_P2P", "PTI_VIEW_DEVICE_GPU_MEM_COPY_P2P"), ("XP_VIEW_SYNC", "PTI_VIEW_DEVICE_SYNCHRONIZATION"),
         ("XP_VIEW_COMMS", "PTI_VIEW_COMMUNICATION"), ("XP_NO_CALLBACKS_SET", "PTI_ERROR_NO_CALLBACKS_SET"),
         ("XP_EXTERNAL_CUSTOM_0", "PTI_VIEW_EXTERNAL_KIND_CUSTOM_0"), ("XP_GROUP_SYCL", "PTI_API_GROUP_SYCL"),
         ("XP_CLASS_GPU_CORE", "PTI_API_CLASS_GPU_OPERATION_CORE"), ("XP_TRACING_NOT_INITIALIZED", "PTI_ERROR_TRACING_NOT_INITIALIZED")]
ZE = [("type", "type"), ("subdevice", "subdeviceId"), ("clock_mhz", "coreClockRate"), ("max_allocation", "maxMemAllocSize"),
      ("units_per_subslice", "numEUsPerSubslice"), ("subslices_per_slice", "numSubslicesPerSlice"),
      ("slices", "numSlices"), ("uuid", "uuid"), ("name", "name")]


def source(headers, has_ze):
    lines = ['#include "pti.h"', '#include "standin.h"', "#undef XP_VERSION", "#include <pti/pti_view.h>",
             "#define SAME(a, x, b, y) _Static_assert(offsetof(a, x) == offsetof(b, y), #a \".\" #x)"]
    for ours, fake, theirs, members in RECORDS:
        if not re.search(r"}\s*%s\s*;" % theirs, headers):
            if theirs in ESSENTIAL:
                lines.append(f"#error {theirs} is missing")
            continue
        lines.append(f"_Static_assert(sizeof({ours}) == sizeof({theirs}), \"{ours}\");")
        for a, b, c in members:
            lines += [f"SAME({ours}, {a}, {theirs}, {c});", f"SAME({fake}, {b}, {theirs}, {c});"]
    for ours, theirs in (("si_kernel_v2", "kernel"), ("si_copy_v2", "memory_copy"), ("si_p2p_v2", "memory_copy_p2p"),
                         ("si_fill_v2", "memory_fill")):
        if f"pti_view_record_{theirs}_v2;" in headers:
            lines.append(f"_Static_assert(sizeof({ours}) == sizeof(pti_view_record_{theirs}_v2), \"{ours}\");")
    lines += [f"_Static_assert((int){a} == (int){b}, \"{b}\");" for a, b in KINDS if re.search(r"\b%s\b" % b, headers)]
    if has_ze:
        lines += ["#include <level_zero/ze_api.h>"]
        lines += [f"SAME(xp_ze_device_properties, {a}, ze_device_properties_t, {b});" for a, b in ZE]
        lines += ["_Static_assert(sizeof(xp_ze_device_properties) == sizeof(ze_device_properties_t), \"ze\");"]
    return "\n".join(lines) + "\nint main(void) { return 0; }\n"


def read(*path):
    try:
        with open(os.path.join(*path), encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def check_directory(compiler, plugin, standin, directory):
    headers = read(directory, "pti", "pti_view.h") + read(directory, "pti", "pti.h")
    has_ze = bool(read(directory, "level_zero", "ze_api.h"))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "layouts.c")
        with open(path, "w", encoding="utf-8") as file:
            file.write(source(headers, has_ze))
        result = subprocess.run([compiler, "-std=gnu11", "-fsyntax-only", "-I", plugin, "-I", standin, "-isystem", directory,
                                 "-isystem", os.path.join(directory, "stub"), path],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    print(f"{directory}: {source(headers, has_ze).count('SAME(') - 1} offsets, "
          f"{'same' if result.returncode == 0 else 'DIFFERENT'}")
    print("\n".join(l for l in result.stdout.decode().splitlines() if "error" in l)[:4000])
    return result.returncode == 0


def main():
    directories = [d for d in sys.argv[4:] if d]
    if not directories:
        print("no directory with PTI's headers: set CKINETO_PTI_INCLUDE")
        return 77
    return 0 if all([check_directory(*sys.argv[1:4], d) for d in directories]) else 1


sys.exit(main())

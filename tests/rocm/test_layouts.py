"""What plugins/rocm/sdk.h says of the records of rocprofiler-sdk, against the vendor's headers:

    test_layouts.py COMPILER PLUGIN-DIRECTORY [INCLUDE-DIRECTORY ...]

An include directory is the parent of rocprofiler-sdk/. The headers need those of HSA and HIP; where these
are missing, "stub" folders next to them can stand for them (-I INCLUDE/stub)."""
import os
import re
import subprocess
import sys
import tempfile

# (our struct, our member, the vendor's struct, the vendor's member); tails begin after the ids.
HEAD = [("rp_header", m, "rocprofiler_record_header_t", m) for m in ("category", "kind", "payload")]
KERNEL = "rocprofiler_buffer_tracing_kernel_dispatch_record_t"
COPY = "rocprofiler_buffer_tracing_memory_copy_record_t"
FIELDS = HEAD + [
    ("rp_record", "size", KERNEL, "size"), ("rp_record", "kind", KERNEL, "kind"),
    ("rp_record", "operation", KERNEL, "operation"),
    ("rp_record", "internal", KERNEL, "correlation_id.internal"),
    ("rp_record", "external", KERNEL, "correlation_id.external"),
    ("rp_kernel_record", "thread", KERNEL, "thread_id"),
    ("rp_kernel_record", "start", KERNEL, "start_timestamp"),
    ("rp_kernel_record", "end", KERNEL, "end_timestamp"),
    ("rp_kernel_record", "agent_id", KERNEL, "dispatch_info.agent_id"),
    ("rp_kernel_record", "queue", KERNEL, "dispatch_info.queue_id"),
    ("rp_kernel_record", "kernel", KERNEL, "dispatch_info.kernel_id"),
    ("rp_kernel_record", "dispatch", KERNEL, "dispatch_info.dispatch_id"),
    ("rp_kernel_record", "private_bytes", KERNEL, "dispatch_info.private_segment_size"),
    ("rp_kernel_record", "group_bytes", KERNEL, "dispatch_info.group_segment_size"),
    ("rp_kernel_record", "block", KERNEL, "dispatch_info.workgroup_size"),
    ("rp_kernel_record", "grid", KERNEL, "dispatch_info.grid_size"),
    ("rp_copy_record", "start", COPY, "start_timestamp"), ("rp_copy_record", "end", COPY, "end_timestamp"),
    ("rp_copy_record", "to_agent", COPY, "dst_agent_id"),
    ("rp_copy_record", "from_agent", COPY, "src_agent_id"), ("rp_copy_record", "bytes", COPY, "bytes"),
]
TAILS = [("rp_call_tail", "rocprofiler_buffer_tracing_%s_api_record_t" % api,
          [("start", "start_timestamp"), ("end", "end_timestamp"), ("thread", "thread_id")])
         for api in ("hip", "hsa", "rccl")] + [
    ("rp_scratch_tail", "rocprofiler_buffer_tracing_scratch_memory_record_t",
     [("agent_id", "agent_id"), ("queue", "queue_id"), ("thread", "thread_id"), ("start", "start_timestamp"),
      ("end", "end_timestamp"), ("flags", "flags")]),
    ("rp_memory_tail", "rocprofiler_buffer_tracing_memory_allocation_record_t",
     [("thread", "thread_id"), ("start", "start_timestamp"), ("end", "end_timestamp"), ("agent_id", "agent_id"),
      ("address", "address"), ("bytes", "allocation_size")])]
DEVICE = [("type", "type"), ("memory_bank_count", "mem_banks_count"), ("waves_per_simd", "max_waves_per_simd"),
         ("local_kib", "lds_size_in_kb"), ("wave_size", "wave_front_size"), ("unit_count", "cu_count"),
         ("simd_per_unit", "simd_per_cu"), ("gfx_version", "gfx_target_version"),
         ("pci_place", "location_id"), ("pci_domain", "domain"), ("waves_per_unit", "max_waves_per_cu"),
         ("block_items", "workgroup_max_size"), ("memory_banks", "mem_banks"), ("name", "name"),
         ("product_name", "product_name"), ("node", "node_id")]
SYMBOL = [("kernel", "kernel_id"), ("name", "kernel_name"), ("group_bytes", "group_segment_size"),
          ("scalar_registers", "sgpr_count"), ("vector_registers", "arch_vgpr_count"),
          ("accumulation_registers", "accum_vgpr_count")]


def source(has_memory):
    lines = ['#include "sdk.h"', "#include <rocprofiler-sdk/rocprofiler.h>", "#include <rocprofiler-sdk/registration.h>",
             "#define SAME(a, x, b, y) _Static_assert(offsetof(a, x) == offsetof(b, y), #a \".\" #x)"]
    same = list(FIELDS)
    same += [("rp_agent", o, "rocprofiler_agent_v0_t", t) for o, t in DEVICE]
    same += [("rp_kernel_symbol", o,
              "rocprofiler_callback_tracing_code_object_kernel_symbol_register_data_t", t) for o, t in SYMBOL]
    same += [("rp_marker_call", "argument", "rocprofiler_callback_tracing_marker_api_data_t", "args"),
             ("rp_marker_call", "result", "rocprofiler_callback_tracing_marker_api_data_t", "retval"),
             ("rp_configuration", "initialize", "rocprofiler_tool_configure_result_t", "initialize"),
             ("rp_configuration", "finalize", "rocprofiler_tool_configure_result_t", "finalize"),
             ("rp_client", "name", "rocprofiler_client_id_t", "name"),
             ("rp_memory_bank", "bytes", "rocprofiler_agent_mem_bank_t", "size_in_bytes")]
    lines += ["SAME(%s, %s, %s, %s);" % row for row in same]
    for ours, theirs, members in TAILS:
        if ours == "rp_memory_tail" and not has_memory:
            continue
        lines += [f"_Static_assert(offsetof({ours}, {o}) + RP_IDS_AT + "
                  f"sizeof((({theirs} *)0)->correlation_id) == offsetof({theirs}, {t}), \"{ours}.{o}\");"
                  for o, t in members]
    lines += ["_Static_assert(sizeof(rocprofiler_correlation_id_t) == RP_SHORT_IDS || "
              "sizeof(rocprofiler_correlation_id_t) == RP_LONG_IDS, \"ids\");",
              f"_Static_assert(sizeof({KERNEL}) >= sizeof(rp_kernel_record), \"kernel\");",
              "_Static_assert(sizeof(rocprofiler_callback_tracing_record_t) == 40 + "
              "sizeof(rocprofiler_correlation_id_t), \"callback\");",
              "_Static_assert(ROCPROFILER_STATUS_ERROR_CONFIGURATION_LOCKED == RP_ERROR_CONFIGURATION_LOCKED, \"\");",
              "_Static_assert(ROCPROFILER_STATUS_ERROR_CONTEXT_CONFLICT == RP_ERROR_CONTEXT_CONFLICT, \"\");",
              "_Static_assert(ROCPROFILER_BUFFER_POLICY_LOSSLESS == RP_POLICY_LOSSLESS, \"\");",
              "_Static_assert(ROCPROFILER_MEMORY_COPY_HOST_TO_DEVICE == RP_COPY_HTOD, \"\");",
              "_Static_assert(ROCPROFILER_CODE_OBJECT_DEVICE_KERNEL_SYMBOL_REGISTER == RP_CODE_KERNEL_SYMBOL, \"\");",
              "_Static_assert(ROCPROFILER_AGENT_TYPE_GPU == RP_AGENT_GPU, \"\");"]
    return "\n".join(lines) + "\nint main(void) { return 0; }\n"


def check_directory(compiler, plugin, directory):
    with open(os.path.join(directory, "rocprofiler-sdk", "buffer_tracing.h"), encoding="utf-8") as file:
        has_memory = "memory_allocation_record_t" in file.read()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "layouts.c")
        with open(path, "w", encoding="utf-8") as file:
            file.write(source(has_memory))
        stub = os.path.join(directory, "stub")
        result = subprocess.run([compiler, "-std=gnu11", "-fsyntax-only", "-I", plugin, "-isystem", directory,
                                 *(["-isystem", stub] if os.path.isdir(stub) else []), path],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    print(f"{directory}: {source(has_memory).count('SAME(') - 1} offsets, "
          f"{'same' if result.returncode == 0 else 'DIFFERENT'}")
    print("\n".join(l for l in result.stdout.decode().splitlines() if re.search("error", l))[:4000])
    return result.returncode == 0


def main():
    compiler, plugin, directories = sys.argv[1], sys.argv[2], [d for d in sys.argv[3:] if d]
    if not directories:
        print("no directory with rocprofiler-sdk's headers: set CKINETO_ROCPROFILER_INCLUDE")
        return 77
    return 0 if all([check_directory(compiler, plugin, d) for d in directories]) else 1


sys.exit(main())

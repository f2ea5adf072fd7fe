"""What the arguments mean, in the order of the page; one that is not named here makes the test of the page fail."""

KINDS = {
    "kernel": "kernels; command buffers of OpenCL", "gpu_memcpy": "copies, maps, migrations", "gpu_memset": "fills",
    "cuda_sync": "waits for streams, events, devices; semaphores", "xpu_sync": "waits of the host for the device",
    "cuda_event": "recorded events", "gpu_memory": "allocations and releases of device memory",
    "nccl": "collectives, channels, proxies", "cuda_runtime": "calls of the runtime", "cuda_driver": "calls of the driver",
    "xpu_runtime": "calls of SYCL's runtime", "xpu_driver": "calls of Level Zero", "runtime": "calls of the program",
    "driver": "calls of the driver", "overhead": "what recording, compiling or scratch memory cost",
}

KERNELS = {
    "queued": "us; when the launch was queued, 0: not measured (Kineto's key)",
    "queued_rel_to_start": "us from the start of the work to its enqueueing (negative)",
    "submitted_rel_to_start": "us from the start of the work to its submission to the device (negative)",
    "appended_rel_to_start": "us from the start of the work to the call that appended it (negative)",
    "device": "number of the device",
    "context": "number of the context",
    "stream": "number of the stream or queue, within the device or context",
    "correlation": "joins work with the call that launched it; all work of one launch of a graph has the same",
    "green context SMs": "multiprocessors of the green context, if the kernel runs in one",
    "registers per thread": "of AMD: vector registers",
    "scalar registers": "of a wave",
    "shared memory": "bytes of a block, static and dynamic",
    "private memory per thread": "bytes of scratch memory",
    "blocks per SM": "blocks of the launch for each multiprocessor",
    "warps per SM": "warps of the launch for each multiprocessor",
    "grid": "blocks (work groups) in x, y, z",
    "block": "threads (work items) of a block in x, y, z",
    "cluster": "blocks of a cluster in x, y, z, if there are clusters",
    "global size": "work items in x, y, z where the driver chose the size of the groups, so that there is no grid",
    "global offset": "first work item in x, y, z, if it is not 0",
    "est. achieved occupancy %": "threads that are resident on average, of those that fit",
    "occupancy": "what limits the blocks that are resident",
    "graph id": "of the graph that launched the work, 0: none",
    "graph node id": "of the node of the graph, 0: none",
    "priority": "of the stream (CUDA 13.1 and later)",
    "channel": "of the hardware that work came through",
    "channel_type": "of the hardware that work came through",
    "sycl queue": "number of the queue (Kineto's key)", "l0 queue": "handle", "kernel_id": "of the launch",
    "sycl_node_id": "of the node of SYCL's graph of tasks", "sycl_invocation_id": "of the invocation of that node",
    "sycl_task_begin_rel_to_start": "us from the start of the work to the begin of the task (negative)",
    "sycl_enqk_begin_rel_to_start": "us from the start of the work to the begin of the enqueueing (negative)",
    "source_file_name": "of the kernel's submission", "source_line_number": "of the kernel's submission",
    "kernels": "kernels in one activity, if they have no times of their own",
    "timing": "`host`: times of the host, from the submission to its seen end",
}

COPIES = {
    "kind": "direction, HtoD", "l0 call": "function of Level Zero", "memory opration id": "of the copy (Kineto's spelling)",
    "bytes": "size; absent where the interface does not tell it",
    "memory bandwidth (GB/s)": "bytes / ns",
    "fromDevice": "of a copy between devices", "inDevice": "that copies", "toDevice": "of a copy between devices",
    "fromContext": "of a copy between devices", "inContext": "that copies", "toContext": "of a copy between devices",
}

WAITS = {
    "cuda_sync_kind": "Event Sync, Stream Wait Event, Stream Sync, Context Sync",
    "wait_on_stream": "of the recording that is waited for, -1: unknown",
    "wait_on_cuda_event_record_corr_id": "of the recording, or of the submission that signals",
    "wait_on_cuda_event_id": "the event", "event_id": "the event",
    "Type": "what is waited for", "Context_handle": "", "Queue_handle": "", "Event_handle": "", "Number_wait_events": "",
    "Return_code": "", "host function": "name of the function that the stream waits for",
}

MEMORY = {
    "Addr": "address", "Bytes": "size, negative: released", "allocated since start": "sum of the device, in bytes",
    "pool": "address of the pool", "kind": "of CUDA the kind of memory",
}

CALLS = {
    "cbid": "number of the function (CUPTI)", "cid": "number of the function (rocprofiler-sdk)",
    "count": "elements", "stream handle": "address of the stream that the call names", "captured": "the call is part of a graph",
}

PROPERTIES = {
    "name": "", "type": "GPU, CPU, other", "vendor": "", "vendorID": "on the PCI bus", "platform": "", "uuid": "",
    "gcnArchName": "gfx942", "driverVersion": "", "deviceVersion": "", "totalGlobalMem": "bytes",
    "computeMajor": "compute capability, or architecture", "computeMinor": "compute capability, or architecture",
    "numSms": "multiprocessors, of AMD compute units", "maxComputeUnits": "compute units, whose size differs between vendors",
    "maxThreadsPerBlock": "", "maxWorkGroupSize": "work items of a group", "maxThreadsPerMultiprocessor": "",
    "warpSize": "threads of a warp or wave", "regsPerBlock": "", "regsPerMultiprocessor": "",
    "sharedMemPerBlock": "bytes", "sharedMemPerBlockOptin": "bytes", "sharedMemPerMultiprocessor": "bytes",
    "localMemSize": "bytes of shared memory of a group", "maxMemAllocSize": "bytes", "maxClockFrequency": "MHz",
}

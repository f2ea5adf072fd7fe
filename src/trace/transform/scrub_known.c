/* Words and forms that are public: names that PyTorch, Kineto, drivers and hardware vendors use,
 * and that do not identify a user. Every text that is in none of these lists counts as private, so
 * a missing word costs readability, never privacy. Lists are strings of words separated by '|'. */
#include "trace/transform/scrub.h"

#include "trace/model/steps.h"

#include <ckineto/files.h>

/* True if a word of the list equals the text, or, if not `whole`, if the text starts with it. */
static bool list_has(kineto_string s, const char *list, bool whole)
{
    for (const char *at = list;; at++) {
        size_t size = strcspn(at, "|");
        if ((whole ? size == s.size : size <= s.size) && memcmp(at, s.data, size) == 0)
            return true;
        at += size;
        if (!*at)
            return false;
    }
}

static bool list_contains(kineto_string s, const char *list) { return list_has(s, list, true); }
static bool starts_with_listed(kineto_string s, const char *list)
{
    return list_has(s, list, false);
}

/* True if the text consists of ASCII letters, digits and the characters in `also`, and is not
 * empty. */
static bool has_only_chars(kineto_string s, const char *also)
{
    for (size_t i = 0; i < s.size; i++) {
        char c = s.data[i];
        if (!c || (!kb_is_letter_or_digit(c) && !strchr(also, c)))
            return false;
    }
    return s.size > 0;
}

static bool is_digits_only(kineto_string s)
{
    for (size_t i = 0; i < s.size; i++)
        if (!kb_is_digit(s.data[i]))
            return false;
    return s.size > 0 && s.size <= 20;
}

/* ---- names ----------------------------------------------------------------------------------- */

bool kt_is_step_name(kineto_string name)
{
    uint64_t number;
    return kt_step_number(name, &number);
}

/* "nccl:all_reduce": a public backend with a public operation. */
static bool is_collective_name(kineto_string name)
{
    static const char backends[] = "nccl:|gloo:|ucc:|mpi:|hccl:|xccl:|rccl:";
    static const char operations[] =
        "all_reduce|allreduce|broadcast|reduce|all_gather|allgather|_all_gather_base|"
        "_allgather_base|all_gather_base|reduce_scatter|_reduce_scatter_base|all_to_all|"
        "alltoall|alltoall_base|all_to_allv|gather|scatter|barrier|send|recv|coalesced|"
        "all_reduce_barrier|allreduce_coalesced|allgather_into_tensor_coalesced|"
        "reduce_scatter_tensor_coalesced|all_gather_into_tensor|reduce_scatter_tensor|"
        "recv_any_source";
    if (!starts_with_listed(name, backends))
        return false;
    const char *colon = memchr(name.data, ':', name.size);
    return list_contains(kb_string_skip(name, (size_t)(colon - name.data) + 1), operations);
}

/* "AddmmBackward0": names that PyTorch's code generator makes end in a number; names of users'
 * functions do not. */
static bool is_autograd_name(kineto_string name)
{
    static const char word[] = "Backward";
    size_t end = name.size;
    while (end && kb_is_digit(name.data[end - 1]))
        end--;
    size_t size = sizeof word - 1;
    return end < name.size && end > size && memcmp(name.data + end - size, word, size) == 0 &&
           kb_is_upper(name.data[0]) && has_only_chars(name, "");
}

/* True if only digits, dots and slashes stand between `start` and `end`. */
static bool is_numbered_name(kineto_string s, const char *start, const char *end)
{
    size_t head = strlen(start), tail = strlen(end);
    if (!kb_string_starts_with(s, start) || s.size <= head + tail ||
        memcmp(s.data + s.size - tail, end, tail) != 0)
        return false;
    for (size_t i = head; i < s.size - tail; i++)
        if (!strchr("0123456789./", s.data[i]) || !s.data[i])
            return false;
    return true;
}

/* Operators of public libraries; "aten::mm", not those of a program's own namespace. */
static bool is_public_operator(kineto_string name)
{
    static const char libraries[] =
        "aten::|prim::|prims::|c10d::|_c10d_functional::|quantized::|torchvision::|"
        "c10d_functional::|xformers::";
    if (!starts_with_listed(name, libraries))
        return false;
    size_t head = (size_t)((char *)memchr(name.data, ':', name.size) - name.data) + 2;
    return has_only_chars(kb_string_skip(name, head), "_.");
}

/* Functions of runtimes and drivers: "cudaLaunchKernel"; and markers of the profilers
 * themselves. */
static bool is_runtime_call(kineto_string name)
{
    static const char *const prefixes[] = {"cuda", "cu", "hip", "hsa", "cl",
                                           "ze",   "ur", "roc", "nvtx"};
    static const char others[] =
        "runFunction|recordEvent|synchronizeStream|synchronize|INVALID|Unrecognized|"
        "Lazy Function Loading|Runtime Triggered Module Loading|Activity Buffer Request|"
        "Buffer Flush|Command Buffer Full|Instrumentation|Resource|"
        "CUPTI Runtime Initialization";
    for (size_t i = 0; i < KB_COUNT(prefixes); i++) {
        size_t size = strlen(prefixes[i]);
        if (kb_string_starts_with(name, prefixes[i]) && name.size > size && name.size < 80 &&
            has_only_chars(name, "_") && kb_is_upper(name.data[size]))
            return true;
    }
    return list_contains(name, others);
}

/* What a thread does, as recorders of threads name it. */
static bool is_thread_state(kineto_string name)
{
    return list_contains(name, "running|waiting for a CPU|blocked");
}

/* Functions of the C library that block. */
static bool is_blocking_call(kineto_string name)
{
    static const char calls[] =
        "accept|accept4|clock_nanosleep|close|connect|creat|epoll_pwait|epoll_wait|fclose|fdatasync|"
        "fflush|fgets|flock|fopen|fopen64|fread|fsync|futex|fwrite|getaddrinfo|lockf|msync|nanosleep|"
        "open|open64|openat|openat64|poll|ppoll|pread|pread64|preadv|pselect|pthread_barrier_wait|"
        "pthread_cond_clockwait|pthread_cond_timedwait|pthread_cond_wait|pthread_join|"
        "pthread_mutex_clocklock|pthread_mutex_lock|pthread_mutex_timedlock|pthread_rwlock_rdlock|"
        "pthread_rwlock_timedrdlock|pthread_rwlock_timedwrlock|pthread_rwlock_wrlock|"
        "pthread_spin_lock|pthread_timedjoin_np|pwrite|pwrite64|pwritev|read|readv|recv|recvfrom|"
        "recvmsg|select|sem_clockwait|sem_timedwait|sem_wait|send|sendmsg|sendto|sigtimedwait|"
        "sigwait|sigwaitinfo|sleep|sync|sync_file_range|syncfs|usleep|wait|wait4|waitid|waitpid|"
        "write|writev";
    return list_contains(name, calls);
}

/* Names of launches and device work are public only if they look like functions of a runtime;
 * kernels are checked word by word in scrub_text.c. */
bool kt_known_name(uint32_t kind, kineto_string name)
{
    static const char exact[] =
        "[memory]|Iteration Start: PyTorch Profiler|Record Window End|## forward ##|"
        "## backward ##|## optimizer ##|## zero_grad ##|DataParallel.forward|"
        "DistributedDataParallel.forward|"
        "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__|"
        "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__|record_param_comms|"
        "torch::autograd::AccumulateGrad|torch::autograd::GraphRoot|"
        "torch::autograd::CopySlices|torch::autograd::CopyBackwards|detach|detach_|"
        "TorchDynamo Cache Lookup|CompiledFunction|CompiledFunctionBackward|GraphRoot|"
        "AccumulateGrad|Stream Wait Event|Stream Sync|Event Sync|Context Sync|event_wait|"
        "event_record|pe_exe|dma_request|Memset (Device)|launch|GPU Utilization|"
        "Est. SM Efficiency|Queue Length|Memcpy BW|cudaEventRecord";
    bool is_op = kind == KINETO_KIND_CPU_OP;
    bool is_ours =
        kt_kind_is_launch(kind) || kt_kind_is_device(kind) || kind == KINETO_KIND_OVERHEAD;
    return kt_is_step_name(name) || list_contains(name, exact) || is_collective_name(name) ||
           (is_op && (is_public_operator(name) || is_autograd_name(name))) ||
           (is_ours && is_runtime_call(name)) ||
           (kind == KINETO_KIND_THREAD_STATE && is_thread_state(name)) ||
           (kind == KINETO_KIND_BLOCKING_CALL && is_blocking_call(name)) ||
           is_numbered_name(name, "PyTorch Profiler (", ")") ||
           is_numbered_name(name, "Torch-Compiled Region: ", "");
}

/* Removes the rank that merging appends to names of rows: "CPU, rank 3", "Spans rank 3". */
static kineto_string strip_rank_suffix(kineto_string name)
{
    static const char word[] = "rank ";
    size_t at = name.size, word_size = sizeof word - 1;
    while (at > 0 && kb_is_digit(name.data[at - 1]))
        at--;
    if (at == name.size || at < word_size ||
        memcmp(name.data + at - word_size, word, word_size) != 0)
        return name;
    at -= word_size;
    at -= at > 0 && name.data[at - 1] == ' ';
    at -= at > 0 && name.data[at - 1] == ',';
    return (kineto_string){name.data, at};
}

/* Names of processes, threads and streams that Python, PyTorch and viewers give. */
bool kt_known_place(kineto_string name)
{
    static const char exact[] =
        "python|python2|python3|pt_main_thread|Spans|Traces|Trace|CPU|GPU|PACKET|pt_data_pin|"
        "pt_data_worker|pt_nccl_watchdg|pt_nccl_heartbt|pt_elastic|cuda-EvtHandlr|counters|"
        "main";
    kineto_string whole = name;
    name = strip_rank_suffix(name);
    return (whole.size && !name.size) || list_contains(name, exact) ||
           is_numbered_name(name, "python", "") || is_numbered_name(name, "GPU ", "") ||
           is_numbered_name(name, "GPU ", " Counters") || is_numbered_name(name, "CPU ", "") ||
           is_numbered_name(name, "MTIA ", "") || is_numbered_name(name, "XPU ", "") ||
           is_numbered_name(name, "PyTorch Profiler (", ")") ||
           is_numbered_name(name, "thread ", "") || is_numbered_name(name, "stream ", "") ||
           is_numbered_name(name, "Stream ", "") || is_numbered_name(name, "pt_autograd_", "") ||
           is_digits_only(name);
}

/* Kinds of activities have public names; other categories are those of PyTorch and Kineto. */
bool kt_known_category(kineto_string category)
{
    static const char exact[] =
        "Trace|ac2g|fwdbwd|async|async_cpu_to_gpu|python|Kernel|Memcpy|Memset|Runtime|"
        "Operator|user_annotation|flow|memory|";
    return kb_kind_parse(category) >= 0 || list_contains(category, exact);
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* Keys of args, of the header and of device properties that Kineto's format defines. */
static bool is_format_key(kineto_string key)
{
    static const char args[] =
        "Profiler Event Index|Input names|Output names|Output type|Extra arguments|CallFrom|"
        "External id|external id|correlation|Record function id|Sequence number|"
        "Fwd thread id|Ev Idx|Trace name|Trace iteration|Device|Device Type|Device Id|Bytes|"
        "Addr|Total Allocated|Total Reserved|Op count|device|context|stream|queued|"
        "registers per thread|shared memory|blocks per SM|warps per SM|grid|block|"
        "est. achieved occupancy %|occupancy|bytes|memory bandwidth (GB/s)|cbid|cid|"
        "external ts|kind|src|dst|size|Input type|Concrete Inputs|Module Hierarchy|Python id|"
        "Python parent id|Python module id|Python thread|kernel_file|"
        "kernel_backend|num_warps|num_stages|num_ctas|cuda_sync_kind|event_id|wait_on_stream|"
        "wait_on_cuda_event_record_corr_id|wait_on_cuda_event_id|fromDevice|inDevice|"
        "toDevice|fromContext|inContext|toContext|graph id|graph node id|priority|channel|"
        "global size|global offset|queued_rel_to_start|submitted_rel_to_start|stream handle|"
        "channel_type|finished|started|arguments lost|Collective name|Group size|dtype|"
        "Process Group Name|Process Group Description|Process Group Ranks|Global rank start|"
        "Global rank stride|Src Rank|Dst Rank|Seq|Is asynchronized op|seq_num|sqid|host_ctx|"
        "column|row|packet_ptr|direction|k_work_ptr|stream_id|cmd_name|mem size|flops|name|"
        "Message in|Message out|Messages in|Messages out|Tag|Root Rank|Op|"
        "cpu|cpu_ns|samples|in|module|inlined|file|fd|error|address|"
        "labels|sort_index|Bytes Delta|Ts|Rank|value|Value|user_annotation|Kernel";
    static const char header[] =
        "schemaVersion|deviceProperties|displayTimeUnit|baseTimeNanoseconds|traceName|"
        "distributedInfo|record_shapes|with_stack|profile_memory|with_modules|with_flops|"
        "cuda_driver_version|cuda_runtime_version|cupti_version|hip_runtime_version|"
        "hip_driver_version|roctracer_version|"
        "Framework|backend|rank|world_size|pg_count|pg_config|pg_name|pg_desc|"
        "backend_config|pg_size|ranks|nccl_version|"
        "chrome_trace_version|"
        "torch_version|local_rank|program|version|host_name|"
        "mergedTraces|host|activities|flows|first_id|window|header|snapshots|ticks|width_ticks|"
        "monotonic_ns|monotonic_raw_ns|realtime_ns|boottime_ns|clock|offset_ns|drift|middle_ns|error_ns";
    static const char device[] =
        "id|name|totalGlobalMem|computeMajor|computeMinor|maxThreadsPerBlock|"
        "maxThreadsPerMultiprocessor|maxThreadsPerMultiProcessor|regsPerBlock|"
        "regsPerMultiprocessor|warpSize|sharedMemPerBlock|sharedMemPerMultiprocessor|numSms|"
        "sharedMemPerBlockOptin|maxSharedMemoryPerMultiProcessor|runtimeMajorVersion|"
        "runtimeMinorVersion|maxGridHeight|maxGridWidth|vendor|type|units|clock_mhz|"
        "memory_bytes";
    return list_contains(key, args) || list_contains(key, header) || list_contains(key, device);
}

/* The order matters: a key can be part of the format and still hold private values. */
kt_key_class kt_known_key(kineto_string key)
{
    static const char stacks[] = "Call stack|Call Stack|stack|Stack|callstack";
    static const char shapes[] = "Input Dims|Input dims|Input Strides|Output Dims|Output "
                                 "dims|Input Shapes|Input shapes|shapes|"
                                 "In msg nelems|Out msg nelems|In split size|Out split size";
    static const char hosts[] = "host_name|hostname|host|Host|HOSTNAME|node|nodename";
    static const char texts[] =
        "trace_id|group_trace_id|username|PT_PROFILER_JOB_NAME|PT_PROFILER_JOB_VERSION|"
        "PT_PROFILER_JOB_ATTEMPT_INDEX|kernel_hash|File name|INFO|WARNING|ERROR|STAGE|command|program";
    if (list_contains(key, stacks))
        return KT_KEY_STACK;
    if (list_contains(key, texts))
        return KT_KEY_PRIVATE;
    if (list_contains(key, shapes))
        return KT_KEY_SHAPE;
    if (list_contains(key, hosts))
        return KT_KEY_HOST;
    if (kb_string_equal(key, kb_string("kernel")))
        return KT_KEY_KERNEL;
    if (list_contains(key, "pid|holder|woken by"))
        return KT_KEY_PLACE;
    return is_format_key(key) ? KT_KEY_PLAIN : KT_KEY_UNKNOWN;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Four numbers up to 255, separated by dots. */
bool kt_is_ipv4(kineto_string text)
{
    unsigned parts = 0, value = 0, count = 0;
    for (size_t i = 0; i <= text.size; i++) {
        char c = i < text.size ? text.data[i] : '.';
        if (kb_is_digit(c) && count < 3) {
            value = value * 10 + (unsigned)(c - '0');
            count++;
        } else if (c == '.' && count && value < 256) {
            parts++;
            value = count = 0;
        } else {
            return false;
        }
    }
    return parts == 4;
}

/* Numbers, versions, and lists of them as text; addresses are not public. */
static bool is_number_list(kineto_string s)
{
    for (size_t i = 0; i < s.size; i++)
        if (!s.data[i] || !strchr("0123456789.,:+-[]() e\"'", s.data[i]))
            return false;
    return s.size > 0 && !kt_is_ipv4(s);
}

static bool is_dtype_name(kineto_string s)
{
    static const char exact[] =
        "float|double|int|long|short|char|bool|half|Float|Double|Int|Long|Short|Char|Byte|"
        "Bool|Half|BFloat16|Float8_e4m3fn|Float8_e5m2|unsigned char|signed char|long int|"
        "short int|c10::Half|c10::BFloat16|c10::complex<float>|c10::complex<double>|"
        "c10::Float8_e4m3fn|c10::Float8_e5m2|Scalar|ScalarList|TensorList|Tensor|GenericList|"
        "Device|None|str|float16|bfloat16|float32|float64|int8|int16|int32|int64|uint8";
    return list_contains(s, exact);
}

/* "NVIDIA A100-SXM4-80GB": models of hardware vendors. */
static bool is_device_name(kineto_string s)
{
    static const char makers[] =
        "NVIDIA |Tesla |AMD |GeForce |Quadro |TITAN |Intel(R) |Radeon |Instinct |ARTEMIS|"
        "Apple ";
    return s.size < 64 && starts_with_listed(s, makers) && has_only_chars(s, " -()./");
}

/* Under an unknown key even numbers are replaced: they may be identifiers. */
bool kt_known_value(kineto_string value, bool known_key)
{
    static const char exact[] =
        "|True|False|true|false|nan|inf|-inf|None|nccl|gloo|mpi|ucc|rccl|hccl|xccl|cuda:nccl|"
        "cpu:gloo|cpu:gloo,cuda:nccl|cpu:gloo,cuda:gloo|default_pg|allreduce|all_reduce|"
        "broadcast|reduce|allgather|all_gather|_allgather_base|_reduce_scatter_base|"
        "reduce_scatter|all_to_all|alltoall|all_to_allv|all_gather_into_tensor|"
        "reduce_scatter_tensor|gather|scatter|barrier|send|recv|wait|init|triton|cpu|cuda|"
        "CPU|CUDA|GPU|HIP|hip|xpu|mtia|ms|ns|us|CopyDeviceToHost|CopyHostToDevice|"
        "HostToDevice|DeviceToHost|DeviceToDevice|Dispatch Kernel|KernelExecution|pytorch|"
        "pytorch-lightning|torch|PyTorch Profiler";
    return list_contains(value, exact) || is_dtype_name(value) ||
           (known_key && (is_device_name(value) || is_number_list(value)));
}

/* Reasons of the ledger lines of this library. */
bool kt_known_reason(kineto_string reason)
{
    static const char own[] =
#define X(name, text, is_loss) text "|"
#include "format/loss_reasons.def"
#undef X
        "recorded|dropped|outside the window|outside the window, cut|still under way at the end|"
        "requested, and neither delivered nor known to be lost|invalid UTF-8 replaced|"
        "end before start: duration set to 0|unknown kind: shown as user_annotation|"
        "arguments over 16 MiB dropped|activities left out by selection|"
        "flows left out by selection|texts replaced by pseudonyms|"
        "traces merged|processes with a number that another one has|"
        "categories with another kind in another trace|"
#define KINETO_X(name, value, id, severity, text) text "|"
        KINETO_FILES_FINDING_MAP(KINETO_X)
#undef KINETO_X
            "";
    return list_contains(reason, own);
}

bool kt_known_source(kineto_string source)
{
    static const char own[] =
        "reader|clock|trace|text|selection|scrub|collector|recorder|host|opencl|sim|"
        "cuda|nvtx|repair|merge";
    return list_contains(source, own);
}

/* ---- code ------------------------------------------------------------------------------------ */

/* Words of C++ and of the libraries whose kernels are public. */
bool kt_known_word(kineto_string word)
{
    static const char language[] =
        "void|float|double|int|long|unsigned|signed|char|bool|short|const|volatile|true|"
        "false|operator|lambda|anonymous|namespace|size_t|struct|class|auto|half|__half|"
        "__half2|__nv_bfloat16|__nv_bfloat162|float2|float4|double2|int2|int4|uint|uint2|"
        "uint4|uint8_t|uint16_t|uint32_t|uint64_t|int8_t|int16_t|int32_t|int64_t|UL|L|u|ul|"
        "Params|enum|type|unnamed";
    static const char copies[] =
        "Memcpy|Memset|HtoD|DtoH|DtoD|HtoH|PtoP|AtoA|HtoA|AtoH|DtoA|AtoD|Pageable|Pinned|"
        "Device|Array|Unified|Managed|Unknown|Host|Peer|Sync|Async|CopyHostToDevice|"
        "CopyDeviceToHost|CopyDeviceToDevice|FillBuffer|KernelExecution";
    static const char libraries[] =
        "nccl|ncclKernel|rcclKernel|msccl|volta_|turing_|ampere_|hopper_|maxwell_|pascal_|"
        "sm70_|sm75_|sm80_|sm86_|sm89_|sm90_|sm100_|cutlass_|cudnn|cublas|cusparse|cufft|"
        "cask_|Cijk_|xmma_|gemv2|gemmk1|gemmSN|dgrad|wgrad|implicit_convolve|winograd|"
        "flash_fwd_|flash_bwd_|fmha_|miopen|rocblas|hipblas";
    return list_contains(word, language) || list_contains(word, copies) ||
           starts_with_listed(word, libraries);
}

bool kt_known_namespace(kineto_string word, kineto_string rest)
{
    static const char exact[] =
        "at|c10|std|cub|thrust|cutlass|cute|cuda|torch|caffe2|cudnn|cublas|cublasLt|"
        "cask_cudnn|xmma_cudnn|cusparse|cufft|nccl|flash|pytorch_flash|tensorrt|rocprim|"
        "hipcub|ck|miopen|vector_fft|regular_fft|cooperative_groups|fbgemm_gpu|pytorch_fmha|"
        "gemv2N|magma";
    static const char families[] = "cudnn|cublas|cutlass_|cask_|nccl|xmma_|cusparse|cufft|rocblas";
    /* "internal" alone is not sufficient: only cuBLAS has internal::gemvx. */
    return list_contains(word, exact) || starts_with_listed(word, families) ||
           kb_string_starts_with(rest, "internal::gemvx::");
}

bool kt_known_module(kineto_string name)
{
    static const char classes[] =
        "Linear|Bilinear|Identity|Conv1d|Conv2d|Conv3d|ConvTranspose1d|ConvTranspose2d|"
        "ConvTranspose3d|BatchNorm1d|BatchNorm2d|BatchNorm3d|SyncBatchNorm|LayerNorm|"
        "GroupNorm|RMSNorm|InstanceNorm1d|InstanceNorm2d|ReLU|ReLU6|LeakyReLU|PReLU|ELU|GELU|"
        "SiLU|Mish|Sigmoid|Tanh|Softmax|LogSoftmax|Softplus|Hardswish|Hardsigmoid|Dropout|"
        "Dropout1d|Dropout2d|MaxPool1d|MaxPool2d|MaxPool3d|AvgPool1d|AvgPool2d|AvgPool3d|"
        "AdaptiveAvgPool1d|AdaptiveAvgPool2d|AdaptiveMaxPool2d|Embedding|EmbeddingBag|"
        "Sequential|ModuleList|ModuleDict|ParameterList|LSTM|GRU|RNN|LSTMCell|GRUCell|"
        "MultiheadAttention|Transformer|TransformerEncoder|TransformerDecoder|"
        "TransformerEncoderLayer|TransformerDecoderLayer|CrossEntropyLoss|MSELoss|L1Loss|"
        "NLLLoss|BCELoss|BCEWithLogitsLoss|KLDivLoss|SmoothL1Loss|Flatten|Unflatten|Upsample|"
        "PixelShuffle|ZeroPad2d|DataParallel|DistributedDataParallel|"
        "FullyShardedDataParallel|Module";
    return list_contains(name, classes);
}

bool kt_known_optimizer(kineto_string name)
{
    static const char classes[] =
        "SGD|Adam|AdamW|Adamax|Adagrad|Adadelta|RMSprop|Rprop|NAdam|RAdam|ASGD|LBFGS|"
        "SparseAdam|Adafactor";
    return list_contains(name, classes);
}

/* Only at the root of a path, because a program may have a directory of the same name. */
bool kt_known_package(kineto_string component, bool at_root)
{
    static const char packages[] =
        "torch|torchvision|torchaudio|numpy|triton|asyncio|importlib|concurrent|"
        "multiprocessing";
    return at_root && list_contains(component, packages);
}

bool kt_known_file(kineto_string path)
{
    static const char files[] =
        "<string>|<stdin>|<frozen runpy>|<frozen importlib._bootstrap>|"
        "<frozen importlib._bootstrap_external>|threading.py|contextlib.py|functools.py|"
        "runpy.py|queue.py|socket.py|selectors.py|abc.py|typing.py|copy.py|random.py|enum.py|"
        "warnings.py|logging/__init__.py|collections/__init__.py|unittest/case.py";
    return list_contains(path, files);
}

bool kt_known_extension(kineto_string extension)
{
    static const char exact[] =
        "py|pyc|pyx|so|c|cc|cpp|cxx|cu|cuh|h|hpp|json|gz|zst|txt|yaml|yml|pt|pth|bin|log|hip";
    return list_contains(extension, exact);
}

"""Writes a C program that tells the layouts of CUPTI's records and its callback ids, as the real
headers in a directory say: layouts.py INCLUDE-DIRECTORY > tell.c

The program's output has the form of frozen.def, which stands in for it where there are no headers:
    LAYOUT("Kernel9", 208, "kind 0 4 " …)     name and size; each field's name, place and size
    CALLBACK(2, 211, "cudaLaunchKernel_v7000")     domain, id, name
With an argument (any) the program leaves out the callbacks that no test needs: freeze.py makes
frozen.def of that.
"""
import os
import re
import sys

RECORDS = re.compile(r"CUpti_(Activity(API|Kernel|Memcpy|Memset|Memory|Overhead|CudaEvent|Stream|"
                     r"Synchronization|ExternalCorrelation|GraphTrace|Device|Context)(PtoP|Pool)?"
                     r"\d*|CallbackData)")

NEEDED = """
cudaDriverGetVersion cudaRuntimeGetVersion cudaGetDeviceCount cudaSetDevice cudaGetDevice
cudaGetLastError cudaPeekAtLastError cudaMalloc cudaFree cudaMemcpy cudaMemcpyAsync
cudaMemcpyPeerAsync cudaMemset cudaMemsetAsync cudaStreamCreate cudaStreamCreateWithFlags
cudaStreamCreateWithPriority cudaStreamDestroy cudaStreamSynchronize cudaStreamWaitEvent
cudaStreamBeginCapture cudaStreamEndCapture cudaStreamIsCapturing cudaStreamQuery cudaEventCreate
cudaEventCreateWithFlags cudaEventRecord cudaEventRecordWithFlags cudaEventSynchronize
cudaEventQuery cudaEventDestroy cudaEventElapsedTime cudaDeviceSynchronize cudaDeviceReset
cudaLaunchKernel cudaLaunchKernelExC cudaLaunchCooperativeKernel cudaGraphInstantiate
cudaGraphInstantiateWithFlags cudaGraphLaunch cudaGraphExecDestroy cudaGraphDestroy
cudaMallocAsync cudaFreeAsync cudaHostAlloc cudaHostGetDevicePointer
cudaFuncGetAttributes cudaFuncSetAttribute cudaDeviceGetAttribute cudaPointerGetAttributes
cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags cudaOccupancyMaxActiveBlocksPerMultiprocessor
cuInit cuDriverGetVersion cuDeviceGetCount cuDeviceGet cuDeviceGetName cuDeviceGetAttribute
cuDeviceTotalMem cuCtxCreate cuCtxDestroy cuCtxGetCurrent cuCtxSetCurrent cuCtxSynchronize
cuDevicePrimaryCtxRetain cuDevicePrimaryCtxRelease cuDevicePrimaryCtxReset cuModuleLoadData
cuModuleGetFunction cuModuleUnload cuMemAlloc cuMemFree cuMemcpyHtoDAsync cuMemcpyDtoHAsync
cuMemcpyDtoDAsync cuMemcpyHtoD cuMemcpyDtoH cuMemsetD8Async cuMemsetD8 cuStreamCreate
cuStreamCreateWithPriority cuStreamDestroy cuStreamSynchronize cuStreamWaitEvent
cuStreamBeginCapture cuStreamEndCapture cuEventCreate cuEventDestroy cuEventRecord
cuEventSynchronize cuEventElapsedTime cuLaunchKernel cuLaunchKernelEx cuGraphInstantiateWithFlags
cuGraphLaunch cuGraphExecDestroy cuGraphDestroy cuDeviceGetUuid cuDeviceGetUuid_v2
""".split()


def without_comments(text):
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"//[^\n]*", " ", text)
    return re.sub(r"^[ \t]*#.*$", " ", text, flags=re.M)


def body_end(text, at):
    """The position after the brace that closes the one before `at`."""
    depth = 1
    while depth:
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
    return at


def structs(text):
    for match in re.finditer(r"typedef\s+struct\b[^{;]*\{", text):
        end = body_end(text, match.end())
        name = re.match(r"\s*(\w+)\s*;", text[end:])
        if name and RECORDS.fullmatch(name.group(1)):
            yield name.group(1), text[match.end():end - 1]


def fields(body, prefix=""):
    """Paths of all members, those of members too; bit fields have no place and are left out."""
    at = 0
    while True:
        match = re.compile(r"\s*([^;{]*)([;{])").match(body, at)
        if not match:
            return
        at = match.end()
        if match.group(2) == "{":
            inner_start, at = at, body_end(body, at)
            inner = body[inner_start:at - 1]
            name = re.compile(r"\s*(\w*)\s*;").match(body, at)
            at = name.end()
            yield from fields(inner, prefix + name.group(1) + "." if name.group(1) else prefix)
            continue
        member = re.search(r"(\w+)\s*(\[[^\]]*\])?\s*$", match.group(1))
        # Padding is there on some platforms only.
        if member and ":" not in match.group(1) and not member.group(1).startswith("pad"):
            is_text = re.match(r"const\s+char\s*\*", match.group(1)) is not None
            yield prefix + member.group(1), is_text


def callbacks(text, prefix):
    for name, number in re.findall(prefix + r"(\w+)\s*=\s*(\d+)", text):
        if name not in ("INVALID", "SIZE", "FORCE_INT"):
            yield name, int(number)


def read(directory, name):
    path = os.path.join(directory, name)
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8", errors="replace") as file:
        return without_comments(file.read())


def needed(name):
    return name in NEEDED or re.sub(r"_v\d+(_ptsz|_ptds)?$", "", name) in NEEDED


def main(directory):
    print("#include <cupti.h>\n#include <stddef.h>\n#include <stdio.h>\n"
          "#define FIELD(S, path, text) printf(\" \\\"\" #path \" %zu %s%zu \\\"\\n\", "
          "offsetof(S, path), text ? \"t\" : \"\", sizeof(((S *)0)->path));\n"
          "int main(int argc, char **argv)\n{\n(void)argv;")
    text = "".join(read(directory, f) for f in
                   ("cupti_activity.h", "cupti_activity_deprecated.h", "cupti_callbacks.h"))
    print(r'printf("VERSION(%d)\n", CUPTI_API_VERSION);')
    for name, body in sorted(structs(text)):
        short = re.sub("^CUpti_(Activity)?", "", name)
        print(f'printf("LAYOUT(\\"{short}\\", %zu,\\n", sizeof({name}));')
        for path, is_text in fields(body):
            print(f"FIELD({name}, {path}, {int(is_text)})")
        print(r'puts(")");')
    for domain, file, prefix in ((1, "cupti_driver_cbid.h", "CUPTI_DRIVER_TRACE_CBID_"),
                                 (2, "cupti_runtime_cbid.h", "CUPTI_RUNTIME_TRACE_CBID_")):
        for name, number in callbacks(read(directory, file), prefix):
            skip = "" if needed(name) else "if (argc < 2) "
            print(f'{skip}puts("CALLBACK({domain}, {number}, \\"{name}\\")");')
    print("return 0;\n}")


main(sys.argv[1])

"""The driver's calls that the source switches on are those that have a device do something, wait for it,
or map memory, by the names that CUPTI's headers give their numbers: check_calls.py DRIVER_CALLS.C INCLUDE"""
import os
import re
import sys

WANTED = re.compile(r"cu(Launch(Grid|GridAsync|Kernel|KernelEx|CooperativeKernel(MultiDevice)?)?|GraphLaunch|"
                    r"Mem(cpy|set)\w*|StreamSynchronize|StreamWaitEvent|EventSynchronize|CtxSynchronize|"
                    r"EventRecord(WithFlags)?|Mem(Create|Release|Map|Unmap|ExportToShareableHandle|"
                    r"ImportFromShareableHandle))(_v\d)?(_pt[sd][sz])?")
# Of CUDA 3.1, with pointers of 32 bits, and numbers without a function.
GONE = re.compile(r"cu64\w+|cuda\d+")

with open(sys.argv[1], encoding="utf-8") as file:
    ours = {n for first, last in re.findall(r"\{(\d+), (\d+)\}", file.read())
            for n in range(int(first), int(last) + 1)}
with open(os.path.join(sys.argv[2], "cupti_driver_cbid.h"), encoding="utf-8") as file:
    theirs = {int(number): name for name, number in
              re.findall(r"CBID_(\w+)\s*=\s*(\d+)", file.read()) if name not in ("INVALID", "SIZE")}

faults = [f"{n} is {theirs[n]}" for n in sorted(ours & set(theirs))
          if not WANTED.fullmatch(theirs[n]) and not GONE.fullmatch(theirs[n])]
faults += [f"{name} ({n}) is not switched on" for n, name in sorted(theirs.items())
           if WANTED.fullmatch(name) and n not in ours]
print("\n".join(faults) or f"{len(ours & set(theirs))} calls of {len(theirs)}")
sys.exit(1 if faults else 0)

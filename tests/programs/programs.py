"""The programs: how each is run, what may differ between two runs of it, and what its trace must have.

None of them is changed, recompiled or configured for the recorder. What prints times of its own is compared
without numbers; everything else must be the same to the byte.
"""
import dataclasses
import os
import re
import sys
import typing

PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
STATIC = os.environ.get("CKINETO_STATIC_TARGET", "")

STATIC_LINE = "statically linked"
# Who may look at a program with raised privileges is the kernel's choice, and how long it lasts its own.
RAISED_LINE = "raised privileges|belongs to another user|ended too soon"


def same(text):
    return text


def without_numbers(text):
    """Times and rates, and the blanks that make columns of them."""
    return re.sub(rb"[ \t]+", b" ", re.sub(rb"\d+(\.\d+)?", b"N", text))


@dataclasses.dataclass
class Program:
    name: str
    package: str
    command: list
    files: dict = dataclasses.field(default_factory=dict)  # made before it starts: name → bytes
    clean: typing.Callable = same
    ignore: tuple = ()  # files whose names begin so may differ
    kinds: dict = dataclasses.field(default_factory=dict)  # category → minimum number in its trace
    ledger: str = ""  # what a line of the ledger must say
    environment: dict = dataclasses.field(default_factory=dict)
    as_nobody: bool = False
    loads: bool = True  # something can be loaded into it
    warm: bool = False  # it fills caches in its first run
    small: bool = False  # for `make test`


def source(text):
    return text.lstrip("\n").encode()


OPENCV = source('''
import hashlib
import cv2
import numpy
cv2.ocl.setUseOpenCL(True)
image = cv2.UMat(numpy.random.RandomState(1).randint(0, 256, (600, 800, 3), dtype=numpy.uint8))
for size in (3, 5, 7, 9):
    image = cv2.GaussianBlur(image, (size, size), 1.5)
edges = cv2.Canny(cv2.cvtColor(image, cv2.COLOR_BGR2GRAY), 10, 60)
print(cv2.ocl.useOpenCL(), hashlib.sha256(edges.get().tobytes()).hexdigest())
''')

PYOPENCL = source('''
import numpy
import pyopencl as cl
context = cl.Context(cl.get_platforms()[0].get_devices())
queue = cl.CommandQueue(context)
code = cl.Program(context, "kernel void axpy(float a, global const float *x, global float *y)"
                  "{ int i = get_global_id(0); y[i] += a * x[i]; }").build()
x = numpy.arange(100000, dtype=numpy.float32)
flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
first, second = cl.Buffer(context, flags, hostbuf=x), cl.Buffer(context, flags, hostbuf=x)
for step in range(50):
    code.axpy(queue, x.shape, None, numpy.float32(step), first, second)
cl.enqueue_copy(queue, x, second)
print(x[:5], x.sum(dtype=numpy.float64))
''')

PLAIN_PYTHON = source('''
import hashlib, json, os, subprocess, sys, threading
def work(seed):
    data = {str(i): [i * seed % 97] * 20 for i in range(2000)}
    out[seed] = hashlib.sha256(json.dumps(data).encode()).hexdigest()
out = {}
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
pid = os.fork()
if pid == 0:
    os._exit(5)
print(sorted(out.items()), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
print(subprocess.run(["sh", "-c", "echo child; exit 4"], stdout=subprocess.PIPE))
print("to the other stream", file=sys.stderr)
sys.exit(3)
''')

NODE = source('''
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const { createHash } = require('crypto'), { gzipSync } = require('zlib');
if (isMainThread) {
    let left = 2;
    for (const n of [1, 2]) new Worker(__filename, { workerData: n }).on('message', (text) => {
        require('fs').writeFileSync('worker' + n, text);
        if (--left === 0) {
            console.log(require('child_process').execFileSync('echo', ['child']).toString());
            process.exitCode = 6;
        }
    });
} else {
    const hash = createHash('sha256');
    for (let i = 0; i < 2000; i++) hash.update(gzipSync(Buffer.alloc(500, String(i * workerData))));
    parentPort.postMessage(hash.digest('hex'));
}
''')

C_PROGRAM = source('''
#include <stdio.h>
#include <stdlib.h>
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
int main(void)
{
    int numbers[1000];
    for (int i = 0; i < 1000; i++)
        numbers[i] = i * 7919 % 1009;
    qsort(numbers, 1000, sizeof *numbers, compare);
    printf("%d %d\\n", numbers[0], numbers[999]);
    return 7;
}
''')

GIT = source('''
set -e
git init -q -b main .
for n in 1 2 3 4 5 6 7 8; do seq $n 400 >file$n; git add file$n; git commit -q -m "number $n"; done
git repack -adq
git fsck 2>&1 | grep -v '^notice' || true
git log --format='%H %s'
git diff --stat HEAD~3
''')

SHELL = source('''
seq 1 20000 | sort -rn | head -3
ls "$0"
(exit 3) || echo "a child said $?"
echo to the other stream >&2
kill -TERM $$
''')


def frames(width=320, height=192, count=12):
    """A film that moves, without colour."""
    grey = bytes(range(256)) * 4
    luma = b"".join(grey[(3 * y + 5 * f) % 256:][:width] for f in range(count) for y in range(height))
    size = width * height
    return b"".join(luma[f * size:][:size] + bytes([128]) * (size // 2) for f in range(count))


GIT_ENVIRONMENT = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER")
                   for what, value in (("NAME", "A"), ("EMAIL", "a@localhost"), ("DATE", "2020-01-01T00:00:00Z"))}

# md5 of "zebra"
HASH = "69c459dd76c6198f72f0c20ddd3c9447"

PROGRAMS = [
    Program("hashcat", "hashcat", ["hashcat", "-m", "0", "-a", "3", "--potfile-disable", "--quiet", "-D", "1",
                                   "--session", "test", "-o", "cracked", HASH, "?l?l?l?l?l"],
            clean=without_numbers, warm=True, kinds={"kernel": 10, "runtime": 50}),
    Program("clpeak", "clpeak", ["clpeak", "--kernel-latency"], clean=without_numbers, warm=True,
            kinds={"kernel": 10}),
    Program("CLBlast", "clblast-tests", ["clblast_test_xdot", "-platform", "0", "-device", "0"], warm=True,
            kinds={"kernel": 10}),
    Program("OpenCV (UMat)", "python3-opencv", [PYTHON, "blur.py"], files={"blur.py": OPENCV}, warm=True,
            environment={"OPENCV_OPENCL_DEVICE": ":CPU:"}, kinds={"kernel": 4}),
    Program("pyopencl", "python3-pyopencl", [PYTHON, "axpy.py"], files={"axpy.py": PYOPENCL}, warm=True,
            environment={"PYOPENCL_NO_CACHE": "1"}, kinds={"kernel": 50}),
    Program("x264 --opencl", "x264", ["x264", "--quiet", "--no-progress", "--opencl", "--demuxer", "raw", "--input-res",
                                      "320x192", "--fps", "25", "--preset", "slower", "-o", "out.264", "in.yuv"],
            files={"in.yuv": frames()}, clean=without_numbers, warm=True, kinds={"runtime": 1}),
    Program("ffmpeg, OpenCL filter", "ffmpeg", [
        "ffmpeg", "-nostdin", "-hide_banner", "-loglevel", "error", "-init_hw_device", "opencl=cl:0.0", "-filter_hw_device",
        "cl", "-f", "lavfi", "-i", "testsrc=size=320x180:rate=25:duration=1", "-vf",
        "format=yuv420p,hwupload,avgblur_opencl=3,hwdownload,format=yuv420p", "-c:v", "libx264", "-threads", "2",
        "-flags", "+bitexact", "-fflags", "+bitexact", "out.mp4"], warm=True, kinds={"kernel": 25}),
    Program("pbzip2", "pbzip2", ["pbzip2", "-q", "-p2", "-k", "in.yuv"], files={"in.yuv": frames(count=40)}),
    Program("sysbench", "sysbench", ["sysbench", "cpu", "--threads=2", "--events=4000", "--time=0", "run"],
            clean=without_numbers),
    Program("ImageMagick", "imagemagick", [
        "convert-im6.q16", "-seed", "7", "-size", "500x400", "plasma:red-blue", "-blur", "0x4", "-resize", "150%", "-strip",
        "-define", "png:exclude-chunks=date,time", "out.png"]),
    Program("python3", "python3", [PYTHON, "plain.py"], files={"plain.py": PLAIN_PYTHON}, small=True),
    Program("a JVM (keytool)", "openjdk-17-jre-headless", [
        "keytool", "-list", "-rfc", "-keystore", "/etc/ssl/certs/java/cacerts", "-storepass", "changeit"]),
    Program("node", "nodejs", ["node", "workers.js"], files={"workers.js": NODE}),
    Program("gcc", "gcc", ["gcc", "-O2", "-Wall", "-pipe", "-o", "sorted", "sorted.c"], files={"sorted.c": C_PROGRAM},
            small=True),
    Program("git", "git", ["sh", "commits.sh"], files={"commits.sh": GIT}, environment=GIT_ENVIRONMENT,
            ignore=(".git/",)),
    Program("sh, sort, a signal", "dash", ["sh", "script.sh"], files={"script.sh": SHELL}, small=True),
    Program("static (busybox)", "busybox-static", ["busybox", "sh", "-c", "seq 1 50000 | sort -n | md5sum; sleep 0.1; exit 9"],
            ledger=STATIC_LINE, loads=False),
    Program("static (our own)", "", [STATIC], ledger=STATIC_LINE, loads=False, small=True),
    # It waits for a password, gets none, and has been seen by then.
    Program("set-uid (passwd)", "passwd", ["sh", "-c", "sleep 1 | passwd; exit 8"], ledger=RAISED_LINE, as_nobody=True, small=True),
]

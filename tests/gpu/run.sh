#!/usr/bin/env bash
# Everything that needs a GPU, in one command: builds, records, compares. Parts with programs of CUDA run
# where nvcc is, those with PyTorch where that is. Usage: tests/gpu/run.sh [OUT], default build/gpu.
# All it says is in OUT/report.txt, what a part said in OUT/PART.log, too.
#   CKINETO=FILE   this command, its libraries next to it as in a build, instead of building one
#   LIMIT=SECONDS  a part may take that long (120; to build: four times that)
#   PYTHON=FILE    instead of python3
# Ends with 0, with 1 if a part failed, with 77 if there is no GPU, or nothing that could use it.
set -u
cd "$(dirname "$0")/../.." || exit 2
out=${1:-build/gpu}
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 2
python=${PYTHON:-python3} wanted_python=${PYTHON:-python3}
limit=${LIMIT:-120}
passed=0 failed=0 left=0 faults=
report=$out/report.txt
: >"$report" || exit 2

say() { tell "" "== $*"; }
tell() { printf '%s\n' "$@" | tee -a "$report"; }
leave() { # NAME WHY: a part that cannot be run
    tell "$1: not run, $2"
    left=$((left + 1))
}
part() { # NAME COMMAND…: run, keep what it says, count
    local name=$1 status begin=$SECONDS
    shift
    timeout -k 10 "$limit" "$@" >"$out/$name.log" 2>&1 </dev/null
    status=$?
    if [ $status -eq 0 ]; then
        tell "$name: ok, $((SECONDS - begin)) s"
        passed=$((passed + 1))
    else
        [ $status -eq 124 ] || [ $status -eq 137 ] && tell "$name: ended after $limit s"
        tell "$name: FAILED ($status), $((SECONDS - begin)) s"
        failed=$((failed + 1)) faults="$faults $name"
    fi
    cat "$out/$name.log" >>"$report"
    return $status
}
has() { command -v "$1" >/dev/null 2>&1; }
finish() {
    say "$passed parts went well, $failed failed${faults:+:$faults}, $left were not run"
    tell "the whole report: $report"
    [ $failed -eq 0 ] || exit 1
    [ $passed -gt 0 ] || exit 77
    exit 0
}

# ---- what is here --------------------------------------------------------------------------------------
if has nvidia-smi; then
    timeout 60 nvidia-smi -L >"$out/gpus.txt" 2>&1
else
    echo "there is no nvidia-smi" >"$out/gpus.txt"
fi
if ! grep -q '^GPU ' "$out/gpus.txt" && [ ! -e /dev/nvidia0 ]; then
    tell "no GPU here ($(head -c 200 "$out/gpus.txt" | tr '\n' ' ')): nothing was run"
    exit 77
fi
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
[ -x "$nvcc" ] || nvcc=
has "$python" || python=
torch=
[ -n "$python" ] && timeout 120 "$python" -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null && torch=yes

say "machine"
{
    date -u +%F
    cat "$out/gpus.txt"
    has nvidia-smi && timeout 60 nvidia-smi --query-gpu=driver_version,mig.mode.current,compute_mode --format=csv
    "${nvcc:-echo}" --version 2>&1 | tail -1
    for tool in cc cmake "$python"; do has "$tool" && "$tool" --version 2>&1 | head -1; done
    [ -n "$torch" ] && "$python" -c 'import torch; print("torch", torch.__version__, "CUDA", torch.version.cuda)'
    uname -rm
    grep -h RmProfilingAdminOnly /proc/driver/nvidia/params
    echo "user $(id -u); libraries of CUPTI:"
    { ldconfig -p 2>/dev/null || /sbin/ldconfig -p; } | grep -o '/.*libcupti.*'
    ls /usr/local/cuda*/extras/CUPTI/lib64/libcupti.so.* /usr/local/cuda*/targets/*/lib/libcupti.so.*
    env | grep -E '^(CUDA|NVIDIA|LD_LIBRARY|LD_PRELOAD|KINETO|CKINETO)'
    git log -1 --format='%H %s'
} 2>/dev/null | tee -a "$report"

if [ -z "$nvcc$torch" ]; then
    tell "neither nvcc nor a PyTorch with CUDA here: nothing was run"
    exit 77
fi

# ---- building ------------------------------------------------------------------------------------------
say "build"
ckineto=${CKINETO:-$out/build/bin/ckineto}
if [ -z "${CKINETO:-}" ]; then
    part_limit=$limit limit=$((limit * 4))
    for tool in cmake pkg-config; do
        has $tool || tell "there is no $tool here: install it, or name a command that was built elsewhere in CKINETO"
    done
    part build bash -c "cmake -S . -B '$out/build' -DCMAKE_BUILD_TYPE=Release -DCKINETO_TESTS=OFF \
        -DCKINETO_BENCH=OFF -DCKINETO_EXAMPLES=OFF && cmake --build '$out/build' -j $(nproc)"
    limit=$part_limit
fi
if ! part command "$ckineto" --version; then
    tell "without the command nothing can be recorded"
    finish
fi
part doctor "$ckineto" doctor

# record NAME [OPTION…] -- PROGRAM…: a recording, what is in it, whether it is sound, what its ledger says
record() {
    local name=$1
    shift
    part "$name" "$ckineto" record -q -o "$out/$name.json" "$@" || return
    [ -n "$python" ] && part "${name}_work" "$python" tests/gpu/compare.py --work "$out/$name.json"
    part "${name}_verify" "$ckineto" verify "$out/$name.json"
    part "${name}_info" "$ckineto" info "$out/$name.json"
}

# ---- programs of CUDA ----------------------------------------------------------------------------------
with_matrix() {
    say "truth: kernels, copies, streams, graphs against CUDA events"
    part matrix_alone bash -c "'$out/matrix' >'$out/truth.txt'"
    record matrix -- "$out/matrix"
    if [ -n "$python" ]; then
        part matrix_truth "$python" tests/gpu/compare.py "$out/matrix.json" "$out/truth.txt"
    else
        leave matrix_truth "there is no $wanted_python"
    fi

    say "the same with other options"
    record graphs --plugin-config cuda.graph=graph -- "$out/matrix"
    record shared_buffers --plugin-config cuda.per_thread_buffers=off -- "$out/matrix"
    record memory --plugin-config cuda.memory=on -- "$out/matrix"
    record teardown --plugin-config cuda.teardown=on -- "$out/matrix"

    say "counters of power and clocks; of multiprocessors, which may be reserved for administrators"
    record nvml -a default,gpu_pm_counter --plugin-config cuda.nvml_ms=10 -- "$out/matrix"
    [ -n "$python" ] && part nvml_rows "$python" tests/gpu/compare.py --counters "$out/nvml.json" "GPU power"
    record pm -a default,gpu_pm_counter \
        --plugin-config cuda.pm_metrics=sm__cycles_active.avg.pct_of_peak_sustained_elapsed -- "$out/matrix"
}

with_launches() {
    say "cost of a launch"
    part launches_alone "$out/launches"
    record launches -- "$out/launches"
    record launches_little_room --plugin-config cuda.buffer_bytes=8MiB -- "$out/launches"
}

if [ -n "$nvcc" ]; then
    part nvcc_matrix "$nvcc" -O2 -o "$out/matrix" tests/gpu/matrix.cu && with_matrix
    part nvcc_launches "$nvcc" -O2 -o "$out/launches" tests/gpu/launches.cu && with_launches
else
    leave matrix "there is no nvcc"
    leave launches "there is no nvcc"
fi

# ---- PyTorch -------------------------------------------------------------------------------------------
# Its own profiler on libkineto, in the seat, and on libkineto with ckineto as a guest. The bridge is built
# with the headers of this PyTorch.
with_bridge() {
    local libraries packages way
    libraries=$(cd "$(dirname "$ckineto")/../lib" && pwd)
    packages=$libraries/ckineto/python
    export XDG_CACHE_HOME=$out/cache
    part torch_bridge env PYTHONPATH="$packages" "$python" -m ckineto_attach.build || return
    for way in "" --graph; do
        say "the seat, the guest and the recorder${way:+ with a CUDA graph}"
        part "libkineto$way" "$python" tests/gpu/torch_model.py $way "$out/libkineto$way.json"
        part "seat$way" env CKINETO_TORCH=1 CKINETO_LIBDIR="$libraries" PYTHONPATH="$packages" \
            "$python" tests/gpu/torch_model.py $way "$out/seat$way.json"
        part "seat${way}_equal" "$python" tests/gpu/torch_seat.py "$out/libkineto$way.json" "$out/seat$way.json"
        part "seat${way}_verify" "$ckineto" verify "$out/seat$way.json"
        part "guest$way" env CKINETO_TORCH=guest CKINETO_LIBDIR="$libraries" PYTHONPATH="$packages" \
            "$python" tests/gpu/torch_model.py $way "$out/guest$way.json"
        part "guest${way}_equal" "$python" tests/gpu/torch_seat.py "$out/libkineto$way.json" "$out/guest$way.json"
        record "recorder$way" -- "$python" tests/gpu/torch_model.py $way
        part "recorder${way}_side" "$python" tests/gpu/torch_side.py --operators "$out/libkineto$way.json" \
            "$out/recorder$way.json"
    done
}

if [ -n "$torch" ]; then
    say "compared with PyTorch's profiler"
    part torch_profiler "$python" tests/gpu/torch_model.py "$out/torch_profiler.json"
    record torch -- "$python" tests/gpu/torch_model.py
    part torch_side "$python" tests/gpu/torch_side.py "$out/torch_profiler.json" "$out/torch.json"
    part torch_profiler_verify "$ckineto" verify "$out/torch_profiler.json"
    with_bridge
    part torch_launches_alone "$python" tests/gpu/torch_launches.py
    record torch_launches -- "$python" tests/gpu/torch_launches.py --plain
else
    leave torch "there is no PyTorch with CUDA"
fi
finish

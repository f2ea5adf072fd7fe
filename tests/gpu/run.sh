#!/usr/bin/env bash
# Everything that needs a GPU, in one command: builds, records, compares. Parts with programs of CUDA run
# where nvcc is, those with PyTorch where that is. Usage: tests/gpu/run.sh [OUT], default build/gpu.
# All it says is in OUT/report.txt, what a part said in OUT/PART.log, too.
#   CKINETO=FILE   this command, its libraries next to it as in a build, instead of building one
#   PARTS="…"      these of cuda counters costs torch torch_costs frameworks (all)
#   ROUNDS=N       rounds of the comparisons of cost (5)
#   LIMIT=SECONDS  a part may take that long (120; to build: four times that)
#   PYTHON=FILE    instead of python3
# Ends with 0, with 1 if a part failed, with 77 if there is no GPU, or nothing that could use it.
set -u
cd "$(dirname "$0")/../.." || exit 2
out=${1:-build/gpu}
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 2
python=${PYTHON:-python3} wanted_python=${PYTHON:-python3}
limit=${LIMIT:-120}
groups=${PARTS:-cuda counters costs torch torch_costs frameworks}
rounds=${ROUNDS:-5}
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
wants() { [[ " $groups " == *" $1 "* ]]; }
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

# record NAME [OPTION…] -- PROGRAM…: a recording, what is in it, whether it is sound, what its ledger says.
# With unsound=yes it is not verified: it loses records on purpose.
record() {
    local name=$1
    shift
    part "$name" "$ckineto" record -q -o "$out/$name.json" "$@" || return
    [ -n "$python" ] && part "${name}_work" "$python" tests/gpu/compare.py --work "$out/$name.json"
    [ -n "${unsound:-}" ] || part "${name}_verify" "$ckineto" verify "$out/$name.json"
    part "${name}_info" "$ckineto" info "$out/$name.json"
}

# ---- programs of CUDA ----------------------------------------------------------------------------------
# The truth is that of the recorded run, because the clocks of the GPU differ from run to run.
with_truth() { # NAME [OPTION…], of the program in $program
    local name=$1
    shift
    record "$name" "$@" -- "$out/${program:-matrix}" "$out/$name.truth" || return
    [ -n "$python" ] && part "${name}_truth" "$python" tests/gpu/compare.py "$out/$name.json" "$out/$name.truth"
}

test_cuda() {
    local number
    say "truth: kernels, copies, streams, graphs compared with CUDA events"
    part matrix_alone "$out/matrix"
    [ -n "$python" ] || leave truth "there is no $wanted_python"
    for number in 1 2 3; do with_truth "matrix$number"; done

    say "the same with other options"
    record graphs --plugin-config cuda.graph=graph -- "$out/matrix"
    with_truth shared_buffers --plugin-config cuda.per_thread_buffers=off
    with_truth memory --plugin-config cuda.memory=on
    with_truth teardown --plugin-config cuda.teardown=on
    [ -x "$out/driver" ] && program=driver with_truth driver

    say "a program that is killed: what was collected until then is in the trace"
    unsound=yes record killed -- bash -c "'$out/launches' 100000 & sleep 2; kill -9 \$!; wait \$! || true"
    [ -x "$out/driver" ] && record quick_exit -- "$out/driver" "$out/quick_exit.truth" exit &&
        part quick_exit_truth "$python" tests/gpu/compare.py "$out/quick_exit.json" "$out/quick_exit.truth"
    unsound=yes record little_room --plugin-config cuda.buffer_bytes=8MiB -- "$out/launches"
}

test_counters() {
    say "counters of power and clocks; of multiprocessors, which may be reserved for administrators"
    record nvml -a default,gpu_pm_counter --plugin-config cuda.nvml_ms=10 -- "$out/matrix"
    [ -n "$python" ] && part nvml_rows "$python" tests/gpu/compare.py --counters "$out/nvml.json" "GPU power"
    record pm -a default,gpu_pm_counter \
        --plugin-config cuda.pm_metrics=sm__cycles_active.avg.pct_of_peak_sustained_elapsed -- "$out/matrix"
}

# A library of CUPTI: of the system, of the toolkit, or of PyTorch.
find_cupti() {
    {
        { ldconfig -p || /sbin/ldconfig -p; } | sed -n 's/.*=> \(.*libcupti\.so\.[0-9]*\)$/\1/p'
        ls /usr/local/cuda/extras/CUPTI/lib64/libcupti.so
        "$python" -c 'import glob, sysconfig
print(*glob.glob(sysconfig.get_path("purelib") + "/nvidia/*/lib/libcupti.so.*"), sep="\n")'
    } 2>/dev/null | head -1
}

test_launch_costs() {
    say "cost of a launch"
    part kinds "$out/kinds" "$(find_cupti)" "$rounds"
    [ -n "$python" ] || return
    part launch_pairs "$python" tests/gpu/pairs.py "$rounds" "none=$out/launches" \
        "ckineto=$ckineto record -q -o $out/pairs.json -- $out/launches" \
        "kernels=$ckineto record -q -a concurrent_kernel -o $out/pairs.json -- $out/launches" \
        "shared_buffers=$ckineto record -q --plugin-config cuda.per_thread_buffers=off -o $out/pairs.json -- $out/launches"
    rm -f "$out/pairs.json"
}

compile() { part "nvcc_$1" "$nvcc" -O2 -arch=native -o "$out/$1" "tests/gpu/$1.cu" -ldl "${@:2}"; }

test_programs() {
    compile matrix && compile launches && compile kinds || return
    compile driver -lcuda
    wants cuda && test_cuda
    wants counters && test_counters
    wants costs && test_launch_costs
}

if [ -n "$nvcc" ]; then
    test_programs
else
    leave matrix "there is no nvcc"
    leave launches "there is no nvcc"
fi

# ---- PyTorch -------------------------------------------------------------------------------------------
# Its own profiler on libkineto, in the seat, and on libkineto with ckineto as a guest. The bridge is built
# with the headers of this PyTorch.
libraries=$(cd "$(dirname "$ckineto")/../lib" && pwd)
packages=$libraries/ckineto/python
export XDG_CACHE_HOME=$out/cache
seat="env CKINETO_TORCH=1 CKINETO_LIBDIR=$libraries PYTHONPATH=$packages${PYTHONPATH:+:$PYTHONPATH}"
guest="env CKINETO_TORCH=guest CKINETO_LIBDIR=$libraries PYTHONPATH=$packages${PYTHONPATH:+:$PYTHONPATH}"

test_torch() {
    local way
    for way in "" --graph; do
        say "libkineto, the seat, the guest and the recorder${way:+ with a CUDA graph}"
        part "libkineto$way" "$python" tests/gpu/torch_model.py $way "$out/libkineto$way.json"
        part "libkineto${way}_verify" "$ckineto" verify "$out/libkineto$way.json"
        part "seat$way" $seat "$python" tests/gpu/torch_model.py $way "$out/seat$way.json"
        part "seat${way}_equal" "$python" tests/gpu/torch_seat.py "$out/libkineto$way.json" "$out/seat$way.json"
        part "seat${way}_verify" "$ckineto" verify "$out/seat$way.json"
        part "guest$way" $guest "$python" tests/gpu/torch_model.py $way "$out/guest$way.json"
        part "guest${way}_equal" "$python" tests/gpu/torch_seat.py "$out/libkineto$way.json" "$out/guest$way.json"
        record "recorder$way" -- "$python" tests/gpu/torch_model.py $way
        part "recorder${way}_side" "$python" tests/gpu/torch_side.py --operators "$out/libkineto$way.json" \
            "$out/recorder$way.json"
    done
    part libkineto--sync "$python" tests/gpu/torch_model.py --sync "$out/libkineto--sync.json"
    part seat--sync $seat "$python" tests/gpu/torch_model.py --sync "$out/seat--sync.json"
    part seat--sync_equal "$python" tests/gpu/torch_seat.py "$out/libkineto--sync.json" "$out/seat--sync.json"
    say "two tools that use CUPTI in one program: the ledger reports it"
    unsound=yes record taken -- "$python" tests/gpu/torch_model.py "$out/inside.json"
}

# Kernels of other frameworks, each once and with its call.
test_frameworks() {
    local name
    say "other frameworks"
    for name in triton cupy numba jax; do
        "$python" tests/gpu/frameworks.py $name >"$out/$name.log" 2>&1
        [ $? -ne 77 ] || { leave $name "it is not installed"; continue; }
        record $name -- "$python" tests/gpu/frameworks.py $name || continue
        if [ $name = jax ]; then
            part jax_kernels "$python" tests/gpu/compare.py --work "$out/jax.json"
        else
            part ${name}_kernels "$python" tests/gpu/compare.py --kernels "$out/$name.json" scale_known 25
        fi
    done
}

test_torch_costs() {
    local costs="$python tests/gpu/torch_costs.py"
    say "cost in PyTorch"
    limit=$((limit * 4)) part torch_pairs "$python" tests/gpu/pairs.py "${TORCH_ROUNDS:-1}" "libkineto=$costs --profile" \
        "seat=$seat $costs --profile" "recorder=$ckineto record -q -o $out/pairs.json -- $costs" \
        "device=$ckineto record -q --no-torch -o $out/pairs.json -- $costs"
    part torch_pairs_info "$ckineto" info "$out/pairs.json"
    rm -f "$out/pairs.json"
}

if [ -n "$torch" ]; then
    part torch_bridge env PYTHONPATH="$packages${PYTHONPATH:+:$PYTHONPATH}" "$python" -m ckineto_attach.build
    wants torch && test_torch
    wants torch_costs && test_torch_costs
    wants frameworks && test_frameworks
else
    leave torch "there is no PyTorch with CUDA"
fi
finish

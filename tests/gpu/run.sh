#!/usr/bin/env bash
# Everything that needs a GPU, in one command: builds, records, compares. For a machine with nvcc; the
# parts with PyTorch run where it is. Usage: tests/gpu/run.sh [OUT], default build/gpu. Ends with 1 if
# a part failed, with 77 if there is no GPU.
set -u
cd "$(dirname "$0")/../.."
out=${1:-build/gpu}
mkdir -p "$out"
out=$(cd "$out" && pwd)
python=${PYTHON:-python3}
failed=0

say() { printf '\n== %s\n' "$*" | tee -a "$out/report.txt"; }
part() { # NAME COMMAND…: run, keep what it says, count
    local name=$1
    shift
    if "$@" >"$out/$name.log" 2>&1; then
        echo "$name: ok" | tee -a "$out/report.txt"
    else
        echo "$name: FAILED ($?), see $name.log" | tee -a "$out/report.txt"
        failed=1
    fi
    cat "$out/$name.log" >>"$out/report.txt"
}

: >"$out/report.txt"
if ! command -v nvidia-smi >/dev/null || ! nvidia-smi -L >"$out/gpus.txt" 2>&1; then
    echo "no GPU here: nothing was run" | tee -a "$out/report.txt"
    exit 77
fi
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
if [ ! -x "$nvcc" ]; then
    echo "no nvcc here: nothing was run" | tee -a "$out/report.txt"
    exit 77
fi

say "machine"
{ date -u +%F; cat "$out/gpus.txt"; nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -1
  "$nvcc" --version | tail -1; uname -r; git describe --always 2>/dev/null; } | tee -a "$out/report.txt"

say "build"
part build bash -c "cmake -S . -B '$out/build' -DCMAKE_BUILD_TYPE=Release -DCKINETO_TESTS=OFF -DCKINETO_BENCH=OFF &&
    cmake --build '$out/build' -j"
part nvcc bash -c "'$nvcc' -O2 -o '$out/matrix' tests/gpu/matrix.cu && '$nvcc' -O2 -o '$out/launches' tests/gpu/launches.cu"
ckineto=$out/build/bin/ckineto
part doctor "$ckineto" doctor

say "truth: kernels, copies, streams, graphs against CUDA events"
part record "$ckineto" record -o "$out/matrix.json" -- sh -c "'$out/matrix' >'$out/truth.txt'"
part matrix "$python" tests/gpu/compare.py "$ckineto" "$out/matrix.json" "$out/truth.txt"
part verify "$ckineto" verify "$out/matrix.json"
part info "$ckineto" info "$out/matrix.json"

say "counters of power and clocks"
part nvml bash -c "'$ckineto' record --plugin-config 'cuda.nvml_ms=10' -a default,gpu_pm_counter -o '$out/nvml.json' \
    -- sh -c '\"$out/matrix\" >/dev/null' && '$ckineto' query '$out/nvml.json' \
    'SELECT name, count(*) FROM activities WHERE form = \"counter\" GROUP BY name'"

say "cost of a launch"
part launches_plain "$out/launches"
part launches_ckineto "$ckineto" record -q -o "$out/launches.json" -- "$out/launches"

if "$python" -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
    say "beside PyTorch's profiler"
    "$python" -c 'import torch; print("torch", torch.__version__)' | tee -a "$out/report.txt"
    part torch_profiler "$python" tests/gpu/torch_model.py "$out/torch.json"
    part torch_record "$ckineto" record -q -o "$out/torch-ckineto.json" -- "$python" tests/gpu/torch_model.py
    part torch_side "$python" tests/gpu/torch_side.py "$ckineto" "$out/torch.json" "$out/torch-ckineto.json"
    part torch_verify "$ckineto" verify "$out/torch.json"
    part torch_launches "$python" tests/gpu/torch_launches.py
    part torch_launches_ckineto "$ckineto" record -q -o "$out/torch-launches.json" -- \
        "$python" tests/gpu/torch_launches.py --plain
else
    say "no PyTorch with CUDA here: its parts were not run"
fi
exit $failed

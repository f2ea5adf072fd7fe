#!/usr/bin/env bash
# The conformance run of the AMD source on a machine with an AMD GPU and ROCm, in one command: layouts
# against the installed headers, a HIP program with known counts, doctor, plugin check, counters.
# Usage: tests/gpu/rocm.sh [OUT], default build/rocm. All it says is in OUT/report.txt.
#   CKINETO=FILE   this command, its libraries next to it as in a build, instead of building one
#   ROCM_PATH=DIR  where ROCm is installed (/opt/rocm)
# Ends with 0, with 1 if a part failed, with 77 if there is no AMD GPU.
set -u
cd "$(dirname "$0")/../.." || exit 2
out=${1:-build/rocm}
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 2
rocm=${ROCM_PATH:-/opt/rocm}
report=$out/report.txt
: >"$report" || exit 2
failed=0
tell() { printf '%s\n' "$@" | tee -a "$report"; }
part() { # NAME COMMAND…
    local name=$1 status
    shift
    timeout -k 10 300 "$@" >"$out/$name.log" 2>&1 </dev/null
    status=$?
    case $status in
    0) tell "$name: ok" ;;
    77) tell "$name: not run" ;;
    *) tell "$name: FAILED ($status)"; failed=1 ;;
    esac
    cat "$out/$name.log" >>"$report"
}

[ -e /dev/kfd ] || { tell "no AMD GPU here (there is no /dev/kfd): nothing was run"; exit 77; }
command=${CKINETO:-}
if [ -z "$command" ]; then
    part build sh -c 'cmake --preset release >/dev/null && cmake --build --preset release --target ckineto-command ckineto-rocm ckineto-roctx'
    command=build/release/bin/ckineto
fi
plugin=$(dirname "$(dirname "$command")")/lib/ckineto/ckineto-rocm.so
part layouts python3 tests/rocm/test_layouts.py "${CC:-cc}" plugins/rocm "$rocm/include"
part doctor "$command" doctor
part plugin_check "$command" plugin check "$plugin"
hipcc=$rocm/bin/hipcc
[ -x "$hipcc" ] || hipcc=hipcc
part compile "$hipcc" -O2 tests/gpu/matrix_hip.cpp -o "$out/matrix"
part alone "$out/matrix"
for way in plain memory hsa counters; do
    case $way in
    plain) options= ;;
    memory) options="rocm.memory=on" ;;
    hsa) options="rocm.hsa=on" ;;
    counters) options="rocm.smi_ms=20" ;;
    esac
    part "record_$way" "$command" record -o "$out/$way.json" --plugin-config "$options" -- "$out/matrix"
    part "verify_$way" "$command" verify "$out/$way.json"
    part "counts_$way" python3 tests/gpu/rocm_counts.py "$out/$way.json" "$way"
done
tell "the whole report: $report"
exit $failed

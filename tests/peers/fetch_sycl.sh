#!/bin/sh
# Get a SYCL program and what it needs into FOLDER, from PyPI: dpnp with Intel's SYCL runtime and OpenCL
# driver for processors (3 GB). fetch_sycl.sh FOLDER. Says why and ends with 77 if it cannot be had.
set -u
packages='dpnp==0.20.0 dpctl==0.22.1 intel-opencl-rt==2026.2.0'
folder=$1

skip() {
    echo "peer: $1"
    exit 77
}

test -e "$folder/icd/intel.icd" && exit 0
test "$(uname -m)" = x86_64 || skip "Intel's driver is for x86-64"
python3 -m venv "$folder" >/dev/null 2>&1 || skip "Python's venv is not installed"
# shellcheck disable=SC2086
timeout 1200 "$folder/bin/pip" install --quiet $packages >/dev/null 2>&1 ||
    skip "$packages cannot be fetched"
mkdir -p "$folder/icd" || exit 1
echo "$(cd "$folder" && pwd)/lib/libintelocl.so" >"$folder/icd/intel.icd"

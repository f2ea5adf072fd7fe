#!/bin/sh
# Get Intel's OpenCL driver for processors, with Khronos' loader, into FOLDER, from the Python packages that
# carry them. fetch_opencl.sh FOLDER. Says why and ends with 77 if one of them cannot be had.
set -u
packages='intel-opencl-rt==2026.2.0 intel-cmplr-lib-rt==2026.2.0 intel-cmplr-lib-ur==2026.2.0'
folder=$1

skip() {
    echo "peer: $1"
    exit 77
}

test -e "$folder/icd/intel.icd" && exit 0
test "$(uname -m)" = x86_64 || skip "Intel's driver is for x86-64"
python3 -m venv "$folder" >/dev/null 2>&1 || skip "Python's venv is not installed"
# shellcheck disable=SC2086
timeout 600 "$folder/bin/pip" install --quiet $packages >/dev/null 2>&1 ||
    skip "$packages cannot be fetched"
mkdir -p "$folder/icd" || exit 1
# The package's own has a name in it that is to be replaced.
echo "$(cd "$folder" && pwd)/lib/libintelocl.so" >"$folder/icd/intel.icd"

#!/bin/sh
# Get NVIDIA's header of NVTX and Intel's client of ITT into FOLDER, from the Python packages that carry
# them. fetch_emission.sh FOLDER. Says why and ends with 77 if one of them cannot be had.
set -u
nvtx=nvidia-nvtx-cu12==12.9.79
itt=ittapi==1.2.2
folder=$1

skip() {
    echo "peer: $1"
    exit 77
}

# get PACKAGE NAME: unpacked as FOLDER/NAME.
get() {
    test -d "$folder/$2" && return
    timeout 120 python3 -m pip download --quiet --no-deps --dest "$work" "$1" >/dev/null 2>&1 ||
        skip "$1 cannot be fetched"
    python3 -m zipfile -e "$work"/*.whl "$work/$2" >/dev/null 2>&1 ||
        skip "$1 has no wheel for this machine"
    rm -f "$work"/*.whl
    mv "$work/$2" "$folder/$2" || exit 1
}

python3 -m pip --version >/dev/null 2>&1 || skip "Python's pip is not installed"
mkdir -p "$folder" || exit 1
work=$(mktemp -d "$folder/work-XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
get $nvtx nvtx
get $itt itt

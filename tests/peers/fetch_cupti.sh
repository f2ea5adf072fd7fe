#!/bin/sh
# Get NVIDIA's headers of CUPTI, CUDA, NVML and NVTX, of two major versions, into FOLDER/12 and
# FOLDER/13, from the Python packages that carry them. fetch_cupti.sh FOLDER. Says why and ends with 77
# if one of them cannot be had.
set -u
folder=$1

skip() {
    echo "peer: $1"
    exit 77
}

# get VERSION PACKAGE…: their headers as FOLDER/VERSION.
get() {
    version=$1
    shift
    test -d "$folder/$version" && return
    for package; do
        timeout 180 python3 -m pip download --quiet --no-deps --dest "$work" "$package" >/dev/null 2>&1 ||
            skip "$package cannot be fetched"
        python3 -m zipfile -e "$work"/*.whl "$work/wheel" >/dev/null 2>&1 ||
            skip "$package has no wheel for this machine"
        rm -f "$work"/*.whl
    done
    mkdir "$work/$version" || exit 1
    for headers in "$work"/wheel/nvidia/*/include; do
        cp -R "$headers/." "$work/$version/" || exit 1
    done
    mv "$work/$version" "$folder/$version" || exit 1
    rm -rf "$work/wheel"
}

python3 -m pip --version >/dev/null 2>&1 || skip "Python's pip is not installed"
mkdir -p "$folder" || exit 1
work=$(mktemp -d "$folder/work-XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
get 12 nvidia-cuda-cupti-cu12==12.9.79 nvidia-cuda-runtime-cu12==12.9.79 nvidia-nvtx-cu12==12.9.79 \
    nvidia-nvml-dev-cu12==12.9.79
get 13 nvidia-cuda-cupti~=13.5.0 nvidia-cuda-runtime~=13.5.0 nvidia-cuda-crt~=13.5.0 nvidia-nvtx~=13.5.0 \
    nvidia-nvml-dev~=13.5.0

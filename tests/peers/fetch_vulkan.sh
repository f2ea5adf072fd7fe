#!/bin/sh
# Get ncnn and wgpu, which compute with Vulkan, into FOLDER, from PyPI. fetch_vulkan.sh FOLDER. Says why and
# ends with 77 if one of them cannot be had.
set -u
packages='ncnn==1.0.20261020 wgpu==0.32.0 numpy'
folder=$1

skip() {
    echo "peer: $1"
    exit 77
}

test -e "$folder/complete" && exit 0
python3 -m venv "$folder" >/dev/null 2>&1 || skip "Python's venv is not installed"
# shellcheck disable=SC2086
timeout 600 "$folder/bin/pip" install --quiet $packages >/dev/null 2>&1 ||
    skip "$packages cannot be fetched"
touch "$folder/complete"

#!/bin/sh
# Get PyTorch from PyPI into a virtual environment at FOLDER. Its package needs libraries for GPUs even
# on a CPU: 6 GB. What tools/capture has fetched is used where it is.
# fetch_torch.sh FOLDER. Says why and ends with 77 if it cannot be had.
set -u
version=2.15.0
folder=$1
captured=${CKINETO_CAPTURE:-/srv/capture}/torch-$version

skip() {
    echo "peer: $1"
    exit 77
}

works() {
    CUDA_VISIBLE_DEVICES='' "$1/bin/python" -c 'import torch' 2>/dev/null
}

if works "$folder"; then
    exit 0
fi
rm -rf "$folder"
if works "$captured"; then
    mkdir -p "$(dirname "$folder")"
    ln -s "$captured" "$folder"
    exit 0
fi
python3 -m venv "$folder" >/dev/null 2>&1 || skip "Python's venv is not installed"
timeout 1800 "$folder/bin/python" -m pip install --quiet --no-compile "torch==$version" numpy \
    >/dev/null 2>&1 || skip "torch==$version cannot be fetched"
works "$folder" || skip "torch==$version does not run here"

#!/bin/sh
# Get Lightning and transformers from PyPI into a virtual environment at FOLDER, on top of the PyTorch that
# fetch_torch.sh has put at TORCH.
# fetch_training.sh FOLDER TORCH. Says why and ends with 77 if they cannot be had.
set -u
folder=$1
torch=$2

skip() {
    echo "peer: $1"
    exit 77
}

works() {
    CUDA_VISIBLE_DEVICES='' "$folder/bin/python" -c 'import lightning.pytorch, transformers, accelerate' 2>/dev/null
}

if works; then
    exit 0
fi
packages=$("$torch/bin/python" -c 'import torch, os; print(os.path.dirname(os.path.dirname(torch.__file__)))' 2>/dev/null) ||
    skip "there is no PyTorch for Lightning and transformers"
rm -rf "$folder"
"$torch/bin/python" -m venv "$folder" >/dev/null 2>&1 || skip "Python's venv is not installed"
for site in "$folder"/lib/python3*/site-packages; do
    echo "$packages" >"$site/torch.pth"
done
timeout 900 "$folder/bin/python" -m pip install --quiet --no-compile lightning==2.6.6 transformers==5.24.0 accelerate \
    >/dev/null 2>&1 || skip "Lightning and transformers cannot be fetched"
works || skip "Lightning and transformers do not run here"

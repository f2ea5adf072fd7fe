#!/bin/sh
# Get Arrow's Python package into a virtual environment at FOLDER.
# fetch_arrow.sh FOLDER. Says why and ends with 77 if it cannot be had.
set -u
package=pyarrow==26.0.1
folder=$1

skip() {
    echo "peer: $1"
    exit 77
}

works() {
    "$folder/bin/python" -c 'import pyarrow' 2>/dev/null
}

if works; then
    exit 0
fi
rm -rf "$folder"
python3 -m venv "$folder" >/dev/null 2>&1 || skip "Python's venv is not installed"
timeout 300 "$folder/bin/python" -m pip install --quiet "$package" >/dev/null 2>&1 ||
    skip "$package cannot be fetched"
works || skip "$package does not run here"

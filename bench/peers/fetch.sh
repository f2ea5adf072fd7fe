#!/bin/sh
# Install the readers from Python's package index into a virtual environment at FOLDER.
# fetch.sh FOLDER. If that fails, it prints the reason and exits with 77.
set -u
packages='pandas==3.1.1 duckdb==2.0.0 orjson==3.13.0'
folder=$1

works() {
    "$folder/bin/python" -c 'import duckdb, orjson, pandas' 2>/dev/null
}

works && exit 0
rm -rf "$folder"
# shellcheck disable=SC2086 # a list
{ python3 -m venv "$folder" && timeout 300 "$folder/bin/python" -m pip install --quiet $packages; } >/dev/null 2>&1
works || {
    echo "bench: pandas, duckdb and orjson cannot be had"
    exit 77
}

#!/bin/sh
# Get the Python SDK of the Model Context Protocol into a virtual environment at FOLDER.
# fetch_mcp.sh FOLDER. Says why and ends with 77 if it cannot be had.
set -u
package=mcp==2.3.0
folder=$1

skip() {
    echo "peer: $1"
    exit 77
}

works() {
    "$folder/bin/python" -c 'import mcp' 2>/dev/null
}

if works; then
    exit 0
fi
rm -rf "$folder"
python3 -m venv "$folder" >/dev/null 2>&1 || skip "Python's venv is not installed"
timeout 300 "$folder/bin/python" -m pip install --quiet "$package" >/dev/null 2>&1 ||
    skip "$package cannot be fetched"
works || skip "$package does not run here"

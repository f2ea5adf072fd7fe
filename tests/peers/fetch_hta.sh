#!/bin/sh
# Get Holistic Trace Analysis into a virtual environment at FOLDER, with what it needs to compute: it
# names a notebook server too.
# fetch_hta.sh FOLDER. Says why and ends with 77 if it cannot be had.
set -u
package=HolisticTraceAnalysis==0.5.0
needs='networkx numpy pandas plotly psutil pydot python-dateutil pyyaml setuptools'
folder=$1

skip() {
    echo "peer: $1"
    exit 77
}

works() {
    "$folder/bin/python" -c 'import hta.trace_analysis' 2>/dev/null
}

if works; then
    exit 0
fi
rm -rf "$folder"
python3 -m venv "$folder" >/dev/null 2>&1 || skip "Python's venv is not installed"
# shellcheck disable=SC2086 # a list
{
    timeout 300 "$folder/bin/python" -m pip install --quiet $needs &&
        timeout 60 "$folder/bin/python" -m pip install --quiet --no-deps "$package"
} >/dev/null 2>&1 || skip "$package cannot be fetched"
works || skip "$package does not run here"

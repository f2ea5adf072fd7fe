#!/bin/sh
# Get Intel's OpenMP runtime into FOLDER, from the Python package that carries it. fetch_openmp.sh FOLDER. Says why
# and ends with 77 if it cannot be had.
set -u
package='intel-openmp==2026.2.0'
folder=$1

skip() {
    echo "peer: $1"
    exit 77
}

test -e "$folder/lib/libiomp5.so" && exit 0
test "$(uname -m)" = x86_64 || skip "Intel's runtime is for x86-64"
python3 -m venv "$folder" >/dev/null 2>&1 || skip "Python's venv is not installed"
timeout 600 "$folder/bin/pip" install --quiet "$package" >/dev/null 2>&1 || skip "$package cannot be fetched"
test -e "$folder/lib/libiomp5.so" || skip "$package has no libiomp5.so"
